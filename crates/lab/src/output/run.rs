//! `anabranch run --json`

use anabranch_link::Counters;
use anabranch_measure::{FlowDatagrams, FlowRecord, FlowVideo};
use serde::{Serialize, Serializer};

use super::class;
use crate::compare::Cost;
use crate::head::Head;
use crate::job::Job;
use crate::report::{self, beside_name};
use crate::run::{self, Class, FlowResult, LinkReport, RunResult};
use crate::samples;
use crate::scenario::{Condition, Direction, Scenario, Transport};
use crate::usage::{self, PathUsage};

/// The version of the keys.
pub const RUN_SCHEMA: u32 = 1;

/// The flows and links of one run of each contender in each condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Runs {
    /// The program, the command line and the scenario; the version of the keys is [`RUN_SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// The number of the replayed run; none without phases.
    pub run: Option<u32>,
    /// The settings of the conditions, in the order of the scenario.
    pub conditions: Vec<Setting>,
    /// The flows of each run.
    pub flows: Vec<FlowRecord>,
    /// The links of each run.
    pub links: Vec<LinkCounters>,
    /// The middleboxes of each run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub middleboxes: Vec<MiddleboxCounts>,
    /// The data of each path and its cost in each run; absent if no path has a price or a quota.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<PathUsage>,
    /// The flows that were to use Multipath TCP, and have given it up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<Fallback>,
    /// The cost of the simulation.
    pub performance: Cost,
}

/// The setting of a condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// The names of its paths, in the order of `bytes_by_path`.
    pub paths: Vec<String>,
    /// The name of the profile, such as `linux`.
    pub profile: &'static str,
    /// `upload` or `download`.
    pub direction: &'static str,
}

/// The counters of a link in a run. Packets and bytes are whole packets with their IP headers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkCounters {
    /// The condition's name; empty if it is the only one.
    pub condition: String,
    /// The contender's name.
    pub scheduler: String,
    /// The name of the link, such as `fast.up`.
    pub link: String,
    /// Its counters, with the names of [`Counters::by_name`].
    #[serde(flatten, serialize_with = "counters")]
    pub counters: Counters,
    /// The time for which the link sent, in seconds.
    pub busy_s: f64,
}

/// The counts of the middlebox of a path in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MiddleboxCounts {
    /// The condition's name; empty if it is the only one.
    pub condition: String,
    /// The contender's name.
    pub scheduler: String,
    /// The path that the middlebox is on.
    pub path: String,
    /// Segments that lost their options of Multipath TCP.
    pub stripped: u64,
    /// SYNs with a lowered MSS.
    pub clamped: u64,
    /// Segments dropped because the NAT had no entry for their connection.
    pub dropped: u64,
    /// Dropped packets that were answered by a reset.
    pub resets: u64,
}

/// A flow that was to use Multipath TCP, and has given it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fallback {
    /// The condition's name; empty if it is the only one.
    pub condition: String,
    /// The contender's name.
    pub scheduler: String,
    /// The name of the flow in `flows`.
    pub flow: String,
    /// `handshake`, or `data` if it was after the handshake.
    pub at: &'static str,
}

impl Fallback {
    fn of(scenario: &Scenario, job: &Job, flow: &FlowResult) -> Option<Fallback> {
        let condition = &scenario.conditions[job.condition];
        let is_multipath = matches!(scenario.contenders[job.contender].transport, Transport::Multipath(_));
        let at = match run::fallback(flow).filter(|_| is_multipath && flow.class == Class::Contender)? {
            run::Fallback::Handshake => "handshake",
            run::Fallback::Data => "data",
        };
        Some(Fallback {
            condition: condition.name.clone(),
            scheduler: job.name(scenario),
            flow: flow.report.name.clone(),
            at,
        })
    }
}

