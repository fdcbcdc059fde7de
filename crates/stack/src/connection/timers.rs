//! The timeouts of a connection: the next one, and the actions of the expired ones.
//!
//! Two levels: each subflow has its timers (handshake, retransmission, delayed acknowledgement, pacing,
//! TIME-WAIT), and the connection has its own (data-level retransmission, window probe, DATA_FIN, user
//! timeout). None is queued here: the next due time is a minimum, which the endpoint queues.

use anabranch_units::{Duration, Time};

use super::context::{Context, heard_at, max_rto};
use super::fallback::Followed;
use super::keepalive::{SilenceTimeout, Waits};
use super::rejoin::LostBy;
use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::config::ConnectionConfig;
use crate::event::CloseReason;
use crate::observer::{Observer, StackEvent, report};
use crate::scheduler::SchedulerEvent;
use crate::segment::ResetReason;
use crate::subflow::timers::{Expiry, Patience};
use crate::subflow::{FastPaths, Subflow, TcpState};

/// Returns the time that a subflow waits for the peer's FIN. In plain TCP the wait is a half-closed stream and unlimited.
fn fin_wait(mode: Mode, subflows: &[Subflow], config: &ConnectionConfig) -> Option<Duration> {
    (mode == Mode::Mptcp).then(|| config.time_wait.max(max_rto(subflows, config) * 2))
}

impl Connection {
    fn fin_wait(&self) -> Option<Duration> {
        fin_wait(self.mode, &self.subflows, &self.config)
    }

    /// Returns the time at which [`Connection::handle_timeout`] is due next; if that is not before `known`,
    /// when the endpoint calls it anyway, any time from then on.
    #[inline]
    pub(crate) fn next_timeout(&mut self, now: Time, known: Time) -> Time {
        if self.fast_paths == FastPaths::Off {
            return self.exact_timeout(now);
        }
        let due = self.own_due();
        let context = self.timer_context(now, ());
        let Connection { subflows, config, mode, .. } = self;
        due.min(subflows.next_timeout(known, context, |subflows| fin_wait(*mode, subflows, config)))
    }

    /// Returns the time at which [`Connection::handle_timeout`] is due next, without any fast path: the
    /// reference for assertions.
    pub(crate) fn exact_timeout(&self, now: Time) -> Time {
        let context = self.timer_context(now, || self.fin_wait());
        let due = |subflow: &Subflow| subflow.next_timeout::<true, _>(Time::NEVER, &context);
        self.subflows.iter().map(due).fold(self.own_due(), Time::min)
    }

    /// Returns the first deadline of the data level.
    #[inline]
    fn own_due(&self) -> Time {
        let mut due = self.timers.next().min(self.fallback.fail_timer()).min(self.paths.open_at());
        if self.send.fin_acked || self.rules.keeps_alive {
            due = due.min(self.silence_due());
        }
        if self.phase == Phase::Open {
            if self.waiting_for_progress() {
                due = due.min(self.patience_due());
            }
            if self.confirmed {
                due = due.min(self.paths.next_timer());
            }
        }
        due
    }

    /// Returns what this side waits for, for the judgement of the peer's silence.
    fn waits(&self) -> Waits {
        if self.phase != Phase::Open || self.waiting_for_progress() {
            Waits::ForOther
        } else if self.send.fin_acked && !self.recv.finished() {
            Waits::ForRest
        } else {
            Waits::Idle
        }
    }

    /// Returns the time at which the silent peer is probed or given up.
    fn silence_due(&self) -> Time {
        self.keepalive.due(self.waits(), heard_at(&self.subflows), &self.config, self.max_rto())
    }

    /// Returns the time at which the wait for progress ends.
    fn patience_due(&self) -> Time {
        self.persist.patience_ends(|| heard_at(&self.subflows), self.config.user_timeout, &self.timers)
    }

