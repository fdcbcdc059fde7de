//! The network of a run: hosts, their addresses, links, and routes over the links.

use core::fmt;
use core::net::IpAddr;
use std::collections::BTreeSet;

use anabranch_link::{LinkConfig, LinkConfigError, MiddleboxConfig, Quotas};
use anabranch_stack::segment::PathId;
use anabranch_units::Time;

/// Identifies a host of a [`Network`], in the order of addition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub u32);

/// Identifies a link of a [`Network`], in the order of addition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

impl HostId {
    /// Returns its place in the list of hosts.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// Returns its place in the list of links.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An interface of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its address.
    pub ip: IpAddr,
    /// True if subflows from here ask to be backups.
    pub backup: bool,
}

/// A host of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostSpec {
    /// Its name, which seeds its entropy.
    pub name: String,
    /// Its interfaces; the [`PathId`] is the index.
    pub interfaces: Vec<Interface>,
    /// The microseconds that have passed since the last millisecond of its clock when the run starts.
    pub clock_phase: u16,
    /// True for a TCP proxy, which has addresses of other hosts.
    pub is_proxy: bool,
}

/// A link of a network.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSpec {
    /// Its name, which seeds its random streams.
    pub name: String,
    /// Its configuration.
    pub config: LinkConfig,
}

/// The links that a packet crosses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The host that sends the packet.
    pub from: HostId,
    /// The interface that sends it.
    pub path: PathId,
    /// The destination address.
    pub to: IpAddr,
    /// The links, in order.
    pub links: Vec<LinkId>,
    /// The proxy at which it ends, and its interface, in place of the host with the destination address.
    pub proxy: Option<(HostId, PathId)>,
}

/// The data that an interface of a host may carry before its subflows become backups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The host.
    pub host: HostId,
    /// The interface.
    pub path: PathId,
    /// The first link of its packets.
    pub up: LinkId,
    /// The last link of the packets to it.
    pub down: LinkId,
    /// The data, sent over the first link and received over the last one.
    pub most: Quotas,
}

/// A middlebox at the client's end of a path; its tunnel leads to the other end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MiddleboxSpec {
    /// Its name, which is the name of its path.
    pub name: String,
    /// Its settings.
    pub config: MiddleboxConfig,
    /// The link at its far side: packets from the client pass it before they enter this link.
    pub up: LinkId,
    /// The link that leads to it: packets to the client pass it after they have crossed this link.
    pub down: LinkId,
}

/// An address that becomes unavailable or available during a run; the host is notified, as by a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressChange {
    /// The time of the change.
    pub at: Time,
    /// The host that gains or loses the address.
    pub host: HostId,
    /// The interface.
    pub path: PathId,
    /// True if the address is available from then on.
    pub up: bool,
}

/// Hosts, addresses, links and routes. Every method checks its arguments, so that a complete network can be
/// run.
///
/// ```
/// use anabranch_link::LinkConfig;
/// use anabranch_sim::Network;
/// use core::net::IpAddr;
///
/// let mut network = Network::new();
/// let (a, b) = (network.add_host("a")?, network.add_host("b")?);
/// let (a_ip, b_ip) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
/// let (a_path, b_path) = (network.add_address(a, a_ip, false)?, network.add_address(b, b_ip, false)?);
/// let there = network.add_link("there", LinkConfig::default())?;
/// let back = network.add_link("back", LinkConfig::default())?;
/// network.add_route(a, a_path, b_ip, &[there])?;
/// network.add_route(b, b_path, a_ip, &[back])?;
/// # Ok::<(), anabranch_sim::NetworkError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Network {
    hosts: Vec<HostSpec>,
    links: Vec<LinkSpec>,
    routes: Vec<Route>,
    changes: Vec<AddressChange>,
    middleboxes: Vec<MiddleboxSpec>,
    quotas: Vec<Quota>,
    names: BTreeSet<(Kind, String)>,
    addresses: BTreeSet<IpAddr>,
    routed: BTreeSet<(HostId, PathId, IpAddr)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Host,
    Link,
}

