//! Claims of papers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_cli::{
    Failure, Jobs, Judged, MeasureError, Part, ReproduceRequest, ReproduceTask, ReproduceWatch, ReproducedRow,
};
use anabranch_lab::run::RunError;
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
        json(&self.judged.findings.iter().map(ReproducedRow::from).collect::<Vec<_>>())
    }

    /// The findings, as in `results.json`.
    fn findings(&self) -> PyResult<String> {
        json(&self.judged.findings)
    }
}

/// A reproduction whose measurements may be made elsewhere.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Reproducing {
    /// True if the text has a line for each claim.
    names: bool,
    /// None after the end.
    inner: Mutex<Option<anabranch_cli::Reproducing>>,
}

fn raised(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::Interrupted => PyKeyboardInterrupt::new_err(()),
        Failure::Usage(message) => errors::usage(py, &message),
        Failure::Failed(message) => errors::failed(py, &message),
        Failure::BrokenPipe => errors::failure(py, failure),
    }
}

impl Reproducing {
    fn inner(&self) -> MutexGuard<'_, Option<anabranch_cli::Reproducing>> {
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
        let request = ReproduceRequest {
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
            jobs: Jobs { jobs },
        };
        let inner = py.detach(|| anabranch_cli::Reproducing::open(request, &|_| ()));
        let inner = inner.map_err(|failure| raised(py, failure))?;
        Ok(Reproducing { names, inner: Mutex::new(Some(inner)) })
    }

    /// The measurements that the journal lacks for the next pass over the claims: for each the task as JSON, its number of
    /// runs, and about how many packets all of them send.
    fn needed(&self, py: Python<'_>) -> PyResult<Vec<(String, usize, f64)>> {
        let tasks = py.detach(|| self.inner().as_mut().map(anabranch_cli::Reproducing::needed));
        let tasks = tasks.ok_or_else(ended)?.map_err(|failure| raised(py, failure))?;
        tasks.iter().map(|task| Ok((json(task)?, task.runs, task.packets))).collect()
    }

    /// Adds a measurement whose parts [`simulate_part`] has made.
    fn add(&self, py: Python<'_>, task: &str, parts: Vec<String>) -> PyResult<()> {
        let task: ReproduceTask = parse(task)?;
        let parts = parts.iter().map(|part| parse(part)).collect::<PyResult<Vec<Part>>>()?;
        let joined = task.joined(parts).map_err(|error| measuring(py, &task, &error))?;
        let mut inner = self.inner();
        inner.as_mut().ok_or_else(ended)?.add(joined).map_err(|failure| raised(py, failure))
    }

    /// Makes the measurements that the journal lacks, judges the claims, or looks up their recorded verdicts.
    fn finish(&self, py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<Reproduction> {
        let inner = self.inner().take().ok_or_else(ended)?;
        let control = Arc::new(Control::default());
        let judged = work(py, &control, progress.as_ref(), |cancelled, progress| {
            let watch =
                ReproduceWatch { cancelled, progress: &|now| progress(now.done, now.total), remark: &|_| () };
            inner.finish(&watch)
        })?;
        let judged = judged.map_err(|failure| raised(py, failure))?;
        let text = texts::verdicts(&judged.papers, &judged.findings, self.names);
        Ok(Reproduction { text, changed: judged.changed.clone(), judged })
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| errors::argument(error.to_string()))
}

fn measuring(py: Python<'_>, task: &ReproduceTask, error: &MeasureError) -> PyErr {
    match error {
        MeasureError::Run(RunError::Cancelled) => PyKeyboardInterrupt::new_err(()),
        error => errors::failed(py, &format!("claim {}: {error}", task.claim)),
    }
}

/// Simulates the runs from `first` to before `last` of a measurement on one thread.
#[pyfunction]
pub(crate) fn simulate_part(py: Python<'_>, task: &str, first: usize, last: usize) -> PyResult<String> {
    let task: ReproduceTask = parse(task)?;
    let control = Arc::new(Control::default());
    let part = work(py, &control, None, |cancelled, _| task.part(first..last, cancelled))?;
    json(&part.map_err(|error| measuring(py, &task, &error))?)
}
