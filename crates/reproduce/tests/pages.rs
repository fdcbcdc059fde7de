//! The recorded verdicts on the pages, and the evidence that the record has for each claim.

use std::collections::BTreeSet;
use std::path::Path;

use anabranch_lab::scenario::library::PAPERS;
use anabranch_reproduce::claims::{Claim, Paper};
use anabranch_reproduce::finding::{Checked, Finding, score};
use anabranch_reproduce::{Kind, Status, library, recorded};

fn page(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(name)).unwrap();
    // Lines may be broken anywhere.
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each recorded finding with its claim.
fn rows() -> Vec<(Paper, Claim, Finding)> {
    let recorded = recorded::recorded().unwrap();
    let mut rows = Vec::new();
    for paper in library::papers().unwrap() {
        for claim in &paper.claims {
            let known = recorded.findings.iter().find(|finding| finding.id == claim.id);
            rows.push((paper.clone(), claim.clone(), known.unwrap().clone()));
        }
    }
    rows
}

fn of_kind(kind: Kind) -> usize {
    rows().iter().filter(|(_, claim, _)| claim.kind == kind).count()
}

/// Every number of the scores on the pages is that of `scenarios/reproduced.json`.
#[test]
fn the_scores_on_the_pages_are_those_recorded() {
    let rows = rows();
    let findings = || rows.iter().map(|(_, _, finding)| finding);
    let [holds, variant, fails, undecided, not_checkable, not_run] = score(findings());
    let total = rows.len();
    let readme = page("README.md");
    let has = |page: &str, text: &str| assert!(page.contains(text), "the page does not say: {text}");
    has(
        &readme,
        &format!(
            "claim by claim: {total} claims, each with its scenario, test or reason. {holds} hold, {variant} hold under \
             a named variant, {fails} do not hold here, {undecided} are undecided, and {not_checkable} cannot be \
             checked."
        ),
    );
    let own = page("docs/reproduction.md");
    let papers = library::papers().unwrap();
    has(
        &own,
        &format!("Of {total} claims of {} papers", ["no", "one", "two", "three", "four"][papers.len()]),
    );
    for paper in &papers {
        let [a, b, c, d, e, f] = score(findings().filter(|finding| finding.paper == paper.id));
        let row = format!("](../scenarios/{}/) ", paper.id);
        let at = own.find(&row).unwrap_or_else(|| panic!("no row of {}", paper.id));
        let cells = own[at..].split('|').skip(1).take(6).map(|cell| cell.trim().parse::<usize>().unwrap());
        assert_eq!(cells.collect::<Vec<_>>(), [a, b, c, d, e, f], "{}", paper.id);
    }
    has(
        &own,
        &format!(
            "| all {total} | {holds} | {variant} | {fails} | {undecided} | {not_checkable} | {not_run} |"
        ),
    );
    let (units, none) = (of_kind(Kind::Unit), of_kind(Kind::NotCheckable));
    has(
        &own,
        &format!(
            "{} claims are drawings, topologies and algorithms: {units} are tests of this repository, which count as \
             holding, and {none} cannot be checked.",
            units + none
        ),
    );
    if !UNTRIED.is_empty() {
        has(&own, &format!("and {} rows have variants that were added later", UNTRIED.len()));
    }
    // Ten findings are numbered.
    let raw =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduction.md"));
    let numbered = raw.unwrap().lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
    has(&own, &format!("## {} findings", ["", "", "", "", "", "", "", "", "Eight", "Nine", "Ten"][numbered]));
}

/// Claims that a page lists as holding hold, and it names no claim that does not exist.
#[test]
fn the_page_names_claims_with_their_verdicts() {
    let rows = rows();
    let status = |id: &str| {
        let row = rows.iter().find(|(_, claim, _)| claim.id == id);
        row.unwrap_or_else(|| panic!("the page names {id}, which is no claim")).2.status
    };
    let text = page("docs/reproduction.md");
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        let is_id = word.len() > 1
            && word.starts_with(['D', 'C', 'M', 'V'])
            && word[1..].chars().all(|c| c.is_ascii_digit());
        if is_id {
            status(word);
        }
    }
    let marker = "all hold: ";
    let from = text.find(marker).expect("the first finding lists the claims that hold") + marker.len();
    let list = &text[from..from + text[from..].find('.').unwrap()];
    for id in list.split(", ") {
        assert_eq!(status(id), Status::Holds, "{id}");
    }
}

