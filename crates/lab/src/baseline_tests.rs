//! When the race gives up a path, worked by hand, and the numbers that it reports.

use super::*;
use crate::made;

/// Runs a race between a path that costs 10 in every run, and one that costs `mean` more, and alternately `spread` more and
/// less than that; returns the choice and the number of runs of each.
fn race(mean: f64, spread: f64) -> (usize, Vec<usize>) {
    let mut race = Race::new(2, false, 0.01, 30);
    while let Some((range, running)) = race.next() {
        for run in range {
            let more = if run % 2 == 0 { mean + spread } else { mean - spread };
            for path in &running {
                race.candidates[*path].costs.of_runs.push([10.0, 10.0 + more][*path]);
            }
        }
        race.judge();
    }
    (race.chosen(), race.candidates.iter().map(Candidate::runs).collect())
}

/// With n runs the standard error of alternating costs is `spread / sqrt(n - 1)`: 0.577, 0.378 and 0.258 of it after 4, 8 and
/// 16 runs, where 5, 4 and 3.5 of them have to be exceeded: 2.887, 1.512 and 0.904.
#[test]
fn a_worse_path_is_given_up_by_its_distance_in_standard_errors() {
    for (mean, runs) in [(2.95, 4), (2.85, 8), (1.55, 8), (1.47, 16), (0.93, 16), (0.87, 30)] {
        assert_eq!(race(mean, 1.0), (0, vec![runs, runs]), "{mean}");
    }
    // However large the mean is.
    assert_eq!(race(28.5, 10.0), (0, vec![8, 8]));
}

/// 1 % of 10 is negligible: a path is equal where its mean and as many standard errors are below that.
#[test]
fn an_equal_path_is_given_up_by_its_error_and_not_by_its_mean() {
    // The means are within 0.5 %, and the runs cannot tell.
    assert_eq!(race(0.05, 1.0), (0, vec![30, 30]));
    // 0.05 + 2.887 * 0.017 = 0.0991, and with a spread of 0.018 it is 0.1020; after 8 runs 0.05 + 1.512 * 0.018.
    assert_eq!(race(0.05, 0.017), (0, vec![4, 4]));
    assert_eq!(race(0.05, 0.018), (0, vec![8, 8]));
}

#[test]
fn results_are_means_over_the_contenders_flows_and_count_the_delivered_ones() {
    let mut race = Race::new(2, false, 0.01, 4);
    let own = |millis| made::flow(Class::Contender, millis);
    // A flow that was not delivered has the time that it had; competing flows do not count.
    let first = made::run_of(vec![own(Some(30.0)), own(None), made::flow(Class::Beside, Some(9000.0))]);
    let second = made::run_of(vec![own(Some(10.0)), own(Some(20.0))]);
    for run in [&first, &second] {
        race.add(0, run);
    }
    for _ in 0..2 {
        race.add(1, &second);
    }
    assert_eq!(race.candidates[0].costs.of_runs, [60.03, 0.03]);
    assert_eq!(race.chosen(), 1);
    let [slow, fast] = &race.results(["a", "b"].into_iter())[..] else { panic!("two paths") };
    assert_eq!((slow.path.as_str(), slow.chosen, slow.runs, slow.n, slow.completed), ("a", false, 2, 4, 3));
    assert!((slow.mean_s.unwrap() - 60.06 / 4.0).abs() < 1e-9);
    assert_eq!((fast.path.as_str(), fast.chosen, fast.n, fast.completed), ("b", true, 4, 4));
    // 1000 bytes in 10 and in 20 ms: 800 and 400 kbit/s.
    assert_eq!(fast.goodput_bps, Some(600e3));
}

