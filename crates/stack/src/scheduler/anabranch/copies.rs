//! The copies of outstanding data that [`Anabranch`] sends.

use anabranch_units::Time;

use super::super::pick::{self, Chunk};
use super::super::{AssignKind, Decision, Pending, Rule, SubflowView, View, Why};
use super::candidate::{Candidate, least};
use super::{Anabranch, MOST, Turn};
use crate::event::SubflowId;
use crate::seq::DataRange;
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
    /// until a copy would, and at most until `again`.
    pub(super) fn copy(&mut self, view: &View<'_>, rule: Rule, mut again: Time) -> Decision {
        self.copy_now(view, &mut again)
            .unwrap_or(Decision::Wait { until: (again < Time::NEVER).then_some(again), why: Why::rule(rule) })
    }

    /// Returns the copy. At the end of a flow that is the data that arrives last, since the subflow that has sent it delivers the other data
    /// before it meanwhile. If new data waits for space, it is the first outstanding data that has no copy, or what would be in the way a round
    /// trip later.
    /// `again` becomes the earliest time at which there will be a copy if no acknowledgement arrives.
    fn copy_now(&mut self, view: &View<'_>, again: &mut Time) -> Option<Decision> {
        let allowed = self.allowed(view);
        if self.options.tail <= 0.0 || view.outstanding.is_empty() {
            return None;
        }
        let found = self.candidates(view, |subflow| subflow.room() >= subflow.mss);
        let mut free: [Option<(&Candidate<'_>, f64)>; MOST] = [None; MOST];
        for (place, candidate) in free.iter_mut().zip(found.iter().filter(|candidate| candidate.ready)) {
            *place = Some((candidate, candidate.arrival(0.0)));
        }
        free[0]?;
        let mut positions = Positions::new(view);
        let (mut first, mut chosen): (bool, Option<Late<'_, '_>>) = (true, None);
        for pending in view.outstanding.iter().take(INSPECTED) {
            let Some((on, before)) = positions.next(view, pending) else { continue };
            let tried = pending.tried;
            let untried =
                free.iter().flatten().copied().filter(move |(candidate, _)| !tried.has(candidate.subflow.id));
            let Some((fast, soonest, _)) = least(untried) else { continue };
            let sent = |candidate: &Candidate<'_>| match candidate.subflow.id == on {
                true => before,
                false => candidate.subflow.unacked + candidate.subflow.queued,
            };
            let on_each = found.iter().filter(|candidate| tried.has(candidate.subflow.id));
            let slow =
                least(on_each.map(|candidate| (candidate, candidate.outstanding(view, sent(candidate)))));
            let late = slow.map_or(f64::INFINITY, |(_, late, _)| late);
            let in_the_way = if first || view.remaining == 0 { 0.0 } else { fast.state.rtt };
            let threshold = clearly_later(soonest) + in_the_way;
            // Data whose acknowledgement is overdue is lost, or its path has failed: a timeout would send it again.
            let overdue = slow.map_or(view.now, |(slow, ..)| slow.overdue(view, sent(slow)));
            if late <= threshold {
                let then = slow.and_then(|(slow, ..)| slow.later_than(view, sent(slow), threshold));
                *again = then.unwrap_or(Time::NEVER).min(*again);
            } else if self.copied >= allowed && overdue > view.now {
                *again = overdue.min(*again);
            } else if chosen.is_none_or(|chosen| late >= chosen.late) {
                chosen = Some(Late { range: pending.range, fast, soonest, late });
            }
            if chosen.is_some() && view.remaining > 0 {
                break;
            }
            first = false;
        }
        let Late { range, fast, soonest, late } = chosen?;
        let subflow = fast.subflow;
        let limit = allowed.saturating_sub(self.copied).max(subflow.mss).min(fast.carries_in(late - soonest));
        let range =
            if view.remaining > 0 { range } else { last_part(range, subflow.room().min(limit), subflow.mss) };
        let range = Chunk::new(view, range)?.fit(subflow, limit)?;
        Some(self.copied(subflow.id, range, soonest, late))
    }

    /// Returns a copy of the last data of a path of much lower rate, if the receive window would be full before that data has arrived.
    pub(super) fn copy_ahead(&mut self, turn: Turn<'_, '_>, chunk: Chunk) -> Option<Decision> {
        let Turn { view, found, chosen, .. } = turn;
        if self.options.tail <= 0.0 {
            return None;
        }
        let fast = chosen.subflow;
        for other in found.iter().filter(|other| other.is_much_lower(found.best.1)) {
            let Last { end, after } = self.lasts[other.subflow.id.index() % MOST];
            let bytes = (other.subflow.unacked + other.subflow.queued).saturating_sub(after);
            if end <= view.data_una || bytes == 0 {
                continue;
            }
            if self.copied >= self.allowed(view) {
                return None;
            }
            let soonest = chosen.arrival(0.0);
            let late = other.outstanding(view, bytes);
            if late <= clearly_later(soonest) {
                continue;
            }
            let sent = chosen.state.delivered(late + chosen.state.base_rtt).min(turn.rest);
            let edge = end + view.window_end.saturating_sub(view.data_una);
            if chunk.range.start as f64 + sent <= edge as f64 {
                continue;
            }
            let until = view.outstanding.partition_point(|pending| pending.range.start < end);
            let on_other =
                |pending: &&Pending| pending.tried.has(other.subflow.id) && !pending.tried.has(fast.id);
            let pending = view.outstanding[..until].iter().rev().take(INSPECTED).find(on_other);
            let last = &mut self.lasts[other.subflow.id.index() % MOST];
            let Some(pending) = pending else {
                *last = Last::default();
                continue;
            };
            let range = DataRange::new(pending.range.start, pending.range.end.min(end));
            let range = last_part(range, fast.room().min(fast.mss), fast.mss);
            let range = Chunk::new(view, range)?.fit(fast, fast.mss)?;
            last.copy(range);
            return Some(self.copied(fast.id, range, soonest, late));
        }
        None
    }

    /// Counts a copy that arrives in `soonest` seconds, and without it in `late`.
    fn copied(&mut self, subflow: SubflowId, range: DataRange, soonest: f64, late: f64) -> Decision {
        self.copied += range.len();
        let why = Why::scored(Rule::Tail, soonest, late);
        Decision::Assign { subflow, range, kind: AssignKind::Copy, why }
    }

    /// Returns the bytes that may be copied.
    fn allowed(&self, view: &View<'_>) -> u64 {
        let window = view.subflows.iter().map(|subflow| subflow.cwnd).max().unwrap_or(0);
        ((view.written as f64 * self.options.tail) as u64).max(window)
    }
}

