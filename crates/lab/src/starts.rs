//! The effect of starting on another path.
//!
//! Only the initial subflow carries the handshake and the first windows, so its path may matter more than
//! the scheduler. Every multipath contender is therefore run again with each other path first: in all runs of
//! the comparison if that is cheap, otherwise in fewer, with the same seeds. A difference is the ratio of the
//! two means over those runs.

use serde::{Deserialize, Serialize};

use crate::job::{Job, Purpose};
use crate::report::difference::{self, Difference};
use crate::report::is_bulk;
use crate::report::measured::of_flows;
use crate::run::{Class, FlowResult, RunResult};
use crate::scenario::{Condition, Scenario, Transport};
use crate::spoken;
use crate::stats::{self, Interval, Part};

/// Other starts with at most this number of packet-hops have all runs: about a second of work.
const CHEAP_HOPS: u64 = 5_000_000;
/// Otherwise they share the number of runs of a contender, but each start has at least this number.
const FEWEST_RUNS: u32 = 5;
/// From this spread of the schedulers on, in percent, a sentence can have it as a factor.
const LEAST_FACTOR_PCT: f64 = 5.0;
/// The largest number of other paths that are tried, those with the best estimates.
const MOST_PATHS: usize = 7;

/// Another path for the initial subflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherStart {
    /// The path on which the connections of these runs began.
    pub path: String,
    /// The number of runs of each contender that started there.
    pub runs: u32,
    /// Its effect on each multipath contender.
    pub changes: Vec<StartChange>,
}

/// The effect of another start on a contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartChange {
    /// The contender's name.
    pub scheduler: String,
    /// The difference of its mean completion time there from the comparison's start in the same runs, in
    /// percent; for bulk the goodput. All intervals of a condition hold simultaneously with 95 %. None if
    /// some flows did not end in time there, or none did in the comparison.
    pub difference_pct: Option<Difference>,
    /// The number of its flows there.
    pub n: usize,
    /// The number of those that were delivered. (Bulk: not aborted.)
    pub completed: usize,
}

/// A first path that matters more than the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisiveStart {
    /// The name of the other path.
    pub path: String,
    /// The best multipath contender.
    pub scheduler: String,
    /// The effect of starting there.
    pub difference_pct: Difference,
    /// The difference of the worst multipath contender from the best, in percent (goodput: of the best from
    /// the worst).
    pub spread_pct: f64,
}

/// The runs with other starts of a condition.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    condition: usize,
    contenders: Vec<usize>,
    paths: Vec<usize>,
    runs: u32,
}

impl Plan {
    /// Returns the plan of the condition at `position`. Its multipath contenders have taken `hops`
    /// packet-hops in the `all` runs of the comparison, and its paths have these estimates.
    pub(crate) fn new(
        scenario: &Scenario,
        position: usize,
        all: u32,
        hops: u64,
        estimates: &[anabranch_units::Duration],
    ) -> Option<Plan> {
        let condition = &scenario.conditions[position];
        // If all handshakes start together no path is first, and a race finds its own.
        let has_first = |at: &usize| {
            let config = &condition.configs[*at];
            let multipath = matches!(scenario.contenders[*at].transport, Transport::Multipath(_));
            multipath && !config.only.simultaneous && config.race.is_none()
        };
        let contenders: Vec<usize> = (0..scenario.contenders.len()).filter(has_first).collect();
        let initial = condition.experiment.initial;
        let mut paths: Vec<usize> = (0..estimates.len()).filter(|path| *path != initial).collect();
        paths.sort_by_key(|path| estimates[*path]);
        paths.truncate(MOST_PATHS);
        paths.sort_unstable();
        // The important measure differs from class to class.
        let has_classes = !condition.experiment.classes.is_empty();
        if has_classes || !scenario.other_starts || contenders.is_empty() || paths.is_empty() {
            return None;
        }
        let runs = match hops.saturating_mul(paths.len() as u64) <= CHEAP_HOPS {
            true => all,
            // Runs that were added for narrow intervals of the comparison are not repeated for other starts.
            false => (scenario.runs / paths.len() as u32).max(FEWEST_RUNS).min(scenario.runs).min(all),
        };
        Some(Plan { condition: position, contenders, paths, runs })
    }

