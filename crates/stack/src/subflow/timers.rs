//! The timers of a subflow: their expirations, and the resulting loss detection.

use anabranch_units::{Duration, Time};

use super::path_mtu::ProbeLoss;
use super::recovery::RetransmitTimer;
use super::{ResetCause, Subflow, TcpState};
use crate::congestion::CongestionEvent;
use crate::observer::LossReason;
use crate::segment::ResetReason;
use crate::seq::DataRange;

/// The state of the connection that the timers of a subflow depend on.
#[derive(Clone, Copy)]
pub(crate) struct TimerContext {
    /// True if each consecutive timeout doubles the next.
    pub backoff: bool,
    /// The time by which the peer may delay an acknowledgement.
    pub ack_delay: Duration,
    /// True if segments are paced.
    pub paces: bool,
}

/// An expired timer, for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// None, or one that the subflow has handled.
    Nothing,
    /// The wait in TIME-WAIT or FIN-WAIT-2 has ended.
    WaitOver,
    HandshakeFailed,
    /// The peer has withdrawn the address, and is silent.
    Withdrawn,
    /// The reordering timer: [`Subflow::on_reordering_timer`] is next.
    Reordering,
    /// The retransmission timer: [`Subflow::on_retransmission_timeout`] is next.
    Timeout,
}

impl Subflow {
    #[inline]
    fn retransmit_timer(&self, context: TimerContext) -> (Time, RetransmitTimer) {
        let TimerContext { backoff, ack_delay, .. } = context;
        self.recovery.timer(self.timer_base, self.last_new, &self.board, &self.rtt, backoff, ack_delay)
    }

    /// Returns the time at which the retransmission timer expires, or the probe or the reordering timer in
    /// its place.
    pub(crate) fn retransmission_due(&self, context: TimerContext) -> Time {
        self.retransmit_timer(context).0
    }

    /// Returns the time at which [`Subflow::expire`] is due. Unless `EXACT`, a time after `known`, for which
    /// the connection is queued anyway, need not be exact. `fin_wait` returns how long to wait for the peer's
    /// FIN, if the wait is limited.
    #[inline]
    pub(crate) fn next_timeout<const EXACT: bool>(
        &self,
        now: Time,
        known: Time,
        context: TimerContext,
        fin_wait: impl FnOnce() -> Option<Duration>,
    ) -> Time {
        match self.state {
            TcpState::Closed => return Time::NEVER,
            TcpState::TimeWait => return self.time_wait_until.min(self.recv.ack_at()),
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => {
                return self.handshake.retry_at.unwrap_or(Time::NEVER);
            }
            _ => {}
        }
        let mut due = self.recv.ack_at().min(self.removal_deadline).min(self.signals.due());
        if self.state == TcpState::FinWait2 {
            due = due.min(self.fin_wait_end(fin_wait));
        }
        if !self.board.is_empty() {
            // Usually the connection was queued before the last acknowledgements, which have moved the timer
            // to a later time.
            let earliest = self.recovery.timer_not_before(self.timer_base, &self.board, &self.rtt);
            if EXACT || earliest < due.min(known) {
                due = due.min(self.retransmit_timer(context).0);
            }
        }
        if context.paces
            && (!self.queue.is_empty() || self.board.lost_segments() > 0 || self.fin_wanted)
            && self.pace_at > now
        {
            due = due.min(self.pace_at);
        }
        due
    }

    /// Returns the time at which a subflow that waits only for the peer's FIN stops waiting: the peer may
    /// have lost its state, and no reset may have arrived.
    fn fin_wait_end(&self, fin_wait: impl FnOnce() -> Option<Duration>) -> Time {
        fin_wait().map_or(Time::NEVER, |wait| self.last_received + wait)
    }

    /// Handles the expired timers, and returns the one that concerns the connection.
    pub(crate) fn expire(
        &mut self,
        now: Time,
        context: TimerContext,
        syn_retries: u32,
        fin_wait: impl FnOnce() -> Option<Duration>,
    ) -> Expiry {
        self.recv.on_timer(now);
        self.signals.on_timer(now);
        match self.state {
            TcpState::Closed => return Expiry::Nothing,
            TcpState::TimeWait if self.time_wait_until <= now => return Expiry::WaitOver,
            TcpState::TimeWait => return Expiry::Nothing,
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => {
                let due = self.handshake.retry_at.is_some_and(|due| due <= now);
                if !due || self.retry_handshake(syn_retries) {
                    return Expiry::Nothing;
                }
                if self.state == TcpState::PreEstablished {
                    self.request_reset(ResetCause::Because(ResetReason::BadPerformance));
                    return Expiry::Nothing;
                }
                return Expiry::HandshakeFailed;
            }
            _ => {}
        }
        if self.removal_deadline <= now {
            self.removal_deadline = Time::NEVER;
            return Expiry::Withdrawn;
        }
        if self.state == TcpState::FinWait2 && self.fin_wait_end(fin_wait) <= now {
            return Expiry::WaitOver;
        }
        let (due, kind) = self.retransmit_timer(context);
        if due > now {
            return Expiry::Nothing;
        }
        match kind {
            RetransmitTimer::TailProbe => {
                self.tail_probe_wanted = true;
                // The timeout restarts from the probe (RFC 8985 section 7.3).
                self.timer_base = now;
                Expiry::Nothing
            }
            RetransmitTimer::Reordering => Expiry::Reordering,
            RetransmitTimer::Timeout => Expiry::Timeout,
        }
    }

