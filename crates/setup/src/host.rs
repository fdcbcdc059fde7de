//! The state of a host's network: interfaces, routes, rules, tables and sysctls, read by `ip -json` and `nft
//! --json`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::system::{Action, System};

/// The number of the main routing table.
pub const MAIN_TABLE: u32 = 254;

/// An interface, as `ip -json -details address` shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Its index, which no other interface of this namespace ever has.
    pub ifindex: u32,
    /// The name, such as `eth0`, which may change.
    pub ifname: String,
    /// Flags such as `UP`, `LOOPBACK`, `POINTOPOINT`.
    pub flags: Vec<String>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The operational state: `UP`, `DOWN`, or `UNKNOWN` if the driver does not report it.
    pub operstate: String,
    /// The kind of virtual interface.
    pub linkinfo: LinkInfo,
    /// Its addresses.
    pub addr_info: Vec<Address>,
}

/// The kind of a virtual interface.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LinkInfo {
    /// `tun`, `veth` or another; empty for hardware.
    pub info_kind: String,
}

/// An address of an interface.
#[derive(Clone, Debug, Deserialize)]
pub struct Address {
    /// The address.
    pub local: Option<IpAddr>,
    /// The prefix length of its network.
    #[serde(default)]
    pub prefixlen: u8,
    /// The scope: `global`, `link` or `host`.
    #[serde(default)]
    pub scope: String,
    /// True if not yet, or no longer, usable for new connections.
    #[serde(default)]
    pub deprecated: bool,
    /// True while duplicate address detection runs.
    #[serde(default)]
    pub tentative: bool,
}

/// A route of any table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination; none for the default route.
    pub dst: Option<IpNet>,
    /// True for IPv6; a default route does not show its family.
    pub ipv6: bool,
    /// The type: `unicast`, `unreachable`, `local`, ...
    pub kind: String,
    /// The next hop; none if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// True if the gateway counts as reachable without a route of the interface to it.
    pub onlink: bool,
    /// The outgoing interface.
    pub dev: String,
    /// The number of the routing table; the main table is 254.
    pub table: u32,
    /// The metric; lower ones are preferred.
    pub metric: u32,
}

/// A policy rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// True for IPv6.
    pub ipv6: bool,
    /// The priority; rules are evaluated in ascending order.
    pub priority: u32,
    /// The source; none matches any.
    pub src: Option<IpNet>,
    /// The table to look up; 0 for other actions.
    pub table: u32,
    /// True if it has conditions besides the source, such as a mark.
    pub conditions: bool,
}

/// A table of nftables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NftTable {
    /// The family: `inet`, `ip`, `ip6`, ...
    pub family: String,
    /// The name, unique in its family.
    pub name: String,
    /// Its handle, which changes if the table is deleted and made again.
    pub handle: u64,
}

/// A base chain of nftables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NftChain {
    /// The family of its table.
    pub family: String,
    /// The name of the table that the chain is in.
    pub table: String,
    /// The name, unique in its table.
    pub name: String,
    /// The hook: `forward`, `postrouting`, ...
    pub hook: String,
    /// The policy for packets that no rule decides.
    pub policy: String,
}

/// The state of a host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// All interfaces.
    pub links: Vec<Link>,
    /// The routes of all tables and both families.
    pub routes: Vec<Route>,
    /// The rules of both families.
    pub rules: Vec<Rule>,
    /// The tables of nftables; none if they could not be read, as without CAP_NET_ADMIN.
    pub nft_tables: Option<Vec<NftTable>>,
    /// The base chains of nftables; empty if they could not be read.
    pub nft_chains: Vec<NftChain>,
    /// The relevant sysctls, by their path below `/proc/sys`.
    pub sysctls: BTreeMap<String, String>,
}

/// The sysctls of an interface that a setup reads.
const SYSCTLS: [&str; 6] = [
    "net/ipv4/conf/*/forwarding",
    "net/ipv4/conf/*/rp_filter",
    "net/ipv6/conf/*/forwarding",
    "net/ipv6/conf/*/force_forwarding",
    "net/ipv6/conf/*/accept_ra",
    "net/ipv6/conf/*/disable_ipv6",
];

impl Host {
    /// Reads the host through `system`.
    ///
    /// # Errors
    ///
    /// `ip` is missing, or its output cannot be parsed. Without `nft`, or without the privilege to use it,
    /// its tables stay unknown.
    pub fn read(system: &mut dyn System) -> Result<Host, String> {
        let mut host = Host { links: ask(system, "ip -json -details address show")?, ..Host::default() };
        for ipv6 in [false, true] {
            let family = if ipv6 { "-6" } else { "-4" };
            let routes: Vec<RawRoute> = ask(system, &format!("ip {family} -N -json route show table all"))?;
            host.routes.extend(routes.into_iter().flat_map(|route| route.routes(ipv6)));
            let rules: Vec<RawRule> = ask(system, &format!("ip {family} -N -json rule show"))?;
            host.rules.extend(rules.into_iter().map(|rule| rule.rule(ipv6)));
        }
        if let Ok(text) = system.act(&Action::run("nft --json list chains"))
            && let Ok(tables) = system.act(&Action::run("nft --json list tables"))
        {
            host.nft_tables = Some(nft_objects(&tables, "table"));
            host.nft_chains = nft_objects(&text, "chain");
            host.nft_chains.retain(|chain: &NftChain| !chain.hook.is_empty());
        }
        let names = ["all", "default"].into_iter().chain(host.links.iter().map(|link| link.ifname.as_str()));
        for name in names {
            for pattern in SYSCTLS {
                let key = pattern.replace('*', name);
                if let Some(value) = system.read(&format!("/proc/sys/{key}")) {
                    host.sysctls.insert(key, value);
                }
            }
        }
        Ok(host)
    }

