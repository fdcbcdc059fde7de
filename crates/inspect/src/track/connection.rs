//! One connection: its keys, its streams, and the account of its time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_stack::segment::{Key, MappedDsn};
use anabranch_stack::seq::Dsn;
use anabranch_units::{Duration, Time};

use super::bursts::Bursts;
use super::delivery::Delivery;
use crate::cause::Cause;

/// Offsets of the data level begin here if the key is not known.
const UNKNOWN_START: u64 = 1 << 40;
/// A number that is further from the last one, in bytes, is damaged. Narrow numbers are nearer than 2^31.
const FAR: u64 = 1 << 32;
/// The most ranges that are remembered to recognise reinjections.
const MAX_RANGES: usize = 1 << 14;
/// The most addresses and faults of a connection.
const MAX_LIST: usize = 64;

/// The protocol of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Protocol {
    /// Not known yet: the handshake is not in the capture.
    #[default]
    Unknown,
    /// TCP without options of kind 30.
    Plain,
    /// The client asked for Multipath TCP.
    Asked,
    /// Both hosts have agreed to Multipath TCP.
    Multipath,
    /// Multipath TCP was asked for or agreed to, and the connection continued as TCP.
    Fallback,
}

/// One stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    base: Option<u64>,
    near: Option<Dsn>,
    /// The offset after the last byte that was sent, and the greatest DATA_ACK.
    pub highest: u64,
    pub first: Option<u64>,
    pub data_ack: Option<u64>,
    pub window: u64,
    /// Ranges that have been sent, from which a reinjection is recognised.
    sent: BTreeMap<u64, u64>,
    pub by_ack: Delivery,
    pub by_arrival: Delivery,
    pub reinjected_segments: u64,
    pub reinjected_bytes: u64,
    pub data_fin: Option<Time>,
    /// Time by cause, in the order of [`Cause::ALL`].
    pub account: [u64; Cause::ALL.len()],
    /// Time in which the application had sent nothing, since the last data.
    pub idle: u64,
    /// Long times without data at the receiver, which count as the application's: the end and the length of each.
    pub silences: Vec<(Time, Duration)>,
    pub first_sent: Option<Time>,
    pub last_sent: Option<Time>,
    pub last_acked: Option<Time>,
    pub data_segments: u64,
    /// Periods of sending, each after a pause with nothing in flight.
    pub bursts: u64,
    /// The data between the pauses of the application.
    pub by_burst: Bursts,
}

impl Stream {
    /// Sets the first number of the stream, by the key.
    pub(crate) fn set_base(&mut self, initial: Dsn) {
        if self.near.is_none() {
            self.base = Some(initial.add(1).0);
            self.near = Some(initial.add(1));
        }
    }

    /// True if the first number is known.
    pub(crate) fn has_base(&self) -> bool {
        self.base.is_some()
    }

    /// Returns the first offset, if the first number of the stream is not known; else 0.
    pub(crate) fn unknown_start(&self) -> u64 {
        // The sequence numbers of a TCP without a SYN begin at 1 << 32, those of the data level at 1 << 40.
        self.first.filter(|first| *first >= 1 << 32).unwrap_or(0)
    }

    /// Returns the number on the wire near which the stream is.
    pub(crate) fn near(&self) -> Option<Dsn> {
        self.near
    }

    /// Returns the offset of a number of the wire; none if it is far from the stream, as in a damaged packet.
    pub(crate) fn offset(&mut self, number: MappedDsn) -> Option<u64> {
        let dsn = match (number, self.near) {
            (MappedDsn::Wide(dsn), _) => dsn,
            (MappedDsn::Narrow(low), Some(near)) => near.expand(low),
            (MappedDsn::Narrow(low), None) => Dsn(u64::from(low)),
        };
        if self.near.is_some_and(|near| dsn.distance_from(near).unsigned_abs() > FAR) {
            return None;
        }
        let base = *self.base.get_or_insert(dsn.0.wrapping_sub(UNKNOWN_START));
        let offset = Some(dsn.0.wrapping_sub(base)).filter(|offset| *offset < 1 << 48)?;
        if self.near.is_none_or(|near| dsn.distance_from(near) > 0) {
            self.near = Some(dsn);
        }
        Some(offset)
    }

