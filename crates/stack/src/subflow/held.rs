//! Payload of a subflow that cannot be delivered yet: its mapping is missing, or the rest of the data covered
//! by its checksum (RFC 8684 section 3.3.1).
//!
//! The driver stores the bytes; the stack stores their places in the subflow, and their sums. Without
//! checksums the pieces are unmapped payload. With checksums each mapping is a *claim*, and a run of pieces
//! that begins and ends at the edges of claims is verified as one: a middlebox may have joined segments, and
//! the sum of joined segments cannot be divided again.

use super::mappings::{Mapped, Mappings};
use crate::checksum::{add, at_offset, is_zero, subtract};
use crate::seq::DataRange;

/// The minimum space for held payload of a subflow: two mappings of the maximum length.
pub(crate) const LEAST_ROOM: u64 = 2 * 65_535;

/// The maximum number of mappings of a subflow that wait for their payload.
const MAX_CLAIMS: usize = 1024;

/// The maximum number of held pieces of a subflow; more of them in the space would be tiny.
const MAX_PIECES: usize = 1024;

/// A piece of payload of a subflow, as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its place in the subflow.
    pub range: DataRange,
    /// Its sum as if it began at an even offset.
    pub sum: u16,
    /// True if it was verified, and is after a hole of the subflow: only its sum is still needed.
    pub done: bool,
    /// True if it was received without MPTCP options.
    pub bare: bool,
}

/// A mapping before its checksum is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The mapped range of the subflow.
    pub mapped: DataRange,
    /// The place of that in the stream; negative if it is before the stream.
    pub data: i64,
    /// The sum of its pseudo-header and checksum: with the payload it is zero.
    pub sum: u16,
    /// True if it also maps the DATA_FIN.
    pub data_fin: bool,
}

/// Consecutive claims with all of their payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The index of the first claim.
    first: usize,
    /// The index of the last claim.
    last: usize,
    checksums: Checksums,
}

/// Whether the payload of a run has the checksums of its mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksums {
    Match,
    Differ,
}

/// A run of mappings with all of their payload, which was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verified {
    /// The payload has the checksums of its mappings.
    Run {
        /// The parts of it that the driver stores, and their places in the stream.
        parts: Vec<Mapped>,
        /// The places of DATA_FINs in the stream.
        ends: Vec<i64>,
    },
    /// The payload mapped from this place of the stream on was changed.
    Damaged(i64),
}

/// The held payload of one subflow; both lists are ascending and do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pieces: Vec<Piece>,
    claims: Vec<Claim>,
}

impl Held {
    /// Returns the number of bytes stored by the driver.
    pub(super) fn bytes(&self) -> u64 {
        self.stored().map(|range| range.len()).sum()
    }

    /// Returns the place of the first of them on the subflow.
    pub(super) fn start(&self) -> Option<u64> {
        self.stored().next().map(|range| range.start)
    }

    pub(super) fn insert(&mut self, piece: Piece) {
        let at = self.pieces.partition_point(|known| known.range.start < piece.range.start);
        self.pieces.insert(at, piece);
    }

    /// Adds payload after a hole that was verified and delivered: its sum may be needed when a segment that
    /// fills the hole covers more than the hole.
    pub(super) fn insert_verified(&mut self, range: DataRange, sum: u16) {
        self.insert(Piece { range, sum, done: true, bare: false });
    }

    /// True if it has no space for `len` bytes more, when `room` bytes may be held.
    pub(super) fn is_full(&self, len: u64, room: u64) -> bool {
        self.bytes() + len > room || self.pieces.len() >= MAX_PIECES
    }

    /// Records a mapping. Returns false if it contradicts a known one, or there are too many.
    pub(super) fn claim(&mut self, claim: Claim) -> bool {
        let overlap = |known: &Claim| !known.mapped.intersection(claim.mapped).is_empty();
        if let Some(known) = self.claims.iter_mut().find(|known| overlap(known)) {
            // A retransmission may have acquired the DATA_FIN, as in Linux.
            known.data_fin |= claim.data_fin;
            return known.mapped == claim.mapped && known.data == claim.data;
        }
        if self.claims.len() >= MAX_CLAIMS {
            return false;
        }
        let at = self.claims.partition_point(|known| known.mapped.start < claim.mapped.start);
        self.claims.insert(at, claim);
        true
    }

    /// Returns the first unmapped byte stored by the driver, and its piece.
    pub(super) fn first_unmapped(&self) -> Option<(u64, &Piece)> {
        for piece in self.pieces.iter().filter(|piece| !piece.done) {
            let mut cursor = piece.range.start;
            for claim in &self.claims {
                if claim.mapped.start <= cursor {
                    cursor = cursor.max(claim.mapped.end);
                }
            }
            if cursor < piece.range.end {
                return Some((cursor, piece));
            }
        }
        None
    }

