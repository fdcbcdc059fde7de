//! Reads the queue management, the token buckets, the cross traffic and the redraws of a link.

use anabranch_link::{
    Aqm, Codel, CrossTraffic, FqCodel, LinkConfig, QueueLimit, Red, Redraw, Redrawn, TokenBucket,
};
use anabranch_units::{Duration, Rate, Time};

use crate::text::base;
use crate::text::keys::{Keys, Kinds, rows};
use crate::text::reader::Reader;
use crate::text::source::Problem;
use crate::text::tree::{Node, Value};

pub(super) const KINDS: [&str; 4] = ["drop-tail", "codel", "fq-codel", "red"];

rows! {
    AQM_ROWS, AQM_KEYS {
        "kind": Choice(&KINDS), "the kind of queue management";
        "target": Time, "acceptable delay";
        "interval": Time, "period over which the delay is observed";
        "min": Queue, "threshold below which no packet is dropped";
        "max": Queue, "threshold above which all are";
        "probability": Probability, "dropping probability at `max`";
        "weight": Probability, "weight of the average";
        "gentle": Bool, "whether the probability rises steadily beyond `max`";
        "ecn": Bool, "whether packets of ECN connections are marked and not dropped; default true";
        "queues": Whole(1, 65_536), "number of queues";
        "quantum": Size, "bytes of a queue in a round";
    }
}

/// The keys of each kind in the order of [`KINDS`], without `kind`.
const KIND_KEYS: [&[&str]; 4] = [
    &[],
    &["target", "interval", "ecn"],
    &["target", "interval", "ecn", "queues", "quantum"],
    &["min", "max", "probability", "weight", "gentle", "ecn"],
];

pub(super) const AQM: Keys = Keys {
    kinds: Some(Kinds {
        key: "kind",
        default: None,
        common: &["kind"],
        own: || KINDS.into_iter().zip(KIND_KEYS).collect(),
    }),
    ..Keys::new("aqm", &[AQM_ROWS]).requires(&["kind"])
};

rows! {
    BUCKET_ROWS, BUCKET_KEYS {
        "rate": Rate, "rate at which the bucket is filled";
        "burst": Size, "its size, from 1500 B to 1 GB";
    }
}
pub(super) const BUCKET: Keys = Keys::new("token-bucket", &[BUCKET_ROWS]).requires(&["rate", "burst"]);

rows! {
    CROSS_TRAFFIC_ROWS, CROSS_TRAFFIC_KEYS {
        "rate": Rate, "its rate";
        "packet": Size, "size of a packet, 40 to 65535 B; default 1500 B";
        "from": Time, "its start; default 0";
        "until": Time, "its end; default never";
    }
}
pub(super) const CROSS_TRAFFIC: Keys = Keys::new("cross-traffic", &[CROSS_TRAFFIC_ROWS]).requires(&["rate"]);

rows! {
    REDRAW_ROWS, REDRAW_KEYS {
        "every": Time, "period, at least 1 ms";
        "from": Time, "first draw; default 0";
        "until": Time, "end of the draws; default never";
        "rate": List(&Rate), "rates of which one is drawn";
        "rtt": Table(&DEVIATION), "the drawn round-trip time of a path";
        "delay": Table(&DEVIATION), "the drawn delay of a link";
    }
}
pub(super) const REDRAW: Keys = Keys::new("redraw", &[REDRAW_ROWS]).requires(&["every"]);

rows! {
    DEVIATION_ROWS, DEVIATION_KEYS {
        "mean": Time, "mean; default the value of the path or link";
        "deviation": AnyOf(&[Time, Probability]), "standard deviation, a time or a percentage of the mean";
    }
}
const DEVIATION: Keys = Keys::new("redrawn-delay", &[DEVIATION_ROWS]).requires(&["deviation"]);

/// Reads the queue management: a kind, or a table with a kind and its settings.
pub(super) fn aqm(node: &Node) -> Result<Aqm, Problem> {
    let kind = |node: &Node| {
        let written =
            Node { span: node.span.clone(), value: Value::String(node.string()?.replace('_', "-")) };
        written.choice("queue management", &KINDS)
    };
    let Value::Table(table) = &node.value else {
        return Ok(match kind(node)? {
            0 => Aqm::DropTail,
            1 => Aqm::Codel(Codel::default()),
            2 => Aqm::FqCodel(FqCodel::default()),
            _ => Aqm::Red(Red::default()),
        });
    };
    let Some(named) = table.get("kind") else {
        return Err(Problem::at(&node.span, "this queue management has no `kind`")
            .help("add for example `kind = \"codel\"`"));
    };
    let own = KIND_KEYS[kind(&named.node)?];
    let keys: Vec<&str> =
        AQM_KEYS.iter().copied().filter(|key| *key == "kind" || own.contains(key)).collect();
    let table = Reader::of(node, "aqm", &keys)?;
    let codel = |ecn: bool| -> Result<Codel, Problem> {
        let default = Codel::default();
        Ok(Codel {
            target: table.optional("target", Node::positive_time)?.unwrap_or(default.target),
            interval: table.optional("interval", Node::positive_time)?.unwrap_or(default.interval),
            ecn,
        })
    };
    let ecn = table.optional("ecn", Node::boolean)?.unwrap_or(true);
    Ok(match kind(&named.node)? {
        0 => Aqm::DropTail,
        1 => Aqm::Codel(codel(ecn)?),
        2 => {
            let default = FqCodel::default();
            let quantum = table.optional("quantum", Node::positive_size)?;
            Aqm::FqCodel(FqCodel {
                codel: codel(ecn)?,
                queues: table
                    .optional("queues", |node| node.integer(1, 65_536))?
                    .map_or(default.queues, |n| n as u32),
                quantum: quantum
                    .map_or(default.quantum, |size| u32::try_from(size.get()).unwrap_or(u32::MAX)),
            })
        }
        _ => red(node, &table, ecn)?,
    })
}

