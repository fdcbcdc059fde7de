//! The receiving half of a subflow: what has arrived, and what to acknowledge when.

use anabranch_units::Time;

use crate::config::AckConfig;
use crate::ranges::RangeSet;
use crate::segment::SackBlocks;
use crate::seq::{DataRange, Seq};

/// How many pieces may lie apart behind a hole: more than any window of real segments has, so that a
/// peer that sends single octets cannot fill the memory.
const MAX_PIECES: usize = 16_384;

/// Which acknowledgement is due.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum AckDue {
    /// None.
    #[default]
    Nothing,
    /// When the timer runs out, or with the next data.
    Later,
    /// At once.
    Now,
}

/// The receiving half. Offsets count from the peer's SYN, which is 0.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The peer's initial sequence number.
    pub irs: Seq,
    nxt: u64,
    out_of_order: RangeSet,
    /// Where the latest out-of-order arrivals started, the newest first (RFC 2018 section 4).
    recent: [u64; 4],
    dsack: Option<DataRange>,
    due: AckDue,
    unacked: u32,
    quick: u32,
    ack_at: Time,
    config: AckConfig,
    fin: Option<u64>,
    last_ack_sent: u64,
}

/// What an arrived payload means to the subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The bytes moved the cumulative acknowledgement.
    pub advanced: bool,
    /// Nothing was new.
    pub duplicate: bool,
}

impl Receiver {
    /// A receiver that has seen the peer's SYN with number `irs`.
    pub fn new(irs: Seq, config: AckConfig) -> Receiver {
        Receiver {
            irs,
            nxt: 1,
            out_of_order: RangeSet::new(),
            recent: [0; 4],
            dsack: None,
            due: AckDue::Nothing,
            unacked: 0,
            quick: config.quick,
            ack_at: Time::NEVER,
            config,
            fin: None,
            last_ack_sent: 1,
        }
    }

    /// The next offset expected.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// What the last acknowledgement has said.
    pub fn last_ack_sent(&self) -> u64 {
        self.last_ack_sent
    }

    /// The acknowledgement number.
    pub fn ack(&self) -> Seq {
        self.irs.add(self.nxt)
    }

