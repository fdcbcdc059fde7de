//! The applications at both ends of each flow.
//!
//! The sender writes as its send buffer permits, and closes after the last byte; the receiver reads, and
//! closes after the sender. The client of a download sends its request first.

use anabranch_stack::event::{CloseReason, ConnectionId, Event};
use anabranch_stack::segment::Address;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::{Duration, Time};

use crate::application::Application;
use crate::flow::{Direction, End, FlowId, FlowSpec, Reading};
use crate::gap::Gap;
use crate::network::HostId;
use crate::recorder::{FlowEvent, Recorder, Scope, What, report};
use crate::report::Failure;
use crate::session::AppState;
use crate::sim::{Host, Sim, Wake, lend};

/// More bytes than a bulk flow ever writes.
const ENDLESS: u64 = 1 << 60;
/// The bytes that a rate-limited reader takes at a time.
const READ_CHUNK: u64 = 4096;

/// The application at one end of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndState {
    pub(crate) connection: Option<ConnectionId>,
    /// The bytes left to write.
    unwritten: u64,
    pub(crate) written: u64,
    /// True if it closes once everything is written.
    closes: bool,
    has_closed: bool,
    /// The bytes received in order.
    pub(crate) received: u64,
    consumed: u64,
    peer_closed: bool,
    /// True if its next read is on the agenda.
    reads_later: bool,
    pub(crate) closed: Option<CloseReason>,
    /// The statistics at the end of the connection.
    pub(crate) last: Option<Box<(ConnectionStats, Vec<SubflowStats>)>>,
}

/// A flow in a run.
#[derive(Clone, Debug)]
pub(crate) struct FlowState {
    client: EndState,
    server: EndState,
    size: Option<u64>,
    pub(crate) started: bool,
    pub(crate) connected: Option<Duration>,
    pub(crate) fct: Option<Duration>,
    pub(crate) acked: Option<Duration>,
    pub(crate) failure: Option<Failure>,
    pub(crate) over: bool,
    /// True if it ends by itself.
    pub(crate) finite: bool,
    /// The time from its start to its end, unless it is a transfer with a size.
    pub(crate) ended: Option<Duration>,
    /// The time of its end, if it ended before it was complete.
    pub(crate) broken_at: Option<Time>,
    /// The bytes delivered when it was broken off, and the longest gap by then.
    pub(crate) stopped: Option<(u64, Option<Duration>)>,
    /// The gaps of an application other than a transfer.
    pub(crate) gap: Gap,
    /// The application, unless it is a transfer.
    pub(crate) app: Option<Box<AppState>>,
}

impl FlowState {
    pub(crate) fn new(spec: &FlowSpec, seed: u64) -> FlowState {
        let bulk = spec.size.map_or(ENDLESS, |size| size.0);
        let upload = spec.direction == Direction::Upload;
        let is_transfer = matches!(spec.application, Application::Transfer);
        let unwritten = match &spec.application {
            Application::Transfer if upload => bulk,
            Application::OnOff(_) if upload => 0,
            Application::Transfer | Application::OnOff(_) => spec.request.0,
            Application::Requests(_) | Application::Video(_) | Application::Datagrams(_) => 0,
        };
        let client = EndState { unwritten, closes: upload && is_transfer, ..EndState::default() };
        FlowState {
            client,
            server: EndState::default(),
            size: spec.size.map(|size| size.0),
            started: false,
            connected: None,
            fct: None,
            acked: None,
            failure: None,
            over: false,
            finite: spec.is_finite(),
            ended: None,
            broken_at: None,
            stopped: None,
            gap: Gap::default(),
            app: AppState::new(spec, seed),
        }
    }

