//! The reproduction: measures what the selected claims need, and judges them.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use std::collections::BTreeMap;

use anabranch_lab::run::RunError;
use serde::{Deserialize, Serialize};

use crate::claims::{Check, Claim, Kind, Paper, Variant};
use crate::combine;
use crate::figure::{Drawn, Figure};
use crate::journal::{Journal, JournalError};
use crate::judge::{self, Judgement, Sides, Status};
use crate::library;
use crate::measure::{MeasureError, Measurement, Part as RunsPart, Source, Unit, Wanted, Work};
use crate::meter::Meter;
use crate::parts::{self, Part};

/// The seed of the bootstrap.
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
    /// The seed instead of that of each scenario.
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

/// The progress of a reproduction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// The number of measurements that are done.
    pub done: usize,
    /// The number that is expected in total; it changes if verdicts do.
    pub total: usize,
    /// The work that has been done, in estimated packets; none of it is that of the journal.
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
    /// Their figures.
    pub figures: Vec<Drawn>,
}

/// A judgement in numbers and words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The condition.
    pub condition: String,
    /// The status.
    pub status: Status,
    /// The mean of the contender; none if it has none.
    pub of: Option<f64>,
    /// The mean of that with which it is compared.
    pub to: Option<f64>,
    /// The judged ratio, difference or mean.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// The number of runs.
    pub runs: usize,
    /// All of it in words.
    pub words: String,
}

/// A check with its judgements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The part of the claim to which it belongs; empty if the claim has no parts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// Whether the variant changes nothing of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub same: bool,
    /// The scenario, plan or simulation.
    pub source: String,
    /// The required relation, in words.
    pub required: String,
    /// The contender, and that with which it is compared.
    pub names: (String, Option<String>),
    /// The unit of both.
    pub unit: String,
    /// The judgements, by condition.
    pub lines: Vec<Line>,
}

