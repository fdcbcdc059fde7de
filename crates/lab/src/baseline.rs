//! Measures on which path a plain TCP performs best.
//!
//! Every path is measured in *selection runs*. They have other seeds than the comparison, so that the
//! choice is independent of the runs in which it is used. All paths have the same selection runs. After 4, 8
//! and 16 of them a path is eliminated if it is clearly worse than the best, or practically equal to it; the
//! others continue, up to the number of runs of the comparison, at most 30.
//!
//! With several classes of traffic each has the path on which its own flows performed best: a host that sends each class
//! over its best path needs no Multipath TCP either. The main class decides which paths are eliminated. The
//! paths of the other classes are chosen by the runs that all paths have.

use serde::{Deserialize, Serialize};

use crate::report::measured;
use crate::report::measured::{Measure, Measured};
use crate::run::{Class, FlowResult, RunResult};
use crate::scenario::Experiment;
use crate::stats;

/// Numbers of selection runs after which paths may be eliminated, and by how many standard errors they must
/// be worse. With few runs the standard error itself is uncertain.
const STAGES: [(u32, f64); 3] = [(4, 5.0), (8, 4.0), (16, 3.5)];
/// The largest number of selection runs of a path.
const MOST_RUNS: u32 = 30;
const FEWEST_RUNS: u32 = 4;

/// The results of a plain TCP that uses only this path, in the selection runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SinglePath {
    /// The path that the plain TCP uses.
    pub path: String,
    /// True if `tcp` uses this path.
    pub chosen: bool,
    /// The number of its selection runs.
    pub runs: u32,
    /// The number of flows; of requests and bursts, the number of these.
    pub n: usize,
    /// The number of these that were delivered. (Bulk: not aborted.)
    pub completed: usize,
    /// The mean of their times; one that was not delivered counts with the time its flow had. None for bulk.
    pub mean_s: Option<f64>,
    /// The mean goodput of a flow, in bit/s.
    pub goodput_bps: Option<f64>,
}

/// The result of the selection runs of one path.
#[derive(Clone, Debug, Default)]
struct Candidate {
    /// The cost of each run, less being better: the sum of the times of all flows, or of their negative goodputs. With
    /// classes of traffic it is the mean over the parts of the main class.
    costs: Vec<f64>,
    flows: usize,
    /// The number of parts of the flows, such as requests; a transfer is one part.
    parts: usize,
    /// The number of parts that were delivered.
    completed: usize,
    time_s: f64,
    goodput_bps: f64,
    given_up: bool,
    /// The cost of each run for each class of traffic.
    of_classes: Vec<Vec<f64>>,
}

impl Candidate {
    fn mean(&self, runs: usize) -> f64 {
        stats::mean(&self.costs[..runs]).unwrap_or(f64::INFINITY)
    }
}

/// The choice of a path for one contender in one condition.
#[derive(Clone, Debug)]
pub struct Race {
    bulk: bool,
    /// The position of the class of traffic by which paths are judged, and its measure.
    main: Option<(usize, Measure)>,
    /// The measure of each class.
    classes: Vec<Measure>,
    min_effect: f64,
    most: u32,
    done: u32,
    candidates: Vec<Candidate>,
}

impl Race {
    /// Returns a race of `paths` paths for a comparison of `runs` runs, in which paths that differ by less
    /// than `min_effect` count as equal.
    pub fn new(paths: usize, bulk: bool, min_effect: f64, runs: u32) -> Race {
        let most = runs.clamp(FEWEST_RUNS, MOST_RUNS);
        let candidates = vec![Candidate::default(); paths];
        Race { bulk, main: None, classes: Vec::new(), min_effect, most, done: 0, candidates }
    }

    /// Returns a race that is judged by the main class of `experiment`'s traffic, if it has classes.
    pub(crate) fn judged_by_main(self, experiment: &Experiment) -> Race {
        let classes = &experiment.classes;
        let main = crate::scenario::main_class(classes);
        let main = main.map(|group| (group, measured::measures(&classes[group].kind)[0]));
        let bulk = main.map_or(self.bulk, |(_, measure)| measure == Measure::Goodput);
        let classes = classes.iter().map(|class| measured::measures(&class.kind)[0]).collect();
        Race { bulk, main, classes, ..self }
    }

