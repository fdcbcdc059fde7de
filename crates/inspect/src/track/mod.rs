//! The table of connections: every packet changes its subflow, and the connection that has it.

mod bursts;
mod clock;
mod connection;
mod delivery;
mod half;
mod meter;
mod notes;
mod options;
mod others;
mod sightings;
mod silence;
mod subflow;

use anabranch_stack::observer::SendKind;
use anabranch_stack::segment::{Address, Flags, Segment};
use anabranch_units::{Duration, Time};
use anabranch_wire::View;
use rustc_hash::FxHashMap;

pub(crate) use bursts::Burst;
pub(crate) use connection::{Connection, Protocol, Stream};
pub(crate) use half::{Half, Kind};
#[cfg(test)]
pub(crate) use meter::Met;
pub(crate) use meter::{Chunk, Loss, Meter, of_bytes, rate_of};
pub(crate) use notes::{Note, Notes, Place};
pub(crate) use sightings::Sightings;
pub(crate) use silence::{Pause, Unanswered};
pub use subflow::Vantage;
pub(crate) use subflow::{Subflow, is_at_sender};

use crate::capture::Heading;
use crate::cause::Cause;
use bursts::Sent;
use half::Arrived;

/// The most TCP connections that are followed.
pub(crate) const MAX_SUBFLOWS: usize = 1 << 15;

/// The most bursts that are remembered, of all connections.
const MAX_BURSTS: usize = 1 << 20;

/// The round trip where the handshake does not show it.
const UNKNOWN_RTT: Duration = Duration::from_millis(50);

/// A packet with its place in the captures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub time: Time,
    pub file: usize,
    pub interface: u32,
    pub heading: Option<Heading>,
    pub view: &'a View,
    /// The bytes of the TCP options.
    pub options: &'a [u8],
}

/// Both ends of a subflow in a fixed order, and its file.
type Ends = (Address, Address, usize);

#[derive(Debug, Default)]
pub(crate) struct Table {
    flows: FxHashMap<Ends, usize>,
    pub subflows: Vec<Subflow>,
    pub connections: Vec<Connection>,
    /// The connections of tokens in each file, and the host with the token.
    tokens: FxHashMap<(u32, usize), (usize, usize)>,
    files: usize,
    /// Packets of connections that are not followed because the table is full.
    pub refused: u64,
    arrived: Vec<Arrived>,
    /// The bursts that are remembered.
    bursts: usize,
    pub notes: Notes,
    /// Packets that several captures have.
    pub sightings: Sightings,
}

impl Table {
    /// Takes a packet.
    pub(crate) fn on_packet(&mut self, packet: &Packet<'_>) {
        self.files = self.files.max(packet.file + 1);
        let segment = &packet.view.segment;
        let (from, to) = (segment.source, segment.destination);
        let ends = if from <= to { (from, to, packet.file) } else { (to, from, packet.file) };
        let opening = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        let known = self.flows.get(&ends).copied();
        // The ports of an ended connection may be used again.
        let known = known.filter(|at| {
            let subflow = self.subflows.get(*at);
            !opening || subflow.is_some_and(|one| one.syn_seq.is_none_or(|seq| seq == segment.seq))
        });
        let at = match known {
            Some(at) => at,
            None => {
                if self.subflows.len() >= MAX_SUBFLOWS {
                    self.refused += 1;
                    return;
                }
                // The sender of a SYN/ACK is the server; without a handshake, the lower port.
                let answers = segment.flags.has(Flags::SYN.with(Flags::ACK));
                let unclear = !opening && !answers;
                let backwards = answers || (unclear && from.port < to.port);
                let (client, server) = if backwards { (to, from) } else { (from, to) };
                let at = self.subflows.len();
                self.subflows.push(Subflow::new(packet.file, packet.time, client, server));
                self.flows.insert(ends, at);
                let connection = self.connections.len();
                self.connections.push(Connection::default());
                self.attach(at, connection);
                at
            }
        };
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        if subflow.is_copy(packet.view, packet.interface) {
            return;
        }
        let half = usize::from(from != subflow.client);
        let count = subflow.halves[half].counts.packets;
        self.sightings.see(packet.time, (at, packet.file), half, count, segment);
        let connection = subflow.connection;
        self.spend(connection, packet.time);
        self.notes.begin(at);
        self.on_segment(at, half, packet);
    }

