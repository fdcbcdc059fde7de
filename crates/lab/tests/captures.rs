//! Captures of simulated runs as tshark reads them: nothing malformed, every checksum correct, no expert
//! error; tokens, joins, addresses and data sequence numbers are recovered.
//!
//! Without tshark these tests report that and check nothing, except in CI, where that is a failure.

#[path = "../../../tests/skipped.rs"]
mod skipped;

use core::net::{IpAddr, Ipv6Addr};
use std::collections::BTreeSet;
use std::process::Command;

use anabranch_lab::capture::Capture;
use anabranch_link::{LinkConfig, Loss};
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses, Topology};
use anabranch_sim::{Direction, End, FlowId, FlowSpec, HostId, Network, Reading, Sim};
use anabranch_stack::config::{Checksums, ConnectionConfig};
use anabranch_stack::crypto;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_stack::segment::{Capable, Key, MappedDsn, MptcpOption, PathId};
use anabranch_units::{Bytes, Duration, Rate, Time};
use anabranch_wire::{self as wire, parse};

/// True if tshark is installed, which CI requires.
fn have_tshark() -> bool {
    let found = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skipped::skipped("there is no tshark (Debian: apt install tshark), so no capture is read");
    }
    found
}

fn duplex(mbps: u64, rtt_ms: u64, loss: f64) -> Duplex {
    let mut duplex = Duplex::symmetric(Rate::from_mbps(mbps), Duration::from_millis(rtt_ms));
    if loss > 0.0 {
        duplex.up.loss = Loss::Bernoulli(loss);
        duplex.down.loss = Loss::Bernoulli(loss);
    }
    duplex
}

fn disjoint(count: usize, loss: f64, server: ServerAddresses) -> Topology {
    let names = ["wifi", "lte", "ethernet"];
    let paths: Vec<PathSpec> =
        (0..count).map(|path| PathSpec::new(names[path], duplex(10, 20 + 15 * path as u64, loss))).collect();
    topology::disjoint(&paths, server).expect("a network")
}

/// Returns two paths between hosts with IPv6 addresses: two at the client, two at the server.
fn over_v6() -> (Network, FlowSpec) {
    let mut network = Network::new();
    let (client, server) =
        (network.add_host("client").expect("new"), network.add_host("server").expect("new"));
    let ip = |net, host| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, host));
    for net in 1..=2 {
        let at_client = network.add_address(client, ip(net, 1), false).expect("new");
        let at_server = network.add_address(server, ip(net, 2), false).expect("new");
        assert_eq!((at_client, at_server), (PathId(net - 1), PathId(net - 1)));
    }
    for net in 1..=2 {
        let Duplex { up, down } = duplex(10, 20 * u64::from(net), 0.0);
        let link = |network: &mut Network, way: &str, config: LinkConfig| {
            network.add_link(format!("path{net}.{way}"), config).expect("new")
        };
        let (up, down) = (link(&mut network, "up", up), link(&mut network, "down", down));
        for other in 1..=2 {
            let path = PathId(net - 1);
            network.add_route(client, path, ip(other, 2), &[up]).expect("new");
            network.add_route(server, path, ip(other, 1), &[down]).expect("new");
        }
    }
    let flow = FlowSpec::new(
        "flow",
        (client, ip(1, 1)),
        (server, ip(1, 2)),
        Some(Bytes(200_000)),
        ConnectionConfig::linux(),
    );
    (network, flow)
}

