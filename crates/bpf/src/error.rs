//! The reasons that a law cannot be loaded or unloaded.

use core::fmt;

use crate::{Law, PINS};

/// The reason that a law cannot be loaded or unloaded. Every text includes a remedy, if there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// This build lacks the feature `load`.
    NotBuilt,
    /// The process may not load BPF programs.
    NotPermitted,
    /// The kernel has no BTF.
    NoBtf,
    /// The kernel has no Multipath TCP.
    NoMultipath,
    /// The kernel is older than the programs need.
    TooOld(String),
    /// The kernel has a congestion control of this name already.
    Taken(Law),
    /// The law is not loaded.
    NotLoaded(Law),
    /// The law is loaded, but not pinned.
    NotPinned(Law),
    /// There is no file system for pins.
    NoPins(String),
    /// The kernel has refused it for another reason.
    Refused(Law, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotBuilt => f.write_str(
                "this build cannot load BPF programs: build it with `--features kernel-bpf` \
                 (Debian, Ubuntu: apt install gcc make pkg-config libelf-dev zlib1g-dev)",
            ),
            Error::NotPermitted => f.write_str(
                "loading BPF programs needs CAP_BPF and CAP_NET_ADMIN, which this process does not have: run it with sudo",
            ),
            Error::NoBtf => f.write_str(
                "the kernel does not describe its types: /sys/kernel/btf/vmlinux is missing; a kernel built with \
                 CONFIG_DEBUG_INFO_BTF has it (Debian 12, Ubuntu 22.04, Fedora 36 and newer)",
            ),
            Error::NoMultipath => f.write_str(
                "the kernel has no Multipath TCP: /proc/sys/net/mptcp is missing; one built with CONFIG_MPTCP has it",
            ),
            Error::TooOld(release) => {
                write!(f, "the kernel is Linux {release}; congestion control in BPF for Multipath TCP needs 6.1 or newer")
            }
            Error::Taken(law) => write!(
                f,
                "the kernel already has a congestion control `{}`; `anabranch kernel cc list` shows it, and \
                 `anabranch kernel cc unload {law}` removes one of anabranch's",
                law.kernel_name()
            ),
            Error::NotLoaded(law) => {
                write!(f, "`{law}` is not loaded; `anabranch kernel cc list` shows the loaded ones")
            }
            Error::NotPinned(law) => write!(
                f,
                "`{law}` is loaded by a command that still runs; end that command to unload it"
            ),
            Error::NoPins(text) => {
                write!(f, "cannot keep programs loaded in {PINS}: {text}")
            }
            Error::Refused(law, text) => write!(f, "the kernel refuses `{law}`: {text}"),
        }
    }
}

impl std::error::Error for Error {}
