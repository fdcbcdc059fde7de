//! When something is due, and what then happens.
//!
//! Two levels: each subflow has its timers (handshake, retransmission, delayed acknowledgement,
//! pacing, TIME-WAIT), and the connection has its own (data-level retransmission, window probe,
//! DATA_FIN, user timeout). None is kept in a queue here: the next due time is a minimum, and the
//! endpoint queues that.

use anabranch_units::{Duration, Time};

use super::{Connection, Mode, Phase};
use crate::congestion::CongestionControl;
use crate::event::{CloseReason, SubflowSet};
use crate::observer::{LossReason, Observer};
use crate::scheduler::SchedulerEvent;
use crate::segment::ResetReason;
use crate::subflow::recovery::RetransmitTimer;
use crate::subflow::{ResetCause, Subflow, TcpState};

/// Linux: the data level sends again no sooner than this (RFC 8684 leaves the value free).
const DATA_TIMER_FLOOR: Duration = Duration::from_millis(200);

impl Connection {
    /// The greatest retransmission timeout of the usable subflows.
    pub(crate) fn max_rto(&self) -> Duration {
        let backoff = self.config.rto.backoff;
        self.subflows
            .iter()
            .filter(|subflow| subflow.is_synchronised())
            .map(|subflow| subflow.rtt.rto(if backoff { subflow.recovery.timeouts() } else { 0 }))
            .max()
            .unwrap_or(self.config.rto.initial)
    }

    pub(crate) fn arm_data_timer(&mut self, now: Time) {
        self.data_timer = if self.mode == Mode::Mptcp && !self.send.outstanding.is_empty() {
            if self.models_buffers() {
                self.data_timer = now + self.linux_data_wait(now);
                return;
            }
            let wait = self.max_rto().max(DATA_TIMER_FLOOR) * 2;
            now + if self.is_head_dropped() { wait.min(self.head_wait()) } else { wait }
        } else {
            Time::NEVER
        };
    }

    /// How long Linux waits for progress at the data level: until the last of its subflows' timers, probes among
    /// them, would run out (`mptcp_set_timeout`).
    fn linux_data_wait(&self, now: Time) -> Duration {
        let subflows = self.subflows.iter().filter(|subflow| subflow.is_usable());
        let timers = subflows.map(|subflow| self.retransmit_timer(subflow).0);
        let last = timers.filter(|timer| timer.is_armed()).max();
        let wait = last.map_or(Duration::ZERO, |last| last.since(now));
        if wait.is_zero() { DATA_TIMER_FLOOR } else { wait }
    }

    /// A subflow has told of progress, and the data level of none: the head of the stream may have arrived there
    /// and been dropped behind it (Linux does so while it has no window at the data level).
    pub(super) fn on_progress_below(&mut self, now: Time) {
        if self.is_head_dropped() {
            self.data_timer = self.data_timer.min(now + self.head_wait());
        }
    }

    /// How long the data acknowledgement may come behind that of the subflow: a round trip, and what an
    /// acknowledgement is held back. Twice as long after each time that it was sent again in vain.
    fn head_wait(&self) -> Duration {
        let rtt = self
            .subflows
            .iter()
            .filter(|subflow| subflow.is_usable())
            .map(|subflow| subflow.rtt.srtt_or_zero());
        let wait = rtt.max().unwrap_or(Duration::ZERO) + self.config.ack.delay;
        Duration(wait.0 << self.head_repair.attempts.min(10))
    }

    #[inline]
    fn retransmit_timer(&self, subflow: &Subflow) -> (Time, RetransmitTimer) {
        // How long the peer may hold back an acknowledgement is not known; Linux assumes its own.
        let ack_delay = DATA_TIMER_FLOOR.min(self.config.ack.delay * 2);
        subflow.recovery.timer(
            subflow.timer_base,
            subflow.last_new,
            &subflow.board,
            &subflow.rtt,
            self.config.rto.backoff,
            ack_delay,
        )
    }

    #[inline]
    fn subflow_timer<const EXACT: bool>(&self, now: Time, subflow: &Subflow) -> Time {
        match subflow.state {
            TcpState::Closed => return Time::NEVER,
            TcpState::TimeWait => return subflow.time_wait_until.min(subflow.recv.ack_at()),
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => {
                return subflow.handshake.retry_at.unwrap_or(Time::NEVER);
            }
            _ => {}
        }
        let mut due = subflow.recv.ack_at().min(subflow.removal_deadline).min(subflow.signals.due());
        if subflow.state == TcpState::FinWait2 {
            due = due.min(self.fin_wait_end(subflow));
        }
        if !subflow.board.is_empty() {
            // What comes behind the time for which the endpoint has this connection anyway need not be known: mostly
            // that was set before the last acknowledgements, which have put off the timer.
            let earliest =
                subflow.recovery.timer_not_before(subflow.timer_base, &subflow.board, &subflow.rtt);
            if EXACT || earliest < due.min(self.queued_at) {
                due = due.min(self.retransmit_timer(subflow).0);
            }
        }
        if self.paces()
            && (!subflow.queue.is_empty() || subflow.board.lost_segments() > 0 || subflow.fin_wanted)
            && subflow.pace_at > now
        {
            due = due.min(subflow.pace_at);
        }
        due
    }

