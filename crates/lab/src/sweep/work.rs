//! Simulates the points of a plan on several threads.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use anabranch_units::RandomStream;

use super::{Journal, JournalError, Plan, PointResult, Stop};
use crate::compare::{self, Comparison};
use crate::run::RunError;
use crate::scenario::ScenarioError;

/// The options of a sweep.
pub struct Options<'a> {
    /// The number of threads; 0 is one for each core. The results do not depend on it.
    pub jobs: usize,
    /// Set to stop the sweep; points in progress are discarded.
    pub cancelled: &'a AtomicBool,
    /// Receives after each point the number of points that are done, and of all points of this shard.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// The points that this process works on.
    pub shard: Shard,
}

/// One part of the points, of several that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its number, from 1.
    pub number: usize,
    /// The number of parts.
    pub of: usize,
}

impl Default for Shard {
    fn default() -> Shard {
        Shard { number: 1, of: 1 }
    }
}

impl Shard {
    /// True if it has point number `point`.
    pub fn has(self, point: usize) -> bool {
        point % self.of == self.number - 1
    }
}

/// The reason that a sweep did not complete.
#[derive(Debug)]
pub enum SweepError {
    /// The scenario is not valid at a point.
    Scenario(Box<ScenarioError>),
    /// A run of this point failed.
    Run(usize, Box<RunError>),
    /// The journal cannot be written.
    Journal(JournalError),
    /// It was cancelled; the completed points are in the journal.
    Cancelled,
}

impl core::fmt::Display for SweepError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SweepError::Scenario(error) => error.fmt(f),
            SweepError::Run(point, error) => write!(f, "point {point}: {error}"),
            SweepError::Journal(error) => error.fmt(f),
            SweepError::Cancelled => f.write_str("the sweep was stopped"),
        }
    }
}

impl std::error::Error for SweepError {}

impl From<JournalError> for SweepError {
    fn from(error: JournalError) -> SweepError {
        SweepError::Journal(error)
    }
}

/// Simulates the points of `plan` that `journal` lacks.
///
/// The scenarios of these points are read before the first is simulated, so that an error at any of them is
/// reported immediately.
///
/// # Errors
/// If a scenario is not valid, a run fails, the journal cannot be written, or the sweep was cancelled. All points that have
/// ended by then are in the journal.
pub fn sweep(plan: &Plan, journal: &mut Journal, options: &Options<'_>) -> Result<(), SweepError> {
    let mut open: Vec<usize> = (0..plan.points()).filter(|point| options.shard.has(*point)).collect();
    let total = open.len();
    open.retain(|point| !journal.has(*point));
    let before = total - open.len();
    for point in &open {
        if options.cancelled.load(Ordering::Relaxed) {
            return Err(SweepError::Cancelled);
        }
        plan.scenario(&plan.point(*point)).map_err(|error| SweepError::Scenario(Box::new(error)))?;
    }
    (options.progress)(before, total);
    // Adjacent points take a similar time. In a random order the first ones predict the remaining time.
    RandomStream::new(0, "sweep.order").shuffle(&mut open);
    let threads = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    // Each point has a thread; where there are fewer points than threads, its runs have several.
    let (workers, inner) = (threads.min(open.len().max(1)), threads.div_ceil(open.len().max(1)));
    let (next, done, stopped) = (AtomicUsize::new(0), AtomicUsize::new(before), AtomicBool::new(false));
    let shared = Mutex::new((journal, Ok(())));
    let fail = |error: SweepError| {
        stopped.store(true, Ordering::Relaxed);
        if let Ok(mut shared) = shared.lock()
            && shared.1.is_ok()
        {
            shared.1 = Err(error);
        }
    };
    let work = || {
        loop {
            if options.cancelled.load(Ordering::Relaxed) {
                return fail(SweepError::Cancelled);
            }
            let place = next.fetch_add(1, Ordering::Relaxed);
            let (false, Some(number)) = (stopped.load(Ordering::Relaxed), open.get(place)) else { return };
            let result = match simulate_point(plan, *number, inner, options.cancelled) {
                Ok(result) => result,
                Err(error) => return fail(error),
            };
            let written = match shared.lock() {
                Ok(mut shared) => shared.0.add(&result),
                Err(_) => return,
            };
            if let Err(error) = written {
                return fail(error.into());
            }
            (options.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).1
}

/// Simulates point number `number` of `plan` on `jobs` threads.
///
/// # Errors
/// If its scenario is not valid, a run fails, or it was cancelled.
///
/// # Panics
/// If there is no such point.
pub fn simulate_point(
    plan: &Plan,
    number: usize,
    jobs: usize,
    cancelled: &AtomicBool,
) -> Result<PointResult, SweepError> {
    let mut scenario =
        plan.scenario(&plan.point(number)).map_err(|error| SweepError::Scenario(Box::new(error)))?;
    loop {
        let options = crate::options::Options::new(jobs, cancelled, &|_, _| {});
        let comparison = compare::compare(&scenario, &options).map_err(|error| match error {
            RunError::Cancelled => SweepError::Cancelled,
            error => SweepError::Run(number, Box::new(error)),
        })?;
        match plan.stop() {
            Some(stop) if scenario.runs < stop.most_runs && !is_known(&comparison, stop) => {
                // The previous runs are repeated, as a comparison is a function of only its scenario.
                scenario.runs = scenario.runs.saturating_mul(2).min(stop.most_runs);
            }
            _ => return Ok(PointResult::new(number, &comparison)),
        }
    }
}

/// True if all differences from the reference have intervals that are narrow enough; without a reference, all means.
fn is_known(comparison: &Comparison, stop: Stop) -> bool {
    let narrow = |half: Option<f64>| half.is_some_and(|half| half <= stop.half_width_pct);
    comparison.rows.iter().all(|row| {
        if comparison.reference.as_ref() == Some(&row.scheduler) {
            return true;
        }
        match (row.vs_reference_pct, row.fct_s.mean) {
            (Some(difference), _) => narrow(difference.ci95.map(|interval| interval.half_width())),
            (None, Some(mean)) => narrow(row.fct_s.ci95.map(|interval| 100.0 * interval.half_width() / mean)),
            // No flow was delivered, or nothing is measured by time.
            (None, None) => match (row.goodput_bps, row.goodput_ci95_bps) {
                (Some(mean), Some(interval)) if mean > 0.0 => {
                    narrow(Some(100.0 * interval.half_width() / mean))
                }
                (Some(mean), None) if mean > 0.0 => false,
                _ => true,
            },
        }
    })
}
