//! The arithmetic of the programs, compiled for this host, against the laws of the stack.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anabranch_stack::congestion::classic::{Change, Reduction, Window, WindowRule, Windows};
use anabranch_stack::congestion::{Ack, Balia, Lia, Olia, Wvegas, WvegasOptions};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, RandomStream, Time};

use crate::skipped::skipped;

/// The greatest relative difference that the arithmetic of integers may make.
const MOST: f64 = 0.01;
/// A growth below this is compared as if it were this: a segment in a million acknowledged ones.
const SMALL: f64 = 1e-6;
const STATES: usize = 5000;
const ROWS: usize = 8;
/// The units of `programs/laws.h`.
const GROWTH: f64 = (1_u64 << 44) as f64;
const SEGMENT: f64 = 256.0;

/// Runs the C program on `input` and returns its lines; none without a compiler.
fn answers(name: &str, input: String) -> Option<Vec<Vec<f64>>> {
    let compiler = ["cc", "gcc", "clang"].into_iter().find(|name| {
        Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success())
    });
    let Some(compiler) = compiler else {
        skipped("there is no C compiler (Debian: apt install gcc)");
        return None;
    };
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("laws-{name}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/laws.c");
    let built = Command::new(compiler)
        .args(["-O1", "-fwrapv", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-o"])
        .args([&program, &source])
        .status()
        .unwrap();
    assert!(built.success());
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers = |line: &str| line.split(' ').map(|word| word.parse().unwrap()).collect();
    Some(text.lines().map(numbers).collect())
}

/// One subflow of a random state.
#[derive(Clone, Copy, Default)]
struct Row {
    /// In 1/256 segment.
    window: u32,
    /// In microseconds; 0 before the first sample.
    srtt: u32,
    delivered: u64,
}

/// Draws a number between `low` and `high`, evenly by its logarithm.
fn log_uniform(random: &mut RandomStream, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.next_f64())
}

/// Draws two to eight subflows, some without an RTT sample, some equal to the first.
fn state(random: &mut RandomStream) -> Vec<Row> {
    let n = 2 + (random.next_f64() * 7.0) as usize;
    let mut rows: Vec<Row> = Vec::new();
    for k in 0..n {
        let mut row = Row {
            window: log_uniform(random, SEGMENT, 10_000.0 * SEGMENT) as u32,
            srtt: log_uniform(random, 500.0, 1_000_000.0) as u32,
            delivered: log_uniform(random, 1.0, 1e10) as u64,
        };
        let draw = random.next_f64();
        if k > 0 && draw < 0.1 {
            row.srtt = 0;
        } else if k > 0 && draw < 0.3 {
            (row.window, row.srtt) = (rows[0].window, rows[0].srtt);
        } else if k > 0 && draw < 0.4 {
            (row.delivered, row.srtt) = (rows[0].delivered, rows[0].srtt);
        }
        rows.push(row);
    }
    rows
}

fn windows(rows: &[Row]) -> Windows {
    let window = |row: &Row| Window {
        up: true,
        segments: f64::from(row.window) / SEGMENT,
        // The highest in congestion avoidance.
        ssthresh: f64::from(row.window) / SEGMENT,
        srtt: Duration::from_micros(row.srtt.into()),
        mss: 1448,
        recovering: false,
    };
    Windows::new(rows.iter().map(window).collect())
}

/// Returns a rule that has seen the delivered data of `rows`.
fn prepared<R: WindowRule>(mut rule: R, windows: &Windows, rows: &[Row]) -> R {
    for (k, row) in rows.iter().enumerate() {
        let id = SubflowId(k as u8);
        rule.on_change(windows, id, Time::ZERO, Change::Up);
        rule.observe(windows, id, &Ack::of(Time::ZERO, row.delivered, 1, Duration::from_millis(1)));
    }
    rule
}

