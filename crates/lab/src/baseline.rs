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
//!
//! A transfer that was not delivered costs the time until its deadline, on every path. So where no flow was delivered on
//! any path, the bytes that were delivered decide.

use serde::{Deserialize, Serialize};

use crate::report::measured;
use crate::report::measured::{Measure, Measured};
use crate::run::{Class, FlowResult, RunResult};
use crate::scenario::{Experiment, TrafficClass};
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
    /// The mean of their times; one that was not delivered counts with the time until its deadline. None for bulk.
    pub mean_s: Option<f64>,
    /// The mean goodput of a flow, in bit/s; one that failed counts with the same time as one that ran until the end.
    pub goodput_bps: Option<f64>,
}

/// The costs of a path in its selection runs: of all flows, or of a class of traffic.
#[derive(Clone, Debug, Default)]
struct Costs {
    /// The cost of each run, less being better: the sum of the times of all flows, or of their negative goodputs. Of a class
    /// it is the mean over its parts.
    of_runs: Vec<f64>,
    /// The bytes that each run delivered, negative: the more, the better.
    bytes: Vec<f64>,
    /// The number of parts of the flows, such as requests; a transfer is one part.
    parts: usize,
    /// The number of parts that were delivered.
    completed: usize,
}

impl Costs {
    /// Adds a run of `flows`, of which an undelivered one counts with at least the time `full_s`. The cost is a sum over the
    /// parts, or a `mean`.
    fn add(&mut self, flows: &[&FlowResult], measure: Measure, full_s: f64, mean: bool) {
        let sign = if measure.is_gain() { -1.0 } else { 1.0 };
        let (mut sum, mut count) = (0.0, 0);
        for part in flows.iter().flat_map(|flow| parts(flow, measure, full_s)) {
            sum += sign * part.value.unwrap_or_default() * part.parts as f64;
            count += part.parts;
            self.completed += if part.complete { part.parts } else { 0 };
        }
        self.parts += count;
        self.of_runs.push(match mean {
            true if count > 0 => sum / count as f64,
            true => f64::INFINITY,
            false => sum,
        });
        self.bytes.push(-flows.iter().map(|flow| flow.report.delivered as f64).sum::<f64>());
    }

    /// True if nothing was delivered completely, although there were flows.
    fn is_without_end(&self) -> bool {
        self.completed == 0 && self.parts > 0
    }

    /// Returns the values by which paths are compared: the costs of the runs, or with `by_bytes` what they delivered.
    fn values(&self, by_bytes: bool) -> &[f64] {
        if by_bytes { &self.bytes } else { &self.of_runs }
    }
}

/// The result of the selection runs of one path.
#[derive(Clone, Debug, Default)]
struct Candidate {
    /// With classes of traffic, of the main class.
    costs: Costs,
    flows: usize,
    time_s: f64,
    goodput_bps: f64,
    given_up: bool,
    /// Of each class of traffic.
    of_classes: Vec<Costs>,
}

impl Candidate {
    fn runs(&self) -> usize {
        self.costs.of_runs.len()
    }

    fn mean(&self, runs: usize, by_bytes: bool) -> f64 {
        stats::mean(&self.costs.values(by_bytes)[..runs]).unwrap_or(f64::INFINITY)
    }
}

