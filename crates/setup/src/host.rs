//! What a host is like: interfaces, routes, rules, tables and switches, read by `ip -json` and `nft --json`.

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
    /// Its number, which no other interface of this namespace has or will have.
    pub ifindex: u32,
    /// Its name.
    pub ifname: String,
    /// Such as `UP`, `LOOPBACK`, `POINTOPOINT`.
    pub flags: Vec<String>,
    /// In bytes.
    pub mtu: u32,
    /// `UP`, `DOWN`, or `UNKNOWN` for those that cannot tell.
    pub operstate: String,
    /// What kind of virtual interface it is.
    pub linkinfo: LinkInfo,
    /// Its addresses.
    pub addr_info: Vec<Address>,
}

/// The kind of a virtual interface.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LinkInfo {
    /// Such as `tun`, `veth`; empty for hardware.
    pub info_kind: String,
}

/// An address of an interface.
#[derive(Clone, Debug, Deserialize)]
pub struct Address {
    /// The address itself.
    pub local: Option<IpAddr>,
    /// The length of its network's prefix.
    #[serde(default)]
    pub prefixlen: u8,
    /// `global`, `link`, `host`.
    #[serde(default)]
    pub scope: String,
    /// Not yet, or no longer, fit for new connections.
    #[serde(default)]
    pub deprecated: bool,
    /// Duplicate address detection has not ended.
    #[serde(default)]
    pub tentative: bool,
}

/// A route of any table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to; none is the default.
    pub dst: Option<IpNet>,
    /// Of which family, as a default route does not show it.
    pub ipv6: bool,
    /// `unicast`, `unreachable`, `local`, ...
    pub kind: String,
    /// Through whom.
    pub gateway: Option<IpAddr>,
    /// The gateway is taken for reachable although no route of the interface says so.
    pub onlink: bool,
    /// Through which interface.
    pub dev: String,
    /// The table's number.
    pub table: u32,
    /// Lower ones are preferred.
    pub metric: u32,
}

/// A policy rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Of which family.
    pub ipv6: bool,
    /// Rules are asked in this order.
    pub priority: u32,
    /// The source; none is any.
    pub src: Option<IpNet>,
    /// The table that it leads to; 0 for other actions.
    pub table: u32,
    /// It has conditions beside the source, such as a mark.
    pub conditions: bool,
}

/// A table of nftables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NftTable {
    /// `inet`, `ip`, `ip6`, ...
    pub family: String,
    /// Its name.
    pub name: String,
    /// Its number, which a table that is deleted and made again does not keep.
    pub handle: u64,
}

/// A base chain of nftables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NftChain {
    /// The family of its table.
    pub family: String,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Where it hangs: `forward`, `postrouting`, ...
    pub hook: String,
    /// What becomes of a packet that no rule decides on.
    pub policy: String,
}

/// A host at a moment.
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
    /// The switches that matter, by their path below `/proc/sys`.
    pub sysctls: BTreeMap<String, String>,
}

/// The switches of an interface that a setup looks at.
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
    /// `ip` is not there, or says what is not understood. Without `nft`, or without the right to ask it, its
    /// tables stay unknown.
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

    /// The interface of this name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.ifname == name)
    }

    /// The table of family `inet` with this name.
    pub fn nft_table(&self, name: &str) -> Option<&NftTable> {
        self.nft_tables.iter().flatten().find(|table| table.family == "inet" && table.name == name)
    }

    /// Whether the switch has this value.
    pub fn sysctl_is(&self, key: &str, value: &str) -> bool {
        self.sysctls.get(key).is_some_and(|now| now == value)
    }

    /// Whether a routing table of this number holds or is named by anything.
    pub fn table_in_use(&self, table: u32) -> bool {
        self.routes.iter().any(|route| route.table == table)
            || self.rules.iter().any(|rule| rule.table == table)
    }
}

impl Link {
    /// Whether the flag is set.
    pub fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// The addresses of a family that can be used beyond the link.
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
        format!("`{line}` printed what is not understood ({error}); iproute2 4.18 or newer is needed")
    })
}

/// The objects of one kind in what `nft --json` prints.
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

/// An IPv4 route through an IPv6 gateway.
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
    /// One route for each of the next hops.
    fn routes(self, ipv6: bool) -> Vec<Route> {
        // By number too, which is how `ip -N` shows some (RTN_* of Linux' rtnetlink.h).
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

/// `10.0.0.0/8`, `10.0.0.1` for a single address, or none for `default` and `all`.
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
