//! The setting of a condition, for the notes below a table and for programs.

use anabranch_link::{Aqm, Capacity, LinkConfig};
use serde::{Deserialize, Deserializer, Serialize};

use super::measured::Measure;
use super::unseen;
use super::verdict::Finding;
use crate::baseline::{Race, SinglePath};
use crate::scenario::{
    Condition, Direction, Experiment, Link, Path, Scenario, TraceStart, TrafficClass, Via,
};
use crate::starts::{DecisiveStart, OtherStart};

/// The setting of a condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The name of the condition; empty if there is only one.
    pub name: String,
    /// The number of runs of each contender.
    pub runs: u32,
    /// The bound for events that no run has shown, if there are any; none for a single run.
    pub unseen: Option<UnseenEvents>,
    /// The names of the paths, in the order of `bytes_by_path`.
    pub paths: Vec<String>,
    /// The name of the profile, such as `linux`.
    pub profile: String,
    /// The congestion control of each contender, in their order.
    pub congestion: Vec<String>,
    /// `upload` or `download`.
    pub direction: String,
    /// The queue of each path.
    pub queues: Vec<String>,
    /// The path of `tcp` for each class of traffic that uses the contender; empty without classes.
    pub class_paths: Vec<ClassPath>,
    /// The queues of the links that the data of several paths share.
    pub shared_queues: Vec<String>,
    /// The number of traces that start at random and independent points. Both directions of a path count once, and so do all
    /// traces that start together, if others do not.
    pub independent_traces: usize,
    /// The path of the initial subflow.
    pub initial: String,
    /// The way it was chosen: `first` (the first one listed), `given`, `best` by the estimates, or `race`.
    pub initial_choice: String,
    /// A host's estimate of each path beforehand, in seconds: `best` is the one with the least.
    pub estimates_s: Vec<f64>,
    /// The effects of starting on other paths; empty if they were not measured.
    pub other_starts: Vec<OtherStart>,
    /// The other start that matters more than the scheduler; none if there is none.
    pub decisive_start: Option<DecisiveStart>,
    /// The phases that each run draws; none if they are off.
    pub phases: Option<PhaseLimits>,
    /// The maximum rate at which all paths together carry payload, in bit/s.
    #[serde(deserialize_with = "or_infinite")]
    pub ideal_sum_bps: f64,
    /// A plain TCP on each single path, in the selection runs; empty without `tcp`, or with one path.
    pub single_paths: Vec<SinglePath>,
}

/// The bound for events that no run has shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnseenEvents {
    /// Events of a lower probability than one in this number of runs are not excluded.
    pub one_in: u32,
    /// The most by which such events change a contender's mean, in percent.
    pub most_pct: f64,
    /// The contender that they change most.
    pub scheduler: String,
    /// The class of traffic that has this mean, if the scenario has classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// True if they are more than half of an interval.
    pub dominates: bool,
}

impl UnseenEvents {
    /// Returns the greatest bound of `findings`, after `runs` runs.
    pub(crate) fn new(findings: &[Finding], runs: u32) -> Option<UnseenEvents> {
        let findings = || findings.iter().filter(|finding| finding.measure != Measure::P95);
        let standings = findings().flat_map(|finding| {
            finding.others.iter().chain(&finding.reference).map(move |standing| (&finding.class, standing))
        });
        let (class, greatest) =
            standings.max_by(|a, b| a.1.unseen.percent().total_cmp(&b.1.unseen.percent()))?;
        let dominates = findings().any(|finding| finding.others.iter().any(|other| other.mostly_unseen));
        (greatest.unseen.percent() > 0.0).then(|| UnseenEvents {
            one_in: (runs / 3).max(1),
            most_pct: greatest.unseen.percent(),
            scheduler: greatest.name.clone(),
            traffic: class.clone(),
            dominates,
        })
    }
}

/// The limits of the phases of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseLimits {
    /// The latest start of a flow, in seconds.
    pub start_s: f64,
    /// The longest delay before a host opens additional subflows.
    pub join_s: f64,
    /// The largest change of a path's delay, in either direction.
    pub delay_s: f64,
    /// The longest additional delay of a packet.
    pub jitter_s: f64,
    /// True if traces begin at random positions.
    pub traces: bool,
}

/// Returns the limit of a queue, and its management if it is not drop-tail.
fn queue(config: &LinkConfig) -> String {
    match &config.aqm {
        Aqm::DropTail => config.queue.to_string(),
        aqm => format!("{}, {aqm}", config.queue),
    }
}

/// The path of `tcp` for a class of traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassPath {
    /// The name of the class.
    pub traffic: String,
    /// The path of `tcp` for the class.
    pub path: String,
}

