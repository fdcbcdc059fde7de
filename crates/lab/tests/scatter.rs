//! Packet scatter before Multipath TCP, in fat trees and graphs with routes of equal cost.

use std::sync::atomic::AtomicBool;

use anabranch_lab::run::{Prepared, RunResult};
use anabranch_lab::scenario::{Document, Scenario};

fn scenario(text: &str) -> Scenario {
    Document::built_in("test", text).unwrap().scenario().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn runs(text: &str) -> Vec<RunResult> {
    let scenario = scenario(text);
    let prepared = Prepared::new(&scenario, 0).unwrap();
    let cancelled = AtomicBool::new(false);
    (0..scenario.contenders.len()).map(|at| prepared.run(at, 0, &cancelled).unwrap()).collect()
}

/// A fat tree with one flow between pods, whose four routes have queues for all of it.
fn tree(traffic: &str, connection: &str) -> RunResult {
    let text = format!(
        "schedulers = ['min_rtt']\ncongestion = 'lia'
        topology = {{ kind = 'fat-tree', k = 4, rate = '100 Mbit/s', delay = '20 us', queue = '1000 packets' }}
        traffic = {{ from = 'h1', to = 'h16', direction = 'upload', {traffic} }}
        [connection]\npath-manager = 'n_diff_ports:5'\n{connection}"
    );
    runs(&text).remove(0)
}

/// The data packets on each of the links that begin with `of`, without those of acknowledgements.
fn packets(run: &RunResult, of: &str) -> Vec<u64> {
    let links = run.links.iter().filter(|link| link.name.starts_with(of) && !link.name.ends_with(".back"));
    links.map(|link| link.counters.delivered.bytes / 1500).collect()
}

fn subflows(run: &RunResult) -> usize {
    run.flows[0].report.sender.subflows.len()
}

/// The payload that each subflow of the sender has sent, with retransmissions and reinjections.
fn sent(run: &RunResult) -> Vec<u64> {
    let subflows = run.flows[0].report.sender.subflows.iter();
    subflows.map(|subflow| subflow.counters.bytes_sent).collect()
}

#[test]
fn a_short_flow_uses_all_routes_and_opens_no_subflow() {
    let run = tree("size = '90 KB'", "scatter.switch = 'volume'");
    assert_eq!(subflows(&run), 1);
    assert!(run.flows[0].report.fct.is_some());
    let cores = packets(&run, "agg1.");
    assert_eq!(cores.len(), 4);
    assert!(cores.iter().all(|packets| *packets >= 5), "{cores:?}");
    // Without scatter a subflow keeps one route.
    let plain = tree("size = '90 KB'", "");
    assert!(subflows(&plain) > 1);
}

#[test]
fn scattered_packets_are_spread_evenly() {
    let run = tree("size = '2 MB'", "scatter.switch = 'never'");
    assert_eq!(subflows(&run), 1);
    let cores = packets(&run, "agg1.");
    let all: u64 = cores.iter().sum();
    // 1382 packets by a fair draw: a standard deviation of 16 around 345.
    assert!(cores.iter().all(|packets| packets.abs_diff(all / 4) < 65), "{cores:?}");
}

#[test]
fn the_switch_is_at_the_volume_and_new_data_leaves_the_scattered_subflow() {
    for volume in [50_000_u64, 400_000] {
        let run = tree("size = '5 MB'", &format!("scatter = {{ switch = 'volume', volume = {volume} }}"));
        let sent = sent(&run);
        assert_eq!(sent.len(), 5);
        // The scattered subflow goes on for the round trip of the joins, in which slow start doubles its window twice.
        assert!(sent[0] > volume && sent[0] < 4 * volume + 200_000, "{volume}: {sent:?}");
        assert!(sent[1..].iter().all(|bytes| *bytes > 100_000), "{sent:?}");
        let report = &run.flows[0].report;
        assert_eq!(report.delivered, 5_000_000);
        let total: u64 = sent.iter().sum();
        assert!(
            total - 5_000_000 <= report.retransmitted_segments * 1448 + report.reinjected_bytes,
            "{sent:?}"
        );
    }
    // At most the volume: no switch.
    assert_eq!(subflows(&tree("size = '400 KB'", "scatter = { switch = 'volume', volume = 400_000 }")), 1);
}

#[test]
fn a_receiver_that_connects_switches_by_the_volume_too() {
    let text = "schedulers = ['min_rtt']
        topology = { kind = 'fat-tree', k = 4, rate = '100 Mbit/s', delay = '20 us', queue = '1000 packets' }
        traffic = { from = 'h1', to = 'h16', size = '2 MB' }
        connection = { path-manager = 'n_diff_ports:3', scatter = { switch = 'volume', volume = 200_000 } }";
    let run = runs(text).remove(0);
    let sent = sent(&run);
    assert_eq!(sent.len(), 3);
    assert!(sent[0] > 200_000 && sent[0] < 700_000, "{sent:?}");
}

#[test]
fn the_switch_at_congestion_waits_for_the_first_loss() {
    for size in ["60 KB", "1 MB", "5 MB"] {
        let run = tree(&format!("size = '{size}'"), "scatter.switch = 'congestion'");
        let counters = run.flows[0].report.sender.subflows[0].counters;
        let met = counters.recoveries + counters.timeouts > 0;
        // A flow that is sent in full before its first loss is noticed does not switch.
        assert!(met || subflows(&run) == 1, "{size}: {counters:?}");
        // The shortest one meets no congestion in queues of 1000 packets, and the longest one does.
        match size {
            "60 KB" => assert_eq!((met, subflows(&run)), (false, 1), "{counters:?}"),
            "5 MB" => assert_eq!((met, subflows(&run)), (true, 5), "{counters:?}"),
            _ => {}
        }
    }
    let text = "schedulers = ['min_rtt']
        topology = { kind = 'fat-tree', k = 4, rate = '100 Mbit/s', delay = '20 us', queue = '20 packets' }
        traffic = { from = 'h1', to = 'h16', direction = 'upload', size = '5 MB' }
        connection = { path-manager = 'n_diff_ports:3', scatter.switch = 'congestion' }";
    let run = runs(text).remove(0);
    assert_eq!(subflows(&run), 3);
    assert!(run.flows[0].report.retransmitted_segments > 0);
}

/// Between pods a threshold of three and one for each of four routes; below it reordering starts no recovery.
#[test]
fn reordering_below_the_threshold_retransmits_nothing() {
    // One other flow makes the queues of the routes unequal.
    let run = |threshold: &str| {
        let text = format!(
            "schedulers = ['min_rtt']\nprofile = 'ns3'
            topology = {{ kind = 'fat-tree', k = 4, rate = '100 Mbit/s', delay = '20 us', queue = '1000 packets' }}
            traffic = {{ from = ['h1', 'h2'], to = ['h16', 'h14'], direction = 'upload', size = '1 MB' }}
            connection = {{ simultaneous = false, initial-window = 10, scatter = {{ switch = 'never' {threshold} }} }}"
        );
        let run = runs(&text).remove(0);
        assert_eq!(run.links.iter().map(|link| link.counters.dropped().packets).sum::<u64>(), 0);
        run.flows.iter().map(|flow| flow.report.retransmitted_segments).sum::<u64>()
    };
    let (three, routes, large) = (run(", dup-acks = 3"), run(""), run(", dup-acks = 1000"));
    assert_eq!(large, 0);
    assert!(routes <= three, "{routes} {three}");
    assert_eq!(run(", dup-acks = 7"), routes, "four routes make 7");
}

/// With RACK the reordering between two queues is longer than a quarter of the least round trip, and shorter than a whole one.
#[test]
fn rack_retransmits_nothing_that_a_longer_queue_delays_by_up_to_a_round_trip() {
    let run = |window: &str| {
        let text = format!(
            "schedulers = ['min_rtt']\nprofile = 'linux'
            topology = {{ kind = 'fat-tree', k = 4, rate = '100 Mbit/s', delay = '20 us', queue = '1000 packets' }}
            traffic = {{ from = ['h1', 'h2'], to = ['h16', 'h14'], direction = 'upload', size = '1 MB' }}
            connection = {{ scatter = {{ switch = 'never' {window} }} }}"
        );
        let run = runs(&text).remove(0);
        assert_eq!(run.links.iter().map(|link| link.counters.dropped().packets).sum::<u64>(), 0);
        run.flows.iter().map(|flow| flow.report.retransmitted_segments).sum::<u64>()
    };
    let (whole, adaptive) = (run(""), run(", reordering-window = 'adaptive'"));
    assert_eq!(whole, 0);
    assert!(adaptive > 10, "{adaptive}");
}

#[test]
fn either_switches_at_the_rule_that_is_first() {
    let run = |queue: u32, switch: &str| {
        let text = format!(
            "schedulers = ['min_rtt']
            topology = {{ kind = 'fat-tree', k = 4, rate = '100 Mbit/s', delay = '20 us', queue = '{queue} packets' }}
            traffic = {{ from = 'h1', to = 'h16', direction = 'upload', size = '2 MB' }}
            connection = {{ path-manager = 'n_diff_ports:3', scatter = {{ {switch} }} }}"
        );
        let run = runs(&text).remove(0);
        let losses: u64 = run.links.iter().map(|link| link.counters.dropped().packets).sum();
        (sent(&run), run.flows[0].report.fct, losses)
    };
    // The volume, without a loss.
    let either = run(1000, "switch = 'either', volume = 100_000");
    assert_eq!(either, run(1000, "switch = 'volume', volume = 100_000"));
    assert!(either.0.len() == 3 && either.2 == 0, "{either:?}");
    // A loss before the volume, which is never reached.
    let either = run(20, "switch = 'either', volume = 3_000_000");
    assert_eq!(either, run(20, "switch = 'congestion'"));
    assert!(either.0.len() == 3 && either.2 > 0, "{either:?}");
    // Neither.
    assert_eq!(run(1000, "switch = 'either', volume = 3_000_000").0.len(), 1);
}

/// A path with a round trip of 100 ms and a window that begins at 10 segments of 1000 bytes: it is 20, 40 and 80 segments
/// once the data of the round trips that begin at 0.1, 0.2 and 0.3 s is acknowledged.
fn slow_start(size: &str, scatter: &str) -> RunResult {
    let text = format!(
        "schedulers = ['min_rtt']\nphases = false
        path = [{{ rate = '100 Mbit/s', rtt = '100 ms', queue = '1000 packets' }}]
        traffic = {{ size = '{size}', direction = 'upload' }}
        connection = {{ path-manager = 'n_diff_ports:3', mss = 1000, scatter = {{ {scatter} }} }}"
    );
    runs(&text).remove(0)
}

#[test]
fn the_switch_at_a_rate_follows_the_window_over_the_round_trip() {
    let ms = |subflow: &anabranch_stack::stats::SubflowStats| subflow.started.as_nanos() / 1_000_000;
    let switch = |rate: &str| {
        let run = slow_start("2 MB", &format!("switch = 'rate', rate = {rate}"));
        let subflows = &run.flows[0].report.sender.subflows;
        subflows.get(1).map(ms)
    };
    // 0.7 Mbit/s is 8.75 segments in 100 ms, the first window: as soon as subflows can be opened, at the first acknowledgement of
    // data. 1.3 Mbit/s is 16.25 segments, 3 Mbit/s 37.5, and 6 Mbit/s 75.
    for (rate, at) in [("700_000", 200), ("1_300_000", 200), ("3_000_000", 300), ("6_000_000", 400)] {
        let began = switch(rate).unwrap_or_else(|| panic!("no switch at {rate}"));
        assert!((at..at + 10).contains(&began), "{rate}: {began} ms");
    }
    // More than the window can be: a flow of 2 MB reaches 2 MB in 100 ms at most.
    assert_eq!(switch("170_000_000"), None);
}

#[test]
fn a_flow_below_the_rate_does_not_switch() {
    // 60 KB are sent with windows of 10, 20 and 40 segments: less than 3.3 Mbit/s when the last is sent.
    assert_eq!(subflows(&slow_start("60 KB", "switch = 'rate', rate = 9_000_000")), 1);
    assert_eq!(subflows(&slow_start("60 KB", "switch = 'rate', rate = 1_300_000")), 3);
    // A large flow switches by its volume, and not by the rate.
    assert_eq!(subflows(&slow_start("2 MB", "switch = 'volume', rate = 1_000_000_000_000")), 3);
}

/// 1/50 of 100 Mbit/s.
#[test]
fn the_rate_is_a_part_of_the_link() {
    let run = |rate: &str| sent(&slow_start("1 MB", &format!("switch = 'rate'{rate}")));
    let part = run("");
    assert_eq!(part, run(", rate = 2_000_000"));
    assert_eq!(part, run(", rate = 'link/50'"));
    assert_ne!(part, run(", rate = 1_000_000"));
    assert_ne!(part, run(", rate = 4_000_000"));
    // In a fat tree the first window is above it, so the flow switches as soon as it can.
    let tree = tree("size = '1 MB'", "scatter.switch = 'rate'");
    assert_eq!(subflows(&tree), 5);
    assert!(sent(&tree)[0] < 100_000, "{:?}", sent(&tree));
}

#[test]
fn a_rule_that_cannot_be_reached_is_an_error() {
    let error = |text: &str| {
        let text = format!("path = [{{ preset = 'dsl' }}]\nschedulers = ['tcp', 'min_rtt']\n{text}");
        Document::built_in("x", text).unwrap().scenario().unwrap_err().to_string()
    };
    for switch in ["congestion", "either", "rate"] {
        let text = format!("connection.scatter.switch = '{switch}'");
        assert!(error(&text).contains("direction = \"upload\""), "{switch}");
    }
    assert!(
        error("connection = { path-manager = 'none', scatter.switch = 'volume' }").contains("n_diff_ports")
    );
    assert!(
        error(
            "connection = { path-manager = 'none', scatter.switch = 'rate' }\ntraffic.direction = 'upload'"
        )
        .contains("n_diff_ports")
    );
    assert!(error("connection.scatter.swich = 'volume'").contains("scatter.switch"));
    for rate in ["0", "'2 Mbit/s'", "-1", "4e6"] {
        let error = error(&format!("connection.scatter = {{ switch = 'rate', rate = {rate} }}"));
        assert!(error.contains("a whole number from 1 to") && error.contains("`link/50`"), "{error}");
    }
}
