//! A run: hosts on the fabric, flows on the hosts, and the event loop.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use anabranch_link::{Change, LinkConfigError};
use anabranch_stack::config::{EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, Event, Placement};
use anabranch_stack::segment::{Flags, PathId, Segment};
use anabranch_stack::timestamp::TimestampTick;
use anabranch_units::{RandomStream, Time};

use crate::app::FlowState;
use crate::error::SimError;
use crate::fabric::{Answer, Delivery, Fabric, MtuReport, Turn};
use crate::flow::{End, FlowId, FlowSpec};
use crate::network::{HostId, LinkId, Network};
use crate::recorder::{HostEvent, HostObserver, LinkEvent, Recorder, What, report};
use crate::relays::Relays;
use crate::report::{Performance, RunReport};
use crate::watched::Watched;

/// The stack of a host in a run.
pub type HostStack<R> = Endpoint<HostObserver<R>>;

/// A run.
///
/// A clone is a fork: both continue identically as long as they are treated the same.
#[derive(Clone)]
pub struct Sim<R: Recorder = ()> {
    pub(crate) now: Time,
    pub(crate) network: Arc<Network>,
    pub(crate) fabric: Fabric<R>,
    pub(crate) hosts: Vec<Host<R>>,
    pub(crate) specs: Vec<FlowSpec>,
    pub(crate) flows: Vec<FlowState>,
    agenda: Agenda,
    /// The number of flows that end by themselves and are not over.
    pub(crate) unfinished: usize,
    pub(crate) sized: bool,
    events: u64,
    pub(crate) quotas: Vec<Watched>,
    /// The answers of routers and middleboxes.
    answers: Vec<Answer>,
    /// The placements of a payload; reused for every packet.
    pub(crate) placed: Vec<Placement>,
    /// The segment between the pool and a stack; reused for every packet.
    pub(crate) segment: Segment,
}

/// A host in a run.
#[derive(Clone)]
pub(crate) struct Host<R: Recorder> {
    pub(crate) stack: HostStack<R>,
    /// The flow and the end of each connection, by the connection's number.
    pub(crate) connections: Vec<Option<(ConnectionId, FlowId, End)>>,
    /// The flow of each listening port, in the order of [`Host::port`].
    pub(crate) listening: Vec<FlowId>,
    /// The index of the next flow's port.
    pub(crate) next_port: usize,
    /// The connections of a proxy.
    pub(crate) proxy: Option<Box<Relays>>,
    /// True if an interface has a quota.
    has_quota: bool,
    /// True if subflows may have begun since its quotas were checked.
    pub(crate) has_new_subflows: bool,
}

impl<R: Recorder> Host<R> {
    /// The lowest port on which a server listens. Every flow has its own port.
    const LOWEST_PORT: u16 = 5001;
    /// The number of ports, after which they are reused.
    const PORTS: usize = 60_000;
    /// The index of the first port, 35001: tshark has no protocol for that port or the next 9000, so that it
    /// does not misinterpret the payload in a capture.
    const FIRST: usize = 30_000;

    /// Returns the index and the number of listening port `count`.
    pub(crate) const fn port(count: usize) -> (usize, u16) {
        let place = count % Self::PORTS;
        (place, Self::LOWEST_PORT + ((place + Self::FIRST) % Self::PORTS) as u16)
    }

    /// Returns the index of a port.
    pub(crate) fn place(port: u16) -> Option<usize> {
        let above = usize::from(port.checked_sub(Self::LOWEST_PORT)?);
        (above < Self::PORTS).then_some((above + Self::PORTS - Self::FIRST) % Self::PORTS)
    }
}

/// An event at a set time, besides packets and the stacks' own timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Wake {
    /// A flow starts.
    Start(FlowId),
    /// An application reads again.
    Read(FlowId),
    /// An application continues.
    App(FlowId),
    /// A client writes for the first time.
    Write(FlowId),
    /// A server answers.
    Answer(FlowId),
    /// A transfer is broken off.
    Stop(FlowId),
    /// An address changes; the index in the network's list.
    Address(u32),
    /// A link goes down or comes up.
    LinkState(LinkId, bool),
    /// A host receives an answer of a router or a middlebox; the index in their list.
    Answered(u32),
}

#[derive(Clone, Debug, Default)]
struct Agenda {
    entries: BinaryHeap<Reverse<(Time, u64, Wake)>>,
    orders: u64,
}

