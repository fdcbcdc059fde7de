//! A host: demultiplexes segments to connections, and polls these in turn for segments and events.

mod accept;
mod application;
mod cookie;
mod demux;
mod half_open;
mod open;
mod table;
mod time_wait;
mod timers;

use core::net::IpAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anabranch_units::Time;

use crate::checksum::PayloadSums;
use crate::config::{EndpointConfig, Entropy, SimConfig};
use crate::connection::{Connection, Opening, Phase, Polled, TURN, Timers};
use crate::event::{ConnectionId, Departure, Event, Placement, Transmit};
use crate::observer::{Observer, StackEvent, StackEvents};
use crate::segment::{Address, Flags, Join, Key, PathId, Segment};
use crate::seq::Seq;
use crate::stats::EndpointCounters;
use crate::subflow::FastPaths;
use cookie::Cookies;
use demux::Demux;
use half_open::HalfOpen;
use table::Table;
use time_wait::TimeWaits;
use timers::TimerQueue;

pub use demux::Moved;
pub use open::ConnectError;

/// All connections of one host.
///
/// The driver's loop: hand in inputs, then call [`Endpoint::poll_transmit`] until it returns `None`, and then
/// [`Endpoint::poll_timeout`] for the time of the next call.
// The field order keeps the fields used for each segment together.
#[derive(Clone)]
#[repr(C)]
pub struct Endpoint<O = ()> {
    connections: Table,
    ready: VecDeque<ConnectionId>,
    timers: TimerQueue,
    /// Connections that have not sent their first SYN. They alternate with the ready ones: otherwise, if a
    /// thousand are opened at once, their acknowledgements wait until all SYNs are sent, and the peers
    /// measure that as round-trip time.
    opening: VecDeque<ConnectionId>,
    eventful: VecDeque<ConnectionId>,
    /// Ended connections; the last event of each was polled.
    ending: Vec<ConnectionId>,
    /// Answers to segments that match no connection.
    replies: VecDeque<Transmit>,
    /// The number of consecutive segments sent by the first ready connection.
    turn: u32,
    burst_limit: u32,
    /// True if a ready connection has had its turn, so that the first opening one is next.
    opens: bool,
    /// True if an opening connection has its turn.
    opening_now: bool,
    send_buffers_grow: bool,
    fast_paths: FastPaths,
    observer: O,
    demux: Demux,

    config: EndpointConfig,
    entropy: Entropy,
    listeners: BTreeMap<u16, SimConfig>,
    /// The configuration of the newest connection; the next one usually has the same.
    shared: Option<Arc<SimConfig>>,
    half_open: HalfOpen,
    cookies: Cookies,
    counters: EndpointCounters,
    time_waits: TimeWaits,
    next_port: u16,
    /// The secrets of the initial sequence numbers, drawn with the first of them.
    isn_secret: Option<[Key; 2]>,
}

impl Endpoint<()> {
    /// Returns a host without an observer.
    pub fn new(config: EndpointConfig, entropy: Entropy) -> Endpoint<()> {
        Endpoint::with_observer(config, entropy, ())
    }
}

impl<O: Observer> Endpoint<O> {
    /// Returns a host that reports its actions to `observer`.
    pub fn with_observer(config: EndpointConfig, mut entropy: Entropy, observer: O) -> Endpoint<O> {
        let next_port = 49_152 + (entropy.next_u32() % 16_384) as u16;
        Endpoint {
            entropy,
            observer,
            listeners: BTreeMap::new(),
            shared: None,
            connections: Table::default(),
            half_open: HalfOpen::default(),
            cookies: Cookies::new(config.shard),
            counters: EndpointCounters::default(),
            time_waits: TimeWaits::default(),
            demux: Demux::new(config.shard),
            timers: TimerQueue::default(),
            ready: VecDeque::new(),
            turn: 0,
            opening: VecDeque::new(),
            opens: false,
            opening_now: false,
            eventful: VecDeque::new(),
            ending: Vec::new(),
            replies: VecDeque::new(),
            next_port,
            isn_secret: None,
            config,
            burst_limit: 0,
            send_buffers_grow: true,
            fast_paths: FastPaths::On,
        }
    }

