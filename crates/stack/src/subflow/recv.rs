//! The receiving half of a subflow: received data, and the timing of acknowledgements.

use anabranch_units::{Duration, Time};

use super::growth::Growth;
use crate::config::{AckConfig, ReceiveBuffer};
use crate::ranges::RangeSet;
use crate::segment::SackBlocks;
use crate::seq::{DataRange, Seq};

/// The maximum number of pieces held after a hole: more than any window of real segments has, so that a peer
/// that sends single octets cannot exhaust memory.
const MAX_PIECES: usize = 16_384;

/// The minimum silence, added to the round trip, after which the sender is assumed to start anew: the minimum
/// timeout.
const SILENCE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum AckDue {
    /// The empty list.
    #[default]
    Nothing,
    /// When the timer expires, or with the next data.
    Later,
    /// At once.
    Now,
}

/// The receiving half. Offsets count from the peer's SYN, which is 0.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// The peer's initial sequence number.
    pub irs: Seq,
    nxt: u64,
    out_of_order: RangeSet,
    /// The starts of the latest out-of-order arrivals, the newest first (RFC 2018 section 4).
    recent: [u32; 4],
    /// The range that arrived twice; empty if there is nothing to report.
    dsack: DataRange,
    due: AckDue,
    unacked: u32,
    quick: u16,
    ack_at: Time,
    config: Rules,
    /// The time of the last data, in milliseconds; the maximum value if there is none.
    data_at: u32,
    /// True if data that is not acknowledged includes the end of a burst.
    pushed: bool,
    /// The advertised window, with [`AckConfig::growth`].
    pub growth: Growth,
    /// The offset of the peer's FIN; the maximum value if unknown.
    fin: u64,
    last_ack_sent: u64,
    /// The estimated length of the peer's full segments, and the length of the last segment.
    full_len: u16,
    last_len: u16,
}

/// RFC 9293 section 3.7.1: the default MSS of an unknown path.
const DEFAULT_MSS: u32 = 536;

/// The offset of an unknown FIN.
const NO_FIN: u64 = u64::MAX;

/// [`AckConfig`] in less memory.
#[derive(Clone, Copy, Debug)]
struct Rules {
    delay: Duration,
    every: u16,
    quick: u16,
    growth: bool,
    push: bool,
    drain: bool,
}

impl Rules {
    fn of(config: AckConfig) -> Rules {
        let AckConfig { every, delay, quick, growth, push, drain } = config;
        let short = |n: u32| n.min(u32::from(u16::MAX)) as u16;
        Rules { delay, every: short(every), quick: short(quick), growth, push, drain }
    }
}

/// The effect of received payload on the subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// True if the bytes advanced the cumulative acknowledgement.
    pub advanced: bool,
    /// True if nothing was new.
    pub duplicate: bool,
}

impl Receiver {
    /// Returns a receiver that has received the peer's SYN with number `irs`, and has this receive buffer.
    pub(super) fn new(irs: Seq, config: AckConfig, buffer: ReceiveBuffer) -> Receiver {
        Receiver {
            irs,
            nxt: 1,
            out_of_order: RangeSet::new(),
            recent: [0; 4],
            dsack: DataRange::default(),
            due: AckDue::Nothing,
            unacked: 0,
            quick: Rules::of(config).quick,
            ack_at: Time::NEVER,
            config: Rules::of(config),
            data_at: u32::MAX,
            pushed: false,
            growth: Growth::new(buffer),
            fin: NO_FIN,
            last_ack_sent: 1,
            full_len: DEFAULT_MSS as u16,
            last_len: 0,
        }
    }

    /// True if a segment with this payload is a full one for its sender. The full length is not signalled, as
    /// the path may admit less than the MSS: it is the longest seen, or, if it has become less, the length of
    /// two consecutive segments (as Linux estimates its `rcv_mss`). Two of `mss` or more are several segments
    /// joined by offload, each of which counts (RFC 9293 section 3.8.6.3): they are acknowledged at once.
    #[inline]
    pub(super) fn measure(&mut self, now: Time, payload_len: u32, mss: u32) -> bool {
        if self.config.growth {
            self.grow(now, payload_len, mss);
        }
        if payload_len >= 2 * mss {
            self.want_ack();
            return true;
        }
        let len = payload_len.min(u32::from(u16::MAX)) as u16;
        if len > self.full_len || (len == self.last_len && payload_len >= DEFAULT_MSS) {
            self.full_len = len;
        }
        self.last_len = len;
        let full_sized = len >= self.full_len;
        self.pushed |= !full_sized;
        full_sized
    }

