//! Reads the network of a scenario: paths, a kind of topology, or any graph of nodes and links.
//!
//! All three become a [`Graph`]. A host has an interface for each link that leaves it. The host that connects
//! has an address on each interface, which determines the interface by which packets leave and arrive; the
//! host that listens has one address, unless it connects as well.

mod elements;
mod pairs;

use std::collections::BTreeMap;

use anabranch_link::{Capacity, LinkConfig, Loss, LossDraws};
use anabranch_sim::routing::{self, Layout};
use anabranch_stack::config::Profile;
use anabranch_units::Duration;

pub(super) use self::pairs::PATTERNS;
use self::pairs::permutation;
use super::files::Files;
use super::{change, link, path, queueing, sides};
use crate::model::{Direction, Form, Graph, GraphNode, Link, Pair, Path, TraceStart};
use crate::text::keys::{Keys, Kinds, Sides, rows};
use crate::text::reader::{Reader, list};
use crate::text::source::{Problem, Span, did_you_mean};
use crate::text::tree::Node;

rows! {
    /// The keys of a `[[node]]`.
    NODE_ROWS, NODE_KEYS {
        "name": Name, "its name";
        "kind": Choice(&["host", "router"]), "a host or a router; default a host";
    }
}
pub(crate) const NODE: Keys = Keys::new("node", &[NODE_ROWS]).requires(&["name"]);

/// The keys of a `[[link]]`.
pub(super) const LINK_KEYS: &[&str] =
    &link::join::<{ OWN_LINK_KEYS.len() + link::KEYS.len() }>(&[OWN_LINK_KEYS, link::KEYS]);

rows! {
    OWN_LINK_ROWS, OWN_LINK_KEYS {
        "name": Name, "name of the link; default `FROM-TO`";
        "from": Name, "the node at one end";
        "to": Name, "the node at the other end";
        "duplex": Bool, "`false`: only the direction from `from` to `to` exists; default true";
        "rate": Rate, "rate; this or `trace` is required";
        "trace": Text, "file with the times in milliseconds at which a packet can be sent";
        "trace-start": AnyOf(&[Choice(&["random", "together"]), Time]), "where in a trace runs begin";
        "delay": Time, "one-way propagation delay";
        "backup": Bool, "whether subflows from its interfaces are backups; default false";
        "change": List(&Table(&LINK_CHANGE)), "changes during the run, in order of time";
        "change-every": Time, "interval at which the changes repeat";
    }
}
pub(crate) const LINK: Keys = Keys {
    one_of: &[&["rate", "trace"]],
    sides: Some(LINK_SIDES),
    ..Keys::new("link", &[OWN_LINK_ROWS, link::ROWS]).requires(&["from", "to", "delay"])
};
const LINK_CHANGE: Keys =
    Keys { sides: Some(LINK_SIDES), ..Keys::new("link-change", &[change::LINK_ROWS]).requires(&["at"]) };
const LINK_SIDES: Sides = Sides { pairs: &[sides::WAYS], whole: sides::LINK_WHOLE };

rows! {
    /// The keys of a `[[route]]`.
    ROUTE_ROWS, ROUTE_KEYS {
        "from": Name, "the host at the start";
        "to": Name, "the host at the end";
        "via": OneOrMore(&Name), "the nodes between them";
        "links": List(&Name), "the links, in place of `via`";
        "one-way": Bool, "whether the way back is another; default false";
    }
}
pub(crate) const ROUTE: Keys =
    Keys { one_of: &[&["via", "links"]], ..Keys::new("route", &[ROUTE_ROWS]).requires(&["from", "to"]) };

rows! {
    /// The keys of `[topology]`.
    TOPOLOGY_ROWS, TOPOLOGY_KEYS {
        "kind": Named(|| KINDS.map(|(name, _)| name).to_vec()), "the kind of topology";
        "rate": Rate, "rate of the common link, of the bottleneck, or of every link of a fat tree";
        "rtt": Time, "round-trip time of the common link; default 0";
        "queue": Queue, "length of the queue; default 1 BDP";
        "ecn-threshold": Queue, "queue above which packets of ECN connections are marked; default none";
        "aqm": AnyOf(&[Choice(&queueing::KINDS), Table(&queueing::AQM)]), "queue management; default drop-tail";
        "loss": Probability, "independent loss of packets; default 0";
        "delay": Time, "one-way propagation delay of a link";
        "hosts": Whole(1, 1000), "number of hosts on each side; default 2";
        "access-rate": Rate, "rate of the hosts' own links; default that of the bottleneck";
        "access-delay": Time, "delay of the hosts' own links; default 0";
        "k": Whole(2, 32), "number of ports of a switch, an even number";
    }
}
pub(crate) const TOPOLOGY: Keys = Keys {
    kinds: Some(Kinds { key: "kind", default: None, common: &["kind"], own: || KINDS.to_vec() }),
    ..Keys::new("topology", &[TOPOLOGY_ROWS]).requires(&["kind"])
};

