//! Schedulers and congestion controls in whole transfers: properties visible only end to end.

use crate::harness;

use anabranch_stack::config::{ConnectionConfig, Profile, SimConfig};
use anabranch_stack::congestion::{BbrOptions, CongestionKind};
use anabranch_stack::scheduler::{
    AnabranchOptions, DapsOptions, DmptcpOptions, RoundRobinOptions, SchedulerKind,
};
use anabranch_units::{Bytes, Duration, Rate, Time};
use harness::{Pair, Path, Side};

/// Sends `bytes` and returns the pair and the duration in milliseconds, from the first SYN.
fn transfer(paths: Vec<Path>, config: impl Into<SimConfig>, bytes: u64) -> (Pair, u64) {
    let mut config = config.into();
    config.flow_size = Some(Bytes(bytes));
    let mut pair = Pair::new(paths, config.clone(), 3);
    pair.connect(config.clone());
    let mut written = pair.write(Side::Client, bytes);
    while pair.server.read < bytes {
        assert!(pair.step() && pair.now < Time::from_secs(300), "stuck at {:?}: {config:?}", pair.now);
        if written < bytes {
            written += pair.write(Side::Client, bytes - written);
        }
    }
    let took = pair.now.as_micros() / 1000;
    (pair, took)
}

fn segments_on(pair: &Pair, path: usize) -> usize {
    pair.data_segments(Side::Client).filter(|(_, _, p, ..)| *p == path).count()
}

fn with(scheduler: SchedulerKind) -> ConnectionConfig {
    ConnectionConfig { scheduler, ..ConnectionConfig::linux() }
}

#[test]
fn every_scheduler_with_every_congestion_control_ends_a_transfer_with_losses() {
    let mut schedulers = SchedulerKind::ALL.to_vec();
    schedulers.push(SchedulerKind::RoundRobin(RoundRobinOptions { segments: 2, cwnd_limited: false }));
    schedulers.push(SchedulerKind::Daps(DapsOptions { reorder: true, ..DapsOptions::DEFAULT }));
    for profile in Profile::ALL {
        for scheduler in &schedulers {
            for congestion in CongestionKind::ALL {
                let mut config = SimConfig::new(profile);
                (config.scheduler, config.congestion) = (scheduler.clone(), congestion);
                let path = |delay| Path { loss: [0.02, 0.01], ..Path::clean(delay) };
                let (pair, _) = transfer(vec![path(10), path(40)], config, 300_000);
                assert_eq!(pair.server.read, 300_000);
            }
        }
    }
}

#[test]
fn redundant_sends_on_both_paths_and_is_as_fast_as_the_best() {
    // Long enough for the second path to be used most of the time.
    let slow_growth = |config| ConnectionConfig { initial_ssthresh: Some(20), ..config };
    let both = slow_growth(with(SchedulerKind::Redundant));
    let (pair, took) = transfer(vec![Path::clean(10), Path::clean(30)], both, 1_000_000);
    let alone = slow_growth(ConnectionConfig { mptcp: false, ..ConnectionConfig::linux() });
    let (one, took_alone) = transfer(vec![Path::clean(10)], alone, 1_000_000);
    assert!(took <= took_alone + 20, "{took} and {took_alone}");
    let (first, second) = (segments_on(&pair, 0), segments_on(&pair, 1));
    // The first carries everything itself, except data that the second delivered sooner.
    assert!(10 * first >= 9 * segments_on(&one, 0), "{first}");
    assert!(second > 100, "{second}");
}

#[test]
fn redundant_is_not_held_back_by_a_path_that_loses_everything() {
    let mut slow = Pair::new(vec![Path::clean(10), Path::clean(10)], with(SchedulerKind::Redundant), 3);
    slow.connect(with(SchedulerKind::Redundant));
    // The second path carries its handshake and no data.
    slow.drop = Box::new(|_, _, path, segment| path == 1 && segment.payload_len > 0);
    let mut written = slow.write(Side::Client, 400_000);
    while slow.server.read < 400_000 {
        assert!(slow.step());
        if written < 400_000 {
            written += slow.write(Side::Client, 400_000 - written);
        }
    }
    let alone = ConnectionConfig { mptcp: false, ..ConnectionConfig::linux() };
    let (_, took_alone) = transfer(vec![Path::clean(10)], alone, 400_000);
    let took = slow.now.as_micros() / 1000;
    assert!(took <= took_alone + 20, "{took} and {took_alone}");
}

