//! `run --record`: tables that agree with the results, and that are complete or marked as partial.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

type Row = BTreeMap<String, String>;

const PATHS: [&str; 4] = ["--path", "20Mbit/s,20ms,loss=1%,name=wifi", "--path", "10Mbit/s,60ms,name=lte"];
/// A run that takes minutes.
const LONG: [&str; 9] = [
    "--path",
    "10Gbit/s,10ms",
    "--size",
    "bulk",
    "--set",
    "traffic.duration=1000s",
    "--scheduler",
    "min_rtt",
    "--record",
];

fn command(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.arg("run").args(arguments).current_dir(directory);
    command
}

fn run(arguments: &[&str], directory: &Path) -> Output {
    command(arguments, directory).output().unwrap()
}

fn succeed(arguments: &[&str], directory: &Path) -> Vec<u8> {
    let output = run(arguments, directory);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn state(directory: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(directory.join("run.json")).unwrap()).unwrap()
}

fn rows(path: &Path) -> Vec<Row> {
    csv::Reader::from_path(path).unwrap().deserialize().collect::<Result<_, _>>().unwrap()
}

/// Returns the names of the files in a directory.
fn files(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(directory).unwrap().map(name).collect();
    names.sort();
    names
}

fn number(row: &Row, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

#[test]
fn the_tables_agree_with_the_results_which_are_those_without_a_recording() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let mut arguments = PATHS.to_vec();
    arguments.extend(["--size", "300KB", "--flows", "2", "--schedulers", "redundant,min_rtt", "--json"]);
    let json = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
    let plain = json(succeed(&arguments, place))["flows"].clone();
    arguments.extend(["--record", "dir", "--record-format", "csv", "--record-every", "0", "--xpl"]);
    let json = json(succeed(&arguments, place));
    assert_eq!(json["flows"], plain);
    let state = state(&place.join("dir"));
    assert_eq!((&state["complete"], &state["reason"]), (&Value::Bool(true), &Value::Null));
    let names: Vec<&Value> = state["runs"].as_array().unwrap().iter().map(|run| &run["scheduler"]).collect();
    assert_eq!(names, ["redundant", "min_rtt"], "the order is that of the contenders");
    std::fs::write(place.join("again.toml"), state["scenario_toml"].as_str().unwrap()).unwrap();
    let again: Value = serde_json::from_slice(&succeed(&["again.toml", "--json"], place)).unwrap();
    assert_eq!((&again["flows"], &again["scenario_hash"]), (&plain, &state["scenario_hash"]));
    for run in state["runs"].as_array().unwrap() {
        let scheduler = run["scheduler"].as_str().unwrap();
        let directory = place.join("dir").join(run["directory"].as_str().unwrap());
        let table = |name: &str| rows(&directory.join(format!("{name}.csv")));
        let of_run = plain.as_array().unwrap().iter().filter(|flow| flow["scheduler"] == scheduler);
        let (events, subflows) = (table("events"), table("subflows"));
        for (row, flow) in table("flows").iter().zip(of_run) {
            let (id, direction) = (&row["flow"], &row["direction"]);
            assert_eq!(direction, "down");
            assert_eq!(number(row, "fct_ns") as f64 / 1e9, flow["fct_s"].as_f64().unwrap());
            assert_eq!(number(row, "data_segments"), flow["data_segments"].as_u64().unwrap());
            let of = |event: &str| {
                let same = |row: &&Row| {
                    &row["flow"] == id && &row["direction"] == direction && row["event"] == event
                };
                events.iter().filter(same).collect::<Vec<_>>()
            };
            let bytes = |rows: &[&Row]| {
                rows.iter().map(|row| number(row, "to_bytes") - number(row, "from_bytes")).sum()
            };
            // Each byte of the stream arrives once, is sent once, and is acknowledged once.
            for event in ["sent", "received", "data_acked"] {
                let sum: u64 = bytes(&of(event));
                assert_eq!(sum, 300_000, "{event} of flow {id} of {scheduler}");
            }
            let segments: usize =
                ["sent", "retransmitted", "reinjected", "probe"].map(|event| of(event).len()).iter().sum();
            assert_eq!(segments as u64, number(row, "data_segments"));
            let lost: u64 = subflows
                .iter()
                .filter(|row| &row["flow"] == id)
                .map(|row| number(row, "segments_lost"))
                .sum();
            assert!(of("lost").len() as u64 <= lost && (lost == 0) == of("lost").is_empty());
            let last = of("received").iter().map(|row| number(row, "t_ns")).max().unwrap();
            assert_eq!(last, number(row, "start_ns") + number(row, "fct_ns"));
            let name = format!("flow-{}.{direction}.xpl", number(row, "flow") + 1);
            let xpl = std::fs::read_to_string(directory.join(name)).unwrap();
            assert_eq!(xpl.matches("uarrow").count() as u64, number(row, "data_segments"));
            assert!(xpl.starts_with("timeval unsigned\ntitle\n") && xpl.ends_with("\ngo\n"));
        }
        assert!(table("decisions").iter().any(|row| row["decision"] == "assign"));
        let windows = table("windows");
        assert!(windows.iter().any(|row| row["subflow"] == "1" && number(row, "cwnd_bytes") > 14_000));
        // There is loss, so that there is a threshold.
        assert!(windows.iter().any(|row| !row["ssthresh_bytes"].is_empty()));
        // The longest queue is that of the link's own counter, the packet that made it so included.
        let queues = table("queues");
        let links = &json["links"].as_array().unwrap();
        let longest = |link: &str| {
            queues
                .iter()
                .filter(|row| row["link"] == link)
                .map(|row| number(row, "max_bytes"))
                .max()
                .unwrap_or(0)
        };
        let of_run: Vec<&Value> = links.iter().filter(|link| link["scheduler"] == scheduler).collect();
        assert_eq!(of_run.len(), 4);
        for link in of_run {
            let name = link["link"].as_str().unwrap();
            assert_eq!(longest(name), link["max_queue_bytes"].as_u64().unwrap(), "{name} of {scheduler}");
        }
    }
}

