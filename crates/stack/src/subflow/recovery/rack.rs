//! RACK (RFC 8985 section 6): a segment is lost if a segment that was sent later has arrived, and its reordering window
//! has ended.

use std::collections::VecDeque;

use anabranch_units::{Duration, Time};

use super::Recovery;
use crate::config::LossDetection;
use crate::scheduler::RecoveryState;
use crate::subflow::rtt::RttEstimator;
use crate::subflow::scoreboard::{Scoreboard, Sent};

/// RFC 8985 section 6.2: the number of recoveries without a DSACK after which the reordering window is reset.
pub(super) const REO_PERSIST: u32 = 16;

/// The state of RFC 8985 section 6.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// The transmission time of the most recently sent segment among all delivered ones.
    pub(super) sent: Time,
    /// The end of the same segment: the offset after its last byte.
    pub(super) end: u64,
    /// The round-trip time of the same segment.
    pub(super) rtt: Duration,
    /// The end of the highest delivered octet.
    pub(super) fack: u64,
    pub(super) reordering_seen: bool,
    /// The greatest distance by which data overtook a segment that was sent once, in bytes.
    pub(super) overtaken_by: u64,
    pub(super) reo_mult: u32,
    pub(super) reo_persist: u32,
    pub(super) dsack_round: Option<u64>,
    /// Every first transmission before this offset is acknowledged, lost or retransmitted.
    pub(super) scan: u64,
    /// Retransmissions in the order of transmission: time and offset.
    pub(super) resent: VecDeque<(Time, u64)>,
}

impl Rack {
    /// Returns the state of a subflow with its first data octet at offset `first`.
    pub(super) fn new(first: u64) -> Rack {
        Rack {
            sent: Time::ZERO,
            end: 0,
            rtt: Duration::ZERO,
            fack: first,
            reordering_seen: false,
            overtaken_by: 0,
            reo_mult: 1,
            reo_persist: 0,
            dsack_round: None,
            scan: first,
            resent: VecDeque::new(),
        }
    }

    /// Records that a segment from `seq` on, which was sent once, has arrived after data above it.
    #[inline]
    fn note_overtaken(&mut self, seq: u64) {
        self.reordering_seen = true;
        self.overtaken_by = self.overtaken_by.max(self.fack - seq);
    }
}

impl Recovery {
    /// Handles a segment newly acknowledged, selectively or cumulatively (RFC 8985 section 6.2, steps 2 and
    /// 3).
    ///
    /// `original` is true if the acknowledgement's timestamp shows that it answers an earlier transmission of
    /// the segment; see [`Recovery::answers_original`].
    #[inline]
    pub(in crate::subflow) fn on_delivered(
        &mut self,
        now: Time,
        record: &Sent,
        min_rtt: Duration,
        original: bool,
    ) {
        if self.detection != LossDetection::RackTlp {
            return;
        }
        let end = record.end();
        if end > self.rack.fack {
            self.rack.fack = end;
        } else if end < self.rack.fack && !record.retransmitted() {
            self.rack.note_overtaken(record.seq);
        }
        let rtt = now.since(record.sent);
        // Before the first round-trip measurement, an acknowledgement of a retransmitted segment can answer
        // any of its transmissions, even one made at this instant.
        if record.retransmitted() && (min_rtt.is_zero() || original || rtt < min_rtt) {
            return;
        }
        if (record.sent, end) > (self.rack.sent, self.rack.end) {
            self.rack.sent = record.sent;
            self.rack.end = end;
            self.rack.rtt = rtt;
        }
    }

    /// Handles a segment that was sent once, if [`Recovery::is_quiet`].
    #[inline]
    pub(in crate::subflow) fn on_delivered_once(&mut self, now: Time, record: &Sent) {
        let end = record.end();
        if end > self.rack.fack {
            self.rack.fack = end;
        } else if end < self.rack.fack {
            self.rack.note_overtaken(record.seq);
        }
        if (record.sent, end) > (self.rack.sent, self.rack.end) {
            self.rack.sent = record.sent;
            self.rack.end = end;
            self.rack.rtt = now.since(record.sent);
        }
    }

    /// True if the timestamp of an acknowledgement shows that it answers an earlier transmission of `record`,
    /// not its retransmission. `una` is the left edge before the acknowledgement, `echo_before` as in
    /// [`Recovery::on_ack`].
    ///
    /// Only the segment at the left edge can be judged this way.
    // RFC 8985 section 6.2 step 2 compares any echo. But a receiver only stores the timestamps of segments
    // that begin at or before its last acknowledgement (RFC 7323 section 4.3), so the echo describes the
    // segment at the left edge. The SACK of a segment that arrived out of order, such as a tail loss probe
    // after a lost flight, echoes the last segment in order, which is always older. Linux compares no echo
    // here.
    #[inline]
    pub(in crate::subflow) fn answers_original(
        record: &Sent,
        una: u64,
        echo_before: impl Fn(Time) -> bool,
    ) -> bool {
        record.retransmitted() && record.seq == una && echo_before(record.sent)
    }

    /// Returns the reordering window (RFC 8985 section 6.2 step 4).
    fn reordering_window(&self, board: &Scoreboard, rtt: &RttEstimator) -> Duration {
        let in_recovery = self.state != RecoveryState::Open;
        if !self.rack.reordering_seen && (in_recovery || board.sacked_segments() >= self.tolerance.dup_thresh)
        {
            return Duration::ZERO;
        }
        if self.tolerance.whole_round_trip {
            return rtt.srtt_or_zero();
        }
        let min_rtt = rtt.min().unwrap_or(Duration::ZERO);
        (min_rtt / 4 * u64::from(self.rack.reo_mult)).min(rtt.srtt_or_zero())
    }

