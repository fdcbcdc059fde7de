//! The verdict of a comparison.
//!
//! The sentences (`sentences.rs`), the column of differences and the ranking use one statistic: the ratio of two means, with
//! its interval. Differences from the reference form one family of intervals, and the differences among all
//! contenders another.

use anabranch_sim::Failure;
use anabranch_units::{Duration, Time};
use serde::{Deserialize, Serialize};

use super::classes;
use super::difference::{self, Difference, Reading};
use super::entrant::{Entrant, is_bulk};
pub use super::measured::Measure;
use super::measured::{self, Measured};
use super::unseen::{self, Unseen};
use crate::run::Class;
use crate::scenario::{Condition, Scenario, TrafficClass, Transport, Via};
use crate::stats::{self, Part, Pooled};

/// Flows up to this mean size, in bytes, are short: their slowest ones matter.
const SHORT: f64 = 1e6;
/// The number of flows from which on the 95th percentile has an interval.
const ENOUGH_FOR_P95: usize = 100;

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// One contender is better than the reference, or the reference is better than all.
    Best,
    /// The best contender and the reference are practically equal.
    Equal,
    /// The number of runs is too small to distinguish the best contender from the reference.
    Undecided,
    /// Some flows did not finish, so there is no winner.
    Incomplete,
    /// A single run has no interval.
    SingleRun,
    /// There is nothing to compare.
    Alone,
}

/// The verdict of one condition by one measure, for programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The condition; empty if there is only one.
    pub condition: String,
    /// The class of traffic, if the scenario has classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// The measure by which the contenders are compared.
    pub measure: Measure,
    /// Whether a contender is best, and if not, why not.
    pub outcome: Outcome,
    /// The best contenders: the one with the best value, followed by those that cannot be distinguished from
    /// it or are practically equal to it. Empty if there is none.
    pub best: Vec<String>,
    /// The contenders in `best` that cannot be distinguished from the first: which of them is best is
    /// unknown. Those that cannot be distinguished from the reference either are in `best` only if the reference is.
    pub tied: Vec<String>,
    /// The best contender other than the reference.
    pub compared: Option<String>,
    /// The contender with which the others are compared; none if there is none.
    pub reference: Option<String>,
    /// Its difference from the reference, in percent.
    pub difference_pct: Option<Difference>,
    /// If undecided, an estimate of the number of runs that would be decisive.
    pub runs_needed: Option<u64>,
}

/// One contender by one measure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Standing {
    pub name: String,
    pub multipath: bool,
    /// The number of flows that did not end in time.
    pub missed: usize,
    /// True if all of its paths are down at the deadline and stay so.
    pub stranded: bool,
    /// The number of those that failed before the deadline.
    pub failed: usize,
    /// Their reasons.
    pub failures: Vec<Failure>,
    pub flows: usize,
    /// The value of the measure: seconds, or bit/s.
    pub value: f64,
    /// The difference from the reference; none for the reference.
    pub vs_reference: Option<Difference>,
    /// The difference from the best of the others; none for itself.
    pub vs_best: Option<Difference>,
    /// The bound for events that none of its runs has shown.
    pub unseen: Unseen,
    /// True if such events are the greater part of the interval of `vs_reference`.
    pub mostly_unseen: bool,
}

/// The result of a condition by one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub(crate) condition: String,
    /// The name of the class of traffic.
    pub(crate) class: Option<String>,
    /// The noun for the counted things, in the plural.
    pub(crate) unit: &'static str,
    pub(crate) measure: Measure,
    pub(crate) runs: u32,
    pub(crate) min_effect_pct: f64,
    pub(crate) deadline: Duration,
    /// True if the scenario has a reference. Otherwise it is the second best.
    pub(crate) is_given: bool,
    pub(crate) reference: Option<Standing>,
    /// The others, in the order of the scenario.
    pub(crate) others: Vec<Standing>,
    /// The path of a reference that is a plain TCP, where the class of traffic would have another one.
    pub(crate) detour: Option<String>,
}

