//! The doctor on a real kernel, in its own network namespaces.
#![cfg(target_os = "linux")]

#[path = "../setup/lab.rs"]
#[allow(dead_code, reason = "the tests of `tun setup`, which it belongs to, use more of it")]
mod lab;
#[path = "../../../../tests/skipped.rs"]
mod skipped;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anabranch_setup::doctor::{Check, Facts, Level, ProbeOutcome, judge, probe};
use anabranch_setup::{setup, teardown};
use lab::{Lab, possible, two_paths};

/// A server on the far host that answers one request on each connection.
struct Server(Child);

impl Server {
    /// Starts it; `protocol` is 262 for Multipath TCP and 0 for plain TCP.
    fn new(lab: &Lab, address: &str, port: u16, protocol: u16) -> Server {
        let script = "
import socket, sys
address, port, protocol = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ':' in address else socket.AF_INET
s = socket.socket(family, socket.SOCK_STREAM, protocol)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((address, port)); s.listen()
print('ready', flush=True)
kept = []
while True:
    c, _ = s.accept(); kept.append(c)
    if port == 8080:
        c.recv(4096); c.sendall(b'HTTP/1.1 204 No Content\\r\\n\\r\\n')
";
        let mut child = Command::new("ip")
            .args(["netns", "exec", &lab.far, "python3", "-c", script, address])
            .args([port.to_string(), protocol.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn outcome(lab: &Lab, target: &str) -> ProbeOutcome {
    lab.at_home(|system, _| probe(target, system)).outcome
}

#[test]
fn option_30_comes_through_or_not() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    let _http = Server::new(&lab, "203.0.113.9", 8080, 262);
    let _other = Server::new(&lab, "203.0.113.9", 4000, 262);
    let _plain = Server::new(&lab, "203.0.113.9", 5000, 0);
    let _six = Server::new(&lab, "2001:db8:9::9", 8080, 262);
    assert_eq!(outcome(&lab, "203.0.113.9:8080"), ProbeOutcome::Multipath);
    assert_eq!(outcome(&lab, "203.0.113.9:4000"), ProbeOutcome::Handshake);
    assert_eq!(outcome(&lab, "[2001:db8:9::9]:8080"), ProbeOutcome::Multipath);
    assert_eq!(outcome(&lab, "203.0.113.9:5000"), ProbeOutcome::FellBack);
    assert_eq!(outcome(&lab, "203.0.113.9:1"), ProbeOutcome::Refused);
    assert!(matches!(outcome(&lab, "no.such.host.invalid"), ProbeOutcome::NoName(_)));
    let counters = lab.at_home(|system, _| probe("203.0.113.9:5000", system)).counters;
    assert_eq!(counters.get("MPCapableFallbackSYNACK"), Some(&1), "{counters:?}");

    lab.home("echo 0 > /proc/sys/net/mptcp/enabled");
    assert!(matches!(outcome(&lab, "203.0.113.9:8080"), ProbeOutcome::NoMptcp(_)));
}

/// A middlebox on the path overwrites the option with NOPs, or drops segments that carry it.
#[test]
fn a_middlebox_looks_like_what_it_is() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    let _server = Server::new(&lab, "203.0.113.9", 8080, 262);
    let far = |line: &str| lab::must(&format!("ip netns exec {} bash -euc '{line}'", lab.far));
    far("nft \"add table inet box; add chain inet box in { type filter hook prerouting priority -300; }\"");
    far("nft add rule inet box in tcp option mptcp exists reset tcp option mptcp");
    assert_eq!(outcome(&lab, "203.0.113.9:8080"), ProbeOutcome::FellBack);
    far("nft flush chain inet box in");
    assert_eq!(outcome(&lab, "203.0.113.9:8080"), ProbeOutcome::Multipath);
    far("nft add rule inet box in tcp option mptcp exists drop");
    let dropped = lab.at_home(|system, _| probe("203.0.113.9:8080", system));
    assert_eq!(dropped.outcome, ProbeOutcome::FellBack);
    assert!(dropped.counters.contains_key("MPCapableSYNTXDrop"), "{:?}", dropped.counters);
}

/// A middlebox drops segments that carry the option later: the SYN/ACK, or everything after the SYNs.
#[test]
fn a_middlebox_that_drops_is_no_silent_host() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    let _server = Server::new(&lab, "203.0.113.9", 8080, 262);
    let far = |line: &str| lab::must(&format!("ip netns exec {} bash -euc '{line}'", lab.far));
    // Not on the server's host, whose kernel would notice the drop.
    lab.home(
        "nft \"add table inet box; add chain inet box in { type filter hook prerouting priority -300; }\"",
    );
    lab.home("nft \"add rule inet box in tcp flags & syn == syn tcp option mptcp exists drop\"");
    let found = outcome(&lab, "203.0.113.9:8080");
    assert!(matches!(found, ProbeOutcome::PlainAlone(_)), "{found:?}");
    lab.home("nft flush chain inet box in");
    far("nft \"add table inet box; add chain inet box in { type filter hook prerouting priority -300; }\"");
    far("nft \"add rule inet box in tcp flags & syn == 0 tcp option mptcp exists drop\"");
    let found = outcome(&lab, "203.0.113.9:8080");
    assert!(matches!(found, ProbeOutcome::Silent(_)), "{found:?}");
}

fn found(lab: &Lab, id: &str) -> Check {
    let checks = lab.at_home(|system, root| judge(&Facts::read(system, root)));
    checks.into_iter().find(|check| check.id == id).unwrap()
}

#[test]
fn a_real_host_is_seen_as_it_is() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    let level = |id: &str| found(&lab, id).level;
    for id in
        ["tun", "capability", "iproute2", "nftables", "interfaces", "routes", "setup", "firewall", "mptcp"]
    {
        assert_eq!(level(id), Level::Ok, "{:?}", found(&lab, id));
    }
    // Both default routes are in the main table, so packets from r1's address leave by r0.
    let astray = found(&lab, "source-routes");
    assert!(astray.what.contains("198.51.100.2 of r1 leaves by r0"), "{astray:?}");
    // Strict filters, as the lab has them, then drop packets to that address; loose ones do not.
    assert!(
        found(&lab, "rp-filter").what.contains("to 198.51.100.2 of r1"),
        "{:?}",
        found(&lab, "rp-filter")
    );
    lab.home("echo 2 > /proc/sys/net/ipv4/conf/r1/rp_filter");
    assert_eq!(level("rp-filter"), Level::Ok);
    lab.home(
        "echo 1 > /proc/sys/net/ipv4/conf/r1/rp_filter; ip mptcp endpoint add 198.51.100.2 id 7 subflow",
    );
    assert!(found(&lab, "mptcp-endpoints").what.contains("no dev, and packets for r1 leave by r0"));
    lab.home("ip mptcp endpoint delete id 7; ip mptcp endpoint add 198.51.100.2 dev r0 id 7 subflow");
    let remedy = found(&lab, "mptcp-endpoints").remedy.unwrap();
    lab.home(&remedy);
    assert_eq!(level("mptcp-endpoints"), Level::Ok, "{:?}", found(&lab, "mptcp-endpoints"));
    lab.home("ip route add default via 198.51.100.1 dev r1 table 7; ip rule add from 198.51.100.2 lookup 7
              ip -6 route add default via 2001:db8:2::1 dev r1 table 7; ip -6 rule add from 2001:db8:2::2 lookup 7");
    for id in ["source-routes", "rp-filter", "mptcp-endpoints"] {
        assert_eq!(level(id), Level::Ok, "{:?}", found(&lab, id));
    }
    lab.home("ip mptcp limits set subflow 2 add_addr_accepted 0");
    assert_eq!(level("mptcp-limits"), Level::Warn);
    lab.home("ip mptcp limits set subflow 2 add_addr_accepted 2");
    assert_eq!(level("mptcp-limits"), Level::Ok);

    lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap();
    assert!(found(&lab, "setup").what.contains("anabranch0 with 2 paths"));
    for id in ["setup", "forwarding", "interfaces", "source-routes"] {
        assert_eq!(level(id), Level::Ok, "{:?}", found(&lab, id));
    }
    lab.home("echo 0 > /proc/sys/net/ipv4/conf/r1/forwarding; ip rule del from 10.86.84.1");
    assert!(found(&lab, "forwarding").what.contains("r1 (IPv4)"));
    assert_eq!(level("setup"), Level::Fail);
    lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap();
    assert_eq!(level("forwarding"), Level::Ok);
    lab.home("nft \"add table ip docker; add chain ip docker FORWARD { type filter hook forward priority 0; policy drop; }\"");
    assert!(found(&lab, "firewall").what.contains("ip docker FORWARD drops"));
    lab.at_home(|system, root| teardown("anabranch0", system, root)).unwrap();

    lab.home("ip link set r1 down");
    assert!(found(&lab, "interfaces").what.contains("alone"));
    lab.home("ip link set r0 down");
    assert_eq!(level("interfaces"), Level::Fail);
}