    /// Returns the duration after its transmission from which a segment overtaken by a later one is lost. It
    /// is never zero, whatever an acknowledgement reports: the segment would be retransmitted and marked lost
    /// in an endless loop.
    fn loss_window(&self, board: &Scoreboard, rtt: &RttEstimator) -> Duration {
        (self.rack.rtt + self.reordering_window(board, rtt)).max(Duration::from_nanos(1))
    }

    /// True if nothing outstanding was sent before the newest delivered segment, so that nothing can be lost
    /// by RFC 8985 or wait for the end of its reordering window. First transmissions are sent in the order of
    /// the records, so checking the first one suffices.
    #[inline]
    pub(in crate::subflow) fn none_overtaken(&self, board: &Scoreboard) -> bool {
        self.rack.resent.is_empty() && self.none_overtaken_from(board.records().front())
    }

    /// [`Recovery::none_overtaken`] without retransmissions, for a scoreboard that begins with `first`.
    #[inline]
    pub(in crate::subflow) fn none_overtaken_from(&self, first: Option<&Sent>) -> bool {
        first.is_none_or(|first| {
            !first.retransmitted() && (first.sent, first.end()) >= (self.rack.sent, self.rack.end)
        })
    }

    /// Runs RFC 8985 section 6.2 step 5; returns true if something is newly lost.
    #[inline]
    pub(super) fn detect(
        &mut self,
        now: Time,
        board: &mut Scoreboard,
        rtt: &RttEstimator,
        lost: &mut impl FnMut(&Sent),
    ) -> bool {
        !self.none_overtaken(board) && self.detect_overtaken(now, board, rtt, lost)
    }

    #[inline(never)]
    fn detect_overtaken(
        &mut self,
        now: Time,
        board: &mut Scoreboard,
        rtt: &RttEstimator,
        lost: &mut impl FnMut(&Sent),
    ) -> bool {
        let mut found = false;
        let window = self.loss_window(board, rtt);
        let newest = (self.rack.sent, self.rack.end);
        let mut at = board.index_of(self.rack.scan.max(board.una()));
        while let Some(record) = board.records().get(at) {
            let end = record.end();
            if !record.retransmitted() {
                if (record.sent, end) >= newest {
                    break;
                }
                if record.is_in_flight() {
                    // Segments first sent later have a window that ends later.
                    if record.sent + window > now {
                        break;
                    }
                    lost(record);
                    board.mark_lost(at);
                    found = true;
                }
            }
            self.rack.scan = end;
            at += 1;
        }
        while let Some(&(sent, seq)) = self.rack.resent.front() {
            let at = board.index_of(seq);
            // An acknowledgement may have removed its start, so the record is the rest of it.
            let current =
                board.records().get(at).filter(|record| record.sent == sent && record.is_in_flight());
            let Some(record) = current else {
                self.rack.resent.pop_front();
                continue;
            };
            if (sent, record.end()) >= newest || sent + window > now {
                break;
            }
            lost(record);
            board.mark_lost(at);
            found = true;
            self.rack.resent.pop_front();
        }
        found
    }

    /// Handles the reordering timer: marks segments lost and starts a recovery if required.
    pub(in crate::subflow) fn on_reordering_timer(
        &mut self,
        now: Time,
        board: &mut Scoreboard,
        rtt: &RttEstimator,
        mut lost: impl FnMut(&Sent),
    ) -> bool {
        let found = self.detect(now, board, rtt, &mut lost);
        if found && self.state == RecoveryState::Open {
            self.enter(board);
            return true;
        }
        false
    }

    /// Rebuilds the list of retransmissions after an undo: the ones that had been marked lost are in flight
    /// again, and may still be lost.
    pub(super) fn watch_retransmissions(&mut self, board: &Scoreboard) {
        if self.detection == LossDetection::RackTlp {
            let again =
                board.records().iter().filter(|record| record.retransmitted() && record.is_in_flight());
            self.rack.resent = again.map(|record| (record.sent, record.seq)).collect();
            self.rack.resent.make_contiguous().sort_unstable();
        }
    }

    /// Returns the end of the last reordering window of the segments sent before the newest delivered one.
    #[inline]
    pub(super) fn pending_reordering(&self, board: &Scoreboard, rtt: &RttEstimator) -> Option<Time> {
        if self.none_overtaken(board) { None } else { self.last_window_end(board, rtt) }
    }

    #[cold]
    fn last_window_end(&self, board: &Scoreboard, rtt: &RttEstimator) -> Option<Time> {
        let newest = (self.rack.sent, self.rack.end);
        let window = self.loss_window(board, rtt);
        let mut deadline = None;
        let start = board.index_of(self.rack.scan.max(board.una()));
        for record in board.records().iter().skip(start) {
            if !record.retransmitted() {
                if (record.sent, record.end()) >= newest {
                    break;
                }
                if record.is_in_flight() {
                    deadline = deadline.max(Some(record.sent + window));
                }
            }
        }
        if let Some(&(sent, seq)) = self.rack.resent.front() {
            let record = board.records().get(board.index_of(seq));
            if record.is_some_and(|r| r.sent == sent && r.is_in_flight() && (sent, r.end()) < newest) {
                deadline = deadline.max(Some(sent + window));
            }
        }
        deadline
    }
}
