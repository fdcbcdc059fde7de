//! What is judged, and how. Fails is what stops `anabranch serve` and `anabranch get`; all else that is not as
//! it could be is a warning.

use super::probe::{Probe, ProbeOutcome};
use super::{Check, Facts, Level, TunFile};
use crate::setup::{Host, Link, RULE_PRIORITY, install};

pub(super) fn all(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![tun_device(facts), capability(facts)];
    checks.extend(programs(facts));
    checks.extend(interfaces(facts));
    checks.push(setup(facts));
    checks.push(open_files(facts));
    checks.push(kernel(facts));
    checks.extend(mptcp(facts));
    checks.push(buffers(facts));
    checks.extend(facts.probe.as_ref().map(probe));
    checks
}

fn check(id: &'static str, level: Level, what: impl Into<String>, remedy: Option<&str>) -> Check {
    Check { id, level, what: what.into(), remedy: remedy.map(str::to_owned) }
}

fn ok(id: &'static str, what: impl Into<String>) -> Check {
    check(id, Level::Ok, what, None)
}

fn warn(id: &'static str, what: impl Into<String>, remedy: &str) -> Check {
    check(id, Level::Warn, what, Some(remedy))
}

fn fail(id: &'static str, what: impl Into<String>, remedy: &str) -> Check {
    check(id, Level::Fail, what, Some(remedy))
}

fn tun_device(facts: &Facts) -> Check {
    let id = "tun";
    match &facts.tun {
        TunFile::Opens { offload: true } => {
            ok(id, "/dev/net/tun opens, and can offload checksums and segmentation")
        }
        TunFile::Opens { offload: false } => warn(
            id,
            "/dev/net/tun opens, and cannot offload (no IFF_VNET_HDR): transfers cost several times the CPU",
            "a newer kernel; with this one --no-offload",
        ),
        TunFile::Missing => fail(
            id,
            "/dev/net/tun is not there: anabranch has no way to send packets",
            "sudo modprobe tun; in a container: --device /dev/net/tun",
        ),
        TunFile::Denied => fail(
            id,
            "/dev/net/tun may not be opened by this user",
            "sudo chmod 0666 /dev/net/tun (as most systems have it; it gives no rights by itself), or use sudo",
        ),
        TunFile::Broken(error) => fail(
            id,
            format!("/dev/net/tun is there and does not open: {error}"),
            "sudo modprobe tun; a kernel without CONFIG_TUN needs another kernel",
        ),
    }
}

fn capability(facts: &Facts) -> Check {
    let id = "capability";
    match facts.capabilities {
        Some(own) if own.enough() => {
            ok(id, "CAP_NET_ADMIN is there: anabranch tun setup can be run from here")
        }
        Some(own) if own.net_admin => warn(
            id,
            "CAP_NET_ADMIN is there, but programs run from here do not inherit it, so anabranch tun setup cannot be",
            "use sudo, or AmbientCapabilities=CAP_NET_ADMIN of systemd",
        ),
        Some(_) => warn(
            id,
            "no CAP_NET_ADMIN: anabranch tun setup and a look at nftables need it; serving and fetching over a \
             device that was set up with --user do not",
            "run anabranch doctor and anabranch tun setup with sudo",
        ),
        None => warn(id, "/proc/thread-self/status does not tell what this process may do", "mount /proc"),
    }
}

fn programs(facts: &Facts) -> Vec<Check> {
    let known =
        |name: &str| facts.programs.iter().find(|(own, _)| *own == name).and_then(|(_, text)| text.as_ref());
    let one = |id, name: &str, what: &str| match known(name) {
        Some(version) => ok(id, version.lines().next().unwrap_or_default()),
        None => warn(id, format!("there is no `{name}`: {what}"), &install(name)),
    };
    vec![
        one("iproute2", "ip", "anabranch tun setup and most of these checks cannot do without"),
        one("nftables", "nft", "anabranch tun setup cannot translate addresses"),
    ]
}

/// Interfaces that could carry a path.
fn candidates(host: &Host) -> Vec<&Link> {
    let fit = |link: &&Link| {
        let addressed = [false, true].iter().any(|ipv6| link.global(*ipv6).next().is_some());
        let own = host.nft_table(&crate::setup::table_name(&link.ifname)).is_some()
            || link.linkinfo.info_kind == "tun";
        !link.is("LOOPBACK") && link.is("UP") && link.operstate != "DOWN" && addressed && !own
    };
    host.links.iter().filter(fit).collect()
}

fn interfaces(facts: &Facts) -> Vec<Check> {
    let host = match &facts.host {
        Ok(host) => host,
        Err(error) => return vec![fail("interfaces", format!("cannot be read: {error}"), &install("ip"))],
    };
    let links = candidates(host);
    vec![
        addresses(&links),
        default_routes(host, &links),
        source_routes(facts, host),
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
            "connect a second one",
        ),
        _ => ok(id, format!("up with an address: {}", names.join(", "))),
    }
}

