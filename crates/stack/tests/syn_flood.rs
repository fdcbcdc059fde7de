//! A SYN flood meets a bounded table and then cookies, and honest peers connect meanwhile.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_stack::config::{ConnectionConfig, EndpointConfig, Entropy, LocalAddress, SimConfig, SimOnly};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, Event};
use anabranch_stack::segment::{
    Address, Capable, Flags, MptcpOption, PathId, Segment, SynOptions, Timestamps,
};
use anabranch_stack::seq::Seq;
use anabranch_units::{Duration, RandomStream, Time};

const HALF_OPEN: usize = 64;
const CONNECTIONS: usize = 100;

struct Victim {
    endpoint: Endpoint,
    now: Time,
    accepted: Vec<ConnectionId>,
}

fn own() -> Address {
    Address::new(IpAddr::from([10, 0, 0, 1]), 80)
}

/// Returns one of four billion addresses.
fn stranger(number: u32) -> Address {
    Address::new(IpAddr::from(number.to_be_bytes()), 5000)
}

impl Victim {
    fn new() -> Victim {
        let local = LocalAddress { ip: own().ip, path: PathId(0), backup: false };
        let config = EndpointConfig {
            max_connections: CONNECTIONS,
            max_half_open: HALF_OPEN,
            ..EndpointConfig::new(vec![local])
        };
        let mut endpoint = Endpoint::new(config, Entropy::Seeded(RandomStream::new(1, "victim")));
        endpoint.listen(own().port, ConnectionConfig::linux());
        Victim { endpoint, now: Time::from_secs(1), accepted: Vec::new() }
    }

    /// Hands in a segment, and returns the answer.
    fn hear(&mut self, from: Address, flags: Flags, ack: Seq) -> Option<Segment> {
        let seq = Seq(if flags.has(Flags::SYN) { 0 } else { 1 });
        let mut segment = Segment::new(from, own(), seq, flags);
        segment.ack = ack;
        segment.window = 1000;
        if flags.has(Flags::SYN) {
            segment.options.syn = Some(SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true });
        }
        self.endpoint.handle_segment(self.now, PathId(0), &segment, &mut Vec::new());
        let answer = self.endpoint.poll_transmit(self.now).map(|transmit| transmit.segment);
        while self.endpoint.poll_transmit(self.now).is_some() {}
        while let Some((id, event)) = self.endpoint.poll_event() {
            if event == Event::Accepted {
                self.accepted.push(id);
            }
        }
        answer
    }

    fn syn(&mut self, from: Address) -> Option<Segment> {
        self.hear(from, Flags::SYN, Seq(0))
    }

    fn third(&mut self, from: Address, syn_ack: &Segment) -> Option<Segment> {
        self.hear(from, Flags::ACK, syn_ack.seq.add(1))
    }

    fn flood(&mut self, from: u32, count: u32) {
        for number in from..from + count {
            self.syn(stranger(number));
            self.now += Duration::from_micros(10);
        }
    }
}

#[test]
fn a_flood_of_syns_is_bounded_and_counted() {
    let mut victim = Victim::new();
    victim.flood(0x0b00_0000, 100_000);
    assert_eq!(victim.endpoint.connection_count(), HALF_OPEN);
    // The flood lasts for a second: nothing is evicted yet.
    let counters = victim.endpoint.counters();
    assert_eq!((counters.half_open_evicted, counters.cookies_sent), (0, 100_000 - HALF_OPEN as u64));
    assert_eq!((counters.cookies_accepted, counters.cookies_rejected), (0, 0));
    // The remaining connections give up by themselves.
    while let Some(due) = victim.endpoint.poll_timeout() {
        victim.now = victim.now.max(due);
        victim.endpoint.handle_timeout(victim.now);
        while victim.endpoint.poll_transmit(victim.now).is_some() {}
        while victim.endpoint.poll_event().is_some() {}
    }
    assert_eq!(victim.endpoint.connection_count(), 0);
}

#[test]
fn honest_handshakes_survive_any_number_of_strangers() {
    let mut victim = Victim::new();
    victim.flood(0x0b00_0000, 1000);
    for honest in 0..20 {
        let from = stranger(0x0c00_0000 + honest);
        let answer = victim.syn(from).expect("a SYN/ACK");
        victim.flood(0x0d00_0000 + honest * 10_000, 10_000);
        victim.third(from, &answer);
        assert_eq!(victim.accepted.len(), honest as usize + 1);
    }
    // The table is only for half-open connections: established ones stay.
    victim.flood(0x0e00_0000, 1000);
    assert_eq!(victim.endpoint.connection_count(), HALF_OPEN + 20);
}

