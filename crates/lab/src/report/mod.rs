//! Results as rows: one for each condition and contender.

mod classes;
pub(crate) mod difference;
mod fair_share;
pub mod fairness;
pub(crate) mod measured;
pub(crate) mod sentences;
mod setting;
pub(crate) mod unseen;
pub mod verdict;

use serde::Serialize;

pub use classes::{DatagramRow, VideoRow};
pub use difference::Difference;
pub use sentences::later_deadline;
pub use setting::{ClassPath, PhaseLimits, Setting, UnseenEvents};

use unseen::Unseen;

use crate::compare::{Job, Purpose};
use crate::run::{Class, FlowResult, RunResult};
use crate::scenario::{Condition, Contender, FlowSize, Scenario, Transport};
use crate::stats::{self, Interval, Part};

/// The subject of a row: a contender, or a plain TCP on a path that `tcp` does not use.
#[derive(Clone, Debug)]
pub(crate) struct Entrant<'a> {
    pub name: String,
    /// The position of the contender whose settings it has.
    pub contender: usize,
    /// The position of the path of a plain TCP.
    pub path: Option<usize>,
    /// True for the scenario's contenders, which take part in the verdict.
    pub listed: bool,
    pub runs: &'a [RunResult],
}

impl<'a> Entrant<'a> {
    pub(crate) fn new(
        scenario: &Scenario,
        condition: &Condition,
        contender: usize,
        chosen: Option<usize>,
        listed: bool,
        runs: &'a [RunResult],
    ) -> Entrant<'a> {
        let Contender { name, transport, .. } = &scenario.contenders[contender];
        let path = match transport {
            Transport::Tcp { path: Some(path) } => Some(*path),
            Transport::Tcp { path: None } => chosen,
            Transport::Multipath(_) => None,
        };
        let name = match path {
            Some(path) if !listed => format!("{name}@{}", condition.experiment.paths()[path].name),
            _ => name.clone(),
        };
        Entrant { name, contender, path, listed, runs }
    }

    /// Returns the entrant of `job`, without results.
    pub(crate) fn of(scenario: &Scenario, job: &Job) -> Entrant<'a> {
        let condition = &scenario.conditions[job.condition];
        let listed = job.purpose == Purpose::Compare;
        Entrant::new(scenario, condition, job.contender, job.path, listed, &[])
    }

    /// Returns the path of a plain TCP for the class of traffic `group`, or without classes its path.
    pub(crate) fn path_in(&self, group: Option<usize>) -> Option<usize> {
        let flows = self.runs.first().map(|run| run.flows.iter()).into_iter().flatten();
        let of_class = group.and_then(|group| flows.into_iter().find(|flow| flow.group == group));
        self.path.map(|path| of_class.map_or(path, |flow| flow.path))
    }

    /// Returns the flows of a class, by run.
    fn flows(&self, class: Class) -> Vec<Vec<&'a FlowResult>> {
        let of_class =
            |result: &'a RunResult| result.flows.iter().filter(|flow| flow.class == class).collect();
        self.runs.iter().map(of_class).collect()
    }
}

/// Returns the name of the row of the plain TCPs that compete with a contender.
pub fn beside_name(contender: &str) -> String {
    format!("tcp beside {contender}")
}

/// Mean, percentiles and interval of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The mean over all flows of all runs that have a value.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// None for fewer than 20 flows.
    pub p95: Option<f64>,
    /// None for fewer than 100 flows.
    pub p99: Option<f64>,
    /// The greatest value.
    pub max: Option<f64>,
    /// The 95 % interval of the mean, by bootstrap over runs and with the bound for events that no run has shown; none
    /// for a single run.
    pub ci95: Option<Interval>,
}