/// Returns the findings of a condition: by the mean, and for short flows by the 95th percentile.
pub(crate) fn findings(scenario: &Scenario, condition: &Condition, entrants: &[Entrant<'_>]) -> Vec<Finding> {
    let listed: Vec<&Entrant<'_>> = entrants.iter().filter(|entrant| entrant.listed).collect();
    if !condition.experiment.classes.is_empty() {
        return classes::findings(scenario, condition, &listed);
    }
    let bulk = is_bulk(condition);
    let values: Vec<Vec<Vec<Measured>>> =
        listed.iter().map(|entrant| measured::of_flows(&entrant.flows(Class::Contender, 0), bulk)).collect();
    let measure = if bulk { Measure::Goodput } else { Measure::MeanTime };
    let contest = Contest { scenario, condition, listed: &listed, values: &values, measure, class: None };
    contest.findings(condition.experiment.traffic.size.mean())
}

/// The contenders of a condition and their values, by run.
pub(super) struct Contest<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) condition: &'a Condition,
    pub(super) listed: &'a [&'a Entrant<'a>],
    pub(super) values: &'a [Vec<Vec<Measured>>],
    pub(super) measure: Measure,
    /// The class of traffic, if there are several.
    pub(super) class: Option<&'a TrafficClass>,
}

