//! The receiving half of a subflow: acceptability of segments, their timestamps and payload, and
//! acknowledgements.

use anabranch_units::{Duration, Time};

use super::held::Held;
use super::queue::Queued;
use super::recv::Receiver;
use super::timer_table::Timer;
use super::{Ending, Subflow};
use crate::segment::{Flags, Segment};
use crate::seq::DataRange;
use crate::timestamp::TimestampTick;

/// The distance from the received data up to which a subflow accepts payload: RFC 7323's largest window.
/// Payload too far ahead at the data level is refused there (RFC 8684 section 3.3.5; Linux sends beyond a
/// subflow's own window, so a strict check is impossible here).
const SUBFLOW_WINDOW: u64 = 65_535 << 14;

/// The time for which a peer's timestamp distinguishes old from new. The tick of its clock is unknown: this
/// is slightly less than half of the wrap time of a microsecond clock. No segment lives that long, so the 24
/// days of RFC 7323 section 5.5, for slower clocks, would protect no better.
const TIMESTAMP_MEMORY: Duration = Duration::from_secs(2000);

/// The outcome of RFC 9293 section 3.10.7.4, first to fourth, for a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acceptance {
    /// The segment is processed further.
    Accepted,
    /// The segment is dropped, after that was recorded that it shows; an answer is recorded if due.
    Dropped,
    /// The segment is dropped, and a challenge ACK is due (RFC 5961).
    Challenged,
    /// The segment is a SYN in a synchronised state, most likely a SYN/ACK after the loss of its
    /// acknowledgement: a challenge ACK is due.
    Syn,
    /// The segment is a valid reset.
    Reset,
    /// All of the segment was received before, and is acknowledged again. This number of bytes of its payload is
    /// discarded.
    Old(u32),
}

/// The answer to a late segment of the peer in TIME-WAIT (RFC 9293 section 3.10.7.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Late {
    /// None.
    Ignored,
    /// An acknowledgement.
    Answered,
    /// An acknowledgement, and that the wait begins again: a repeated FIN shows that its acknowledgement was lost.
    Restarts,
    /// The subflow ends.
    Ends,
}

impl Late {
    /// `is_next` is true if the segment begins with the next sequence number of the peer.
    pub(crate) fn of(segment: &Segment, is_next: bool) -> Late {
        let Segment { flags, .. } = *segment;
        // A repeated DATA_FIN has lost its acknowledgement too (RFC 8684 section 3.3.3).
        let data_fin = segment.options.dss.is_some_and(|dss| dss.data_fin);
        match () {
            // RFC 5961 section 3.2.
            () if flags.has(Flags::RST) && is_next => Late::Ends,
            () if flags.has(Flags::RST) => Late::Ignored,
            () if flags.has(Flags::FIN) => Late::Restarts,
            () if segment.seq_len() > 0 || data_fin => Late::Answered,
            () => Late::Ignored,
        }
    }
}

/// The signs by which a peer shows on a subflow whether it uses MPTCP there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeerSigns {
    /// It has sent a data acknowledgement.
    OfMptcp,
    /// It has acknowledged data without ever sending one.
    OfTcp,
    /// It has acknowledged no data.
    Nothing,
}

/// How far a subflow has come in both directions.
pub(crate) struct Position {
    /// The offset up to which the sent data is acknowledged.
    pub acked: u64,
    /// The peer's window from there.
    pub window: u64,
    /// The offset up to which everything was received.
    pub received: u64,
    /// True if that includes the peer's FIN.
    pub finished: bool,
}

impl Subflow {
    /// Checks the sequence number, RST, SYN, timestamp and ACK of a received segment, and records what an
    /// acceptable one shows of the path.
    #[inline]
    pub(crate) fn accept(&mut self, now: Time, tick: TimestampTick, segment: &Segment) -> Acceptance {
        let offset = self.seq_offset(segment);
        let acceptance = self.judge_segment(now, tick, segment, offset);
        if acceptance != Acceptance::Accepted {
            return acceptance;
        }
        if self.is_old(segment, offset) {
            return Acceptance::Old(self.discard_old(now, segment));
        }
        self.on_received(now);
        if !segment.flags.has(Flags::ACK) {
            return Acceptance::Dropped;
        }
        self.ecn.on_received(segment);
        Acceptance::Accepted
    }

