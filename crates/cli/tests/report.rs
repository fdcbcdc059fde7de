//! `anabranch report` as a command: what it takes, what it refuses, and what it leaves.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn anabranch(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch")).current_dir(directory).args(words).output().unwrap()
}

fn success(directory: &Path, words: &[&str]) {
    let output = anabranch(directory, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a comparison with its samples.
fn compare(directory: &Path, name: &str, seed: &str) {
    let (json, samples) = (format!("{name}.json"), format!("{name}.csv"));
    let words = [
        "compare",
        "two-paths",
        "--runs",
        "2",
        "--seed",
        seed,
        "--size",
        "20KB",
        "--schedulers",
        "tcp,min_rtt",
    ];
    success(directory, &[&words[..], &["--samples", &samples, "--json", "-o", &json]].concat());
}

/// The data of a report.
fn data(path: &Path) -> Value {
    let page = std::fs::read_to_string(path).unwrap();
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn refused(directory: &Path, inputs: &[&str], why: &str) {
    let output = anabranch(directory, &[&["report", "-o", "refused.html"], inputs].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains(why), "{inputs:?}: {error}");
    assert!(!directory.join("refused.html").exists(), "{inputs:?}");
}

#[test]
fn a_comparison_is_in_the_report_as_it_is_with_all_its_flows() {
    let place = tempfile::tempdir().unwrap();
    compare(place.path(), "a", "1");
    success(place.path(), &["report", "a.json", "a.csv", "-o", "a.html"]);
    let data = data(&place.path().join("a.html"));
    let comparison: Value =
        serde_json::from_slice(&std::fs::read(place.path().join("a.json")).unwrap()).unwrap();
    let input = &data["inputs"][0];
    assert_eq!(input["kind"], "comparison");
    assert_eq!(input["comparison"], comparison);
    let flows: u64 =
        comparison["rows"].as_array().unwrap().iter().map(|row| row["n"].as_u64().unwrap()).sum();
    assert_eq!(input["samples"]["fct_s"].as_array().unwrap().len() as u64, flows);
}

#[test]
fn a_sweep_has_its_values_and_a_part_of_it_counts_as_one() {
    let place = tempfile::tempdir().unwrap();
    let vary = ["--vary", "path.1.rate=5..20 Mbit/s:3", "--vary", "path.2.rtt=20ms,60ms"];
    let sweep = [&["sweep", "two-paths", "--runs", "1", "-o"][..], &["all"], &vary].concat();
    success(place.path(), &sweep);
    let part =
        [&["sweep", "two-paths", "--runs", "1", "--shard", "1/2", "-o"][..], &["part"], &vary].concat();
    success(place.path(), &part);
    success(place.path(), &["report", "all", "part", "-o", "sweep.html"]);
    let data = data(&place.path().join("sweep.html"));
    let [all, part] = [&data["inputs"][0], &data["inputs"][1]];
    assert_eq!(all["dimensions"][0]["unit"], "Mbit/s");
    let values: Vec<&Value> =
        all["results"].as_array().unwrap().iter().map(|point| &point["values"]).collect();
    let expected = [[5.0, 20.0], [5.0, 60.0], [12.5, 20.0], [12.5, 60.0], [20.0, 20.0], [20.0, 60.0]];
    assert_eq!(values, expected.map(|pair| serde_json::json!(pair)).iter().collect::<Vec<_>>());
    assert_eq!(part["points"], 6);
    assert_eq!(part["results"].as_array().unwrap().len(), 3);
}

/// The flows in detail of each run, counted from 1.
fn flows(data: &Value) -> Vec<Vec<u64>> {
    let runs = data["inputs"][0]["runs"].as_array().unwrap();
    let streams = |run: &Value| run["streams"].as_array().unwrap().clone();
    runs.iter()
        .map(|run| streams(run).iter().map(|stream| stream["flow"].as_u64().unwrap() + 1).collect())
        .collect()
}

#[test]
fn a_recording_begins_with_the_flow_that_was_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let run = ["run", "two-paths", "--size", "20KB", "--flows", "3", "--schedulers", "tcp,min_rtt"];
    success(path, &[&run[..], &["--record", "r", "-o", "r.txt"]].concat());
    for flow in ["1", "2", "3"] {
        success(path, &["report", "r", "--flow", flow, "-o", "r.html"]);
        let data = data(&path.join("r.html"));
        let number: u64 = flow.parse().unwrap();
        assert_eq!(data["inputs"][0]["flow"], number - 1);
        for flows in flows(&data) {
            assert_eq!(flows[0], number);
            let mut all = flows.clone();
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3], "the others follow");
        }
    }
    success(path, &["report", "r", "-o", "r.html"]);
    assert_eq!(data(&path.join("r.html"))["inputs"][0]["flow"], Value::Null);
    refused(path, &["r", "--flow", "4"], "r has no flow 4: its runs have flows 1 to 3");
    refused(path, &["r", "--flow", "0"], "--flow");
    compare(path, "a", "1");
    refused(path, &["a.json", "--flow", "1"], "--flow is for recordings, and no input is one");
}