    /// Implements Linux's quick acknowledgements: of a segment that increases the advertised window, and of
    /// the first ones after a silence of more than a timeout, as at the beginning (`tcp_event_data_recv`).
    #[inline]
    fn grow(&mut self, now: Time, payload_len: u32, mss: u32) {
        let now_ms = (now.as_micros() / 1000) as u32;
        let silence = Duration::from_millis(u64::from(now_ms.saturating_sub(self.data_at)));
        if silence > SILENCE + self.growth.rtt() {
            self.quick = self.quick.max(self.config.quick);
        }
        self.data_at = now_ms;
        if self.growth.on_data(payload_len, mss) {
            self.quick |= 1;
        }
    }

    /// Handles a full segment that ended a burst of its sender, after the application has read everything:
    /// with [`AckConfig::push`] it is acknowledged at once, as the sender may wait for that
    /// (`tcp_cleanup_rbuf`).
    #[inline]
    pub(crate) fn on_pushed(&mut self) {
        if self.config.push && self.due == AckDue::Later {
            self.due = AckDue::Now;
        }
    }

    /// Records that the last segment ended a burst of its sender.
    #[inline]
    pub(crate) fn note_push(&mut self) {
        self.pushed = true;
    }

    /// Handles that the application has read everything: with [`AckConfig::drain`] the end of a burst is
    /// acknowledged at once (`mptcp_cleanup_rbuf`).
    #[inline]
    pub(crate) fn on_drained(&mut self) {
        if self.config.drain && self.pushed && self.due == AckDue::Later && self.out_of_order.is_empty() {
            self.due = AckDue::Now;
        }
    }

    /// Returns the next offset expected.
    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Returns the offset of the last acknowledgement.
    pub(super) fn last_ack_sent(&self) -> u64 {
        self.last_ack_sent
    }

    /// Returns the number of bytes received, in order or not; a FIN in order counts as one.
    pub(super) fn total(&self) -> u64 {
        let holds_fin = self.fin != NO_FIN && self.out_of_order.containing(self.fin).is_some();
        self.nxt + self.out_of_order.total() - u64::from(holds_fin)
    }

    /// Returns the number of bytes held after a hole.
    #[inline]
    pub(crate) fn out_of_order(&self) -> u64 {
        self.out_of_order.total()
    }

    /// Returns the number of missing pieces of `range`, and the first of them.
    pub(crate) fn gaps(&self, range: DataRange) -> (u32, DataRange) {
        let (mut count, mut first) = (0, DataRange::default());
        let mut cursor = range.start.max(self.nxt);
        let mut note = |gap: DataRange| {
            if !gap.is_empty() {
                if count == 0 {
                    first = gap;
                }
                count += 1;
            }
        };
        for held in self.out_of_order.as_slice() {
            if held.end <= cursor {
                continue;
            }
            if held.start >= range.end {
                break;
            }
            note(DataRange::new(cursor, held.start.min(range.end)));
            cursor = held.end;
        }
        note(DataRange::new(cursor, range.end));
        (count, first)
    }

    /// Returns the maximum number of bytes that are advertised beyond those received.
    #[inline]
    pub(super) fn offered(&self) -> u64 {
        if self.config.growth { self.growth.window() } else { u64::MAX }
    }

    pub(crate) fn ack(&self) -> Seq {
        self.irs.add(self.nxt)
    }

    /// True if the peer's FIN has been reached in order.
    pub(crate) fn finished(&self) -> bool {
        self.nxt > self.fin
    }

