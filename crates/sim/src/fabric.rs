//! The network at work: packets, links, routes, and the calendar of what happens when.

use core::net::IpAddr;
use std::collections::BTreeMap;

use anabranch_link::{Link, LinkConfigError, Polled, Pushed};
use anabranch_stack::segment::{PathId, Segment};
use anabranch_units::Time;

use crate::heap::Calendar;
use crate::network::{HostId, LinkId, Network};
use crate::pool::{Pool, Ticket};
use crate::recorder::Recorder;

/// Marks a hop that is no link but the end of the route.
const LAST: u32 = 1 << 31;

/// A packet that has arrived at a host. The host gives it back with [`Pool::release`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) host: u32,
    pub(crate) path: PathId,
    pub(crate) packet: u32,
}

/// What the next turn is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Link(u32),
    Host(u32),
    Agenda,
}

/// The routes that begin at one interface.
#[derive(Clone, Debug, Default)]
struct Routes {
    /// The destination and the place of the first hop, sorted.
    by_destination: Vec<(IpAddr, u32)>,
    /// The one that was used last.
    last: Option<(IpAddr, u32)>,
}

/// Links, and the packets in them.
#[derive(Clone, Debug)]
pub(crate) struct Fabric<R> {
    links: Vec<Link<Ticket>>,
    /// Whether the link may make copies.
    duplicates: Vec<bool>,
    /// All routes one behind the other: the numbers of links, and at the end of each route the number of
    /// its destination, marked [`LAST`].
    hops: Vec<u32>,
    destinations: Vec<(u32, PathId)>,
    /// By host, by interface.
    routes: Vec<Vec<Routes>>,
    pub(crate) pool: Pool,
    calendar: Calendar,
    pub(crate) recorder: Option<Box<R>>,
    pub(crate) packet_hops: u64,
    pub(crate) data_packets: u64,
    pub(crate) unroutable: u64,
}

impl<R: Recorder> Fabric<R> {
    /// The fabric of a network that has checked its parts.
    pub(crate) fn new(
        network: &Network,
        seed: u64,
        recorder: R,
    ) -> Result<Fabric<R>, (String, LinkConfigError)> {
        let mut links = Vec::with_capacity(network.links().len());
        for spec in network.links() {
            let link = Link::new(&spec.name, seed, spec.config.clone());
            links.push(link.map_err(|error| (spec.name.clone(), error))?);
        }
        let mut destinations = Vec::new();
        let mut located = BTreeMap::new();
        for (host, spec) in network.hosts().iter().enumerate() {
            for (path, interface) in spec.interfaces.iter().enumerate() {
                located.insert(interface.ip, destinations.len() as u32);
                destinations.push((host as u32, PathId(path as u16)));
            }
        }
        let mut routes: Vec<Vec<Routes>> =
            network.hosts().iter().map(|host| vec![Routes::default(); host.interfaces.len()]).collect();
        let mut hops = Vec::new();
        for route in network.routes() {
            let table = &mut routes[route.from.index()][usize::from(route.path.0)];
            table.by_destination.push((route.to, hops.len() as u32));
            hops.extend(route.links.iter().map(|link| link.0));
            hops.push(LAST | located[&route.to]);
        }
        for table in routes.iter_mut().flatten() {
            table.by_destination.sort_unstable();
        }
        Ok(Fabric {
            duplicates: network.links().iter().map(|spec| spec.config.duplicate > 0.0).collect(),
            calendar: Calendar::new(links.len() + routes.len() + 1),
            links,
            hops,
            destinations,
            routes,
            pool: Pool::default(),
            recorder: Some(Box::new(recorder)),
            packet_hops: 0,
            data_packets: 0,
            unroutable: 0,
        })
    }

    /// When something happens next, and what.
    #[inline]
    pub(crate) fn next_turn(&self) -> Option<(Time, Turn)> {
        let (time, item) = self.calendar.first()?;
        let item = item as usize;
        let turn = if item < self.links.len() {
            Turn::Link(item as u32)
        } else if item < self.links.len() + self.routes.len() {
            Turn::Host((item - self.links.len()) as u32)
        } else {
            Turn::Agenda
        };
        Some((time, turn))
    }

    /// Sets the time at which a host or the agenda has its turn.
    #[inline]
    pub(crate) fn set_turn(&mut self, turn: Turn, time: Time) {
        self.calendar.set(self.item(turn), time);
    }

    /// The time set for that turn; never if there is none.
    #[inline]
    pub(crate) fn time_of_turn(&self, turn: Turn) -> Time {
        self.calendar.time_of(self.item(turn))
    }

    #[inline]
    fn item(&self, turn: Turn) -> u32 {
        match turn {
            Turn::Link(link) => link,
            Turn::Host(host) => self.links.len() as u32 + host,
            Turn::Agenda => (self.links.len() + self.routes.len()) as u32,
        }
    }