#[test]
fn a_bulk_race_is_won_by_the_greatest_goodput() {
    let mut race = Race::new(2, true, 0.01, 4);
    race.add(0, &made::run_of(vec![made::flow(Class::Contender, Some(20.0))]));
    race.add(1, &made::run_of(vec![made::flow(Class::Contender, Some(10.0))]));
    let results = race.results(["a", "b"].into_iter());
    assert_eq!((race.chosen(), results[1].goodput_bps, results[1].mean_s), (1, Some(800e3), None));
}

/// Returns a run of one flow with requests that took these milliseconds; none: it was not answered.
fn requests(times: &[Option<u64>]) -> RunResult {
    let mut flow = made::flow(Class::Contender, None);
    flow.report.app = made::requests(times.iter().copied());
    flow.report.delivered = 7500;
    made::run_of(vec![flow])
}

fn race_of_requests() -> Race {
    let classes = vec![(Measure::ResponseTime, 0.0)];
    Race { main: Some(0), classes, ..Race::new(2, false, 0.01, 4) }
}

/// A request that was not answered costs the time that its flow had.
#[test]
fn a_race_by_requests_counts_unanswered_ones_with_the_time_of_the_flow() {
    let mut race = race_of_requests();
    race.add(0, &requests(&[Some(10), None]));
    race.add(1, &requests(&[Some(300), Some(500)]));
    assert_eq!((race.candidates[0].costs.of_runs[0], race.candidates[1].costs.of_runs[0]), (30.005, 0.4));
    assert_eq!([0, 1].map(|path: usize| race.candidates[path].of_classes[0].of_runs[0]), [30.005, 0.4]);
    let results = race.results(["a", "b"].into_iter());
    assert_eq!((results[0].n, results[0].completed, results[1].completed), (2, 1, 2));
    assert!(results[1].chosen);
    // A flow that made none costs its time, too.
    let mut race = race_of_requests();
    race.add(0, &requests(&[]));
    race.add(1, &requests(&[Some(300)]));
    assert_eq!((race.candidates[0].costs.of_runs[0], race.chosen()), (60.0, 1));
    // Requests that were asked for and never made are unanswered ones.
    let mut run = requests(&[Some(300), Some(500)]);
    run.flows[0].planned = Some(5);
    let mut race = race_of_requests();
    race.add(0, &run);
    assert_eq!(race.candidates[0].costs.of_runs[0], (0.3 + 0.5 + 3.0 * 60.0) / 5.0);
    let results = race.results(["a", "b"].into_iter());
    assert_eq!((results[0].n, results[0].completed), (5, 2));
}

/// A closed loop makes more requests on a faster path, so the sum of their times is about the duration on every path.
#[test]
fn a_race_by_requests_is_won_by_the_least_mean_and_not_by_the_least_sum() {
    let mut race = race_of_requests();
    race.add(0, &requests(&[Some(150); 2]));
    race.add(1, &requests(&[Some(80); 4]));
    race.judge();
    assert_eq!((race.chosen(), race.chosen_by_class()), (1, vec![1]));
    let fast = race.results(["a", "b"].into_iter()).remove(1);
    assert!((fast.mean_s.unwrap() - 0.08).abs() < 1e-9);
    // The goodput is of the one flow, 7500 bytes in a minute, and not of a request.
    assert_eq!((fast.n, fast.goodput_bps), (4, Some(1000.0)));
}

/// Half a per cent is no reason to send a class over another path than the main class, and five are.
#[test]
fn a_class_leaves_the_path_of_the_main_one_only_for_a_gain() {
    let costs = |cost: f64| Costs { of_runs: vec![cost; 4], ..Costs::default() };
    let of = |main: f64, close: f64, better: f64| Candidate {
        costs: costs(main),
        of_classes: [main, close, better].map(costs).to_vec(),
        ..Candidate::default()
    };
    let race = Race {
        main: Some(0),
        classes: vec![(Measure::MeanTime, 0.0); 3],
        candidates: vec![of(1.0, 2.0, 2.0), of(1.5, 1.99, 1.9)],
        ..Race::new(2, false, 0.01, 4)
    };
    assert_eq!(race.chosen_by_class(), [0, 0, 1]);
}