fn default_routes(host: &Host, links: &[&Link]) -> Check {
    let id = "routes";
    if links.is_empty() {
        return warn(id, "there is no interface that could have a default route", "connect one first");
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
        return ok(id, format!("a default route each: {}", names(&with)));
    }
    warn(
        id,
        format!("no default route through {}: a path there reaches its own networks only", names(&without)),
        "let DHCP give one, with a metric: ip route add default via GATEWAY dev IFACE metric 200; or name the gateway: \
         anabranch tun setup --path IFACE,via=GATEWAY",
    )
}

/// Which concerns the kernel's own Multipath TCP: anabranch's addresses have rules of their own.
fn source_routes(facts: &Facts, host: &Host) -> Check {
    let id = "source-routes";
    let tuns = |name: &str| host.link(name).is_some_and(|link| link.linkinfo.info_kind == "tun");
    let astray: Vec<_> = facts
        .sources
        .iter()
        .filter(|source| !tuns(&source.interface) && source.leaves_by.as_ref() != Some(&source.interface))
        .collect();
    let Some(first) = astray.first() else {
        return ok(id, "what the kernel sends from an interface's address leaves by that interface");
    };
    let list: Vec<String> = astray
        .iter()
        .map(|source| match &source.leaves_by {
            Some(other) => format!("{} of {} leaves by {other}", source.address, source.interface),
            None => format!("{} of {} has no way out", source.address, source.interface),
        })
        .collect();
    let strict = astray.iter().any(|source| strict(host, &source.interface));
    let strict =
        if strict { ", and strict reverse path filters drop what comes back the other way" } else { "" };
    let family = if first.address.is_ipv6() { "-6" } else { "-4" };
    warn(
        id,
        format!(
            "{}{strict}; this hinders the kernel's own Multipath TCP, and not anabranch's, whose addresses get rules of \
             their own",
            list.join(", ")
        ),
        &format!(
            "ip {family} route add default via GATEWAY dev {0} table 100; ip {family} rule add from {1} lookup 100",
            first.interface, first.address
        ),
    )
}

/// Linux' ip-sysctl: the higher of the interface's and of all's counts; 1 is strict.
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
            format!("off where paths need it: {}", closed.join(", ")),
            "run anabranch tun setup again with the same options; it makes what is missing",
        );
    }
    ok(
        id,
        if some {
            "on where the paths need it"
        } else {
            "nothing needs it yet; anabranch tun setup switches it on"
        },
    )
}

/// A packet that any chain drops is dropped, whatever ours say.
fn firewall(facts: &Facts, host: &Host) -> Check {
    let id = "firewall";
    if host.nft_tables.is_none() {
        let known = facts.capabilities.is_some_and(|own| own.net_admin);
        return warn(
            id,
            "nftables cannot be asked whether a firewall stops forwarded packets",
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
            "{} drops forwarded packets by policy, unless a rule of it lets anabranch's through",
            dropping.join(", ")
        ),
        "let the device through there: nft insert rule CHAIN iifname anabranch0 accept, and oifname likewise; with Docker: \
         iptables -I DOCKER-USER -i anabranch0 -j ACCEPT, and -o likewise",
    )
}

fn offload(facts: &Facts, links: &[&Link]) -> Check {
    let id = "offload";
    let Some(features) = &facts.features else {
        return warn(
            id,
            "without ethtool it cannot be told what the interfaces compute; a capture on this host may then show \
             checksums as wrong that are right on the wire",
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
                "{} merges received segments (LRO), options and all: what is forwarded to anabranch may have lost \
                 mappings. The kernel switches it off where an interface forwards",
                merged.join(", ")
            ),
            &format!("ethtool -K {} lro off", merged[0]),
        );
    }
    let sums = with("tx-checksumming");
    if sums.is_empty() {
        return ok(id, "the kernel computes the checksums of what leaves");
    }
    ok(
        id,
        format!(
            "{} compute the checksums of what leaves: a capture there shows them as wrong, and they are right on the \
             wire; to and from the TUN device they are complete unless it offloads too",
            sums.join(", ")
        ),
    )
}

