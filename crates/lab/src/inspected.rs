//! Connections of captures: their scenarios, and how well the simulation of a connection matches its capture.

use anabranch_inspect::scenario::{Draft, NoScenario, scenario};
use anabranch_inspect::{ConnectionReport, Inspection, Pattern, ProtocolName};
use serde::Serialize;

use crate::compare::{Comparison, compare};
use crate::options::Options;
use crate::run::RunError;
use crate::scenario::{Document, Scenario};
use crate::stats::Interval;

/// The name of the scenario in errors.
pub const NAME: &str = "the scenario of the capture";

/// A measure of the capture and of its simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Match {
    /// Its name and unit.
    pub measure: String,
    /// Its value in the capture.
    pub captured: f64,
    /// Its value in the simulation: of times the median of the runs.
    pub simulated: f64,
    /// The 95 % interval of the mean of times.
    pub ci95: Option<Interval>,
}

/// The simulation of a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulation {
    /// The number of the connection in its capture.
    pub connection: usize,
    /// The scenario as TOML.
    pub scenario: String,
    /// The measures of both.
    pub matches: Vec<Match>,
    /// The comparison with other contenders.
    pub comparison: Comparison,
}

/// Returns the connection that is simulated: the only one, or the one that delivered most; none if there is none.
pub fn chosen(inspection: &Inspection) -> Option<&ConnectionReport> {
    let bytes = |connection: &&ConnectionReport| {
        connection.streams.iter().map(|stream| stream.delivered_bytes).max().unwrap_or(0)
    };
    inspection.connections.iter().max_by_key(bytes)
}

/// Returns the scenario of a connection; its first contender has `scheduler` and `congestion`, or the ones of Linux and of the
/// capture.
///
/// # Errors
/// If too little was sent to know a path.
pub fn draft(
    inspection: &Inspection,
    connection: &ConnectionReport,
    scheduler: Option<&str>,
    congestion: Option<&str>,
) -> Result<Draft, NoScenario> {
    let file = inspection.files.get(connection.file).map_or("-", |file| file.name.as_str());
    let name = if file == "-" { "standard input" } else { file };
    let default = if connection.protocol == ProtocolName::Mptcp { "linux" } else { "tcp" };
    let congestion = congestion.or(sampled_congestion(connection)).unwrap_or("cubic_linux");
    scenario(connection, name, scheduler.unwrap_or(default), congestion)
}

/// Returns the congestion control of a simulation that is nearest to the kernel's, if it was sampled and there is one.
fn sampled_congestion(connection: &ConnectionReport) -> Option<&'static str> {
    let direction = connection.main_direction();
    let sent = connection.subflows.iter().map(|subflow| &subflow.directions[direction]);
    let main = sent.max_by_key(|own| own.data_segments)?;
    match main.kernel.as_ref()?.congestion.as_str() {
        "cubic" => Some("cubic_linux"),
        "reno" => Some("newreno"),
        "bbr" => Some("bbr"),
        _ => None,
    }
}

/// Simulates the scenario of a connection: first with the losses of the capture, then with other contenders. Returns the scenario
/// of the latter too.
///
/// # Errors
/// If the scenario is not valid, or the simulation was cancelled.
pub fn simulate(
    connection: &ConnectionReport,
    draft: &Draft,
    options: &Options<'_>,
) -> Result<(Simulation, Scenario), RunError> {
    let read = |text: &str| {
        let read = Document::built_in(NAME, text.to_owned()).and_then(|document| document.scenario());
        read.map_err(RunError::Scenario)
    };
    let scenario = read(&draft.toml)?;
    let same = compare(&read(&draft.replay)?, options)?;
    let comparison = compare(&scenario, options)?;
    let matches = matches(connection, draft, &same);
    let toml = draft.toml.clone();
    Ok((Simulation { connection: connection.number, scenario: toml, matches, comparison }, scenario))
}

/// Compares the capture with the first contender.
fn matches(connection: &ConnectionReport, draft: &Draft, comparison: &Comparison) -> Vec<Match> {
    let Some(row) = comparison.rows.first() else { return Vec::new() };
    let stream = &connection.streams[draft.direction];
    let mut found = Vec::new();
    let turns = connection.application.turns.get(..draft.turns).unwrap_or_default();
    let mean_turn_s = || {
        let sum: f64 = turns.iter().map(|turn| turn.time_s).sum();
        (!turns.is_empty()).then(|| sum / turns.len() as f64)
    };
    // The losses are the same as in the capture, so runs differ by their phases only; the median is one of them.
    let times = match connection.application.pattern {
        // Each run has all turns, so that their mean is a value of one run.
        Pattern::Requests if draft.turns > 0 => ("mean response time, s", mean_turn_s(), row.fct_s.mean),
        Pattern::Bursts if draft.turns > 0 => ("mean delay of bursts, s", mean_turn_s(), row.fct_s.mean),
        _ => ("completion, s", stream.fct_s, row.fct_s.p50),
    };
    if let (measure, Some(captured), Some(simulated)) = times {
        found.push(Match { measure: measure.to_owned(), captured, simulated, ci95: row.fct_s.ci95 });
    }
    let all: u64 = row.bytes_by_path.iter().sum();
    for (at, bytes) in draft.paths.iter().zip(&row.bytes_by_path).filter(|_| all > 0) {
        let Some(subflow) = connection.subflows.get(*at) else { continue };
        found.push(Match {
            measure: format!("share of path{}, %", at + 1),
            captured: subflow.directions[draft.direction].share_pct,
            simulated: 100.0 * *bytes as f64 / all as f64,
            ci95: None,
        });
    }
    for (name, captured, simulated) in [
        ("retransmitted, %", stream.retransmitted_ratio, row.retransmitted_ratio),
        ("reinjected, %", stream.reinjected_ratio, row.reinjected_ratio),
    ] {
        let measure = name.to_owned();
        found.push(Match { measure, captured: captured * 100.0, simulated: simulated * 100.0, ci95: None });
    }
    found
}