/// A capture in a file, and tshark's view of it.
struct Read {
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl Read {
    /// Runs `flows` and captures at host `view`; `act` may interfere after 100 ms.
    fn of(
        network: Network,
        flows: Vec<FlowSpec>,
        view: HostId,
        act: impl FnOnce(&mut Sim<Capture<Vec<u8>>>),
    ) -> Read {
        let capture = Capture::new(&network, view, None, Vec::new()).expect("a vector takes all");
        let mut sim = Sim::new(network, flows, 7, capture).expect("a run");
        sim.run_through(Time::from_millis(100));
        act(&mut sim);
        sim.run_through(Time::from_secs(20));
        let bytes = sim.into_recorder().finish().expect("a vector takes all");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("capture.pcapng");
        std::fs::write(&path, bytes).expect("space");
        Read { _directory: directory, path }
    }

    /// Returns the values of `fields` in each packet that matches `filter`, in this order.
    fn fields(&self, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&self.path).args(["-Y", filter, "-T", "fields", "-E", "occurrence=f"]);
        // Every checksum is verified, and mappings are analysed.
        for option in ["tcp.check_checksum", "ip.check_checksum", "mptcp.analyze_mappings"] {
            command.args(["-o", &format!("{option}:TRUE")]);
        }
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.output().expect("tshark runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// Returns the bytes of each packet.
    fn packets(&self) -> Vec<Vec<u8>> {
        let file = std::fs::read(&self.path).expect("the capture");
        let u32_at =
            |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes")) as usize;
        let (mut packets, mut at) = (Vec::new(), 0);
        while at < file.len() {
            if u32_at(at) == 6 {
                packets.push(file[at + 28..at + 28 + u32_at(at + 20)].to_vec());
            }
            at += u32_at(at + 4);
        }
        packets
    }

    /// Returns the distinct values of one field.
    fn set(&self, filter: &str, field: &str) -> BTreeSet<String> {
        self.fields(filter, &[field]).into_iter().map(|mut row| row.remove(0)).collect()
    }

    fn count(&self, filter: &str) -> usize {
        self.fields(filter, &["frame.number"]).len()
    }

    /// Asserts that no packet has a problem.
    #[track_caller]
    fn is_clean(&self) {
        let wrong = "_ws.malformed || _ws.short || _ws.expert.severity >= 0x00800000 \
             || tcp.checksum.status != 1 || (ip && ip.checksum.status != 1) || !tcp";
        let rows = self.fields(wrong, &["frame.number", "_ws.expert.message", "_ws.col.Info"]);
        assert!(rows.is_empty(), "{rows:?}");
        assert!(self.packets().len() > 5);
    }

    /// Asserts that tshark derives the tokens from the keys, and that the joins refer to them.
    #[track_caller]
    fn joins_are_recovered(&self, subflows: usize) {
        let key = |filter: &str, field: &str| {
            let rows = self.fields(filter, &[field]);
            let text = rows.first().expect("a handshake")[0].clone();
            Key(text.parse().unwrap_or_else(|_| panic!("a key: {text}")))
        };
        let syn_ack = "tcp.flags.syn == 1 && tcp.flags.ack == 1 && tcp.options.mptcp.subtype == 0";
        let server = key(syn_ack, "tcp.options.mptcp.sendkey");
        let token = self.set(syn_ack, "mptcp.expected_token");
        assert_eq!(token, BTreeSet::from([crypto::token(server).to_string()]));
        let joins = "tcp.flags.syn == 1 && tcp.flags.ack == 0 && tcp.options.mptcp.subtype == 1";
        if subflows > 1 {
            assert_eq!(self.set(joins, "tcp.options.mptcp.recvtok"), token);
        }
        let streams = self.set("tcp", "tcp.stream");
        assert_eq!(streams.len(), subflows, "{streams:?}");
        // It has combined them into one connection.
        assert_eq!(self.set("tcp.len > 0", "mptcp.stream"), BTreeSet::from(["0".to_owned()]));
    }

    /// Asserts that the data sequence number of each data packet of the client agrees with the comment.
    #[track_caller]
    fn data_sequence_numbers_are_recovered(&self, size: u64) {
        let first = self.fields("tcp.options.mptcp.recvkey", &["tcp.options.mptcp.sendkey"]);
        let key = Key(first.first().expect("a third packet")[0].parse().expect("a key"));
        let origin = crypto::initial_dsn(key).add(1).0;
        let fields = ["tcp.options.mptcp.rawdataseqno", "tcp.len", "frame.comment"];
        let rows = self.fields("tcp.len > 0 && frame.comment && tcp.options.mptcp.rawdataseqno", &fields);
        let mut end = 0;
        for row in &rows {
            let dsn: u64 = row[0].parse().expect("a data sequence number");
            let range = row[2].split("stream ").nth(1).expect("where in the stream");
            let range = range.split(';').next().unwrap_or_default();
            let (from, to) = range.split_once("..").expect("a range");
            let (from, to): (u64, u64) = (from.parse().expect("a number"), to.parse().expect("a number"));
            assert_eq!(to - from, row[1].parse::<u64>().expect("a length"));
            // A mapping may be repeated by a segment from its middle.
            let offset = dsn.wrapping_sub(origin);
            assert!(offset <= from && from < offset + 65_536, "{row:?}");
            end = end.max(to);
        }
        assert_eq!(end, size, "all of the stream is seen");
        // tshark counts it from 1, as for TCP.
        assert!(self.set("tcp.len > 0", "mptcp.dsn").contains("1401"));
    }
}

fn linux() -> ConnectionConfig {
    ConnectionConfig::linux()
}

const SIZE: u64 = 300_000;

fn upload(topology: &Topology, config: ConnectionConfig) -> Vec<FlowSpec> {
    vec![topology.pairs[0].flow("flow", Some(Bytes(SIZE)), config)]
}

/// Returns a capture at the client of an upload over `topology`.
fn captured(topology: Topology, config: ConnectionConfig) -> Read {
    let flows = upload(&topology, config);
    Read::of(topology.network, flows, topology.pairs[0].client, |_| {})
}

#[test]
fn one_path() {
    if !have_tshark() {
        return;
    }
    let read = captured(disjoint(1, 0.0, ServerAddresses::One), linux());
    read.is_clean();
    read.joins_are_recovered(1);
    read.data_sequence_numbers_are_recovered(SIZE);
    // The keys and the length of the first data instead of a mapping (RFC 8684 section 3.1).
    assert_eq!(read.count("tcp.options.mptcp.recvkey && tcp.options.mptcp.datalvllen == 1400"), 1);
    let comments = read.set("tcp.len > 0", "frame.comment");
    let (new, again) = ("new data: the only subflow; stream ", "retransmission; stream ");
    assert!(comments.iter().all(|text| text.starts_with(new) || text.starts_with(again)), "{comments:?}");
    assert!(comments.contains("new data: the only subflow; stream 1400..2800"));
}

#[test]
fn a_plain_tcp() {
    if !have_tshark() {
        return;
    }
    let config = ConnectionConfig { mptcp: false, ..linux() };
    let read = captured(disjoint(1, 0.01, ServerAddresses::One), config);
    read.is_clean();
    assert_eq!(read.count("mptcp || tcp.options.mptcp.subtype"), 0);
    assert!(read.count("tcp.options.sack_le") > 0);
}

#[test]
fn joins_over_two_and_three_paths() {
    if !have_tshark() {
        return;
    }
    for paths in [2, 3] {
        let read = captured(disjoint(paths, 0.0, ServerAddresses::One), linux());
        read.is_clean();
        read.joins_are_recovered(paths);
        read.data_sequence_numbers_are_recovered(SIZE);
        let interfaces = read.set("tcp", "frame.interface_name");
        assert_eq!(interfaces.len(), 2 * paths);
        assert!(interfaces.contains("wifi.up") && interfaces.contains("lte.down"));
        let comments = read.set("tcp.len > 0 && frame.interface_name == \"lte.up\"", "frame.comment");
        assert!(!comments.is_empty());
        assert!(comments.iter().all(|comment| comment.contains("lowest RTT")), "{comments:?}");
    }
}

#[test]
fn loss_with_sack_and_reinjection() {
    if !have_tshark() {
        return;
    }
    let read = captured(disjoint(2, 0.02, ServerAddresses::One), linux());
    read.is_clean();
    read.joins_are_recovered(2);
    assert!(read.count("tcp.options.sack_le") > 0);
    assert!(read.count("frame.comment contains \"lost on the link: random loss\"") > 0);
    assert!(read.count("frame.comment contains \"retransmission\"") > 0);
}

#[test]
fn a_redundant_scheduler_sends_copies() {
    if !have_tshark() {
        return;
    }
    let config = ConnectionConfig { scheduler: SchedulerKind::Redundant, ..linux() };
    let read = captured(disjoint(2, 0.0, ServerAddresses::One), config);
    read.is_clean();
    assert!(read.count("frame.comment contains \"every subflow carries the whole stream\"") > 100);
}

#[test]
fn dss_checksums() {
    if !have_tshark() {
        return;
    }
    let config = ConnectionConfig { checksums: Checksums::Required, ..linux() };
    let read = captured(disjoint(2, 0.01, ServerAddresses::One), config);
    read.is_clean();
    read.joins_are_recovered(2);
    assert_eq!(read.count("tcp.options.mptcp.checksumreq.flags == 0"), 0);
    // tshark verifies no DSS checksum, so RFC 8684 section 3.3.1 is implemented here again: the full data
    // sequence number, the subflow's, the length, and a payload of zeros.
    let (mut mappings, mut first) = (0, 0);
    for packet in read.packets() {
        let parsed = parse(&packet, wire::Checksums::Verify).expect("a whole packet");
        for option in parsed.segment.options.mptcp.iter().flatten() {
            if let MptcpOption::Capable(Capable {
                checksum: Some(sum),
                sender_key: Some(key),
                data_len,
                ..
            }) = *option
            {
                first += 1;
                let dsn = crypto::initial_dsn(key).add(1);
                assert_eq!(!sum, pseudo_header(dsn.0, 1, data_len.expect("with a length")));
            }
        }
        let Some(mapping) = parsed.segment.options.dss.and_then(|dss| dss.mapping) else { continue };
        let MappedDsn::Wide(dsn) = mapping.dsn else { panic!("a narrow number: {mapping:?}") };
        mappings += 1;
        let sum = mapping.checksum.expect("agreed on");
        assert_eq!(!sum, pseudo_header(dsn.0, mapping.ssn, mapping.len), "{mapping:?}");
    }
    assert!(mappings > 100 && first > 0, "{mappings} and {first}");
}

/// Returns the sum of the pseudo-header of a mapping.
fn pseudo_header(dsn: u64, ssn: u32, len: u16) -> u16 {
    let mut bytes = dsn.to_be_bytes().to_vec();
    bytes.extend(ssn.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    wire::checksum::sum(&bytes)
}

#[test]
fn addresses_are_announced_and_joined_over_ipv4_and_ipv6() {
    if !have_tshark() {
        return;
    }
    let read = captured(disjoint(2, 0.0, ServerAddresses::OnePerPath), linux());
    read.is_clean();
    assert_eq!(
        read.set("tcp.options.mptcp.subtype == 3", "tcp.options.mptcp.ipv4"),
        BTreeSet::from(["172.16.0.2".to_owned()])
    );
    assert!(read.count("tcp.options.mptcp.echo == 1") > 0);

    let (network, flow) = over_v6();
    let client = flow.client;
    let read = Read::of(network, vec![flow], client, |_| {});
    read.is_clean();
    assert_eq!(read.count("ip"), 0);
    assert_eq!(
        read.set("tcp.options.mptcp.subtype == 3", "tcp.options.mptcp.ipv6"),
        BTreeSet::from(["2001:db8:0:2::2".to_owned()])
    );
    assert!(read.set("tcp", "tcp.stream").len() > 1);
    assert_eq!(read.set("tcp.len > 0", "mptcp.stream"), BTreeSet::from(["0".to_owned()]));
}

#[test]
fn an_orderly_end_and_a_half_read_one() {
    if !have_tshark() {
        return;
    }
    let topology = disjoint(2, 0.0, ServerAddresses::One);
    let mut flows = upload(&topology, linux());
    flows[0].reading = Reading::AtRate(Rate::from_mbps(4));
    let read = Read::of(topology.network, flows, topology.pairs[0].client, |_| {});
    read.is_clean();
    // DATA_FIN in both directions, then FIN on each subflow.
    assert!(read.set("tcp.options.mptcp.datafin.flag == 1", "ip.src").len() == 2);
    let fins = read.set("tcp.flags.fin == 1", "tcp.stream");
    assert_eq!(fins.len(), 2);
}

#[test]
fn an_abort_carries_the_key_of_the_peer() {
    if !have_tshark() {
        return;
    }
    let topology = disjoint(2, 0.0, ServerAddresses::One);
    let flows = upload(&topology, linux());
    let read = Read::of(topology.network, flows, topology.pairs[0].client, |sim| {
        sim.abort(FlowId(0), End::Client);
    });
    read.is_clean();
    read.joins_are_recovered(2);
    let key = read.fields("tcp.flags.syn == 1 && tcp.flags.ack == 1", &["tcp.options.mptcp.sendkey"]);
    assert_eq!(
        read.set("tcp.options.mptcp.subtype == 7", "tcp.options.mptcp.recvkey"),
        BTreeSet::from([key[0][0].clone()])
    );
    assert_eq!(read.set("tcp.flags.reset == 1 && tcp.options.mptcp.subtype == 7", "tcp.stream").len(), 2);
}

#[test]
fn an_address_that_goes_is_withdrawn() {
    if !have_tshark() {
        return;
    }
    let topology = disjoint(2, 0.0, ServerAddresses::One);
    let (flows, client) = (upload(&topology, linux()), topology.pairs[0].client);
    let read = Read::of(topology.network, flows, client, |sim| sim.set_address_up(client, PathId(1), false));
    read.is_clean();
    assert!(read.count("tcp.options.mptcp.subtype == 4") > 0);
}

#[test]
fn a_download_is_seen_at_either_end() {
    if !have_tshark() {
        return;
    }
    for at_sender in [true, false] {
        let topology = disjoint(2, 0.01, ServerAddresses::One);
        let mut flows = upload(&topology, linux());
        flows[0].direction = Direction::Download;
        let pair = &topology.pairs[0];
        let view = if at_sender { pair.server } else { pair.client };
        let read = Read::of(topology.network, flows, view, |_| {});
        read.is_clean();
        read.joins_are_recovered(2);
        let server = "tcp.len > 0 && ip.src == 172.16.0.1";
        assert_eq!(read.count(&format!("{server} && frame.comment")) > 0, at_sender);
        // The sender captures its packets as they leave; the receiver as they arrive.
        let direction = if at_sender { "2" } else { "1" };
        assert_eq!(read.set(server, "frame.packet_flags_direction").len(), 1);
        assert!(
            read.set(server, "frame.packet_flags_direction").iter().all(|flags| flags.ends_with(direction))
        );
    }
}

#[test]
fn many_flows_are_taken_for_no_other_protocol() {
    if !have_tshark() {
        return;
    }
    let topology = disjoint(2, 0.0, ServerAddresses::One);
    let flow = |number: usize| topology.pairs[0].flow(format!("{number}"), Some(Bytes(3000)), linux());
    let flows = (0..300).map(flow).collect();
    let read = Read::of(topology.network.clone(), flows, topology.pairs[0].client, |_| {});
    read.is_clean();
    assert_eq!(read.set("tcp", "tcp.dstport").iter().filter(|port| port.starts_with("35")).count(), 300);
}

#[test]
fn a_short_snapshot_keeps_the_headers() {
    if !have_tshark() {
        return;
    }
    let topology = disjoint(2, 0.0, ServerAddresses::One);
    let flows = upload(&topology, linux());
    let capture = Capture::new(&topology.network, topology.pairs[0].client, Some(100), Vec::new());
    let mut sim = Sim::new(topology.network, flows, 7, capture.expect("a vector takes all")).expect("a run");
    sim.run_through(Time::from_secs(20));
    let bytes = sim.into_recorder().finish().expect("a vector takes all");
    assert!((bytes.len() as u64) < SIZE / 3, "{}", bytes.len());
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("capture.pcapng");
    std::fs::write(&path, bytes).expect("space");
    let read = Read { _directory: directory, path };
    assert_eq!(read.count("_ws.malformed || _ws.expert.severity >= 0x00800000"), 0);
    assert_eq!(read.set("frame.cap_len < frame.len", "frame.cap_len"), BTreeSet::from(["100".to_owned()]));
    read.joins_are_recovered(2);
    read.data_sequence_numbers_are_recovered(SIZE);
}
