//! The data of the page of `anabranch report`.

use std::fmt;
use std::path::{Path, PathBuf};

use anabranch_lab::output::report::{InputError, Printed, ShownComparison, ShownExplanation, ShownSweep};
use anabranch_table::Format;
use serde::Serialize;

use crate::read::{ReadError, Recorded};
use crate::view::{Details, View};

/// The version of the data.
pub const VERSION: u32 = 1;

/// The data of the page. A page that does not know a kind of input shows the others.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`VERSION`].
    pub report: u32,
    /// The version of this program.
    pub version: &'static str,
    /// The commit from which this program was built, if known; filled in by the caller.
    pub commit: Option<&'static str>,
    /// The command line; filled in by the caller.
    pub command: Vec<String>,
    /// The results in their order.
    pub inputs: Vec<Input>,
}

/// A result in a report.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Input {
    /// The JSON of `compare`, and the file of its samples if there is one.
    Comparison(Box<ShownComparison>),
    /// The JSON of `explain`.
    Explanation(ShownExplanation),
    /// The directory of a sweep.
    Sweep(Box<ShownSweep>),
    /// Recorded runs.
    Recording(Box<View>),
}

/// A result cannot be shown.
#[derive(Debug)]
pub enum ReportError {
    /// The inputs do not fit together.
    Order(String),
    /// An input cannot be read.
    Input(String),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ReportError::Order(text) | ReportError::Input(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for ReportError {}

impl From<ReadError> for ReportError {
    fn from(error: ReadError) -> ReportError {
        ReportError::Input(error.to_string())
    }
}

impl From<InputError> for ReportError {
    fn from(error: InputError) -> ReportError {
        ReportError::Input(error.to_string())
    }
}

impl Report {
    /// Reads the inputs in their order; samples become a part of the comparison before them.
    ///
    /// # Errors
    /// If one cannot be read, or samples follow no comparison of theirs.
    pub fn read(paths: &[PathBuf], details: &Details) -> Result<Report, ReportError> {
        let mut inputs = Vec::new();
        for path in paths {
            if Format::of(path).is_some() && !path.is_dir() {
                let Some(Input::Comparison(comparison)) = inputs.last_mut() else {
                    return Err(ReportError::Order(format!(
                        "{} follows no comparison; name the JSON of `anabranch compare --json` before its samples",
                        path.display()
                    )));
                };
                comparison.add_samples(path)?;
            } else {
                inputs.push(Input::read(path, details)?);
            }
        }
        Ok(Report {
            report: VERSION,
            version: env!("CARGO_PKG_VERSION"),
            commit: None,
            command: Vec::new(),
            inputs,
        })
    }
}

impl Input {
    /// Reads a file of JSON, or a directory.
    ///
    /// # Errors
    /// If it cannot be read, or is no result.
    pub fn read(path: &Path, details: &Details) -> Result<Input, ReportError> {
        if !path.is_dir() {
            return Ok(match Printed::read(path)? {
                Printed::Comparison(comparison) => Input::Comparison(comparison),
                Printed::Explanation(explanation) => Input::Explanation(explanation),
            });
        }
        if ShownSweep::is_at(path) {
            return Ok(Input::Sweep(Box::new(ShownSweep::read(path)?)));
        }
        if !Recorded::is_at(path) {
            return Err(ReportError::Input(format!(
                "{}: it is the directory of neither a sweep nor a recording, as it has no journal.ndjson and no run.json \
                 that names tables",
                path.display()
            )));
        }
        Ok(Input::Recording(Box::new(View::read(path, details)?)))
    }
}
