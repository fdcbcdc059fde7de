//! Sets of offsets, kept as sorted disjoint ranges.

use crate::seq::DataRange;

/// A set of offsets as ascending, disjoint, non-adjacent ranges.
///
/// Additions near the end and removals near the start are cheap, which is how streams behave.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: Vec<DataRange>,
    /// The number of ranges at the start that are already removed.
    head: usize,
}

impl RangeSet {
    /// Returns the empty set.
    pub(crate) const fn new() -> RangeSet {
        RangeSet { ranges: Vec::new(), head: 0 }
    }

    /// Returns the ranges, ascending.
    pub(crate) fn as_slice(&self) -> &[DataRange] {
        &self.ranges[self.head..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.ranges.len()
    }

    /// Returns the number of offsets in the set.
    pub(crate) fn total(&self) -> u64 {
        self.as_slice().iter().map(|range| range.len()).sum()
    }

    /// Returns the first range.
    pub(crate) fn first(&self) -> Option<DataRange> {
        self.as_slice().first().copied()
    }

    /// Returns the last range.
    pub(crate) fn last(&self) -> Option<DataRange> {
        self.as_slice().last().copied()
    }

    /// Returns the range that contains `offset`.
    pub(crate) fn containing(&self, offset: u64) -> Option<DataRange> {
        let ranges = self.as_slice();
        let at = ranges.partition_point(|range| range.end <= offset);
        ranges.get(at).copied().filter(|range| range.start <= offset)
    }

    /// True if the set contains all of `range`.
    pub(crate) fn covers(&self, range: DataRange) -> bool {
        range.is_empty() || self.containing(range.start).is_some_and(|found| found.end >= range.end)
    }

    /// True if there are already `most` ranges, and `range` would be one more.
    pub(crate) fn is_full(&self, range: DataRange, most: usize) -> bool {
        let ranges = self.as_slice();
        if ranges.len() < most {
            return false;
        }
        let at = ranges.partition_point(|old| old.end < range.start);
        ranges.get(at).is_none_or(|old| old.start > range.end)
    }

    /// Adds `range`; calls `fresh` with each part that was not in the set before, ascending.
    pub(crate) fn insert(&mut self, range: DataRange, mut fresh: impl FnMut(DataRange)) {
        if range.is_empty() {
            return;
        }
        // The common cases: after all ranges, or extending the last one.
        if let Some(last) = self.ranges.last_mut() {
            if range.start > last.end {
                fresh(range);
                self.ranges.push(range);
                return;
            }
            if range.start >= last.start {
                if range.end > last.end {
                    fresh(DataRange::new(last.end, range.end));
                    last.end = range.end;
                }
                return;
            }
        } else {
            fresh(range);
            self.ranges.push(range);
            return;
        }
        let first = self.index_of(|r| r.end < range.start);
        let mut merged = range;
        let mut cursor = range.start;
        let mut last = first;
        while let Some(&old) = self.ranges.get(last).filter(|old| old.start <= range.end) {
            if old.start > cursor {
                fresh(DataRange::new(cursor, old.start));
            }
            cursor = cursor.max(old.end);
            merged.start = merged.start.min(old.start);
            merged.end = merged.end.max(old.end);
            last += 1;
        }
        if cursor < range.end {
            fresh(DataRange::new(cursor, range.end));
        }
        if first == last {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
    }

    /// Returns the index in `ranges` of the first one that is not `before`.
    fn index_of(&self, before: impl Fn(&DataRange) -> bool) -> usize {
        self.head + self.as_slice().partition_point(before)
    }

    /// Removes the first `count` ranges. Their memory is freed lazily, so that a long list consumed from the
    /// start is not moved each time.
    fn advance(&mut self, count: usize) {
        self.head += count;
        if self.head == self.ranges.len() {
            self.ranges.clear();
            self.head = 0;
        } else if self.head > 32 && self.head * 2 > self.ranges.len() {
            self.ranges.drain(..self.head);
            self.head = 0;
        }
    }

    /// Adds `range`.
    pub(crate) fn add(&mut self, range: DataRange) {
        self.insert(range, |_| ());
    }

    /// Removes `range`; calls `gone` with each part that was in the set.
    pub(crate) fn remove(&mut self, range: DataRange, mut gone: impl FnMut(DataRange)) {
        if range.is_empty() {
            return;
        }
        if let Some(first) = self.ranges.get_mut(self.head)
            && first.start == range.start
            && first.end > range.end
        {
            // The start of the first range, as when a stream is consumed.
            gone(range);
            first.start = range.end;
            return;
        }
        let mut at = self.index_of(|r| r.end <= range.start);
        while let Some(old) = self.ranges.get(at).copied().filter(|old| old.start < range.end) {
            gone(old.intersection(range));
            let left = DataRange::new(old.start, range.start.min(old.end));
            let right = DataRange::new(range.end.max(old.start), old.end);
            match (left.is_empty(), right.is_empty()) {
                (true, true) => {
                    self.ranges.remove(at);
                }
                (false, true) => {
                    self.ranges[at] = left;
                    at += 1;
                }
                (true, false) => {
                    self.ranges[at] = right;
                    at += 1;
                }
                (false, false) => {
                    self.ranges[at] = left;
                    self.ranges.insert(at + 1, right);
                    at += 2;
                }
            }
        }
        self.advance(0);
    }

    /// Removes everything before `offset`.
    pub(crate) fn remove_below(&mut self, offset: u64) {
        if self.first().is_none_or(|first| first.start >= offset) {
            return;
        }
        self.advance(self.as_slice().partition_point(|range| range.end <= offset));
        if let Some(first) = self.ranges.get_mut(self.head) {
            first.start = first.start.max(offset);
        }
    }

    /// Removes and returns the first range if it starts at or before `offset`.
    pub(crate) fn pop_reached(&mut self, offset: u64) -> Option<DataRange> {
        let first = self.first().filter(|first| first.start <= offset)?;
        self.advance(1);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares every operation with the same set as a list of booleans.
    fn model(operations: u64) {
        let mut random = anabranch_units::RandomStream::new(operations, "ranges");
        let mut set = RangeSet::new();
        let mut truth = [false; 64];
        for _ in 0..40 {
            let start = random.below(64);
            let end = (start + random.below(12)).min(64);
            let add = random.chance(0.6);
            let mut heard = Vec::new();
            let range = DataRange::new(start, end);
            if add {
                set.insert(range, |part| heard.push(part));
            } else {
                set.remove(range, |part| heard.push(part));
            }
            let mut expected = Vec::new();
            for at in start..end {
                if truth[at as usize] != add {
                    expected.push(at);
                }
                truth[at as usize] = add;
            }
            let heard: Vec<u64> = heard.iter().flat_map(|part| part.start..part.end).collect();
            assert_eq!(heard, expected);
            let content: Vec<u64> = set.as_slice().iter().flat_map(|r| r.start..r.end).collect();
            let all: Vec<u64> = (0..64).filter(|at| truth[*at as usize]).collect();
            assert_eq!(content, all);
            assert!(set.as_slice().windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }

    #[test]
    fn every_operation_agrees_with_a_list_of_booleans() {
        (0..500).for_each(model);
    }

    /// Compares a long list from which the start is removed while it changes elsewhere.
    fn long_model(operations: u64) {
        const ALL: u64 = 600;
        let mut random = anabranch_units::RandomStream::new(operations, "long ranges");
        let mut set = RangeSet::new();
        let mut truth = [false; ALL as usize];
        let mut most = 0;
        for below in 0..ALL {
            for _ in 0..3 {
                let start = random.below(ALL);
                let range = DataRange::new(start, (start + 1 + random.below(2)).min(ALL));
                let add = random.chance(0.7);
                if add {
                    set.add(range)
                } else {
                    set.remove(range, |_| ())
                }
                truth[range.start as usize..range.end as usize].fill(add);
            }
            if random.chance(0.5) {
                set.remove_below(below);
                truth[..below as usize].fill(false);
            } else if let Some(reached) = set.pop_reached(below) {
                assert!(reached.start <= below);
                truth[reached.start as usize..reached.end as usize].fill(false);
            }
            most = most.max(set.as_slice().len());
            let content: Vec<u64> = set.as_slice().iter().flat_map(|r| r.start..r.end).collect();
            let all: Vec<u64> = (0..ALL).filter(|at| truth[*at as usize]).collect();
            assert_eq!(content, all);
            assert!(set.as_slice().windows(2).all(|pair| pair[0].end < pair[1].start));
            assert_eq!((set.is_empty(), set.first()), (all.is_empty(), set.as_slice().first().copied()));
        }
        assert!(most > 70, "{most} ranges are no long list");
    }

    #[test]
    fn a_long_list_is_taken_from_the_start() {
        (0..50).for_each(long_model);
    }

    #[test]
    fn reached_ranges_can_be_removed() {
        let mut set = RangeSet::new();
        set.add(DataRange::new(5, 9));
        assert_eq!(set.pop_reached(4), None);
        assert_eq!(set.pop_reached(6), Some(DataRange::new(5, 9)));
        set.add(DataRange::new(10, 20));
        set.remove_below(15);
        assert_eq!(set.first(), Some(DataRange::new(15, 20)));
        assert!(set.covers(DataRange::new(16, 20)) && !set.covers(DataRange::new(14, 16)));
    }
}
