//! The topology of an engine: ports, and the links between them.

use std::os::fd::{AsFd, OwnedFd};

use anabranch_link::{LinkConfig, LinkConfigError, MiddleboxConfig};
use anabranch_sim::LinkId;
use anabranch_sim::topology::Topology;

/// A source and destination of packets: a descriptor that reads and writes one IP packet per call and does
/// not block.
#[derive(Debug)]
pub struct Port(pub(crate) OwnedFd);

impl Port {
    /// Returns the port of `fd`: a TUN device without offload and without packet information, or a socket
    /// that preserves packet boundaries.
    ///
    /// # Errors
    /// If the descriptor cannot be made non-blocking.
    pub fn new(fd: OwnedFd) -> std::io::Result<Port> {
        rustix::io::ioctl_fionbio(fd.as_fd(), true)?;
        Ok(Port(fd))
    }
}

/// One direction of a path: packets that arrive at one port cross links and leave by another port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The port of its sender, which no other lane has.
    pub from: usize,
    /// The port of its receiver.
    pub to: usize,
    /// The links, in order; at least one.
    pub links: Vec<usize>,
}

impl Lane {
    /// Returns both directions of each path of the first pair of `topology`, as [`Wiring::new`] numbers them.
    pub(crate) fn of(topology: &Topology) -> Vec<Lane> {
        let paths = topology.pairs.first().map_or(&[][..], |pair| &pair.paths);
        let numbers = |links: &[LinkId]| links.iter().map(|link| link.index()).collect();
        let both = paths.iter().enumerate().flat_map(|(near, path)| {
            let far = paths.len() + near;
            [
                Lane { from: near, to: far, links: numbers(&path.up) },
                Lane { from: far, to: near, links: numbers(&path.down) },
            ]
        });
        both.collect()
    }
}

/// A middlebox at the client's end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its name, which is the name of its path.
    pub name: String,
    /// Its settings.
    pub config: MiddleboxConfig,
    /// The link that packets from the client enter after it.
    pub up: usize,
    /// The link that packets to the client have crossed before it.
    pub down: usize,
}

/// Ports, links, and the lanes over them.
#[derive(Debug)]
pub struct Wiring {
    /// The links, each with the name of its random streams.
    pub links: Vec<(String, LinkConfig)>,
    /// The lanes, two for each path: up, then down.
    pub lanes: Vec<Lane>,
    /// The middleboxes at the ends of links.
    pub middleboxes: Vec<Placed>,
    /// The ports, to which lanes refer by position.
    pub ports: Vec<Port>,
}

impl Wiring {
    /// Returns the paths of the first pair of `topology` between ports of its client and of its server, one
    /// of each for each path. The ports of the client come first, then the ports of the server; lane `2 n` is
    /// path `n` up, and lane `2 n + 1` down. Links have the same names as in the simulator.
    pub fn new(topology: &Topology, client: Vec<Port>, server: Vec<Port>) -> Wiring {
        let links = topology.network.links().iter();
        let links = links.map(|link| (link.name.clone(), link.config.clone())).collect();
        let ports = client.into_iter().chain(server).collect();
        let middleboxes = topology.network.middleboxes().iter().map(|spec| Placed {
            name: spec.name.clone(),
            config: spec.config,
            up: spec.up.index(),
            down: spec.down.index(),
        });
        Wiring { links, lanes: Lane::of(topology), middleboxes: middleboxes.collect(), ports }
    }

    /// Checks the wiring.
    pub(crate) fn check(&self) -> Result<(), WiringError> {
        let mut used = vec![false; self.ports.len()];
        for lane in &self.lanes {
            let there = lane.from < used.len() && lane.to < used.len() && !lane.links.is_empty();
            if !there || lane.links.iter().any(|&link| link >= self.links.len()) {
                return Err(WiringError::Missing);
            }
            if core::mem::replace(&mut used[lane.from], true) {
                return Err(WiringError::Twice(lane.from));
            }
        }
        if self.middleboxes.iter().any(|placed| placed.up.max(placed.down) >= self.links.len()) {
            return Err(WiringError::Missing);
        }
        match self.ports.len() {
            0..=MOST_PORTS => Ok(()),
            ports => Err(WiringError::Ports(ports)),
        }
    }
}

/// More ports than any scenario has.
const MOST_PORTS: usize = 1000;

/// The reason that a wiring is invalid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WiringError {
    /// A lane refers to a port or a link that does not exist, or has no link.
    Missing,
    /// Two lanes begin at the same port.
    Twice(usize),
    /// There are too many ports.
    Ports(usize),
    /// The configuration of a link is invalid.
    Link(String, LinkConfigError),
}

impl core::fmt::Display for WiringError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            WiringError::Missing => f.write_str("a lane needs a link, and existing ports and links"),
            WiringError::Twice(port) => write!(f, "two lanes begin at port {port}"),
            WiringError::Ports(ports) => write!(f, "there are {ports} ports; the limit is {MOST_PORTS}"),
            WiringError::Link(name, error) => write!(f, "link `{name}`: {error}"),
        }
    }
}

impl std::error::Error for WiringError {}
