//! `docs/fidelity.md` and the README show how far this build is from the recorded runs of the kernel, and the page explains each
//! large difference.
//!
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-validate --test page -- --test-threads=1` updates them there.
#![cfg(target_os = "linux")]

use std::sync::atomic::AtomicBool;

use anabranch_validate::compare::{Row, Verdict};
use anabranch_validate::grid::Which;
use anabranch_validate::machine::Machine;
use anabranch_validate::record::{RECORDED, against_recorded, read};
use anabranch_validate::results::Results;
use anabranch_validate::summary::{self, is_main};
use anabranch_validate::{Campaign, Kind, Plan, grid};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
const NOW: [&str; 2] = ["<!-- now: anabranch validate --recorded -->\n", "<!-- end of now -->\n"];
const HEADLINE: [&str; 2] = ["<!-- headline: anabranch validate --recorded -->", "<!-- end of headline -->"];

fn recorded() -> (Vec<String>, Vec<Row>) {
    read(RECORDED).unwrap()
}

/// Replaces the text between two marks.
fn put(page: &str, [begin, end]: [&str; 2], text: &str) -> String {
    let (head, rest) = page.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    format!("{head}{begin}{text}{end}{tail}")
}

/// As `anabranch validate --recorded` does.
#[test]
fn the_page_and_the_readme_show_how_far_this_build_is_from_the_recorded_runs_of_the_kernel() {
    let points = grid::grid(Which::Drawn).unwrap();
    let plan =
        Plan { points, runs: 10, attempts: 1, jobs: 1, until: None, build: String::new(), captures: None };
    let mut campaign = Campaign::new(plan, Results::in_memory(Machine::here()));
    campaign.simulate(&AtomicBool::new(false)).unwrap();
    let points = &campaign.plan().points;
    let rows = against_recorded(points, campaign.simulated(), &recorded().1);
    let all = summary::summaries(&rows, points);
    let page = std::fs::read_to_string(PAGE).unwrap();
    let readme = std::fs::read_to_string(README).unwrap();
    let meant = put(&page, NOW, &summary::markdown(&all));
    let meant = put(&meant, HEADLINE, &summary::headline(&all));
    let meant_readme = put(&readme, HEADLINE, &summary::headline(&all));
    if std::env::var_os("ANABRANCH_BLESS").is_some() {
        std::fs::write(PAGE, meant).unwrap();
        std::fs::write(README, meant_readme).unwrap();
    } else {
        assert!(
            page == meant && readme == meant_readme,
            "docs/fidelity.md or README.md has another table for this build; see the head of this file"
        );
    }
}

#[test]
fn the_table_has_the_points_of_the_grid() {
    let grid = grid::grid(Which::All).unwrap();
    let (_, rows) = recorded();
    let names: Vec<String> = grid.iter().flat_map(|point| point.classes()).map(|(_, name)| name).collect();
    for row in &rows {
        assert!(names.contains(&row.point), "{} is no point of the grid", row.point);
    }
    for point in grid::quick().unwrap() {
        let there = rows.iter().any(|row| row.point == point.name);
        assert!(there, "--quick has nothing to hold {} against", point.name);
    }
}

#[test]
fn every_large_difference_has_its_cause_on_the_page() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let causes = page.split_once("## Causes").unwrap().1;
    for row in recorded().1 {
        let counts =
            is_main(&row) && row.reference == Kind::Kernel && row.difference.verdict == Verdict::Differs;
        if counts && row.difference.percent.abs() > summary::FAR {
            assert!(causes.contains(&format!("`{}`", row.point)), "no cause is given for {}", row.point);
        }
    }
}
