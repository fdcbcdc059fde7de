//! A middlebox that ends connections by forged resets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tcp::{self, Layout};
use super::{Direction, Element};
use anabranch_device::Packet;

/// While enabled, turns every segment into a reset with the same numbers and without options.
#[derive(Clone, Default, Debug)]
pub struct Reset {
    on: Arc<AtomicBool>,
}

impl Reset {
    /// Returns a disabled element. Clones share the state, so that one can control the other.
    pub fn new() -> Reset {
        Reset::default()
    }

    /// Enables or disables it.
    pub fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }
}

impl Element for Reset {
    fn pass(&mut self, _: Direction, packet: Packet, out: &mut VecDeque<Packet>) {
        let whole = packet.bytes();
        let layout = Layout::of(whole)
            .filter(|layout| self.on.load(Ordering::Relaxed) && layout.flags(whole) & tcp::RST == 0);
        let Some(layout) = layout else {
            out.push_back(packet);
            return;
        };
        let mut headers = whole[..layout.payload].to_vec();
        headers[layout.tcp + 13] = tcp::RST | (headers[layout.tcp + 13] & tcp::ACK);
        headers[layout.tcp + 20..].fill(tcp::NOP);
        out.push_back(tcp::assemble(layout, &headers, &[]));
    }
}
