//! The receiving half of the data level: reassembly by data sequence number, and the window shared by all
//! subflows.

use anabranch_units::{Duration, Time};

use crate::config::ReceiveBuffer;
use crate::ranges::RangeSet;
use crate::seq::DataRange;
use crate::subflow::growth::{initial_space, wanted_buffer};
use crate::subflow::memory::{Buffer, Memory};

/// The receiving half of a connection. Offsets are in the peer's stream.
#[derive(Clone, Debug)]
pub(crate) struct RecvState {
    nxt: u64,
    consumed: u64,
    out_of_order: RangeSet,
    /// The offset of the peer's DATA_FIN (or FIN).
    fin: Option<u64>,
    /// The first offset never admitted.
    edge: u64,
    /// The buffer. If memory limits it, the window is the free part of the memory.
    buffer: Buffer,
    policy: ReceiveBuffer,
    /// The number of bytes after holes of the subflows: their memory is not the connection's.
    held_below: u32,
    /// The round trip at the last evaluation of the memory.
    rtt: Duration,
    /// The start of the current measuring interval, and the bytes received by then.
    measured_at: Time,
    measured: u64,
    last_per_rtt: u64,
    received_total: u64,
    /// The length of the last arrival if it was in order, else 0.
    last: u32,
    refused: u64,
}

impl RecvState {
    /// Returns a state with nothing received yet.
    pub(crate) fn new(policy: ReceiveBuffer) -> RecvState {
        let buffer = policy.initial().get();
        RecvState {
            nxt: 0,
            consumed: 0,
            out_of_order: RangeSet::new(),
            fin: None,
            edge: buffer,
            buffer: Buffer::new(buffer),
            policy,
            held_below: 0,
            rtt: Duration::ZERO,
            measured_at: Time::ZERO,
            measured: 0,
            last_per_rtt: 0,
            received_total: 0,
            last: 0,
            refused: 0,
        }
    }

    /// Returns the next offset expected in order.
    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Returns the offset of the data acknowledgement; the DATA_FIN counts as one.
    #[inline]
    pub(crate) fn ack_offset(&self) -> u64 {
        self.nxt + u64::from(self.finished())
    }

    /// Returns the number of bytes that can be read.
    pub(crate) fn readable(&self) -> u64 {
        self.nxt - self.consumed
    }

    /// Returns the number of bytes held out of order.
    pub(crate) fn out_of_order(&self) -> u64 {
        self.out_of_order.total()
    }

    /// True if the peer's stream has ended and all of it has arrived.
    pub(crate) fn finished(&self) -> bool {
        self.fin == Some(self.nxt)
    }

    /// Returns the end of the last admitted offset.
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// Returns the number of bytes that arrived beyond the right edge, and were dropped.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Admits data that was accepted before its place in the stream was known.
    pub(crate) fn extend_edge(&mut self, to: u64) {
        self.edge = self.edge.max(to);
    }

    /// Limits the initial window to `most` bytes.
    pub(crate) fn begin_with(&mut self, most: u64) {
        self.edge = self.edge.min(most);
    }

    /// Limits the window to the free part of this memory.
    pub(crate) fn limit_by(&mut self, memory: Option<Memory>) {
        self.buffer.limit_by(memory);
    }

    /// True if the window is the free part of the memory.
    #[inline]
    pub(crate) fn counts_memory(&self) -> bool {
        self.buffer.memory().is_some()
    }

    /// Starts the first measuring interval.
    pub(crate) fn on_established(&mut self, now: Time) {
        if self.buffer.memory().is_some() {
            self.measured_at = now;
        }
    }

