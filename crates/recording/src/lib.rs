//! Run directories: the events of simulated runs as tables, and what made them.
//!
//! A [`RunDirectory`] is a [`Recording`](anabranch_lab::recording::Recording) for the runs of a scenario. Each
//! run has a separate directory with the tables of [`schema::TABLES`]; `run.json` has their origin, and
//! whether they are complete. Rows are written as they come, so that memory does not grow with a run.
//! A [`View`](view::View) is a run directory as figures need it. [`measured`] makes one of connections that were not
//! simulated.
//!
//! ```no_run
//! use anabranch_recording::Recorded;
//!
//! // The directory of `anabranch run --record recorded`.
//! let recorded = Recorded::open("recorded".as_ref())?;
//! println!("seed {}, {} runs", recorded.stored.facts.seed, recorded.stored.runs.len());
//! # Ok::<(), anabranch_recording::ReadError>(())
//! ```

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod batch;
mod data;
mod directory;
pub mod film;
pub mod measured;
mod names;
mod read;
mod recorder;
pub mod report;
pub mod schema;
mod series;
mod tables;
pub mod view;
mod xpl;

pub use directory::{DirectoryError, Origin, RunDirectory, Settings, make_empty};
pub use read::{Facts, ReadError, Recorded, Stored, StoredOutage, StoredRun};
