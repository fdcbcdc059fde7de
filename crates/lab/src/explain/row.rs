//! The explanation of one contender in one condition: sums over its flows, as parts, shares and a sentence.

use core::cmp::Ordering;
use core::ops::AddAssign;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::cause::{Cause, Parts};
use super::changes::Candidate;
use super::outage::{Outage, waited};
use crate::report::Difference;
use crate::report::difference::Reading;
use crate::report::verdict::Measure;
use crate::run::{FlowResult, fallback};
use crate::scenario::{Scenario, TrafficClass, Transport};

/// The parts of a flow that are measured: itself, its requests, bursts or segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowParts {
    pub n: usize,
    /// Those that ended.
    pub completed: usize,
}

/// The time that an outage has cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Toll {
    /// In nanoseconds.
    waited: u128,
    /// The number of flows that did not finish: they had lost packets in it, and the run ended in it or nothing more was
    /// delivered.
    stopped: u64,
}

impl AddAssign for Toll {
    fn add_assign(&mut self, other: Toll) {
        self.waited += other.waited;
        self.stopped += other.stopped;
    }
}

/// Sums over the flows of a contender in a condition.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// The number of flows, or of their parts that are measured.
    n: usize,
    /// The number of those that were delivered.
    completed: usize,
    /// The number of those with an account.
    explained: u64,
    /// The sum of their times in nanoseconds.
    total_ns: u128,
    parts: Parts,
    /// The parts that concern a path, by its position.
    by_path: Vec<Parts>,
    bytes: Parts,
    count: u64,
    /// The time of waiting for retransmissions of segments that full queues dropped, in nanoseconds.
    overflow_ns: u128,
    outages: BTreeMap<Outage, Toll>,
    /// The longest gap of each flow that received something: their number, and their sum in nanoseconds.
    gaps: (u64, u128),
    /// The number of flows that gave up Multipath TCP.
    fallbacks: u64,
}

impl Tally {
    pub(super) fn new(paths: usize) -> Tally {
        Tally {
            n: 0,
            completed: 0,
            explained: 0,
            total_ns: 0,
            parts: Parts::default(),
            by_path: vec![Parts::default(); paths],
            bytes: Parts::default(),
            count: 0,
            overflow_ns: 0,
            outages: BTreeMap::new(),
            gaps: (0, 0),
            fallbacks: 0,
        }
    }

    /// Adds a flow with these parts, such as requests; `planned` are the outages of the scenario, and `unended` the outages of the
    /// flow's paths that lasted until the end of the run, or after which nothing more was delivered.
    pub(super) fn add(
        &mut self,
        flow: &FlowResult,
        parts: FlowParts,
        account: Option<Account>,
        planned: &[crate::scenario::Outage],
        unended: Vec<Outage>,
    ) {
        self.n += parts.n;
        self.completed += parts.completed;
        for outage in unended.into_iter().filter(|_| parts.completed < parts.n) {
            self.outages.entry(as_planned(planned, outage)).or_default().stopped += 1;
        }
        if let Some(gap) = flow.report.longest_gap {
            self.gaps = (self.gaps.0 + 1, self.gaps.1 + u128::from(gap.0));
        }
        self.fallbacks += u64::from(fallback(flow).is_some());
        let Some(account) = account else { return };
        for (outage, span) in waited(&account.charges) {
            self.outages.entry(as_planned(planned, outage)).or_default().waited += u128::from(span.0);
        }
        debug_assert_eq!(account.parts().total(), u128::from(account.total.0), "the parts add up");
        self.explained += account.pieces;
        self.total_ns += u128::from(account.total.0);
        self.bytes += account.bytes;
        self.count += account.count;
        for charge in &account.charges {
            self.parts.add(charge.cause, charge.span, 1);
            let first = (charge.subflow == Some(0)).then_some(flow.path);
            let path = charge.outage.map(|outage| outage.path);
            if let Some(path) = path.or(charge.path).or(first)
                && let Some(parts) = self.by_path.get_mut(path)
            {
                parts.add(charge.cause, charge.span, 1);
            }
            if charge.overflow {
                self.overflow_ns += u128::from(charge.span.0);
            }
        }
    }

