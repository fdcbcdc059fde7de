//! `anabranch plot` as a command: its figures, its formats, and what it refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn anabranch(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch")).current_dir(directory).args(words).output().unwrap()
}

fn success(directory: &Path, words: &[&str]) {
    let output = anabranch(directory, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn refused(directory: &Path, words: &[&str], why: &str) {
    let output = anabranch(directory, &[&["plot"], words].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains(why), "{words:?}: {error}");
    assert!(!error.contains("panicked"), "{error}");
}

/// Records a small flow over two paths, of which one loses segments.
fn record(directory: &Path, name: &str, more: &[&str]) {
    let words = [
        "run",
        "--path",
        "20Mbit/s,20ms,name=wifi",
        "--path",
        "10Mbit/s,40ms,name=lte,loss=5%",
        "--size",
        "200KB",
        "--schedulers",
        "min_rtt,tcp",
        "--record",
        name,
    ];
    success(directory, &[&words[..], more].concat());
}

fn read(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap()
}

/// The elements that carry text.
fn texts(svg: &str) -> Vec<&str> {
    svg.lines()
        .filter(|line| line.starts_with("<text"))
        .filter_map(|line| line.split_once('>')?.1.strip_suffix("</text>"))
        .collect()
}

#[test]
fn the_time_sequence_graph_of_a_recording_is_the_golden_one() {
    let place = tempfile::tempdir().unwrap();
    record(place.path(), "r", &[]);
    success(place.path(), &["plot", "r", "--figure", "sequence", "-o", "sequence.svg"]);
    let drawn = read(place.path(), "sequence.svg");
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sequence.svg");
    if std::env::var_os("ANABRANCH_UPDATE").is_some() {
        std::fs::write(&golden, &drawn).unwrap();
    }
    assert!(
        drawn == std::fs::read_to_string(&golden).unwrap_or_default(),
        "the figure is not tests/golden/sequence.svg; look at it, and run the test with ANABRANCH_UPDATE=1"
    );
    // As one person wants to read it: units on the axes, every subflow and event in the legend.
    let texts = texts(&drawn);
    for wanted in ["Time (ms)", "wifi", "lte", "DATA_ACK", "window edge", "retransmitted", "min_rtt", "tcp"] {
        assert!(texts.contains(&wanted), "{wanted}: {texts:?}");
    }
    assert!(drawn.contains(">Data offset (KB)</text>"));
}

#[test]
fn every_format_of_tables_gives_the_same_figures() {
    let place = tempfile::tempdir().unwrap();
    for format in ["parquet", "csv", "ndjson"] {
        record(place.path(), format, &["--record-format", format]);
        for figure in ["sequence", "cwnd", "rtt", "queue", "reordering", "paths", "goodput", "completion"] {
            let file = format!("{format}-{figure}.svg");
            success(place.path(), &["plot", format, "--figure", figure, "-o", &file]);
            let first = read(place.path(), &format!("parquet-{figure}.svg"));
            assert_eq!(read(place.path(), &file), first, "{figure} of {format}");
        }
    }
}

#[test]
fn figures_of_comparisons_explanations_and_sweeps_name_their_contenders_and_units() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let common = ["two-paths", "--runs", "2", "--size", "20KB", "--schedulers", "tcp,min_rtt"];
    let run = |verb: &str, more: &[&str]| success(directory, &[&[verb][..], &common, more].concat());
    run("compare", &["--samples", "c.csv", "--json", "-o", "c.json"]);
    run("explain", &["--json", "-o", "e.json"]);
    let explanation: serde_json::Value = serde_json::from_str(&read(directory, "e.json")).unwrap();
    for part in explanation["rows"][0]["parts"].as_array().unwrap() {
        assert_eq!(part["by_path"].as_array().unwrap().len(), 2, "{part}");
    }
    let vary = ["--vary", "path.1.rate=5Mbit/s,20Mbit/s", "--vary", "path.2.rtt=20ms,60ms"];
    success(directory, &[&["sweep", "two-paths", "--runs", "2", "-o", "s"][..], &vary].concat());
    let cases: [(&[&str], &str, &[&str]); 9] = [
        (&["c.json"], "difference", &["min_rtt", "Completion time against tcp (%)"]),
        (&["c.json", "c.csv"], "completion", &["min_rtt", "Completion time (ms)"]),
        (&["c.json"], "completion", &["Completion time, mean of a run (ms)"]),
        (&["c.json", "c.csv"], "cdf", &["min_rtt", "Completion time (ms)"]),
        (&["c.json"], "paths", &["Share of the bytes (%)"]),
        (&["c.json"], "goodput", &["Goodput of a flow, mean (Mbit/s)"]),
        (&["e.json"], "causes", &["Mean time of a flow (ms)", "handshake", "serialisation"]),
        (&["s"], "map", &["path.1.rate (Mbit/s)", "better, %"]),
        (&["s"], "lines", &["path.1.rate (Mbit/s)", "path.2.rtt = 20 ms"]),
    ];
    for (inputs, figure, wanted) in cases {
        success(directory, &[&["plot"], inputs, &["--figure", figure, "-o", "f.svg"]].concat());
        let svg = read(directory, "f.svg");
        let texts = texts(&svg);
        for wanted in wanted {
            assert!(texts.contains(wanted), "{figure}: {wanted}: {texts:?}");
        }
    }
}

#[test]
fn a_selection_keeps_the_colour_of_a_contender_and_the_range_of_time() {
    let place = tempfile::tempdir().unwrap();
    record(place.path(), "r", &[]);
    let plot = |more: &[&str]| {
        success(place.path(), &[&["plot", "r", "--figure", "goodput", "-o", "f.svg"], more].concat());
        read(place.path(), "f.svg")
    };
    let one = plot(&["--schedulers", "min_rtt", "--from", "50ms", "--to", "100ms", "--width", "page"]);
    assert!(one.contains("#0072B2") && !texts(&one).contains(&"tcp"));
    assert!(texts(&one).contains(&"60") && !texts(&one).contains(&"120"));
    assert!(one.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"515.5pt\""), "{}", &one[..90]);
    assert!(plot(&["--font", "Times", "--font-size", "9"]).contains("font-family=\"Times\" font-size=\"9\""));
}

