//! `anabranch check --json`

use serde::Serialize;

use crate::scenario::{Condition, Kind, Scenario};

/// The summary of a valid scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The name or file under which the scenario was requested.
    pub scenario: String,
    /// The hash of the scenario: [`Scenario::hash`].
    pub scenario_hash: String,
    /// The number of paths of the first condition.
    pub paths: usize,
    /// The number of flows in each run of the first condition.
    pub flows: u32,
    /// The names of the conditions; one is empty if it is the only one.
    pub conditions: Vec<String>,
    /// The names of the contenders, in the order of the rows.
    pub contenders: Vec<String>,
    /// The number of runs of each contender under each condition.
    pub runs: u32,
    /// The classes of traffic; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<CheckClass>,
    /// Values that are probably not intended.
    pub warnings: Vec<String>,
}

/// A class of traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckClass {
    /// The condition that has it; empty if it is the only one.
    pub condition: String,
    /// The key `name` of the class.
    pub name: String,
    /// The value of its key `kind`.
    pub kind: &'static str,
    /// Its transport protocol.
    pub transport: &'static str,
    /// The number of its flows in each run.
    pub flows: u32,
    /// A description in one sentence.
    pub description: String,
    /// True if its flows have a lower bound.
    pub lower_bound: bool,
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
            traffic: scenario.conditions.iter().flat_map(classes).collect(),
            warnings: scenario.warnings(),
        }
    }
}

fn classes(condition: &Condition) -> Vec<CheckClass> {
    let class = |class: &crate::scenario::TrafficClass| CheckClass {
        condition: condition.name.clone(),
        name: class.name.clone(),
        kind: class.kind.name(),
        transport: class.via.name(),
        flows: class.flows,
        description: class.describe(),
        lower_bound: matches!(class.kind, Kind::Transfer { .. }),
    };
    condition.experiment.classes.iter().map(class).collect()
}
