//! Events of a host's connections, for logging.

use anabranch_stack::event::CloseReason;
use anabranch_stack::segment::Address;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::Time;

/// An event of a connection.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The connection is established.
    Opened {
        /// The number of the connection among all of its host, from 1.
        number: u64,
        /// The local end of its first subflow.
        local: Address,
        /// The remote end.
        remote: Address,
        /// True if the peer opened it.
        accepted: bool,
        /// True for Multipath TCP; false for plain TCP from the handshake on.
        mptcp: bool,
    },
    /// A subflow can carry data.
    SubflowUp {
        /// The number of the connection among all of its host, from 1.
        number: u64,
        /// The subflow.
        stats: SubflowStats,
    },
    /// A subflow has ended.
    SubflowDown {
        /// The number of the connection among all of its host, from 1.
        number: u64,
        /// The subflow.
        stats: SubflowStats,
    },
    /// The connection has ended.
    Closed(Box<ConnectionReport>),
}

/// The record of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// Its number among all connections of its host, from 1.
    pub number: u64,
    /// The local end of its first subflow.
    pub local: Address,
    /// The remote end.
    pub remote: Address,
    /// The time when it began, since the host's start.
    pub opened: Time,
    /// The time when it ended, since the host's start.
    pub closed: Time,
    /// The reason of its end.
    pub reason: CloseReason,
    /// Its counters.
    pub stats: ConnectionStats,
    /// Its subflows in the order in which they began.
    pub subflows: Vec<SubflowStats>,
}