/// The kinds of `[topology]`, each with its keys.
const KINDS: [(&str, &[&str]); 4] = [
    ("disjoint", &[]),
    ("shared", &["rate", "rtt", "queue", "ecn-threshold", "aqm", "loss"]),
    (
        "dumbbell",
        &["hosts", "rate", "delay", "queue", "ecn-threshold", "aqm", "loss", "access-rate", "access-delay"],
    ),
    ("fat-tree", &["k", "rate", "delay", "queue", "ecn-threshold", "aqm", "loss"]),
];

/// The largest number of nodes, and of links, of a graph.
const MOST: usize = 100_000;

/// The network of a scenario, and the pairs of hosts requested so far.
pub(super) struct Network {
    pub graph: Graph,
    pub pairs: Vec<Pair>,
    direction: Direction,
    /// The direction of the class for which pairs are requested.
    facing: Direction,
    /// For each link: its counterpart, and whether its interfaces are backups.
    back: Vec<Option<usize>>,
    backup: Vec<bool>,
    /// The place in the source where each link was described, and its name without its direction.
    spans: Vec<Span>,
    names: Vec<String>,
    /// Explicit routes: the two hosts, and the links.
    routes: Vec<(usize, usize, Vec<usize>)>,
    /// The default pairs of senders and receivers.
    usual: Vec<(usize, usize)>,
    /// The positions of pairs by client and server.
    known: BTreeMap<(usize, usize), usize>,
    forwards: Vec<bool>,
    ends: Vec<(usize, usize)>,
}

impl Network {
    /// Reads the network described by the keys `path`, `topology`, `node`, `link` and `route` of a scenario.
    pub(super) fn read(
        reader: &Reader<'_>,
        end: &Span,
        files: &Files<'_>,
        profile: Profile,
        direction: Direction,
    ) -> Result<Network, Problem> {
        let graph_keys = ["node", "link", "route"].map(|key| reader.get(key));
        let topology = match reader.get("topology") {
            Some(node) => Some((Reader::of(node, "topology", TOPOLOGY_KEYS)?, kind(node)?)),
            None => None,
        };
        let kind = topology.as_ref().map_or(0, |(_, kind)| *kind);
        let is_graph = graph_keys.iter().flatten().next();
        if let (Some(_), Some((table, _))) = (is_graph, &topology) {
            return Err(Problem::at(table.span, "a graph of nodes and links has no `topology`")
                .help(format!("remove this (`{}`), or the nodes and links", KINDS[kind].0)));
        }
        if let Some(paths) = reader.get("path") {
            if let Some(other) = is_graph {
                return Err(Problem::at(&other.span, "there are paths as well as nodes and links")
                    .help("describe the network by `[[path]]` or by `[[node]]` and `[[link]]`"));
            }
            if let (Some(node), 2..) = (reader.get("topology"), kind) {
                return Err(Problem::at(&node.span, format!("a {} has no `[[path]]`", KINDS[kind].0))
                    .help("remove the paths, or write `kind = \"disjoint\"` or `kind = \"shared\"`"));
            }
            let paths = path::read_all(paths, files, profile, direction)?;
            let shared = match &topology {
                Some((table, 1)) => Some(shared(table)?),
                _ => None,
            };
            return Ok(Network::of_paths(paths, shared, direction));
        }
        match (&topology, is_graph) {
            (Some((table, 2)), _) => dumbbell(table, profile, direction),
            (Some((table, 3)), _) => fat_tree(table, profile, direction),
            (None, Some(_)) => elements::graph(reader, end, files, profile, direction),
            _ => Err(Problem::at(end, "there is no path")
                .help("add for example `[[path]]` with `rate = \"100 Mbit/s\"` and `rtt = \"20 ms\"`")),
        }
    }

