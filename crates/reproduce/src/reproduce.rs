//! The reproduction: measures what the selected claims need, and judges them.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use std::collections::BTreeMap;

use anabranch_lab::run::RunError;
use serde::{Deserialize, Serialize};

use crate::claims::{Claim, Paper, Variant};
use crate::combine;
use crate::comparison::{Comparison, compare_with_plain, comparisons};
use crate::figure::{Drawn, Figure};
use crate::finding::{Checked, Finding, Line, Tried, evidence, status};
use crate::journal::{Journal, JournalError};
use crate::judge::{self, Judgement, Sides, Status};
use crate::measure::{MeasureError, Measurement, RunsPart, Unit, Wanted, Work};
use crate::meter::Meter;

const BOOTSTRAP_SEED: u64 = 1;

/// A reproduction did not end.
#[derive(Debug)]
pub enum ReproduceError {
    /// A measurement of this claim failed.
    Measure(String, Box<MeasureError>),
    /// The journal could not be written.
    Journal(JournalError),
    /// It was cancelled.
    Cancelled,
}

impl fmt::Display for ReproduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReproduceError::Measure(claim, error) => write!(f, "claim {claim}: {error}"),
            ReproduceError::Journal(error) => error.fmt(f),
            ReproduceError::Cancelled => f.write_str("stopped before the end"),
        }
    }
}

impl std::error::Error for ReproduceError {}

impl From<JournalError> for ReproduceError {
    fn from(error: JournalError) -> ReproduceError {
        ReproduceError::Journal(error)
    }
}

/// The options of a reproduction.
pub struct Options<'a> {
    /// True for fewer runs.
    pub quick: bool,
    /// True if the variants of claims that do not hold are tried.
    pub variants: bool,
    /// The seed in place of the seed of each scenario.
    pub seed: Option<u64>,
    /// The number of threads; 0 is one for each core.
    pub jobs: usize,
    /// Set to stop.
    pub cancelled: &'a AtomicBool,
    /// True if the figures of the claims are measured too.
    pub figures: bool,
    /// The verdicts of an earlier reproduction, by which variants are expected in the estimate of the rest.
    pub expected: &'a [Finding],
    /// Called after each measurement.
    pub progress: &'a dyn Fn(Progress),
}

impl<'a> Options<'a> {
    /// Returns the options of a reproduction with all runs and without variants or figures, on one thread and without a word
    /// about its progress.
    pub fn new(cancelled: &'a AtomicBool) -> Options<'a> {
        Options {
            quick: false,
            variants: false,
            seed: None,
            jobs: 1,
            cancelled,
            figures: false,
            expected: &[],
            progress: &|_| (),
        }
    }
}

/// The progress of a reproduction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// The number of measurements that are done.
    pub done: usize,
    /// The number that is expected in total; it changes if verdicts do.
    pub total: usize,
    /// The work that has been done, in estimated packets; work of the journal is not counted.
    pub work: f64,
    /// The work that is left.
    pub left: f64,
}

impl Progress {
    /// Returns the part of the work that is done, from 0 to 1.
    pub fn part(&self) -> f64 {
        self.work / (self.work + self.left).max(1.0)
    }
}

/// The results of a reproduction.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The claims.
    pub findings: Vec<Finding>,
    /// The figures that were measured, in the order of the papers.
    pub figures: Vec<Drawn>,
}

/// The units that several claims need, in the order of the claims, each with the first claim that needs it.
#[derive(Default)]
pub(crate) struct Needs {
    pub(crate) order: Vec<(Unit, String)>,
    pub(crate) wanted: BTreeMap<Unit, Wanted>,
}

impl Needs {
    pub(crate) fn add(&mut self, claim: &Claim, comparisons: &[Vec<Comparison>]) {
        for comparison in comparisons.iter().flatten() {
            self.one(claim, &comparison.of, &comparison.check.of, comparison.check.metric);
            if comparison.check.compares() {
                let (name, metric) = comparison.other();
                self.one(claim, &comparison.to, name, metric);
            }
        }
    }

