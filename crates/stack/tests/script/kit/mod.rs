//! Scripts: one endpoint, and a peer whose segments are written by hand.
//!
//! Every number in a script is relative: sequence numbers to the initial one of their sender (the SYN is 0,
//! the first byte 1), data sequence numbers to the first byte of the stream (which is 0), times to the last
//! step. A segment that was sent and not expected fails the next step.
#![allow(dead_code)]

mod bytes;
mod check;
mod seg;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;

use anabranch_stack::config::{
    ConnectionConfig, EndpointConfig, Entropy, LocalAddress, ReceiveBuffer, SimConfig,
};
use anabranch_stack::crypto;
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, Event, Placement, SubflowId};
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_stack::segment::{
    AddAddress, Address, AddressIds, Capable, DataAck, Dss, Ecn, Flags, Join, Key, MappedDsn, Mapping,
    MptcpOption, PathId, ResetReason, Segment, SynOptions, Timestamps,
};
use anabranch_stack::seq::{DataRange, Dsn, Seq};
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_stack::timestamp::TimestampTick;
use anabranch_units::{Bytes, Duration, Time};

pub use bytes::*;
use seg::describe;
pub use seg::{Seg, ack, data, mapped, seg};

/// The peer's nonce in joins.
pub const PEER_NONCE: u32 = 0xaabb_ccdd;
/// Full payload of a data segment in the scripts.
pub const MSS: u32 = 1000;
/// The listener's port.
pub const PORT: u16 = 80;
/// The peer's initial sequence number on every subflow: near the wrap.
pub const PEER_ISN: u32 = 0xffff_ff00;
/// The keys of the reference vectors.
pub const KEY_A: Key = Key(0x0001_0203_0405_0607);
/// The other key.
pub const KEY_B: Key = Key(0x0809_0a0b_0c0d_0e0f);

pub const S: Flags = Flags::SYN;
pub const SA: Flags = Flags::SYN.with(Flags::ACK);
pub const A: Flags = Flags::ACK;
pub const R: Flags = Flags::RST;
pub const RA: Flags = Flags::RST.with(Flags::ACK);
pub const FA: Flags = Flags::FIN.with(Flags::ACK);

/// Returns an address of the endpoint under test.
pub fn own_ip(index: u8) -> IpAddr {
    IpAddr::from([10, 0, index, 1])
}

/// Returns an address of the peer.
pub fn peer_ip(index: u8) -> IpAddr {
    IpAddr::from([10, 9, index, 1])
}

thread_local! {
    static RANDOM: RefCell<(VecDeque<u64>, u64)> = const { RefCell::new((VecDeque::new(), 1)) };
    static TICK: Cell<TimestampTick> = const { Cell::new(TimestampTick::Microsecond) };
    static HALF_OPEN: Cell<usize> = const { Cell::new(1024) };
}

fn fill(bytes: &mut [u8]) {
    RANDOM.with_borrow_mut(|(chosen, next)| {
        let value = chosen.pop_front().unwrap_or_else(|| {
            *next = next.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            *next
        });
        for (byte, of) in bytes.iter_mut().zip(value.to_le_bytes()) {
            *byte = of;
        }
    });
}

/// Sets the next values that the endpoint draws; pseudo-random ones follow.
pub fn choose_random(values: &[u64]) {
    RANDOM.with_borrow_mut(|(chosen, _)| *chosen = values.iter().copied().collect());
}

/// Sets the timestamp tick of both sides in the scripts of this test from now on.
pub fn choose_tick(tick: TimestampTick) {
    TICK.set(tick);
}

/// Sets the maximum number of half-open connections in the scripts of this test from now on; with 0 every SYN
/// is answered with a cookie.
pub fn choose_half_open(max: usize) {
    HALF_OPEN.set(max);
}

/// The options of an ordinary SYN.
pub const SYN_OPTIONS: SynOptions = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true };

pub fn capable(sender: Option<Key>, receiver: Option<Key>, data_len: Option<u16>) -> MptcpOption {
    MptcpOption::Capable(Capable {
        version: 1,
        flags: Capable::HMAC_SHA256,
        sender_key: sender,
        receiver_key: receiver,
        data_len,
        checksum: None,
    })
}

/// MP_TCPRST.
pub const fn reset(transient: bool, reason: ResetReason) -> MptcpOption {
    MptcpOption::Reset { transient, reason }
}

