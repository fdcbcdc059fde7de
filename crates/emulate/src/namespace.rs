//! A network namespace without a name, which disappears with its last process and descriptor.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};

use anabranch_device::tun::{self, TunError};
use anabranch_setup::{Action, RealSystem, System};
use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::EmulateError;

/// The file of a thread's own namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
    inode: u64,
}

/// Returns the inode number of a namespace, which is constant during its life.
fn inode(file: impl AsFd) -> Result<u64, EmulateError> {
    let stat = rustix::fs::fstat(file).map_err(|error| EmulateError::system("a network namespace", error))?;
    Ok(stat.st_ino)
}

impl Namespace {
    /// Returns a new namespace, with only the loopback device.
    ///
    /// # Errors
    /// If this process may not make one.
    pub fn new() -> Result<Namespace, EmulateError> {
        on_a_thread(|| {
            let before = inode(open_own()?)?;
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| {
                EmulateError::NotPermitted(format!(
                    "cannot make a network namespace ({error}); run as root, or with --user-namespace"
                ))
            })?;
            let fd = OwnedFd::from(open_own()?);
            let inode = inode(&fd)?;
            if inode == before {
                // Existing namespaces must not be changed.
                return Err(EmulateError::Failed("the system did not make a network namespace".to_owned()));
            }
            Ok(Namespace { fd, inode })
        })
    }

    /// Runs `work` on a separate thread in this namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, EmulateError> {
        on_a_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Moves this thread into the namespace, together with the processes it starts.
    ///
    /// # Errors
    /// If the system does not permit it.
    pub fn enter(&self) -> Result<(), EmulateError> {
        move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| EmulateError::system("cannot enter a network namespace", error))
    }

    /// Returns another handle of the same namespace.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn try_clone(&self) -> Result<Namespace, EmulateError> {
        let fd =
            self.fd.try_clone().map_err(|error| EmulateError::system("a namespace's descriptor", error))?;
        Ok(Namespace { fd, inode: self.inode })
    }

    /// Returns its inode number, as `/proc/PID/ns/net` shows it.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Makes TUN devices in it, which disappear with their descriptors.
    pub(crate) fn devices(&self, names: &[String]) -> Result<Vec<OwnedFd>, EmulateError> {
        self.run(|| {
            let open = |name: &String| {
                tun::open(name).map_err(|error| {
                    match error {
                    TunError::NoTunSupport(cause) if cause.kind() == ErrorKind::PermissionDenied => {
                        EmulateError::NotPermitted(
                            "this user has no permission to open /dev/net/tun; most systems permit it to all \
                             users, as it grants no privileges by itself: sudo chmod 0666 /dev/net/tun"
                                .to_owned(),
                        )
                    }
                    error => EmulateError::Failed(format!("/dev/net/tun provides no usable device: {error}")),
                }
                })
            };
            names.iter().map(open).collect()
        })?
    }

    /// Runs the commands of `batch` with `ip`.
    pub(crate) fn ip(&self, batch: &str) -> Result<(), EmulateError> {
        self.batch(&["ip", "-batch", "-"], batch)
    }

    /// Runs the commands of `batch` with `ip -6`.
    pub(crate) fn ip6(&self, batch: &str) -> Result<(), EmulateError> {
        self.batch(&["ip", "-6", "-batch", "-"], batch)
    }

    fn batch(&self, argv: &[&str], batch: &str) -> Result<(), EmulateError> {
        let argv = argv.iter().map(|part| (*part).to_owned()).collect();
        let action = Action::Run { argv, stdin: Some(batch.to_owned()) };
        self.run(|| RealSystem.act(&action).map(drop).map_err(EmulateError::Failed))?
    }

    /// Sets a value under `/proc/sys`.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), EmulateError> {
        let action = Action::Sysctl { key: key.to_owned(), value: value.to_owned() };
        self.run(|| RealSystem.act(&action).map(drop).map_err(EmulateError::Failed))?
    }

    /// Returns the text of a file under `/proc`, as seen by a thread in the namespace.
    pub(crate) fn read(&self, path: &str) -> Result<String, EmulateError> {
        self.run(|| std::fs::read_to_string(path).map_err(|error| EmulateError::system(path, error)))?
    }
}

fn open_own() -> Result<File, EmulateError> {
    File::open(OWN).map_err(|error| EmulateError::system(OWN, error))
}

/// Runs `work` on a separate thread, so that the namespace of this one is unchanged.
fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T, EmulateError> + Send) -> Result<T, EmulateError> {
    std::thread::scope(|scope| {
        let done = scope.spawn(work).join();
        done.unwrap_or_else(|_| Err(EmulateError::Failed("a thread has panicked".to_owned())))
    })
}
