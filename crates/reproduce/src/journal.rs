//! The journal of measurements: a line for each, so that a long reproduction can be interrupted and continued.

use core::fmt;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::measure::Measurement;

/// A journal could not be read or written.
#[derive(Debug)]
pub enum JournalError {
    /// An error of the file.
    Io(PathBuf, io::Error),
    /// The line with this number is damaged.
    Damaged(PathBuf, usize, String),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            JournalError::Damaged(path, line, why) => {
                write!(f, "{}: line {line} is damaged: {why}; remove the file to begin again", path.display())
            }
        }
    }
}

impl std::error::Error for JournalError {}

#[derive(Serialize, Deserialize)]
struct Line {
    /// The program that measured it: its version and commit.
    build: String,
    #[serde(flatten)]
    measurement: Measurement,
}

/// Measurements, and the file in which they are kept, if any.
#[derive(Debug)]
pub struct Journal {
    build: String,
    file: Option<(PathBuf, File)>,
    measurements: BTreeMap<String, Measurement>,
    /// Measurements of other builds, which do not count.
    foreign: usize,
}

impl Journal {
    /// Returns a journal without a file.
    pub fn in_memory() -> Journal {
        Journal { build: String::new(), file: None, measurements: BTreeMap::new(), foreign: 0 }
    }

    /// Opens the journal `path`, and makes it if it does not exist. Measurements of builds other than `build`
    /// count only if `any_build`. A partial last line, left by a kill, is removed.
    ///
    /// # Errors
    /// If it cannot be opened, or is damaged.
    pub fn open(path: &Path, build: &str, any_build: bool) -> Result<Journal, JournalError> {
        let failed = |error| JournalError::Io(path.to_owned(), error);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.map_err(failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let mut journal = Journal { build: build.to_owned(), ..Journal::in_memory() };
        for (number, line) in text[..whole].lines().enumerate() {
            let damaged = |error: serde_json::Error| {
                JournalError::Damaged(path.to_owned(), number + 1, error.to_string())
            };
            let line: Line = serde_json::from_str(line).map_err(damaged)?;
            if any_build || line.build == build {
                journal.measurements.insert(line.measurement.key.clone(), line.measurement);
            } else {
                journal.foreign += 1;
            }
        }
        journal.file = Some((path.to_owned(), file));
        Ok(journal)
    }

    /// Returns the number of measurements that other builds have made, which do not count.
    pub fn foreign(&self) -> usize {
        self.foreign
    }

    /// Returns the measurement with that key.
    pub fn get(&self, key: &str) -> Option<&Measurement> {
        self.measurements.get(key)
    }

    /// Adds a measurement, and the values that it lacks of an earlier one of the same key.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, mut measurement: Measurement) -> Result<(), JournalError> {
        if let Some(earlier) = self.measurements.remove(&measurement.key) {
            for (name, values) in earlier.values {
                let own = measurement.values.entry(name).or_default();
                for (metric, values) in values {
                    own.entry(metric).or_insert(values);
                }
            }
        }
        let line = Line { build: self.build.clone(), measurement };
        if let Some((path, file)) = &mut self.file {
            let failed = |error| JournalError::Io(path.clone(), error);
            let mut text = serde_json::to_string(&line).map_err(|error| failed(error.into()))?;
            text.push('\n');
            file.write_all(text.as_bytes()).map_err(failed)?;
        }
        self.measurements.insert(line.measurement.key.clone(), line.measurement);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(key: &str, metric: &str, value: f64) -> Measurement {
        let values = [("tcp".to_owned(), [(metric.to_owned(), vec![value])].into())].into();
        Measurement { key: key.to_owned(), values }
    }

    #[test]
    fn measurements_are_kept_and_a_partial_line_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        let mut journal = Journal::open(&path, "1", false).unwrap();
        journal.add(measurement("a", "done", 1.5)).unwrap();
        journal.add(measurement("a", "acked", 2.0)).unwrap();
        drop(journal);
        let mut text = std::fs::read_to_string(&path).unwrap();
        let whole = text.len();
        text += "{\"build\":\"1\",\"key\":\"b";
        std::fs::write(&path, &text).unwrap();
        let journal = Journal::open(&path, "1", false).unwrap();
        assert_eq!(journal.get("a").unwrap().values["tcp"].len(), 2);
        assert!(journal.get("b").is_none());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), whole as u64);
    }

    #[test]
    fn a_newer_value_takes_the_place_of_an_older_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        let mut journal = Journal::open(&path, "1", false).unwrap();
        journal.add(measurement("a", "done", 1.5)).unwrap();
        journal.add(measurement("a", "done", 2.5)).unwrap();
        let done = |journal: &Journal| journal.get("a").unwrap().values["tcp"]["done"][0];
        assert_eq!(done(&journal), 2.5);
        drop(journal);
        assert_eq!(done(&Journal::open(&path, "1", false).unwrap()), 2.5);
    }

    #[test]
    fn a_value_that_is_no_number_is_kept_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        Journal::open(&path, "1", false).unwrap().add(measurement("a", "srtt", f64::NAN)).unwrap();
        let journal = Journal::open(&path, "1", false).unwrap();
        assert!(journal.get("a").unwrap().values["tcp"]["srtt"][0].is_nan());
    }

    #[test]
    fn measurements_of_another_build_do_not_count_unless_asked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        Journal::open(&path, "1", false).unwrap().add(measurement("a", "done", 1.5)).unwrap();
        let other = Journal::open(&path, "2", false).unwrap();
        assert_eq!((other.foreign(), other.get("a")), (1, None));
        drop(other);
        assert!(Journal::open(&path, "2", true).unwrap().get("a").is_some());
    }

    #[test]
    fn a_damaged_line_is_an_error_with_its_number() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        std::fs::write(&path, "{}\n").unwrap();
        let error = Journal::open(&path, "1", false).unwrap_err().to_string();
        assert!(error.contains("line 1 is damaged"), "{error}");
    }
}
