//! The changes of links.

use anabranch_units::Duration;

use super::*;
use crate::scenario::Document;

/// A link of 2 Mbit/s.
fn link(queue: QueueLimit, rtt_ms: u64) -> LinkConfig {
    LinkConfig {
        queue,
        capacity: Rate(2_000_000).into(),
        rtt: Some(Duration::from_millis(rtt_ms)),
        ..LinkConfig::default()
    }
}

/// Half a BDP is 1.1 KB, and the link makes 16 KB of it.
#[test]
fn the_queue_that_a_link_makes_is_scaled() {
    let made = |queue: QueueLimit, rtt_ms: u64, factor: f64| {
        let config = link(queue, rtt_ms);
        let after = LinkConfig { queue: scaled(&config, factor), ..config.clone() };
        (config.resolved_queue().bytes, after.resolved_queue().bytes)
    };
    let half = QueueLimit::Bdp(0.5);
    assert_eq!(made(half, 9, 4.0), (16_000, 64_000));
    assert_eq!(made(half, 9, 0.25), (16_000, 4_000));
    // 20 KB, and a quarter of it is less than a BDP may give.
    assert_eq!(made(half, 160, 0.25), (20_000, 5_000));
    assert_eq!(made(half, 160, 4.0), (20_000, 80_000));
    assert_eq!(made(QueueLimit::Time(Duration::from_millis(10)), 20, 4.0), (16_000, 64_000));
    assert_eq!(made(QueueLimit::Bytes(3_000), 20, 4.0), (3_000, 12_000));
    assert_eq!(scaled(&link(half, 160), 4.0), QueueLimit::Bdp(2.0));
    assert_eq!(scaled(&link(QueueLimit::Packets(7), 20), 4.0), QueueLimit::Packets(28));
}

/// Returns the names of the changes against a cause on the only path of TCP.
fn against(queue: &str, cause: Cause) -> Vec<String> {
    let path = format!("rate = '2 Mbit/s', rtt = '9 ms', queue = '{queue}'");
    changed(&path, cause).into_iter().map(|found| found.what).collect()
}

/// Returns the changes against a cause on the only path of TCP.
fn changed(path: &str, cause: Cause) -> Vec<Candidate> {
    let text = format!(
        "path = [{{ {path} }}]\nschedulers = ['tcp']\ntraffic = {{ size = '1 KB', direction = 'download' }}"
    );
    let scenario = Document::parse("test.toml", &text, ".").unwrap().scenario().unwrap();
    let mut base = Base {
        scenario: &scenario,
        condition: 0,
        contender: 0,
        tcp_path: Some(0),
        direction: Direction::Download,
        found: Vec::new(),
    };
    base.against(cause, Some(0), true);
    base.found
}

/// 2 Mbit/s in 160 ms are 40 KB.
#[test]
fn a_path_with_another_rate_keeps_its_queue_in_bytes() {
    for (queue, bytes) in [("1 BDP", 40_000), ("160 ms", 40_000), ("50 KB", 50_000)] {
        let path =
            format!("rate = {{ down = '2 Mbit/s', up = '10 kbit/s' }}, rtt = '160 ms', queue = '{queue}'");
        for (cause, what) in [
            (Cause::Serialisation, "twice the rate of path 1"),
            (Cause::CongestionWindow, "the rate of the data for the acknowledgements on path 1"),
        ] {
            let all = changed(&path, cause);
            let found = all.iter().find(|found| found.what == what).unwrap();
            let links = |scenario: &Scenario| scenario.conditions[0].experiment.graph.links.clone();
            let scenario = changed(&path, Cause::Propagation).remove(0).scenario;
            let queues = |scenario: &Scenario| -> Vec<u64> {
                links(scenario).iter().map(|link| link.config.resolved_queue().bytes).collect()
            };
            assert_ne!(links(&found.scenario), links(&scenario), "{what}");
            assert!(
                queues(&found.scenario).contains(&bytes),
                "{queue}, {what}: {:?}",
                queues(&found.scenario)
            );
        }
    }
    let packets = changed("rate = '2 Mbit/s', rtt = '9 ms', queue = '7 packets'", Cause::Serialisation);
    let config = &packets[0].scenario.conditions[0].experiment.graph.links[0].config;
    assert_eq!(config.queue, QueueLimit::Packets(7));
}

/// A queue of one packet has no quarter.
#[test]
fn a_change_that_changes_nothing_is_not_tried() {
    for (queue, tried) in [("1 packets", false), ("1500 B", false), ("2 packets", true), ("0.5 BDP", true)] {
        let found = against(queue, Cause::Queueing);
        assert_eq!(
            found.iter().any(|what| what == "a quarter of the queue of path 1"),
            tried,
            "{queue}: {found:?}"
        );
    }
    for (queue, tried) in [("unlimited", false), ("1 packets", true), ("0.5 BDP", true)] {
        let found = against(queue, Cause::Retransmission);
        assert_eq!(
            found.iter().any(|what| what == "four times the queue of path 1"),
            tried,
            "{queue}: {found:?}"
        );
    }
}