impl Network {
    /// Returns an empty network.
    pub fn new() -> Network {
        Network::default()
    }

    /// Adds a host.
    ///
    /// # Errors
    /// If another host has the name.
    pub fn add_host(&mut self, name: impl Into<String>) -> Result<HostId, NetworkError> {
        let name = name.into();
        if !self.names.insert((Kind::Host, name.clone())) {
            return Err(NetworkError::HostName(name));
        }
        self.hosts.push(HostSpec { name, interfaces: Vec::new(), clock_phase: 0, is_proxy: false });
        Ok(HostId(self.hosts.len() as u32 - 1))
    }

    /// Adds an interface with the address `ip` to `host`. If `backup`, subflows from it ask to be backups.
    ///
    /// # Errors
    /// If the host is not of this network, if any host has the address already, or if the host has 65536
    /// interfaces.
    pub fn add_address(&mut self, host: HostId, ip: IpAddr, backup: bool) -> Result<PathId, NetworkError> {
        let spec = self.hosts.get_mut(host.index()).ok_or(NetworkError::UnknownHost(host))?;
        let path = u16::try_from(spec.interfaces.len()).map_err(|_| NetworkError::TooManyInterfaces(host))?;
        if !self.addresses.insert(ip) {
            return Err(NetworkError::AddressTaken(ip));
        }
        spec.interfaces.push(Interface { ip, backup });
        Ok(PathId(path))
    }

    /// Adds a link, in one direction.
    ///
    /// # Errors
    /// If another link has the name, or the configuration is invalid.
    pub fn add_link(&mut self, name: impl Into<String>, config: LinkConfig) -> Result<LinkId, NetworkError> {
        let name = name.into();
        config.check().map_err(|error| NetworkError::Link { name: name.clone(), error })?;
        if !self.names.insert((Kind::Link, name.clone())) {
            return Err(NetworkError::LinkName(name));
        }
        self.links.push(LinkSpec { name, config });
        Ok(LinkId(self.links.len() as u32 - 1))
    }

    /// Adds a route: a packet that leaves `from` by its interface `path` for the address `to` crosses `links`
    /// in order, and arrives at the interface with that address.
    ///
    /// # Errors
    /// If it has no link, if any of its parts is unknown, or if there is such a route already.
    pub fn add_route(
        &mut self,
        from: HostId,
        path: PathId,
        to: IpAddr,
        links: &[LinkId],
    ) -> Result<(), NetworkError> {
        self.interface(from, path)?;
        if links.is_empty() {
            return Err(NetworkError::EmptyRoute { from, to });
        }
        if let Some(link) = links.iter().find(|link| link.index() >= self.links.len()) {
            return Err(NetworkError::UnknownLink(*link));
        }
        if !self.addresses.contains(&to) {
            return Err(NetworkError::UnknownAddress(to));
        }
        if !self.routed.insert((from, path, to)) {
            return Err(NetworkError::RouteTaken { from, path, to });
        }
        self.routes.push(Route { from, path, to, links: links.to_vec(), proxy: None });
        Ok(())
    }

    /// Adds several routes of equal cost, as [`Network::add_route`] adds one. Each packet uses one of them by
    /// a hash of its addresses and ports and of the run's seed, so that all packets of a subflow in one
    /// direction use the same.
    ///
    /// # Errors
    /// If there is no route, or one of them is invalid; the network may have some of them then.
    pub fn add_equal_cost_routes(
        &mut self,
        from: HostId,
        path: PathId,
        to: IpAddr,
        routes: &[Vec<LinkId>],
    ) -> Result<(), NetworkError> {
        let Some((first, others)) = routes.split_first() else {
            return Err(NetworkError::EmptyRoute { from, to });
        };
        self.add_route(from, path, to, first)?;
        for links in others {
            self.routed.remove(&(from, path, to));
            self.add_route(from, path, to, links)?;
        }
        Ok(())
    }

