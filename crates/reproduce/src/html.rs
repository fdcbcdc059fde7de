//! The report: one HTML file that needs nothing else.

use core::fmt::Write;

use anabranch_plot::{Curves, inline_curves, palette};

use crate::claims::Paper;
use crate::figure::{self, Drawn};
use crate::finding::{Checked, Finding, score};
use crate::judge::Status;
use crate::parts;
use crate::recorded::Recorded;

const STYLE: &str = "
:root { color-scheme: light dark; --good: GOOD; --bad: BAD; --open: OPEN; --dim: #6e7781;
  --paper: #fff; --line: #8883; }
@media (prefers-color-scheme: dark) { :root { --good: DARK_GOOD; --bad: DARK_BAD; --open: DARK_OPEN; --dim: #9198a1;
  --paper: #121518; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--paper); }
h1 { margin-bottom: 0; } h2 { margin-top: 3rem; border-bottom: 2px solid var(--line); }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; }
.holds { color: var(--good); } .fails { color: var(--bad); } .variant, .undecided { color: var(--open); }
.not_checkable, .not_run, .dim { color: var(--dim); }
.bar { display: flex; height: .8rem; width: 14rem; border-radius: 3px; overflow: hidden; margin-top: .35rem; }
.bar i { background: currentColor; } .bar .variant { opacity: .75; } .bar .undecided { opacity: .4; }
nav { display: flex; flex-wrap: wrap; gap: .3rem; margin: 1rem 0; }
nav a { border: 1px solid currentColor; border-radius: 4px; padding: 0 .4rem; text-decoration: none;
  font-size: 13px; min-width: 1.8rem; text-align: center; }
article { border-top: 1px solid var(--line); padding: 1rem 0; }
article h3 { margin: 0; font-size: 1rem; } article p { margin: .3rem 0; max-width: 50rem; }
.finding { border-left: 3px solid var(--line); padding-left: .8rem; font-weight: 500; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(25rem, 1fr)); gap: 1rem; margin: .8rem 0; }
figure { margin: 0; } figcaption { font-size: 13px; color: var(--dim); padding-left: 3.5rem; }
svg { width: 100%; height: auto; }
details { margin: .4rem 0; font-size: 14px; } summary { cursor: pointer; color: var(--dim); }
ul { margin: .1rem 0 .5rem; }
@media print { details { display: none; } article { break-inside: avoid; } }
";

/// Returns the style with the colours of verdicts, on white and on a dark page.
fn style() -> String {
    let of = [("GOOD", palette::HOLDS), ("BAD", palette::FAILS), ("OPEN", palette::UNDECIDED)];
    of.iter().fold(STYLE.to_owned(), |style, (name, pair)| {
        style
            .replace(&format!("DARK_{name};"), &format!("{};", pair.dark))
            .replace(&format!(" {name};"), &format!(" {};", pair.light))
    })
}

/// Returns the report on `results` of `papers`.
pub fn report(papers: &[Paper], results: &Recorded) -> String {
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Papers, claim by claim</title>\n",
    );
    let _ = write!(html, "<style>{}</style>\n<h1>Papers, claim by claim</h1>\n", style());
    let seed = results.seed.map_or("that of each scenario".to_owned(), |seed| seed.to_string());
    let _ = writeln!(html, "<p class=\"dim\">anabranch {}; seed: {seed}</p>", escape(&results.build));
    html += "<p>A claim <b class=\"holds\">holds</b> if the 95 % interval of the paired runs lies in the range that was \
             written down before; it holds as a <b class=\"variant\">variant</b> if it does so only with something that the \
             paper leaves open, or with a quirk of its tools; it <b class=\"fails\">fails</b> if one interval lies outside, \
             and is <b class=\"undecided\">undecided</b> if one reaches over the edge. Figures have the axes and curves of the \
             papers, with values simulated here; dashed and hollow are numbers that the paper prints. Bars across a point \
             are 95 % intervals. A figure of one run, or of the packets or seconds of runs, names them above it.</p>\n";
    html += "<table><tr><th>Paper</th><th></th>";
    for status in Status::ALL {
        let _ = write!(html, "<th class=\"n {}\">{}</th>", status.name(), status.name().replace('_', " "));
    }
    html += "</tr>\n";
    let mut row = |name: &str, counts: [usize; 6]| {
        let _ = write!(html, "<tr><td>{name}</td><td>{}</td>", bar(counts));
        for count in counts {
            let _ = write!(html, "<td class=\"n\">{count}</td>");
        }
        html += "</tr>\n";
    };
    for paper in papers {
        let name = format!("<a href=\"#{}\">{}</a>", paper.id, escape(&paper.title));
        row(&name, score(results.findings.iter().filter(|finding| finding.paper == paper.id)));
    }
    if papers.len() > 1 {
        row("All", score(results.findings.iter()));
    }
    html += "</table>\n";
    let figures = figure::by_claim(&results.figures);
    for paper in papers {
        let own: Vec<&Finding> =
            results.findings.iter().filter(|finding| finding.paper == paper.id).collect();
        if own.is_empty() {
            continue;
        }
        let _ = writeln!(html, "<h2 id=\"{}\">{}</h2>", paper.id, escape(&paper.title));
        let _ = writeln!(html, "<p>{}</p>\n<nav>", escape(&paper.notes));
        for finding in &own {
            let Finding { id, status, figure, .. } = finding;
            let _ = writeln!(
                html,
                "<a href=\"#{id}\" class=\"{0}\" title=\"{1}: {0}\">{id}</a>",
                status.name(),
                escape(figure)
            );
        }
        html += "</nav>\n";
        for finding in own {
            claim(&mut html, finding, figures.get(finding.id.as_str()).map_or(&[], Vec::as_slice));
        }
    }
    html + "</html>\n"
}

