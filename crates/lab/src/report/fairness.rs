//! Fairness: the shares of the flows of a run.
//!
//! A flow's *share* is its fraction of the goodput of all counted flows, its *fair share* the corresponding
//! fraction of the max-min fair rates (see `fair_share`). Shares over several runs are ratios of sums, like
//! all differences of a comparison.

use serde::{Deserialize, Serialize};

use super::difference::Difference;
use super::difference::Reading;
use super::entrant::{Entrant, is_bulk};
use super::fair_share::FairRates;
use crate::run::{Class, FlowResult};
use crate::scenario::{Condition, Scenario};
use crate::stats::{self, Interval, Part};

/// Up to this number of bulk flows in a run each one is listed.
const MOST_FLOWS: usize = 32;

/// A mean and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean over runs.
    pub mean: f64,
    /// Its 95 % interval, by bootstrap over runs; none for a single run.
    pub ci95: Option<Interval>,
}

impl Estimate {
    fn of(parts: &[Part], seed: u64) -> Option<Estimate> {
        let count: f64 = parts.iter().map(|part| part.count).sum();
        let sum: f64 = parts.iter().map(|part| part.sum).sum();
        (count > 0.0).then(|| Estimate { mean: sum / count, ci95: stats::bootstrap(parts, seed) })
    }
}

/// The comparison of a share with the fair one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// The share is greater.
    More,
    /// The share is smaller.
    Less,
    /// They are practically equal.
    Equal,
    /// The number of runs is too small to tell.
    Undecided,
    /// A single run has no interval.
    SingleRun,
}

/// A party: a contender's flows, the plain TCPs that compete with them, or one of these flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Party {
    /// The row of the table to which it belongs.
    pub scheduler: String,
    /// The number of the flow; none for all flows of the row together.
    pub flow: Option<usize>,
    /// The number of flows in each run.
    pub flows: usize,
    /// The mean goodput of a flow, in bit/s.
    pub goodput_bps: Estimate,
    /// The share of all goodput, in percent.
    pub share_pct: f64,
    /// The fair share of all goodput, in percent.
    pub fair_share_pct: f64,
    /// 100 (share / fair share - 1), in percent.
    pub vs_fair_pct: Difference,
    /// The share of the bytes that each path delivered, in percent; null for a path that delivered none.
    pub share_by_path_pct: Vec<Option<f64>>,
    /// The comparison of the share with the fair one.
    pub balance: Balance,
    /// If undecided, an estimate of the number of runs that would be decisive.
    pub runs_needed: Option<u64>,
}

/// The fairness of a contender under a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// The condition; empty if there is only one.
    pub condition: String,
    /// The contender's name.
    pub scheduler: String,
    /// The mean over runs of Jain's index of the goodputs of all flows: 1 if all are equal, 1/n if one of n
    /// has everything.
    pub jain: Estimate,
    /// The contender's flows and the competing TCPs, each together; empty without competing TCPs.
    pub parties: Vec<Party>,
    /// Each flow, if they are bulk and not too many.
    pub flows: Vec<Party>,
    /// True if it is shown by default: with competing TCPs, or several bulk flows.
    #[serde(skip)]
    pub applies: bool,
}

/// The flows of one contender's runs and the competing TCPs.
struct Field<'a> {
    condition: &'a Condition,
    entrant: &'a Entrant<'a>,
    /// By run, always in the same order.
    runs: Vec<&'a [FlowResult]>,
    /// The fair rate of each flow of a run; empty if unknown.
    fair: Vec<f64>,
}

