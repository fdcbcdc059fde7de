//! Reads the traffic of a scenario.

use anabranch_sim::traffic::Sizes;
use anabranch_units::{Duration, Time};

use super::contender::congestion;
use super::parse::path_position;
use super::{Background, Beside, Direction, FlowSize, Path, Start, Traffic};
use crate::reader::Reader;
use crate::source::Problem;
use crate::tree::{Node, Value};

/// The keys of `[traffic]`.
pub(super) const KEYS: &[&str] = &[
    "size",
    "max",
    "flows",
    "start",
    "starts",
    "load",
    "direction",
    "duration",
    "size-known",
    "background",
    "beside",
];

/// The most flows of a run.
const MOST_FLOWS: i64 = 100_000;

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            size: FlowSize::Web { max: None },
            flows: 1,
            start: Start::Together(Time::ZERO),
            direction: Direction::Download,
            duration: Duration::from_secs(10),
            size_known: true,
            background: Vec::new(),
            beside: None,
        }
    }
}

pub(super) fn read(node: &Node, paths: &[Path]) -> Result<Traffic, Problem> {
    let table = Reader::of(node, "traffic", KEYS)?;
    let default = Traffic::default();
    let size = size(&table)?;
    let (start, flows) = starts(&table, size)?;
    if let Some(node) = table.get("duration")
        && size != FlowSize::Bulk
    {
        return Err(Problem::at(&node.span, "flows with a size end by themselves")
            .help("`duration` belongs to `size = \"bulk\"`; the time limit of a run is `deadline`"));
    }
    let direction = table.optional("direction", |node| node.choice("direction", &["upload", "download"]))?;
    Ok(Traffic {
        size,
        flows,
        start,
        direction: if direction == Some(0) { Direction::Upload } else { Direction::Download },
        duration: table.optional("duration", Node::positive_time)?.unwrap_or(default.duration),
        size_known: table.optional("size-known", Node::boolean)?.unwrap_or(true),
        background: match table.get("background") {
            Some(node) => {
                list_or_one(node).iter().map(|node| background(node, paths)).collect::<Result<_, _>>()?
            }
            None => Vec::new(),
        },
        beside: table.optional("beside", |node| beside(node, paths))?,
    })
}

fn size(table: &Reader<'_>) -> Result<FlowSize, Problem> {
    let max = table.optional("max", Node::positive_size)?;
    let size = match table.get("size") {
        None => FlowSize::Web { max },
        Some(node) => match &node.value {
            Value::String(text) if text.trim().eq_ignore_ascii_case("web") => FlowSize::Web { max },
            Value::String(text) if text.trim().eq_ignore_ascii_case("bulk") => FlowSize::Bulk,
            _ => FlowSize::Fixed(node.positive_size().map_err(|problem| {
                let help = problem.help.clone().unwrap_or_default();
                problem.help(format!("{help}; or `web` or `bulk`"))
            })?),
        },
    };
    match (size, max, table.get("max")) {
        (FlowSize::Web { .. }, Some(max), Some(node)) if max.0 <= WEB_SCALE => Err(Problem::at(
            &node.span,
            format!("web-like sizes start at 19 KB, so `max` must be above that, not {max}"),
        )
        .help("give a larger `max`, or a fixed `size`")),
        (FlowSize::Fixed(_) | FlowSize::Bulk, Some(_), Some(node)) => {
            Err(Problem::at(&node.span, "only web-like sizes have a greatest one")
                .help("write `size = \"web\"`, or remove `max`"))
        }
        _ => Ok(size),
    }
}

fn starts(table: &Reader<'_>, size: FlowSize) -> Result<(Start, u32), Problem> {
    let flows = table.optional("flows", |node| node.integer(1, MOST_FLOWS))?.map(|n| n as u32);
    let from = table.optional("start", Node::delay)?.map_or(Time::ZERO, |start| Time::ZERO + start);
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
            if size == FlowSize::Bulk {
                return Err(Problem::at(&node.span, "bulk flows never end, so there is no load")
                    .help("give the flows a `size`, or remove `load`"));
            }
            // A load of more than the paths carry is a fair question, so it is not a probability.
            let load = node.load()?;
            Ok((Start::Poisson { from, load }, flows.unwrap_or(100)))
        }
        (None, None) => Ok((Start::Together(from), flows.unwrap_or(1))),
    }
}

fn list_or_one(node: &Node) -> &[Node] {
    match &node.value {
        Value::Array(items) => items,
        _ => core::slice::from_ref(node),
    }
}

fn background(node: &Node, paths: &[Path]) -> Result<Background, Problem> {
    let table = Reader::of(node, "background", &["path", "flows", "start"])?;
    Ok(Background {
        path: table.required("path", "1", |node| path_position(node, paths))?,
        flows: table.optional("flows", |node| node.integer(1, MOST_FLOWS))?.unwrap_or(1) as u32,
        start: Time::ZERO + table.optional("start", Node::delay)?.unwrap_or_default(),
    })
}

fn beside(node: &Node, paths: &[Path]) -> Result<Beside, Problem> {
    let table = Reader::of(node, "beside", &["flows", "path", "congestion"])?;
    Ok(Beside {
        flows: table.required("flows", "30", |node| node.integer(1, MOST_FLOWS))? as u32,
        path: table.optional("path", |node| path_position(node, paths))?,
        congestion: table.optional("congestion", congestion)?,
    })
}

/// The least web-like size.
const WEB_SCALE: u64 = 19_000;

impl FlowSize {
    /// As the simulator draws it.
    pub fn sizes(self) -> Sizes {
        match (self, Sizes::WEB) {
            (FlowSize::Fixed(size), _) => Sizes::Fixed(size),
            (FlowSize::Bulk, _) => Sizes::Bulk,
            (FlowSize::Web { max }, Sizes::Pareto { shape, scale, .. }) => {
                Sizes::Pareto { shape, scale, max }
            }
            (FlowSize::Web { .. }, other) => other,
        }
    }

    /// The mean size in bytes; none for bulk.
    pub fn mean(self) -> Option<f64> {
        Some(self.sizes().mean()).filter(|mean| mean.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Bytes;

    #[test]
    fn web_like_sizes_have_the_mean_that_is_printed() {
        assert_eq!(FlowSize::Web { max: None }.mean(), Some(57_000.0));
        assert_eq!(FlowSize::Bulk.mean(), None);
        let cut = FlowSize::Web { max: Some(Bytes(87_000)) }.mean().unwrap();
        assert!(cut > 19_000.0 && cut < 57_000.0, "{cut}");
    }
}
