//! Ends of streams, subflows and connections on request (RFC 8684 sections 3.3.3 and 3.5).

use anabranch_units::{Duration, Time};

use super::context::Context;
use super::data_timer::DATA_TIMER_FLOOR;
use super::send_state::SendState;
use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::event::{CloseReason, SubflowId, SubflowSet};
use crate::subflow::{Reset, ResetCause, Subflow};

/// The end of the local stream at the data level: the DATA_FINs due, and the notification of the application.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closing {
    /// The subflows on which a DATA_FIN without data is due.
    fin_wanted_on: SubflowSet,
    /// True if an acknowledgement with both keys, if these are unconfirmed, precedes the next DATA_FIN
    /// without data.
    keys_before_fin: bool,
    /// The number of timeouts of a DATA_FIN without data, at most 9; each doubles the wait for the next.
    fin_attempts: u32,
    /// The offset up to which the application has been notified that everything is acknowledged; the end
    /// counts as one.
    acked_notified: u64,
}

impl Closing {
    /// True if a DATA_FIN without data is due on some subflow.
    #[inline]
    pub(super) fn wants_fin(&self) -> bool {
        !self.fin_wanted_on.is_empty()
    }

    /// Records that the DATA_FIN was sent with data or is about to be sent without data.
    pub(super) fn note_fin_sent(&mut self, send: &mut SendState, context: &mut Context<'_>) {
        send.fin_sent = true;
        let due = context.now + context.max_rto().max(Duration::from_millis(200));
        context.timers.arm(Timer::Fin, due);
    }

    /// Sends the DATA_FIN without data, if no data is left that could carry it (RFC 8684 section 3.3.3).
    fn send_fin(&mut self, send: &mut SendState, context: &mut Context<'_>) {
        if send.fin_sent || context.subflows.iter().any(Subflow::has_queue) {
            return;
        }
        if let Some(best) = context.best_subflow() {
            self.fin_wanted_on = SubflowSet::one(best.id());
            // The DSS of a DATA_FIN leaves no space for keys. A listener that has lost the third ACK would
            // fall back to TCP by it, so if there is no data, at least two segments carry the keys.
            self.keys_before_fin = send.written == 0;
            self.note_fin_sent(send, context);
        }
    }

    /// Retransmits the DATA_FIN. It is sent without data once no data before it can be missing. `keys` is the
    /// index of a subflow with unconfirmed keys.
    #[cold]
    pub(super) fn on_timer(&mut self, send: &SendState, keys: Option<usize>, context: &mut Context<'_>) {
        let alone = send.una == send.written;
        self.fin_attempts = if alone { (self.fin_attempts + 1).min(9) } else { 0 };
        let wait = Duration(context.max_rto().max(DATA_TIMER_FLOOR).0 << self.fin_attempts);
        let due = context.now + wait.min(context.config.rto.max);
        context.timers.arm(Timer::Fin, due);
        if !alone {
            return;
        }
        // It must arrive, and it is unknown which path works: sent on all of them (as in Linux).
        self.withdraw_fins();
        for subflow in context.subflows.iter().filter(|subflow| subflow.state().is_usable()) {
            self.fin_wanted_on = self.fin_wanted_on.with(subflow.id());
        }
        self.keys_before_fin = true;
        if let Some(first) = keys {
            // A listener that has fallen back to TCP answers no DATA_FIN. It answers a segment from before
            // its window, and the answer shows its state. The keys are sent first, because a listener that
            // still waits for them would answer without options.
            context.subflows[first].probe();
        }
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

    /// Cancels the DATA_FINs without data that are due.
    pub(super) fn withdraw_fins(&mut self) {
        self.fin_wanted_on = SubflowSet::EMPTY;
    }

    /// True if the application has been notified of `end`, or of a later one.
    #[inline]
    pub(super) fn is_notified_up_to(&self, end: u64) -> bool {
        self.acked_notified >= end
    }

    /// Records that the application is notified that everything up to `end` is acknowledged.
    pub(super) fn note_notified(&mut self, end: u64) {
        self.acked_notified = end;
    }

    /// True if the application has been notified that everything up to `end` is acknowledged; the end counts
    /// as one.
    #[inline]
    pub(super) fn is_notified(&self, end: u64) -> bool {
        self.acked_notified == end
    }
}

impl Connection {
    /// Closes the sending direction.
    pub(crate) fn close(&mut self, now: Time) {
        if self.send.closed || self.phase == Phase::Ended {
            return;
        }
        self.send.close();
        self.persist.on_progress(now);
    }

