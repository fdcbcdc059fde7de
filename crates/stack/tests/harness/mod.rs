//! Two endpoints on a virtual clock: the harness of the tests that need both sides.
//!
//! A path has a delay and a loss function; there is no rate and no queue, which is the simulator's
//! business. Every delivered payload range is checked: in order, once, and inside the window.
#![allow(dead_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use anabranch_stack::config::{ConnectionConfig, EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{CloseReason, ConnectionId, Event, Placement};
use anabranch_stack::segment::{Address, PathId, Segment};
use anabranch_units::{Duration, RandomStream, Time};

/// The server's port.
pub const PORT: u16 = 80;

/// One path between the two hosts.
pub struct Path {
    /// One-way delay.
    pub delay: Duration,
    /// The probability that a segment is lost, in each direction.
    pub loss: [f64; 2],
    /// The probability that a segment is delayed by as much again.
    pub reorder: f64,
    /// Nothing passes while it is down.
    pub down: bool,
}

impl Path {
    /// A path without faults.
    pub fn clean(delay_ms: u64) -> Path {
        Path { delay: Duration::from_millis(delay_ms), loss: [0.0; 2], reorder: 0.0, down: false }
    }
}

/// Which host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    fn other(self) -> Side {
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
    segment: Segment,
}

/// One host with its one connection.
pub struct Host {
    pub endpoint: Endpoint,
    pub connection: Option<ConnectionId>,
    pub events: Vec<Event>,
    /// Bytes delivered, in whatever order, as a bitmap of ranges: checks that each comes once.
    delivered: Vec<(u64, u64)>,
    pub read: u64,
    pub auto_read: bool,
    pub closed: Option<CloseReason>,
    pub peer_closed: bool,
}

impl Host {
    fn new(address: LocalAddress, more: &[LocalAddress], seed: u64, name: &str) -> Host {
        let mut addresses = vec![address];
        addresses.extend_from_slice(more);
        let config = EndpointConfig { addresses, max_connections: 16 };
        let entropy = Entropy::Seeded(RandomStream::new(seed, name));
        Host {
            endpoint: Endpoint::new(config, entropy),
            connection: None,
            events: Vec::new(),
            delivered: Vec::new(),
            read: 0,
            auto_read: true,
            closed: None,
            peer_closed: false,
        }
    }

    fn place(&mut self, placed: &[Placement]) {
        for place in placed {
            let Placement::Deliver { stream, .. } = place else { continue };
            assert!(stream.start < stream.end);
            for &(start, end) in &self.delivered {
                assert!(stream.end <= start || stream.start >= end, "{stream:?} was delivered twice");
            }
            self.delivered.push((stream.start, stream.end));
            self.delivered.sort_unstable();
            let mut merged: Vec<(u64, u64)> = Vec::new();
            for &(start, end) in &self.delivered {
                match merged.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => merged.push((start, end)),
                }
            }
            self.delivered = merged;
        }
    }

    /// Bytes delivered without a hole from the start.
    pub fn in_order(&self) -> u64 {
        self.delivered.first().filter(|first| first.0 == 0).map_or(0, |first| first.1)
    }
}

/// Decides whether a segment is dropped: when it leaves, from which side, on which path.
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
    /// The counters of both hosts are checked at every so many steps.
    pub check_every: u64,
    random: RandomStream,
    /// Every segment that was sent: when, by whom, on which path, and whether it was lost.
    pub log: Vec<(Time, Side, usize, Segment, bool)>,
    /// Decides on top of the paths' loss whether a segment is dropped.
    pub drop: Drop,
}

/// The client's address on a path.
pub fn client_ip(path: usize) -> IpAddr {
    IpAddr::from([10, 0, path as u8, 1])
}

/// The server's address (one for all paths).
pub fn server_ip() -> IpAddr {
    IpAddr::from([10, 1, 0, 1])
}

impl Pair {
    /// A client with one address per path and a server with one address, which listens.
    pub fn new(paths: Vec<Path>, server_config: ConnectionConfig, seed: u64) -> Pair {
        let address = |path| LocalAddress { ip: client_ip(path), path: PathId(path as u16), backup: false };
        let more: Vec<LocalAddress> = (1..paths.len()).map(address).collect();
        let client = Host::new(address(0), &more, seed, "client");
        let server_address = LocalAddress { ip: server_ip(), path: PathId(0), backup: false };
        let mut server = Host::new(server_address, &[], seed, "server");
        server.endpoint.listen(PORT, server_config);
        Pair {
            now: Time::from_millis(1),
            client,
            server,
            paths,
            flight: BinaryHeap::new(),
            store: std::collections::HashMap::new(),
            order: 0,
            steps: 0,
            check_every: 16,
            random: RandomStream::new(seed, "paths"),
            log: Vec::new(),
            drop: Box::new(|_, _, _, _| false),
        }
    }

