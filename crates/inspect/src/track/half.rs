//! One direction of a subflow: the bytes that one host sends, and what the other acknowledges.

use std::collections::VecDeque;

use anabranch_stack::segment::{Options, Timestamps};
use anabranch_stack::seq::{Seq, offset_near};
use anabranch_units::{Duration, Time};

use super::clock::Clock;
use super::meter::{Met, Meter};
use super::silence::{Arrivals, Tries};
use crate::histogram::Histogram;

/// The most segments in flight that are remembered: 64 MB of full segments.
const MAX_UNITS: usize = 1 << 16;
/// The most holes that are remembered.
const MAX_HOLES: usize = 1 << 14;
/// The most round trips that are remembered to judge losses.
const MAX_RECENT: usize = 1024;
/// A longer time without data is a pause.
const PAUSE: Duration = Duration::from_millis(100);
/// The most own timestamps that wait for their echo.
const MAX_ECHOES: usize = 1024;
/// Offsets begin here if the SYN is not in the capture, so that earlier bytes have an offset too.
const UNKNOWN_START: u64 = 1 << 32;

/// A segment that is not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Unit {
    start: u64,
    end: u64,
    sent: Time,
    wire: u32,
    tries: u32,
    sacked: bool,
    dsn: Option<u64>,
    /// The number of its first packet among the data packets of this direction, from 1.
    number: u64,
}

/// Bytes that have not been captured although later ones have.
#[derive(Clone, Copy, Debug)]
struct Hole {
    start: u64,
    end: u64,
    time: Time,
    timestamp: Option<u32>,
    queue: Met,
    /// The number that its first packet had among the data packets.
    number: u64,
}

/// A mapping of a range of the subflow to the data level.
#[derive(Clone, Copy, Debug)]
struct Map {
    start: u64,
    end: u64,
    dsn: u64,
}

/// A part of the data level that has arrived, as far as the capture shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub start: u64,
    pub end: u64,
}

/// A segment as its subflow sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// New data.
    New,
    /// Data that the capture has seen before, or that has been lost before it.
    Retransmission,
    /// Data that was overtaken by later data.
    Reordered,
    /// No data, or a probe of one byte.
    None,
}

/// Counters of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub packets: u64,
    pub bytes: u64,
    pub segments: u64,
    pub retransmitted: u64,
    pub retransmitted_packets: u64,
    pub spurious: u64,
    pub reordered: u64,
    pub dss: u64,
    pub ce: u64,
    pub duplicate_acks: u64,
    pub wire_bytes: u64,
}

/// One direction of a subflow.
#[derive(Debug, Default)]
pub(crate) struct Half {
    origin: Option<Seq>,
    /// True if the origin is the SYN of this direction.
    pub has_syn: bool,
    pub mss: u16,
    pub scale: Option<u8>,
    /// The first offset of the capture, and the one after the last.
    pub first: u64,
    pub next: u64,
    pub acked: u64,
    units: VecDeque<Unit>,
    holes: VecDeque<Hole>,
    maps: VecDeque<Map>,
    /// Without a SYN: the number of a mapping less its offset.
    numbered: Option<u32>,
    sacked: [(u64, u64); 4],
    /// Times of sending, round trips and queues, for the queue that a lost packet met.
    recent: VecDeque<(Time, Duration, Met)>,
    /// Own timestamps and the times at which they were first sent.
    echoes: VecDeque<(u32, Time)>,
    pub counts: Counts,
    /// Packets that were lost before the capture.
    lost: u64,
    /// From a segment to its acknowledgement, from the place of the capture.
    pub rtt: Histogram,
    /// From an own timestamp to the data that echoes it: the rest of the round trip and the other direction.
    pub echo_rtt: Histogram,
    /// The longest packet with such data that is not a super-packet, and the least time of packets of that length.
    pub echo_full: Option<(u32, Duration)>,
    pub by_ack: Meter,
    pub by_arrival: Meter,
    /// Transmissions without an answer, and pauses of the arrivals.
    pub tries: Tries,
    pub arrivals: Arrivals,
    clock: Clock,
    /// The queue that the last packet met, by its timestamp.
    last_queue: Met,
    pub first_data: Option<Time>,
    pub last_data: Option<Time>,
    /// The time with data, without longer pauses.
    pub active: Duration,
    /// True if a table was full.
    pub overflowed: bool,
    pub fin: Option<Time>,
    /// The packet length that is most frequent for full segments: the longest without offload.
    pub full_wire: u32,
    /// The least round trip of packets of that length.
    pub full_rtt: Option<Duration>,
    pub longest_payload: u32,
}