#[test]
fn one_that_came_before_the_flood_keeps_its_place_until_it_has_had_its_time() {
    for (wait_ms, stays) in [(2900, true), (3100, false)] {
        let mut victim = Victim::new();
        let from = stranger(0x0c00_0000);
        let answer = victim.syn(from).expect("a SYN/ACK");
        victim.flood(0x0b00_0000, 1000);
        victim.now += Duration::from_millis(wait_ms);
        victim.flood(0x0d00_0000, 1000);
        // Those that arrived after the flood still have theirs.
        assert_eq!(victim.endpoint.counters().half_open_evicted > 0, !stays);
        assert_eq!(victim.endpoint.connection_count(), HALF_OPEN);
        let answer = victim.third(from, &answer);
        assert_eq!(victim.accepted.len(), usize::from(stays));
        assert_eq!(answer.is_some_and(|answer| answer.flags.has(Flags::RST)), !stays);
    }
}

#[test]
fn beyond_the_limit_of_connections_a_syn_is_refused_and_counted() {
    let mut victim = Victim::new();
    for number in 0..CONNECTIONS as u32 {
        let from = stranger(0x0c00_0000 + number);
        let answer = victim.syn(from).expect("a SYN/ACK");
        victim.third(from, &answer);
    }
    assert_eq!(victim.accepted.len(), CONNECTIONS);
    let answer = victim.syn(stranger(0x0b00_0000)).expect("an answer");
    assert!(answer.flags.has(Flags::RST));
    assert_eq!(victim.endpoint.counters().connections_refused, 1);
}

#[test]
fn strangers_take_no_place_of_an_established_connection() {
    let mut victim = Victim::new();
    for honest in 0..CONNECTIONS as u32 {
        victim.flood(0x0b00_0000 + honest * 1000, 1000);
        let from = stranger(0x0c00_0000 + honest);
        let answer = victim.syn(from).expect("a SYN/ACK");
        assert!(answer.flags.has(Flags::SYN.with(Flags::ACK)));
        victim.third(from, &answer);
        assert_eq!(victim.accepted.len(), honest as usize + 1);
        assert!(victim.endpoint.connection_count() <= CONNECTIONS);
    }
    // Now each slot has an established connection.
    let answer = victim.syn(stranger(0x0e00_0000)).expect("an answer");
    assert!(answer.flags.has(Flags::RST));
    assert_eq!(victim.endpoint.counters().half_open_evicted, HALF_OPEN as u64);
}

#[test]
fn a_place_is_used_again_under_another_id() {
    let mut victim = Victim::new();
    let mut ids = std::collections::BTreeSet::new();
    for number in 0..10_000 {
        let from = stranger(0x0c00_0000 + number);
        let answer = victim.syn(from).expect("a SYN/ACK");
        victim.third(from, &answer);
        let id = *victim.accepted.last().expect("accepted");
        assert!(ids.insert(id), "{id:?} was there before");
        assert!(id.place() < 4, "{id:?}");
        victim.hear(from, Flags::RST.with(Flags::ACK), answer.seq.add(1));
        while victim.endpoint.poll_event().is_some() {}
        assert!(victim.endpoint.stats(id).is_none(), "{number}");
    }
    let first = *ids.first().expect("the first");
    assert_eq!(victim.endpoint.write(victim.now, first, 100), 0);
}

/// Fetches from a server under flood, on a virtual clock.
struct Siege {
    now: Time,
    server: Endpoint,
    client: Endpoint,
    /// Segments in flight: time of arrival, and whether at the server.
    wire: BTreeMap<(Time, u64), (bool, Segment)>,
    sent: u64,
    delay: Duration,
    /// The loss rate of honest segments.
    loss: f64,
    random: RandomStream,
    strangers: u64,
    next_stranger: Time,
    fetches: Vec<ConnectionId>,
    fetched: BTreeMap<ConnectionId, Time>,
    most_connections: usize,
}

const REQUEST: u64 = 200;
const RESPONSE: u64 = 10_000;
const FETCHES: usize = 12;
/// The interval between SYNs of the flood, which lasts for the whole run.
const SYN_INTERVAL: Duration = Duration::from_micros(50);

impl Siege {
    fn new(rtt: Duration, loss: f64, seed: u64) -> Siege {
        let host = |ip, name| {
            let local = LocalAddress { ip, path: PathId(0), backup: false };
            let entropy = Entropy::Seeded(RandomStream::new(seed, name));
            Endpoint::new(EndpointConfig::new(vec![local]), entropy)
        };
        let mut siege = Siege {
            now: Time::from_secs(1),
            server: host(own().ip, "server"),
            client: host(IpAddr::from([10, 1, 0, 1]), "client"),
            wire: BTreeMap::new(),
            sent: 0,
            delay: rtt / 2,
            loss,
            random: RandomStream::new(seed, "siege"),
            strangers: 0,
            next_stranger: Time::from_secs(1),
            fetches: Vec::new(),
            fetched: BTreeMap::new(),
            most_connections: 0,
        };
        siege.server.listen(own().port, siege.config());
        siege
    }

    fn config(&self) -> SimConfig {
        ConnectionConfig::linux().simulated(SimOnly { consume_at_once: true, ..SimOnly::default() })
    }

