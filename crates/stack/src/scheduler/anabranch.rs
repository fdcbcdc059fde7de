//! Anabranch: the next data goes where it arrives in order, and a path that brings the end no nearer stays idle.
//!
//! **Decides**, for the subflow with free window on which a segment would arrive soonest, *which* data it carries and *whether* it carries any.
//! While that segment is in flight, the subflows without free window deliver a number of bytes, the *gap*, as predicted from their windows,
//! round trips and rates ([`crate::prediction`]). The segment gets the data after the gap, so that it arrives in order. If the gap and a
//! margin are more than the rest of the flow, the others have delivered everything before it, and it stays idle. A path of much lower
//! rate stays idle too if the others would fill the receive window before the segment is acknowledged. The path with the highest rate
//! takes as much as its window admits, and each other one a segment at a time, so that each segment is decided anew. Arrivals include the expected
//! repair of a loss: of the segment, or of all of the receive window where that is the limit, since all of it waits for the repair.
//!
//! **Copies**: a subflow with free window and nothing else to send gets copies of outstanding data of another one, if they are predicted to
//! arrive sooner: at the end of a flow, and where full buffers admit no further data until the first outstanding data has arrived. It
//! looks again at the time at which an acknowledgement is so late that a copy would be sooner. A subflow that has carried nothing gets one
//! segment when the receive window or the send buffer ends before its data, since Linux advertises less until each subflow has received one.
//!
//! **Source**: ours. The gap is the gap of STMS with growth and rates; the comparison with the rest of the flow is similar to DMPTCP and ECF, and the
//! comparison with the window to BLEST.
//!
//! **Constants**: see [`AnabranchOptions`]. A path of unknown rate counts with a small share of the best rate, since a first window on a
//! slow path takes long; the place of its data counts with half of the best rate, so that the path is tried in long flows.

use anabranch_units::{Duration, Time};

use super::pick::{self, Chunk};
use super::{AssignKind, Decision, Pending, RecoveryState, Rule, Scheduler, SubflowView, View, Why};
use crate::congestion::{CongestionControl, Growth};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};
use crate::prediction::{Meter, PathState, seconds};
use crate::subflow::memory::LEAST_MEASURE;

/// The maximum number of subflows that are used.
const MOST: usize = 8;
/// The maximum number of pieces of outstanding data that are considered for copies.
const INSPECTED: usize = 512;
/// The divisor of the best rate for the place of the data of a path of unknown rate.
const HOPE: f64 = 2.0;
/// The segments that a path of unknown rate may have in flight.
const FIRST_FLIGHT: f64 = 10.0;
/// A receive window that exceeds the largest one by this factor grows, for this number of the longest round trips.
const GROWTH: f64 = 1.1;
const GROWING: f64 = 2.0;
/// The nanoseconds by which the time of the next look at copies is later than computed, so that the result has changed.
const LOOK_LATER: u64 = 100_000;
/// The seconds from which on no look is planned.
const FOREVER: f64 = 1e6;
/// The number of segments after which a remembered share of losses counts half.
const LOSS_WEIGHT: f64 = 100.0;
/// The divisor of the best rate below which a rate is much lower.
const MUCH_LOWER: f64 = 4.0;

/// The options. Each part can be switched off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AnabranchOptions {
    /// True if a subflow stays idle where it brings the end no nearer.
    pub abstain: bool,
    /// The share of the gap that must remain after it for a subflow to be used.
    pub margin: f64,
    /// The bytes below which the rest of a flow uses one subflow.
    pub least: u32,
    /// True if a subflow gets the data that arrives in order, and not the next.
    pub gap: bool,
    /// True if a subflow of much lower rate stays idle where the others would fill the receive window first.
    pub block: bool,
    /// The share of a flow that may be copied.
    pub tail: f64,
    /// True if measured rates limit the prediction.
    pub rate: bool,
    /// The divisor of the best rate for a path of unknown rate; 0: its rate has no limit.
    pub unknown: f64,
    /// The factor of a remembered rate, until the rate is measured, since a rate may be less by now; 0: no memory.
    pub memory: f64,
}

