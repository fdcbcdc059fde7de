//! The bound for events that no run has shown.
//!
//! A bootstrap knows only the values that it resamples. An event that did not occur in n runs may still have a
//! probability of 3/n: with that probability n runs miss it in 5 % of all cases (the *rule of three*; Hanley and
//! Lippman-Hand, "If nothing goes wrong, is everything all right?", 1983). If the event costs c, the true mean is up to
//! 3c/n above the measured one. That amount joins the interval, on the side on which the event would move it.
//!
//! The cost is not known in general, but three kinds are:
//!
//! * **A loss**: where packets are lost at random, k handshakes in a row may be lost, k transmissions of the last
//!   segments, and a segment in between, which costs a round trip. The scenario knows the probability, which replaces
//!   3/n where it is less.
//! * **A bad place of a trace** that starts anywhere: the longest time without a delivery; for a plain TCP on that
//!   path the longest time that a flow of the mean size can take there, less the median.
//! * **An event that others have shown**: the greatest excess over the median in a run of another contender that uses
//!   the same paths.
//!
//! A contender that has shown an event of that cost itself needs no bound for it: its runs contain the event, and the
//! bootstrap resamples it. The bounds of different kinds are added.

use anabranch_link::{Capacity, Trace};
use anabranch_units::Duration;

use super::Entrant;
use super::measured::Measured;
use super::verdict::Measure;
use crate::scenario::{Condition, Experiment, Link, Path, TraceStart};
use crate::stats;

/// The rule of three: -ln(0.05), rounded up.
const RULE_OF_THREE: f64 = 3.0;
/// The number of losses in a row whose probability and cost are considered.
const MOST_LOSSES: i32 = 4;
/// The segments at the end of a flow whose loss only a timer may find.
const TAIL_SEGMENTS: f64 = 3.0;
/// The payload of a segment, about.
const SEGMENT: f64 = 1448.0;

/// The most by which unseen events may change a mean, relative to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Unseen {
    /// The greatest increase, for times.
    pub more: f64,
    /// The greatest decrease, for goodput and bitrates; at most 1.
    pub less: f64,
}

impl Unseen {
    /// Returns the change in percent, whatever its sign.
    pub(crate) fn percent(self) -> f64 {
        100.0 * self.more.max(self.less)
    }
}

/// An event that a run may show.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    /// Its probability, if it is known.
    probability: f64,
    /// The time that it costs, in seconds.
    cost_s: f64,
    /// True if it affects all flows of a run.
    of_run: bool,
}

/// The values of a contender: how often an event could have occurred, and the greatest that did.
struct Shown {
    runs: f64,
    values: f64,
    mean: f64,
    /// The greatest excess over the median: of a value, and of a run's mean.
    of_value: f64,
    of_run: f64,
}

impl Shown {
    fn new(runs: &[Vec<Measured>], gain: bool) -> Option<Shown> {
        let values = |run: &Vec<Measured>| run.iter().filter_map(|value| value.value).collect::<Vec<f64>>();
        let runs: Vec<Vec<f64>> = runs.iter().map(values).collect();
        let mut all: Vec<f64> = runs.iter().flatten().copied().collect();
        all.sort_unstable_by(f64::total_cmp);
        let (mean, median) = (stats::mean(&all)?, stats::percentile(&all, 50.0)?);
        let per_run = all.len() as f64 / runs.len() as f64;
        let mut means: Vec<f64> = runs.iter().map(|run| run.iter().sum::<f64>() / per_run).collect();
        means.sort_unstable_by(f64::total_cmp);
        let of_runs = stats::percentile(&means, 50.0)?;
        // Both are ascending.
        let greatest = |sorted: &[f64], median: f64| match gain {
            true => median - sorted.first().copied().unwrap_or(median),
            false => sorted.last().copied().unwrap_or(median) - median,
        };
        Some(Shown {
            runs: runs.len() as f64,
            values: all.len() as f64,
            mean,
            of_value: greatest(&all, median),
            of_run: greatest(&means, of_runs),
        })
    }

    /// Returns the share of the runs, or of the values, in which an event may occur that was not seen.
    fn share(&self, of_run: bool) -> f64 {
        (RULE_OF_THREE / if of_run { self.runs } else { self.values }).min(1.0)
    }

    /// Returns the most by which `event` may raise the mean, if none that costs as much was shown.
    fn rise(&self, event: &Event) -> f64 {
        let shown = if event.of_run { self.of_run } else { self.of_value };
        self.share(event.of_run).min(event.probability) * (event.cost_s - shown).max(0.0)
    }
}

