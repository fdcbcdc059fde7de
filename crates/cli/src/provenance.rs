//! The origin of a result: the program and the command line.

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the commit from which this program was built, followed by `-dirty` if its sources were changed;
/// none if it is unknown.
pub fn commit() -> Option<&'static str> {
    Some(env!("ANABRANCH_BUILT_FROM")).filter(|commit| !commit.is_empty())
}

/// Returns the command line, with the plain name of the program.
pub fn command() -> Vec<String> {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    core::iter::once("anabranch".to_owned()).chain(arguments).collect()
}
