//! The directory of a sweep: the journal, the plan, the state of the sweep, and at the end the table.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anabranch_lab::measure::{Record, sweep_columns};
use anabranch_lab::output::SweepState;
use anabranch_lab::sweep::{Header, Journal, JournalError, Plan, PointResult, Summary};
use anabranch_lab::whole_file::{self, WholeFile};
use anabranch_table::{Cell, Column, Format, Kind, Table};

use crate::failure::Failure;
use crate::{output, provenance};

const JOURNAL: &str = "journal.ndjson";
const PLAN: &str = "plan.toml";
const STATE: &str = "run.json";
const RESULTS: &str = "results";

/// The directory of a sweep.
pub struct Directory {
    path: PathBuf,
    format: Format,
    begun: SystemTime,
    /// True if `plan.toml` has another plan, and no point of it is done.
    stale: bool,
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl Directory {
    /// Creates the directory, if it does not exist, and writes the plan into it.
    pub fn open(path: &Path, plan: &Plan, format: Format) -> Result<Directory, Failure> {
        let mut directory =
            Directory { path: path.to_owned(), format, begun: SystemTime::now(), stale: false };
        if path.is_file() {
            return Err(Failure::Usage(format!("{} is a file; give a directory", path.display())));
        }
        std::fs::create_dir_all(path).map_err(|error| directory.failed("", &error))?;
        // A directory with other files is probably a mistake.
        let known = |name: &str| {
            [JOURNAL, PLAN, STATE].contains(&name) || name.starts_with('.') || name.starts_with(RESULTS)
        };
        let entries = std::fs::read_dir(path).map_err(|error| directory.failed("", &error))?;
        let other = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .find(|name| !known(name));
        if let (Some(other), false) = (other, path.join(JOURNAL).exists()) {
            return Err(Failure::Failed(format!(
                "{} holds no sweep, but for example {other}; choose another directory",
                path.display()
            )));
        }
        match std::fs::read(path.join(PLAN)) {
            Ok(text) if text == plan.text().as_bytes() => {}
            // As after a plan with a mistake, or after Ctrl-C before the first point.
            Ok(_) if !Journal::has_results(&path.join(JOURNAL)) => directory.stale = true,
            Ok(_) => {
                return Err(Failure::Failed(format!(
                    "{} belongs to another plan; choose another directory, or remove this one",
                    path.join(PLAN).display()
                )));
            }
            Err(_) => {
                whole_file::write(&path.join(PLAN), plan.text().as_bytes())
                    .map_err(|error| directory.failed(PLAN, &error))?;
            }
        }
        Ok(directory)
    }

    /// Opens the journal. Its header has the hash of the plan and of what `set` and `runs` change in it.
    pub fn journal(&self, plan: &Plan, set: &[String], runs: Option<u32>) -> Result<Journal, Failure> {
        let first = plan.scenario(&plan.point(0))?;
        let identity = format!("{}\n{set:?}\n{runs:?}\n{}\n", plan.text(), first.hash());
        let hash = anabranch_lab::scenario::sha256(identity.as_bytes());
        let header = Header::new(hash, plan.points(), provenance::commit());
        let journal = Journal::open(&self.path.join(JOURNAL), &header)?;
        // Only the process that has the journal replaces the plan.
        if self.stale {
            whole_file::write(&self.path.join(PLAN), plan.text().as_bytes())
                .map_err(|error| self.failed(PLAN, &error))?;
        }
        Ok(journal)
    }

    /// Adds the results of another directory.
    pub fn merge(&self, part: &Path, journal: &mut Journal) -> Result<(), Failure> {
        let path = part.join(JOURNAL);
        // Opening would create a missing journal.
        Journal::header_of(&path)?;
        let other = Journal::open(&path, journal.header())?;
        if let Some(damage) = other.damage() {
            output::warn(format_args!("{damage}; the points of damaged lines are left out"));
        }
        for result in other.results() {
            let result = result?;
            if !journal.has(result.point) {
                journal.add(&result)?;
            }
        }
        Ok(())
    }

    /// Writes the state of a sweep that begins: it stays marked as partial if the process is killed or the disk is full.
    pub fn begin(&self, plan: &Plan, journal: &Journal) -> Result<(), Failure> {
        self.mark(plan, journal, false, None)
    }

    /// Writes the state of a sweep that ends.
    pub fn end(&self, plan: &Plan, journal: &Journal, complete: bool) -> Result<(), Failure> {
        self.mark(plan, journal, complete, Some(SystemTime::now()))
    }

    fn mark(
        &self,
        plan: &Plan,
        journal: &Journal,
        complete: bool,
        ended: Option<SystemTime>,
    ) -> Result<(), Failure> {
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let worked = (seconds(self.begun), ended.map(seconds));
        let mut state = SweepState::new(plan, PLAN, journal, complete, worked);
        (state.commit, state.command) = (provenance::commit(), provenance::command());
        let text =
            serde_json::to_string_pretty(&state).map_err(|error| Failure::Failed(error.to_string()))?;
        whole_file::write(&self.path.join(STATE), format!("{text}\n").as_bytes())
            .map_err(|error| self.failed(STATE, &error))
    }

    /// Writes the table, if all points are done, and the state. Returns the summary of the points that are done.
    pub fn finish(&self, plan: &Plan, journal: &Journal) -> Result<Summary, Failure> {
        let complete = journal.done() == plan.points();
        let mut summary = Summary::default();
        let name = self.table_name();
        let failed = |error: io::Error| self.failed(&name, &error);
        if complete {
            let whole = WholeFile::create(&self.path.join(&name)).map_err(failed)?;
            let file = whole.file().try_clone().map_err(failed)?;
            let columns = Columns::new(plan);
            let out = BufWriter::with_capacity(1 << 16, file);
            let mut table = Table::new(out, self.format, &columns.all).map_err(failed)?;
            for result in journal.results() {
                let result = result?;
                columns.rows(plan, &result, |row| table.row(row)).map_err(failed)?;
                summary.add(&result);
            }
            drop(table.finish().map_err(failed)?);
            whole.commit().map_err(failed)?;
        } else {
            for result in journal.results() {
                summary.add(&result?);
            }
        }
        summary.finish();
        self.end(plan, journal, complete)?;
        Ok(summary)
    }

    fn table_name(&self) -> String {
        format!("{RESULTS}.{}", self.format.name())
    }

    /// Returns the table of results, once the sweep is complete.
    pub fn table(&self, complete: bool) -> Option<PathBuf> {
        complete.then(|| self.path.join(self.table_name()))
    }

    fn failed(&self, name: &str, error: &io::Error) -> Failure {
        Failure::Failed(format!("cannot write {}: {error}", self.path.join(name).display()))
    }
}

/// The columns of the table: the point and its values, and then the results of a contender.
pub struct Columns {
    all: Vec<Column>,
    /// The number of varied values.
    varied: usize,
}

/// The columns after the values of the point and before the measures.
const FIRST: &[(&str, Kind)] = &[
    ("scenario_hash", Kind::Text),
    ("runs", Kind::Integer),
    ("condition", Kind::Text),
    ("scheduler", Kind::Text),
    ("congestion", Kind::Text),
    ("path", Kind::Text),
    ("flows", Kind::Integer),
    ("completed", Kind::Integer),
];

/// Returns the columns after the values of the point.
pub fn result_columns() -> Vec<Column> {
    let first = FIRST.iter().map(|(name, kind)| Column::new(*name, *kind));
    let measured = |of_classes| sweep_columns(of_classes).map(|column| Column::new(column.name, column.kind));
    let traffic = Column::new("traffic", Kind::Text);
    first.chain(measured(false)).chain([traffic]).chain(measured(true)).collect()
}

impl Columns {
    /// Returns the columns of the table of `plan`.
    pub fn new(plan: &Plan) -> Columns {
        let mut all = vec![Column::new("point", Kind::Integer)];
        let results = result_columns();
        let is_result = |name: &str| results.iter().any(|column| column.name == name);
        all.extend(plan.dimensions().iter().map(|dimension| {
            let kind = if dimension.values.unit().is_some() { Kind::Number } else { Kind::Text };
            // Some keys are called as a result: `congestion` is also the control of each contender.
            let name = match dimension.column() {
                name if is_result(&name) => format!("{name} (varied)"),
                name => name,
            };
            Column::new(name, kind)
        }));
        all.extend(results);
        Columns { all, varied: plan.dimensions().len() }
    }

