//! The differences between the three kinds of runs, and their uncertainty.
//!
//! Runs with the same number have the same random draws and are compared in pairs. A difference is the mean
//! over the runs of x - y in per cent of the mean of y, the reference (or of [`Metric::floor`], if that is
//! greater), and its interval is a bootstrap over the pairs. The median of the pairs' differences is reported
//! too, with an interval from their order, which is robust against single runs.

use anabranch_lab::stats::{Interval, Part, bootstrap, percentile};
use serde::Serialize;

use crate::measure::{Kind, Measured, Metric};
use crate::points::Point;

/// A difference within this many per cent is agreement.
pub const BOUND: f64 = 5.0;
/// Fewer pairs than these are inconclusive.
pub const LEAST_PAIRS: usize = 5;
/// The seed of the resampling.
const SEED: u64 = 1;

/// The pairs of kinds that are compared; the second is the reference.
pub const COMPARISONS: [(Kind, Kind); 3] =
    [(Kind::Simulated, Kind::Kernel), (Kind::Simulated, Kind::Emulated), (Kind::Emulated, Kind::Kernel)];

/// The assessment of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Its interval lies within plus and minus 5 %.
    Agrees,
    /// Its interval lies outside of plus and minus 5 %.
    Differs,
    /// Its interval contains a bound.
    Open,
    /// There are too few reliable runs.
    Inconclusive,
}

impl Verdict {
    /// Returns the word of tables and JSON, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::Open => "open",
            Verdict::Inconclusive => "inconclusive",
        }
    }

    /// Returns the verdict of that name.
    pub fn from_name(name: &str) -> Option<Verdict> {
        [Verdict::Agrees, Verdict::Differs, Verdict::Open, Verdict::Inconclusive]
            .into_iter()
            .find(|verdict| verdict.name() == name)
    }
}

/// The difference of one metric between two kinds of runs, in per cent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The number of pairs of runs.
    pub pairs: usize,
    /// The mean of the first.
    pub first: f64,
    /// The mean of the second, the reference.
    pub second: f64,
    /// The difference of the first from the second, in per cent.
    pub percent: f64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// The median of the pairs' differences.
    pub median: f64,
    /// An interval for the true median, with a confidence of 93.75 % for 5 pairs and at least 95 % for more.
    pub median_interval: Option<Interval>,
    /// Whether the difference is within the limits.
    pub verdict: Verdict,
}

impl Difference {
    /// Returns the difference between `pairs` of values, the reference second, in per cent of the reference
    /// or of `floor`, if that is greater; none without pairs.
    pub fn of(pairs: &[(f64, f64)], floor: f64) -> Option<Difference> {
        let n = pairs.len() as f64;
        if pairs.is_empty() {
            return None;
        }
        let sum = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
        let (first, second) = (sum(|pair| pair.0) / n, sum(|pair| pair.1) / n);
        if second.max(floor) <= 0.0 {
            return None;
        }
        let parts: Vec<Part> = pairs
            .iter()
            .map(|(x, y)| Part { sum: 100.0 * (x - y), count: if second > floor { *y } else { floor } })
            .collect();
        let interval = bootstrap(&parts, SEED);
        let mut each: Vec<f64> = pairs.iter().map(|(x, y)| 100.0 * (x - y) / y.max(floor)).collect();
        each.retain(|value| value.is_finite());
        each.sort_unstable_by(f64::total_cmp);
        let median_interval = median_interval(&each);
        let verdict = match interval {
            Some(interval) if pairs.len() >= LEAST_PAIRS => judge(interval),
            _ => Verdict::Inconclusive,
        };
        Some(Difference {
            pairs: pairs.len(),
            first,
            second,
            percent: 100.0 * (first - second) / second.max(floor),
            interval,
            median: percentile(&each, 50.0)?,
            median_interval,
            verdict,
        })
    }
}

fn judge(Interval(low, high): Interval) -> Verdict {
    if low > BOUND || high < -BOUND {
        Verdict::Differs
    } else if low >= -BOUND && high <= BOUND {
        Verdict::Agrees
    } else {
        Verdict::Open
    }
}

/// Returns the interval between two order statistics of `sorted` that contains the median with a confidence
/// of 95 % (sign test); with 5 values the whole range, 93.75 %. None for fewer.
fn median_interval(sorted: &[f64]) -> Option<Interval> {
    let n = sorted.len();
    if n < LEAST_PAIRS {
        return None;
    }
    // The greatest rank k so that fewer than k of n fair coins show heads with a probability of at most 2.5
    // %.
    let (mut below, mut term, mut k) = (0.0, 0.5_f64.powi(n as i32), 0);
    while below + term <= 0.025 {
        below += term;
        k += 1;
        term *= (n + 1 - k) as f64 / k as f64;
    }
    let outer = k.saturating_sub(1);
    Some(Interval(sorted[outer], sorted[n - 1 - outer]))
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The point's name.
    pub point: String,
    /// The measure of the compared values.
    pub metric: Metric,
    /// The kind that is compared.
    pub kind: Kind,
    /// The kind with which it is compared.
    pub reference: Kind,
    /// The result for this measure over all pairs of runs.
    #[serde(flatten)]
    pub difference: Difference,
}

