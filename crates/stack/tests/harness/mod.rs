//! Two endpoints on a virtual clock: the harness of the tests that need both sides.
//!
//! A path has a delay, faults, and optionally a rate with a drop-tail queue; detailed links are left to the
//! simulator. Every delivered payload range is checked: once, in the window, and the byte that the sender
//! sent. `checks.rs` checks the windows of every segment.
#![allow(dead_code)]

pub mod checks;
mod host;
pub mod middlebox;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use anabranch_stack::config::{LocalAddress, SimConfig};
use anabranch_stack::event::{ConnectionId, Event, Placement, SubflowId};
use anabranch_stack::segment::{Address, PathId, Segment};
use anabranch_units::{Duration, RandomStream, Rate, Time};

use checks::Checks;
pub use host::Host;
pub use middlebox::Middlebox;

/// The server's port.
pub const PORT: u16 = 80;
/// An endpoint that requests this many wake-ups at one instant loops endlessly.
const STEPS_PER_INSTANT: u32 = 64;
/// The same for a simulated second.
const STEPS_PER_SECOND: u32 = 500_000;

/// One path between the two hosts.
#[derive(Clone, Debug)]
pub struct Path {
    /// One-way delay.
    pub delay: Duration,
    /// The loss probability in each direction.
    pub loss: [f64; 2],
    /// The probability that a segment is delayed by as much again.
    pub reorder: f64,
    /// The probability that a segment is duplicated.
    pub duplicate: f64,
    /// The number of next segments to drop.
    pub burst: u32,
    /// True to drop everything.
    pub down: bool,
    /// The rate in each direction; unlimited if `None`.
    pub rate: Option<Rate>,
    /// The queue in bytes, in each direction.
    pub queue: u64,
    /// True if the client asks for its use as a backup when it joins.
    pub backup: bool,
    pub busy_until: [Time; 2],
    /// The middlebox that changes segments.
    pub middlebox: Middlebox,
}

impl Path {
    /// Returns a path without faults.
    pub fn clean(delay_ms: u64) -> Path {
        Path {
            delay: Duration::from_millis(delay_ms),
            loss: [0.0; 2],
            reorder: 0.0,
            duplicate: 0.0,
            burst: 0,
            down: false,
            rate: None,
            queue: u64::MAX,
            backup: false,
            busy_until: [Time::ZERO; 2],
            middlebox: Middlebox::default(),
        }
    }

    /// Removes every fault.
    pub fn heal(&mut self) {
        self.loss = [0.0; 2];
        self.reorder = 0.0;
        self.duplicate = 0.0;
        self.burst = 0;
        self.down = false;
        self.middlebox = Middlebox::default();
    }

    /// Returns the departure time of a segment of `len` bytes, if the queue accepts it.
    fn pass(&mut self, now: Time, direction: usize, len: u32) -> Option<Time> {
        let Some(rate) = self.rate else { return Some(now) };
        let busy = self.busy_until[direction].max(now);
        if rate.bytes_in(busy.since(now)) + u64::from(len) > self.queue {
            return None;
        }
        self.busy_until[direction] = busy + rate.transmission_time(u64::from(len));
        Some(self.busy_until[direction])
    }
}

/// One of the hosts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    pub const BOTH: [Side; 2] = [Side::Client, Side::Server];

    pub const fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    to: Side,
    path: usize,
    /// The offset of the payload in the sender's stream.
    stream: u64,
    segment: Segment,
}

/// Decides, in addition to the paths' faults, whether a segment is dropped.
pub type Drop = Box<dyn FnMut(Time, Side, usize, &Segment) -> bool>;

/// Two hosts and the paths between them.
pub struct Pair {
    pub now: Time,
    pub client: Host,
    pub server: Host,
    pub paths: Vec<Path>,
    flight: BinaryHeap<Reverse<(Time, u64)>>,
    store: std::collections::HashMap<u64, InFlight>,
    order: u64,
    steps: u64,
    steps_here: (Time, u32),
    steps_this_second: (u64, u32),
    /// The number of steps between checks of both hosts' counters.
    pub check_every: u64,
    random: RandomStream,
    boxes: RandomStream,
    pub checks: Checks,
    /// Every segment sent: time, sender, path, and whether it was lost.
    pub log: Vec<(Time, Side, usize, Segment, bool)>,
    /// The placements of all received payload, with the log.
    pub placed: Vec<Placement>,
    /// True to keep a log; otherwise only its length is counted.
    pub keep_log: bool,
    /// Segments sent, and the number of them without payload.
    pub sent: u64,
    pub sent_control: u64,
    /// Departures that represented several segments; the paths carry single ones.
    pub bursts: u64,
    pub drop: Drop,
}