    /// Returns the columns of the varied values.
    pub fn varied(&self) -> &[Column] {
        &self.all[1..=self.varied]
    }

    /// Returns all columns.
    pub fn all(&self) -> &[Column] {
        &self.all
    }

    /// Passes the rows of a point to `each`, with a cell for each column.
    ///
    /// # Errors
    /// That of `each`.
    pub fn rows<E>(
        &self,
        plan: &Plan,
        result: &PointResult,
        mut each: impl FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let point = plan.point(result.point);
        let values: Vec<Cell<'_>> = plan
            .dimensions()
            .iter()
            .zip(&point.values)
            .map(|(dimension, value)| match dimension.values.number(value) {
                Some(number) => Cell::Number(number),
                None => Cell::Text(value.trim_matches(['"', '\''])),
            })
            .collect();
        for row in &result.rows {
            let mut cells = vec![Cell::Integer(result.point as i64)];
            cells.extend(&values);
            cells.extend(self::cells(result, row));
            each(&cells)?;
        }
        Ok(())
    }
}

/// Returns the cells of [`result_columns`].
pub fn cells<'a>(result: &'a PointResult, row: &'a Record) -> Vec<Cell<'a>> {
    let measured = |of_classes| sweep_columns(of_classes).map(|column| (column.value)(row));
    let mut cells = vec![
        Cell::Text(&result.scenario_hash),
        Cell::Integer(result.runs.into()),
        Cell::Text(&row.condition),
        Cell::Text(&row.scheduler),
        Cell::Text(&row.congestion),
        row.path.as_deref().into(),
        Cell::Integer(row.n as i64),
        Cell::Integer(row.completed as i64),
    ];
    cells.extend(measured(false));
    cells.push(row.traffic.as_deref().into());
    cells.extend(measured(true));
    cells
}
