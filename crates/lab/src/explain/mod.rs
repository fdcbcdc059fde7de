//! Where the time of a flow went, and what would change it.
//!
//! The completion time of a flow is divided along the chain of waits that ends with its last byte, and each nanosecond of it
//! has one [`Cause`]; the parts add up exactly. A second account divides the time of every byte from its offer to its in-order
//! delivery. Then the largest cause is removed in other runs with the same seeds, and the effect is measured.
//! `docs/explain.md` has the definitions.

mod account;
mod cause;
mod chain;
mod changes;
mod outage;
#[cfg(test)]
mod outage_tests;
#[cfg(test)]
mod path_tests;
#[cfg(test)]
mod reason_tests;
mod record;
mod row;
mod story;
#[cfg(test)]
mod story_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wait_tests;
mod words;

use serde::{Deserialize, Serialize};

use self::account::{Account, Pieces};
use self::changes::Candidate;
use self::row::{Effect, FlowParts, Tally};
use crate::baseline::Race;
use crate::compare::{self, Cost};
use crate::head::Head;
use crate::job::{Job, Purpose};
use crate::options::Options;
use crate::report::measured::{measures, of_class, of_flows};
use crate::report::verdict::Measure;
use crate::report::{difference, is_bulk};
use crate::run::application::Video;
use crate::run::{AppReport, Class, FlowResult, Prepared, RunError, RunResult};
use crate::scenario::ScenarioError;
use crate::scenario::{Condition, Direction, Scenario, TrafficClass, Transport, Via};
use anabranch_sim::Outcome;

pub use cause::{Cause, Parts};
pub use row::{Change, Excess, Largest, OutagePart, PathPart, Row, Subject, TimePart};

use record::Notes;

/// The version of the keys of `anabranch explain --json`.
pub const SCHEMA: u32 = 1;

/// The flows to explain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question {
    /// The flow of each run that is explained, from 1; none: all of them.
    pub flow: Option<usize>,
    /// True if changes are run.
    pub changes: bool,
}

/// Checks that a run has the flow with this number, from 1.
///
/// # Errors
/// The range of flows, if no run has it.
pub fn check_flow(flow: Option<usize>, scenario: &Scenario) -> Result<(), String> {
    let flows = |condition: &Condition| condition.experiment.traffic.flows;
    let most = scenario.conditions.iter().map(flows).max().unwrap_or(0);
    let has_classes = scenario.conditions.iter().any(|condition| !condition.experiment.classes.is_empty());
    match flow {
        Some(_) if has_classes => {
            Err("the flows of classes are explained together, without --flow".to_owned())
        }
        Some(flow) if flow > most as usize => {
            let range = if most == 1 { "only flow 1".to_owned() } else { format!("flows 1 to {most}") };
            Err(format!("there is no flow {flow}: each run has {range}"))
        }
        _ => Ok(()),
    }
}

/// A scenario that can be explained: some of its traffic uses the contender.
#[derive(Clone, Copy, Debug)]
pub struct Explicable<'a>(&'a Scenario);

