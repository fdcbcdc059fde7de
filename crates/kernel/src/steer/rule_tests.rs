//! Rules of the choice and of its words, each by itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use anabranch_scenario::policy::{Policy, Treatment};
use anabranch_units::{Bytes, Time};

use super::choose::remaining;
use super::opening::{Identifiers, open};
use super::state::{Around, Tracked, TrackedSubflow, Traffic};
use crate::diag::{Connection, Counters, MptcpInfo, SendBuffer, SubflowFlags, SubflowState, TcpInfo};
use crate::interfaces::{Interface, Interfaces};
use crate::pm::{Command, Subflow, Token};

fn ip(path: u8) -> IpAddr {
    IpAddr::from([10, 0, path, 1])
}

fn addresses(path: u8) -> Subflow {
    Subflow { local: SocketAddr::new(ip(path), 40_000), remote: "10.1.1.1:443".parse().unwrap() }
}

fn interfaces(count: u8) -> Interfaces {
    let one = |path: u8| {
        let name = format!("path{path}");
        let addresses = vec![format!("{}/24", ip(path)).parse().unwrap()];
        (u32::from(path), Interface { index: path.into(), name, running: true, loopback: false, addresses })
    };
    Interfaces((1..=count).map(one).collect())
}

/// Returns a connection with subflows of these round trips in milliseconds; `queued` bytes wait on the first one.
fn connection(rtts: &[u32], queued: u32) -> Connection {
    let subflow = |(at, rtt_ms): (usize, &u32)| SubflowState {
        addresses: addresses(at as u8 + 1),
        state: 1,
        interface: 0,
        local_id: at as u8,
        remote_id: 0,
        flags: SubflowFlags(1 << 1 | 1 << 6),
        congestion: "cubic".to_owned(),
        info: TcpInfo {
            rtt_us: rtt_ms * 1000,
            cwnd: 10,
            ssthresh: Some(10),
            snd_mss: 1400,
            notsent_bytes: if at == 0 { queued } else { 0 },
            ..TcpInfo::default()
        },
    };
    Connection {
        token: Token(7),
        addresses: addresses(1),
        uid: 0,
        inode: 1,
        info: MptcpInfo { token: 7, counters: Some(Counters::default()), ..MptcpInfo::default() },
        send_buffer: SendBuffer { limit: 400_000, queued: 0 },
        subflows: rtts.iter().enumerate().map(subflow).collect(),
    }
}

#[test]
fn the_rest_of_a_download_is_its_size_less_what_has_arrived() {
    let connection = connection(&[20], 300);
    let mut traffic = Traffic::default();
    traffic.received.burst = 60_000;
    let of = |receives, traffic: &Traffic| {
        remaining(&connection, traffic, &Treatment { receives, ..Treatment::default() }).0
    };
    assert_eq!(of(Some(Bytes(200_000)), &traffic), 140_000);
    // More has arrived than was expected, or nothing was: as long again.
    assert_eq!(of(Some(Bytes(50_000)), &traffic), 60_000);
    assert_eq!(of(None, &traffic), 60_000);
    // A connection that sends has its own data left.
    traffic.sent.burst = 70_000;
    assert_eq!(of(Some(Bytes(200_000)), &traffic), 300);
}

/// Returns the commands that open subflows of a client's connection with the first subflow on path 1.
fn opened(policy: &str, paths: u8, announced: &[&str], deny_join_id0: bool) -> Vec<Command> {
    let policy = Policy::parse("policy", policy).unwrap();
    let (treatment, interfaces) = (policy.treatment(ip(9), 443), interfaces(paths));
    let mut tracked = Tracked::new(addresses(1));
    (tracked.client, tracked.established, tracked.deny_join_id0) = (Some(true), true, deny_join_id0);
    tracked.subflows = BTreeMap::from([(addresses(1), TrackedSubflow::default())]);
    let peers = announced.iter().map(|address| address.parse().unwrap());
    tracked.announced = (1..).zip(peers).collect();
    let around = Around { now: Time::from_secs(1), token: Token(7), interfaces: &interfaces, treatment };
    let mut decisions = Vec::new();
    open(around, &mut tracked, &mut Identifiers::default(), &|_, _| None, &mut decisions);
    decisions.into_iter().map(|decision| decision.command).collect()
}

#[test]
fn subflows_that_are_being_opened_count_among_the_most() {
    assert_eq!(opened("use = 'all'", 4, &[], false).len(), 3);
    assert_eq!(opened("use = 'all'\nsubflows = 2", 4, &[], false).len(), 1);
}

#[test]
fn a_subflow_leads_to_the_announced_address_of_its_network_or_to_the_first_one() {
    let remote = |announced: &[&str], deny| {
        let commands = opened("use = 'all'", 2, announced, deny);
        commands.into_iter().find_map(|command| match command {
            Command::Create { remote, .. } => Some(remote.to_string()),
            _ => None,
        })
    };
    let of = |text: &str| Some(text.to_owned());
    assert_eq!(remote(&[], false), of("10.1.1.1:443"));
    // An address without a port has the connection's port.
    assert_eq!(remote(&["10.7.7.7:0", "10.0.2.99:0"], false), of("10.0.2.99:443"));
    assert_eq!(remote(&["10.0.2.99:8443"], false), of("10.0.2.99:8443"));
    assert_eq!(remote(&["10.7.7.7:0"], false), of("10.1.1.1:443"));
    assert_eq!(remote(&["10.7.7.7:0"], true), of("10.7.7.7:443"));
    assert_eq!(remote(&[], true), None);
}
