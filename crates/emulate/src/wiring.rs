//! What is joined to what: ports, and the links between them.

use std::os::fd::{AsFd, OwnedFd};

use anabranch_link::{LinkConfig, LinkConfigError};
use anabranch_sim::LinkId;
use anabranch_sim::topology::Topology;

/// Where packets come from and go to: a descriptor that gives and takes one IP packet a call and does not block.
#[derive(Debug)]
pub struct Port(pub(crate) OwnedFd);

impl Port {
    /// The port that `fd` is: a TUN device without offload and without packet information, or a socket that keeps the
    /// boundaries of packets.
    ///
    /// # Errors
    /// If the descriptor cannot be told not to block.
    pub fn new(fd: OwnedFd) -> std::io::Result<Port> {
        rustix::io::ioctl_fionbio(fd.as_fd(), true)?;
        Ok(Port(fd))
    }
}

/// One direction of a path: what comes in at a port crosses links and leaves by another port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The port where its packets come from; no other lane has it.
    pub from: usize,
    /// The port where they go to.
    pub to: usize,
    /// The links, in order; at least one.
    pub links: Vec<usize>,
}

impl Lane {
    /// Both directions of each path of the first pair of `topology`, as [`Wiring::new`] numbers them.
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

/// Ports, links, and the lanes over them.
#[derive(Debug)]
pub struct Wiring {
    /// The links, each with the name that seeds its random streams.
    pub links: Vec<(String, LinkConfig)>,
    /// The lanes.
    pub lanes: Vec<Lane>,
    /// The ports.
    pub ports: Vec<Port>,
}

impl Wiring {
    /// The paths of the first pair of `topology` between ports of its client and of its server, one of each for each
    /// path. The ports are numbered client by client, then server by server; lane `2 n` leads up path `n`, and
    /// lane `2 n + 1` down. Links have the names they have in the simulator.
    pub fn new(topology: &Topology, client: Vec<Port>, server: Vec<Port>) -> Wiring {
        let links = topology.network.links().iter();
        let links = links.map(|link| (link.name.clone(), link.config.clone())).collect();
        let ports = client.into_iter().chain(server).collect();
        Wiring { links, lanes: Lane::of(topology), ports }
    }

    /// Whether an engine can be made of it.
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
        match self.ports.len() {
            0..=MOST_PORTS => Ok(()),
            ports => Err(WiringError::Ports(ports)),
        }
    }
}

/// More ports than any scenario has.
const MOST_PORTS: usize = 1000;

/// Why a wiring is none.
#[derive(Clone, Debug, PartialEq)]
pub enum WiringError {
    /// A lane names a port or a link that is not there, or has no link.
    Missing,
    /// Two lanes begin at one port.
    Twice(usize),
    /// There are too many ports.
    Ports(usize),
    /// A link cannot be as it is described.
    Link(String, LinkConfigError),
}

impl core::fmt::Display for WiringError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            WiringError::Missing => {
                f.write_str("a lane needs a link, and names of ports and links that are there")
            }
            WiringError::Twice(port) => write!(f, "two lanes begin at port {port}"),
            WiringError::Ports(ports) => write!(f, "there are {ports} ports; {MOST_PORTS} are the most"),
            WiringError::Link(name, error) => write!(f, "link `{name}`: {error}"),
        }
    }
}

impl std::error::Error for WiringError {}