    /// Lets up to `bytes` bytes of payload be sent as one departure that represents several segments, which
    /// share one mapping ([`Departure::segment_size`]): for a driver or a device that segments. With 0, the
    /// default, each segment is a separate departure, as always if DSS checksums were negotiated. Values
    /// above 65,000 count as 65,000.
    pub fn set_burst_limit(&mut self, bytes: u32) {
        self.burst_limit = bytes;
    }

    /// Enables or disables the fast paths of connections opened from now on; for the tests that compare them
    /// with the slow paths.
    #[doc(hidden)]
    pub fn set_fast_paths(&mut self, on: bool) {
        self.fast_paths = if on { FastPaths::On } else { FastPaths::Off };
    }

    /// Returns the recipient of the endpoint's events.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Returns the recipient of the endpoint's events, for a change of its state.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(id).map(|entry| &entry.connection)
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id).map(|entry| &mut entry.connection)
    }

    /// Handles a segment received on `path`, and appends the placement of its payload to `placed`.
    pub fn handle_segment(
        &mut self,
        now: Time,
        path: PathId,
        segment: &Segment,
        placed: &mut Vec<Placement>,
    ) {
        let before = placed.len();
        self.process_segment(now, path, segment, placed);
        if O::EVENTS.has(StackEvents::ARRIVED) {
            for placement in &placed[before..] {
                if let Placement::Deliver { connection, subflow, stream: range, .. }
                | Placement::Release { connection, subflow, stream: range, .. } = *placement
                {
                    self.observer.on_event(now, connection, &StackEvent::Arrived { subflow, range });
                }
            }
        }
    }

    #[inline(always)]
    fn process_segment(&mut self, now: Time, path: PathId, segment: &Segment, placed: &mut Vec<Placement>) {
        let (local, remote) = (segment.destination, segment.source);
        if let Some((id, subflow)) = self.demux.find(local, remote)
            && let Some(entry) = self.connections.get_mut(id)
        {
            let connection = &mut entry.connection;
            let predicted = connection.fast_handle_segment(now, subflow, segment, placed, &mut self.observer);
            if let Some(ack_at) = predicted {
                if ack_at < entry.queued_at {
                    entry.timers = Timers::Moved;
                }
            } else {
                if connection.refuses(subflow, segment) {
                    self.refuse(path, segment);
                    return;
                }
                entry.timers = Timers::Moved;
                let subflow = match connection.is_racing() {
                    true => Self::judge_race(&mut self.demux, entry, now, (id, subflow), segment),
                    false => subflow,
                };
                let connection = &mut entry.connection;
                connection.handle_segment(now, subflow, segment, placed, &mut self.observer);
                connection.report_windows(now, &mut self.observer);
            }
            let connection = &mut entry.connection;
            if !entry.in_ready {
                if connection.wants_to_send() {
                    entry.in_ready = true;
                    self.ready.push_back(id);
                } else if entry.timers == Timers::Moved || !connection.events.is_empty() {
                    self.settle(now, id);
                } else {
                    debug_assert!(connection.exact_timeout(now) >= entry.queued_at);
                }
            }
            return;
        }
        if self.time_waits.has((local, remote)) && self.is_late(now, segment) {
            return;
        }
        if segment.flags.has(Flags::RST) {
            return;
        }
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if opens && self.accept(now, path, segment) {
            return;
        }
        if self.cookies.are_out(now) && self.take_cookie(now, path, segment, placed) {
            return;
        }
        self.refuse(path, segment);
    }

    /// Returns the endpoint with the same addresses to which `segment` is to be passed: it opens a subflow of a connection there,
    /// and no subflow here has its four-tuple.
    pub fn passes_on(&self, segment: &Segment) -> Option<u16> {
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if self.config.shard.is_whole() || !opens {
            return None;
        }
        let Some(Join::Syn { token, .. }) = crate::connection::find_join(&segment.options) else {
            return None;
        };
        let shard = self.config.shard.of_token(token);
        let is_other = shard != self.config.shard.index();
        let (local, remote) = (segment.destination, segment.source);
        let is_here = self.demux.has(local, remote) || self.time_waits.has((local, remote));
        (is_other && !is_here).then_some(shard)
    }

    /// Returns the next change of the subflows with four-tuples of another endpoint with the same addresses. Poll it after each
    /// call that handles a segment, before segments of [`Endpoint::poll_transmit`] are sent: the answers are for this
    /// endpoint.
    #[inline]
    pub fn poll_moved(&mut self) -> Option<Moved> {
        self.demux.poll_moved()
    }

    /// Prefetches the state that a segment from `remote` to `local`, with data or without, will use: for a driver that
    /// knows the next segments, and has so many connections that they have left the fast caches. Results do not depend on
    /// it.
    #[inline(never)]
    pub fn fetch(&self, local: Address, remote: Address, data: bool) {
        if let Some((id, subflow)) = self.demux.peek(local, remote)
            && let Some(entry) = self.connections.get(id)
        {
            entry.connection.fetch(subflow, data);
        }
    }

    /// Handles a router's report that it has dropped the segment from `local` to `remote` that began at
    /// `seq`, because packets of more than `mtu` bytes, including the IP header, do not pass (ICMP
    /// "fragmentation needed" and "packet too big"; 0 if the report has no MTU).
    pub fn handle_too_big(&mut self, now: Time, local: Address, remote: Address, seq: Seq, mtu: u32) {
        let Some((id, subflow)) = self.demux.find(local, remote) else { return };
        let Some(entry) = self.connections.get_mut(id) else { return };
        entry.connection.on_too_big(now, subflow.index(), seq, mtu, &mut self.observer);
        self.mark_ready(id);
    }

    /// Handles the timers due at the time of [`Endpoint::poll_timeout`] (calling early or late is harmless).
    pub fn handle_timeout(&mut self, now: Time) {
        self.forget_time_waits(now);
        while let Some((due, id)) = self.timers.pop_due(now) {
            let Some(entry) = self.connections.get_mut(id) else { continue };
            if entry.queued_at != due {
                continue;
            }
            entry.queued_at = Time::NEVER;
            let connection = &mut entry.connection;
            if connection.next_timeout(now, Time::NEVER) <= now {
                connection.handle_timeout(now, &mut self.observer);
                connection.report_windows(now, &mut self.observer);
            }
            self.mark_ready(id);
        }
    }

    /// Returns the next segment to send. Call it until it returns `None`, after each call that changes
    /// anything. For payload of zeros, as in simulation; see [`Endpoint::poll_transmit_into`].
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        let nobody = Address::new(IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0);
        let mut segment = Segment::new(nobody, nobody, Seq(0), Flags::default());
        let departure = self.poll_transmit_into(now, &mut segment, &())?;
        let Departure { connection, path, stream_offset, segment_size, .. } = departure;
        Some(Transmit { connection, path, segment, stream_offset, segment_size })
    }

    /// Like [`Endpoint::poll_transmit`], with the segment written to `segment`. Its previous contents are
    /// ignored; it may be overwritten even if nothing is returned.
    ///
    /// `sums` computes the sum of each new mapping's payload if DSS checksums were negotiated; use `&()` for
    /// payload of zeros.
    pub fn poll_transmit_into<S: PayloadSums>(
        &mut self,
        now: Time,
        segment: &mut Segment,
        sums: &S,
    ) -> Option<Departure> {
        if !self.replies.is_empty() {
            return self.next_reply(segment);
        }
        while let Some(id) = self.next_ready() {
            let Some(entry) = self.connections.get_mut(id) else {
                self.ready.pop_front();
                continue;
            };
            let connection = &mut entry.connection;
            let Polled { departure, timers } =
                connection.poll_transmit(now, segment, sums, self.burst_limit, &mut self.observer);
            if timers == Timers::Moved {
                entry.timers = timers;
            }
            connection.report_windows(now, &mut self.observer);
            self.turn += connection.turns_of(segment);
            // Usually it is known without another call that there is nothing more.
            if departure.is_none() || !connection.wants_to_send() {
                entry.in_ready = false;
                self.ready.pop_front();
                self.turn = 0;
                self.opens = !core::mem::take(&mut self.opening_now);
                self.settle(now, id);
            } else if self.turn >= TURN {
                self.ready.rotate_left(1);
                self.turn = 0;
                self.opens = !core::mem::take(&mut self.opening_now);
            }
            if departure.is_some() {
                return departure;
            }
        }
        None
    }

    #[cold]
    fn next_reply(&mut self, segment: &mut Segment) -> Option<Departure> {
        let reply = self.replies.pop_front()?;
        *segment = reply.segment;
        Some(Departure {
            connection: None,
            path: reply.path,
            stream_offset: 0,
            segment_size: 0,
            scattered: false,
        })
    }

    /// Returns the next connection to poll for a segment.
    #[inline]
    fn next_ready(&mut self) -> Option<ConnectionId> {
        if self.turn == 0
            && (self.opens || self.ready.is_empty())
            && let Some(id) = self.opening.pop_front()
        {
            (self.opens, self.opening_now) = (false, true);
            self.ready.push_front(id);
        }
        self.ready.front().copied()
    }

    /// Returns the time at which [`Endpoint::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// True if there are neither segments nor events: a cheaper test than [`Endpoint::poll_transmit`] and
    /// [`Endpoint::poll_event`].
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty()
            && self.opening.is_empty()
            && self.eventful.is_empty()
            && self.ending.is_empty()
            && self.replies.is_empty()
    }

    /// True if segments of no connection are queued: resets, and answers with a cookie.
    pub fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Returns the next event; call it until it returns `None`.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        if self.eventful.is_empty() && self.ending.is_empty() {
            return None;
        }
        self.next_event()
    }

    fn next_event(&mut self) -> Option<(ConnectionId, Event)> {
        while let Some(id) = self.ending.pop() {
            self.release(id);
        }
        while let Some(&id) = self.eventful.front() {
            if let Some(entry) = self.connections.get_mut(id) {
                if let Some(event) = entry.connection.events.pop() {
                    if matches!(event, Event::Closed(_)) {
                        entry.closed_reported = true;
                        if entry.connection.only_waits() {
                            self.ending.push(id);
                        }
                    }
                    return Some((id, event));
                }
                entry.in_eventful = false;
            }
            self.eventful.pop_front();
        }
        None
    }

    /// Queues the connection to be polled for segments and events.
    fn mark_ready(&mut self, id: ConnectionId) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        entry.timers = Timers::Moved;
        if !entry.in_ready {
            entry.in_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Updates timers, events, and new and ended subflows, after all segments of the connection were sent.
    fn settle(&mut self, now: Time, id: ConnectionId) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        let connection = &mut entry.connection;
        if !connection.events.is_empty() && !entry.in_eventful {
            entry.in_eventful = true;
            self.eventful.push_back(id);
        }
        if connection.wanted.take_cleanup() {
            for subflow in &connection.subflows {
                if entry.demuxed.has(subflow.id()) && subflow.state().is_closed() {
                    entry.demuxed = entry.demuxed.without(subflow.id());
                    self.demux.remove(subflow.route().local(), subflow.route().remote());
                }
            }
        }
        match connection.opening(now) {
            Opening::Now => {
                // They are sent before the connection is polled again.
                self.open_subflows(now, id);
                return;
            }
            Opening::Later(Timers::Moved) => entry.timers = Timers::Moved,
            Opening::Later(Timers::Unmoved) | Opening::Nothing => {}
        }
        if connection.phase == Phase::Ended {
            if entry.closed_reported && connection.only_waits() {
                self.release(id);
                return;
            }
            if connection.is_dead() {
                return;
            }
        }
        let mut due = Time::NEVER;
        if core::mem::replace(&mut entry.timers, Timers::Unmoved) == Timers::Moved {
            due = connection.next_timeout(now, entry.queued_at);
        }
        if due < entry.queued_at {
            entry.queued_at = due;
            self.timers.push(due, id);
        }
        debug_assert!(connection.exact_timeout(now) >= entry.queued_at, "a timer that is not queued");
    }

    #[cold]
    fn release(&mut self, id: ConnectionId) {
        let Some(mut entry) = self.connections.remove(id) else { return };
        let connection = &mut entry.connection;
        self.demux.release_token(connection.keys.local_token(), id);
        for at in 0..connection.subflows.len() {
            let subflow = &connection.subflows[at];
            let ends = (subflow.route().local(), subflow.route().remote());
            if !entry.demuxed.has(subflow.id()) {
                continue;
            }
            match connection.time_wait(at) {
                // Segments with its ends are still for this endpoint.
                Some(wait) => {
                    self.demux.forget(ends.0, ends.1);
                    self.note_time_wait(ends, wait);
                }
                None => self.demux.remove(ends.0, ends.1),
            }
        }
    }
}
