//! Runs commands in a namespace.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::EmulateError;
use crate::namespace::Namespace;
use crate::sys;

/// The interval at which a waiting thread checks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// A running command, which is killed on drop.
#[derive(Debug)]
pub struct Process {
    name: String,
    pidfd: std::os::fd::OwnedFd,
    ended: Receiver<io::Result<ExitStatus>>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` in `namespace`.
    ///
    /// # Errors
    /// If the program does not exist, or cannot be started.
    pub fn start(namespace: &Namespace, mut command: Command) -> Result<Process, EmulateError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let namespace = namespace.try_clone()?;
        sys::die_with_parent(&mut command);
        let (started, start) = channel();
        let (end, ended) = channel();
        // The thread lives as long as the child, which dies with it.
        std::thread::spawn(move || {
            let child = namespace.enter().map_err(io::Error::other).and_then(|()| command.spawn());
            match child {
                Ok(mut child) => {
                    let pid = Pid::from_child(&child);
                    // The child has not been waited for, so its process id cannot have been reused.
                    let _ = started.send(pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from));
                    let _ = end.send(child.wait());
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        });
        let pidfd = start.recv().unwrap_or_else(|_| Err(io::Error::other("its thread has ended")));
        let pidfd = pidfd.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => EmulateError::Usage(format!("there is no program `{name}`")),
            io::ErrorKind::PermissionDenied => {
                EmulateError::Usage(format!("`{name}` is not an executable program"))
            }
            _ => EmulateError::system(format!("cannot run `{name}`"), error),
        })?;
        Ok(Process { name, pidfd, ended, status: None })
    }

    /// Returns its exit status, if it has ended.
    ///
    /// # Errors
    /// If its status cannot be determined.
    pub fn poll(&mut self, patience: Duration) -> Result<Option<ExitStatus>, EmulateError> {
        if self.status.is_none() {
            match self.ended.recv_timeout(patience) {
                Ok(status) => {
                    let failed =
                        |error| EmulateError::system(format!("cannot wait for `{}`", self.name), error);
                    self.status = Some(status.map_err(failed)?);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(EmulateError::Failed(format!("`{}` was lost", self.name)));
                }
            }
        }
        Ok(self.status)
    }

    /// Waits for its end, or until `cancelled` is set: then it is given a moment to end by itself, as Ctrl-C
    /// reaches all programs of a terminal, and is terminated otherwise. None if it has not ended even then.
    ///
    /// # Errors
    /// If its status cannot be determined.
    pub fn wait(&mut self, cancelled: &AtomicBool) -> Result<Option<ExitStatus>, EmulateError> {
        loop {
            if let Some(status) = self.poll(LOOK)? {
                return Ok(Some(status));
            }
            if cancelled.load(Ordering::Relaxed) {
                if self.poll(MOMENT)?.is_none() {
                    self.end();
                }
                return Ok(self.status);
            }
        }
    }

    /// Terminates it, and kills it after a second.
    pub fn end(&mut self) {
        if self.status.is_none() && pidfd_send_signal(&self.pidfd, Signal::TERM).is_ok() {
            let deadline = Instant::now() + GRACE;
            while Instant::now() < deadline && matches!(self.poll(LOOK), Ok(None)) {}
        }
        if self.status.is_none() {
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
            let _ = self.poll(GRACE);
        }
    }
}

/// The time that a command has to end after Ctrl-C.
const MOMENT: Duration = Duration::from_millis(300);
/// The time that it has to end after it was terminated.
const GRACE: Duration = Duration::from_secs(1);

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
            let _ = self.poll(GRACE);
        }
    }
}
