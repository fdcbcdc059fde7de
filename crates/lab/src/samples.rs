//! Samples: a row for each flow of each run, or for each of its requests or bursts, as CSV or NDJSON.
//!
//! Rows are written as runs end, in the order of condition, contender, run and flow, whatever the number of
//! threads. Selection runs have no rows, so that a mean over a file equals the mean in the table.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anabranch_sim::{AppReport, Outcome};
use anabranch_units::{Duration, Time};
use serde::Serialize;

use crate::compare::Job;
use crate::report::{self, Entrant};
use crate::run::{Class, FlowResult, RunResult};
use crate::scenario::{Condition, Scenario};
use crate::whole_file::WholeFile;

/// The version of the columns; it increases when a column changes its name or meaning, and not when one is
/// added.
pub const SCHEMA: u32 = 1;

/// The prefix of the columns with the bytes that each path delivered; the path's name follows.
pub const BYTES_BY_PATH: &str = "bytes_path_";

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values (RFC 4180) with a header.
    Csv,
    /// A JSON object on each line.
    Ndjson,
}

impl Format {
    /// Returns the format that the extension of `path` names.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Format::Csv),
            "ndjson" | "jsonl" => Some(Format::Ndjson),
            _ => None,
        }
    }
}

/// Samples could not be written.
#[derive(Debug)]
pub enum SamplesError {
    /// The name of the file does not determine a format.
    Format(PathBuf),
    /// The file cannot be written.
    Io(PathBuf, io::Error),
}

impl core::fmt::Display for SamplesError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SamplesError::Format(path) => write!(
                f,
                "the samples file {} must end in .csv, or in .ndjson or .jsonl for JSON lines",
                path.display()
            ),
            SamplesError::Io(path, error) => {
                write!(f, "cannot write the samples {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for SamplesError {}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Cell<'a> {
    Text(&'a str),
    Owned(String),
    Count(u64),
    Number(f64),
    Flag(bool),
    Missing,
}

impl Cell<'_> {
    fn time(span: Option<Duration>) -> Cell<'static> {
        span.map_or(Cell::Missing, |span| Cell::Number(span.as_secs_f64()))
    }
}

impl core::fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Owned(text) => f.write_str(text),
            Cell::Count(count) => count.fmt(f),
            Cell::Number(number) => number.fmt(f),
            Cell::Flag(flag) => flag.fmt(f),
            Cell::Missing => Ok(()),
        }
    }
}

/// A row: the columns in their order.
struct Row<'a>(Vec<(&'a str, Cell<'a>)>);

impl Serialize for Row<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, cell)| (name, cell)))
    }
}

/// Returns the outcome of a flow in a word or two: `completed`, `running`, or the reason of its failure.
pub fn outcome(outcome: &Outcome) -> String {
    format!("{outcome:?}").to_lowercase()
}

/// A file of samples, renamed by [`Samples::commit`].
#[derive(Debug)]
pub struct Samples {
    path: PathBuf,
    format: Format,
    whole: WholeFile,
    out: BufWriter<File>,
    /// The names of all paths of all conditions, and those of their columns.
    paths: Vec<(String, String)>,
    has_header: bool,
}

impl Samples {
    /// Creates the file that will become `path`, for the samples of `scenario`.
    ///
    /// # Errors
    /// If the extension is unknown, or the file cannot be created.
    pub fn create(path: &Path, scenario: &Scenario) -> Result<Samples, SamplesError> {
        let format = Format::of(path).ok_or_else(|| SamplesError::Format(path.to_owned()))?;
        let failed = |error| SamplesError::Io(path.to_owned(), error);
        let whole = WholeFile::create(path).map_err(failed)?;
        let file = whole.file().try_clone().map_err(failed)?;
        let mut paths: Vec<(String, String)> = Vec::new();
        for path in scenario.conditions.iter().flat_map(|condition| condition.experiment.paths()) {
            if !paths.iter().any(|(name, _)| *name == path.name) {
                paths.push((path.name.clone(), format!("{BYTES_BY_PATH}{}", path.name)));
            }
        }
        let out = BufWriter::with_capacity(1 << 16, file);
        Ok(Samples { path: path.to_owned(), format, whole, out, paths, has_header: false })
    }