impl<'a> Field<'a> {
    fn new(condition: &'a Condition, entrant: &'a Entrant<'a>) -> Field<'a> {
        let experiment = &condition.experiment;
        let runs: Vec<&[FlowResult]> = entrant.runs.iter().map(|run| run.flows.as_slice()).collect();
        let first = runs.first().copied().unwrap_or_default();
        let is_single = |flow: &FlowResult| flow.class == Class::Beside || entrant.path.is_some();
        let mut single = vec![0; experiment.paths().len()];
        for background in &experiment.traffic.background {
            single[background.path] += background.flows as usize;
        }
        let mut pooled = 0;
        for flow in first {
            match is_single(flow) {
                true => single[flow.path] += 1,
                false => pooled += 1,
            }
        }
        let rates = FairRates::new(experiment, &single, pooled);
        let fair = match rates {
            Some(rates) => {
                let rate =
                    |flow: &FlowResult| if is_single(flow) { rates.single[flow.path] } else { rates.pooled };
                first.iter().map(rate).collect()
            }
            None => Vec::new(),
        };
        Field { condition, entrant, fair, runs }
    }

    /// Returns the positions of the flows of a class; of the competing TCPs those of the kind at `kind`.
    fn of_class(&self, class: Class, kind: usize) -> Vec<usize> {
        let first = self.runs.first().copied().unwrap_or_default();
        (0..first.len()).filter(|at| first[*at].class == class && first[*at].group == kind).collect()
    }

    /// Returns the fair share of the flows at `members`.
    fn fair_share(&self, members: &[usize]) -> f64 {
        let all: f64 = self.fair.iter().sum();
        members.iter().map(|at| self.fair[*at]).sum::<f64>() / all
    }

    /// Returns for each run the goodput of the flows at `members`, and their fair share of the total goodput.
    fn against_fair(&self, members: &[usize]) -> Vec<Part> {
        let fair = self.fair_share(members);
        let part = |run: &&[FlowResult]| Part {
            sum: members.iter().map(|at| goodput(&run[*at])).sum(),
            count: fair * run.iter().map(goodput).sum::<f64>(),
        };
        self.runs.iter().map(part).collect()
    }

    /// Returns for each run the sum of the goodputs of the flows at `members` and their number.
    fn goodputs(&self, members: &[usize]) -> Vec<Part> {
        let part = |run: &&[FlowResult]| Part {
            sum: members.iter().map(|at| goodput(&run[*at])).sum(),
            count: members.len() as f64,
        };
        self.runs.iter().map(part).collect()
    }

    /// Returns the share of the bytes of each path.
    fn by_path(&self, members: &[usize]) -> Vec<Option<f64>> {
        let paths = self.runs.first().and_then(|run| run.first()).map_or(0, |f| f.report.bytes_by_path.len());
        let bytes = |path: usize, at: usize| -> u64 {
            self.runs.iter().map(|run| run[at].report.bytes_by_path.get(path).copied().unwrap_or(0)).sum()
        };
        let share = |path: usize| {
            let all: u64 = (0..self.fair.len()).map(|at| bytes(path, at)).sum();
            let own: u64 = members.iter().map(|at| bytes(path, *at)).sum();
            (all > 0).then(|| 100.0 * own as f64 / all as f64)
        };
        (0..paths).map(share).collect()
    }

    fn party(
        &self,
        members: &[usize],
        is_one: bool,
        difference: Difference,
        scenario: &Scenario,
    ) -> Option<Party> {
        let first = &self.runs.first()?[*members.first()?];
        let least = 100.0 * scenario.min_effect;
        let fair = self.fair_share(members);
        let number =
            || members[0] + 1 - self.of_class(first.class, first.group).first().copied().unwrap_or(0);
        Some(Party {
            scheduler: match first.class {
                Class::Contender => self.entrant.name.clone(),
                Class::Beside | Class::Other => {
                    super::beside_name(self.condition, first.group, &self.entrant.name)
                }
            },
            flow: is_one.then(number),
            flows: members.len(),
            goodput_bps: Estimate::of(&self.goodputs(members), scenario.seed)?,
            share_pct: 100.0 * fair * (1.0 + difference.mean / 100.0),
            fair_share_pct: 100.0 * fair,
            share_by_path_pct: self.by_path(members),
            balance: match difference.read(least) {
                None => Balance::SingleRun,
                Some(Reading::Equal) => Balance::Equal,
                Some(Reading::Undecided) => Balance::Undecided,
                Some(Reading::Above) => Balance::More,
                Some(Reading::Below) => Balance::Less,
            },
            runs_needed: match difference.read(least) {
                Some(Reading::Undecided) => difference.runs_needed(scenario.runs, least),
                _ => None,
            },
            vs_fair_pct: difference,
        })
    }
}

/// Returns the fairness of the listed contenders of a condition; none if a run has a single flow.
pub(crate) fn fairness(
    scenario: &Scenario,
    condition: &Condition,
    entrants: &[Entrant<'_>],
) -> Vec<Fairness> {
    if !condition.experiment.classes.is_empty() {
        // The flows of different classes do not want the same share.
        return Vec::new();
    }
    let listed = entrants.iter().filter(|entrant| entrant.listed);
    let fields: Vec<Field<'_>> = listed.map(|entrant| Field::new(condition, entrant)).collect();
    let count = fields.first().map_or(0, |field| field.runs.first().map_or(0, |run| run.len()));
    if count < 2 {
        return Vec::new();
    }
    let bulk = is_bulk(condition);
    let kinds = condition.experiment.traffic.beside.len();
    let has_beside = kinds > 0;
    let sides = |field: &Field<'_>| match has_beside && !field.fair.is_empty() {
        true => [field.of_class(Class::Contender, 0)]
            .into_iter()
            .chain((0..kinds).map(|kind| field.of_class(Class::Beside, kind)))
            .collect(),
        false => Vec::new(),
    };
    let each = |field: &Field<'_>| match bulk && count <= MOST_FLOWS {
        true => (0..field.fair.len()).map(|at| vec![at]).collect(),
        false => Vec::new(),
    };
    let sides = family(scenario, &fields, &sides, false);
    let each = family(scenario, &fields, &each, true);
    let mut found = Vec::new();
    for ((field, parties), flows) in fields.iter().zip(sides).zip(each) {
        let index: Vec<Part> = field.runs.iter().filter_map(|run| jain(run)).map(Part::one).collect();
        let Some(mut jain) = Estimate::of(&index, scenario.seed) else { continue };
        jain.ci95 = jain.ci95.map(|interval| below_one(jain.mean, interval));
        found.push(Fairness {
            condition: condition.name.clone(),
            scheduler: field.entrant.name.clone(),
            jain,
            parties,
            flows,
            applies: has_beside || bulk,
        });
    }
    found
}

