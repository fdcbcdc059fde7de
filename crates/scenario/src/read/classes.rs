//! Classes of traffic: what several kinds of applications do in one scenario.

use anabranch_sim::application::{Datagrams, OnOff, Pace, Requests, Video};
use anabranch_sim::distribution::Distribution;
use anabranch_units::{Bytes, Duration, Rate, Time};

use super::distribution::{self, Of};
use super::files::Files;
use super::network::{self, Network};
use super::path::path_position;
use super::{link, traffic};
use crate::model::{Direction, FlowSize, Kind, Start, Traffic, TrafficClass, UNLIMITED, Via, main_class};
use crate::text::keys::{Keys, Kinds, Shape, rows};
use crate::text::reader::{Reader, list};
use crate::text::source::{Problem, Span};
use crate::text::tree::{Node, Value};

rows! {
    /// The keys of a class that every kind has.
    COMMON_ROWS, COMMON {
        "name": Name, "its name, which no other class has";
        "kind": Choice(&Kind::NAMES), "the behaviour of its flows; default `transfer`";
        "flows": Whole(1, traffic::MOST_FLOWS), "transfers, users, senders, streams or videos; default one for each pair of hosts";
        "start": Time, "their common start, or the start of the arrivals; default 0";
        "starts": List(&Time), "instead: the start of each flow";
        "every": TIMES, "instead: the gap between two starts, a time or a distribution";
        "direction": Choice(&["upload", "download"]), "`upload`: the client, which connects, sends; default `download`";
        "from": OneOrMore(&Name), "the host that sends, or a list of hosts";
        "to": OneOrMore(&Name), "the host that receives, or a list of hosts";
        "pattern": Choice(&network::PATTERNS), "all hosts in pairs, or all hosts to one";
        "via": Choice(&["contender", "tcp", "udp"]), "the transport; default the contender";
        "path": Name, "the path of a plain TCP or of datagrams";
    }
}

rows! {
    /// The keys that some kinds have.
    FURTHER_ROWS, FURTHER {
        "size": AnyOf(traffic::SIZE), "size of a transfer (default `web`), of a response, or of a datagram (default 1200 B)";
        "max": Size, "the largest web-like size, above 19 KB; default none";
        "load": Load, "instead: Poisson arrivals that ask for this share of the rate of all paths";
        "duration": Time, "how long a flow is active; of a video its playback time";
        "size-known": Bool, "whether the sender knows the size of its flow beforehand; default true";
        "request": SIZES, "size of a request; default 100 B";
        "think": TIMES, "the time from a response to the next request";
        "gap": TIMES, "the time from a request or datagram to the next";
        "requests": Whole(1, MOST_EVENTS as i64), "number of requests of a user; default no limit";
        "on": TIMES, "periods of sending";
        "off": TIMES, "periods of silence";
        "rate": Rate, "rate of the payload";
        "bitrate": OneOrMore(&Rate), "bit rate of the video, or a list of increasing ones";
        "segment": Time, "playback time of a segment; default 4 s";
        "startup": Time, "video in the buffer when playback starts; default one segment";
        "resume": Time, "video in the buffer when playback continues after a stall; default `startup`";
        "buffer": Time, "the most video in the buffer; default 30 s";
    }
}
const TIMES: Shape = Shape::AnyOf(&[Shape::Time, Shape::Table(&distribution::TABLE)]);
const SIZES: Shape = Shape::AnyOf(&[
    Shape::Size,
    Shape::Choice(&["web"]),
    Shape::Named(distribution::published),
    Shape::Table(&distribution::TABLE),
]);

/// The further keys of each kind, in the order of [`Kind::NAMES`].
const OWN: [&[&str]; 5] = [
    &["size", "max", "load", "duration", "size-known"],
    &["size", "request", "think", "gap", "requests", "duration"],
    &["on", "off", "rate", "duration"],
    &["size", "rate", "gap", "duration"],
    &["bitrate", "segment", "duration", "startup", "resume", "buffer"],
];

/// All keys of a class.
pub(crate) const KEYS: &[&str] = &link::join::<{ COMMON.len() + FURTHER.len() }>(&[COMMON, FURTHER]);