    /// Checks the sequence number, RST, SYN and timestamp of a segment that starts at `offset` (RFC 9293
    /// section 3.10.7.4, first to fourth), with the challenge ACKs of RFC 5961.
    #[inline]
    fn judge_segment(
        &mut self,
        now: Time,
        tick: TimestampTick,
        segment: &Segment,
        offset: i64,
    ) -> Acceptance {
        let next = self.recv.nxt() as i64;
        let beyond = offset > next + SUBFLOW_WINDOW as i64;
        if beyond && !segment.flags.has(Flags::RST) {
            return Acceptance::Challenged;
        }
        if segment.flags.has(Flags::RST) {
            return match offset {
                _ if offset == next => Acceptance::Reset,
                _ if offset > next && !beyond => Acceptance::Challenged,
                _ => Acceptance::Dropped,
            };
        }
        if segment.flags.has(Flags::SYN) {
            return Acceptance::Syn;
        }
        if segment.seq_len() == 0 && offset == next - 1 {
            // A keepalive or window probe: it requires an answer.
            self.recv.want_ack();
        }
        if let Some(timestamps) = segment.options.timestamps {
            // RFC 7323 section 4.3: the timestamp to echo is from the segment for which the last
            // acknowledgement waits, so that the measurement includes the delay of a delayed acknowledgement.
            let newer_by = timestamps.value.wrapping_sub(self.ts_recent) as i32;
            // RFC 7323 section 5.5: after such a silence any timestamp is new.
            let forgotten = now.since(self.ts_recent_at) >= TIMESTAMP_MEMORY;
            let last_ack = self.recv.last_ack_sent() as i64;
            if (newer_by >= 0 || forgotten) && offset <= last_ack {
                self.ts_recent = timestamps.value;
                self.ts_recent_at = now;
            }
            // RFC 7323 section 5: an older timestamp is from an old duplicate after its number has wrapped,
            // unless the clock has wrapped. As in Linux, a pure acknowledgement may have been overtaken.
            if newer_by < 0 && !forgotten && self.timestamps {
                // As if the peer's clock had the local tick, as Linux assumes.
                let late = tick.span(newer_by.unsigned_abs());
                let overtaken = segment.seq_len() == 0 && offset == next && late <= self.rtt.rto(0);
                let old = offset + (segment.seq_len() as i64) < last_ack;
                if !overtaken && !old {
                    self.recv.want_ack();
                    return Acceptance::Dropped;
                }
            }
        }
        Acceptance::Accepted
    }

    /// True if all of a segment, which starts at `offset`, precedes the acknowledged data. It is not
    /// acceptable, and neither its acknowledgement nor its options are used (RFC 9293 section 3.10.7.4,
    /// first; RFC 8684 sections 3.4 and 3.5). The limit is the last acknowledgement sent: a segment reordered
    /// since is accepted, as in Linux.
    #[inline]
    fn is_old(&self, segment: &Segment, offset: i64) -> bool {
        offset + (segment.seq_len() as i64) < self.recv.last_ack_sent() as i64
    }

    /// Records that an acceptable segment was received.
    #[inline]
    pub(super) fn on_received(&mut self, now: Time) {
        self.last_received = now;
        self.timers.disarm(Timer::Withdrawal);
    }

    /// Returns the time of the last acceptable segment.
    #[inline]
    pub(crate) fn last_received(&self) -> Time {
        self.last_received
    }

    /// Acknowledges a segment that was received before, and counts its payload as a duplicate. Returns the
    /// length of that.
    #[cold]
    fn discard_old(&mut self, now: Time, segment: &Segment) -> u32 {
        self.recv.want_ack();
        let start = self.seq_offset(segment);
        if segment.payload_len == 0 || start < 0 {
            return 0;
        }
        let range = DataRange::new(start as u64, start as u64 + u64::from(segment.payload_len));
        self.recv.arrive(now, range, false, false, |_| ());
        self.counters.data_segments_received += 1;
        self.counters.bytes_duplicate += range.len();
        segment.payload_len
    }

