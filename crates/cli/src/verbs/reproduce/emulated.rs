//! `anabranch reproduce --emulated`: the same checks by runs in real time, with anabranch at both ends or with the
//! kernel at one, next to simulated ones.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use anabranch_reproduce::claims::{Claim, Paper, Variant};
use anabranch_reproduce::finding::{self, Checked};
use anabranch_reproduce::measure::{MeasureError, Measurement, Unit, Values, Wanted, Work};
use anabranch_reproduce::reproduce::{self, Options};
use anabranch_reproduce::session::{self, Request, is_selected};
use anabranch_reproduce::{Metric, Status};
use anabranch_show::verdicts::colored;
use anabranch_validate::machine::Machine;
use anabranch_validate::measure::Measured;
use anabranch_validate::points::KernelEnd;
use anabranch_validate::real::{self, Transfer};
use serde::Serialize;

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
    /// Put this machine's kernel at one end in other runs, with anabranch at the other; as the sender only for a
    /// plain TCP and for minRTT, which is about its own scheduler
    #[arg(long, value_name = "END", requires = "emulated")]
    linux: Option<End>,
    /// Judge with this variant of the paper, such as LIA
    #[arg(long, value_name = "NAME", requires = "emulated", conflicts_with = "plain")]
    variant: Option<String>,
}

/// The end that the kernel has.
#[derive(Clone, Copy, clap::ValueEnum)]
enum End {
    Receiver,
    Sender,
}

impl From<End> for KernelEnd {
    fn from(end: End) -> KernelEnd {
        match end {
            End::Receiver => KernelEnd::Receiver,
            End::Sender => KernelEnd::Sender,
        }
    }
}

/// The number of attempts for a run until the machine is punctual.
const ATTEMPTS: u32 = 3;

/// The runs of a contender, and whether it ends when everything is delivered.
struct Made {
    sized: bool,
    /// Whether some of its runs have the kernel at one end.
    mixed: bool,
    runs: Vec<real::Made>,
}

impl Made {
    /// True if no attempt of this run was late to the end.
    fn is_punctual(&self, run: usize) -> bool {
        let run = &self.runs[run];
        run.emulated.is_some() && (run.linux.is_some() || !self.mixed)
    }
}

/// A claim to judge, and how.
struct Task<'a> {
    paper: &'a Paper,
    claim: &'a Claim,
    variant: Option<&'a Variant>,
    runs: u32,
    linux: Option<KernelEnd>,
    options: &'a Options<'a>,
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
    /// The variant, if one was chosen.
    variant: Option<&'a str>,
    simulated: Status,
    emulated: Status,
    /// The verdict with the kernel at one end.
    linux: Option<Status>,
    linux_end: Option<&'static str>,
    /// The machine and its kernel.
    machine: Machine,
    simulated_checks: Vec<Checked>,
    emulated_checks: Vec<Checked>,
    linux_checks: Option<Vec<Checked>>,
}

pub(super) fn run(request: &Request, emulated: &Emulated, json: bool) -> Result<(), Failure> {
    let papers = session::papers(request)?;
    session::check(request, &papers)?;
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
        let variant = emulated.variant.as_deref().map(|name| variant(paper, name)).transpose()?;
        let linux = emulated.linux.map(KernelEnd::from);
        let runs = emulated.emulated_runs;
        rows.push(row(&Task { paper, claim, variant, runs, linux, options: &options })?);
    }
    match json {
        true => output::print_json(&rows),
        false => output::print(&rows.iter().map(text).collect::<Vec<_>>().join("\n")),
    }
}

fn variant<'a>(paper: &'a Paper, name: &str) -> Result<&'a Variant, Failure> {
    paper.variant(name).ok_or_else(|| {
        let names: Vec<&str> = paper.variants.iter().map(|variant| variant.name.as_str()).collect();
        Failure::Usage(format!("{} has no variant `{name}`; it has {}", paper.id, names.join(", ")))
    })
}

