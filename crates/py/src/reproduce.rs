//! Claims of papers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_lab::run::RunError;
use anabranch_reproduce::measure::{MeasureError, RunsPart};
use anabranch_reproduce::reproduce::Task;
use anabranch_reproduce::session::{self, Judged, Request, Row, SessionError, Watch};
use anabranch_show::texts;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use crate::compare::json;
use crate::errors;
use crate::work::{Control, work};

/// The verdicts on claims.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Reproduction {
    #[pyo3(get)]
    text: String,
    /// With `quick` and `holding`: the verdicts that differ from the recorded ones, in words.
    #[pyo3(get)]
    changed: Option<String>,
    judged: Judged,
}

#[pymethods]
impl Reproduction {
    /// The list of `reproduce --json`.
    fn json(&self) -> PyResult<String> {
        json(&self.judged.findings.iter().map(Row::from).collect::<Vec<_>>())
    }

    /// The findings, as in `results.json`.
    fn findings(&self) -> PyResult<String> {
        json(&self.judged.findings)
    }
}

/// A reproduction; its measurements may be made elsewhere.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Reproducing {
    /// True if the text has a line for each claim.
    names: bool,
    /// None after the end.
    inner: Mutex<Option<session::Reproducing>>,
}

fn raised(py: Python<'_>, error: SessionError) -> PyErr {
    match error {
        SessionError::Interrupted => PyKeyboardInterrupt::new_err(()),
        SessionError::Usage(message) => errors::usage(py, &message),
        SessionError::Failed(message) => errors::failed(py, &message),
    }
}

impl Reproducing {
    fn inner(&self) -> MutexGuard<'_, Option<session::Reproducing>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended() -> PyErr {
    PyRuntimeError::new_err("this reproduction has ended")
}

#[pymethods]
impl Reproducing {
    /// Reads the papers, and opens the journal in `out`.
    #[new]
    #[pyo3(signature = (paper, *, from_, figure, table, claim, quick, full, holding, plain, out, any_build, list, seed, jobs))]
    #[expect(clippy::too_many_arguments, reason = "these are the options of the command")]
    fn new(
        py: Python<'_>,
        paper: Option<String>,
        from_: Option<std::path::PathBuf>,
        figure: Option<String>,
        table: Option<String>,
        claim: Vec<String>,
        quick: bool,
        full: bool,
        holding: bool,
        plain: bool,
        out: Option<std::path::PathBuf>,
        any_build: bool,
        list: bool,
        seed: Option<u64>,
        jobs: usize,
    ) -> PyResult<Reproducing> {
        let names = paper.is_some() || list;
        let request = Request {
            paper,
            from: from_,
            figure,
            table,
            claim,
            quick,
            full,
            holding,
            plain,
            out,
            any_build,
            list,
            seed,
            jobs,
        };
        let inner = py.detach(|| session::Reproducing::open(request, crate::commit(), &|_| ()));
        let inner = inner.map_err(|error| raised(py, error))?;
        Ok(Reproducing { names, inner: Mutex::new(Some(inner)) })
    }

    /// The measurements that the journal lacks for the next pass over the claims: for each the task as JSON, its number of
    /// runs, and about how many packets all of them send.
    fn needed(&self, py: Python<'_>) -> PyResult<Vec<(String, usize, f64)>> {
        let tasks = py.detach(|| self.inner().as_mut().map(session::Reproducing::needed));
        let tasks = tasks.ok_or_else(ended)?.map_err(|error| raised(py, error))?;
        tasks.iter().map(|task| Ok((json(task)?, task.runs, task.packets))).collect()
    }

    /// Adds a measurement from the parts that [`simulate_part`] has made.
    fn add(&self, py: Python<'_>, task: &str, parts: Vec<String>) -> PyResult<()> {
        let task: Task = parse(task)?;
        let parts = parts.iter().map(|part| parse(part)).collect::<PyResult<Vec<RunsPart>>>()?;
        let joined = task.joined(parts).map_err(|error| measuring(py, &task, &error))?;
        let mut inner = self.inner();
        inner.as_mut().ok_or_else(ended)?.add(joined).map_err(|error| raised(py, error))
    }

    /// Makes the measurements that the journal lacks, judges the claims, or looks up their recorded verdicts.
    fn finish(&self, py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<Reproduction> {
        let inner = self.inner().take().ok_or_else(ended)?;
        let control = Arc::new(Control::default());
        let judged = work(py, &control, progress.as_ref(), |cancelled, progress| {
            let watch = Watch { cancelled, progress: &|now| progress(now.done, now.total), remark: &|_| () };
            inner.finish(&watch)
        })?;
        let judged = judged.map_err(|error| raised(py, error))?;
        let text = texts::verdicts(&judged.papers, &judged.findings, self.names);
        Ok(Reproduction { text, changed: judged.changed.clone(), judged })
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| errors::argument(error.to_string()))
}

fn measuring(py: Python<'_>, task: &Task, error: &MeasureError) -> PyErr {
    match error {
        MeasureError::Run(RunError::Cancelled) => PyKeyboardInterrupt::new_err(()),
        error => errors::failed(py, &format!("claim {}: {error}", task.claim)),
    }
}

/// Simulates the runs from `first` to before `last` of a measurement on one thread.
#[pyfunction]
pub(crate) fn simulate_part(py: Python<'_>, task: &str, first: usize, last: usize) -> PyResult<String> {
    let task: Task = parse(task)?;
    let control = Arc::new(Control::default());
    let part = work(py, &control, None, |cancelled, _| task.part(first..last, cancelled))?;
    json(&part.map_err(|error| measuring(py, &task, &error))?)
}
