//! Checks of interfaces, addresses, routes and filters.

use super::{fail, ok, warn};
use crate::doctor::{Check, Facts, Source};
use crate::{Host, Link, install};

/// Returns the interfaces that could carry a path.
fn candidates(host: &Host) -> Vec<&Link> {
    let fit = |link: &&Link| {
        let addressed = [false, true].iter().any(|ipv6| link.global(*ipv6).next().is_some());
        let own =
            host.nft_table(&crate::table_name(&link.ifname)).is_some() || link.linkinfo.info_kind == "tun";
        !link.is("LOOPBACK") && link.is("UP") && link.operstate != "DOWN" && addressed && !own
    };
    host.links.iter().filter(fit).collect()
}

pub(super) fn interfaces(facts: &Facts) -> Vec<Check> {
    let host = match &facts.host {
        Ok(host) => host,
        Err(error) => return vec![fail("interfaces", format!("cannot be read: {error}"), &install("ip"))],
    };
    let links = candidates(host);
    vec![
        addresses(&links),
        default_routes(host, &links),
        source_routes(facts, host),
        reverse_path(facts, host),
        forwarding(facts, host),
        firewall(facts, host),
        offload(facts, &links),
    ]
}

fn addresses(links: &[&Link]) -> Check {
    let id = "interfaces";
    let names: Vec<String> = links
        .iter()
        .map(|link| {
            let addresses = [false, true].iter().filter_map(|ipv6| link.global(*ipv6).next());
            let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
            format!("{} ({}, MTU {})", link.ifname, addresses.join(", "), link.mtu)
        })
        .collect();
    match names.len() {
        0 => fail(
            id,
            "no interface is up with an address",
            "connect one: a cable, WiFi, LTE; ip -br addr shows them",
        ),
        1 => warn(
            id,
            format!("{} alone is up with an address: one path is no multipath", names[0]),
            "connect another one",
        ),
        _ => ok(id, format!("up with an address: {}", names.join(", "))),
    }
}

fn default_routes(host: &Host, links: &[&Link]) -> Check {
    let id = "routes";
    if links.is_empty() {
        return warn(id, "no interface could have a default route", "connect one first");
    }
    let has = |link: &&&Link| {
        host.routes
            .iter()
            .any(|route| route.dst.is_none() && route.dev == link.ifname && route.kind == "unicast")
    };
    let (with, without): (Vec<&&Link>, Vec<&&Link>) = links.iter().partition(has);
    let names =
        |links: &[&&Link]| links.iter().map(|link| link.ifname.clone()).collect::<Vec<_>>().join(", ");
    if without.is_empty() && !with.is_empty() {
        return ok(id, format!("default routes: {}", names(&with)));
    }
    warn(
        id,
        format!("no default route through {}: a path there reaches only its own networks", names(&without)),
        "obtain one by DHCP, with a metric: ip route add default via GATEWAY dev IFACE metric 200; or name \
         the gateway: anabranch tun setup --path IFACE,via=GATEWAY",
    )
}

/// Checks source routes for the kernel's own Multipath TCP: anabranch's addresses have their own rules.
fn source_routes(facts: &Facts, host: &Host) -> Check {
    let id = "source-routes";
    let astray: Vec<&Source> =
        sources(facts, host).filter(|source| source.leaves_by.as_ref() != Some(&source.interface)).collect();
    let Some(first) = astray.first() else {
        return ok(id, "packets that the kernel sends from an interface's address leave by that interface");
    };
    let list: Vec<String> = astray
        .iter()
        .map(|source| match &source.leaves_by {
            Some(other) => format!("{} of {} leaves by {other}", source.address, source.interface),
            None => format!("{} of {} has no route", source.address, source.interface),
        })
        .collect();
    warn(
        id,
        format!(
            "{}; this affects the kernel's own Multipath TCP, not anabranch's, whose addresses get their own \
             rules",
            list.join(", ")
        ),
        &own_route(first),
    )
}

/// Returns the addresses of interfaces other than TUN devices: routes of a TUN device belong to the program
/// that owns it.
fn sources<'a>(facts: &'a Facts, host: &'a Host) -> impl Iterator<Item = &'a Source> {
    let tuns = |name: &str| host.link(name).is_some_and(|link| link.linkinfo.info_kind == "tun");
    facts.sources.iter().filter(move |source| !tuns(&source.interface))
}

/// Returns the commands that give an address its own route.
fn own_route(source: &Source) -> String {
    let family = if source.address.is_ipv6() { "-6" } else { "-4" };
    format!(
        "ip {family} route add default via GATEWAY dev {0} table 100; ip {family} rule add from {1} lookup 100",
        source.interface, source.address
    )
}

/// Checks reverse path filters: a strict filter drops packets that arrive by an interface other than the one
/// that an answer would take.
fn reverse_path(facts: &Facts, host: &Host) -> Check {
    let id = "rp-filter";
    let strict: Vec<&Source> = sources(facts, host)
        .filter(|source| source.address.is_ipv4() && strict(host, &source.interface))
        .collect();
    let dropped: Vec<&&Source> = strict.iter().filter(|source| !source.enters).collect();
    let Some(first) = dropped.first() else {
        return ok(
            id,
            if strict.is_empty() {
                "no reverse path filter is strict"
            } else {
                "strict, and each interface has a route back to the sources of its packets"
            },
        );
    };
    let list: Vec<String> =
        dropped.iter().map(|source| format!("{} of {}", source.address, source.interface)).collect();
    warn(
        id,
        format!(
            "strict reverse path filters drop packets from distant hosts to {}, as their route back uses \
             another interface: the kernel's own Multipath TCP receives no answers there",
            list.join(", ")
        ),
        &format!("sysctl -w net.ipv4.conf.{}.rp_filter=2, or: {}", first.interface, own_route(first)),
    )
}

