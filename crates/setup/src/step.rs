//! One change of the host: its command, its detection, and its reversal.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::host::{Host, Rule};
use super::system::Action;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// Brings up an interface.
    Up {
        /// The name of the interface.
        device: String,
    },
    /// Makes the TUN device.
    Device {
        /// The name of the device, which no other interface may have.
        device: String,
        /// The user id that may open it.
        owner: Option<u32>,
    },
    /// Sets the MTU and the queue of a device, and disables its link-local address.
    Configure {
        /// The name of the TUN device.
        device: String,
        /// Its MTU in bytes.
        mtu: u32,
    },
    /// Adds an address.
    Address {
        /// The name of the device that gets the address.
        device: String,
        /// The kernel's address with its prefix.
        address: IpNet,
    },
    /// Makes an nftables table.
    Nft {
        /// Its name; its family is `inet`.
        table: String,
        /// Its content.
        chains: String,
    },
    /// Adds a route.
    Route {
        /// The destination; none for the default route.
        dst: Option<IpNet>,
        /// True for IPv6.
        ipv6: bool,
        /// The outgoing interface; none makes the destination unreachable.
        dev: Option<String>,
        /// The next hop; none if the destination is on the link.
        gateway: Option<IpAddr>,
        /// True if the gateway counts as reachable without a route to it.
        onlink: bool,
        /// The routing table that gets the route.
        table: u32,
    },
    /// Adds a policy rule.
    Rule {
        /// The source address.
        from: IpAddr,
        /// The table to look up.
        table: u32,
        /// The priority of the rule.
        priority: u32,
    },
    /// Writes a sysctl, and records its previous value.
    Sysctl {
        /// Its path below `/proc/sys`.
        key: String,
        /// The value to write, as text.
        value: String,
        /// The interface that it belongs to.
        interface: Option<String>,
    },
}

/// The largest metric, which makes a route the last resort.
const LAST_METRIC: u32 = u32::MAX;
/// A queue that outlasts a pause of this process; with the usual 500 packets, a stall of 10 ms at about 500
/// Mbit/s causes losses that are not counted anywhere.
const QUEUE_PACKETS: u32 = 10_000;

impl Step {
    /// Returns the action that makes the change.
    pub fn action(&self) -> Action {
        match self {
            Step::Up { device } => Action::run(&format!("ip link set dev {device} up")),
            Step::Device { device, owner } => {
                let owner = owner.map_or(String::new(), |uid| format!(" user {uid}"));
                // A queue for each thread of a proxy; a process with one thread opens one.
                Action::run(&format!("ip tuntap add dev {device} mode tun multi_queue{owner}"))
            }
            // A link-local address (RFC 4862) would cause useless router solicitations.
            Step::Configure { device, mtu } => Action::run(&format!(
                "ip link set dev {device} mtu {mtu} txqueuelen {QUEUE_PACKETS} addrgenmode none"
            )),
            Step::Address { device, address } => {
                let ipv6 = address.max_prefix_len() == 128;
                Action::run(&format!(
                    "ip {} addr add {address} dev {device}{}",
                    family(ipv6),
                    if ipv6 { " nodad" } else { "" }
                ))
            }
            Step::Nft { table, chains } => Action::Run {
                argv: ["nft", "-f", "-"].map(str::to_owned).to_vec(),
                stdin: Some(format!("table inet {table} {{\n{chains}}}\n")),
            },
            Step::Route { .. } => Action::run(&self.route("add")),
            Step::Rule { .. } => Action::run(&self.rule("add")),
            Step::Sysctl { key, value, .. } => Action::Sysctl { key: key.clone(), value: value.clone() },
        }
    }

    /// Returns the action that undoes the change; none if the change disappears with the device. `before` is
    /// the previous value of a sysctl.
    pub fn undo(&self, before: Option<&str>) -> Option<Action> {
        match self {
            Step::Up { .. } | Step::Configure { .. } | Step::Address { .. } => None,
            Step::Device { device, .. } => Some(Action::run(&format!("ip link del dev {device}"))),
            Step::Nft { table, .. } => Some(Action::run(&format!("nft delete table inet {table}"))),
            Step::Route { .. } => Some(Action::run(&self.route("del"))),
            Step::Rule { .. } => Some(Action::run(&self.rule("del"))),
            Step::Sysctl { key, .. } => {
                before.map(|value| Action::Sysctl { key: key.clone(), value: value.to_owned() })
            }
        }
    }

