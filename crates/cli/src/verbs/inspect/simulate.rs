//! `--scenario` and `--simulate`: a connection of a capture as a scenario, and how well its simulation matches.

use std::path::Path;

use anabranch_inspect::scenario::{Draft, scenario};
use anabranch_inspect::{ConnectionReport, Inspection, ProtocolName};
use anabranch_lab::compare::{Comparison, compare};
use anabranch_lab::figures::{about, signed_percent};
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;
use anabranch_lab::stats::Interval;
use anabranch_lab::whole_file;
use serde::Serialize;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::{Align, Table, wrap};
use crate::{interrupt, output, terminal};

/// A measure of the capture and of its simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Match {
    measure: String,
    captured: f64,
    /// Its value in the simulation: of times the median of the runs.
    simulated: f64,
    /// The 95 % interval of the mean of times.
    ci95: Option<Interval>,
}

/// The simulation of a connection.
#[derive(Debug, Serialize)]
pub(super) struct Simulation {
    connection: usize,
    /// The scenario as TOML.
    scenario: String,
    /// The measures of both.
    matches: Vec<Match>,
    /// The comparison with other contenders.
    comparison: Comparison,
}

/// Returns the connection that is simulated: the only one, or the one that delivered most.
pub(super) fn chosen(inspection: &Inspection) -> Result<&ConnectionReport, Failure> {
    let bytes = |connection: &&ConnectionReport| {
        connection.streams.iter().map(|stream| stream.delivered_bytes).max().unwrap_or(0)
    };
    let most = inspection.connections.iter().max_by_key(bytes);
    most.ok_or_else(|| Failure::Usage("the capture has no connection".to_owned()))
}

/// Returns the scenario of a connection.
pub(super) fn draft(
    inspection: &Inspection,
    connection: &ConnectionReport,
    scheduler: Option<&str>,
    congestion: Option<&str>,
) -> Result<Draft, Failure> {
    let file = inspection.files.get(connection.file).map_or("-", |file| file.name.as_str());
    let name = if file == "-" { "standard input" } else { file };
    let default = if connection.protocol == ProtocolName::Mptcp { "linux" } else { "tcp" };
    let scheduler = scheduler.unwrap_or(default);
    let congestion = congestion.or(super::kernel::congestion(connection)).unwrap_or("cubic_linux");
    let drafted = scenario(connection, name, scheduler, congestion);
    drafted.map_err(|error| Failure::Usage(error.to_string()))
}

/// Writes the scenario, unless there is a file of that name.
pub(super) fn write(path: &Path, draft: &Draft) -> Result<(), Failure> {
    if path == Path::new("-") {
        return output::print(&draft.toml);
    }
    whole_file::write(path, &draft.toml).map_err(|error| Failure::unwritable(path, &error))?;
    output::remark(format!("wrote the scenario {}", path.display()));
    Ok(())
}

/// Advises on the scenario of a connection.
pub(super) fn advise(draft: Draft, jobs: usize, json: bool) -> Result<(), Failure> {
    let document = Document::built_in("the scenario of the capture", draft.toml)?;
    if document.scenario()?.conditions[0].experiment.paths().len() < 2 {
        let text = "the connection has one path with data, and advice is about a second one; \
                    `--scenario FILE` writes it, and a `[[path]]` can be added there";
        return Err(Failure::Usage(text.to_owned()));
    }
    super::super::advise::on(&document, jobs, json)
}

/// Simulates the scenario of a connection.
pub(super) fn simulate(
    connection: &ConnectionReport,
    draft: Draft,
    jobs: usize,
) -> Result<(Simulation, String), Failure> {
    let cancelled = interrupt::watch();
    let document = Document::built_in("the scenario of the capture", draft.toml.clone())?;
    let scenario = document.scenario()?;
    let replay = Document::built_in("the scenario of the capture", draft.replay.clone())?.scenario()?;
    let progress = Progress::new();
    let update = |done, total| progress.update(done, total);
    let options = Options::new(jobs, cancelled, &update);
    let result = compare(&replay, &options).and_then(|same| Ok((same, compare(&scenario, &options)?)));
    let wall = progress.finish();
    let (same, mut comparison) = result?;
    comparison.performance.wall_s = wall.as_secs_f64();
    let matches = matches(connection, &draft, &same);
    let text = anabranch_show::compare::text(&scenario, &comparison, false);
    let simulation = Simulation { connection: connection.number, scenario: draft.toml, matches, comparison };
    Ok((simulation, text))
}

/// Compares the capture with the first contender.
fn matches(connection: &ConnectionReport, draft: &Draft, comparison: &Comparison) -> Vec<Match> {
    let Some(row) = comparison.rows.first() else { return Vec::new() };
    let stream = &connection.streams[draft.direction];
    let mut found = Vec::new();
    // The losses are the same as in the capture, so runs differ by their phases only; the median is one of them.
    if let (Some(captured), Some(simulated)) = (stream.fct_s, row.fct_s.p50) {
        found.push(Match { measure: "completion, s".to_owned(), captured, simulated, ci95: row.fct_s.ci95 });
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

/// Returns the result for people: the match, then the comparison.
pub(super) fn text(simulation: &Simulation, comparison: &str) -> String {
    let width = terminal::text_width();
    let mut table = Table::new()
        .column(&format!("connection {}", simulation.connection), Align::Left)
        .column("captured", Align::Decimal)
        .column("simulated", Align::Decimal)
        .column("95 % interval", Align::Right)
        .column("difference", Align::Right);
    for one in &simulation.matches {
        let interval =
            one.ci95.map_or(String::new(), |Interval(low, high)| format!("{}..{}", about(low), about(high)));
        let difference = if one.measure.starts_with("completion") && one.captured > 0.0 {
            signed_percent(100.0 * (one.simulated / one.captured - 1.0))
        } else {
            String::new()
        };
        table.row(vec![one.measure.clone(), about(one.captured), about(one.simulated), interval, difference]);
    }
    let scheduler = simulation.comparison.rows.first().map_or("", |row| row.scheduler.as_str());
    let intro = wrap(
        &format!("The paths of the capture, simulated with `{scheduler}`, and then with other contenders:"),
        width,
    );
    format!("{intro}\n{}\n{comparison}", table.render(width))
}