    pub(crate) fn draw(&mut self, paper: &Paper, figure: &Figure, options: &Options<'_>) {
        for place in figure.curves.iter().flat_map(|curve| figure.places(curve)) {
            let unit = unit_of(paper, figure, &place, options);
            match place.take {
                None => self.want(&figure.claim, &unit, &place.contender, place.metric),
                Some(take) => self.unit(&figure.claim, &unit).take(&place.contender, take),
            }
        }
    }

    fn one(&mut self, claim: &Claim, unit: &Unit, contender: &str, metric: crate::Metric) {
        self.want(&claim.id, unit, contender, metric);
    }

    fn want(&mut self, claim: &str, unit: &Unit, contender: &str, metric: crate::Metric) {
        self.unit(claim, unit).add(contender, metric);
    }

    fn unit(&mut self, claim: &str, unit: &Unit) -> &mut Wanted {
        if !self.wanted.contains_key(unit) {
            self.order.push((unit.clone(), claim.to_owned()));
        }
        self.wanted.entry(unit.clone()).or_default()
    }
}

/// Judges the claims that `selected` accepts.
///
/// # Errors
/// If a scenario is not valid, the journal cannot be written, or it was cancelled.
pub fn reproduce(
    papers: &[Paper],
    selected: &dyn Fn(&Paper, &Claim) -> bool,
    journal: &mut Journal,
    options: &Options<'_>,
) -> Result<Results, ReproduceError> {
    // Without a list of tasks every measurement is made.
    Ok(judge_all(papers, selected, journal, options, None)?.unwrap_or_default())
}

/// Returns the measurements that the journal lacks for the next pass over the claims; none if it has all of them. They
/// can be made in any order and on other machines. Later passes depend on their verdicts.
///
/// # Errors
/// If a scenario is not valid.
pub fn needed(
    papers: &[Paper],
    selected: &dyn Fn(&Paper, &Claim) -> bool,
    journal: &mut Journal,
    options: &Options<'_>,
) -> Result<Vec<Task>, ReproduceError> {
    let mut tasks = Vec::new();
    judge_all(papers, selected, journal, options, Some(&mut tasks))?;
    Ok(tasks)
}

/// A measurement that the journal lacks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The key of the measurement.
    pub key: String,
    /// The first claim that needs it.
    pub claim: String,
    /// The number of runs, which can be made apart.
    pub runs: usize,
    /// The approximate number of packets that all runs send: their cost.
    pub packets: f64,
    unit: Unit,
    wanted: Wanted,
}

impl Task {
    fn work(&self) -> Result<Work, MeasureError> {
        let work = Work::new(&self.unit, &self.wanted)?;
        match work.key == self.key {
            true => Ok(work),
            false => Err(MeasureError::Missing(format!(
                "{} is another scenario here; install the same version of anabranch, with the same files",
                self.unit.paper
            ))),
        }
    }

    /// Makes some of the runs on one thread.
    ///
    /// # Errors
    /// If a run cannot be made, or it was cancelled.
    pub fn part(&self, runs: Range<usize>, cancelled: &AtomicBool) -> Result<RunsPart, MeasureError> {
        self.work()?.part(&self.wanted, runs, 1, cancelled)
    }

    /// Joins the parts of all runs.
    ///
    /// # Errors
    /// If the measures cannot be made from them.
    pub fn joined(&self, parts: Vec<RunsPart>) -> Result<Measurement, MeasureError> {
        self.work()?.joined(&self.wanted, parts)
    }
}

/// Chooses the variants of the claim at a place that a round tries.
type Choose<'a> = &'a dyn Fn(usize, &Finding) -> Vec<Variant>;

