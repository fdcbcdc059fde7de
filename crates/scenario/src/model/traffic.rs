//! The traffic of an experiment: transfers of one kind.

use anabranch_sim::distribution::Distribution;
use anabranch_sim::traffic::Sizes;
use anabranch_stack::congestion::CongestionKind;
use anabranch_units::{Bytes, Duration, Time};

/// The flows of a scenario without classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The size of each flow.
    pub size: FlowSize,
    /// The number of flows of a run.
    pub flows: u32,
    /// The number of pairs, the first of [`Experiment::pairs`](crate::Experiment::pairs), among which the flows alternate.
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
    pub beside: Vec<Beside>,
}

/// The size of each flow, or no end.
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
    /// The number of background flows in each run.
    pub flows: u32,
    /// The time at which they start.
    pub start: Time,
}

/// A kind of plain TCP flows with the same traffic that compete with the contender's.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// Its name in results; none where it is the only kind, unless it has one.
    pub name: Option<String>,
    /// The number of plain TCPs in each run.
    pub flows: u32,
    /// The positions of their pairs, among which they alternate.
    pub pairs: Vec<usize>,
    /// The position of their path; none: the best one, measured with only these flows.
    pub path: Option<usize>,
    /// Their congestion control; none: the connections' own, or NewReno if that is coupled.
    pub congestion: Option<CongestionKind>,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            size: FlowSize::Web { max: None },
            flows: 1,
            pairs: 1,
            start: Start::Together(Time::ZERO),
            direction: Direction::Download,
            duration: Duration::from_secs(10),
            size_known: true,
            background: Vec::new(),
            beside: Vec::new(),
        }
    }
}

impl FlowSize {
    /// Returns the simulator's distribution.
    pub fn sizes(&self) -> Sizes {
        match (self, Sizes::WEB) {
            (FlowSize::Fixed(size), _) => Sizes::Fixed(*size),
            (FlowSize::Drawn(distribution), _) => Sizes::Drawn(distribution.clone()),
            (FlowSize::Bulk, _) => Sizes::Bulk,
            (FlowSize::Web { max }, Sizes::Pareto { shape, scale, .. }) => {
                Sizes::Pareto { shape, scale, max: *max }
            }
            (FlowSize::Web { .. }, other) => other,
        }
    }

    /// Returns the mean size in bytes; none for bulk.
    pub fn mean(&self) -> Option<f64> {
        Some(self.sizes().mean()).filter(|mean| mean.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_like_sizes_have_the_mean_that_is_printed() {
        assert_eq!(FlowSize::Web { max: None }.mean(), Some(57_000.0));
        assert_eq!(FlowSize::Bulk.mean(), None);
        let cut = FlowSize::Web { max: Some(Bytes(87_000)) }.mean().unwrap();
        assert!(cut > 19_000.0 && cut < 57_000.0, "{cut}");
    }
}