impl Runs {
    /// Returns the object of `results`, which cost `performance`; `run` is the number of the replayed run.
    pub fn new(
        scenario: &Scenario,
        results: &[(Job, RunResult)],
        run: Option<u32>,
        performance: Cost,
    ) -> Runs {
        let flows = results
            .iter()
            .flat_map(|(job, result)| result.flows.iter().map(|result| record(scenario, job, result)));
        let links = results.iter().flat_map(|(job, result)| {
            let (condition, name) = (&scenario.conditions[job.condition].name, job.name(scenario));
            result.links.iter().map(move |link| LinkCounters::new(condition, &name, link))
        });
        let middleboxes = results.iter().flat_map(|(job, result)| {
            let (condition, name) = (&scenario.conditions[job.condition].name, job.name(scenario));
            result.middleboxes.iter().map(move |middlebox| MiddleboxCounts {
                condition: condition.clone(),
                scheduler: name.clone(),
                path: middlebox.name.clone(),
                stripped: middlebox.counters.stripped,
                clamped: middlebox.counters.clamped,
                dropped: middlebox.counters.dropped,
                resets: middlebox.counters.resets,
            })
        });
        let usage = results.iter().flat_map(|(job, result)| {
            usage::rows(&scenario.conditions[job.condition], &job.name(scenario), &[&result.usage])
        });
        let fallbacks = results.iter().flat_map(|(job, result)| {
            result.flows.iter().filter_map(|flow| Fallback::of(scenario, job, flow))
        });
        Runs {
            head: Head::new(RUN_SCHEMA, scenario),
            run,
            conditions: scenario.conditions.iter().map(Setting::new).collect(),
            flows: flows.collect(),
            links: links.collect(),
            middleboxes: middleboxes.collect(),
            usage: usage.collect(),
            fallbacks: fallbacks.collect(),
            performance,
        }
    }
}

impl Setting {
    fn new(condition: &Condition) -> Setting {
        Setting {
            name: condition.name.clone(),
            paths: condition.experiment.paths().iter().map(|path| path.name.clone()).collect(),
            profile: condition.experiment.profile.name(),
            direction: match condition.experiment.traffic.direction {
                Direction::Upload => "upload",
                Direction::Download => "download",
            },
        }
    }
}

/// Returns the record of a flow.
fn record(scenario: &Scenario, job: &Job, result: &FlowResult) -> FlowRecord {
    let condition = &scenario.conditions[job.condition];
    let contender = job.name(scenario);
    let report = &result.report;
    let class = condition.experiment.classes.get(result.group);
    let of = report::of(condition, false, 0);
    FlowRecord {
        scheduler: match result.class {
            Class::Beside => beside_name(condition, result.group, &contender),
            Class::Contender | Class::Other => contender,
        },
        congestion: match result.class {
            Class::Contender => condition.configs[job.contender].congestion.name().to_owned(),
            Class::Beside => condition.beside_config(result.group).congestion.name().to_owned(),
            Class::Other => class::congestion(condition, class).to_owned(),
        },
        condition: condition.name.clone(),
        flow: report.name.clone(),
        first_path: condition.experiment.paths()[result.path].name.clone(),
        start_s: report.start.as_secs_f64(),
        size_bytes: report.size.map(|size| size.0),
        outcome: samples::outcome(&report.outcome),
        traffic: class.map(|class| class.name.clone()),
        kind: class.map(|class| class.kind.name().to_owned()),
        transport: class.map(|class| class.via.name().to_owned()),
        parts: class.and_then(|_| class::parts(report)),
        video: class.and_then(|_| Some(FlowVideo::of(&result.video()?, of))),
        datagrams: class.and_then(|_| Some(FlowDatagrams::of(&result.datagrams()?, of))),
        ..FlowRecord::of(&result, of)
    }
}

impl LinkCounters {
    fn new(condition: &str, scheduler: &str, link: &LinkReport) -> LinkCounters {
        LinkCounters {
            condition: condition.to_owned(),
            scheduler: scheduler.to_owned(),
            link: link.name.clone(),
            counters: link.counters,
            busy_s: link.busy.as_secs_f64(),
        }
    }
}

/// Writes the counters of a link by their names.
///
/// # Errors
/// If the serializer fails.
pub fn counters<S: Serializer>(counters: &Counters, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(counters.by_name())
}
