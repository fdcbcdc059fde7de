//! The timers of the data level.

use crate::timer_table::TimerKind;

/// A timer of the data level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// Asks the scheduler again.
    Schedule,
    /// Reinjects the head of the stream (RFC 8684 section 3.3.6).
    Data,
    /// Probes the peer's closed window.
    Persist,
    /// Retransmits the DATA_FIN.
    Fin,
    /// Ends the wait for a further subflow.
    Orphan,
    /// Probes silent subflows.
    Silence,
}

const COUNT: usize = Timer::Silence as usize + 1;

impl TimerKind for Timer {
    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

/// The deadlines of the timers.
pub(super) type TimerTable = crate::timer_table::TimerTable<Timer, COUNT>;
