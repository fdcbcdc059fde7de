//! Times, phases and ends of the flows of a run.

use super::*;
use crate::made;

fn run(text: &str) -> Vec<FlowResult> {
    made::run(&made::scenario(text), 0).flows
}

const SLOW: &str = "path = [{ rate = '1 Mbit/s', rtt = '20 ms' }]\nschedulers = ['tcp']";

#[test]
fn a_flow_that_did_not_end_had_the_time_from_its_start_to_the_end_of_the_run() {
    let flows = run(&format!("{SLOW}\ndeadline = '500 ms'\ntraffic = {{ size = '10 MB', start = '2 s' }}"));
    assert_eq!(flows[0].report.fct, None);
    let had = flows[0].time.as_secs_f64();
    assert!((0.45..=0.5).contains(&had), "{had}");
}

#[test]
fn the_deadline_begins_with_the_last_start() {
    let starts = "traffic = { size = '10 KB', flows = 2, starts = ['0 s', '3 s'] }";
    let flows = run(&format!("{SLOW}\ndeadline = '1 s'\n{starts}"));
    assert!(flows.iter().all(|flow| flow.report.fct.is_some()), "{flows:?}");
    let bulk = format!(
        "{SLOW}\ntraffic = {{ size = 'bulk', duration = '1 s', flows = 2, starts = ['0 s', '3 s'] }}"
    );
    let flows = run(&bulk);
    assert!(flows[0].time.as_secs_f64() > 3.9 && (0.9..=1.0).contains(&flows[1].time.as_secs_f64()));
}

/// Two draws of one stream would make a late start go with late joins.
#[test]
fn starts_and_joins_have_phases_of_their_own() {
    let scenario = made::scenario(made::TWO_PATHS);
    let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
    let phases = Phases::default();
    // A tenth of a millisecond and less: limits by the round trip of 10 ms are larger or equal.
    let shortest = Duration::from_millis(10);
    let (start, join) = (phases.start_limit(shortest), phases.join_limit(shortest));
    assert_eq!((start, join), (Duration::from_micros(500), Duration::from_micros(200)));
    let (mut same, mut late) = (0, 0);
    for run in 0..200 {
        let draws = prepared.draws(run);
        let task = Task { contender: 1, path: None, draws, beside_alone: false, by_class: false };
        let (specs, _) = prepared.flows(task).unwrap();
        let begun = specs[0].start.since(Time::ZERO);
        let joins = specs[0].client_config.join_delay;
        assert!(begun < start && joins < join);
        let share = |of: Duration, limit: Duration| of.0 as f64 / limit.0 as f64;
        same += u32::from((share(begun, start) - share(joins, join)).abs() < 1e-3);
        late += u32::from(share(joins, join) > 0.5);
    }
    assert!(same < 5, "{same} of 200 have the same share");
    assert!((70..130).contains(&late), "{late} of 200 are in the upper half");
}

/// With every path in the table, plain TCP runs on each path that was not chosen, and multipath contenders run once.
#[test]
fn every_path_has_one_row_of_plain_tcp() {
    let scenario = made::scenario(made::TWO_PATHS);
    let cancelled = AtomicBool::new(false);
    let mut options = Options::new(1, &cancelled, &|_, _| {});
    let rows = |options: &Options<'_>| {
        let (_, jobs) = crate::compare::planned(&scenario, options).unwrap();
        let first = jobs.into_iter().filter(|job| job.run == 0);
        first.map(|job| (job.contender, job.path, job.purpose)).collect::<Vec<_>>()
    };
    let listed = [(0, Some(0), Purpose::Compare), (1, None, Purpose::Compare), (2, None, Purpose::Compare)];
    assert_eq!(rows(&options), listed);
    options.every_path = true;
    assert_eq!(rows(&options), [&listed[..], &[(0, Some(1), Purpose::Alone)]].concat());
}

#[test]
fn a_single_path_is_no_choice() {
    let settings = |text: &str| made::compared(&made::scenario(text)).conditions.remove(0).single_paths;
    assert!(settings(&format!("{SLOW}\nruns = 1\ntraffic = {{ size = '1 KB' }}")).is_empty());
    assert_eq!(settings(made::TWO_PATHS).len(), 2);
}
