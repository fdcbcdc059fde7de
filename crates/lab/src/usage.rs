//! The data that each path carries, what it costs, and whether it exceeds a quota.

use anabranch_sim::topology::HostPair;
use anabranch_sim::{LinkId, LinkReport};
use serde::{Deserialize, Serialize};

use crate::scenario::{Condition, Experiment, Path};

/// The bytes of a path in a run, as the client's interface counts them, with IP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that the client sent.
    pub up: u64,
    /// Bytes that the client received.
    pub down: u64,
}

/// The data that a path carried for a contender, and its cost. Paths with a price or a quota are the reason to count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathUsage {
    /// The condition's name; empty if it is the only one.
    pub condition: String,
    /// The contender's name.
    pub scheduler: String,
    /// The name of the path.
    pub path: String,
    /// Bytes that the client sent over it, with IP headers: the mean over runs.
    pub up_bytes: f64,
    /// Bytes that the client received over it.
    pub down_bytes: f64,
    /// The cost of both.
    pub cost: f64,
    /// The number of runs in which a quota was exceeded; none without a quota.
    pub over_quota: Option<u32>,
    /// The number of runs.
    pub runs: u32,
}

/// True if a path of the experiment has a price or a quota.
fn is_counted(experiment: &Experiment) -> bool {
    experiment.paths().iter().any(|path| !path.tariff.is_none())
}

/// Returns the usage of each path; nothing if no path has a tariff.
pub(crate) fn of_run(experiment: &Experiment, pairs: &[HostPair], links: &[LinkReport]) -> Vec<Usage> {
    let Some(pair) = pairs.first().filter(|_| is_counted(experiment)) else { return Vec::new() };
    let of = |link: Option<&LinkId>| link.and_then(|link| links.get(link.index())).map(|link| link.counters);
    let usage = |path: &anabranch_sim::topology::PathLinks| Usage {
        up: of(path.up.first()).map_or(0, |counters| counters.offered.bytes),
        down: of(path.down.last()).map_or(0, |counters| counters.delivered.bytes),
    };
    pair.paths.iter().map(usage).collect()
}

/// Returns the rows of a contender from the usage of each run, one for each path; none if no path has a tariff.
pub(crate) fn rows(condition: &Condition, scheduler: &str, runs: &[&[Usage]]) -> Vec<PathUsage> {
    let experiment = &condition.experiment;
    if !is_counted(experiment) || runs.is_empty() {
        return Vec::new();
    }
    let of = |(at, path): (usize, &Path)| {
        let usages = || runs.iter().filter_map(move |run| run.get(at));
        let mean = |value: &dyn Fn(&Usage) -> f64| usages().map(value).sum::<f64>() / runs.len() as f64;
        let exceeded = usages().filter(|usage| path.tariff.quotas.is_exceeded(usage.up, usage.down)).count();
        PathUsage {
            condition: condition.name.clone(),
            scheduler: scheduler.to_owned(),
            path: path.name.clone(),
            up_bytes: mean(&|usage| usage.up as f64),
            down_bytes: mean(&|usage| usage.down as f64),
            cost: mean(&|usage| path.tariff.cost(usage.up, usage.down)),
            over_quota: (!path.tariff.quotas.is_none()).then_some(exceeded as u32),
            runs: runs.len() as u32,
        }
    };
    experiment.paths().iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    const LOSSY: &str = "
        path = [{ rate = '10 Mbit/s', rtt = '10 ms', loss-up = '50%', quota = { up = '1 KB', down = '9 KB' },
                  price = { up = 1, down = 3 } },
                { rate = '5 Mbit/s', rtt = '30 ms' }]
        traffic = { size = '20 KB' }
        schedulers = ['tcp@1', 'min_rtt']
        runs = 1
    ";

    /// The interface counts a packet that the network loses afterwards.
    #[test]
    fn bytes_upward_are_those_sent_and_bytes_downward_those_received() {
        let run = made::run(&made::scenario(LOSSY), 0);
        let link = |at: usize| run.links[at].counters;
        let up = (0..run.links.len()).find(|at| link(*at).offered.bytes == run.usage[0].up).unwrap();
        assert!(link(up).offered.bytes > link(up).delivered.bytes, "{:?}", link(up));
        assert!(run.usage[0].down > 20_000 && run.usage[0].up < run.usage[0].down / 2);
        assert_eq!(run.usage[1], Usage::default());
    }

    #[test]
    fn each_direction_has_its_price_and_quota() {
        let scenario = made::scenario(LOSSY);
        let row = |up: u64, down: u64| {
            let runs = [&[Usage { up, down }, Usage::default()][..], &[Usage::default(); 2][..]];
            rows(&scenario.conditions[0], "tcp", &runs).remove(0)
        };
        let of = |up: u64, down: u64| row(up, down).over_quota;
        assert_eq!(
            [of(1000, 9000), of(1001, 0), of(0, 9001), of(0, 1001)],
            [Some(0), Some(1), Some(1), Some(0)]
        );
        // The means of two runs.
        let row = row(4_000_000, 2_000_000);
        assert_eq!((row.up_bytes, row.down_bytes, row.runs), (2e6, 1e6, 2));
        assert!((row.cost - (0.002 * 1.0 + 0.001 * 3.0)).abs() < 1e-12, "{}", row.cost);
        assert_eq!(rows(&scenario.conditions[0], "tcp", &[]), []);
    }
}