/// Returns the growth for one acknowledged segment, and the window after a loss in one of `segments`.
fn of_stack(law: &str, rows: &[Row], index: usize, segments: u32) -> (f64, f64) {
    let windows = windows(rows);
    let id = SubflowId(index as u8);
    let ack = Ack::of(Time::ZERO, 1448, 1, Duration::from_millis(1));
    fn both<R: WindowRule>(
        mut rule: R,
        windows: &Windows,
        id: SubflowId,
        ack: &Ack,
        segments: u32,
    ) -> (f64, f64) {
        (rule.increase(windows, id, 1.0, ack), rule.decrease(windows, id, segments.into(), Reduction::Loss))
    }
    match law {
        "lia" => both(Lia::default(), &windows, id, &ack, segments),
        "olia" => both(prepared(Olia::default(), &windows, rows), &windows, id, &ack, segments),
        _ => both(Balia, &windows, id, &ack, segments),
    }
}

/// Returns the relative difference of two growths.
fn difference(one: f64, other: f64) -> f64 {
    (one - other).abs() / other.abs().max(SMALL)
}

#[test]
fn growth_and_reduction_are_those_of_the_stack() {
    let mut random = RandomStream::new(33, "bpf laws");
    let mut cases = Vec::new();
    let mut input = String::new();
    for law in ["lia", "olia", "balia"] {
        for _ in 0..STATES {
            let rows = state(&mut random);
            let index = (random.next_f64() * rows.len() as f64) as usize;
            let segments = log_uniform(&mut random, 1.0, 10_000.0) as u32;
            input += &format!("{law} {index} {segments}");
            for k in 0..ROWS {
                let Row { window, srtt, delivered } = rows.get(k).copied().unwrap_or_default();
                input += &format!(" {window} {srtt} {delivered}");
            }
            input.push('\n');
            cases.push((law, rows, index, segments));
        }
    }
    let Some(answers) = answers("growth", input) else { return };
    assert_eq!(answers.len(), cases.len());
    for law in ["lia", "olia", "balia"] {
        let (mut growth, mut reduction) = (0.0_f64, 0.0_f64);
        for ((_, rows, index, segments), answer) in
            cases.iter().zip(&answers).filter(|(case, _)| case.0 == law)
        {
            let (grown, reduced) = of_stack(law, rows, *index, *segments);
            growth = growth.max(difference(answer[0] / GROWTH, grown));
            // Both round down to whole segments.
            reduction = reduction.max((answer[1] - reduced).abs());
        }
        println!("{law}: growth within {:.5} %, reduction within {reduction} segments", growth * 100.0);
        assert!(growth < MOST, "{law}: growth differs by {growth}");
        assert!(reduction <= 1.0, "{law}: the reduction differs by {reduction} segments");
    }
}

/// One subflow of wVegas: the state of the program, and what both are given.
#[derive(Clone, Copy, Debug)]
struct VegasCase {
    window: u32,
    base: u32,
    rtts: [u32; 2],
    other: (u32, u32, u32),
}

/// Returns the window and the threshold after each of two round trips, which begin with a threshold
/// of the window.
fn wvegas_of_stack(case: &VegasCase) -> [[f64; 2]; 2] {
    let mut rule = Wvegas::new(WvegasOptions::DEFAULT);
    let row = |window, srtt| Row { window, srtt, delivered: 0 };
    let mut rows = [row(case.window, case.base), row(case.other.0, case.other.1)];
    let mut results = [[0.0; 2]; 2];
    let round = |rule: &mut Wvegas, rows: &[Row], index: u8, base: u32, rtt: u32| {
        let windows = windows(rows);
        let id = SubflowId(index);
        let ack = |rtt: u32| Ack::of(Time::ZERO, 1448, 1, Duration::from_micros(rtt.into()));
        // The minimum comes in the first, partial, round trip.
        if base > 0 {
            rule.on_change(&windows, id, Time::ZERO, Change::Up);
            rule.observe(&windows, id, &ack(base));
            rule.on_round(&windows, id, &ack(base));
        }
        (0..3).for_each(|_| rule.observe(&windows, id, &ack(rtt)));
        rule.on_round(&windows, id, &ack(rtt)).map(|step| [step.segments, step.ssthresh])
    };
    round(&mut rule, &rows, 1, case.other.1, case.other.2);
    for (k, rtt) in case.rtts.into_iter().enumerate() {
        let base = if k == 0 { case.base } else { 0 };
        results[k] = round(&mut rule, &rows, 0, base, rtt).unwrap();
        rows[0].window = (results[k][0] * SEGMENT).round() as u32;
    }
    results
}

