//! A cable that can be pulled out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Direction, Element};
use anabranch_device::Packet;

/// Passes everything, or nothing while it is disconnected.
#[derive(Clone, Default, Debug)]
pub struct Switch {
    cut: Arc<AtomicBool>,
}

impl Switch {
    /// Returns a connected switch. Clones share the state, so that one can control the other.
    pub fn new() -> Switch {
        Switch::default()
    }

    /// Disconnects or reconnects it.
    pub fn set_cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }
}

impl Element for Switch {
    fn pass(&mut self, _: Direction, packet: Packet, out: &mut VecDeque<Packet>) {
        if !self.cut.load(Ordering::Relaxed) {
            out.push_back(packet);
        }
    }
}
