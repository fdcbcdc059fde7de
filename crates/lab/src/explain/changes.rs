//! The changes that are tried against a cause. Each is a scenario of one condition and one contender.

use std::collections::BTreeSet;

use anabranch_link::{Aqm, Capacity, Change, LinkConfig, Loss, MiddleboxConfig, QueueLimit, Step};
use anabranch_stack::config::{ReceiveBuffer, SendBuffers};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_units::{Bytes, Rate};

use super::cause::Cause;
use super::row::Tally;
use crate::scenario::{Condition, Direction, Experiment, Scenario, Transport};
use crate::spoken::spoken;

/// A change to run.
pub(crate) struct Candidate {
    /// The change in words.
    pub what: String,
    /// The path of a plain TCP.
    pub path: Option<usize>,
    /// The scenario with the change.
    pub scenario: Scenario,
    /// True for a setting of the hosts, false for a change of the network or its traffic.
    pub is_setting: bool,
}

impl Candidate {
    /// True if a plain TCP without a configured path has to choose its path anew, since another one may be the best after a
    /// change of the network.
    pub(super) fn chooses_path(&self) -> bool {
        !self.is_setting && self.scenario.contenders[0].transport == Transport::Tcp { path: None }
    }
}

/// The schedulers that are tried: the simplest, the kernel's, and two that wait.
const SCHEDULERS: [&str; 4] = ["min_rtt", "linux", "blest", "ecf"];
/// Buffers, queues and windows are enlarged by this factor.
const FACTOR: u64 = 4;
/// An acknowledgement of some 80 bytes takes a fortieth of the rate of the data if it is for two full segments, a twentieth if
/// it is for one.
const SLOW_ACKS: u64 = 20;

/// The scenario before a change.
struct Base<'a> {
    scenario: &'a Scenario,
    condition: usize,
    contender: usize,
    tcp_path: Option<usize>,
    /// The direction of the data of the flows.
    direction: Direction,
    found: Vec<Candidate>,
}

/// Returns the changes to try against the largest cause of a contender's time, and against the cause on which it spends more
/// than the `fastest` contender, for flows with this direction of their data; `tcp_path` is the path of a plain TCP.
pub(crate) fn candidates(
    scenario: &Scenario,
    (condition, direction): (usize, Direction),
    contender: usize,
    tcp_path: Option<usize>,
    tally: &Tally,
    fastest: Option<&Tally>,
) -> Vec<Candidate> {
    let mut base = Base { scenario, condition, contender, tcp_path, direction, found: Vec::new() };
    // Of changes that let all flows finish, the sentence names the first.
    for path in tally.stopped() {
        base.against(Cause::Outage, Some(path), false);
    }
    let largest = tally.largest();
    if let Some((cause, path)) = largest {
        base.against(cause, path, tally.overflows());
    }
    let excess = fastest.and_then(|fastest| tally.excess(fastest, scenario.min_effect));
    if let Some((other, path, _)) = excess.filter(|excess| largest.is_none_or(|own| own.0 != excess.0)) {
        base.against(other, path, tally.overflows());
    }
    // Tried for every largest cause: a fallback to TCP, and waits for a connection that a NAT has forgotten, change the whole
    // flow.
    base.no_middleboxes();
    base.found
}