/// Returns the client's address on a path.
pub fn client_ip(path: usize) -> IpAddr {
    IpAddr::from([10, 0, path as u8, 1])
}

/// Returns the server's first address.
pub fn server_ip() -> IpAddr {
    server_ip_at(0)
}

/// Returns one of the server's addresses. The path does not depend on them.
pub fn server_ip_at(index: usize) -> IpAddr {
    IpAddr::from([10, 1, index as u8, 1])
}

impl Pair {
    /// Returns a client with one address per path and a listening server with one address.
    pub fn new(paths: Vec<Path>, server_config: impl Into<SimConfig>, seed: u64) -> Pair {
        Pair::with_servers(paths, 1, server_config, seed)
    }

    /// Returns the same with a server that has several addresses.
    pub fn with_servers(
        paths: Vec<Path>,
        servers: usize,
        server_config: impl Into<SimConfig>,
        seed: u64,
    ) -> Pair {
        let server_config = server_config.into();
        let address = |ip, path| LocalAddress { ip, path: PathId(path as u16), backup: false };
        let own = |path: usize| LocalAddress { backup: paths[path].backup, ..address(client_ip(path), path) };
        let clients = (0..paths.len()).map(own).collect();
        let servers = (0..servers.max(1)).map(|at| address(server_ip_at(at), at)).collect();
        let mut checks = Checks::default();
        if let Some(origin) = server_config.only.sequence_origin {
            checks.set_origin(origin);
        }
        let mut server = Host::new(servers, seed, "server");
        server.endpoint.listen(PORT, server_config);
        Pair {
            now: Time::from_millis(1),
            client: Host::new(clients, seed, "client"),
            server,
            paths,
            flight: BinaryHeap::new(),
            store: std::collections::HashMap::new(),
            order: 0,
            steps: 0,
            steps_here: (Time::ZERO, 0),
            steps_this_second: (0, 0),
            check_every: 16,
            random: RandomStream::new(seed, "paths"),
            boxes: RandomStream::new(seed, "boxes"),
            checks,
            log: Vec::new(),
            placed: Vec::new(),
            keep_log: true,
            sent: 0,
            sent_control: 0,
            bursts: 0,
            drop: Box::new(|_, _, _, _| false),
        }
    }

    /// Returns another pair in the same state, except `drop`.
    pub fn fork(&self) -> Pair {
        Pair {
            client: self.client.clone(),
            server: self.server.clone(),
            paths: self.paths.clone(),
            flight: self.flight.clone(),
            store: self.store.clone(),
            random: self.random.clone(),
            boxes: self.boxes.clone(),
            checks: self.checks.clone(),
            log: self.log.clone(),
            placed: self.placed.clone(),
            drop: Box::new(|_, _, _, _| false),
            ..*self
        }
    }

    /// Enables or disables the fast paths of both hosts; to be called before they connect.
    pub fn set_fast_paths(&mut self, on: bool) {
        self.client.endpoint.set_fast_paths(on);
        self.server.endpoint.set_fast_paths(on);
    }

    /// Panics at the first segment, placement, event or counter in which two pairs with logs differ.
    pub fn assert_same_output(&self, other: &Pair) {
        for (at, (one, two)) in self.log.iter().zip(&other.log).enumerate() {
            assert_eq!(one, two, "segment {at} differs");
        }
        assert_eq!(self.log.len(), other.log.len(), "one pair has sent more segments");
        assert_eq!(self.placed, other.placed, "payload is placed differently");
        for (one, two) in [(&self.client, &other.client), (&self.server, &other.server)] {
            assert_eq!(one.events, two.events);
            assert_eq!(one.final_stats, two.final_stats);
        }
        assert_eq!(self.now, other.now);
    }

    /// Returns a digest of every segment, placement and event of a pair that kept its log.
    pub fn digest(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        let ends = [&self.client, &self.server].map(|host| (&host.events, &host.final_stats));
        format!("{:?} {:?} {ends:?} {:?}", self.log, self.placed, self.now).hash(&mut hasher);
        hasher.finish()
    }

