//! Ends things: the stream, a subflow, the connection (RFC 8684 sections 3.3.3 and 3.5).

use anabranch_units::{Duration, Time};

use super::data_timer::DATA_TIMER_FLOOR;
use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::event::{CloseReason, SubflowId, SubflowSet};
use crate::subflow::{ResetCause, Subflow, TcpState};

/// The end of our stream at the data level: which DATA_FINs are due, and whether the application knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closing {
    /// The subflows that carry a DATA_FIN of its own next.
    fin_wanted_on: SubflowSet,
    /// An acknowledgement with both keys, if they are unconfirmed, goes before the next DATA_FIN without data.
    keys_before_fin: bool,
    /// How often the DATA_FIN was sent alone, up to a limit.
    fin_attempts: u32,
    /// Up to where the application has been notified that everything is acknowledged, the end counted as one.
    all_acked_told: u64,
}

impl Closing {
    /// True if a DATA_FIN without data is due on some subflow.
    #[inline]
    pub(super) fn wants_fin(&self) -> bool {
        !self.fin_wanted_on.is_empty()
    }

    /// True if a DATA_FIN without data was due on subflow `id`.
    pub(super) fn take_fin(&mut self, id: SubflowId) -> bool {
        let wanted = self.fin_wanted_on.has(id);
        self.fin_wanted_on = self.fin_wanted_on.without(id);
        wanted
    }

    /// True if an acknowledgement with both keys was due on subflow `id`, before its DATA_FIN.
    pub(super) fn take_keys(&mut self, id: SubflowId) -> bool {
        self.fin_wanted_on.has(id) && core::mem::take(&mut self.keys_before_fin)
    }

    /// No DATA_FIN without data is due any more.
    pub(super) fn withdraw_fins(&mut self) {
        self.fin_wanted_on = SubflowSet::EMPTY;
    }

    /// True if the application has been notified of `end`, or of a later one.
    #[inline]
    pub(super) fn is_told_up_to(&self, end: u64) -> bool {
        self.all_acked_told >= end
    }

    /// Notes that the application is notified that everything up to `end` is acknowledged.
    pub(super) fn note_told(&mut self, end: u64) {
        self.all_acked_told = end;
    }

    /// True if the application has been notified that everything up to `end` is acknowledged, the end counted as one.
    #[inline]
    pub(super) fn is_all_told(&self, end: u64) -> bool {
        self.all_acked_told == end
    }
}

impl Connection {
    /// The application writes no more.
    pub(crate) fn close(&mut self, now: Time) {
        if self.send.closed || self.phase == Phase::Ended {
            return;
        }
        self.send.close();
        self.progress_at = now;
    }

    /// The application gives up: everything ends at once.
    #[cold]
    pub(crate) fn abort(&mut self, now: Time, reason: CloseReason) {
        if self.phase == Phase::Ended {
            return;
        }
        for at in 0..self.subflows.len() {
            match self.subflows[at].state() {
                TcpState::Closed => {}
                // Nothing is known of the peer yet: silence will do.
                TcpState::SynSent => self.close_subflow(now, at),
                _ => self.subflows[at].request_reset(ResetCause::Abort),
            }
        }
        self.end(reason);
    }

    /// The DATA_FIN has left with data or is about to leave alone.
    pub(crate) fn note_fin_sent(&mut self, now: Time) {
        self.send.fin_sent = true;
        let due = now + self.max_rto().max(Duration::from_millis(200));
        self.timers.arm(Timer::Fin, due);
    }

    /// Sends what the end of the stream needs, once everything before it was given to subflows.
    #[cold]
    pub(crate) fn progress_close(&mut self, now: Time) {
        if !self.send.closed || self.phase != Phase::Open || !self.send.unassigned.is_empty() {
            return;
        }
        if self.mode == Mode::Plain {
            if !self.send.fin_sent {
                self.send.fin_sent = true;
                for subflow in &mut self.subflows {
                    subflow.request_fin();
                }
            }
            return;
        }
        if !self.send.fin_sent && self.subflows.iter().all(|subflow| subflow.is_queue_empty()) {
            // Nothing is left that could carry it (RFC 8684 section 3.3.3).
            if let Some(at) = self.best_subflow() {
                self.closing.fin_wanted_on = SubflowSet::one(self.subflows[at].id());
                // The DSS of a DATA_FIN leaves no space for keys. A listener that has lost the third ACK becomes a TCP by it,
                // so that without data at least two segments carry them.
                self.closing.keys_before_fin = self.send.written == 0;
                self.note_fin_sent(now);
            }
        }
    }