#[cfg(feature = "plot-raster")]
#[test]
fn png_and_pdf_are_whole_files_of_the_right_size() {
    let place = tempfile::tempdir().unwrap();
    record(place.path(), "r", &[]);
    success(place.path(), &["plot", "r", "--figure", "cwnd", "-o", "f.png", "--dpi", "144"]);
    let png = std::fs::read(place.path().join("f.png")).unwrap();
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    // 3.5 inches.
    assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), 504);
    assert_eq!(&png[png.len() - 8..png.len() - 4], b"IEND");
    success(place.path(), &["plot", "r", "--figure", "cwnd", "-o", "f.pdf"]);
    let pdf = String::from_utf8_lossy(&std::fs::read(place.path().join("f.pdf")).unwrap()).into_owned();
    assert!(pdf.starts_with("%PDF-") && pdf.trim_end().ends_with("%%EOF"));
    assert!(pdf.contains("/MediaBox [0 0 252 "), "the page is not 252 pt wide");
    // Text stays text.
    assert!(pdf.contains("/Font"));
}

#[test]
fn an_interrupted_recording_is_marked_in_the_figure() {
    let place = tempfile::tempdir().unwrap();
    record(place.path(), "r", &[]);
    let state = read(place.path(), "r/run.json");
    let state = state
        .replacen("\"complete\": true", "\"complete\": false", 1)
        .replace("\"reason\": null", "\"reason\": \"Ctrl-C\"");
    std::fs::write(place.path().join("r/run.json"), state).unwrap();
    success(place.path(), &["plot", "r", "--figure", "cwnd", "-o", "f.svg"]);
    assert!(read(place.path(), "f.svg").contains("Partial: this recording was interrupted (Ctrl-C)."));
    // A killed run has no tables.
    std::fs::remove_dir_all(place.path().join("r/tcp")).unwrap();
    success(place.path(), &["plot", "r", "--figure", "cwnd", "-o", "f.svg"]);
    let svg = read(place.path(), "f.svg");
    let words: String = texts(&svg).join(" ");
    assert!(words.contains("without tables: tcp"), "{words}");
}

