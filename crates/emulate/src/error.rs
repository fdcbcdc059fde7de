//! Why an emulation cannot be.

use core::fmt;

/// What stands in the way. Every text says what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmulateError {
    /// The options or the scenario are wrong.
    Usage(String),
    /// The process may not do it.
    NotPermitted(String),
    /// Something failed; what had been made is gone again.
    Failed(String),
    /// It was told to stop.
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
    /// A failure of the system while it did `what`.
    pub(crate) fn system(what: impl fmt::Display, error: impl fmt::Display) -> EmulateError {
        EmulateError::Failed(format!("{what}: {error}"))
    }
}
