//! The sending half of the data level: data written, assigned to subflows, and acknowledged.

use crate::event::{SubflowId, SubflowSet};
use crate::ranges::RangeSet;
use crate::scheduler::Pending;
use crate::seq::DataRange;

/// Ranges with the subflows that carry them, ascending and disjoint; removed at the front.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingList {
    items: Vec<Pending>,
    head: usize,
}

impl PendingList {
    /// Returns the entries.
    pub(super) fn as_slice(&self) -> &[Pending] {
        &self.items[self.head..]
    }

    /// True if the list is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.items.len()
    }

    /// Removes everything before `offset`.
    pub(super) fn remove_below(&mut self, offset: u64) {
        while let Some(first) = self.items.get_mut(self.head) {
            if first.range.end > offset {
                first.range.start = first.range.start.max(offset);
                break;
            }
            self.head += 1;
        }
        if self.head == self.items.len() {
            self.items.clear();
            self.head = 0;
        } else if self.head > 32 && self.head * 2 > self.items.len() {
            self.items.drain(..self.head);
            self.head = 0;
        }
    }

    fn first_ending_after(&self, offset: u64) -> usize {
        self.head + self.items[self.head..].partition_point(|item| item.range.end <= offset)
    }

    /// Adds a range that overlaps no entry.
    pub(super) fn add(&mut self, range: DataRange, tried: SubflowSet) {
        if range.is_empty() {
            return;
        }
        if let Some(last) = self.items[self.head..].last_mut() {
            if last.range.end == range.start && last.tried == tried {
                last.range.end = range.end;
                return;
            }
            if last.range.end <= range.start {
                self.items.push(Pending { range, tried });
                return;
            }
        } else {
            self.items.push(Pending { range, tried });
            return;
        }
        let at = self.first_ending_after(range.start);
        self.items.insert(at, Pending { range, tried });
    }

    /// Removes `range`; calls `gone` with each part and its subflows.
    pub(super) fn remove(&mut self, range: DataRange, mut gone: impl FnMut(DataRange, SubflowSet)) {
        let mut at = self.first_ending_after(range.start);
        while let Some(item) = self.items.get(at).copied() {
            let inside = item.range.intersection(range);
            if inside.is_empty() {
                break;
            }
            gone(inside, item.tried);
            let left = DataRange::new(item.range.start, inside.start);
            let right = DataRange::new(inside.end, item.range.end);
            match (left.is_empty(), right.is_empty()) {
                (true, true) => {
                    self.items.remove(at);
                }
                (false, true) => {
                    self.items[at].range = left;
                    at += 1;
                }
                (true, false) => {
                    self.items[at].range = right;
                    break;
                }
                (false, false) => {
                    self.items[at].range = left;
                    self.items.insert(at + 1, Pending { range: right, tried: item.tried });
                    break;
                }
            }
        }
    }

    /// Calls `found` with the parts of `range` that are in the list, and their subflows.
    pub(super) fn overlap(&self, range: DataRange, mut found: impl FnMut(DataRange, SubflowSet)) {
        for item in &self.items[self.first_ending_after(range.start)..] {
            let inside = item.range.intersection(range);
            if inside.is_empty() {
                break;
            }
            found(inside, item.tried);
        }
    }

    /// Forgets that a subflow has carried anything.
    pub(super) fn forget(&mut self, id: SubflowId) {
        for item in &mut self.items[self.head..] {
            item.tried = item.tried.without(id);
        }
    }

    /// Records that `id` carries `range` too.
    pub(super) fn mark(&mut self, range: DataRange, id: SubflowId) {
        let mut parts = Vec::new();
        self.overlap(range, |part, tried| {
            if !tried.has(id) {
                parts.push((part, tried));
            }
        });
        for (part, tried) in parts {
            self.remove(part, |_, _| ());
            self.add(part, tried.with(id));
        }
    }
}

/// The sending half of a connection. All offsets are in the stream; the DATA_FIN has the offset after the
/// last byte.
#[derive(Clone, Debug, Default)]
pub(super) struct SendState {
    /// The first offset not acknowledged at the data level (excluding the DATA_FIN).
    pub una: u64,
    /// The first offset never assigned to a subflow.
    pub nxt: u64,
    /// Bytes written by the application.
    pub written: u64,
    /// The right edge: the data acknowledgement plus the peer's window.
    pub window_end: u64,
    /// The peer's window at the last data acknowledgement.
    pub peer_window: u64,
    /// Data written and not assigned to any subflow.
    pub unassigned: RangeSet,
    /// Data assigned to subflows and not acknowledged.
    pub outstanding: PendingList,
    /// Data to be reinjected on another subflow.
    pub reinject: PendingList,
    /// True if the application has closed its direction.
    pub closed: bool,
    /// True if the DATA_FIN (or FIN) was sent at least once.
    pub fin_sent: bool,
    /// True if the DATA_FIN (or FIN) was acknowledged.
    pub fin_acked: bool,
    /// True if a write did not fit, until the writer is told that there is space.
    pub blocked: bool,
    /// True if the last write did not fit, until the next one: more is to come.
    pub has_more: bool,
    /// The buffered bytes at which a blocked writer is woken, if less than two thirds of the buffer.
    pub enough: u64,
    /// True if the send buffer may exceed its initial size.
    pub grows: bool,
    /// True if there is news for the scheduler: data, free window, or the end of the stream.
    news: bool,
}

