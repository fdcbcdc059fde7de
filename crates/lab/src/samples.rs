//! Samples: a row for each flow of each run, as CSV, JSON lines or Parquet.
//!
//! Rows are written as runs end, in the order of condition, contender, run and flow, whatever the number of
//! threads. Selection runs have no rows, so that a mean over a file equals the mean in the table.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anabranch_sim::Outcome;
use anabranch_table::{Cell, Column, Format, Kind, Table};
use anabranch_units::Duration;

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
                "the samples file {} must end in .csv, in .ndjson or .jsonl for JSON lines, or in .parquet",
                path.display()
            ),
            SamplesError::Io(path, error) => {
                write!(f, "cannot write the samples {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for SamplesError {}

/// The columns before those of the paths.
const COLUMNS: &[(&str, Kind)] = &[
    ("schema", Kind::Integer),
    ("condition", Kind::Text),
    ("scheduler", Kind::Text),
    ("class", Kind::Text),
    ("congestion", Kind::Text),
    ("path", Kind::Text),
    ("first_path", Kind::Text),
    ("run", Kind::Integer),
    // As text: many readers of JSON keep 53 bits of a number.
    ("run_seed", Kind::Text),
    ("flow", Kind::Integer),
    ("size_bytes", Kind::Integer),
    ("start_s", Kind::Number),
    ("finished", Kind::Flag),
    ("outcome", Kind::Text),
    ("connected_s", Kind::Number),
    ("fct_s", Kind::Number),
    ("acked_s", Kind::Number),
    ("time_s", Kind::Number),
    ("lower_bound_s", Kind::Number),
    ("delivered_bytes", Kind::Integer),
    ("goodput_bps", Kind::Integer),
    ("data_segments", Kind::Integer),
    ("retransmitted_segments", Kind::Integer),
    ("reinjected_segments", Kind::Integer),
    ("duplicate_bytes", Kind::Integer),
    ("rto_count", Kind::Integer),
    ("subflows_used", Kind::Integer),
];

fn time(span: Option<Duration>) -> Cell<'static> {
    span.map(|span| span.as_secs_f64()).into()
}

fn count(count: u64) -> Cell<'static> {
    Cell::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Returns the outcome of a flow in a word or two: `completed`, `running`, or the reason of its failure.
pub fn outcome(outcome: &Outcome) -> String {
    format!("{outcome:?}").to_lowercase()
}

/// The columns of the samples of a scenario.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The names of all paths of all conditions.
    paths: Vec<String>,
    columns: Vec<Column>,
}

impl Layout {
    /// Returns the columns of `scenario`.
    pub fn new(scenario: &Scenario) -> Layout {
        let mut paths: Vec<String> = Vec::new();
        for path in scenario.conditions.iter().flat_map(|condition| condition.experiment.paths()) {
            if !paths.contains(&path.name) {
                paths.push(path.name.clone());
            }
        }
        let mut columns: Vec<Column> = COLUMNS.iter().map(|(name, kind)| Column::new(*name, *kind)).collect();
        columns.extend(paths.iter().map(|path| Column::new(format!("{BYTES_BY_PATH}{path}"), Kind::Integer)));
        Layout { paths, columns }
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Passes the rows of a run to `each`: the flows of the contender, then the competing TCPs. A row has a cell for
    /// each column.
    ///
    /// # Errors
    /// That of `each`.
    pub fn rows<E>(
        &self,
        scenario: &Scenario,
        job: &Job,
        result: &RunResult,
        mut each: impl FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let run = Run::new(scenario, job);
        let mut numbers = [0_u64; 2];
        for flow in &result.flows {
            let number = &mut numbers[usize::from(flow.class == Class::Beside)];
            *number += 1;
            run.row(flow, *number, &self.paths, &mut each)?;
        }
        Ok(())
    }
}

/// A file of samples, renamed by [`Samples::commit`].
pub struct Samples {
    path: PathBuf,
    whole: WholeFile,
    table: Table<BufWriter<File>>,
    layout: Layout,
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
        let layout = Layout::new(scenario);
        let out = BufWriter::with_capacity(1 << 16, file);
        let table = Table::new(out, format, layout.columns()).map_err(failed)?;
        Ok(Samples { path: path.to_owned(), whole, table, layout })
    }

