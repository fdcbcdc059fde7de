//! Loss detection and recovery of one subflow: RACK-TLP (RFC 8985), or three duplicate ACKs with NewReno (RFC
//! 6582); timeouts (RFC 6298); undo of spurious retransmissions (RFC 3522, RFC 3708).
//!
//! It decides which segments are lost, and the subflow's recovery state. The effect on the congestion window
//! is decided by the congestion control. `recovery/rack.rs` finds the segments that RACK marks lost, and
//! `recovery/timer.rs` has the time and the meaning of the retransmission timer.

mod rack;
mod timer;

use anabranch_units::Time;

use crate::config::{ConnectionConfig, LossDetection};
use crate::scheduler::RecoveryState;
use crate::subflow::rtt::RttEstimator;
use crate::subflow::scoreboard::{Scoreboard, Sent};
use rack::{REO_PERSIST, Rack};
use timer::Probe;
pub(crate) use timer::{RetransmitTimer, TimerSlack};

/// RFC 6582: the number of duplicate acknowledgements that indicate a loss.
const DUP_THRESH: u32 = 3;

/// The reordering that a subflow expects before it has seen any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tolerance {
    /// The number of duplicate acknowledgements that indicate a loss. RACK uses it for the number of selectively
    /// acknowledged segments after which it waits for no reordering (RFC 8985 section 6.2 step 4).
    pub dup_thresh: u32,
    /// True if RACK's reordering window is one smoothed round trip from the start: the largest that RFC 8985 section 6.2
    /// step 4 permits, which a subflow otherwise reaches by a quarter of the least round trip for each round with a DSACK.
    pub whole_round_trip: bool,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { dup_thresh: DUP_THRESH, whole_round_trip: false }
    }
}

/// The state needed to undo a reduction.
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// Retransmissions since the reduction for which no DSACK was received.
    unanswered: u32,
}

/// The recovery of one subflow.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    detection: LossDetection,
    undo_enabled: bool,
    limited_transmit: bool,
    state: RecoveryState,
    /// The next offset when the state was entered; the state ends when it is acknowledged.
    recover: u64,
    /// True after the first reduction: `recover` is valid.
    recovered_once: bool,
    tolerance: Tolerance,
    duplicates: u32,
    /// NewReno: bytes that have left the network according to duplicate acknowledgements.
    credit: u64,
    /// NewReno: partial acknowledgements of this recovery.
    partial: u32,
    /// True to send one segment regardless of the window: the fast retransmission.
    pub force: bool,
    /// The number of consecutive retransmission timeouts.
    timeouts: u32,
    /// The number of those since the last measurement of a round trip: the timeout has doubled as often (RFC 6298 section
    /// 5.7; `tcp_ack_update_rtt` in net/ipv4/tcp_input.c, which may measure it by a selective acknowledgement).
    backoff: u32,
    undo: Option<Undo>,
    /// The transmission time of the oldest retransmission that may be unacknowledged; an acknowledgement of
    /// anything older answers an original.
    first_retransmission: Option<Time>,
    /// No segment from this offset on was retransmitted.
    retransmitted_until: u64,
    probe: Option<Probe>,
    /// True if a round trip was measured since the last probe.
    probe_allowed: bool,
    rack: Rack,
}

/// The effect of an acknowledgement on recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    /// True if fast recovery was entered, so that a reduction is due.
    pub entered: bool,
    /// True if recovery (of either kind) has ended.
    pub ended: bool,
    /// True if the last reduction was spurious.
    pub undone: bool,
    /// True if a tail loss probe has repaired a loss: a reduction is due, with nothing to retransmit.
    pub probe_repaired: bool,
}

