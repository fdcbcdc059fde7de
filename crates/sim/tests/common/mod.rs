//! Networks and flows shared by several tests.
#![allow(dead_code)]

use anabranch_link::Loss;
use anabranch_sim::FlowSpec;
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses, Topology};
use anabranch_stack::config::{ConnectionConfig, SimConfig};
use anabranch_units::{Bytes, Duration, Rate};

/// Returns a path with this rate in Mbit/s and round-trip time in milliseconds.
pub fn path(name: &str, mbps: u64, rtt_ms: u64) -> PathSpec {
    PathSpec::new(name, Duplex::symmetric(Rate::from_mbps(mbps), Duration::from_millis(rtt_ms)))
}

/// Returns paths of 10 Mbit/s with round-trip times of 20 and 50 ms, and a flow over both.
pub fn two_paths(size: Option<Bytes>, config: impl Into<SimConfig>) -> (Topology, FlowSpec) {
    let paths = [path("wifi", 10, 20), path("lte", 10, 50)];
    let topology = topology::disjoint(&paths, ServerAddresses::One).unwrap();
    let flow = topology.pairs[0].flow("flow", size, config);
    (topology, flow)
}

/// Returns the same with random loss from client to server.
pub fn two_lossy_paths(size: Option<Bytes>, config: impl Into<SimConfig>) -> (Topology, FlowSpec) {
    let mut paths = [path("wifi", 10, 20), path("lte", 10, 50)];
    for path in &mut paths {
        path.stretches[0].up.loss = Loss::Bernoulli(0.01);
    }
    let topology = topology::disjoint(&paths, ServerAddresses::One).unwrap();
    let flow = topology.pairs[0].flow("flow", size, config);
    (topology, flow)
}

/// Returns plain TCP with the settings of current Linux.
pub fn tcp() -> ConnectionConfig {
    ConnectionConfig { mptcp: false, ..ConnectionConfig::linux() }
}
