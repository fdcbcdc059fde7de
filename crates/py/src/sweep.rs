//! Sweeps.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_lab::output::Origin;
use anabranch_lab::sweep::{
    self, Columns, Directory, Options, PointResult, Shard, result_cells, result_columns, simulate_point,
};
use anabranch_show::texts;
use anabranch_table::Format;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::compare::json;
use crate::errors;
use crate::scenario::{self, Contenders, Document};
use crate::scheduler::Contender;
use crate::table::{Rows, Table};
use crate::work::{Control, work};

/// A plan: a scenario, and the values that its keys take.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Plan {
    plan: Arc<sweep::Plan>,
    /// The settings and the number of runs that were given apart from the plan's text.
    settings: Vec<String>,
    runs: Option<u32>,
    /// Contenders in Python.
    contenders: Arc<[Py<Contender>]>,
}

/// Returns the plan with its contenders in Python. Their exceptions stop the work of `control`.
fn amended(
    plan: &Arc<sweep::Plan>,
    contenders: &Arc<[Py<Contender>]>,
    control: &Arc<Control>,
) -> Arc<sweep::Plan> {
    if contenders.is_empty() {
        return plan.clone();
    }
    let (contenders, control) = (contenders.clone(), control.clone());
    let mut plan = sweep::Plan::clone(plan);
    plan.set_amendment(move |scenario| {
        Python::attach(|py| {
            for contender in contenders.iter() {
                let name = contender.get().name();
                if !scenario::install(py, contender.get(), &control, scenario) {
                    control.stop(errors::argument(format!("there is no contender `{name}`")));
                }
            }
        });
    });
    Arc::new(plan)
}

#[pymethods]
impl Plan {
    /// Reads the plan `text`, called `name` in errors. `document` has its scenario; without one it is a built-in
    /// scenario or a file in `directory`.
    #[new]
    #[pyo3(signature = (name, text, directory, document=None, settings=Vec::new(), runs=None, contenders=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "these are the parts of a plan")]
    fn new(
        py: Python<'_>,
        name: &str,
        text: &str,
        directory: &str,
        document: Option<Bound<'_, Document>>,
        settings: Vec<String>,
        runs: Option<u32>,
        contenders: Contenders<'_>,
    ) -> PyResult<Plan> {
        if runs == Some(0) {
            return Err(errors::argument("0 runs have no result; give at least 1"));
        }
        let plan = match document {
            Some(document) => sweep::Plan::of_document(name, text, document.get().document().clone()),
            None => sweep::Plan::parse(name, text, directory),
        };
        let plan = plan.and_then(|mut plan| {
            settings.iter().try_for_each(|assignment| plan.set(assignment))?;
            if let Some(runs) = runs {
                plan.set_runs(runs);
            }
            plan.check()?;
            Ok(plan)
        });
        let plan = plan.map_err(|error| errors::scenario(py, &error))?;
        let contenders = contenders.into_iter().map(Bound::unbind).collect();
        Ok(Plan { plan: Arc::new(plan), settings, runs, contenders })
    }

    fn __len__(&self) -> usize {
        self.plan.points()
    }

    /// The TOML of the plan, as it was given.
    #[getter]
    fn text(&self) -> &str {
        self.plan.text()
    }

    /// The columns of the varied values.
    #[getter]
    fn dimensions(&self) -> Vec<String> {
        Columns::new(&self.plan).varied().iter().map(|column| column.name.clone()).collect()
    }

    /// The values of point number `number`, as they are written in TOML.
    fn point(&self, number: usize) -> PyResult<Vec<String>> {
        match number < self.plan.points() {
            true => Ok(self.plan.point(number).values),
            false => Err(errors::missing(format!("there is no point {number}"))),
        }
    }

    /// Simulates `points` on one thread; returns a line of the journal for each. Decisions that were refused are added to the
    /// list `refused`, as scheduler, number and reason, or without a list are warnings.
    #[pyo3(signature = (points, refused=None))]
    fn simulate(
        &self,
        py: Python<'_>,
        points: Vec<usize>,
        refused: Option<Bound<'_, PyList>>,
    ) -> PyResult<Vec<String>> {
        for number in &points {
            self.point(*number)?;
        }
        let control = Arc::new(Control::new(refused.is_some()));
        let plan = amended(&self.plan, &self.contenders, &control);
        let simulate = |cancelled: &AtomicBool| {
            points.iter().map(|number| simulate_point(&plan, *number, 1, cancelled)).collect()
        };
        let results: Result<Vec<PointResult>, _> =
            work(py, &control, None, |cancelled, _| simulate(cancelled))?;
        for (name, (count, why)) in control.refused() {
            if let Some(list) = &refused {
                list.append((name, count, why))?;
            }
        }
        results.map_err(|error| errors::sweep(py, &error))?.iter().map(json).collect()
    }
}

/// A sweep, and its directory.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Sweep {
    plan: Arc<sweep::Plan>,
    contenders: Arc<[Py<Contender>]>,
    directory: Directory,
    /// None once it is closed.
    journal: Mutex<Option<sweep::Journal>>,
}

/// Returns the journal of a sweep that is not closed.
fn opened(journal: &mut Option<sweep::Journal>) -> PyResult<&mut sweep::Journal> {
    journal.as_mut().ok_or_else(|| errors::argument("this sweep is closed"))
}

