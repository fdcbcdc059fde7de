//! What a subflow has sent and not yet seen acknowledged (RFC 2018, RFC 6675).
//!
//! One record per segment, in the order of sequence numbers. "In flight" is the pipe of RFC 6675:
//! sent, and neither acknowledged nor taken for lost; a lost segment counts again once it is sent
//! again.

use std::collections::VecDeque;

use anabranch_units::Time;

use crate::seq::DataRange;
use crate::subflow::rate::SendStamp;

/// The mapping that a segment belongs to. It never changes on a subflow (RFC 8684 section 3.3.1),
/// so a retransmission that cuts inside it repeats the whole of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentMapping {
    /// How far before the segment it starts: 16 bits, as the length has in the option.
    pub back: u16,
    /// How many bytes of payload it maps.
    pub len: u16,
    /// It also maps the DATA_FIN.
    pub data_fin: bool,
    /// Its checksum, where checksums are agreed on.
    pub checksum: u16,
}

/// What is thought of the last transmission of a segment that is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is on its way, or its acknowledgement is.
    InFlight,
    /// It is lost.
    Lost,
    /// It has arrived: selectively acknowledged.
    Sacked,
    /// It had arrived, and the receiver may have dropped it since.
    Forgotten,
}

/// One segment that was sent.
// One cache line: with many connections each record is a miss when its acknowledgement comes.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Sent {
    /// The subflow offset of its first octet.
    pub seq: u64,
    /// Bytes of payload.
    pub len: u32,
    /// Times it was sent, at most 255.
    pub transmissions: u8,
    /// It is the FIN, which takes one octet behind the payload.
    pub fin: bool,
    /// What became of its last transmission.
    pub fate: Fate,
    /// The stream offset of its first byte.
    pub data: u64,
    /// Its mapping.
    pub mapping: SentMapping,
    /// When it was last sent.
    pub sent: Time,
    /// For the delivery rate.
    pub stamp: SendStamp,
}

impl Sent {
    /// The subflow offset behind it.
    pub fn end(&self) -> u64 {
        self.seq + self.space()
    }

    /// The sequence space it takes.
    pub fn space(&self) -> u64 {
        u64::from(self.len) + u64::from(self.fin)
    }

    /// The range of the stream that it carries.
    pub fn range(&self) -> DataRange {
        DataRange::new(self.data, self.data + u64::from(self.len))
    }

    /// Whether it carries the byte at `offset` of the stream, or its mapping does.
    fn maps(&self, offset: u64) -> bool {
        let start = self.data - u64::from(self.mapping.back);
        start <= offset && offset < self.range().end.max(start + u64::from(self.mapping.len))
    }

    /// It was sent more than once.
    pub fn retransmitted(&self) -> bool {
        self.transmissions > 1
    }

    /// Selectively acknowledged.
    pub fn is_sacked(&self) -> bool {
        self.fate == Fate::Sacked
    }

    /// Taken for lost, and not sent again since.
    pub fn is_lost(&self) -> bool {
        self.fate == Fate::Lost
    }

    /// Its last transmission counts as in flight.
    pub fn is_in_flight(&self) -> bool {
        self.fate == Fate::InFlight
    }

    /// Takes `len` bytes of payload off its front.
    fn cut_front(&mut self, len: u32) {
        self.seq += u64::from(len);
        self.data += u64::from(len);
        self.len -= len;
        // A mapping has at most 65,535 bytes, and what is before a segment is a part of it.
        self.mapping.back += len as u16;
    }
}

const _: () = assert!(size_of::<Sent>() == 64);

/// All that is sent and not cumulatively acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    sent: VecDeque<Sent>,
    una: u64,
    nxt: u64,
    in_flight: u64,
    sacked_bytes: u64,
    sacked_segments: u32,
    lost_segments: u32,
    /// No record before this offset waits to be sent again.
    lost_hint: u64,
    /// From this offset on the data of the records ascends, and none is there twice.
    disordered_until: u64,
    /// Where the data of the last record with payload ends.
    data_end: u64,
    /// How many records have been taken off the front.
    popped: u64,
    /// Near which record, counted with those, [`Scoreboard::carries`] has last found what it was asked for.
    carrier: u64,
}

impl Scoreboard {
    /// An empty one whose next octet is `next`.
    pub fn starting_at(next: u64) -> Scoreboard {
        Scoreboard { una: next, nxt: next, lost_hint: next, ..Scoreboard::default() }
    }

    /// The first offset that is not acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// The next offset to send for the first time.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Bytes in flight (a FIN counts as one).
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether nothing is unacknowledged.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The records.
    pub fn records(&self) -> &VecDeque<Sent> {
        &self.sent
    }

    /// The lowest stream offset that is not acknowledged here; none if there is no such data.
    pub fn lowest_data(&self) -> Option<u64> {
        if self.una >= self.disordered_until {
            return self.sent.front().filter(|record| record.len > 0).map(|record| record.data);
        }
        // A reinjection or a copy stands behind newer data.
        self.sent.iter().filter(|record| record.len > 0).map(|record| record.data).min()
    }

    /// Whether the first record carries the byte at `offset` of the stream, or more of a mapping that covers it.
    #[inline]
    pub fn begins_with(&self, offset: u64) -> bool {
        self.sent.front().is_some_and(|first| first.maps(offset))
    }

