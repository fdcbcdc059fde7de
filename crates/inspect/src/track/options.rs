//! The options of Multipath TCP: agreement, joins, mappings, addresses, endings, and faults against their rules.

use anabranch_stack::crypto::{add_address_hmac, initial_dsn, join_hmac, leftmost_64, leftmost_160, token};
use anabranch_stack::segment::{
    AddAddress, Capable, DataAck, Dss, Flags, Join, Key, MappedDsn, Mapping, MptcpOption, Segment,
};
use anabranch_stack::seq::{Dsn, Seq, offset_near};
use anabranch_units::Time;
use anabranch_wire::each_mptcp_option;
use sha1::{Digest, Sha1};

use super::connection::Announced;
use super::subflow::{Joining, Reset};
use super::{Connection, Packet, Protocol, Table};

/// A mapping without an end.
const ENDLESS: u64 = 1 << 62;
/// The most recent connections among which one is searched by its data sequence numbers.
const MAX_CANDIDATES: usize = 512;
/// The most subflows of a connection; hosts have far fewer.
const MAX_SUBFLOWS_OF_ONE: usize = 256;
/// Two subflows of a connection are nearer to each other than this, in bytes.
const NEAR: i64 = 1 << 23;

/// Returns what a segment with RST says about it.
pub(super) fn reset(segment: &Segment) -> Reset {
    let mut reset = Reset { time: Time::ZERO, by: 0, reason: None, transient: false, fast_close: false };
    for option in segment.options.mptcp.iter().flatten() {
        match option {
            MptcpOption::Reset { transient, reason } => {
                (reset.reason, reset.transient) = (Some(*reason), *transient);
            }
            MptcpOption::FastClose(_) => reset.fast_close = true,
            _ => {}
        }
    }
    reset
}

/// The token and the initial data sequence number of a key (RFC 8684 section 3.1; RFC 6824 section 3.1 with SHA-1).
fn derived(key: Key, version: u8) -> (u32, Dsn) {
    if version > 0 {
        return (token(key), initial_dsn(key));
    }
    let digest = Sha1::digest(key.0.to_be_bytes());
    let mut last = [0; 8];
    last.copy_from_slice(&digest[12..]);
    (u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]), Dsn(u64::from_be_bytes(last)))
}

