//! Connections that the system has redirected to the proxy (`nft ... redirect to`): the application knows nothing of it.

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::convert::{Destination, Host};

/// Returns the destination that the application has dialled; none if the connection is not redirected.
pub(crate) fn destination(stream: &TcpStream) -> Option<Destination> {
    let local = stream.local_addr().ok()?;
    let socket = SockRef::from(stream);
    let original = if local.is_ipv4() { socket.original_dst_v4() } else { socket.original_dst_v6() };
    let original = original.ok()?.as_socket()?;
    // Who connects to the port itself would be sent in a circle.
    (original != local).then(|| Destination { host: Host::Address(original.ip()), port: original.port() })
}
