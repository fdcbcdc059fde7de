//! Reads the nodes, the links and the routes of a graph.

use anabranch_link::{Capacity, LinkConfig};
use anabranch_stack::config::Profile;

use super::{LINK_KEYS, MOST, NODE_KEYS, Network, ROUTE_KEYS};
use crate::model::{Direction, Form};
use crate::read::files::Files;
use crate::read::{change, link, sides};
use crate::text::reader::Reader;
use crate::text::source::{Problem, Span, did_you_mean};
use crate::text::tree::{Node, Table, Value};

/// The network of the keys `node`, `link` and `route`.
pub(super) fn graph(
    reader: &Reader<'_>,
    end: &Span,
    files: &Files<'_>,
    profile: Profile,
    direction: Direction,
) -> Result<Network, Problem> {
    let mut network = Network::new(Form::Graph, direction);
    let Some(nodes) = reader.get("node") else {
        return Err(Problem::at(end, "there are links and no nodes")
            .help("add the hosts and routers, each as a `[[node]]`"));
    };
    let nodes = nodes.array().map_err(|problem| problem.help("write each host or router as `[[node]]`"))?;
    for node in nodes {
        let table = Reader::of(node, "a node", NODE_KEYS)?;
        let name = table.required("name", "\"phone\"", Node::name)?;
        let kind = table.optional("kind", |node| node.choice("kind of node", &["host", "router"]))?;
        if network.graph.nodes.iter().any(|other| other.name == name) {
            return Err(Problem::at(
                &table.get("name").unwrap_or(node).span,
                format!("two nodes are called `{name}`"),
            )
            .help("give each node a name of its own"));
        }
        network.node(&name, kind == Some(1));
    }
    let Some(links) = reader.get("link") else {
        return Err(Problem::at(end, "there are nodes and no links")
            .help("join the nodes, each time by a `[[link]]`"));
    };
    let links = links.array().map_err(|problem| problem.help("write each link as `[[link]]`"))?;
    if nodes.len() > MOST || links.len() > MOST {
        return Err(Problem::at(end, format!("there are {} nodes and {} links", nodes.len(), links.len()))
            .help(format!("give at most {MOST} of each")));
    }
    for node in links {
        read_link(&mut network, node, files, profile)?;
    }
    if let Some(routes) = reader.get("route") {
        for node in routes.array().map_err(|problem| problem.help("write each route as `[[route]]`"))? {
            read_route(&mut network, node)?;
        }
    }
    Ok(network)
}

fn read_link(network: &mut Network, node: &Node, files: &Files<'_>, profile: Profile) -> Result<(), Problem> {
    let table = Reader::of(node, "a link", LINK_KEYS)?;
    let from = table.required("from", "\"phone\"", |node| network.find(node))?;
    let to = table.required("to", "\"router\"", |node| network.find(node))?;
    if from == to {
        return Err(Problem::at(
            &table.get("to").unwrap_or(node).span,
            format!("this link leads from `{0}` to `{0}`", network.graph.nodes[from].name),
        )
        .help("name two nodes"));
    }
    let given = table.optional("name", Node::name)?;
    let name = given
        .unwrap_or_else(|| format!("{}-{}", network.graph.nodes[from].name, network.graph.nodes[to].name));
    let name_span = &table.get("name").unwrap_or(node).span;
    if LINK_KEYS.contains(&name.as_str()) {
        return Err(Problem::at(name_span, format!("a link cannot be called `{name}`"))
            .help("that is a key of every link; choose another name"));
    }
    let taken = |name: &str| network.graph.links.iter().any(|link| link.name == name);
    if taken(&name) || taken(&format!("{name}.back")) {
        return Err(Problem::at(name_span, format!("two links are called `{name}`"))
            .help("give each link a name of its own"));
    }
    let trace_start = link::trace_start(&table, "a link")?;
    let duplex = table.optional("duplex", Node::boolean)?.unwrap_or(true);
    let written = node.table("a link")?;
    if let (false, Some(entry)) = (duplex, sides::given_back(written)) {
        return Err(Problem::at(&entry.key_span, "this link has one direction, and none back")
            .help("remove this value, or `duplex = false`"));
    }
    let ways = sides::split_link(written, false)?;
    let read = |side: &Table| -> Result<LinkConfig, Problem> {
        let table = Reader::new(side, &node.span, "a link", LINK_KEYS)?;
        let mut config = LinkConfig {
            capacity: link::started(capacity(&table, &name, files)?, trace_start),
            delay: table.required("delay", "\"10 ms\"", Node::delay)?,
            loss: link::loss(&table, "a link")?,
            ..link::carrier(&table, profile)?
        };
        link::impair(&table, &mut config)?;
        link::redraw(&table, "delay", &format!("link.{name}"), &mut config)?;
        Ok(config)
    };
    let (mut forth, mut back) = (read(&ways.data)?, read(&ways.acks)?);
    let split = |node: &Node| sides::split_link(node.table("a change of a link")?, true);
    let signals = change::read(&table, &change::LINK, files, split, &mut forth, Some(&mut back))?;
    let backup = table.optional("backup", Node::boolean)?.unwrap_or(false);
    let there = network.wire((from, to), &name, &forth, duplex.then_some(&back), table.span);
    for at in [Some(there), network.back[there]].into_iter().flatten() {
        network.graph.links[at].trace_start = trace_start;
        network.graph.links[at].signals.clone_from(&signals);
        network.backup[at] = backup;
    }
    Ok(())
}

