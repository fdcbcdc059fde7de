//! The numbers from which a verdict is made: families of intervals, readings, estimates and rows, against values worked out
//! again here.

use anabranch_units::RandomStream;

use super::*;
use crate::made;
use crate::report::difference::Reading;
use crate::report::verdict::{Measure, Outcome};
use crate::run::{Class, RunResult};
use crate::scenario::Scenario;
use crate::stats::Interval;

const FOUR: &str = "
    path = [{ rate = '10 Mbit/s', rtt = '10 ms' }, { rate = '5 Mbit/s', rtt = '30 ms' }]
    traffic = { size = '1 KB' }
    schedulers = ['tcp', 'min_rtt', 'blest', 'linux']
    runs = 12
    seed = 5
";

/// Returns twelve runs of about `mean` milliseconds.
fn noisy(mean: f64, stream: &str) -> Vec<RunResult> {
    let mut stream = RandomStream::new(7, stream);
    made::runs((0..12).map(|_| mean * (0.8 + 0.4 * stream.next_f64())))
}

fn entrants<'a>(scenario: &Scenario, runs: &'a [Vec<RunResult>]) -> Vec<Entrant<'a>> {
    let condition = &scenario.conditions[0];
    let entrant =
        |(at, runs): (usize, &'a Vec<RunResult>)| Entrant::new(scenario, condition, at, Some(0), true, runs);
    runs.iter().enumerate().map(entrant).collect()
}

fn difference(mean: f64, low: f64, high: f64) -> Difference {
    Difference { mean, ci95: Some(Interval(low, high)) }
}

/// Which contender is the best is known only afterwards, so that the intervals of all pairs have to hold together.
#[test]
fn the_family_of_the_best_one_is_all_pairs() {
    let scenario = made::scenario(FOUR);
    let runs = [noisy(50.0, "tcp"), noisy(44.0, "a"), noisy(40.0, "best"), noisy(42.0, "c")];
    let finding =
        verdict::findings(&scenario, &scenario.conditions[0], &entrants(&scenario, &runs)).remove(0);
    assert_eq!(finding.others[1].vs_best, None, "it is itself the best");
    let values: Vec<_> = entrants(&scenario, &runs)
        .iter()
        .map(|entrant| measured::of_flows(&entrant.flows(Class::Contender, 0), false))
        .collect();
    let pairs = |a: usize, b: usize| difference::pairs(&values[a], &values[b]);
    let all_entrants = entrants(&scenario, &runs);
    let listed: Vec<&Entrant<'_>> = all_entrants.iter().collect();
    let bounds = unseen::Bounds::new(&scenario.conditions[0], &listed, &values, verdict::Measure::MeanTime);
    let all = difference::family(&[pairs(1, 2), pairs(3, 2), pairs(3, 1)], 5);
    let two = difference::family(&[pairs(1, 2), pairs(3, 2)], 5);
    for (other, place) in [(0, 0), (2, 1)] {
        let found = finding.others[other].vs_best.unwrap();
        // Each may still meet the longest time that another one has met.
        let bounded = |one: Difference| one.with_unseen(bounds.of_pair(other + 1, 2));
        assert_eq!(Some(found), all[place].map(bounded));
        let two = two[place].map(bounded);
        let width = |one: Option<Difference>| one.unwrap().ci95.unwrap().half_width();
        assert!(width(Some(found)) > 1.01 * width(two), "{found:?}, without the other pair {two:?}");
    }
    // Against the reference there is one family, of all the others.
    let against = difference::family(&[pairs(1, 0), pairs(2, 0), pairs(3, 0)], 5);
    for (at, (standing, expected)) in finding.others.iter().zip(against).enumerate() {
        let bounded = expected.map(|one| one.with_unseen(bounds.of_pair(at + 1, 0)));
        assert_eq!(standing.vs_reference, bounded);
    }
}

