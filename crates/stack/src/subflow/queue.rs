//! The queue of a subflow: parts of the stream that are assigned to it and not sent yet.

use std::collections::VecDeque;

use super::scoreboard::Sent;
use super::{Remains, Subflow};
use crate::scheduler::AssignKind;
use crate::seq::DataRange;

/// A part of the stream in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    /// The part.
    pub range: DataRange,
    /// Whether another subflow has carried it.
    pub kind: AssignKind,
}

/// The next part of a queue, with [`SendQueue::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    /// The part; `None` if the queue is empty.
    pub part: Option<Queued>,
    /// Whether the queue has become shorter.
    pub dropped: Dropped,
}

/// Whether data was dropped from a queue because it need not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    Nothing,
    /// Some, which frees space for other data.
    Some,
}

/// The queue, in the order of transmission.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    parts: VecDeque<Queued>,
    /// The sum of their lengths.
    bytes: u64,
}

/// The unsent rest of the first packet of a queue: one buffer (`sk_buff`) of Linux, which is sent in several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Its length.
    pub len: u64,
    /// True if it is the last one, to which data may be appended.
    pub last: bool,
}

/// Where the packets of a queue begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Packets {
    /// The low bits of the offset from which the packets of the first part are counted.
    pub from: u32,
    /// The length of the last packet when data was added to it; 65,535 of 65,536 bytes.
    pub last: u16,
    /// True if a packet that was sent in part takes no more data: its mapping is fixed (`mptcp_ext.frozen` of Linux), so that
    /// further data begins another packet.
    pub freeze: bool,
}

impl SendQueue {
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the parts in the order of transmission.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Queued> {
        self.parts.iter()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends `range` in packets of at most `packet` bytes.
    pub(super) fn push(&mut self, range: DataRange, kind: AssignKind, packet: u64, packets: &mut Packets) {
        self.bytes += range.len();
        let first = self.first_packet(packets.from, packet);
        let frozen = packets.freeze && self.is_begun(packets.last);
        let tail = match self.parts.back_mut() {
            Some(last) if !frozen && last.range.end == range.start && last.kind == kind => {
                last.range.end = range.end;
                u64::from(packets.last)
            }
            _ => {
                self.parts.push_back(Queued { range, kind });
                0
            }
        };
        packets.from = match first {
            None => range.start as u32,
            Some(Packet { last: true, .. }) if !frozen => {
                self.parts.front().map_or(packets.from, |front| front.range.start as u32)
            }
            Some(_) => packets.from,
        };
        let more = range.len().saturating_sub(packet.saturating_sub(tail));
        let last = if more > 0 { (more - 1) % packet.max(1) + 1 } else { tail + range.len() };
        packets.last = u16::try_from(last).unwrap_or(u16::MAX);
    }

    /// True if a part of the last packet, which had `last` bytes, was sent.
    fn is_begun(&self, last: u16) -> bool {
        self.parts.len() == 1 && self.parts.front().is_some_and(|front| front.range.len() < u64::from(last))
    }

    /// Returns the first part.
    #[inline]
    pub(super) fn front(&self) -> Option<Queued> {
        self.parts.front().copied()
    }

    /// Returns the first packet, if packets have `packet` bytes and the packets of the first part begin at the offset of
    /// the stream with the low bits `from`.
    pub(super) fn first_packet(&self, from: u32, packet: u64) -> Option<Packet> {
        let front = self.parts.front()?.range;
        let sent = u64::from((front.start as u32).wrapping_sub(from)) % packet.max(1);
        let len = (packet - sent).min(front.len());
        Some(Packet { len, last: len == front.len() && self.parts.len() == 1 })
    }

    /// Removes `len` bytes from the front of the first part, which has at least that many.
    /// Returns the start of the next part if there is one, and the first one is removed.
    #[inline]
    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        self.bytes -= len;
        let front = self.parts.front_mut()?;
        front.range.start += len;
        if !front.range.is_empty() {
            return None;
        }
        self.parts.pop_front();
        self.parts.front().map(|next| next.range.start)
    }

    /// Removes `range`; `taken` receives each part of it that was there, with its kind.
    pub(super) fn recall(&mut self, range: DataRange, mut taken: impl FnMut(DataRange, AssignKind)) {
        let mut place = 0;
        while let Some(queued) = self.parts.get(place).copied() {
            let inside = queued.range.intersection(range);
            if inside.is_empty() {
                place += 1;
                continue;
            }
            self.bytes -= inside.len();
            let left = DataRange::new(queued.range.start, inside.start);
            let right = DataRange::new(inside.end, queued.range.end);
            match (left.is_empty(), right.is_empty()) {
                (true, true) => {
                    self.parts.remove(place);
                }
                (false, true) => self.parts[place].range = left,
                (true, false) => self.parts[place].range = right,
                (false, false) => {
                    self.parts[place].range = left;
                    self.parts.insert(place + 1, Queued { range: right, kind: queued.kind });
                }
            }
            taken(inside, queued.kind);
        }
    }

