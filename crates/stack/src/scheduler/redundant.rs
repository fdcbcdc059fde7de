//! Redundant: every subflow carries everything.
//!
//! **Decides** for each subflow separately which data it carries next: the whole stream in order, whether or
//! not others carry it. Data acknowledged in the meantime is skipped, so a slow subflow never delays the
//! stream.
//!
//! **Source**: the redundant scheduler of the out-of-tree MPTCP kernel, branch v0.90.
//!
//! **Constants**: none. **State**: the position of each subflow, and the subflow that is next.
//!
//! **Departures from the source**
//! * A decision covers a burst, so a subflow advances as far as its window allows before the next one does.
//! * Data that a subflow has already carried by a reinjection is skipped.
//! * A new subflow that reuses an ID starts from the beginning; it is recognised by having nothing sent and
//!   nothing queued.

use super::pick::{self, Chunk, PerSubflow, is_fresh};
use super::{AssignKind, Decision, Pending, Rule, Scheduler, SubflowView, View, Why};
use crate::event::SubflowId;
use crate::seq::DataRange;

/// The scheduler.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Redundant {
    /// The first offset not yet assigned to each subflow.
    walked: PerSubflow<u64>,
    /// The subflow to ask first.
    next: u8,
}

impl Redundant {
    /// Returns the scheduler; it has no options.
    pub fn new() -> Redundant {
        Redundant::default()
    }

    /// Returns the data that `subflow` carries next, and whether no other subflow has it. Advances the
    /// subflow's position over data it has carried.
    fn step(&mut self, view: &View<'_>, subflow: &SubflowView) -> Option<(DataRange, AssignKind)> {
        if subflow.backup {
            // A backup never carries copies.
            return view.unassigned.first().map(|range| (*range, AssignKind::New));
        }
        let mut at = if is_fresh(subflow) { 0 } else { self.walked.get(subflow.id) };
        // New data before the position was recalled from a subflow.
        at = view.unassigned.first().map_or(at, |new| at.min(new.start));
        let new = view.unassigned.partition_point(|range| range.end <= at);
        let new = view.unassigned.get(new);
        let copies = view.outstanding.partition_point(|entry| entry.range.end <= at);
        let mut found = new.map(|range| (DataRange::new(range.start.max(at), range.end), AssignKind::New));
        for Pending { range, tried } in view.outstanding.iter().skip(copies) {
            if new.is_some_and(|new| new.start < range.start) {
                break;
            }
            if !tried.has(subflow.id) {
                found = Some((DataRange::new(range.start.max(at), range.end), AssignKind::Copy));
                break;
            }
            at = range.end;
        }
        self.walked.set(subflow.id, at);
        found
    }

    /// Returns the decision for `subflow`, or the reason why there is none.
    fn ask(&mut self, view: &View<'_>, subflow: &SubflowView) -> Result<Decision, Rule> {
        if pick::is_full(subflow) && !view.unassigned.is_empty() {
            return Err(Rule::NoRoom);
        }
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
        if !view.reinject.is_empty() {
            // A reinjection may be the first data assigned to a new subflow.
            for subflow in view.subflows.iter().filter(|subflow| is_fresh(subflow)) {
                self.walked.set(subflow.id, 0);
            }
        }
        if let Some(decision) = pick::reinject(view) {
            return decision;
        }
        let next = SubflowId(self.next);
        let turn = |first: bool| pick::candidates(view).filter(move |s| (s.id >= next) == first);
        // The reason reported for waiting is the first that applies in this order.
        let reasons = [Rule::NoRoom, Rule::WindowFull, Rule::NothingToSend];
        let mut reason = reasons.len();
        for subflow in turn(true).chain(turn(false)) {
            match self.ask(view, subflow) {
                Ok(decision) => return decision,
                Err(rule) => reason = reason.min(reasons.iter().position(|r| *r == rule).unwrap_or(0)),
            }
        }
        let told = reasons.get(reason).copied().filter(|rule| *rule != Rule::NoRoom);
        pick::wait(told.unwrap_or_else(|| pick::why_none(view)))
    }
}
