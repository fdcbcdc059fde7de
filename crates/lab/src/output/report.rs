//! The data of the page of `anabranch report`, as far as they are comparisons, explanations and sweeps.

use std::fmt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use samples::Samples;

use crate::compare::{self, Comparison};
use crate::explain::{self, Explanation};
use crate::sweep::{Journal, PointResult, Space};

mod samples;

/// A result cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError(String);

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InputError {}

/// The object that a verb printed as JSON.
#[derive(Clone, Debug)]
pub enum Printed {
    /// The object of `anabranch compare --json`.
    Comparison(Box<ShownComparison>),
    /// The object of `anabranch explain --json`.
    Explanation(ShownExplanation),
}

/// A comparison in a report.
#[derive(Clone, Debug, Serialize)]
pub struct ShownComparison {
    /// The file, as it was given.
    pub file: String,
    /// The object of `compare --json`.
    pub comparison: Comparison,
    /// Its single flows, if known.
    pub samples: Option<Box<Samples>>,
}

/// An explanation in a report.
#[derive(Clone, Debug, Serialize)]
pub struct ShownExplanation {
    /// The file, as it was given.
    pub file: String,
    /// The object of `explain --json`.
    pub explanation: Explanation,
}

/// A sweep in a report, with the values of its points.
#[derive(Clone, Debug, Serialize)]
pub struct ShownSweep {
    /// Its directory.
    pub file: String,
    /// The version of the program.
    pub version: String,
    /// The commit from which it was built, if known.
    pub commit: Option<String>,
    /// The last command that worked on it; null without `run.json`.
    pub command: Value,
    /// The way in which its points are chosen, such as `grid`.
    pub design: &'static str,
    /// The plan as it was written.
    pub plan: String,
    /// The number of points; `results` has those that are done.
    pub points: usize,
    /// The swept keys.
    pub dimensions: Vec<Dimension>,
    /// The points that are done.
    pub results: Vec<Point>,
}

/// A swept key.
#[derive(Clone, Debug, Serialize)]
pub struct Dimension {
    /// The key, or several ones that change together.
    pub name: String,
    /// The unit of its values; null where these are texts.
    pub unit: Option<String>,
    /// True if its values are evenly spaced on a logarithmic scale.
    pub logarithmic: bool,
}

/// A point of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// A number or a text for each key.
    pub values: Vec<Value>,
    /// The rows at the point.
    #[serde(flatten)]
    pub result: PointResult,
}

impl Printed {
    /// Reads the JSON in `path`.
    ///
    /// # Errors
    /// If it cannot be read, is neither a comparison nor an explanation, is damaged, or of another version.
    pub fn read(path: &Path) -> Result<Printed, InputError> {
        let file = path.display().to_string();
        let failed = |why: String| InputError(format!("{file}: {why}"));
        let help = "give the output of `anabranch compare --json` or `anabranch explain --json`";
        let text =
            std::fs::read_to_string(path).map_err(|error| failed(format!("cannot read it: {error}")))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| failed(format!("it is not JSON: {error}; {help}")))?;
        let schema = value.get("schema").and_then(Value::as_u64);
        let has = |keys: &[&str]| keys.iter().all(|key| value.get(*key).is_some_and(Value::is_array));
        let explains = |row: &Value| row.get("parts").is_some_and(Value::is_array);
        let is_explanation = has(&["rows"])
            && !has(&["verdicts"])
            && value["rows"].as_array().is_some_and(|rows| rows.iter().all(explains));
        let is_comparison = has(&["rows", "verdicts", "conditions"]);
        if schema.is_none() || !(is_comparison || is_explanation) {
            return Err(failed(format!("it is neither a comparison nor an explanation; {help}")));
        }
        let (reads, verb) =
            if is_comparison { (compare::SCHEMA, "comparison") } else { (explain::SCHEMA, "explanation") };
        if schema != Some(reads.into()) {
            return Err(failed(format!(
                "its schema is {}, and this version of anabranch reads {reads}; run the {verb} again",
                schema.unwrap_or_default()
            )));
        }
        let damaged = |why| failed(format!("it is no whole {verb}: {why}; run the {verb} again"));
        if is_explanation {
            let explanation = read(value).map_err(damaged)?;
            return Ok(Printed::Explanation(ShownExplanation { file, explanation }));
        }
        let comparison = read(value).map_err(damaged)?;
        Ok(Printed::Comparison(Box::new(ShownComparison { file, comparison, samples: None })))
    }
}

/// Returns an object of JSON as a result.
///
/// # Errors
/// With the place of the first value that has another type, or is missing.
fn read<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error: serde_path_to_error::Error<serde_json::Error>| {
        let (place, why) = (error.path().to_string(), error.into_inner().to_string());
        if place == "." { why } else { format!("`{place}`: {why}") }
    })
}

impl ShownComparison {
    /// Adds the samples in `path`.
    ///
    /// # Errors
    /// If it has samples already, or these are not its own.
    pub fn add_samples(&mut self, path: &Path) -> Result<(), InputError> {
        if let Some(samples) = &self.samples {
            return Err(InputError(format!("{} has samples already, in {}", self.file, samples.file())));
        }
        let samples = Samples::read(path, &self.comparison, &self.file).map_err(InputError)?;
        self.samples = Some(Box::new(samples));
        Ok(())
    }
}

impl ShownSweep {
    /// True if `path` is the directory of a sweep.
    pub fn is_at(path: &Path) -> bool {
        path.join("journal.ndjson").exists()
    }

    /// Reads the sweep in the directory `path`.
    ///
    /// # Errors
    /// If it is none, or its files do not belong together.
    pub fn read(path: &Path) -> Result<ShownSweep, InputError> {
        let file = path.display().to_string();
        let (header, results) =
            Journal::peek(&path.join("journal.ndjson")).map_err(|error| InputError(error.to_string()))?;
        let plan_path = path.join("plan.toml");
        let plan = std::fs::read_to_string(&plan_path)
            .map_err(|error| InputError(format!("{}: {error}", plan_path.display())))?;
        let space = Space::parse(plan_path.display().to_string(), &plan)
            .map_err(|error| InputError(error.to_string()))?;
        if space.points() != header.points {
            return Err(InputError(format!(
                "{file}: plan.toml has {} points, and the journal has {}; they do not belong together",
                space.points(),
                header.points
            )));
        }
        let state: Value = std::fs::read(path.join("run.json"))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or(Value::Null);
        let dimensions = space.dimensions().iter().map(|dimension| Dimension {
            name: dimension.keys.join(", "),
            unit: dimension.values.unit().map(str::to_owned),
            logarithmic: dimension.values.is_logarithmic(),
        });
        let dimensions = dimensions.collect();
        let results =
            results.into_iter().map(|result| Point { values: values(&space, result.point), result });
        Ok(ShownSweep {
            results: results.collect(),
            file,
            version: header.version,
            commit: header.commit,
            command: state.get("command").cloned().unwrap_or(Value::Null),
            design: space.design().name(),
            plan,
            points: header.points,
            dimensions,
        })
    }
}

/// The values of a point, as numbers where all values of the dimension are numbers of one unit.
fn values(space: &Space, point: usize) -> Vec<Value> {
    let values = space.point(point).values;
    let pairs = space.dimensions().iter().zip(values);
    pairs
        .map(|(dimension, value)| match dimension.values.number(&value) {
            Some(number) => number.into(),
            None => value.trim_matches(['"', '\'']).into(),
        })
        .collect()
}
