//! Samples: a row for each flow of each run, or for each of its requests or bursts, as CSV, JSON lines or Parquet.
//!
//! Rows are written as runs end, in the order of condition, contender, run and flow, whatever the number of
//! threads. Selection runs have no rows, so that a mean over a file equals the mean in the table.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anabranch_measure::sample_columns;
use anabranch_sim::{AppReport, Outcome};
use anabranch_table::{Cell, Column, Format, Kind, Table};
use anabranch_units::{Duration, Time};

use crate::job::Job;
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

/// The columns before the measures.
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
];

/// The columns before the measures of classes of traffic.
const CLASS_COLUMNS: &[(&str, Kind)] =
    &[("traffic", Kind::Text), ("kind", Kind::Text), ("transport", Kind::Text), ("part", Kind::Integer)];

fn count(count: u64) -> Cell<'static> {
    Cell::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Returns the outcome of a flow: `waiting`, `running` or `completed`, or `failed: ` and the reason in words.
pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Waiting => "waiting".to_owned(),
        Outcome::Running => "running".to_owned(),
        Outcome::Completed => "completed".to_owned(),
        Outcome::Failed(failure) => format!("failed: {failure}"),
    }
}

/// The columns of the samples of a scenario.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The names of all paths of all conditions.
    paths: Vec<String>,
    /// True if the traffic of any condition consists of classes.
    has_classes: bool,
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
        let has_classes =
            scenario.conditions.iter().any(|condition| !condition.experiment.classes.is_empty());
        let mut columns = Vec::new();
        for of_classes in [false, true].into_iter().filter(|of_classes| has_classes || !of_classes) {
            let own = if of_classes { CLASS_COLUMNS } else { COLUMNS };
            columns.extend(own.iter().map(|(name, kind)| Column::new(*name, *kind)));
            columns.extend(sample_columns(of_classes).map(|column| Column::new(column.name, column.kind)));
        }
        columns.extend(paths.iter().map(|path| Column::new(format!("{BYTES_BY_PATH}{path}"), Kind::Integer)));
        Layout { paths, has_classes, columns }
    }

    /// Returns the columns in their order in the file.
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
        let mut numbers = BTreeMap::<(usize, bool), u64>::new();
        for flow in &result.flows {
            let number = numbers.entry((flow.group, flow.class == Class::Beside)).or_default();
            *number += 1;
            for part in parts(run.condition, flow) {
                let mut row: Vec<Cell<'_>> = Vec::with_capacity(self.columns.len());
                row.extend(run.cells(flow, *number, &part));
                row.extend(sample_columns(false).map(|column| (column.value)(flow, part.time)));
                if self.has_classes {
                    row.extend(run.class_cells(flow, &part));
                    row.extend(sample_columns(true).map(|column| (column.value)(flow, part.time)));
                }
                row.extend(self.paths.iter().map(|path| run.bytes_over(flow, path)));
                each(&row)?;
            }
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
    /// The name and the congestion control of each kind of competing TCPs.
    beside: Vec<(String, String)>,
    /// The congestion control of the contender, of other plain TCPs, and of datagrams.
    congestion: [String; 3],
    seed: String,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, job: &'a Job) -> Run<'a> {
        let condition = &scenario.conditions[job.condition];
        let configs = [&condition.configs[job.contender], &condition.plain];
        let [own, plain] = configs.map(|config| config.congestion.name().to_owned());
        let entrant = Entrant::of(scenario, job);
        Run {
            condition,
            job,
            beside: (0..condition.experiment.traffic.beside.len().max(1))
                .map(|kind| {
                    let congestion = condition.beside_config(kind).congestion.name().to_owned();
                    (report::beside_name(condition, kind, &entrant.name), congestion)
                })
                .collect(),
            entrant,
            congestion: [own, plain, "none".to_owned()],
            seed: scenario.run_seed(job.run).to_string(),
        }
    }

    /// Returns the cells of [`COLUMNS`].
    fn cells<'b>(&'b self, flow: &FlowResult, number: u64, part: &'b Part) -> [Cell<'b>; COLUMNS.len()] {
        let Run { condition, job, entrant, congestion, .. } = self;
        let report = &flow.report;
        let first_path = Cell::Text(&condition.experiment.paths()[flow.path].name);
        let is_stream = matches!(report.app, AppReport::Datagrams(_));
        let plain = flow.class != Class::Contender || entrant.path.is_some();
        let (class, scheduler, congestion) = match flow.class {
            Class::Contender => ("contender", &entrant.name, &congestion[0]),
            Class::Beside => match self.beside.get(flow.group) {
                Some((name, congestion)) => ("beside", name, congestion),
                None => ("beside", &entrant.name, &congestion[1]),
            },
            Class::Other => ("other", &entrant.name, &congestion[1 + usize::from(is_stream)]),
        };
        [
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
            part.size.map_or(Cell::Missing, count),
            Cell::Number(part.start.as_secs_f64()),
            Cell::Flag(part.finished),
            Cell::Text(&part.outcome),
        ]
    }

    /// Returns the cells of [`CLASS_COLUMNS`].
    fn class_cells(&self, flow: &FlowResult, part: &Part) -> [Cell<'a>; CLASS_COLUMNS.len()] {
        let class = self.condition.experiment.classes.get(flow.group);
        let text = |text: Option<&'a str>| text.map_or(Cell::Missing, Cell::Text);
        let counted = |number: Option<u64>| number.map_or(Cell::Missing, count);
        [
            text(class.map(|class| class.name.as_str())),
            text(class.map(|class| class.kind.name())),
            text(class.map(|class| class.via.name())),
            counted(part.number),
        ]
    }

    /// Returns the bytes of a flow over the path with this name.
    fn bytes_over(&self, flow: &FlowResult, path: &str) -> Cell<'static> {
        let position = self.condition.experiment.paths().iter().position(|other| other.name == path);
        let bytes = position.and_then(|position| flow.report.bytes_by_path.get(position));
        bytes.map_or(Cell::Missing, |bytes| count(*bytes))
    }
}

/// The subject of a row: a flow, or one of its requests or bursts.
struct Part {
    /// The number of the request or burst, from 1.
    number: Option<u64>,
    start: Time,
    size: Option<u64>,
    time: Option<Duration>,
    finished: bool,
    /// [`outcome`] of the flow.
    outcome: String,
}

fn parts(condition: &Condition, flow: &FlowResult) -> Vec<Part> {
    let report = &flow.report;
    let numbered = |at: usize, start: Time, size: u64, time: Option<Duration>| Part {
        number: Some(at as u64 + 1),
        start,
        size: Some(size),
        time,
        finished: time.is_some(),
        outcome: outcome(&report.outcome),
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
                true => flow.is_complete(bulk),
                false => report.outcome == Outcome::Completed,
            };
            let size = report.size.map(|size| size.0);
            let outcome = outcome(&report.outcome);
            vec![Part { number: None, start: report.start, size, time: report.fct, finished, outcome }]
        }
    }
}

#[cfg(test)]
#[path = "samples_tests.rs"]
mod tests;