/// True if every judgement of these checks holds.
fn all_hold(checks: &[Checked]) -> bool {
    let mut lines = checks.iter().flat_map(|check| &check.lines).peekable();
    lines.peek().is_some() && lines.all(|line| line.status == Status::Holds)
}

#[test]
fn every_row_that_holds_has_evidence() {
    for (_, claim, finding) in rows() {
        let id = &claim.id;
        match finding.status {
            Status::Holds if claim.kind == Kind::Unit => {
                assert_eq!(Some(&finding.evidence), claim.test.as_ref(), "{id}");
            }
            Status::Holds => assert!(all_hold(&finding.checks) && !finding.evidence.is_empty(), "{id}"),
            Status::Variant => {
                // Both results: the plain one, and that of the last variant, which holds.
                assert!(!finding.checks.is_empty() && !all_hold(&finding.checks), "{id}");
                if !finding.parts.is_empty() {
                    // Each part that needs a variant names one that was tried.
                    for name in finding.parts.iter().filter_map(|part| part.variant.as_ref()) {
                        assert!(finding.variants.iter().any(|tried| tried.name == *name), "{id}: {name}");
                    }
                    continue;
                }
                let last = finding.variants.last().unwrap();
                assert!(last.status == Status::Holds && all_hold(&last.checks), "{id}");
                assert!(finding.evidence.contains(&format!("With {}: ", last.name)), "{id}");
            }
            Status::NotCheckable => assert!(!finding.evidence.is_empty(), "{id}"),
            Status::Fails | Status::Undecided => {}
            Status::NotRun => panic!("{id} was not run"),
        }
    }
}

/// Rows with variants that were added after their verdict was recorded: the next full reproduction tries them all, and
/// empties this list.
const UNTRIED: &[&str] = &[];

/// A row that does not hold has its finding, a scenario that shows it, and every cause of its claim was tried.
#[test]
fn every_row_that_does_not_hold_has_a_finding_and_the_causes_that_were_tried() {
    let built_in: BTreeSet<&str> = PAPERS.iter().map(|scenario| scenario.name).collect();
    let mut untried = Vec::new();
    for (paper, claim, finding) in rows() {
        let id = &claim.id;
        if !matches!(finding.status, Status::Fails | Status::Undecided) {
            continue;
        }
        assert!(claim.finding.len() > 20, "{id} has no finding");
        let shows =
            finding.checks.iter().find(|check| check.lines.iter().any(|line| line.status == finding.status));
        let shows = shows.unwrap_or_else(|| panic!("{id}: no check shows the verdict"));
        let check = claim.checks.iter().find(|check| check.choice.source().name() == shows.source);
        let check =
            check.unwrap_or_else(|| panic!("{id}: no check of the claim has the source {}", shows.source));
        let name = format!("{}/{}", paper.id, shows.source);
        assert!(check.choice.window.is_some() || built_in.contains(name.as_str()), "{id}: {name}");
        let tried: Vec<&String> = finding.variants.iter().map(|tried| &tried.name).collect();
        // Combinations of them come after them.
        let single = tried.len().min(claim.variants.len());
        if tried[..single] != claim.variants.iter().collect::<Vec<_>>() {
            untried.push(id.clone());
        }
    }
    assert_eq!(untried, UNTRIED, "variants without a recorded result: record them, and correct the list");
}

/// A single run has no interval, so that it cannot be undecided: `--quick` would report a change that is none.
#[test]
fn quick_claims_that_are_undecided_have_all_runs_of_the_record() {
    for (_, claim, finding) in rows() {
        if claim.quick && finding.status == Status::Undecided {
            let fewer = claim.checks.iter().any(|check| check.quick_runs.is_some());
            assert!(!fewer, "{} is recorded as undecided, and has `quick-runs`", claim.id);
        }
    }
}
