//! Makes the runs: those in real time one after another or a few at once, and then those in virtual time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anabranch_lab::run::RunError;
use sha2::{Digest, Sha256};

use crate::compare::{self, Row};
use crate::measure::{Kind, Measured, Quality};
use crate::one_run::one_run;
use crate::pcap::{self, Captures};
use crate::points::Point;
use crate::results::{Record, Results, Trouble};
use crate::simulated;

/// The plan of a campaign.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The points, in the order of the measurements.
    pub points: Vec<Point>,
    /// The number of reliable runs of each kind at every point.
    pub runs: u32,
    /// The number of attempts for each run until it is reliable.
    pub attempts: u32,
    /// The number of simultaneous runs.
    pub jobs: usize,
    /// The time after which no run begins.
    pub until: Option<Instant>,
    /// The value of [`Record::build`].
    pub build: String,
    /// The destination of captures, if requested.
    pub captures: Option<Captures>,
}

/// A plan and its results.
#[derive(Debug)]
pub struct Campaign {
    plan: Plan,
    results: Mutex<Results>,
    /// By point, then by run.
    simulated: Vec<Vec<Measured>>,
}

/// A pending run.
#[derive(Clone, Copy, Debug)]
struct Task {
    point: usize,
    kind: Kind,
    run: u32,
    attempts: u32,
}

/// The numbers of runs of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The point's name.
    pub point: String,
    /// The kind of the runs.
    pub kind: Kind,
    /// Reliable runs.
    pub reliable: usize,
    /// Unreliable runs.
    pub unreliable: usize,
    /// Reliable runs that were not delivered in time.
    pub missed: usize,
    /// Connections of the kernel that fell back to TCP in reliable runs.
    pub fallbacks: u64,
    /// Unreliable runs that failed, other than by lateness.
    pub failed: usize,
    /// The reason that the last unreliable run is unreliable.
    pub objection: Option<String>,
}