    fn new(form: Form, direction: Direction) -> Network {
        Network {
            graph: Graph { form, nodes: Vec::new(), links: Vec::new() },
            pairs: Vec::new(),
            direction,
            facing: direction,
            back: Vec::new(),
            backup: Vec::new(),
            spans: Vec::new(),
            names: Vec::new(),
            routes: Vec::new(),
            usual: Vec::new(),
            known: BTreeMap::new(),
            forwards: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Returns one client and one server with a path for every interface, and with `shared` a link that all
    /// cross.
    fn of_paths(paths: Vec<path::Described>, shared: Option<Shared>, direction: Direction) -> Network {
        let mut network = Network::new(Form::Paths { shared: shared.is_some() }, direction);
        let client = network.node("client", false);
        let server = network.node("server", false);
        let mut common = None;
        // The far end of the paths: the server, or the start of the common link.
        let mut junction = server;
        if let Some(shared) = shared {
            junction = network.node("junction", true);
            // A name that no path has.
            let mut name = "common link".to_owned();
            while paths.iter().any(|path| path.name == name) {
                name.push('\'');
            }
            let apart = paths.iter().all(|path| path.data.loss_draws == LossDraws::Separate);
            let acks = LinkConfig {
                aqm: shared.aqm,
                capacity: Capacity::Rate(shared.rate),
                delay: shared.rtt / 2,
                queue: shared.queue,
                ecn_threshold: shared.ecn_threshold,
                loss_draws: if apart { LossDraws::Separate } else { LossDraws::Shared },
                ..LinkConfig::default()
            };
            let data = LinkConfig { loss: shared.loss, ..acks.clone() };
            common = Some(network.both_ways((junction, server), &name, [shared.rtt; 2], data, acks));
        }
        let mut own = Vec::new();
        for path in &paths {
            let (data, acks) = (path.data.clone(), path.acks.clone());
            let rtts =
                [data.delay, acks.delay].map(|delay| if path.is_even() { path.rtt } else { delay * 2 });
            let [up, down] = network.both_ways((client, junction), &path.name, rtts, data, acks);
            let data_first = direction == Direction::Upload;
            for (link, part) in [
                (up, if data_first { "data" } else { "acks" }),
                (down, if data_first { "acks" } else { "data" }),
            ] {
                let link = &mut network.graph.links[link];
                link.trace_start = path.trace_start;
                link.phase_stream = Some(format!("phase.{}.{part}", path.name));
            }
            network.graph.links[up].signals.clone_from(&path.signals);
            own.push([up, down]);
        }
        let path = |(described, [up, down]): (&path::Described, &[usize; 2])| {
            let (mut there, mut here) = (vec![*up], vec![*down]);
            if let Some([up, down]) = common {
                there.push(up);
                here.insert(0, down);
            }
            let (data, acks) = match direction {
                Direction::Upload => (there, here),
                Direction::Download => (here, there),
            };
            Path {
                name: described.name.clone(),
                backup: described.backup,
                endpoint: described.endpoint,
                middlebox: described.middlebox,
                tariff: described.tariff,
                data: vec![data],
                acks: vec![acks],
            }
        };
        let paths = paths.iter().zip(&own).map(path).collect();
        network.pairs.push(Pair { client, server, paths });
        network.usual.push((client, server));
        network
    }

    fn node(&mut self, name: &str, is_router: bool) -> usize {
        self.graph.nodes.push(GraphNode { name: name.to_owned(), is_router });
        self.forwards.push(is_router);
        self.graph.nodes.len() - 1
    }

    fn link(
        &mut self,
        (from, to): (usize, usize),
        name: String,
        rtt: Duration,
        config: LinkConfig,
        of: &str,
        span: &Span,
    ) -> usize {
        let trace_stream = format!("trace.{of}.start");
        let phase_stream = None;
        let trace_start = TraceStart::Beginning;
        self.graph.links.push(Link {
            name,
            from,
            to,
            config,
            rtt,
            trace_start,
            trace_stream,
            phase_stream,
            signals: Vec::new(),
        });
        self.back.push(None);
        self.backup.push(false);
        self.spans.push(span.clone());
        self.names.push(of.to_owned());
        self.ends.push((from, to));
        self.graph.links.len() - 1
    }

    /// Adds the links of a path, `NAME.up` from the client's side to the server's and `NAME.down`; `rtts` are their parts
    /// of the round-trip time, twice the delay.
    fn both_ways(
        &mut self,
        (client, server): (usize, usize),
        name: &str,
        rtts: [Duration; 2],
        data: LinkConfig,
        acks: LinkConfig,
    ) -> [usize; 2] {
        let [data, acks] = [(data, rtts[0]), (acks, rtts[1])];
        let ((up, up_rtt), (down, down_rtt)) = match self.direction {
            Direction::Upload => (data, acks),
            Direction::Download => (acks, data),
        };
        let span = Span::default();
        [
            self.link((client, server), format!("{name}.up"), up_rtt, up, name, &span),
            self.link((server, client), format!("{name}.down"), down_rtt, down, name, &span),
        ]
    }

    /// Adds a link of a graph, and with the settings `back` its counterpart, `NAME.back`.
    fn wire(
        &mut self,
        (from, to): (usize, usize),
        name: &str,
        config: &LinkConfig,
        back: Option<&LinkConfig>,
        span: &Span,
    ) -> usize {
        let there = self.link((from, to), name.to_owned(), config.delay * 2, config.clone(), name, span);
        self.graph.links[there].phase_stream = Some(format!("phase.{name}"));
        if let Some(config) = back {
            let back = format!("{name}.back");
            let here = self.link((to, from), back.clone(), config.delay * 2, config.clone(), name, span);
            self.graph.links[here].phase_stream = Some(format!("phase.{back}"));
            (self.back[there], self.back[here]) = (Some(here), Some(there));
        }
        there
    }

    /// Returns the paths by which results name them, once all pairs of the flows are known.
    pub(super) fn paths(&self) -> &[Path] {
        self.pairs.iter().rev().max_by_key(|pair| pair.paths.len()).map_or(&[], |pair| &pair.paths)
    }

    /// Returns the position of the host that `node` names.
    fn host(&self, node: &Node) -> Result<usize, Problem> {
        let at = self.find(node)?;
        if self.graph.nodes[at].is_router {
            return Err(Problem::at(&node.span, format!("`{}` is a router", self.graph.nodes[at].name))
                .help("data is sent between hosts; give it `kind = \"host\"`, or name another node"));
        }
        Ok(at)
    }

    fn find(&self, node: &Node) -> Result<usize, Problem> {
        let name = node.name()?;
        let names = || self.graph.nodes.iter().map(|node| node.name.as_str());
        names().position(|other| other == name).ok_or_else(|| {
            let problem = Problem::at(&node.span, format!("there is no node `{name}`"));
            match did_you_mean(&name, names()) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None if self.graph.nodes.len() <= 20 => {
                    problem.help(format!("the nodes are {}", list(&names().collect::<Vec<_>>())))
                }
                None => problem.help("give it as a `[[node]]`"),
            }
        })
    }

    fn hosts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.graph.nodes.len()).filter(|&at| !self.graph.nodes[at].is_router)
    }

    /// Sets for each link the greatest round-trip time of the paths that cross it, for queues in BDP.
    pub(super) fn finish(mut self) -> (Graph, Vec<Pair>) {
        let mut greatest: Vec<Option<Duration>> = vec![None; self.graph.links.len()];
        for path in self.pairs.iter().flat_map(|pair| &pair.paths) {
            let rtt = self.graph.path_rtt(path);
            for &link in path.data.iter().chain(&path.acks).flatten() {
                greatest[link] = greatest[link].max(Some(rtt));
            }
        }
        for (link, rtt) in self.graph.links.iter_mut().zip(greatest) {
            link.config.rtt = rtt;
        }
        (self.graph, self.pairs)
    }
}

