//! `anabranch check --json`

use serde::Serialize;

use crate::scenario::Scenario;

/// The summary of a valid scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The name or file under which the scenario was requested.
    pub scenario: String,
    /// [`Scenario::hash`].
    pub scenario_hash: String,
    /// The number of paths of the first condition.
    pub paths: usize,
    /// The number of flows in each run of the first condition.
    pub flows: u32,
    /// The names of the conditions.
    pub conditions: Vec<String>,
    /// The names of the contenders.
    pub contenders: Vec<String>,
    /// The number of runs.
    pub runs: u32,
    /// Values that are probably not intended.
    pub warnings: Vec<String>,
}

impl Check {
    /// Returns the summary of `scenario`, which was requested as `name`.
    pub fn new(name: impl Into<String>, scenario: &Scenario) -> Check {
        let first = &scenario.conditions[0].experiment;
        Check {
            scenario: name.into(),
            scenario_hash: scenario.hash(),
            paths: first.paths().len(),
            flows: first.traffic.flows,
            conditions: scenario.conditions.iter().map(|condition| condition.name.clone()).collect(),
            contenders: scenario.contenders.iter().map(|contender| contender.name.clone()).collect(),
            runs: scenario.runs,
            warnings: scenario.warnings(),
        }
    }
}