#[test]
fn faults_are_named_with_their_place_and_the_mend() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    record(directory, "r", &["--record-format", "csv"]);
    refused(
        directory,
        &["r", "--figure", "causes", "-o", "f.svg"],
        "only of an explanation; it has sequence, cwnd",
    );
    refused(directory, &["r", "--figure", "cwnd", "-o", "f.jpg"], "must end in .svg, .png or .pdf");
    refused(directory, &["r", "--figure", "cwnd", "-o", "no/f.svg"], "cannot write no/f.svg");
    refused(
        directory,
        &["r", "--figure", "cwnd", "--schedulers", "ecf", "-o", "f.svg"],
        "there are min_rtt, tcp",
    );
    refused(
        directory,
        &["r", "--figure", "cwnd", "--flow", "2", "-o", "f.svg"],
        "r has no flow 2: its runs have only flow 1",
    );
    refused(
        directory,
        &["r", "--figure", "cwnd", "--x", "size", "-o", "f.svg"],
        "--x is for figures of a sweep",
    );
    refused(
        directory,
        &["r", "--figure", "cwnd", "--from", "2s", "--to", "1s", "-o", "f.svg"],
        "--from must be before",
    );
    refused(
        directory,
        &["r", "--figure", "cwnd", "--from", "300s", "-o", "f.svg"],
        "--from 300 s is not before the end of the recording, which is from 0 s to ",
    );
    refused(
        directory,
        &["r", "--figure", "jain", "-o", "f.svg"],
        "Jain's index compares the flows of a run, and there is one",
    );
    refused(directory, &["nothing", "--figure", "cwnd", "-o", "f.svg"], "nothing: cannot read it");
    refused(
        directory,
        &[".", "--figure", "cwnd", "-o", "f.svg"],
        "the directory of neither a sweep nor a recording",
    );
    std::fs::remove_file(directory.join("r/tcp/queues.csv")).unwrap();
    refused(directory, &["r", "--figure", "cwnd", "-o", "f.svg"], "r/tcp/queues.csv: cannot read it");
    let events = directory.join("r/min_rtt/events.csv");
    let damaged =
        read(directory, "r/min_rtt/events.csv").replacen(",up,", ",up,x", 1).replacen("t_ns", "time", 1);
    std::fs::write(&events, damaged).unwrap();
    refused(directory, &["r", "--figure", "cwnd", "-o", "f.svg"], "it has no column `t_ns`");
    assert!(!directory.join("f.svg").exists());
}

#[test]
fn the_list_has_the_figures_of_a_result() {
    let place = tempfile::tempdir().unwrap();
    record(place.path(), "r", &[]);
    let all = String::from_utf8(anabranch(place.path(), &["plot", "--list"]).stdout).unwrap();
    assert!(all.contains("sequence") && all.contains("causes") && all.contains("map"));
    let own = String::from_utf8(anabranch(place.path(), &["plot", "r", "--list"]).stdout).unwrap();
    assert!(own.contains("sequence") && !own.contains("causes") && !own.contains("map"));
}

#[test]
fn a_figure_without_data_names_the_reason_and_the_figures_and_classes_that_have_some() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let paths = ["--path", "10Mbit/s,20ms", "--path", "10Mbit/s,30ms"];
    let bulk = ["--size", "bulk", "--set", "traffic.duration=1s", "--schedulers", "tcp,min_rtt"];
    let compare = ["compare", "--runs", "2", "--json", "-o", "bulk.json"];
    success(directory, &[&compare[..], &paths, &bulk].concat());
    let run = ["run", "--record", "bulk", "-o", "bulk.txt"];
    success(directory, &[&run[..], &paths, &bulk].concat());
    let classes = "
        schedulers = ['tcp', 'min_rtt']
        runs = 2
        path = [{ rate = '20 Mbit/s', rtt = '20 ms' }, { rate = '10 Mbit/s', rtt = '60 ms' }]
        traffic = [
            { name = 'web', kind = 'requests', size = '30 KB', think = '300 ms', duration = '1 s' },
            { name = 'photos', size = '30 KB', flows = 2 },
        ]";
    std::fs::write(directory.join("classes.toml"), classes).unwrap();
    success(directory, &["compare", "classes.toml", "--json", "-o", "classes.json"]);
    let cases: [(&[&str], &str, &[&str]); 6] = [
        (
            &["bulk.json"],
            "completion",
            &["bulk flows have no completion times", "something to show: difference, paths, goodput"],
        ),
        (&["bulk.json"], "jain", &["several bulk flows in a run", "--view fairness"]),
        (&["bulk"], "completion", &["bulk flows have no completion times", "sequence, cwnd, rtt"]),
        (&["bulk.json", "--schedulers", "tcp"], "difference", &["`tcp` is the reference"]),
        (
            &["classes.json", "--traffic", "web"],
            "goodput",
            &[
                "goodput is the measure of transfers, and the traffic is `web` (requests)",
                "this figure: photos",
            ],
        ),
        (&["classes.json"], "jain", &["this comparison has classes of traffic"]),
    ];
    for (input, figure, reasons) in cases {
        for reason in reasons {
            refused(directory, &[input, &["--figure", figure, "-o", "no.svg"]].concat(), reason);
        }
    }
}