    /// Returns the connection of a token and the host that has it: of the same file, or of another one.
    fn owner_of_token(&self, token: u32, file: usize) -> Option<(usize, usize)> {
        let own = self.tokens.get(&(token, file));
        let other = || (0..self.files).find_map(|file| self.tokens.get(&(token, file)));
        own.or_else(other).copied()
    }

    /// Moves a subflow to a connection.
    fn attach(&mut self, at: usize, connection: usize) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let before = subflow.connection;
        if let Some(list) = self.connections.get_mut(before)
            && before != connection
        {
            list.subflows.retain(|one| *one != at);
            list.merged = list.subflows.is_empty();
        }
        if let Some(list) = self.connections.get_mut(connection) {
            subflow.connection = connection;
            subflow.number = list.subflows.len();
            list.subflows.push(at);
        }
    }

    /// Adds the time since the last packet of a connection to its causes.
    fn spend(&mut self, at: usize, now: Time) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let Some(last) = connection.last.replace(now) else { return };
        let span = now.since(last);
        let established = connection.established.is_some();
        for direction in 0..2 {
            let own = connection.subflows.iter().filter_map(|at| self.subflows.get(*at));
            let stream = &connection.streams[direction];
            let (mut busy, mut carried) = (0_u64, 0_u64);
            let mut recovering = false;
            let mut at_sender = true;
            let mut mss = 1460;
            let mut rtt = Duration::from_millis(50);
            for subflow in own.clone().filter(|one| one.reset.is_none()) {
                let half = subflow.half(direction);
                if half.first_data.is_none() {
                    continue;
                }
                let sends = subflow.is_at_sender(direction ^ usize::from(subflow.flipped));
                at_sender &= sends;
                let meter = if sends { &half.by_ack } else { &half.by_arrival };
                // The receiver does not see what is on its way to it.
                let carries = if sends { half.in_flight() } else { u64::from(meter.is_busy(now)) };
                carried += carries;
                busy += if meter.is_busy(now) { carries } else { 0 };
                recovering |= half.is_recovering();
                mss = u64::from(half.mss.max(536));
                rtt = rtt.max(subflow.handshake_rtt().map_or(Duration::ZERO, |rtt| Duration(2 * rtt.0)));
            }
            let delivery = if at_sender { &stream.by_ack } else { &stream.by_arrival };
            let active = stream.last_sent.max(connection.established);
            let silent = active.is_none_or(|last| now.since(last) > rtt);
            let cause = if !established {
                Cause::Handshake
            } else if busy > 0 && 2 * busy >= carried {
                Cause::Serialisation
            } else if at_sender && stream.in_flight() == 0 {
                Cause::Application
            } else if at_sender && stream.is_window_full(mss) {
                if delivery.is_blocked() { Cause::HeadOfLine } else { Cause::ReceiveWindow }
            } else if recovering {
                Cause::Retransmission
            } else if !at_sender && silent {
                // The receiver cannot know more of a silent sender.
                Cause::Application
            } else {
                Cause::CongestionWindow
            };
            if cause == Cause::Application && !at_sender && span >= silence::LEAST {
                connection.streams[direction].silence(now, span);
            }
            connection.spend(direction, cause, span);
        }
    }

    /// Takes a segment of half `half` of the subflow `at`.
    fn on_segment(&mut self, at: usize, half: usize, packet: &Packet<'_>) {
        let (now, segment) = (packet.time, &packet.view.segment);
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let other = half ^ 1;
        subflow.last = now;
        subflow.halves[half].counts.packets += 1;
        subflow.halves[other].on_heard(now);
        subflow.halves[half].counts.ce += u64::from(segment.ecn == anabranch_stack::segment::Ecn::Ce);
        if segment.flags.has(Flags::SYN) {
            on_syn(subflow, half, packet);
        }
        if let Some(timestamps) = segment.options.timestamps {
            subflow.halves[half].on_own_timestamp(now, timestamps.value);
            if segment.payload_len > 0 && timestamps.echo != 0 {
                subflow.halves[other].on_echo(now, timestamps.echo, packet.view.wire_len);
            }
        }
        let in_flight = self.in_flight(at, other);
        self.on_options(at, half, packet);
        if segment.flags.has(Flags::ACK) && !segment.flags.has(Flags::SYN) {
            self.on_ack(at, half, now, segment);
        }
        if in_flight > 0 && self.in_flight(at, other) == 0 {
            self.on_all_acked(at, other, now);
        }
        if segment.payload_len > 0 && !segment.flags.has(Flags::SYN) {
            self.on_payload(at, half, packet);
        }
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        if segment.flags.has(Flags::FIN) {
            subflow.halves[half].fin.get_or_insert(now);
        }
        if segment.flags.has(Flags::RST) && subflow.reset.is_none() {
            let reset = options::reset(segment);
            subflow.reset = Some(subflow::Reset { time: now, by: half, ..reset });
        }
    }

    /// Returns the bytes in flight of the stream that half `half` of the subflow `at` carries.
    fn in_flight(&self, at: usize, half: usize) -> u64 {
        let stream = self.subflows.get(at).and_then(|subflow| {
            let connection = self.connections.get(subflow.connection)?;
            Some(&connection.streams[subflow.direction(half) & 1])
        });
        stream.map_or(0, Stream::in_flight)
    }

    /// Everything that half `half` has sent is acknowledged.
    fn on_all_acked(&mut self, at: usize, half: usize, now: Time) {
        let Some(subflow) = self.subflows.get(at).filter(|subflow| subflow.is_at_sender(half)) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(subflow.connection) {
            connection.streams[subflow.direction(half) & 1].by_burst.on_done(now);
        }
    }

    /// Takes the acknowledgement of a segment.
    fn on_ack(&mut self, at: usize, half: usize, now: Time, segment: &Segment) {
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let other = half ^ 1;
        if subflow.ack.is_none() && half == 0 && subflow.syn_ack.is_some() {
            subflow.ack = Some(now);
        }
        let direction = subflow.direction(other);
        let scale = match (subflow.halves[half].scale, subflow.halves[other].scale) {
            (Some(own), Some(_)) => own,
            // Without the handshake the scale is not known.
            _ => 0,
        };
        let window_known = subflow.halves[half].has_syn;
        let number = subflow.number;
        let sender = &mut subflow.halves[other];
        let ack = sender.offset(segment.ack);
        // An acknowledgement of the SYN, or of bytes before the capture.
        let ack = u64::try_from(ack).unwrap_or(0);
        // A FIN takes a number too, and an acknowledgement far beyond the data is a damaged one.
        if ack > sender.next.saturating_add(1 << 30) {
            return;
        }
        let limit = if sender.fin.is_some() { sender.next } else { ack };
        let before = sender.acked;
        let arrived = &mut self.arrived;
        arrived.clear();
        let advanced = sender.on_ack(now, ack.min(limit), segment.options.sack.as_slice(), |range| {
            arrived.push(range);
        });
        if !advanced && ack == before && segment.payload_len == 0 && sender.in_flight() > 0 {
            sender.counts.duplicate_acks += 1;
        }
        let connection = subflow.connection;
        let Some(connection) = self.connections.get_mut(connection) else { return };
        if connection.established.is_none() && subflow.ack.is_some() {
            connection.established = Some(now);
        }
        let stream = &mut connection.streams[direction & 1];
        for range in &self.arrived {
            let notes = &mut self.notes;
            stream.by_ack.on_arrival(now, *range, number, |fresh| notes.add(direction, fresh, None, true));
        }
        if let Some(data_ack) = stream.data_ack {
            let until = data_ack.min(stream.highest);
            stream.by_ack.settle(now, until);
            stream.by_arrival.settle(now, until);
        }
        let tcp_level = matches!(connection.protocol, Protocol::Plain | Protocol::Fallback);
        if tcp_level && ack >= before {
            stream.data_ack = stream.data_ack.max(Some(ack));
            stream.last_acked = if advanced { Some(now) } else { stream.last_acked };
        }
        let window = u64::from(segment.window) << scale;
        let has_data_ack = segment.options.dss.is_some_and(|dss| dss.data_ack.is_some());
        if window_known && (tcp_level || has_data_ack) {
            stream.window = window;
        }
    }

    /// Takes the payload of a segment.
    fn on_payload(&mut self, at: usize, half: usize, packet: &Packet<'_>) {
        let (now, segment) = (packet.time, &packet.view.segment);
        self.settle(at, half, packet);
        let Some(subflow) = self.subflows.get_mut(at) else { return };
        let direction = subflow.direction(half);
        let number = subflow.number;
        let sender = &mut subflow.halves[half];
        let Ok(start) = u64::try_from(sender.offset(segment.seq)) else { return };
        // Far from everything: a damaged packet.
        if start > sender.next.saturating_add(1 << 30) {
            return;
        }
        let end = start + u64::from(segment.payload_len);
        let timestamps = segment.options.timestamps;
        let kind = sender.on_data(now, start, segment.payload_len, packet.view.wire_len, timestamps);
        if kind == Kind::None {
            return;
        }
        let number_of = subflow.connection;
        let (at_sender, rtt) = (subflow.is_at_sender(half), subflow.handshake_rtt());
        let sender = &mut subflow.halves[half];
        let Some(connection) = self.connections.get_mut(number_of) else { return };
        let other = connection.streams[(direction & 1) ^ 1].by_burst.last_begin();
        let stream = &mut connection.streams[direction & 1];
        let idle = if at_sender { stream.in_flight() == 0 } else { !stream.by_arrival.is_blocked() };
        let before = stream.first.map(|_| stream.highest);
        // Bytes that have arrived before, on this subflow or on another one.
        let delivered = sender.mapped(start, end).zip(stream.by_arrival.prefix);
        let repeats =
            kind == Kind::Retransmission || delivered.is_some_and(|(range, prefix)| range.end <= prefix);
        sender.arrivals.on_arrival(now, segment.payload_len >= sender.longest_payload, repeats);
        stream.data_segments += 1;
        let silent = core::mem::take(&mut stream.idle);
        let sum = &mut stream.account[Cause::Application as usize];
        *sum = sum.saturating_add(silent);
        if stream.in_flight() == 0 {
            stream.bursts += 1;
            // Nothing was on its way: the silence before is no gap in the delivery.
            if let Some(last) = &mut stream.by_ack.last_advance {
                *last = now;
            }
        }
        stream.first_sent = stream.first_sent.or(Some(now));
        let mut at = start;
        while at < end {
            let Some(range) = sender.mapped(at, end) else { break };
            at += range.end - range.start;
            let notes = &mut self.notes;
            stream
                .by_arrival
                .on_arrival(now, range, number, |fresh| notes.add(direction, fresh, None, false));
            stream.first = Some(stream.first.map_or(range.start, |first| first.min(range.start)));
            if range.end > stream.highest {
                stream.highest = range.end;
                stream.last_sent = Some(now);
            }
            let mut segment = SendKind::New;
            if kind == Kind::New {
                let again = stream.on_sent(range.start, range.end);
                if again > 0 {
                    stream.reinjected_bytes += again;
                    stream.reinjected_segments += 1;
                    segment = SendKind::Reinjection;
                }
            } else if kind == Kind::Retransmission {
                segment = SendKind::Retransmission;
            }
            self.notes.add(direction, range, Some(segment), false);
        }
        let bytes = stream.highest.saturating_sub(before.or(stream.first).unwrap_or(stream.highest));
        if bytes > 0 {
            let rtt = rtt.unwrap_or(UNKNOWN_RTT);
            let sent = Sent { now, bytes, is_idle: idle, at_sender, rtt, other };
            self.bursts += usize::from(stream.by_burst.on_data(&sent, self.bursts < MAX_BURSTS));
        } else if !at_sender && !stream.by_arrival.is_blocked() {
            stream.by_burst.on_done(now);
        }
    }

    /// Ends what is open at the end of the capture.
    pub(crate) fn finish(&mut self) {
        for subflow in &mut self.subflows {
            for half in &mut subflow.halves {
                half.finish();
            }
        }
    }
}

/// Takes a SYN or a SYN/ACK.
fn on_syn(subflow: &mut Subflow, half: usize, packet: &Packet<'_>) {
    let segment = &packet.view.segment;
    let answers = segment.flags.has(Flags::ACK);
    let first = !subflow.halves[half].has_syn;
    if first {
        subflow.halves[half].on_syn(segment.seq, &segment.options);
        subflow.syn_wire[half] = packet.view.wire_len;
    }
    if answers {
        subflow.syn_ack = subflow.syn_ack.or(Some(packet.time));
        subflow.syn_ack_count += 1;
        if subflow.syn_heading.is_none() {
            subflow.syn_heading = packet.heading.map(|heading| match heading {
                Heading::In => Heading::Out,
                Heading::Out => Heading::In,
            });
        }
    } else {
        subflow.syn = subflow.syn.or(Some(packet.time));
        subflow.last_syn = if subflow.syn_ack.is_none() { Some(packet.time) } else { subflow.last_syn };
        subflow.syn_seq = Some(segment.seq);
        subflow.syn_count += 1;
        subflow.syn_heading = subflow.syn_heading.or(packet.heading);
    }
}
