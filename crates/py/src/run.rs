//! Single runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_lab::compare::{Options, single_runs};
use anabranch_lab::run::LinkReport;
use anabranch_table::{Cell, Column, Kind};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::compare::Samples;
use crate::errors;
use crate::scenario::{Contenders, Document};
use crate::table::{Rows, Table};
use crate::work::{Control, work};

/// The counters of a link, with the names of `run --json`.
fn counters(link: &LinkReport) -> Vec<(&'static str, u64)> {
    let counters = &link.counters;
    let mut all = vec![
        ("offered_packets", counters.offered.packets),
        ("offered_bytes", counters.offered.bytes),
        ("delivered_packets", counters.delivered.packets),
        ("delivered_bytes", counters.delivered.bytes),
        ("dropped_queue", counters.dropped_queue.packets),
        ("dropped_random", counters.dropped_random.packets),
        ("dropped_gilbert_elliott", counters.dropped_gilbert_elliott.packets),
        ("dropped_listed", counters.dropped_listed.packets),
        ("dropped_down", counters.dropped_down.packets),
        ("dropped_too_large", counters.dropped_too_large.packets),
        ("duplicated", counters.duplicated.packets),
        ("reordered", counters.reordered.packets),
    ];
    // In the order of the command's JSON.
    let effects: BTreeMap<_, _> = counters.effects_by_name().collect();
    all.extend(effects.into_iter().map(|(name, tally)| (name, tally.packets)));
    all.push(("max_queue_packets", counters.max_queue.packets));
    all.push(("max_queue_bytes", counters.max_queue.bytes));
    all
}

/// The links of a run.
struct Links(Option<Rows>);

impl Links {
    fn add(&mut self, condition: &str, scheduler: &str, link: &LinkReport) {
        let counters = counters(link);
        let rows = self.0.get_or_insert_with(|| {
            let mut columns: Vec<Column> =
                ["condition", "scheduler", "link"].map(|name| Column::new(name, Kind::Text)).into();
            columns.extend(counters.iter().map(|(name, _)| Column::new(*name, Kind::Integer)));
            columns.push(Column::new("busy_s", Kind::Number));
            Rows::new(&columns)
        });
        let mut cells = vec![Cell::Text(condition), Cell::Text(scheduler), Cell::Text(&link.name)];
        let count = |count: u64| i64::try_from(count).map_or(Cell::Missing, Cell::Integer);
        cells.extend(counters.iter().map(|(_, number)| count(*number)));
        cells.push(Cell::Number(link.busy.as_secs_f64()));
        rows.push(cells);
    }
}

/// Simulates each contender once; returns the flows and the links.
#[pyfunction]
#[pyo3(signature = (document, contenders, *, run, jobs, every_path, progress))]
pub(crate) fn run(
    py: Python<'_>,
    document: &Bound<'_, Document>,
    contenders: Contenders<'_>,
    run: Option<u32>,
    jobs: usize,
    every_path: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(Table, Table)> {
    let control = Arc::new(Control::default());
    let scenario = document.get().scenario(py, &contenders, &control)?;
    if let Some(run) = run.filter(|run| *run >= scenario.runs) {
        let last = scenario.runs - 1;
        return Err(PyIndexError::new_err(format!("there is no run {run}; the runs are 0 to {last}")));
    }
    let results = work(py, &control, progress.as_ref(), |cancelled, progress| {
        single_runs(&scenario, &Options { jobs, cancelled, progress, captures: None, every_path }, run)
    })?;
    let (results, _) = results.map_err(|error| errors::run(py, &error))?;
    let (mut flows, mut links) = (Samples::new(&scenario), Links(None));
    for (job, result) in &results {
        flows.add(&scenario, job, result);
        let (condition, scheduler) = (&scenario.conditions[job.condition].name, job.name(&scenario));
        result.links.iter().for_each(|link| links.add(condition, &scheduler, link));
    }
    let links = links.0.unwrap_or_else(|| Rows::new(&[]));
    Ok((flows.finish()?, links.finish()?))
}
