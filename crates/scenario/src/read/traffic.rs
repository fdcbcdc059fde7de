//! Reads the traffic of a scenario.

use anabranch_units::Time;

use super::contender::congestion;
use super::distribution::{self, Of};
use super::files::Files;
use super::network::{self, Network};
use super::path::path_position;
use crate::model::{Background, Beside, Direction, FlowSize, Start, Traffic};
use crate::text::keys::{Keys, Shape, rows};
use crate::text::reader::Reader;
use crate::text::source::{Problem, Span};
use crate::text::tree::{Node, Value};

rows! {
    /// The keys of `[traffic]`.
    pub(crate) ROWS, KEYS {
        "size": AnyOf(SIZE), "size of each flow: a size, `web`, `bulk`, or a distribution; default `web`";
        "max": Size, "the largest web-like size, above 19 KB; default none";
        "flows": Whole(1, MOST_FLOWS), "flows in each run; default 1, with `load` or `every` 100";
        "start": Time, "their common start, or the start of the arrivals; default 0";
        "starts": List(&Time), "instead: the start of each flow";
        "load": Load, "instead: Poisson arrivals that ask for this share of the rate of all paths";
        "direction": Choice(&["upload", "download"]), "`upload`: the client, which connects, sends; default `download`";
        "duration": Time, "bulk flows send until this time after the start of the last one; default 10 s";
        "size-known": Bool, "whether the sender knows the size of its flow beforehand; default true";
        "background": OneOrMore(&Table(&BACKGROUND)), "plain TCP flows that fill a path and are not counted";
        "beside": OneOrMore(&Table(&BESIDE)), "plain TCP flows of the same traffic, with rows of their own";
        "from": OneOrMore(&Name), "the host that sends, or a list of hosts";
        "to": OneOrMore(&Name), "the host that receives, or a list of hosts";
        "pattern": Choice(&network::PATTERNS), "all hosts in pairs, or all hosts to one";
        "every": AnyOf(&[Time, Table(&distribution::TABLE)]), "instead: the gap between two starts, a time or a distribution";
    }
}
pub(crate) const TABLE: Keys = Keys::new("traffic", &[ROWS]);

/// The forms of the size of a flow.
pub(super) const SIZE: &[Shape] = &[
    Shape::Choice(&["web", "bulk"]),
    Shape::Named(distribution::published),
    Shape::Size,
    Shape::Table(&distribution::TABLE),
];

rows! {
    BACKGROUND_ROWS, BACKGROUND_KEYS {
        "path": Name, "the path, by name or number";
        "from": OneOrMore(&Name), "the host that sends, or a list of hosts";
        "to": OneOrMore(&Name), "the host that receives, or a list of hosts";
        "flows": Whole(1, MOST_FLOWS), "number of flows; default 1";
        "start": Time, "their start; default 0";
    }
}
const BACKGROUND: Keys =
    Keys { one_of: &[&["path", "from", "to"]], ..Keys::new("background", &[BACKGROUND_ROWS]) };

rows! {
    BESIDE_ROWS, BESIDE_KEYS {
        "name": Name, "their name in results; required in a list";
        "flows": Whole(1, MOST_FLOWS), "number of flows";
        "path": Name, "their path; default the best one as measured";
        "congestion": Derived(Derived::Congestion), "their congestion control";
        "from": OneOrMore(&Name), "the host that sends, or a list of hosts";
        "to": OneOrMore(&Name), "the host that receives, or a list of hosts";
    }
}
const BESIDE: Keys = Keys::new("beside", &[BESIDE_ROWS]).requires(&["flows"]);

/// The largest number of flows of a run.
pub(super) const MOST_FLOWS: i64 = 100_000;

/// Who sends.
pub(super) fn direction(table: Option<&Reader<'_>>) -> Result<Direction, Problem> {
    let Some(table) = table else { return Ok(Traffic::default().direction) };
    let choice = table.optional("direction", |node| node.choice("direction", &["upload", "download"]))?;
    Ok(if choice == Some(0) { Direction::Upload } else { Direction::Download })
}

