//! Random networks and flows: whatever the links do, every byte arrives once and in order, and packets are
//! lost only by links.

#![expect(clippy::disallowed_methods, reason = "a seed may be given in the environment")]

use crate::common;

use anabranch_link::{
    Aqm, Change, Codel, CrossTraffic, FqCodel, Jitter, JitterShape, LinkConfig, Loss, QueueLimit, Red,
    Redraw, Redrawn, Reordering, Step, TokenBucket,
};
use anabranch_sim::topology::{self, PathSpec, ServerAddresses};
use anabranch_sim::{FlowSpec, Outcome, Sim};
use anabranch_stack::config::{Profile, SimConfig};
use anabranch_stack::congestion::{CongestionKind, CubicOptions};
use anabranch_units::{Bytes, Duration, RandomStream, Rate, Time};

fn between(random: &mut RandomStream, low: u64, high: u64) -> u64 {
    low + random.below(high - low + 1)
}

fn impair(random: &mut RandomStream, link: &mut LinkConfig) {
    link.queue = QueueLimit::Packets(between(random, 5, 100) as u32);
    if random.chance(0.5) {
        link.loss = Loss::Bernoulli(random.next_f64() * 0.03);
    }
    if random.chance(0.2) {
        link.duplicate = random.next_f64() * 0.05;
    }
    if random.chance(0.2) {
        let extra = Duration::from_millis(between(random, 1, 20));
        link.reordering = Some(Reordering { probability: random.next_f64() * 0.05, extra });
    }
    if random.chance(0.2) {
        let max = Duration::from_millis(between(random, 1, 10));
        link.jitter = Some(Jitter { shape: JitterShape::Uniform { max }, reorder: random.chance(0.3) });
    }
    if random.chance(0.15) {
        let down = between(random, 0, 2000);
        link.timeline = vec![
            Step { at: Time::from_millis(down), change: Change::Down },
            Step { at: Time::from_millis(down + between(random, 1, 1500)), change: Change::Up },
        ];
    }
}

/// Gives a link a managed queue, token buckets, cross traffic or redraws.
fn manage(random: &mut RandomStream, link: &mut LinkConfig) {
    let rate = link.capacity.mean_rate();
    let part = |random: &mut RandomStream| Rate(rate.0 / between(random, 2, 6));
    link.aqm = match random.below(5) {
        0 => Aqm::Codel(Codel::default()),
        1 => Aqm::FqCodel(FqCodel { queues: between(random, 1, 20) as u32, ..FqCodel::default() }),
        2 => Aqm::Red(Red::default()),
        _ => Aqm::DropTail,
    };
    if random.chance(0.2) {
        link.shaper = Some(TokenBucket { rate: part(random), burst: between(random, 1500, 90_000) });
    }
    if random.chance(0.1) {
        link.policer = Some(TokenBucket { rate: part(random), burst: between(random, 9000, 90_000) });
    }
    if random.chance(0.2) {
        let from = Time::from_millis(between(random, 0, 500));
        let until = from + Duration::from_millis(between(random, 1, 3000));
        link.cross_traffic = vec![CrossTraffic { rate: part(random), packet: 1000, from, until }];
    }
    if random.chance(0.2) {
        let (from, until) = (Time::ZERO, Time::from_secs(30));
        let every = Duration::from_millis(between(random, 50, 900));
        let value = match random.chance(0.5) {
            true => Redrawn::Rate(vec![rate, part(random), part(random)]),
            false => Redrawn::Delay { mean: link.delay, std_dev: link.delay / 3 },
        };
        link.redraws = vec![Redraw { from, until, every, value, stream: "test".to_owned() }];
    }
}

/// From this seed on, links have managed queues.
const MANAGED: u64 = 5_000;

/// A random network with its flows.
fn simulation(seed: u64) -> Sim {
    let mut random = RandomStream::new(seed, "random runs");
    let paths: Vec<PathSpec> = (0..between(&mut random, 1, 3))
        .map(|number| {
            let (mbps, rtt) = (between(&mut random, 1, 50), between(&mut random, 2, 200));
            let mut path = common::path(&format!("p{number}"), mbps, rtt);
            impair(&mut random, &mut path.stretches[0].up);
            impair(&mut random, &mut path.stretches[0].down);
            if seed >= MANAGED {
                manage(&mut random, &mut path.stretches[0].up);
                manage(&mut random, &mut path.stretches[0].down);
            }
            path
        })
        .collect();
    let addresses = if random.chance(0.5) { ServerAddresses::One } else { ServerAddresses::OnePerPath };
    let topology = topology::disjoint(&paths, addresses).unwrap();
    let profile = if random.chance(0.7) { Profile::Linux } else { Profile::Ns3 };
    let mut config = SimConfig::new(profile);
    config.mptcp = random.chance(0.8);
    config.only.simultaneous &= config.mptcp;
    let controls =
        [CongestionKind::NewReno, CongestionKind::Cubic(CubicOptions::DEFAULT), CongestionKind::Lia];
    config.congestion = controls[random.below(3) as usize].clone();
    config.rto.backoff |= paths.len() == 1;
    config.ecn = seed >= MANAGED && random.chance(0.5);
    let flows: Vec<FlowSpec> = (0..between(&mut random, 1, 4))
        .map(|number| {
            let exponent = 1.0 + random.next_f64() * 4.7;
            let size = Bytes(libm::exp10(exponent) as u64);
            let path = random.below(paths.len() as u64) as usize;
            let flow = topology.pairs[0].flow_by(path, format!("f{number}"), Some(size), config.clone());
            let flow = flow.starting(Time::from_millis(between(&mut random, 0, 500)));
            if random.chance(0.5) { flow.download() } else { flow }
        })
        .collect();
    Sim::new(topology.network, flows, seed, ()).unwrap()
}

fn run(seed: u64) {
    let mut sim = simulation(seed);
    let report = sim.run(Time::from_secs(600));
    for flow in &report.flows {
        assert_eq!(flow.outcome, Outcome::Completed, "seed {seed}: {flow:#?} of {report:#?}");
        let size = flow.size.unwrap().0;
        assert_eq!((flow.delivered, flow.data_acked), (size, size), "seed {seed}: {flow:#?}");
        assert_eq!(flow.bytes_by_path.iter().sum::<u64>(), size, "seed {seed}: {flow:#?}");
        assert!(flow.fct <= flow.acked, "seed {seed}: {flow:#?}");
    }
    let report = sim.run_through(report.end + Duration::from_secs(2000));
    assert_eq!(sim.packets_in_flight(), 0, "seed {seed}");
    for link in &report.links {
        let counters = &link.counters;
        let out = counters.delivered + counters.dropped();
        assert_eq!(counters.offered + counters.duplicated, out, "seed {seed}: {link:?}");
    }
    assert!(report.performance.packet_hops < 1_000_000, "seed {seed}: {:?}", report.performance);
}

#[test]
fn every_byte_arrives_once_whatever_the_links_do() {
    match std::env::var("RUN_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => run(seed),
        // The last ones failed once: an early data ACK was lost, and nothing requested it again.
        None => {
            (0..200).chain([452, 676, 1146, 1249, 1473, 2380]).chain(MANAGED..MANAGED + 150).for_each(run)
        }
    }
}

#[test]
fn fast_paths_change_no_report() {
    for seed in (4_900..5_000).chain(10_000..10_100) {
        let [fast, slow] = [true, false].map(|on| {
            let mut sim = simulation(seed);
            sim.set_fast_paths(on);
            sim.run(Time::from_secs(600))
        });
        assert_eq!(fast, slow, "seed {seed}");
    }
}
