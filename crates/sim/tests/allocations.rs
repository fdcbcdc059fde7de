//! The steady state allocates nothing. A separate binary, because it counts the calls of the allocator.

mod common;

use std::alloc::System;

use anabranch_sim::application::{Application, Datagrams};
use anabranch_sim::distribution::Distribution;
use anabranch_sim::{FlowSpec, Sim};
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_units::{Duration, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Returns the allocations per 1000 packet-hops after a warm-up; only growth to a new maximum remains.
fn allocations(config: ConnectionConfig, datagrams: bool) -> (usize, u64) {
    let (topology, flow) = common::two_paths(None, config);
    let mut flows = vec![flow.clone()];
    if datagrams {
        let gap = Distribution::Constant(2e6);
        let plan = Datagrams { payload: 1000, gap, span: Duration::from_secs(60) };
        flows.push(FlowSpec { name: "udp".into(), application: Application::Datagrams(plan), ..flow });
    }
    let mut sim = Sim::new(topology.network, flows, 1, ()).unwrap();
    let run_to = |sim: &mut Sim, until| {
        while sim.next_time().is_some_and(|time| time <= until) {
            sim.step();
        }
    };
    run_to(&mut sim, Time::from_secs(20));
    let hops = sim.performance().packet_hops;
    let region = Region::new(ALLOCATOR);
    run_to(&mut sim, Time::from_secs(40));
    let change = region.change();
    (change.allocations + change.reallocations, sim.performance().packet_hops - hops)
}

/// One test, because the counter is global.
#[test]
fn the_steady_state_allocates_nothing_per_packet() {
    let tcp =
        ConnectionConfig { mptcp: false, congestion: CongestionKind::NewReno, ..ConnectionConfig::linux() };
    let mptcp = ConnectionConfig { congestion: CongestionKind::Lia, ..ConnectionConfig::linux() };
    for (name, config, datagrams) in
        [("tcp", tcp.clone(), false), ("mptcp", mptcp, false), ("udp", tcp, true)]
    {
        let (allocations, hops) = allocations(config, datagrams);
        println!("{name}: {allocations} allocations in {hops} packet-hops");
        assert!(hops > 20_000, "{name}: {hops}");
        // A queue may still reach a new maximum.
        assert!(allocations < 20, "{name}: {allocations} allocations in {hops} packet-hops");
    }
}
