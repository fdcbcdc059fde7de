//! The origin of a result: the program and the command line.

use std::ffi::OsString;
use std::sync::OnceLock;

use anabranch_lab::output::Origin;

/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the commit from which this program was built, followed by `-dirty` if its sources were changed;
/// none if it is unknown.
pub(crate) fn commit() -> Option<&'static str> {
    Some(env!("ANABRANCH_BUILT_FROM")).filter(|commit| !commit.is_empty())
}

/// The command line, with the plain name of the program.
static COMMAND: OnceLock<Vec<String>> = OnceLock::new();

/// Records the command line, once.
pub(crate) fn set_command(words: &[OsString]) {
    let arguments = words.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let _ = COMMAND.set(core::iter::once("anabranch".to_owned()).chain(arguments).collect());
}

/// Returns the command line, with the plain name of the program; empty if there was none.
pub(crate) fn command() -> Vec<String> {
    COMMAND.get().cloned().unwrap_or_default()
}

/// Returns the commit and the command line.
pub(crate) fn origin() -> Origin {
    Origin { commit: commit(), command: command() }
}