    /// Handles the withdrawal of the address by the peer: the path is probed, and the subflow is reset if it
    /// does not answer (RFC 8684 section 3.4.2).
    pub(crate) fn withdraw(&mut self, now: Time) {
        self.probe_wanted = true;
        self.removal_deadline = now + self.rtt.rto(0) * 2;
    }

    pub(crate) fn cancel_withdrawal(&mut self) {
        self.removal_deadline = Time::NEVER;
    }

    /// Returns the time of a delayed acknowledgement.
    #[inline]
    pub(crate) fn ack_at(&self) -> Time {
        self.recv.ack_at()
    }

    /// Handles the reordering timer: marks segments lost. Returns the congestion event, if any.
    #[cold]
    pub(crate) fn on_reordering_timer(
        &mut self,
        now: Time,
        mut lost: impl FnMut(DataRange, LossReason),
    ) -> Option<CongestionEvent> {
        let Subflow { rate, rtt, recovery, board, .. } = self;
        let flight_bytes = board.nxt() - board.una();
        let recover_bytes = flight_bytes.saturating_sub(board.sacked_bytes());
        let mut segments = 0;
        let mut first = u64::MAX;
        let entered = recovery.on_reordering_timer(now, board, rtt, |record| {
            segments += 1;
            first = first.min(record.seq);
            rate.on_lost(record.seq, record.space(), &record.stamp);
            lost(record.range(), LossReason::Rack);
        });
        self.counters.segments_lost += u64::from(segments);
        self.round_lost += u64::from(segments);
        if self.excuses_loss(now, first, segments, entered) || !entered {
            return None;
        }
        self.counters.recoveries += 1;
        let reduced = self.ecn.has_reduced(self.board.una());
        self.ecn.on_reduced(self.board.nxt());
        Some(CongestionEvent { now, flight_bytes, recover_bytes, ecn: false, reduced })
    }

    /// Handles the retransmission timer: marks everything in flight lost. Returns the bytes that were in
    /// flight, and true if it is the first timeout for this data.
    #[cold]
    pub(crate) fn on_retransmission_timeout(
        &mut self,
        now: Time,
        mut lost: impl FnMut(DataRange, LossReason),
    ) -> (u64, bool) {
        self.counters.timeouts += 1;
        let flight = self.board.nxt() - self.board.una();
        let mut segments = 0;
        let Subflow { rate, recovery, board, .. } = self;
        let first = recovery.on_timeout(board, |record| {
            segments += 1;
            rate.on_lost(record.seq, record.space(), &record.stamp);
            lost(record.range(), LossReason::Timeout);
        });
        self.known_blocks = [(0, 0); 4];
        self.counters.segments_lost += segments;
        self.round_lost += segments;
        self.timer_base = now;
        self.tail_probe_wanted = false;
        self.ecn.on_reduced(self.board.nxt());
        self.suspect_path_mtu(now);
        (flight, first)
    }

    /// Records that segments were marked lost, the lowest from offset `first` on; `entered` is true if a
    /// reduction of the window would follow. Returns true if the loss is excused: it was a probe of the
    /// path's MTU.
    #[cold]
    pub(super) fn excuses_loss(&mut self, now: Time, first: u64, segments: u32, entered: bool) -> bool {
        match self.path_mtu.on_lost(now, first, segments, entered, self.mss) {
            ProbeLoss::TooLarge => {
                self.recovery.excuse();
                true
            }
            ProbeLoss::None | ProbeLoss::Unclear => false,
        }
    }

    /// Checks whether the timeout shows that packets of this size do not pass.
    fn suspect_path_mtu(&mut self, now: Time) {
        let first = self.board.records().front().map_or(0, |record| record.len);
        let timeouts = self.recovery.timeouts();
        if let Some(mss) = self.path_mtu.on_timeout(now, timeouts, first, self.mss) {
            self.mss = mss;
        }
    }
}
