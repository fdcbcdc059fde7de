//! The fabric without hosts: the tests send single packets.

use super::*;
use crate::topology::{self, Duplex, Hosts, PathSpec, ServerAddresses};
use anabranch_link::{Loss, QueueLimit, Reordering};
use anabranch_stack::segment::{Address, Flags};
use anabranch_stack::seq::Seq;
use anabranch_units::{Duration, Rate};

fn segment(from: IpAddr, to: IpAddr, seq: u32, payload: u32) -> Segment {
    let mut segment = Segment::new(Address::new(from, 1), Address::new(to, 2), Seq(seq), Flags::ACK);
    segment.payload_len = payload;
    segment
}

fn run(fabric: &mut Fabric<()>, mut arrived: impl FnMut(Time, Delivery, &Segment)) {
    while let Some((now, turn)) = fabric.next_turn() {
        let Turn::Link(link) = turn else { panic!("{turn:?}") };
        while let Some(delivery) = fabric.poll_link(link, now) {
            arrived(now, delivery, &fabric.pool.get(delivery.packet));
            fabric.pool.release(delivery.packet);
        }
    }
}

#[test]
fn a_packet_takes_delay_and_serialisation_of_each_hop() {
    let first = Duplex::symmetric(Rate::from_mbps(1000), Duration::from_millis(2));
    let second = Duplex::symmetric(Rate::from_mbps(100), Duration::from_millis(18));
    let topology =
        topology::disjoint(&[PathSpec::new("p", first).then(second)], ServerAddresses::One).unwrap();
    let pair = &topology.pairs[0];
    let (client, server) = (pair.client_addresses[0], pair.server_addresses[0]);
    let mut fabric = Fabric::new(&topology.network, 1, ()).unwrap();
    // 1400 bytes of payload and 40 of headers.
    for number in 0..3 {
        fabric.send(Time::ZERO, pair.client.0, PathId(0), &segment(client, server, number, 1400));
    }
    let mut arrivals = Vec::new();
    run(&mut fabric, |now, delivery, segment| {
        assert_eq!((delivery.host, delivery.path), (pair.server.0, PathId(0)));
        arrivals.push((now, segment.seq.0));
    });
    // 11.52 us on the first link, 115.2 us on the second, 10 ms of propagation; the second and the third
    // packet wait for the slower link.
    let alone = 10_000_000 + 11_520 + 115_200;
    assert_eq!(arrivals, [(Time(alone), 0), (Time(alone + 115_200), 1), (Time(alone + 230_400), 2)]);
    assert_eq!((fabric.packet_hops, fabric.data_packets), (6, 3));
    assert_eq!(fabric.pool.in_flight(), 0);
}

#[test]
fn no_packet_is_lost_but_by_a_link_and_order_is_kept() {
    for disorder in [false, true] {
        let access = Duplex::symmetric(Rate::from_mbps(100), Duration::from_millis(2)).with(|link| {
            link.loss = Loss::Bernoulli(0.05);
            link.queue = QueueLimit::Packets(20);
            if disorder {
                link.duplicate = 0.1;
                link.reordering = Some(Reordering { probability: 0.1, extra: Duration::from_millis(3) });
            }
        });
        let bottleneck = Duplex::symmetric(Rate::from_mbps(50), Duration::from_millis(2));
        let topology = topology::dumbbell(5, &access, &bottleneck, Hosts::Shared).unwrap();
        let mut fabric = Fabric::new(&topology.network, 3, ()).unwrap();
        let server = topology.pairs[0].server_addresses[0];
        let mut last = [0; 5];
        let mut arrived = 0;
        let mut sent = 0_u32;
        for burst in 0..40 {
            let at = Time::from_millis(1 + burst);
            // The fabric requires packets in order of time.
            while let Some((now, Turn::Link(link))) = fabric.next_turn().filter(|next| next.0 < at) {
                while let Some(delivery) = fabric.poll_link(link, now) {
                    fabric.pool.release(delivery.packet);
                    arrived += 1;
                }
            }
            for packet in 0..100 {
                sent += 1;
                let pair = packet % 5;
                let from = topology.pairs[pair].client_addresses[0];
                fabric.send(
                    at,
                    topology.pairs[0].client.0,
                    PathId(pair as u16),
                    &segment(from, server, sent, 1000),
                );
            }
        }
        run(&mut fabric, |_, _, segment| {
            let client = topology.pairs.iter().position(|pair| pair.client_addresses[0] == segment.source.ip);
            let last = &mut last[client.unwrap()];
            assert!(disorder || segment.seq.0 > *last, "{segment:?}");
            *last = segment.seq.0;
            arrived += 1;
        });
        let (mut hops, mut dropped, mut copies) = (0, 0, 0);
        for link in fabric.links_mut() {
            let counters = link.counters();
            let out = counters.delivered + counters.dropped();
            assert_eq!(counters.offered + counters.duplicated, out);
            assert_eq!(link.inside(), 0);
            hops += counters.delivered.packets;
            dropped += counters.dropped().packets;
            copies += counters.duplicated.packets;
        }
        assert_eq!(hops, fabric.packet_hops);
        assert_eq!(arrived + dropped, u64::from(sent) + copies);
        assert_eq!(copies > 0, disorder);
        assert_eq!(fabric.pool.in_flight(), 0);
    }
}

