//! Faults of captures: the file, the place, and the fix.

use std::fmt;

/// A capture cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureFault {
    /// The name of the file; `-` is standard input.
    pub file: String,
    /// The fault with its place, such as `packet 7 at byte 1234 states a length of 4294967295 bytes`.
    pub text: String,
    /// The correction.
    pub help: String,
}

impl CaptureFault {
    pub(crate) fn new(file: &str, text: impl Into<String>, help: impl Into<String>) -> CaptureFault {
        CaptureFault { file: file.to_owned(), text: text.into(), help: help.into() }
    }
}

impl fmt::Display for CaptureFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.file == "-" { "standard input" } else { &self.file };
        write!(f, "{file}: {}", self.text)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for CaptureFault {}