/// Returns the option with other flags and version.
pub fn capable_with(option: MptcpOption, version: u8, flags: u8) -> MptcpOption {
    match option {
        MptcpOption::Capable(capable) => MptcpOption::Capable(Capable { version, flags, ..capable }),
        other => other,
    }
}

/// Both ends of a subflow and their initial sequence numbers.
#[derive(Clone, Copy, Debug)]
pub struct Sub {
    pub own: Address,
    pub peer: Address,
    pub own_isn: Option<Seq>,
    pub peer_isn: Seq,
    pub own_scale: u8,
    pub peer_scale: u8,
    pub last_value: u32,
    /// The endpoint's nonce in a join.
    pub nonce: u32,
    pub timestamps: bool,
}

/// One endpoint and its script.
pub struct Script {
    pub endpoint: Endpoint,
    pub now: Time,
    pub id: Option<ConnectionId>,
    pub own_key: Option<Key>,
    pub peer_key: Key,
    pub subs: Vec<Sub>,
    pub events: Vec<Event>,
    pub delivered: Vec<DataRange>,
    pub discarded: u64,
    /// The placement of the last segment's payload.
    pub placed: Vec<Placement>,
    /// Data held by the driver: subflow and range in the subflow.
    pub held: Vec<(SubflowId, DataRange)>,
    /// Released data in order: range in the subflow, range in the stream.
    pub released: Vec<(DataRange, DataRange)>,
    /// Segments sent and not yet expected.
    waiting: VecDeque<(Time, usize, Segment)>,
    log: Vec<String>,
    config: SimConfig,
    own_dsn: Dsn,
    peer_dsn: Dsn,
}

/// Returns a simple configuration: MSS 1000, a fixed buffer of 64,000 bytes, no path manager.
pub fn config() -> ConnectionConfig {
    ConnectionConfig {
        mss: MSS,
        receive_buffer: ReceiveBuffer::Fixed(Bytes(64_000)),
        path_manager: PathManagerKind::None,
        ..ConnectionConfig::linux()
    }
}

/// Returns the same with a full mesh.
pub fn mesh() -> ConnectionConfig {
    ConnectionConfig { path_manager: PathManagerKind::FullMesh, ..config() }
}

/// Returns the same as plain TCP.
pub fn plain() -> ConnectionConfig {
    ConnectionConfig { mptcp: false, ..config() }
}

impl Script {
    fn new(config: impl Into<SimConfig>, addresses: u8) -> Script {
        let address =
            |index| LocalAddress { ip: own_ip(index), path: PathId(u16::from(index)), backup: false };
        let endpoint_config = EndpointConfig {
            max_connections: 8,
            max_half_open: HALF_OPEN.get(),
            timestamp_tick: TICK.get(),
            ..EndpointConfig::new((0..addresses).map(address).collect())
        };
        Script {
            endpoint: Endpoint::new(endpoint_config, Entropy::System(fill)),
            now: Time::from_secs(1),
            id: None,
            own_key: None,
            peer_key: KEY_B,
            subs: Vec::new(),
            events: Vec::new(),
            delivered: Vec::new(),
            discarded: 0,
            placed: Vec::new(),
            held: Vec::new(),
            released: Vec::new(),
            waiting: VecDeque::new(),
            log: Vec::new(),
            config: config.into(),
            own_dsn: Dsn(0),
            peer_dsn: Dsn(0),
        }
    }

    /// Returns a client with `addresses` addresses that has just started to connect.
    pub fn connecting(config: impl Into<SimConfig>, addresses: u8) -> Script {
        let config = config.into();
        let mut script = Script::new(config.clone(), addresses);
        script.peer_dsn(KEY_B);
        let remote = Address::new(peer_ip(0), PORT);
        script.id = script.endpoint.connect(script.now, own_ip(0), remote, config).ok();
        script.poll();
        script
    }

    /// Returns a client whose handshake is complete, including the third ACK.
    pub fn client_of(config: impl Into<SimConfig>, addresses: u8) -> Script {
        let config = config.into();
        let mptcp = config.mptcp;
        let mut script = Script::connecting(config, addresses);
        script.expect(seg(0).flags(S).seq(0).payload(0));
        let mut answer = seg(0).flags(SA).seq(0).ack(1);
        if mptcp {
            answer = answer.option(capable(Some(KEY_B), None, None));
        }
        script.advance(10);
        script.inject(answer);
        script.expect(ack(0, 1).seq(1));
        script.events.clear();
        script
    }