#[test]
fn intervals_of_contenders_are_side_by_side() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let vary = ["--vary", "path.1.rate=5Mbit/s,20Mbit/s", "--set", "schedulers=tcp,min_rtt,blest"];
    success(directory, &[&["sweep", "two-paths", "--runs", "3", "-o", "s"][..], &vary].concat());
    success(directory, &["plot", "s", "--figure", "lines", "-o", "f.svg"]);
    let svg = read(directory, "f.svg");
    // Vertical lines of the width of an interval.
    let mut places: Vec<&str> = svg
        .lines()
        .filter(|line| line.contains("stroke-width=\"0.7\""))
        .filter_map(|line| {
            let (from, to) = line.split_once("d=\"M")?.1.split_once('"')?.0.split_once('L')?;
            let (from, to) = (from.split_once(' ')?, to.split_once(' ')?);
            (from.0 == to.0).then_some(from.0)
        })
        .collect();
    assert_eq!(places.len(), 6, "{svg}");
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 6, "an interval is on top of another: {places:?}");
}

#[test]
fn each_class_of_traffic_has_a_panel_with_the_measure_of_its_kind() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let scenario = "
        schedulers = ['tcp', 'min_rtt']
        runs = 3
        path = [
            { name = 'wifi', rate = '20 Mbit/s', rtt = '20 ms', loss = '0.5%' },
            { name = 'lte', rate = '10 Mbit/s', rtt = '60 ms' },
        ]
        traffic = [
            { name = 'web', kind = 'requests', size = '30 KB', think = '300 ms', duration = '2 s' },
            { name = 'sensor', kind = 'on-off', rate = '2 Mbit/s', on = '200 ms', off = '300 ms', duration = '2 s' },
            { name = 'call', kind = 'udp', path = 'wifi', size = '160 B', gap = '20 ms', duration = '2 s' },
            { name = 'photos', size = '300 KB', flows = 2, every = '1 s', direction = 'upload' },
            { name = 'backup', size = 'bulk', duration = '2 s' },
            { name = 'film', kind = 'video', bitrate = '2 Mbit/s', segment = '1 s', buffer = '4 s', duration = '4 s' },
        ]";
    std::fs::write(directory.join("classes.toml"), scenario).unwrap();
    success(directory, &["compare", "classes.toml", "--samples", "c.csv", "--json", "-o", "c.json"]);
    let vary = ["--vary", "path.wifi.rate=5Mbit/s,20Mbit/s", "--vary", "path.lte.rtt=20ms,60ms"];
    success(directory, &[&["sweep", "classes.toml", "--runs", "2", "-o", "s"][..], &vary].concat());
    let plot = |inputs: &[&str], figure: &str, more: &[&str]| {
        success(directory, &[&["plot"], inputs, &["--figure", figure, "-o", "f.svg"], more].concat());
        let svg = read(directory, "f.svg");
        texts(&svg).into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    let count = |texts: &[String], wanted: &str| texts.iter().filter(|text| *text == wanted).count();
    let measures = ["Response time", "Delay of bursts", "One-way delay", "Completion time", "Waiting time"];
    let completion = plot(&["c.json", "c.csv"], "completion", &[]);
    for class in ["web", "sensor", "call", "photos", "film"] {
        assert_eq!(count(&completion, class), 1, "{class}: {completion:?}");
    }
    assert_eq!(count(&completion, "backup"), 0, "bulk has no times: {completion:?}");
    for measure in measures {
        let of = |text: &&String| text.starts_with(measure);
        assert_eq!(completion.iter().filter(of).count(), 1, "{measure}: {completion:?}");
    }
    let difference = plot(&["c.json"], "difference", &[]);
    for wanted in ["backup", "Goodput against tcp (%)", "One-way delay against tcp (%)"] {
        assert_eq!(count(&difference, wanted), 1, "{wanted}: {difference:?}");
    }
    let call = plot(&["c.json"], "difference", &["--traffic", "call"]);
    assert!(
        count(&call, "min_rtt") == 1,
        "the datagrams beside min_rtt are on wifi, and min_rtt is not: {call:?}"
    );
    let one = plot(&["c.json", "c.csv"], "cdf", &["--traffic", "web"]);
    assert!(count(&one, "web") == 1 && count(&one, "call") == 0, "{one:?}");
    assert_eq!(count(&one, "Requests (%)"), 1, "{one:?}");
    let goodput = plot(&["c.json"], "goodput", &[]);
    let shown = ["web", "sensor", "call", "photos", "backup", "film"].map(|class| count(&goodput, class));
    assert_eq!(shown, [0, 0, 0, 1, 1, 0], "the goodput of an application is no measure of the network");
    let paths = plot(&["c.json"], "paths", &[]);
    assert_eq!([count(&paths, "web"), count(&paths, "call")], [1, 0], "datagrams are on one path");
    let lines = plot(&["s"], "lines", &["--x", "path.wifi.rate", "--y", "path.wifi.rate"]);
    for wanted in ["web", "backup", "Waiting time, mean (s)", "Goodput, mean (Mbit/s)"] {
        assert!(count(&lines, wanted) == 1, "{wanted}: {lines:?}");
    }
    let map = plot(&["s"], "map", &[]);
    assert_eq!([count(&map, "web: min_rtt"), count(&map, "film: min_rtt")], [1, 1], "{map:?}");
    let map = plot(&["s"], "map", &["--traffic", "film"]);
    assert_eq!([count(&map, "web: min_rtt"), count(&map, "film: min_rtt")], [0, 1], "{map:?}");
    let unknown = "there is no class of traffic `mail`; there are web, sensor, call, photos, backup, film";
    for inputs in [&["c.json", "--figure", "cdf"][..], &["s", "--figure", "map"]] {
        refused(directory, &[inputs, &["--traffic", "mail", "-o", "no.svg"]].concat(), unknown);
    }
    success(directory, &["compare", "two-paths", "--runs", "2", "--size", "20KB", "--json", "-o", "p.json"]);
    refused(
        directory,
        &["p.json", "--figure", "cdf", "--traffic", "web", "-o", "no.svg"],
        "there is no class of traffic `web`; the traffic of this result has no classes",
    );
    success(directory, &["run", "classes.toml", "--schedulers", "min_rtt", "--record", "c", "-o", "c.txt"]);
    let recorded = plot(&["c"], "completion", &[]);
    let shown = ["web", "sensor", "call", "photos", "film"].map(|class| count(&recorded, class));
    assert_eq!(shown, [0, 0, 0, 1, 0], "transfers alone have completion times: {recorded:?}");
    refused(
        directory,
        &["c", "--figure", "jain", "-o", "no.svg"],
        "Jain's index compares transfers of one class, and this recording has classes of traffic",
    );
    record(directory, "r", &[]);
    refused(
        directory,
        &["r", "--figure", "cwnd", "--traffic", "web", "-o", "no.svg"],
        "--traffic is for figures of a comparison or a sweep, and this is a recording",
    );
}

