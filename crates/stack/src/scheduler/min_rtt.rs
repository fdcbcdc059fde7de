//! minRTT: fills the window of the fastest subflow, then the window of the next fastest.
//!
//! **Decides** which subflow carries the next data in order, from the smoothed RTTs and the free congestion
//! and receive windows.
//!
//! **Source**: the `default` scheduler of the out-of-tree MPTCP kernel; papers on MPTCP scheduling mean this
//! one by "the default".
//!
//! **Constants**: none.
//!
//! **Departures from the source**
//! * A decision covers as many whole segments as the subflow has window for, while the kernel decides per
//!   segment: the order of subflows is the same, as the choice does not change until the window is full.
//! * A subflow without an RTT sample is the slowest; in the kernel it is the fastest.
//! * Earlier versions of the kernel pass over a subflow with several packets in the queue of its device:
//!   [`crate::config::ConnectionConfig::small_queues`].
//! * Data of a failed subflow is reinjected on a backup only when no active subflow works, like new data; the
//!   kernel also does so when every active one has carried it.

use super::pick;
use super::{AssignKind, Decision, Rule, Scheduler, View};

/// The scheduler; it has no state.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MinRtt;

impl MinRtt {
    /// Returns the scheduler; it has no options.
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
