//! Results as rows: one for each condition and contender.

pub mod verdict;

use serde::Serialize;

use crate::run::{Class, FlowResult, RunResult};
use crate::scenario::{Condition, FlowSize, Scenario};
use crate::stats::{self, Interval, Part};

/// Mean, percentiles and interval of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The mean over all flows of all runs that have it.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// None below 20 flows.
    pub p95: Option<f64>,
    /// None below 100 flows.
    pub p99: Option<f64>,
    /// The 95 % interval of the mean, by bootstrap over runs; none for a single run.
    pub ci95: Option<Interval>,
}

/// A mean and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The mean over runs, in percent.
    pub mean: f64,
    /// Its 95 % interval, by bootstrap over runs; none for a single run.
    pub ci95: Option<Interval>,
}

/// What a contender has come to in a condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The contender.
    pub scheduler: String,
    /// Its congestion control.
    pub congestion: String,
    /// The condition; empty where there is only one.
    pub condition: String,
    /// Flows.
    pub n: usize,
    /// Flows that were delivered before the deadline. (Bulk: that were not broken off.)
    pub completed: usize,
    /// Completion times, of the flows that were delivered.
    pub fct_s: Summary,
    /// Times to the last data ACK, of the flows that were acknowledged.
    pub acked_s: Summary,
    /// Unique bytes over time, in bit/s, mean over flows.
    pub goodput_bps: Option<f64>,
    /// Completion time against the reference's, of the flows that both delivered; for bulk the
    /// goodput.
    pub vs_reference_pct: Option<Difference>,
    /// Segments retransmitted on their own subflow, over data segments sent.
    pub retransmitted_ratio: f64,
    /// Data segments sent again on another subflow, over data segments sent.
    pub reinjected_ratio: f64,
    /// Retransmission timeouts per flow.
    pub rto_count: f64,
    /// Subflows that sent payload, mean over flows.
    pub subflows_used: f64,
    /// Unique bytes first delivered by each path, all flows together.
    pub bytes_by_path: Vec<u64>,
    /// The mean lower bound of the flows that were delivered; for bulk, of what was delivered.
    pub lower_bound_s: Option<f64>,
    /// Their mean time over the mean lower bound.
    pub vs_lower_bound: Option<f64>,
}

/// Which flows a row is about.
fn of_class(results: &[RunResult], class: Class) -> impl Iterator<Item = Vec<&FlowResult>> {
    results.iter().map(move |result| result.flows.iter().filter(|flow| flow.class == class).collect())
}

/// The rows of a condition; `results` by contender and run.
pub fn rows(scenario: &Scenario, condition: &Condition, results: &[&[RunResult]]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (position, contender) in scenario.contenders.iter().enumerate() {
        let mut classes =
            vec![(Class::Contender, contender.name.clone(), condition.configs[position].clone())];
        if condition.experiment.traffic.beside.is_some() {
            let name = format!("tcp beside {}", contender.name);
            classes.push((Class::Beside, name, condition.beside_config()));
        }
        for (class, name, config) in classes {
            let runs: Vec<Vec<&FlowResult>> = of_class(results[position], class).collect();
            let reference = scenario
                .reference
                .map(|reference| of_class(results[reference], class).collect::<Vec<Vec<&FlowResult>>>());
            let mut row = row(condition, &runs, scenario.seed);
            row.vs_reference_pct = reference
                .and_then(|reference| difference(&runs, &reference, is_bulk(condition), scenario.seed));
            row.scheduler = name;
            row.congestion = config.congestion.name().to_owned();
            rows.push(row);
        }
    }
    rows
}

/// Whether goodput is what counts.
pub(crate) fn is_bulk(condition: &Condition) -> bool {
    condition.experiment.traffic.size == FlowSize::Bulk
}

