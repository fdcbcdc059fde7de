//! The payload of received segments: its places in the stream by the mappings, and payload that is held until its
//! mapping, or the rest of the data covered by its checksum, has arrived (RFC 8684 section 3.3.1).
//!
//! Only the connection knows the stream. A step that delivers payload takes it as a function `stream` of a part of the
//! subflow and the place of its start, which is negative before the stream. It returns the number of bytes that are new
//! there; the subflow counts them, and the others as duplicates.

use anabranch_units::Time;

use super::Subflow;
use super::held::{Claim, Held, Piece, Verified};
use super::mappings::{Contradiction, Mapped, Parts};
use crate::checksum::{add, is_zero};
use crate::segment::{Flags, Segment};
use crate::seq::DataRange;

/// The place in the stream that a segment itself gives its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// None: it has no mapping.
    Unknown,
    /// The place that its mapping gives.
    Mapped(Mapped),
    /// The subflow is the stream, as in plain TCP: its first byte is at `start`, and it accepts payload up to its own
    /// offset `limit`.
    Stream { start: i64, limit: u64 },
}

/// The answer to [`Subflow::place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The part at the front that is received: to its end the places are known, and accepted.
    pub range: DataRange,
    /// The place of its start, if all of it has the places of one mapping.
    pub start: Option<i64>,
    /// The number of bytes that are new in the stream.
    pub delivered: u64,
    /// True if the rest begins with the next byte of the subflow, or before it.
    pub rest_is_next: bool,
    /// True if the subflow holds other payload.
    pub holds: bool,
}

/// The limits of the connection for payload that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    /// The maximum number of bytes.
    pub room: u64,
    /// True while this side waits for the answer to an MP_FAIL: nothing is delivered.
    pub failing: bool,
}

/// The answer to [`Subflow::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// None of it is new.
    Old,
    /// It cannot be used in this form, and will be retransmitted from the acknowledgement on.
    Refused,
    /// Its mapping contradicts a known one, or there are too many.
    Contradiction,
    /// It is the whole payload of its mapping, undamaged: this number of bytes is new in the stream.
    Delivered(u64),
    /// It is to be held until the rest has arrived; its new part has this `sum`, and is the `next` of the subflow or
    /// not.
    Waits { sum: u16, next: bool },
}

/// The answer to [`Subflow::hold_payload`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// The payload is held.
    Held,
    /// There is no space for it. If it is not the next of the subflow, the acknowledgement due shows that.
    Full,
}

/// The answer to [`Subflow::release_verified`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// No further mapping is complete.
    Nothing,
    /// The payload mapped from this place of the stream on was changed.
    Damaged(i64),
    /// A run of mappings was delivered; it has DATA_FINs at these places of the stream.
    Run(Vec<i64>),
}

/// Held payload without a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unmapped {
    /// The number of bytes received in order since its first byte.
    pub waits: u64,
    /// True if its segment had no MPTCP options.
    pub bare: bool,
}

impl Subflow {
    /// Returns the place of a segment's payload in the subflow, and counts it; `None` if it is refused, as it
    /// does not begin after the SYN.
    #[inline]
    pub(crate) fn begin_payload(&mut self, segment: &Segment) -> Option<DataRange> {
        let offset = self.seq_offset(segment);
        if offset < 1 {
            self.recv.want_ack();
            return None;
        }
        self.counters.data_segments_received += u64::from(segment.payload_len > 0);
        Some(DataRange::new(offset as u64, offset as u64 + u64::from(segment.payload_len)))
    }