fn setup(facts: &Facts) -> Check {
    let id = "setup";
    let shown = match &facts.setups {
        Ok(shown) => shown,
        Err(error) => return warn(id, error.clone(), "see docs/setup.md on undoing it by hand"),
    };
    let stray = facts.host.iter().flat_map(|host| &host.rules).any(|rule| rule.priority == RULE_PRIORITY);
    let current: Vec<_> = shown.iter().filter(|shown| !shown.before_reboot).collect();
    let broken: Vec<&str> = current
        .iter()
        .filter(|shown| shown.whole == Some(false))
        .map(|shown| shown.layout.device.as_str())
        .collect();
    if !broken.is_empty() {
        return fail(
            id,
            format!("{} is set up, and parts are missing; anabranch tun show names them", broken.join(", ")),
            "run anabranch tun setup again with the same options; it makes what is missing",
        );
    }
    if current.is_empty() && stray {
        return warn(
            id,
            format!("there are rules of priority {RULE_PRIORITY}, and no setup is known that made them"),
            "if they are of a setup whose state was lost, remove them by hand: docs/setup.md",
        );
    }
    if current.is_empty() {
        return ok(id, "nothing is set up yet: anabranch tun setup --path IFACE --path IFACE");
    }
    let name = |shown: &&crate::setup::Shown| {
        format!("{} with {} paths", shown.layout.device, shown.layout.paths.len())
    };
    ok(id, current.iter().map(name).collect::<Vec<_>>().join(", "))
}

/// Enough for a few hundred files served at once; a connection itself needs none.
const OPEN_FILES: u64 = 1024;

fn open_files(facts: &Facts) -> Check {
    let id = "open-files";
    match facts.open_files {
        Some(limit) if limit < OPEN_FILES => warn(
            id,
            format!("{limit} files may be open at once, and anabranch serve opens one for each request"),
            &format!("ulimit -n {OPEN_FILES}; for a service LimitNOFILE={OPEN_FILES}"),
        ),
        Some(limit) => ok(id, format!("{limit} may be open at once; connections over TUN need none")),
        None => ok(id, "without limit"),
    }
}

/// The two numbers of a release such as `6.1.0-13-amd64`.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn kernel(facts: &Facts) -> Check {
    let id = "kernel";
    let text = format!("Linux {}", facts.kernel);
    match release(&facts.kernel) {
        Some(version) if version >= (5, 15) => ok(id, text),
        Some(version) if version >= (5, 6) => warn(
            id,
            format!(
                "{text}: its own Multipath TCP is young (announced addresses, full mesh and fallbacks grew until 5.15)"
            ),
            "a newer kernel, if the kernel is to be the peer; anabranch's own endpoint does not mind",
        ),
        _ => warn(
            id,
            format!("{text} has no Multipath TCP of its own (it came with 5.6)"),
            "a newer kernel, if the kernel is to be the peer; anabranch's own endpoint does not mind",
        ),
    }
}

/// The kernel as a peer. Anabranch's endpoint needs none of it.
fn mptcp(facts: &Facts) -> Vec<Check> {
    let value = |name: &str| facts.sysctls.get(&format!("net/mptcp/{name}")).map(String::as_str);
    let enabled = match value("enabled") {
        None => {
            return vec![warn(
                "mptcp",
                "this kernel has no Multipath TCP (net.mptcp is not there): it cannot be the peer; anabranch's own \
                 endpoint does not mind",
                "a kernel with CONFIG_MPTCP",
            )];
        }
        Some("1") => ok("mptcp", "the kernel's own is on"),
        Some(_) => warn(
            "mptcp",
            "the kernel's own is off: its programs speak plain TCP, also with mptcpize",
            "sysctl -w net.mptcp.enabled=1",
        ),
    };
    let checksum = match value("checksum_enabled") {
        Some("1") => {
            ok("mptcp-checksum", "the kernel asks for DSS checksums; anabranch then computes them too")
        }
        _ => {
            ok("mptcp-checksum", "the kernel does not ask for DSS checksums; they are used if the peer asks")
        }
    };
    let join = match value("allow_join_initial_addr_port") {
        Some("0") => warn(
            "mptcp-join",
            "the kernel tells peers not to join to the address that they have connected to (flag C)",
            "sysctl -w net.mptcp.allow_join_initial_addr_port=1, or announce other addresses: ip mptcp endpoint add \
             ADDRESS dev IFACE signal",
        ),
        _ => ok("mptcp-join", "peers may join to the address that they have connected to"),
    };
    let userspace = value("path_manager").map_or(value("pm_type") == Some("1"), |name| name == "userspace");
    let manager = if userspace {
        warn(
            "mptcp-path-manager",
            "a program in user space is to make subflows (pm_type=1); without one every connection keeps its first",
            "run mptcpd, or: sysctl -w net.mptcp.pm_type=0",
        )
    } else {
        ok("mptcp-path-manager", "the kernel's own makes subflows")
    };
    let limits = match facts.mptcp_limits {
        None => warn("mptcp-limits", "`ip mptcp limits` says nothing", &install("ip")),
        Some((accepted, subflows)) if accepted == 0 || subflows == 0 => warn(
            "mptcp-limits",
            format!(
                "the kernel makes {subflows} more subflows, and joins to {accepted} of the addresses that a peer announces: \
                 as a client it stays on one path"
            ),
            "ip mptcp limits set subflow 4 add_addr_accepted 4",
        ),
        Some((accepted, subflows)) => {
            ok("mptcp-limits", format!("{subflows} more subflows, {accepted} announced addresses accepted"))
        }
    };
    let scheduler = value("scheduler").unwrap_or("default");
    let there = value("available_schedulers").unwrap_or(scheduler);
    let scheduler = ok("mptcp-scheduler", format!("the kernel uses `{scheduler}`, of: {there}"));
    vec![enabled, checksum, join, manager, limits, scheduler]
}

