//! Two endpoints on a virtual clock: connections open, carry data in both directions, and end.

use crate::harness;

use anabranch_stack::config::{ConnectionConfig, LossDetection, SimConfig};
use anabranch_stack::event::CloseReason;
use anabranch_stack::segment::{Address, Flags};
use anabranch_units::{Bytes, Duration, Rate, Time};
use harness::{Pair, Path, Side, client_ip, server_ip};

fn transfer(pair: &mut Pair, config: impl Into<SimConfig>, bytes: u64) {
    pair.connect(config);
    let mut written = pair.write(Side::Client, bytes);
    let deadline = Time::from_secs(600);
    while written < bytes {
        assert!(pair.step());
        written += pair.write(Side::Client, bytes - written);
        assert!(pair.now < deadline);
    }
    pair.close(Side::Client);
    let done = pair.run_until(deadline, |pair| pair.server.peer_closed);
    if !done {
        pair.print_log(30);
    }
    assert!(done, "at {:?}", pair.now);
    assert_eq!(pair.server.read, bytes);
    pair.close(Side::Server);
    let ended = pair.run_until(deadline, |pair| pair.client.closed.is_some() && pair.server.closed.is_some());
    if !ended {
        pair.print_log(30);
    }
    assert!(ended);
    assert_eq!(pair.client.closed, Some(CloseReason::Finished));
    assert_eq!(pair.server.closed, Some(CloseReason::Finished));
}

#[test]
fn a_plain_tcp_carries_a_megabyte() {
    let config = ConnectionConfig { mptcp: false, ..ConnectionConfig::linux() };
    let mut pair = Pair::new(vec![Path::clean(10)], config.clone(), 1);
    transfer(&mut pair, config, 1_000_000);
}

#[test]
fn mptcp_fills_two_windows() {
    let config = ConnectionConfig { initial_ssthresh: Some(10), ..ConnectionConfig::linux() };
    let mut pair = Pair::new(vec![Path::clean(10), Path::clean(20)], config.clone(), 1);
    transfer(&mut pair, config, 3_000_000);
    let by_path = |path| pair.data_segments(Side::Client).filter(|(_, _, p, _, _)| *p == path).count();
    assert!(by_path(0) > 100 && by_path(1) > 100, "{} {}", by_path(0), by_path(1));
}

#[test]
fn simultaneous_joins_carry_data_one_round_trip_later() {
    let config = SimConfig::ns3();
    let mut pair = Pair::new(vec![Path::clean(10), Path::clean(40)], config.clone(), 1);
    transfer(&mut pair, config, 500_000);
    let first = |path| pair.data_segments(Side::Client).find(|(_, _, p, _, _)| *p == path).map(|e| e.0);
    assert_eq!(first(0), Some(Time::from_millis(21)));
    assert_eq!(first(1), Some(Time::from_millis(81)));
}

#[test]
fn losses_are_repaired_in_every_mode() {
    for detection in [LossDetection::RackTlp, LossDetection::DuplicateAcks] {
        for mptcp in [false, true] {
            let config = ConnectionConfig {
                mptcp,
                loss_detection: detection,
                sack: detection == LossDetection::RackTlp,
                ..ConnectionConfig::linux()
            };
            let path = |delay| Path { loss: [0.02, 0.02], reorder: 0.01, ..Path::clean(delay) };
            let mut pair = Pair::new(vec![path(10), path(25)], config.clone(), 7);
            transfer(&mut pair, config, 2_000_000);
            eprintln!("{detection:?} {mptcp} log {} now {:?}", pair.log.len(), pair.now);
        }
    }
}

#[test]
fn a_path_that_dies_gives_its_data_to_the_other() {
    let config = ConnectionConfig::linux();
    let mut pair = Pair::new(vec![Path::clean(10), Path::clean(15)], config.clone(), 3);
    pair.connect(config);
    pair.write(Side::Client, 4_000_000);
    pair.run_for(Duration::from_millis(120));
    pair.paths[0].down = true;
    pair.close(Side::Client);
    assert!(pair.run_until(Time::from_secs(30), |pair| pair.server.peer_closed));
    assert_eq!(pair.server.read, 4_000_000);
}

