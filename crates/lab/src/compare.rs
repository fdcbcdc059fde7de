//! Comparisons: every contender in every condition, with the same seeds.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use anabranch_sim::Performance;
use serde::{Deserialize, Serialize};

use crate::baseline::Race;
use crate::head::Head;
use crate::job::{Job, Purpose};
use crate::options::Options;
use crate::recording::Recording;
use crate::report::fairness::{self, Fairness};
use crate::report::verdict::{self, Verdict};
use crate::report::{self, Entrant, Record, Setting, UnseenEvents};
use crate::rounds;
use crate::run::{Prepared, RunError, RunResult};
use crate::scenario::estimate;
use crate::scenario::{Scenario, Transport};
use crate::starts::{self, DecisiveStart, OtherStart};
use crate::usage::{self, PathUsage};

/// The version of the keys of `anabranch compare --json`; it increases with every change of their names or
/// meanings.
pub const SCHEMA: u32 = 1;

/// The results of a comparison. Serialised, they are the object that `compare --json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The program, the command line and the scenario; the version of the keys is [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// The number of runs of each contender, in the condition with the most.
    pub runs: u32,
    /// The contender with which the others are compared.
    pub reference: Option<String>,
    /// The difference in per cent below which two values are practically equal.
    pub min_effect_pct: f64,
    /// The best scheduler for this traffic, in a sentence.
    pub verdict: String,
    /// The verdicts for programs: one for each condition and measure.
    pub verdicts: Vec<Verdict>,
    /// One row for each condition and contender.
    pub rows: Vec<Record>,
    /// The flows that get more or less than a fair share, in a sentence; none if each run has a single flow.
    pub fairness_verdict: Option<String>,
    /// The shares of the flows, for each condition and contender with several flows in a run.
    pub fairness: Vec<Fairness>,
    /// The data of each path and its cost, for each condition and contender; absent if no path has a price or a quota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<PathUsage>,
    /// The setting of each condition, and its best single path.
    pub conditions: Vec<Setting>,
    /// The cost of the simulation.
    pub performance: Cost,
}

impl Comparison {
    /// Removes the fairness of contenders to which it does not apply: it is kept with competing TCPs and for
    /// several bulk flows.
    pub fn keep_fairness_that_applies(&mut self) {
        self.fairness.retain(|fairness| fairness.applies);
        self.fairness_verdict = fairness::sentences(&self.fairness);
    }

    /// Returns the first row of a contender, which is the only one with one condition and without classes of traffic.
    pub fn row_of(&self, contender: &str) -> Option<&Record> {
        self.rows.iter().find(|row| row.scheduler == contender)
    }

    /// Returns the first row of a contender for a class of traffic; none for a class is the row without classes.
    pub fn row_of_class(&self, contender: &str, class: Option<&str>) -> Option<&Record> {
        self.rows.iter().find(|row| row.scheduler == contender && row.traffic.as_deref() == class)
    }

    /// True if all flows were delivered, so that there can be a winner.
    pub fn is_complete(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.outcome != verdict::Outcome::Incomplete)
    }
}

/// The cost of a simulation. The first four values are the same for the same seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Simulated time in seconds, over all runs.
    pub simulated_s: f64,
    /// Wall time in seconds.
    pub wall_s: f64,
    /// Packets crossing a link.
    pub packet_hops: u64,
    /// Segments sent with payload.
    pub data_packets: u64,
    /// Turns of the event loop.
    pub events: u64,
    /// The peak memory of the process, in bytes; none if the system does not report it.
    pub peak_rss_bytes: Option<u64>,
}

impl Cost {
    /// Adds the cost of a run.
    pub fn add(&mut self, performance: &Performance) {
        self.simulated_s += performance.simulated_s;
        self.packet_hops += performance.packet_hops;
        self.data_packets += performance.data_packets;
        self.events += performance.events;
    }
}

