//! The experiments of Section 7.5 of the survey of coupled congestion controls (Telecom 3(4), 2022): a
//! connection of two subflows in competition with one TCP, on disjoint paths or on one shared path, 12
//! Mbit/s, with round-trip times of 10 to 150 ms.
//!
//! The survey does not specify the congestion control of its competing TCP, the length of the queue, or the
//! size of the buffers; here they are varied. docs/fairness.md has the results.

use anabranch_link::QueueLimit;
use anabranch_sim::Sim;
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses};
use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::{Parameterised, Value};
use anabranch_units::{Bytes, Duration, RandomStream, Rate, Time};

const MBPS: u64 = 12;
const RTTS: [(u64, u64); 6] = [(10, 10), (10, 20), (10, 30), (50, 50), (50, 100), (50, 150)];

/// The paths of the three flows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Paths {
    /// The TCP shares the first subflow's path.
    Disjoint,
    /// All share one link.
    Shared,
}

/// One experiment.
#[derive(Clone, Copy)]
pub struct Experiment<'a> {
    pub paths: Paths,
    pub rtts: (u64, u64),
    pub congestion: &'a str,
    pub competitor: &'a str,
    pub queue: QueueLimit,
    pub buffer: Bytes,
    pub seconds: u64,
}

/// Returns the control of that name, with parameters set as on the command line: `sbd:c-s=-0.01:p-s=0.1`.
pub fn kind(text: &str) -> CongestionKind {
    let mut parts = text.split(':');
    let mut kind = CongestionKind::from_name(parts.next().unwrap()).unwrap();
    for (key, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
        let number = value.parse::<u64>().map(Value::Integer);
        let real = Value::Number(value.parse().unwrap());
        let set = number.is_ok_and(|n| kind.set_parameter(key, n)) || kind.set_parameter(key, real);
        assert!(set, "{text}");
    }
    kind
}

impl Experiment<'_> {
    /// Returns the usual experiment: with one NewReno, round-trip times of 50 and 100 ms, a queue of 1 BDP
    /// and large buffers, for a minute.
    pub fn usual(paths: Paths, congestion: &str) -> Experiment<'_> {
        Experiment {
            paths,
            rtts: (50, 100),
            congestion,
            competitor: "newreno",
            queue: QueueLimit::Bdp(1.0),
            buffer: LARGE,
            seconds: 60,
        }
    }

    pub fn sim(&self, seed: u64) -> Sim<()> {
        let multipath = ConnectionConfig {
            congestion: kind(self.congestion),
            receive_buffer: ReceiveBuffer::Fixed(self.buffer),
            ..ConnectionConfig::linux()
        };
        let tcp = ConnectionConfig { mptcp: false, congestion: kind(self.competitor), ..multipath.clone() };
        let mut starts = RandomStream::new(seed, "starts");
        let mut start = || Time::ZERO + Duration::from_secs_f64(2.0 * starts.next_f64());
        let bottleneck = |rtt: u64| {
            let mut link = Duplex::symmetric(Rate::from_mbps(MBPS), Duration::from_millis(rtt));
            link.up.queue = self.queue;
            link
        };
        let access = |name: &str, rtt: u64| {
            let link = Duplex::symmetric(Rate::from_mbps(1000), Duration::from_millis(rtt))
                .with(|link| link.queue = QueueLimit::Unlimited);
            PathSpec::new(name, link)
        };
        let rtts = self.rtts;
        let (topology, pair) = match self.paths {
            Paths::Disjoint => {
                let specs =
                    [PathSpec::new("one", bottleneck(rtts.0)), PathSpec::new("two", bottleneck(rtts.1))];
                (topology::disjoint(&specs, ServerAddresses::One).unwrap(), 0)
            }
            Paths::Shared => {
                let specs = [access("one", rtts.0), access("two", rtts.1)];
                let mut link = bottleneck(0);
                link.up.rtt = Some(Duration::from_millis(rtts.0));
                let common = PathSpec::new("link", link);
                (topology::shared_bottleneck(&specs, &common, &[access("single", rtts.0)]).unwrap(), 1)
            }
        };
        let flows = vec![
            topology.pairs[0].flow("multipath", None, multipath).starting(start()),
            topology.pairs[pair].flow("tcp", None, tcp).starting(start()),
        ];
        Sim::new(topology.network, flows, seed, ()).unwrap()
    }

    /// Returns the rates of the TCP and of the two subflows in Mbit/s. The first tenth is excluded, as the
    /// survey excludes the first 30 of 600 s.
    fn rates(&self, seed: u64) -> [f64; 3] {
        let mut sim = self.sim(seed);
        let warm = self.seconds / 10;
        let mut count = |until: u64| {
            let report = sim.run(Time::from_secs(until));
            let by_path = &report.flows[0].bytes_by_path;
            [report.flows[1].delivered as f64, by_path[0] as f64, by_path[1] as f64]
        };
        let (before, after) = (count(warm), count(self.seconds));
        let span = (self.seconds - warm) as f64;
        core::array::from_fn(|i| (after[i] - before[i]) * 8.0 / span / 1e6)
    }

    /// Returns the shares as percentages of the fair share, as the survey counts, as a mean over seeds: of
    /// the TCP, the first subflow, the second and both. On disjoint paths the fair share is half of the first
    /// path for the TCP and for the first subflow, and all of the second path for the second; on a shared one
    /// half for the TCP and a quarter for each subflow.
    pub fn shares(&self, seeds: u64) -> [f64; 4] {
        // Payload of 1400 in packets of 1452 bytes.
        let all = MBPS as f64 * 1400.0 / 1452.0;
        let mut sum = [0.0; 4];
        for seed in 0..seeds {
            let [tcp, one, two] = self.rates(seed);
            let shares = match self.paths {
                Paths::Disjoint => {
                    [tcp / (all / 2.0), one / (all / 2.0), two / all, (one + two) / (all * 1.5)]
                }
                Paths::Shared => {
                    [tcp / (all / 2.0), one / (all / 4.0), two / (all / 4.0), (one + two) / (all / 2.0)]
                }
            };
            sum.iter_mut().zip(shares).for_each(|(sum, share)| *sum += 100.0 * share / seeds as f64);
        }
        sum
    }
}

