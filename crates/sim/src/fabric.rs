//! The running network: packets, links, routes, and the calendar of events.

use core::net::IpAddr;
use std::collections::BTreeMap;

use anabranch_link::{Change, Counters, DropReason, Effect, Label, Link, LinkConfigError, Polled, Pushed};
use anabranch_stack::segment::{Address, PathId, Segment};
use anabranch_stack::seq::Seq;
use anabranch_units::{Duration, RandomStream, Time};

use crate::calendar::Calendar;
use crate::hash::{flow_hash, mix};
use crate::middleboxes::{Middleboxes, Way};
use crate::network::{HostId, LinkId, Network};
use crate::pool::{Pool, Ticket};
use crate::recorder::{HostEvent, LinkEvent, Queue, Recorder, What, report};

/// Marks a hop that is not a link but the end of the route.
const LAST: u32 = 1 << 31;

/// Marks a first hop that is one of several: the other bits are an index in [`Fabric::choices`].
const CHOICE: u32 = 1 << 31;

/// Marks the hop of a [`Ticket`] with a damaged packet: the receiver rejects the packet.
const DAMAGED: u32 = 1 << 31;

/// Marks the hop of a packet that carries data.
const DATA: u32 = 1 << 30;

/// The bits of a hop that are no index.
const MARKS: u32 = DAMAGED | DATA;

impl Ticket {
    /// Returns the label of its packet for links that read no more than whether it carries data.
    #[inline]
    fn label(self) -> Label {
        Label { data: self.hop & DATA != 0, ..Label::default() }
    }
}

/// In a deep queue, the packet that arrives after this number of others is prefetched.
const AHEAD: usize = 8;

/// A packet that has arrived at a host. The host returns it with [`Pool::release`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) host: u32,
    pub(crate) path: PathId,
    pub(crate) packet: u32,
}

/// The subject of the next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Link(u32),
    Host(u32),
    Agenda,
}

/// The routes of one interface.
#[derive(Clone, Debug, Default)]
struct Routes {
    /// Destinations with the index of the first hop, or of a choice of first hops, sorted.
    by_destination: Vec<(IpAddr, u32)>,
    /// The two routes used last: replies on two paths alternate between them.
    recent: [Option<(IpAddr, u32)>; 2],
    /// None is remembered.
    forgets: bool,
}

impl Routes {
    #[inline(never)]
    fn look_up(&mut self, to: IpAddr) -> Option<u32> {
        let found = self.by_destination.binary_search_by_key(&to, |entry| entry.0).ok()?;
        if !self.forgets {
            self.recent = [Some(self.by_destination[found]), self.recent[0]];
        }
        Some(self.by_destination[found].1)
    }
}

/// A router's report that a packet exceeds an MTU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MtuReport {
    /// The host that receives the report.
    pub(crate) host: u32,
    /// The source of the packet.
    pub(crate) local: Address,
    /// The destination of the packet.
    pub(crate) remote: Address,
    /// Its sequence number.
    pub(crate) seq: Seq,
    /// The MTU that the router reports, in bytes.
    pub(crate) mtu: u32,
}

/// A packet that the network sends to a host by itself.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A router reports that a packet exceeds an MTU.
    TooBig(MtuReport),
    /// A middlebox resets a connection.
    Reset {
        /// The host that receives the reset.
        host: u32,
        /// Its interface.
        path: PathId,
        /// The RST that the NAT sends.
        segment: Box<Segment>,
    },
}

/// The packet that leaves a link first, for prefetching.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    packet: u32,
    /// The next link on its route, or the number of its destination, marked [`LAST`].
    next: u32,
}

impl Ahead {
    const UNKNOWN: Ahead = Ahead { packet: 0, next: u32::MAX };
}

/// From this number of links on, their state has left the fast caches by the time it is needed.
const MANY: usize = 512;

