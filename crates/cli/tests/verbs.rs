//! Every verb, as users and programs call it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// Returns the output of a command that must succeed without messages.
fn stdout(args: &[&str]) -> String {
    let output = run(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

/// Returns the error of a command that must fail with `code`.
fn failure(args: &[&str], code: i32) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: "), "{error}");
    error
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn same_set(mut a: Vec<&str>, b: &[&str]) {
    a.sort_unstable();
    let mut b = b.to_vec();
    b.sort_unstable();
    assert_eq!(a, b);
}

/// A small comparison that takes milliseconds.
const SMALL: &[&str] = &[
    "compare",
    "--path",
    "20Mbit/s,20ms,loss=0.5%",
    "--path",
    "10Mbit/s,40ms,loss=1%,queue=50packets",
    "--size",
    "100KB",
    "--flows",
    "2",
    "--runs",
    "4",
];

fn small(more: &[&str]) -> Vec<String> {
    SMALL.iter().chain(more).map(|arg| arg.to_string()).collect()
}

fn as_strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

#[test]
fn compare_prints_a_table_and_ends_in_one_sentence() {
    let text = stdout(SMALL);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for name in ["tcp", "linux", "min_rtt", "dmptcp", "anabranch"] {
        let row = text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row.contains("8/8"), "{row}");
    }
    let verdict = text.trim_end().rsplit("\n\n").next().unwrap().replace('\n', " ");
    assert!(verdict.ends_with('.') && verdict.contains("mean completion time"), "{verdict}");
}

#[test]
fn compare_json_has_exactly_the_keys_of_the_issue() {
    let args = small(&["--json"]);
    let object = json(&as_strs(&args));
    let top = [
        "version",
        "commit",
        "schema",
        "results",
        "command",
        "scenario_hash",
        "seed",
        "runs",
        "reference",
        "min_effect_pct",
        "verdict",
        "verdicts",
        "rows",
        "fairness_verdict",
        "fairness",
        "conditions",
        "performance",
    ];
    same_set(keys(&object), &top);
    assert_eq!((&object["schema"], &object["min_effect_pct"]), (&Value::from(1), &Value::from(1.0)));
    assert_eq!(object["reference"], "tcp");
    assert_eq!(object["scenario_hash"].as_str().unwrap().len(), 64);
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    for row in rows {
        let expected = [
            "scheduler",
            "congestion",
            "condition",
            "path",
            "n",
            "completed",
            "failed",
            "fct_s",
            "acked_s",
            "goodput_bps",
            "goodput_ci95_bps",
            "vs_reference_pct",
            "retransmitted_ratio",
            "reinjected_ratio",
            "rto_count",
            "longest_gap_s",
            "subflows_used",
            "bytes_by_path",
            "lower_bound_s",
            "vs_lower_bound",
            "by_run",
        ];
        same_set(keys(row), &expected);
        same_set(keys(&row["by_run"]), &["completed", "fct_s", "goodput_bps"]);
        assert!(["completed", "fct_s", "goodput_bps"].iter().all(|key| row["by_run"][key][3].is_number()));
        // The interval contains its mean, for goodput too.
        let interval: Vec<f64> =
            row["goodput_ci95_bps"].as_array().unwrap().iter().map(|end| end.as_f64().unwrap()).collect();
        let mean = row["goodput_bps"].as_f64().unwrap();
        assert!(interval[0] <= mean && mean <= interval[1], "{row}");
        for times in ["fct_s", "acked_s"] {
            same_set(keys(&row[times]), &["mean", "p50", "p95", "p99", "max", "ci95"]);
            assert_eq!(row[times]["ci95"].as_array().unwrap().len(), 2);
            // Eight flows have no 95th percentile.
            assert!(row[times]["p95"].is_null() && row[times]["p50"].is_number());
        }
        same_set(keys(&row["vs_reference_pct"]), &["mean", "ci95"]);
        assert_eq!(row["bytes_by_path"].as_array().unwrap().len(), 2);
        assert_eq!(row["n"], 8);
        assert!(row["vs_lower_bound"].as_f64().unwrap() >= 1.0);
        let sum: u64 = row["bytes_by_path"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).sum();
        assert_eq!(sum, 800_000);
    }
    let performance = ["simulated_s", "wall_s", "packet_hops", "data_packets", "events", "peak_rss_bytes"];
    same_set(keys(&object["performance"]), &performance);
}

fn without_performance(mut value: Value) -> String {
    value.as_object_mut().unwrap().remove("performance");
    // The recorded command line is the given one, including `--jobs`.
    value.as_object_mut().unwrap().remove("command");
    value.to_string()
}

#[test]
fn flows_that_do_not_finish_end_with_exit_code_1() {
    let args = ["compare", "--path", "1Mbit/s,20ms", "--size", "1MB", "--runs", "2", "--set", "deadline=2s"];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap().replace('\n', " ");
    assert!(text.contains("There is no winner") && text.contains("--set deadline=8s"), "{text}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("there is no winner"), "{error}");
}

#[test]
fn an_explanation_of_nothing_ends_with_exit_code_1() {
    let of = |deadline: &str| {
        let deadline = format!("deadline={deadline}");
        let path = ["--path", "1Mbit/s,20ms", "--size", "1MB", "--runs", "1", "--no-changes", "--set"];
        run(&[&["explain"], &path[..], &[&deadline]].concat())
    };
    let output = of("10ms");
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stdout.is_empty());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("there is nothing to explain"), "{error}");
    assert_eq!(of("2s").status.code(), Some(0), "a part of the flow");
}

