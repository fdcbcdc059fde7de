//! The journal of a sweep: a header, and a line for each completed point, in the order of completion.
//!
//! Each line is written in one call. A partial line, left by a kill or a full disk, is removed when the
//! journal is opened again. Memory holds the positions of the lines, not the lines.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::PointResult;

/// The version of the journal's lines.
const FORMAT: u32 = 1;

/// The first line: results of other plans, programs and shards do not go into this journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the lines.
    pub anabranch_sweep: u32,
    /// SHA-256 of the plan and of what the command line changed in it.
    pub plan: String,
    /// The version of the program.
    pub version: String,
    /// The commit from which the program was built, if it is known.
    pub commit: Option<String>,
    /// The points of the whole plan.
    pub points: usize,
}

impl Header {
    /// Returns the header for the plan with the hash `plan` and this number of points.
    pub fn new(plan: String, points: usize, commit: Option<&str>) -> Header {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Header { anabranch_sweep: FORMAT, plan, version, commit: commit.map(str::to_owned), points }
    }
}

/// The reason that a journal cannot be used.
#[derive(Debug)]
pub enum JournalError {
    /// It cannot be read or written.
    Io(PathBuf, io::Error),
    /// It belongs to another plan, or another program wrote it: why.
    Foreign(PathBuf, String),
    /// The line with this number is damaged, for this reason.
    Damaged(PathBuf, usize, String),
    /// Another process has it open.
    InUse(PathBuf),
}

impl core::fmt::Display for JournalError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            JournalError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            JournalError::Foreign(path, why) => write!(
                f,
                "{} has results that do not belong to this sweep: {why}; choose another directory, or remove this one",
                path.display()
            ),
            JournalError::Damaged(path, line, why) => {
                write!(f, "{}: line {line} is damaged: {why}", path.display())
            }
            JournalError::InUse(path) => write!(f, "{} is in use by another process", path.display()),
        }
    }
}

impl std::error::Error for JournalError {}

/// A journal that is open.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    header: Header,
    /// The position of the line of each point.
    lines: Vec<Option<u64>>,
    done: usize,
    end: u64,
}

impl Journal {
    /// Opens the journal `path` for the results of `header`, and makes it if it does not exist.
    ///
    /// A journal of another sweep without any result is begun again.
    ///
    /// # Errors
    /// If it cannot be opened, has results of another sweep, or is damaged.
    pub fn open(path: &Path, header: &Header) -> Result<Journal, JournalError> {
        let failed = |error| JournalError::Io(path.to_owned(), error);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(failed)?;
        #[cfg(unix)]
        {
            use rustix::fs::{FlockOperation, flock};
            // Continues without a lock on a file system that has none.
            if let Err(rustix::io::Errno::WOULDBLOCK) = flock(&file, FlockOperation::NonBlockingLockExclusive)
            {
                return Err(JournalError::InUse(path.to_owned()));
            }
        }
        let lines = vec![None; header.points];
        let mut journal =
            Journal { path: path.to_owned(), file, header: header.clone(), lines, done: 0, end: 0 };
        journal.read_lines()?;
        if journal.end == 0 {
            journal.append(&serde_json::to_string(header).map_err(|error| failed(error.into()))?)?;
        }
        Ok(journal)
    }

    /// Reads the header of the journal `path`.
    ///
    /// # Errors
    /// If it cannot be read, or has none.
    pub fn header_of(path: &Path) -> Result<Header, JournalError> {
        let failed = |error| JournalError::Io(path.to_owned(), error);
        let mut line = String::new();
        BufReader::new(File::open(path).map_err(failed)?).read_line(&mut line).map_err(failed)?;
        serde_json::from_str(&line)
            .map_err(|error| JournalError::Damaged(path.to_owned(), 1, error.to_string()))
    }