/// The links and the packets in them.
#[derive(Clone, Debug)]
pub(crate) struct Fabric<R> {
    links: Vec<Link<Ticket>>,
    /// By link. Empty if there are few links: their state is not prefetched.
    ahead: Vec<Ahead>,
    /// The links with a prefetch of their state in progress, the link of the last call first.
    fetching: [Option<u32>; 2],
    /// The index in `destinations` of each address.
    located: BTreeMap<IpAddr, u32>,
    /// Answers of routers and middleboxes, each with its delay, for the simulation to collect.
    pub(crate) answers: Vec<(Duration, Answer)>,
    middleboxes: Middleboxes,
    /// All routes in sequence: the numbers of their links, followed by the number of the destination, marked
    /// [`LAST`].
    hops: Vec<u32>,
    /// The first hops of routes of equal cost.
    choices: Vec<Vec<u32>>,
    /// The key of the hash that chooses among them.
    choice_key: u64,
    /// The number of scattered packets, which distinguishes them in the hash.
    scattered: u64,
    destinations: Vec<(u32, PathId)>,
    /// The first hop of each route, in order, with the host and the interface from which it leads; empty without proxies, since
    /// the source address of a packet is then the address of its sender.
    origins: Vec<(u32, u32, PathId)>,
    /// By host, then by interface.
    routes: Vec<Vec<Routes>>,
    pub(crate) pool: Pool,
    calendar: Calendar,
    pub(crate) recorder: Option<Box<R>>,
    pub(crate) packet_hops: u64,
    pub(crate) data_packets: u64,
    pub(crate) unroutable: u64,
}

