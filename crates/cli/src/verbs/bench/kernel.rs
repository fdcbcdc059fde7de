//! Kernel sockets, TCP's or Multipath TCP's, instead of a host of anabranch.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use anabranch_setup::RealSystem;
use anabranch_setup::doctor::is_multipath;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto, sockopt};

use super::{Args, Reader, Writer};
use crate::online::bench::CHUNK;

/// The number of connections up to which `ss` is run for each.
const MOST_ASKED: u32 = 16;
/// `IPPROTO_MPTCP`.
const MPTCP: u32 = 262;

fn socket_of(args: &Args, family: AddressFamily) -> io::Result<OwnedFd> {
    let protocol = if args.kernel.as_deref() == Some("mptcp") {
        std::num::NonZeroU32::new(MPTCP).map(Protocol::from_raw)
    } else {
        Some(ipproto::TCP)
    };
    Ok(rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, protocol)?)
}

/// A connection of the kernel.
pub(super) struct Opened {
    pub read: Reader,
    pub write: Writer,
    /// Whether it uses Multipath TCP after the handshake, if that was requested and can be determined.
    pub is_multipath: Option<bool>,
}

pub(super) async fn connect(args: &Args, name: &str) -> io::Result<Opened> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let found = tokio::net::lookup_host((bare, args.port)).await?.next();
    let to = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))?;
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_of(args, family)?;
    let socket = tokio::task::spawn_blocking(move || {
        rustix::net::connect(&socket, &to)?;
        io::Result::Ok(socket)
    });
    let stream = std::net::TcpStream::from(socket.await.map_err(io::Error::other)??);
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let wanted = args.kernel.as_deref() == Some("mptcp") && args.parallel <= MOST_ASKED;
    let local = stream.local_addr().ok().filter(|_| wanted);
    let is_multipath = local.and_then(|local| is_multipath(local, &mut RealSystem).ok());
    let (read, write) = tokio::net::TcpStream::from_std(stream)?.into_split();
    Ok(Opened { read: buffered(read), write: Box::new(write), is_multipath })
}

/// Returns a reader of a kernel socket, which copies the bytes.
pub(super) fn buffered(read: tokio::net::tcp::OwnedReadHalf) -> Reader {
    Box::new(tokio::io::BufReader::with_capacity(CHUNK, read))
}

pub(super) fn listen(args: &Args) -> io::Result<tokio::net::TcpListener> {
    let at = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), args.port);
    let (socket, at) = match socket_of(args, AddressFamily::INET6) {
        Ok(socket) => (socket, at),
        // A kernel without IPv6.
        Err(_) => {
            let at = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), args.port);
            (socket_of(args, AddressFamily::INET)?, at)
        }
    };
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, 4096)?;
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}