    /// Sets the number of bytes that subflows hold after holes in their own sequence space.
    pub(crate) fn set_held_below(&mut self, bytes: u64) {
        self.held_below = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    /// Returns the right edge for which there is space, which may be left of the advertised one.
    #[inline]
    fn limit(&self) -> u64 {
        self.limit_with(0)
    }

    /// Returns the right edge for which there is space while the last `unread` bytes in order take memory.
    #[inline]
    fn limit_with(&self, unread: u64) -> u64 {
        match self.buffer.memory() {
            None => self.consumed + self.buffer.size(),
            Some(memory) => {
                let held = self.readable().max(unread)
                    + self.out_of_order().saturating_sub(u64::from(self.held_below));
                self.nxt + memory.free(held)
            }
        }
    }

    /// Returns the current size of the buffer.
    pub(crate) fn buffer(&self) -> u64 {
        self.buffer.size()
    }

    /// Records that the peer's stream ends at `offset`. The first value is final; returns false if this one
    /// contradicts it.
    pub(crate) fn set_fin(&mut self, offset: u64) -> bool {
        match self.fin {
            Some(known) => known == offset,
            None if offset >= self.nxt && self.out_of_order.last().is_none_or(|last| last.end <= offset) => {
                self.fin = Some(offset);
                true
            }
            None => false,
        }
    }

    /// Returns the next offset expected, if nothing is held after a hole and no end is known.
    #[inline]
    pub(crate) fn sole_next(&self) -> Option<u64> {
        (self.out_of_order.is_empty() && self.fin.is_none()).then_some(self.nxt)
    }

    /// True if `range` is the next of the stream, inside the window, with nothing held after a hole and no
    /// known end.
    #[inline]
    pub(crate) fn expects(&self, range: DataRange) -> bool {
        range.end <= self.edge && self.sole_next() == Some(range.start)
    }

    /// Receives the expected `range`: a cheaper [`RecvState::arrive`].
    #[inline]
    pub(crate) fn take_expected(&mut self, range: DataRange) {
        debug_assert!(self.expects(range));
        self.received_total += range.len();
        self.nxt = range.end;
        self.last = range.len() as u32;
    }

    /// Receives `range`; calls `fresh` with its new parts inside the window. Returns true if the in-order
    /// stream has grown.
    pub(crate) fn arrive(&mut self, range: DataRange, mut fresh: impl FnMut(DataRange)) -> bool {
        self.refused += range.end.saturating_sub(range.start.max(self.edge));
        let end = range.end.min(self.edge).min(self.fin.unwrap_or(u64::MAX));
        let range = DataRange::new(range.start.max(self.nxt), end);
        self.last = 0;
        if range.is_empty() {
            return false;
        }
        if range.start > self.nxt {
            // As many pieces as segments of 64 bytes would make; further ones will be retransmitted.
            let most = 1024 + (self.buffer() / 64) as usize;
            if self.out_of_order.is_full(range, most) {
                return false;
            }
            let mut new = 0;
            self.out_of_order.insert(range, |part| {
                new += part.len();
                fresh(part);
            });
            self.received_total += new;
            return false;
        }
        self.last = range.len() as u32;
        if self.out_of_order.is_empty() {
            fresh(range);
            self.received_total += range.len();
            self.nxt = range.end;
            return true;
        }
        let mut cursor = range.start;
        let mut new = 0;
        for held in self.out_of_order.as_slice() {
            if held.start >= range.end {
                break;
            }
            let gap = DataRange::new(cursor, held.start);
            if !gap.is_empty() {
                new += gap.len();
                fresh(gap);
            }
            cursor = cursor.max(held.end);
        }
        if cursor < range.end {
            new += range.end - cursor;
            fresh(DataRange::new(cursor, range.end));
        }
        self.received_total += new;
        self.nxt = range.end;
        while let Some(held) = self.out_of_order.pop_reached(self.nxt) {
            self.nxt = self.nxt.max(held.end);
        }
        true
    }

    /// Consumes `n` bytes that the application has read (at most those readable).
    pub(crate) fn consume(&mut self, n: u64) {
        self.consumed += n.min(self.readable());
    }

    /// Returns the window field for a subflow with the shift `scale`, relative to the data acknowledgement.
    ///
    /// The right edge never moves left (RFC 8684 section 3.3.4): the field is rounded up if rounding down
    /// would move it, as in Linux.
    pub(crate) fn window_field(&mut self, scale: u8) -> u16 {
        self.offer(scale, u64::MAX, 1, false)
    }

    /// Returns the window field for a subflow that advertises at most `most` bytes in segments of `mss` bytes,
    /// like [`RecvState::window_field`]. With `counts_last` the last arrival still takes memory, if that limits the window.
    #[inline(always)]
    pub(crate) fn offer(&mut self, scale: u8, most: u64, mss: u64, counts_last: bool) -> u16 {
        if self.buffer.memory().is_some() {
            return self.offer_of_memory(scale, most, mss, counts_last);
        }
        let limit = self.limit().min(self.nxt.saturating_add(most));
        let window = self.edge.max(limit).saturating_sub(self.nxt);
        let floor = window >> scale;
        let field = if self.nxt + (floor << scale) >= self.edge { floor } else { rounded_up(window, scale) };
        self.show(scale, field)
    }

    #[inline(never)]
    fn offer_of_memory(&mut self, scale: u8, most: u64, mss: u64, counts_last: bool) -> u16 {
        let unread = if counts_last { u64::from(self.last) } else { 0 };
        let limit = self.limit_with(unread).min(self.nxt.saturating_add(most));
        if limit <= self.edge && self.nxt > 0 {
            // `mptcp_set_rwin`: an edge that does not move is rounded to the left, and the peer keeps the old one.
            return ((self.edge - self.nxt) >> scale).min(u64::from(u16::MAX)) as u16;
        }
        // `__tcp_select_window`: a small fixed buffer, which needs no scale, is advertised in whole segments.
        let whole = matches!(self.policy, ReceiveBuffer::Fixed(_)) && scale == 0;
        let segment = mss.clamp(1, self.buffer.size().max(1));
        let limit = if whole { limit - (limit - self.nxt) % segment } else { limit };
        let edge = self.edge.max(limit);
        self.show(scale, rounded_up(edge - self.nxt, scale))
    }

    /// Records that a window of `field` units is advertised, or of as many as the field can hold. Returns those.
    #[inline]
    fn show(&mut self, scale: u8, field: u64) -> u16 {
        let field = field.min(u64::from(u16::MAX));
        self.edge = self.edge.max(self.nxt + (field << scale));
        field as u16
    }

    /// Returns the right edge of the window if it were advertised now.
    pub(crate) fn wanted_edge(&self) -> u64 {
        self.edge.max(self.limit())
    }

    /// True if the window has opened enough for an immediate update to the peer: by two segments or half the
    /// buffer (RFC 9293 section 3.8.6.2.2), after it was nearly closed.
    pub(crate) fn should_update(&self, mss: u64, most: u64) -> bool {
        let edge = self.limit().min(self.nxt.saturating_add(most));
        let gain = edge.saturating_sub(self.edge);
        let left = self.edge.saturating_sub(self.nxt);
        gain >= (2 * mss).min(self.buffer() / 2).max(1) && 2 * left < self.buffer()
    }

    /// Returns the maximum size of the buffer in bytes; `None` if its size is fixed.
    #[inline]
    pub(crate) fn autotuned_up_to(&self) -> Option<u64> {
        match self.policy {
            ReceiveBuffer::Auto { max, .. } => Some(max.get()),
            ReceiveBuffer::Fixed(_) => None,
        }
    }

    /// Autotunes the receive buffer: once per `rtt` (the largest of all subflows), to twice the data that
    /// arrived in that time, which is twice the sum of the bandwidths times the largest RTT.
    pub(crate) fn autotune(&mut self, now: Time, rtt: Duration, mss: u64) {
        let Some(max) = self.autotuned_up_to() else { return };
        if rtt.is_zero() || now.since(self.measured_at) < rtt {
            return;
        }
        let interval = now.since(self.measured_at);
        let arrived = self.received_total - self.measured;
        // A late measurement must not take the bytes of several round trips for one.
        let per_rtt = (u128::from(arrived) * u128::from(rtt.0) / u128::from(interval.0.max(1))) as u64;
        let mut wanted = per_rtt.saturating_mul(2).saturating_add(16 * mss);
        if self.last_per_rtt > 0 && per_rtt > self.last_per_rtt {
            // The measurement lags one round trip behind a sender that grows, so the growth is added in
            // proportion, as in Linux.
            let growth = u128::from(per_rtt - self.last_per_rtt);
            let extra = u128::from(wanted) * growth / u128::from(self.last_per_rtt);
            wanted = wanted.saturating_add(u64::try_from(extra).unwrap_or(u64::MAX));
        }
        self.last_per_rtt = per_rtt;
        self.buffer.grow(wanted.min(max));
        self.measured_at = now;
        self.measured = self.received_total;
    }
}

/// Returns the units of a window field of at least `window` bytes.
#[inline]
fn rounded_up(window: u64, scale: u8) -> u64 {
    (window + (1 << scale) - 1) >> scale
}

impl RecvState {
    /// Autotunes the receive buffer as Linux does: one `rtt` after the last measurement, the data read since
    /// is compared with the maximum of earlier intervals. Returns it if it is more (`tcp_rcv_space_adjust`).
    #[inline]
    pub(crate) fn right_size(&mut self, now: Time, rtt: Duration) -> Option<u64> {
        if rtt.is_zero() || now.since(self.measured_at) < rtt {
            return None;
        }
        let read = self.consumed - self.measured;
        (self.measured_at, self.measured) = (now, self.consumed);
        let before = self.last_per_rtt.max(initial_space());
        if read <= before {
            return None;
        }
        self.last_per_rtt = read;
        let wanted = wanted_buffer(read, before).min(self.policy.max().get());
        self.buffer.grow(wanted);
        Some(read)
    }

