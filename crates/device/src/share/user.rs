//! The end of a process that uses a shared device.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use super::{Greeting, HEADER, LONGEST_GREETING, of_message, to_message};
use crate::tun::watch;
use crate::{Capabilities, Device, Packet};

/// The time for the connection, and for the greeting, which comes at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// A device of another process. The addresses are given back when it is dropped.
#[derive(Debug)]
pub struct SharedDevice {
    socket: AsyncFd<OwnedFd>,
    greeting: Greeting,
}

impl SharedDevice {
    /// Connects to the socket of the process that owns the device. Has to be called within a tokio runtime.
    ///
    /// # Errors
    /// If there is no such process, this user may not connect, or all addresses are taken.
    pub fn connect(path: &Path) -> io::Result<SharedDevice> {
        SharedDevice::connect_within(path, PATIENCE)
    }

    pub(super) fn connect_within(path: &Path, patience: Duration) -> io::Result<SharedDevice> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // The first one is for the connection too.
        for timeout in [Timeout::Send, Timeout::Recv] {
            rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(patience))?;
        }
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        SharedDevice::greet(socket)
    }

    /// Waits for the greeting.
    pub(super) fn greet(socket: OwnedFd) -> io::Result<SharedDevice> {
        let mut message = [0; LONGEST_GREETING];
        let (_, length) = rustix::net::recv(&socket, &mut message[..], RecvFlags::empty())?;
        if length == 0 {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the owner of the device has ended"));
        }
        let greeting = Greeting::parse(&message[..length.min(LONGEST_GREETING)])?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        // Without the privilege the system's limit holds.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, 4 << 20);
        Ok(SharedDevice { socket: watch(socket)?, greeting })
    }

    /// Returns the addresses of this process, in order of preference.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.greeting.addresses
    }

    fn gone(&self, error: io::Error) -> io::Error {
        io::Error::new(
            error.kind(),
            format!("the owner of the device `{}` is gone: {error}", self.greeting.device),
        )
    }
}

impl Device for SharedDevice {
    fn capabilities(&self) -> Capabilities {
        self.greeting.capabilities
    }

    fn name(&self) -> Option<&str> {
        Some(&self.greeting.device)
    }

    fn another(&self) -> io::Result<Box<dyn Device>> {
        let socket = watch(self.socket.get_ref().try_clone()?)?;
        Ok(Box::new(SharedDevice { socket, greeting: self.greeting.clone() }))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        packet.reserve(self.capabilities().max_packet().max(2_048));
        let mut ready = None;
        loop {
            match rustix::net::recv(&self.socket, packet.whole(HEADER), RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Poll::Ready(Err(self.gone(io::ErrorKind::ConnectionReset.into()))),
                Ok((_, length)) => {
                    let length = length.min(HEADER + packet.capacity());
                    if of_message(packet, length).is_some() {
                        return Poll::Ready(Ok(()));
                    }
                }
                Err(Errno::AGAIN) => {
                    // A readiness from before this call is stale, and has to be cleared.
                    if let Some(mut guard) = ready.take() {
                        let guard: &mut AsyncFdReadyGuard<'_, OwnedFd> = &mut guard;
                        guard.clear_ready();
                    }
                    ready = Some(ready!(self.socket.poll_read_ready(cx))?);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(self.gone(errno.into()))),
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let mut ready = None;
        loop {
            match rustix::net::send(
                &self.socket,
                to_message(packet),
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(Errno::AGAIN) => {
                    if let Some(mut guard) = ready.take() {
                        let guard: &mut AsyncFdReadyGuard<'_, OwnedFd> = &mut guard;
                        guard.clear_ready();
                    }
                    ready = Some(ready!(self.socket.poll_write_ready(cx))?);
                }
                Err(Errno::INTR) => {}
                // As if the packet were lost.
                Err(Errno::NOBUFS | Errno::NOMEM | Errno::MSGSIZE) => return Poll::Ready(Ok(())),
                Err(errno) => return Poll::Ready(Err(self.gone(errno.into()))),
            }
        }
    }
}
