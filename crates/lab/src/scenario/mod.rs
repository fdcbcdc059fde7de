//! What an experiment is: paths, topology, traffic, contenders and conditions.
//!
//! A [`Document`] is a scenario file with the overrides of the command line; [`Document::scenario`]
//! reads it into a [`Scenario`], where everything is checked and nothing is left to choose.

mod canonical;
mod contender;
mod document;
pub mod knobs;
pub mod library;
pub mod parameters;
mod parse;
mod path;
mod phases;
mod suspicions;
mod traffic;

use anabranch_stack::config::{ConnectionConfig, Profile};
use anabranch_stack::congestion::CongestionKind;
use anabranch_units::{Bytes, Duration, Rate, Time};
use std::sync::Arc;

pub use contender::{Contender, Transport};
pub use document::{Document, sha256};
pub use phases::{PhaseChoice, Phases};

use anabranch_link::Trace;

use crate::units::QueueSize;

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
    /// The paths between client and server, in order.
    pub paths: Vec<Path>,
    /// A link that all paths share, in series with each of them.
    pub common: Option<CommonLink>,
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

/// One path between client and server: a link for the data and one for the acknowledgements.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Its name.
    pub name: String,
    /// Where in its traces a run begins.
    pub trace_start: TraceStart,
    /// How fast the data direction is.
    pub down: Capacity,
    /// How fast the direction of the acknowledgements is.
    pub up: Capacity,
    /// The round trip without load, half of it each way.
    pub rtt: Duration,
    /// The queue of either direction.
    pub queue: QueueSize,
    /// The queue from which on packets are marked, in either direction; none if none are.
    pub ecn_threshold: Option<QueueSize>,
    /// Loss in the data direction.
    pub loss: LossModel,
    /// Loss in the direction of the acknowledgements.
    pub loss_up: LossModel,
    /// Random delay of the data on top of the propagation delay.
    pub jitter: Option<Jitter>,
    /// Data packets that are held back to be overtaken: the probability, and how long.
    pub reorder: Option<(f64, Duration)>,
    /// The probability that a data packet arrives twice.
    pub duplicate: f64,
    /// Packets of the data direction to drop, by number from 1.
    pub drop: Vec<u64>,
    /// Packets with data and without are numbered apart, for what is lost and what is dropped.
    pub luck_apart: bool,
    /// Whether what waits stays when the path goes down.
    pub keep_when_down: bool,
    /// The longest packet that passes, in bytes with its IP header; none if any does.
    pub mtu: Option<u32>,
    /// Whether the sender hears of longer ones.
    pub reports_mtu: bool,
    /// Whether subflows over it ask to be backups.
    pub backup: bool,
    /// What changes, in order of time.
    pub changes: Vec<Change>,
}

/// How fast a link is.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// Always this.
    Rate(Rate),
    /// The delivery opportunities of a recording.
    Trace(TraceFile),
}

impl Capacity {
    /// The rate, or the mean rate of the trace.
    pub fn mean_rate(&self) -> Rate {
        match self {
            Capacity::Rate(rate) => *rate,
            Capacity::Trace(file) => file.trace.mean_rate(),
        }
    }
}

/// Where in a trace a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TraceStart {
    /// At its beginning, or with [`Phases`] at a random point.
    #[default]
    Beginning,
    /// So far behind it.
    At(Duration),
    /// In each run somewhere else, drawn from the run's seed: the same for all contenders.
    Random,
}

/// A recording in mahimahi's format.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile {
    /// The file as the scenario names it.
    pub name: String,
    /// SHA-256 of its text, in hexadecimal.
    pub sha256: String,
    /// The recording.
    pub trace: Arc<Trace>,
}

/// Random loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossModel {
    /// Each packet with this probability, independently.
    Bernoulli(f64),
    /// A channel that is good or bad for random times.
    GilbertElliott {
        /// Mean time in the good state.
        mean_good: Duration,
        /// Mean time in the bad state.
        mean_bad: Duration,
        /// Loss in the good state.
        loss_good: f64,
        /// Loss in the bad state.
        loss_bad: f64,
    },
}

impl LossModel {
    /// No loss.
    pub const NONE: LossModel = LossModel::Bernoulli(0.0);
}

/// Random delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// Uniform from zero to `max`.
    Uniform {
        /// The longest.
        max: Duration,
        /// Whether packets may overtake one another by it.
        reorder: bool,
    },
    /// Normal, cut off at zero and at twice the mean.
    Normal {
        /// The mean.
        mean: Duration,
        /// The standard deviation.
        deviation: Duration,
        /// Whether packets may overtake one another by it.
        reorder: bool,
    },
}

/// A change of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// When.
    pub at: Time,
    /// A new rate, of both directions.
    pub rate: Option<Rate>,
    /// A new round trip.
    pub rtt: Option<Duration>,
    /// A new loss in the data direction.
    pub loss: Option<f64>,
    /// A new loss in the direction of the acknowledgements.
    pub loss_up: Option<f64>,
    /// `Some(false)`: both directions go down; `Some(true)`: they come up again.
    pub up: Option<bool>,
}

/// A link in series with every path.
#[derive(Clone, Debug, PartialEq)]
pub struct CommonLink {
    /// Its rate, in both directions.
    pub rate: Rate,
    /// What it adds to the round trip of every path.
    pub rtt: Duration,
    /// Its queue, in either direction. A BDP is that of the greatest round trip of all paths.
    pub queue: QueueSize,
    /// The queue from which on packets are marked, in either direction; none if none are.
    pub ecn_threshold: Option<QueueSize>,
    /// Loss in the data direction.
    pub loss: LossModel,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// How much each flow sends.
    pub size: FlowSize,
    /// How many flows a run has.
    pub flows: u32,
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