    /// Receives `range` of the subflow, the end of a segment or all of it, and the FIN after it, as far as its places in
    /// the stream are known: by the known mappings, because a mapping never changes, and then by the segment's `own`.
    pub(crate) fn place(
        &mut self,
        now: Time,
        segment: &Segment,
        range: DataRange,
        own: Place,
        mut stream: impl FnMut(DataRange, i64) -> u64,
    ) -> Result<Placed, Contradiction> {
        let parts = match own {
            Place::Stream { start, .. } => Parts::one((DataRange::new(1, u64::MAX), start)),
            Place::Mapped(mapped) => self.parts_of(range, Some(mapped))?,
            Place::Unknown => self.parts_of(range, None)?,
        };
        let mut end = parts.end.max(range.start);
        if let Place::Stream { limit, .. } = own
            && range.end > limit
        {
            // Here the subflow's window is the stream's window: data beyond it is not acknowledged (RFC 9293
            // section 3.10.7.4, first), as it would not be retransmitted.
            end = end.min(limit);
            self.recv.want_ack();
        }
        let received = DataRange::new(range.start, end.min(range.end).max(range.start));
        let mut delivered = 0;
        let mut start = None;
        if end >= range.end || !received.is_empty() {
            let fin = segment.flags.has(Flags::FIN) && end >= range.end;
            let full_sized = self.recv.measure(now, segment.payload_len, self.mss);
            self.recv.arrive(now, received, fin, full_sized, |fresh| {
                for &(mapped, data) in parts.as_slice() {
                    let part = fresh.intersection(mapped);
                    if !part.is_empty() {
                        delivered += stream(part, data + (part.start - mapped.start) as i64);
                    }
                }
            });
            self.count_delivered(delivered, received.len());
            if let (&[(mapped, data)], false) = (parts.as_slice(), received.is_empty()) {
                start = Some(data + received.start as i64 - mapped.start as i64);
            }
        }
        let rest_is_next = received.end <= self.recv.nxt();
        Ok(Placed { range: received, start, delivered, rest_is_next, holds: self.held.is_some() })
    }

    /// Counts the bytes delivered of `received` ones; the others are duplicates.
    #[inline]
    pub(super) fn count_delivered(&mut self, delivered: u64, received: u64) {
        self.counters.bytes_delivered += delivered;
        self.counters.bytes_duplicate += received.saturating_sub(delivered);
    }

    /// Discards the mappings of data received in order, after the payload of a segment and what it completed was
    /// processed.
    #[inline]
    pub(crate) fn forget_used_mappings(&mut self) {
        if !self.mappings.is_empty() {
            self.mappings.forget_before(self.recv.nxt());
        }
    }

    /// Checks the payload `range` of a segment on a connection with checksums; `claim` is from its mapping.
    /// The segment is received if nothing of it is new, or if it is the whole payload of its mapping and
    /// undamaged.
    #[cold]
    pub(crate) fn check(
        &mut self,
        now: Time,
        segment: &Segment,
        range: DataRange,
        claim: Option<Claim>,
        holding: Holding,
        stream: impl FnOnce(DataRange, i64) -> u64,
    ) -> Checked {
        let Holding { room, failing } = holding;
        let nxt = self.recv.nxt();
        let (gaps, gap) = self.recv.gaps(range);
        if gaps == 0 {
            // A FIN without data, or data received before.
            self.recv.arrive(now, range, segment.flags.has(Flags::FIN), false, |_| ());
            self.counters.bytes_duplicate += range.len();
            return Checked::Old;
        }
        let held = self.held.get_or_insert_default();
        let sum = if gap == range {
            Some(segment.payload_sum)
        } else {
            held.derive(range, gap, segment.payload_sum)
        };
        // The next data in order frees space: it is accepted regardless of the amount held after it.
        let full = (gap.start > nxt || failing) && held.is_full(gap.len(), room);
        let Some(sum) = sum.filter(|_| gaps == 1 && !full) else {
            self.recv.want_ack();
            return Checked::Refused;
        };
        if let Some(claim) = claim {
            let whole = claim.mapped == range && gap == range && !failing;
            if whole && is_zero(add(claim.sum, sum)) {
                return Checked::Delivered(self.receive_verified(now, segment, &claim, stream));
            }
            if !held.claim(claim) {
                return Checked::Contradiction;
            }
        }
        Checked::Waits { sum, next: range.start <= nxt }
    }

