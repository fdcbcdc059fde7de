//! The output on a terminal (line width, colours, progress) and in a pipe.
#![cfg(target_os = "linux")]

use std::process::{Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_anabranch");

/// Returns the output of `anabranch ARGS` on a terminal of this many columns, with these variables.
///
/// `script` of util-linux makes the terminal; it is available on every Linux with Rust's tools.
fn on_terminal(columns: usize, variables: &[(&str, &str)], args: &str) -> String {
    let command = format!("stty cols {columns} rows 24; exec {BINARY} {args}");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null());
    // CI has colours on a dumb terminal too.
    script.env_remove("NO_COLOR").env_remove("CI").env("TERM", "xterm").env("SHELL", "/bin/sh");
    script.envs(variables.iter().copied());
    let output = script.output().expect("`script` (Debian: apt install bsdutils)");
    let text = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn in_pipe(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Returns `text` without the codes of colours.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, code)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = code.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

const COMPARE: &str = "compare --path 50Mbit/s,20ms --path 20Mbit/s,60ms,loss=0.1% --size 3MB --runs 3";

#[test]
fn everything_fits_a_terminal_of_80_columns() {
    for args in [
        "--help",
        "compare --help",
        "tun setup --help",
        "list knobs",
        "list parameters",
        "list schedulers",
        "list scenarios",
        "check two-paths",
        "run figure8",
        "model --cwnd 8 --rounds 6 --loss 1%",
        "select --path 100Mbit/s,20ms,cwnd=8 --path 100Mbit/s,80ms,cwnd=1 --remaining 40KB",
        COMPARE,
        "compare --path 10Mbit/s,20ms --path 10Mbit/s,30ms --size bulk --runs 2 --set traffic.duration=1s",
        "doctor",
    ] {
        for columns in [80, 120] {
            let text = plain(&on_terminal(columns, &[], args));
            assert!(text.lines().count() > 1, "{args}: {text}");
            for line in text.lines() {
                assert!(line.chars().count() <= columns, "{args}, {columns} columns: {line}");
            }
        }
    }
}

#[test]
fn there_is_colour_where_a_person_looks_and_nowhere_else() {
    let coloured = |text: &str| text.contains("\x1b[");
    let text = on_terminal(80, &[], COMPARE);
    let row = text.lines().find(|line| plain(line).starts_with("dmptcp")).unwrap();
    assert!(coloured(row), "{text}");
    assert!(coloured(&on_terminal(80, &[], "check figure8")));
    assert!(coloured(&on_terminal(80, &[], "compare nope")));
    assert!(coloured(&on_terminal(80, &[], "--help")));
    for (variables, more) in [
        (&[("NO_COLOR", "1")][..], ""),
        (&[("TERM", "dumb")], ""),
        (&[], " --color never"),
        (&[], " --color=never"),
    ] {
        for args in [COMPARE, "check figure8", "compare nope", "--help", "compare --frobnicate"] {
            let text = on_terminal(80, variables, &format!("{args}{more}"));
            assert!(!coloured(&text), "{variables:?} {args}{more}: {text}");
        }
    }
    let words: Vec<&str> = COMPARE.split(' ').collect();
    assert!(!coloured(&String::from_utf8(in_pipe(&words).stdout).unwrap()));
    let always = [&words[..], &["--color", "always"]].concat();
    assert!(coloured(&String::from_utf8(in_pipe(&always).stdout).unwrap()));
    let json = [&always[..], &["--json"]].concat();
    assert!(!coloured(&String::from_utf8(in_pipe(&json).stdout).unwrap()));
}

#[test]
fn a_pipe_has_the_same_width_everywhere() {
    let words: Vec<&str> = COMPARE.split(' ').collect();
    let text = String::from_utf8(in_pipe(&words).stdout).unwrap();
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!((81..=100).contains(&widest), "{text}");
    // A line for each knob, for programs.
    let knobs = String::from_utf8(in_pipe(&["list", "knobs"]).stdout).unwrap();
    assert!(knobs.lines().all(|line| !line.starts_with(' ')), "{knobs}");
}

#[test]
fn quiet_says_nothing_beside_the_result() {
    let pcap = format!("{}/quiet.pcapng", env!("CARGO_TARGET_TMPDIR"));
    let args = ["run", "figure8", "--set", "schedulers=tcp", "--pcap", &pcap];
    let remark = |args: &[&str]| String::from_utf8(in_pipe(args).stderr).unwrap();
    assert!(remark(&args).starts_with("captured "));
    assert_eq!(remark(&[&args[..], &["--quiet"]].concat()), "");
    assert_eq!(remark(&[&["-q"], &args[..]].concat()), "");
    assert!(!in_pipe(&["-q", "compare", "nope"]).stderr.is_empty(), "errors are said");
}

/// Names that a terminal would obey: a title, a cleared screen, a line break, a bell, and text that runs backwards.
const HOSTILE: &str = r#"
schedulers = ["tcp", "min_rtt"]
runs = 2
traffic.size = "20 KB"
path = [
    { name = "a\u001B]0;owned\u0007", rate = "5 Mbit/s", rtt = "20 ms" },
    { name = "b\nbroken\r\u009B2J", rate = "9 Mbit/s", rtt = "20 ms" },
]
condition = [{ name = "x\u001B[2J\ny\u202E" }, { name = "\u001B[31mred" }]
"#;

#[test]
fn no_name_reaches_a_terminal_as_a_control_character() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("hostile.toml");
    std::fs::write(&file, HOSTILE).unwrap();
    let file = file.to_str().unwrap();
    let samples = place.path().join("\u{1b}]0;x\u{7}.csv");
    let url = "http://h/\u{1b}[2J";
    for args in [
        &["compare", file, "--every-path", "--samples", samples.to_str().unwrap()][..],
        &["compare", file, "--json"],
        &["compare", file, "--view", "fairness"],
        &["run", file],
        &["explain", file],
        &["check", file],
        &["advise", file, "--condition", "x"],
        &["advise", file, "--no-margins", "--runs", "10"],
        &["sweep", file, "--vary", "path.1.rate=5Mbit/s,6Mbit/s", "--points"],
        &["sweep", file, "--vary", "path.1.rate=\u{1b}[2J", "--points"],
        &["compare", "\u{1b}]0;owned\u{7}"],
        &["compare", "--path", "\u{1b}[2J,20ms"],
        &["compare", file, "--set", "initial=\u{9b}2J"],
        &["compare", "--runs", "\u{1b}[2J"],
        &["report", "\u{1b}[2J.json", "-o", "x.html"],
        &["get", url, "--tun", "\u{1b}[2J", "--address", "10.0.0.1"],
    ] {
        let output = in_pipe(args);
        for text in [output.stdout, output.stderr] {
            let text = String::from_utf8(text).unwrap();
            let found = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
            assert_eq!(found, None, "{args:?}: {text}");
        }
    }
    // A name with a line break is one cell, and JSON has it as it is.
    let table = String::from_utf8(in_pipe(&["run", file]).stdout).unwrap();
    assert!(table.contains("x\\u{1b}[2J\\ny\\u{202e}"), "{table}");
    let json: serde_json::Value =
        serde_json::from_slice(&in_pipe(&["compare", file, "--json"]).stdout).unwrap();
    assert_eq!(json["conditions"][0]["paths"][1], "b\nbroken\r\u{9b}2J");
    assert_eq!(json["conditions"][0]["name"], "x\u{1b}[2J\ny\u{202e}");
    // It begins no statement and no remark.
    let verdict = json["verdict"].as_str().unwrap().to_owned();
    let advice = in_pipe(&["advise", file, "--no-margins", "--runs", "10"]);
    // A pipe gets no colours.
    let places = ["x\\u{1b}[2J\\ny", "\\u{1b}[31mred: ", "red: "];
    for text in [verdict, String::from_utf8(advice.stderr).unwrap()] {
        let is_own = |line: &str| places.iter().any(|place| line.starts_with(place));
        assert!(!text.is_empty() && text.lines().all(is_own), "{text}");
    }
}
