//! Reads the settings of a link: the keys that a `[[path]]` and a `[[link]]` share.

use anabranch_link::{
    Capacity, GilbertElliott, Jitter, JitterShape, LinkConfig, Loss, LossDraws, Reordering, WhenDown,
};
use anabranch_stack::config::Profile;
use anabranch_units::Duration;

use super::queueing::{self, Redrawable};
use crate::model::TraceStart;
use crate::text::base;
use crate::text::keys::{Keys, rows};
use crate::text::reader::Reader;
use crate::text::source::Problem;
use crate::text::tree::{Node, Value};

rows! {
    /// The keys that paths and links share. For a path, the keys from `loss` on (loss and other impairments)
    /// apply to the data direction.
    pub(super) ROWS, KEYS {
        "queue": Queue, "length of the queue; default 1 BDP";
        "ecn-threshold": Queue, "queue above which packets of ECN connections are marked; default none";
        "aqm": AnyOf(&[Choice(&queueing::KINDS), Table(&queueing::AQM)]), "queue management; default drop-tail";
        "policer": Table(&queueing::BUCKET), "drops packets that exceed a token bucket";
        "shaper": Table(&queueing::BUCKET), "delays packets that exceed a token bucket";
        "cross-traffic": OneOrMore(&Table(&queueing::CROSS_TRAFFIC)), "packets at a constant rate";
        "redraw": OneOrMore(&Table(&queueing::REDRAW)), "rates or delays that are drawn again periodically";
        "loss-draws": Choice(LOSS_DRAWS), "the assignment of random draws to packets";
        "when-down": Choice(&["drop", "keep"]), "the fate of queued packets while the link is down; default drop";
        "mtu": Size, "largest packet that the link forwards, 576 to 65535 B";
        "mtu-reports": Bool, "whether larger packets are answered by ICMP; default true";
        "loss": Probability, "independent loss of packets; default 0";
        "gilbert-elliott": Table(&GILBERT_ELLIOTT), "losses in bursts";
        "jitter": AnyOf(&[Time, Table(&JITTER)]), "random additional delay";
        "reorder": Table(&REORDER), "packets that are delayed past later ones";
        "duplicate": Probability, "probability that a packet arrives twice";
        "drop": List(&Whole(1, i64::MAX)), "numbers of packets that are dropped, from 1";
        "corrupt": Probability, "probability that a packet arrives damaged";
        "repeat-after": Time, "a lost packet is delivered so much later, and the ones after it wait, as in a tunnel over TCP; default it is lost";
    }
}

rows! {
    GILBERT_ELLIOTT_ROWS, GILBERT_ELLIOTT_KEYS {
        "mean-good": Time, "mean duration of the good state";
        "mean-bad": Time, "mean duration of the bad state";
        "loss-good": Probability, "loss in the good state; default 0";
        "loss-bad": Probability, "loss in the bad state";
    }
}
const GILBERT_ELLIOTT: Keys =
    Keys::new("gilbert-elliott", &[GILBERT_ELLIOTT_ROWS]).requires(&["mean-good", "mean-bad", "loss-bad"]);

rows! {
    JITTER_ROWS, JITTER_KEYS {
        "max": Time, "greatest delay of uniform jitter";
        "mean": Time, "mean of normal jitter";
        "deviation": Time, "standard deviation of normal jitter";
        "reorder": Bool, "whether packets may overtake one another; default false";
    }
}
const JITTER: Keys = Keys { one_of: &[&["max", "mean"]], ..Keys::new("jitter", &[JITTER_ROWS]) };

rows! {
    REORDER_ROWS, REORDER_KEYS {
        "probability": Probability, "share of packets that are delayed";
        "extra": Time, "their additional delay";
    }
}
const REORDER: Keys = Keys::new("reorder", &[REORDER_ROWS]).requires(&["probability", "extra"]);

