//! The endpoint, the knowledge gained from its segments, and its invariants.

use std::net::IpAddr;

use anabranch_stack::config::{EndpointConfig, Entropy, LocalAddress, SimConfig};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, Event, Placement, SubflowId};
use anabranch_stack::segment::{Address, DataAck, Flags, Join, Key, MappedDsn, MptcpOption, PathId, Segment};
use anabranch_stack::seq::{DataRange, Dsn};
use anabranch_units::{Duration, RandomStream, Time};

use super::step::{Lie, Step};
use crate::harness::{PORT, Side, client_ip, server_ip};

/// An endpoint that requests this many wake-ups at one instant loops endlessly.
const STEPS_PER_INSTANT: u32 = 64;

/// The effects of an attack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// True if a connection was established.
    pub opened: bool,
    /// Number of subflows established.
    pub subflows: u32,
    /// Number of bytes delivered, and number of bytes held before.
    pub delivered: u64,
    pub held: u64,
    /// Number of connections ended.
    pub closed: u32,
    /// True if the endpoint has sent MP_FAIL or an infinite mapping, MP_TCPRST, or MP_FASTCLOSE.
    pub fell_back: bool,
    pub reset: bool,
    pub fast_closed: bool,
}

/// One of the peer's subflows, as known from the endpoint's own segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The last segment sent to it, so that lies can be near the truth.
    pub last: Option<Segment>,
    /// Its port, if it was not chosen by the endpoint.
    pub port: u16,
    /// The nonces of its join: the endpoint's, and the peer's.
    pub nonce: u32,
    pub own_nonce: u32,
}

/// The endpoint, and the next correct numbers of its peer.
pub struct Target {
    endpoint: Endpoint,
    now: Time,
    side: Side,
    connection: Option<ConnectionId>,
    pub(super) known: [Known; 3],
    pub(super) isn: u32,
    /// The peer's first number, and the next one of its stream that the endpoint has requested.
    pub(super) base: u64,
    pub(super) asked: Option<Dsn>,
    /// The highest number of its own stream that the endpoint has sent.
    pub(super) sent: Dsn,
    pub(super) keys: Vec<Key>,
    pub(super) tokens: Vec<u32>,
    /// The last key sent by the peer.
    pub(super) told: Key,
    delivered: Vec<(ConnectionId, DataRange)>,
    holding: Vec<(ConnectionId, SubflowId, DataRange)>,
    pub reached: Reached,
}

impl Target {
    pub fn new(side: Side, config: SimConfig, seed: u64) -> Target {
        let origin = config.only.sequence_origin.expect("an origin");
        let address = |ip, path| LocalAddress { ip, path: PathId(path), backup: false };
        let addresses = match side {
            Side::Client => vec![address(client_ip(0), 0), address(client_ip(1), 1)],
            Side::Server => vec![address(server_ip(), 0)],
        };
        // Some listeners answer each SYN with a cookie.
        let max_half_open = if seed % 4 == 3 { 0 } else { 1024 };
        let endpoint_config =
            EndpointConfig { max_connections: 4, max_half_open, ..EndpointConfig::new(addresses) };
        let mut endpoint = Endpoint::new(endpoint_config, Entropy::Seeded(RandomStream::new(seed, "target")));
        let now = Time::from_millis(1);
        let connection = match side {
            Side::Client => endpoint.connect(now, client_ip(0), Address::new(server_ip(), PORT), config).ok(),
            Side::Server => {
                endpoint.listen(PORT, config);
                None
            }
        };
        let (base, own_base) = match side {
            Side::Client => (origin.listener.0, origin.initiator),
            Side::Server => (origin.initiator.0, origin.listener),
        };
        let port = |port| Known { port, ..Known::default() };
        Target {
            endpoint,
            now,
            side,
            connection,
            known: [port(5000), port(5001), port(5002)],
            isn: origin.isn.0,
            base,
            asked: None,
            sent: own_base.add(1),
            keys: vec![Key(7)],
            tokens: vec![1],
            told: Key(1),
            delivered: Vec::new(),
            holding: Vec::new(),
            reached: Reached::default(),
        }
    }

    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the source and the destination of a lie for `at`.
    pub(super) fn addresses(&self, at: usize) -> (Address, Address) {
        if let Some(last) = &self.known[at].last {
            return (last.destination, last.source);
        }
        let port = self.known[at].port;
        match self.side {
            Side::Client => (Address::new(server_ip(), PORT), Address::new(client_ip(at.min(1)), port)),
            Side::Server => (Address::new(client_ip(at.min(1)), port), Address::new(server_ip(), PORT)),
        }
    }

