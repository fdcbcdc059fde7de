//! The plan of an emulation: its network and its changes, before anything is made.

use std::time::Duration;

use anabranch_lab::run;
use anabranch_lab::scenario::{Condition, Endpoints, InitialChoice, PhaseChoice, Scenario, Signal, knobs};
use anabranch_sim::topology::Topology;
use anabranch_stack::config::SimConfig;

use crate::error::EmulateError;
use crate::network::{self, Addresses, Role};
use crate::report::Named;
use crate::signals::Change;

/// The network of an emulation, and its changes.
#[derive(Debug)]
pub(crate) struct Plan {
    pub paths: Vec<Named>,
    pub addresses: Addresses,
    pub topology: Topology,
    /// Whether the endpoint of each path is a backup.
    pub backup: Vec<bool>,
    /// The changes that the client's kernel notices, and the withdrawals of the server's addresses.
    pub changes: Vec<Change>,
    pub withdrawals: Vec<Change>,
    /// Remarks on parts of the scenario that commands do not have.
    pub left_out: Vec<String>,
}

impl Plan {
    /// Returns the plan of a run with this seed of the condition at `condition`.
    ///
    /// # Errors
    /// If the scenario has no such condition, or cannot be emulated.
    pub(crate) fn new(scenario: &Scenario, condition: usize, seed: u64) -> Result<Plan, EmulateError> {
        let condition = scenario.conditions.get(condition).ok_or_else(|| {
            EmulateError::Usage(format!("the scenario has {} conditions", scenario.conditions.len()))
        })?;
        let experiment = &condition.experiment;
        experiment
            .has_fixed_paths()
            .map_err(|text| EmulateError::Usage(format!("the scenario cannot be emulated: {text}")))?;
        let topology =
            run::topology(experiment, seed).map_err(|error| EmulateError::Usage(error.to_string()))?;
        let addresses = Addresses {
            paths: experiment.paths().len(),
            initial: experiment.initial,
            ipv6: experiment.ipv6,
            endpoints: experiment.endpoints.clone(),
        };
        let backup: Vec<bool> = experiment.paths().iter().map(|path| path.backup).collect();
        let change = |(at, signal): (usize, Signal)| Change {
            at: Duration::from_nanos(signal.at.0),
            commands: network::noticed(&addresses, at, backup[at], signal.up)
                .split_inclusive('\n')
                .map(str::to_owned)
                .collect(),
        };
        let changes = experiment.signals().into_iter().map(change).collect();
        let withdrawal = |(number, signal): (usize, Signal)| Change {
            at: Duration::from_nanos(signal.at.0),
            commands: vec![network::withdrawn(&addresses, number, signal.up)],
        };
        let withdrawals = experiment.endpoints.iter().flat_map(Endpoints::signals).map(withdrawal).collect();
        Ok(Plan {
            paths: experiment.paths().iter().map(|path| (path.name.clone(), path.tariff)).collect(),
            left_out: left_out(condition),
            addresses,
            topology,
            backup,
            changes,
            withdrawals,
        })
    }

    /// Returns the commands of `ip` that give the kernel of a host its endpoints and limits.
    pub(crate) fn endpoints(&self, role: Role, subflows: Option<u32>) -> String {
        network::endpoints(&self.addresses, role, &self.backup, subflows)
    }
}

/// Returns a sentence for each part of the scenario that only simulated connections have: the commands decide it here. The size and the
/// contenders go without saying.
fn left_out(condition: &Condition) -> Vec<String> {
    let experiment = &condition.experiment;
    let traffic = &experiment.traffic;
    let mut all = Vec::new();
    let flows = [
        (!traffic.background.is_empty(), "background flows"),
        (!traffic.beside.is_empty(), "flows beside it"),
        (experiment.classes.len() > 1, "classes of traffic"),
        (experiment.classes.is_empty() && traffic.flows > 1, "several flows"),
    ];
    for (_, what) in flows.iter().filter(|(there, _)| *there) {
        all.push(format!(
            "the scenario has {what}; here only the commands send, so start such programs with them"
        ));
    }
    let usual = SimConfig::new(experiment.profile);
    // The size of segments and the number of subflows follow from the network.
    let follows = ["mss", "max-subflows"];
    let set = |knob: &&knobs::Knob| {
        !follows.contains(&knob.name) && knob.value(&condition.base) != knob.value(&usual)
    };
    let set: Vec<&str> = knobs::ALL.iter().filter(set).map(|knob| knob.name).collect();
    if !set.is_empty() {
        all.push(format!(
            "{} of the scenario {} for simulated connections; a kernel has --sysctl, and anabranch's programs have options",
            set.join(", "),
            if set.len() == 1 { "is" } else { "are" }
        ));
    }
    if matches!(experiment.phases, PhaseChoice::On(_)) {
        all.push("the random shifts of `phases` are for simulated runs".to_owned());
    }
    if experiment.initial_choice == InitialChoice::Race {
        all.push("a kernel has no race of paths; the commands connect over the first one".to_owned());
    }
    if let Some(path) = experiment.paths().get(experiment.initial).filter(|path| path.backup) {
        all.push(format!("a kernel's first subflow is no backup, and path {} is the initial one", path.name));
    }
    all
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