    /// Returns the largest cause, and the path that has most of it.
    pub(super) fn largest(&self) -> Option<(Cause, Option<usize>)> {
        let cause = self.parts.largest()?;
        Some((cause, self.most_of(cause)))
    }

    /// Returns the path that has most of the time of `cause`.
    fn most_of(&self, cause: Cause) -> Option<usize> {
        let paths = (0..self.by_path.len()).filter(|path| self.by_path[*path][cause] > 0);
        paths.rev().max_by_key(|path| self.by_path[*path][cause])
    }

    /// Returns the paths that were down when flows were given up.
    pub(super) fn stopped(&self) -> Vec<usize> {
        let mut paths: Vec<usize> =
            self.outages.iter().filter(|(_, toll)| toll.stopped > 0).map(|(outage, _)| outage.path).collect();
        paths.dedup();
        paths
    }

    /// True if all flows are delivered and explained.
    pub(super) fn is_complete(&self) -> bool {
        self.completed == self.n && self.explained == self.n as u64
    }

    /// True if the mean time is a lower bound: some of the flows that it includes are not delivered.
    pub(super) fn is_bound(&self) -> bool {
        self.completed < self.n
    }

    /// Returns the mean time of a flow in seconds.
    pub(super) fn mean_s(&self) -> f64 {
        seconds(self.total_ns, self.explained)
    }

    /// Returns the cause that has the largest excess of mean time over `other`, the path that has most of this excess, and
    /// the excess in seconds. None if the mean of all is not larger by the relative difference `least`, or if a flow has no
    /// account.
    pub(super) fn excess(&self, other: &Tally, least: f64) -> Option<(Cause, Option<usize>, f64)> {
        if self.explained < self.n as u64 || self.mean_s() <= other.mean_s() * (1.0 + least) {
            return None;
        }
        let more = |cause: Cause| {
            seconds(self.parts[cause], self.explained) - seconds(other.parts[cause], other.explained)
        };
        let cause = Cause::ALL.into_iter().max_by(|a, b| more(*a).total_cmp(&more(*b)))?;
        let on = |path: usize| {
            let of = |tally: &Tally| seconds(tally.by_path[path][cause], tally.explained);
            (path, of(self) - of(other))
        };
        let paths = (0..self.by_path.len().min(other.by_path.len())).rev().map(on);
        let path = paths.filter(|(_, more)| *more > 0.0).max_by(|(_, a), (_, b)| a.total_cmp(b));
        Some((cause, path.map(|(path, _)| path), more(cause)))
    }

    /// True if most of the time of waiting for retransmissions is due to full queues.
    pub(super) fn overflows(&self) -> bool {
        2 * self.overflow_ns > self.parts[Cause::Retransmission]
    }
}

/// Returns an outage as the scenario has it: a run may end before it.
fn as_planned(planned: &[crate::scenario::Outage], seen: Outage) -> Outage {
    let is_same = |one: &&crate::scenario::Outage| {
        one.path == seen.path && one.from <= seen.from && seen.from < one.until
    };
    planned.iter().find(is_same).map_or(seen, |one| Outage {
        path: one.path,
        from: one.from,
        until: one.until,
    })
}

/// Returns the mean of a sum of nanoseconds over `n`, in seconds.
fn seconds(sum: u128, n: u64) -> f64 {
    sum as f64 / 1e9 / n.max(1) as f64
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.n += other.n;
        self.completed += other.completed;
        self.explained += other.explained;
        self.total_ns += other.total_ns;
        self.parts += other.parts;
        self.by_path.iter_mut().zip(other.by_path).for_each(|(sum, parts)| *sum += parts);
        self.bytes += other.bytes;
        self.count += other.count;
        self.overflow_ns += other.overflow_ns;
        for (outage, toll) in other.outages {
            *self.outages.entry(outage).or_default() += toll;
        }
        self.gaps = (self.gaps.0 + other.gaps.0, self.gaps.1 + other.gaps.1);
        self.fallbacks += other.fallbacks;
    }
}

