//! The process that owns a device, and moves the packets of the others.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use tokio::io::unix::AsyncFd;

use super::{Greeting, HEADER, of_message, refusal, to_message};
use crate::packet::ends;
use crate::tun::watch;
use crate::{Device, Packet};

/// The packets of one process, or from the device, before others have their turn.
const TURN: usize = 64;
/// The turns before other tasks have theirs.
const ROUNDS: usize = 8;

/// A change, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process has got these addresses.
    Joined {
        /// Its number; 0 if it is in another namespace of processes.
        pid: i32,
        /// Its user.
        uid: u32,
        /// The addresses.
        addresses: Vec<IpAddr>,
    },
    /// A process has given its addresses back, or has ended.
    Left {
        /// Its number.
        pid: i32,
        /// The addresses.
        addresses: Vec<IpAddr>,
    },
    /// A process was refused: all addresses are taken.
    Refused {
        /// Its number.
        pid: i32,
        /// Its user.
        uid: u32,
    },
}

/// The counters of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounters {
    /// From processes to the device.
    pub sent: u64,
    /// From the device to processes.
    pub received: u64,
    /// From the device to an address that no process has.
    pub unclaimed: u64,
    /// From the device to a process that reads too slowly.
    pub dropped: u64,
    /// From a process with a source that is not its own.
    pub foreign: u64,
}

/// The addresses that one process gets together.
struct Place {
    addresses: Vec<IpAddr>,
    user: Option<User>,
    /// The number of changes when it became free: late packets for the last user are fewer the longer ago that is.
    free_since: u64,
}

struct User {
    socket: AsyncFd<OwnedFd>,
    pid: i32,
    /// A packet that the device does not accept yet.
    held: Option<Packet>,
}

/// A device that is shared.
pub struct Share<D> {
    device: D,
    name: String,
    places: Vec<Place>,
    listener: Option<AsyncFd<OwnedFd>>,
    path: Option<PathBuf>,
    changes: u64,
    /// A packet that is read into.
    spare: Packet,
    counters: ShareCounters,
}

impl<D> std::fmt::Debug for Share<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<D: Device> Share<D> {
    /// Shares `device` among as many processes as there are places, each with the addresses that it gets. Has to be called within a
    /// tokio runtime.
    pub fn new(device: D, places: Vec<Vec<IpAddr>>) -> Share<D> {
        let name = device.name().unwrap_or_default().to_owned();
        let place = |addresses| Place { addresses, user: None, free_since: 0 };
        Share {
            device,
            name,
            places: places.into_iter().map(place).collect(),
            listener: None,
            path: None,
            changes: 0,
            spare: Packet::default(),
            counters: ShareCounters::default(),
        }
    }

    /// Listens at a socket of UNIX, which replaces one that a process has left behind. The file has mode 0600 until its permissions
    /// are set otherwise.
    ///
    /// # Errors
    /// If it cannot be made, or another process listens there.
    pub fn listen(&mut self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
        let address = SocketAddrUnix::new(path)?;
        // Not blocking: a process that listens there and accepts nothing must not hold this one up.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let make = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        if std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
            && rustix::net::connect(make()?, &address) == Err(Errno::CONNREFUSED)
        {
            std::fs::remove_file(path)?;
        }
        let socket = make()?;
        rustix::net::bind(&socket, &address)?;
        self.path = Some(path.to_owned());
        // Nobody can connect before it listens.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        rustix::net::listen(&socket, 16)?;
        self.listener = Some(watch(socket)?);
        Ok(())
    }

    /// Returns the counters.
    pub fn counters(&self) -> ShareCounters {
        self.counters
    }