    /// Returns a client that is established and confirmed by a data acknowledgement.
    pub fn client(config: impl Into<SimConfig>) -> Script {
        Script::client_with(config, 1)
    }

    /// Returns the same with more addresses.
    pub fn client_with(config: impl Into<SimConfig>, addresses: u8) -> Script {
        let config = config.into();
        let mptcp = config.mptcp;
        let mut script = Script::client_of(config, addresses);
        if mptcp {
            script.inject(ack(0, 1).data_ack(0));
        }
        script
    }

    /// Returns a confirmed client with a second subflow, number 1, from its second address.
    pub fn two(config: impl Into<SimConfig>) -> Script {
        let mut config = config.into();
        config.path_manager = PathManagerKind::FullMesh;
        let mut script = Script::client_with(config, 2);
        script.joined(0, false);
        script.events.clear();
        script
    }

    /// Returns a listening host, and a peer with address 0 and port 5000.
    pub fn listening(config: impl Into<SimConfig>, addresses: u8) -> Script {
        let config = config.into();
        let mut script = Script::new(config.clone(), addresses);
        script.peer_key = KEY_A;
        script.peer_dsn(KEY_A);
        script.endpoint.listen(PORT, config);
        script.peer_opens(0, 0, 5000);
        script
    }

    /// Returns a listener whose first connection has its third ACK.
    pub fn server(config: impl Into<SimConfig>) -> Script {
        Script::server_with(config, 1)
    }

    /// Returns the same with more addresses.
    pub fn server_with(config: impl Into<SimConfig>, addresses: u8) -> Script {
        let config = config.into();
        let mptcp = config.mptcp;
        let mut script = Script::listening(config, addresses);
        let mut syn = seg(0).flags(S).seq(0);
        if mptcp {
            syn = syn.option(capable(None, None, None));
        }
        script.inject(syn);
        script.expect(seg(0).flags(SA).seq(0).ack(1));
        script.advance(10);
        let mut third = ack(0, 1).seq(1);
        if mptcp {
            third = third.no_dss().option(capable(Some(KEY_A), script.own_key, None));
        }
        script.inject(third);
        script.events.clear();
        script
    }

    /// Returns a listener that has received its first ten bytes, so that it is confirmed: the next byte is
    /// 10, SSN 11.
    pub fn confirmed_server(config: impl Into<SimConfig>) -> Script {
        let mut script = Script::server(config);
        let option = capable(Some(KEY_A), script.own_key, Some(10));
        script.inject(data(0, 1, 10).option(option));
        script.expect(ack(0, 11).data_ack(10));
        script
    }

    /// Adds the next subflow, opened by the peer from its address `from` to `own`.
    pub fn peer_opens(&mut self, own: u8, from: u8, port: u16) -> usize {
        self.subs.push(Sub {
            own: Address::new(own_ip(own), PORT),
            peer: Address::new(peer_ip(from), port),
            own_isn: None,
            peer_isn: Seq(PEER_ISN),
            own_scale: 0,
            peer_scale: 7,
            last_value: 0,
            nonce: 0,
            timestamps: self.config.timestamps,
        });
        self.subs.len() - 1
    }

    fn peer_dsn(&mut self, key: Key) {
        self.peer_dsn = crypto::initial_dsn(key).add(1);
        if let Some(origin) = self.config.only.sequence_origin {
            let initiator = key == KEY_A;
            self.peer_dsn = if initiator { origin.initiator } else { origin.listener }.add(1);
            self.own_dsn = if initiator { origin.listener } else { origin.initiator }.add(1);
        }
    }

    /// Joins as a client: adds the next subflow, including the fourth ACK.
    pub fn joined(&mut self, address_id: u8, backup: bool) -> usize {
        let sub = self.subs.len() - self.waiting.iter().filter(|(_, _, s)| s.flags == S).count();
        self.expect(seg(sub).flags(S).seq(0).payload(0));
        self.advance(10);
        let answer = self.join_answer(sub, address_id, backup);
        self.inject(answer);
        self.expect(ack(sub, 1).seq(1).no_dss());
        self.advance(10);
        self.inject(ack(sub, 1).data_ack(0));
        sub
    }

