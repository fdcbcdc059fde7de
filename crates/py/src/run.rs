//! Single runs.

use std::sync::Arc;

use anabranch_lab::compare::single_runs_recorded;
use anabranch_lab::options::Options;
use anabranch_lab::output::{LinkCounters, Runs};
use anabranch_lab::recording::Recording;
use anabranch_show::texts;
use anabranch_table::{Cell, Column, Kind};
use pyo3::prelude::*;

use crate::compare::{Samples, json};
use crate::errors;
use crate::recording;
use crate::scenario::{Contenders, Document};
use crate::table::{Rows, Table};
use crate::work::{Control, work};

/// Returns a row for each link and contender.
fn links(links: &[LinkCounters]) -> PyResult<Table> {
    let mut columns: Vec<Column> =
        ["condition", "scheduler", "link"].map(|name| Column::new(name, Kind::Text)).into();
    let names = links.iter().take(1).flat_map(|link| link.counters.by_name());
    columns.extend(names.map(|(name, _)| Column::new(name, Kind::Integer)));
    columns.push(Column::new("busy_s", Kind::Number));
    let mut rows = Rows::new(&columns);
    for link in links {
        let mut cells =
            vec![Cell::Text(&link.condition), Cell::Text(&link.scheduler), Cell::Text(&link.link)];
        let count = |count: u64| i64::try_from(count).map_or(Cell::Missing, Cell::Integer);
        cells.extend(link.counters.by_name().map(|(_, number)| count(number)));
        cells.push(Cell::Number(link.busy_s));
        rows.push(cells);
    }
    rows.finish()
}

/// The result of a run of each contender.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Run {
    /// A row for each flow.
    #[pyo3(get)]
    flows: Py<Table>,
    /// A row for each link and contender.
    #[pyo3(get)]
    links: Py<Table>,
    #[pyo3(get)]
    text: String,
    runs: Runs,
}

#[pymethods]
impl Run {
    /// The object of `run --json`.
    fn json(&self) -> PyResult<String> {
        json(&self.runs)
    }
}

/// Simulates each contender once, and records the runs if there are options for it.
#[pyfunction]
#[pyo3(signature = (document, contenders, *, run, jobs, every_path, record, progress))]
#[expect(clippy::too_many_arguments, reason = "these are the options of the command")]
pub(crate) fn run(
    py: Python<'_>,
    document: &Bound<'_, Document>,
    contenders: Contenders<'_>,
    run: Option<u32>,
    jobs: usize,
    every_path: bool,
    record: Option<recording::Options>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Run> {
    let control = Arc::new(Control::default());
    let scenario = document.get().scenario(py, &contenders, &control)?;
    if let Some(run) = run.filter(|run| *run >= anabranch_lab::rounds::most_runs(&scenario)) {
        let last = anabranch_lab::rounds::most_runs(&scenario) - 1;
        return Err(errors::missing(format!("there is no run {run}; the runs are 0 to {last}")));
    }
    let directory =
        record.as_ref().map(|options| recording::create(py, options, &scenario, run)).transpose()?;
    let recorder = directory.as_ref().map(|directory| directory as &dyn Recording);
    let results = work(py, &control, progress.as_ref(), |cancelled, progress| {
        let options = Options { jobs, cancelled, progress, captures: None, every_path, in_rounds: false };
        single_runs_recorded(&scenario, &options, run, recorder)
    });
    if let Some(directory) = &directory {
        match &results {
            Ok(Ok(_)) => directory.finish().map_err(|error| errors::failed(py, &error.to_string()))?,
            Ok(Err(error)) => directory.give_up(&error.to_string()),
            Err(error) => directory.give_up(&error.to_string()),
        }
    }
    let (results, cost) = results?.map_err(|error| errors::run(py, &error))?;
    let mut flows = Samples::new(&scenario);
    for (job, result) in &results {
        flows.add(&scenario, job, result);
    }
    let runs = Runs::new(&scenario, &results, run, cost);
    Ok(Run {
        flows: Py::new(py, flows.finish()?)?,
        links: Py::new(py, links(&runs.links)?)?,
        text: texts::runs(&scenario, &runs),
        runs,
    })
}