fn class_paths(experiment: &Experiment, race: &Race) -> Vec<ClassPath> {
    let classes = experiment.classes.iter().zip(race.chosen_by_class());
    let own = classes.filter(|(class, _)| class.via == Via::Contender);
    let of = |(class, path): (&TrafficClass, usize)| ClassPath {
        traffic: class.name.clone(),
        path: experiment.paths()[path].name.clone(),
    };
    own.map(of).collect()
}

/// Returns the queues of the links that carry the data of several paths, but those that the paths have as their own.
fn shared_queues(experiment: &Experiment) -> Vec<String> {
    let paths = experiment.paths();
    let own = |link: &Link| paths.iter().any(|path| core::ptr::eq(experiment.own_link(path), link));
    let uses = |path: &Path, link: usize| path.data.iter().flatten().any(|other| *other == link);
    let links = experiment.graph.links.iter().enumerate();
    let shared =
        links.filter(|(at, link)| paths.iter().filter(|path| uses(path, *at)).count() > 1 && !own(link));
    shared.map(|(_, link)| queue(&link.config)).collect()
}

/// Returns the number of traces with independent random starts.
fn independent_traces(experiment: &Experiment) -> usize {
    let links = experiment.graph.links.iter().filter(|link| {
        unseen::begins_anywhere(experiment, link) && matches!(link.config.capacity, Capacity::Trace { .. })
    });
    let (together, alone): (Vec<&Link>, Vec<&Link>) =
        links.partition(|link| link.trace_start == TraceStart::Together);
    let streams: std::collections::BTreeSet<_> = alone.iter().map(|link| &link.trace_stream).collect();
    streams.len() + usize::from(!together.is_empty() && !streams.is_empty())
}

/// Reads a number, which is null in JSON where it is infinite.
fn or_infinite<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

impl Setting {
    /// Returns the setting of a condition, with the choice of a path for each contender.
    pub(crate) fn new(
        scenario: &Scenario,
        condition: &Condition,
        races: &[Option<Race>],
        ideal_sum_bps: f64,
    ) -> Setting {
        let experiment = &condition.experiment;
        let (paths, links) = (experiment.paths(), &experiment.graph.links);
        let names = || paths.iter().map(|path| path.name.as_str());
        let race = races.iter().flatten().next().filter(|_| paths.len() > 1);
        debug_assert_eq!(scenario.contenders.len(), races.len());
        let phases = experiment.phases.in_comparison().map(|phases| {
            let shortest = experiment.shortest_rtt();
            let with_phases = || links.iter().filter(|link| link.phase_stream.is_some());
            let greatest = |limits: &dyn Fn(anabranch_units::Duration) -> anabranch_units::Duration| {
                with_phases().map(|link| limits(link.rtt)).max().unwrap_or_default().as_secs_f64()
            };
            let begins_anywhere = |link: &crate::scenario::Link| {
                link.trace_start == TraceStart::Beginning
                    && matches!(link.config.capacity, Capacity::Trace { .. })
            };
            PhaseLimits {
                start_s: phases.start_limit(shortest).as_secs_f64(),
                join_s: phases.join_limit(shortest).as_secs_f64(),
                delay_s: greatest(&|rtt| phases.delay_limit(rtt)),
                jitter_s: greatest(&|rtt| phases.jitter_limit(rtt)),
                traces: phases.traces && links.iter().any(begins_anywhere),
            }
        });
        Setting {
            name: condition.name.clone(),
            runs: scenario.runs,
            unseen: None,
            paths: names().map(str::to_owned).collect(),
            profile: experiment.profile.name().to_owned(),
            congestion: condition.configs.iter().map(|c| c.congestion.name().to_owned()).collect(),
            direction: match experiment.traffic.direction {
                Direction::Upload => "upload",
                Direction::Download => "download",
            }
            .to_owned(),
            queues: paths.iter().map(|path| queue(&experiment.own_link(path).config)).collect(),
            class_paths: race.map(|race| class_paths(experiment, race)).unwrap_or_default(),
            shared_queues: shared_queues(experiment),
            independent_traces: independent_traces(experiment),
            initial: paths[experiment.initial].name.clone(),
            initial_choice: experiment.initial_choice.name().to_owned(),
            estimates_s: crate::scenario::estimate::estimates(experiment, &condition.base)
                .into_iter()
                .map(|time| time.as_secs_f64())
                .collect(),
            other_starts: Vec::new(),
            decisive_start: None,
            phases,
            ideal_sum_bps,
            single_paths: race.map(|race| race.results(names())).unwrap_or_default(),
        }
    }
}