impl Base<'_> {
    /// Adds the changes against a cause; `overflows` if data was lost because of full queues.
    fn against(&mut self, cause: Cause, path: Option<usize>, overflows: bool) {
        match cause {
            Cause::Handshake => {
                self.other_first_paths();
                self.without_losses(path);
                self.half_delay(path);
            }
            // The application is what it is.
            Cause::Application => {}
            Cause::SendBuffer => self.send_buffer(),
            Cause::ReceiveWindow => self.receive_buffer(),
            Cause::CongestionWindow => {
                self.initial_window();
                self.faster_acks(path);
                self.without_losses(path);
                self.congestion();
                self.larger_queue(path);
            }
            Cause::Pacing => self.no_pacing(),
            Cause::Scheduler => self.other_schedulers(),
            Cause::Queueing => {
                self.no_other_flows();
                self.no_cross_traffic();
                self.always_up(path);
                self.shorter_queue(path);
            }
            Cause::Serialisation => {
                self.double_rate(path);
                self.always_up(path);
                self.other_schedulers();
            }
            Cause::Propagation => {
                self.half_delay(path);
                self.other_first_paths();
                self.without_path(path);
            }
            Cause::Retransmission => {
                if overflows {
                    self.larger_queue(path);
                }
                self.without_losses(path);
                self.other_schedulers();
            }
            Cause::Outage => {
                self.always_up(path);
                self.other_schedulers();
            }
            Cause::HeadOfLine => {
                self.other_schedulers();
                self.without_path(path);
                self.without_losses(path);
            }
        }
    }

    /// Adds a change for each reason of losses that the network has.
    fn without_losses(&mut self, path: Option<usize>) {
        self.no_loss(path);
        self.always_up(path);
        self.no_cross_traffic();
        self.no_policer();
        self.drop_tail();
    }

    fn experiment(&self) -> &Experiment {
        &self.scenario.conditions[self.condition].experiment
    }

    fn is_multipath(&self) -> bool {
        matches!(self.scenario.contenders[self.contender].transport, Transport::Multipath(_))
    }

    fn name(&self, path: usize) -> String {
        spoken(&self.experiment().paths()[path].name)
    }

    /// Adds the scenario after `change`, if that changes it.
    fn add(&mut self, what: String, change: impl FnOnce(&mut Condition, &mut Transport)) {
        if self.found.iter().any(|found| found.what == what) {
            return;
        }
        let mut condition = self.scenario.conditions[self.condition].clone();
        condition.name = String::new();
        condition.configs = vec![condition.configs[self.contender].clone()];
        let mut contender = self.scenario.contenders[self.contender].clone();
        change(&mut condition, &mut contender.transport);
        let (before, after) = (self.experiment(), &condition.experiment);
        let same_pairs = before.pairs == after.pairs;
        let same_conditions = before.graph == after.graph && before.traffic == after.traffic;
        if same_pairs
            && same_conditions
            && before.initial == after.initial
            && condition.configs[0] == self.scenario.conditions[self.condition].configs[self.contender]
            && contender.transport == self.scenario.contenders[self.contender].transport
        {
            return;
        }
        let is_setting = same_conditions && (same_pairs || before.paths().len() != after.paths().len());
        let scenario = Scenario {
            reference: None,
            other_starts: false,
            contenders: vec![contender],
            conditions: vec![condition],
            ..self.scenario.clone()
        };
        self.found.push(Candidate { what, path: self.tcp_path, scenario, is_setting });
    }

    /// Returns the links of a path that carry the data of the flows, and the links that carry the acknowledgements.
    fn links(&self, path: usize) -> (Vec<usize>, Vec<usize>) {
        let mut links = (Vec::new(), Vec::new());
        for pair in &self.experiment().pairs {
            if let Some(path) = pair.paths.get(path) {
                let (data, acks) = self.experiment().routes(path, self.direction);
                links.0.extend(data.iter().flatten().copied());
                links.1.extend(acks.iter().flatten().copied());
            }
        }
        for links in [&mut links.0, &mut links.1] {
            links.sort_unstable();
            links.dedup();
        }
        links
    }

    fn other_first_paths(&mut self) {
        if !self.is_multipath() {
            return;
        }
        let initial = self.experiment().initial;
        for path in (0..self.experiment().paths().len()).filter(|path| *path != initial).take(3) {
            let what = format!("{} as the first path", self.name(path));
            self.add(what, |condition, _| condition.experiment.initial = path);
        }
    }

    fn half_delay(&mut self, path: Option<usize>) {
        let Some(path) = path else { return };
        let links = self.both_ways(path);
        self.add(format!("half the round-trip time of {}", self.name(path)), |condition, _| {
            for link in links {
                let link = &mut condition.experiment.graph.links[link];
                link.config.delay = link.config.delay / 2;
                link.rtt = link.rtt / 2;
                link.config.rtt = link.config.rtt.map(|rtt| rtt / 2);
            }
        });
    }

    fn double_rate(&mut self, path: Option<usize>) {
        let Some(path) = path else { return };
        let (data, _) = self.links(path);
        let constant =
            |link: &usize| matches!(self.experiment().graph.links[*link].config.capacity, Capacity::Rate(_));
        if !data.iter().all(constant) {
            return;
        }
        self.add(format!("twice the rate of {}", self.name(path)), |condition, _| {
            for link in data {
                let config = &mut condition.experiment.graph.links[link].config;
                keep_queue(config);
                if let Capacity::Rate(rate) = &mut config.capacity {
                    *rate = Rate(rate.0.saturating_mul(2));
                }
                // Except for bursts, the rate of a shaper is the rate of the link.
                if let Some(shaper) = &mut config.shaper {
                    shaper.rate = Rate(shaper.rate.0.saturating_mul(2));
                }
            }
        });
    }

    /// Gives the links of the acknowledgements the rate of the data, where they are so slow that acknowledgements fill them.
    fn faster_acks(&mut self, path: Option<usize>) {
        let Some(path) = path else { return };
        let (data, acks) = self.links(path);
        let rate = |link: &usize| match self.experiment().graph.links[*link].config.capacity {
            Capacity::Rate(rate) => Some(rate),
            Capacity::Trace { .. } => None,
        };
        let Some(of_data) = data.iter().filter_map(rate).min() else { return };
        let slow = |link: &usize| rate(link).is_some_and(|rate| rate.0 < of_data.0 / SLOW_ACKS);
        let slow: Vec<usize> = acks.into_iter().filter(slow).collect();
        if slow.is_empty() {
            return;
        }
        self.add(
            format!("the rate of the data for the acknowledgements on {}", self.name(path)),
            |condition, _| {
                for link in slow {
                    let config = &mut condition.experiment.graph.links[link].config;
                    keep_queue(config);
                    config.capacity = Capacity::Rate(of_data);
                }
            },
        );
    }

    /// Returns the links of a path, in both directions.
    fn both_ways(&self, path: usize) -> Vec<usize> {
        let (data, acks) = self.links(path);
        data.into_iter().chain(acks).collect()
    }

    /// Returns the paths with an `affected` link, in either direction. Of a plain TCP with a configured path only that one.
    fn paths_where(&self, affected: impl Fn(&LinkConfig) -> bool) -> Vec<usize> {
        let links = &self.experiment().graph.links;
        let is = |path: &usize| self.both_ways(*path).iter().any(|link| affected(&links[*link].config));
        let own = match self.scenario.contenders[self.contender].transport {
            Transport::Tcp { path } => path,
            Transport::Multipath(_) => None,
        };
        let paths = (0..self.experiment().paths().len()).filter(|path| own.is_none_or(|own| own == *path));
        paths.filter(is).collect()
    }

    /// Adds the scenario in which `change` applies to every link of these paths, if there are any.
    fn on_links(&mut self, paths: &[usize], what: String, change: impl Fn(&mut LinkConfig)) {
        let links: BTreeSet<usize> = paths.iter().flat_map(|path| self.both_ways(*path)).collect();
        if links.is_empty() {
            return;
        }
        self.add(what, |condition, _| {
            for link in links {
                change(&mut condition.experiment.graph.links[link].config);
            }
        });
    }

    fn no_loss(&mut self, path: Option<usize>) {
        let loses = |step: &Step| matches!(step.change, Change::Loss(_));
        let lossy = self.paths_where(|config| {
            config.loss != Loss::None
                || !config.drop_list.is_empty()
                || config.corrupt > 0.0
                || config.timeline.iter().any(loses)
        });
        let remove = |config: &mut LinkConfig| {
            config.loss = Loss::None;
            config.drop_list.clear();
            config.corrupt = 0.0;
            config.timeline.retain(|step| !loses(step));
        };
        if let Some(path) = path.filter(|path| lossy.contains(path) && lossy.len() > 1) {
            self.on_links(&[path], format!("no loss on {}", self.name(path)), remove);
        }
        self.on_links(&lossy, "no random loss".to_owned(), remove);
    }

    /// Paths that go down stay up.
    fn always_up(&mut self, path: Option<usize>) {
        let switches = |step: &Step| matches!(step.change, Change::Down | Change::Up);
        let interrupted = self.paths_where(|config| config.timeline.iter().any(switches));
        let remove = |config: &mut LinkConfig| config.timeline.retain(|step| !switches(step));
        if let Some(path) = path.filter(|path| interrupted.contains(path) && interrupted.len() > 1) {
            self.on_links(&[path], format!("{} always up", self.name(path)), remove);
        }
        let what = match interrupted[..] {
            [only] => format!("{} always up", self.name(only)),
            _ => "all paths always up".to_owned(),
        };
        self.on_links(&interrupted, what, remove);
    }

    /// Removes the middlebox of each path that has one, and all of them if there are several. A plain TCP meets only the
    /// middlebox of its path.
    fn no_middleboxes(&mut self) {
        let experiment = self.experiment();
        let has = |path: &usize| !experiment.paths()[*path].middlebox.is_none();
        let is_own = |path: &usize| self.tcp_path.is_none_or(|own| own == *path);
        let with: Vec<usize> = (0..experiment.paths().len()).filter(has).filter(is_own).collect();
        if with.len() > 1 {
            self.without_middleboxes("no middleboxes".to_owned(), &with);
        }
        for path in with {
            self.without_middleboxes(format!("no middlebox on {}", self.name(path)), &[path]);
        }
    }

    fn without_middleboxes(&mut self, what: String, paths: &[usize]) {
        self.add(what, |condition, _| {
            for pair in &mut condition.experiment.pairs {
                for (_, path) in pair.paths.iter_mut().enumerate().filter(|(at, _)| paths.contains(at)) {
                    path.middlebox = MiddleboxConfig::default();
                }
            }
        });
    }

    fn no_cross_traffic(&mut self) {
        let crossed = self.paths_where(|config| !config.cross_traffic.is_empty());
        self.on_links(&crossed, "no cross traffic".to_owned(), |config| config.cross_traffic.clear());
    }

    fn no_policer(&mut self) {
        let policed = self.paths_where(|config| config.policer.is_some());
        self.on_links(&policed, "no policer".to_owned(), |config| config.policer = None);
    }

    fn drop_tail(&mut self) {
        let managed = self.paths_where(|config| config.aqm != Aqm::DropTail);
        self.on_links(&managed, "drop-tail queues".to_owned(), |config| config.aqm = Aqm::DropTail);
    }

    fn larger_queue(&mut self, path: Option<usize>) {
        self.scale_queue(path, FACTOR as f64, "four times the queue of");
    }

    fn shorter_queue(&mut self, path: Option<usize>) {
        self.scale_queue(path, 1.0 / FACTOR as f64, "a quarter of the queue of");
    }

    fn scale_queue(&mut self, path: Option<usize>, factor: f64, words: &str) {
        let bounded = self.paths_where(|config| config.queue != QueueLimit::Unlimited);
        let Some(path) = path.filter(|path| bounded.contains(path)) else { return };
        self.on_links(&[path], format!("{words} {}", self.name(path)), |config| {
            config.queue = scaled(config, factor);
        });
    }

    fn no_other_flows(&mut self) {
        let traffic = &self.experiment().traffic;
        if traffic.background.is_empty() && traffic.beside.is_empty() {
            return;
        }
        self.add("no other flows".to_owned(), |condition, _| {
            condition.experiment.traffic.background.clear();
            condition.experiment.traffic.beside.clear();
        });
    }

    fn without_path(&mut self, path: Option<usize>) {
        let Some(path) = path.filter(|_| self.is_multipath() && self.experiment().paths().len() > 1) else {
            return;
        };
        self.add(format!("no {}", self.name(path)), |condition, _| {
            let experiment = &mut condition.experiment;
            for pair in &mut experiment.pairs {
                if path < pair.paths.len() && pair.paths.len() > 1 {
                    pair.paths.remove(path);
                }
            }
            experiment.initial = match experiment.initial {
                initial if initial > path => initial - 1,
                initial if initial == path => 0,
                initial => initial,
            };
            if let Some(endpoints) = &mut experiment.endpoints {
                endpoints.remove_path(path);
            }
            let others = &mut experiment.traffic;
            others.background.retain(|background| background.path != path);
            for background in &mut others.background {
                background.path -= usize::from(background.path > path);
            }
        });
    }

    fn other_schedulers(&mut self) {
        let Transport::Multipath(own) = &self.scenario.contenders[self.contender].transport else { return };
        let own = own.name();
        for name in SCHEDULERS.into_iter().filter(|name| *name != own).take(3) {
            let Some(kind) = SchedulerKind::from_name(name) else { continue };
            self.add(format!("the scheduler {name}"), |condition, transport| {
                condition.configs[0].scheduler = kind.clone();
                *transport = Transport::Multipath(kind);
            });
        }
    }

    fn congestion(&mut self) {
        let own = &self.scenario.conditions[self.condition].configs[self.contender].congestion;
        let name = if own.name() == "bbr" { "cubic_linux" } else { "bbr" };
        let Some(kind) = CongestionKind::from_name(name) else { return };
        self.add(format!("the congestion control {name}"), |condition, _| {
            condition.configs[0].congestion = kind
        });
    }

    fn initial_window(&mut self) {
        let own = self.scenario.conditions[self.condition].configs[self.contender].initial_window;
        let window = own.saturating_mul(FACTOR as u32);
        self.add(format!("an initial window of {window} segments"), |condition, _| {
            condition.configs[0].initial_window = window;
        });
    }

    fn no_pacing(&mut self) {
        let config = &self.scenario.conditions[self.condition].configs[self.contender];
        let (paces, withholds) = (config.pacing, config.nagle);
        if paces {
            self.add("no pacing".to_owned(), |condition, _| condition.configs[0].pacing = false);
        }
        if withholds {
            self.add("no Nagle algorithm".to_owned(), |condition, _| condition.configs[0].nagle = false);
        }
    }

    fn receive_buffer(&mut self) {
        self.add("four times the receive buffer".to_owned(), |condition, _| {
            let more = |size: Bytes| Bytes(size.0.saturating_mul(FACTOR));
            let buffer = &mut condition.configs[0].receive_buffer;
            *buffer = match *buffer {
                ReceiveBuffer::Fixed(size) => ReceiveBuffer::Fixed(more(size)),
                ReceiveBuffer::Auto { initial, max } => {
                    ReceiveBuffer::Auto { initial: more(initial), max: more(max) }
                }
            };
        });
    }

    fn send_buffer(&mut self) {
        self.add("four times the send buffer".to_owned(), |condition, _| {
            let more = |size: Bytes| Bytes(size.0.saturating_mul(FACTOR));
            let config = &mut condition.configs[0];
            config.send_buffer = more(config.send_buffer);
            config.send_buffer_start = config.send_buffer_start.map(more);
            config.send_buffers = config.send_buffers.map(|buffers| match buffers {
                SendBuffers::Fixed(size) => SendBuffers::Fixed(more(size)),
                SendBuffers::Auto { initial, max } => {
                    SendBuffers::Auto { initial: more(initial), max: more(max) }
                }
            });
        });
    }
}

