//! `anabranch sweep --json`, and the file `run.json` of its directory.

use std::path::PathBuf;

use serde::Serialize;

use super::VERSION;
use crate::sweep::{Journal, Plan, Summary};

/// The summary of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// The version of this program.
    pub version: &'static str,
    /// The commit from which this program was built.
    pub commit: Option<&'static str>,
    /// The command line.
    pub command: Vec<String>,
    /// The directory of the results.
    pub directory: PathBuf,
    /// The number of points of the plan.
    pub points: usize,
    /// The results of the points that are done.
    #[serde(flatten)]
    pub summary: Summary,
}

impl Sweep {
    /// Returns the summary of the sweep of `plan` in `directory`.
    pub fn new(directory: impl Into<PathBuf>, plan: &Plan, summary: Summary) -> Sweep {
        Sweep {
            version: VERSION,
            commit: None,
            command: Vec::new(),
            directory: directory.into(),
            points: plan.points(),
            summary,
        }
    }
}

/// `run.json`: the state of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepState {
    /// The version of this program.
    pub version: &'static str,
    /// The commit from which this program was built.
    pub commit: Option<&'static str>,
    /// The command line.
    pub command: Vec<String>,
    /// The file of the plan in the directory.
    pub plan: String,
    /// The way in which its points are chosen, such as `grid`.
    pub design: &'static str,
    /// The number of points of the plan.
    pub points: usize,
    /// The number of points that were done when this was written: before the first and after the last.
    pub points_done: usize,
    /// `complete`, or `partial` without a table of results.
    pub status: &'static str,
    /// The start of the last process that worked on it, in seconds since 1970.
    pub begun_unix_s: u64,
    /// Its end; null while it works, and after a kill.
    pub ended_unix_s: Option<u64>,
}

impl SweepState {
    /// Returns the state of the sweep of `plan`, which is in a file of the name `file`. The last process works on it since
    /// the first time of `worked`, or did so until the second, in seconds since 1970.
    pub fn new(
        plan: &Plan,
        file: &str,
        journal: &Journal,
        complete: bool,
        worked: (u64, Option<u64>),
    ) -> SweepState {
        SweepState {
            version: VERSION,
            commit: None,
            command: Vec::new(),
            plan: file.to_owned(),
            design: plan.design().name(),
            points: plan.points(),
            points_done: journal.done(),
            status: if complete { "complete" } else { "partial" },
            begun_unix_s: worked.0,
            ended_unix_s: worked.1,
        }
    }
}
