use std::path::{Path, PathBuf};

use super::files::{Captures, Settings};
use crate::scenario::{Document, Scenario};

fn scenario(more: &str) -> Scenario {
    let text =
        format!("path = [{{ rate = '10 Mbit/s', rtt = '20 ms' }}]\ntraffic = {{ size = '5 KB' }}\n{more}");
    Document::parse("test.toml", &text, ".").expect("TOML").scenario().expect("a scenario")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn one_simulation_goes_to_the_file_that_was_named_and_several_to_one_each() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out.pcapng");
    let commit = |more: &str| {
        let captures = Captures::create(&path, &scenario(more), Settings::default()).expect("files");
        captures.commit().expect("names")
    };
    assert_eq!(commit("schedulers = ['tcp']"), std::slice::from_ref(&path));
    assert_eq!(names(directory.path()), ["out.pcapng"]);
    let paths = commit("schedulers = ['tcp', { scheduler = 'min_rtt', name = 'a/b c' }]");
    let expected: Vec<PathBuf> =
        ["out.tcp.pcapng", "out.a_b_c.pcapng"].iter().map(|name| directory.path().join(name)).collect();
    assert_eq!(paths, expected);
    assert_eq!(names(directory.path()), ["out.a_b_c.pcapng", "out.pcapng", "out.tcp.pcapng"]);
}

#[test]
fn what_is_not_committed_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out.pcapng");
    std::fs::write(&path, "what was there").expect("a file");
    drop(Captures::create(&path, &scenario("schedulers = ['tcp']"), Settings::default()).expect("a file"));
    assert_eq!(names(directory.path()), ["out.pcapng"]);
    assert_eq!(std::fs::read(&path).expect("a file"), b"what was there");
}

#[test]
fn a_path_that_cannot_be_written_is_an_error_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = |path: &Path| {
        let made = Captures::create(path, &scenario("schedulers = ['tcp']"), Settings::default());
        made.expect_err("no such place").to_string()
    };
    assert!(error(directory.path()).contains("it is a directory"));
    let several = |path: &str| {
        let made = Captures::create(
            Path::new(path),
            &scenario("schedulers = ['tcp', 'min_rtt']"),
            Settings::default(),
        );
        made.expect_err("no file for two").to_string()
    };
    // With several contenders the names of files are derived from it, and must not end up next to the
    // directory.
    assert!(several(directory.path().to_str().unwrap()).contains("it is a directory"));
    assert!(several(&format!("{}/new/", directory.path().display())).contains("it is a directory"));
    assert!(several("/dev/null").contains("a device or a pipe"));
    assert!(!Path::new("/dev/null.tcp").exists());
    let missing = directory.path().join("missing/out.pcapng");
    assert!(error(&missing).starts_with(&format!("cannot write the capture {}", missing.display())));
}