    /// Notifies `host`, at the time `at`, that the address of `path` is unavailable or available again. The
    /// links are not changed; use their timelines to take them down.
    ///
    /// # Errors
    /// If the host or the interface is unknown.
    pub fn add_address_change(
        &mut self,
        at: Time,
        host: HostId,
        path: PathId,
        up: bool,
    ) -> Result<(), NetworkError> {
        self.interface(host, path)?;
        self.changes.push(AddressChange { at, host, path, up });
        Ok(())
    }

    /// Adds a middlebox at the client's end of the links `up` and `down`, which have no other.
    ///
    /// # Errors
    /// If a link is unknown, or has a middlebox already.
    pub fn add_middlebox(
        &mut self,
        name: impl Into<String>,
        config: MiddleboxConfig,
        up: LinkId,
        down: LinkId,
    ) -> Result<(), NetworkError> {
        for link in [up, down] {
            let spec = self.links.get(link.index()).ok_or(NetworkError::UnknownLink(link))?;
            if self.middleboxes.iter().any(|other| [other.up, other.down].contains(&link)) || up == down {
                return Err(NetworkError::MiddleboxTaken(spec.name.clone()));
            }
        }
        self.middleboxes.push(MiddleboxSpec { name: name.into(), config, up, down });
        Ok(())
    }

    /// Makes backups of the subflows of an interface once it has used up its quota.
    ///
    /// # Errors
    /// If a part of it is unknown.
    pub fn add_quota(&mut self, quota: Quota) -> Result<(), NetworkError> {
        self.interface(quota.host, quota.path)?;
        if let Some(link) = [quota.up, quota.down].into_iter().find(|link| link.index() >= self.links.len()) {
            return Err(NetworkError::UnknownLink(link));
        }
        self.quotas.push(quota);
        Ok(())
    }

    /// Adds a TCP proxy: a host that ends the connections that reach it by [`Network::intercept`], and opens others to their
    /// destinations in their place. It needs a route to each end.
    ///
    /// # Errors
    /// If another host has the name.
    pub fn add_proxy(&mut self, name: impl Into<String>) -> Result<HostId, NetworkError> {
        let proxy = self.add_host(name)?;
        self.hosts[proxy.index()].is_proxy = true;
        Ok(proxy)
    }

    /// Lets the packets of `from` by its interface `path` for the address `to` arrive at `proxy`, which answers in the name of
    /// that address. Returns the interface of the proxy, from which its packets with that source address are sent. Add the
    /// routes before.
    ///
    /// # Errors
    /// If the proxy is none or unknown, there is no such route, or the proxy has the largest number of interfaces already.
    pub fn intercept(
        &mut self,
        from: HostId,
        path: PathId,
        to: IpAddr,
        proxy: HostId,
    ) -> Result<PathId, NetworkError> {
        let spec = self.hosts.get_mut(proxy.index()).filter(|spec| spec.is_proxy);
        let spec = spec.ok_or(NetworkError::UnknownHost(proxy))?;
        if !self.routed.contains(&(from, path, to)) {
            return Err(NetworkError::UnknownAddress(to));
        }
        let known = spec.interfaces.iter().position(|interface| interface.ip == to);
        let place = known.unwrap_or(spec.interfaces.len());
        let own = u16::try_from(place).map_err(|_| NetworkError::TooManyInterfaces(proxy))?;
        if known.is_none() {
            spec.interfaces.push(Interface { ip: to, backup: false });
        }
        let routes = self.routes.iter_mut();
        for route in routes.filter(|route| (route.from, route.path, route.to) == (from, path, to)) {
            route.proxy = Some((proxy, PathId(own)));
        }
        Ok(PathId(own))
    }

    /// Lets the clock of `host` be `micros` after a millisecond when the run starts, of at most 999; by default it is at
    /// one. A host's timestamps tick every millisecond.
    ///
    /// # Errors
    /// If the host is unknown.
    pub fn set_clock_phase(&mut self, host: HostId, micros: u16) -> Result<(), NetworkError> {
        let spec = self.hosts.get_mut(host.index()).ok_or(NetworkError::UnknownHost(host))?;
        spec.clock_phase = micros % 1000;
        Ok(())
    }

