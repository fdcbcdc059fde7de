//! `anabranch reproduce --emulated`: the same checks by runs in real time, beside simulated ones.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use anabranch_reproduce::claims::{Claim, Paper};
use anabranch_reproduce::measure::{MeasureError, Measurement, Unit, Values, Wanted, Work};
use anabranch_reproduce::reproduce::{self, Checked, Options};
use anabranch_reproduce::{Metric, Status};
use anabranch_validate::measure::{Measured, Quality};
use anabranch_validate::real::{Pair, Transfer};
use anabranch_validate::results::Trouble;
use serde::Serialize;

use super::{Request, check as check_choice, colored, is_selected, papers};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::wrap_behind;
use crate::{interrupt, output, terminal};

/// The options of a reproduction in real time.
#[derive(clap::Args)]
pub(super) struct Emulated {
    /// Judge the chosen claims by emulated runs too, in real time with anabranch at both ends; needs root
    #[arg(long, requires = "claim", conflicts_with_all = ["quick", "full", "list", "out", "plain", "figure", "table"])]
    pub(super) emulated: bool,
    /// The number of runs of each contender for --emulated
    #[arg(long, value_name = "N", default_value_t = 5, requires = "emulated", value_parser = clap::value_parser!(u32).range(2..=1000))]
    emulated_runs: u32,
}

/// The number of attempts for a run until the machine is punctual.
const ATTEMPTS: u32 = 3;

/// The runs of a contender, and whether it ends when everything is delivered.
struct Made {
    sized: bool,
    runs: Vec<Pair>,
}

/// The runs by unit and contender.
type Store = BTreeMap<Unit, BTreeMap<String, Made>>;

/// A claim in simulation and in real time, as `--json` prints it.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    figure: &'a str,
    /// The runs that count: those in which no contender was late.
    runs: usize,
    /// Attempts that do not count.
    discarded: u32,
    /// The greatest 99th percentile of lateness of a run that counts, in microseconds.
    lateness_p99_us: f64,
    simulated: Status,
    emulated: Status,
    simulated_checks: Vec<Checked>,
    emulated_checks: Vec<Checked>,
}

pub(super) fn run(request: &Request, emulated: &Emulated, json: bool) -> Result<(), Failure> {
    let papers = papers(request)?;
    check_choice(request, &papers)?;
    if let Some(obstacle) = anabranch_emulate::obstacle() {
        return Err(Failure::Failed(format!("--emulated cannot emulate here: {obstacle}")));
    }
    let cancelled = interrupt::watch();
    let options = Options {
        quick: false,
        variants: false,
        seed: request.seed,
        jobs: 1,
        cancelled,
        figures: false,
        expected: &[],
        progress: &|_| (),
    };
    let claims = papers.iter().flat_map(|paper| paper.claims.iter().map(move |claim| (paper, claim)));
    let mut rows = Vec::new();
    for (paper, claim) in claims.filter(|(paper, claim)| is_selected(request, paper, claim)) {
        if claim.checks.is_empty() {
            return Err(Failure::Usage(format!("claim {} has no checks to be emulated", claim.id)));
        }
        rows.push(row(paper, claim, emulated.emulated_runs, &options)?);
    }
    match json {
        true => output::print_json(&rows),
        false => output::print(&rows.iter().map(text).collect::<Vec<_>>().join("\n")),
    }
}

fn row<'a>(paper: &Paper, claim: &'a Claim, runs: u32, options: &Options<'_>) -> Result<Row<'a>, Failure> {
    let store = RefCell::new(Store::new());
    let progress = Progress::new();
    let count = RefCell::new((0, 0));
    let tick = |more: usize, done: usize| {
        let mut count = count.borrow_mut();
        *count = (count.0 + done, count.1 + more);
        progress.update(count.0, count.1);
    };
    let failed = |error: &dyn core::fmt::Display| Failure::Failed(error.to_string());
    let all = |unit: &Unit, wanted: &Wanted| {
        let made = measure(unit, wanted, runs, options.cancelled, &tick)?;
        let values = values(&made, wanted, &|run| Some(&run.simulated), &|_| true)?;
        store.borrow_mut().insert(unit.clone(), made);
        Ok(Measurement { key: String::new(), values })
    };
    let first = reproduce::judged_by(paper, claim, options, &all);
    progress.finish();
    if options.cancelled.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    first.map_err(|error| failed(&error))?;
    let store = store.into_inner();
    let every = || store.values().flat_map(|unit| unit.values());
    // Runs are pairs, so one counts only if no contender was late in it.
    let good: BTreeSet<usize> =
        (0..runs as usize).filter(|run| every().all(|made| made.runs[*run].emulated.is_some())).collect();
    if good.len() < 2 {
        let worst = every().flat_map(|made| &made.runs).map(|run| p99(&run.quality)).fold(0.0, f64::max);
        return Err(Failure::Failed(format!(
            "claim {}: the machine was too slow in all but {} of {runs} runs (1 % of the packets up to {:.1} ms \
             late); try on a quieter one, or --emulated-runs with more",
            claim.id,
            good.len(),
            worst / 1e3
        )));
    }
    let judged = |of: &dyn Fn(&Pair) -> Option<&Measured>| {
        let again = |unit: &Unit, wanted: &Wanted| {
            let made = store.get(unit).ok_or_else(|| MeasureError::Missing("no runs".to_owned()))?;
            let values = values(made, wanted, of, &|run| good.contains(&run))?;
            Ok(Measurement { key: String::new(), values })
        };
        reproduce::judged_by(paper, claim, options, &again).map_err(|error| failed(&error))
    };
    let simulated_checks = judged(&|run| Some(&run.simulated))?;
    let emulated_checks = judged(&|run| run.emulated.as_ref())?;
    let counted = || every().flat_map(|made| good.iter().map(|run| &made.runs[*run]));
    Ok(Row {
        id: &claim.id,
        figure: &claim.figure,
        runs: good.len(),
        discarded: every().flat_map(|made| &made.runs).map(|run| run.discarded).sum(),
        lateness_p99_us: counted().map(|run| p99(&run.quality)).fold(0.0, f64::max),
        simulated: reproduce::status(&simulated_checks),
        emulated: reproduce::status(&emulated_checks),
        simulated_checks,
        emulated_checks,
    })
}

