//! The path of a subflow: its addresses with their IDs, and its priority (RFC 8684 sections 3.2 and 3.3.8).

use super::SubflowSetup;
use crate::segment::{Address, PathId};

/// The path of a subflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    local: Address,
    remote: Address,
    path: PathId,
    local_id: u8,
    remote_id: u8,
    /// True if this side has asked the peer to treat it as a backup.
    backup_asked: bool,
    /// True if the peer has asked to treat it as a backup.
    backup_wanted: bool,
}

impl Route {
    pub(super) fn new(setup: &SubflowSetup, local_id: u8) -> Route {
        let SubflowSetup { local, remote, path, join, .. } = *setup;
        Route {
            local,
            remote,
            path,
            local_id,
            remote_id: join.map_or(0, |join| join.remote_id),
            backup_asked: join.is_some_and(|join| join.asks_backup),
            backup_wanted: join.is_some_and(|join| join.backup_asked),
        }
    }

    #[inline]
    pub(crate) fn local(&self) -> Address {
        self.local
    }

    #[inline]
    pub(crate) fn remote(&self) -> Address {
        self.remote
    }

    /// Returns the interface on which the subflow sends.
    #[inline]
    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    /// Returns the IDs of the local and the remote address.
    pub(crate) fn ids(&self) -> (u8, u8) {
        (self.local_id, self.remote_id)
    }

    /// Sets the ID of the peer's address.
    pub(super) fn set_remote_id(&mut self, id: u8) {
        self.remote_id = id;
    }

    /// True if this side asks the peer to treat the subflow as a backup.
    pub(crate) fn asks_backup(&self) -> bool {
        self.backup_asked
    }

    /// Sets whether this side asks the peer to treat the subflow as a backup.
    pub(crate) fn ask_backup(&mut self, backup: bool) {
        self.backup_asked = backup;
    }

    /// Sets whether the peer asks to treat the subflow as a backup.
    pub(crate) fn on_backup_asked(&mut self, backup: bool) {
        self.backup_wanted = backup;
    }

    /// True if either side asks to treat the subflow as a backup.
    #[inline]
    pub(super) fn is_backup(&self) -> bool {
        self.backup_wanted || self.backup_asked
    }
}
