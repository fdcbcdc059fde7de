//! Captures of real connections.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anabranch_inspect as captures;
use anabranch_inspect::ConnectionReport;
use anabranch_inspect::capture::{Merged, Reader};
use anabranch_inspect::scenario::Draft;
use anabranch_lab::inspected;
use anabranch_lab::options::Options;
use anabranch_show::texts;
use pyo3::prelude::*;

use crate::compare::{Comparison, json};
use crate::errors;
use crate::work::{Control, work};

/// The connections of captures.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Inspection {
    #[pyo3(get)]
    text: String,
    inspection: captures::Inspection,
}

/// The simulation of a connection.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Simulation {
    #[pyo3(get)]
    text: String,
    #[pyo3(get)]
    comparison: Py<Comparison>,
    simulation: inspected::Simulation,
}

#[pymethods]
impl Inspection {
    /// The object of `inspect --json`.
    fn json(&self) -> PyResult<String> {
        json(&self.inspection)
    }

    /// The scenario of a connection as TOML.
    #[pyo3(signature = (connection, *, scheduler, congestion))]
    fn scenario(
        &self,
        py: Python<'_>,
        connection: Option<usize>,
        scheduler: Option<String>,
        congestion: Option<String>,
    ) -> PyResult<String> {
        let connection = self.connection(py, connection)?;
        Ok(self.draft(py, connection, scheduler, congestion)?.toml)
    }
}

impl Inspection {
    /// Returns the connection of a number, or the one with most data.
    fn connection(&self, py: Python<'_>, number: Option<usize>) -> PyResult<&ConnectionReport> {
        let all = &self.inspection.connections;
        let found = match number {
            Some(number) => all.iter().find(|connection| connection.number == number),
            None => inspected::chosen(&self.inspection),
        };
        found.ok_or_else(|| match number {
            Some(number) => {
                errors::missing(format!("there is no connection {number}; the captures have {}", all.len()))
            }
            None => errors::capture(py, "the captures have no connection", None, None),
        })
    }

    fn draft(
        &self,
        py: Python<'_>,
        connection: &ConnectionReport,
        scheduler: Option<String>,
        congestion: Option<String>,
    ) -> PyResult<Draft> {
        let draft =
            inspected::draft(&self.inspection, connection, scheduler.as_deref(), congestion.as_deref());
        draft.map_err(|error| errors::capture(py, &error.to_string(), None, None))
    }
}

#[pymethods]
impl Simulation {
    /// The object of `inspect --simulate --json`.
    fn json(&self) -> PyResult<String> {
        json(&self.simulation)
    }
}

/// Reads captures to their end.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<Inspection> {
    let mut readers = Vec::new();
    for path in &files {
        let name = path.display().to_string();
        let file = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(std::io::ErrorKind::IsADirectory.into()),
            false => Ok(file),
        });
        let help = "give a file of `tcpdump -w`";
        let file = file.map_err(|error| {
            let text = format!("cannot read the capture {name}: {error}; {help}");
            errors::capture(py, &text, Some(&name), Some(help))
        })?;
        readers.push(Reader::new(&name, Box::new(file)).map_err(|fault| errors::fault(py, &fault))?);
    }
    let control = Arc::new(Control::default());
    let mut merged = Merged::new(readers);
    let result = work(py, &control, None, |cancelled, _| {
        captures::Inspector::inspect(&mut merged, |_| !cancelled.load(Ordering::Relaxed))
    })?;
    let mut inspection = result.map_err(|fault| errors::fault(py, &fault))?;
    inspection.commit = crate::commit();
    Ok(Inspection { text: texts::inspection(&inspection), inspection })
}

/// Simulates a connection of captures.
#[pyfunction]
#[pyo3(signature = (inspection, connection, *, scheduler, congestion, jobs, progress))]
pub(crate) fn simulate(
    py: Python<'_>,
    inspection: &Bound<'_, Inspection>,
    connection: Option<usize>,
    scheduler: Option<String>,
    congestion: Option<String>,
    jobs: usize,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Simulation> {
    let inspection = inspection.get();
    let connection = inspection.connection(py, connection)?;
    let draft = inspection.draft(py, connection, scheduler, congestion)?;
    let control = Arc::new(Control::default());
    let result = work(py, &control, progress.as_ref(), |cancelled, progress| {
        inspected::simulate(connection, &draft, &Options::new(jobs, cancelled, progress))
    })?;
    let (mut simulation, scenario) = result.map_err(|error| errors::run(py, &error))?;
    simulation.comparison.keep_fairness_that_applies();
    let text = texts::simulation(&scenario, &simulation);
    let comparison = Comparison::new(py, &scenario, simulation.comparison.clone(), None)?;
    Ok(Simulation { text, comparison: Py::new(py, comparison)?, simulation })
}
