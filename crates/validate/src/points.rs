//! The points: one or more transfers over the paths of a scenario.

use anabranch_bpf::Law;
use anabranch_lab::run::{Planned, Prepared, drawn};
use anabranch_lab::scenario;
use anabranch_lab::scenario::{Condition, TrafficClass, main_class};
use anabranch_lab::scenario::{Direction, Document, Experiment, FlowSize, Scenario, Start, Transport};
use anabranch_stack::config::Profile;
use anabranch_stack::config::{ConnectionConfig, SimConfig};
use anabranch_units::{Duration, Time};
use sha2::{Digest, Sha256};

use crate::knobs::{self, KernelSettings};
use crate::measure::Kind;

/// The kernel's limit of subflows.
const MOST_PATHS: usize = 8;
const NO_SCHEDULER: &str = "the kernel has no scheduler";
/// The bytes of the number of a datagram.
pub(crate) const NUMBER: u32 = 4;
/// Each flow takes two threads in the kernel's runs.
const MOST_FLOWS: u32 = 100;

/// The kernel's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A plain TCP over the path at this position.
    Tcp {
        /// The position, from 0.
        path: usize,
    },
    /// Multipath TCP over all paths.
    Multipath,
}

/// The end of transfers that the kernel has, with anabranch at the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEnd {
    /// The sender of the data.
    Sender,
    /// The receiver of the data.
    Receiver,
}

impl KernelEnd {
    /// Returns the word for texts, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            KernelEnd::Sender => "sender",
            KernelEnd::Receiver => "receiver",
        }
    }
}

/// Transfers over the paths of a scenario, often a single one.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name in results.
    pub name: String,
    /// The scenario, adapted.
    pub scenario: Scenario,
    /// The position of the condition.
    pub condition: usize,
    /// The position of the contender.
    pub contender: usize,
    /// The paths and the protocol of the kernel's sender.
    pub sender: Sender,
    /// The kernel's congestion control.
    pub congestion: &'static str,
    /// The kernel's congestion control of background flows.
    pub background: &'static str,
    /// The kernel's settings for the knobs of the scenario.
    pub kernel: KernelSettings,
    /// The origin of the point.
    pub set: Set,
    /// The kind of point of the grid; empty for a scenario.
    pub group: String,
}

/// The origin of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Drawn at random; nothing was ever tuned to it.
    Drawn,
    /// Selected by hand, such as the points of a scenario.
    Chosen,
}

/// One flow of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// Its start relative to the run's.
    pub start: std::time::Duration,
    /// Its size in bytes; none sends for [`Point::duration`].
    pub size: Option<u64>,
}

/// The reason that a scenario cannot be validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointError(pub String);

impl core::fmt::Display for PointError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PointError {}

impl Point {
    /// Returns all points of `scenario`: every contender that the kernel has too, under every condition.
    ///
    /// # Errors
    /// If the kernel has no equivalent of any contender.
    pub fn of(scenario: Scenario) -> Result<Vec<Point>, PointError> {
        Point::and_left_out(scenario).map(|(points, _)| points)
    }

    /// The same, with the contenders that are left out, and the reason for each.
    ///
    /// # Errors
    /// As for [`Point::of`].
    pub fn and_left_out(mut scenario: Scenario) -> Result<(Vec<Point>, Vec<String>), PointError> {
        let name = scenario.name.clone();
        let wrong = |text: String| PointError(format!("scenario `{name}` cannot be validated: {text}"));
        let several = scenario.contenders.len() > 1;
        for condition in &mut scenario.conditions {
            check(&condition.experiment).map_err(wrong)?;
            // Senders lose the same data packets even if their handshakes and acknowledgements differ.
            condition.experiment.graph.number_data_apart();
        }
        let (mut points, mut left_out): (Vec<Point>, Vec<String>) = (Vec::new(), Vec::new());
        for condition in 0..scenario.conditions.len() {
            for contender in 0..scenario.contenders.len() {
                let own = match best_path(&scenario, condition, contender) {
                    None => scenario.clone(),
                    Some(path) => {
                        let mut own = scenario.clone();
                        own.contenders[contender].transport = Transport::Tcp { path: Some(path) };
                        own
                    }
                };
                let mut parts = vec![scenario.name.clone(), scenario.conditions[condition].name.clone()];
                if several {
                    parts.push(scenario.contenders[contender].name.clone());
                }
                parts.retain(|part| !part.is_empty());
                match Point::single(own, condition, contender) {
                    Ok(point) => points.push(Point { name: parts.join(" "), ..point }),
                    Err(text) if several => left_out.push(format!("{}: {text}", parts.join(" "))),
                    Err(text) => return Err(wrong(text)),
                }
            }
        }
        match points.is_empty() {
            // A contender that the kernel has explains most.
            true => {
                let other = left_out.iter().find(|text| !text.contains(NO_SCHEDULER));
                Err(wrong(other.or(left_out.first()).cloned().unwrap_or_default()))
            }
            false => Ok((points, left_out)),
        }
    }

