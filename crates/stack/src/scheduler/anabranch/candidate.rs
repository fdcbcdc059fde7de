//! The subflows that may carry data, with the input of their prediction.

use anabranch_units::{Duration, Time};

use super::super::pick::{self, Chunk};
use super::super::{RecoveryState, SubflowView, View};
use super::{Anabranch, HOPE, MOST};
use crate::congestion::{CongestionControl, Growth};
use crate::event::SubflowId;
use crate::prediction::{PathState, seconds};
use crate::seq::DataRange;

/// The segments that a path of unknown rate may have in flight, and the copies that measure it.
pub(super) const FIRST_FLIGHT: f64 = 10.0;
/// Those of a path that may have recovered: as few as measure it.
const SECOND_FLIGHT: f64 = 4.0;
/// The nanoseconds by which the time of the next look at copies is later than computed, so that the result has changed.
const LOOK_LATER: u64 = 100_000;
/// The greatest number of seconds after which a look is planned.
const FOREVER: f64 = 1e6;
/// An acknowledgement that takes this number of times as long as expected is overdue.
const OVERDUE: f64 = 1.5;
/// The divisor of the best rate below which a rate is much lower.
const MUCH_LOWER: f64 = 4.0;
/// The part of its bandwidth-delay product that a path of much lower rate may have in its queue, if that is more than a first flight.
const QUEUE: f64 = 0.25;
/// The round trip in seconds without a sample, as after a handshake whose packets were sent again: the initial timeout of RFC 6298.
const UNMEASURED: f64 = 1.0;
/// The number of segments after which a remembered share of losses counts half.
const LOSS_WEIGHT: f64 = 100.0;

/// A subflow that may carry data, with the input of its prediction.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) subflow: &'a SubflowView,
    pub(super) state: PathState,
    /// True if the rate is measured or remembered.
    pub(super) known: bool,
    /// True if it may have recovered from a low rate.
    pub(super) is_old: bool,
    /// True if it has free window for the next data.
    pub(super) ready: bool,
    /// The seconds until it sends a further short segment (Nagle's algorithm); 0 if it does at once.
    pub(super) hold: f64,
}

