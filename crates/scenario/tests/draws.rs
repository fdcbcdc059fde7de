//! The draws of the runs of a scenario: seeds, and phases within limits.

use std::collections::BTreeSet;

use anabranch_scenario::{Document, PhaseChoice, Phases};
use anabranch_units::Duration;

#[test]
fn every_run_has_a_seed_of_its_own_and_no_selection_run_has_one_of_them() {
    let scenario = |seed: &str| {
        let text = format!("seed = {seed}\npath = [{{ rate = '9 Mbit/s', rtt = '9 ms' }}]");
        Document::built_in("x", text.as_str()).unwrap().scenario().unwrap()
    };
    let (one, two) = (scenario("1"), scenario("2"));
    let seeds = |of: &dyn Fn(u32) -> u64| (0..2000).map(of).collect::<BTreeSet<u64>>();
    let sets = [
        seeds(&|run| one.run_seed(run)),
        seeds(&|run| one.selection_seed(run)),
        seeds(&|run| two.run_seed(run)),
        seeds(&|run| two.selection_seed(run)),
    ];
    for (at, set) in sets.iter().enumerate() {
        assert_eq!(set.len(), 2000);
        assert!(sets[..at].iter().all(|other| other.is_disjoint(set)), "{at}");
    }
}

/// By default 0.5 ms, 0.2 ms, 0.1 ms and 20 us; on short paths a twentieth, a fiftieth and two hundredths of a round trip.
#[test]
fn phases_are_limited_by_the_round_trip() {
    let phases = Phases::default();
    let limits = |rtt: Duration| {
        [phases.start_limit(rtt), phases.join_limit(rtt), phases.delay_limit(rtt), phases.jitter_limit(rtt)]
            .map(|limit| limit.0 / 1000)
    };
    assert_eq!(limits(Duration::from_millis(100)), [500, 200, 100, 20]);
    assert_eq!(limits(Duration::from_millis(1)), [50, 20, 5, 5]);
    assert_eq!(limits(Duration::from_millis(9)), [450, 180, 45, 20]);
    assert_eq!(limits(Duration::ZERO), [0; 4]);
}

#[test]
fn a_comparison_draws_phases_unless_they_are_off_and_a_single_run_only_if_they_are_on() {
    let of = |line: &str| {
        let text = format!("{line}\npath = [{{ rate = '9 Mbit/s', rtt = '9 ms' }}]");
        let scenario = Document::built_in("x", text.as_str()).unwrap().scenario().unwrap();
        let phases: PhaseChoice = scenario.conditions[0].experiment.phases;
        (phases.in_comparison(), phases.in_single_run())
    };
    let own = Phases { start: Duration::from_micros(7), ..Phases::default() };
    assert_eq!(of(""), (Some(Phases::default()), None));
    assert_eq!(of("phases = false"), (None, None));
    assert_eq!(of("phases = true"), (Some(Phases::default()), Some(Phases::default())));
    assert_eq!(of("phases = { start = '7 us' }"), (Some(own), Some(own)));
}
