//! Shared bottleneck detection: on one link that two subflows share and on two separate links, with the noise
//! of short flows, with or without one long TCP at each bottleneck. docs/fairness.md has the results.

use anabranch_link::QueueLimit;
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses};
use anabranch_sim::{End, FlowId, FlowSpec, LinkEvent, LinkId, Recorder, Sim, Trace, Wants, What};
use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer};
use anabranch_stack::congestion::{
    Ack, AnyCongestion, CongestionControl, CongestionKind, SbdOptions, SbdSummary, SubflowStart,
};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Bytes, Duration, RandomStream, Rate, Time};

use crate::survey::kind;

const A: SubflowId = SubflowId(0);
const B: SubflowId = SubflowId(1);

/// One scenario: two subflows on one link or on two, each of 2 to 8 Mbit/s with a queue of 1 to 2 BDP,
/// round-trip times of 20 to 80 ms, and short flows with a load of 10 to 40 % on each link.
#[derive(Clone, Copy)]
struct Scenario {
    seed: u64,
    shared: bool,
    /// True for a NewReno flow that sends all the time at each bottleneck.
    beside: bool,
    seconds: u64,
}

struct Outcome {
    /// The time of each decision, and whether it coupled the two subflows.
    decisions: Vec<(f64, bool)>,
    /// The grounds of each decision.
    grounds: Vec<Ground>,
    /// The rate of the connection in the second half of the time, in Mbit/s.
    mbps: f64,
    /// The rate of all long TCPs.
    beside: f64,
}

/// The grounds of a decision, with the last estimates of both subflows.
struct Ground {
    groups: [Option<u8>; 2],
    estimates: [SbdSummary; 2],
}

impl Scenario {
    fn sim(&self, congestion: &CongestionKind) -> Sim<()> {
        self.recorded(congestion, |_, _| ())
    }

    /// Returns the simulation with a recorder, which is made of the link at each subflow's bottleneck and its rate.
    fn recorded<R: Recorder>(
        &self,
        congestion: &CongestionKind,
        recorder: impl FnOnce([LinkId; 2], [Rate; 2]) -> R,
    ) -> Sim<R> {
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
        // Pareto sizes with a mean of 50 kB, started by a Poisson process.
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
        let (network, links, rates) = if self.shared {
            let access = |name: &str, rtt: Duration| {
                let link = Duplex::symmetric(Rate::from_mbps(1000), rtt)
                    .with(|link| link.queue = QueueLimit::Unlimited);
                PathSpec::new(name, link)
            };
            let specs = [access("one", rtts[0]), access("two", rtts[1])];
            let common = PathSpec::new("link", bottleneck(rates[0], Duration::ZERO, rtts[0].max(rtts[1])));
            let topology = topology::shared_bottleneck(&specs, &common, &[access("noise", rtts[0])]).unwrap();
            flows.push(topology.pairs[0].flow("multipath", None, config));
            if self.beside {
                flows.push(topology.pairs[1].flow("long", None, tcp.clone()));
            }
            short(rates[0], &mut |at, size| {
                flows.push(topology.pairs[1].flow("short", Some(size), tcp.clone()).starting(at));
            });
            let common = |path: usize| topology.pairs[0].paths[path].up.last().copied().unwrap();
            (topology.network, [common(0), common(1)], [rates[0]; 2])
        } else {
            let specs =
                [0, 1].map(|i| PathSpec::new(["one", "two"][i], bottleneck(rates[i], rtts[i], rtts[i])));
            let topology = topology::disjoint(&specs, ServerAddresses::One).unwrap();
            flows.push(topology.pairs[0].flow("multipath", None, config));
            for path in (0..2).filter(|_| self.beside) {
                flows.push(topology.pairs[0].flow_by(path, "long", None, tcp.clone()));
            }
            for (path, rate) in rates.into_iter().enumerate() {
                short(rate, &mut |at, size| {
                    let flow = topology.pairs[0].flow_by(path, "short", Some(size), tcp.clone());
                    flows.push(flow.starting(at));
                });
            }
            let own = [0, 1].map(|path: usize| topology.pairs[0].paths[path].up[0]);
            (topology.network, own, rates)
        };
        Sim::new(network, flows, self.seed, recorder(links, rates)).unwrap()
    }