fn p99(quality: &Quality) -> f64 {
    quality.p99_us
}

/// Makes all runs of a unit.
fn measure(
    unit: &Unit,
    wanted: &Wanted,
    runs: u32,
    cancelled: &AtomicBool,
    tick: &dyn Fn(usize, usize),
) -> Result<BTreeMap<String, Made>, MeasureError> {
    let work = Work::new(unit, wanted)?;
    let [scenario] = work.scenarios() else {
        return Err(MeasureError::Missing(
            "plans and window simulations cannot be emulated, only scenarios".to_owned(),
        ));
    };
    // Before the first run, which may take long.
    wanted.metrics.iter().try_for_each(|metric| check(*metric))?;
    let mut all = BTreeMap::new();
    tick(scenario.contenders.len() * runs as usize, 0);
    for (at, contender) in scenario.contenders.iter().enumerate() {
        let wrong = |error: &dyn core::fmt::Display| MeasureError::Missing(error.to_string());
        let transfer = Transfer::new(scenario, at).map_err(|error| wrong(&error))?;
        let mut made = Vec::with_capacity(runs as usize);
        for run in 0..runs {
            made.push(transfer.run(run, ATTEMPTS, cancelled).map_err(|error| match error {
                Trouble::Interrupted => wrong(&"interrupted"),
                Trouble::Usage(text)
                | Trouble::NotPermitted(text)
                | Trouble::Failed(text)
                | Trouble::Broken(text) => wrong(&text),
            })?);
            tick(0, 1);
        }
        all.insert(contender.name.clone(), Made { sized: transfer.is_sized(), runs: made });
    }
    Ok(all)
}

/// Refuses a measure that needs to look into the stack.
fn check(metric: Metric) -> Result<(), MeasureError> {
    let known = ["done", "acked", "goodput", "share", "segments", "retransmitted", "timeouts"];
    match known.contains(&metric.name()) && metric.is_whole() {
        true => Ok(()),
        false => Err(MeasureError::Missing(format!(
            "`{metric}` is not measured in real time; {} are",
            known.join(", ")
        ))),
    }
}

fn values<'a>(
    made: &'a BTreeMap<String, Made>,
    wanted: &Wanted,
    of: &dyn Fn(&'a Pair) -> Option<&'a Measured>,
    counts: &dyn Fn(usize) -> bool,
) -> Result<Values, MeasureError> {
    let mut values = Values::new();
    for (name, made) in made {
        for metric in &wanted.metrics {
            let runs = made.runs.iter().enumerate().filter(|(run, _)| counts(*run)).map(|(_, run)| run);
            let each = runs.map(|run| of(run).map_or(f64::NAN, |one| value(*metric, made.sized, one)));
            values.entry(name.clone()).or_default().insert(metric.to_string(), each.collect());
        }
    }
    Ok(values)
}

/// Returns the value of a measure. A transfer ends with its last byte, as for a program that downloads; the
/// segments of a path are those that its bytes fill.
fn value(metric: Metric, sized: bool, measured: &Measured) -> f64 {
    let time = measured.time_s.unwrap_or(f64::NAN);
    let on = |path: usize| measured.bytes_by_path.get(path).copied().unwrap_or(0) as f64;
    let total: f64 = measured.bytes_by_path.iter().map(|bytes| *bytes as f64).sum();
    let goodput = |bytes: f64| bytes * 8e-6 / time;
    let mss = measured.mss.iter().copied().max().filter(|mss| *mss > 0).map_or(f64::NAN, f64::from);
    match (metric.name(), metric.path()) {
        ("goodput", None) => goodput(measured.delivered as f64),
        ("goodput", Some(path)) => goodput(on(path)),
        ("share", path) => 100.0 * on(path.unwrap_or(0)) / total,
        ("segments", None) => measured.segments as f64,
        ("segments", Some(path)) => (on(path) / mss).ceil(),
        ("retransmitted", _) => 100.0 * measured.retransmitted as f64 / measured.segments as f64,
        ("timeouts", _) => measured.timeouts as f64,
        _ if sized => 1e3 * time,
        _ => f64::NAN,
    }
}

fn text(row: &Row<'_>) -> String {
    let width = terminal::text_width();
    let mut text = format!("{} ({})\n", row.id, row.figure);
    for (simulated, emulated) in row.simulated_checks.iter().zip(&row.emulated_checks) {
        text += &wrap_behind("  ", &format!("{} ({})", simulated.required, simulated.source), width);
        for (kind, check) in [("simulated", simulated), ("emulated", emulated)] {
            for line in &check.lines {
                let name = format!("    {kind:<9} {:<9} ", line.status.name());
                text += &wrap_behind(&name, &line.words, width);
            }
        }
    }
    let same = if row.simulated == row.emulated { "the same" } else { "ANOTHER VERDICT" };
    text + &format!(
        "verdict   simulated: {}, emulated: {} ({same}); {} runs, {} attempts discarded, 1 % of the packets up \
         to {:.1} ms late\n",
        colored(row.simulated),
        colored(row.emulated),
        row.runs,
        row.discarded,
        row.lateness_p99_us / 1e3
    )
}
