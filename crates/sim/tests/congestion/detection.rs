//! Shared bottleneck detection: on one link that two subflows share and on two that they do not, with the noise
//! of short flows.

use anabranch_link::QueueLimit;
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses};
use anabranch_sim::{End, FlowId, FlowSpec, Sim};
use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer};
use anabranch_stack::congestion::{AnyCongestion, CongestionKind};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Bytes, Duration, RandomStream, Rate, Time};

const A: SubflowId = SubflowId(0);
const B: SubflowId = SubflowId(1);

/// One scenario: two subflows on one link or on two, each of 2 to 8 Mbit/s with a queue of 1 to 2 BDP, round trips
/// of 20 to 80 ms, and short flows that ask for 10 to 40 % of each link.
struct Scenario {
    seed: u64,
    shared: bool,
    seconds: u64,
}

struct Outcome {
    /// Whether the two were coupled after each decision, and when that was.
    decisions: Vec<(f64, bool)>,
    mbps: f64,
}

impl Scenario {
    fn sim(&self, congestion: &CongestionKind) -> Sim<()> {
        let mut draw = RandomStream::new(self.seed, "scenario");
        let mut between = |low: f64, high: f64| low + (high - low) * draw.next_f64();
        let rtts = [between(20.0, 80.0), between(20.0, 80.0)].map(|ms| Duration::from_secs_f64(ms / 1e3));
        let rates = [between(2.0, 8.0), between(2.0, 8.0)].map(|mbps| Rate((mbps * 1e6) as u64));
        let queue = QueueLimit::Bdp(between(1.0, 2.0));
        let load = between(0.1, 0.4);
        let config = ConnectionConfig {
            congestion: congestion.clone(),
            receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(8 << 10)),
            ..ConnectionConfig::linux()
        };
        let tcp = ConnectionConfig { mptcp: false, congestion: CongestionKind::NewReno, ..config.clone() };
        let mut noise = RandomStream::new(self.seed, "noise");
        // Pareto sizes of 50 kB in the mean, in Poisson order.
        let mut short = |rate: Rate, add: &mut dyn FnMut(Time, Bytes)| {
            let gap = 50_000.0 * 8.0 / (rate.as_bps_f64() * load);
            let mut at = 0.0;
            loop {
                at -= gap * libm::log(1.0 - noise.next_f64());
                if at > self.seconds as f64 {
                    return;
                }
                let size = (16_667.0 / libm::pow(1.0 - noise.next_f64(), 1.0 / 1.5)).min(2e6);
                add(Time::ZERO + Duration::from_secs_f64(at), Bytes(size as u64));
            }
        };
        let bottleneck = |rate: Rate, rtt: Duration, longest: Duration| {
            let mut link = Duplex::symmetric(rate, rtt);
            (link.up.queue, link.up.rtt) = (queue, Some(longest));
            link
        };
        let mut flows: Vec<FlowSpec> = Vec::new();
        let network = if self.shared {
            let access = |name: &str, rtt: Duration| {
                let link = Duplex::symmetric(Rate::from_mbps(1000), rtt)
                    .with(|link| link.queue = QueueLimit::Unlimited);
                PathSpec::new(name, link)
            };
            let specs = [access("one", rtts[0]), access("two", rtts[1])];
            let common = PathSpec::new("link", bottleneck(rates[0], Duration::ZERO, rtts[0].max(rtts[1])));
            let topology = topology::shared_bottleneck(&specs, &common, &[access("noise", rtts[0])]).unwrap();
            flows.push(topology.pairs[0].flow("multipath", None, config));
            short(rates[0], &mut |at, size| {
                flows.push(topology.pairs[1].flow("short", Some(size), tcp.clone()).starting(at));
            });
            topology.network
        } else {
            let specs =
                [0, 1].map(|i| PathSpec::new(["one", "two"][i], bottleneck(rates[i], rtts[i], rtts[i])));
            let topology = topology::disjoint(&specs, ServerAddresses::One).unwrap();
            flows.push(topology.pairs[0].flow("multipath", None, config));
            for (path, rate) in rates.into_iter().enumerate() {
                short(rate, &mut |at, size| {
                    let flow = topology.pairs[0].flow_by(path, "short", Some(size), tcp.clone());
                    flows.push(flow.starting(at));
                });
            }
            topology.network
        };
        Sim::new(network, flows, self.seed, ()).unwrap()
    }

    fn run(&self, congestion: &CongestionKind) -> Outcome {
        let mut sim = self.sim(congestion);
        let (mut decisions, mut known) = (Vec::new(), 0);
        let mut report = None;
        for step in 1..=self.seconds * 4 {
            report = Some(sim.run(Time::from_millis(step * 250)));
            let Some(id) = sim.connection(FlowId(0), End::Client) else { continue };
            let host = sim.flows()[0].client;
            if let Some(AnyCongestion::Sbd(sbd)) = sim.stack(host).congestion(id)
                && sbd.rule().decisions() > known
            {
                known = sbd.rule().decisions();
                decisions.push((sim.now().as_secs_f64(), sbd.rule().couples(A, B)));
            }
        }
        let delivered = report.map_or(0, |report| report.flows[0].delivered);
        Outcome { decisions, mbps: delivered as f64 * 8.0 / self.seconds as f64 / 1e6 }
    }
}

/// Of all decisions in these scenarios the part that is wrong, and the mean of the times of the first right ones.
fn errors(
    seeds: core::ops::Range<u64>,
    shared: bool,
    seconds: u64,
    kind: &CongestionKind,
) -> (f64, f64, usize, f64) {
    let (mut wrong, mut all, mut times, mut never, mut mbps) = (0, 0, Vec::new(), 0, 0.0);
    let n = (seeds.end - seeds.start) as f64;
    for seed in seeds {
        let outcome = Scenario { seed, shared, seconds }.run(kind);
        all += outcome.decisions.len();
        wrong += outcome.decisions.iter().filter(|(_, coupled)| *coupled != shared).count();
        match outcome.decisions.iter().find(|(_, coupled)| *coupled == shared) {
            Some((at, _)) => times.push(*at),
            None => never += 1,
        }
        mbps += outcome.mbps / n;
    }
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    (wrong as f64 / all.max(1) as f64, mean, never, mbps)
}

#[test]
fn decisions_come_every_ten_groupings_after_the_warm_up_and_are_the_same_again() {
    let sbd = CongestionKind::from_name("sbd").unwrap();
    let run = || Scenario { seed: 1, shared: true, seconds: 40 }.run(&sbd).decisions;
    let decisions = run();
    // The warm-up of 60 intervals ends with the first grouping, and a decision is of ten: 24.15 s, and then every 3.5 s.
    for (n, (at, _)) in decisions.iter().enumerate() {
        let due = 24.15 + 3.5 * n as f64;
        assert!((due..due + 1.5).contains(at), "{decisions:?}");
    }
    assert_eq!(decisions.len(), 5, "{decisions:?}");
    assert_eq!(run(), decisions);
}

#[test]
#[ignore = "prints a table"]
fn table() {
    let seeds = 0..100;
    for shared in [true, false] {
        println!("{}", if shared { "one link" } else { "two links" });
        for name in ["sbd", "olia", "newreno"] {
            let kind = CongestionKind::from_name(name).unwrap();
            let (wrong, first, never, mbps) = errors(seeds.clone(), shared, 60, &kind);
            println!(
                "  {name:8} {mbps:7.3} Mbit/s  wrong {:5.1} %  first right after {first:5.1} s  never {never}",
                100.0 * wrong
            );
        }
    }
}
