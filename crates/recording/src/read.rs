//! Reading run directories: `run.json`, and the tables of each run.

use std::fmt;
use std::path::{Path, PathBuf};

use anabranch_table::{Cell, Format, Kind};
use serde::{Deserialize, Serialize};

use crate::schema::{Name, SCHEMA, TABLES};

/// A run directory could not be read.
#[derive(Debug)]
pub struct ReadError(String);

impl ReadError {
    pub(crate) fn new(text: impl Into<String>) -> ReadError {
        ReadError(text.into())
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

/// The program, the command and the scenario of a recording.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Facts {
    /// The version of the program.
    pub version: String,
    /// The commit from which it was built, if known.
    pub commit: Option<String>,
    /// Its command line.
    pub command: Vec<String>,
    /// True if all runs ended and all tables are on disk.
    pub complete: bool,
    /// The reason of an early end, if known.
    pub reason: Option<String>,
    /// The key `name` of the scenario; empty without one.
    pub scenario: String,
    /// SHA-256 of the canonical scenario, in hexadecimal digits.
    pub scenario_hash: String,
    /// The seed of the scenario.
    pub seed: u64,
    /// The run of a comparison that was replayed.
    pub run: Option<u32>,
}

/// `run.json`, as far as readers need it.
#[derive(Clone, Debug, Deserialize)]
pub struct Stored {
    schema: u32,
    /// The program, the command and the scenario.
    #[serde(flatten)]
    pub facts: Facts,
    format: String,
    /// One run for each contender in each condition.
    pub runs: Vec<StoredRun>,
}

/// A run in `run.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredRun {
    /// The directory of its tables.
    pub directory: String,
    /// Its condition; empty if there is only one.
    pub condition: String,
    /// The contender.
    pub scheduler: String,
    /// The names of its paths, in the order of the scenario.
    pub paths: Vec<String>,
    /// The classes of its traffic; none in a scenario without classes.
    #[serde(default)]
    pub traffic: Vec<StoredClass>,
    /// The times in which its paths are down; the key is absent if there are none.
    #[serde(default)]
    pub outages: Vec<StoredOutage>,
    /// True if the run ended.
    pub complete: bool,
}

/// A time in which a path is down, in `run.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StoredOutage {
    /// The name of the path in the scenario.
    pub path: String,
    /// Its beginning.
    pub from_ns: u64,
    /// Its end; none if it does not end.
    pub until_ns: Option<u64>,
}

/// A class of traffic in `run.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredClass {
    /// Its name, which its flows have too, with a number.
    pub name: String,
    /// The key `kind` of the class.
    pub kind: String,
    /// `contender`, `tcp` or `udp`.
    pub transport: String,
}

impl StoredRun {
    /// Returns the class of the flow called `flow`, if the traffic has classes.
    pub(crate) fn class(&self, flow: &str) -> Option<&StoredClass> {
        let (name, _) = flow.rsplit_once(' ')?;
        self.traffic.iter().find(|class| class.name == name)
    }
}

/// A run directory that can be read.
#[derive(Clone, Debug)]
pub struct Recorded {
    path: PathBuf,
    format: Format,
    /// `run.json`.
    pub stored: Stored,
}

impl Recorded {
    /// True if `path` looks like a run directory: its `run.json` names tables.
    pub fn is_at(path: &Path) -> bool {
        let text = std::fs::read(path.join("run.json")).unwrap_or_default();
        serde_json::from_slice::<serde_json::Value>(&text).is_ok_and(|state| state.get("tables").is_some())
    }

    /// Opens the run directory in `path`.
    ///
    /// # Errors
    /// If it is none, or of another version.
    pub fn open(path: &Path) -> Result<Recorded, ReadError> {
        let file = path.join("run.json");
        let failed = |why: String| ReadError(format!("{}: {why}", file.display()));
        let text = std::fs::read(&file).map_err(|error| failed(format!("cannot read it: {error}")))?;
        let help = "give the directory of `anabranch run --record DIR`";
        let stored: Stored = serde_json::from_slice(&text)
            .map_err(|error| failed(format!("it describes no recording: {error}; {help}")))?;
        if stored.schema != SCHEMA {
            let found = stored.schema;
            return Err(failed(format!(
                "its schema is {found}, and this version of anabranch reads {SCHEMA}; record the runs again"
            )));
        }
        let format = Format::ALL.into_iter().find(|format| format.name() == stored.format);
        let format = format
            .ok_or_else(|| failed(format!("it has tables in an unknown format, `{}`", stored.format)))?;
        Ok(Recorded { path: path.to_owned(), format, stored })
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, run: &StoredRun, table: Name) -> PathBuf {
        let name = format!("{}.{}", TABLES[table as usize].name, self.format.name());
        self.path.join(&run.directory).join(name)
    }

    /// True if the run has tables: one that was killed has none.
    pub(crate) fn has_tables(&self, run: &StoredRun) -> bool {
        [Name::Flows, Name::Events].iter().any(|table| self.file(run, *table).exists())
    }

    /// Calls `row` with the cells of `columns` in each row of a table.
    pub(crate) fn rows(
        &self,
        run: &StoredRun,
        table: Name,
        columns: &[&str],
        row: impl FnMut(&[Cell<'_>]),
    ) -> Result<(), ReadError> {
        let schema = &TABLES[table as usize];
        let kind =
            |name: &str| schema.columns.iter().find(|column| column.name == name).map(|column| column.kind);
        let columns: Vec<(&str, Kind)> =
            columns.iter().map(|name| (*name, kind(name).unwrap_or(Kind::Integer))).collect();
        anabranch_table::read(&self.file(run, table), &columns, row)
            .map_err(|error| ReadError(error.to_string()))
    }
}

/// Returns a whole number that is not negative.
pub(crate) fn whole(cell: &Cell<'_>) -> Option<u64> {
    match cell {
        Cell::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

pub(crate) fn text<'a>(cell: &Cell<'a>) -> &'a str {
    match cell {
        Cell::Text(text) => text,
        _ => "",
    }
}
