//! The paths that a connection lacks, and those that are gone.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use anabranch_scenario::policy::{Treatment, Use};
use anabranch_units::Duration;
use ipnet::IpNet;

use super::choose::needs;
use super::decision::{Decision, Why};
use super::state::{Around, Opening, Tracked};
use crate::interfaces::Interfaces;
use crate::pm::Command;

/// The identifiers of local addresses, which stay the same for all connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identifiers(BTreeMap<IpAddr, u8>);

impl Identifiers {
    /// Returns the identifier of an address; none if all are in use. 0 is the initial subflow's address.
    pub(super) fn of(&mut self, address: IpAddr) -> Option<u8> {
        if let Some(id) = self.0.get(&address) {
            return Some(*id);
        }
        let id = (1..=u8::MAX).find(|id| self.0.values().all(|other| other != id))?;
        self.0.insert(address, id);
        Some(id)
    }

    /// Notes the identifier that the kernel has for an address, unless another address has it.
    pub(super) fn learn(&mut self, address: IpAddr, id: u8) {
        if id != 0 && self.0.values().all(|other| *other != id) {
            self.0.entry(address).or_insert(id);
        }
    }
}

/// The address of this host that a path uses.
struct Local {
    interface: String,
    index: u32,
    net: IpNet,
}

/// Returns the first address of each interface that is up and that the treatment allows, of the family of `like`.
fn locals(interfaces: &Interfaces, treatment: &Treatment, like: IpAddr) -> Vec<Local> {
    let usable = interfaces
        .0
        .values()
        .filter(|interface| interface.running && !interface.loopback && treatment.allows(&interface.name));
    let local = |interface: &crate::interfaces::Interface| {
        let net = interface.addresses.iter().find(|net| net.addr().is_ipv4() == like.is_ipv4())?;
        Some(Local { interface: interface.name.clone(), index: interface.index, net: *net })
    };
    usable.filter_map(local).collect()
}

/// Returns the address of the peer for a path from `net`: one that it has announced on the same network, else the
/// address of the initial subflow, or the first announced one if the peer does not accept that.
fn remote(tracked: &Tracked, net: &IpNet) -> Option<SocketAddr> {
    let initial = tracked.initial.remote;
    let with_port = |address: &SocketAddr| match address.port() {
        0 => SocketAddr::new(address.ip(), initial.port()),
        _ => *address,
    };
    let mut announced =
        tracked.announced.values().filter(|address| address.is_ipv4() == net.addr().is_ipv4());
    if let Some(near) = announced.clone().find(|address| net.contains(&address.ip())) {
        return Some(with_port(near));
    }
    if tracked.deny_join_id0 { announced.next().map(with_port) } else { Some(initial) }
}

/// Returns the commands that open the subflows that a client's connection lacks.
pub(super) fn open(
    Around { now, token, interfaces, treatment }: Around<'_>,
    tracked: &mut Tracked,
    identifiers: &mut Identifiers,
    expected: &dyn Fn(&str, IpAddr) -> Option<Duration>,
    decisions: &mut Vec<Decision>,
) {
    let may = tracked.established && tracked.client == Some(true) && !tracked.foreign;
    if !may || treatment.subflow_use == Use::Nothing {
        return;
    }
    for local in locals(interfaces, treatment, tracked.initial.remote.ip()) {
        let address = local.net.addr();
        // A subflow that is being opened and not observed yet.
        let is_pending = |(at, opening): &(&IpAddr, &Opening)| {
            opening.next > now && tracked.subflows.keys().all(|subflow| subflow.local.ip() != **at)
        };
        let pending = tracked.opening.iter().filter(is_pending).count();
        if tracked.subflows.len() + pending >= treatment.most_subflows {
            return;
        }
        let has_one = tracked.subflows.keys().any(|subflow| subflow.local.ip() == address);
        let before = tracked.opening.get(&address).copied();
        if has_one || before.is_some_and(|before| now < before.next) {
            continue;
        }
        let (Some(id), Some(remote)) = (identifiers.of(address), remote(tracked, &local.net)) else {
            continue;
        };
        tracked.opening.insert(address, Opening::after(before, now));
        let (backup, why) = match treatment.is_backup(&local.interface) {
            true => (true, Why::Policy),
            false if treatment.subflow_use == Use::All => (false, Why::Policy),
            false => match needs(tracked, interfaces, treatment, expected(&local.interface, remote.ip())) {
                Some(reason) => (false, Why::Needed(reason)),
                None => (true, Why::NotNeededYet),
            },
        };
        decisions.push(Decision {
            command: Command::Create { token, local: address, id, interface: local.index, backup, remote },
            interface: local.interface,
            why,
        });
    }
}

/// Returns the commands that close subflows without their address, and tell the peer, as long as the connection has
/// another subflow.
pub(super) fn close(
    Around { now, token, interfaces, .. }: Around<'_>,
    tracked: &mut Tracked,
    decisions: &mut Vec<Decision>,
) {
    let is_there = |ip: IpAddr| {
        interfaces.with_address(ip).is_some_and(|interface| interface.running || interface.loopback)
    };
    tracked.closing.retain(|subflow, _| !is_there(subflow.local.ip()));
    let alive = tracked.subflows.keys().filter(|subflow| is_there(subflow.local.ip())).count();
    if alive == 0 || tracked.foreign {
        return;
    }
    let gone: Vec<_> = tracked.subflows.iter().filter(|(subflow, _)| !is_there(subflow.local.ip())).collect();
    for (subflow, known) in gone {
        let before = tracked.closing.get(subflow).copied();
        if before.is_some_and(|before| now < before.next) {
            continue;
        }
        // The kernel forgets an address that it has withdrawn, and refuses to withdraw it again.
        let withdrawn = tracked.closing.keys().any(|other| other.local.ip() == subflow.local.ip());
        tracked.closing.insert(*subflow, Opening::after(before, now));
        let withdraw = (!withdrawn).then_some(Command::Remove { token, id: known.local_id });
        for command in withdraw.into_iter().chain([Command::Destroy { token, subflow: *subflow }]) {
            decisions.push(Decision { command, interface: "-".to_owned(), why: Why::Gone });
        }
    }
    tracked.subflows.retain(|subflow, _| is_there(subflow.local.ip()));
}

/// Returns the commands that announce a server's further addresses.
pub(super) fn announce(
    Around { token, interfaces, treatment, .. }: Around<'_>,
    tracked: &mut Tracked,
    identifiers: &mut Identifiers,
    decisions: &mut Vec<Decision>,
) {
    let may = tracked.established && tracked.client == Some(false) && !tracked.foreign;
    if !may || !treatment.announce || treatment.subflow_use == Use::Nothing {
        return;
    }
    for local in locals(interfaces, treatment, tracked.initial.local.ip()) {
        let address = local.net.addr();
        let is_known = address == tracked.initial.local.ip() || tracked.own_announced.contains_key(&address);
        let Some(id) = identifiers.of(address).filter(|_| !is_known) else { continue };
        tracked.own_announced.insert(address, id);
        decisions.push(Decision {
            command: Command::Announce { token, address, id },
            interface: local.interface,
            why: Why::Policy,
        });
    }
}