#[test]
fn wvegas_moves_the_window_as_in_the_stack() {
    let mut random = RandomStream::new(33, "bpf wvegas");
    let mut cases = Vec::new();
    for _ in 0..STATES {
        let base = log_uniform(&mut random, 500.0, 500_000.0) as u32;
        let longer = |random: &mut RandomStream, base: u32| {
            base + (f64::from(base) * log_uniform(random, 1e-3, 2.0)) as u32
        };
        let rtts = [longer(&mut random, base), longer(&mut random, base)];
        let other_base = log_uniform(&mut random, 500.0, 500_000.0) as u32;
        cases.push(VegasCase {
            // Whole segments, so that both begin with the same window.
            window: log_uniform(&mut random, 2.0, 5000.0) as u32 * 256,
            base,
            rtts,
            other: (
                log_uniform(&mut random, 2.0, 5000.0) as u32 * 256,
                other_base,
                longer(&mut random, other_base),
            ),
        });
    }
    // The program is asked once for the other subflow, and once for each round trip, with its own answers before.
    let ask = |name, lines: Vec<String>| answers(name, lines.concat());
    let line = |base: u32, state: &[f64], others: f64, window: f64, rtt: u32| {
        let threshold = (window / SEGMENT).floor();
        format!(
            "wvegas {base} {} {} {} {others} {window} {rtt} 1 {threshold}\n",
            state[1], state[2], state[3]
        )
    };
    let new = [0.0; 5];
    let others = cases.iter().map(|c| line(c.other.1, &new, 0.0, c.other.0.into(), c.other.2)).collect();
    let Some(others) = ask("wvegas", others) else { return };
    let mut states: Vec<Vec<f64>> = vec![new.to_vec(); cases.len()];
    let mut starts: Vec<f64> = cases.iter().map(|case| case.window.into()).collect();
    let (mut worst, mut apart) = (0.0_f64, 0);
    for round in 0..2 {
        let lines = cases
            .iter()
            .zip(&states)
            .zip(starts.iter().zip(&others))
            .map(|((case, state), (start, other))| line(case.base, state, other[3], *start, case.rtts[round]))
            .collect();
        states = ask("wvegas", lines).unwrap();
        for (case, state) in cases.iter().zip(&states) {
            let [of_stack, threshold_of_stack] = wvegas_of_stack(case)[round];
            let of_program = (state[0] / SEGMENT).max(2.0);
            let difference = (of_program - of_stack).abs() / of_stack;
            // As `settle` of programs/wvegas.c sets it, in whole segments.
            let threshold = state[4].max((of_program.floor() * 0.75).floor()).max(2.0);
            // A comparison within the rounding error moves the window by a segment, and a delay of exactly twice the minimum halves it
            // or does not.
            let is_twice = case.rtts[1] - case.base == 2 * (case.rtts[0] - case.base);
            if difference >= MOST && ((of_program - of_stack).abs() <= 1.01 || is_twice) {
                apart += 1;
            } else {
                worst = worst.max(difference);
                // The threshold follows a step down, and not the draining of the queue.
                assert!(
                    (threshold - threshold_of_stack).abs() < 2.0,
                    "{threshold} {threshold_of_stack} {case:?}"
                );
            }
        }
        starts = states.iter().map(|state| state[0].max(512.0)).collect();
    }
    println!("wvegas: windows within {:.5} %, {apart} of {} apart", worst * 100.0, 2 * cases.len());
    assert!(worst < MOST, "{worst}");
    assert!(apart * 200 < 2 * cases.len(), "{apart}");
}
