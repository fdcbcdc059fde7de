//! Full mesh: the initiator opens a subflow between each of its addresses and each address of the
//! peer; the listener announces its further addresses and leaves the opening to the other side.
//!
//! A pair that has failed is not tried again (RFC 8684 section 3.4.1) until the peer announces the
//! address anew or the local address comes up again.

use core::net::IpAddr;
use std::collections::VecDeque;

use super::{PathCommand, PathEvent};
use crate::segment::Address;

/// The full-mesh path manager.
#[derive(Clone, Debug)]
pub struct FullMesh {
    local: Vec<(u8, IpAddr, bool)>,
    /// The peer's addresses as far as they are known; the first is that of the first subflow.
    remote: Vec<(Option<u8>, Address)>,
    /// Pairs that have a subflow, or had one that failed.
    used: Vec<(IpAddr, Address)>,
    /// Those of them that have none any more.
    failed: Vec<(IpAddr, Address)>,
    initiator: bool,
    established: bool,
    commands: VecDeque<PathCommand>,
}

impl FullMesh {
    /// For a host with these addresses: ID, address, whether it asks to be a backup.
    pub fn new(addresses: &[(u8, IpAddr, bool)]) -> FullMesh {
        FullMesh {
            local: addresses.to_vec(),
            remote: Vec::new(),
            used: Vec::new(),
            failed: Vec::new(),
            initiator: false,
            established: false,
            commands: VecDeque::new(),
        }
    }

    /// Something has happened.
    pub fn on_event(&mut self, event: &PathEvent) {
        match *event {
            PathEvent::Established { initiator, local, remote, deny_join_initial } => {
                self.initiator = initiator;
                self.established = true;
                self.used.push((local.ip, remote));
                if !deny_join_initial {
                    self.remote.insert(0, (None, remote));
                }
                if initiator {
                    self.create_missing();
                } else {
                    for &(id, ip, _) in self.local.iter().filter(|(_, ip, _)| *ip != local.ip) {
                        self.commands.push_back(PathCommand::Announce { id, ip });
                    }
                }
            }
            PathEvent::Announced { id, address } => {
                // It may come again because its echo was lost: what lives stays as it is.
                let failed = &mut self.failed;
                self.used.retain(|pair| pair.1 != address || !failed.contains(pair));
                failed.retain(|pair| pair.1 != address);
                self.remote.retain(|(known, _)| *known != Some(id));
                self.remote.push((Some(id), address));
                self.create_missing();
            }
            PathEvent::Removed { id } => self.remote.retain(|(known, _)| *known != Some(id)),
            PathEvent::SubflowEstablished { local, remote, .. } => self.mark(local.ip, remote),
            PathEvent::SubflowClosed { local, remote, .. } => {
                let pair = (local.ip, remote);
                if self.used.contains(&pair) && !self.failed.contains(&pair) {
                    self.failed.push(pair);
                }
            }
            PathEvent::LocalUp(ip) => {
                self.used.retain(|(local, _)| *local != ip);
                self.failed.retain(|(local, _)| *local != ip);
                self.create_missing();
            }
            PathEvent::LocalDown(ip) => {
                self.commands.retain(
                    |command| !matches!(command, PathCommand::SubflowCreate { local, .. } if *local == ip),
                );
                self.mark_all(ip);
                if let Some(&(id, ..)) = self.local.iter().find(|(_, local, _)| *local == ip)
                    && self.established
                {
                    self.commands.push_back(PathCommand::Remove { id });
                }
            }
        }
    }

    fn mark(&mut self, local: IpAddr, remote: Address) {
        if !self.used.contains(&(local, remote)) {
            self.used.push((local, remote));
        }
    }

    fn mark_all(&mut self, local: IpAddr) {
        for at in 0..self.remote.len() {
            self.mark(local, self.remote[at].1);
        }
    }

    fn create_missing(&mut self) {
        if !(self.initiator && self.established) {
            return;
        }
        for &(_, remote) in &self.remote {
            for &(local_id, local, backup) in &self.local {
                let pair = (local, remote);
                if local.is_ipv4() != remote.ip.is_ipv4() || self.used.contains(&pair) {
                    continue;
                }
                self.used.push(pair);
                self.commands.push_back(PathCommand::SubflowCreate { local, local_id, remote, backup });
            }
        }
    }

    /// The next command, until there is none.
    pub fn poll(&mut self) -> Option<PathCommand> {
        self.commands.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn started(initiator: bool) -> FullMesh {
        let mut mesh = FullMesh::new(&[(1, ip(1), false), (2, ip(2), true)]);
        mesh.on_event(&PathEvent::Established {
            initiator,
            local: Address::new(ip(1), 5000),
            remote: Address::new(ip(9), 80),
            deny_join_initial: false,
        });
        mesh
    }

    #[test]
    fn the_initiator_opens_every_pair_once() {
        let mut mesh = started(true);
        let remote = Address::new(ip(9), 80);
        let second = PathCommand::SubflowCreate { local: ip(2), local_id: 2, remote, backup: true };
        assert_eq!(mesh.poll(), Some(second));
        assert_eq!(mesh.poll(), None);
        mesh.on_event(&PathEvent::Announced { id: 7, address: Address::new(ip(8), 80) });
        assert_eq!(core::iter::from_fn(|| mesh.poll()).count(), 2);
        mesh.on_event(&PathEvent::LocalUp(ip(2)));
        assert_eq!(core::iter::from_fn(|| mesh.poll()).count(), 2);
    }

    #[test]
    fn the_listener_announces_and_opens_nothing() {
        let mut mesh = started(false);
        assert_eq!(mesh.poll(), Some(PathCommand::Announce { id: 2, ip: ip(2) }));
        assert_eq!(mesh.poll(), None);
        mesh.on_event(&PathEvent::LocalDown(ip(2)));
        assert_eq!(mesh.poll(), Some(PathCommand::Remove { id: 2 }));
    }
}
