//! The privileges of this process.

use super::system::System;

/// `CAP_NET_ADMIN` of Linux' `capability.h`.
const CAP_NET_ADMIN: u32 = 12;

/// The capabilities of this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// True if it is root in its user namespace, so that the programs it runs have the same capabilities.
    pub root: bool,
    /// True if it has CAP_NET_ADMIN.
    pub net_admin: bool,
    /// True if the programs that it runs inherit CAP_NET_ADMIN.
    pub inherited: bool,
}

impl Capabilities {
    /// Parses the contents of `/proc/thread-self/status`.
    pub fn parse(status: &str) -> Option<Capabilities> {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches(':').trim().to_owned())
        };
        let has = |name: &str| {
            let set = u64::from_str_radix(&field(name)?, 16).ok()?;
            Some(set >> CAP_NET_ADMIN & 1 == 1)
        };
        // Real, effective, saved, file system.
        let root = field("Uid")?.split_whitespace().nth(1)? == "0";
        Some(Capabilities { root, net_admin: has("CapEff")?, inherited: has("CapAmb")? })
    }

    /// Returns the capabilities of this thread.
    pub fn read(system: &mut dyn System) -> Option<Capabilities> {
        Capabilities::parse(&system.read("/proc/thread-self/status")?)
    }

    /// True if `ip` and `nft`, run by this process, may change the network.
    pub fn enough(self) -> bool {
        self.net_admin && (self.root || self.inherited)
    }
}

/// Returns the missing privilege and its remedy; none if nothing is missing.
pub(super) fn missing(system: &mut dyn System) -> Option<String> {
    let own = Capabilities::read(system)?;
    if own.enough() {
        None
    } else if own.net_admin {
        Some(
            "this program has CAP_NET_ADMIN, but `ip` and `nft`, which it runs, would not: run it with sudo, \
             or grant the capability to the process (systemd: AmbientCapabilities=CAP_NET_ADMIN), not to the \
             file"
                .to_owned(),
        )
    } else {
        Some(
            "changing the network needs CAP_NET_ADMIN, which this process does not have: run it with sudo; \
             --dry-run shows the commands, and --user-namespace allows experiments without root and without \
             connectivity"
                .to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uid: &str, effective: &str, ambient: &str) -> String {
        format!(
            "Name:\tx\nUid:\t1000\t{uid}\t0\t0\nCapPrm:\t0000000000001000\nCapEff:\t{effective}\nCapAmb:\t{ambient}\n"
        )
    }

    #[test]
    fn capabilities_are_read_from_the_status() {
        let none = "0000000000000000";
        let admin = "0000000000001000";
        let all = "000001ffffffffff";
        let but_admin = "000001ffffffefff";
        let enough =
            |uid, effective, ambient| Capabilities::parse(&status(uid, effective, ambient)).unwrap().enough();
        assert!(enough("0", all, none));
        assert!(enough("1000", admin, admin));
        assert!(!enough("1000", admin, none), "the file's capability is not inherited");
        assert!(!enough("0", but_admin, none), "root of a container");
        assert!(!enough("1000", none, none));
        assert_eq!(Capabilities::parse("nonsense"), None);
    }
}