    /// Whether [`Scoreboard::carries`] is true because of a record near the one that was found last: who asks for the
    /// head of the stream asks for what comes soon behind it the next time.
    #[inline]
    pub fn carries_nearby(&mut self, offset: u64) -> bool {
        let near = self.carrier.saturating_sub(self.popped);
        for at in near..near + 3 {
            if self.sent.get(at as usize).is_some_and(|record| record.maps(offset)) {
                self.carrier = self.popped + at;
                return true;
            }
        }
        false
    }

    /// The same of any record.
    pub fn carries(&mut self, offset: u64) -> bool {
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
        // A FIN by itself maps nothing, and is the last.
        let behind = self.sent.partition_point(|record| record.mapping.len > 0 && record.data <= offset);
        self.carrier = self.popped + behind.saturating_sub(1) as u64;
        let near = self.sent.range(behind.saturating_sub(1)..self.sent.len().min(behind + 1));
        near.into_iter().any(|record| record.maps(offset))
    }

    /// How many segments are selectively acknowledged.
    pub fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }

    /// How many bytes are selectively acknowledged.
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// How many segments wait to be sent again.
    pub fn lost_segments(&self) -> u32 {
        self.lost_segments
    }

    /// The index of the first record that ends behind `offset`.
    pub fn index_of(&self, offset: u64) -> usize {
        // The front is asked for most.
        let Some(first) = self.sent.front().filter(|first| first.end() <= offset) else { return 0 };
        if offset >= self.nxt {
            return self.sent.len();
        }
        // As if all were as long as the first, which they mostly are: a search would look at many that have left the
        // caches.
        let guess = ((offset - first.seq) / first.space()) as usize;
        match self.sent.get(guess) {
            Some(record) if record.seq <= offset && offset < record.end() => guess,
            _ => self.sent.partition_point(|record| record.end() <= offset),
        }
    }

    /// A new segment is sent.
    #[inline]
    pub fn push(&mut self, record: Sent) {
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

    /// Everything before `una` is acknowledged. `newly` hears each part that was not selectively
    /// acknowledged before, as it was in the record, with the bytes that are new.
    pub fn acknowledge(&mut self, una: u64, mut newly: impl FnMut(&Sent, u64)) {
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
                // A part of a segment is acknowledged: the rest keeps its mapping.
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

    /// Whether everything up to `una`, which was sent, are whole segments that were sent once, and of which nothing
    /// was heard.
    #[inline]
    pub fn is_plain_up_to(&self, una: u64) -> bool {
        let mut end = self.una;
        for record in &self.sent {
            if end >= una {
                break;
            }
            if record.transmissions > 1 || !record.is_in_flight() {
                return false;
            }
            end = record.end();
        }
        end == una
    }

    /// As [`Scoreboard::acknowledge`], where [`Scoreboard::is_plain_up_to`].
    #[inline]
    pub fn acknowledge_plain(&mut self, una: u64, mut newly: impl FnMut(&Sent)) {
        debug_assert!(self.is_plain_up_to(una));
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

    /// Something else is thought of the record at `index`.
    fn change(&mut self, index: usize, fate: Fate) {
        let before = self.sent[index];
        self.sent[index].fate = fate;
        self.uncount(&before);
        self.count(&Sent { fate, ..before });
    }

    /// `start..end` is selectively acknowledged. Only whole segments count. Whatever ends at or
    /// before `known` was told before, so that a growing block costs only its growth.
    pub fn sack(&mut self, start: u64, end: u64, known: u64, mut newly: impl FnMut(&Sent)) {
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

    /// Nothing of what was sent is waited for any more: the subflow is dead.
    pub fn abandon(&mut self) {
        *self = Scoreboard::starting_at(self.nxt);
    }

    /// The receiver may have dropped what it had selectively acknowledged (RFC 2018 section 8).
    pub fn forget_sacks(&mut self) {
        for record in self.sent.iter_mut().filter(|record| record.is_sacked()) {
            record.fate = Fate::Forgotten;
        }
        self.sacked_segments = 0;
        self.sacked_bytes = 0;
    }

    /// Takes the record at `index` for lost; false if it was lost or acknowledged already.
    pub fn mark_lost(&mut self, index: usize) -> bool {
        let Some(record) = self.sent.get(index) else { return false };
        if matches!(record.fate, Fate::Sacked | Fate::Lost) {
            return false;
        }
        self.lost_hint = self.lost_hint.min(record.seq);
        self.change(index, Fate::Lost);
        true
    }

    /// Takes back that the records are lost that were not sent again since.
    pub fn unmark_lost(&mut self) {
        for record in self.sent.iter_mut().filter(|record| record.is_lost()) {
            record.fate = Fate::InFlight;
            self.in_flight += record.space();
        }
        self.lost_segments = 0;
    }

    /// The index of the first record that waits to be sent again.
    pub fn next_lost(&mut self) -> Option<usize> {
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

    /// Cuts the record at `index` so that it has at most `len` bytes; the rest follows as a record of its own.
    pub fn split(&mut self, index: usize, len: u32) {
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

    /// The record at `index` is sent again.
    pub fn retransmit(&mut self, index: usize, now: Time, stamp: SendStamp) {
        let Some(record) = self.sent.get_mut(index) else { return };
        record.transmissions = record.transmissions.saturating_add(1);
        record.sent = now;
        record.stamp = stamp;
        self.change(index, Fate::InFlight);
    }

    /// Checks that the counters agree with the records; for tests.
    pub fn is_consistent(&self) -> bool {
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