#[test]
fn a_start_that_rescues_flows_is_not_said_to_leave_them_unfinished() {
    // Every packet is lost on the first path, and none on the second.
    let paths = ["compare", "--path", "20Mbit/s,20ms,loss=1", "--path", "10Mbit/s,40ms", "--size", "20KB"];
    let given = |more: &[&'static str]| [&paths[..], &["--runs", "2", "--set", "deadline=5s"], more].concat();
    let text = |args: &[&str]| String::from_utf8(run(args).stdout).unwrap();
    let dead = text(&given(&[]));
    assert!(dead.contains("first subflow on path 2 instead: every flow finishes (2 runs)"), "{dead}");
    let alive = text(&given(&["--initial", "2"]));
    assert!(alive.contains("first subflow on path 1 instead: no flow finishes (2 runs)"), "{alive}");
}

#[test]
fn the_sum_of_single_paths_counts_every_bulk_flow_of_a_run() {
    let text = stdout(&[
        "compare",
        "--path",
        "20Mbit/s,20ms",
        "--path",
        "10Mbit/s,40ms",
        "--size",
        "bulk",
        "--flows",
        "4",
        "--runs",
        "2",
        "--quiet",
    ]);
    // Payload is 96.5 % of 30 Mbit/s, and the start of a flow costs a little.
    let sum = text.split("single paths alone add up to ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!((27.0..29.0).contains(&sum.parse::<f64>().unwrap()), "{text}");
}

#[test]
fn advice_warns_of_options_that_choose_contenders() {
    let args = ["advise", "--path", "20Mbit/s,20ms", "--path", "10Mbit/s,40ms", "--size", "20KB"];
    let output = run(&[&args[..], &["--no-margins", "--schedulers", "blest", "--runs", "10"]].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("warning: --schedulers has no effect"), "{error}");
}

#[test]
fn a_network_without_fair_shares_has_no_empty_columns() {
    let text = stdout(&["compare", "fat-tree", "--runs", "1", "--set", "traffic.duration=50ms", "--quiet"]);
    let header = text.lines().find(|line| line.starts_with("who")).unwrap();
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["who", "Jain's", "index"]);
    // Phases of a nanosecond scale are not rounded to nothing.
    assert!(!text.contains("+-0 ms"), "{text}");
}

#[test]
fn every_path_has_a_row_on_request() {
    let text = stdout(&as_strs(&small(&["--every-path"])));
    let starts = |name: &str| text.lines().any(|line| line.starts_with(name));
    assert!(starts("tcp on path 1 ") && starts("tcp@2 ") && !starts("tcp@1 "), "{text}");
    for note in [
        "tcp uses path 1, the best of 2 single paths",
        "profile linux; cc cubic_linux; download;",
        "each run draws phases: starts",
    ] {
        assert!(text.contains(note), "{note}: {text}");
    }
    let text = stdout(&as_strs(&small(&["--min-effect", "100%"])));
    assert!(text.contains("practically equal"), "{text}");
}

#[test]
fn the_number_of_threads_changes_nothing_but_the_performance() {
    let one = json(&as_strs(&small(&["--json", "--jobs", "1"])));
    for jobs in ["0", "2", "5"] {
        let other = json(&as_strs(&small(&["--json", "--jobs", jobs])));
        for key in ["simulated_s", "packet_hops", "data_packets", "events"] {
            assert_eq!(one["performance"][key], other["performance"][key]);
        }
        assert_eq!(without_performance(one.clone()), without_performance(other));
    }
}

#[test]
fn another_seed_gives_another_result_and_the_same_hash() {
    let one = json(&as_strs(&small(&["--json", "--seed", "1"])));
    let two = json(&as_strs(&small(&["--json", "--seed", "2"])));
    assert_eq!(one["scenario_hash"], two["scenario_hash"]);
    assert_ne!(one["rows"], two["rows"]);
    let other = json(&as_strs(&small(&["--json", "--set", "rto.min=300ms"])));
    assert_ne!(one["scenario_hash"], other["scenario_hash"]);
}

#[test]
fn compare_without_arguments_is_a_phone_with_wifi_and_lte() {
    let text = stdout(&["compare", "--runs", "3"]);
    // Notes are broken into lines.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for note in [
        "profile linux; cc cubic_linux; download;",
        "first subflow on wifi",
        "first subflow on lte instead: linux ",
    ] {
        assert!(text.contains(note), "{note}: {text}");
    }
    let object = json(&["compare", "--json", "--runs", "2", "--initial", "lte", "--no-other-starts"]);
    let conditions = object["conditions"].as_array().unwrap();
    let names: Vec<&str> = conditions.iter().map(|condition| condition["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["good wifi", "edge of wifi"]);
    for condition in conditions {
        assert_eq!(
            (&condition["initial"], &condition["initial_choice"]),
            (&Value::from("lte"), &Value::from("given"))
        );
        assert!(
            condition["other_starts"].as_array().unwrap().is_empty() && condition["decisive_start"].is_null()
        );
        assert_eq!(condition["estimates_s"].as_array().unwrap().len(), 2);
    }
    let schedulers: Vec<&str> =
        object["rows"].as_array().unwrap().iter().map(|row| row["scheduler"].as_str().unwrap()).collect();
    assert_eq!(schedulers, ["tcp", "linux", "min_rtt", "dmptcp", "anabranch"].repeat(2));
}

#[test]
fn the_papers_setting_is_there_in_two_conditions() {
    let object = json(&["compare", "dmptcp-eight-paths", "--json", "--runs", "2", "--no-other-starts"]);
    let rows = object["rows"].as_array().unwrap();
    let names: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row["condition"].as_str().unwrap(), row["scheduler"].as_str().unwrap()))
        .collect();
    let contenders = ["tcp", "min_rtt", "dmptcp"];
    let expected: Vec<(&str, &str)> =
        ["loss=0", "loss=0.05%"].iter().flat_map(|c| contenders.map(|s| (*c, s))).collect();
    assert_eq!(names, expected);
    assert!(rows.iter().all(|row| row["n"] == 60 && row["bytes_by_path"].as_array().unwrap().len() == 8));
    assert!(
        rows.iter().all(|row| row["congestion"] == if row["scheduler"] == "tcp" { "newreno" } else { "lia" })
    );
}

