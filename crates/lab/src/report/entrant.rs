//! The subjects of rows.

use crate::job::{Job, Purpose};
use crate::run::{Class, FlowResult, RunResult};
use crate::scenario::{Condition, Contender, FlowSize, Scenario, Transport};

/// The subject of a row: a contender, or a plain TCP on a path that `tcp` does not use.
#[derive(Clone, Debug)]
pub(crate) struct Entrant<'a> {
    pub name: String,
    /// The position in the scenario of the contender with its settings.
    pub contender: usize,
    /// The position of the path of a plain TCP.
    pub path: Option<usize>,
    /// True for the scenario's contenders, which take part in the verdict.
    pub listed: bool,
    pub runs: &'a [RunResult],
}

impl<'a> Entrant<'a> {
    pub(crate) fn new(
        scenario: &Scenario,
        condition: &Condition,
        contender: usize,
        chosen: Option<usize>,
        listed: bool,
        runs: &'a [RunResult],
    ) -> Entrant<'a> {
        let Contender { name, transport, .. } = &scenario.contenders[contender];
        let path = match transport {
            Transport::Tcp { path: Some(path) } => Some(*path),
            Transport::Tcp { path: None } => chosen,
            Transport::Multipath(_) => None,
        };
        let name = match path {
            Some(path) if !listed => format!("{name}@{}", condition.experiment.paths()[path].name),
            _ => name.clone(),
        };
        Entrant { name, contender, path, listed, runs }
    }

    /// Returns the entrant of `job`, without results.
    pub(crate) fn of(scenario: &Scenario, job: &Job) -> Entrant<'a> {
        let condition = &scenario.conditions[job.condition];
        let listed = job.purpose == Purpose::Compare;
        Entrant::new(scenario, condition, job.contender, job.path, listed, &[])
    }

    /// Returns the path of a plain TCP for the class of traffic `group`, or without classes its path.
    pub(crate) fn path_in(&self, group: Option<usize>) -> Option<usize> {
        let flows = self.runs.first().map(|run| run.flows.iter()).into_iter().flatten();
        let of_class = group.and_then(|group| flows.into_iter().find(|flow| flow.group == group));
        self.path.map(|path| of_class.map_or(path, |flow| flow.path))
    }

    /// Returns the flows of a class without classes of traffic, by run; of the competing TCPs those of the kind at `kind`.
    pub(super) fn flows(&self, class: Class, kind: usize) -> Vec<Vec<&'a FlowResult>> {
        let is_meant = |flow: &&FlowResult| flow.class == class && flow.group == kind;
        let of_class = |result: &'a RunResult| result.flows.iter().filter(is_meant).collect();
        self.runs.iter().map(of_class).collect()
    }
}

impl Job {
    /// Returns the name of the row of the contender's flows.
    pub fn name(&self, scenario: &Scenario) -> String {
        Entrant::of(scenario, self).name
    }
}

/// Returns the name of the row of the plain TCPs of the kind at `kind` that compete with a contender.
pub fn beside_name(condition: &Condition, kind: usize, contender: &str) -> String {
    let name = condition.experiment.traffic.beside.get(kind).and_then(|beside| beside.name.as_deref());
    format!("{} beside {contender}", name.unwrap_or("tcp"))
}

/// True if goodput is the measure.
pub(crate) fn is_bulk(condition: &Condition) -> bool {
    condition.experiment.traffic.size == FlowSize::Bulk
}
