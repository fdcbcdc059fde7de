//! Reads the paths of a scenario: the short form of a network, in which one client and one server have a link in each
//! direction for each path.

use anabranch_link::{Capacity, LinkConfig, MiddleboxConfig, Strip};
use anabranch_stack::config::Profile;
use anabranch_stack::path_manager::EndpointRole;
use anabranch_units::Duration;

use super::files::Files;
use super::{change, endpoints, link, middlebox, presets, sides, tariff};
use crate::model::{Direction, Path, Signal, Tariff, TraceStart};
use crate::text::keys::{Keys, Sides, rows};
use crate::text::reader::{Reader, list};
use crate::text::source::{Problem, Span, did_you_mean};
use crate::text::tree::{Node, Table, Value, parse_value_at, parts};

/// The keys of a `[[path]]`.
pub(crate) const KEYS: &[&str] = &link::join::<
    { OWN_KEYS.len() + middlebox::KEYS.len() + tariff::KEYS.len() + link::KEYS.len() },
>(&[OWN_KEYS, middlebox::KEYS, tariff::KEYS, link::KEYS]);

rows! {
    /// The keys that a link does not have.
    OWN_ROWS, OWN_KEYS {
        "name": Name, "name of the path; default: its number, or that of the preset";
        "preset": Named(|| presets::ALL.iter().map(|preset| preset.name).collect()),
            "figures of a typical access network, which other keys replace (`anabranch list presets`)";
        "rate": Rate, "rate in both directions; this or `trace` is required";
        "trace": Text, "file with the times in milliseconds at which a packet can be sent";
        "trace-start": AnyOf(&[Choice(&["random", "together"]), Time]), "where in a trace runs begin";
        "rtt": Time, "round-trip time without load; this or `delay` is required";
        "delay": Time, "one-way propagation delay";
        "loss-up": Probability, "loss of acknowledgements; default 0";
        "backup": Bool, "whether its subflows are backups; default false";
        "endpoint": Choice(&endpoints::ROLES), "role of the client's address, as in `ip mptcp endpoint`; default `subflow`";
        "change": List(&Table(&CHANGE)), "changes during the run, in order of time";
        "change-every": Time, "interval at which the changes repeat";
    }
}

/// A `[[path]]`.
pub(crate) const TABLE: Keys = Keys {
    one_of: &[&["preset", "rate", "trace"], &["preset", "rtt", "delay"]],
    sides: Some(SIDES),
    ..Keys::new("path", &[OWN_ROWS, middlebox::ROWS, tariff::ROWS, link::ROWS])
};

const SIDES: Sides = Sides {
    pairs: &[[sides::SIDES[0], sides::SIDES[1]], [sides::SIDES[2], sides::SIDES[3]]],
    whole: sides::WHOLE,
};

/// A `[[path.change]]`.
pub(crate) const CHANGE: Keys =
    Keys { sides: Some(SIDES), ..Keys::new("path-change", &[change::PATH_ROWS]).requires(&["at"]) };

/// The largest number of paths, equal to the largest number of subflows of a connection.
const MOST: usize = 32;

/// A path as a scenario describes it.
pub(super) struct Described {
    pub name: String,
    /// The round trip without load, half of it each way unless its directions differ.
    pub rtt: Duration,
    /// The position in its traces at which runs begin.
    pub trace_start: TraceStart,
    /// The direction of the data.
    pub data: LinkConfig,
    /// The direction of the acknowledgements.
    pub acks: LinkConfig,
    /// True if subflows over it ask to be backups.
    pub backup: bool,
    /// The role of the client's address, if it is given.
    pub endpoint: Option<EndpointRole>,
    /// The middlebox at the client's end.
    pub middlebox: MiddleboxConfig,
    /// Its price and its quotas.
    pub tariff: Tariff,
    /// The times at which the client notices that its interface is down or up.
    pub signals: Vec<Signal>,
}

impl Described {
    /// True if both directions have half of the round trip.
    pub(super) fn is_even(&self) -> bool {
        self.data.delay == self.acks.delay
    }
}