const LARGE: Bytes = Bytes::from_kib(8 << 10);

#[test]
fn on_disjoint_paths_coupled_controls_leave_the_shared_one_and_uncoupled_ones_share_it() {
    let of = |name| Experiment::usual(Paths::Disjoint, name).shares(2);
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
    let of = |name| {
        let usual = Experiment::usual(Paths::Shared, name);
        Experiment { rtts: (50, 50), queue: QueueLimit::Bdp(2.0), ..usual }.shares(2)
    };
    let reno = of("newreno");
    for name in ["lia", "olia", "balia"] {
        let coupled = of(name);
        assert!(coupled[3] < reno[3] - 8.0, "{name}: {coupled:?} and {reno:?}");
    }
}

/// The survey's Tables 2 and 4, in per cent: of the TCP, the first subflow and the second, by the pairs of
/// round-trip times. Table 2 has no row for the second subflow; according to the text it fills its path.
type Rows = [[f64; 6]; 3];
const FILLED: [f64; 6] = [100.0; 6];
const SURVEY: [(&str, Rows, Rows); 3] = [
    (
        "lia",
        [[125.6, 107.4, 132.0, 183.2, 195.6, 195.8], [72.4, 90.7, 66.3, 14.6, 2.4, 2.4], FILLED],
        [
            [79.4, 87.6, 90.8, 105.6, 127.4, 138.0],
            [150.9, 181.4, 190.0, 112.8, 137.2, 115.2],
            [79.2, 34.8, 22.8, 65.2, 2.8, 4.4],
        ],
    ),
    (
        "olia",
        [[188.0, 190.4, 188.8, 189.2, 195.4, 193.6], [10.0, 7.6, 9.4, 7.4, 2.8, 4.6], FILLED],
        [
            [76.0, 72.6, 81.8, 105.8, 134.8, 137.5],
            [217.5, 236.8, 224.0, 162.4, 117.2, 114.0],
            [23.2, 13.6, 8.8, 9.6, 8.4, 8.4],
        ],
    ),
    (
        "balia",
        [[149.0, 134.6, 127.0, 184.0, 193.8, 193.6], [49.2, 63.2, 71.4, 13.4, 4.0, 4.6], FILLED],
        [
            [75.4, 89.2, 82.5, 107.0, 131.4, 140.0],
            [189.2, 175.1, 208.8, 91.6, 122.8, 108.8],
            [43.2, 34.4, 19.6, 83.6, 6.0, 5.6],
        ],
    ),
];

