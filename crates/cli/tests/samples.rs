//! `--samples`: a row for each flow and run, from which the tables can be computed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
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

/// Returns the rows of a CSV file, by column.
fn csv_rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().collect::<Result<_, _>>().unwrap()
}

/// Returns the rows of a file of JSON lines, by column, in the form of CSV.
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

/// Returns the rows of a Parquet file, by column, in the form of CSV.
fn parquet_rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let file = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        Field::Bool(flag) => flag.to_string(),
        other => panic!("{other:?}"),
    };
    let rows = file.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), text(field))).collect())
        .collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {:?}", row[column]))
}

/// Asserts equality up to the last digit but one of JSON.
#[track_caller]
fn same(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value - expected).abs() <= 1e-12 * expected.abs(), "{value} {expected}");
}

/// Two conditions, competing TCPs, every path, loss, and flows that do not end.
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
        same(&row["fct_s"]["mean"], mean("fct_s", &own));
        same(&row["acked_s"]["mean"], mean("acked_s", &own));
        same(&row["goodput_bps"], mean("goodput_bps", &own));
        same(&row["rto_count"], mean("rto_count", &own));
        same(&row["subflows_used"], mean("subflows_used", &own));
        // So do the values of each run.
        for run in 0..4 {
            let of_run: Vec<_> =
                own.iter().copied().filter(|sample| number(sample, "run") as usize == run).collect();
            same(&row["by_run"]["fct_s"][run], mean("fct_s", &of_run));
            same(&row["by_run"]["goodput_bps"][run], mean("goodput_bps", &of_run));
            let finished = of_run.iter().filter(|sample| sample["finished"] == "true").count();
            assert_eq!(row["by_run"]["completed"][run], finished);
        }
        let sum = |column: &str| own.iter().map(|sample| number(sample, column)).sum::<f64>();
        for kind in ["retransmitted", "reinjected"] {
            let ratio = sum(&format!("{kind}_segments")) / sum("data_segments");
            same(&row[format!("{kind}_ratio")], ratio);
        }
        let by_path = [sum("bytes_path_wifi") as u64, sum("bytes_path_lte") as u64];
        assert_eq!(row["bytes_by_path"], serde_json::json!(by_path));
        // The path of a plain TCP, and the flows of each run in order.
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
    // Every sample belongs to a row, so selection runs are not included.
    assert_eq!(seen, samples.len());
    assert!(unfinished > 0, "no flow missed the deadline, so this test says nothing of those");
}

#[test]
fn all_formats_say_the_same_on_any_number_of_threads() {
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
    let (csv, ndjson) = (csv_rows(&path.join("one.csv")), ndjson_rows(&path.join("x.ndjson")));
    assert_eq!(csv.len(), ndjson.len());
    let parquet = write("x.parquet", "1");
    assert_eq!(write("many.parquet", "4"), parquet);
    assert_eq!(parquet_rows(&path.join("x.parquet")), csv);
    for (csv, ndjson) in csv.iter().zip(&ndjson) {
        assert!(csv.keys().eq(ndjson.keys()));
        // JSON writes small numbers with an exponent.
        let same = |column: &String| {
            csv[column] == ndjson[column]
                || (number(csv, column) - number(ndjson, column)).abs() < 1e-12 * number(csv, column).abs()
        };
        assert!(csv.keys().all(same), "{csv:?}\n{ndjson:?}");
    }
}

/// All randomness of a run: losses, sizes, traces, jitter, competing and background TCPs, phases.
const RANDOM: &str = "
    schedulers = ['tcp', 'min_rtt', 'dmptcp']
    runs = 9
    path = [
        { name = 'dsl', rate = '12 Mbit/s', rtt = '30 ms', loss = '0.5%', jitter = '1 ms' },
        { name = 'lte', trace = 'lte.down', rtt = '40 ms' },
    ]
    traffic = { size = 'web', flows = 3, load = 0.5, beside = { flows = 2 }, background = { path = 1 } }

    [[condition]]
    name = 'upload'

    [[condition]]
    name = 'download'
    traffic.direction = 'download'
";