impl Agenda {
    fn push(&mut self, at: Time, wake: Wake) {
        self.entries.push(Reverse((at, self.orders, wake)));
        self.orders += 1;
    }

    fn next(&self) -> Time {
        self.entries.peek().map_or(Time::NEVER, |entry| entry.0.0)
    }
}

/// Calls `act` with a stack, and lends the recorder to the stack's observer meanwhile.
#[inline]
pub(crate) fn lend<R: Recorder, T>(
    recorder: &mut Option<Box<R>>,
    stack: &mut HostStack<R>,
    act: impl FnOnce(&mut HostStack<R>) -> T,
) -> T {
    if HostObserver::<R>::LISTENS {
        stack.observer_mut().lent = recorder.take();
    }
    let result = act(stack);
    if HostObserver::<R>::LISTENS {
        *recorder = stack.observer_mut().lent.take();
    }
    result
}

impl<R: Recorder> Sim<R> {
    /// Returns a run of `flows` on `network`. All randomness is derived from `seed`.
    ///
    /// # Errors
    /// If the configuration of a link is invalid, or a flow does not fit the network.
    pub fn new(network: Network, flows: Vec<FlowSpec>, seed: u64, recorder: R) -> Result<Sim<R>, SimError> {
        let fabric =
            Fabric::new(&network, seed, recorder).map_err(|(name, error)| SimError::Link { name, error })?;
        for flow in &flows {
            crate::error::check_flow(&network, flow, |host, path, to| fabric.has_route(host, path, to))?;
        }
        let mut hosts = Vec::with_capacity(network.hosts().len());
        for (index, spec) in network.hosts().iter().enumerate() {
            let addresses = spec.interfaces.iter().enumerate().map(|(path, interface)| LocalAddress {
                ip: interface.ip,
                path: PathId(path as u16),
                backup: interface.backup,
            });
            // No host floods another, so nothing is refused.
            let each = if spec.is_proxy { 8 } else { 2 };
            let most = flows.len().saturating_mul(each).saturating_add(16);
            let config = EndpointConfig {
                max_connections: most,
                max_half_open: most,
                timestamp_tick: TimestampTick::Millisecond { phase: spec.clock_phase },
                ..EndpointConfig::new(addresses.collect())
            };
            let entropy = Entropy::Seeded(RandomStream::new(seed, &format!("host.{}", spec.name)));
            let observer = HostObserver::new(HostId(index as u32), spec.is_proxy);
            hosts.push(Host {
                stack: Endpoint::with_observer(config, entropy, observer),
                connections: Vec::new(),
                listening: Vec::new(),
                next_port: 0,
                proxy: spec.is_proxy.then(Box::default),
                has_quota: network.quotas().iter().any(|quota| quota.host.index() == index),
                has_new_subflows: false,
            });
        }
        let mut agenda = Agenda::default();
        for (index, change) in network.address_changes().iter().enumerate() {
            agenda.push(change.at, Wake::Address(index as u32));
        }
        for (index, link) in network.links().iter().enumerate() {
            for step in &link.config.timeline {
                let up = match step.change {
                    Change::Down => false,
                    Change::Up => true,
                    _ => continue,
                };
                agenda.push(step.at, Wake::LinkState(LinkId(index as u32), up));
            }
        }
        for (index, flow) in flows.iter().enumerate() {
            agenda.push(flow.start, Wake::Start(FlowId(index as u32)));
        }
        let unfinished = flows.iter().filter(|flow| flow.is_finite()).count();
        let quotas = network.quotas().iter().map(|quota| Watched::new(*quota)).collect();
        let mut sim = Sim {
            now: Time::ZERO,
            network: Arc::new(network),
            fabric,
            hosts,
            flows: flows.iter().map(|flow| FlowState::new(flow, seed)).collect(),
            specs: flows,
            agenda,
            unfinished,
            sized: unfinished > 0,
            events: 0,
            quotas,
            answers: Vec::new(),
            placed: Vec::new(),
            segment: crate::pool::blank(),
        };
        sim.fabric.set_turn(Turn::Agenda, sim.agenda.next());
        Ok(sim)
    }

