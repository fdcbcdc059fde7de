//! A host: demultiplexes segments to connections, listens, connects.

mod demux;
mod half_open;
mod table;
mod timers;

use core::net::IpAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anabranch_units::{Bytes, Time};

use crate::checksum::PayloadSums;
use crate::config::{Checksums, ConnectionConfig, EndpointConfig, Entropy};
use crate::connection::{Connection, Phase, TURN};
use crate::crypto;
use crate::event::{CloseReason, ConnectionId, Departure, Event, Placement, Transmit};
use crate::observer::Observer;
use crate::segment::{Address, Capable, Flags, Join, Key, MptcpOption, PathId, ResetReason, Segment};
use crate::seq::{Dsn, Seq};
use crate::stats::{ConnectionStats, EndpointCounters, SubflowStats};
use crate::subflow::SubflowBirth;
use demux::Demux;
use half_open::HalfOpen;
use table::Table;
use timers::TimerQueue;

/// Why a connection could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// The local address is not one of this host.
    UnknownLocalAddress(IpAddr),
    /// There are too many connections.
    TooManyConnections,
    /// No local port is free towards that address.
    NoFreePort,
}

impl core::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ConnectError::UnknownLocalAddress(ip) => write!(f, "{ip} is not an address of this host"),
            ConnectError::TooManyConnections => f.write_str("too many connections"),
            ConnectError::NoFreePort => f.write_str("no local port is free towards that address"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// How often a key is drawn again because its token is taken (RFC 8684 section 3.1).
const KEY_ATTEMPTS: u32 = 16;

/// All connections of one host.
///
/// The driver's loop: hand in what happened, then ask [`Endpoint::poll_transmit`] until there is
/// nothing more, and then [`Endpoint::poll_timeout`] for when to come back.
#[derive(Clone)]
pub struct Endpoint<O = ()> {
    config: EndpointConfig,
    entropy: Entropy,
    observer: O,
    listeners: BTreeMap<u16, ConnectionConfig>,
    /// What the newest connection was told: mostly it is what the next one is told.
    shared: Option<Arc<ConnectionConfig>>,
    connections: Table,
    half_open: HalfOpen,
    counters: EndpointCounters,
    demux: Demux,
    timers: TimerQueue,
    ready: VecDeque<ConnectionId>,
    /// How many segments the first of them has sent in a row.
    turn: u32,
    eventful: VecDeque<ConnectionId>,
    /// Ended connections whose last event was told.
    ending: Vec<ConnectionId>,
    /// Answers to segments that belong to no connection.
    replies: VecDeque<Transmit>,
    next_port: u16,
    burst_limit: u32,
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
            counters: EndpointCounters::default(),
            demux: Demux::default(),
            timers: TimerQueue::default(),
            ready: VecDeque::new(),
            turn: 0,
            eventful: VecDeque::new(),
            ending: Vec::new(),
            replies: VecDeque::new(),
            next_port,
            burst_limit: 0,
        }
    }

    /// Lets up to so many bytes of payload leave as one departure that stands for several segments, which
    /// share one mapping ([`Departure::segment_size`]): for a driver whose device cuts segments, or who does
    /// it cheaper itself. 0, as at first: each segment leaves by itself, as it always does where DSS checksums
    /// are agreed on. More than 65,000 counts as that.
    pub fn set_burst_limit(&mut self, bytes: u32) {
        self.burst_limit = bytes;
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Accepts connections to `port` on every local address, each with `config`.
    pub fn listen(&mut self, port: u16, config: ConnectionConfig) {
        self.listeners.insert(port, config);
    }

    /// Accepts no more connections to `port`. Those that there are go on.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Opens a connection from `local` to `remote`.
    ///
    /// # Errors
    /// If `local` is not an address of this host, or there is no room or port for another connection.
    pub fn connect(
        &mut self,
        now: Time,
        local: IpAddr,
        remote: Address,
        config: ConnectionConfig,
    ) -> Result<ConnectionId, ConnectError> {
        let Some(path) = self.path_of(local) else { return Err(ConnectError::UnknownLocalAddress(local)) };
        if self.is_full() {
            return Err(ConnectError::TooManyConnections);
        }
        let port = self.free_port(local, remote).ok_or(ConnectError::NoFreePort)?;
        let simultaneous = config.mptcp && config.simultaneous;
        let id = if simultaneous {
            let token = self.entropy.next_u32() | 1;
            self.create_agreed(now, token, true, config)
        } else {
            self.create(now, true, config)
        };
        let birth = SubflowBirth {
            local: Address::new(local, port),
            remote,
            path,
            iss: self.draw_iss(id),
            initiator: true,
            join: false,
            nonce: self.entropy.next_u32(),
        };
        if let Some(connection) = self.connection_mut(id) {
            connection.paths.set_initial_local(local);
            if let Some(at) = connection.add_subflow(now, birth) {
                connection.subflows[at].demuxed = true;
                let to = (id, connection.subflows[at].id());
                self.demux.add(Address::new(local, port), remote, to);
            }
        }
        if simultaneous && let Some(connection) = self.connection_mut(id) {
            connection.start_path_manager();
        }
        self.touch(now, id);
        Ok(id)
    }

    fn draw_iss(&mut self, id: ConnectionId) -> Seq {
        let random = Seq(self.entropy.next_u32());
        let origin = self.connection(id).and_then(|connection| connection.config.sequence_origin);
        origin.map_or(random, |origin| origin.isn)
    }

    fn path_of(&self, ip: IpAddr) -> Option<PathId> {
        self.config.addresses.iter().find(|address| address.ip == ip).map(|address| address.path)
    }

    fn free_port(&mut self, local: IpAddr, remote: Address) -> Option<u16> {
        for _ in 0..16_384 {
            let port = self.next_port;
            self.next_port = if port == u16::MAX { 49_152 } else { port + 1 };
            if self.demux.find(Address::new(local, port), remote).is_none() {
                return Some(port);
            }
        }
        None
    }

    /// A new connection with keys of its own.
    fn create(&mut self, now: Time, initiator: bool, mut config: ConnectionConfig) -> ConnectionId {
        let id = self.connections.next_id();
        let mut key = Key(self.entropy.next_u64());
        if config.mptcp {
            let mut attempts = 0;
            while !self.demux.claim_token(crypto::token(key), id) {
                key = Key(self.entropy.next_u64());
                attempts += 1;
                if attempts > KEY_ATTEMPTS {
                    // RFC 8684 section 3.1: without a unique token it is a plain TCP.
                    config.mptcp = false;
                    break;
                }
            }
        }
        let token = if config.mptcp { crypto::token(key) } else { 0 };
        let initial = match config.sequence_origin {
            Some(origin) if initiator => origin.initiator,
            Some(origin) => origin.listener,
            None if config.mptcp => crypto::initial_dsn(key),
            None => Dsn(0),
        };
        self.store(now, id, initiator, key, token, Dsn(initial.0.wrapping_add(1)), config);
        id
    }

    /// A connection whose keys both sides derive from `token` (simultaneous joins; simulation only).
    fn create_agreed(
        &mut self,
        now: Time,
        token: u32,
        initiator: bool,
        config: ConnectionConfig,
    ) -> ConnectionId {
        let id = self.connections.next_id();
        self.demux.claim_token(token, id);
        let keys = [Key(u64::from(token) << 32 | 1), Key(u64::from(token) << 32 | 2)];
        let (local, remote) = if initiator { (keys[0], keys[1]) } else { (keys[1], keys[0]) };
        let initial = match config.sequence_origin {
            Some(origin) if initiator => origin.initiator,
            Some(origin) => origin.listener,
            None => crypto::initial_dsn(local),
        };
        self.store(now, id, initiator, local, token, Dsn(initial.0.wrapping_add(1)), config);
        if let Some(connection) = self.connection_mut(id) {
            connection.learn_remote_key(remote);
            connection.remote_token = token;
        }
        id
    }

    #[allow(clippy::too_many_arguments)]
    fn store(
        &mut self,
        now: Time,
        id: ConnectionId,
        initiator: bool,
        local_key: Key,
        local_token: u32,
        local_dsn: Dsn,
        config: ConnectionConfig,
    ) {
        let addresses = &self.config.addresses;
        let birth = crate::connection::Birth {
            id,
            initiator,
            mode: if config.mptcp { crate::connection::Mode::Mptcp } else { crate::connection::Mode::Plain },
            local_key,
            local_token,
            local_dsn,
            // IDs from 1 in the order of the configuration; 0 belongs to the first subflow's address.
            addresses: addresses.iter().zip(1..).map(|(a, id)| (id, a.ip, a.backup)).collect(),
            tick: self.config.timestamp_tick,
        };
        let config = match &self.shared {
            Some(shared) if **shared == config => Arc::clone(shared),
            _ => Arc::clone(self.shared.insert(Arc::new(config))),
        };
        self.connections.insert(Box::new(Connection::new(now, birth, config)));
    }

    fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(id)
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id)
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
            && let Some(connection) = self.connections.get_mut(id)
        {
            if connection.refuses(subflow, segment) {
                self.refuse(path, segment);
                return;
            }
            connection.handle_segment(now, subflow, segment, placed, &mut self.observer);
            if !connection.in_ready {
                if connection.wants_to_send() {
                    connection.in_ready = true;
                    self.ready.push_back(id);
                } else {
                    self.settle(now, id);
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
        self.refuse(path, segment);
    }

    /// A SYN for no existing subflow. False if it is refused.
    fn accept(&mut self, now: Time, path: PathId, segment: &Segment) -> bool {
        let path = self.path_of(segment.destination.ip).unwrap_or(path);
        if let Some(join) = crate::connection::find_join(&segment.options) {
            let Join::Syn { backup, address_id, token, nonce } = join else { return false };
            let known = self.demux.by_token(token);
            let listener = self.listener(segment.destination.port);
            let id = match (known, listener) {
                (Some(id), _) => id,
                (None, Some(config)) if config.mptcp && config.simultaneous => {
                    if self.is_full() {
                        self.counters.connections_refused += 1;
                        return false;
                    }
                    let config = config.clone();
                    self.create_agreed(now, token, false, config)
                }
                _ => {
                    self.counters.joins_refused += 1;
                    return false;
                }
            };
            return self.accept_join(now, path, segment, id, (backup, address_id, nonce));
        }
        let Some(config) = self.listener(segment.destination.port) else { return false };
        if self.is_full() {
            self.counters.connections_refused += 1;
            return false;
        }
        let mut config = config.clone();
        // RFC 8684 section 3.1: no MP_CAPABLE in the SYN, none in the SYN/ACK.
        let capable = crate::connection::find_capable(&segment.options);
        config.mptcp &=
            capable.is_some_and(|capable| crate::connection::is_acceptable_offer(&capable, config.checksums));
        config.simultaneous = false;
        // Section 3.3.1: checksums are used if either side asks for them.
        if capable.is_some_and(|capable| capable.flags & Capable::CHECKSUM != 0) {
            config.checksums = Checksums::Required;
        }
        let id = self.create(now, false, config);
        let accepted = self.add_accepted(now, path, segment, id, false, 0).is_some();
        self.limit_half_open(id);
        accepted
    }

    /// Whether there is no room for another connection.
    fn is_full(&self) -> bool {
        self.connections.live() >= self.config.max_connections
    }

    /// A SYN has made connection `id`: one that waits for its third segment may have to go.
    fn limit_half_open(&mut self, id: ConnectionId) {
        let Endpoint { half_open, connections, config, .. } = self;
        let evicted = half_open.admit(id, config.max_half_open.max(1), |other| {
            connections.get(other).is_some_and(|connection| connection.phase == Phase::Opening)
        });
        if let Some(evicted) = evicted {
            self.counters.half_open_evicted += 1;
            self.release(evicted);
        }
    }

    fn accept_join(
        &mut self,
        now: Time,
        path: PathId,
        segment: &Segment,
        id: ConnectionId,
        (backup, address_id, nonce): (bool, u8, u32),
    ) -> bool {
        let local = segment.destination.ip;
        let admits = self.connection_mut(id).is_some_and(|connection| {
            connection.admits_join() && connection.yields_to(now, local, address_id)
        });
        if !admits {
            self.counters.joins_refused += 1;
            return false;
        }
        let Some(at) = self.add_accepted(now, path, segment, id, true, nonce) else { return false };
        // RFC 8684 section 3.3.8: either side may ask for a backup, the one that answers in its SYN/ACK.
        let local = self.config.addresses.iter().find(|address| address.ip == segment.destination.ip);
        let asked = local.is_some_and(|address| address.backup);
        if let Some(connection) = self.connection_mut(id) {
            connection.subflows[at].backup_asked = asked;
            connection.subflows[at].backup_wanted = backup;
            connection.subflows[at].remote_id = address_id;
            connection.paths.learn_remote(address_id, segment.source);
        }
        true
    }

    fn add_accepted(
        &mut self,
        now: Time,
        path: PathId,
        segment: &Segment,
        id: ConnectionId,
        join: bool,
        remote_nonce: u32,
    ) -> Option<usize> {
        let birth = SubflowBirth {
            local: segment.destination,
            remote: segment.source,
            path,
            iss: self.draw_iss(id),
            initiator: false,
            join,
            nonce: self.entropy.next_u32(),
        };
        let connection = self.connections.get_mut(id)?;
        if connection.subflows.is_empty() {
            connection.paths.set_initial_local(segment.destination.ip);
        }
        let at = connection.add_subflow(now, birth)?;
        connection.take_syn_options(at, segment);
        connection.subflows[at].handshake.remote_nonce = remote_nonce;
        connection.subflows[at].demuxed = true;
        let to = (id, connection.subflows[at].id());
        self.demux.add(segment.destination, segment.source, to);
        self.touch(now, id);
        Some(at)
    }

    fn listener(&self, port: u16) -> Option<&ConnectionConfig> {
        self.listeners.get(&port)
    }

    /// RFC 9293 section 3.10.7.1: a reset for a segment that belongs to nothing.
    fn refuse(&mut self, path: PathId, segment: &Segment) {
        let path = self.path_of(segment.destination.ip).unwrap_or(path);
        let mut reply = Segment::new(segment.destination, segment.source, Seq(0), Flags::RST);
        if segment.flags.has(Flags::ACK) {
            reply.seq = segment.ack;
        } else {
            reply.flags = Flags::RST.with(Flags::ACK);
            reply.ack = segment.seq.add(segment.seq_len());
        }
        if let Some(Join::Syn { token, .. }) = crate::connection::find_join(&segment.options) {
            // RFC 8684 section 3.2: an unknown token is an error; a known one is refused by policy.
            let (transient, reason) = match self.demux.by_token(token) {
                None => (false, ResetReason::MptcpError),
                Some(_) => (true, ResetReason::Prohibited),
            };
            reply.options.push(MptcpOption::Reset { transient, reason });
        }
        // A flood of strays must not fill the memory.
        if self.replies.len() < 1024 {
            self.counters.strays_reset += 1;
            self.replies.push_back(Transmit {
                connection: None,
                path,
                segment: reply,
                stream_offset: 0,
                segment_size: 0,
            });
        } else {
            self.counters.strays_dropped += 1;
        }
    }

    /// A router says that it has dropped the segment from `local` to `remote` that began at `seq`, because
    /// packets of more than `mtu` bytes, IP header included, do not pass (ICMP "fragmentation needed" and
    /// "packet too big"; 0 if it does not say how many).
    pub fn handle_too_big(&mut self, now: Time, local: Address, remote: Address, seq: Seq, mtu: u32) {
        let Some((id, subflow)) = self.demux.find(local, remote) else { return };
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.on_too_big(now, subflow.index(), seq, mtu, &mut self.observer);
        self.touch(now, id);
    }

    /// The time of [`Endpoint::poll_timeout`] has come (calling early or late is harmless).
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((due, id)) = self.timers.pop_due(now) {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            if connection.queued_at != due {
                continue;
            }
            connection.queued_at = Time::NEVER;
            if connection.next_timeout(now) <= now {
                connection.handle_timeout(now, &mut self.observer);
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
        if let Some(reply) = self.replies.pop_front() {
            *segment = reply.segment;
            return Some(Departure { connection: None, path: reply.path, stream_offset: 0, segment_size: 0 });
        }
        while let Some(&id) = self.ready.front() {
            let Some(connection) = self.connections.get_mut(id) else {
                self.ready.pop_front();
                continue;
            };
            let departure =
                connection.poll_transmit(now, segment, sums, self.burst_limit, &mut self.observer);
            self.turn += connection.turns_of(segment);
            // That there is nothing more is mostly known without asking again.
            if departure.is_none() || !connection.wants_to_send() {
                connection.in_ready = false;
                self.ready.pop_front();
                self.turn = 0;
                self.settle(now, id);
            } else if self.turn >= TURN {
                self.ready.rotate_left(1);
                self.turn = 0;
            }
            if departure.is_some() {
                return departure;
            }
        }
        None
    }

    /// When [`Endpoint::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Whether there is nothing to send and nothing to hear: what [`Endpoint::poll_transmit`] and
    /// [`Endpoint::poll_event`] would find out, at less cost.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.eventful.is_empty() && self.ending.is_empty() && self.replies.is_empty()
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
            if let Some(connection) = self.connections.get_mut(id) {
                if let Some(event) = connection.events.pop_front() {
                    if matches!(event, Event::Closed(_)) {
                        connection.closed_told = true;
                        if connection.is_dead() {
                            self.ending.push(id);
                        }
                    }
                    return Some((id, event));
                }
                connection.in_eventful = false;
            }
            self.eventful.pop_front();
        }
        None
    }

    /// Puts the connection where it will be asked for segments and events.
    fn touch(&mut self, _now: Time, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !connection.in_ready {
            connection.in_ready = true;
            self.ready.push_back(id);
        }
    }

    /// After all its segments have left: timers, events, new and gone subflows.
    fn settle(&mut self, now: Time, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !connection.events.is_empty() && !connection.in_eventful {
            connection.in_eventful = true;
            self.eventful.push_back(id);
        }
        for subflow in &mut connection.subflows {
            if subflow.demuxed && subflow.is_closed() {
                subflow.demuxed = false;
                self.demux.remove(subflow.local, subflow.remote);
            }
        }
        if !connection.paths.new_subflows.is_empty() {
            // They are sent before this comes up again.
            self.open_subflows(now, id);
            return;
        }
        if connection.phase == Phase::Ended && connection.is_dead() {
            if connection.closed_told {
                self.release(id);
            }
            return;
        }
        let due = connection.next_timeout(now);
        if due < connection.queued_at {
            connection.queued_at = due;
            self.timers.push(due, id);
        }
    }

    /// Opens the subflows that the path manager wants.
    fn open_subflows(&mut self, now: Time, id: ConnectionId) {
        let Some(connection) = self.connection_mut(id) else { return };
        let wanted = core::mem::take(&mut connection.paths.new_subflows);
        for new in wanted {
            let Some(path) = self.path_of(new.local) else { continue };
            let Some(port) = self.free_port(new.local, new.remote) else { continue };
            let local = Address::new(new.local, port);
            let birth = SubflowBirth {
                local,
                remote: new.remote,
                path,
                iss: self.draw_iss(id),
                initiator: true,
                join: true,
                nonce: self.entropy.next_u32(),
            };
            let Some(connection) = self.connection_mut(id) else { return };
            let Some(at) = connection.add_subflow(now, birth) else { continue };
            let subflow = &mut connection.subflows[at];
            subflow.demuxed = true;
            subflow.local_id = new.local_id;
            subflow.remote_id = new.remote_id;
            subflow.backup_asked = new.backup;
            let to = (id, subflow.id());
            self.demux.add(local, new.remote, to);
        }
        self.touch(now, id);
    }

    fn release(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(id) else { return };
        self.demux.release_token(connection.local_token, id);
        for subflow in connection.subflows.iter().filter(|subflow| subflow.demuxed) {
            self.demux.remove(subflow.local, subflow.remote);
        }
    }

    /// The application writes `n` bytes; returns how many fit into the send buffer.
    pub fn write(&mut self, now: Time, id: ConnectionId, n: u64) -> u64 {
        let Some(connection) = self.connection_mut(id) else { return 0 };
        let accepted = connection.write(now, n);
        self.touch(now, id);
        accepted
    }

    /// Tells the scheduler how many bytes the application will write in all, those included that it has
    /// written already; none if it does not know.
    pub fn set_flow_size(&mut self, id: ConnectionId, size: Option<Bytes>) {
        if let Some(connection) = self.connection_mut(id) {
            Arc::make_mut(&mut connection.config).flow_size = size;
        }
    }

    /// Whether the connection has ended for its application, or is not there at all.
    pub fn has_ended(&self, id: ConnectionId) -> bool {
        self.connection(id).is_none_or(|connection| connection.phase == Phase::Ended)
    }

    /// How many bytes can be read in order.
    pub fn readable(&self, id: ConnectionId) -> u64 {
        self.connection(id).map_or(0, |connection| connection.readable())
    }

    /// How many bytes have arrived in order since the connection began.
    pub fn received(&self, id: ConnectionId) -> u64 {
        self.connection(id).map_or(0, |connection| connection.received())
    }

    /// The application has read `n` bytes.
    pub fn consume(&mut self, now: Time, id: ConnectionId, n: u64) {
        if let Some(connection) = self.connection_mut(id) {
            connection.consume(n);
            self.touch(now, id);
        }
    }

    /// The offset below which the sent stream's bytes are not needed any more.
    pub fn freed(&self, id: ConnectionId) -> u64 {
        self.connection(id).map_or(0, |connection| connection.freed())
    }

    /// The application writes no more.
    pub fn close(&mut self, now: Time, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.close(now);
            self.touch(now, id);
        }
    }

    /// Ends the connection at once.
    pub fn abort(&mut self, now: Time, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.abort(now, CloseReason::Aborted);
            self.touch(now, id);
        }
    }

    /// A local address cannot be used any more, or can again.
    pub fn set_address_up(&mut self, now: Time, ip: IpAddr, up: bool) {
        let all: Vec<ConnectionId> = self.connections.ids().collect();
        for id in all {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.set_address_up(now, ip, up);
                self.touch(now, id);
            }
        }
    }

    /// Opens a further subflow from one of this host's addresses. Either side may, as the path manager does
    /// by itself (RFC 8684 section 3.2). Returns whether it will be tried: not before the peer has shown that
    /// it knows the keys, not beyond the limit of subflows, not once the stream has ended, and not in a plain TCP.
    pub fn open_subflow(&mut self, now: Time, id: ConnectionId, local: IpAddr, remote: Address) -> bool {
        let Some(backup) = self.config.addresses.iter().find(|own| own.ip == local).map(|own| own.backup)
        else {
            return false;
        };
        let Some(connection) = self.connection_mut(id) else { return false };
        let wanted = connection.want_subflow(local, remote, backup);
        self.touch(now, id);
        wanted
    }

    /// Asks the peer to use a subflow only when no other works, or again like the others.
    pub fn set_backup(
        &mut self,
        now: Time,
        id: ConnectionId,
        subflow: crate::event::SubflowId,
        backup: bool,
    ) {
        if let Some(connection) = self.connection_mut(id) {
            connection.set_backup(subflow, backup);
            self.touch(now, id);
        }
    }

    /// The connection's counters; none once its [`Event::Closed`] was polled and events are polled on.
    pub fn stats(&self, id: ConnectionId) -> Option<ConnectionStats> {
        self.connection(id).map(|connection| connection.current_stats())
    }

    /// Its subflows, the dead ones included, in the order in which they began.
    pub fn subflow_stats(&self, id: ConnectionId) -> Vec<SubflowStats> {
        self.connection(id).map(|connection| connection.subflow_stats()).unwrap_or_default()
    }

    /// Its congestion control.
    pub fn congestion(&self, id: ConnectionId) -> Option<&crate::congestion::AnyCongestion> {
        self.connection(id).map(|connection| &connection.congestion)
    }

    /// How many connections there are, those included that have ended and still answer late segments.
    pub fn connection_count(&self) -> usize {
        self.connections.live()
    }

    /// What the host has refused and forgotten so far.
    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    /// Panics if what a connection counts disagrees with what it holds; for tests.
    #[doc(hidden)]
    pub fn assert_consistent(&self) {
        for (_, connection) in self.connections.iter() {
            connection.assert_consistent();
        }
    }
}
