//! Two hosts in their own namespaces, and programs on both. Needs root, and reports the tests as skipped
//! otherwise.
#![cfg(target_os = "linux")]

#[path = "../../../tests/skipped.rs"]
mod skipped;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use anabranch_emulate::DirectionReport;
use anabranch_emulate::{EmulateError, Emulation, Options, Outcome, Role};
use anabranch_lab::scenario::{Document, Scenario};

static RUNNING: AtomicBool = AtomicBool::new(false);

/// Returns a `sh -c` command whose output goes to `$OUT`.
fn shell(text: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", text]).stdin(Stdio::null());
    command
}

/// True if these tests can run.
fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped::skipped("tests with network namespaces need root");
    }
    root
}

fn scenario(text: &str) -> Scenario {
    Document::parse("test.toml", text, ".").unwrap().scenario().unwrap()
}

/// Returns the outcome of `client`, and the text it has written to the file `$OUT`.
fn run(text: &str, server: Option<&str>, client: &str) -> (Outcome, String) {
    // One at a time: they share the processor's time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let file = std::env::temp_dir().join(format!("anabranch-emulate-test-{}", std::process::id()));
    let emulation = Emulation::build(&scenario(text), &Options::default()).unwrap();
    let mut client = shell(client);
    client.env("OUT", &file);
    let outcome = emulation.run(server.map(shell), client, &RUNNING).unwrap();
    let out = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    (outcome, out)
}

/// Returns the exit code of the client, if it had one.
fn code(outcome: &Outcome) -> Option<i32> {
    outcome.client.and_then(|status| status.code())
}

const TWO: &str = "
    path = [
        { name = 'near', rate = '50 Mbit/s', rtt = '10 ms' },
        { name = 'far', rate = '20 Mbit/s', rtt = '40 ms' },
    ]
";

#[test]
fn each_address_of_the_server_is_behind_its_path() {
    if !root() {
        return;
    }
    let ping = "for a in $ANABRANCH_SERVER_1 $ANABRANCH_SERVER_2; do \
                ping -c 5 -i 0.05 $a | sed -n 's/^rtt.* = //p'; done >$OUT";
    let (outcome, out) = run(TWO, None, ping);
    assert_eq!(code(&outcome), Some(0), "{out}");
    let least: Vec<f64> = out.lines().map(|line| line.split('/').next().unwrap().parse().unwrap()).collect();
    // Nothing is faster than the links; an upper bound would depend on the machine.
    assert!(least[0] >= 10.0 && least[1] >= 40.0, "{out}");
    for path in &outcome.report.paths {
        let packets = (path.up.carried_packets, path.down.carried_packets);
        assert_eq!(packets, (5, 5), "{}", path.path);
        assert_eq!(path.up.links[0].link, format!("{}.up", path.path));
    }
    assert_eq!(outcome.report.lateness_up.packets, 10);
}

#[test]
fn a_path_costs_what_it_has_carried() {
    if !root() {
        return;
    }
    let text = "path = [
        { rate = '50 Mbit/s', rtt = '4 ms', price = { up = 1, down = 2 }, quota = '800 B' },
        { rate = '50 Mbit/s', rtt = '4 ms', quota = { down = '1 KB' } },
        { rate = '50 Mbit/s', rtt = '4 ms' },
    ]";
    let (outcome, _) = run(text, None, "ping -c 5 -i 0.05 $ANABRANCH_SERVER_1 >/dev/null");
    let seen: Vec<_> = outcome.report.paths.iter().map(|path| (path.cost, path.over_quota)).collect();
    // 84 bytes each way, five times.
    assert_eq!(seen, [(Some(420.0 * 3.0 / 1e9), Some(true)), (None, Some(false)), (None, None)]);
}

#[test]
fn the_kernels_multipath_tcp_uses_both_paths() {
    if !root() {
        return;
    }
    // 2 MB over a path that alone would take about twice as long.
    let server = "exec python3 -c \"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('0.0.0.0', 5000))
s.listen()
c, _ = s.accept()
n = 0
while b := c.recv(65536): n += len(b)
c.sendall(str(n).encode())
c.close()
\"";
    let client = "python3 -c \"
import os, socket
c = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
c.connect((os.environ['ANABRANCH_SERVER'], 5000))
c.sendall(bytes(4000000))
c.shutdown(socket.SHUT_WR)
open(os.environ['OUT'], 'wb').write(c.recv(100))
\"";
    let (outcome, out) = run(TWO, Some(server), client);
    assert_eq!(out, "4000000");
    for path in &outcome.report.paths {
        assert!(path.up.carried_bytes > 100_000, "{} has carried {}", path.path, path.up.carried_bytes);
    }
    assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
}