/// Returns a text that identifies this build of the program.
pub fn build_id() -> String {
    let bytes = std::fs::read("/proc/self/exe").unwrap_or_default();
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Campaign {
    /// Returns a campaign that continues from `results`.
    pub fn new(plan: Plan, results: Results) -> Campaign {
        Campaign { plan, results: Mutex::new(results), simulated: Vec::new() }
    }

    /// Makes the missing runs in real time, until there are enough, the time is over, or no attempts are
    /// left. `progress` receives the number of completed runs, and the total.
    ///
    /// # Errors
    /// If it was cancelled, or nothing can be measured. Existing measurements are kept.
    pub fn measure(
        &self,
        cancelled: &AtomicBool,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<(), Trouble> {
        let tasks = self.missing();
        let total = tasks.len();
        let (tasks, done) = (Mutex::new(tasks), AtomicUsize::new(0));
        let trouble = Mutex::new(None);
        let halt = AtomicBool::new(false);
        let work = || {
            while !cancelled.load(Ordering::Relaxed) && !halt.load(Ordering::Relaxed) {
                if self.plan.until.is_some_and(|until| Instant::now() > until) {
                    return;
                }
                let Some(task) = lock(&tasks).pop_front() else { return };
                match self.attempt(task, cancelled) {
                    Ok(true) => progress(done.fetch_add(1, Ordering::Relaxed) + 1, total),
                    Ok(false) if task.attempts > 1 => {
                        // After the others of its round, when the machine may be less busy.
                        let mut tasks = lock(&tasks);
                        let next = tasks.iter().position(|other| other.run > task.run).unwrap_or(tasks.len());
                        tasks.insert(next, Task { attempts: task.attempts - 1, ..task });
                    }
                    Ok(false) => progress(done.fetch_add(1, Ordering::Relaxed) + 1, total),
                    Err(error) => {
                        halt.store(true, Ordering::Relaxed);
                        lock(&trouble).get_or_insert(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.plan.jobs.min(total) {
                scope.spawn(work);
            }
            work();
        });
        if cancelled.load(Ordering::Relaxed) {
            return Err(Trouble::Interrupted);
        }
        trouble.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Returns the missing runs, round by round, so that an early end leaves equal numbers of each.
    fn missing(&self) -> VecDeque<Task> {
        let results = lock(&self.results);
        let mut tasks = VecDeque::new();
        for run in 0..self.plan.runs {
            for (point, own) in self.plan.points.iter().enumerate() {
                for kind in [Kind::Emulated, Kind::Kernel] {
                    let key = own.key(kind);
                    if results.reliable(&key, kind, run).is_some() {
                        continue;
                    }
                    let tried = results.of(&key, kind).filter(|record| record.run == run).count() as u32;
                    let attempts = self.plan.attempts.saturating_sub(tried);
                    if attempts > 0 {
                        tasks.push_back(Task { point, kind, run, attempts });
                    }
                }
            }
        }
        tasks
    }

    /// Makes the run of `task`; returns whether it is reliable.
    fn attempt(&self, task: Task, cancelled: &AtomicBool) -> Result<bool, Trouble> {
        let point = &self.plan.points[task.point];
        let captures = self.plan.captures.as_ref();
        let file = match captures {
            Some(captures) => captures.open(point, task.kind, task.run)?,
            None => None,
        };
        let tap = match captures.zip(file.as_ref()) {
            Some((captures, file)) => Some(captures.tap(point, file)?),
            None => None,
        };
        let made = one_run(point, task.kind, task.run, cancelled, tap);
        if made.is_ok() {
            file.map_or(Ok(()), pcap::commit)?;
        }
        let (measured, quality, objection, failed) = match made {
            Ok((measured, quality)) => {
                let objection = quality.objection(point.shortest_rtt());
                (measured, quality, objection, false)
            }
            // One failed run among many must not lose the others.
            Err(Trouble::Failed(text)) => (Measured::default(), Quality::default(), Some(text), true),
            Err(other) => return Err(other),
        };
        let reliable = objection.is_none();
        lock(&self.results).add(Record {
            point: point.name.clone(),
            key: point.key(task.kind),
            kind: task.kind,
            run: task.run,
            build: self.plan.build.clone(),
            objection,
            failed,
            quality,
            measured,
        })?;
        Ok(reliable)
    }

    /// Simulates the runs that were measured in real time.
    ///
    /// # Errors
    /// If a point cannot be simulated, or it was cancelled.
    pub fn simulate(&mut self, cancelled: &AtomicBool) -> Result<(), Trouble> {
        for point in &self.plan.points {
            let one = |run| -> Result<Measured, Trouble> {
                let captures = self.plan.captures.as_ref();
                let file = match captures {
                    Some(captures) => captures.open(point, Kind::Simulated, run)?,
                    None => None,
                };
                let capture = captures.map(|captures| captures.settings).zip(file.as_ref());
                let measured =
                    simulated::run(point, run, cancelled, capture).map_err(|error| match error {
                        RunError::Cancelled => Trouble::Interrupted,
                        RunError::Capture(text) => Trouble::Broken(text),
                        other => Trouble::Usage(format!("{}: {other}", point.name)),
                    })?;
                file.map_or(Ok(()), pcap::commit)?;
                Ok(measured)
            };
            self.simulated.push((0..self.plan.runs).map(one).collect::<Result<_, _>>()?);
        }
        Ok(())
    }

    /// Returns the comparisons of all points.
    pub fn rows(&self) -> Vec<Row> {
        let results = lock(&self.results);
        let mut rows = Vec::new();
        for (at, point) in self.plan.points.iter().enumerate() {
            let keys = [Kind::Emulated, Kind::Kernel].map(|kind| point.key(kind));
            let measured = |kind, run| match kind {
                Kind::Simulated => self.simulated.get(at)?.get(run as usize),
                Kind::Emulated => results.reliable(&keys[0], kind, run),
                Kind::Kernel => results.reliable(&keys[1], kind, run),
            };
            rows.extend(compare::rows(point, self.plan.runs, &measured));
        }
        rows
    }

    /// Returns the numbers of runs of each point.
    pub fn tallies(&self) -> Vec<Tally> {
        let results = lock(&self.results);
        let mut tallies = Vec::new();
        for point in &self.plan.points {
            for kind in [Kind::Emulated, Kind::Kernel] {
                let key = point.key(kind);
                let mut tally = Tally {
                    point: point.name.clone(),
                    kind,
                    reliable: 0,
                    unreliable: 0,
                    missed: 0,
                    fallbacks: 0,
                    failed: 0,
                    objection: None,
                };
                for record in results.of(&key, kind) {
                    match &record.objection {
                        Some(objection) => {
                            tally.unreliable += 1;
                            tally.failed += usize::from(record.failed);
                            tally.objection = Some(objection.clone());
                        }
                        None => {
                            tally.reliable += 1;
                            tally.missed += usize::from(record.measured.time_s.is_none());
                            tally.fallbacks += record.measured.fallbacks;
                        }
                    }
                }
                tallies.push(tally);
            }
        }
        tallies
    }

    /// Returns the reason that there is no result at all of one kind, if every run of it has failed; lateness
    /// of the machine cannot be the cause of that.
    pub fn failure(&self) -> Option<String> {
        let results = lock(&self.results);
        [Kind::Emulated, Kind::Kernel].into_iter().find_map(|kind| {
            let of = || results.records().iter().filter(|record| record.kind == kind);
            let last = of().next_back().filter(|_| of().all(|record| record.failed))?;
            let cause = last.objection.as_deref().unwrap_or("for an unknown reason");
            Some(format!("every run of kind `{}` has failed, the last one: {cause}", kind.name()))
        })
    }

    /// Returns the points and the number of runs that are planned.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the measurements in real time.
    pub fn into_results(self) -> Results {
        self.results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the simulated measurements: by point, then by run.
    pub fn simulated(&self) -> &[Vec<Measured>] {
        &self.simulated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn plan(points: usize, runs: u32, attempts: u32) -> Plan {
        let points =
            crate::grid::grid(crate::grid::Which::Chosen).unwrap().into_iter().take(points).collect();
        Plan { points, runs, attempts, jobs: 1, until: None, build: "b".into(), captures: None }
    }

    fn record(point: &Point, kind: Kind, run: u32, time: f64, objection: Option<&str>) -> Record {
        Record {
            point: point.name.clone(),
            key: point.key(kind),
            kind,
            run,
            build: "b".into(),
            objection: objection.map(str::to_owned),
            failed: false,
            quality: Quality::default(),
            measured: Measured { time_s: Some(time), ..Measured::default() },
        }
    }

    #[test]
    fn what_is_there_is_not_made_again_and_what_was_unreliable_not_for_ever() {
        let plan = plan(2, 2, 2);
        let mut results = Results::in_memory(Machine::here());
        let (first, second) = (&plan.points[0], &plan.points[1]);
        results.add(record(first, Kind::Kernel, 0, 1.0, None)).unwrap();
        results.add(record(first, Kind::Emulated, 0, 1.0, Some("late"))).unwrap();
        for _ in 0..2 {
            results.add(record(second, Kind::Kernel, 1, 1.0, Some("late"))).unwrap();
        }
        let campaign = Campaign::new(plan.clone(), results);
        let tasks = campaign.missing();
        let seen: Vec<_> =
            tasks.iter().map(|task| (task.run, task.point, task.kind, task.attempts)).collect();
        assert_eq!(
            seen,
            [
                (0, 0, Kind::Emulated, 1),
                (0, 1, Kind::Emulated, 2),
                (0, 1, Kind::Kernel, 2),
                (1, 0, Kind::Emulated, 2),
                (1, 0, Kind::Kernel, 2),
                (1, 1, Kind::Emulated, 2),
            ]
        );
        let tally = &campaign.tallies()[3];
        assert_eq!((tally.reliable, tally.unreliable, tally.objection.as_deref()), (0, 2, Some("late")));
    }

    #[test]
    fn only_runs_that_have_all_failed_are_a_failure() {
        let plan = plan(1, 2, 1);
        let point = plan.points[0].clone();
        let of = |failed: [bool; 2]| {
            let mut results = Results::in_memory(Machine::here());
            results.add(record(&point, Kind::Emulated, 0, 1.0, None)).unwrap();
            for (run, failed) in failed.into_iter().enumerate() {
                let late = record(&point, Kind::Kernel, run as u32, 1.0, Some("no such device"));
                results.add(Record { failed, ..late }).unwrap();
            }
            Campaign::new(plan.clone(), results).failure()
        };
        assert_eq!((of([false, false]), of([true, false])), (None, None));
        let failure = of([true, true]).unwrap();
        assert!(failure.contains("`kernel`") && failure.contains("no such device"), "{failure}");
    }

    #[test]
    fn unreliable_runs_are_in_no_comparison() {
        let plan = plan(1, 5, 1);
        let mut results = Results::in_memory(Machine::here());
        for run in 0..5 {
            results.add(record(&plan.points[0], Kind::Emulated, run, 1.0, None)).unwrap();
            results.add(record(&plan.points[0], Kind::Kernel, run, 9.0, Some("late"))).unwrap();
        }
        for run in 0..5 {
            results.add(record(&plan.points[0], Kind::Kernel, run, 2.0, None)).unwrap();
        }
        let rows = Campaign::new(plan, results).rows();
        let row = rows.iter().find(|row| row.metric == crate::Metric::CompletionTime).unwrap();
        assert_eq!((row.kind, row.reference, row.difference.pairs), (Kind::Emulated, Kind::Kernel, 5));
        assert!((row.difference.percent + 50.0).abs() < 1e-9);
    }
}
