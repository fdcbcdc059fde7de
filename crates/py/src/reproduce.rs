//! Claims of papers.

use std::sync::Arc;

use anabranch_cli::{
    Failure, Jobs, Judged, ReproduceRequest, ReproduceWatch, ReproducedRow, reproduce, texts,
};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

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

/// Judges claims, or looks up their recorded verdicts.
#[pyfunction]
#[pyo3(signature = (paper, *, from_, figure, table, claim, quick, full, holding, plain, out, any_build, list, seed, jobs, progress))]
#[expect(clippy::too_many_arguments, reason = "these are the options of the command")]
pub(crate) fn reproduce_claims(
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
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Reproduction> {
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
    let control = Arc::new(Control::default());
    let judged = work(py, &control, progress.as_ref(), |cancelled, progress| {
        let watch =
            ReproduceWatch { cancelled, progress: &|now| progress(now.done, now.total), remark: &|_| () };
        reproduce(&request, &watch)
    })?;
    let judged = judged.map_err(|failure| match failure {
        Failure::Interrupted => PyKeyboardInterrupt::new_err(()),
        Failure::Usage(message) => errors::usage(py, &message),
        Failure::Failed(message) => errors::failed(py, &message),
        Failure::BrokenPipe => errors::failure(py, failure),
    })?;
    let text = texts::verdicts(&judged.papers, &judged.findings, names);
    Ok(Reproduction { text, changed: judged.changed.clone(), judged })
}
