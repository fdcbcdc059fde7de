//! A middlebox that joins adjacent segments, as receive offload does.

use std::collections::VecDeque;

use super::tcp::{self, Layout};
use super::{Direction, Element};
use anabranch_device::Packet;

/// Joins each segment with the next one of its flow if their payload is adjacent. The header and options of
/// the first are kept. The second loses its header and options, including its mapping.
///
/// A segment is held until the next packet of its direction, so the last one of a burst waits: every pure
/// acknowledgement and every complete pair releases it.
#[derive(Debug)]
pub struct Coalesce {
    same_options: bool,
    largest: usize,
    held: [Option<Packet>; 2],
    joined: u64,
}

impl Coalesce {
    /// Returns an element that joins segments whatever their options.
    ///
    /// `largest` bounds the payload of the result, in bytes.
    pub fn blind(largest: usize) -> Coalesce {
        Coalesce { same_options: false, largest, held: [None, None], joined: 0 }
    }

    /// Returns an element that joins only segments with the same options, as receive offload in network cards
    /// and kernels does.
    ///
    /// `largest` bounds the payload of the result, in bytes.
    pub fn careful(largest: usize) -> Coalesce {
        Coalesce { same_options: true, ..Coalesce::blind(largest) }
    }

    /// Returns the number of pairs joined.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    fn join(&self, first: &Packet, second: &Packet) -> Option<Packet> {
        let (one, two) = (first.bytes(), second.bytes());
        let (a, b) = (Layout::of(one)?, Layout::of(two)?);
        let plain = |flags: u8| flags & (tcp::SYN | tcp::RST | tcp::FIN) == 0;
        let follows = a.flow(one) == b.flow(two)
            && a.sequence(one).wrapping_add(a.payload_len() as u32) == b.sequence(two)
            && plain(a.flags(one))
            && plain(b.flags(two))
            && b.payload_len() > 0
            && a.payload_len() + b.payload_len() <= self.largest;
        let alike = !self.same_options || one[a.tcp + 20..a.payload] == two[b.tcp + 20..b.payload];
        (follows && alike).then(|| {
            let payload = [&one[a.payload..a.end], &two[b.payload..b.end]].concat();
            tcp::assemble(a, one, &payload)
        })
    }
}

impl Element for Coalesce {
    fn pass(&mut self, direction: Direction, packet: Packet, out: &mut VecDeque<Packet>) {
        let side = usize::from(direction == Direction::Incoming);
        let has_payload = Layout::of(packet.bytes()).is_some_and(|layout| layout.payload_len() > 0);
        let Some(first) = self.held[side].take() else {
            // The sender of a burst sets PSH on its last segment only.
            let more = Layout::of(packet.bytes())
                .is_some_and(|layout| layout.flags(packet.bytes()) & (tcp::PSH | tcp::SYN) == 0);
            if has_payload && more {
                self.held[side] = Some(packet);
            } else {
                out.push_back(packet);
            }
            return;
        };
        match self.join(&first, &packet) {
            Some(joined) => {
                self.joined += 1;
                out.push_back(joined);
            }
            None => {
                out.push_back(first);
                out.push_back(packet);
            }
        }
    }
}
