//! Runs an unmodified program with Multipath TCP, and its connections begin on the best path.
//!
//! Another thread answers the program's calls of `socket` and `connect` (`seccomp_unotify(2)`): a TCP socket becomes one
//! of Multipath TCP, and before it connects it is bound to the interface with the shortest expected time to its
//! destination, from the [memory of paths](crate::memory). Unlike a preloaded library (`mptcpize`) this works for
//! statically linked programs, and needs no compiler; the program cannot gain privileges.

mod sys;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, ExitStatus};

use anabranch_units::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::KernelError;
use crate::interfaces::{Interface, Interfaces, Links};
use crate::memory::Memory;
use crate::socket;
use sys::Call;

/// The choice of the first path.
#[derive(Clone, Debug)]
pub struct FirstPath {
    /// The memory of paths.
    pub memory: Memory,
    /// The expected size of a transfer.
    pub size: Bytes,
    /// The interface to use in any case; none for the best one.
    pub interface: Option<String>,
}

/// The lower bits of a socket's type, which are no flags.
const TYPE: u64 = 0xf;

/// Runs `command`, and returns its exit status once all its processes have ended.
///
/// # Errors
/// If it cannot be started, or the kernel lacks what this needs (Linux 5.14).
pub fn run(command: &[OsString], first: &FirstPath) -> Result<ExitStatus, KernelError> {
    let (program, arguments) = match command {
        [program, arguments @ ..] => (program, arguments),
        [] => {
            let none = io::Error::new(io::ErrorKind::InvalidInput, "there is no command");
            return Err(KernelError::System("run".to_owned(), none));
        }
    };
    check()?;
    let mut links = Links::open()?;
    if let Some(name) = &first.interface {
        let interfaces = links.read()?;
        let mut names: Vec<&str> = interfaces.0.values().map(|interface| interface.name.as_str()).collect();
        names.sort_unstable();
        if !names.contains(&name.as_str()) {
            let names = names.join(", ");
            return Err(KernelError::NoInterface(format!("there is no interface {name}; there are {names}")));
        }
    }
    let mut process = Command::new(program);
    process.args(arguments);
    // The filter is the one of a thread, and of the processes that the thread starts.
    let (mut child, listener) = std::thread::scope(|scope| {
        let start = || -> Result<(Child, OwnedFd), KernelError> {
            let failed = |error: io::Error| {
                KernelError::System("cannot watch the program's sockets".to_owned(), error)
            };
            rustix::thread::set_no_new_privs(true).map_err(|error| failed(error.into()))?;
            let listener = sys::install().map_err(failed)?;
            let name = program.to_string_lossy();
            let child = process.spawn();
            let child = child.map_err(|error| KernelError::System(format!("cannot run `{name}`"), error))?;
            Ok((child, listener))
        };
        let started = scope.spawn(start).join();
        started.unwrap_or_else(|_| Err(KernelError::Malformed("a thread has panicked".to_owned())))
    })?;
    answer_calls(&listener, first, &mut links);
    child.wait().map_err(|error| KernelError::System("cannot wait for the program".to_owned(), error))
}

/// Checks that there are sockets of Multipath TCP.
fn check() -> Result<(), KernelError> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).map(drop).map_err(|error| {
        KernelError::NoMptcp(format!(
            "this kernel gives no socket of Multipath TCP: {error}; see `anabranch doctor`"
        ))
    })
}

/// Answers the calls until no process is left that makes them.
fn answer_calls(listener: &OwnedFd, first: &FirstPath, links: &mut Links) {
    loop {
        let mut ready = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !ready[0].revents().contains(PollFlags::IN) => return,
            Ok(_) => {}
        }
        // A process that was killed meanwhile needs no answer.
        let Ok(call) = sys::receive(listener.as_fd()) else { continue };
        let answered = match call.number {
            libc::SYS_socket => open(listener, &call),
            _ => {
                prepare(&call, first, links);
                Err(io::ErrorKind::Unsupported.into())
            }
        };
        if answered.is_err() {
            let _ = sys::proceed(listener.as_fd(), &call);
        }
    }
}

/// Answers `socket` with one of Multipath TCP.
fn open(listener: &OwnedFd, call: &Call) -> io::Result<()> {
    let [family, kind, ..] = call.arguments;
    let domain = Domain::from(family as i32);
    let flags = kind & !TYPE;
    let socket = Socket::new_raw(domain, Type::STREAM, Some(Protocol::MPTCP))?;
    socket.set_nonblocking(flags & libc::SOCK_NONBLOCK as u64 != 0)?;
    sys::answer(listener.as_fd(), call, socket.as_fd(), flags & libc::SOCK_CLOEXEC as u64 != 0)
}

/// Binds the socket of a call of `connect` to its first path. If that fails, the system chooses.
fn prepare(call: &Call, first: &FirstPath, links: &mut Links) {
    let [descriptor, address, length, ..] = call.arguments;
    let Some(destination) = destination(call.thread, address, length) else { return };
    if destination.ip().is_loopback() {
        return;
    }
    let Ok(interfaces) = links.read() else { return };
    let Some((interface, source)) = choose(&interfaces, first, destination.ip()) else { return };
    let Ok(socket) = descriptor_of(call.thread, descriptor as i32) else { return };
    let is_unbound = |address: SocketAddr| address.port() == 0 && address.ip().is_unspecified();
    let is_ours = socket.protocol().is_ok_and(|protocol| protocol == Some(Protocol::MPTCP))
        && socket.local_addr().ok().and_then(|local| local.as_socket()).is_none_or(is_unbound);
    if is_ours {
        let _ = socket.bind_device(Some(interface.name.as_bytes()));
        let _ = socket.bind(&SocketAddr::new(source, 0).into());
    }
}

/// Returns the interface of the first path and its address, of the family of `destination`.
fn choose<'a>(
    interfaces: &'a Interfaces,
    first: &FirstPath,
    destination: IpAddr,
) -> Option<(&'a Interface, IpAddr)> {
    let usable = interfaces.towards(destination);
    let at = match &first.interface {
        Some(name) => usable.iter().position(|(interface, _)| interface.name == *name),
        None => {
            let names = usable.iter().map(|(interface, _)| interface.name.as_str());
            first.memory.best(names, destination, first.size)
        }
    };
    usable.get(at?).copied()
}

/// Reads a socket address out of another process; none if it is neither of IPv4 nor of IPv6.
fn destination(thread: u32, address: u64, length: u64) -> Option<SocketAddr> {
    let memory = File::open(format!("/proc/{thread}/mem")).ok()?;
    let mut bytes = [0; 28];
    let length = (length as usize).min(bytes.len());
    let read = memory.read_at(bytes.get_mut(..length)?, address).ok()?;
    socket::address(bytes.get(..read)?)
}

/// Returns a copy of a descriptor of another process.
fn descriptor_of(thread: u32, descriptor: i32) -> io::Result<Socket> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    let pid = group.and_then(|text| text.trim().parse().ok()).and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Socket::from(pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty())?))
}