/// True if the filter of `interface` is strict: the higher value of the interface and of `all` counts, and 1
/// is strict (Linux' ip-sysctl).
fn strict(host: &Host, interface: &str) -> bool {
    let value = |name: &str| -> u32 {
        let key = format!("net/ipv4/conf/{name}/rp_filter");
        host.sysctls.get(&key).and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    value(interface).max(value("all")) == 1
}

fn forwarding(facts: &Facts, host: &Host) -> Check {
    let id = "forwarding";
    let layouts =
        facts.setups.iter().flatten().filter(|shown| !shown.before_reboot).map(|shown| &shown.layout);
    let mut closed = Vec::new();
    let mut some = false;
    for layout in layouts {
        some = true;
        let own = layout.paths.iter().map(|path| path.interface.as_str());
        for name in own.chain([layout.device.as_str()]) {
            let on = |key: &str| host.sysctl_is(&format!("net/{key}"), "1");
            let ipv4 = layout.kernel.iter().any(|net| net.max_prefix_len() == 32);
            let ipv6 = layout.kernel.iter().any(|net| net.max_prefix_len() == 128);
            let has = |ipv6: bool| {
                name == layout.device
                    || layout.paths.iter().any(|path| {
                        path.interface == name && path.legs.iter().any(|leg| leg.address.is_ipv6() == ipv6)
                    })
            };
            if ipv4 && has(false) && !on(&format!("ipv4/conf/{name}/forwarding")) {
                closed.push(format!("{name} (IPv4)"));
            }
            if ipv6
                && has(true)
                && !on("ipv6/conf/all/forwarding")
                && !on(&format!("ipv6/conf/{name}/force_forwarding"))
            {
                closed.push(format!("{name} (IPv6)"));
            }
        }
    }
    if !closed.is_empty() {
        return fail(
            id,
            format!("disabled, although paths need it: {}", closed.join(", ")),
            "repeat anabranch tun setup with the same options; it makes the missing parts",
        );
    }
    ok(
        id,
        if some { "enabled where paths need it" } else { "not needed yet; anabranch tun setup enables it" },
    )
}

/// Checks base chains: a packet that any chain drops is dropped, whatever anabranch's chains do.
fn firewall(facts: &Facts, host: &Host) -> Check {
    let id = "firewall";
    if host.nft_tables.is_none() {
        let known = facts.capabilities.is_some_and(|own| own.net_admin);
        return warn(
            id,
            "nftables cannot be queried, so it is unknown whether a firewall drops forwarded packets",
            if known {
                "install nftables, or a kernel with CONFIG_NF_TABLES"
            } else {
                "run anabranch doctor with sudo"
            },
        );
    }
    let dropping: Vec<String> = host
        .nft_chains
        .iter()
        .filter(|chain| chain.hook == "forward" && chain.policy == "drop")
        .map(|chain| format!("{} {} {}", chain.family, chain.table, chain.name))
        .collect();
    if dropping.is_empty() {
        return ok(id, "no chain of nftables drops forwarded packets by policy");
    }
    warn(
        id,
        format!(
            "{} drops forwarded packets by policy, unless one of its rules accepts anabranch's",
            dropping.join(", ")
        ),
        "accept the device's packets there: nft insert rule CHAIN iifname anabranch0 accept, and oifname \
         likewise; with Docker: iptables -I DOCKER-USER -i anabranch0 -j ACCEPT, and -o likewise",
    )
}

fn offload(facts: &Facts, links: &[&Link]) -> Check {
    let id = "offload";
    let Some(features) = &facts.features else {
        return warn(
            id,
            "without ethtool the checksum offload of the interfaces is unknown; a capture on this host may \
             show checksums as wrong that are correct on the wire",
            &install("ethtool"),
        );
    };
    let with = |feature: &str| -> Vec<&str> {
        let on = |link: &&&Link| {
            features.get(&link.ifname).and_then(|own| own.get(feature)).copied().unwrap_or(false)
        };
        links.iter().filter(on).map(|link| link.ifname.as_str()).collect()
    };
    let merged = with("large-receive-offload");
    if !merged.is_empty() {
        return warn(
            id,
            format!(
                "{} merges received segments (LRO), including their options: packets forwarded to anabranch \
                 may have lost mappings. The kernel disables it on interfaces that forward",
                merged.join(", ")
            ),
            &format!("ethtool -K {} lro off", merged[0]),
        );
    }
    let sums = with("tx-checksumming");
    if sums.is_empty() {
        return ok(id, "the kernel computes the checksums of sent packets");
    }
    ok(
        id,
        format!(
            "{} compute the checksums of sent packets: a capture there shows wrong ones that are correct on \
             the wire; to and from the TUN device they are complete unless it offloads too",
            sums.join(", ")
        ),
    )
}