/// Reads the kind of topology; returns its position and all its keys.
fn kind(node: &Node) -> Result<usize, Problem> {
    let table = Reader::of(node, "topology", TOPOLOGY_KEYS)?;
    let names = KINDS.map(|(name, _)| name);
    let kind = table.required("kind", "\"shared\"", |node| node.choice("topology", &names))?;
    let (name, keys) = KINDS[kind];
    let stray = TOPOLOGY_KEYS[1..]
        .iter()
        .filter(|key| !keys.contains(key))
        .find_map(|key| Some((key, table.get(key)?)));
    match stray {
        Some((_, node)) if kind == 0 => Err(Problem::at(&node.span, "disjoint paths have no common link")
            .help("write `kind = \"shared\"`, or remove this")),
        Some((key, node)) => {
            Err(Problem::at(&node.span, format!("a topology of kind `{name}` has no `{key}`"))
                .help(format!("its keys are {}", list(keys))))
        }
        None => Ok(kind),
    }
}

/// The link that all paths share, in series with each of them.
struct Shared {
    rate: anabranch_units::Rate,
    rtt: Duration,
    queue: anabranch_link::QueueLimit,
    ecn_threshold: Option<anabranch_link::QueueLimit>,
    aqm: anabranch_link::Aqm,
    loss: Loss,
}