#[test]
fn tcp_on_a_given_path_stays_there() {
    let args = small(&["--json", "--schedulers", "tcp,tcp@2", "--reference", "tcp@2"]);
    let object = json(&as_strs(&args));
    let bytes = |row: usize, path: usize| object["rows"][row]["bytes_by_path"][path].as_u64().unwrap();
    assert_eq!((bytes(0, 0), bytes(0, 1)), (800_000, 0));
    assert_eq!((bytes(1, 0), bytes(1, 1)), (0, 800_000));
    assert!(object["rows"][0]["vs_reference_pct"]["mean"].as_f64().unwrap() < 0.0);
}

#[test]
fn bulk_is_compared_by_goodput() {
    let args = [
        "compare",
        "--path",
        "10Mbit/s,20ms",
        "--path",
        "10Mbit/s,20ms",
        "--size",
        "bulk",
        "--runs",
        "2",
        "--schedulers",
        "tcp,min_rtt",
        "--set",
        "traffic.duration=3s",
        "--json",
    ];
    let object = json(&args);
    let row = &object["rows"][1];
    assert!(row["fct_s"]["mean"].is_null());
    assert!(row["goodput_bps"].as_f64().unwrap() > 15e6, "{row}");
    assert!(row["vs_reference_pct"]["mean"].as_f64().unwrap() > 50.0, "{row}");
    assert!(object["verdict"].as_str().unwrap().contains("goodput"), "{}", object["verdict"]);
}

