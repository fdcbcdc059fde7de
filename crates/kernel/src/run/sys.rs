//! The unsafe code: a filter of system calls, and another thread decides on them (`seccomp_unotify(2)`).

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp, sock_filter, sock_fprog};

/// The architecture of this program's system calls (`AUDIT_ARCH_*`); calls of another one are not filtered.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: u32 = 0;

// `include/uapi/linux/seccomp.h`
const SET_MODE_FILTER: libc::c_long = 1;
const NEW_LISTENER: libc::c_long = 1 << 3;
const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const CONTINUE: u32 = 1;
const SEND: u32 = 1 << 1;
// The C libraries disagree on the type, and not on its low 32 bits.
const RECEIVE: u32 = 0xc050_2100;
const ANSWER: u32 = 0xc018_2101;
const ADD_DESCRIPTOR: u32 = 0x4018_2103;

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    id: u64,
    /// The thread that made it.
    pub thread: u32,
    /// The number of the system call.
    pub number: i64,
    pub arguments: [u64; 6],
}

/// The place of the lower half of an argument in `struct seccomp_data`.
const fn argument(number: u32) -> u32 {
    16 + 8 * number + if cfg!(target_endian = "big") { 4 } else { 0 }
}

/// Returns an instruction of the filter.
const fn op(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUALS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Reports `connect`, and `socket` for a TCP of IPv4 or IPv6; everything else is allowed.
const FILTER: [sock_filter; 16] = [
    op(LOAD, 0, 0, 4),
    op(EQUALS, 0, 12, ARCHITECTURE),
    op(LOAD, 0, 0, 0),
    op(EQUALS, 11, 0, libc::SYS_connect as u32),
    op(EQUALS, 0, 9, libc::SYS_socket as u32),
    op(LOAD, 0, 0, argument(0)),
    op(EQUALS, 1, 0, libc::AF_INET as u32),
    op(EQUALS, 0, 6, libc::AF_INET6 as u32),
    op(LOAD, 0, 0, argument(1)),
    op(AND, 0, 0, 0xf),
    op(EQUALS, 0, 3, libc::SOCK_STREAM as u32),
    op(LOAD, 0, 0, argument(2)),
    op(EQUALS, 2, 0, 0),
    op(EQUALS, 1, 0, libc::IPPROTO_TCP as u32),
    op(RETURN, 0, 0, ALLOW),
    op(RETURN, 0, 0, NOTIFY),
];

/// Installs the filter for this thread and the processes that it starts, and returns the descriptor of the calls.
/// The thread must not gain privileges any more.
pub(super) fn install() -> io::Result<OwnedFd> {
    if ARCHITECTURE == 0 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "not on this architecture"));
    }
    let mut filter = FILTER;
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program during the call, and `filter` lives that long.
    let fd = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER, &raw const program) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has returned a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Performs an operation that reads and writes one structure.
fn ioctl<T>(listener: BorrowedFd<'_>, request: u32, argument: &mut T) -> io::Result<()> {
    // SAFETY: the callers pass the structure that belongs to the request, and its size is part of the request.
    let result =
        unsafe { libc::ioctl(listener.as_raw_fd(), request as libc::Ioctl, core::ptr::from_mut(argument)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the next call.
pub(super) fn receive(listener: BorrowedFd<'_>) -> io::Result<Call> {
    // SAFETY: the structure consists of integers; the kernel requires zeroes.
    let mut call: seccomp_notif = unsafe { core::mem::zeroed() };
    ioctl(listener, RECEIVE, &mut call)?;
    Ok(Call { id: call.id, thread: call.pid, number: i64::from(call.data.nr), arguments: call.data.args })
}

/// Lets the kernel execute a call.
pub(super) fn proceed(listener: BorrowedFd<'_>, call: &Call) -> io::Result<()> {
    ioctl(listener, ANSWER, &mut seccomp_notif_resp { id: call.id, val: 0, error: 0, flags: CONTINUE })
}

/// Answers a call with a descriptor, which the process gets a copy of.
pub(super) fn answer(
    listener: BorrowedFd<'_>,
    call: &Call,
    descriptor: BorrowedFd<'_>,
    close_on_exec: bool,
) -> io::Result<()> {
    let mut added = seccomp_notif_addfd {
        id: call.id,
        flags: SEND,
        srcfd: descriptor.as_raw_fd() as u32,
        newfd: 0,
        newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
    };
    ioctl(listener, ADD_DESCRIPTOR, &mut added)
}
