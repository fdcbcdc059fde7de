//! Windows too large to have a cell each: those within a sixteenth of a factor of two share a bucket.

use super::table::CELLS;

/// Windows at which the buckets start, a power of two.
const FIRST: f64 = CELLS as f64;
/// From 256 to 2^30, sixteen to a factor of two, and one for 2^30 itself.
const BUCKETS: usize = 22 * 16 + 1;
/// What the bits of a float have to be shifted by to count sixteenths of octaves.
const SHIFT: u32 = 52 - 4;
const WORDS: usize = BUCKETS.div_ceil(64);

/// A sparse histogram of large windows: probability and mean window of each bucket.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    occupied: [u64; WORDS],
    /// `(mean window, probability)`; means nothing where `occupied` has no bit.
    contents: [(f64, f64); BUCKETS],
}

impl Buckets {
    pub fn new() -> Buckets {
        Buckets { occupied: [0; WORDS], contents: [(0.0, 0.0); BUCKETS] }
    }

    /// Adds a window of at least [`CELLS`] with a probability above 0. The mean stays exact.
    pub fn add(&mut self, cwnd: f64, mass: f64) {
        let index = ((cwnd.to_bits() >> SHIFT) - (FIRST.to_bits() >> SHIFT)) as usize;
        let index = index.min(BUCKETS - 1);
        let (word, bit) = (index / 64, 1 << (index % 64));
        let content = &mut self.contents[index];
        if self.occupied[word] & bit == 0 {
            self.occupied[word] |= bit;
            *content = (cwnd, mass);
        } else {
            let sum = content.1 + mass;
            content.0 += (cwnd - content.0) * (mass / sum);
            content.1 = sum;
        }
    }

    /// Takes the lowest bucket out: its mean window and probability.
    pub fn take_lowest(&mut self) -> Option<(f64, f64)> {
        let word = self.occupied.iter().position(|&word| word != 0)?;
        let index = 64 * word + self.occupied[word].trailing_zeros() as usize;
        self.occupied[word] &= self.occupied[word] - 1;
        Some(self.contents[index])
    }

    /// Sum of window times probability.
    pub fn mean(&self) -> f64 {
        let mut sum = 0.0;
        for (word, &bits) in self.occupied.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let (cwnd, mass) = self.contents[64 * word + bits.trailing_zeros() as usize];
                sum += cwnd * mass;
                bits &= bits - 1;
            }
        }
        sum
    }
}
