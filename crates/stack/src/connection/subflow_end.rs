//! The end of a subflow: by FINs, by a reset, or silently. Its data is reinjected on the others.

use anabranch_units::Time;

use super::{Connection, Mode, Phase};
use crate::congestion::CongestionControl;
use crate::event::{CloseReason, Event};
use crate::path_manager::PathEvent;
use crate::segment::{AddressIds, MptcpOption, ResetReason, Segment};
use crate::stats::SubflowStats;
use crate::subflow::{Ended, Reset, ResetCause, Subflow};

impl Connection {
    pub(super) fn set_closed(&mut self, at: usize) {
        self.subflows[at].state_mut().set_closed();
        self.wanted.cleanup();
    }

    /// Closes a subflow without sending anything.
    #[cold]
    pub(super) fn close_subflow(&mut self, now: Time, at: usize) {
        self.set_closed(at);
        self.subflow_ended(now, at);
        self.check_ended(now);
        self.run_path_manager();
    }

    /// Gives up a subflow with a reset.
    #[cold]
    pub(super) fn kill_subflow(&mut self, now: Time, at: usize, reason: ResetReason) {
        if self.subflows[at].state_mut().reset(ResetCause::Because(reason)) == Reset::Silent {
            self.fail_handshake(now, at, CloseReason::TimedOut);
            return;
        }
        self.subflow_ended(now, at);
        self.run_path_manager();
    }

    /// Handles that a subflow waits in TIME-WAIT.
    #[cold]
    pub(super) fn on_time_wait(&mut self, now: Time, at: usize) {
        self.subflow_ended(now, at);
        self.check_ended(now);
    }

    /// Requests the local FIN on the subflows that the peer has closed and that are no longer needed.
    ///
    /// A FIN keeps its meaning on a subflow: data still flows in the other direction (RFC 8684 section
    /// 3.3.3), and not all working subflows may be closed before it is DATA_ACKed. A FIN before the end of
    /// the peer's stream retires its subflow, and the local one follows if another subflow works. After the
    /// end of the peer's stream it is the FIN that appendix D sends on every subflow, and the local one waits
    /// until the local stream has ended too.
    #[cold]
    pub(super) fn answer_fins(&mut self) {
        for at in 0..self.subflows.len() {
            if !self.subflows[at].state().may_answer_fin() {
                continue;
            }
            let another = || {
                self.subflows.iter().any(|other| {
                    let view = other.view(None);
                    view.id.index() != at && view.usable && !view.potentially_failed
                })
            };
            if self.send.fin_acked || (!self.recv.finished() && another()) {
                self.subflows[at].state_mut().request_fin();
                self.wanted.schedule();
            }
        }
    }

    /// Withdraws unsent FINs requested by [`Connection::answer_fins`] if the subflow that was to continue has
    /// ended.
    #[cold]
    pub(super) fn reopen_half_closed(&mut self) {
        if self.mode == Mode::Plain || self.phase != Phase::Open || self.send.fin_acked {
            return;
        }
        for subflow in &mut self.subflows {
            subflow.state_mut().reopen();
        }
        self.answer_fins();
    }

    /// Ends a subflow, once: its data is reinjected on others, and congestion control, scheduler, path
    /// manager and application are notified.
    pub(super) fn subflow_ended(&mut self, now: Time, at: usize) {
        let Some(Ended { stats, reset }) = self.take_from_ended(now, at) else { return };
        self.past.push(stats);
        let SubflowStats { id, local, remote, established, .. } = stats;
        self.send.outstanding.forget(id);
        self.send.reinject.forget(id);
        if established.is_some() {
            self.congestion.on_subflow_down(id);
            self.notify_scheduler(now, &crate::scheduler::SchedulerEvent::SubflowDown(id));
            // `Closed` is the last event.
            if self.phase != Phase::Ended {
                self.events.push(Event::SubflowDown(id));
            }
        }
        self.paths.notify(&PathEvent::SubflowClosed { id, local, remote, reset });
        self.reopen_half_closed();
        self.expect_subflow(now);
        self.wanted.schedule();
        self.tell_writable();
    }

    /// Closes a subflow that could not be opened.
    #[cold]
    pub(super) fn fail_handshake(&mut self, now: Time, at: usize, reason: CloseReason) {
        if self.is_racing() && self.lose_attempt(now, at) {
            return;
        }
        self.set_closed(at);
        self.subflow_ended(now, at);
        if self.phase == Phase::Opening && self.live_subflows().next().is_none() {
            self.end(reason);
        }
        self.run_path_manager();
    }

    /// Processes the options of the peer's reset of a subflow (RFC 8684 sections 3.6 and 3.7).
    pub(super) fn note_reset(&mut self, at: usize, segment: &Segment) {
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

    /// Handles the withdrawal of addresses by the peer: each path is probed, and reset if it does not answer
    /// (section 3.4.2). The probe lasts two timeouts: while another subflow remains, it sends the outstanding data of the
    /// path, and all new data. Linux ends the subflows at once (`mptcp_pm_rm_addr_recv`, net/mptcp/pm.c of Linux
    /// 6.18), and so does its scheduler here while another subflow remains.
    #[cold]
    pub(super) fn on_remove_address(&mut self, now: Time, ids: &AddressIds) {
        for &id in ids.as_slice() {
            self.paths.forget_remote(id);
        }
        let is_withdrawn = |subflow: &Subflow| ids.as_slice().contains(&subflow.route().ids().1);
        let another =
            self.subflows.iter().any(|subflow| subflow.state().is_usable() && !is_withdrawn(subflow));
        for at in 0..self.subflows.len() {
            if !self.subflows[at].state().is_synchronised() || !is_withdrawn(&self.subflows[at]) {
                continue;
            }
            if another && self.models_buffers() {
                self.kill_subflow(now, at, ResetReason::Unspecified);
            } else if another {
                self.subflows[at].withdraw_and_avoid(now);
                self.reinject_from_failed(at);
                self.wanted.schedule();
            } else {
                self.subflows[at].withdraw(now);
            }
        }
    }
}
