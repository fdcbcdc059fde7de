//! Sockets that the process was started with, as by a `.socket` unit of systemd.
//!
//! As in sd_listen_fds(3): `LISTEN_FDS` sockets from descriptor 3 on for the process `LISTEN_PID`, with their names in
//! `LISTEN_FDNAMES`.

use std::net::TcpListener;

use listenfd::ListenFd;
use socket2::{Protocol, SockRef};

/// A listening socket.
#[derive(Debug)]
pub struct Passed {
    /// Its name (`FileDescriptorName=`); without one the name of the unit.
    pub name: String,
    /// The socket.
    pub listener: TcpListener,
}

/// The most sockets. `listenfd` has an entry for each that the variable announces.
const MOST: u64 = 64;

/// Takes the sockets; none if the process was started without. To be called before there are threads, and once: it removes the
/// variables.
///
/// # Errors
/// If one of them does not listen for connections of TCP; with a remedy.
pub fn take() -> Result<Vec<Passed>, String> {
    let announced = std::env::var("LISTEN_FDS").ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(count) = announced.filter(|count| *count > MOST) {
        return Err(format!(
            "LISTEN_FDS announces {count} sockets, and {MOST} are the most; unset it if there are none"
        ));
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut all = ListenFd::from_env();
    let mut passed = Vec::new();
    for at in 0..all.len() {
        let name = names.next().unwrap_or_default().to_owned();
        let wrong = |why: &str| {
            format!(
                "the process was started with the socket number {at} `{name}`, which {why}; give the unit `ListenStream=IP:PORT` and \
                 `Accept=no`"
            )
        };
        let listener =
            all.take_tcp_listener(at).map_err(|error| wrong(&format!("is of no use ({error})")))?;
        let Some(listener) = listener else { continue };
        if !SockRef::from(&listener).is_listener().unwrap_or(false) {
            return Err(wrong("does not listen"));
        }
        listener.set_nonblocking(true).map_err(|error| wrong(&format!("is of no use ({error})")))?;
        passed.push(Passed { name, listener });
    }
    Ok(passed)
}

/// True if connections to the socket can be Multipath TCP.
pub fn is_mptcp(socket: &TcpListener) -> bool {
    SockRef::from(socket).protocol().is_ok_and(|protocol| protocol == Some(Protocol::MPTCP))
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket, Type};

    use super::*;

    #[test]
    fn a_socket_of_multipath_tcp_is_told_from_a_plain_one() {
        for protocol in [Protocol::TCP, Protocol::MPTCP] {
            // The kernel may have no Multipath TCP.
            let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)) else { continue };
            socket.listen(1).unwrap();
            assert_eq!(is_mptcp(&socket.into()), protocol == Protocol::MPTCP);
        }
    }
}
