//! The report: one HTML file that needs nothing else.

use core::fmt::Write;

use crate::judge::Status;
use crate::library;
use crate::recorded::Recorded;
use crate::reproduce::{Checked, Finding, score};

const STYLE: &str = "
:root { color-scheme: light dark; --good: #1a7f37; --bad: #cf222e; --open: #9a6700; --dim: #6e7781; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; }
.holds { color: var(--good); } .fails { color: var(--bad); } .variant, .undecided { color: var(--open); }
.not_checkable, .not_run, .dim { color: var(--dim); }
details { border-top: 1px solid #8884; padding: .3rem 0; } summary { cursor: pointer; }
summary b { display: inline-block; min-width: 3rem; } .status { display: inline-block; min-width: 7rem; font-weight: 600; }
svg text { font-size: 11px; fill: currentColor; } .finding { border-left: 3px solid #8888; padding-left: .8rem; }
";

/// Returns the report on `results`.
pub fn report(results: &Recorded) -> String {
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n<title>Papers, claim by claim</title>\n",
    );
    let _ = write!(html, "<style>{STYLE}</style>\n<h1>Papers, claim by claim</h1>\n");
    let seed = results.seed.map_or("that of each scenario".to_owned(), |seed| seed.to_string());
    let _ = writeln!(html, "<p class=\"dim\">anabranch {}; seed: {seed}</p>", escape(&results.build));
    let papers = library::papers().unwrap_or_default();
    html += "<table><tr><th>Paper</th>";
    for status in Status::ALL {
        let _ = write!(html, "<th class=\"n {}\">{}</th>", status.name(), status.name().replace('_', " "));
    }
    html += "</tr>\n";
    let mut row = |name: &str, counts: [usize; 6]| {
        let _ = write!(html, "<tr><td>{}</td>", escape(name));
        for count in counts {
            let _ = write!(html, "<td class=\"n\">{count}</td>");
        }
        html += "</tr>\n";
    };
    for paper in &papers {
        row(&paper.title, score(results.findings.iter().filter(|finding| finding.paper == paper.id)));
    }
    row("All", score(results.findings.iter()));
    html += "</table>\n";
    for paper in &papers {
        let own: Vec<&Finding> =
            results.findings.iter().filter(|finding| finding.paper == paper.id).collect();
        if own.is_empty() {
            continue;
        }
        let _ = writeln!(html, "<h2 id=\"{}\">{}</h2>", paper.id, escape(&paper.title));
        let _ = writeln!(html, "<p>{}</p>", escape(&paper.notes));
        for finding in own {
            claim(&mut html, finding);
        }
    }
    html + "</html>\n"
}

fn claim(html: &mut String, finding: &Finding) {
    let _ = writeln!(
        html,
        "<details id=\"{id}\"><summary><b>{id}</b> <span class=\"status {class}\">{status}</span> {claim} \
         <span class=\"dim\">{figure}</span></summary>",
        id = finding.id,
        class = finding.status.name(),
        status = finding.status.name().replace('_', " "),
        claim = escape(&finding.claim),
        figure = escape(&finding.figure),
    );
    if !finding.finding.is_empty() {
        let _ = writeln!(html, "<p class=\"finding\">{}</p>", escape(&finding.finding));
    }
    if !finding.numbers.is_empty() {
        let _ = writeln!(html, "<p>The paper: {}</p>", escape(&finding.numbers));
    }
    if finding.checks.is_empty() {
        let _ = writeln!(html, "<p>{}</p>", escape(&finding.evidence));
    } else if !finding.reason.is_empty() {
        let _ = writeln!(html, "<p class=\"dim\">Tolerance: {}</p>", escape(&finding.reason));
    }
    checks(html, &finding.checks);
    for tried in &finding.variants {
        let _ = writeln!(
            html,
            "<h4>Variant {}: {} <span class=\"{}\">{}</span></h4>",
            escape(&tried.name),
            escape(&tried.what),
            tried.status.name(),
            tried.status.name()
        );
        checks(html, &tried.checks);
    }
    *html += "</details>\n";
}

fn checks(html: &mut String, checks: &[Checked]) {
    for check in checks {
        let _ = writeln!(
            html,
            "<p>{} <span class=\"dim\">({})</span></p><ul>",
            escape(&check.required),
            escape(&check.source)
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
        if check.lines.len() > 2 {
            chart(html, check);
        }
    }
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 60.0;

/// Draws the values of both sides over the conditions.
fn chart(html: &mut String, check: &Checked) {
    let sides = |line: &crate::reproduce::Line| [line.of, line.to];
    let most = check.lines.iter().flat_map(sides).flatten().fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let x = |at: usize| LEFT + (WIDTH - LEFT - 110.0) * at as f64 / (check.lines.len() - 1) as f64;
    let y = |value: f64| HEIGHT - 30.0 - (HEIGHT - 45.0) * value / most;
    let _ = write!(html, "<svg width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">");
    let _ = write!(
        html,
        "<text x=\"{0}\" y=\"{1}\" text-anchor=\"end\">{2}</text><text x=\"{0}\" y=\"{3}\" text-anchor=\"end\">0</text>\
         <path d=\"M{LEFT},{3}H{4}\" stroke=\"currentColor\" opacity=\".4\"/>",
        LEFT - 6.0,
        y(most) + 4.0,
        escape(&format!("{} {}", crate::judge::number(most), check.unit)),
        y(0.0),
        WIDTH - 110.0
    );
    for (at, line) in check.lines.iter().enumerate() {
        let _ = write!(
            html,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x(at),
            HEIGHT - 12.0,
            escape(&line.condition)
        );
    }
    let names = [Some(check.names.0.clone()), check.names.1.clone()];
    for (side, (name, color)) in names.into_iter().zip(["#0969da", "#bc4c00"]).enumerate() {
        let Some(name) = name else { continue };
        let points: Vec<(f64, f64)> = check
            .lines
            .iter()
            .enumerate()
            .filter_map(|(at, line)| sides(line)[side].map(|value| (x(at), y(value))))
            .collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let Some((_, end)) = points.last() else { continue };
        let _ = write!(
            html,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"{:.1}\" style=\"fill:{color}\">{}</text>",
            path.join(" "),
            WIDTH - 100.0,
            end + 4.0 + 12.0 * side as f64,
            escape(&name)
        );
    }
    *html += "</svg>\n";
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_every_claim_and_escapes_its_words() {
        let papers = library::papers().unwrap();
        let findings =
            papers.iter().flat_map(|paper| paper.claims.iter().map(|claim| Finding::of(paper, claim)));
        let mut findings: Vec<Finding> = findings.collect();
        findings[0].finding = "a < b & c".to_owned();
        let html = report(&Recorded { build: "1".to_owned(), seed: None, findings: findings.clone() });
        for finding in &findings {
            assert!(html.contains(&format!("<details id=\"{}\">", finding.id)), "{}", finding.id);
        }
        assert!(html.contains("a &lt; b &amp; c"));
        assert!(!html.contains("http"), "it needs nothing else");
    }
}
