//! The hand-made peer. Numbers in a script are relative: sequence numbers to the sender's initial one (the
//! first byte is 1), data sequence numbers to the first byte of the stream (which is 0).

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_stack::crypto;
use anabranch_stack::segment::{
    Address, Capable, DataAck, Dss, Flags, Join, Key, MappedDsn, Mapping, MptcpOption, Segment, SynOptions,
};
use anabranch_stack::seq::{Dsn, Seq};

use crate::seg::{Seg, ack, describe, seg};
use crate::{A, FA, Role, Subject};

pub const SUBJECT_PORT: u16 = 80;
pub const PEER_PORT: u16 = 5000;
const S: Flags = Flags::SYN;
const SA: Flags = Flags::SYN.with(Flags::ACK);
const KEY: Key = Key(0x0809_0a0b_0c0d_0e0f);
const NONCE: u32 = 0xaabb_ccdd;
const ISN: u32 = 1_000_000;
const WINDOW: u16 = 60_000;

pub fn subject_ip() -> IpAddr {
    IpAddr::from([10, 91, 0, 1])
}

/// Returns the addresses of the peer, one for each subflow.
pub fn peer_ip(sub: usize) -> IpAddr {
    IpAddr::from([10, 91, 0, 2 + sub as u8])
}

/// Returns the byte at an offset of either stream.
fn byte(offset: i64) -> u8 {
    (offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[2]
}

fn bytes(start: i64, len: usize) -> Vec<u8> {
    (start..start + len as i64).map(byte).collect()
}

struct Sub {
    subject: Address,
    peer: Address,
    isn: Seq,
    /// The end of the contiguous data that the subject has sent on it.
    high: i64,
    nonce: u32,
    /// The position of the subject's FIN.
    fin: Option<i64>,
}

pub struct Peer {
    subject: Box<dyn Subject>,
    subs: Vec<Sub>,
    key: Key,
    /// The number of bytes that the subject's application has written, and that the peer has acknowledged at
    /// the data level.
    written: i64,
    acked: i64,
    /// The subject's received bytes, by offset, and the position of its DATA_FIN.
    arrived: BTreeMap<i64, u8>,
    data_fin: Option<i64>,
    log: Vec<String>,
}

impl Peer {
    /// Returns a connection after the handshake, whose first subflow has carried nothing.
    pub fn open(subject: Box<dyn Subject>, role: Role) -> Peer {
        let mut peer = Peer {
            subject,
            subs: Vec::new(),
            key: Key(0),
            written: 0,
            acked: 0,
            arrived: BTreeMap::new(),
            data_fin: None,
            log: Vec::new(),
        };
        let keys = |sender, receiver| {
            MptcpOption::Capable(Capable {
                version: 1,
                flags: Capable::HMAC_SHA256,
                sender_key: sender,
                receiver_key: receiver,
                data_len: None,
                checksum: None,
            })
        };
        match role {
            Role::Server => {
                peer.add(Address::new(subject_ip(), SUBJECT_PORT), PEER_PORT);
                peer.send(seg(0).flags(S).seq(0).no_dss().option(keys(None, None)));
                let answer = peer.handshake(0, SA);
                peer.key = sender_key(&answer);
                peer.send(ack(0, 1).no_dss().option(keys(Some(KEY), Some(peer.key))));
            }
            Role::Client => {
                let (syn, _) = peer.subject.next().expect("a SYN");
                assert!(syn.flags.has(S) && !syn.flags.has(A), "{syn:?}");
                peer.add(syn.source, PEER_PORT);
                peer.subs[0].isn = syn.seq;
                peer.send(seg(0).flags(SA).seq(0).ack(1).no_dss().option(keys(Some(KEY), None)));
                let third = peer.handshake(0, A);
                peer.key = sender_key(&third);
            }
        }
        peer.send(ack(0, 1).data_ack(0));
        peer.subject.opened();
        peer
    }

    /// Joins a second subflow, number 1, from the peer.
    pub fn join(&mut self) {
        let sub = self.subs.len();
        self.add(self.subs[0].subject, PEER_PORT + sub as u16);
        let token = crypto::token(self.key);
        let join = Join::Syn { backup: false, address_id: sub as u8, token, nonce: NONCE };
        self.send(seg(sub).flags(S).seq(0).no_dss().option(MptcpOption::Join(join)));
        let answer = self.handshake(sub, SA);
        let nonce = answer.options.mptcp.iter().flatten().find_map(|option| match option {
            MptcpOption::Join(Join::SynAck { nonce, .. }) => Some(*nonce),
            _ => None,
        });
        self.subs[sub].nonce = nonce.expect("an MP_JOIN in the SYN/ACK");
        let code = crypto::join_hmac(KEY, self.key, NONCE, self.subs[sub].nonce);
        let join = Join::Ack { hmac: crypto::leftmost_160(&code) };
        self.send(ack(sub, 1).no_dss().option(MptcpOption::Join(join)));
        self.expect(ack(sub, 1));
    }

    fn add(&mut self, subject: Address, port: u16) {
        let peer = Address::new(peer_ip(self.subs.len()), port);
        self.subs.push(Sub { subject, peer, isn: Seq(0), high: 1, nonce: 0, fin: None });
    }

    /// Waits for the subject's next step in a handshake.
    fn handshake(&mut self, sub: usize, flags: Flags) -> Segment {
        loop {
            let Some((segment, _)) = self.subject.next() else {
                self.fail("the handshake has come to a halt")
            };
            // A retransmission of an already answered segment may come between.
            let on = self.subs[sub].subject == segment.source && self.subs[sub].peer == segment.destination;
            if segment.flags.has(Flags::RST) {
                self.fail("a reset in the handshake");
            }
            if on && segment.flags == flags {
                if flags.has(S) {
                    self.subs[sub].isn = segment.seq;
                }
                return segment;
            }
        }
    }

    /// Writes `len` bytes as the subject's application.
    pub fn write(&mut self, len: usize) {
        let bytes = bytes(self.written, len);
        self.written += len as i64;
        self.subject.write(&bytes);
    }

    /// Ends the direction of the subject's application.
    pub fn end(&mut self) {
        self.subject.end();
    }

    /// Reads `len` bytes as the subject's application, and checks them.
    pub fn read(&mut self, from: i64, len: usize) {
        assert!(self.subject.read(len) == bytes(from, len), "other bytes than were sent");
    }

    /// Reads the end of the stream as the subject's application.
    pub fn read_end(&mut self) {
        self.subject.read_end();
    }

    /// Checks that the connection has ended in order at the subject.
    pub fn is_over(&mut self) {
        self.subject.is_over();
    }

    /// Sends a segment of the peer. By default it acknowledges everything received.
    pub fn send(&mut self, seg: Seg) {
        let sub = &self.subs[seg.sub];
        let flags = seg.flags.unwrap_or(A);
        let mut segment =
            Segment::new(sub.peer, sub.subject, Seq(ISN).add(seg.seq.unwrap_or(1) as u64), flags);
        if flags.has(A) {
            segment.ack = sub.isn.add(seg.ack.unwrap_or(sub.high) as u64);
        }
        if flags.has(S) {
            segment.options.syn = Some(SynOptions { mss: 1460, window_scale: None, sack_permitted: false });
        }
        segment.window = WINDOW;
        segment.payload_len = seg.payload.unwrap_or(0);
        let mut payload = Vec::new();
        if !seg.no_dss {
            if let Some((offset, _)) = seg.data_ack {
                self.acked = self.acked.max(offset);
            }
            let first = |key| crypto::initial_dsn(key).add(1);
            let acked = first(self.key).add(seg.data_ack.map_or(self.acked, |(offset, _)| offset) as u64);
            let mapping = seg.map.map(|map| {
                let start = map.data + seg.seq.unwrap_or(1) - i64::from(map.ssn);
                payload = bytes(start, segment.payload_len as usize);
                let dsn = MappedDsn::Wide(first(KEY).add(map.data as u64));
                Mapping { dsn, ssn: map.ssn, len: map.len, checksum: None }
            });
            let data_fin = seg.data_fin.unwrap_or(false);
            segment.options.dss = Some(Dss { data_ack: Some(DataAck::Wide(acked)), mapping, data_fin });
        }
        for &option in &seg.options {
            assert!(segment.options.push(option));
        }
        self.log.push(format!("  <- {}", describe(&seg)));
        self.subject.inject(&segment, &payload);
    }

    /// Waits for `want`, all of whose given fields must match; only acknowledgements, retransmissions and
    /// segments on other subflows may come before it.
    pub fn expect(&mut self, want: Seg) {
        loop {
            let (sub, segment, again) = self.take(&describe(&want));
            let wrong = self.differs(&want, sub, &segment);
            let Some(wrong) = wrong else { return };
            if sub == want.sub && !again {
                self.fail(&format!("{wrong}; expected {}", describe(&want)));
            }
        }
    }

    /// Waits until the subject's stream has arrived up to `end`.
    pub fn await_data(&mut self, end: i64) {
        while self.arrived.len() < end as usize {
            self.take(&format!("data up to {end}"));
        }
        assert_eq!(self.arrived.len(), end as usize);
    }

    /// Waits for the subject's DATA_FIN at `end`, with or without data.
    pub fn await_data_fin(&mut self, end: i64) {
        while self.data_fin.is_none() {
            self.take(&format!("a DATA_FIN at {end}"));
        }
        assert_eq!(self.data_fin, Some(end), "the place of the DATA_FIN");
    }

    /// Waits for the subject's FIN on a subflow.
    pub fn await_fin(&mut self, sub: usize) {
        while self.subs[sub].fin.is_none() {
            self.take(&format!("a FIN on subflow {sub}"));
        }
    }

    /// Checks that the subject has sent no FIN so far on this subflow.
    pub fn no_fin_yet(&self, sub: usize) {
        assert_eq!(self.subs[sub].fin, None, "a FIN on subflow {sub}");
    }

    /// Completes an end: the subject's FIN arrives on each subflow, the peer's follows, at `seq`, and is
    /// acknowledged.
    pub fn finish(&mut self, seqs: &[i64]) {
        for (sub, &seq) in seqs.iter().enumerate() {
            self.await_fin(sub);
            self.send(seg(sub).flags(FA).seq(seq));
            self.expect(seg(sub).ack(seq + 1));
        }
        self.is_over();
    }

    /// Returns the next segment, checked and recorded: its subflow, and whether it takes no new sequence
    /// space.
    fn take(&mut self, awaited: &str) -> (usize, Segment, bool) {
        let Some((segment, payload)) = self.subject.next() else {
            self.fail(&format!("{awaited}: nothing came"));
        };
        let sub = self
            .subs
            .iter()
            .position(|sub| (sub.subject, sub.peer) == (segment.source, segment.destination))
            .unwrap_or_else(|| self.fail(&format!("a segment of no subflow: {segment:?}")));
        let seq = self.seq(sub, &segment);
        self.log.push(self.show(sub, &segment));
        if segment.flags.has(Flags::RST) {
            self.fail("a reset");
        }
        let end = seq + segment.seq_len() as i64;
        let again = end <= self.subs[sub].high && !segment.flags.has(S);
        if seq <= self.subs[sub].high {
            self.subs[sub].high = self.subs[sub].high.max(end);
        }
        if let Some(map) = self.mapping(&segment) {
            let (data, ssn, len) = map;
            let data_fin = segment.options.dss.is_some_and(|dss| dss.data_fin);
            if data_fin {
                let place = data + len - 1;
                if self.data_fin.is_some_and(|known| known != place) {
                    self.fail("another place for the DATA_FIN");
                }
                // Section 3.3.3: without data it has SSN 0 and length 1.
                if payload.is_empty() && (ssn, len) != (0, 1) {
                    self.fail("a DATA_FIN alone with another SSN or length");
                }
                self.data_fin = Some(place);
            }
            let start = data + seq - ssn;
            for (at, &got) in (start..).zip(&payload) {
                if got != byte(at) || at >= self.written {
                    self.fail("other bytes than were written");
                }
                self.arrived.insert(at, got);
            }
        } else if !payload.is_empty() {
            self.fail("payload without a mapping");
        }
        if segment.flags.has(Flags::FIN) {
            self.subs[sub].fin = Some(end - 1);
            // Section 3.3.3: not on all subflows before all data is DATA_ACKed.
            let others = self.subs.iter().all(|sub| sub.fin.is_some());
            if others && self.acked < self.written {
                self.fail("the last subflow is closed before all data is DATA_ACKed");
            }
        }
        (sub, segment, again)
    }

    fn seq(&self, sub: usize, segment: &Segment) -> i64 {
        i64::from(segment.seq.0.wrapping_sub(self.subs[sub].isn.0) as i32)
    }

    /// Returns the stream offset, subflow offset and length of a mapping.
    fn mapping(&self, segment: &Segment) -> Option<(i64, i64, i64)> {
        let map = segment.options.dss?.mapping?;
        let first: Dsn = crypto::initial_dsn(self.key).add(1);
        let low = match map.dsn {
            MappedDsn::Wide(dsn) => dsn.0 as u32,
            MappedDsn::Narrow(low) => low,
        };
        let data = i64::from(low.wrapping_sub(first.0 as u32) as i32);
        Some((data, i64::from(map.ssn), i64::from(map.len)))
    }

    fn data_ack(&self, segment: &Segment) -> Option<i64> {
        let first: Dsn = crypto::initial_dsn(KEY).add(1);
        let low = match segment.options.dss?.data_ack? {
            DataAck::Wide(dsn) => dsn.0 as u32,
            DataAck::Narrow(low) => low,
        };
        Some(i64::from(low.wrapping_sub(first.0 as u32) as i32))
    }

    fn differs(&self, want: &Seg, sub: usize, segment: &Segment) -> Option<String> {
        let flags = Flags(segment.flags.0 & !Flags::PSH.0);
        let acked = i64::from(segment.ack.0.wrapping_sub(ISN) as i32);
        let data_fin = segment.options.dss.is_some_and(|dss| dss.data_fin);
        let map = want.map.map(|map| (map.data, i64::from(map.ssn), i64::from(map.len)));
        let (seq, data_ack) = (self.seq(sub, segment), self.data_ack(segment));
        let checks = [
            ("subflow", want.sub == sub),
            ("flags", want.flags.is_none_or(|wanted| wanted == flags)),
            ("sequence number", want.seq.is_none_or(|wanted| wanted == seq)),
            ("acknowledgement", want.ack.is_none_or(|wanted| wanted == acked)),
            ("length", want.payload.is_none_or(|wanted| wanted == segment.payload_len)),
            ("data ack", want.data_ack.is_none_or(|(wanted, _)| Some(wanted) == data_ack)),
            ("mapping", map.is_none_or(|wanted| Some(wanted) == self.mapping(segment))),
            ("DATA_FIN", want.data_fin.is_none_or(|wanted| wanted == data_fin)),
        ];
        let wrong = checks.iter().find(|(_, right)| !right);
        wrong.map(|(name, _)| format!("another {name}: {}", self.show(sub, segment)))
    }

    fn show(&self, sub: usize, segment: &Segment) -> String {
        let acked = i64::from(segment.ack.0.wrapping_sub(ISN) as i32);
        let mut text = format!("  -> #{sub} {:?} seq {} ack {acked}", segment.flags, self.seq(sub, segment));
        text += &format!(" len {}", segment.payload_len);
        if let Some(offset) = self.data_ack(segment) {
            text += &format!(" data ack {offset}");
        }
        if let Some((data, ssn, len)) = self.mapping(segment) {
            text += &format!(" map {data}+{len}@{ssn}");
        }
        if segment.options.dss.is_some_and(|dss| dss.data_fin) {
            text += " DATA_FIN";
        }
        text
    }

    fn fail(&self, what: &str) -> ! {
        panic!("{what}\n{}", self.log.join("\n"));
    }
}

fn sender_key(segment: &Segment) -> Key {
    let key = segment.options.mptcp.iter().flatten().find_map(|option| match option {
        MptcpOption::Capable(capable) => capable.sender_key,
        _ => None,
    });
    key.expect("an MP_CAPABLE with a key")
}
