//! Tells the program from which commit it is built: `ANABRANCH_COMMIT` where somebody sets it, else what a published
//! package says of itself, else what git says of this checkout, else nothing. No path goes into the program.

use std::path::Path;
use std::process::Command;

/// The sources of the program, seen from here.
const SOURCES: &[&str] = &["../../crates", "../../scenarios", "../../Cargo.lock", "../../Cargo.toml"];

fn main() {
    println!("cargo::rerun-if-env-changed=ANABRANCH_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var("ANABRANCH_COMMIT").ok();
    let commit = given.or_else(packaged).or_else(checked_out).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-+.".contains(c);
    let commit = if commit.chars().all(is_plain) { commit } else { String::new() };
    println!("cargo::rustc-env=ANABRANCH_BUILT_FROM={commit}");
}

/// `cargo package` writes the commit to a file of the package.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?.to_owned();
    let is_dirty = text.contains("\"dirty\": true");
    Some(if is_dirty { commit + "-dirty" } else { commit })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// The commit of the repository whose `crates/cli` this is; another one may lie around it.
fn checked_out() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])? != "crates/cli/" || git(&["ls-files", "build.rs"])? != "build.rs"
    {
        return None;
    }
    // Whatever changes the commit or what differs from it. A file that is not there would mean: every time.
    for name in ["HEAD", "logs/HEAD", "packed-refs"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    // The last commit that has changed the sources, so that one that changes a page builds nothing anew.
    let with_sources = |arguments: &[&str]| git(&[arguments, &["--"], SOURCES].concat());
    let commit = with_sources(&["log", "-1", "--format=%H"]).filter(|commit| !commit.is_empty())?;
    let changes = with_sources(&["status", "--porcelain", "--untracked-files=no"]);
    let is_dirty = changes.is_some_and(|changes| !changes.is_empty());
    Some(if is_dirty { commit + "-dirty" } else { commit })
}