/// Returns the rows of `point`, and the rows of its other classes of traffic; their names end with the class.
/// `measured` returns a run of a kind if it exists and is reliable, for runs below `runs`.
pub fn rows<'a>(point: &Point, runs: u32, measured: &dyn Fn(Kind, u32) -> Option<&'a Measured>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (class, name) in point.classes() {
        for metric in Metric::ALL {
            for (kind, reference) in COMPARISONS {
                let value = |kind, run| {
                    let own = measured(kind, run).and_then(|measured| measured.of_class(class));
                    own.and_then(|own| metric.of(point, own))
                };
                let pairs: Vec<(f64, f64)> =
                    (0..runs).filter_map(|run| Some((value(kind, run)?, value(reference, run)?))).collect();
                if let Some(difference) = Difference::of(&pairs, metric.floor()) {
                    rows.push(Row { point: name.clone(), metric, kind, reference, difference });
                }
            }
        }
    }
    rows
}

#[cfg(test)]
#[path = "floor_tests.rs"]
mod floor;
#[cfg(test)]
mod tests {
    use super::*;

    fn constant(x: f64, y: f64, n: usize) -> Difference {
        Difference::of(&vec![(x, y); n], 0.0).unwrap()
    }

    #[test]
    fn a_point_differs_when_its_interval_lies_outside_of_five_per_cent() {
        let difference = constant(1.06, 1.0, 20);
        assert!((difference.percent - 6.0).abs() < 1e-9 && (difference.median - 6.0).abs() < 1e-9);
        assert_eq!(difference.verdict, Verdict::Differs);
        assert_eq!(constant(0.94, 1.0, 20).verdict, Verdict::Differs);
        assert_eq!(constant(1.04, 1.0, 20).verdict, Verdict::Agrees);
        assert_eq!(constant(0.96, 1.0, 20).verdict, Verdict::Agrees);
        assert_eq!(constant(2.0, 1.0, 4).verdict, Verdict::Inconclusive);
        assert_eq!(constant(2.0, 1.0, 1).interval, None);
        assert_eq!(Difference::of(&[], 0.0), None);
        assert_eq!(Difference::of(&[(1.0, 0.0)], 0.0), None);
    }

    #[test]
    fn noise_leaves_it_open() {
        // Means that differ by 6 %, and runs that vary by 20 %.
        let pairs: Vec<(f64, f64)> =
            (0..20).map(|run| (if run % 2 == 0 { 1.26 } else { 0.86 }, 1.0)).collect();
        let difference = Difference::of(&pairs, 0.0).unwrap();
        assert!((difference.percent - 6.0).abs() < 1e-9);
        assert_eq!(difference.verdict, Verdict::Open);
        let Interval(low, high) = difference.interval.unwrap();
        // The standard error is 20 % / sqrt(20).
        assert!((low - (6.0 - 1.96 * 4.47)).abs() < 1.5 && (high - (6.0 + 1.96 * 4.47)).abs() < 1.5);
    }

    #[test]
    fn runs_are_compared_in_pairs() {
        // Runs differ by a factor of 10, and each pair by 1 %.
        let pairs: Vec<(f64, f64)> = (1..=20).map(|run| (1.01 * f64::from(run), f64::from(run))).collect();
        let difference = Difference::of(&pairs, 0.0).unwrap();
        let Interval(low, high) = difference.interval.unwrap();
        assert!((low - 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9);
        assert_eq!(difference.verdict, Verdict::Agrees);
    }

    #[test]
    fn few_retransmissions_are_compared_with_the_floor() {
        // One more segment of 2 is 5 % of 20, and not half.
        let difference = Difference::of(&vec![(3.0, 2.0); 20], 20.0).unwrap();
        assert!((difference.percent - 5.0).abs() < 1e-9 && difference.verdict == Verdict::Agrees);
        assert_eq!(Difference::of(&vec![(4.0, 2.0); 20], 20.0).unwrap().verdict, Verdict::Differs);
        // None at all on either side is no difference.
        assert_eq!(Difference::of(&vec![(0.0, 0.0); 20], 20.0).unwrap().percent, 0.0);
        let many = Difference::of(&vec![(110.0, 100.0); 20], 20.0).unwrap();
        assert!((many.percent - 10.0).abs() < 1e-9);
    }

    #[test]
    fn the_median_has_an_interval_from_the_order_of_the_values() {
        let sorted: Vec<f64> = (1..=20).map(f64::from).collect();
        // The ranks of the sign test for 20 values.
        assert_eq!(median_interval(&sorted), Some(Interval(6.0, 15.0)));
        assert_eq!(median_interval(&sorted[..10]), Some(Interval(2.0, 9.0)));
        // Of 13 and 16 values an interval of 90 % would leave out one more at each end.
        assert_eq!(median_interval(&sorted[..13]), Some(Interval(3.0, 11.0)));
        assert_eq!(median_interval(&sorted[..16]), Some(Interval(4.0, 13.0)));
        assert_eq!(median_interval(&sorted[..6]), Some(Interval(1.0, 6.0)));
        assert_eq!(median_interval(&sorted[..5]), Some(Interval(1.0, 5.0)));
        assert_eq!(median_interval(&sorted[..4]), None);
        // One outlier moves the mean and not the median.
        let mut pairs = vec![(1.0, 1.0); 9];
        pairs.push((10.0, 1.0));
        let difference = Difference::of(&pairs, 0.0).unwrap();
        assert!(difference.percent > 80.0 && difference.median == 0.0);
        assert_eq!(difference.median_interval, Some(Interval(0.0, 0.0)));
    }
}
