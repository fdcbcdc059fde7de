//! Redundant: every subflow carries everything.
//!
//! **Decides** for each subflow by itself what it carries next: the whole stream in order, whether
//! others carry it or not. What is acknowledged meanwhile is skipped, so a slow subflow never holds
//! the stream back.
//!
//! **Source**: the redundant scheduler of the out-of-tree MPTCP kernel, branch v0.90.
//!
//! **Constants**: none. **State**: how far each subflow has walked, and whose turn it is.
//!
//! **Read differently**
//! * A decision covers a burst, so a subflow walks as far as its window lets it before the next one does.
//! * Data that a subflow has carried already, by a reinjection, is skipped.
//! * A place that a new subflow uses again starts from the beginning: seen by nothing sent and nothing queued.

use super::pick::{self, Chunk, PerSubflow, is_fresh};
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
    /// It has no options.
    pub fn new() -> Redundant {
        Redundant::default()
    }

    /// What `subflow` carries next, and whether no other has it. Moves its mark over what it has carried.
    fn step(&mut self, view: &View<'_>, subflow: &SubflowView) -> Option<(DataRange, AssignKind)> {
        if subflow.backup {
            // A backup never carries copies.
            return view.unassigned.first().map(|range| (*range, AssignKind::New));
        }
        let mut at = if is_fresh(subflow) { 0 } else { self.walked.get(subflow.id) };
        // What is new and lies behind the mark was taken back from a subflow that had it.
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

    /// The decision for `subflow`, or why there is none.
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
            // A reinjection may be the first that a new subflow is given.
            for subflow in view.subflows.iter().filter(|subflow| is_fresh(subflow)) {
                self.walked.set(subflow.id, 0);
            }
        }
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
        let told = reasons.get(reason).copied().filter(|rule| *rule != Rule::NoRoom);
        pick::wait(told.unwrap_or_else(|| pick::why_none(view)))
    }
}