    /// Returns the runs: for each path, each contender and each run.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = Job> {
        let &Plan { condition, runs, .. } = self;
        let starts = self.paths.iter().flat_map(|path| self.contenders.iter().map(move |at| (*path, *at)));
        starts.flat_map(move |(path, contender)| {
            let purpose = Purpose::OtherStart;
            (0..runs).map(move |run| Job { condition, contender, run, path: Some(path), purpose })
        })
    }

    /// Returns the effects of these starts. `results` are the results of [`Plan::jobs`], and `compared` the
    /// results of each contender of the scenario in the comparison.
    pub(crate) fn changes(
        &self,
        scenario: &Scenario,
        results: &[RunResult],
        compared: &[&[RunResult]],
    ) -> Vec<OtherStart> {
        let condition = &scenario.conditions[self.condition];
        let runs = self.runs as usize;
        let places = self.paths.iter().flat_map(|_| &self.contenders);
        let bulk = is_bulk(condition);
        let count = |runs: &[RunResult]| {
            let flows = flows(runs).into_iter().flatten();
            flows.fold((0, 0), |(n, done), flow| (n + 1, done + usize::from(flow.is_complete(bulk))))
        };
        let counts: Vec<(usize, usize)> = results.chunks(runs).map(count).collect();
        let series: Vec<Vec<Part>> = results
            .chunks(runs)
            .zip(places)
            .map(|(other, at)| {
                let other = flows(other);
                let own = flows(&compared[*at][..runs]);
                match other.iter().flatten().all(|flow| flow.is_complete(bulk)) {
                    true => difference::pairs(&of_flows(&other, bulk), &of_flows(&own, bulk)),
                    false => vec![Part::default(); runs],
                }
            })
            .collect();
        let differences = difference::family(&series, scenario.seed);
        let mut places = differences.into_iter().zip(counts);
        let mut change = |at: &usize| {
            let (difference_pct, (n, completed)) = places.next()?;
            let scheduler = scenario.contenders[*at].name.clone();
            Some(StartChange { scheduler, difference_pct, n, completed })
        };
        let mut start = |path: &usize| OtherStart {
            path: condition.experiment.paths()[*path].name.clone(),
            runs: self.runs,
            changes: self.contenders.iter().filter_map(&mut change).collect(),
        };
        self.paths.iter().map(&mut start).collect()
    }
}

/// Returns the counted flows, by run.
fn flows(runs: &[RunResult]) -> Vec<Vec<&FlowResult>> {
    runs.iter().map(|run| run.flows.iter().filter(|flow| flow.class == Class::Contender).collect()).collect()
}

