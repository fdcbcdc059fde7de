//! `docs/fidelity.md` shows the recorded table, and explains each difference.
//!
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-validate --test page` updates the table there.
#![cfg(target_os = "linux")]

use anabranch_validate::compare::{Row, Verdict};
use anabranch_validate::record::{RECORDED, markdown, read};
use anabranch_validate::{Metric, grid, summary};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");
const BEGIN: &str = "<!-- table: crates/validate/fidelity.csv -->\n";
const END: &str = "<!-- end of table -->\n";
const BEGIN_SUMMARY: &str = "<!-- summary: crates/validate/fidelity.csv -->\n";
const END_SUMMARY: &str = "<!-- end of summary -->\n";

fn recorded() -> (Vec<String>, Vec<Row>) {
    read(RECORDED).unwrap()
}

#[test]
fn the_page_shows_the_table_that_is_kept() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (about, rows) = recorded();
    // The remarks on the rows of the file are recomputed.
    let about: Vec<String> = about.into_iter().filter(|line| !line.contains(" against the ")).collect();
    let summaries = summary::summaries(&rows, &grid::grid(grid::Which::All).unwrap());
    let put = |page: &str, begin: &str, end: &str, text: &str| {
        let (head, rest) = page.split_once(begin).unwrap();
        let (_, tail) = rest.split_once(end).unwrap();
        format!("{head}{begin}{text}{end}{tail}")
    };
    let meant = put(&page, BEGIN_SUMMARY, END_SUMMARY, &summary::markdown(&summaries));
    let meant = put(&meant, BEGIN, END, &markdown(&about, &rows));
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
    let grid = grid::grid(grid::Which::All).unwrap();
    let (_, rows) = recorded();
    for row in &rows {
        assert!(grid.iter().any(|point| point.name == row.point), "{} is no point of the grid", row.point);
    }
    for point in grid::quick().unwrap() {
        let there = rows.iter().any(|row| row.point == point.name);
        assert!(there, "--quick has nothing to hold {} against", point.name);
    }
}

#[test]
fn every_difference_of_more_than_10_per_cent_has_its_cause_on_the_page() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let causes = page.split_once("## Causes").unwrap().1;
    for row in recorded().1 {
        let main = matches!(row.metric, Metric::CompletionTime | Metric::Goodput);
        if main && row.difference.verdict == Verdict::Differs && row.difference.percent.abs() > summary::FAR {
            assert!(causes.contains(&format!("`{}`", row.point)), "no cause is given for {}", row.point);
        }
    }
}