/// The last data that a subflow got and that has no copy.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Last {
    /// The end of the data.
    end: u64,
    /// The bytes that the subflow got after it.
    after: u64,
}

impl Last {
    /// Counts data that the subflow gets.
    pub(super) fn send(&mut self, range: DataRange, kind: AssignKind) {
        match kind {
            AssignKind::New => *self = Last { end: range.end, after: 0 },
            _ => self.after += range.len(),
        }
    }

    /// Notes that another subflow gets a copy of `range`, which is the last data.
    fn copy(&mut self, range: DataRange) {
        *self = Last { end: range.start, after: self.after + range.len() };
    }
}

/// Returns the seconds after which data arrives clearly later than in `soonest` seconds.
fn clearly_later(soonest: f64) -> f64 {
    soonest * 1.1 + 0.001
}

/// Outstanding data that would arrive sooner as a copy: there in `soonest` seconds, and otherwise in `late`.
#[derive(Clone, Copy)]
struct Late<'f, 'a> {
    range: DataRange,
    fast: &'f Candidate<'a>,
    soonest: f64,
    late: f64,
}

/// Returns the last whole segments of `range`, of at most `limit` bytes and at least one segment.
fn last_part(range: DataRange, limit: u64, mss: u64) -> DataRange {
    let mss = mss.max(1);
    let skipped = range.len().saturating_sub(limit.max(mss)).div_ceil(mss) * mss;
    DataRange::new(range.start + skipped, range.end)
}

/// Where outstanding data is in what its subflows have in flight, found from its first piece to its last.
struct Positions {
    /// For each subflow, the outstanding bytes that it has delivered, and that wait for other data.
    delivered: [u64; MOST],
    /// For each subflow, the bytes in flight up to the end of the present piece.
    before: [u64; MOST],
}

impl Positions {
    fn new(view: &View<'_>) -> Positions {
        let (mut delivered, mut before) = ([0_u64; MOST], [0_u64; MOST]);
        for pending in view.outstanding.iter().take(INSPECTED) {
            if let Some(on) = carrier(view, pending) {
                delivered[on.id.index() % MOST] += pending.range.len();
            }
        }
        for subflow in view.subflows {
            let at = subflow.id.index() % MOST;
            let flight = subflow.unacked + subflow.queued;
            // Data in flight that is no longer outstanding has arrived elsewhere, as a copy, and still is before the rest.
            if view.outstanding.len() <= INSPECTED {
                before[at] = flight.saturating_sub(delivered[at]);
            }
            delivered[at] = delivered[at].saturating_sub(flight);
        }
        Positions { delivered, before }
    }

    /// Returns the subflow that carries the next piece, and the bytes in flight there up to its end; `None` if it has been delivered there.
    fn next(&mut self, view: &View<'_>, pending: &Pending) -> Option<(SubflowId, u64)> {
        let on = carrier(view, pending)?.id;
        let at = on.index() % MOST;
        let len = pending.range.len();
        let there = self.delivered[at].min(len);
        self.delivered[at] -= there;
        self.before[at] += len - there;
        (there < len).then_some((on, self.before[at]))
    }
}

/// Returns the first subflow that has carried the piece.
fn carrier<'v>(view: &View<'v>, pending: &Pending) -> Option<&'v SubflowView> {
    view.subflows.iter().find(|subflow| pending.tried.has(subflow.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_data_without_a_copy_is_before_copies_and_after_older_data() {
        let mut last = Last::default();
        last.send(DataRange::new(0, 100), AssignKind::New);
        last.send(DataRange::new(500, 530), AssignKind::Copy);
        assert_eq!(last, Last { end: 100, after: 30 }, "a copy of other data");
        last.copy(DataRange::new(60, 100));
        assert_eq!(last, Last { end: 60, after: 70 });
        last.send(DataRange::new(40, 50), AssignKind::New);
        assert_eq!(last, Last { end: 50, after: 0 }, "the order of sending counts");
    }
}
