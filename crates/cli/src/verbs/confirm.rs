//! `anabranch compare --check`: checks the prediction on this machine.

use std::sync::atomic::AtomicBool;

use anabranch_lab::compare::Comparison;
use anabranch_lab::scenario::Scenario;
use anabranch_lab::spoken;
use anabranch_validate::prediction::{self, Check, Outcome, Side, StackCheck};
use serde::Serialize;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::{Align, Table, statements};
use crate::{output, terminal};

/// The options of a check.
#[derive(clap::Args)]
pub(super) struct Confirm {
    /// Emulates the best contender and the reference for a few runs on this machine, and reports whether
    /// the prediction held; exit code 1 if it did not. Needs root
    #[arg(long)]
    pub check: bool,
    /// The number of runs of each for --check
    #[arg(long, value_name = "N", default_value_t = 5, requires = "check", value_parser = clap::value_parser!(u32).range(1..=1000))]
    check_runs: u32,
}

/// The object that `--json` prints with `--check`.
#[derive(Serialize)]
struct Output {
    #[serde(flatten)]
    comparison: Comparison,
    /// One for each condition and class of traffic with a verdict by a measure that can be checked.
    check: Vec<Check>,
    /// The same in sentences, one a line.
    check_verdict: String,
}

impl Confirm {
    /// Checks that a check is possible, if requested: before the comparison, which may take long.
    pub(super) fn ready(&self, scenario: &Scenario) -> Result<(), Failure> {
        if !self.check {
            return Ok(());
        }
        if let Some(obstacle) = anabranch_emulate::obstacle() {
            return Err(Failure::Failed(format!("--check cannot emulate here: {obstacle}")));
        }
        prediction::ready(scenario).map_err(|error| Failure::Usage(format!("--check: {error}")))
    }

    /// Checks the verdicts of `comparison`, and prints it with the result.
    pub(super) fn run(
        &self,
        scenario: &Scenario,
        comparison: Comparison,
        text: String,
        json: bool,
        cancelled: &AtomicBool,
    ) -> Result<(), Failure> {
        if !json {
            // A check takes longer than a comparison.
            output::print(&text)?;
        }
        let progress = Progress::new();
        let update = |done, total| progress.update(done, total);
        let checks = prediction::check(scenario, &comparison, self.check_runs, cancelled, &update);
        progress.finish();
        let checks = checks?;
        let (complete, held) = (comparison.is_complete(), checks.iter().all(Check::held));
        let sentence = sentence(&checks, self.check_runs);
        if json {
            output::print_json(&Output { comparison, check: checks, check_verdict: sentence })?;
        } else {
            let lines = statements(&sentence, terminal::text_width());
            output::print(&format!("\n{}\n{lines}", table(&checks)))?;
        }
        match (complete, held) {
            (false, _) => Err(Failure::Failed("flows did not finish, so there is no winner".to_owned())),
            (true, false) => Err(Failure::Failed("the prediction did not hold on this machine".to_owned())),
            (true, true) => Ok(()),
        }
    }
}

fn table(checks: &[Check]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let gains = checks.iter().filter(|check| check.measure.is_gain()).count();
    // With measures of both units each value has its unit.
    let (heading, with_units) = match gains {
        0 => ("mean ms", false),
        _ if gains == checks.len() => ("goodput Mbit/s", false),
        _ => ("contender", true),
    };
    let has_condition = checks.iter().any(|check| !check.condition.is_empty());
    let has_traffic = checks.iter().any(|check| check.traffic.is_some());
    let mut table = Table::new();
    if has_condition {
        table = table.optional("condition", Align::Left, 1);
    }
    if has_traffic {
        table = table.optional("traffic", Align::Left, 1);
    }
    let mut table = table
        .column(heading, Align::Left)
        .column("simulated", Align::Right)
        .column("emulated", Align::Right)
        .column("kernel", Align::Right);
    for check in checks {
        for side in [&check.compared, &check.reference] {
            let Side { scheduler, simulated, anabranch, kernel } = side;
            let (scale, unit) = if check.measure.is_gain() { (1e-6, " Mbit/s") } else { (1e3, " ms") };
            let number = |value: &Option<f64>| {
                let unit = if with_units { unit } else { "" };
                value.map_or("-".to_owned(), |value| output::digits(value * scale) + unit)
            };
            let mut cells = Vec::new();
            cells.extend(has_condition.then(|| check.condition.clone()));
            cells.extend(has_traffic.then(|| check.traffic.clone().unwrap_or_default()));
            cells.extend([scheduler.clone(), number(simulated), number(anabranch), number(kernel)]);
            table.row(cells);
        }
    }
    table.render(terminal::width())
}