impl AnabranchOptions {
    /// All parts.
    pub const DEFAULT: AnabranchOptions = AnabranchOptions {
        abstain: true,
        margin: 0.25,
        least: 30_000,
        gap: true,
        block: true,
        tail: 0.05,
        rate: true,
        unknown: 4.0,
        memory: 0.5,
    };
}

impl Options for AnabranchOptions {
    const PARAMETERS: &'static [Parameter<AnabranchOptions>] = &[
        parameter!(
            AnabranchOptions,
            "abstain",
            "a subflow that brings the predicted end no nearer stays idle",
            bool,
            abstain
        ),
        parameter!(
            AnabranchOptions,
            "margin",
            "share of the gap that must remain after it for a subflow to be used",
            number 0.0, 100.0,
            margin
        ),
        parameter!(
            AnabranchOptions,
            "least",
            "bytes below which the rest of a flow uses one subflow",
            integer 0, 1 << 30,
            least
        ),
        parameter!(
            AnabranchOptions,
            "gap",
            "a subflow gets the data that is predicted to arrive in order, and not the next",
            bool,
            gap
        ),
        parameter!(
            AnabranchOptions,
            "block",
            "a subflow of much lower rate stays idle if the others would fill the receive window first",
            bool,
            block
        ),
        parameter!(AnabranchOptions, "tail", "share of a flow that may be copied", number 0.0, 1.0, tail),
        parameter!(AnabranchOptions, "rate", "measured rates limit the prediction", bool, rate),
        parameter!(
            AnabranchOptions,
            "unknown",
            "divisor of the best rate for a path of unknown rate; 0: no limit",
            number 0.0, 1000.0,
            unknown
        ),
        parameter!(
            AnabranchOptions,
            "memory",
            "factor of a remembered rate, until the rate is measured; 0: no memory",
            number 0.0, 1000.0,
            memory
        ),
    ];
}

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Anabranch {
    options: AnabranchOptions,
    /// Bytes copied so far.
    copied: u64,
    /// The largest receive window, and the time from which it was that large.
    largest: (u64, Time),
    /// By subflow ID.
    meters: [Meter; MOST],
}

/// A subflow that may carry data, with the input of its prediction.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    subflow: &'a SubflowView,
    state: PathState,
    /// True if the rate is measured or remembered.
    known: bool,
    /// True if it has free window for the next data.
    ready: bool,
}

impl Candidate<'_> {
    /// Returns the seconds until a segment sent now has arrived, with the expected repair of `stake` bytes.
    fn arrival(&self, stake: f64) -> f64 {
        self.state.arrival(self.state.mss) + self.state.repair(stake.max(self.state.mss))
    }

    /// Returns the seconds until the first `bytes` of its outstanding data have arrived.
    fn outstanding(&self, view: &View<'_>, bytes: u64) -> f64 {
        let PathState { rtt, base_rtt, .. } = self.state;
        let repair = match self.subflow.recovery {
            RecoveryState::Loss => return 2.0 * rtt + 0.2,
            RecoveryState::Recovery => rtt,
            RecoveryState::Open => self.state.repair(bytes as f64),
        };
        let by_rate = self.state.serial(bytes as f64);
        let since = seconds(view.now.since(self.subflow.last_received.min(view.now)));
        // An acknowledgement is due a round trip after the last one. One that is overdue is expected the later, the longer that is.
        let due = base_rtt.max(by_rate) - since;
        let due = if due < 0.0 { since / 2.0 } else { due };
        (due - base_rtt / 2.0).max(0.0) + repair
    }

    /// Returns the time at which [`Candidate::outstanding`] exceeds `threshold` seconds if no acknowledgement arrives;
    /// `None` if it has passed, or is not known.
    fn overdue(&self, view: &View<'_>, bytes: u64, threshold: f64) -> Option<Time> {
        if self.subflow.recovery != RecoveryState::Open {
            return None;
        }
        let base_rtt = self.state.base_rtt;
        let repair = self.state.repair(bytes as f64);
        let by_rate = self.state.serial(bytes as f64);
        let since = (2.0 * (threshold - repair) + base_rtt).max(base_rtt).max(by_rate);
        if since.is_nan() || since > FOREVER {
            return None;
        }
        let at = self.subflow.last_received + Duration((since * 1e9) as u64 + LOOK_LATER);
        (at > view.now).then_some(at)
    }
}

