//! Checks of what anabranch itself needs.

use super::{fail, ok, warn};
use crate::doctor::{Check, Facts, TunFile};
use crate::{RULE_PRIORITY, install};

pub(super) fn tun_device(facts: &Facts) -> Check {
    let id = "tun";
    match &facts.tun {
        TunFile::Opens { offload: true } => {
            ok(id, "/dev/net/tun can be opened, and supports offload of checksums and segmentation")
        }
        TunFile::Opens { offload: false } => warn(
            id,
            "/dev/net/tun can be opened, but does not support offload (no IFF_VNET_HDR): transfers take \
             several times the CPU time",
            "use a newer kernel, or --no-offload with this one",
        ),
        TunFile::Missing => fail(
            id,
            "/dev/net/tun is missing: anabranch cannot send packets",
            "sudo modprobe tun; in a container: --device /dev/net/tun",
        ),
        TunFile::Denied => fail(
            id,
            "this user has no permission to open /dev/net/tun",
            "sudo chmod 0666 /dev/net/tun (the default of most systems; it grants no privileges by itself), \
             or use sudo",
        ),
        TunFile::Broken(error) => fail(
            id,
            format!("/dev/net/tun exists, but cannot be opened: {error}"),
            "sudo modprobe tun; if the kernel lacks CONFIG_TUN, use another one",
        ),
    }
}

pub(super) fn capability(facts: &Facts) -> Check {
    let id = "capability";
    match facts.capabilities {
        Some(own) if own.enough() => ok(id, "this process has CAP_NET_ADMIN: it can run anabranch tun setup"),
        Some(own) if own.net_admin => warn(
            id,
            "this process has CAP_NET_ADMIN, but programs that it runs do not inherit it, so it cannot run \
             anabranch tun setup",
            "use sudo, or AmbientCapabilities=CAP_NET_ADMIN of systemd",
        ),
        Some(_) => warn(
            id,
            "no CAP_NET_ADMIN: anabranch tun setup and the check of nftables need it; serving and \
             downloading over a device made with --user do not",
            "run anabranch doctor and anabranch tun setup with sudo",
        ),
        None => {
            warn(id, "/proc/thread-self/status does not show the privileges of this process", "mount /proc")
        }
    }
}

pub(super) fn programs(facts: &Facts) -> Vec<Check> {
    let known =
        |name: &str| facts.programs.iter().find(|(own, _)| *own == name).and_then(|(_, text)| text.as_ref());
    let one = |id, name: &str, what: &str| match known(name) {
        Some(version) => ok(id, version.lines().next().unwrap_or_default()),
        None => warn(id, format!("`{name}` is missing: {what}"), &install(name)),
    };
    vec![
        one("iproute2", "ip", "anabranch tun setup and most of these checks need it"),
        one("nftables", "nft", "anabranch tun setup cannot translate addresses without it"),
    ]
}

pub(super) fn setup(facts: &Facts) -> Check {
    let id = "setup";
    let shown = match &facts.setups {
        Ok(shown) => shown,
        Err(error) => return warn(id, error.clone(), "to undo a setup by hand, see docs/setup.md"),
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
            format!("{} is set up, but parts are missing; anabranch tun show lists them", broken.join(", ")),
            "repeat anabranch tun setup with the same options; it makes the missing parts",
        );
    }
    if current.is_empty() && stray {
        return warn(
            id,
            format!("there are rules of priority {RULE_PRIORITY} that no recorded setup has made"),
            "if they belong to a setup whose state was lost, remove them by hand: docs/setup.md",
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
            format!("the limit of open files is {limit}, and anabranch serve opens one for each request"),
            &format!("ulimit -n {OPEN_FILES}; for a service LimitNOFILE={OPEN_FILES}"),
        ),
        Some(limit) => ok(id, format!("the limit of open files is {limit}; connections over TUN need none")),
        None => ok(id, "without limit"),
    }
}
