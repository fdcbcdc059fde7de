//! Measures of simulated runs, against numbers that follow from the scenario.

use core::sync::atomic::AtomicBool;
use std::path::Path;

use anabranch_reproduce::Metric;
use anabranch_reproduce::measure::{Measurement, Source, Unit, Wanted, Work};
use anabranch_reproduce::take::{Form, Take};

/// Half of the packets of one path are duplicated, and each loses some.
const DUPLICATES: &str = "
schedulers = ['min_rtt', 'redundant', 'tcp@1', 'tcp@2']
runs = 2
phases = false
path = [
    { rate = '20 Mbit/s', rtt = '20 ms', loss = '1%', duplicate = '50%' },
    { rate = '10 Mbit/s', rtt = '60 ms', loss = '1%' },
]
traffic = { size = '1 MB', direction = 'upload' }
";

fn unit(directory: &Path, text: &str, set: &[&str]) -> Unit {
    std::fs::write(directory.join("own.toml"), text).unwrap();
    Unit {
        paper: format!("{}/", directory.display()),
        source: Source::Scenario("own".to_owned()),
        condition: String::new(),
        set: set.iter().map(|text| (*text).to_owned()).collect(),
        runs: None,
        seed: None,
    }
}

fn metric(text: &str) -> Metric {
    Metric::parse(text).unwrap()
}

fn measured(unit: &Unit, wanted: &Wanted) -> Measurement {
    Work::new(unit, wanted).unwrap().measure(wanted, 1, &AtomicBool::new(false)).unwrap()
}

/// Copies of segments arrive by duplication, by a retransmission that was not needed, and on the other subflow: of each byte
/// the first arrival counts.
#[test]
fn each_byte_arrives_once_however_often_it_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let unit = unit(directory.path(), DUPLICATES, &[]);
    let mut wanted = Wanted::default();
    let seconds = Take { metric: metric("goodput"), form: Form::Samples };
    for name in ["min_rtt", "redundant"] {
        ["goodput@0..30", "goodput.1@0..30", "goodput.2@0..30", "share.1"]
            .iter()
            .for_each(|text| wanted.add(name, metric(text)));
        wanted.take(name, seconds);
    }
    let all = measured(&unit, &wanted);
    for name in ["min_rtt", "redundant"] {
        let of = |text: &str| all.get(name, metric(text)).unwrap();
        for run in 0..2 {
            let (first, second) = (of("goodput.1@0..30")[run], of("goodput.2@0..30")[run]);
            // 8 Mbit in 30 seconds.
            assert!((of("goodput@0..30")[run] - 8.0 / 30.0).abs() < 1e-9, "{name}: {first} and {second}");
            assert!((100.0 * first / (first + second) - of("share.1")[run]).abs() < 1e-6, "{name}");
        }
        // Two runs of some seconds: samples of their seconds add up to at most two times 8 Mbit.
        let sum: f64 = all.taken(name, &seconds).unwrap().chunks(2).map(|pair| pair[0] * pair[1]).sum();
        assert!(sum <= 16.1, "{name}: {sum}");
    }
}

/// Runs that are in two parts, as two processes may have made both, count once.
#[test]
fn runs_of_two_parts_count_once_and_keep_their_order() {
    let directory = tempfile::tempdir().unwrap();
    let unit = unit(directory.path(), DUPLICATES, &["runs=4", "traffic.size=20 KB"]);
    let mut wanted = Wanted::default();
    wanted.add("min_rtt", metric("done"));
    let work = Work::new(&unit, &wanted).unwrap();
    assert_eq!(work.runs(), 4);
    let go = AtomicBool::new(false);
    let part = |runs| work.part(&wanted, runs, 1, &go).unwrap();
    let joined = work.joined(&wanted, vec![part(2..4), part(0..3), part(1..4)]).unwrap();
    let whole = measured(&unit, &wanted);
    assert_eq!(whole.get("min_rtt", metric("done")).unwrap().len(), 4);
    assert_eq!(joined, whole);
}

