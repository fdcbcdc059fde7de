//! The summary of a whole sweep: for each contender the number of points at which it is better or worse than
//! the reference, and the differences.

use serde::Serialize;

use super::{PointResult, Reading};
use crate::stats;

/// The summary of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The points that are done.
    // `points` are all points of the plan in every object about a sweep.
    #[serde(rename = "points_done")]
    pub points: usize,
    /// One for each condition and contender, in the order of the scenario.
    pub contenders: Vec<Standing>,
}

/// A contender over all points.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Standing {
    /// The condition; empty where there is only one.
    pub condition: String,
    /// The class of traffic, if the scenario has classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// The contender's name.
    pub scheduler: String,
    /// Points at which the verdict names it among the best.
    pub best: usize,
    /// Points at which it is better than the reference.
    pub better: usize,
    /// Points at which it is practically equal to the reference.
    pub equal: usize,
    /// Points at which it is worse than the reference.
    pub worse: usize,
    /// Points at which it cannot be told apart from the reference.
    pub undecided: usize,
    /// Points at which flows did not finish.
    pub incomplete: usize,
    /// The median over points of the difference from the reference, in percent; none for the reference.
    pub median_pct: Option<f64>,
    /// The least difference, and its point.
    pub least: Option<(f64, usize)>,
    /// The greatest difference, and its point.
    pub greatest: Option<(f64, usize)>,
    #[serde(skip)]
    differences: Vec<f64>,
}

impl Summary {
    /// Adds the result of a point.
    pub fn add(&mut self, result: &PointResult) {
        self.points += 1;
        for row in &result.rows {
            let known = self.contenders.iter().position(|standing| {
                standing.condition == row.condition
                    && standing.traffic == row.traffic
                    && standing.scheduler == row.scheduler
            });
            let at = known.unwrap_or_else(|| {
                let (condition, scheduler) = (row.condition.clone(), row.scheduler.clone());
                let traffic = row.traffic.clone();
                self.contenders.push(Standing { condition, traffic, scheduler, ..Standing::default() });
                self.contenders.len() - 1
            });
            let standing = &mut self.contenders[at];
            standing.best += usize::from(row.best == Some(true));
            match row.reading {
                Some(Reading::Better) => standing.better += 1,
                Some(Reading::Equal) => standing.equal += 1,
                Some(Reading::Worse) => standing.worse += 1,
                Some(Reading::Undecided) => standing.undecided += 1,
                Some(Reading::Incomplete) => standing.incomplete += 1,
                None => {}
            }
            let Some(difference) = row
                .vs_reference_pct
                .map(|difference| difference.mean)
                .filter(|_| row.reading != Some(Reading::Incomplete))
            else {
                continue;
            };
            standing.differences.push(difference);
            let here = (difference, result.point);
            standing.least = Some(standing.least.filter(|least| least.0 <= difference).unwrap_or(here));
            standing.greatest = Some(standing.greatest.filter(|most| most.0 >= difference).unwrap_or(here));
        }
    }

    /// Computes the medians, once all results are in.
    pub fn finish(&mut self) {
        for standing in &mut self.contenders {
            standing.differences.sort_by(f64::total_cmp);
            standing.median_pct = stats::percentile(&standing.differences, 50.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    /// Returns the result of a point at which `min_rtt` has this difference and interpretation.
    fn at(point: usize, mean: f64, reading: Reading) -> PointResult {
        let mut comparison = made::compared(&made::scenario(made::TWO_PATHS));
        comparison.rows.retain(|row| row.scheduler == "min_rtt");
        let mut result = PointResult::new(point, &comparison);
        let row = &mut result.rows[0];
        row.vs_reference_pct = Some(crate::report::Difference { mean, ci95: None });
        (row.reading, row.best) = (Some(reading), Some(reading == Reading::Better));
        result
    }

    #[test]
    fn a_point_with_unfinished_flows_is_counted_and_its_difference_is_not() {
        let mut summary = Summary::default();
        for result in [
            at(0, -20.0, Reading::Better),
            at(1, 90.0, Reading::Incomplete),
            at(2, 0.2, Reading::Equal),
            at(3, 12.0, Reading::Worse),
            at(4, -5.0, Reading::Undecided),
            at(5, -95.0, Reading::Incomplete),
        ] {
            summary.add(&result);
        }
        summary.finish();
        let own = &summary.contenders[0];
        let counts = [own.best, own.better, own.equal, own.worse, own.undecided, own.incomplete];
        assert_eq!((summary.points, counts), (6, [1, 1, 1, 1, 1, 2]));
        // The median of -20, -5, 0.2 and 12, and their ends with their points.
        assert!((own.median_pct.unwrap() + 2.4).abs() < 1e-9, "{:?}", own.median_pct);
        assert_eq!((own.least, own.greatest), (Some((-20.0, 0)), Some((12.0, 3))));
    }
}