fn percent(value: f64) -> String {
    spoken::amount(value, None, "below", "above").0
}

/// Returns the results of the checks, in a line for each verdict and stack.
fn sentence(checks: &[Check], runs: u32) -> String {
    if checks.is_empty() {
        return "There is no difference to check.".to_owned();
    }
    let one = |check: &Check, stack: &StackCheck| {
        let with = match stack.stack {
            "kernel" => "this machine's kernel",
            _ => "anabranch's own stack",
        };
        let place = spoken::place(check.traffic.as_deref(), &[&check.condition]);
        let the = if place.is_empty() { "The" } else { "the" };
        let (first, second) = (&check.compared.scheduler, &check.reference.scheduler);
        let noun = check.measure.noun();
        let Some((simulated, measured)) = stack.simulated_pct.zip(stack.measured_pct) else {
            return format!(
                "{place}{the} prediction could not be checked with {with}. In none of {runs} runs was the \
                 machine fast enough for both {first} and {second}."
            );
        };
        let held = match stack.outcome {
            Outcome::Held => "held",
            Outcome::OrderHeld => "held in its order, but not in its size,",
            Outcome::Failed | Outcome::Unknown => "did NOT hold",
        };
        format!(
            "{place}{the} prediction {held} with {with}. In {} the {noun} of {first} is {} {second}'s, and {} in \
             the same runs of the simulator.",
            spoken::counted(stack.runs as u64, "run"),
            percent(measured),
            percent(simulated),
        )
    };
    let all = checks.iter().flat_map(|check| check.stacks.iter().map(move |stack| one(check, stack)));
    all.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::report::verdict::Measure;

    fn check(outcome: Outcome, measured: Option<f64>) -> Check {
        let side = |name: &str| Side {
            scheduler: name.to_owned(),
            simulated: Some(0.5),
            anabranch: Some(0.5),
            kernel: None,
        };
        Check {
            condition: String::new(),
            traffic: None,
            measure: Measure::MeanTime,
            compared: side("min_rtt"),
            reference: side("tcp"),
            predicted_pct: -4.0,
            stacks: vec![StackCheck {
                stack: "anabranch",
                simulated_pct: measured.map(|_| -4.0),
                measured_pct: measured,
                runs: 5,
                outcome,
            }],
        }
    }

    #[test]
    fn the_sentence_says_whether_the_prediction_held() {
        let held = sentence(&[check(Outcome::Held, Some(-3.1))], 5);
        assert!(
            held.starts_with("The prediction held with anabranch's own stack. In 5 runs the mean completion time of min_rtt is"),
            "{held}"
        );
        assert!(held.contains("3.1 % below tcp's, and 4.0 % below in the same"), "{held}");
        let failed = sentence(&[check(Outcome::Failed, Some(7.0))], 5);
        assert!(failed.contains("did NOT hold") && failed.contains("7.0 % above"), "{failed}");
        assert!(sentence(&[check(Outcome::Unknown, None)], 5).contains("could not be checked"));
        assert_eq!(sentence(&[], 5), "There is no difference to check.");
        let plain = table(&[check(Outcome::Held, Some(-3.1))]);
        assert!(
            plain.contains("500") && !plain.contains("condition") && !plain.contains("traffic"),
            "{plain}"
        );
    }

    #[test]
    fn classes_have_their_names_their_measures_and_their_units() {
        let call = Check {
            traffic: Some("call".to_owned()),
            measure: Measure::Delay,
            ..check(Outcome::Held, Some(-3.1))
        };
        let told = sentence(std::slice::from_ref(&call), 5);
        assert!(
            told.starts_with("call: the prediction held")
                && told.contains("mean one-way delay of min_rtt is")
        );
        let mut backup = Check { measure: Measure::Goodput, ..call.clone() };
        backup.compared.simulated = Some(5e6);
        let both = table(&[call, backup]);
        assert!(both.contains("500 ms") && both.contains("5.00 Mbit/s"), "{both}");
    }
}