/// Reads all paths.
pub(super) fn read_all(
    node: &Node,
    files: &Files<'_>,
    profile: Profile,
    direction: Direction,
) -> Result<Vec<Described>, Problem> {
    let nodes = node.array().map_err(|problem| problem.help("write each path as `[[path]]`"))?;
    if nodes.is_empty() || nodes.len() > MOST {
        return Err(Problem::at(&node.span, format!("there are {} paths", nodes.len()))
            .help(format!("give from 1 to {MOST}, each as a `[[path]]`")));
    }
    let mut paths: Vec<Described> = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let path = read(node, index, files, profile, direction)?;
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

fn read(
    node: &Node,
    index: usize,
    files: &Files<'_>,
    profile: Profile,
    direction: Direction,
) -> Result<Described, Problem> {
    let path = Reader::of(node, "a path", KEYS)?;
    if let Some(preset) = path.get("preset") {
        return Err(Problem::at(&preset.span, "only the path itself has a preset")
            .help("give the keys that differ, such as `path.lte.rate`"));
    }
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
    let sides = sides::split(node.table("a path")?, direction)?;
    let [data, acks] = [&sides.data, &sides.acks].map(|table| Reader::new(table, &node.span, "a path", KEYS));
    let (data_reader, acks_reader) = (data?, acks?);
    let trace_start = link::trace_start(&path, "a path")?;
    let rtt = match (path.get("rtt"), path.get("delay")) {
        (Some(_), Some(delay)) => {
            return Err(Problem::at(&delay.span, "a path has either `rtt` or `delay`")
                .help("remove one of them: `delay` is one way, half of `rtt` unless the directions differ"));
        }
        (None, Some(_)) => None,
        (..) => Some(path.required("rtt", "\"20 ms\"", Node::delay)?),
    };
    let read = |table: &Reader<'_>| -> Result<LinkConfig, Problem> {
        let mut config = LinkConfig {
            capacity: link::started(capacity(table, &name, files)?, trace_start),
            delay: match rtt {
                Some(rtt) => rtt / 2,
                None => table.required("delay", "\"10 ms\"", Node::delay)?,
            },
            loss: link::loss(table, "a path")?,
            ..link::carrier(table, profile)?
        };
        link::impair(table, &mut config)?;
        link::redraw(table, "rtt", &format!("path.{name}"), &mut config)?;
        Ok(config)
    };
    let (mut data, mut acks) = (read(&data_reader)?, read(&acks_reader)?);
    let split = |node: &Node| {
        let table = node.table("a change of a path")?;
        Reader::new(table, &node.span, "a change of a path", change::PATH.keys)?;
        sides::split_change(table, direction)
    };
    let signals = change::read(&path, &change::PATH, files, split, &mut data, Some(&mut acks))?;
    let backup = path.optional("backup", Node::boolean)?.unwrap_or(false);
    let endpoint = path.optional("endpoint", endpoints::role)?;
    let middlebox = middlebox::read(&path)?;
    let tariff = tariff::read(&path, &data_reader, &acks_reader, direction)?;
    let rtt = rtt.unwrap_or(data.delay + acks.delay);
    Ok(Described { name, rtt, trace_start, data, acks, backup, endpoint, middlebox, tariff, signals })
}

/// Reads the capacity of a direction of the path `name`.
fn capacity(table: &Reader<'_>, name: &str, files: &Files<'_>) -> Result<Capacity, Problem> {
    match (table.get("rate"), table.get("trace")) {
        (Some(rate), None) => Ok(Capacity::Rate(rate.rate()?)),
        (None, Some(trace)) => Ok(Capacity::from(files.trace(trace)?)),
        (Some(_), Some(trace)) => {
            Err(Problem::at(&trace.span, "a path has either a rate or a trace")
                .help("remove `rate` or `trace`"))
        }
        (None, None) => Err(Problem::at(table.span, format!("path `{name}` has neither `rate` nor `trace`"))
            .help("add for example `rate = \"100 Mbit/s\"`, or begin with a `preset`")),
    }
}

