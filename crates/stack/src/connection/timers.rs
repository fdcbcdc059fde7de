//! When something is due, and what then happens.
//!
//! Two levels: each subflow has its timers (handshake, retransmission, delayed acknowledgement,
//! pacing, TIME-WAIT), and the connection has its own (data-level retransmission, window probe,
//! DATA_FIN, user timeout). None is kept in a queue here: the next due time is a minimum, and the
//! endpoint queues that.

use anabranch_units::{Duration, Time};

use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::congestion::CongestionControl;
use crate::event::CloseReason;
use crate::observer::Observer;
use crate::scheduler::SchedulerEvent;
use crate::segment::ResetReason;
use crate::subflow::TcpState;
use crate::subflow::timers::{Expiry, TimerContext};

/// Linux: the data level sends again no sooner than this (RFC 8684 leaves the value free).
pub(super) const DATA_TIMER_FLOOR: Duration = Duration::from_millis(200);

impl Connection {
    /// The greatest retransmission timeout of the usable subflows.
    pub(crate) fn max_rto(&self) -> Duration {
        let backoff = self.config.rto.backoff;
        self.subflows
            .iter()
            .filter(|subflow| subflow.is_synchronised())
            .map(|subflow| subflow.rtt().rto(if backoff { subflow.recovery().timeouts() } else { 0 }))
            .max()
            .unwrap_or(self.config.rto.initial)
    }

    pub(crate) fn arm_data_timer(&mut self, now: Time) {
        let due = if self.mode != Mode::Mptcp || self.send.outstanding.is_empty() {
            Time::NEVER
        } else if self.models_buffers() {
            now + self.linux_data_wait(now)
        } else {
            let wait = self.max_rto().max(DATA_TIMER_FLOOR) * 2;
            now + if self.is_head_dropped() { wait.min(self.head_wait()) } else { wait }
        };
        self.timers.arm(Timer::Data, due);
    }

    /// A subflow has told of progress, and the data level of none: the head of the stream may have arrived there
    /// and been dropped behind it (Linux does so while it has no window at the data level).
    pub(super) fn on_progress_below(&mut self, now: Time) {
        if self.is_head_dropped() {
            let due = now + self.head_wait();
            self.timers.advance(Timer::Data, due);
        }
    }

    /// How long the data acknowledgement may come behind that of the subflow: a round trip, and what an
    /// acknowledgement is held back. Twice as long after each time that it was sent again in vain.
    fn head_wait(&self) -> Duration {
        let rtt = self
            .subflows
            .iter()
            .filter(|subflow| subflow.is_usable())
            .map(|subflow| subflow.rtt().srtt_or_zero());
        let wait = rtt.max().unwrap_or(Duration::ZERO) + self.config.ack.delay;
        Duration(wait.0 << self.head_repair.attempts.min(10))
    }

    /// How long Linux waits for progress at the data level: until the last of its subflows' timers, probes among
    /// them, would run out (`mptcp_set_timeout`).
    fn linux_data_wait(&self, now: Time) -> Duration {
        let context = self.timer_context();
        let subflows = self.subflows.iter().filter(|subflow| subflow.is_usable());
        let timers = subflows.map(|subflow| subflow.retransmission_due(context));
        let last = timers.filter(|timer| timer.is_armed()).max();
        let wait = last.map_or(Duration::ZERO, |last| last.since(now));
        if wait.is_zero() { DATA_TIMER_FLOOR } else { wait }
    }

    #[inline]
    fn timer_context(&self) -> TimerContext {
        // How long the peer may hold back an acknowledgement is not known; Linux assumes its own.
        let ack_delay = DATA_TIMER_FLOOR.min(self.config.ack.delay * 2);
        TimerContext { backoff: self.config.rto.backoff, ack_delay, paces: self.paces() }
    }

    /// How long the peer's FIN is waited for. In a plain TCP the wait is a half-closed stream and has no end.
    fn fin_wait(&self) -> Option<Duration> {
        (self.mode == Mode::Mptcp).then(|| self.config.time_wait.max(self.max_rto() * 2))
    }

    /// When [`Connection::handle_timeout`] is due next; if that is no sooner than the endpoint looks after this
    /// connection anyway, any time from then on.
    #[inline]
    pub(crate) fn next_timeout(&self, now: Time) -> Time {
        if self.fast_paths { self.next_due::<false>(now) } else { self.exact_timeout(now) }
    }

    /// When [`Connection::handle_timeout`] is due next, found without any shortcut: what assertions compare with.
    pub(crate) fn exact_timeout(&self, now: Time) -> Time {
        self.next_due::<true>(now)
    }