    pub fn host(&mut self, side: Side) -> &mut Host {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// The client connects by its first path.
    pub fn connect(&mut self, config: ConnectionConfig) -> ConnectionId {
        let remote = Address::new(server_ip(), PORT);
        let id = self.client.endpoint.connect(self.now, client_ip(0), remote, config).unwrap();
        self.client.connection = Some(id);
        self.pump();
        id
    }

    pub fn write(&mut self, side: Side, n: u64) -> u64 {
        let now = self.now;
        let host = self.host(side);
        let Some(id) = host.connection else { return 0 };
        let accepted = host.endpoint.write(now, id, n);
        self.pump();
        accepted
    }

    pub fn close(&mut self, side: Side) {
        let now = self.now;
        let host = self.host(side);
        if let Some(id) = host.connection {
            host.endpoint.close(now, id);
        }
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
        let host = self.host(side);
        if let Some(id) = host.connection {
            let n = n.min(host.endpoint.readable(id));
            host.read += n;
            host.endpoint.consume(now, id, n);
        }
        self.pump();
    }

    /// Lets both hosts send what they have, and hears their events.
    pub fn pump(&mut self) {
        for side in [Side::Client, Side::Server] {
            loop {
                let now = self.now;
                let Some(transmit) = self.host(side).endpoint.poll_transmit(now) else { break };
                self.send(side, &transmit.segment);
            }
            self.hear(side);
        }
    }

    fn send(&mut self, from: Side, segment: &Segment) {
        // The client's address says which path it is, in both directions.
        let client = if from == Side::Client { segment.source } else { segment.destination };
        let path = (0..self.paths.len()).find(|&path| client_ip(path) == client.ip).unwrap();
        assert!(segment.options.wire_len() <= 40, "{:?}", segment.options);
        let index = usize::from(from == Side::Server);
        let state = &self.paths[path];
        let lost_by_chance = self.random.chance(state.loss[index]);
        let late = self.random.chance(state.reorder);
        let lost = (self.drop)(self.now, from, path, segment) || lost_by_chance || state.down;
        self.log.push((self.now, from, path, *segment, lost));
        if lost {
            return;
        }
        let delay = if late { state.delay * 2 } else { state.delay };
        self.order += 1;
        self.store.insert(self.order, InFlight { to: from.other(), path, segment: *segment });
        self.flight.push(Reverse((self.now + delay, self.order)));
    }

    fn hear(&mut self, side: Side) {
        let now = self.now;
        let host = self.host(side);
        let mut again = false;
        while let Some((id, event)) = host.endpoint.poll_event() {
            host.connection.get_or_insert(id);
            host.events.push(event);
            match event {
                Event::Readable if host.auto_read => {
                    let n = host.endpoint.readable(id);
                    host.read += n;
                    host.endpoint.consume(now, id, n);
                    again = true;
                }
                Event::PeerClosed => host.peer_closed = true,
                Event::Closed(reason) => host.closed = Some(reason),
                _ => {}
            }
        }
        if again {
            while let Some(transmit) = self.host(side).endpoint.poll_transmit(now) {
                self.send(side, &transmit.segment);
            }
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Time> {
        let arrival = self.flight.peek().map(|Reverse((at, _))| *at);
        let timers = [self.client.endpoint.poll_timeout(), self.server.endpoint.poll_timeout()];
        [arrival, timers[0], timers[1]].into_iter().flatten().min()
    }

    /// One step of time; false if nothing will ever happen again.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.next() else { return false };
        assert!(next >= self.now || self.flight.peek().is_none_or(|Reverse((at, _))| *at >= self.now));
        self.now = self.now.max(next);
        while let Some(Reverse((at, order))) =
            self.flight.peek().copied().filter(|Reverse((at, _))| *at <= self.now)
        {
            let _ = at;
            self.flight.pop();
            let packet = self.store.remove(&order).unwrap();
            let now = self.now;
            let mut placed = Vec::new();
            let host = self.host(packet.to);
            let path = PathId(if packet.to == Side::Client { packet.path as u16 } else { 0 });
            host.endpoint.handle_segment(now, path, &packet.segment, &mut placed);
            host.place(&placed);
            self.pump();
        }
        let now = self.now;
        for side in [Side::Client, Side::Server] {
            if self.host(side).endpoint.poll_timeout().is_some_and(|due| due <= now) {
                self.host(side).endpoint.handle_timeout(now);
            }
        }
        self.pump();
        // Walking every record at every step would cost the square of the window.
        self.steps += 1;
        if self.steps.is_multiple_of(self.check_every) {
            self.client.endpoint.assert_consistent();
            self.server.endpoint.assert_consistent();
        }
        true
    }

    /// Runs until `done`, or until `limit`; whether it was done.
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

    /// Runs for a time.
    pub fn run_for(&mut self, span: Duration) {
        let limit = self.now + span;
        self.run_until(limit, |_| false);
    }

    /// Segments with payload that `side` has sent.
    pub fn data_segments(&self, side: Side) -> impl Iterator<Item = &(Time, Side, usize, Segment, bool)> {
        self.log.iter().filter(move |(_, from, _, segment, _)| *from == side && segment.payload_len > 0)
    }
}