fn red(node: &Node, table: &Reader<'_>, ecn: bool) -> Result<Aqm, Problem> {
    let default = Red::default();
    let settings = Red {
        min: table.optional("min", Node::queue)?.unwrap_or(default.min),
        max: table.optional("max", Node::queue)?.unwrap_or(default.max),
        max_probability: table.optional("probability", Node::probability)?.unwrap_or(default.max_probability),
        weight: table.optional("weight", Node::probability)?.unwrap_or(default.weight),
        gentle: table.optional("gentle", Node::boolean)?.unwrap_or(default.gentle),
        ecn,
    };
    let config = LinkConfig { aqm: Aqm::Red(settings), ..LinkConfig::default() };
    config.check().map_err(|error| Problem::at(&node.span, error.to_string()))?;
    let order = match (settings.min, settings.max) {
        (QueueLimit::Packets(min), QueueLimit::Packets(max)) => min < max,
        (QueueLimit::Bytes(min), QueueLimit::Bytes(max)) => min < max,
        _ => true,
    };
    if !order {
        return Err(Problem::at(
            &node.span,
            format!("RED's threshold `min` is {} and `max` is {}", settings.min, settings.max),
        )
        .help("give a `max` above `min`, for example three times as much"));
    }
    Ok(Aqm::Red(settings))
}

/// Reads a policer or a shaper, called `what` in errors.
pub(super) fn bucket(node: &Node, what: &'static str) -> Result<TokenBucket, Problem> {
    let table = Reader::of(node, what, BUCKET_KEYS)?;
    let rate = table.required("rate", "\"10 Mbit/s\"", Node::rate)?;
    let burst = table.required("burst", "\"30 KB\"", Node::positive_size)?.get();
    if !(1500..=TokenBucket::MAX_BURST).contains(&burst) {
        let span = &table.get("burst").unwrap_or(node).span;
        return Err(Problem::at(span, format!("a burst of {burst} bytes is out of range"))
            .help("give from 1500 B, one full packet, to 1 GB"));
    }
    Ok(TokenBucket { rate, burst })
}

/// Reads the times `from` and `until` of `table`.
fn interval(table: &Reader<'_>) -> Result<(Time, Time), Problem> {
    let from = Time::ZERO + table.optional("from", Node::delay)?.unwrap_or_default();
    let until = table.optional("until", Node::delay)?.map_or(Time::NEVER, |span| Time::ZERO + span);
    if until <= from {
        let span = table.get("until").map_or(table.span, |node| &node.span);
        return Err(Problem::at(span, "this ends before it begins").help("give a later `until`, or none"));
    }
    Ok((from, until))
}

/// Reads the cross traffic.
pub(super) fn cross_traffic(node: &Node) -> Result<Vec<CrossTraffic>, Problem> {
    let read = |node: &Node| {
        let table = Reader::of(node, "cross-traffic", CROSS_TRAFFIC_KEYS)?;
        let packet = table.optional("packet", Node::size)?.map_or(1500, |size| size.get());
        if !(40..=65_535).contains(&packet) {
            let span = &table.get("packet").unwrap_or(node).span;
            return Err(Problem::at(span, format!("a packet of {packet} bytes is out of range"))
                .help("give from 40 B to 65535 B"));
        }
        let (from, until) = interval(&table)?;
        let rate = table.required("rate", "\"4 Mbit/s\"", Node::rate)?;
        Ok(CrossTraffic { rate, packet: packet as u32, from, until })
    };
    node.items().iter().map(read).collect()
}

/// A quantity that a redraw may change: the key of the delay, and its part of it that one direction has.
pub(super) struct Redrawable<'a> {
    /// `rtt` for a path, `delay` for a link.
    pub key: &'static str,
    /// The number of directions that share the value of the key.
    pub directions: u64,
    /// The delay of the direction.
    pub delay: Duration,
    /// The beginning of the name of the random stream.
    pub stream: &'a str,
    /// True if the capacity is a trace.
    pub is_traced: bool,
}