    fn run(&self, congestion: &CongestionKind) -> Outcome {
        let mut sim = self.sim(congestion);
        let (mut decisions, mut grounds, mut known) = (Vec::new(), Vec::new(), 0);
        // The bytes of the connection and the long TCPs delivered in half of the time, and at the end.
        let long = if self.beside { 1 + if self.shared { 1 } else { 2 } } else { 1 };
        let mut delivered = [[0.0; 2]; 2];
        for step in 1..=self.seconds * 4 {
            let report = sim.run(Time::from_millis(step * 250));
            if step == self.seconds * 2 || step == self.seconds * 4 {
                let sum = |flows: core::ops::Range<usize>| {
                    report.flows[flows].iter().map(|flow| flow.delivered as f64).sum::<f64>()
                };
                delivered[usize::from(step == self.seconds * 4)] = [sum(0..1), sum(1..long)];
            }
            let Some(id) = sim.connection(FlowId(0), End::Client) else { continue };
            let host = sim.flows()[0].client;
            if let Some(AnyCongestion::Sbd(sbd)) = sim.stack(host).congestion(id)
                && sbd.rule().decisions() > known
            {
                known = sbd.rule().decisions();
                let rule = sbd.rule();
                decisions.push((sim.now().as_secs_f64(), rule.couples(A, B)));
                grounds.push(Ground {
                    groups: [A, B].map(|id| rule.group(id)),
                    estimates: [A, B].map(|id| rule.summary(id).unwrap_or_default()),
                });
            }
        }
        let mbps = |which: usize| {
            (delivered[1][which] - delivered[0][which]) * 8.0 / (self.seconds as f64 / 2.0) / 1e6
        };
        Outcome { decisions, grounds, mbps: mbps(0), beside: mbps(1) }
    }
}

/// The results of many scenarios.
#[derive(Default, Debug)]
struct Sum {
    scenarios: usize,
    decisions: usize,
    wrong: usize,
    /// The number of wrong first decisions.
    first_wrong: usize,
    /// The times of the first correct decisions.
    times: Vec<f64>,
    /// The number of decisions that differ from the one before.
    changes: usize,
    mbps: Vec<f64>,
    beside: Vec<f64>,
}

fn all(seeds: core::ops::Range<u64>, scenario: Scenario, kind: &CongestionKind) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        let Outcome { decisions, mbps, beside, .. } = Scenario { seed, ..scenario }.run(kind);
        let right = |coupled: bool| coupled == scenario.shared;
        sum.scenarios += 1;
        sum.decisions += decisions.len();
        sum.wrong += decisions.iter().filter(|(_, coupled)| !right(*coupled)).count();
        sum.first_wrong += usize::from(decisions.first().is_some_and(|(_, coupled)| !right(*coupled)));
        sum.changes += decisions.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        sum.times.extend(decisions.iter().find(|(_, coupled)| right(*coupled)).map(|(at, _)| *at));
        sum.mbps.push(mbps);
        sum.beside.push(beside);
    }
    sum.times.sort_by(f64::total_cmp);
    sum
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the mean ratio of paired runs, and half of its 95 % interval.
fn ratio(one: &[f64], other: &[f64]) -> (f64, f64) {
    let ratios: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
    let mean = mean(&ratios);
    let variance = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (ratios.len() as f64 - 1.0);
    (mean, 1.96 * (variance / ratios.len() as f64).sqrt())
}