    /// Whether there is a route.
    pub(crate) fn has_route(&self, host: HostId, path: PathId, to: IpAddr) -> bool {
        self.routes
            .get(host.index())
            .and_then(|interfaces| interfaces.get(usize::from(path.0)))
            .is_some_and(|table| table.by_destination.iter().any(|entry| entry.0 == to))
    }

    /// A host sends a packet.
    #[inline]
    pub(crate) fn send(&mut self, now: Time, host: u32, path: PathId, segment: &Segment) {
        if segment.payload_len > 0 {
            self.data_packets += 1;
        }
        match self.first_hop(host, path, segment.destination.ip) {
            Some(hop) => {
                let packet = self.pool.insert(segment);
                self.enter(now, Ticket { packet, hop }, segment.wire_len());
            }
            None => {
                self.unroutable += 1;
                if R::PACKETS
                    && let Some(recorder) = &mut self.recorder
                {
                    recorder.on_unroutable(now, HostId(host), segment);
                }
            }
        }
    }

    #[inline]
    fn first_hop(&mut self, host: u32, path: PathId, to: IpAddr) -> Option<u32> {
        let table = self.routes.get_mut(host as usize)?.get_mut(usize::from(path.0))?;
        match table.last {
            Some((destination, hop)) if destination == to => Some(hop),
            _ => {
                let found = table.by_destination.binary_search_by_key(&to, |entry| entry.0).ok()?;
                table.last = Some(table.by_destination[found]);
                Some(table.by_destination[found].1)
            }
        }
    }

    /// Offers a packet to the link that is its present hop.
    #[inline]
    fn enter(&mut self, now: Time, ticket: Ticket, wire_bytes: u32) {
        let index = self.hops[ticket.hop as usize];
        let link = &mut self.links[index as usize];
        if R::PACKETS
            && let Some(recorder) = &mut self.recorder
        {
            recorder.on_link_enter(now, LinkId(index), self.pool.get(ticket.packet), wire_bytes);
        }
        let copies = link.counters().duplicated.packets;
        match link.push(now, ticket, wire_bytes) {
            Pushed::Queued => {
                if self.duplicates[index as usize] && link.counters().duplicated.packets > copies {
                    self.pool.duplicate(ticket.packet);
                }
            }
            Pushed::Dropped(ticket, reason) => {
                if R::PACKETS
                    && let Some(recorder) = &mut self.recorder
                {
                    let segment = self.pool.get(ticket.packet);
                    recorder.on_drop(now, LinkId(index), segment, wire_bytes, reason);
                }
                self.pool.release(ticket.packet);
            }
        }
        self.calendar.set(index, link.next_event());
    }

    /// What comes out of a link by `now`: packets go on to their next links, and the first that has
    /// arrived at a host is returned. Ask until there is none.
    #[inline]
    pub(crate) fn poll_link(&mut self, index: u32, now: Time) -> Option<Delivery> {
        loop {
            let link = &mut self.links[index as usize];
            let Some(polled) = link.poll(now) else {
                self.calendar.set(index, link.next_event());
                return None;
            };
            match polled {
                Polled::Arrived(arrival) => {
                    let Ticket { packet, hop } = arrival.packet;
                    self.packet_hops += 1;
                    if R::PACKETS
                        && let Some(recorder) = &mut self.recorder
                    {
                        let segment = self.pool.get(packet);
                        recorder.on_link_leave(now, LinkId(index), segment, arrival.wire_bytes);
                    }
                    let hop = hop + 1;
                    let next = self.hops[hop as usize];
                    if next & LAST == 0 {
                        self.enter(now, Ticket { packet, hop }, arrival.wire_bytes);
                    } else {
                        let (host, path) = self.destinations[(next ^ LAST) as usize];
                        return Some(Delivery { host, path, packet });
                    }
                }
                Polled::Dropped(dropped) => {
                    if R::PACKETS
                        && let Some(recorder) = &mut self.recorder
                    {
                        let segment = self.pool.get(dropped.packet.packet);
                        let (bytes, reason) = (dropped.wire_bytes, dropped.reason);
                        recorder.on_drop(now, LinkId(index), segment, bytes, reason);
                    }
                    self.pool.release(dropped.packet.packet);
                }
            }
        }
    }

    /// The links.
    pub(crate) fn links_mut(&mut self) -> &mut [Link<Ticket>] {
        &mut self.links
    }
}

#[cfg(test)]
mod tests {
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
                arrived(now, delivery, fabric.pool.get(delivery.packet));
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
        // 11.52 us on the first link, 115.2 us on the second, 10 ms of propagation; the second and the
        // third packet wait for the slower link.
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
                // The fabric takes packets in the order of time.
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
                let client =
                    topology.pairs.iter().position(|pair| pair.client_addresses[0] == segment.source.ip);
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
}
