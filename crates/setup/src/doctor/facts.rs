//! The facts about a host, read without changing anything.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;

use serde::Deserialize;

use super::probe::Probe;
use crate::{Action, Capabilities, Host, Shown, System, show};

/// The state of `/dev/net/tun`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TunFile {
    /// It opens for reading and writing.
    Opens {
        /// Devices can have a virtio-net header before each packet, and so offload checksums and
        /// segmentation.
        offload: bool,
    },
    /// It does not exist.
    Missing,
    /// This user may not open it.
    Denied,
    /// Opening it fails.
    Broken(String),
}

/// The route of packets from one of the host's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The interface that has the address.
    pub interface: String,
    /// One of the interface's addresses.
    pub address: IpAddr,
    /// The outgoing interface of packets to a distant address; none without a route.
    pub leaves_by: Option<String>,
    /// True if routes and reverse path filters let packets to the address in by the interface.
    pub enters: bool,
}

/// An address that the kernel's own Multipath TCP uses, as `ip -json mptcp endpoint` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MptcpEndpoint {
    /// The local address of the endpoint.
    pub address: IpAddr,
    /// Its address ID.
    pub id: u8,
    /// The interface that subflows from it are bound to.
    pub dev: Option<String>,
    /// True if the kernel opens subflows from it.
    #[serde(default)]
    pub subflow: bool,
    /// True if the kernel announces it.
    #[serde(default)]
    pub signal: bool,
    /// True if its subflows are backups.
    #[serde(default)]
    pub backup: bool,
    /// True if the kernel opens subflows from it to each address of the peer.
    #[serde(default)]
    pub fullmesh: bool,
}

/// The state of a host.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The kernel release, such as `6.1.0-13-amd64`.
    pub kernel: String,
    /// Sysctls by their path below `/proc/sys`: `net/mptcp/*`, and the buffers and congestion controls of TCP.
    pub sysctls: BTreeMap<String, String>,
    /// The limits of `ip mptcp limits`: accepted announced addresses, and subflows.
    pub mptcp_limits: Option<(u32, u32)>,
    /// The endpoints of `ip mptcp endpoint`; none if the command fails.
    pub mptcp_endpoints: Option<Vec<MptcpEndpoint>>,
    /// `/dev/net/tun`.
    pub tun: TunFile,
    /// The privileges of this process.
    pub capabilities: Option<Capabilities>,
    /// Programs with their version; none if a program is missing.
    pub programs: Vec<(&'static str, Option<String>)>,
    /// The soft limit of open files; none is unlimited.
    pub open_files: Option<u64>,
    /// Interfaces, routes and so on, or the reason that they cannot be read.
    pub host: Result<Host, String>,
    /// The route of packets from each address.
    pub sources: Vec<Source>,
    /// The setups made by `anabranch tun setup`.
    pub setups: Result<Vec<Shown>, String>,
    /// The offloads of each interface that is up, by the names of `ethtool -k`; none without ethtool.
    pub features: Option<BTreeMap<String, BTreeMap<String, bool>>>,
    /// The result of a test connection.
    pub probe: Option<Probe>,
}

const SYSCTLS: [&str; 11] = [
    "net/mptcp/enabled",
    "net/mptcp/checksum_enabled",
    "net/mptcp/allow_join_initial_addr_port",
    "net/mptcp/pm_type",
    "net/mptcp/path_manager",
    "net/mptcp/scheduler",
    "net/mptcp/available_schedulers",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_available_congestion_control",
];

/// Addresses reserved for documentation (RFC 5737 and RFC 3849), distant from every host.
const FAR: [&str; 2] = ["203.0.113.86", "2001:db8:86:84::1"];

