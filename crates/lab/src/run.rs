//! One run: the network and the flows of a scenario, simulated for one contender.

use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, Write};

use anabranch_link::{self as link, LinkConfig, Loss, QueueLimit, Step, WhenDown};
use anabranch_sim::topology::{self, Duplex, Pair, PathSpec, ServerAddresses, Topology};
use anabranch_sim::traffic::{Drawn, Starts, Traffic as Source};
use anabranch_sim::{EndReport, FlowReport, FlowSpec, Performance, Recorder, Sim};
use anabranch_stack::config::ConnectionConfig;
use anabranch_units::{Bytes, Duration, RandomStream, Rate, Time};

use crate::capture::{Capture, CaptureError, Settings, Viewpoint};
use crate::compare::{Job, Options, Purpose};
use crate::lower_bound::{Limits, LowerBound};
use crate::scenario::{
    Capacity, CommonLink, Condition, Direction, Experiment, FlowSize, Jitter, LossModel, Path, Phases,
    Scenario, Start, TraceStart, Transport,
};
use crate::source::ScenarioError;
use crate::units::QueueSize;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// It was told to stop.
    Cancelled,
    /// The scenario asks for something that cannot be simulated.
    Scenario(ScenarioError),
    /// Its packets could not be captured.
    Capture(String),
    /// Its samples could not be written.
    Samples(String),
}

impl core::fmt::Display for RunError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RunError::Cancelled => f.write_str("stopped before the end"),
            RunError::Scenario(error) => error.fmt(f),
            RunError::Capture(error) | RunError::Samples(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for RunError {}

fn impossible(error: impl core::fmt::Display) -> RunError {
    RunError::Scenario(ScenarioError::new(error.to_string()))
}

/// To whom a flow belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The contender.
    Contender,
    /// A plain TCP of the same traffic beside the contender's.
    Beside,
}

/// What became of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowResult {
    /// To whom it belongs.
    pub class: Class,
    /// What the simulator reports.
    pub report: FlowReport,
    /// The position of the path of its first subflow.
    pub path: usize,
    /// Data segments that its sender has sent again on another subflow.
    pub reinjected_segments: u64,
    /// No schedule could have delivered what was delivered sooner.
    pub lower_bound: Duration,
    /// How long it had: to the end of the run, if it was not delivered before.
    pub time: Duration,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// The flows that count, in the order of their drawing; background flows do not.
    pub flows: Vec<FlowResult>,
    /// How much was simulated.
    pub performance: Performance,
}

impl RunResult {
    /// Drops what no statistic of a comparison needs, so that many runs take less memory.
    pub(crate) fn forget_details(&mut self) {
        for flow in &mut self.flows {
            flow.report.sender = EndReport::default();
            flow.report.receiver = EndReport::default();
        }
    }
}

/// What all runs of a condition have in common.
#[derive(Clone, Debug)]
pub struct Prepared<'a> {
    scenario: &'a Scenario,
    condition: &'a Condition,
    topology: Topology,
    limits: Limits,
    /// The phases that every run draws.
    phases: Option<Phases>,
    /// The path of the TCPs beside the contender's flows that have none of their own, as measured.
    beside: Option<usize>,
}

/// To whom a flow belongs, and the position of its first path; a background flow belongs to nobody.
type Owner = Option<(Class, usize)>;