    /// Removes each part if `leaves` is true of its kind; `taken` receives the part.
    pub(super) fn empty(&mut self, leaves: impl Fn(AssignKind) -> bool, mut taken: impl FnMut(Queued)) {
        for _ in 0..self.parts.len() {
            let Some(queued) = self.parts.pop_front() else { break };
            if leaves(queued.kind) {
                self.bytes -= queued.range.len();
                taken(queued);
            } else {
                self.parts.push_back(queued);
            }
        }
    }

    /// Returns the next part. Data before `unneeded`, acknowledged in the meantime on another subflow, need not
    /// be sent, and is dropped.
    pub(super) fn next(&mut self, unneeded: u64) -> Front {
        let mut dropped = Dropped::Nothing;
        while let Some(front) = self.parts.front_mut() {
            if front.range.start < unneeded {
                let skip = unneeded.min(front.range.end) - front.range.start;
                front.range.start += skip;
                self.bytes -= skip;
                dropped = Dropped::Some;
            }
            if !front.range.is_empty() {
                return Front { part: Some(*front), dropped };
            }
            self.parts.pop_front();
        }
        Front { part: None, dropped }
    }
}

impl Subflow {
    /// Appends `range` to the queue.
    #[inline]
    pub(crate) fn assign(&mut self, range: DataRange, kind: AssignKind) {
        let packet = self.largest_packet();
        self.queue.push(range, kind, packet, &mut self.packets);
    }

    /// Recalls `range` from the queue; `taken` receives each part of it that was there, with its kind.
    pub(crate) fn recall(&mut self, range: DataRange, taken: impl FnMut(DataRange, AssignKind)) {
        self.queue.recall(range, taken);
    }

    /// Recalls the queue but for copies of data that other subflows carry; `remains` receives it, and the data after
    /// `una` that is in flight or lost here.
    pub(crate) fn recall_all(&mut self, una: u64, mut remains: impl FnMut(Remains)) {
        self.queue.empty(|kind| kind != AssignKind::Copy, |queued| remains(Remains::Queued(queued)));
        self.unacked_data(una, |range| remains(Remains::Unacked(range)));
    }

    /// Lets the data in flight no longer occupy the connection's send buffer once the peer has it from another
    /// subflow: this one has potentially failed, and may be silent for any time.
    ///
    /// RFC 8684 section 3.3.6 keeps data in the send buffer until every subflow that carries it has it acknowledged. With a
    /// dead path that stops the connection when the buffer is full. Linux counts only data that is not acknowledged
    /// at the data level, for every subflow; the queues of the subflows keep the bytes (`mptcp_wmem` and
    /// `__mptcp_clean_una`).
    pub(crate) fn spare_in_flight(&mut self) {
        self.board.spare();
    }

    /// Calls `each` with the runs of data before `freed` that it carries, and that no longer occupy the send buffer.
    pub(crate) fn spared_before(&self, freed: u64, mut each: impl FnMut(DataRange)) {
        for range in self.board.spared().filter(|range| range.start < freed) {
            each(range);
        }
    }

    /// True if data is assigned to it that it has not sent.
    #[inline]
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns the lowest stream offset in the queue.
    pub(crate) fn lowest_queued(&self) -> Option<u64> {
        self.queue.iter().map(|queued| queued.range.start).min()
    }

    /// True if nothing is in flight or in the queue.
    pub(crate) fn is_idle(&self) -> bool {
        self.board.is_empty() && self.queue.is_empty()
    }

    /// Calls `each` with the parts of the stream after `una` that are in flight or lost here.
    fn unacked_data(&self, una: u64, mut each: impl FnMut(DataRange)) {
        let mut run = DataRange::default();
        for record in self.board.records() {
            if record.is_sacked() || record.len == 0 || record.range().end <= una {
                continue;
            }
            let range = record.range();
            if range.start == run.end && !run.is_empty() {
                run.end = range.end;
            } else {
                if !run.is_empty() {
                    each(run);
                }
                run = range;
            }
        }
        if !run.is_empty() {
            each(run);
        }
    }

