//! The experiments of Section 7.5 of the survey: a connection of two subflows beside one TCP, on disjoint paths
//! or on one that all share, 12 Mbit/s, in round trips of 10 to 150 ms.

use anabranch_link::QueueLimit;
use anabranch_sim::Sim;
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses};
use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer};
use anabranch_stack::congestion::CongestionKind;
use anabranch_units::{Bytes, Duration, RandomStream, Rate, Time};

const MBPS: u64 = 12;
const RTTS: [(u64, u64); 6] = [(10, 10), (10, 20), (10, 30), (50, 50), (50, 100), (50, 150)];

/// Where the three flows meet.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Paths {
    /// The TCP shares the first subflow's path.
    Disjoint,
    /// All share one link.
    Shared,
}

/// Megabits per second of the TCP and of the two subflows.
fn rates(
    paths: Paths,
    rtts: (u64, u64),
    congestion: &str,
    competitor: &str,
    queue: QueueLimit,
    seconds: u64,
    seed: u64,
) -> [f64; 3] {
    let kind = |name: &str| CongestionKind::from_name(name).unwrap();
    let multipath = ConnectionConfig {
        congestion: kind(congestion),
        receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(8 << 10)),
        ..ConnectionConfig::linux()
    };
    let tcp = ConnectionConfig { mptcp: false, congestion: kind(competitor), ..multipath.clone() };
    let mut starts = RandomStream::new(seed, "starts");
    let mut start = || Time::ZERO + Duration::from_secs_f64(2.0 * starts.next_f64());
    let bottleneck = |rtt: u64| {
        let mut link = Duplex::symmetric(Rate::from_mbps(MBPS), Duration::from_millis(rtt));
        link.up.queue = queue;
        link
    };
    let access = |name: &str, rtt: u64| {
        let link = Duplex::symmetric(Rate::from_mbps(1000), Duration::from_millis(rtt))
            .with(|link| link.queue = QueueLimit::Unlimited);
        PathSpec::new(name, link)
    };
    let (network, flows) = match paths {
        Paths::Disjoint => {
            let specs = [PathSpec::new("one", bottleneck(rtts.0)), PathSpec::new("two", bottleneck(rtts.1))];
            let topology = topology::disjoint(&specs, ServerAddresses::One).unwrap();
            let pair = &topology.pairs[0];
            let flows = vec![
                pair.flow("multipath", None, multipath).starting(start()),
                pair.flow("tcp", None, tcp).starting(start()),
            ];
            (topology.network, flows)
        }
        Paths::Shared => {
            let specs = [access("one", rtts.0), access("two", rtts.1)];
            let mut link = bottleneck(0);
            link.up.rtt = Some(Duration::from_millis(rtts.0));
            let common = PathSpec::new("link", link);
            let topology = topology::shared_bottleneck(&specs, &common, &[access("single", rtts.0)]).unwrap();
            let flows = vec![
                topology.pairs[0].flow("multipath", None, multipath).starting(start()),
                topology.pairs[1].flow("tcp", None, tcp).starting(start()),
            ];
            (topology.network, flows)
        }
    };
    let mut sim = Sim::new(network, flows, seed, ()).unwrap();
    // The first tenth is left out, as the survey leaves out the first 30 s.
    let warm = seconds / 10;
    let count = |report: &anabranch_sim::RunReport| {
        let by_path = &report.flows[0].bytes_by_path;
        [report.flows[1].delivered as f64, by_path[0] as f64, by_path[1] as f64]
    };
    let before = count(&sim.run(Time::from_secs(warm)));
    let after = count(&sim.run(Time::from_secs(seconds)));
    let span = (seconds - warm) as f64;
    core::array::from_fn(|i| (after[i] - before[i]) * 8.0 / span / 1e6)
}

/// The shares in per cent of what each would have if all were fair, as the survey counts: on disjoint paths half
/// of the first for the TCP and for the first subflow; on the shared one half for the TCP and half for the
/// subflows together.
fn shares(paths: Paths, rates: [f64; 3]) -> [f64; 4] {
    // Payload of 1400 in packets of 1452 bytes.
    let all = MBPS as f64 * 1400.0 / 1452.0;
    let [tcp, one, two] = rates;
    match paths {
        Paths::Disjoint => [tcp / (all / 2.0), one / (all / 2.0), two / all, f64::NAN],
        Paths::Shared => [tcp / (all / 2.0), one / (all / 4.0), two / (all / 4.0), (one + two) / (all / 2.0)],
    }
    .map(|share| 100.0 * share)
}

fn mean_shares(
    paths: Paths,
    rtts: (u64, u64),
    congestion: &str,
    competitor: &str,
    queue: QueueLimit,
    seconds: u64,
    seeds: u64,
) -> [f64; 4] {
    let mut sum = [0.0; 4];
    for seed in 0..seeds {
        let one = shares(paths, rates(paths, rtts, congestion, competitor, queue, seconds, seed));
        sum.iter_mut().zip(one).for_each(|(sum, share)| *sum += share / seeds as f64);
    }
    sum
}

#[test]
fn on_disjoint_paths_coupled_controls_leave_the_shared_one_and_uncoupled_ones_share_it() {
    let queue = QueueLimit::Bdp(1.0);
    let of = |name| mean_shares(Paths::Disjoint, (50, 100), name, "newreno", queue, 60, 2);
    let reno = of("newreno");
    assert!(reno[0] < 125.0 && reno[1] > 75.0, "{reno:?}");
    for name in ["lia", "olia", "balia"] {
        let coupled = of(name);
        assert!(coupled[1] < reno[1] - 15.0, "{name}: {coupled:?}");
        assert!(coupled[2] > 75.0, "{name}: {coupled:?}");
    }
}

#[test]
fn on_a_shared_link_coupled_controls_take_less_than_uncoupled_ones() {
    let queue = QueueLimit::Bdp(2.0);
    let of = |name| mean_shares(Paths::Shared, (50, 50), name, "newreno", queue, 60, 2);
    let reno = of("newreno");
    for name in ["lia", "olia", "balia"] {
        let coupled = of(name);
        assert!(coupled[3] < reno[3] - 8.0, "{name}: {coupled:?} and {reno:?}");
    }
}

#[test]
#[ignore = "prints tables"]
fn tables() {
    let (seconds, seeds) = (60, 2);
    for (paths, queue, label) in [
        (Paths::Disjoint, QueueLimit::Bdp(1.0), "1 BDP"),
        (Paths::Shared, QueueLimit::Bdp(1.0), "1 BDP"),
        (Paths::Disjoint, QueueLimit::Packets(100), "100 packets"),
        (Paths::Shared, QueueLimit::Packets(100), "100 packets"),
    ] {
        for competitor in ["newreno", "cubic"] {
            println!("\n{paths:?}, queue {label}, beside one {competitor}");
            for name in ["lia", "olia", "balia", "newreno", "wvegas", "dwc", "sbd"] {
                let cells: Vec<[f64; 4]> = RTTS
                    .iter()
                    .map(|rtts| mean_shares(paths, *rtts, name, competitor, queue, seconds, seeds))
                    .collect();
                for (row, what) in ["TCP", "subflow 1", "subflow 2", "both"].iter().enumerate() {
                    if paths == Paths::Disjoint && row == 3 {
                        continue;
                    }
                    let values: Vec<String> = cells.iter().map(|cell| format!("{:6.1}", cell[row])).collect();
                    println!("| {name:8} | {what:9} | {} |", values.join(" | "));
                }
            }
        }
    }
}
