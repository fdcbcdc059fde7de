//! A TUN device of Linux: reads return packets that the kernel routes to it, and writes deliver packets to
//! the kernel.

mod queues;
mod sys;
mod vnet;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use super::{Capabilities, Device, Packet};
use vnet::VnetHeader;

/// True if devices of this kernel can have a virtio-net header, without which nothing can be offloaded;
/// `file` is `/dev/net/tun`, open.
pub fn can_offload(file: impl AsFd) -> bool {
    sys::features(file.as_fd()).is_ok_and(|features| features & u32::from(sys::IFF_VNET_HDR) != 0)
}

/// The options of a TUN device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunOptions {
    /// Leaves checksums and segmentation to the kernel (`IFF_VNET_HDR`). Packets are then up to 64 KiB long
    /// in both directions, and a byte costs a fifth.
    pub offload: bool,
}

impl Default for TunOptions {
    fn default() -> TunOptions {
        TunOptions { offload: true }
    }
}

/// The reason that a TUN device could not be opened. Its text includes a remedy.
#[derive(Debug)]
pub enum TunError {
    /// The machine has no `/dev/net/tun`.
    NoTunSupport(io::Error),
    /// No interface has that name.
    Missing(String),
    /// The interface is not a TUN device.
    NotTun(String),
    /// Permission was denied.
    NotPermitted(String),
    /// Another process has opened it.
    Busy(String),
    /// The interface is down.
    Down(String),
    /// Any other error.
    Other(String, io::Error),
}

impl fmt::Display for TunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunError::NoTunSupport(error) => write!(
                f,
                "cannot open /dev/net/tun: {error}; load the module with `modprobe tun`, or pass the device \
                 to the container"
            ),
            TunError::Missing(name) => write!(
                f,
                "there is no interface `{name}`; make it with `anabranch tun setup`, or with `ip tuntap add dev \
                 {name} mode tun user $USER` and `ip link set {name} up`"
            ),
            TunError::NotTun(name) => write!(
                f,
                "`{name}` is not a TUN device; name one made by `anabranch tun setup` or `ip tuntap add dev \
                 NAME mode tun`"
            ),
            TunError::NotPermitted(name) => write!(
                f,
                "no permission to open `{name}`; run as root (CAP_NET_ADMIN), or use a device made for this \
                 user with `ip tuntap add dev {name} mode tun user $USER`"
            ),
            TunError::Busy(name) => {
                write!(f, "another process uses `{name}`; end it, or give each a device of its own")
            }
            TunError::Down(name) => write!(f, "`{name}` is down; bring it up with `ip link set {name} up`"),
            TunError::Other(name, error) => write!(f, "cannot open `{name}`: {error}"),
        }
    }
}

impl std::error::Error for TunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TunError::NoTunSupport(error) | TunError::Other(_, error) => Some(error),
            _ => None,
        }
    }
}

impl TunError {
    /// Returns the error for a descriptor that could not be bound to the device `name`.
    fn binding(name: &str, errno: Errno) -> TunError {
        match errno {
            Errno::INVAL => TunError::NotTun(name.to_owned()),
            Errno::PERM | Errno::ACCESS => TunError::NotPermitted(name.to_owned()),
            Errno::BUSY => TunError::Busy(name.to_owned()),
            errno => TunError::Other(name.to_owned(), errno.into()),
        }
    }
}

/// Returns a descriptor that is bound to no device yet.
fn unbound() -> Result<OwnedFd, TunError> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open("/dev/net/tun", flags, Mode::empty())
        .map_err(|errno| TunError::NoTunSupport(errno.into()))
}

/// Returns the flags of a device that is attached to.
const fn binding_flags(offload: bool, multi_queue: bool) -> u16 {
    let mut flags = sys::IFF_TUN | sys::IFF_NO_PI;
    if offload {
        flags |= sys::IFF_VNET_HDR;
    }
    if multi_queue {
        flags |= sys::IFF_MULTI_QUEUE;
    }
    flags
}

/// Registers a descriptor with tokio, to wait until it is readable or writable. Has to be called within a tokio runtime.
///
/// # Errors
/// If it cannot be waited for.
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    sys::register(fd)
}

/// Opens the device `name` in the network namespace of this thread, creating it if necessary, for a caller
/// that reads it itself: each read returns and each write takes one IP packet, whole and with its checksums,
/// and neither blocks. A device that was created is removed with its descriptor.
///
/// # Errors
/// [`TunError`]; its text includes a remedy.
pub fn open(name: &str) -> Result<OwnedFd, TunError> {
    let fd = unbound()?;
    sys::set_interface(fd.as_fd(), name, sys::IFF_TUN | sys::IFF_NO_PI)
        .map_err(|errno| TunError::binding(name, errno))?;
    sys::set_offload(fd.as_fd(), 0).map_err(|errno| TunError::Other(name.to_owned(), errno.into()))?;
    Ok(fd)
}

/// The longest time to wait for an interface, in milliseconds.
const MOST_WAITING: u32 = 100;

