//! The layout of a setup on a given host: the interface and gateway of each address. Two setups with the same
//! layout are the same.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::host::{Host, Link, MAIN_TABLE, Route};
use super::options::{Families, Options, PathSpec};
use super::{PathLayout, SetupError};

/// The number of the kernel's end of the device in its prefix; in a smaller prefix, the last usable number is
/// used. Paths count from 1.
const KERNEL: u128 = 254;

/// The addresses and paths of a setup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The TUN device.
    pub device: String,
    /// The user id that may open the device.
    pub owner: Option<u32>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The kernel's own addresses on it, with the prefix.
    pub kernel: Vec<IpNet>,
    /// The paths, counted from 1.
    pub paths: Vec<PathLayout>,
}

/// The part of a path that belongs to one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// The address that anabranch uses.
    pub address: IpAddr,
    /// The gateway on the real interface; none if the interface needs none, or has none.
    pub gateway: Option<IpAddr>,
    /// True if there is a default route; false if only the networks of the interface are reachable.
    pub default: bool,
    /// True if the gateway is treated as reachable without a route.
    pub onlink: bool,
    /// The networks that are reached without the gateway.
    pub networks: Vec<IpNet>,
    /// The address of the interface itself, which other hosts see.
    pub masquerade: IpAddr,
    /// True if the gateway was given, and is not the one of a route.
    #[serde(default)]
    pub fixed: bool,
    /// The addresses of this path for further hosts that share the device.
    #[serde(default)]
    pub others: Vec<IpAddr>,
}

impl Leg {
    /// Returns the addresses of all hosts.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        core::iter::once(self.address).chain(self.others.iter().copied())
    }
}

/// Returns the number of paths that fit into a prefix.
pub(super) fn capacity(prefix: IpNet) -> u64 {
    // Excludes the network's own address, the kernel's, and IPv4's broadcast address.
    let size = 1_u128 << u32::from(prefix.max_prefix_len() - prefix.prefix_len()).min(32);
    u64::try_from(kernel_number(size).saturating_sub(1)).unwrap_or(u64::MAX)
}

fn kernel_number(size: u128) -> u128 {
    KERNEL.min(size.saturating_sub(2))
}

/// Returns the address of number `n` in a prefix, with the prefix's length.
fn number(prefix: IpNet, n: u128) -> IpNet {
    match prefix {
        IpNet::V4(net) => {
            let address = u32::from(net.network()).wrapping_add(n as u32);
            Ipv4Net::new(address.into(), net.prefix_len()).map_or(prefix, IpNet::V4)
        }
        IpNet::V6(net) => {
            let address = u128::from(net.network()).wrapping_add(n);
            Ipv6Net::new(address.into(), net.prefix_len()).map_or(prefix, IpNet::V6)
        }
    }
}

fn kernel_address(prefix: IpNet) -> IpNet {
    let size = 1_u128 << u32::from(prefix.max_prefix_len() - prefix.prefix_len()).min(32);
    number(prefix, kernel_number(size))
}

impl Layout {
    /// Returns the layout of `options` on `host`. `own` says that an earlier setup made the device.
    ///
    /// # Errors
    ///
    /// The options are wrong; a device of this name exists; an interface is missing, down or without an
    /// address; the prefix is in use.
    pub fn new(options: &Options, host: &Host, own: bool) -> Result<Layout, SetupError> {
        options.check()?;
        if options.paths.is_empty() {
            return Err(SetupError::Usage(format!("which interfaces? give --path IFACE; {}", offer(host))));
        }
        let device = &options.device;
        if !own && host.link(device).is_some() {
            return Err(SetupError::Refused(format!(
                "there is a device {device} already, which `anabranch tun setup` did not make; choose another \
                 name with --name, or remove it: ip link del dev {device}"
            )));
        }
        let mut paths = Vec::new();
        for (n, spec) in options.paths.iter().enumerate() {
            paths.push(path(options, host, n as u128 + 1, spec)?);
        }
        let prefixes = [IpNet::V4(options.prefix), IpNet::V6(options.prefix6)];
        let used = |prefix: &IpNet| {
            let family = |leg: &Leg| leg.address.is_ipv6() == matches!(prefix, IpNet::V6(_));
            paths.iter().any(|path| path.legs.iter().any(family))
        };
        let mut kernel = Vec::new();
        for prefix in prefixes.into_iter().filter(used) {
            check_free(options, host, prefix, own)?;
            kernel.push(kernel_address(prefix));
        }
        let smallest = paths.iter().map(|path| path.mtu).min().unwrap_or(1500);
        Ok(Layout {
            device: options.device.clone(),
            owner: options.owner,
            mtu: options.mtu.unwrap_or(smallest),
            kernel,
            paths,
        })
    }

