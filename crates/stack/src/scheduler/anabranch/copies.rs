//! The copies of outstanding data that [`Anabranch`] sends.

use anabranch_units::Time;

use super::super::pick::{self, Chunk};
use super::super::{AssignKind, Decision, Pending, Rule, SubflowView, View, Why};
use super::candidate::{Candidate, least};
use super::{Anabranch, MOST};
use crate::subflow::memory::LEAST_MEASURE;

/// The maximum number of pieces of outstanding data that are considered for copies.
const INSPECTED: usize = 512;

impl Anabranch {
    /// Returns a copy of the first outstanding data on a subflow that has carried nothing, unless the receive window grows. Linux advertises less
    /// than its memory holds until each subflow has received a segment of [`LEAST_MEASURE`] bytes.
    pub(super) fn widen(&mut self, view: &View<'_>) -> Option<Decision> {
        if self.options.tail <= 0.0 {
            return None;
        }
        let unused = |subflow: &&SubflowView| pick::is_fresh(subflow) && subflow.room() >= subflow.mss;
        let subflow = pick::candidates(view).find(unused)?;
        let found = self.candidates(view, |subflow| subflow.room() >= subflow.mss);
        if self.window_grows(view, &found) {
            return None;
        }
        self.probe(view, subflow)
    }

    /// Returns a copy, on this subflow, of the first outstanding data that it has not carried, as a segment of at least [`LEAST_MEASURE`] bytes.
    pub(super) fn probe(&self, view: &View<'_>, subflow: &SubflowView) -> Option<Decision> {
        let pending = view.outstanding.iter().find(|pending| !pending.tried.has(subflow.id))?;
        let range = Chunk::new(view, pending.range)?.fit(subflow, subflow.mss)?;
        if range.len() < u64::from(LEAST_MEASURE) {
            return None;
        }
        let why = Why::rule(Rule::Opportunistic);
        Some(Decision::Assign { subflow: subflow.id, range, kind: AssignKind::Copy, why })
    }

    /// Returns a copy of the first outstanding data that arrives sooner on another subflow. If there is none, it waits by `rule`
    /// until a copy would.
    pub(super) fn copy(&mut self, view: &View<'_>, rule: Rule) -> Decision {
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
        let mut free: [Option<(&Candidate<'_>, f64)>; MOST] = [None; MOST];
        for (place, candidate) in free.iter_mut().zip(found.iter().filter(|candidate| candidate.ready)) {
            *place = Some((candidate, candidate.arrival(0.0)));
        }
        let untried = |pending: &Pending| {
            let tried = pending.tried;
            least(
                free.iter().flatten().copied().filter(move |(candidate, _)| !tried.has(candidate.subflow.id)),
            )
        };
        free[0]?;
        let carrier = |pending: &Pending| view.subflows.iter().find(|subflow| pending.tried.has(subflow.id));
        let inspected = || view.outstanding.iter().take(INSPECTED);
        // The first data of a subflow that is outstanding may have been delivered there, and waits for other data. Data in flight there that is no
        // longer outstanding has arrived elsewhere, as a copy, and still is before the rest.
        let (mut delivered, mut before) = ([0_u64; MOST], [0_u64; MOST]);
        for pending in inspected() {
            if let Some(on) = carrier(pending) {
                delivered[on.id.index() % MOST] += pending.range.len();
            }
        }
        for subflow in view.subflows {
            let at = subflow.id.index() % MOST;
            let flight = subflow.unacked + subflow.queued;
            if view.outstanding.len() <= INSPECTED {
                before[at] = flight.saturating_sub(delivered[at]);
            }
            delivered[at] = delivered[at].saturating_sub(flight);
        }
        for pending in inspected() {
            let Some(on) = carrier(pending) else { continue };
            let at = on.id.index() % MOST;
            let len = pending.range.len();
            let there = delivered[at].min(len);
            delivered[at] -= there;
            before[at] += len - there;
            if there == len {
                continue;
            }
            let Some((fast, soonest, _)) = untried(pending) else { continue };
            let on_each = found.iter().filter(|candidate| pending.tried.has(candidate.subflow.id));
            let sent = |candidate: &Candidate<'_>| match candidate.subflow.id == on.id {
                true => before[at],
                false => candidate.subflow.unacked + candidate.subflow.queued,
            };
            let slow =
                least(on_each.map(|candidate| (candidate, candidate.outstanding(view, sent(candidate)))));
            let late = slow.map_or(f64::INFINITY, |(_, late, _)| late);
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
            if let Some(overdue) = slow.and_then(|(slow, ..)| slow.overdue(view, sent(slow), threshold)) {
                *again = overdue.min(*again);
            }
            if view.remaining > 0 {
                return None;
            }
        }
        None
    }
}
