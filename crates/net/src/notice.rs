//! What a host says of its connections to whoever wants to log it.

use anabranch_stack::event::CloseReason;
use anabranch_stack::segment::Address;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::Time;

/// Something that has happened to a connection.
#[derive(Clone, Debug)]
pub enum Notice {
    /// It is established.
    Opened {
        /// The number of the connection among all of its host, from 1.
        number: u64,
        /// This end of its first subflow.
        local: Address,
        /// The other end.
        remote: Address,
        /// The other side has opened it.
        accepted: bool,
        /// It is Multipath TCP; otherwise it is a plain TCP from the handshake on.
        mptcp: bool,
    },
    /// One of its subflows can carry data.
    SubflowUp {
        /// The number of the connection among all of its host, from 1.
        number: u64,
        /// The subflow.
        stats: SubflowStats,
    },
    /// One of its subflows has ended.
    SubflowDown {
        /// The number of the connection among all of its host, from 1.
        number: u64,
        /// The subflow.
        stats: SubflowStats,
    },
    /// It has ended.
    Closed(Box<ConnectionReport>),
}

/// What a connection has done.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// Its number among all connections of its host, from 1.
    pub number: u64,
    /// This end of its first subflow.
    pub local: Address,
    /// The other end.
    pub remote: Address,
    /// When it began, counted from the host's start.
    pub opened: Time,
    /// When it ended, counted from the host's start.
    pub closed: Time,
    /// How it ended.
    pub reason: CloseReason,
    /// Its counters.
    pub stats: ConnectionStats,
    /// Its subflows in the order in which they began.
    pub subflows: Vec<SubflowStats>,
}