/// The part of a time that has one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimePart {
    /// The cause of this part.
    pub cause: Cause,
    /// Its time in seconds, the mean over flows or bytes.
    pub mean_s: f64,
    /// Its share of the whole, in percent.
    pub share_pct: f64,
    /// The sum over flows in nanoseconds, exactly; none for bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_ns: Option<u64>,
    /// By path, of all paths; the rest concerns no path. Empty for bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_path: Vec<PathPart>,
}

/// The part of a time that concerns one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPart {
    /// The path that the waits concern.
    pub path: String,
    /// Its time in seconds, the mean over flows.
    pub mean_s: f64,
}

/// The time of waiting because of an outage of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutagePart {
    /// The path that was down.
    pub path: String,
    /// The time at which it went down, in seconds from the start of the run.
    pub from_s: f64,
    /// The time at which it came up; none if it stayed down.
    pub until_s: Option<f64>,
    /// The time in seconds, the mean over flows.
    pub mean_s: f64,
    /// The number of flows that did not finish: they had lost packets in it, and the run ended in it or nothing more was
    /// delivered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stopped: u64,
}

/// The largest cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Largest {
    /// The cause with the most time.
    pub cause: Cause,
    /// The path that has most of it, if it concerns paths.
    pub path: Option<String>,
    /// Its time in seconds, the mean over flows.
    pub mean_s: f64,
    /// Its share of the whole, in percent.
    pub share_pct: f64,
}

/// The comparison with the fastest contender of the condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// The fastest contender.
    pub than: String,
    /// The difference of the mean times in seconds.
    pub total_s: f64,
    /// The cause with the largest difference.
    pub cause: Cause,
    /// The path that has most of this difference, if the cause concerns paths.
    pub path: Option<String>,
    /// The difference of the mean times of this cause, in seconds.
    pub cause_s: f64,
    /// True if flows were not delivered: `total_s` is a lower bound, and `cause_s` counts up to the last delivered byte.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub at_least: bool,
}

/// A change that was run, and its effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The change in words, such as `no loss on path 2`.
    pub what: String,
    /// The mean time of a flow in seconds; none if flows did not finish.
    pub mean_s: Option<f64>,
    /// The number of flows that did not finish.
    #[serde(default)]
    pub unfinished: usize,
    /// The change of the mean completion time in percent, for bulk of the goodput, with an interval by a paired bootstrap
    /// over runs. The intervals of a contender's changes hold simultaneously with 95 %. None if no flow finished both with
    /// and without the change.
    pub effect_pct: Option<Difference>,
    /// True if it helps: more flows finish, or the interval excludes zero, and the effect is not practically none. None
    /// if the runs cannot tell.
    pub helps: Option<bool>,
    /// True for a setting of the hosts, false for a change of the network or its traffic.
    pub setting: bool,
}

/// The measured effect of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    /// None if no flow finished both with and without the change.
    pub difference: Option<Difference>,
    /// The number of flows that did not finish with the change.
    pub unfinished: usize,
    /// The same without the change.
    pub unfinished_before: usize,
}

impl Change {
    pub(super) fn new(
        candidate: &Candidate,
        times: &[f64],
        effect: Effect,
        bulk: bool,
        min_effect: f64,
    ) -> Change {
        let Effect { difference, unfinished, unfinished_before } = effect;
        let mean_s = crate::stats::mean(times).filter(|_| unfinished == 0 && !bulk);
        let faster = match difference.and_then(|difference| difference.read(100.0 * min_effect)) {
            Some(Reading::Above) => Some(bulk),
            Some(Reading::Below) => Some(!bulk),
            Some(Reading::Equal) => Some(false),
            Some(Reading::Undecided) | None => None,
        };
        let helps = match unfinished.cmp(&unfinished_before) {
            Ordering::Less => Some(true),
            Ordering::Equal if difference.is_none() => Some(false),
            Ordering::Equal => faster,
            Ordering::Greater => Some(false),
        };
        Change {
            what: candidate.what.clone(),
            mean_s,
            unfinished,
            effect_pct: difference,
            helps,
            setting: candidate.is_setting,
        }
    }