#[test]
fn decisions_come_every_ten_groupings_after_the_warm_up_and_are_the_same_again() {
    let sbd = CongestionKind::from_name("sbd").unwrap();
    let run = || Scenario { seed: 1, shared: true, beside: false, seconds: 40 }.run(&sbd).decisions;
    let decisions = run();
    // The warm-up of 60 intervals ends with the first grouping, and a decision takes ten: at 24.15 s, and
    // then every 3.5 s.
    for (n, (at, _)) in decisions.iter().enumerate() {
        let due = 24.15 + 3.5 * n as f64;
        assert!((due..due + 1.5).contains(at), "{decisions:?}");
    }
    assert_eq!(decisions.len(), 5, "{decisions:?}");
    assert_eq!(run(), decisions);
}

/// Prints a row for each setting of `sbd`, compared with `olia` and `newreno` in the same 100 scenarios.
fn table(shared: bool, beside: bool) {
    let scenario = Scenario { seed: 0, shared, beside, seconds: 60 };
    let of = |kind: &CongestionKind| all(0..100, scenario, kind);
    let name = |name: &str| CongestionKind::from_name(name).unwrap();
    let (olia, reno) = (of(&name("olia")), of(&name("newreno")));
    let mut text = format!(
        "{}, {}: olia {:.3} Mbit/s, TCPs {:.3}; newreno {:.3}, TCPs {:.3}\n",
        if shared { "one link" } else { "two links" },
        if beside { "beside one TCP at each" } else { "noise alone" },
        mean(&olia.mbps),
        mean(&olia.beside),
        mean(&reno.mbps),
        mean(&reno.beside),
    );
    {
        let sum = of(&name("sbd"));
        let percentile = |part: f64| {
            let at = (sum.times.len() as f64 * part) as usize;
            sum.times.get(at).copied().unwrap_or(f64::NAN)
        };
        let (to_olia, to_reno) = (ratio(&sum.mbps, &olia.mbps), ratio(&sum.mbps, &reno.mbps));
        let runs = sum.scenarios as f64;
        text += &format!(
            "  sbd: {} decisions, wrong {:.1} %, first wrong {} of {}, changes {:.2} a run; first right after \
             {:.1} s in the mean, {:.1} median, {:.1} p90, never {}; {:.3} Mbit/s, TCPs {:.3}; to olia {:.3} +- \
             {:.3}, to newreno {:.3} +- {:.3}\n",
            sum.decisions,
            100.0 * sum.wrong as f64 / sum.decisions as f64,
            sum.first_wrong,
            sum.scenarios,
            sum.changes as f64 / runs,
            mean(&sum.times),
            percentile(0.5),
            percentile(0.9),
            sum.scenarios - sum.times.len(),
            mean(&sum.mbps),
            mean(&sum.beside),
            to_olia.0,
            to_olia.1,
            to_reno.0,
            to_reno.1,
        );
    }
    print!("{text}");
}

#[test]
#[ignore = "prints a table"]
fn table_of_one_link_and_noise() {
    table(true, false);
}

#[test]
#[ignore = "prints a table"]
fn table_of_two_links_and_noise() {
    table(false, false);
}

#[test]
#[ignore = "prints a table"]
fn table_of_one_link_and_a_tcp() {
    table(true, true);
}

#[test]
#[ignore = "prints a table"]
fn table_of_two_links_and_tcps() {
    table(false, true);
}

/// Compares runs with and without the removal of oscillation noise (RFC 8382 section 4.2), in the same
/// scenarios.
#[test]
#[ignore = "prints a table"]
fn table_of_noise() {
    for (shared, beside) in [(true, false), (true, true), (false, false), (false, true)] {
        for remove_noise in [false, true] {
            let kind = CongestionKind::Sbd(SbdOptions { remove_noise, ..SbdOptions::DEFAULT });
            let sum = all(0..40, Scenario { seed: 0, shared, beside, seconds: 60 }, &kind);
            println!(
                "{} links, TCPs {beside}, remove-noise {remove_noise}: wrong {:.1} % of {}, first wrong {} of {}, never \
                 right {}, changes {:.2} a run, {:.3} Mbit/s, TCPs {:.3}",
                if shared { 1 } else { 2 },
                100.0 * sum.wrong as f64 / sum.decisions as f64,
                sum.decisions,
                sum.first_wrong,
                sum.scenarios,
                sum.scenarios - sum.times.len(),
                sum.changes as f64 / sum.scenarios as f64,
                mean(&sum.mbps),
                mean(&sum.beside),
            );
        }
    }
}