impl Summary {
    /// Adds the bound for unseen events to the interval.
    pub(crate) fn add_unseen(&mut self, unseen: Unseen) {
        if let (Some(mean), Some(interval)) = (self.mean, &mut self.ci95) {
            interval.0 = (interval.0 - mean * unseen.less).max(0.0);
            interval.1 += mean * unseen.more;
        }
    }
}

/// The results of a contender in a condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The contender.
    pub scheduler: String,
    /// Its congestion control.
    pub congestion: String,
    /// The condition; empty if there is only one.
    pub condition: String,
    /// The path of a plain TCP; none for Multipath TCP.
    pub path: Option<String>,
    /// The number of flows.
    pub n: usize,
    /// The number of flows delivered before the deadline. (Bulk: not aborted.)
    pub completed: usize,
    /// The number of flows that failed: their connection ended before the flow was complete.
    pub failed: usize,
    /// Completion times of the delivered flows.
    pub fct_s: Summary,
    /// Times to the last data ACK, of the acknowledged flows.
    pub acked_s: Summary,
    /// Unique bytes over time, in bit/s, mean over flows.
    pub goodput_bps: Option<f64>,
    /// Its 95 % interval, by bootstrap over runs; none for a single run.
    pub goodput_ci95_bps: Option<Interval>,
    /// The difference of the mean completion time from the reference's, over the flows that both delivered;
    /// for bulk, of the goodput. The intervals of a condition's contenders hold simultaneously with 95 %.
    pub vs_reference_pct: Option<Difference>,
    /// Segments retransmitted on the same subflow, over data segments sent.
    pub retransmitted_ratio: f64,
    /// Data segments reinjected on another subflow, over data segments sent.
    pub reinjected_ratio: f64,
    /// Retransmission timeouts per flow.
    pub rto_count: f64,
    /// The longest gap in the delivery of a flow, of the flows that received something.
    pub longest_gap_s: Summary,
    /// Subflows that sent payload, mean over flows.
    pub subflows_used: f64,
    /// Unique bytes by the path of first delivery, over all flows.
    pub bytes_by_path: Vec<u64>,
    /// The mean lower bound of the delivered flows; for bulk, of the delivered data.
    pub lower_bound_s: Option<f64>,
    /// Their mean time over the mean lower bound.
    pub vs_lower_bound: Option<f64>,
    /// The values of each run.
    pub by_run: ByRun,
    /// The class of traffic, if the scenario has classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// Its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// Its transport: `contender`, `tcp` or `udp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'static str>,
    /// The results of videos.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoRow>,
    /// The results of datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramRow>,
}

/// The values of each run, in order from run 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ByRun {
    /// The number of flows delivered. (Bulk: not aborted.)
    pub completed: Vec<usize>,
    /// The mean completion time of the delivered flows; none without any, and for bulk.
    pub fct_s: Vec<Option<f64>>,
    /// The mean goodput of a flow, in bit/s.
    pub goodput_bps: Vec<Option<f64>>,
}

impl ByRun {
    fn new(runs: &[Vec<&FlowResult>], bulk: bool) -> ByRun {
        let completed = |run: &Vec<&FlowResult>| run.iter().filter(|flow| is_complete(flow, bulk)).count();
        let fct = |run: &Vec<&FlowResult>| {
            mean_of(run.iter().filter_map(|f| f.report.fct).map(|f| f.as_secs_f64()))
        };
        let goodput = |run: &Vec<&FlowResult>| mean_of(run.iter().map(|flow| flow.goodput().as_bps_f64()));
        ByRun {
            completed: runs.iter().map(completed).collect(),
            fct_s: runs.iter().map(fct).collect(),
            goodput_bps: runs.iter().map(goodput).collect(),
        }
    }
}