    pub(crate) fn end(&self, end: End) -> &EndState {
        match end {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }

    fn end_mut(&mut self, end: End) -> &mut EndState {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }
}

impl<R: Recorder> Sim<R> {
    /// Starts a flow: the server listens, and the client connects.
    pub(crate) fn start_flow(&mut self, flow: FlowId) {
        let now = self.now;
        let spec = &self.specs[flow.index()];
        if let Some(stop) = spec.stop {
            self.wake_at(now + stop, Wake::Stop(flow));
        }
        if let Some(AppState::Datagrams(_)) = self.flows[flow.index()].app.as_deref() {
            self.flows[flow.index()].started = true;
            self.on_datagram_due(flow);
            return;
        }
        let spec = &self.specs[flow.index()];
        let server = &mut self.hosts[spec.server.index()];
        let (slot, port) = Host::<R>::port(server.next_port);
        server.next_port += 1;
        match server.listening.get_mut(slot) {
            Some(listener) => *listener = flow,
            None => server.listening.push(flow),
        }
        server.stack.listen(port, spec.config(End::Server, R::WANTS.flows));
        let host = spec.client;
        let client = &mut self.hosts[host.index()];
        let config = spec.config(End::Client, R::WANTS.flows);
        let (local, remote) = (spec.client_address, Address::new(spec.server_address, port));
        let connected = lend(&mut self.fabric.recorder, &mut client.stack, |stack| {
            stack.connect(now, local, remote, config)
        });
        self.flows[flow.index()].started = true;
        match connected {
            Ok(id) => {
                self.attach(flow, End::Client, id);
                let client = Scope { host, connection: id };
                self.trace(What::Flow { flow, event: FlowEvent::Start { client } });
                self.start_app(flow);
                self.drain(host.0);
            }
            Err(_) => self.fail(flow, Failure::Connect),
        }
    }

    fn attach(&mut self, flow: FlowId, end: End, id: ConnectionId) {
        let host = self.specs[flow.index()].host(end);
        let connections = &mut self.hosts[host.index()].connections;
        let index = id.place();
        if connections.len() <= index {
            connections.resize(index + 1, None);
        }
        connections[index] = Some((id, flow, end));
        self.flows[flow.index()].end_mut(end).connection = Some(id);
    }

    /// Processes an event that a stack reports to its application.
    #[inline(never)]
    pub(crate) fn on_event(&mut self, host: u32, id: ConnectionId, event: Event) {
        let connections = &self.hosts[host as usize].connections;
        let known = connections.get(id.place()).copied().flatten().filter(|known| known.0 == id);
        let known = known.map(|(_, flow, end)| (flow, end));
        let Some((flow, end)) = known.or_else(|| self.accept(host, id, event)) else { return };
        self.trace(What::Flow { flow, event: FlowEvent::Application { end, event: &event } });
        match event {
            Event::Readable => self.on_readable(flow, end),
            Event::Writable => self.write(flow, end),
            Event::Connected => {
                let start = self.specs[flow.index()].start;
                self.flows[flow.index()].connected = Some(self.now.since(start));
                match self.specs[flow.index()].reaction {
                    Duration::ZERO => self.write(flow, end),
                    reaction => self.wake_at(self.now + reaction, Wake::Write(flow)),
                }
            }
            Event::Accepted => self.write(flow, end),
            Event::PeerClosed => {
                self.on_readable(flow, end);
                self.flows[flow.index()].end_mut(end).peer_closed = true;
                self.finish_reading(flow, end);
            }
            Event::AllAcked => self.on_all_acked(flow, end),
            Event::Closed(reason) => self.on_closed(flow, end, reason),
            Event::SubflowUp(_) | Event::SubflowDown(_) => {}
        }
    }

    /// Finds the flow of a connection that a server has accepted.
    #[cold]
    fn accept(&mut self, host: u32, id: ConnectionId, event: Event) -> Option<(FlowId, End)> {
        if event != Event::Accepted {
            return None;
        }
        let server = &self.hosts[host as usize];
        let port = server.stack.subflow_stats(id).first()?.local.port;
        let flow = *server.listening.get(Host::<R>::place(port)?)?;
        self.attach(flow, End::Server, id);
        let server = Scope { host: HostId(host), connection: id };
        self.trace(What::Flow { flow, event: FlowEvent::Accept { server } });
        Some((flow, End::Server))
    }

    /// Processes a [`Wake::Write`].
    #[cold]
    pub(crate) fn on_reaction(&mut self, flow: FlowId) {
        let host = self.specs[flow.index()].client;
        self.write(flow, End::Client);
        self.drain(host.0);
    }

