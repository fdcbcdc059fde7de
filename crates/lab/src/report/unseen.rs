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
//!   segments, and a segment of a window of slow start, which costs a round trip and the growth of the window: the
//!   rest of the flow is sent from a reduced window that grows by a segment in a round trip. The scenario knows the
//!   probability, which replaces 3/n where it is less.
//! * **A bad place of a trace** that starts anywhere: the longest time without a delivery; for a plain TCP on that
//!   path the longest time that a flow of the mean size can take there, less the median.
//! * **An event that others have shown**: the greatest excess over the median in a run of another contender that uses
//!   the same paths.
//!
//! * **A packet that a full queue drops**: the runs know how often that happened, and a timer may find the loss.
//!
//! A contender that has shown an event of that cost itself needs no bound for it: its runs contain the event, and the
//! bootstrap resamples it. The bounds of different kinds are added.
//!
//! A difference has a bound for each of the two contenders, from the events that the *differences* of the runs have shown: a
//! late flow that both have in the same run is no evidence of an event that only one of them has. Handshakes that both
//! lose in the same runs move the two means together.

use anabranch_link::{Capacity, Trace};
pub(crate) use anabranch_measure::{OfPair, Unseen};
use anabranch_units::Duration;

use super::entrant::Entrant;
use super::measured::{Measure, Measured};
use crate::run::{Class, FlowResult};
use crate::scenario::estimate::reduction;
use crate::scenario::{Condition, Direction, Experiment, Link, Path, Start, TraceStart, TrafficClass};
use crate::stats;

/// The rule of three: -ln(0.05), rounded up.
const RULE_OF_THREE: f64 = 3.0;
/// The largest number of losses in a row that is considered.
const MOST_LOSSES: i32 = 4;
/// The segments at the end of a flow that only a timer may find lost.
const TAIL_SEGMENTS: f64 = 3.0;
/// The payload of a segment, about.
const SEGMENT: f64 = 1448.0;
/// The same segment on the wire.
const PACKET: f64 = 1500.0;

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
        let values = |run: &Vec<Measured>| run.iter().filter_map(|value| value.value).collect();
        Shown::of(&runs.iter().map(values).collect::<Vec<_>>(), gain)
    }

    /// Returns what the differences of `own` from `other` show, over the values that both have.
    fn of_pair(own: &[Vec<Measured>], other: &[Vec<Measured>], gain: bool) -> Option<Shown> {
        let differences = |(own, other): (&Vec<Measured>, &Vec<Measured>)| {
            let pairs = own.iter().zip(other);
            pairs.filter_map(|(own, other)| Some(own.value? - other.value?)).collect()
        };
        Shown::of(&own.iter().zip(other).map(differences).collect::<Vec<_>>(), gain)
    }

    fn of(runs: &[Vec<f64>], gain: bool) -> Option<Shown> {
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

/// The bounds of the contenders of a condition by a measure.
pub(crate) struct Bounds<'a> {
    condition: &'a Condition,
    entrants: &'a [&'a Entrant<'a>],
    /// By entrant and run.
    values: &'a [Vec<Vec<Measured>>],
    measure: Measure,
    /// The direction of the data.
    direction: Direction,
    shown: Vec<Option<Shown>>,
}