/// One run of another multipath contender is late by more and more, which the first one has not shown.
#[test]
fn an_interval_is_mostly_unseen_if_the_bound_is_its_greater_part() {
    let scenario = made::scenario(FOUR);
    let mut parts = Vec::new();
    for excess in [5.0, 20.0, 40.0, 80.0, 160.0, 1280.0] {
        let mut late = noisy(50.0, "b");
        late[3] = made::runs([50.0 + excess]).remove(0);
        let runs = [noisy(50.0, "tcp"), noisy(44.0, "a"), late, noisy(42.0, "c")];
        let all = entrants(&scenario, &runs);
        let finding = verdict::findings(&scenario, &scenario.conditions[0], &all).remove(0);
        let values: Vec<_> = all
            .iter()
            .map(|entrant| measured::of_flows(&entrant.flows(Class::Contender, 0), false))
            .collect();
        let series: Vec<_> = (0..4).map(|at| difference::pairs(&values[at], &values[0])).collect();
        let shown = difference::family(&series, 5)[1].unwrap();
        let width = |difference: Difference| difference.ci95.unwrap().half_width();
        let part = width(shown) / width(finding.others[0].vs_reference.unwrap());
        assert_eq!(finding.others[0].mostly_unseen, part < 0.5, "{excess} ms: {part}");
        parts.push(part);
    }
    assert!(
        parts.iter().any(|part| *part < 0.5) && parts.iter().any(|part| (0.5..0.99).contains(part)),
        "{parts:?}"
    );
}

#[test]
fn a_difference_is_read_by_its_interval_and_the_least_effect() {
    let read = |mean, low, high| difference(mean, low, high).read(1.0).unwrap();
    assert_eq!(read(0.0, -1.0, 1.0), Reading::Equal);
    assert_eq!(read(0.2, -0.6, 1.1), Reading::Undecided);
    assert_eq!(read(-3.0, -6.0, 0.0), Reading::Undecided);
    assert_eq!(read(0.99, 0.1, 1.9), Reading::Equal);
    assert_eq!(read(-0.99, -1.9, -0.1), Reading::Equal);
    // The nearer half of the interval is between 0.6 and 1.2 %, and between 0.7 and 1.5 %.
    assert_eq!((read(1.2, 0.6, 1.8), read(-1.2, -1.8, -0.6)), (Reading::Equal, Reading::Equal));
    assert_eq!((read(1.5, 0.7, 2.3), read(-1.5, -2.3, -0.7)), (Reading::Above, Reading::Below));
    // The farther half, which bounds for unseen events widen, counts for nothing.
    assert_eq!((read(1.2, 0.6, 90.0), read(-1.2, -90.0, -0.6)), (Reading::Equal, Reading::Equal));
    assert_eq!((read(1.5, 0.7, 1.5), read(-1.5, -1.5, -0.7)), (Reading::Above, Reading::Below));
    // "1.0 %" is not more than 1 %.
    assert_eq!((read(1.04, 1.04, 1.04), read(-1.04, -1.04, -1.04)), (Reading::Equal, Reading::Equal));
    assert_eq!((read(1.06, 1.06, 1.06), read(-1.06, -1.06, -1.06)), (Reading::Above, Reading::Below));
    assert_eq!(Difference { mean: 9.0, ci95: None }.read(1.0), None);
}

