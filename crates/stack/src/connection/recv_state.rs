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
mod tests;
