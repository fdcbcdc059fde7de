//! One run: the network and the flows of a scenario, simulated for one contender.

mod classes;
mod endpoints;
mod error;
#[cfg(test)]
mod flow_tests;
mod flows;
mod joins;
mod observed;
mod scatter;
#[cfg(test)]
mod seed_tests;

use core::sync::atomic::{AtomicBool, Ordering};
use std::fs::File;
use std::io::{self, BufWriter, Write};

pub use anabranch_measure::{Class, FlowResult};
use anabranch_sim::topology::Topology;
use anabranch_sim::traffic::Drawn;
pub use anabranch_sim::{AppReport, LinkReport, application};
use anabranch_sim::{EndReport, FlowSpec, MiddleboxReport, Network, Performance, Recorder, Sim, Wants};
use anabranch_units::{Duration, Time};

pub use error::RunError;
use flows::{Choice, Owned, Owner, source};
use observed::{BOTH, Both, Captured, Lent, Observed, Passing};

use crate::capture::{self, Capture, CaptureError, Captures, Settings, Viewpoint};
use crate::job::{Job, Purpose};
use crate::network::{self, Draws};
use crate::options::Options;
use crate::recording::{self, Beginning, Recording, RunRecorder};
use crate::scenario::ScenarioError;
use crate::scenario::lower_bound::{Limits, LowerBound};
use crate::scenario::{Condition, Direction, Experiment, FlowSize, Phases, Scenario, Transport};
use crate::usage::{self, Usage};

fn impossible(error: impl core::fmt::Display) -> RunError {
    RunError::Scenario(ScenarioError::new(error.to_string()))
}

/// A flow of a run that is not simulated yet.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The flow.
    pub spec: FlowSpec,
    /// Its owner, and the position of its class of traffic; none for a background flow.
    pub owner: Option<(Class, usize)>,
    /// The position of the path of its initial subflow; none for a background flow.
    pub path: Option<usize>,
}

/// The flows, links and middleboxes of a run, after its end.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// The counted flows, in the order of their drawing, without background flows.
    pub flows: Vec<FlowResult>,
    /// The links, in the order of the experiment's; empty in a comparison.
    pub links: Vec<LinkReport>,
    /// The middleboxes, in the order of the experiment's paths; empty in a comparison.
    pub middleboxes: Vec<MiddleboxReport>,
    /// The data of each path; empty if none has a price or a quota.
    pub usage: Vec<Usage>,
    /// The amount of simulation.
    pub performance: Performance,
}

impl RunResult {
    /// Discards details that no statistic of a comparison needs, to save memory.
    pub(crate) fn forget_details(&mut self) {
        self.links = Vec::new();
        self.middleboxes = Vec::new();
        for flow in &mut self.flows {
            flow.report.sender = EndReport::default();
            flow.report.receiver = EndReport::default();
        }
    }
}

/// The time at which a connection gave up Multipath TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// In its handshake: the peer did not seem to support it.
    Handshake,
    /// Later (RFC 8684 section 3.7).
    Data,
}

/// Returns when a flow that is to use Multipath TCP has given it up; none if it uses it, or has no details.
pub(crate) fn fallback(flow: &FlowResult) -> Option<Fallback> {
    let ends = [&flow.report.sender, &flow.report.receiver].map(|end| end.connection.as_ref());
    let [sender, receiver] = ends;
    match (sender?, receiver) {
        (one, _) | (_, Some(one)) if one.fallbacks > 0 => Some(Fallback::Data),
        (one, _) if !one.mptcp => Some(Fallback::Handshake),
        _ => None,
    }
}

/// The common state of all runs of a condition.
#[derive(Clone, Debug)]
pub struct Prepared<'a> {
    scenario: &'a Scenario,
    condition: &'a Condition,
    topology: Topology,
    /// By pair of hosts.
    limits: Vec<Limits>,
    /// The same for data in the other direction, if a class of transfers has it.
    reversed: Vec<Limits>,
    /// The phases that every run draws.
    phases: Option<Phases>,
    /// The least and the greatest time between a client's connection and its first write, and between a request and
    /// the server's first write.
    reaction: (Duration, Duration),
    answering: (Duration, Duration),
    /// The measured path of competing TCPs without a configured path.
    beside: Option<usize>,
    /// By contender, the measured path of a plain TCP for each class of traffic; empty without classes.
    class_paths: Vec<Vec<usize>>,
}

