//! The fast paths of a subflow, each named after the function that it must equal; `Connection::fast_paths`
//! disables them.

use anabranch_units::Time;

use super::Subflow;
use super::acknowledge::{Acked, one_way_delay_us};
use super::defer::Deferral;
use super::queue::Queued;
use super::scoreboard::{Sent, SentMapping};
use super::send::{Train, new_record};
use crate::congestion::CongestionControl;
use crate::scheduler::AssignKind;
use crate::segment::{Flags, Segment};
use crate::timestamp::TimestampTick;

/// Whether the fast paths are used. Without them the results are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FastPaths {
    On,
    Off,
}

impl Subflow {
    /// Does the work of [`Subflow::acknowledge`] for a segment that acknowledges whole segments that were sent once, and
    /// reports nothing else, on a subflow where nothing is lost, missing or suspected, before and after it.
    #[inline(always)]
    pub(crate) fn fast_acknowledge(
        &mut self,
        now: Time,
        tick: TimestampTick,
        segment: &Segment,
    ) -> Option<Acked> {
        let (ack, una) = (self.ack_offset(segment), self.board.una());
        if ack <= una as i64
            || !segment.options.sack.is_empty()
            || self.ecn.is_agreed()
            || !self.recovery.is_quiet()
        {
            return None;
        }
        let ack = ack as u64;
        // First transmissions are sent in the order of the records: those acknowledged overtake nothing after them.
        let next = self.board.after_plain(ack)?;
        if !self.recovery.none_overtaken_from(next) {
            return None;
        }
        self.update_window(segment, ack);
        let unacked = self.board.nxt() - una;
        let mut acked = Acked {
            advanced: ack - una,
            acked_bytes: ack - una,
            flight_before: unacked.max(self.board.in_flight()),
            recover_bytes: unacked.saturating_sub(self.board.sacked_bytes()),
            first_lost: u64::MAX,
            ..Acked::default()
        };
        let Subflow { board, rate, recovery, .. } = self;
        let (mut oldest, mut newest) = (now, now);
        board.acknowledge_plain(ack, |record| {
            if acked.acked_segments == 0 {
                oldest = record.sent;
            }
            newest = record.sent;
            acked.acked_segments += 1;
            rate.on_delivered(now, record.space(), record.sent, &record.stamp);
            recovery.on_delivered_once(now, record);
        });
        debug_assert!(recovery.none_overtaken(board));
        let latest = now.since(newest);
        if acked.acked_segments > 1
            && let Some(timestamps) = segment.options.timestamps.filter(|_| self.timestamps)
        {
            acked.one_way_delay_us = Some(one_way_delay_us(tick, timestamps.value, now - latest));
            self.one_way_delay_us = acked.one_way_delay_us;
        }
        self.rtt.sample(now.since(oldest), ack, self.board.nxt());
        self.recovery.on_rtt_sample();
        acked.rtt = Some(latest);
        self.recovery.on_progress();
        self.note_round(&mut acked);
        self.after_advance(now, &mut acked);
        self.buffer_checked = false;
        Some(acked)
    }

    /// Sends a full segment of new data from the queue, if nothing is to be repaired, probed or reset, data is
    /// in flight, and the windows admit it: the work of [`Subflow::next`] and [`Subflow::send_new`] in that
    /// case, if segments are not paced. The data is acknowledged up to `una`; a train ends with PSH if `push`. `deferral`
    /// says what may be deferred.
    #[inline]
    pub(crate) fn fast_send_new<C: CongestionControl>(
        &mut self,
        now: Time,
        una: u64,
        burst: u32,
        push: bool,
        deferral: Deferral,
        congestion: &mut C,
    ) -> Option<(Sent, Train)> {
        let Queued { range, kind } = self.queue.front()?;
        let (seq, in_flight) = (self.board.nxt(), self.in_flight());
        let len = u64::from(self.mss);
        let usual = self.state.is_flowing()
            && !self.handshake.is_due()
            && !self.tail_probe_wanted
            && !self.underused
            && self.board.lost_segments() == 0
            && !self.path_mtu.is_searching(now)
            && burst <= self.mss;
        let whole = kind == AssignKind::New && range.start >= una && range.len() >= len;
        let space = in_flight > 0 && in_flight + len <= self.cwnd && self.window() >= len;
        if !usual || !whole || !space {
            return None;
        }
        if self.should_defer(now, deferral, congestion) {
            return None;
        }
        self.count_new_data(now, len, 1);
        let mapping = SentMapping { back: 0, len: len as u16, data_fin: false, checksum: 0 };
        let record = Sent { len: len as u32, data: range.start, mapping, ..new_record(seq, now) };
        self.record_sent(now, record);
        let train = if push { self.train_after(now, len, congestion) } else { Train::GoesOn };
        self.after_data(now, len, false, congestion);
        Some((record, train))
    }