    /// True if the host has the change.
    pub fn present(&self, host: &Host) -> bool {
        match self {
            Step::Up { device } => host.link(device).is_some_and(|link| link.is("UP")),
            Step::Device { device, .. } => host.link(device).is_some(),
            Step::Configure { device, mtu } => host.link(device).is_some_and(|link| link.mtu == *mtu),
            Step::Address { device, address } => {
                let same = |own: &super::host::Address| {
                    own.local == Some(address.addr()) && own.prefixlen == address.prefix_len()
                };
                host.link(device).is_some_and(|link| link.addr_info.iter().any(same))
            }
            Step::Nft { table, .. } => host.nft_table(table).is_some(),
            Step::Route { dst, ipv6, dev, gateway, table, .. } => host.routes.iter().any(|route| {
                let way = match dev {
                    Some(dev) => route.kind == "unicast" && route.dev == *dev && route.gateway == *gateway,
                    None => route.kind == "unreachable",
                };
                way && route.dst == *dst && route.ipv6 == *ipv6 && route.table == *table
            }),
            Step::Rule { from, table, priority } => host.rules.iter().any(|rule: &Rule| {
                let source = rule.src == Some(IpNet::from(*from));
                source && rule.table == *table && rule.priority == *priority && !rule.conditions
            }),
            Step::Sysctl { key, value, .. } => host.sysctl_is(key, value),
        }
    }

    /// Returns the kernel's identifier of the object, which distinguishes it from another one of the same
    /// name: the index of a device, the handle of a table.
    pub fn identity(&self, host: &Host) -> Option<u64> {
        match self {
            Step::Device { device, .. } => host.link(device).map(|link| u64::from(link.ifindex)),
            Step::Nft { table, .. } => host.nft_table(table).map(|table| table.handle),
            Step::Sysctl { interface: Some(name), .. } => host.link(name).map(|link| u64::from(link.ifindex)),
            _ => None,
        }
    }

    /// Describes the change in a few words.
    pub fn name(&self) -> String {
        match self {
            Step::Up { device } => format!("{device} up"),
            Step::Device { device, .. } => format!("device {device}"),
            Step::Configure { device, mtu } => format!("MTU {mtu} of {device}"),
            Step::Address { device, address } => format!("address {address} of {device}"),
            Step::Nft { table, .. } => format!("nftables table {table}"),
            Step::Route { dst, dev, ipv6, table, .. } => format!(
                "{}route {} {} in table {table}",
                if *ipv6 { "IPv6 " } else { "" },
                dst.map_or("default".to_owned(), |dst| dst.to_string()),
                dev.as_ref().map_or("unreachable".to_owned(), |dev| format!("through {dev}")),
            ),
            Step::Rule { from, table, .. } => format!("rule from {from} to table {table}"),
            Step::Sysctl { key, value, .. } => format!("{} = {value}", key.replace('/', ".")),
        }
    }

    fn route(&self, verb: &str) -> String {
        let Step::Route { dst, ipv6, dev, gateway, onlink, table } = self else { return String::new() };
        let dst = dst.map_or("default".to_owned(), |dst| dst.to_string());
        let way = match dev {
            None => {
                return format!(
                    "ip {} route {verb} unreachable {dst} metric {LAST_METRIC} table {table}",
                    family(*ipv6)
                );
            }
            Some(dev) => match gateway {
                Some(gateway) if gateway.is_ipv6() == *ipv6 => format!("via {gateway} dev {dev}"),
                // RFC 5549: IPv4 through an IPv6 gateway.
                Some(gateway) => format!("via inet6 {gateway} dev {dev}"),
                None => format!("dev {dev}"),
            },
        };
        let onlink = if *onlink { " onlink" } else { "" };
        format!("ip {} route {verb} {dst} {way}{onlink} table {table}", family(*ipv6))
    }

    fn rule(&self, verb: &str) -> String {
        let Step::Rule { from, table, priority } = self else { return String::new() };
        format!("ip {} rule {verb} priority {priority} from {from} lookup {table}", family(from.is_ipv6()))
    }
}

fn family(ipv6: bool) -> &'static str {
    if ipv6 { "-6" } else { "-4" }
}
