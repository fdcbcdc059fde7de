//! Measurements: the runs of one scenario under one condition, in numbers.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use anabranch_lab::compare;
use anabranch_lab::job::Job;
use anabranch_lab::options::Options;
use anabranch_lab::run::{Prepared, RunError};
use anabranch_lab::scenario::{Condition, Direction, FlowSize, Scenario, sha256};
use serde::{Deserialize, Serialize};

use crate::course::Taker;
use crate::library;
use crate::metric::{Metric, Quantity};
use crate::observe::Watch;
use crate::take::{Form, Samples};
use crate::value::{Ran, value};
pub use crate::values::{MeasureError, Measurement, Source, Unit, Values, Wanted};
use crate::{model, window};

/// A benefit below the negative of this is a loss against the best single path: the options of Multipath TCP
/// take 1.4 to 2 % of the goodput even where it uses only that path.
const PRACTICALLY: f64 = 0.03;

/// The measures of one run of a contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Numbers {
    /// The scenario: the point of a plan, otherwise 0.
    scenario: usize,
    /// The place of the run among all of that scenario.
    job: usize,
    contender: String,
    /// The measures in the order of [`Wanted::metrics`], as bits: JSON has no infinity and no NaN.
    bits: Vec<u64>,
    /// The values taken from within the run, in the order of [`Wanted::takes`], as bits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    taken: Vec<Vec<u64>>,
}

/// The measures of some runs of a unit, which other processes and machines exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunsPart(Vec<Numbers>);

/// The runs of a unit.
pub struct Work {
    /// A hash of the scenarios, the seed and the number of runs.
    pub key: String,
    /// Hashes of the scenarios without contenders that are not needed.
    identity: String,
    scenarios: Vec<Scenario>,
    /// True if the scenarios are the points of a plan.
    plan: bool,
    window: Option<window::Setting>,
}

impl Work {
    /// Reads the scenarios of `unit`, with the contenders that are needed.
    ///
    /// # Errors
    /// If there is no such scenario or condition, or it is not valid.
    pub fn new(unit: &Unit, wanted: &Wanted) -> Result<Work, MeasureError> {
        let mut work = Work {
            key: String::new(),
            identity: String::new(),
            scenarios: Vec::new(),
            plan: false,
            window: None,
        };
        match &unit.source {
            Source::Scenario(name) => {
                let mut document = library::scenario(&unit.paper, name)?;
                for assignment in &unit.set {
                    document.set(assignment)?;
                }
                if let Some(seed) = unit.seed {
                    document.set_option("--seed", "seed", &seed.to_string());
                }
                let mut scenario = document.scenario()?;
                scenario.runs = unit.runs.unwrap_or(scenario.runs);
                work.scenarios.push(scenario);
            }
            Source::Plan(name) => {
                work.scenarios = points(unit, name)?;
                work.plan = true;
            }
            Source::Window(text) => {
                let text = format!("{text} {} {}", unit.condition, unit.set.join(" "));
                let setting = window::Setting::parse(&text).map_err(MeasureError::Missing)?;
                work.identity = format!("{setting:?}");
                work.window = Some(setting);
                work.key = sha256(format!("window {text}").as_bytes());
                return Ok(work);
            }
        }
        let mut identity = String::new();
        for scenario in &mut work.scenarios {
            keep_condition(scenario, unit)?;
            identity += &format!("{} {} {}\n", scenario.hash(), scenario.seed, scenario.runs);
            keep_contenders(scenario, wanted)?;
            // Conditions with other names make the same runs.
            let mut unnamed = scenario.clone();
            unnamed.conditions.iter_mut().for_each(|condition| condition.name.clear());
            work.identity += &format!("{} {} {}\n", unnamed.hash(), scenario.seed, scenario.runs);
        }
        work.key = sha256(identity.as_bytes());
        Ok(work)
    }

    /// Returns a text that two units share if and only if they make the same runs.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the scenarios of the runs: one, the scenarios of the points of a plan, or none for a window simulation.
    pub fn scenarios(&self) -> &[Scenario] {
        &self.scenarios
    }

    /// Returns the approximate number of packets that the runs send: their cost.
    pub(crate) fn packets(&self) -> f64 {
        self.scenarios.iter().map(packets).sum()
    }

