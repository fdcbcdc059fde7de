//! No output is an input, a full disk and Ctrl-C leave files as they were. The list of options that write is the
//! command's own, so a new one without a line here fails.
#![cfg(target_os = "linux")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anabranch_cli::files::{FILES, Role};

const SCENARIO: &str = "path = [{ trace = \"one.tr\", rtt = \"20 ms\" }, { rate = \"5 Mbit/s\", rtt = \"40 ms\" }]\n\
    runs = 2\nschedulers = [\"min_rtt\"]\ntraffic = { size = { distribution = \"cdf\", file = \"sizes.txt\" } }\n";
const SIZES: &str = "20000 0.5\n40000 1\n";
const PLAN: &str = "scenario = \"my.toml\"\n[vary]\n\"path.2.rtt\" = [\"10 ms\"]\n";

/// The files that a command with a scenario reads.
const OF_SCENARIO: &[&str] = &["my.toml", "one.tr", "sizes.txt"];
const OF_RESULT: &[&str] = &["r.json", "r.csv", "recorded/run.json", "recorded/min_rtt/flows.csv"];

/// For each option that writes a file: the command, in which OUT is that file, its name for formats that depend on it, and the
/// inputs that must not be lost.
fn command(verb: &str, option: &str) -> (&'static [&'static str], &'static str, &'static [&'static str]) {
    match (verb, option) {
        ("compare", "output") => (&["compare", "my.toml", "-o", "OUT"], "out", OF_SCENARIO),
        ("compare", "samples") => (&["compare", "my.toml", "--samples", "OUT"], "out.csv", OF_SCENARIO),
        ("compare", "pcap") => (&["compare", "my.toml", "--pcap", "OUT"], "out", OF_SCENARIO),
        ("run", "output") => (&["run", "my.toml", "-o", "OUT"], "out", OF_SCENARIO),
        ("run", "samples") => (&["run", "my.toml", "--samples", "OUT"], "out.csv", OF_SCENARIO),
        ("run", "pcap") => (&["run", "my.toml", "--pcap", "OUT"], "out", OF_SCENARIO),
        ("advise", "output") => (&["advise", "my.toml", "--no-margins", "-o", "OUT"], "out", OF_SCENARIO),
        ("explain", "output") => (&["explain", "my.toml", "-o", "OUT"], "out", OF_SCENARIO),
        ("inspect", "output") => (&["inspect", "c.pcapng", "-o", "OUT"], "out", &["c.pcapng"]),
        ("inspect", "anonymise") => (&["inspect", "c.pcapng", "--anonymise", "OUT"], "out", &["c.pcapng"]),
        ("inspect", "scenario") => (&["inspect", "c.pcapng", "--scenario", "OUT"], "out", &["c.pcapng"]),
        ("check", "output") => (&["check", "my.toml", "-o", "OUT"], "out", OF_SCENARIO),
        ("report", "output") => {
            (&["report", "r.json", "r.csv", "recorded", "-o", "OUT"], "out.html", OF_RESULT)
        }
        ("plot", "output") => {
            (&["plot", "r.json", "r.csv", "--figure", "difference", "-o", "OUT"], "out.svg", &OF_RESULT[..2])
        }
        ("emulate", "output") => {
            (&["emulate", "my.toml", "-o", "OUT", "--strict", "--", "true"], "out", OF_SCENARIO)
        }
        ("emulate", "report") => {
            (&["emulate", "my.toml", "--report", "OUT", "--strict", "--", "true"], "out", OF_SCENARIO)
        }
        ("validate", "output") => (&["validate", "my.toml", "-o", "OUT"], "out", OF_SCENARIO),
        ("validate", "csv") => (&["validate", "my.toml", "--csv", "OUT"], "out", OF_SCENARIO),
        ("validate", "pcap") => (&["validate", "my.toml", "--pcap", "OUT"], "out", OF_SCENARIO),
        ("validate", "results") => (&["validate", "my.toml", "--results", "OUT"], "out", OF_SCENARIO),
        ("serve", "pcap") => (
            &["serve", "--tun", "nope0", "--address", "10.0.0.1", "--pcap", "OUT", "recorded"],
            "out",
            &["recorded/run.json"],
        ),
        // Verbs that read no file.
        ("list", "output") => (&["list", "knobs", "-o", "OUT"], "out", &[]),
        ("model", "output") => (&["model", "--cwnd", "8", "--rounds", "4", "-o", "OUT"], "out", &[]),
        ("select", "output") => {
            (&["select", "--path", "1Mbit/s,20ms", "--remaining", "4KB", "-o", "OUT"], "out", &[])
        }
        ("explore", "output") => (&["explore", "-o", "OUT"], "out.html", &[]),
        ("schema", "output") => (&["schema", "-o", "OUT"], "out", &[]),
        ("kernel cc list", "output") => (&["kernel", "cc", "list", "-o", "OUT"], "out", &[]),
        ("kernel cc stats", "output") => (&[], "out", &[]),
        ("kernel top", "output") => (&["kernel", "top", "--once", "-o", "OUT"], "out", &[]),
        ("kernel steer", "output") => (&["kernel", "steer", "--once", "-o", "OUT"], "out", &[]),
        ("doctor", "output") => (&["doctor", "-o", "OUT"], "out", &[]),
        ("get", "output" | "pcap") | ("bench", "output" | "pcap") => (&[], "out", &[]),
        ("tun setup" | "tun show" | "tun teardown", "output") | ("tun share", "socket") => (&[], "out", &[]),
        ("proxy", "memory" | "pcap" | "status") | ("record", "keep" | "output" | "scenario") => {
            (&[], "out", &[])
        }
        _ => panic!("give {verb} --{option}, which writes a file, a command here"),
    }
}

