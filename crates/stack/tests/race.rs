//! A race of first subflows: the next local address tries after a delay, and the first answer decides.

use crate::harness;

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::event::CloseReason;
use anabranch_stack::segment::{Address, Flags, MptcpOption, Segment};
use anabranch_stack::stats::SubflowStats;
use anabranch_units::{Duration, Time};
use harness::{Pair, Path, Side, client_ip, server_ip};

const DELAY: Duration = Duration::from_millis(20);

fn racing() -> ConnectionConfig {
    ConnectionConfig { race: Some(DELAY), ..ConnectionConfig::linux() }
}

/// Returns a pair with paths of these one-way delays.
fn pair(delays: &[u64]) -> Pair {
    let paths = delays.iter().map(|delay| Path::clean(*delay)).collect();
    Pair::new(paths, ConnectionConfig::linux(), 5)
}

/// Sends `bytes` from the client, ends the connection, and checks that neither host keeps anything but TIME-WAIT.
fn transfer(pair: &mut Pair, bytes: u64) {
    pair.write_all(Side::Client, bytes);
    pair.close_after_backlog(Side::Client);
    let limit = Time::from_secs(60);
    assert!(pair.run_until(limit, |pair| pair.server.peer_closed));
    assert_eq!(pair.server.read, pair.client.written);
    pair.close(Side::Server);
    assert!(pair.run_until(limit, |pair| pair.client.closed.is_some() && pair.server.closed.is_some()));
    assert_eq!(pair.client.closed, Some(CloseReason::Finished));
}

fn connect(pair: &mut Pair) -> bool {
    pair.connect(racing());
    pair.run_until(Time::from_secs(30), |pair| pair.client.open || pair.client.closed.is_some())
}

fn subflows(pair: &Pair) -> Vec<SubflowStats> {
    pair.client.endpoint.subflow_stats(pair.client.connection.unwrap())
}

/// Returns the times and paths of the client's SYNs with MP_CAPABLE.
fn attempts(pair: &Pair) -> Vec<(Time, usize)> {
    let is_attempt = |segment: &Segment| {
        let capable = |option: &MptcpOption| matches!(option, MptcpOption::Capable(_));
        segment.flags.has(Flags::SYN) && segment.options.mptcp.iter().flatten().any(capable)
    };
    let sent = pair.log.iter().filter(|entry| entry.1 == Side::Client && is_attempt(&entry.3));
    sent.map(|entry| (entry.0, entry.2)).collect()
}

fn resets(pair: &Pair, side: Side) -> Vec<(Time, usize)> {
    let sent = pair.log.iter().filter(|entry| entry.1 == side && entry.3.flags.has(Flags::RST));
    sent.map(|entry| (entry.0, entry.2)).collect()
}

#[test]
fn the_first_answer_wins_and_the_other_path_is_joined() {
    let mut pair = pair(&[100, 10]);
    assert!(connect(&mut pair));
    // The second attempt begins after the delay, and its round trip is 20 ms.
    assert_eq!(pair.now, Time::from_millis(41));
    assert_eq!(attempts(&pair), [(Time::from_millis(1), 0), (Time::from_millis(21), 1)]);
    let first = subflows(&pair);
    assert_eq!(first.len(), 1, "an attempt that has lost is no subflow");
    assert_eq!((first[0].id.0, first[0].local.ip), (0, client_ip(1)));
    // The handshake is a sample of the round trip of its own attempt.
    assert_eq!(first[0].srtt, Some(Duration::from_millis(20)));
    // The answer to the other one arrives at 201 ms, and is reset.
    pair.write_all(Side::Client, 10_000);
    pair.run_for(Duration::from_millis(500));
    assert_eq!(resets(&pair, Side::Client), [(Time::from_millis(201), 0)]);
    assert_eq!(pair.server.endpoint.connection_count(), 1, "the other half-open connection is gone");
    let used = subflows(&pair);
    let joined = used.iter().find(|subflow| subflow.local.ip == client_ip(0)).unwrap();
    assert!(joined.established.is_some() && joined.id.0 == 1);
    transfer(&mut pair, 5_000_000);
    assert_eq!(pair.server.endpoint.counters().joins_refused, 0);
    let by_path = |path| pair.data_segments(Side::Client).filter(|(_, _, p, _, _)| *p == path).count();
    assert!(by_path(0) > 10 && by_path(1) > 100, "{} {}", by_path(0), by_path(1));
}

