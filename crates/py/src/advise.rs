//! Advice.

use std::sync::Arc;

use anabranch_cli::texts;
use anabranch_lab::advise as lab;
use anabranch_lab::advise::{AdviceError, Options};
use pyo3::prelude::*;

use crate::compare::json;
use crate::errors;
use crate::scenario::Document;
use crate::work::{Control, work};

/// Advice.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Advice {
    #[pyo3(get)]
    text: String,
    advice: lab::Advice,
}

#[pymethods]
impl Advice {
    /// The object of `advise --json`.
    fn json(&self) -> PyResult<String> {
        json(&self.advice)
    }
}

/// Seeks advice for a scenario.
#[pyfunction]
#[pyo3(signature = (document, *, condition, margins, jobs))]
pub(crate) fn advise(
    py: Python<'_>,
    document: &Bound<'_, Document>,
    condition: Option<String>,
    margins: bool,
    jobs: usize,
) -> PyResult<Advice> {
    let control = Arc::new(Control::default());
    let document = document.get().document();
    let result = work(py, &control, None, |cancelled, _| {
        let options =
            Options { jobs, cancelled, progress: &|_| (), condition: condition.as_deref(), margins };
        lab::advise(document, &options)
    })?;
    let advice = result.map_err(|error| match error {
        AdviceError::Scenario(error) => errors::scenario(py, &error),
        AdviceError::Run(error) => errors::run(py, &error),
    })?;
    Ok(Advice { text: texts::advice(&advice), advice })
}