    /// Moves packets until the device fails. `report` gets each change.
    pub async fn run(&mut self, mut report: impl FnMut(Event)) -> io::Error {
        poll_fn(|cx| {
            for _ in 0..ROUNDS {
                match self.round(cx, &mut report) {
                    Ok(true) => {}
                    Ok(false) => return Poll::Pending,
                    Err(error) => return Poll::Ready(error),
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// Moves some packets of each. Returns whether there may be more.
    fn round(&mut self, cx: &mut Context<'_>, report: &mut impl FnMut(Event)) -> io::Result<bool> {
        let mut more = self.accept(cx, report)?;
        for at in 0..self.places.len() {
            match self.take(cx, at) {
                Ok(busy) => more |= busy,
                Err(Failed::Device(error)) => return Err(error),
                Err(Failed::User) => self.leave(at, report),
            }
        }
        Ok(self.give(cx, report)? || more)
    }

    fn accept(&mut self, cx: &mut Context<'_>, report: &mut impl FnMut(Event)) -> io::Result<bool> {
        let Some(listener) = &self.listener else { return Ok(false) };
        let Poll::Ready(ready) = listener.poll_read_ready(cx) else { return Ok(false) };
        let mut ready = ready?;
        let accepted = rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        match accepted {
            Ok(socket) => {
                drop(ready);
                self.admit(socket, report);
            }
            // A process that has ended meanwhile: the next one.
            Err(Errno::CONNABORTED | Errno::INTR) => {}
            // There is none; or there are too many files, and it is tried again with the next one.
            Err(_) => ready.clear_ready(),
        }
        Ok(true)
    }

    /// Gives a process the addresses that have been free for the longest time. If it cannot be served, its connection ends, and the
    /// others go on.
    pub(super) fn admit(&mut self, socket: OwnedFd, report: &mut impl FnMut(Event)) {
        let Ok((pid, uid)) = peer(&socket) else { return };
        let free = self.places.iter_mut().filter(|place| place.user.is_none());
        let Some(place) = free.min_by_key(|place| place.free_since) else {
            let words = format!("all {} hosts of {} are taken", self.places.len(), self.name);
            let _ = rustix::net::send(&socket, &refusal(&words), SendFlags::NOSIGNAL);
            return report(Event::Refused { pid, uid });
        };
        let greeting = Greeting {
            device: self.name.clone(),
            capabilities: self.device.capabilities(),
            addresses: place.addresses.clone(),
        };
        // Without the privilege the system's limit holds.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, 4 << 20)
            .or_else(|_| rustix::net::sockopt::set_socket_send_buffer_size(&socket, 4 << 20));
        if let Ok(socket) = watch(socket)
            && rustix::net::send(&socket, &greeting.message(), SendFlags::NOSIGNAL).is_ok()
        {
            place.user = Some(User { socket, pid, held: None });
            report(Event::Joined { pid, uid, addresses: greeting.addresses });
        }
    }

    fn leave(&mut self, at: usize, report: &mut impl FnMut(Event)) {
        self.changes += 1;
        let place = &mut self.places[at];
        place.free_since = self.changes;
        if let Some(user) = place.user.take() {
            report(Event::Left { pid: user.pid, addresses: place.addresses.clone() });
        }
    }

    /// Moves packets of a process to the device. Returns whether there may be more.
    fn take(&mut self, cx: &mut Context<'_>, at: usize) -> Result<bool, Failed> {
        let Place { addresses, user: Some(user), .. } = &mut self.places[at] else { return Ok(false) };
        for _ in 0..TURN {
            if let Some(packet) = &mut user.held {
                match self.device.poll_send(cx, packet) {
                    Poll::Ready(sent) => sent.map_err(Failed::Device)?,
                    // The device wakes the task.
                    Poll::Pending => return Ok(false),
                }
                self.counters.sent += 1;
                user.held = None;
            }
            let most = self.device.capabilities().max_packet().max(2_048);
            self.spare.reserve(most);
            match rustix::net::recv(&user.socket, self.spare.whole(HEADER), RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(Failed::User),
                Ok((_, length)) => {
                    let length = length.min(HEADER + self.spare.capacity());
                    if of_message(&mut self.spare, length).is_none() {
                        continue;
                    }
                    let source = ends(self.spare.bytes()).map(|(from, _)| from);
                    if source.is_some_and(|source| addresses.contains(&source)) {
                        user.held = Some(std::mem::take(&mut self.spare));
                    } else {
                        self.counters.foreign += 1;
                    }
                }
                Err(Errno::AGAIN) => match user.socket.poll_read_ready(cx) {
                    Poll::Ready(Ok(mut ready)) => {
                        // Stale, or newer than the call: the next turn finds out.
                        ready.clear_ready();
                        return Ok(true);
                    }
                    Poll::Ready(Err(_)) => return Err(Failed::User),
                    Poll::Pending => return Ok(false),
                },
                Err(Errno::INTR) => {}
                Err(_) => return Err(Failed::User),
            }
        }
        Ok(true)
    }

    /// Moves packets of the device to the processes. Returns whether there may be more.
    fn give(&mut self, cx: &mut Context<'_>, report: &mut impl FnMut(Event)) -> io::Result<bool> {
        for _ in 0..TURN {
            match self.device.poll_receive(cx, &mut self.spare) {
                Poll::Ready(received) => received?,
                Poll::Pending => return Ok(false),
            }
            let to = ends(self.spare.bytes()).map(|(_, to)| to);
            let at = to.and_then(|to| self.places.iter().position(|place| place.addresses.contains(&to)));
            let Some((at, user)) = at.and_then(|at| Some((at, self.places[at].user.as_ref()?))) else {
                self.counters.unclaimed += 1;
                continue;
            };
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&user.socket, to_message(&mut self.spare), flags) {
                Ok(_) => self.counters.received += 1,
                // As a network card with a full queue.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::MSGSIZE | Errno::INTR) => {
                    self.counters.dropped += 1;
                }
                Err(_) => self.leave(at, report),
            }
        }
        Ok(true)
    }
}

/// Returns the number and the user of the process at the other end; number 0 if it is in a namespace of processes that this one does not see.
fn peer(socket: &OwnedFd) -> io::Result<(i32, u32)> {
    // rustix has no value for the number 0.
    let socket = std::os::unix::net::UnixStream::from(socket.try_clone()?);
    let who = tokio::net::UnixStream::from_std(socket)?.peer_cred()?;
    Ok((who.pid().unwrap_or(0), who.uid()))
}

/// The reason that packets of a process were not moved.
enum Failed {
    Device(io::Error),
    User,
}

impl<D> Drop for Share<D> {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}
