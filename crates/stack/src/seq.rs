//! Sequence numbers: 32 bits with wrap on a subflow, 64 bits at the data level.
//!
//! Inside the stack both are kept as `u64` *offsets* that start at 0 and never wrap: a subflow's offset 0 is
//! its SYN, the data level's offset 0 is the first byte of the stream. Wire numbers exist only at the edge,
//! and every wrap is confined to this file.

/// A TCP sequence number on the wire.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Seq(pub u32);

impl Seq {
    /// Returns the number `offset` bytes after this one.
    pub const fn add(self, offset: u64) -> Seq {
        Seq(self.0.wrapping_add(offset as u32))
    }
}

/// A data sequence number (DSN) in its 64-bit wire form.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Dsn(pub u64);

impl Dsn {
    /// Returns the number `offset` bytes after this one.
    pub const fn add(self, offset: u64) -> Dsn {
        Dsn(self.0.wrapping_add(offset))
    }

    /// Returns the signed distance from `origin` to `self`.
    pub const fn distance_from(self, origin: Dsn) -> i64 {
        self.0.wrapping_sub(origin.0) as i64
    }

    /// Returns the 64-bit number with the low half `low` that is nearest to `self`.
    ///
    /// RFC 8684 section 3.3.1: the upper half grows by one with each wrap, which an old or reordered packet
    /// must not trigger; "nearest" ensures both, forwards and backwards.
    pub const fn expand(self, low: u32) -> Dsn {
        let delta = low.wrapping_sub(self.0 as u32) as i32;
        Dsn(self.0.wrapping_add(delta as i64 as u64))
    }
}

/// Returns the offset of wire number `seq` relative to `origin` that is nearest to the offset `near`.
///
/// Negative if `seq` is before the origin (an old duplicate).
pub const fn offset_near(origin: Seq, near: u64, seq: Seq) -> i64 {
    let delta = seq.0.wrapping_sub(origin.0.wrapping_add(near as u32)) as i32;
    near as i64 + delta as i64
}

/// A half-open range `start..end` of offsets; empty when `start >= end`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct DataRange {
    /// The first offset inside.
    pub start: u64,
    /// The first offset after the range.
    pub end: u64,
}

impl DataRange {
    /// Returns `start..end`.
    pub const fn new(start: u64, end: u64) -> DataRange {
        DataRange { start, end }
    }

    /// Returns the number of bytes covered.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// True if the range is empty.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Returns the common part of both.
    pub fn intersection(self, other: DataRange) -> DataRange {
        DataRange { start: self.start.max(other.start), end: self.end.min(other.end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subflow_offset_survives_the_32_bit_wrap() {
        let origin = Seq(0xffff_ff00);
        assert_eq!(offset_near(origin, 0x100, Seq(0)), 0x100);
        assert_eq!(offset_near(origin, 0x1_0000_0000, Seq(0xffff_feff)), 0xffff_ffff);
        assert_eq!(offset_near(origin, 0, Seq(0xffff_feff)), -1);
        assert_eq!(origin.add(0x1_0000_0100), Seq(0));
    }

    #[test]
    fn a_32_bit_dsn_is_promoted_forwards_and_backwards() {
        let near = Dsn(0x0000_0005_ffff_ff00);
        assert_eq!(near.expand(0x10), Dsn(0x0000_0006_0000_0010));
        assert_eq!(Dsn(0x0000_0006_0000_0010).expand(0xffff_ff00), near);
        assert_eq!(Dsn(5).expand(0xffff_ffff), Dsn(u64::MAX));
        assert_eq!(Dsn(u64::MAX).add(3).distance_from(Dsn(u64::MAX)), 3);
    }
}