impl Sweep {
    fn journal(&self) -> MutexGuard<'_, Option<sweep::Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Sweep {
    /// Opens the directory `path`, in which an interrupted sweep continues.
    #[new]
    fn new(py: Python<'_>, plan: &Bound<'_, Plan>, path: &str, format: &str) -> PyResult<Sweep> {
        let Some(format) = Format::ALL.into_iter().find(|one| one.name() == format) else {
            let names = Format::ALL.map(Format::name).join(", ");
            return Err(errors::argument(format!("`{format}` is not a format; there are {names}")));
        };
        let Plan { plan, settings, runs, contenders } = plan.get();
        let origin = Origin { commit: crate::commit(), command: Vec::new() };
        let opened = Directory::open(Path::new(path), plan, format, origin).and_then(|directory| {
            let journal = directory.journal(plan, settings, *runs)?;
            Ok((directory, journal))
        });
        let (directory, journal) = opened.map_err(|error| errors::directory(py, &error.to_string()))?;
        if let Some(damage) = journal.damage() {
            let text = format!("{damage}; the points of damaged lines are simulated again");
            py.import("warnings")?.call_method1("warn", (text, py.None(), 2))?;
        }
        Ok(Sweep {
            plan: plan.clone(),
            contenders: contenders.clone(),
            directory,
            journal: Mutex::new(Some(journal)),
        })
    }

    /// The points that are not done.
    #[getter]
    fn missing(&self) -> PyResult<Vec<usize>> {
        let mut journal = self.journal();
        let journal = opened(&mut journal)?;
        Ok((0..self.plan.points()).filter(|point| !journal.has(*point)).collect())
    }

    /// Simulates the missing points on `jobs` threads.
    fn run(&self, py: Python<'_>, jobs: usize, progress: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let control = Arc::new(Control::default());
        let plan = amended(&self.plan, &self.contenders, &control);
        let begun = self.directory.begin(&self.plan, opened(&mut self.journal())?);
        begun.map_err(|error| errors::directory(py, &error.to_string()))?;
        let result = work(py, &control, progress.as_ref(), |cancelled, progress| {
            let options = Options { jobs, cancelled, progress, shard: Shard::default() };
            match &mut *self.journal() {
                Some(journal) => sweep::sweep(&plan, journal, &options),
                None => Ok(()),
            }
        });
        let failed = !matches!(result, Ok(Ok(())));
        if failed {
            let ended = self.directory.end(&self.plan, opened(&mut self.journal())?, false);
            ended.map_err(|error| errors::directory(py, &error.to_string()))?;
        }
        result?.map_err(|error| errors::sweep(py, &error))
    }

    /// Adds a point that [`Plan::simulate`] has simulated; `check` compares the hash of its scenario, which takes longer than
    /// all else here.
    #[pyo3(signature = (line, *, check=false))]
    fn add(&self, py: Python<'_>, line: &str, check: bool) -> PyResult<()> {
        let result: PointResult =
            serde_json::from_str(line).map_err(|error| errors::argument(error.to_string()))?;
        if result.point >= self.plan.points() {
            return Err(errors::missing(format!("there is no point {}", result.point)));
        }
        if check {
            let expected = self.plan.scenario(&self.plan.point(result.point));
            if expected.map_err(|error| errors::scenario(py, &error))?.hash() != result.scenario_hash {
                let text = format!("point {} is the result of another scenario", result.point);
                return Err(errors::argument(text));
            }
        }
        let mut journal = self.journal();
        let journal = opened(&mut journal)?;
        match journal.has(result.point) {
            true => Ok(()),
            false => journal.add(&result).map_err(|error| errors::journal(py, &error)),
        }
    }

    /// Closes the journal, so that another sweep may continue in the directory: a traceback may keep this object.
    fn close(&self) {
        *self.journal() = None;
    }

    /// Writes the table, if all points are done, and returns it, the summary as JSON, and the text.
    fn finish(&self, py: Python<'_>) -> PyResult<(Table, String, String)> {
        let mut journal = self.journal();
        let journal = opened(&mut journal)?;
        let summary = self
            .directory
            .finish(&self.plan, journal)
            .map_err(|error| errors::directory(py, &error.to_string()))?;
        let columns = Columns::new(&self.plan);
        let mut rows = Rows::new(columns.all());
        for result in journal.results() {
            let result = result.map_err(|error| errors::journal(py, &error))?;
            let added: Result<(), core::convert::Infallible> = columns.rows(&self.plan, &result, |row| {
                rows.push(row.iter().copied());
                Ok(())
            });
            match added {
                Ok(()) => {}
            }
        }
        let text = texts::sweep(&self.plan, journal, &summary);
        let text = text.map_err(|error| errors::journal(py, &error))?;
        Ok((rows.finish()?, json(&summary)?, text))
    }
}

/// The rows of one comparison, in the columns of a sweep's table without a point.
pub(crate) fn comparison_table(result: &PointResult) -> PyResult<Table> {
    let mut rows = Rows::new(&result_columns());
    for row in &result.rows {
        rows.push(result_cells(result, row));
    }
    rows.finish()
}
