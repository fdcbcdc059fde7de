//! The rows of a condition.

use anabranch_measure::gather::Of;
use anabranch_measure::{ByRun, Record};

use super::entrant::{Entrant, beside_name, is_bulk};
use super::measured::{self, Measure};
use super::{classes, difference, unseen};
use crate::run::{Class, FlowResult};
use crate::scenario::{Condition, Scenario};
use crate::stats::Interval;

/// Returns the rows of a condition.
pub(crate) fn rows(scenario: &Scenario, condition: &Condition, entrants: &[Entrant<'_>]) -> Vec<Record> {
    if !condition.experiment.classes.is_empty() {
        return classes::rows(scenario, condition, entrants);
    }
    let bulk = is_bulk(condition);
    let kinds = 0..condition.experiment.traffic.beside.len();
    let classes: Vec<(Class, usize)> =
        [(Class::Contender, 0)].into_iter().chain(kinds.map(|kind| (Class::Beside, kind))).collect();
    let mut rows: Vec<Record> = Vec::new();
    let reference =
        entrants.iter().position(|entrant| entrant.listed && Some(entrant.contender) == scenario.reference);
    for (class, kind) in &classes {
        let flows: Vec<_> = entrants.iter().map(|entrant| entrant.flows(*class, *kind)).collect();
        let values: Vec<_> = flows.iter().map(|runs| measured::of_flows(runs, bulk)).collect();
        let all: Vec<&Entrant<'_>> = entrants.iter().collect();
        let measure = if bulk { Measure::Goodput } else { Measure::MeanTime };
        let bounds = unseen::Bounds::new(condition, &all, &values, measure);
        let differences = difference::against(&values, entrants, reference, &bounds, scenario.seed);
        let unseen = bounds.of_means();
        for (at, entrant) in entrants.iter().enumerate() {
            let mut row = row(condition, &flows[at], bulk, scenario.seed);
            // The competing TCPs are compared with those that compete with the reference.
            row.vs_reference_pct =
                differences[at].filter(|_| *class == Class::Contender || Some(at) != reference);
            row.fct_s.add_unseen(unseen[at]);
            if let (Some(goodput), Some(interval)) = (row.goodput_bps, &mut row.goodput_ci95_bps) {
                *interval = Interval(interval.0 - goodput * unseen[at].less, interval.1).at_least(0.0);
            }
            let (name, config) = match class {
                Class::Contender => (entrant.name.clone(), condition.configs[entrant.contender].clone()),
                Class::Beside | Class::Other => {
                    (beside_name(condition, *kind, &entrant.name), condition.beside_config(*kind))
                }
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
pub(super) fn only_path(runs: &[Vec<&FlowResult>]) -> Option<usize> {
    let mut paths = runs.iter().flatten().map(|flow| flow.path);
    let first = paths.next()?;
    paths.all(|path| path == first).then_some(first)
}

/// Returns what the measures of a condition's flows need to know.
pub(crate) fn of(condition: &Condition, bulk: bool, seed: u64) -> Of {
    Of { bulk, paths: condition.experiment.paths().len(), seed }
}

pub(super) fn row(condition: &Condition, runs: &[Vec<&FlowResult>], bulk: bool, seed: u64) -> Record {
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