    /// Returns the number of runs of each contender, or of points of a plan.
    pub fn runs(&self) -> usize {
        match (&self.window, &self.scenarios[..]) {
            (Some(_), _) => 1,
            (None, [scenario]) if !self.plan => scenario.runs as usize,
            (None, points) => points.len(),
        }
    }

    /// Simulates on `jobs` threads.
    ///
    /// # Errors
    /// If a run cannot be made, or it was cancelled.
    pub fn measure(
        &self,
        wanted: &Wanted,
        jobs: usize,
        cancelled: &AtomicBool,
    ) -> Result<Measurement, MeasureError> {
        let all = self.part(wanted, 0..self.runs(), jobs, cancelled)?;
        self.joined(wanted, vec![all])
    }

    /// Simulates some of the [`runs`](Work::runs) on `jobs` threads.
    ///
    /// # Errors
    /// If a run cannot be made, or it was cancelled.
    pub fn part(
        &self,
        wanted: &Wanted,
        runs: Range<usize>,
        jobs: usize,
        cancelled: &AtomicBool,
    ) -> Result<RunsPart, MeasureError> {
        let mut part = RunsPart::default();
        for (number, scenario) in self.scenarios.iter().enumerate() {
            let own = match self.plan {
                true if runs.contains(&number) => 0..scenario.runs as usize,
                true => continue,
                false => runs.clone(),
            };
            simulate((number, scenario), wanted, &own, jobs, cancelled, &mut part)?;
        }
        Ok(part)
    }

    /// Joins the parts of all runs, in any order; runs that are in several parts count once.
    ///
    /// # Errors
    /// If a measure cannot be made from them.
    pub fn joined(&self, wanted: &Wanted, parts: Vec<RunsPart>) -> Result<Measurement, MeasureError> {
        let mut values = Values::new();
        if let Some(setting) = &self.window {
            values = setting.measure(wanted).map_err(MeasureError::Missing)?;
        }
        let mut all: Vec<Numbers> = parts.into_iter().flat_map(|part| part.0).collect();
        all.sort_by_key(|one| (one.scenario, one.job));
        all.dedup_by_key(|one| (one.scenario, one.job));
        for Numbers { contender, bits, taken, .. } in all {
            let own = values.entry(contender).or_default();
            for (take, bits) in wanted.takes.iter().zip(taken) {
                let mut flat: Vec<f64> = bits.into_iter().map(f64::from_bits).collect();
                let known = own.entry(take.key()).or_default();
                if take.form == Form::Samples {
                    let mut all = Samples::of(known);
                    all.merge(&Samples::of(&flat));
                    flat = all.flat();
                }
                *known = flat;
            }
            for (metric, bits) in wanted.metrics.iter().zip(bits) {
                own.entry(metric.to_string()).or_default().push(f64::from_bits(bits));
            }
        }
        for scenario in &self.scenarios {
            model::predict(scenario, wanted, &mut values);
        }
        relate(wanted, &mut values)?;
        Ok(Measurement { key: self.key.clone(), values })
    }
}

/// Returns about how many packets the runs of a scenario send.
fn packets(scenario: &Scenario) -> f64 {
    const PACKET: f64 = 1500.0;
    /// The mean of the Pareto distribution of web-like flows.
    const WEB: f64 = 57_000.0;
    let of = |condition: &Condition| {
        let experiment = &condition.experiment;
        let traffic = &experiment.traffic;
        let rates = experiment.paths().iter().map(|path| experiment.own_link(path).mean_rate().as_bps_f64());
        let rate: f64 = rates.sum::<f64>() / 8.0;
        let size = match &traffic.size {
            FlowSize::Bulk => return rate * traffic.duration.as_secs_f64() / PACKET,
            FlowSize::Fixed(size) => size.0 as f64,
            FlowSize::Web { .. } => WEB,
            FlowSize::Drawn(sizes) => sizes.mean(),
        };
        let flows = traffic.flows + traffic.beside.iter().map(|beside| beside.flows).sum::<u32>();
        let own = f64::from(flows) * size;
        match traffic.background.iter().map(|background| background.flows).sum::<u32>() {
            0 => own / PACKET,
            // They fill the links while the contender's have their share of them.
            others => own * f64::from(1 + others) / PACKET,
        }
    };
    let each: f64 = scenario.conditions.iter().map(of).sum();
    each * f64::from(scenario.runs) * scenario.contenders.len() as f64
}

