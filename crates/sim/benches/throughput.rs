//! The speed of the simulator: wall time, packet-hops per second, delivered data packets per second, goodput.
//!
//! A packet-hop is one packet, data or acknowledgement, that has crossed one link. All workloads run on one
//! core, with SACK, timestamps, RACK-TLP, an acknowledgement for every second segment and segments of 1400
//! bytes, and with buffers that never limit. Every path is an access link of 1 Gbit/s and 1 ms one way and a
//! bottleneck, whose queue is 1 BDP; acknowledgements return over links of the same kind.
//!
//! * `w1`: one bulk NewReno TCP flow, bottleneck 100 Mbit/s and 9 ms one way, 60 s.
//! * `w2`: 100 such flows, each between its own two hosts with their own access links, over one bottleneck of
//!   1 Gbit/s and 9 ms, 10 s. `w2s`: the same between two hosts.
//! * `w3`: MPTCP with LIA and minRTT over two disjoint such paths of 10 and 80 ms round trip, 60 s.
//! * `w4`: 1 to 10,000 flows between two hosts over one path, 10 Mbit/s of the bottleneck for each flow.
//! * `w5`: one flow of 400 MB over the eight paths of the DMPTCP paper, with minRTT and with DMPTCP; `w6`:
//!   4000 flows of 57 KB, one every 50 ms. The difference is the cost of scheduling in a live run.
//! * `w7`: a fat tree of 128 hosts (k = 8) with links of 100 Mbit/s, 50 us and 100 packets, in which every host sends to
//!   another one with MPTCP, LIA and 8 subflows over routes of equal cost, 1 s.
//!
//! `cargo bench -p anabranch-sim -- w1 w3` runs some of them; `--runs 5` reports the fastest of five, and
//! `--for 0.5` ends each after half a second of network time, for use with valgrind.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "measures how fast the simulator is"
)]

use std::time::Instant;

use core::net::{IpAddr, Ipv4Addr};

use anabranch_link::{Capacity, LinkConfig, QueueLimit};
use anabranch_sim::routing::{self, Layout};
use anabranch_sim::topology::{self, Duplex, Hosts, PathSpec, ServerAddresses, Topology};
use anabranch_sim::{FlowSpec, HostId, LinkId, Network, RunReport, Sim};
use anabranch_stack::config::{AckConfig, ConnectionConfig, ReceiveBuffer};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_stack::segment::PathId;
use anabranch_units::{Bytes, Duration, Rate, Time};

fn main() {
    let mut runs = 1;
    let mut shorter = None;
    let mut chosen = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--runs" => runs = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1),
            "--for" => shorter = arguments.next().and_then(|seconds| seconds.parse().ok()),
            "--bench" => {}
            name => chosen.push(name.to_owned()),
        }
    }
    println!(
        "{:<16} {:>7} {:>9} {:>12} {:>12} {:>9} {:>11} {:>9} {:>8}",
        "workload", "sim s", "wall s", "packet-hops", "hops/s", "ns/hop", "delivered/s", "Mbit/s", "drops"
    );
    let wanted = |name: &str| {
        chosen.is_empty() || chosen.iter().any(|word| name == word || name.split(' ').next() == Some(word))
    };
    for (name, seconds, make) in workloads() {
        if wanted(&name) {
            let until = Time::ZERO + Duration::from_secs_f64(shorter.unwrap_or(seconds as f64));
            measure(&name, until, runs, &*make);
        }
    }
}

type Workload = (String, u64, Box<dyn Fn() -> (Topology, Vec<FlowSpec>)>);

