//! A histogram of windows too large to have a cell each: windows within a sixteenth of an octave share a
//! bucket.

use super::table::CELLS;

/// The window at which the buckets start, a power of two.
const FIRST: f64 = CELLS as f64;
/// From 256 to 2^30, sixteen buckets per octave, and one for 2^30 itself.
const BUCKETS: usize = 22 * 16 + 1;
/// The shift of a float's bits that counts sixteenths of octaves.
const SHIFT: u32 = 52 - 4;
const WORDS: usize = BUCKETS.div_ceil(64);

/// A sparse histogram of large windows: probability and mean window of each bucket.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    occupied: [u64; WORDS],
    /// `(mean window, probability)`; meaningless if the bit in `occupied` is clear.
    contents: [(f64, f64); BUCKETS],
}

impl Buckets {
    pub(super) fn new() -> Buckets {
        Buckets { occupied: [0; WORDS], contents: [(0.0, 0.0); BUCKETS] }
    }

    /// Adds a window of at least [`CELLS`] with a probability above 0. The mean stays exact.
    pub(super) fn add(&mut self, cwnd: f64, mass: f64) {
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

    /// Removes the lowest bucket and returns its mean window and probability.
    pub(super) fn take_lowest(&mut self) -> Option<(f64, f64)> {
        let word = self.occupied.iter().position(|&word| word != 0)?;
        let index = 64 * word + self.occupied[word].trailing_zeros() as usize;
        self.occupied[word] &= self.occupied[word] - 1;
        Some(self.contents[index])
    }

    /// Returns the sum of window times probability.
    pub(super) fn mean(&self) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(mut buckets: Buckets) -> Vec<(f64, f64)> {
        core::iter::from_fn(|| buckets.take_lowest()).collect()
    }

    #[test]
    fn windows_of_a_bucket_are_one_with_their_mean() {
        let mut buckets = Buckets::new();
        buckets.add(256.0, 0.25);
        buckets.add(271.0, 0.75);
        assert_eq!(buckets.mean(), 0.25 * 256.0 + 0.75 * 271.0);
        assert_eq!(contents(buckets), [(256.0 + 0.75 * 15.0, 1.0)]);
    }

    #[test]
    fn a_bucket_is_a_sixteenth_of_a_factor_of_two_and_the_lowest_comes_first() {
        let mut buckets = Buckets::new();
        let mut edges = Vec::new();
        for octave in 0..22 {
            for sixteenth in 0..16 {
                edges.push(f64::from((256_u32 + 16 * sixteenth) << octave));
            }
        }
        edges.push(f64::from(1_u32 << 30));
        let mean = edges.iter().sum::<f64>() / 1024.0;
        for &edge in edges.iter().rev() {
            buckets.add(edge, 1.0 / 1024.0);
        }
        assert!((buckets.mean() - mean).abs() < 1e-6 * mean);
        // Each window has its own bucket, including the one that begins at the largest window, and the
        // bucket extends to the next.
        for pair in edges.windows(2) {
            buckets.add(pair[0] + 0.875 * (pair[1] - pair[0]), 1.0 / 1024.0);
        }
        let contents = contents(buckets);
        assert_eq!(contents.len(), 22 * 16 + 1);
        for (edges, (cwnd, mass)) in edges.windows(2).zip(contents) {
            assert!(edges[0] < cwnd && cwnd < edges[1] && mass == 2.0 / 1024.0, "{edges:?} {cwnd} {mass}");
        }
    }

    #[test]
    fn no_window_is_too_large_for_the_last_bucket() {
        let mut buckets = Buckets::new();
        buckets.add(f64::from(1_u32 << 30), 0.5);
        buckets.add(f64::from(u32::MAX), 0.25);
        assert_eq!(contents(buckets).len(), 1);
    }

    #[test]
    fn removed_ranges_are_gone() {
        let mut buckets = Buckets::new();
        for cwnd in [300.0, 70_000.0, 300.5] {
            buckets.add(cwnd, 0.125);
        }
        assert_eq!(buckets.take_lowest(), Some((300.25, 0.25)));
        assert_eq!(buckets.mean(), 70_000.0 / 8.0);
        buckets.add(310.0, 0.5);
        assert_eq!(contents(buckets), [(310.0, 0.5), (70_000.0, 0.125)]);
        assert!(contents(Buckets::new()).is_empty());
    }
}
