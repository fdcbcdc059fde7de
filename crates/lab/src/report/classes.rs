//! Rows and findings of each class of traffic.

use anabranch_sim::AppReport;
use serde::Serialize;

use super::measured::{self, Measured};
use super::verdict::{self, Finding, Measure};
use super::{ByRun, Entrant, Row, Summary, difference, row, summarise, unseen};
use crate::run::FlowResult;
use crate::scenario::{Condition, Kind, Scenario, TrafficClass, Via};
use crate::stats;

/// The results of the videos of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct VideoRow {
    /// The time from the start of a video to the start of its playback.
    pub startup_s: Summary,
    /// Stalls of a video, mean.
    pub stalls: f64,
    /// The time for which a video stalled, mean.
    pub stalled_s: f64,
    /// The mean bitrate of the delivered segments, mean over videos, in bit/s.
    pub bitrate_bps: Option<f64>,
    /// Changes of the bitrate in a video, mean.
    pub switches: f64,
}

/// The results of the datagrams of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DatagramRow {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams lost, over those sent.
    pub lost_ratio: f64,
    /// The median of a stream's one-way delays, mean over streams.
    pub delay_p50_s: Option<f64>,
    /// The 95th percentile of a stream's one-way delays, mean over streams.
    pub delay_p95_s: Option<f64>,
    /// The 99th percentile, mean over streams.
    pub delay_p99_s: Option<f64>,
    /// The greatest of all streams.
    pub delay_max_s: Option<f64>,
    /// The difference between the delays of successive datagrams, mean over streams.
    pub jitter_s: Option<f64>,
}

/// Returns the flows of a class, by entrant and run.
fn flows<'a>(entrants: &[&Entrant<'a>], group: usize) -> Vec<Vec<Vec<&'a FlowResult>>> {
    let of_run =
        |run: &'a crate::run::RunResult| run.flows.iter().filter(|flow| flow.group == group).collect();
    entrants.iter().map(|entrant| entrant.runs.iter().map(of_run).collect()).collect()
}

