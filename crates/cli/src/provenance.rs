//! Where a result comes from: the program and the command line.

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit from which this program was built, with `-dirty` behind it where its sources were changed; none
/// where nothing is known of it.
pub fn commit() -> Option<&'static str> {
    Some(env!("ANABRANCH_BUILT_FROM")).filter(|commit| !commit.is_empty())
}

/// The command line, with the plain name of the program.
pub fn command() -> Vec<String> {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    core::iter::once("anabranch".to_owned()).chain(arguments).collect()
}
