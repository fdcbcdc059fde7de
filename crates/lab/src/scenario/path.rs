//! Reads the paths of a scenario: the short form of a network, in which one client and one server have a link in each
//! direction for each path.

use anabranch_link::{Capacity, LinkConfig, Loss};
use anabranch_stack::config::Profile;
use anabranch_units::Duration;

use super::document::Files;
use super::{TraceStart, link};
use crate::reader::Reader;
use crate::source::{Problem, Span};
use crate::tree::{self, Node, Table, Value};

/// The keys of a `[[path]]`.
pub(super) const KEYS: &[&str] =
    &link::join::<{ OWN_KEYS.len() + link::KEYS.len() }>(&[OWN_KEYS, link::KEYS]);

/// The keys that a link does not have.
const OWN_KEYS: &[&str] = &["name", "rate", "trace", "trace-start", "rtt", "loss-up", "backup", "change"];

/// The largest number of paths, equal to the largest number of subflows of a connection.
const MOST: usize = 32;

/// A path as a scenario describes it.
pub(super) struct Described {
    pub name: String,
    /// The round trip without load, half of it each way.
    pub rtt: Duration,
    /// The position in its traces at which runs begin.
    pub trace_start: TraceStart,
    /// The direction of the data.
    pub data: LinkConfig,
    /// The direction of the acknowledgements.
    pub acks: LinkConfig,
    /// True if subflows over it ask to be backups.
    pub backup: bool,
}

/// Reads all paths.
pub(super) fn read_all(node: &Node, files: &Files<'_>, profile: Profile) -> Result<Vec<Described>, Problem> {
    let nodes = node.array().map_err(|problem| problem.help("write each path as `[[path]]`"))?;
    if nodes.is_empty() || nodes.len() > MOST {
        return Err(Problem::at(&node.span, format!("there are {} paths", nodes.len()))
            .help(format!("give from 1 to {MOST}, each as a `[[path]]`")));
    }
    let mut paths: Vec<Described> = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let path = read(node, index, files, profile)?;
        if let Some(other) = paths.iter().position(|other| other.name == path.name) {
            let span = node.table("a path")?.get("name").map_or(&node.span, |entry| &entry.node.span);
            return Err(Problem::at(
                span,
                format!("paths {} and {} are both called `{}`", other + 1, index + 1, path.name),
            )
            .help("give each path a name of its own"));
        }
        paths.push(path);
    }
    Ok(paths)
}

fn read(node: &Node, index: usize, files: &Files<'_>, profile: Profile) -> Result<Described, Problem> {
    let path = Reader::of(node, "a path", KEYS)?;
    let name = match path.optional("name", Node::name)? {
        Some(name) if KEYS.contains(&name.as_str()) => {
            return Err(Problem::at(
                &path.get("name").unwrap_or(node).span,
                format!("a path cannot be called `{name}`"),
            )
            .help("that is a key of every path; choose another name"));
        }
        Some(name) => name,
        None => (index + 1).to_string(),
    };
    let (down, up) = match (path.get("rate"), path.get("trace")) {
        (Some(rate), None) => {
            let rate = Capacity::Rate(rate.rate()?);
            (rate.clone(), rate)
        }
        (None, Some(trace)) => traces(trace, files)?,
        (Some(_), Some(trace)) => {
            return Err(Problem::at(&trace.span, "a path has either a rate or a trace")
                .help("remove `rate` or `trace`"));
        }
        (None, None) => {
            return Err(Problem::at(path.span, format!("path `{name}` has neither `rate` nor `trace`"))
                .help("add for example `rate = \"100 Mbit/s\"`"));
        }
    };
    let trace_start = link::trace_start(&path, "a path")?;
    let (mut data, mut acks) = (LinkConfig::default(), LinkConfig::default());
    link::change(&path, &link::PATH_CHANGE, &mut data, Some(&mut acks))?;
    let (timeline, timeline_acks) = (data.timeline, acks.timeline);
    let loss = link::loss(&path, "a path")?;
    let rtt = path.required("rtt", "\"20 ms\"", Node::delay)?;
    let carrier = LinkConfig { delay: rtt / 2, ..link::carrier(&path, profile)? };
    let loss_up = Loss::bernoulli(path.optional("loss-up", Node::probability)?.unwrap_or(0.0));
    let mut data =
        LinkConfig { capacity: link::started(down, trace_start), loss, timeline, ..carrier.clone() };
    link::impair(&path, &mut data)?;
    let acks = LinkConfig {
        capacity: link::started(up, trace_start),
        loss: loss_up,
        timeline: timeline_acks,
        ..carrier
    };
    let backup = path.optional("backup", Node::boolean)?.unwrap_or(false);
    Ok(Described { name, rtt, trace_start, data, acks, backup })
}

