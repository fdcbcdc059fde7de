//! The Internet checksum (RFC 1071), in parts.
//!
//! A *sum* here is the ones'-complement sum of 16-bit big-endian words, folded to 16 bits and not inverted,
//! of bytes that start at an even offset; an odd last byte is the high half of its word. The sums of adjacent
//! pieces are added by [`combine`]; a piece that starts at an odd offset of the whole has its sum [`swap`]ped
//! first (RFC 1071 section 2 B). A header carries the inverse.

use core::net::IpAddr;

/// Returns the sum of `bytes`.
///
/// Both 0 and 0xffff stand for zero; 0 comes out only if every byte is zero.
pub fn sum(bytes: &[u8]) -> u16 {
    // RFC 1071 section 2 B and C: the sum does not depend on byte order or word size, so it is computed over
    // native words and swapped at the end.
    let (mut total, mut rest) = (0, bytes);
    while rest.len() >= CHUNK {
        let (now, later) = rest.split_at(rest.len().min(MOST));
        let (chunks, left) = now.as_chunks();
        total += sum_of_chunks(chunks);
        rest = if later.is_empty() { left } else { later };
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let (pairs, last) = rest.as_chunks::<2>();
    for pair in pairs {
        total += u64::from(u16::from_ne_bytes(*pair));
    }
    if let [last] = last {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    u16::from_be(fold(total))
}

/// The number of 32-bit words that are added in parallel: four registers of 128 bits.
const LANES: usize = 16;
/// The bytes of [`LANES`] words.
const CHUNK: usize = 4 * LANES;
/// The bytes that are summed at a time, a whole number of chunks: 2^16 additions of 16 bits fit into 32.
const MOST: usize = CHUNK << 16;

/// Returns the sum of the 16-bit halves of all words.
///
/// Each lane adds its words modulo 2^32, and their high halves separately: the first sum minus the
/// contribution of the high halves is the sum of the low halves, which is less than 2^32. This takes fewer
/// instructions than widening each word to 64 bits.
fn sum_of_chunks(chunks: &[[u8; CHUNK]]) -> u64 {
    let (mut whole, mut high) = ([0_u32; LANES], [0_u32; LANES]);
    for chunk in chunks {
        let (words, _) = chunk.as_chunks::<4>();
        for ((whole, high), word) in whole.iter_mut().zip(&mut high).zip(words) {
            let word = u32::from_ne_bytes(*word);
            *whole = whole.wrapping_add(word);
            *high += word >> 16;
        }
    }
    let low = whole.iter().zip(&high).map(|(whole, high)| whole.wrapping_sub(high << 16));
    low.chain(high).map(u64::from).sum()
}

/// Copies `from` to the front of `to`, up to the shorter length, and returns the sum of the copied bytes.
pub fn copy_and_sum(from: &[u8], to: &mut [u8]) -> u16 {
    let len = from.len().min(to.len());
    let (from, to) = (&from[..len], &mut to[..len]);
    to.copy_from_slice(from);
    sum(to)
}

/// Returns the sum of two pieces; the second piece starts at an even offset of the whole.
#[inline]
pub const fn combine(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// Returns the sum of a piece that starts at an odd offset, as it counts in the whole.
#[inline]
pub const fn swap(sum: u16) -> u16 {
    sum.swap_bytes()
}

/// Returns the sum of a whole from the sum of its first `first_len` bytes and the sum of the rest.
#[inline]
pub const fn concat(first: u16, first_len: u64, rest: u16) -> u16 {
    combine(first, if first_len % 2 == 1 { swap(rest) } else { rest })
}

/// Returns the sum of the pseudo-header of RFC 9293 section 3.1 (IPv4) or RFC 8200 section 8.1 (IPv6); `len`
/// is the length of the TCP header and payload, in bytes.
pub(crate) fn pseudo_header(source: IpAddr, destination: IpAddr, len: usize) -> u16 {
    let addresses = match (source, destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => combine(sum(&a.octets()), sum(&b.octets())),
        (IpAddr::V6(a), IpAddr::V6(b)) => combine(sum(&a.octets()), sum(&b.octets())),
        _ => 0,
    };
    combine(addresses, fold(len as u64 + u64::from(crate::ip::TCP)))
}

#[inline]
pub(crate) const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 1, word by word.
    fn naive(bytes: &[u8]) -> u16 {
        let mut total = 0_u32;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[0x12]), 0x1200);
        assert_eq!(sum(&[0xff; 70_000]), 0xffff);
    }

    #[test]
    fn no_carry_is_lost_in_much_that_is_long() {
        for len in [MOST - 1, MOST, MOST + 1, MOST + CHUNK + 7, 2 * MOST + 5] {
            let ones = vec![0xff; len];
            assert_eq!(sum(&ones), naive(&ones), "{len}");
        }
    }

    proptest! {
        #[test]
        fn sums_word_by_word(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(sum(&bytes), naive(&bytes));
        }

        #[test]
        fn pieces_add_up_wherever_they_are_cut(
            bytes in prop::collection::vec(any::<u8>(), 1..200),
            cut in 0_usize..200,
        ) {
            let (first, rest) = bytes.split_at(cut % bytes.len());
            prop_assert_eq!(concat(sum(first), first.len() as u64, sum(rest)), naive(&bytes));
        }

        #[test]
        fn a_copy_is_summed(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut to = vec![0; bytes.len() + 3];
            prop_assert_eq!(copy_and_sum(&bytes, &mut to), naive(&bytes));
            prop_assert_eq!(&to[..bytes.len()], &bytes[..]);
        }
    }
}