    /// True if the memory is due to be evaluated.
    #[inline]
    pub(crate) fn is_evaluation_due(&self, now: Time) -> bool {
        self.rtt.is_zero() || now.since(self.measured_at) >= self.rtt
    }

    /// Evaluates the memory after the application has read (`mptcp_rcv_space_adjust`): `measured` is true if
    /// every subflow has measured its own, and `rtt` is their longest round trip. One of that after the last
    /// measurement, the data read since is compared with the maximum of earlier intervals. Returns it if the
    /// memory has grown.
    pub(crate) fn evaluate_memory(&mut self, now: Time, rtt: Duration, measured: bool) -> Option<u64> {
        self.rtt = rtt;
        self.buffer.memory()?;
        self.buffer.set_measured(measured);
        let mut grown = None;
        if !rtt.is_zero() && now.since(self.measured_at) >= rtt {
            let read = self.consumed - self.measured;
            (self.measured_at, self.measured) = (now, self.consumed);
            let before = self.last_per_rtt.max(initial_space());
            if read > before {
                self.last_per_rtt = read;
                let wanted = wanted_buffer(read, before).min(self.policy.max().get());
                grown = self.buffer.grow(wanted).then_some(read);
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Bytes;

    fn state(buffer: u64) -> RecvState {
        RecvState::new(ReceiveBuffer::Fixed(Bytes(buffer)))
    }

    fn arrive(recv: &mut RecvState, start: u64, end: u64) -> Vec<DataRange> {
        let mut fresh = Vec::new();
        recv.arrive(DataRange::new(start, end), |part| fresh.push(part));
        fresh
    }

    #[test]
    fn each_byte_is_delivered_once_and_in_the_window_only() {
        let mut recv = state(1000);
        assert_eq!(arrive(&mut recv, 100, 200), [DataRange::new(100, 200)]);
        assert_eq!(arrive(&mut recv, 50, 250), [DataRange::new(50, 100), DataRange::new(200, 250)]);
        assert_eq!(arrive(&mut recv, 0, 60), [DataRange::new(0, 50)]);
        assert_eq!(recv.nxt(), 250);
        assert_eq!(arrive(&mut recv, 900, 1200), [DataRange::new(900, 1000)]);
        assert!(arrive(&mut recv, 1000, 1100).is_empty());
        assert_eq!(recv.refused(), 300);
    }

    #[test]
    fn data_received_before_its_place_was_known_is_admitted() {
        let mut recv = state(1000);
        recv.extend_edge(1500);
        recv.extend_edge(1200);
        assert_eq!(recv.edge(), 1500);
        assert_eq!(arrive(&mut recv, 1400, 1600), [DataRange::new(1400, 1500)]);
    }

    #[test]
    fn no_more_pieces_wait_than_segments_of_64_bytes_would_make() {
        let mut recv = state(6400);
        let taken = (0..3000).filter(|at| !arrive(&mut recv, 2 * at + 1, 2 * at + 2).is_empty()).count();
        assert_eq!(taken, 1024 + 100);
        // Data adjacent to a piece makes no further one.
        assert_eq!(arrive(&mut recv, 2, 3), [DataRange::new(2, 3)]);
    }

    #[test]
    fn expected_data_is_received_like_any_arrival() {
        let mut recv = state(1000);
        for (start, end, expected) in
            [(0, 100, true), (150, 200, false), (100, 120, false), (120, 150, false), (200, 1000, true)]
        {
            let range = DataRange::new(start, end);
            assert_eq!(recv.expects(range), expected, "{range:?}");
            let mut quick = recv.clone();
            recv.arrive(range, |_| ());
            if expected {
                quick.take_expected(range);
                assert_eq!(format!("{quick:?}"), format!("{recv:?}"));
            }
        }
        assert!(!recv.expects(DataRange::new(1000, 1001)), "outside the window");
        assert!(!recv.expects(DataRange::new(900, 1000)), "old");
        let mut ended = state(1000);
        assert!(ended.set_fin(100));
        assert!(!ended.expects(DataRange::new(0, 100)), "an end is known");
    }

    #[test]
    fn the_right_edge_never_moves_left() {
        let mut recv = state(1000);
        let mut edge = 0;
        for step in 0..50 {
            arrive(&mut recv, step * 17, step * 17 + 17);
            if step % 3 == 0 {
                recv.consume(30);
            }
            let field = u64::from(recv.window_field(4));
            let new = recv.nxt() + (field << 4);
            assert!(new >= edge);
            edge = new;
        }
    }

    #[test]
    fn the_end_of_the_stream_is_fixed_by_the_first_word() {
        let mut recv = state(1000);
        arrive(&mut recv, 0, 10);
        assert!(recv.set_fin(20));
        assert!(!recv.set_fin(30));
        assert!(!recv.finished());
        arrive(&mut recv, 10, 40);
        assert!(recv.finished());
        assert_eq!(recv.ack_offset(), 21);
    }

    #[test]
    fn autotuning_follows_the_arrivals_up_to_the_maximum() {
        let policy = ReceiveBuffer::Auto { initial: Bytes(10_000), max: Bytes(100_000) };
        let mut recv = RecvState::new(policy);
        arrive(&mut recv, 0, 10_000);
        recv.autotune(Time::from_millis(20), Duration::from_millis(20), 1000);
        assert_eq!(recv.buffer(), 36_000);
        recv.consume(10_000);
        recv.window_field(0);
        arrive(&mut recv, 10_000, 46_000);
        recv.autotune(Time::from_millis(40), Duration::from_millis(20), 1000);
        assert_eq!(recv.buffer(), 100_000);
    }

    /// Compares with a naive model of each byte: new bytes, bytes in order, and counters, after any arrivals.
    #[test]
    fn bytes_are_counted_as_a_naive_model_counts_them() {
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..300 {
            let mut recv = state(150);
            let mut here = [false; 400];
            let mut consumed = 0;
            for _ in 0..30 {
                let edge = recv.edge();
                let start = draw(edge + 10);
                let fresh = arrive(&mut recv, start, start + 1 + draw(40));
                assert!(fresh.iter().all(|part| !part.is_empty()), "{fresh:?}");
                for part in fresh {
                    for byte in part.start..part.end {
                        assert!(!core::mem::replace(&mut here[byte as usize], true), "{byte} twice");
                        assert!(byte < edge);
                    }
                }
                let nxt = here.iter().position(|here| !here).unwrap() as u64;
                let total = here.iter().filter(|here| **here).count() as u64;
                assert_eq!((recv.nxt(), recv.received_total), (nxt, total));
                assert_eq!(recv.out_of_order(), total - nxt);
                let n = draw(20);
                recv.consume(n);
                consumed = nxt.min(consumed + n);
                assert_eq!(recv.readable(), nxt - consumed);
                assert_eq!(recv.wanted_edge(), edge.max(consumed + 150));
                recv.window_field(0);
                assert_eq!(recv.edge(), edge.max(consumed + 150));
                if recv.edge() > 350 {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_window_field_is_rounded_down_unless_that_moves_the_right_edge_back() {
        let mut recv = state(1000);
        assert_eq!(recv.window_field(4), 63);
        assert_eq!(recv.edge(), 1008);
        arrive(&mut recv, 0, 100);
        recv.consume(100);
        assert_eq!(recv.window_field(4), 62);
        assert_eq!(recv.edge(), 100 + (62 << 4));
        let mut odd = state(1007);
        assert_eq!(odd.window_field(4), 63);
        let mut large = state(10_000_000);
        assert_eq!(large.window_field(0), u16::MAX);
        assert_eq!(large.edge(), 10_000_000);
    }

    #[test]
    fn a_window_that_was_nearly_shut_is_announced_when_it_opens_by_two_segments_or_half() {
        let opened = |received: u64, read: u64, mss: u64| {
            let mut recv = state(1000);
            arrive(&mut recv, 0, received);
            recv.consume(read);
            recv.should_update(mss, u64::MAX)
        };
        assert!(!opened(600, 199, 100) && opened(600, 200, 100));
        assert!(!opened(600, 499, 400) && opened(600, 500, 400));
        assert!(!opened(500, 500, 100) && opened(501, 501, 100));
        assert!(!opened(1000, 0, 0) && opened(1000, 1, 0));
    }

    #[test]
    fn the_window_is_the_memory_that_is_free_of_unread_data_and_of_holes_that_other_subflows_fill() {
        let policy = ReceiveBuffer::Auto { initial: Bytes(131_072), max: Bytes(1 << 22) };
        let mut recv = RecvState::new(policy);
        recv.limit_by(Some(Memory::new(131_072)));
        recv.begin_with(64_240);
        assert_eq!(u64::from(recv.window_field(7)) << 7, 65_536);
        // 39,000 bytes take 64,000 of the memory; only the edge of before is kept.
        arrive(&mut recv, 1000, 40_000);
        assert_eq!((recv.window_field(7), recv.edge()), (512, 65_536));
        arrive(&mut recv, 0, 1000);
        recv.consume(u64::MAX);
        assert_eq!(u64::from(recv.window_field(7)) << 7, 65_536);
        arrive(&mut recv, 50_000, 89_000);
        recv.set_held_below(39_000);
        assert_eq!(u64::from(recv.window_field(7)) << 7, 65_536, "a hole of the subflow itself");
    }

    #[test]
    fn an_edge_that_does_not_move_is_rounded_to_the_left() {
        let policy = ReceiveBuffer::Auto { initial: Bytes(131_072), max: Bytes(1 << 22) };
        let mut recv = RecvState::new(policy);
        recv.limit_by(Some(Memory::new(131_072)));
        recv.begin_with(64_240);
        recv.window_field(7);
        arrive(&mut recv, 10_000, 20_000);
        arrive(&mut recv, 0, 1000);
        recv.consume(1000);
        assert_eq!((recv.window_field(7), recv.edge()), (504, 65_536), "64,536 are 504.2 units");
        arrive(&mut recv, 1000, 10_000);
        recv.consume(19_000);
        assert_eq!((recv.window_field(7), recv.edge()), (512, 85_536));
        recv.limit_by(Some(Memory::new(131_074)));
        assert_eq!((recv.window_field(7), recv.edge()), (513, 85_664), "one that moves, to the right");
    }

    #[test]
    fn memory_is_evaluated_once_per_round_trip_with_the_least_measured_subflow() {
        let policy = ReceiveBuffer::Auto { initial: Bytes(131_072), max: Bytes(1 << 22) };
        let mut recv = RecvState::new(policy);
        recv.limit_by(Some(Memory::new(131_072)));
        let rtt = Duration::from_millis(20);
        let at = Time::from_millis;
        recv.on_established(at(100));
        arrive(&mut recv, 0, 1000);
        recv.consume(1000);
        assert!(recv.is_evaluation_due(at(101)), "there was none");
        assert_eq!(recv.evaluate_memory(at(101), rtt, true), None);
        assert_eq!((recv.buffer(), recv.is_evaluation_due(at(119))), (79_872, false));
        arrive(&mut recv, 1000, 40_000);
        recv.consume(39_000);
        // Twice 40,000, and twice that in proportion to the growth from 14,480.
        let wanted = 80_000 + 2 * (80_000 * 25_520 / 14_480);
        assert_eq!(recv.evaluate_memory(at(120), rtt, false), Some(40_000));
        assert_eq!(recv.buffer(), wanted, "half of twice as much");
        assert_eq!(recv.evaluate_memory(at(140), rtt, true), None);
        assert_eq!(recv.buffer(), 2 * wanted / 64 * 39, "and more of the same memory once it is measured");
    }

    #[test]
    fn the_end_cannot_be_before_received_data() {
        let with = |offset: u64| {
            let mut recv = state(1000);
            arrive(&mut recv, 0, 10);
            arrive(&mut recv, 20, 30);
            let taken = recv.set_fin(offset);
            (taken, recv.set_fin(offset), recv.set_fin(offset + 1))
        };
        assert_eq!(with(9), (false, false, false));
        assert_eq!(with(15), (false, false, false));
        assert_eq!(with(28), (false, false, false));
        assert_eq!(with(30), (true, true, false));
        let mut empty = state(1000);
        arrive(&mut empty, 0, 10);
        assert!(!empty.set_fin(9) && empty.set_fin(10));
        assert!(empty.finished());
    }

    #[test]
    fn autotuning_measures_one_round_trip_and_adds_its_growth_in_proportion() {
        let policy = ReceiveBuffer::Auto { initial: Bytes(2000), max: Bytes(100_000) };
        let mut recv = RecvState::new(policy);
        let rtt = Duration::from_millis(20);
        let mut round = |at: u64, bytes: u64| {
            let start = recv.nxt();
            assert_eq!(arrive(&mut recv, start, start + bytes), [DataRange::new(start, start + bytes)]);
            recv.consume(bytes);
            recv.autotune(Time::from_millis(at), Duration::ZERO, 10);
            recv.autotune(Time::from_millis(at) - Duration(1), rtt, 10);
            recv.autotune(Time::from_millis(at), rtt, 10);
            recv.window_field(0);
            recv.buffer()
        };
        assert_eq!(round(20, 1000), 2160);
        assert_eq!(round(40, 1500), 3160 + 3160 * 500 / 1000);
        assert_eq!(round(60, 500), 4740);
        // Over two round trips: half of it in each.
        assert_eq!(round(100, 4000), 4160 + 4160 * 1500 / 500);
        let mut fixed = state(1000);
        arrive(&mut fixed, 0, 1000);
        fixed.autotune(Time::from_millis(20), rtt, 1000);
        assert_eq!(fixed.buffer(), 1000);
    }

    /// Captured from Linux 6.18 with 131,072 bytes of memory: after each of the first segments 64,512 bytes, in units of 1 KiB.
    #[test]
    fn a_segment_takes_memory_in_the_window_that_acknowledges_it_at_once() {
        let shown = |counts_last: bool| {
            let mut recv = state(65_536);
            recv.limit_by(Some(Memory::new(131_072)));
            recv.begin_with(64_240);
            assert_eq!(arrive(&mut recv, 0, 1420).len(), 1);
            recv.consume(1420);
            recv.offer(10, u64::MAX, 1420, counts_last)
        };
        assert_eq!((shown(true), shown(false)), (63, 64));
        // A segment after a hole of the stream is counted as such.
        let mut recv = state(65_536);
        recv.limit_by(Some(Memory::new(131_072)));
        recv.begin_with(0);
        recv.extend_edge(10_000);
        arrive(&mut recv, 1420, 2840);
        assert_eq!(recv.last, 0);
    }
}