    /// When a subflow that waits for nothing but the peer's FIN waits no longer: the peer may have lost
    /// it, and no reset may have come. In a plain TCP the wait is a half-closed stream and has no end.
    fn fin_wait_end(&self, subflow: &Subflow) -> Time {
        if self.mode == Mode::Plain {
            return Time::NEVER;
        }
        subflow.last_received + self.config.time_wait.max(self.max_rto() * 2)
    }

    /// When [`Connection::handle_timeout`] is due next; if that is no sooner than the endpoint looks after this
    /// connection anyway, any time from then on.
    #[inline]
    pub(crate) fn next_timeout(&self, now: Time) -> Time {
        self.next_due::<false>(now)
    }

    /// When [`Connection::handle_timeout`] is due next, found without any shortcut: what assertions compare with.
    pub(crate) fn exact_timeout(&self, now: Time) -> Time {
        self.next_due::<true>(now)
    }

    #[inline]
    fn next_due<const EXACT: bool>(&self, now: Time) -> Time {
        let mut due = self.scheduler_wake.min(self.persist_at).min(self.fin_timer).min(self.orphan_at);
        due = due.min(self.data_timer).min(self.fail_timer());
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
        for subflow in &self.subflows {
            due = due.min(self.subflow_timer::<EXACT>(now, subflow));
        }
        due
    }

    /// When the user timeout has passed without progress. A peer that answers the probes of its closed
    /// window keeps the connection alive, however long (RFC 9293 section 3.8.6.1).
    fn patience_ends(&self) -> Time {
        if self.persist_at.is_armed() && self.heard_at() >= self.probed_at {
            return Time::NEVER;
        }
        self.progress_at + self.config.user_timeout
    }

    pub(super) fn heard_at(&self) -> Time {
        self.subflows.iter().map(|subflow| subflow.last_received).max().unwrap_or(Time::ZERO)
    }

    pub(super) fn waiting_for_progress(&self) -> bool {
        self.send.una < self.send.written || (self.send.closed && !self.send.fin_acked)
    }

    /// Everything that is due.
    pub(crate) fn handle_timeout<O: Observer>(&mut self, now: Time, observer: &mut O) {
        for at in 0..self.subflows.len() {
            self.handle_subflow_timeout(now, at, observer);
        }
        if self.scheduler_wake <= now {
            self.scheduler_wake = Time::NEVER;
            self.schedule_wanted = true;
        }
        if self.data_timer <= now && !self.follow_silent_peer(now) {
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
        if self.persist_at <= now {
            self.persist_backoff = (self.persist_backoff + 1).min(10);
            let wait = Duration(self.max_rto().0 << self.persist_backoff).min(self.config.rto.max);
            self.persist_at = now + wait;
            // Every subflow whose own window is shut may be the one that is waited for.
            for subflow in self.subflows.iter_mut().filter(|subflow| subflow.is_usable()) {
                subflow.probe_wanted = subflow.window_edge <= subflow.board.nxt();
            }
            if let Some(best) = self.best_subflow() {
                self.subflows[best].probe_wanted = true;
            }
            if self.heard_at() >= self.probed_at {
                self.progress_at = now;
            }
            self.probed_at = now;
        }
        if self.fin_timer <= now {
            // It goes alone once there is no data left that could be missing.
            let alone = self.send.una == self.send.written;
            self.fin_attempts = if alone { (self.fin_attempts + 1).min(9) } else { 0 };
            let wait = Duration(self.max_rto().max(DATA_TIMER_FLOOR).0 << self.fin_attempts);
            self.fin_timer = now + wait.min(self.config.rto.max);
            // It must arrive, and nobody knows which way works: on all of them (as Linux does).
            let mut all = SubflowSet::EMPTY;
            for subflow in self.subflows.iter().filter(|subflow| subflow.is_usable()) {
                all = all.with(subflow.id);
            }
            if alone {
                self.fin_wanted_on = all;
                self.keys_before_fin = true;
                if let Some(first) = (0..self.subflows.len()).find(|&at| self.keys_pending(at)) {
                    // A listener that has become a TCP answers no DATA_FIN. It answers a segment from before its
                    // window, and the answer shows which it is. The keys go first, because a listener that still
                    // waits for them would answer without options.
                    self.subflows[first].probe_wanted = true;
                }
            }
        }
        if self.confirmed && self.paths.next_timer() <= now {
            self.send_announcements(now);
        }
        if self.orphan_at <= now {
            self.on_orphan_timer(now);
        }
        if self.phase == Phase::Open && self.waiting_for_progress() && self.patience_ends() <= now {
            self.abort(now, CloseReason::TimedOut);
        }
    }

    fn handle_subflow_timeout<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        self.subflows[at].recv.on_timer(now);
        self.subflows[at].signals.on_timer(now);
        let subflow = &mut self.subflows[at];
        match subflow.state {
            TcpState::Closed => return,
            TcpState::TimeWait => {
                if subflow.time_wait_until <= now {
                    self.close_subflow(now, at);
                }
                return;
            }
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => {
                if subflow.handshake.retry_at.is_some_and(|due| due <= now) {
                    if subflow.handshake.attempts > self.config.rto.syn_retries {
                        if subflow.state == TcpState::PreEstablished {
                            subflow.reset = Some(ResetCause::Because(ResetReason::BadPerformance));
                        } else {
                            self.fail_handshake(now, at, CloseReason::TimedOut);
                        }
                    } else {
                        subflow.handshake.send = true;
                        subflow.handshake.retry_at = None;
                    }
                }
                return;
            }
            _ => {}
        }
        if subflow.removal_deadline <= now {
            subflow.removal_deadline = Time::NEVER;
            self.kill_subflow(now, at, ResetReason::Unspecified);
            return;
        }
        if subflow.state == TcpState::FinWait2 && self.fin_wait_end(&self.subflows[at]) <= now {
            self.close_subflow(now, at);
            return;
        }
        let (due, kind) = self.retransmit_timer(&self.subflows[at]);
        if due > now {
            return;
        }
        match kind {
            RetransmitTimer::TailProbe => {
                self.subflows[at].tail_probe_wanted = true;
                // The timeout starts anew from the probe (RFC 8985 section 7.3).
                self.subflows[at].timer_base = now;
            }
            RetransmitTimer::Reordering => self.on_reordering_timer(now, at, observer),
            RetransmitTimer::Timeout => self.on_retransmission_timeout(now, at, observer),
        }
    }

