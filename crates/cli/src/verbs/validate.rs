//! `anabranch validate`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anabranch_lab::scenario::Document;
use anabranch_validate::campaign::{self, Tally};
use anabranch_validate::compare::{Row, Verdict};
use anabranch_validate::grid::{self, Which};
use anabranch_validate::machine::Machine;
use anabranch_validate::pcap::Captures;
use anabranch_validate::points::{Point, PointError};
use anabranch_validate::record::{self, Held, Judgement};
use anabranch_validate::results::{Results, Trouble};
use anabranch_validate::summary::{self, Summary, is_main};
use anabranch_validate::{Campaign, Plan};
use serde::Serialize;

use crate::args::{Capture, Common, Show, whole};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::{Align, Table, wrap_behind};
use crate::terminal::{BAD, GOOD, WARNING, paint};
use crate::{interrupt, output, terminal};

/// Validates the simulator: the same transfer simulated, emulated, and by the Linux kernel
#[derive(clap::Args)]
#[command(long_about = LONG, after_help = "Examples:\n    \
    sudo anabranch validate --quick\n    \
    sudo anabranch validate --full --results fidelity.jsonl\n    \
    anabranch validate --recorded\n    \
    sudo anabranch validate --full --kind failures --time-limit 8 --results fidelity.jsonl\n    \
    sudo anabranch validate mine.toml --set 'schedulers=[\"linux\"]' --runs 5\n    \
    sudo anabranch validate --full --point 'mptcp 25M/10ms/1 + 5M' --runs 1 --pcap x.pcapng")]
pub(crate) struct Args {
    /// Scenario files, or names of `anabranch list scenarios`: each of their contenders under each condition
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Measure a few points of the grid with short transfers, in under two minutes, and compare with the
    /// recorded table: fails if a difference has grown
    #[arg(long, conflicts_with_all = ["full", "scenarios"])]
    quick: bool,
    /// Measure the whole grid, in at most two hours
    #[arg(long, conflicts_with = "scenarios", group = "grid")]
    full: bool,
    /// Simulate the whole grid and compare it with the recorded runs of the kernel, in some seconds and
    /// without root
    #[arg(long, conflicts_with_all = ["quick", "full", "scenarios", "attempts", "jobs", "results", "time_limit", "pcap"], group = "grid")]
    recorded: bool,
    /// The number of reliable runs in real time of each kind at each point; 20, with --quick 5
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=10_000))]
    runs: Option<u32>,
    /// The number of attempts for each run until it is reliable; 3
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=100))]
    attempts: Option<u32>,
    /// The number of simultaneous runs; too many for the machine make runs unreliable
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u16>(1..=64))]
    jobs: u16,
    /// Write each run to FILE immediately, and continue from the runs in it; with --full
    /// anabranch-validate.jsonl by default
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    results: Option<PathBuf>,
    /// Begin no run after this number of minutes; 120, with --quick 1.5
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    time_limit: Option<f64>,
    #[command(flatten)]
    common: Common,
    /// The points of the grid: those drawn at random, the chosen ones, or all
    #[arg(long, value_name = "WHICH", default_value = "all", requires = "grid")]
    points: Points,
    /// Measure only the points of this kind of the grid, or of these
    #[arg(long = "kind", value_name = "KIND", requires = "grid", value_parser = KIND_NAMES)]
    kinds: Vec<String>,
    #[command(flatten)]
    capture: Capture,
    /// Measure only points whose names contain TEXT
    #[arg(long, value_name = "TEXT")]
    point: Option<String>,
    /// Write the table of differences to FILE as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    pub show: Show,
}

/// The names of the kinds of points.
const KIND_NAMES: [&str; grid::KINDS.len()] = {
    let (mut names, mut at) = ([""; grid::KINDS.len()], 0);
    while at < names.len() {
        names[at] = grid::KINDS[at].0;
        at += 1;
    }
    names
};

/// A subset of the points of the grid.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Points {
    All,
    Drawn,
    Chosen,
}

impl From<Points> for Which {
    fn from(points: Points) -> Which {
        match points {
            Points::All => Which::All,
            Points::Drawn => Which::Drawn,
            Points::Chosen => Which::Chosen,
        }
    }
}