    /// The key by which the changes of a contender are sorted, the best first.
    fn rank(&self, bulk: bool) -> (usize, f64) {
        let sign = if bulk { -1.0 } else { 1.0 };
        (self.unfinished, self.effect_pct.map_or(f64::INFINITY, |effect| sign * effect.mean))
    }
}

/// The flows that a row is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// The contender's name.
    pub scheduler: String,
    /// Its congestion control.
    pub congestion: String,
    /// The condition; empty if there is only one.
    pub condition: String,
    /// The class of traffic; absent without classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// The path of a plain TCP; none for Multipath TCP.
    pub path: Option<String>,
    /// The number of flows.
    pub n: usize,
    /// The number of flows delivered before the deadline. (Bulk: not aborted.)
    pub completed: usize,
}

/// Where the time of a contender's flows went in a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The flows.
    #[serde(flatten)]
    pub of: Subject,
    /// The measure of the changes, in words.
    #[serde(skip)]
    pub measure: &'static str,
    /// A flow, or the part of it that is measured, in words, such as `request`.
    #[serde(skip)]
    pub noun: &'static str,
    /// The number of flows that are explained: the flows that delivered at least one byte.
    pub explained: u64,
    /// The mean time in seconds from the start of an explained flow to its last in-order delivery.
    pub mean_s: Option<f64>,
    /// The sum of these times in nanoseconds: exactly the sum of the parts.
    pub total_ns: u64,
    /// The parts of this time along the chain of waits, one for each cause.
    pub parts: Vec<TimePart>,
    /// The mean time of a byte in seconds, from its offer to its in-order delivery.
    pub byte_mean_s: Option<f64>,
    /// The parts of this time, one for each cause.
    pub bytes: Vec<TimePart>,
    /// The parts of `outage`, by outage, in the order of paths and times.
    pub outages: Vec<OutagePart>,
    /// The longest gap in the delivery of a flow in seconds, mean over flows.
    pub longest_gap_s: Option<f64>,
    /// The number of flows that were to use Multipath TCP and gave it up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fallbacks: u64,
    /// The largest cause of the parts.
    pub largest: Option<Largest>,
    /// The comparison with the fastest contender of the condition; none for that one, and if the difference is practically
    /// none.
    pub excess: Option<Excess>,
    /// The changes that were run, the best first.
    pub changes: Vec<Change>,
    /// The largest cause, the excess and the [advised](Row::advised) change, in words.
    pub sentence: String,
}

