//! The error messages of wrong scenarios, kept as texts in `tests/errors/`.
//!
//! Each file there has scenarios, each followed by its error. `UPDATE=1 cargo test` rewrites the errors.

use std::path::Path;

use anabranch_scenario::Document;

const INPUT: &str = "==== ";
const OUTPUT: &str = "---- error\n";

fn error_of(text: &str) -> String {
    let result = Document::parse("s.toml", text, Path::new("tests")).and_then(|document| document.scenario());
    match result {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn check(file: &str) {
    let path = Path::new("tests/errors").join(file);
    let old = std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    let mut new = String::new();
    for case in old.split(INPUT).skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let text = rest.split(OUTPUT).next().unwrap();
        new.push_str(&format!("{INPUT}{title}\n{text}{OUTPUT}{}\n\n", error_of(text)));
    }
    let new = format!("{}\n", new.trim_end());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, new).unwrap();
    } else {
        assert_eq!(old, new, "the errors of {file} have changed; see them with UPDATE=1 and git diff");
        assert!(!new.contains("no error"), "{file} has a scenario that is right");
    }
}

#[test]
fn syntax_and_keys() {
    check("keys.txt");
}

#[test]
fn units_and_ranges() {
    check("units.txt");
}

#[test]
fn contradictions() {
    check("contradictions.txt");
}

#[test]
fn contenders_and_conditions() {
    check("contenders.txt");
}

#[test]
fn graphs() {
    check("graphs.txt");
}

#[test]
fn classes_of_traffic() {
    check("classes.txt");
}

#[test]
fn addresses_of_the_server_and_endpoints() {
    check("endpoints.txt");
}