/// 2.04 times the runs times the square of the half width over the distance to a decision; in two digits, rounded up.
#[test]
fn about_that_number_of_runs_would_tell() {
    let needed = |mean, half| difference(mean, mean - half, mean + half).runs_needed(30, 1.0);
    // 30 * (4 / 2)^2 * 2.04 = 244.8.
    assert_eq!(needed(2.0, 4.0), Some(250));
    assert_eq!(needed(-2.0, 4.0), Some(250));
    // Below the least effect the interval has to lose either 0 or the least effect. The farther one takes
    // fewer runs: 30 * (1.9 / 0.6)^2 * 2.04 = 613.7, and 30 * (2 / 0.8)^2 * 2.04 = 382.5.
    assert_eq!(needed(0.4, 1.9), Some(620));
    assert_eq!(needed(-0.4, 1.9), Some(620));
    assert_eq!(needed(0.8, 2.0), Some(390));
    // 30 * (2 / 1)^2 * 2.04 = 244.8.
    assert_eq!(needed(0.0, 2.0), Some(250));
    assert_eq!(needed(1.0, 2.0), Some(250));
    // The half towards 0 counts, so that fewer runs than those that do not tell never would.
    assert_eq!(difference(2.0, -2.0, 100.0).runs_needed(30, 1.0), Some(250));
    assert_eq!(difference(2.0, -2.0, 2.1).runs_needed(30, 1.0), Some(250));
    assert_eq!(difference(-2.0, -100.0, 2.0).runs_needed(30, 1.0), Some(250));
    // A lower half that was cut off is at least as wide as the upper one: 30 * (200 / 50)^2 * 2.04 = 979.2.
    assert_eq!(difference(50.0, -100.0, 250.0).runs_needed(30, 1.0), Some(980));
    // Either half of a difference beneath the least effect counts: 30 * (2.1 / 0.6)^2 * 2.04 = 749.7.
    assert_eq!(difference(0.4, -1.7, 0.9).runs_needed(30, 1.0), Some(750));
    // Small numbers are not rounded: 30 * (1.5 / 4)^2 * 2.04 = 8.61.
    assert_eq!(needed(4.0, 1.5), Some(9));
    assert_eq!(Difference { mean: 2.0, ci95: None }.runs_needed(30, 1.0), None);
    assert_eq!(difference(0.0, -2.0, 2.0).runs_needed(30, 0.0), None, "no number of runs tells");
}

#[test]
fn the_second_verdict_is_on_the_95th_percentiles_of_short_flows_from_a_hundred_on() {
    let scenario = made::scenario(&FOUR.replace(", 'blest', 'linux'", "").replace("runs = 12", "runs = 10"));
    let condition = &scenario.conditions[0];
    let ten = |first: f64| {
        let of_run = |run: u32| {
            let flows = (0..10).map(|flow| {
                made::flow(Class::Contender, Some(first + f64::from(10 * flow) + f64::from(run)))
            });
            made::run_of(flows.collect())
        };
        (0..10).map(of_run).collect::<Vec<_>>()
    };
    let runs = [ten(100.0), ten(50.0)];
    let findings = verdict::findings(&scenario, condition, &entrants(&scenario, &runs));
    let verdicts: Vec<_> = findings.iter().map(verdict::Finding::verdict).collect();
    assert_eq!(verdicts.iter().map(|one| one.measure).collect::<Vec<_>>(), [Measure::MeanTime, Measure::P95]);
    // All of 100 to 199 ms: rank 0.95 * 99 = 94.05 is 194.05 ms, and 50 ms less.
    let tail = &findings[1];
    assert!((tail.reference.as_ref().unwrap().value - 0.194_05).abs() < 1e-9);
    assert!((tail.others[0].value - 0.144_05).abs() < 1e-9);
    let expected = 100.0 * (144.05 / 194.05 - 1.0);
    let found = verdicts[1].difference_pct.unwrap();
    assert!((found.mean - expected).abs() < 1e-9, "{found:?}");
    assert_eq!((verdicts[1].outcome, &verdicts[1].best[..]), (Outcome::Best, &["min_rtt".to_owned()][..]));
    // One flow fewer, or one that is not delivered, has no such verdict.
    let mut fewer = runs.clone();
    fewer[1][3].flows.pop();
    assert_eq!(verdict::findings(&scenario, condition, &entrants(&scenario, &fewer)).len(), 1);
    let mut missed = runs;
    missed[1][3].flows[2] = made::flow(Class::Contender, None);
    let findings = verdict::findings(&scenario, condition, &entrants(&scenario, &missed));
    let verdict = findings[0].verdict();
    assert_eq!((findings.len(), verdict.outcome), (1, Outcome::Incomplete));
    assert_eq!((findings[0].others[0].missed, findings[0].others[0].flows), (1, 100));
}

