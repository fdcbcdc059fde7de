//! The values by which contenders are compared: one for each flow, or for each part of it such as a request.

use anabranch_sim::application::Burst;
use anabranch_sim::{AppReport, Failure, Outcome};
use serde::{Deserialize, Serialize};

use crate::run::FlowResult;
use crate::scenario::Kind;

/// The measure by which contenders are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The mean completion time of transfers.
    MeanTime,
    /// The mean goodput, for bulk.
    Goodput,
    /// The 95th percentile of completion times; for requests of response times.
    P95,
    /// The mean response time of requests.
    ResponseTime,
    /// The mean time that the viewer of a video waits: until playback starts, and in stalls.
    Waiting,
    /// The mean bitrate of videos.
    Bitrate,
    /// The mean one-way delay of datagrams.
    Delay,
    /// The mean delay of the last block of a period of sending.
    BurstDelay,
}

impl Measure {
    /// Returns its name in a sentence.
    pub const fn noun(self) -> &'static str {
        match self {
            Measure::MeanTime => "mean completion time",
            Measure::Goodput => "goodput",
            Measure::P95 => "95th-percentile time",
            Measure::ResponseTime => "mean response time",
            Measure::Waiting => "mean time of waiting (startup and stalls)",
            Measure::Bitrate => "mean bitrate",
            Measure::Delay => "mean one-way delay",
            Measure::BurstDelay => "mean delay of bursts",
        }
    }

    /// True if a difference of this sign is an improvement.
    pub(crate) fn is_better(self, difference: f64) -> bool {
        if self.is_gain() { difference > 0.0 } else { difference < 0.0 }
    }

    /// True for a rate in bit/s, where more is better; false for a time in seconds.
    pub const fn is_gain(self) -> bool {
        matches!(self, Measure::Goodput | Measure::Bitrate)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    /// The value: seconds, or bit/s; none if the flow or part did not end in time.
    pub value: Option<f64>,
    /// True if it ended in time.
    pub complete: bool,
    /// The reason, if it did not end because its flow has failed: more time would not help.
    pub failed: Option<Failure>,
    /// The number of flows or parts that it stands for: 0 for a place that another contender's runs fill and these do not,
    /// and any number for the requests that were never made.
    pub parts: usize,
}

impl Measured {
    const ABSENT: Measured = Measured { value: None, complete: true, failed: None, parts: 0 };

    fn new(flow: &FlowResult, value: Option<f64>, complete: bool) -> Measured {
        let failed = match flow.report.outcome {
            Outcome::Failed(failure) => Some(failure).filter(|_| !complete),
            _ => None,
        };
        Measured { value, complete, failed, parts: 1 }
    }

    /// Returns the parts of a flow that were never begun, of this number.
    pub(crate) fn missing(flow: &FlowResult, parts: usize) -> Measured {
        Measured { parts, ..Measured::new(flow, None, false) }
    }
}

/// Returns the number of flows or parts, of those with this property.
pub(crate) fn count(runs: &[Vec<Measured>], is: impl Fn(&Measured) -> bool) -> usize {
    runs.iter().flatten().filter(|value| is(value)).map(|value| value.parts).sum()
}

/// Returns the completion time of each flow, or its goodput if `bulk`.
pub(crate) fn of_flows(runs: &[Vec<&FlowResult>], bulk: bool) -> Vec<Vec<Measured>> {
    let of = |flow: &&FlowResult| {
        let value = match bulk {
            true => Some(flow.goodput().as_bps_f64()),
            false => flow.report.fct.map(|fct| fct.as_secs_f64()),
        };
        Measured::new(flow, value, flow.is_complete(bulk))
    };
    runs.iter().map(|run| run.iter().map(of).collect()).collect()
}

/// Returns the measures of a kind of traffic; the first is the one of tables and differences.
pub(crate) fn measures(kind: &Kind) -> Vec<Measure> {
    match kind {
        Kind::Transfer { .. } if kind.is_bulk() => vec![Measure::Goodput],
        Kind::Transfer { .. } => vec![Measure::MeanTime],
        Kind::Requests(_) => vec![Measure::ResponseTime],
        Kind::OnOff(_) => vec![Measure::BurstDelay],
        Kind::Datagrams(_) => vec![Measure::Delay],
        Kind::Video(plan) if plan.ladder.len() > 1 => vec![Measure::Waiting, Measure::Bitrate],
        Kind::Video(_) => vec![Measure::Waiting],
    }
}

/// Returns the values of a flow: one, or one for each of its parts. A flow without parts lacks one.
pub(crate) fn of_flow(flow: &FlowResult, measure: Measure) -> Vec<Measured> {
    let done = flow.report.outcome == Outcome::Completed;
    let mut parts = match (&flow.report.app, measure) {
        (AppReport::Requests(exchanges), _) => {
            let time = |exchange: &anabranch_sim::application::Exchange| {
                Measured::new(flow, exchange.time.map(|time| time.as_secs_f64()), exchange.time.is_some())
            };
            let mut parts: Vec<Measured> = exchanges.iter().map(time).collect();
            // Those that the deadline or a failure has prevented are missing, too.
            let planned = flow.planned.map_or(0, |count| count as usize);
            let missing = planned.saturating_sub(parts.len());
            parts.extend((missing > 0).then(|| Measured::missing(flow, missing)));
            parts
        }
        (AppReport::OnOff(bursts), _) => {
            let delay = |burst: &Burst| {
                Measured::new(flow, burst.delay.map(|delay| delay.as_secs_f64()), burst.delay.is_some())
            };
            let mut parts: Vec<Measured> = bursts.iter().map(delay).collect();
            // A sender that has failed lacks at least one burst, the next one.
            parts.extend(flow.has_failed().then(|| Measured::missing(flow, 1)));
            parts
        }
        (AppReport::Datagrams(report), _) => vec![Measured::new(flow, report.delay_mean_s, true)],
        (AppReport::Video(video), Measure::Bitrate) => vec![Measured::new(flow, video.bitrate_bps, done)],
        (AppReport::Video(video), _) => {
            let waiting = video.startup.map(|startup| (startup + video.stalled).as_secs_f64());
            vec![Measured::new(flow, waiting.filter(|_| done), done)]
        }
        (AppReport::Transfer, _) => {
            let bulk = measure == Measure::Goodput;
            of_flows(&[vec![flow]], bulk).remove(0)
        }
    };
    if parts.is_empty() {
        parts.push(Measured::missing(flow, 1));
    }
    parts
}

/// Returns the values of a class, by entrant and run. Those at the same place of a run belong to the same flow and the
/// same part of it, whatever the numbers of parts.
pub(crate) fn of_class(entrants: &[Vec<Vec<&FlowResult>>], measure: Measure) -> Vec<Vec<Vec<Measured>>> {
    let parts: Vec<Vec<Vec<Vec<Measured>>>> = entrants
        .iter()
        .map(|runs| runs.iter().map(|run| run.iter().map(|flow| of_flow(flow, measure)).collect()).collect())
        .collect();
    let most = parts.iter().flatten().flatten().map(Vec::len).max().unwrap_or(0);
    let padded = |mut parts: Vec<Measured>| {
        parts.resize(most, Measured::ABSENT);
        parts
    };
    parts
        .into_iter()
        .map(|runs| runs.into_iter().map(|run| run.into_iter().flat_map(padded).collect()).collect())
        .collect()
}