/// 0 is the best single path, 1 the sum of all: equation 9 of the CP paper, from the goodputs of the runs.
#[test]
fn the_benefit_is_relative_to_the_single_paths_of_the_same_run() {
    let directory = tempfile::tempdir().unwrap();
    let unit = unit(directory.path(), DUPLICATES, &["traffic.size=300 KB"]);
    let mut wanted = Wanted::default();
    for name in ["min_rtt", "redundant", "tcp@1", "tcp@2"] {
        ["goodput", "benefit", "degraded"].iter().for_each(|text| wanted.add(name, metric(text)));
    }
    let all = measured(&unit, &wanted);
    let of = |name: &str, text: &str| all.get(name, metric(text)).unwrap();
    for run in 0..2 {
        let (one, two) = (of("tcp@1", "goodput")[run], of("tcp@2", "goodput")[run]);
        let (best, sum) = (one.max(two), one + two);
        for name in ["min_rtt", "redundant", "tcp@1", "tcp@2"] {
            let goodput = of(name, "goodput")[run];
            let expected =
                if goodput >= best { (goodput - best) / (sum - best) } else { goodput / best - 1.0 };
            let benefit = of(name, "benefit")[run];
            assert!((benefit - expected).abs() < 1e-9, "{name}: {benefit} and {expected}");
            assert_eq!(of(name, "degraded")[run], f64::from(u8::from(benefit < -0.03)), "{name}: {benefit}");
        }
        // The best single path has no benefit, and loses nothing.
        let own = if one > two { "tcp@1" } else { "tcp@2" };
        assert_eq!((of(own, "benefit")[run], of(own, "degraded")[run]), (0.0, 0.0));
    }
    // Without a plain TCP on each path there is nothing to be relative to.
    let text = DUPLICATES.replace(", 'tcp@2'", "");
    std::fs::write(directory.path().join("own.toml"), text).unwrap();
    let mut wanted = Wanted::default();
    wanted.add("min_rtt", metric("benefit"));
    let error = Work::new(&unit, &wanted).unwrap().measure(&wanted, 1, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("`tcp@N` for each path"), "{error}");
}

/// The model knows neither queues nor losses: 10 segments in the first round trip after the handshake, and 20 in the second.
#[test]
fn the_model_counts_round_trips_up_to_the_last_byte() {
    let directory = tempfile::tempdir().unwrap();
    let text = "schedulers = ['tcp']
        runs = 2
        path = [{ rate = '1 Gbit/s', rtt = '100 ms' }]
        traffic = { size = '28 KB', direction = 'upload' }
        connection = { initial-window = 10, mss = 1400, timestamps = true }";
    let unit = unit(directory.path(), text, &[]);
    let mut wanted = Wanted::default();
    for name in ["model", "model, rounds", "model, rate"] {
        ["done", "goodput", "goodput@0..1", "wait"].iter().for_each(|text| wanted.add(name, metric(text)));
    }
    let all = measured(&unit, &wanted);
    let done = |name: &str| all.get(name, metric("done")).unwrap().to_vec();
    // 20 segments: the handshake, one round trip, and half of the second one.
    assert_eq!(done("model, rounds"), [250.0; 2]);
    // Equation 3 adds the time of both windows and of the acknowledgements of the first: 20 segments and 5 of 52 bytes.
    let link = (20.0 * 1452.0 + 5.0 * 52.0) * 8.0 / 1e6;
    assert!(done("model").iter().all(|time| (time - 250.0 - link).abs() < 1e-6), "{:?}", done("model"));
    // And the time of the last ten segments at the rate: each is 1452 bytes long.
    let late = done("model, rate")[0] - 250.0;
    assert!((late - 10.0 * 1452.0 * 8.0 / 1e6).abs() < 1e-6, "{late}");
    assert!((all.get("model, rounds", metric("goodput")).unwrap()[0] - 28e3 * 8e-6 / 0.25).abs() < 1e-9);
    assert!((all.get("model, rounds", metric("goodput@0..1")).unwrap()[0] - 28e3 * 8e-6).abs() < 1e-9);
    assert!(all.get("model", metric("wait")).unwrap()[0].is_nan());
    // At 1 Mbit/s ten segments need more than a round trip, and the corrected model waits for them in each round.
    let slow = Unit { set: vec!["path.rate=1 Mbit/s".to_owned()], ..unit };
    let all = measured(&slow, &wanted);
    let done = |name: &str| all.get(name, metric("done")).unwrap()[0];
    let ten = 10.0 * 1452.0 * 8.0 / 1e3;
    assert_eq!(done("model, rounds"), 250.0);
    assert!((done("model, rate") - (100.0 + 2.0 * ten + 50.0)).abs() < 1e-6, "{}", done("model, rate"));
}
