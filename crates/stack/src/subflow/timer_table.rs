//! The timers of a subflow: which run in each state, and the deadline of each.

use anabranch_units::{Duration, Time};

use super::recovery::RetransmitTimer;
use super::{Subflow, TcpState, TimerSlack};
use crate::timer_table::TimerKind;

/// A timer of a subflow. The first three are armed and disarmed, with their deadlines in a [`TimerTable`]. The deadlines of
/// the others follow from the state of the parts, which every segment moves: they are computed when they are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// Repeats the segment of the handshake.
    Handshake,
    /// Ends TIME-WAIT.
    TimeWait,
    /// Ends the wait for a segment on a path after the peer has withdrawn its address.
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

/// Declares the timers that run in some states: their list, and a function that returns the first of their deadlines,
/// written out because it is called for every segment.
macro_rules! running {
    ($list:ident, $first:ident: $($timer:ident)*) => {
        const $list: &[Timer] = &[$(Timer::$timer),*];

        impl Subflow {
            #[inline(always)]
            fn $first<F: Fn() -> Option<Duration>>(&self, context: &TimerContext<F>) -> Time {
                Time::NEVER$(.min(self.deadline(Timer::$timer, context)))*
            }
        }
    };
}

running!(OPENING, first_in_opening: Handshake);
running!(TIME_WAIT, first_in_time_wait: TimeWait Ack);
// While segments are exchanged; the retransmission timer, which costs most, runs besides these.
running!(OPEN, first_in_open: Ack Withdrawal Signal FinWait Pacing);

/// The state of the connection that the timers of a subflow depend on.
#[derive(Clone, Copy)]
pub(crate) struct TimerContext<F> {
    pub now: Time,
    /// True if each consecutive timeout doubles the next.
    pub backoff: bool,
    /// The time by which timers are later than the round trip requires.
    pub slack: TimerSlack,
    /// True if segments are paced.
    pub paces: bool,
    /// Returns how long to wait for the peer's FIN, if the wait is limited.
    pub fin_wait: F,
}

impl TimerContext<()> {
    /// Returns the context with the wait for the peer's FIN.
    #[inline]
    pub(crate) fn with_fin_wait<F: Fn() -> Option<Duration>>(self, fin_wait: F) -> TimerContext<F> {
        let TimerContext { now, backoff, slack, paces, fin_wait: () } = self;
        TimerContext { now, backoff, slack, paces, fin_wait }
    }
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
        let TimerContext { backoff, slack, .. } = *context;
        self.recovery.timer(self.timer_base, self.last_new, &self.board, &self.rtt, backoff, slack)
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
        match self.state.tcp() {
            TcpState::Closed => Time::NEVER,
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => {
                self.first_in_opening(context)
            }
            TcpState::TimeWait => self.first_in_time_wait(context),
            _ => {
                let due = self.first_in_open(context);
                // Usually the connection was queued before the last acknowledgements, which have moved the
                // retransmission timer to a later time.
                if EXACT || self.may_retransmit_before(due.min(known)) {
                    return due.min(self.deadline(Timer::Retransmission, context));
                }
                due
            }
        }
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
        let has_expired = |timer: &Timer| self.deadline(*timer, context) <= context.now;
        let running = match self.state.tcp() {
            TcpState::Closed => return None,
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => OPENING,
            TcpState::TimeWait => TIME_WAIT,
            _ => {
                let first = OPEN.iter().copied().find(has_expired);
                return first.or_else(|| Some(Timer::Retransmission).filter(has_expired));
            }
        };
        running.iter().copied().find(has_expired)
    }
}
