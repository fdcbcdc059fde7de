//! Verdicts on claims of papers as text.

use anabranch_reproduce::Status;
use anabranch_reproduce::claims::Paper;
use anabranch_reproduce::finding::{Checked, Finding, score};
use anabranch_reproduce::parts;

use crate::table::{Align, Table, wrap_behind};
use crate::terminal::{self, BAD, GOOD, WARNING, paint};

/// Returns the verdicts as text, with a line for each claim if `names` or if there are few.
pub fn text(papers: &[Paper], findings: &[Finding], names: bool) -> String {
    match findings {
        [finding] => details(finding),
        _ => {
            let list = if names || findings.len() <= 40 { claims(findings) + "\n" } else { String::new() };
            list + &scores(papers, findings)
        }
    }
}

/// Returns the name of a verdict in its colour.
pub fn colored(status: Status) -> String {
    let style = match status {
        Status::Holds => GOOD,
        Status::Variant | Status::Undecided => WARNING,
        Status::Fails => BAD,
        Status::NotCheckable | Status::NotRun => return status.name().replace('_', " "),
    };
    paint(style, status.name())
}

/// Returns the table of claims.
fn claims(findings: &[Finding]) -> String {
    let mut table = Table::new().column("claim", Align::Left).column("verdict", Align::Left);
    table = table.optional("figure", Align::Left, 1).wrapped("what it says");
    for finding in findings {
        table.row(vec![
            finding.id.clone(),
            colored(finding.status),
            finding.figure.clone(),
            finding.claim.clone(),
        ]);
    }
    table.render(terminal::text_width())
}

/// Returns the score of each paper.
fn scores(papers: &[Paper], findings: &[Finding]) -> String {
    let mut table = Table::new().column("paper", Align::Left);
    for status in Status::ALL {
        table = table.column(&status.name().replace('_', " "), Align::Right);
    }
    let mut row = |name: &str, own: &mut dyn Iterator<Item = &Finding>| {
        let counts = score(own).map(|count| count.to_string());
        table.row([vec![name.to_owned()], counts.to_vec()].concat());
    };
    for paper in papers {
        let mut own = findings.iter().filter(|finding| finding.paper == paper.id).peekable();
        if own.peek().is_some() {
            row(&paper.id, &mut own);
        }
    }
    row("all", &mut findings.iter());
    table.render(terminal::text_width())
}

/// Returns everything about one claim.
fn details(finding: &Finding) -> String {
    let width = terminal::text_width();
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            text += &wrap_behind(&format!("{name:<9} "), value, width);
        }
    };
    field("claim", &format!("{} ({}, {})", finding.id, finding.paper, finding.figure));
    field("says", &finding.claim);
    field("paper", &finding.numbers);
    field("verdict", &colored(finding.status));
    field("judged by", &finding.build);
    field("parts", &parts::words(&finding.parts));
    field("finding", &finding.finding);
    if finding.checks.is_empty() {
        field("evidence", &finding.evidence);
    }
    if !finding.checks.is_empty() {
        field("tolerance", &finding.reason);
    }
    text += &checks(&finding.checks, width);
    for tried in &finding.variants {
        text += "\n";
        let head = format!("{}: {} ({})", tried.name, tried.what, colored(tried.status));
        text += &wrap_behind(&format!("{:<9} ", "variant"), &head, width);
        text += &checks(&tried.checks, width);
    }
    text
}

fn checks(checks: &[Checked], width: usize) -> String {
    let mut text = String::new();
    for check in checks {
        let head = format!("{} ({})", check.required, check.place());
        text += &wrap_behind("  ", &head, width);
        for line in &check.lines {
            let name = format!("    {:<9} ", line.status.name());
            text += &wrap_behind(&name, &line.words, width);
        }
    }
    text
}
