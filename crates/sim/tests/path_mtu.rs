//! A path with an MTU of 1300 bytes, for hosts that assume 1500.

use crate::common;

use anabranch_link::QueueLimit;
use anabranch_sim::topology::{self, ServerAddresses};
use anabranch_sim::{End, FlowId, FlowReport, Outcome, Sim};
use anabranch_stack::config::{ConnectionConfig, PathMtuDiscovery};
use anabranch_stack::stats::SubflowStats;
use anabranch_units::{Bytes, Duration, Time};
use common::path;

const MTU: u32 = 1300;
/// The payload of a segment in it, over IPv4.
const PAYLOAD: u32 = MTU - 80;

/// Runs a flow of 4 MB over the last `paths` of two paths, the last of which is narrow.
fn narrow(paths: usize, tells: bool, how: PathMtuDiscovery) -> (FlowReport, Vec<SubflowStats>, u64) {
    narrow_of(paths, tells, ConnectionConfig { path_mtu: how, ..ConnectionConfig::linux() })
}

/// [`narrow`] with these settings.
fn narrow_of(paths: usize, tells: bool, config: ConnectionConfig) -> (FlowReport, Vec<SubflowStats>, u64) {
    let mut specs = [path("wide", 20, 20), path("narrow", 20, 10)];
    let stretch = &mut specs[1].stretches[0];
    for link in [&mut stretch.up, &mut stretch.down] {
        (link.mtu, link.reports_mtu) = (Some(MTU), tells);
        // No packet is dropped for lack of space.
        link.queue = QueueLimit::Packets(10_000);
    }
    let topology = topology::disjoint(&specs[2 - paths..], ServerAddresses::One).unwrap();
    let flow = topology.pairs[0].flow("flow", Some(Bytes(4_000_000)), config);
    let mut sim = Sim::new(topology.network, vec![flow], 1, ()).unwrap();
    // Just before its end, while the connection still exists.
    sim.run(Time::from_millis(1500));
    let client = sim.flows()[0].host(End::Client);
    let id = sim.connection(FlowId(0), End::Client).expect("it is under way");
    let subflows = sim.stack(client).subflow_stats(id);
    let report = sim.run(Time::from_secs(120));
    let dropped = report.links.iter().map(|link| link.counters.dropped_too_large.packets).sum();
    (report.flows[0].clone(), subflows, dropped)
}

#[test]
fn a_router_that_tells_costs_a_round_trip() {
    let (flow, subflows, dropped) = narrow(1, true, PathMtuDiscovery::Icmp);
    assert_eq!(flow.outcome, Outcome::Completed);
    assert_eq!(subflows[0].mss, PAYLOAD);
    // The initial window, and segments sent before the report arrived.
    assert!((1..=10).contains(&dropped), "{dropped}");
    assert_eq!(subflows[0].counters.recoveries, 0, "it is no sign of congestion");
    assert_eq!(subflows[0].counters.timeouts, 0);
}

/// Its segments have no options of Multipath TCP, and use their space.
#[test]
fn a_plain_tcp_fills_the_narrow_path() {
    let config = ConnectionConfig { path_mtu: PathMtuDiscovery::Icmp, mss: 1448, ..common::tcp() };
    let (flow, subflows, dropped) = narrow_of(1, true, config);
    assert_eq!((flow.outcome, subflows[0].mss), (Outcome::Completed, PAYLOAD + 28));
    assert!((1..=10).contains(&dropped), "{dropped}");
}

#[test]
fn a_black_hole_is_found_and_its_size_searched() {
    let (flow, subflows, dropped) = narrow(1, false, PathMtuDiscovery::Probe);
    assert_eq!(flow.outcome, Outcome::Completed);
    // The search is still running, or complete.
    let mss = subflows[0].mss;
    assert!(mss > 984 && mss <= PAYLOAD, "{mss}");
    // The initial window and its retransmissions, and a few probes.
    assert!((1..=30).contains(&dropped), "{dropped}");
}

#[test]
fn without_a_report_and_without_probing_nothing_passes() {
    for (tells, how) in [(false, PathMtuDiscovery::Icmp), (true, PathMtuDiscovery::Off)] {
        let (flow, subflows, _) = narrow(1, tells, how);
        assert_ne!(flow.outcome, Outcome::Completed);
        assert_eq!(subflows[0].mss, 1400);
    }
}

#[test]
fn a_black_hole_on_one_of_two_paths_stops_nobody() {
    let (flow, _, _) = narrow(2, false, PathMtuDiscovery::Probe);
    assert_eq!(flow.outcome, Outcome::Completed);
    // Without probing the narrow subflow keeps its data, but the other delivers it too.
    let (flow, subflows, _) = narrow(2, false, PathMtuDiscovery::Icmp);
    assert!(flow.fct.is_some_and(|fct| fct < Duration::from_secs(5)), "{flow:?}");
    assert_eq!(subflows[1].counters.bytes_acked, 0);
}