impl Recovery {
    /// Returns the recovery of a subflow; `first` is the offset of its first data octet.
    pub(super) fn new(config: &ConnectionConfig, sack: bool, first: u64) -> Recovery {
        // RACK needs SACK; without it, duplicate acknowledgements are used.
        let detection = if sack { config.loss_detection } else { LossDetection::DuplicateAcks };
        Recovery {
            detection,
            undo_enabled: config.undo,
            limited_transmit: config.limited_transmit,
            state: RecoveryState::Open,
            recover: first,
            recovered_once: false,
            tolerance: Tolerance::default(),
            duplicates: 0,
            credit: 0,
            partial: 0,
            force: false,
            timeouts: 0,
            backoff: 0,
            undo: None,
            first_retransmission: None,
            retransmitted_until: first,
            probe: None,
            probe_allowed: true,
            rack: Rack::new(first),
        }
    }

    /// Sets the reordering that is expected.
    pub(super) fn tolerate(&mut self, tolerance: Tolerance) {
        self.tolerance = tolerance;
    }

    /// Returns the reordering that is expected.
    pub(super) fn tolerance(&self) -> Tolerance {
        self.tolerance
    }

    pub(super) fn state(&self) -> RecoveryState {
        self.state
    }

    /// True if more than three segments of `mss` bytes have arrived out of order: then data acknowledged selectively is
    /// progress like any other (`tcp_may_raise_cwnd`, and `tcp_check_sack_reordering` for the degree, in
    /// net/ipv4/tcp_input.c of Linux 6.18).
    #[inline]
    pub(super) fn expects_reordering(&self, mss: u64) -> bool {
        self.rack.overtaken_by > u64::from(DUP_THRESH) * mss
    }

    /// Returns the number of consecutive timeouts.
    pub(super) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Returns the number of times that the timeout has doubled.
    pub(super) fn backoff(&self) -> u32 {
        self.backoff.min(self.timeouts)
    }

    /// True if progress and retransmissions restart the retransmission timer.
    ///
    /// RFC 6582 section 3.2 step 3: NewReno, which repairs one loss per round trip, restarts it only for the
    /// first partial acknowledgement, so that a timeout ends a recovery of many losses ("impatient").
    pub(super) fn restarts_timer(&self) -> bool {
        self.detection != LossDetection::DuplicateAcks
            || self.state != RecoveryState::Recovery
            || self.partial <= 1
    }

    /// Returns the bytes that have left the network according to duplicate acknowledgements.
    pub(super) fn credit(&self) -> u64 {
        self.credit
    }

    /// Handles the retransmission of the segment of `board` that begins at `seq`.
    pub(super) fn on_retransmit(&mut self, now: Time, board: &Scoreboard, seq: u64) {
        if self.detection == LossDetection::RackTlp {
            self.rack.resent.push_back((now, seq));
        }
        self.forget_acknowledged_retransmissions(board);
        self.first_retransmission.get_or_insert(now);
        self.retransmitted_until = self.retransmitted_until.max(seq + 1);
        if let Some(undo) = &mut self.undo {
            undo.unanswered += 1;
        }
    }

    /// Forgets the first retransmission once all retransmitted segments are acknowledged. Until then an
    /// acknowledgement may answer a retransmission of an earlier recovery, which contains no information
    /// about the current one.
    fn forget_acknowledged_retransmissions(&mut self, board: &Scoreboard) {
        if self.retransmitted_until <= board.una() {
            self.first_retransmission = None;
        }
    }