impl<R: Recorder> Fabric<R> {
    /// Returns the fabric of a validated network.
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
        let mut proxies = BTreeMap::new();
        for (host, spec) in network.hosts().iter().enumerate() {
            for (path, interface) in spec.interfaces.iter().enumerate() {
                let place = destinations.len() as u32;
                match spec.is_proxy {
                    false => drop(located.insert(interface.ip, place)),
                    true => drop(proxies.insert((host as u32, PathId(path as u16)), place)),
                }
                destinations.push((host as u32, PathId(path as u16)));
            }
        }
        let mut routes: Vec<Vec<Routes>> =
            network.hosts().iter().map(|host| vec![Routes::default(); host.interfaces.len()]).collect();
        let mut hops = Vec::new();
        let mut choices: Vec<Vec<u32>> = Vec::new();
        let mut origins = Vec::new();
        for route in network.routes() {
            let table = &mut routes[route.from.index()][usize::from(route.path.0)];
            match table.by_destination.last_mut() {
                // Routes of equal cost follow one another.
                Some((to, hop)) if *to == route.to => {
                    if *hop & CHOICE == 0 {
                        choices.push(vec![*hop]);
                        *hop = CHOICE | (choices.len() as u32 - 1);
                    }
                    choices[(*hop ^ CHOICE) as usize].push(hops.len() as u32);
                }
                _ => table.by_destination.push((route.to, hops.len() as u32)),
            }
            if !proxies.is_empty() {
                origins.push((hops.len() as u32, route.from.0, route.path));
            }
            hops.extend(route.links.iter().map(|link| link.0));
            let end = route.proxy.and_then(|(host, path)| proxies.get(&(host.0, path)));
            hops.push(LAST | end.copied().unwrap_or_else(|| located[&route.to]));
        }
        for table in routes.iter_mut().flatten() {
            table.by_destination.sort_unstable();
        }
        Ok(Fabric {
            calendar: Calendar::new(links.len() + routes.len() + 1),
            located,
            answers: Vec::new(),
            middleboxes: Middleboxes::new(network),
            ahead: vec![Ahead::UNKNOWN; if links.len() < MANY { 0 } else { links.len() }],
            fetching: [None; 2],
            links,
            hops,
            choices,
            choice_key: RandomStream::new(seed, "network.equal-cost").next_u64(),
            scattered: 0,
            destinations,
            origins,
            routes,
            pool: Pool::default(),
            recorder: Some(Box::new(recorder)),
            packet_hops: 0,
            data_packets: 0,
            unroutable: 0,
        })
    }

    /// Switches the fast paths of links and routes off, or on again; the state of links is then prefetched, however few
    /// they are.
    pub(crate) fn set_fast_paths(&mut self, on: bool) {
        self.ahead = vec![Ahead::UNKNOWN; if on { self.links.len() } else { 0 }];
        self.fetching = [None; 2];
        self.links.iter_mut().for_each(|link| link.set_fast_paths(on));
        for table in self.routes.iter_mut().flatten() {
            (table.forgets, table.recent) = (!on, [None; 2]);
        }
    }

    /// Returns the time and the subject of the next turn.
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

    /// True if there are so many links that [`Fabric::look_ahead`] is worth its cost.
    #[inline]
    pub(crate) fn looks_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// After a turn of the link `index`, prefetches the state for a turn that is soon: the turn of the first
    /// link in the same part of the calendar. There are three steps, one with each call, because each step
    /// needs the addresses that the one before has fetched: (1) the link, and its packet or the next link;
    /// (2) the slots of both links; (3) the state of the packet's host, for which the packet is returned.
    pub(crate) fn look_ahead(&mut self, index: u32) -> Option<Delivery> {
        self.note_ahead(index);
        let first = self.calendar.first_of_part(index);
        let first = first.filter(|&index| (index as usize) < self.ahead.len());
        let [second, third] = self.fetching;
        self.fetching = [first, second];
        let arriving = third.and_then(|index| {
            let Ahead { packet, next } = self.ahead[index as usize];
            let at = next.checked_sub(LAST)?;
            let &(host, path) = self.destinations.get(at as usize)?;
            Some(Delivery { host, path, packet })
        });
        if let Some(index) = second {
            self.links[index as usize].fetch_first();
            if let Some(next) = self.links.get(self.ahead[index as usize].next as usize) {
                next.fetch_last();
            }
        }
        if let Some(index) = first {
            let Ahead { packet, next } = self.ahead[index as usize];
            self.links[index as usize].fetch(true);
            match self.links.get(next as usize) {
                Some(next) => next.fetch(false),
                None => self.pool.fetch(packet),
            }
        }
        arriving
    }

    /// Records the packet that leaves a link first.
    #[inline]
    fn note_ahead(&mut self, index: u32) {
        if let Some(ahead) = self.ahead.get_mut(index as usize)
            && let Some(Ticket { packet, hop }) = self.links[index as usize].peek().copied()
        {
            let next = self.hops[(hop & !MARKS) as usize + 1];
            *ahead = Ahead { packet, next };
        }
    }

    /// Sets the time of a turn of a host or the agenda.
    #[inline]
    pub(crate) fn set_turn(&mut self, turn: Turn, time: Time) {
        self.calendar.set(self.item(turn), time);
    }

    /// Returns the time set for that turn; never if none is set.
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

    /// True if there is a route.
    pub(crate) fn has_route(&self, host: HostId, path: PathId, to: IpAddr) -> bool {
        self.routes
            .get(host.index())
            .and_then(|interfaces| interfaces.get(usize::from(path.0)))
            .is_some_and(|table| table.by_destination.binary_search_by_key(&to, |entry| entry.0).is_ok())
    }

    /// Sends a packet of a host.
    #[inline]
    pub(crate) fn send(&mut self, now: Time, host: u32, path: PathId, segment: &Segment) {
        self.send_any(now, host, path, segment, None, 0);
    }

    /// Sends a packet of a host over any of the routes of equal cost, as routers do if each packet has another source
    /// port.
    #[cold]
    pub(crate) fn scatter(&mut self, now: Time, host: u32, path: PathId, segment: &Segment) {
        self.scattered += 1;
        self.send_any(now, host, path, segment, None, self.scattered);
    }

    /// Sends a packet of `wire_bytes`, whatever the length of the segment.
    pub(crate) fn send_sized(
        &mut self,
        now: Time,
        host: u32,
        path: PathId,
        segment: &Segment,
        wire_bytes: u32,
    ) {
        self.send_any(now, host, path, segment, Some(wire_bytes), 0);
    }

    #[inline(always)]
    fn send_any(
        &mut self,
        now: Time,
        host: u32,
        path: PathId,
        segment: &Segment,
        wire: Option<u32>,
        salt: u64,
    ) {
        if segment.payload_len > 0 {
            self.data_packets += 1;
        }
        match self.first_hop(host, path, segment.destination.ip) {
            Some(hop) => {
                let hop = if hop & CHOICE == 0 { hop } else { self.choose(hop, segment, salt) };
                let hop = if segment.payload_len > 0 { hop | DATA } else { hop };
                let (packet, wire_bytes) = self.pool.insert(segment);
                self.enter(now, Ticket { packet, hop }, wire.unwrap_or(wire_bytes));
            }
            None => {
                self.unroutable += 1;
                if R::WANTS.packets
                    && let Some(recorder) = &mut self.recorder
                {
                    let event = HostEvent::Unroutable { segment };
                    report(&mut **recorder, now, What::Host { host: HostId(host), event });
                }
            }
        }
    }

    #[inline]
    fn first_hop(&mut self, host: u32, path: PathId, to: IpAddr) -> Option<u32> {
        let table = self.routes.get_mut(host as usize)?.get_mut(usize::from(path.0))?;
        match table.recent {
            [Some((destination, hop)), _] | [_, Some((destination, hop))] if destination == to => Some(hop),
            _ => table.look_up(to),
        }
    }

    /// Returns the first hop of a packet's route, chosen from the hops of equal cost by a hash of its flow.
    #[cold]
    fn choose(&self, choice: u32, segment: &Segment, salt: u64) -> u32 {
        let hops = &self.choices[(choice ^ CHOICE) as usize];
        let hash = flow_hash(self.choice_key ^ mix(salt), segment);
        hops[((u128::from(hash) * hops.len() as u128) >> 64) as usize]
    }

    /// Offers a packet to the link of its present hop.
    // Out of line: one copy for all callers, because the instruction cache is small.
    #[inline(never)]
    fn enter(&mut self, now: Time, ticket: Ticket, wire_bytes: u32) {
        let index = self.hops[(ticket.hop & !MARKS) as usize];
        let link = &mut self.links[index as usize];
        if R::WANTS.of_links() || !link.is_easy() || self.middleboxes.exist() {
            self.enter_any(now, ticket, wire_bytes);
            return;
        }
        let turn = link.next_event();
        let pushed = link.push_as(now, ticket, wire_bytes, ticket.label());
        let next = link.next_event();
        match pushed {
            Pushed::Queued if next == turn => {}
            Pushed::Queued => {
                self.note_ahead(index);
                self.calendar.set(index, next);
            }
            Pushed::Dropped(ticket, _) => self.pool.release(ticket.packet),
        }
    }

    /// Does the same as [`Fabric::enter`], for every link and recorder.
    #[inline(never)]
    fn enter_any(&mut self, now: Time, ticket: Ticket, mut wire_bytes: u32) {
        let index = self.hops[(ticket.hop & !MARKS) as usize];
        self.trace_packet(now, index, ticket.packet, |segment, queue| LinkEvent::Enter {
            segment,
            packet: ticket.packet,
            wire_bytes,
            queue,
        });
        if self.middleboxes.exist() {
            match self.pass_middlebox(now, index, Way::Entrance, ticket, wire_bytes) {
                Some(len) => wire_bytes = len,
                None => return,
            }
        }
        let link = &mut self.links[index as usize];
        let copies = link.counters().duplicated.packets;
        let label = match link.reads_more_than_data() {
            true => self.pool.label(ticket.packet),
            false => ticket.label(),
        };
        let turn = link.next_event();
        match link.push_as(now, ticket, wire_bytes, label) {
            Pushed::Queued => {
                if link.counters().duplicated.packets > copies {
                    self.pool.duplicate(ticket.packet);
                }
                self.trace_queue(now, index, false);
            }
            Pushed::Dropped(ticket, reason) => {
                self.trace_drop(now, index, ticket.packet, wire_bytes, reason);
                if reason == DropReason::TooLarge {
                    self.report(index, ticket);
                }
                self.pool.release(ticket.packet);
            }
        }
        let next = self.links[index as usize].next_event();
        if next != turn {
            self.calendar.set(index, next);
        }
    }

    /// Records the report of the router at link `index`, which has dropped a packet that exceeds the MTU. The
    /// report takes the propagation delays from there back to the sender, counted both ways.
    #[cold]
    fn report(&mut self, index: u32, ticket: Ticket) {
        let Some(mtu) = self.links[index as usize].reported_mtu() else { return };
        let segment = self.pool.get(ticket.packet);
        let Some((host, _)) = self.origin(ticket.hop, segment.source.ip) else { return };
        let way =
            self.hops[..=(ticket.hop & !MARKS) as usize].iter().rev().take_while(|&&hop| hop & LAST == 0);
        let delay = way.fold(Duration::ZERO, |sum, &link| sum + self.links[link as usize].delay() * 2);
        let (local, remote, seq) = (segment.source, segment.destination, segment.seq);
        let mtu = mtu.saturating_sub(self.middleboxes.overhead(index));
        self.answers.push((delay, Answer::TooBig(MtuReport { host, local, remote, seq, mtu })));
    }

    /// Returns the host and the interface that have sent a packet with the source address `ip`, which is at `hop` of its route.
    fn origin(&self, hop: u32, ip: IpAddr) -> Option<(u32, PathId)> {
        let route = self.origins.partition_point(|origin| origin.0 <= (hop & !MARKS)).checked_sub(1);
        match route.and_then(|route| self.origins.get(route)) {
            Some(&(_, host, path)) => Some((host, path)),
            None => Some(self.destinations[*self.located.get(&ip)? as usize]),
        }
    }

    /// Lets a packet pass the middlebox at an end of the link `index`, if there is one. Returns its length on the link, or
    /// beyond it; none if the middlebox has dropped it.
    #[cold]
    fn pass_middlebox(
        &mut self,
        now: Time,
        index: u32,
        way: Way,
        ticket: Ticket,
        wire_bytes: u32,
    ) -> Option<u32> {
        let mut segment = self.pool.get(ticket.packet);
        let before = segment;
        let passed = self.middleboxes.pass(now, index, way, &mut segment);
        if segment != before {
            self.pool.replace(ticket.packet, &segment);
        }
        let overhead = self.middleboxes.overhead(index);
        match passed {
            Ok(()) if way == Way::Entrance => return Some(wire_bytes + overhead),
            Ok(()) => return Some(wire_bytes.saturating_sub(overhead)),
            Err(reset) => {
                if let (Some(segment), Some((host, path))) =
                    (reset, self.origin(ticket.hop, before.source.ip))
                {
                    // It comes from the other end, or seems to: the way there and back, without queues.
                    let hops = self.hops[(ticket.hop & !MARKS) as usize..].iter();
                    let way = hops.take_while(|&&hop| hop & LAST == 0);
                    let delay =
                        way.fold(Duration::ZERO, |sum, &link| sum + self.links[link as usize].delay() * 2);
                    self.answers.push((delay, Answer::Reset { host, path, segment }));
                }
            }
        }
        self.trace_drop(now, index, ticket.packet, wire_bytes, DropReason::Middlebox);
        self.pool.release(ticket.packet);
        None
    }

    pub(crate) fn middleboxes(&self) -> &Middleboxes {
        &self.middleboxes
    }

    /// Processes the packets that leave a link by `now`: forwards them to their next links, and returns the
    /// first that has arrived at a host. Call it until it returns none.
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
                    let Ticket { packet, mut hop } = arrival.packet;
                    self.packet_hops += 1;
                    if !arrival.effects.is_none() {
                        if arrival.effects.has(Effect::Marked) {
                            self.pool.mark(packet);
                        }
                        if arrival.effects.has(Effect::Corrupted) {
                            hop |= DAMAGED;
                        }
                    }
                    let (mut wire_bytes, departed) = (arrival.wire_bytes, arrival.departed);
                    if self.middleboxes.exist() {
                        let ticket = Ticket { packet, hop };
                        match self.pass_middlebox(now, index, Way::Exit, ticket, wire_bytes) {
                            Some(len) => wire_bytes = len,
                            None => continue,
                        }
                    }
                    self.trace_packet(now, index, packet, |segment, queue| LinkEvent::Leave {
                        segment,
                        packet,
                        departed,
                        wire_bytes,
                        queue,
                    });
                    self.trace_queue(now, index, false);
                    let hop = hop + 1;
                    let next = self.hops[(hop & !MARKS) as usize];
                    if next & LAST == 0 {
                        self.enter(now, Ticket { packet, hop }, wire_bytes);
                    } else if hop & DAMAGED != 0 {
                        self.reject(now, index, packet, wire_bytes);
                    } else {
                        if let Some(soon) = self.links[index as usize].peek_deep(AHEAD) {
                            self.pool.fetch(soon.packet);
                        }
                        let (host, path) = self.destinations[(next ^ LAST) as usize];
                        return Some(Delivery { host, path, packet });
                    }
                }
                Polled::Dropped(dropped) => {
                    let (packet, bytes) = (dropped.packet.packet, dropped.wire_bytes);
                    self.trace_drop(now, index, packet, bytes, dropped.reason);
                    self.pool.release(dropped.packet.packet);
                }
            }
        }
    }

    /// The receiver's checksum finds that a packet, which came over link `index`, is damaged.
    #[cold]
    fn reject(&mut self, now: Time, index: u32, packet: u32, wire_bytes: u32) {
        self.trace_drop(now, index, packet, wire_bytes, DropReason::Effect(Effect::Corrupted));
        self.pool.release(packet);
    }

    /// Returns the queue of a link.
    fn queue(&mut self, now: Time, index: u32) -> Queue {
        let link = &mut self.links[index as usize];
        Queue { bytes: link.queue_bytes(now), packets: link.queue_packets(now) }
    }

    /// Reports an event of a packet on a link to the recorder, if it uses packets.
    #[inline]
    fn trace_packet(
        &mut self,
        now: Time,
        index: u32,
        packet: u32,
        event: impl for<'a> FnOnce(&'a Segment, Queue) -> LinkEvent<'a>,
    ) {
        if R::WANTS.packets && self.recorder.is_some() {
            let (segment, queue) = (self.pool.get(packet), self.queue(now, index));
            self.trace(now, index, event(&segment, queue));
        }
    }

    /// Reports the queue of a link to the recorder, if it uses queues.
    #[inline]
    fn trace_queue(&mut self, now: Time, index: u32, dropped: bool) {
        if R::WANTS.queues && self.recorder.is_some() {
            let queue = self.queue(now, index);
            self.trace(now, index, LinkEvent::Queue { queue, dropped });
        }
    }

    fn trace(&mut self, now: Time, index: u32, event: LinkEvent<'_>) {
        if let Some(recorder) = &mut self.recorder {
            report(&mut **recorder, now, What::Link { link: LinkId(index), event });
        }
    }

    /// Reports a dropped packet to the recorder, if it uses packets or queues.
    #[inline]
    fn trace_drop(&mut self, now: Time, index: u32, packet: u32, wire_bytes: u32, reason: DropReason) {
        self.trace_packet(now, index, packet, |segment, queue| LinkEvent::Drop {
            segment,
            packet,
            wire_bytes,
            reason,
            queue,
        });
        self.trace_queue(now, index, true);
    }

    pub(crate) fn change_link(
        &mut self,
        now: Time,
        link: LinkId,
        change: &Change,
    ) -> Result<(), LinkConfigError> {
        let changed = &mut self.links[link.index()];
        changed.apply(now, change)?;
        self.calendar.set(link.0, changed.next_event());
        Ok(())
    }

    /// Returns the counters of a link.
    pub(crate) fn counters(&self, link: LinkId) -> Counters {
        self.links[link.index()].counters()
    }

    pub(crate) fn links_mut(&mut self) -> &mut [Link<Ticket>] {
        &mut self.links
    }
}

#[cfg(test)]
mod tests;
