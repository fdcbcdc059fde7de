//! The application of a connection: requests, bursts and pauses are found in captures of simulated runs, and simulated again.

use std::sync::atomic::AtomicBool;

use anabranch_inspect::scenario::scenario as draft;
use anabranch_inspect::{ConnectionReport, Pattern};
use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;

use super::{ENDS, connection};

const PATHS: &str = "schedulers = ['linux']\ncongestion = 'cubic_linux'
    path = [{ rate = '20 Mbit/s', rtt = '30 ms' }, { rate = '8 Mbit/s', rtt = '60 ms' }]\n";

/// Simulates the scenario of a connection, and returns the mean time of its turns, and their number.
fn again(connection: &ConnectionReport) -> (f64, usize) {
    let draft = draft(connection, "x", "linux", "cubic_linux").unwrap();
    let mut document = Document::built_in("it", draft.replay.clone()).unwrap();
    document.set("runs=1").unwrap();
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}\n{}", draft.replay));
    let cancelled = AtomicBool::new(false);
    let rows = compare(&scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap().rows;
    assert_eq!(rows[0].completed, rows[0].n, "{}", draft.replay);
    (rows[0].fct_s.mean.unwrap(), rows[0].n)
}

fn bytes(connection: &ConnectionReport) -> Vec<(u64, u64)> {
    connection.application.turns.iter().map(|turn| (turn.up_bytes, turn.down_bytes)).collect()
}

#[test]
fn requests_have_their_sizes_and_think_times() {
    let traffic = "traffic = { kind = 'requests', requests = 6, request = '400 B',
        size = { distribution = 'sequence', values = ['20 KB', '300 KB', '2 KB'] },
        think = { distribution = 'sequence', values = ['500 ms', '0 s'] } }";
    for end in ENDS {
        let found = connection(&format!("{PATHS}{traffic}"), end);
        let application = &found.application;
        assert_eq!(application.pattern, Pattern::Requests, "{end:?}");
        let sizes = [20_000, 300_000, 2_000].map(|size| (400, size));
        assert_eq!(bytes(&found), [sizes, sizes].concat(), "{end:?}");
        let idle: Vec<f64> = application.turns.iter().map(|turn| turn.pause_s + turn.wait_s).collect();
        for (found, think) in idle.iter().skip(1).zip([0.5, 0.0, 0.5, 0.0, 0.5]) {
            // An acknowledgement may be delayed by 40 ms.
            assert!((-0.042..0.006).contains(&(found - think)), "{end:?}: {idle:?}");
        }
        let (captured, simulated) = (application.mean_time_s().unwrap(), again(&found));
        assert_eq!(simulated.1, 6);
        assert!((simulated.0 / captured - 1.0).abs() < 0.1, "{end:?}: {captured} {simulated:?}");
    }
}

#[test]
fn uploads_that_are_answered_are_requests_too() {
    let traffic = "traffic = { kind = 'requests', requests = 4, size = '100 B', think = '300 ms',
        request = { distribution = 'sequence', values = ['500 KB', '60 KB'] } }";
    for end in ENDS {
        let found = connection(&format!("{PATHS}{traffic}"), end);
        assert_eq!((found.application.pattern, found.main_direction()), (Pattern::Requests, 0), "{end:?}");
        let sizes = [(500_000, 100), (60_000, 100)];
        assert_eq!(bytes(&found), [sizes, sizes].concat(), "{end:?}");
        let (captured, simulated) = (found.application.mean_time_s().unwrap(), again(&found));
        assert!((simulated.0 / captured - 1.0).abs() < 0.1, "{end:?}: {captured} {simulated:?}");
    }
}

#[test]
fn a_sender_that_pauses_makes_bursts_in_either_direction() {
    for direction in ["upload", "download"] {
        // 200 KB each, more quickly than the paths; and a sender of 2 Mbit/s.
        for (rate, on, size) in [("160 Mbit/s", "10 ms", 200_000), ("2 Mbit/s", "600 ms", 150_000)] {
            let traffic = format!(
                "traffic = {{ kind = 'on-off', rate = '{rate}', on = '{on}', off = '900 ms', direction = '{direction}',
                 duration = '4 s' }}"
            );
            for end in ENDS {
                let found = connection(&format!("{PATHS}{traffic}"), end);
                let name = format!("{direction} {rate} {end:?}");
                assert_eq!(found.application.pattern, Pattern::Bursts, "{name}: {:?}", found.application);
                let turns = &found.application.turns;
                let near = |bytes: u64| bytes.abs_diff(size) <= 1400;
                assert!(
                    turns.len() >= 3 && turns.iter().all(|turn| near(turn.up_bytes + turn.down_bytes)),
                    "{name}: {turns:?}"
                );
                let written = found.application.rate_bps;
                assert!(
                    written.is_some_and(|found| (found / 2e6 - 1.0).abs() < 0.1) == (rate == "2 Mbit/s"),
                    "{name}: {written:?}"
                );
                let (captured, simulated) = (found.application.mean_time_s().unwrap(), again(&found));
                assert_eq!(simulated.1, turns.len(), "{name}");
                assert!(
                    (simulated.0 - captured).abs() < 0.1 * captured + 0.004,
                    "{name}: {captured} {simulated:?}"
                );
            }
        }
    }
}

#[test]
fn one_transfer_is_one_transfer() {
    for direction in ["upload", "download"] {
        for end in ENDS {
            let found =
                connection(&format!("{PATHS}traffic = {{ size = '1 MB', direction = '{direction}' }}"), end);
            assert_eq!(found.application, anabranch_inspect::Application::default(), "{direction} {end:?}");
        }
    }
}
