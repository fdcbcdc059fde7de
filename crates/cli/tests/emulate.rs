//! `anabranch emulate`: its output, and that nothing remains of it however it ends. Needs root, and reports
//! the tests as skipped otherwise.
#![cfg(all(target_os = "linux", feature = "network"))]

#[path = "../../../tests/skipped.rs"]
mod skipped;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const BINARY: &str = env!("CARGO_BIN_EXE_anabranch");

const PATHS: [&str; 5] = ["emulate", "--path", "50Mbit/s,10ms", "--path", "20Mbit/s,20ms"];

/// The variable that marks the processes of these tests.
const MARK: &str = "ANABRANCH_EMULATE_TEST";

/// The traces of these tests' emulations in the system. Other emulations may run on this machine too, so only
/// possible traces of these tests are considered.
#[derive(Debug, PartialEq, Eq)]
struct System {
    devices: Vec<String>,
    routes: Vec<String>,
    rules: Vec<String>,
    named: Vec<String>,
    endpoints: Vec<String>,
    processes: BTreeSet<i32>,
    /// Records of runs whose process has ended.
    records: Vec<String>,
}

/// Returns the output lines of `ip` that contain one of these words.
fn ip(arguments: &str, words: &[&str]) -> Vec<String> {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| words.iter().any(|word| line.contains(word))).map(str::to_owned).collect()
}

/// Returns the processes that emulations of these tests have started, and their descendants.
fn members() -> BTreeSet<i32> {
    let mark = format!("{MARK}={}", std::process::id());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let entries: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
        entries.contains(&mark.as_bytes())
            && entries.iter().any(|entry| entry.starts_with(b"ANABRANCH_EMULATION="))
    };
    pids.filter(has).collect()
}

fn records() -> Vec<String> {
    let entries = std::fs::read_dir("/run/anabranch-emulate").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let alive = |name: &str| {
        let pid = name.split('-').next().unwrap_or_default();
        std::path::Path::new("/proc").join(pid).exists()
    };
    names.filter(|name| !alive(name)).collect()
}

impl System {
    fn now() -> System {
        System {
            devices: ip("-o link", &[": path", ": anabranch:"]),
            routes: ip("route show table all", &["dev path", "10.1.", "table 100"]),
            rules: ip("rule", &["lookup 100"]),
            named: ip("netns list", &["emul"]),
            endpoints: ip("mptcp endpoint", &["10.0."]),
            processes: members(),
            records: records(),
        }
    }
}

/// Returns `anabranch` with that first argument and these paths.
fn anabranch() -> Command {
    let mut command = Command::new(BINARY);
    command.args(PATHS).env(MARK, std::process::id().to_string());
    command
}

/// The tests inspect the whole system, so they run one at a time. None without root.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped::skipped("tests with network namespaces need root");
        return None;
    }
    Some(ONE.lock().unwrap_or_else(|poison| poison.into_inner()))
}