    /// Sends the DATA_FIN again. It goes alone once there is no data left that could be missing.
    #[cold]
    pub(super) fn on_fin_timer(&mut self, now: Time) {
        let alone = self.send.una == self.send.written;
        self.closing.fin_attempts = if alone { (self.closing.fin_attempts + 1).min(9) } else { 0 };
        let wait = Duration(self.max_rto().max(DATA_TIMER_FLOOR).0 << self.closing.fin_attempts);
        let due = now + wait.min(self.config.rto.max);
        self.timers.arm(Timer::Fin, due);
        if !alone {
            return;
        }
        // It must arrive, and nobody knows which path works: on all of them (as Linux does).
        self.closing.withdraw_fins();
        for subflow in self.subflows.iter().filter(|subflow| subflow.is_usable()) {
            self.closing.fin_wanted_on = self.closing.fin_wanted_on.with(subflow.id());
        }
        self.closing.keys_before_fin = true;
        if let Some(first) = (0..self.subflows.len()).find(|&at| self.keys_pending(at)) {
            // A listener that has become a TCP answers no DATA_FIN. It answers a segment from before its
            // window, and the answer shows which it is. The keys go first, because a listener that still
            // waits for them would answer without options.
            self.subflows[first].probe();
        }
    }

    /// The DATA_FIN (in a plain TCP the FIN) is acknowledged.
    #[cold]
    pub(crate) fn on_fin_acked(&mut self, now: Time) {
        if self.send.fin_acked || !self.send.fin_sent {
            return;
        }
        self.send.fin_acked = true;
        self.timers.disarm(Timer::Fin);
        self.closing.withdraw_fins();
        self.progress_at = now;
        if self.mode == Mode::Mptcp {
            self.answer_fins();
        }
    }

    /// Closes the subflows once both streams have ended, and then the connection. `at` is the subflow
    /// that has heard something.
    #[inline(always)]
    pub(crate) fn check_closing(&mut self, now: Time, at: usize) {
        self.check_all_acked();
        if self.send.fin_acked && self.recv.finished() {
            self.close_subflows();
        }
        // One open subflow is enough, and mostly it is this one.
        if !self.subflows[at].is_open() {
            self.check_ended(now);
        }
    }

    #[cold]
    fn close_subflows(&mut self) {
        if self.mode == Mode::Mptcp {
            for subflow in &mut self.subflows {
                // RFC 8684 section 3.3.3. Linux also waits for both DATA_FINs, which keeps the way
                // back open for a half-closed connection.
                if !subflow.is_closed() && !subflow.fin_requested() {
                    match subflow.state() {
                        TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => {
                            subflow.request_reset(ResetCause::Gone);
                        }
                        _ => subflow.request_fin(),
                    }
                }
            }
        }
    }

    /// No further subflow has come in time. A subflow that the peer has closed for its own direction keeps the
    /// connection alive as long as the application sends by it.
    #[cold]
    pub(crate) fn on_orphan_timer(&mut self, now: Time) {
        self.timers.disarm(Timer::Orphan);
        let sends = self.subflows.iter().any(Subflow::is_usable);
        if self.mode == Mode::Plain || (sends && self.recv.finished()) {
            return;
        }
        let idle_at = self.progress_at + self.config.close_timeout;
        if sends && (self.waiting_for_progress() || idle_at > now) {
            let due = if idle_at > now { idle_at } else { now + self.config.close_timeout };
            self.timers.arm(Timer::Orphan, due);
            return;
        }
        self.end(CloseReason::NoSubflow);
        for subflow in &mut self.subflows {
            if subflow.state() == TcpState::CloseWait {
                subflow.request_fin();
            }
        }
    }
}