    /// Processes everything that the endpoint sends, which must be finite.
    pub fn listen(&mut self) {
        for sent in 0.. {
            assert!(sent < 20_000, "never stops sending");
            let Some(transmit) = self.endpoint.poll_transmit(self.now) else { break };
            let segment = transmit.segment;
            assert!(segment.options.wire_len() <= 40, "too many options: {segment:?}");
            self.hear(&segment);
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.reached.opened |= matches!(event, Event::Accepted | Event::Connected);
            if self.connection.is_none() || event == Event::Accepted {
                self.connection = Some(id);
            }
            match event {
                Event::SubflowUp(_) => self.reached.subflows += 1,
                Event::SubflowDown(subflow) => {
                    self.holding.retain(|&(of, at, _)| (of, at) != (id, subflow));
                }
                Event::Closed(_) => {
                    self.reached.closed += 1;
                    self.holding.retain(|&(of, ..)| of != id);
                }
                _ => {}
            }
        }
        self.endpoint.assert_consistent();
    }

    fn hear(&mut self, segment: &Segment) {
        let peer = segment.destination;
        let same = |known: &Known| {
            known.last.is_some_and(|last| last.destination == peer && last.source == segment.source)
        };
        let fresh =
            |known: &Known| known.last.is_none() && (self.side == Side::Client || known.port == peer.port);
        let at = self.known.iter().position(same).or_else(|| self.known.iter().position(fresh)).unwrap_or(2);
        self.known[at].last = Some(*segment);
        for option in segment.options.mptcp.iter().flatten() {
            match *option {
                MptcpOption::Capable(capable) => self.keys.extend(capable.sender_key),
                MptcpOption::Join(Join::Syn { token, nonce, .. }) => {
                    self.tokens.push(token);
                    self.known[at].nonce = nonce;
                }
                MptcpOption::Join(Join::SynAck { nonce, .. }) => self.known[at].nonce = nonce,
                MptcpOption::Fail(_) => self.reached.fell_back = true,
                MptcpOption::Reset { .. } => self.reached.reset = true,
                MptcpOption::FastClose(_) => self.reached.fast_closed = true,
                _ => {}
            }
        }
        self.keys.truncate(64);
        self.tokens.truncate(64);
        let Some(dss) = &segment.options.dss else { return };
        match dss.data_ack {
            Some(DataAck::Wide(dsn)) => self.asked = Some(dsn),
            Some(DataAck::Narrow(low)) => {
                self.asked = Some(self.asked.unwrap_or(Dsn(self.base).add(1)).expand(low));
            }
            None => {}
        }
        if let Some(mapping) = &dss.mapping {
            self.reached.fell_back |= mapping.len == 0;
            let dsn = match mapping.dsn {
                MappedDsn::Wide(dsn) => dsn,
                MappedDsn::Narrow(low) => self.sent.expand(low),
            };
            let end = dsn.add(u64::from(mapping.len));
            if end.distance_from(self.sent) > 0 {
                self.sent = end;
            }
        }
    }

    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        let (mut steps, mut here) = (0, 0);
        while let Some(due) = self.endpoint.poll_timeout().filter(|&due| due <= until) {
            here = if due <= self.now { here + 1 } else { 0 };
            self.now = self.now.max(due);
            self.endpoint.handle_timeout(self.now);
            self.listen();
            steps += 1;
            assert!(here < STEPS_PER_INSTANT && steps < 100_000, "no progress at {:?}", self.now);
        }
        self.now = until;
    }

    pub fn step(&mut self, step: &Step) {
        let now = self.now;
        match (step, self.connection) {
            (Step::Segment(lie), _) => self.tell(lie),
            (&Step::Wait(us), _) => self.run_for(Duration::from_micros(u64::from(us))),
            (&Step::Address(at, up), _) => {
                let ip = if self.side == Side::Client { client_ip(usize::from(at % 2)) } else { server_ip() };
                self.endpoint.set_address_up(now, ip, up);
            }
            (&Step::TooBig(port, seq, mtu), _) => {
                let Some(last) = self.known[usize::from(port % 3)].last else { return };
                let mut near = last.seq;
                near.0 = seq.from(near.0.into()) as u32;
                self.endpoint.handle_too_big(now, last.source, last.destination, near, mtu);
            }
            (_, None) => {}
            (&Step::Write(n), Some(id)) => {
                self.endpoint.write(now, id, u64::from(n));
            }
            (&Step::Read(n), Some(id)) => {
                let n = u64::from(n).min(self.endpoint.readable(id));
                self.endpoint.consume(now, id, n);
            }
            (Step::Close, Some(id)) => self.endpoint.close(now, id),
            (Step::Abort, Some(id)) => self.endpoint.abort(now, id),
            (&Step::Backup(subflow, backup), Some(id)) => {
                self.endpoint.set_backup(id, SubflowId(subflow), backup);
            }
            (&Step::Open(at), Some(id)) => {
                let (peer, own) = self.addresses(0);
                let local: IpAddr =
                    if self.side == Side::Client { client_ip(usize::from(at % 3)) } else { own.ip };
                self.endpoint.open_subflow(id, local, peer);
            }
        }
        self.listen();
    }

    fn tell(&mut self, lie: &Lie) {
        let at = usize::from(lie.port % 3);
        let segment = self.segment(at, lie);
        for option in segment.options.mptcp.iter().flatten() {
            match *option {
                MptcpOption::Capable(capable) if !self.reached.opened => {
                    self.told = capable.sender_key.unwrap_or(self.told);
                }
                MptcpOption::Join(Join::Syn { nonce, .. } | Join::SynAck { nonce, .. }) => {
                    self.known[at].own_nonce = nonce;
                }
                _ => {}
            }
        }
        if segment.flags.has(Flags::SYN) && self.side == Side::Server {
            // A new subflow from a reused port: the knowledge of the old one is discarded.
            self.known[at].last = self.known[at].last.filter(|last| !last.flags.has(Flags::RST));
        }
        let mut placed = Vec::new();
        self.endpoint.handle_segment(self.now, PathId(0), &segment, &mut placed);
        assert!(placed.len() < 3000, "{} placements", placed.len());
        let mut taken = 0;
        for placement in placed {
            taken += self.place(&segment, placement);
        }
        assert!(
            taken <= u64::from(segment.payload_len),
            "of {} bytes {taken} were placed",
            segment.payload_len
        );
    }

    /// Checks that no byte is delivered twice, and that only held data is released. Returns the number of
    /// bytes of the segment that were used.
    fn place(&mut self, segment: &Segment, placement: Placement) -> u64 {
        let inside = |offset: u32, len: u64| {
            assert!(
                u64::from(offset) + len <= u64::from(segment.payload_len),
                "{placement:?} is not in the segment"
            );
            len
        };
        match placement {
            Placement::Deliver { connection, payload_offset, stream, .. } => {
                self.deliver(connection, stream);
                inside(payload_offset, stream.len())
            }
            Placement::Hold { connection, subflow, payload_offset, held } => {
                let again = |(of, at, known): &(_, _, DataRange)| {
                    (*of, *at) == (connection, subflow) && !known.intersection(held).is_empty()
                };
                assert!(!self.holding.iter().any(again), "{held:?} is held twice");
                self.holding.push((connection, subflow, held));
                self.reached.held += held.len();
                inside(payload_offset, held.len())
            }
            Placement::Release { connection, subflow, held, stream } => {
                assert_eq!(held.len(), stream.len());
                self.let_go(connection, subflow, held);
                self.deliver(connection, stream);
                0
            }
            Placement::Drop { connection, subflow, held } => {
                self.let_go(connection, subflow, held);
                0
            }
            Placement::Discard { payload_offset, len, .. } => inside(payload_offset, u64::from(len)),
        }
    }

    fn deliver(&mut self, connection: ConnectionId, stream: DataRange) {
        let again =
            |(of, known): &(_, DataRange)| *of == connection && !known.intersection(stream).is_empty();
        assert!(!self.delivered.iter().any(again), "{stream:?} is delivered twice");
        self.delivered.push((connection, stream));
        self.reached.delivered += stream.len();
    }

    fn let_go(&mut self, connection: ConnectionId, subflow: SubflowId, range: DataRange) {
        let mut gone = 0;
        for (of, at, known) in core::mem::take(&mut self.holding) {
            let part = known.intersection(range);
            if (of, at) != (connection, subflow) || part.is_empty() {
                self.holding.push((of, at, known));
                continue;
            }
            gone += part.len();
            for rest in [DataRange::new(known.start, part.start), DataRange::new(part.end, known.end)] {
                if !rest.is_empty() {
                    self.holding.push((of, at, rest));
                }
            }
        }
        assert_eq!(gone, range.len(), "{range:?} was not held");
    }
}