/// Judges the claims that `selected` accepts. With a list of tasks nothing is measured, and the measurements that the
/// first incomplete pass lacks are added to it; then there are no results.
fn judge_all(
    papers: &[Paper],
    selected: &dyn Fn(&Paper, &Claim) -> bool,
    journal: &mut Journal,
    options: &Options<'_>,
    mut tasks: Option<&mut Vec<Task>>,
) -> Result<Option<Results>, ReproduceError> {
    let claims: Vec<(&Paper, &Claim)> = papers
        .iter()
        .flat_map(|paper| paper.claims.iter().map(move |claim| (paper, claim)))
        .filter(|(paper, claim)| selected(paper, claim))
        .collect();
    let mut findings: Vec<Finding> = claims.iter().map(|(paper, claim)| Finding::of(paper, claim)).collect();
    let simulated: Vec<usize> = (0..claims.len()).filter(|at| !claims[*at].1.checks.is_empty()).collect();
    let figures: Vec<(&Paper, &Figure)> = claims
        .iter()
        .flat_map(|(paper, claim)| paper.figures.iter().map(move |figure| (*paper, *claim, figure)))
        .filter(|(_, claim, figure)| options.figures && figure.claim == claim.id)
        .map(|(paper, _, figure)| (paper, figure))
        .collect();
    let mut meter = Meter::new(&claims, &simulated, &figures, journal, options)?;
    let Some((plain, drawn)) =
        pass(&claims, &simulated, &|_| None, &figures, journal, options, &mut meter, tasks.as_deref_mut())?
    else {
        return Ok(None);
    };
    for (at, checks) in simulated.iter().zip(plain) {
        findings[*at].checks = checks;
        findings[*at].judge();
    }
    let single = |at: usize, _: &Finding| -> Vec<Variant> {
        let (paper, claim) = claims[at];
        claim.variants.iter().filter_map(|name| paper.variant(name)).cloned().collect()
    };
    let combined = |at: usize, finding: &Finding| combine::combinations(claims[at].0, finding);
    let rounds: [Choose<'_>; 2] = [&single, &combined];
    for round in rounds.into_iter().filter(|_| options.variants) {
        let own: BTreeMap<usize, Vec<Variant>> =
            simulated.iter().map(|at| (*at, round(*at, &findings[*at]))).collect();
        for number in 0..own.values().map(Vec::len).max().unwrap_or(0) {
            let variant = |at: usize| own.get(&at).and_then(|variants| variants.get(number));
            let is_open = |at: &usize| !matches!(findings[*at].status, Status::Holds | Status::Variant);
            let open: Vec<usize> =
                simulated.iter().copied().filter(|at| is_open(at) && variant(*at).is_some()).collect();
            let Some((tried, _)) =
                pass(&claims, &open, &variant, &[], journal, options, &mut meter, tasks.as_deref_mut())?
            else {
                return Ok(None);
            };
            for (at, checks) in open.into_iter().zip(tried) {
                let Some(Variant { name, what, .. }) = variant(at).cloned() else { continue };
                findings[at].variants.push(Tried { name, what, status: status(&checks), checks });
                findings[at].judge();
            }
        }
    }
    for finding in &mut findings {
        // A claim without parts has one without a name while it is judged.
        finding.parts.retain(|part| !part.name.is_empty());
    }
    for at in simulated {
        findings[at].evidence = evidence(&findings[at]);
    }
    Ok(Some(Results { findings, figures: drawn }))
}

/// Judges the checks of a claim, plain or with one of its paper's variants, by measurements that `measure` makes,
/// without a journal.
///
/// # Errors
/// If a scenario is not valid, or it cannot be measured.
pub fn judged_by(
    paper: &Paper,
    claim: &Claim,
    variant: Option<&Variant>,
    options: &Options<'_>,
    measure: &dyn Fn(&Unit, &Wanted) -> Result<Measurement, MeasureError>,
) -> Result<Vec<Checked>, ReproduceError> {
    let failed = |error| ReproduceError::Measure(claim.id.clone(), Box::new(error));
    let mut comparisons = comparisons(paper, claim, variant, options).map_err(failed)?;
    if let Some(variant) = variant {
        compare_with_plain(claim, variant, &mut comparisons).map_err(failed)?;
    }
    let mut needs = Needs::default();
    needs.add(claim, &comparisons);
    let mut measured = BTreeMap::new();
    for (unit, _) in &needs.order {
        measured.insert(unit.clone(), measure(unit, &needs.wanted[unit]).map_err(failed)?);
    }
    let find = |unit: &Unit| measured.get(unit);
    comparisons.iter().map(|own| checked(own, &find).map_err(failed)).collect()
}

/// Returns the unit of a place of a figure.
fn unit_of(paper: &Paper, figure: &Figure, place: &crate::figure::Place, options: &Options<'_>) -> Unit {
    Unit {
        paper: paper.home.clone(),
        source: figure.choice.source(),
        condition: place.condition.clone(),
        set: place.set.clone(),
        runs: figure.runs(),
        seed: options.seed,
    }
}

/// Returns the runs from which a figure takes what happens within them; empty for one of means.
fn note(paper: &Paper, figure: &Figure, options: &Options<'_>) -> Result<String, MeasureError> {
    let place = figure.curves.first().and_then(|curve| figure.places(curve).into_iter().next());
    let Some((place, take)) = place.and_then(|place| place.take.map(|take| (place, take))) else {
        return Ok(String::new());
    };
    let work = Work::new(&unit_of(paper, figure, &place, options), &Wanted::default())?;
    let seed = work.scenarios().first().map_or(1, |scenario| scenario.seed);
    Ok(take.note(seed, work.runs()))
}

/// The checks of each claim of a pass, and the figures.
type Passed = (Vec<Vec<Checked>>, Vec<Drawn>);

/// Measures and judges the claims at the places `which`, each with its variant, and measures `figures`. With a list of
/// tasks nothing is measured: if a measurement is missing, it is added to the list, and there is no result.
#[expect(clippy::too_many_arguments, reason = "one pass needs all of it")]
fn pass<'a>(
    claims: &[(&'a Paper, &'a Claim)],
    which: &[usize],
    variant: &dyn Fn(usize) -> Option<&'a Variant>,
    figures: &[(&Paper, &Figure)],
    journal: &mut Journal,
    options: &Options<'_>,
    meter: &mut Meter,
    tasks: Option<&mut Vec<Task>>,
) -> Result<Option<Passed>, ReproduceError> {
    let mut needs = Needs::default();
    let mut planned = Vec::with_capacity(which.len());
    for at in which {
        let (paper, claim) = claims[*at];
        let failed = |error| ReproduceError::Measure(claim.id.clone(), Box::new(error));
        let mut comparisons = comparisons(paper, claim, variant(*at), options).map_err(failed)?;
        if let Some(variant) = variant(*at) {
            compare_with_plain(claim, variant, &mut comparisons).map_err(failed)?;
        }
        needs.add(claim, &comparisons);
        planned.push(comparisons);
    }
    for (paper, figure) in figures {
        needs.draw(paper, figure, options);
    }
    if let Some(tasks) = tasks {
        for (unit, claim) in &needs.order {
            if let Some(task) = task(unit, &needs.wanted[unit], claim, journal)?
                // Another unit may have the same runs: it lacks less when they are measured.
                && !tasks.iter().any(|other| other.key == task.key)
            {
                tasks.push(task);
            }
        }
        if !tasks.is_empty() {
            return Ok(None);
        }
    }
    let mut keys = BTreeMap::new();
    for (unit, claim) in &needs.order {
        let key = measured(unit, &needs.wanted[unit], journal, options).map_err(|error| match error {
            ReproduceError::Measure(_, error) => ReproduceError::Measure(claim.clone(), error),
            error => error,
        })?;
        keys.insert(unit.clone(), key);
        (options.progress)(meter.done(unit));
    }
    let find = |unit: &Unit| keys.get(unit).and_then(|key| journal.get(key));
    let mut all = Vec::with_capacity(which.len());
    for (at, comparisons) in which.iter().zip(planned) {
        let checked: Result<Vec<Checked>, MeasureError> =
            comparisons.iter().map(|comparisons| checked(comparisons, &find)).collect();
        all.push(
            checked.map_err(|error| ReproduceError::Measure(claims[*at].1.id.clone(), Box::new(error)))?,
        );
    }
    let mut drawn = Vec::with_capacity(figures.len());
    for (paper, figure) in figures {
        let failed = |error| ReproduceError::Measure(figure.claim.clone(), Box::new(error));
        let runs = |place: &crate::figure::Place| {
            let unit = unit_of(paper, figure, place, options);
            let missing = || MeasureError::Missing("a measurement is missing".to_owned());
            let measurement = find(&unit).ok_or_else(missing)?;
            match &place.take {
                None => measurement.get(&place.contender, place.metric),
                Some(take) => measurement.taken(&place.contender, take),
            }
        };
        let values: Result<Vec<Vec<&[f64]>>, MeasureError> =
            figure.curves.iter().map(|curve| figure.places(curve).iter().map(runs).collect()).collect();
        let mut one = figure.drawn(&values.map_err(failed)?);
        one.note = note(paper, figure, options).map_err(failed)?;
        drawn.push(one);
    }
    Ok(Some((all, drawn)))
}

