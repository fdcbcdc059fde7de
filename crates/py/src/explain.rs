//! Explanations.

use std::sync::Arc;

use anabranch_lab::explain as lab;
use anabranch_lab::explain::{Explicable, Question, TimePart};
use anabranch_lab::options::Options;
use anabranch_show::texts;
use anabranch_table::{Cell, Column, Kind};
use pyo3::prelude::*;

use crate::compare::json;
use crate::errors;
use crate::scenario::{Contenders, Document};
use crate::table::{Rows, Table};
use crate::work::{Control, work};

/// Where the time of the flows of a scenario went.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Explanation {
    #[pyo3(get)]
    text: String,
    /// The text about the time of a byte.
    #[pyo3(get)]
    bytes_text: String,
    /// A row for each condition, contender and cause.
    #[pyo3(get)]
    table: Py<Table>,
    explanation: lab::Explanation,
}

#[pymethods]
impl Explanation {
    /// The object of `explain --json`.
    fn json(&self) -> PyResult<String> {
        json(&self.explanation)
    }
}

/// Returns a row for each condition, contender and cause.
fn parts(explanation: &lab::Explanation) -> PyResult<Table> {
    let text = |name: &str| Column::new(name, Kind::Text);
    let number = |name: &str| Column::new(name, Kind::Number);
    let columns = [
        text("condition"),
        text("scheduler"),
        text("cause"),
        number("mean_s"),
        number("share_pct"),
        number("byte_mean_s"),
        number("byte_share_pct"),
    ];
    let mut rows = Rows::new(&columns);
    for row in &explanation.rows {
        let byte = |part: &TimePart| row.bytes.iter().find(|other| other.cause == part.cause);
        for part in &row.parts {
            let cause = serde_json::to_value(part.cause).unwrap_or_default();
            rows.push([
                Cell::Text(&row.of.condition),
                Cell::Text(&row.of.scheduler),
                Cell::from(cause.as_str()),
                Cell::Number(part.mean_s),
                Cell::Number(part.share_pct),
                Cell::from(byte(part).map(|part| part.mean_s)),
                Cell::from(byte(part).map(|part| part.share_pct)),
            ]);
        }
    }
    rows.finish()
}

/// Explains the flows of every contender.
#[pyfunction]
#[pyo3(signature = (document, contenders, *, flow, changes, jobs, progress))]
pub(crate) fn explain(
    py: Python<'_>,
    document: &Bound<'_, Document>,
    contenders: Contenders<'_>,
    flow: Option<usize>,
    changes: bool,
    jobs: usize,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Explanation> {
    let control = Arc::new(Control::default());
    let scenario = document.get().scenario(py, &contenders, &control)?;
    let explicable = Explicable::new(&scenario).map_err(|error| errors::scenario(py, &error))?;
    if flow == Some(0) {
        return Err(errors::missing("there is no flow 0: flows are counted from 1"));
    }
    lab::check_flow(flow, &scenario).map_err(errors::missing)?;
    let result = work(py, &control, progress.as_ref(), |cancelled, progress| {
        lab::explain(explicable, Question { flow, changes }, &Options::new(jobs, cancelled, progress))
    })?;
    let explanation = result.map_err(|error| errors::run(py, &error))?;
    Ok(Explanation {
        text: texts::explanation(&scenario, &explanation, false),
        bytes_text: texts::explanation(&scenario, &explanation, true),
        table: Py::new(py, parts(&explanation)?)?,
        explanation,
    })
}
