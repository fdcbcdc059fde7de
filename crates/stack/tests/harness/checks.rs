//! Checks of every segment, in every test: windows, mappings, data sequence numbers. They see only the wire,
//! like a third party.

use std::collections::{BTreeMap, HashMap};

use anabranch_stack::config::SequenceOrigin;
use anabranch_stack::crypto;
use anabranch_stack::segment::{
    Address, DataAck, Flags, Join, Key, MappedDsn, MptcpOption, OPTION_SPACE, Segment,
};
use anabranch_stack::seq::{Dsn, Seq};

use super::Side;

/// One direction of a subflow, seen from its sender.
#[derive(Clone, Debug, Default)]
struct Flow {
    isn: Seq,
    /// The window scale of the sender's SYN.
    scale: Option<u8>,
    /// True after a SYN.
    started: bool,
    /// The right edge of the window that the sender has received.
    edge: u64,
    /// The acknowledgement and the window that a Linux sender would store.
    held: (u64, u64),
    /// The placement of the stream: start in the subflow, end, and distance to the stream.
    placed: BTreeMap<u64, (u64, i64)>,
}

/// The checks of one pair of hosts with one connection.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    flows: HashMap<(Side, Address, Address), Flow>,
    /// The DSN of the first byte of each side.
    base: [Option<Dsn>; 2],
    /// The right edge of the data-level window that each side has received.
    data_edge: [u64; 2],
    /// The information received by each side: the right edge, the same as Linux computes it, and the
    /// acknowledgement.
    told: [(u64, u64, u64); 2],
    /// True for a side that has signalled the end of its stream.
    ended: [bool; 2],
    /// Data segments whose sequence numbers wrap.
    pub subflow_wraps: u64,
    /// Data segments after a wrap of the low 32 bits of the DSN.
    pub narrow_wraps: u64,
    /// Data segments after a wrap of the DSN.
    pub wide_wraps: u64,
    /// Segments that advertise a zero window.
    pub zero_windows: u64,
}

const fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

impl Checks {
    /// Sets data sequence numbers known in advance.
    pub fn set_origin(&mut self, origin: SequenceOrigin) {
        self.base = [Some(origin.initiator.add(1)), Some(origin.listener.add(1))];
    }

    /// Checks a segment that is sent; `stream` is the offset of its payload in its sender's stream.
    pub fn on_sent(&mut self, from: Side, segment: &Segment, stream: u64) {
        assert!(segment.options.wire_len() <= OPTION_SPACE, "{:?}", segment.options);
        self.learn_keys(from, segment);
        let flow = self.flows.entry((from, segment.source, segment.destination)).or_default();
        if segment.flags.has(Flags::SYN) {
            flow.isn = segment.seq;
            flow.started = true;
            flow.scale = segment.options.syn.and_then(|syn| syn.window_scale);
            // The addresses may be those of an ended subflow.
            flow.held = (0, 0);
        }
        if !segment.flags.has(Flags::SYN) && segment.window == 0 && segment.flags.has(Flags::ACK) {
            self.zero_windows += 1;
        }
        self.ended[index(from)] |= segment.options.dss.is_some_and(|dss| dss.data_fin);
        self.read_as_linux(from.other(), segment);
        let flow = self.flows.entry((from, segment.source, segment.destination)).or_default();
        if segment.payload_len == 0 {
            return;
        }
        assert!(flow.started, "data before the SYN: {segment:?}");
        let len = u64::from(segment.payload_len);
        // Streams of the tests are shorter than 4 GB, so that the distance is the offset.
        let start = u64::from(segment.seq.0.wrapping_sub(flow.isn.0));
        assert!(
            start + len <= flow.edge,
            "{from:?} sends {start}..{} beyond the subflow's window {}",
            start + len,
            flow.edge
        );
        if u64::from(flow.isn.0) + start + len > 1 << 32 {
            self.subflow_wraps += 1;
        }
        // A byte of the subflow is always the same byte of the stream.
        let delta = stream as i64 - start as i64;
        for (&from, &(to, known)) in flow.placed.range(..start + len).rev().take(4) {
            assert!(to <= start || known == delta, "{from}..{to} was mapped with {known}, now {delta}");
        }
        let place = flow.placed.entry(start).or_insert((start + len, delta));
        place.0 = place.0.max(start + len);

        let first = segment
            .options
            .mptcp
            .iter()
            .flatten()
            .any(|option| matches!(option, MptcpOption::Capable(capable) if capable.data_len.is_some()));
        let Some(mapping) = segment.options.dss.and_then(|dss| dss.mapping) else {
            assert_eq!(stream, start - 1, "without a mapping the subflow is the stream");
            if first {
                assert!(stream + len <= self.data_edge[index(from)], "the first data is beyond the window");
            }
            return;
        };
        if mapping.len == 0 {
            assert_eq!(stream, start - 1, "an infinite mapping makes the subflow the stream");
            return;
        }
        let Some(base) = self.base[index(from)] else { return };
        let mapped = match mapping.dsn {
            MappedDsn::Wide(dsn) => dsn.distance_from(base) as u64,
            MappedDsn::Narrow(low) => u64::from(low.wrapping_sub(base.0 as u32)),
        };
        let into = u64::from((start as u32).wrapping_sub(mapping.ssn));
        assert_eq!(mapped + into, stream, "the mapping of {segment:?}");
        assert!(into + len <= u64::from(mapping.len), "the mapping is shorter than {segment:?}");
        assert!(
            stream + len <= self.data_edge[index(from)],
            "{from:?} sends {stream}..{} beyond the connection's window {}",
            stream + len,
            self.data_edge[index(from)]
        );
        self.narrow_wraps += u64::from(u64::from(base.0 as u32) + stream + len > 1 << 32);
        self.wide_wraps += u64::from(base.0.checked_add(stream + len).is_none());
    }

