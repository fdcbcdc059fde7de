//! The expired timers of a subflow, and the resulting loss detection.

use anabranch_units::{Duration, Time};

use super::path_mtu::ProbeLoss;
use super::recovery::RetransmitTimer;
use super::timer_table::{Timer, TimerContext};
use super::{ResetCause, Subflow, TcpState};
use crate::congestion::{CongestionControl, CongestionEvent};
use crate::observer::LossReason;
use crate::segment::ResetReason;
use crate::seq::DataRange;

/// The limits of the repetitions of a subflow's segments.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// The maximum number of repetitions of a segment of the handshake.
    pub syn_retries: u32,
    /// The maximum number of consecutive timeouts.
    pub timeouts: u32,
}

/// An expired timer, for the connection.
pub(crate) enum Expiry {
    /// None, or one that the subflow has handled.
    Nothing,
    /// The wait in TIME-WAIT or FIN-WAIT-2 has ended.
    WaitOver,
    HandshakeFailed,
    /// The peer has withdrawn the address, and is silent.
    Withdrawn,
    /// Segments were marked lost by the reordering timer.
    Reordered,
    /// Everything in flight was marked lost by the retransmission timer.
    TimedOut,
    /// The peer has not answered the maximum number of consecutive timeouts.
    GivenUp,
}

impl Subflow {
    /// Handles the expired timers, and returns the one that concerns the connection. `lost` receives the data
    /// that is now marked lost; the window is updated from the congestion control.
    pub(crate) fn expire<F: Fn() -> Option<Duration>, C: CongestionControl>(
        &mut self,
        context: &TimerContext<F>,
        patience: Patience,
        congestion: &mut C,
        lost: impl FnMut(DataRange, LossReason),
    ) -> Expiry {
        self.recv.on_timer(context.now);
        self.signals.on_timer(context.now);
        match self.next_expired(context) {
            None | Some(Timer::Ack | Timer::Signal | Timer::Pacing) => Expiry::Nothing,
            Some(Timer::Handshake) => self.on_handshake_timer(patience.syn_retries),
            Some(Timer::TimeWait | Timer::FinWait) => Expiry::WaitOver,
            Some(Timer::Withdrawal) => {
                self.timers.disarm(Timer::Withdrawal);
                Expiry::Withdrawn
            }
            Some(Timer::Retransmission) => {
                self.on_retransmission_timer(context, patience.timeouts, congestion, lost)
            }
        }
    }

    /// Repeats the segment of the handshake that was not answered, unless that was done `retries` times.
    fn on_handshake_timer(&mut self, retries: u32) -> Expiry {
        if self.handshake.attempts() <= retries {
            self.handshake.repeat();
            self.timers.disarm(Timer::Handshake);
            return Expiry::Nothing;
        }
        if self.state.tcp() == TcpState::PreEstablished {
            self.state.request_reset(ResetCause::Because(ResetReason::BadPerformance));
            return Expiry::Nothing;
        }
        Expiry::HandshakeFailed
    }

    /// Handles the retransmission timer, or the probe or the reordering timer in its place.
    fn on_retransmission_timer<F, C: CongestionControl>(
        &mut self,
        context: &TimerContext<F>,
        timeouts: u32,
        congestion: &mut C,
        lost: impl FnMut(DataRange, LossReason),
    ) -> Expiry {
        let now = context.now;
        match self.retransmit_timer(context).1 {
            RetransmitTimer::TailProbe => {
                self.tail_probe_wanted = true;
                // The timeout restarts from the probe (RFC 8985 section 7.3).
                self.timer_base = now;
                Expiry::Nothing
            }
            RetransmitTimer::Reordering => {
                if let Some(event) = self.on_reordering_timer(now, lost) {
                    congestion.on_congestion(self.id, &event);
                    self.refresh_window(congestion);
                }
                Expiry::Reordered
            }
            RetransmitTimer::Timeout if self.recovery.timeouts() >= timeouts => Expiry::GivenUp,
            RetransmitTimer::Timeout => {
                self.on_retransmission_timeout(now, congestion, lost);
                self.refresh_window(congestion);
                Expiry::TimedOut
            }
        }
    }

    /// Handles the withdrawal of the address by the peer, or a sign that the peer has ended the subflow: the path is
    /// probed, and the subflow is reset if it does not answer (RFC 8684 section 3.4.2).
    pub(crate) fn withdraw(&mut self, now: Time) {
        self.probe_wanted = true;
        self.is_avoided &= self.timers.is_armed(Timer::Withdrawal);
        let due = now + self.rtt.rto(0) * 2;
        self.timers.arm(Timer::Withdrawal, due);
    }

    /// Handles the withdrawal of the address by the peer while other subflows work: until it answers, the subflow counts as
    /// potentially failed.
    pub(crate) fn withdraw_and_avoid(&mut self, now: Time) {
        self.withdraw(now);
        self.is_avoided = true;
    }

    /// Handles the reordering timer: marks segments lost. Returns the congestion event, if any.
    #[cold]
    fn on_reordering_timer(
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

    /// Handles a timeout: marks everything in flight lost.
    #[cold]
    fn on_retransmission_timeout<C: CongestionControl>(
        &mut self,
        now: Time,
        congestion: &mut C,
        mut lost: impl FnMut(DataRange, LossReason),
    ) {
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
        congestion.on_rto(self.id, now, flight, !first);
        self.rtt.on_timeout(now);
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
