//! Reads the settings of a link: the keys that a `[[path]]` and a `[[link]]` share.

use anabranch_link::{
    Capacity, Change, GilbertElliott, Jitter, JitterShape, LinkConfig, Loss, LossDraws, Reordering, Step,
    WhenDown,
};
use anabranch_stack::config::Profile;
use anabranch_units::{Duration, Time};

use super::{TraceStart, canonical};
use crate::reader::Reader;
use crate::source::Problem;
use crate::tree::{Node, Value};

/// The keys that paths and links share. For a path, those of loss and other impairments, from `loss` on,
/// apply to the data direction.
pub(super) const KEYS: &[&str] = &[
    "queue",
    "ecn-threshold",
    "loss-draws",
    "when-down",
    "mtu",
    "mtu-reports",
    "loss",
    "gilbert-elliott",
    "jitter",
    "reorder",
    "duplicate",
    "drop",
    "corrupt",
];

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

/// Reads the assignment of random draws to packets; `apart` is the older name of `separate`.
fn loss_draws(node: &Node) -> Result<LossDraws, Problem> {
    match &node.value {
        Value::String(text) if text.trim() == "apart" => Ok(LossDraws::Separate),
        _ => Ok(match node.choice("way of drawing losses", &["shared", "separate"])? {
            0 => LossDraws::Shared,
            _ => LossDraws::Separate,
        }),
    }
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
pub(super) struct Impairment {
    pub key: &'static str,
    read: fn(&Node, &mut LinkConfig) -> Result<(), Problem>,
    /// Returns its value in the canonical form; none without it.
    pub canonical: fn(&LinkConfig) -> Option<String>,
}

/// The impairments other than loss and jitter, in the order of the canonical form.
pub(super) const IMPAIRMENTS: &[Impairment] = &[
    Impairment {
        key: "reorder",
        read: |node, config| {
            config.reordering = Some(reordering(node)?);
            Ok(())
        },
        canonical: |config| {
            let Reordering { probability, extra } = config.reordering?;
            Some(format!("{} {}", canonical::number(probability), canonical::time(extra)))
        },
    },
    Impairment {
        key: "duplicate",
        read: |node, config| {
            config.duplicate = node.probability()?;
            Ok(())
        },
        canonical: |config| (config.duplicate > 0.0).then(|| canonical::number(config.duplicate)),
    },
    Impairment {
        key: "corrupt",
        read: |node, config| {
            config.corrupt = node.probability()?;
            Ok(())
        },
        canonical: |config| (config.corrupt > 0.0).then(|| canonical::number(config.corrupt)),
    },
    Impairment {
        key: "drop",
        read: |node, config| {
            config.drop_list = numbers(node)?;
            Ok(())
        },
        canonical: |config| (!config.drop_list.is_empty()).then(|| canonical::list(&config.drop_list)),
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
    let table = Reader::of(node, "jitter", &["max", "mean", "deviation", "reorder"])?;
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
    let table = Reader::of(node, "reorder", &["probability", "extra"])?;
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

/// The steps of one `[[path.change]]` or `[[link.change]]`.
#[derive(Default)]
pub(super) struct Steps {
    /// The steps of the link, or of both directions of a path.
    both: Vec<Step>,
    /// The steps of the data direction only.
    data: Vec<Step>,
    /// The steps of the direction of the acknowledgements only.
    acks: Vec<Step>,
}

/// The possible changes: the keys of a change of a path, or of a link.
pub(super) struct Changeable {
    /// A phrase such as `a path`.
    pub what: &'static str,
    /// The key of the delay: the round-trip time of a path, the delay of a link.
    pub delay: &'static str,
    /// All keys.
    pub keys: &'static [&'static str],
    /// The keys of which one is needed, for an error.
    pub examples: &'static str,
}

pub(super) const PATH_CHANGE: Changeable = Changeable {
    what: "path",
    delay: "rtt",
    keys: &["at", "rate", "rtt", "loss", "loss-up", "down", "up"],
    examples: "`rate`, `rtt`, `loss`, `loss-up`, `down = true` or `up = true`",
};

pub(super) const LINK_CHANGE: Changeable = Changeable {
    what: "link",
    delay: "delay",
    keys: &["at", "rate", "delay", "loss", "down", "up"],
    examples: "`rate`, `delay`, `loss`, `down = true` or `up = true`",
};

/// Adds the changes of a path or a link to the timelines of its directions.
pub(super) fn change(
    table: &Reader<'_>,
    kind: &Changeable,
    data: &mut LinkConfig,
    mut acks: Option<&mut LinkConfig>,
) -> Result<(), Problem> {
    let Some(node) = table.get("change") else { return Ok(()) };
    let what = kind.what;
    let nodes =
        node.array().map_err(|problem| problem.help(format!("write each change as `[[{what}.change]]`")))?;
    let mut last: Option<Time> = None;
    let mut changes_rate = false;
    for item in nodes {
        let (at, steps) = one_change(item, kind)?;
        if let Some(last) = last
            && at < last
        {
            return Err(Problem::at(
                &item.span,
                format!("a change at {} comes after one at {}", Duration(at.0), Duration(last.0)),
            )
            .help("put the changes in order of time"));
        }
        last = Some(at);
        changes_rate |= steps.both.iter().any(|step| matches!(step.change, Change::Rate(_)));
        data.timeline.extend(steps.both.iter().cloned().chain(steps.data));
        if let Some(acks) = &mut acks {
            acks.timeline.extend(steps.both.into_iter().chain(steps.acks));
        }
    }
    if changes_rate && table.get("trace").is_some() {
        return Err(Problem::at(&node.span, format!("a {what} with a trace cannot change its rate"))
            .help(format!("remove `rate` from its changes, or `trace` from the {what}")));
    }
    Ok(())
}

fn one_change(node: &Node, kind: &Changeable) -> Result<(Time, Steps), Problem> {
    let what = kind.what;
    let table = Reader::of(
        node,
        if what == "path" { "a change of a path" } else { "a change of a link" },
        kind.keys,
    )?;
    let flag = |key: &str| -> Result<bool, Problem> {
        match table.get(key) {
            Some(node) if node.boolean()? => Ok(true),
            Some(node) => Err(Problem::at(&node.span, format!("`{key} = false` has no effect"))
                .help("write `down = true` or `up = true`")),
            None => Ok(false),
        }
    };
    let state = match (flag("down")?, flag("up")?) {
        (true, true) => {
            return Err(Problem::at(
                &node.span,
                format!("a {what} cannot go down and come up at the same time"),
            )
            .help("make two changes of it"));
        }
        (true, false) => Some(Change::Down),
        (false, true) => Some(Change::Up),
        (false, false) => None,
    };
    let at = Time::ZERO + table.required("at", "\"2 s\"", Node::delay)?;
    let rate = table.optional("rate", Node::rate)?;
    let delay = table.optional(kind.delay, Node::delay)?;
    // Each direction of a path has half of its round-trip time.
    let delay = delay.map(|delay| if kind.delay == "rtt" { delay / 2 } else { delay });
    let loss = |key: &str| -> Result<Vec<Step>, Problem> {
        let loss = table.optional(key, Node::probability)?;
        Ok(loss.map(|p| Step { at, change: Change::Loss(Loss::bernoulli(p)) }).into_iter().collect())
    };
    let (data, acks) = (loss("loss")?, loss("loss-up")?);
    if kind.keys[1..].iter().all(|key| table.get(key).is_none()) {
        return Err(
            Problem::at(&node.span, "this change changes nothing").help(format!("add {}", kind.examples))
        );
    }
    let both = [delay.map(Change::Delay), rate.map(Change::Rate), state];
    let both = both.into_iter().flatten().map(|change| Step { at, change }).collect();
    Ok((at, Steps { both, data, acks }))
}