/// Returns the parties of each field. Their intervals hold simultaneously.
fn family(
    scenario: &Scenario,
    fields: &[Field<'_>],
    members: &dyn Fn(&Field<'_>) -> Vec<Vec<usize>>,
    is_one: bool,
) -> Vec<Vec<Party>> {
    let members: Vec<Vec<Vec<usize>>> = fields.iter().map(members).collect();
    let mut series = Vec::new();
    for (field, members) in fields.iter().zip(&members) {
        series.extend(members.iter().map(|members| field.against_fair(members)));
    }
    let mut differences = super::difference::family(&series, scenario.seed).into_iter();
    let parties = |(field, members): (&Field<'_>, &Vec<Vec<usize>>)| {
        let own = members.iter().zip(differences.by_ref());
        own.filter_map(|(members, difference)| field.party(members, is_one, difference?, scenario)).collect()
    };
    fields.iter().zip(&members).map(parties).collect()
}

/// Returns the interval of an index that is at most 1. Its distance from 1 is skewed by few uneven runs; on a
/// logarithmic scale the same critical value has better coverage, and no end exceeds 1.
fn below_one(mean: f64, interval: Interval) -> Interval {
    let distance = 1.0 - mean;
    if distance <= 0.0 {
        return Interval(interval.0.max(0.0), interval.1.min(1.0));
    }
    let factor = libm::exp(interval.half_width() / distance);
    Interval((1.0 - distance * factor).max(0.0), 1.0 - distance / factor)
}

fn goodput(flow: &FlowResult) -> f64 {
    flow.goodput().as_bps_f64()
}

/// Returns Jain's index; none if nothing was delivered.
fn jain(run: &[FlowResult]) -> Option<f64> {
    let sum: f64 = run.iter().map(goodput).sum();
    let squares: f64 = run.iter().map(|flow| goodput(flow) * goodput(flow)).sum();
    (squares > 0.0).then(|| sum * sum / (run.len() as f64 * squares))
}

/// Returns the parties with more or less than a fair share, in a sentence for each condition; none if there
/// are no results.
pub(crate) fn sentences(fairness: &[Fairness]) -> Option<String> {
    let mut conditions: Vec<&str> = fairness.iter().map(|one| one.condition.as_str()).collect();
    conditions.dedup();
    let sentence = |condition: &&str| {
        let own: Vec<&Fairness> = fairness.iter().filter(|one| one.condition == *condition).collect();
        match *condition {
            "" => format!("Fairness: {}.", clauses(&own)),
            condition => format!("Fairness with {condition}: {}.", clauses(&own)),
        }
    };
    let sentences: Vec<String> = conditions.iter().map(sentence).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn clauses(own: &[&Fairness]) -> String {
    let sides: Vec<(String, &Party)> =
        own.iter().filter_map(|one| Some((one.scheduler.clone(), one.parties.first()?))).collect();
    if !sides.is_empty() {
        // `tcp`, or the names of several kinds of competing TCPs, as their rows have them.
        let of = |one: &Fairness| -> Vec<String> {
            let end = format!(" beside {}", one.scheduler);
            let others = one.parties.iter().skip(1);
            others.filter_map(|party| Some(party.scheduler.strip_suffix(&end)?.to_owned())).collect()
        };
        let others = own.iter().map(|one| of(one)).find(|others| !others.is_empty()).unwrap_or_default();
        return balances(&sides, &format!(" beside {}", crate::scenario::list(&others))).join("; ");
    }
    let all = |one: &Fairness, balance: Balance| {
        !one.flows.is_empty() && one.flows.iter().all(|flow| flow.balance == balance)
    };
    let is_uneven = |flow: &Party| matches!(flow.balance, Balance::More | Balance::Less);
    let mut uneven: Vec<(String, &Party)> = Vec::new();
    let (mut even, mut undecided): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for one in own {
        if one.flows.iter().any(is_uneven) {
            let flows = one.flows.iter().filter(|flow| is_uneven(flow));
            uneven.extend(
                flows.map(|flow| (format!("flow {} of {}", flow.flow.unwrap_or(0), one.scheduler), flow)),
            );
        } else if all(one, Balance::Equal) {
            even.push(&one.scheduler);
        } else if !one.flows.is_empty() && !all(one, Balance::SingleRun) {
            undecided.push(&one.scheduler);
        }
    }
    let mut clauses = balances(&uneven, "");
    if !even.is_empty() {
        clauses
            .push(format!("each flow of {} gets practically its fair share", crate::scenario::list(&even)));
    }
    if !undecided.is_empty() {
        clauses.push(format!(
            "the flows of {} cannot be told apart from their fair shares with this number of runs",
            crate::scenario::list(&undecided)
        ));
    }
    let indexes: Vec<String> = own.iter().map(|one| format!("{} {}", one.scheduler, one.index())).collect();
    let plural = if indexes.len() > 1 { "Jain's indexes are" } else { "Jain's index is" };
    let indexes: Vec<&str> = indexes.iter().map(String::as_str).collect();
    clauses.push(format!("{plural} {}", crate::scenario::list(&indexes)));
    clauses.join("; ")
}

/// Returns a clause for each balance among the parties, with their names.
fn balances(parties: &[(String, &Party)], place: &str) -> Vec<String> {
    let kinds = [Balance::More, Balance::Less, Balance::Undecided, Balance::Equal, Balance::SingleRun];
    let clause = |kind: Balance| {
        let own: Vec<&(String, &Party)> = parties.iter().filter(|(_, party)| party.balance == kind).collect();
        let names: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        let amounts: Vec<String> = own.iter().map(|(_, party)| party.amount()).collect();
        let amounts: Vec<&str> = amounts.iter().map(String::as_str).collect();
        let (names, amounts) = (crate::scenario::list(&names), crate::scenario::list(&amounts));
        let (get, their) = if own.len() > 1 { ("get", "their") } else { ("gets", "its") };
        (!own.is_empty()).then(|| match kind {
            Balance::More => format!("{names} {get} more than {their} fair share{place}, by {amounts}"),
            Balance::Less => format!("{names} {get} less than {their} fair share{place}, by {amounts}"),
            Balance::Equal => format!("{names} {get} practically {their} fair share{place}: {amounts}"),
            Balance::Undecided if own.len() > 1 => format!(
                "the shares of {names}{place} cannot be told apart from fair ones with this number of runs: {amounts}"
            ),
            Balance::Undecided => format!(
                "the share of {names}{place} cannot be told apart from a fair one with this number of runs: {amounts}"
            ),
            Balance::SingleRun => {
                format!("in the only run {names} {get}{place}, compared with {their} fair share, {amounts}")
            }
        })
    };
    kinds.into_iter().filter_map(clause).collect()
}

impl Fairness {
    fn index(&self) -> String {
        match self.jain.ci95 {
            Some(Interval(low, high)) => {
                format!("{:.3} (95 % interval {low:.3} to {high:.3})", self.jain.mean)
            }
            None => format!("{:.3}", self.jain.mean),
        }
    }
}

impl Party {
    /// Formats the difference from the fair share with its interval.
    fn amount(&self) -> String {
        let Difference { mean, ci95 } = self.vs_fair_pct;
        let amount = match self.balance {
            Balance::More | Balance::Less => format!("{:.1} %", mean.abs()),
            _ => format!("{:.1} % {}", mean.abs(), if mean < 0.0 { "less" } else { "more" }),
        };
        let needed = match self.runs_needed {
            Some(runs) if runs <= 1_000_000 => format!("; about {runs} runs would tell"),
            _ => String::new(),
        };
        match ci95 {
            Some(Interval(low, high)) => {
                format!("{amount} (95 % interval {low:+.1} to {high:+.1} %{needed})")
            }
            None => amount,
        }
    }
}

#[cfg(test)]
#[path = "fairness_tests.rs"]
mod tests;
