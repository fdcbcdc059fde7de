//! The packets in flight. Links move 8-byte tickets; the segments are not moved.

use core::net::{IpAddr, Ipv4Addr};

use anabranch_link::Label;
use anabranch_stack::segment::{
    Address, DataAck, Dss, Ecn, Flags, MappedDsn, Mapping, Options, SackBlocks, Segment, Timestamps,
};
use anabranch_stack::seq::{Dsn, Seq};
use prefetch_index::prefetch_index;

use crate::hash::flow_hash;

/// A packet in flight: its index, and its position on the route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    /// Its index in the pool.
    pub(crate) packet: u32,
    /// The index of its present hop in the fabric's list of hops.
    pub(crate) hop: u32,
}

/// The fields of nearly every segment, in one cache line instead of the five of a [`Segment`]: with many
/// flows a packet has left the caches by the time it arrives.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Usual {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    source_port: u16,
    destination_port: u16,
    seq: Seq,
    ack: Seq,
    /// Valid only with [`Marks::TIMESTAMPS`].
    timestamps: Timestamps,
    payload_len: u16,
    window: u16,
    flags: Flags,
    ecn: Ecn,
    marks: Marks,
    /// The index of the whole segment, counted from 1, if it has more fields than these; otherwise 0.
    rare: u32,
    signal: Signal,
}

const _: () = assert!(size_of::<Usual>() == 64);

impl Usual {
    const BLANK: Usual = Usual {
        source: Ipv4Addr::UNSPECIFIED,
        destination: Ipv4Addr::UNSPECIFIED,
        source_port: 0,
        destination_port: 0,
        seq: Seq(0),
        ack: Seq(0),
        timestamps: Timestamps { value: 0, echo: 0 },
        payload_len: 0,
        window: 0,
        flags: Flags(0),
        ecn: Ecn::NotEct,
        marks: Marks(0),
        rare: 0,
        signal: Signal { data_ack: 0, dsn: 0, ssn: 0, len: 0, checksum: 0 },
    };
}

/// The fields that are valid, and their widths on the wire.
#[derive(Clone, Copy, Debug)]
struct Marks(u8);

impl Marks {
    const TIMESTAMPS: u8 = 1;
    const SIGNAL: u8 = 1 << 1;
    const DATA_ACK: u8 = 1 << 2;
    const WIDE_ACK: u8 = 1 << 3;
    const MAPPING: u8 = 1 << 4;
    const WIDE_DSN: u8 = 1 << 5;
    const CHECKSUM: u8 = 1 << 6;
    const DATA_FIN: u8 = 1 << 7;

    #[inline]
    fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    #[inline]
    fn add_if(&mut self, mark: u8, condition: bool) {
        self.0 |= if condition { mark } else { 0 };
    }
}

/// The DSS option without its marks.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Signal {
    data_ack: u64,
    dsn: u64,
    ssn: u32,
    len: u16,
    checksum: u16,
}

impl Signal {
    /// Stores the option, and sets its marks. Fields that they do not name keep their old values.
    #[inline]
    fn store(&mut self, dss: &Dss, marks: &mut Marks) {
        marks.0 |= Marks::SIGNAL;
        marks.add_if(Marks::DATA_FIN, dss.data_fin);
        if let Some(data_ack) = dss.data_ack {
            let (wide, ack) = match data_ack {
                DataAck::Wide(ack) => (true, ack.0),
                DataAck::Narrow(ack) => (false, ack.into()),
            };
            marks.0 |= Marks::DATA_ACK;
            marks.add_if(Marks::WIDE_ACK, wide);
            self.data_ack = ack;
        }
        if let Some(mapping) = dss.mapping {
            let (wide, dsn) = match mapping.dsn {
                MappedDsn::Wide(dsn) => (true, dsn.0),
                MappedDsn::Narrow(dsn) => (false, dsn.into()),
            };
            marks.0 |= Marks::MAPPING;
            marks.add_if(Marks::WIDE_DSN, wide);
            marks.add_if(Marks::CHECKSUM, mapping.checksum.is_some());
            self.dsn = dsn;
            self.ssn = mapping.ssn;
            self.len = mapping.len;
            self.checksum = mapping.checksum.unwrap_or(0);
        }
    }

    /// Returns the option that was stored with these marks.
    #[inline]
    fn load(&self, marks: Marks) -> Dss {
        let wide_ack = marks.has(Marks::WIDE_ACK);
        let wide_dsn = marks.has(Marks::WIDE_DSN);
        let data_ack =
            if wide_ack { DataAck::Wide(Dsn(self.data_ack)) } else { DataAck::Narrow(self.data_ack as u32) };
        let mapping = Mapping {
            dsn: if wide_dsn { MappedDsn::Wide(Dsn(self.dsn)) } else { MappedDsn::Narrow(self.dsn as u32) },
            ssn: self.ssn,
            len: self.len,
            checksum: marks.has(Marks::CHECKSUM).then_some(self.checksum),
        };
        Dss {
            data_ack: marks.has(Marks::DATA_ACK).then_some(data_ack),
            mapping: marks.has(Marks::MAPPING).then_some(mapping),
            data_fin: marks.has(Marks::DATA_FIN),
        }
    }
}

