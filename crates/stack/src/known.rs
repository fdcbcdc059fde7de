//! The paths of a host as earlier connections or an application have measured them, for a new connection.

use core::net::IpAddr;

/// The state of a path before a connection uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownPath {
    /// The round-trip time without a queue, in seconds.
    pub rtt: f64,
    /// The payload that it carries, in bytes per second.
    pub rate: f64,
    /// The probability that a segment is lost.
    pub loss: f64,
}

/// The known paths of a connection. A path has the address that distinguishes it: an address of the host with several paths. That is the
/// local address where this host has them, and the remote one where the peer has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownPaths(Vec<(IpAddr, KnownPath)>);

impl KnownPaths {
    /// Returns the path between these addresses.
    pub fn between(&self, local: IpAddr, remote: IpAddr) -> Option<&KnownPath> {
        let of = |address: IpAddr| self.0.iter().find(|(own, _)| *own == address).map(|(_, known)| known);
        of(local).or_else(|| of(remote))
    }
}

impl FromIterator<(IpAddr, KnownPath)> for KnownPaths {
    fn from_iter<I: IntoIterator<Item = (IpAddr, KnownPath)>>(paths: I) -> KnownPaths {
        KnownPaths(paths.into_iter().collect())
    }
}