/// Waits until the interface is in operation. The kernel brings it into operation by itself some time after
/// the device was opened; until then it drops the packets that it sends there, such as the answer to a first
/// SYN, which is then repeated a second later.
fn await_operation(socket: &OwnedFd, name: &str) {
    for _ in 0..MOST_WAITING {
        match sys::interface_flags(socket, name) {
            Ok(flags) if flags & sys::IFF_RUNNING == 0 => std::thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// A TUN device that is read and written without blocking.
#[derive(Debug)]
pub struct TunDevice {
    fd: AsyncFd<OwnedFd>,
    name: String,
    mtu: u32,
    offload: bool,
    /// True if the device was made with several queues. This handle has one of them.
    multi_queue: bool,
    /// The number of packets that the kernel rejected.
    refused: u64,
}

impl TunDevice {
    /// Attaches to the device `name`, which exists and is up, and waits some milliseconds at most for its
    /// interface to be in operation. Has to be called within a tokio runtime.
    ///
    /// # Errors
    /// [`TunError`]; its text includes a remedy.
    pub fn attach(name: &str, options: TunOptions) -> Result<TunDevice, TunError> {
        let other = |errno: Errno| TunError::Other(name.to_owned(), errno.into());
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
                .map_err(other)?;
        let up = match sys::interface_flags(&socket, name) {
            Ok(flags) => flags & sys::IFF_UP != 0,
            Err(Errno::NODEV | Errno::INVAL) => return Err(TunError::Missing(name.to_owned())),
            Err(errno) => return Err(other(errno)),
        };
        // The kernel lets every process open one more queue, and each then gets a part of the packets.
        let others = queues::open_queues(name).unwrap_or_default();
        if others.is_some_and(|others| others > 0) {
            return Err(TunError::Busy(name.to_owned()));
        }
        let mut multi_queue = others.is_some();
        let fd = unbound()?;
        let mut set = sys::set_interface(fd.as_fd(), name, binding_flags(options.offload, multi_queue));
        if set == Err(Errno::INVAL) && !multi_queue {
            // Without rtnetlink, this shows it.
            multi_queue = true;
            set = sys::set_interface(fd.as_fd(), name, binding_flags(options.offload, true));
        }
        set.map_err(|errno| TunError::binding(name, errno))?;
        if multi_queue && queues::open_queues(name).is_ok_and(|all| all > Some(1)) {
            return Err(TunError::Busy(name.to_owned()));
        }
        if !up {
            return Err(TunError::Down(name.to_owned()));
        }
        await_operation(&socket, name);
        // This call also waits for the kernel's pending changes to its interfaces.
        let offloads = if options.offload { sys::TUN_F_CSUM | sys::TUN_F_TSO4 | sys::TUN_F_TSO6 } else { 0 };
        sys::set_offload(fd.as_fd(), offloads).map_err(other)?;
        let mtu = sys::interface_mtu(&socket, name).map_err(other)?;
        let fd = watch(fd).map_err(|error| TunError::Other(name.to_owned(), error))?;
        Ok(TunDevice { fd, name: name.to_owned(), mtu, offload: options.offload, multi_queue, refused: 0 })
    }

    /// Returns the number of packets that the kernel rejected.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    const fn headroom(&self) -> usize {
        if self.offload { VnetHeader::LEN } else { 0 }
    }

    fn gone(&self, errno: Errno) -> io::Error {
        let error = io::Error::from(errno);
        io::Error::new(error.kind(), format!("the TUN device `{}` has failed: {error}", self.name))
    }
}

impl Device for TunDevice {
    fn capabilities(&self) -> Capabilities {
        Capabilities { mtu: self.mtu, checksum_offload: self.offload, segmentation_offload: self.offload }
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn another(&self) -> io::Result<Box<dyn Device>> {
        let &TunDevice { mtu, offload, multi_queue, .. } = self;
        let fd = if multi_queue {
            let fd = unbound().map_err(io::Error::other)?;
            sys::set_interface(fd.as_fd(), &self.name, binding_flags(offload, true))
                .map_err(|errno| io::Error::other(TunError::binding(&self.name, errno)))?;
            fd
        } else {
            self.fd.get_ref().try_clone()?
        };
        let (fd, name) = (watch(fd)?, self.name.clone());
        Ok(Box::new(TunDevice { fd, name, mtu, offload, multi_queue, refused: 0 }))
    }

    fn has_own_queue(&self) -> bool {
        self.multi_queue
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let headroom = self.headroom();
        // The MTU of the interface may have been raised since.
        packet.reserve(self.capabilities().max_packet().max(2_048));
        packet.offload = super::Offload::default();
        let mut ready = None;
        loop {
            // A packet is usually available, and polling for readiness costs more than trying.
            match rustix::io::read(&self.fd, packet.whole(headroom)) {
                Ok(n) if n < headroom => {}
                Ok(n) => {
                    if let Some(header) = packet.whole(headroom).first_chunk().filter(|_| headroom > 0) {
                        packet.offload = VnetHeader::from_bytes(header).offload();
                    }
                    packet.set_len(n - headroom);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::AGAIN) => {
                    // A readiness from before this read is stale, and has to be cleared.
                    if let Some(mut guard) = ready.take() {
                        let guard: &mut tokio::io::unix::AsyncFdReadyGuard<'_, OwnedFd> = &mut guard;
                        guard.clear_ready();
                    }
                    ready = Some(ready!(self.fd.poll_read_ready(cx))?);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(self.gone(errno))),
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let headroom = self.headroom();
        if headroom > 0 {
            let header = VnetHeader::for_packet(packet);
            packet.with_headroom(headroom)[..headroom].copy_from_slice(&header.to_bytes());
        }
        let mut ready = None;
        loop {
            match rustix::io::write(&self.fd, packet.with_headroom(headroom)) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(Errno::AGAIN) => {
                    if let Some(mut guard) = ready.take() {
                        let guard: &mut tokio::io::unix::AsyncFdReadyGuard<'_, OwnedFd> = &mut guard;
                        guard.clear_ready();
                    }
                    ready = Some(ready!(self.fd.poll_write_ready(cx))?);
                }
                Err(Errno::INTR) => {}
                // The interface is down for now, or has no memory: treated as if the packet were lost.
                Err(Errno::IO | Errno::NOBUFS | Errno::NOMEM | Errno::INVAL) => {
                    self.refused += 1;
                    return Poll::Ready(Ok(()));
                }
                Err(errno) => return Poll::Ready(Err(self.gone(errno))),
            }
        }
    }
}
