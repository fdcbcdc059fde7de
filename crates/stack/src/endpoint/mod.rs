//! A host: demultiplexes segments to connections, and asks these in turn for what they have to send and to
//! tell.

mod accept;
mod application;
mod cookie;
mod demux;
mod half_open;
mod open;
mod table;
mod timers;

use core::net::IpAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anabranch_units::Time;

use crate::checksum::PayloadSums;
use crate::config::{ConnectionConfig, EndpointConfig, Entropy};
use crate::connection::{Connection, Phase, TURN};
use crate::event::{ConnectionId, Departure, Event, Placement, Transmit};
use crate::observer::Observer;
use crate::segment::{Address, Flags, Key, PathId, Segment};
use crate::seq::Seq;
use crate::stats::EndpointCounters;
use cookie::Cookies;
use demux::Demux;
use half_open::HalfOpen;
use table::Table;
use timers::TimerQueue;

pub use open::ConnectError;

/// All connections of one host.
///
/// The driver's loop: hand in what happened, then ask [`Endpoint::poll_transmit`] until there is
/// nothing more, and then [`Endpoint::poll_timeout`] for when to come back.
// In this order what each segment looks at lies together.
#[derive(Clone)]
#[repr(C)]
pub struct Endpoint<O = ()> {
    connections: Table,
    ready: VecDeque<ConnectionId>,
    timers: TimerQueue,
    /// Connections whose first SYN has not left. They take turns with those that are ready: a thousand that are
    /// opened at once would else have their acknowledgements wait behind all SYNs, and their peers take that for
    /// the round trip.
    opening: VecDeque<ConnectionId>,
    eventful: VecDeque<ConnectionId>,
    /// Ended connections whose last event was told.
    ending: Vec<ConnectionId>,
    /// Answers to segments that belong to no connection.
    replies: VecDeque<Transmit>,
    /// How many segments the first of those that are ready has sent in a row.
    turn: u32,
    burst_limit: u32,
    /// One that was ready has had its turn, and the first of those that open is the next.
    opens: bool,
    /// One of these has its turn.
    opening_now: bool,
    send_buffers_grow: bool,
    fast_paths: bool,
    observer: O,
    demux: Demux,

    config: EndpointConfig,
    entropy: Entropy,
    listeners: BTreeMap<u16, ConnectionConfig>,
    /// What the newest connection was told: mostly it is what the next one is told.
    shared: Option<Arc<ConnectionConfig>>,
    half_open: HalfOpen,
    cookies: Cookies,
    counters: EndpointCounters,
    next_port: u16,
    /// Of the initial sequence numbers, drawn with the first of them.
    isn_secret: Option<[Key; 2]>,
}

impl Endpoint<()> {
    /// A host that nobody listens to.
    pub fn new(config: EndpointConfig, entropy: Entropy) -> Endpoint<()> {
        Endpoint::with_observer(config, entropy, ())
    }
}

impl<O: Observer> Endpoint<O> {
    /// A host that tells `observer` what it does.
    pub fn with_observer(config: EndpointConfig, mut entropy: Entropy, observer: O) -> Endpoint<O> {
        let next_port = 49_152 + (entropy.next_u32() % 16_384) as u16;
        Endpoint {
            config,
            entropy,
            observer,
            listeners: BTreeMap::new(),
            shared: None,
            connections: Table::default(),
            half_open: HalfOpen::default(),
            cookies: Cookies::default(),
            counters: EndpointCounters::default(),
            demux: Demux::default(),
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
            burst_limit: 0,
            send_buffers_grow: true,
            fast_paths: true,
        }
    }

    /// Lets up to so many bytes of payload leave as one departure that stands for several segments, which
    /// share one mapping ([`Departure::segment_size`]): for a driver whose device cuts segments, or who does
    /// it cheaper itself. 0, as at first: each segment leaves by itself, as it always does where DSS checksums
    /// are agreed on. More than 65,000 counts as that.
    pub fn set_burst_limit(&mut self, bytes: u32) {
        self.burst_limit = bytes;
    }

