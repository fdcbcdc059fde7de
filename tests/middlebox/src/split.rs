//! A middlebox that splits segments for a smaller MTU, as segmentation offload does.

use std::collections::VecDeque;

use super::tcp::{self, Layout};
use super::{Direction, Element};
use anabranch_device::Packet;

/// Splits payload into pieces; every piece has all options of the whole, as RFC 8684 section 3.3.1 expects of
/// network cards.
#[derive(Clone, Debug)]
pub struct Split {
    piece: usize,
    cut: u64,
}

impl Split {
    /// Returns an element that splits into pieces of `piece` bytes, at least 1.
    pub fn new(piece: usize) -> Split {
        Split { piece: piece.max(1), cut: 0 }
    }

    /// Returns the number of segments split.
    pub fn cut(&self) -> u64 {
        self.cut
    }
}

impl Element for Split {
    fn pass(&mut self, _: Direction, packet: Packet, out: &mut VecDeque<Packet>) {
        let whole = packet.bytes();
        let layout = Layout::of(whole).filter(|layout| {
            layout.payload_len() > self.piece && layout.flags(whole) & (tcp::SYN | tcp::RST) == 0
        });
        let Some(layout) = layout else {
            out.push_back(packet);
            return;
        };
        self.cut += 1;
        let pieces = layout.payload_len().div_ceil(self.piece);
        for (at, payload) in whole[layout.payload..layout.end].chunks(self.piece).enumerate() {
            let mut headers = whole[..layout.payload].to_vec();
            let sequence = layout.sequence(whole).wrapping_add((at * self.piece) as u32);
            tcp::put_u32(&mut headers, layout.tcp + 4, sequence);
            if at + 1 < pieces {
                headers[layout.tcp + 13] &= !(tcp::FIN | tcp::PSH);
            }
            out.push_back(tcp::assemble(layout, &headers, payload));
        }
    }
}
