//! N-diff-ports: several subflows between the two addresses of the first, from different ports.

use super::{PathCommand, PathEvent, PathManager};

/// The n-diff-ports path manager.
#[derive(Clone, Debug)]
pub struct NDiffPorts {
    count: u8,
    pending: u8,
    create: Option<PathCommand>,
}

impl NDiffPorts {
    /// Returns a path manager for `count` subflows in total.
    pub fn new(count: u8) -> NDiffPorts {
        NDiffPorts { count, pending: 0, create: None }
    }
}

impl PathManager for NDiffPorts {
    fn on_event(&mut self, event: &PathEvent) {
        if let PathEvent::Established { initiator: true, local, remote, deny_join_initial: false } = *event {
            self.pending = self.count.saturating_sub(1);
            self.create = Some(PathCommand::SubflowCreate {
                local: local.ip,
                // The address of the first subflow has ID 0 (RFC 8684 section 3.2).
                local_id: 0,
                remote,
                backup: false,
            });
        }
    }

    fn poll(&mut self) -> Option<PathCommand> {
        self.pending = self.pending.checked_sub(1)?;
        self.create
    }
}
