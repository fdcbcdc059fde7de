//! Small random shifts of each run.
//!
//! Drop-tail queues are chaotic: whether a segment meets a full queue may depend on microseconds. In a
//! scenario without random loss all runs would be the same, and the result one draw of many that no
//! user would tell apart. So each run of a comparison draws its *phases*: the starts of flows, the
//! delays of paths, the delay before a host opens further subflows, the starting points in traces, and
//! some host jitter for every packet. They come from the run's seed, so all contenders meet the same ones.

use anabranch_units::Duration;

use crate::reader::Reader;
use crate::source::Problem;
use crate::tree::{Node, Value};

/// How far runs are shifted against each other. Each limit also depends on the round trip, so that a
/// phase stays small beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phases {
    /// A flow starts at most this much later, or 1/20 of the shortest round trip.
    pub start: Duration,
    /// A host opens further subflows at most this much later, or 1/50 of the shortest round trip.
    pub join: Duration,
    /// The delay of each direction of a path is at most this much longer or shorter, or 1/200 of its
    /// round trip.
    pub delay: Duration,
    /// A packet arrives at most this much later, or 1/200 of the path's round trip.
    pub jitter: Duration,
    /// Whether traces without a `trace-start` begin at a random point.
    pub traces: bool,
}

impl Default for Phases {
    fn default() -> Phases {
        Phases {
            start: Duration::from_micros(500),
            join: Duration::from_micros(200),
            delay: Duration::from_micros(100),
            jitter: Duration::from_micros(20),
            traces: true,
        }
    }
}

impl Phases {
    /// The greatest delay of a flow's start where this is the shortest round trip.
    pub fn start_limit(&self, shortest_rtt: Duration) -> Duration {
        self.start.min(shortest_rtt / 20)
    }

    /// The greatest delay before further subflows are opened, where this is the shortest round trip.
    pub fn join_limit(&self, shortest_rtt: Duration) -> Duration {
        self.join.min(shortest_rtt / 50)
    }

    /// The greatest shift of a path's delay.
    pub fn delay_limit(&self, rtt: Duration) -> Duration {
        self.delay.min(rtt / 200)
    }

    /// The greatest jitter on a path.
    pub fn jitter_limit(&self, rtt: Duration) -> Duration {
        self.jitter.min(rtt / 200)
    }
}

/// The phases of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PhaseChoice {
    /// Nothing: a comparison draws them, and `anabranch run` does not.
    #[default]
    Unset,
    /// Nobody draws them.
    Off,
    /// Both draw these.
    On(Phases),
}

impl PhaseChoice {
    /// The phases of a comparison's runs.
    pub fn in_comparison(self) -> Option<Phases> {
        match self {
            PhaseChoice::Unset => Some(Phases::default()),
            PhaseChoice::Off => None,
            PhaseChoice::On(phases) => Some(phases),
        }
    }

    /// The phases of a single run.
    pub fn in_single_run(self) -> Option<Phases> {
        match self {
            PhaseChoice::On(phases) => Some(phases),
            PhaseChoice::Unset | PhaseChoice::Off => None,
        }
    }
}

/// The keys of `[phases]`.
pub(super) const KEYS: &[&str] = &["start", "join", "delay", "jitter", "traces"];

/// Reads `phases`: true, false, or a table of limits.
pub(super) fn read(node: &Node) -> Result<PhaseChoice, Problem> {
    if !matches!(&node.value, Value::Table(_)) {
        return Ok(match node.boolean()? {
            true => PhaseChoice::On(Phases::default()),
            false => PhaseChoice::Off,
        });
    }
    let table = Reader::of(node, "phases", KEYS)?;
    let default = Phases::default();
    Ok(PhaseChoice::On(Phases {
        start: table.optional("start", Node::delay)?.unwrap_or(default.start),
        join: table.optional("join", Node::delay)?.unwrap_or(default.join),
        delay: table.optional("delay", Node::delay)?.unwrap_or(default.delay),
        jitter: table.optional("jitter", Node::delay)?.unwrap_or(default.jitter),
        traces: table.optional("traces", Node::boolean)?.unwrap_or(default.traces),
    }))
}
