//! The longest gap in delivery in tables, JSON and samples; and flows that fail.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn anabranch(directory: &Path, words: &[&str]) -> (Output, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_anabranch")).current_dir(directory).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

fn json(directory: &Path, words: &[&str]) -> Value {
    let (output, text) = anabranch(directory, &[words, &["--json"]].concat());
    serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

const PATHS: [&str; 8] = [
    "--path",
    "10Mbit/s,40ms,name=wifi",
    "--path",
    "10Mbit/s,40ms,name=lte",
    "--size",
    "2MB",
    "--schedulers",
    // Not on the best path, which is the one without an outage.
    "min_rtt,tcp@1",
];
/// `wifi` is silent for a second.
const OUTAGE: [&str; 2] = ["--set", "path.wifi.change=[{at=\"500ms\",down=true},{at=\"1500ms\",up=true}]"];

#[test]
fn the_gap_of_a_run_is_in_its_table_its_json_and_its_samples() {
    let place = tempfile::tempdir().unwrap();
    let run = [&["run"], &PATHS[..], &OUTAGE, &["--samples", "flows.csv"]].concat();
    let all = json(place.path(), &run);
    let gaps: Vec<f64> =
        all["flows"].as_array().unwrap().iter().map(|flow| flow["longest_gap_s"].as_f64().unwrap()).collect();
    // The only path of tcp is down for a second; min_rtt has another one.
    assert!(gaps[0] < 0.9 && gaps[1] > 0.95 && gaps[1] < 2.5, "{gaps:?}");
    let rows: Vec<f64> = csv::Reader::from_path(place.path().join("flows.csv"))
        .unwrap()
        .deserialize::<std::collections::BTreeMap<String, String>>()
        .map(|row| row.unwrap()["longest_gap_s"].parse().unwrap())
        .collect();
    assert_eq!(rows, gaps);
    let (_, table) = anabranch(place.path(), &[&["run"], &PATHS[..], &OUTAGE].concat());
    assert!(table.contains("gap ms"), "{table}");
}

#[test]
fn tables_have_the_gap_where_paths_change_or_it_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    for verb in ["run", "compare"] {
        let runs: &[&str] = &["--runs", "2"];
        let of = |more: &[&str]| anabranch(place.path(), &[&[verb], &PATHS[..], runs, more].concat()).1;
        let calm = of(&[]);
        assert!(!calm.contains("gap ms"), "{calm}");
        assert!(of(&["--gaps"]).contains("gap ms"));
        assert!(of(&OUTAGE).contains("gap ms"));
    }
    let mean = json(place.path(), &[&["compare"], &PATHS[..], &["--runs", "2"]].concat());
    assert!(mean["rows"][0]["longest_gap_s"]["mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_flow_that_fails_has_a_sentence_and_no_later_deadline() {
    let place = tempfile::tempdir().unwrap();
    // The only interface is noticed to be down before the connection has keys.
    let words: &[&str] = &[
        "--path",
        "10Mbit/s,40ms",
        "--size",
        "2MB",
        "--schedulers",
        "min_rtt",
        "--set",
        "path.1.change=[{at=\"100ms\",down=true}]",
        "--set",
        "connection.user-timeout=5s",
        "--set",
        "deadline=600s",
    ];
    let run = [&["run"], words].concat();
    let outcome = json(place.path(), &run)["flows"][0]["outcome"].as_str().unwrap().to_owned();
    assert!(outcome.starts_with("failed: the ") && !outcome.contains('('), "{outcome}");
    let (_, table) = anabranch(place.path(), &run);
    let reason = outcome.trim_start_matches("failed: ");
    let unwrapped = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains(&format!("min_rtt, flow 1, failed: {reason}")), "{table}");
    let (output, text) =
        anabranch(place.path(), &[&["compare"], words, &["--runs", "2", "--no-other-starts"]].concat());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains(&format!("2 of min_rtt's 2 flows failed ({reason})")), "{text}");
    assert!(!text.contains("deadline"), "{text}");
    let all = json(place.path(), &[&["compare"], words, &["--runs", "2", "--no-other-starts"]].concat());
    let row = &all["rows"][0];
    assert_eq!(
        (row["n"].as_u64(), row["completed"].as_u64(), row["failed"].as_u64()),
        (Some(2), Some(0), Some(2))
    );
}