    #[cold]
    fn on_reordering_timer<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        let (id, connection) = (self.subflows[at].id, self.id);
        let subflow = &mut self.subflows[at];
        let rate = &mut subflow.rate;
        let flight_bytes = subflow.board.nxt() - subflow.board.una();
        let recover_bytes = flight_bytes.saturating_sub(subflow.board.sacked_bytes());
        let mut segments = 0;
        let mut first = u64::MAX;
        let rtt = subflow.rtt.clone();
        let entered = subflow.recovery.on_reordering_timer(now, &mut subflow.board, &rtt, |record| {
            segments += 1;
            first = first.min(record.seq);
            rate.on_lost(record.seq, record.space(), &record.stamp);
            observer.on_lost(now, connection, id, record.range(), LossReason::Rack);
        });
        subflow.counters.segments_lost += u64::from(segments);
        subflow.round_lost += u64::from(segments);
        if !self.excuses_loss(now, at, first, segments, entered) && entered {
            let subflow = &mut self.subflows[at];
            subflow.counters.recoveries += 1;
            let reduced = subflow.ecn.has_reduced(subflow.board.una());
            subflow.ecn.on_reduced(subflow.board.nxt());
            let event =
                crate::congestion::CongestionEvent { now, flight_bytes, recover_bytes, ecn: false, reduced };
            self.congestion.on_congestion(id, &event);
            self.refresh_window(at);
        }
        self.schedule_wanted = true;
    }

    #[cold]
    fn on_retransmission_timeout<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        let (id, connection) = (self.subflows[at].id, self.id);
        let subflow = &mut self.subflows[at];
        if subflow.recovery.timeouts() >= self.config.rto.max_timeouts {
            // RFC 8684 section 3.3.6.
            self.kill_subflow(now, at, ResetReason::BadPerformance);
            self.check_ended(now);
            return;
        }
        subflow.counters.timeouts += 1;
        let flight = subflow.board.nxt() - subflow.board.una();
        let mut segments = 0;
        let first = subflow.recovery.on_timeout(&mut subflow.board, |record| {
            segments += 1;
            subflow.rate.on_lost(record.seq, record.space(), &record.stamp);
            observer.on_lost(now, connection, id, record.range(), LossReason::Timeout);
        });
        subflow.known_blocks = [(0, 0); 4];
        subflow.counters.segments_lost += segments;
        subflow.round_lost += segments;
        subflow.timer_base = now;
        subflow.tail_probe_wanted = false;
        subflow.ecn.on_reduced(subflow.board.nxt());
        self.suspect_path_mtu(now, at);
        self.congestion.on_rto(id, now, flight, !first);
        self.refresh_window(at);
        self.tell_scheduler(now, &SchedulerEvent::Timeout(id));
        self.reinject_after_timeout(at);
        self.give_up_laggard(now);
        self.schedule_wanted = true;
    }
}
