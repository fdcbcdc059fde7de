//! A comparison: every contender in every condition, with the same seeds.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use anabranch_sim::Performance;
use serde::Serialize;

use crate::capture::Captures;
use crate::report::{self, Row, verdict};
use crate::run::{Prepared, RunError, RunResult};
use crate::scenario::Scenario;

/// How a comparison is carried out; none of it changes the result.
pub struct Options<'a> {
    /// How many threads work on it; 0 is as many as there are cores.
    pub jobs: usize,
    /// Becomes true when it shall stop.
    pub cancelled: &'a AtomicBool,
    /// Is told after each run how many are done, of how many.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// Where the packets of the runs number 0 go, if they are wanted.
    pub captures: Option<&'a Captures>,
}

/// What a comparison has come to. Serialised, it is the object that `compare --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The version of this program.
    pub version: &'static str,
    /// [`Scenario::hash`].
    pub scenario_hash: String,
    /// The seed.
    pub seed: u64,
    /// How often each contender met each condition.
    pub runs: u32,
    /// The contender that the others are compared with.
    pub reference: Option<String>,
    /// Which scheduler serves this traffic best, in a sentence.
    pub verdict: String,
    /// One for each condition and contender.
    pub rows: Vec<Row>,
    /// What it cost.
    pub performance: Cost,
}

/// What a simulation cost. The first four are the same for the same seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Simulated time, in seconds, all runs together.
    pub simulated_s: f64,
    /// Time on the clock, in seconds.
    pub wall_s: f64,
    /// Packets crossing a link.
    pub packet_hops: u64,
    /// Segments with payload sent.
    pub data_packets: u64,
    /// Turns of the event loop.
    pub events: u64,
    /// The most memory that the process has had, in bytes; none where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
}

impl Cost {
    /// Adds a run.
    pub fn add(&mut self, performance: &Performance) {
        self.simulated_s += performance.simulated_s;
        self.packet_hops += performance.packet_hops;
        self.data_packets += performance.data_packets;
        self.events += performance.events;
    }
}

/// One run of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The position of the condition.
    pub condition: usize,
    /// The position of the contender.
    pub contender: usize,
    /// The number of the run, from 0.
    pub run: u32,
}

/// Simulates `jobs` on several threads; the results are in their order.
///
/// # Errors
/// The first in the order of the jobs; [`RunError::Cancelled`] if it was told to stop.
pub fn simulate(
    scenario: &Scenario,
    jobs: &[Job],
    options: &Options<'_>,
) -> Result<Vec<RunResult>, RunError> {
    let prepared = (0..scenario.conditions.len())
        .map(|condition| Prepared::new(scenario, condition))
        .collect::<Result<Vec<_>, _>>()?;
    let threads = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let (next, done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<Option<Result<RunResult, RunError>>>> = Mutex::new(vec![None; jobs.len()]);
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(place) else { return };
            if options.cancelled.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
                return;
            }
            let result = prepared[job.condition].run_job(job, options);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            if let Ok(mut results) = results.lock() {
                results[place] = Some(result);
            }
            (options.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut all = Vec::with_capacity(jobs.len());
    let mut missing = false;
    for result in results {
        match result {
            Some(result) => all.push(result?),
            None => missing = true,
        }
    }
    if missing || options.cancelled.load(Ordering::Relaxed) { Err(RunError::Cancelled) } else { Ok(all) }
}

/// Compares the contenders of a scenario.
///
/// # Errors
/// If a run cannot be made, or it was told to stop.
pub fn compare(scenario: &Scenario, options: &Options<'_>) -> Result<Comparison, RunError> {
    let mut jobs = Vec::new();
    for condition in 0..scenario.conditions.len() {
        for contender in 0..scenario.contenders.len() {
            jobs.extend((0..scenario.runs).map(|run| Job { condition, contender, run }));
        }
    }
    let results = simulate(scenario, &jobs, options)?;
    let mut performance = Cost::default();
    results.iter().for_each(|result| performance.add(&result.performance));
    let runs = scenario.runs as usize;
    let by_condition: Vec<Vec<&[RunResult]>> = results
        .chunks(runs * scenario.contenders.len())
        .map(|condition| condition.chunks(runs).collect())
        .collect();
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for (condition, results) in scenario.conditions.iter().zip(&by_condition) {
        rows.extend(report::rows(scenario, condition, results));
        findings.push(verdict::Finding::new(scenario, condition, results));
    }
    Ok(Comparison {
        version: env!("CARGO_PKG_VERSION"),
        scenario_hash: scenario.hash(),
        seed: scenario.seed,
        runs: scenario.runs,
        reference: scenario.reference.map(|position| scenario.contenders[position].name.clone()),
        verdict: verdict::sentence(&findings),
        rows,
        performance,
    })
}
