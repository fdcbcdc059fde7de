//! The errors of a setup.

use core::fmt;

/// The reason that a setup or teardown failed. Every text includes a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The options are wrong.
    Usage(String),
    /// The process lacks the privilege.
    NotPermitted(String),
    /// The setup would have changed something that anabranch did not make, or cannot work on this host.
    /// Nothing was changed.
    Refused(String),
    /// A step failed; completed steps were undone, or the text says which were not.
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
