//! Means, percentiles and bootstrap intervals.
//!
//! Percentiles interpolate linearly between order statistics (Hyndman and Fan's type 7, the default
//! of R and NumPy). Intervals are percentile intervals of a bootstrap over *runs*: flows of one run
//! meet the same luck and are not independent, so whole runs are drawn with replacement.

use anabranch_units::RandomStream;
use serde::Serialize;

/// How often a sample is drawn anew for an interval.
pub const RESAMPLES: usize = 2000;

/// The two ends of a 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval(pub f64, pub f64);

impl Interval {
    /// Whether `value` lies inside, the ends included.
    pub fn contains(self, value: f64) -> bool {
        self.0 <= value && value <= self.1
    }
}

/// The mean; none of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    // Summed in order, so that the result is the same on every machine.
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The percentile `p` (0 to 100) of `sorted`, ascending; none where there are too few values to have it.
///
/// A percentile above the median needs a value beyond it: at least 100 / (100 - p) of them, so 20 for
/// p95 and 100 for p99.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let tail = (100.0 - p).min(p);
    // 100 / (100 - 99) is exact; a hair of slack for those that are not.
    if sorted.is_empty() || (p != 50.0 && (sorted.len() as f64) * tail < 100.0 - 1e-9) {
        return None;
    }
    let at = p / 100.0 * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    Some(sorted[low] + (sorted[high] - sorted[low]) * part)
}

/// What one run contributes to a mean over flows: a sum and how many it sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// The sum.
    pub sum: f64,
    /// Of how many.
    pub count: f64,
}

impl Part {
    /// One value that stands for the whole run.
    pub const fn one(value: f64) -> Part {
        Part { sum: value, count: 1.0 }
    }
}

/// The 95 % interval of the mean over all flows, by bootstrap over runs; none for fewer than two runs
/// that have any.
///
/// The same runs are drawn whatever is measured, so the same values have the same interval wherever
/// they are shown.
pub fn bootstrap(parts: &[Part], seed: u64) -> Option<Interval> {
    if parts.iter().filter(|part| part.count > 0.0).count() < 2 {
        return None;
    }
    let mut stream = RandomStream::new(seed, "bootstrap");
    let mut means = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut total = Part::default();
        for _ in 0..parts.len() {
            let part = parts[stream.below(parts.len() as u64) as usize];
            total.sum += part.sum;
            total.count += part.count;
        }
        if total.count > 0.0 {
            means.push(total.sum / total.count);
        }
    }
    means.sort_unstable_by(f64::total_cmp);
    Some(Interval(percentile(&means, 2.5)?, percentile(&means, 97.5)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_type_seven() {
        // By hand: position 0.95 * 19 = 18.05 in 1..=20 is 19 + 0.05.
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert!((percentile(&values, 95.0).unwrap() - 19.05).abs() < 1e-12);
        assert_eq!(percentile(&values, 50.0), Some(10.5));
        assert_eq!(percentile(&[7.0], 50.0), Some(7.0));
        assert_eq!(percentile(&[1.0, 2.0, 4.0], 50.0), Some(2.0));
    }

    #[test]
    fn too_few_values_have_no_high_percentile() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values[..19], 95.0), None);
        assert!(percentile(&values[..20], 95.0).is_some());
        assert_eq!(percentile(&values[..99], 99.0), None);
        assert!(percentile(&values, 99.0).is_some());
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn the_interval_of_a_mean_is_about_two_standard_errors() {
        // 400 uniform values: standard error 1 / sqrt(12 * 400).
        let mut stream = RandomStream::new(5, "values");
        let parts: Vec<Part> = (0..400).map(|_| Part::one(stream.next_f64())).collect();
        let centre = parts.iter().map(|part| part.sum).sum::<f64>() / 400.0;
        let Interval(low, high) = bootstrap(&parts, 1).unwrap();
        let error = 1.96 / (12.0_f64 * 400.0).sqrt();
        assert!((centre - low - error).abs() < 0.15 * error, "{low} {centre} {high}");
        assert!((high - centre - error).abs() < 0.15 * error, "{low} {centre} {high}");
    }

    #[test]
    fn runs_are_drawn_whole() {
        // Two runs of unequal size: a resample is one of (a, a), (a, b), (b, b) with means 1, 2.5, 3.
        let parts = [Part { sum: 1.0, count: 1.0 }, Part { sum: 9.0, count: 3.0 }];
        assert_eq!(bootstrap(&parts, 1), Some(Interval(1.0, 3.0)));
        assert_eq!(bootstrap(&parts[..1], 1), None);
        let constant = [Part::one(4.0); 10];
        assert_eq!(bootstrap(&constant, 1), Some(Interval(4.0, 4.0)));
    }
}
