//! Common networks.
//!
//! Clients have addresses from 10.0.0.0/8, servers from 172.16.0.0/12. The links of a path `wifi` are
//! `wifi.up` (from the client) and `wifi.down`; a path with several stretches has `wifi.1.up`, `wifi.2.up`
//! and so on, counted from the client.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_link::{Capacity, LinkConfig};
use anabranch_stack::config::SimConfig;
use anabranch_stack::segment::PathId;
use anabranch_units::{Bytes, Duration, Rate};

use crate::flow::FlowSpec;
use crate::network::{HostId, LinkId, Network, NetworkError};

/// A link in each direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Duplex {
    /// From the client to the server.
    pub up: LinkConfig,
    /// From the server to the client.
    pub down: LinkConfig,
}

impl Duplex {
    /// Returns links with the same rate both ways, half of `rtt` each way, and queues of 1 BDP.
    pub fn symmetric(rate: Rate, rtt: Duration) -> Duplex {
        let link = LinkConfig { capacity: Capacity::Rate(rate), delay: rtt / 2, ..LinkConfig::default() };
        Duplex { up: link.clone(), down: link }
    }

    /// Returns the links after the same `change` of both.
    pub fn with(mut self, change: impl Fn(&mut LinkConfig)) -> Duplex {
        change(&mut self.up);
        change(&mut self.down);
        self
    }
}

/// A path between a client and a server.
#[derive(Clone, PartialEq, Debug)]
pub struct PathSpec {
    /// Its name, which begins the names of its links.
    pub name: String,
    /// Its stretches, from the client to the server; at least one.
    pub stretches: Vec<Duplex>,
    /// True if subflows over it ask to be backups.
    pub backup: bool,
}

impl PathSpec {
    /// Returns a path of one stretch.
    pub fn new(name: impl Into<String>, link: Duplex) -> PathSpec {
        PathSpec { name: name.into(), stretches: vec![link], backup: false }
    }

    /// Returns this path with another stretch at the server's end.
    pub fn then(mut self, link: Duplex) -> PathSpec {
        self.stretches.push(link);
        self
    }
}

/// Whether the client's or also the server's address determines the path of a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum ServerAddresses {
    /// One address, for all paths: the client's address determines the path of a packet.
    #[default]
    One,
    /// One for each path. The path of a packet is still determined by the client's address.
    OnePerPath,
}

/// The hosts of a dumbbell's pairs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// Every pair has its own two hosts.
    #[default]
    Separate,
    /// All pairs share two hosts: the client has an interface for each pair.
    Shared,
}

/// The links of one path, one for each direction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathLinks {
    /// From the client to the server, in order.
    pub up: Vec<LinkId>,
    /// From the server to the client, in order.
    pub down: Vec<LinkId>,
}

/// A client and a server and the paths between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPair {
    /// The host that opens the connection.
    pub client: HostId,
    /// The host that accepts it.
    pub server: HostId,
    /// The client's address on each path.
    pub client_addresses: Vec<IpAddr>,
    /// The server's addresses.
    pub server_addresses: Vec<IpAddr>,
    /// The links of each path.
    pub paths: Vec<PathLinks>,
}

impl HostPair {
    /// Returns an upload from the start of the run. Its initial subflow takes the first path.
    pub fn flow(
        &self,
        name: impl Into<String>,
        size: Option<Bytes>,
        config: impl Into<SimConfig>,
    ) -> FlowSpec {
        self.flow_by(0, name, size, config)
    }

    /// Returns an upload from the start of the run. Its initial subflow takes the path of that index, or the
    /// last path if there are fewer.
    pub fn flow_by(
        &self,
        path: usize,
        name: impl Into<String>,
        size: Option<Bytes>,
        config: impl Into<SimConfig>,
    ) -> FlowSpec {
        let choose = |addresses: &[IpAddr]| addresses[path.min(addresses.len() - 1)];
        let client = (self.client, choose(&self.client_addresses));
        let server = (self.server, choose(&self.server_addresses));
        FlowSpec::new(name, client, server, size, config)
    }
}

/// A network and its pairs of hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct Topology {
    /// The hosts and links, to be simulated.
    pub network: Network,
    /// The pairs, at least one.
    pub pairs: Vec<HostPair>,
}

impl Topology {
    /// Returns the same with IPv6 addresses: 10.0.0.1 becomes fd00::a00:1. Headers are 20 bytes longer.
    pub fn over_ipv6(mut self) -> Topology {
        let of = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => {
                let [high, low] = [v4.to_bits() >> 16, v4.to_bits() & 0xffff].map(|half| half as u16);
                IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, high, low))
            }
            v6 => v6,
        };
        self.network.map_addresses(of);
        for pair in &mut self.pairs {
            for ip in pair.client_addresses.iter_mut().chain(&mut pair.server_addresses) {
                *ip = of(*ip);
            }
        }
        self
    }
}