fn workloads() -> Vec<Workload> {
    let mut all: Vec<Workload> = vec![
        ("w1".into(), 60, Box::new(|| many(1, Rate::from_mbps(100), Hosts::Separate))),
        ("w2".into(), 10, Box::new(|| many(100, Rate::from_mbps(1000), Hosts::Separate))),
        ("w2s".into(), 10, Box::new(|| many(100, Rate::from_mbps(1000), Hosts::Shared))),
        ("w3".into(), 60, Box::new(multipath)),
    ];
    for (n, seconds) in [(1, 600), (10, 60), (100, 10), (1000, 4), (10_000, 2)] {
        all.push((format!("w4 n={n}"), seconds, Box::new(move || one_path(n))));
    }
    for scheduler in [SchedulerKind::MinRtt, SchedulerKind::from_name("dmptcp").expect("it is built in")] {
        let name = format!("w5 {}", scheduler.name());
        let chosen = scheduler.clone();
        all.push((name, 600, Box::new(move || eight_paths(&chosen, 1, Bytes(400_000_000)))));
        let name = format!("w6 {}", scheduler.name());
        all.push((name, 600, Box::new(move || eight_paths(&scheduler, 4000, Bytes::from_kb(57)))));
    }
    all.push(("w7".into(), 1, Box::new(|| fat_tree(8, 8))));
    all
}

fn measure(name: &str, until: Time, runs: usize, make: &dyn Fn() -> (Topology, Vec<FlowSpec>)) {
    let mut fastest: Option<(f64, RunReport)> = None;
    for _ in 0..runs {
        let (topology, flows) = make();
        let mut sim = Sim::new(topology.network, flows, 1, ()).expect("the workload fits its network");
        let start = Instant::now();
        let report = sim.run(until);
        let wall = start.elapsed().as_secs_f64();
        if fastest.as_ref().is_none_or(|fastest| wall < fastest.0) {
            fastest = Some((wall, report));
        }
    }
    let Some((wall, report)) = fastest else { return };
    let performance = report.performance;
    let hops = performance.packet_hops as f64;
    let delivered: u64 = report.flows.iter().map(|flow| flow.delivered).sum();
    let drops: u64 = report.links.iter().map(|link| link.counters.dropped().packets).sum();
    println!(
        "{name:<16} {:>7} {wall:>9.3} {:>12} {:>12.0} {:>9.1} {:>11.0} {:>9.1} {drops:>8}",
        until.as_secs_f64(),
        performance.packet_hops,
        hops / wall,
        wall * 1e9 / hops,
        delivered as f64 / 1400.0 / wall,
        delivered as f64 * 8.0 / 1e6 / performance.simulated_s,
    );
}

fn tcp() -> ConnectionConfig {
    let linux = ConnectionConfig::linux();
    ConnectionConfig {
        mptcp: false,
        congestion: CongestionKind::NewReno,
        receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(64 << 10)),
        send_buffer: Bytes::from_kib(64 << 10),
        // Otherwise every segment would be acknowledged until the window has grown to all of the buffer.
        ack: AckConfig { growth: false, ..linux.ack },
        ..linux
    }
}

/// Returns a stretch with one rate; queues are sized by the round-trip time of the whole path.
fn stretch(rate: Rate, one_way: Duration, rtt: Duration) -> Duplex {
    let capacity = Capacity::Rate(rate);
    let link = LinkConfig { capacity, delay: one_way, rtt: Some(rtt), ..LinkConfig::default() };
    Duplex { up: link.clone(), down: link }
}

const RTT: Duration = Duration::from_millis(20);

fn many(flows: usize, bottleneck: Rate, hosts: Hosts) -> (Topology, Vec<FlowSpec>) {
    let access = stretch(Rate::from_mbps(1000), Duration::from_millis(1), RTT);
    let bottleneck = stretch(bottleneck, Duration::from_millis(9), RTT);
    let topology = topology::dumbbell(flows, &access, &bottleneck, hosts).expect("a right topology");
    let flows = topology.pairs.iter().map(|pair| pair.flow("bulk", None, tcp())).collect();
    (topology, flows)
}

fn multipath() -> (Topology, Vec<FlowSpec>) {
    let path = |name: &str, rtt_ms: u64| {
        let rtt = Duration::from_millis(rtt_ms);
        let access = stretch(Rate::from_mbps(1000), Duration::from_millis(1), rtt);
        let bottleneck = stretch(Rate::from_mbps(100), rtt / 2 - Duration::from_millis(1), rtt);
        PathSpec::new(name, access).then(bottleneck)
    };
    let topology = topology::disjoint(&[path("fast", 10), path("slow", 80)], ServerAddresses::One);
    let topology = topology.expect("a right topology");
    let config = ConnectionConfig { mptcp: true, congestion: CongestionKind::Lia, ..tcp() };
    let flows = vec![topology.pairs[0].flow("bulk", None, config)];
    (topology, flows)
}