/// One run to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    /// The position of the contender.
    contender: usize,
    /// The path of a plain TCP that has none of its own, or of a first subflow that starts elsewhere.
    path: Option<usize>,
    seed: u64,
    /// Whether it has the TCPs beside alone, on `path`, in the place of the contender's flows.
    beside_alone: bool,
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

    /// Prepares the condition at `position` for a comparison, whose runs draw phases unless the scenario
    /// says otherwise.
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
        let topology = build_topology(&condition.experiment, 0, None).map_err(impossible)?;
        let mut limits = Limits::new(&condition.experiment);
        if let Some(phases) = &phases {
            let paths = &condition.experiment.paths;
            limits.shorten(paths.iter().map(|path| phases.delay_limit(path.rtt)));
        }
        Ok(Prepared { scenario, condition, topology, limits, phases, beside: None })
    }

    /// The path of the TCPs beside the contender's flows, where it was measured.
    pub(crate) fn beside(&self) -> Option<usize> {
        self.beside
    }

    /// Lets the TCPs beside the contender's flows take `path`, unless the scenario names another.
    pub(crate) fn set_beside(&mut self, path: Option<usize>) {
        self.beside = path;
    }

    /// The greatest payload rate of all paths together for the contender at `position`.
    pub fn ideal_goodput_bps(&self, position: usize) -> f64 {
        self.limits.ideal_goodput_bps(&self.condition.configs[position])
    }

    /// Simulates run number `run` (from 0) of the contender at `position`. A plain TCP without a path of
    /// its own takes the one with the smallest lower bound, since no other run tells which is best.
    ///
    /// # Errors
    /// If the run cannot be made, or `cancelled` has become true.
    pub fn run(&self, position: usize, run: u32, cancelled: &AtomicBool) -> Result<RunResult, RunError> {
        let seed = self.scenario.run_seed(run);
        let task = Task { contender: position, path: None, seed, beside_alone: false };
        self.record(task, cancelled, (), |()| false).map(|(result, ())| result)
    }

    /// Simulates `job`, and captures its packets if that is wanted.
    ///
    /// # Errors
    /// If the run cannot be made or captured, or it was told to stop.
    pub fn run_job(&self, job: &Job, options: &Options<'_>) -> Result<RunResult, RunError> {
        let seed = match job.purpose {
            Purpose::Select | Purpose::SelectBeside => self.scenario.selection_seed(job.run),
            Purpose::Compare | Purpose::Alone | Purpose::OtherStart => self.scenario.run_seed(job.run),
        };
        let beside_alone = job.purpose == Purpose::SelectBeside;
        let task = Task { contender: job.contender, path: job.path, seed, beside_alone };
        let captures = options.captures.filter(|_| job.purpose == Purpose::Compare);
        let wanted = captures.and_then(|captures| Some((captures, captures.writer(job)?)));
        let Some((captures, out)) = wanted else {
            return self.record(task, options.cancelled, (), |()| false).map(|(result, ())| result);
        };
        let failed = |error: CaptureError| RunError::Capture(error.to_string());
        let fail = |error| failed(captures.failure(job, error));
        self.record_packets(task, options.cancelled, captures.settings(), out.map_err(failed)?, &fail)
    }

    /// Simulates as [`Prepared::run`], and writes a capture of its packets to `out`. `fail` makes an error of one that
    /// cannot be written.
    ///
    /// # Errors
    /// If the run cannot be made or captured, or `cancelled` has become true.
    pub fn run_captured(
        &self,
        position: usize,
        run: u32,
        cancelled: &AtomicBool,
        settings: Settings,
        out: impl Write,
        fail: &dyn Fn(io::Error) -> RunError,
    ) -> Result<RunResult, RunError> {
        let task =
            Task { contender: position, path: None, seed: self.scenario.run_seed(run), beside_alone: false };
        self.record_packets(task, cancelled, settings, out, fail)
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
        let pair = &self.topology.pairs[0];
        let host = match (viewpoint, self.condition.experiment.traffic.direction) {
            (Viewpoint::Sender, Direction::Upload) | (Viewpoint::Receiver, Direction::Download) => {
                pair.client
            }
            (Viewpoint::Sender, Direction::Download) | (Viewpoint::Receiver, Direction::Upload) => {
                pair.server
            }
        };
        let capture = Capture::new(&self.topology.network, host, snap_len, out).map_err(fail)?;
        // A run whose capture has failed is stopped, and `finish` says why.
        let broken = |capture: &Capture<_>| capture.error().is_some();
        let (result, capture) = self.record(task, cancelled, capture, broken)?;
        capture.finish().map_err(fail)?;
        Ok(result)
    }

    /// Simulates a run while `recorder` listens, until the end or until it is `broken`.
    fn record<R: Recorder>(
        &self,
        task: Task,
        cancelled: &AtomicBool,
        recorder: R,
        broken: impl Fn(&R) -> bool,
    ) -> Result<(RunResult, R), RunError> {
        let experiment = &self.condition.experiment;
        let seed = task.seed;
        let (specs, classes) = self.flows(task)?;
        let until = self.end(&specs);
        let random = |path: &Path| path.trace_start == TraceStart::Random;
        // The hosts and addresses are those of `self.topology`, whatever the seed.
        let network = match self.phases.is_some() || experiment.paths.iter().any(random) {
            true => build_topology(experiment, seed, self.phases.as_ref()).map_err(impossible)?.network,
            false => self.topology.network.clone(),
        };
        let mut sim = Sim::new(network, specs, seed, recorder).map_err(impossible)?;
        // In pieces, so that a long run can be stopped.
        while !sim.is_complete() && sim.next_time().is_some_and(|next| next <= until) {
            if cancelled.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            if broken(sim.recorder()) {
                break;
            }
            for _ in 0..100_000 {
                if sim.is_complete() || sim.next_time().is_none_or(|next| next > until) {
                    break;
                }
                sim.step();
            }
        }
        let report = if broken(sim.recorder()) { sim.report() } else { sim.run(until) };
        let now = sim.now();
        let mut bounds = self.bounds();
        let mut flows = Vec::with_capacity(classes.len());
        for (report, class) in report.flows.into_iter().zip(classes) {
            let Some((class, path)) = class else { continue };
            let bytes = match report.fct {
                Some(_) => report.size.map_or(report.delivered, |size| size.0),
                None => report.delivered,
            };
            let lower_bound =
                bounds.iter_mut().map(|bound| bound.completion(bytes)).min().unwrap_or_default();
            let time = report.fct.unwrap_or(now.since(report.start));
            let again = report.sender.subflows.iter().map(|subflow| subflow.counters.segments_reinjected);
            let reinjected_segments = again.sum();
            flows.push(FlowResult { class, report, path, reinjected_segments, lower_bound, time });
        }
        debug_assert!(!flows.is_empty());
        Ok((RunResult { flows, performance: report.performance }, sim.into_recorder()))
    }

    /// When a run ends at the latest.
    fn end(&self, specs: &[FlowSpec]) -> Time {
        let experiment = &self.condition.experiment;
        let last = specs.iter().map(|spec| spec.start).max().unwrap_or(Time::ZERO);
        match experiment.traffic.size {
            FlowSize::Bulk => last + experiment.traffic.duration,
            _ => last + experiment.deadline,
        }
    }

    /// The yardstick that all contenders of the condition share: multipath over all paths, or a plain
    /// TCP on the best path, whichever could be sooner.
    fn bounds(&self) -> Vec<LowerBound> {
        let base = &self.condition.base;
        let mut bounds = vec![self.limits.all_paths(base)];
        for (contender, config) in self.scenario.contenders.iter().zip(&self.condition.configs) {
            if matches!(contender.transport, Transport::Multipath(_)) {
                bounds.push(self.limits.all_paths(config));
            }
        }
        let plain = &self.condition.plain;
        let paths = 0..self.condition.experiment.paths.len();
        bounds.extend(paths.map(|path| self.limits.one_path(plain, path)));
        bounds
    }

    /// The flows of a run, and to whom each belongs.
    fn flows(&self, task: Task) -> Result<(Vec<FlowSpec>, Vec<Owner>), RunError> {
        let Task { contender: position, path, seed, beside_alone } = task;
        let experiment = &self.condition.experiment;
        let traffic = &experiment.traffic;
        let pair = &self.topology.pairs[0];
        let config = &self.condition.configs[position];
        let (mut specs, mut classes) = (Vec::new(), Vec::new());
        let latest = self.phases.map_or(Duration::ZERO, |phases| phases.start_limit(self.shortest_rtt()));
        let latest_join = self.phases.map_or(Duration::ZERO, |phases| phases.join_limit(self.shortest_rtt()));
        let mut phase = RandomStream::new(seed, "phase.start");
        let mut join_phase = RandomStream::new(seed, "phase.join");
        let mut add = |pair: &Pair,
                       path: usize,
                       name: String,
                       drawn: Drawn,
                       config: &ConnectionConfig,
                       class: Option<Class>| {
            let mut spec = pair.flow_by(path, name, drawn.size, config.clone()).starting(drawn.start);
            if !latest.is_zero() {
                spec.start += Duration(phase.below(latest.0));
            }
            if !latest_join.is_zero() {
                spec.client_config.join_delay = Duration(join_phase.below(latest_join.0));
            }
            spec.hint = traffic.size_known;
            if traffic.direction == Direction::Download {
                spec = spec.download();
            }
            specs.push(spec);
            classes.push(class.map(|class| (class, path)));
        };
        let mut choice = match (&self.scenario.contenders[position].transport, path) {
            (Transport::Tcp { path: Some(path) }, _) => Choice::Fixed(*path),
            (Transport::Tcp { path: None }, Some(path)) => Choice::Fixed(path),
            (Transport::Tcp { path: None }, None) => self.best(config),
            (Transport::Multipath(_), path) => Choice::Fixed(path.unwrap_or(experiment.initial)),
        };
        let drawn = match beside_alone {
            true => Vec::new(),
            false => source(experiment, "flows", traffic.flows).draw(seed).map_err(impossible)?,
        };
        for (index, flow) in drawn.into_iter().enumerate() {
            add(pair, choice.path(flow.size), format!("{}", index + 1), flow, config, Some(Class::Contender));
        }
        if let Some(beside) = &traffic.beside {
            let plain = self.condition.beside_config();
            let measured = path.filter(|_| beside_alone).or(beside.path).or(self.beside);
            let mut choice = measured.map_or_else(|| self.best(&plain), Choice::Fixed);
            let class = if beside_alone { Class::Contender } else { Class::Beside };
            let drawn = source(experiment, "beside", beside.flows).draw(seed).map_err(impossible)?;
            for (index, flow) in drawn.into_iter().enumerate() {
                let name = format!("beside {}", index + 1);
                add(pair, choice.path(flow.size), name, flow, &plain, Some(class));
            }
        }
        for (group, background) in traffic.background.iter().enumerate() {
            let plain = &self.condition.plain;
            for index in 0..background.flows {
                let drawn = Drawn { start: background.start, size: None };
                let name = format!("background {}.{}", group + 1, index + 1);
                add(pair, background.path, name, drawn, plain, None);
            }
        }
        Ok((specs, classes))
    }

    /// The shortest round trip of all paths.
    fn shortest_rtt(&self) -> Duration {
        let experiment = &self.condition.experiment;
        let common = experiment.common.as_ref().map_or(Duration::ZERO, |common| common.rtt);
        experiment.paths.iter().map(|path| path.rtt + common).min().unwrap_or_default()
    }

    /// How a plain TCP chooses its path where no run tells which is best.
    fn best(&self, config: &ConnectionConfig) -> Choice {
        let paths = &self.condition.experiment.paths;
        let bounds = (0..paths.len()).map(|path| self.limits.one_path(config, path)).collect();
        // The first of the highest rate.
        let fastest = (0..paths.len()).rev().max_by_key(|path| paths[*path].down.mean_rate()).unwrap_or(0);
        Choice::Best { bounds, fastest }
    }
}

