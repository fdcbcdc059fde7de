//! Differences between contenders: ratios of means over the flows that both have delivered.

pub(crate) use anabranch_measure::Difference;
pub(crate) use anabranch_measure::Sign as Reading;

use super::entrant::Entrant;
use super::measured::Measured;
use super::unseen::Bounds;
use crate::stats::{self, Interval, Part, Pooled};

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

/// Returns the difference of each entrant's values from the values of the entrant `reference`, with their
/// bounds `unseen`. The listed entrants are one family, and the others another one, in which the listed ones
/// are empty.
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

/// Returns the differences of 95th percentiles from the 95th percentile of `reference`, as one family.
pub(crate) fn percentiles(others: &[Pooled], reference: &Pooled, runs: usize) -> Vec<Option<Difference>> {
    let pairs: Vec<(&Pooled, &Pooled)> = others.iter().map(|other| (other, reference)).collect();
    let ratios = stats::percentile_ratios(&pairs, 95.0, runs);
    ratios.into_iter().map(|ratio| ratio.map(|(ratio, ci)| Difference::of_ratio(ratio, ci))).collect()
}
