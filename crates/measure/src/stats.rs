//! Means, percentiles and bootstrap intervals.
//!
//! Percentiles interpolate linearly between order statistics (Hyndman and Fan's type 7, the default of R and
//! NumPy). Intervals are computed by a bootstrap over *runs*: the flows of one run share their losses and
//! queues and are not independent, so whole runs are drawn with replacement.
//!
//! Means and ratios of means have symmetric studentised intervals (Hall, "On symmetric bootstrap confidence
//! intervals", 1988): each resample's deviation is divided by its own standard error. Of the usual bootstraps
//! this one has the best coverage for 30 skewed values; the plain percentile interval covers 88 to 94 %
//! instead of 95 %. Several intervals that have to hold simultaneously share one critical value, the 95th
//! percentile of the greatest deviation among them (max-t).
//!
//! Intervals of percentiles follow from order statistics (`percentiles.rs`).

use anabranch_units::RandomStream;
use serde::{Deserialize, Serialize};

/// The number of resamples for an interval.
pub const RESAMPLES: usize = 2000;

/// The coverage of an interval, in percent.
const LEVEL: f64 = 95.0;

/// The smallest standard error of a resample, as a fraction of the sample's. A resample that happens to
/// consist of equal runs would otherwise have an infinite deviation.
const LEAST_ERROR: f64 = 0.5;

/// The two ends of a 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval(pub f64, pub f64);

impl Interval {
    /// True if `value` lies inside, including the ends.
    pub fn contains(self, value: f64) -> bool {
        self.0 <= value && value <= self.1
    }

    /// Returns its part from `least` on: the lower end of a symmetric interval may be a value that the quantity cannot
    /// have.
    #[must_use]
    pub fn at_least(self, least: f64) -> Interval {
        Interval(self.0.max(least), self.1)
    }

    /// Returns half of the distance between its ends.
    pub fn half_width(self) -> f64 {
        (self.1 - self.0) / 2.0
    }
}

/// Returns the mean; none without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    // Summed in order, so that the result is the same on every machine.
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the percentile `p` (0 to 100) of `sorted`, ascending; none if there are too few values.
///
/// A percentile above the median needs a value beyond it: at least 100 / (100 - p) of them, so 20 for p95 and
/// 100 for p99.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let tail = (100.0 - p).min(p);
    // 100 / (100 - 99) is exact; the tolerance is for quotients that are not.
    if sorted.is_empty() || (p != 50.0 && (sorted.len() as f64) * tail < 100.0 - 1e-9) {
        return None;
    }
    let at = p / 100.0 * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    Some(sorted[low] + (sorted[high] - sorted[low]) * part)
}

/// The contribution of one run to a ratio of two sums. For a mean over flows it is the sum of their values
/// and their number; for a ratio of two means, the sums of either side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// The contribution to the numerator.
    pub sum: f64,
    /// The contribution to the denominator.
    pub count: f64,
}

impl Part {
    /// Returns one value that represents the whole run.
    pub const fn one(value: f64) -> Part {
        Part { sum: value, count: 1.0 }
    }
}

/// Returns the 95 % interval of the sum of `parts` over the sum of their counts, by bootstrap over runs; none
/// for fewer than two runs with any.
///
/// The same runs are drawn for every quantity, so the same values have the same interval everywhere.
pub fn bootstrap(parts: &[Part], seed: u64) -> Option<Interval> {
    simultaneous(&[parts.to_vec()], seed)[0]
}

/// Returns the intervals of several ratios over the same runs, which hold *simultaneously* with 95 %.
pub fn simultaneous(series: &[Vec<Part>], seed: u64) -> Vec<Option<Interval>> {
    let batches: Vec<Vec<Part>> = series.iter().map(|parts| batches(parts)).collect();
    intervals(&batches, seed, RESAMPLES)
}

/// The number of runs, or of batches of successive runs, that a bootstrap resamples at most. With thousands of runs the
/// resamples of batches have the same distribution at a tenth of the cost.
const MOST_DRAWN: usize = 300;

