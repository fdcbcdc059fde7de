//! The packets in flight. Links move 8-byte tickets; the segments stay where they are.

use anabranch_stack::segment::{Address, Dss, Ecn, Flags, Options, SackBlocks, Segment, Timestamps};
use anabranch_stack::seq::Seq;

/// A packet on its way: which, and where on its route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    /// Its place in the pool.
    pub(crate) packet: u32,
    /// The place of its present hop in the fabric's list of hops.
    pub(crate) hop: u32,
}

/// What nearly every segment consists of, in two cache lines instead of the five of a [`Segment`]: with many
/// flows a packet has left the caches by the time it arrives. The fields are in the order of [`Segment`], so
/// that they are copied in a few moves.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Usual {
    source: Address,
    destination: Address,
    seq: Seq,
    ack: Seq,
    payload_len: u32,
    window: u16,
    flags: Flags,
    ecn: Ecn,
    dss: Option<Dss>,
    timestamps: Option<Timestamps>,
    /// Where the whole segment is, counted from 1, if it carries more than this; 0 if it does not.
    rare: u32,
}

const _: () = assert!(size_of::<Usual>() == 128);

/// A segment with options that few have (those of a SYN, SACK blocks, signals) or with
/// the sum of a payload, or of which a link has made
/// copies.
#[derive(Clone, Debug)]
struct Rare {
    segment: Segment,
    /// How many further tickets name the packet, where links duplicate.
    copies: u32,
}

/// Segments by number. A freed place is the next to be used: it is the one in the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    usual: Vec<Usual>,
    free: Vec<u32>,
    rare: Vec<Rare>,
    free_rare: Vec<u32>,
}

impl Pool {
    /// Takes a segment in.
    #[inline]
    pub(crate) fn insert(&mut self, segment: &Segment) -> u32 {
        // All fields by name, so that a new one is not forgotten here.
        let Segment { source, destination, seq, ack, payload_len, window, flags, ecn, payload_sum, options } =
            segment;
        let Options { dss, timestamps, syn: _, sack: _, mptcp: _ } = options;
        let rare = if *payload_sum == 0 && options.are_usual() { 0 } else { self.insert_rare(segment) };
        let place = match self.free.pop() {
            Some(place) => place,
            None => self.grow(),
        };
        // Field by field into its place: as a whole it would be copied twice.
        let usual = &mut self.usual[place as usize];
        usual.source = *source;
        usual.destination = *destination;
        usual.seq = *seq;
        usual.ack = *ack;
        usual.payload_len = *payload_len;
        usual.window = *window;
        usual.flags = *flags;
        usual.ecn = *ecn;
        usual.dss = *dss;
        usual.timestamps = *timestamps;
        usual.rare = rare;
        place
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let Segment { source, destination, seq, ack, payload_len, window, flags, ecn, options, .. } = blank();
        let Options { dss, timestamps, .. } = options;
        let blank = Usual {
            source,
            destination,
            seq,
            ack,
            payload_len,
            window,
            flags,
            ecn,
            dss,
            timestamps,
            rare: 0,
        };
        self.usual.push(blank);
        (self.usual.len() - 1) as u32
    }

    #[cold]
    fn insert_rare(&mut self, segment: &Segment) -> u32 {
        let rare = Rare { segment: *segment, copies: 0 };
        match self.free_rare.pop() {
            Some(at) => {
                self.rare[at as usize] = rare;
                at + 1
            }
            None => {
                self.rare.push(rare);
                self.rare.len() as u32
            }
        }
    }

    /// Writes the segment at `place` to `out`.
    #[inline]
    pub(crate) fn read(&self, place: u32, out: &mut Segment) {
        let usual = &self.usual[place as usize];
        if usual.rare > 0 {
            *out = self.rare[usual.rare as usize - 1].segment;
            return;
        }
        let Usual { source, destination, seq, ack, payload_len, window, flags, ecn, dss, timestamps, .. } =
            *usual;
        out.source = source;
        out.destination = destination;
        out.seq = seq;
        out.ack = ack;
        out.payload_len = payload_len;
        out.window = window;
        out.flags = flags;
        out.ecn = ecn;
        out.payload_sum = 0;
        out.options.dss = dss;
        out.options.timestamps = timestamps;
        out.options.syn = None;
        out.options.sack = SackBlocks::EMPTY;
        out.options.mptcp = [None, None];
    }