/// The subflows that may carry data.
struct Candidates<'a> {
    list: [Option<Candidate<'a>>; MOST],
    /// The highest rate, in bytes per second, and the subflow that has it.
    best: (SubflowId, f64),
}

impl<'a> Candidates<'a> {
    fn iter(&self) -> impl Iterator<Item = &Candidate<'a>> {
        self.list.iter().flatten()
    }
}

impl Anabranch {
    /// Returns a scheduler with the given options.
    pub fn new(options: AnabranchOptions) -> Anabranch {
        Anabranch { options, copied: 0, largest: (0, Time(0)), meters: [Meter::default(); MOST] }
    }

    /// Returns the subflows that may carry data, and whether each has free window for the next data.
    fn candidates<'a>(&mut self, view: &View<'a>, fits: impl Fn(&SubflowView) -> bool) -> Candidates<'a> {
        let mut found = Candidates { list: [None; MOST], best: (SubflowId(0), 0.0) };
        for (place, subflow) in found.list.iter_mut().zip(pick::candidates(view)) {
            let meter = &mut self.meters[subflow.id.index() % MOST];
            meter.observe(subflow);
            let measured = self.options.rate.then(|| meter.rate(subflow.mss)).flatten();
            let known = if self.options.memory > 0.0 { view.known(subflow) } else { None };
            let rate = measured.or_else(|| known.map(|known| known.rate * self.options.memory));
            let mut state = state(view, subflow, rate);
            if let Some(known) = known {
                // The measured share has its weight after some segments.
                let sent = subflow.bytes_sent as f64 / state.mss;
                state.loss = state.loss.max(known.loss * LOSS_WEIGHT / (LOSS_WEIGHT + sent));
            }
            let has_rate = state.rate.is_finite();
            let carries = state.rate.min(subflow.cwnd as f64 / state.rtt.max(1e-6));
            if has_rate && carries > found.best.1 {
                found.best = (subflow.id, carries);
            }
            *place = Some(Candidate { subflow, state, known: has_rate, ready: fits(subflow) });
        }
        let best = found.best;
        for candidate in found.list.iter_mut().flatten() {
            let Candidate { subflow, state, .. } = candidate;
            if !candidate.known && self.options.unknown > 0.0 && best.1 > 0.0 {
                state.rate = best.1 / self.options.unknown;
            }
            state.backlog =
                self.meters[subflow.id.index() % MOST].backlog(view.now, state.rate, state.flight);
            // No more than the first window until it is measured.
            let free = subflow.id == best.0 || candidate.known || best.1 <= 0.0;
            candidate.ready &=
                free || candidate.state.flight + candidate.state.mss <= FIRST_FLIGHT * candidate.state.mss;
        }
        found
    }

    /// Returns the decision, before it is counted.
    fn decided(&mut self, view: &View<'_>) -> Decision {
        let decision = match pick::next_new(view) {
            Ok(chunk) => self.assign(view, chunk),
            Err(Decision::Wait { why, .. }) if matches!(why.rule, Rule::NothingToSend | Rule::WindowFull) => {
                self.copy(view, why.rule)
            }
            Err(decision) => decision,
        };
        match decision {
            Decision::Wait { why, .. } if matches!(why.rule, Rule::WindowFull | Rule::WouldBlock) => {
                self.widen(view).unwrap_or(decision)
            }
            decision => decision,
        }
    }

    /// Returns the decision about new data.
    fn assign(&mut self, view: &View<'_>, chunk: Chunk) -> Decision {
        if view.peer_window as f64 > self.largest.0 as f64 * GROWTH {
            self.largest = (view.peer_window, view.now);
        }
        let found = self.candidates(view, |subflow| chunk.fits(subflow));
        let ready = found.iter().filter(|candidate| candidate.ready);
        let stake = self.stake(view, &found);
        let first = least(ready.map(|candidate| (candidate, candidate.arrival(stake))));
        let Some((chosen, arrives, second)) = first else {
            let rule = pick::why_none(view);
            return if rule == Rule::WindowFull { self.copy(view, rule) } else { pick::wait(rule) };
        };
        let subflow = chosen.subflow;
        // The others without free window continue by themselves. A segment on one with free window arrives later.
        let others = || {
            let busy = |other: &&Candidate<'_>| !other.ready && other.state.flight > 0.0;
            found.iter().filter(busy).filter(|other| other.subflow.id != subflow.id)
        };
        let by = |seconds: f64| -> f64 { others().map(|other| other.state.delivered(seconds)).sum() };
        let gap = by(arrives);
        let rest = match view.size_known || !view.send_buffer_full {
            true => view.remaining as f64,
            false => f64::INFINITY,
        };
        let wait = |rule, score, other| Decision::Wait { until: None, why: Why::scored(rule, score, other) };
        if self.options.abstain && rest < f64::from(self.options.least) {
            // So little is left that the subflow carries it which delivers it soonest.
            let end =
                |candidate: &Candidate<'_>| candidate.state.arrival(rest) + candidate.state.repair(rest);
            let able = found.iter().filter(|other| other.ready || other.state.flight > 0.0);
            if let Some((home, soonest, other)) = least(able.map(|candidate| (candidate, end(candidate))))
                && home.subflow.id != subflow.id
            {
                return match chunk.fit(home.subflow, u64::MAX).filter(|_| home.ready) {
                    Some(range) => pick::assign_new(
                        home.subflow,
                        range,
                        Why::scored(Rule::EarliestArrival, soonest, other),
                    ),
                    None => wait(Rule::NotSelected, gap, rest),
                };
            }
        }
        if gap < chosen.state.mss {
            let most = if subflow.id == found.best.0 { u64::MAX } else { subflow.mss };
            return match chunk.fit(subflow, most) {
                Some(range) => {
                    pick::assign_new(subflow, range, Why::scored(Rule::EarliestArrival, arrives, second))
                }
                None => pick::wait(pick::why_none(view)),
            };
        }
        if self.options.abstain && rest < gap * (1.0 + self.options.margin) + chosen.state.mss {
            return wait(Rule::NotSelected, gap, rest);
        }
        let gap = if chosen.known || found.best.1 <= 0.0 {
            gap
        } else {
            by(PathState { rate: found.best.1 / HOPE, ..chosen.state }.arrival(chosen.state.mss))
        };
        let much_lower = chosen.known && chosen.state.rate * MUCH_LOWER < found.best.1;
        if self.options.block && much_lower {
            // The window moves on when the segment is acknowledged. Until then the others send what they deliver half a round trip later.
            let back = arrives + chosen.state.base_rtt / 2.0;
            let sent: f64 =
                others().map(|other| other.state.delivered(back + other.state.base_rtt / 2.0)).sum();
            let window = view.window_end.saturating_sub(chunk.range.start) as f64;
            if sent + chosen.state.mss > window {
                return wait(Rule::WouldBlock, sent, window);
            }
        }
        let segments = if self.options.gap { (gap / chosen.state.mss) as u64 } else { 0 };
        let ahead = Chunk::ahead(view, segments * subflow.mss, subflow.mss);
        match ahead.and_then(|ahead| ahead.fit(subflow, subflow.mss)) {
            Some(range) => {
                pick::assign_new(subflow, range, Why::scored(Rule::Gap, segments as f64, f64::NAN))
            }
            // The receive window or the send buffer ends before it.
            None => wait(Rule::WouldBlock, gap, f64::NAN),
        }
    }

    /// Returns the bytes that wait for the repair of a loss: all of the receive window, if the congestion windows together admit more and the receive
    /// window does not grow.
    fn stake(&self, view: &View<'_>, found: &Candidates<'_>) -> f64 {
        let window = view.window_end.saturating_sub(view.data_una);
        let admitted: u64 = found.iter().map(|candidate| candidate.subflow.cwnd).sum();
        if admitted > window && !self.window_grows(view, found) { window as f64 } else { 0.0 }
    }

    /// True if the receive window has grown lately, as one that the receiver adapts to what arrives.
    fn window_grows(&self, view: &View<'_>, found: &Candidates<'_>) -> bool {
        let longest = found.iter().map(|candidate| candidate.state.base_rtt).fold(0.0, f64::max);
        seconds(view.now.since(self.largest.1.min(view.now))) < GROWING * longest
    }

    /// Returns a copy of the first outstanding data on a subflow that has carried nothing, unless the receive window grows. Linux advertises less
    /// than its memory holds until each subflow has received a segment of [`LEAST_MEASURE`] bytes.
    fn widen(&mut self, view: &View<'_>) -> Option<Decision> {
        if self.options.tail <= 0.0 {
            return None;
        }
        let unused = |subflow: &&SubflowView| pick::is_fresh(subflow) && subflow.room() >= subflow.mss;
        let subflow = pick::candidates(view).find(unused)?;
        let found = self.candidates(view, |subflow| subflow.room() >= subflow.mss);
        if self.window_grows(view, &found) {
            return None;
        }
        let pending = view.outstanding.iter().find(|pending| !pending.tried.has(subflow.id))?;
        let range = Chunk::new(view, pending.range)?.fit(subflow, subflow.mss)?;
        if range.len() < u64::from(LEAST_MEASURE) {
            return None;
        }
        self.copied += range.len();
        let why = Why::rule(Rule::Opportunistic);
        Some(Decision::Assign { subflow: subflow.id, range, kind: AssignKind::Copy, why })
    }

    /// Returns a copy of the first outstanding data that arrives sooner on another subflow. If there is none, it waits by `rule`
    /// until a copy would.
    fn copy(&mut self, view: &View<'_>, rule: Rule) -> Decision {
        let mut again = Time::NEVER;
        self.copy_now(view, &mut again)
            .unwrap_or(Decision::Wait { until: (again < Time::NEVER).then_some(again), why: Why::rule(rule) })
    }

    /// Returns the copy. If new data waits for space, only the first outstanding data matters. `again` becomes the
    /// earliest time at which there will be one if no acknowledgement arrives.
    fn copy_now(&mut self, view: &View<'_>, again: &mut Time) -> Option<Decision> {
        let window = view.subflows.iter().map(|subflow| subflow.cwnd).max().unwrap_or(0);
        let allowed = ((view.written as f64 * self.options.tail) as u64).max(window);
        if self.options.tail <= 0.0 || view.outstanding.is_empty() || self.copied >= allowed {
            return None;
        }
        let found = self.candidates(view, |subflow| subflow.room() >= subflow.mss);
        let free = found.iter().filter(|candidate| candidate.ready);
        let fast = free.min_by(|a, b| a.arrival(0.0).total_cmp(&b.arrival(0.0)))?;
        let soonest = fast.arrival(0.0);
        let carrier = |pending: &Pending| view.subflows.iter().find(|subflow| pending.tried.has(subflow.id));
        let inspected = || view.outstanding.iter().take(INSPECTED);
        // The first data of a subflow that is outstanding may have been delivered there, and waits for other data.
        let mut delivered = [0_u64; MOST];
        for pending in inspected() {
            if let Some(on) = carrier(pending) {
                delivered[on.id.index() % MOST] += pending.range.len();
            }
        }
        for subflow in view.subflows {
            let bytes = &mut delivered[subflow.id.index() % MOST];
            *bytes = bytes.saturating_sub(subflow.unacked + subflow.queued);
        }
        let mut before = [0_u64; MOST];
        for pending in inspected() {
            let Some(on) = carrier(pending) else { continue };
            let at = on.id.index() % MOST;
            let len = pending.range.len();
            let there = delivered[at].min(len);
            delivered[at] -= there;
            before[at] += len - there;
            if there == len || pending.tried.has(fast.subflow.id) {
                continue;
            }
            let slow = found.iter().find(|candidate| candidate.subflow.id == on.id);
            let late = slow.map_or(f64::INFINITY, |slow| slow.outstanding(view, before[at]));
            let threshold = soonest * 1.1 + 0.001;
            if late > threshold {
                let chunk = Chunk::new(view, pending.range)?;
                let limit = (allowed - self.copied).max(fast.subflow.mss);
                let range = chunk.fit(fast.subflow, limit)?;
                self.copied += range.len();
                let why = Why::scored(Rule::Tail, soonest, late);
                return Some(Decision::Assign {
                    subflow: fast.subflow.id,
                    range,
                    kind: AssignKind::Copy,
                    why,
                });
            }
            if let Some(overdue) = slow.and_then(|slow| slow.overdue(view, before[at], threshold)) {
                *again = overdue.min(*again);
            }
            if view.remaining > 0 {
                return None;
            }
        }
        None
    }
}