    /// Returns a run of claims with complete payload.
    fn complete_run(&self) -> Option<Run> {
        for (first, claim) in self.claims.iter().enumerate() {
            let start = claim.mapped.start;
            let at = self.pieces.partition_point(|piece| piece.range.start < start);
            let (mut cursor, mut sum) = (start, claim.sum);
            let (mut last, mut end) = (first, claim.mapped.end);
            for piece in &self.pieces[at..] {
                if piece.range.start != cursor {
                    break;
                }
                sum = add(sum, at_offset(piece.sum, cursor - start));
                cursor = piece.range.end;
                while cursor > end {
                    let Some(next) = self.claims.get(last + 1).filter(|next| next.mapped.start == end) else {
                        break;
                    };
                    sum = add(sum, at_offset(next.sum, end - start));
                    (last, end) = (last + 1, next.mapped.end);
                }
                if cursor == end {
                    let checksums = if is_zero(sum) { Checksums::Match } else { Checksums::Differ };
                    return Some(Run { first, last, checksums });
                }
            }
        }
        None
    }

    /// Removes the pieces that are mapped by now, without checksums; `taken` receives their parts, and their places
    /// in the stream.
    pub(super) fn take_mapped(&mut self, mappings: &Mappings, mut taken: impl FnMut(Mapped)) {
        let mut left = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let mut cursor = piece.range.start;
            while cursor < piece.range.end {
                if let Some((known, data)) = mappings.at(cursor) {
                    let part = DataRange::new(cursor, known.end.min(piece.range.end));
                    taken((part, data as i64 + (cursor - known.start) as i64));
                    cursor = part.end;
                } else {
                    let end = mappings.next_start(cursor).min(piece.range.end);
                    left.push(Piece { range: DataRange::new(cursor, end), ..*piece });
                    cursor = end;
                }
            }
        }
        self.pieces = left;
    }

    /// Returns the places on the subflow of the bytes that the driver stores.
    pub(super) fn stored(&self) -> impl Iterator<Item = DataRange> {
        self.pieces.iter().filter(|piece| !piece.done).map(|piece| piece.range)
    }

    /// True if it holds nothing, and knows no mapping.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.claims.is_empty()
    }

    pub(super) fn has_no_piece(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Removes a run of claims with complete payload, and verifies it.
    pub(super) fn take_verified(&mut self) -> Option<Verified> {
        let Run { first, last, checksums } = self.complete_run()?;
        if checksums == Checksums::Differ {
            return Some(Verified::Damaged(self.claims[first].data));
        }
        let claims: Vec<Claim> = self.claims.drain(first..=last).collect();
        let (start, end) = (claims[0].mapped.start, claims[claims.len() - 1].mapped.end);
        let mut parts = Vec::new();
        for piece in self
            .pieces
            .iter_mut()
            .filter(|piece| piece.range.start >= start && piece.range.end <= end && !piece.done)
        {
            piece.done = true;
            for claim in &claims {
                let part = piece.range.intersection(claim.mapped);
                if !part.is_empty() {
                    parts.push((part, claim.data + (part.start - claim.mapped.start) as i64));
                }
            }
        }
        let last = claims.iter().filter(|claim| claim.data_fin);
        let ends = last.map(|claim| claim.data + claim.mapped.len() as i64).collect();
        Some(Verified::Run { parts, ends })
    }

    /// Returns the sum of `gap`, the only missing part of `range`, if it can be derived from the sum of
    /// `range` and from the pieces received.
    pub(super) fn derive(&self, range: DataRange, gap: DataRange, sum: u16) -> Option<u16> {
        let mut rest = sum;
        for part in [DataRange::new(range.start, gap.start), DataRange::new(gap.end, range.end)] {
            let mut cursor = part.start;
            while cursor < part.end {
                let piece = self.pieces.iter().find(|piece| piece.range.start == cursor)?;
                if piece.range.end > part.end {
                    return None;
                }
                rest = subtract(rest, at_offset(piece.sum, cursor - range.start));
                cursor = piece.range.end;
            }
        }
        Some(at_offset(rest, gap.start - range.start))
    }

    /// Discards everything before `nxt` that was verified.
    pub(super) fn prune(&mut self, nxt: u64) {
        self.pieces.retain(|piece| !piece.done || piece.range.end > nxt);
        let pieces = &self.pieces;
        self.claims.retain(|claim| {
            claim.mapped.end > nxt
                || pieces
                    .iter()
                    .any(|piece| !piece.done && !piece.range.intersection(claim.mapped).is_empty())
        });
    }
}

#[cfg(test)]
mod tests;
