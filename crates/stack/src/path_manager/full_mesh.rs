//! Full mesh: the initiator opens a subflow between each of its addresses and each address of the peer; the
//! listener announces its further addresses and leaves opening subflows to the other side.
//!
//! A pair without a subflow is retried when the connection offers it (a subflow that has ended without being closed),
//! when the peer announces the address again, and when the local address comes up again; no other failed pair is
//! (RFC 8684 section 3.4.1).

use core::net::IpAddr;
use std::collections::VecDeque;

use anabranch_units::Duration;

use super::{HostAddress, PathCommand, PathEvent, PathManager};
use crate::segment::{Address, ResetReason};

/// The full-mesh path manager.
#[derive(Clone, Debug)]
pub struct FullMesh {
    local: Vec<HostAddress>,
    /// The known addresses of the peer, with their IDs if announced; the first subflow's address is the
    /// first.
    remote: Vec<(Option<u8>, Address)>,
    /// Pairs that have a subflow, or had one that failed.
    used: Vec<(IpAddr, Address)>,
    /// The pairs that currently have one, or are about to.
    open: Vec<(IpAddr, Address)>,
    /// Pairs of addresses between which the peer accepts no subflow.
    barred: Vec<(IpAddr, IpAddr)>,
    /// Local addresses that are unusable.
    down: Vec<IpAddr>,
    initiator: bool,
    established: bool,
    commands: VecDeque<PathCommand>,
}

impl FullMesh {
    /// Returns a path manager for a host with these addresses.
    pub fn new(addresses: &[HostAddress]) -> FullMesh {
        FullMesh {
            local: addresses.to_vec(),
            remote: Vec::new(),
            used: Vec::new(),
            open: Vec::new(),
            barred: Vec::new(),
            down: Vec::new(),
            initiator: false,
            established: false,
            commands: VecDeque::new(),
        }
    }

    fn mark(&mut self, local: IpAddr, remote: Address) {
        for list in [&mut self.used, &mut self.open] {
            if !list.contains(&(local, remote)) {
                list.push((local, remote));
            }
        }
    }

    fn create_missing(&mut self) {
        if !(self.initiator && self.established) {
            return;
        }
        for &(_, remote) in &self.remote {
            for &HostAddress { id: local_id, ip: local, backup } in &self.local {
                let pair = (local, remote);
                let mixed = local.is_ipv4() != remote.ip.is_ipv4();
                let barred = self.barred.contains(&(local, remote.ip));
                if mixed || barred || self.down.contains(&local) || self.used.contains(&pair) {
                    continue;
                }
                self.used.push(pair);
                self.open.push(pair);
                self.commands.push_back(PathCommand::SubflowCreate {
                    local,
                    local_id,
                    remote,
                    backup,
                    after: Duration::ZERO,
                });
            }
        }
    }
}

impl PathManager for FullMesh {
    fn on_event(&mut self, event: &PathEvent) {
        match *event {
            PathEvent::Established { initiator, local, remote, deny_join_initial } => {
                self.initiator = initiator;
                self.established = true;
                self.mark(local.ip, remote);
                if !deny_join_initial {
                    self.remote.insert(0, (None, remote));
                }
                if initiator {
                    self.create_missing();
                } else {
                    for &HostAddress { id, ip, .. } in self.local.iter().filter(|own| own.ip != local.ip) {
                        if !self.down.contains(&ip) {
                            self.commands.push_back(PathCommand::Announce { id, ip });
                        }
                    }
                }
            }
            PathEvent::Announced { id, address } => {
                // A repeated announcement opens nothing twice.
                let open = &self.open;
                self.used.retain(|pair| pair.1 != address || open.contains(pair));
                self.remote.retain(|(known, _)| *known != Some(id));
                self.remote.push((Some(id), address));
                self.create_missing();
            }
            PathEvent::Removed { id } => self.remote.retain(|(known, _)| *known != Some(id)),
            PathEvent::SubflowEstablished { local, remote, .. } => self.mark(local.ip, remote),
            PathEvent::SubflowClosed { local, remote, reset, .. } => {
                let gone = (local.ip, remote);
                self.open.retain(|pair| *pair != gone);
                match reset {
                    // Section 3.6: this path is not retried; or only at the next opportunity.
                    Some((false, reason)) if reason != ResetReason::Unspecified => {
                        self.barred.push((local.ip, remote.ip));
                    }
                    Some((true, _)) => self.used.retain(|pair| *pair != gone),
                    _ => {}
                }
            }
            PathEvent::RetryDue { local, remote } => {
                let open = &self.open;
                self.used.retain(|pair| *pair != (local, remote) || open.contains(pair));
                self.create_missing();
            }
            PathEvent::LocalUp(ip) => {
                let was_down = self.down.contains(&ip);
                self.down.retain(|known| *known != ip);
                let open = &self.open;
                self.used.retain(|pair| pair.0 != ip || open.contains(pair));
                self.create_missing();
                if let Some(&HostAddress { id, .. }) = self.local.iter().find(|own| own.ip == ip)
                    && (was_down && self.established && !self.initiator)
                {
                    self.commands.push_back(PathCommand::Announce { id, ip });
                }
            }
            PathEvent::LocalDown(ip) => {
                self.commands.retain(
                    |command| !matches!(command, PathCommand::SubflowCreate { local, .. } if *local == ip),
                );
                self.open.retain(|(local, _)| *local != ip);
                if self.down.contains(&ip) {
                    return;
                }
                self.down.push(ip);
                if let Some(&HostAddress { id, .. }) = self.local.iter().find(|own| own.ip == ip)
                    && self.established
                {
                    self.commands.push_back(PathCommand::Remove { id });
                }
            }
        }
    }

