//! Several endpoints with the addresses of one host: segments find their connection by four-tuple and token.

use std::collections::BTreeMap;

use anabranch_stack::config::{ConnectionConfig, EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, Event};
use anabranch_stack::segment::{Address, Flags, Join, MptcpOption, PathId, Segment};
use anabranch_stack::seq::Seq;
use anabranch_stack::shard::Shard;
use anabranch_units::{Duration, RandomStream, Time};

const COUNT: u16 = 3;
const SEED: u64 = 5;
const PORT: u16 = 80;

fn end(last: u8, port: u16) -> Address {
    Address::new([10, 0, 0, last].into(), port)
}

/// A host that never answers.
const SILENT: Address = Address { ip: core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 9)), port: 0 };

fn endpoint(hosts: &[u8], shard: Shard, max_half_open: usize) -> Endpoint {
    let local =
        |(at, last): (u16, &u8)| LocalAddress { ip: end(*last, 0).ip, path: PathId(at), backup: false };
    let addresses = (0..).zip(hosts).map(local).collect();
    let config = EndpointConfig { shard, max_half_open, ..EndpointConfig::new(addresses) };
    let entropy = RandomStream::new(1, &format!("shards.{}", shard.index()));
    let mut endpoint = Endpoint::new(config, Entropy::Seeded(entropy));
    endpoint.listen(PORT, ConnectionConfig::linux());
    endpoint
}

/// A host of several endpoints, and a peer of one.
struct Net {
    shards: Vec<Endpoint>,
    moved: BTreeMap<(Address, Address), u16>,
    peer: Endpoint,
    now: Time,
    /// The tokens of joins, by the ends of the SYN.
    joins: Vec<(Address, u32)>,
    /// The resets that the peer gets.
    resets: u32,
    /// The connections of the host: the endpoint, and the ID there.
    accepted: Vec<(usize, ConnectionId)>,
    /// The last segments of the peer, by their source.
    last: BTreeMap<Address, Segment>,
}

impl Net {
    fn new(hosts: &[u8], peer: &[u8], max_half_open: usize) -> Net {
        let shard = |index| endpoint(hosts, Shard::new(index, COUNT, SEED), max_half_open);
        Net {
            shards: (0..COUNT).map(shard).collect(),
            moved: BTreeMap::new(),
            peer: endpoint(peer, Shard::WHOLE, 1024),
            now: Time::from_secs(1),
            joins: Vec::new(),
            resets: 0,
            accepted: Vec::new(),
            last: BTreeMap::new(),
        }
    }

    /// Returns the endpoint that handles a segment of the peer.
    fn of(&self, segment: &Segment) -> u16 {
        let ends = (segment.destination, segment.source);
        let home = Shard::new(0, COUNT, SEED).of_ends(ends.0, ends.1);
        let at = self.moved.get(&ends).copied().unwrap_or(home);
        self.shards[usize::from(at)].passes_on(segment).unwrap_or(at)
    }

    fn note_moved(&mut self) {
        for (index, shard) in (0..).zip(&mut self.shards) {
            while let Some(moved) = shard.poll_moved() {
                let ends = (moved.local, moved.remote);
                if moved.here {
                    self.moved.insert(ends, index);
                } else if self.moved.get(&ends) == Some(&index) {
                    self.moved.remove(&ends);
                }
            }
        }
    }

    fn arrive(&mut self, segment: &Segment) {
        for option in segment.options.mptcp.iter().flatten() {
            if let MptcpOption::Join(Join::Syn { token, .. }) = option {
                self.joins.push((segment.source, *token));
            }
        }
        self.last.insert(segment.source, *segment);
        let at = self.of(segment);
        self.shards[usize::from(at)].handle_segment(self.now, PathId(0), segment, &mut Vec::new());
        self.note_moved();
    }

    /// Exchanges segments until there are none. Both sides close with the other one.
    fn settle(&mut self) {
        loop {
            let mut idle = true;
            while let Some(sent) = self.peer.poll_transmit(self.now) {
                idle = false;
                self.arrive(&sent.segment);
            }
            for shard in &mut self.shards {
                while let Some(sent) = shard.poll_transmit(self.now) {
                    idle = false;
                    self.resets += u32::from(sent.segment.flags.has(Flags::RST));
                    if sent.segment.destination.ip == SILENT.ip {
                        continue;
                    }
                    self.peer.handle_segment(self.now, PathId(0), &sent.segment, &mut Vec::new());
                }
            }
            for (at, endpoint) in self.shards.iter_mut().chain([&mut self.peer]).enumerate() {
                while let Some((id, event)) = endpoint.poll_event() {
                    idle = false;
                    if event == Event::Accepted {
                        self.accepted.push((at, id));
                    }
                    if event == Event::PeerClosed {
                        endpoint.close(self.now, id);
                    }
                }
            }
            self.note_moved();
            if idle {
                return;
            }
        }
    }

    fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        self.settle();
        loop {
            let all = self.shards.iter().chain([&self.peer]);
            let Some(next) = all.filter_map(Endpoint::poll_timeout).min().filter(|next| *next <= until)
            else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            for endpoint in self.shards.iter_mut().chain([&mut self.peer]) {
                endpoint.handle_timeout(self.now);
            }
            self.settle();
        }
    }

    /// Opens a connection from the peer, and sends some data, after which it joins.
    fn open(&mut self, port: u16) -> ConnectionId {
        let id = self.peer.connect_from(self.now, end(2, port), end(1, PORT), ConnectionConfig::linux());
        let id = id.unwrap();
        self.settle();
        assert_eq!(self.peer.write(self.now, id, 100), 100);
        self.settle();
        id
    }

    fn established(&self, id: ConnectionId) -> usize {
        self.peer.subflow_stats(id).iter().filter(|subflow| subflow.established.is_some()).count()
    }

    fn assert_empty(&self) {
        for endpoint in self.shards.iter().chain([&self.peer]) {
            assert_eq!(endpoint.connection_count(), 0);
        }
        assert_eq!(self.moved.len(), 0);
    }
}

/// Opens connections from the same ports in several rounds, each with a join.
fn rounds(max_half_open: usize, rounds: u32, connections: u16) {
    let mut net = Net::new(&[1], &[2, 3], max_half_open);
    for _ in 0..rounds {
        // A peer that has restarted: the ports of its joins are the same again.
        net.peer = endpoint(&[2, 3], Shard::WHOLE, 1024);
        let ids: Vec<ConnectionId> = (0..connections).map(|at| net.open(20_000 + at)).collect();
        net.run_for(Duration::from_millis(500));
        for id in &ids {
            assert!(net.peer.stats(*id).unwrap().mptcp);
            assert_eq!(net.established(*id), 2, "each connection is joined");
            assert_eq!(net.peer.freed(*id), 100);
        }
        let counts: Vec<usize> = net.shards.iter().map(Endpoint::connection_count).collect();
        let fair = usize::from(connections / COUNT);
        assert_eq!(counts.iter().sum::<usize>(), usize::from(connections));
        assert!(counts.iter().all(|count| count * 3 > fair * 2), "{counts:?}");
        // Two of three joins have a four-tuple of another shard.
        assert!((fair..usize::from(connections)).contains(&net.moved.len()), "{}", net.moved.len());
        for id in ids {
            net.peer.close(net.now, id);
        }
        net.run_for(Duration::from_secs(200));
        net.assert_empty();
    }
    assert_eq!(net.resets, 0);
    assert_eq!(net.shards.iter().map(|shard| shard.counters().joins_refused).sum::<u64>(), 0);
}

#[test]
fn every_join_reaches_its_connection_also_when_ports_are_reused() {
    rounds(1024, 4, 400);
}

// RFC 9293 section 3.6.1: in TIME-WAIT too the endpoint of the connection has them, and not the one of the four-tuple, which knows nothing of it.
#[test]
fn joins_in_time_wait_are_still_at_the_endpoint_of_their_connection() {
    let mut net = Net::new(&[1], &[2, 3], 1024);
    for at in 0..100 {
        net.open(20_000 + at);
    }
    net.run_for(Duration::from_millis(500));
    let moved = net.moved.clone();
    assert!(moved.len() > 30, "{}", moved.len());
    for (at, id) in core::mem::take(&mut net.accepted) {
        net.shards[at].close(net.now, id);
    }
    net.run_for(Duration::from_secs(5));
    let waits = |net: &Net| net.shards.iter().map(Endpoint::time_waits).sum::<usize>();
    assert_eq!(net.shards.iter().map(Endpoint::connection_count).sum::<usize>(), 0);
    assert_eq!((waits(&net), &net.moved), (200, &moved));
    // The peer repeats its FIN, and later resets every third subflow. A SYN with an unknown token is answered, and opens nothing.
    for (count, (_, remote)) in moved.keys().enumerate() {
        let mut late = net.last[remote];
        assert!(late.flags.has(Flags::FIN) || late.flags == Flags::ACK);
        late.seq = Seq(late.seq.0.wrapping_sub(1));
        late.flags = Flags::FIN.with(Flags::ACK);
        net.arrive(&late);
        if count % 3 == 0 {
            late.flags = Flags::RST;
            late.seq = late.seq.add(if net.last[remote].flags.has(Flags::FIN) { 2 } else { 1 });
            net.arrive(&late);
        } else {
            let mut syn = Segment::new(late.source, late.destination, late.seq.add(1000), Flags::SYN);
            let token = net.joins.iter().find(|(source, _)| source == remote).unwrap().1;
            let join = Join::Syn { backup: false, address_id: 1, token, nonce: 1 };
            syn.options.push(MptcpOption::Join(join));
            net.arrive(&syn);
        }
    }
    let gone = moved.len().div_ceil(3);
    let mut answers = 0;
    for shard in &mut net.shards {
        while let Some(sent) = shard.poll_transmit(net.now) {
            assert_eq!(sent.segment.flags, Flags::ACK);
            answers += 1;
        }
    }
    assert_eq!(answers, moved.len() + moved.len() - gone);
    assert_eq!(net.shards.iter().map(Endpoint::connection_count).sum::<usize>(), 0);
    assert_eq!((waits(&net), net.moved.len()), (200 - gone, moved.len() - gone));
    net.now += Duration::from_secs(70);
    for shard in &mut net.shards {
        shard.handle_timeout(net.now);
    }
    net.note_moved();
    net.assert_empty();
}

