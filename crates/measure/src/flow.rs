//! The result of a flow, from which every measure is computed.

use anabranch_sim::application::{DatagramReport, VideoReport};
use anabranch_sim::{AppReport, FlowReport, Outcome};
use anabranch_units::{Duration, Rate};

/// The owner of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A flow of the compared contender.
    Contender,
    /// A plain TCP with the same traffic that competes with the contender.
    Beside,
    /// A plain TCP, or datagrams, of a class of traffic that does not use the contender.
    Other,
}

/// A flow after the end of its run, with its place in the scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowResult {
    /// Its owner.
    pub class: Class,
    /// The position of its class of traffic, or of its kind of competing TCPs; 0 if there are none.
    pub group: usize,
    /// The position of its pair of hosts.
    pub pair: usize,
    /// The simulator's report.
    pub report: FlowReport,
    /// The position of the path of its initial subflow.
    pub path: usize,
    /// Data segments that its sender has reinjected on another subflow.
    pub reinjected_segments: u64,
    /// The lower bound on the time to deliver its delivered data; none for an application other than a transfer.
    pub lower_bound: Option<Duration>,
    /// The time it had: until the end of the run, if it did not end before.
    pub time: Duration,
    /// The number of requests that it is to make, if the scenario has their number and no duration.
    pub planned: Option<u64>,
}

impl FlowResult {
    /// Returns the unique bytes over the time they took.
    pub fn goodput(&self) -> Rate {
        Rate::from_bytes_over(self.report.delivered, self.time)
    }

    /// True if it was delivered, or, if `bulk`, was not aborted.
    pub fn is_complete(&self, bulk: bool) -> bool {
        self.report.fct.is_some() || (bulk && !self.has_failed())
    }

    /// True if its connection ended before the flow was complete.
    pub fn has_failed(&self) -> bool {
        matches!(self.report.outcome, Outcome::Failed(_))
    }

    /// Returns the playback, if it is a video.
    pub fn video(&self) -> Option<VideoReport> {
        match self.report.app {
            AppReport::Video(video) => Some(video),
            _ => None,
        }
    }

    /// Returns the stream, if it consists of datagrams.
    pub fn datagrams(&self) -> Option<DatagramReport> {
        match self.report.app {
            AppReport::Datagrams(stream) => Some(stream),
            _ => None,
        }
    }
}
