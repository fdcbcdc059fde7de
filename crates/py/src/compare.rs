//! Comparisons.

use std::sync::Arc;

use anabranch_lab::compare as lab;
use anabranch_lab::compare::compare_each;
use anabranch_lab::options::Options;
use anabranch_lab::report::verdict::Outcome;
use anabranch_lab::samples::Layout;
use anabranch_lab::scenario::Scenario;
use anabranch_lab::sweep::PointResult;
use anabranch_show::texts;
use pyo3::prelude::*;

use crate::errors;
use crate::scenario::{Contenders, Document};
use crate::sweep;
use crate::table::{Rows, Table};
use crate::work::{Control, work};

/// The result of a comparison.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Comparison {
    #[pyo3(get)]
    samples: Option<Py<Table>>,
    /// A row for each condition and contender.
    #[pyo3(get)]
    table: Py<Table>,
    #[pyo3(get)]
    text: String,
    #[pyo3(get)]
    complete: bool,
    comparison: lab::Comparison,
}

#[pymethods]
impl Comparison {
    /// The object of `compare --json`.
    fn json(&self) -> PyResult<String> {
        json(&self.comparison)
    }
}

impl Comparison {
    /// Returns the comparison of `scenario`, with a row for each flow if there are `samples`.
    pub(crate) fn new(
        py: Python<'_>,
        scenario: &Scenario,
        comparison: lab::Comparison,
        samples: Option<Table>,
    ) -> PyResult<Comparison> {
        let rows = PointResult::new(0, &comparison);
        Ok(Comparison {
            samples: samples.map(|samples| Py::new(py, samples)).transpose()?,
            table: Py::new(py, sweep::comparison_table(&rows)?)?,
            text: texts::comparison(scenario, &comparison),
            complete: comparison.verdicts.iter().all(|verdict| verdict.outcome != Outcome::Incomplete),
            comparison,
        })
    }
}

/// Returns `value` as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))
}

/// Compares the contenders of a scenario.
#[pyfunction]
#[pyo3(signature = (document, contenders, *, jobs, samples, every_path, other_starts, progress))]
#[expect(clippy::too_many_arguments, reason = "these are the options of the command")]
pub(crate) fn compare(
    py: Python<'_>,
    document: &Bound<'_, Document>,
    contenders: Contenders<'_>,
    jobs: usize,
    samples: bool,
    every_path: bool,
    other_starts: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Comparison> {
    let control = Arc::new(Control::default());
    let mut scenario = document.get().scenario(py, &contenders, &control)?;
    scenario.other_starts &= other_starts;
    let mut flows = Samples::new(&scenario);
    let begun = std::time::Instant::now();
    let result = work(py, &control, progress.as_ref(), |cancelled, progress| {
        let options = Options { jobs, cancelled, progress, captures: None, every_path, in_rounds: true };
        compare_each(&scenario, &options, &mut |job, result| {
            if samples {
                flows.add(&scenario, job, result);
            }
            Ok(())
        })
    })?;
    let mut comparison = result.map_err(|error| errors::run(py, &error))?;
    comparison.performance.wall_s = begun.elapsed().as_secs_f64();
    comparison.keep_fairness_that_applies();
    explain_refusals(&scenario, &mut comparison, &control);
    let samples = if samples { Some(flows.finish()?) } else { None };
    Comparison::new(py, &scenario, comparison, samples)
}

/// Adds the decisions that were refused to a verdict on flows that did not end: a later deadline would not help those.
fn explain_refusals(scenario: &Scenario, comparison: &mut lab::Comparison, control: &Control) {
    let refused = control.refused();
    let unfinished =
        |name: &String| comparison.rows.iter().any(|row| row.scheduler == *name && row.completed < row.n);
    let words = refused.iter().filter(|(name, _)| unfinished(name)).map(|(name, (count, why))| {
        format!(
            "\nOf {name}'s decisions {count} were refused, and counted as waiting; the first, because {why}."
        )
    });
    let words: String = words.collect();
    if !words.is_empty() {
        for condition in &scenario.conditions {
            let hint = anabranch_lab::report::later_deadline(condition.experiment.deadline);
            comparison.verdict = comparison.verdict.replace(&hint, "");
        }
        comparison.verdict.push_str(&words);
    }
}

/// Samples in memory: a row for each flow of each run.
pub(crate) struct Samples {
    layout: Layout,
    rows: Rows,
}

impl Samples {
    pub(crate) fn new(scenario: &anabranch_lab::scenario::Scenario) -> Samples {
        let layout = Layout::new(scenario);
        let rows = Rows::new(layout.columns());
        Samples { layout, rows }
    }

    /// Adds the flows of a run.
    pub(crate) fn add(
        &mut self,
        scenario: &anabranch_lab::scenario::Scenario,
        job: &anabranch_lab::job::Job,
        result: &anabranch_lab::run::RunResult,
    ) {
        let Samples { layout, rows } = self;
        let added: Result<(), core::convert::Infallible> = layout.rows(scenario, job, result, |row| {
            rows.push(row.iter().copied());
            Ok(())
        });
        match added {
            Ok(()) => {}
        }
    }

    pub(crate) fn finish(self) -> PyResult<Table> {
        self.rows.finish()
    }
}
