//! The capture files of simulations; each is complete or absent.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::job::Job;
use crate::scenario::Scenario;
use crate::whole_file::{WholeFile, part_of_name};

/// The capturing host.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Viewpoint {
    /// The sender of the data: the client of an upload, the server of a download.
    #[default]
    Sender,
    /// The receiver of the data: the server of an upload, the client of a download.
    Receiver,
}

/// The settings of captures.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The capturing host.
    pub viewpoint: Viewpoint,
    /// The number of bytes kept of a packet; none keeps all.
    pub snap_len: Option<u32>,
}

/// A capture file could not be made.
#[derive(Debug)]
pub struct CaptureError {
    path: PathBuf,
    error: io::Error,
}

impl CaptureError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> io::ErrorKind {
        self.error.kind()
    }
}

impl core::fmt::Display for CaptureError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cannot write the capture {}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for CaptureError {}

/// The capture files of a comparison: one for each contender in each condition, of one run.
///
/// They are written under temporary names and renamed by [`Captures::commit`]; without it they are removed.
#[derive(Debug)]
pub struct Captures {
    files: Vec<Planned>,
    settings: Settings,
    /// The number of the captured run.
    run: u32,
}

#[derive(Debug)]
struct Planned {
    condition: usize,
    contender: usize,
    file: CaptureFile,
}

/// A capture file that is renamed only when it is complete; a device or a pipe is written directly.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    whole: WholeFile,
}

impl CaptureFile {
    /// Creates the file that will become `path`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<CaptureFile, CaptureError> {
        match WholeFile::create(path) {
            Ok(whole) => Ok(CaptureFile { path: path.to_owned(), whole }),
            Err(error) => Err(CaptureError { path: path.to_owned(), error }),
        }
    }

    /// Returns the file for writing.
    ///
    /// # Errors
    /// If the process cannot open another file.
    pub fn writer(&self) -> Result<File, CaptureError> {
        self.whole.file().try_clone().map_err(|error| self.failure(error))
    }

    /// Returns the error of a write that failed.
    pub fn failure(&self, error: io::Error) -> CaptureError {
        CaptureError { path: self.path.clone(), error }
    }

    /// Renames the file, and returns its name.
    ///
    /// # Errors
    /// If it cannot be renamed; it is removed then.
    pub fn commit(self) -> Result<PathBuf, CaptureError> {
        let CaptureFile { path, whole } = self;
        match whole.commit() {
            Ok(()) => Ok(path),
            Err(error) => Err(CaptureError { path, error }),
        }
    }
}

impl Captures {
    /// Creates the files. With one contender and one condition the name is `path`; otherwise the names of
    /// both are inserted before its extension: `out.pcapng` becomes `out.min_rtt.pcapng`, or with several
    /// conditions `out.loss=1%.min_rtt.pcapng`.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn create(path: &Path, scenario: &Scenario, settings: Settings) -> Result<Captures, CaptureError> {
        let mut files: Vec<Planned> = Vec::new();
        let (conditions, contenders) = (&scenario.conditions, &scenario.contenders);
        let count = conditions.len() * contenders.len();
        check_name(path, count)?;
        for (condition, with) in conditions.iter().enumerate() {
            for (contender, who) in contenders.iter().enumerate() {
                let mut names = Vec::new();
                if conditions.len() > 1 {
                    names.push(with.name.as_str());
                }
                if count > 1 {
                    names.push(who.name.as_str());
                }
                let mut path = named(path, &names);
                if files.iter().any(|other| other.file.path == path) {
                    // Names that differ only in characters unsuitable for file names.
                    let number = format!("{}", files.len() + 1);
                    names.push(&number);
                    path = named(&path, &[&number]);
                }
                files.push(Planned { condition, contender, file: CaptureFile::create(&path)? });
            }
        }
        Ok(Captures { files, settings, run: 0 })
    }

    /// Returns the same captures for run number `run` instead of run 0.
    pub fn of_run(self, run: u32) -> Captures {
        Captures { run, ..self }
    }

    /// Returns the capturing host and the length to which packets are cut.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns the file of `job`.
    fn file(&self, job: &Job) -> Option<&CaptureFile> {
        let is =
            |planned: &&Planned| (planned.condition, planned.contender) == (job.condition, job.contender);
        self.files.iter().find(is).map(|planned| &planned.file)
    }

    /// Returns the writer for the packets of `job`; none if it is not captured.
    pub(crate) fn writer(&self, job: &Job) -> Option<Result<BufWriter<File>, CaptureError>> {
        if job.run != self.run {
            return None;
        }
        let writer = self.file(job)?.writer();
        Some(writer.map(|file| BufWriter::with_capacity(1 << 18, file)))
    }

    /// Returns the error of the failed capture of `job`.
    pub(crate) fn failure(&self, job: &Job, error: io::Error) -> CaptureError {
        let path = self.file(job).map(|file| file.path.clone()).unwrap_or_default();
        CaptureError { path, error }
    }

    /// Renames the files, and returns their names.
    ///
    /// # Errors
    /// If one cannot be renamed; those before it are complete under their names.
    pub fn commit(self) -> Result<Vec<PathBuf>, CaptureError> {
        self.files.into_iter().map(|planned| planned.file.commit()).collect()
    }
}

/// Checks that names derived from `path` are meaningful: it must not be a directory, or a device or pipe if
/// there are `count` > 1 files.
fn check_name(path: &Path, count: usize) -> Result<(), CaptureError> {
    let wrong =
        |kind, text: &str| Err(CaptureError { path: path.to_owned(), error: io::Error::new(kind, text) });
    let ends_in_slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let metadata = std::fs::metadata(path);
    if ends_in_slash || metadata.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return wrong(io::ErrorKind::IsADirectory, "it is a directory; give the name of a file in it");
    }
    if count > 1 && metadata.is_ok_and(|metadata| !metadata.is_file()) {
        let text =
            format!("it is a device or a pipe, which cannot take {count} captures; choose one contender");
        return wrong(io::ErrorKind::InvalidInput, &text);
    }
    Ok(())
}

/// Returns `path` with `names` inserted before its extension.
pub fn named(path: &Path, names: &[&str]) -> PathBuf {
    if names.is_empty() {
        return path.to_owned();
    }
    let mut file = OsString::from(path.file_stem().unwrap_or_default());
    for name in names {
        file.push(".");
        file.push(part_of_name(name));
    }
    if let Some(extension) = path.extension() {
        file.push(".");
        file.push(extension);
    }
    path.with_file_name(file)
}
