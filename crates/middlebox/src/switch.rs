//! A cable that can be pulled out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Direction, Element};
use anabranch_device::Packet;

/// Passes everything, or, while it is cut, nothing.
#[derive(Clone, Default, Debug)]
pub struct Switch {
    cut: Arc<AtomicBool>,
}

impl Switch {
    /// One that passes. Clones share the state, so that one can be kept to cut the other.
    pub fn new() -> Switch {
        Switch::default()
    }

    /// Cuts it, or mends it.
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
