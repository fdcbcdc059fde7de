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

/// Asserts that the text of `document`'s scenario is a document of the same scenario.
fn check_text(name: &str, document: &Document) {
    let scenario = document.scenario().unwrap();
    let again = Document::parse("again", scenario.text.as_str(), "elsewhere").unwrap();
    let again = again.scenario().unwrap_or_else(|error| panic!("{name}: {error}\n{}", scenario.text));
    assert_eq!(again.hash(), scenario.hash(), "{name}:\n{}", scenario.text);
    assert_eq!(again.text, scenario.text, "{name}");
    let other =
        |of: &Scenario| (of.name.clone(), of.seed, of.runs, of.reference, of.min_effect, of.other_starts);
    assert_eq!(other(&again), other(&scenario), "{name}");
}

#[test]
fn the_text_of_a_scenario_is_a_document_of_the_same_scenario() {
    for embedded in library::ALL {
        check_text(embedded.name, &Document::open(embedded.name).unwrap());
    }
    let mut document = Document::bare();
    document.set_paths(&["lte,loss=1%".into(), "20Mbit/s,10ms,name=a \\\"b\"".into(), "lte".into()]).unwrap();
    document.set_size("--size", "1MB");
    document.set_schedulers("--schedulers", &["blest:lambda=1.1".into(), "tcp@2".into()]);
    document.set_option("--seed", "seed", "7");
    for assignment in
        ["rto.min=300ms", "path.lte.rate=3Mbit/s", "min-effect=0.02", "congestion={name=\"cubic\"}"]
    {
        document.set(assignment).unwrap();
    }
    check_text("options", &document);
}

#[test]
fn the_text_of_a_scenario_names_its_files_from_the_root() {
    let directory = std::env::temp_dir().join(format!("anabranch-text-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("x.down"), "1\n2\n").unwrap();
    std::fs::write(directory.join("sizes.txt"), "1000 0.5\n9000 1\n").unwrap();
    let text = "
        path = [{ trace = { down = 'x.down', up = 'traces/synthetic-lte.up' }, rtt = '20 ms' }]
        traffic.size = { distribution = 'cdf', file = 'sizes.txt' }
    ";
    check_text("files", &Document::parse("test", text, &directory).unwrap());
    std::fs::remove_dir_all(&directory).unwrap();
}
