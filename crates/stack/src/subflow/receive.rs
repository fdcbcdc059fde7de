//! The receiving half of a subflow: which segments are acceptable, their timestamps and payload, and acknowledgements.

use anabranch_units::{Duration, Time};

use super::Subflow;
use super::held::Held;
use super::mappings::Mappings;
use super::recv::{AckDue, Receiver};
use crate::segment::{Flags, Segment};
use crate::seq::DataRange;
use crate::timestamp::TimestampTick;

/// A subflow accepts payload this far ahead of what it has: RFC 7323's largest window. What is too
/// far ahead at the data level is refused there (RFC 8684 section 3.3.5; Linux sends beyond a
/// subflow's own window, so this is no place to be strict).
const SUBFLOW_WINDOW: u64 = 65_535 << 14;

/// How long a peer's timestamp tells old from new. Nobody says how often its clock ticks: this is half the time
/// in which one in microseconds wraps, and a little less. No segment lives as long, so that the 24 days of RFC
/// 7323 section 5.5, for clocks that tick less often, would protect from nothing more.
const TIMESTAMP_MEMORY: Duration = Duration::from_secs(2000);

/// The answer to a segment by RFC 9293 section 3.10.7.4, first to fourth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acceptance {
    /// It is processed further.
    Accepted,
    /// It is dropped; what is due for it is noted.
    Dropped,
    /// It is dropped, and a challenge ACK is due (RFC 5961).
    Challenged,
    /// It is a SYN in a synchronised state, most likely a SYN/ACK whose acknowledgement was lost: a challenge ACK is due.
    Syn,
    /// It is a valid reset.
    Reset,
}