    /// Takes a range that is sent for the first time on its subflow; returns the bytes that another one has sent.
    pub(crate) fn on_sent(&mut self, start: u64, end: u64) -> u64 {
        let mut known = 0;
        let from =
            self.sent.range(..=start).next_back().filter(|(_, e)| **e > start).map_or(start, |(s, _)| *s);
        for (s, e) in self.sent.range(from..end) {
            known += (*e).min(end).saturating_sub((*s).max(start));
        }
        let (mut low, mut high) = (start, end);
        if let Some((s, e)) = self.sent.range(..=start).next_back().map(|(s, e)| (*s, *e))
            && e >= start
        {
            low = s;
            high = high.max(e);
        }
        while let Some((s, e)) = self.sent.range(low..=high).next().map(|(s, e)| (*s, *e)) {
            self.sent.remove(&s);
            high = high.max(e);
        }
        self.sent.insert(low, high);
        if self.sent.len() > MAX_RANGES {
            self.sent.pop_first();
        }
        known
    }

    /// Notes a long time without data that ends at `now`.
    pub(crate) fn silence(&mut self, now: Time, span: Duration) {
        if self.silences.len() < MAX_LIST {
            self.silences.push((now, span));
        }
    }

    /// The bytes that are sent and not acknowledged at the data level.
    pub(crate) fn in_flight(&self) -> u64 {
        self.highest.saturating_sub(self.data_ack.or(self.first).unwrap_or(self.highest))
    }

    /// True if the peer's window has no space for a segment of `mss` bytes.
    pub(crate) fn is_window_full(&self, mss: u64) -> bool {
        self.window > 0 && self.in_flight() + mss > self.window
    }
}

/// An announced address.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    pub time: Time,
    /// The host of the connection that announced it: 0 the client.
    pub by: usize,
    pub id: u8,
    pub ip: IpAddr,
    pub port: Option<u16>,
    pub echoed: Option<Time>,
    pub removed: Option<Time>,
    pub repeats: u32,
}

/// A fault against a rule.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub time: Time,
    pub rule: &'static str,
    pub text: String,
    pub count: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub protocol: Protocol,
    /// 0 is RFC 6824, 1 RFC 8684.
    pub version: Option<u8>,
    pub keys: [Option<Key>; 2],
    pub tokens: [Option<u32>; 2],
    pub checksums: [bool; 2],
    pub subflows: Vec<usize>,
    pub streams: [Stream; 2],
    pub fallback: Option<(Time, String)>,
    pub addresses: Vec<Announced>,
    pub faults: Vec<Fault>,
    pub priority_changes: u32,
    pub fast_close: Option<(Time, usize)>,
    /// True if subflows were tied to it by their data sequence numbers only.
    pub by_continuity: bool,
    pub established: Option<Time>,
    pub last: Option<Time>,
    /// True if it is the connection of another one: its subflows have moved there.
    pub merged: bool,
}

impl Connection {
    /// Adds a fault, or counts it again.
    pub(crate) fn fault(&mut self, time: Time, rule: &'static str, text: impl Into<String>) {
        let text = text.into();
        if let Some(known) = self.faults.iter_mut().find(|fault| fault.rule == rule && fault.text == text) {
            known.count += 1;
        } else if self.faults.len() < MAX_LIST {
            self.faults.push(Fault { time, rule, text, count: 1 });
        }
    }

    /// Adds an announced address.
    pub(crate) fn announce(&mut self, new: Announced) {
        let same = |known: &&mut Announced| known.by == new.by && known.id == new.id && known.ip == new.ip;
        if let Some(known) = self.addresses.iter_mut().find(same) {
            known.repeats += 1;
        } else if self.addresses.len() < MAX_LIST {
            self.addresses.push(new);
        }
    }

    /// Marks the connection as a plain TCP from now on.
    pub(crate) fn fall_back(&mut self, time: Time, reason: impl Into<String>) {
        if self.protocol != Protocol::Fallback {
            self.protocol = Protocol::Fallback;
            self.fallback = Some((time, reason.into()));
        }
    }

    /// Adds `span` to the cause of a direction.
    pub(crate) fn spend(&mut self, direction: usize, cause: Cause, span: Duration) {
        let stream = &mut self.streams[direction & 1];
        // Idle time counts once more data comes; after the last data there is nothing to wait for.
        if cause == Cause::Application {
            stream.idle = stream.idle.saturating_add(span.0);
        } else if let Some(sum) = stream.account.get_mut(cause as usize) {
            *sum = sum.saturating_add(span.0);
        }
    }
}
