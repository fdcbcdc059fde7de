//! The first keys of the objects that the verbs print as JSON.

use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// The program and the command line that make results, which they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The commit from which the program was built; none if it is unknown.
    pub commit: Option<&'static str>,
    /// The command line; empty if there was none.
    pub command: Vec<String>,
}

/// The program, the command line and the scenario that made a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The version of the program.
    pub version: String,
    /// The commit from which the program was built, if known.
    pub commit: Option<String>,
    /// The version of the keys.
    pub schema: u32,
    /// The version of the numbers: [`RESULTS`](crate::RESULTS).
    pub results: u32,
    /// The command line; empty if there was none.
    pub command: Vec<String>,
    /// The hash of the scenario: [`Scenario::hash`]; empty without a scenario.
    pub scenario_hash: String,
    /// The seed, from which the seeds of the runs are derived.
    pub seed: u64,
}

impl Head {
    /// Returns the first keys of a result of `scenario`, in version `schema` of its keys.
    pub fn new(schema: u32, scenario: &Scenario) -> Head {
        Head { scenario_hash: scenario.hash(), seed: scenario.seed, ..Head::without_scenario(schema) }
    }

    /// Returns the first keys of a result that has no scenario.
    pub fn without_scenario(schema: u32) -> Head {
        Head {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            schema,
            results: crate::RESULTS,
            ..Head::default()
        }
    }

    /// Records the program and the command line.
    pub fn set_origin(&mut self, origin: Origin) {
        self.commit = origin.commit.map(str::to_owned);
        self.command = origin.command;
    }
}
