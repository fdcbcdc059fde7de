//! Rows and findings of each class of traffic.

use anabranch_measure::{ByRun, Datagrams, Record, Summary, Video};

use super::entrant::Entrant;
use super::measured::{self, Measured};
use super::rows::{self, row};
use super::verdict::{self, Finding};
use super::{difference, unseen};
use crate::run::FlowResult;
use crate::scenario::{Condition, Kind, Scenario, TrafficClass, Via};
use crate::stats;

/// Returns the flows of a class, by entrant and run.
fn flows<'a>(entrants: &[&Entrant<'a>], group: usize) -> Vec<Vec<Vec<&'a FlowResult>>> {
    let of_run =
        |run: &'a crate::run::RunResult| run.flows.iter().filter(|flow| flow.group == group).collect();
    entrants.iter().map(|entrant| entrant.runs.iter().map(of_run).collect()).collect()
}

/// Returns the rows of a condition, by class and entrant.
pub(super) fn rows(scenario: &Scenario, condition: &Condition, entrants: &[Entrant<'_>]) -> Vec<Record> {
    let all: Vec<&Entrant<'_>> = entrants.iter().collect();
    let reference =
        entrants.iter().position(|entrant| entrant.listed && Some(entrant.contender) == scenario.reference);
    let mut rows = Vec::new();
    for (group, class) in condition.experiment.classes.iter().enumerate() {
        let flows = flows(&all, group);
        let measure = measured::measures(&class.kind)[0];
        let values = measured::of_class(&flows, measure);
        let bounds = unseen::Bounds::new(condition, &all, &values, measure).for_class(Some(class));
        let differences = difference::against(&values, entrants, reference, &bounds, scenario.seed);
        let unseen = bounds.of_means();
        for (at, entrant) in entrants.iter().enumerate() {
            let mut row = class_row(condition, class, &flows[at], &values[at], scenario.seed);
            row.vs_reference_pct = differences[at];
            row.fct_s.add_unseen(unseen[at]);
            row.scheduler.clone_from(&entrant.name);
            row.congestion = match class.via {
                Via::Contender => condition.configs[entrant.contender].congestion.name().to_owned(),
                Via::Tcp(_) => condition.plain.congestion.name().to_owned(),
                Via::Udp(_) => "none".to_owned(),
            };
            let path = match class.via {
                // A plain TCP has a path for each class.
                Via::Contender => entrant.path.and_then(|_| rows::only_path(&flows[at])),
                Via::Tcp(_) | Via::Udp(_) => rows::only_path(&flows[at]),
            };
            row.path = path.map(|path| condition.experiment.paths()[path].name.clone());
            rows.push(row);
        }
    }
    rows
}

fn class_row(
    condition: &Condition,
    class: &TrafficClass,
    runs: &[Vec<&FlowResult>],
    values: &[Vec<Measured>],
    seed: u64,
) -> Record {
    let bulk = class.kind.is_bulk();
    let mut row = row(condition, runs, bulk, seed);
    row.traffic = Some(class.name.clone());
    row.kind = Some(class.kind.name().to_owned());
    row.transport = Some(class.via.name().to_owned());
    if let Kind::Transfer { .. } = class.kind {
        return row;
    }
    row.n = measured::count(values, |_| true);
    row.completed = measured::count(values, |value| value.complete);
    row.failed = measured::count(values, |value| value.failed.is_some());
    let times: Vec<Vec<f64>> =
        values.iter().map(|run| run.iter().filter_map(|value| value.value).collect()).collect();
    row.fct_s = Summary::new(&times, seed);
    row.by_run = ByRun {
        completed: values
            .iter()
            .map(|run| run.iter().filter(|value| value.parts > 0 && value.complete).count())
            .collect(),
        fct_s: times.iter().map(|run| stats::mean(run)).collect(),
        ..row.by_run
    };
    let of = rows::of(condition, bulk, seed);
    match class.kind {
        Kind::Video(_) => row.video = Some(Video::gather(&taken(runs, FlowResult::video), of)),
        Kind::Datagrams(_) => {
            row.datagrams = Some(Datagrams::gather(&taken(runs, FlowResult::datagrams), of))
        }
        _ => {}
    }
    row
}

/// Returns what `take` finds in flows, by run.
fn taken<T>(runs: &[Vec<&FlowResult>], take: impl Fn(&FlowResult) -> Option<T>) -> Vec<Vec<T>> {
    runs.iter().map(|run| run.iter().filter_map(|flow| take(flow)).collect()).collect()
}

/// Returns the findings of a condition: for each class by each of its measures, and for short transfers and requests by
/// the 95th percentile.
pub(super) fn findings(scenario: &Scenario, condition: &Condition, listed: &[&Entrant<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (group, class) in condition.experiment.classes.iter().enumerate() {
        let flows = flows(listed, group);
        for measure in measured::measures(&class.kind) {
            let values = measured::of_class(&flows, measure);
            let contest = verdict::Contest {
                scenario,
                condition,
                listed,
                values: &values,
                measure,
                class: Some(class),
            };
            let size = match &class.kind {
                Kind::Transfer { size, .. } => size.mean(),
                Kind::Requests(plan) => Some(plan.response.mean()),
                _ => None,
            };
            findings.extend(contest.findings(size));
        }
    }
    findings
}