/// Returns the start that matters more than the scheduler, if there is one: for the best multipath contender,
/// the nearer end of its interval is a greater factor than that between the best and the worst multipath
/// contender, and than the minimum effect. There is none if the start clearly helps one multipath contender and harms
/// another, since the scheduler then decides what it is worth.
pub(crate) fn decisive(
    scenario: &Scenario,
    condition: &Condition,
    starts: &[OtherStart],
    compared: &[&[RunResult]],
) -> Option<DecisiveStart> {
    let bulk = is_bulk(condition);
    let cost = |runs: &[RunResult]| {
        let flows: Vec<Vec<&FlowResult>> = flows(runs);
        let mut values = Vec::new();
        for flow in flows.into_iter().flatten() {
            values.push(if bulk { -flow.goodput().as_bps_f64() } else { flow.report.fct?.as_secs_f64() });
        }
        stats::mean(&values)
    };
    let multipath = scenario.contenders.iter().zip(compared);
    let multipath = multipath.filter(|(contender, _)| matches!(contender.transport, Transport::Multipath(_)));
    let mut costs: Vec<(f64, &str)> = Vec::new();
    for (contender, runs) in multipath {
        costs.push((cost(runs)?, &contender.name));
    }
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (best, worst) = (costs.first()?, costs.last()?);
    let spread = if bulk { best.0 / worst.0 } else { worst.0 / best.0 };
    if costs.len() < 2 || !spread.is_finite() {
        return None;
    }
    let of_best = starts.iter().filter_map(|start| {
        let change = start.changes.iter().find(|change| change.scheduler == best.1)?;
        Some((start, change.difference_pct?))
    });
    let greatest = of_best.max_by(|a, b| factor(a.1.mean).total_cmp(&factor(b.1.mean)))?;
    let (start, difference) = greatest;
    let Interval(low, high) = difference.ci95?;
    let clear = (low > 0.0 || high < 0.0) && factor(difference.mean) >= libm::log(1.0 + scenario.min_effect);
    let near = factor(low).min(factor(high));
    let opposite = |change: &StartChange| {
        let is_multipath = costs.iter().any(|(_, name)| *name == change.scheduler);
        let of = change.difference_pct.filter(|_| is_multipath);
        of.is_some_and(|of| of.mean.signum() != difference.mean.signum() && !is_unclear(&of))
    };
    let clear = clear && !start.changes.iter().any(opposite);
    (clear && near > libm::log(spread)).then(|| DecisiveStart {
        path: start.path.clone(),
        scheduler: best.1.to_owned(),
        difference_pct: difference,
        spread_pct: 100.0 * (spread - 1.0),
    })
}

/// True if the interval of a difference contains 0, or there is none.
fn is_unclear(difference: &Difference) -> bool {
    difference.ci95.is_none_or(|interval| interval.contains(0.0))
}

/// Returns the size of a change, whatever its sign: the logarithm of the factor.
fn factor(percent: f64) -> f64 {
    libm::log((1.0 + percent / 100.0).max(1e-9)).abs()
}

impl DecisiveStart {
    /// Returns the sentence of the verdict; several conditions are distinguished by their names.
    pub(crate) fn sentence(&self, condition: &str, initial: &str, bulk: bool) -> String {
        let place = spoken::place(None, &[condition]);
        let the = if place.is_empty() { "The" } else { "the" };
        let measure = if bulk { "goodput" } else { "mean completion time" };
        let (amount, range) =
            spoken::amount(self.difference_pct.mean, self.difference_pct.ci95, "lower", "higher");
        let amount = amount.replace("times", "times as high");
        let range = if range.is_empty() { range } else { format!(" {range}") };
        // A decrease of 97 % is a factor of 38, which 180 % of a spread do not show to be more.
        let mean = self.difference_pct.mean;
        let as_factors = mean < -50.0 || self.spread_pct > 100.0;
        let amount = match as_factors && mean < 0.0 {
            true => format!("lower by a factor of {:.1}", 1.0 / (1.0 + mean / 100.0).max(1e-9)),
            false => amount,
        };
        // A small spread would be a factor of 1.0.
        let spread = match as_factors && self.spread_pct >= LEAST_FACTOR_PCT {
            true => format!("a factor of {:.1}", 1.0 + self.spread_pct / 100.0),
            false => format!("{:.1} %", self.spread_pct),
        };
        let effect = match mean <= -100.0 {
            true => format!("{} delivers nothing", self.scheduler),
            false => format!("The {measure} of {} is {amount}", self.scheduler),
        };
        let range = if mean <= -100.0 { String::new() } else { range };
        spoken::one_line(&format!(
            "{place}{the} first path matters more than the choice of scheduler. {effect} if it starts on {} instead of \
             {}{range}, while the multipath schedulers are within {spread} of each other.",
            spoken::spoken(&self.path),
            spoken::spoken(initial),
        ))
    }
}

#[cfg(test)]
#[path = "starts_tests.rs"]
mod tests;
