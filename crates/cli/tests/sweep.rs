//! `anabranch sweep` as a command: its directory, a kill, parts, and formats.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const PLAN: &str = r#"
scenario = "two-paths"
design = "sobol"
points = 12
runs = 2
set = { traffic.size = "20 KB", schedulers = ["tcp", "min_rtt"] }
[vary]
"path.1.rate" = { from = "2 Mbit/s", to = "50 Mbit/s", scale = "log" }
"path.2.rtt" = ["10 ms", "0.04 s"]
"#;

fn command(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.current_dir(directory).args(words);
    command
}

fn sweep(directory: &Path, words: &[&str]) -> Output {
    command(directory, &[&["sweep"], words].concat()).output().unwrap()
}

fn success(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn workplace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("plan.toml"), PLAN).unwrap();
    directory
}

fn status(directory: &Path, name: &str) -> String {
    let state = std::fs::read(directory.join(name).join("run.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
    state["status"].as_str().unwrap().to_owned()
}

#[test]
fn a_sweep_interrupted_five_times_ends_with_the_same_bytes() {
    const POINTS: usize = 120;
    let place = workplace();
    let path = place.path();
    std::fs::write(path.join("plan.toml"), PLAN.replace("points = 12", &format!("points = {POINTS}")))
        .unwrap();
    success(sweep(path, &["plan.toml", "-o", "whole", "--jobs", "1"]));
    let whole = std::fs::read(path.join("whole/results.parquet")).unwrap();
    assert_eq!((&whole[..4], &whole[whole.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
    assert_eq!(status(path, "whole"), "complete");

    let journal = path.join("broken/journal.ndjson");
    let lines =
        || std::fs::read(&journal).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count());
    // Each interruption comes some points after the one before, at any moment of their work. The address of a fresh
    // allocation is random enough for that, and the result is the same for every moment.
    let random = std::ptr::from_ref(&*Box::new(0_u8)).addr() >> 4;
    for (number, signal) in ["-KILL", "-INT", "-KILL", "-INT", "-KILL"].into_iter().enumerate() {
        let jobs = ["1", "2", "3"][number % 3];
        let mut child = command(path, &["sweep", "plan.toml", "-o", "broken", "--jobs", jobs])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let until = lines() + 1 + (random >> number) % 5;
        while lines() < until && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros((random >> number) as u64 % 2000));
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert!(!child.wait().unwrap().success(), "interruption {number} came after the end");
        assert!(!path.join("broken/results.parquet").exists(), "an interrupted sweep has no table");
        let done = lines();
        assert!((until - 1..POINTS).contains(&done), "{done} points before interruption {number}");
        assert_eq!(status(path, "broken"), "partial");
    }
    success(sweep(path, &["plan.toml", "-o", "broken", "--jobs", "2"]));
    assert_eq!(std::fs::read(path.join("broken/results.parquet")).unwrap(), whole);
    assert_eq!(status(path, "broken"), "complete");
}

#[test]
fn parts_merge_to_the_same_bytes_and_say_what_is_missing() {
    let place = workplace();
    let path = place.path();
    success(sweep(path, &["plan.toml", "-o", "whole", "--format", "csv"]));
    for part in ["1", "2", "3"] {
        success(sweep(path, &["plan.toml", "--format", "csv", "-o", part, "--shard", &format!("{part}/3")]));
        assert_eq!(status(path, part), "partial");
        assert!(!path.join(part).join("results.csv").exists(), "a part has no table");
    }
    let missing = sweep(path, &["plan.toml", "--format", "csv", "-o", "all", "--merge", "1", "3"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("4 of 12 points are missing"));
    success(sweep(path, &["plan.toml", "--format", "csv", "-o", "all", "--merge", "2"]));
    let read = |name: &str| std::fs::read(path.join(name).join("results.csv")).unwrap();
    assert_eq!(read("all"), read("whole"));

    let table = read("whole");
    let mut reader = csv::Reader::from_reader(&table[..]);
    let header = reader.headers().unwrap().clone();
    // Two units in one dimension are text.
    assert_eq!(header.iter().take(3).collect::<Vec<_>>(), ["point", "path.1.rate (Mbit/s)", "path.2.rtt"]);
    assert_eq!(reader.records().count(), 24);

    let absent = sweep(path, &["plan.toml", "-o", "all", "--merge", "nowhere"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(!path.join("nowhere").exists());
}

#[test]
fn results_of_another_plan_stay_as_they_are() {
    let place = workplace();
    let path = place.path();
    success(sweep(path, &["plan.toml", "-o", "out"]));
    let before = std::fs::read(path.join("out/journal.ndjson")).unwrap();
    let other = sweep(path, &["plan.toml", "-o", "out", "--set", "traffic.size=30KB"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("they were made with another plan"));
    assert_eq!(std::fs::read(path.join("out/journal.ndjson")).unwrap(), before);
    // A directory with other files is not written to.
    std::fs::create_dir(path.join("home")).unwrap();
    std::fs::write(path.join("home/letter.txt"), "").unwrap();
    let foreign = sweep(path, &["plan.toml", "-o", "home"]);
    assert_eq!(foreign.status.code(), Some(1));
    assert_eq!(std::fs::read_dir(path.join("home")).unwrap().count(), 1);
}

#[test]
fn the_seed_is_that_of_the_runs_at_every_point() {
    let place = workplace();
    let path = place.path();
    let table = |name: &str, more: &[&str]| {
        success(sweep(path, &[&["plan.toml", "--format", "csv", "-o", name][..], more].concat()));
        std::fs::read(path.join(name).join("results.csv")).unwrap()
    };
    let seven = table("seven", &["--seed", "7"]);
    assert_eq!(table("set", &["--set", "seed=7"]), seven);
    assert_ne!(table("other", &["--seed", "8"]), seven);
    let same = sweep(path, &["plan.toml", "-o", "seven", "--seed", "8"]);
    assert!(String::from_utf8_lossy(&same.stderr).contains("they were made with another plan"));
    for (words, fault) in [
        (&["--seed", "7", "--set", "seed=8"][..], "--seed and `--set seed=8` set the same value"),
        (&["--seed", "9223372036854775808"], "give a whole number from 0 to 9223372036854775807"),
    ] {
        let refused = sweep(path, &[&["plan.toml", "-o", "no"][..], words].concat());
        assert_eq!(refused.status.code(), Some(2));
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains(fault), "{error}");
    }
}

#[test]
fn values_on_the_command_line_are_a_plan() {
    let place = tempfile::tempdir().unwrap();
    let words = [
        "two-paths",
        "--vary",
        "path.1.rate=5..20 Mbit/s:2",
        "--vary",
        "path.2.rtt=10ms,40ms",
        "--runs",
        "2",
        "--set",
        "traffic.size=20KB",
    ];
    let points = success(sweep(place.path(), &[&words[..], &["--points"]].concat()));
    assert_eq!(points.lines().count(), 5);
    assert!(points.contains("20 Mbit/s") && points.contains("40ms"));
    assert!(!place.path().join("two-paths.sweep").exists(), "a list of points simulates nothing");
    let text = success(sweep(place.path(), &words));
    assert!(text.contains("4 points, grid"), "{text}");
    let json = success(sweep(place.path(), &[&words[..], &["--json"]].concat()));
    assert_eq!(json.matches("\"points\"").count(), 1, "{json}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["points"], &json["points_done"]), (&4.into(), &4.into()));
    assert_eq!(json["contenders"][0]["scheduler"], "tcp");
}

/// A wrong value is an error before anything is made, and a directory without a result takes the corrected command.
#[test]
fn the_corrected_command_works_after_a_mistake() {
    let place = workplace();
    let path = place.path();
    let vary = |values: &str| format!("path.2.rtt={values}");
    let base = ["two-paths", "--runs", "1", "-o", "s", "--vary"];
    for wrong in ["10ms,20 parsec", "10 ms..20 parsec:2", "10ms,-3ms"] {
        let output = sweep(path, &[&base[..], &[&vary(wrong)]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(!path.join("s").exists(), "{wrong}");
    }
    // Ctrl-C before the first point has left this.
    success(sweep(path, &[&base[..], &[&vary("10ms,30ms")]].concat()));
    let journal = std::fs::read_to_string(path.join("s/journal.ndjson")).unwrap();
    std::fs::write(path.join("s/journal.ndjson"), format!("{}\n", journal.lines().next().unwrap())).unwrap();
    success(sweep(path, &[&base[..], &[&vary("10ms,40ms")]].concat()));
    assert!(std::fs::read_to_string(path.join("s/plan.toml")).unwrap().contains("40ms"));
    assert_eq!(status(path, "s"), "complete");
    // Results are never thrown away.
    let output = sweep(path, &[&base[..], &[&vary("10ms,50ms")]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("belongs to another plan"));
}

#[test]
fn a_key_that_is_called_as_a_result_varies_too() {
    let place = workplace();
    let set = ["--set", "traffic.size=20 KB", "--runs", "1"];
    for format in ["parquet", "csv", "ndjson"] {
        let words = ["two-paths", "--vary", "congestion=newreno,lia", "-o", "out", "--format", format];
        success(sweep(place.path(), &[&words[..], &set].concat()));
    }
    let table = std::fs::read_to_string(place.path().join("out/results.csv")).unwrap();
    assert!(table.starts_with("point,congestion (varied),scenario_hash,"), "{table}");
    assert!(table.lines().skip(1).all(|line| {
        let value = if line.starts_with("0,") { "0,newreno," } else { "1,lia," };
        line.starts_with(value)
    }));
}
