//! One endpoint that is sent nonsense in every state: it must not panic, not run in circles, and not
//! grow. The segments are near what would be right, since pure noise is dropped at the door.

mod harness;
mod random;

use anabranch_stack::config::{ConnectionConfig, EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, Event};
use anabranch_stack::segment::{
    AddAddress, Address, AddressIds, Capable, DataAck, Dss, Flags, Join, Key, MappedDsn, Mapping,
    MptcpOption, PathId, ResetReason, Segment, SynOptions, Timestamps,
};
use anabranch_stack::seq::{Dsn, Seq};
use anabranch_units::{Duration, RandomStream, Time};
use harness::{PORT, Side, client_ip, server_ip};
use proptest::prelude::*;
use random::case::{Case, any_case};

/// A number that is often near the one that matters.
#[derive(Clone, Copy, Debug)]
enum Number {
    /// The expected one and so many more (or fewer).
    Near(i32),
    /// Anything.
    Any(u64),
}

impl Number {
    fn from(self, expected: u64) -> u64 {
        match self {
            Number::Near(delta) => expected.wrapping_add_signed(i64::from(delta)),
            Number::Any(number) => number,
        }
    }
}

/// A data acknowledgement, a mapping (data, subflow, length), and two flags.
type RandomDss = (Option<Number>, Option<(Number, Number, u16)>, bool, bool);

/// A hostile segment, or something else that happens in between.
#[derive(Clone, Debug)]
enum Step {
    Segment {
        port: u8,
        flags: u8,
        seq: Number,
        ack: Number,
        window: u16,
        len: u32,
        timestamps: Option<(u32, u32)>,
        sack: Vec<(Number, Number)>,
        syn: Option<(u16, Option<u8>, bool)>,
        dss: Option<RandomDss>,
        options: Vec<u8>,
        number: u64,
    },
    Wait(u32),
    Write(u32),
    Read(u32),
    Close,
}

