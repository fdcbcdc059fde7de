//! N-diff-ports: several subflows between the two addresses of the first, from different ports. One that has ended
//! without being closed is replaced when the connection offers that.

use core::net::IpAddr;

use anabranch_units::Duration;

use super::{PathCommand, PathEvent, PathManager};
use crate::segment::Address;

/// The n-diff-ports path manager.
#[derive(Clone, Debug)]
pub struct NDiffPorts {
    count: u8,
    /// Subflows that are open, or about to be.
    open: u8,
    pending: u8,
    ends: Option<(IpAddr, Address)>,
}

impl NDiffPorts {
    /// Returns a path manager for `count` subflows in total.
    pub fn new(count: u8) -> NDiffPorts {
        NDiffPorts { count, open: 0, pending: 0, ends: None }
    }

    fn create_missing(&mut self) {
        let missing = self.count.saturating_sub(self.open);
        self.pending += missing;
        self.open += missing;
    }
}

impl PathManager for NDiffPorts {
    fn on_event(&mut self, event: &PathEvent) {
        match *event {
            PathEvent::Established { initiator: true, local, remote, deny_join_initial: false } => {
                self.ends = Some((local.ip, remote));
                self.open = 1;
                self.create_missing();
            }
            PathEvent::SubflowClosed { local, remote, .. } if self.ends == Some((local.ip, remote)) => {
                self.open = self.open.saturating_sub(1);
            }
            PathEvent::RetryDue { local, remote } if self.ends == Some((local, remote)) => {
                self.create_missing();
            }
            _ => {}
        }
    }

    fn poll(&mut self) -> Option<PathCommand> {
        let (local, remote) = self.ends?;
        self.pending = self.pending.checked_sub(1)?;
        // The address of the first subflow has ID 0 (RFC 8684 section 3.2).
        Some(PathCommand::SubflowCreate { local, local_id: 0, remote, backup: false, after: Duration::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_subflow_is_replaced_when_that_is_due() {
        let (local, remote) =
            (Address::new(IpAddr::from([10, 0, 0, 1]), 5000), Address::new(IpAddr::from([10, 0, 0, 9]), 80));
        let mut ports = NDiffPorts::new(3);
        let created = |ports: &mut NDiffPorts| core::iter::from_fn(|| ports.poll()).count();
        let established = PathEvent::Established { initiator: true, local, remote, deny_join_initial: false };
        ports.on_event(&established);
        assert_eq!(created(&mut ports), 2);
        let due = PathEvent::RetryDue { local: local.ip, remote };
        ports.on_event(&due);
        assert_eq!(created(&mut ports), 0);
        for id in [0, 2] {
            let id = crate::event::SubflowId(id);
            ports.on_event(&PathEvent::SubflowClosed { id, local, remote, reset: None });
        }
        assert_eq!(created(&mut ports), 0);
        ports.on_event(&due);
        assert_eq!(created(&mut ports), 2);
    }
}
