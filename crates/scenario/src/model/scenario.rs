//! A scenario: contenders, and the conditions under which all of them run.

use std::path::PathBuf;

use anabranch_stack::config::SimConfig;

use super::contender::Contender;
use super::experiment::Experiment;
use super::traffic::FlowSize;

/// A valid scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The key `name`; empty without one.
    pub name: String,
    /// Its purpose, in a sentence or two.
    pub description: String,
    /// The number of runs of each contender in each condition.
    pub runs: u32,
    /// True if the scenario gives that number. Otherwise a comparison may add runs.
    pub has_runs: bool,
    /// The relative width of an interval, to either side, at which a comparison adds no more runs.
    pub precision: f64,
    /// The seed from which every run's seed is derived.
    pub seed: u64,
    /// The position of the contender with which the others are compared; none if the scenario names none and
    /// has no `tcp`.
    pub reference: Option<usize>,
    /// The relative difference below which values count as practically equal.
    pub min_effect: f64,
    /// True if a comparison also measures the effect of starting on other paths.
    pub other_starts: bool,
    /// The contenders, in the order of the rows.
    pub contenders: Vec<Contender>,
    /// The variations of the scenario in which all contenders run; at least one.
    pub conditions: Vec<Condition>,
    /// The files that it was read from: its own, then those that it names. Built-in ones are not files.
    pub files: Vec<PathBuf>,
    /// The document with all overrides, as TOML from which the same scenario can be read. Names of files are absolute.
    pub text: String,
}

/// A variation of the scenario in which all contenders run.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Its name; empty if a scenario has no variations.
    pub name: String,
    /// The network and the traffic with the values of the condition.
    pub experiment: Experiment,
    /// The configuration of a connection without the contender's settings.
    pub base: SimConfig,
    /// The configuration of a plain TCP that is not a contender.
    pub plain: SimConfig,
    /// The configuration of each contender's connections, in the order of [`Scenario::contenders`].
    pub configs: Vec<SimConfig>,
}

impl Condition {
    /// Returns the configuration of the competing plain TCP flows of the kind at `at`.
    pub fn beside_config(&self, at: usize) -> SimConfig {
        let mut config = self.plain.clone();
        let beside = self.experiment.traffic.beside.get(at);
        if let Some(congestion) = beside.and_then(|beside| beside.congestion.as_ref()) {
            config.congestion = congestion.clone();
        }
        config
    }
}

impl Scenario {
    /// True if flows have no size but a duration, so that goodput is the measure.
    pub fn is_bulk(&self) -> bool {
        self.conditions.iter().all(|condition| condition.experiment.traffic.size == FlowSize::Bulk)
    }

    /// Returns the seed of run number `run` (from 0): the same for all contenders and conditions.
    pub fn run_seed(&self, run: u32) -> u64 {
        anabranch_units::RandomStream::new(self.seed, &format!("run.{run}")).next_u64()
    }

    /// Returns the seed of selection run number `run` (from 0), in which the path of `tcp` is chosen. It
    /// differs from the seeds of the runs in which `tcp` is then compared.
    pub fn selection_seed(&self, run: u32) -> u64 {
        anabranch_units::RandomStream::new(self.seed, &format!("selection.{run}")).next_u64()
    }

    /// Returns the seed of the series of all runs, over which draws may be stratified.
    pub fn run_series(&self) -> u64 {
        anabranch_units::RandomStream::new(self.seed, "run.series").next_u64()
    }

    /// Returns the seed of the series of all selection runs.
    pub fn selection_series(&self) -> u64 {
        anabranch_units::RandomStream::new(self.seed, "selection.series").next_u64()
    }
}