    /// Returns the SYN/ACK of a join initiated by the endpoint.
    pub fn join_answer(&self, sub: usize, address_id: u8, backup: bool) -> Seg {
        let nonce = PEER_NONCE;
        let code = crypto::join_hmac(self.peer_key, self.own(), nonce, self.subs[sub].nonce);
        let hmac = crypto::leftmost_64(&code);
        seg(sub).flags(SA).seq(0).ack(1).option(MptcpOption::Join(Join::SynAck {
            backup,
            address_id,
            hmac,
            nonce,
        }))
    }

    /// Returns the SYN of a join initiated by the peer.
    pub fn join_syn(&self, sub: usize, address_id: u8, backup: bool) -> Seg {
        let token = crypto::token(self.own());
        let join = Join::Syn { backup, address_id, token, nonce: PEER_NONCE };
        seg(sub).flags(S).seq(0).option(MptcpOption::Join(join))
    }

    /// Returns the third ACK of a join initiated by the peer.
    pub fn join_ack(&self, sub: usize) -> Seg {
        let code = crypto::join_hmac(self.peer_key, self.own(), PEER_NONCE, self.subs[sub].nonce);
        let join = Join::Ack { hmac: crypto::leftmost_160(&code) };
        ack(sub, 1).seq(1).option(MptcpOption::Join(join))
    }

    /// Runs a join by the peer from its address `from`, including the fourth ACK.
    pub fn peer_joins(&mut self, own: u8, from: u8, address_id: u8, backup: bool) -> usize {
        let sub = self.peer_opens(own, from, 6000 + u16::from(from));
        let syn = self.join_syn(sub, address_id, backup);
        self.inject(syn);
        self.expect(seg(sub).flags(SA).seq(0).ack(1));
        self.advance(10);
        let third = self.join_ack(sub);
        self.inject(third);
        self.expect(ack(sub, 1).seq(1));
        sub
    }

    /// Derives both keys from the token: the agreement of simultaneous joins.
    pub fn agreed(&mut self, token: u32) {
        let key = |which: u64| Key(u64::from(token) << 32 | which);
        self.peer_key = key(2);
        self.peer_dsn = crypto::initial_dsn(key(2)).add(1);
        self.learn(key(1));
    }

    /// Runs the same up to the SYN/ACK, and returns the third ACK.
    pub fn peer_joins_with(&mut self, own: u8, from: u8, address_id: u8) -> (usize, Seg) {
        let sub = self.peer_opens(own, from, 6000 + u16::from(from));
        let syn = self.join_syn(sub, address_id, false);
        self.inject(syn);
        self.expect(seg(sub).flags(SA).seq(0).ack(1));
        self.advance(10);
        (sub, self.join_ack(sub))
    }

    /// Returns the endpoint's key.
    pub fn own(&self) -> Key {
        self.own_key.expect("the endpoint has not sent its key")
    }

    /// Returns an announcement by the peer with its authentication code.
    pub fn announcement(&self, id: u8, ip: IpAddr, port: Option<u16>) -> MptcpOption {
        let hmac = Some(crypto::add_address_hmac(self.peer_key, self.own(), id, ip, port));
        MptcpOption::AddAddress(AddAddress { id, ip, port, hmac })
    }

    /// Returns the echo of an announcement.
    pub fn echo(id: u8, ip: IpAddr, port: Option<u16>) -> MptcpOption {
        MptcpOption::AddAddress(AddAddress { id, ip, port, hmac: None })
    }

    /// Returns an MP_FAIL of the peer, for the endpoint's stream from `data` on.
    pub fn peer_fails(&self, data: u64) -> MptcpOption {
        MptcpOption::Fail(self.own_dsn.add(data))
    }

    /// Returns an MP_FAIL of the endpoint, for the peer's stream.
    pub fn own_fails(&self, data: u64) -> MptcpOption {
        MptcpOption::Fail(self.peer_dsn.add(data))
    }

    /// Returns a withdrawal.
    pub fn removal(ids: &[u8]) -> MptcpOption {
        let mut list = AddressIds::one(ids[0]);
        for &id in &ids[1..] {
            list.push(id);
        }
        MptcpOption::RemoveAddress(list)
    }

