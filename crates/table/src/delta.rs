//! Whole numbers as their differences: DELTA_BINARY_PACKED (Parquet, Encodings.md).
//!
//! The library's encoder takes twice the instructions, and numbers wait for it until a group of rows is full. This one packs
//! each block at once, so that a number of 8 bytes takes one or two from then on.

use crate::dictionary::varint;

/// The differences of a block, which has four miniblocks: the library's sizes.
const BLOCK: usize = 256;
const MINIBLOCK: usize = 64;

/// A sequence of whole numbers.
pub(crate) struct Delta {
    /// The complete blocks.
    blocks: Vec<u8>,
    count: usize,
    first: i64,
    last: i64,
    /// The least and the greatest number, if there is one.
    least: i64,
    greatest: i64,
    /// The differences of the block that is not complete.
    differences: Box<[i64; BLOCK]>,
    pending: usize,
}

impl Default for Delta {
    fn default() -> Delta {
        Delta {
            blocks: Vec::new(),
            count: 0,
            first: 0,
            last: 0,
            least: i64::MAX,
            greatest: i64::MIN,
            differences: Box::new([0; BLOCK]),
            pending: 0,
        }
    }
}

impl Delta {
    /// Adds numbers.
    pub(crate) fn extend(&mut self, numbers: &[i64]) {
        let mut numbers = numbers;
        if self.count == 0
            && let Some((first, rest)) = numbers.split_first()
        {
            (self.first, self.last, self.count) = (*first, *first, 1);
            (self.least, self.greatest) = (*first, *first);
            numbers = rest;
        }
        self.count += numbers.len();
        while !numbers.is_empty() {
            let (now, later) = numbers.split_at(numbers.len().min(BLOCK - self.pending));
            let (mut last, mut least, mut greatest) = (self.last, self.least, self.greatest);
            let differences = &mut self.differences[self.pending..self.pending + now.len()];
            for (difference, number) in differences.iter_mut().zip(now) {
                // Differences wrap, as they do in readers.
                *difference = number.wrapping_sub(last);
                last = *number;
                least = least.min(last);
                greatest = greatest.max(last);
            }
            (self.last, self.least, self.greatest) = (last, least, greatest);
            self.pending += now.len();
            if self.pending == BLOCK {
                self.pack();
            }
            numbers = later;
        }
    }

    /// Returns the least and the greatest number, if there is one.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        (self.count > 0).then_some((self.least, self.greatest))
    }

    /// Appends the encoded numbers to `out`, and removes them.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) {
        if self.pending > 0 {
            self.pack();
        }
        varint(BLOCK as u64, out);
        varint((BLOCK / MINIBLOCK) as u64, out);
        varint(self.count as u64, out);
        varint(zigzag(self.first), out);
        out.append(&mut self.blocks);
        (self.count, self.first, self.last) = (0, 0, 0);
    }

    /// Packs the pending differences as a block.
    fn pack(&mut self) {
        let least = self.differences[..self.pending].iter().fold(i64::MAX, |least, other| least.min(*other));
        // A miniblock is written in full; readers know the number of values.
        self.differences[self.pending..].fill(least);
        varint(zigzag(least), &mut self.blocks);
        let widths = self.blocks.len();
        self.blocks.extend([0; BLOCK / MINIBLOCK]);
        for (at, miniblock) in self.differences.as_chunks_mut::<MINIBLOCK>().0.iter_mut().enumerate() {
            let mut any = 0;
            for difference in miniblock.iter_mut() {
                *difference = difference.wrapping_sub(least);
                any |= *difference as u64;
            }
            // All are equal, as in a column of one value.
            if any == 0 {
                continue;
            }
            let width = u64::BITS - any.leading_zeros();
            self.blocks[widths + at] = width as u8;
            pack(miniblock, width, &mut self.blocks);
        }
        self.pending = 0;
    }
}

/// Appends the lowest `width` bits of each number; the rest of them is 0.
fn pack(numbers: &[i64; MINIBLOCK], width: u32, out: &mut Vec<u8>) {
    // Each word of 64 bits is one step of `width` numbers, so that there are `width` words.
    let mut words = [0_u8; 8 * 64];
    let mut next = words.as_chunks_mut::<8>().0.iter_mut();
    let (mut word, mut filled) = (0, 0);
    for number in numbers {
        let number = *number as u64;
        word |= number << filled;
        filled += width;
        if filled >= u64::BITS {
            if let Some(next) = next.next() {
                *next = word.to_le_bytes();
            }
            filled -= u64::BITS;
            // The bits that the word had no space for.
            word = number.checked_shr(width - filled).unwrap_or(0);
        }
    }
    out.extend(&words[..8 * width as usize]);
}

/// Returns the number with its sign in the lowest bit.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}