/// Which path a plain TCP takes.
enum Choice {
    Fixed(usize),
    Best { bounds: Vec<LowerBound>, fastest: usize },
}

impl Choice {
    fn path(&mut self, size: Option<Bytes>) -> usize {
        match (self, size) {
            (Choice::Fixed(path), _) => *path,
            (Choice::Best { fastest, .. }, None) => *fastest,
            (Choice::Best { bounds, .. }, Some(size)) => {
                let times = bounds.iter_mut().map(|bound| bound.completion(size.0));
                times.enumerate().min_by_key(|(_, time)| *time).map_or(0, |(path, _)| path)
            }
        }
    }
}

/// Where the flows of an experiment come from.
fn source(experiment: &Experiment, name: &str, flows: u32) -> Source {
    let traffic = &experiment.traffic;
    let starts = match &traffic.start {
        Start::Together(at) => Starts::Together { at: *at, count: flows as usize },
        Start::At(times) => Starts::At(times.clone()),
        Start::Poisson { from, load } => {
            let all =
                experiment.paths.iter().map(|path| path.down.mean_rate().0).fold(0, u64::saturating_add);
            let rate = experiment.common.as_ref().map_or(all, |common| common.rate.0.min(all));
            let gap = traffic.size.mean().unwrap_or(0.0) * 8.0 / (rate as f64 * load);
            Starts::Poisson {
                from: *from,
                until: Time::NEVER,
                mean_gap: Duration::from_secs_f64(gap).max(Duration(1)),
                max_count: Some(flows as usize),
            }
        }
    };
    Source { name: name.to_owned(), sizes: traffic.size.sizes(), starts }
}