/// Reads the capacity of a direction of the link `name`.
fn capacity(table: &Reader<'_>, name: &str, files: &Files<'_>) -> Result<Capacity, Problem> {
    match (table.get("rate"), table.get("trace")) {
        (Some(rate), None) => Ok(Capacity::Rate(rate.rate()?)),
        (None, Some(trace)) => Ok(Capacity::from(files.trace(trace)?)),
        (Some(_), Some(trace)) => {
            Err(Problem::at(&trace.span, "a link has either a rate or a trace")
                .help("remove `rate` or `trace`"))
        }
        (None, None) => Err(Problem::at(table.span, format!("link `{name}` has neither `rate` nor `trace`"))
            .help("add for example `rate = \"100 Mbit/s\"`")),
    }
}

fn read_route(network: &mut Network, node: &Node) -> Result<(), Problem> {
    let table = Reader::of(node, "a route", ROUTE_KEYS)?;
    let from = table.required("from", "\"phone\"", |node| network.host(node))?;
    let to = table.required("to", "\"server\"", |node| network.host(node))?;
    let (links, span) = match (table.get("via"), table.get("links")) {
        (Some(node), None) => {
            let items = match &node.value {
                Value::Array(items) => items.as_slice(),
                _ => core::slice::from_ref(node),
            };
            let via = items.iter().map(|item| network.find(item)).collect::<Result<Vec<_>, _>>()?;
            let stops = [&[from], via.as_slice(), &[to]].concat();
            let links = stops.windows(2).map(|step| one_link(network, step[0], step[1], &node.span));
            (links.collect::<Result<Vec<_>, _>>()?, &node.span)
        }
        (None, Some(node)) => (named_links(network, node, from)?, &node.span),
        _ => {
            return Err(Problem::at(table.span, "a route is given by its nodes or by its links")
                .help("add `via`, with the nodes between the two hosts, or `links`"));
        }
    };
    let name = |at: usize| network.graph.nodes[at].name.as_str();
    let mut passed = vec![from];
    for &link in &links {
        let (_, end) = network.ends[link];
        if passed.contains(&end) {
            return Err(Problem::at(span, format!("this route comes to `{}` twice", name(end)))
                .help("a route has no loop"));
        }
        if let Some(&host) = passed[1..].iter().find(|&&at| !network.forwards[at]) {
            return Err(Problem::at(span, format!("this route passes the host `{}`", name(host)))
                .help("only routers forward packets; give it `kind = \"router\"`"));
        }
        passed.push(end);
    }
    if passed.last() != Some(&to) {
        let end = passed.last().map_or("", |&at| name(at));
        return Err(Problem::at(span, format!("this route ends at `{end}` and not at `{}`", name(to)))
            .help("add the links that are missing"));
    }
    let back: Option<Vec<usize>> = links.iter().rev().map(|&link| network.back[link]).collect();
    let one_way = table.optional("one-way", Node::boolean)?.unwrap_or(false);
    network.routes.push((from, to, links));
    if let (Some(back), false) = (back, one_way) {
        network.routes.push((to, from, back));
    }
    Ok(())
}

/// Returns the only link from one node to another.
fn one_link(network: &Network, from: usize, to: usize, span: &Span) -> Result<usize, Problem> {
    let name = |at: usize| &network.graph.nodes[at].name;
    let mut links = (0..network.ends.len()).filter(|&link| network.ends[link] == (from, to));
    match (links.next(), links.next()) {
        (Some(link), None) => Ok(link),
        (None, _) => Err(Problem::at(span, format!("no link leads from `{}` to `{}`", name(from), name(to)))
            .help("name the nodes in the order in which packets pass them")),
        _ => Err(Problem::at(span, format!("several links lead from `{}` to `{}`", name(from), name(to)))
            .help("give the route by its `links`")),
    }
}

/// Reads the links that a route names, each in the direction of the route.
fn named_links(network: &Network, node: &Node, from: usize) -> Result<Vec<usize>, Problem> {
    let mut at = from;
    let mut links = Vec::new();
    for item in node.array()? {
        let name = item.name()?;
        let mut named = (0..network.ends.len()).filter(|&link| network.names[link] == name).peekable();
        if named.peek().is_none() {
            let problem = Problem::at(&item.span, format!("there is no link `{name}`"));
            return Err(match did_you_mean(&name, network.names.iter().map(String::as_str)) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help("a link is called by its `name`, or `FROM-TO` if it has none"),
            });
        }
        let Some(link) = named.find(|&link| network.ends[link].0 == at) else {
            return Err(Problem::at(
                &item.span,
                format!("link `{name}` does not lead on from `{}`", network.graph.nodes[at].name),
            )
            .help("name the links in the order in which packets cross them"));
        };
        at = network.ends[link].1;
        links.push(link);
    }
    if links.is_empty() {
        return Err(Problem::at(&node.span, "a route needs at least one link"));
    }
    Ok(links)
}
