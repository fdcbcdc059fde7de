//! Linux's own path manager: endpoints with flags, and the limits of `ip mptcp limits`.
//!
//! Source: `net/mptcp/pm_kernel.c` and `pm.c` of Linux 6.18.
//!
//! * The initiator opens a subflow from each `subflow` endpoint to the address of the first subflow, and from each
//!   `fullmesh` endpoint to every address with a subflow, in the order of the endpoints.
//! * An announced address without a subflow gets one from each `fullmesh` endpoint, or if there is none, from the
//!   address by which the routing table reaches it. At most `add_addr_accepted` announcements are taken up.
//! * There are at most `subflows` at once besides the first.
//! * The listener announces its `signal` endpoints, other than the address of the first subflow.
//!
//! A departure: a pair that has lost its subflow is tried again when the connection offers it. The kernel leaves that to
//! its user.

use core::net::IpAddr;
use std::collections::VecDeque;

use anabranch_units::Duration;

use super::{HostAddress, PathCommand, PathEvent, PathManager};
use crate::segment::{Address, ResetReason};

/// The flags of an endpoint, as in `ip mptcp endpoint`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointRole {
    /// The address is no endpoint.
    None,
    /// `subflow`: a subflow is opened from it to the address of the first subflow.
    #[default]
    Subflow,
    /// `subflow fullmesh`: one is opened from it to every address of the peer.
    FullMesh,
    /// `signal`: the peer is informed of it.
    Signal,
}

/// The endpoints and the limits of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointRules {
    /// The role of each address, in the order of the host's configuration.
    pub roles: Vec<EndpointRole>,
    /// The most subflows at once besides the first.
    pub subflows: u8,
    /// The most announced addresses that are taken up.
    pub add_addr_accepted: u8,
    /// By the ID of an announced address, from 1: the position of the local address by which the routing table reaches
    /// it. The address of the first subflow, where there is none.
    pub routes: Vec<u8>,
}

/// Linux's path manager for one connection.
#[derive(Clone, Debug)]
pub struct Endpoints {
    rules: EndpointRules,
    local: Vec<HostAddress>,
    /// By local address: whether its endpoint has been used.
    used: Vec<bool>,
    down: Vec<IpAddr>,
    initiator: bool,
    /// The ends of the first subflow, once joins may begin.
    first: Option<(IpAddr, Address)>,
    /// True if the peer accepts no joins at the address of the first subflow.
    joins_denied: bool,
    /// The subflows besides the first that exist or are about to.
    open: Vec<(IpAddr, Address)>,
    /// Pairs of addresses between which the peer accepts no subflow.
    barred: Vec<(IpAddr, IpAddr)>,
    /// The IDs of the announced addresses that were taken up.
    accepted: Vec<u8>,
    /// Announcements that have arrived before joins may begin.
    early: Vec<(u8, Address)>,
    commands: VecDeque<PathCommand>,
}

impl Endpoints {
    /// Returns a path manager for a host with these addresses.
    pub fn new(rules: EndpointRules, addresses: &[HostAddress]) -> Endpoints {
        Endpoints {
            rules,
            local: addresses.to_vec(),
            used: vec![false; addresses.len()],
            down: Vec::new(),
            initiator: false,
            first: None,
            joins_denied: false,
            open: Vec::new(),
            barred: Vec::new(),
            accepted: Vec::new(),
            early: Vec::new(),
            commands: VecDeque::new(),
        }
    }

    fn role(&self, at: usize) -> EndpointRole {
        self.rules.roles.get(at).copied().unwrap_or(EndpointRole::None)
    }

    fn has_space(&self) -> bool {
        self.open.len() < usize::from(self.rules.subflows)
    }

    /// Opens a subflow from the address at `at`, if that is possible.
    fn create(&mut self, at: usize, remote: Address) -> bool {
        let Some(&HostAddress { id, ip, backup }) = self.local.get(at) else { return false };
        let pair = (ip, remote);
        let possible = self.has_space()
            && ip.is_ipv4() == remote.ip.is_ipv4()
            && !self.down.contains(&ip)
            && !self.open.contains(&pair)
            && !self.barred.contains(&(ip, remote.ip));
        if possible {
            self.open.push(pair);
            self.commands.push_back(PathCommand::SubflowCreate {
                local: ip,
                local_id: id,
                remote,
                backup,
                after: Duration::ZERO,
            });
        }
        possible
    }

