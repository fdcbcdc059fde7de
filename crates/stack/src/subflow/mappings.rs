//! The mappings of a subflow: the places of its bytes in the stream (RFC 8684 section 3.3.1).

use super::Subflow;
use crate::segment::Mapping;
use crate::seq::{DataRange, Seq, offset_near};

/// A range of a subflow, and the stream offset of its start; negative if it is before the stream.
pub(crate) type Mapped = (DataRange, i64);

/// The maximum number of mappings that one segment touches: a middlebox may have joined segments, but not
/// many.
const MAX_PARTS: usize = 4;

/// The maximum number of mappings stored per subflow that extend beyond their segment.
const MAX_REMEMBERED: usize = 64;

/// The places of a subflow's bytes in the stream, as far as its mappings extend beyond their segments. A
/// mapping never changes (RFC 8684 section 3.3.1).
#[derive(Clone, Debug, Default)]
pub(crate) struct Mappings {
    /// None is empty, and none overlaps another.
    known: Vec<(DataRange, u64)>,
}

impl Mappings {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    /// Discards mappings that end before `nxt`.
    pub(super) fn forget_before(&mut self, nxt: u64) {
        self.known.retain(|(mapped, _)| mapped.end > nxt);
    }

    /// Returns the mapping of the byte at `cursor`.
    pub(super) fn at(&self, cursor: u64) -> Option<(DataRange, u64)> {
        self.known.iter().find(|(mapped, _)| covers(mapped, cursor)).copied()
    }

    /// Returns the start of the next mapping after `cursor`.
    pub(super) fn next_start(&self, cursor: u64) -> u64 {
        let starts = self.known.iter().map(|(mapped, _)| mapped.start);
        starts.filter(|&start| start > cursor).min().unwrap_or(u64::MAX)
    }

    /// True if a mapping contradicts an earlier one of the same bytes.
    fn contradicts(&self, mapped: DataRange, data: i64) -> bool {
        let shift = data - mapped.start as i64;
        self.known.iter().any(|&(known, to)| {
            !known.intersection(mapped).is_empty() && to as i64 - known.start as i64 != shift
        })
    }

    /// Stores the unknown parts of a mapping, as long as there is space.
    fn remember(&mut self, mapped: DataRange, data: u64) {
        let mut cursor = mapped.start;
        while cursor < mapped.end && self.known.len() < MAX_REMEMBERED {
            if let Some((known, _)) = self.at(cursor) {
                cursor = known.end;
                continue;
            }
            let end = mapped.end.min(self.next_start(cursor));
            self.known.push((DataRange::new(cursor, end), data + (cursor - mapped.start)));
            cursor = end;
        }
    }
}

fn covers(mapped: &DataRange, cursor: u64) -> bool {
    mapped.start <= cursor && mapped.end > cursor
}

/// The mappings that cover a segment from its first new byte without a hole, in order.
pub(super) struct Parts {
    parts: [Mapped; MAX_PARTS],
    len: usize,
    /// The end of the bytes that are mapped, or were received before.
    pub(super) end: u64,
}

impl Parts {
    const NONE: Parts = Parts { parts: [(DataRange::new(0, 0), 0); MAX_PARTS], len: 0, end: 0 };

    pub(super) fn one(mapped: Mapped) -> Parts {
        let mut parts = Parts::NONE;
        parts.push(mapped);
        parts
    }

    fn push(&mut self, mapped: Mapped) -> bool {
        let Some(place) = self.parts.get_mut(self.len) else { return false };
        *place = mapped;
        self.len += 1;
        self.end = mapped.0.end;
        true
    }

    /// Returns the places in the stream of `range` of a subflow: by known mappings first, and then by its
    /// `own` mapping. `nxt` is the next offset that the subflow expects.
    pub(super) fn of(range: DataRange, nxt: u64, known: &Mappings, own: Option<Mapped>) -> Parts {
        // Received bytes need no mapping again.
        let mut parts = Parts { end: range.start.max(nxt.min(range.end)), ..Parts::NONE };
        while parts.end < range.end {
            let cursor = parts.end;
            let (start, end, data) = if let Some((mapped, data)) = known.at(cursor) {
                (mapped.start, mapped.end, data as i64)
            } else if let Some((mapped, data)) = own.filter(|(mapped, _)| covers(mapped, cursor)) {
                // As far as no earlier mapping differs.
                (mapped.start, mapped.end.min(known.next_start(cursor)), data)
            } else {
                break;
            };
            if !parts.push((DataRange::new(cursor, end), data + (cursor - start) as i64)) {
                break;
            }
        }
        parts
    }

    pub(super) fn as_slice(&self) -> &[Mapped] {
        &self.parts[..self.len]
    }
}

/// Returns the start of a mapping on the subflow: its relative number has 32 bits, and this is the offset
/// nearest to `near`.
pub(crate) fn mapped_start(mapping: &Mapping, near: u64) -> i64 {
    offset_near(Seq(0), near, Seq(mapping.ssn))
}

/// The error of a mapping that contradicts another one of the same bytes.
pub(crate) struct Contradiction;

impl Subflow {
    /// Returns the places of the payload `range` of a segment: by the known mappings, because a mapping never
    /// changes, and then by `own`, the mapping of the segment itself.
    pub(super) fn parts_of(&mut self, range: DataRange, own: Option<Mapped>) -> Result<Parts, Contradiction> {
        let Some((mapped, data)) = own else {
            return Ok(Parts::of(range, self.recv.nxt(), &self.mappings, None));
        };
        // Usually it maps the segment, and no other mapping is known.
        let alone = self.mappings.is_empty() && mapped.start <= range.start && mapped.end >= range.end;
        let contradicted = self.mappings.contradicts(mapped, data);
        // It applies to following segments without a mapping, and may map held payload.
        if (mapped.end > range.end || self.held.is_some()) && data >= 0 {
            self.mappings.remember(mapped, data as u64);
        }
        if contradicted {
            Err(Contradiction)
        } else if alone {
            Ok(Parts::one((mapped, data)))
        } else {
            Ok(Parts::of(range, self.recv.nxt(), &self.mappings, Some((mapped, data))))
        }
    }
}

#[cfg(test)]
mod tests;
