//! The kernel as a peer. Anabranch's own endpoint needs none of this.

use super::{ok, warn};
use crate::doctor::{Check, Facts};
use crate::install;

/// Returns the major and minor version of a release such as `6.1.0-13-amd64`.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub(super) fn kernel(facts: &Facts) -> Check {
    let id = "kernel";
    let text = format!("Linux {}", facts.kernel);
    match release(&facts.kernel) {
        Some(version) if version >= (5, 15) => ok(id, text),
        Some(version) if version >= (5, 6) => warn(
            id,
            format!(
                "{text}: its Multipath TCP is incomplete (announced addresses, full mesh and fallback were \
                 developed until 5.15)"
            ),
            "use a newer kernel if the kernel is to be the peer; anabranch's own endpoint does not need it",
        ),
        _ => warn(
            id,
            format!("{text} has no Multipath TCP (added in 5.6)"),
            "use a newer kernel if the kernel is to be the peer; anabranch's own endpoint does not need it",
        ),
    }
}

/// Checks the kernel's Multipath TCP.
pub(super) fn mptcp(facts: &Facts) -> Vec<Check> {
    let value = |name: &str| facts.sysctls.get(&format!("net/mptcp/{name}")).map(String::as_str);
    let enabled = match value("enabled") {
        None => {
            return vec![warn(
                "mptcp",
                "this kernel has no Multipath TCP (net.mptcp is missing): it cannot be the peer; anabranch's \
                 own endpoint does not need it",
                "use a kernel with CONFIG_MPTCP",
            )];
        }
        Some("1") => ok("mptcp", "enabled in the kernel"),
        Some(_) => warn(
            "mptcp",
            "disabled in the kernel: its programs use plain TCP, even with mptcpize",
            "sysctl -w net.mptcp.enabled=1",
        ),
    };
    let checksum = match value("checksum_enabled") {
        Some("1") => {
            ok("mptcp-checksum", "the kernel requests DSS checksums; anabranch then computes them too")
        }
        _ => ok(
            "mptcp-checksum",
            "the kernel does not request DSS checksums; they are used if the peer requests them",
        ),
    };
    let join = match value("allow_join_initial_addr_port") {
        Some("0") => warn(
            "mptcp-join",
            "the kernel forbids joins to the initial address (flag C)",
            "sysctl -w net.mptcp.allow_join_initial_addr_port=1, or announce other addresses: ip mptcp endpoint add \
             ADDRESS dev IFACE signal",
        ),
        _ => ok("mptcp-join", "the kernel permits joins to the initial address"),
    };
    let userspace = value("path_manager").map_or(value("pm_type") == Some("1"), |name| name == "userspace");
    let manager = if userspace {
        warn(
            "mptcp-path-manager",
            "subflows are left to a program in user space (pm_type=1); without one every connection has a \
             single subflow",
            "run `anabranch kernel steer` or mptcpd, or: sysctl -w net.mptcp.pm_type=0",
        )
    } else if value("enabled").is_some() && value("pm_type").or(value("path_manager")).is_none() {
        warn(
            "mptcp-path-manager",
            "the kernel's path manager opens subflows, and it permits none in user space: `anabranch kernel steer` \
             cannot run",
            "Linux 5.19 or later permits one",
        )
    } else {
        ok("mptcp-path-manager", "the kernel's path manager opens subflows")
    };
    let limits = match facts.mptcp_limits {
        None => warn("mptcp-limits", "`ip mptcp limits` fails", &install("ip")),
        Some((accepted, subflows)) if accepted == 0 || subflows == 0 => {
            let effect = if subflows == 0 {
                "as a client it uses one path"
            } else {
                "as a client it joins from its own endpoints, and not to further addresses of a server"
            };
            warn(
                "mptcp-limits",
                format!(
                    "the kernel opens {subflows} additional subflows, and accepts {accepted} announced \
                     addresses: {effect}"
                ),
                "ip mptcp limits set subflow 4 add_addr_accepted 4",
            )
        }
        Some((accepted, subflows)) => ok(
            "mptcp-limits",
            format!("{subflows} additional subflows, {accepted} announced addresses accepted"),
        ),
    };
    let scheduler = value("scheduler").unwrap_or("default");
    let there = value("available_schedulers").unwrap_or(scheduler);
    let scheduler = ok("mptcp-scheduler", format!("the kernel uses `{scheduler}`; available: {there}"));
    vec![enabled, checksum, join, manager, limits, scheduler]
}

/// Names the kernel's congestion control: it is not CUBIC on every system.
pub(super) fn congestion(facts: &Facts) -> Check {
    let value = |name: &str| facts.sysctls.get(&format!("net/ipv4/{name}")).map(|text| text.trim());
    match value("tcp_congestion_control") {
        None => warn("congestion", "net.ipv4.tcp_congestion_control cannot be read", "mount /proc"),
        Some(own) => {
            let there = value("tcp_available_congestion_control").unwrap_or(own);
            ok("congestion", format!("the kernel's sockets use `{own}`; available: {there}"))
        }
    }
}

/// Linux' default for `tcp_wmem`, which fills 335 Mbit/s at a round trip of 100 ms.
const BUFFER: u64 = 4 << 20;

/// Checks the sizes of the kernel's buffers, which limit the rate of a peer.
pub(super) fn buffers(facts: &Facts) -> Check {
    let id = "buffers";
    let most = |key: &str| -> Option<u64> {
        facts.sysctls.get(&format!("net/ipv4/{key}"))?.split_whitespace().nth(2)?.parse().ok()
    };
    let (Some(receive), Some(send)) = (most("tcp_rmem"), most("tcp_wmem")) else {
        return warn(id, "net.ipv4.tcp_rmem and tcp_wmem cannot be read", "mount /proc");
    };
    let smaller = receive.min(send);
    // In bit/s over 100 ms.
    let text = format!(
        "the kernel's sockets buffer up to {receive} received and {send} sent bytes: at most {} Mbit/s with \
         a round-trip time of 100 ms",
        smaller * 80 / 1_000_000
    );
    if smaller >= BUFFER {
        return ok(id, text);
    }
    warn(id, text, "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456' net.ipv4.tcp_wmem='4096 16384 4194304'")
}