#[test]
fn a_replayed_run_is_that_of_the_comparison() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("x.toml"), RANDOM).unwrap();
    let trace: String = (1..400).map(|ms| format!("{}\n", ms * 3 + (ms * ms) % 3)).collect();
    std::fs::write(path.join("lte.down"), trace).unwrap();
    let done = |args: &[&str]| {
        let output = run(args, path);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    };
    done(&["compare", "x.toml", "--every-path", "--samples", "all.csv"]);
    let all = csv_rows(&path.join("all.csv"));
    for which in ["0", "7"] {
        done(&["run", "x.toml", "--every-path", "--run", which, "--samples", "one.csv"]);
        let one = csv_rows(&path.join("one.csv"));
        assert_eq!(one.len(), 2 * 4 * 5);
        let expected: Vec<_> = all.iter().filter(|row| row["run"] == which).collect();
        assert!(one.iter().eq(expected), "run {which}");
        // One contender alone has the same results as among others, and JSON has the same times.
        for scheduler in ["tcp", "dmptcp"] {
            let args = ["run", "x.toml", "--run", which, "--scheduler", scheduler];
            done(&[&args[..], &["--samples", "alone.csv"]].concat());
            let alone = csv_rows(&path.join("alone.csv"));
            let is_own = |row: &&BTreeMap<String, String>| {
                row["run"] == which
                    && [scheduler, &format!("tcp beside {scheduler}")].contains(&&*row["scheduler"])
            };
            assert!(alone.iter().eq(all.iter().filter(is_own)), "run {which} of {scheduler}");
            let object = json(&[&args[..], &["--json"]].concat(), path);
            let flows = object["flows"].as_array().unwrap();
            assert_eq!(flows.len(), alone.len());
            for (flow, row) in flows.iter().zip(&alone) {
                same(&flow["fct_s"], number(row, "fct_s"));
                same(&flow["start_s"], number(row, "start_s"));
                assert_eq!(flow["first_path"], *row["first_path"]);
            }
        }
    }
    // Another run differs, and without its number there are no phases.
    let times = |number: &str| -> Vec<&str> {
        all.iter().filter(|row| row["run"] == number).map(|row| &*row["fct_s"]).collect()
    };
    assert_ne!(times("0"), times("7"));
    done(&["run", "x.toml", "--every-path", "--samples", "plain.csv"]);
    assert_ne!(
        csv_rows(&path.join("plain.csv")).iter().map(|row| &*row["fct_s"]).collect::<Vec<_>>(),
        times("0")
    );
    let error = failure(&["run", "x.toml", "--run", "9"], path, 2);
    assert!(error.contains("9 runs, from 0 to 8"), "{error}");
}

#[test]
fn a_capture_of_a_replayed_run_is_of_that_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bytes = |number: &str, file: &str| {
        let args =
            ["run", "figure8", "--scheduler", "dmptcp", "--runs", "9", "--run", number, "--pcap", file];
        let output = run(&args, path);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(path.join(file)).unwrap()
    };
    assert_ne!(bytes("7", "seven.pcapng"), bytes("8", "eight.pcapng"));
    assert!(bytes("7", "again.pcapng").len() > 10_000);
}

#[test]
fn samples_that_cannot_be_written_are_an_error_and_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let with = |file: &'static str| ["compare", "--runs", "2", "--samples", file];
    for file in ["x.txt", "x", "x.json"] {
        let error = failure(&with(file), path, 2);
        assert!([".csv", ".ndjson", ".parquet"].iter().all(|name| error.contains(name)), "{error}");
    }
    let error = failure(&with("no/such/x.csv"), path, 2);
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

/// The table of columns on the page equals that of files, with and without classes of traffic.
#[test]
fn every_column_is_on_the_page() {
    let page = include_str!("../../../docs/results.md");
    let table = page.split("<!-- columns -->").nth(1).unwrap().split("\n\n").next().unwrap();
    let cells = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let names = |cell: &'static str| cell.split('`').skip(1).step_by(2);
    let mut documented: Vec<&str> = cells.flat_map(names).collect();
    assert_eq!(documented.pop(), Some("bytes_path_NAME"));
    let plain = documented.iter().position(|name| *name == "traffic").expect("the columns of classes");

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("plain.toml"), SCENARIO.replace("0.4 s", "60 s")).unwrap();
    let classes = "path = [{ rate = '8 Mbit/s', rtt = '20 ms', name = 'wifi' }, \
                   { rate = '8 Mbit/s', rtt = '30 ms', name = 'lte' }]\n\
                   [[traffic]]\nname = 'web'\nkind = 'transfer'\nsize = '10 KB'\n";
    std::fs::write(path.join("classes.toml"), classes).unwrap();
    for (name, expected) in [("plain", &documented[..plain]), ("classes", &documented[..])] {
        let (scenario, samples) = (format!("{name}.toml"), format!("{name}.csv"));
        let output = run(&["run", &scenario, "--samples", &samples], path);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let header = csv::Reader::from_path(path.join(&samples)).unwrap().headers().unwrap().clone();
        let columns: Vec<&str> = header.iter().collect();
        assert_eq!(columns, [expected, &["bytes_path_wifi", "bytes_path_lte"]].concat(), "{name}");
    }
}
