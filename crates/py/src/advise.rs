//! Advice.

use std::sync::Arc;

use anabranch_lab::advise as lab;
use anabranch_lab::advise::{AdviceError, Application, Options};
use anabranch_show::texts;
use pyo3::prelude::*;

use crate::compare::json;
use crate::errors;
use crate::scenario::Document;
use crate::work::{Control, work};

/// Advice for a scenario: its text and its JSON.
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
#[pyo3(signature = (document, *, condition, margins, min_gain, application, jobs))]
pub(crate) fn advise(
    py: Python<'_>,
    document: &Bound<'_, Document>,
    condition: Option<String>,
    margins: bool,
    min_gain: f64,
    application: String,
    jobs: usize,
) -> PyResult<Advice> {
    let application = match application.as_str() {
        "kernel" => Application::Kernel,
        "anabranch" => Application::Anabranch,
        other => {
            let message = format!("application is \"kernel\" or \"anabranch\", not {other:?}");
            return Err(pyo3::exceptions::PyValueError::new_err(message));
        }
    };
    let control = Arc::new(Control::default());
    let document = document.get().document();
    let result = work(py, &control, None, |cancelled, _| {
        let options = Options {
            jobs,
            cancelled,
            progress: &|_| (),
            condition: condition.as_deref(),
            margins,
            min_gain,
            application,
        };
        lab::advise(document, &options)
    })?;
    let advice = result.map_err(|error| match error {
        AdviceError::Scenario(error) => errors::scenario(py, &error),
        AdviceError::Run(error) => errors::run(py, &error),
    })?;
    Ok(Advice { text: texts::advice(&advice), advice })
}
