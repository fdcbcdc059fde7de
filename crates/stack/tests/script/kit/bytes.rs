//! The payload bytes of scripts: both streams of a script have the same content, and any range of them can be
//! summed.

use anabranch_stack::checksum;
use anabranch_stack::checksum::PayloadSums;
use anabranch_stack::event::{ConnectionId, SubflowId};
use anabranch_stack::seq::{DataRange, Dsn};

use super::Script;
use super::seg::{Map, Seg};

/// Returns the byte at an offset of a stream.
fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

/// Returns the sum of a range of a stream.
pub fn sum_of(start: i64, len: u64) -> u16 {
    let bytes: Vec<u8> = (start..start + len as i64).map(|offset| byte(offset as u64)).collect();
    checksum::of_bytes(&bytes)
}

/// The payload store of the endpoint's driver.
pub struct Bytes;

impl PayloadSums for Bytes {
    fn sum(&self, _: ConnectionId, range: DataRange) -> u16 {
        assert!(!range.is_empty() && range.len() <= 65_535, "{range:?}");
        sum_of(range.start as i64, range.len())
    }
}

/// Returns the sum of a segment's payload: the bytes given by its mapping, or by their position in plain TCP.
pub fn sum_at(seg: &Seg) -> u16 {
    let seq = seg.seq.unwrap_or(1);
    let start = seg.stream.or_else(|| seg.map.map(|map| map.data + seq - i64::from(map.ssn)));
    sum_of(start.unwrap_or(seq - 1), u64::from(seg.payload.unwrap_or(0)))
}

/// Returns the segment with a byte changed in transit.
pub fn damaged(seg: Seg) -> Seg {
    Seg { damaged: true, ..seg }
}

impl Script {
    /// Returns the correct checksum of a mapping.
    pub(super) fn checksum_of(&self, map: &Map, data_fin: Option<bool>, first: Dsn) -> u16 {
        let payload = u64::from(map.len).saturating_sub(u64::from(data_fin.unwrap_or(false)));
        let dsn = Dsn(first.0.wrapping_add(map.data as u64));
        checksum::of_mapping(dsn, map.ssn, map.len, sum_of(map.data, payload))
    }

    /// Holds data whose place in the stream is unknown.
    pub(super) fn hold(&mut self, subflow: SubflowId, range: DataRange) {
        let twice = self.held.iter().any(|(of, held)| *of == subflow && !held.intersection(range).is_empty());
        assert!(!twice, "{range:?} is held twice");
        self.held.push((subflow, range));
    }

    /// Releases held data; all of it must be held.
    pub(super) fn let_go(&mut self, subflow: SubflowId, range: DataRange) {
        let mut gone = 0;
        let held = core::mem::take(&mut self.held);
        for (of, known) in held {
            let inside = if of == subflow { known.intersection(range) } else { DataRange::default() };
            if inside.is_empty() {
                self.held.push((of, known));
                continue;
            }
            gone += inside.len();
            for rest in [DataRange::new(known.start, inside.start), DataRange::new(inside.end, known.end)] {
                if !rest.is_empty() {
                    self.held.push((of, rest));
                }
            }
        }
        assert_eq!(gone, range.len(), "{range:?} was not held");
    }

    /// Returns the number of bytes held by the driver.
    pub fn held_bytes(&self) -> u64 {
        self.held.iter().map(|(_, range)| range.len()).sum()
    }
}