    /// Returns the next selection runs, and the positions of the participating paths; none if the choice is
    /// made.
    pub fn next(&self) -> Option<(core::ops::Range<u32>, Vec<usize>)> {
        let running: Vec<usize> =
            (0..self.candidates.len()).filter(|path| !self.candidates[*path].given_up).collect();
        if running.len() < 2 && self.done > 0 || self.done >= self.most || self.candidates.len() < 2 {
            return None;
        }
        let stage = STAGES.iter().map(|(runs, _)| *runs).find(|runs| *runs > self.done);
        Some((self.done..stage.unwrap_or(self.most).min(self.most), running))
    }

    /// Adds a run of `path`; the runs of a path must be added in order.
    pub fn add(&mut self, path: usize, result: &RunResult) {
        let candidate = &mut self.candidates[path];
        candidate.of_classes.resize(self.classes.len(), Vec::new());
        for (group, (measure, costs)) in self.classes.iter().zip(&mut candidate.of_classes).enumerate() {
            let flows = result.flows.iter().filter(|flow| flow.group == group);
            let sign = if measure.is_gain() { -1.0 } else { 1.0 };
            let (mut sum, mut count) = (0.0, 0);
            for part in flows.flat_map(|flow| parts(flow, *measure)) {
                sum += sign * part.value.unwrap_or_default() * part.parts as f64;
                count += part.parts;
            }
            costs.push(if count > 0 { sum / count as f64 } else { f64::INFINITY });
        }
        if let Some((group, measure)) = self.main {
            for flow in result.flows.iter().filter(|flow| flow.group == group) {
                candidate.flows += 1;
                candidate.goodput_bps += flow.goodput().as_bps_f64();
                for part in parts(flow, measure) {
                    candidate.parts += part.parts;
                    candidate.time_s += part.value.unwrap_or_default() * part.parts as f64;
                    candidate.completed += if part.complete { part.parts } else { 0 };
                }
            }
            candidate.costs.push(candidate.of_classes[group].last().copied().unwrap_or(f64::INFINITY));
            return;
        }
        let mut cost = 0.0;
        for flow in result.flows.iter().filter(|flow| flow.class == Class::Contender) {
            let (time, goodput) = (flow.time.as_secs_f64(), flow.goodput().as_bps_f64());
            cost += if self.bulk { -goodput } else { time };
            candidate.time_s += time;
            candidate.goodput_bps += goodput;
            candidate.flows += 1;
            candidate.parts += 1;
            candidate.completed += usize::from(flow.is_complete(self.bulk));
        }
        candidate.costs.push(cost);
    }

    /// Ends a stage: eliminates paths that are clearly worse than the best one, or equal to it.
    pub fn judge(&mut self) {
        let best = self.chosen();
        let runs = self.candidates[best].costs.len();
        self.done = runs as u32;
        let errors = STAGES.iter().rfind(|(least, _)| *least <= self.done).map_or(5.0, |(_, errors)| *errors);
        let reference = self.candidates[best].costs.clone();
        let negligible = self.min_effect * self.candidates[best].mean(runs).abs();
        for (path, candidate) in self.candidates.iter_mut().enumerate() {
            if path == best || candidate.given_up {
                continue;
            }
            let differences: Vec<f64> = candidate.costs.iter().zip(&reference).map(|(a, b)| a - b).collect();
            let mean = stats::mean(&differences).unwrap_or(0.0);
            let squares: f64 = differences.iter().map(|d| (d - mean) * (d - mean)).sum();
            let n = differences.len() as f64;
            let error = (squares / (n * (n - 1.0).max(1.0))).sqrt();
            candidate.given_up = mean > errors * error || mean + errors * error < negligible;
        }
    }

    /// Returns the best path so far: the first with the least mean cost among those with all runs.
    pub fn chosen(&self) -> usize {
        let runs = self.candidates.iter().map(|candidate| candidate.costs.len()).max().unwrap_or(0);
        let running = (0..self.candidates.len()).filter(|path| self.candidates[*path].costs.len() == runs);
        running
            .filter(|path| !self.candidates[*path].given_up || self.candidates.len() == 1)
            .min_by(|a, b| self.candidates[*a].mean(runs).total_cmp(&self.candidates[*b].mean(runs)))
            .unwrap_or(0)
    }

