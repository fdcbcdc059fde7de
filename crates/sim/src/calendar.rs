//! The calendar: the time of the next turn of each item (a link, a host, the agenda).
//!
//! It is a tournament: a binary tree over the items, in which every node holds the earlier of its two children, so that
//! the root is the first of all. A changed time plays against one rival on each level up to the root, without a branch that
//! depends on the outcome: for a run with a thousand links that is ten comparisons, which cost less than a misprediction or
//! two. Equal times are returned in the order in which they were set, which makes a run reproducible.

use anabranch_units::Time;

/// The number of parts into which the items are divided for [`Calendar::first_of_part`].
const PARTS: usize = 32;

/// The time of an item.
#[derive(Clone, Copy, Debug)]
struct Key {
    /// The time of its next turn; [`Time::NEVER`] if it has none.
    time: Time,
    /// The sequence number of this time, over all items.
    order: u64,
}

impl Key {
    const NEVER: Key = Key { time: Time::NEVER, order: 0 };

    /// Returns a number that is smaller for the earlier key.
    #[inline(always)]
    fn rank(self) -> u128 {
        u128::from(self.time.0) << 64 | u128::from(self.order)
    }
}

/// A calendar of items `0..n`, each with at most one time.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    /// The keys of the items; their number is a power of two.
    keys: Box<[Key]>,
    /// The winner of each node: node `n` holds the earlier of the winners of nodes `2n` and `2n + 1`. Node 1
    /// is the root, and the children of the last half of the nodes are the items.
    winners: Box<[u32]>,
    /// The winner of all, and its time.
    first: u32,
    first_time: Time,
    orders: u64,
}

impl Calendar {
    /// Returns a calendar without times.
    pub(crate) fn new(items: usize) -> Calendar {
        let places = items.next_power_of_two().max(2);
        let mut winners = vec![0; places];
        for node in (1..places).rev() {
            let child = 2 * node;
            winners[node] = if child < places { winners[child] } else { (child - places) as u32 };
        }
        Calendar {
            keys: vec![Key::NEVER; places].into(),
            winners: winners.into(),
            first: 0,
            first_time: Time::NEVER,
            orders: 0,
        }
    }

    /// Returns the first of the items in the same part as `item`; none with fewer items than parts. Its turn is usually among
    /// the next ones.
    #[inline]
    pub(crate) fn first_of_part(&self, item: u32) -> Option<u32> {
        let levels = self.keys.len().ilog2().checked_sub(PARTS.ilog2())?;
        self.winners.get((item as usize + self.keys.len()) >> levels).copied()
    }

    /// Returns the time of the next turn of `item`; [`Time::NEVER`] if it has none.
    #[inline]
    pub(crate) fn time_of(&self, item: u32) -> Time {
        self.keys[item as usize].time
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

    #[inline(never)]
    fn change(&mut self, item: u32, time: Time) {
        self.orders += 1;
        let mut key = Key { time, order: self.orders };
        let mut winner = item;
        self.keys[item as usize] = key;
        let mut rival = item ^ 1;
        let mut node = (item as usize + self.keys.len()) / 2;
        loop {
            let other = self.keys[rival as usize];
            let loses = other.rank() < key.rank();
            winner = if loses { rival } else { winner };
            key = if loses { other } else { key };
            self.winners[node] = winner;
            if node == 1 {
                break;
            }
            rival = self.winners[node ^ 1];
            node /= 2;
        }
        (self.first, self.first_time) = (winner, key.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::{Duration, RandomStream};

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
        for items in [1, 2, 3, 4, 5, 37, 64, 600] {
            against_a_sorted_list(items, |now, random| now + Duration(random.below(50)));
            // Many equal times; and times that are earlier than the present one.
            against_a_sorted_list(items, |now, random| now + Duration(random.below(2)));
            against_a_sorted_list(items, |now, random| {
                let magnitude = random.below(34);
                let ahead = random.below(1 << magnitude);
                if random.chance(0.1) { Time(now.0.saturating_sub(ahead)) } else { now + Duration(ahead) }
            });
        }
    }

    fn against_a_sorted_list(items: u32, choose: impl Fn(Time, &mut RandomStream) -> Time) {
        let mut random = RandomStream::new(1, "calendar");
        let mut calendar = Calendar::new(items as usize);
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
            let part = |item: u32| item as usize * PARTS / calendar.keys.len();
            let least = model.iter().filter(|entry| part(entry.2) == part(item)).min();
            let found = calendar.first_of_part(item);
            assert!(least.is_none_or(|least| found == Some(least.2)) || calendar.keys.len() <= PARTS);
        }
    }
}