/// Receives the result of each run as soon as it and all before it are available, in the order of the runs.
pub type Each<'a> = dyn FnMut(&Job, &RunResult) -> Result<(), RunError> + Send + 'a;

/// The results of jobs, each at the index of its job.
struct Results<'a, T> {
    results: Vec<Option<Result<T, RunError>>>,
    /// The number of results passed to `each`.
    given: usize,
    each: &'a mut EachOf<'a, T>,
}

/// Receives the result of each job as soon as it and all before it are available, in the order of the jobs.
type EachOf<'a, T> = dyn FnMut(&Job, &mut T) -> Result<(), RunError> + Send + 'a;

impl<T> Results<'_, T> {
    /// Adds the result of the job at `place`. False if `each` has failed.
    fn put(&mut self, jobs: &[Job], place: usize, result: Result<T, RunError>) -> bool {
        self.results[place] = Some(result);
        while let Some(Some(Ok(result))) = self.results.get_mut(self.given) {
            if let Err(error) = (self.each)(&jobs[self.given], result) {
                self.results[self.given] = Some(Err(error));
                return false;
            }
            self.given += 1;
        }
        true
    }
}

/// Simulates `jobs` on several threads; the results are in their order.
pub(crate) fn simulate(
    prepared: &[Prepared<'_>],
    jobs: &[Job],
    options: &Options<'_>,
    cost: &mut Cost,
    each: &mut Each<'_>,
) -> Result<Vec<RunResult>, RunError> {
    simulate_by(&|job| prepared[job.condition].run_job(job, options), jobs, options, cost, each)
}

/// Simulates each of `jobs` by `run`, on several threads; the results are in their order.
fn simulate_by(
    run: &(dyn Fn(&Job) -> Result<RunResult, RunError> + Sync),
    jobs: &[Job],
    options: &Options<'_>,
    cost: &mut Cost,
    each: &mut Each<'_>,
) -> Result<Vec<RunResult>, RunError> {
    let mut forget = |job: &Job, result: &mut RunResult| {
        let given = each(job, result);
        result.forget_details();
        given
    };
    let all = in_parallel(run, jobs, options, &mut forget)?;
    all.iter().for_each(|result| cost.add(&result.performance));
    Ok(all)
}

/// Does `work` for each of `jobs` on several threads; the results are in their order.
pub(crate) fn in_parallel<T: Send>(
    work: &(dyn Fn(&Job) -> Result<T, RunError> + Sync),
    jobs: &[Job],
    options: &Options<'_>,
    each: &mut EachOf<'_, T>,
) -> Result<Vec<T>, RunError> {
    let threads = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let (next, done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let none = Vec::from_iter(jobs.iter().map(|_| None));
    let results = Mutex::new(Results { results: none, given: 0, each });
    let serve = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(place) else { return };
            if options.cancelled.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
                return;
            }
            let result = work(job);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            if let Ok(mut results) = results.lock()
                && !results.put(jobs, place, result)
            {
                failed.store(true, Ordering::Relaxed);
            }
            (options.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(jobs.len()) {
            scope.spawn(serve);
        }
        serve();
    });
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).results;
    let mut all = Vec::with_capacity(jobs.len());
    let mut missing = false;
    for result in results {
        match result {
            Some(result) => all.push(result?),
            None => missing = true,
        }
    }
    if missing || options.cancelled.load(Ordering::Relaxed) {
        return Err(RunError::Cancelled);
    }
    Ok(all)
}

/// Ignores the results of runs.
fn ignore(_: &Job, _: &RunResult) -> Result<(), RunError> {
    Ok(())
}

/// The choice of a path for every `tcp`, by condition and contender.
pub(crate) type Races = Vec<Vec<Option<Race>>>;