    /// Injects a segment. Everything sent before must have been expected.
    pub fn inject(&mut self, seg: Seg) {
        self.expect_nothing();
        self.log.clear();
        let segment = self.build(&seg);
        self.log.push(format!("  {:>10} <- {}", self.clock(), self.show(seg.sub, &segment, false)));
        let mut placed = Vec::new();
        let path = PathId(0);
        self.endpoint.handle_segment(self.now, path, &segment, &mut placed);
        for &place in &placed {
            match place {
                Placement::Deliver { stream, .. } => self.deliver(stream),
                Placement::Discard { payload_offset, len, .. } => {
                    assert!(payload_offset.saturating_add(len) <= segment.payload_len, "discarded elsewhere");
                    self.discarded += u64::from(len);
                }
                Placement::Hold { subflow, payload_offset, held, .. } => {
                    let start = self.subs[seg.sub].peer_isn.add(held.start);
                    assert_eq!(start, segment.seq.add(u64::from(payload_offset)), "held elsewhere");
                    assert!(u64::from(payload_offset) + held.len() <= u64::from(segment.payload_len));
                    self.hold(subflow, held);
                }
                Placement::Release { subflow, held, stream, .. } => {
                    assert_eq!(held.len(), stream.len());
                    self.let_go(subflow, held);
                    self.released.push((held, stream));
                    self.deliver(stream);
                }
                Placement::Drop { subflow, held, .. } => self.let_go(subflow, held),
            }
        }
        self.placed = placed;
        self.poll();
    }

    /// Injects several segments one after the other, and collects the answers together.
    pub fn inject_all(&mut self, segs: impl IntoIterator<Item = Seg>) {
        self.expect_nothing();
        for seg in segs {
            let waiting = core::mem::take(&mut self.waiting);
            let log = core::mem::take(&mut self.log);
            self.inject(seg);
            let new = core::mem::replace(&mut self.waiting, waiting);
            self.waiting.extend(new);
            let more = core::mem::replace(&mut self.log, log);
            self.log.extend(more);
        }
    }

    fn deliver(&mut self, stream: DataRange) {
        let again = self.delivered.iter().any(|known| !known.intersection(stream).is_empty());
        assert!(!again, "{stream:?} is delivered twice");
        self.delivered.push(stream);
    }

    fn build(&self, seg: &Seg) -> Segment {
        let sub = &self.subs[seg.sub];
        let flags = seg.flags.unwrap_or(A);
        let own_isn = sub.own_isn.unwrap_or(Seq(0));
        let seq = sub.peer_isn.add(seg.seq.unwrap_or(1) as u64);
        let mut segment = Segment::new(sub.peer, sub.own, seq, flags);
        if flags.has(Flags::ACK) {
            segment.ack = own_isn.add(seg.ack.unwrap_or(1) as u64);
        }
        let syn = flags.has(Flags::SYN);
        let scale = if syn { 0 } else { sub.peer_scale };
        let window = seg.window.unwrap_or(if syn { 64_000 } else { 640_000 }) >> scale;
        segment.window = u16::try_from(window).expect("a window that fits");
        segment.payload_len = seg.payload.unwrap_or(0);
        if seg.ce {
            segment.ecn = Ecn::Ce;
        }
        if syn {
            segment.options.syn = Some(seg.syn.unwrap_or(SYN_OPTIONS));
        }
        if sub.timestamps && !seg.no_timestamps {
            segment.options.timestamps = Some(Timestamps {
                value: seg.value_us.unwrap_or(TICK.get().value(self.now)),
                echo: seg.echo_us.unwrap_or(sub.last_value),
            });
        }
        for &(left, right) in seg.sack.iter().flatten() {
            segment.options.sack.push(own_isn.add(left as u64), own_isn.add(right as u64));
        }
        let data_ack = seg.data_ack.map(|(offset, wide)| {
            let dsn = self.own_dsn.add(offset as u64);
            if wide { DataAck::Wide(dsn) } else { DataAck::Narrow(dsn.0 as u32) }
        });
        let mapping = seg.map.map(|map| {
            let dsn = self.peer_dsn.add(map.data as u64);
            let dsn = if map.wide { MappedDsn::Wide(dsn) } else { MappedDsn::Narrow(dsn.0 as u32) };
            let right = self.checksum_of(&map, seg.data_fin, self.peer_dsn);
            // An infinite mapping has no checksum of its own.
            let checksum = seg.checksum.map(|wrong| if map.len == 0 { 0 } else { wrong ^ right });
            Mapping { dsn, ssn: map.ssn, len: map.len, checksum }
        });
        segment.payload_sum = bytes::sum_at(seg) ^ u16::from(seg.damaged);
        if data_ack.is_some() || mapping.is_some() {
            segment.options.dss = Some(Dss { data_ack, mapping, data_fin: seg.data_fin.unwrap_or(false) });
        }
        for &option in &seg.options {
            assert!(segment.options.push(option));
        }
        segment
    }

