//! The calendar: for each item (a link, a host, the agenda) the one time at which it wants to run.
//!
//! An indexed min-heap with four children to a node. An item is in it once or not at all, and its
//! key is moved in place, so the calendar never grows and never holds stale entries. Equal times
//! come out in the order in which they were set, which makes a run reproducible.

use anabranch_units::Time;

/// Not in the heap.
const ABSENT: u32 = u32::MAX;
/// Children of a node.
const WIDTH: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The time above, and below it when this was set, counted over all items, which breaks ties. One
    /// number, because it is compared in two instructions.
    key: u128,
    item: u32,
}

impl Node {
    fn new(time: Time, order: u64, item: u32) -> Node {
        Node { key: u128::from(time.0) << 64 | u128::from(order), item }
    }

    fn time(&self) -> Time {
        Time((self.key >> 64) as u64)
    }
}

/// Items `0..n`, each with at most one time.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    nodes: Vec<Node>,
    /// The place of each item in `nodes`.
    places: Vec<u32>,
    /// The time of each item; never where it is absent.
    times: Vec<Time>,
    orders: u64,
}

impl Calendar {
    pub(crate) fn new(items: usize) -> Calendar {
        Calendar {
            nodes: Vec::with_capacity(items),
            places: vec![ABSENT; items],
            times: vec![Time::NEVER; items],
            orders: 0,
        }
    }

    /// When `item` wants to run; [`Time::NEVER`] if it does not.
    #[inline]
    pub(crate) fn time_of(&self, item: u32) -> Time {
        self.times[item as usize]
    }

    /// The earliest time and its item.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Time, u32)> {
        self.nodes.first().map(|node| (node.time(), node.item))
    }

    /// Sets the time of `item`; [`Time::NEVER`] takes it out. Nothing happens if it is the same already.
    #[inline]
    pub(crate) fn set(&mut self, item: u32, time: Time) {
        if self.times[item as usize] != time {
            self.change(item, time);
        }
    }

    fn change(&mut self, item: u32, time: Time) {
        self.times[item as usize] = time;
        let place = self.places[item as usize];
        if !time.is_armed() {
            if place != ABSENT {
                self.remove(place as usize);
            }
            return;
        }
        let node = Node::new(time, self.orders, item);
        self.orders += 1;
        if place == ABSENT {
            self.nodes.push(node);
            self.sift_up(self.nodes.len() - 1, node);
        } else {
            self.replace(place as usize, node);
        }
    }

    fn replace(&mut self, place: usize, node: Node) {
        if node.key < self.nodes[place].key {
            self.sift_up(place, node);
        } else {
            self.sift_down(place, node);
        }
    }

    fn remove(&mut self, place: usize) {
        let gone = self.nodes[place];
        self.places[gone.item as usize] = ABSENT;
        let Some(last) = self.nodes.pop() else { return };
        if place < self.nodes.len() {
            self.replace(place, last);
        }
    }

    /// Puts `node` at `place` or above; what was at `place` is overwritten.
    fn sift_up(&mut self, mut place: usize, node: Node) {
        while place > 0 {
            let parent = (place - 1) / WIDTH;
            let above = self.nodes[parent];
            if node.key > above.key {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        self.put(place, node);
    }

    /// Puts `node` at `place` or below; what was at `place` is overwritten.
    fn sift_down(&mut self, mut place: usize, node: Node) {
        loop {
            let first = place * WIDTH + 1;
            let Some(children) = self.nodes.get(first..) else { break };
            let Some(mut least) = children.first().copied() else { break };
            let mut least_place = first;
            for (offset, child) in children.iter().enumerate().take(WIDTH).skip(1) {
                if child.key < least.key {
                    least = *child;
                    least_place = first + offset;
                }
            }
            if node.key < least.key {
                break;
            }
            self.put(place, least);
            place = least_place;
        }
        self.put(place, node);
    }

    #[inline]
    fn put(&mut self, place: usize, node: Node) {
        self.nodes[place] = node;
        self.places[node.item as usize] = place as u32;
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
        let items = 37_u32;
        let mut random = RandomStream::new(1, "heap");
        let mut calendar = Calendar::new(items as usize);
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
    }
}
