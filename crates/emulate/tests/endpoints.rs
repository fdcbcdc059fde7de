//! Several addresses of the server, endpoints and limits: the simulator opens the subflows that the kernel opens. Needs
//! root and a kernel with Multipath TCP, and reports the test as skipped otherwise.
#![cfg(target_os = "linux")]

#[path = "../../../tests/skipped.rs"]
mod skipped;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anabranch_emulate::{Emulation, Options};
use anabranch_lab::run::Prepared;
use anabranch_lab::scenario::{Document, Scenario};

static RUNNING: AtomicBool = AtomicBool::new(false);

/// The numbers of a path and of an address of the server, from 1.
type Pairs = BTreeSet<(u8, u8)>;

fn scenario(more: &str, endpoints: [&str; 2]) -> Scenario {
    // A limit of the server admits the first that arrive: those over the nearer path.
    let path = |endpoint: &str, rtt: &str| {
        let endpoint = if endpoint.is_empty() { String::new() } else { format!(", endpoint = '{endpoint}'") };
        format!("{{ rate = '50 Mbit/s', rtt = '{rtt}'{endpoint} }}")
    };
    let text = format!(
        "schedulers = ['min_rtt']\npath = [{}, {}]\n{more}\n[traffic]\nkind = 'requests'\nsize = '100 B'\nthink = 0\nrequests = 30\n",
        path(endpoints[0], "8 ms"),
        path(endpoints[1], "12 ms")
    );
    Document::parse("test.toml", &text, ".")
        .unwrap()
        .scenario()
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The subflows of a simulated run that were established.
fn simulated(scenario: &Scenario) -> Pairs {
    let run = Prepared::new(scenario, 0).unwrap().run(0, 0, &RUNNING).unwrap();
    // The client receives the responses.
    let subflows = &run.flows[0].report.receiver.subflows;
    let established = subflows.iter().filter(|subflow| subflow.established.is_some());
    established
        .map(|subflow| match (subflow.local.ip, subflow.remote.ip) {
            (std::net::IpAddr::V4(local), std::net::IpAddr::V4(remote)) => {
                (local.octets()[3], remote.octets()[3])
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

const SERVER: &str = "exec python3 -c \"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('0.0.0.0', 5000))
s.listen()
c, _ = s.accept()
while b := c.recv(65536): c.sendall(b)
\"";

/// Thirty messages back and forth, and then the table of connections.
const CLIENT: &str = "python3 -c \"
import os, socket
c = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
c.connect((os.environ['ANABRANCH_SERVER'], 5000))
for _ in range(30):
    c.sendall(b'x' * 100)
    n = 0
    while n < 100: n += len(c.recv(100 - n))
open(os.environ['OUT'], 'w').write(open('/proc/self/net/tcp').read())
\"";

/// The subflows of a connection of the kernel that are established.
fn real(scenario: &Scenario) -> Pairs {
    let file = std::env::temp_dir().join(format!("anabranch-endpoints-test-{}", std::process::id()));
    let emulation = Emulation::build(scenario, &Options::default()).unwrap();
    assert!(emulation.notes().is_empty(), "{:?}", emulation.notes());
    let shell = |text: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]).stdin(Stdio::null()).env("OUT", &file);
        command
    };
    let outcome = emulation.run(Some(shell(SERVER)), shell(CLIENT), &RUNNING).unwrap();
    assert_eq!(outcome.client.and_then(|status| status.code()), Some(0));
    let table = std::fs::read_to_string(&file).unwrap();
    let _ = std::fs::remove_file(&file);
    let end = |text: &str| {
        let (ip, port) = text.split_once(':').unwrap();
        // In the byte order of the machine.
        let ip = Ipv4Addr::from(u32::from_str_radix(ip, 16).unwrap().to_ne_bytes());
        (ip.octets(), u16::from_str_radix(port, 16).unwrap())
    };
    let pair = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let ((local, _), (remote, port)) = (end(columns[1]), end(columns[2]));
        // Established.
        (columns[3] == "01" && port == 5000).then(|| (local[2], remote[2]))
    };
    table.lines().skip(1).filter_map(pair).collect()
}

fn is_able() -> bool {
    let able =
        rustix::process::geteuid().is_root() && std::path::Path::new("/proc/sys/net/mptcp/enabled").exists();
    if !able {
        skipped::skipped("tests with the kernel's Multipath TCP need root and CONFIG_MPTCP");
    }
    able
}

/// Every address over every path.
const MESH: &str = "server.address = [{}, {}]";
/// An address for each path.
const APART: &str = "server.address = [{ paths = [1] }, { paths = [2] }]";

#[test]
fn the_simulator_opens_the_subflows_that_the_kernel_opens() {
    if !is_able() {
        return;
    }
    let limits = |client: (u8, u8), server: u8| {
        format!(
            "client.limits = {{ subflows = {}, add-addr-accepted = {} }}\nserver.limits.subflows = {server}\n",
            client.0, client.1
        )
    };
    let mut cases: Vec<(String, [&str; 2])> = Vec::new();
    for addresses in [MESH, APART, "server.address = [{}, { signal = false }]"] {
        for endpoints in [["", "subflow"], ["fullmesh", "fullmesh"], ["", "fullmesh"], ["", "none"]] {
            cases.push((addresses.to_owned(), endpoints));
        }
    }
    for (client, server) in
        [((0, 8), 8), ((1, 8), 8), ((2, 8), 8), ((8, 0), 8), ((8, 1), 8), ((8, 8), 0), ((8, 8), 1)]
    {
        cases.push((limits(client, server) + MESH, ["", "subflow"]));
        cases.push((limits(client, server) + MESH, ["fullmesh", "fullmesh"]));
    }
    // One address, an address that nobody can reach, three addresses.
    cases.push((limits((8, 8), 8), ["", "subflow"]));
    cases.push(("server.address = [{}, { paths = [] }]".to_owned(), ["", "subflow"]));
    cases.push(("server.address = [{}, {}, { paths = [2] }]".to_owned(), ["", "subflow"]));
    // On a machine with other work the kernel sometimes exceeds a limit by one, as two of its events then count subflows at
    // the same time. So each case has three attempts.
    let differ = |(more, endpoints): &(String, [&str; 2])| {
        let scenario = scenario(more, *endpoints);
        let simulated = simulated(&scenario);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let real = real(&scenario);
            if real == simulated {
                return None;
            }
            seen.push(real);
        }
        Some(format!("{more} {endpoints:?}: simulated {simulated:?}, kernel {seen:?}"))
    };
    let all: Vec<String> = cases.iter().filter_map(differ).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}
