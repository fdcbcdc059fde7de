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

use anabranch_measure::gather::Of;
pub use anabranch_measure::{ByRun, Datagrams, Difference, Record, Summary, Video};
pub use sentences::later_deadline;
pub use setting::{ClassPath, PhaseLimits, Setting, UnseenEvents};

use crate::compare::{Job, Purpose};
use crate::run::{Class, FlowResult, RunResult};
use crate::scenario::{Condition, Contender, FlowSize, Scenario, Transport};
use crate::stats::Interval;

/// The subject of a row: a contender, or a plain TCP on a path that `tcp` does not use.
#[derive(Clone, Debug)]
pub(crate) struct Entrant<'a> {
    pub name: String,
    /// The position in the scenario of the contender with its settings.
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

/// Returns the rows of a condition.
pub(crate) fn rows(scenario: &Scenario, condition: &Condition, entrants: &[Entrant<'_>]) -> Vec<Record> {
    if !condition.experiment.classes.is_empty() {
        return classes::rows(scenario, condition, entrants);
    }
    let bulk = is_bulk(condition);
    let classes: &[Class] = match condition.experiment.traffic.beside {
        Some(_) => &[Class::Contender, Class::Beside],
        None => &[Class::Contender],
    };
    let mut rows: Vec<Record> = Vec::new();
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

/// Returns what the measures of a condition's flows need to know.
pub(crate) fn of(condition: &Condition, bulk: bool, seed: u64) -> Of {
    Of { bulk, paths: condition.experiment.paths().len(), seed }
}

fn row(condition: &Condition, runs: &[Vec<&FlowResult>], bulk: bool, seed: u64) -> Record {
    let flows = || runs.iter().flatten();
    Record {
        condition: condition.name.clone(),
        n: flows().count(),
        completed: flows().filter(|flow| flow.is_complete(bulk)).count(),
        failed: flows().filter(|flow| !flow.is_complete(bulk) && flow.has_failed()).count(),
        by_run: ByRun::new(runs, bulk),
        ..Record::gather(runs, of(condition, bulk, seed))
    }
}

#[cfg(test)]
mod class_tests;
#[cfg(test)]
mod number_tests;
#[cfg(test)]
mod tests;