fn row<'a>(task: &Task<'a>) -> Result<Row<'a>, Failure> {
    let &Task { paper, claim, variant, runs, linux, options } = task;
    let failed = |error: &dyn core::fmt::Display| Failure::Failed(error.to_string());
    let judge = |measure: &dyn Fn(&Unit, &Wanted) -> Result<Measurement, MeasureError>| {
        reproduce::judged_by(paper, claim, variant, options, measure)
    };
    // Before the first run, which may take long: whether all of them are possible, and how many there are.
    let (total, mixed) = (RefCell::new(0), RefCell::new(linux.is_none()));
    judge(&|unit, wanted| {
        let transfers = transfers(unit, wanted, linux)?;
        *total.borrow_mut() += transfers.len() * runs as usize;
        *mixed.borrow_mut() |= transfers.iter().any(|(_, transfer)| transfer.is_mixed());
        Ok(nothing(wanted, &transfers))
    })
    .map_err(|error| Failure::Usage(error.to_string()))?;
    if !mixed.into_inner() {
        return Err(Failure::Usage(format!(
            "claim {}: the kernel can send for none of its contenders; use --linux receiver",
            claim.id
        )));
    }
    let store = RefCell::new(Store::new());
    let progress = Progress::new();
    let done = RefCell::new(0);
    let tick = || {
        *done.borrow_mut() += 1;
        progress.update(*done.borrow(), *total.borrow());
    };
    let first = judge(&|unit, wanted| {
        let made = measure(unit, wanted, task, &tick)?;
        let values = values(&made, wanted, &|run| Some(&run.simulated), &|_| true)?;
        store.borrow_mut().insert(unit.clone(), made);
        Ok(Measurement { key: String::new(), values })
    });
    progress.finish();
    if options.cancelled.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    first.map_err(|error| failed(&error))?;
    let store = store.into_inner();
    let every = || store.values().flat_map(|unit| unit.values());
    // Runs are pairs, so one counts only if no contender was late in it.
    let good: BTreeSet<usize> =
        (0..runs as usize).filter(|run| every().all(|made| made.is_punctual(*run))).collect();
    if good.len() < 2 {
        let why = every().flat_map(|made| &made.runs).filter_map(|run| run.objection.as_ref()).next_back();
        return Err(Failure::Failed(format!(
            "claim {}: only {} of {runs} runs are reliable; of the last one {}; try on a quieter machine, or \
             --emulated-runs with more",
            claim.id,
            good.len(),
            why.map_or("nothing is known", String::as_str)
        )));
    }
    let judged = |of: &dyn Fn(&real::Made) -> Option<&Measured>| {
        let checks = judge(&|unit, wanted| {
            let made = store.get(unit).ok_or_else(|| MeasureError::Missing("no runs".to_owned()))?;
            let values = values(made, wanted, of, &|run| good.contains(&run))?;
            Ok(Measurement { key: String::new(), values })
        });
        checks.map_err(|error| failed(&error))
    };
    let simulated_checks = judged(&|run| Some(&run.simulated))?;
    let emulated_checks = judged(&|run| run.emulated.as_ref())?;
    // Contenders that the kernel cannot have are taken from the emulated runs.
    let linux_checks =
        linux.map(|_| judged(&|run| run.linux.as_ref().or(run.emulated.as_ref()))).transpose()?;
    let counted = || every().flat_map(|made| good.iter().map(|run| &made.runs[*run]));
    Ok(Row {
        id: &claim.id,
        figure: &claim.figure,
        runs: good.len(),
        discarded: every().flat_map(|made| &made.runs).map(|run| run.discarded).sum(),
        lateness_p99_us: counted().map(|run| run.p99_us).fold(0.0, f64::max),
        variant: variant.map(|variant| variant.name.as_str()),
        simulated: finding::status(&simulated_checks),
        emulated: finding::status(&emulated_checks),
        linux: linux_checks.as_deref().map(finding::status),
        linux_end: linux.map(KernelEnd::name),
        machine: Machine::here(),
        simulated_checks,
        emulated_checks,
        linux_checks,
    })
}

/// Returns the transfers of a unit by contender.
fn transfers(
    unit: &Unit,
    wanted: &Wanted,
    linux: Option<KernelEnd>,
) -> Result<Vec<(String, Transfer)>, MeasureError> {
    let work = Work::new(unit, wanted)?;
    let [scenario] = work.scenarios() else {
        return Err(MeasureError::Missing(
            "plans and window simulations cannot be emulated, only scenarios".to_owned(),
        ));
    };
    wanted.metrics.iter().try_for_each(|metric| check(*metric))?;
    let transfer = |(at, name): (usize, String)| {
        let transfer = Transfer::new(scenario, at, linux);
        transfer.map(|own| (name, own)).map_err(|error| MeasureError::Missing(error.to_string()))
    };
    scenario.contenders.iter().map(|own| own.name.clone()).enumerate().map(transfer).collect()
}

