//! The errors of the kernel's interfaces.

use std::fmt;
use std::io;

/// The reason that the kernel could not be asked, or has refused.
#[derive(Debug)]
pub enum KernelError {
    /// This kernel, or this network namespace, has no Multipath TCP.
    NoMptcp(String),
    /// An interface that was named does not exist.
    NoInterface(String),
    /// The process lacks a privilege.
    NotPermitted(String),
    /// The kernel has refused a request: its error, and its own words if it gave any.
    Refused {
        /// The error number, positive.
        errno: i32,
        /// The request.
        what: &'static str,
        /// The kernel's explanation; empty if there was none.
        why: String,
    },
    /// Events were lost, because they came faster than they were read.
    Overrun,
    /// A message of the kernel that cannot be parsed.
    Malformed(String),
    /// Any other error of the system.
    System(String, io::Error),
}

impl KernelError {
    /// Returns the error of a call of the system.
    pub(crate) fn system(what: impl Into<String>, error: io::Error) -> KernelError {
        let what = what.into();
        match error.raw_os_error() {
            Some(libc::ENOBUFS) => KernelError::Overrun,
            Some(libc::EPERM | libc::EACCES) => {
                KernelError::NotPermitted(format!("{what}: {error}; run as root, or with CAP_NET_ADMIN"))
            }
            _ => KernelError::System(what, error),
        }
    }

    /// Returns the error with which the kernel has refused `what`.
    pub(crate) fn refused(what: &'static str, errno: i32, why: String) -> KernelError {
        if matches!(errno, libc::EPERM | libc::EACCES) {
            return KernelError::NotPermitted(format!(
                "the kernel does not permit to {what}; run as root, or with CAP_NET_ADMIN"
            ));
        }
        KernelError::Refused { errno, what, why }
    }

    /// True if the kernel has refused a command because another path manager has the connection.
    pub fn is_of_another_manager(&self) -> bool {
        matches!(self, KernelError::Refused { why, .. } if why.contains("userspace PM not selected"))
    }

    /// Returns the error number with which the kernel has refused a request.
    pub fn errno(&self) -> Option<i32> {
        match self {
            KernelError::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::NoMptcp(text) | KernelError::NoInterface(text) | KernelError::NotPermitted(text) => {
                f.write_str(text)
            }
            KernelError::Refused { errno, what, why } => {
                let error = io::Error::from_raw_os_error(*errno);
                write!(f, "the kernel refused to {what}: {error}")?;
                if why.is_empty() { Ok(()) } else { write!(f, " ({why})") }
            }
            KernelError::Overrun => f.write_str("the kernel's events came faster than they were read"),
            KernelError::Malformed(text) => write!(f, "a message of the kernel cannot be parsed: {text}"),
            KernelError::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for KernelError {}