fn written() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().filter(|file| file.2 == Role::Written).map(|file| (file.0, file.1))
}

fn anabranch(directory: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let output = command.args(args).current_dir(directory).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Returns a directory with a scenario, its files, and results.
fn place(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("my.toml"), SCENARIO).unwrap();
    std::fs::write(path.join("plan.toml"), PLAN).unwrap();
    std::fs::write(path.join("sizes.txt"), SIZES).unwrap();
    let trace: String = (1..=100).map(|ms| format!("{ms}\n")).collect();
    std::fs::write(path.join("one.tr"), trace).unwrap();
    path
}

fn with_results(name: &str) -> PathBuf {
    let path = place(name);
    for args in [
        &[
            "compare",
            "my.toml",
            "--schedulers",
            "tcp,min_rtt",
            "--samples",
            "r.csv",
            "--json",
            "-o",
            "r.json",
        ][..],
        &["run", "my.toml", "--record", "recorded", "--record-format", "csv", "-o", "r.txt"],
        &["run", "my.toml", "--pcap", "c.pcapng", "-o", "r.txt"],
    ] {
        let (code, error) = anabranch(&path, args);
        assert_eq!(code, Some(0), "{error}");
    }
    path
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Returns `args` with `out` as the output.
fn with<'a>(args: &[&'a str], out: &'a str) -> Vec<&'a str> {
    args.iter().map(|arg| if *arg == "OUT" { out } else { arg }).collect()
}

#[test]
fn no_output_is_an_input_by_any_name() {
    let place = with_results("output-is-input");
    let mut tried = 0;
    for (verb, option) in written() {
        let (args, name, inputs) = command(verb, option);
        let extension =
            Path::new(name).extension().map_or(String::new(), |e| format!(".{}", e.to_str().unwrap()));
        for input in inputs {
            let before = std::fs::read(place.join(input)).unwrap();
            let (link, hard) = (format!("link{extension}"), format!("hard{extension}"));
            symlink(place.join(input), place.join(&link)).unwrap();
            std::fs::hard_link(place.join(input), place.join(&hard)).unwrap();
            let (plain, dotted) = ((*input).to_owned(), format!("./recorded/../{input}"));
            let before_names = names(&place);
            for out in [&link, &hard, &plain, &dotted] {
                let (code, error) = anabranch(&place, &with(args, out));
                assert_eq!(code, Some(2), "{verb} --{option} {out} ({input}): {error}");
                assert!(
                    error.contains("an input of this command")
                        || error.contains("its name must end in")
                        || error.contains("extension"),
                    "{verb} --{option} {out}: {error}"
                );
                assert_eq!(std::fs::read(place.join(input)).unwrap(), before, "{verb} --{option} {out}");
                assert_eq!(names(&place), before_names, "{verb} --{option} {out}");
                tried += 1;
            }
            std::fs::remove_file(place.join(&link)).unwrap();
            std::fs::remove_file(place.join(&hard)).unwrap();
        }
    }
    assert!(tried > 150, "{tried}");
}