    /// Processes a [`Wake::Answer`].
    #[cold]
    pub(crate) fn on_answer(&mut self, flow: FlowId) {
        let host = self.specs[flow.index()].server;
        match self.flows[flow.index()].app.as_deref() {
            None => self.write(flow, End::Server),
            Some(AppState::OnOff(_)) => self.send_block(flow),
            Some(AppState::Exchanges(_)) => {
                let state = &mut self.flows[flow.index()];
                if let Some(AppState::Exchanges(exchanges)) = state.app.as_deref_mut() {
                    state.server.unwritten += exchanges.answer(state.server.received);
                }
                self.write(flow, End::Server);
            }
            Some(AppState::Datagrams(_)) => {}
        }
        self.drain(host.0);
    }

    /// Writes as much remaining data as the send buffer permits.
    fn write(&mut self, flow: FlowId, end: End) {
        let now = self.now;
        let host = self.specs[flow.index()].host(end);
        let state = self.flows[flow.index()].end_mut(end);
        let Some(id) = state.connection.filter(|_| state.closed.is_none()) else { return };
        let stack = &mut self.hosts[host.index()].stack;
        if state.unwritten > 0 {
            let (left, recorder) = (state.unwritten, &mut self.fabric.recorder);
            let taken = lend(recorder, stack, |stack| stack.write(now, id, left));
            state.unwritten -= taken.min(left);
            state.written += taken;
            if R::WANTS.flows
                && let Some(recorder) = &mut self.fabric.recorder
            {
                let (offered, written) = (state.written + state.unwritten, state.written);
                let event = FlowEvent::Write { end, offered, written };
                report(&mut **recorder, now, What::Flow { flow, event });
            }
        }
        if state.unwritten == 0 && state.closes && !state.has_closed {
            state.has_closed = true;
            lend(&mut self.fabric.recorder, stack, |stack| stack.close(now, id));
        }
    }

    /// Reacts to data that may have arrived in order.
    #[inline]
    fn on_readable(&mut self, flow: FlowId, end: End) {
        let now = self.now;
        let spec = &self.specs[flow.index()];
        let host = spec.host(end).index();
        let flow_state = &mut self.flows[flow.index()];
        let size = flow_state.size;
        let state = flow_state.end_mut(end);
        let Some(id) = state.connection else { return };
        let received = self.hosts[host].stack.received(id);
        if received > state.received {
            state.received = received;
            if flow_state.app.is_some() {
                self.on_app_data(flow, end, received);
            } else if end == spec.receiver() {
                if let Some(recorder) = &mut self.fabric.recorder {
                    let event = FlowEvent::Progress { delivered: received };
                    report(&mut **recorder, now, What::Flow { flow, event });
                }
                if size.is_some_and(|size| received >= size) && flow_state.fct.is_none() {
                    // A late reader is notified late.
                    let at = self.hosts[host].stack.stats(id).map_or(now, |stats| stats.last_in_order);
                    flow_state.fct = Some(at.since(spec.start));
                    self.check_over(flow);
                }
            } else if received >= spec.request.0 && spec.direction == Direction::Download {
                self.answer(flow);
            }
        }
        self.read(flow, end);
    }

    /// Answers the complete request of a download.
    #[cold]
    fn answer(&mut self, flow: FlowId) {
        let state = &mut self.flows[flow.index()];
        if !state.server.closes {
            state.server.closes = true;
            state.server.unwritten = state.size.unwrap_or(ENDLESS);
            match self.specs[flow.index()].answering {
                Duration::ZERO => self.write(flow, End::Server),
                answering => self.wake_at(self.now + answering, Wake::Answer(flow)),
            }
        }
    }

    /// Reads as the application is configured.
    #[inline]
    fn read(&mut self, flow: FlowId, end: End) {
        let now = self.now;
        let spec = &self.specs[flow.index()];
        let state = self.flows[flow.index()].end_mut(end);
        let Some(id) = state.connection else { return };
        let ready = state.received - state.consumed;
        if ready == 0 || state.reads_later {
            return;
        }
        let reading = if end == spec.receiver() { spec.reading } else { Reading::AtOnce };
        let (take, again) = match reading {
            Reading::AtOnce => (ready, None),
            Reading::AtRate(rate) => {
                let take = ready.min(READ_CHUNK);
                (take, Some(now + rate.transmission_time(take)))
            }
            Reading::Pause { after, span } => {
                let (from, until) = (spec.start + after, spec.start + after + span);
                if now >= from && now < until { (0, Some(until)) } else { (ready, None) }
            }
        };
        if take > 0 {
            state.consumed += take;
            if spec.counts_only(end) {
                return;
            }
            let host = spec.host(end).index();
            lend(&mut self.fabric.recorder, &mut self.hosts[host].stack, |stack| {
                stack.consume(now, id, take);
            });
        }
        if let Some(at) = again.filter(|at| at.is_armed()) {
            state.reads_later = true;
            self.wake_at(at, Wake::Read(flow));
        }
    }

