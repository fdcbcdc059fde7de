//! Seeded random streams, one for each component.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers that belongs to one component of a run.
///
/// Two streams of the same seed and name are equal; streams of different names are independent. A component
/// added to a run therefore does not shift the draws of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RandomStream(Pcg64Mcg);

impl RandomStream {
    /// Returns the stream of the component `name` (for example `"link.wifi.loss"`) in a run with `seed`.
    pub fn new(seed: u64, name: &str) -> RandomStream {
        // FNV-1a over the name, then two rounds of SplitMix64's finaliser to fill 128 bits of state.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let low = mix(seed ^ hash);
        let high = mix(low ^ seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15);
        RandomStream(Pcg64Mcg::new(u128::from(high) << 64 | u128::from(low)))
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns the next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.0.next_u64() >> 32) as u32
    }

    /// Returns a number uniform in `[0, 1)`, with 53 bits.
    pub fn next_f64(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }

    /// Returns a number uniform in `0..bound`; 0 if `bound` is 0. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws once; true with `probability`.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.next_f64() < probability
    }
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_and_name_give_the_same_stream_and_others_differ() {
        let draw = |seed, name: &str| {
            let mut stream = RandomStream::new(seed, name);
            [stream.next_u64(), stream.next_u64()]
        };
        assert_eq!(draw(1, "link.a.loss"), draw(1, "link.a.loss"));
        assert_ne!(draw(1, "link.a.loss"), draw(1, "link.b.loss"));
        assert_ne!(draw(1, "link.a.loss"), draw(2, "link.a.loss"));
    }

    #[test]
    fn floats_are_uniform_in_the_unit_interval() {
        let mut stream = RandomStream::new(7, "test");
        let n = 100_000;
        let sum: f64 = (0..n).map(|_| stream.next_f64()).sum();
        assert!((sum / f64::from(n) - 0.5).abs() < 0.005);
        assert!((0..1000).all(|_| stream.below(10) < 10));
    }
}