    fn poll(&mut self) -> Option<PathCommand> {
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
        let mut mesh = FullMesh::new(&[
            HostAddress { id: 1, ip: ip(1), backup: false },
            HostAddress { id: 2, ip: ip(2), backup: true },
        ]);
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
        let second = PathCommand::SubflowCreate {
            local: ip(2),
            local_id: 2,
            remote,
            backup: true,
            after: Duration::ZERO,
        };
        assert_eq!(mesh.poll(), Some(second));
        assert_eq!(mesh.poll(), None);
        mesh.on_event(&PathEvent::Announced { id: 7, address: Address::new(ip(8), 80) });
        assert_eq!(core::iter::from_fn(|| mesh.poll()).count(), 2);
        mesh.on_event(&PathEvent::LocalUp(ip(2)));
        assert_eq!(mesh.poll(), None);
        mesh.on_event(&PathEvent::LocalDown(ip(2)));
        assert_eq!(mesh.poll(), Some(PathCommand::Remove { id: 2 }));
        mesh.on_event(&PathEvent::LocalUp(ip(2)));
        assert_eq!(core::iter::from_fn(|| mesh.poll()).count(), 2);
    }

    #[test]
    fn a_repeated_announcement_reopens_a_failed_pair_and_no_other() {
        let mut mesh = started(true);
        mesh.poll();
        let announced = PathEvent::Announced { id: 7, address: Address::new(ip(8), 80) };
        mesh.on_event(&announced);
        assert_eq!(core::iter::from_fn(|| mesh.poll()).count(), 2);
        mesh.on_event(&announced);
        assert_eq!(mesh.poll(), None);
        let (local, remote) = (Address::new(ip(2), 1), Address::new(ip(8), 80));
        mesh.on_event(&PathEvent::SubflowClosed {
            id: crate::event::SubflowId(1),
            local,
            remote,
            reset: None,
        });
        mesh.on_event(&announced);
        assert_eq!(core::iter::from_fn(|| mesh.poll()).count(), 1);
    }

    #[test]
    fn a_pair_is_retried_when_that_is_due_unless_it_is_open_down_or_barred() {
        let mut mesh = started(true);
        assert!(mesh.poll().is_some());
        let (local, remote) = (ip(2), Address::new(ip(9), 80));
        let due = PathEvent::RetryDue { local, remote };
        let closed = |reset| PathEvent::SubflowClosed {
            id: crate::event::SubflowId(1),
            local: Address::new(local, 1),
            remote,
            reset,
        };
        mesh.on_event(&due);
        assert_eq!(mesh.poll(), None, "it is open");
        mesh.on_event(&closed(None));
        assert_eq!(mesh.poll(), None, "the wait is not over");
        mesh.on_event(&due);
        assert!(matches!(mesh.poll(), Some(PathCommand::SubflowCreate { local_id: 2, .. })));
        mesh.on_event(&PathEvent::LocalDown(local));
        mesh.poll();
        mesh.on_event(&closed(None));
        mesh.on_event(&due);
        assert_eq!(mesh.poll(), None, "the address is down");
        mesh.on_event(&PathEvent::LocalUp(local));
        assert!(mesh.poll().is_some());
        mesh.on_event(&closed(Some((false, ResetReason::Prohibited))));
        mesh.on_event(&due);
        assert_eq!(mesh.poll(), None, "the peer admits none");
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
