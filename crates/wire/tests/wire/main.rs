//! The codec through its public interface: vectors, properties, and malformed input.

mod chew;
mod corpus;
mod echo;
mod icmp;
mod kit;
mod malformed;
mod options;
mod packets;
mod remarks;
mod roundtrip;

/// The table of rules names tests; each must exist.
#[test]
fn the_tests_that_the_table_of_rules_names_exist() {
    let table = include_str!("../../../../docs/rfc8684.md");
    let sources = [("options", include_str!("options.rs")), ("packets", include_str!("packets.rs"))];
    let mut found = 0;
    let names = table.split('`').filter_map(|part| part.strip_prefix("wire::"));
    for name in names.filter(|name| !name.is_empty()) {
        let (topic, test) = name.split_once("::").expect("a topic and a test");
        let source = sources.iter().find(|(known, _)| *known == topic).map(|(_, source)| source);
        assert!(source.is_some_and(|text| text.contains(&format!("fn {test}()"))), "{name} is not there");
        found += 1;
    }
    assert!(found > 10, "{found}");
}
