//! A middlebox that rewrites payload (an application-level gateway, RFC 8684 section 3.7).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::tcp::{self, Layout};
use super::{Direction, Element};
use anabranch_device::Packet;

/// Changes one byte in the payload of some segments, and corrects the TCP checksum.
#[derive(Clone, Debug)]
pub struct AlterPayload {
    every: u64,
    seen: u64,
    altered: Arc<AtomicU64>,
}

impl AlterPayload {
    /// Returns an element that changes every `every`th segment with payload, both directions counted
    /// together; 0 counts as 1. `altered` counts the changed segments.
    pub fn new(every: u64, altered: Arc<AtomicU64>) -> AlterPayload {
        AlterPayload { every: every.max(1), seen: 0, altered }
    }
}

impl Element for AlterPayload {
    fn pass(&mut self, _: Direction, mut packet: Packet, out: &mut VecDeque<Packet>) {
        if let Some(layout) = Layout::of(packet.bytes())
            && layout.payload_len() > 0
        {
            self.seen += 1;
            if self.seen.is_multiple_of(self.every) {
                let bytes = packet.bytes_mut();
                bytes[(layout.payload + layout.end) / 2] ^= 0x20;
                tcp::finish(layout, bytes);
                self.altered.fetch_add(1, Ordering::Relaxed);
            }
        }
        out.push_back(packet);
    }
}