impl<'a> Bounds<'a> {
    pub(crate) fn new(
        condition: &'a Condition,
        entrants: &'a [&'a Entrant<'a>],
        values: &'a [Vec<Vec<Measured>>],
        measure: Measure,
    ) -> Bounds<'a> {
        let shown = values.iter().map(|runs| Shown::new(runs, measure.is_gain())).collect();
        let direction = condition.experiment.traffic.direction;
        Bounds { condition, entrants, values, measure, direction, shown }
    }

    /// Returns the bounds for the values of `class`, if there is one.
    pub(crate) fn for_class(self, class: Option<&TrafficClass>) -> Bounds<'a> {
        let direction = class.map_or(self.direction, |class| class.direction);
        Bounds { direction, ..self }
    }

    /// Returns the bound of each entrant's mean.
    pub(crate) fn of_means(&self) -> Vec<Unseen> {
        let bound = |at: usize| {
            let Some(own) = self.known(at) else { return Unseen::default() };
            let alike = self.alike(at).filter_map(|other| Some(self.shown[other].as_ref()?.of_run));
            let mut events = self.events(at);
            events.extend(self.handshakes(at));
            self.bound(own, own.mean, alike.fold(0.0, f64::max), &events)
        };
        (0..self.entrants.len()).map(bound).collect()
    }

    /// Returns the bounds of the ratio of the means of two entrants.
    pub(crate) fn of_pair(&self, at: usize, other: usize) -> OfPair {
        let (Some(own), Some(of_other)) = (self.known(at), self.known(other)) else {
            return OfPair::default();
        };
        let is_shared = self.share_handshakes(at, other);
        let gain = self.measure.is_gain();
        let greatest = |a: usize, b: usize| Shown::of_pair(&self.values[a], &self.values[b], gain);
        let bound = |at: usize, alone: &Shown, other: usize| {
            let Some(pair) = greatest(at, other) else { return Unseen::default() };
            let alike = self.alike(at).filter(|alike| *alike != other && *alike != at);
            let alike = alike.filter_map(|alike| Some(greatest(alike, other)?.of_run)).fold(0.0, f64::max);
            let mut bound = self.bound(&pair, alone.mean, alike, &self.events(at));
            if !is_shared {
                // A run in which both lose one shows it as well, as far as it is the same one.
                let own = self.bound(alone, alone.mean, 0.0, &self.handshakes(at));
                (bound.more, bound.less) = (bound.more + own.more, (bound.less + own.less).min(1.0));
            }
            bound
        };
        // Both goodputs are reduced in the same proportion, so their bound has no `more`.
        let shared = |at: usize, alone: &Shown| match is_shared {
            true => self.bound(alone, of_other.mean, 0.0, &self.handshakes(at)).more,
            false => 0.0,
        };
        OfPair {
            own: bound(at, own, other),
            other: bound(other, of_other, at),
            shared: shared(at, own).max(shared(other, of_other)),
        }
    }

    /// Returns the values of an entrant. One run has no interval that could be wider.
    fn known(&self, at: usize) -> Option<&Shown> {
        self.shown[at].as_ref().filter(|own| own.runs > 1.0 && own.mean > 0.0)
    }

    /// Plain TCPs on the same path, and multipath contenders among themselves, meet the same events.
    fn alike(&self, at: usize) -> impl Iterator<Item = usize> {
        (0..self.entrants.len()).filter(move |other| self.entrants[*other].path == self.entrants[at].path)
    }

    /// Returns the bound relative to `mean` if `shown` was shown, and `alike` is the greatest excess that contenders with
    /// the same paths have shown.
    fn bound(&self, shown: &Shown, mean: f64, alike: f64, events: &[Vec<Event>]) -> Unseen {
        let of_others = shown.share(true) * (alike - shown.of_run).max(0.0) / mean;
        if self.measure.is_gain() {
            let duration = self.condition.experiment.traffic.duration.as_secs_f64().max(1e-9);
            let loss = |event: &Event| {
                let (cost, shown_part) = ((event.cost_s / duration).min(1.0), shown.of_run / mean);
                shown.share(event.of_run).min(event.probability) * (cost - shown_part).max(0.0)
            };
            return Unseen { more: 0.0, less: sum_of_greatest(events, loss).max(of_others).min(1.0) };
        }
        let more = sum_of_greatest(events, |event| shown.rise(event) / mean);
        Unseen { more: more.max(of_others), less: 0.0 }
    }

    /// True for a measure that lost packets change: a lost datagram has no delay, and neither has a bitrate.
    fn has_events(&self) -> bool {
        !matches!(self.measure, Measure::Delay | Measure::Bitrate | Measure::P95)
    }

    fn events(&self, at: usize) -> Vec<Vec<Event>> {
        if !self.has_events() {
            return Vec::new();
        }
        events(self.condition, self.entrants[at], self.direction)
    }

    fn handshakes(&self, at: usize) -> Vec<Vec<Event>> {
        if self.has_events() { vec![handshakes(self.condition, self.entrants[at])] } else { Vec::new() }
    }

    /// True if two entrants lose the same handshakes: their SYNs are the first packets of the same path, or its only ones for
    /// a while. Flows that start later come after different packets.
    fn share_handshakes(&self, at: usize, other: usize) -> bool {
        let experiment = &self.condition.experiment;
        let first = |at: usize| self.entrants[at].path.unwrap_or(experiment.initial);
        let together =
            experiment.traffic.flows == 1 || matches!(experiment.traffic.start, Start::Together(_));
        experiment.classes.is_empty() && together && first(at) == first(other)
    }
}