// RFC 8684 section 3.1: a SYN has no key, so that the attempts of one connection reveal nothing.
#[test]
fn no_syn_carries_a_key() {
    let mut pair = pair(&[100, 80, 10]);
    assert!(connect(&mut pair));
    let syns = pair.log.iter().filter(|entry| entry.1 == Side::Client && entry.3.flags.has(Flags::SYN));
    let options: Vec<MptcpOption> =
        syns.flat_map(|entry| entry.3.options.mptcp.into_iter().flatten()).collect();
    assert_eq!(options.len(), 3);
    for option in options {
        let MptcpOption::Capable(capable) = option else { panic!("{option:?}") };
        assert_eq!((capable.sender_key, capable.receiver_key), (None, None));
    }
    transfer(&mut pair, 100_000);
}

#[test]
fn a_default_path_that_answers_in_time_has_no_rival() {
    let mut pair = pair(&[9, 1]);
    assert!(connect(&mut pair));
    transfer(&mut pair, 1_000_000);
    assert_eq!(attempts(&pair), [(Time::from_millis(1), 0)]);
    assert_eq!(resets(&pair, Side::Client), []);
    assert_eq!(subflows_at_end(&pair)[0].local.ip, client_ip(0));
}

fn subflows_at_end(pair: &Pair) -> Vec<SubflowStats> {
    pair.client.final_stats.as_ref().unwrap().1.clone()
}

#[test]
fn the_loss_of_the_first_syn_costs_the_delay_and_no_timeout() {
    let mut pair = pair(&[10, 15]);
    let mut lost = 0;
    pair.drop = Box::new(move |_, from, path, segment| {
        let drops = from == Side::Client && path == 0 && segment.flags.has(Flags::SYN) && lost == 0;
        lost += u32::from(drops);
        drops
    });
    assert!(connect(&mut pair));
    assert_eq!(pair.now, Time::from_millis(51));
    transfer(&mut pair, 1_000_000);
    // The answer of the first path never comes, so nothing is reset.
    assert_eq!(resets(&pair, Side::Client), []);
}

#[test]
fn a_dead_default_path_costs_the_delay() {
    for dead in [0, 1] {
        let mut pair = pair(&[10, 15, 40]);
        pair.paths[0].down = true;
        pair.paths[1].down = dead == 1;
        assert!(connect(&mut pair));
        assert_eq!(pair.now, Time::from_millis(if dead == 1 { 121 } else { 51 }));
        transfer(&mut pair, 1_000_000);
    }
}

// The default path is slow, and answers before the second one does.
#[test]
fn the_default_path_wins_with_the_earlier_answer() {
    let mut pair = pair(&[30, 25]);
    assert!(connect(&mut pair));
    assert_eq!(pair.now, Time::from_millis(61));
    assert_eq!(attempts(&pair).len(), 2);
    assert_eq!(subflows(&pair)[0].local.ip, client_ip(0));
    pair.run_for(Duration::from_millis(100));
    assert_eq!(resets(&pair, Side::Client), [(Time::from_millis(71), 1)]);
    assert_eq!(pair.server.endpoint.connection_count(), 1);
    transfer(&mut pair, 1_000_000);
}

// RFC 8305 section 5.
#[test]
fn an_attempt_that_fails_lets_the_next_begin_at_once() {
    let mut pair = pair(&[5, 10, 15]);
    pair.server.endpoint.stop_listening(harness::PORT);
    assert!(connect(&mut pair));
    assert_eq!(pair.client.closed, Some(CloseReason::Refused));
    let times = [1, 11, 31].map(Time::from_millis);
    assert_eq!(attempts(&pair), times.into_iter().zip(0..).collect::<Vec<_>>());
    assert_eq!(pair.now, Time::from_millis(61));
    pair.run_for(Duration::from_secs(100));
    assert_eq!((pair.client.endpoint.connection_count(), attempts(&pair).len()), (0, 3));
}