/// Two runs, the second with a flow that was not delivered.
#[test]
fn a_row_has_sums_means_and_ratios_of_its_flows() {
    let scenario = made::scenario(&FOUR.replace("runs = 12", "runs = 2"));
    let mut first = made::flow(Class::Contender, Some(10.0));
    let mut second = made::flow(Class::Contender, Some(30.0));
    let mut third = made::flow(Class::Contender, None);
    for (flow, [segments, again, elsewhere, timeouts], by_path, bound) in [
        (&mut first, [10, 1, 2, 0], [700, 300], 5),
        (&mut second, [20, 2, 3, 1], [0, 1000], 15),
        (&mut third, [50, 5, 0, 5], [1, 2], 1000),
    ] {
        let report = &mut flow.report;
        (report.data_segments, report.retransmitted_segments, report.rto_count) = (segments, again, timeouts);
        flow.reinjected_segments = elsewhere;
        report.bytes_by_path = by_path.to_vec();
        report.subflows_used = if by_path[0] > 0 { 2 } else { 1 };
        flow.lower_bound = Some(anabranch_units::Duration::from_millis(bound));
    }
    let runs = vec![made::run_of(vec![first]), made::run_of(vec![second, third])];
    let all = vec![runs.clone(), runs.clone(), runs.clone(), runs];
    let rows = rows(&scenario, &scenario.conditions[0], &entrants(&scenario, &all));
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    let row = &rows[1];
    assert_eq!((row.scheduler.as_str(), row.n, row.completed), ("min_rtt", 3, 2));
    near(row.fct_s.mean.unwrap(), 0.02);
    near(row.fct_s.p50.unwrap(), 0.02);
    assert_eq!((row.fct_s.p95, row.fct_s.p99), (None, None));
    // 800 kbit/s, 266.67 kbit/s, and nothing.
    near(row.goodput_bps.unwrap(), (800_000.0 + 266_666.0) / 3.0);
    near(row.retransmitted_ratio, 8.0 / 80.0);
    near(row.reinjected_ratio, 5.0 / 80.0);
    near(row.rto_count, 2.0);
    near(row.subflows_used, 5.0 / 3.0);
    assert_eq!(row.bytes_by_path, [701, 1302]);
    // Of the delivered flows: 20 ms over 10 ms.
    near(row.lower_bound_s.unwrap(), 0.01);
    near(row.vs_lower_bound.unwrap(), 2.0);
    assert_eq!(
        (&row.by_run.completed[..], &row.by_run.fct_s[..]),
        (&[1, 1][..], &[Some(0.01), Some(0.03)][..])
    );
    near(row.by_run.goodput_bps[1].unwrap(), 133_333.0);
    assert_eq!(row.path, None);
    assert_eq!((rows[0].scheduler.as_str(), rows[0].path.as_deref()), ("tcp", Some("1")));
    near(row.vs_reference_pct.unwrap().mean, 0.0);
}

/// The listed entrants are one family; plain TCPs on other paths do not widen its intervals.
#[test]
fn rows_that_are_not_listed_are_a_family_of_their_own() {
    let scenario = made::scenario(FOUR);
    let runs = [noisy(50.0, "tcp"), noisy(44.0, "a"), noisy(40.0, "best"), noisy(60.0, "d")];
    let mut all = entrants(&scenario, &runs);
    // Another path has other events that no run may have shown.
    all[3].path = Some(1);
    let rows_of = |entrants: &[Entrant<'_>]| rows(&scenario, &scenario.conditions[0], entrants);
    let with = rows_of(&all);
    all[3].listed = false;
    let apart = rows_of(&all);
    let without = rows_of(&all[..3]);
    for at in 1..3 {
        assert_eq!(apart[at].vs_reference_pct, without[at].vs_reference_pct);
        assert_ne!(apart[at].vs_reference_pct, with[at].vs_reference_pct);
    }
    assert!(apart[3].vs_reference_pct.is_some());
}
