//! The calendar: the time of the next turn of each item (a link, a host, the agenda).
//!
//! Near times are in a wheel: a ring of slots, each for a short span of time and with a list of its items,
//! usually one, so that setting a time and finding the next one take constant time. Times beyond the wheel
//! are in a heap until they are reached or replaced, and are never moved. Equal times are returned in the
//! order in which they were set, which makes a run reproducible.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_units::Time;

/// The number of slots in a group: the bits of 64 words that mark those in use, which are marked by one word.
const GROUP: usize = 64 * 64;

/// The largest number of groups of a wheel, the bits of the word that marks those in use.
const MAX_GROUPS: usize = 64;

/// The number of items that may share the time of a slot without a finer wheel.
const ITEMS_PER_SLOT: usize = 8;

/// No item, or no slot.
const NONE: u32 = u32::MAX;

/// The state of one item.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The time of its next turn; [`Time::NEVER`] if it has none.
    time: Time,
    /// The sequence number of this time, over all items.
    order: u64,
    /// The next item in the same slot.
    next: u32,
    /// Its slot in the wheel.
    slot: u32,
}

/// A calendar of items `0..n`, each with at most one time.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    entries: Vec<Entry>,
    /// The earliest time, and its item.
    first_time: Time,
    first: u32,
    /// A slot spans `2^shift` ns.
    shift: u32,
    /// The first slot number that may be in use, counted from time zero. An item set for an earlier time is
    /// put into this slot.
    cursor: u64,
    orders: u64,
    /// The first item of each slot; their number is a power of two.
    slots: Box<[u32]>,
    /// The slots in use; which of these words are not zero; and which of those.
    used: Box<[u64]>,
    used_words: Box<[u64]>,
    used_groups: u64,
    /// Times beyond the wheel: time, order, item. An entry is valid as long as its item has that order.
    far: BinaryHeap<Reverse<(Time, u64, u32)>>,
    /// A lower bound of the times in the heap.
    far_from: Time,
}

impl Calendar {
    /// Returns a calendar; `span_ns` is the typical time between two events of a busy item. With many items the
    /// slots are shorter, so that few items share one, and there are more of them.
    pub(crate) fn new(items: usize, span_ns: u64) -> Calendar {
        let crowd = (items / ITEMS_PER_SLOT).max(1).next_power_of_two();
        let groups = crowd.min(MAX_GROUPS);
        Calendar {
            entries: vec![Entry { time: Time::NEVER, order: 0, next: NONE, slot: NONE }; items],
            first_time: Time::NEVER,
            first: NONE,
            shift: span_ns.max(1).ilog2().min(32).saturating_sub(crowd.ilog2()),
            cursor: 0,
            orders: 0,
            slots: vec![NONE; groups * GROUP].into(),
            used: vec![0; groups * 64].into(),
            used_words: vec![0; groups].into(),
            used_groups: 0,
            far: BinaryHeap::new(),
            far_from: Time::NEVER,
        }
    }

    /// Returns the time of the next turn of `item`; [`Time::NEVER`] if it has none.
    #[inline]
    pub(crate) fn time_of(&self, item: u32) -> Time {
        self.entries[item as usize].time
    }

