//! Experiments with scenarios: runs, paired comparisons, statistics, verdicts, sweeps, explanations and advice.
//!
//! ```
//! use anabranch_lab::scenario::Document;
//!
//! let text = "
//!     path = [{ rate = '100 Mbit/s', rtt = '20 ms' }, { rate = '100 Mbit/s', rtt = '80 ms' }]
//!     traffic = { size = '50 KB' }
//!     schedulers = ['tcp']
//! ";
//! let scenario = Document::parse("example.toml", text, ".")?.scenario()?;
//! assert_eq!(scenario.conditions[0].experiment.paths().len(), 2);
//! # Ok::<(), anabranch_lab::ScenarioError>(())
//! ```

#![warn(unreachable_pub)]

/// The version of the numbers: it changes with every release in which the same scenario and seed give another result.
pub const RESULTS: u32 = 1;

pub mod advise;
pub mod baseline;
pub mod capture;
pub mod compare;
pub mod explain;
pub mod figures;
pub mod guard;
pub mod head;
pub mod inspected;
pub mod job;
#[cfg(test)]
mod made;
pub mod network;
pub mod options;
pub mod output;
pub mod recording;
pub mod report;
pub mod rounds;
pub mod run;
pub mod samples;
pub mod spoken;
pub mod starts;
pub mod sweep;
pub mod usage;
pub mod whole_file;

pub use anabranch_measure as measure;
pub use anabranch_measure::stats;
pub use anabranch_scenario as scenario;
pub use anabranch_scenario::{Place, ScenarioError, did_you_mean};
