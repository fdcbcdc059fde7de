//! Schedulers that use a configured order of the subflows instead of measurements: strict priority, and a
//! primary subflow with the others in reserve.
//!
//! **Decide** which subflow carries the next data in order: the first by priority with free window
//! ([`StrictPriority`]), or the first by priority that works, and no other ([`Backup`]).
//!
//! **Source**: strict priority as in draft-bonaventure-iccrg-schedulers. The other is an operator's usual
//! notion of a backup, with a configured order in place of the flag of RFC 8684.
//!
//! **Constants**: the priorities by subflow ID, the lowest number first; subflows not listed come last, in
//! the order of IDs. With an empty list, all subflows come in the order of IDs.
//!
//! **Departures from the source**: none. Backups by the flag of RFC 8684 remain backups.

use super::pick;
use super::{Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::parameter;
use crate::parameter::{Numbers, Options, Parameter};

/// The options of both.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PriorityOptions {
    /// The priorities by subflow ID, the lowest number first.
    pub priorities: Numbers,
}

impl PriorityOptions {
    /// In the order of the IDs.
    pub const DEFAULT: PriorityOptions = PriorityOptions { priorities: Numbers::EMPTY };

    fn of(&self, subflow: &SubflowView) -> f64 {
        self.priorities.as_slice().get(subflow.id.index()).copied().unwrap_or(f64::INFINITY)
    }

    /// Returns the first subflow by priority.
    fn first<'a>(&self, subflows: impl Iterator<Item = &'a SubflowView>) -> Option<&'a SubflowView> {
        subflows.min_by(|a, b| self.of(a).total_cmp(&self.of(b)))
    }
}

impl Options for PriorityOptions {
    const PARAMETERS: &'static [Parameter<PriorityOptions>] = &[parameter!(
        PriorityOptions,
        "priorities",
        "priorities of the subflows by ID, lowest number first; empty: by ID",
        numbers 0.0, 1e9,
        priorities
    )];
}

/// The first subflow by priority with free window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StrictPriority(PriorityOptions);

impl StrictPriority {
    /// Returns a scheduler with the given options.
    pub fn new(options: PriorityOptions) -> StrictPriority {
        StrictPriority(options)
    }
}

impl Scheduler for StrictPriority {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let chunk = match pick::next_new(view) {
            Ok(chunk) => chunk,
            Err(decision) => return decision,
        };
        let first = self.0.first(pick::candidates(view).filter(|subflow| chunk.fits(subflow)));
        match first.and_then(|subflow| Some((subflow, chunk.fit(subflow, u64::MAX)?))) {
            Some((subflow, range)) => {
                let why = Why::scored(Rule::Priority, self.0.of(subflow), f64::NAN);
                pick::assign_new(subflow, range, why)
            }
            None => pick::wait(pick::why_none(view)),
        }
    }
}

/// The first subflow by priority that works, and no other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Backup(PriorityOptions);

impl Backup {
    /// Returns a scheduler with the given options.
    pub fn new(options: PriorityOptions) -> Backup {
        Backup(options)
    }
}

impl Scheduler for Backup {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let chunk = match pick::next_new(view) {
            Ok(chunk) => chunk,
            Err(decision) => return decision,
        };
        let backups = pick::backups_only(view);
        let working = view.subflows.iter().filter(|s| s.backup == backups && pick::works(s));
        let Some(primary) = self.0.first(working) else { return pick::wait(Rule::NoSubflow) };
        match chunk.fit(primary, u64::MAX).filter(|_| primary.may_carry()) {
            Some(range) => {
                let why = Why::scored(Rule::Priority, self.0.of(primary), f64::NAN);
                pick::assign_new(primary, range, why)
            }
            None => pick::wait(pick::why_none(view)),
        }
    }
}