impl Candidate<'_> {
    /// Returns the seconds until a segment sent now has arrived, with the expected repair of `stake` bytes.
    pub(super) fn arrival(&self, stake: f64) -> f64 {
        self.state.arrival(self.state.mss) + self.state.repair(stake.max(self.state.mss))
    }

    /// True if a piece of `bytes` would wait in its queue, as a short segment does behind another one.
    pub(super) fn holds(&self, bytes: u64) -> bool {
        self.hold > 0.0 && bytes < self.subflow.mss
    }

    /// Returns the seconds until a piece of `bytes`, or its first segment, has arrived if sent now, with the expected repair of `stake` bytes.
    pub(super) fn arrival_of(&self, bytes: u64, stake: f64) -> f64 {
        self.arrival(stake) + if self.holds(bytes) { self.hold } else { 0.0 }
    }

    /// Returns the seconds until the `rest` of a flow has arrived, with the expected repair.
    pub(super) fn end(&self, rest: f64) -> f64 {
        let short = rest % self.state.mss;
        let held = if short > 0.0 && self.hold > 0.0 { self.hold + self.state.arrival(short) } else { 0.0 };
        self.state.arrival(rest).max(held) + self.state.repair(rest)
    }

    /// Returns the bytes that it delivers in this time, in whole segments and at least one.
    pub(super) fn carries_in(&self, seconds: f64) -> u64 {
        let mss = self.subflow.mss.max(1);
        ((seconds.max(0.0) * self.state.rate) as u64 / mss * mss).max(mss)
    }

    /// Returns the part of `chunk` that it takes, at most `limit` bytes. A short end that would wait in its queue stays outside.
    pub(super) fn fit(&self, chunk: &Chunk, limit: u64) -> Option<DataRange> {
        let len = chunk.range.len();
        let whole = len - len % self.subflow.mss.max(1);
        let limit = if self.hold > 0.0 && whole > 0 { limit.min(whole) } else { limit };
        chunk.fit(self.subflow, limit)
    }

    /// True if its rate is much lower than the best one.
    pub(super) fn is_much_lower(&self, best: f64) -> bool {
        self.state.rate * MUCH_LOWER < best
    }

    /// Returns the seconds until the first `bytes` of its outstanding data have arrived.
    pub(super) fn outstanding(&self, view: &View<'_>, bytes: u64) -> f64 {
        let PathState { rtt, base_rtt, .. } = self.state;
        let repair = match self.subflow.recovery {
            RecoveryState::Loss => return 2.0 * rtt + 0.2,
            RecoveryState::Recovery => rtt,
            RecoveryState::Open => self.state.repair(bytes as f64),
        };
        let by_rate = self.state.serial(bytes as f64);
        let since = seconds(view.now.since(self.waits_since(view)));
        // An acknowledgement is due a round trip after the last one. One that is overdue is expected the later, the longer that is.
        let due = base_rtt.max(by_rate) - since;
        let due = if due < 0.0 { since / 2.0 } else { due };
        (due - base_rtt / 2.0).max(0.0) + repair
    }

    /// Returns the time since when an acknowledgement is awaited: that of the last segment, or if later that of the first data in flight.
    fn waits_since(&self, view: &View<'_>) -> Time {
        let first = match self.subflow.sent {
            _ if self.subflow.inflight == 0 => view.now,
            Some((first, _)) => first,
            None => self.subflow.last_received,
        };
        first.max(self.subflow.last_received).min(view.now)
    }

    /// Returns the time from which on the acknowledgement of the first `bytes` of its outstanding data is overdue, if none arrives.
    pub(super) fn overdue(&self, view: &View<'_>, bytes: u64) -> Time {
        if self.subflow.recovery == RecoveryState::Loss {
            return view.now;
        }
        let rtt = self.subflow.srtt.map_or(self.state.base_rtt, seconds);
        let takes = OVERDUE * rtt.max(self.state.serial(bytes as f64));
        if takes < FOREVER { self.waits_since(view) + Duration((takes * 1e9) as u64) } else { Time::NEVER }
    }

    /// Returns the time at which [`Candidate::outstanding`] exceeds `threshold` seconds if no acknowledgement arrives;
    /// `None` if it has passed, or is not known.
    pub(super) fn later_than(&self, view: &View<'_>, bytes: u64, threshold: f64) -> Option<Time> {
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
        let at = self.waits_since(view) + Duration((since * 1e9) as u64 + LOOK_LATER);
        (at > view.now).then_some(at)
    }
}

/// The subflows that may carry data.
pub(super) struct Candidates<'a> {
    pub(super) list: [Option<Candidate<'a>>; MOST],
    /// The highest rate, in bytes per second, and the subflow that has it.
    pub(super) best: (SubflowId, f64),
    /// The earliest time at which a path has space in its queue for data that it has no space for now.
    pub(super) again: Time,
}

impl<'a> Candidates<'a> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Candidate<'a>> {
        self.list.iter().flatten()
    }

    /// Returns the subflow with the most in flight, and the seconds that its data wait in its queue.
    pub(super) fn busiest(&self) -> (SubflowId, f64) {
        let most = self.iter().max_by(|one, other| one.state.flight.total_cmp(&other.state.flight));
        most.map_or((SubflowId(0), 0.0), |candidate| (candidate.subflow.id, candidate.state.wait()))
    }
}