/// Returns the sums over batches of successive runs, at most [`MOST_DRAWN`] of them.
fn batches(parts: &[Part]) -> Vec<Part> {
    let size = parts.len().div_ceil(MOST_DRAWN).max(1);
    let add = |a: Part, b: &Part| Part { sum: a.sum + b.sum, count: a.count + b.count };
    parts.chunks(size).map(|batch| batch.iter().fold(Part::default(), add)).collect()
}

/// A ratio of two sums, with the values that a resample needs.
struct Ratio {
    value: f64,
    error: f64,
    /// The residual of each run, `sum - value * count`, and its count.
    runs: Vec<(f64, f64)>,
}

impl Ratio {
    fn new(parts: &[Part]) -> Option<Ratio> {
        if parts.iter().filter(|part| part.count > 0.0).count() < 2 {
            return None;
        }
        let count: f64 = parts.iter().map(|part| part.count).sum();
        let value = parts.iter().map(|part| part.sum).sum::<f64>() / count;
        let runs: Vec<(f64, f64)> =
            parts.iter().map(|part| (part.sum - value * part.count, part.count)).collect();
        let squares = runs.iter().map(|(residual, _)| residual * residual).sum();
        let mut error = standard_error(squares, count, runs.len());
        // Equal runs differ at most by rounding.
        if error <= 1e-12 * value.abs() {
            error = 0.0;
        }
        Some(Ratio { value, error, runs })
    }

    /// Returns the deviation of the ratio of the runs `drawn` from the ratio of all runs, in standard errors.
    fn deviation(&self, drawn: &[usize]) -> f64 {
        let (mut residuals, mut counts) = (0.0, 0.0);
        let (mut squares, mut products, mut counts2) = (0.0, 0.0, 0.0);
        for run in drawn {
            let (residual, count) = self.runs[*run];
            residuals += residual;
            counts += count;
            squares += residual * residual;
            products += residual * count;
            counts2 += count * count;
        }
        if self.error == 0.0 || counts <= 0.0 {
            return 0.0;
        }
        let shift = residuals / counts;
        // The residuals relative to the resample's own ratio are `residual - shift * count`.
        let squares = (squares - 2.0 * shift * products + shift * shift * counts2).max(0.0);
        let error = standard_error(squares, counts, drawn.len());
        shift.abs() / error.max(LEAST_ERROR * self.error)
    }
}

/// Returns the standard error of a ratio by its linearisation.
fn standard_error(squares: f64, count: f64, n: usize) -> f64 {
    let n = n as f64;
    (squares * n / (n - 1.0)).sqrt() / count
}

fn intervals(series: &[Vec<Part>], seed: u64, resamples: usize) -> Vec<Option<Interval>> {
    let ratios: Vec<Option<Ratio>> = series.iter().map(|parts| Ratio::new(parts)).collect();
    let critical = critical(&ratios, seed, resamples);
    let interval = |ratio: &Ratio| {
        let half = critical * ratio.error;
        Interval(ratio.value - half, ratio.value + half)
    };
    ratios.iter().map(|ratio| ratio.as_ref().map(interval)).collect()
}

/// Returns the deviation, in standard errors, that the greatest of all ratios exceeds in 5 % of the
/// resamples.
fn critical(ratios: &[Option<Ratio>], seed: u64, resamples: usize) -> f64 {
    let Some(runs) = ratios.iter().flatten().map(|ratio| ratio.runs.len()).min() else { return 0.0 };
    let mut stream = RandomStream::new(seed, "bootstrap");
    let mut drawn = vec![0; runs];
    let mut greatest = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        drawn.fill_with(|| stream.below(runs as u64) as usize);
        let deviations = ratios.iter().flatten().map(|ratio| ratio.deviation(&drawn));
        greatest.push(deviations.fold(0.0, f64::max));
    }
    greatest.sort_unstable_by(f64::total_cmp);
    percentile(&greatest, LEVEL).unwrap_or(0.0)
}

#[path = "percentiles.rs"]
mod percentiles;

pub use percentiles::{Pooled, percentile_ratios};

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