/// Returns the columns of a table, for one control.
fn columns(experiment: &Experiment<'_>, seeds: u64) -> Vec<[f64; 4]> {
    RTTS.iter().map(|rtts| Experiment { rtts: *rtts, ..*experiment }.shares(seeds)).collect()
}

fn line(name: &str, what: &str, values: impl Iterator<Item = f64>) -> String {
    let values: Vec<String> = values.map(|value| format!("{value:.0}")).collect();
    format!("| {name} | {what} | {} |\n", values.join(" | "))
}

/// Prints a table in the form of the survey's, and the mean absolute difference of the cells, in points. On
/// disjoint paths only the TCP's row is compared, on a shared one the subflows' as well.
fn table(paths: Paths, queue: QueueLimit, competitor: &str, names: &[&str]) {
    let mut text = format!("\n{paths:?}, queue {queue:?}, beside one {competitor}\n");
    let rows = if paths == Paths::Disjoint { 1 } else { 3 };
    let mut distances = Vec::new();
    for name in names {
        let usual = Experiment::usual(paths, name);
        let cells = columns(&Experiment { competitor, queue, seconds: 120, ..usual }, 3);
        for (row, what) in ["TCP", "subflow 1", "subflow 2", "both"].iter().enumerate() {
            text += &line(name, what, cells.iter().map(|cell| cell[row]));
        }
        if let Some((_, disjoint, shared)) = SURVEY.iter().find(|(known, ..)| known == name) {
            let known = if paths == Paths::Disjoint { disjoint } else { shared };
            for (column, cell) in cells.iter().enumerate() {
                distances.extend((0..rows).map(|row| (cell[row] - known[row][column]).abs()));
            }
        }
    }
    if !distances.is_empty() {
        let mean = distances.iter().sum::<f64>() / distances.len() as f64;
        text += &format!("mean distance from the survey's table: {mean:.1} points\n");
    }
    print!("{text}");
}

fn tables_of_the_survey(queue: QueueLimit) {
    for competitor in ["newreno", "cubic"] {
        for paths in [Paths::Shared, Paths::Disjoint] {
            table(paths, queue, competitor, &["lia", "olia", "balia"]);
        }
    }
}

#[test]
#[ignore = "prints tables"]
fn tables_with_queues_of_a_bdp() {
    tables_of_the_survey(QueueLimit::Bdp(1.0));
}

#[test]
#[ignore = "prints tables"]
fn tables_with_queues_of_50_packets() {
    tables_of_the_survey(QueueLimit::Packets(50));
}

#[test]
#[ignore = "prints tables"]
fn tables_with_queues_of_100_packets() {
    tables_of_the_survey(QueueLimit::Packets(100));
}

#[test]
#[ignore = "prints tables"]
fn tables_with_queues_of_1000_packets() {
    tables_of_the_survey(QueueLimit::Packets(1000));
}

#[test]
#[ignore = "prints tables"]
fn tables_of_the_others() {
    for paths in [Paths::Disjoint, Paths::Shared] {
        let names = ["newreno", "cubic", "wvegas", "bbr", "dwc", "sbd"];
        table(paths, QueueLimit::Packets(100), "newreno", &names);
    }
}

#[test]
#[ignore = "prints a table"]
fn table_of_buffers() {
    for paths in [Paths::Disjoint, Paths::Shared] {
        let mut text = format!(
            "\n{paths:?}, queue 100 packets, 50 and 150 ms, beside one newreno, by receive buffer: TCP, subflows, both\n"
        );
        for kib in [64, 128, 256, 512, 1024, 8192] {
            for name in ["lia", "olia", "balia"] {
                let experiment = Experiment {
                    rtts: (50, 150),
                    queue: QueueLimit::Packets(100),
                    buffer: Bytes::from_kib(kib),
                    seconds: 120,
                    ..Experiment::usual(paths, name)
                };
                text += &line(name, &format!("{kib} KiB"), experiment.shares(3).into_iter());
            }
        }
        print!("{text}");
    }
}
