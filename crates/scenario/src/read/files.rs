//! The files that a scenario names: traces, and points of distribution functions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_link::Trace;
use anabranch_sim::distribution::Cdf;
use sha2::{Digest, Sha256};

use crate::library;
use crate::text::source::Problem;
use crate::text::tree::Node;

/// The size limit of a scenario file.
pub(crate) const MOST_BYTES: u64 = 4 << 20;
/// The size limit of a trace, some 30 million lines.
const MOST_TRACE_BYTES: u64 = 256 << 20;

/// The directory of the files that a source names.
#[derive(Clone, Debug)]
pub(super) enum Directory {
    /// The built-in files.
    Embedded,
    /// These files by name, and the built-in ones.
    Given(Arc<BTreeMap<String, String>>),
    /// This directory.
    Disk(PathBuf),
}

impl Directory {
    /// Returns the place of the file `name`; none if it is a built-in one. A file on disk may have the name of one.
    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        match self {
            Directory::Embedded | Directory::Given(_) => None,
            Directory::Disk(directory) => {
                let place = directory.join(name);
                (library::trace(name).is_none() || place.exists()).then_some(place)
            }
        }
    }

    /// Returns the text of the file `name` that is not on disk.
    fn given(&self, name: &str) -> Option<&str> {
        match self {
            Directory::Given(files) => files.get(name).map(String::as_str),
            Directory::Embedded | Directory::Disk(_) => None,
        }
    }
}

/// Returns the text of a file of at most `most` bytes, or the reason of the failure. (A device may be
/// endless, so its length is not queried.)
pub(crate) fn read_file(path: &Path, most: u64) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| reason(&error))?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| reason(&error))?;
    if bytes.len() as u64 > most {
        return Err(format!("it is larger than {} MiB", most >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())
}

/// Returns why a file cannot be read, in words.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads the files that a document names, each once.
pub(super) struct Files<'a> {
    /// The directory of each source.
    directories: &'a [Directory],
    cache: RefCell<Vec<(PathBuf, Arc<Trace>)>>,
    /// The files on disk.
    read: RefCell<Vec<PathBuf>>,
}

impl<'a> Files<'a> {
    pub(super) fn new(directories: &'a [Directory]) -> Files<'a> {
        Files { directories, cache: RefCell::default(), read: RefCell::default() }
    }

    /// Returns the files on disk that were read, in this order.
    pub(super) fn into_read(self) -> Vec<PathBuf> {
        self.read.into_inner()
    }

    /// Reads the points of a distribution function that `node` names, labelled with the SHA-256 of their text.
    pub(super) fn cdf(&self, node: &Node) -> Result<Cdf, Problem> {
        let name = node.string()?;
        let wrong = |reason: String| {
            Problem::at(&node.span, format!("cannot use the distribution `{name}`: {reason}")).help(
                "it has a value in base units (bytes, or nanoseconds) and a probability a line, the last of them 1 or 100 (percent); \
                 its name is relative to the scenario's directory",
            )
        };
        let directory = &self.directories[node.span.source];
        let text = match directory {
            Directory::Embedded | Directory::Given(_) => {
                let text = directory.given(name).map(str::to_owned);
                text.ok_or_else(|| wrong("there is no such file".to_owned()))?
            }
            Directory::Disk(directory) => {
                let file = directory.join(name);
                let text = read_file(&file, MOST_BYTES).map_err(wrong)?;
                self.read.borrow_mut().push(file);
                text
            }
        };
        Cdf::parse(&text, &sha256(text.as_bytes())).map_err(|error| wrong(error.to_string()))
    }

    /// Reads the trace that `node` names, labelled with the SHA-256 of its text.
    pub(super) fn trace(&self, node: &Node) -> Result<Arc<Trace>, Problem> {
        let name = node.string()?;
        let wrong = |reason: String| {
            Problem::at(&node.span, format!("cannot use the trace `{name}`: {reason}"))
                .help("a trace has one time in milliseconds a line; its name is relative to the scenario's directory")
        };
        let directory = &self.directories[node.span.source];
        let file = directory.file(name);
        let key = file.clone().unwrap_or_else(|| PathBuf::from(name));
        if let Some(known) = self.cache.borrow().iter().find(|known| known.0 == key) {
            return Ok(known.1.clone());
        }
        let text = match file {
            None => {
                let text = directory.given(name).or_else(|| library::trace(name)).map(str::to_owned);
                text.ok_or("there is no such file".to_owned())
            }
            Some(file) => {
                let text = read_file(&file, MOST_TRACE_BYTES);
                self.read.borrow_mut().push(file);
                text
            }
        }
        .map_err(&wrong)?;
        let trace = match Trace::is_rates(&text) {
            true => Trace::parse_rates(&text).map_err(|error| {
                Problem::at(&node.span, format!("cannot use the trace `{name}`: {error}"))
                    .help("a recording of rates has a header with units, such as `time_s,rate_mbps`, and a time and a rate a line")
            })?,
            false => Trace::parse(&text).map_err(|error| wrong(error.to_string()))?,
        };
        let trace = Arc::new(trace.labelled(&sha256(text.as_bytes())));
        self.cache.borrow_mut().push((key, trace.clone()));
        Ok(trace)
    }
}

/// Returns the SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    use core::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