    /// Returns the earliest time and its item.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Time, u32)> {
        self.first_time.is_armed().then_some((self.first_time, self.first))
    }

    /// Sets the time of `item`; [`Time::NEVER`] removes it. An unchanged time keeps its order.
    #[inline]
    pub(crate) fn set(&mut self, item: u32, time: Time) {
        if self.time_of(item) != time {
            self.change(item, time);
        }
    }

    fn change(&mut self, item: u32, time: Time) {
        self.take_out(item);
        self.orders += 1;
        let ahead = (time.0 >> self.shift).saturating_sub(self.cursor);
        let entry = &mut self.entries[item as usize];
        entry.time = time;
        entry.order = self.orders;
        if ahead < self.slots.len() as u64 && time.is_armed() {
            let place = self.cursor + ahead;
            let slot = place as usize & (self.slots.len() - 1);
            entry.slot = slot as u32;
            entry.next = core::mem::replace(&mut self.slots[slot], item);
            self.used[slot / 64] |= 1 << (slot % 64);
            self.used_words[slot / GROUP] |= 1 << (slot / 64 % 64);
            self.used_groups |= 1 << (slot / GROUP);
        } else if time.is_armed() {
            self.put_far(item);
        }
        if time < self.first_time {
            (self.first_time, self.first) = (time, item);
        } else if item == self.first {
            self.find_first();
        }
    }

    /// Removes an item from the wheel, if it is there.
    #[inline]
    fn take_out(&mut self, item: u32) {
        let entry = &mut self.entries[item as usize];
        let slot = core::mem::replace(&mut entry.slot, NONE) as usize;
        let next = entry.next;
        let Some(head) = self.slots.get_mut(slot) else { return };
        if *head != item {
            self.take_from_within(slot, item);
            return;
        }
        *head = next;
        if next == NONE {
            self.used[slot / 64] &= !(1 << (slot % 64));
            if self.used[slot / 64] == 0 {
                self.used_words[slot / GROUP] &= !(1 << (slot / 64 % 64));
                if self.used_words[slot / GROUP] == 0 {
                    self.used_groups &= !(1 << (slot / GROUP));
                }
            }
        }
    }

    /// Removes an item from a slot in which it is not the first.
    #[cold]
    fn take_from_within(&mut self, slot: usize, item: u32) {
        let mut before = self.slots[slot];
        while self.entries[before as usize].next != item {
            before = self.entries[before as usize].next;
        }
        self.entries[before as usize].next = self.entries[item as usize].next;
    }

    #[cold]
    fn put_far(&mut self, item: u32) {
        let entries = &self.entries;
        if self.far.len() > 64 + 2 * entries.len() {
            // Most entries are no longer valid.
            self.far.retain(|Reverse((_, order, item))| entries[*item as usize].order == *order);
        }
        let Entry { time, order, .. } = entries[item as usize];
        self.far.push(Reverse((time, order, item)));
        self.far_from = self.far_from.min(time);
    }

    /// Finds the earliest time of all.
    #[inline]
    fn find_first(&mut self) {
        let first = self.next_slot().map_or(NONE, |slot| self.slots[slot]);
        let Some(entry) = self.entries.get(first as usize) else {
            (self.first_time, self.first) = (Time::NEVER, NONE);
            self.look_far(u64::MAX);
            return;
        };
        (self.first_time, self.first) = (entry.time, first);
        let (order, next) = (entry.order, entry.next);
        if next != NONE {
            self.find_first_of(order, next);
        } else if self.far_from <= self.first_time {
            self.look_far(order);
        }
        self.cursor = self.cursor.max(self.first_time.0 >> self.shift);
    }

    /// Finds the earliest time in a slot with several items; the first of them, with its order, is given.
    #[inline(never)]
    fn find_first_of(&mut self, mut order: u64, mut item: u32) {
        while let Some(entry) = self.entries.get(item as usize) {
            if (entry.time, entry.order) < (self.first_time, order) {
                (self.first_time, self.first, order) = (entry.time, item, entry.order);
            }
            item = entry.next;
        }
        if self.far_from <= self.first_time {
            self.look_far(order);
        }
    }

    /// Returns the first slot in use.
    #[inline(always)]
    fn next_slot(&self) -> Option<usize> {
        if self.used_groups == 0 {
            return None;
        }
        let cursor = self.cursor as usize & (self.slots.len() - 1);
        let (word, bit) = (cursor / 64, cursor % 64);
        let here = self.used[word] >> bit << bit;
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let group = word / 64;
        let after = self.used_words[group] & (u64::MAX << (word % 64) << 1);
        let (group, words) = if after != 0 {
            (group, after)
        } else {
            // From the next group around the ring, back to this one.
            let ahead = self.used_groups.rotate_right(group as u32 + 1).trailing_zeros() as usize;
            let group = (group + 1 + ahead) % MAX_GROUPS;
            (group, self.used_words[group])
        };
        let word = group * 64 + words.trailing_zeros() as usize;
        Some(word * 64 + self.used[word].trailing_zeros() as usize)
    }

    /// Updates the earliest time if one in the heap is earlier than the first in the wheel, which has this
    /// order.
    #[cold]
    fn look_far(&mut self, order: u64) {
        while let Some(&Reverse((time, other, item))) = self.far.peek() {
            if self.entries[item as usize].order == other {
                if (time, other) < (self.first_time, order) {
                    (self.first_time, self.first) = (time, item);
                }
                break;
            }
            self.far.pop();
        }
        self.far_from = self.far.peek().map_or(Time::NEVER, |entry| entry.0.0);
        if self.first_time.is_armed() {
            self.cursor = self.cursor.max(self.first_time.0 >> self.shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::{Duration, RandomStream};

    #[test]
    fn equal_times_come_out_in_the_order_in_which_they_were_set() {
        let mut calendar = Calendar::new(5, 4);
        for item in [3, 0, 4, 1, 2] {
            calendar.set(item, Time(7));
        }
        calendar.set(0, Time(7));
        calendar.set(4, Time(9));
        calendar.set(4, Time(7));
        let mut out = Vec::new();
        while let Some((_, item)) = calendar.first() {
            out.push(item);
            calendar.set(item, Time::NEVER);
        }
        assert_eq!(out, [3, 0, 1, 2, 4]);
    }

    #[test]
    fn it_agrees_with_a_sorted_list_under_random_operations() {
        for items in [1, 2, 4, 5, 37, 600] {
            for span in [1, 10, 1000, 1_000_000] {
                against_a_sorted_list(items, span, |now, random| now + Duration(random.below(50)));
                // Times far beyond the wheel too, and earlier than the present one.
                against_a_sorted_list(items, span, |now, random| {
                    let magnitude = random.below(34);
                    let ahead = random.below(1 << magnitude);
                    if random.chance(0.1) { Time(now.0.saturating_sub(ahead)) } else { now + Duration(ahead) }
                });
            }
        }
    }

    fn against_a_sorted_list(items: u32, span: u64, choose: impl Fn(Time, &mut RandomStream) -> Time) {
        let mut random = RandomStream::new(1, "heap");
        let mut calendar = Calendar::new(items as usize, span);
        let mut model: Vec<(Time, u64, u32)> = Vec::new();
        let mut now = Time::ZERO;
        for order in 0..20_000_u64 {
            let mut item = random.below(u64::from(items)) as u32;
            let mut time = choose(now, &mut random);
            if random.chance(0.2) {
                time = Time::NEVER;
            } else if let Some((first, next)) = calendar.first().filter(|_| random.chance(0.5)) {
                // Usually the time of the first item changes, after its turn.
                (item, now) = (next, first);
            }
            let old = model.iter().position(|entry| entry.2 == item);
            if calendar.time_of(item) != time {
                if let Some(old) = old {
                    model.remove(old);
                }
                if time.is_armed() {
                    model.push((time, order, item));
                }
            }
            calendar.set(item, time);
            let least = model.iter().min().map(|entry| (entry.0, entry.2));
            assert_eq!(calendar.first(), least);
        }
        assert!(calendar.far.len() <= 65 + 2 * items as usize);
    }
}