/// Returns the scenarios of the points of a plan.
fn points(unit: &Unit, name: &str) -> Result<Vec<Scenario>, MeasureError> {
    let mut plan = library::plan(&unit.paper, name)?;
    for assignment in &unit.set {
        plan.set(assignment)?;
    }
    if let Some(seed) = unit.seed {
        plan.set(&format!("seed={seed}"))?;
    }
    plan.set_runs(1);
    let count = unit.runs.map_or(plan.points(), |runs| plan.points().min(runs as usize));
    (0..count).map(|number| Ok(plan.scenario(&plan.point(number))?)).collect()
}

/// Removes the other conditions.
fn keep_condition(scenario: &mut Scenario, unit: &Unit) -> Result<(), MeasureError> {
    let names: Vec<String> = scenario.conditions.iter().map(|condition| condition.name.clone()).collect();
    scenario.conditions.retain(|condition| condition.name == unit.condition);
    if scenario.conditions.is_empty() {
        let (Source::Scenario(name) | Source::Plan(name) | Source::Window(name)) = &unit.source;
        return Err(MeasureError::Missing(format!(
            "{}/{name} has no condition `{}`; it has {}",
            unit.paper,
            unit.condition,
            names.join(", ")
        )));
    }
    scenario.reference = None;
    scenario.other_starts = false;
    Ok(())
}

/// Removes the contenders that are not needed.
fn keep_contenders(scenario: &mut Scenario, wanted: &Wanted) -> Result<(), MeasureError> {
    let needs = |name: &str| {
        let single = name.starts_with("tcp@") && wanted.metrics.iter().any(|metric| is_relative(*metric));
        single || wanted.contenders.iter().any(|other| other == name)
    };
    let kept: Vec<bool> = scenario.contenders.iter().map(|contender| needs(&contender.name)).collect();
    if let Some(missing) = wanted
        .contenders
        .iter()
        .find(|name| !model::is_name(name) && !scenario.contenders.iter().any(|one| one.name == **name))
    {
        let names: Vec<&str> = scenario.contenders.iter().map(|one| one.name.as_str()).collect();
        return Err(MeasureError::Missing(format!(
            "{} has no contender `{missing}`; it has {}",
            scenario.name,
            names.join(", ")
        )));
    }
    let mut keep = kept.iter();
    scenario.contenders.retain(|_| *keep.next().unwrap_or(&false));
    for condition in &mut scenario.conditions {
        let mut keep = kept.iter();
        condition.configs.retain(|_| *keep.next().unwrap_or(&false));
    }
    Ok(())
}