    /// Writes the rows of a run: the flows of the contender, then the competing TCPs.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&mut self, scenario: &Scenario, job: &Job, result: &RunResult) -> Result<(), SamplesError> {
        let columns = Columns::new(scenario, job, &self.paths);
        let mut numbers = std::collections::BTreeMap::<(usize, bool), u64>::new();
        let numbered = result.flows.iter().map(|flow| {
            let number = numbers.entry((flow.group, flow.class == Class::Beside)).or_default();
            *number += 1;
            (flow, *number)
        });
        let rows = numbered.flat_map(|(flow, number)| columns.rows(flow, number));
        let written = match self.format {
            Format::Ndjson => ndjson(&mut self.out, rows),
            Format::Csv => csv(&mut self.out, rows, !self.has_header),
        };
        self.has_header |= !result.flows.is_empty();
        written.map_err(|error| SamplesError::Io(self.path.clone(), error))
    }

    /// Renames the file, and returns its name.
    ///
    /// # Errors
    /// If writing or renaming fails; the file is removed then.
    pub fn commit(mut self) -> Result<PathBuf, SamplesError> {
        let done = self.out.flush().and_then(|()| self.whole.commit());
        match done {
            Ok(()) => Ok(self.path),
            Err(error) => Err(SamplesError::Io(self.path, error)),
        }
    }
}

/// Makes the rows of a run.
struct Columns<'a> {
    scenario: &'a Scenario,
    condition: &'a Condition,
    job: &'a Job,
    entrant: Entrant<'a>,
    /// The congestion control of the contender, of the competing TCPs, of other plain TCPs, and of datagrams.
    congestion: [String; 4],
    /// True if the traffic of any condition consists of classes.
    has_classes: bool,
    /// The names of paths and of their columns.
    paths: &'a [(String, String)],
}

impl<'a> Columns<'a> {
    fn new(scenario: &'a Scenario, job: &'a Job, paths: &'a [(String, String)]) -> Columns<'a> {
        let condition = &scenario.conditions[job.condition];
        let configs = [&condition.configs[job.contender], &condition.beside_config(), &condition.plain];
        let has_classes =
            scenario.conditions.iter().any(|condition| !condition.experiment.classes.is_empty());
        let [own, beside, plain] = configs.map(|config| config.congestion.name().to_owned());
        let congestion = [own, beside, plain, "none".to_owned()];
        Columns {
            scenario,
            condition,
            job,
            entrant: Entrant::of(scenario, job),
            congestion,
            has_classes,
            paths,
        }
    }

    /// Returns the rows of a flow: one, or one for each request or burst.
    fn rows<'b>(&'b self, flow: &'b FlowResult, number: u64) -> Vec<Row<'b>> {
        parts(self.condition, flow).into_iter().map(|part| self.row(flow, number, &part)).collect()
    }

    fn row<'b>(&'b self, flow: &'b FlowResult, number: u64, part: &Part) -> Row<'b> {
        let Columns { scenario, condition, job, entrant, congestion, .. } = self;
        let paths = condition.experiment.paths();
        let report = &flow.report;
        let name = |position: usize| Cell::Text(&paths[position].name);
        let is_stream = matches!(report.app, AppReport::Datagrams(_));
        let plain = flow.class != Class::Contender || entrant.path.is_some();
        let (class, scheduler, congestion) = match flow.class {
            Class::Contender => ("contender", Cell::Text(&entrant.name), &congestion[0]),
            Class::Beside => ("beside", Cell::Owned(report::beside_name(&entrant.name)), &congestion[1]),
            Class::Other => ("other", Cell::Text(&entrant.name), &congestion[2 + usize::from(is_stream)]),
        };
        let mut cells = vec![
            ("schema", Cell::Count(SCHEMA.into())),
            ("condition", Cell::Text(&condition.name)),
            ("scheduler", scheduler),
            ("class", Cell::Text(class)),
            ("congestion", Cell::Text(congestion)),
            ("path", if plain { name(flow.path) } else { Cell::Missing }),
            ("first_path", name(flow.path)),
            ("run", Cell::Count(job.run.into())),
            // As text in JSON: many readers keep 53 bits of a number.
            ("run_seed", Cell::Owned(scenario.run_seed(job.run).to_string())),
            ("flow", Cell::Count(number)),
            ("size_bytes", part.size.map_or(Cell::Missing, Cell::Count)),
            ("start_s", Cell::Number(part.start.as_secs_f64())),
            ("finished", Cell::Flag(part.finished)),
            ("outcome", Cell::Owned(outcome(&report.outcome))),
            ("connected_s", Cell::time(report.connected)),
            ("fct_s", Cell::time(part.time)),
            ("acked_s", Cell::time(report.acked)),
            ("time_s", Cell::time(Some(flow.time))),
            ("lower_bound_s", Cell::time(flow.lower_bound)),
            ("delivered_bytes", Cell::Count(report.delivered)),
            ("goodput_bps", Cell::Count(flow.goodput().0)),
            ("data_segments", Cell::Count(report.data_segments)),
            ("retransmitted_segments", Cell::Count(report.retransmitted_segments)),
            ("reinjected_segments", Cell::Count(flow.reinjected_segments)),
            ("duplicate_bytes", Cell::Count(report.duplicate_bytes)),
            ("rto_count", Cell::Count(report.rto_count)),
            ("subflows_used", Cell::Count(report.subflows_used.into())),
        ];
        if self.has_classes {
            self.class_cells(flow, part, &mut cells);
        }
        for (path, column) in self.paths {
            let position = paths.iter().position(|other| other.name == *path);
            let bytes = position.and_then(|position| report.bytes_by_path.get(position));
            cells.push((column, bytes.map_or(Cell::Missing, |bytes| Cell::Count(*bytes))));
        }
        Row(cells)
    }
}

impl Columns<'_> {
    /// Adds the columns of scenarios whose traffic consists of classes.
    fn class_cells<'b>(&'b self, flow: &FlowResult, part: &Part, cells: &mut Vec<(&'b str, Cell<'b>)>) {
        let class = self.condition.experiment.classes.get(flow.group);
        let text = |text: Option<&'b str>| text.map_or(Cell::Missing, Cell::Text);
        let count = |count: Option<u64>| count.map_or(Cell::Missing, Cell::Count);
        let number = |number: Option<f64>| number.map_or(Cell::Missing, Cell::Number);
        let (video, stream) = match flow.report.app {
            AppReport::Video(video) => (Some(video), None),
            AppReport::Datagrams(stream) => (None, Some(stream)),
            _ => (None, None),
        };
        cells.extend([
            ("traffic", text(class.map(|class| class.name.as_str()))),
            ("kind", text(class.map(|class| class.kind.name()))),
            ("transport", text(class.map(|class| class.via.name()))),
            ("part", count(part.number)),
            ("startup_s", Cell::time(video.and_then(|video| video.startup))),
            ("stalls", count(video.map(|video| video.stalls.into()))),
            ("stalled_s", Cell::time(video.map(|video| video.stalled))),
            ("bitrate_bps", number(video.and_then(|video| video.bitrate_bps))),
            ("sent_datagrams", count(stream.map(|stream| stream.sent))),
            ("received_datagrams", count(stream.map(|stream| stream.received))),
            ("delay_mean_s", number(stream.and_then(|stream| stream.delay_mean_s))),
            ("delay_p50_s", Cell::time(stream.and_then(|stream| stream.delay_p50))),
            ("delay_p95_s", Cell::time(stream.and_then(|stream| stream.delay_p95))),
            ("delay_p99_s", Cell::time(stream.and_then(|stream| stream.delay_p99))),
            ("jitter_s", number(stream.and_then(|stream| stream.jitter_s))),
        ]);
    }
}

