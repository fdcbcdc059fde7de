//! Path managers: which subflows a connection opens, in the kernel's vocabulary of events and
//! commands, so that one object serves the stack, the simulator and the stock kernel's daemon.

mod full_mesh;
mod n_diff_ports;

use core::net::IpAddr;

use crate::event::SubflowId;
use crate::segment::{Address, ResetReason};

pub use full_mesh::FullMesh;
pub use n_diff_ports::NDiffPorts;

/// Which path manager a connection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathManagerKind {
    /// No further subflows, no announcements.
    None,
    /// A subflow between every pair of addresses.
    FullMesh,
    /// Several subflows between the addresses of the first, from different ports: so many in all.
    NDiffPorts(u8),
}

impl PathManagerKind {
    /// Its name in scenarios and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            PathManagerKind::None => "none",
            PathManagerKind::FullMesh => "full_mesh",
            PathManagerKind::NDiffPorts(_) => "n_diff_ports",
        }
    }
}

/// What a path manager is told; the names are those of the kernel's `mptcp_pm` events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The connection is fully established: joins may start.
    Established {
        /// This side has opened the connection.
        initiator: bool,
        /// The first subflow's local address.
        local: Address,
        /// The first subflow's remote address.
        remote: Address,
        /// The peer takes no further subflows at that address.
        deny_join_initial: bool,
    },
    /// The peer has announced an address.
    Announced {
        /// Its ID.
        id: u8,
        /// The address; the port is that of the connection where none was named.
        address: Address,
    },
    /// The peer has withdrawn an address.
    Removed {
        /// Its ID.
        id: u8,
    },
    /// A subflow can carry data.
    SubflowEstablished {
        /// Its name.
        id: SubflowId,
        /// Its local address.
        local: Address,
        /// Its remote address.
        remote: Address,
    },
    /// A subflow has ended, or an attempt has failed.
    SubflowClosed {
        /// Its name.
        id: SubflowId,
        /// Its local address.
        local: Address,
        /// Its remote address.
        remote: Address,
        /// What the peer has said with a reset (RFC 8684 section 3.6): whether the cause may pass, and the
        /// cause.
        reset: Option<(bool, ResetReason)>,
    },
    /// A local address has come up.
    LocalUp(IpAddr),
    /// A local address has gone.
    LocalDown(IpAddr),
}

/// What a path manager asks for; the names are those of the kernel's `mptcp_pm` commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathCommand {
    /// Announce a local address to the peer.
    Announce {
        /// Its ID.
        id: u8,
        /// The address.
        ip: IpAddr,
    },
    /// Withdraw a local address.
    Remove {
        /// Its ID.
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
        /// Ask to be a backup.
        backup: bool,
    },
    /// Close a subflow.
    SubflowDestroy(SubflowId),
    /// Change the priority of a subflow.
    SetBackup(SubflowId, bool),
}

/// A path manager of one connection.
#[derive(Clone, Debug)]
pub enum PathManager {
    /// Does nothing.
    None,
    /// A subflow between every pair of addresses.
    FullMesh(FullMesh),
    /// Several subflows between one pair.
    NDiffPorts(NDiffPorts),
}

impl PathManager {
    /// The path manager of that kind, for a host with these addresses (ID, address, backup).
    pub fn new(kind: PathManagerKind, addresses: &[(u8, IpAddr, bool)]) -> PathManager {
        match kind {
            PathManagerKind::None => PathManager::None,
            PathManagerKind::FullMesh => PathManager::FullMesh(FullMesh::new(addresses)),
            PathManagerKind::NDiffPorts(count) => PathManager::NDiffPorts(NDiffPorts::new(count)),
        }
    }

    /// Something has happened.
    pub fn on_event(&mut self, event: &PathEvent) {
        match self {
            PathManager::None => {}
            PathManager::FullMesh(mesh) => mesh.on_event(event),
            PathManager::NDiffPorts(ports) => ports.on_event(event),
        }
    }

    /// The next command, until there is none.
    pub fn poll(&mut self) -> Option<PathCommand> {
        match self {
            PathManager::None => None,
            PathManager::FullMesh(mesh) => mesh.poll(),
            PathManager::NDiffPorts(ports) => ports.poll(),
        }
    }
}