/// Reads the traffic of the keys in `table`, or returns the default. Requests the pairs of hosts from
/// `network`.
pub(super) fn read(
    table: Option<&Reader<'_>>,
    end: &Span,
    network: &mut Network,
    files: &Files<'_>,
) -> Result<Traffic, Problem> {
    let default = Traffic::default();
    let Some(table) = table else {
        let pairs = network.flow_pairs(None, end)?;
        return Ok(Traffic { pairs, flows: pairs as u32, ..default });
    };
    let size = size(table, files)?;
    let pairs = network.flow_pairs(Some(table), end)?;
    let (start, flows) = starts(table, &size, pairs as u32, files)?;
    if let Some(node) = table.get("duration")
        && size != FlowSize::Bulk
    {
        return Err(Problem::at(&node.span, "flows with a size end by themselves")
            .help("`duration` belongs to `size = \"bulk\"`; the time limit of a run is `deadline`"));
    }
    let direction = direction(Some(table))?;
    Ok(Traffic {
        size,
        flows,
        pairs,
        start,
        direction,
        duration: table.optional("duration", Node::positive_time)?.unwrap_or(default.duration),
        size_known: table.optional("size-known", Node::boolean)?.unwrap_or(true),
        background: match table.get("background") {
            Some(node) => {
                let mut all = Vec::new();
                for node in node.items() {
                    background(node, network, &mut all)?;
                }
                all
            }
            None => Vec::new(),
        },
        beside: match table.get("beside") {
            Some(node) => all_beside(node, network, pairs)?,
            None => Vec::new(),
        },
    })
}

pub(super) fn size(table: &Reader<'_>, files: &Files<'_>) -> Result<FlowSize, Problem> {
    let max = table.optional("max", Node::positive_size)?;
    let size = match table.get("size") {
        None => FlowSize::Web { max },
        Some(node) => match &node.value {
            Value::String(text) if text.trim().eq_ignore_ascii_case("web") => FlowSize::Web { max },
            Value::String(text) if text.trim().eq_ignore_ascii_case("bulk") => FlowSize::Bulk,
            _ if distribution::is_named(node) => FlowSize::Drawn(distribution::read(node, Of::Size, files)?),
            _ => FlowSize::Fixed(node.positive_size().map_err(|problem| {
                let help = problem.help.clone().unwrap_or_default();
                problem.help(format!("{help}; or `web`, `bulk`, or one of `anabranch list distributions`"))
            })?),
        },
    };
    match (&size, max, table.get("max")) {
        (FlowSize::Web { .. }, Some(max), Some(node)) if max.0 <= WEB_SCALE => Err(Problem::at(
            &node.span,
            format!("web-like sizes start at 19 KB, so `max` must be above that, not {max}"),
        )
        .help("give a larger `max`, or a fixed `size`")),
        (FlowSize::Fixed(_) | FlowSize::Drawn(_) | FlowSize::Bulk, Some(_), Some(node)) => {
            Err(Problem::at(&node.span, "only web-like sizes have a maximum")
                .help("write `size = \"web\"`, or remove `max`"))
        }
        _ => Ok(size),
    }
}

/// Reads the start times of flows, and their number: by default at least one for each of the `pairs`.
pub(super) fn starts(
    table: &Reader<'_>,
    size: &FlowSize,
    pairs: u32,
    files: &Files<'_>,
) -> Result<(Start, u32), Problem> {
    let flows = table.optional("flows", |node| node.integer(1, MOST_FLOWS))?.map(|n| n as u32);
    let from = table.optional("start", Node::delay)?.map_or(Time::ZERO, |start| Time::ZERO + start);
    if let Some(node) = table.get("every") {
        if let Some(other) = table.get("starts").or(table.get("load")) {
            return Err(Problem::at(
                &other.span,
                "flows start at given times, by a load, or `every` so often",
            )
            .help("give one of `starts`, `load` and `every`"));
        }
        let gap = distribution::read(node, Of::Time, files)?;
        return Ok((Start::Every { from, gap }, flows.unwrap_or(pairs.max(100))));
    }
    match (table.get("starts"), table.get("load")) {
        (Some(_), Some(node)) => {
            Err(Problem::at(&node.span, "flows start either at given times or by a load")
                .help("remove `starts` or `load`"))
        }
        (Some(node), None) => {
            let mut times = Vec::new();
            for item in node.array()? {
                times.push(Time::ZERO + item.delay()?);
            }
            times.sort_unstable();
            match (flows, times.len()) {
                (_, 0) => Err(Problem::at(&node.span, "there is no start").help("give at least one time")),
                (Some(flows), n) if flows as usize != n => {
                    Err(Problem::at(&node.span, format!("there are {flows} flows and {n} starts"))
                        .help("remove `flows`, or give as many starts"))
                }
                (_, n) if n as i64 > MOST_FLOWS => {
                    Err(Problem::at(&node.span, format!("there are {n} starts")).help("give at most 100000"))
                }
                (_, n) => Ok((Start::At(times), n as u32)),
            }
        }
        (None, Some(node)) => {
            if *size == FlowSize::Bulk {
                return Err(Problem::at(&node.span, "bulk flows never end, so there is no load")
                    .help("give the flows a `size`, or remove `load`"));
            }
            // A load above the capacity is permitted, so it is not a probability.
            let load = node.load()?;
            Ok((Start::Poisson { from, load }, flows.unwrap_or(pairs.max(100))))
        }
        (None, None) => Ok((Start::Together(from), flows.unwrap_or(pairs))),
    }
}