/// Returns the sum, over the kinds of events, of the greatest value of an event of the kind.
fn sum_of_greatest(kinds: &[Vec<Event>], value: impl Fn(&Event) -> f64) -> f64 {
    kinds.iter().map(|events| events.iter().map(&value).fold(0.0, f64::max)).sum()
}

/// Returns the events other than lost handshakes that the scenario makes possible for a contender, by kind, for data in
/// this direction.
fn events(condition: &Condition, entrant: &Entrant<'_>, direction: Direction) -> Vec<Vec<Event>> {
    let experiment = &condition.experiment;
    let paths = experiment.paths();
    let used: Vec<usize> = entrant.path.map_or_else(|| (0..paths.len()).collect(), |path| vec![path]);
    let config = &condition.configs[entrant.contender];
    let rto = &config.connection.rto;
    let size = experiment.traffic.size.mean();
    let mut events = Vec::new();
    let (mut longest_rtt, mut at_random) = (Duration::ZERO, 0.0_f64);
    let flows = flows(entrant).count() as f64;
    for at in used {
        let path = &directed(experiment, &paths[at], direction);
        let rtt = links(experiment, path, true).fold(Duration::ZERO, |sum, link| sum + link.config.delay);
        let lost = lost(experiment, path, false);
        (longest_rtt, at_random) = (longest_rtt.max(rtt), at_random.max(lost));
        events.push(timeouts(lost, TAIL_SEGMENTS, rto.min + rtt, rto.backoff));
        let slow_start = SlowStart {
            rtt_s: rtt.as_secs_f64(),
            segment_s: 8.0 * PACKET / experiment.graph.path_rate(path).as_bps_f64().max(1.0),
            first_window: f64::from(config.initial_window.max(1)),
            reduction: reduction(&config.congestion),
        };
        // Of a multipath flow a path carries a part. Bulk flows leave slow start behind.
        let carried = size.map_or(0.0, |size| carried(entrant, at).unwrap_or(size));
        // Its cost is a model's: what the runs have almost certainly shown is in them, whatever it costs there.
        let losses = slow_start.losses(carried / SEGMENT, lost);
        let unseen = losses.filter(|event| event.probability * flows < RULE_OF_THREE);
        events.extend(unseen.map(|event| vec![event]));
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
    // The rest was dropped by full queues, and the phases of a run decide which packets.
    let dropped = (retransmitted(entrant) - at_random).max(0.0);
    let dropped = if experiment.phases.in_comparison().is_some() { dropped } else { 0.0 };
    events.push(timeouts(dropped, TAIL_SEGMENTS, rto.min + longest_rtt, rto.backoff));
    events.iter_mut().for_each(|events| within_deadline(events, experiment));
    events
}

/// Returns the losses of handshakes in a row on the first path of a contender.
fn handshakes(condition: &Condition, entrant: &Entrant<'_>) -> Vec<Event> {
    let experiment = &condition.experiment;
    let first = &experiment.paths()[entrant.path.unwrap_or(experiment.initial)];
    let rto = &condition.configs[entrant.contender].connection.rto;
    let mut events = timeouts(lost(experiment, first, true), 1.0, rto.initial, rto.backoff);
    within_deadline(&mut events, experiment);
    events
}

fn within_deadline(events: &mut [Event], experiment: &Experiment) {
    let longest = experiment.deadline.as_secs_f64();
    events.iter_mut().for_each(|event| event.cost_s = event.cost_s.min(longest));
}

/// Returns the share of a contender's segments with data that were retransmitted.
fn retransmitted(entrant: &Entrant<'_>) -> f64 {
    let sent: u64 = flows(entrant).map(|flow| flow.report.data_segments).sum();
    let again: u64 = flows(entrant).map(|flow| flow.report.retransmitted_segments).sum();
    if sent > 0 { again as f64 / sent as f64 } else { 0.0 }
}

/// Returns the mean number of bytes that a contender's flows have moved over a path; none without runs.
fn carried(entrant: &Entrant<'_>, path: usize) -> Option<f64> {
    let bytes = flows(entrant).filter_map(|flow| flow.report.bytes_by_path.get(path));
    stats::mean(&bytes.map(|bytes| *bytes as f64).collect::<Vec<f64>>())
}

/// Returns the flows of a contender in all its runs.
fn flows<'a>(entrant: &Entrant<'a>) -> impl Iterator<Item = &'a FlowResult> + Clone {
    entrant.runs.iter().flat_map(|run| &run.flows).filter(|flow| flow.class == Class::Contender)
}