/// Returns the bound of each entrant for its values of `measure`, which are those of `values`, by run.
pub(crate) fn bounds(
    condition: &Condition,
    entrants: &[&Entrant<'_>],
    values: &[Vec<Vec<Measured>>],
    measure: Measure,
) -> Vec<Unseen> {
    let experiment = &condition.experiment;
    let gain = measure.is_gain();
    let shown: Vec<Option<Shown>> = values.iter().map(|runs| Shown::new(runs, gain)).collect();
    let bound = |(at, own): (usize, &Option<Shown>)| {
        // One run has no interval that could be wider.
        let Some(own) = own.as_ref().filter(|own| own.runs > 1.0 && own.mean > 0.0) else {
            return Unseen::default();
        };
        let entrant = entrants[at];
        // Plain TCPs on the same path, and multipath contenders among themselves, meet the same events.
        let alike = shown.iter().zip(entrants).filter(|(_, other)| other.path == entrant.path);
        let greatest = alike.filter_map(|(shown, _)| Some(shown.as_ref()?.of_run)).fold(0.0, f64::max);
        let of_others = own.share(true) * (greatest - own.of_run).max(0.0) / own.mean;
        let events = match measure {
            // A lost datagram has no delay, and neither has a bitrate.
            Measure::Delay | Measure::Bitrate | Measure::P95 => Vec::new(),
            _ => events(condition, entrant),
        };
        if gain {
            let duration = experiment.traffic.duration.as_secs_f64().max(1e-9);
            let loss = |event: &Event| {
                let (cost, shown) = ((event.cost_s / duration).min(1.0), own.of_run / own.mean);
                own.share(event.of_run).min(event.probability) * (cost - shown).max(0.0)
            };
            return Unseen { more: 0.0, less: sum_of_greatest(&events, loss).max(of_others).min(1.0) };
        }
        let more = sum_of_greatest(&events, |event| own.rise(event) / own.mean);
        Unseen { more: more.max(of_others), less: 0.0 }
    };
    shown.iter().enumerate().map(bound).collect()
}

/// Returns the sum, over the kinds of events, of the greatest value of an event of the kind.
fn sum_of_greatest(kinds: &[Vec<Event>], value: impl Fn(&Event) -> f64) -> f64 {
    kinds.iter().map(|events| events.iter().map(&value).fold(0.0, f64::max)).sum()
}

/// Returns the events that the scenario makes possible for a contender, by kind.
fn events(condition: &Condition, entrant: &Entrant<'_>) -> Vec<Vec<Event>> {
    let experiment = &condition.experiment;
    let paths = experiment.paths();
    let first = &paths[entrant.path.unwrap_or(experiment.initial)];
    let used: Vec<&Path> = match entrant.path {
        Some(path) => vec![&paths[path]],
        None => paths.iter().collect(),
    };
    let rto = &condition.configs[entrant.contender].connection.rto;
    let size = experiment.traffic.size.mean();
    let handshake = lost(experiment, first, true);
    let mut events = vec![timeouts(handshake, 1.0, rto.initial, rto.backoff)];
    for path in &used {
        let rtt = links(experiment, path, true).fold(Duration::ZERO, |sum, link| sum + link.config.delay);
        let lost = lost(experiment, path, false);
        events.push(timeouts(lost, TAIL_SEGMENTS, rto.min + rtt, rto.backoff));
        let segments = size.unwrap_or(0.0) / SEGMENT;
        let probability = (segments * lost).min(1.0);
        events.push(vec![Event { probability, cost_s: rtt.as_secs_f64(), of_run: false }]);
        for link in links(experiment, path, true) {
            let Capacity::Trace { trace, .. } = &link.config.capacity else { continue };
            if !begins_anywhere(experiment, link) {
                continue;
            }
            let carries_data = links(experiment, path, false).any(|data| core::ptr::eq(data, link));
            let alone = size.filter(|_| carries_data && entrant.path.is_some());
            let cost_s = worst_start(trace, alone.unwrap_or(0.0));
            events.push(vec![Event { probability: 1.0, cost_s, of_run: true }]);
        }
    }
    let longest = experiment.deadline.as_secs_f64();
    events.iter_mut().flatten().for_each(|event| event.cost_s = event.cost_s.min(longest));
    events
}

/// Returns the events of one loss after another of packets with probability `lost`, of which `packets` cost a timeout.
fn timeouts(lost: f64, packets: f64, timeout: Duration, backoff: bool) -> Vec<Event> {
    let event = |losses: i32| {
        let timeouts = if backoff { 2_f64.powi(losses) - 1.0 } else { f64::from(losses) };
        let probability = (packets * lost.powi(losses)).min(1.0);
        Event { probability, cost_s: timeouts * timeout.as_secs_f64(), of_run: false }
    };
    (1..=MOST_LOSSES).map(event).collect()
}

/// Returns the links of a path that carry its data, and with `both` also those of its acknowledgements.
fn links<'a>(experiment: &'a Experiment, path: &'a Path, both: bool) -> impl Iterator<Item = &'a Link> {
    let routes = [path.data.first(), path.acks.first().filter(|_| both)];
    routes.into_iter().flatten().flatten().map(|link| &experiment.graph.links[*link])
}

/// Returns the probability that a packet with data is lost at random on a path, or with `both` either that packet or
/// its answer.
fn lost(experiment: &Experiment, path: &Path, both: bool) -> f64 {
    let arrives = |link: &Link| (1.0 - link.config.loss.mean_loss()) * (1.0 - link.config.corrupt);
    1.0 - links(experiment, path, both).map(arrives).product::<f64>()
}

/// True if every run draws the start in the link's trace.
pub(crate) fn begins_anywhere(experiment: &Experiment, link: &Link) -> bool {
    let phases = || experiment.phases.in_comparison().is_some_and(|phases| phases.traces);
    match link.trace_start {
        TraceStart::Random | TraceStart::Together => true,
        TraceStart::Beginning => phases(),
        TraceStart::At(_) => false,
    }
}

/// Returns the longest time that `bytes` can take in a trace, less the median over all starts: for 0 bytes the longest
/// time without a delivery.
fn worst_start(trace: &Trace, bytes: f64) -> f64 {
    let at = trace.timestamps_ms();
    let (n, period) = (at.len(), trace.period().as_secs_f64());
    let needed = (bytes / Trace::OPPORTUNITY_BYTES as f64).ceil().max(1.0) as usize;
    let time = |i: usize| f64::from(at[i % n]) / 1e3 + (i / n) as f64 * period;
    let mut spans: Vec<f64> = (0..n).map(|start| time(start + needed) - time(start)).collect();
    spans.sort_unstable_by(f64::total_cmp);
    let (Some(worst), Some(median)) = (spans.last(), stats::percentile(&spans, 50.0)) else { return 0.0 };
    if bytes > 0.0 { worst - median } else { *worst }
}

#[cfg(test)]
#[path = "unseen_tests.rs"]
mod tests;