    /// Processes a [`Wake::Read`].
    pub(crate) fn read_again(&mut self, flow: FlowId) {
        let spec = &self.specs[flow.index()];
        let (end, host) = (spec.receiver(), spec.host(spec.receiver()));
        let state = self.flows[flow.index()].end_mut(end);
        state.reads_later = false;
        if state.closed.is_some() {
            return;
        }
        // More data may have arrived since: the stack signals it once and then waits for a read.
        self.on_readable(flow, end);
        self.finish_reading(flow, end);
        self.drain(host.0);
    }

    /// Closes once the peer has closed and everything is read.
    fn finish_reading(&mut self, flow: FlowId, end: End) {
        let state = self.flows[flow.index()].end_mut(end);
        if state.peer_closed && state.consumed == state.received && !state.closes {
            state.closes = true;
            state.unwritten = 0;
            self.write(flow, end);
        }
    }

    fn on_all_acked(&mut self, flow: FlowId, end: End) {
        let spec = &self.specs[flow.index()];
        let state = &self.flows[flow.index()];
        let sender = state.end(end);
        let Some(id) = sender.connection else { return };
        if end != spec.sender() || state.size != Some(sender.written) || state.acked.is_some() {
            return;
        }
        let stats = self.hosts[spec.host(end).index()].stack.stats(id);
        let at = stats.map_or(self.now, |stats| stats.last_data_ack);
        let start = spec.start;
        self.flows[flow.index()].acked = Some(at.since(start));
        self.check_over(flow);
    }

    fn on_closed(&mut self, flow: FlowId, end: End, reason: CloseReason) {
        let host = self.specs[flow.index()].host(end).index();
        let sender = self.specs[flow.index()].sender();
        let stack = &self.hosts[host].stack;
        let flow_state = &mut self.flows[flow.index()];
        let state = flow_state.end_mut(end);
        let Some(id) = state.connection else { return };
        state.closed = Some(reason);
        state.last = stack.stats(id).map(|stats| Box::new((stats, stack.subflow_stats(id))));
        // The receiver's connection may end before the sender has received the last ACK.
        if end == sender || reason != CloseReason::Finished {
            self.fail(
                flow,
                match end {
                    End::Client => Failure::Client(reason),
                    End::Server => Failure::Server(reason),
                },
            );
        }
    }

    /// Ends the flow, as failed unless it was complete before.
    fn fail(&mut self, flow: FlowId, failure: Failure) {
        let state = &mut self.flows[flow.index()];
        if !state.over {
            state.over = true;
            state.failure = Some(failure);
            state.broken_at = Some(self.now);
            self.unfinished -= usize::from(state.finite);
        }
    }

    fn check_over(&mut self, flow: FlowId) {
        let state = &mut self.flows[flow.index()];
        if !state.over && state.fct.is_some() && state.acked.is_some() {
            state.over = true;
            self.unfinished -= usize::from(state.finite);
        }
    }
}

/// Applications other than a transfer.
impl<R: Recorder> Sim<R> {
    /// Starts the client's application, or the sender's of an upload.
    fn start_app(&mut self, flow: FlowId) {
        let upload = self.specs[flow.index()].direction == Direction::Upload;
        match self.flows[flow.index()].app.as_deref() {
            Some(AppState::Exchanges(_)) => self.make_request(flow),
            Some(AppState::OnOff(_)) if upload => self.send_block(flow),
            _ => {}
        }
    }

    /// Processes a [`Wake::App`].
    pub(crate) fn on_app_due(&mut self, flow: FlowId) {
        let spec = &self.specs[flow.index()];
        let (client, sender) = (spec.client, spec.host(spec.sender()));
        if self.flows[flow.index()].over {
            return;
        }
        match self.flows[flow.index()].app.as_deref() {
            Some(AppState::Exchanges(_)) => {
                self.make_request(flow);
                self.drain(client.0);
            }
            Some(AppState::OnOff(_)) => {
                self.send_block(flow);
                self.drain(sender.0);
            }
            Some(AppState::Datagrams(_)) => self.on_datagram_due(flow),
            None => {}
        }
    }

