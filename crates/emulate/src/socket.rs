//! A device in memory, connected to a port of an engine.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram as StdDatagram;
use std::task::{Context, Poll, ready};

use anabranch_device::{Capabilities, Device, Packet};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::ReadBuf;
use tokio::net::UnixDatagram;

use crate::wiring::Port;

/// Space for packets that the other side has not read yet, in bytes of the kernel's accounting. A full socket
/// loses packets, as the queue of a TUN device does.
const BUFFER: usize = 8 << 20;

/// Returns a port and the descriptor of its other side, which preserve packet boundaries and do not block.
///
/// # Errors
/// If the system has no sockets left.
pub fn socket_pair() -> io::Result<(Port, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    for end in [&here, &there] {
        // The system may permit less.
        let _ = set_socket_send_buffer_size(end, BUFFER);
    }
    Ok((Port::new(here)?, there))
}

/// A device for a host of `anabranch-net`, connected to an engine.
#[derive(Debug)]
pub struct PacketSocket {
    socket: UnixDatagram,
    mtu: u32,
}

impl PacketSocket {
    /// Returns a device with that MTU, and the port at its other side. Has to be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// If the system has no sockets left.
    pub fn pair(mtu: u32) -> io::Result<(Port, PacketSocket)> {
        let (port, there) = socket_pair()?;
        Ok((port, PacketSocket::new(there, mtu)?))
    }

    /// Returns the device of the descriptor of a [`socket_pair`], with that MTU. Has to be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// If the runtime cannot wait for it.
    pub fn new(descriptor: OwnedFd, mtu: u32) -> io::Result<PacketSocket> {
        Ok(PacketSocket { socket: UnixDatagram::from_std(StdDatagram::from(descriptor))?, mtu })
    }
}

impl Device for PacketSocket {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(self.mtu)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        packet.set_len((self.mtu as usize).max(LEAST_ROOM));
        let mut buffer = ReadBuf::new(packet.bytes_mut());
        ready!(self.socket.poll_recv(cx, &mut buffer))?;
        let len = buffer.filled().len();
        if len == 0 {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the links have been stopped",
            )));
        }
        packet.set_len(len);
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        ready!(self.socket.poll_send(cx, packet.bytes()))?;
        Poll::Ready(Ok(()))
    }
}

/// A middlebox may have made packets longer than the MTU.
const LEAST_ROOM: usize = 9216;
