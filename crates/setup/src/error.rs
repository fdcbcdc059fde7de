//! Why a setup was not made.

use core::fmt;

/// What stands in the way. Every text says what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The options are wrong.
    Usage(String),
    /// The process may not do it.
    NotPermitted(String),
    /// It would have touched what anabranch did not make, or cannot work on this host. Nothing was changed.
    Refused(String),
    /// Something failed; what had been made is undone, or the text says what is left.
    Failed(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Usage(text)
            | SetupError::NotPermitted(text)
            | SetupError::Refused(text)
            | SetupError::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for SetupError {}
