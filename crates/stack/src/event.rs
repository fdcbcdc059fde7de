//! What the stack hands out: segments to send, where payload goes, and events.

use crate::segment::{PathId, Segment};
use crate::seq::DataRange;

/// Names a connection of one endpoint; not used again while the endpoint lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    /// Its place in the endpoint's table, which others had before.
    pub(crate) slot: u32,
    /// How many had it.
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// Its place among the living connections of the endpoint, from 0 and as small as possible: an
    /// index for a driver's own table. A later connection may have the same.
    pub const fn place(self) -> usize {
        self.slot as usize
    }
}

impl core::fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ConnectionId({}.{})", self.slot, self.generation)
    }
}

/// Names a subflow of one connection: its place, from 0; a dead subflow's place may be used again.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SubflowId(pub u8);

impl SubflowId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of subflows of one connection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct SubflowSet(pub u32);

impl SubflowSet {
    /// No subflow.
    pub const EMPTY: SubflowSet = SubflowSet(0);

    /// The set of one.
    pub const fn one(id: SubflowId) -> SubflowSet {
        SubflowSet(1 << (id.0 & 31))
    }

    /// Whether `id` is in it.
    pub const fn has(self, id: SubflowId) -> bool {
        self.0 & (1 << (id.0 & 31)) != 0
    }

    /// This set and `id`.
    pub const fn with(self, id: SubflowId) -> SubflowSet {
        SubflowSet(self.0 | 1 << (id.0 & 31))
    }

    /// This set without `id`.
    pub const fn without(self, id: SubflowId) -> SubflowSet {
        SubflowSet(self.0 & !(1 << (id.0 & 31)))
    }

    /// Whether nothing is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many are in it.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Its members in order.
    pub fn iter(self) -> impl Iterator<Item = SubflowId> {
        (0..32).filter(move |i| self.0 & (1 << i) != 0).map(SubflowId)
    }
}

/// One segment to send.
#[derive(Clone, Copy, Debug)]
pub struct Transmit {
    /// The connection it belongs to; none for an answer to a segment that belongs to none.
    pub connection: Option<ConnectionId>,
    /// The interface by which it leaves.
    pub path: PathId,
    /// The segment.
    pub segment: Segment,
    /// Where its payload starts in the stream that this host sends.
    pub stream_offset: u64,
    /// As in [`Departure`].
    pub segment_size: u32,
}

/// Where a segment leaves, and what its payload is; the segment itself stands apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The connection it belongs to; none for an answer to a segment that belongs to none.
    pub connection: Option<ConnectionId>,
    /// The interface by which it leaves.
    pub path: PathId,
    /// Where its payload starts in the stream that this host sends.
    pub stream_offset: u64,
    /// It stands for several consecutive segments with so many bytes of payload each, the last of which may
    /// have fewer; [`Segment::pieces`] are those. 0 where it is one segment, as always without
    /// [`Endpoint::set_burst_limit`](crate::endpoint::Endpoint::set_burst_limit).
    pub segment_size: u32,
}

/// What becomes of a part of a received payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// These bytes belong here in the received stream: the driver copies them. They are readable
    /// when everything before them has arrived.
    Deliver {
        /// The connection.
        connection: ConnectionId,
        /// The subflow they came by.
        subflow: SubflowId,
        /// Where the part starts in the segment's payload.
        payload_offset: u32,
        /// Where it belongs in the stream.
        stream: DataRange,
    },
    /// Nobody knows yet where these bytes belong, or whether they are the ones that were sent: their
    /// mapping or the rest of what its checksum covers is still to come (RFC 8684 section 3.3.1). The
    /// driver keeps them apart, under their place in the subflow, until they are released or dropped; what
    /// is held for a subflow is void when the subflow or the connection has ended.
    Hold {
        /// The connection.
        connection: ConnectionId,
        /// The subflow they came by.
        subflow: SubflowId,
        /// Where the part starts in the segment's payload.
        payload_offset: u32,
        /// Their place in the subflow, whose first byte is 1.
        held: DataRange,
    },
    /// Held bytes belong here in the received stream, and are held no longer. They may be a part of
    /// what one [`Placement::Hold`] has named, or several of them together.
    Release {
        /// The connection.
        connection: ConnectionId,
        /// The subflow they came by.
        subflow: SubflowId,
        /// Their place in the subflow.
        held: DataRange,
        /// Where they belong in the stream; as long as `held`.
        stream: DataRange,
    },
    /// Held bytes are not needed any more.
    Drop {
        /// The connection.
        connection: ConnectionId,
        /// The subflow they came by.
        subflow: SubflowId,
        /// Their place in the subflow.
        held: DataRange,
    },
    /// These bytes are not needed: duplicates, or outside the window.
    Discard {
        /// The connection.
        connection: ConnectionId,
        /// Where the part starts in the segment's payload.
        payload_offset: u32,
        /// How many bytes.
        len: u32,
    },
}

/// Why a connection has ended.
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
    /// Every subflow is gone and none came in time.
    NoSubflow,
}

/// What an application wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A connection that this side has opened is established.
    Connected,
    /// The other side has opened this connection; it is established.
    Accepted,
    /// There is more to read than before.
    Readable,
    /// There is room in the send buffer again after a write that did not fit.
    Writable,
    /// The other side has closed its direction, and everything it sent can be read.
    PeerClosed,
    /// Everything written, and the end of the stream if it was closed, has been acknowledged, at the
    /// data level and on every subflow that carries it: nothing has to be kept any more.
    AllAcked,
    /// A subflow can carry data.
    SubflowUp(SubflowId),
    /// A subflow has ended.
    SubflowDown(SubflowId),
    /// The connection has ended; its ID is not valid any more after the next poll.
    Closed(CloseReason),
}