impl Subflow {
    /// Judges the sequence number, RST, SYN and timestamp of a segment that starts at `offset` (RFC 9293 section
    /// 3.10.7.4, first to fourth), with the challenge ACKs of RFC 5961.
    #[inline]
    pub(crate) fn judge_segment(
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
            // A keepalive or window probe: it wants an answer.
            self.recv.want_ack();
        }
        if let Some(timestamps) = segment.options.timestamps {
            // RFC 7323 section 4.3: the timestamp to echo is that of the segment that the last
            // acknowledgement waits for, so that a delayed acknowledgement measures the delay too.
            let newer_by = timestamps.value.wrapping_sub(self.ts_recent) as i32;
            // RFC 7323 section 5.5: after so long a silence any timestamp is a new one.
            let forgotten = now.since(self.ts_recent_at) >= TIMESTAMP_MEMORY;
            let last_ack = self.recv.last_ack_sent() as i64;
            if (newer_by >= 0 || forgotten) && offset <= last_ack {
                self.ts_recent = timestamps.value;
                self.ts_recent_at = now;
            }
            // RFC 7323 section 5: an older timestamp is an old duplicate whose number has wrapped, unless
            // it is the clock that has. As Linux, a pure acknowledgement may have been overtaken.
            if newer_by < 0 && !forgotten && self.timestamps {
                // As if the peer's clock ticked like ours, as Linux takes it.
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

    /// Notes that something acceptable has arrived.
    #[inline]
    pub(crate) fn on_received(&mut self, now: Time) {
        self.last_received = now;
        self.removal_deadline = Time::NEVER;
    }

    /// When something acceptable last arrived.
    #[inline]
    pub(crate) fn last_received(&self) -> Time {
        self.last_received
    }

    /// Takes in the congestion mark of a segment, and the answer to ours.
    #[inline]
    pub(crate) fn on_marks(&mut self, segment: &Segment) {
        self.ecn.on_received(segment);
    }

    /// Acknowledges a segment that was received before, and counts its payload as a duplicate. Returns true if it has any.
    #[cold]
    pub(crate) fn discard_old(&mut self, now: Time, segment: &Segment) -> bool {
        self.recv.want_ack();
        let start = self.seq_offset(segment);
        if segment.payload_len == 0 || start < 0 {
            return false;
        }
        let range = DataRange::new(start as u64, start as u64 + u64::from(segment.payload_len));
        self.recv.arrive(now, range, false, false, |_| ());
        self.counters.data_segments_received += 1;
        self.counters.bytes_duplicate += range.len();
        true
    }

    /// Takes a segment in TIME-WAIT (RFC 9293 section 3.10.7.4): the peer's FIN again shows that our acknowledgement was
    /// lost, and starts the wait of `time_wait` anew. So does a DATA_FIN (RFC 8684 section 3.3.3). Returns true if a reset
    /// ends it (RFC 5961 section 3.2).
    #[cold]
    pub(crate) fn on_segment_in_time_wait(
        &mut self,
        now: Time,
        time_wait: Duration,
        segment: &Segment,
    ) -> bool {
        if segment.flags.has(Flags::RST) {
            return self.seq_offset(segment) == self.recv.nxt() as i64;
        }
        let data_fin = segment.options.dss.is_some_and(|dss| dss.data_fin);
        if segment.seq_len() > 0 || data_fin {
            self.recv.want_ack();
        }
        if segment.flags.has(Flags::FIN) {
            self.enter_time_wait(now + time_wait);
        }
        false
    }

    /// The receiver.
    #[inline]
    pub fn recv(&self) -> &Receiver {
        &self.recv
    }

    /// Requests an acknowledgement at once.
    #[inline]
    pub(crate) fn want_ack(&mut self) {
        self.recv.want_ack();
    }

    /// True if an acknowledgement is due at once.
    #[inline]
    pub(crate) fn is_ack_due(&self) -> bool {
        self.recv.due() == AckDue::Now
    }

    /// Counts a segment with payload.
    #[inline]
    pub(crate) fn count_data_segment(&mut self) {
        self.counters.data_segments_received += 1;
    }

    /// Counts payload: so much was delivered to the stream, and so much was there before.
    #[inline]
    pub(crate) fn count_delivered(&mut self, delivered: u64, duplicate: u64) {
        self.counters.bytes_delivered += delivered;
        self.counters.bytes_duplicate += duplicate;
    }

    /// Takes the payload `range` of a segment, and the FIN after it if there is one; `fresh` receives each part that was
    /// not there before.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        segment: &Segment,
        range: DataRange,
        fin: bool,
        fresh: impl FnMut(DataRange),
    ) {
        let full_sized = self.recv.measure(now, segment.payload_len, self.mss);
        self.recv.arrive(now, range, fin, full_sized, fresh);
    }

    /// A segment that ends a burst of its sender has brought what comes next in the stream, and the application has
    /// read all of it.
    #[inline]
    pub(crate) fn on_pushed(&mut self) {
        self.recv.on_pushed();
    }

    /// Takes a sample of the round trip at the receiver: `elapsed` since the timestamp `echo` was sent.
    #[inline]
    pub(crate) fn sample_arrival(&mut self, echo: u32, elapsed: Duration) {
        self.recv.growth.sample(echo, elapsed);
    }

    /// Widens the window that it offers, after the application has read so many bytes in a round trip.
    pub(crate) fn widen_window(&mut self, read: u64, most: u64) {
        self.recv.growth.widen(read, most);
    }

    /// Takes payload again that is there already, and a FIN.
    pub(crate) fn arrive_again(&mut self, now: Time, range: DataRange, fin: bool) {
        self.recv.arrive(now, range, fin, false, |_| ());
        self.counters.bytes_duplicate += range.len();
    }

    /// Payload that cannot be delivered yet.
    #[inline]
    pub(crate) fn held(&self) -> Option<&Held> {
        self.held.as_deref()
    }

    /// The same, to change it.
    pub(crate) fn held_mut(&mut self) -> Option<&mut Held> {
        self.held.as_deref_mut()
    }

    /// Where payload is held, if necessary from now on.
    pub(crate) fn hold(&mut self) -> &mut Held {
        self.held.get_or_insert_default()
    }

    /// Takes in the payload `range` of a segment whose place in the stream is not known; its sum is `sum`. `fresh` receives
    /// each part that was not there before.
    pub(crate) fn arrive_held(
        &mut self,
        now: Time,
        segment: &Segment,
        range: DataRange,
        sum: u16,
        mut fresh: impl FnMut(DataRange),
    ) {
        let fin = segment.flags.has(Flags::FIN);
        let bare = segment.options.are_bare();
        let full_sized = self.recv.measure(now, segment.payload_len, self.mss);
        let held = self.held.get_or_insert_default();
        self.recv.arrive(now, range, fin, full_sized, |part| {
            held.insert(super::held::Piece { range: part, sum, done: false, bare });
            fresh(part);
        });
    }

    /// Takes all held payload out.
    pub(crate) fn take_held(&mut self) -> Option<Box<Held>> {
        self.held.take()
    }

    /// Holds what is left of it.
    pub(crate) fn put_held(&mut self, held: Box<Held>) {
        self.held = Some(held);
    }

    /// Forgets held payload that is of no use any more.
    pub(crate) fn prune_held(&mut self) {
        if let Some(held) = &mut self.held {
            held.prune(self.recv.nxt());
            if held.pieces.is_empty() && held.claims.is_empty() {
                self.held = None;
            }
        }
    }

    /// The mappings that reach beyond their segments.
    #[inline]
    pub(crate) fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// Forgets all of them.
    pub(crate) fn clear_mappings(&mut self) {
        self.mappings.clear();
    }

    /// Forgets those of what has arrived in order.
    #[inline]
    pub(crate) fn forget_used_mappings(&mut self) {
        if !self.mappings.is_empty() {
            self.mappings.forget_before(self.recv.nxt());
        }
    }

    /// Notes that a data acknowledgement has come by it. True if it is the first.
    #[inline]
    pub(crate) fn note_data_ack(&mut self, segment: &Segment) -> bool {
        let first = !core::mem::replace(&mut self.dss_seen, true);
        // One that was overtaken shows nothing of what the peer speaks now.
        self.bare &= segment.ack != self.iss.add(self.board.una());
        first
    }

    /// True if a data acknowledgement has come by it.
    #[inline]
    pub(crate) fn has_seen_dss(&self) -> bool {
        self.dss_seen
    }

    /// True if the last segment had no MPTCP option.
    #[inline]
    pub(crate) fn is_bare(&self) -> bool {
        self.bare
    }

    /// Notes that a segment without any MPTCP option has arrived, where one was to be expected.
    pub(crate) fn note_bare(&mut self) {
        self.bare = true;
    }

    /// True if nothing more is expected from the peer than its FIN, and that has come (in order).
    #[inline]
    pub(crate) fn has_ended_in_order(&self) -> bool {
        self.recv.finished() && self.awaits_fin()
    }
}
