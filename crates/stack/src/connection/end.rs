//! The end of the connection: both streams are complete, or no subflow is left to complete them.

use anabranch_units::Time;

use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::event::{CloseReason, Event};
use crate::subflow::Subflow;

impl Connection {
    /// Ends the connection for the application.
    pub(crate) fn end(&mut self, reason: CloseReason) {
        if self.phase != Phase::Ended {
            self.phase = Phase::Ended;
            self.paths.end_race();
            self.events.push(Event::Closed(reason));
            self.timers.disarm(Timer::Data);
            self.timers.disarm(Timer::Persist);
            self.timers.disarm(Timer::Fin);
            self.timers.disarm(Timer::Orphan);
            self.timers.disarm(Timer::Silence);
        }
    }

    /// Ends the connection if its streams are complete, or if no subflow is left and none is expected.
    #[cold]
    pub(super) fn check_ended(&mut self, now: Time) {
        if self.phase == Phase::Ended {
            return;
        }
        let finished = self.send.fin_acked && self.recv.finished();
        if self.subflows.iter().any(|subflow| subflow.state().is_open()) {
            return;
        }
        if finished {
            self.check_all_acked();
            self.end(CloseReason::Finished);
        } else if self.subflows.iter().all(|subflow| subflow.state().is_closed())
            && !self.timers.is_armed(Timer::Orphan)
        {
            match (self.mode, self.phase) {
                (Mode::Plain, _) => self.end(CloseReason::TimedOut),
                (Mode::Mptcp, Phase::Open) => self.expect_subflow(now),
                (Mode::Mptcp, _) => self.end(CloseReason::NoSubflow),
            }
        }
    }

    /// Notifies the application, once, that everything it has written is acknowledged.
    #[inline(always)]
    pub(super) fn check_all_acked(&mut self) {
        let end = self.send.written + u64::from(self.send.closed);
        if self.send.una == self.send.written && !self.closing.is_notified_up_to(end) {
            self.tell_all_acked(end);
        }
    }

    #[cold]
    pub(super) fn tell_all_acked(&mut self, end: u64) {
        if self.phase == Phase::Ended {
            return;
        }
        let fin_done = !self.send.closed || self.send.fin_acked;
        if fin_done && self.freed() == self.send.written {
            self.closing.note_notified(end);
            self.events.push(Event::AllAcked);
        }
    }

    /// Starts the wait for a further subflow if none of the existing ones can carry the rest of both streams
    /// (RFC 8684 section 3.3.3: break before make).
    #[cold]
    pub(super) fn expect_subflow(&mut self, now: Time) {
        let finished = self.recv.finished();
        if self.mode == Mode::Plain || self.phase != Phase::Open || (finished && self.send.fin_acked) {
            return;
        }
        let serves =
            |subflow: &Subflow| subflow.state().is_open() && (finished || !subflow.recv().finished());
        if !self.timers.is_armed(Timer::Orphan) && !self.subflows.iter().any(serves) {
            let due = now + self.config.close_timeout;
            self.timers.arm(Timer::Orphan, due);
        }
    }
}
