//! The canonical forms and hashes of the built-in scenarios, kept in `tests/canonical.txt`: a hash identifies
//! an experiment in existing results.
//!
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-scenario --test canonical` rewrites the file. A hash that changes
//! although its scenario and its results do not is an error.

use anabranch_scenario::{Document, Scenario, library};
use anabranch_stack::congestion::CongestionKind;

const FILE: &str = "tests/canonical.txt";

fn entry(name: &str, scenario: &Scenario) -> String {
    format!("==== {name} {}\n{}\n", scenario.hash(), scenario.canonical())
}

#[test]
fn forms_and_hashes_are_frozen() {
    let mut text = String::new();
    for embedded in library::ALL {
        let scenario = Document::open(embedded.name).unwrap().scenario().unwrap();
        text += &entry(embedded.name, &scenario);
    }
    for kind in CongestionKind::ALL {
        let mut document = Document::open(library::DEFAULT).unwrap();
        document.set_option("--cc", "congestion", kind.name());
        text += &entry(&format!("{} with {}", library::DEFAULT, kind.name()), &document.scenario().unwrap());
    }
    if std::env::var_os("ANABRANCH_BLESS").is_some() {
        std::fs::write(FILE, text).unwrap();
        return;
    }
    let known = std::fs::read_to_string(FILE).unwrap();
    for (known, now) in known.split("==== ").zip(text.split("==== ")) {
        assert_eq!(known, now);
    }
    assert_eq!(known.len(), text.len());
}
