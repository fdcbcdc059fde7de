//! Tells the program from which commit it is built: `ANABRANCH_COMMIT` where somebody sets it, else what a published
//! package says of itself, else what git says of this checkout, else nothing. No path goes into the program.

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
    // What the program is built anew for anyway, so that this costs nothing more.
    let sources = sources();
    sources.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
    // A commit changes no source. A release says from which one it is all the same; while one works on the
    // program, "-dirty" may stay until the next change.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        let branch = git(&["rev-parse", "--symbolic-full-name", "HEAD"])?;
        for name in ["HEAD", "logs/HEAD", "packed-refs", &branch] {
            let path = git(&["rev-parse", "--git-path", name])?;
            // A file that is not there would mean: every time.
            if Path::new(&path).exists() {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
    // The last commit that has changed the sources: it names them, and no page.
    let with_sources = |arguments: &[&str]| {
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        git(&[arguments, &["--"], &sources].concat())
    };
    let commit = with_sources(&["log", "-1", "--format=%H"]).filter(|commit| !commit.is_empty())?;
    let changes = with_sources(&["status", "--porcelain", "--untracked-files=no"]);
    let is_dirty = changes.is_some_and(|changes| !changes.is_empty());
    Some(if is_dirty { commit + "-dirty" } else { commit })
}

/// The sources of the program, seen from here.
fn sources() -> Vec<String> {
    let mut sources: Vec<String> =
        ["scenarios", "Cargo.lock", "Cargo.toml"].map(|name| format!("../../{name}")).into();
    for entry in std::fs::read_dir("..").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // A program of its own.
        if name != "interop" && entry.path().join("src").exists() {
            sources.extend([format!("../{name}/src"), format!("../{name}/Cargo.toml")]);
        }
    }
    sources.sort();
    sources
}
