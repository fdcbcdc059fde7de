//! Retransmission timeouts of many flows that start together: what happened before each of them, and that
//! loss recovery could not have prevented it.
//!
//! `cargo test -p anabranch-sim --test timeouts -- --ignored --nocapture` prints the survey, and with
//! `ANABRANCH_TIMEOUTS=1` a line for each timeout.

#![expect(clippy::disallowed_methods, reason = "the environment may ask for more output")]

mod watch;

use std::collections::BTreeMap;

use anabranch_link::{Loss, QueueLimit};
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses};
use anabranch_sim::traffic::Sizes;
use anabranch_sim::{FlowSpec, Sim};
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_units::{Bytes, Duration, RandomStream, Rate, Time};
use watch::{Cause, Watch};

const FLOWS: usize = 30;

/// Thirty flows that start together, derived from a number.
struct Scenario {
    text: String,
    paths: Vec<PathSpec>,
    config: ConnectionConfig,
    sizes: Sizes,
    download: bool,
}

impl Scenario {
    fn draw(number: u64) -> Scenario {
        let mut stream = RandomStream::new(number, "timeouts");
        let mut pick = |count: usize| stream.below(count as u64) as usize;
        let count = [1, 2, 2, 3][pick(4)];
        let mut paths = Vec::new();
        let mut text = String::new();
        for at in 0..count {
            let rate = [10, 20, 50, 100][pick(4)];
            let rtt = [10, 20, 50, 100][pick(4)];
            let queue = [0.5, 1.0, 2.0][pick(3)];
            let loss = [0.0, 0.0, 0.0, 0.01][pick(4)];
            let mut link = Duplex::symmetric(Rate::from_mbps(rate), Duration::from_millis(rtt));
            for link in [&mut link.up, &mut link.down] {
                link.queue = QueueLimit::Bdp(queue);
                link.loss = if loss > 0.0 { Loss::Bernoulli(loss) } else { Loss::None };
            }
            paths.push(PathSpec::new(format!("path {at}"), link));
            let loss = if loss > 0.0 { "/1%" } else { "" };
            text += &format!("{}{rate}M/{rtt}ms/{queue}{loss}", if at > 0 { " + " } else { "" });
        }
        let sizes = [Sizes::WEB, Sizes::WEB, Sizes::Fixed(Bytes(20_000)), Sizes::Fixed(Bytes(500_000))]
            [pick(4)]
        .clone();
        let names = ["min_rtt", "linux", "dmptcp", "round_robin", "blest", "ecf"];
        let which = pick(names.len());
        let scheduler = if count == 1 { "tcp" } else { names[which] };
        let congestion = ["cubic_linux", "cubic", "newreno"][pick(3)];
        let download = pick(2) == 1;
        let config = ConnectionConfig {
            mptcp: scheduler != "tcp",
            scheduler: SchedulerKind::from_name(names[which]).expect("it is built in"),
            congestion: CongestionKind::from_name(congestion).expect("it is built in"),
            ..ConnectionConfig::linux()
        };
        let size = match sizes {
            Sizes::Fixed(size) => format!("{} KB", size.0 / 1000),
            _ => "web".to_owned(),
        };
        let way = if download { "download" } else { "upload" };
        text += &format!(", {size} {way}, {scheduler} {congestion}");
        Scenario { text, paths, config, sizes, download }
    }

    fn run(&self, seed: u64) -> Watch {
        let topology = topology::disjoint(&self.paths, ServerAddresses::One).expect("a network");
        let mut stream = RandomStream::new(seed, "sizes");
        let flow = |at: usize| {
            let flow =
                topology.pairs[0].flow(at.to_string(), self.sizes.draw(0, &mut stream), self.config.clone());
            // Within a millisecond.
            let flow = flow.starting(Time::ZERO + Duration::from_micros(33 * at as u64));
            if self.download { flow.download() } else { flow }
        };
        let flows: Vec<FlowSpec> = (0..FLOWS).map(flow).collect();
        let mut sim = Sim::new(topology.network, flows, seed, Watch::default()).expect("a run");
        sim.run(Time::from_secs(120));
        let counted: u64 = sim.report().flows.iter().map(|flow| flow.rto_count).sum();
        let watch = sim.into_recorder();
        assert!(watch.timeouts.len() as u64 >= counted, "{}", self.text);
        watch
    }
}

/// Runs the first `scenarios` with each of `seeds` seeds. Returns the causes of all timeouts, and the number
/// of undone reductions.
fn survey(scenarios: u64, seeds: u64) -> (BTreeMap<Cause, usize>, usize) {
    let (mut all, mut all_undos) = (BTreeMap::new(), 0);
    let every = std::env::var_os("ANABRANCH_TIMEOUTS").is_some();
    for number in 0..scenarios {
        let scenario = Scenario::draw(number);
        let (mut causes, mut undos) = (BTreeMap::new(), 0);
        for seed in 0..seeds {
            let watch = scenario.run(seed);
            undos += watch.undos;
            for (cause, count) in watch.causes() {
                *causes.entry(cause).or_insert(0) += count;
                *all.entry(cause).or_insert(0) += count;
            }
            for timeout in watch.timeouts.iter().filter(|timeout| every || timeout.cause.is_fault()) {
                println!(
                    "  {number}.{seed} {:.3} s {:?}: {}",
                    timeout.at.as_nanos() as f64 / 1e9,
                    timeout.cause,
                    timeout.about
                );
            }
        }
        println!("| {number} | {} | {causes:?}, {undos} undone |", scenario.text);
        all_undos += undos;
    }
    println!("{all:?}, {all_undos} undone");
    (all, all_undos)
}

/// No timeout occurs if acknowledgements show the loss; and as no path reorders, a reduction is undone only
/// after a timeout that was too early.
#[test]
fn no_timeout_where_acknowledgements_show_the_loss() {
    let (causes, undos) = survey(20, 1);
    let faults: Vec<_> = causes.iter().filter(|(cause, _)| cause.is_fault()).collect();
    assert!(faults.is_empty(), "{faults:?}");
    let late = causes.get(&Cause::Late).copied().unwrap_or(0);
    assert!(undos <= late, "{undos} reductions undone, {late} timeouts too early");
}

#[test]
#[ignore = "a survey to be read: docs/reports/2026-11-25-fidelity.md"]
fn survey_of_twenty_scenarios() {
    survey(20, 3);
}
