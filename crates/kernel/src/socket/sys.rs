//! The unsafe code: a socket option that no crate supports.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Fills `buffer` with a socket option; some options read the buffer first. Returns the number of bytes that the kernel
/// has written.
pub(super) fn socket_option(
    socket: impl AsFd,
    level: i32,
    name: i32,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut length = buffer.len() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to the buffer, which has that length and lives through the call.
    let result = unsafe { libc::getsockopt(fd, level, name, buffer.as_mut_ptr().cast(), &raw mut length) };
    if result == 0 { Ok(length as usize) } else { Err(io::Error::last_os_error()) }
}
