//! What an experiment is: paths, topology, traffic, contenders and conditions.
//!
//! A [`Document`] is a scenario file with the overrides of the command line; [`Document::scenario`]
//! reads it into a [`Scenario`], where everything is checked and nothing is left to choose.

mod canonical;
mod contender;
mod document;
mod graph;
pub mod knobs;
pub mod library;
mod link;
mod network;
pub mod parameters;
mod parse;
mod path;
mod phases;
mod suspicions;
mod traffic;

use anabranch_stack::config::{ConnectionConfig, Profile};
use anabranch_stack::congestion::CongestionKind;
use anabranch_units::{Bytes, Duration, Time};

pub use contender::{Contender, Transport};
pub use document::{Document, sha256};
pub use graph::{Form, Graph, Link, Node, Pair, Path, TraceStart};
pub use phases::{PhaseChoice, Phases};

/// A checked scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// What it is for, in a sentence or two.
    pub description: String,
    /// How often each contender meets each condition.
    pub runs: u32,
    /// The seed from which every run's seed is derived.
    pub seed: u64,
    /// The contender that the others are compared with, by position; none if the scenario names none
    /// and has no `tcp`.
    pub reference: Option<usize>,
    /// A difference below this share counts as practically equal.
    pub min_effect: f64,
    /// Whether a comparison also measures what starting on other paths would change.
    pub other_starts: bool,
    /// Who is compared.
    pub contenders: Vec<Contender>,
    /// The variations of the scenario that all contenders meet; at least one.
    pub conditions: Vec<Condition>,
}

/// A variation of the scenario that all contenders meet.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Its name; empty where a scenario has no variations.
    pub name: String,
    /// What is simulated.
    pub experiment: Experiment,
    /// How a connection is configured before a contender has its say.
    pub base: ConnectionConfig,
    /// How a plain TCP is configured that is no contender.
    pub plain: ConnectionConfig,
    /// How each contender's connections are configured, in the order of [`Scenario::contenders`].
    pub configs: Vec<ConnectionConfig>,
}

/// What is simulated, without who competes.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The sender and receiver.
    pub profile: Profile,
    /// The hosts, the routers and the links.
    pub graph: Graph,
    /// The client and the server of each flow: those of [`Traffic::pairs`], and those of other flows behind them.
    pub pairs: Vec<Pair>,
    /// The position of the path that the initial subflow takes.
    pub initial: usize,
    /// How that path was chosen.
    pub initial_choice: InitialChoice,
    /// Whether addresses and headers are those of IPv6.
    pub ipv6: bool,
    /// What is sent.
    pub traffic: Traffic,
    /// When a run ends, whatever is still going on.
    pub deadline: Duration,
    /// Small random shifts of each run.
    pub phases: PhaseChoice,
}

/// How the path of the initial subflow was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialChoice {
    /// The scenario does not say: it is the first one that is listed.
    #[default]
    First,
    /// The scenario names it.
    Given,
    /// It is the best by what a host can know beforehand ([`crate::estimate`]).
    Best,
}

impl InitialChoice {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            InitialChoice::First => "first",
            InitialChoice::Given => "given",
            InitialChoice::Best => "best",
        }
    }
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// How much each flow sends.
    pub size: FlowSize,
    /// How many flows a run has.
    pub flows: u32,
    /// The number of pairs, the first of [`Experiment::pairs`], that the flows take in turn.
    pub pairs: usize,
    /// When they start.
    pub start: Start,
    /// Who sends.
    pub direction: Direction,
    /// How long a bulk flow sends.
    pub duration: Duration,
    /// Whether the sender is told the flow's size beforehand.
    pub size_known: bool,
    /// Plain TCP flows that fill a path and are not counted.
    pub background: Vec<Background>,
    /// Plain TCP flows of the same traffic beside the contender's, which have a row of their own.
    pub beside: Option<Beside>,
}

/// How much a flow sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowSize {
    /// So many bytes.
    Fixed(Bytes),
    /// Web-like: Pareto with shape 1.5 and scale 19 KB, of sizes up to `max`.
    Web {
        /// The largest.
        max: Option<Bytes>,
    },
    /// As much as the time allows.
    Bulk,
}

/// When flows start.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// All at once.
    Together(Time),
    /// Each at its time.
    At(Vec<Time>),
    /// Independently of each other, so that they ask for this share of the paths' whole rate.
    Poisson {
        /// When it begins.
        from: Time,
        /// The load, 1 being the sum of the paths' rates.
        load: f64,
    },
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client, which connects.
    Upload,
    /// The server, after the client's request.
    Download,
}

/// Plain TCP flows that fill a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// The position of their pair.
    pub pair: usize,
    /// The position of the path.
    pub path: usize,
    /// How many.
    pub flows: u32,
    /// When they start.
    pub start: Time,
}

/// Plain TCP flows of the same traffic beside the contender's.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// How many.
    pub flows: u32,
    /// The positions of their pairs, which they take in turn.
    pub pairs: Vec<usize>,
    /// The position of the path they take; none: the best one as measured with them alone.
    pub path: Option<usize>,
    /// Their congestion control; none: that of the connections, or NewReno where it is coupled.
    pub congestion: Option<CongestionKind>,
}

impl Condition {
    /// What the plain TCP flows beside the contender's are.
    pub fn beside_config(&self) -> ConnectionConfig {
        let mut config = self.plain.clone();
        let beside = self.experiment.traffic.beside.as_ref();
        if let Some(congestion) = beside.and_then(|beside| beside.congestion.as_ref()) {
            config.congestion = congestion.clone();
        }
        config
    }
}

impl Scenario {
    /// Whether flows have no size but a time, so that goodput is what counts.
    pub fn is_bulk(&self) -> bool {
        self.conditions.iter().all(|condition| condition.experiment.traffic.size == FlowSize::Bulk)
    }

    /// The seed of run number `run` (from 0): the same for all contenders and conditions.
    pub fn run_seed(&self, run: u32) -> u64 {
        anabranch_units::RandomStream::new(self.seed, &format!("run.{run}")).next_u64()
    }

    /// The seed of selection run number `run` (from 0), in which the path of `tcp` is chosen. It differs
    /// from the seeds of the runs in which `tcp` is then compared.
    pub fn selection_seed(&self, run: u32) -> u64 {
        anabranch_units::RandomStream::new(self.seed, &format!("selection.{run}")).next_u64()
    }
}
