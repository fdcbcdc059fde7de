//! The kernel's endpoints on paths with a spent budget: they are backups until the budget is renewed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_kernel::KernelError;
use anabranch_kernel::interfaces::Interfaces;
use anabranch_kernel::pm::{Command, Endpoint, EndpointFlags, PathManager};

/// The endpoints that were made backups here.
#[derive(Debug, Default)]
pub(crate) struct BackupEndpoints {
    made: BTreeMap<IpAddr, Endpoint>,
    is_refused: bool,
}

impl BackupEndpoints {
    /// True if the kernel has refused it, as without CAP_NET_ADMIN.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Makes the endpoints of the interfaces with a spent budget backups, in open connections too, and undoes it for others. An endpoint
    /// whose interface is gone stays as it is: it may come back with the budget still spent.
    ///
    /// # Errors
    /// The first time that the kernel refuses it.
    pub(crate) fn apply(
        &mut self,
        interfaces: &Interfaces,
        is_spent: impl Fn(&str) -> bool,
    ) -> Result<(), KernelError> {
        if self.made.is_empty()
            && (self.is_refused || !interfaces.0.values().any(|interface| is_spent(&interface.name)))
        {
            return Ok(());
        }
        self.set(|endpoint| {
            interfaces.of(endpoint.interface, endpoint.address).map(|interface| is_spent(&interface.name))
        })
    }

    /// Undoes everything.
    pub(crate) fn undo(&mut self) {
        if !self.made.is_empty() {
            // A failure leaves a backup.
            let _ = self.set(|_| Some(false));
        }
    }

    /// Sets whether each endpoint is a backup; none leaves it as it is.
    fn set(&mut self, is_backup: impl Fn(&Endpoint) -> Option<bool>) -> Result<(), KernelError> {
        let applied = (|| {
            let mut manager = PathManager::open()?;
            for endpoint in manager.endpoints()? {
                let Some(wanted) = is_backup(&endpoint) else { continue };
                if wanted && !endpoint.flags.has(EndpointFlags::BACKUP) {
                    let flags = EndpointFlags(endpoint.flags.0 | EndpointFlags::BACKUP.0);
                    manager.command(&Command::SetEndpointFlags(Endpoint { flags, ..endpoint.clone() }))?;
                    self.made.insert(endpoint.address, endpoint);
                } else if !wanted && let Some(before) = self.made.remove(&endpoint.address) {
                    manager.command(&Command::SetEndpointFlags(Endpoint { id: endpoint.id, ..before }))?;
                }
            }
            Ok(())
        })();
        if applied.is_err() && !self.is_refused {
            self.is_refused = true;
            return applied;
        }
        Ok(())
    }
}
