//! The runs that claims need, the measures wanted of them, and the measured values.

use core::fmt;
use std::collections::BTreeMap;

use anabranch_lab::ScenarioError;
use anabranch_lab::run::RunError;
use serde::{Deserialize, Serialize};

use crate::metric::Metric;
use crate::take::Take;

/// A measurement could not be made.
#[derive(Debug)]
pub enum MeasureError {
    /// The scenario is not valid.
    Scenario(Box<ScenarioError>),
    /// A run failed or was cancelled.
    Run(RunError),
    /// There is no such scenario, condition, contender or measure.
    Missing(String),
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeasureError::Scenario(error) => error.fmt(f),
            MeasureError::Run(error) => error.fmt(f),
            MeasureError::Missing(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for MeasureError {}

impl From<ScenarioError> for MeasureError {
    fn from(error: ScenarioError) -> MeasureError {
        MeasureError::Scenario(Box::new(error))
    }
}

impl From<RunError> for MeasureError {
    fn from(error: RunError) -> MeasureError {
        MeasureError::Run(error)
    }
}

/// Where the runs of a measurement come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// A scenario of the paper.
    Scenario(String),
    /// A plan of the paper with one run at each point.
    Plan(String),
    /// The survey's window simulation, with these parameters.
    Window(String),
}

impl Source {
    /// Returns the name of the scenario or plan, or the parameters.
    pub fn name(&self) -> &str {
        match self {
            Source::Scenario(name) | Source::Plan(name) | Source::Window(name) => name,
        }
    }
}

/// The runs of one scenario under one condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unit {
    /// The place of the paper's scenarios: [`Paper::home`](crate::Paper::home).
    pub paper: String,
    /// The source of the runs.
    pub source: Source,
    /// The condition; empty if the scenario has only one, without a name.
    pub condition: String,
    /// Values of the scenario that are set.
    pub set: Vec<String>,
    /// The number of runs, or of points; none is the scenario's.
    pub runs: Option<u32>,
    /// The seed; none is the scenario's.
    pub seed: Option<u64>,
}

/// The values of a measurement: by contender and measure, one for each run.
pub type Values = BTreeMap<String, BTreeMap<String, Vec<f64>>>;

/// The values of the runs of a scenario, by contender and measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The hash of the measured runs.
    pub key: String,
    /// One value for each run, by contender and measure.
    #[serde(with = "as_options")]
    pub values: Values,
}

/// Values that are no numbers are `null` in JSON, and have to be read again.
mod as_options {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Values;

    type Options = BTreeMap<String, BTreeMap<String, Vec<Option<f64>>>>;

    pub(super) fn serialize<S: Serializer>(values: &Values, serializer: S) -> Result<S::Ok, S::Error> {
        // NaN is written as `null`.
        values.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Values, D::Error> {
        let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let runs =
            |(metric, runs): (String, Vec<Option<f64>>)| (metric, runs.into_iter().map(number).collect());
        let options = Options::deserialize(deserializer)?;
        Ok(options.into_iter().map(|(name, own)| (name, own.into_iter().map(runs).collect())).collect())
    }
}

impl Measurement {
    /// Returns the values of a measure of a contender.
    ///
    /// # Errors
    /// If it was not measured.
    pub fn get(&self, contender: &str, metric: Metric) -> Result<&[f64], MeasureError> {
        let values = self.values.get(contender).ok_or_else(|| {
            let names: Vec<&str> = self.values.keys().map(String::as_str).collect();
            MeasureError::Missing(format!(
                "there is no contender `{contender}`; there are {}",
                names.join(", ")
            ))
        })?;
        values
            .get(&metric.to_string())
            .map(Vec::as_slice)
            .ok_or_else(|| MeasureError::Missing(format!("`{metric}` was not measured for `{contender}`")))
    }

    /// Returns what was taken from within the runs of a contender: pairs of a time and a value of a course, and of a
    /// value and its number of a distribution.
    ///
    /// # Errors
    /// If it was not taken.
    pub fn taken(&self, contender: &str, take: &Take) -> Result<&[f64], MeasureError> {
        let own = self.values.get(contender).and_then(|values| values.get(&take.key()));
        own.map(Vec::as_slice)
            .ok_or_else(|| MeasureError::Missing(format!("there is no {} of `{contender}`", take.key())))
    }

    /// Returns what is wanted and not measured yet: contenders that lack a measure, with all measures.
    pub fn missing(&self, wanted: &Wanted) -> Wanted {
        let lacks = |name: &&String| {
            let values = self.values.get(*name);
            !values.is_some_and(|values| wanted.keys().all(|key| values.contains_key(&key)))
        };
        let contenders = wanted.contenders.iter().filter(lacks).cloned().collect();
        Wanted { contenders, metrics: wanted.metrics.clone(), takes: wanted.takes.clone() }
    }
}

/// The contenders and measures that are needed of a unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// The contenders that a check or a figure names.
    pub contenders: Vec<String>,
    /// The measures.
    pub metrics: Vec<Metric>,
    /// The values that figures take from within the runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes: Vec<Take>,
}

impl Wanted {
    /// Returns the keys of the values of a contender.
    fn keys(&self) -> impl Iterator<Item = String> {
        self.metrics.iter().map(Metric::to_string).chain(self.takes.iter().map(Take::key))
    }

    /// Adds what a figure takes from within the runs of a contender.
    pub fn take(&mut self, contender: &str, take: Take) {
        self.contender(contender);
        if !self.takes.contains(&take) {
            self.takes.push(take);
        }
    }

    fn contender(&mut self, contender: &str) {
        if !self.contenders.iter().any(|other| other == contender) {
            self.contenders.push(contender.to_owned());
        }
    }

    /// Adds a contender and a measure, and the contenders to which the measure refers.
    pub fn add(&mut self, contender: &str, metric: Metric) {
        self.contender(contender);
        if !self.metrics.contains(&metric) {
            self.metrics.push(metric);
        }
    }
}
