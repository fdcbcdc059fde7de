//! minRTT: fill the window of the fastest subflow, then the next fastest.
//!
//! **Decides** for the next data in order which subflow carries it, from the smoothed RTTs and the
//! room in congestion and receive windows.
//!
//! **Source**: the `default` scheduler of the out-of-tree MPTCP kernel; the papers
//! on MPTCP scheduling all mean this one by "the default".
//!
//! **Constants**: none.
//!
//! **Read differently**
//! * A decision covers as many whole segments as the subflow has room for, where the kernel decides
//!   per segment: the order of subflows is the same, as the choice does not change until the room is used.
//! * A subflow without an RTT sample is the slowest; in the kernel it is the fastest.
//! * Data of a failed subflow goes to a backup only when no active subflow works, like new data; the
//!   kernel also does it when every active one has carried it.

use super::pick;
use super::{AssignKind, Decision, Rule, Scheduler, View};

/// The scheduler; it has no state.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MinRtt;

impl MinRtt {
    /// It has no options.
    pub const fn new() -> MinRtt {
        MinRtt
    }
}

impl Scheduler for MinRtt {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        match pick::next_on_lowest(view) {
            Ok((_, lowest)) => lowest.assign(AssignKind::New, Rule::LowestRtt),
            Err(decision) => decision,
        }
    }
}
