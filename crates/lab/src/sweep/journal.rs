//! The journal of a sweep: a header, and a line for each completed point, in the order of completion.
//!
//! Each line is written in one call. A partial line, left by a kill or a full disk, is removed when the
//! journal is opened again. Each line ends with a digest of its contents. A line without the right digest is no result, so
//! that its point is simulated again; the line stays in the file. Memory holds the positions of the lines, not the lines.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::PointResult;
use crate::scenario::sha256;

/// The version of the journal's lines.
const FORMAT: u32 = 1;

/// The beginning of the last member of a line.
const DIGEST: &str = ",\"digest\":\"";
/// The digits of a digest: half of a SHA-256 in hexadecimal.
const DIGITS: usize = 32;
/// The end of that member and of the line.
const END: &str = "\"}";

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
    /// The lines that are no result, by number, with the reason.
    damaged: Vec<(usize, String)>,
    done: usize,
    end: u64,
}

impl Journal {
    /// Opens the journal `path` for the results of `header`, and makes it if it does not exist.
    ///
    /// A journal of another sweep without any result is begun again. The points of damaged lines are not done.
    ///
    /// # Errors
    /// If it cannot be opened, has results of another sweep, or its header is damaged.
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
        let mut journal = Journal {
            path: path.to_owned(),
            file,
            header: header.clone(),
            lines,
            damaged: Vec::new(),
            done: 0,
            end: 0,
        };
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
    /// on it. A line that is not whole yet is left out, and so is a damaged one if all points have other lines.
    ///
    /// # Errors
    /// If it cannot be read, or a damaged line may have the result of a point that is missing.
    pub fn peek(path: &Path) -> Result<(Header, Vec<PointResult>), JournalError> {
        let failed = |error| JournalError::Io(path.to_owned(), error);
        let header = Journal::header_of(path)?;
        if header.anabranch_sweep != FORMAT {
            let why = format!("it has format {}, and this program reads {FORMAT}", header.anabranch_sweep);
            return Err(JournalError::Foreign(path.to_owned(), why));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let mut results: Vec<PointResult> = Vec::new();
        let mut damaged = None;
        for (at, line) in
            text.split_inclusive('\n').enumerate().skip(1).filter(|(_, line)| line.ends_with('\n'))
        {
            match parse::<PointResult>(line.as_bytes(), |result| result.point, header.points) {
                Ok(result) => results.push(result),
                Err(why) => damaged = damaged.or(Some((at + 1, why))),
            }
        }
        results.sort_by_key(|result| result.point);
        results.dedup_by_key(|result| result.point);
        match damaged {
            Some((line, why)) if results.len() < header.points => {
                Err(JournalError::Damaged(path.to_owned(), line, why))
            }
            _ => Ok((header, results)),
        }
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
            if number == 1 {
                let found: Header = serde_json::from_slice(&line)
                    .map_err(|error| JournalError::Damaged(self.path.clone(), number, error.to_string()))?;
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
                match parse::<Numbered>(&line, |line| line.point, self.lines.len()) {
                    Ok(Numbered { point }) => {
                        self.done += usize::from(self.lines[point].is_none());
                        self.lines[point] = Some(self.end);
                    }
                    Err(why) => self.damaged.push((number, why)),
                }
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
        let line = sealed(result).map_err(|error| JournalError::Io(self.path.clone(), error.into()))?;
        let begin = self.end;
        self.append(&line)?;
        if let Some(place) = self.lines.get_mut(result.point) {
            self.done += usize::from(place.is_none());
            *place = Some(begin);
        }
        Ok(())
    }

    /// Returns the plan, the program and the shard that have made the results.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Describes the damaged lines that the journal had when it was opened; none if all points are done without them.
    pub fn damage(&self) -> Option<String> {
        let ((line, why), others) = self.damaged.split_first().filter(|_| self.done < self.lines.len())?;
        let error = JournalError::Damaged(self.path.clone(), *line, why.clone());
        Some(match others.len() {
            0 => error.to_string(),
            1 => format!("{error} (and 1 other line)"),
            count => format!("{error} (and {count} other lines)"),
        })
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
        parse(line.as_bytes(), |result: &PointResult| result.point, self.lines.len())
            .map_err(|why| JournalError::Damaged(self.path.clone(), 0, why))
    }
}

/// Returns the line of `result`: its JSON, with a digest of everything before it as the last member.
fn sealed(result: &PointResult) -> serde_json::Result<String> {
    let mut line = serde_json::to_string(result)?;
    line.pop();
    let digest = digest(line.as_bytes());
    Ok(line + DIGEST + &digest + END)
}

fn digest(contents: &[u8]) -> String {
    let mut digest = sha256(contents);
    digest.truncate(DIGITS);
    digest
}

/// Reads a line with its digest; `point` returns its point, of `points`.
///
/// # Errors
/// The reason that it is no result.
fn parse<T: DeserializeOwned>(line: &[u8], point: impl Fn(&T) -> usize, points: usize) -> Result<T, String> {
    let line = line.trim_ascii_end();
    let at = line.len().saturating_sub(DIGEST.len() + DIGITS + END.len());
    let (contents, end) = line.split_at(at);
    if end != format!("{DIGEST}{}{END}", digest(contents)).as_bytes() {
        return Err("its contents do not have its digest".to_owned());
    }
    let read: T = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match point(&read) {
        point if point < points => Ok(read),
        point => Err(format!("there is no point {point}")),
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
    fn a_line_with_a_changed_digit_is_named_and_is_no_result() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        let header = Header { points: 3, ..header() };
        let mut journal = Journal::open(&path, &header).unwrap();
        for point in 0..3 {
            journal.add(&result(point)).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
        // Digits of the point, the runs, the hops and the digest.
        let digits = (ends[1]..ends[2]).filter(|at| whole[*at].is_ascii_digit());
        let mut tried = 0;
        for at in digits {
            let mut changed = whole.clone();
            changed[at] = if changed[at] == b'9' { b'8' } else { changed[at] + 1 };
            std::fs::write(&path, &changed).unwrap();
            let why = "line 3 is damaged: its contents do not have its digest";
            assert!(Journal::peek(&path).unwrap_err().to_string().ends_with(why));
            let mut journal = Journal::open(&path, &header).unwrap();
            let damage = journal.damage().unwrap();
            assert!(damage.ends_with(why), "{damage}");
            assert_eq!([0, 1, 2].map(|point| journal.has(point)), [true, false, true], "byte {at}");
            // A new line takes its place.
            journal.add(&result(1)).unwrap();
            drop(journal);
            let journal = Journal::open(&path, &header).unwrap();
            assert_eq!((journal.done(), journal.damage()), (3, None));
            let results: Vec<PointResult> = journal.results().map(Result::unwrap).collect();
            assert_eq!(results, [0, 1, 2].map(result));
            assert_eq!(Journal::peek(&path).unwrap().1, results);
            tried += 1;
        }
        assert!(tried > 10, "{tried}");
    }

    #[test]
    fn a_line_for_a_point_that_the_plan_does_not_have_is_no_result() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.ndjson");
        drop(Journal::open(&path, &header()).unwrap());
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.extend([sealed(&result(10)).unwrap(), "\n{}\n".to_owned(), sealed(&result(9)).unwrap()]);
        std::fs::write(&path, text + "\r\n").unwrap();
        let journal = Journal::open(&path, &header()).unwrap();
        assert!(journal.done() == 1 && journal.has(9));
        let damage = journal.damage().unwrap();
        assert!(damage.contains("line 2 is damaged: there is no point 10 (and 1 other line)"), "{damage}");
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
