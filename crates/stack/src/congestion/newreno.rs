//! NewReno: additive increase, multiplicative decrease. Subflows are independent.
//!
//! **Decides** growth by one segment per round trip and a reduction to half, only from the subflow's own
//! window and flight. Several subflows of one connection take several shares of a common bottleneck.
//!
//! **Source**: RFC 5681 section 3.1 (equations 3 and 4); the recovery of RFC 6582 is part of loss detection
//! and separate.
//!
//! **Constants**: increase 1 segment per round trip, decrease to 1/2.
//!
//! **Departures from the source**: the window grows by `acked / w` with each acknowledgement instead of by
//! one segment after `w` of them; the half of the flight is rounded down to whole segments, as is usual in
//! practice. Once reordering is expected, data acknowledged selectively increases the window too, as in Linux.

use super::Ack;
use super::classic::{WindowRule, Windows};
use crate::event::SubflowId;

/// The rule of NewReno.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct NewReno;

impl WindowRule for NewReno {
    const BY_SACK: bool = true;

    #[inline]
    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, _ack: &Ack) -> f64 {
        acked / windows.get(id).segments
    }
}
