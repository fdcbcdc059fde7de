//! Samples: a row for each flow of each run, as CSV, as NDJSON, or as cells for tables of other programs.
//!
//! Rows are written as runs end, in the order of condition, contender, run and flow, whatever the number of
//! threads. Selection runs have no rows, so that a mean over a file equals the mean in the table.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anabranch_sim::Outcome;
use anabranch_units::Duration;
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

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number, 0 or greater.
    Count,
    /// A number.
    Number,
    /// True or false.
    Flag,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell<'a> {
    /// A text of the scenario.
    Text(&'a str),
    /// Another text.
    Owned(String),
    /// A whole number.
    Count(u64),
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// No value, which fits every type.
    Missing,
}

impl Cell<'_> {
    fn time(span: Option<Duration>) -> Cell<'static> {
        span.map_or(Cell::Missing, |span| Cell::Number(span.as_secs_f64()))
    }

    /// True if it can be in a column of this type.
    pub fn fits(&self, kind: Kind) -> bool {
        match self {
            Cell::Text(_) | Cell::Owned(_) => kind == Kind::Text,
            Cell::Count(_) => kind == Kind::Count,
            Cell::Number(_) => kind == Kind::Number,
            Cell::Flag(_) => kind == Kind::Flag,
            Cell::Missing => true,
        }
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

/// The columns before those with the bytes of each path.
const COLUMNS: &[(&str, Kind)] = &[
    ("schema", Kind::Count),
    ("condition", Kind::Text),
    ("scheduler", Kind::Text),
    ("class", Kind::Text),
    ("congestion", Kind::Text),
    ("path", Kind::Text),
    ("first_path", Kind::Text),
    ("run", Kind::Count),
    // As text in JSON: many readers keep 53 bits of a number.
    ("run_seed", Kind::Text),
    ("flow", Kind::Count),
    ("size_bytes", Kind::Count),
    ("start_s", Kind::Number),
    ("finished", Kind::Flag),
    ("outcome", Kind::Text),
    ("connected_s", Kind::Number),
    ("fct_s", Kind::Number),
    ("acked_s", Kind::Number),
    ("time_s", Kind::Number),
    ("lower_bound_s", Kind::Number),
    ("delivered_bytes", Kind::Count),
    ("goodput_bps", Kind::Count),
    ("data_segments", Kind::Count),
    ("retransmitted_segments", Kind::Count),
    ("reinjected_segments", Kind::Count),
    ("duplicate_bytes", Kind::Count),
    ("rto_count", Kind::Count),
    ("subflows_used", Kind::Count),
];

/// The columns of the samples of a scenario.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The names of all paths of all conditions.
    paths: Vec<String>,
    columns: Vec<(String, Kind)>,
}

impl Layout {
    /// Returns the columns of `scenario`.
    pub fn new(scenario: &Scenario) -> Layout {
        let mut columns: Vec<_> = COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        let mut paths: Vec<String> = Vec::new();
        for path in scenario.conditions.iter().flat_map(|condition| condition.experiment.paths()) {
            if !paths.contains(&path.name) {
                paths.push(path.name.clone());
                columns.push((format!("{BYTES_BY_PATH}{}", path.name), Kind::Count));
            }
        }
        Layout { paths, columns }
    }

    /// Returns the names and types of the columns.
    pub fn columns(&self) -> &[(String, Kind)] {
        &self.columns
    }

    /// Passes the rows of a run to `each`, with a cell for each column: the flows of the contender, then the
    /// competing TCPs.
    pub fn rows<E>(
        &self,
        scenario: &Scenario,
        job: &Job,
        result: &RunResult,
        mut each: impl FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let run = Run::new(scenario, job, &self.paths);
        let mut numbers = [0_u64; 2];
        for flow in &result.flows {
            let number = &mut numbers[usize::from(flow.class == Class::Beside)];
            *number += 1;
            each(&run.row(flow, *number))?;
        }
        Ok(())
    }
}

/// A row as a JSON object.
struct Object<'a>(&'a [(String, Kind)], &'a [Cell<'a>]);

