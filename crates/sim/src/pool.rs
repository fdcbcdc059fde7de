//! The packets in flight. Links move 8-byte tickets; the segments stay where they are.

use core::net::{IpAddr, Ipv4Addr};

use anabranch_stack::segment::{Address, Flags, Segment};
use anabranch_stack::seq::Seq;

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
    /// A place for the next segment, to be written by whoever has one. What it held is still there.
    #[inline]
    pub(crate) fn vacant(&mut self) -> u32 {
        match self.free.pop() {
            Some(place) => place,
            None => {
                let nobody = Address::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
                self.segments.push(Segment::new(nobody, nobody, Seq(0), Flags::default()));
                self.copies.push(0);
                (self.segments.len() - 1) as u32
            }
        }
    }

    /// The segment at `place`, to be written.
    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Segment {
        &mut self.segments[place as usize]
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

    #[test]
    fn a_place_is_free_when_the_last_copy_is_gone() {
        let mut pool = Pool::default();
        let first = pool.vacant();
        let second = pool.vacant();
        pool.duplicate(first);
        pool.release(first);
        assert_eq!(pool.in_flight(), 2);
        pool.release(first);
        assert_eq!(pool.in_flight(), 1);
        assert_eq!(pool.vacant(), first);
        pool.release(second);
        pool.release(first);
        assert_eq!(pool.in_flight(), 0);
    }
}