    /// Returns the points of a document, adapted to what the kernel has: profile `linux`, and the scheduler `linux` in
    /// place of contenders if the kernel has none of them. Returns remarks on that too.
    ///
    /// # Errors
    /// If the document is no scenario, or the kernel has no equivalent of it.
    pub fn of_document(document: &mut Document) -> Result<(Vec<Point>, Vec<String>), PointError> {
        let wrong = |error: anabranch_lab::ScenarioError| PointError(error.to_string());
        let mut remarks = Vec::new();
        let mut scenario = document.scenario().map_err(wrong)?;
        if scenario.conditions.iter().any(|own| own.experiment.profile != Profile::Linux) {
            remarks.push("profile `linux`, which is the kernel's, instead of the scenario's".to_owned());
            document.set_option("validate", "profile", "linux");
            scenario = document.scenario().map_err(wrong)?;
        }
        let has = |own: &anabranch_lab::scenario::Contender| match &own.transport {
            Transport::Tcp { .. } => true,
            Transport::Multipath(kind) => kind.name() == "linux",
        };
        if !scenario.contenders.iter().any(has) {
            remarks.push("contender `linux`, as the kernel has no scheduler of the scenario's".to_owned());
            document.set_schedulers("validate", &["linux".to_owned()]);
            scenario = document.scenario().map_err(wrong)?;
        }
        let (points, left_out) = Point::and_left_out(scenario)?;
        remarks.extend(left_out.into_iter().map(|text| format!("left out: {text}")));
        Ok((points, remarks))
    }

    /// Returns one contender in one condition.
    fn single(scenario: Scenario, condition: usize, contender: usize) -> Result<Point, String> {
        let own = &scenario.conditions[condition];
        let transport = &scenario.contenders[contender].transport;
        let sender = sender(transport, own)?;
        let config = &own.configs[contender];
        let congestion = congestion(config.congestion.name())?;
        let default = default(transport, own).map_err(|error| error.0)?;
        let kernel = knobs::settings(config, &default, None)?;
        let others = own.experiment.traffic.background.is_empty() && !has_other_senders(&own.experiment);
        let background = if others { "cubic" } else { background(own)? };
        Ok(Point {
            name: String::new(),
            condition,
            contender,
            sender,
            congestion,
            background,
            kernel,
            set: Set::Chosen,
            group: String::new(),
            scenario,
        })
    }

    /// Returns the only contender of `scenario` in its only condition, for anabranch's stack only: with any
    /// scheduler, congestion control and knobs.
    ///
    /// # Errors
    /// If it exists only in the simulator.
    pub fn emulated(mut scenario: Scenario) -> Result<Point, PointError> {
        let name = scenario.name.clone();
        let wrong = |text: &str| PointError(format!("scenario `{name}` cannot be emulated: {text}"));
        let (condition, contender) = (&mut scenario.conditions[0], &scenario.contenders[0]);
        condition.experiment.has_fixed_paths().map_err(|text| wrong(&text))?;
        limits(&condition.experiment).map_err(|text| wrong(&text))?;
        for config in [&condition.configs[0], &condition.base] {
            config.for_real_hosts().map_err(|setting| {
                let profile = condition.experiment.profile.name();
                wrong(&format!(
                    "`{setting}` of its connections (profile `{profile}`) exists only in the simulator"
                ))
            })?;
        }
        let sender = match contender.transport {
            Transport::Tcp { path } => Sender::Tcp { path: path.unwrap_or(0) },
            Transport::Multipath(_) => Sender::Multipath,
        };
        condition.experiment.graph.number_data_apart();
        Ok(Point {
            name: scenario.name.clone(),
            scenario,
            condition: 0,
            contender: 0,
            sender,
            congestion: "",
            background: "",
            kernel: KernelSettings::default(),
            set: Set::Chosen,
            group: String::new(),
        })
    }

