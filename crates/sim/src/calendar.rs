//! The calendar: for each item (a link, a host, the agenda) the one time at which it wants to run.
//!
//! A tournament: a tree with four children to a node, whose leaves are the items and whose inner nodes
//! repeat the earliest of their children, so that the root is the next to run. A new time walks up from
//! its leaf, one cache line a level. There are few items (links and hosts, not packets or connections) and
//! each is set all the time, which suits a tree that moves nothing about and has no branch to mispredict.
//! Equal times come out in the order in which they were set, which makes a run reproducible.

use anabranch_units::Time;

/// An item and its time in one number, because it is compared in two instructions: the time above;
/// below it when this was set, counted over all items, which breaks ties; and last the item.
type Key = u128;

/// The key of an item that does not want to run. No time is as late as [`Time::NEVER`].
const ABSENT: Key = Key::MAX;

/// Four siblings.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Siblings([Key; 4]);

impl Siblings {
    /// Puts `key` in its place, and says which is the earliest of the four.
    ///
    /// Nobody can foresee which it is, so that no branch may decide.
    #[inline(always)]
    fn replace(&mut self, place: usize, key: Key) -> Key {
        let Siblings(keys) = self;
        keys[place % 4] = key;
        let others = keys[(place ^ 1) % 4].min(keys[(place ^ 2) % 4]).min(keys[(place ^ 3) % 4]);
        key.min(others)
    }

    /// As [`Siblings::replace`]. Inside a loop LLVM makes branches of its selections, therefore this stands apart.
    #[inline(never)]
    fn replace_apart(&mut self, place: usize, key: Key) -> Key {
        self.replace(place, key)
    }
}

/// Items `0..n`, each with at most one time.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    /// The first siblings are the children of the root. The nodes are counted through: node `i` is at
    /// `[i / 4][i % 4]`, and the children of node `i` are the siblings `i + 1`.
    nodes: Vec<Siblings>,
    /// The root.
    first: Key,
    /// The node of the first item: those before it have children.
    leaves: usize,
    /// The lowest bits of a key, which name the item.
    item_mask: u64,
    /// The count of the next key, above those bits.
    next_order: u64,
}

impl Calendar {
    pub(crate) fn new(items: usize) -> Calendar {
        // All siblings but the first have a parent, which is no leaf.
        let siblings = items.saturating_sub(1).div_ceil(3).max(1);
        Calendar {
            nodes: vec![Siblings([ABSENT; 4]); siblings],
            first: ABSENT,
            leaves: siblings - 1,
            item_mask: items.next_power_of_two() as u64 - 1,
            next_order: 0,
        }
    }

    #[inline]
    fn leaf(&self, item: u32) -> Key {
        let at = self.leaves + item as usize;
        self.nodes[at / 4].0[at % 4]
    }

    #[inline]
    fn time(key: Key) -> Time {
        Time((key >> 64) as u64)
    }

    /// When `item` wants to run; [`Time::NEVER`] if it does not.
    #[inline]
    pub(crate) fn time_of(&self, item: u32) -> Time {
        Calendar::time(self.leaf(item))
    }

    /// The earliest time and its item.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Time, u32)> {
        let item = self.first as u32 & self.item_mask as u32;
        (self.first != ABSENT).then(|| (Calendar::time(self.first), item))
    }

    /// Sets the time of `item`; [`Time::NEVER`] takes it out. Nothing happens if it is the same already.
    #[inline]
    pub(crate) fn set(&mut self, item: u32, time: Time) {
        if self.time_of(item) != time {
            self.change(item, time);
        }
    }

    fn change(&mut self, item: u32, time: Time) {
        let mut key = ABSENT;
        if time.is_armed() {
            // The last count is that of an absent item.
            if self.next_order >= !self.item_mask {
                self.renumber();
            }
            key = Key::from(time.0) << 64 | Key::from(self.next_order | u64::from(item));
            self.next_order += self.item_mask + 1;
        }
        let at = self.leaves + item as usize;
        let key = self.nodes[at / 4].replace(at % 4, key);
        if at < 4 {
            self.first = key;
        } else {
            self.climb(at / 4 - 1, key);
        }
    }

    /// Puts `key` in the node `at`, whose children have changed, and walks on.
    fn climb(&mut self, mut at: usize, mut key: Key) {
        let nodes = self.nodes.as_mut_slice();
        loop {
            let (parent, place) = (at / 4, at % 4);
            let siblings = &mut nodes[parent];
            // The lower half tells all keys apart: nothing changes from here up.
            if siblings.0[place] as u64 == key as u64 {
                return;
            }
            key = siblings.replace_apart(place, key);
            if parent == 0 {
                break;
            }
            at = parent - 1;
        }
        self.first = key;
    }

    /// Counts anew from zero, in the same order: the count has no more room beside the item.
    #[cold]
    fn renumber(&mut self) {
        let items = (self.nodes.len() * 4 - self.leaves) as u32;
        let mut items: Vec<(u64, u32)> = (0..items)
            .filter(|&item| self.time_of(item).is_armed())
            .map(|item| (self.leaf(item) as u64, item))
            .collect();
        items.sort_unstable();
        self.next_order = 0;
        for (_, item) in items {
            let time = self.time_of(item);
            self.change(item, Time::NEVER);
            self.change(item, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::RandomStream;

    #[test]
    fn equal_times_come_out_in_the_order_in_which_they_were_set() {
        let mut calendar = Calendar::new(5);
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
        for items in [1, 2, 4, 5, 37] {
            against_a_sorted_list(items, 0);
        }
    }

    #[test]
    fn a_count_that_is_full_starts_again_in_the_same_order() {
        against_a_sorted_list(37, (1 << 58) - 10_000);
    }

    fn against_a_sorted_list(items: u32, orders: u64) {
        let mut random = RandomStream::new(1, "heap");
        let mut calendar = Calendar::new(items as usize);
        calendar.next_order = orders * (calendar.item_mask + 1);
        let mut model: Vec<(Time, u64, u32)> = Vec::new();
        for order in 0..20_000_u64 {
            let item = random.below(u64::from(items)) as u32;
            let time = if random.chance(0.2) { Time::NEVER } else { Time(random.below(50)) };
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
        assert!(orders == 0 || calendar.next_order / (calendar.item_mask + 1) < orders);
    }
}