impl<'a> Explicable<'a> {
    /// Returns the scenario, if it can be explained.
    ///
    /// # Errors
    /// If its traffic has classes, and none of them uses the contender (the reader refuses such a scenario too), or if a path
    /// has a TCP proxy.
    pub fn new(scenario: &'a Scenario) -> Result<Explicable<'a>, ScenarioError> {
        if scenario.conditions.iter().any(|condition| groups(condition).is_empty()) {
            let mut error =
                ScenarioError::new("this scenario cannot be explained: no traffic uses the contender");
            error.help =
                Some("give a class of transfers, requests, on-off or video `via = \"contender\"`".to_owned());
            return Err(error);
        }
        let mut paths = scenario.conditions.iter().flat_map(|condition| condition.experiment.paths());
        if let Some(path) = paths.find(|path| path.middlebox.proxy.is_some()) {
            let mut error = ScenarioError::new(format!(
                "this scenario cannot be explained: path {} has a TCP proxy, and the wait of a byte in a proxy is not known",
                path.name
            ));
            error.help = Some("leave `proxy` out, or compare both by `[[condition]]`s".to_owned());
            return Err(error);
        }
        Ok(Explicable(scenario))
    }
}

/// Returns the positions of the classes that use the contender; 0 without classes.
fn groups(condition: &Condition) -> Vec<usize> {
    let classes = &condition.experiment.classes;
    match classes.is_empty() {
        true => vec![0],
        false => (0..classes.len()).filter(|at| classes[*at].via == Via::Contender).collect(),
    }
}

/// Returns the class at a position; none without classes.
fn class(condition: &Condition, group: usize) -> Option<&TrafficClass> {
    condition.experiment.classes.get(group)
}

/// Returns the direction of the data of a class, or of the transfers without classes.
fn direction(condition: &Condition, group: usize) -> Direction {
    class(condition, group).map_or(condition.experiment.traffic.direction, |class| class.direction)
}

/// Returns the measure of a class, or of the transfers without classes.
fn measure(condition: &Condition, class: Option<&TrafficClass>) -> Measure {
    match class {
        Some(class) => measures(&class.kind)[0],
        None if is_bulk(condition) => Measure::Goodput,
        None => Measure::MeanTime,
    }
}

/// Returns the parts of a flow that are measured.
fn parts(flow: &FlowResult, bulk: bool) -> FlowParts {
    let (n, completed) = match &flow.report.app {
        AppReport::Transfer | AppReport::Datagrams(_) => (1, usize::from(flow.is_complete(bulk))),
        AppReport::Requests(all) => {
            let planned = flow.planned.map_or(0, |count| count as usize);
            (all.len().max(planned), all.iter().filter(|one| one.time.is_some()).count())
        }
        AppReport::OnOff(all) => {
            let n = all.len() + usize::from(flow.has_failed());
            (n, all.iter().filter(|one| one.delay.is_some()).count())
        }
        AppReport::Video(video) => {
            let (done, ended) = (video.segments as usize, flow.report.outcome == Outcome::Completed);
            (done + usize::from(!ended), done)
        }
    };
    FlowParts { n: n.max(1), completed }
}

/// Returns the completed parts of a flow in its streams.
fn pieces(flow: &FlowResult) -> Pieces {
    match &flow.report.app {
        AppReport::Transfer | AppReport::Datagrams(_) => Pieces::Whole,
        AppReport::Requests(all) => {
            let done = all.iter().take_while(|one| one.time.is_some());
            Pieces::Exchanges(done.map(|one| (one.request, one.response)).collect())
        }
        AppReport::OnOff(all) => {
            let done = all.iter().take_while(|one| one.delay.is_some());
            Pieces::Bursts(done.map(|one| one.bytes).collect())
        }
        AppReport::Video(video) => Pieces::InTurn(video.segments as usize, Video::REQUEST),
    }
}

/// The explanation of a scenario. Serialised, it is the object that `explain --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The program, the command line and the scenario; the version of the keys is [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// The number of runs of each contender in each condition.
    pub runs: u32,
    /// The flow of each run that is explained, from 1; none: all of them.
    pub flow: Option<usize>,
    /// One row for each condition and contender.
    pub rows: Vec<Row>,
}

impl Explanation {
    /// True if something was delivered, which has an explanation.
    pub fn explains_something(&self) -> bool {
        self.rows.iter().any(|row| row.explained > 0)
    }
}

/// The runs of a contender in a condition.
struct Runs {
    condition: usize,
    contender: usize,
    /// The path of a plain TCP.
    path: Option<usize>,
    results: Vec<RunResult>,
    /// By [group](groups) of flows.
    tallies: Vec<(usize, Tally)>,
}

/// Explains the flows of every contender in every condition. Captures and rows of other paths do not apply.
///
/// # Errors
/// If a run cannot be made, or it was cancelled.
pub fn explain(
    scenario: Explicable<'_>,
    question: Question,
    options: &Options<'_>,
) -> Result<Explanation, RunError> {
    let quiet = Options::new(options.jobs, options.cancelled, &|_, _| {});
    let (prepared, races) = compare::choose_paths(scenario.0, &quiet)?;
    let of_condition =
        |races: Vec<Option<Race>>| races.iter().map(|race| Some(race.as_ref()?.chosen())).collect();
    let paths: Vec<Vec<Option<usize>>> = races.into_iter().map(of_condition).collect();
    explain_on(scenario, &prepared, &paths, question, options)
}

