//! Differences between contenders: ratios of means over the flows that both have delivered.

use serde::Serialize;

use super::Entrant;
use super::measured::Measured;
use super::unseen::{Bounds, OfPair};
use crate::stats::{self, Interval, Part, Pooled};

/// A difference and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// 100 (mean of x / mean of the other - 1), in percent.
    pub mean: f64,
    /// Its interval, by a paired bootstrap over runs. All intervals of one family hold simultaneously with 95
    /// %. None for a single run.
    pub ci95: Option<Interval>,
}

/// The interpretation of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Above,
    Below,
    /// Practically equal.
    Equal,
    Undecided,
}

impl Difference {
    /// Returns the interpretation if less than `least` per cent is irrelevant; none without an interval.
    pub(crate) fn read(&self, least: f64) -> Option<Reading> {
        let Interval(low, high) = self.ci95?;
        Some(if -least <= low && high <= least {
            Reading::Equal
        } else if low <= 0.0 && 0.0 <= high {
            Reading::Undecided
        } else if self.mean.abs() < least {
            Reading::Equal
        } else if self.mean > 0.0 {
            Reading::Above
        } else {
            Reading::Below
        })
    }

    /// Returns an estimate of the number of runs that would be decisive, after `runs` that are not: the
    /// interval narrows with the square root of their number, until 0 lies outside or the whole interval is
    /// below `least`.
    pub(crate) fn runs_needed(&self, runs: u32, least: f64) -> Option<u64> {
        let Interval(low, high) = self.ci95?;
        let (below, above) = (self.mean - low, high - self.mean);
        // The half towards 0 has to narrow: bounds for unseen events widen only one of them. The lower one may be cut
        // off, and beneath the least effect either may be decisive.
        let half = match self.mean {
            mean if mean <= -least => above,
            mean if mean >= least && low > -100.0 => below,
            _ => below.max(above),
        };
        let mean = self.mean.abs();
        let target = if mean >= least { mean } else { mean.max(least - mean) };
        let runs = f64::from(runs) * (half / target).powi(2) * 1.05;
        // Rounded to two digits.
        let unit = 10_f64.powf((runs.max(1.0)).log10().floor() - 1.0).max(1.0);
        let runs = (runs / unit).ceil() * unit;
        (runs.is_finite() && runs < 1e15).then_some(runs as u64)
    }

    /// Returns the difference with an interval that also holds if these bounds become true.
    #[must_use]
    pub(crate) fn with_unseen(self, bound: OfPair) -> Difference {
        let Some(Interval(low, high)) = self.ci95 else { return self };
        if bound == OfPair::default() {
            return self;
        }
        let OfPair { own, other, shared } = bound;
        let ratio = |percent: f64| 1.0 + percent / 100.0;
        let least =
            |shared: f64| (ratio(low) - ratio(self.mean) * own.less + shared) / (1.0 + other.more + shared);
        let low = least(0.0).min(least(shared));
        // Nothing is left of the other one's goodput.
        let share = (1.0 - other.less).max(1e-9);
        let most = |shared: f64| (ratio(high) + ratio(self.mean) * own.more + shared) / (share + shared);
        let high = most(0.0).max(most(shared));
        let ci95 = Difference::of_ratio(ratio(self.mean), Some(Interval(low, high))).ci95;
        Difference { ci95, ..self }
    }

    fn of_ratio(ratio: f64, interval: Option<Interval>) -> Difference {
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        // Nothing is less than nothing by more than 100 %.
        let ci95 = interval.map(|Interval(low, high)| Interval(percent(low), percent(high)).at_least(-100.0));
        Difference { mean: percent(ratio), ci95 }
    }
}

/// Returns for each run the sums of both contenders' values over the flows for which both have one: those that both
/// have delivered, for bulk all. Flows with the same number are the same transfer and form a pair; a flow that
/// only one of them has delivered is in neither sum.
pub(crate) fn pairs(runs: &[Vec<Measured>], other: &[Vec<Measured>]) -> Vec<Part> {
    let part = |(own, other): (&Vec<Measured>, &Vec<Measured>)| {
        let mut part = Part::default();
        for (own, other) in own.iter().zip(other) {
            if let (Some(own), Some(other)) = (own.value, other.value) {
                part.sum += own;
                part.count += other;
            }
        }
        part
    };
    runs.iter().zip(other).map(part).collect()
}

/// Returns the differences of a family, each from its [`pairs`]; none if no flow can be compared.
pub(crate) fn family(series: &[Vec<Part>], seed: u64) -> Vec<Option<Difference>> {
    let intervals = stats::simultaneous(series, seed);
    let difference = |(parts, interval): (&Vec<Part>, Option<Interval>)| {
        let sum: f64 = parts.iter().map(|part| part.sum).sum();
        let count: f64 = parts.iter().map(|part| part.count).sum();
        (count > 0.0).then(|| Difference::of_ratio(sum / count, interval))
    };
    series.iter().zip(intervals).map(difference).collect()
}

/// Returns the difference of each entrant's values from those of the entrant `reference`, with their bounds
/// `unseen`. The listed entrants are one family, and the others another one, in which the listed ones are empty.
pub(crate) fn against(
    values: &[Vec<Vec<Measured>>],
    entrants: &[Entrant<'_>],
    reference: Option<usize>,
    unseen: &Bounds<'_>,
    seed: u64,
) -> Vec<Option<Difference>> {
    let Some(reference) = reference else { return vec![None; entrants.len()] };
    let of = |listed: bool| {
        let series: Vec<Vec<Part>> = values
            .iter()
            .zip(entrants)
            .map(|(runs, entrant)| match entrant.listed == listed {
                true => pairs(runs, &values[reference]),
                false => vec![Part::default(); runs.len()],
            })
            .collect();
        family(&series, seed)
    };
    let (listed, others) = (of(true), of(false));
    let own = |(at, entrant): (usize, &Entrant<'_>)| {
        let difference = if entrant.listed { listed[at] } else { others[at] };
        difference.map(|difference| match at == reference {
            true => difference,
            false => difference.with_unseen(unseen.of_pair(at, reference)),
        })
    };
    entrants.iter().enumerate().map(own).collect()
}

/// Returns the differences of 95th percentiles from that of `reference`, as one family.
pub(crate) fn percentiles(others: &[Pooled], reference: &Pooled, runs: usize) -> Vec<Option<Difference>> {
    let pairs: Vec<(&Pooled, &Pooled)> = others.iter().map(|other| (other, reference)).collect();
    let ratios = stats::percentile_ratios(&pairs, 95.0, runs);
    ratios.into_iter().map(|ratio| ratio.map(|(ratio, ci)| Difference::of_ratio(ratio, ci))).collect()
}