    /// True if nothing is held after a hole, and no end is known.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.out_of_order.is_empty() && self.fin == NO_FIN
    }

    /// Receives the next `len` bytes, if [`Receiver::is_complete`]: a cheaper [`Receiver::arrive`].
    #[inline]
    pub(super) fn take_expected(&mut self, now: Time, len: u64, full_sized: bool) {
        debug_assert!(self.is_complete());
        self.nxt += len;
        if !self.dsack.is_empty() {
            self.due = AckDue::Now;
        } else {
            self.count(now, full_sized);
        }
    }

    /// Receives the payload `range` (and a FIN after it); calls `fresh` with each new part.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        range: DataRange,
        fin: bool,
        full_sized: bool,
        mut fresh: impl FnMut(DataRange),
    ) -> Arrival {
        if fin && self.fin == NO_FIN && range.end >= self.nxt {
            self.fin = range.end;
        }
        // Nothing after the FIN is accepted.
        let limit = self.fin;
        let space = DataRange::new(range.start, range.end.min(limit));
        if space.end <= self.nxt && !(fin && self.fin == self.nxt) {
            // All of it was received before (RFC 2883 section 4).
            if !space.is_empty() {
                self.dsack = space;
            }
            self.due = AckDue::Now;
            if self.config.growth {
                // The peer retransmits received data: it lacks acknowledgements (`tcp_enter_quickack_mode`).
                self.quick = self.quick.max(self.config.quick);
            }
            return Arrival { advanced: false, duplicate: true };
        }
        if space.start > self.nxt {
            // The octet of a FIN is held, and selectively acknowledged, like a byte (RFC 2018 section 3: blocks
            // are of sequence space; Linux queues the segment of a FIN like any other).
            let space = DataRange::new(space.start, space.end + u64::from(fin && space.end == limit));
            if self.out_of_order.is_full(space, MAX_PIECES) {
                self.due = AckDue::Now;
                return Arrival { advanced: false, duplicate: true };
            }
            let mut new = 0;
            self.out_of_order.insert(space, |part| {
                new += part.len();
                let payload = DataRange::new(part.start, part.end.min(limit));
                if !payload.is_empty() {
                    fresh(payload);
                }
            });
            if new == 0 && !space.is_empty() {
                self.dsack = space;
            }
            self.remember(space.start);
            self.due = AckDue::Now;
            return Arrival { advanced: false, duplicate: new == 0 };
        }
        if space.start < self.nxt && !space.is_empty() {
            self.dsack = DataRange::new(space.start, self.nxt);
        }
        let had_holes = !self.out_of_order.is_empty();
        let new = DataRange::new(self.nxt, space.end);
        if !had_holes {
            if !new.is_empty() {
                fresh(new);
            }
        } else {
            let mut cursor = new.start;
            // Data already held out of order is not new.
            for held in self.out_of_order.as_slice() {
                if held.start >= new.end {
                    break;
                }
                let gap = DataRange::new(cursor, held.start.min(new.end));
                if !gap.is_empty() {
                    fresh(gap);
                }
                cursor = cursor.max(held.end);
            }
            if cursor < new.end {
                fresh(DataRange::new(cursor, new.end));
            }
        }
        self.nxt = self.nxt.max(space.end);
        while let Some(held) = self.out_of_order.pop_reached(self.nxt) {
            self.nxt = self.nxt.max(held.end);
        }
        let mut finished = false;
        if self.fin == self.nxt {
            self.nxt += 1;
            finished = true;
        }
        if had_holes || finished || !self.dsack.is_empty() {
            self.due = AckDue::Now;
        } else {
            self.count(now, full_sized);
        }
        Arrival { advanced: true, duplicate: false }
    }

    /// RFC 5681 section 4.2: an acknowledgement for every second full segment, and no later than the delay.
    #[inline]
    fn count(&mut self, now: Time, full_sized: bool) {
        self.unacked += 1;
        let every = self.config.every;
        if self.quick > 0 || (self.unacked >= u32::from(every) && (full_sized || every <= 1)) {
            self.due = AckDue::Now;
        } else if self.due == AckDue::Nothing {
            self.due = AckDue::Later;
            self.ack_at = now + self.config.delay;
        }
    }

    fn remember(&mut self, start: u64) {
        self.recent.copy_within(0..3, 1);
        self.recent[0] = start as u32;
    }

    /// Requests an acknowledgement at once.
    pub(crate) fn want_ack(&mut self) {
        self.due = AckDue::Now;
    }

    /// Cancels an acknowledgement that is due; the next one covers its segments.
    pub(crate) fn cancel_ack(&mut self) {
        self.due = AckDue::Nothing;
        self.ack_at = Time::NEVER;
    }

    /// True if an acknowledgement is due at once.
    #[inline]
    pub(crate) fn is_ack_due(&self) -> bool {
        self.due == AckDue::Now
    }

    /// Returns the time of a delayed acknowledgement.
    pub(crate) fn ack_at(&self) -> Time {
        if self.due == AckDue::Later { self.ack_at } else { Time::NEVER }
    }

    /// Handles the time of a delayed acknowledgement.
    pub(super) fn on_timer(&mut self, now: Time) {
        if self.due == AckDue::Later && self.ack_at <= now {
            self.due = AckDue::Now;
        }
    }

    /// Records that an acknowledgement was sent, with or without data.
    pub(crate) fn on_ack_sent(&mut self) {
        self.last_ack_sent = self.nxt;
        // A duplicate is reported by the next acknowledgement or not at all (RFC 2883 section 4).
        self.dsack = DataRange::default();
        if self.unacked > 0 {
            self.quick = self.quick.saturating_sub(1);
        }
        self.due = AckDue::Nothing;
        self.unacked = 0;
        self.pushed = false;
        self.ack_at = Time::NEVER;
    }

    /// True if there is anything to report in SACK blocks.
    pub(super) fn has_blocks(&self) -> bool {
        !self.dsack.is_empty() || !self.out_of_order.is_empty()
    }

    /// True if more than one hole is open, and no duplicate shows that an acknowledgement was lost.
    pub(super) fn has_several_holes(&self) -> bool {
        self.dsack.is_empty() && self.out_of_order.as_slice().len() > 1
    }

    /// Returns the SACK blocks of the next acknowledgement, at most `room` of them: a duplicate first (RFC
    /// 2883), then the block of the latest arrival, then the others by age (RFC 2018 section 4).
    pub(super) fn blocks(&mut self, room: u32) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        let room = room.min(4) as usize;
        if room == 0 {
            return blocks;
        }
        let dup = core::mem::take(&mut self.dsack);
        if !dup.is_empty() {
            blocks.push(self.irs.add(dup.start), self.irs.add(dup.end));
        }
        if self.out_of_order.is_empty() {
            return blocks;
        }
        let mut seen = [u64::MAX; 4];
        let mut count = 0;
        for start in self.recent {
            if blocks.as_slice().len() >= room {
                return blocks;
            }
            let start = self.nxt + u64::from(start.wrapping_sub(self.nxt as u32));
            let Some(range) = self.out_of_order.containing(start) else { continue };
            if seen[..count].contains(&range.start) {
                continue;
            }
            seen[count] = range.start;
            count += 1;
            blocks.push(self.irs.add(range.start), self.irs.add(range.end));
        }
        for range in self.out_of_order.as_slice().iter().rev() {
            if blocks.as_slice().len() >= room {
                break;
            }
            if !seen[..count].contains(&range.start) {
                blocks.push(self.irs.add(range.start), self.irs.add(range.end));
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConnectionConfig;

    const BUFFER: ReceiveBuffer = ReceiveBuffer::Fixed(anabranch_units::Bytes(60_000));

    fn receiver() -> Receiver {
        let mut config = ConnectionConfig::linux().ack;
        config.quick = 0;
        Receiver::new(Seq(u32::MAX), config, BUFFER)
    }

    fn arrive(receiver: &mut Receiver, start: u64, end: u64) -> Vec<DataRange> {
        let mut fresh = Vec::new();
        receiver.arrive(Time::ZERO, DataRange::new(start, end), false, true, |part| fresh.push(part));
        fresh
    }

    #[test]
    fn the_length_of_a_full_segment_follows_the_peer() {
        let mut receiver = Receiver::new(
            Seq(0),
            AckConfig { quick: 0, growth: false, ..ConnectionConfig::linux().ack },
            BUFFER,
        );
        assert!(!receiver.measure(Time::ZERO, 100, 1400));
        assert!(!receiver.measure(Time::ZERO, 100, 1400), "so little is no full segment, however often");
        assert!(receiver.measure(Time::ZERO, 1400, 1400));
        assert!(!receiver.measure(Time::ZERO, 1220, 1400), "the end of something, it seems");
        assert!(receiver.measure(Time::ZERO, 1220, 1400), "the path has become narrower");
        assert!(receiver.measure(Time::ZERO, 1220, 1400));
        assert!(!receiver.measure(Time::ZERO, 180, 1400));
        assert!(receiver.measure(Time::ZERO, 1400, 1400));
        assert_eq!(receiver.due, AckDue::Nothing);
        assert!(receiver.measure(Time::ZERO, 2800, 1400));
        assert_eq!(receiver.due, AckDue::Now, "two in one");
        assert!(
            receiver.measure(Time::ZERO, 1400, 1400),
            "joined segments do not change the length of a full one"
        );
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_a_lone_one_late() {
        let mut receiver = receiver();
        arrive(&mut receiver, 1, 101);
        assert_eq!(receiver.due, AckDue::Later);
        assert_eq!(receiver.ack_at(), Time::from_millis(40));
        arrive(&mut receiver, 101, 201);
        assert_eq!(receiver.due, AckDue::Now);
        receiver.on_ack_sent();
        arrive(&mut receiver, 201, 301);
        receiver.on_timer(Time::from_millis(39));
        assert_eq!(receiver.due, AckDue::Later);
        receiver.on_timer(Time::from_millis(40));
        assert_eq!(receiver.due, AckDue::Now);
        assert_eq!(receiver.ack(), Seq(300));
    }

    fn linux() -> Receiver {
        let ack = AckConfig { quick: 0, ..ConnectionConfig::linux().ack };
        Receiver::new(Seq(0), ack, ReceiveBuffer::Fixed(anabranch_units::Bytes(70_000)))
    }

    fn due_after(receiver: &mut Receiver, now: Time) -> AckDue {
        let full_sized = receiver.measure(now, 1448, 1448);
        receiver.take_expected(now, 1448, full_sized);
        let due = receiver.due;
        if due == AckDue::Now {
            receiver.on_ack_sent();
        }
        due
    }

    #[test]
    fn segments_that_raise_the_offered_window_are_acknowledged_at_once() {
        let mut receiver = linux();
        let dues: Vec<AckDue> = (0..6).map(|_| due_after(&mut receiver, Time::ZERO)).collect();
        // 64,240 + 2 x 2896 exceeds 70,000.
        assert_eq!(dues, [AckDue::Now, AckDue::Now, AckDue::Later, AckDue::Now, AckDue::Later, AckDue::Now]);
        receiver.growth.widen(100_000, 1 << 20);
        assert!((0..50).all(|_| due_after(&mut receiver, Time::ZERO) == AckDue::Now));
    }

    #[test]
    fn segments_after_a_silence_and_after_a_needless_copy_are_acknowledged_at_once() {
        let mut receiver = linux();
        receiver.config.quick = 3;
        while due_after(&mut receiver, Time::ZERO) == AckDue::Now {}
        due_after(&mut receiver, Time::ZERO);
        let dues = |receiver: &mut Receiver, now| [0; 4].map(|_| due_after(receiver, now) == AckDue::Now);
        assert_eq!(dues(&mut receiver, Time::from_millis(200)), [false, true, false, true]);
        assert_eq!(dues(&mut receiver, Time::from_millis(401)), [true, true, true, false]);
        receiver.on_ack_sent();
        receiver.arrive(Time::from_millis(401), DataRange::new(1, 100), false, false, |_| ());
        receiver.on_ack_sent();
        assert_eq!(dues(&mut receiver, Time::from_millis(401)), [true, true, true, false]);
    }

    #[test]
    fn a_short_segment_is_acknowledged_once_the_application_has_read_everything() {
        for (drain, len) in [(false, 700), (true, 700), (true, 1448)] {
            let mut receiver = linux();
            receiver.config.drain = drain;
            while due_after(&mut receiver, Time::ZERO) == AckDue::Now {
                receiver.on_ack_sent();
            }
            receiver.on_ack_sent();
            let full = receiver.measure(Time::ZERO, len, 1448);
            let nxt = receiver.nxt();
            receiver.arrive(Time::ZERO, DataRange::new(nxt, nxt + u64::from(len)), false, full, |_| ());
            assert_eq!(receiver.due, AckDue::Later);
            receiver.on_drained();
            assert_eq!(receiver.due == AckDue::Now, drain && len < 1448, "{drain} {len}");
            receiver.note_push();
            receiver.on_drained();
            assert_eq!(receiver.due == AckDue::Now, drain, "{drain} {len}, with PSH");
        }
    }

    #[test]
    fn the_end_of_a_burst_is_acknowledged_at_once() {
        for push in [false, true] {
            let mut receiver = linux();
            receiver.config.push = push;
            while due_after(&mut receiver, Time::ZERO) == AckDue::Now {}
            assert_eq!(receiver.due, AckDue::Later);
            receiver.on_pushed();
            assert_eq!(receiver.due == AckDue::Now, push);
        }
    }

    #[test]
    fn holes_are_reported_with_the_latest_arrival_first() {
        let mut receiver = receiver();
        arrive(&mut receiver, 301, 401);
        arrive(&mut receiver, 701, 801);
        arrive(&mut receiver, 501, 601);
        let origin = Seq(u32::MAX);
        let block = |start, end| (origin.add(start), origin.add(end));
        assert_eq!(receiver.blocks(3).as_slice(), [block(501, 601), block(701, 801), block(301, 401)]);
        assert_eq!(receiver.blocks(1).as_slice(), [block(501, 601)]);
        assert_eq!(arrive(&mut receiver, 1, 351), [DataRange::new(1, 301)]);
        assert_eq!(receiver.due, AckDue::Now);
        assert_eq!(receiver.nxt(), 401);
    }

    #[test]
    fn the_total_counts_received_data_in_order_or_not() {
        let mut receiver = receiver();
        arrive(&mut receiver, 1, 101);
        arrive(&mut receiver, 201, 301);
        assert_eq!(receiver.total(), 101 + 100);
    }

    #[test]
    fn a_duplicate_is_reported_once_and_first() {
        let mut receiver = receiver();
        arrive(&mut receiver, 1, 201);
        arrive(&mut receiver, 301, 401);
        assert!(arrive(&mut receiver, 1, 101).is_empty());
        let origin = Seq(u32::MAX);
        let block = |start, end| (origin.add(start), origin.add(end));
        assert_eq!(receiver.blocks(2).as_slice(), [block(1, 101), block(301, 401)]);
        assert_eq!(receiver.blocks(2).as_slice(), [block(301, 401)]);
    }

    #[test]
    fn the_fin_takes_one_number_after_the_data() {
        let mut receiver = receiver();
        receiver.arrive(Time::ZERO, DataRange::new(101, 201), true, true, |_| ());
        assert!(!receiver.finished());
        arrive(&mut receiver, 1, 101);
        assert!(receiver.finished());
        assert_eq!(receiver.nxt(), 202);
        // Data after the FIN is ignored.
        assert!(arrive(&mut receiver, 201, 301).is_empty());
        assert_eq!(receiver.nxt(), 202);
    }

    fn block(start: u64, end: u64) -> (Seq, Seq) {
        (Seq(u32::MAX).add(start), Seq(u32::MAX).add(end))
    }

    #[test]
    fn data_is_fresh_once_and_duplicates_are_reported() {
        let mut random = 7_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..300 {
            let mut receiver = receiver();
            let mut here = [false; 400];
            here[0] = true;
            for _ in 0..25 {
                let start = 1 + draw(150);
                let end = start + 1 + draw(40);
                let before = receiver.nxt();
                let mut fresh = Vec::new();
                let range = DataRange::new(start, end);
                let arrival = receiver.arrive(Time::ZERO, range, false, true, |part| fresh.push(part));
                assert!(fresh.iter().all(|part| !part.is_empty()), "{fresh:?}");
                let none = fresh.is_empty();
                for part in fresh {
                    for octet in part.start..part.end {
                        assert!(range.start <= octet && octet < range.end);
                        assert!(!core::mem::replace(&mut here[octet as usize], true));
                    }
                }
                assert!((start..end).all(|octet| here[octet as usize]));
                let nxt = here.iter().position(|here| !here).unwrap() as u64;
                assert_eq!(receiver.nxt(), nxt);
                assert_eq!(arrival, Arrival { advanced: nxt > before, duplicate: none });
                let holes = receiver.out_of_order.as_slice().to_vec();
                let held: u64 = holes.iter().map(|range| range.len()).sum();
                assert_eq!(held + nxt, here.iter().filter(|here| **here).count() as u64);
                let duplicate = if end <= before || (none && start > before) {
                    Some(block(start, end))
                } else {
                    (start < before).then(|| block(start, before))
                };
                assert_eq!(receiver.has_blocks(), duplicate.is_some() || held > 0);
                assert_eq!(receiver.has_several_holes(), duplicate.is_none() && holes.len() > 1);
                let said = receiver.blocks(4);
                assert_eq!(said.as_slice().len(), 4.min(usize::from(duplicate.is_some()) + holes.len()));
                if let Some(duplicate) = duplicate {
                    assert_eq!(said.as_slice()[0], duplicate);
                }
                receiver.on_ack_sent();
                assert_eq!((receiver.due, receiver.ack_at()), (AckDue::Nothing, Time::NEVER));
                assert_eq!(receiver.last_ack_sent(), nxt);
            }
        }
    }

    #[test]
    fn expected_data_is_received_like_any_arrival() {
        let mut taken = [0; 3];
        let mut random = anabranch_units::RandomStream::new(1, "expected");
        let mut receiver = receiver();
        for step in 0..2000 {
            let now = Time::from_millis(step);
            let other = (receiver.nxt() + random.below(8) * 50).saturating_sub(50);
            let start = if random.chance(0.7) { receiver.nxt() } else { other };
            let range = DataRange::new(start, start + 50);
            let full_sized = random.chance(0.8);
            let expected = (receiver.is_complete() && start == receiver.nxt()).then(|| {
                let mut quick = receiver.clone();
                quick.take_expected(now, 50, full_sized);
                quick
            });
            let reports_duplicate = !receiver.dsack.is_empty();
            receiver.arrive(now, range, false, full_sized, |_| ());
            if let Some(quick) = expected {
                assert_eq!(format!("{quick:?}"), format!("{receiver:?}"));
                taken[if reports_duplicate { 2 } else { usize::from(full_sized) }] += 1;
            }
            if random.chance(0.5) {
                receiver.on_ack_sent();
            }
        }
        assert!(taken.iter().all(|&times| times >= 10), "{taken:?}");
        receiver.arrive(Time::ZERO, DataRange::new(1_000_000, 1_000_050), true, true, |_| ());
        assert!(!receiver.is_complete());
    }

    #[test]
    fn older_blocks_follow_from_the_top() {
        let mut receiver = receiver();
        for start in [900, 100, 300, 500, 700] {
            arrive(&mut receiver, start, start + 50);
        }
        let recent = [block(700, 750), block(500, 550), block(300, 350), block(100, 150)];
        assert_eq!(receiver.blocks(9).as_slice(), recent);
        assert!(receiver.blocks(0).as_slice().is_empty());
        // Three of the four are one block now: the oldest is reported again.
        arrive(&mut receiver, 350, 500);
        arrive(&mut receiver, 550, 700);
        let told = [block(300, 750), block(900, 950), block(100, 150)];
        assert_eq!(receiver.blocks(4).as_slice(), told);
        assert_eq!(receiver.blocks(2).as_slice(), &told[..2]);
    }

    #[test]
    fn holes_their_filling_and_overlaps_are_acknowledged_at_once() {
        let mut receiver = receiver();
        arrive(&mut receiver, 101, 201);
        assert_eq!(receiver.due, AckDue::Now);
        receiver.on_ack_sent();
        arrive(&mut receiver, 1, 51);
        assert_eq!(receiver.due, AckDue::Now);
        receiver.on_ack_sent();
        arrive(&mut receiver, 51, 101);
        receiver.on_ack_sent();
        arrive(&mut receiver, 201, 301);
        assert_eq!(receiver.due, AckDue::Later);
        receiver.on_ack_sent();
        arrive(&mut receiver, 251, 351);
        assert_eq!(receiver.due, AckDue::Now);
        receiver.on_ack_sent();
        receiver.want_ack();
        assert_eq!((receiver.due, receiver.ack_at()), (AckDue::Now, Time::NEVER));
    }

    #[test]
    fn small_segments_wait_for_the_timer_and_the_first_ones_do_not() {
        let mut small = receiver();
        for start in 0..5_u64 {
            let range = DataRange::new(1 + start * 10, 11 + start * 10);
            small.arrive(Time::from_millis(start), range, false, false, |_| ());
        }
        assert_eq!((small.due, small.ack_at()), (AckDue::Later, Time::from_millis(40)));
        let mut config = ConnectionConfig::linux().ack;
        config.quick = 2;
        let mut quick = Receiver::new(Seq(u32::MAX), config, BUFFER);
        for due in [AckDue::Now, AckDue::Now, AckDue::Later] {
            let next = quick.nxt();
            arrive(&mut quick, next, next + 10);
            assert_eq!(quick.due, due);
            quick.on_ack_sent();
        }
        config.quick = 0;
        config.every = 1;
        let mut each = Receiver::new(Seq(u32::MAX), config, BUFFER);
        each.arrive(Time::ZERO, DataRange::new(1, 11), false, false, |_| ());
        assert_eq!(each.due, AckDue::Now);
    }

    #[test]
    fn a_fin_is_acknowledged_at_once_and_again() {
        let mut receiver = receiver();
        arrive(&mut receiver, 1, 101);
        receiver.on_ack_sent();
        let fin = DataRange::new(101, 101);
        assert_eq!(
            receiver.arrive(Time::ZERO, fin, true, false, |_| panic!("no payload")),
            Arrival { advanced: true, duplicate: false }
        );
        assert_eq!((receiver.due, receiver.nxt()), (AckDue::Now, 102));
        receiver.on_ack_sent();
        let again = receiver.arrive(Time::ZERO, fin, true, false, |_| ());
        assert_eq!(again, Arrival { advanced: false, duplicate: true });
        assert_eq!((receiver.due, receiver.has_blocks()), (AckDue::Now, false));
        assert!(receiver.finished());
    }

    #[test]
    fn a_fin_after_a_hole_occupies_one_octet_of_a_block_and_none_of_the_stream() {
        let mut receiver = receiver();
        let block = |start: u64, end: u64| (Seq(u32::MAX).add(start), Seq(u32::MAX).add(end));
        let fin = |receiver: &mut Receiver, start, end| {
            let mut fresh = Vec::new();
            let range = DataRange::new(start, end);
            let arrival = receiver.arrive(Time::ZERO, range, true, false, |part| fresh.push(part));
            (arrival, fresh)
        };
        // Alone, without payload.
        let (arrival, fresh) = fin(&mut receiver, 201, 201);
        assert_eq!(arrival, Arrival { advanced: false, duplicate: false });
        assert!(fresh.is_empty());
        assert_eq!((receiver.nxt(), receiver.finished(), receiver.total()), (1, false, 1));
        assert_eq!(receiver.blocks(4).as_slice(), [block(201, 202)]);
        receiver.on_ack_sent();
        // The same again is a duplicate; with payload before it, the payload alone is new.
        let (arrival, fresh) = fin(&mut receiver, 201, 201);
        assert!(arrival.duplicate && fresh.is_empty());
        assert_eq!(receiver.blocks(4).as_slice(), [block(201, 202), block(201, 202)]);
        receiver.on_ack_sent();
        let (arrival, fresh) = fin(&mut receiver, 151, 201);
        assert!(!arrival.duplicate);
        assert_eq!(fresh, [DataRange::new(151, 201)]);
        assert_eq!(receiver.blocks(4).as_slice(), [block(151, 202)]);
        assert_eq!(receiver.total(), 51);
        // Nothing after the FIN is accepted, and its octet is no byte of the stream.
        assert_eq!(arrive(&mut receiver, 101, 250), [DataRange::new(101, 151)]);
        assert_eq!(receiver.blocks(4).as_slice(), [block(101, 202)]);
        assert_eq!(arrive(&mut receiver, 1, 101), [DataRange::new(1, 101)]);
        assert_eq!((receiver.nxt(), receiver.total()), (202, 202));
        assert!(receiver.finished() && !receiver.has_blocks());
    }
}