/// Flows that end before the run, each after its own time.
#[test]
fn the_goodput_of_a_flow_is_that_of_its_own_time() {
    let place = tempfile::tempdir().unwrap();
    let starts =
        "traffic = { name = \"x\", size = \"bulk\", duration = \"2 s\", starts = [\"0 s\", \"8 s\"] }";
    let mut arguments = vec!["--path", "20Mbit/s,20ms", "--set", starts, "--schedulers", "tcp", "--json"];
    arguments.extend(["--record", "dir", "--record-format", "csv"]);
    let json: Value = serde_json::from_slice(&succeed(&arguments, place.path())).unwrap();
    let table = rows(&place.path().join("dir/tcp/flows.csv"));
    assert_eq!(table.len(), 2);
    for (row, flow) in table.iter().zip(json["flows"].as_array().unwrap()) {
        let goodput = number(row, "goodput_bps") as f64;
        assert!(goodput > 15e6, "{goodput}");
        assert!((goodput / flow["goodput_bps"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{row:?} {flow}");
    }
}

#[test]
fn an_interval_thins_the_series_and_not_the_events() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let count = |name: &str, every: &str, table: &str| {
        let mut arguments = PATHS.to_vec();
        arguments.extend(["--size", "300KB", "--scheduler", "min_rtt", "--record", name]);
        arguments.extend(["--record-format", "csv", "--record-every", every]);
        if !place.join(name).exists() {
            succeed(&arguments, place);
        }
        rows(&place.join(name).join("min_rtt").join(format!("{table}.csv"))).len()
    };
    assert_eq!(count("all", "0", "events"), count("few", "20ms", "events"));
    assert!(count("all", "0", "windows") > 2 * count("few", "20ms", "windows"));
    assert!(count("all", "0", "queues") > 2 * count("few", "20ms", "queues"));
}

#[test]
fn a_directory_with_files_is_refused() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("mine"), "mine").unwrap();
    let output = run(&["figure8", "--record", "."], place.path());
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("it is not empty; choose another directory"), "{error}");
    assert_eq!(files(place.path()), ["mine"]);
}

#[test]
fn a_full_disk_is_an_error_and_the_recording_is_partial() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    // A limit on the size of files, as a full disk: 512 blocks of 512 or 1024 bytes.
    let script = "trap '' XFSZ; ulimit -f 512; exec \"$0\" run \"$@\"";
    let mut sh = Command::new("sh");
    sh.args(["-c", script, env!("CARGO_BIN_EXE_anabranch")]).args(LONG).arg("dir");
    let output = sh.args(["--record-format", "csv"]).current_dir(place).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot write dir/min_rtt/events.csv: File too large"), "{error}");
    let state = state(&place.join("dir"));
    assert_eq!(state["complete"], false);
    assert!(state["reason"].as_str().unwrap().contains("File too large"), "{state}");
    assert_eq!(state["runs"][0]["complete"], false);
    // No table that is not whole has its name.
    assert_eq!(files(&place.join("dir/min_rtt")), Vec::<String>::new());
}