    /// Returns the same for [a plain scenario](Point::is_plain).
    ///
    /// # Errors
    /// As for [`Point::emulated`], or if its flows are not plain.
    pub(crate) fn plain(scenario: Scenario) -> Result<Point, PointError> {
        let point = Point::emulated(scenario)?;
        match point.is_plain() {
            true => Ok(point),
            false => Err(PointError(format!(
                "scenario `{}` cannot be emulated here: its flows are not transfers of one class that start together \
                 and compete only with background flows",
                point.name
            ))),
        }
    }

    /// Returns the only contender of `scenario` in its only condition, for the kernel at one end and anabranch's
    /// stack at the other. As the receiver the kernel serves any scheduler and congestion control of the sender.
    ///
    /// # Errors
    /// What the kernel does not have, or what exists only in the simulator.
    pub fn mixed(scenario: Scenario, end: KernelEnd) -> Result<Point, PointError> {
        let mut point = Point::plain(scenario)?;
        let name = point.name.clone();
        let wrong = |text: String| {
            let end = end.name();
            PointError(format!("scenario `{name}` cannot be emulated with Linux as the {end}: {text}"))
        };
        let (condition, contender) = (&point.scenario.conditions[0], &point.scenario.contenders[0]);
        let (config, transport) = (&condition.configs[0], &contender.transport);
        (point.congestion, point.background) = match (end, transport) {
            // A receiver needs none, and every kernel has this one.
            (KernelEnd::Receiver, _) => ("reno", "reno"),
            (KernelEnd::Sender, Transport::Multipath(kind)) if !is_the_kernels(kind.name()) => {
                return Err(wrong(format!("the kernel has no scheduler `{}`", kind.name())));
            }
            (KernelEnd::Sender, _) => {
                let own = congestion(config.congestion.name()).map_err(wrong)?;
                let none = condition.experiment.traffic.background.is_empty();
                (own, if none { "reno" } else { background(condition).map_err(wrong)? })
            }
        };
        point.kernel = knobs::settings(config, &default(transport, condition)?, Some(end)).map_err(wrong)?;
        Ok(point)
    }

    /// Returns the simulated experiment.
    pub fn experiment(&self) -> &Experiment {
        &self.scenario.conditions[self.condition].experiment
    }

    /// Returns the configuration of anabranch's connection.
    pub fn config(&self) -> &ConnectionConfig {
        &self.scenario.conditions[self.condition].configs[self.contender]
    }

    /// Returns the flows of run number `run`, in the order of their starts.
    ///
    /// # Errors
    /// If none can be drawn.
    pub fn plan(&self, run: u32) -> Result<Vec<FlowPlan>, PointError> {
        let drawn = drawn(self.experiment(), self.scenario.run_seed(run));
        let drawn = drawn.map_err(|error| PointError(error.to_string()))?;
        let plans = drawn.into_iter().map(|flow| FlowPlan {
            start: std::time::Duration::from_nanos(flow.start.0),
            size: flow.size.map(|size| size.0),
        });
        Ok(plans.collect())
    }

    /// Returns all flows of run number `run`, as simulated, and the latest end of the run, in nanoseconds.
    ///
    /// # Errors
    /// If none can be drawn.
    pub(crate) fn planned(&self, run: u32) -> Result<(Vec<Planned>, Time), PointError> {
        let prepared = Prepared::with_phases(&self.scenario, self.condition, None);
        let planned = prepared.and_then(|prepared| prepared.planned(self.contender, run));
        planned.map_err(|error| PointError(error.to_string()))
    }

    /// True if all its flows are transfers of the contender in one direction, and cross traffic: these have
    /// programs that do nothing else.
    pub fn is_plain(&self) -> bool {
        let experiment = self.experiment();
        let traffic = &experiment.traffic;
        let together = traffic.start == Start::Together(Time::ZERO);
        experiment.classes.is_empty() && traffic.beside.is_empty() && (self.is_sized() || together)
    }

    /// Returns the positions of the classes of traffic, the main one first, and the names of their rows.
    pub fn classes(&self) -> Vec<(usize, String)> {
        let classes = &self.experiment().classes;
        let main = self.main_class();
        let others = (0..classes.len()).filter(|class| *class != main);
        let other = |class: usize| (class, format!("{} [{}]", self.name, classes[class].name));
        [(main, self.name.clone())].into_iter().chain(others.map(other)).collect()
    }

    /// Returns the position of the main class.
    pub(crate) fn main_class(&self) -> usize {
        main_class(&self.experiment().classes).unwrap_or(0)
    }