/// Returns one client and one server with disjoint paths between them: the client has an address on each,
/// which determines the path of a packet in both directions.
///
/// # Errors
/// If there is no path, two have the same name, or a link is invalid.
pub fn disjoint(paths: &[PathSpec], server: ServerAddresses) -> Result<Topology, NetworkError> {
    let mut builder = Builder::default();
    let links = paths.iter().map(|path| builder.path(path)).collect::<Result<Vec<_>, _>>()?;
    let ends = (builder.network.add_host("client")?, builder.network.add_host("server")?);
    let pair = builder.pair(ends, paths, links, server)?;
    Ok(Topology { network: builder.network, pairs: vec![pair] })
}

/// Returns paths with one stretch in common, at the server's end: the first pair has all of `paths`, and each
/// of `singles` is the only path of another pair (named after it). Paths may thus differ in their round-trip
/// times and share one bottleneck, with or without competing single-path flows.
///
/// If there is no path, two have the same name (or the name of the bottleneck), or a link is invalid.
/// If there is no path, two have one name (or the name of the bottleneck), or a link is wrong.
pub fn shared_bottleneck(
    paths: &[PathSpec],
    bottleneck: &PathSpec,
    singles: &[PathSpec],
) -> Result<Topology, NetworkError> {
    let mut builder = Builder::default();
    let common = builder.path(bottleneck)?;
    let links = paths.iter().map(|path| builder.path_to(path, &common)).collect::<Result<Vec<_>, _>>()?;
    let ends = (builder.network.add_host("client")?, builder.network.add_host("server")?);
    let mut pairs = vec![builder.pair(ends, paths, links, ServerAddresses::One)?];
    for single in singles {
        let links = vec![builder.path_to(single, &common)?];
        let client = builder.network.add_host(format!("client.{}", single.name))?;
        let server = builder.network.add_host(format!("server.{}", single.name))?;
        let path = core::slice::from_ref(single);
        pairs.push(builder.pair((client, server), path, links, ServerAddresses::One)?);
    }
    Ok(Topology { network: builder.network, pairs })
}

/// Returns `count` pairs, each with its own access link (named `access1` and so on) to one bottleneck.
///
/// # Errors
/// If `count` is zero or a link is invalid.
pub fn dumbbell(
    count: usize,
    access: &Duplex,
    bottleneck: &Duplex,
    hosts: Hosts,
) -> Result<Topology, NetworkError> {
    if count == 0 {
        return Err(NetworkError::NoPath);
    }
    let mut builder = Builder::default();
    let common = builder.path(&PathSpec::new("bottleneck", bottleneck.clone()))?;
    let mut pairs = Vec::with_capacity(count);
    match hosts {
        Hosts::Separate => {
            for number in 1..=count {
                let path = [PathSpec::new(format!("access{number}"), access.clone())];
                let links = vec![builder.path_to(&path[0], &common)?];
                let client = builder.network.add_host(format!("client{number}"))?;
                let server = builder.network.add_host(format!("server{number}"))?;
                pairs.push(builder.pair((client, server), &path, links, ServerAddresses::One)?);
            }
        }
        Hosts::Shared => {
            let mut paths = Vec::with_capacity(count);
            let mut links = Vec::with_capacity(count);
            for number in 1..=count {
                let path = PathSpec::new(format!("access{number}"), access.clone());
                links.push(builder.path_to(&path, &common)?);
                paths.push(path);
            }
            let ends = (builder.network.add_host("client")?, builder.network.add_host("server")?);
            let all = builder.pair(ends, &paths, links, ServerAddresses::One)?;
            for (address, links) in all.client_addresses.iter().zip(&all.paths) {
                pairs.push(HostPair {
                    client_addresses: vec![*address],
                    paths: vec![links.clone()],
                    server_addresses: all.server_addresses.clone(),
                    ..all
                });
            }
        }
    }
    Ok(Topology { network: builder.network, pairs })
}

#[derive(Default)]
struct Builder {
    network: Network,
    clients: u32,
    servers: u32,
}