    /// Returns the start of the first data after `una` that is unacknowledged here, or in the queue.
    pub(crate) fn first_carried_after(&self, una: u64) -> Option<u64> {
        let sent = self.board.records().iter().map(Sent::range);
        let queued = self.queue.iter().map(|queued| queued.range);
        sent.chain(queued).map(|range| range.start).filter(|&start| start > una).min()
    }

    /// True for the first subflow, before its FIN and without a reset, if everything sent here was sent once
    /// and in the order of the stream. Everything in the stream from the offset `unassigned` on is assigned
    /// to no subflow.
    pub(crate) fn sends_in_order(&self, unassigned: u64) -> bool {
        // Data in the queue can be assigned again.
        let queued = self.queue.iter().map(|queued| queued.range.start).min();
        let waiting = queued.map_or(unassigned, |queued| queued.min(unassigned));
        !self.handshake.is_join()
            && !self.state.is_resetting()
            && !self.state.fin_sent()
            && self.counters.bytes_reinjected == 0
            && waiting + 1 == self.board.nxt()
    }

    /// Panics if the counters disagree with their objects; for tests.
    pub(crate) fn assert_consistent(&self) {
        assert!(self.board.is_consistent(), "scoreboard of {:?}", self.id);
        let queued: u64 = self.queue.iter().map(|queued| queued.range.len()).sum();
        assert_eq!(queued, self.queue.bytes(), "queue of {:?}", self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with packets of 1000 bytes.
    #[derive(Default)]
    struct Queue {
        queue: SendQueue,
        packets: Packets,
    }

    impl Queue {
        fn push(&mut self, start: u64, end: u64) {
            self.queue.push(DataRange::new(start, end), AssignKind::New, 1000, &mut self.packets);
        }

        fn take(&mut self, len: u64) {
            if let Some(next) = self.queue.take(len) {
                self.packets.from = next as u32;
            }
        }

        fn first(&self) -> Option<(u64, bool)> {
            self.queue.first_packet(self.packets.from, 1000).map(|packet| (packet.len, packet.last))
        }
    }

    #[test]
    fn the_last_packet_grows_to_its_size_after_a_part_of_it_was_sent() {
        let begin = (1 << 32) - 500;
        let mut packets = Queue::default();
        packets.push(begin, begin + 2500);
        assert_eq!(packets.first(), Some((1000, false)));
        packets.take(700);
        assert_eq!(packets.first(), Some((300, false)));
        packets.take(1500);
        assert_eq!(packets.first(), Some((300, true)));
        packets.push(begin + 2500, begin + 3300);
        assert_eq!(packets.first(), Some((1000, false)), "from 2200 on");
        packets.take(1000);
        assert_eq!(packets.first(), Some((100, true)));
    }

    #[test]
    fn a_frozen_packet_takes_no_more_data() {
        let packets = Packets { freeze: true, ..Packets::default() };
        let mut packets = Queue { packets, ..Queue::default() };
        packets.push(0, 300);
        packets.push(300, 800);
        assert_eq!(packets.first(), Some((800, true)), "nothing of it was sent");
        packets.take(500);
        packets.push(800, 1400);
        assert_eq!(packets.first(), Some((300, false)), "its mapping is fixed");
        packets.push(1400, 1500);
        packets.take(300);
        assert_eq!(packets.first(), Some((700, true)), "from 800 on");
    }

    #[test]
    fn packets_that_were_made_smaller_than_today_are_told_from_each_other() {
        let packets = Packets { freeze: true, ..Packets::default() };
        let mut packets = Queue { packets, ..Queue::default() };
        packets.push(0, 2300);
        packets.take(1900);
        // The last one, from 2000 on, was not begun, and takes data up to the size of today.
        packets.queue.push(DataRange::new(2300, 3500), AssignKind::New, 1300, &mut packets.packets);
        assert_eq!((packets.queue.parts.len(), packets.packets.last), (1, 200));
        packets.take(1500);
        packets.queue.push(DataRange::new(3500, 3600), AssignKind::New, 1300, &mut packets.packets);
        assert_eq!((packets.queue.parts.len(), packets.packets.last), (2, 100), "it was begun");
    }

    #[test]
    fn another_place_of_the_stream_is_another_packet() {
        let mut packets = Queue::default();
        packets.push(0, 1400);
        packets.push(5000, 5200);
        packets.take(1000);
        assert_eq!(packets.first(), Some((400, false)));
        packets.take(400);
        assert_eq!(packets.first(), Some((200, true)));
        packets.take(200);
        assert_eq!(packets.first(), None);
    }
}