    /// Receives a segment that is the whole payload of its mapping and undamaged. Returns the number of bytes that are
    /// new in the stream.
    fn receive_verified(
        &mut self,
        now: Time,
        segment: &Segment,
        claim: &Claim,
        stream: impl FnOnce(DataRange, i64) -> u64,
    ) -> u64 {
        let (range, fin) = (claim.mapped, segment.flags.has(Flags::FIN));
        let full_sized = self.recv.measure(now, segment.payload_len, self.mss);
        self.recv.arrive(now, range, fin, full_sized, |_| ());
        if range.end > self.recv.nxt() {
            self.held.get_or_insert_default().insert_verified(range, segment.payload_sum);
        }
        let delivered = stream(range, claim.data);
        self.count_delivered(delivered, range.len());
        delivered
    }

    /// Receives the payload `range` of a segment, to its end, and holds it until its place in the stream is known, or
    /// its checksum verified; its sum is `sum`. `room` is the maximum number of bytes held, if that is not checked yet.
    /// `store` receives each new part, and its offset in the payload.
    #[cold]
    pub(crate) fn hold_payload(
        &mut self,
        now: Time,
        segment: &Segment,
        range: DataRange,
        sum: u16,
        room: Option<u64>,
        mut store: impl FnMut(DataRange, u32),
    ) -> Kept {
        if let (Some(room), Some(held)) = (room, &self.held)
            && held.is_full(range.len(), room)
        {
            if range.start > self.recv.nxt() {
                self.recv.want_ack();
            }
            return Kept::Full;
        }
        // It extends to the end of the segment, and so to its FIN.
        let fin = segment.flags.has(Flags::FIN);
        let bare = segment.options.have_no_mptcp();
        let start = range.end - u64::from(segment.payload_len);
        let full_sized = self.recv.measure(now, segment.payload_len, self.mss);
        let held = self.held.get_or_insert_default();
        self.recv.arrive(now, range, fin, full_sized, |part| {
            held.insert(Piece { range: part, sum, done: false, bare });
            store(part, (part.start - start) as u32);
        });
        Kept::Held
    }

    /// True if it holds payload that is not delivered yet.
    #[inline]
    pub(crate) fn holds_payload(&self) -> bool {
        self.held.is_some()
    }

    /// Delivers the held payload with a known place, without checksums: by the mappings, or all of it if the
    /// subflow is the stream.
    #[cold]
    pub(crate) fn release(&mut self, own: Place, mut stream: impl FnMut(DataRange, i64) -> u64) {
        let Some(mut held) = self.held.take() else { return };
        let (mut delivered, mut received) = (0, 0);
        let mut deliver = |part: DataRange, data| {
            delivered += stream(part, data);
            received += part.len();
        };
        if let Place::Stream { start, .. } = own {
            held.stored().for_each(|part| deliver(part, start + part.start as i64 - 1));
        } else {
            held.take_mapped(&self.mappings, |(part, data)| deliver(part, data));
            if !held.has_no_piece() {
                self.held = Some(held);
            }
        }
        self.count_delivered(delivered, received);
    }

    /// Verifies a complete run of mappings of the held payload, and delivers it. While this side is `failing`, because
    /// of damage before, none is verified.
    #[cold]
    pub(crate) fn release_verified(
        &mut self,
        failing: bool,
        mut stream: impl FnMut(DataRange, i64) -> u64,
    ) -> Settled {
        let waits = failing || self.state.is_resetting();
        let verified = self.held.as_mut().filter(|_| !waits).and_then(|held| held.take_verified());
        let settled = match verified {
            Some(Verified::Run { parts, ends }) => {
                for (part, data) in parts {
                    let delivered = stream(part, data);
                    self.count_delivered(delivered, part.len());
                }
                return Settled::Run(ends);
            }
            Some(Verified::Damaged(data)) => Settled::Damaged(data),
            None => Settled::Nothing,
        };
        if let Some(held) = &mut self.held {
            held.prune(self.recv.nxt());
            if held.is_empty() {
                self.held = None;
            }
        }
        settled
    }

    /// Returns the first held payload without a mapping, unless the subflow is about to be reset.
    #[cold]
    pub(crate) fn first_unmapped(&self) -> Option<Unmapped> {
        let held = self.held.as_deref().filter(|_| !self.state.is_resetting());
        let (first, piece) = held.and_then(Held::first_unmapped)?;
        let waits = self.recv.nxt().saturating_sub(first);
        Some(Unmapped { waits, bare: piece.bare })
    }
}