    /// Returns the offsets of a segment that carries the next data of an established subflow, of MPTCP or not, if
    /// nothing is in flight and nothing is held, and the segment has no news about the sending half.
    #[inline]
    pub(crate) fn fast_judge_segment(&self, segment: &Segment, mptcp: bool) -> Option<NextSegment> {
        let una = self.board.una();
        let start = self.recv.nxt();
        let settled = self.board.is_empty() && segment.ack == self.iss.add(una);
        let expected = segment.seq == self.recv.ack() && self.recv.is_complete();
        let usual = self.state.is_flowing() && self.held.is_none() && !self.ecn.is_agreed();
        if !settled || !expected || !usual {
            return None;
        }
        let newer = segment.options.timestamps;
        if newer.is_some_and(|newer| (newer.value.wrapping_sub(self.ts_recent) as i32) < 0) {
            return None;
        }
        let window = self.scaled_window(segment);
        // A mapping of exactly the segment, with none known before; the first data acknowledgement on a subflow may
        // shorten the wait for the head of the stream.
        let mappable = !mptcp || (self.dss_seen && self.mappings.is_empty());
        (una + window <= self.window_edge && mappable).then_some(NextSegment { una, start, window })
    }

    /// Processes the header of such a segment; `mptcp` is true if it has a mapping.
    #[inline]
    pub(crate) fn fast_on_received(&mut self, now: Time, segment: &Segment, next: NextSegment, mptcp: bool) {
        if let Some(newer) = segment.options.timestamps
            && next.start <= self.recv.last_ack_sent()
        {
            self.ts_recent = newer.value;
            self.ts_recent_at = now;
        }
        self.on_received(now);
        self.max_window = self.max_window.max(next.window);
        if mptcp {
            self.bare = false;
            self.data_ack_missed = false;
        }
    }

    /// Receives the next `len` bytes, if nothing is missing before them: the work of [`Subflow::begin_payload`] and
    /// [`Subflow::place`]. `stream` returns the number of bytes that are new in the stream, and so does this.
    #[inline]
    pub(crate) fn fast_place(&mut self, now: Time, len: u64, stream: impl FnOnce() -> u64) -> u64 {
        let full_sized = self.recv.measure(now, len as u32, self.mss);
        self.recv.take_expected(now, len, full_sized);
        self.counters.data_segments_received += 1;
        let delivered = stream();
        self.count_delivered(delivered, len);
        delivered
    }

    /// True if an acknowledgement is due, and nothing else but data is to be sent.
    #[inline]
    pub(crate) fn fast_is_ack_due(&self) -> bool {
        let usual = self.state.is_flowing()
            && !self.handshake.is_due()
            && !self.probe_wanted
            && !self.signals.may_leave();
        usual && self.recv.is_ack_due()
    }

    /// Returns the place of a segment that carries the next payload, if nothing is missing before it, nothing is held,
    /// and no end is known.
    #[inline]
    pub(crate) fn fast_expects(&self, segment: &Segment) -> Option<Expected> {
        let expected = segment.seq == self.recv.ack()
            && !segment.flags.has(Flags::FIN)
            && segment.payload_len > 0
            && self.recv.is_complete()
            && self.held.is_none();
        let (start, mapped) = (self.recv.nxt(), !self.mappings.is_empty());
        expected.then_some(Expected { start, mapped })
    }
}

/// The place of a segment with the next payload.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// The offset of its first byte in the subflow.
    pub start: u64,
    /// True if mappings are known that extend beyond their segments.
    pub mapped: bool,
}

/// The offsets of a segment for the fast path, and the window it advertises.
#[derive(Clone, Copy)]
pub(crate) struct NextSegment {
    /// The first offset not acknowledged.
    pub una: u64,
    /// The start of the segment.
    pub start: u64,
    /// The peer's window.
    pub window: u64,
}