#[test]
fn no_result_replaces_a_scenario_and_no_two_results_are_one_file() {
    let place = place("outputs-and-scenarios");
    // By its name or by its contents, also with a mistake in them.
    let wrong = SCENARIO.replace("runs = 2", "runs = -2");
    let files = [("my.toml", SCENARIO), ("my.scenario", SCENARIO), ("plan", PLAN), ("wrong.txt", &wrong)];
    for (name, text) in files {
        std::fs::write(place.join(name), text).unwrap();
        for args in [&["schema", "-o", name][..], &["list", "knobs", "-o", name]] {
            let (code, error) = anabranch(&place, args);
            assert_eq!(code, Some(2), "{error}");
            assert!(error.contains(&format!("{name} is a file of TOML")), "{error}");
            assert_eq!(std::fs::read_to_string(place.join(name)).unwrap(), text);
        }
    }
    // A result, and an empty file.
    std::fs::write(place.join("new"), "").unwrap();
    for _ in 0..2 {
        let (code, error) = anabranch(&place, &["schema", "-o", "new"]);
        assert_eq!(code, Some(0), "{error}");
    }
    // Names that captures of several contenders are given.
    std::fs::write(place.join("x.min_rtt.tr"), "1\n2\n").unwrap();
    let trace = "path.1.trace=x.min_rtt.tr";
    let args = ["compare", "my.toml", "--set", trace, "--schedulers", "tcp,min_rtt", "--pcap", "x.tr"];
    let (code, error) = anabranch(&place, &args);
    assert_eq!(code, Some(2), "{error}");
    assert_eq!(std::fs::read_to_string(place.join("x.min_rtt.tr")).unwrap(), "1\n2\n");
    let (code, error) = anabranch(&place, &["compare", "my.toml", "--samples", "a.csv", "-o", "./a.csv"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("name the same file"), "{error}");
    assert!(!place.join("a.csv").exists());
    // A report under a name of its own, or to a pipe.
    let (code, error) = anabranch(&place, &["report", "r.json", "-o", "r.txt"]);
    assert!(code == Some(2) && error.contains("r.txt: its name must end in .html"), "{error}");
}

#[test]
fn a_sweep_writes_over_no_file_of_its_plan() {
    let place = place("sweep-is-input");
    let before = names(&place);
    for (args, words) in [
        (&["sweep", "plan.toml", "-o", "my.toml"][..], "my.toml is a file; give a directory"),
        (&["run", "my.toml", "--record", "my.toml"], "my.toml is a file; give a directory"),
        (&["reproduce", "dmptcp", "--out", "my.toml"], "my.toml is a file; give a directory"),
        (&["sweep", "plan.toml", "-o", "."], "holds no sweep"),
    ] {
        let (code, error) = anabranch(&place, args);
        assert_ne!(code, Some(0));
        assert!(error.contains(words), "{error}");
        assert_eq!(names(&place), before);
    }
}

#[test]
fn a_full_disk_is_an_error_of_every_option_that_writes() {
    let place = with_results("full-disk");
    for (verb, option) in written() {
        let (args, name, _) = command(verb, option);
        // These need root, a device or a kernel.
        if args.is_empty() || ["emulate", "validate", "serve"].contains(&verb) {
            continue;
        }
        let full = format!("full-{name}");
        let _ = std::fs::remove_file(place.join(&full));
        symlink("/dev/full", place.join(&full)).unwrap();
        let (code, error) = anabranch(&place, &with(args, &full));
        assert_eq!(code, Some(1), "{verb} --{option}: {error}");
        assert!(error.contains("No space left"), "{verb} --{option}: {error}");
        assert!(place.join(&full).is_symlink());
    }
}

#[test]
fn ctrl_c_leaves_old_results() {
    let place = place("interrupted-outputs");
    for name in ["old.csv", "old.pcapng", "old.txt"] {
        std::fs::write(place.join(name), "old").unwrap();
    }
    let before = names(&place);
    let args =
        "compare my.toml --runs 1000000 --samples old.csv --pcap old.pcapng --no-other-starts -o old.txt";
    let mut child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(args.split(' '))
        .current_dir(&place)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The three temporary files show that it has begun.
    while names(&place).len() < before.len() + 3 {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(&place), before);
    for name in ["old.csv", "old.pcapng", "old.txt"] {
        assert_eq!(std::fs::read_to_string(place.join(name)).unwrap(), "old");
    }
}