    /// Returns a layout without connectivity: paths that end at the device.
    pub fn isolated(options: &Options) -> Result<Layout, SetupError> {
        options.check()?;
        let prefixes: Vec<IpNet> = match options.families {
            Families::Any => vec![options.prefix.into(), options.prefix6.into()],
            Families::Ipv4 => vec![options.prefix.into()],
            Families::Ipv6 => vec![options.prefix6.into()],
        };
        let path = |(n, spec): (usize, &PathSpec)| PathLayout {
            interface: spec.interface.clone(),
            ifindex: 0,
            mtu: 1500,
            legs: prefixes
                .iter()
                .map(|prefix| Leg {
                    address: number(*prefix, n as u128 + 1).addr(),
                    gateway: None,
                    default: false,
                    onlink: false,
                    networks: Vec::new(),
                    masquerade: number(*prefix, n as u128 + 1).addr(),
                    fixed: false,
                    others: others(options, *prefix, n as u128 + 1),
                })
                .collect(),
        };
        Ok(Layout {
            device: options.device.clone(),
            owner: None,
            mtu: options.mtu.unwrap_or(1500),
            kernel: prefixes.iter().map(|prefix| kernel_address(*prefix)).collect(),
            paths: options.paths.iter().enumerate().map(path).collect(),
        })
    }

    /// Returns the addresses of each host that shares the device, in the order of the paths.
    pub fn hosts(&self) -> Vec<Vec<IpAddr>> {
        let legs = || self.paths.iter().flat_map(|path| &path.legs);
        let count = legs().map(|leg| leg.others.len() + 1).max().unwrap_or(0);
        (0..count).map(|host| legs().filter_map(|leg| leg.addresses().nth(host)).collect()).collect()
    }

    /// Returns notes for the user.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for path in &self.paths {
            for leg in &path.legs {
                if !leg.default {
                    notes.push(format!(
                        "{} has no default route for {}: path {} reaches {} only; name a gateway with --path \
                         {},via=GATEWAY",
                        path.interface,
                        if leg.address.is_ipv6() { "IPv6" } else { "IPv4" },
                        leg.address,
                        join(&leg.networks),
                        path.interface,
                    ));
                }
            }
        }
        notes
    }
}

