//! A grid of losses, receive buffers and pairs of paths, whose results are kept in a file: a change of
//! behaviour shows as a difference (docs/testing.md, Golden grid).
//!
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-stack --test all golden_grid` rewrites the file.

#![expect(
    clippy::disallowed_methods,
    reason = "golden files are read, and written when the environment asks for it"
)]

use crate::harness;

use std::fmt::Write as _;

use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_units::{Bytes, Rate, Time};
use harness::{Pair, Path, Side};

const GRID: &str = "tests/golden/grid.txt";
const SCHEDULERS: &str = "tests/golden/schedulers.txt";
const SIZE: u64 = 1_000_000;
const SMALL: u64 = 600_000;

fn path(delay_ms: u64, loss: f64) -> Path {
    // A queue of 50 full segments: about a round trip of the slow path.
    Path { loss: [loss, 0.0], rate: Some(Rate::from_mbps(20)), queue: 75_000, ..Path::clean(delay_ms) }
}

/// Returns one cell: a megabyte over two paths. The goodput counts until the last byte has arrived.
fn cell(scheduler: &str, congestion: &str, delays: (u64, u64), loss: f64, buffer_kib: u64) -> String {
    let [(row, fast), (_, slow)] =
        [true, false].map(|fast| run_cell(scheduler, congestion, delays, loss, buffer_kib, fast));
    fast.assert_same_output(&slow);
    row
}

fn run_cell(
    scheduler: &str,
    congestion: &str,
    delays: (u64, u64),
    loss: f64,
    buffer_kib: u64,
    fast_paths: bool,
) -> (String, Pair) {
    let config = ConnectionConfig {
        scheduler: SchedulerKind::from_name(scheduler).expect("a scheduler"),
        congestion: CongestionKind::from_name(congestion).expect("a congestion control"),
        receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(buffer_kib)),
        ..ConnectionConfig::linux()
    };
    let mut pair = Pair::new(vec![path(delays.0, loss), path(delays.1, loss)], config.clone(), 1);
    pair.set_fast_paths(fast_paths);
    let begin = pair.now;
    pair.connect(config);
    pair.write_all(Side::Client, SIZE);
    pair.close_after_backlog(Side::Client);
    let arrived = pair.run_until(Time::from_secs(300), |pair| pair.server.read == SIZE);
    assert!(arrived, "{scheduler} {congestion} {delays:?} {loss} {buffer_kib}");
    let goodput_mbps = SIZE as f64 * 8.0 / pair.now.since(begin).as_secs_f64() / 1e6;
    pair.close_after_backlog(Side::Server);
    assert!(pair.run_until(Time::from_secs(600), |pair| pair.client.closed.is_some()));
    let (_, subflows) = pair.client.final_stats.as_ref().expect("the connection has ended");
    let sum = |count: fn(&anabranch_stack::stats::SubflowCounters) -> u64| -> u64 {
        subflows.iter().map(|subflow| count(&subflow.counters)).sum()
    };
    let row = format!(
        "{scheduler:<9} {congestion:<8} {:>4} {:>4} {:>5.1} {buffer_kib:>5}   {goodput_mbps:>7.3} {:>6} {:>6} {:>6} {:>4} {:>4}",
        2 * delays.0,
        2 * delays.1,
        loss * 100.0,
        sum(|counters| counters.data_segments_sent),
        sum(|counters| counters.segments_retransmitted),
        sum(|counters| counters.segments_reinjected),
        sum(|counters| counters.timeouts),
        sum(|counters| counters.tail_probes),
    );
    (row, pair)
}

#[test]
fn the_grid_is_as_it_was() {
    let mut table = String::from(
        "A megabyte over two paths of 20 Mbit/s, by the pair of hosts of crates/stack/tests/harness.\n\
         scheduler congestion rtt1 rtt2  loss buffer   goodput   sent resent reinj.  RTO  TLP\n\
         \x20                       ms   ms     %    KiB    Mbit/s        segments\n",
    );
    for scheduler in ["min_rtt", "dmptcp"] {
        for congestion in ["newreno", "cubic", "lia"] {
            for delays in [(10, 15), (5, 50)] {
                for loss in [0.0, 0.01, 0.05] {
                    for buffer_kib in [16, 64, 512] {
                        let row = cell(scheduler, congestion, delays, loss, buffer_kib);
                        writeln!(table, "{row}").expect("writing to a string succeeds");
                    }
                }
            }
        }
    }
    is_as_it_was(GRID, &table);
}

/// Returns one cell of the table of schedulers: 600 KB over two paths. Goodput, completion time, and the
/// share of the segments sent on the second path.
fn scheduler_cell(scheduler: &SchedulerKind, ratio: u64, loss: f64, buffer_kib: u64) -> String {
    let config = ConnectionConfig {
        scheduler: scheduler.clone(),
        receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(buffer_kib)),
        flow_size: Some(Bytes(SMALL)),
        // An early end of slow start, so that the flow lasts until the second path is established and useful.
        initial_ssthresh: Some(16),
        congestion: CongestionKind::NewReno,
        ..ConnectionConfig::linux()
    };
    let mut pair = Pair::new(vec![path(10, loss), path(10 * ratio, loss)], config.clone(), 1);
    let begin = pair.now;
    pair.connect(config);
    pair.write_all(Side::Client, SMALL);
    pair.close_after_backlog(Side::Client);
    let arrived = pair.run_until(Time::from_secs(300), |pair| pair.server.read == SMALL);
    assert!(arrived, "{} {ratio} {loss} {buffer_kib}", scheduler.name());
    let took = pair.now.since(begin).as_secs_f64();
    let (all, second) = pair
        .data_segments(Side::Client)
        .fold((0, 0), |(all, second), (_, _, path, ..)| (all + 1, second + usize::from(*path == 1)));
    format!(
        "{:<20} {ratio:>5} {:>5.1} {buffer_kib:>6}   {:>7.3} {:>9.1} {all:>6} {second:>6}",
        scheduler.name(),
        loss * 100.0,
        SMALL as f64 * 8.0 / took / 1e6,
        took * 1e3,
    )
}

#[test]
fn the_schedulers_do_as_they_did() {
    let mut table = String::from(
        "600 KB over two paths of 20 Mbit/s, the first of 20 ms, by the pair of hosts of crates/stack/tests/harness.\n\
         scheduler              RTT  loss buffer   goodput      time   sent  on the\n\
         \x20                   ratio     %    KiB    Mbit/s        ms         second\n",
    );
    for scheduler in SchedulerKind::ALL {
        for ratio in [1, 3, 10] {
            for loss in [0.0, 0.02] {
                for buffer_kib in [32, 512] {
                    let row = scheduler_cell(&scheduler, ratio, loss, buffer_kib);
                    writeln!(table, "{row}").expect("writing to a string succeeds");
                }
            }
        }
    }
    is_as_it_was(SCHEDULERS, &table);
}

/// Compares a table with its golden file, or rewrites that if it is to be blessed.
fn is_as_it_was(golden: &str, table: &str) {
    if std::env::var_os("ANABRANCH_BLESS").is_some() {
        std::fs::write(golden, table).expect("the golden file can be written");
        return;
    }
    let known = std::fs::read_to_string(golden).unwrap_or_default();
    let mut difference = String::new();
    for (at, row) in table.lines().enumerate() {
        let before = known.lines().nth(at).unwrap_or("");
        if before != row {
            writeln!(difference, "- {before}\n+ {row}").expect("writing to a string succeeds");
        }
    }
    let same = difference.is_empty() && known.lines().count() == table.lines().count();
    assert!(same, "the grid has changed; if that is meant, bless it:\n{difference}");
}
