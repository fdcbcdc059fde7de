//! Which bytes of a segment belong where in the stream (RFC 8684 section 3.3.1).

use super::negotiate::find_capable;
use super::{Connection, Mode};
use crate::segment::{Dss, MappedDsn, Mapping, Segment};
use crate::seq::{DataRange, Dsn};
use crate::subflow::mappings::{Contradiction, Parts, mapped_start};

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

    /// Returns where the payload `range` of a segment belongs.
    pub(super) fn parts_of(
        &mut self,
        at: usize,
        segment: &Segment,
        range: DataRange,
    ) -> Result<Parts, Contradiction> {
        let own = self.mapping_of(at, segment);
        match own {
            Some(mapped) if self.mode == Mode::Plain => Ok(Parts::one(mapped)),
            own => self.subflows[at].parts_of(range, own),
        }
    }
}