/// Returns the rows of a condition, by class and entrant.
pub(super) fn rows(scenario: &Scenario, condition: &Condition, entrants: &[Entrant<'_>]) -> Vec<Row> {
    let all: Vec<&Entrant<'_>> = entrants.iter().collect();
    let reference =
        entrants.iter().position(|entrant| entrant.listed && Some(entrant.contender) == scenario.reference);
    let mut rows = Vec::new();
    for (group, class) in condition.experiment.classes.iter().enumerate() {
        let flows = flows(&all, group);
        let measure = measured::measures(&class.kind)[0];
        let values = measured::of_class(&flows, measure);
        let bounds = unseen::Bounds::new(condition, &all, &values, measure);
        let differences = difference::against(&values, entrants, reference, &bounds, scenario.seed);
        let unseen = bounds.of_means();
        for (at, entrant) in entrants.iter().enumerate() {
            let mut row = class_row(condition, class, &flows[at], &values[at], scenario.seed);
            row.vs_reference_pct = differences[at];
            row.fct_s.add_unseen(unseen[at]);
            row.scheduler.clone_from(&entrant.name);
            row.congestion = match class.via {
                Via::Contender => condition.configs[entrant.contender].congestion.name().to_owned(),
                Via::Tcp(_) => condition.plain.congestion.name().to_owned(),
                Via::Udp(_) => "none".to_owned(),
            };
            let path = match class.via {
                // A plain TCP has a path for each class.
                Via::Contender => entrant.path.and_then(|_| super::only_path(&flows[at])),
                Via::Tcp(_) | Via::Udp(_) => super::only_path(&flows[at]),
            };
            row.path = path.map(|path| condition.experiment.paths()[path].name.clone());
            rows.push(row);
        }
    }
    rows
}

fn class_row(
    condition: &Condition,
    class: &TrafficClass,
    runs: &[Vec<&FlowResult>],
    values: &[Vec<Measured>],
    seed: u64,
) -> Row {
    let bulk = class.kind.is_bulk();
    let mut row = row(condition, runs, bulk, seed);
    row.traffic = Some(class.name.clone());
    row.kind = Some(class.kind.name());
    row.transport = Some(class.via.name());
    if let Kind::Transfer { .. } = class.kind {
        return row;
    }
    let parts = || values.iter().flatten().filter(|value| value.exists);
    row.n = parts().count();
    row.completed = parts().filter(|value| value.complete).count();
    row.failed = parts().filter(|value| value.failed.is_some()).count();
    let times: Vec<Vec<f64>> =
        values.iter().map(|run| run.iter().filter_map(|value| value.value).collect()).collect();
    row.fct_s = summarise(&times, seed);
    row.by_run = ByRun {
        completed: values
            .iter()
            .map(|run| run.iter().filter(|value| value.exists && value.complete).count())
            .collect(),
        fct_s: times.iter().map(|run| stats::mean(run)).collect(),
        ..row.by_run
    };
    let mut videos = Vec::new();
    let mut streams = Vec::new();
    for run in runs {
        let of = |flow: &&FlowResult| match flow.report.app {
            AppReport::Video(video) => (Some(video), None),
            AppReport::Datagrams(stream) => (None, Some(stream)),
            _ => (None, None),
        };
        let (own_videos, own_streams): (Vec<_>, Vec<_>) = run.iter().map(of).unzip();
        videos.push(own_videos.into_iter().flatten().collect::<Vec<_>>());
        streams.extend(own_streams.into_iter().flatten());
    }
    let mean = |values: Vec<f64>| stats::mean(&values);
    match class.kind {
        Kind::Video(_) => {
            let startups: Vec<Vec<f64>> = videos
                .iter()
                .map(|run| run.iter().filter_map(|video| Some(video.startup?.as_secs_f64())).collect())
                .collect();
            let all = || videos.iter().flatten();
            row.video = Some(VideoRow {
                startup_s: summarise(&startups, seed),
                stalls: mean(all().map(|video| f64::from(video.stalls)).collect()).unwrap_or(0.0),
                stalled_s: mean(all().map(|video| video.stalled.as_secs_f64()).collect()).unwrap_or(0.0),
                bitrate_bps: mean(all().filter_map(|video| video.bitrate_bps).collect()),
                switches: mean(all().map(|video| f64::from(video.switches)).collect()).unwrap_or(0.0),
            });
        }
        Kind::Datagrams(_) => {
            let (sent, received) =
                streams.iter().fold((0, 0), |sum, one| (sum.0 + one.sent, sum.1 + one.received));
            let delay =
                |of: fn(&anabranch_sim::application::DatagramReport) -> Option<anabranch_units::Duration>| {
                    streams.iter().filter_map(|stream| Some(of(stream)?.as_secs_f64())).collect::<Vec<_>>()
                };
            row.datagrams = Some(DatagramRow {
                sent,
                received,
                lost_ratio: if sent > 0 { (sent - received) as f64 / sent as f64 } else { 0.0 },
                delay_p50_s: mean(delay(|stream| stream.delay_p50)),
                delay_p95_s: mean(delay(|stream| stream.delay_p95)),
                delay_p99_s: mean(delay(|stream| stream.delay_p99)),
                delay_max_s: delay(|stream| stream.delay_max).into_iter().reduce(f64::max),
                jitter_s: mean(streams.iter().filter_map(|stream| stream.jitter_s).collect()),
            });
        }
        _ => {}
    }
    row
}

/// Returns the findings of a condition: for each class by each of its measures, and for short transfers and requests by
/// the 95th percentile.
pub(super) fn findings(scenario: &Scenario, condition: &Condition, listed: &[&Entrant<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (group, class) in condition.experiment.classes.iter().enumerate() {
        let flows = flows(listed, group);
        for measure in measured::measures(&class.kind) {
            let values = measured::of_class(&flows, measure);
            let contest = verdict::Contest {
                scenario,
                condition,
                listed,
                values: &values,
                measure,
                class: Some(class),
            };
            let size = match &class.kind {
                Kind::Transfer { size, .. } => size.mean(),
                Kind::Requests(plan) => Some(plan.response.mean()),
                _ => None,
            };
            findings.extend(contest.findings(size.filter(|_| measure != Measure::Bitrate)));
        }
    }
    findings
}