/// Makes the recorder of a run.
type Make<'a> = Box<dyn FnOnce(&Network, &[FlowSpec]) -> Result<Box<dyn RunRecorder + 'a>, RunError> + 'a>;

/// One run to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    /// The position of the contender.
    contender: usize,
    /// The path of a plain TCP without a configured path, or of an initial subflow on another path.
    path: Option<usize>,
    draws: Draws,
    /// True if only the competing TCPs are simulated, on `path`, instead of the contender's flows.
    beside_alone: bool,
    /// True if a plain TCP has the measured path of each class in place of `path`.
    by_class: bool,
}

impl<'a> Prepared<'a> {
    /// Prepares the condition at `position`.
    ///
    /// # Errors
    /// If no network can be made of the scenario.
    pub fn new(scenario: &'a Scenario, position: usize) -> Result<Prepared<'a>, RunError> {
        let phases = scenario.conditions[position].experiment.phases.in_single_run();
        Prepared::with_phases(scenario, position, phases)
    }

    /// Prepares the condition at `position` for a comparison. Its runs draw phases unless the scenario
    /// disables them.
    ///
    /// # Errors
    /// If no network can be made of the scenario.
    pub fn for_comparison(scenario: &'a Scenario, position: usize) -> Result<Prepared<'a>, RunError> {
        let phases = scenario.conditions[position].experiment.phases.in_comparison();
        Prepared::with_phases(scenario, position, phases)
    }

    /// Prepares the condition at `position` for runs that draw `phases`.
    ///
    /// # Errors
    /// If no network can be made of the scenario.
    pub fn with_phases(
        scenario: &'a Scenario,
        position: usize,
        phases: Option<Phases>,
    ) -> Result<Prepared<'a>, RunError> {
        let condition = &scenario.conditions[position];
        let experiment = &condition.experiment;
        let topology = network::build(experiment, Draws::single(0), None).map_err(impossible)?;
        let limits = (0..experiment.traffic.pairs)
            .chain(experiment.traffic.beside.iter().flat_map(|beside| beside.pairs.iter().copied()))
            .max()
            .map_or(0, |last| last + 1);
        let of = |count: usize, experiment: &Experiment| -> Vec<Limits> {
            let mut limits: Vec<Limits> = (0..count).map(|pair| Limits::new(experiment, pair)).collect();
            if let Some(phases) = &phases {
                for (limits, pair) in limits.iter_mut().zip(&experiment.pairs) {
                    limits
                        .shorten(pair.paths.iter().map(|path| network::shortening(experiment, path, phases)));
                }
            }
            limits
        };
        let reversed = match classes::have_reverse_transfers(experiment) {
            true => of(limits, &classes::reversed(experiment)),
            false => Vec::new(),
        };
        let limits = of(limits, experiment);
        Ok(Prepared {
            scenario,
            condition,
            topology,
            limits,
            reversed,
            phases,
            reaction: Default::default(),
            answering: Default::default(),
            beside: None,
            class_paths: Vec::new(),
        })
    }

    /// Lets a client of a transfer write for the first time a random time after it has connected, between
    /// `least` and `most`, as a program on a real host does.
    #[must_use]
    pub fn reacting(self, least: Duration, most: Duration) -> Prepared<'a> {
        Prepared { reaction: (least, most), ..self }
    }