    /// Processes all timers that have expired.
    pub(crate) fn handle_timeout<O: Observer>(&mut self, now: Time, observer: &mut O) {
        for at in 0..self.subflows.len() {
            self.handle_subflow_timeout(now, at, observer);
        }
        if self.timers.has_expired(Timer::Schedule, now) {
            self.timers.disarm(Timer::Schedule);
            self.wanted.schedule();
        }
        if self.timers.has_expired(Timer::Data, now) && self.follow_silent_peer(now) == Followed::No {
            self.scheduling.on_data_timeout();
            if self.models_buffers() {
                self.retransmit(now, observer);
                self.arm_data_timer(now);
                if self.send.has_data_to_assign() {
                    // The scheduler is asked although the window may be full (`mptcp_check_and_set_pending`).
                    self.update_data_wait(now);
                }
            } else {
                self.reinject_head();
                self.arm_data_timer(now);
            }
        }
        if (self.send.fin_acked || self.rules.keeps_alive) && self.silence_due() <= now {
            let waits = self.waits();
            let Connection { keepalive, subflows, timers, config, .. } = self;
            let mut context = Context { now, config, subflows, timers };
            if keepalive.on_timer(waits, &mut context) == SilenceTimeout::GiveUp {
                self.abort(now, CloseReason::TimedOut);
            }
        }
        if self.fallback.fail_timer() <= now {
            self.on_fail_timer(now);
        }
        if self.timers.has_expired(Timer::Persist, now) {
            let Connection { persist, subflows, timers, config, .. } = self;
            persist.on_timer(&mut Context { now, config, subflows, timers });
        }
        if self.timers.has_expired(Timer::Fin, now) {
            let keys = (0..self.subflows.len()).find(|&at| self.keys_pending(at));
            let Connection { closing, send, subflows, timers, config, .. } = self;
            closing.on_timer(send, keys, &mut Context { now, config, subflows, timers });
        }
        if self.confirmed && self.paths.next_timer() <= now {
            self.send_announcements(now);
            self.retry_ends(now);
        }
        if self.timers.has_expired(Timer::Silence, now) {
            self.on_silence_timer(now);
        }
        if self.timers.has_expired(Timer::Orphan, now) {
            self.on_orphan_timer(now);
        }
        if self.phase == Phase::Open && self.waiting_for_progress() && self.patience_due() <= now {
            self.abort(now, CloseReason::TimedOut);
        }
    }

    fn handle_subflow_timeout<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        let waits_for_fin = self.subflows[at].state().tcp() == TcpState::FinWait2;
        let fin_wait = if waits_for_fin { self.fin_wait() } else { None };
        let context = self.timer_context(now, || fin_wait);
        let patience =
            Patience { syn_retries: self.config.rto.syn_retries, timeouts: self.config.rto.max_timeouts };
        let Connection { subflows, congestion, id: connection, .. } = self;
        let (subflow, connection) = (&mut subflows[at], *connection);
        let id = subflow.id();
        let lost = |range, reason| {
            report(observer, now, connection, &StackEvent::Lost { subflow: id, range, reason });
        };
        match subflow.expire(&context, patience, congestion, lost) {
            Expiry::Nothing => {}
            Expiry::WaitOver => self.close_subflow(now, at),
            Expiry::HandshakeFailed => {
                self.rejoin_later(now, at, LostBy::Silence);
                self.fail_handshake(now, at, CloseReason::TimedOut);
            }
            Expiry::Withdrawn => self.kill_subflow(now, at, ResetReason::Unspecified),
            Expiry::Reordered => self.wanted.schedule(),
            Expiry::TimedOut => self.after_timeout(now, at),
            Expiry::GivenUp => {
                // RFC 8684 section 3.3.6.
                self.rejoin_later(now, at, LostBy::Silence);
                self.kill_subflow(now, at, ResetReason::BadPerformance);
                self.check_ended(now);
            }
        }
    }

    /// Notifies the scheduler of a subflow's timeout, and reinjects its data.
    #[cold]
    fn after_timeout(&mut self, now: Time, at: usize) {
        let id = self.subflows[at].id();
        self.notify_scheduler(now, &SchedulerEvent::Timeout(id));
        self.reinject_from_failed(at);
        self.wanted.schedule();
    }
}
