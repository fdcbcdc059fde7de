//! The measurements of runs, kept in a file to which each run adds a line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anabranch_emulate::EmulateError;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::measure::{Kind, Measured, Quality};

/// The reason that there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It was cancelled.
    Interrupted,
    /// The options or their values are wrong.
    Usage(String),
    /// This process lacks the privilege.
    NotPermitted(String),
    /// One run failed.
    Failed(String),
    /// Something that every run needs is broken, such as a device.
    Broken(String),
}

impl Trouble {
    /// Returns the failure of one run.
    pub fn failed(what: impl core::fmt::Display) -> Trouble {
        Trouble::Failed(what.to_string())
    }
}

impl core::fmt::Display for Trouble {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Trouble::Interrupted => f.write_str("cancelled before the end"),
            Trouble::Usage(text)
            | Trouble::NotPermitted(text)
            | Trouble::Failed(text)
            | Trouble::Broken(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::failed(error)
    }
}

impl From<EmulateError> for Trouble {
    fn from(error: EmulateError) -> Trouble {
        match error {
            EmulateError::Usage(text) => Trouble::Usage(text),
            EmulateError::NotPermitted(text) => Trouble::NotPermitted(text),
            EmulateError::Failed(text) => Trouble::Failed(text),
            EmulateError::Interrupted => Trouble::Interrupted,
        }
    }
}

/// One run in real time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`Point::name`](crate::Point::name), for readers.
    pub point: String,
    /// [`Point::key`](crate::Point::key).
    pub key: String,
    /// Whether the run was simulated, emulated or the kernel's.
    pub kind: Kind,
    /// The number of the run, from 0, which determines its random draws.
    pub run: u32,
    /// The program that has made it; the kernel's runs do not depend on it.
    pub build: String,
    /// The reason that it is unreliable; none if it is reliable.
    pub objection: Option<String>,
    /// True if it failed, other than by lateness.
    pub failed: bool,
    /// Its punctuality.
    pub quality: Quality,
    /// Its measurements.
    pub measured: Measured,
}

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    anabranch_validate: u32,
    machine: Machine,
}

/// The format version of files.
const FORMAT: u32 = 1;
/// The longest line, in bytes.
const LONGEST: u64 = 1 << 20;

/// All recorded runs, and the file to which further ones are written.
#[derive(Debug)]
pub struct Results {
    records: Vec<Record>,
    file: Option<(PathBuf, File)>,
    machine: Machine,
    left_out: usize,
}

impl Results {
    /// Returns results that are kept only in memory.
    pub fn in_memory(machine: Machine) -> Results {
        Results { records: Vec::new(), file: None, machine, left_out: 0 }
    }

    /// Opens the results in the file at `path`, to which runs are appended. Runs emulated by another build of
    /// this program are skipped, and so is an incomplete last line.
    ///
    /// # Errors
    /// If the file is something else, belongs to another machine or cannot be written.
    pub fn open(path: &Path, machine: Machine, build: &str) -> Result<Results, Trouble> {
        let failed = |error: io::Error| Trouble::Failed(format!("{}: {error}", path.display()));
        let foreign = |what: &str| Trouble::Usage(format!("{}: {what}; give another file", path.display()));
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        // Another process may append to the same file: its line is not an incomplete one.
        let lock = Lock::of(&file).map_err(failed)?;
        let mut results = Results { records: Vec::new(), file: None, machine, left_out: 0 };
        let mut lines = BufReader::new(&file);
        let (mut line, mut whole, mut number) = (Vec::new(), 0_u64, 0);
        loop {
            line.clear();
            let n = (&mut lines).take(LONGEST).read_until(b'\n', &mut line).map_err(failed)?;
            if n == 0 || (line.last() != Some(&b'\n') && (n as u64) < LONGEST && number > 0) {
                break;
            }
            number += 1;
            if number == 1 {
                let head: Head = serde_json::from_slice(&line)
                    .map_err(|_| foreign("it is not a results file of this command"))?;
                if head.anabranch_validate != FORMAT {
                    return Err(foreign("it was written by another version of this command"));
                }
                if !head.machine.is_like(&results.machine) {
                    return Err(foreign(&format!("it belongs to another machine ({})", head.machine)));
                }
                results.machine = head.machine;
            } else {
                let record: Record = serde_json::from_slice(&line)
                    .map_err(|error| foreign(&format!("line {number} is not a result ({error})")))?;
                if record.kind == Kind::Emulated && record.build != build {
                    results.left_out += 1;
                } else {
                    results.records.push(record);
                }
            }
            whole += n as u64;
        }
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        if number == 0 {
            let head = Head { anabranch_validate: FORMAT, machine: results.machine.clone() };
            write_line(&mut file, &head).map_err(failed)?;
        }
        drop(lock);
        results.file = Some((path.to_owned(), file));
        Ok(results)
    }

