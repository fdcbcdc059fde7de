//! Distributions of durations in constant memory.

use anabranch_units::Duration;

/// Parts of each power of two: a value is known to within 3 %.
const PARTS: u32 = 32;
/// The least power of two that is divided: durations below a microsecond share the first bin.
const LOWEST: u32 = 10;
const BINS: usize = ((42 - LOWEST) * PARTS) as usize;

/// The number of samples in each bin, and the exact ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    bins: Vec<u32>,
    count: u64,
    min: u64,
    max: u64,
}

fn bin(nanos: u64) -> usize {
    let power = 63 - (nanos | 1).leading_zeros();
    if power < LOWEST {
        return 0;
    }
    let part = (nanos >> (power - PARTS.ilog2())) as u32 & (PARTS - 1);
    (((power - LOWEST) * PARTS + part) as usize).min(BINS - 1)
}

/// Returns the middle of a bin, in nanoseconds.
fn middle(bin: usize) -> u64 {
    let (power, part) = (bin as u32 / PARTS + LOWEST, bin as u32 % PARTS);
    let width = 1_u64 << (power - PARTS.ilog2());
    (1 << power) + u64::from(part) * width + width / 2
}

impl Histogram {
    pub(crate) fn add(&mut self, value: Duration) {
        if self.bins.is_empty() {
            self.bins = vec![0; BINS];
            self.min = u64::MAX;
        }
        if let Some(count) = self.bins.get_mut(bin(value.0)) {
            *count = count.saturating_add(1);
        }
        self.count += 1;
        self.min = self.min.min(value.0);
        self.max = self.max.max(value.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn min(&self) -> Option<Duration> {
        (self.count > 0).then_some(Duration(self.min))
    }

    /// Returns the quantile `q`, from 0 to 1.
    pub(crate) fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = (q * self.count as f64).ceil().max(1.0) as u64;
        let mut before = 0;
        let found = self.bins.iter().position(|count| {
            before += u64::from(*count);
            before >= rank
        })?;
        Some(Duration(middle(found).clamp(self.min, self.max)))
    }

    /// Returns the number of samples of at least `value`.
    pub(crate) fn at_least(&self, value: Duration) -> u64 {
        self.bins.iter().skip(bin(value.0)).map(|count| u64::from(*count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;
    use anabranch_units::Duration;

    #[test]
    fn quantiles_are_known_to_within_three_per_cent() {
        let mut all = Histogram::default();
        assert_eq!(all.quantile(0.5), None);
        (1..=10_000).for_each(|n| all.add(Duration::from_micros(n)));
        for q in [0.01, 0.5, 0.95] {
            let found = all.quantile(q).map_or(0.0, |found| found.as_secs_f64());
            assert!((found / (q * 0.01) - 1.0).abs() < 0.032, "{q}: {found}");
        }
        assert_eq!(all.quantile(1.0), Some(Duration::from_millis(10)));
        let half = all.at_least(Duration::from_millis(5)) as f64;
        assert!((half / 5000.0 - 1.0).abs() < 0.05);
        all.add(Duration(u64::MAX));
        all.add(Duration(0));
        assert_eq!(all.count(), 10_002);
    }
}
