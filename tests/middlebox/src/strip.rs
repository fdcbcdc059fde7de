//! A firewall that does not know option 30 and overwrites it (RFC 8684 section 6).

use std::collections::VecDeque;

use super::tcp::{self, Layout};
use super::{Direction, Element};
use anabranch_device::Packet;

/// The segments that lose the option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StripFrom {
    /// The SYN.
    Syn,
    /// The SYN/ACK.
    SynAck,
    /// Everything after the SYN/ACK.
    AfterSyns,
    /// Every segment from the first one with payload on, in both directions; the three segments of the
    /// handshake keep it.
    Data,
}

/// Overwrites every Multipath TCP option of some segments with no-operations.
#[derive(Clone, Debug)]
pub struct StripMptcp {
    from: StripFrom,
    /// The flows, by both directions' names, that have carried payload.
    begun: Vec<Vec<u8>>,
    stripped: u64,
}

impl StripMptcp {
    /// Returns an element that strips the options of these segments.
    pub fn new(from: StripFrom) -> StripMptcp {
        StripMptcp { from, begun: Vec::new(), stripped: 0 }
    }

    /// Returns the number of segments that have lost an option.
    pub fn stripped(&self) -> u64 {
        self.stripped
    }

    fn applies(&mut self, layout: Layout, bytes: &[u8]) -> bool {
        let flags = layout.flags(bytes) & (tcp::SYN | tcp::ACK);
        match self.from {
            StripFrom::Syn => flags == tcp::SYN,
            StripFrom::SynAck => flags == tcp::SYN | tcp::ACK,
            StripFrom::AfterSyns => flags & tcp::SYN == 0,
            StripFrom::Data => {
                if flags & tcp::SYN != 0 {
                    return false;
                }
                let flow = layout.flow(bytes);
                let half = (flow.len() - 4) / 2;
                let (addresses, ports) = flow.split_at(2 * half);
                let back = [&addresses[half..], &addresses[..half], &ports[2..], &ports[..2]].concat();
                let begun = self.begun.contains(&flow) || self.begun.contains(&back);
                if !begun && layout.payload_len() > 0 {
                    self.begun.push(flow);
                    return true;
                }
                begun
            }
        }
    }
}

impl Element for StripMptcp {
    fn pass(&mut self, _: Direction, mut packet: Packet, out: &mut VecDeque<Packet>) {
        if let Some(layout) = Layout::of(packet.bytes())
            && self.applies(layout, packet.bytes())
        {
            let options = layout.options(packet.bytes(), tcp::MPTCP);
            if !options.is_empty() {
                for (at, len) in options {
                    packet.bytes_mut()[at..at + len].fill(tcp::NOP);
                }
                tcp::finish(layout, packet.bytes_mut());
                self.stripped += 1;
            }
        }
        out.push_back(packet);
    }
}
