//! Reads the paths of a scenario.

use anabranch_stack::config::Profile;
use anabranch_units::{Duration, Rate, Time};

use super::document::Files;
use super::{Capacity, Change, CommonLink, Jitter, LossModel, Path, TraceStart};
use crate::reader::Reader;
use crate::source::{Problem, Span};
use crate::tree::{Node, Table, Value};
use crate::units::QueueSize;

/// The keys of a `[[path]]`.
pub(super) const KEYS: &[&str] = &[
    "name",
    "rate",
    "trace",
    "trace-start",
    "rtt",
    "queue",
    "ecn-threshold",
    "loss",
    "loss-up",
    "gilbert-elliott",
    "jitter",
    "reorder",
    "duplicate",
    "drop",
    "luck",
    "when-down",
    "mtu",
    "mtu-reports",
    "backup",
    "change",
];

/// The most paths; as many as a connection can have subflows.
const MOST: usize = 32;

/// All paths.
pub(super) fn read_all(node: &Node, files: &Files<'_>, profile: Profile) -> Result<Vec<Path>, Problem> {
    let nodes = node.array().map_err(|problem| problem.help("write each path as `[[path]]`"))?;
    if nodes.is_empty() || nodes.len() > MOST {
        return Err(Problem::at(&node.span, format!("there are {} paths", nodes.len()))
            .help(format!("give from 1 to {MOST}, each as a `[[path]]`")));
    }
    let mut paths: Vec<Path> = Vec::with_capacity(nodes.len());
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

fn read(node: &Node, index: usize, files: &Files<'_>, profile: Profile) -> Result<Path, Problem> {
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
    let trace_start = path.optional("trace-start", |node| match &node.value {
        Value::String(text) if text.trim() == "random" => Ok(TraceStart::Random),
        _ => Ok(TraceStart::At(node.delay()?)),
    })?;
    if let (Some(node), None) = (path.get("trace-start"), path.get("trace")) {
        return Err(Problem::at(&node.span, "a path without a trace has no start in it")
            .help("give a `trace`, or remove `trace-start`"));
    }
    let changes = path.optional("change", changes)?.unwrap_or_default();
    if let (Some(node), true) = (path.get("change"), path.get("trace").is_some())
        && changes.iter().any(|change| change.rate.is_some())
    {
        return Err(Problem::at(&node.span, "a path with a trace cannot change its rate")
            .help("remove `rate` from its changes, or `trace` from the path"));
    }
    let loss = match (path.get("loss"), path.get("gilbert-elliott")) {
        (Some(_), Some(channel)) => {
            return Err(Problem::at(&channel.span, "a path has either `loss` or `gilbert-elliott`")
                .help("remove one of them"));
        }
        (Some(loss), None) => LossModel::Bernoulli(loss.probability()?),
        (None, Some(channel)) => gilbert_elliott(channel)?,
        (None, None) => LossModel::NONE,
    };
    Ok(Path {
        trace_start: trace_start.unwrap_or_default(),
        down,
        up,
        rtt: path.required("rtt", "\"20 ms\"", Node::delay)?,
        queue: path.optional("queue", Node::queue)?.unwrap_or(QueueSize::Bdp(1.0)),
        ecn_threshold: path.optional("ecn-threshold", Node::queue)?,
        loss,
        loss_up: LossModel::Bernoulli(path.optional("loss-up", Node::probability)?.unwrap_or(0.0)),
        jitter: path.optional("jitter", jitter)?,
        reorder: path.optional("reorder", reorder)?,
        duplicate: path.optional("duplicate", Node::probability)?.unwrap_or(0.0),
        drop: path.optional("drop", numbers)?.unwrap_or_default(),
        luck_apart: match path.optional("luck", |node| node.choice("luck", &["shared", "apart"]))? {
            Some(choice) => choice == 1,
            None => profile == Profile::Linux,
        },
        keep_when_down: match path.optional("when-down", |node| node.choice("rule", &["drop", "keep"]))? {
            Some(choice) => choice == 1,
            None => false,
        },
        mtu: path.optional("mtu", mtu)?,
        reports_mtu: path.optional("mtu-reports", Node::boolean)?.unwrap_or(true),
        backup: path.optional("backup", Node::boolean)?.unwrap_or(false),
        changes,
        name,
    })
}

fn traces(node: &Node, files: &Files<'_>) -> Result<(Capacity, Capacity), Problem> {
    let load = |node: &Node| Ok(Capacity::Trace(files.trace(node)?));
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

fn gilbert_elliott(node: &Node) -> Result<LossModel, Problem> {
    let keys = ["mean-good", "mean-bad", "loss-good", "loss-bad"];
    let table = Reader::of(node, "gilbert-elliott", &keys)?;
    let sojourn = |node: &Node| {
        let span = node.delay()?;
        if span < Duration::from_micros(1) {
            return Err(
                Problem::at(&node.span, format!("a mean of {span} is too short")).help("give at least 1 us")
            );
        }
        Ok(span)
    };
    Ok(LossModel::GilbertElliott {
        mean_good: table.required("mean-good", "\"1 s\"", sojourn)?,
        mean_bad: table.required("mean-bad", "\"50 ms\"", sojourn)?,
        loss_good: table.optional("loss-good", Node::probability)?.unwrap_or(0.0),
        loss_bad: table.required("loss-bad", "\"50%\"", Node::probability)?,
    })
}

fn jitter(node: &Node) -> Result<Jitter, Problem> {
    if !matches!(node.value, Value::Table(_)) {
        return Ok(Jitter::Uniform { max: node.delay()?, reorder: false });
    }
    let table = Reader::of(node, "jitter", &["max", "mean", "deviation", "reorder"])?;
    let reorder = table.optional("reorder", Node::boolean)?.unwrap_or(false);
    match (table.optional("max", Node::delay)?, table.optional("mean", Node::delay)?) {
        (Some(max), None) if table.get("deviation").is_none() => Ok(Jitter::Uniform { max, reorder }),
        (None, Some(mean)) => {
            let deviation = table.required("deviation", "\"2 ms\"", Node::delay)?;
            Ok(Jitter::Normal { mean, deviation, reorder })
        }
        _ => Err(Problem::at(&node.span, "jitter is either uniform or normal")
            .help("write `{ max = \"5 ms\" }` or `{ mean = \"5 ms\", deviation = \"2 ms\" }`")),
    }
}

fn reorder(node: &Node) -> Result<(f64, Duration), Problem> {
    let table = Reader::of(node, "reorder", &["probability", "extra"])?;
    Ok((
        table.required("probability", "\"1%\"", Node::probability)?,
        table.required("extra", "\"5 ms\"", Node::delay)?,
    ))
}

/// The MTU of a path, in bytes.
fn mtu(node: &Node) -> Result<u32, Problem> {
    let size = node.size()?.get();
    if !(576..=65_535).contains(&size) {
        return Err(Problem::at(&node.span, format!("an MTU of {size} bytes is out of range"))
            .help("give from 576 to 65535 bytes, the IP header included"));
    }
    Ok(size as u32)
}

fn numbers(node: &Node) -> Result<Vec<u64>, Problem> {
    node.array()?.iter().map(|item| Ok(item.integer(1, i64::MAX)? as u64)).collect()
}

fn changes(node: &Node) -> Result<Vec<Change>, Problem> {
    let mut changes: Vec<Change> = Vec::new();
    for node in node.array().map_err(|problem| problem.help("write each change as `[[path.change]]`"))? {
        let change = change(node)?;
        if let Some(last) = changes.last()
            && change.at < last.at
        {
            return Err(Problem::at(
                &node.span,
                format!("a change at {} comes after one at {}", Duration(change.at.0), Duration(last.at.0)),
            )
            .help("put the changes in order of time"));
        }
        changes.push(change);
    }
    Ok(changes)
}

fn change(node: &Node) -> Result<Change, Problem> {
    let keys = ["at", "rate", "rtt", "loss", "loss-up", "down", "up"];
    let table = Reader::of(node, "a change of a path", &keys)?;
    let flag = |key: &str| -> Result<bool, Problem> {
        match table.get(key) {
            Some(node) if node.boolean()? => Ok(true),
            Some(node) => Err(Problem::at(&node.span, format!("`{key} = false` says nothing"))
                .help("write `down = true` or `up = true`")),
            None => Ok(false),
        }
    };
    let up = match (flag("down")?, flag("up")?) {
        (true, true) => {
            return Err(Problem::at(&node.span, "a path cannot go down and come up at the same time")
                .help("make two changes of it"));
        }
        (true, false) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    };
    let change = Change {
        at: Time::ZERO + table.required("at", "\"2 s\"", Node::delay)?,
        rate: table.optional("rate", Node::rate)?,
        rtt: table.optional("rtt", Node::delay)?,
        loss: table.optional("loss", Node::probability)?,
        loss_up: table.optional("loss-up", Node::probability)?,
        up,
    };
    if keys[1..].iter().all(|key| table.get(key).is_none()) {
        return Err(Problem::at(&node.span, "this change changes nothing")
            .help("add `rate`, `rtt`, `loss`, `loss-up`, `down = true` or `up = true`"));
    }
    Ok(change)
}

/// The keys of `[topology]`.
pub(super) const TOPOLOGY_KEYS: &[&str] = &["kind", "rate", "rtt", "queue", "ecn-threshold", "loss"];

/// The common link, where the topology has one.
pub(super) fn read_topology(node: &Node) -> Result<Option<CommonLink>, Problem> {
    let table = Reader::of(node, "topology", TOPOLOGY_KEYS)?;
    let kind =
        table.required("kind", "\"shared\"", |node| node.choice("topology", &["disjoint", "shared"]))?;
    if kind == 0 {
        if let Some(node) = TOPOLOGY_KEYS[1..].iter().find_map(|key| table.get(key)) {
            return Err(Problem::at(&node.span, "disjoint paths have no common link")
                .help("write `kind = \"shared\"`, or remove this"));
        }
        return Ok(None);
    }
    Ok(Some(CommonLink {
        rate: table.required("rate", "\"100 Mbit/s\"", Node::rate)?,
        rtt: table.optional("rtt", Node::delay)?.unwrap_or(Duration::ZERO),
        queue: table.optional("queue", Node::queue)?.unwrap_or(QueueSize::Bdp(1.0)),
        ecn_threshold: table.optional("ecn-threshold", Node::queue)?,
        loss: LossModel::Bernoulli(table.optional("loss", Node::probability)?.unwrap_or(0.0)),
    }))
}

/// Reads `RATE,RTT[,loss=P][,loss-up=P][,queue=Q][,name=N]` or `trace=DOWN[:UP],RTT...`, which is source
/// number `source`, into a `[[path]]`.
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
        let (key, value, value_at) = match part.split_once('=') {
            Some((key, value)) => (key.trim().replace('_', "-"), value, start + part.len() - value.len()),
            None if index == 0 => ("rate".to_owned(), part, start),
            None if table.get("rtt").is_none() => ("rtt".to_owned(), part, start),
            None => return Err(Problem::at(&span, format!("`{part}` is not understood here")).help(example)),
        };
        let key_span = Span { source, range: start..start + key.len().min(part.len()) };
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

impl Path {
    /// The greatest rate that the data direction ever has, or the trace's mean.
    pub fn greatest_rate(&self) -> Rate {
        self.changes.iter().filter_map(|change| change.rate).fold(self.down.mean_rate(), Rate::max)
    }
}