/// Returns a bar of the score.
fn bar(counts: [usize; 6]) -> String {
    let mut html = String::from("<div class=\"bar\">");
    for (status, count) in Status::ALL.iter().zip(counts).filter(|(_, count)| *count > 0) {
        let _ = write!(html, "<i class=\"{}\" style=\"flex:{count}\"></i>", status.name());
    }
    html + "</div>"
}

fn claim(html: &mut String, finding: &Finding, figures: &[&Drawn]) {
    let _ = writeln!(
        html,
        "<article id=\"{id}\"><h3>{id} <span class=\"{class}\">{status}</span> \
         <span class=\"dim\">{figure}</span></h3>\n<p>{claim}</p>",
        id = finding.id,
        class = finding.status.name(),
        status = finding.status.name().replace('_', " "),
        claim = escape(&finding.claim),
        figure = escape(&finding.figure),
    );
    if !finding.numbers.is_empty() {
        let _ = writeln!(html, "<p>The paper: {}</p>", escape(&finding.numbers));
    }
    if !finding.parts.is_empty() {
        let _ = writeln!(html, "<p>Its parts: {}</p>", escape(&parts::words(&finding.parts)));
    }
    if !finding.finding.is_empty() {
        let _ = writeln!(html, "<p class=\"finding\">{}</p>", escape(&finding.finding));
    }
    if !figures.is_empty() {
        *html += "<div class=\"figures\">\n";
        for (at, drawn) in figures.iter().enumerate() {
            figure(html, drawn, &format!("{}-{at}-", finding.id));
        }
        *html += "</div>\n";
    }
    if finding.checks.is_empty() {
        let _ = writeln!(html, "<p class=\"dim\">{}</p>", escape(&finding.evidence));
    } else {
        let _ = writeln!(html, "<details><summary>{}</summary>", escape(&judged(finding)));
        if !finding.reason.is_empty() {
            let _ = writeln!(html, "<p class=\"dim\">Tolerance: {}</p>", escape(&finding.reason));
        }
        checks(html, &finding.checks);
        for tried in &finding.variants {
            let _ = writeln!(
                html,
                "<h4>With {}: <span class=\"{1}\">{1}</span></h4><p class=\"dim\">{2}</p>",
                escape(&tried.name),
                tried.status.name(),
                escape(&tried.what)
            );
            checks(html, &tried.checks);
        }
        *html += "</details>\n";
    }
    *html += "</article>\n";
}

/// Writes a figure, in which names begin with `prefix`.
fn figure(html: &mut String, drawn: &Drawn, prefix: &str) {
    let parts = [&drawn.figure.panel, &drawn.note].into_iter().filter(|part| !part.is_empty());
    let caption = parts.map(|part| escape(part)).collect::<Vec<_>>().join("; ");
    *html += "<figure>";
    if !caption.is_empty() {
        let _ = write!(html, "<figcaption>{caption}</figcaption>");
    }
    let untitled = Curves { panel: String::new(), ..drawn.figure.clone() };
    *html += &inline_curves(&untitled, prefix);
    *html += "</figure>\n";
}

/// Returns `text` for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the number of checks and the variants that were tried.
fn judged(finding: &Finding) -> String {
    let all = || finding.checks.iter().flat_map(|check| &check.lines);
    let held = all().filter(|line| line.status == Status::Holds).count();
    let mut text = format!("{held} of {} comparisons hold", all().count());
    let tried = |tried: &crate::finding::Tried| format!("{} ({})", tried.name, tried.status.name());
    if !finding.variants.is_empty() {
        text += "; tried: ";
        text += &finding.variants.iter().map(tried).collect::<Vec<_>>().join(", ");
    }
    text
}

fn checks(html: &mut String, checks: &[Checked]) {
    for check in checks {
        let _ = writeln!(
            html,
            "<p>{} <span class=\"dim\">({})</span></p><ul>",
            escape(&check.required),
            escape(&check.place())
        );
        for line in &check.lines {
            let _ = writeln!(
                html,
                "<li><span class=\"{0}\">{0}</span>: {1}</li>",
                line.status.name(),
                escape(&line.words)
            );
        }
        *html += "</ul>\n";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_every_claim_and_escapes_its_words() {
        let papers = crate::library::papers().unwrap();
        let findings =
            papers.iter().flat_map(|paper| paper.claims.iter().map(|claim| Finding::of(paper, claim)));
        let mut findings: Vec<Finding> = findings.collect();
        findings[0].finding = "a < b & c".to_owned();
        let results = Recorded { build: "1".to_owned(), findings, ..Recorded::default() };
        let html = report(&papers, &results);
        for finding in &results.findings {
            assert!(html.contains(&format!("<article id=\"{}\">", finding.id)), "{}", finding.id);
        }
        assert!(html.contains("a &lt; b &amp; c"));
        assert!(!html.contains("http"), "it needs nothing else");
    }
}
