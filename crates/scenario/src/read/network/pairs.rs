//! The pairs of hosts of a network that send data to each other, and the routes between them.

use anabranch_link::MiddleboxConfig;
use anabranch_sim::routing;
use anabranch_units::RandomStream;

use super::Network;
use crate::model::{Direction, Form, Pair, Path, Tariff};
use crate::text::reader::Reader;
use crate::text::source::{Problem, Span};
use crate::text::tree::{Node, Value};

/// The patterns of pairs of hosts.
pub(in crate::read) const PATTERNS: [&str; 2] = ["permutation", "incast"];

/// Returns each host with another one, every host once: a cycle over all of them (Sattolo's algorithm). It
/// depends only on their number, so that a scenario always has the same.
pub(super) fn permutation(hosts: &[usize]) -> Vec<(usize, usize)> {
    let mut to = hosts.to_vec();
    let mut stream = RandomStream::new(hosts.len() as u64, "traffic.permutation");
    for last in (1..to.len()).rev() {
        to.swap(last, stream.below(last as u64) as usize);
    }
    hosts.iter().copied().zip(to).collect()
}

impl Network {
    /// Reads the pairs of hosts that the keys `from`, `to` and `pattern` of `table` name: their positions.
    /// None if it has none of them.
    pub(in crate::read) fn named_pairs(&mut self, table: &Reader<'_>) -> Result<Option<Vec<usize>>, Problem> {
        let [from, to, pattern] = ["from", "to", "pattern"].map(|key| table.get(key));
        let Some(first) = from.or(to).or(pattern) else { return Ok(None) };
        if let Form::Paths { .. } = self.graph.form {
            return Err(Problem::at(&first.span, "paths lead between one client and one server")
                .help("hosts have names where the network is described by `[[node]]` and `[[link]]`, or is a dumbbell or a fat tree"));
        }
        let names = |node: Option<&Node>| -> Result<Option<Vec<usize>>, Problem> {
            let Some(node) = node else { return Ok(None) };
            match &node.value {
                Value::Array(items) => {
                    items.iter().map(|item| self.host(item)).collect::<Result<_, _>>().map(Some)
                }
                _ => Ok(Some(vec![self.host(node)?])),
            }
        };
        let (senders, receivers) = (names(from)?, names(to)?);
        let pattern = pattern.map(|node| Ok((node, node.choice("pattern", &PATTERNS)?))).transpose()?;
        let missing = |key: &str| {
            Problem::at(&first.span, format!("`{key}` is missing"))
                .help(format!("name the hosts: `from` sends the data and `to` receives them; add for example `{key} = \"{}\"`",
                    self.hosts().next().map_or("host", |at| &self.graph.nodes[at].name)))
        };
        let ends: Vec<(usize, usize)> = match (pattern, senders, receivers) {
            (Some((node, 0)), senders, None) => {
                let hosts = senders.unwrap_or_else(|| self.hosts().collect());
                if hosts.len() < 2 {
                    return Err(Problem::at(&node.span, "a permutation needs at least two hosts"));
                }
                permutation(&hosts)
            }
            (Some((node, _)), _, Some(_)) if pattern.is_some_and(|(_, kind)| kind == 0) => {
                return Err(Problem::at(&node.span, "in a permutation every host sends and receives")
                    .help("name them with `from`, or remove `to`"));
            }
            (Some(_), senders, Some(receivers)) => {
                let to = receivers[0];
                let senders = senders.unwrap_or_else(|| self.hosts().filter(|&host| host != to).collect());
                senders.into_iter().map(|from| (from, to)).collect()
            }
            (_, _, None) => return Err(missing("to")),
            (None, None, _) => return Err(missing("from")),
            (None, Some(senders), Some(receivers)) => {
                let most = senders.len().max(receivers.len());
                if senders.is_empty()
                    || receivers.is_empty()
                    || [senders.len(), receivers.len()].iter().any(|&n| n != 1 && n != most)
                {
                    return Err(Problem::at(
                        &first.span,
                        format!("there are {} senders and {} receivers", senders.len(), receivers.len()),
                    )
                    .help("give as many of the one as of the other, or a single one"));
                }
                let one = |hosts: &[usize], n: usize| hosts[n % hosts.len()];
                (0..most).map(|n| (one(&senders, n), one(&receivers, n))).collect()
            }
        };
        ends.into_iter()
            .map(|(from, to)| self.pair(from, to, &first.span))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Returns the number of pairs of the flows: those that `traffic` names, or the default ones.
    pub(in crate::read) fn flow_pairs(
        &mut self,
        traffic: Option<&Reader<'_>>,
        end: &Span,
    ) -> Result<usize, Problem> {
        let named = match traffic {
            Some(table) => self.named_pairs(table)?,
            None => None,
        };
        if named.is_none() && self.pairs.is_empty() {
            self.usual_pairs(traffic, end)?;
        }
        Ok(self.number_paths())
    }

    /// Returns the positions of the pairs of a class with data in `direction`: the pairs that it names, or the
    /// default ones.
    pub(in crate::read) fn class_pairs(
        &mut self,
        class: &Reader<'_>,
        direction: Direction,
        end: &Span,
    ) -> Result<Vec<usize>, Problem> {
        self.facing = direction;
        match (self.named_pairs(class)?, self.graph.form) {
            (Some(pairs), _) => Ok(pairs),
            (None, Form::Paths { .. }) => Ok(vec![0]),
            (None, Form::Graph) => self.usual_pairs(Some(class), end),
        }
    }

    fn usual_pairs(&mut self, traffic: Option<&Reader<'_>>, end: &Span) -> Result<Vec<usize>, Problem> {
        if self.usual.is_empty() {
            let span = traffic.map_or(end, |table| table.span);
            return Err(Problem::at(span, "nothing says which hosts talk to each other")
                .help("add `from` and `to` to `[traffic]`: `from` sends the data and `to` receives them"));
        }
        self.usual.clone().into_iter().map(|(from, to)| self.pair(from, to, end)).collect()
    }

    /// Names the interfaces by numbers if there are several pairs, and returns the number of pairs.
    pub(in crate::read) fn number_paths(&mut self) -> usize {
        if self.pairs.len() > 1 {
            // An interface has a different name on every host.
            for path in self.pairs.iter_mut().flat_map(|pair| pair.paths.iter_mut().enumerate()) {
                path.1.name = (path.0 + 1).to_string();
            }
        }
        self.pairs.len()
    }

    /// Returns the position of the pair in which `from` sends to `to`.
    fn pair(&mut self, from: usize, to: usize, span: &Span) -> Result<usize, Problem> {
        let name = |at: usize| self.graph.nodes[at].name.clone();
        if from == to {
            return Err(
                Problem::at(span, format!("`{}` would send to itself", name(from))).help("name two hosts")
            );
        }
        let (client, server) = match self.facing {
            Direction::Upload => (from, to),
            Direction::Download => (to, from),
        };
        if let Some(&known) = self.known.get(&(client, server)) {
            return Ok(known);
        }
        let interfaces: Vec<usize> =
            (0..self.ends.len()).filter(|&link| self.ends[link].0 == client).collect();
        let mut paths = Vec::with_capacity(interfaces.len());
        let mut lost = None;
        for interface in &interfaces {
            let up = self.routes_between(client, server, Some(*interface), false);
            let down = self.routes_between(server, client, self.back[*interface], true);
            if up.is_empty() || down.is_empty() {
                lost = lost.or(Some((*interface, up.is_empty())));
                continue;
            }
            let (data, acks) = match self.direction {
                Direction::Upload => (up, down),
                Direction::Download => (down, up),
            };
            paths.push(Path {
                name: self.names[*interface].clone(),
                backup: self.backup[*interface],
                endpoint: None,
                middlebox: MiddleboxConfig::default(),
                tariff: Tariff::default(),
                data,
                acks,
            });
        }
        match lost {
            _ if paths.is_empty() => Err(Problem::at(
                span,
                format!("there is no way from `{}` to `{}` and back", name(client), name(server)),
            )
            .help("join them by links (and routers: a host does not forward packets)")),
            Some((interface, there)) => {
                let (link, client, server) = (&self.names[interface], name(client), name(server));
                let way = match there {
                    true => format!("no route from `{client}` to `{server}` begins with link `{link}`"),
                    false => format!("no route from `{server}` to `{client}` ends with link `{link}`"),
                };
                Err(Problem::at(&self.spans[interface], way).help(format!(
                    "join both ends of `{link}` to the rest, or remove it: it is an interface of `{client}`"
                )))
            }
            None => {
                self.known.insert((client, server), self.pairs.len());
                self.pairs.push(Pair { client, server, paths });
                Ok(self.pairs.len() - 1)
            }
        }
    }

    /// Returns the routes from `from` to `to` that begin with the link `with`, or if `at_end` end with it:
    /// explicit ones, or the shortest.
    fn routes_between(&self, from: usize, to: usize, with: Option<usize>, at_end: bool) -> Vec<Vec<usize>> {
        let fits = |route: &Vec<usize>| {
            with.is_none()
                || if at_end { route.last().copied() == with } else { route.first().copied() == with }
        };
        let explicit = self.routes.iter().filter(|(a, b, route)| (*a, *b) == (from, to) && fits(route));
        let explicit: Vec<Vec<usize>> = explicit.map(|(.., route)| route.clone()).collect();
        if !explicit.is_empty() {
            return explicit;
        }
        if !at_end {
            return routing::shortest_routes(&self.forwards, &self.ends, from, with, to);
        }
        // From the end to the beginning.
        let turned: Vec<(usize, usize)> = self.ends.iter().map(|&(a, b)| (b, a)).collect();
        let mut routes = routing::shortest_routes(&self.forwards, &turned, to, with, from);
        routes.iter_mut().for_each(|route| route.reverse());
        routes
    }
}