    /// Adds a run, and writes it immediately.
    ///
    /// # Errors
    /// If writing fails.
    pub fn add(&mut self, record: Record) -> Result<(), Trouble> {
        if let Some((path, file)) = &mut self.file {
            let lock = Lock::of(file);
            lock.and_then(|_lock| write_line(file, &record))
                .map_err(|error| Trouble::Failed(format!("{}: {error}", path.display())))?;
        }
        self.records.push(record);
        Ok(())
    }

    /// Returns the machine, with the date and load of the first run.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the number of skipped runs of other builds.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the runs.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the runs of the point with this key.
    pub fn of<'a>(&'a self, key: &'a str, kind: Kind) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| record.kind == kind && record.key == key)
    }

    /// Returns the reliable run number `run`, if there is one.
    pub fn reliable(&self, key: &str, kind: Kind, run: u32) -> Option<&Measured> {
        let own = |record: &&Record| record.kind == kind && record.key == key && record.run == run;
        self.records
            .iter()
            .find(|record| own(record) && record.objection.is_none())
            .map(|record| &record.measured)
    }
}

/// The lock of a file among processes; unlocked on drop.
struct Lock(File);

impl Lock {
    fn of(file: &File) -> io::Result<Lock> {
        let own = file.try_clone()?;
        rustix::fs::flock(&own, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(Lock(own))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

/// Writes a line in one call, so that complete lines are valid.
fn write_line(file: &mut File, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what).map_err(io::Error::from)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind, run: u32, build: &str) -> Record {
        Record {
            point: "a".into(),
            key: "k".into(),
            kind,
            run,
            build: build.into(),
            objection: None,
            failed: false,
            quality: Quality::default(),
            measured: Measured { time_s: Some(1.5), ..Measured::default() },
        }
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("anabranch-validate-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_file_goes_on_where_it_ends_without_half_a_line_and_other_builds() {
        let path = scratch("resume");
        let machine = Machine::here();
        let mut results = Results::open(&path, machine.clone(), "x").unwrap();
        for (kind, run) in [(Kind::Emulated, 0), (Kind::Kernel, 0), (Kind::Kernel, 1)] {
            results.add(record(kind, run, "x")).unwrap();
        }
        drop(results);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"point\":\"a\",\"ke").unwrap();
        let mut results = Results::open(&path, machine.clone(), "x").unwrap();
        assert_eq!((results.records().len(), results.left_out()), (3, 0));
        results.add(record(Kind::Kernel, 2, "y")).unwrap();
        let results = Results::open(&path, machine, "y").unwrap();
        let runs: Vec<u32> = results.of("k", Kind::Kernel).map(|record| record.run).collect();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((runs, results.left_out()), (vec![0, 1, 2], 1));
        assert_eq!(results.reliable("k", Kind::Kernel, 2).and_then(|measured| measured.time_s), Some(1.5));
        assert!(results.reliable("k", Kind::Emulated, 0).is_none());
    }

    #[test]
    fn other_files_and_other_machines_are_left_alone() {
        let path = scratch("foreign");
        std::fs::write(&path, "my letters\n").unwrap();
        let error = Results::open(&path, Machine::here(), "x").unwrap_err();
        assert!(error.to_string().contains("not a results file of this command"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my letters\n");
        std::fs::write(&path, "my letters").unwrap();
        assert!(Results::open(&path, Machine::here(), "x").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my letters");
        std::fs::remove_file(&path).unwrap();
        let mut other = Machine::here();
        drop(Results::open(&path, other.clone(), "x").unwrap());
        other.kernel.push_str("-other");
        let error = Results::open(&path, other, "x").unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("another machine"), "{error}");
    }
}