/// Linux' default for `tcp_wmem`, which fills 335 Mbit/s at a round trip of 100 ms.
const BUFFER: u64 = 4 << 20;

/// The kernel as a peer: its windows bound what goes over a path.
fn buffers(facts: &Facts) -> Check {
    let id = "buffers";
    let most = |key: &str| -> Option<u64> {
        facts.sysctls.get(&format!("net/ipv4/{key}"))?.split_whitespace().nth(2)?.parse().ok()
    };
    let (Some(receive), Some(send)) = (most("tcp_rmem"), most("tcp_wmem")) else {
        return warn(id, "net.ipv4.tcp_rmem and tcp_wmem cannot be read", "mount /proc");
    };
    let smaller = receive.min(send);
    // In bit/s over 100 ms.
    let text = format!(
        "the kernel's sockets grow to {receive} bytes received and {send} sent: at most {} Mbit/s over a round trip of \
         100 ms",
        smaller * 80 / 1_000_000
    );
    if smaller >= BUFFER {
        return ok(id, text);
    }
    warn(id, text, "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456' net.ipv4.tcp_wmem='4096 16384 4194304'")
}

fn probe(probe: &Probe) -> Check {
    let id = "option-30";
    let target = match probe.address {
        Some(address) => format!("{} ({address})", probe.target),
        None => probe.target.clone(),
    };
    let rose = |name: &str| probe.counters.contains_key(name);
    let elsewhere = "try a host that is known to speak Multipath TCP, and this host from another network; only a capture at \
                     the far end can tell";
    match &probe.outcome {
        ProbeOutcome::NoMptcp(error) => warn(
            id,
            format!("cannot be tried: the kernel gives no Multipath TCP socket ({error})"),
            "sysctl -w net.mptcp.enabled=1, and a kernel with CONFIG_MPTCP",
        ),
        ProbeOutcome::NoName(error) => {
            warn(id, format!("cannot be tried: {error}"), "give another HOST:PORT")
        }
        ProbeOutcome::NoConnection(error) => warn(
            id,
            format!(
                "cannot be told: {target} did not answer ({error}). A way that drops SYNs with option 30 looks the same, \
                 though the kernel tries without after a few"
            ),
            "see whether plain TCP answers (curl -I), and give another HOST:PORT",
        ),
        ProbeOutcome::Multipath { data: true } => ok(
            id,
            format!(
                "comes through to {target} and back, in the handshake and with data. This tells of the way that the kernel \
                 took, and not of the other interfaces"
            ),
        ),
        ProbeOutcome::Multipath { data: false } => ok(
            id,
            format!(
                "comes through to {target} and back in the handshake; with data it was not tried (that is done on the ports \
                 80, 8000 and 8080). This tells of the way that the kernel took, and not of the other interfaces"
            ),
        ),
        ProbeOutcome::FellBackLater => warn(
            id,
            format!(
                "comes through to {target} in the handshake and not with data: something on the way strips it there"
            ),
            "use another path for this peer, or a tunnel; the stream itself is whole, over one path",
        ),
        ProbeOutcome::FellBack if rose("MPCapableSYNTXDisabled") => warn(
            id,
            format!(
                "was not sent to {target}: the kernel leaves it out for a while (net.mptcp.blackhole_timeout), since SYNs \
                 with it were dropped before"
            ),
            "sysctl -w net.mptcp.blackhole_timeout=0 and try again",
        ),
        ProbeOutcome::FellBack if rose("MPCapableSYNTXDrop") => warn(
            id,
            format!(
                "SYNs with it to {target} had no answer, and one without had: something on the way drops them"
            ),
            "use another path for this peer, or a tunnel",
        ),
        ProbeOutcome::FellBack => warn(
            id,
            format!(
                "{target} answered without it. Either it does not speak Multipath TCP, or something on the way strips the \
                 option, from the SYN or from the answer; from one end these look the same"
            ),
            elsewhere,
        ),
        ProbeOutcome::Unknown(error) => {
            warn(id, format!("cannot be told: connected to {target}, and then: {error}"), &install("ss"))
        }
    }
}