fn shared(table: &Reader<'_>) -> Result<Shared, Problem> {
    Ok(Shared {
        rate: table.required("rate", "\"100 Mbit/s\"", Node::rate)?,
        rtt: table.optional("rtt", Node::delay)?.unwrap_or(Duration::ZERO),
        queue: table.optional("queue", Node::queue)?.unwrap_or(LinkConfig::default().queue),
        ecn_threshold: table.optional("ecn-threshold", Node::queue)?,
        aqm: table.optional("aqm", queueing::aqm)?.unwrap_or_default(),
        loss: Loss::bernoulli(table.optional("loss", Node::probability)?.unwrap_or(0.0)),
    })
}

/// Reads the bottleneck of a dumbbell, or every link of a fat tree.
fn uniform(table: &Reader<'_>, profile: Profile) -> Result<LinkConfig, Problem> {
    Ok(LinkConfig {
        capacity: Capacity::Rate(table.required("rate", "\"100 Mbit/s\"", Node::rate)?),
        delay: table.required("delay", "\"10 ms\"", Node::delay)?,
        queue: table.optional("queue", Node::queue)?.unwrap_or(LinkConfig::default().queue),
        ecn_threshold: table.optional("ecn-threshold", Node::queue)?,
        aqm: table.optional("aqm", queueing::aqm)?.unwrap_or_default(),
        loss: Loss::bernoulli(table.optional("loss", Node::probability)?.unwrap_or(0.0)),
        loss_draws: if profile == Profile::Linux { LossDraws::Separate } else { LossDraws::Shared },
        ..LinkConfig::default()
    })
}

/// Returns pairs of hosts `left1` and `right1` and so on, each with its own link to either end of one
/// bottleneck.
fn dumbbell(table: &Reader<'_>, profile: Profile, direction: Direction) -> Result<Network, Problem> {
    let bottleneck = uniform(table, profile)?;
    let hosts = table.optional("hosts", |node| node.integer(1, 1000))?.unwrap_or(2) as usize;
    let rate = table.optional("access-rate", Node::rate)?;
    let access = LinkConfig {
        capacity: rate.map_or(bottleneck.capacity.clone(), Capacity::Rate),
        delay: table.optional("access-delay", Node::delay)?.unwrap_or(Duration::ZERO),
        loss: Loss::None,
        ..bottleneck.clone()
    };
    let mut network = Network::new(Form::Graph, direction);
    let [left, right] = ["left", "right"].map(|name| network.node(name, true));
    network.wire((left, right), "bottleneck", &bottleneck, Some(&bottleneck), table.span);
    for number in 1..=hosts {
        let [from, to] =
            [format!("left{number}"), format!("right{number}")].map(|name| network.node(&name, false));
        network.wire((from, left), &format!("left{number}"), &access, Some(&access), table.span);
        network.wire((right, to), &format!("right{number}"), &access, Some(&access), table.span);
        network.usual.push((from, to));
    }
    Ok(network)
}

/// Returns a fat tree in which each host sends to one other.
fn fat_tree(table: &Reader<'_>, profile: Profile, direction: Direction) -> Result<Network, Problem> {
    let ports = table.required("k", "4", |node| {
        let ports = node.integer(2, 32)?;
        match ports % 2 {
            0 => Ok(ports as usize),
            _ => Err(Problem::at(&node.span, format!("a fat tree of {ports} ports cannot be made"))
                .help("half of the ports of a switch lead up: give an even number")),
        }
    })?;
    let config = uniform(table, profile)?;
    let mut network = Network::new(Form::Graph, direction);
    let Layout { nodes, joins } = routing::fat_tree(ports);
    for (name, is_router) in &nodes {
        network.node(name, *is_router);
    }
    for (a, b) in joins {
        network.wire((a, b), &format!("{}-{}", nodes[a].0, nodes[b].0), &config, Some(&config), table.span);
    }
    network.usual = permutation(&network.hosts().collect::<Vec<_>>());
    Ok(network)
}
