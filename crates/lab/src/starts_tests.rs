//! The runs of other starts, and when one is decisive.

use anabranch_units::Duration;

use super::*;
use crate::made;

const THREE: &str = "
    path = [{ rate = '10 Mbit/s', rtt = '10 ms' }, { rate = '5 Mbit/s', rtt = '30 ms' }, { rate = '5 Mbit/s', rtt = '40 ms' }]
    traffic = { size = '1 KB' }
    schedulers = ['tcp', 'min_rtt', 'blest']
";

fn plan(runs: u32, hops: u64) -> Option<Plan> {
    let scenario = made::scenario(&format!("runs = {runs}\n{THREE}"));
    Plan::new(&scenario, 0, runs, hops, &[Duration(1), Duration(2), Duration(3)])
}

#[test]
fn starts_that_cost_much_share_the_runs_of_a_contender() {
    // Two other paths of 2.5 million packet-hops are cheap, and no more.
    assert_eq!(plan(30, 2_500_000).unwrap().runs, 30);
    assert_eq!(plan(30, 2_500_001).unwrap().runs, 15);
    assert_eq!(plan(8, 2_500_001).unwrap().runs, 5, "at least five");
    assert_eq!(plan(3, 2_500_001).unwrap().runs, 3, "if there are that number");
    let plan = plan(30, 0).unwrap();
    assert_eq!((&plan.paths[..], &plan.contenders[..]), (&[1, 2][..], &[1, 2][..]));
    let jobs: Vec<Job> = plan.jobs().collect();
    assert_eq!(jobs.len(), 2 * 2 * 30);
    assert!(jobs.iter().all(|job| job.purpose == Purpose::OtherStart));
    assert_eq!((jobs[0].path, jobs[0].contender, jobs[29].run), (Some(1), 1, 29));
    assert_eq!((jobs[30].contender, jobs[60].path), (2, Some(2)));
}

/// A start with fewer runs is compared with the same numbers of runs.
#[test]
fn a_start_is_compared_with_the_first_runs_of_its_contender() {
    let scenario = made::scenario(&format!("runs = 8\n{THREE}"));
    let plan = Plan::new(&scenario, 0, 8, u64::MAX, &[Duration(1), Duration(2), Duration(3)]).unwrap();
    assert_eq!(plan.runs, 5);
    // 100 ms in the first five runs, and more in the last three.
    let compared = made::runs([100.0, 100.0, 100.0, 100.0, 100.0, 900.0, 900.0, 900.0]);
    let of = |millis: f64| made::runs([millis; 5]);
    let results = [of(150.0), of(100.0), of(50.0), of(200.0)].concat();
    let starts = plan.changes(&scenario, &results, &[&compared, &compared, &compared]);
    let found: Vec<Vec<f64>> = starts
        .iter()
        .map(|start| start.changes.iter().map(|change| change.difference_pct.unwrap().mean.round()).collect())
        .collect();
    assert_eq!(found, [[50.0, 0.0], [-50.0, 100.0]]);
    assert_eq!((starts[0].path.as_str(), starts[1].path.as_str(), starts[0].runs), ("2", "3", 5));
    let change = &starts[1].changes[1];
    assert_eq!((change.scheduler.as_str(), change.n, change.completed), ("blest", 5, 5));
}

#[test]
fn a_start_is_decisive_if_the_near_end_of_its_interval_exceeds_the_spread_of_schedulers() {
    let scenario = made::scenario(&format!("runs = 4\n{THREE}"));
    // min_rtt is the best with 100 ms, and blest has 125.
    let (tcp, best, worst) = (made::runs([70.0; 4]), made::runs([100.0; 4]), made::runs([125.0; 4]));
    let with = |mean: f64, low: f64, high: f64, other: f64| {
        let difference = |mean, low, high| Some(Difference { mean, ci95: Some(Interval(low, high)) });
        let change = |scheduler: &str, difference_pct| StartChange {
            scheduler: scheduler.to_owned(),
            difference_pct,
            n: 4,
            completed: 4,
        };
        let start = OtherStart {
            path: "2".to_owned(),
            runs: 4,
            // The size of another scheduler's change does not count.
            changes: vec![
                change("min_rtt", difference(mean, low, high)),
                change("blest", difference(other, other - 5.0, other + 5.0)),
            ],
        };
        [&worst, &best].map(|other| {
            let compared: [&[RunResult]; 3] = [&tcp, &best, other];
            decisive(&scenario, &scenario.conditions[0], core::slice::from_ref(&start), &compared)
        })
    };
    let of = |mean: f64, low, high| with(mean, low, high, if mean < 0.0 { -90.0 } else { 900.0 });
    // A start that harms one scheduler and helps another says nothing without the scheduler.
    assert!(with(60.0, 26.0, 100.0, -3.0)[0].is_some(), "it is not clear");
    assert_eq!(with(60.0, 26.0, 100.0, -59.0)[0], None);
    // Where the schedulers are equal, the change is still one that counts.
    assert_eq!(of(0.9, 0.8, 0.95)[1], None);
    assert!(of(1.1, 0.8, 1.4)[1].is_some());
    let of = |mean, low, high| of(mean, low, high)[0].clone();
    let found = of(60.0, 26.0, 100.0).unwrap();
    assert_eq!((found.path.as_str(), found.scheduler.as_str()), ("2", "min_rtt"));
    assert!((found.spread_pct - 25.0).abs() < 1e-9);
    assert_eq!(of(60.0, 24.0, 100.0), None, "the near end is within the spread");
    // A gain is a factor too: 1 / 1.25 is -20 %.
    assert!(of(-40.0, -60.0, -21.0).is_some());
    assert_eq!(of(-40.0, -60.0, -19.0), None);
    assert_eq!(of(30.0, -5.0, 60.0), None);
}

