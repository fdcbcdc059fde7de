//! One change of the host: how it is made, how it is seen, and how it is undone.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::host::{Host, Rule};
use super::system::Action;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// An interface is brought up.
    Up {
        /// Which.
        device: String,
    },
    /// The TUN device is made.
    Device {
        /// Its name.
        device: String,
        /// The user id that may open it.
        owner: Option<u32>,
    },
    /// Its MTU and its queue are set, and it makes no link-local address of its own.
    Configure {
        /// Which.
        device: String,
        /// In bytes.
        mtu: u32,
    },
    /// It gets an address.
    Address {
        /// Which.
        device: String,
        /// The kernel's address and the prefix.
        address: IpNet,
    },
    /// A table of nftables is made.
    Nft {
        /// Its name; its family is `inet`.
        table: String,
        /// What is in it.
        chains: String,
    },
    /// A route is added.
    Route {
        /// To where; none is the default.
        dst: Option<IpNet>,
        /// Of which family.
        ipv6: bool,
        /// Through which interface; none says that there is no way.
        dev: Option<String>,
        /// Through whom.
        gateway: Option<IpAddr>,
        /// The gateway is taken for reachable.
        onlink: bool,
        /// In which table.
        table: u32,
    },
    /// A policy rule is added.
    Rule {
        /// What comes from here
        from: IpAddr,
        /// is asked of this table.
        table: u32,
        /// The place of the rule.
        priority: u32,
    },
    /// A switch is set.
    Sysctl {
        /// Its path below `/proc/sys`.
        key: String,
        /// What it is set to.
        value: String,
        /// The interface that it belongs to.
        interface: Option<String>,
    },
}

/// What no other route of a table is below: the last resort.
const LAST_METRIC: u32 = u32::MAX;
/// A queue that outlasts a pause of this process; with the usual 500 packets a stall of 10 ms at some
/// 500 Mbit/s loses packets that nobody counts.
const QUEUE_PACKETS: u32 = 10_000;

impl Step {
    /// What makes the change.
    pub fn action(&self) -> Action {
        match self {
            Step::Up { device } => Action::run(&format!("ip link set dev {device} up")),
            Step::Device { device, owner } => {
                let owner = owner.map_or(String::new(), |uid| format!(" user {uid}"));
                Action::run(&format!("ip tuntap add dev {device} mode tun{owner}"))
            }
            // RFC 4862's address would bring router solicitations that only disturb.
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

    /// What undoes it; none for what goes with the device. `before` is the value that a switch had.
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

    /// Whether the host is as the change would make it.
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

    /// What the kernel calls the thing now, so that another one of the same name is not taken for it: the
    /// number of a device, the handle of a table.
    pub fn identity(&self, host: &Host) -> Option<u64> {
        match self {
            Step::Device { device, .. } => host.link(device).map(|link| u64::from(link.ifindex)),
            Step::Nft { table, .. } => host.nft_table(table).map(|table| table.handle),
            Step::Sysctl { interface: Some(name), .. } => host.link(name).map(|link| u64::from(link.ifindex)),
            _ => None,
        }
    }

    /// In a few words.
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
