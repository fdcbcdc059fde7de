//! The congestion controls that the kernel lists.

use serde::Serialize;

use crate::{Error, Law};

/// The file with the congestion controls of the kernel.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Returns the names of the congestion controls that the kernel has; empty if it does not show them.
pub fn available() -> Vec<String> {
    let text = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// True if the kernel has `law`, under its name.
pub fn is_available(law: Law) -> bool {
    available().iter().any(|name| name == law.kernel_name())
}

/// Checks that the kernel can have any law.
#[cfg_attr(not(feature = "load"), expect(dead_code, reason = "only for loading"))]
pub(crate) fn check() -> Result<(), Error> {
    let exists = |path: &str| std::path::Path::new(path).exists();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    if version(&release).is_some_and(|version| version < (6, 1)) {
        return Err(Error::TooOld(release));
    }
    if !exists("/proc/sys/net/mptcp") {
        return Err(Error::NoMultipath);
    }
    if !exists("/sys/kernel/btf/vmlinux") {
        return Err(Error::NoBtf);
    }
    Ok(())
}

/// True if the kernel registers a congestion control for as long as a link to it exists.
#[cfg_attr(not(feature = "load"), expect(dead_code, reason = "only for loading"))]
pub(crate) fn has_links() -> bool {
    version(&rustix::system::uname().release().to_string_lossy()).is_none_or(|version| version >= (6, 4))
}

/// Returns the first two numbers of a release such as `6.1.0-56-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// The counters of a law since it was loaded: `struct counters` of `programs/shared.h`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Counters {
    /// Subflows that were coupled.
    pub subflows: u64,
    /// The subflows among them that came to a connection with another subflow.
    pub joined: u64,
    /// The subflows that have ended; at most `subflows`.
    pub ended: u64,
    /// Multipath TCP connections.
    pub connections: u64,
    /// The ones that have ended.
    pub removed: u64,
    /// Connections of plain TCP, which Reno serves.
    pub plain: u64,
    /// Connections that fell back to TCP, which Reno serves.
    pub fallback: u64,
    /// Subflows that were not coupled because there were too many connections.
    pub full: u64,
    /// Subflows that were not coupled because their connection had too many.
    pub crowded: u64,
    /// Subflows that were not coupled because their connection ended at the same time.
    pub raced: u64,
}

impl Counters {
    /// Reads the kernel's bytes; none if there are too few.
    #[cfg_attr(not(feature = "load"), expect(dead_code, reason = "only for loading"))]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Counters> {
        let mut words =
            bytes.chunks_exact(8).map_while(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
        let mut next = || words.next();
        Some(Counters {
            subflows: next()?,
            joined: next()?,
            ended: next()?,
            connections: next()?,
            removed: next()?,
            plain: next()?,
            fallback: next()?,
            full: next()?,
            crowded: next()?,
            raced: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_two_numbers() {
        assert_eq!(version("6.1.0-56-amd64"), Some((6, 1)));
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("nonsense"), None);
    }
}
