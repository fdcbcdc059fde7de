//! BBR on a path: its estimates, and the queue it leaves.

use std::collections::BTreeSet;

use anabranch_link::{Change, Loss, QueueLimit, Step};
use anabranch_sim::topology::{self, PathSpec, ServerAddresses};
use anabranch_sim::{End, FlowId, RunReport, Sim};
use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer};
use anabranch_stack::congestion::{AnyCongestion, BbrOptions, BbrState, CongestionControl, CongestionKind};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Bytes, Rate, Time};

use crate::common::path;

fn sim(path: PathSpec, congestion: &str) -> Sim<()> {
    let topology = topology::disjoint(&[path], ServerAddresses::One).unwrap();
    let config = ConnectionConfig {
        mptcp: false,
        congestion: CongestionKind::from_name(congestion).unwrap(),
        receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(16 << 10)),
        ..ConnectionConfig::linux()
    };
    let flow = topology.pairs[0].flow("flow", None, config);
    Sim::new(topology.network, vec![flow], 1, ()).unwrap()
}

/// Returns a path of 20 Mbit/s and 40 ms with a queue of four BDP.
fn deep() -> PathSpec {
    let mut path = path("a", 20, 40);
    path.stretches[0].up.queue = QueueLimit::Bdp(4.0);
    path
}

fn mbps(report: &RunReport) -> f64 {
    report.flows[0].delivered as f64 * 8.0 / report.end.as_secs_f64() / 1e6
}

fn drops(report: &RunReport) -> u64 {
    report.links.iter().map(|link| link.counters.dropped_queue.packets).sum()
}

#[test]
fn alone_it_fills_the_path_and_not_the_queue() {
    let report = sim(deep(), "bbr").run(Time::from_secs(30));
    // 1400 of 1452 bytes are payload: 19.3 Mbit/s.
    assert!(mbps(&report) > 0.9 * 19.28, "{}", mbps(&report));
    assert_eq!(drops(&report), 0);
    let srtt = report.flows[0].sender.subflows[0].srtt.unwrap();
    assert!(srtt.as_millis_f64() < 60.0, "{srtt}");
    let cubic = sim(deep(), "cubic").run(Time::from_secs(30));
    let longest = |report: &RunReport| {
        report.links[0].counters.max_queue.bytes.max(report.links[1].counters.max_queue.bytes)
    };
    assert!(longest(&report) < longest(&cubic));
}

#[test]
fn random_losses_below_its_threshold_cost_it_little() {
    let lossy = || {
        let mut path = deep();
        path.stretches[0].up.loss = Loss::Bernoulli(0.01);
        path
    };
    let (bbr, reno) =
        (sim(lossy(), "bbr").run(Time::from_secs(30)), sim(lossy(), "newreno").run(Time::from_secs(30)));
    assert!(mbps(&bbr) > 0.75 * 19.28, "{}", mbps(&bbr));
    assert!(mbps(&bbr) > 2.0 * mbps(&reno), "{} and {}", mbps(&bbr), mbps(&reno));
}

#[test]
fn it_goes_through_all_its_states_and_looks_for_the_least_rtt_every_five_seconds() {
    let mut sim = sim(deep(), "bbr");
    let mut states = BTreeSet::new();
    let (mut probes, mut before) = (Vec::new(), None);
    while sim.now() < Time::from_secs(24) {
        let Some(now) = sim.step() else { break };
        let Some(id) = sim.connection(FlowId(0), End::Client) else { continue };
        let host = sim.flows()[0].client;
        let Some(AnyCongestion::Bbr(bbr)) = sim.stack(host).congestion(id) else { continue };
        let Some(state) = bbr.state(SubflowId(0)) else { continue };
        states.insert(format!("{state:?}"));
        if state == BbrState::ProbeRtt && before != Some(state) {
            probes.push(now.as_secs_f64());
        }
        if state == BbrState::ProbeRtt {
            // Half of the BDP of 100 kB, or the remainder of the window before.
            assert!(bbr.cwnd(SubflowId(0)) < 60_000, "{}", bbr.cwnd(SubflowId(0)));
        }
        before = Some(state);
    }
    assert_eq!(states.len(), 7, "{states:?}");
    assert!(probes.len() >= 3, "{probes:?}");
    for pair in probes.windows(2) {
        assert!((5.0..6.0).contains(&(pair[1] - pair[0])), "{probes:?}");
    }
}

/// Returns the same path with a rate that falls to a tenth after ten seconds.
fn falling(queue: f64) -> Sim<()> {
    let mut path = path("a", 20, 40);
    path.stretches[0].up.queue = QueueLimit::Bdp(queue);
    path.stretches[0].up.timeline =
        vec![Step { at: Time::from_secs(10), change: Change::Rate(Rate::from_mbps(2)) }];
    sim(path, "bbr")
}

/// Returns the pacing rate and the smoothed RTT in milliseconds.
fn paced(sim: &Sim<()>) -> (Rate, f64) {
    let stack = sim.stack(sim.flows()[0].client);
    let id = sim.connection(FlowId(0), End::Client).unwrap();
    let rate = stack.congestion(id).unwrap().pacing_rate(SubflowId(0)).unwrap();
    (rate, stack.subflow_stats(id)[0].srtt.unwrap().as_millis_f64())
}

#[test]
fn a_path_that_becomes_ten_times_slower_is_found_out() {
    // A queue of one BDP overflows then, and BBR reacts to the losses.
    let mut sim = falling(1.0);
    sim.run(Time::from_secs(25));
    assert!(paced(&sim).0 < Rate::from_mbps(3), "{}", paced(&sim).0);
    let before = sim.report().flows[0].delivered;
    let after = sim.run(Time::from_secs(35)).flows[0].delivered;
    assert!((after - before) as f64 * 8.0 / 10.0 > 0.85 * 1.93e6);
}

#[test]
fn a_slower_path_is_found_out_where_every_probe_is_cut_short() {
    // A queue of four BDP makes round-trip times of a second, so that ProbeRTT comes before the end of each
    // cycle. According to the draft the old bandwidth would never be forgotten: two minutes later it still
    // paced at 19 Mbit/s.
    let mut sim = falling(4.0);
    sim.run(Time::from_secs(35));
    assert!(paced(&sim).0 < Rate::from_mbps(3), "{}", paced(&sim).0);
    let before = sim.report().flows[0].delivered;
    let after = sim.run(Time::from_secs(90)).flows[0].delivered;
    assert!((after - before) as f64 * 8.0 / 55.0 > 0.85 * 1.93e6);
    // And the minimum RTT is found again, half of the queue with each ProbeRTT.
    assert!(paced(&sim).1 < 120.0, "{} ms", paced(&sim).1);
}

#[test]
fn each_subflow_has_its_own() {
    let paths = [deep(), path("b", 5, 80)];
    let topology = topology::disjoint(&paths, ServerAddresses::One).unwrap();
    let config = ConnectionConfig {
        congestion: CongestionKind::Bbr(BbrOptions::DEFAULT),
        ..ConnectionConfig::linux()
    };
    let flow = topology.pairs[0].flow("flow", Some(Bytes(30_000_000)), config);
    let report = Sim::new(topology.network, vec![flow], 1, ()).unwrap().run(Time::from_secs(60));
    let fct = report.flows[0].fct.expect("it is delivered").as_secs_f64();
    // 30 MB at 24 Mbit/s are 10 s.
    assert!(fct < 13.0, "{fct}");
    assert!(report.flows[0].bytes_by_path[1] > 3_000_000);
}