/// Makes the queue of a link, and its marking threshold, independent of its rate: a time or a BDP becomes the bytes that the link
/// makes of it.
fn keep_queue(config: &mut LinkConfig) {
    let of_rate = |limit: &QueueLimit| matches!(limit, QueueLimit::Time(_) | QueueLimit::Bdp(_));
    let (queue, threshold) = (config.resolved_queue().bytes, config.resolved_ecn_threshold().bytes);
    if of_rate(&config.queue) {
        config.queue = QueueLimit::Bytes(queue);
    }
    if config.ecn_threshold.as_ref().is_some_and(of_rate) {
        config.ecn_threshold = Some(QueueLimit::Bytes(threshold));
    }
}

/// Returns the queue limit of a link times `factor`: of the queue that the link makes from a time or a BDP, which is not
/// shorter than [`QueueLimit::MIN_RESOLVED_BYTES`]. The result may be.
fn scaled(config: &LinkConfig, factor: f64) -> QueueLimit {
    let scaled = |n: u64| ((n as f64 * factor).round() as u64).max(1);
    let bytes = |n: u64| QueueLimit::Bytes(scaled(n).max(1500));
    let made = config.resolved_queue().bytes;
    match config.queue {
        QueueLimit::Packets(n) => QueueLimit::Packets(scaled(n.into()).min(u32::MAX.into()) as u32),
        QueueLimit::Bytes(n) => bytes(n),
        QueueLimit::Unlimited => QueueLimit::Unlimited,
        QueueLimit::Time(_) | QueueLimit::Bdp(_)
            if made.min(scaled(made)) <= QueueLimit::MIN_RESOLVED_BYTES =>
        {
            bytes(made)
        }
        QueueLimit::Time(span) => QueueLimit::Time(span.mul_f64(factor)),
        QueueLimit::Bdp(n) => QueueLimit::Bdp(n * factor),
    }
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
