//! DSS checksums (RFC 8684 section 3.3.1) from partial sums: drivers sum the payload, and the stack combines
//! the sums.
//!
//! A sum here is the ones'-complement sum of big-endian 16-bit words, folded to 16 bits and not inverted (RFC
//! 1071). An odd last byte is the high half of a word. 0 and `0xffff` are the same number, zero.

use crate::event::ConnectionId;
use crate::seq::{DataRange, Dsn};

/// Sums the bytes of the streams that a host sends; implemented by the driver that stores them.
///
/// The stack calls it once for each new mapping, before its first segment is sent, and stores the checksum
/// with the mapping; a retransmission repeats it, even if some of the bytes are no longer stored. It is only
/// called if checksums were negotiated.
pub trait PayloadSums {
    /// Returns the sum of the bytes of `range` of the stream that this host sends on `connection`, as if the
    /// range began at an even offset. The range is not empty, has at most 65,535 bytes, and contains only
    /// bytes written and not yet freed.
    fn sum(&self, connection: ConnectionId, range: DataRange) -> u16;
}

/// Payload of zeros, as in the simulator.
impl PayloadSums for () {
    #[inline]
    fn sum(&self, _: ConnectionId, _: DataRange) -> u16 {
        0
    }
}

/// Returns the sum of two parts; the second part begins at an even offset from the start of the first.
#[inline]
pub const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// Returns the sum without `b`, a part that begins at an even offset.
#[inline]
pub const fn subtract(a: u16, b: u16) -> u16 {
    add(a, !b)
}

/// Returns a part's contribution to the sum of a whole in which the part begins at `offset`: with its bytes
/// swapped if that is odd (RFC 1071 section 2B).
#[inline]
pub const fn at_offset(sum: u16, offset: u64) -> u16 {
    if offset & 1 == 1 { sum.swap_bytes() } else { sum }
}

/// True if a sum is zero, in either of its two forms.
#[inline]
pub const fn is_zero(sum: u16) -> bool {
    sum == 0 || sum == u16::MAX
}

/// Returns the sum of some bytes.
///
/// ```
/// use anabranch_stack::checksum::{add, at_offset, of_bytes};
/// assert_eq!(of_bytes(b"hello"), add(of_bytes(b"hel"), at_offset(of_bytes(b"lo"), 3)));
/// ```
pub fn of_bytes(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    words.fold(0, add)
}

/// Returns the sum of a mapping's pseudo-header: the data sequence number, always with 64 bits, and the
/// relative subflow sequence number and the length as in the option, including the DATA_FIN's octet.
pub const fn pseudo_header(dsn: Dsn, ssn: u32, len: u16) -> u16 {
    let mut sum = len;
    let mut at = 0;
    while at < 64 {
        sum = add(sum, (dsn.0 >> at) as u16);
        at += 16;
    }
    add(add(sum, ssn as u16), (ssn >> 16) as u16)
}

/// Returns the checksum of a mapping from the sum of its payload.
pub const fn of_mapping(dsn: Dsn, ssn: u32, len: u16, payload: u16) -> u16 {
    !add(pseudo_header(dsn, ssn, len), payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 8684 section 3.3.1, row M6: the values were computed with Python from the rules of the RFC; the
    // initial DSN is derived from the key 0001020304050607.
    #[test]
    fn the_vectors_of_the_reference() {
        let first = Dsn(0xe3db_22c6_785a_0d46);
        let hello = of_bytes(b"hello");
        assert_eq!(of_mapping(first, 1, 5, hello), 0x2fe5);
        // A DATA_FIN after the bytes is included only in the length (trap T17).
        assert_eq!(of_mapping(first, 1, 6, hello), 0x2fe4);
        // Row X5: without payload only the pseudo-header.
        assert_eq!(of_mapping(Dsn(0xe3db_22c6_785a_0d4b), 0, 1, 0), 0x73b7);
    }

    #[test]
    fn parts_add_up_wherever_they_are_cut() {
        let bytes: Vec<u8> = (0..=255u8).cycle().take(511).map(|byte| byte.wrapping_mul(37)).collect();
        let whole = of_bytes(&bytes);
        for cut in 0..bytes.len() {
            let (left, right) = (of_bytes(&bytes[..cut]), of_bytes(&bytes[cut..]));
            let right = at_offset(right, cut as u64);
            assert!(is_zero(subtract(add(left, right), whole)), "cut at {cut}");
            assert!(is_zero(subtract(subtract(whole, left), right)), "cut at {cut}");
        }
    }

    #[test]
    fn a_swapped_word_and_a_flipped_bit_show() {
        let good = of_bytes(&[1, 2, 3, 4, 5]);
        for bad in [[2, 1, 3, 4, 5], [1, 2, 3, 4, 4], [1, 2, 3, 5, 5]] {
            assert!(!is_zero(subtract(of_bytes(&bad), good)));
        }
    }
}