    /// Switches the fast paths of links, routes and hosts off, or on again; for the tests that hold them equal to the
    /// functions that they stand for. Connections that are open keep theirs.
    #[doc(hidden)]
    pub fn set_fast_paths(&mut self, on: bool) {
        self.fabric.set_fast_paths(on);
        self.hosts.iter_mut().for_each(|host| host.stack.set_fast_paths(on));
    }

    /// Runs until all events up to `until` are processed, the run is complete, or no event is left.
    pub fn run(&mut self, until: Time) -> RunReport {
        self.run_while(until, |sim| !sim.is_complete());
        if !self.is_complete() && self.fabric.next_turn().is_some() && until.is_armed() {
            self.now = self.now.max(until);
        }
        self.report()
    }

    /// Runs until all events up to `until` are processed, even after all flows are over (connections then
    /// close, and timers expire).
    pub fn run_through(&mut self, until: Time) -> RunReport {
        self.run_while(until, |_| true);
        if until.is_armed() {
            self.now = self.now.max(until);
        }
        self.report()
    }

    /// True if there are flows that end by themselves and all of them are over: delivered and acknowledged, or failed.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.sized && self.unfinished == 0
    }

    /// Returns the current time of the run.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the time of the next event; none if there will be none.
    pub fn next_time(&self) -> Option<Time> {
        self.fabric.next_turn().map(|next| next.0)
    }

    /// Processes the next event, and returns its time; none if there is none.
    pub fn step(&mut self) -> Option<Time> {
        let (time, turn) = self.fabric.next_turn()?;
        self.turn(time, turn);
        Some(time)
    }

    #[inline]
    fn run_while(&mut self, until: Time, wanted: impl Fn(&Sim<R>) -> bool) {
        while wanted(self)
            && let Some((time, turn)) = self.fabric.next_turn()
            && time <= until
        {
            self.turn(time, turn);
        }
    }

    #[inline(always)]
    fn turn(&mut self, time: Time, turn: Turn) {
        debug_assert!(time >= self.now, "time goes back from {} to {time}", self.now);
        self.now = time;
        self.events += 1;
        match turn {
            Turn::Link(link) => {
                while let Some(delivery) = self.fabric.poll_link(link, time) {
                    self.deliver(delivery);
                }
                if self.fabric.looks_ahead() {
                    self.look_ahead(link);
                }
                self.route_answers();
            }
            Turn::Host(host) => self.on_timer(host),
            Turn::Agenda => self.on_agenda(),
        }
    }

    /// Prefetches the state for one of the turns that follow the turn of `link`.
    #[inline(never)]
    fn look_ahead(&mut self, link: u32) {
        if let Some(Delivery { host, packet, .. }) = self.fabric.look_ahead(link)
            && let Some((local, remote, data)) = self.fabric.pool.ends(packet)
        {
            self.hosts[host as usize].stack.fetch(local, remote, data);
        }
    }

    /// Delivers a packet that has arrived at its host.
    #[inline]
    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { host, path, packet } = delivery;
        let (now, placed, segment) = (self.now, &mut self.placed, &mut self.segment);
        self.fabric.pool.read(packet, segment);
        self.fabric.pool.release(packet);
        if self.hosts[host as usize].proxy.is_some() {
            self.deliver_to_proxy(host, path);
            return;
        }
        if segment.flags == Flags::default() {
            self.on_datagram();
            return;
        }
        lend(&mut self.fabric.recorder, &mut self.hosts[host as usize].stack, |stack| {
            stack.handle_segment(now, path, segment, placed);
        });
        // The simulator has no payload to copy.
        self.placed.clear();
        self.drain(host);
    }

    /// Processes the turn of a host.
    #[inline(never)]
    fn on_timer(&mut self, host: u32) {
        let now = self.now;
        let stack = &mut self.hosts[host as usize].stack;
        match stack.poll_timeout() {
            Some(due) if due <= now => {
                lend(&mut self.fabric.recorder, stack, |stack| stack.handle_timeout(now));
                self.fabric.set_turn(Turn::Host(host), Time::NEVER);
                self.drain(host);
            }
            // The timer was deferred since: see `arm`.
            due => self.fabric.set_turn(Turn::Host(host), due.unwrap_or(Time::NEVER)),
        }
    }

    /// Processes everything on the agenda for the current time.
    #[inline(never)]
    fn on_agenda(&mut self) {
        while self.agenda.next() <= self.now {
            let Some(Reverse((_, _, wake))) = self.agenda.entries.pop() else { break };
            match wake {
                Wake::Start(flow) => self.start_flow(flow),
                Wake::Read(flow) => self.read_again(flow),
                Wake::App(flow) => self.on_app_due(flow),
                Wake::Write(flow) => self.on_reaction(flow),
                Wake::Answer(flow) => self.on_answer(flow),
                Wake::Stop(flow) => self.stop_flow(flow),
                Wake::Address(index) => {
                    let change = self.network.address_changes()[index as usize];
                    self.set_address_up(change.host, change.path, change.up);
                }
                Wake::Answered(index) => self.on_answered(index),
                Wake::LinkState(link, up) => {
                    self.trace(What::Link { link, event: LinkEvent::State { up } });
                }
            }
        }
        self.fabric.set_turn(Turn::Agenda, self.agenda.next());
    }

    /// Schedules an event.
    pub(crate) fn wake_at(&mut self, at: Time, wake: Wake) {
        self.agenda.push(at, wake);
        self.fabric.set_turn(Turn::Agenda, self.agenda.next());
    }

    /// Reports the events of a host's stack to its applications and sends its segments, after a call that may
    /// have changed something.
    #[inline]
    pub(crate) fn drain(&mut self, host: u32) {
        if !self.hosts[host as usize].stack.is_idle() {
            self.drain_some(host);
        }
        self.arm(host);
    }

    fn drain_some(&mut self, host: u32) {
        let now = self.now;
        let mut event = self.hosts[host as usize].stack.poll_event();
        loop {
            while let Some((id, what)) = event {
                let own = &mut self.hosts[host as usize];
                own.has_new_subflows |=
                    matches!(what, Event::SubflowUp(_) | Event::Connected | Event::Accepted);
                match own.proxy.is_some() {
                    false => self.on_event(host, id, what),
                    true => self.on_proxy_event(host, id, what),
                }
                event = self.hosts[host as usize].stack.poll_event();
            }
            let (stack, segment) = (&mut self.hosts[host as usize].stack, &mut self.segment);
            while let Some(departure) =
                lend(&mut self.fabric.recorder, stack, |stack| stack.poll_transmit_into(now, segment, &()))
            {
                match departure.scattered {
                    false => self.fabric.send(now, host, departure.path, segment),
                    true => self.fabric.scatter(now, host, departure.path, segment),
                }
            }
            event = stack.poll_event();
            if event.is_none() && !(self.hosts[host as usize].has_quota && self.check_quotas(host)) {
                break;
            }
        }
        self.route_answers();
    }

    /// Schedules the answers of routers and middleboxes that have dropped packets.
    #[inline]
    fn route_answers(&mut self) {
        if !self.fabric.answers.is_empty() {
            self.route_some_answers();
        }
    }

    #[cold]
    fn route_some_answers(&mut self) {
        while let Some((delay, answer)) = self.fabric.answers.pop() {
            let index = self.answers.len() as u32;
            self.answers.push(answer);
            self.wake_at(self.now + delay, Wake::Answered(index));
        }
    }

    fn on_answered(&mut self, index: u32) {
        match self.answers[index as usize].clone() {
            Answer::TooBig(report) => self.on_too_big(report),
            Answer::Reset { host, path, segment } => self.receive(host, path, *segment),
        }
    }

    /// Lets a host receive a segment that has crossed no link.
    #[cold]
    fn receive(&mut self, host: u32, path: PathId, segment: Segment) {
        self.segment = segment;
        let (now, placed, segment) = (self.now, &mut self.placed, &mut self.segment);
        lend(&mut self.fabric.recorder, &mut self.hosts[host as usize].stack, |stack| {
            stack.handle_segment(now, path, segment, placed);
        });
        self.placed.clear();
        self.drain(host);
    }

    fn on_too_big(&mut self, report: MtuReport) {
        let MtuReport { host, local, remote, seq, mtu } = report;
        let now = self.now;
        lend(&mut self.fabric.recorder, &mut self.hosts[host as usize].stack, |stack| {
            stack.handle_too_big(now, local, remote, seq, mtu);
        });
        self.drain(host);
    }

    /// Reports an event to the recorder, if it uses such events.
    #[inline(always)]
    pub(crate) fn trace(&mut self, what: What<'_>) {
        if let Some(recorder) = &mut self.fabric.recorder {
            report(&mut **recorder, self.now, what);
        }
    }

    /// Schedules the host's turn for its next timer.
    ///
    /// A deferred timer (each acknowledgement defers the retransmission timer) is left in the calendar as it
    /// is, and checked at that time.
    #[inline]
    fn arm(&mut self, host: u32) {
        let due = self.hosts[host as usize].stack.poll_timeout().unwrap_or(Time::NEVER);
        if due < self.fabric.time_of_turn(Turn::Host(host)) {
            self.fabric.set_turn(Turn::Host(host), due.max(self.now));
        }
    }

    /// Changes a link now, as a step of its timeline would.
    ///
    /// # Errors
    /// If the change is invalid; the link is unchanged then.
    ///
    /// # Panics
    /// If the link does not exist.
    pub fn change_link(&mut self, link: LinkId, change: &Change) -> Result<(), LinkConfigError> {
        self.fabric.change_link(self.now, link, change)?;
        let up = match change {
            Change::Down => false,
            Change::Up => true,
            _ => return Ok(()),
        };
        self.trace(What::Link { link, event: LinkEvent::State { up } });
        Ok(())
    }

    /// Notifies a host that the address of an interface is unavailable, or available again.
    pub fn set_address_up(&mut self, host: HostId, path: PathId, up: bool) {
        let Ok(interface) = self.network.interface(host, path) else { return };
        let (now, ip) = (self.now, interface.ip);
        self.trace(What::Host { host, event: HostEvent::Address { ip, up } });
        lend(&mut self.fabric.recorder, &mut self.hosts[host.index()].stack, |stack| {
            stack.set_address_up(now, ip, up);
        });
        self.drain(host.0);
    }

    /// Ends the connection of a flow at one end. Does nothing if there is none.
    pub fn abort(&mut self, flow: FlowId, end: End) {
        let (Some(id), Some(spec)) = (self.connection(flow, end), self.specs.get(flow.index())) else {
            return;
        };
        let (now, host) = (self.now, spec.host(end));
        lend(&mut self.fabric.recorder, &mut self.hosts[host.index()].stack, |stack| stack.abort(now, id));
        self.drain(host.0);
    }

    /// Returns the connection of a flow at one end, while it exists.
    pub fn connection(&self, flow: FlowId, end: End) -> Option<ConnectionId> {
        let state = self.flows.get(flow.index())?.end(end);
        state.connection.filter(|_| state.closed.is_none())
    }

    /// Returns the stack of a host.
    ///
    /// # Panics
    /// If the host does not exist.
    pub fn stack(&self, host: HostId) -> &HostStack<R> {
        &self.hosts[host.index()].stack
    }

    /// Returns the hosts and links that are simulated.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the flows, in the order of their IDs.
    pub fn flows(&self) -> &[FlowSpec] {
        &self.specs
    }

    /// Returns the number of packets in links, not counting copies made by links.
    pub fn packets_in_flight(&self) -> usize {
        self.fabric.pool.in_flight()
    }

    /// Returns the recorder with all that it has recorded so far.
    pub fn recorder(&self) -> &R {
        self.fabric.recorder.as_ref().expect("no stack has it between two calls")
    }

    /// Returns the recorder for modification.
    pub fn recorder_mut(&mut self) -> &mut R {
        self.fabric.recorder.as_mut().expect("no stack has it between two calls")
    }

    /// Ends the run and returns the recorder.
    pub fn into_recorder(self) -> R {
        *self.fabric.recorder.expect("no stack has it between two calls")
    }

    /// Returns the amount of simulation so far.
    pub fn performance(&self) -> Performance {
        Performance {
            simulated_s: self.now.as_secs_f64(),
            events: self.events,
            packet_hops: self.fabric.packet_hops,
            data_packets: self.fabric.data_packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Host;

    #[test]
    fn every_listening_port_has_its_place() {
        for count in [0, 1, 29_999, 30_000, 59_999, 60_000, 123_456] {
            let (place, port) = Host::<()>::port(count);
            assert_eq!(Host::<()>::place(port), Some(place), "{count}");
        }
        assert_eq!(Host::<()>::port(0), (0, 35_001));
        assert_eq!(Host::<()>::port(60_000), (0, 35_001));
        assert_eq!(Host::<()>::place(5000), None);
        assert_eq!(Host::<()>::place(65_001), None);
    }
}