/// Reads MP_CAPABLE of either version from the body of its option.
fn read_capable(body: &[u8]) -> Option<Capable> {
    let (head, rest) = body.split_first_chunk::<2>()?;
    let mut capable = Capable {
        version: head[0] & 0x0f,
        flags: head[1],
        sender_key: None,
        receiver_key: None,
        data_len: None,
        checksum: None,
    };
    let key = |at: usize| {
        let bytes = rest.get(at..at + 8)?;
        Some(Key(u64::from_be_bytes(bytes.try_into().ok()?)))
    };
    let short = |at: usize| {
        let bytes = rest.get(at..at + 2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    };
    capable.sender_key = key(0);
    capable.receiver_key = key(8);
    capable.data_len = short(16);
    capable.checksum = short(18);
    Some(capable)
}

/// True if an option has a length that its subtype allows, in either version.
fn is_well_formed(body: &[u8], flags: Flags) -> bool {
    let Some(first) = body.first() else { return false };
    let len = body.len() + 2;
    match first >> 4 {
        0 => matches!(len, 4 | 12 | 20 | 22 | 24),
        1 => matches!(len, 12 | 16 | 24),
        2 => flags.has(Flags::SYN) || matches!(len, 4 | 8 | 12 | 14 | 16 | 18 | 20 | 22 | 24 | 26 | 28),
        // RFC 6824 had 8 bytes without HMAC.
        3 => matches!(len, 8 | 10 | 16 | 18 | 20 | 22 | 28 | 30),
        4 => len >= 4,
        5 => matches!(len, 3 | 4),
        6 | 7 => len == 12,
        8 => len == 4,
        _ => true,
    }
}

impl Table {
    /// Takes the options of kind 30.
    pub(super) fn on_options(&mut self, at: usize, half: usize, packet: &Packet<'_>) {
        let (now, segment) = (packet.time, &packet.view.segment);
        let (mut capable, mut any, mut bad) = (None, false, None);
        let whole = each_mptcp_option(packet.options, |body| {
            any = true;
            match body.first().map(|first| first >> 4) {
                Some(0) => capable = capable.or_else(|| read_capable(body)),
                subtype if !is_well_formed(body, segment.flags) => {
                    bad = bad.or(Some((subtype, body.len() + 2)))
                }
                _ => {}
            }
        });
        if !whole && !packet.view.is_cut {
            self.fault(at, now, "RFC 9293 3.1", "the list of options has an impossible length");
        }
        if let Some((subtype, len)) = bad {
            let text = format!("an option of subtype {} has a length of {len} bytes", subtype.unwrap_or(0));
            self.fault(at, now, "RFC 8684 3", text);
        }
        if let Some(capable) = capable {
            self.on_capable(at, half, now, segment, capable);
        }
        self.on_silence(at, half, now, segment, any, capable.is_some());
        if !any {
            return;
        }
        if let Some(subflow) = self.subflows.get_mut(at) {
            subflow.has_mptcp = true;
        }
        if let Some((connection, _)) = self.owner(at, half)
            && connection.protocol == Protocol::Unknown
            && !segment.flags.has(Flags::SYN)
        {
            connection.protocol = Protocol::Multipath;
            connection.established = Some(now);
        }
        for option in segment.options.mptcp.iter().flatten() {
            match *option {
                MptcpOption::Join(join) => self.on_join(at, half, now, join),
                MptcpOption::AddAddress(add) => self.on_add_address(at, half, now, add),
                MptcpOption::RemoveAddress(ids) => {
                    let Some((connection, end)) = self.owner(at, half) else { continue };
                    for address in &mut connection.addresses {
                        if address.by == end && ids.as_slice().contains(&address.id) {
                            address.removed = address.removed.or(Some(now));
                        }
                    }
                }
                MptcpOption::Priority { backup } => {
                    if let Some(subflow) = self.subflows.get_mut(at) {
                        subflow.backup[half & 1] = backup;
                    }
                    if let Some((connection, _)) = self.owner(at, half) {
                        connection.priority_changes += 1;
                    }
                }
                MptcpOption::Fail(_) => {
                    let Some((connection, _)) = self.owner(at, half) else { continue };
                    let text =
                        "MP_FAIL: the checksum of a mapping was wrong, so a middlebox changes the data";
                    if connection.subflows.len() == 1 {
                        connection.fall_back(now, text);
                    } else {
                        connection.fault(now, "RFC 8684 3.7", text);
                    }
                }
                MptcpOption::FastClose(key) => {
                    let Some((connection, end)) = self.owner(at, half) else { continue };
                    connection.fast_close.get_or_insert((now, end));
                    // The key of the host that receives it.
                    if connection.keys[end ^ 1].is_some_and(|known| known != key) {
                        connection.fault(
                            now,
                            "RFC 8684 3.5",
                            "MP_FASTCLOSE has another key than the receiver's",
                        );
                    }
                }
                MptcpOption::Capable(_) | MptcpOption::Reset { .. } => {}
            }
        }
        if let Some(dss) = segment.options.dss {
            self.on_dss(at, half, packet, dss);
        }
    }

    fn fault(&mut self, at: usize, now: Time, rule: &'static str, text: impl Into<String>) {
        if let Some((connection, _)) = self.owner(at, 0) {
            connection.fault(now, rule, text);
        }
    }

    /// Returns the connection of a subflow, and the host of it that sends half `half`.
    fn owner(&mut self, at: usize, half: usize) -> Option<(&mut Connection, usize)> {
        let subflow = self.subflows.get(at)?;
        let end = subflow.direction(half) & 1;
        Some((self.connections.get_mut(subflow.connection)?, end))
    }

    fn on_capable(&mut self, at: usize, half: usize, now: Time, segment: &Segment, capable: Capable) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let (syn, ack) = (segment.flags.has(Flags::SYN), segment.flags.has(Flags::ACK));
        subflow.capable = true;
        let (at_connection, file) = (subflow.connection, subflow.file);
        let Some(connection) = self.connections.get_mut(at_connection) else { return };
        if connection.protocol == Protocol::Fallback {
            return;
        }
        let version = capable.version;
        connection.checksums[half & 1] |= syn && capable.flags & Capable::CHECKSUM != 0;
        if !syn || ack || connection.version.is_none() {
            connection.version = Some(version);
        }
        if capable.flags & Capable::HMAC_SHA256 == 0 {
            connection.fault(now, "RFC 8684 3.1", "MP_CAPABLE names no algorithm: flag H is not set");
        }
        connection.protocol = match (syn, ack) {
            (true, false) => Protocol::Asked,
            _ => Protocol::Multipath,
        };
        let keys = [(half, capable.sender_key), (half ^ 1, capable.receiver_key)];
        for (end, key) in keys {
            if let Some(key) = key {
                self.set_key((at_connection, file), end & 1, key, version, now);
            }
        }
        let Some(len) = capable.data_len.filter(|_| !syn) else { return };
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        // RFC 8684 section 3.1: the mapping of the first data, at the begin of both levels.
        subflow.halves[half & 1].map(0, u64::from(len), 0);
    }

    fn set_key(&mut self, (at, file): (usize, usize), end: usize, key: Key, version: u8, now: Time) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        if connection.keys[end].is_some() {
            if connection.keys[end] != Some(key) {
                connection.fault(now, "RFC 8684 3.1", "a later MP_CAPABLE has another key");
            }
            return;
        }
        let (token, initial) = derived(key, version);
        connection.keys[end] = Some(key);
        connection.tokens[end] = Some(token);
        let stream = &mut connection.streams[end];
        if !stream.has_base() {
            stream.set_base(initial);
            stream.by_ack.begin(0);
            stream.by_arrival.begin(0);
        }
        // Joins that were captured before.
        let before = self.owner_of_token(token, file);
        self.tokens.insert((token, file), (at, end));
        let waiting = before.filter(|(other, _)| *other != at);
        let other = waiting.and_then(|(other, _)| self.connections.get(other));
        if let Some(other) = other.filter(|other| other.keys == [None; 2]) {
            for subflow in other.subflows.clone() {
                if let Some(subflow) = self.subflows.get_mut(subflow) {
                    subflow.flipped = end == 0;
                }
                self.attach(subflow, at);
            }
        }
    }

    /// Handles a segment without the option that the hosts have negotiated.
    fn on_silence(&mut self, at: usize, half: usize, now: Time, segment: &Segment, any: bool, capable: bool) {
        let Some(subflow) = self.subflows.get(at) else { return };
        let Some(connection) = self.connections.get_mut(subflow.connection) else { return };
        let (syn, ack) = (segment.flags.has(Flags::SYN), segment.flags.has(Flags::ACK));
        match connection.protocol {
            Protocol::Unknown if syn && !any => connection.protocol = Protocol::Plain,
            Protocol::Asked if syn && ack && !capable => connection.fall_back(
                now,
                "the SYN/ACK has no MP_CAPABLE: the server does not speak Multipath TCP, or a middlebox removed the \
                 option from the SYN or from its answer",
            ),
            Protocol::Asked if syn && !ack && !capable => connection.fall_back(
                now,
                "the client sent its SYN again without MP_CAPABLE, since the SYNs with it had no answer",
            ),
            Protocol::Multipath
                if subflow.capable && half == 0 && subflow.ack.is_none() && !syn && ack && !any
                    && !segment.flags.has(Flags::RST) && subflow.syn_ack.is_some() =>
            {
                connection.fall_back(
                    now,
                    "the third packet of the handshake has no MP_CAPABLE: a middlebox removed the option from it, or \
                     from the SYN/ACK",
                );
            }
            _ => {}
        }
    }

    fn on_join(&mut self, at: usize, half: usize, now: Time, join: Join) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let joining = subflow.joining.get_or_insert_with(Joining::default);
        match join {
            Join::Syn { backup, address_id, token, nonce } => {
                joining.token = token;
                joining.nonces[0] = Some(nonce);
                joining.ids[0] = Some(address_id);
                joining.backup = backup;
                subflow.backup[0] = backup;
                self.tie(at, token);
            }
            Join::SynAck { backup, address_id, hmac, nonce } => {
                joining.nonces[1] = Some(nonce);
                joining.ids[1] = Some(address_id);
                joining.codes.0 = Some(hmac);
                subflow.backup[1] = backup;
            }
            Join::Ack { hmac } => joining.codes.1 = Some(hmac),
        }
        self.check_join(at, half, now);
    }

    /// Attaches a join to the connection of its token.
    fn tie(&mut self, at: usize, token: u32) {
        let Some((own, file)) = self.subflows.get(at).map(|subflow| (subflow.connection, subflow.file))
        else {
            return;
        };
        let owner = self.owner_of_token(token, file).filter(|(at, _)| {
            self.connections.get(*at).is_some_and(|one| one.subflows.len() < MAX_SUBFLOWS_OF_ONE)
        });
        match owner {
            Some((connection, end)) => {
                if let Some(subflow) = self.subflows.get_mut(at) {
                    // The token belongs to the host that is joined.
                    subflow.flipped = end == 0;
                }
                if connection != own {
                    self.attach(at, connection);
                }
            }
            None => {
                self.tokens.insert((token, file), (own, 1));
                if let Some(connection) = self.connections.get_mut(own) {
                    connection.tokens[1] = Some(token);
                    connection.protocol = Protocol::Multipath;
                }
            }
        }
    }

    /// Verifies the codes of a join, once keys and nonces are known.
    fn check_join(&mut self, at: usize, half: usize, now: Time) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let (flipped, Some(joining)) = (usize::from(subflow.flipped), &mut subflow.joining) else { return };
        let Some(connection) = self.connections.get_mut(subflow.connection) else { return };
        let (Some(opener), Some(other)) = (connection.keys[flipped], connection.keys[flipped ^ 1]) else {
            return;
        };
        // HMAC-SHA1 of version 0 is not verified.
        let (Some(own), Some(peer)) = (joining.nonces[0], joining.nonces[1]) else { return };
        if connection.version == Some(0) {
            return;
        }
        if let Some(code) = joining.codes.0.filter(|_| joining.hmac[1].is_none()) {
            let right = leftmost_64(&join_hmac(other, opener, peer, own)) == code;
            joining.hmac[1] = Some(right);
            if !right {
                connection.fault(now, "RFC 8684 3.2", "the SYN/ACK of a join has a wrong HMAC");
            }
        }
        if let Some(code) = joining.codes.1.filter(|_| half == 0 && joining.hmac[0].is_none()) {
            let right = leftmost_160(&join_hmac(opener, other, own, peer)) == code;
            joining.hmac[0] = Some(right);
            if !right {
                connection.fault(now, "RFC 8684 3.2", "the third packet of a join has a wrong HMAC");
            }
        }
    }

    fn on_add_address(&mut self, at: usize, half: usize, now: Time, add: AddAddress) {
        let Some((connection, end)) = self.owner(at, half) else { return };
        let AddAddress { id, ip, port, hmac } = add;
        let Some(code) = hmac else {
            // The echo of an announcement by the other host. RFC 6824 announces without a code.
            if connection.version == Some(0) {
                let new =
                    Announced { time: now, by: end, id, ip, port, echoed: None, removed: None, repeats: 0 };
                connection.announce(new);
                return;
            }
            for address in &mut connection.addresses {
                if address.by != end && address.id == id {
                    address.echoed = address.echoed.or(Some(now));
                }
            }
            return;
        };
        if let (Some(own), Some(peer)) = (connection.keys[end], connection.keys[end ^ 1])
            && connection.version == Some(1)
            // `--anonymise` makes it zero.
            && code != 0
            && add_address_hmac(own, peer, id, ip, port) != code
        {
            connection.fault(now, "RFC 8684 3.4.1", "an ADD_ADDR has a wrong HMAC");
        }
        let new = Announced { time: now, by: end, id, ip, port, echoed: None, removed: None, repeats: 0 };
        connection.announce(new);
    }

    fn on_dss(&mut self, at: usize, half: usize, packet: &Packet<'_>, dss: Dss) {
        let (now, segment) = (packet.time, &packet.view.segment);
        self.adopt(at, half, dss);
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let (own, peers) = (subflow.direction(half) & 1, subflow.direction(half ^ 1) & 1);
        let sender = &mut subflow.halves[half & 1];
        sender.counts.dss += 1;
        let Some(connection) = self.connections.get_mut(subflow.connection) else { return };
        if let Some(ack) = dss.data_ack {
            let number = match ack {
                DataAck::Narrow(low) => MappedDsn::Narrow(low),
                DataAck::Wide(dsn) => MappedDsn::Wide(dsn),
            };
            let stream = &mut connection.streams[peers];
            // The acknowledgement of the DATA_FIN is one after the last byte.
            if let Some(ack) = stream.offset(number)
                && stream.data_ack.is_none_or(|known| ack > known)
            {
                // After the last byte only the DATA_FIN is left.
                if stream.data_ack.is_none_or(|known| known < stream.highest) {
                    stream.last_acked = Some(now);
                }
                stream.data_ack = Some(ack);
            }
        }
        if dss.data_fin {
            connection.streams[own].data_fin.get_or_insert(now);
        }
        let Some(Mapping { dsn, ssn, len, checksum }) = dss.mapping else { return };
        let agreed = connection.keys != [None; 2] && subflow.capable;
        let required = connection.checksums != [false; 2];
        if agreed && required && checksum.is_none() {
            connection.fault(
                now,
                "RFC 8684 3.3.1",
                "a mapping has no checksum although checksums were agreed on",
            );
        }
        let Some(start) = connection.streams[own].offset(dsn) else { return };
        if segment.payload_len == 0 {
            return;
        }
        let Ok(seq) = u64::try_from(sender.offset(segment.seq)) else { return };
        let mut place = if sender.has_syn {
            // The first byte of a subflow has the number 1.
            u64::try_from(offset_near(Seq(1), sender.next, Seq(ssn))).unwrap_or(seq)
        } else {
            sender.relative(ssn, seq, u64::from(len))
        };
        let mut bytes = u64::from(len);
        if len == 0 {
            // Section 3.7: from here on nothing is mapped.
            (place, bytes) = (place.min(seq), ENDLESS);
            connection.fall_back(now, "an infinite mapping, after which bytes are not mapped any more");
        } else if dss.data_fin {
            bytes -= 1;
        }
        if bytes > 0 && !sender.map(place, bytes, start) {
            connection.fault(
                now,
                "RFC 8684 3.3.1",
                "bytes of a subflow are mapped twice, to different places",
            );
        }
    }

    /// Attaches a subflow without a handshake to the connection that its data sequence numbers continue.
    fn adopt(&mut self, at: usize, half: usize, dss: Dss) {
        let Some(subflow) = self.subflows.get(at) else { return };
        let own = subflow.connection;
        let Some(connection) = self.connections.get(own) else { return };
        if connection.keys != [None; 2]
            || connection.subflows.len() > 1
            || connection.streams[0].near().is_some()
            || connection.streams[1].near().is_some()
        {
            return;
        }
        let distance = |near: Option<Dsn>, number: MappedDsn| match (near, number) {
            (Some(near), MappedDsn::Wide(dsn)) => Some(dsn.distance_from(near)),
            (Some(near), MappedDsn::Narrow(low)) => Some(near.expand(low).distance_from(near)),
            (None, _) => None,
        };
        let mapped = dss.mapping.map(|mapping| mapping.dsn);
        let acked = dss.data_ack.map(|ack| match ack {
            DataAck::Narrow(low) => MappedDsn::Narrow(low),
            DataAck::Wide(dsn) => MappedDsn::Wide(dsn),
        });
        let from = self.connections.len().saturating_sub(MAX_CANDIDATES);
        let candidates = self.connections.iter().enumerate().skip(from);
        let found = candidates.filter(|(n, one)| *n != own && !one.merged).find_map(|(n, one)| {
            [false, true].into_iter().find_map(|flipped| {
                let direction = half ^ usize::from(flipped);
                let data = mapped.and_then(|dsn| distance(one.streams[direction & 1].near(), dsn));
                let ack = acked.and_then(|dsn| distance(one.streams[(direction & 1) ^ 1].near(), dsn));
                let near = |distance: Option<i64>| distance.is_none_or(|far| far.abs() < NEAR);
                ((data.is_some() || ack.is_some()) && near(data) && near(ack)).then_some((n, flipped))
            })
        });
        let found = found.filter(|(n, _)| {
            self.connections.get(*n).is_some_and(|one| one.subflows.len() < MAX_SUBFLOWS_OF_ONE)
        });
        if let Some((connection, flipped)) = found {
            if let Some(subflow) = self.subflows.get_mut(at) {
                subflow.flipped = flipped;
            }
            self.attach(at, connection);
            if let Some(connection) = self.connections.get_mut(connection) {
                connection.by_continuity = true;
            }
        }
    }

    /// Decides the protocol when data comes, and maps the bytes of a TCP to themselves.
    pub(super) fn settle(&mut self, at: usize, half: usize, packet: &Packet<'_>) {
        let (now, segment) = (packet.time, &packet.view.segment);
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let Some(connection) = self.connections.get_mut(subflow.connection) else { return };
        if connection.protocol == Protocol::Unknown {
            let multipath = subflow.has_mptcp;
            connection.protocol = if multipath { Protocol::Multipath } else { Protocol::Plain };
            connection.established = connection.established.or(Some(now));
        }
        if connection.protocol == Protocol::Plain && subflow.has_mptcp {
            connection.protocol = Protocol::Multipath;
        }
        let is_empty = segment.options.have_no_mptcp();
        let sender = &mut subflow.halves[half & 1];
        let first = !sender.has_maps();
        if connection.protocol == Protocol::Multipath
            && first
            && is_empty
            && subflow.capable
            && sender.next == 0
        {
            connection.fall_back(
                now,
                "the first data has no option of kind 30: a middlebox removes it from packets with data",
            );
        }
        if matches!(connection.protocol, Protocol::Plain | Protocol::Fallback) && first {
            let Ok(start) = u64::try_from(sender.offset(segment.seq)) else { return };
            let start = if sender.has_syn { 0 } else { start };
            sender.map(start, ENDLESS, start);
        }
    }
}