/// Returns the paths of `tcp` for a flow over a path `p0` and another one.
fn chosen(paths: &str, traffic: &str, deadline: &str) -> String {
    let text = format!(
        "path = [{paths}]\ntraffic = {traffic}\nschedulers = ['tcp', 'min_rtt']\nruns = 1\ndeadline = '{deadline}'"
    );
    let compared = made::compared(&made::scenario(&text));
    let chosen = compared.conditions[0].single_paths.iter().find(|path| path.chosen);
    chosen.unwrap().path.clone()
}

#[test]
fn where_no_flow_finishes_the_path_that_delivers_most_is_the_best() {
    let slow_first = "{ name = 'p0', rate = '1 Mbit/s', rtt = '20 ms' }, { name = 'p1', rate = '2 Mbit/s', rtt = '40 ms' }";
    let fast_first = "{ name = 'p1', rate = '2 Mbit/s', rtt = '40 ms' }, { name = 'p0', rate = '1 Mbit/s', rtt = '20 ms' }";
    let upload = "{ size = '600 KB', direction = 'upload' }";
    for traffic in ["{ size = '600 KB' }", upload, "{ size = '300 KB', flows = 2 }"] {
        for paths in [slow_first, fast_first] {
            assert_eq!(chosen(paths, traffic, "2 s"), "p1", "{traffic}");
        }
    }
    // One finishes, whatever the other one has delivered.
    let small_first = slow_first.replace("2 Mbit/s", "100 Mbit/s");
    assert_eq!(chosen(&small_first, "{ size = '600 KB' }", "2 s"), "p1");
}

/// A class that is not the main one has its own path by its own bytes.
#[test]
fn where_nothing_of_a_class_is_delivered_its_bytes_decide() {
    let of = |bytes: f64| Costs { of_runs: vec![60.0; 4], bytes: vec![-bytes; 4], parts: 4, completed: 0 };
    let main = |cost: f64| Costs { of_runs: vec![cost; 4], parts: 4, completed: 4, ..Costs::default() };
    let path = |cost: f64, bytes: f64| Candidate {
        costs: main(cost),
        of_classes: vec![main(cost), of(bytes)],
        ..Candidate::default()
    };
    let race = |bytes: [f64; 2]| Race {
        main: Some(0),
        classes: vec![(Measure::MeanTime, 60.0); 2],
        candidates: vec![path(1.0, bytes[0]), path(1.5, bytes[1])],
        ..Race::new(2, false, 0.01, 4)
    };
    assert_eq!(race([100.0, 200.0]).chosen_by_class(), [0, 1]);
    assert_eq!(race([200.0, 100.0]).chosen_by_class(), [0, 0]);
    assert_eq!(race([200.0, 201.0]).chosen_by_class(), [0, 0], "practically equal");
}

/// A connection that gives up after two minutes is no faster than one that delivers after five.
#[test]
fn a_flow_that_failed_counts_with_the_time_until_its_deadline() {
    let paths = "{ name = 'slow', rate = '20 kbit/s', rtt = '40 ms' },
                 { name = 'dead', rate = '2 Mbit/s', rtt = '40 ms', change = [{ at = '0 s', down = true }] }";
    assert_eq!(chosen(paths, "{ size = '800 KB' }", "900 s"), "slow");
    // Of bulk the bytes count over its whole duration.
    let mut failed = made::flow(Class::Contender, None);
    failed.report.outcome = anabranch_sim::Outcome::Failed(anabranch_sim::Failure::Connect);
    (failed.report.delivered, failed.time) = (1000, anabranch_units::Duration::from_millis(1));
    assert_eq!(goodput_bps(&failed, 10.0), 800.0);
    failed.report.outcome = anabranch_sim::Outcome::Running;
    assert_eq!(goodput_bps(&failed, 10.0), 8e6);
}