fn emulate(arguments: &[&str]) -> Output {
    anabranch().args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Waits until `done`, within a time limit that only a failure exceeds.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns those of [`members`] that sleep. A process has no environment during exec, and is in neither then.
fn sleepers() -> usize {
    let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    members().iter().filter(|pid| name(pid) == "sleep\n").count()
}

/// Returns an emulation whose client has started a process that tries to outlive it. All three sleep by then.
fn started() -> Child {
    let before = sleepers();
    let client = "setsid sleep 98765 & echo ready; exec sleep 98764";
    let mut child = anabranch()
        .args(["--server-command", "exec sleep 98763", "--server-wait", "0.05", "--", "sh", "-c", client])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    until("its three commands sleep", || sleepers() == before + 3);
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn the_report_is_json_and_the_exit_code_the_clients() {
    let Some(_alone) = alone() else { return };
    let output = emulate(&["--json", "--", "sh", "-c", "ping -c 3 -i 0.05 10.1.2.1; exit 9"]);
    assert_eq!(output.status.code(), Some(9));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["exit_code"], 9);
    assert_eq!(report["paths"][1]["up"]["carried_packets"], 3);
    assert_eq!(report["paths"][1]["up"]["links"][0]["link"], "2.up");
    assert_eq!(report["paths"][0]["up"]["carried_packets"], 0);
    assert_eq!(report["lateness_down"]["packets"], 3);
    assert!(String::from_utf8(output.stderr).unwrap().contains("3 received"), "the client's output");
}

#[test]
fn standard_input_and_output_are_the_clients() {
    let Some(_alone) = alone() else { return };
    let mut child = anabranch()
        .args(["--", "tr", "a-z", "A-Z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"hello\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"HELLO\n"[..]));
    assert!(String::from_utf8(output.stderr).unwrap().contains("lateness up"), "the report");
}

#[test]
fn a_run_that_was_too_late_says_so() {
    let Some(_alone) = alone() else { return };
    // No packet is forwarded at the exact time.
    let ping = ["--late", "0", "--strict", "--json", "--", "ping", "-c", "2", "-i", "0.05", "10.1.1.1"];
    let output = emulate(&ping);
    assert_eq!(output.status.code(), Some(3));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["reliable"], false);
    assert!(report["unreliable_because"][0].as_str().unwrap().contains("late"));
}

#[test]
fn nothing_is_left_of_a_run_or_of_an_error() {
    let Some(_alone) = alone() else { return };
    let before = System::now();
    assert_eq!(emulate(&["--", "true"]).status.code(), Some(0));
    assert_eq!(System::now(), before);
    let straggler = emulate(&["--", "sh", "-c", "setsid sleep 98765 & exit 0"]);
    assert_eq!(straggler.status.code(), Some(0));
    assert_eq!(System::now(), before);
    assert_eq!(emulate(&["--", "no-such-program"]).status.code(), Some(2));
    assert_eq!(System::now(), before);
    assert_eq!(emulate(&["--server-command", "exit 1", "--", "true"]).status.code(), Some(1));
    assert_eq!(System::now(), before);
    assert_eq!(emulate(&["--sysctl", "net.no.such=1", "--", "true"]).status.code(), Some(2));
    assert_eq!(System::now(), before);
}

#[test]
fn nothing_is_left_after_a_signal() {
    let Some(_alone) = alone() else { return };
    let before = System::now();
    for number in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut child = started();
        signal(&child, number);
        let mut told = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut told).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{number:?}");
        assert!(told.contains("lateness up"), "the report up to then: {told}");
        assert_eq!(System::now(), before, "{number:?}");
    }
}

#[test]
fn what_a_killed_run_leaves_is_cleared_by_the_next_and_nothing_else() {
    let Some(_alone) = alone() else { return };
    let before = System::now();
    // A foreign process: not of any run, though its environment claims so, as no dead run had its namespace.
    let mut foreign = Command::new("sleep").arg("98762").env("ANABRANCH_EMULATION", "1-1-1").spawn().unwrap();
    let mut alive = started();
    let running = members();
    let mut child = started();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    // Its own processes end with it, as do devices and routes; the escaped process remains at first.
    until("its own commands are gone", || members().len() == running.len() + 1);
    let next = emulate(&["--", "true"]);
    let told = String::from_utf8(next.stderr).unwrap();
    assert!(told.contains("killed sleep"), "{told}");
    assert_eq!(members(), running);
    assert!(foreign.try_wait().unwrap().is_none() && alive.try_wait().unwrap().is_none());
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    signal(&alive, Signal::TERM);
    alive.wait().unwrap();
    assert_eq!(System::now(), before);
}