/// Measures every single path and chooses the best one for each `tcp`.
fn select(
    scenario: &Scenario,
    prepared: &[Prepared<'_>],
    options: &Options<'_>,
    cost: &mut Cost,
) -> Result<Races, RunError> {
    let race = |condition: &crate::scenario::Condition, transport: &Transport| match transport {
        Transport::Tcp { path: None } => {
            let paths = condition.experiment.paths().len();
            let race = Race::new(paths, report::is_bulk(condition), scenario.min_effect, scenario.runs);
            Some(race.with_deadline(&condition.experiment).judged_by_main(&condition.experiment))
        }
        _ => None,
    };
    let mut races: Races = scenario
        .conditions
        .iter()
        .map(|condition| scenario.contenders.iter().map(|c| race(condition, &c.transport)).collect())
        .collect();
    run_races(scenario, prepared, &mut races, Purpose::Select, options, cost)?;
    Ok(races)
}

/// Measures every single path for competing TCPs without a configured path, and assigns them the best one.
/// They are measured without the contenders, so that the choice does not depend on them.
pub(crate) fn select_beside(
    scenario: &Scenario,
    prepared: &mut [Prepared<'_>],
    options: &Options<'_>,
    cost: &mut Cost,
) -> Result<(), RunError> {
    let race = |condition: &crate::scenario::Condition| {
        let paths = condition.experiment.paths().len();
        let is_open = condition.experiment.traffic.beside.iter().any(|beside| beside.path.is_none());
        let race = || Race::new(paths, report::is_bulk(condition), scenario.min_effect, scenario.runs);
        is_open.then(|| race().with_deadline(&condition.experiment))
    };
    let mut races: Races = scenario.conditions.iter().map(|condition| vec![race(condition)]).collect();
    run_races(scenario, prepared, &mut races, Purpose::SelectBeside, options, cost)?;
    for (prepared, races) in prepared.iter_mut().zip(&races) {
        prepared.set_beside(races.iter().flatten().next().map(Race::chosen));
    }
    Ok(())
}

/// Simulates the runs that the races request, until all choices are made.
fn run_races(
    scenario: &Scenario,
    prepared: &[Prepared<'_>],
    races: &mut Races,
    purpose: Purpose,
    options: &Options<'_>,
    cost: &mut Cost,
) -> Result<(), RunError> {
    // These runs are few, and are not included in the progress.
    let counted = scenario.conditions.len() * scenario.contenders.len() * scenario.runs as usize;
    let progress = |_, _| (options.progress)(0, counted);
    let quiet = Options { progress: &progress, captures: None, ..*options };
    loop {
        let mut jobs = Vec::new();
        for (condition, races) in races.iter().enumerate() {
            for (contender, race) in races.iter().enumerate() {
                let Some((range, paths)) = race.as_ref().and_then(Race::next) else { continue };
                for path in paths {
                    let job = |run| Job { condition, contender, run, path: Some(path), purpose };
                    jobs.extend(range.clone().map(job));
                }
            }
        }
        if jobs.is_empty() {
            return Ok(());
        }
        let results = simulate(prepared, &jobs, &quiet, cost, &mut ignore)?;
        for (job, result) in jobs.iter().zip(&results) {
            if let (Some(race), Some(path)) = (&mut races[job.condition][job.contender], job.path) {
                race.add(path, result);
            }
        }
        let mut judged: Vec<(usize, usize)> = jobs.iter().map(|job| (job.condition, job.contender)).collect();
        judged.dedup();
        for (condition, contender) in judged {
            if let Some(race) = &mut races[condition][contender] {
                race.judge();
            }
        }
    }
}

/// Sets the path of each class of traffic for the plain TCPs that the races are about.
fn set_class_paths(prepared: &mut [Prepared<'_>], races: &Races) {
    for (prepared, races) in prepared.iter_mut().zip(races) {
        let of = |race: &Option<Race>| race.as_ref().map(Race::chosen_by_class).unwrap_or_default();
        prepared.set_class_paths(races.iter().map(of).collect());
    }
}

/// Prepares the conditions of a scenario, and chooses the paths of `tcp` as a comparison does.
pub(crate) fn choose_paths<'a>(
    scenario: &'a Scenario,
    options: &Options<'_>,
) -> Result<(Vec<Prepared<'a>>, Races), RunError> {
    let mut prepared = prepare(scenario, Prepared::for_comparison)?;
    select_beside(scenario, &mut prepared, options, &mut Cost::default())?;
    let races = select(scenario, &prepared, options, &mut Cost::default())?;
    set_class_paths(&mut prepared, &races);
    Ok((prepared, races))
}

/// One row of a comparison, and its runs.
struct Planned {
    condition: usize,
    contender: usize,
    path: Option<usize>,
    purpose: Purpose,
}

fn plan(scenario: &Scenario, races: &Races, every_path: bool) -> Vec<Planned> {
    let mut all = Vec::new();
    for (condition, races) in races.iter().enumerate() {
        let chosen = |contender: usize| races[contender].as_ref().map(Race::chosen);
        for contender in 0..scenario.contenders.len() {
            let path = chosen(contender);
            all.push(Planned { condition, contender, path, purpose: Purpose::Compare });
        }
        for contender in (0..scenario.contenders.len()).filter(|_| every_path) {
            let Some(chosen) = chosen(contender) else { continue };
            let paths = 0..scenario.conditions[condition].experiment.paths().len();
            all.extend(paths.filter(|path| *path != chosen).map(|path| Planned {
                condition,
                contender,
                path: Some(path),
                purpose: Purpose::Alone,
            }));
        }
    }
    all
}

/// Compares the contenders of a scenario.
///
/// # Errors
/// If a run cannot be made, or it was cancelled.
pub fn compare(scenario: &Scenario, options: &Options<'_>) -> Result<Comparison, RunError> {
    compare_each(scenario, options, &mut ignore)
}

/// Compares the contenders of a scenario, and passes each of their runs to `each`, without selection runs.
///
/// # Errors
/// If a run cannot be made, `each` has failed, or it was cancelled.
pub fn compare_each(
    scenario: &Scenario,
    options: &Options<'_>,
    each: &mut Each<'_>,
) -> Result<Comparison, RunError> {
    let mut prepared = prepare(scenario, Prepared::for_comparison)?;
    let mut performance = Cost::default();
    select_beside(scenario, &mut prepared, options, &mut performance)?;
    let races = select(scenario, &prepared, options, &mut performance)?;
    set_class_paths(&mut prepared, &races);
    let planned = plan(scenario, &races, options.every_path);
    let mut measured = Measured::new(scenario, &planned);
    measured.simulate(&prepared, options, &mut performance, each)?;
    let others = other_starts(&measured, &prepared, options, &mut performance)?;
    let (mut rows, mut findings, mut conditions) = (Vec::new(), Vec::new(), Vec::<Setting>::new());
    let (mut shares, mut usage) = (Vec::new(), Vec::new());
    for (position, condition) in scenario.conditions.iter().enumerate() {
        let scenario = &measured.scenario_of(position);
        let entrants = measured.entrants(position);
        rows.extend(report::rows(scenario, condition, &entrants));
        shares.extend(fairness::fairness(scenario, condition, &entrants));
        for entrant in &entrants {
            let runs: Vec<_> = entrant.runs.iter().map(|run| run.usage.as_slice()).collect();
            usage.extend(usage::rows(condition, &entrant.name, &runs));
        }
        let ideal = prepared[position].ideal_goodput_bps(0);
        let mut setting = Setting::new(scenario, condition, &races[position], ideal);
        (setting.other_starts, setting.decisive_start) = others[position].clone();
        let own = verdict::findings(scenario, condition, &entrants);
        setting.unseen = UnseenEvents::new(&own, scenario.runs);
        findings.extend(own);
        conditions.push(setting);
    }
    Ok(Comparison {
        head: Head::new(SCHEMA, scenario),
        runs: measured.runs.iter().copied().max().unwrap_or(0),
        reference: scenario.reference.map(|position| scenario.contenders[position].name.clone()),
        min_effect_pct: 100.0 * scenario.min_effect,
        verdict: report::sentences::sentences(&findings) + &decisive_sentences(scenario, &conditions),
        verdicts: findings.iter().map(verdict::Finding::verdict).collect(),
        rows,
        fairness_verdict: fairness::sentences(&shares),
        fairness: shares,
        usage,
        conditions,
        performance,
    })
}

/// Returns the prepared conditions of a scenario and the jobs of [`compare`], after the runs that choose the
/// path of each plain TCP: for callers that simulate them with their own recorder.
///
/// # Errors
/// If a run cannot be made, or it was cancelled.
pub fn planned<'a>(
    scenario: &'a Scenario,
    options: &Options<'_>,
) -> Result<(Vec<Prepared<'a>>, Vec<Job>), RunError> {
    let mut prepared = prepare(scenario, Prepared::for_comparison)?;
    let mut cost = Cost::default();
    select_beside(scenario, &mut prepared, options, &mut cost)?;
    let races = select(scenario, &prepared, options, &mut cost)?;
    set_class_paths(&mut prepared, &races);
    let planned = plan(scenario, &races, options.every_path);
    Ok((prepared, planned.iter().flat_map(|plan| plan.jobs(0..scenario.runs)).collect()))
}

impl Planned {
    /// Returns these runs of the row.
    fn jobs(&self, runs: core::ops::Range<u32>) -> impl Iterator<Item = Job> + use<> {
        let &Planned { condition, contender, path, purpose } = self;
        runs.map(move |run| Job { condition, contender, run, path, purpose })
    }
}

/// The runs of a comparison.
struct Measured<'a> {
    scenario: &'a Scenario,
    planned: &'a [Planned],
    /// By row.
    results: Vec<Vec<RunResult>>,
    /// The number of runs, by condition.
    runs: Vec<u32>,
}

impl<'a> Measured<'a> {
    fn new(scenario: &'a Scenario, planned: &'a [Planned]) -> Measured<'a> {
        let results = planned.iter().map(|_| Vec::new()).collect();
        Measured { scenario, planned, results, runs: vec![0; scenario.conditions.len()] }
    }

    /// Simulates the runs, in rounds if the scenario gives no number.
    fn simulate(
        &mut self,
        prepared: &[Prepared<'_>],
        options: &Options<'_>,
        cost: &mut Cost,
        each: &mut Each<'_>,
    ) -> Result<(), RunError> {
        let mut wanted: Vec<Option<u32>> = vec![Some(self.scenario.runs); self.runs.len()];
        let mut done = 0;
        loop {
            let of_round = |plan: &Planned| {
                let runs = self.runs[plan.condition];
                plan.jobs(runs..wanted[plan.condition].unwrap_or(runs))
            };
            let jobs: Vec<Job> = self.planned.iter().flat_map(of_round).collect();
            if jobs.is_empty() {
                return Ok(());
            }
            let progress = |now, total| (options.progress)(done + now, done + total);
            let shifted = Options { progress: &progress, ..*options };
            let mut new = simulate(prepared, &jobs, &shifted, cost, each)?.into_iter();
            done += jobs.len();
            for (results, plan) in self.results.iter_mut().zip(self.planned) {
                let count = of_round(plan).count();
                results.extend(new.by_ref().take(count));
            }
            for (runs, wanted) in self.runs.iter_mut().zip(&wanted) {
                *runs = wanted.unwrap_or(*runs);
            }
            let fixed = self.scenario.has_runs || !options.in_rounds;
            wanted = if fixed { vec![None; self.runs.len()] } else { self.next_round(&wanted) };
        }
    }

    /// Returns the numbers of runs after the next round, for the conditions that took part in this one and need more.
    fn next_round(&self, wanted: &[Option<u32>]) -> Vec<Option<u32>> {
        let hops = |position: usize| {
            let own = self.planned.iter().zip(&self.results).filter(|(plan, _)| plan.condition == position);
            own.flat_map(|(_, runs)| runs).map(|run| run.performance.packet_hops).sum::<u64>()
        };
        let all: Vec<u64> = (0..self.runs.len()).map(hops).collect();
        let excess = |position: usize| {
            let condition = &self.scenario.conditions[position];
            let findings =
                verdict::findings(&self.scenario_of(position), condition, &self.entrants(position));
            wanted[position].and_then(|_| rounds::excess(&findings, 100.0 * self.scenario.precision))
        };
        let excess: Vec<Option<f64>> = (0..self.runs.len()).map(excess).collect();
        let active = excess.iter().flatten().filter(|excess| **excess > 1.0).count() as u64;
        let left = rounds::BUDGET.saturating_sub(all.iter().sum()) / active.max(1);
        let next = |((runs, hops), excess): ((&u32, &u64), &Option<f64>)| {
            rounds::next(*runs, (*excess)?, *hops as f64 / f64::from(*runs), left)
        };
        self.runs.iter().zip(&all).zip(&excess).map(next).collect()
    }

    /// Returns the scenario with the number of runs of the condition at `position`.
    fn scenario_of(&self, position: usize) -> Scenario {
        Scenario { runs: self.runs[position], ..self.scenario.clone() }
    }

    /// Returns the entrants of the condition at `position`, with their runs.
    fn entrants(&self, position: usize) -> Vec<Entrant<'_>> {
        let condition = &self.scenario.conditions[position];
        let own = self.planned.iter().zip(&self.results).filter(|(plan, _)| plan.condition == position);
        own.map(|(plan, runs)| {
            let listed = plan.purpose == Purpose::Compare;
            Entrant::new(self.scenario, condition, plan.contender, plan.path, listed, runs)
        })
        .collect()
    }
}