/// Returns the candidate with the least time, that time, and the least of the others or NaN.
#[inline]
fn least<'c, 'a>(
    timed: impl Iterator<Item = (&'c Candidate<'a>, f64)>,
) -> Option<(&'c Candidate<'a>, f64, f64)>
where
    'a: 'c,
{
    let mut best: Option<(&Candidate<'_>, f64, f64)> = None;
    for (candidate, time) in timed {
        best = Some(match best {
            Some((known, soonest, other)) if time >= soonest => (known, soonest, other.min(time)),
            Some((_, soonest, _)) => (candidate, time, soonest),
            None => (candidate, time, f64::NAN),
        });
    }
    best
}

/// Returns the input of the prediction for a subflow with this rate.
#[inline]
fn state(view: &View<'_>, subflow: &SubflowView, rate: Option<f64>) -> PathState {
    let base = seconds(subflow.min_rtt);
    let flight = pick::under_way(subflow);
    // A subflow on which nothing arrives any more is as slow as that.
    let silent = if subflow.inflight == 0 {
        0.0
    } else {
        let since = subflow.sent.map_or(Time::ZERO, |(first, _)| first).max(subflow.last_received);
        seconds(view.now.since(since))
    };
    let growth = view.growth(subflow);
    let rate = match subflow.pacing_rate {
        Some(rate) if growth == Growth::Rate => rate.0 as f64 / 8.0,
        _ => rate.map_or(f64::INFINITY, |rate| rate.max(subflow.delivery_rate.0 as f64 / 8.0)),
    };
    let rtt = subflow.srtt.map_or(f64::INFINITY, seconds).max(base).max(silent);
    let acks = match subflow.sent {
        Some((first, last)) if subflow.recovery == RecoveryState::Open => {
            let due = |sent: Time| (rtt - seconds(view.now.since(sent))).max(0.0);
            (due(first.min(last)), due(last))
        }
        _ => (0.0, rtt),
    };
    let cwnd = subflow.cwnd.max(1) as f64;
    let grows = match (growth, view.congestion, subflow.srtt) {
        (Growth::Time, Some(congestion), Some(srtt)) => {
            (congestion.window_at(subflow.id, view.now, srtt) as f64 / cwnd).clamp(1.0, 1.5)
        }
        _ => 1.0,
    };
    PathState {
        base_rtt: base,
        rtt,
        free: subflow.cwnd.saturating_sub(flight) as f64,
        flight: flight as f64,
        acks,
        backlog: 0.0,
        rate,
        ssthresh: match growth {
            Growth::SlowStart => subflow.ssthresh.map_or(f64::INFINITY, |bytes| bytes as f64),
            _ => 0.0,
        },
        growth: grows,
        limit: view.peer_window as f64,
        loss: subflow.loss_rate,
        mss: subflow.mss.max(1) as f64,
    }
}

impl Scheduler for Anabranch {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let decision = self.decided(view);
        if let Decision::Assign { subflow, range, .. } = decision {
            self.meters[subflow.index() % MOST].send(range.len());
        }
        decision
    }

    fn copies_outstanding(&self) -> bool {
        self.options.tail > 0.0
    }
}