/// The flows of an experiment in a run with `seed`, background flows and those beside left out: when each starts and how
/// much it sends.
///
/// # Errors
/// If none can be drawn.
pub fn drawn(experiment: &Experiment, seed: u64) -> Result<Vec<Drawn>, RunError> {
    source(experiment, "flows", experiment.traffic.flows).draw(seed).map_err(impossible)
}

/// The network of an experiment in a run with `seed`, on which only random starts of traces depend: the first pair is
/// its client and its server, with its paths in order.
///
/// # Errors
/// If no network can be made of it.
pub fn topology(experiment: &Experiment, seed: u64) -> Result<Topology, RunError> {
    build_topology(experiment, seed, None).map_err(impossible)
}

fn build_topology(
    experiment: &Experiment,
    seed: u64,
    phases: Option<&Phases>,
) -> Result<Topology, anabranch_sim::NetworkError> {
    let extra = experiment.common.as_ref().map_or(Duration::ZERO, |common| common.rtt);
    let paths: Vec<PathSpec> = experiment
        .paths
        .iter()
        .map(|path| PathSpec {
            name: path.name.clone(),
            stretches: vec![duplex(path, experiment.traffic.direction, path.rtt + extra, seed, phases)],
            backup: path.backup,
        })
        .collect();
    let topology = match &experiment.common {
        None => topology::disjoint(&paths, ServerAddresses::One)?,
        Some(common) => {
            let longest = experiment.paths.iter().map(|path| path.rtt).max().unwrap_or_default() + extra;
            // A name that no path has.
            let mut name = "common link".to_owned();
            while experiment.paths.iter().any(|path| path.name == name) {
                name.push('\'');
            }
            let apart = experiment.paths.iter().all(|path| path.luck_apart);
            let link = common_duplex(common, experiment.traffic.direction, longest).with(|link| {
                link.luck = luck(apart);
            });
            let bottleneck = PathSpec::new(name, link);
            topology::shared_bottleneck(&paths, &bottleneck, &[])?
        }
    };
    Ok(if experiment.ipv6 { topology.over_ipv6() } else { topology })
}