fn any_number() -> impl Strategy<Value = Number> {
    prop_oneof![
        4 => (-3i32..4).prop_map(Number::Near),
        3 => (-3000i32..3000).prop_map(Number::Near),
        1 => any::<i32>().prop_map(Number::Near),
        1 => any::<u64>().prop_map(Number::Any),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![8 => Just(0x10u8), 2 => Just(0x18), 2 => Just(0x11), 1 => Just(0x02), 1 => Just(0x12),
        1 => Just(0x04), 1 => Just(0x14), 1 => any::<u8>()];
    let blocks = prop::collection::vec((any_number(), any_number()), 0..5);
    let syn = (any::<u16>(), prop::option::of(any::<u8>()), any::<bool>());
    let mapping = (any_number(), any_number(), prop_oneof![1u16..2000, any::<u16>()]);
    let dss = (prop::option::of(any_number()), prop::option::of(mapping), any::<bool>(), any::<bool>());
    let head = (0u8..3, flags, any_number(), any_number(), any::<u16>());
    let body = (
        prop_oneof![2 => Just(0u32), 2 => 1u32..1400, 1 => 0u32..70_000],
        prop::option::of((any::<u32>(), any::<u32>())),
        blocks,
        prop::option::of(syn),
        prop::option::weighted(0.7, dss),
        prop::collection::vec(0u8..12, 0..3),
        any::<u64>(),
    );
    let segment = (head, body).prop_map(
        |((port, flags, seq, ack, window), (len, timestamps, sack, syn, dss, options, number))| {
            Step::Segment { port, flags, seq, ack, window, len, timestamps, sack, syn, dss, options, number }
        },
    );
    prop_oneof![
        20 => segment,
        3 => prop_oneof![0u32..100_000, 0u32..10_000_000].prop_map(Step::Wait),
        2 => (0u32..100_000).prop_map(Step::Write),
        1 => (0u32..100_000).prop_map(Step::Read),
        1 => Just(Step::Close),
    ]
}

/// The one endpoint, and what its peer would have to say next.
struct Target {
    endpoint: Endpoint,
    now: Time,
    side: Side,
    connection: Option<ConnectionId>,
    /// By port of the peer: what was last said to it, so that lies can be near the truth.
    last: [Option<Segment>; 3],
    isn: u32,
    base: u64,
    own_base: u64,
    ports: [u16; 3],
    keys: Vec<Key>,
    tokens: Vec<u32>,
    opened: bool,
}

impl Target {
    fn new(side: Side, config: ConnectionConfig, seed: u64) -> Target {
        let (own, isn) =
            (config.sequence_origin.expect("an origin"), config.sequence_origin.expect("an origin").isn);
        let address = |ip, path| LocalAddress { ip, path: PathId(path), backup: false };
        let addresses = match side {
            Side::Client => vec![address(client_ip(0), 0), address(client_ip(1), 1)],
            Side::Server => vec![address(server_ip(), 0)],
        };
        let endpoint_config = EndpointConfig { max_connections: 4, ..EndpointConfig::new(addresses) };
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
            Side::Client => (own.listener.0, own.initiator.0),
            Side::Server => (own.initiator.0, own.listener.0),
        };
        Target {
            endpoint,
            now,
            side,
            connection,
            last: [None; 3],
            isn: isn.0,
            base,
            own_base,
            ports: [5000, 5001, 5002],
            keys: vec![Key(7)],
            tokens: vec![1],
            opened: false,
        }
    }

    /// Hears everything that the endpoint says; it must come to an end.
    fn listen(&mut self) {
        for sent in 0.. {
            assert!(sent < 20_000, "never stops sending");
            let Some(transmit) = self.endpoint.poll_transmit(self.now) else { break };
            let segment = transmit.segment;
            let peer = if self.side == Side::Client { segment.source.port } else { segment.destination.port };
            let known = self.ports.iter().position(|&port| port == peer);
            let at = known.unwrap_or(if self.last[0].is_none() { 0 } else { 1 });
            self.ports[at] = peer;
            self.last[at] = Some(segment);
            for option in segment.options.mptcp.iter().flatten() {
                match option {
                    MptcpOption::Capable(capable) => self.keys.extend(capable.sender_key),
                    MptcpOption::Join(Join::Syn { token, .. }) => self.tokens.push(*token),
                    _ => {}
                }
            }
            self.keys.truncate(64);
            self.tokens.truncate(64);
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.opened |= matches!(event, Event::Accepted | Event::Connected);
            if self.connection.is_none() || event == Event::Accepted {
                self.connection = Some(id);
            }
        }
        self.endpoint.assert_consistent();
    }

    fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        let (mut steps, mut here) = (0, 0);
        while let Some(due) = self.endpoint.poll_timeout().filter(|&due| due <= until) {
            here = if due <= self.now { here + 1 } else { 0 };
            self.now = self.now.max(due);
            self.endpoint.handle_timeout(self.now);
            self.listen();
            steps += 1;
            assert!(here < 64 && steps < 100_000, "no progress at {:?}", self.now);
        }
        self.now = until;
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(us) => self.run_for(Duration::from_micros(u64::from(*us))),
            Step::Write(n) => {
                if let Some(id) = self.connection {
                    self.endpoint.write(self.now, id, u64::from(*n));
                }
            }
            Step::Read(n) => {
                if let Some(id) = self.connection {
                    let n = u64::from(*n).min(self.endpoint.readable(id));
                    self.endpoint.consume(self.now, id, n);
                }
            }
            Step::Close => {
                if let Some(id) = self.connection {
                    self.endpoint.close(self.now, id);
                }
            }
            Step::Segment { port, .. } => {
                let segment = self.lie(usize::from(*port), step);
                let mut placed = Vec::new();
                self.endpoint.handle_segment(self.now, PathId(0), &segment, &mut placed);
                assert!(placed.len() < 1000);
            }
        }
        self.listen();
    }

    fn lie(&self, at: usize, step: &Step) -> Segment {
        let Step::Segment {
            flags, seq, ack, window, len, timestamps, sack, syn, dss, options, number, ..
        } = step
        else {
            unreachable!()
        };
        let port = self.ports[at];
        let (source, destination) = match self.side {
            Side::Client => (Address::new(server_ip(), PORT), Address::new(client_ip(at.min(1)), port)),
            Side::Server => (Address::new(client_ip(at.min(1)), port), Address::new(server_ip(), PORT)),
        };
        let heard = self.last[at];
        let opening = flags & Flags::SYN.0 != 0;
        let expected = match heard {
            Some(last) if !opening && last.ack.0 != 0 => last.ack.0,
            _ if opening => self.isn,
            _ => self.isn.wrapping_add(1),
        };
        let expected_ack = heard.map_or(0, |last| last.seq.add(last.seq_len()).0);
        let mut segment =
            Segment::new(source, destination, Seq(seq.from(expected.into()) as u32), Flags(*flags));
        segment.ack = Seq(ack.from(expected_ack.into()) as u32);
        segment.window = *window;
        segment.payload_len = *len;
        segment.options.timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
        for (left, right) in sack {
            let edge = |number: &Number| Seq(number.from(expected_ack.into()) as u32);
            segment.options.sack.push(edge(left), edge(right));
        }
        if let Some((mss, window_scale, sack_permitted)) = *syn {
            segment.options.syn = Some(SynOptions { mss, window_scale, sack_permitted });
        }
        if let Some((ack, mapping, fin, narrow)) = dss {
            let relative = expected.wrapping_sub(self.isn);
            let wire = |number: u64| {
                if *narrow { MappedDsn::Narrow(number as u32) } else { MappedDsn::Wide(Dsn(number)) }
            };
            segment.options.dss = Some(Dss {
                data_ack: ack.map(|ack| {
                    let number = ack.from(self.own_base.wrapping_add(1));
                    if *narrow { DataAck::Narrow(number as u32) } else { DataAck::Wide(Dsn(number)) }
                }),
                mapping: mapping.map(|(dsn, ssn, len)| Mapping {
                    dsn: wire(dsn.from(self.base.wrapping_add(u64::from(relative)))),
                    ssn: ssn.from(relative.into()) as u32,
                    len,
                    checksum: None,
                }),
                data_fin: *fin,
            });
        }
        for option in options {
            segment.options.push(self.option(*option, *number));
        }
        segment
    }

    fn option(&self, which: u8, number: u64) -> MptcpOption {
        let key = self.keys[number as usize % self.keys.len()];
        let token = self.tokens[number as usize % self.tokens.len()];
        let low = number as u32;
        let ip = client_ip((number % 7) as usize);
        let capable = |sender_key, receiver_key, data_len| {
            MptcpOption::Capable(Capable {
                version: 1,
                flags: if number.is_multiple_of(5) { number as u8 } else { Capable::HMAC_SHA256 },
                sender_key,
                receiver_key,
                data_len,
                checksum: None,
            })
        };
        match which {
            0 => capable(None, None, None),
            1 => capable(Some(Key(number)), None, None),
            2 => capable(Some(Key(number)), Some(key), None),
            3 => capable(Some(Key(number)), Some(key), Some(number as u16)),
            4 => MptcpOption::Join(Join::Syn {
                backup: low & 1 == 0,
                address_id: low as u8,
                token,
                nonce: low,
            }),
            5 => MptcpOption::Join(Join::SynAck {
                backup: false,
                address_id: low as u8,
                hmac: number,
                nonce: low,
            }),
            6 => MptcpOption::Join(Join::Ack { hmac: [number as u8; 20] }),
            7 => MptcpOption::AddAddress(AddAddress {
                id: low as u8,
                ip,
                port: None,
                hmac: (!number.is_multiple_of(3)).then_some(number),
            }),
            8 => MptcpOption::RemoveAddress(AddressIds::one((number % 4) as u8)),
            9 => MptcpOption::Priority { backup: number.is_multiple_of(2) },
            10 => MptcpOption::FastClose(if number.is_multiple_of(4) { key } else { Key(number) }),
            _ => MptcpOption::Reset { transient: number.is_multiple_of(2), reason: ResetReason::default() },
        }
    }
}