#[test]
fn a_start_is_a_factor_or_nothing_at_all_in_words() {
    let of = |mean: f64, spread_pct: f64| {
        let difference_pct = Difference { mean, ci95: Some(Interval(mean - 1.0, mean + 1.0)) };
        let (path, scheduler) = ("dead".to_owned(), "min_rtt".to_owned());
        DecisiveStart { path, scheduler, difference_pct, spread_pct }.sentence("", "good", true)
    };
    let first = "The first path matters more than the choice of scheduler.";
    assert_eq!(
        of(-100.0, 0.4),
        format!(
            "{first} min_rtt delivers nothing if it starts on dead instead of good, while the multipath schedulers are within \
             0.4 % of each other."
        )
    );
    let starts = "if it starts on dead instead of good (95 % interval";
    let words = of(-80.0, 4.9);
    assert!(words.contains(&format!("is lower by a factor of 5.0 {starts} -81.0 to -79.0 %)")), "{words}");
    assert!(words.ends_with("are within 4.9 % of each other."), "{words}");
    let words = of(-80.0, 5.0);
    assert!(words.ends_with("are within a factor of 1.1 of each other."), "{words}");
    let words = of(60.0, 20.0);
    assert!(words.contains(&format!("is 60.0 % higher {starts} +59.0 to +61.0 %)")), "{words}");
    assert!(words.ends_with("are within 20.0 % of each other."), "{words}");
}

/// One contender has no spread that a start could exceed.
#[test]
fn a_single_multipath_contender_has_no_decisive_start() {
    let scenario = made::scenario(&format!("runs = 4\n{}", THREE.replace(", 'blest'", "")));
    let (tcp, own) = (made::runs([70.0; 4]), made::runs([100.0; 4]));
    let difference_pct = Some(Difference { mean: 60.0, ci95: Some(Interval(26.0, 100.0)) });
    let changes = vec![StartChange { scheduler: "min_rtt".to_owned(), difference_pct, n: 4, completed: 4 }];
    let start = OtherStart { path: "2".to_owned(), runs: 4, changes };
    let compared: [&[RunResult]; 2] = [&tcp, &own];
    assert_eq!(decisive(&scenario, &scenario.conditions[0], &[start], &compared), None);
}

/// Of eight other paths the one with the greatest estimate is not tried.
#[test]
fn of_more_than_seven_other_paths_those_with_the_best_estimates_are_tried() {
    let path = "{ rate = '5 Mbit/s', rtt = '30 ms' }";
    let text = format!(
        "path = [{}]\ntraffic = {{ size = '1 KB' }}\nschedulers = ['tcp', 'min_rtt']",
        [path; 9].join(", ")
    );
    let scenario = made::scenario(&text);
    let estimates = [9, 3, 8, 1, 2, 99, 4, 5, 6].map(Duration);
    let plan = Plan::new(&scenario, 0, 30, 0, &estimates).unwrap();
    assert_eq!(plan.paths, [1, 2, 3, 4, 6, 7, 8]);
}

#[test]
fn a_start_with_which_a_flow_does_not_finish_has_counts_and_no_difference() {
    let scenario = made::scenario(&format!("runs = 2\n{THREE}"));
    let plan = Plan::new(&scenario, 0, 2, 0, &[Duration(1), Duration(2), Duration(3)]).unwrap();
    let compared = made::runs([100.0; 2]);
    let missed = vec![
        made::run_of(vec![made::flow(Class::Contender, Some(50.0))]),
        made::run_of(vec![made::flow(Class::Contender, None)]),
    ];
    let of = |millis: f64| made::runs([millis; 2]);
    let results = [missed, of(100.0), of(50.0), of(200.0)].concat();
    let starts = plan.changes(&scenario, &results, &[&compared, &compared, &compared]);
    let change = &starts[0].changes[0];
    assert_eq!((change.n, change.completed, change.difference_pct), (2, 1, None));
    assert!(starts[0].changes[1].difference_pct.is_some());
}
