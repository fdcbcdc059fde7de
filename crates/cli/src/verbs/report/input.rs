//! The inputs of a report, read and checked.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anabranch_lab::compare::SCHEMA;
use anabranch_lab::sweep::{Journal, PointResult, Space};
use anabranch_table::Format;
use serde::Serialize;
use serde_json::Value;

use super::samples::Samples;
use crate::failure::Failure;

/// An input. A page that does not know a kind shows the others.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Input {
    Comparison { file: String, comparison: Value, samples: Option<Box<Samples>> },
    Sweep(Box<Sweep>),
}

/// A sweep, with the values of its points.
#[derive(Serialize)]
pub(super) struct Sweep {
    file: String,
    version: String,
    commit: Option<String>,
    /// The last command that worked on it; null without `run.json`.
    command: Value,
    design: &'static str,
    plan: String,
    /// All of them; `results` has those that are done.
    points: usize,
    dimensions: Vec<Dimension>,
    results: Vec<Point>,
}

#[derive(Serialize)]
struct Dimension {
    name: String,
    /// Null where values are texts.
    unit: Option<String>,
    logarithmic: bool,
}

#[derive(Serialize)]
struct Point {
    values: Vec<Value>,
    #[serde(flatten)]
    result: PointResult,
}

/// Reads the inputs in their order; samples become a part of the comparison before them.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Input>, Failure> {
    let mut inputs = Vec::new();
    for path in paths {
        if path.is_dir() {
            inputs.push(Input::Sweep(Box::new(sweep(path)?)));
        } else if Format::of(path).is_some() {
            let Some(Input::Comparison { comparison, samples, file }) = inputs.last_mut() else {
                return Err(Failure::Usage(format!(
                    "{} follows no comparison; name the JSON of `anabranch compare --json` before its samples",
                    path.display()
                )));
            };
            if let Some(samples) = samples {
                return Err(Failure::Usage(format!("{file} has samples already, in {}", samples.file())));
            }
            *samples = Some(Box::new(Samples::read(path, comparison, file)?));
        } else {
            inputs.push(comparison(path)?);
        }
    }
    Ok(inputs)
}

fn comparison(path: &Path) -> Result<Input, Failure> {
    let file = path.display().to_string();
    let failed = |why: String| Failure::Failed(format!("{file}: {why}"));
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|mut opened| opened.read_to_string(&mut text))
        .map_err(|error| failed(format!("cannot read it: {error}")))?;
    let help = "give the output of `anabranch compare --json`";
    let comparison: Value =
        serde_json::from_str(&text).map_err(|error| failed(format!("it is not JSON: {error}; {help}")))?;
    let schema = comparison.get("schema").and_then(Value::as_u64);
    let is_comparison = schema.is_some()
        && ["rows", "verdicts", "conditions"]
            .iter()
            .all(|key| comparison.get(*key).is_some_and(Value::is_array));
    if !is_comparison {
        return Err(failed(format!("it is not the result of a comparison; {help}")));
    }
    if schema != Some(SCHEMA.into()) {
        return Err(failed(format!(
            "its schema is {}, and this version of anabranch reads {SCHEMA}; run the comparison again",
            schema.unwrap_or_default()
        )));
    }
    let has_classes = |row: &Value| row.get("traffic").is_some();
    if comparison["rows"].as_array().is_some_and(|rows| rows.iter().any(has_classes)) {
        return Err(failed(
            "its traffic has several classes, and a report shows one; `anabranch compare` prints a table for each".to_owned(),
        ));
    }
    Ok(Input::Comparison { file, comparison, samples: None })
}

fn sweep(path: &Path) -> Result<Sweep, Failure> {
    let file = path.display().to_string();
    let journal = path.join("journal.ndjson");
    if !journal.exists() {
        return Err(Failure::Failed(format!(
            "{file}: it is not the directory of a sweep, as it has no journal.ndjson"
        )));
    }
    let (header, results) = Journal::peek(&journal)?;
    let plan_path = path.join("plan.toml");
    let plan = std::fs::read_to_string(&plan_path)
        .map_err(|error| Failure::Failed(format!("{}: {error}", plan_path.display())))?;
    let space = Space::parse(plan_path.display().to_string(), &plan)?;
    if space.points() != header.points {
        return Err(Failure::Failed(format!(
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
    let results = results.into_iter().map(|result| Point { values: values(&space, result.point), result });
    Ok(Sweep {
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
