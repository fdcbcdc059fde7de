//! Invalid input, and destinations that cannot be written: each gets a helpful error, with the exit code of
//! its kind, and leaves nothing behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch")).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Returns the error of a command that must fail with `code`.
fn failure(args: &[&str], code: i32) -> String {
    let output = run(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(error.starts_with("error: "), "{args:?}: {error}");
    assert!(!error.contains("panicked") && !error.contains(".partial"), "{args:?}: {error}");
    error
}

/// Returns both outputs of a command that must succeed.
fn success(args: &[&str]) -> (String, String) {
    let output = run(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {error}");
    (String::from_utf8(output.stdout).unwrap(), error)
}

/// Returns an empty directory for the test `name`.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

const PATH: [&str; 3] = ["compare", "--path", "10Mbit/s,20ms"];

#[test]
fn negative_numbers_are_values_and_are_refused_as_such() {
    for (args, words) in [
        (&["compare", "--runs", "-3"][..], "-3 is out of range"),
        (&["compare", "--flows", "-3"], "-3 is out of range"),
        (&["compare", "--seed", "-1"], "-1 is out of range"),
        (&["compare", "--seed", "9223372036854775808"], "9223372036854775808 is out of range\n"),
        (
            &["compare", "--seed", "99999999999999999999999"],
            "give a whole number from 0 to 9223372036854775807",
        ),
        (&["compare", "--jobs", "-1"], "-1 is out of range; give a whole number from 0"),
        (&["compare", "--size", "-5KB"], "`-5KB` is negative"),
        (&["compare", "--path", "-5Mbit/s,20ms"], "`-5Mbit/s` is negative"),
        (&["compare", "--min-effect", "-1%"], "`-1%` is not between 0 and 1"),
        (
            &["compare", "--pcap", "x", "--pcap-snaplen", "-1"],
            "-1 is out of range; give a whole number, at least 1",
        ),
        (
            &["model", "--cwnd", "-1", "--rounds", "4"],
            "-1 is out of range; give a whole number from 1 to 1000000",
        ),
        (&["model", "--cwnd", "8", "--rounds", "4", "--loss", "-1"], "`-1` is not between 0 and 1"),
        (&["select", "--path", "-1Mbit/s,20ms", "--remaining", "4KB"], "`-1Mbit/s` is negative"),
        (&["select", "--path", "1Mbit/s,20ms", "--remaining", "-4KB"], "`-4KB` is negative"),
    ] {
        let error = failure(args, 2);
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn numbers_that_are_none_or_too_large_are_refused() {
    for (args, words) in [
        (&["compare", "--runs", ""][..], "`` is not a whole number"),
        (&["compare", "--runs", "1e3"], "`1e3` is not a whole number"),
        (&["compare", "--runs", "99999999999999999999999"], "is out of range"),
        (&["compare", "--jobs", "nan"], "`nan` is not a whole number"),
        (&["compare", "--jobs", "99999999999999999999999"], "is out of range"),
        (&["compare", "--path", "NaN,20ms"], "`NaN` is not a rate"),
        (&["compare", "--path", "1e400Mbit/s,20ms"], "is too large"),
        (&["compare", "--path", "10Mbit/s,20ms,loss=nan"], "`nan` is not a probability"),
        (&["compare", "--path", "10Mbit/s,20ms,queue=0BDP"], "the queue has no space"),
        (
            &["compare", "--path", "10Mbit/s,20ms,change=[{at=\"1s\",dwon=true}]"],
            "unknown key `dwon` in a change",
        ),
        (&["compare", "--path", "10Mbit/s,20ms,change=[{at=\"1s\""], "not TOML"),
        (&["compare", "--path", "10Mbit/s,20ms,queue=0ms"], "the queue has no space"),
        (&["compare", "--size", "web", "--set", "traffic.load=5000%"], "a load of 5000% is out of range"),
        (&["compare", "--size", "web", "--set", "traffic.load=0%"], "a load of 0% is out of range"),
        (&["model", "--cwnd", "nan", "--rounds", "4"], "`nan` is not a whole number"),
        (&["select", "--path", "1Mbit/s,20ms", "--remaining", "4KB", "--mss", "0"], "0 is out of range"),
    ] {
        let error = failure(args, 2);
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn what_is_probably_not_meant_is_done_with_a_warning() {
    let small = ["--size", "20KB", "--runs", "2", "--schedulers", "tcp", "--set", "deadline=2s"];
    let warned = |more: &[&str]| {
        let output = run(&[&["compare"], more, &small].concat());
        String::from_utf8(output.stderr).unwrap()
    };
    let error = warned(&["--path", "10Mbit/s,20ms,loss=1"]);
    assert!(
        error.contains("warning: path 1 loses every packet (loss); if 1 % is meant, write `loss=1%`"),
        "{error}"
    );
    let error = warned(&["--path", "10Mbit/s,20ms,loss-up=0.5"]);
    assert!(error.contains("warning: path 1 loses 50% of the packets (loss-up)"), "{error}");
    let error = warned(&["--path", "10Mbit/s,20ms", "--min-effect", "1"]);
    assert!(error.contains("write `min-effect=1%`"), "{error}");
    assert_eq!(warned(&["--path", "10Mbit/s,20ms,loss=1%"]), "");
}

#[test]
fn names_that_others_use_are_understood() {
    let json = |cc: &str| {
        let args = ["--size", "20KB", "--runs", "2", "--schedulers", "tcp", "--json", "--cc", cc];
        let object: serde_json::Value =
            serde_json::from_str(&success(&[&PATH[..], &args].concat()).0).unwrap();
        (object["rows"][0]["congestion"].clone(), object["scenario_hash"].clone())
    };
    assert_eq!(json("reno"), json("newreno"));
    assert_eq!(json("reno").0, "newreno");
    success(&[&PATH[..], &["--size", "Web", "--runs", "2"]].concat());
    // Flows may arrive faster than the paths carry them.
    let load = ["--size", "web", "--flows", "20", "--runs", "2", "--set", "traffic.load=500%"];
    success(&[&PATH[..], &load].concat());
}

#[test]
fn a_directory_or_a_device_is_no_place_for_captures() {
    let own = directory("captures-of-hostile");
    let inside = own.join("inside");
    std::fs::create_dir(&inside).unwrap();
    let slash = format!("{}/new/", own.display());
    for place in [inside.to_str().unwrap(), &slash] {
        let error = failure(&[&PATH[..], &["--size", "20KB", "--runs", "2", "--pcap", place]].concat(), 2);
        assert!(error.contains("it is a directory; give the name of a file in it"), "{error}");
    }
    let error = failure(&[&PATH[..], &["--size", "20KB", "--runs", "2", "--pcap", "/dev/null"]].concat(), 2);
    assert!(error.contains("a device or a pipe, which cannot take 5 captures"), "{error}");
    let missing = own.join("missing/x.pcapng");
    let error = failure(&[&PATH[..], &["--pcap", missing.to_str().unwrap()]].concat(), 2);
    assert!(error.contains(&format!("there is no directory {}", own.join("missing").display())), "{error}");
    let left: Vec<_> = std::fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["inside"]);
}

#[test]
fn results_go_to_a_file_whole_or_not_at_all() {
    let own = directory("outputs-of-hostile");
    let file = own.join("result.txt");
    let name = file.to_str().unwrap();
    for (args, words) in [
        (&["list", "knobs"][..], "rto.min"),
        (&["list", "schedulers", "--json"], "\"name\": \"dmptcp\""),
        (&["model", "--cwnd", "8", "--rounds", "4"], "4 round trips"),
        (&["check", "figure8"], "figure8: OK: "),
        (&["check", "figure8", "--json"], "\"scenario_hash\""),
        (&["run", "figure8"], "packet-hops"),
        (&["select", "--path", "1Mbit/s,20ms", "--remaining", "4KB"], "alone."),
        (&[PATH[0], PATH[1], PATH[2], "--size", "20KB", "--runs", "2", "--color", "always"], "mean ms"),
    ] {
        let (out, error) = success(&[args, &["-o", name]].concat());
        assert_eq!((out.as_str(), error.as_str()), ("", ""), "{args:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(words) && !text.contains('\x1b'), "{args:?}: {text}");
        assert!(text.ends_with('\n'));
    }
    // The file is unchanged if there is no result.
    std::fs::write(&file, "before").unwrap();
    failure(&["compare", "--path", "10Mbit/s", "-o", name], 2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
    let error = failure(&["list", "knobs", "--output", own.to_str().unwrap()], 2);
    assert!(error.contains("it is a directory"), "{error}");
    let error = failure(&["list", "knobs", "--output", own.join("no/x").to_str().unwrap()], 2);
    assert!(error.contains("there is no directory"), "{error}");
    let samples = own.join("directory.csv");
    std::fs::create_dir(&samples).unwrap();
    let error = failure(&[&PATH[..], &["--samples", samples.to_str().unwrap()]].concat(), 2);
    assert!(error.contains("it is a directory"), "{error}");
    std::fs::remove_dir(&samples).unwrap();
    assert_eq!(std::fs::read_dir(&own).unwrap().count(), 1);
    // `-` is standard output.
    assert!(success(&["list", "profiles", "-o", "-"]).0.contains("ns3"));
}

#[test]
fn a_capture_that_cannot_be_read_is_named_with_the_fix() {
    let place = directory("inspected-by-hostile");
    let file = |name: &str, bytes: &[u8]| {
        let path = place.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let empty_pcap = [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 8], &[0, 0, 4, 0, 1, 0, 0, 0]].concat();
    let (text, pcap) = (file("text", b"no capture"), file("empty.pcap", &empty_pcap));
    let two = file("two.pcapng", b"");
    success(&["run", "--path", "5Mbit/s,20ms", "--size", "50KB", "--schedulers", "tcp", "--pcap", &two]);
    for (args, words) in [
        (&["inspect", &text][..], "is not a capture"),
        (&["inspect", "no/such.pcap"], "cannot read the capture no/such.pcap: No such file"),
        (&["inspect", place.to_str().unwrap()], "is a directory"),
        (&["inspect", &pcap], "has no packets; capture with `tcpdump"),
        (&["inspect", "-", "-"], "standard input is given twice"),
        (&["inspect", "-"], "is empty"),
        (
            &["inspect", &two, "--connection", "2"],
            "there is no connection 2: the capture has only connection 1",
        ),
        (&["inspect", &two, "--connection", "0"], "0 is out of range"),
        (&["inspect", &two, "--scheduler", "nope", "--simulate"], "`nope`"),
        (&["inspect", &two, "--simulate", "--cc", "cubicc"], "did you mean `cubic`?"),
    ] {
        let error = failure(args, 2);
        assert!(error.contains(words), "{args:?}: {error}");
    }
    // One connection, as a scenario that runs.
    let scenario = place.join("new.toml");
    success(&["inspect", &two, "--scenario", scenario.to_str().unwrap()]);
    let (text, _) = success(&["check", scenario.to_str().unwrap()]);
    assert!(text.contains("OK"), "{text}");
    let (text, _) = success(&["inspect", &two, "--simulate"]);
    assert!(text.contains("completion, s"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_and_a_full_standard_error_is_none() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = failure(&["list", "knobs", "-o", "/dev/full"], 1);
    assert!(error.contains("cannot write /dev/full: No space left"), "{error}");
    // The exit code is that of the error, and not of a crash.
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let output = command.args(["compare", "nope"]).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let warns =
        ["compare", "--path", "10Mbit/s,20ms,loss=1", "--size", "1KB", "--runs", "2", "--set", "deadline=1s"];
    assert_eq!(command.args(warns).stderr(full()).output().unwrap().status.code(), Some(1));
}

#[test]
#[cfg(target_os = "linux")]
fn verbs_with_real_packets_refuse_what_cannot_be() {
    let own = directory("online-of-hostile");
    for (args, words) in [
        (&["serve", "--tun", "nope0", "--address", "10.0.0.1", "--port", "0", "/"][..], "0 is out of range"),
        (
            &["serve", "--tun", "nope0", "--address", "10.0.0.1", "--cc", "cubicc", "/"],
            "did you mean `cubic`?",
        ),
        (
            &["get", "http://h/f", "--tun", "n", "--address", "10.0.0.1", "-o", own.to_str().unwrap()],
            "is a directory",
        ),
        (&["get", "http://h/f", "--retries", "-1"], "-1 is out of range"),
        (&["get", "http://h/f", "--connect-timeout", "-1s"], "`-1s` is negative"),
        (&["bench", "--client", "h", "--kernel", "tcp", "--time", "-1s"], "`-1s` is negative"),
        (&["bench", "--client", "h", "--kernel", "tcp", "--time", "0s"], "no time is too short"),
        (&["bench", "--client", "h", "--kernel", "tcp", "-n", "0B"], "0 bytes cannot be measured"),
        (&["bench", "--client", "h", "--kernel", "tcp", "--ping", "0"], "0 is out of range"),
        (&["bench", "--client", "h", "--kernel", "tcp", "-P", "-1"], "-1 is out of range"),
        (&["emulate", "--path", "1Mbit/s,1ms", "--condition", "x", "--", "true"], "has no conditions"),
        (&["emulate", "--path", "1Mbit/s,1ms", "--late", "-1", "--", "true"], "give a number from 0"),
        (&["emulate", "--path", "1Mbit/s,1ms", "--run", "-1", "--", "true"], "-1 is out of range"),
        (&["validate", "--quick", "--runs", "0"], "0 is out of range"),
    ] {
        let error = failure(args, 2);
        assert!(error.contains(words), "{args:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(&own).unwrap().count(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_probe_that_fails_ends_with_exit_code_1() {
    // No server listens on port 1 here.
    let output = run(&["doctor", "--probe", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.contains(" option-30 ")).unwrap();
    assert!(line.starts_with("fail"), "{line}");
}
