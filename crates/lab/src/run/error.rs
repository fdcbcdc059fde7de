//! Why a run has no result.

use crate::scenario::ScenarioError;

/// The reason that there is no result.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// It was cancelled.
    Cancelled,
    /// The scenario cannot be simulated.
    Scenario(ScenarioError),
    /// Its packets could not be captured.
    Capture(String),
    /// Its samples could not be written.
    Samples(String),
    /// Its events could not be recorded.
    Recording(String),
}

impl core::fmt::Display for RunError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RunError::Cancelled => f.write_str("stopped before the end"),
            RunError::Scenario(error) => error.fmt(f),
            RunError::Capture(error) | RunError::Samples(error) | RunError::Recording(error) => {
                f.write_str(error)
            }
        }
    }
}

impl std::error::Error for RunError {}