/// Returns the events of one to [`MOST_LOSSES`] losses in a row, each with probability `lost`. `packets`
/// packets can cost a timeout.
fn timeouts(lost: f64, packets: f64, timeout: Duration, backoff: bool) -> Vec<Event> {
    let event = |losses: i32| {
        let timeouts = if backoff { 2_f64.powi(losses) - 1.0 } else { f64::from(losses) };
        let probability = (packets * lost.powi(losses)).min(1.0);
        Event { probability, cost_s: timeouts * timeout.as_secs_f64(), of_run: false }
    };
    (1..=MOST_LOSSES).map(event).collect()
}

/// A flow in slow start on a path.
struct SlowStart {
    rtt_s: f64,
    /// The time of a segment at the rate of the path.
    segment_s: f64,
    /// In segments.
    first_window: f64,
    /// The factor of the window at a loss.
    reduction: f64,
}

impl SlowStart {
    /// Returns the loss of a segment in each window of a flow of `segments`, each lost with probability `lost`.
    fn losses(&self, segments: f64, lost: f64) -> impl Iterator<Item = Event> {
        let window = |round: i32| self.first_window * 2_f64.powi(round);
        let sent = move |round: i32| window(round) - self.first_window;
        let rounds = (0..64).take_while(move |round| sent(*round) < segments);
        rounds.map(move |round| {
            let rest = segments - sent(round);
            let probability = (lost * rest.min(window(round))).min(1.0);
            let rest = (rest - window(round)).max(0.0);
            Event { probability, cost_s: self.rtt_s + self.slower_by(window(round), rest), of_run: false }
        })
    }

    /// Returns the time by which `rest` segments take longer after a loss in `window`. Without it the window doubles in each
    /// round trip, and after it the reduced window grows by a segment. The rate of the path limits both.
    fn slower_by(&self, window: f64, rest: f64) -> f64 {
        // BBR does not react to a loss.
        if self.reduction >= 1.0 {
            return 0.0;
        }
        let time = |rounds: f64| (rounds * self.rtt_s).max(rest * self.segment_s);
        let reduced = self.reduction * window.min(self.rtt_s / self.segment_s);
        // The n-th of these windows is reduced + n.
        let after = (reduced * reduced + 2.0 * rest).sqrt() - reduced;
        time(after) - time(libm::log2(1.0 + rest / (2.0 * window)))
    }
}

/// Returns a path for data in this direction.
fn directed(experiment: &Experiment, path: &Path, direction: Direction) -> Path {
    let (data, acks) = experiment.routes(path, direction);
    Path { data: data.to_vec(), acks: acks.to_vec(), ..path.clone() }
}

/// Returns the links of a path that carry its data, and with `both` also the links that carry its
/// acknowledgements.
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