fn row(condition: &Condition, runs: &[Vec<&FlowResult>], seed: u64) -> Row {
    let flows: Vec<&FlowResult> = runs.iter().flatten().copied().collect();
    let n = flows.len();
    let sum = |value: &dyn Fn(&FlowResult) -> u64| flows.iter().map(|flow| value(flow)).sum::<u64>();
    let segments = sum(&|flow| flow.report.data_segments) as f64;
    let ratio = |part: u64| if segments > 0.0 { part as f64 / segments } else { 0.0 };
    let per_flow = |total: u64| if n > 0 { total as f64 / n as f64 } else { 0.0 };
    let mut bytes_by_path = vec![0_u64; condition.experiment.paths.len()];
    for flow in &flows {
        for (total, bytes) in bytes_by_path.iter_mut().zip(&flow.report.bytes_by_path) {
            *total += bytes;
        }
    }
    let bulk = is_bulk(condition);
    let counted: Vec<&&FlowResult> = flows.iter().filter(|flow| bulk || flow.report.fct.is_some()).collect();
    let bound = mean_of(counted.iter().map(|flow| flow.lower_bound.as_secs_f64()));
    let time = mean_of(counted.iter().map(|flow| flow.time.as_secs_f64()));
    Row {
        scheduler: String::new(),
        congestion: String::new(),
        condition: condition.name.clone(),
        n,
        completed: flows.iter().filter(|flow| is_complete(flow, bulk)).count(),
        fct_s: summary(runs, |flow| flow.report.fct.map(|fct| fct.as_secs_f64()), seed),
        acked_s: summary(runs, |flow| flow.report.acked.map(|acked| acked.as_secs_f64()), seed),
        goodput_bps: mean_of(flows.iter().map(|flow| flow.goodput().as_bps_f64())),
        vs_reference_pct: None,
        retransmitted_ratio: ratio(sum(&|flow| flow.report.retransmitted_segments)),
        reinjected_ratio: ratio(sum(&reinjected_segments)),
        rto_count: per_flow(sum(&|flow| flow.report.rto_count)),
        subflows_used: per_flow(sum(&|flow| u64::from(flow.report.subflows_used))),
        bytes_by_path,
        lower_bound_s: bound,
        vs_lower_bound: time.zip(bound).filter(|(_, bound)| *bound > 0.0).map(|(time, bound)| time / bound),
    }
}

/// Data segments that a flow's sender has sent again on another subflow.
pub fn reinjected_segments(flow: &FlowResult) -> u64 {
    flow.report.sender.subflows.iter().map(|subflow| subflow.counters.segments_reinjected).sum()
}

/// Whether a flow was delivered; a bulk flow, whether it was not broken off.
pub(crate) fn is_complete(flow: &FlowResult, bulk: bool) -> bool {
    flow.report.fct.is_some() || (bulk && !matches!(flow.report.outcome, anabranch_sim::Outcome::Failed(_)))
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    stats::mean(&values.collect::<Vec<_>>())
}

fn summary(runs: &[Vec<&FlowResult>], value: impl Fn(&FlowResult) -> Option<f64>, seed: u64) -> Summary {
    let mut all = Vec::new();
    let mut parts = Vec::with_capacity(runs.len());
    for run in runs {
        let values: Vec<f64> = run.iter().filter_map(|flow| value(flow)).collect();
        parts.push(Part { sum: values.iter().sum(), count: values.len() as f64 });
        all.extend(values);
    }
    let mean = stats::mean(&all);
    all.sort_unstable_by(f64::total_cmp);
    Summary {
        mean,
        p50: stats::percentile(&all, 50.0),
        p95: stats::percentile(&all, 95.0),
        p99: stats::percentile(&all, 99.0),
        ci95: stats::bootstrap(&parts, seed),
    }
}

/// The mean over runs of 100 (x - reference) / reference, x being the mean completion time of the
/// flows that both delivered, or for bulk the goodput of all flows together.
pub(crate) fn difference(
    runs: &[Vec<&FlowResult>],
    reference: &[Vec<&FlowResult>],
    bulk: bool,
    seed: u64,
) -> Option<Difference> {
    let mut parts = Vec::with_capacity(runs.len());
    for (run, reference) in runs.iter().zip(reference) {
        let (mut own, mut other) = (0.0, 0.0);
        for (flow, reference) in run.iter().zip(reference) {
            if bulk {
                own += flow.goodput().as_bps_f64();
                other += reference.goodput().as_bps_f64();
            } else if let (Some(a), Some(b)) = (flow.report.fct, reference.report.fct) {
                own += a.as_secs_f64();
                other += b.as_secs_f64();
            }
        }
        if other > 0.0 {
            parts.push(Part::one(100.0 * (own - other) / other));
        }
    }
    let mean = mean_of(parts.iter().map(|part| part.sum))?;
    Some(Difference { mean, ci95: stats::bootstrap(&parts, seed) })
}