// RFC 8684 sections 3.3.6 and 3.6: data is kept until it is acknowledged on every subflow that carries it,
// but a subflow with outstanding data that was delivered on another may be reset, with reason 0x04.
#[test]
fn a_path_that_dies_does_not_hold_a_full_send_buffer() {
    let config = ConnectionConfig { send_buffer: Bytes::from_kib(512), ..ConnectionConfig::linux() };
    let rate = Some(Rate::from_mbps(20));
    let path = |delay| Path { rate, queue: 100_000, ..Path::clean(delay) };
    let mut pair = Pair::new(vec![path(10), path(15)], config.clone(), 3);
    pair.connect(config);
    let (bytes, mut written) = (8_000_000, 0);
    while written < bytes {
        written += pair.write(Side::Client, bytes - written);
        if pair.now > Time::from_millis(300) {
            pair.paths[1].down = true;
        }
        assert!(pair.step() && pair.now < Time::from_secs(20), "{written} bytes at {:?}", pair.now);
    }
    // 8 MB at 20 Mbit/s take 3.2 s, plus the first timeout.
    assert!(pair.run_until(Time::from_secs(5), |pair| pair.server.read == bytes));
    // The subflow is kept, and used again when the path is back.
    pair.run_for(Duration::from_secs(10));
    pair.paths[1].down = false;
    pair.run_for(Duration::from_secs(20));
    let before = pair.log.len();
    pair.write_all(Side::Client, 4_000_000);
    assert!(pair.run_until(Time::from_secs(60), |pair| pair.server.read == bytes + 4_000_000));
    let sent = pair.log[before..].iter().filter(|entry| entry.1 == Side::Client);
    let by_path = sent.fold([0, 0], |mut sum, entry| {
        sum[entry.2] += 1;
        sum
    });
    assert!(by_path[0] > 1000 && by_path[1] > 500, "{by_path:?}");
    let subflows = pair.client.endpoint.subflow_stats(pair.client.connection.unwrap());
    assert!(subflows.len() == 2 && subflows.iter().all(|subflow| subflow.ended.is_none()));
}

// A client that half-closes right after its request receives the response over both paths.
#[test]
fn a_download_after_an_early_half_close_uses_both_paths() {
    let config = ConnectionConfig::linux();
    let rate = Some(Rate::from_mbps(20));
    let path = |delay| Path { rate, queue: 100_000, ..Path::clean(delay) };
    let mut pair = Pair::new(vec![path(10), path(15)], config.clone(), 3);
    pair.connect(config);
    pair.write_all(Side::Client, 100);
    pair.close_after_backlog(Side::Client);
    let limit = Time::from_secs(20);
    assert!(pair.run_until(limit, |pair| pair.server.peer_closed));
    pair.write_all(Side::Server, 4_000_000);
    pair.close_after_backlog(Side::Server);
    let ended = |pair: &Pair| pair.client.closed.is_some() && pair.server.closed.is_some();
    assert!(pair.run_until(limit, ended));
    assert_eq!((pair.client.read, pair.server.read), (4_000_000, 100));
    assert_eq!(pair.client.closed, Some(CloseReason::Finished));
    assert_eq!(pair.server.closed, Some(CloseReason::Finished));
    let by_path = |path| pair.data_segments(Side::Server).filter(|(_, _, p, _, _)| *p == path).count();
    assert!(by_path(0) > 1000 && by_path(1) > 1000, "{} {}", by_path(0), by_path(1));
}

// RFC 9293 section 3.5: both ends connect at once, also if a first SYN or SYN/ACK is lost.
#[test]
fn a_simultaneous_open_carries_data_both_ways() {
    for lost in [
        None,
        Some((Side::Client, 0)),
        Some((Side::Server, 0)),
        Some((Side::Client, 1)),
        Some((Side::Server, 1)),
    ] {
        let config = ConnectionConfig::linux();
        let mut pair = Pair::new(vec![Path::clean(10), Path::clean(20)], config.clone(), 5);
        let mut seen = [0, 0];
        pair.drop = Box::new(move |_, side, _, segment| {
            let count = &mut seen[usize::from(side == Side::Server)];
            *count += u32::from(segment.flags.has(Flags::SYN));
            segment.flags.has(Flags::SYN) && lost == Some((side, *count - 1))
        });
        let ends = [Address::new(client_ip(0), 5000), Address::new(server_ip(), 6000)];
        let now = pair.now;
        for (side, local, remote) in [(Side::Client, ends[0], ends[1]), (Side::Server, ends[1], ends[0])] {
            let host = pair.host(side);
            host.connection = host.endpoint.connect_from(now, local, remote, config.clone()).ok();
            assert!(host.endpoint.connect_from(now, local, remote, config.clone()).is_err());
        }
        pair.pump();
        for side in Side::BOTH {
            pair.write_all(side, 300_000);
            pair.close_after_backlog(side);
        }
        let ended = |pair: &Pair| pair.client.closed.is_some() && pair.server.closed.is_some();
        assert!(pair.run_until(Time::from_secs(30), ended));
        assert_eq!((pair.client.read, pair.server.read), (300_000, 300_000), "{lost:?}");
        let reasons = (pair.client.closed, pair.server.closed);
        assert_eq!(reasons, (Some(CloseReason::Finished), Some(CloseReason::Finished)), "{lost:?}");
        let finals =
            [&pair.client, &pair.server].map(|host| host.final_stats.as_ref().map(|stats| stats.0.mptcp));
        assert_eq!(finals, [Some(false); 2], "{lost:?}");
    }
}