/// Reads `RATE,RTT[,loss=P][,loss-up=P][,queue=Q][,strip][,name=N]`, `trace=DOWN[:UP],RTT...` or `PRESET[,...]`, which is
/// source number `source`, as a `[[path]]`.
pub(super) fn from_option(text: &str, source: usize) -> Result<Node, Problem> {
    let whole = Span { source, range: 0..text.len() };
    let example = "write for example `100Mbit/s,20ms`, `8Mbit/s,50ms,loss=1%,queue=100packets`, `trace=lte.down:lte.up,40ms` or `lte,loss=1%`";
    let mut table = Table::default();
    for (index, (at, part)) in parts(text).into_iter().enumerate() {
        let start = at + (part.len() - part.trim_start().len());
        let span = Span { source, range: start..start + part.trim().len() };
        let part = part.trim();
        let (written, value, value_at) = match part.split_once('=') {
            Some((key, value)) => {
                let value = value.trim_start();
                (key.trim(), value, start + part.len() - value.len())
            }
            None if index == 0 && presets::find(part).is_some() => ("preset", part, start),
            None if index == 0 => {
                // `NaN` and `inf` are refused as numbers.
                let is_word = part.starts_with(|first: char| first.is_ascii_alphabetic());
                if is_word && part.parse::<f64>().is_err() {
                    let names: Vec<&str> = presets::ALL.iter().map(|preset| preset.name).collect();
                    let help = match did_you_mean(part, names.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("the presets are {}", list(&names)),
                    };
                    let fault = format!("`{part}` is neither a rate nor a preset");
                    return Err(Problem::at(&span, fault).help(help));
                }
                ("rate", part, start)
            }
            None if part == "strip" => ("strip", Strip::NAMES[0], start),
            None if table.get("rtt").is_none() && table.get("preset").is_none() => ("rtt", part, start),
            None => return Err(Problem::at(&span, format!("`{part}` is unknown here")).help(example)),
        };
        let key = written.replace('_', "-");
        let key_span = Span { source, range: start..start + written.len().min(part.len()) };
        let value_span = Span { source, range: value_at..start + part.len() };
        if table.get(&key).is_some() {
            return Err(Problem::at(&key_span, format!("`{key}` is given twice")));
        }
        let text = |text: &str, range: core::ops::Range<usize>| Node {
            span: Span { source, range },
            value: Value::String(text.to_owned()),
        };
        let is_structure = value.starts_with(['[', '{']);
        let value = match (key.as_str(), value.split_once(':')) {
            (..) if is_structure => parse_value_at(value, source, value_at)?,
            ("trace" | "rate" | "delay", Some((down, up))) => {
                let colon = value_at + down.len();
                let entry = |key: &str, node: Node| crate::text::tree::Entry {
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
        table.entries.push(crate::text::tree::Entry { key, key_span, node: value });
    }
    if ["rtt", "delay", "preset"].iter().all(|key| table.get(key).is_none()) {
        return Err(Problem::at(&whole, "this path has no round-trip time").help(example));
    }
    Ok(Node { span: whole, value: Value::Table(table) })
}

/// Returns the position of the path that `node` names.
pub(super) fn path_position(node: &Node, paths: &[Path]) -> Result<usize, Problem> {
    let name = node.name()?;
    find_path(&name, paths).ok_or_else(|| no_such_path(node, &name, paths))
}

/// Returns the position of the path with the name `name`, or with that number from 1.
pub(super) fn find_path(name: &str, paths: &[Path]) -> Option<usize> {
    let by_number = || name.parse::<usize>().ok()?.checked_sub(1).filter(|index| *index < paths.len());
    paths.iter().position(|path| path.name == name).or_else(by_number)
}

pub(super) fn no_such_path(node: &Node, name: &str, paths: &[Path]) -> Problem {
    let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
    Problem::at(&node.span, format!("there is no path `{name}`"))
        .help(format!("the paths are {}", list(&names)))
}
