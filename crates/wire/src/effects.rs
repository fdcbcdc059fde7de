//! The effects of a link on the bytes of a packet.

use anabranch_link::{Effect, Effects};

use crate::mark_congestion;

/// Applies the effects of a link to an IP packet.
pub fn apply(effects: Effects, packet: &mut [u8]) {
    if effects.has(Effect::Marked) {
        mark_congestion(packet);
    }
}