/// Reads the redraws of a path's direction or of a link.
pub(super) fn redraws(node: &Node, of: &Redrawable<'_>) -> Result<Vec<Redraw>, Problem> {
    let other = if of.key == "rtt" { "delay" } else { "rtt" };
    let keys: Vec<&str> = REDRAW_KEYS.iter().copied().filter(|key| *key != other).collect();
    let mut all = Vec::new();
    for (number, node) in (1..).zip(node.items()) {
        let table = Reader::of(node, "redraw", &keys)?;
        let every = table.required("every", "\"10 s\"", |node| {
            let every = node.positive_time()?;
            if every < Duration::from_millis(1) {
                return Err(Problem::at(&node.span, format!("a period of {every} is too short"))
                    .help("give at least 1 ms"));
            }
            Ok(every)
        })?;
        let (from, until) = interval(&table)?;
        let value = match (table.get("rate"), table.get(of.key)) {
            (Some(rates), None) => {
                if of.is_traced {
                    return Err(Problem::at(&rates.span, "the rate of a trace cannot be redrawn")
                        .help("remove this, or give a `rate` in place of the trace"));
                }
                let rates = rates.array()?.iter().map(Node::rate).collect::<Result<Vec<Rate>, _>>()?;
                if rates.is_empty() {
                    return Err(
                        Problem::at(&node.span, "there is no rate to draw from").help("give at least one")
                    );
                }
                Redrawn::Rate(rates)
            }
            (None, Some(delay)) => deviation(delay, of)?,
            _ => {
                return Err(Problem::at(&node.span, format!("a redraw has either `rate` or `{}`", of.key))
                    .help(format!(
                        "give `rate = [\"5 Mbit/s\", \"10 Mbit/s\"]` or `{} = {{ deviation = \"40%\" }}`",
                        of.key
                    )));
            }
        };
        all.push(Redraw { from, until, every, value, stream: format!("{}.{number}", of.stream) });
    }
    Ok(all)
}

fn deviation(node: &Node, of: &Redrawable<'_>) -> Result<Redrawn, Problem> {
    let table = Reader::of(node, "the redrawn delay", DEVIATION_KEYS)?;
    let mean = table.optional("mean", Node::delay)?.map_or(of.delay, |mean| mean / of.directions);
    let std_dev = table.required("deviation", "\"40%\"", |node| match &node.value {
        Value::String(text) if text.trim().ends_with('%') => Ok(mean.mul_f64(node.probability()?)),
        _ => Ok(node.delay()? / of.directions),
    })?;
    Ok(Redrawn::Delay { mean, std_dev })
}

/// Returns the settings of this file in the canonical form, those that are not the default.
pub(crate) fn canonical(config: &LinkConfig) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let codel = |codel: &Codel| {
        let [target, interval] = [codel.target, codel.interval].map(base::time);
        format!("{target} {interval} {}", codel.ecn)
    };
    match &config.aqm {
        Aqm::DropTail => {}
        Aqm::Codel(settings) => all.push(("aqm", format!("codel {}", codel(settings)))),
        Aqm::FqCodel(FqCodel { codel: settings, queues, quantum }) => {
            all.push(("aqm", format!("fq-codel {} {queues} {quantum}", codel(settings))));
        }
        Aqm::Red(Red { min, max, max_probability, weight, gentle, ecn }) => {
            let [min, max] = [min, max].map(base::queue);
            let [probability, weight] = [*max_probability, *weight].map(base::number);
            all.push(("aqm", format!("red {min} {max} {probability} {weight} {gentle} {ecn}")));
        }
    }
    for (key, bucket) in [("policer", &config.policer), ("shaper", &config.shaper)] {
        if let Some(TokenBucket { rate, burst }) = bucket {
            all.push((key, format!("{} bit/s {burst} B", rate.0)));
        }
    }
    let until = |until: Time| until.armed().map_or("never".to_owned(), base::instant);
    for CrossTraffic { rate, packet, from, until: end } in &config.cross_traffic {
        let (from, end) = (base::instant(*from), until(*end));
        all.push(("cross-traffic", format!("{} bit/s {packet} B {from} {end}", rate.0)));
    }
    for Redraw { from, until: end, every, value, stream: _ } in &config.redraws {
        let value = match value {
            Redrawn::Rate(rates) => format!("rate {}", base::list(rates.iter().map(|rate| rate.0))),
            Redrawn::Delay { mean, std_dev } => {
                format!("delay {} {}", base::time(*mean), base::time(*std_dev))
            }
        };
        let (from, end) = (base::instant(*from), until(*end));
        all.push(("redraw", format!("{} {from} {end} {value}", base::time(*every))));
    }
    all
}
