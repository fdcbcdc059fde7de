//! The results of offering and polling packets.

use anabranch_units::Time;

use crate::{DropReason, Effects};

/// The result of offering a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed<P> {
    /// It was accepted. (It may still be dropped if the link goes down while it is queued.)
    Queued,
    /// It was dropped, and is returned.
    Dropped(P, DropReason),
}

/// The result of polling a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled<P> {
    /// A packet arrived at the far end.
    Arrived(Arrival<P>),
    /// A queued packet was dropped: because the link went down, or by CoDel or FQ-CoDel. Does not occur on links with
    /// neither a timeline nor such a queue.
    Dropped(Dropped<P>),
}

/// A packet at the far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// The time of its arrival, whenever it was polled.
    pub at: Time,
    /// The time at which the link had transmitted it, before its propagation.
    pub departed: Time,
    /// Its length in bytes on the wire.
    pub wire_bytes: u32,
    /// The effects of the link on the packet, which the caller of the link applies to it.
    pub effects: Effects,
    /// The packet as it was pushed, even if `effects` has changes for it.
    pub packet: P,
}

/// A packet that was dropped after it had entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The time of the drop.
    pub at: Time,
    /// The queue, the loss model or the state that dropped it.
    pub reason: DropReason,
    /// Its length in bytes on the wire.
    pub wire_bytes: u32,
    /// The packet as it was pushed.
    pub packet: P,
}