#[test]
fn figures_over_time_shade_outages() {
    let place = tempfile::tempdir().unwrap();
    let outage = "path.lte.change=[{at=\"100ms\",down=true},{at=\"150ms\",up=true}]";
    record(place.path(), "calm", &[]);
    record(place.path(), "r", &["--set", outage]);
    for (figure, panels) in [("sequence", 2), ("cwnd", 2), ("rtt", 2), ("queue", 2), ("goodput", 1)] {
        let shades = |directory: &str| {
            success(place.path(), &["plot", directory, "--figure", figure, "-o", "f.svg"]);
            let drawn = read(place.path(), "f.svg");
            let count = drawn.matches("fill=\"#e2f3e4\"").count();
            (count, texts(&drawn).contains(&"lte down"))
        };
        // In each panel, and in the key.
        assert_eq!(shades("r"), (panels + 1, true), "{figure}");
        assert_eq!(shades("calm"), (0, false), "{figure}");
    }
}

#[test]
fn numbers_of_ones_own_are_drawn_and_others_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path();
    let panels = r#"[{"panel": "a", "x": "x", "y": "y", "categories": [], "log_x": true, "log_y": false, "curves": [
        {"name": "dmptcp", "printed": false, "dots": [[1, 2.5, [2, 3]], [8, 1, null]]},
        {"name": "paper: dmptcp", "printed": true, "dots": [[1, 3, null]]}]}]"#;
    std::fs::write(path.join("own.json"), panels).unwrap();
    success(path, &["plot", "--curves", "own.json", "-o", "own.svg"]);
    let drawn = read(path, "own.svg");
    assert!(drawn.contains("<title>dmptcp, 1: 2.5 [2, 3]</title>"));
    for text in ["a", "x", "y", "dmptcp", "paper: dmptcp"] {
        assert!(texts(&drawn).contains(&text), "{text}: {drawn}");
    }
    std::fs::write(path.join("empty.json"), "[]").unwrap();
    refused(path, &["--curves", "empty.json", "-o", "x.svg"], "it has no points");
    std::fs::write(path.join("other.json"), "{}").unwrap();
    refused(path, &["--curves", "other.json", "-o", "x.svg"], "it is no list of panels of curves");
    refused(path, &["--curves", "absent.json", "-o", "x.svg"], "cannot read it");
    refused(path, &["--curves", "own.json", "-o", "x.txt"], "its name must end in");
    refused(path, &["--curves", "own.json", "--figure", "cdf", "-o", "x.svg"], "cannot be used with");
}
