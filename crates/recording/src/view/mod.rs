//! A recording as figures need it: the report's page and `anabranch plot` draw the same numbers.

mod column;
mod events;
mod tables;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::read::{Facts, ReadError, Recorded, StoredOutage, StoredRun};

pub use column::{Column, base64};

/// The flows for which events, windows and round trips are read.
#[derive(Clone, Debug)]
pub struct Details {
    /// The flow that comes first, from 0; none: the slowest. Others follow as far as `most_events` allows, the slowest first.
    pub flow: Option<usize>,
    /// The number of flows at most; at least one is read.
    pub most_flows: usize,
    /// The number of events of data in the view at most. A flow with more is thinned out.
    pub most_events: usize,
}

/// A run directory as figures need it.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// The directory.
    pub file: String,
    /// The program, the command and the scenario.
    #[serde(flatten)]
    pub facts: Facts,
    /// [`Details::flow`].
    pub flow: Option<usize>,
    /// The runs with tables.
    pub runs: Vec<RunView>,
    /// The runs that have no tables, because they were killed.
    pub lost: Vec<String>,
}

/// A run of one contender.
#[derive(Clone, Debug, Serialize)]
pub struct RunView {
    /// The condition; empty if there is only one.
    pub condition: String,
    /// The contender.
    pub scheduler: String,
    /// The names of its paths, in the order of `bytes_by_path`.
    pub paths: Vec<String>,
    /// The times in which its paths are down, as far as they begin before its end.
    pub outages: Vec<StoredOutage>,
    /// True if the run ended.
    pub complete: bool,
    /// The time of the last event.
    pub end_ns: u64,
    /// All flows, in the order of their numbers.
    pub flows: Vec<FlowView>,
    /// Jain's index of the goodput of all flows that have one; none for fewer than two, and for several classes of traffic or
    /// one with an application that decides when it sends.
    pub jain: Option<f64>,
    /// The bytes that arrived first by each path, of the contender's flows together.
    pub bytes_by_path: Vec<u64>,
    /// The bytes delivered in order in each interval, of the contender's flows together.
    pub goodput: Goodput,
    /// The time that a segment waited for earlier data at the receiver, of the contender's flows together.
    pub reordering: Reordering,
    /// The queues of the links with the largest ones.
    pub queues: Vec<QueueView>,
    /// The number of links in the recording; `queues` has some of them.
    pub links: usize,
    /// The flows in detail.
    pub streams: Vec<Stream>,
}

/// A flow of a recorded run, as a whole.
#[derive(Clone, Debug, Serialize)]
pub struct FlowView {
    /// The name that tables have for it.
    pub name: String,
    /// The class of its traffic, if there are classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// The kind of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// False for competing and background flows, and for flows of a class that does not use the contender.
    pub own: bool,
    /// The stream of its data: `up` or `down`.
    pub direction: String,
    /// The time at which it started, from the start of the run.
    pub start_ns: u64,
    /// Its size; missing for bulk.
    pub size_bytes: Option<u64>,
    /// `completed`, `running`, `waiting`, or the reason of its failure.
    pub outcome: String,
    /// The time from its start to the delivery of its last byte.
    pub fct_ns: Option<u64>,
    /// Its goodput in bit/s.
    pub goodput_bps: Option<u64>,
}

/// Bytes delivered in order, by interval of time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Goodput {
    /// The length of an interval.
    pub bin_ns: u64,
    /// The bytes delivered in each interval.
    pub bytes: Vec<u64>,
}

impl Goodput {
    /// Returns the rate in bit/s in interval `at` of a run that ends at `end_ns`.
    pub fn bps(&self, at: usize, end_ns: u64) -> f64 {
        let begin = at as u64 * self.bin_ns;
        let span = self.bin_ns.min(end_ns.saturating_sub(begin)).max(1);
        8e9 * self.bytes[at] as f64 / span as f64
    }
}

/// The distribution of out-of-order delays.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reordering {
    /// The number of segments that arrived.
    pub segments: usize,
    /// The number of segments that never were in order.
    pub stuck: usize,
    /// Delays in nanoseconds and the share of the segments with at most that delay, ascending: all of them, or as many as
    /// a figure can show, the largest ones all.
    pub steps: Vec<(u64, f64)>,
}

/// The queue of a link over time.
#[derive(Clone, Debug, Serialize)]
pub struct QueueView {
    /// The name of the link, such as `fast.up`.
    pub link: String,
    /// Times.
    pub t_ns: Column,
    /// The maximum of the bytes in the queue since the time before.
    pub bytes: Column,
    /// The packets dropped since the time before.
    pub dropped: Column,
}

/// A flow in detail: the stream of its data.
#[derive(Clone, Debug, Serialize)]
pub struct Stream {
    /// The flow, from 0.
    pub flow: usize,
    /// `up` or `down`.
    pub direction: String,
    /// The subflows, in the order of their numbers.
    pub subflows: Vec<Subflow>,
    /// The time within which events are one; zero if all are shown.
    pub thinned_ns: u64,
    /// Data sent.
    pub sent: Sent,
    /// Data acknowledgements.
    pub acks: Acks,
}

