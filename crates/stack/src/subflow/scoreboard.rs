//! The segments sent on a subflow and not yet acknowledged (RFC 2018, RFC 6675).
//!
//! One record per segment, in the order of sequence numbers. "In flight" is the pipe of RFC 6675: sent, and
//! neither acknowledged nor marked lost; a lost segment counts again once it is retransmitted.

use std::collections::VecDeque;

use anabranch_units::Time;

use crate::seq::DataRange;
use crate::subflow::rate::SendStamp;

/// The mapping of a segment. It never changes on a subflow (RFC 8684 section 3.3.1), so a retransmission that
/// begins inside it repeats the whole mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentMapping {
    /// The distance from the start of the mapping to the segment; 16 bits, like the length in the option.
    pub back: u16,
    /// The number of payload bytes mapped.
    pub len: u16,
    /// True if the mapping includes the DATA_FIN.
    pub data_fin: bool,
    /// The checksum, if checksums were negotiated.
    pub checksum: u16,
}

/// The state of the last transmission of a segment that is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The segment or its acknowledgement is in flight.
    InFlight,
    /// The segment is lost.
    Lost,
    /// The segment was selectively acknowledged.
    Sacked,
    /// The segment was selectively acknowledged, and the receiver may have discarded it since.
    Forgotten,
}

/// One segment sent.
// It fits in one cache line: with many connections each record is a cache miss when its acknowledgement
// arrives.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Sent {
    /// The subflow offset of its first octet.
    pub seq: u64,
    /// The number of payload bytes.
    pub len: u32,
    /// The number of transmissions, at most 255.
    pub transmissions: u8,
    /// True if the segment carries the FIN, which occupies one octet after the payload.
    pub fin: bool,
    /// The state of its last transmission.
    pub fate: Fate,
    /// The stream offset of its first byte.
    pub data: u64,
    pub mapping: SentMapping,
    /// The time of its last transmission.
    pub sent: Time,
    /// Data for the delivery rate.
    pub stamp: SendStamp,
}

impl Sent {
    /// Returns the subflow offset of its end.
    pub(super) fn end(&self) -> u64 {
        self.seq + self.space()
    }

    /// Returns the sequence space it occupies.
    pub(super) fn space(&self) -> u64 {
        u64::from(self.len) + u64::from(self.fin)
    }

    /// Returns the range of the stream that it carries.
    pub(crate) fn range(&self) -> DataRange {
        DataRange::new(self.data, self.data + u64::from(self.len))
    }

    /// True if the segment, or its mapping, covers the byte at `offset` of the stream.
    fn maps(&self, offset: u64) -> bool {
        let start = self.data - u64::from(self.mapping.back);
        start <= offset && offset < self.range().end.max(start + u64::from(self.mapping.len))
    }

    /// True if the segment was sent more than once.
    pub(super) fn retransmitted(&self) -> bool {
        self.transmissions > 1
    }

    /// True if the segment is selectively acknowledged.
    pub(super) fn is_sacked(&self) -> bool {
        self.fate == Fate::Sacked
    }

    /// True if the segment is marked lost, and not retransmitted since.
    pub(super) fn is_lost(&self) -> bool {
        self.fate == Fate::Lost
    }

    /// True if its last transmission counts as in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        self.fate == Fate::InFlight
    }

    /// Removes `len` bytes of payload from its front.
    fn cut_front(&mut self, len: u32) {
        self.seq += u64::from(len);
        self.data += u64::from(len);
        self.len -= len;
        // A mapping has at most 65,535 bytes, including the part before a segment.
        self.mapping.back += len as u16;
    }
}

const _: () = assert!(size_of::<Sent>() == 64);

/// All segments sent and not cumulatively acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Sent>,
    una: u64,
    nxt: u64,
    in_flight: u64,
    sacked_bytes: u64,
    sacked_segments: u32,
    lost_segments: u32,
    /// No record before this offset is to be retransmitted.
    lost_hint: u64,
    /// From this offset on, the data of the records is ascending and without duplicates.
    disordered_until: u64,
    /// No record before this offset occupies the send buffer: see [`Scoreboard::spare`].
    spared_until: u64,
    /// The end of the data of the last record with payload.
    data_end: u64,
    /// The number of records removed from the front.
    popped: u64,
    /// The position, in the same count, near which [`Scoreboard::carries`] last found a record.
    carrier: u64,
}