impl Contest<'_> {
    /// Returns the finding by the mean, and by the 95th percentile if there are enough flows of a mean size (none:
    /// unknown) that is short.
    pub(super) fn findings(&self, size: Option<f64>) -> Vec<Finding> {
        let mean = self.by_mean();
        let enough = self.values.iter().all(|runs| measured::count(runs, |_| true) >= ENOUGH_FOR_P95);
        let complete = mean.reference.iter().chain(&mean.others).all(|standing| standing.missed == 0);
        let short = size.is_some_and(|size| size <= SHORT);
        if short && enough && complete && self.scenario.runs > 1 && mean.is_given && !mean.others.is_empty() {
            let tail = self.by_p95(&mean);
            // Too few independent flows bound no percentile.
            let known =
                |other: &Standing| other.vs_reference.is_some_and(|difference| difference.ci95.is_some());
            return if tail.others.iter().all(known) { vec![mean, tail] } else { vec![mean] };
        }
        vec![mean]
    }

    /// Returns the mean over all delivered flows, as in the table; for bulk the mean goodput of all flows.
    fn mean(&self, position: usize) -> f64 {
        let values: Vec<f64> =
            self.values[position].iter().flatten().filter_map(|value| value.value).collect();
        stats::mean(&values).unwrap_or(if self.measure.is_gain() { 0.0 } else { f64::INFINITY })
    }

    /// Returns the positions of the others: all except the reference, and except a plain TCP on the
    /// reference's path.
    fn others(&self, reference: Option<usize>) -> Vec<usize> {
        let classes = &self.condition.experiment.classes;
        let group = self.class.and_then(|class| classes.iter().position(|other| other.name == class.name));
        let same = |position: usize| {
            reference.is_some_and(|reference| {
                let (own, other) = (self.listed[position], self.listed[reference]);
                let configs = &self.condition.configs;
                position == reference
                    || (own.path.is_some()
                        && own.path_in(group) == other.path_in(group)
                        && configs[own.contender] == configs[other.contender])
            })
        };
        (0..self.listed.len()).filter(|position| !same(*position)).collect()
    }

    fn standing(&self, position: usize, value: f64) -> Standing {
        let values = &self.values[position];
        let entrant = self.listed[position];
        let transport = &self.scenario.contenders[entrant.contender].transport;
        Standing {
            name: entrant.name.clone(),
            multipath: matches!(transport, Transport::Multipath(_)),
            missed: measured::count(values, |value| !value.complete),
            stranded: {
                let experiment = &self.condition.experiment;
                !experiment.is_up_after(Time::ZERO + experiment.deadline, entrant.path)
            },
            failed: measured::count(values, |value| value.failed.is_some()),
            failures: values.iter().flatten().filter_map(|value| value.failed).collect(),
            flows: measured::count(values, |_| true),
            value,
            vs_reference: None,
            vs_best: None,
            unseen: Unseen::default(),
            mostly_unseen: false,
        }
    }

    /// Returns a statement on the path of a reference that is a plain TCP: if it is not the one that was measured as the best
    /// for this class of traffic, or not the one on which connections of the class start. The difference then
    /// comes from the paths, too.
    fn detour(&self, reference: usize) -> Option<String> {
        let class = self.class.filter(|class| class.via == Via::Contender)?;
        if self.measure != measured::measures(&class.kind)[0] {
            return None;
        }
        let experiment = &self.condition.experiment;
        let group = experiment.classes.iter().position(|other| other.name == class.name);
        let own = self.listed[reference].path_in(group)?;
        let name = |path: usize| crate::spoken::spoken(&experiment.paths()[path].name);
        let is_measured = |entrant: &&&Entrant<'_>| {
            let transport = &self.scenario.contenders[entrant.contender].transport;
            matches!(transport, Transport::Tcp { path: None })
        };
        let best = self.listed.iter().find(is_measured).and_then(|entrant| entrant.path_in(group));
        let (reference, class) = (&self.listed[reference].name, &class.name);
        if let Some(best) = best.filter(|best| *best != own) {
            let (own, best) = (name(own), name(best));
            return Some(format!("{reference} uses {own}, and the best single path for {class} is {best}"));
        }
        let starts = self.listed.iter().any(|entrant| entrant.path.is_none());
        (starts && own != experiment.initial).then(|| {
            let (own, initial) = (name(own), name(experiment.initial));
            format!("{reference} uses {own}, and multipath connections start on {initial}")
        })
    }

    fn by_mean(&self) -> Finding {
        let measure = self.measure;
        let means: Vec<f64> = (0..self.listed.len()).map(|position| self.mean(position)).collect();
        let cost = |position: usize| if measure.is_gain() { -means[position] } else { means[position] };
        let ranked = |mut positions: Vec<usize>| {
            positions.sort_by(|a, b| cost(*a).total_cmp(&cost(*b)));
            positions
        };
        let given = self.listed.iter().position(|entrant| Some(entrant.contender) == self.scenario.reference);
        let reference = given.or_else(|| ranked((0..self.listed.len()).collect()).get(1).copied());
        let others = self.others(reference);
        let pairs = |a: usize, b: usize| difference::pairs(&self.values[a], &self.values[b]);
        let mut finding = Finding {
            condition: self.condition.name.clone(),
            class: self.class.map(|class| class.name.clone()),
            unit: self.class.map_or("flows", |class| class.kind.unit()),
            measure,
            runs: self.scenario.runs,
            min_effect_pct: 100.0 * self.scenario.min_effect,
            deadline: self.condition.experiment.deadline,
            is_given: given.is_some(),
            reference: reference.map(|position| self.standing(position, means[position])),
            others: others.iter().map(|position| self.standing(*position, means[*position])).collect(),
            detour: reference.and_then(|reference| self.detour(reference)),
        };
        let bounds = unseen::Bounds::new(self.condition, self.listed, self.values, measure);
        let bounds = bounds.for_class(self.class);
        let unseen = bounds.of_means();
        for (standing, position) in
            finding.others.iter_mut().zip(&others).chain(finding.reference.iter_mut().zip(&reference))
        {
            standing.unseen = unseen[*position];
        }
        if let Some(reference) = reference {
            // The family of the table's column, so that the values are the same.
            let series: Vec<Vec<Part>> =
                (0..self.listed.len()).map(|position| pairs(position, reference)).collect();
            let differences = difference::family(&series, self.scenario.seed);
            for (standing, position) in finding.others.iter_mut().zip(&others) {
                let Some(measured) = differences[*position] else { continue };
                let difference = measured.with_unseen(bounds.of_pair(*position, reference));
                let width = |one: Difference| one.ci95.map_or(0.0, |interval| interval.half_width());
                standing.mostly_unseen = width(measured) < 0.5 * width(difference);
                standing.vs_reference = Some(difference);
            }
        }
        if let Some(best) = finding.best_place().map(|place| others[place]) {
            // All pairs are one family, since the best is known only afterwards.
            let mut series: Vec<Vec<Part>> = others.iter().map(|other| pairs(*other, best)).collect();
            for (place, a) in others.iter().enumerate().filter(|(_, a)| **a != best) {
                series.extend(others[..place].iter().filter(|b| **b != best).map(|b| pairs(*a, *b)));
            }
            let differences = difference::family(&series, self.scenario.seed);
            for (place, standing) in finding.others.iter_mut().enumerate() {
                let difference = differences[place].filter(|_| others[place] != best);
                standing.vs_best =
                    difference.map(|difference| difference.with_unseen(bounds.of_pair(others[place], best)));
            }
        }
        finding
    }

    fn by_p95(&self, mean: &Finding) -> Finding {
        let times = |position: usize| {
            let of_run = |run: &Vec<Measured>| run.iter().filter_map(|value| value.value).collect();
            self.values[position].iter().map(of_run).collect::<Vec<Vec<f64>>>()
        };
        let p95 = |runs: &[Vec<f64>]| {
            let mut all: Vec<f64> = runs.iter().flatten().copied().collect();
            all.sort_unstable_by(f64::total_cmp);
            stats::percentile(&all, 95.0).unwrap_or(f64::INFINITY)
        };
        let position = |name: &str| self.listed.iter().position(|entrant| entrant.name == name).unwrap_or(0);
        let runs_of = |standing: &Standing| times(position(&standing.name));
        let mut finding = Finding { measure: Measure::P95, detour: None, ..mean.clone() };
        let Some(reference) = &mut finding.reference else { return finding };
        let runs = runs_of(reference);
        reference.value = p95(&runs);
        let pooled = Pooled::new(&runs);
        let others: Vec<Pooled> = finding.others.iter().map(|other| Pooled::new(&runs_of(other))).collect();
        let differences = difference::percentiles(&others, &pooled, self.scenario.runs as usize);
        for (other, difference) in finding.others.iter_mut().zip(differences) {
            other.value = p95(&times(position(&other.name)));
            (other.vs_reference, other.vs_best) = (difference, None);
        }
        let Some(best) = finding.best().map(|best| best.name.clone()) else { return finding };
        let Some(place) = finding.others.iter().position(|other| other.name == best) else { return finding };
        let differences = difference::percentiles(&others, &others[place], self.scenario.runs as usize);
        for (other, difference) in finding.others.iter_mut().zip(differences) {
            other.vs_best = difference.filter(|_| other.name != best);
        }
        finding
    }
}