impl Serialize for Object<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, _)| name).zip(self.1))
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
    layout: Layout,
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
        let out = BufWriter::with_capacity(1 << 16, file);
        Ok(Samples { path: path.to_owned(), format, whole, out, layout: Layout::new(scenario), has_header: false })
    }

    /// Writes the rows of a run: the flows of the contender, then the competing TCPs.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&mut self, scenario: &Scenario, job: &Job, result: &RunResult) -> Result<(), SamplesError> {
        let Samples { layout, out, .. } = self;
        let written = match self.format {
            Format::Ndjson => layout.rows(scenario, job, result, |row| {
                serde_json::to_writer(&mut *out, &Object(&layout.columns, row))?;
                out.write_all(b"\n")
            }),
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                let header = !self.has_header && !result.flows.is_empty();
                let begun = match header {
                    true => writer.write_record(layout.columns.iter().map(|(name, _)| name)),
                    false => Ok(()),
                };
                begun.map_err(io::Error::from).and_then(|()| {
                    layout.rows(scenario, job, result, |row| {
                        writer.write_record(row.iter().map(ToString::to_string)).map_err(io::Error::from)
                    })?;
                    writer.flush()
                })
            }
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
struct Run<'a> {
    scenario: &'a Scenario,
    condition: &'a Condition,
    job: &'a Job,
    entrant: Entrant<'a>,
    /// The congestion control of the contender, and of the competing TCPs.
    congestion: [String; 2],
    /// The names of the paths that have a column.
    paths: &'a [String],
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, job: &'a Job, paths: &'a [String]) -> Run<'a> {
        let condition = &scenario.conditions[job.condition];
        let configs = [&condition.configs[job.contender], &condition.beside_config()];
        let congestion = configs.map(|config| config.congestion.name().to_owned());
        Run { scenario, condition, job, entrant: Entrant::of(scenario, job), congestion, paths }
    }

    fn row<'b>(&'b self, flow: &'b FlowResult, number: u64) -> Vec<Cell<'b>> {
        let Run { scenario, condition, job, entrant, congestion, .. } = self;
        let paths = condition.experiment.paths();
        let report = &flow.report;
        let name = |position: usize| Cell::Text(&paths[position].name);
        let plain = flow.class == Class::Beside || entrant.path.is_some();
        let (class, scheduler, congestion) = match flow.class {
            Class::Contender => ("contender", Cell::Text(&entrant.name), &congestion[0]),
            Class::Beside => ("beside", Cell::Owned(report::beside_name(&entrant.name)), &congestion[1]),
        };
        let cells: [Cell<'b>; COLUMNS.len()] = [
            Cell::Count(SCHEMA.into()),
            Cell::Text(&condition.name),
            scheduler,
            Cell::Text(class),
            Cell::Text(congestion),
            if plain { name(flow.path) } else { Cell::Missing },
            name(flow.path),
            Cell::Count(job.run.into()),
            Cell::Owned(scenario.run_seed(job.run).to_string()),
            Cell::Count(number),
            report.size.map_or(Cell::Missing, |size| Cell::Count(size.0)),
            Cell::Number(report.start.as_secs_f64()),
            Cell::Flag(report::is_complete(flow, report::is_bulk(condition))),
            Cell::Owned(outcome(&report.outcome)),
            Cell::time(report.connected),
            Cell::time(report.fct),
            Cell::time(report.acked),
            Cell::time(Some(flow.time)),
            Cell::time(Some(flow.lower_bound)),
            Cell::Count(report.delivered),
            Cell::Count(flow.goodput().0),
            Cell::Count(report.data_segments),
            Cell::Count(report.retransmitted_segments),
            Cell::Count(flow.reinjected_segments),
            Cell::Count(report.duplicate_bytes),
            Cell::Count(report.rto_count),
            Cell::Count(report.subflows_used.into()),
        ];
        let by_path = self.paths.iter().map(|path| {
            let position = paths.iter().position(|other| other.name == *path);
            let bytes = position.and_then(|position| report.bytes_by_path.get(position));
            bytes.map_or(Cell::Missing, |bytes| Cell::Count(*bytes))
        });
        cells.into_iter().chain(by_path).collect()
    }
}
