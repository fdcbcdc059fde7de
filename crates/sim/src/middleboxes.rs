//! The middleboxes of a running network, applied to segments.

use anabranch_link::{Connection, Middlebox, MiddleboxCounters, Passed, Passing};
use anabranch_stack::segment::{Address, Flags, MptcpOption, Segment};
use anabranch_stack::seq::Seq;
use anabranch_units::Time;

use crate::network::Network;

/// The end of a link at which a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// It enters the link.
    Entrance,
    /// It leaves the link.
    Exit,
}

/// A middlebox at a link.
#[derive(Clone, Copy, Debug)]
struct Place {
    middlebox: usize,
    /// True if the link leads away from the client.
    up: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Middleboxes {
    all: Vec<(String, Middlebox)>,
    /// By link; empty if there is no middlebox.
    places: Vec<Option<Place>>,
}

impl Middleboxes {
    pub(crate) fn new(network: &Network) -> Middleboxes {
        let mut middleboxes = Middleboxes::default();
        for (at, spec) in network.middleboxes().iter().enumerate() {
            middleboxes.places.resize(network.links().len(), None);
            middleboxes.places[spec.up.index()] = Some(Place { middlebox: at, up: true });
            middleboxes.places[spec.down.index()] = Some(Place { middlebox: at, up: false });
            middleboxes.all.push((spec.name.clone(), Middlebox::new(spec.config)));
        }
        middleboxes
    }

    /// True if there are any.
    #[inline]
    pub(crate) fn exist(&self) -> bool {
        !self.places.is_empty()
    }

    /// Returns the bytes that a tunnel adds to each packet on the link `index`.
    pub(crate) fn overhead(&self, index: u32) -> u32 {
        let place = self.places.get(index as usize).copied().flatten();
        place.map_or(0, |place| self.all[place.middlebox].1.config().overhead)
    }

    /// Lets a segment pass the middlebox at this end of the link `index`, if there is one. If it is dropped, the error is
    /// the reset that its sender receives.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        index: u32,
        way: Way,
        segment: &mut Segment,
    ) -> Result<(), Option<Box<Segment>>> {
        let Some(Place { middlebox, up }) = self.places[index as usize] else { return Ok(()) };
        // It is at the client's end.
        let is_here = up == (way == Way::Entrance);
        if !is_here || segment.flags == Flags::default() {
            return Ok(());
        }
        match self.all[middlebox].1.pass(now, &passing(segment, up)) {
            Passed::On { strip, mss } => {
                if strip {
                    segment.options.dss = None;
                    segment.options.mptcp = [None, None];
                }
                if let (Some(mss), Some(options)) = (mss, &mut segment.options.syn) {
                    options.mss = mss;
                }
                Ok(())
            }
            Passed::Dropped { reset } => Err(reset.then(|| Box::new(answer(segment)))),
        }
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, MiddleboxCounters)> {
        self.all.iter().map(|(name, middlebox)| (name.as_str(), middlebox.counters()))
    }
}

/// Returns the properties of a segment that middleboxes read.
fn passing(segment: &Segment, outgoing: bool) -> Passing {
    let pair = |address: Address| (address.ip, address.port);
    let (near, far) = match outgoing {
        true => (segment.source, segment.destination),
        false => (segment.destination, segment.source),
    };
    let options = &segment.options;
    let opens = |option: &MptcpOption| matches!(option, MptcpOption::Capable(_) | MptcpOption::Join(_));
    Passing {
        outgoing,
        connection: Connection { near: pair(near), far: pair(far) },
        syn: segment.flags.has(Flags::SYN),
        ack: segment.flags.has(Flags::ACK),
        rst: segment.flags.has(Flags::RST),
        opening: segment.payload_len == 0 && options.mptcp.iter().flatten().any(opens),
        mptcp: !options.have_no_mptcp(),
        mss: options.syn.map(|syn| syn.mss),
    }
}

/// Returns the reset that answers a segment of a connection that does not exist (RFC 9293 section 3.10.7.1).
fn answer(segment: &Segment) -> Segment {
    let (from, to) = (segment.destination, segment.source);
    if segment.flags.has(Flags::ACK) {
        return Segment::new(from, to, segment.ack, Flags::RST);
    }
    let mut reset = Segment::new(from, to, Seq(0), Flags::RST.with(Flags::ACK));
    reset.ack = segment.seq.add(segment.seq_len());
    reset
}
