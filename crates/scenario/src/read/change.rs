//! Changes of a path or a link during the run.

use anabranch_link::{Change, LinkConfig, Loss, Step};
use anabranch_units::{Duration, Time};

use super::files::Files;
use super::sides::Sides;
use crate::model::Signal;
use crate::text::keys::rows;
use crate::text::reader::Reader;
use crate::text::source::Problem;
use crate::text::tree::{Node, Table, Value};

/// The possible changes: the keys of a change of a path, or of a link.
pub(super) struct Changeable {
    /// A phrase such as `a path`.
    pub what: &'static str,
    /// The key of the delay: the round-trip time of a path, the delay of a link.
    pub delay: &'static str,
    pub keys: &'static [&'static str],
    /// Keys for an error's text; one of them is needed.
    pub examples: &'static str,
}

rows! {
    /// The keys of a change of a path.
    pub(super) PATH_ROWS, PATH_KEYS {
        "at": Time, "time of the change from the start of the run";
        "rate": Rate, "new rate";
        "trace": Text, "file of a new trace";
        "rtt": Time, "new round-trip time";
        "delay": Time, "new one-way delay";
        "loss": Probability, "new loss";
        "loss-up": Probability, "new loss of acknowledgements";
        "down": Bool, "`true`: the path forwards nothing from now on";
        "up": Bool, "`true`: it forwards packets again";
        "notify-after": Time, "the interface goes down or comes up with it, and its host notices this much later";
    }
}

rows! {
    /// The keys of a change of a link.
    pub(super) LINK_ROWS, LINK_KEYS {
        "at": Time, "time of the change from the start of the run";
        "rate": Rate, "new rate";
        "trace": Text, "file of a new trace";
        "delay": Time, "new one-way delay";
        "loss": Probability, "new loss";
        "down": Bool, "`true`: the link forwards nothing from now on";
        "up": Bool, "`true`: it forwards packets again";
        "notify-after": Time, "the interface goes down or comes up with it, and its host notices this much later";
    }
}

pub(super) const PATH: Changeable = Changeable {
    what: "path",
    delay: "rtt",
    keys: PATH_KEYS,
    examples: "`rate`, `trace`, `rtt`, `delay`, `loss`, `loss-up`, `down = true` or `up = true`",
};

pub(super) const LINK: Changeable = Changeable {
    what: "link",
    delay: "delay",
    keys: LINK_KEYS,
    examples: "`rate`, `trace`, `delay`, `loss`, `down = true` or `up = true`",
};

/// The time for which changes repeat.
const REPEATED: Time = Time::from_secs(3600);
/// The most changes of a path or a link that repeat.
const MOST_CHANGES: u64 = 20_000;

/// Adds the changes of a path or a link to the timelines of its directions; `split` separates the two directions of a path.
pub(super) fn read(
    table: &Reader<'_>,
    kind: &Changeable,
    files: &Files<'_>,
    split: impl Fn(&Node) -> Result<Sides, Problem>,
    data: &mut LinkConfig,
    mut acks: Option<&mut LinkConfig>,
) -> Result<Vec<Signal>, Problem> {
    let what = kind.what;
    let every = table.get("change-every");
    let Some(node) = table.get("change") else {
        return match every {
            None => Ok(Vec::new()),
            Some(every) => Err(Problem::at(&every.span, format!("the {what} has no change to repeat"))
                .help(format!("add `change`, or remove `{what}.change-every`"))),
        };
    };
    let mut signals = Vec::new();
    let nodes =
        node.array().map_err(|problem| problem.help(format!("write each change as `[[{what}.change]]`")))?;
    let mut last: Option<Time> = None;
    let mut first = Time(u64::MAX);
    let mut shift = Duration::ZERO;
    loop {
        for item in nodes {
            let sides = split(item)?;
            let at = one_change(item, &sides.data, kind, files, shift, data)?;
            if let Some(acks) = &mut acks {
                one_change(item, &sides.acks, kind, files, shift, acks)?;
            }
            let whole = item.table("a change")?;
            let noticed = signal(whole, at)?;
            // A host that knows that its interface is down also learns that it is up.
            let known =
                signals.last().filter(|last: &&Signal| !last.up && noticed.is_none() && is_set(whole, "up"));
            let return_at = known.map(|last| Signal { at: at.max(last.at), up: true });
            signals.extend(noticed.or(return_at));
            if whole.entries.iter().all(|entry| entry.key == "at") {
                return Err(Problem::at(&item.span, "this change changes nothing")
                    .help(format!("add {}", kind.examples)));
            }
            if let Some(last) = last
                && at < last
            {
                return Err(Problem::at(
                    &item.span,
                    format!("a change at {} comes after one at {}", Duration(at.0), Duration(last.0)),
                )
                .help("put the changes in order of time"));
            }
            first = first.min(at);
            last = Some(at);
        }
        let (Some(every), Some(end)) = (every, last) else { break };
        let interval = every.delay()?;
        if shift == Duration::ZERO {
            check_interval(every, interval, nodes.len(), end.since(first))?;
        }
        shift += interval;
        if first + interval > REPEATED {
            break;
        }
        first = Time(u64::MAX);
    }
    let changes = |kind: fn(&Change) -> bool| data.timeline.iter().any(|step| kind(&step.change));
    let (to_rate, to_trace) =
        (changes(|to| matches!(to, Change::Rate(_))), changes(|to| matches!(to, Change::Trace { .. })));
    let is_traced = table.get("trace").is_some();
    if to_rate && is_traced {
        return Err(Problem::at(&node.span, format!("a {what} with a trace cannot change its rate"))
            .help(format!("remove `rate` from its changes, or `trace` from the {what}")));
    }
    if to_trace && !is_traced {
        return Err(Problem::at(&node.span, format!("a {what} with a rate cannot change to a trace")).help(
            format!("remove `trace` from its changes, or give the {what} a trace from the beginning"),
        ));
    }
    Ok(signals)
}