    /// Whether the peer's FIN has been reached in order.
    pub fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt > fin)
    }

    /// The payload `range` (and a FIN behind it) has arrived; `fresh` hears each part that was not
    /// here before.
    pub fn arrive(
        &mut self,
        now: Time,
        range: DataRange,
        fin: bool,
        full_sized: bool,
        mut fresh: impl FnMut(DataRange),
    ) -> Arrival {
        if fin && self.fin.is_none() && range.end >= self.nxt {
            self.fin = Some(range.end);
        }
        // Nothing counts behind the FIN.
        let limit = self.fin.unwrap_or(u64::MAX);
        let space = DataRange::new(range.start, range.end.min(limit));
        if space.end <= self.nxt && !(fin && self.fin == Some(self.nxt)) {
            // All of it was here before (RFC 2883 section 4).
            if !space.is_empty() {
                self.dsack = Some(space);
            }
            self.due = AckDue::Now;
            return Arrival { advanced: false, duplicate: true };
        }
        if space.start > self.nxt {
            if self.out_of_order.is_full(space, MAX_PIECES) {
                self.due = AckDue::Now;
                return Arrival { advanced: false, duplicate: true };
            }
            let mut new = 0;
            self.out_of_order.insert(space, |part| {
                new += part.len();
                fresh(part);
            });
            if new == 0 && !space.is_empty() {
                self.dsack = Some(space);
            }
            self.remember(space.start);
            self.due = AckDue::Now;
            return Arrival { advanced: false, duplicate: new == 0 };
        }
        if space.start < self.nxt && !space.is_empty() {
            self.dsack = Some(DataRange::new(space.start, self.nxt));
        }
        let had_holes = !self.out_of_order.is_empty();
        let new = DataRange::new(self.nxt, space.end);
        if !had_holes {
            if !new.is_empty() {
                fresh(new);
            }
        } else {
            let mut cursor = new.start;
            // What is here already out of order is not new.
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
        if self.fin == Some(self.nxt) {
            self.nxt += 1;
            finished = true;
        }
        if had_holes || finished || self.dsack.is_some() {
            self.due = AckDue::Now;
        } else {
            self.count(now, full_sized);
        }
        Arrival { advanced: true, duplicate: false }
    }

    /// RFC 5681 section 4.2: an acknowledgement for every second full segment, and no later than the delay.
    fn count(&mut self, now: Time, full_sized: bool) {
        self.unacked += 1;
        if self.quick > 0 {
            self.quick -= 1;
            self.due = AckDue::Now;
        } else if self.unacked >= self.config.every && (full_sized || self.config.every <= 1) {
            self.due = AckDue::Now;
        } else if self.due == AckDue::Nothing {
            self.due = AckDue::Later;
            self.ack_at = now + self.config.delay;
        }
    }

    fn remember(&mut self, start: u64) {
        self.recent.copy_within(0..3, 1);
        self.recent[0] = start;
    }

    /// An acknowledgement shall go at once.
    pub fn want_ack(&mut self) {
        self.due = AckDue::Now;
    }

    /// Which acknowledgement is due.
    pub fn due(&self) -> AckDue {
        self.due
    }

    /// When a delayed acknowledgement is due.
    pub fn ack_at(&self) -> Time {
        if self.due == AckDue::Later { self.ack_at } else { Time::NEVER }
    }

    /// The delayed acknowledgement's time has come.
    pub fn on_timer(&mut self, now: Time) {
        if self.due == AckDue::Later && self.ack_at <= now {
            self.due = AckDue::Now;
        }
    }

    /// An acknowledgement has left, with or without data.
    pub fn on_ack_sent(&mut self) {
        self.last_ack_sent = self.nxt;
        // A duplicate is reported by the next acknowledgement or not at all (RFC 2883 section 4).
        self.dsack = None;
        self.due = AckDue::Nothing;
        self.unacked = 0;
        self.ack_at = Time::NEVER;
    }

    /// Whether there is anything to report in SACK blocks.
    pub fn has_blocks(&self) -> bool {
        self.dsack.is_some() || !self.out_of_order.is_empty()
    }

    /// Whether more than one block is missing something, and no duplicate says that an
    /// acknowledgement was lost.
    pub fn has_several_holes(&self) -> bool {
        self.dsack.is_none() && self.out_of_order.as_slice().len() > 1
    }

    /// The SACK blocks of the next acknowledgement, at most `room` of them: a duplicate first (RFC
    /// 2883), then the block of the latest arrival, then the others by age (RFC 2018 section 4).
    pub fn blocks(&mut self, room: u32) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        let room = room.min(4) as usize;
        if room == 0 {
            return blocks;
        }
        if let Some(dup) = self.dsack.take() {
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

    fn receiver() -> Receiver {
        let mut config = ConnectionConfig::linux().ack;
        config.quick = 0;
        Receiver::new(Seq(u32::MAX), config)
    }

    fn arrive(receiver: &mut Receiver, start: u64, end: u64) -> Vec<DataRange> {
        let mut fresh = Vec::new();
        receiver.arrive(Time::ZERO, DataRange::new(start, end), false, true, |part| fresh.push(part));
        fresh
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_a_lone_one_late() {
        let mut receiver = receiver();
        arrive(&mut receiver, 1, 101);
        assert_eq!(receiver.due(), AckDue::Later);
        assert_eq!(receiver.ack_at(), Time::from_millis(40));
        arrive(&mut receiver, 101, 201);
        assert_eq!(receiver.due(), AckDue::Now);
        receiver.on_ack_sent();
        arrive(&mut receiver, 201, 301);
        receiver.on_timer(Time::from_millis(39));
        assert_eq!(receiver.due(), AckDue::Later);
        receiver.on_timer(Time::from_millis(40));
        assert_eq!(receiver.due(), AckDue::Now);
        assert_eq!(receiver.ack(), Seq(300));
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
        assert_eq!(receiver.due(), AckDue::Now);
        assert_eq!(receiver.nxt(), 401);
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
    fn the_fin_takes_one_number_behind_the_data() {
        let mut receiver = receiver();
        receiver.arrive(Time::ZERO, DataRange::new(101, 201), true, true, |_| ());
        assert!(!receiver.finished());
        arrive(&mut receiver, 1, 101);
        assert!(receiver.finished());
        assert_eq!(receiver.nxt(), 202);
        // Data behind the FIN does not count.
        assert!(arrive(&mut receiver, 201, 301).is_empty());
        assert_eq!(receiver.nxt(), 202);
    }
}