/// A class of traffic.
pub(crate) const TABLE: Keys = Keys {
    kinds: Some(Kinds {
        key: "kind",
        default: Some(Kind::NAMES[0]),
        common: COMMON,
        own: || Kind::NAMES.into_iter().zip(OWN).collect(),
    }),
    ..Keys::new("class", &[COMMON_ROWS, FURTHER_ROWS])
};

/// A class in a list.
pub(crate) const NAMED: Keys = Keys { name: "named-class", required: &["name"], ..TABLE };

/// The largest number of requests, bursts or datagrams of a flow.
const MOST_EVENTS: f64 = 1e7;
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// True if the traffic at `node` consists of classes: a list, or a table with a key that only classes have.
pub(super) fn is_classes(node: &Node) -> bool {
    match &node.value {
        Value::Array(_) => true,
        Value::Table(table) => table.entries.iter().any(|entry| {
            let key = entry.key.as_str();
            KEYS.contains(&key) && !traffic::KEYS.contains(&key)
        }),
        _ => false,
    }
}

/// Returns the direction of the data in the network's description: the first class decides it.
pub(super) fn direction(node: &Node) -> Result<Direction, Problem> {
    let Some(first) = node.items().first() else {
        return Err(Problem::at(&node.span, "there is no class of traffic").help("add a `[[traffic]]`"));
    };
    own_direction(&Reader::of(first, "a class of traffic", KEYS)?)
}

fn own_direction(table: &Reader<'_>) -> Result<Direction, Problem> {
    traffic::direction(Some(table))
}

/// Reads all classes, and the traffic that stands for them where the network matters.
pub(super) fn read(
    node: &Node,
    end: &Span,
    network: &mut Network,
    files: &Files<'_>,
) -> Result<(Traffic, Vec<TrafficClass>), Problem> {
    let mut classes: Vec<TrafficClass> = Vec::new();
    let network_direction = direction(node)?;
    let is_list = matches!(node.value, Value::Array(_));
    for item in node.items() {
        let class = class(item, end, network, files, is_list)?;
        if classes.iter().any(|other| other.name == class.name) {
            return Err(Problem::at(
                &item.span,
                format!("two classes of traffic are called `{}`", class.name),
            )
            .help("give each class a `name` of its own"));
        }
        classes.push(class);
    }
    let Some(main) = main_class(&classes) else {
        return Err(Problem::at(
            &node.span,
            "no class of traffic uses the contenders, so there is nothing to compare",
        )
        .help("add a class of another kind than `udp`, without `via = \"tcp\"`"));
    };
    let kind = &classes[main].kind;
    let longest = classes.iter().map(|class| class.kind.span()).max().unwrap_or_default();
    let traffic = Traffic {
        size: kind.size(),
        flows: classes.iter().map(|class| class.flows).sum(),
        pairs: network.number_paths(),
        start: Start::Together(Time::ZERO),
        direction: network_direction,
        duration: longest,
        size_known: true,
        background: Vec::new(),
        beside: Vec::new(),
    };
    Ok((traffic, classes))
}

