//! Small random shifts of each run.
//!
//! Drop-tail queues are chaotic: whether a segment finds a full queue may depend on microseconds. In a
//! scenario without random loss all runs would be the same, and the result one of many that no user could
//! distinguish. Each run of a comparison therefore draws its *phases*: the starts of flows, the delays of
//! paths, the delay before a host opens additional subflows, the positions in traces, and some host jitter
//! for every packet. They are derived from the run's seed, so all contenders have the same ones.

use anabranch_units::Duration;

/// The limits of the shifts between runs. Each limit also depends on the round-trip time, so that a phase
/// stays small compared with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phases {
    /// The latest start of a flow; also limited to 1/20 of the shortest round-trip time.
    pub start: Duration,
    /// The longest delay before a host opens additional subflows; also limited to 1/50 of the shortest
    /// round-trip time.
    pub join: Duration,
    /// The largest change of the delay of each direction of a path; also limited to 1/200 of its round-trip
    /// time.
    pub delay: Duration,
    /// The longest additional delay of a packet; also limited to 1/200 of the path's round-trip time.
    pub jitter: Duration,
    /// True if traces without a `trace-start` begin at a random position.
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
    /// Returns the longest delay of a flow's start, given the shortest round-trip time.
    pub fn start_limit(&self, shortest_rtt: Duration) -> Duration {
        self.start.min(shortest_rtt / 20)
    }

    /// Returns the longest delay before additional subflows are opened, given the shortest round-trip time.
    pub fn join_limit(&self, shortest_rtt: Duration) -> Duration {
        self.join.min(shortest_rtt / 50)
    }

    /// Returns the largest change of a path's delay.
    pub fn delay_limit(&self, rtt: Duration) -> Duration {
        self.delay.min(rtt / 200)
    }

    /// Returns the largest jitter on a path.
    pub fn jitter_limit(&self, rtt: Duration) -> Duration {
        self.jitter.min(rtt / 200)
    }
}

/// The phases of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PhaseChoice {
    /// Not set: a comparison draws phases, and `anabranch run` does not.
    #[default]
    Unset,
    /// Neither draws phases.
    Off,
    /// Both draw phases with these limits.
    On(Phases),
}

impl PhaseChoice {
    /// Returns the phases of a comparison's runs.
    pub fn in_comparison(self) -> Option<Phases> {
        match self {
            PhaseChoice::Unset => Some(Phases::default()),
            PhaseChoice::Off => None,
            PhaseChoice::On(phases) => Some(phases),
        }
    }

    /// Returns the phases of a single run.
    pub fn in_single_run(self) -> Option<Phases> {
        match self {
            PhaseChoice::On(phases) => Some(phases),
            PhaseChoice::Unset | PhaseChoice::Off => None,
        }
    }
}