impl Anabranch {
    /// Returns the subflows that may carry data, and whether each has free window for the next data.
    pub(super) fn candidates<'a>(
        &mut self,
        view: &View<'a>,
        fits: impl Fn(&SubflowView) -> bool,
    ) -> Candidates<'a> {
        let mut found = Candidates { list: [None; MOST], best: (SubflowId(0), 0.0), again: Time::NEVER };
        for (place, subflow) in found.list.iter_mut().zip(pick::candidates(view)) {
            let meter = &mut self.meters[subflow.id.index() % MOST];
            meter.observe(subflow);
            let measured = self.options.rate.then(|| meter.rate(subflow.mss)).flatten();
            let known = if self.options.memory > 0.0 { view.known(subflow) } else { None };
            let remembered = known.map(|known| known.rate * self.options.memory);
            let before = remembered.unwrap_or(0.0);
            let again = measured.and_then(|rate| meter.may_have_again(view.now, rate, before));
            // A rate that met no queue is a lower bound.
            let measured = measured.map(|rate| if meter.is_unqueued() { rate.max(before) } else { rate });
            let rate = again.map(|rate| rate / HOPE).or(measured).or(remembered);
            let base_rtt = meter.base_rtt(subflow, view.now);
            let mut state = state(view, subflow, rate, base_rtt, meter.is_unqueued());
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
            let ready = fits(subflow);
            *place = Some(Candidate {
                subflow,
                state,
                known: has_rate,
                is_old: again.is_some(),
                ready,
                hold: 0.0,
            });
        }
        let best = found.best;
        // The program is expected to complete a short end until then.
        let next = self.writes.expected(view.now);
        let completed =
            next.map_or(f64::INFINITY, |next| seconds(next.since(view.now.min(next)) + Duration(LOOK_LATER)));
        for candidate in found.list.iter_mut().flatten() {
            let Candidate { subflow, state, .. } = candidate;
            if !candidate.known && self.options.unknown > 0.0 && best.1 > 0.0 {
                // At least a first window in a round trip.
                let least = FIRST_FLIGHT * state.mss / state.rtt.max(1e-3);
                state.rate = (best.1 / self.options.unknown).max(least);
            }
            if !candidate.known {
                state.rate = state.rate.min(most_yet(view, subflow, state.base_rtt));
            }
            let meter = &mut self.meters[subflow.id.index() % MOST];
            // Where no queue was met the measured rate limits nothing, and predicts none: it would be that of the limit.
            let backlog = meter.backlog(view.now, state.rate, state.flight);
            state.backlog = if meter.is_unqueued() { 0.0 } else { backlog };
            // No more than the first window until it is measured.
            let free = subflow.id == best.0 || !candidate.is_old && (candidate.known || best.1 <= 0.0);
            let PathState { rate, base_rtt, backlog, mss, .. } = candidate.state;
            let excess = backlog - (FIRST_FLIGHT * mss).max(QUEUE * rate * base_rtt);
            if candidate.ready && excess > 0.0 && candidate.is_much_lower(best.1) {
                candidate.ready = false;
                let at = view.now + Duration(((excess / rate).min(FOREVER) * 1e9) as u64 + LOOK_LATER);
                found.again = found.again.min(at);
            }
            let flight = if candidate.is_old { SECOND_FLIGHT } else { FIRST_FLIGHT };
            candidate.ready &=
                free || candidate.state.flight + candidate.state.mss <= flight * candidate.state.mss;
            let short = candidate.subflow.short_unacked;
            if short > 0 {
                let acknowledged = candidate.outstanding(view, short) + candidate.state.base_rtt / 2.0;
                candidate.hold = acknowledged.min(completed);
            }
        }
        found
    }
}

/// Returns the bytes per second that a path has carried at most, as shown by the time for which its first data in flight has waited.
fn most_yet(view: &View<'_>, subflow: &SubflowView, base_rtt: f64) -> f64 {
    let Some((first, _)) = subflow.sent.filter(|_| subflow.inflight > 0) else { return f64::INFINITY };
    let waits = seconds(view.now.since(first.min(view.now))) - base_rtt;
    let arrived = subflow.bytes_sent.saturating_sub(subflow.unacked) + subflow.mss;
    if waits > 0.0 { arrived as f64 / waits } else { f64::INFINITY }
}

/// Returns the input of the prediction for a subflow with this rate.
#[inline]
fn state(view: &View<'_>, subflow: &SubflowView, rate: Option<f64>, base: f64, unqueued: bool) -> PathState {
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
    let (rtt, base) = match subflow.srtt {
        // Where no queue was met, delayed acknowledgements make the round trip longer.
        Some(srtt) => (if unqueued { base } else { seconds(srtt).max(base) }.max(silent), base),
        None => (UNMEASURED, UNMEASURED),
    };
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
        limit: view.peer_window.min(view.send_buffer_max) as f64,
        loss: subflow.loss_rate,
        mss: subflow.mss.max(1) as f64,
    }
}

/// Returns the candidate with the least time, that time, and the least of the others or NaN.
#[inline]
pub(super) fn least<'c, 'a>(
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