/// The effects of other starts, and the one that matters more than the scheduler.
type Starts = (Vec<OtherStart>, Option<DecisiveStart>);

/// Returns the effects of other starts in each condition, and the one that matters more than the scheduler.
fn other_starts(
    measured: &Measured<'_>,
    prepared: &[Prepared<'_>],
    options: &Options<'_>,
    cost: &mut Cost,
) -> Result<Vec<Starts>, RunError> {
    let scenario = measured.scenario;
    // By condition and contender.
    let compared: Vec<Vec<&[RunResult]>> = (0..scenario.conditions.len())
        .map(|position| {
            let own = measured.entrants(position).into_iter();
            own.filter(|entrant| entrant.listed).map(|entrant| entrant.runs).collect()
        })
        .collect();
    let hops = |position: usize| {
        let multipath = scenario.contenders.iter().zip(&compared[position]);
        let multipath =
            multipath.filter(|(contender, _)| matches!(contender.transport, Transport::Multipath(_)));
        multipath.flat_map(|(_, runs)| runs.iter()).map(|run| run.performance.packet_hops).sum::<u64>()
    };
    let plans: Vec<Option<starts::Plan>> = scenario
        .conditions
        .iter()
        .enumerate()
        .map(|(position, condition)| {
            let estimates = estimate::estimates(&condition.experiment, &condition.base);
            starts::Plan::new(scenario, position, measured.runs[position], hops(position), &estimates)
        })
        .collect();
    let jobs: Vec<Job> = plans.iter().flatten().flat_map(starts::Plan::jobs).collect();
    let before: usize = measured.results.iter().map(Vec::len).sum();
    let progress = |done, total| (options.progress)(before + done, before + total);
    let quiet = Options { progress: &progress, captures: None, ..*options };
    let mut simulated = &simulate(prepared, &jobs, &quiet, cost, &mut ignore)?[..];
    let mut all = Vec::with_capacity(plans.len());
    for (position, plan) in plans.iter().enumerate() {
        let Some(plan) = plan else {
            all.push(Default::default());
            continue;
        };
        let (own, rest) = simulated.split_at(plan.jobs().count());
        simulated = rest;
        let starts = plan.changes(scenario, own, &compared[position]);
        let decisive =
            starts::decisive(scenario, &scenario.conditions[position], &starts, &compared[position]);
        all.push((starts, decisive));
    }
    Ok(all)
}

/// Returns the sentences on first paths that matter more than the scheduler.
fn decisive_sentences(scenario: &Scenario, settings: &[Setting]) -> String {
    let sentence = |(condition, setting): (&crate::scenario::Condition, &Setting)| {
        let decisive = setting.decisive_start.as_ref()?;
        let bulk = report::is_bulk(condition);
        Some(format!("\n{}", decisive.sentence(&setting.name, &setting.initial, bulk)))
    };
    scenario.conditions.iter().zip(settings).filter_map(sentence).collect()
}

/// Simulates run number `run` of each contender in each condition exactly as a comparison does: with its
/// seed, its phases and its path for `tcp`. Without a number it is run 0, with phases only if the scenario
/// sets them. The runs that choose the path of `tcp` are not part of the cost.
///
/// # Errors
/// If a run cannot be made, or it was cancelled.
pub fn single_runs(
    scenario: &Scenario,
    options: &Options<'_>,
    run: Option<u32>,
) -> Result<(Vec<(Job, RunResult)>, Cost), RunError> {
    single_runs_recorded(scenario, options, run, None)
}

/// Does the same as [`single_runs`], and records the events of the runs.
///
/// # Errors
/// If a run cannot be made or recorded, or it was cancelled.
pub fn single_runs_recorded(
    scenario: &Scenario,
    options: &Options<'_>,
    run: Option<u32>,
    recording: Option<&dyn Recording>,
) -> Result<(Vec<(Job, RunResult)>, Cost), RunError> {
    let mut prepared = prepare(scenario, Prepared::for_comparison)?;
    select_beside(scenario, &mut prepared, options, &mut Cost::default())?;
    let races = select(scenario, &prepared, options, &mut Cost::default())?;
    set_class_paths(&mut prepared, &races);
    let job = |&Planned { condition, contender, path, purpose }: &Planned| Job {
        condition,
        contender,
        run: run.unwrap_or(0),
        path,
        purpose,
    };
    let jobs: Vec<Job> = plan(scenario, &races, options.every_path).iter().map(job).collect();
    if run.is_none() {
        let beside: Vec<Option<usize>> = prepared.iter().map(Prepared::beside).collect();
        prepared = prepare(scenario, Prepared::new)?;
        prepared.iter_mut().zip(beside).for_each(|(prepared, path)| prepared.set_beside(path));
        set_class_paths(&mut prepared, &races);
    }
    let begun = now();
    let mut cost = Cost::default();
    // A comparison forgets the links, and other details, of its runs.
    let mut results = Vec::with_capacity(jobs.len());
    let mut keep = |_: &Job, result: &RunResult| {
        results.push(result.clone());
        Ok(())
    };
    let one = |job: &Job| match recording {
        Some(recording) => prepared[job.condition].run_recorded(job, options, recording),
        None => prepared[job.condition].run_job(job, options),
    };
    simulate_by(&one, &jobs, options, &mut cost, &mut keep)?;
    cost.wall_s = begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
    Ok((jobs.into_iter().zip(results).collect(), cost))
}

/// Returns the time, where there is a clock: WebAssembly has none without a host.
fn now() -> Option<std::time::Instant> {
    (!cfg!(target_family = "wasm")).then(std::time::Instant::now)
}

pub(crate) fn prepare<'a>(
    scenario: &'a Scenario,
    prepare: impl Fn(&'a Scenario, usize) -> Result<Prepared<'a>, RunError>,
) -> Result<Vec<Prepared<'a>>, RunError> {
    (0..scenario.conditions.len()).map(|condition| prepare(scenario, condition)).collect()
}