fn attack(side: Side, case: &Case, honest: bool, steps: &[Step]) {
    // Agreed keys have no handshake to be honest in.
    let case = &Case { simultaneous: case.simultaneous && !honest, ..case.clone() };
    let config = case.config(side);
    let mut target = Target::new(side, config, case.seed);
    target.listen();
    if honest {
        // The handshake as it should be, so that the later states are reached as well.
        let plain = |flags: Flags, options: Vec<u8>| Step::Segment {
            port: 0,
            flags: flags.0,
            seq: Number::Near(0),
            ack: Number::Near(0),
            window: 20_000,
            len: 0,
            timestamps: None,
            sack: Vec::new(),
            syn: flags.has(Flags::SYN).then_some((1460, Some(7), true)),
            dss: None,
            options,
            number: 1,
        };
        if side == Side::Client {
            target.step(&plain(Flags::SYN.with(Flags::ACK), vec![1]));
        } else {
            target.step(&plain(Flags::SYN, vec![0]));
            target.step(&plain(Flags::ACK, vec![2]));
        }
        assert!(target.opened, "the honest handshake");
        target.step(&Step::Write(5000));
    }
    for step in steps {
        target.step(step);
    }
    // Left alone, it comes to rest.
    for _ in 0..4 {
        target.run_for(Duration::from_secs(600));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5000,
        rng_seed: random::rng_seed(),
        failure_persistence: Some(Box::new(proptest::test_runner::FileFailurePersistence::Direct(
            "tests/hostile_input.proptest-regressions",
        ))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn nonsense_does_no_harm(
        case in any_case(),
        client in any::<bool>(),
        honest in prop::bool::weighted(0.7),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        attack(if client { Side::Client } else { Side::Server }, &case, honest, &steps);
    }
}
