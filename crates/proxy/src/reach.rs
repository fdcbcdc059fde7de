//! Connections to destinations: names, and several addresses one after the other.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_scenario::policy::proxy::Treatment;
use tokio::time::timeout;

use crate::convert::{Destination, Host};
use crate::transport::Transport;

/// The time for an address, if others are left.
const PATIENCE: Duration = Duration::from_secs(4);
/// The time for the last one.
const LAST_PATIENCE: Duration = Duration::from_secs(20);
/// The most addresses of a name that are tried.
const MOST: usize = 4;

/// Returns the addresses of a destination, in the order of the system.
pub(crate) async fn resolve(destination: &Destination) -> io::Result<Vec<SocketAddr>> {
    match &destination.host {
        Host::Address(ip) => Ok(vec![SocketAddr::new(*ip, destination.port)]),
        Host::Name(name) => {
            let found = tokio::net::lookup_host((name.as_str(), destination.port)).await?;
            let mut found: Vec<SocketAddr> = found.collect();
            found.truncate(MOST);
            Ok(found)
        }
    }
}

/// Connects to the first address that answers.
pub(crate) async fn connect<T: Transport>(
    transport: &T,
    addresses: &[SocketAddr],
    how: &Treatment,
) -> io::Result<T::Link> {
    let mut result = Err(io::Error::new(io::ErrorKind::NotFound, "its name has no address"));
    for (at, address) in addresses.iter().enumerate() {
        let patience = if at + 1 == addresses.len() { LAST_PATIENCE } else { PATIENCE };
        result = match timeout(patience, transport.dial(*address, how)).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
    }
    result
}