    /// Returns whether the flows of a class have a size; none if they are not transfers.
    pub fn transfers(&self, class: usize) -> Option<bool> {
        match self.experiment().classes.get(class) {
            None => Some(self.experiment().traffic.size != FlowSize::Bulk),
            Some(own) => match &own.kind {
                scenario::Kind::Transfer { size, .. } => Some(*size != FlowSize::Bulk),
                _ => None,
            },
        }
    }

    /// Returns the configuration of anabranch's background flows.
    pub fn background_config(&self) -> ConnectionConfig {
        let mut config = self.scenario.conditions[self.condition].base.connection.clone();
        config.mptcp = false;
        if config.congestion.is_coupled() {
            config.congestion = anabranch_stack::congestion::CongestionKind::NewReno;
        }
        config
    }

    /// True if transfers end when everything is delivered, and not after [`Point::duration`].
    pub fn is_sized(&self) -> bool {
        self.transfers(self.main_class()) != Some(false)
    }

    /// Returns the number of transfers of a run.
    pub fn flows(&self) -> usize {
        self.experiment().traffic.flows as usize
    }

    /// True if the server sends.
    pub fn is_download(&self) -> bool {
        self.experiment().traffic.direction == Direction::Download
    }

    /// Returns the duration of an infinite transfer, or the time limit of a finite one.
    pub fn duration(&self) -> Duration {
        match self.is_sized() {
            true => self.experiment().deadline,
            false => self.experiment().traffic.duration,
        }
    }

    /// Returns the position of the path of the initial subflow.
    pub fn initial(&self) -> usize {
        match self.sender {
            Sender::Tcp { path } => path,
            Sender::Multipath => self.experiment().initial,
        }
    }

    /// Returns the shortest round-trip time of the paths in use, without load.
    pub fn shortest_rtt(&self) -> Duration {
        match self.sender {
            Sender::Tcp { path } => self.rtt(path),
            Sender::Multipath => {
                (0..self.experiment().paths().len()).map(|path| self.rtt(path)).min().unwrap_or_default()
            }
        }
    }

    /// Returns the round-trip time over the path at this position without load, a shared link included.
    pub fn rtt(&self, path: usize) -> Duration {
        self.experiment().rtt(path)
    }

    /// Returns a text that identifies the transfer, independent of the names of points. The text of the
    /// kernel's runs does not depend on the configuration of anabranch's stack, except for the knobs that apply to the
    /// kernel.
    pub fn key(&self, kind: Kind) -> String {
        let (condition, contender) =
            (&self.scenario.conditions[self.condition].name, &self.scenario.contenders[self.contender].name);
        if kind == Kind::Kernel {
            let Point { congestion, background, kernel, .. } = self;
            let hash = kernel_hash(&self.scenario.canonical());
            return format!("{hash}/{condition}/{contender}/{congestion}/{background}/{kernel:?}");
        }
        let mss = self.config().mss;
        format!("{}/{condition}/{contender}/{}/{mss}", self.scenario.hash(), self.congestion)
    }
}