impl Facts {
    /// Reads the host; `states` is the directory of the setup's state files.
    pub fn read(system: &mut dyn System, states: &Path) -> Facts {
        let mut sysctls = BTreeMap::new();
        for key in SYSCTLS {
            if let Some(value) = system.read(&format!("/proc/sys/{key}")) {
                sysctls.insert(key.to_owned(), value);
            }
        }
        let programs =
            [("ip", "ip -V"), ("nft", "nft --version"), ("ss", "ss -V"), ("ethtool", "ethtool --version")];
        let programs = programs.map(|(name, line)| (name, system.act(&Action::run(line)).ok()));
        let host = Host::read(system);
        let mut sources = Vec::new();
        let mut features =
            programs.iter().any(|(name, found)| *name == "ethtool" && found.is_some()).then(BTreeMap::new);
        for link in
            host.iter().flat_map(|host| &host.links).filter(|link| link.is("UP") && !link.is("LOOPBACK"))
        {
            for address in [false, true].into_iter().filter_map(|ipv6| link.global(ipv6).next()) {
                let far = FAR[usize::from(address.is_ipv6())];
                let line = format!("ip -json route get {far} from {address}");
                let leaves_by = system.act(&Action::run(&line)).ok().and_then(|text| route_device(&text));
                // Only IPv4 has reverse path filters.
                let line = format!("ip -json route get {address} from {far} iif {}", link.ifname);
                let enters = address.is_ipv6() || system.act(&Action::run(&line)).is_ok();
                sources.push(Source { interface: link.ifname.clone(), address, leaves_by, enters });
            }
            if let Some(features) = &mut features
                && let Ok(text) = system.act(&Action::run(&format!("ethtool -k {}", link.ifname)))
            {
                features.insert(link.ifname.clone(), parse_features(&text));
            }
        }
        let limits = system.act(&Action::run("ip mptcp limits show")).ok();
        let endpoints = system.act(&Action::run("ip -json mptcp endpoint show")).ok();
        Facts {
            kernel: system.read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            sysctls,
            mptcp_limits: limits.and_then(|text| parse_limits(&text)),
            mptcp_endpoints: endpoints.and_then(|text| parse_endpoints(&text)),
            tun: tun_file(),
            capabilities: Capabilities::read(system),
            programs: programs.map(|(name, text)| (name, text.map(|text| text.trim().to_owned()))).to_vec(),
            open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            host,
            sources,
            setups: show(system, states).map_err(|error| error.to_string()),
            features,
            probe: None,
        }
    }
}

fn tun_file() -> TunFile {
    match OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        Ok(file) => TunFile::Opens { offload: anabranch_device::tun::can_offload(&file) },
        Err(error) if error.kind() == ErrorKind::NotFound => TunFile::Missing,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => TunFile::Denied,
        Err(error) => TunFile::Broken(error.to_string()),
    }
}

/// Returns the `dev` in the output of `ip -json route get`.
fn route_device(text: &str) -> Option<String> {
    let routes: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(routes.get(0)?.get("dev")?.as_str()?.to_owned())
}

/// Parses `add_addr_accepted 0 subflows 2`.
fn parse_limits(text: &str) -> Option<(u32, u32)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse().ok()
    };
    Some((after("add_addr_accepted")?, after("subflows")?))
}

/// Parses a list in JSON; an empty text is an empty list.
fn parse_endpoints(text: &str) -> Option<Vec<MptcpEndpoint>> {
    if text.trim().is_empty() { Some(Vec::new()) } else { serde_json::from_str(text).ok() }
}

/// Parses lines such as `tx-checksumming: on [fixed]`.
fn parse_features(text: &str) -> BTreeMap<String, bool> {
    let feature = |line: &str| {
        let (name, value) = line.trim().split_once(": ")?;
        match value.split_whitespace().next()? {
            "on" => Some((name.to_owned(), true)),
            "off" => Some((name.to_owned(), false)),
            _ => None,
        }
    };
    text.lines().filter_map(feature).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_is_read() {
        assert_eq!(parse_limits("add_addr_accepted 4 subflows 2 \n"), Some((4, 2)));
        assert_eq!(parse_limits("nonsense"), None);
        let features =
            parse_features("Features for lo:\ntx-checksumming: on [fixed]\n\ttx-lro: off\nrx: maybe\n");
        let expected = [("tx-checksumming".to_owned(), true), ("tx-lro".to_owned(), false)];
        assert_eq!(features.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(route_device(r#"[{"dst":"203.0.113.86","dev":"eth0"}]"#), Some("eth0".into()));
        assert_eq!(route_device("[]"), None);
        let endpoints =
            r#"[{"address":"192.0.3.2","id":2,"subflow":true,"dev":"r1"},{"address":"::1","id":3}]"#;
        let endpoints = parse_endpoints(endpoints).unwrap();
        assert_eq!((endpoints[0].dev.as_deref(), endpoints[0].subflow), (Some("r1"), true));
        assert_eq!((endpoints[1].id, endpoints[1].dev.as_deref(), endpoints[1].signal), (3, None, false));
        assert_eq!((parse_endpoints(" "), parse_endpoints("no json")), (Some(Vec::new()), None));
    }
}
