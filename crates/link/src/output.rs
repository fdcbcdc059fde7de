//! What a link says of the packets it was given.

use anabranch_units::Time;

use crate::DropReason;

/// What became of a packet that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed<P> {
    /// It is on its way. (It may still be dropped, if the link goes down while it waits.)
    Queued,
    /// It was dropped, and here it is again.
    Dropped(P, DropReason),
}

/// What comes out of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled<P> {
    /// A packet at the far end.
    Arrived(Arrival<P>),
    /// A packet that waited when the link went down. Only links with a timeline drop so.
    Dropped(Dropped<P>),
}

/// A packet at the far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// When it arrived, whenever it was polled.
    pub at: Time,
    /// Its length in bytes on the wire.
    pub wire_bytes: u32,
    /// It found a queue beyond the marking threshold. Whoever drives the link marks the packet, if its
    /// sender can take it (RFC 3168).
    pub marked: bool,
    /// The packet.
    pub packet: P,
}

/// A packet that was dropped after it had entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<P> {
    /// When.
    pub at: Time,
    /// Why.
    pub reason: DropReason,
    /// Its length in bytes on the wire.
    pub wire_bytes: u32,
    /// The packet.
    pub packet: P,
}