    /// Returns the hosts, by [`HostId`].
    pub fn hosts(&self) -> &[HostSpec] {
        &self.hosts
    }

    /// Returns the links, by [`LinkId`].
    pub fn links(&self) -> &[LinkSpec] {
        &self.links
    }

    /// Returns the routes, in the order in which they were added; routes of equal cost follow one another.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Returns the changes of addresses, in the order in which they were added.
    pub fn address_changes(&self) -> &[AddressChange] {
        &self.changes
    }

    /// Returns the quotas, in the order in which they were added.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// Returns the middleboxes, in the order in which they were added.
    pub fn middleboxes(&self) -> &[MiddleboxSpec] {
        &self.middleboxes
    }

    /// Returns the first host with this name; none if there is none.
    pub fn host(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host.name == name).map(|index| HostId(index as u32))
    }

    /// Returns the first link with this name; none if there is none.
    pub fn link(&self, name: &str) -> Option<LinkId> {
        self.links.iter().position(|link| link.name == name).map(|index| LinkId(index as u32))
    }

    /// Replaces every address by its image under `of`, which must be injective.
    pub(crate) fn map_addresses(&mut self, of: impl Fn(IpAddr) -> IpAddr) {
        for interface in self.hosts.iter_mut().flat_map(|host| &mut host.interfaces) {
            interface.ip = of(interface.ip);
        }
        for route in &mut self.routes {
            route.to = of(route.to);
        }
        self.addresses = self.addresses.iter().map(|ip| of(*ip)).collect();
        self.routed = self.routed.iter().map(|(from, path, to)| (*from, *path, of(*to))).collect();
    }

    /// Returns the configuration of a link for modification. It is validated again when the run is made.
    pub fn link_config_mut(&mut self, link: LinkId) -> Option<&mut LinkConfig> {
        self.links.get_mut(link.index()).map(|link| &mut link.config)
    }

    /// Returns the host, which is no proxy, and the interface with the address.
    pub fn locate(&self, ip: IpAddr) -> Option<(HostId, PathId)> {
        self.addresses.contains(&ip).then_some(())?;
        self.hosts.iter().enumerate().filter(|(_, spec)| !spec.is_proxy).find_map(|(host, spec)| {
            let path = spec.interfaces.iter().position(|interface| interface.ip == ip)?;
            Some((HostId(host as u32), PathId(path as u16)))
        })
    }

    /// Returns the interface `path` of `host`.
    ///
    /// # Errors
    /// If the host or the interface is unknown.
    pub fn interface(&self, host: HostId, path: PathId) -> Result<&Interface, NetworkError> {
        let spec = self.hosts.get(host.index()).ok_or(NetworkError::UnknownHost(host))?;
        spec.interfaces.get(usize::from(path.0)).ok_or(NetworkError::UnknownInterface { host, path })
    }
}