    /// The segment at `place`.
    pub(crate) fn get(&self, place: u32) -> Segment {
        let mut segment = blank();
        self.read(place, &mut segment);
        segment
    }

    /// One more ticket names the packet.
    pub(crate) fn duplicate(&mut self, place: u32) {
        if self.usual[place as usize].rare == 0 {
            let segment = self.get(place);
            self.usual[place as usize].rare = self.insert_rare(&segment);
        }
        self.rare[self.usual[place as usize].rare as usize - 1].copies += 1;
    }

    /// A ticket is gone; with the last one the place is free.
    #[inline]
    pub(crate) fn release(&mut self, place: u32) {
        let rare = self.usual[place as usize].rare;
        if rare == 0 || self.release_rare(rare - 1) {
            self.free.push(place);
        }
    }

    /// Whether the last ticket is gone.
    #[cold]
    fn release_rare(&mut self, at: u32) -> bool {
        let copies = &mut self.rare[at as usize].copies;
        if *copies > 0 {
            *copies -= 1;
            return false;
        }
        self.free_rare.push(at);
        true
    }

    /// How many packets are in flight, copies not counted.
    pub(crate) fn in_flight(&self) -> usize {
        self.usual.len() - self.free.len()
    }
}

/// A segment to be written over.
pub(crate) fn blank() -> Segment {
    let nobody = Address::new(core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0);
    Segment::new(nobody, nobody, Seq(0), Flags::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_stack::segment::{MptcpOption, SynOptions};
    use anabranch_units::RandomStream;

    #[test]
    fn a_place_is_free_when_the_last_copy_is_gone() {
        let mut pool = Pool::default();
        let first = pool.insert(&blank());
        let second = pool.insert(&blank());
        pool.duplicate(first);
        pool.release(first);
        assert_eq!(pool.in_flight(), 2);
        pool.release(first);
        assert_eq!(pool.in_flight(), 1);
        assert_eq!(pool.insert(&blank()), first);
        pool.release(second);
        pool.release(first);
        assert_eq!(pool.in_flight(), 0);
        assert_eq!(pool.free_rare.len(), pool.rare.len());
    }

    #[test]
    fn a_segment_comes_out_as_it_went_in_whatever_it_carries() {
        let mut random = RandomStream::new(1, "pool");
        let mut pool = Pool::default();
        let mut inside: Vec<(u32, Segment)> = Vec::new();
        let mut out = blank();
        for number in 0..5000 {
            let mut segment = blank();
            segment.source.port = number;
            segment.destination.ip = core::net::Ipv6Addr::LOCALHOST.into();
            segment.seq = Seq(random.below(1 << 32) as u32);
            segment.ack = segment.seq.add(1);
            segment.payload_len = number.into();
            segment.window = number;
            segment.flags = Flags::ACK.with(Flags::PSH);
            segment.ecn = Ecn::Ce;
            segment.payload_sum = random.below(3) as u16 / 2;
            let options = &mut segment.options;
            let mut some = || random.chance(0.3);
            options.dss = some().then_some(Dss { data_fin: true, ..Dss::default() });
            options.timestamps = some().then_some(Timestamps { value: 1, echo: 2 });
            options.syn = some().then_some(SynOptions { mss: number, ..SynOptions::default() });
            if some() {
                options.sack.push(segment.seq, segment.ack);
            }
            for option in &mut options.mptcp {
                *option = some().then_some(MptcpOption::Priority { backup: true });
            }
            let place = pool.insert(&segment);
            inside.push((place, segment));
            if random.chance(0.1) {
                pool.duplicate(place);
                inside.push((place, segment));
            }
            if random.chance(0.9) {
                let at = random.below(inside.len() as u64) as usize;
                let (place, segment) = inside.swap_remove(at);
                pool.read(place, &mut out);
                assert_eq!((out, pool.get(place)), (segment, segment));
                pool.release(place);
            }
        }
        for (place, segment) in inside {
            pool.read(place, &mut out);
            assert_eq!(out, segment);
            pool.release(place);
        }
        assert_eq!(pool.in_flight(), 0);
        assert_eq!(pool.free_rare.len(), pool.rare.len());
    }
}