    /// Sends a SYN of the flood, like a kernel's or a simpler one, and discards its answer.
    fn flood(&mut self) {
        self.strangers += 1;
        let from = stranger(0x0b00_0000 + self.strangers as u32);
        let mut syn = Segment::new(from, own(), Seq(self.random.next_u64() as u32), Flags::SYN);
        syn.options.syn = Some(SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true });
        if self.strangers.is_multiple_of(2) {
            syn.options.timestamps = Some(Timestamps { value: 1, echo: 0 });
            syn.options.push(MptcpOption::Capable(Capable {
                version: 1,
                flags: Capable::HMAC_SHA256,
                sender_key: None,
                receiver_key: None,
                data_len: None,
                checksum: None,
            }));
        }
        self.server.handle_segment(self.now, PathId(0), &syn, &mut Vec::new());
        self.most_connections = self.most_connections.max(self.server.connection_count());
    }

    fn drain(&mut self) {
        for to_server in [true, false] {
            let from = if to_server { &mut self.client } else { &mut self.server };
            while let Some(transmit) = from.poll_transmit(self.now) {
                let segment = transmit.segment;
                let honest = to_server || segment.destination.ip == IpAddr::from([10, 1, 0, 1]);
                if honest && !self.random.chance(self.loss) {
                    self.sent += 1;
                    self.wire.insert((self.now + self.delay, self.sent), (to_server, segment));
                }
            }
            while let Some((id, event)) = from.poll_event() {
                match (to_server, event) {
                    (true, Event::Connected) => assert_eq!(from.write(self.now, id, REQUEST), REQUEST),
                    (false, Event::Readable) if from.received(id) == REQUEST => {
                        assert_eq!(from.write(self.now, id, RESPONSE), RESPONSE);
                        from.close(self.now, id);
                    }
                    (true, Event::Readable) if from.received(id) == RESPONSE => {
                        self.fetched.insert(id, self.now);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Starts a fetch every 100 ms after 2 s of flood, and runs until all are complete or 60 s have passed.
    fn run(&mut self) {
        let begin = |at: usize| Time::from_secs(3) + Duration::from_millis(100) * at as u64;
        while self.fetched.len() < FETCHES && self.now < Time::from_secs(60) {
            let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
            let fetch = Some(begin(self.fetches.len())).filter(|_| self.fetches.len() < FETCHES);
            let timers = [self.server.poll_timeout(), self.client.poll_timeout()];
            let due = [arrival, fetch, timers[0], timers[1], Some(self.next_stranger)];
            self.now = self.now.max(due.into_iter().flatten().min().expect("something"));
            if self.next_stranger <= self.now {
                self.next_stranger += SYN_INTERVAL;
                self.flood();
            }
            if fetch.is_some_and(|at| at <= self.now) {
                let local = IpAddr::from([10, 1, 0, 1]);
                let id = self.client.connect(self.now, local, own(), self.config()).expect("a connection");
                self.fetches.push(id);
            }
            while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to_server, segment) = entry.remove();
                let to = if to_server { &mut self.server } else { &mut self.client };
                to.handle_segment(self.now, PathId(0), &segment, &mut Vec::new());
                self.drain();
            }
            self.server.handle_timeout(self.now);
            self.client.handle_timeout(self.now);
            self.drain();
        }
    }
}

#[test]
fn twelve_of_twelve_fetches_succeed_under_twenty_thousand_syns_a_second() {
    for rtt_ms in [100, 300] {
        let mut siege = Siege::new(Duration::from_millis(rtt_ms), 0.0, rtt_ms);
        siege.run();
        assert_eq!(siege.fetched.len(), FETCHES, "at {rtt_ms} ms");
        // As without a flood: the handshake, the request, and the part of the response beyond the first
        // window.
        for (id, begun) in siege.fetches.iter().zip(0..) {
            let took = siege.fetched[id].since(Time::from_secs(3) + Duration::from_millis(100) * begun);
            assert_eq!(took.as_micros() / 1000, 2 * rtt_ms, "{id:?}");
            assert!(siege.client.stats(*id).is_none_or(|stats| stats.mptcp));
        }
        let counters = siege.server.counters();
        assert_eq!(counters.cookies_accepted + counters.cookies_rejected, FETCHES as u64, "{counters:?}");
        assert!(siege.most_connections <= 1024 + FETCHES, "{}", siege.most_connections);
        assert_eq!(counters.strays_reset + counters.strays_dropped + counters.connections_refused, 0);
        let half_open = siege.server.connection_count() - FETCHES;
        let answered = counters.cookies_sent + counters.half_open_evicted + half_open as u64;
        assert_eq!(answered, siege.strangers + FETCHES as u64);
    }
}

#[test]
fn they_do_although_a_tenth_of_their_packets_is_lost() {
    for seed in 0..5 {
        let mut siege = Siege::new(Duration::from_millis(100), 0.1, seed);
        siege.run();
        assert_eq!(siege.fetched.len(), FETCHES, "seed {seed}: {:?}", siege.server.counters());
    }
}