/// The problem of a network.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum NetworkError {
    /// Two hosts have the same name.
    HostName(String),
    /// Two links have the same name.
    LinkName(String),
    /// The configuration of a link is invalid.
    Link {
        /// The link.
        name: String,
        /// The problem.
        error: LinkConfigError,
    },
    /// The host does not exist.
    UnknownHost(HostId),
    /// The link does not exist.
    UnknownLink(LinkId),
    /// The interface does not exist.
    UnknownInterface {
        /// The host that lacks the interface.
        host: HostId,
        /// The interface.
        path: PathId,
    },
    /// No host has the address.
    UnknownAddress(IpAddr),
    /// A host has the address already.
    AddressTaken(IpAddr),
    /// The host has the largest number of interfaces already.
    TooManyInterfaces(HostId),
    /// A route has no links.
    EmptyRoute {
        /// Its start.
        from: HostId,
        /// Its destination.
        to: IpAddr,
    },
    /// Two routes apply to the same packets.
    RouteTaken {
        /// The sending host.
        from: HostId,
        /// Its interface.
        path: PathId,
        /// The destination.
        to: IpAddr,
    },
    /// A link has a middlebox already.
    MiddleboxTaken(String),
    /// A topology has no paths.
    NoPath,
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkError::HostName(name) => {
                write!(f, "two hosts are named '{name}'; give each a name of its own")
            }
            NetworkError::LinkName(name) => {
                write!(f, "two links are named '{name}'; give each a name of its own")
            }
            NetworkError::Link { name, error } => write!(f, "link '{name}': {error}"),
            NetworkError::UnknownHost(host) => {
                write!(f, "there is no host {}; add it with `add_host` first", host.0)
            }
            NetworkError::UnknownLink(link) => {
                write!(f, "there is no link {}; add it with `add_link` first", link.0)
            }
            NetworkError::UnknownInterface { host, path } => {
                write!(f, "host {} has no interface {}; add it with `add_address` first", host.0, path.0)
            }
            NetworkError::UnknownAddress(ip) => {
                write!(f, "no host has the address {ip}; add it with `add_address` first")
            }
            NetworkError::AddressTaken(ip) => {
                write!(f, "the address {ip} is in use already; addresses are unique in a network")
            }
            NetworkError::TooManyInterfaces(host) => {
                write!(f, "host {} has 65536 interfaces already, and there are no more", host.0)
            }
            NetworkError::EmptyRoute { from, to } => {
                write!(f, "the route from host {} to {to} has no links; give at least one", from.0)
            }
            NetworkError::RouteTaken { from, path, to } => write!(
                f,
                "host {} has a route to {to} by its interface {} already; give one route for each destination",
                from.0, path.0
            ),
            NetworkError::MiddleboxTaken(link) => {
                write!(f, "link '{link}' has a middlebox already, and may have one only")
            }
            NetworkError::NoPath => f.write_str("the topology has no path; give at least one"),
        }
    }
}

impl core::error::Error for NetworkError {}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn each_mistake_is_named_and_leaves_the_network_as_it_was() {
        let mut network = Network::new();
        let a = network.add_host("a").unwrap();
        let b = network.add_host("b").unwrap();
        let path = network.add_address(a, A, false).unwrap();
        let link = network.add_link("l", LinkConfig::default()).unwrap();
        let before = network.clone();
        let mut wrong = |act: &dyn Fn(&mut Network) -> Result<(), NetworkError>, word: &str| {
            let text = act(&mut network).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        };
        wrong(&|n| n.add_host("a").map(drop), "two hosts are named 'a'");
        wrong(&|n| n.add_link("l", LinkConfig::default()).map(drop), "two links are named 'l'");
        wrong(&|n| n.add_address(HostId(9), B, false).map(drop), "no host 9");
        wrong(&|n| n.add_address(b, A, false).map(drop), "10.0.0.1 is in use");
        wrong(&|n| n.add_route(a, path, A, &[]), "no links");
        wrong(&|n| n.add_route(a, path, A, &[LinkId(4)]), "no link 4");
        wrong(&|n| n.add_route(a, PathId(3), A, &[link]), "no interface 3");
        wrong(&|n| n.add_route(a, path, B, &[link]), "no host has the address 10.0.0.2");
        wrong(&|n| n.add_address_change(Time::ZERO, a, PathId(3), true), "no interface 3");
        wrong(&|n| n.add_middlebox("p", MiddleboxConfig::default(), link, LinkId(9)), "no link 9");
        wrong(&|n| n.add_middlebox("p", MiddleboxConfig::default(), link, link), "link 'l' has a middlebox");
        let bad = || LinkConfig { duplicate: 2.0, ..LinkConfig::default() };
        wrong(&|n| n.add_link("bad", bad()).map(drop), "link 'bad': the probability of duplication");
        assert_eq!(network, before);
        network.add_route(a, path, A, &[link]).unwrap();
        assert!(matches!(network.add_route(a, path, A, &[link]), Err(NetworkError::RouteTaken { .. })));
        assert_eq!(network.locate(A), Some((a, path)));
        assert_eq!(network.locate(B), None);
    }
}