    /// Expects this to be the next segment sent.
    #[track_caller]
    pub fn expect(&mut self, want: Seg) -> Segment {
        let Some((_, sub, segment)) = self.waiting.pop_front() else {
            self.fail(&format!("expected {want:?}\n  but nothing was sent"));
        };
        if let Some(wrong) = self.differs(&want, sub, &segment) {
            let shown = self.show(sub, &segment, true);
            self.fail(&format!("{wrong}\n  expected {}\n  sent     {shown}", describe(&want)));
        }
        segment
    }

    /// Expects that nothing more was sent.
    #[track_caller]
    pub fn expect_nothing(&mut self) {
        if let Some((_, sub, segment)) = self.waiting.front() {
            let shown = self.show(*sub, segment, true);
            self.fail(&format!("not expected: {shown}"));
        }
    }

    /// Orders sent segments by subflow, and by time on each.
    pub fn by_subflow(&mut self) {
        self.waiting.make_contiguous().sort_by_key(|(_, sub, _)| *sub);
    }

    /// True if every sent segment was expected.
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns all segments sent since the last step.
    pub fn sent(&mut self) -> Vec<Segment> {
        self.waiting.drain(..).map(|(_, _, segment)| segment).collect()
    }

    /// Discards pure acknowledgements.
    pub fn forget_acks(&mut self) {
        self.waiting.retain(|(_, _, segment)| segment.flags != A || segment.payload_len > 0);
    }

    /// Advances until the endpoint sends something; panics after `ms`.
    #[track_caller]
    pub fn wait_until_sent(&mut self, ms: u64) -> Vec<Segment> {
        self.expect_nothing();
        let until = self.now + Duration::from_millis(ms);
        while self.waiting.is_empty() {
            match self.endpoint.poll_timeout().filter(|&due| due <= until) {
                Some(due) => {
                    let us = due.since(self.now).as_micros();
                    self.advance_us(us.max(1));
                }
                None => self.fail("nothing was sent"),
            }
        }
        self.sent()
    }

    /// Expects nothing for `ms` less a microsecond, and then `want`.
    #[track_caller]
    pub fn expect_after(&mut self, ms: u64, want: Seg) -> Segment {
        self.advance_us(ms * 1000 - 1);
        self.expect_nothing();
        self.advance_us(1);
        self.expect(want)
    }

    /// Expects `count` full data segments on `sub`, from subflow offset `seq` on.
    #[track_caller]
    pub fn expect_data(&mut self, sub: usize, seq: i64, count: i64) {
        for at in 0..count {
            self.expect(data(sub, seq + at * i64::from(MSS), MSS));
        }
    }

    /// Advances the time; runs timers when they are due.
    pub fn advance(&mut self, ms: u64) {
        self.advance_us(ms * 1000);
    }

    pub fn advance_us(&mut self, us: u64) {
        self.expect_nothing();
        self.log.clear();
        let until = self.now + Duration::from_micros(us);
        let mut rounds = 0;
        while let Some(due) = self.endpoint.poll_timeout().filter(|&due| due <= until) {
            rounds += 1;
            assert!(rounds < 10_000, "the timers make no progress at {}", self.clock());
            self.now = self.now.max(due);
            self.endpoint.handle_timeout(self.now);
            self.poll();
        }
        self.now = until;
        self.endpoint.handle_timeout(self.now);
        self.poll();
    }

    pub fn write(&mut self, n: u64) -> u64 {
        self.step();
        let written = self.endpoint.write(self.now, self.id(), n);
        self.poll();
        written
    }

    pub fn read(&mut self, n: u64) {
        self.step();
        self.endpoint.consume(self.now, self.id(), n);
        self.poll();
    }

    pub fn close(&mut self) {
        self.step();
        self.endpoint.close(self.now, self.id());
        self.poll();
    }