/// Returns a hash of the canonical form of a scenario without the contenders: their lines lie between
/// `contender` and `end`.
fn kernel_hash(canonical: &str) -> String {
    let (mut hash, mut skips) = (Sha256::new(), false);
    for line in canonical.lines() {
        skips = match line {
            line if line.starts_with("contender = ") => true,
            line if line.starts_with("end = ") => false,
            _ => skips,
        };
        if !skips {
            hash.update(line);
            hash.update("\n");
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the configuration of a contender of a scenario that sets no knob.
fn default(transport: &Transport, condition: &Condition) -> Result<SimConfig, PointError> {
    let wrong = |error: anabranch_lab::ScenarioError| PointError(error.to_string());
    let mut document = Document::bare();
    let paths = vec!["1Mbit/s,10ms".to_owned(); condition.experiment.paths().len()];
    document.set_paths(&paths).map_err(wrong)?;
    let scheduler = match transport {
        Transport::Tcp { .. } => "tcp",
        Transport::Multipath(kind) => kind.name(),
    };
    document.set_schedulers("--schedulers", &[scheduler.to_owned()]);
    document.set_option("--set", "ipv6", if condition.experiment.ipv6 { "true" } else { "false" });
    let scenario = document.scenario().map_err(wrong)?;
    scenario
        .conditions
        .into_iter()
        .flat_map(|condition| condition.configs)
        .next()
        .ok_or_else(|| PointError("a scenario without a contender".to_owned()))
}

/// True if there are flows of a plain TCP besides the contender's.
fn has_other_senders(experiment: &Experiment) -> bool {
    let other = |class: &TrafficClass| matches!(class.via, anabranch_lab::scenario::Via::Tcp(_));
    !experiment.traffic.beside.is_empty() || experiment.classes.iter().any(other)
}

fn check(experiment: &Experiment) -> Result<(), String> {
    let no = |text: &str| Err(text.to_owned());
    experiment.has_fixed_paths()?;
    if experiment.profile != Profile::Linux {
        return no("its profile is not `linux`, which is the kernel's");
    }
    limits(experiment)
}

/// True if the kernel's scheduler is about the same as the one of this name: it prefers the subflow that is likely to deliver
/// soonest.
pub fn is_the_kernels(scheduler: &str) -> bool {
    ["linux", "min_rtt"].contains(&scheduler)
}

/// Checks the numbers of flows and paths, and the lengths of datagrams.
fn limits(experiment: &Experiment) -> Result<(), String> {
    if experiment.endpoints.is_some() {
        return Err(
            "it has addresses of the server, endpoints or limits, with which the simulator is not compared; \
                    measure your own programs with `anabranch emulate`"
                .to_owned(),
        );
    }
    let traffic = &experiment.traffic;
    if traffic.flows == 0 || traffic.flows > MOST_FLOWS {
        return Err(format!("it has {} flows; the kernel is measured with 1 to {MOST_FLOWS}", traffic.flows));
    }
    let beside = traffic.beside.iter().map(|beside| beside.flows).sum::<u32>();
    let background: u32 = traffic.background.iter().map(|background| background.flows).sum::<u32>() + beside;
    if background > MOST_FLOWS {
        return Err(format!("it has {background} background flows; the limit is {MOST_FLOWS}"));
    }
    if experiment.paths().len() > MOST_PATHS {
        return Err(format!(
            "it has {} paths; the kernel has at most {MOST_PATHS} subflows",
            experiment.paths().len()
        ));
    }
    let short = |class: &&TrafficClass| match &class.kind {
        scenario::Kind::Datagrams(plan) => plan.payload < NUMBER,
        _ => false,
    };
    if let Some(class) = experiment.classes.iter().find(short) {
        return Err(format!(
            "the datagrams of class `{}` are shorter than {NUMBER} bytes, which their numbers take",
            class.name
        ));
    }
    Ok(())
}

fn sender(transport: &Transport, condition: &Condition) -> Result<Sender, String> {
    let path = match transport {
        Transport::Tcp { path } => path.unwrap_or(0),
        Transport::Multipath(kind) if kind.name() == "linux" => return Ok(Sender::Multipath),
        Transport::Multipath(kind) => {
            return Err(format!(
                "{NO_SCHEDULER} `{}`; it has `linux` (--set 'schedulers=[\"linux\"]')",
                kind.name()
            ));
        }
    };
    if condition.experiment.signals().iter().any(|(position, _)| *position == path) {
        return Err(
            "its path notifies the host (`notify-after`), and the kernel's TCP keeps a connection if an \
                    interface goes down"
                .to_owned(),
        );
    }
    Ok(Sender::Tcp { path })
}

/// Returns the best of several paths for a plain TCP without its own path, by its lower bound.
fn best_path(scenario: &Scenario, condition: usize, contender: usize) -> Option<usize> {
    let Transport::Tcp { path: None } = scenario.contenders[contender].transport else { return None };
    let prepared = Prepared::with_phases(scenario, condition, None).ok()?;
    let (flows, _) = prepared.planned(contender, 0).ok()?;
    flows.into_iter().find_map(|flow| flow.path.filter(|_| flow.owner.is_some()))
}

/// Returns the kernel's congestion control of background flows: the connections' congestion control.
fn background(condition: &Condition) -> Result<&'static str, String> {
    match condition.base.congestion.is_coupled() {
        true => Ok("reno"),
        false => congestion(condition.base.congestion.name()),
    }
}

/// Returns the kernel's name of a congestion control.
pub(crate) fn congestion(name: &str) -> Result<&'static str, String> {
    match name {
        "newreno" => Ok("reno"),
        "cubic" | "cubic_hystart" | "cubic_linux" => Ok("cubic"),
        "bbr" => Ok("bbr"),
        other => match Law::ALL.into_iter().find(|law| law.name() == other) {
            Some(law) => Ok(law.kernel_name()),
            None => Err(format!(
                "the kernel has no congestion control `{other}`; supported are newreno, cubic, cubic_hystart, \
                 cubic_linux and bbr, and as BPF programs {}",
                Law::ALL.map(Law::name).join(", ")
            )),
        },
    }
}

#[cfg(test)]
mod tests;
