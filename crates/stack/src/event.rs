//! The outputs of the stack: segments to send, the placement of payload, and events.

use crate::segment::{PathId, Segment};
use crate::seq::DataRange;

/// The ID of a connection of one endpoint; never reused during the endpoint's lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    /// Its slot in the endpoint's table, which earlier connections may have used.
    pub(crate) slot: u32,
    /// The number of earlier connections in the slot.
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// Returns its index among the live connections of the endpoint, from 0 and as small as possible, for a
    /// driver's own table. A later connection may have the same.
    pub const fn place(self) -> usize {
        self.slot as usize
    }
}

impl core::fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ConnectionId({}.{})", self.slot, self.generation)
    }
}

/// The ID of a subflow of one connection, from 0; the ID of an ended subflow may be reused.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SubflowId(pub u8);

impl SubflowId {
    /// Returns the ID for arrays with an element for each subflow.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of subflows of one connection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct SubflowSet(pub u32);

impl SubflowSet {
    /// The set without subflows.
    pub const EMPTY: SubflowSet = SubflowSet(0);

    /// Returns the set of one subflow.
    pub const fn one(id: SubflowId) -> SubflowSet {
        SubflowSet(1 << (id.0 & 31))
    }

    /// True if the set contains `id`.
    pub const fn has(self, id: SubflowId) -> bool {
        self.0 & (1 << (id.0 & 31)) != 0
    }

    /// Returns the set with `id` added.
    pub const fn with(self, id: SubflowId) -> SubflowSet {
        SubflowSet(self.0 | 1 << (id.0 & 31))
    }

    /// Returns the set without `id`.
    pub const fn without(self, id: SubflowId) -> SubflowSet {
        SubflowSet(self.0 & !(1 << (id.0 & 31)))
    }

    /// True if the set has no subflow.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of members.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns its members in order.
    pub fn iter(self) -> impl Iterator<Item = SubflowId> {
        (0..32).filter(move |i| self.0 & (1 << i) != 0).map(SubflowId)
    }
}

/// One segment to send.
#[derive(Clone, Copy, Debug)]
pub struct Transmit {
    /// The connection; `None` for an answer to a segment of no connection.
    pub connection: Option<ConnectionId>,
    /// The interface on which it is sent.
    pub path: PathId,
    /// The headers and the options; the driver adds the payload from the stream.
    pub segment: Segment,
    /// The offset of its payload in the stream that this host sends.
    pub stream_offset: u64,
    /// See [`Departure`].
    pub segment_size: u32,
}

/// The route and payload of a segment to send, without the segment itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The connection; `None` for an answer to a segment of no connection.
    pub connection: Option<ConnectionId>,
    /// The interface on which it is sent.
    pub path: PathId,
    /// The offset of its payload in the stream that this host sends.
    pub stream_offset: u64,
    /// The payload per segment, in bytes, if the departure represents several consecutive segments; the last
    /// may have less, see [`Segment::pieces`]. 0 for a single segment, as always without
    /// [`Endpoint::set_burst_limit`](crate::endpoint::Endpoint::set_burst_limit).
    pub segment_size: u32,
    /// True if packet scatter spreads the segment over routes of equal cost, in a simulated network.
    pub scattered: bool,
}

/// The placement of a part of a received payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// These bytes belong to this range of the received stream: the driver copies them. They are readable
    /// when everything before them has arrived.
    Deliver {
        /// The connection that receives them.
        connection: ConnectionId,
        /// The subflow that carried them.
        subflow: SubflowId,
        /// The offset of the part in the segment's payload.
        payload_offset: u32,
        /// The range in the stream.
        stream: DataRange,
    },
    /// The place of these bytes in the stream, or their integrity, is not yet known: their mapping or the
    /// rest of the data covered by its checksum is missing (RFC 8684 section 3.3.1). The driver stores them
    /// separately, by their place in the subflow, until they are released or dropped; held bytes become void
    /// when the subflow or the connection ends.
    Hold {
        /// The connection that may receive them later.
        connection: ConnectionId,
        /// The subflow that carried them.
        subflow: SubflowId,
        /// The offset of the part in the segment's payload.
        payload_offset: u32,
        /// The range in the subflow; the first byte of the subflow is 1.
        held: DataRange,
    },
    /// Held bytes belong to this range of the received stream, and are no longer held. They may be a part of
    /// one [`Placement::Hold`], or several of them together.
    Release {
        /// The connection that receives them.
        connection: ConnectionId,
        /// The subflow that carried them.
        subflow: SubflowId,
        /// The range in the subflow.
        held: DataRange,
        /// The range in the stream, of the same length as `held`.
        stream: DataRange,
    },
    /// Held bytes are no longer needed.
    Drop {
        /// The connection that has held them.
        connection: ConnectionId,
        /// The subflow that carried them.
        subflow: SubflowId,
        /// The range in the subflow.
        held: DataRange,
    },
    /// These bytes are not needed: duplicates, or outside the window.
    Discard {
        /// The connection that they were sent to.
        connection: ConnectionId,
        /// The offset of the part in the segment's payload.
        payload_offset: u32,
        /// The number of bytes.
        len: u32,
    },
}

/// The reason for the end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// Both sides have closed, and everything was acknowledged.
    Finished,
    /// This side has aborted it.
    Aborted,
    /// The other side has aborted it.
    Reset,
    /// The other side refused it.
    Refused,
    /// No answer, or no progress within the user timeout.
    TimedOut,
    /// Every subflow has ended and no new one was established in time.
    NoSubflow,
}

/// An event for the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A connection initiated by this side is established.
    Connected,
    /// A connection initiated by the other side is established.
    Accepted,
    /// More data can be read.
    Readable,
    /// The send buffer has space again after a write that did not fit.
    Writable,
    /// The other side has closed its direction, and all its data can be read.
    PeerClosed,
    /// Everything written, including the end of the stream if it was closed, was acknowledged at the data
    /// level and on every subflow that carries it: no data has to be kept.
    AllAcked,
    /// A subflow can carry data.
    SubflowUp(SubflowId),
    /// A subflow has ended.
    SubflowDown(SubflowId),
    /// The connection has ended; its ID becomes invalid after the next poll.
    Closed(CloseReason),
}