#[test]
fn connections_from_cookies_are_joined_too() {
    rounds(0, 2, 60);
}

#[test]
fn own_connections_and_joins_take_ports_of_their_shard() {
    let mut net = Net::new(&[1, 4], &[2], 1024);
    let mut ids = Vec::new();
    for at in 0..300_u16 {
        let index = at % COUNT;
        let shard = &mut net.shards[usize::from(index)];
        let id = shard.connect(net.now, end(1, 0).ip, end(2, PORT), ConnectionConfig::linux()).unwrap();
        shard.write(net.now, id, 100);
        ids.push((index, id));
    }
    net.run_for(Duration::from_millis(500));
    for (index, id) in ids {
        let subflows = net.shards[usize::from(index)].subflow_stats(id);
        assert_eq!(subflows.iter().filter(|subflow| subflow.established.is_some()).count(), 2);
        for subflow in subflows {
            assert_eq!(Shard::new(0, COUNT, SEED).of_ends(subflow.local, subflow.remote), index);
        }
    }
    assert_eq!(net.moved.len(), 0, "nothing is to be remembered");
}

#[test]
fn own_connections_take_no_port_to_which_a_join_of_another_endpoint_may_come() {
    let mut shard = endpoint(&[1], Shard::new(1, COUNT, SEED), 1024);
    let listened = |port: u16| !port.is_multiple_of(8);
    (49_152..=u16::MAX).filter(|port| listened(*port)).for_each(|port| {
        shard.listen(port, ConnectionConfig::linux());
    });
    for at in 0..50 {
        let to = end(2, 1000 + at);
        let id = shard.connect(Time::ZERO, end(1, 0).ip, to, ConnectionConfig::linux()).unwrap();
        assert!(!listened(shard.subflow_stats(id)[0].local.port));
    }
}

/// Returns the SYN that joins the connection of `token` from `source`.
fn join(source: Address, token: u32) -> Segment {
    let mut syn = Segment::new(source, end(1, PORT), Seq(7), Flags::SYN);
    let address_id = 9 + source.port as u8 % 100;
    syn.options.push(MptcpOption::Join(Join::Syn { backup: false, address_id, token, nonce: 1 }));
    syn
}

#[test]
fn a_join_takes_no_four_tuple_of_another_connection() {
    let mut net = Net::new(&[1], &[2, 3], 1024);
    let ids: Vec<(u16, ConnectionId)> = (0..30).map(|at| (20_000 + at, net.open(20_000 + at))).collect();
    let tokens: Vec<u32> = net.joins.iter().map(|(_, token)| *token).collect();
    assert_eq!(tokens.len(), 30);
    let moved = net.moved.clone();
    for (port, id) in ids {
        // A stranger has connections at every shard, so it knows tokens of all.
        for token in &tokens {
            net.arrive(&join(end(2, port), *token));
        }
        net.settle();
        assert_eq!(net.moved, moved);
        assert_eq!(net.peer.write(net.now, id, 100), 100);
        net.run_for(Duration::from_millis(100));
        assert_eq!(net.peer.freed(id), 200, "the connection goes on");
    }
}

#[test]
fn joins_with_unknown_tokens_are_reset_and_leave_nothing() {
    let mut net = Net::new(&[1], &[2], 1024);
    let mut random = RandomStream::new(3, "tokens");
    for at in 0..3000 {
        net.arrive(&join(end(9, at), random.next_u64() as u32));
        net.settle();
    }
    assert_eq!(net.resets, 3000);
    assert_eq!(net.shards.iter().map(|shard| shard.counters().joins_refused).sum::<u64>(), 3000);
    net.assert_empty();
}

#[test]
fn a_join_that_is_not_completed_is_forgotten() {
    let mut net = Net::new(&[1], &[2, 3], 1024);
    let id = net.open(20_000);
    let token = net.joins[0].1;
    let before = net.moved.len();
    // The connection admits some of these.
    for at in 0..8 {
        net.arrive(&join(end(9, at), token));
    }
    net.settle();
    assert!(net.moved.len() > before, "those of another shard are remembered");
    net.run_for(Duration::from_secs(600));
    assert_eq!(net.moved.len(), before);
    net.peer.close(net.now, id);
    net.run_for(Duration::from_secs(200));
    net.assert_empty();
}
