//! Experiments: scenario files, paired comparisons, statistics and verdicts.
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

pub mod advise;
pub mod baseline;
pub mod capture;
pub mod compare;
pub mod estimate;
pub mod explain;
pub mod figures;
pub mod lower_bound;
mod network;
pub mod output;
mod reader;
pub mod recording;
pub mod report;
pub mod run;
pub mod samples;
pub mod scenario;
pub mod schema;
mod source;
pub mod starts;
pub mod stats;
pub mod sweep;
mod tree;
pub mod units;
pub mod whole_file;

pub use source::{Place, ScenarioError, did_you_mean};
