//! The growth of the windows of two subflows without a network: constant round trips, no losses. The results
//! are kept in a file, from which `tools/plot.py window_growth` draws the picture of docs/congestion.md.
//!
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-stack --test congestion_field curves` rewrites the file.

#![expect(
    clippy::disallowed_methods,
    reason = "golden files are read, and written when the environment asks for it"
)]

use std::fmt::Write as _;

use anabranch_stack::congestion::{Ack, CongestionControl};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};

use crate::congestion_common::{A, B, MSS, ack, connection, window};

const GOLDEN: &str = "tests/golden/window_growth.txt";
/// The RTT of the first subflow, in milliseconds.
const RTT_MS: u64 = 50;
/// In round trips of the first subflow.
const ROUNDS: u64 = 100;
const EVERY: u64 = 5;
const NAMES: [&str; 11] =
    ["newreno", "cubic", "cubic_linux", "vegas", "veno", "lia", "olia", "balia", "wvegas", "sbd", "dwc"];

/// Returns the windows every few round trips, of two subflows that begin congestion avoidance with 10
/// segments; the second one's RTT is `ratio` times that of the first.
fn curve(name: &str, ratio: u64) -> Vec<(f64, f64)> {
    let rtts = [RTT_MS, RTT_MS * ratio];
    let mut congestion = connection(name, &[(10, rtts[0]), (10, rtts[1])]);
    // The time of each subflow's next acknowledgement, and the number left in its round trip.
    let start = Time::from_secs(1);
    let mut due = [start; 2];
    let mut left = [0_u64; 2];
    let mut gap = [Duration::ZERO; 2];
    let mut points = vec![(window(&congestion, A), window(&congestion, B))];
    for point in 1..=ROUNDS / EVERY {
        let until = start + Duration::from_millis(RTT_MS) * (point * EVERY);
        loop {
            let i = usize::from(due[1] < due[0]);
            if due[i] >= until {
                break;
            }
            let id = SubflowId(i as u8);
            let rtt = Duration::from_millis(rtts[i]);
            let round_start = left[i] == 0;
            if round_start {
                left[i] = congestion.cwnd(id) / MSS;
                gap[i] = rtt / left[i];
            }
            let now = due[i];
            congestion.on_ack(id, &Ack { rtt: Some(rtt), srtt: rtt, round_start, ..ack(now, 1) });
            congestion.on_sent(id, now, MSS);
            left[i] -= 1;
            due[i] += gap[i];
        }
        points.push((window(&congestion, A), window(&congestion, B)));
    }
    points
}

fn table() -> String {
    let mut text = String::from(
        "# Windows in segments, of two subflows that begin congestion avoidance with 10 segments each; round trips of 50\n\
         # ms and of once, twice and three times as much; nothing is lost and no queue grows.\n\
         control,ratio,round,first,second\n",
    );
    for name in NAMES {
        for ratio in 1..=3 {
            for (point, (first, second)) in curve(name, ratio).into_iter().enumerate() {
                let round = point as u64 * EVERY;
                writeln!(text, "{name},{ratio},{round},{first:.3},{second:.3}")
                    .expect("writing to a string succeeds");
            }
        }
    }
    text
}

#[test]
fn windows_grow_as_they_did() {
    let table = table();
    if std::env::var_os("ANABRANCH_BLESS").is_some() {
        std::fs::write(GOLDEN, &table).expect("the golden file can be written");
        return;
    }
    let known = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    let changed: Vec<_> =
        known.lines().zip(table.lines()).filter(|(before, now)| before != now).take(9).collect();
    assert!(known == table, "the curves have changed; if that is meant, bless them: {changed:#?}");
}

/// Compares with the window of a NewReno after `rounds`, which grows by a segment in each.
#[test]
fn alone_without_losses_coupled_windows_grow_as_their_formulas_say() {
    let last = |name, ratio| *curve(name, ratio).last().unwrap();
    // Only whole segments are sent and acknowledged, so it is slightly less.
    let (reno, _) = last("newreno", 1);
    assert!((107.0..110.0).contains(&reno), "{reno}");
    for name in ["lia", "olia", "balia"] {
        // A quarter each for two subflows: half of one NewReno.
        let (first, second) = last(name, 1);
        assert!(
            (34.0..=35.0).contains(&first) && (second - first).abs() < 0.5,
            "{name}: {first} and {second}"
        );
    }
    // With unequal round trips BALIA's slower window is between OLIA's and LIA's.
    let (olia, balia, lia) = (last("olia", 2).1, last("balia", 2).1, last("lia", 2).1);
    assert!(olia < balia && balia < lia, "{olia} {balia} {lia}");
}
