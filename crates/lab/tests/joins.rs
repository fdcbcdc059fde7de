//! The phase of joins: the time at which a client opens additional subflows.

use std::sync::atomic::AtomicBool;

use anabranch_lab::run::Prepared;
use anabranch_lab::scenario::Document;
use anabranch_units::Duration;

/// Returns the delay of the second subflow after the first, for each contender's flow in each of eight runs.
fn joins(profile: &str, limit: &str) -> Vec<Vec<Duration>> {
    let text = format!(
        "profile = '{profile}'\nschedulers = ['min_rtt', 'dmptcp']\nruns = 8
         path = [{{ rate = '20 Mbit/s', rtt = '20 ms' }}, {{ rate = '20 Mbit/s', rtt = '30 ms' }}]
         traffic = {{ size = '300 KB' }}
         phases = {{ start = 0, delay = 0, jitter = 0, join = '{limit}' }}"
    );
    let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
    let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
    let join = |contender, run| {
        let result = prepared.run(contender, run, &AtomicBool::new(false)).unwrap();
        let flow = &result.flows[0].report;
        assert!(flow.fct.is_some());
        let [first, second] = flow.sender.subflows.as_slice() else { panic!("{:?}", flow.sender.subflows) };
        second.started.since(first.started)
    };
    (0..2).map(|contender| (0..8).map(|run| join(contender, run)).collect()).collect()
}

#[test]
fn each_run_opens_further_subflows_a_little_later_for_all_contenders_alike() {
    for profile in ["linux", "ns3"] {
        let without = joins(profile, "0 ms");
        let first = without[0][0];
        assert!(without.iter().flatten().all(|join| *join == first), "{profile}: {without:?}");
        let with = joins(profile, "0.2 ms");
        assert_eq!(with[0], with[1], "{profile}");
        let later: Vec<Duration> = with[0].iter().map(|join| join.saturating_sub(first)).collect();
        assert!(later.iter().all(|later| *later < Duration::from_micros(200)), "{profile}: {later:?}");
        assert!(later.iter().filter(|later| **later > Duration::from_micros(20)).count() > 4, "{later:?}");
        let mut different = later.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 8, "{profile}: {later:?}");
        // At most 1/50 of the shortest round-trip time, whatever the setting.
        let limited = joins(profile, "5 ms");
        assert!(limited[0].iter().all(|join| join.saturating_sub(first) < Duration::from_micros(400)));
    }
}
