//! For the command and the Python package: sets `ANABRANCH_BUILT_FROM` to the commit from which the program is built. It is
//! `ANABRANCH_COMMIT` if that is set, else the commit recorded in a published package, else the commit of this checkout by
//! git, else none.
//! No path is compiled into the program.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=ANABRANCH_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var("ANABRANCH_COMMIT").ok();
    let commit = given.or_else(packaged).or_else(checked_out).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-+.".contains(c);
    let commit = if commit.chars().all(is_plain) { commit } else { String::new() };
    println!("cargo::rustc-env=ANABRANCH_BUILT_FROM={commit}");
}

/// Returns the commit that `cargo package` writes to a file of the package.
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

/// Returns the commit of the repository that has `crates/cli` and `crates/py`; an enclosing repository does not count.
fn checked_out() -> Option<String> {
    let is_ours = ["crates/cli/", "crates/py/"].contains(&git(&["rev-parse", "--show-prefix"])?.as_str());
    if !is_ours || git(&["ls-files", "--full-name", "../cli/build.rs"])? != "crates/cli/build.rs" {
        return None;
    }
    // Changes of these rebuild the program anyway, so this adds no cost.
    let sources = sources();
    sources.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
    // A commit changes no source, but a release has to report the correct one; in other builds "-dirty" may
    // remain until the next change.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        let branch = git(&["rev-parse", "--symbolic-full-name", "HEAD"])?;
        for name in ["HEAD", "logs/HEAD", "packed-refs", &branch] {
            let path = git(&["rev-parse", "--git-path", name])?;
            // A missing file would cause a rebuild every time.
            if Path::new(&path).exists() {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
    // The last commit that has changed the sources, not the pages.
    let with_sources = |arguments: &[&str]| {
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        git(&[arguments, &["--"], &sources].concat())
    };
    let commit = with_sources(&["log", "-1", "--format=%H"]).filter(|commit| !commit.is_empty())?;
    let changes = with_sources(&["status", "--porcelain", "--untracked-files=no"]);
    let is_dirty = changes.is_some_and(|changes| !changes.is_empty());
    Some(if is_dirty { commit + "-dirty" } else { commit })
}

/// Returns the sources of the program, relative to this crate.
fn sources() -> Vec<String> {
    let mut sources: Vec<String> =
        ["scenarios", "Cargo.lock", "Cargo.toml"].map(|name| format!("../../{name}")).into();
    for entry in std::fs::read_dir("..").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // A separate program.
        if name != "interop" && entry.path().join("src").exists() {
            sources.extend([format!("../{name}/src"), format!("../{name}/Cargo.toml")]);
        }
    }
    sources.sort();
    sources
}
