//! Whether a host is fit for anabranch, and what would help where it is not.
//!
//! [`Facts`] are read from the system and judged by pure functions, one for each [`Check`].

mod checks;
mod facts;
mod probe;

#[cfg(test)]
mod checks_tests;

use serde::Serialize;

pub use facts::{Facts, MptcpEndpoint, Source, TunFile};
pub use probe::{Probe, ProbeOutcome, is_multipath, probe};

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Works, or works in part, or cannot be told.
    Warn,
    /// Does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A name that does not change.
    pub id: &'static str,
    /// How it stands.
    pub level: Level,
    /// What was found, and what follows.
    pub what: String,
    /// What would help.
    pub remedy: Option<String>,
}

/// Judges everything.
pub fn judge(facts: &Facts) -> Vec<Check> {
    checks::all(facts)
}