fn class(
    node: &Node,
    end: &Span,
    network: &mut Network,
    files: &Files<'_>,
    named: bool,
) -> Result<TrafficClass, Problem> {
    let table = Reader::of(node, "a class of traffic", KEYS)?;
    let kind = table.optional("kind", |node| node.choice("kind of traffic", &Kind::NAMES))?.unwrap_or(0);
    let of_kind = |key: &str| COMMON.contains(&key) || OWN[kind].contains(&key);
    if let Some((key, node)) =
        KEYS.iter().filter(|key| !of_kind(key)).find_map(|key| Some((key, table.get(key)?)))
    {
        return Err(Problem::at(
            &node.span,
            format!("traffic of the kind `{}` has no `{key}`", Kind::NAMES[kind]),
        )
        .help(format!("its own keys are {}", list(OWN[kind]))));
    }
    let name = match (table.get("name"), named) {
        (Some(node), _) => node.name()?,
        (None, false) => Kind::NAMES[kind].to_owned(),
        (None, true) => table.required("name", "\"web\"", Node::name)?,
    };
    if name.trim().is_empty() {
        return Err(
            Problem::at(table.span, "the name of a class is empty").help("give for example `name = \"web\"`")
        );
    }
    let direction = own_direction(&table)?;
    let pairs = network.class_pairs(&table, direction, end)?;
    let kind = read_kind(kind, &table, files)?;
    if let (Kind::Requests(_) | Kind::Video(_), Direction::Upload, Some(node)) =
        (&kind, direction, table.get("direction"))
    {
        return Err(Problem::at(&node.span, "responses and segments are sent to the client, which connects")
            .help("remove `direction`"));
    }
    let size = match &kind {
        Kind::Transfer { size, .. } => size.clone(),
        _ => FlowSize::Bulk,
    };
    let (start, flows) = traffic::starts(&table, &size, pairs.len() as u32, files)?;
    let paths = &network.pairs[pairs[0]].paths;
    let path = table.optional("path", |node| path_position(node, paths))?;
    let datagrams = matches!(kind, Kind::Datagrams(_));
    let names: &[&str] = if datagrams { &["udp"] } else { &["contender", "tcp"] };
    let via = match (table.optional("via", |node| node.choice("transport", names))?, datagrams) {
        (_, true) => Via::Udp(path),
        (Some(1), false) => Via::Tcp(path),
        (_, false) => Via::Contender,
    };
    if let (Via::Contender, Some(node)) = (via, table.get("path")) {
        return Err(Problem::at(&node.span, "a contender chooses its paths itself")
            .help("remove `path`, or write `via = \"tcp\"`"));
    }
    let size_known = table.optional("size-known", Node::boolean)?.unwrap_or(true);
    Ok(TrafficClass { name, kind, pairs, flows, start, direction, via, size_known })
}

fn read_kind(kind: usize, table: &Reader<'_>, files: &Files<'_>) -> Result<Kind, Problem> {
    let size = |node: &Node| distribution::read(node, Of::Size, files);
    let time = |node: &Node| distribution::read(node, Of::Time, files);
    let duration = table.optional("duration", Node::positive_time)?;
    let span = duration.unwrap_or(DEFAULT_DURATION);
    let count_events = |gap: f64, span: Duration, key: &str| match table.get(key) {
        Some(node) if span.0 as f64 / gap.max(1.0) > MOST_EVENTS => {
            Err(Problem::at(&node.span, format!("in {span} this happens more than 10 million times"))
                .help("give longer times, or a shorter `duration`"))
        }
        _ => Ok(()),
    };
    Ok(match Kind::NAMES[kind] {
        "transfer" => {
            let size = traffic::size(table, files)?;
            if let (Some(node), true) = (table.get("duration"), size != FlowSize::Bulk) {
                return Err(Problem::at(&node.span, "flows with a size end by themselves")
                    .help("`duration` belongs to `size = \"bulk\"`; the time limit of a run is `deadline`"));
            }
            Kind::Transfer { size, duration: span }
        }
        "requests" => {
            let pace = match (table.get("think"), table.get("gap")) {
                (Some(_), Some(node)) => {
                    return Err(Problem::at(
                        &node.span,
                        "the next request follows either the response or the request",
                    )
                    .help("remove `gap` for a closed loop, or `think` for an open one"));
                }
                (None, Some(gap)) => Pace::Open(time(gap)?),
                (Some(node), None) if node.delay().is_ok_and(|span| span.is_zero()) => {
                    Pace::Closed(Distribution::Constant(0.0))
                }
                (Some(think), None) => Pace::Closed(time(think)?),
                (None, None) => Pace::Closed(table.required("think", "\"1 s\"", time)?),
            };
            let count =
                table.optional("requests", |node| node.integer(1, MOST_EVENTS as i64))?.map(|n| n as u64);
            let span = match (duration, count) {
                (Some(duration), _) => duration,
                (None, Some(_)) => UNLIMITED,
                (None, None) => DEFAULT_DURATION,
            };
            if let (Pace::Open(gap), None) = (&pace, count) {
                count_events(gap.mean(), span, "gap")?;
            }
            Kind::Requests(Requests {
                request: table.optional("request", size)?.unwrap_or(Distribution::Constant(100.0)),
                response: table.required("size", "\"50 KB\"", size)?,
                pace,
                count,
                span,
            })
        }
        "on-off" => {
            let plan = OnOff {
                on: table.required("on", "\"1 s\"", time)?,
                off: table.required("off", "\"1 s\"", time)?,
                rate: table.required("rate", "\"2 Mbit/s\"", Node::rate)?,
                span,
            };
            // It writes in a share of the time only, at least a block in each period.
            let gap = plan.rate.transmission_time(OnOff::BLOCK).0.max(1) as f64;
            let (on, off) = (plan.on.mean().max(gap), plan.off.mean());
            let share = if on.is_finite() && off.is_finite() { on / (on + off) } else { 1.0 };
            count_events(gap / share, span, "rate")?;
            Kind::OnOff(plan)
        }
        "udp" => {
            let payload = table.optional("size", Node::positive_size)?.unwrap_or(Bytes(1200));
            if let (1453.., Some(node)) = (payload.0, table.get("size")) {
                return Err(Problem::at(
                    &node.span,
                    format!("a datagram of {payload} does not fit a packet"),
                )
                .help("give at most 1452 B"));
            }
            let (gap, key) = match (table.get("gap"), table.get("rate")) {
                (Some(_), Some(node)) => {
                    return Err(Problem::at(&node.span, "a gap and a size determine the rate")
                        .help("remove one of them"));
                }
                (Some(gap), None) => (time(gap)?, "gap"),
                (None, _) => {
                    let rate = table.required("rate", "\"64 kbit/s\"", Node::rate)?;
                    let gap = Distribution::Constant(rate.transmission_time(payload.0).0.max(1) as f64);
                    (gap, "rate")
                }
            };
            count_events(gap.mean(), span, key)?;
            Kind::Datagrams(Datagrams { payload: payload.0 as u32, gap, span })
        }
        _ => video(table, duration)?,
    })
}

