//! Which bytes of a segment belong where in the stream (RFC 8684 section 3.3.1).

use super::handshake::find_capable;
use super::{Connection, Mode};
use crate::segment::{Dss, MappedDsn, Mapping, Segment};
use crate::seq::{DataRange, Dsn, Seq, offset_near};

/// A range of a subflow, and the stream offset of its start; negative for what is before the stream.
type Mapped = (DataRange, i64);

/// How many mappings one segment may touch: a box may have joined segments, but not many.
const MAX_PARTS: usize = 4;
/// How many mappings are kept per subflow that reach beyond their segment.
const MAX_REMEMBERED: usize = 64;

/// Which bytes of a subflow belong where in the stream, as far as its mappings reach beyond their segments.
/// Of what is mapped once nothing changes (RFC 8684 section 3.3.1).
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

    /// Forgets what ends before `nxt`.
    pub(super) fn forget_before(&mut self, nxt: u64) {
        self.known.retain(|(mapped, _)| mapped.end > nxt);
    }

    /// What maps the byte at `cursor`.
    pub(super) fn at(&self, cursor: u64) -> Option<(DataRange, u64)> {
        self.known.iter().find(|(mapped, _)| covers(mapped, cursor)).copied()
    }

    /// Where the next mapping behind `cursor` begins.
    pub(super) fn next_start(&self, cursor: u64) -> u64 {
        let starts = self.known.iter().map(|(mapped, _)| mapped.start);
        starts.filter(|&start| start > cursor).min().unwrap_or(u64::MAX)
    }

    /// Whether something else was said before of what a mapping maps.
    fn contradicts(&self, mapped: DataRange, data: i64) -> bool {
        let shift = data - mapped.start as i64;
        self.known.iter().any(|&(known, to)| {
            !known.intersection(mapped).is_empty() && to as i64 - known.start as i64 != shift
        })
    }

    /// Notes the parts of a mapping of which nothing is known, as long as there is room.
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
    /// Behind the last byte that is mapped, or was received before.
    pub(super) end: u64,
}

impl Parts {
    pub(super) const NONE: Parts = Parts { parts: [(DataRange::new(0, 0), 0); MAX_PARTS], len: 0, end: 0 };

    fn one(mapped: Mapped) -> Parts {
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

    /// Where `range` of a subflow belongs of which `nxt` is expected next: what is known first, and then what
    /// its own mapping says.
    fn of(range: DataRange, nxt: u64, known: &Mappings, own: Option<Mapped>) -> Parts {
        // What has been received is not asked for its mapping again.
        let mut parts = Parts { end: range.start.max(nxt.min(range.end)), ..Parts::NONE };
        while parts.end < range.end {
            let cursor = parts.end;
            let (start, end, data) = if let Some((mapped, data)) = known.at(cursor) {
                (mapped.start, mapped.end, data as i64)
            } else if let Some((mapped, data)) = own.filter(|(mapped, _)| covers(mapped, cursor)) {
                // As far as nothing else was said before.
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

/// Where on the subflow a mapping starts: its relative number has 32 bits, and this is the offset nearest to `near`.
pub(super) fn mapped_start(mapping: &Mapping, near: u64) -> i64 {
    offset_near(Seq(0), near, Seq(mapping.ssn))
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
                let near = self.subflows[at].seq_offset(segment).max(0) as u64;
                let start = mapped_start(mapping, near);
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
        let Some((mapped, data)) = self.mapping_of(at, segment) else {
            let subflow = &self.subflows[at];
            return Parts::of(range, subflow.recv.nxt(), &subflow.mappings, None);
        };
        if self.mode == Mode::Plain {
            return Parts::one((mapped, data));
        }
        let subflow = &mut self.subflows[at];
        // Mostly it maps the segment, and nothing was said before.
        let alone = subflow.mappings.is_empty() && mapped.start <= range.start && mapped.end >= range.end;
        subflow.contradicted = subflow.mappings.contradicts(mapped, data);
        // It holds for the segments that follow without one, and may be that of what is held.
        if (mapped.end > range.end || subflow.held.is_some()) && data >= 0 {
            subflow.mappings.remember(mapped, data as u64);
        }
        if alone {
            return Parts::one((mapped, data));
        }
        Parts::of(range, subflow.recv.nxt(), &subflow.mappings, Some((mapped, data)))
    }
}

#[cfg(test)]
mod tests;