    /// Lets a server answer a random time after it has received a request, between `least` and `most`, as a program
    /// on a real host does.
    #[must_use]
    pub fn answering(self, least: Duration, most: Duration) -> Prepared<'a> {
        Prepared { answering: (least, most), ..self }
    }

    /// Returns the flows of run number `run` of the contender at `position`, in the order of the simulator's, for the
    /// same run in another network, and the latest end of the run.
    ///
    /// # Errors
    /// If none can be drawn.
    pub fn planned(&self, position: usize, run: u32) -> Result<(Vec<Planned>, Time), RunError> {
        let (specs, owners) = self.flows(self.task_of(position, run))?;
        let end = self.end(&specs);
        let planned = |(spec, owner): (FlowSpec, Owner)| Planned {
            path: owner.map(|owner| owner.path),
            owner: owner.map(|owner| (owner.class, owner.group)),
            spec,
        };
        Ok((specs.into_iter().zip(owners).map(planned).collect(), end))
    }

    /// Returns the path of the competing TCPs, if it was measured.
    pub(crate) fn beside(&self) -> Option<usize> {
        self.beside
    }

    /// Sets the path of the competing TCPs, unless the scenario configures one.
    pub(crate) fn set_beside(&mut self, path: Option<usize>) {
        self.beside = path;
    }

    /// Returns the paths that [`Prepared::set_class_paths`] has set.
    pub(crate) fn class_paths(&self) -> &[Vec<usize>] {
        &self.class_paths
    }

    /// Sets the path of each class of traffic for the plain TCPs without a configured path, by contender. The
    /// runs of a comparison use these paths in place of one path for all classes.
    pub(crate) fn set_class_paths(&mut self, paths: Vec<Vec<usize>>) {
        self.class_paths = paths;
    }

    /// Returns the maximum payload rate of all paths together for the contender at `position`, as if no pair
    /// of hosts shared links with another one.
    pub fn ideal_goodput_bps(&self, position: usize) -> f64 {
        let limits = &self.limits[..self.condition.experiment.traffic.pairs];
        limits.iter().map(|limits| limits.ideal_goodput_bps(&self.condition.configs[position])).sum()
    }

    /// Simulates run number `run` (from 0) of the contender at `position`. A plain TCP without a configured
    /// path uses the one with the smallest lower bound, since there are no selection runs.
    ///
    /// # Errors
    /// If the run cannot be made, or `cancelled` is set.
    pub fn run(&self, position: usize, run: u32, cancelled: &AtomicBool) -> Result<RunResult, RunError> {
        self.simulate(self.task_of(position, run), cancelled)
    }

    /// Simulates a run without a recorder.
    fn simulate(&self, task: Task, cancelled: &AtomicBool) -> Result<RunResult, RunError> {
        self.record(task, cancelled, |_, _| Ok(()))
    }

    /// Returns the task of run number `run` of the contender at `position`, outside a comparison.
    fn task_of(&self, position: usize, run: u32) -> Task {
        Task { contender: position, path: None, draws: self.draws(run), beside_alone: false, by_class: false }
    }

    /// Returns the task of `job`.
    fn task(&self, job: &Job) -> Task {
        let draws = match job.purpose {
            Purpose::Select | Purpose::SelectBeside => Draws {
                seed: self.scenario.selection_seed(job.run),
                series: self.scenario.selection_series(),
                run: job.run,
            },
            Purpose::Compare | Purpose::Alone | Purpose::OtherStart => self.draws(job.run),
        };
        let beside_alone = job.purpose == Purpose::SelectBeside;
        let by_class = job.purpose == Purpose::Compare;
        Task { contender: job.contender, path: job.path, draws, beside_alone, by_class }
    }

    /// Returns the draws of run number `run` of the comparison. Without phases [`topology`] makes the same
    /// draws from the seed of the run: an emulation of the run meets the same network.
    fn draws(&self, run: u32) -> Draws {
        let seed = self.scenario.run_seed(run);
        match self.phases {
            Some(_) => Draws { seed, series: self.scenario.run_series(), run },
            None => Draws::single(seed),
        }
    }

    /// Simulates `job` as a comparison does, with a recorder, and returns the recorder too.
    ///
    /// # Errors
    /// If the run cannot be made, or `cancelled` is set.
    pub fn run_with<R: Recorder>(
        &self,
        job: &Job,
        cancelled: &AtomicBool,
        recorder: R,
    ) -> Result<(RunResult, R), RunError> {
        let mut recorder = recorder;
        let lent = Box::new(Lent(&mut recorder));
        let result = self.observe(self.task(job), cancelled, R::WANTS, Box::new(|_, _| Ok(lent)))?;
        Ok((result, recorder))
    }

    /// Simulates `job`, and captures its packets if requested.
    ///
    /// # Errors
    /// If the run cannot be made or captured, or it was cancelled.
    pub fn run_job(&self, job: &Job, options: &Options<'_>) -> Result<RunResult, RunError> {
        let task = self.task(job);
        let Some((captures, out)) = capture_of(job, options) else {
            return self.simulate(task, options.cancelled);
        };
        let fail = |error| not_captured(captures.failure(job, error));
        let out = out.map_err(not_captured)?;
        self.record_packets(task, options.cancelled, captures.settings(), out, &fail)
    }

    /// Simulates `job`, records its events, and captures its packets if requested.
    ///
    /// # Errors
    /// If the run cannot be made, recorded or captured, or it was cancelled. A cancelled run is recorded until then.
    pub fn run_recorded(
        &self,
        job: &Job,
        options: &Options<'_>,
        recording: &dyn Recording,
    ) -> Result<RunResult, RunError> {
        let task = self.task(job);
        let begin = |network: &Network, flows: &[FlowSpec]| {
            recording.begin(&Beginning { job, seed: task.draws.seed, network, flows })
        };
        let Some((captures, out)) = capture_of(job, options) else {
            return self.observe(task, options.cancelled, recording::WANTS, Box::new(begin));
        };
        let fail = |error| not_captured(captures.failure(job, error));
        let out = out.map_err(not_captured)?;
        let Settings { viewpoint, snap_len } = captures.settings();
        let host = self.viewpoint(viewpoint);
        let both: Make<'_> = Box::new(|network, flows| {
            let capture = Capture::new(network, host, snap_len, out).map_err(fail)?;
            let capture = Captured { capture, fail: &fail };
            Ok(Box::new(Both { recorder: begin(network, flows)?, capture }))
        });
        self.observe(task, options.cancelled, BOTH, both)
    }

    /// Simulates a run as [`Prepared::run`] does, and writes a capture of its packets to `out`. `fail`
    /// converts errors of writing.
    ///
    /// # Errors
    /// If the run cannot be made or captured, or `cancelled` is set.
    pub fn run_captured(
        &self,
        position: usize,
        run: u32,
        cancelled: &AtomicBool,
        settings: Settings,
        out: impl Write,
        fail: &dyn Fn(io::Error) -> RunError,
    ) -> Result<RunResult, RunError> {
        self.record_packets(self.task_of(position, run), cancelled, settings, out, fail)
    }

    /// Returns the host that captures the packets of its interfaces.
    fn viewpoint(&self, viewpoint: Viewpoint) -> anabranch_sim::HostId {
        let pair = &self.topology.pairs[0];
        match (viewpoint, self.condition.experiment.traffic.direction) {
            (Viewpoint::Sender, Direction::Upload) | (Viewpoint::Receiver, Direction::Download) => {
                pair.client
            }
            (Viewpoint::Sender, Direction::Download) | (Viewpoint::Receiver, Direction::Upload) => {
                pair.server
            }
        }
    }

    /// Simulates a run and captures its packets.
    fn record_packets(
        &self,
        task: Task,
        cancelled: &AtomicBool,
        settings: Settings,
        out: impl Write,
        fail: &dyn Fn(io::Error) -> RunError,
    ) -> Result<RunResult, RunError> {
        let Settings { viewpoint, snap_len } = settings;
        let host = self.viewpoint(viewpoint);
        let make: Make<'_> = Box::new(move |network, _| {
            let capture = Capture::new(network, host, snap_len, out).map_err(fail)?;
            Ok(Box::new(Captured { capture, fail }))
        });
        self.observe(task, cancelled, capture::WANTS, make)
    }

    /// Simulates a run with the recorder that `make` returns, which gets the events that it `wants`. Not generic: another crate
    /// would compile the simulator again.
    fn observe(
        &self,
        task: Task,
        cancelled: &AtomicBool,
        wants: Wants,
        make: Make<'_>,
    ) -> Result<RunResult, RunError> {
        match recording::WANTS.and(wants) == recording::WANTS {
            true => self.record(task, cancelled, |network, flows| {
                make(network, flows).map(|recorder| Passing::<false> { wants, recorder })
            }),
            false => self.record(task, cancelled, |network, flows| {
                make(network, flows).map(|recorder| Passing::<true> { wants, recorder })
            }),
        }
    }

    /// Simulates a run with the recorder that `make` returns, until the end or until it is broken, and then
    /// ends it with the report, and whether the run was not cancelled.
    fn record<R: Observed>(
        &self,
        task: Task,
        cancelled: &AtomicBool,
        make: impl FnOnce(&Network, &[FlowSpec]) -> Result<R, RunError>,
    ) -> Result<RunResult, RunError> {
        let experiment = &self.condition.experiment;
        let seed = task.draws.seed;
        let (specs, classes) = self.flows(task)?;
        let until = self.end(&specs);
        // `self.topology` has the same hosts and addresses, whatever the seed.
        let network = match self.phases.is_some() || !network::is_constant(experiment) {
            true => network::build(experiment, task.draws, self.phases.as_ref()).map_err(impossible)?.network,
            false => self.topology.network.clone(),
        };
        let recorder = make(&network, &specs)?;
        let mut sim = Sim::new(network, specs, seed, recorder).map_err(impossible)?;
        // In pieces, so that a long run can be cancelled.
        while !sim.is_complete() && sim.next_time().is_some_and(|next| next <= until) {
            if cancelled.load(Ordering::Relaxed) {
                let report = sim.report();
                sim.into_recorder().end(&report, false)?;
                return Err(RunError::Cancelled);
            }
            if sim.recorder().is_broken() {
                break;
            }
            for _ in 0..100_000 {
                if sim.is_complete() || sim.next_time().is_none_or(|next| next > until) {
                    break;
                }
                sim.step();
            }
        }
        let report = if sim.recorder().is_broken() { sim.report() } else { sim.run(until) };
        let now = sim.now();
        sim.into_recorder().end(&report, true)?;
        let mut bounds: [Vec<Option<Vec<LowerBound>>>; 2] =
            [vec![None; self.limits.len()], vec![None; self.reversed.len()]];
        let mut flows = Vec::with_capacity(classes.len());
        for (report, class) in report.flows.into_iter().zip(classes) {
            let Some(Owned { class, group, pair, path }) = class else { continue };
            let bytes = match report.fct {
                Some(_) => report.size.map_or(report.delivered, |size| size.0),
                None => report.delivered,
            };
            let lower_bound = self.way(group).map(|(way, limits)| {
                let bounds = bounds[way][pair].get_or_insert_with(|| self.bounds(&limits[pair], pair));
                bounds.iter_mut().map(|bound| bound.completion(bytes)).min().unwrap_or_default()
            });
            let time = report.fct.or(report.ended).unwrap_or(now.since(report.start));
            let again = report.sender.subflows.iter().map(|subflow| subflow.counters.segments_reinjected);
            let reinjected_segments = again.sum();
            flows.push(FlowResult {
                class,
                group,
                pair,
                report,
                path,
                reinjected_segments,
                lower_bound,
                time,
                planned: experiment.classes.get(group).and_then(|class| class.kind.planned()),
            });
        }
        debug_assert!(!flows.is_empty());
        Ok(RunResult {
            flows,
            usage: usage::of_run(experiment, &self.topology.pairs, &report.links),
            links: report.links,
            middleboxes: report.middleboxes,
            performance: report.performance,
        })
    }

    /// Returns the latest end of a run.
    fn end(&self, specs: &[FlowSpec]) -> Time {
        let experiment = &self.condition.experiment;
        if !experiment.classes.is_empty() {
            return self.end_of_classes(specs);
        }
        let last = specs.iter().map(|spec| spec.start).max().unwrap_or(Time::ZERO);
        match &experiment.traffic.size {
            FlowSize::Bulk => last + experiment.traffic.duration,
            _ => last + experiment.deadline,
        }
    }

    /// Returns the reference bounds that all contenders of the condition share for flows of the pair at
    /// `position`: multipath over all paths, and a plain TCP on each path. The earliest bound counts.
    fn bounds(&self, limits: &Limits, position: usize) -> Vec<LowerBound> {
        let base = &self.condition.base;
        let mut bounds = vec![limits.all_paths(base)];
        for (contender, config) in self.scenario.contenders.iter().zip(&self.condition.configs) {
            if matches!(contender.transport, Transport::Multipath(_)) {
                bounds.push(limits.all_paths(config));
            }
        }
        let plain = &self.condition.plain;
        let paths = 0..self.condition.experiment.pairs[position].paths.len();
        bounds.extend(paths.map(|path| limits.one_path(plain, path)));
        bounds
    }
}

/// Returns the captures of the run of `job` and the file for them, if they are requested.
fn capture_of<'a>(
    job: &Job,
    options: &Options<'a>,
) -> Option<(&'a Captures, Result<BufWriter<File>, CaptureError>)> {
    let captures = options.captures.filter(|_| job.purpose == Purpose::Compare)?;
    Some((captures, captures.writer(job)?))
}

fn not_captured(error: CaptureError) -> RunError {
    RunError::Capture(error.to_string())
}

/// Returns the flows of an experiment in a run with `seed`, without background and competing flows: the start
/// and the size of each.
///
/// # Errors
/// If none can be drawn.
pub fn drawn(experiment: &Experiment, seed: u64) -> Result<Vec<Drawn>, RunError> {
    source(experiment, "flows", experiment.traffic.flows).draw(seed).map_err(impossible)
}

/// Returns the network of an experiment in a run with `seed`: only random starts of traces depend on the
/// seed. It has the pairs of the experiment, with their paths in order.
///
/// # Errors
/// If no network can be made of it.
pub fn topology(experiment: &Experiment, seed: u64) -> Result<Topology, RunError> {
    network::build(experiment, Draws::single(seed), None).map_err(impossible)
}
