//! Two endpoints with a middlebox between them (RFC 8684 section 6): the stream arrives complete, by MPTCP if
//! possible and otherwise by TCP, and changes made in transit are detected.

#![expect(clippy::disallowed_methods, reason = "the environment may ask for more output")]

use crate::harness;

use anabranch_stack::config::{Checksums, ConnectionConfig};
use anabranch_stack::event::CloseReason;
use anabranch_units::{Duration, Time};
use harness::{Middlebox, Pair, Path, Side};

/// The number of bytes written in each direction.
const BYTES: u64 = 300_000;

fn checked() -> ConnectionConfig {
    ConnectionConfig { checksums: Checksums::Required, ..ConnectionConfig::linux() }
}

/// Writes from both sides, starting when the middleboxes become active; returns the pair at the end.
fn run(config: &ConnectionConfig, paths: usize, boxes: &[Middlebox], after_ms: u64) -> Pair {
    let mut pair =
        Pair::new((0..paths).map(|at| Path::clean(10 + 5 * at as u64)).collect(), config.clone(), 7);
    pair.keep_log = std::env::var("LOG").is_ok();
    pair.client.checksums = config.checksums == Checksums::Required;
    pair.server.checksums = pair.client.checksums;
    let place = |pair: &mut Pair| {
        for (path, &middlebox) in pair.paths.iter_mut().zip(boxes) {
            path.middlebox = middlebox;
        }
    };
    if after_ms == 0 {
        place(&mut pair);
    }
    pair.connect(config.clone());
    if after_ms > 0 {
        pair.write_all(Side::Client, BYTES);
        pair.run_for(Duration::from_millis(after_ms));
        place(&mut pair);
        pair.write_all(Side::Server, BYTES);
    } else {
        pair.run_for(Duration::from_millis(1));
        pair.write_all(Side::Client, BYTES);
        pair.run_until(Time::from_secs(100), |pair| pair.server.connection.is_some());
        pair.write_all(Side::Server, BYTES);
    }
    for side in Side::BOTH {
        pair.close_after_backlog(side);
    }
    let over = |pair: &Pair| pair.client.closed.is_some() && pair.server.closed.is_some();
    assert!(pair.run_until(Time::from_secs(600), over), "not over at {:?}", pair.now);
    for side in Side::BOTH {
        let host = pair.host(side);
        assert_eq!((host.closed, host.read), (Some(CloseReason::Finished), BYTES), "{side:?}");
    }
    pair
}

fn fallbacks(pair: &Pair) -> [u64; 2] {
    [&pair.client, &pair.server].map(|host| host.final_stats.as_ref().map_or(0, |(stats, _)| stats.fallbacks))
}

fn failures(pair: &Pair) -> u64 {
    let of = |host: &harness::Host| host.final_stats.as_ref().map_or(0, |(stats, _)| stats.checksum_failures);
    of(&pair.client) + of(&pair.server)
}

/// Returns the number of data segments of both sides received on a path.
fn carried(pair: &Pair, path: u16) -> u64 {
    let (_, subflows) = pair.client.final_stats.as_ref().unwrap();
    let on = subflows.iter().filter(|subflow| subflow.path.0 == path);
    on.map(|subflow| subflow.counters.bytes_delivered).sum()
}

// Row B1.
#[test]
fn options_taken_off_the_syn_or_its_answer_leave_a_tcp() {
    for boxes in [
        Middlebox { strips_syn: true, ..Middlebox::default() },
        Middlebox { strips_syn_ack: true, ..Middlebox::default() },
    ] {
        let pair = run(&ConnectionConfig::linux(), 2, &[boxes; 2], 0);
        assert_eq!((fallbacks(&pair), carried(&pair, 1)), ([0, 0], 0));
    }
}

// Row B2: a SYN with option 30 never passes.
#[test]
fn a_plain_syn_passes_a_middlebox_that_drops_option_30() {
    let boxes = Middlebox { drops_syn: true, ..Middlebox::default() };
    let pair = run(&ConnectionConfig::linux(), 2, &[boxes; 2], 0);
    assert_eq!(carried(&pair, 1), 0);
}

// Row B3: on the second path.
#[test]
fn a_join_without_its_options_leaves_its_path_unused() {
    for boxes in [
        Middlebox { strips_syn: true, ..Middlebox::default() },
        Middlebox { strips_syn_ack: true, ..Middlebox::default() },
        Middlebox { drops_syn: true, ..Middlebox::default() },
    ] {
        let pair = run(&ConnectionConfig::linux(), 2, &[Middlebox::default(), boxes], 0);
        assert_eq!((fallbacks(&pair), carried(&pair, 1)), ([0, 0], 0));
    }
}

// Row B4: after the handshake, in one direction, the other, or both.
#[test]
fn options_taken_off_after_the_handshake_lead_back_to_tcp() {
    for (config, later) in [true, false]
        .into_iter()
        .flat_map(|sums| [[true, true], [true, false], [false, true]].map(|l| (sums, l)))
    {
        let config = if config { checked() } else { ConnectionConfig::linux() };
        let boxes = Middlebox { strips_later: later, ..Middlebox::default() };
        run(&config, 1, &[boxes], 0);
    }
}