/// A subflow with its windows and round trips over time.
#[derive(Clone, Debug, Serialize)]
pub struct Subflow {
    /// The number of the subflow in its connection, from 0.
    pub id: usize,
    /// Its name: the name of its path where that is known.
    pub name: String,
    /// Its path in the list of the run's, if known.
    pub path: Option<usize>,
    /// Times of the following columns.
    pub t_ns: Column,
    /// Congestion window.
    pub cwnd_bytes: Column,
    /// Slow-start threshold; -1 while it is infinite.
    pub ssthresh_bytes: Column,
    /// Bytes in flight.
    pub inflight_bytes: Column,
    /// Smoothed round-trip time; -1 before the first sample.
    pub srtt_us: Column,
}

/// The kinds of [`Sent::kind`].
pub const KINDS: [&str; 4] = ["sent", "retransmitted", "reinjected", "probe"];

/// Data sent, by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sent {
    /// Times.
    pub t_ns: Column,
    /// The first offset.
    pub from: Column,
    /// The offset after the data.
    pub to: Column,
    /// The place in [`Stream::subflows`].
    pub subflow: Column,
    /// The place in [`KINDS`].
    pub kind: Column,
}

/// Data acknowledgements that the sender received, by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Acks {
    /// Times.
    pub t_ns: Column,
    /// The DATA_ACK.
    pub ack: Column,
    /// The right edge of the peer's window; -1 if it is unknown.
    pub edge: Column,
}

impl FlowView {
    /// True for a transfer: its completion time and its goodput depend only on the network.
    pub fn is_transfer(&self) -> bool {
        self.kind.as_deref().is_none_or(|kind| kind == "transfer")
    }
}

impl View {
    /// Reads the run directory in `path`.
    ///
    /// # Errors
    /// If it is none, a table is missing or damaged, or a flow of `details` does not exist.
    pub fn read(path: &Path, details: &Details) -> Result<View, ReadError> {
        View::of(&Recorded::open(path)?, details, |_| true)
    }

    /// Reads the runs for which `wanted` is true.
    ///
    /// # Errors
    /// As [`View::read`].
    pub fn of(
        recorded: &Recorded,
        details: &Details,
        wanted: impl Fn(&StoredRun) -> bool,
    ) -> Result<View, ReadError> {
        let stored = &recorded.stored;
        let (with, without): (Vec<_>, Vec<_>) =
            stored.runs.iter().filter(|run| wanted(run)).partition(|run| recorded.has_tables(run));
        let mut outlines = Vec::with_capacity(with.len());
        for run in &with {
            outlines.push(tables::Outline::read(recorded, run)?);
        }
        let chosen = choose(recorded.path(), &outlines, details)?;
        let share = details.most_events / with.len().max(1);
        let mut runs = Vec::with_capacity(with.len());
        for (run, outline) in with.into_iter().zip(outlines) {
            runs.push(outline.finish(recorded, run, &chosen, share)?);
        }
        // As the contenders were given; a directory lists them by name.
        Ok(View {
            file: recorded.path().display().to_string(),
            facts: stored.facts.clone(),
            flow: details.flow,
            runs,
            lost: without.iter().map(|run| run.directory.clone()).collect(),
        })
    }

    /// True if a run was interrupted, or has no tables.
    pub fn is_partial(&self) -> bool {
        !self.facts.complete
    }
}

/// Returns the flows for which details are read: the same ones in all runs, so that contenders can be compared.
fn choose(path: &Path, outlines: &[tables::Outline], details: &Details) -> Result<Vec<usize>, ReadError> {
    if let Some(flow) = details.flow {
        let most = outlines.iter().map(|outline| outline.flows.len()).max().unwrap_or_default();
        if flow >= most {
            let has = match most {
                0 => "its runs have none".to_owned(),
                1 => "its runs have only flow 1".to_owned(),
                most => format!("its runs have flows 1 to {most}"),
            };
            return Err(ReadError::new(format!("{} has no flow {}: {has}", path.display(), flow + 1)));
        }
    }
    // The slowest flow is the one that a reader asks about. Unfinished ones are slower than any other, and among them, as
    // among bulk flows, those with the least goodput.
    let mut cost: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    for outline in outlines {
        for (at, flow) in outline.flows.iter().enumerate().filter(|(_, flow)| flow.own) {
            let events = outline.events.get(at).copied().unwrap_or_default();
            if events > 0 {
                let entry = cost.entry(at).or_default();
                let goodput = flow.goodput_bps.unwrap_or_default() as f64;
                entry.0 += flow.fct_ns.map_or(1e30 / (1.0 + goodput), |fct| fct as f64);
                entry.1 = entry.1.max(events);
            }
        }
    }
    let mut slowest: Vec<(usize, (f64, usize))> = cost.into_iter().collect();
    slowest.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let share = details.most_events / outlines.len().max(1);
    let events_of = |flow: usize| outlines.iter().filter_map(|outline| outline.events.get(flow)).max();
    let mut chosen: Vec<usize> = details.flow.into_iter().collect();
    let mut events = details.flow.and_then(events_of).copied().unwrap_or_default();
    for (flow, (_, more)) in slowest {
        if details.flow == Some(flow) {
            continue;
        }
        events += more;
        if !chosen.is_empty() && (events > share || chosen.len() >= details.most_flows) {
            break;
        }
        chosen.push(flow);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_the_last_interval_is_over_the_time_that_the_run_had() {
        let goodput = Goodput { bin_ns: 100_000_000, bytes: vec![1_000_000, 500_000] };
        assert_eq!((goodput.bps(0, 150_000_000), goodput.bps(1, 150_000_000)), (80e6, 80e6));
    }
}