const LONG: &str = "\
Validates the simulator: the same traffic simulated, emulated in real time with anabranch at both
ends, and emulated with the Linux kernel at both ends, over the same links with the same losses.
Any scenario that `emulate` accepts: transfers, requests, on/off senders, video, several classes and
datagrams beside, paths that fail and come back, backups. The kernel has the scheduler `linux`.

Reports the differences of each metric at each point in per cent, with 95 % intervals over the runs.
A point differs if the interval lies outside of plus and minus 5 %. Runs in which the machine was too
slow are repeated, and are not counted.

With --pcap FILE the packets of run 0, at the host that sends the data, are written to FILE with
`.kernel`, `.emulated` and `.simulated` before its extension, and with several points the point's
name before that.

Needs root and a kernel with Multipath TCP; without them it exits with 77 and the reason. With
--recorded it simulates only, and compares with the runs of the kernel that were recorded with this
version.";

/// The width to which sentences are wrapped.
const WIDTH: usize = 100;
/// The default file for the runs of `--full`.
const RESULTS: &str = "anabranch-validate.jsonl";
/// The simulated runs of each point with `--recorded`.
const RECORDED_RUNS: u32 = 10;
/// The exit code if nothing could be measured.
const SKIPPED: u8 = 77;

fn minutes(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if number > 0.0 && number <= 10_000.0 { Ok(number) } else { Err("give minutes, up to 10000".to_owned()) }
}