/// A segment with rare options (the options of a SYN, SACK blocks, MPTCP options other than DSS), with IPv6
/// addresses, with more payload than a packet or with its sum, or duplicated by a link.
#[derive(Clone, Debug)]
struct Rare {
    segment: Segment,
    /// The number of additional tickets of the packet, if links duplicate.
    copies: u32,
}

/// Segments by index. The place freed last is reused first, because it is in the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    usual: Vec<Usual>,
    free: Vec<u32>,
    rare: Vec<Rare>,
    free_rare: Vec<u32>,
}

impl Pool {
    /// Stores a segment. Returns its index, and its length on the wire.
    #[inline]
    pub(crate) fn insert(&mut self, segment: &Segment) -> (u32, u32) {
        // Destructures all fields, so that a new one cannot be forgotten here.
        let Segment { source, destination, seq, ack, payload_len, window, flags, ecn, payload_sum, options } =
            segment;
        let Options { dss, timestamps, syn: _, sack: _, mptcp: _ } = options;
        let place = match self.free.pop() {
            Some(place) => place,
            None => self.grow(),
        };
        if let (IpAddr::V4(source_ip), IpAddr::V4(destination_ip)) = (source.ip, destination.ip)
            && let Ok(payload_len) = u16::try_from(*payload_len)
            && *payload_sum == 0
            && options.are_usual()
        {
            // Written field by field: as a whole it would be copied twice.
            let usual = &mut self.usual[place as usize];
            usual.source = source_ip;
            usual.destination = destination_ip;
            usual.source_port = source.port;
            usual.destination_port = destination.port;
            usual.seq = *seq;
            usual.ack = *ack;
            usual.payload_len = payload_len;
            usual.window = *window;
            usual.flags = *flags;
            usual.ecn = *ecn;
            usual.rare = 0;
            let mut marks = Marks(0);
            let wire_bytes = Segment::IPV4_LEN + options.usual_wire_len() + u32::from(payload_len);
            if let Some(timestamps) = timestamps {
                marks.0 |= Marks::TIMESTAMPS;
                usual.timestamps = *timestamps;
            }
            if let Some(dss) = dss {
                usual.signal.store(dss, &mut marks);
            }
            usual.marks = marks;
            (place, wire_bytes)
        } else {
            self.usual[place as usize].rare = self.insert_rare(segment);
            (place, segment.wire_len())
        }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.usual.push(Usual::BLANK);
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

    /// Prefetches the segment at `place`.
    #[inline]
    pub(crate) fn fetch(&self, place: u32) {
        prefetch_index(&self.usual, place as usize);
    }

    /// Returns the addresses of the destination and the source of a segment, and whether it has data; none if it is rare.
    #[inline]
    pub(crate) fn ends(&self, place: u32) -> Option<(Address, Address, bool)> {
        let usual = self.usual.get(place as usize).filter(|usual| usual.rare == 0)?;
        let local = Address::new(usual.destination.into(), usual.destination_port);
        let remote = Address::new(usual.source.into(), usual.source_port);
        Some((local, remote, usual.payload_len > 0))
    }

    /// Copies the segment at `place` to `out`.
    #[inline]
    pub(crate) fn read(&self, place: u32, out: &mut Segment) {
        let usual = &self.usual[place as usize];
        if usual.rare > 0 {
            *out = self.rare[usual.rare as usize - 1].segment;
            return;
        }
        out.source = Address::new(usual.source.into(), usual.source_port);
        out.destination = Address::new(usual.destination.into(), usual.destination_port);
        out.seq = usual.seq;
        out.ack = usual.ack;
        out.payload_len = usual.payload_len.into();
        out.window = usual.window;
        out.flags = usual.flags;
        out.ecn = usual.ecn;
        out.payload_sum = 0;
        let marks = usual.marks;
        out.options.dss = marks.has(Marks::SIGNAL).then(|| usual.signal.load(marks));
        out.options.timestamps = marks.has(Marks::TIMESTAMPS).then_some(usual.timestamps);
        out.options.syn = None;
        out.options.sack = SackBlocks::EMPTY;
        out.options.mptcp = [None, None];
    }

    /// Returns the segment at `place`.
    pub(crate) fn get(&self, place: u32) -> Segment {
        let mut segment = blank();
        self.read(place, &mut segment);
        segment
    }

    /// Replaces the segment at `place`. Its copies change too.
    #[cold]
    pub(crate) fn replace(&mut self, place: u32, segment: &Segment) {
        match self.usual[place as usize].rare {
            0 => self.usual[place as usize].rare = self.insert_rare(segment),
            at => self.rare[at as usize - 1].segment = *segment,
        }
    }

    /// Returns the label of the segment at `place` for the links that it crosses.
    #[inline(never)]
    pub(crate) fn label(&self, place: u32) -> Label {
        let segment = self.get(place);
        let flow = flow_hash(0, &segment);
        Label { data: segment.payload_len > 0, ect: segment.ecn != Ecn::NotEct, flow }
    }

    /// ECN-marks the packet as a router does, if its sender supports ECN (RFC 3168).
    #[cold]
    pub(crate) fn mark(&mut self, place: u32) {
        let usual = &mut self.usual[place as usize];
        let ecn = match usual.rare {
            0 => &mut usual.ecn,
            at => &mut self.rare[at as usize - 1].segment.ecn,
        };
        if *ecn == Ecn::Ect0 {
            *ecn = Ecn::Ce;
        }
    }

    /// Adds a ticket to the packet.
    pub(crate) fn duplicate(&mut self, place: u32) {
        if self.usual[place as usize].rare == 0 {
            let segment = self.get(place);
            self.usual[place as usize].rare = self.insert_rare(&segment);
        }
        self.rare[self.usual[place as usize].rare as usize - 1].copies += 1;
    }

    /// Removes a ticket; with the last one the place becomes free.
    #[inline]
    pub(crate) fn release(&mut self, place: u32) {
        let rare = self.usual[place as usize].rare;
        if rare == 0 || self.release_rare(rare - 1) {
            self.free.push(place);
        }
    }

    /// Removes a ticket of a rare segment; true if it was the last.
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

    /// Returns the number of packets in flight, not counting copies.
    pub(crate) fn in_flight(&self) -> usize {
        self.usual.len() - self.free.len()
    }
}

/// Returns a segment to be overwritten.
pub(crate) fn blank() -> Segment {
    let nobody = Address::new(core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0);
    Segment::new(nobody, nobody, Seq(0), Flags::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;

    use anabranch_stack::segment::{MptcpOption, SynOptions};
    use anabranch_units::RandomStream;

    #[test]
    fn a_place_is_free_when_the_last_copy_is_gone() {
        let mut pool = Pool::default();
        let first = pool.insert(&blank()).0;
        let second = pool.insert(&blank()).0;
        pool.duplicate(first);
        pool.release(first);
        assert_eq!(pool.in_flight(), 2);
        pool.release(first);
        assert_eq!(pool.in_flight(), 1);
        assert_eq!(pool.insert(&blank()).0, first);
        pool.release(second);
        pool.release(first);
        assert_eq!(pool.in_flight(), 0);
        assert_eq!(pool.free_rare.len(), pool.rare.len());
    }

    #[test]
    fn what_may_be_marked_is_marked_and_nothing_else() {
        let mut pool = Pool::default();
        for (before, after) in [(Ecn::NotEct, Ecn::NotEct), (Ecn::Ect0, Ecn::Ce), (Ecn::Ce, Ecn::Ce)] {
            for rare in [false, true] {
                let mut segment = blank();
                segment.ecn = before;
                segment.payload_sum = u16::from(rare);
                let (place, wire_bytes) = pool.insert(&segment);
                assert_eq!(wire_bytes, segment.wire_len());
                pool.mark(place);
                assert_eq!(pool.get(place), Segment { ecn: after, ..segment });
            }
        }
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
            segment.source.ip = Ipv4Addr::new(10, 1, 2, 3).into();
            if random.chance(0.1) {
                segment.destination.ip = Ipv6Addr::LOCALHOST.into();
            }
            segment.seq = Seq(random.below(1 << 32) as u32);
            segment.ack = segment.seq.add(1);
            segment.payload_len = random.below(66_000) as u32;
            segment.window = number;
            segment.flags = Flags::ACK.with(Flags::PSH);
            segment.ecn = Ecn::Ce;
            segment.payload_sum = random.below(3) as u16 / 2;
            let options = &mut segment.options;
            let mut some = || random.chance(0.5);
            let number = Dsn(u64::MAX - u64::from(number));
            let wide = some();
            let dsn = if some() { MappedDsn::Wide(number) } else { MappedDsn::Narrow(number.0 as u32) };
            let mapping = Mapping { dsn, ssn: 5, len: 6, checksum: some().then_some(7) };
            let data_ack = if wide { DataAck::Wide(number) } else { DataAck::Narrow(number.0 as u32) };
            options.dss = some().then_some(Dss {
                data_ack: some().then_some(data_ack),
                mapping: some().then_some(mapping),
                data_fin: some(),
            });
            let mut some = || random.chance(0.1);
            options.timestamps = some().then_some(Timestamps { value: 1, echo: 2 });
            options.syn = some().then_some(SynOptions { mss: 1400, ..SynOptions::default() });
            if some() {
                options.sack.push(segment.seq, segment.ack);
            }
            for option in &mut options.mptcp {
                *option = some().then_some(MptcpOption::Priority { backup: true });
            }
            let (place, wire_bytes) = pool.insert(&segment);
            assert_eq!(wire_bytes, segment.wire_len());
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
