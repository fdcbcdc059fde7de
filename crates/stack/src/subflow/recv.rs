//! The receiving half of a subflow: received data. `acks.rs` has the timing of acknowledgements, `blocks.rs` their
//! SACK blocks.

mod acks;
mod blocks;

use anabranch_units::Time;

use super::growth::Growth;
use crate::config::{AckConfig, ReceiveBuffer};
use crate::ranges::RangeSet;
use crate::seq::{DataRange, Seq};
use acks::{AckDue, DEFAULT_MSS, Rules};

/// The maximum number of pieces held after a hole: more than any window of real segments has, so that a peer
/// that sends single octets cannot exhaust memory.
const MAX_PIECES: usize = 16_384;

/// The receiving half. Offsets count from the peer's SYN, which is 0.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// The peer's initial sequence number.
    pub irs: Seq,
    nxt: u64,
    out_of_order: RangeSet,
    /// The starts of the latest out-of-order arrivals, the newest first (RFC 2018 section 4).
    recent: [u32; 4],
    /// The range that arrived twice; empty if there is nothing to report.
    dsack: DataRange,
    due: AckDue,
    unacked: u32,
    quick: u16,
    ack_at: Time,
    config: Rules,
    /// The time of the last data, in milliseconds; the maximum value if there is none.
    data_at: u32,
    /// True if data that is not acknowledged includes the end of a burst.
    pushed: bool,
    /// True if the last segment has caused the acknowledgement that is due.
    at_once: bool,
    /// The advertised window, with [`AckConfig::growth`].
    pub growth: Growth,
    /// The offset of the peer's FIN; the maximum value if unknown.
    fin: u64,
    last_ack_sent: u64,
    /// The estimated length of the peer's full segments, and the length of the last segment.
    full_len: u16,
    last_len: u16,
    /// The maximum payload of the peer's segments without MPTCP options.
    pub(super) advertised_mss: u16,
}

/// The offset of an unknown FIN.
const NO_FIN: u64 = u64::MAX;

/// The effect of received payload on the subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// True if the bytes advanced the cumulative acknowledgement.
    pub advanced: bool,
    /// True if nothing was new.
    pub duplicate: bool,
}

impl Receiver {
    /// Returns a receiver that has received the peer's SYN with number `irs`, and has this receive buffer.
    pub(super) fn new(irs: Seq, config: AckConfig, buffer: ReceiveBuffer) -> Receiver {
        Receiver {
            irs,
            nxt: 1,
            out_of_order: RangeSet::new(),
            recent: [0; 4],
            dsack: DataRange::default(),
            due: AckDue::Nothing,
            unacked: 0,
            quick: Rules::of(config).quick,
            ack_at: Time::NEVER,
            config: Rules::of(config),
            data_at: u32::MAX,
            pushed: false,
            at_once: false,
            growth: Growth::new(buffer),
            fin: NO_FIN,
            last_ack_sent: 1,
            full_len: DEFAULT_MSS as u16,
            last_len: 0,
            advertised_mss: 0,
        }
    }

    /// Returns the next offset expected.
    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Returns the offset of the last acknowledgement.
    pub(super) fn last_ack_sent(&self) -> u64 {
        self.last_ack_sent
    }

    /// Returns the number of bytes received, in order or not; a FIN in order counts as one.
    pub(super) fn total(&self) -> u64 {
        let holds_fin = self.fin != NO_FIN && self.out_of_order.containing(self.fin).is_some();
        self.nxt + self.out_of_order.total() - u64::from(holds_fin)
    }

    /// Returns the number of bytes held after a hole.
    #[inline]
    pub(crate) fn out_of_order(&self) -> u64 {
        self.out_of_order.total()
    }

    /// Returns the number of missing pieces of `range`, and the first of them.
    pub(crate) fn gaps(&self, range: DataRange) -> (u32, DataRange) {
        let (mut count, mut first) = (0, DataRange::default());
        let mut cursor = range.start.max(self.nxt);
        let mut note = |gap: DataRange| {
            if !gap.is_empty() {
                if count == 0 {
                    first = gap;
                }
                count += 1;
            }
        };
        for held in self.out_of_order.as_slice() {
            if held.end <= cursor {
                continue;
            }
            if held.start >= range.end {
                break;
            }
            note(DataRange::new(cursor, held.start.min(range.end)));
            cursor = held.end;
        }
        note(DataRange::new(cursor, range.end));
        (count, first)
    }