impl From<PointError> for Failure {
    fn from(error: PointError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<Trouble> for Failure {
    fn from(error: Trouble) -> Failure {
        match error {
            Trouble::Interrupted => Failure::Interrupted,
            Trouble::Usage(text) => Failure::Usage(text),
            Trouble::NotPermitted(text) | Trouble::Failed(text) | Trouble::Broken(text) => {
                Failure::Failed(text)
            }
        }
    }
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Output {
    version: &'static str,
    machine: Machine,
    runs: u32,
    points: Vec<PointOutput>,
    /// The accuracy of the simulator by kind of point.
    summary: Vec<Summary>,
    rows: Vec<RowOutput>,
}

/// The object that `--recorded --json` prints.
#[derive(Serialize)]
struct RecordedOutput {
    version: &'static str,
    runs: u32,
    /// The accuracy of the simulator of this build by kind of point.
    summary: Vec<Summary>,
    /// The accuracy when the kernel was measured.
    recorded: Vec<Summary>,
    rows: Vec<Row>,
}

/// The numbers of runs of a point.
#[derive(Serialize)]
struct PointOutput {
    point: String,
    kind: &'static str,
    reliable: usize,
    unreliable: usize,
    missed_deadline: usize,
    fallbacks: u64,
    failed: usize,
    objection: Option<String>,
}

/// A difference, with --quick compared with the recorded one.
#[derive(Serialize)]
#[serde(untagged)]
enum RowOutput {
    Row(Row),
    Held(Held),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let points = points(args)?;
    let recorded =
        record::read(record::RECORDED).map_err(|error| Failure::Failed(format!("fidelity.csv: {error}")))?;
    if args.recorded {
        return against_recorded(args, points, &recorded.1);
    }
    if let Some(obstacle) = anabranch_emulate::obstacle() {
        output::print_error(&format!("SKIPPED: nothing was compared with the kernel: {obstacle}\n"));
        return Ok(ExitCode::from(SKIPPED));
    }
    if args.results.is_some() && args.capture.settings().is_some() {
        return Err(Failure::Usage(
            "runs in --results are not repeated, so --pcap cannot capture them".to_owned(),
        ));
    }
    let captures = args.capture.settings().map(|(path, settings)| Captures {
        path: path.to_owned(),
        settings,
        several: points.len() > 1,
    });
    let cancelled = interrupt::watch();
    let default = if args.quick { 1.5 } else { 120.0 };
    let limit = Duration::from_secs_f64(args.time_limit.unwrap_or(default) * 60.0);
    let plan = Plan {
        points,
        runs: args.runs.unwrap_or(if args.quick { 5 } else { 20 }),
        attempts: args.attempts.unwrap_or(3),
        jobs: usize::from(args.jobs),
        until: Instant::now().checked_add(limit),
        build: campaign::build_id(),
        captures,
    };
    let kept = args.full && plan.captures.is_none();
    let file = args.results.clone().or_else(|| kept.then(|| RESULTS.into()));
    let results = match &file {
        Some(path) => {
            let results = Results::open(path, Machine::here(), &plan.build)?;
            tell_kept(path, &results);
            results
        }
        None => Results::in_memory(Machine::here()),
    };
    let mut campaign = Campaign::new(plan, results);
    let progress = Progress::new();
    let measured = campaign.measure(cancelled, &|done, total| progress.update(done, total));
    progress.finish();
    if measured == Err(Trouble::Interrupted)
        && let Some(path) = &file
    {
        output::remark(format_args!(
            "the measurements are in {}; the same command continues from there",
            path.display()
        ));
    }
    measured?;
    if let Some(failure) = campaign.failure() {
        return Err(Failure::Failed(failure));
    }
    campaign.simulate(cancelled)?;
    let rows = campaign.rows();
    let tallies = campaign.tallies();
    let (runs, points) = (campaign.plan().runs, campaign.plan().points.len());
    let summaries = summary::summaries(&rows, &campaign.plan().points);
    let machine = campaign.into_results().machine().clone();
    if let Some(path) = &args.csv {
        let mut about = vec![
            format!("Measured on {machine}."),
            format!("At most {runs} runs of each kind for each of {points} points."),
        ];
        about.extend(summaries.iter().map(Summary::to_string));
        anabranch_lab::whole_file::write(path, record::write(&about, &rows))
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    }
    let held: Vec<Held> = match args.quick {
        true => rows.iter().filter(|row| is_main(row)).map(|row| record::hold(row, &recorded.1)).collect(),
        false => Vec::new(),
    };
    let failed = held.iter().any(|held| matches!(held.judgement, Judgement::Grown | Judgement::Unknown));
    if args.show.json {
        let rows = match args.quick {
            true => held.into_iter().map(RowOutput::Held).collect(),
            false => rows.into_iter().map(RowOutput::Row).collect(),
        };
        let summary = summaries;
        let points = tallies.into_iter().map(point_output).collect();
        output::print_json(&Output {
            version: env!("CARGO_PKG_VERSION"),
            machine,
            runs,
            points,
            summary,
            rows,
        })?;
    } else {
        let late = tallies.iter().any(|tally| tally.unreliable > tally.failed);
        let mut text = if args.quick { quick_table(&held) } else { full_table(&rows) };
        text.push_str(&remarks(&tallies, runs));
        text.push_str(&if args.quick { quick_end(&held, points, late) } else { full_end(&rows, &summaries) });
        text.push_str(&format!("{machine}\n"));
        output::print(&text)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Simulates `points`, and compares them with the `recorded` runs of the kernel.
fn against_recorded(args: &Args, points: Vec<Point>, recorded: &[Row]) -> Result<ExitCode, Failure> {
    let runs = args.runs.unwrap_or(RECORDED_RUNS);
    let (attempts, jobs, build) = (1, 1, campaign::build_id());
    let plan = Plan { points, runs, attempts, jobs, until: None, build, captures: None };
    let mut campaign = Campaign::new(plan, Results::in_memory(Machine::here()));
    campaign.simulate(interrupt::watch())?;
    let points = &campaign.plan().points;
    let rows = record::against_recorded(points, campaign.simulated(), recorded);
    let (summary, before) = (summary::summaries(&rows, points), summary::summaries(recorded, points));
    if let Some(path) = &args.csv {
        let mut about = vec![format!("Simulated, {runs} runs, against the recorded means of the kernel.")];
        about.extend(summary.iter().map(Summary::to_string));
        anabranch_lab::whole_file::write(path, record::write(&about, &rows))
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    }
    if args.show.json {
        let version = env!("CARGO_PKG_VERSION");
        output::print_json(&RecordedOutput { version, runs, summary, recorded: before, rows })?;
    } else {
        output::print(&recorded_table(&summary, &before))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the medians of each kind of points, and those of the recorded table.
fn recorded_table(now: &[Summary], before: &[Summary]) -> String {
    let mut table = Table::new()
        .column("kind", Align::Left)
        .column("points", Align::Right)
        .column("median, %", Align::Right)
        .column("recorded", Align::Right)
        .column("<5 %", Align::Right)
        .column("<10 %", Align::Right)
        .column(">25 %", Align::Right)
        .wrapped("farthest");
    for own in now {
        let kept = before.iter().find(|kept| (kept.drawn, kept.kind) == (own.drawn, own.kind));
        table.row(vec![
            format!("{}{}", own.kind, if own.drawn { "" } else { ", chosen" }),
            own.points.to_string(),
            format!("{:.1}", own.median_pct),
            kept.map_or_else(String::new, |kept| format!("{:.1}", kept.median_pct)),
            own.close.to_string(),
            own.near.to_string(),
            own.far.to_string(),
            format!("{:+.1} % {}", own.worst_pct, own.worst),
        ]);
    }
    let mut text = table.render(terminal::width());
    text.push('\n');
    text.push_str(&wrap_behind(
        "",
        "The mean of simulated runs against the recorded mean of the kernel's, by the main measure of each point. \
         `recorded` is the median when the kernel was measured, with the simulator of that day.",
        WIDTH,
    ));
    text
}

/// Returns the selected points.
fn points(args: &Args) -> Result<Vec<Point>, Failure> {
    let mut points = all_points(args)?;
    if !args.kinds.is_empty() {
        points.retain(|point| args.kinds.contains(&point.group));
        if points.is_empty() {
            return Err(Failure::Usage(format!(
                "none of these points is of the kind `{}`",
                args.kinds.join(", ")
            )));
        }
    }
    if let Some(text) = &args.point {
        points.retain(|point| point.name.contains(text.as_str()));
        if points.is_empty() {
            return Err(Failure::Usage(format!("no point has `{text}` in its name")));
        }
    }
    Ok(points)
}

fn all_points(args: &Args) -> Result<Vec<Point>, Failure> {
    if args.quick {
        return Ok(grid::quick()?);
    }
    if args.full || args.recorded {
        return Ok(grid::grid(args.points.into())?);
    }
    if args.scenarios.is_empty() {
        return Err(Failure::Usage(
            "say what to validate: --quick, --full, --recorded or a scenario".to_owned(),
        ));
    }
    let mut all = Vec::new();
    for name in &args.scenarios {
        let mut document = Document::open(name)?;
        args.common.apply(&mut document)?;
        crate::files::protect_scenario(&document.scenario()?)?;
        let (points, remarks) = Point::of_document(&mut document)?;
        remarks.iter().for_each(|remark| output::remark(format_args!("note: {name}: {remark}")));
        all.extend(points);
    }
    Ok(all)
}

fn tell_kept(path: &std::path::Path, results: &Results) {
    if !results.records().is_empty() {
        output::remark(format_args!(
            "continuing from {} runs in {}",
            results.records().len(),
            path.display()
        ));
    }
    if results.left_out() > 0 {
        output::remark(format_args!(
            "note: {} emulated runs there are of another build and are repeated",
            results.left_out()
        ));
    }
}

fn point_output(tally: Tally) -> PointOutput {
    PointOutput {
        point: tally.point,
        kind: tally.kind.name(),
        reliable: tally.reliable,
        unreliable: tally.unreliable,
        missed_deadline: tally.missed,
        fallbacks: tally.fallbacks,
        failed: tally.failed,
        objection: tally.objection,
    }
}

fn against(row: &Row) -> String {
    format!("{} to {}", row.kind.name(), row.reference.name())
}

fn percents(value: f64, interval: Option<anabranch_lab::stats::Interval>) -> String {
    match interval {
        Some(anabranch_lab::stats::Interval(low, high)) => format!("{value:+.1} [{low:.1}, {high:.1}]"),
        None => format!("{value:+.1}"),
    }
}

fn full_table(rows: &[Row]) -> String {
    let mut table = Table::new()
        .wrapped("point")
        .column("number", Align::Left)
        .column("compared", Align::Left)
        .optional("first", Align::Decimal, 2)
        .optional("second", Align::Left, 2)
        .column("difference, %", Align::Right)
        .optional("runs", Align::Right, 1)
        .column("", Align::Left);
    for row in rows {
        let own = &row.difference;
        table.row(vec![
            row.point.clone(),
            row.metric.name().to_owned(),
            against(row),
            record::number(row.metric, own.first),
            format!("{} {}", record::number(row.metric, own.second), record::unit(row.metric)),
            percents(own.percent, own.interval),
            own.pairs.to_string(),
            own.verdict.name().to_owned(),
        ]);
    }
    table.render(terminal::width())
}

fn quick_table(held: &[Held]) -> String {
    let mut table = Table::new()
        .wrapped("point")
        .column("compared", Align::Left)
        .column("median, %", Align::Right)
        .column("may be", Align::Right)
        .column("runs", Align::Right)
        .column("", Align::Left);
    for held in held {
        let own = &held.row.difference;
        let allowed = held.allowed.map(|interval| format!("{:.1} to {:.1}", interval.0, interval.1));
        table.row(vec![
            held.row.point.clone(),
            against(&held.row),
            percents(own.median, own.median_interval),
            allowed.unwrap_or_else(|| "not recorded".to_owned()),
            own.pairs.to_string(),
            judgement(held.judgement),
        ]);
    }
    table.render(terminal::width())
}

fn judgement(judgement: Judgement) -> String {
    match judgement {
        Judgement::Same => paint(GOOD, "ok"),
        Judgement::Grown => paint(BAD, "GROWN"),
        Judgement::Inconclusive => paint(WARNING, "inconclusive"),
        Judgement::Unknown => paint(BAD, "NOT RECORDED"),
    }
}

/// Returns remarks on the runs.
fn remarks(tallies: &[Tally], runs: u32) -> String {
    let mut text = String::from("\n");
    for tally in tallies {
        let name = format!("{} ({})", tally.point, tally.kind.name());
        if tally.reliable < runs as usize {
            let why = tally.objection.as_ref().map(|text| format!("; the last one: {text}"));
            text.push_str(&format!(
                "{name}: {} of {runs} runs are reliable, {} are unreliable{}\n",
                tally.reliable,
                tally.unreliable,
                why.unwrap_or_default()
            ));
        }
        if tally.missed > 0 {
            text.push_str(&format!(
                "{name}: {} runs missed the deadline and are not counted\n",
                tally.missed
            ));
        }
        if tally.fallbacks > 0 {
            text.push_str(&format!("{name}: {} connections fell back to TCP\n", tally.fallbacks));
        }
    }
    if text == "\n" { text } else { text + "\n" }
}

fn full_end(rows: &[Row], summaries: &[Summary]) -> String {
    let against_kernel = |row: &&Row| is_main(row) && row.reference == anabranch_validate::Kind::Kernel;
    let against_kernel: Vec<&Row> = rows.iter().filter(against_kernel).collect();
    if against_kernel.is_empty() {
        return "nothing could be compared with the kernel\n".to_owned();
    }
    let count = |verdict| against_kernel.iter().filter(|row| row.difference.verdict == verdict).count();
    let mut text = String::from("Main measures of the simulator, by kind of point:\n");
    for summary in summaries {
        text.push_str(&wrap_behind("  ", &summary.to_string(), WIDTH));
    }
    text.push_str(&format!(
        "  of {} points against the kernel {} agree, {} differ, {} are open, {} inconclusive\n",
        against_kernel.len(),
        count(Verdict::Agrees),
        count(Verdict::Differs),
        count(Verdict::Open),
        count(Verdict::Inconclusive),
    ));
    text
}

/// Returns the last line of `--quick`. `late` says that runs were late, which explains inconclusive
/// comparisons.
fn quick_end(held: &[Held], points: usize, late: bool) -> String {
    let count = |judgement| held.iter().filter(|held| held.judgement == judgement).count();
    // A point without a pair of reliable runs has no row.
    let missing = (2 * points).saturating_sub(held.len());
    let (grown, unknown) = (count(Judgement::Grown), count(Judgement::Unknown));
    let inconclusive = count(Judgement::Inconclusive) + missing;
    if grown > 0 {
        format!("{grown} differences have grown beyond docs/fidelity.md by more than their noise\n")
    } else if unknown > 0 {
        format!(
            "{unknown} differences were never recorded: anabranch validate --full --csv crates/validate/fidelity.csv\n"
        )
    } else if inconclusive > 0 {
        let why = if late { "the machine was too slow too often" } else { "there are too few reliable runs" };
        format!("inconclusive: {why} for {inconclusive} of {} comparisons; no other has grown\n", 2 * points)
    } else {
        "no difference has grown\n".to_owned()
    }
}