/// Explains the flows of `prepared` runs as [`explain`] does; `paths` has the path of each `tcp` without a configured one, by
/// condition and contender.
pub(crate) fn explain_on(
    scenario: Explicable<'_>,
    prepared: &[Prepared<'_>],
    paths: &[Vec<Option<usize>>],
    question: Question,
    options: &Options<'_>,
) -> Result<Explanation, RunError> {
    let Explicable(scenario) = scenario;
    let all = noted_runs(scenario, prepared, paths, question, options)?;
    let plan = |(runs, group, tally): &(&Runs, usize, &Tally)| {
        let Runs { condition, contender, path, .. } = runs;
        let fastest = fastest(scenario, &all, *condition, *group).map(|fastest| fastest.1);
        let direction = direction(&scenario.conditions[*condition], *group);
        match question.changes {
            true => changes::candidates(scenario, (*condition, direction), *contender, *path, tally, fastest),
            false => Vec::new(),
        }
    };
    let explained: Vec<(&Runs, usize, &Tally)> = all
        .iter()
        .flat_map(|runs| runs.tallies.iter().map(move |(group, tally)| (runs, *group, tally)))
        .collect();
    let planned: Vec<Vec<Candidate>> = explained.iter().map(plan).collect();
    let per_candidate = scenario.runs as usize;
    let candidates: usize = planned.iter().map(Vec::len).sum();
    let (mut done, total) = (all.len() * per_candidate, (all.len() + candidates) * per_candidate);
    let mut rows = Vec::with_capacity(explained.len());
    for ((runs, group, tally), planned) in explained.into_iter().zip(planned) {
        let beside = prepared[runs.condition].beside();
        let class_paths = prepared[runs.condition].class_paths().get(runs.contender);
        let class_paths = class_paths.map_or(&[][..], Vec::as_slice);
        let begun = done;
        done += planned.len() * per_candidate;
        let progress = |now: usize| (options.progress)(begun + now, total);
        let changes = effects(
            scenario,
            (runs, group),
            planned,
            (beside, class_paths),
            question.flow,
            &progress,
            options,
        )?;
        let Runs { condition, contender, path, .. } = runs;
        let fastest = fastest(scenario, &all, *condition, group);
        let class = class(&scenario.conditions[*condition], group);
        rows.push(Row::new(scenario, *condition, (*contender, *path), class, tally, fastest, changes));
    }
    Ok(Explanation { head: Head::new(SCHEMA, scenario), runs: scenario.runs, flow: question.flow, rows })
}

/// Returns the contender with the fastest flows of a group in a condition, and its sums; none for bulk.
fn fastest<'a>(
    scenario: &Scenario,
    all: &'a [Runs],
    condition: usize,
    group: usize,
) -> Option<(usize, &'a Tally)> {
    let own = &scenario.conditions[condition];
    if measure(own, class(own, group)) == Measure::Goodput {
        return None;
    }
    let tally = |runs: &'a Runs| {
        let own = runs.tallies.iter().find(|(of, _)| *of == group && runs.condition == condition);
        own.map(|(_, tally)| (runs.contender, tally)).filter(|(_, tally)| tally.is_complete())
    };
    all.iter().filter_map(tally).min_by(|(_, a), (_, b)| a.mean_s().total_cmp(&b.mean_s()))
}

/// Runs the changes against the cause of a contender's time, and measures their effects.
fn effects(
    scenario: &Scenario,
    (runs, group): (&Runs, usize),
    planned: Vec<Candidate>,
    (beside, class_paths): (Option<usize>, &[usize]),
    flow: Option<usize>,
    progress: &(dyn Fn(usize) + Sync),
    options: &Options<'_>,
) -> Result<Vec<Change>, RunError> {
    let condition = &scenario.conditions[runs.condition];
    let class = class(condition, group);
    let measure = measure(condition, class);
    let bulk = measure == Measure::Goodput;
    let before = chosen(&runs.results, flow, class.map(|_| group));
    let (mut series, mut found) = (Vec::new(), Vec::new());
    for (place, candidate) in planned.into_iter().enumerate() {
        let (prepared, path) = if candidate.chooses_path() {
            let quiet = Options::new(options.jobs, options.cancelled, &|_, _| {});
            let (prepared, races) = compare::choose_paths(&candidate.scenario, &quiet)?;
            (prepared, races[0][0].as_ref().map(Race::chosen))
        } else {
            let mut prepared = compare::prepare(&candidate.scenario, Prepared::for_comparison)?;
            prepared[0].set_beside(beside);
            prepared[0].set_class_paths(vec![class_paths.to_vec()]);
            (prepared, candidate.path)
        };
        let job = |run| Job { condition: 0, contender: 0, run, path, purpose: Purpose::Compare };
        let jobs: Vec<Job> = (0..scenario.runs).map(job).collect();
        let update = |now, _| progress(place * jobs.len() + now);
        let plain = Options::new(options.jobs, options.cancelled, &update);
        let results = compare::simulate(&prepared, &jobs, &plain, &mut Cost::default(), &mut |_, _| Ok(()))?;
        let after = chosen(&results, flow, class.map(|_| group));
        let unfinished = unfinished(&after, bulk);
        let times: Vec<f64> = if class.is_some() {
            let values = of_class(&[after, before.clone()], measure);
            series.push(difference::pairs(&values[0], &values[1]));
            values[0].iter().flatten().filter_map(|value| value.value).collect()
        } else {
            series.push(difference::pairs(&of_flows(&after, bulk), &of_flows(&before, bulk)));
            after.iter().flatten().map(|flow| flow.time.as_secs_f64()).collect()
        };
        found.push((candidate, times, unfinished));
    }
    let unfinished_before = unfinished(&before, bulk);
    let changes = found.into_iter().zip(difference::family(&series, scenario.seed));
    let change = |((candidate, times, unfinished), difference): ((Candidate, Vec<f64>, usize), _)| {
        let effect = Effect { difference, unfinished, unfinished_before };
        Change::new(&candidate, &times, effect, bulk, scenario.min_effect)
    };
    Ok(changes.map(change).collect())
}