#[test]
fn a_refusal_on_one_path_leaves_the_others_in_the_race() {
    let mut pair = pair(&[50, 100]);
    pair.connect(racing());
    pair.run_for(Duration::from_millis(40));
    // Both have been sent. A middlebox refuses the first.
    let syn = pair.log[0].3;
    let mut reset = Segment::new(syn.destination, syn.source, syn.ack, Flags::RST.with(Flags::ACK));
    reset.ack = syn.seq.add(1);
    let now = pair.now;
    pair.client.endpoint.handle_segment(now, anabranch_stack::segment::PathId(0), &reset, &mut Vec::new());
    pair.pump();
    assert!(pair.run_until(Time::from_secs(1), |pair| pair.client.open));
    assert_eq!(pair.now, Time::from_millis(221));
    let first = subflows(&pair);
    assert_eq!((first.len(), first[0].id.0, first[0].local.ip), (1, 0, client_ip(1)));
    transfer(&mut pair, 200_000);
}

#[test]
fn a_race_that_is_aborted_sends_nothing_more() {
    for after in [10, 30] {
        let mut pair = pair(&[100, 110, 120]);
        pair.connect(racing());
        pair.run_for(Duration::from_millis(after));
        let before = attempts(&pair).len();
        pair.abort(Side::Client);
        pair.run_for(Duration::from_secs(100));
        assert_eq!(attempts(&pair).len(), before);
        assert!(pair.client.closed.is_some());
        assert_eq!(pair.client.endpoint.connection_count(), 0);
        assert_eq!(pair.server.endpoint.connection_count(), 0, "late answers were reset");
    }
}

#[test]
fn a_local_address_that_goes_down_leaves_the_race() {
    let mut pair = pair(&[100, 50]);
    pair.connect(racing());
    pair.run_for(Duration::from_millis(5));
    pair.set_address_up(Side::Client, client_ip(0), false);
    // The second attempt does not wait for the delay.
    assert!(pair.run_until(Time::from_secs(1), |pair| pair.client.open));
    assert_eq!(pair.now, Time::from_millis(106));
    transfer(&mut pair, 100_000);
}

/// As a plain TCP does, and Linux: no other subflow may be added before the peer has confirmed the keys, so the only one goes on when
/// its interface is back.
#[test]
fn the_only_subflow_survives_the_loss_of_its_address_until_another_one_may_join() {
    for (racing, after) in [(None, 30), (Some(DELAY), 30), (None, 210)] {
        let mut pair = pair(&[100, 50]);
        pair.drop = Box::new(|now, _, _, _| now > Time::from_millis(250) && now < Time::from_millis(2500));
        pair.connect(ConnectionConfig { race: racing, ..ConnectionConfig::linux() });
        pair.run_for(Duration::from_millis(after));
        assert_eq!(pair.client.open, after == 210);
        pair.write_all(Side::Client, 1000);
        for path in [0, 1] {
            pair.set_address_up(Side::Client, client_ip(path), false);
        }
        pair.run_for(Duration::from_millis(2000));
        assert!(pair.client.closed.is_none());
        pair.set_address_up(Side::Client, client_ip(0), true);
        // SYNs are sent again after 1 and after 3 s.
        assert!(pair.run_until(Time::from_secs(5), |pair| pair.server.read == 1000), "{racing:?} {after}");
        transfer(&mut pair, 100_000);
    }
}

/// The attempt on the other path waits longer and longer for an answer.
#[test]
fn an_address_that_is_up_again_returns_to_the_race() {
    let mut pair = pair(&[100, 50]);
    pair.drop = Box::new(|_, _, path, _| path == 1);
    pair.connect(racing());
    pair.run_for(Duration::from_millis(30));
    pair.set_address_up(Side::Client, client_ip(0), false);
    pair.run_for(Duration::from_secs(5));
    assert!(!pair.client.open);
    pair.set_address_up(Side::Client, client_ip(0), true);
    pair.run_for(Duration::from_millis(250));
    assert!(pair.client.open);
    pair.drop = Box::new(|_, _, _, _| false);
    transfer(&mut pair, 100_000);
}

