//! The failures of a command, and their exit codes.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use anabranch_lab::ScenarioError;
use anabranch_lab::capture::CaptureError;
use anabranch_lab::run::RunError;
use anabranch_lab::samples::SamplesError;
use anabranch_lab::sweep::{DirectoryError, JournalError};

use crate::output;

/// The reason that a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The options or the scenario are wrong.
    Usage(String),
    /// Any other failure.
    Failed(String),
    /// Ctrl-C.
    Interrupted,
    /// The reader of the output has closed it.
    BrokenPipe,
}

impl Failure {
    /// Returns the failure of writing the file `path`. A directory in its place, a missing one around it, or an input
    /// of the command is a mistake in the options.
    pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
        Failure::of_file(error.kind(), format!("cannot write {}: {error}", path.display()))
    }

    fn of_file(kind: io::ErrorKind, text: String) -> Failure {
        match kind {
            io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::NotFound
            | io::ErrorKind::InvalidInput => Failure::Usage(text),
            _ => Failure::Failed(text),
        }
    }

    /// Returns the failure of a `verb` that this build does not have.
    #[cfg(not(all(target_os = "linux", feature = "network")))]
    pub fn without_network(verb: &str) -> Failure {
        Failure::Failed(if cfg!(target_os = "linux") {
            format!("`anabranch {verb}` is not in this build, which lacks the feature `network`")
        } else {
            format!("`anabranch {verb}` needs the TUN devices of Linux")
        })
    }

    /// Prints the failure, and returns the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Usage(text) => {
                output::error(text);
                ExitCode::from(2)
            }
            Failure::Failed(text) => {
                output::error(text);
                ExitCode::from(1)
            }
            Failure::Interrupted => {
                output::error("interrupted; there is no result");
                ExitCode::from(130)
            }
            Failure::BrokenPipe => ExitCode::SUCCESS,
        }
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Failure {
        match error {
            DirectoryError::Usage(text) => Failure::Usage(text),
            DirectoryError::Failed(text) => Failure::Failed(text),
        }
    }
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Failure {
        Failure::of_file(error.kind(), error.to_string())
    }
}

impl From<SamplesError> for Failure {
    fn from(error: SamplesError) -> Failure {
        match error {
            SamplesError::Format(_) => Failure::Usage(error.to_string()),
            SamplesError::Io(_, ref inner) => Failure::of_file(inner.kind(), error.to_string()),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Cancelled => Failure::Interrupted,
            RunError::Scenario(error) => Failure::Usage(error.to_string()),
            RunError::Capture(error) | RunError::Samples(error) | RunError::Recording(error) => {
                Failure::Failed(error)
            }
        }
    }
}
