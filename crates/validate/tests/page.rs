//! `docs/fidelity.md` shows the table that is kept, and says a word on each difference.
//!
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-validate --test page` puts the table there anew.
#![cfg(target_os = "linux")]

use anabranch_validate::compare::{Row, Verdict};
use anabranch_validate::record::{RECORDED, markdown, read};
use anabranch_validate::{Metric, points};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");
const BEGIN: &str = "<!-- table: crates/validate/fidelity.csv -->\n";
const END: &str = "<!-- end of table -->\n";

fn recorded() -> (Vec<String>, Vec<Row>) {
    read(RECORDED).unwrap()
}

#[test]
fn the_page_shows_the_table_that_is_kept() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let (about, rows) = recorded();
    let meant = format!("{head}{BEGIN}{}{END}{tail}", markdown(&about, &rows));
    if std::env::var_os("ANABRANCH_BLESS").is_some() {
        std::fs::write(PAGE, meant).unwrap();
    } else {
        assert!(
            page == meant,
            "docs/fidelity.md has another table than fidelity.csv; see the head of this file"
        );
    }
}

#[test]
fn the_table_has_the_points_of_the_grid() {
    let grid = points::grid().unwrap();
    let (_, rows) = recorded();
    for row in &rows {
        assert!(grid.iter().any(|point| point.name == row.point), "{} is no point of the grid", row.point);
    }
    for point in points::quick().unwrap() {
        let there = rows.iter().any(|row| row.point == point.name);
        assert!(there, "--quick has nothing to hold {} against", point.name);
    }
}

#[test]
fn every_difference_of_more_than_15_per_cent_has_its_cause_on_the_page() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let causes = page.split_once("## Causes").unwrap().1;
    for row in recorded().1 {
        let main = matches!(row.metric, Metric::CompletionTime | Metric::Goodput);
        if main && row.difference.verdict == Verdict::Differs && row.difference.percent.abs() > 15.0 {
            assert!(causes.contains(&format!("`{}`", row.point)), "no cause is given for {}", row.point);
        }
    }
}