impl Finding {
    /// Returns the best of the others: of those that are clearly better than the reference, if there are any. Another one with a better mean
    /// may have it by chance.
    pub(super) fn best(&self) -> Option<&Standing> {
        self.best_place().map(|place| &self.others[place])
    }

    fn best_place(&self) -> Option<usize> {
        let least = |among: &dyn Fn(&Standing) -> bool| {
            let places = (0..self.others.len()).filter(|place| among(&self.others[*place]));
            places.min_by(|a, b| self.cost(&self.others[*a]).total_cmp(&self.cost(&self.others[*b])))
        };
        least(&|standing| self.is_clearly_better(standing)).or_else(|| least(&|_| true))
    }

    fn cost(&self, standing: &Standing) -> f64 {
        if self.measure.is_gain() { -standing.value } else { standing.value }
    }

    /// True if another contender has the same mean, a multipath scheduler if `multipath`.
    pub(super) fn shares_cost(&self, standing: &Standing, multipath: bool) -> bool {
        let is = |other: &Standing| other.name != standing.name && (other.multipath || !multipath);
        self.others.iter().any(|other| is(other) && self.cost(other) == self.cost(standing))
    }

    /// True if the contender is better than the reference, and the runs show it.
    fn is_clearly_better(&self, standing: &Standing) -> bool {
        standing.vs_reference.is_some_and(|difference| {
            let reading = self.read(&difference);
            matches!(reading, Some(Reading::Above | Reading::Below))
                && self.measure.is_better(difference.mean)
        })
    }