/// The choice of a path for one contender in one condition.
#[derive(Clone, Debug)]
pub struct Race {
    bulk: bool,
    /// The least time with which an undelivered flow counts, in seconds.
    full_s: f64,
    /// The position of the class of traffic by which paths are judged.
    main: Option<usize>,
    /// The measure of each class, and the least time of an undelivered flow.
    classes: Vec<(Measure, f64)>,
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
        Race { bulk, full_s: 0.0, main: None, classes: Vec::new(), min_effect, most, done: 0, candidates }
    }

    /// Returns a race in which an undelivered flow of `experiment` counts with the whole time until its deadline, for bulk with
    /// its duration, even if it failed before.
    pub(crate) fn with_deadline(self, experiment: &Experiment) -> Race {
        let full = if self.bulk { experiment.traffic.duration } else { experiment.deadline };
        Race { full_s: full.as_secs_f64(), ..self }
    }

    /// Returns a race that is judged by the main class of `experiment`'s traffic, if it has classes.
    pub(crate) fn judged_by_main(self, experiment: &Experiment) -> Race {
        let of = |class: &TrafficClass| {
            let full = if class.kind.is_bulk() { class.kind.span() } else { experiment.deadline };
            (measured::measures(&class.kind)[0], full.as_secs_f64())
        };
        let classes: Vec<(Measure, f64)> = experiment.classes.iter().map(of).collect();
        let main = crate::scenario::main_class(&experiment.classes);
        let bulk = main.map_or(self.bulk, |main| classes[main].0 == Measure::Goodput);
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
        let own = match self.bulk {
            true => Measure::Goodput,
            false => Measure::MeanTime,
        };
        let (measure, full_s) = self.main.map_or((own, self.full_s), |main| self.classes[main]);
        let candidate = &mut self.candidates[path];
        candidate.of_classes.resize(self.classes.len(), Costs::default());
        for (group, ((measure, full_s), costs)) in
            self.classes.iter().zip(&mut candidate.of_classes).enumerate()
        {
            let flows: Vec<&FlowResult> = result.flows.iter().filter(|flow| flow.group == group).collect();
            costs.add(&flows, *measure, *full_s, true);
        }
        let is_own = |flow: &&FlowResult| match self.main {
            Some(main) => flow.group == main,
            None => flow.class == Class::Contender,
        };
        let flows: Vec<&FlowResult> = result.flows.iter().filter(is_own).collect();
        candidate.costs.add(&flows, measure, full_s, self.main.is_some());
        for flow in flows {
            candidate.flows += 1;
            candidate.goodput_bps += goodput_bps(flow, full_s);
            let times = parts(flow, measure, full_s).into_iter();
            candidate.time_s +=
                times.map(|part| part.value.unwrap_or_default() * part.parts as f64).sum::<f64>();
        }
    }

    /// Ends a stage: eliminates paths that are clearly worse than the best one, or equal to it.
    pub fn judge(&mut self) {
        let (best, by_bytes) = self.leader();
        let runs = self.candidates[best].runs();
        self.done = runs as u32;
        let errors = STAGES.iter().rfind(|(least, _)| *least <= self.done).map_or(5.0, |(_, errors)| *errors);
        let reference = self.candidates[best].costs.values(by_bytes).to_vec();
        let negligible = self.min_effect * self.candidates[best].mean(runs, by_bytes).abs();
        for (path, candidate) in self.candidates.iter_mut().enumerate() {
            if path == best || candidate.given_up {
                continue;
            }
            let own = candidate.costs.values(by_bytes).iter();
            let differences: Vec<f64> = own.zip(&reference).map(|(a, b)| a - b).collect();
            let mean = stats::mean(&differences).unwrap_or(0.0);
            let squares: f64 = differences.iter().map(|d| (d - mean) * (d - mean)).sum();
            let n = differences.len() as f64;
            let error = (squares / (n * (n - 1.0).max(1.0))).sqrt();
            candidate.given_up = mean > errors * error || mean + errors * error < negligible;
        }
    }

    /// Returns the best path so far: the first with the least mean cost among those with all runs. If none of them has
    /// delivered a flow, the one that delivered most.
    pub fn chosen(&self) -> usize {
        self.leader().0
    }

    /// Returns the best path so far, and whether it is the best by the bytes that it delivered.
    fn leader(&self) -> (usize, bool) {
        let runs = self.candidates.iter().map(Candidate::runs).max().unwrap_or(0);
        let is_running = |candidate: &Candidate| {
            candidate.runs() == runs && (!candidate.given_up || self.candidates.len() == 1)
        };
        let running = || (0..self.candidates.len()).filter(|path| is_running(&self.candidates[*path]));
        let by_bytes = running().all(|path| self.candidates[path].costs.is_without_end());
        let mean = |path: usize| self.candidates[path].mean(runs, by_bytes);
        (running().min_by(|a, b| mean(*a).total_cmp(&mean(*b))).unwrap_or(0), by_bytes)
    }

    /// Returns the best path for each class of traffic, by the runs that all paths have. The main class has
    /// the path [`Race::chosen`].
    pub(crate) fn chosen_by_class(&self) -> Vec<usize> {
        let common = self.candidates.iter().map(Candidate::runs).min().unwrap_or(0);
        let of_class = |group: usize| {
            if common == 0 || self.main == Some(group) {
                return self.chosen();
            }
            let costs = |path: usize| self.candidates[path].of_classes.get(group);
            let mut all = (0..self.candidates.len()).filter_map(costs);
            let by_bytes = all.all(Costs::is_without_end);
            let mean = |path: &usize| {
                let values = costs(*path).map(|costs| &costs.values(by_bytes)[..common]);
                values.and_then(stats::mean).unwrap_or(f64::INFINITY)
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
                runs: candidate.runs() as u32,
                n: candidate.costs.parts,
                completed: candidate.costs.completed,
                mean_s: per(candidate.time_s, candidate.costs.parts).filter(|_| !self.bulk),
                goodput_bps: per(candidate.goodput_bps, candidate.flows),
            }
        };
        self.candidates.iter().zip(names).enumerate().map(result).collect()
    }
}

/// Returns the values of the parts of a flow. One that did not end has the time that its flow had, at least `full_s`.
fn parts(flow: &FlowResult, measure: Measure, full_s: f64) -> Vec<Measured> {
    let mut parts = measured::of_flow(flow, measure);
    if measure == Measure::Goodput {
        parts.iter_mut().for_each(|part| part.value = Some(goodput_bps(flow, full_s)));
        return parts;
    }
    let time = flow.time.as_secs_f64().max(full_s);
    parts.iter_mut().for_each(|part| part.value = part.value.or(Some(time)));
    parts
}

/// Returns the goodput of a flow. One that failed had at least the time `full_s`.
fn goodput_bps(flow: &FlowResult, full_s: f64) -> f64 {
    match flow.has_failed() && flow.time.as_secs_f64() < full_s {
        true => 8.0 * flow.report.delivered as f64 / full_s,
        false => flow.goodput().as_bps_f64(),
    }
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
                    race.candidates[path].costs.of_runs.push(cost(path, run));
                }
            }
            race.judge();
        }
        (race.chosen(), race.candidates.iter().map(Candidate::runs).collect())
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