impl Scoreboard {
    /// Returns an empty scoreboard; `next` is the offset of the next octet.
    pub(super) fn starting_at(next: u64) -> Scoreboard {
        Scoreboard { una: next, nxt: next, lost_hint: next, ..Scoreboard::default() }
    }

    /// Returns the first unacknowledged offset.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Returns the times at which the first and the last record were last sent; `None` without one.
    #[inline]
    pub(super) fn sent(&self) -> Option<(Time, Time)> {
        Some((self.sent.front()?.sent, self.sent.back()?.sent))
    }

    /// Returns the next offset to send for the first time.
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Returns the bytes in flight (a FIN counts as one).
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// True if nothing is unacknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    pub(super) fn records(&self) -> &VecDeque<Sent> {
        &self.sent
    }

    /// Lets nothing sent until now occupy the send buffer any more: the path has potentially failed.
    pub(super) fn spare(&mut self) {
        self.spared_until = self.nxt;
    }

    /// Returns the data of the records that do not occupy the send buffer, in the order of sequence numbers.
    pub(super) fn spared(&self) -> impl Iterator<Item = DataRange> {
        let spared = self.sent.iter().take_while(|record| record.seq < self.spared_until);
        spared.filter(|record| record.len > 0).map(Sent::range)
    }

    /// Returns the lowest stream offset that is not acknowledged on this subflow and occupies the send buffer;
    /// `None` if there is no such data.
    pub(super) fn lowest_data(&self) -> Option<u64> {
        if self.una < self.spared_until {
            let from = self.sent.partition_point(|record| record.seq < self.spared_until);
            return self.sent.range(from..).filter(|record| record.len > 0).map(|record| record.data).min();
        }
        if self.una >= self.disordered_until {
            return self.sent.front().filter(|record| record.len > 0).map(|record| record.data);
        }
        // A reinjection or a copy may follow newer data.
        self.sent.iter().filter(|record| record.len > 0).map(|record| record.data).min()
    }

    /// True if the first record, or the rest of its mapping, covers the byte at `offset` of the stream.
    #[inline]
    pub(super) fn begins_with(&self, offset: u64) -> bool {
        self.sent.front().is_some_and(|first| first.maps(offset))
    }

    /// True if a record near the one found last makes [`Scoreboard::carries`] true: successive queries for
    /// the head of the stream are close together.
    #[inline]
    pub(super) fn carries_nearby(&mut self, offset: u64) -> bool {
        let near = self.carrier.saturating_sub(self.popped);
        for at in near..near + 3 {
            if self.sent.get(at as usize).is_some_and(|record| record.maps(offset)) {
                self.carrier = self.popped + at;
                return true;
            }
        }
        false
    }

    /// True if any record, or its mapping, covers the byte at `offset` of the stream.
    pub(super) fn carries(&mut self, offset: u64) -> bool {
        let Some(first) = self.sent.front() else { return false };
        if first.maps(offset) {
            return true;
        }
        if self.una < self.disordered_until {
            return self.sent.iter().any(|record| record.maps(offset));
        }
        if first.data > offset {
            return false;
        }
        // A FIN without data maps nothing, and is the last record.
        let behind = self.sent.partition_point(|record| record.mapping.len > 0 && record.data <= offset);
        self.carrier = self.popped + behind.saturating_sub(1) as u64;
        let near = self.sent.range(behind.saturating_sub(1)..self.sent.len().min(behind + 1));
        near.into_iter().any(|record| record.maps(offset))
    }

    /// Returns the number of selectively acknowledged segments.
    pub(super) fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }

    /// Returns the number of selectively acknowledged bytes.
    pub(super) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// Returns the number of segments to be retransmitted.
    pub(super) fn lost_segments(&self) -> u32 {
        self.lost_segments
    }

    /// Returns the index of the first record that ends after `offset`.
    pub(super) fn index_of(&self, offset: u64) -> usize {
        // Most queries are for the front.
        let Some(first) = self.sent.front().filter(|first| first.end() <= offset) else { return 0 };
        if offset >= self.nxt {
            return self.sent.len();
        }
        // Guesses that all records are as long as the first, which is usually right: a search would touch
        // many records that are no longer in the caches.
        let guess = ((offset - first.seq) / first.space()) as usize;
        match self.sent.get(guess) {
            Some(record) if record.seq <= offset && offset < record.end() => guess,
            _ => self.sent.partition_point(|record| record.end() <= offset),
        }
    }

    /// Appends the record of a new segment.
    #[inline]
    pub(super) fn push(&mut self, record: Sent) {
        debug_assert_eq!(record.seq, self.nxt);
        self.nxt = record.end();
        if record.len > 0 {
            let data = record.range();
            if data.start < self.data_end {
                self.disordered_until = self.nxt;
            }
            self.data_end = data.end;
        }
        self.count(&record);
        self.sent.push_back(record);
    }

    /// Acknowledges everything before `una`. `newly` is called with each part that was not selectively
    /// acknowledged before, as it was in the record, and the number of new bytes.
    pub(super) fn acknowledge(&mut self, una: u64, mut newly: impl FnMut(&Sent, u64)) {
        while let Some(first) = self.sent.front_mut() {
            if first.seq >= una {
                break;
            }
            if first.end() <= una {
                let record = *first;
                self.sent.pop_front();
                self.popped += 1;
                self.uncount(&record);
                if !record.is_sacked() {
                    newly(&record, record.space());
                }
            } else {
                // A part of a segment is acknowledged; the rest keeps its mapping.
                let before = *first;
                first.cut_front((una - before.seq) as u32);
                let rest = *first;
                self.uncount(&before);
                self.count(&rest);
                if !before.is_sacked() {
                    newly(&before, una - before.seq);
                }
                break;
            }
        }
        self.una = self.una.max(una);
    }

    /// Returns the record at `una`, if there is one, provided that everything up to there was sent and consists of
    /// whole segments that were sent once and for which no SACK was received; otherwise `None`.
    #[inline(always)]
    pub(super) fn after_plain(&self, una: u64) -> Option<Option<&Sent>> {
        let mut end = self.una;
        for record in &self.sent {
            if end >= una {
                return (end == una).then_some(Some(record));
            }
            if record.transmissions > 1 || !record.is_in_flight() {
                return None;
            }
            end = record.end();
        }
        (end == una).then_some(None)
    }

    /// Like [`Scoreboard::acknowledge`], if [`Scoreboard::after_plain`] returns something.
    #[inline(always)]
    pub(super) fn acknowledge_plain(&mut self, una: u64, mut newly: impl FnMut(&Sent)) {
        debug_assert!(self.after_plain(una).is_some());
        self.in_flight -= una - self.una;
        while self.una < una
            && let Some(first) = self.sent.front()
        {
            self.una = first.end();
            newly(first);
            self.sent.pop_front();
            self.popped += 1;
        }
    }

    fn count(&mut self, record: &Sent) {
        match record.fate {
            Fate::InFlight => self.in_flight += record.space(),
            Fate::Lost => self.lost_segments += 1,
            Fate::Sacked => {
                self.sacked_segments += 1;
                self.sacked_bytes += record.space();
            }
            Fate::Forgotten => {}
        }
    }

    fn uncount(&mut self, record: &Sent) {
        match record.fate {
            Fate::InFlight => self.in_flight -= record.space(),
            Fate::Lost => self.lost_segments -= 1,
            Fate::Sacked => {
                self.sacked_segments -= 1;
                self.sacked_bytes -= record.space();
            }
            Fate::Forgotten => {}
        }
    }

    /// Changes the state of the record at `index`.
    fn change(&mut self, index: usize, fate: Fate) {
        let before = self.sent[index];
        self.sent[index].fate = fate;
        self.uncount(&before);
        self.count(&Sent { fate, ..before });
    }

    /// Selectively acknowledges `start..end`. Only whole segments count. Records that end at or before
    /// `known` were reported before, so that a growing block costs only its growth.
    pub(super) fn sack(&mut self, start: u64, end: u64, known: u64, mut newly: impl FnMut(&Sent)) {
        let mut at = self.index_of(start.max(known));
        at += usize::from(self.sent.get(at).is_some_and(|record| record.seq < start));
        while let Some(record) = self.sent.get(at).filter(|record| record.end() <= end) {
            if !record.is_sacked() {
                newly(record);
                self.change(at, Fate::Sacked);
            }
            at += 1;
        }
    }

    /// Stops waiting for all data sent: the subflow has ended.
    pub(super) fn abandon(&mut self) {
        *self = Scoreboard::starting_at(self.nxt);
    }

    /// Treats selectively acknowledged data as possibly discarded by the receiver (RFC 2018 section 8).
    pub(super) fn forget_sacks(&mut self) {
        for record in self.sent.iter_mut().filter(|record| record.is_sacked()) {
            record.fate = Fate::Forgotten;
        }
        self.sacked_segments = 0;
        self.sacked_bytes = 0;
    }

    /// Marks the record at `index` lost; returns false if it was already lost or acknowledged.
    pub(super) fn mark_lost(&mut self, index: usize) -> bool {
        let Some(record) = self.sent.get(index) else { return false };
        if matches!(record.fate, Fate::Sacked | Fate::Lost) {
            return false;
        }
        self.lost_hint = self.lost_hint.min(record.seq);
        self.change(index, Fate::Lost);
        true
    }

    /// Unmarks lost records that were not retransmitted since.
    pub(super) fn unmark_lost(&mut self) {
        for record in self.sent.iter_mut().filter(|record| record.is_lost()) {
            record.fate = Fate::InFlight;
            self.in_flight += record.space();
        }
        self.lost_segments = 0;
    }

    /// Returns the index of the first record to be retransmitted.
    pub(super) fn next_lost(&mut self) -> Option<usize> {
        if self.lost_segments == 0 {
            return None;
        }
        let mut at = self.index_of(self.lost_hint);
        while let Some(record) = self.sent.get(at) {
            if record.is_lost() {
                self.lost_hint = record.seq;
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// Splits the record at `index` so that it has at most `len` bytes; the rest follows as a separate
    /// record.
    pub(super) fn split(&mut self, index: usize, len: u32) {
        let Some(record) = self.sent.get_mut(index) else { return };
        if record.len <= len || len == 0 {
            return;
        }
        let mut rest = *record;
        record.len = len;
        record.fin = false;
        rest.cut_front(len);
        match rest.fate {
            Fate::Lost => self.lost_segments += 1,
            Fate::Sacked => self.sacked_segments += 1,
            Fate::InFlight | Fate::Forgotten => {}
        }
        self.sent.insert(index + 1, rest);
    }

    /// Records the retransmission of the record at `index`.
    pub(super) fn retransmit(&mut self, index: usize, now: Time, stamp: SendStamp) {
        let Some(record) = self.sent.get_mut(index) else { return };
        record.transmissions = record.transmissions.saturating_add(1);
        record.sent = now;
        record.stamp = stamp;
        self.change(index, Fate::InFlight);
    }

    /// Checks that the counters agree with the records; for tests.
    pub(super) fn is_consistent(&self) -> bool {
        let mut next = self.una;
        let (mut in_flight, mut sacked, mut sacked_bytes, mut lost) = (0, 0, 0, 0);
        for record in &self.sent {
            if record.seq != next || record.space() == 0 {
                return false;
            }
            next = record.end();
            match record.fate {
                Fate::InFlight => in_flight += record.space(),
                Fate::Lost => lost += 1,
                Fate::Sacked => {
                    sacked += 1;
                    sacked_bytes += record.space();
                }
                Fate::Forgotten => {}
            }
        }
        next == self.nxt
            && in_flight == self.in_flight
            && sacked == self.sacked_segments
            && sacked_bytes == self.sacked_bytes
            && lost == self.lost_segments
    }
}

#[cfg(test)]
mod tests;