/// Concatenates lists of keys to one list of `N` keys.
pub(super) const fn join<const N: usize>(lists: &[&[&'static str]]) -> [&'static str; N] {
    let (mut all, mut at, mut list) = ([""; N], 0, 0);
    while list < lists.len() {
        let mut key = 0;
        while key < lists[list].len() {
            all[at] = lists[list][key];
            (at, key) = (at + 1, key + 1);
        }
        list += 1;
    }
    assert!(at == N, "every key has a place");
    all
}

/// The assignments of random draws to packets.
const LOSS_DRAWS: &[&str] = &["shared", "separate"];

/// Reads the assignment of random draws to packets.
fn loss_draws(node: &Node) -> Result<LossDraws, Problem> {
    Ok(match node.choice("way of drawing losses", LOSS_DRAWS)? {
        0 => LossDraws::Shared,
        _ => LossDraws::Separate,
    })
}

/// Reads the queue, the MTU and similar settings of a link.
pub(super) fn carrier(table: &Reader<'_>, profile: Profile) -> Result<LinkConfig, Problem> {
    let default = LinkConfig::default();
    let draws = table.optional("loss-draws", loss_draws)?;
    let when_down = table.optional("when-down", |node| node.choice("rule", &["drop", "keep"]))?;
    Ok(LinkConfig {
        queue: table.optional("queue", Node::queue)?.unwrap_or(default.queue),
        ecn_threshold: table.optional("ecn-threshold", Node::queue)?,
        loss_draws: draws.unwrap_or(match profile {
            Profile::Linux => LossDraws::Separate,
            Profile::Ns3 => LossDraws::Shared,
        }),
        when_down: if when_down == Some(1) { WhenDown::Keep } else { WhenDown::Drop },
        aqm: table.optional("aqm", queueing::aqm)?.unwrap_or(default.aqm),
        policer: table.optional("policer", |node| queueing::bucket(node, "policer"))?,
        shaper: table.optional("shaper", |node| queueing::bucket(node, "shaper"))?,
        cross_traffic: table.optional("cross-traffic", queueing::cross_traffic)?.unwrap_or_default(),
        mtu: table.optional("mtu", mtu)?,
        reports_mtu: table.optional("mtu-reports", Node::boolean)?.unwrap_or(default.reports_mtu),
        ..default
    })
}

/// Reads the loss of a path or a link, called `what` in errors.
pub(super) fn loss(table: &Reader<'_>, what: &str) -> Result<Loss, Problem> {
    match (table.get("loss"), table.get("gilbert-elliott")) {
        (Some(_), Some(channel)) => {
            Err(Problem::at(&channel.span, format!("{what} has either `loss` or `gilbert-elliott`"))
                .help("remove one of them"))
        }
        (Some(loss), None) => Ok(Loss::bernoulli(loss.probability()?)),
        (None, Some(channel)) => gilbert_elliott(channel),
        (None, None) => Ok(Loss::None),
    }
}

/// An impairment with its own key.
pub(crate) struct Impairment {
    pub key: &'static str,
    read: fn(&Node, &mut LinkConfig) -> Result<(), Problem>,
    /// Returns its value in the canonical form; none without it.
    pub canonical: fn(&LinkConfig) -> Option<String>,
}

/// The impairments other than loss and jitter, in the order of the canonical form.
pub(crate) const IMPAIRMENTS: &[Impairment] = &[
    Impairment {
        key: "reorder",
        read: |node, config| {
            config.reordering = Some(reordering(node)?);
            Ok(())
        },
        canonical: |config| {
            let Reordering { probability, extra } = config.reordering?;
            Some(format!("{} {}", base::number(probability), base::time(extra)))
        },
    },
    Impairment {
        key: "duplicate",
        read: |node, config| {
            config.duplicate = node.probability()?;
            Ok(())
        },
        canonical: |config| (config.duplicate > 0.0).then(|| base::number(config.duplicate)),
    },
    Impairment {
        key: "corrupt",
        read: |node, config| {
            config.corrupt = node.probability()?;
            Ok(())
        },
        canonical: |config| (config.corrupt > 0.0).then(|| base::number(config.corrupt)),
    },
    Impairment {
        key: "drop",
        read: |node, config| {
            config.drop_list = numbers(node)?;
            Ok(())
        },
        canonical: |config| (!config.drop_list.is_empty()).then(|| base::list(&config.drop_list)),
    },
    Impairment {
        key: "repeat-after",
        read: |node, config| {
            config.repeat_after = Some(node.positive_time()?);
            Ok(())
        },
        canonical: |config| config.repeat_after.map(base::time),
    },
];

/// Adds the impairments other than loss to `config`.
pub(super) fn impair(table: &Reader<'_>, config: &mut LinkConfig) -> Result<(), Problem> {
    config.jitter = table.optional("jitter", jitter)?;
    for impairment in IMPAIRMENTS {
        if let Some(node) = table.get(impairment.key) {
            (impairment.read)(node, config)?;
        }
    }
    Ok(())
}

/// Reads the position at which runs begin in the traces of a path or a link, called `what` in errors.
pub(super) fn trace_start(table: &Reader<'_>, what: &str) -> Result<TraceStart, Problem> {
    let start = table.optional("trace-start", |node| match &node.value {
        Value::String(text) if text.trim() == "random" => Ok(TraceStart::Random),
        Value::String(text) if text.trim() == "together" => Ok(TraceStart::Together),
        _ => Ok(TraceStart::At(node.delay()?)),
    })?;
    if let (Some(node), None) = (table.get("trace-start"), table.get("trace")) {
        return Err(Problem::at(&node.span, format!("{what} without a trace has no start in it"))
            .help("give a `trace`, or remove `trace-start`"));
    }
    Ok(start.unwrap_or_default())
}

/// Returns `capacity` with the start of its trace; a start that each run draws is set when the run is made.
pub(super) fn started(capacity: Capacity, trace_start: TraceStart) -> Capacity {
    match (capacity, trace_start) {
        (Capacity::Trace { trace, .. }, TraceStart::At(start)) => Capacity::Trace { trace, start },
        (capacity, _) => capacity,
    }
}

fn gilbert_elliott(node: &Node) -> Result<Loss, Problem> {
    let table = Reader::of(node, "gilbert-elliott", GILBERT_ELLIOTT_KEYS)?;
    let sojourn = |node: &Node| {
        let span = node.delay()?;
        if span < Duration::from_micros(1) {
            return Err(
                Problem::at(&node.span, format!("a mean of {span} is too short")).help("give at least 1 us")
            );
        }
        Ok(span)
    };
    Ok(Loss::GilbertElliott(GilbertElliott {
        mean_good: table.required("mean-good", "\"1 s\"", sojourn)?,
        mean_bad: table.required("mean-bad", "\"50 ms\"", sojourn)?,
        loss_good: table.optional("loss-good", Node::probability)?.unwrap_or(0.0),
        loss_bad: table.required("loss-bad", "\"50%\"", Node::probability)?,
    }))
}

fn jitter(node: &Node) -> Result<Jitter, Problem> {
    if !matches!(node.value, Value::Table(_)) {
        return Ok(Jitter { shape: JitterShape::Uniform { max: node.delay()? }, reorder: false });
    }
    let table = Reader::of(node, "jitter", JITTER_KEYS)?;
    let reorder = table.optional("reorder", Node::boolean)?.unwrap_or(false);
    let shape = match (table.optional("max", Node::delay)?, table.optional("mean", Node::delay)?) {
        (Some(max), None) if table.get("deviation").is_none() => JitterShape::Uniform { max },
        (None, Some(mean)) => {
            let std_dev = table.required("deviation", "\"2 ms\"", Node::delay)?;
            JitterShape::Normal { mean, std_dev }
        }
        _ => {
            return Err(Problem::at(&node.span, "jitter is either uniform or normal")
                .help("write `{ max = \"5 ms\" }` or `{ mean = \"5 ms\", deviation = \"2 ms\" }`"));
        }
    };
    Ok(Jitter { shape, reorder })
}

fn reordering(node: &Node) -> Result<Reordering, Problem> {
    let table = Reader::of(node, "reorder", REORDER_KEYS)?;
    Ok(Reordering {
        probability: table.required("probability", "\"1%\"", Node::probability)?,
        extra: table.required("extra", "\"5 ms\"", Node::delay)?,
    })
}

/// Reads an MTU, in bytes.
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

/// Adds the redraws of a path's direction or of a link to `config`, where the delay is already set.
pub(super) fn redraw(
    table: &Reader<'_>,
    key: &'static str,
    name: &str,
    config: &mut LinkConfig,
) -> Result<(), Problem> {
    let Some(node) = table.get("redraw") else { return Ok(()) };
    let of = Redrawable {
        key,
        directions: if key == "rtt" { 2 } else { 1 },
        delay: config.delay,
        stream: name,
        is_traced: matches!(config.capacity, Capacity::Trace { .. }),
    };
    config.redraws = queueing::redraws(node, &of)?;
    Ok(())
}