/// An address that comes up begins an attempt only in a race, and only one.
#[test]
fn an_address_that_comes_up_elsewhere_is_no_attempt_more() {
    // Without a race; with an attempt from there; for the time when no other works.
    for (racing, up, backup) in [(None, 1, false), (Some(DELAY), 0, false), (Some(DELAY), 1, true)] {
        let paths = vec![Path::clean(100), Path { backup, ..Path::clean(50) }, Path::clean(60)];
        let mut pair = Pair::new(paths, ConnectionConfig::linux(), 5);
        pair.connect(ConnectionConfig { race: racing, ..ConnectionConfig::linux() });
        pair.run_for(Duration::from_millis(10));
        pair.set_address_up(Side::Client, client_ip(up), true);
        pair.run_for(Duration::from_millis(5));
        assert_eq!(attempts(&pair), [(Time::from_millis(1), 0)], "{racing:?} {up} {backup}");
        transfer(&mut pair, 100_000);
    }
}

#[test]
fn a_peer_without_multipath_gets_a_plain_tcp_on_the_path_that_answers_first() {
    let plain = ConnectionConfig { mptcp: false, ..ConnectionConfig::linux() };
    let mut pair = Pair::new(vec![Path::clean(100), Path::clean(10)], plain, 5);
    assert!(connect(&mut pair));
    assert_eq!(pair.now, Time::from_millis(41));
    transfer(&mut pair, 1_000_000);
    let by_path = |path| pair.data_segments(Side::Client).filter(|(_, _, p, _, _)| *p == path).count();
    assert!(by_path(0) == 0 && by_path(1) > 500);
    assert_eq!(pair.server.endpoint.connection_count(), 1);
}

#[test]
fn a_backup_and_a_plain_tcp_do_not_race() {
    let paths = vec![Path::clean(100), Path { backup: true, ..Path::clean(10) }];
    let mut backup = Pair::new(paths, ConnectionConfig::linux(), 5);
    assert!(connect(&mut backup));
    assert_eq!(attempts(&backup), [(Time::from_millis(1), 0)]);
    let mut plain = pair(&[100, 10]);
    plain.connect(ConnectionConfig { mptcp: false, ..racing() });
    plain.run_for(Duration::from_millis(300));
    assert!(plain.client.open);
    assert!(plain.log.iter().all(|entry| entry.2 == 0));
}

// The answer of the attempt that has lost arrives while the winner carries data, with every order of the two paths, and
// after losses of each segment of the handshakes.
#[test]
fn every_loss_in_the_handshakes_leaves_one_connection() {
    for delays in [[100, 10], [30, 25], [10, 100], [25, 30]] {
        for lost in 0..8 {
            let mut pair = pair(&delays);
            let mut number = 0;
            pair.drop = Box::new(move |_, _, _, _| {
                number += 1;
                number == lost + 1
            });
            pair.connect(racing());
            transfer(&mut pair, 300_000);
            // TIME-WAIT and the retransmissions of a SYN/ACK are over.
            pair.run_for(Duration::from_secs(200));
            assert_eq!(pair.client.endpoint.connection_count(), 0, "{delays:?} {lost}");
            assert_eq!(pair.server.endpoint.connection_count(), 0, "{delays:?} {lost}");
        }
    }
}

#[test]
fn the_winner_has_the_peers_address_and_the_next_connection_another_port() {
    let mut pair = pair(&[100, 10]);
    assert!(connect(&mut pair));
    let remote = Address::new(server_ip(), harness::PORT);
    let first = subflows(&pair)[0];
    assert_eq!(first.remote, remote);
    let now = pair.now;
    let other = pair.client.endpoint.connect(now, client_ip(1), remote, racing()).unwrap();
    let second = pair.client.endpoint.subflow_stats(other)[0];
    assert_ne!(first.local, second.local);
}