    /// Returns the data that `segment` allows `to` to send: the acknowledgement on the subflow and, if
    /// present, in the stream, and the window.
    fn admits(&self, to: Side, segment: &Segment) -> Option<(u64, Option<u64>, u64)> {
        if !segment.flags.has(Flags::ACK) || segment.flags.has(Flags::RST) {
            return None;
        }
        let mine = self.flows.get(&(to, segment.destination, segment.source))?;
        let theirs = self.flows.get(&(to.other(), segment.source, segment.destination))?;
        // RFC 7323 section 2.2: both SYNs must carry the option, and a SYN's window is never scaled.
        let scaled = mine.scale.is_some() && theirs.scale.is_some() && !segment.flags.has(Flags::SYN);
        let window = u64::from(segment.window) << if scaled { theirs.scale.unwrap_or(0) } else { 0 };
        let acked = u64::from(segment.ack.0.wrapping_sub(mine.isn.0));
        let base = self.base[index(to)];
        let data = segment.options.dss.and_then(|dss| dss.data_ack).zip(base).map(|(ack, base)| match ack {
            DataAck::Wide(dsn) => dsn.distance_from(base) as u64,
            DataAck::Narrow(low) => u64::from(low.wrapping_sub(base.0 as u32)),
        });
        Some((acked, data, window))
    }

    /// Checks a segment received by `to`.
    pub fn on_arrived(&mut self, to: Side, segment: &Segment) {
        let Some((acked, data, window)) = self.admits(to, segment) else { return };
        let known = &mut self.data_edge[index(to)];
        *known = (*known).max(data.unwrap_or(0) + window);
        if let Some(mine) = self.flows.get_mut(&(to, segment.destination, segment.source)) {
            mine.edge = mine.edge.max(acked + window);
        }
    }

    /// Applies Linux's processing of an acknowledgement: a window counts from its data acknowledgement, but a
    /// smaller one is accepted only with a new acknowledgement number; and the connection's window may be
    /// used on each subflow. This must not exceed the advertised window.
    fn read_as_linux(&mut self, to: Side, segment: &Segment) {
        let Some((acked, data, window)) = self.admits(to, segment) else { return };
        let (edge, read, una) = self.told[index(to)];
        let room = read.saturating_sub(una);
        #[expect(clippy::disallowed_methods, reason = "each flow is changed independently of the order")]
        for (_, flow) in self.flows.iter_mut().filter(|((side, ..), _)| *side == to) {
            flow.held.1 = flow.held.1.max(room);
        }
        let scale = |flow: &Flow| flow.scale.unwrap_or(0);
        let unit = 1 << self.flows.get(&(to.other(), segment.source, segment.destination)).map_or(0, scale);
        let Some(flow) = self.flows.get_mut(&(to, segment.destination, segment.source)) else { return };
        if acked != flow.held.0 || window > flow.held.1 {
            flow.held = (acked, window);
        }
        let Some(data) = data.filter(|_| !segment.flags.has(Flags::SYN)) else { return };
        let (edge, read) = (edge.max(data + window), read.max(data + flow.held.1));
        self.told[index(to)] = (edge, read, una.max(data));
        // The stored value need not be a multiple of the window unit, to which a repeated one is rounded
        // down. Nothing is sent after the end of the stream.
        assert!(
            self.ended[index(to)] || read < edge + unit,
            "Linux at {to:?} would send up to {read} of {edge}"
        );
    }

    /// Derives the starts of the streams from the keys, unless they are known.
    fn learn_keys(&mut self, from: Side, segment: &Segment) {
        for option in segment.options.mptcp.iter().flatten() {
            match option {
                MptcpOption::Capable(capable) => {
                    if let Some(key) = capable.sender_key {
                        self.base[index(from)].get_or_insert(crypto::initial_dsn(key).add(1));
                    }
                }
                // The simultaneous joins of profile `ns3`: both keys are derived from the token.
                MptcpOption::Join(Join::Syn { token, .. })
                    if !segment.flags.has(Flags::ACK) && self.base[0].is_none() =>
                {
                    for (at, low) in [(0, 1), (1, 2)] {
                        let key = Key(u64::from(*token) << 32 | low);
                        self.base[at] = Some(crypto::initial_dsn(key).add(1));
                    }
                }
                _ => {}
            }
        }
    }
}
