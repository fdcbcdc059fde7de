//! The retransmission timer of a subflow: a timeout (RFC 6298), a tail loss probe (RFC 8985 section 7), or the end of a
//! reordering window.

use anabranch_units::{Duration, Time};

use super::Recovery;
use crate::config::LossDetection;
use crate::scheduler::RecoveryState;
use crate::subflow::rtt::RttEstimator;
use crate::subflow::scoreboard::Scoreboard;

/// The time by which timers are later than the round trip requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimerSlack {
    /// The delay of the tail loss probe of a single segment: the peer may delay its acknowledgement.
    pub single: Duration,
    /// The delay of other tail loss probes, and of the reordering timer.
    pub other: Duration,
}

/// The meaning of an expiration of the retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RetransmitTimer {
    /// A timeout (RFC 6298).
    Timeout,
    /// A tail loss probe (RFC 8985 section 7).
    TailProbe,
    /// The end of a segment's reordering window (RFC 8985 section 6.3).
    Reordering,
}

/// An outstanding tail loss probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// The next offset at the time of the probe.
    pub(super) end: u64,
    /// True if the probe was a retransmission.
    pub(super) retransmission: bool,
}

impl Recovery {
    /// Records the transmission of a tail loss probe.
    pub(in crate::subflow) fn on_probe(&mut self, end: u64, retransmission: bool) {
        self.probe = Some(Probe { end, retransmission });
        self.probe_allowed = false;
    }

    /// Returns true if the probe has repaired a loss (RFC 8985 section 7.4.2).
    ///
    /// The acknowledgement of the probe itself may still be followed by the DSACK that distinguishes it from
    /// the acknowledgement of the original (see [`Recovery::on_dsack`]). An acknowledgement beyond the probe
    /// shows that one of the two was lost.
    pub(super) fn judge_probe(&mut self, board: &Scoreboard) -> bool {
        let Some(probe) = self.probe else { return false };
        if board.una() < probe.end || (probe.retransmission && board.una() == probe.end) {
            return false;
        }
        self.probe = None;
        probe.retransmission && self.state == RecoveryState::Open
    }

    /// Returns a cheap lower bound on the time of [`Recovery::timer`].
    #[inline]
    pub(in crate::subflow) fn timer_not_before(
        &self,
        base: Time,
        board: &Scoreboard,
        rtt: &RttEstimator,
    ) -> Time {
        let timeout = rtt.rto(0);
        match (self.detection, rtt.srtt()) {
            (LossDetection::DuplicateAcks, _) => base + timeout,
            (LossDetection::RackTlp, Some(srtt)) if self.none_overtaken(board) => {
                base + timeout.min(srtt * 2)
            }
            (LossDetection::RackTlp, _) => Time::ZERO,
        }
    }

    /// Returns the time of the retransmission timer and its meaning. The timeout counts from `base`; a probe
    /// from then or from `last_new`, the last transmission of new data.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(in crate::subflow) fn timer(
        &self,
        base: Time,
        last_new: Time,
        board: &Scoreboard,
        rtt: &RttEstimator,
        backoff: bool,
        slack: TimerSlack,
    ) -> (Time, RetransmitTimer) {
        if board.is_empty() {
            return (Time::NEVER, RetransmitTimer::Timeout);
        }
        let doublings = if backoff { self.backoff() } else { 0 };
        let timeout = base + rtt.rto(doublings);
        if self.detection != LossDetection::RackTlp {
            return (timeout, RetransmitTimer::Timeout);
        }
        if let Some(due) = self.pending_reordering(board, rtt) {
            let due = due + slack.other;
            if due <= timeout {
                return (due, RetransmitTimer::Reordering);
            }
            return (timeout, RetransmitTimer::Timeout);
        }
        // RFC 8985 section 7.2: probes are sent only outside recovery, with nothing selectively acknowledged.
        let may_probe = self.state == RecoveryState::Open
            && self.probe.is_none()
            && self.probe_allowed
            && board.sacked_segments() == 0;
        if !may_probe {
            return (timeout, RetransmitTimer::Timeout);
        }
        let wait = match rtt.srtt() {
            Some(srtt) => {
                let alone = board.records().len() == 1;
                srtt * 2 + if alone { slack.single } else { slack.other }
            }
            None => Duration::from_secs(1),
        };
        let probe = base.max(last_new) + wait;
        // RFC 8985 section 7.2: a probe due after the timeout is sent at the time of the timeout instead.
        (probe.min(timeout), RetransmitTimer::TailProbe)
    }
}
