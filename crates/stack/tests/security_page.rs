//! The security page names the test of each defence; none of them may be missing.

#![expect(clippy::disallowed_methods, reason = "reads the page and the tests")]

use std::fs;
use std::path::Path;

#[test]
fn the_tests_that_the_page_names_exist() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(crate_root.join("../../docs/security.md")).expect("the page");
    let mut found = 0;
    for name in page.split('`').filter(|part| part.contains("::")) {
        let (file, test) = name.split_once("::").expect("two parts");
        // `EndpointConfig::max_half_open` and similar names are not tests.
        if file.starts_with(char::is_uppercase) || file == "file" {
            continue;
        }
        let places =
            ["tests", "tests/script", "../net/tests"].map(|folder| crate_root.join(folder).join(file));
        let source = places
            .iter()
            .find_map(|place| fs::read_to_string(place.with_extension("rs")).ok())
            .unwrap_or_else(|| panic!("{name}: there is no {file}.rs"));
        assert!(source.contains(&format!("fn {test}(")), "{name} is not there");
        found += 1;
    }
    assert!(found > 20, "{found}");
}
