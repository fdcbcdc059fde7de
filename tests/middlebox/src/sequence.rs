//! A firewall that changes the initial sequence numbers of connections (RFC 8684 section 6).

use std::collections::VecDeque;

use super::tcp::{self, Layout};
use super::{Direction, Element};
use anabranch_device::Packet;

/// Shifts the sequence numbers of both directions, and the acknowledgements and SACK blocks with them.
#[derive(Clone, Debug)]
pub struct RewriteSequence {
    outgoing: u32,
    incoming: u32,
}

impl RewriteSequence {
    /// Adds `outgoing` to the sequence numbers of outgoing segments, and `incoming` to the sequence
    /// numbers of incoming ones.
    pub fn new(outgoing: u32, incoming: u32) -> RewriteSequence {
        RewriteSequence { outgoing, incoming }
    }
}

impl Element for RewriteSequence {
    fn pass(&mut self, direction: Direction, mut packet: Packet, out: &mut VecDeque<Packet>) {
        let (here, there) = match direction {
            Direction::Outgoing => (self.outgoing, self.incoming),
            Direction::Incoming => (self.incoming, self.outgoing),
        };
        if let Some(layout) = Layout::of(packet.bytes()) {
            let blocks = layout.options(packet.bytes(), tcp::SACK);
            let bytes = packet.bytes_mut();
            let sequence = layout.sequence(bytes).wrapping_add(here);
            tcp::put_u32(bytes, layout.tcp + 4, sequence);
            if layout.flags(bytes) & tcp::ACK != 0 {
                let acknowledgement = layout.acknowledgement(bytes).wrapping_sub(there);
                tcp::put_u32(bytes, layout.tcp + 8, acknowledgement);
            }
            for (at, len) in blocks {
                for edge in (at + 2..at + len).step_by(4).filter(|edge| edge + 4 <= at + len) {
                    let moved = tcp::get_u32(bytes, edge).wrapping_sub(there);
                    tcp::put_u32(bytes, edge, moved);
                }
            }
            tcp::finish(layout, bytes);
        }
        out.push_back(packet);
    }
}
