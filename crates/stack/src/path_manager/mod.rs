//! Path managers: they decide which subflows a connection opens, in the kernel's vocabulary of events and
//! commands, so that one object serves the stack, the simulator and the stock kernel's daemon.

mod anabranch;
mod any;
mod custom;
mod endpoints;
mod full_mesh;
mod n_diff_ports;

use core::net::IpAddr;

use anabranch_units::Duration;

use crate::event::SubflowId;
use crate::segment::{Address, ResetReason};

pub use anabranch::{Anabranch, JoinRules};
pub use any::{AnyPathManager, PathManagerKind};
pub use custom::CustomPathManagerKind;
pub use endpoints::{EndpointRole, EndpointRules, Endpoints};
pub use full_mesh::FullMesh;
pub use n_diff_ports::NDiffPorts;

/// The events for a path manager, with the names of the kernel's `mptcp_pm` events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The connection is fully established: joins may start.
    Established {
        /// True if this side has opened the connection.
        initiator: bool,
        /// The first subflow's local address.
        local: Address,
        /// The first subflow's remote address.
        remote: Address,
        /// True if the peer accepts no further subflows at that address.
        deny_join_initial: bool,
    },
    /// The peer has announced an address.
    Announced {
        /// The ID that the peer has given the address.
        id: u8,
        /// The address, with the port of the connection if none was announced.
        address: Address,
    },
    /// The peer has withdrawn an address.
    Removed {
        /// The ID that the peer had given the address.
        id: u8,
    },
    /// A subflow can carry data.
    SubflowEstablished {
        /// The ID of the subflow.
        id: SubflowId,
        /// The local address of the subflow.
        local: Address,
        /// The remote address of the subflow.
        remote: Address,
    },
    /// A subflow has ended, or an attempt has failed.
    SubflowClosed {
        /// The ID of the subflow.
        id: SubflowId,
        /// The local address of the subflow.
        local: Address,
        /// The remote address of the subflow.
        remote: Address,
        /// The content of the peer's reset (RFC 8684 section 3.6): whether the cause is transient, and the
        /// cause.
        reset: Option<(bool, ResetReason)>,
    },
    /// A subflow between these addresses has ended some time ago without being closed, and may be opened again. Only
    /// the initiator is notified, with a backoff.
    RetryDue {
        /// The local address.
        local: IpAddr,
        /// The remote address.
        remote: Address,
    },
    /// A local address has become usable.
    LocalUp(IpAddr),
    /// A local address is no longer usable.
    LocalDown(IpAddr),
}

/// The commands of a path manager, with the names of the kernel's `mptcp_pm` commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathCommand {
    /// Announce a local address to the peer.
    Announce {
        /// The ID under which the peer will know the address.
        id: u8,
        /// The local address.
        ip: IpAddr,
    },
    /// Withdraw a local address.
    Remove {
        /// The ID under which the peer knows the address.
        id: u8,
    },
    /// Open a subflow.
    SubflowCreate {
        /// The local address.
        local: IpAddr,
        /// The ID of the local address.
        local_id: u8,
        /// The remote address.
        remote: Address,
        /// True to request use as a backup.
        backup: bool,
        /// The time for which it is held back. The next request for the same addresses replaces it.
        after: Duration,
    },
    /// Close a subflow.
    SubflowDestroy(SubflowId),
    /// Change the priority of a subflow.
    SetBackup(SubflowId, bool),
}

/// An address of this host from which subflows may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// Its ID, from 1. ID 0 is always the address of the first subflow.
    pub id: u8,
    /// The address.
    pub ip: IpAddr,
    /// True if subflows from it request to be backups.
    pub backup: bool,
}

/// The path manager of one connection: it is notified of events, and then polled for commands until there is
/// none.
///
/// A command that the connection cannot execute has no effect: a subflow beyond `max_subflows`, or one that
/// could carry nothing.
pub trait PathManager {
    /// Handles an event.
    fn on_event(&mut self, event: &PathEvent);

    /// Returns the next command, until there is none.
    fn poll(&mut self) -> Option<PathCommand>;
}

/// A user-defined path manager.
pub trait CustomPathManager: PathManager + Send {
    /// A copy, so that a run can be forked.
    fn clone_box(&self) -> Box<dyn CustomPathManager>;
}

impl Clone for Box<dyn CustomPathManager> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}