/// Starts a long run in `dir`, and sends it a signal after it has written something.
#[cfg(unix)]
fn interrupted(place: &Path, signal: &str) -> Option<i32> {
    interrupted_in(place, &LONG, "min_rtt", signal)
}

/// Starts runs in `dir`, and sends a signal after the one in `directory` has written something.
#[cfg(unix)]
fn interrupted_in(place: &Path, arguments: &[&str], directory: &str, signal: &str) -> Option<i32> {
    let mut child =
        command(arguments, place).arg("dir").stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let written = || {
        let directory = place.join("dir").join(directory);
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).any(|metadata| metadata.len() > 100_000)
    };
    while !written() {
        assert!(begun.elapsed() < Duration::from_secs(240), "nothing is written");
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    child.wait().unwrap().code()
}

#[cfg(unix)]
#[test]
fn a_killed_run_leaves_no_table_that_looks_whole() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(interrupted(place.path(), "-KILL"), None);
    let state = state(&place.path().join("dir"));
    assert_eq!((&state["complete"], &state["ended_unix_s"]), (&Value::Bool(false), &Value::Null));
    let left = files(&place.path().join("dir/min_rtt"));
    assert!(left.iter().all(|name| name.ends_with(".partial")), "{left:?}");
}

#[cfg(unix)]
#[test]
fn a_killed_recording_keeps_the_runs_that_had_ended() {
    let place = tempfile::tempdir().unwrap();
    let scenario = "[[path]]\nname = \"one\"\nrate = \"10Gbit/s\"\nrtt = \"10ms\"\n[traffic]\nsize = \"bulk\"\n\
        [[condition]]\nname = \"brief\"\ntraffic.duration = \"1s\"\n\
        [[condition]]\nname = \"endless\"\ntraffic.duration = \"1000s\"\n";
    std::fs::write(place.path().join("two.toml"), scenario).unwrap();
    let arguments = ["two.toml", "--scheduler", "min_rtt", "--jobs", "1", "--record"];
    assert_eq!(interrupted_in(place.path(), &arguments, "endless.min_rtt", "-KILL"), None);
    let state = state(&place.path().join("dir"));
    assert_eq!((&state["complete"], &state["ended_unix_s"]), (&Value::Bool(false), &Value::Null));
    let runs = state["runs"].as_array().unwrap();
    let ended: Vec<_> =
        runs.iter().map(|run| (run["directory"].as_str(), run["complete"].as_bool())).collect();
    assert_eq!(ended, [(Some("brief.min_rtt"), Some(true)), (Some("endless.min_rtt"), Some(false))]);
    assert!(files(&place.path().join("dir/brief.min_rtt")).contains(&"windows.parquet".to_owned()));
    // A figure shows what there is.
    let mut plot = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    plot.args(["plot", "dir", "--figure", "goodput", "-o", "goodput.svg"]).current_dir(place.path());
    let output = plot.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(place.path().join("goodput.svg").exists());
}

#[cfg(unix)]
#[test]
fn after_an_interrupt_the_tables_are_whole_and_the_recording_is_partial() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(interrupted(place.path(), "-INT"), Some(130));
    let state = state(&place.path().join("dir"));
    assert_eq!(
        (&state["complete"], &state["reason"]),
        (&Value::Bool(false), &"stopped before the end".into())
    );
    let tables = files(&place.path().join("dir/min_rtt"));
    assert_eq!(tables.len(), 6, "{tables:?}");
    for table in tables {
        let bytes = std::fs::read(place.path().join("dir/min_rtt").join(&table)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{table}");
    }
}

/// Neither changes the other, nor the results.
#[test]
fn a_run_is_recorded_and_captured_at_once() {
    let place = tempfile::tempdir().unwrap();
    let words = |more: &[&'static str]| {
        [&PATHS[..], &["--size", "200KB", "--scheduler", "min_rtt", "--json"], more].concat()
    };
    let results = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap()["flows"].clone();
    let record = ["--record", "both", "--record-format", "csv", "--pcap", "both.pcapng"];
    let both = results(succeed(&words(&record), place.path()));
    let recorded = results(succeed(&words(&["--record", "one", "--record-format", "csv"]), place.path()));
    let captured = results(succeed(&words(&["--pcap", "one.pcapng"]), place.path()));
    assert!(!both.is_null() && both == recorded && both == captured);
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    assert!(read("one.pcapng").len() > 10_000 && read("both.pcapng") == read("one.pcapng"));
    for table in files(&place.path().join("one")).iter().filter(|name| name.ends_with(".csv")) {
        assert_eq!(read(&format!("both/{table}")), read(&format!("one/{table}")), "{table}");
    }
    assert_eq!(state(&place.path().join("both"))["complete"], true);
}