    fn make_request(&mut self, flow: FlowId) {
        let state = &mut self.flows[flow.index()];
        let Some(AppState::Exchanges(exchanges)) = state.app.as_deref_mut() else { return };
        let (bytes, next) = exchanges.request(self.now);
        state.client.unwritten += bytes;
        state.gap.begin(self.now);
        self.write(flow, End::Client);
        if let Some(next) = next {
            self.wake_at(next, Wake::App(flow));
        }
    }

    fn send_block(&mut self, flow: FlowId) {
        let end = self.specs[flow.index()].sender();
        let state = &mut self.flows[flow.index()];
        let Some(AppState::OnOff(on_off)) = state.app.as_deref_mut() else { return };
        let (bytes, next) = on_off.tick(self.now);
        let sender = state.end_mut(end);
        sender.unwritten += bytes;
        sender.closes = next.is_none();
        state.gap.begin(self.now);
        self.write(flow, end);
        if let Some(next) = next {
            self.wake_at(next, Wake::App(flow));
        }
    }

    /// Reacts to data that have arrived in order: `received` bytes so far.
    #[inline(never)]
    fn on_app_data(&mut self, flow: FlowId, end: End, received: u64) {
        let now = self.now;
        let spec = &self.specs[flow.index()];
        let (is_receiver, request, answering) = (end == spec.receiver(), spec.request.0, spec.answering);
        if is_receiver && let Some(recorder) = &mut self.fabric.recorder {
            let event = FlowEvent::Progress { delivered: received };
            report(&mut **recorder, now, What::Flow { flow, event });
        }
        let state = &mut self.flows[flow.index()];
        match state.app.as_deref_mut() {
            Some(AppState::Exchanges(_)) if end == End::Server && !answering.is_zero() => {
                self.wake_at(now + answering, Wake::Answer(flow));
            }
            Some(AppState::Exchanges(exchanges)) if end == End::Server => {
                state.server.unwritten += exchanges.answer(received);
                self.write(flow, End::Server);
            }
            Some(AppState::Exchanges(exchanges)) => {
                let next = exchanges.complete(now, received);
                let over = exchanges.is_over();
                state.gap.deliver(now, exchanges.is_waiting());
                if let Some(next) = next {
                    self.wake_at(next, Wake::App(flow));
                }
                if over {
                    self.flows[flow.index()].client.closes = true;
                    self.write(flow, End::Client);
                    self.end_app(flow);
                }
            }
            Some(AppState::OnOff(on_off)) if is_receiver => {
                on_off.deliver(now, received);
                state.gap.deliver(now, received < on_off.written());
                if on_off.is_over() {
                    self.end_app(flow);
                }
            }
            // The request of a download.
            Some(AppState::OnOff(_)) if received >= request => match answering {
                Duration::ZERO => self.send_block(flow),
                answering => self.wake_at(now + answering, Wake::Answer(flow)),
            },
            _ => {}
        }
    }

    /// Ends a flow that is complete.
    pub(crate) fn end_app(&mut self, flow: FlowId) {
        self.end_app_at(flow, self.now);
    }

    /// Ends an application that had its last byte at the time `at`.
    pub(crate) fn end_app_at(&mut self, flow: FlowId, at: Time) {
        let ended = at.since(self.specs[flow.index()].start);
        let state = &mut self.flows[flow.index()];
        if !state.over {
            state.over = true;
            state.ended = Some(ended);
            self.unfinished -= usize::from(state.finite);
        }
    }

    /// Breaks a transfer off, and keeps the number of bytes delivered.
    pub(crate) fn stop_flow(&mut self, flow: FlowId) {
        let spec = &self.specs[flow.index()];
        let sender = spec.sender();
        if self.flows[flow.index()].over {
            return;
        }
        let report = self.flow_report(flow);
        self.flows[flow.index()].stopped = Some((report.delivered, report.longest_gap));
        self.end_app(flow);
        self.abort(flow, sender);
    }
}
