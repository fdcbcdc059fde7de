//! The ioctls of `/dev/net/tun` and of network interfaces, from `linux/if_tun.h` and `net/if.h`.
//!
//! The only unsafe code of this crate. Each call passes the kernel an integer, or a `#[repr(C)]` structure of
//! the size that the ioctl reads and writes, which lives on this stack during the call. Registering a file
//! descriptor with tokio is unsafe too.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::unix::AsyncFd;

use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, IntegerSetter, Opcode, Updater, ioctl, opcode};

/// The size of an interface name, with the terminating zero.
const IFNAMSIZ: usize = 16;

/// Packets with their IP header, without an Ethernet header.
pub(super) const IFF_TUN: u16 = 0x0001;
/// No four bytes with the protocol before each packet.
pub(super) const IFF_NO_PI: u16 = 0x1000;
/// A virtio-net header before each packet.
pub(super) const IFF_VNET_HDR: u16 = 0x4000;
/// Several queues.
pub(super) const IFF_MULTI_QUEUE: u16 = 0x0100;

/// The kernel may deliver packets with an incomplete checksum.
pub(super) const TUN_F_CSUM: u32 = 0x01;
/// TCP over IPv4 in super-packets.
pub(super) const TUN_F_TSO4: u32 = 0x02;
/// TCP over IPv6 in super-packets.
pub(super) const TUN_F_TSO6: u32 = 0x04;

/// The interface is up.
pub(super) const IFF_UP: u16 = 0x0001;
/// The interface is in operation.
pub(super) const IFF_RUNNING: u16 = 0x0040;

/// `struct ifreq` with the member of its union that is used here.
#[repr(C)]
struct Request {
    name: [u8; IFNAMSIZ],
    value: Value,
    rest: [u8; 20],
}

#[repr(C)]
union Value {
    flags: u16,
    int: i32,
}

const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);
const TUNGETFEATURES: Opcode = opcode::read::<u32>(b'T', 207);
const TUNSETOFFLOAD: Opcode = opcode::write::<u32>(b'T', 208);
const SIOCGIFFLAGS: Opcode = 0x8913;
const SIOCGIFMTU: Opcode = 0x8921;

fn request(name: &str) -> Result<Request> {
    let mut request = Request { name: [0; IFNAMSIZ], value: Value { int: 0 }, rest: [0; 20] };
    // The last byte stays zero.
    if name.is_empty() || name.len() >= IFNAMSIZ || name.bytes().any(|byte| byte == 0) {
        return Err(Errno::INVAL);
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    Ok(request)
}

/// Binds the open `/dev/net/tun` to the interface `name`.
pub(super) fn set_interface(fd: BorrowedFd<'_>, name: &str, flags: u16) -> Result<()> {
    let mut request = request(name)?;
    request.value.flags = flags;
    // SAFETY: TUNSETIFF reads and writes a struct ifreq of 40 bytes, which `Request` is.
    unsafe { ioctl(fd, Updater::<TUNSETIFF, Request>::new(&mut request)) }
}

/// Registers `fd` with tokio for readiness.
pub(super) fn register(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always lends the same descriptor, which stays open until the `AsyncFd` that owns
    // it has been deregistered from tokio.
    Ok(unsafe { AsyncFd::register(fd) }?)
}

/// Sets the offloads that the reader of the device supports.
pub(super) fn set_offload(fd: BorrowedFd<'_>, flags: u32) -> Result<()> {
    // SAFETY: TUNSETOFFLOAD takes the flags as its argument and reads no memory.
    unsafe { ioctl(fd, IntegerSetter::<TUNSETOFFLOAD>::new_usize(flags as usize)) }
}

/// Returns the flags (`IFF_*`) that a device of this kernel may have; no device needs to be bound.
pub(super) fn features(fd: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: TUNGETFEATURES writes an unsigned int, which `u32` is.
    unsafe { ioctl(fd, Getter::<TUNGETFEATURES, u32>::new()) }
}

/// Returns the flags of the interface `name`, through any socket.
pub(super) fn interface_flags(socket: impl AsFd, name: &str) -> Result<u16> {
    let mut request = request(name)?;
    // SAFETY: SIOCGIFFLAGS reads and writes a struct ifreq; it sets `flags`, and all bit patterns
    // are valid ones.
    unsafe {
        ioctl(socket, Updater::<SIOCGIFFLAGS, Request>::new(&mut request))?;
        Ok(request.value.flags)
    }
}

/// Returns the MTU of the interface `name`, through any socket.
pub(super) fn interface_mtu(socket: impl AsFd, name: &str) -> Result<u32> {
    let mut request = request(name)?;
    // SAFETY: SIOCGIFMTU reads and writes a struct ifreq; it sets the integer, and all bit patterns
    // are valid ones.
    let mtu = unsafe {
        ioctl(socket, Updater::<SIOCGIFMTU, Request>::new(&mut request))?;
        request.value.int
    };
    u32::try_from(mtu).map_err(|_| Errno::INVAL)
}

const _: () = assert!(core::mem::size_of::<Request>() == 40);