impl SendState {
    /// True if the head of the stream was assigned to a subflow, and is not acknowledged.
    pub(super) fn is_head_given(&self) -> bool {
        self.outstanding.as_slice().first().is_some_and(|first| first.range.start <= self.una)
    }

    /// True if there is data to assign to a subflow, for the first time or again.
    pub(super) fn has_data_to_assign(&self) -> bool {
        self.unassigned.first().is_some() || !self.reinject.is_empty()
    }

    /// True if there is data to assign again, or new data within the peer's window.
    pub(super) fn may_push(&self) -> bool {
        self.unassigned.first().is_some_and(|new| new.start < self.window_end) || !self.reinject.is_empty()
    }

    /// Returns the bytes written and not acknowledged.
    pub(super) fn buffered(&self) -> u64 {
        self.written - self.una
    }

    /// True if something has changed since [`SendState::forget_news`] that may change the scheduler's
    /// decision.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.news
    }

    /// Resets the news when the scheduler is asked.
    #[inline]
    pub(super) fn forget_news(&mut self) {
        self.news = false;
    }

    /// Opens the connection with the peer's first window `window`.
    pub(super) fn open(&mut self, window: u64) {
        self.window_end = window;
        self.peer_window = window;
    }

    /// Extends the right edge to `edge`; it never moves back (RFC 8684 section 3.3.4).
    #[inline]
    pub(super) fn widen(&mut self, edge: u64) {
        if edge > self.window_end {
            self.window_end = edge;
            self.news = true;
        }
    }

    /// Closes the application's direction.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.has_more = false;
        self.news = true;
    }

    /// Appends `n` bytes written by the application.
    pub(super) fn write(&mut self, n: u64) {
        self.news = true;
        self.unassigned.add(DataRange::new(self.written, self.written + n));
        self.written += n;
    }

    /// Assigns `range` to `id` for the first time.
    pub(super) fn assign_new(&mut self, range: DataRange, id: SubflowId) {
        self.unassigned.remove(range, |_| ());
        self.outstanding.add(range, SubflowSet::one(id));
        self.nxt = self.nxt.max(range.end);
    }

    /// Assigns `range` to `id` as well.
    pub(super) fn assign_again(&mut self, range: DataRange, id: SubflowId) {
        self.outstanding.mark(range, id);
        self.reinject.remove(range, |_, _| ());
    }

    /// Takes back data that a subflow had not sent.
    pub(super) fn take_back(&mut self, range: DataRange) {
        self.news = true;
        let range = DataRange::new(range.start.max(self.una), range.end);
        self.outstanding.remove(range, |_, _| ());
        // Data that becomes unassigned is not also reinjected.
        self.reinject.remove(range, |_, _| ());
        self.unassigned.add(range);
    }

    /// Requests that `range` is reinjected on another subflow.
    pub(super) fn request_reinjection(&mut self, range: DataRange) {
        self.news = true;
        let range = DataRange::new(range.start.max(self.una), range.end);
        let mut parts = Vec::new();
        self.outstanding.overlap(range, |part, tried| parts.push((part, tried)));
        for (part, tried) in parts {
            self.reinject.remove(part, |_, _| ());
            self.reinject.add(part, tried);
        }
    }

    /// Returns the data to reinject, unless unassigned data precedes it in the stream: two subflows with
    /// alternate timeouts would otherwise reinject data that the peer has, and never reach the unassigned
    /// data.
    #[inline]
    pub(super) fn reinject_now(&self) -> &[Pending] {
        let again = self.reinject.as_slice();
        match (again.first(), self.unassigned.first()) {
            (Some(first), Some(new)) if new.start < first.range.start => &[],
            _ => again,
        }
    }

    /// Acknowledges the data level up to `una`; returns false if that is nothing new.
    pub(super) fn acknowledge(&mut self, una: u64) -> bool {
        if una <= self.una {
            return false;
        }
        self.una = una;
        self.news = true;
        self.outstanding.remove_below(una);
        self.reinject.remove_below(una);
        // A peer may acknowledge a copy of unassigned data, but never data not sent.
        self.unassigned.remove_below(una);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SubflowId = SubflowId(0);
    const B: SubflowId = SubflowId(1);

    fn range(start: u64, end: u64) -> DataRange {
        DataRange::new(start, end)
    }

    #[test]
    fn contiguous_assignments_to_one_subflow_are_one_entry() {
        let mut send = SendState::default();
        send.write(100);
        send.assign_new(range(0, 10), A);
        send.assign_new(range(10, 20), A);
        send.assign_new(range(20, 30), B);
        assert_eq!(send.outstanding.as_slice().len(), 2);
        send.assign_again(range(5, 15), B);
        let tried: Vec<_> = send.outstanding.as_slice().iter().map(|p| (p.range, p.tried.0)).collect();
        assert_eq!(tried, [(range(0, 5), 1), (range(5, 15), 3), (range(15, 20), 1), (range(20, 30), 2)]);
        assert!(send.acknowledge(12));
        assert_eq!(send.outstanding.as_slice()[0].range, range(12, 15));
    }

    #[test]
    fn recalled_data_is_unassigned_and_reinjections_are_not_repeated() {
        let mut send = SendState::default();
        send.write(100);
        send.assign_new(range(0, 50), A);
        send.take_back(range(40, 50));
        assert_eq!(send.unassigned.as_slice(), [range(40, 100)]);
        send.request_reinjection(range(0, 20));
        send.request_reinjection(range(10, 60));
        let wanted: u64 = send.reinject.as_slice().iter().map(|p| p.range.len()).sum();
        assert_eq!(wanted, 40);
        send.assign_again(range(0, 40), B);
        assert!(send.reinject.is_empty());
    }

    #[test]
    fn recalled_data_is_not_reinjected_too() {
        let mut send = SendState::default();
        send.write(100);
        send.assign_new(range(0, 50), A);
        send.request_reinjection(range(30, 50));
        send.take_back(range(20, 50));
        assert!(send.reinject.is_empty());
        assert_eq!(send.unassigned.as_slice(), [range(20, 100)]);
    }

    #[test]
    fn a_range_may_be_taken_out_of_several_entries() {
        let mut list = PendingList::default();
        let entries = [(range(0, 10), A), (range(10, 20), B), (range(20, 30), A), (range(40, 50), A)];
        for (range, id) in entries {
            list.add(range, SubflowSet::one(id));
        }
        let mut gone = Vec::new();
        list.remove(range(5, 25), |part, tried| gone.push((part, tried.0)));
        assert_eq!(gone, [(range(5, 10), 1), (range(10, 20), 2), (range(20, 25), 1)]);
        let left = |list: &PendingList| list.as_slice().iter().map(|item| item.range).collect::<Vec<_>>();
        assert_eq!(left(&list), [range(0, 5), range(25, 30), range(40, 50)]);
        list.remove(range(42, 44), |_, _| ());
        list.remove(range(30, 40), |_, _| panic!("nothing is there"));
        assert_eq!(left(&list), [range(0, 5), range(25, 30), range(40, 42), range(44, 50)]);
    }

    #[test]
    fn removed_entries_at_the_front_are_freed_occasionally() {
        // The number that stays in memory: more than half, or few, as the rest is moved each time.
        for (entries, taken, kept) in
            [(100, 33, 100), (100, 50, 100), (100, 51, 49), (40, 32, 40), (40, 33, 7), (40, 40, 0)]
        {
            let mut list = PendingList::default();
            for at in 0..entries {
                list.add(range(10 * at, 10 * at + 5), SubflowSet::one(A));
            }
            list.remove_below(10 * taken);
            assert_eq!(list.items.len(), kept, "{taken} of {entries}");
            assert_eq!(list.as_slice().len() as u64, entries - taken);
            assert_eq!(list.is_empty(), taken == entries);
        }
    }

    #[test]
    fn a_dead_subflow_has_carried_nothing() {
        let mut send = SendState::default();
        send.write(30);
        send.assign_new(range(0, 10), A);
        send.assign_again(range(0, 10), B);
        send.assign_new(range(10, 20), B);
        send.outstanding.forget(B);
        let tried: Vec<_> = send.outstanding.as_slice().iter().map(|p| p.tried.0).collect();
        assert_eq!(tried, [1, 0]);
        send.acknowledge(12);
        assert_eq!(send.buffered(), 18);
    }

    #[test]
    fn data_picked_out_of_order_stays_sorted() {
        let mut send = SendState::default();
        send.write(100);
        send.assign_new(range(50, 60), B);
        send.assign_new(range(0, 10), A);
        send.assign_new(range(10, 20), A);
        let starts: Vec<_> = send.outstanding.as_slice().iter().map(|p| p.range.start).collect();
        assert!(starts.is_sorted());
        assert_eq!(send.nxt, 60);
        assert_eq!(send.unassigned.as_slice(), [range(20, 50), range(60, 100)]);
    }
}
