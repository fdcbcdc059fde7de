//! The end of a subflow: by FINs, by a reset, or without a word. Its data goes to the others.

use anabranch_units::Time;

use super::{Connection, Mode, Phase};
use crate::congestion::CongestionControl;
use crate::event::{CloseReason, Event};
use crate::path_manager::{PathEvent, PathManager};
use crate::segment::{MptcpOption, ResetReason, Segment};
use crate::subflow::{ResetCause, Subflow, TcpState};

impl Connection {
    pub(super) fn set_closed(&mut self, at: usize) {
        self.subflows[at].set_closed();
        self.wanted.cleanup();
    }

    /// A subflow is gone without a word.
    #[cold]
    pub(crate) fn close_subflow(&mut self, now: Time, at: usize) {
        self.set_closed(at);
        self.subflow_ended(now, at);
        self.check_ended(now);
        self.run_path_manager();
    }

    /// A subflow is given up: the peer is told by a reset.
    #[cold]
    pub(crate) fn kill_subflow(&mut self, now: Time, at: usize, reason: ResetReason) {
        if self.subflows[at].state() == TcpState::SynSent {
            self.fail_handshake(now, at, CloseReason::TimedOut);
            return;
        }
        self.subflows[at].request_reset(ResetCause::Because(reason));
        self.subflow_ended(now, at);
        self.run_path_manager();
    }

    #[cold]
    pub(crate) fn enter_time_wait(&mut self, now: Time, at: usize) {
        self.subflows[at].enter_time_wait(now + self.config.time_wait);
        self.subflow_ended(now, at);
        self.check_ended(now);
    }

    /// Requests our FIN on the subflows that the peer has closed and that nothing needs any more.
    ///
    /// A FIN keeps its meaning on a subflow: data still goes the other way (RFC 8684 section 3.3.3), and not all
    /// working subflows may be closed before it is DATA_ACKed. A FIN before the end of the peer's stream retires its
    /// subflow, and ours follows if another one works. After the end of the peer's stream it is the FIN that appendix
    /// D sends on every subflow, and ours waits until our stream has ended too.
    #[cold]
    pub(crate) fn answer_fins(&mut self) {
        for at in 0..self.subflows.len() {
            let subflow = &self.subflows[at];
            if subflow.state() != TcpState::CloseWait || subflow.fin_requested() || subflow.is_resetting() {
                continue;
            }
            let another = || {
                self.subflows
                    .iter()
                    .any(|other| other.id().index() != at && other.is_usable() && !other.potentially_failed())
            };
            if self.send.fin_acked || (!self.recv.finished() && another()) {
                self.subflows[at].request_fin();
                self.wanted.schedule();
            }
        }
    }

    /// Withdraws the FINs that [`Connection::answer_fins`] has requested and that were not sent yet, where the subflow
    /// that was to carry on is gone.
    #[cold]
    pub(crate) fn reopen_half_closed(&mut self) {
        if self.mode == Mode::Plain || self.phase != Phase::Open || self.send.fin_acked {
            return;
        }
        for subflow in &mut self.subflows {
            if subflow.state() == TcpState::CloseWait && !subflow.fin_sent() {
                subflow.withdraw_fin();
            }
        }
        self.answer_fins();
    }

    /// A subflow has ended: what it carried goes elsewhere, and everyone hears of it.
    pub(crate) fn subflow_ended(&mut self, now: Time, at: usize) {
        if !self.subflows[at].note_end(now) {
            return;
        }
        let was_up = self.subflows[at].was_established();
        let id = self.subflows[at].id();
        self.recover_from_dead(at);
        self.subflows[at].abandon();
        let mut stats = self.subflows[at].stats();
        stats.ended = Some(now);
        self.past.push(stats);
        let (local, remote) = (self.subflows[at].local(), self.subflows[at].remote());
        self.send.outstanding.forget(id);
        self.send.reinject.forget(id);
        if was_up {
            self.congestion.on_subflow_down(id);
            self.tell_scheduler(now, &crate::scheduler::SchedulerEvent::SubflowDown(id));
            // Nobody hears of anything after the end.
            if self.phase != Phase::Ended {
                self.push_event(Event::SubflowDown(id));
            }
        }
        let reset = self.subflows[at].peer_reset();
        self.subflows[at].take_held();
        self.path_manager.on_event(&PathEvent::SubflowClosed { id, local, remote, reset });
        self.reopen_half_closed();
        self.expect_subflow(now);
        self.wanted.schedule();
        self.tell_writable();
    }

    /// A subflow could not be opened.
    #[cold]
    pub(crate) fn fail_handshake(&mut self, now: Time, at: usize, reason: CloseReason) {
        self.set_closed(at);
        self.subflow_ended(now, at);
        if self.phase == Phase::Opening && self.live_subflows().next().is_none() {
            self.end(reason);
        }
        self.run_path_manager();
    }

    /// What the peer says with a reset of a subflow (RFC 8684 sections 3.6 and 3.7).
    pub(super) fn hear_reset(&mut self, at: usize, segment: &Segment) {
        for option in segment.options.mptcp.iter().flatten() {
            match *option {
                MptcpOption::Reset { transient, reason } => {
                    self.subflows[at].on_peer_reset(transient, reason);
                }
                MptcpOption::Fail(_) => self.stats.fails_received += 1,
                _ => {}
            }
        }
    }

    /// A path that swallows everything must not hold the connection: what it carried has long arrived by
    /// others, and still takes the room of what could be sent now. When half of a full send buffer is such,
    /// and the subflow has not got through three times, it is reset, for too much outstanding data (RFC 8684
    /// section 3.6, reason 0x04). Three, as a path that was cut for half a second is often probed twice in vain.
    pub(crate) fn give_up_laggard(&mut self, now: Time) {
        if !self.send.blocked || self.mode != Mode::Mptcp || self.models_buffers() {
            return;
        }
        let freed = self.freed();
        if (self.send.una - freed) < self.send_limit() / 2 {
            return;
        }
        let laggard = self.subflows.iter().position(|subflow| {
            subflow.recovery().timeouts() >= 3
                && subflow.board().lowest_data().is_some_and(|low| low <= freed)
        });
        let works = |subflow: &Subflow| subflow.is_usable() && !subflow.potentially_failed();
        if let Some(at) = laggard
            && self.subflows.iter().any(works)
        {
            self.kill_subflow(now, at, ResetReason::TooMuchOutstanding);
            self.tell_writable();
        }
    }
}
