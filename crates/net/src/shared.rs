//! The state that the driver and the streams of one host share, under one lock that nobody holds
//! for long or across an `await`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use anabranch_stack::checksum::PayloadSums;
use anabranch_stack::config::LocalAddress;
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, Departure, Event, Placement, SubflowId};
use anabranch_stack::segment::{Address, PathId, Segment};
use anabranch_stack::seq::DataRange;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::{Bytes, Duration, Time};
use anabranch_wire::checksum;
use rustc_hash::FxHashMap;
use tokio::io::ReadBuf;

use crate::capture::{Tap, Watcher};
use crate::clock::Clock;
use crate::flow::{Ending, Flow};
use crate::notice::{ConnectionReport, Notice};

/// How long a dropped stream waits for the peer to close after everything has been acknowledged, as
/// Linux does (`tcp_fin_timeout`).
const ORPHAN_WAIT: Duration = Duration::from_secs(60);

/// What driver and streams share.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    pub clock: Clock,
}

impl Shared {
    pub fn new(core: Core, clock: Clock) -> Shared {
        Shared { core: Mutex::new(core), clock }
    }

    pub fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic of a user's own scheduler leaves nothing half done that a later call could trip over.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `act` and wakes the driver if it sleeps.
    pub fn act<T>(&self, act: impl FnOnce(&mut Core, Time) -> T) -> T {
        let mut core = self.lock();
        // Not before: the stack's time does not run backwards.
        let now = self.clock.now();
        let result = act(&mut core, now);
        let driver = core.rouse();
        drop(core);
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }
}

/// A listening port.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub backlog: usize,
    pub waiting: VecDeque<ConnectionId>,
    pub accepter: Option<Waker>,
}

/// All state of a host.
pub(crate) struct Core {
    pub endpoint: Endpoint<Watcher>,
    pub flows: FxHashMap<ConnectionId, Box<Flow>>,
    /// How many connections there were.
    opened: u64,
    /// A peer uses DSS checksums, so payload has to be summed also where nobody checks TCP's.
    pub sums_wanted: bool,
    pub listeners: BTreeMap<u16, Listening>,
    pub addresses: Vec<LocalAddress>,
    /// When an orphan is to be aborted.
    deadlines: BTreeSet<(Time, ConnectionId)>,
    /// The driver, if it sleeps.
    pub driver: Option<Waker>,
    /// Something was done that the driver has to look at.
    pub stirred: bool,
    /// Why nothing works any more.
    pub failure: Option<(io::ErrorKind, Arc<str>)>,
    /// How many handles, streams and listeners there are.
    pub handles: usize,
    /// Whoever waits for all connections to end.
    pub finishers: Vec<Waker>,
    pub notices: Option<tokio::sync::mpsc::UnboundedSender<Notice>>,
    /// The capture, if there is one.
    pub tap: Option<Tap>,
    placed: Vec<Placement>,
    pub counters: crate::HostCounters,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("flows", &self.flows.len()).finish_non_exhaustive()
    }
}

impl Core {
    pub fn new(
        endpoint: Endpoint<Watcher>,
        addresses: Vec<LocalAddress>,
        notices: Option<tokio::sync::mpsc::UnboundedSender<Notice>>,
        tap: Option<Tap>,
    ) -> Core {
        Core {
            endpoint,
            flows: FxHashMap::default(),
            opened: 0,
            sums_wanted: false,
            listeners: BTreeMap::new(),
            addresses,
            deadlines: BTreeSet::new(),
            driver: None,
            stirred: false,
            failure: None,
            handles: 0,
            finishers: Vec::new(),
            notices,
            tap,
            placed: Vec::new(),
            counters: crate::HostCounters::default(),
        }
    }

    /// The driver, if it sleeps and there is something for it to do.
    fn rouse(&mut self) -> Option<Waker> {
        if core::mem::take(&mut self.stirred) { self.driver.take() } else { None }
    }