    /// Switches the fast paths of connections that are opened from now on; for the tests that hold them equal to the
    /// functions that they stand for.
    #[doc(hidden)]
    pub fn set_fast_paths(&mut self, on: bool) {
        self.fast_paths = on;
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(id).map(|entry| &entry.connection)
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id).map(|entry| &mut entry.connection)
    }

    /// A segment has arrived by `path`. What becomes of its payload is appended to `placed`.
    pub fn handle_segment(
        &mut self,
        now: Time,
        path: PathId,
        segment: &Segment,
        placed: &mut Vec<Placement>,
    ) {
        let (local, remote) = (segment.destination, segment.source);
        if let Some((id, subflow)) = self.demux.find(local, remote)
            && let Some(entry) = self.connections.get_mut(id)
        {
            let connection = &mut entry.connection;
            let predicted = connection.fast_handle_segment(now, subflow, segment, placed, &mut self.observer);
            if let Some(ack_at) = predicted {
                if ack_at < entry.queued_at {
                    connection.wanted.timers();
                }
            } else {
                if connection.refuses(subflow, segment) {
                    self.refuse(path, segment);
                    return;
                }
                connection.handle_segment(now, subflow, segment, placed, &mut self.observer);
                connection.report_windows(now, &mut self.observer);
            }
            if !entry.in_ready {
                if connection.wants_to_send() {
                    entry.in_ready = true;
                    self.ready.push_back(id);
                } else if connection.wanted.wants_timers() || !connection.events.is_empty() {
                    self.settle(now, id);
                } else {
                    debug_assert!(connection.exact_timeout(now) >= entry.queued_at);
                }
            }
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

    /// A router says that it has dropped the segment from `local` to `remote` that began at `seq`, because
    /// packets of more than `mtu` bytes, IP header included, do not pass (ICMP "fragmentation needed" and
    /// "packet too big"; 0 if it does not say how many).
    pub fn handle_too_big(&mut self, now: Time, local: Address, remote: Address, seq: Seq, mtu: u32) {
        let Some((id, subflow)) = self.demux.find(local, remote) else { return };
        let Some(entry) = self.connections.get_mut(id) else { return };
        entry.connection.on_too_big(now, subflow.index(), seq, mtu, &mut self.observer);
        self.touch(now, id);
    }

    /// The time of [`Endpoint::poll_timeout`] has come (calling early or late is harmless).
    pub fn handle_timeout(&mut self, now: Time) {
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
            self.touch(now, id);
        }
    }

    /// The next segment to send; ask until there is none, after each call that changes anything. For
    /// payload of zeros, as in simulation; see [`Endpoint::poll_transmit_into`].
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        let nobody = Address::new(IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0);
        let mut segment = Segment::new(nobody, nobody, Seq(0), Flags::default());
        let departure = self.poll_transmit_into(now, &mut segment, &())?;
        let Departure { connection, path, stream_offset, segment_size } = departure;
        Some(Transmit { connection, path, segment, stream_offset, segment_size })
    }

    /// As [`Endpoint::poll_transmit`], with the segment written where the driver wants it. What
    /// `segment` held before does not matter; it may be overwritten also when there is none.
    ///
    /// `sums` is asked for the sum of each new mapping's payload where DSS checksums are agreed on; `&()`
    /// stands for payload of zeros.
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
            let departure =
                connection.poll_transmit(now, segment, sums, self.burst_limit, &mut self.observer);
            connection.report_windows(now, &mut self.observer);
            self.turn += connection.turns_of(segment);
            // That there is nothing more is mostly known without asking again.
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
        Some(Departure { connection: None, path: reply.path, stream_offset: 0, segment_size: 0 })
    }

    /// Who is asked next for a segment.
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

    /// When [`Endpoint::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Whether there is nothing to send and nothing to hear: what [`Endpoint::poll_transmit`] and
    /// [`Endpoint::poll_event`] would find out, at less cost.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty()
            && self.opening.is_empty()
            && self.eventful.is_empty()
            && self.ending.is_empty()
            && self.replies.is_empty()
    }

    /// Whether segments of no connection wait to be sent: resets, and answers with a cookie.
    pub fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The next event; ask until there is none.
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
                        entry.closed_told = true;
                        if entry.connection.is_dead() {
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

    /// Puts the connection where it will be asked for segments and events.
    fn touch(&mut self, _now: Time, id: ConnectionId) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        entry.connection.wanted.timers();
        if !entry.in_ready {
            entry.in_ready = true;
            self.ready.push_back(id);
        }
    }

    /// After all its segments have left: timers, events, new and gone subflows.
    fn settle(&mut self, now: Time, id: ConnectionId) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        let connection = &mut entry.connection;
        if !connection.events.is_empty() && !entry.in_eventful {
            entry.in_eventful = true;
            self.eventful.push_back(id);
        }
        if connection.wanted.take_cleanup() {
            for subflow in &mut connection.subflows {
                if subflow.is_demuxed() && subflow.is_closed() {
                    subflow.set_demuxed(false);
                    self.demux.remove(subflow.local(), subflow.remote());
                }
            }
        }
        if connection.is_time_to_open(now) {
            // They are sent before this comes up again.
            self.open_subflows(now, id);
            return;
        }
        if connection.phase == Phase::Ended && connection.is_dead() {
            if entry.closed_told {
                self.release(id);
            }
            return;
        }
        let mut due = Time::NEVER;
        if connection.wanted.take_timers() {
            due = connection.next_timeout(now, entry.queued_at);
        }
        if due < entry.queued_at {
            entry.queued_at = due;
            self.timers.push(due, id);
        }
        debug_assert!(connection.exact_timeout(now) >= entry.queued_at, "a timer that nobody waits for");
    }

    #[cold]
    fn release(&mut self, id: ConnectionId) {
        let Some(entry) = self.connections.remove(id) else { return };
        let connection = &entry.connection;
        self.demux.release_token(connection.keys.local_token(), id);
        for subflow in connection.subflows.iter().filter(|subflow| subflow.is_demuxed()) {
            self.demux.remove(subflow.local(), subflow.remote());
        }
    }
}