/// Adds the measures of some runs of a scenario, which has this number.
fn simulate(
    (number, scenario): (usize, &Scenario),
    wanted: &Wanted,
    runs: &Range<usize>,
    threads: usize,
    cancelled: &AtomicBool,
    part: &mut RunsPart,
) -> Result<(), MeasureError> {
    let options = Options::new(threads, cancelled, &|_, _| ());
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let (prepared, jobs) = compare::planned(scenario, &options)?;
    let jobs: Vec<(usize, Job)> =
        jobs.into_iter().enumerate().filter(|(_, job)| runs.contains(&(job.run as usize))).collect();
    let observed = wanted.metrics.iter().any(|metric| metric.is_observed());
    let results = Mutex::new(vec![None; jobs.len()]);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((_, job)) = jobs.get(at) else { return };
            let result = run(scenario, &prepared[job.condition], job, wanted, observed, cancelled);
            if let Ok(mut results) = results.lock() {
                results[at] = Some(result.map_err(|error| error.to_string()));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    if cancelled.load(Ordering::Relaxed) {
        return Err(RunError::Cancelled.into());
    }
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    for ((at, job), result) in jobs.into_iter().zip(results) {
        let (values, taken) = match result {
            Some(Ok(numbers)) => numbers,
            Some(Err(error)) => return Err(MeasureError::Missing(error)),
            None => return Err(RunError::Cancelled.into()),
        };
        part.0.push(Numbers {
            scenario: number,
            job: at,
            contender: scenario.contenders[job.contender].name.clone(),
            bits: bits(values),
            taken: taken.into_iter().map(bits).collect(),
        });
    }
    Ok(())
}

fn bits(values: Vec<f64>) -> Vec<u64> {
    values.into_iter().map(f64::to_bits).collect()
}

/// The measures of a run, and the values taken from within it.
type OfRun = (Vec<f64>, Vec<Vec<f64>>);

/// Simulates one run.
fn run(
    scenario: &Scenario,
    prepared: &Prepared<'_>,
    job: &Job,
    wanted: &Wanted,
    observed: bool,
    cancelled: &AtomicBool,
) -> Result<OfRun, RunError> {
    let experiment = &scenario.conditions[job.condition].experiment;
    let bulk = experiment.traffic.size == FlowSize::Bulk;
    let download = experiment.traffic.direction == Direction::Download;
    let measured = |ran: &Ran<'_>| wanted.metrics.iter().map(|metric| value(*metric, ran)).collect();
    if !observed && wanted.takes.is_empty() {
        let result = prepared.run_job(job, &Options::new(1, cancelled, &|_, _| {}))?;
        return Ok((measured(&Ran { result: &result, watch: None, bulk, download }), Vec::new()));
    }
    let traffic = &experiment.traffic;
    let flows = traffic.flows + traffic.beside.iter().map(|beside| beside.flows).sum::<u32>();
    let watch = Watch::new(flows as usize, download);
    if wanted.takes.is_empty() {
        let (result, watch) = prepared.run_with(job, cancelled, watch)?;
        return Ok((measured(&Ran { result: &result, watch: Some(&watch), bulk, download }), Vec::new()));
    }
    let (result, taker) = prepared.run_with(job, cancelled, Taker::new(watch, &wanted.takes))?;
    let seconds = bulk.then(|| traffic.duration.as_secs_f64());
    let taken = (0..wanted.takes.len()).map(|number| taker.taken(number, &result, seconds)).collect();
    Ok((measured(&Ran { result: &result, watch: Some(&taker.watch), bulk, download }), taken))
}

/// True if a measure is relative to the plain TCPs on single paths.
fn is_relative(metric: Metric) -> bool {
    matches!(metric.quantity, Quantity::Benefit | Quantity::Degraded)
}

/// Replaces the goodput of relative measures by the value: CP's equation 9.
fn relate(wanted: &Wanted, values: &mut Values) -> Result<(), MeasureError> {
    let Some(any) = wanted.metrics.iter().copied().find(|metric| is_relative(*metric)) else { return Ok(()) };
    let single: Vec<Vec<f64>> = values
        .iter()
        .filter(|(name, _)| name.starts_with("tcp@"))
        .filter_map(|(_, own)| own.get(&any.to_string()).cloned())
        .collect();
    if single.len() < 2 {
        return Err(MeasureError::Missing(format!("`{any}` needs a contender `tcp@N` for each path")));
    }
    for metric in wanted.metrics.iter().copied().filter(|metric| is_relative(*metric)) {
        for own in values.values_mut() {
            let Some(goodputs) = own.get_mut(&metric.to_string()) else { continue };
            for (run, goodput) in goodputs.iter_mut().enumerate() {
                let paths = single.iter().map(|path| path[run]);
                let benefit = benefit(*goodput, paths);
                *goodput = match metric.quantity {
                    Quantity::Degraded => f64::from(benefit < -PRACTICALLY),
                    _ => benefit,
                };
            }
        }
    }
    Ok(())
}

/// Returns the benefit of equation 9 of the CP paper: 0 is the best single path, 1 the sum of all, -1 nothing.
fn benefit(goodput: f64, single: impl Iterator<Item = f64> + Clone) -> f64 {
    let best = single.clone().fold(0.0, f64::max);
    let sum: f64 = single.sum();
    if goodput >= best { (goodput - best) / (sum - best) } else { (goodput - best) / best }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benefit_is_0_for_the_best_path_1_for_the_sum_and_negative_below() {
        let of = |goodput| benefit(goodput, [8.0, 2.0].into_iter());
        assert_eq!([of(8.0), of(10.0), of(9.0), of(6.0), of(0.0)], [0.0, 1.0, 0.5, -0.25, -1.0]);
    }
}