    pub fn abort(&mut self) {
        self.step();
        self.endpoint.abort(self.now, self.id());
        self.poll();
    }

    /// Polls the endpoint after a direct call.
    pub fn poll(&mut self) {
        for _ in 0..1000 {
            let nobody = Address::new(own_ip(0), 0);
            let mut segment = Segment::new(nobody, nobody, Seq(0), Flags::default());
            while let Some(departure) =
                self.endpoint.poll_transmit_into(self.now, &mut segment, &bytes::Bytes)
            {
                self.take(segment, departure.stream_offset);
            }
            let before = self.waiting.len();
            while let Some((id, event)) = self.endpoint.poll_event() {
                self.id.get_or_insert(id);
                if let Event::SubflowDown(down) = event {
                    self.held.retain(|(subflow, _)| *subflow != down);
                }
                self.events.push(event);
            }
            if self.waiting.len() == before && self.endpoint.poll_timeout().is_none_or(|due| due > self.now) {
                break;
            }
            self.endpoint.handle_timeout(self.now);
        }
        self.endpoint.assert_consistent();
    }

    fn step(&mut self) {
        self.expect_nothing();
        self.log.clear();
    }

    /// True if the endpoint under test was configured to use MPTCP.
    pub fn is_mptcp(&self) -> bool {
        self.config.mptcp
    }

    pub fn id(&self) -> ConnectionId {
        self.id.expect("there is a connection")
    }

    pub fn stats(&self) -> ConnectionStats {
        self.endpoint.stats(self.id()).expect("the connection is alive")
    }

    pub fn subflow(&self, sub: usize) -> SubflowStats {
        let all = self.endpoint.subflow_stats(self.id());
        let of = self.subs[sub];
        *all.iter().rev().find(|stats| stats.local == of.own && stats.remote == of.peer).expect("a subflow")
    }

    /// Returns the congestion window of a subflow in segments.
    pub fn cwnd(&self, sub: usize) -> u64 {
        self.subflow(sub).cwnd_bytes / u64::from(MSS)
    }

    fn take(&mut self, segment: Segment, stream_offset: u64) {
        assert!(segment.options.wire_len() <= 40, "options take {} bytes", segment.options.wire_len());
        let known =
            self.subs.iter().rposition(|sub| sub.own == segment.source && sub.peer == segment.destination);
        let sub = known.unwrap_or_else(|| {
            self.subs.push(Sub {
                own: segment.source,
                peer: segment.destination,
                own_isn: None,
                peer_isn: Seq(PEER_ISN),
                own_scale: 0,
                peer_scale: 7,
                last_value: 0,
                nonce: 0,
                timestamps: self.config.timestamps,
            });
            self.subs.len() - 1
        });
        if segment.flags.has(Flags::SYN) {
            self.subs[sub].own_isn = Some(segment.seq);
            let shift = segment.options.syn.and_then(|syn| syn.window_scale);
            self.subs[sub].own_scale = shift.unwrap_or(0);
        }
        if let Some(timestamps) = segment.options.timestamps {
            self.subs[sub].last_value = timestamps.value;
        }
        for option in segment.options.mptcp.iter().flatten() {
            match option {
                MptcpOption::Capable(Capable { sender_key: Some(key), .. }) if self.own_key.is_none() => {
                    self.learn(*key);
                }
                MptcpOption::Join(Join::Syn { nonce, .. } | Join::SynAck { nonce, .. }) => {
                    self.subs[sub].nonce = *nonce;
                }
                _ => {}
            }
        }
        self.log.push(format!("  {:>10} -> {}", self.clock(), self.show(sub, &segment, true)));
        self.check_bytes(sub, &segment, stream_offset);
        self.waiting.push_back((self.now, sub, segment));
    }

    fn learn(&mut self, key: Key) {
        self.own_key = Some(key);
        if self.config.only.sequence_origin.is_none() {
            self.own_dsn = crypto::initial_dsn(key).add(1);
        }
    }

    fn clock(&self) -> String {
        format!("{:.3} ms", (self.now.as_nanos() - 1_000_000_000) as f64 / 1e6)
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        let log = self.log.join("\n");
        panic!("{what}\nsince the last step (at {}):\n{log}\n", self.clock());
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.expect_nothing();
        }
    }
}
