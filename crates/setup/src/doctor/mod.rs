//! Checks whether a host is ready for anabranch, and suggests remedies.
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

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Works, works in part, or could not be determined.
    Warn,
    /// Does not work.
    Fail,
}

/// The result of a check, with the command that repairs a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A stable name.
    pub id: &'static str,
    /// The result.
    pub level: Level,
    /// The finding and its consequence.
    pub what: String,
    /// A command or a change that removes the fault; none if nothing is wrong.
    pub remedy: Option<String>,
}

/// Runs all checks.
pub fn judge(facts: &Facts) -> Vec<Check> {
    checks::all(facts)
}