    /// Uses the endpoints that are not used yet, as far as the limit permits.
    fn use_endpoints(&mut self) {
        let Some((first_local, first_remote)) = self.first.filter(|_| self.initiator) else { return };
        for at in 0..self.local.len() {
            let role = self.role(at);
            let ip = self.local[at].ip;
            let has_flag = matches!(role, EndpointRole::Subflow | EndpointRole::FullMesh);
            if !has_flag || self.used[at] || ip == first_local || self.down.contains(&ip) || !self.has_space()
            {
                continue;
            }
            self.used[at] = true;
            let mut remotes: Vec<Address> = Vec::new();
            remotes.extend((!self.joins_denied).then_some(first_remote));
            if role == EndpointRole::FullMesh {
                for (_, remote) in &self.open {
                    if !remotes.contains(remote) {
                        remotes.push(*remote);
                    }
                }
            }
            for remote in remotes {
                self.create(at, remote);
            }
        }
    }

    /// Takes up an announced address.
    fn take_up(&mut self, id: u8, remote: Address) {
        let Some((first_local, first_remote)) = self.first.filter(|_| self.initiator) else { return };
        let known = remote == first_remote || self.open.iter().any(|(_, other)| *other == remote);
        if known || !self.has_space() || self.accepted.len() >= usize::from(self.rules.add_addr_accepted) {
            return;
        }
        let mut from: Vec<usize> =
            (0..self.local.len()).filter(|at| self.role(*at) == EndpointRole::FullMesh).collect();
        if from.is_empty() {
            let routed = usize::from(id).checked_sub(1).and_then(|at| self.rules.routes.get(at));
            let first = self.local.iter().position(|own| own.ip == first_local);
            from.extend(routed.map(|at| usize::from(*at)).or(first));
        }
        let mut created = false;
        for at in from {
            created |= self.create(at, remote);
        }
        if created {
            self.accepted.push(id);
        }
    }

    fn announce(&mut self) {
        let Some((first_local, _)) = self.first.filter(|_| !self.initiator) else { return };
        for at in 0..self.local.len() {
            let HostAddress { id, ip, .. } = self.local[at];
            let signals = self.role(at) == EndpointRole::Signal && ip != first_local;
            if signals && !self.used[at] && !self.down.contains(&ip) {
                self.used[at] = true;
                self.commands.push_back(PathCommand::Announce { id, ip });
            }
        }
    }
}

impl PathManager for Endpoints {
    fn on_event(&mut self, event: &PathEvent) {
        match *event {
            PathEvent::Established { initiator, local, remote, deny_join_initial } => {
                self.initiator = initiator;
                self.joins_denied = deny_join_initial;
                self.first = Some((local.ip, remote));
                self.open.retain(|pair| self.first != Some(*pair));
                // As in `mptcp_pm_worker`, in this order.
                for (id, address) in core::mem::take(&mut self.early) {
                    self.take_up(id, address);
                }
                self.announce();
                self.use_endpoints();
            }
            PathEvent::Announced { id, address } => match self.first {
                Some(_) => self.take_up(id, address),
                None => self.early.push((id, address)),
            },
            PathEvent::Removed { id } => {
                self.accepted.retain(|known| *known != id);
                self.early.retain(|(known, _)| *known != id);
            }
            PathEvent::SubflowEstablished { local, remote, .. } => {
                let pair = (local.ip, remote);
                if self.first != Some(pair) && !self.open.contains(&pair) {
                    self.open.push(pair);
                }
            }
            PathEvent::SubflowClosed { local, remote, reset, .. } => {
                let gone = (local.ip, remote);
                self.open.retain(|pair| *pair != gone);
                // RFC 8684 section 3.6: this path is not retried.
                if let Some((false, reason)) = reset
                    && reason != ResetReason::Unspecified
                {
                    self.barred.push((local.ip, remote.ip));
                }
                self.use_endpoints();
            }
            PathEvent::RetryDue { local, remote } => {
                if let Some(at) = self.local.iter().position(|own| own.ip == local)
                    && self.initiator
                {
                    self.create(at, remote);
                }
            }
            PathEvent::LocalUp(ip) => {
                self.down.retain(|known| *known != ip);
                if let Some(at) = self.local.iter().position(|own| own.ip == ip) {
                    self.used[at] = false;
                    // The address of the first subflow is tried as any other.
                    if let Some((first_local, first_remote)) = self.first
                        && self.initiator
                        && first_local == ip
                    {
                        self.create(at, first_remote);
                    }
                }
                self.announce();
                self.use_endpoints();
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
                    && self.first.is_some()
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
mod tests;