impl Builder {
    fn client_address(&mut self) -> IpAddr {
        self.clients += 1;
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + self.clients))
    }

    fn server_address(&mut self) -> IpAddr {
        self.servers += 1;
        IpAddr::V4(Ipv4Addr::from_bits(0xac10_0000 + self.servers))
    }

    /// Returns the links of a path.
    fn path(&mut self, path: &PathSpec) -> Result<PathLinks, NetworkError> {
        if path.stretches.is_empty() {
            return Err(NetworkError::NoPath);
        }
        let mut links = PathLinks::default();
        for (index, stretch) in path.stretches.iter().enumerate() {
            let name = match path.stretches.len() {
                1 => path.name.clone(),
                _ => format!("{}.{}", path.name, index + 1),
            };
            links.up.push(self.network.add_link(format!("{name}.up"), stretch.up.clone())?);
            links.down.push(self.network.add_link(format!("{name}.down"), stretch.down.clone())?);
        }
        links.down.reverse();
        Ok(links)
    }

    /// Returns the links of a path, followed at the server's end by the links that it shares with others.
    fn path_to(&mut self, path: &PathSpec, common: &PathLinks) -> Result<PathLinks, NetworkError> {
        let own = self.path(path)?;
        Ok(PathLinks {
            up: [own.up.as_slice(), &common.up].concat(),
            down: [common.down.as_slice(), &own.down].concat(),
        })
    }

    fn pair(
        &mut self,
        (client, server): (HostId, HostId),
        paths: &[PathSpec],
        links: Vec<PathLinks>,
        addresses: ServerAddresses,
    ) -> Result<HostPair, NetworkError> {
        let servers = match addresses {
            _ if paths.is_empty() => return Err(NetworkError::NoPath),
            ServerAddresses::One => 1,
            ServerAddresses::OnePerPath => paths.len(),
        };
        let mut client_addresses = Vec::with_capacity(paths.len());
        let mut server_addresses = Vec::with_capacity(servers);
        for path in paths {
            let ip = self.client_address();
            self.network.add_address(client, ip, path.backup)?;
            client_addresses.push(ip);
        }
        for path in paths.iter().take(servers) {
            let ip = self.server_address();
            let backup = servers > 1 && path.backup;
            self.network.add_address(server, ip, backup)?;
            server_addresses.push(ip);
        }
        for (path, (client_ip, links)) in client_addresses.iter().zip(&links).enumerate() {
            for (server_path, server_ip) in server_addresses.iter().enumerate() {
                self.network.add_route(client, PathId(path as u16), *server_ip, &links.up)?;
                self.network.add_route(server, PathId(server_path as u16), *client_ip, &links.down)?;
            }
        }
        Ok(HostPair { client, server, client_addresses, server_addresses, paths: links })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathSpec {
        PathSpec::new(name, Duplex::symmetric(Rate::from_mbps(10), Duration::from_millis(20)))
    }

    #[test]
    fn the_client_address_decides_the_path_both_ways() {
        for (addresses, servers) in [(ServerAddresses::One, 1), (ServerAddresses::OnePerPath, 2)] {
            let topology = disjoint(&[path("a"), path("b")], addresses).unwrap();
            let pair = &topology.pairs[0];
            assert_eq!(pair.server_addresses.len(), servers);
            assert_eq!(topology.network.routes().len(), 4 * servers);
            for route in topology.network.routes() {
                let up = route.from == pair.client;
                let index = match up {
                    true => usize::from(route.path.0),
                    false => pair.client_addresses.iter().position(|ip| *ip == route.to).unwrap(),
                };
                let links = &pair.paths[index];
                assert_eq!(&route.links, if up { &links.up } else { &links.down });
            }
        }
    }

    #[test]
    fn the_same_routes_lead_over_ipv6() {
        let four = disjoint(&[path("a"), path("b")], ServerAddresses::One).unwrap();
        let six = four.clone().over_ipv6();
        let pair = &six.pairs[0];
        assert!(pair.client_addresses.iter().chain(&pair.server_addresses).all(IpAddr::is_ipv6));
        for (old, new) in four.network.routes().iter().zip(six.network.routes()) {
            assert_eq!((old.from, old.path, &old.links), (new.from, new.path, &new.links));
            assert_eq!(six.network.locate(new.to), four.network.locate(old.to));
        }
        assert_eq!(six.network.locate(four.pairs[0].server_addresses[0]), None);
    }

    #[test]
    fn stretches_are_crossed_in_order_and_back() {
        let long = path("a").then(path("x").stretches[0].clone());
        let topology = shared_bottleneck(&[long, path("b")], &path("common"), &[path("s")]).unwrap();
        let names = |links: &[LinkId]| {
            links.iter().map(|link| topology.network.links()[link.index()].name.as_str()).collect::<Vec<_>>()
        };
        let pair = &topology.pairs[0];
        assert_eq!(names(&pair.paths[0].up), ["a.1.up", "a.2.up", "common.up"]);
        assert_eq!(names(&pair.paths[0].down), ["common.down", "a.2.down", "a.1.down"]);
        assert_eq!(names(&pair.paths[1].up), ["b.up", "common.up"]);
        assert_eq!(names(&topology.pairs[1].paths[0].down), ["common.down", "s.down"]);
        assert_ne!(topology.pairs[1].server, pair.server);
    }

    #[test]
    fn a_dumbbell_has_separate_or_shared_hosts() {
        let link = Duplex::symmetric(Rate::from_mbps(10), Duration::from_millis(20));
        let separate = dumbbell(3, &link, &link, Hosts::Separate).unwrap();
        let shared = dumbbell(3, &link, &link, Hosts::Shared).unwrap();
        assert_eq!((separate.network.hosts().len(), shared.network.hosts().len()), (6, 2));
        assert_eq!((separate.network.links().len(), shared.network.links().len()), (8, 8));
        assert_eq!((separate.pairs.len(), shared.pairs.len()), (3, 3));
        assert_eq!(dumbbell(0, &link, &link, Hosts::Shared), Err(NetworkError::NoPath));
        assert_eq!(disjoint(&[], ServerAddresses::One), Err(NetworkError::NoPath));
    }
}
