//! A single flow fills its path, and one flow fills two paths.

use anabranch_sim::topology::{self, PathSpec, ServerAddresses};
use anabranch_sim::{RunReport, Sim};
use anabranch_stack::config::{ConnectionConfig, SimConfig};
use anabranch_stack::congestion::{CongestionKind, CubicOptions};
use anabranch_units::{Bytes, Duration, Time};

use crate::common::path;

/// Payload and wire bytes of a full segment: IPv4 and TCP headers, timestamps, and for MPTCP a data
/// ACK and a mapping with 64-bit numbers.
const TCP_SHARE: f64 = 1400.0 / (1400.0 + 40.0 + 12.0);
const MPTCP_SHARE: f64 = 1400.0 / (1400.0 + 40.0 + 40.0);

/// The time when the overshoot of the first slow start is repaired. Without SACK that takes a round trip for
/// each of hundreds of losses.
const WARM: u64 = 20;
const SPAN: u64 = 30;

/// Returns the bits per second that arrived in 30 s of steady state, and the report.
fn steady_rate(paths: &[PathSpec], config: impl Into<SimConfig>) -> (f64, RunReport) {
    let topology = topology::disjoint(paths, ServerAddresses::One).unwrap();
    let flow = topology.pairs[0].flow("bulk", None, config);
    let mut sim = Sim::new(topology.network, vec![flow], 1, ()).unwrap();
    let arrived = |report: &RunReport| report.flows[0].bytes_by_path.iter().sum::<u64>();
    let before = arrived(&sim.run(Time::from_secs(WARM)));
    let report = sim.run(Time::from_secs(WARM + SPAN));
    ((arrived(&report) - before) as f64 * 8.0 / SPAN as f64, report)
}

#[test]
fn a_lone_flow_fills_a_clean_path() {
    for congestion in
        [CongestionKind::NewReno, CongestionKind::Cubic(CubicOptions::DEFAULT), CongestionKind::Lia]
    {
        for (mptcp, share) in [(false, TCP_SHARE), (true, MPTCP_SHARE)] {
            for mut config in [ConnectionConfig::linux().into(), SimConfig::ns3()] {
                (config.mptcp, config.congestion) = (mptcp, congestion.clone());
                let detection = config.loss_detection;
                let (rate, report) = steady_rate(&[path("a", 100, 20)], config);
                let filled = rate / (100e6 * share);
                println!("{} mptcp={mptcp} {detection:?}: {:.2} %", congestion.name(), 100.0 * filled);
                assert!(filled >= 0.95, "{filled} {:?}", report.flows[0].sender.subflows[0].counters);
                assert!(filled <= 1.0001, "{filled}");
            }
        }
    }
}

#[test]
fn two_disjoint_paths_are_filled_together() {
    for congestion in [CongestionKind::NewReno, CongestionKind::Cubic(CubicOptions::DEFAULT)] {
        for (slow_mbps, slow_rtt) in [(100, 20), (100, 80), (20, 60)] {
            let paths = [path("a", 100, 20), path("b", slow_mbps, slow_rtt)];
            let config = ConnectionConfig { congestion: congestion.clone(), ..ConnectionConfig::linux() };
            let (rate, report) = steady_rate(&paths, config);
            let filled = rate / ((100 + slow_mbps) as f64 * 1e6 * MPTCP_SHARE);
            println!("{} + {slow_mbps} Mbit/s {slow_rtt} ms: {:.2} %", congestion.name(), 100.0 * filled);
            assert!(filled >= 0.95, "{filled} {:?}", report.flows[0].sender.subflows[0].counters);
            assert!(filled <= 1.0001, "{filled}");
        }
    }
}

/// The overshoot of a slow start loses some 170 segments of one window. NewReno repairs one in a round trip;
/// RFC 6582 lets the timer of the first partial acknowledgement end that.
#[test]
fn many_losses_in_a_window_do_not_take_a_round_trip_each() {
    let topology = topology::disjoint(&[path("a", 100, 10)], ServerAddresses::One).unwrap();
    let mut config = SimConfig::ns3();
    config.mptcp = false;
    let flow = topology.pairs[0].flow("1 MB", Some(Bytes(1_000_000)), config);
    let report = Sim::new(topology.network, vec![flow], 1, ()).unwrap().run(Time::from_secs(10));
    let flow = &report.flows[0];
    assert!(report.links[0].counters.dropped_queue.packets > 100, "{:?}", report.links[0].counters);
    assert_eq!(flow.rto_count, 1);
    assert!(flow.fct.is_some_and(|fct| fct < Duration::from_millis(500)), "{:?}", flow.fct);
}
