//! Which bytes of a segment belong where in the stream (RFC 8684 section 3.3.1).

use super::handshake::find_capable;
use super::{Connection, Mode};
use crate::segment::{Dss, MappedDsn, Mapping, Segment};
use crate::seq::{DataRange, Dsn};

/// A range of a subflow, and the stream offset of its start; negative for what is before the stream.
type Mapped = (DataRange, i64);

/// How many mappings one segment may touch: a box may have joined segments, but not many.
const MAX_PARTS: usize = 4;
/// How many mappings are kept per subflow that reach beyond their segment.
const MAX_REMEMBERED: usize = 64;

/// The mappings that cover a segment from its start without a hole, in order.
pub(super) struct Parts {
    parts: [Mapped; MAX_PARTS],
    len: usize,
}

impl Parts {
    pub(super) const NONE: Parts = Parts { parts: [(DataRange::new(0, 0), 0); MAX_PARTS], len: 0 };

    fn one(mapped: Mapped) -> Parts {
        let mut parts = Parts::NONE;
        parts.push(mapped);
        parts
    }

    fn push(&mut self, mapped: Mapped) -> bool {
        let Some(place) = self.parts.get_mut(self.len) else { return false };
        *place = mapped;
        self.len += 1;
        true
    }

    pub(super) fn as_slice(&self) -> &[Mapped] {
        &self.parts[..self.len]
    }

    /// Behind the last byte that is mapped.
    pub(super) fn end(&self) -> Option<u64> {
        self.as_slice().last().map(|(mapped, _)| mapped.end)
    }
}

/// The stream offset where a mapping starts; negative for what is before the stream. The stream starts at
/// `origin`, and `next` is expected of it.
#[inline]
pub(super) fn mapped_offset(mapping: &Mapping, origin: Dsn, next: u64) -> i64 {
    let dsn = match mapping.dsn {
        MappedDsn::Wide(dsn) => dsn,
        // Section 3.3.1: promoted next to what is expected.
        MappedDsn::Narrow(low) => origin.add(next).expand(low),
    };
    dsn.distance_from(origin)
}

impl Connection {
    /// As [`mapped_offset`], in the stream that the peer sends.
    pub(super) fn mapped_offset(&self, mapping: &Mapping) -> i64 {
        mapped_offset(mapping, self.remote_dsn, self.recv.nxt())
    }

    /// Where the payload of a segment belongs: subflow range and stream offset of its start.
    pub(super) fn mapping_of(&self, at: usize, segment: &Segment) -> Option<(DataRange, i64)> {
        if self.mode == Mode::Plain {
            // The stream is the subflow's: its first byte has offset 1 there, if it was never MPTCP.
            return Some((DataRange::new(1, u64::MAX), 1 + self.fallback.recv_shift));
        }
        if let Some(Dss { mapping: Some(mapping), data_fin, .. }) = &segment.options.dss {
            let len = u64::from(mapping.len) - u64::from(*data_fin && mapping.len > 0);
            if len > 0 {
                // The relative number on the wire has 32 bits: the offset nearest to the segment.
                let near = self.subflows[at].seq_offset(segment).max(0) as u64;
                let delta = mapping.ssn.wrapping_sub(near as u32) as i32;
                let start = near as i64 + i64::from(delta);
                if start > 0 {
                    let start = start as u64;
                    return Some((DataRange::new(start, start + len), self.mapped_offset(mapping)));
                }
            }
            return None;
        }
        if let Some(len) = find_capable(&segment.options).and_then(|capable| capable.data_len) {
            // Section 3.1: the first data, at the first octet of both spaces.
            return Some((DataRange::new(1, 1 + u64::from(len)), 0));
        }
        None
    }

    /// Where the payload `range` of a segment belongs: what is mapped already first, for a mapping never
    /// changes, and then by the segment's own mapping.
    pub(super) fn parts_of(&mut self, at: usize, segment: &Segment, range: DataRange) -> Parts {
        let direct = self.mapping_of(at, segment);
        let plain = self.mode == Mode::Plain;
        if let Some((mapped, data)) = direct {
            if !plain && self.subflows[at].held.is_some() {
                // What is held may be what it maps.
                self.remember_mapping(at, mapped, data);
            }
            let covers = mapped.start <= range.start && mapped.end >= range.end;
            if covers && (plain || self.subflows[at].mappings.is_empty()) {
                if !plain && mapped.end > range.end {
                    self.remember_mapping(at, mapped, data);
                }
                return Parts::one((mapped, data));
            }
            if mapped.end > range.end {
                self.remember_mapping(at, mapped, data);
            } else if !plain {
                self.subflows[at].contradicted |= self.contradicts(at, mapped, data);
            }
        }
        let known = &self.subflows[at].mappings;
        // What has been received is not asked for its mapping again.
        let mut cursor = range.start.max(self.subflows[at].recv.nxt().min(range.end));
        let mut parts = Parts::NONE;
        if cursor > range.start {
            parts.push((DataRange::new(range.start, cursor), i64::MIN / 2));
        }
        while cursor < range.end {
            let covering = |mapped: &DataRange| mapped.start <= cursor && mapped.end > cursor;
            let found = known.iter().find(|(mapped, _)| covering(mapped));
            let (start, end, data) = if let Some(&(mapped, data)) = found {
                (mapped.start, mapped.end, data as i64)
            } else if let Some((mapped, data)) = direct.filter(|(mapped, _)| covering(mapped)) {
                // As far as nothing else was said before.
                let next = known.iter().map(|(known, _)| known.start).filter(|&start| start > cursor).min();
                (mapped.start, mapped.end.min(next.unwrap_or(u64::MAX)), data)
            } else {
                break;
            };
            let part = (DataRange::new(cursor, end), data + (cursor - start) as i64);
            if !parts.push(part) {
                break;
            }
            cursor = end;
        }
        parts
    }

    /// A mapping that reaches beyond its segment holds for the segments that follow without one. Of
    /// what is mapped already nothing changes.
    fn remember_mapping(&mut self, at: usize, mapped: DataRange, data: i64) {
        if data < 0 {
            return;
        }
        self.subflows[at].contradicted |= self.contradicts(at, mapped, data);
        let mappings = &mut self.subflows[at].mappings;
        let mut cursor = mapped.start;
        while cursor < mapped.end && mappings.len() < MAX_REMEMBERED {
            let holds = |known: &DataRange| known.start <= cursor && known.end > cursor;
            if let Some((known, _)) = mappings.iter().find(|(known, _)| holds(known)) {
                cursor = known.end;
                continue;
            }
            let next = mappings.iter().map(|(known, _)| known.start).filter(|&start| start > cursor).min();
            let end = mapped.end.min(next.unwrap_or(u64::MAX));
            mappings.push((DataRange::new(cursor, end), data as u64 + (cursor - mapped.start)));
            cursor = end;
        }
    }

    /// Whether something else was said before of what a mapping maps.
    fn contradicts(&self, at: usize, mapped: DataRange, data: i64) -> bool {
        let shift = data - mapped.start as i64;
        self.subflows[at].mappings.iter().any(|&(known, to)| {
            !known.intersection(mapped).is_empty() && to as i64 - known.start as i64 != shift
        })
    }
}
