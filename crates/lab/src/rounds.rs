//! The number of runs of a comparison if the scenario does not give one.
//!
//! Runs are added in rounds until the intervals are narrow enough or a budget is spent. A round ends by the *widths* of
//! the intervals only: a rule that ended as soon as a difference is clear would look several times and stop at the look
//! that happens to be wrong. Widths tell nothing about the sign of an error, so intervals keep their coverage. The
//! first round has [`Scenario::runs`] runs, and the next ones the number that the widths seem to need, up to four times
//! as many.
//!
//! The budget is counted in packet-hops, so that the same seed, input and version have the same number of runs on
//! every machine.

use crate::report::difference::Difference;
use crate::report::measured::Measure;
use crate::report::verdict::{Finding, Outcome};
use crate::scenario::Scenario;
use crate::stats::Interval;

/// The packet-hops of the runs of all conditions: some seconds of work.
pub(crate) const BUDGET: u64 = 20_000_000;
/// The largest number of runs of a condition.
pub const MOST_RUNS: u32 = 3000;
/// A clear difference is precise enough if its interval is within this part of it.
const RELATIVE: f64 = 0.2;
/// The least and the greatest growth of the number of runs in a round.
const GROWTH: (f64, f64) = (1.5, 4.0);
/// A round that adds less than this part of the runs is not worth its bootstrap.
const LEAST_GROWTH: f64 = 1.2;

/// Returns the largest number of runs that a comparison of `scenario` may have.
pub fn most_runs(scenario: &Scenario) -> u32 {
    if scenario.has_runs { scenario.runs } else { MOST_RUNS }
}

/// Returns the factor by which the widest interval of the findings exceeds its precision; none if there is no winner to
/// find, because a flow did not end or there is nothing to compare.
pub(crate) fn excess(findings: &[Finding], precision_pct: f64) -> Option<f64> {
    let mut greatest: Option<f64> = None;
    // The percentiles have an interval of whatever width the runs for the means give them.
    for finding in findings.iter().filter(|finding| finding.measure != Measure::P95) {
        if matches!(finding.outcome(), Outcome::Incomplete | Outcome::Alone | Outcome::SingleRun) {
            continue;
        }
        let differences = finding.others.iter().flat_map(|other| [other.vs_reference, other.vs_best]);
        for difference in differences.flatten() {
            let own = half_width(&difference)? / precision_pct.max(RELATIVE * difference.mean.abs());
            greatest = Some(greatest.unwrap_or(0.0).max(own));
        }
    }
    greatest
}

/// Returns the longer side of an interval, in percent.
fn half_width(difference: &Difference) -> Option<f64> {
    let Interval(low, high) = difference.ci95?;
    Some((difference.mean - low).max(high - difference.mean))
}

/// Returns the number of runs after the next round, after `runs` of `hops` packet-hops each with intervals too wide by
/// `excess`, if `budget` packet-hops are left; none if that is enough.
pub(crate) fn next(runs: u32, excess: f64, hops: f64, budget: u64) -> Option<u32> {
    if excess <= 1.0 {
        return None;
    }
    let now = f64::from(runs);
    let wanted = now * (1.1 * excess * excess).clamp(GROWTH.0, GROWTH.1);
    let affordable = now + budget as f64 / hops.max(1.0);
    let next = wanted.min(affordable).min(f64::from(MOST_RUNS));
    // In round numbers.
    let next = (next / 10.0).floor() * 10.0;
    (next >= LEAST_GROWTH * now).then_some(next as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::unseen::Unseen;
    use crate::report::verdict::Standing;

    #[test]
    fn narrow_intervals_end_the_rounds() {
        assert_eq!(next(30, 1.0, 100.0, BUDGET), None);
        assert_eq!(next(30, 1.5, 100.0, BUDGET), Some(70));
        assert_eq!(next(30, 100.0, 100.0, BUDGET), Some(120));
        assert_eq!(next(1000, 1.01, 100.0, BUDGET), Some(1500));
    }

    #[test]
    fn a_budget_and_a_greatest_number_of_runs_end_them_too() {
        assert_eq!(next(30, 9.0, 100_000.0, 1_000_000), Some(40));
        assert_eq!(next(30, 9.0, 100_000.0, 500_000), None);
        assert_eq!(next(2000, 9.0, 1.0, BUDGET), Some(MOST_RUNS));
        assert_eq!(next(MOST_RUNS, 9.0, 1.0, BUDGET), None);
    }

    /// Returns a finding with one other contender, and the greatest excess beyond a precision of 1 %.
    fn excess_of(
        measure: Measure,
        missed: usize,
        vs_reference: [f64; 3],
        vs_best: Option<[f64; 3]>,
    ) -> Option<f64> {
        let of = |[mean, low, high]: [f64; 3]| Difference { mean, ci95: Some(Interval(low, high)) };
        let standing = |name: &str| Standing {
            name: name.into(),
            multipath: false,
            missed: 0,
            stranded: false,
            failed: 0,
            failures: Vec::new(),
            flows: 30,
            value: 1.0,
            vs_reference: None,
            vs_best: None,
            unseen: Unseen::default(),
            mostly_unseen: false,
        };
        let other = Standing {
            missed,
            vs_reference: Some(of(vs_reference)),
            vs_best: vs_best.map(of),
            ..standing("min_rtt")
        };
        let finding = Finding {
            condition: String::new(),
            class: None,
            unit: "flows",
            measure,
            runs: 30,
            min_effect_pct: 1.0,
            deadline: anabranch_units::Duration::from_secs(60),
            is_given: true,
            reference: Some(standing("tcp")),
            others: vec![other],
            detour: None,
        };
        excess(&[finding], 1.0)
    }

    #[test]
    fn the_widest_interval_of_a_mean_counts_by_its_longer_side() {
        let mean = Measure::MeanTime;
        assert_eq!(excess_of(mean, 0, [0.5, -1.5, 3.5], None), Some(3.0));
        assert_eq!(excess_of(mean, 0, [0.5, -2.5, 1.5], None), Some(3.0));
        // A difference of 50 % is precise enough to within 10 %.
        assert_eq!(excess_of(mean, 0, [50.0, 45.0, 55.0], None), Some(0.5));
        // So is that from the best one.
        assert_eq!(excess_of(mean, 0, [0.5, 0.0, 1.0], Some([0.0, -4.0, 4.0])), Some(4.0));
        // Percentiles have the runs of the means, and without all flows there is no winner to find.
        assert_eq!(excess_of(Measure::P95, 0, [0.5, -1.5, 3.5], None), None);
        assert_eq!(excess_of(mean, 1, [0.5, -1.5, 3.5], None), None);
    }
}
