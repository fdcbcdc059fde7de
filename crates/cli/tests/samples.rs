//! `--samples`: a row for each flow and run, from which the tables follow.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn anabranch(args: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(args).current_dir(directory);
    command
}

fn run(args: &[&str], directory: &Path) -> Output {
    anabranch(args, directory).output().unwrap()
}

fn json(args: &[&str], directory: &Path) -> Value {
    let output = run(args, directory);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failure(args: &[&str], directory: &Path, code: i32) -> String {
    let output = run(args, directory);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(output.stdout.is_empty());
    error
}

fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The rows of a CSV file, by column.
fn csv_rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().collect::<Result<_, _>>().unwrap()
}

/// The rows of a file of JSON lines, by column, as CSV has them.
fn ndjson_rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = |value: Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    let row = |line: &str| {
        let row: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
        row.into_iter().map(|(name, value)| (name, text(value))).collect()
    };
    std::fs::read_to_string(path).unwrap().lines().map(row).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {:?}", row[column]))
}

/// Two conditions, TCPs beside, every path, loss, and flows that do not end.
const SCENARIO: &str = "
    schedulers = ['tcp', 'min_rtt', 'dmptcp']
    runs = 4
    deadline = '0.4 s'
    path = [
        { name = 'wifi', rate = '20 Mbit/s', rtt = '20 ms', loss = '0.5%' },
        { name = 'lte', rate = '10 Mbit/s', rtt = '40 ms', loss = '1%' },
    ]
    traffic = { size = 'web', flows = 5, beside = { flows = 2 } }

    [[condition]]
    name = 'upload'

    [[condition]]
    name = 'download'
    traffic.direction = 'download'
";

#[test]
fn the_table_follows_from_the_samples() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("x.toml"), SCENARIO).unwrap();
    let args = ["compare", "x.toml", "--json", "--every-path", "--samples", "x.csv"];
    let output = run(&args, path);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples = csv_rows(&path.join("x.csv"));
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 4 * 2);
    let mut seen = 0;
    let mut unfinished = 0;
    for row in rows {
        let is_own = |sample: &&BTreeMap<String, String>| {
            ["condition", "scheduler", "congestion"].iter().all(|key| row[key] == *sample[*key])
        };
        let own: Vec<_> = samples.iter().filter(is_own).collect();
        seen += own.len();
        assert_eq!(row["n"], own.len());
        let finished: Vec<_> = own.iter().filter(|sample| sample["finished"] == "true").collect();
        unfinished += own.len() - finished.len();
        assert_eq!(row["completed"], finished.len());
        let mean = |column: &str, of: &[&BTreeMap<String, String>]| {
            let values: Vec<f64> =
                of.iter().filter(|s| !s[column].is_empty()).map(|s| number(s, column)).collect();
            values.iter().sum::<f64>() / values.len() as f64
        };
        assert_eq!(row["fct_s"]["mean"].as_f64().unwrap(), mean("fct_s", &own));
        assert_eq!(row["acked_s"]["mean"].as_f64().unwrap(), mean("acked_s", &own));
        assert_eq!(row["goodput_bps"].as_f64().unwrap(), mean("goodput_bps", &own));
        assert_eq!(row["rto_count"].as_f64().unwrap(), mean("rto_count", &own));
        assert_eq!(row["subflows_used"].as_f64().unwrap(), mean("subflows_used", &own));
        let sum = |column: &str| own.iter().map(|sample| number(sample, column)).sum::<f64>();
        for kind in ["retransmitted", "reinjected"] {
            let ratio = sum(&format!("{kind}_segments")) / sum("data_segments");
            assert_eq!(row[format!("{kind}_ratio")].as_f64().unwrap(), ratio);
        }
        let by_path = [sum("bytes_path_wifi") as u64, sum("bytes_path_lte") as u64];
        assert_eq!(row["bytes_by_path"], serde_json::json!(by_path));
        // The path of a plain TCP, and run after run all flows of each.
        if row["path"].is_string() {
            assert!(own.iter().all(|sample| row["path"] == *sample["path"]));
        }
        let places: Vec<(String, String)> =
            own.iter().map(|sample| (sample["run"].clone(), sample["flow"].clone())).collect();
        let flows = own.len() / 4;
        let expected: Vec<(String, String)> =
            (0..4).flat_map(|run| (1..=flows).map(move |flow| (run.to_string(), flow.to_string()))).collect();
        assert_eq!(places, expected);
    }
    // Every sample belongs to a row: there are no selection runs among them.
    assert_eq!(seen, samples.len());
    assert!(unfinished > 0, "no flow missed the deadline, so this test says nothing of those");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn both_formats_say_the_same_on_any_number_of_threads() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("x.toml"), SCENARIO.replace("0.4 s", "60 s")).unwrap();
    let write = |file: &str, jobs: &str| {
        let output = run(&["compare", "x.toml", "--samples", file, "--jobs", jobs], path);
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("samples in {file}\n"));
        std::fs::read(path.join(file)).unwrap()
    };
    let one = write("one.csv", "1");
    assert_eq!(write("many.csv", "4"), one);
    write("x.ndjson", "2");
    assert_eq!(write("x.jsonl", "2"), std::fs::read(path.join("x.ndjson")).unwrap());
    assert_eq!(csv_rows(&path.join("one.csv")), ndjson_rows(&path.join("x.ndjson")));
}

#[test]
fn samples_that_cannot_be_written_are_an_error_and_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let with = |file: &'static str| ["compare", "--runs", "2", "--samples", file];
    for file in ["x.txt", "x", "x.json"] {
        let error = failure(&with(file), path, 2);
        assert!(error.contains(".csv") && error.contains(".ndjson"), "{error}");
    }
    let error = failure(&with("no/such/x.csv"), path, 1);
    assert!(error.starts_with("error: cannot write the samples no/such/x.csv: "), "{error}");
    assert!(files(path).is_empty());
    #[cfg(target_os = "linux")]
    {
        std::os::unix::fs::symlink("/dev/full", path.join("full.csv")).unwrap();
        let error = failure(&with("full.csv"), path, 1);
        assert!(error.starts_with("error: cannot write the samples full.csv: No space left"), "{error}");
    }
}

#[test]
#[cfg(unix)]
fn ctrl_c_leaves_the_file_that_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("x.csv"), "before").unwrap();
    let args = ["compare", "--runs", "1000000", "--samples", "x.csv", "--jobs", "1"];
    let mut child = anabranch(&args, path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As soon as rows are written.
    let partial = || {
        std::fs::read_dir(path).unwrap().filter_map(Result::ok).any(|entry| {
            entry.path().extension().is_some_and(|extension| extension == "partial")
                && entry.metadata().is_ok_and(|metadata| metadata.len() > 0)
        })
    };
    while !partial() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    assert_eq!(files(path), ["x.csv"]);
    assert_eq!(std::fs::read(path.join("x.csv")).unwrap(), b"before");
}
