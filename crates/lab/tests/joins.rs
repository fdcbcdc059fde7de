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

/// Returns the delays after which further subflows were opened in the first run, and the completion time, with `path-manager = "anabranch"`.
fn held(size: &str, change: &str) -> (Vec<Duration>, Duration) {
    let text = format!(
        "schedulers = ['min_rtt']\nphases = {{ start = 0, delay = 0, jitter = 0, join = 0 }}
         connection.path-manager = 'anabranch'
         path = [{{ rate = '20 Mbit/s', rtt = '20 ms', {change} }}, {{ rate = '20 Mbit/s', rtt = '100 ms' }}]
         traffic = {{ size = '{size}' }}"
    );
    let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
    let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
    let result = prepared.run(0, 0, &AtomicBool::new(false)).unwrap();
    let flow = &result.flows[0].report;
    let subflows = &flow.receiver.subflows;
    let joins = subflows[1..].iter().map(|subflow| subflow.started.since(subflows[0].started)).collect();
    (joins, flow.fct.unwrap_or(Duration::ZERO))
}

#[test]
fn the_path_manager_anabranch_opens_what_helps_the_expected_flow() {
    // A join brings its first data after 200 ms; without it 100 KB take 106 ms, and 5 MB two seconds.
    let (none, short) = held("100 KB", "");
    assert!(none.is_empty() && short < Duration::from_millis(110), "{none:?} {short:?}");
    let (long, _) = held("5 MB", "");
    let (bulk, _) = held("bulk", "");
    assert!(
        long[..] == bulk[..] && long.len() == 1 && long[0] < Duration::from_millis(60),
        "{long:?} {bulk:?}"
    );
}

/// 100 KB are expected within 64 ms of the time at which joins may begin. The first path goes down before, and comes back after ten
/// seconds: the join comes a quarter later than that, and the flow ends over it.
#[test]
fn a_join_that_was_held_back_rescues_a_flow_whose_first_path_fails() {
    let down = "change = [{ at = '60 ms', down = true }, { at = '10 s', up = true }]";
    let (joins, end) = held("100 KB", down);
    let [join] = joins[..] else { panic!("{joins:?}") };
    assert!(join > Duration::from_millis(100) && join < Duration::from_millis(160), "{join:?}");
    assert!(end > Duration::ZERO && end < Duration::from_millis(1500), "{end:?}");
}

/// The completion times of a flow with scheduler `anabranch` with and without its memory, from this first path.
fn remembered(initial: &str, direction: &str) -> [Duration; 2] {
    let text = format!(
        "schedulers = ['anabranch', 'anabranch:memory=0']\ninitial = '{initial}'
         phases = {{ start = 0, delay = 0, jitter = 0, join = 0 }}
         path = [{{ rate = '20 Mbit/s', rtt = '20 ms' }}, {{ rate = '1 Mbit/s', rtt = '30 ms' }}]
         traffic = {{ size = '500 KB', direction = '{direction}' }}"
    );
    let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
    let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
    let run = |contender| prepared.run(contender, 0, &AtomicBool::new(false)).unwrap();
    [0, 1].map(|contender| run(contender).flows[0].report.fct.unwrap())
}

/// A host that knows the best path knows the rates of the other paths: the slow second path carries less of the flow.
#[test]
fn a_host_that_remembers_the_best_path_remembers_the_rates_of_all() {
    for direction in ["upload", "download"] {
        let [with, without] = remembered("best", direction);
        assert!(with < without, "{direction}: {with:?} {without:?}");
        let [given, same] = remembered("1", direction);
        assert_eq!((given, same), (without, without), "{direction}");
    }
}

/// The scheduler `anabranch` moves a flow from a first path that turns out to be wrong as soon as another one has joined. Beyond the first window it
/// carries two copies, which measure its rate.
#[test]
fn a_wrong_first_path_carries_the_first_window_and_two_copies() {
    for size in ["300 KB", "5 MB"] {
        let text = format!(
            "schedulers = ['anabranch']\ninitial = 1
             path = [{{ rate = '1 Mbit/s', rtt = '200 ms' }}, {{ rate = '50 Mbit/s', rtt = '20 ms' }}]
             traffic = {{ size = '{size}' }}"
        );
        let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
        let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
        let result = prepared.run(0, 0, &AtomicBool::new(false)).unwrap();
        let flow = &result.flows[0].report;
        assert!(flow.fct.is_some());
        let sent = flow.sender.subflows[0].counters.bytes_sent;
        assert!((1..=12 * 1420).contains(&sent), "{size}: {sent}");
    }
}