/// Measures a unit, unless the journal has it, and returns its key.
fn measured(
    unit: &Unit,
    wanted: &Wanted,
    journal: &mut Journal,
    options: &Options<'_>,
) -> Result<String, ReproduceError> {
    let failed = |error: MeasureError| match error {
        MeasureError::Run(RunError::Cancelled) => ReproduceError::Cancelled,
        error => ReproduceError::Measure(String::new(), Box::new(error)),
    };
    let key = Work::new(unit, wanted).map_err(failed)?.key;
    let missing = missing(&key, wanted, journal);
    if !missing.contenders.is_empty() {
        let work = Work::new(unit, &missing).map_err(failed)?;
        journal.add(work.measure(&missing, options.jobs, options.cancelled).map_err(failed)?)?;
    }
    Ok(key)
}

/// Returns what the journal lacks of the measurement with this key.
fn missing(key: &str, wanted: &Wanted, journal: &Journal) -> Wanted {
    match journal.get(key) {
        Some(measurement) => measurement.missing(wanted),
        None => wanted.clone(),
    }
}

/// Returns the task that completes a unit; none if the journal has all of it.
fn task(
    unit: &Unit,
    wanted: &Wanted,
    claim: &str,
    journal: &Journal,
) -> Result<Option<Task>, ReproduceError> {
    let failed = |error| ReproduceError::Measure(claim.to_owned(), Box::new(error));
    let key = Work::new(unit, wanted).map_err(failed)?.key;
    let wanted = missing(&key, wanted, journal);
    if wanted.contenders.is_empty() {
        return Ok(None);
    }
    let work = Work::new(unit, &wanted).map_err(failed)?;
    let (runs, packets) = (work.runs(), work.packets());
    Ok(Some(Task { key, claim: claim.to_owned(), runs, packets, unit: unit.clone(), wanted }))
}

