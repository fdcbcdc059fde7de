//! Round robin: every subflow has a turn of a few segments.
//!
//! **Decides** which subflow carries the next data in order, from the number of segments each has carried in
//! this round; RTTs are ignored.
//!
//! **Source**: `mptcp_rr` of the out-of-tree MPTCP kernel.
//!
//! **Constants**: `segments` per turn, 1 by default; `cwnd_limited`, on by default: a subflow with a full
//! window is skipped, so all windows are filled and the shares follow the capacities. If off, the rotation is
//! strict: all subflows wait for the one that has the turn, and the shares are equal.
//!
//! **Departures from the source**
//! * Backups are used only when no active subflow works; the kernel ignores the flag here.
//! * A turn is complete with `segments` *or more*; the kernel compares for equality, which a large segment
//!   never meets.

use super::pick::{self, Chunk, PerSubflow};
use super::{AssignKind, Decision, Rule, Scheduler, View, Why};
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The length of a turn, and the reaction to a full window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundRobinOptions {
    /// Segments in a turn; 0 counts as 1.
    pub segments: u8,
    /// True if a subflow with a full window is skipped; otherwise all wait for it.
    pub cwnd_limited: bool,
}

impl RoundRobinOptions {
    /// One segment per turn; subflows with a full window are skipped.
    pub const DEFAULT: RoundRobinOptions = RoundRobinOptions { segments: 1, cwnd_limited: true };
}

impl Options for RoundRobinOptions {
    const PARAMETERS: &'static [Parameter<RoundRobinOptions>] = &[
        parameter!(RoundRobinOptions, "segments", "segments per turn", integer 1, 255, segments),
        parameter!(
            RoundRobinOptions,
            "cwnd-limited",
            "skip a subflow whose window is full; else wait for it",
            bool,
            cwnd_limited
        ),
    ];
}

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundRobin {
    segments: u32,
    cwnd_limited: bool,
    /// The number of segments that each subflow has carried in this round.
    given: PerSubflow<u32>,
}

impl RoundRobin {
    /// Returns a scheduler with the given options.
    pub fn new(options: RoundRobinOptions) -> RoundRobin {
        RoundRobin {
            segments: u32::from(options.segments.max(1)),
            cwnd_limited: options.cwnd_limited,
            given: PerSubflow::default(),
        }
    }

    /// Reinjects data of a failed subflow on the first with free window that never carried it, or else on the
    /// first with free window.
    fn reinject(view: &View<'_>) -> Option<Decision> {
        let pending = view.reinject.first()?;
        let Some(chunk) = Chunk::new(view, pending.range) else { return Some(pick::wait(Rule::WindowFull)) };
        let mut carried = None;
        for subflow in pick::candidates(view) {
            let Some(range) = chunk.fit(subflow, u64::MAX) else { continue };
            let decision = Decision::Assign {
                subflow: subflow.id,
                range,
                kind: AssignKind::Reinject,
                why: Why::rule(Rule::Reinjection),
            };
            if !pending.tried.has(subflow.id) {
                return Some(decision);
            }
            carried = carried.or(Some(decision));
        }
        Some(carried.unwrap_or_else(|| pick::wait(pick::why_none(view))))
    }
}

impl Default for RoundRobin {
    fn default() -> RoundRobin {
        RoundRobin::new(RoundRobinOptions::DEFAULT)
    }
}

impl Scheduler for RoundRobin {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        if let Some(decision) = RoundRobin::reinject(view) {
            return decision;
        }
        let chunk = match Chunk::unassigned(view) {
            Ok(chunk) => chunk,
            Err(rule) => return pick::wait(rule),
        };
        let takes_part = |subflow: &&super::SubflowView| {
            if self.cwnd_limited { chunk.fits(subflow) } else { chunk.fits_window(subflow) }
        };
        // The last subflow with an incomplete turn, or else the first that has had none. (The kernel's
        // list has the newest subflow first, and the kernel takes the first and the last of that list.)
        let mut chosen = None;
        let mut first = None;
        for subflow in pick::candidates(view).filter(takes_part) {
            first = first.or(Some(subflow));
            let given = self.given.get(subflow.id);
            if 0 < given && given < self.segments || given == 0 && chosen.is_none() {
                chosen = Some(subflow);
            }
        }
        let Some(first) = first else { return pick::wait(pick::why_none(view)) };
        let subflow = chosen.unwrap_or_else(|| {
            // All subflows that take part have had their turns, so the next round begins. The others keep
            // theirs, as in the kernel.
            for subflow in pick::candidates(view).filter(takes_part) {
                self.given.set(subflow.id, 0);
            }
            first
        });
        let mss = subflow.mss.max(1);
        let given = self.given.get(subflow.id);
        match chunk.fit(subflow, u64::from(self.segments - given) * mss) {
            Some(range) => {
                let segments = u32::try_from(range.len().div_ceil(mss)).unwrap_or(u32::MAX);
                self.given.set(subflow.id, given.saturating_add(segments));
                let why = Why::rule(Rule::Turn);
                Decision::Assign { subflow: subflow.id, range, kind: AssignKind::New, why }
            }
            None => pick::wait(Rule::Turn),
        }
    }
}
