//! Checks of what anabranch itself needs.

use super::{fail, ok, warn};
use crate::doctor::{Check, Facts, TunFile};
use crate::{RULE_PRIORITY, install};

pub(super) fn tun_device(facts: &Facts) -> Check {
    let id = "tun";
    match &facts.tun {
        TunFile::Opens { offload: true } => {
            ok(id, "/dev/net/tun opens, and can offload checksums and segmentation")
        }
        TunFile::Opens { offload: false } => warn(
            id,
            "/dev/net/tun opens, and cannot offload (no IFF_VNET_HDR): transfers cost several times the CPU",
            "a newer kernel; with this one --no-offload",
        ),
        TunFile::Missing => fail(
            id,
            "/dev/net/tun is not there: anabranch has no way to send packets",
            "sudo modprobe tun; in a container: --device /dev/net/tun",
        ),
        TunFile::Denied => fail(
            id,
            "/dev/net/tun may not be opened by this user",
            "sudo chmod 0666 /dev/net/tun (as most systems have it; it gives no rights by itself), or use sudo",
        ),
        TunFile::Broken(error) => fail(
            id,
            format!("/dev/net/tun is there and does not open: {error}"),
            "sudo modprobe tun; a kernel without CONFIG_TUN needs another kernel",
        ),
    }
}

pub(super) fn capability(facts: &Facts) -> Check {
    let id = "capability";
    match facts.capabilities {
        Some(own) if own.enough() => {
            ok(id, "CAP_NET_ADMIN is there: anabranch tun setup can be run from here")
        }
        Some(own) if own.net_admin => warn(
            id,
            "CAP_NET_ADMIN is there, but programs run from here do not inherit it, so anabranch tun setup cannot be",
            "use sudo, or AmbientCapabilities=CAP_NET_ADMIN of systemd",
        ),
        Some(_) => warn(
            id,
            "no CAP_NET_ADMIN: anabranch tun setup and a look at nftables need it; serving and fetching over a \
             device that was set up with --user do not",
            "run anabranch doctor and anabranch tun setup with sudo",
        ),
        None => warn(id, "/proc/thread-self/status does not tell what this process may do", "mount /proc"),
    }
}

pub(super) fn programs(facts: &Facts) -> Vec<Check> {
    let known =
        |name: &str| facts.programs.iter().find(|(own, _)| *own == name).and_then(|(_, text)| text.as_ref());
    let one = |id, name: &str, what: &str| match known(name) {
        Some(version) => ok(id, version.lines().next().unwrap_or_default()),
        None => warn(id, format!("there is no `{name}`: {what}"), &install(name)),
    };
    vec![
        one("iproute2", "ip", "anabranch tun setup and most of these checks cannot do without"),
        one("nftables", "nft", "anabranch tun setup cannot translate addresses"),
    ]
}

pub(super) fn setup(facts: &Facts) -> Check {
    let id = "setup";
    let shown = match &facts.setups {
        Ok(shown) => shown,
        Err(error) => return warn(id, error.clone(), "see docs/setup.md on undoing it by hand"),
    };
    let stray = facts.host.iter().flat_map(|host| &host.rules).any(|rule| rule.priority == RULE_PRIORITY);
    let current: Vec<_> = shown.iter().filter(|shown| !shown.before_reboot).collect();
    let broken: Vec<&str> = current
        .iter()
        .filter(|shown| shown.whole == Some(false))
        .map(|shown| shown.layout.device.as_str())
        .collect();
    if !broken.is_empty() {
        return fail(
            id,
            format!("{} is set up, and parts are missing; anabranch tun show names them", broken.join(", ")),
            "run anabranch tun setup again with the same options; it makes what is missing",
        );
    }
    if current.is_empty() && stray {
        return warn(
            id,
            format!("there are rules of priority {RULE_PRIORITY}, and no setup is known that made them"),
            "if they are of a setup whose state was lost, remove them by hand: docs/setup.md",
        );
    }
    if current.is_empty() {
        return ok(id, "nothing is set up yet: anabranch tun setup --path IFACE --path IFACE");
    }
    let name =
        |shown: &&crate::Shown| format!("{} with {} paths", shown.layout.device, shown.layout.paths.len());
    ok(id, current.iter().map(name).collect::<Vec<_>>().join(", "))
}

/// Enough for a few hundred files served at once; a connection needs none.
const OPEN_FILES: u64 = 1024;

pub(super) fn open_files(facts: &Facts) -> Check {
    let id = "open-files";
    match facts.open_files {
        Some(limit) if limit < OPEN_FILES => warn(
            id,
            format!("{limit} files may be open at once, and anabranch serve opens one for each request"),
            &format!("ulimit -n {OPEN_FILES}; for a service LimitNOFILE={OPEN_FILES}"),
        ),
        Some(limit) => ok(id, format!("{limit} may be open at once; connections over TUN need none")),
        None => ok(id, "without limit"),
    }
}