    pub fn host(&mut self, side: Side) -> &mut Host {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Connects the client over its first path.
    pub fn connect(&mut self, config: impl Into<SimConfig>) -> ConnectionId {
        let remote = Address::new(server_ip(), PORT);
        let id = self.client.endpoint.connect(self.now, client_ip(0), remote, config).unwrap();
        self.client.connection = Some(id);
        self.pump();
        id
    }

    pub fn write(&mut self, side: Side, n: u64) -> u64 {
        let now = self.now;
        let accepted = self.host(side).write(now, n);
        self.pump();
        accepted
    }

    /// Writes `n` bytes as space becomes available.
    pub fn write_all(&mut self, side: Side, n: u64) {
        let now = self.now;
        let host = self.host(side);
        host.backlog += n;
        host.push_backlog(now);
        self.pump();
    }

    pub fn close(&mut self, side: Side) {
        let now = self.now;
        let host = self.host(side);
        if let Some(id) = host.connection {
            host.endpoint.close(now, id);
        }
        self.pump();
    }

    /// Closes once the connection exists and everything of [`Pair::write_all`] is written.
    pub fn close_after_backlog(&mut self, side: Side) {
        let now = self.now;
        let host = self.host(side);
        host.close_wanted = true;
        host.push_backlog(now);
        self.pump();
    }

    pub fn abort(&mut self, side: Side) {
        let now = self.now;
        let host = self.host(side);
        if let Some(id) = host.connection {
            host.endpoint.abort(now, id);
        }
        self.pump();
    }

    pub fn read(&mut self, side: Side, n: u64) {
        let now = self.now;
        self.host(side).consume(now, n);
        self.pump();
    }

    pub fn set_address_up(&mut self, side: Side, ip: IpAddr, up: bool) {
        let now = self.now;
        self.host(side).endpoint.set_address_up(now, ip, up);
        self.pump();
    }

    pub fn set_backup(&mut self, side: Side, subflow: SubflowId, backup: bool) {
        let host = self.host(side);
        if let Some(id) = host.connection {
            host.endpoint.set_backup(id, subflow, backup);
        }
        self.pump();
    }

    /// Lets both hosts send, and handles their events.
    pub fn pump(&mut self) {
        for side in Side::BOTH {
            self.transmit(side);
            while self.hear(side) {
                self.transmit(side);
            }
        }
    }

    fn transmit(&mut self, side: Side) {
        let now = self.now;
        for sent in 0.. {
            assert!(sent < 100_000, "{side:?} never stops sending at {now:?}");
            let Some(transmit) = self.host(side).endpoint.poll_transmit(now) else { break };
            self.bursts += u64::from(transmit.segment_size > 0);
            for (at, piece) in transmit.segment.pieces(transmit.segment_size) {
                self.send(side, &piece, transmit.stream_offset + u64::from(at));
            }
        }
    }

    fn send(&mut self, from: Side, segment: &Segment, stream: u64) {
        // The client's address identifies the path, in both directions.
        let client = if from == Side::Client { segment.source } else { segment.destination };
        let path = (0..self.paths.len()).find(|&path| client_ip(path) == client.ip).unwrap();
        self.checks.on_sent(from, segment, stream);
        self.sent += 1;
        self.sent_control += u64::from(segment.payload_len == 0);
        let direction = usize::from(from == Side::Server);
        let state = &mut self.paths[path];
        let lost_by_chance = self.random.chance(state.loss[direction]);
        let late = self.random.chance(state.reorder);
        let twice = self.random.chance(state.duplicate);
        let in_burst = state.burst > 0;
        state.burst = state.burst.saturating_sub(1);
        let dropped = (self.drop)(self.now, from, path, segment) || lost_by_chance || state.down || in_burst;
        let left = if dropped { None } else { state.pass(self.now, direction, segment.wire_len()) };
        let delay = if late { state.delay * 2 } else { state.delay };
        if self.keep_log {
            self.log.push((self.now, from, path, *segment, left.is_none()));
        }
        let Some(left) = left else { return };
        let mut segment = *segment;
        let middlebox = self.paths[path].middlebox;
        if middlebox != Middlebox::default() && !middlebox.pass(direction, &mut segment, &mut self.boxes) {
            return;
        }
        for copy in 0..1 + u64::from(twice) {
            self.order += 1;
            let packet = InFlight { to: from.other(), path, stream, segment };
            self.store.insert(self.order, packet);
            self.flight.push(Reverse((left + delay * (1 + copy), self.order)));
        }
    }

    /// Handles the events of a host; returns true if there may be more to send.
    fn hear(&mut self, side: Side) -> bool {
        let now = self.now;
        let host = self.host(side);
        let mut again = false;
        while let Some((id, event)) = host.endpoint.poll_event() {
            again |= host.on_event(now, id, event);
        }
        again
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> Option<Time> {
        let arrival = self.flight.peek().map(|Reverse((at, _))| *at);
        let timers = [self.client.endpoint.poll_timeout(), self.server.endpoint.poll_timeout()];
        [arrival, timers[0], timers[1]].into_iter().flatten().min()
    }

    /// Advances to the next event; returns false if there is none.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.next() else { return false };
        self.now = self.now.max(next);
        self.count_step();
        while let Some(Reverse((at, order))) = self.flight.peek().copied() {
            if at > self.now {
                break;
            }
            self.flight.pop();
            let packet = self.store.remove(&order).unwrap();
            self.arrive(&packet);
        }
        let now = self.now;
        for side in Side::BOTH {
            if self.host(side).endpoint.poll_timeout().is_some_and(|due| due <= now) {
                self.host(side).endpoint.handle_timeout(now);
                self.host(side).assert_windows_reported();
            }
        }
        self.pump();
        // Checking every record at every step would cost the square of the window.
        self.steps += 1;
        if self.steps.is_multiple_of(self.check_every) {
            self.client.assert_consistent();
            self.server.assert_consistent();
        }
        true
    }

    fn arrive(&mut self, packet: &InFlight) {
        let now = self.now;
        let mut placed = Vec::new();
        self.checks.on_arrived(packet.to, &packet.segment);
        let path = PathId(if packet.to == Side::Client { packet.path as u16 } else { 0 });
        let host = self.host(packet.to);
        host.endpoint.handle_segment(now, path, &packet.segment, &mut placed);
        host.assert_windows_reported();
        host.place(&placed, packet.stream, &packet.segment);
        if self.keep_log {
            self.placed.extend(placed);
        }
        self.pump();
    }

    /// Checks that timers make progress instead of waking the host at the same instant forever.
    fn count_step(&mut self) {
        let now = self.now;
        self.steps_here = if self.steps_here.0 == now { (now, self.steps_here.1 + 1) } else { (now, 1) };
        let second = now.0 / 1_000_000_000;
        self.steps_this_second = if self.steps_this_second.0 == second {
            (second, self.steps_this_second.1 + 1)
        } else {
            (second, 1)
        };
        let timers = [self.client.endpoint.poll_timeout(), self.server.endpoint.poll_timeout()];
        assert!(self.steps_here.1 < STEPS_PER_INSTANT, "no progress at {now:?}: timers {timers:?}");
        assert!(self.steps_this_second.1 < STEPS_PER_SECOND, "hardly any progress at {now:?}: {timers:?}");
    }

    /// Runs until `done` or `limit`; returns whether it was done.
    pub fn run_until(&mut self, limit: Time, mut done: impl FnMut(&Pair) -> bool) -> bool {
        while !done(self) {
            match self.next() {
                Some(next) if next <= limit => {}
                _ => {
                    self.now = self.now.max(limit);
                    return done(self);
                }
            }
            self.step();
        }
        true
    }

    pub fn run_for(&mut self, span: Duration) {
        let limit = self.now + span;
        self.run_until(limit, |_| false);
    }

    /// Returns the segments with payload that `side` has sent.
    pub fn data_segments(&self, side: Side) -> impl Iterator<Item = &(Time, Side, usize, Segment, bool)> {
        self.log.iter().filter(move |(_, from, _, segment, _)| *from == side && segment.payload_len > 0)
    }

    /// Prints the last segments of the log, after a failure.
    pub fn print_log(&self, last: usize) {
        for (at, side, path, segment, lost) in self.log.iter().rev().take(last).rev() {
            let lost = if *lost { " LOST" } else { "" };
            let Segment { flags, seq, ack, window, payload_len, options, .. } = segment;
            eprintln!(
                "{:.6} {side:?} path {path} {}-{}{lost} {flags:?} seq {} ack {} win {window} len {payload_len} sack {:?} {:?} {:?}",
                at.as_secs_f64(),
                segment.source.port,
                segment.destination.port,
                seq.0,
                ack.0,
                options.sack.as_slice(),
                options.dss,
                options.mptcp.iter().flatten().collect::<Vec<_>>(),
            );
        }
    }

    /// True if the event was emitted on that side.
    pub fn heard(&mut self, side: Side, event: Event) -> bool {
        self.host(side).events.contains(&event)
    }
}

impl core::ops::Drop for Pair {
    /// Prints the last segments before a test failed.
    fn drop(&mut self) {
        if std::thread::panicking() && self.keep_log {
            self.print_log(90);
        }
    }
}
