//! The sending half of the data level: what is written, given to subflows, and acknowledged.

use crate::event::{SubflowId, SubflowSet};
use crate::ranges::RangeSet;
use crate::scheduler::Pending;
use crate::seq::DataRange;

/// Ranges with the subflows that carry them, ascending and disjoint; taken off at the front.
#[derive(Clone, Debug, Default)]
pub struct PendingList {
    items: Vec<Pending>,
    head: usize,
}

impl PendingList {
    /// The entries.
    pub fn as_slice(&self) -> &[Pending] {
        &self.items[self.head..]
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.head == self.items.len()
    }

    /// Takes off everything before `offset`.
    pub fn remove_below(&mut self, offset: u64) {
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
    pub fn add(&mut self, range: DataRange, tried: SubflowSet) {
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

    /// Takes `range` out; `gone` hears each part with its subflows.
    pub fn remove(&mut self, range: DataRange, mut gone: impl FnMut(DataRange, SubflowSet)) {
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

    /// The parts of `range` that are in the list, with their subflows.
    pub fn overlap(&self, range: DataRange, mut found: impl FnMut(DataRange, SubflowSet)) {
        for item in &self.items[self.first_ending_after(range.start)..] {
            let inside = item.range.intersection(range);
            if inside.is_empty() {
                break;
            }
            found(inside, item.tried);
        }
    }

    /// Forgets that a subflow has carried anything.
    pub fn forget(&mut self, id: SubflowId) {
        for item in &mut self.items[self.head..] {
            item.tried = item.tried.without(id);
        }
    }

    /// Notes that `id` carries `range` too.
    pub fn mark(&mut self, range: DataRange, id: SubflowId) {
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

/// The sending half of a connection. All offsets are in the stream; the DATA_FIN takes the offset
/// behind the last byte.
#[derive(Clone, Debug, Default)]
pub struct SendState {
    /// Everything before it is acknowledged at the data level (the DATA_FIN not counted).
    pub una: u64,
    /// Nothing at or behind it was ever given to a subflow.
    pub nxt: u64,
    /// How much the application has written.
    pub written: u64,
    /// Nothing may be sent behind it: the data acknowledgement plus the peer's window.
    pub window_end: u64,
    /// The peer's window at the last data acknowledgement.
    pub peer_window: u64,
    /// Written and not given to any subflow.
    pub unassigned: RangeSet,
    /// Given to subflows and not acknowledged.
    pub outstanding: PendingList,
    /// To be given to another subflow.
    pub reinject: PendingList,
    /// The application writes no more.
    pub closed: bool,
    /// The DATA_FIN (or FIN) was sent at least once.
    pub fin_sent: bool,
    /// And it was acknowledged.
    pub fin_acked: bool,
    /// A write did not fit.
    pub blocked: bool,
    /// A blocked writer is woken once the buffer holds no more than this, if that is less than two thirds of it.
    pub enough: u64,
    /// The send buffer may be larger than it was at first.
    pub grows: bool,
    /// There is something for the scheduler: data, space in the window, or the end of the stream.
    news: bool,
}

impl SendState {
    /// What was written and is not acknowledged.
    pub fn buffered(&self) -> u64 {
        self.written - self.una
    }

    /// True if something has changed since [`SendState::forget_news`] that may change what the scheduler decides.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news
    }

    /// The scheduler is asked.
    #[inline]
    pub fn forget_news(&mut self) {
        self.news = false;
    }

    /// The connection is open, and the peer's first window is `window`.
    pub fn open(&mut self, window: u64) {
        self.window_end = window;
        self.peer_window = window;
    }

    /// The peer admits data up to `edge`. The right edge only ever grows (RFC 8684 section 3.3.4).
    #[inline]
    pub fn widen(&mut self, edge: u64) {
        if edge > self.window_end {
            self.window_end = edge;
            self.news = true;
        }
    }

    /// The application writes no more.
    pub fn close(&mut self) {
        self.closed = true;
        self.news = true;
    }

    /// The application writes `n` bytes.
    pub fn write(&mut self, n: u64) {
        self.news = true;
        self.unassigned.add(DataRange::new(self.written, self.written + n));
        self.written += n;
    }

    /// `range` is given to `id` for the first time.
    pub fn assign_new(&mut self, range: DataRange, id: SubflowId) {
        self.unassigned.remove(range, |_| ());
        self.outstanding.add(range, SubflowSet::one(id));
        self.nxt = self.nxt.max(range.end);
    }

    /// `range` is given to `id` as well.
    pub fn assign_again(&mut self, range: DataRange, id: SubflowId) {
        self.outstanding.mark(range, id);
        self.reinject.remove(range, |_, _| ());
    }

    /// What `id` had not sent goes back where it came from.
    pub fn take_back(&mut self, range: DataRange) {
        self.news = true;
        let range = DataRange::new(range.start.max(self.una), range.end);
        self.outstanding.remove(range, |_, _| ());
        // What is new again is not asked for a second time.
        self.reinject.remove(range, |_, _| ());
        self.unassigned.add(range);
    }

    /// `range` shall go on another subflow.
    pub fn request_reinjection(&mut self, range: DataRange) {
        self.news = true;
        let range = DataRange::new(range.start.max(self.una), range.end);
        let mut parts = Vec::new();
        self.outstanding.overlap(range, |part, tried| parts.push((part, tried)));
        for (part, tried) in parts {
            self.reinject.remove(part, |_, _| ());
            self.reinject.add(part, tried);
        }
    }

    /// What shall go again, unless something before it in the stream waits to be sent for the first time: two
    /// subflows whose timers run out in turn would give each other what the peer has, and never come to that.
    #[inline]
    pub fn reinject_now(&self) -> &[Pending] {
        let again = self.reinject.as_slice();
        match (again.first(), self.unassigned.first()) {
            (Some(first), Some(new)) if new.start < first.range.start => &[],
            _ => again,
        }
    }

    /// The data level is acknowledged up to `una`; false if that is nothing new.
    pub fn acknowledge(&mut self, una: u64) -> bool {
        if una <= self.una {
            return false;
        }
        self.una = una;
        self.news = true;
        self.outstanding.remove_below(una);
        self.reinject.remove_below(una);
        // A peer may acknowledge a copy of what waits to be sent elsewhere, never what was not sent.
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
    fn what_is_taken_back_is_unassigned_again_and_reinjections_are_not_repeated() {
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
    fn what_is_taken_back_is_not_reinjected_as_well() {
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
    fn what_was_taken_off_at_the_front_is_dropped_now_and_then() {
        // So many stay in memory: more than half, or few, as each time the rest is moved.
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
