//! Checks whether this machine supports namespaces and the kernel's Multipath TCP.

use std::path::Path;
use std::process::Command;

/// Returns the reason that programs cannot use the kernel's Multipath TCP over emulated paths here; none if
/// they can.
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root, to make network namespaces and TUN devices".to_owned());
    }
    if std::fs::read_to_string("/proc/sys/net/mptcp/enabled").map_or(true, |text| text.trim() != "1") {
        return Some("this kernel has no Multipath TCP, or net.mptcp.enabled is not 1".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("/dev/net/tun is missing".to_owned());
    }
    let ip = Command::new("ip").args(["mptcp", "limits"]).output();
    if !ip.is_ok_and(|output| output.status.success()) {
        return Some("no `ip` with support for `ip mptcp` (Debian: apt install iproute2)".to_owned());
    }
    None
}
