//! The timers of a subflow: which run in each state, and the deadline of each.

use anabranch_units::{Duration, Time};

use super::recovery::RetransmitTimer;
use super::{Subflow, TcpState};
use crate::timer_table::TimerKind;

/// A timer of a subflow. The first three are armed and disarmed, with their deadlines in a [`TimerTable`]. The deadlines of
/// the others follow from the state of the parts, which every segment moves: they are computed when they are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// Repeats the segment of the handshake.
    Handshake,
    /// Ends TIME-WAIT.
    TimeWait,
    /// Ends the wait for a segment on a path whose address the peer has withdrawn.
    Withdrawal,
    /// Sends a delayed acknowledgement.
    Ack,
    /// Sends signals that wait because too many were sent in a row.
    Signal,
    /// Ends the wait for the peer's FIN: the peer may have lost its state, and no reset may have arrived.
    FinWait,
    /// Lets the next segment leave at the pacing rate.
    Pacing,
    /// Retransmits, probes for a lost tail, or marks segments lost that others have overtaken.
    Retransmission,
}

const STORED: usize = Timer::Withdrawal as usize + 1;

impl TimerKind for Timer {
    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

/// The deadlines of the timers that are armed and disarmed.
pub(super) type TimerTable = crate::timer_table::TimerTable<Timer, STORED>;

/// The timers that run in the handshake.
const OPENING: [Timer; 1] = [Timer::Handshake];
/// The timers that run while segments are exchanged. The last is the most expensive one.
const OPEN: [Timer; 6] =
    [Timer::Ack, Timer::Withdrawal, Timer::Signal, Timer::FinWait, Timer::Pacing, Timer::Retransmission];
/// The timers that run in TIME-WAIT.
const TIME_WAIT: [Timer; 2] = [Timer::TimeWait, Timer::Ack];

/// The state of the connection that the timers of a subflow depend on.
#[derive(Clone, Copy)]
pub(crate) struct TimerContext<F> {
    pub now: Time,
    /// True if each consecutive timeout doubles the next.
    pub backoff: bool,
    /// The time by which the peer may delay an acknowledgement.
    pub ack_delay: Duration,
    /// True if segments are paced.
    pub paces: bool,
    /// Returns how long to wait for the peer's FIN, if the wait is limited.
    pub fin_wait: F,
}

impl Subflow {
    /// Returns the deadline of a timer that runs in the current state; `Time::NEVER` unless it is armed.
    #[inline(always)]
    pub(super) fn deadline<F: Fn() -> Option<Duration>>(
        &self,
        timer: Timer,
        context: &TimerContext<F>,
    ) -> Time {
        match timer {
            Timer::Handshake | Timer::TimeWait | Timer::Withdrawal => self.timers.due(timer),
            Timer::Ack => self.recv.ack_at(),
            Timer::Signal => self.signals.due(),
            Timer::FinWait if self.state.tcp() == TcpState::FinWait2 => {
                (context.fin_wait)().map_or(Time::NEVER, |wait| self.last_received + wait)
            }
            Timer::Pacing if context.paces && self.pace_at > context.now && self.has_data_to_pace() => {
                self.pace_at
            }
            Timer::FinWait | Timer::Pacing => Time::NEVER,
            Timer::Retransmission => self.retransmit_timer(context).0,
        }
    }

    /// True if there is something to send that pacing may delay.
    fn has_data_to_pace(&self) -> bool {
        !self.queue.is_empty() || self.board.lost_segments() > 0 || self.state.fin_requested()
    }

    /// Returns the deadline of the retransmission timer, and its action.
    #[inline]
    pub(super) fn retransmit_timer<F>(&self, context: &TimerContext<F>) -> (Time, RetransmitTimer) {
        let TimerContext { backoff, ack_delay, .. } = *context;
        self.recovery.timer(self.timer_base, self.last_new, &self.board, &self.rtt, backoff, ack_delay)
    }

    /// Returns the time at which the retransmission timer expires, or the probe or the reordering timer in
    /// its place.
    pub(crate) fn retransmission_due<F>(&self, context: &TimerContext<F>) -> Time {
        self.retransmit_timer(context).0
    }

    /// Returns the time at which [`Subflow::expire`] is due. Unless `EXACT`, a time after `known`, for which
    /// the connection is queued anyway, need not be exact.
    #[inline]
    pub(crate) fn next_timeout<const EXACT: bool, F: Fn() -> Option<Duration>>(
        &self,
        known: Time,
        context: &TimerContext<F>,
    ) -> Time {
        let mut due = Time::NEVER;
        match self.state.tcp() {
            TcpState::Closed => {}
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => {
                for timer in OPENING {
                    due = due.min(self.deadline(timer, context));
                }
            }
            TcpState::TimeWait => {
                for timer in TIME_WAIT {
                    due = due.min(self.deadline(timer, context));
                }
            }
            _ => {
                for timer in OPEN {
                    // Usually the connection was queued before the last acknowledgements, which have moved the
                    // retransmission timer to a later time.
                    if timer != Timer::Retransmission || EXACT || self.may_retransmit_before(due.min(known)) {
                        due = due.min(self.deadline(timer, context));
                    }
                }
            }
        }
        due
    }

    /// True if the retransmission timer may expire before `due`.
    #[inline]
    fn may_retransmit_before(&self, due: Time) -> bool {
        !self.board.is_empty()
            && self.recovery.timer_not_before(self.timer_base, &self.board, &self.rtt) < due
    }

    /// Returns the first of the expired timers that run in the current state.
    pub(super) fn next_expired<F: Fn() -> Option<Duration>>(
        &self,
        context: &TimerContext<F>,
    ) -> Option<Timer> {
        let running: &[Timer] = match self.state.tcp() {
            TcpState::Closed => &[],
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => &OPENING,
            TcpState::TimeWait => &TIME_WAIT,
            _ => &OPEN,
        };
        running.iter().copied().find(|&timer| self.deadline(timer, context) <= context.now)
    }
}
