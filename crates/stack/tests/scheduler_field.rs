//! All schedulers end to end: the properties that docs/schedulers.md and the papers state for each kind.

use crate::harness;

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_units::{Bytes, Rate, Time};
use harness::{Pair, Path, Side};

fn kind(name: &str) -> SchedulerKind {
    SchedulerKind::from_name(name).expect("a scheduler")
}

fn with(scheduler: SchedulerKind) -> ConnectionConfig {
    ConnectionConfig { scheduler, ..ConnectionConfig::linux() }
}

/// Sends `bytes` between two hosts of the same configuration. Returns the milliseconds from the first SYN to
/// the last byte.
fn transfer(paths: Vec<Path>, config: &ConnectionConfig, bytes: u64) -> f64 {
    let config = ConnectionConfig { flow_size: Some(Bytes(bytes)), ..config.clone() };
    let mut pair = Pair::new(paths, config.clone(), 3);
    let begin = pair.now;
    pair.connect(config.clone());
    pair.write_all(Side::Client, bytes);
    pair.close_after_backlog(Side::Client);
    let arrived = pair.run_until(Time::from_secs(600), |pair| pair.server.read == bytes);
    assert!(arrived, "stuck: {:?}", config.scheduler);
    pair.now.since(begin).as_secs_f64() * 1e3
}

/// Returns a path of the given rate and round trip, with a queue of `queue` bytes.
fn link(kbit: u64, rtt_ms: u64, queue: u64) -> Path {
    Path { rate: Some(Rate(kbit * 1000)), queue, ..Path::clean(rtt_ms / 2) }
}

// Section 19, "homogeneous paths": the sum of both, except for schedulers that keep to one path or send
// everything twice.
#[test]
fn two_equal_paths_carry_the_sum() {
    let time = |name: &str| {
        let config = ConnectionConfig { congestion: CongestionKind::NewReno, ..with(kind(name)) };
        transfer(vec![link(10_000, 40, 100_000), link(10_000, 40, 100_000)], &config, 5_000_000)
    };
    let alone = time("backup");
    for kind in SchedulerKind::ALL {
        let took = time(kind.name());
        match kind.name() {
            "backup" | "redundant" => assert!(took > 0.9 * alone, "{}: {took} and {alone}", kind.name()),
            // The schedule ignores queueing; and queues raise both RTTs above the threshold.
            name @ ("daps" | "delay_threshold") => assert!(took < 0.9 * alone, "{name}: {took} and {alone}"),
            name => assert!(took < 0.72 * alone, "{name}: {took} and {alone}"),
        }
    }
}

// A path that drops everything once the connection is up: no data queued on it is lost.
#[test]
fn the_queue_of_a_dead_path_is_sent_on_the_other() {
    for kind in SchedulerKind::ALL {
        let config = ConnectionConfig { flow_size: Some(Bytes(2_000_000)), ..with(kind.clone()) };
        let mut pair =
            Pair::new(vec![link(10_000, 20, 100_000), link(10_000, 60, 100_000)], config.clone(), 5);
        pair.connect(config);
        pair.write_all(Side::Client, 2_000_000);
        pair.close_after_backlog(Side::Client);
        assert!(pair.run_until(Time::from_secs(20), |pair| pair.server.read >= 300_000), "{kind:?}");
        pair.paths[0].down = true;
        assert!(pair.run_until(Time::from_secs(300), |pair| pair.server.read == 2_000_000), "{kind:?}");
    }
}
