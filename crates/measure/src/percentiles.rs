//! Ratios of high percentiles, and their intervals by order statistics.
//!
//! The number of flows below the true percentile has a binomial distribution whatever the distribution of their times,
//! so two order statistics bound it (the interval of a quantile without assumptions; David and Nagaraja, "Order
//! Statistics", section 7.1). The flows of one run are not independent, so the distribution has the *effective* number
//! of flows: the one that has the measured variance, between runs, of the share of flows above the percentile
//! (Woodruff, "Confidence intervals for medians and other position measures", 1952). The bounds of a ratio follow from
//! the bounds of its two percentiles on a logarithmic scale (Zou and Donner, "Construction of confidence
//! limits about effect measures", 2008), with the measured correlation between the two shares. Unlike a
//! standard error this knows no symmetry: with a few very long times a percentile cannot be 100 % shorter
//! than it is.

use super::Interval;

/// The probability that any interval of a family misses the truth.
const MISS: f64 = 0.05;

/// The values of all flows of a contender, ascending, each with its run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pooled(Vec<(f64, usize)>);

impl Pooled {
    /// Returns the values of each run, pooled.
    pub fn new(runs: &[Vec<f64>]) -> Pooled {
        let values = runs.iter().enumerate().flat_map(|(run, values)| values.iter().map(move |v| (*v, run)));
        let mut all: Vec<(f64, usize)> = values.collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Pooled(all)
    }

    /// Returns the percentile `p` by linear interpolation.
    fn percentile(&self, p: f64) -> Option<f64> {
        let values: Vec<f64> = self.0.iter().map(|(value, _)| *value).collect();
        super::percentile(&values, p)
    }

    /// Returns by how much the number of flows above the percentile, in each run, exceeds its expectation.
    fn residuals(&self, p: f64, runs: usize) -> Vec<f64> {
        let first_above = (p / 100.0 * self.0.len() as f64).ceil() as usize;
        let mut residuals = vec![0.0; runs];
        for (rank, (_, run)) in self.0.iter().enumerate() {
            residuals[*run] += f64::from(u8::from(rank >= first_above)) - (1.0 - p / 100.0);
        }
        residuals
    }

    /// Returns the number of independent flows that would know the share above the percentile as well as these do.
    fn effective(&self, p: f64, residuals: &[f64]) -> f64 {
        let (n, runs) = (self.0.len() as f64, residuals.len() as f64);
        let squares: f64 = residuals.iter().map(|r| r * r).sum();
        let variance = squares * runs / (runs - 1.0) / (n * n);
        let share = p / 100.0;
        (share * (1.0 - share) / variance).min(n)
    }

    /// Returns the order statistics that bound the percentile on either side, each except with probability `miss`, if
    /// the flows are as good as `effective` independent ones. None if there are too few for an upper bound.
    fn bounds(&self, p: f64, effective: f64, miss: f64) -> Option<(f64, f64)> {
        let trials = effective.floor().max(1.0);
        let (low, high) = binomial_ranks(trials as u64, p / 100.0, miss)?;
        let n = self.0.len();
        let place = |rank: u64, round: fn(f64) -> f64| round(rank as f64 / trials * n as f64) as usize;
        let at = |place: usize| self.0.get(place.max(1) - 1).map(|(value, _)| *value);
        Some((at(place(low, f64::floor))?, at(place(high, f64::ceil).min(n))?))
    }
}

/// Returns the ranks (from 1; 0 is none) of the order statistics of `n` values that bound their quantile `share`, each
/// except with probability `miss`: none if even the greatest value does not.
fn binomial_ranks(n: u64, share: f64, miss: f64) -> Option<(u64, u64)> {
    let log = |x: f64| libm::log(x);
    // The probability of 0 values below the quantile, and then of each next number.
    let mut logarithm = n as f64 * log(1.0 - share);
    let (mut sum, mut low) = (0.0, 0);
    for below in 0..n {
        // The order statistic of rank r is above the quantile if fewer than r values are below.
        sum += libm::exp(logarithm);
        if sum <= miss {
            low = below + 1;
        }
        if sum >= 1.0 - miss {
            return Some((low, below + 1));
        }
        logarithm += log((n - below) as f64 / (below + 1) as f64 * share / (1.0 - share));
    }
    None
}

/// Returns the ratios of the percentiles `p` of each pair, and their intervals, which hold simultaneously
/// with 95 %. An interval is none for fewer than two runs, and for too few flows.
pub fn percentile_ratios(
    pairs: &[(&Pooled, &Pooled)],
    p: f64,
    runs: usize,
) -> Vec<Option<(f64, Option<Interval>)>> {
    let miss = MISS / 2.0 / pairs.len().max(1) as f64;
    pairs.iter().map(|(a, b)| ratio(a, b, p, runs, miss)).collect()
}

fn ratio(a: &Pooled, b: &Pooled, p: f64, runs: usize, miss: f64) -> Option<(f64, Option<Interval>)> {
    let (above, below) = (a.percentile(p)?, b.percentile(p)?);
    if below <= 0.0 || above <= 0.0 {
        return None;
    }
    let ratio = above / below;
    if runs < 2 {
        return Some((ratio, None));
    }
    if a == b {
        // The same flows.
        return Some((ratio, Some(Interval(ratio, ratio))));
    }
    let residuals = (a.residuals(p, runs), b.residuals(p, runs));
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let spread = (product(&residuals.0, &residuals.0) * product(&residuals.1, &residuals.1)).sqrt();
    let correlation = if spread > 0.0 { product(&residuals.0, &residuals.1) / spread } else { 0.0 };
    let correlation = correlation.clamp(0.0, 1.0);
    let of = |pooled: &Pooled, residuals: &[f64]| pooled.bounds(p, pooled.effective(p, residuals), miss);
    let (Some(own), Some(other)) = (of(a, &residuals.0), of(b, &residuals.1)) else {
        return Some((ratio, None));
    };
    let distance = |greater: f64, less: f64| libm::log(greater / less).max(0.0);
    let combined = |x: f64, y: f64| (x * x + y * y - 2.0 * correlation * x * y).max(0.0).sqrt();
    let down = combined(distance(above, own.0), distance(other.1, below));
    let up = combined(distance(own.1, above), distance(below, other.0));
    Some((ratio, Some(Interval(ratio * libm::exp(-down), ratio * libm::exp(up)))))
}

#[cfg(test)]
#[path = "percentiles_tests.rs"]
mod tests;