    #[inline]
    fn next_due<const EXACT: bool>(&self, now: Time) -> Time {
        let mut due = self.timers.next().min(self.fail_timer()).min(self.paths.open_at());
        if self.send.fin_acked || self.config.keepalive.is_some() {
            due = due.min(self.keepalive_due());
        }
        if self.phase == Phase::Open {
            if self.waiting_for_progress() {
                due = due.min(self.patience_ends());
            }
            if self.confirmed {
                due = due.min(self.paths.next_timer());
            }
        }
        let context = self.timer_context();
        for subflow in &self.subflows {
            due = due.min(subflow.next_timeout::<EXACT>(now, self.queued_at, context, || self.fin_wait()));
        }
        due
    }

    pub(super) fn heard_at(&self) -> Time {
        self.subflows.iter().map(|subflow| subflow.last_received()).max().unwrap_or(Time::ZERO)
    }

    pub(super) fn waiting_for_progress(&self) -> bool {
        self.send.una < self.send.written || (self.send.closed && !self.send.fin_acked)
    }

    /// Everything that is due.
    pub(crate) fn handle_timeout<O: Observer>(&mut self, now: Time, observer: &mut O) {
        for at in 0..self.subflows.len() {
            self.handle_subflow_timeout(now, at, observer);
        }
        if self.timers.has_expired(Timer::Schedule, now) {
            self.timers.disarm(Timer::Schedule);
            self.schedule_wanted = true;
        }
        if self.timers.has_expired(Timer::Data, now) && !self.follow_silent_peer(now) {
            self.data_timeouts += 1;
            if self.models_buffers() {
                self.reinject_piece();
            } else {
                self.reinject_head();
            }
            self.arm_data_timer(now);
        }
        if (self.send.fin_acked || self.config.keepalive.is_some()) && self.keepalive_due() <= now {
            self.on_keepalive(now);
        }
        if self.fail_timer() <= now {
            self.on_fail_timer(now);
        }
        if self.timers.has_expired(Timer::Persist, now) {
            self.on_persist_timer(now);
        }
        if self.timers.has_expired(Timer::Fin, now) {
            self.on_fin_timer(now);
        }
        if self.confirmed && self.paths.next_timer() <= now {
            self.send_announcements(now);
        }
        if self.timers.has_expired(Timer::Orphan, now) {
            self.on_orphan_timer(now);
        }
        if self.phase == Phase::Open && self.waiting_for_progress() && self.patience_ends() <= now {
            self.abort(now, CloseReason::TimedOut);
        }
    }

    fn handle_subflow_timeout<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        let (context, retries) = (self.timer_context(), self.config.rto.syn_retries);
        let waits_for_fin = self.subflows[at].state() == TcpState::FinWait2;
        let fin_wait = if waits_for_fin { self.fin_wait() } else { None };
        match self.subflows[at].expire(now, context, retries, || fin_wait) {
            Expiry::Nothing => {}
            Expiry::WaitOver => self.close_subflow(now, at),
            Expiry::HandshakeFailed => self.fail_handshake(now, at, CloseReason::TimedOut),
            Expiry::Withdrawn => self.kill_subflow(now, at, ResetReason::Unspecified),
            Expiry::Reordering => self.on_reordering_timer(now, at, observer),
            Expiry::Timeout => self.on_retransmission_timeout(now, at, observer),
        }
    }

    #[cold]
    fn on_reordering_timer<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        let (id, connection) = (self.subflows[at].id(), self.id);
        let lost = |range, reason| observer.on_lost(now, connection, id, range, reason);
        if let Some(event) = self.subflows[at].on_reordering_timer(now, lost) {
            self.congestion.on_congestion(id, &event);
            self.refresh_window(at);
        }
        self.schedule_wanted = true;
    }

    #[cold]
    fn on_retransmission_timeout<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        let (id, connection) = (self.subflows[at].id(), self.id);
        let subflow = &mut self.subflows[at];
        if subflow.recovery().timeouts() >= self.config.rto.max_timeouts {
            // RFC 8684 section 3.3.6.
            self.kill_subflow(now, at, ResetReason::BadPerformance);
            self.check_ended(now);
            return;
        }
        let lost = |range, reason| observer.on_lost(now, connection, id, range, reason);
        let (flight, first) = subflow.on_retransmission_timeout(now, lost);
        self.congestion.on_rto(id, now, flight, !first);
        self.refresh_window(at);
        self.tell_scheduler(now, &SchedulerEvent::Timeout(id));
        self.reinject_after_timeout(at);
        self.give_up_laggard(now);
        self.schedule_wanted = true;
    }
}