fn duplex(path: &Path, direction: Direction, rtt: Duration, seed: u64, phases: Option<&Phases>) -> Duplex {
    let anywhere = path.trace_start == TraceStart::Random || phases.is_some_and(|phases| phases.traces);
    let start = match (path.trace_start, &path.down) {
        (TraceStart::At(start), _) => start,
        (_, Capacity::Trace(file)) if anywhere => {
            let mut stream = RandomStream::new(seed, &format!("trace.{}.start", path.name));
            Duration(stream.below(file.trace.period().0))
        }
        _ => Duration::ZERO,
    };
    let limit = phases.map_or(Duration::ZERO, |phases| phases.delay_limit(path.rtt));
    // Each direction has a delay that is up to `limit` longer or shorter.
    let later = |direction: &str| {
        let mut stream = RandomStream::new(seed, &format!("phase.{}.{direction}", path.name));
        Duration(stream.below(2 * limit.0 + 1))
    };
    let [data_phase, ack_phase] = match limit.is_zero() {
        true => [Duration::ZERO; 2],
        false => [later("data"), later("acks")],
    };
    let delay = |rtt: Duration, phase: Duration| (rtt / 2).saturating_sub(limit) + phase;
    let host_jitter = phases.map(|phases| phases.jitter_limit(path.rtt)).filter(|max| !max.is_zero());
    let host_jitter =
        host_jitter.map(|max| link::Jitter { shape: link::JitterShape::Uniform { max }, reorder: false });
    let link = |capacity: &Capacity, phase: Duration| LinkConfig {
        capacity: match capacity {
            Capacity::Rate(rate) => link::Capacity::Rate(*rate),
            Capacity::Trace(file) => link::Capacity::Trace { trace: file.trace.clone(), start },
        },
        delay: delay(path.rtt, phase),
        jitter: host_jitter,
        queue: queue(path.queue),
        ecn_threshold: path.ecn_threshold.map(queue),
        rtt: Some(rtt),
        when_down: if path.keep_when_down { WhenDown::Keep } else { WhenDown::Drop },
        luck: luck(path.luck_apart),
        mtu: path.mtu,
        reports_mtu: path.reports_mtu,
        ..LinkConfig::default()
    };
    let mut data = LinkConfig {
        loss: loss(&path.loss),
        drop_list: path.drop.clone(),
        jitter: path.jitter.map(jitter).or(host_jitter),
        reordering: path.reorder.map(|(probability, extra)| link::Reordering { probability, extra }),
        duplicate: path.duplicate,
        ..link(&path.down, data_phase)
    };
    let mut acks = LinkConfig { loss: loss(&path.loss_up), ..link(&path.up, ack_phase) };
    for change in &path.changes {
        if let Some(rtt) = change.rtt {
            data.timeline.push(Step { at: change.at, change: link::Change::Delay(delay(rtt, data_phase)) });
            acks.timeline.push(Step { at: change.at, change: link::Change::Delay(delay(rtt, ack_phase)) });
        }
        let mut both = |what: link::Change| {
            data.timeline.push(Step { at: change.at, change: what.clone() });
            acks.timeline.push(Step { at: change.at, change: what });
        };
        if let Some(rate) = change.rate {
            both(link::Change::Rate(rate));
        }
        if let Some(up) = change.up {
            both(if up { link::Change::Up } else { link::Change::Down });
        }
        if let Some(p) = change.loss {
            data.timeline.push(Step { at: change.at, change: link::Change::Loss(bernoulli(p)) });
        }
        if let Some(p) = change.loss_up {
            acks.timeline.push(Step { at: change.at, change: link::Change::Loss(bernoulli(p)) });
        }
    }
    oriented(data, acks, direction)
}

