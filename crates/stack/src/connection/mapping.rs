//! Mappings: the places of a segment's bytes in the stream (RFC 8684 section 3.3.1).

use super::negotiate::find_capable;
use super::{Connection, Mode};
use crate::segment::{Dss, MappedDsn, Mapping, Segment};
use crate::seq::{DataRange, Dsn};
use crate::subflow::Subflow;
use crate::subflow::mappings::{Mapped, mapped_start};
use crate::subflow::payload::Place;

/// Returns the stream offset of the start of a mapping; negative if it is before the stream. The stream
/// starts at `origin`, and its next expected offset is `next`.
#[inline]
pub(super) fn mapped_offset(mapping: &Mapping, origin: Dsn, next: u64) -> i64 {
    let dsn = match mapping.dsn {
        MappedDsn::Wide(dsn) => dsn,
        // Section 3.3.1: extended to the number nearest to the expected one.
        MappedDsn::Narrow(low) => origin.add(next).expand(low),
    };
    dsn.distance_from(origin)
}

impl Connection {
    /// Returns [`mapped_offset`] in the stream that the peer sends.
    pub(super) fn mapped_offset(&self, mapping: &Mapping) -> i64 {
        mapped_offset(mapping, self.remote_dsn, self.recv.nxt())
    }

    /// Returns the mapping of a segment, of MPTCP.
    pub(super) fn mapping_of(&self, subflow: &Subflow, segment: &Segment) -> Option<Mapped> {
        if let Some(Dss { mapping: Some(mapping), data_fin, .. }) = &segment.options.dss {
            let len = u64::from(mapping.len) - u64::from(*data_fin && mapping.len > 0);
            if len > 0 {
                let near = subflow.seq_offset(segment).max(0) as u64;
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

    /// Returns the place in the stream that a segment itself gives its payload.
    pub(super) fn place_of(&self, at: usize, segment: &Segment) -> Place {
        if self.mode == Mode::Plain {
            return self.place_in_plain();
        }
        let payload = segment.payload_len > 0;
        let mapped = payload.then(|| self.mapping_of(&self.subflows[at], segment)).flatten();
        mapped.map_or(Place::Unknown, Place::Mapped)
    }

    /// Returns the place of the subflow in the stream, in plain TCP: its first byte has offset 0 there, if it was never
    /// MPTCP.
    pub(super) fn place_in_plain(&self) -> Place {
        let limit = self.fallback.in_received_subflow(self.recv.edge() as i64).max(0) as u64;
        Place::Stream { start: self.fallback.in_received_stream(1), limit }
    }
}