impl Half {
    /// Takes the SYN of this direction.
    pub(crate) fn on_syn(&mut self, seq: Seq, options: &Options) {
        self.origin = Some(seq.add(1));
        self.has_syn = true;
        if let Some(syn) = options.syn {
            (self.mss, self.scale) = (syn.mss, syn.window_scale);
        }
    }

    /// Returns the offset of `seq`; negative before the first byte.
    pub(crate) fn offset(&mut self, seq: Seq) -> i64 {
        match self.origin {
            Some(origin) => offset_near(origin, self.next.max(self.acked), seq),
            None => {
                self.origin = Some(seq.add(0_u64.wrapping_sub(UNKNOWN_START)));
                self.first = UNKNOWN_START;
                self.next = UNKNOWN_START;
                self.acked = UNKNOWN_START;
                UNKNOWN_START as i64
            }
        }
    }

    /// Returns the first sequence number, if the SYN is in the capture.
    pub(crate) fn number(&self) -> Option<u32> {
        self.origin.filter(|_| self.has_syn).map(|origin| origin.0)
    }

    /// Returns the number of packets on the wire for a captured segment, and their length with all headers.
    fn on_wire(&self, wire_len: u32, payload: u32) -> (u32, u32) {
        let mss = if self.mss > 0 { u32::from(self.mss) } else { 1460 };
        let headers = wire_len.saturating_sub(payload);
        // The MSS option does not count the options of each segment.
        let room = mss.saturating_sub(headers.saturating_sub(40).min(40)).max(64);
        let packets = if payload <= mss { 1 } else { payload.div_ceil(room) };
        (packets, payload.saturating_add(packets.saturating_mul(headers)))
    }

    /// Adds a mapping of the data level: `dsn` is an offset of the stream.
    pub(crate) fn map(&mut self, start: u64, len: u64, dsn: u64) -> bool {
        let end = start.saturating_add(len);
        let mut consistent = true;
        if let Some(known) = self.maps.iter().rev().find(|map| map.start <= start && start < map.end) {
            consistent = known.dsn.wrapping_add(start - known.start) == dsn;
            if consistent && known.end >= end {
                return true;
            }
        }
        if self.maps.len() >= MAX_HOLES {
            self.maps.pop_front();
        }
        self.maps.push_back(Map { start, end, dsn });
        consistent
    }

    /// True if a mapping is known.
    pub(crate) fn has_maps(&self) -> bool {
        !self.maps.is_empty()
    }

    /// Returns the offset of the number `ssn` of a mapping although the SYN is not in the capture: the mapping of `len`
    /// bytes has the segment at `seq` inside.
    pub(crate) fn relative(&mut self, ssn: u32, seq: u64, len: u64) -> u64 {
        if let Some(known) = self.numbered {
            let place = u64::try_from(offset_near(Seq(known), seq, Seq(ssn))).unwrap_or(seq);
            if place <= seq && seq < place + len.max(1) {
                return place;
            }
        }
        // Most mappings begin with their segment.
        self.numbered = Some(ssn.wrapping_sub(seq as u32));
        seq
    }

    /// Returns the data level's range of a part of the subflow, as far as one mapping goes.
    pub(crate) fn mapped(&self, start: u64, end: u64) -> Option<Arrived> {
        let map = self.maps.iter().rev().find(|map| map.start <= start && start < map.end)?;
        let dsn = map.dsn.wrapping_add(start - map.start);
        Some(Arrived { start: dsn, end: dsn.saturating_add(end.min(map.end) - start) })
    }

