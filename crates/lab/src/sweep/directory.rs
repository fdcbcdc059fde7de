//! The directory of a sweep: the journal, the plan, the state of the sweep, and at the end the table.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anabranch_table::{Format, Table};

use super::{Columns, Header, Journal, JournalError, Plan, Summary};
use crate::output::{Origin, SweepState};
use crate::scenario::{ScenarioError, sha256};
use crate::whole_file::{self, WholeFile};

const JOURNAL: &str = "journal.ndjson";
const PLAN: &str = "plan.toml";
const STATE: &str = "run.json";
const RESULTS: &str = "results";

/// The directory of a sweep.
pub struct Directory {
    path: PathBuf,
    origin: Origin,
    format: Format,
    begun: SystemTime,
    /// True if `plan.toml` has another plan, and no point of it is done.
    stale: bool,
}

/// The reason that a sweep cannot use its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryError {
    /// The directory or the plan is a mistake of the caller.
    Usage(String),
    /// The directory cannot be read or written, or belongs to something else.
    Failed(String),
}

impl core::fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (DirectoryError::Usage(text) | DirectoryError::Failed(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for DirectoryError {}

impl From<JournalError> for DirectoryError {
    fn from(error: JournalError) -> DirectoryError {
        DirectoryError::Failed(error.to_string())
    }
}

impl From<ScenarioError> for DirectoryError {
    fn from(error: ScenarioError) -> DirectoryError {
        DirectoryError::Usage(error.to_string())
    }
}

impl Directory {
    /// Creates the directory, if it does not exist, and writes the plan into it. The program and the command line
    /// `origin` make the results.
    ///
    /// # Errors
    /// If it cannot be written, or belongs to another plan or to something else.
    pub fn open(
        path: &Path,
        plan: &Plan,
        format: Format,
        origin: Origin,
    ) -> Result<Directory, DirectoryError> {
        let mut directory =
            Directory { path: path.to_owned(), origin, format, begun: SystemTime::now(), stale: false };
        if path.is_file() {
            return Err(DirectoryError::Usage(format!("{} is a file; give a directory", path.display())));
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
            return Err(DirectoryError::Failed(format!(
                "{} holds no sweep, but for example {other}; choose another directory",
                path.display()
            )));
        }
        match std::fs::read(path.join(PLAN)) {
            Ok(text) if text == plan.text().as_bytes() => {}
            // As after a plan with a mistake, or after Ctrl-C before the first point.
            Ok(_) if !Journal::has_results(&path.join(JOURNAL)) => directory.stale = true,
            Ok(_) => {
                return Err(DirectoryError::Failed(format!(
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
    ///
    /// # Errors
    /// If it cannot be opened, or has results of another sweep.
    pub fn journal(&self, plan: &Plan, set: &[String], runs: Option<u32>) -> Result<Journal, DirectoryError> {
        let first = plan.scenario(&plan.point(0))?;
        let identity = format!("{}\n{set:?}\n{runs:?}\n{}\n", plan.text(), first.hash());
        let hash = sha256(identity.as_bytes());
        let header = Header::new(hash, plan.points(), self.origin.commit);
        let journal = Journal::open(&self.path.join(JOURNAL), &header)?;
        // Only the process that has the journal replaces the plan.
        if self.stale {
            whole_file::write(&self.path.join(PLAN), plan.text().as_bytes())
                .map_err(|error| self.failed(PLAN, &error))?;
        }
        Ok(journal)
    }

    /// Adds the results of another directory. Returns a warning about the damaged lines of its journal, if there are any.
    ///
    /// # Errors
    /// If one of the journals cannot be read or written.
    pub fn merge(&self, part: &Path, journal: &mut Journal) -> Result<Option<String>, DirectoryError> {
        let path = part.join(JOURNAL);
        // Opening would create a missing journal.
        Journal::header_of(&path)?;
        let other = Journal::open(&path, journal.header())?;
        let warning =
            other.damage().map(|damage| format!("{damage}; the points of damaged lines are left out"));
        for result in other.results() {
            let result = result?;
            if !journal.has(result.point) {
                journal.add(&result)?;
            }
        }
        Ok(warning)
    }

    /// Writes the state of a sweep that begins: it stays marked as partial if the process is killed or the disk is full.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn begin(&self, plan: &Plan, journal: &Journal) -> Result<(), DirectoryError> {
        self.mark(plan, journal, false, None)
    }

    /// Writes the state of a sweep that ends.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn end(&self, plan: &Plan, journal: &Journal, complete: bool) -> Result<(), DirectoryError> {
        self.mark(plan, journal, complete, Some(SystemTime::now()))
    }

    fn mark(
        &self,
        plan: &Plan,
        journal: &Journal,
        complete: bool,
        ended: Option<SystemTime>,
    ) -> Result<(), DirectoryError> {
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let worked = (seconds(self.begun), ended.map(seconds));
        let mut state = SweepState::new(plan, PLAN, journal, complete, worked);
        (state.commit, state.command) = (self.origin.commit, self.origin.command.clone());
        let text = serde_json::to_string_pretty(&state)
            .map_err(|error| DirectoryError::Failed(error.to_string()))?;
        whole_file::write(&self.path.join(STATE), format!("{text}\n").as_bytes())
            .map_err(|error| self.failed(STATE, &error))
    }

    /// Writes the table, if all points are done, and the state. Returns the summary of the points that are done.
    ///
    /// # Errors
    /// If the directory cannot be written, or the journal cannot be read.
    pub fn finish(&self, plan: &Plan, journal: &Journal) -> Result<Summary, DirectoryError> {
        let complete = journal.done() == plan.points();
        let mut summary = Summary::default();
        let name = self.table_name();
        let failed = |error: io::Error| self.failed(&name, &error);
        if complete {
            let whole = WholeFile::create(&self.path.join(&name)).map_err(failed)?;
            let file = whole.file().try_clone().map_err(failed)?;
            let columns = Columns::new(plan);
            let out = BufWriter::with_capacity(1 << 16, file);
            let mut table = Table::new(out, self.format, columns.all()).map_err(failed)?;
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

    fn failed(&self, name: &str, error: &io::Error) -> DirectoryError {
        DirectoryError::Failed(format!("cannot write {}: {error}", self.path.join(name).display()))
    }
}
