//! The verdicts of the last full reproduction, which the command shows without simulating.

use serde::{Deserialize, Serialize};

use crate::figure::Drawn;
use crate::finding::Finding;

/// The results of a reproduction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The program's version, and its commit if known.
    pub build: String,
    /// The seed; none: the seed of each scenario.
    pub seed: Option<u64>,
    /// The results.
    pub findings: Vec<Finding>,
    /// The figures that were measured.
    pub figures: Vec<Drawn>,
}

impl Recorded {
    /// Returns the results as JSON with a line for each claim and figure, so that a change shows which.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let lines = |values: Vec<serde_json::Result<String>>| -> serde_json::Result<String> {
            Ok(values.into_iter().collect::<serde_json::Result<Vec<_>>>()?.join(",\n"))
        };
        Ok(format!(
            "{{\"build\": {}, \"seed\": {}, \"findings\": [\n{}\n], \"figures\": [\n{}\n]}}\n",
            serde_json::to_string(&self.build)?,
            serde_json::to_string(&self.seed)?,
            lines(self.findings.iter().map(serde_json::to_string).collect())?,
            lines(self.figures.iter().map(serde_json::to_string).collect())?,
        ))
    }
}

/// Returns the recorded results.
///
/// # Errors
/// If they cannot be read.
pub fn recorded() -> Result<Recorded, serde_json::Error> {
    serde_json::from_str(include_str!("../scenarios/reproduced.json"))
}
