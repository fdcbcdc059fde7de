//! The unsafe code: socket options that no crate supports.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use tokio::io::unix::AsyncFd;

/// Returns a descriptor; tasks can wait until it is ready.
pub(crate) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` has the same descriptor until it is dropped, and nothing closes it before.
    let registered = unsafe { AsyncFd::register(fd) };
    registered.map_err(io::Error::from)
}

pub(crate) fn set_socket_option(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of the value, which has that length and lives through the call.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