    /// Returns the best path for each class of traffic, by the runs that all paths have. The main class has
    /// the path [`Race::chosen`].
    pub(crate) fn chosen_by_class(&self) -> Vec<usize> {
        let common = self.candidates.iter().map(|candidate| candidate.costs.len()).min().unwrap_or(0);
        let of_class = |group: usize| {
            if common == 0 || self.main.is_some_and(|(main, _)| main == group) {
                return self.chosen();
            }
            let mean = |path: &usize| {
                let costs = self.candidates[*path].of_classes.get(group);
                costs.and_then(|costs| stats::mean(&costs[..common])).unwrap_or(f64::INFINITY)
            };
            // If this path is practically equal to the path of the main class, the latter.
            let best = (0..self.candidates.len()).min_by(|a, b| mean(a).total_cmp(&mean(b)));
            let best = best.unwrap_or_else(|| self.chosen());
            let gain = mean(&self.chosen()) - mean(&best);
            if gain > self.min_effect * mean(&best).abs() { best } else { self.chosen() }
        };
        (0..self.classes.len()).map(of_class).collect()
    }

    /// Returns the results of all paths, with their `names`.
    pub fn results<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<SinglePath> {
        let chosen = self.chosen();
        let result = |(path, (candidate, name)): (usize, (&Candidate, &str))| {
            let per = |sum: f64, count: usize| (count > 0).then(|| sum / count as f64);
            SinglePath {
                path: name.to_owned(),
                chosen: path == chosen,
                runs: candidate.costs.len() as u32,
                n: candidate.parts,
                completed: candidate.completed,
                mean_s: per(candidate.time_s, candidate.parts).filter(|_| !self.bulk),
                goodput_bps: per(candidate.goodput_bps, candidate.flows),
            }
        };
        self.candidates.iter().zip(names).enumerate().map(result).collect()
    }
}

/// Returns the values of the parts of a flow. One that did not end has the time that its flow had.
fn parts(flow: &FlowResult, measure: Measure) -> Vec<Measured> {
    let mut parts = measured::of_flow(flow, measure);
    let time = flow.time.as_secs_f64();
    parts.iter_mut().for_each(|part| part.value = part.value.or(Some(time)));
    parts
}

#[cfg(test)]
#[path = "baseline_tests.rs"]
mod rules;
#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a race over `paths` paths with the costs `cost(path, n)` in run n; returns the choice, and the
    /// number of runs of each path.
    fn race(paths: usize, runs: u32, cost: impl Fn(usize, u32) -> f64) -> (usize, Vec<usize>) {
        let mut race = Race::new(paths, false, 0.01, runs);
        while let Some((range, running)) = race.next() {
            for path in running {
                for run in range.clone() {
                    race.candidates[path].costs.push(cost(path, run));
                }
            }
            race.judge();
        }
        (race.chosen(), race.candidates.iter().map(|candidate| candidate.costs.len()).collect())
    }

    #[test]
    fn clearly_worse_paths_are_given_up_after_few_runs() {
        let cost = |path: usize, run: u32| [30.0, 10.0, 50.0][path] + f64::from(run % 3);
        assert_eq!(race(3, 30, cost), (1, vec![4, 4, 4]));
    }

    #[test]
    fn equal_paths_are_a_tie_that_the_first_wins() {
        assert_eq!(race(4, 30, |_, run| 10.0 + f64::from(run)), (0, vec![4; 4]));
    }

    #[test]
    fn close_paths_run_as_often_as_the_comparison() {
        // 5 % apart, and each run 50 % up or down.
        let cost = |path: usize, run: u32| {
            [10.5, 10.0][path] + if (run + path as u32).is_multiple_of(2) { 5.0 } else { -5.0 }
        };
        assert_eq!(race(2, 30, cost), (1, vec![30, 30]));
        assert_eq!(race(2, 6, cost), (1, vec![6, 6]));
        assert_eq!(race(2, 1, cost), (1, vec![4, 4]));
        assert_eq!(race(2, 1000, cost), (1, vec![30, 30]));
    }

    #[test]
    fn one_path_needs_no_race() {
        assert_eq!(race(1, 30, |_, _| 1.0), (0, vec![0]));
    }
}