/// Judges one check.
fn checked<'a>(
    comparisons: &[Comparison],
    find: &dyn Fn(&Unit) -> Option<&'a Measurement>,
) -> Result<Checked, MeasureError> {
    let missing = || MeasureError::Missing("a measurement is missing".to_owned());
    let mut sides = Vec::with_capacity(comparisons.len());
    for comparison in comparisons {
        let check = &comparison.check;
        let of = find(&comparison.of).ok_or_else(missing)?.get(&check.of, check.metric)?;
        let to = match check.compares() {
            false => None,
            true => {
                let (name, metric) = comparison.other();
                Some(find(&comparison.to).ok_or_else(missing)?.get(name, metric)?)
            }
        };
        sides.push(Sides { condition: &comparison.condition, of, to });
    }
    let Some(Comparison { check, .. }) = comparisons.first() else { return Err(missing()) };
    let finite = |value: f64| value.is_finite().then_some(value);
    let line = |judgement: Judgement| Line {
        words: judge::words(check, &judgement),
        status: judgement.status,
        of: finite(judgement.of),
        to: judgement.to.and_then(finite),
        value: finite(judgement.value),
        interval: judgement.interval.map(|interval| (interval.0, interval.1)),
        runs: judgement.runs,
        condition: judgement.condition,
    };
    let to = check.compares().then(|| match (&check.to, &check.to_in) {
        (None, Some(condition)) => condition.clone(),
        (name, _) => name.clone().unwrap_or_else(|| check.of.clone()),
    });
    Ok(Checked {
        part: check.part.clone(),
        same: comparisons.iter().all(|comparison| comparison.same),
        source: check.choice.source().name().to_owned(),
        required: judge::required(check),
        names: (check.of.clone(), to),
        unit: check.metric.unit().to_owned(),
        lines: judge::judge(check, &sides, BOOTSTRAP_SEED).into_iter().map(line).collect(),
    })
}