    /// Returns the contenders that cannot be told apart from `best`, which is better than the reference: those that are clearly better than
    /// the reference too, and the others.
    pub(super) fn tied<'a>(&'a self, best: &Standing) -> (Vec<&'a str>, Vec<&'a str>) {
        let (mut tied, mut unclear) = (Vec::new(), Vec::new());
        for name in self.like(Reading::Undecided, |other| other.vs_best, &best.name) {
            let is_clear =
                self.others.iter().any(|other| other.name == name && self.is_clearly_better(other));
            if is_clear { &mut tied } else { &mut unclear }.push(name);
        }
        (tied, unclear)
    }

    fn read(&self, difference: &Difference) -> Option<Reading> {
        difference.read(self.min_effect_pct)
    }

    /// Returns the names of the contenders with this interpretation of `difference`, except for `but`.
    pub(super) fn like(
        &self,
        reading: Reading,
        difference: impl Fn(&Standing) -> Option<Difference>,
        but: &str,
    ) -> Vec<&str> {
        let is = |standing: &&Standing| difference(standing).and_then(|d| self.read(&d)) == Some(reading);
        self.others.iter().filter(is).map(|other| other.name.as_str()).filter(|name| *name != but).collect()
    }

    /// Returns an estimate of the number of runs that would be decisive.
    pub(super) fn runs_needed(&self, difference: &Difference) -> Option<u64> {
        difference.runs_needed(self.runs, self.min_effect_pct)
    }

    pub(crate) fn outcome(&self) -> Outcome {
        if self.others.iter().chain(&self.reference).any(|standing| standing.missed > 0) {
            return Outcome::Incomplete;
        }
        let (Some(best), Some(_)) = (self.best(), &self.reference) else { return Outcome::Alone };
        match best.vs_reference.as_ref().map(|difference| self.read(difference)) {
            Some(Some(Reading::Above | Reading::Below)) => Outcome::Best,
            Some(Some(Reading::Equal)) => Outcome::Equal,
            Some(Some(Reading::Undecided)) => Outcome::Undecided,
            Some(None) => Outcome::SingleRun,
            None => Outcome::Alone,
        }
    }

    /// Returns the verdict for programs.
    pub fn verdict(&self) -> Verdict {
        let outcome = self.outcome();
        let best = self.best();
        let difference = best.and_then(|best| best.vs_reference);
        let name = |standing: &Standing| standing.name.clone();
        let (mut names, mut tied) = (Vec::new(), Vec::new());
        if let (Outcome::Best, Some(best), Some(reference), Some(difference)) =
            (outcome, best, &self.reference, &difference)
        {
            let better = self.measure.is_better(difference.mean);
            let winner = if better { best } else { reference };
            let like = |reading| {
                let difference = |other: &Standing| if better { other.vs_best } else { other.vs_reference };
                let like = self.like(reading, difference, &winner.name);
                like.into_iter().map(str::to_owned).collect::<Vec<String>>()
            };
            tied = match better {
                true => self.tied(winner).0.into_iter().map(str::to_owned).collect(),
                false => like(Reading::Undecided),
            };
            names.push(name(winner));
            names.extend(tied.iter().cloned());
            names.extend(like(Reading::Equal));
        }
        Verdict {
            condition: self.condition.clone(),
            traffic: self.class.clone(),
            measure: self.measure,
            outcome,
            best: names,
            tied,
            compared: best.map(name),
            reference: self.reference.as_ref().map(name),
            difference_pct: difference.filter(|_| outcome != Outcome::Incomplete),
            runs_needed: difference
                .filter(|_| outcome == Outcome::Undecided)
                .and_then(|d| self.runs_needed(&d)),
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