impl Row {
    pub(super) fn new(
        scenario: &Scenario,
        condition: usize,
        (contender, path): (usize, Option<usize>),
        class: Option<&TrafficClass>,
        tally: &Tally,
        fastest: Option<(usize, &Tally)>,
        mut changes: Vec<Change>,
    ) -> Row {
        let condition = &scenario.conditions[condition];
        let names: Vec<&str> = condition.experiment.paths().iter().map(|path| path.name.as_str()).collect();
        let measure = super::measure(condition, class);
        let bulk = measure == Measure::Goodput;
        changes.sort_by(|a, b| {
            let ((stuck, effect), (other_stuck, other)) = (a.rank(bulk), b.rank(bulk));
            stuck.cmp(&other_stuck).then(effect.total_cmp(&other))
        });
        let share = |sum: u128, total: u128| 100.0 * sum as f64 / total.max(1) as f64;
        let parts = Cause::ALL.into_iter().map(|cause| TimePart {
            cause,
            mean_s: seconds(tally.parts[cause], tally.explained),
            share_pct: share(tally.parts[cause], tally.total_ns),
            sum_ns: Some(tally.parts[cause] as u64),
            by_path: names
                .iter()
                .zip(&tally.by_path)
                .map(|(path, parts)| PathPart {
                    path: (*path).to_owned(),
                    mean_s: seconds(parts[cause], tally.explained),
                })
                .collect(),
        });
        let bytes = Cause::ALL.into_iter().map(|cause| TimePart {
            cause,
            mean_s: seconds(tally.bytes[cause], tally.count),
            share_pct: share(tally.bytes[cause], tally.bytes.total()),
            sum_ns: None,
            by_path: Vec::new(),
        });
        let largest = tally.largest().map(|(cause, path)| Largest {
            cause,
            path: path.map(|path| names[path].to_owned()),
            mean_s: seconds(tally.parts[cause], tally.explained),
            share_pct: share(tally.parts[cause], tally.total_ns),
        });
        let name = scenario.contenders[contender].name.clone();
        let excess = fastest.and_then(|(than, fastest)| {
            let (cause, path, cause_s) = tally.excess(fastest, scenario.min_effect)?;
            Some(Excess {
                than: scenario.contenders[than].name.clone(),
                total_s: tally.mean_s() - fastest.mean_s(),
                at_least: tally.is_bound(),
                cause,
                path: path.map(|path| names[path].to_owned()),
                cause_s,
            })
        });
        let is_tcp = matches!(scenario.contenders[contender].transport, Transport::Tcp { .. });
        let mut row = Row {
            of: Subject {
                scheduler: name,
                congestion: condition.configs[contender].congestion.name().to_owned(),
                condition: condition.name.clone(),
                traffic: class.map(|class| class.name.clone()),
                path: path.filter(|_| is_tcp && class.is_none()).map(|path| names[path].to_owned()),
                n: tally.n,
                completed: tally.completed,
            },
            measure: if bulk { "goodput" } else { measure.noun() },
            noun: match measure {
                Measure::ResponseTime => "request",
                Measure::BurstDelay => "burst",
                Measure::Waiting | Measure::Bitrate => "segment",
                Measure::MeanTime | Measure::Goodput | Measure::P95 | Measure::Delay => "flow",
            },
            explained: tally.explained,
            mean_s: (tally.explained > 0).then(|| tally.mean_s()),
            total_ns: tally.total_ns as u64,
            parts: parts.collect(),
            byte_mean_s: (tally.count > 0).then(|| seconds(tally.bytes.total(), tally.count)),
            bytes: bytes.collect(),
            outages: tally
                .outages
                .iter()
                .map(|(outage, toll)| OutagePart {
                    path: names[outage.path].to_owned(),
                    from_s: outage.from.as_secs_f64(),
                    until_s: outage.until.is_armed().then(|| outage.until.as_secs_f64()),
                    mean_s: seconds(toll.waited, tally.explained),
                    stopped: toll.stopped,
                })
                .collect(),
            longest_gap_s: (tally.gaps.0 > 0).then(|| seconds(tally.gaps.1, tally.gaps.0)),
            fallbacks: if is_tcp { 0 } else { tally.fallbacks },
            largest,
            excess,
            changes,
            sentence: String::new(),
        };
        row.sentence = row.words();
        row
    }

    /// Returns the change that the sentence names: the best setting that helps; if none does, the best other change.
    pub fn advised(&self) -> Option<&Change> {
        let helping = || self.changes.iter().filter(|change| change.helps == Some(true));
        helping().find(|change| change.setting).or_else(|| helping().next())
    }
}

/// True for 0.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Returns the sums of a flow that took this time, and of another one that was not delivered unless all are `complete`.
#[cfg(test)]
pub(super) fn made_tally(millis: u64, complete: bool) -> Tally {
    let n = if complete { 1 } else { 2 };
    Tally { n, completed: 1, explained: 1, total_ns: u128::from(millis) * 1_000_000, ..Tally::new(2) }
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