fn common_duplex(common: &CommonLink, direction: Direction, rtt: Duration) -> Duplex {
    let link = |loss: Loss| LinkConfig {
        capacity: link::Capacity::Rate(common.rate),
        delay: common.rtt / 2,
        queue: queue(common.queue),
        ecn_threshold: common.ecn_threshold.map(queue),
        rtt: Some(rtt),
        loss,
        ..LinkConfig::default()
    };
    oriented(link(loss(&common.loss)), link(Loss::None), direction)
}

fn oriented(data: LinkConfig, acks: LinkConfig, direction: Direction) -> Duplex {
    match direction {
        Direction::Upload => Duplex { up: data, down: acks },
        Direction::Download => Duplex { up: acks, down: data },
    }
}

fn luck(apart: bool) -> link::Luck {
    if apart { link::Luck::Apart } else { link::Luck::Shared }
}

fn queue(size: QueueSize) -> QueueLimit {
    match size {
        QueueSize::Bdp(n) => QueueLimit::Bdp(n),
        QueueSize::Packets(n) => QueueLimit::Packets(n),
        QueueSize::Bytes(n) => QueueLimit::Bytes(n),
        QueueSize::Time(span) => QueueLimit::Time(span),
        QueueSize::Unlimited => QueueLimit::Unlimited,
    }
}

fn bernoulli(p: f64) -> Loss {
    if p > 0.0 { Loss::Bernoulli(p) } else { Loss::None }
}

fn loss(model: &LossModel) -> Loss {
    match *model {
        LossModel::Bernoulli(p) => bernoulli(p),
        LossModel::GilbertElliott { mean_good, mean_bad, loss_good, loss_bad } => {
            Loss::GilbertElliott(link::GilbertElliott { mean_good, mean_bad, loss_good, loss_bad })
        }
    }
}

fn jitter(jitter: Jitter) -> link::Jitter {
    match jitter {
        Jitter::Uniform { max, reorder } => {
            link::Jitter { shape: link::JitterShape::Uniform { max }, reorder }
        }
        Jitter::Normal { mean, deviation, reorder } => {
            link::Jitter { shape: link::JitterShape::Normal { mean, std_dev: deviation }, reorder }
        }
    }
}

impl FlowResult {
    /// Unique bytes over the time they took.
    pub fn goodput(&self) -> Rate {
        Rate::from_bytes_over(self.report.delivered, self.time)
    }
}
