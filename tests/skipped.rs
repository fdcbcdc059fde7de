//! The one way in which a test of this repository is left out. `./test` counts and names what was.

use std::io::Write as _;

/// Tells that the test of this thread is left out, and why: on standard error, and in the file that
/// `ANABRANCH_SKIPS` names, a line for each. In CI it fails instead, where nobody would read it.
#[allow(dead_code, reason = "a test may include this file by way of others")]
pub fn skipped(why: impl core::fmt::Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test without a name");
    let ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
    assert!(!ci, "{test} cannot run, and this is CI: {why}");
    eprintln!("SKIPPED: {test}: {why}");
    if let Some(path) = std::env::var_os("ANABRANCH_SKIPS") {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_stem()).unwrap_or_default();
        // Cargo adds a hash behind the last hyphen.
        let program = program.to_string_lossy();
        let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
        let line = format!("{program}: {test}: {why}\n").replace('\n', " ").trim_end().to_owned() + "\n";
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file of ANABRANCH_SKIPS");
    }
}