fn one_path(count: u64) -> (Topology, Vec<FlowSpec>) {
    let access = stretch(Rate::from_mbps(100 * count), Duration::from_millis(1), RTT);
    let bottleneck = stretch(Rate::from_mbps(10 * count), Duration::from_millis(9), RTT);
    let path = PathSpec::new("path", access).then(bottleneck);
    let topology = topology::disjoint(&[path], ServerAddresses::One).expect("a right topology");
    // Starts are staggered: within one second, or within one round-trip time for few flows.
    let gap = Duration::from_millis(1000) / count.max(50);
    let flow = |number| topology.pairs[0].flow("bulk", None, tcp()).starting(Time::ZERO + gap * number);
    let flows = (0..count).map(flow).collect();
    (topology, flows)
}

fn eight_paths(scheduler: &SchedulerKind, count: u64, size: Bytes) -> (Topology, Vec<FlowSpec>) {
    let paths = [10, 20, 30, 40, 60, 80, 90, 100].map(|rtt_ms| {
        let rtt = Duration::from_millis(rtt_ms);
        PathSpec::new(format!("{rtt_ms} ms"), stretch(Rate::from_mbps(100), rtt / 2, rtt))
    });
    let topology = topology::disjoint(&paths, ServerAddresses::One).expect("a right topology");
    let config = ConnectionConfig {
        mptcp: true,
        congestion: CongestionKind::Lia,
        scheduler: scheduler.clone(),
        ..tcp()
    };
    let flow = |number| {
        let flow = topology.pairs[0].flow("web", Some(size), config.clone());
        flow.starting(Time::ZERO + Duration::from_millis(50) * number)
    };
    let flows = (0..count).map(flow).collect();
    (topology, flows)
}

/// Returns a fat tree of switches with `ports` ports, in which every host sends to the one 37 places after it.
fn fat_tree(ports: usize, subflows: u8) -> (Topology, Vec<FlowSpec>) {
    let Layout { nodes, joins } = routing::fat_tree(ports);
    let mut network = Network::new();
    let config = LinkConfig {
        capacity: Capacity::Rate(Rate::from_mbps(100)),
        delay: Duration::from_micros(50),
        queue: QueueLimit::Packets(100),
        ..LinkConfig::default()
    };
    let ends: Vec<(usize, usize)> = joins.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    let links: Vec<LinkId> = ends
        .iter()
        .enumerate()
        .map(|(n, _)| network.add_link(format!("link{n}"), config.clone()).expect("a right link"))
        .collect();
    let mut hosts: Vec<(usize, HostId, IpAddr)> = Vec::new();
    for (node, (name, _)) in nodes.iter().enumerate().filter(|(_, (_, is_router))| !is_router) {
        let host = network.add_host(name.clone()).expect("a new name");
        let ip = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0001 + node as u32));
        network.add_address(host, ip, false).expect("a new address");
        hosts.push((node, host, ip));
    }
    let forwards: Vec<bool> = nodes.iter().map(|node| node.1).collect();
    let config = ConnectionConfig {
        mptcp: true,
        congestion: CongestionKind::Lia,
        path_manager: PathManagerKind::NDiffPorts(subflows),
        ..tcp()
    };
    let mut flows = Vec::new();
    for at in 0..hosts.len() {
        let (from, to) = (hosts[at], hosts[(at + 37) % hosts.len()]);
        for (from, to) in [(from, to), (to, from)] {
            let routes = routing::shortest_routes(&forwards, &ends, from.0, None, to.0);
            let routes: Vec<Vec<LinkId>> =
                routes.iter().map(|route| route.iter().map(|&link| links[link]).collect()).collect();
            network.add_equal_cost_routes(from.1, PathId(0), to.2, &routes).expect("a right route");
        }
        flows.push(FlowSpec::new(format!("flow{at}"), (from.1, from.2), (to.1, to.2), None, config.clone()));
    }
    (Topology { network, pairs: Vec::new() }, flows)
}