    /// Takes `len` bytes of payload at `start`. `wire_len` is the length of the packet.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        start: u64,
        len: u32,
        wire_len: u32,
        timestamps: Option<Timestamps>,
    ) -> Kind {
        let end = start + u64::from(len);
        let (packets, wire) = self.on_wire(wire_len, len);
        // A probe of a window or of a peer that is silent: one byte before the next one.
        if len <= 1 && start + 1 == self.next && start < self.acked {
            return Kind::None;
        }
        let full = u64::from(self.longest_payload.clamp(1, 1460));
        // The answer to a packet from before the last answered one is not due: it was lost.
        let newest = self.recent.back().map_or(Time::ZERO, |(sent, ..)| *sent);
        let at = self.units.partition_point(|unit| unit.sent <= newest);
        let oldest = self.units.get(at).or(self.units.front()).map(|unit| unit.sent);
        self.tries.on_sent(now, self.in_flight().div_ceil(full), oldest);
        self.counts.bytes += u64::from(len);
        self.counts.segments += u64::from(packets);
        self.counts.wire_bytes += u64::from(wire);
        self.longest_payload = self.longest_payload.max(len);
        if packets == 1 && wire_len > self.full_wire {
            (self.full_wire, self.full_rtt) = (wire_len, None);
        }
        self.first_data = self.first_data.or(Some(now));
        let gap = self.last_data.replace(now).map_or(Duration::ZERO, |last| now.since(last));
        if gap < PAUSE {
            self.active += gap;
        }
        let queue = self.clock.queue(now, timestamps.map(|timestamps| timestamps.value));
        let queue = queue.map_or_else(Met::default, |(queue, base)| {
            self.by_arrival.sample(now, queue, base, u64::from(wire), packets)
        });
        let before = core::mem::replace(&mut self.last_queue, queue);
        let dsn = self.mapped(start, end).map(|mapped| mapped.start);
        let number = self.counts.segments - u64::from(packets) + 1;
        let unit = Unit { start, end, sent: now, wire, tries: 1, sacked: false, dsn, number };
        if start >= self.next {
            if start > self.next {
                self.hole(Hole {
                    start: self.next,
                    end: start,
                    time: now,
                    timestamp: timestamps.map(|timestamps| timestamps.value),
                    // The end of a burst is shown by a packet that comes later, when the queue is short again.
                    queue: queue.max(before),
                    number: number + self.lost,
                });
            }
            self.next = end;
            self.push(unit);
            return Kind::New;
        }
        let kind = self.again(now, start, end.min(self.next), timestamps, unit);
        if end > self.next {
            let dsn = dsn.map(|dsn| dsn + (self.next - start));
            self.push(Unit { start: self.next, dsn, ..unit });
            self.next = end;
        }
        match kind {
            Kind::Retransmission => {
                self.counts.retransmitted += u64::from(packets);
                self.counts.retransmitted_packets += 1;
            }
            Kind::Reordered => self.counts.reordered += 1,
            _ => {}
        }
        kind
    }

    fn push(&mut self, unit: Unit) {
        if self.units.len() >= MAX_UNITS {
            self.units.pop_front();
            self.overflowed = true;
        }
        self.units.push_back(unit);
    }

    fn hole(&mut self, hole: Hole) {
        if self.holes.len() >= MAX_HOLES {
            self.holes.pop_front();
            self.overflowed = true;
        }
        self.holes.push_back(hole);
    }

    /// Takes data below the highest offset.
    fn again(&mut self, now: Time, start: u64, end: u64, timestamps: Option<Timestamps>, new: Unit) -> Kind {
        let at = self.holes.partition_point(|hole| hole.end <= start);
        if let Some(hole) = self.holes.get(at).copied().filter(|hole| hole.start < end) {
            self.fill(at, hole, start, end);
            let place = self.units.partition_point(|unit| unit.start < start);
            if self.units.len() < MAX_UNITS {
                self.units.insert(place, Unit { end, ..new });
            }
            // A retransmission was made after the packet that showed the hole; an overtaken packet before it.
            let later = match (timestamps, hole.timestamp) {
                (Some(own), Some(shown)) if own.value != shown => own.value.wrapping_sub(shown) as i32 > 0,
                _ => now.since(hole.time) > Duration::from_millis(3),
            };
            if !later {
                return Kind::Reordered;
            }
            let payload = u64::from(self.longest_payload.clamp(1, 1460));
            let lost = (end.min(hole.end) - start.max(hole.start)).div_ceil(payload);
            let before = start.saturating_sub(hole.start) / payload;
            for n in 0..lost.min(64) {
                self.by_arrival.loss(start, hole.queue, hole.number + before + n, hole.time);
            }
            self.lost += lost;
            return Kind::Retransmission;
        }
        let at = self.units.partition_point(|unit| unit.end <= start);
        let Some(unit) = self.units.get(at).copied().filter(|unit| unit.start < end) else {
            return Kind::Retransmission;
        };
        let number = new.number;
        if let Some((rtt, met)) = self.met_near(unit.sent) {
            let base = self.rtt.min().unwrap_or(rtt);
            let before = start.saturating_sub(unit.start) / u64::from(self.longest_payload.clamp(1, 1460));
            let queue = Met { delay: Duration(rtt.0.saturating_sub(base.0)), ..met };
            self.by_ack.loss(start, queue, unit.number + before, unit.sent + rtt);
        }
        self.split(at, start, end);
        let at = self.units.partition_point(|unit| unit.end <= start);
        for unit in self.units.iter_mut().skip(at).take_while(|unit| unit.start < end) {
            unit.tries += 1;
            (unit.sent, unit.number) = (now, number);
        }
        Kind::Retransmission
    }

    /// Removes `start..end` from the hole at `at`.
    fn fill(&mut self, at: usize, hole: Hole, start: u64, end: u64) {
        self.holes.remove(at);
        if end < hole.end {
            self.holes.insert(at, Hole { start: end, ..hole });
        }
        if start > hole.start {
            self.holes.insert(at, Hole { end: start, ..hole });
        }
    }

    /// Splits the segment at `at`, a super-packet, so that `start..end` is a segment.
    fn split(&mut self, at: usize, start: u64, end: u64) {
        for place in [start, end] {
            let at = self
                .units
                .iter()
                .skip(at)
                .position(|unit| unit.start < place && place < unit.end)
                .map(|n| n + at);
            let Some(at) = at.filter(|_| self.units.len() < MAX_UNITS) else { continue };
            let Some(unit) = self.units.get(at).copied() else { continue };
            let share = (place - unit.start) as f64 / (unit.end - unit.start) as f64;
            let first = (f64::from(unit.wire) * share) as u32;
            let dsn = unit.dsn.map(|dsn| dsn + (place - unit.start));
            self.units.insert(at + 1, Unit { start: place, wire: unit.wire - first, dsn, ..unit });
            if let Some(unit) = self.units.get_mut(at) {
                (unit.end, unit.wire) = (place, first);
            }
        }
    }

    /// Returns the round trip of a packet sent about `time`, and the queue that it met.
    fn met_near(&self, time: Time) -> Option<(Duration, Met)> {
        let at = self.recent.partition_point(|(sent, ..)| *sent <= time);
        let before = at.checked_sub(1).and_then(|at| self.recent.get(at));
        before.or_else(|| self.recent.get(at)).map(|(_, rtt, met)| (*rtt, *met))
    }

    /// Takes an acknowledgement of the other side up to `ack`, with SACK blocks. Calls `arrived` with each range of
    /// the data level that it acknowledges.
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        ack: u64,
        sack: &[(Seq, Seq)],
        mut arrived: impl FnMut(Arrived),
    ) -> bool {
        let (mut bytes, mut packets, mut newest): (u64, u32, Option<(Time, Duration)>) = (0, 0, None);
        let (full, mut least) = (self.full_wire, self.full_rtt);
        // A packet from before a silence was acknowledged then, or waited for its end.
        let trusted = self.tries.trusted;
        let mut take = |unit: &Unit, until: u64| {
            let len = unit.end - unit.start;
            let share = if until >= unit.end { 1.0 } else { (until - unit.start) as f64 / len.max(1) as f64 };
            bytes += (f64::from(unit.wire) * share) as u64;
            packets += 1;
            if unit.tries == 1 && unit.sent >= trusted && newest.is_none_or(|(sent, _)| unit.sent >= sent) {
                newest = Some((unit.sent, now.since(unit.sent)));
                if unit.wire == full {
                    least = Some(least.map_or(now.since(unit.sent), |least| least.min(now.since(unit.sent))));
                }
            }
            if let Some(dsn) = unit.dsn {
                arrived(Arrived { start: dsn, end: dsn + (until.min(unit.end) - unit.start) });
            }
        };
        let mut missed: Vec<Arrived> = Vec::new();
        let advanced = ack > self.acked;
        while let Some(unit) = self.units.front_mut().filter(|unit| unit.start < ack) {
            let until = ack.min(unit.end);
            if !unit.sacked {
                take(unit, until);
            }
            if until < unit.end {
                let share = (until - unit.start) as f64 / (unit.end - unit.start) as f64;
                unit.wire -= (f64::from(unit.wire) * share) as u32;
                unit.dsn = unit.dsn.map(|dsn| dsn + (until - unit.start));
                unit.start = until;
                break;
            }
            self.units.pop_front();
        }
        self.acked = self.acked.max(ack);
        self.next = self.next.max(ack);
        while let Some(hole) = self.holes.front().copied().filter(|hole| hole.end <= ack) {
            self.holes.pop_front();
            // The capture has missed these bytes, and the receiver has them.
            let mut start = hole.start;
            while let Some(range) = self.mapped(start, hole.end).filter(|_| start < hole.end) {
                start += range.end - range.start;
                missed.push(range);
            }
        }
        while self.maps.len() > 8 && self.maps.front().is_some_and(|map| map.end <= ack) {
            self.maps.pop_front();
        }
        let mut blocks = [(0, 0); 4];
        let mut duplicate = None;
        for (number, (left, right)) in sack.iter().take(4).enumerate() {
            let Some(origin) = self.origin else { break };
            let left = u64::try_from(offset_near(origin, self.next, *left)).unwrap_or(0);
            let right = u64::try_from(offset_near(origin, self.next, *right)).unwrap_or(0);
            if left >= right {
                continue;
            }
            // RFC 2883: a first block that is acknowledged, or inside of the second block, is a duplicate.
            let inside = |blocks: &[(Seq, Seq)]| {
                blocks.get(1).is_some_and(|(l, r)| {
                    let l = offset_near(origin, self.next, *l);
                    let r = offset_near(origin, self.next, *r);
                    l <= left as i64 && right as i64 <= r
                })
            };
            if number == 0 && (right <= self.acked || inside(sack)) {
                duplicate = Some((left, right));
                continue;
            }
            blocks[number] = (left, right);
            // The parts that the last acknowledgement did not have.
            let known =
                self.sacked.iter().find(|known| known.0 < known.1 && known.0 < right && left < known.1);
            let parts = match known {
                Some(known) => [(left, known.0.min(right)), (known.1.max(left), right)],
                None => [(left, right), (0, 0)],
            };
            for (left, right) in parts.into_iter().filter(|(left, right)| left < right) {
                let at = self.units.partition_point(|unit| unit.end <= left);
                if self.units.get(at).is_some_and(|unit| unit.start < left) {
                    self.split(at, left, right);
                }
                let at = self.units.partition_point(|unit| unit.end <= left);
                let mut last = None;
                for (n, unit) in self.units.iter_mut().enumerate().skip(at) {
                    if unit.start >= right {
                        break;
                    }
                    if unit.end > right {
                        last = Some(n);
                        break;
                    }
                    if !unit.sacked {
                        unit.sacked = true;
                        take(unit, unit.end);
                    }
                }
                if let Some(last) = last {
                    self.split(last, right, right);
                    if let Some(unit) =
                        self.units.get_mut(last).filter(|unit| unit.end == right && !unit.sacked)
                    {
                        unit.sacked = true;
                        take(unit, right);
                    }
                }
            }
        }
        missed.into_iter().for_each(&mut arrived);
        self.full_rtt = least;
        self.sacked = blocks;
        if let Some((left, right)) = duplicate {
            let len = u64::from(self.longest_payload.clamp(1, 1460));
            self.counts.spurious += (right - left).div_ceil(len).min(64);
            self.by_ack.undo_loss(left, right);
        }
        if let Some((sent, rtt)) = newest {
            self.rtt.add(rtt);
            let base = self.rtt.min().unwrap_or(rtt);
            let met = self.by_ack.sample(now, Duration(rtt.0 - base.0.min(rtt.0)), base, bytes, packets);
            if self.recent.len() >= MAX_RECENT {
                self.recent.pop_front();
            }
            if self.recent.back().is_none_or(|(last, ..)| *last <= sent) {
                self.recent.push_back((sent, rtt, met));
            }
        } else if bytes > 0 {
            self.by_ack.on_unknown(now, bytes, packets);
        }
        advanced
    }

    /// Takes any packet of the other side.
    pub(crate) fn on_heard(&mut self, now: Time) {
        let least = self.rtt.min().unwrap_or(Duration::ZERO);
        self.tries.on_heard(now, least, self.last_rtt().map_or(least, |(_, rtt)| rtt));
    }

    /// Ends what is open at the end of the capture.
    pub(crate) fn finish(&mut self) {
        self.by_ack.finish();
        self.by_arrival.finish();
        self.tries.finish(self.last_rtt().map_or(Duration::ZERO, |(_, rtt)| rtt));
    }

    /// Takes a timestamp that this side sends.
    pub(crate) fn on_own_timestamp(&mut self, now: Time, value: u32) {
        self.clock.on_value(now, value);
        if self.echoes.back().is_some_and(|(last, _)| value.wrapping_sub(*last) as i32 <= 0) {
            return;
        }
        if self.echoes.len() >= MAX_ECHOES {
            self.echoes.pop_front();
        }
        self.echoes.push_back((value, now));
    }

    /// Takes data of the other side, in a packet of `wire` bytes, that echoes a timestamp of this side.
    pub(crate) fn on_echo(&mut self, now: Time, echo: u32, wire: u32) {
        while let Some((value, sent)) = self.echoes.front().copied() {
            let ahead = value.wrapping_sub(echo) as i32;
            if ahead > 0 {
                return;
            }
            self.echoes.pop_front();
            if ahead == 0 {
                let rtt = now.since(sent);
                self.echo_rtt.add(rtt);
                // A path carries no longer packets, so it is several.
                let limit = if self.mss > 0 { u32::from(self.mss) + 60 } else { 1520 };
                let longest = self.echo_full.map_or(0, |(longest, _)| longest);
                if (longest..=limit).contains(&wire) {
                    let least =
                        self.echo_full.filter(|_| wire == longest).map_or(rtt, |(_, least)| least.min(rtt));
                    self.echo_full = Some((wire, least));
                }
            }
        }
    }

    /// True if bytes are missing that were sent before others: they are being retransmitted.
    pub(crate) fn is_recovering(&self) -> bool {
        self.units.front().is_some_and(|unit| unit.tries > 1)
            || !self.holes.is_empty()
            || self.sacked.iter().any(|(left, right)| left < right)
    }

    /// The last round trip, and the time at which its data was sent.
    pub(crate) fn last_rtt(&self) -> Option<(Time, Duration)> {
        self.recent.back().map(|(sent, rtt, _)| (*sent, *rtt))
    }

    /// The bytes that are sent and not acknowledged.
    pub(crate) fn in_flight(&self) -> u64 {
        self.next.saturating_sub(self.acked.max(self.first))
    }
}