impl Checked {
    /// Returns its source, its part, and whether a variant changes it, in words.
    pub fn place(&self) -> String {
        let part = if self.part.is_empty() { String::new() } else { format!("; {}", self.part) };
        let same = if self.same { "; not changed by the variant" } else { "" };
        format!("{}{part}{same}", self.source)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The result with a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Its name.
    pub name: String,
    /// The difference.
    pub what: String,
    /// The status of the claim with it.
    pub status: Status,
    /// The checks.
    pub checks: Vec<Checked>,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The claim's identifier.
    pub id: String,
    /// The paper.
    pub paper: String,
    /// The figure, table or section.
    pub figure: String,
    /// [`Kind::name`].
    pub kind: String,
    /// The claim.
    pub claim: String,
    /// The status.
    pub status: Status,
    /// The measured values in words, the name of the test, or the reason that there is none.
    pub evidence: String,
    /// The paper's numbers.
    pub numbers: String,
    /// The reason for the tolerance.
    pub reason: String,
    /// The finding, for a reader of the paper.
    pub finding: String,
    /// The checks of the plain result.
    pub checks: Vec<Checked>,
    /// The variants that were tried.
    pub variants: Vec<Tried>,
    /// The verdicts on its parts; empty if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The program's version and commit that judged it, if it is not that of the whole record: rows are judged again one by
    /// one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
}

impl Finding {
    /// Returns the result of a claim that was not judged.
    pub fn of(paper: &Paper, claim: &Claim) -> Finding {
        let (status, evidence) = match claim.kind {
            Kind::NotCheckable => (Status::NotCheckable, claim.reason.clone()),
            // The test passes in every version that is published, or there is no such version.
            Kind::Unit => (Status::Holds, claim.test.clone().unwrap_or_default()),
            Kind::Scenario => (Status::NotRun, claim.reason.clone()),
        };
        Finding {
            id: claim.id.clone(),
            paper: paper.id.clone(),
            figure: claim.figure.clone(),
            kind: claim.kind.name().to_owned(),
            claim: claim.claim.clone(),
            status,
            evidence,
            numbers: claim.paper.clone(),
            reason: claim.reason.clone(),
            finding: claim.finding.clone(),
            checks: Vec::new(),
            variants: Vec::new(),
            parts: Vec::new(),
            build: String::new(),
        }
    }
}

impl Finding {
    /// Judges its parts, and itself by them.
    fn judge(&mut self) {
        self.parts = parts::parts(self);
        self.status = parts::whole(&self.parts);
    }
}

/// One condition of a check: the two units that are compared.
pub(crate) struct Comparison {
    check: Check,
    condition: String,
    of: Unit,
    to: Unit,
    /// Whether the variant changes nothing of this comparison.
    same: bool,
}

impl Comparison {
    fn other(&self) -> (&str, crate::Metric) {
        let name = self.check.to.as_deref().unwrap_or(&self.check.of);
        (name, self.check.to_metric.unwrap_or(self.check.metric))
    }
}

/// Returns the units of a claim's checks with a variant.
pub(crate) fn comparisons(
    paper: &Paper,
    claim: &Claim,
    variant: Option<&Variant>,
    options: &Options<'_>,
) -> Result<Vec<Vec<Comparison>>, MeasureError> {
    let mut all = Vec::with_capacity(claim.checks.len());
    for check in &claim.checks {
        let mut check = check.clone();
        if let Some(of) = variant.and_then(|variant| variant.of.as_ref()) {
            check.of.clone_from(of);
        }
        let source = check.choice.source();
        let mut conditions = check.choice.conditions.clone();
        if conditions.is_empty() {
            conditions = match &source {
                Source::Scenario(name) => {
                    let scenario = library::scenario(&paper.home, name)?.scenario()?;
                    scenario.conditions.into_iter().map(|condition| condition.name).collect()
                }
                Source::Plan(_) | Source::Window(_) => vec![String::new()],
            };
        }
        let mut set = check.choice.set.clone();
        set.extend(
            variant.iter().filter(|own| own.applies_to(&check)).flat_map(|own| own.set.iter().cloned()),
        );
        let runs = if options.quick { check.quick_runs.or(check.choice.runs) } else { check.choice.runs };
        let unit = |condition: &str| Unit {
            paper: paper.home.clone(),
            source: source.clone(),
            condition: condition.to_owned(),
            set: set.clone(),
            runs,
            seed: options.seed,
        };
        let comparison = |condition: String| Comparison {
            check: check.clone(),
            of: unit(&condition),
            to: unit(check.to_in.as_ref().unwrap_or(&condition)),
            condition,
            same: false,
        };
        all.push(conditions.into_iter().map(comparison).collect());
    }
    Ok(all)
}

/// Marks the comparisons of a claim of which `variant` changes nothing.
///
/// # Errors
/// If it changes nothing at all: it would be recorded as tried and was not. And if it makes two conditions of a check the same:
/// it then replaces the quantity by which they differ.
fn compare_with_plain(
    claim: &Claim,
    variant: &Variant,
    all: &mut [Vec<Comparison>],
) -> Result<(), MeasureError> {
    let mut needs = Needs::default();
    needs.add(claim, all);
    let mut same: BTreeMap<&Unit, bool> = BTreeMap::new();
    let mut runs: BTreeMap<&Unit, (String, String)> = BTreeMap::new();
    for (unit, _) in &needs.order {
        let wanted = &needs.wanted[unit];
        // A variant that does not apply to the check has set nothing.
        let own = if unit.set.ends_with(&variant.set) { variant.set.len() } else { 0 };
        let plain = Unit { set: unit.set[..unit.set.len() - own].to_vec(), ..unit.clone() };
        // A variant may add the contender that it names.
        let plain = Work::new(&plain, wanted).map(|work| work.identity().to_owned());
        let varied = Work::new(unit, wanted).map(|work| work.identity().to_owned());
        let is_same = plain.as_ref().is_ok_and(|plain| varied.as_ref().is_ok_and(|varied| varied == plain));
        same.insert(unit, is_same);
        if let (Ok(plain), Ok(varied)) = (plain, varied) {
            runs.insert(unit, (plain, varied));
        }
    }
    for comparisons in all.iter() {
        for (at, one) in comparisons.iter().enumerate() {
            let merges = |other: &&Comparison| match (runs.get(&one.of), runs.get(&other.of)) {
                (Some(own), Some(others)) => own.0 != others.0 && own.1 == others.1,
                _ => false,
            };
            let apart = (runs.get(&one.of), runs.get(&one.to));
            if let (Some(own), Some(others)) = apart
                && one.check.to_in.is_some()
                && own.0 != others.0
                && own.1 == others.1
            {
                return Err(same_runs(
                    variant,
                    &one.condition,
                    one.check.to_in.as_deref().unwrap_or_default(),
                ));
            }
            if let Some(other) = comparisons[..at].iter().find(merges) {
                return Err(same_runs(variant, &other.condition, &one.condition));
            }
        }
    }
    let mut changes = false;
    for (check, comparisons) in claim.checks.iter().zip(all.iter_mut()) {
        for comparison in comparisons {
            comparison.same = comparison.check.of == check.of && same[&comparison.of];
            comparison.same &= !check.compares() || same[&comparison.to];
            changes |= !comparison.same;
        }
    }
    match changes {
        true => Ok(()),
        false => Err(MeasureError::Missing(format!(
            "the variant `{}` changes none of its runs: {} has no effect there",
            variant.name,
            if variant.set.is_empty() { "it" } else { "what it sets" }
        ))),
    }
}

/// Returns the error of a variant that replaces the quantity by which two conditions differ.
fn same_runs(variant: &Variant, one: &str, other: &str) -> MeasureError {
    MeasureError::Missing(format!(
        "the variant `{}` makes `{one}` and `{other}` the same runs: it sets what they differ in; name their scenario in its \
         `except`, or choose another one",
        variant.name
    ))
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
    /// About how many packets all runs send, which is what they cost.
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

/// Returns the status of a claim with these checks.
pub fn status(checks: &[Checked]) -> Status {
    Status::all(checks.iter().flat_map(|check| check.lines.iter().map(|line| line.status)))
}

/// Returns the evidence in words: what does not hold first.
fn evidence(finding: &Finding) -> String {
    let lines = |checks: &[Checked]| {
        let all = || checks.iter().flat_map(|check| &check.lines);
        let bad = all().filter(|line| line.status != Status::Holds);
        let good = all().filter(|line| line.status == Status::Holds);
        let words = |line: &Line| match line.status {
            Status::Holds => line.words.clone(),
            status => format!("{} ({})", line.words, status.name()),
        };
        let mut texts: Vec<String> = bad.chain(good).map(words).collect();
        let rest = texts.len().saturating_sub(6);
        texts.truncate(6);
        if rest > 0 {
            texts.push(format!("and {rest} more"));
        }
        texts.join("; ")
    };
    let mut text = lines(&finding.checks);
    for tried in &finding.variants {
        match tried.status {
            Status::Holds => text += &format!(". With {}: {}", tried.name, lines(&tried.checks)),
            status => text += &format!(". With {}: {} too", tried.name, status.name()),
        }
    }
    text
}

/// Returns the number of findings of each status, in the order of [`Status::ALL`].
pub fn score<'a>(findings: impl Iterator<Item = &'a Finding>) -> [usize; 6] {
    let mut counts = [0; 6];
    for finding in findings {
        if let Some(at) = Status::ALL.iter().position(|status| *status == finding.status) {
            counts[at] += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a variant that is recorded as tried may have changed nothing, or have measured one point of a sweep at
    /// all of its points.
    #[test]
    fn every_variant_of_every_claim_changes_its_runs_and_makes_no_two_the_same() {
        let cancelled = AtomicBool::new(false);
        let options = Options {
            quick: false,
            variants: true,
            seed: None,
            jobs: 1,
            cancelled: &cancelled,
            figures: false,
            expected: &[],
            progress: &|_| (),
        };
        for paper in library::papers().unwrap() {
            for claim in &paper.claims {
                for variant in claim.variants.iter().filter_map(|name| paper.variant(name)) {
                    let mut all = comparisons(&paper, claim, Some(variant), &options).unwrap();
                    let compared = compare_with_plain(claim, variant, &mut all);
                    assert!(compared.is_ok(), "{}: {:?}", claim.id, compared.err());
                }
            }
        }
    }
}
