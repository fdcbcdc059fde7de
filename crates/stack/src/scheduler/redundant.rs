//! Redundant: every subflow carries everything.
//!
//! **Decides** for each subflow by itself what it carries next: the whole stream in order, whether
//! others carry it or not. What is acknowledged meanwhile is skipped, so a slow subflow never holds
//! the stream back.
//!
//! **Source**: the redundant scheduler of the out-of-tree MPTCP kernel, branch v0.90 (schedulers
//! reference section 18).
//!
//! **Constants**: none. **State**: how far each subflow has walked, and whose turn it is.
//!
//! **Read differently**
//! * A decision covers a burst, so a subflow walks as far as its window lets it before the next one does.
//! * Data that a subflow has carried already, by a reinjection, is skipped.
//! * A place that a new subflow uses again starts from the beginning: seen by nothing sent and nothing queued.

use super::pick::{self, Chunk, PerSubflow};
use super::{AssignKind, Decision, Pending, Rule, Scheduler, SubflowView, View, Why};
use crate::event::SubflowId;
use crate::seq::DataRange;

/// The scheduler.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Redundant {
    /// The first offset that each subflow has not been given.
    walked: PerSubflow<u64>,
    /// Who is asked first.
    next: u8,
}

impl Redundant {
    /// What `subflow` carries next, and whether no other has it. Moves its mark over what it has carried.
    fn step(&mut self, view: &View<'_>, subflow: &SubflowView) -> Option<(DataRange, AssignKind)> {
        if subflow.backup {
            // A backup never carries copies.
            return view.unassigned.first().map(|range| (*range, AssignKind::New));
        }
        let fresh = subflow.bytes_sent == 0 && subflow.queued == 0;
        let mut at = if fresh { 0 } else { self.walked.get(subflow.id) };
        let found = loop {
            let copy = view.outstanding.get(first_behind(view.outstanding, |entry| entry.range, at));
            let new = view.unassigned.get(first_behind(view.unassigned, |range| *range, at));
            match (copy, new) {
                (Some(Pending { range, tried }), new) if new.is_none_or(|new| range.start < new.start) => {
                    if !tried.has(subflow.id) {
                        break Some((DataRange::new(range.start.max(at), range.end), AssignKind::Copy));
                    }
                    at = range.end;
                }
                (_, Some(range)) => {
                    break Some((DataRange::new(range.start.max(at), range.end), AssignKind::New));
                }
                (_, None) => break None,
            }
        };
        self.walked.set(subflow.id, at);
        found
    }

    /// The decision for `subflow`, or why there is none.
    fn ask(&mut self, view: &View<'_>, subflow: &SubflowView) -> Result<Decision, Rule> {
        let (range, kind) = self.step(view, subflow).ok_or(Rule::NothingToSend)?;
        let chunk = Chunk::new(view, range).ok_or(Rule::WindowFull)?;
        let range = chunk.fit(subflow, u64::MAX).ok_or(Rule::NoRoom)?;
        self.walked.set(subflow.id, range.end);
        self.next = subflow.id.0.wrapping_add(1);
        let why = Why::rule(Rule::EverySubflow);
        Ok(Decision::Assign { subflow: subflow.id, range, kind, why })
    }
}

impl Scheduler for Redundant {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        if let Some(decision) = pick::reinject(view) {
            return decision;
        }
        let next = SubflowId(self.next);
        let turn = |first: bool| pick::candidates(view).filter(move |s| (s.id >= next) == first);
        // Of the reasons to wait, the one that comes first in this order.
        let reasons = [Rule::NoRoom, Rule::WindowFull, Rule::NothingToSend];
        let mut reason = reasons.len();
        for subflow in turn(true).chain(turn(false)) {
            match self.ask(view, subflow) {
                Ok(decision) => return decision,
                Err(rule) => reason = reason.min(reasons.iter().position(|r| *r == rule).unwrap_or(0)),
            }
        }
        pick::wait(reasons.get(reason).copied().unwrap_or_else(|| pick::why_none(view)))
    }
}

/// The index of the entry at `offset`, or of the first behind it.
fn first_behind<T>(entries: &[T], range: impl Fn(&T) -> DataRange, offset: u64) -> usize {
    entries.partition_point(|entry| range(entry).end <= offset)
}
