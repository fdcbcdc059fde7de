//! A flood of SYNs meets a bounded table with a counter, and honest peers get through meanwhile.

use std::net::IpAddr;

use anabranch_stack::config::{ConnectionConfig, EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, Event};
use anabranch_stack::segment::{Address, Flags, PathId, Segment, SynOptions};
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

/// One of four billion strangers.
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

    /// Hands in a segment, and returns what leaves.
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
    assert_eq!(victim.endpoint.counters().half_open_evicted, 100_000 - HALF_OPEN as u64);
    // What is left gives up by itself.
    while let Some(due) = victim.endpoint.poll_timeout() {
        victim.now = victim.now.max(due);
        victim.endpoint.handle_timeout(victim.now);
        while victim.endpoint.poll_transmit(victim.now).is_some() {}
        while victim.endpoint.poll_event().is_some() {}
    }
    assert_eq!(victim.endpoint.connection_count(), 0);
}

#[test]
fn an_honest_handshake_survives_a_flood() {
    let mut victim = Victim::new();
    victim.flood(0x0b00_0000, 1000);
    for honest in 0..20 {
        let from = stranger(0x0c00_0000 + honest);
        let answer = victim.syn(from).expect("a SYN/ACK");
        // As many strangers as the table has places come within its round trip, less itself.
        victim.flood(0x0d00_0000 + honest * 1000, HALF_OPEN as u32 - 1);
        victim.third(from, &answer);
        assert_eq!(victim.accepted.len(), honest as usize + 1);
    }
    // The table is for the half-open alone: who got through stays.
    victim.flood(0x0e00_0000, 1000);
    assert_eq!(victim.endpoint.connection_count(), HALF_OPEN + 20);
}

#[test]
fn who_was_forgotten_is_reset() {
    let mut victim = Victim::new();
    let from = stranger(0x0c00_0000);
    let answer = victim.syn(from).expect("a SYN/ACK");
    victim.flood(0x0b00_0000, HALF_OPEN as u32);
    let reset = victim.third(from, &answer).expect("an answer");
    assert!(reset.flags.has(Flags::RST));
    assert!(victim.accepted.is_empty());
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