/// The grounds of the decisions of a setting: the number that found one of the two not at a bottleneck, had
/// both in one group, and in two groups; and the last skewness of both subflows at each, in order.
#[derive(Default)]
struct Grounds {
    unknown: usize,
    together: usize,
    apart: usize,
    skews: Vec<f64>,
}

impl Grounds {
    fn of(setting: &str, shared: bool, beside: bool, seeds: u64) -> Grounds {
        let mut grounds = Grounds::default();
        for seed in 0..seeds {
            let outcome = Scenario { seed, shared, beside, seconds: 60 }.run(&kind(setting));
            for ground in &outcome.grounds {
                grounds.skews.extend(ground.estimates.iter().map(|summary| summary.skew));
                grounds.add(ground.groups);
            }
        }
        grounds.skews.sort_by(f64::total_cmp);
        grounds
    }

    /// Counts a decision by the groups of both subflows.
    fn add(&mut self, groups: [Option<u8>; 2]) {
        match groups {
            [Some(one), Some(other)] if one == other => self.together += 1,
            [Some(_), Some(_)] => self.apart += 1,
            _ => self.unknown += 1,
        }
    }

    /// Returns a percentage of all decisions.
    fn part(&self, n: usize) -> f64 {
        100.0 * n as f64 / (self.unknown + self.together + self.apart) as f64
    }
}

// Delays that were taken from echoes of older segments, or included the delay of an acknowledgement,
// indicated a mostly short queue wherever it was (16 % separated, and a median of 0.2).
#[test]
fn a_link_that_is_full_of_a_tcp_is_seen_as_a_bottleneck_and_apart_from_another() {
    let grounds = Grounds::of("sbd", false, true, 10);
    let median = grounds.skews[grounds.skews.len() / 2];
    assert!(median < 0.1, "{median}");
    assert!(grounds.part(grounds.apart) > 40.0, "{}", grounds.part(grounds.apart));
    assert!(grounds.part(grounds.together) < 10.0, "{}", grounds.part(grounds.together));
}

#[test]
#[ignore = "prints a table"]
fn table_of_grounds() {
    for (shared, beside) in [(true, false), (true, true), (false, false), (false, true)] {
        for setting in ["sbd", "sbd:c-s=-0.01:p-s=0.1", "sbd:c-s=1"] {
            let grounds = Grounds::of(setting, shared, beside, 100);
            let [unknown, together, apart] =
                [grounds.unknown, grounds.together, grounds.apart].map(|n| grounds.part(n));
            let quartile = |n: usize| grounds.skews[grounds.skews.len() * n / 4];
            println!(
                "{} links, TCPs {beside}, {setting}: no bottleneck {unknown:.0} %, together {together:.0} %, apart \
                 {apart:.0} %; skewness {:.2}, {:.2}, {:.2}",
                if shared { 1 } else { 2 },
                quartile(1),
                quartile(2),
                quartile(3)
            );
        }
    }
}

/// The delays of the queues at the bottlenecks of both subflows, in microseconds, every 10 ms.
struct Queues {
    links: [LinkId; 2],
    rates: [Rate; 2],
    now: [i64; 2],
    delays: Vec<[i64; 2]>,
}

impl Recorder for Queues {
    const WANTS: Wants = Wants { queues: true, ..Wants::NONE };

