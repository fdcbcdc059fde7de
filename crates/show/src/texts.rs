//! Results as the text that the command prints, without colours, for other programs.

use anabranch_inspect::Inspection;
use anabranch_lab::advise::Advice;
use anabranch_lab::compare::Comparison;
use anabranch_lab::explain::Explanation;
use anabranch_lab::inspected::Simulation;
use anabranch_lab::output::Runs;
use anabranch_lab::scenario::Scenario;
use anabranch_lab::sweep::{Journal, JournalError, Plan, Summary};
use anabranch_reproduce::claims::Paper;
use anabranch_reproduce::finding::Finding;

use crate::{advise, compare, explain, fairness, inspect, run, sweep, terminal, verdicts, visible};

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(&visible::lines(text)).to_string()
}

/// Returns the tables, notes and verdict of a comparison.
pub fn comparison(scenario: &Scenario, comparison: &Comparison) -> String {
    let shares = fairness::text(comparison, terminal::width());
    let gap = if shares.is_empty() { "" } else { "\n" };
    plain(&format!("{}{gap}{shares}", compare::text(scenario, comparison, false)))
}

/// Returns the tables of single runs.
pub fn runs(scenario: &Scenario, runs: &Runs) -> String {
    plain(&run::text(scenario, runs, false))
}

/// Returns the advice: the answer, the candidates, the margins, and the steps to take.
pub fn advice(advice: &Advice) -> String {
    plain(&advise::text(advice))
}

/// Returns the results of a sweep: point by point if there are few, and a line for each contender.
///
/// # Errors
/// If the journal cannot be read.
pub fn sweep(plan: &Plan, journal: &Journal, summary: &Summary) -> Result<String, JournalError> {
    sweep::text(plan, journal, summary, None).map(|text| plain(&text))
}

/// Returns the explanation of a scenario's flows, or of their bytes: bars, a table and sentences.
pub fn explanation(scenario: &Scenario, explanation: &Explanation, bytes: bool) -> String {
    plain(&explain::text(scenario, explanation, bytes))
}

/// Returns the verdicts on claims, with their names if `names`; everything about it, if there is only one.
pub fn verdicts(papers: &[Paper], findings: &[Finding], names: bool) -> String {
    plain(&verdicts::text(papers, findings, names))
}

/// Returns the pages of the connections of captures.
pub fn inspection(inspection: &Inspection) -> String {
    plain(&inspect::text(inspection))
}

/// Returns the match of a capture and its simulation, and the comparison with other contenders.
pub fn simulation(scenario: &Scenario, simulation: &Simulation) -> String {
    let comparison = compare::text(scenario, &simulation.comparison, false);
    plain(&inspect::simulation::text(simulation, &comparison))
}
