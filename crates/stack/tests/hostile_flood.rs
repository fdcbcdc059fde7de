//! Floods of segments against one listener: its memory is bounded, whatever is sent and by any number of
//! senders.

use std::alloc::System;

use anabranch_stack::config::{
    ConnectionConfig, EndpointConfig, Entropy, LocalAddress, ReceiveBuffer, SequenceOrigin, SimOnly,
};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::segment::{
    AddAddress, Address, Capable, Dss, Flags, Join, Key, MappedDsn, Mapping, MptcpOption, PathId, Segment,
    SynOptions,
};
use anabranch_stack::seq::{Dsn, Seq};
use anabranch_units::{Bytes, RandomStream, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const FLOOD: u32 = 100_000;

fn address(last: u8, port: u16) -> Address {
    Address::new([10, 0, 0, last].into(), port)
}

/// Returns a listener with one established connection, and the token and key it has sent.
fn established(max_half_open: usize) -> (Endpoint, Time, Key) {
    let local = LocalAddress { ip: address(1, 0).ip, path: PathId(0), backup: false };
    let config = EndpointConfig { max_connections: 100, max_half_open, ..EndpointConfig::new(vec![local]) };
    let mut endpoint = Endpoint::new(config, Entropy::Seeded(RandomStream::new(1, "flood")));
    let origin = SequenceOrigin { isn: Seq(0), initiator: Dsn(0), listener: Dsn(0) };
    endpoint.listen(
        80,
        ConnectionConfig {
            receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(64)),
            ..ConnectionConfig::linux()
        }
        .simulated(SimOnly { sequence_origin: Some(origin), ..SimOnly::default() }),
    );
    let now = Time::from_millis(1);
    let capable = |sender_key, receiver_key| {
        MptcpOption::Capable(Capable {
            version: 1,
            flags: Capable::HMAC_SHA256,
            sender_key,
            receiver_key,
            data_len: None,
            checksum: None,
        })
    };
    let mut syn = segment(5000, 0, Flags::SYN);
    syn.options.push(capable(None, None));
    endpoint.handle_segment(now, PathId(0), &syn, &mut Vec::new());
    let answer = endpoint.poll_transmit(now).expect("a SYN/ACK").segment;
    let key = answer.options.mptcp.iter().flatten().find_map(|option| match option {
        MptcpOption::Capable(capable) => capable.sender_key,
        _ => None,
    });
    let mut third = segment(5000, 1, Flags::ACK);
    third.ack = answer.seq.add(1);
    third.options.push(capable(Some(Key(9)), key));
    endpoint.handle_segment(now, PathId(0), &third, &mut Vec::new());
    drain(&mut endpoint, now);
    assert_eq!(endpoint.connection_count(), 1);
    (endpoint, now, key.expect("a key"))
}

fn segment(port: u16, seq: u32, flags: Flags) -> Segment {
    let mut segment = Segment::new(address(2, port), address(1, 80), Seq(seq), flags);
    segment.window = 1000;
    if flags.has(Flags::SYN) {
        segment.options.syn = Some(SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true });
    } else {
        segment.ack = Seq(1);
    }
    segment
}

fn drain(endpoint: &mut Endpoint, now: Time) {
    while endpoint.poll_transmit(now).is_some() {}
    while endpoint.poll_event().is_some() {}
}

/// Returns the number of bytes by which the endpoint has grown after a flood.
fn growth(flood: impl FnMut(u32, Key) -> Segment) -> isize {
    growth_with(1024, flood)
}

/// Returns the same with at most `max_half_open` half-open connections.
fn growth_with(max_half_open: usize, mut flood: impl FnMut(u32, Key) -> Segment) -> isize {
    let (mut endpoint, now, key) = established(max_half_open);
    let mut placed = Vec::with_capacity(64);
    let region = Region::new(ALLOCATOR);
    for at in 0..FLOOD {
        endpoint.handle_segment(now, PathId(0), &flood(at, key), &mut placed);
        placed.clear();
        drain(&mut endpoint, now);
    }
    endpoint.assert_consistent();
    let change = region.change();
    change.bytes_allocated as isize - change.bytes_deallocated as isize
}

/// Returns data with a hole before each byte: at most as many ranges as the window has bytes.
fn holes(at: u32, _: Key) -> Segment {
    let mut lie = segment(5000, 3 + 2 * at, Flags::ACK);
    lie.payload_len = 1;
    let dsn = MappedDsn::Wide(Dsn(u64::from(3 + 2 * at)));
    let mapping = Mapping { dsn, ssn: 3 + 2 * at, len: 1, checksum: None };
    lie.options.dss = Some(Dss { data_ack: None, mapping: Some(mapping), data_fin: false });
    lie
}

/// One test, as there is one allocator.
#[test]
fn floods_do_not_grow_the_endpoint() {
    let within = |name: &str, bytes: isize, bound: isize| {
        println!("{name}: {bytes} bytes");
        assert!(bytes <= bound, "{name}: {bytes} bytes are kept, more than {bound}");
    };
    within("holes", growth(holes), 1 << 20);
    let mut far = |at: u32, _| {
        let mut lie = holes(at, Key(0));
        if let Some(mapping) = lie.options.dss.as_mut().and_then(|dss| dss.mapping.as_mut()) {
            mapping.dsn = MappedDsn::Wide(Dsn(1 << 40 | u64::from(at) << 8));
        }
        lie
    };
    within("data far beyond the window", growth(&mut far), 1 << 20);
    let unmapped = |at: u32, _| Segment { payload_len: 1, ..segment(5000, 3 + 2 * at, Flags::ACK) };
    within("data without a mapping", growth(unmapped), 64 << 10);
    let long = |at: u32, _| {
        let mut lie = holes(at, Key(0));
        if let Some(mapping) = lie.options.dss.as_mut().and_then(|dss| dss.mapping.as_mut()) {
            mapping.len = 60_000;
        }
        lie
    };
    within("mappings longer than their segments", growth(long), 1 << 20);
    let syns = |at: u32, _| segment(6000 + (at % 50_000) as u16, at, Flags::SYN);
    within("SYNs", growth(syns), 2 << 20);
    within("SYNs that get cookies", growth_with(0, syns), 4 << 10);
    let guesses = |at: u32, _| {
        let mut lie = segment(6000 + (at % 50_000) as u16, at, Flags::ACK);
        lie.ack = Seq(at.wrapping_mul(0x9e37_79b9));
        lie
    };
    within("guessed cookies", growth_with(0, guesses), 4 << 10);
    let joins = |at: u32, key| {
        let mut lie = segment(6000 + (at % 50_000) as u16, at, Flags::SYN);
        let token = anabranch_stack::crypto::token(key);
        lie.options.push(MptcpOption::Join(Join::Syn {
            backup: false,
            address_id: at as u8,
            token,
            nonce: at,
        }));
        lie
    };
    within("joins", growth(joins), 1 << 20);
    let strays = |at: u32, _| segment(6000 + (at % 50_000) as u16, at, Flags::ACK);
    within("strays", growth(strays), 1 << 20);
    let addresses = |at: u32, _| {
        let mut lie = segment(5000, 1, Flags::ACK);
        let ip = [10, 9, (at >> 8) as u8, at as u8].into();
        let add =
            AddAddress { id: at as u8, ip, port: None, hmac: at.is_multiple_of(2).then_some(u64::from(at)) };
        lie.options.push(MptcpOption::AddAddress(add));
        lie
    };
    within("announcements", growth(addresses), 64 << 10);
}