    /// The error of a host that has stopped.
    pub fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some((kind, text)) => Err(io::Error::new(*kind, text.to_string())),
            None => Ok(()),
        }
    }

    /// Whether a packet for `ip` is for this host.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|address| address.ip == ip)
    }

    /// The path of an address of this host.
    pub fn path_of(&self, ip: IpAddr) -> Option<PathId> {
        self.addresses.iter().find(|address| address.ip == ip).map(|address| address.path)
    }

    /// When the driver has to come back.
    pub fn next_timeout(&self) -> Option<Time> {
        let orphan = self.deadlines.first().map(|(at, _)| *at);
        [self.endpoint.poll_timeout(), orphan].into_iter().flatten().min()
    }

    fn track(&mut self, now: Time, id: ConnectionId, local: Address, remote: Address) {
        self.opened += 1;
        self.flows.insert(id, Box::new(Flow::new(now, self.opened, local, remote)));
    }

    /// A connection that this side opens.
    pub fn track_outgoing(&mut self, now: Time, id: ConnectionId, remote: Address) {
        let local = self.ends(id).map_or(remote, |(local, _)| local);
        self.track(now, id, local, remote);
    }

    fn ends(&self, id: ConnectionId) -> Option<(Address, Address)> {
        self.endpoint.subflow_stats(id).first().map(|subflow| (subflow.local, subflow.remote))
    }

    /// The flow `id`, which begins now if the stack has just accepted it.
    fn flow(&mut self, now: Time, id: ConnectionId) -> Option<&mut Flow> {
        if !self.flows.contains_key(&id) && !self.endpoint.has_ended(id) {
            let (local, remote) = self.ends(id)?;
            self.track(now, id, local, remote);
        }
        self.flows.get_mut(&id).map(|flow| &mut **flow)
    }

    /// A segment has come, with this payload.
    pub fn handle_segment(&mut self, now: Time, path: PathId, segment: &Segment, payload: &[u8]) {
        let mut placed = core::mem::take(&mut self.placed);
        self.endpoint.handle_segment(now, path, segment, &mut placed);
        for placement in placed.drain(..) {
            self.place(now, placement, payload);
        }
        self.placed = placed;
    }

    /// Puts bytes where the stack says.
    fn place(&mut self, now: Time, placement: Placement, payload: &[u8]) {
        let part = |offset: u32, len: u64| {
            payload.get(offset as usize..(offset as usize).saturating_add(len as usize)).unwrap_or(&[])
        };
        match placement {
            Placement::Deliver { connection, payload_offset, stream, .. } => {
                if let Some(flow) = self.flow(now, connection) {
                    flow.receive.store(stream.start, part(payload_offset, stream.len()));
                }
            }
            Placement::Hold { connection, subflow, payload_offset, held } => {
                if let Some(flow) = self.flow(now, connection) {
                    let bytes = part(payload_offset, held.len());
                    flow.held.get_or_insert_default().hold(subflow, held.start, bytes);
                }
            }
            Placement::Release { connection, subflow, held, stream } => {
                if let Some(flow) = self.flow(now, connection) {
                    let Flow { held: apart, receive, .. } = flow;
                    if let Some(apart) = apart {
                        apart.take(subflow, held, |at, bytes| {
                            receive.store(stream.start + (at - held.start), bytes);
                        });
                    }
                    flow.held.take_if(|apart| apart.is_empty());
                }
            }
            Placement::Drop { connection, subflow, held } => {
                if let Some(flow) = self.flow(now, connection) {
                    if let Some(apart) = &mut flow.held {
                        apart.take(subflow, held, |_, _| {});
                    }
                    flow.held.take_if(|apart| apart.is_empty());
                }
            }
            Placement::Discard { .. } => {}
        }
    }

    /// What is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        while let Some(&(at, id)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            if self.flows.get(&id).is_some_and(|flow| flow.orphan && flow.ended.is_none()) {
                self.endpoint.abort(now, id);
            }
        }
    }

    /// Acts on the stack's events. Who is to be woken goes to `woken`.
    pub fn handle_events(&mut self, now: Time, woken: &mut Vec<Waker>) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.handle_event(now, id, event, woken);
        }
    }

    fn handle_event(&mut self, now: Time, id: ConnectionId, event: Event, woken: &mut Vec<Waker>) {
        let received = self.endpoint.received(id);
        let Some(flow) = self.flow(now, id) else { return };
        let (number, local, remote) = (flow.number, flow.local, flow.remote);
        match event {
            Event::Connected => {
                flow.established = true;
                woken.extend(flow.writer.take());
                self.tell(|| Notice::Opened { number, local, remote, accepted: false });
            }
            Event::Accepted => {
                flow.established = true;
                self.accept(now, id, local.port, woken);
                self.tell(|| Notice::Opened { number, local, remote, accepted: true });
            }
            Event::Readable => {
                flow.received = flow.received.max(received);
                if flow.orphan && flow.received > flow.read {
                    // RFC 9293 section 3.9.1.4 and RFC 2525 section 2.17: nobody will ever read it.
                    self.endpoint.abort(now, id);
                } else {
                    woken.extend(flow.reader.take());
                }
            }
            Event::Writable => woken.extend(flow.writer.take()),
            Event::PeerClosed => {
                flow.received = flow.received.max(received);
                flow.peer_closed = true;
                woken.extend(flow.reader.take());
                woken.extend(flow.closer.take());
            }
            Event::AllAcked => {
                flow.drained = flow.shut;
                woken.extend(flow.closer.take());
                if flow.orphan {
                    let at = now + ORPHAN_WAIT;
                    self.abort_at(at, id);
                }
            }
            Event::SubflowUp(subflow) => {
                self.tell_subflow(id, number, subflow, true);
            }
            Event::SubflowDown(subflow) => {
                if let Some(held) = &mut flow.held {
                    held.forget(subflow);
                }
                self.tell_subflow(id, number, subflow, false);
            }
            Event::Closed(reason) => {
                flow.received = flow.received.max(received);
                let stats = self.endpoint.stats(id).unwrap_or_default();
                let subflows = self.endpoint.subflow_stats(id);
                self.end(now, id, Ending { reason, stats, subflows }, woken);
            }
        }
    }

    fn end(&mut self, now: Time, id: ConnectionId, ending: Ending, woken: &mut Vec<Waker>) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.wake_all(woken);
        flow.send.release();
        flow.held = None;
        if flow.deadline.is_armed() {
            self.deadlines.remove(&(flow.deadline, id));
            flow.deadline = Time::NEVER;
        }
        let report = ConnectionReport {
            number: flow.number,
            local: flow.local,
            remote: flow.remote,
            opened: flow.opened,
            closed: now,
            reason: ending.reason,
            stats: ending.stats,
            subflows: ending.subflows.clone(),
        };
        flow.ended = Some(Box::new(ending));
        self.endpoint.observer_mut().forget(id);
        if flow.orphan {
            self.forget(id, woken);
        }
        self.tell(|| Notice::Closed(Box::new(report)));
    }

    fn forget(&mut self, id: ConnectionId, woken: &mut Vec<Waker>) {
        if let Some(flow) = self.flows.remove(&id)
            && flow.deadline.is_armed()
        {
            self.deadlines.remove(&(flow.deadline, id));
        }
        if self.flows.is_empty() {
            woken.append(&mut self.finishers);
        }
    }

    fn abort_at(&mut self, at: Time, id: ConnectionId) {
        if let Some(flow) = self.flows.get_mut(&id)
            && at < flow.deadline
        {
            if flow.deadline.is_armed() {
                self.deadlines.remove(&(flow.deadline, id));
            }
            flow.deadline = at;
            self.deadlines.insert((at, id));
        }
    }

    fn accept(&mut self, now: Time, id: ConnectionId, port: u16, woken: &mut Vec<Waker>) {
        match self.listeners.get_mut(&port) {
            Some(listening) if listening.waiting.len() < listening.backlog => {
                listening.waiting.push_back(id);
                woken.extend(listening.accepter.take());
            }
            _ => {
                // Nobody would ever take it.
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.orphan = true;
                }
                self.counters.backlog_overflows += 1;
                self.endpoint.abort(now, id);
            }
        }
    }

    fn tell(&mut self, notice: impl FnOnce() -> Notice) {
        if let Some(notices) = &self.notices {
            // Whoever does not listen any more misses nothing.
            let _ = notices.send(notice());
        }
    }

    fn tell_subflow(&mut self, id: ConnectionId, number: u64, subflow: SubflowId, up: bool) {
        if self.notices.is_none() {
            return;
        }
        let all = self.endpoint.subflow_stats(id);
        if let Some(stats) = all.into_iter().rev().find(|stats| stats.id == subflow) {
            self.tell(|| {
                if up { Notice::SubflowUp { number, stats } } else { Notice::SubflowDown { number, stats } }
            });
        }
    }

    /// Nothing works any more: whoever waits hears why.
    pub fn fail(&mut self, kind: io::ErrorKind, text: &str, woken: &mut Vec<Waker>) {
        if self.failure.is_none() {
            self.failure = Some((kind, text.into()));
        }
        self.flows.retain(|_, flow| {
            flow.wake_all(woken);
            !flow.orphan
        });
        self.deadlines.clear();
        for listening in self.listeners.values_mut() {
            woken.extend(listening.accepter.take());
        }
        woken.append(&mut self.finishers);
    }

    /// The next segment to send.
    pub fn poll_transmit(&mut self, now: Time, segment: &mut Segment) -> Option<Departure> {
        self.endpoint.observer_mut().turn();
        self.endpoint.poll_transmit_into(now, segment, &Sums(&self.flows))
    }

    pub fn poll_read(
        &mut self,
        now: Time,
        id: ConnectionId,
        cx: &Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let live = self.endpoint.received(id);
        let failed = self.check();
        let Some(flow) = self.flows.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        flow.received = flow.received.max(live);
        let n = (flow.received - flow.read).min(buf.remaining() as u64);
        if n > 0 {
            let Some((first, second)) = flow.receive.parts(flow.read, n as usize) else {
                return Poll::Ready(Err(io::Error::other("a byte that has arrived is not there")));
            };
            buf.put_slice(first);
            buf.put_slice(second);
            flow.read += n;
            flow.receive.advance(flow.read);
            if flow.ended.is_none() {
                self.endpoint.consume(now, id, n);
                self.stirred = true;
            }
            return Poll::Ready(Ok(()));
        }
        if buf.remaining() == 0 || flow.peer_closed {
            return Poll::Ready(Ok(()));
        }
        if flow.ended.is_some() {
            return Poll::Ready(flow.error().map_or(Ok(()), Err));
        }
        failed?;
        flow.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    pub fn poll_write(
        &mut self,
        now: Time,
        id: ConnectionId,
        cx: &Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let Some(flow) = self.flows.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if flow.ended.is_some() || flow.shut {
            let error = flow.error().unwrap_or_else(|| {
                io::Error::new(io::ErrorKind::BrokenPipe, "this side has closed the connection for writing")
            });
            return Poll::Ready(Err(error));
        }
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let accepted = self.endpoint.write(now, id, from.len() as u64) as usize;
        if accepted == 0 {
            flow.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        flow.send.advance(self.endpoint.freed(id));
        flow.send.store(flow.written, &from[..accepted]);
        flow.written += accepted as u64;
        self.stirred = true;
        Poll::Ready(Ok(accepted))
    }

    /// Whether the handshake is done.
    pub fn poll_established(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let failed = self.check();
        let Some(flow) = self.flows.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if flow.established {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = flow.error() {
            return Poll::Ready(Err(error));
        }
        failed?;
        flow.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub fn shut(&mut self, now: Time, id: ConnectionId) -> io::Result<()> {
        self.check()?;
        let Some(flow) = self.flows.get_mut(&id) else { return Err(io::ErrorKind::NotConnected.into()) };
        if let Some(error) = flow.error() {
            return Err(error);
        }
        if !flow.shut {
            flow.shut = true;
            self.endpoint.close(now, id);
            self.stirred = true;
        }
        Ok(())
    }

    /// Whether everything that was written, and the end, has been acknowledged.
    pub fn poll_drained(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let failed = self.check();
        let Some(flow) = self.flows.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if flow.drained || flow.ended.is_some() {
            return Poll::Ready(flow.error().filter(|_| !flow.drained).map_or(Ok(()), Err));
        }
        failed?;
        flow.closer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub fn abort(&mut self, now: Time, id: ConnectionId) {
        if self.flows.get(&id).is_some_and(|flow| flow.ended.is_none()) {
            self.endpoint.abort(now, id);
            self.stirred = true;
        }
    }

    /// The stream was dropped.
    pub fn release(&mut self, now: Time, id: ConnectionId) {
        let mut woken = Vec::new();
        let live = self.endpoint.received(id);
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.orphan = true;
        (flow.reader, flow.writer, flow.closer) = (None, None, None);
        let unread = flow.received.max(live) > flow.read;
        let (linger, drained, shut) = (flow.linger, flow.drained, flow.shut);
        if flow.ended.is_some() || self.failure.is_some() {
            self.forget(id, &mut woken);
        } else if unread || linger == Some(Duration::ZERO) || !flow.established {
            // What the peer has sent is lost, and it must not think otherwise (RFC 9293 section 3.9.1.4).
            self.endpoint.abort(now, id);
        } else {
            if !shut {
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.shut = true;
                }
                self.endpoint.close(now, id);
            }
            if let Some(linger) = linger {
                self.abort_at(now + linger, id);
            }
            if drained {
                self.abort_at(now + ORPHAN_WAIT, id);
            }
        }
        self.stirred = true;
        woken.into_iter().for_each(Waker::wake);
    }

    pub fn set_flow_size(&mut self, id: ConnectionId, size: Option<u64>) {
        self.endpoint.set_flow_size(id, size.map(Bytes));
    }

    pub fn stats(&self, id: ConnectionId) -> ConnectionStats {
        let ended = self.flows.get(&id).and_then(|flow| flow.ended.as_ref());
        ended.map(|ending| ending.stats).or_else(|| self.endpoint.stats(id)).unwrap_or_default()
    }

    pub fn subflow_stats(&self, id: ConnectionId) -> Vec<SubflowStats> {
        let ended = self.flows.get(&id).and_then(|flow| flow.ended.as_ref());
        ended.map_or_else(|| self.endpoint.subflow_stats(id), |ending| ending.subflows.clone())
    }
}

/// Sums what is written, for DSS checksums.
struct Sums<'a>(&'a FxHashMap<ConnectionId, Box<Flow>>);

impl PayloadSums for Sums<'_> {
    fn sum(&self, connection: ConnectionId, range: DataRange) -> u16 {
        let parts =
            self.0.get(&connection).and_then(|flow| flow.send.parts(range.start, range.len() as usize));
        parts.map_or(0, |(first, second)| {
            sum_of_parts(checksum::sum(first), first.len(), checksum::sum(second))
        })
    }
}

/// The sum of two parts, the first of which has `len` bytes.
pub(crate) fn sum_of_parts(first: u16, len: usize, second: u16) -> u16 {
    checksum::combine(first, if len % 2 == 1 { checksum::swap(second) } else { second })
}