/// Checks the interval at which `count` changes repeat, which take `span`.
fn check_interval(node: &Node, interval: Duration, count: usize, span: Duration) -> Result<(), Problem> {
    if interval <= span {
        return Err(Problem::at(&node.span, format!("the changes take {span}, longer than their interval"))
            .help("give an interval that is longer than the time from the first change to the last one"));
    }
    let times = REPEATED.0 / interval.0 * count as u64;
    if times > MOST_CHANGES {
        return Err(Problem::at(
            &node.span,
            format!("the changes would repeat too often: {times} in an hour"),
        )
        .help(format!("at most {MOST_CHANGES} changes in an hour; a `trace` has faster ones")));
    }
    Ok(())
}

/// Reads the notification of the host by a change at the time `at`.
fn signal(change: &Table, at: Time) -> Result<Option<Signal>, Problem> {
    let Some(entry) = change.get("notify-after") else { return Ok(None) };
    if !is_set(change, "down") && !is_set(change, "up") {
        return Err(Problem::at(&entry.key_span, "this change leaves the interface as it is")
            .help("`notify-after` belongs to `down = true` or `up = true`, for both directions"));
    }
    Ok(Some(Signal { at: at + entry.node.delay()?, up: is_set(change, "up") }))
}

/// True if the change sets `key` to true, for both directions.
fn is_set(change: &Table, key: &str) -> bool {
    matches!(change.get(key).map(|entry| &entry.node.value), Some(Value::Bool(true)))
}

/// Adds the steps of one change to the timeline of one direction; `side` has the settings for that direction.
/// They are `shift` later than they say. Returns their time.
fn one_change(
    node: &Node,
    side: &Table,
    kind: &Changeable,
    files: &Files<'_>,
    shift: Duration,
    config: &mut LinkConfig,
) -> Result<Time, Problem> {
    let what = kind.what;
    let table = Reader::new(
        side,
        &node.span,
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
    let at = Time::ZERO + table.required("at", "\"2 s\"", Node::delay)? + shift;
    let rate = table.optional("rate", Node::rate)?.map(Change::Rate);
    let trace = table.optional("trace", |node| files.trace(node))?;
    let trace = trace.map(|trace| Change::Trace { trace, start: Duration::ZERO });
    if let (Some(_), Some(node)) = (&rate, table.get("trace")) {
        return Err(
            Problem::at(&node.span, format!("a {what} has either a rate or a trace")).help("remove one")
        );
    }
    // Each direction of a path has half of its round-trip time.
    let half = table.optional(kind.delay, Node::delay)?;
    let delay = match (kind.delay, half) {
        ("rtt", Some(rtt)) => {
            if let Some(node) = table.get("delay") {
                return Err(
                    Problem::at(&node.span, "the delay is given twice").help("remove `rtt` or `delay`")
                );
            }
            Some(rtt / 2)
        }
        ("rtt", None) => table.optional("delay", Node::delay)?,
        (_, delay) => delay,
    };
    let loss = table.optional("loss", Node::probability)?.map(|p| Change::Loss(Loss::bernoulli(p)));
    let steps = [delay.map(Change::Delay), rate.or(trace), state, loss];
    config.timeline.extend(steps.into_iter().flatten().map(|change| Step { at, change }));
    Ok(at)
}