#[test]
fn a_packet_without_route_is_counted() {
    let link = Duplex::symmetric(Rate::from_mbps(100), Duration::from_millis(2));
    let topology = topology::dumbbell(2, &link, &link, Hosts::Separate).unwrap();
    let mut fabric = Fabric::new(&topology.network, 1, ()).unwrap();
    let (from, other) = (&topology.pairs[0], topology.pairs[1].server_addresses[0]);
    assert!(!fabric.has_route(from.client, PathId(0), other));
    assert!(fabric.has_route(from.client, PathId(0), from.server_addresses[0]));
    fabric.send(Time::ZERO, from.client.0, PathId(0), &segment(from.client_addresses[0], other, 1, 0));
    fabric.send(Time::ZERO, from.client.0, PathId(7), &segment(from.client_addresses[0], other, 1, 0));
    assert_eq!((fabric.unroutable, fabric.next_turn()), (2, None));
}

#[test]
#[ignore = "a measurement"]
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures wall time")]
fn hops_per_second() {
    for window in std::env::var("WINDOW").map_or(vec![100, 1000, 100_000], |v| vec![v.parse().unwrap()]) {
        let first = Duplex::symmetric(Rate::from_mbps(1000), Duration::from_millis(2))
            .with(|l| l.queue = anabranch_link::QueueLimit::Unlimited);
        let second = Duplex::symmetric(Rate::from_mbps(100), Duration::from_millis(18))
            .with(|l| l.queue = anabranch_link::QueueLimit::Unlimited);
        let topology =
            topology::disjoint(&[PathSpec::new("p", first).then(second)], ServerAddresses::One).unwrap();
        let pair = &topology.pairs[0];
        let (client, server) = (pair.client_addresses[0], pair.server_addresses[0]);
        let mut fabric = Fabric::new(&topology.network, 1, ()).unwrap();
        let mut data = Segment::new(Address::new(client, 1), Address::new(server, 2), Seq(1), Flags::ACK);
        data.payload_len = 1400;
        let ack = Segment::new(Address::new(server, 1), Address::new(client, 2), Seq(1), Flags::ACK);
        for _ in 0..window {
            fabric.send(Time::ZERO, pair.client.0, PathId(0), &data);
        }
        let start = std::time::Instant::now();
        let mut seen = 0u64;
        let mut odd = false;
        let hops = std::env::var("HOPS").map_or(20_000_000, |v| v.parse().unwrap());
        while fabric.packet_hops < hops {
            let (now, turn) = fabric.next_turn().unwrap();
            let Turn::Link(link) = turn else { panic!() };
            while let Some(d) = fabric.poll_link(link, now) {
                let s = fabric.pool.get(d.packet);
                seen += u64::from(s.seq.0);
                fabric.pool.release(d.packet);
                if d.host == pair.server.0 {
                    odd = !odd;
                    if odd {
                        fabric.send(now, d.host, d.path, &ack);
                    }
                } else {
                    data.seq = Seq(data.seq.0.wrapping_add(1));
                    fabric.send(now, d.host, d.path, &data);
                    fabric.send(now, d.host, d.path, &data);
                }
            }
        }
        let secs = start.elapsed().as_secs_f64();
        println!(
            "window {window}: {:.1} M hops/s, {:.1} ns/hop  ({} B segment) {seen}",
            fabric.packet_hops as f64 / secs / 1e6,
            secs * 1e9 / fabric.packet_hops as f64,
            size_of::<Segment>()
        );
    }
}
