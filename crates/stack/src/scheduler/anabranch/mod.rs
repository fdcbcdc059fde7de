//! Anabranch: the next data goes where it arrives in order, and a path that brings the end no nearer stays idle.
//!
//! **Decides**, for the subflow with free window on which a segment would arrive soonest, *which* data it carries and *whether* it carries any.
//! While that segment is in flight, the subflows without free window deliver a number of bytes, the *gap*, as predicted from their windows,
//! round trips and rates ([`crate::prediction`]). The segment gets the data after the gap, so that it arrives in order. If the gap and a
//! margin are more than the rest of the flow, the others have delivered everything before it, and it stays idle. A path of much lower
//! rate stays idle too if the others would fill the receive window before the segment is acknowledged. The path with the highest rate
//! takes as much as it delivers before the next best one would deliver a segment, and each other one a segment at a time, so that each segment is
//! decided anew. A piece of less than a segment goes where it does not wait behind another one (Nagle's algorithm). Where the send buffer ends
//! before the place of its data, a path that is worth it takes the last data there, and the buffer grows. Arrivals include the expected
//! repair of a loss: of the segment, or of all of the receive window where that is the limit, since all of it waits for the repair.
//! A path of much lower rate has little in its queue, since a full queue loses data that everything else waits for.
//!
//! **Copies**: a subflow with free window and nothing else to send gets copies of outstanding data of another one, if they are predicted to
//! arrive sooner: at the end of a flow, the last data first, and where full buffers admit no further data until the first outstanding data has
//! arrived. It looks again at the time at which an acknowledgement is so late that a copy would be sooner. The last data of a path of much lower
//! rate is copied before it fills the receive window. A subflow that has carried nothing gets one
//! segment when the receive window or the send buffer ends before its data, since Linux advertises less until each subflow has received one.
//! A path of unknown rate gets a few more there in a long flow, so that its rate is measured.
//!
//! **Source**: ours. The gap is the gap of STMS with growth and rates; the comparison with the rest of the flow is similar to DMPTCP and ECF, and the
//! comparison with the window to BLEST.
//!
//! **Constants**: see [`AnabranchOptions`]. A path of unknown rate counts with a small share of the best rate, since a first window on a
//! slow path takes long; the place of its data counts with half of the best rate, so that the path is tried in long flows.

mod candidate;
mod copies;
mod options;
mod writes;

use anabranch_units::Time;

use super::pick::{self, Chunk};
use super::{Decision, Rule, Scheduler, View, Why};
use crate::prediction::{Meter, PathState, seconds};
use candidate::{Candidate, Candidates, FIRST_FLIGHT, least};
use copies::Last;
pub use options::AnabranchOptions;
use writes::Writes;

/// The maximum number of subflows that are used.
const MOST: usize = 8;
/// The divisor of the best rate for the place of the data of a path of unknown rate, and of the earlier rate of one that may have recovered.
const HOPE: f64 = 2.0;
/// The share of all copies that those to measure a path may be.
const PROBE_SHARE: f64 = 0.5;
/// The part of the time in the queue of the subflow with the most in flight by which another one has to be sooner for the end of a flow: both may
/// share that queue.
const CAUTION: f64 = 0.5;
/// A receive window that exceeds the largest one by this factor grows, for this number of the longest round trips.
const GROWTH: f64 = 1.1;
const GROWING: f64 = 2.0;

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Anabranch {
    options: AnabranchOptions,
    /// Bytes copied so far.
    copied: u64,
    /// The largest receive window, and the time from which it was that large.
    largest: (u64, Time),
    writes: Writes,
    /// By subflow ID.
    meters: [Meter; MOST],
    /// By subflow ID.
    lasts: [Last; MOST],
}

impl Anabranch {
    /// Returns a scheduler with the given options.
    pub fn new(options: AnabranchOptions) -> Anabranch {
        Anabranch {
            options,
            copied: 0,
            largest: (0, Time(0)),
            writes: Writes::default(),
            meters: [Meter::default(); MOST],
            lasts: [Last::default(); MOST],
        }
    }

