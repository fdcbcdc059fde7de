//! `docs/results.md` shows every measure as its row declares it.
//!
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-measure --test page` writes the table there.

use anabranch_measure::page;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results.md");
const MARKS: [&str; 2] =
    ["<!-- measures: crates/measure/src/measures.rs -->\n", "<!-- end of measures -->\n"];

#[test]
fn the_page_has_every_measure() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once(MARKS[0]).unwrap();
    let (_, tail) = rest.split_once(MARKS[1]).unwrap();
    let meant = [head, MARKS[0], &page::markdown(), MARKS[1], tail].concat();
    if std::env::var_os("ANABRANCH_BLESS").is_some() {
        std::fs::write(PAGE, meant).unwrap();
    } else {
        assert_eq!(page, meant, "`ANABRANCH_BLESS=1 cargo test -p anabranch-measure --test page` updates it");
    }
}