/// The usual length of a segment of video, and of a player's buffer.
const SEGMENT: Duration = Duration::from_secs(4);
const BUFFER: Duration = Duration::from_secs(30);

fn video(table: &Reader<'_>, duration: Option<Duration>) -> Result<Kind, Problem> {
    let ladder = table.required("bitrate", "\"4 Mbit/s\"", |node| {
        let rates: Vec<Rate> = node.items().iter().map(Node::rate).collect::<Result<_, _>>()?;
        match rates.windows(2).all(|two| two[0] < two[1]) && (1..=64).contains(&rates.len()) {
            true => Ok(rates),
            false => Err(Problem::at(&node.span, "these bitrates do not increase")
                .help("give 1 to 64, the lowest first")),
        }
    })?;
    let segment = table.optional("segment", Node::positive_time)?.unwrap_or(SEGMENT);
    let duration = duration.unwrap_or(Duration::from_secs(60));
    let segments = duration.0.div_ceil(segment.0);
    if let (1_000_001.., Some(node)) = (segments, table.get("segment").or(table.get("duration"))) {
        return Err(Problem::at(&node.span, format!("{duration} has {segments} segments"))
            .help("give at most a million"));
    }
    let startup = table.optional("startup", Node::positive_time)?.unwrap_or(segment);
    let resume = table.optional("resume", Node::positive_time)?.unwrap_or(startup);
    let buffer = table
        .optional("buffer", Node::positive_time)?
        .unwrap_or(BUFFER.max(startup).max(resume).max(segment));
    for (key, value) in [("startup", startup), ("resume", resume), ("segment", segment)] {
        if value > buffer {
            let node = table.get(key).or(table.get("buffer"));
            return Err(Problem::at(
                node.map_or(table.span, |node| &node.span),
                format!("`{key}` is {value}, and the buffer {buffer}"),
            )
            .help(format!("give a `buffer` of at least {value}")));
        }
    }
    Ok(Kind::Video(Video { segment, segments: segments as u32, ladder, startup, resume, buffer }))
}
