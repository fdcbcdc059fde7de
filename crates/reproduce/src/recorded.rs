//! The verdicts of the last full reproduction, which the command shows without simulating.

use serde::{Deserialize, Serialize};

use crate::reproduce::Finding;

/// The results of a reproduction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The program's version, and its commit if known.
    pub build: String,
    /// The seed; none is that of each scenario.
    pub seed: Option<u64>,
    /// The results.
    pub findings: Vec<Finding>,
}

/// Returns the recorded results.
///
/// # Errors
/// If they cannot be read.
pub fn recorded() -> Result<Recorded, serde_json::Error> {
    serde_json::from_str(include_str!("../../../scenarios/reproduced.json"))
}