fn traces(node: &Node, files: &Files<'_>) -> Result<(Capacity, Capacity), Problem> {
    let load = |node: &Node| Ok(Capacity::from(files.trace(node)?));
    match &node.value {
        Value::Table(_) => {
            let table = Reader::of(node, "a trace", &["down", "up"])?;
            let down: Capacity = table.required("down", "\"lte.down\"", load)?;
            let up = table.optional("up", load)?;
            Ok((down.clone(), up.unwrap_or(down)))
        }
        _ => {
            let both: Capacity = load(node)?;
            Ok((both.clone(), both))
        }
    }
}

/// Reads `RATE,RTT[,loss=P][,loss-up=P][,queue=Q][,name=N]` or `trace=DOWN[:UP],RTT...`, which is source
/// number `source`, as a `[[path]]`.
pub(super) fn from_option(text: &str, source: usize) -> Result<Node, Problem> {
    let whole = Span { source, range: 0..text.len() };
    let example = "write for example `100Mbit/s,20ms`, `8Mbit/s,50ms,loss=1%,queue=100packets` or `trace=lte.down:lte.up,40ms`";
    let mut table = Table::default();
    let mut at = 0;
    for (index, part) in text.split(',').enumerate() {
        let start = at + (part.len() - part.trim_start().len());
        let span = Span { source, range: start..start + part.trim().len() };
        at += part.len() + 1;
        let part = part.trim();
        let (written, value, value_at) = match part.split_once('=') {
            Some((key, value)) => (key.trim(), value, start + part.len() - value.len()),
            None if index == 0 => ("rate", part, start),
            None if table.get("rtt").is_none() => ("rtt", part, start),
            None => return Err(Problem::at(&span, format!("`{part}` is unknown here")).help(example)),
        };
        let key = tree::present(written);
        let key_span = Span { source, range: start..start + written.len().min(part.len()) };
        let value_span = Span { source, range: value_at..start + part.len() };
        if table.get(&key).is_some() {
            return Err(Problem::at(&key_span, format!("`{key}` is given twice")));
        }
        let text = |text: &str, range: core::ops::Range<usize>| Node {
            span: Span { source, range },
            value: Value::String(text.to_owned()),
        };
        let value = match (key.as_str(), value.split_once(':')) {
            ("trace", Some((down, up))) => {
                let colon = value_at + down.len();
                let entry = |key: &str, node: Node| crate::tree::Entry {
                    key: key.to_owned(),
                    key_span: key_span.clone(),
                    node,
                };
                let files = vec![
                    entry("down", text(down, value_at..colon)),
                    entry("up", text(up, colon + 1..start + part.len())),
                ];
                Node { span: value_span, value: Value::Table(Table { entries: files }) }
            }
            _ => text(value.trim(), value_span.range.clone()),
        };
        table.entries.push(crate::tree::Entry { key, key_span, node: value });
    }
    if table.get("rtt").is_none() {
        return Err(Problem::at(&whole, "this path has no round-trip time").help(example));
    }
    Ok(Node { span: whole, value: Value::Table(table) })
}