#[test]
fn run_shows_each_flow_and_the_performance() {
    let object = json(&["run", "figure8", "--json"]);
    let performance = ["simulated_s", "wall_s", "packet_hops", "data_packets", "events", "peak_rss_bytes"];
    same_set(keys(&object["performance"]), &performance);
    let flows = object["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 3);
    assert!(
        flows.iter().all(|flow| flow["fct_s"].as_f64().unwrap() >= flow["lower_bound_s"].as_f64().unwrap())
    );
    // The DMPTCP paper's figure 8: the slow path is unused, so no data waits for it.
    let of = |name: &str| flows.iter().find(|flow| flow["scheduler"] == name).unwrap();
    let (min_rtt, dmptcp) = (of("min_rtt"), of("dmptcp"));
    let seconds = |flow: &Value, key: &str| flow[key].as_f64().unwrap();
    assert_eq!(dmptcp["bytes_by_path"][1], 0);
    assert!(seconds(min_rtt, "acked_s") - seconds(dmptcp, "acked_s") >= 0.015);
    // A segment of 1500 bytes at 100 Mbit/s.
    assert!(seconds(dmptcp, "fct_s") - seconds(min_rtt, "fct_s") <= 120e-6);
    let text = stdout(&["run", "figure8", "--set", "schedulers=tcp"]);
    assert!(text.starts_with("scheduler") && text.contains("packet-hops"), "{text}");
    let again = json(&["run", "figure8", "--json", "--jobs", "2"]);
    assert_eq!(without_performance(object), without_performance(again));
}

#[test]
fn model_gives_the_papers_worked_example() {
    let total = |args: &[&str]| {
        let mut all = vec!["model", "--json"];
        all.extend(args);
        let object = json(&all);
        same_set(keys(&object), &["rounds"]);
        let rounds = object["rounds"].as_array().unwrap();
        same_set(keys(&rounds[0]), &["round", "delivered_segments", "expected_cwnd", "states"]);
        for round in rounds {
            let states = round["states"].as_array().unwrap();
            let sum: f64 = states.iter().map(|state| state["probability"].as_f64().unwrap()).sum();
            assert!((sum - 1.0).abs() < 1e-9);
        }
        rounds.last().unwrap()["delivered_segments"].as_f64().unwrap()
    };
    assert_eq!(total(&["--cwnd", "8", "--rounds", "4"]), 120.0);
    for (loss, expected) in [("1e-4", 119.63), ("0.01", 90.30), ("5%", 43.06)] {
        let found = total(&["--cwnd", "8", "--rounds", "4", "--loss", loss]);
        assert!((found - expected).abs() < 0.005, "{loss}: {found}");
    }
    assert_eq!(total(&["--cwnd", "10", "--ssthresh", "64", "--rounds", "4"]), 150.0);
    assert_eq!(total(&["--cwnd", "10", "--ssthresh", "64", "--rounds", "4", "--clip"]), 134.0);
    let text = stdout(&["model", "--cwnd", "8", "--rounds", "4"]);
    assert!(text.contains("4 round trips deliver 120 segments of 1400 B: 164 KiB"), "{text}");
}

#[test]
fn select_says_which_paths_and_why() {
    let args = ["select", "--path", "100Mbit/s,20ms,cwnd=8", "--path", "100Mbit/s,80ms,cwnd=1"];
    let text = stdout(&[&args[..], &["--remaining", "40KB"]].concat());
    assert!(text.contains("within its RTT the faster paths deliver 168 KB, enough for 40 KB"), "{text}");
    assert!(text.ends_with("DMPTCP sends the remaining 40 KB on path 1 alone.\n"), "{text}");
    let object = json(&[&args[..], &["--remaining", "169KB", "--json"]].concat());
    assert_eq!(object["selected"], serde_json::json!([1, 2]));
    let object = json(&[&args[..], &["--remaining", "unknown", "--json"]].concat());
    assert_eq!(object["selected"], serde_json::json!([1, 2]));
    let error = failure(&["select", "--path", "100Mbit/s", "--remaining", "1KB"], 2);
    assert!(error.contains("no round-trip time"), "{error}");
}

#[test]
fn list_names_what_there_is() {
    for (what, names) in [
        ("schedulers", &["tcp", "tcp@N", "redundant", "dmptcp"][..]),
        ("congestion", &["newreno", "cubic", "lia"]),
        ("profiles", &["linux", "ns3"]),
        ("scenarios", &["phone", "dmptcp-eight-paths", "figure8", "two-paths", "beside-tcp", "lte-trace"]),
        ("knobs", &["mss", "rto.min", "receive-buffer"]),
    ] {
        let text = stdout(&["list", what]);
        for name in names {
            assert!(text.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}: {text}");
        }
    }
}

#[test]
fn check_finds_every_built_in_scenario_right_and_the_files_too() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files = 0;
    for entry in std::fs::read_dir(scenarios).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        files += 1;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let hash = |text: String| text.lines().last().unwrap().to_owned();
        let built_in = stdout(&["check", name]);
        assert!(built_in.contains(": OK: "), "{built_in}");
        assert_eq!(hash(built_in), hash(stdout(&["check", path.to_str().unwrap()])), "{name}");
    }
    let listed = stdout(&["list", "scenarios"]);
    assert_eq!(files, listed.lines().filter(|line| !line.starts_with(' ')).count() - 1);
}