    /// Returns the interface of this name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.ifname == name)
    }

    /// Returns the table of family `inet` with this name.
    pub fn nft_table(&self, name: &str) -> Option<&NftTable> {
        self.nft_tables.iter().flatten().find(|table| table.family == "inet" && table.name == name)
    }

    /// True if the kernel's setting `key` is present and reads `value`.
    pub fn sysctl_is(&self, key: &str, value: &str) -> bool {
        self.sysctls.get(key).is_some_and(|now| now == value)
    }

    /// True if a routing table of this number has routes or is referred to by a rule.
    pub fn table_in_use(&self, table: u32) -> bool {
        self.routes.iter().any(|route| route.table == table)
            || self.rules.iter().any(|rule| rule.table == table)
    }
}

impl Link {
    /// True if the flag is set.
    pub fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Returns the addresses of a family with a scope beyond the link.
    pub fn global(&self, ipv6: bool) -> impl Iterator<Item = IpAddr> + '_ {
        let fit = |address: &&Address| address.scope == "global" && !address.deprecated && !address.tentative;
        let own = self.addr_info.iter().filter(fit).filter_map(|address| address.local);
        own.filter(move |address| address.is_ipv6() == ipv6)
    }
}

fn ask<T: DeserializeOwned>(system: &mut dyn System, line: &str) -> Result<Vec<T>, String> {
    let text = system.act(&Action::run(line))?;
    // Some versions print nothing for an empty list.
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&text).map_err(|error| {
        format!("the output of `{line}` cannot be parsed ({error}); iproute2 4.18 or newer is needed")
    })
}

/// Returns the objects of one kind in the output of `nft --json`.
fn nft_objects<T: DeserializeOwned>(text: &str, kind: &str) -> Vec<T> {
    let Ok(mut all) = serde_json::from_str::<serde_json::Value>(text) else { return Vec::new() };
    let Some(list) = all.get_mut("nftables").and_then(serde_json::Value::as_array_mut) else {
        return Vec::new();
    };
    let objects = list.iter_mut().filter_map(|one| one.get_mut(kind).map(serde_json::Value::take));
    objects.filter_map(|object| serde_json::from_value(object).ok()).collect()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRoute {
    #[serde(rename = "type")]
    kind: String,
    dst: String,
    gateway: Option<IpAddr>,
    via: Option<RawVia>,
    dev: String,
    table: String,
    metric: u32,
    flags: Vec<String>,
    nexthops: Vec<RawHop>,
}

/// The gateway of an IPv4 route through an IPv6 gateway.
#[derive(Deserialize)]
struct RawVia {
    host: IpAddr,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawHop {
    gateway: Option<IpAddr>,
    via: Option<RawVia>,
    dev: String,
    flags: Vec<String>,
}

impl RawRoute {
    /// Returns one route for each next hop.
    fn routes(self, ipv6: bool) -> Vec<Route> {
        // Types by number too, which is how `ip -N` shows some (RTN_* of Linux' rtnetlink.h).
        let kind = match self.kind.as_str() {
            "" | "1" => "unicast",
            "2" => "local",
            "3" => "broadcast",
            "5" => "multicast",
            "7" => "unreachable",
            other => other,
        };
        let kind = kind.to_owned();
        let route = |gateway: Option<IpAddr>, via: Option<RawVia>, flags: &[String], dev: String| Route {
            dst: network(&self.dst),
            ipv6,
            kind: kind.clone(),
            gateway: gateway.or(via.map(|via| via.host)),
            onlink: flags.iter().any(|flag| flag == "onlink"),
            dev,
            table: table(&self.table),
            metric: self.metric,
        };
        if self.nexthops.is_empty() {
            return vec![route(self.gateway, self.via, &self.flags, self.dev.clone())];
        }
        self.nexthops.into_iter().map(|hop| route(hop.gateway, hop.via, &hop.flags, hop.dev)).collect()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRule {
    priority: u32,
    src: String,
    srclen: Option<u8>,
    table: String,
    #[serde(flatten)]
    more: BTreeMap<String, serde_json::Value>,
}

impl RawRule {
    fn rule(self, ipv6: bool) -> Rule {
        let src = match self.srclen {
            Some(length) => network(&format!("{}/{length}", self.src)),
            None => network(&self.src),
        };
        let plain = ["protocol", "action"];
        let conditions = self.more.keys().any(|key| !plain.contains(&key.as_str()));
        let table = if self.table.is_empty() { 0 } else { table(&self.table) };
        Rule { ipv6, priority: self.priority, src, table, conditions }
    }
}

/// Parses `10.0.0.0/8`, `10.0.0.1` for a single address, or `default` and `all`, which give none.
fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn table(text: &str) -> u32 {
    match text {
        "" | "main" => MAIN_TABLE,
        "local" => 255,
        "default" => 253,
        other => other.parse().unwrap_or(0),
    }
}