// Row B4, trap T42: during a transfer on one path.
#[test]
fn options_taken_off_in_mid_connection_lead_back_to_tcp() {
    for after in [25, 45, 70, 95] {
        for later in [[true, true], [true, false], [false, true]] {
            for config in [checked(), ConnectionConfig::linux()] {
                let boxes = Middlebox { strips_later: later, ..Middlebox::default() };
                println!("after {after}, {later:?}, {:?}", config.checksums);
                let pair = run(&config, 1, &[boxes], after);
                assert!(fallbacks(&pair).contains(&1), "{after} {later:?}");
            }
        }
    }
}

// Rows B4, F3, F7: on one of two paths, that subflow is closed.
#[test]
fn options_taken_off_on_one_of_two_paths_cost_that_path() {
    for later in [[true, true], [true, false], [false, true]] {
        let boxes = Middlebox { strips_later: later, ..Middlebox::default() };
        let pair = run(&ConnectionConfig::linux(), 2, &[Middlebox::default(), boxes], 60);
        assert_eq!(fallbacks(&pair), [0, 0]);
    }
}

// Rows B4, F3, F5: on both of two paths. A connection whose middleboxes begin before the join is used continues as
// TCP. Later there is no way back (F13): both subflows are reset, and each side reports the end once no subflow has
// come for the time that the configuration allows.
#[test]
fn options_taken_off_on_both_paths_end_in_tcp_or_in_an_error() {
    let config = ConnectionConfig::linux();
    for after in [0, 15, 25, 30, 35, 45, 60, 95] {
        for later in [[true, true], [true, false], [false, true]] {
            let boxes = Middlebox { strips_later: later, ..Middlebox::default() };
            let paths = (0..2).map(|at| Path::clean(10 + 5 * at as u64)).collect();
            let mut pair = Pair::new(paths, config.clone(), 7);
            pair.connect(config.clone());
            pair.write_all(Side::Client, BYTES);
            pair.run_for(Duration::from_millis(after));
            for path in &mut pair.paths {
                path.middlebox = boxes;
            }
            assert!(pair.run_until(Time::from_secs(100), |pair| pair.server.connection.is_some()));
            pair.write_all(Side::Server, BYTES);
            for side in Side::BOTH {
                pair.close_after_backlog(side);
            }
            let over = |pair: &Pair| pair.client.closed.is_some() && pair.server.closed.is_some();
            assert!(pair.run_until(Time::from_secs(65), over), "after {after} {later:?}: not over");
            let is_tcp = fallbacks(&pair) == [1, 1] || after < 40;
            for side in Side::BOTH {
                let host = pair.host(side);
                if is_tcp {
                    assert_eq!(
                        (host.closed, host.read),
                        (Some(CloseReason::Finished), BYTES),
                        "{after} {later:?}"
                    );
                } else {
                    let reason = host.closed.unwrap();
                    let error = matches!(reason, CloseReason::NoSubflow | CloseReason::Reset);
                    assert!(error, "after {after} {later:?}: {side:?} {reason:?}");
                }
            }
        }
    }
}

// Row B11: payload changed on the only path: detected, signalled by MP_FAIL, and the connection continues as
// TCP.
#[test]
fn changed_payload_on_the_only_path_leads_back_to_tcp() {
    let boxes = Middlebox { damages: 0.05, ..Middlebox::default() };
    let pair = run(&checked(), 1, &[boxes], 0);
    assert!(failures(&pair) > 0);
    assert_eq!(fallbacks(&pair), [1, 1]);
}

// Row B11: on one of two paths: the subflow is closed, and no changed byte is delivered.
#[test]
fn changed_payload_on_one_of_two_paths_costs_that_path() {
    let boxes = Middlebox { damages: 0.05, ..Middlebox::default() };
    let pair = run(&checked(), 2, &[Middlebox::default(), boxes], 60);
    assert!(failures(&pair) > 0);
    assert_eq!(fallbacks(&pair), [0, 0]);
    assert_eq!(pair.client.damaged_bytes + pair.server.damaged_bytes, 0);
}

// Row F19: without checksums the change is not detected.
#[test]
fn without_checksums_changed_payload_passes() {
    let boxes = Middlebox { damages: 0.05, ..Middlebox::default() };
    let pair = run(&ConnectionConfig::linux(), 2, &[boxes; 2], 0);
    assert!(pair.client.damaged_bytes > 0);
    assert_eq!((fallbacks(&pair), failures(&pair)), ([0, 0], 0));
}

// Checksums cost a clean path only their two bytes.
#[test]
fn a_clean_transfer_with_checksums_uses_both_paths() {
    let pair = run(&checked(), 2, &[], 0);
    assert_eq!((fallbacks(&pair), failures(&pair)), ([0, 0], 0));
    assert!(carried(&pair, 0) > 0 && carried(&pair, 1) > 0);
    assert_eq!(pair.client.held_bytes + pair.server.held_bytes, 0);
}
