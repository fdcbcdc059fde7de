//! The choice of runs that checks of claims and figures share.

use serde::Deserialize;

use crate::values::Source;

/// The runs of a check or of a figure: their source, and what differs from it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub struct Choice {
    /// The scenario of the paper's directory.
    #[serde(default)]
    pub scenario: Option<String>,
    /// Instead: the plan of the paper's directory, with one run for each point.
    #[serde(default)]
    pub plan: Option<String>,
    /// Instead: the survey's window simulation, with these parameters.
    #[serde(default)]
    pub window: Option<String>,
    /// The conditions; a check without them has all of its scenario, and a figure may have other positions.
    #[serde(default, rename = "in")]
    pub conditions: Vec<String>,
    /// Values of the scenario to set, as `--set` does.
    #[serde(default)]
    pub set: Vec<String>,
    /// The number of runs instead of the scenario's.
    #[serde(default)]
    pub runs: Option<u32>,
}

impl Choice {
    /// True if it has exactly one source.
    pub(crate) fn has_one_source(&self) -> bool {
        [&self.scenario, &self.plan, &self.window].iter().filter(|source| source.is_some()).count() == 1
    }

    /// Returns the source of the runs.
    pub fn source(&self) -> Source {
        match (&self.scenario, &self.plan, &self.window) {
            (Some(name), _, _) => Source::Scenario(name.clone()),
            (_, Some(name), _) => Source::Plan(name.clone()),
            (_, _, text) => Source::Window(text.clone().unwrap_or_default()),
        }
    }
}
