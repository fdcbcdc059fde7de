//! Scenario files: experiments as data, read and checked.
//!
//! A [`Document`] is a scenario file with the overrides of the command line; [`Document::scenario`] converts
//! it to a [`Scenario`], which is complete and valid. A [`plan::Plan`] gives some of its keys several values. The rows of
//! keys from which both are read also make the JSON [`schema`]. An experiment alone determines a [`lower_bound`] on
//! completion times, and an [`estimate`] of the best path to start on.
//!
//! ```
//! use anabranch_scenario::Document;
//!
//! let text = "
//!     path = [{ rate = '100 Mbit/s', rtt = '20 ms' }, { rate = '100 Mbit/s', rtt = '80 ms' }]
//!     traffic = { size = '50 KB' }
//!     schedulers = ['tcp']
//! ";
//! let scenario = Document::parse("example.toml", text, ".")?.scenario()?;
//! assert_eq!(scenario.conditions[0].experiment.paths().len(), 2);
//! # Ok::<(), anabranch_scenario::ScenarioError>(())
//! ```

#![warn(unreachable_pub)]

mod canonical;
mod classes;
mod contender;
mod distribution;
mod document;
pub mod estimate;
mod graph;
pub mod knobs;
pub mod library;
mod link;
pub mod lower_bound;
mod network;
pub mod parameters;
mod parse;
mod path;
mod phases;
pub mod plan;
pub mod presets;
mod queueing;
mod reader;
pub mod schema;
mod sides;
mod source;
mod suspicions;
mod text;
mod traffic;
mod tree;
pub mod units;

pub use anabranch_sim::distribution::{Distribution, PUBLISHED};
use std::path::PathBuf;

use anabranch_stack::config::{Profile, SimConfig};
use anabranch_stack::congestion::CongestionKind;
use anabranch_units::{Bytes, Duration, Time};

pub use classes::{Kind, TrafficClass, Via, main_class};
pub use contender::{Contender, Transport};
pub use document::{Document, sha256};
pub use graph::{Form, Graph, Link, Node, Outage, Pair, Path, Signal, TraceStart};
pub use phases::{PhaseChoice, Phases};
pub use reader::list;
pub use source::{Place, ScenarioError, did_you_mean};
pub use text::quoted;

/// A valid scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
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
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// The variations of the scenario in which all contenders run; at least one.
    pub conditions: Vec<Condition>,
    /// Warnings about older names of keys.
    pub renamed: Vec<String>,
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
    /// The experiment.
    pub experiment: Experiment,
    /// The configuration of a connection without the contender's settings.
    pub base: SimConfig,
    /// The configuration of a plain TCP that is not a contender.
    pub plain: SimConfig,
    /// The configuration of each contender's connections, in the order of [`Scenario::contenders`].
    pub configs: Vec<SimConfig>,
}

/// The experiment, without the contenders.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The sender and receiver.
    pub profile: Profile,
    /// The hosts, the routers and the links.
    pub graph: Graph,
    /// The client and the server of each flow: those of [`Traffic::pairs`], followed by those of other flows.
    pub pairs: Vec<Pair>,
    /// The position of the path that the initial subflow takes.
    pub initial: usize,
    /// The way in which that path was chosen.
    pub initial_choice: InitialChoice,
    /// True if addresses and headers are those of IPv6.
    pub ipv6: bool,
    /// The traffic. With several classes: the pairs and the direction of the network, and the size of the main class.
    pub traffic: Traffic,
    /// The classes of the traffic; empty if it consists of transfers of one kind.
    pub classes: Vec<TrafficClass>,
    /// The time limit of a run.
    pub deadline: Duration,
    /// Small random shifts of each run.
    pub phases: PhaseChoice,
}

/// The way in which the path of the initial subflow was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialChoice {
    /// By default: the first one that is listed.
    #[default]
    First,
    /// By its name in the scenario.
    Given,
    /// The best by a host's estimate beforehand ([`crate::estimate`]).
    Best,
}

impl InitialChoice {
    /// Returns its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            InitialChoice::First => "first",
            InitialChoice::Given => "given",
            InitialChoice::Best => "best",
        }
    }
}

/// The traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The size of each flow.
    pub size: FlowSize,
    /// The number of flows of a run.
    pub flows: u32,
    /// The number of pairs, the first of [`Experiment::pairs`], among which the flows alternate.
    pub pairs: usize,
    /// Their start times.
    pub start: Start,
    /// The direction of the data.
    pub direction: Direction,
    /// The duration of a bulk flow.
    pub duration: Duration,
    /// True if the sender's stack knows the flow's size beforehand.
    pub size_known: bool,
    /// Plain TCP flows that fill a path and are not counted.
    pub background: Vec<Background>,
    /// Plain TCP flows with the same traffic that compete with the contender's, and have their own row.
    pub beside: Option<Beside>,
}

/// The size of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowSize {
    /// A fixed size.
    Fixed(Bytes),
    /// Web-like: Pareto with shape 1.5 and scale 19 KB, of sizes up to `max`.
    Web {
        /// The largest size.
        max: Option<Bytes>,
    },
    /// From a distribution of bytes.
    Drawn(Distribution),
    /// As much as the time permits.
    Bulk,
}

/// The start times of flows.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// All at the same time.
    Together(Time),
    /// Each at its own time.
    At(Vec<Time>),
    /// A Poisson process with a given load relative to the sum of the paths' rates.
    Poisson {
        /// Its start.
        from: Time,
        /// The load, 1 being the sum of the paths' rates.
        load: f64,
    },
    /// With gaps from a distribution.
    Every {
        /// The first start.
        from: Time,
        /// The gaps, in nanoseconds.
        gap: Distribution,
    },
}

impl Start {
    /// Returns a time before which no flow starts.
    pub fn first(&self) -> Time {
        match self {
            Start::Together(at) => *at,
            Start::At(each) => each.iter().copied().min().unwrap_or(Time::ZERO),
            Start::Poisson { from, .. } | Start::Every { from, .. } => *from,
        }
    }
}

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client, which connects.
    Upload,
    /// From the server, after the client's request.
    Download,
}

/// Plain TCP flows that fill a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// The position of their pair.
    pub pair: usize,
    /// The position of the path.
    pub path: usize,
    /// The number of flows.
    pub flows: u32,
    /// Their start.
    pub start: Time,
}

/// Plain TCP flows with the same traffic that compete with the contender's.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The number of flows.
    pub flows: u32,
    /// The positions of their pairs, among which they alternate.
    pub pairs: Vec<usize>,
    /// The position of their path; none: the best one, measured with them alone.
    pub path: Option<usize>,
    /// Their congestion control; none: that of the connections, or NewReno if it is coupled.
    pub congestion: Option<CongestionKind>,
}

/// Returns the kinds of distributions that a scenario can name: name, parameters, and what it is.
pub fn distributions() -> &'static [(&'static str, &'static [&'static str], &'static str)] {
    distribution::KINDS
}

impl Condition {
    /// Returns the configuration of the competing plain TCP flows.
    pub fn beside_config(&self) -> SimConfig {
        let mut config = self.plain.clone();
        let beside = self.experiment.traffic.beside.as_ref();
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