/// Reads the background flows that `node` describes, for each pair of hosts that it names.
fn background(node: &Node, network: &mut Network, all: &mut Vec<Background>) -> Result<(), Problem> {
    let table = Reader::of(node, "background", BACKGROUND_KEYS)?;
    let pairs = network.named_pairs(&table)?;
    let paths = match &pairs {
        Some(pairs) => &network.pairs[pairs[0]].paths,
        None => network.paths(),
    };
    // Named hosts with a single interface leave no choice.
    let path = match table.get("path") {
        None if pairs.is_some() && paths.len() == 1 => 0,
        _ => table.required("path", "1", |node| path_position(node, paths))?,
    };
    let flows = table.optional("flows", |node| node.integer(1, MOST_FLOWS))?.unwrap_or(1) as u32;
    let start = Time::ZERO + table.optional("start", Node::delay)?.unwrap_or_default();
    let pairs = pairs.unwrap_or_else(|| vec![0]);
    all.extend(pairs.into_iter().map(|pair| Background { pair, path, flows, start }));
    Ok(())
}

/// Reads one kind of competing flows, or a list of them.
fn all_beside(node: &Node, network: &mut Network, flow_pairs: usize) -> Result<Vec<Beside>, Problem> {
    let items = node.items();
    if items.is_empty() {
        return Err(Problem::at(&node.span, "the list of competing flows is empty")
            .help("give at least one table such as `{ flows = 1 }`, or remove `beside`"));
    }
    let mut all: Vec<Beside> = Vec::with_capacity(items.len());
    for node in items {
        let one = beside(node, network, flow_pairs)?;
        let Some(name) = one.name.clone() else {
            if items.len() == 1 {
                return Ok(vec![one]);
            }
            return Err(Problem::at(&node.span, "one of several kinds of competing flows has no `name`")
                .help("add for example `name = \"cubic\"`, by which results show it"));
        };
        if all.iter().any(|other| other.name.as_ref() == Some(&name)) {
            return Err(Problem::at(&node.span, format!("two kinds of competing flows are called `{name}`"))
                .help("give each a `name` of its own"));
        }
        all.push(one);
    }
    let flows: u64 = all.iter().map(|one| u64::from(one.flows)).sum();
    if flows > MOST_FLOWS as u64 {
        return Err(Problem::at(&node.span, format!("there are {flows} competing flows"))
            .help(format!("give at most {MOST_FLOWS} in all")));
    }
    Ok(all)
}

fn beside(node: &Node, network: &mut Network, flow_pairs: usize) -> Result<Beside, Problem> {
    let table = Reader::of(node, "beside", BESIDE_KEYS)?;
    let pairs = network.named_pairs(&table)?;
    let paths = match &pairs {
        Some(pairs) => &network.pairs[pairs[0]].paths,
        None => network.paths(),
    };
    let only = (pairs.is_some() && paths.len() == 1).then_some(0);
    Ok(Beside {
        name: table.optional("name", Node::name)?,
        flows: table.required("flows", "30", |node| node.integer(1, MOST_FLOWS))? as u32,
        path: table.optional("path", |node| path_position(node, paths))?.or(only),
        congestion: table.optional("congestion", congestion)?,
        pairs: pairs.unwrap_or_else(|| (0..flow_pairs).collect()),
    })
}

/// The smallest web-like size.
const WEB_SCALE: u64 = 19_000;