    /// True if RACK is used, and nothing is being repaired, probed or waited for.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.state == RecoveryState::Open
            && self.detection == LossDetection::RackTlp
            && self.probe.is_none()
            && self.rack.resent.is_empty()
    }

    /// Handles progress of the cumulative acknowledgement.
    #[inline]
    pub(super) fn on_progress(&mut self) {
        self.timeouts = 0;
    }

    /// Handles a reported duplicate that ends at `end` (RFC 2883). Returns true if every retransmission of
    /// the last reduction is now known to be unnecessary.
    pub(super) fn on_dsack(&mut self, board: &Scoreboard, end: u64) -> bool {
        // RFC 8985 section 6.2 step 4: the window grows once per round trip with a DSACK.
        if self.rack.dsack_round.is_none_or(|round| board.una() >= round) {
            self.rack.dsack_round = Some(board.nxt());
            self.rack.reo_mult = (self.rack.reo_mult + 1).min(255);
            self.rack.reo_persist = REO_PERSIST;
        }
        if let Some(probe) = self.probe
            && probe.retransmission
            && end == probe.end
        {
            // RFC 8985 section 7.4.2, case 1: both the original and the probe have arrived.
            self.probe = None;
            return false;
        }
        match &mut self.undo {
            Some(undo) if undo.unanswered > 0 => {
                undo.unanswered -= 1;
                // RFC 3708: every retransmission was unnecessary.
                self.undo_enabled && undo.unanswered == 0
            }
            _ => false,
        }
    }

    /// Handles a round-trip measurement.
    pub(super) fn on_rtt_sample(&mut self) {
        self.probe_allowed = true;
        self.backoff = 0;
    }

    /// Handles an acknowledgement that was applied to `board`. `advanced` bytes were cumulatively
    /// acknowledged; `duplicate` is true if it is a duplicate acknowledgement in the sense of RFC 5681.
    /// `echo_before` returns whether its timestamp is older than a given time. `lost` is called for each
    /// segment that is now marked lost.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        board: &mut Scoreboard,
        rtt: &RttEstimator,
        mss: u64,
        advanced: u64,
        duplicate: bool,
        dsack_undo: bool,
        echo_before: impl Fn(Time) -> bool,
        mut lost: impl FnMut(&Sent),
    ) -> Verdict {
        let mut verdict = Verdict::default();
        if advanced > 0 {
            self.on_progress();
        }
        verdict.probe_repaired = self.judge_probe(board);
        if self.state != RecoveryState::Open && self.undo_enabled {
            // RFC 3522: the first acknowledgement that advances answers a transmission older than the first
            // retransmission, so nothing was lost.
            let eifel =
                advanced > 0 && self.undo.is_some() && self.first_retransmission.is_some_and(echo_before);
            if dsack_undo || eifel {
                self.leave();
                self.undo = None;
                board.unmark_lost();
                self.rack.scan = board.una();
                self.watch_retransmissions(board);
                // The reordering that caused it must not cause another at once.
                self.rack.reordering_seen = true;
                verdict.undone = true;
                verdict.ended = true;
                return verdict;
            }
        }
        if self.state != RecoveryState::Open && board.una() >= self.recover {
            self.leave();
            self.rack.reo_persist = self.rack.reo_persist.saturating_sub(1);
            if self.rack.reo_persist == 0 {
                self.rack.reo_mult = 1;
            }
            verdict.ended = true;
        } else if dsack_undo && self.undo_enabled {
            // A DSACK received after the end of recovery.
            self.undo = None;
            verdict.undone = true;
        }
        match self.detection {
            LossDetection::RackTlp => {
                let before = board.lost_segments();
                let found = self.detect(now, board, rtt, &mut lost);
                debug_assert!(board.lost_segments() >= before);
                if found && self.state == RecoveryState::Open {
                    self.enter(board);
                    verdict.entered = true;
                }
            }
            LossDetection::DuplicateAcks => {
                verdict.entered = self.count_duplicates(board, mss, advanced, duplicate, &mut lost);
            }
        }
        verdict
    }

    fn count_duplicates(
        &mut self,
        board: &mut Scoreboard,
        mss: u64,
        advanced: u64,
        duplicate: bool,
        lost: &mut impl FnMut(&Sent),
    ) -> bool {
        if advanced > 0 {
            self.duplicates = 0;
            if self.state != RecoveryState::Recovery {
                self.credit = 0;
                return false;
            }
            // RFC 6582 section 3.2 step 3: a partial acknowledgement means that the next hole is lost too.
            // One segment of the data it acknowledges has left the network just now; the rest was counted
            // before.
            self.credit = self.credit.saturating_sub(advanced.saturating_sub(mss));
            self.partial = self.partial.saturating_add(1);
            self.lose_first(board, lost);
            self.force = true;
            return false;
        }
        if !duplicate {
            return false;
        }
        self.duplicates += 1;
        match self.state {
            RecoveryState::Recovery => {
                self.credit += mss;
                false
            }
            RecoveryState::Loss => false,
            RecoveryState::Open => {
                // RFC 6582 section 3.2 step 1: data in flight at the last recovery starts no other.
                let fresh = !self.recovered_once || board.una() > self.recover;
                if self.duplicates >= self.tolerance.dup_thresh && fresh {
                    self.enter(board);
                    self.credit = mss * u64::from(self.tolerance.dup_thresh);
                    self.lose_first(board, lost);
                    self.force = true;
                    return true;
                }
                if self.limited_transmit && self.duplicates < self.tolerance.dup_thresh {
                    self.credit = mss * u64::from(self.duplicates);
                }
                false
            }
        }
    }

    fn lose_first(&mut self, board: &mut Scoreboard, lost: &mut impl FnMut(&Sent)) {
        if board.mark_lost(0)
            && let Some(record) = board.records().front()
        {
            lost(record);
        }
    }

    fn enter(&mut self, board: &Scoreboard) {
        self.state = RecoveryState::Recovery;
        self.partial = 0;
        self.recover = board.nxt();
        self.recovered_once = true;
        // RFC 8985 section 7.4.2: the reduction for this recovery covers a loss that the probe has repaired.
        // A later DSACK of the probe must not count for a retransmission of this recovery.
        let unanswered = u32::from(self.probe.take().is_some_and(|probe| probe.retransmission));
        self.forget_acknowledged_retransmissions(board);
        self.undo = Some(Undo { unanswered });
        self.force = true;
    }

    fn leave(&mut self) {
        self.state = RecoveryState::Open;
        self.duplicates = 0;
        self.credit = 0;
        self.force = false;
        self.timeouts = 0;
    }

    /// Ends a recovery after a loss that is no sign of congestion (RFC 4821 section 7.6.2): lost data is
    /// retransmitted at once.
    pub(super) fn excuse(&mut self) {
        self.leave();
        self.undo = None;
        self.force = true;
    }

    /// Handles an expiration of the retransmission timer: everything in flight is marked lost. Returns true
    /// if this is the first timeout for this data.
    pub(super) fn on_timeout(&mut self, board: &mut Scoreboard, mut lost: impl FnMut(&Sent)) -> bool {
        // RFC 5681 equation 4 lowers the threshold once for the same data. (After all of that is
        // acknowledged, the state is no longer `Loss`.)
        let first = self.state != RecoveryState::Loss;
        if self.state == RecoveryState::Open {
            self.forget_acknowledged_retransmissions(board);
            self.undo = Some(Undo { unanswered: 0 });
            // A timeout with this much received above the hole: the degree is overestimated (`tcp_enter_loss`).
            if board.sacked_segments() >= DUP_THRESH {
                self.rack.overtaken_by = 0;
            }
        }
        self.state = RecoveryState::Loss;
        self.recover = board.nxt();
        self.recovered_once = true;
        self.timeouts += 1;
        self.backoff = (self.backoff + 1).min(self.timeouts);
        self.duplicates = 0;
        self.credit = 0;
        self.probe = None;
        if self.timeouts > 1 {
            // RFC 2018 section 8: a receiver may discard selectively acknowledged data.
            board.forget_sacks();
        }
        for at in 0..board.records().len() {
            if board.mark_lost(at) {
                lost(&board.records()[at]);
            }
        }
        self.rack.scan = board.nxt();
        self.rack.resent.clear();
        self.force = true;
        first
    }
}

#[cfg(test)]
mod tests;