#[test]
fn listed_packets_are_lost_and_a_path_that_is_down_carries_nothing() {
    if !root() {
        return;
    }
    let text = "
        path = [
            { rate = '10 Mbit/s', rtt = '4 ms', drop = [2, 4] },
            { rate = '10 Mbit/s', rtt = '4 ms', change = [{ at = '0 s', down = true }] },
        ]
        traffic.direction = 'upload'
    ";
    let ping = "ping -c 5 -i 0.05 -W 1 10.1.1.1 | grep -c 'bytes from' >$OUT; \
                ping -c 3 -i 0.05 -W 1 10.1.2.1 >/dev/null; test $? = 1";
    let (outcome, out) = run(text, None, ping);
    assert_eq!(code(&outcome), Some(0));
    assert_eq!(out.trim(), "3");
    let report = &outcome.report;
    assert_eq!(report.paths[0].up.links[0].counters.dropped_listed.packets, 2);
    assert_eq!(report.paths[1].up.links[0].counters.dropped_down.packets, 3);
    assert_eq!(report.paths[1].up.carried_packets, 0);
}

#[test]
fn a_packet_that_is_too_long_is_answered_by_a_router() {
    if !root() {
        return;
    }
    let text = "path = [{ rate = '10 Mbit/s', rtt = '4 ms', mtu = '1000 B' }]";
    let (_, out) = run(text, None, "ping -c 2 -i 0.05 -W 1 -M do -s 1200 10.1.1.1 >$OUT 2>&1");
    assert!(out.contains("mtu = 1000") || out.contains("mtu=1000"), "{out}");
}

#[test]
fn programs_have_their_exit_code_their_environment_and_their_settings() {
    if !root() {
        return;
    }
    let (outcome, out) = run(TWO, None, "echo $ANABRANCH_ROLE $ANABRANCH_SERVER_STACK >$OUT; exit 7");
    assert_eq!((code(&outcome), out.as_str()), (Some(7), "client 10.1.1.2\n"));
    let options = Options {
        settings: vec![("net/ipv4/tcp_sack".to_owned(), "0".to_owned())],
        congestion: Some("cubic".to_owned()),
        ..Options::default()
    };
    // Not every system lets a namespace have this default; allowing it for a moment leaves no trace.
    let allowed = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
    let before = allowed();
    let emulation = Emulation::build(&scenario(TWO), &options).unwrap();
    assert_eq!((emulation.notes(), allowed()), (&[][..], before));
    let checks = "test $(cat /proc/sys/net/ipv4/tcp_sack) = 0 && ip route show 10.1.2.0/24 | grep -q 'congctl cubic' \
                  && test $(cat /proc/sys/net/ipv4/tcp_congestion_control) = cubic";
    assert_eq!(code(&emulation.run(None, shell(checks), &RUNNING).unwrap()), Some(0));
    let host = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_sack").unwrap();
    let inside =
        emulation.namespace(Role::Server).run(|| std::fs::read_to_string("/proc/sys/net/ipv4/tcp_sack"));
    assert_eq!(inside.unwrap().unwrap().trim(), "0");
    assert_eq!(host, std::fs::read_to_string("/proc/sys/net/ipv4/tcp_sack").unwrap());
}

#[test]
fn what_cannot_be_run_is_told() {
    if !root() {
        return;
    }
    let emulation = Emulation::build(&scenario(TWO), &Options::default()).unwrap();
    let error = emulation.run(None, Command::new("no-such-program"), &RUNNING).unwrap_err();
    assert_eq!(error, EmulateError::Usage("there is no program `no-such-program`".to_owned()));
    let error = emulation.run(Some(shell("exit 3")), shell("true"), &RUNNING).unwrap_err();
    assert!(error.to_string().contains("before the client's began"), "{error}");
    let stop = AtomicBool::new(true);
    let stopped = emulation.run(None, shell("sleep 1000"), &stop).unwrap();
    assert_eq!(code(&stopped), None, "by a signal");
    let error = emulation.run(Some(shell("sleep 1000")), shell("true"), &stop).unwrap_err();
    assert_eq!(error, EmulateError::Interrupted);
    let wrong = Options { settings: vec![("net/no/such".to_owned(), "0".to_owned())], ..Options::default() };
    assert!(matches!(Emulation::build(&scenario(TWO), &wrong), Err(EmulateError::Usage(_))));
}

/// The checksum of the kernel finds every request with a damaged bit. (A damaged answer would be given to `ping`, whose
/// socket takes packets before they are checked.)
#[test]
fn damaged_packets_are_rejected_by_the_real_checksum() {
    if !root() {
        return;
    }
    let scenario =
        "path = [{ rate = '50 Mbit/s', rtt = '10 ms', corrupt = '20%' }]\ntraffic.direction = 'upload'";
    let ping =
        "ping -q -c 100 -i 0.01 -W 1 $ANABRANCH_SERVER | sed -n 's/.* \\([0-9]*\\) received.*/\\1/p' >$OUT";
    let (outcome, out) = run(scenario, None, ping);
    assert_eq!(code(&outcome), Some(0), "{out}");
    let path = &outcome.report.paths[0];
    let corrupted = |direction: &DirectionReport| {
        direction
            .links
            .iter()
            .map(|link| link.counters.effect(anabranch_emulate::Effect::Corrupted).packets)
            .sum::<u64>()
    };
    let all = corrupted(&path.up) + corrupted(&path.down);
    let received: u64 = out.trim().parse().unwrap_or_else(|_| panic!("{out}"));
    assert!((8..=35).contains(&all), "{all}");
    assert_eq!(received + all, 100, "{out}");
}
