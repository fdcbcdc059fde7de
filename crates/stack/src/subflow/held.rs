//! Payload of a subflow that cannot be delivered yet: its mapping is missing, or the rest of what its checksum covers
//! (RFC 8684 section 3.3.1).
//!
//! The driver has the bytes; here are their places in the subflow, and their sums. Without checksums the pieces are
//! those that no mapping covers. With checksums each mapping is a *claim*, and a run of pieces that begins and ends at
//! the boundaries of claims is verified as one: a middlebox may have joined segments, whose sum cannot be divided again.

use crate::checksum::{add, at_offset, is_zero, subtract};
use crate::seq::DataRange;

/// The least that may be held for a subflow: two mappings of the greatest length.
pub(crate) const LEAST_ROOM: u64 = 2 * 65_535;

/// How many mappings may wait for their payload on a subflow.
const MAX_CLAIMS: usize = 1024;

/// How many pieces may be held for a subflow; more of them in less room would be tiny.
pub(crate) const MAX_PIECES: usize = 1024;

/// Some payload of a subflow, as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its place in the subflow.
    pub range: DataRange,
    /// Its sum as if it began at an even offset.
    pub sum: u16,
    /// It was verified, and lies behind a hole of the subflow: only its sum is still of use.
    pub done: bool,
    /// It came without any option of MPTCP.
    pub bare: bool,
}

/// A mapping whose checksum is not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The mapped range of the subflow.
    pub mapped: DataRange,
    /// Where that belongs in the stream; negative for what is before the stream.
    pub data: i64,
    /// Its pseudo-header and its checksum: zero together with the payload.
    pub sum: u16,
    /// It also maps the DATA_FIN.
    pub data_fin: bool,
}

/// The held payload of one subflow; both lists ascend and do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub pieces: Vec<Piece>,
    pub claims: Vec<Claim>,
}

impl Held {
    /// How many bytes the driver has.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().filter(|piece| !piece.done).map(|piece| piece.range.len()).sum()
    }

    /// Where on the subflow the first of them stands.
    pub fn start(&self) -> Option<u64> {
        self.pieces.iter().find(|piece| !piece.done).map(|piece| piece.range.start)
    }

    pub fn insert(&mut self, piece: Piece) {
        let at = self.pieces.partition_point(|known| known.range.start < piece.range.start);
        self.pieces.insert(at, piece);
    }

    /// Notes a mapping. False if it contradicts one that is known, or there are too many.
    pub fn claim(&mut self, claim: Claim) -> bool {
        let overlap = |known: &Claim| !known.mapped.intersection(claim.mapped).is_empty();
        if let Some(known) = self.claims.iter_mut().find(|known| overlap(known)) {
            // A retransmission may have been given the DATA_FIN, as Linux does.
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

    /// The first byte that the driver has and nothing maps, and the piece that it is of.
    pub fn first_unmapped(&self) -> Option<(u64, &Piece)> {
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

    /// A run of claims whose payload is complete: the first, the last, and whether it is right.
    pub fn complete_run(&self) -> Option<(usize, usize, bool)> {
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
                    return Some((first, last, is_zero(sum)));
                }
            }
        }
        None
    }

    /// The sum of `gap`, the only part of `range` that is not here, where it follows from the sum of
    /// all of it and from the pieces that are here.
    pub fn derive(&self, range: DataRange, gap: DataRange, sum: u16) -> Option<u16> {
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

    /// Forgets what is of no use any more: everything before `nxt` that was verified.
    pub fn prune(&mut self, nxt: u64) {
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