/// What a row describes: a flow, or one of its requests or bursts.
struct Part {
    /// The number of the request or burst, from 1.
    number: Option<u64>,
    start: Time,
    size: Option<u64>,
    time: Option<Duration>,
    finished: bool,
}

fn parts(condition: &Condition, flow: &FlowResult) -> Vec<Part> {
    let report = &flow.report;
    let numbered = |at: usize, start: Time, size: u64, time: Option<Duration>| Part {
        number: Some(at as u64 + 1),
        start,
        size: Some(size),
        time,
        finished: time.is_some(),
    };
    match &report.app {
        AppReport::Requests(all) => {
            all.iter().enumerate().map(|(at, one)| numbered(at, one.at, one.response, one.time)).collect()
        }
        AppReport::OnOff(all) => {
            all.iter().enumerate().map(|(at, one)| numbered(at, one.at, one.bytes, one.delay)).collect()
        }
        AppReport::Transfer | AppReport::Datagrams(_) | AppReport::Video(_) => {
            let is_transfer = report.app == AppReport::Transfer;
            let class = condition.experiment.classes.get(flow.group);
            let bulk = class.map_or(report::is_bulk(condition), |class| class.kind.is_bulk());
            let finished = match is_transfer {
                true => report::is_complete(flow, bulk),
                false => report.outcome == Outcome::Completed,
            };
            let size = report.size.map(|size| size.0);
            vec![Part { number: None, start: report.start, size, time: report.fct, finished }]
        }
    }
}

fn ndjson<'a>(mut out: impl io::Write, rows: impl Iterator<Item = Row<'a>>) -> io::Result<()> {
    for row in rows {
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes rows, preceded by the header if `with_header`.
fn csv<'a>(out: impl io::Write, rows: impl Iterator<Item = Row<'a>>, with_header: bool) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for (at, row) in rows.enumerate() {
        if with_header && at == 0 {
            writer.write_record(row.0.iter().map(|(name, _)| name))?;
        }
        writer.write_record(row.0.iter().map(|(_, cell)| cell.to_string()))?;
    }
    writer.flush()
}
