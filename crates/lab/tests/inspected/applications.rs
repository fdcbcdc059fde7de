//! The application of a connection: requests, bursts and pauses are found in captures of simulated runs, and simulated again.

use std::sync::atomic::AtomicBool;

use anabranch_inspect::scenario::scenario as draft;
use anabranch_inspect::{ConnectionReport, Pattern};
use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;

use super::{ENDS, capture, connection, inspect, reader};

const PATHS: &str = "schedulers = ['linux']\ncongestion = 'cubic_linux'
    path = [{ rate = '20 Mbit/s', rtt = '30 ms' }, { rate = '8 Mbit/s', rtt = '60 ms' }]\n";

/// Simulates the scenario of a connection, and returns the mean time of its turns, their number, and the bytes of all.
fn again(connection: &ConnectionReport) -> (f64, usize, u64) {
    simulated(&draft(connection, "x", "linux", "cubic_linux").unwrap().replay)
}

fn simulated(text: &str) -> (f64, usize, u64) {
    let mut document = Document::built_in("it", text.to_owned()).unwrap();
    document.set("runs=1").unwrap();
    document.set("other-starts=false").unwrap();
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let cancelled = AtomicBool::new(false);
    let rows = compare(&scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap().rows;
    assert_eq!(rows[0].completed, rows[0].n, "{text}");
    (rows[0].fct_s.mean.unwrap(), rows[0].n, rows[0].bytes_by_path.iter().sum())
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
        // 200 KB each, more quickly than the paths; a sender of 2 Mbit/s; and eight blocks.
        let cases = [
            ("160 Mbit/s", "10 ms", 200_000),
            ("2 Mbit/s", "600 ms", 150_000),
            ("160 Mbit/s", "0.5 ms", 11_200),
        ];
        for (rate, on, size) in cases {
            let traffic = format!(
                "traffic = {{ kind = 'on-off', rate = '{rate}', on = '{on}', off = '900 ms', direction = '{direction}',
                 duration = '4 s' }}"
            );
            let text = format!("{PATHS}{traffic}");
            let (true_s, ..) = simulated(&text);
            for end in ENDS {
                let found = connection(&text, end);
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
                let bytes: u64 = turns.iter().map(|turn| turn.up_bytes + turn.down_bytes).sum();
                assert_eq!(simulated.2, bytes, "{name}");
                let is_near = |other: f64, more: f64| (other - captured).abs() < 0.1 * captured + more;
                // A capture does not show when an application wrote: the time is known to some of its blocks. And Nagle's algorithm
                // holds the end of a burst back for a round trip or not, by the smallest difference.
                let known = if written.is_some() { 0.025 } else { 0.004 };
                let held = if written.is_some() || size < 20_000 { 0.06 } else { 0.004 };
                assert!(is_near(true_s, known), "{name}: {true_s} {captured}");
                assert!(is_near(simulated.0, held), "{name}: {captured} {simulated:?}");
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

/// Returns a capture with times that pass `factor` times as fast.
fn at_speed(capture: &[u8], factor: f64) -> Vec<u8> {
    let mut reader = reader("case.pcapng", capture.to_vec());
    let mut file = Vec::new();
    let mut begun = None;
    while reader.advance().unwrap() {
        let frame = reader.frame().unwrap();
        if file.is_empty() {
            file.extend([0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
            [0, 0, 65_535, frame.link_type].iter().for_each(|value: &u32| file.extend(value.to_le_bytes()));
        }
        let after = frame.time.since(*begun.get_or_insert(frame.time)).0 as f64;
        let time = 1_000_000_000 + (after / factor).min(4e18) as u64;
        let len = frame.bytes.len() as u32;
        for value in [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, len, frame.original_len] {
            file.extend(value.to_le_bytes());
        }
        file.extend(frame.bytes);
    }
    file
}

#[test]
fn a_capture_of_any_speed_has_a_scenario_that_can_be_read() {
    let onoff = "kind = 'on-off', off = '900 ms', duration = '4 s'";
    let traffics = [
        format!("{onoff}, rate = '160 Mbit/s', on = '10 ms', direction = 'upload'"),
        format!("{onoff}, rate = '2 Mbit/s', on = '600 ms'"),
        "kind = 'requests', requests = 6, think = '300 ms', size = '100 KB'".to_owned(),
        "size = '1 MB', direction = 'upload'".to_owned(),
    ];
    let (mut read, mut patterns) = (0, Vec::new());
    for traffic in traffics {
        for end in ENDS {
            let captured = capture(&format!("{PATHS}traffic = {{ {traffic} }}"), end);
            for factor in [1e5, 1e2, 1.0, 1e-2, 1e-4, 1e-6, 1e-9] {
                let found = inspect(vec![reader("x", at_speed(&captured, factor))]);
                let Ok(draft) = draft(&found.connections[0], "x", "linux", "cubic_linux") else { continue };
                for text in [&draft.toml, &draft.replay] {
                    let document = Document::built_in("it", text.clone()).unwrap();
                    document.scenario().unwrap_or_else(|error| panic!("{traffic} {factor}: {error}\n{text}"));
                }
                read += 1;
                patterns.push((found.connections[0].application.pattern, draft.turns > 0));
            }
        }
    }
    assert!(read >= 40, "{read}");
    // Slow ones have patterns beyond the limits of a scenario.
    assert!(patterns.contains(&(Pattern::Bursts, true)) && patterns.contains(&(Pattern::Requests, true)));
}

#[test]
fn a_long_transfer_is_simulated_to_its_end() {
    let slow = "schedulers = ['linux']\ncongestion = 'cubic_linux'\npath = [{ rate = '200 kbit/s', rtt = '30 ms' }]\n";
    let found = connection(&format!("{slow}traffic = {{ size = '2 MB' }}\ndeadline = '300 s'"), ENDS[0]);
    let simulated = again(&found);
    assert!((simulated.0 / found.streams[1].fct_s.unwrap() - 1.0).abs() < 0.05, "{simulated:?}");
}