#[test]
fn of_bulk_flows_the_one_with_the_least_goodput_is_first() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let bulk = ["--set", "traffic.size=bulk", "--set", "traffic.duration=1s"];
    let run = ["run", "two-paths", "--flows", "3", "--schedulers", "min_rtt", "--record", "r", "-o", "r.txt"];
    success(path, &[&run[..], &bulk].concat());
    success(path, &["report", "r", "-o", "r.html"]);
    let data = data(&path.join("r.html"));
    let goodput: Vec<u64> = data["inputs"][0]["runs"][0]["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| flow["goodput_bps"].as_u64().unwrap())
        .collect();
    let shown: Vec<u64> = flows(&data)[0].iter().map(|flow| goodput[*flow as usize - 1]).collect();
    assert!(shown.len() == 3 && shown.is_sorted(), "{goodput:?} {shown:?}");
}

#[test]
fn what_is_no_result_is_refused_and_leaves_no_file() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    compare(path, "a", "1");
    compare(path, "b", "2");
    std::fs::write(path.join("text.json"), "hello").unwrap();
    std::fs::write(path.join("other.json"), "{\"a\": 1}").unwrap();
    let json = std::fs::read_to_string(path.join("a.json")).unwrap();
    std::fs::write(path.join("later.json"), json.replacen("\"schema\": 1", "\"schema\": 2", 1)).unwrap();
    std::fs::create_dir(path.join("empty")).unwrap();
    let mut damaged: Value = serde_json::from_str(&json).unwrap();
    damaged["rows"][1]["fct_s"]["mean"] = "x".into();
    std::fs::write(path.join("damaged.json"), damaged.to_string()).unwrap();
    damaged["rows"][0].as_object_mut().unwrap().remove("fct_s");
    std::fs::write(path.join("partial.json"), damaged.to_string()).unwrap();
    refused(path, &["damaged.json"], "`rows[1].fct_s.mean`: invalid type: string \"x\", expected f64");
    refused(path, &["partial.json"], "`rows[0]`: missing field `fct_s`");
    success(
        path,
        &["explain", "two-paths", "--runs", "1", "--schedulers", "tcp,min_rtt", "--json", "-o", "e.json"],
    );
    let explanation = std::fs::read(path.join("e.json")).unwrap();
    let mut explanation: Value = serde_json::from_slice(&explanation).unwrap();
    explanation["rows"][0]["parts"][0]["share_pct"] = "x".into();
    std::fs::write(path.join("explained.json"), explanation.to_string()).unwrap();
    refused(
        path,
        &["explained.json"],
        "`rows[0].parts[0].share_pct`: invalid type: string \"x\", expected f64",
    );
    refused(path, &["text.json"], "it is not JSON");
    refused(path, &["other.json"], "it is neither a comparison nor an explanation");
    refused(path, &["later.json"], "its schema is 2, and this version of anabranch reads 1");
    refused(path, &["a.csv"], "follows no comparison");
    refused(path, &["a.json", "b.csv"], "it does not have the flows of a.json");
    refused(path, &["a.json", "a.csv", "a.csv"], "has samples already");
    refused(path, &["empty"], "it is the directory of neither a sweep nor a recording");
    refused(path, &["absent.json"], "cannot read it");
}

/// Five kinds of traffic over two paths.
const CLASSES: &str = "
    schedulers = ['tcp', 'min_rtt']
    runs = 3
    [[path]]
    name = 'wifi'
    rate = '20 Mbit/s'
    rtt = '20 ms'
    loss = '0.5%'
    [[path]]
    name = 'lte'
    rate = '10 Mbit/s'
    rtt = '60 ms'
    [[traffic]]
    name = 'web'
    kind = 'requests'
    size = { distribution = 'exponential', mean = '30 KB' }
    think = '300 ms'
    duration = '2 s'
    [[traffic]]
    name = 'video'
    kind = 'video'
    bitrate = ['1 Mbit/s', '4 Mbit/s']
    segment = '1 s'
    buffer = '4 s'
    duration = '4 s'
    [[traffic]]
    name = 'call'
    kind = 'udp'
    path = 'wifi'
    size = '160 B'
    gap = '20 ms'
    duration = '2 s'
    [[traffic]]
    name = 'photos'
    size = '300 KB'
    flows = 2
    every = '1 s'
    direction = 'upload'
    [[traffic]]
    name = 'backup'
    size = 'bulk'
    duration = '2 s'
";

