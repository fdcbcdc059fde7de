//! The explanation of one contender in one condition: sums over its flows, as parts, shares and a sentence.

use core::ops::AddAssign;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::cause::{Cause, Parts};
use super::chain::Charge;
use super::outage::{Outage, waited};
use crate::report::Difference;
use crate::report::difference::Reading;
use crate::report::verdict::Measure;
use crate::run::{FlowResult, fallback};
use crate::scenario::{Experiment, Scenario, TrafficClass, Transport};
use crate::spoken::spoken;
use crate::stats::Interval;

/// The parts of a flow that are measured: itself, its requests, bursts or segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowParts {
    pub n: usize,
    /// Those that ended.
    pub completed: usize,
    /// True if the application has nothing to send between them.
    pub pauses: bool,
}

/// Sums over the flows of a contender in a condition.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// The number of flows.
    n: usize,
    /// The number of flows that were delivered.
    completed: usize,
    /// The number of flows with an account.
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
    /// The time of waiting for each outage, in nanoseconds.
    outages: BTreeMap<Outage, u128>,
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

    /// Adds a flow with these parts, such as requests. The time of an application that pauses is left out: only waits for
    /// data that it has written count.
    pub(super) fn add(
        &mut self,
        experiment: &Experiment,
        flow: &FlowResult,
        parts: FlowParts,
        account: Option<Account>,
    ) {
        self.n += parts.n;
        self.completed += parts.completed;
        if let Some(gap) = flow.report.longest_gap {
            self.gaps = (self.gaps.0 + 1, self.gaps.1 + u128::from(gap.0));
        }
        self.fallbacks += u64::from(fallback(flow).is_some());
        let Some(account) = account else { return };
        for (outage, span) in waited(&account.charges) {
            *self.outages.entry(outage).or_default() += u128::from(span.0);
        }
        debug_assert_eq!(account.parts().total(), u128::from(account.total.0), "the parts add up");
        let is_counted = |charge: &&Charge| !parts.pauses || charge.cause != Cause::Application;
        self.explained += if parts.pauses { parts.completed as u64 } else { 1 };
        self.total_ns +=
            account.charges.iter().filter(is_counted).map(|charge| u128::from(charge.span.0)).sum::<u128>();
        self.bytes += account.bytes;
        self.count += account.count;
        let paths = &experiment.pairs[flow.pair].paths;
        let path_of = |subflow: usize| {
            let way = account.ways.get(subflow)?.as_ref()?;
            paths.iter().position(|path| path.data.iter().any(|route| route == way))
        };
        for charge in account.charges.iter().filter(is_counted) {
            self.parts.add(charge.cause, charge.span, 1);
            let first = (charge.subflow == Some(0)).then_some(flow.path);
            let path = charge.outage.map(|outage| outage.path);
            if let Some(path) = path.or(charge.subflow.and_then(path_of)).or(first)
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

    /// True if all flows are delivered and explained.
    pub(super) fn is_complete(&self) -> bool {
        self.completed == self.n && self.explained == self.n as u64
    }

    /// Returns the mean time of a flow in seconds.
    pub(super) fn mean_s(&self) -> f64 {
        seconds(self.total_ns, self.explained)
    }

    /// Returns the cause, with a path, that has the largest excess of mean time over `other`, and this excess
    /// in seconds. None if the mean of all is not larger by the relative difference `least`.
    pub(super) fn excess(&self, other: &Tally, least: f64) -> Option<(Cause, Option<usize>, f64)> {
        if self.mean_s() <= other.mean_s() * (1.0 + least) {
            return None;
        }
        let more = |cause: Cause| {
            seconds(self.parts[cause], self.explained) - seconds(other.parts[cause], other.explained)
        };
        let cause = Cause::ALL.into_iter().max_by(|a, b| more(*a).total_cmp(&more(*b)))?;
        Some((cause, self.most_of(cause), more(cause)))
    }

    /// True if most of the time of waiting for retransmissions is due to full queues.
    pub(super) fn overflows(&self) -> bool {
        2 * self.overflow_ns > self.parts[Cause::Retransmission]
    }
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
        for (outage, span) in other.outages {
            *self.outages.entry(outage).or_default() += span;
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
    /// The path that has most of this cause, if it concerns paths.
    pub path: Option<String>,
    /// The difference of the mean times of this cause, in seconds.
    pub cause_s: f64,
}

/// A change that was run, and its effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The change in words, such as `no loss on path 2`.
    pub what: String,
    /// The mean time of a flow in seconds; none if flows did not finish.
    pub mean_s: Option<f64>,
    /// The change of the mean completion time in percent, for bulk of the goodput, with an interval by a paired bootstrap
    /// over runs. The intervals of a contender's changes hold simultaneously with 95 %.
    pub effect_pct: Difference,
    /// True if it helps: the interval excludes zero, and the effect is not practically none. None if the runs cannot tell.
    pub helps: Option<bool>,
    /// True for a setting of the hosts, false for a change of the network or its traffic.
    pub setting: bool,
}

impl Change {
    pub(super) fn new(
        what: String,
        times: &[f64],
        complete: bool,
        effect_pct: Difference,
        bulk: bool,
        min_effect: f64,
    ) -> Change {
        let mean_s = crate::stats::mean(times).filter(|_| complete && !bulk);
        let helps = match effect_pct.read(100.0 * min_effect) {
            _ if !complete => Some(false),
            Some(Reading::Above) => Some(bulk),
            Some(Reading::Below) => Some(!bulk),
            Some(Reading::Equal) => Some(false),
            Some(Reading::Undecided) | None => None,
        };
        Change { what, mean_s, effect_pct, helps, setting: true }
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
        let sign = if bulk { -1.0 } else { 1.0 };
        changes.sort_by(|a, b| (sign * a.effect_pct.mean).total_cmp(&(sign * b.effect_pct.mean)));
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
            explained: tally.explained,
            mean_s: (tally.explained > 0).then(|| tally.mean_s()),
            total_ns: tally.total_ns as u64,
            parts: parts.collect(),
            byte_mean_s: (tally.count > 0).then(|| seconds(tally.bytes.total(), tally.count)),
            bytes: bytes.collect(),
            outages: tally
                .outages
                .iter()
                .map(|(outage, span)| OutagePart {
                    path: names[outage.path].to_owned(),
                    from_s: outage.from.as_secs_f64(),
                    until_s: outage.until.is_armed().then(|| outage.until.as_secs_f64()),
                    mean_s: seconds(*span, tally.explained),
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

    /// The largest cause and the advised change, in words.
    fn words(&self) -> String {
        let (Some(largest), Some(mean)) = (&self.largest, self.mean_s) else {
            return format!("{}: nothing was delivered, so there is nothing to explain.", self.of.scheduler);
        };
        let mut head = format!(
            "{}: {} of {} ({:.0} %) went into {}.",
            self.of.scheduler,
            milliseconds(largest.mean_s),
            milliseconds(mean),
            largest.share_pct,
            phrase(largest.cause, largest.path.as_deref())
        );
        if self.fallbacks > 0 {
            let flows = if self.of.n == 1 {
                "The flow".to_owned()
            } else {
                format!("{} of {} flows", self.fallbacks, self.of.n)
            };
            head += &format!(" {flows} gave up Multipath TCP, and continued as TCP on one path.");
        }
        for outage in &self.outages {
            let until = outage.until_s.map_or("on".to_owned(), |until| format!("to {until} s"));
            head += &format!(
                " The outage of {} from {} s {until} cost {}.",
                spoken(&outage.path),
                outage.from_s,
                milliseconds(outage.mean_s)
            );
        }
        if let Some(excess) = &self.excess {
            head += &format!(
                " It takes {} more than {}, and spends {} more on {}.",
                milliseconds(excess.total_s),
                excess.than,
                milliseconds(excess.cause_s),
                phrase(excess.cause, excess.path.as_deref())
            );
        }
        let tail = match self.advised() {
            Some(best) => {
                let Difference { mean, ci95 } = best.effect_pct;
                let interval = ci95.map_or(String::new(), |Interval(low, high)| {
                    format!(" (95 % interval {low:+.1} to {high:+.1} %)")
                });
                let measure = self.measure;
                format!(" With {}, the {measure} changes by {mean:+.1} %{interval}.", best.what)
            }
            None if self.changes.is_empty() => String::new(),
            None if self.changes.iter().any(|change| change.helps.is_none()) => {
                let tried: Vec<&str> = self.changes.iter().map(|change| change.what.as_str()).collect();
                format!(" These runs cannot tell whether a change helps; tried: {}.", tried.join("; "))
            }
            None => {
                let tried: Vec<&str> = self.changes.iter().map(|change| change.what.as_str()).collect();
                format!(" No change that was tried helps: {}.", tried.join("; "))
            }
        };
        head + &tail
    }
}

/// True for 0.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A cause in words, and the path that has most of it.
fn phrase(cause: Cause, path: Option<&str>) -> String {
    let words = match cause {
        Cause::Handshake => "establishing the connection",
        Cause::Application => "waiting for the application to write",
        Cause::SendBuffer => "waiting for space in the send buffer",
        Cause::ReceiveWindow => "waiting for the receive window",
        Cause::CongestionWindow => "waiting for the congestion window",
        Cause::Pacing => "pacing or Nagle's algorithm",
        Cause::Scheduler => "waiting by decision of the scheduler",
        Cause::Queueing => "queueing behind other packets",
        Cause::Serialisation => "transmission at the rate of the links",
        Cause::Propagation => "propagation",
        Cause::Retransmission => "waiting for retransmissions of lost data",
        Cause::HeadOfLine => "waiting for earlier bytes",
        Cause::Outage => "waiting because a path was down",
    };
    let concerns_paths =
        !matches!(cause, Cause::Application | Cause::SendBuffer | Cause::ReceiveWindow | Cause::Scheduler);
    match path.filter(|_| concerns_paths) {
        Some(path) => format!("{words}, mostly on {}", spoken(path)),
        None => words.to_owned(),
    }
}

fn milliseconds(seconds: f64) -> String {
    let ms = seconds * 1e3;
    let decimals = if ms >= 100.0 {
        0
    } else if ms >= 10.0 {
        1
    } else {
        2
    };
    format!("{ms:.decimals$} ms")
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
