//! `--pcap`: the files are complete or absent.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn anabranch(args: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(args).current_dir(directory);
    command
}

fn run(args: &[&str], directory: &Path) -> Output {
    anabranch(args, directory).output().unwrap()
}

fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn failure(output: &Output, code: i32) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(output.stdout.is_empty());
    error
}

const ONE: &[&str] = &["run", "figure8", "--set", "schedulers=min_rtt"];
const BULK: &[&str] = &["run", "two-paths", "--set", "schedulers=min_rtt", "--set", "traffic.size=bulk"];

#[test]
fn a_capture_is_named_and_does_not_change_the_result() {
    let directory = tempfile::tempdir().unwrap();
    let plain = run(&[ONE, &["--json"]].concat(), directory.path());
    let captured = run(&[ONE, &["--json", "--pcap", "out.pcapng"]].concat(), directory.path());
    assert!(captured.status.success());
    assert_eq!(String::from_utf8_lossy(&captured.stderr), "captured out.pcapng\n");
    let flows = |output: &Output| -> serde_json::Value {
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["flows"].clone()
    };
    assert_eq!(flows(&plain), flows(&captured));
    assert_eq!(files(directory.path()), ["out.pcapng"]);
    let bytes = std::fs::read(directory.path().join("out.pcapng")).unwrap();
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(bytes.len() > 10_000);
    // The same seed gives the same bytes, on one thread or many.
    let again = run(&[ONE, &["--jobs", "1", "--pcap", "again.pcapng"]].concat(), directory.path());
    assert!(again.status.success());
    assert_eq!(std::fs::read(directory.path().join("again.pcapng")).unwrap(), bytes);
}

#[test]
fn a_comparison_has_a_capture_for_each_contender_and_condition() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "compare",
        "dmptcp-eight-paths",
        "--runs",
        "2",
        "--schedulers",
        "tcp,dmptcp",
        "--reference",
        "tcp",
        "--pcap",
        "out.pcapng",
    ];
    let output = run(&args, directory.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = [
        "out.loss=0.05%.dmptcp.pcapng",
        "out.loss=0.05%.tcp.pcapng",
        "out.loss=0.dmptcp.pcapng",
        "out.loss=0.tcp.pcapng",
    ];
    assert_eq!(files(directory.path()), expected);
}

#[test]
fn what_cannot_be_written_is_said_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let error = failure(&run(&[BULK, &["--pcap", "no/such/out.pcapng"]].concat(), path), 2);
    assert!(error.starts_with("error: cannot write the capture no/such/out.pcapng: "), "{error}");
    let error = failure(&run(&[BULK, &["--pcap", "."]].concat(), path), 2);
    assert!(error.starts_with("error: cannot write the capture .: "), "{error}");
    let error = failure(&run(&[ONE, &["--pcap-snaplen", "100"]].concat(), path), 2);
    assert!(error.contains("--pcap"), "{error}");
    failure(&run(&[ONE, &["--pcap", "a", "--pcap-snaplen", "0"]].concat(), path), 2);
    assert!(files(path).is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let error = failure(&run(&[BULK, &["--pcap", "/dev/full"]].concat(), directory.path()), 1);
    assert!(error.starts_with("error: cannot write the capture /dev/full: No space left"), "{error}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_leaves_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("out.pcapng"), "before").unwrap();
    let args = [BULK, &["--set", "traffic.duration=80000s", "--pcap", "out.pcapng", "--pcap-snaplen", "60"]];
    let mut child =
        anabranch(&args.concat(), path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As soon as packets are written.
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
    let error = failure(&child.wait_with_output().unwrap(), 130);
    assert!(error.ends_with("error: interrupted; there is no result\n"), "{error}");
    assert_eq!(files(path), ["out.pcapng"]);
    assert_eq!(std::fs::read(path.join("out.pcapng")).unwrap(), b"before");
}
