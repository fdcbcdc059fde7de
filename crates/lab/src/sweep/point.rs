//! The result of a point, as it is in the journal and in the table of a sweep.

use serde::{Deserialize, Serialize};

use crate::compare::Comparison;
use crate::report::difference;
use crate::report::verdict::Measure;
use crate::report::{Difference, Row};

/// The result of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The number of the point, from 0.
    pub point: usize,
    /// [`crate::scenario::Scenario::hash`] of the point.
    pub scenario_hash: String,
    /// Runs of each contender.
    pub runs: u32,
    /// Packets crossing a link, in the runs of the last comparison at this point.
    pub packet_hops: u64,
    /// One for each condition and contender.
    pub rows: Vec<PointRow>,
}

/// The result of a contender at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointRow {
    /// The condition; empty where there is only one.
    pub condition: String,
    /// The class of traffic, if the scenario has classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// Its kind; none in an old journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The contender.
    pub scheduler: String,
    /// Its congestion control.
    pub congestion: String,
    /// The path of a plain TCP; none for Multipath TCP.
    pub path: Option<String>,
    /// Flows, over all runs.
    pub flows: u64,
    /// Flows that were delivered before the deadline. (Bulk: that were not broken off.)
    pub completed: u64,
    /// The mean completion time.
    pub fct_mean_s: Option<f64>,
    /// The ends of its 95 % interval.
    pub fct_ci95_s: Option<(f64, f64)>,
    /// The median completion time.
    pub fct_p50_s: Option<f64>,
    /// The 95th percentile; none below 20 flows.
    pub fct_p95_s: Option<f64>,
    /// The 99th percentile; none below 100 flows.
    pub fct_p99_s: Option<f64>,
    /// The mean goodput of a flow.
    pub goodput_bps: Option<f64>,
    /// The ends of its 95 % interval.
    pub goodput_ci95_bps: Option<(f64, f64)>,
    /// The difference from the reference, in percent: of the mean completion time, for bulk of the goodput.
    pub vs_reference_pct: Option<f64>,
    /// The ends of its interval; those of all contenders hold together with 95 %.
    pub vs_reference_ci95_pct: Option<(f64, f64)>,
    /// The interpretation of that difference; none for the reference and without one.
    pub reading: Option<Reading>,
    /// True if the verdict names it among the best; always false if the verdict is undecided.
    pub best: bool,
    /// Segments retransmitted on their own subflow, over data segments sent.
    pub retransmitted_ratio: f64,
    /// Data segments reinjected on another subflow, over data segments sent.
    pub reinjected_ratio: f64,
    /// Retransmission timeouts per flow.
    pub rto_count: f64,
    /// The longest gap in the delivery of a flow, mean over flows; none in an old journal, and if nothing was delivered.
    #[serde(default)]
    pub longest_gap_s: Option<f64>,
    /// Subflows that sent payload, mean over flows.
    pub subflows_used: f64,
    /// The mean lower bound of the completion time.
    pub lower_bound_s: Option<f64>,
    /// Datagrams lost, over those sent; none for other traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_ratio: Option<f64>,
    /// The time for which a video stalled, mean; none for other traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_s: Option<f64>,
    /// The mean bitrate of videos; none for other traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitrate_bps: Option<f64>,
}

/// The interpretation of a difference from the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Better than the reference.
    Better,
    /// Practically equal.
    Equal,
    /// Worse than the reference.
    Worse,
    /// It cannot be told apart from the reference with this number of runs.
    Undecided,
    /// Flows of one of them did not finish.
    Incomplete,
}

impl Reading {
    /// Returns the interpretation of a difference from the reference; none for a single run.
    fn of(difference: &Difference, min_effect_pct: f64, of_bulk: bool) -> Option<Reading> {
        use difference::Reading as Read;
        Some(match difference.read(min_effect_pct)? {
            Read::Equal => Reading::Equal,
            Read::Undecided => Reading::Undecided,
            Read::Above if of_bulk => Reading::Better,
            Read::Below if !of_bulk => Reading::Better,
            Read::Above | Read::Below => Reading::Worse,
        })
    }

    /// Returns the name in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Reading::Better => "better",
            Reading::Equal => "equal",
            Reading::Worse => "worse",
            Reading::Undecided => "undecided",
            Reading::Incomplete => "incomplete",
        }
    }
}

impl PointResult {
    /// Returns the result of `comparison` at point number `point`.
    pub fn new(point: usize, comparison: &Comparison) -> PointResult {
        PointResult {
            point,
            scenario_hash: comparison.scenario_hash.clone(),
            runs: comparison.runs,
            packet_hops: comparison.performance.packet_hops,
            rows: comparison.rows.iter().map(|row| PointRow::new(comparison, row)).collect(),
        }
    }
}

impl PointRow {
    fn new(comparison: &Comparison, row: &Row) -> PointRow {
        let ends =
            |interval: Option<crate::stats::Interval>| interval.map(|interval| (interval.0, interval.1));
        let verdict = comparison.verdicts.iter().find(|verdict| {
            let same = verdict.condition == row.condition && verdict.traffic == row.traffic;
            same && verdict.measure != Measure::P95
        });
        let of_bulk = verdict.is_some_and(|verdict| verdict.measure == Measure::Goodput);
        let reference = comparison.rows.iter().find(|other| {
            let same = other.condition == row.condition && other.traffic == row.traffic;
            same && comparison.reference.as_ref() == Some(&other.scheduler)
        });
        let other = reference.filter(|reference| reference.scheduler != row.scheduler);
        let difference = row.vs_reference_pct.filter(|_| reference.is_none() || other.is_some());
        let misses = |row: &Row| row.completed < row.n;
        let reading = match (other, difference) {
            (Some(reference), _) if misses(reference) || misses(row) => Some(Reading::Incomplete),
            (_, Some(difference)) => Reading::of(&difference, comparison.min_effect_pct, of_bulk),
            _ => None,
        };
        PointRow {
            condition: row.condition.clone(),
            traffic: row.traffic.clone(),
            kind: row.kind.map(str::to_owned),
            scheduler: row.scheduler.clone(),
            congestion: row.congestion.clone(),
            path: row.path.clone(),
            flows: row.n as u64,
            completed: row.completed as u64,
            fct_mean_s: row.fct_s.mean,
            fct_ci95_s: ends(row.fct_s.ci95),
            fct_p50_s: row.fct_s.p50,
            fct_p95_s: row.fct_s.p95,
            fct_p99_s: row.fct_s.p99,
            goodput_bps: row.goodput_bps,
            goodput_ci95_bps: ends(row.goodput_ci95_bps),
            vs_reference_pct: difference.map(|difference| difference.mean),
            vs_reference_ci95_pct: difference.and_then(|difference| ends(difference.ci95)),
            reading,
            best: verdict.is_some_and(|verdict| verdict.best.contains(&row.scheduler)),
            retransmitted_ratio: row.retransmitted_ratio,
            reinjected_ratio: row.reinjected_ratio,
            rto_count: row.rto_count,
            longest_gap_s: row.longest_gap_s.mean,
            subflows_used: row.subflows_used,
            lower_bound_s: row.lower_bound_s,
            lost_ratio: row.datagrams.map(|datagrams| datagrams.lost_ratio),
            stalled_s: row.video.map(|video| video.stalled_s),
            bitrate_bps: row.video.and_then(|video| video.bitrate_bps),
        }
    }
}
