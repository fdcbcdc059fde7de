//! The lateness of forwarded packets.

use anabranch_units::Duration;

/// Buckets for each power of two; a quantile is exact to one part in 32.
const PARTS: usize = 32;
const PARTS_BITS: u32 = PARTS.trailing_zeros();

/// A distribution of durations, counted in buckets; the width of a bucket grows with the duration.
#[derive(Clone, Debug)]
pub struct Lateness {
    counts: Vec<u64>,
    total: u64,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Lateness {
        let counts = vec![0; PARTS * (64 - PARTS_BITS as usize + 1)];
        Lateness { counts, total: 0, max: Duration::ZERO }
    }
}

impl Lateness {
    /// Counts one value.
    pub fn add(&mut self, late: Duration) {
        self.counts[bucket(late.as_nanos())] += 1;
        self.total += 1;
        self.max = self.max.max(late);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Lateness) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// Returns the number of packets with a measured lateness.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Returns the maximum.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the quantile `q` (0 to 1), to about 3 %; zero if nothing was counted.
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = ((self.total as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration(upper(bucket)).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < PARTS as u64 {
        return nanos as usize;
    }
    let shift = 63 - nanos.leading_zeros() - PARTS_BITS;
    (shift as usize + 1) * PARTS + ((nanos >> shift) as usize - PARTS)
}

/// Returns the greatest value in `bucket`.
fn upper(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let (shift, part) = (bucket / PARTS - 1, bucket % PARTS);
    (((PARTS + part) as u64) << shift) + ((1_u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_follow_one_another() {
        for value in [0, 1, 31, 32, 33, 63, 64, 65, 1000, 123_456_789, u64::MAX / 2, u64::MAX] {
            let at = bucket(value);
            assert!(value <= upper(at), "{value}");
            assert!(at == 0 || value > upper(at - 1), "{value}");
        }
    }

    #[test]
    fn quantiles_are_near_the_truth() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.5), Duration::ZERO);
        for i in 1..=10_000_u64 {
            lateness.add(Duration(i * 1000));
        }
        for (q, truth) in [(0.5, 5_000_000.0), (0.99, 9_900_000.0), (0.999, 9_990_000.0)] {
            let value = lateness.quantile(q).as_nanos() as f64;
            assert!((value / truth - 1.0).abs() < 0.035, "{q}: {value}");
        }
        assert_eq!(lateness.quantile(1.0), Duration::from_millis(10));
        let mut other = Lateness::default();
        other.add(Duration::from_secs(1));
        other.merge(&lateness);
        assert_eq!((other.count(), other.max()), (10_001, Duration::from_secs(1)));
    }
}
