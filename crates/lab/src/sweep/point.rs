//! The result of a point, as it is in the journal and in the table of a sweep.

use anabranch_measure::{ByRun, Difference, Reading, Record, Sign};
use serde::{Deserialize, Serialize};

use crate::compare::Comparison;
use crate::report::measured::Measure;

/// The rows of a point, as the journal has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The number of the point, from 0.
    pub point: usize,
    /// [`crate::scenario::Scenario::hash`] of the point.
    pub scenario_hash: String,
    /// Runs of each contender.
    pub runs: u32,
    /// Packets crossing a link, in the runs of the last comparison at this point.
    pub packet_hops: u64,
    /// One for each condition and contender.
    pub rows: Vec<Record>,
}

/// Returns the interpretation of a difference from the reference; none for a single run.
fn reading(difference: &Difference, min_effect_pct: f64, of_bulk: bool) -> Option<Reading> {
    Some(match difference.read(min_effect_pct)? {
        Sign::Equal => Reading::Equal,
        Sign::Undecided => Reading::Undecided,
        Sign::Above if of_bulk => Reading::Better,
        Sign::Below if !of_bulk => Reading::Better,
        Sign::Above | Sign::Below => Reading::Worse,
    })
}

impl PointResult {
    /// Returns the result of `comparison` at point number `point`.
    pub fn new(point: usize, comparison: &Comparison) -> PointResult {
        PointResult {
            point,
            scenario_hash: comparison.head.scenario_hash.clone(),
            runs: comparison.runs,
            packet_hops: comparison.performance.packet_hops,
            rows: comparison.rows.iter().map(|row| at_point(comparison, row)).collect(),
        }
    }
}

/// Returns the record of `row` at a point: with the interpretation of its difference, and without the values of each run.
fn at_point(comparison: &Comparison, row: &Record) -> Record {
    let verdict = comparison.verdicts.iter().find(|verdict| {
        let same = verdict.condition == row.condition && verdict.traffic == row.traffic;
        same && verdict.measure != Measure::P95
    });
    let of_bulk = verdict.is_some_and(|verdict| verdict.measure == Measure::Goodput);
    let reference = comparison.rows.iter().find(|other| {
        let same = other.condition == row.condition && other.traffic == row.traffic;
        same && comparison.reference.as_ref() == Some(&other.scheduler)
    });
    let other = reference.filter(|reference| reference.scheduler != row.scheduler);
    let difference = row.vs_reference_pct.filter(|_| reference.is_none() || other.is_some());
    let misses = |row: &Record| row.completed < row.n;
    Record {
        vs_reference_pct: difference,
        reading: match (other, difference) {
            (Some(reference), _) if misses(reference) || misses(row) => Some(Reading::Incomplete),
            (_, Some(difference)) => reading(&difference, comparison.min_effect_pct, of_bulk),
            _ => None,
        },
        best: Some(verdict.is_some_and(|verdict| verdict.best.contains(&row.scheduler))),
        by_run: ByRun::default(),
        ..row.clone()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_measure::stats::Interval;

    use super::*;
    use crate::made;

    fn difference(mean: f64) -> Difference {
        Difference { mean, ci95: Some(Interval(mean - 1.0, mean + 1.0)) }
    }

    #[test]
    fn more_goodput_is_better_and_more_time_is_worse() {
        let of = |mean: f64, of_bulk: bool| reading(&difference(mean), 1.0, of_bulk);
        assert_eq!([of(9.0, true), of(-9.0, true)], [Some(Reading::Better), Some(Reading::Worse)]);
        assert_eq!([of(9.0, false), of(-9.0, false)], [Some(Reading::Worse), Some(Reading::Better)]);
        assert_eq!(of(0.0, false), Some(Reading::Equal));
        assert_eq!(of(0.5, true), Some(Reading::Undecided));
        assert_eq!(reading(&Difference { mean: 9.0, ci95: None }, 1.0, true), None);
    }

    #[test]
    fn a_row_is_incomplete_if_flows_of_it_or_of_the_reference_did_not_finish() {
        let readings = |late: &str| {
            let mut comparison = made::compared(&made::scenario(made::TWO_PATHS));
            comparison.min_effect_pct = 1.0;
            for row in &mut comparison.rows {
                row.vs_reference_pct = Some(difference(-9.0));
                row.completed -= usize::from(row.scheduler == late);
            }
            let point = PointResult::new(0, &comparison);
            point.rows.iter().map(|row| row.reading).collect::<Vec<_>>()
        };
        let (better, incomplete) = (Some(Reading::Better), Some(Reading::Incomplete));
        assert_eq!(readings(""), [None, better, better]);
        assert_eq!(readings("tcp"), [None, incomplete, incomplete]);
        assert_eq!(readings("blest"), [None, better, incomplete]);
    }

    /// The 95th percentile has a verdict of its own, which is not the one of the rows.
    #[test]
    fn the_best_are_those_by_the_mean() {
        let mut comparison = made::compared(&made::scenario(made::TWO_PATHS));
        let mut tail = comparison.verdicts[0].clone();
        (tail.measure, tail.best) = (Measure::P95, vec!["blest".to_owned()]);
        comparison.verdicts[0].best = vec!["min_rtt".to_owned()];
        comparison.verdicts.insert(0, tail);
        let best: Vec<_> = PointResult::new(0, &comparison).rows.iter().map(|row| row.best).collect();
        assert_eq!(best, [Some(false), Some(true), Some(false)]);
    }
}