    /// Returns the maximum number of bytes that are advertised beyond those received.
    #[inline]
    pub(super) fn offered(&self) -> u64 {
        if self.config.growth { self.growth.window() } else { u64::MAX }
    }

    pub(crate) fn ack(&self) -> Seq {
        self.irs.add(self.nxt)
    }

    /// True if the peer's FIN has been reached in order.
    pub(crate) fn finished(&self) -> bool {
        self.nxt > self.fin
    }

    /// True if nothing is held after a hole, and no end is known.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.out_of_order.is_empty() && self.fin == NO_FIN
    }

    /// Receives the next `len` bytes, if [`Receiver::is_complete`]: a cheaper [`Receiver::arrive`].
    #[inline]
    pub(super) fn take_expected(&mut self, now: Time, len: u64, full_sized: bool) {
        debug_assert!(self.is_complete());
        self.nxt += len;
        if !self.dsack.is_empty() {
            self.due = AckDue::Now;
        } else {
            self.count(now, full_sized);
        }
    }

    /// Receives the payload `range` (and a FIN after it); calls `fresh` with each new part.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        range: DataRange,
        fin: bool,
        full_sized: bool,
        mut fresh: impl FnMut(DataRange),
    ) -> Arrival {
        if fin && self.fin == NO_FIN && range.end >= self.nxt {
            self.fin = range.end;
        }
        // Nothing after the FIN is accepted.
        let limit = self.fin;
        let space = DataRange::new(range.start, range.end.min(limit));
        if space.end <= self.nxt && !(fin && self.fin == self.nxt) {
            // All of it was received before (RFC 2883 section 4).
            if !space.is_empty() {
                self.dsack = space;
            }
            self.due = AckDue::Now;
            if self.config.growth {
                // The peer retransmits received data: it lacks acknowledgements (`tcp_enter_quickack_mode`).
                self.quick = self.quick.max(self.config.quick);
            }
            return Arrival { advanced: false, duplicate: true };
        }
        if space.start > self.nxt {
            // The octet of a FIN is held, and selectively acknowledged, like a byte (RFC 2018 section 3: blocks
            // are of sequence space; Linux queues the segment of a FIN like any other).
            let space = DataRange::new(space.start, space.end + u64::from(fin && space.end == limit));
            if self.out_of_order.is_full(space, MAX_PIECES) {
                self.due = AckDue::Now;
                return Arrival { advanced: false, duplicate: true };
            }
            let mut new = 0;
            self.out_of_order.insert(space, |part| {
                new += part.len();
                let payload = DataRange::new(part.start, part.end.min(limit));
                if !payload.is_empty() {
                    fresh(payload);
                }
            });
            if new == 0 && !space.is_empty() {
                self.dsack = space;
            }
            self.remember(space.start);
            self.due = AckDue::Now;
            return Arrival { advanced: false, duplicate: new == 0 };
        }
        if space.start < self.nxt && !space.is_empty() {
            self.dsack = DataRange::new(space.start, self.nxt);
        }
        let had_holes = !self.out_of_order.is_empty();
        let new = DataRange::new(self.nxt, space.end);
        if !had_holes {
            if !new.is_empty() {
                fresh(new);
            }
        } else {
            let mut cursor = new.start;
            // Data already held out of order is not new.
            for held in self.out_of_order.as_slice() {
                if held.start >= new.end {
                    break;
                }
                let gap = DataRange::new(cursor, held.start.min(new.end));
                if !gap.is_empty() {
                    fresh(gap);
                }
                cursor = cursor.max(held.end);
            }
            if cursor < new.end {
                fresh(DataRange::new(cursor, new.end));
            }
        }
        self.nxt = self.nxt.max(space.end);
        while let Some(held) = self.out_of_order.pop_reached(self.nxt) {
            self.nxt = self.nxt.max(held.end);
        }
        let mut finished = false;
        if self.fin == self.nxt {
            self.nxt += 1;
            finished = true;
        }
        if had_holes || finished || !self.dsack.is_empty() {
            self.due = AckDue::Now;
        } else {
            self.count(now, full_sized);
        }
        Arrival { advanced: true, duplicate: false }
    }
}

#[cfg(test)]
mod tests;