/// Returns the rows of a condition.
pub(crate) fn rows(scenario: &Scenario, condition: &Condition, entrants: &[Entrant<'_>]) -> Vec<Row> {
    if !condition.experiment.classes.is_empty() {
        return classes::rows(scenario, condition, entrants);
    }
    let bulk = is_bulk(condition);
    let classes: &[Class] = match condition.experiment.traffic.beside {
        Some(_) => &[Class::Contender, Class::Beside],
        None => &[Class::Contender],
    };
    let mut rows: Vec<Row> = Vec::new();
    let reference =
        entrants.iter().position(|entrant| entrant.listed && Some(entrant.contender) == scenario.reference);
    for class in classes {
        let flows: Vec<_> = entrants.iter().map(|entrant| entrant.flows(*class)).collect();
        let values: Vec<_> = flows.iter().map(|runs| measured::of_flows(runs, bulk)).collect();
        let all: Vec<&Entrant<'_>> = entrants.iter().collect();
        let measure = if bulk { verdict::Measure::Goodput } else { verdict::Measure::MeanTime };
        let bounds = unseen::Bounds::new(condition, &all, &values, measure);
        let differences = difference::against(&values, entrants, reference, &bounds, scenario.seed);
        let unseen = bounds.of_means();
        for (at, entrant) in entrants.iter().enumerate() {
            let mut row = row(condition, &flows[at], bulk, scenario.seed);
            row.vs_reference_pct = differences[at];
            row.fct_s.add_unseen(unseen[at]);
            if let (Some(goodput), Some(interval)) = (row.goodput_bps, &mut row.goodput_ci95_bps) {
                *interval = Interval(interval.0 - goodput * unseen[at].less, interval.1).at_least(0.0);
            }
            let (name, config) = match class {
                Class::Contender => (entrant.name.clone(), condition.configs[entrant.contender].clone()),
                Class::Beside | Class::Other => (beside_name(&entrant.name), condition.beside_config()),
            };
            row.scheduler = name;
            row.congestion = config.congestion.name().to_owned();
            let path = match class {
                Class::Contender => entrant.path,
                Class::Beside | Class::Other => only_path(&flows[at]),
            };
            row.path = path.map(|path| condition.experiment.paths()[path].name.clone());
            rows.push(row);
        }
    }
    // The rows of each contender are adjacent.
    let mut sorted = Vec::with_capacity(rows.len());
    for at in 0..entrants.len() {
        sorted.extend((0..classes.len()).map(|class| rows[class * entrants.len() + at].clone()));
    }
    sorted
}

/// Returns the path of plain TCPs, if all have the same.
fn only_path(runs: &[Vec<&FlowResult>]) -> Option<usize> {
    let mut paths = runs.iter().flatten().map(|flow| flow.path);
    let first = paths.next()?;
    paths.all(|path| path == first).then_some(first)
}

/// True if goodput is the measure.
pub(crate) fn is_bulk(condition: &Condition) -> bool {
    condition.experiment.traffic.size == FlowSize::Bulk
}

fn row(condition: &Condition, runs: &[Vec<&FlowResult>], bulk: bool, seed: u64) -> Row {
    let flows: Vec<&FlowResult> = runs.iter().flatten().copied().collect();
    let n = flows.len();
    let sum = |value: &dyn Fn(&FlowResult) -> u64| flows.iter().map(|flow| value(flow)).sum::<u64>();
    let segments = sum(&|flow| flow.report.data_segments) as f64;
    let ratio = |part: u64| if segments > 0.0 { part as f64 / segments } else { 0.0 };
    let per_flow = |total: u64| if n > 0 { total as f64 / n as f64 } else { 0.0 };
    let mut bytes_by_path = vec![0_u64; condition.experiment.paths().len()];
    for flow in &flows {
        for (total, bytes) in bytes_by_path.iter_mut().zip(&flow.report.bytes_by_path) {
            *total += bytes;
        }
    }
    let counted: Vec<&&FlowResult> = flows.iter().filter(|flow| bulk || flow.report.fct.is_some()).collect();
    let bound = mean_of(counted.iter().filter_map(|flow| Some(flow.lower_bound?.as_secs_f64())));
    let time = mean_of(counted.iter().map(|flow| flow.time.as_secs_f64()));
    Row {
        scheduler: String::new(),
        congestion: String::new(),
        condition: condition.name.clone(),
        path: None,
        n,
        completed: flows.iter().filter(|flow| is_complete(flow, bulk)).count(),
        failed: flows.iter().filter(|flow| !is_complete(flow, bulk) && has_failed(flow)).count(),
        fct_s: summary(runs, |flow| flow.report.fct.map(|fct| fct.as_secs_f64()), seed),
        acked_s: summary(runs, |flow| flow.report.acked.map(|acked| acked.as_secs_f64()), seed),
        goodput_bps: mean_of(flows.iter().map(|flow| flow.goodput().as_bps_f64())),
        goodput_ci95_bps: goodput_interval(runs, seed),
        vs_reference_pct: None,
        retransmitted_ratio: ratio(sum(&|flow| flow.report.retransmitted_segments)),
        reinjected_ratio: ratio(sum(&|flow| flow.reinjected_segments)),
        rto_count: per_flow(sum(&|flow| flow.report.rto_count)),
        longest_gap_s: summary(runs, |flow| flow.report.longest_gap.map(|gap| gap.as_secs_f64()), seed),
        subflows_used: per_flow(sum(&|flow| u64::from(flow.report.subflows_used))),
        bytes_by_path,
        lower_bound_s: bound,
        vs_lower_bound: time.zip(bound).filter(|(_, bound)| *bound > 0.0).map(|(time, bound)| time / bound),
        by_run: ByRun::new(runs, bulk),
        traffic: None,
        kind: None,
        transport: None,
        video: None,
        datagrams: None,
    }
}

fn goodput_interval(runs: &[Vec<&FlowResult>], seed: u64) -> Option<Interval> {
    let part = |run: &Vec<&FlowResult>| Part {
        sum: run.iter().map(|flow| flow.goodput().as_bps_f64()).sum(),
        count: run.len() as f64,
    };
    let interval = stats::bootstrap(&runs.iter().map(part).collect::<Vec<_>>(), seed);
    interval.map(|interval| interval.at_least(0.0))
}

/// True if a flow was delivered, or, if `bulk`, was not aborted.
pub(crate) fn is_complete(flow: &FlowResult, bulk: bool) -> bool {
    flow.report.fct.is_some() || (bulk && !has_failed(flow))
}

fn has_failed(flow: &FlowResult) -> bool {
    matches!(flow.report.outcome, anabranch_sim::Outcome::Failed(_))
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    stats::mean(&values.collect::<Vec<_>>())
}

fn summary(runs: &[Vec<&FlowResult>], value: impl Fn(&FlowResult) -> Option<f64>, seed: u64) -> Summary {
    let of_run = |run: &Vec<&FlowResult>| run.iter().filter_map(|flow| value(flow)).collect();
    summarise(&runs.iter().map(of_run).collect::<Vec<_>>(), seed)
}

/// Returns the summary of values by run.
fn summarise(runs: &[Vec<f64>], seed: u64) -> Summary {
    let mut all = Vec::new();
    let mut parts = Vec::with_capacity(runs.len());
    for values in runs {
        parts.push(Part { sum: values.iter().sum(), count: values.len() as f64 });
        all.extend_from_slice(values);
    }
    let mean = stats::mean(&all);
    all.sort_unstable_by(f64::total_cmp);
    Summary {
        mean,
        p50: stats::percentile(&all, 50.0),
        p95: stats::percentile(&all, 95.0),
        p99: stats::percentile(&all, 99.0),
        max: all.last().copied(),
        // No time is negative.
        ci95: stats::bootstrap(&parts, seed).map(|interval| interval.at_least(0.0)),
    }
}

#[cfg(test)]
mod class_tests;
#[cfg(test)]
mod number_tests;
#[cfg(test)]
mod tests;