/// Returns the number of parts of the flows that did not finish.
fn unfinished(runs: &[Vec<&FlowResult>], bulk: bool) -> usize {
    let of = |flow: &&FlowResult| {
        let FlowParts { n, completed } = parts(flow, bulk);
        n - completed
    };
    runs.iter().flatten().map(of).sum()
}

/// Returns the explained flows of each run, of the class `group` if there are classes.
fn chosen(results: &[RunResult], flow: Option<usize>, group: Option<usize>) -> Vec<Vec<&FlowResult>> {
    let is_own =
        |flow: &FlowResult| flow.class == Class::Contender && group.is_none_or(|group| flow.group == group);
    let of_run = |result: &RunResult| -> Vec<usize> {
        let own = result.flows.iter().enumerate().filter(|(_, flow)| is_own(flow));
        own.map(|(at, _)| at).filter(|at| flow.is_none_or(|flow| *at + 1 == flow)).collect()
    };
    results.iter().map(|result| of_run(result).into_iter().map(|at| &result.flows[at]).collect()).collect()
}

/// Runs every contender in every condition, and adds up the accounts of its flows.
fn noted_runs(
    scenario: &Scenario,
    prepared: &[Prepared<'_>],
    paths: &[Vec<Option<usize>>],
    question: Question,
    options: &Options<'_>,
) -> Result<Vec<Runs>, RunError> {
    let mut all: Vec<Runs> = Vec::new();
    let mut jobs = Vec::new();
    for (condition, chosen) in paths.iter().enumerate() {
        for (contender, chosen) in chosen.iter().enumerate() {
            let path = match scenario.contenders[contender].transport {
                Transport::Tcp { path: Some(path) } => Some(path),
                _ => *chosen,
            };
            let paths = scenario.conditions[condition].experiment.paths().len();
            let own = groups(&scenario.conditions[condition]);
            let tallies = own.into_iter().map(|group| (group, Tally::new(paths))).collect();
            all.push(Runs { condition, contender, path, results: Vec::new(), tallies });
            let job = |run| Job { condition, contender, run, path: *chosen, purpose: Purpose::Compare };
            jobs.extend((0..scenario.runs).map(job));
        }
    }
    let outages: Vec<_> =
        scenario.conditions.iter().map(|condition| condition.experiment.outages()).collect();
    let one = |job: &Job| -> Result<(RunResult, Vec<Tally>), RunError> {
        let condition = &scenario.conditions[job.condition];
        let experiment = &condition.experiment;
        let (mut result, notes) =
            prepared[job.condition].run_with(job, options.cancelled, Notes::default())?;
        let mut stories = notes.into_stories();
        let groups = groups(condition);
        let mut tallies = vec![Tally::new(experiment.paths().len()); groups.len()];
        for (at, flow) in result.flows.iter().enumerate() {
            let class = class(condition, flow.group);
            let place = groups.iter().position(|group| class.is_none() || *group == flow.group);
            if let Some(place) = place
                && flow.class == Class::Contender
                && question.flow.is_none_or(|flow| at + 1 == flow)
            {
                let paths = &experiment.pairs[flow.pair].paths;
                let direction = direction(condition, flow.group);
                let account = Account::new(&mut stories, at, direction, &pieces(flow), paths);
                let bulk = measure(condition, class) == Measure::Goodput;
                let unended =
                    stories.0.get(at).map(|story| story.outages.unended(paths, story.progress.last_time()));
                let planned = &outages[job.condition];
                tallies[place].add(flow, parts(flow, bulk), account, planned, unended.unwrap_or_default());
            }
        }
        result.forget_details();
        Ok((result, tallies))
    };
    let results = compare::in_parallel(&one, &jobs, options, &mut |_, _| Ok(()))?;
    for (place, (result, tallies)) in results.into_iter().enumerate() {
        let runs = &mut all[place / scenario.runs as usize];
        runs.results.push(result);
        runs.tallies.iter_mut().zip(tallies).for_each(|((_, sum), tally)| *sum += tally);
    }
    Ok(all)
}

#[cfg(test)]
mod part_tests {
    use anabranch_sim::Failure;
    use anabranch_sim::application::{Burst, VideoReport};
    use anabranch_units::{Duration, Time};

    use super::*;
    use crate::made;

    fn flow(app: AppReport, outcome: Outcome) -> FlowResult {
        let mut flow = made::flow(Class::Contender, None);
        (flow.report.app, flow.report.outcome) = (app, outcome);
        flow
    }

    fn video(segments: u32) -> AppReport {
        AppReport::Video(VideoReport {
            segments,
            startup: None,
            stalls: 0,
            stalled: Duration::ZERO,
            bitrate_bps: None,
            switches: 0,
        })
    }

    /// A video that is not over lacks at least one segment.
    #[test]
    fn parts_are_those_that_a_flow_has_and_those_that_ended() {
        let of = |app: AppReport, outcome| {
            let FlowParts { n, completed } = parts(&flow(app, outcome), false);
            (n, completed)
        };
        assert_eq!(of(video(6), Outcome::Completed), (6, 6));
        assert_eq!(of(video(6), Outcome::Running), (7, 6));
        assert_eq!(of(made::requests([Some(1), Some(2), None]), Outcome::Running), (3, 2));
        let mut planned = flow(made::requests([Some(1), None]), Outcome::Running);
        planned.planned = Some(20);
        let FlowParts { n, completed } = parts(&planned, false);
        assert_eq!((n, completed), (20, 1));
        let bursts = |delays: &[Option<u64>]| {
            let burst = |delay: &Option<u64>| Burst {
                at: Time::ZERO,
                bytes: 1000,
                delay: delay.map(Duration::from_millis),
            };
            AppReport::OnOff(delays.iter().map(burst).collect())
        };
        let failed = Outcome::Failed(Failure::Connect);
        assert_eq!(of(bursts(&[Some(1), None]), Outcome::Running), (2, 1));
        assert_eq!(of(bursts(&[Some(1), Some(2)]), failed), (3, 2), "the rest never began");
        for app in [bursts(&[]), made::requests([])] {
            assert_eq!(of(app, Outcome::Running), (1, 0), "it has not connected");
        }
    }

    /// Responses are in order: what follows one that has not arrived has not arrived completely either.
    #[test]
    fn the_explained_exchanges_end_with_the_first_unanswered_one() {
        let app = made::requests([Some(1), Some(2), None, None]);
        let Pieces::Exchanges(all) = pieces(&flow(app, Outcome::Running)) else { panic!("no exchanges") };
        assert_eq!(all, [(100, 1000); 2]);
        let Pieces::InTurn(count, _) = pieces(&flow(video(6), Outcome::Running)) else {
            panic!("no segments")
        };
        assert_eq!(count, 6);
    }

    /// A contender that lost the slow half of its flows is not the fastest.
    #[test]
    fn the_fastest_contender_has_delivered_everything() {
        let scenario = made::scenario(made::TWO_PATHS);
        let runs = |contender: usize, tally: Tally| Runs {
            condition: 0,
            contender,
            path: None,
            results: Vec::new(),
            tallies: vec![(0, tally)],
        };
        let of = |times: [(u64, bool); 3]| {
            let all: Vec<Runs> = times
                .into_iter()
                .enumerate()
                .map(|(at, (millis, complete))| runs(at, row::made_tally(millis, complete)))
                .collect();
            fastest(&scenario, &all, 0, 0).map(|(contender, _)| contender)
        };
        assert_eq!(of([(300, true), (100, true), (200, true)]), Some(1));
        assert_eq!(of([(300, true), (100, false), (200, true)]), Some(2));
        assert_eq!(of([(300, false); 3]), None);
    }
}
