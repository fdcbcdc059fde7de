//! Errors of an emulation.

use core::fmt;

/// The reason that an emulation failed. Every text includes a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmulateError {
    /// The options or the scenario are wrong.
    Usage(String),
    /// The process lacks the privilege.
    NotPermitted(String),
    /// A step failed; everything that had been made was removed.
    Failed(String),
    /// It was cancelled.
    Interrupted,
}

impl fmt::Display for EmulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmulateError::Usage(text) | EmulateError::NotPermitted(text) | EmulateError::Failed(text) => {
                f.write_str(text)
            }
            EmulateError::Interrupted => f.write_str("stopped before the end"),
        }
    }
}

impl std::error::Error for EmulateError {}

impl EmulateError {
    /// Returns an error of the system during `what`.
    pub(crate) fn system(what: impl fmt::Display, error: impl fmt::Display) -> EmulateError {
        EmulateError::Failed(format!("{what}: {error}"))
    }
}
