//! The addresses from which the kernel's own Multipath TCP joins and which it announces (`ip mptcp endpoint`).

use super::{ok, warn};
use crate::doctor::{Check, Facts, MptcpEndpoint};
use crate::{Host, Link, install};

pub(super) fn endpoints(facts: &Facts) -> Check {
    let id = "mptcp-endpoints";
    let Some(endpoints) = &facts.mptcp_endpoints else {
        return warn(id, "`ip mptcp endpoint` fails", &install("ip"));
    };
    if endpoints.is_empty() {
        return ok(
            id,
            "none: the kernel's client opens subflows to announced addresses, but from no additional address \
             of its own; for that: ip mptcp endpoint add ADDRESS dev IFACE subflow",
        );
    }
    let Ok(host) = &facts.host else {
        return ok(id, "there are some, but they cannot be checked without the interfaces");
    };
    let troubles: Vec<(String, String)> =
        endpoints.iter().filter_map(|endpoint| trouble(facts, host, endpoint)).collect();
    let Some((_, remedy)) = troubles.first() else {
        let names: Vec<String> = endpoints.iter().map(name).collect();
        return ok(id, format!("each on the interface of its address: {}", names.join(", ")));
    };
    let all: Vec<&str> = troubles.iter().map(|(what, _)| what.as_str()).collect();
    warn(id, all.join("; "), remedy)
}

/// Returns the problem with an endpoint and its remedy.
fn trouble(facts: &Facts, host: &Host, endpoint: &MptcpEndpoint) -> Option<(String, String)> {
    let (name, delete) = (name(endpoint), format!("ip mptcp endpoint delete id {}", endpoint.id));
    let again = |interface: &str| format!("{delete}; {}", command(endpoint, interface));
    let Some(owner) = owner(host, endpoint) else {
        // An announced address may be translated to one of this host by a gateway.
        return endpoint.subflow.then(|| (format!("{name}: no interface has this address"), delete.clone()));
    };
    let own = owner.ifname.as_str();
    if let Some(dev) = endpoint.dev.as_deref().filter(|dev| *dev != own) {
        let what =
            format!("{name}: {own} has the address, so packets would leave {dev} with a foreign source");
        return Some((what, again(own)));
    }
    if !owner.is("UP") {
        return Some((format!("{name}: {own} is down"), format!("ip link set {own} up")));
    }
    // A subflow that is bound to its interface is not affected by other interfaces' routes.
    let source = facts.sources.iter().find(|source| source.address == endpoint.address)?;
    if endpoint.dev.is_none() && source.leaves_by.as_deref() != Some(own) {
        let by = source.leaves_by.as_deref().map_or("by no interface".into(), |dev| format!("by {dev}"));
        return Some((format!("{name} has no dev, and packets for {own} leave {by}"), again(own)));
    }
    None
}

fn owner<'a>(host: &'a Host, endpoint: &MptcpEndpoint) -> Option<&'a Link> {
    host.links.iter().find(|link| link.addr_info.iter().any(|own| own.local == Some(endpoint.address)))
}

fn name(endpoint: &MptcpEndpoint) -> String {
    let dev = endpoint.dev.as_ref().map(|dev| format!(" dev {dev}")).unwrap_or_default();
    format!("{}{dev}", endpoint.address)
}

/// Returns the command that makes the endpoint at `interface`.
fn command(endpoint: &MptcpEndpoint, interface: &str) -> String {
    let flags = [
        (endpoint.subflow, " subflow"),
        (endpoint.signal, " signal"),
        (endpoint.backup, " backup"),
        (endpoint.fullmesh, " fullmesh"),
    ];
    let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect();
    format!("ip mptcp endpoint add {} dev {interface}{flags}", endpoint.address)
}
