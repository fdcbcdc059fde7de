//! Outages of paths, found in captures of simulated runs in which they are known, and not found where there are none.

use std::sync::atomic::AtomicBool;

use anabranch_inspect::ConnectionReport;
use anabranch_inspect::scenario::scenario as draft;
use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;
use anabranch_units::RandomStream;

use super::{ENDS, connection};

/// A path: its settings, and its outages.
struct Case {
    rate: f64,
    rtt: f64,
    loss: f64,
    outages: Vec<(f64, f64)>,
}

fn toml(paths: &[Case], seconds: f64, direction: &str, seed: u64) -> String {
    let mut toml =
        format!("schedulers = ['linux']\ninitial = 1\ncongestion = 'cubic_linux'\nseed = {seed}\n");
    for case in paths {
        let queue = (case.rate * 1e6 / 8.0 * case.rtt / 1e3).max(30_000.0).round();
        toml.push_str(&format!(
            "[[path]]\nrate = '{:.3} Mbit/s'\nrtt = '{:.2} ms'\nqueue = '{queue} B'\nloss = '{:.2}%'\n",
            case.rate, case.rtt, case.loss
        ));
        for (down, up) in &case.outages {
            toml.push_str(&format!(
                "[[path.change]]\nat = '{down:.3} s'\ndown = true\n[[path.change]]\nat = '{up:.3} s'\nup = true\n"
            ));
        }
    }
    toml.push_str(&format!(
        "[traffic]\nsize = 'bulk'\nduration = '{seconds:.1} s'\ndirection = '{direction}'\n"
    ));
    toml
}

/// Returns outages that are known: the number of all, of those that were found within their ranges, and of found
/// ones that did not happen.
fn judge(connection: &ConnectionReport, paths: &[Case]) -> [usize; 3] {
    let direction = connection.main_direction();
    let mut counts = [0; 3];
    for (subflow, case) in connection.subflows.iter().zip(paths) {
        let found = subflow.directions[direction].path.as_ref().map_or(&[][..], |path| &path.outages);
        counts[0] += case.outages.len();
        let matches = |(down, up): &(f64, f64)| {
            found.iter().any(|outage| {
                let is_in = |range: anabranch_inspect::Estimate, value: f64| {
                    range.low - 0.001 <= value && value <= range.high + 0.001
                };
                is_in(outage.down_s, *down) && outage.up_s.is_some_and(|range| is_in(range, *up))
            })
        };
        let right = case.outages.iter().filter(|outage| matches(outage)).count();
        counts[1] += right;
        counts[2] += found.len().saturating_sub(right);
        if right < found.len() || right < case.outages.len() {
            eprintln!("{:?} {}: {:?}: {found:?}", connection.captured, case.rate, case.outages);
        }
    }
    counts
}

fn add(sum: &mut [usize; 3], counts: [usize; 3]) {
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// Draws paths with these numbers of outages, of 2 to 6 s each, in a run of 20 s.
fn draw(random: &mut RandomStream, outages: &[usize], losses: &[f64]) -> Vec<Case> {
    let mut between = |low: f64, high: f64| low + (high - low) * random.next_f64();
    let mut paths = Vec::new();
    for count in outages {
        let mut from = 2.0;
        let mut own = Vec::new();
        for _ in 0..*count {
            let down = from + between(0.0, 2.0);
            let up = down + between(2.0, 4.5);
            own.push((down, up));
            from = up + 3.0;
        }
        let loss = losses[(between(0.0, 0.999) * losses.len() as f64) as usize];
        paths.push(Case {
            rate: 10f64.powf(between(0.5, 1.4)),
            rtt: between(10.0, 80.0),
            loss,
            outages: own,
        });
    }
    paths
}

/// Returns the sums over captures at both ends of runs over such paths.
fn sums(name: &str, outages: &[&[usize]], losses: &[f64], each: u64) -> [[usize; 3]; 2] {
    let mut sums = [[0; 3]; 2];
    let mut random = RandomStream::new(35, name);
    for seed in 0..each {
        let paths = draw(&mut random, outages[seed as usize % outages.len()], losses);
        let direction = ["upload", "download"][seed as usize % 2];
        let text = toml(&paths, 20.0, direction, seed + 1);
        for (end, sum) in ENDS.into_iter().zip(&mut sums) {
            add(sum, judge(&connection(&text, end), &paths));
        }
    }
    println!("{name}: at the sender {:?}, at the receiver {:?}: outages, found, false", sums[0], sums[1]);
    sums
}

#[test]
fn outages_are_found_within_their_ranges() {
    // With random losses a range may be some milliseconds too narrow; the outage is found all the same. At the receiver a range begins too
    // early if the scheduler had left the path idle before the outage: that is no event of the capture.
    for (name, losses, least) in [("no losses", &[0.0][..], 90), ("losses", &[0.1, 0.5, 1.0], 75)] {
        for [all, right, others] in sums(name, &[&[1], &[2], &[1, 0], &[0, 1], &[2, 1]], losses, 20) {
            assert!(right * 100 >= all * least, "{name}: {right} of {all}");
            assert!(
                right + others <= all && (right + others) * 100 >= all * 95,
                "{name}: {right} + {others} of {all}"
            );
        }
    }
}

#[test]
fn paths_without_outages_have_none() {
    for (name, losses) in [("steady", &[0.0][..]), ("lossy", &[0.5, 1.0, 2.0, 5.0])] {
        let [sender, receiver] = sums(name, &[&[0], &[0, 0]], losses, 12);
        assert_eq!((sender, receiver), ([0; 3], [0; 3]));
    }
}

#[test]
fn the_scenario_of_a_capture_has_its_outage() {
    let paths = [Case { rate: 10.0, rtt: 40.0, loss: 0.0, outages: vec![(2.0, 5.0)] }];
    for end in ENDS {
        let text =
            toml(&paths, 10.0, "download", 1).replace("size = 'bulk'\nduration = '10.0 s'", "size = '8 MB'");
        let connection = connection(&text, end);
        let draft = draft(&connection, "x", "linux", "cubic_linux").unwrap();
        assert_eq!(draft.toml.matches("\ndown = true\n").count(), 1, "{}", draft.toml);
        assert_eq!(draft.toml.matches("\nup = true\n").count(), 1, "{}", draft.toml);
        // No packet of the outage is a random loss.
        assert!(!draft.replay.contains("drop = ["), "{}", draft.replay);
        let stream = &connection.streams[1];
        let scenario = Document::built_in("it", draft.replay).unwrap().scenario().unwrap();
        let cancelled = AtomicBool::new(false);
        let again = compare(&scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap();
        let (found, simulated) = (stream.fct_s.unwrap(), again.rows[0].fct_s.p50.unwrap());
        assert!((simulated / found - 1.0).abs() < 0.06, "{end:?}: captured {found}, simulated {simulated}");
    }
}