    /// Aborts the connection.
    #[cold]
    pub(crate) fn abort(&mut self, now: Time, reason: CloseReason) {
        if self.phase == Phase::Ended {
            return;
        }
        for at in 0..self.subflows.len() {
            if self.subflows[at].state_mut().reset(ResetCause::Abort) == Reset::Silent {
                self.close_subflow(now, at);
            }
        }
        self.end(reason);
    }

    /// Sends the segments that end the stream, once everything before the end was assigned to subflows.
    #[cold]
    pub(super) fn progress_close(&mut self, now: Time) {
        if !self.send.closed || self.phase != Phase::Open || !self.send.unassigned.is_empty() {
            return;
        }
        let Connection { closing, send, subflows, timers, config, mode, .. } = self;
        match mode {
            Mode::Plain if !send.fin_sent => {
                send.fin_sent = true;
                for subflow in subflows {
                    subflow.state_mut().request_fin();
                }
            }
            Mode::Plain => {}
            Mode::Mptcp => closing.send_fin(send, &mut Context { now, config, subflows, timers }),
        }
    }

    /// Handles the acknowledgement of the DATA_FIN (in plain TCP, of the FIN).
    #[cold]
    pub(super) fn on_fin_acked(&mut self, now: Time) {
        if self.send.fin_acked || !self.send.fin_sent {
            return;
        }
        self.send.fin_acked = true;
        self.timers.disarm(Timer::Fin);
        self.closing.withdraw_fins();
        self.persist.on_progress(now);
        if self.mode == Mode::Mptcp {
            self.answer_fins();
        }
    }

    /// Closes the subflows once both streams have ended, and then the connection. `at` is the subflow that
    /// has received something.
    #[inline(always)]
    pub(super) fn check_closing(&mut self, now: Time, at: usize) {
        self.check_all_acked();
        if self.send.fin_acked && self.recv.finished() {
            self.close_subflows();
        }
        // One open subflow suffices, and usually it is this one.
        if !self.subflows[at].state().is_open() {
            self.check_ended(now);
        }
    }

    #[cold]
    fn close_subflows(&mut self) {
        if self.mode == Mode::Mptcp {
            for subflow in &mut self.subflows {
                // RFC 8684 section 3.3.3. Linux also waits for both DATA_FINs, so that a half-closed
                // connection can still receive the other direction.
                subflow.state_mut().close();
            }
        }
    }

    /// Handles the end of the wait for a further subflow. A subflow that the peer has half-closed keeps the
    /// connection alive as long as the application sends on it.
    #[cold]
    pub(super) fn on_orphan_timer(&mut self, now: Time) {
        self.timers.disarm(Timer::Orphan);
        let sends = self.subflows.iter().any(|subflow| subflow.state().is_usable());
        if self.mode == Mode::Plain || (sends && self.recv.finished()) {
            return;
        }
        let idle_at = self.persist.progress_at() + self.config.close_timeout;
        if sends && (self.waiting_for_progress() || idle_at > now) {
            let due = if idle_at > now { idle_at } else { now + self.config.close_timeout };
            self.timers.arm(Timer::Orphan, due);
            return;
        }
        self.end(CloseReason::NoSubflow);
        for subflow in &mut self.subflows {
            if subflow.state().may_answer_fin() {
                subflow.state_mut().request_fin();
            }
        }
    }
}
