//! Scenario files.

use std::sync::Arc;

use anabranch_lab::ScenarioError;
use anabranch_lab::network::path_names;
use anabranch_lab::scenario::{self, Direction, Scenario, library};
use pyo3::prelude::*;

use crate::errors;
use crate::scheduler::Contender;
use crate::work::Control;

/// A scenario file with changes; immutable.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Document {
    document: scenario::Document,
}

/// The properties of a valid scenario.
#[pyclass(frozen, get_all, module = "anabranch._anabranch")]
pub(crate) struct Summary {
    name: String,
    description: String,
    runs: u32,
    seed: u64,
    hash: String,
    canonical: String,
    contenders: Vec<String>,
    conditions: Vec<String>,
    paths: Vec<String>,
    profile: &'static str,
    direction: &'static str,
    bulk: bool,
    flows: u32,
    warnings: Vec<String>,
}

fn wrap(py: Python<'_>, result: Result<scenario::Document, ScenarioError>) -> PyResult<Document> {
    result.map(|document| Document { document }).map_err(|error| errors::scenario(py, &error))
}

/// Contenders with schedulers in Python.
pub(crate) type Contenders<'py> = Vec<Bound<'py, Contender>>;

impl Document {
    pub(crate) fn document(&self) -> &scenario::Document {
        &self.document
    }

    /// Returns the scenario. `contenders` replace the scenario's contenders of the same names.
    pub(crate) fn scenario(
        &self,
        py: Python<'_>,
        contenders: &Contenders<'_>,
        control: &Arc<Control>,
    ) -> PyResult<Scenario> {
        let mut scenario = self.document.scenario().map_err(|error| errors::scenario(py, &error))?;
        for contender in contenders {
            let name = contender.get().name();
            if !install(py, contender.get(), control, &mut scenario) {
                return Err(errors::argument(format!("there is no contender `{name}`")));
            }
        }
        Ok(scenario)
    }
}

/// Replaces the contender of the same name in `scenario`; false if there is none.
pub(crate) fn install(
    py: Python<'_>,
    contender: &Contender,
    control: &Arc<Control>,
    scenario: &mut Scenario,
) -> bool {
    let position = scenario.contenders.iter().position(|other| other.name == contender.name());
    let Some(position) = position else { return false };
    for condition in &mut scenario.conditions {
        let names = path_names(&condition.experiment).into();
        contender.apply(py, control, &names, &mut condition.configs[position]);
    }
    true
}

#[pymethods]
impl Document {
    /// Opens a built-in scenario, or a file.
    #[staticmethod]
    fn open(py: Python<'_>, name: &str) -> PyResult<Document> {
        wrap(py, scenario::Document::open(name))
    }

    /// Parses `text`, called `name` in errors; the files that it names are in `directory`.
    #[staticmethod]
    fn parse(py: Python<'_>, name: &str, text: &str, directory: &str) -> PyResult<Document> {
        wrap(py, scenario::Document::parse(name, text, directory))
    }

    /// Returns the document with `assignments` of the form KEY=VALUE, applied in their order.
    fn with_settings(&self, py: Python<'_>, assignments: Vec<String>) -> PyResult<Document> {
        let mut document = self.document.clone();
        let set = assignments.iter().try_for_each(|assignment| document.set_from("setting", assignment));
        wrap(py, set.map(|()| document))
    }

    /// Returns the document with another size, without the keys that depend on the old one.
    fn with_size(&self, size: &str) -> Document {
        let mut document = self.document.clone();
        document.set_size("size", size);
        Document { document }
    }

    /// Validates everything.
    fn summary(&self, py: Python<'_>, contenders: Contenders<'_>) -> PyResult<Summary> {
        let scenario = self.scenario(py, &contenders, &Arc::default())?;
        let experiment = &scenario.conditions[0].experiment;
        Ok(Summary {
            name: scenario.name.clone(),
            description: scenario.description.clone(),
            runs: scenario.runs,
            seed: scenario.seed,
            hash: scenario.hash(),
            canonical: scenario.canonical(),
            contenders: scenario.contenders.iter().map(|contender| contender.name.clone()).collect(),
            conditions: scenario.conditions.iter().map(|condition| condition.name.clone()).collect(),
            paths: experiment.paths().iter().map(|path| path.name.clone()).collect(),
            profile: experiment.profile.name(),
            direction: match experiment.traffic.direction {
                Direction::Download => "download",
                Direction::Upload => "upload",
            },
            bulk: scenario.is_bulk(),
            flows: experiment.traffic.flows,
            warnings: scenario.warnings(),
        })
    }
}

/// The names and texts of the built-in scenarios.
#[pyfunction]
pub(crate) fn builtin_scenarios() -> Vec<(&'static str, &'static str)> {
    library::ALL.iter().map(|scenario| (scenario.name, scenario.text)).collect()
}
