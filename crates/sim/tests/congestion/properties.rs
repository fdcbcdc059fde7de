//! Published properties of the controls in competition with a TCP: which flow yields, and which subflows
//! `dwc` assigns to one bottleneck.

use anabranch_link::QueueLimit;
use anabranch_sim::{End, FlowId, Sim};
use anabranch_stack::congestion::AnyCongestion;
use anabranch_stack::event::SubflowId;
use anabranch_units::Time;

use crate::survey::{Experiment, Paths};

const A: SubflowId = SubflowId(0);
const B: SubflowId = SubflowId(1);

fn equal(paths: Paths, congestion: &str) -> Experiment<'_> {
    Experiment { rtts: (50, 50), queue: QueueLimit::Bdp(2.0), ..Experiment::usual(paths, congestion) }
}

#[test]
fn controls_that_keep_queues_short_starve_beside_newreno() {
    for name in ["vegas", "wvegas"] {
        let [tcp, .., both] = equal(Paths::Shared, name).shares(2);
        assert!(tcp > 150.0 && both < 50.0, "{name}: {tcp} and {both}");
    }
}

/// The number of reductions of the connection's subflows, the fraction of the time from `from` on in which
/// `dwc` had both in one set, and the number of reductions when it first did.
struct Sets {
    together: f64,
    reductions_before: Option<u64>,
}

fn sets(mut sim: Sim<()>, from: u64, until: u64) -> Sets {
    let (mut together, mut last, mut reductions_before) = (0.0, Time::from_secs(from), None);
    while let Some(now) = sim.step().filter(|now| *now < Time::from_secs(until)) {
        let Some(id) = sim.connection(FlowId(0), End::Client) else { continue };
        let stack = sim.stack(sim.flows()[0].client);
        let Some(AnyCongestion::Dwc(dwc)) = stack.congestion(id) else { continue };
        let coupled = dwc.rule().couples(A, B) && stack.subflow_stats(id).len() == 2;
        if coupled && reductions_before.is_none() {
            let of = stack.subflow_stats(id).iter().map(|subflow| subflow.counters.recoveries).sum();
            reductions_before = Some(of);
        }
        if now > last {
            together += if coupled { (now - last).as_secs_f64() } else { 0.0 };
            last = now;
        }
    }
    Sets { together: together / (until - from) as f64, reductions_before }
}

#[test]
fn dwc_has_subflows_of_one_bottleneck_in_one_set() {
    for seed in 0..2 {
        let Sets { together, reductions_before } = sets(equal(Paths::Shared, "dwc").sim(seed), 10, 60);
        assert!(together > 0.9, "{together}");
        assert!(reductions_before.is_some_and(|n| n <= 3), "{reductions_before:?}");
    }
}

#[test]
fn dwc_has_subflows_of_two_bottlenecks_in_two_sets_the_more_so_the_higher_a_delay_must_be() {
    // A loss on one path finds the other's delay high by chance: docs/fairness.md.
    let of = |name| {
        let part = |seed| sets(equal(Paths::Disjoint, name).sim(seed), 10, 60).together;
        (part(0) + part(1)) / 2.0
    };
    let (usual, strict) = (of("dwc"), of("dwc:delay-share=0.9"));
    assert!(usual < 0.55 && strict < 0.3 && strict < usual, "{usual} and {strict}");
}

#[test]
#[ignore = "prints a table"]
fn table_of_sets() {
    for (rtts, packets) in [((50, 50), None), ((50, 100), None), ((50, 50), Some(50))] {
        for name in ["dwc", "dwc:delay-share=0.9", "dwc:delay-share=1", "dwc:near=0.5"] {
            let part = |paths| {
                let queue = packets.map_or(QueueLimit::Bdp(2.0), QueueLimit::Packets);
                let all = (0..10).map(|seed| {
                    sets(Experiment { rtts, queue, ..equal(paths, name) }.sim(seed), 10, 60).together
                });
                100.0 * all.sum::<f64>() / 10.0
            };
            let (shared, disjoint) = (part(Paths::Shared), part(Paths::Disjoint));
            println!(
                "{rtts:?} ms, packets {packets:?}, {name}: in one set {shared:.0} % (shared), {disjoint:.0} % (disjoint)"
            );
        }
    }
}