    fn on_trace(&mut self, trace: &Trace<'_>) {
        let What::Link { link, event: LinkEvent::Queue { queue, .. } } = trace.what else { return };
        let steps = trace.time.as_micros() / 10_000;
        while (self.delays.len() as u64) < steps {
            self.delays.push(self.now);
        }
        for at in (0..2).filter(|at| self.links[*at] == link) {
            self.now[at] = self.rates[at].transmission_time(queue.bytes).as_micros() as i64;
        }
    }
}

/// Returns the delays of the queues at the bottlenecks of both subflows, which send with `traffic`.
fn true_queues(traffic: &str, scenario: Scenario) -> Vec<[i64; 2]> {
    let make = |links, rates| Queues { links, rates, now: [0; 2], delays: Vec::new() };
    let mut sim = scenario.recorded(&kind(traffic), make);
    sim.run(Time::from_secs(scenario.seconds));
    sim.into_recorder().delays
}

/// Lets the rule of `setting` decide by these delays, and counts its decisions and the wrong ones.
fn decide_by(setting: &str, delays: &[[i64; 2]], shared: bool, grounds: &mut Grounds, wrong: &mut usize) {
    let mut congestion = kind(setting).build();
    let (rtt, mut known) = (Duration::from_millis(50), 0);
    for id in [A, B] {
        let start = SubflowStart {
            now: Time::ZERO,
            mss: 1448,
            initial_window: 10,
            initial_ssthresh: Some(2),
            rtt: Some(rtt),
            prr: true,
            paced: false,
            sack: true,
            byte_counting_limit: None,
        };
        congestion.on_subflow_up(id, &start);
    }
    for (step, delays) in delays.iter().enumerate() {
        let now = Time::from_millis(10 * step as u64);
        for (id, delay) in [A, B].into_iter().zip(delays) {
            let ack = Ack { one_way_delay_us: Some(*delay), ..Ack::of(now, 1448, 1, rtt) };
            congestion.on_ack(id, &ack);
        }
        let AnyCongestion::Sbd(sbd) = &congestion else { unreachable!("the rule of `sbd`") };
        if sbd.rule().decisions() > known {
            known = sbd.rule().decisions();
            *wrong += usize::from(sbd.rule().couples(A, B) != shared);
            grounds.add([A, B].map(|id| sbd.rule().group(id)));
        }
    }
}

/// With the true queue of one link both subflows have the same estimates: errors there are errors of the measure.
#[test]
fn the_true_queue_of_one_link_is_one_bottleneck() {
    let (mut grounds, mut wrong) = (Grounds::default(), 0);
    for seed in 0..4 {
        let scenario = Scenario { seed, shared: true, beside: seed % 2 == 0, seconds: 60 };
        decide_by("sbd", &true_queues("newreno", scenario), true, &mut grounds, &mut wrong);
    }
    assert_eq!((grounds.apart, wrong), (0, 0));
    assert!(grounds.part(grounds.together) > 50.0, "{}", grounds.part(grounds.together));
}

#[test]
#[ignore = "prints a table"]
fn table_of_true_queues() {
    for (shared, beside) in [(false, false), (false, true), (true, false), (true, true)] {
        for traffic in ["olia", "newreno"] {
            let settings = ["sbd", "sbd:c-s=1"];
            let mut sums = settings.map(|_| (Grounds::default(), 0));
            for seed in 0..40 {
                let delays = true_queues(traffic, Scenario { seed, shared, beside, seconds: 60 });
                for (setting, (grounds, wrong)) in settings.iter().zip(&mut sums) {
                    decide_by(setting, &delays, shared, grounds, wrong);
                }
            }
            for (setting, (grounds, wrong)) in settings.iter().zip(&sums) {
                let [unknown, together, apart, wrong] =
                    [grounds.unknown, grounds.together, grounds.apart, *wrong].map(|n| grounds.part(n));
                println!(
                    "{} links, TCPs {beside}, {traffic}, {setting}: no bottleneck {unknown:.0} %, together {together:.0} %, \
                     apart {apart:.0} %, wrong {wrong:.0} %",
                    if shared { 1 } else { 2 }
                );
            }
        }
    }
}