    /// Returns the decision, before it is counted.
    fn decided(&mut self, view: &View<'_>) -> Decision {
        self.writes.observe(view);
        let decision = match pick::next_new(view) {
            Ok(chunk) => match chunk.without_end(view) {
                Some(chunk) => self.assign(view, chunk),
                None => self.copy(view, Rule::NothingToSend, Time::NEVER),
            },
            Err(Decision::Wait { why, .. }) if matches!(why.rule, Rule::NothingToSend | Rule::WindowFull) => {
                self.copy(view, why.rule, Time::NEVER)
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
        let first = least(ready.map(|candidate| (candidate, candidate.arrival_of(chunk.range.len(), stake))));
        let Some((chosen, arrives, second)) = first else {
            let rule = pick::why_none(view);
            if rule == Rule::WindowFull {
                return self.copy(view, rule, Time::NEVER);
            }
            let until = (found.again < Time::NEVER).then_some(found.again);
            return Decision::Wait { until, why: Why::rule(rule) };
        };
        if chosen.holds(chunk.range.len()) {
            // More data may complete it until then, and another subflow may become free.
            let again = self.writes.expected_until(view.now).unwrap_or(Time::NEVER);
            return self.copy(view, Rule::NothingToSend, again);
        }
        let rest = match view.size_known || !view.send_buffer_full {
            true => view.remaining as f64,
            false => f64::INFINITY,
        };
        self.place(Turn { view, found: &found, chosen, arrives, second, rest }, chunk)
    }

    /// Returns which data the chosen subflow carries, or that it carries none.
    fn place(&mut self, turn: Turn<'_, '_>, chunk: Chunk) -> Decision {
        let Turn { view, found, chosen, rest, .. } = turn;
        let subflow = chosen.subflow;
        let gap = turn.delivered(turn.arrives);
        let wait = |rule, score, other| Decision::Wait { until: None, why: Why::scored(rule, score, other) };
        if self.options.abstain && rest < f64::from(self.options.least) {
            // So little is left that the subflow carries it which delivers it soonest.
            let able = found.iter().filter(|other| other.ready || other.state.flight > 0.0);
            let (busiest, caution) = found.busiest();
            let end = |candidate: &Candidate<'_>| {
                candidate.end(rest) + if candidate.subflow.id == busiest { 0.0 } else { CAUTION * caution }
            };
            if let Some((home, soonest, other)) = least(able.map(|candidate| (candidate, end(candidate))))
                && home.subflow.id != subflow.id
            {
                let why = Why::scored(Rule::EarliestArrival, soonest, other);
                return match home.fit(&chunk, u64::MAX).filter(|_| home.ready) {
                    Some(range) => pick::assign_new(home.subflow, range, why),
                    None => wait(Rule::NotSelected, gap, rest),
                };
            }
        }
        if gap < chosen.state.mss {
            let most = if subflow.id == found.best.0 { turn.most() } else { subflow.mss };
            if let Some(copy) = self.copy_ahead(turn, chunk) {
                return copy;
            }
            let why = Why::scored(Rule::EarliestArrival, turn.arrives, turn.second);
            return match chosen.fit(&chunk, most) {
                Some(range) => pick::assign_new(subflow, range, why),
                None => pick::wait(pick::why_none(view)),
            };
        }
        if self.options.abstain && rest < gap * (1.0 + self.options.margin) + chosen.state.mss {
            return wait(Rule::NotSelected, gap, rest);
        }
        let gap = if chosen.known || found.best.1 <= 0.0 {
            gap
        } else {
            let hoped = PathState { rate: found.best.1 / HOPE, ..chosen.state };
            turn.delivered(hoped.arrival(hoped.mss))
        };
        if self.options.block && chosen.known && chosen.is_much_lower(found.best.1) {
            let sent = turn.sent_until_acknowledged();
            let window = view.window_end.saturating_sub(chunk.range.start) as f64;
            if sent + chosen.state.mss > window {
                return wait(Rule::WouldBlock, sent, window);
            }
        }
        let mut segments = if self.options.gap { (gap / chosen.state.mss) as u64 } else { 0 };
        let buffered: u64 = view.unassigned.iter().map(|range| range.len()).sum();
        let short = view.send_buffer_full && buffered < (segments + 1) * subflow.mss;
        if short && chosen.known && turn.is_worth_waiting(gap * (1.0 + self.options.margin), buffered) {
            // It takes the last data in the buffer, for all of its window, so that the others wait as little as possible.
            segments = buffered.saturating_sub(subflow.room().max(subflow.mss)) / subflow.mss.max(1);
        }
        let ahead = Chunk::ahead(view, segments * subflow.mss, subflow.mss);
        match ahead.and_then(|ahead| ahead.fit(subflow, subflow.mss)) {
            Some(range) => {
                pick::assign_new(subflow, range, Why::scored(Rule::Gap, segments as f64, f64::NAN))
            }
            // The receive window or the send buffer ends before it. Copies measure the rate of a path, and nothing waits for them.
            None => {
                let probes = FIRST_FLIGHT * chosen.state.mss;
                let unmeasured = !chosen.known && found.best.1 > 0.0 && (subflow.bytes_sent as f64) < probes;
                let worth = probes < turn.left() * self.options.tail * PROBE_SHARE;
                let probe = if unmeasured && worth { self.probe(view, subflow) } else { None };
                probe.unwrap_or(wait(Rule::WouldBlock, gap, f64::NAN))
            }
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
        let used = found.iter().filter(|candidate| candidate.subflow.bytes_sent > 0);
        let longest = used.map(|candidate| candidate.state.base_rtt).fold(0.0, f64::max);
        seconds(view.now.since(self.largest.1.min(view.now))) < GROWING * longest
    }
}

/// The subflow that is considered for the next data, and the state of the connection.
#[derive(Clone, Copy)]
struct Turn<'t, 'a> {
    view: &'t View<'a>,
    found: &'t Candidates<'a>,
    chosen: &'t Candidate<'a>,
    /// The seconds until a segment on it has arrived, and the least of the others with free window or NaN.
    arrives: f64,
    second: f64,
    /// The bytes of the flow that are left; infinite if not known.
    rest: f64,
}

impl<'a> Turn<'_, 'a> {
    /// Returns the subflows that continue by themselves, those without free window. A segment on another one with free window arrives later.
    fn others(&self) -> impl Iterator<Item = &Candidate<'a>> {
        let chosen = self.chosen.subflow.id;
        self.found
            .iter()
            .filter(move |other| !other.ready && other.state.flight > 0.0 && other.subflow.id != chosen)
    }