/// Returns a measurement without values.
fn nothing(wanted: &Wanted, transfers: &[(String, Transfer)]) -> Measurement {
    let own = || wanted.metrics.iter().map(|metric| (metric.to_string(), vec![f64::NAN; 2])).collect();
    Measurement {
        key: String::new(),
        values: transfers.iter().map(|(name, _)| (name.clone(), own())).collect(),
    }
}

/// Makes all runs of a unit.
fn measure(
    unit: &Unit,
    wanted: &Wanted,
    task: &Task<'_>,
    tick: &dyn Fn(),
) -> Result<BTreeMap<String, Made>, MeasureError> {
    let mut all = BTreeMap::new();
    for (name, transfer) in transfers(unit, wanted, task.linux)? {
        let mut runs = Vec::with_capacity(task.runs as usize);
        for run in 0..task.runs {
            let made = transfer.run(run, ATTEMPTS, task.options.cancelled);
            runs.push(made.map_err(|error| MeasureError::Missing(error.to_string()))?);
            tick();
        }
        all.insert(name, Made { sized: transfer.is_sized(), mixed: transfer.is_mixed(), runs });
    }
    Ok(all)
}

/// The measures of a run in real time.
const MEASURED: [&str; 7] = ["done", "acked", "goodput", "share", "segments", "repeated", "timeouts"];

/// Refuses a measure that needs to look into the stack.
fn check(metric: Metric) -> Result<(), MeasureError> {
    match MEASURED.contains(&metric.name()) && metric.is_whole() {
        true => Ok(()),
        false => Err(MeasureError::Missing(format!(
            "`{metric}` is not measured in real time; {} are",
            MEASURED.join(", ")
        ))),
    }
}

fn values<'a>(
    made: &'a BTreeMap<String, Made>,
    wanted: &Wanted,
    of: &dyn Fn(&'a real::Made) -> Option<&'a Measured>,
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
        // Without reinjections, which no end counts.
        ("repeated", _) => 100.0 * measured.retransmitted as f64 / measured.segments as f64,
        ("timeouts", _) => measured.timeouts as f64,
        _ if sized => 1e3 * time,
        _ => f64::NAN,
    }
}

fn text(row: &Row<'_>) -> String {
    let width = terminal::text_width();
    let mut text = format!("{} ({})\n", row.id, row.figure);
    if let Some(variant) = row.variant {
        text += &format!("variant   {variant}\n");
    }
    let mut kinds = vec![("simulated", &row.simulated_checks), ("emulated", &row.emulated_checks)];
    kinds.extend(row.linux_checks.as_ref().map(|checks| ("linux", checks)));
    for (at, check) in row.simulated_checks.iter().enumerate() {
        text += &wrap_behind("  ", &format!("{} ({})", check.required, check.source), width);
        for (kind, checks) in &kinds {
            for line in &checks[at].lines {
                let name = format!("    {kind:<9} {:<9} ", line.status.name());
                text += &wrap_behind(&name, &line.words, width);
            }
        }
    }
    let mut verdicts = vec![
        format!("simulated: {}", colored(row.simulated)),
        format!("emulated: {}", colored(row.emulated)),
    ];
    if let (Some(status), Some(end)) = (row.linux, row.linux_end) {
        verdicts.push(format!("with Linux as the {end}: {}", colored(status)));
    }
    let all_same = row.emulated == row.simulated && row.linux.is_none_or(|linux| linux == row.simulated);
    let same = if all_same { "the same" } else { "ANOTHER VERDICT" };
    text + &format!(
        "verdict   {} ({same}); {} runs, {} attempts discarded, 1 % of the packets up to {:.1} ms late\n{}\n",
        verdicts.join(", "),
        row.runs,
        row.discarded,
        row.lateness_p99_us / 1e3,
        row.machine
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A measure of another name would refuse every claim that has it.
    #[test]
    fn measures_of_real_time_are_measures_of_claims() {
        for name in MEASURED {
            let metric = Metric::parse(name).unwrap();
            assert_eq!(metric.name(), name);
            assert!(check(metric).is_ok());
        }
        assert!(check(Metric::parse("window").unwrap()).is_err());
        assert!(check(Metric::parse("goodput@0..1").unwrap()).is_err());
    }
}