fn join(networks: &[IpNet]) -> String {
    if networks.is_empty() {
        return "nothing".to_owned();
    }
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// Lists the interfaces that could be paths.
fn offer(host: &Host) -> String {
    let fit = |link: &&Link| {
        !link.is("LOOPBACK")
            && link.is("UP")
            && (link.global(false).next().or(link.global(true).next())).is_some()
    };
    let names: Vec<&str> = host.links.iter().filter(fit).map(|link| link.ifname.as_str()).collect();
    match names.as_slice() {
        [] => "no interface here is up and has an address".to_owned(),
        names => format!("up and with an address here: {}", names.join(", ")),
    }
}

fn path(options: &Options, host: &Host, n: u128, spec: &PathSpec) -> Result<PathLayout, SetupError> {
    let name = &spec.interface;
    let refuse = |text: String| Err(SetupError::Refused(text));
    let Some(link) = host.link(name) else {
        return refuse(format!("there is no interface {name}; {}", offer(host)));
    };
    if link.is("LOOPBACK") {
        return refuse(format!("{name} is the loopback interface, which cannot be a path; {}", offer(host)));
    }
    if !link.is("UP") {
        return refuse(format!("{name} is down; bring it up first: ip link set {name} up"));
    }
    let mut legs = Vec::new();
    for (ipv6, prefix, unwanted) in [
        (false, IpNet::V4(options.prefix), Families::Ipv6),
        (true, IpNet::V6(options.prefix6), Families::Ipv4),
    ] {
        let Some(masquerade) = link.global(ipv6).next() else { continue };
        if options.families != unwanted {
            let via = spec.via.iter().find(|via| via.is_ipv6() == ipv6).copied();
            let others = others(options, prefix, n);
            legs.push(Leg { others, ..leg(host, link, number(prefix, n).addr(), masquerade, via) });
        }
    }
    if legs.is_empty() {
        let family = match options.families {
            Families::Any => "",
            Families::Ipv4 => "IPv4 ",
            Families::Ipv6 => "IPv6 ",
        };
        return refuse(format!(
            "{name} has no {family}address that could replace the path's; connect it first (DHCP, ip addr \
             add)"
        ));
    }
    if let Some(via) =
        spec.via.iter().find(|via| !legs.iter().any(|leg| leg.address.is_ipv6() == via.is_ipv6()))
    {
        return refuse(format!("{name} has no address of the family of the gateway {via}"));
    }
    Ok(PathLayout { interface: name.clone(), ifindex: link.ifindex, mtu: link.mtu, legs })
}

/// Returns the leg of `address` through an interface; `via` is the given gateway.
pub(super) fn leg(host: &Host, link: &Link, address: IpAddr, masquerade: IpAddr, via: Option<IpAddr>) -> Leg {
    let ipv6 = address.is_ipv6();
    let own = |route: &&Route| {
        route.table == MAIN_TABLE && route.dev == link.ifname && route.ipv6 == ipv6 && route.kind == "unicast"
    };
    let own: Vec<&Route> = host.routes.iter().filter(own).collect();
    let mut networks: Vec<IpNet> = Vec::new();
    for route in own.iter().filter(|route| route.gateway.is_none()) {
        match route.dst {
            Some(dst) if !link_local(dst) && !networks.contains(&dst) => networks.push(dst),
            _ => {}
        }
    }
    networks.sort_by_key(|network| (network.addr(), network.prefix_len()));
    let default = own.iter().filter(|route| route.dst.is_none()).min_by_key(|route| route.metric);
    let gateway = via.or(default.and_then(|route| route.gateway));
    Leg {
        address,
        gateway,
        default: via.is_some() || default.is_some(),
        onlink: via.is_none() && default.is_some_and(|route| route.onlink),
        networks,
        masquerade,
        fixed: via.is_some(),
        others: Vec::new(),
    }
}

/// Returns the addresses of path `n` for all hosts but the first: each host has as many numbers as there are paths.
fn others(options: &Options, prefix: IpNet, n: u128) -> Vec<IpAddr> {
    let paths = options.paths.len() as u128;
    (1..u128::from(options.hosts)).map(|host| number(prefix, host * paths + n).addr()).collect()
}

/// True for 169.254.0.0/16 (RFC 3927), fe80::/10 (RFC 4291) and multicast, which are the same on every
/// interface.
fn link_local(network: IpNet) -> bool {
    match network.addr() {
        IpAddr::V4(address) => address.is_link_local() || address.is_multicast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
    }
}

/// Checks that the prefix is not in use.
fn check_free(options: &Options, host: &Host, prefix: IpNet, own: bool) -> Result<(), SetupError> {
    let overlaps = |other: &IpNet| other.contains(&prefix) || prefix.contains(other);
    let taken = host.routes.iter().find(|route| {
        let ours = own && route.dev == options.device;
        !ours && route.kind != "unreachable" && route.dst.as_ref().is_some_and(overlaps)
    });
    let Some(route) = taken else { return Ok(()) };
    let option = if prefix.max_prefix_len() == 128 { "--prefix6" } else { "--prefix" };
    Err(SetupError::Refused(format!(
        "{prefix} is in use: {} is routed through {}; choose another with {option}",
        route.dst.map_or("default".to_owned(), |dst| dst.to_string()),
        route.dev
    )))
}