    /// Returns the bytes that arrive on the chosen subflow before a segment on the next best one would.
    fn most(&self) -> u64 {
        if self.second.is_nan() { u64::MAX } else { self.chosen.carries_in(self.second - self.arrives) }
    }

    /// Returns the bytes that are expected to be left: a flow of unknown size is as long again.
    fn left(&self) -> f64 {
        if self.rest.is_finite() { self.rest } else { self.view.written as f64 }
    }

    /// Returns the bytes that the others deliver within `seconds`.
    fn delivered(&self, seconds: f64) -> f64 {
        self.others().map(|other| other.state.delivered(seconds)).sum()
    }

    /// Returns the bytes that the others send until a segment sent now is acknowledged: what they deliver half a round trip later.
    fn sent_until_acknowledged(&self) -> f64 {
        let back = self.arrives + self.chosen.state.base_rtt / 2.0;
        self.others().map(|other| other.state.delivered(back + other.state.base_rtt / 2.0)).sum()
    }

    /// True if the chosen subflow takes the last `buffered` bytes of the send buffer, although the others then wait for it, where the buffer
    /// ends before the place of its data: the buffer grows with its window, and it delivers more until the others would have delivered the rest
    /// than they lose by waiting. `place` is the bytes that the buffer has to hold.
    fn is_worth_waiting(&self, place: f64, buffered: u64) -> bool {
        let Candidate { subflow, state, .. } = self.chosen;
        let cwnd = subflow.cwnd as f64;
        let filled: f64 = self.others().map(|other| other.subflow.cwnd as f64).sum();
        // A send buffer has space for two windows.
        let needed = place / 2.0 - filled;
        if cwnd >= needed {
            return false;
        }
        let rest = self.left();
        // After slow start a window grows too slowly.
        let possible = (state.rate * state.base_rtt).min(state.ssthresh);
        if needed >= possible.min(self.view.send_buffer_max as f64 / 2.0 - filled) {
            return false;
        }
        let mut rounds = 0.0;
        let mut window = cwnd.max(1.0);
        while window < needed {
            (rounds, window) = (rounds + 1.0, 2.0 * window);
        }
        let lost = rounds * (self.delivered(state.rtt) - buffered as f64).max(0.0);
        let others_take = rest * state.rtt / self.delivered(state.rtt).max(1.0);
        state.delivered(others_take) > lost
    }
}

impl Scheduler for Anabranch {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let decision = self.decided(view);
        if let Decision::Assign { subflow, range, kind, .. } = decision {
            self.meters[subflow.index() % MOST].send(range.len());
            self.lasts[subflow.index() % MOST].send(range, kind);
        }
        decision
    }

    fn copies_outstanding(&self) -> bool {
        self.options.tail > 0.0
    }
}