#[test]
fn dmptcp_spares_a_small_flow_the_slow_path_and_ends_it_sooner_than_min_rtt() {
    // The slow path is established when a quarter remains, which the fast one sends within 200 ms.
    let run = |scheduler| {
        let config = ConnectionConfig { initial_ssthresh: Some(10), ..with(scheduler) };
        transfer(vec![Path::clean(10), Path::clean(100)], config, 600_000)
    };
    let (dmptcp, fast) = run(SchedulerKind::Dmptcp(DmptcpOptions::DEFAULT));
    let (min_rtt, slow) = run(SchedulerKind::MinRtt);
    assert_eq!(segments_on(&dmptcp, 1), 0);
    assert!(segments_on(&min_rtt, 1) > 0);
    assert!(fast < slow, "{fast} and {slow}");
}

#[test]
fn dmptcp_uses_both_paths_for_a_large_flow() {
    let paths = vec![Path::clean(10), Path::clean(30)];
    let config = ConnectionConfig {
        initial_ssthresh: Some(10),
        ..with(SchedulerKind::Dmptcp(DmptcpOptions::DEFAULT))
    };
    let (pair, _) = transfer(paths, config, 5_000_000);
    assert!(segments_on(&pair, 1) > 200, "{}", segments_on(&pair, 1));
}

#[test]
fn small_queues_stop_no_scheduler() {
    let run = |scheduler: SchedulerKind, small_queues| {
        let config = ConnectionConfig { small_queues, initial_ssthresh: Some(40), ..with(scheduler) };
        let (pair, _) = transfer(vec![Path::clean(10), Path::clean(40)], config, 1_000_000);
        assert_eq!(pair.server.read, 1_000_000);
        segments_on(&pair, 1)
    };
    for scheduler in SchedulerKind::ALL {
        run(scheduler, Some(1));
    }
    // The kernel's scheduler has no such check.
    let linux = || SchedulerKind::from_name("linux").unwrap();
    assert_eq!(run(linux(), Some(1)), run(linux(), None));
}

#[test]
fn strict_round_robin_sends_as_many_segments_on_both_paths() {
    let scheduler = SchedulerKind::RoundRobin(RoundRobinOptions { segments: 1, cwnd_limited: false });
    let config = ConnectionConfig { initial_ssthresh: Some(10), ..with(scheduler) };
    let (pair, _) = transfer(vec![Path::clean(10), Path::clean(40)], config, 3_000_000);
    // From the time at which the second path is established.
    let first = pair.data_segments(Side::Client).find(|(_, _, path, ..)| *path == 1).map(|(at, ..)| *at);
    let on = |p| {
        pair.data_segments(Side::Client).filter(|(at, _, path, ..)| *path == p && Some(*at) >= first).count()
    };
    let (a, b) = (on(0), on(1));
    assert!(b > 500 && a.abs_diff(b) <= 2, "{a} and {b}");
}

// Acknowledgements of paced segments have the distance at which they were sent. Where that counted as the rate of the link, the second path
// stayed at 10 Mbit/s, and the transfer took 2.9 s.
#[test]
fn anabranch_fills_a_path_that_a_congestion_control_paces() {
    let path = |mbps, delay, queue| Path { rate: Some(Rate::from_mbps(mbps)), queue, ..Path::clean(delay) };
    let mut config = SimConfig::new(Profile::Linux);
    config.congestion = CongestionKind::Bbr(BbrOptions::DEFAULT);
    config.scheduler = SchedulerKind::Anabranch(AnabranchOptions::DEFAULT);
    let (pair, took) = transfer(vec![path(50, 5, 62_500), path(100, 20, 500_000)], config, 20_000_000);
    assert!(took < 1800, "{took} ms, {} segments on the second path", segments_on(&pair, 1));
}

// The first short write is in flight on the first path, where a second one would wait 20 ms for its acknowledgement.
#[test]
fn anabranch_sends_a_second_short_write_on_the_path_without_one() {
    let mut config = SimConfig::new(Profile::Linux);
    config.scheduler = SchedulerKind::Anabranch(AnabranchOptions::DEFAULT);
    let mut pair = Pair::new(vec![Path::clean(10), Path::clean(12)], config.clone(), 3);
    pair.connect(config.clone());
    pair.write_all(Side::Client, 20_000);
    assert!(pair.run_until(Time::from_secs(2), |pair| pair.server.read == 20_000));
    pair.run_for(Duration::from_millis(200));
    let started = pair.now;
    pair.write_all(Side::Client, 500);
    pair.run_for(Duration::from_millis(1));
    pair.write_all(Side::Client, 500);
    assert!(pair.run_until(started + Duration::from_secs(1), |pair| pair.server.read == 21_000));
    assert!(pair.now.since(started) < Duration::from_millis(20), "{:?}", pair.now.since(started));
}