    /// True if the journal `path` has a result, or cannot be read; a missing one has none.
    pub fn has_results(path: &Path) -> bool {
        match std::fs::read(path) {
            Ok(text) => text.iter().filter(|byte| **byte == b'\n').nth(1).is_some(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Reads the results in the journal `path` in the order of the points, and changes nothing: another process may be at work
    /// on it. A line that is not whole yet is left out.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn peek(path: &Path) -> Result<(Header, Vec<PointResult>), JournalError> {
        let failed = |error| JournalError::Io(path.to_owned(), error);
        let header = Journal::header_of(path)?;
        if header.anabranch_sweep != FORMAT {
            let why = format!("it has format {}, and this program reads {FORMAT}", header.anabranch_sweep);
            return Err(JournalError::Foreign(path.to_owned(), why));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let mut results: Vec<PointResult> = Vec::new();
        for (at, line) in
            text.split_inclusive('\n').enumerate().skip(1).filter(|(_, line)| line.ends_with('\n'))
        {
            let damaged = |why: String| JournalError::Damaged(path.to_owned(), at + 1, why);
            let result: PointResult =
                serde_json::from_str(line).map_err(|error| damaged(error.to_string()))?;
            if result.point >= header.points {
                return Err(damaged(format!("there is no point {}", result.point)));
            }
            results.push(result);
        }
        results.sort_by_key(|result| result.point);
        results.dedup_by_key(|result| result.point);
        Ok((header, results))
    }

    fn read_lines(&mut self) -> Result<(), JournalError> {
        let failed = |error| JournalError::Io(self.path.clone(), error);
        let mut reader = BufReader::new(self.file.try_clone().map_err(failed)?);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(failed)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let damaged = |why: String| JournalError::Damaged(self.path.clone(), number, why);
            if number == 1 {
                let found: Header =
                    serde_json::from_slice(&line).map_err(|error| damaged(error.to_string()))?;
                if let Some(why) = foreign(&found, &self.header) {
                    let mut rest = Vec::new();
                    reader.read_until(b'\n', &mut rest).map_err(failed)?;
                    if rest.last() == Some(&b'\n') {
                        return Err(JournalError::Foreign(self.path.clone(), why));
                    }
                    // Nothing is lost.
                    break;
                }
            } else {
                let Numbered { point } =
                    serde_json::from_slice(&line).map_err(|error| damaged(error.to_string()))?;
                let Some(place) = self.lines.get_mut(point) else {
                    return Err(damaged(format!("there is no point {point}")));
                };
                self.done += usize::from(place.is_none());
                *place = Some(self.end);
            }
            self.end += length as u64;
        }
        self.file.set_len(self.end).map_err(failed)
    }

    fn append(&mut self, line: &str) -> Result<(), JournalError> {
        let written = (|| {
            self.file.seek(SeekFrom::Start(self.end))?;
            self.file.write_all(format!("{line}\n").as_bytes())
        })();
        if let Err(error) = written {
            // The partial line would be removed at the next start in any case.
            let _ = self.file.set_len(self.end);
            return Err(JournalError::Io(self.path.clone(), error));
        }
        self.end += line.len() as u64 + 1;
        Ok(())
    }

    /// Adds a result.
    ///
    /// # Errors
    /// If it cannot be written; the journal is unchanged then.
    pub fn add(&mut self, result: &PointResult) -> Result<(), JournalError> {
        let line = serde_json::to_string(result)
            .map_err(|error| JournalError::Io(self.path.clone(), error.into()))?;
        let begin = self.end;
        self.append(&line)?;
        if let Some(place) = self.lines.get_mut(result.point) {
            self.done += usize::from(place.is_none());
            *place = Some(begin);
        }
        Ok(())
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the number of points that are done.
    pub fn done(&self) -> usize {
        self.done
    }

    /// True if point number `point` is done.
    pub fn has(&self, point: usize) -> bool {
        self.lines.get(point).is_some_and(Option::is_some)
    }

    /// Reads the results in the order of the points.
    ///
    /// # Errors
    /// In each item, if it cannot be read.
    pub fn results(&self) -> impl Iterator<Item = Result<PointResult, JournalError>> {
        self.lines.iter().flatten().map(|begin| self.read(*begin))
    }

    fn read(&self, begin: u64) -> Result<PointResult, JournalError> {
        let failed = |error| JournalError::Io(self.path.clone(), error);
        let mut file = self.file.try_clone().map_err(failed)?;
        file.seek(SeekFrom::Start(begin)).map_err(failed)?;
        let mut line = String::new();
        BufReader::new(file.take(self.end - begin)).read_line(&mut line).map_err(failed)?;
        serde_json::from_str(&line)
            .map_err(|error| JournalError::Damaged(self.path.clone(), 0, error.to_string()))
    }
}

/// The point of a line, without reading its rows.
#[derive(Deserialize)]
struct Numbered {
    point: usize,
}

/// Returns the reason that results of `found` cannot be combined with results of `wanted`.
fn foreign(found: &Header, wanted: &Header) -> Option<String> {
    if found.anabranch_sweep != wanted.anabranch_sweep {
        return Some(format!("it has format {}, and this program writes {FORMAT}", found.anabranch_sweep));
    }
    if found.plan != wanted.plan || found.points != wanted.points {
        return Some("they were made with another plan".to_owned());
    }
    if (&found.version, &found.commit) != (&wanted.version, &wanted.commit) {
        let name = |header: &Header| match &header.commit {
            Some(commit) => format!("{} ({commit})", header.version),
            None => header.version.clone(),
        };
        return Some(format!("anabranch {} wrote them, and this is {}", name(found), name(wanted)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(point: usize) -> PointResult {
        PointResult { point, scenario_hash: "a".to_owned(), runs: 3, packet_hops: 7, rows: Vec::new() }
    }

    fn header() -> Header {
        Header::new("plan".to_owned(), 10, Some("abc"))
    }

    #[test]
    fn a_journal_without_results_is_begun_again_by_another_sweep() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        let other = Header::new("other".to_owned(), 3, Some("abc"));
        drop(Journal::open(&path, &header()).unwrap());
        assert!(!Journal::has_results(&path));
        let mut journal = Journal::open(&path, &other).unwrap();
        journal.add(&result(2)).unwrap();
        drop(journal);
        assert_eq!(Journal::header_of(&path).unwrap(), other);
        assert!(Journal::has_results(&path));
        assert!(matches!(Journal::open(&path, &header()), Err(JournalError::Foreign(..))));
        assert_eq!(Journal::open(&path, &other).unwrap().done(), 1);
    }

    #[test]
    fn a_torn_line_is_cut_off_and_all_others_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        let mut journal = Journal::open(&path, &header()).unwrap();
        for point in [4, 0, 9] {
            journal.add(&result(point)).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let lines = whole[..length].iter().filter(|byte| **byte == b'\n').count();
            let mut journal = Journal::open(&path, &header()).unwrap();
            assert_eq!(journal.done(), lines.saturating_sub(1), "{length} bytes");
            for point in [4, 0, 9] {
                if !journal.has(point) {
                    journal.add(&result(point)).unwrap();
                }
            }
            let points: Vec<usize> = journal.results().map(|result| result.unwrap().point).collect();
            assert_eq!(points, [0, 4, 9]);
            drop(journal);
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{length} bytes");
        }
    }

    #[test]
    fn results_of_another_plan_or_program_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        // Without a result there would be nothing to refuse.
        Journal::open(&path, &header()).unwrap().add(&result(0)).unwrap();
        let others = [
            Header { plan: "other".to_owned(), ..header() },
            Header { commit: Some("def".to_owned()), ..header() },
            Header { version: "9.9".to_owned(), ..header() },
        ];
        for other in others {
            assert!(matches!(Journal::open(&path, &other), Err(JournalError::Foreign(..))));
        }
        std::fs::write(&path, "{}\n").unwrap();
        assert!(matches!(Journal::open(&path, &header()), Err(JournalError::Damaged(_, 1, _))));
    }

    #[test]
    #[cfg(unix)]
    fn two_processes_do_not_write_one_journal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        let _first = Journal::open(&path, &header()).unwrap();
        assert!(matches!(Journal::open(&path, &header()), Err(JournalError::InUse(_))));
    }
}
