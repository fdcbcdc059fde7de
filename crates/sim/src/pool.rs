//! The packets in flight. Links move 8-byte tickets; the segments stay where they are.

use anabranch_stack::segment::Segment;

/// A packet on its way: which, and where on its route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    /// Its place in the pool.
    pub(crate) packet: u32,
    /// The place of its present hop in the fabric's list of hops.
    pub(crate) hop: u32,
}

/// Segments by number. A freed place is the next to be used: it is the one in the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    segments: Vec<Segment>,
    /// How many further tickets name a packet, where links duplicate.
    copies: Vec<u32>,
    free: Vec<u32>,
}

impl Pool {
    /// Takes a segment in.
    #[inline]
    pub(crate) fn insert(&mut self, segment: &Segment) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.segments[place as usize] = *segment;
                place
            }
            None => {
                self.segments.push(*segment);
                self.copies.push(0);
                (self.segments.len() - 1) as u32
            }
        }
    }

    /// The segment at `place`.
    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Segment {
        &self.segments[place as usize]
    }

    /// One more ticket names the packet.
    pub(crate) fn duplicate(&mut self, place: u32) {
        self.copies[place as usize] += 1;
    }

    /// A ticket is gone; with the last one the place is free.
    #[inline]
    pub(crate) fn release(&mut self, place: u32) {
        match &mut self.copies[place as usize] {
            0 => self.free.push(place),
            copies => *copies -= 1,
        }
    }

    /// How many packets are in flight, copies not counted.
    pub(crate) fn in_flight(&self) -> usize {
        self.segments.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_stack::segment::{Address, Flags};
    use anabranch_stack::seq::Seq;

    #[test]
    fn a_place_is_free_when_the_last_copy_is_gone() {
        let address = Address::new(core::net::IpAddr::from([10, 0, 0, 1]), 1);
        let segment = Segment::new(address, address, Seq(1), Flags::ACK);
        let mut pool = Pool::default();
        let first = pool.insert(&segment);
        let second = pool.insert(&segment);
        pool.duplicate(first);
        pool.release(first);
        assert_eq!(pool.in_flight(), 2);
        pool.release(first);
        assert_eq!(pool.in_flight(), 1);
        assert_eq!(pool.insert(&segment), first);
        pool.release(second);
        pool.release(first);
        assert_eq!(pool.in_flight(), 0);
    }
}