#[test]
fn long_names_have_directories_and_captures_too() {
    let place = tempfile::tempdir().unwrap();
    let long = "name ".repeat(100);
    let text = format!(
        "path = [{{ preset = 'dsl' }}]\ntraffic.size = '10 KB'\nschedulers = [{{ name = '{long}1', scheduler = 'min_rtt' }}, {{ name = '{long}2', scheduler = 'blest' }}]\n\
         condition = [{{ name = '{long}' }}, {{ name = 'b' }}]\n"
    );
    std::fs::write(place.path().join("long.toml"), text).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let words = ["run", "long.toml", "--record", "r", "--pcap", "p.pcapng", "-o", "r.txt"];
    let output = command.current_dir(place.path()).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let directories =
        std::fs::read_dir(place.path().join("r")).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir());
    assert_eq!(directories.count(), 4);
    let captures = std::fs::read_dir(place.path()).unwrap();
    assert_eq!(
        captures.filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|e| e == "pcapng")).count(),
        4
    );
}

/// The segments of a run, by stream and subflow's bytes: the oracle of a record made from a capture.
fn segments(directory: &Path) -> Vec<[String; 4]> {
    let wanted = |row: &Row| ["sent", "retransmitted", "reinjected"].contains(&row["event"].as_str());
    let cells = |row: Row| ["event", "direction", "from_bytes", "to_bytes"].map(|column| row[column].clone());
    let mut found: Vec<[String; 4]> =
        rows(&directory.join("events.csv")).into_iter().filter(wanted).map(cells).collect();
    found.sort();
    found
}

fn inspect(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.arg("inspect").args(arguments).current_dir(directory).output().unwrap()
}

/// The capture of a simulated run, recorded as a real one, has the segments that the simulator has recorded.
#[test]
fn the_record_of_a_capture_has_the_segments_of_the_run() {
    let place = tempfile::tempdir().unwrap();
    for (name, scheduler, direction) in [("up", "redundant", "upload"), ("down", "min_rtt", "download")] {
        let set = format!("traffic.direction={direction}");
        let (file, run) = (format!("{name}.pcapng"), format!("{name}-run"));
        let own =
            ["--size", "400KB", "--scheduler", scheduler, "--set", &set, "--pcap", &file, "--record", &run];
        succeed(&[&PATHS[..], &own, &["--record-format", "csv"]].concat(), place.path());
        let record = format!("{name}-capture");
        let output = inspect(&[&file, "--record", &record, "--record-format", "csv", "--xpl"], place.path());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("recorded in {record}\n")));
        let simulated = place.path().join(run).join(scheduler);
        let captured = place.path().join(&record).join("capture");
        let (own, found) = (segments(&simulated), segments(&captured));
        assert!(own.iter().any(|row| row[0] != "sent"), "no loss and no copy: {name}");
        assert_eq!(own, found, "{name}");
        assert_eq!(state(&place.path().join(&record))["complete"], true);
        assert!(files(&captured).contains(&"flow-1.up.xpl".to_owned()), "{:?}", files(&captured));
        let flow = |directory: &Path| rows(&directory.join("flows.csv")).remove(0);
        let (simulated, captured) = (flow(&simulated), flow(&captured));
        for column in [
            "direction",
            "size_bytes",
            "outcome",
            "delivered_bytes",
            "retransmitted_segments",
            "reinjected_bytes",
        ] {
            assert_eq!(simulated[column], captured[column], "{name}: {column}");
        }
        // Half a round trip is estimated.
        let span = number(&simulated, "fct_ns").abs_diff(number(&captured, "fct_ns"));
        assert!(span < 3_000_000, "{name}: {span} ns");
    }
}

#[test]
fn a_capture_from_standard_input_cannot_be_recorded() {
    let place = tempfile::tempdir().unwrap();
    let output = inspect(&["-", "--record", "there"], place.path());
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("--record reads the capture twice"), "{error}");
    assert!(files(place.path()).is_empty());
}