fn temporary(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn an_error_in_a_scenario_points_at_the_line() {
    let path = temporary("wrong.toml", "[[path]]\nrate = \"10 Mbit/s\"\nrtt = \"20 parsec\"\n");
    let error = failure(&["check", path.to_str().unwrap()], 2);
    assert!(error.contains("wrong.toml:3:7"), "{error}");
    assert!(error.contains("3 | rtt = \"20 parsec\"\n  |       ^^^^^^^^^^^"), "{error}");
    assert!(error.contains("help: write for example `20 ms`"), "{error}");
}

#[test]
fn mistakes_on_the_command_line_say_what_would_be_right() {
    for (args, words) in [
        (&["compare", "figure9"][..], "did you mean `figure8`?"),
        (&["compare", "--path", "10Mbit/s"], "this path has no round-trip time"),
        (&["compare", "--path", "10Mbit/s,20ms,los=1%"], "did you mean `loss`?"),
        (&["compare", "--path", "trace=nowhere,20ms"], "there is no such file"),
        (&["compare", "--schedulers", "minrt"], "did you mean"),
        (&["compare", "--size", "57"], "has no unit"),
        (&["compare", "--runs", "none"], "--runs:1:1"),
        (&["compare", "--set", "rto.mn=3ms"], "did you mean `rto.min`?"),
        (&["compare", "--set", "trafic.flows=3"], "did you mean `traffic`?"),
        (&["compare", "--set", "path.9.loss=3%"], "no path is called `9`"),
        (&["compare", "--set", "nothing"], "there is no `=`"),
        (&["compare", "--reference", "blest"], "none of the contenders"),
        (&["compare", "--cc", "renoo"], "there is no congestion control called `renoo`"),
        (&["compare", "--sizes", "57KB"], "--size"),
        (
            &["model", "--cwnd", "0", "--rounds", "4"],
            "0 is out of range; give a whole number from 1 to 1000000",
        ),
        (&["compare", "--runs", "5", "--set", "runs=3"], "--runs and `--set runs=3` set the same value"),
        (&["compare", "--size", "1KB", "--set", "traffic.size=2KB"], "set the same value"),
        (&["run", "--samples", "never.csv", "-o", "never.csv"], "name the same file"),
        (&["sweep", "two-paths"], "add `--vary KEY=VALUES`"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let error = failure(args, 2);
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child =
        command(&["list", "knobs"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&["list", "knobs"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: cannot write the output: "), "{error}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_ends_without_a_result() {
    let args = ["compare", "--runs", "100000", "--json"];
    let child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Long enough for the first line of progress.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(" of 1000000 runs done"), "{error}");
    assert!(error.ends_with("error: interrupted; there is no result\n"), "{error}");
}

const BESIDE: &[&str] = &[
    "compare",
    "--path",
    "10Mbit/s,20ms",
    "--path",
    "30Mbit/s,30ms",
    "--size",
    "bulk",
    "--runs",
    "3",
    "--set",
    "traffic.duration=3s",
    "--set",
    "traffic.beside={flows=1, path=1}",
];

#[test]
fn fairness_is_shown_beside_tcps_and_for_several_bulk_flows() {
    let text = stdout(BESIDE).replace('\n', " ");
    // Three runs tell or do not.
    let verdicts =
        [" serves this traffic best", "practically equal", "cannot be told apart with this number of runs"];
    assert!(verdicts.iter().any(|verdict| text.contains(verdict)), "{text}");
    assert!(
        text.contains("vs fair, %") && text.contains("Fairness: ") && text.contains("fair share"),
        "{text}"
    );
    let view = |view: &str| stdout(&[BESIDE, &["--view", view]].concat());
    assert!(!view("answer").contains("air"));
    assert!(view("fairness").starts_with("fairness\n") && !view("fairness").contains("vs tcp, %"));
    let object = json(&[BESIDE, &["--json"]].concat());
    assert_eq!(object["fairness"].as_array().unwrap().len(), 5);
    let [own, tcp] = object["fairness"][1]["parties"].as_array().unwrap().as_slice() else {
        panic!("{object}")
    };
    // The TCP has a path of a quarter of the capacity, and Multipath TCP can have the rest.
    assert_eq!((&own["fair_share_pct"], &tcp["fair_share_pct"]), (&Value::from(75.0), &Value::from(25.0)));
    let sum = own["share_pct"].as_f64().unwrap() + tcp["share_pct"].as_f64().unwrap();
    assert!((sum - 100.0).abs() < 1e-6, "{sum}");
    assert!(object["fairness_verdict"].as_str().unwrap().starts_with("Fairness: "));
    // Flows with a size have it on request, and a single flow never.
    let sized = SMALL;
    assert_eq!(json(&[sized, &["--json"]].concat())["fairness"], Value::Array(Vec::new()));
    let asked = json(&[sized, &["--json", "--view", "fairness"]].concat());
    assert!(asked["fairness"][0]["jain"]["mean"].as_f64().unwrap() > 0.5);
    let text = stdout(&["compare", "figure8", "--runs", "2", "--view", "fairness"]);
    assert_eq!(text, "each run has a single flow, which shares with no other\n");
}

#[test]
fn json_says_where_it_comes_from() {
    let object = json(&["run", "figure8", "--json", "--run", "0"]);
    assert_eq!(object["command"], serde_json::json!(["anabranch", "run", "figure8", "--json", "--run", "0"]));
    assert_eq!(object["conditions"][0]["paths"], serde_json::json!(["1", "2"]));
    let commit = &object["commit"];
    let is_commit = |text: &str| {
        let hash = text.trim_end_matches("-dirty");
        hash.len() == 40 && hash.chars().all(|c| c.is_ascii_hexdigit())
    };
    // A build outside of a repository knows none.
    assert!(commit.is_null() || commit.as_str().is_some_and(is_commit), "{commit}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_first_interface_that_does_not_exist_is_named_with_those_that_do() {
    let error = failure(&["kernel", "run", "--first", "nope0", "--", "true"], 1);
    // A kernel without Multipath TCP is refused before.
    if !error.contains("no socket of Multipath TCP") {
        assert!(error.contains("there is no interface nope0; there are ") && error.contains("lo"), "{error}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_mistake_in_the_options_of_the_proxy_has_its_correction() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let key = stdout(&["proxy", "--new-key", "laptop"]);
    assert!(key.starts_with("[[client]]\nname = \"laptop\"\nkey = \""), "{key}");
    assert_ne!(key, stdout(&["proxy", "--new-key", "laptop"]));
    let one = file("one.key", &key);
    let two = file("two.key", &format!("{key}{}", stdout(&["proxy", "--new-key", "desktop"])));
    let policy = file("policy.toml", "vai = 'direct'");
    let scheduler = file("scheduler.toml", "scheduler = 'blest'");
    let cap = file("cap.toml", "[[cap]]\npath = 'wwan0'\nsend = '1Mbit/s'");
    let budget = file("budget.toml", "[[budget]]\npath = 'wwan0'\nmonthly = '1GB'");
    let joins = file("joins.toml", "path-manager = 'anabranch'");
    let price = file("price.toml", "[[price]]\npath = 'wwan0'\nprice = 2");
    let text = stdout(&["proxy", "--new-certificate", "server.example"]);
    assert!(
        text.starts_with("# server.example, --pin sha256:") && text.contains("BEGIN PRIVATE KEY"),
        "{text}"
    );
    let pin = text.split_whitespace().nth(3).unwrap().to_owned();
    let pem = file("server.pem", &text);
    for (words, error) in [
        (&["--new-key", "a b"][..], "letters, digits"),
        (&["--to", "host"], "server.example:8803"),
        (&["--to", "host:1"], "--key"),
        (&["--to", "host:1", "--key", &two], "the keys of several clients"),
        (&["--server"], "--policy"),
        (&["--server", "--policy", &policy], "unknown key `vai`"),
        (&["--policy", &policy], "did you mean `via`?"),
        (&["--policy", &scheduler], "--transport anabranch"),
        (&["--policy", &cap], "tc qdisc replace dev IFACE"),
        (&["--policy", &budget], "--memory FILE"),
        (&["--policy", &joins], "`path-manager` needs --transport anabranch"),
        (&["--policy", &price], "`[[price]]` needs --transport anabranch"),
        (&["--path-manager", "anabranch"], "--path-manager is for --transport anabranch"),
        (&["--path-manager", "fullmesh"], "full_mesh"),
        (&["--transport", "anabranch", "--path-manager", "anabranch"], "add --to HOST:PORT"),
        (&["--server", "--policy", &one, "--path-manager", "full_mesh"], "--server"),
        (&["--log-destinations"], "--log"),
        (&["--listen", "0.0.0.0:0"], "`[[user]]`"),
        (&["--tun", "tun0"], "--transport anabranch"),
        (&["--transport", "anabranch", "--threads", "2", "--pcap", "f.pcapng"], "--pcap needs --threads 1"),
        (&["--tls"], "add --to HOST:PORT"),
        (&["--to", "host:1", "--key", &one, "--pin", &pin], "--tls"),
        (&["--to", "host:1", "--key", &one, "--tls", "--pin", "sha256:12"], "64 hexadecimal digits"),
        (&["--to", "host:1", "--key", &one, "--tls", "--certificate", &pem], "--server"),
        (&["--server", "--policy", &one, "--tls"], "--certificate FILE"),
        (&["--server", "--policy", &one, "--certificate", &pem], "--tls"),
        (&["--server", "--policy", &one, "--tls", "--certificate", &one], "no certificate in it"),
        (&["--new-certificate", "a b"], "server.example"),
        (&["--transport", "anabranch", "--to", "127.0.0.1:1", "--key", &one], "--tun NAME --address IP"),
    ] {
        // Warnings of the kernel and of the modes of files may come first.
        let output = run(&[&["proxy"], words].concat());
        let found = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && found.contains(error), "{words:?}: {found}");
    }
}