    /// Writes the rows of a run: the flows of the contender, then the competing TCPs.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&mut self, scenario: &Scenario, job: &Job, result: &RunResult) -> Result<(), SamplesError> {
        let Samples { layout, table, .. } = self;
        let written = layout.rows(scenario, job, result, |row| table.row(row));
        written.map_err(|error| SamplesError::Io(self.path.clone(), error))
    }

    /// Renames the file, and returns its name.
    ///
    /// # Errors
    /// If writing or renaming fails; the file is removed then.
    pub fn commit(self) -> Result<PathBuf, SamplesError> {
        let Samples { path, whole, table, .. } = self;
        let done = table.finish().and_then(|mut out| out.flush()).and_then(|()| whole.commit());
        match done {
            Ok(()) => Ok(path),
            Err(error) => Err(SamplesError::Io(path, error)),
        }
    }
}

/// Makes the rows of a run.
struct Run<'a> {
    condition: &'a Condition,
    job: &'a Job,
    entrant: Entrant<'a>,
    /// The name of the competing TCPs.
    beside: String,
    /// The congestion control of the contender, and of the competing TCPs.
    congestion: [String; 2],
    seed: String,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, job: &'a Job) -> Run<'a> {
        let condition = &scenario.conditions[job.condition];
        let configs = [&condition.configs[job.contender], &condition.beside_config()];
        let entrant = Entrant::of(scenario, job);
        Run {
            condition,
            job,
            beside: report::beside_name(&entrant.name),
            entrant,
            congestion: configs.map(|config| config.congestion.name().to_owned()),
            seed: scenario.run_seed(job.run).to_string(),
        }
    }

    fn row<E>(
        &self,
        flow: &FlowResult,
        number: u64,
        columns: &[String],
        each: &mut impl FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Run { condition, job, entrant, congestion, .. } = self;
        let paths = condition.experiment.paths();
        let report = &flow.report;
        let outcome = outcome(&report.outcome);
        let first_path = Cell::Text(&paths[flow.path].name);
        let plain = flow.class == Class::Beside || entrant.path.is_some();
        let (class, scheduler, congestion) = match flow.class {
            Class::Contender => ("contender", &entrant.name, &congestion[0]),
            Class::Beside => ("beside", &self.beside, &congestion[1]),
        };
        let own: [Cell<'_>; COLUMNS.len()] = [
            count(SCHEMA.into()),
            Cell::Text(&condition.name),
            Cell::Text(scheduler),
            Cell::Text(class),
            Cell::Text(congestion),
            if plain { first_path } else { Cell::Missing },
            first_path,
            count(job.run.into()),
            Cell::Text(&self.seed),
            count(number),
            report.size.map_or(Cell::Missing, |size| count(size.0)),
            Cell::Number(report.start.as_secs_f64()),
            Cell::Flag(report::is_complete(flow, report::is_bulk(condition))),
            Cell::Text(&outcome),
            time(report.connected),
            time(report.fct),
            time(report.acked),
            time(Some(flow.time)),
            time(Some(flow.lower_bound)),
            count(report.delivered),
            count(flow.goodput().0),
            count(report.data_segments),
            count(report.retransmitted_segments),
            count(flow.reinjected_segments),
            count(report.duplicate_bytes),
            count(report.rto_count),
            count(report.subflows_used.into()),
        ];
        let by_path = columns.iter().map(|path| {
            let position = paths.iter().position(|other| other.name == *path);
            let bytes = position.and_then(|position| report.bytes_by_path.get(position));
            bytes.map_or(Cell::Missing, |bytes| count(*bytes))
        });
        let row: Vec<Cell<'_>> = own.into_iter().chain(by_path).collect();
        each(&row)
    }
}