    /// Processes a segment in TIME-WAIT, which lasts for `time_wait`.
    #[cold]
    pub(crate) fn on_segment_in_time_wait(
        &mut self,
        now: Time,
        time_wait: Duration,
        segment: &Segment,
    ) -> Ending {
        match Late::of(segment, self.seq_offset(segment) == self.recv.nxt() as i64) {
            Late::Ignored => {}
            Late::Ends => return Ending::Done,
            Late::Answered => self.recv.want_ack(),
            Late::Restarts => {
                self.recv.want_ack();
                self.enter_time_wait(now + time_wait);
            }
        }
        Ending::Continues
    }

    #[inline]
    pub(crate) fn recv(&self) -> &Receiver {
        &self.recv
    }

    #[inline]
    pub(crate) fn recv_mut(&mut self) -> &mut Receiver {
        &mut self.recv
    }

    /// True if every byte that has arrived was received once, held or in the stream, which has `nxt` bytes in
    /// order and `out_of_order` beyond a hole, and no held byte is at a place that the stream has passed by
    /// another mapping.
    pub(crate) fn receives_in_order(&self, nxt: u64, out_of_order: u64) -> bool {
        let held = self.held.as_deref();
        if held.and_then(Held::start).is_some_and(|start| start <= nxt) {
            return false;
        }
        let taken = self.recv.total() - u64::from(self.recv.finished());
        nxt + out_of_order + held.map_or(0, Held::bytes) + 1 == taken
    }

    /// Discards what only a subflow of MPTCP has: signals, mappings, and the withdrawal of its address. Its
    /// queue is recalled, and assigned again in order: `recalled` receives it. Returns where it is in both
    /// directions.
    pub(crate) fn leave_mptcp(&mut self, recalled: impl FnMut(Queued)) -> Position {
        self.queue.empty(|_| true, recalled);
        self.signals.clear();
        self.mappings.clear();
        self.timers.disarm(Timer::Withdrawal);
        let una = self.board.una();
        Position {
            acked: una,
            window: self.window_edge.saturating_sub(una),
            received: self.recv.nxt(),
            finished: self.recv.finished(),
        }
    }

    /// Records that a data acknowledgement was received on it. Returns true if it is the first.
    #[inline]
    pub(crate) fn note_data_ack(&mut self, segment: &Segment) -> bool {
        let first = !core::mem::replace(&mut self.dss_seen, true);
        // An overtaken one does not show the current state of the peer.
        let overtaken = segment.ack != self.iss.add(self.board.una());
        self.bare &= overtaken;
        self.data_ack_missed &= overtaken;
        first
    }

    /// Records that a segment has acknowledged data of the subflow without a data acknowledgement.
    #[cold]
    pub(crate) fn note_missed_data_ack(&mut self) {
        self.data_ack_missed = true;
    }

    /// True if the peer may have acknowledged, at the data level, all that it has acknowledged on the subflow: a data
    /// acknowledgement that was sent with the subflow's, or after it, has not arrived.
    #[inline]
    pub(crate) fn has_missed_data_ack(&self) -> bool {
        self.data_ack_missed
    }

    /// True if a data acknowledgement was received on it.
    #[inline]
    pub(crate) fn has_seen_dss(&self) -> bool {
        self.dss_seen
    }

    /// True if the last segment had no MPTCP option.
    #[inline]
    pub(crate) fn is_bare(&self) -> bool {
        self.bare
    }

    /// Handles a segment without any MPTCP option, where one was expected if the peer is `silent`. Returns the signs
    /// that the peer has given on the subflow.
    pub(crate) fn on_bare(&mut self, silent: bool) -> PeerSigns {
        self.bare |= silent;
        if self.dss_seen {
            PeerSigns::OfMptcp
        } else if self.board.una() > 1 {
            PeerSigns::OfTcp
        } else {
            PeerSigns::Nothing
        }
    }

    /// True if only the peer's FIN is expected, and it was received (in order).
    #[inline]
    pub(crate) fn has_ended_in_order(&self) -> bool {
        self.recv.finished() && self.state.awaits_fin()
    }
}