#[test]
fn the_samples_of_each_class_have_the_times_of_its_measure() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    std::fs::write(path.join("classes.toml"), CLASSES).unwrap();
    for format in ["csv", "ndjson", "parquet"] {
        let samples = format!("c.{format}");
        success(path, &["compare", "classes.toml", "--samples", &samples, "--json", "-o", "c.json"]);
        success(path, &["report", "c.json", &samples, "-o", "c.html"]);
        let data = data(&path.join("c.html"));
        let (rows, samples) = (&data["inputs"][0]["comparison"]["rows"], &data["inputs"][0]["samples"]);
        let column = |name: &str| samples[name].as_array().unwrap();
        let places = |list: &str, name: &Value| column(list).iter().position(|known| known == name).unwrap();
        for row in rows.as_array().unwrap() {
            let own = [places("traffics", &row["traffic"]), places("schedulers", &row["scheduler"])];
            let is_own = |at: &usize| [&column("traffic")[*at], &column("scheduler")[*at]] == own;
            let own: Vec<&Value> =
                (0..column("run").len()).filter(is_own).map(|at| &column("fct_s")[at]).collect();
            assert_eq!(own.len() as u64, row["n"].as_u64().unwrap(), "{row}");
            let times: Vec<f64> = own.iter().filter_map(|time| time.as_f64()).collect();
            let mean = (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64);
            assert_eq!(mean.is_some(), row["fct_s"]["mean"].is_number(), "{format}: {row}");
            let close = |mean: f64| (mean - row["fct_s"]["mean"].as_f64().unwrap()).abs() < 1e-12;
            assert!(mean.is_none_or(close), "{format}: {mean:?} {row}");
        }
    }
    success(path, &["compare", "classes.toml", "--seed", "2", "--samples", "other.csv", "-o", "other.txt"]);
    refused(path, &["c.json", "other.csv"], "it does not have the flows of c.json");
    let csv = std::fs::read_to_string(path.join("c.csv")).unwrap();
    std::fs::write(path.join("swapped.csv"), csv.replace(",call,udp,", ",backup,udp,")).unwrap();
    refused(path, &["c.json", "swapped.csv"], "tcp for call has 0 there, and 3 in the comparison");
    std::fs::write(path.join("new.csv"), csv.replacen(",call,udp,", ",game,udp,", 1)).unwrap();
    refused(path, &["c.json", "new.csv"], "for call has 2 there");
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let delay = header.iter().position(|name| *name == "delay_mean_s").unwrap();
    let late = csv.lines().map(|line| {
        let mut cells: Vec<&str> = line.split(',').collect();
        if line.contains(",call,udp,") {
            cells[delay] = "0.5";
        }
        cells.join(",") + "\n"
    });
    std::fs::write(path.join("late.csv"), late.collect::<String>()).unwrap();
    refused(path, &["c.json", "late.csv"], "the mean time of tcp for call is another one");
    compare(path, "plain", "1");
    refused(path, &["c.json", "plain.csv"], "it has no column `traffic`");
}

#[test]
fn the_rows_of_a_sweep_have_their_class_and_its_kind() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    std::fs::write(path.join("classes.toml"), CLASSES).unwrap();
    let vary = ["--vary", "path.wifi.rate=5Mbit/s,20Mbit/s", "--runs", "2"];
    success(path, &[&["sweep", "classes.toml", "-o", "s"][..], &vary].concat());
    success(path, &["report", "s", "-o", "s.html"]);
    let data = data(&path.join("s.html"));
    let rows = data["inputs"][0]["results"][0]["rows"].as_array().unwrap();
    let kinds: Vec<String> =
        rows.iter().step_by(2).map(|row| format!("{} {}", row["traffic"], row["kind"])).collect();
    let expected = [
        "\"web\" \"requests\"",
        "\"video\" \"video\"",
        "\"call\" \"udp\"",
        "\"photos\" \"transfer\"",
        "\"backup\" \"transfer\"",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_recording_has_the_class_of_each_flow_and_no_index_over_several_classes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    // A class called `beside` is one of the contender's, and a plain TCP is none.
    let other = "
    [[traffic]]
    name = 'beside'
    size = '20 KB'
    [[traffic]]
    name = 'sync'
    size = '20 KB'
    via = 'tcp'
    path = 'lte'
    ";
    std::fs::write(path.join("classes.toml"), format!("{CLASSES}{other}")).unwrap();
    success(path, &["run", "classes.toml", "--schedulers", "min_rtt", "--record", "r", "-o", "r.txt"]);
    success(path, &["report", "r", "-o", "r.html"]);
    let page = data(&path.join("r.html"));
    let run = &page["inputs"][0]["runs"][0];
    let flows: Vec<(&str, &str, bool)> = run["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| {
            let text = |key: &str| flow[key].as_str().unwrap();
            (text("name"), text("kind"), flow["own"].as_bool().unwrap())
        })
        .collect();
    let expected = [
        ("web 1", "requests", true),
        ("video 1", "video", true),
        ("call 1", "udp", false),
        ("photos 1", "transfer", true),
        ("photos 2", "transfer", true),
        ("backup 1", "transfer", true),
        ("beside 1", "transfer", true),
        ("sync 1", "transfer", false),
    ];
    assert_eq!(flows, expected);
    assert_eq!(run["jain"], Value::Null);
    let only = CLASSES.split("[[traffic]]").collect::<Vec<_>>();
    std::fs::write(path.join("one.toml"), [only[0], only[4]].join("[[traffic]]")).unwrap();
    success(path, &["run", "one.toml", "--schedulers", "min_rtt", "--record", "one", "-o", "r.txt"]);
    success(path, &["report", "one", "-o", "one.html"]);
    assert!(data(&path.join("one.html"))["inputs"][0]["runs"][0]["jain"].is_number());
}