#[test]
fn a_user_needs_no_root() {
    let Some(_alone) = alone() else { return };
    let arguments = ["--user-namespace", "--", "ping", "-c", "2", "-i", "0.2", "10.1.2.1"];
    let run = |command: &mut Command| {
        let output = command.args(PATHS).args(arguments).stdin(Stdio::null()).output().unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        (output.status.code(), out, err)
    };
    // As root in a user namespace, with no more privileges than any user.
    let (code, out, err) = run(&mut Command::new(BINARY));
    assert!(code == Some(0) && out.contains("2 received"), "{out}{err}");
    // Most systems permit all users to open the device; otherwise the test replaces it by one that does.
    let script = "mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200 &&
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    let mut nobody = Command::new("unshare");
    nobody.args(["--mount", "sh", "-c", script, "sh", BINARY]);
    let (code, out, err) = run(&mut nobody);
    let missing = [
        "does not permit users to make namespaces",
        "no permission to open /dev/net/tun",
        "Permission denied",
    ];
    if code != Some(0) && missing.iter().any(|text| err.contains(text)) {
        skipped::skipped(format!(
            "users may make no namespaces or devices here, or not run the command: {err}"
        ));
        return;
    }
    assert!(code == Some(0) && out.contains("2 received"), "{out}{err}");
}

#[test]
fn mistakes_are_told_before_anything_is_made() {
    for (arguments, told) in [
        (&["emulate", "--", "true"][..], "a scenario, or --path"),
        (&["emulate", "--path", "1Mbit/s,1ms"], "give a command after `--`"),
        (&["emulate", "--path", "1Mbit/s,1parsec", "--", "true"], "not a unit of time"),
        (&["emulate", "figure8", "--condition", "x", "--", "true"], "no condition `x`"),
        (&["emulate", "figure8", "--sysctl", "kernel.hostname=x", "--", "true"], "begin with net."),
        (&["emulate", "figure8", "--sysctl", "net/../x=1", "--", "true"], "not a key"),
    ] {
        let output = Command::new(BINARY).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(told), "{text}");
    }
}

#[test]
fn the_report_goes_where_it_is_wanted_and_quiet_leaves_it_out() {
    let Some(_alone) = alone() else { return };
    let texts = |output: &Output| {
        let [out, err] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        (output.status.code(), out, err)
    };
    let file = format!("{}/emulate-report.json", env!("CARGO_TARGET_TMPDIR"));
    let (code, out, err) = texts(&emulate(&["--json", "-o", &file, "--", "echo", "hello"]));
    assert_eq!((code, out.as_str(), err.contains("lateness")), (Some(0), "hello\n", false), "{err}");
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(report["exit_code"], 0);
    let (code, out, err) = texts(&emulate(&["-o", &file, "--", "echo", "hello"]));
    assert_eq!((code, out.as_str(), err.contains("lateness")), (Some(0), "hello\n", false), "{err}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("lateness down"));
    let (code, _, err) = texts(&emulate(&["--quiet", "--", "true"]));
    assert!(code == Some(0) && err.lines().all(|line| line.starts_with("NOT RELIABLE")), "{err}");
    let (code, _, err) = texts(&emulate(&["--kernel-cc", "nope", "--", "true"]));
    assert!(code == Some(2) && err.contains("no congestion control `nope`; it has "), "{err}");
    let (code, ..) = texts(&emulate(&["--kernel-cc", "newreno", "--", "true"]));
    assert_eq!(code, Some(0), "the kernel calls it reno");
}

/// The page's commands, those marked `sh run`, work for a user who has the command in the search path.
#[test]
fn the_commands_of_the_page_work() {
    const PAGES: [&str; 2] =
        [include_str!("../../../docs/emulator.md"), include_str!("../../../docs/proxy.md")];
    let Some(_alone) = alone() else { return };
    let bin = std::path::Path::new(BINARY).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let directory = tempfile::tempdir().unwrap();
    let blocks = PAGES.iter().flat_map(|page| page.split("```sh run\n").skip(1));
    let blocks = blocks.map(|part| part.split("```").next().unwrap());
    let mut count = 0;
    for block in blocks {
        let script = format!("sudo() {{ \"$@\"; }}\n{block}");
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &script]).env("PATH", &path).stdin(Stdio::null());
        let output = bash.current_dir(directory.path()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{block}\n{out}\n{err}");
        assert!(err.contains("lateness down"), "{block}\n{err}");
        count += 1;
    }
    assert!(count >= 7, "{count} blocks");
}
