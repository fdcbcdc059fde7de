//! Addresses and routes of the two hosts.
//!
//! On path `n`, counted from 1, the client's kernel has the address 10.0.n.1 and the server's 10.1.n.1, each
//! on a TUN device `path<n>`. 10.0.n.2 and 10.1.n.2 belong to another TUN device `anabranch`, for a stack in
//! user space. The client's address determines the path of a packet in both directions, as in the simulator.
//! If the scenario gives the server addresses of its own, those are 10.1.m.1 and 10.1.m.2, by their number `m`.
//! In a scenario over IPv6 the kernels also have fd86:8684:0:n::1 and fd86:8684:1:n::1, which their endpoints
//! use.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_lab::scenario::{EndpointRole, Endpoints};

/// One of the two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The host that opens connections.
    Client,
    /// The host that accepts them.
    Server,
}

impl Role {
    /// Returns the word of the report and of errors, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Server => "server",
        }
    }

    const fn other(self) -> Role {
        match self {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }
}

/// The device of the stack in user space.
pub(crate) const STACK_DEVICE: &str = "anabranch";

/// The addresses of the hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// The number of paths.
    pub paths: usize,
    /// The position of the path of a connection's initial subflow.
    pub initial: usize,
    /// True if the kernels have IPv6 addresses too, and use them.
    pub ipv6: bool,
    /// The addresses of the server, and the endpoints and limits of both kernels; none: an address on each path.
    pub endpoints: Option<Endpoints>,
}

impl Addresses {
    /// Returns the kernel's address of that host on the path at `position`, from 0; of a server with addresses of its
    /// own the first to which the path leads.
    pub fn kernel(&self, role: Role, position: usize) -> Ipv4Addr {
        address(role, self.number(role, position), 1)
    }

    /// Returns the number, from 0, of a host's address on the path at `position`.
    pub(crate) fn number(&self, role: Role, position: usize) -> usize {
        match &self.endpoints {
            Some(endpoints) if role == Role::Server => endpoints.server_on(position),
            _ => position,
        }
    }

    /// Returns how many addresses a host has.
    pub(crate) fn count(&self, role: Role) -> usize {
        match &self.endpoints {
            Some(endpoints) if role == Role::Server => endpoints.servers.len(),
            _ => self.paths,
        }
    }

    /// Returns the position of the path that leads from a host to its peer's address `number`, if its own address does
    /// not decide.
    fn route(&self, role: Role, number: usize) -> usize {
        match &self.endpoints {
            Some(endpoints) if role == Role::Client => endpoints.route(number),
            _ => number,
        }
    }

    /// Returns the position of the path with the device of a host's address `number`.
    fn device(&self, number: usize) -> usize {
        number.min(self.paths - 1)
    }

    /// Returns the pairs of a path and an address of the server to which it does not lead.
    fn apart(&self) -> Vec<(usize, usize)> {
        let Some(endpoints) = &self.endpoints else { return Vec::new() };
        let pairs = (0..self.paths).flat_map(|path| (0..endpoints.servers.len()).map(move |at| (path, at)));
        pairs.filter(|(path, at)| !endpoints.leads(*path, *at)).collect()
    }

    /// Returns that address, or the IPv6 address in a scenario over IPv6.
    pub fn of(&self, role: Role, position: usize) -> IpAddr {
        self.numbered(role, self.number(role, position))
    }

    /// Returns the kernel's address number `number`, from 0.
    fn numbered(&self, role: Role, number: usize) -> IpAddr {
        if self.ipv6 { IpAddr::V6(address6(role, number, 1)) } else { IpAddr::V4(address(role, number, 1)) }
    }

    /// Returns the address of a stack in user space on that host on the path at `position`, from 0.
    pub fn stack(&self, role: Role, position: usize) -> Ipv4Addr {
        address(role, self.number(role, position), 2)
    }

    /// Returns the environment variables of commands on the host `role`.
    pub fn environment(&self, role: Role) -> Vec<(String, String)> {
        let list = |role, host| {
            let all = (0..self.count(role)).map(|number| address(role, number, host).to_string());
            all.collect::<Vec<_>>().join(",")
        };
        let mut all = vec![
            ("ANABRANCH_ROLE".to_owned(), role.name().to_owned()),
            ("ANABRANCH_PATHS".to_owned(), self.paths.to_string()),
            ("ANABRANCH_TUN".to_owned(), STACK_DEVICE.to_owned()),
            ("ANABRANCH_ADDRESSES".to_owned(), list(role, 2)),
        ];
        if self.endpoints.is_some() {
            let own =
                (0..self.count(Role::Server)).map(|number| self.numbered(Role::Server, number).to_string());
            all.push(("ANABRANCH_SERVER_ADDRESSES".to_owned(), own.collect::<Vec<_>>().join(",")));
        }
        for (name, role) in [("ANABRANCH_CLIENT", Role::Client), ("ANABRANCH_SERVER", Role::Server)] {
            all.push((name.to_owned(), self.of(role, self.initial).to_string()));
            all.push((format!("{name}_STACK"), self.stack(role, self.initial).to_string()));
            for at in 0..self.paths {
                all.push((format!("{name}_{}", at + 1), self.of(role, at).to_string()));
            }
        }
        all
    }
}

fn address(role: Role, position: usize, host: u8) -> Ipv4Addr {
    let net = match role {
        Role::Client => 0,
        Role::Server => 1,
    };
    Ipv4Addr::new(10, net, position as u8 + 1, host)
}

/// Returns the IPv6 address of a host on the path at `position`.
pub(crate) fn address6(role: Role, position: usize, host: u16) -> Ipv6Addr {
    let net = match role {
        Role::Client => 0,
        Role::Server => 1,
    };
    Ipv6Addr::new(0xfd86, 0x8684, net, position as u16 + 1, 0, 0, 0, host)
}

/// Returns the device of the path at `position`, from 0.
pub(crate) fn device(position: usize) -> String {
    format!("path{}", position + 1)
}

/// Settings under `/proc/sys`, made before any device, and whether the kernel must support them.
pub(crate) const SETTINGS: &[(&str, &str, bool)] = &[
    // Packets of a stack in user space are forwarded.
    ("net/ipv4/ip_forward", "1", true),
    // Routes are selected by source, so a reply may arrive by another device than the main table says.
    ("net/ipv4/conf/all/rp_filter", "0", true),
    ("net/ipv4/conf/default/rp_filter", "0", true),
    // Links carry the packets of the commands, and no router solicitations.
    ("net/ipv6/conf/all/disable_ipv6", "1", false),
    ("net/ipv6/conf/default/disable_ipv6", "1", false),
    ("net/mptcp/enabled", "1", false),
    // The kernel's memory of a failed attempt would spoil the next one.
    ("net/mptcp/blackhole_timeout", "0", false),
];

/// Settings for a scenario over IPv6, made after [`SETTINGS`]: static addresses, and no router solicitations.
pub(crate) const SETTINGS6: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
];

/// Attributes of devices and routes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    /// The queue length of a device in packets.
    pub queue: u32,
    /// The MTU of the paths' devices, if not 1500.
    pub mtu: Option<u32>,
    /// Attributes appended to each route.
    pub route: Vec<String>,
}

/// Returns the input of `ip -batch` that sets up the host `role`; its path devices exist.
pub(crate) fn routes(addresses: &Addresses, role: Role, with: &Attributes) -> String {
    let Attributes { queue, mtu, route } = with;
    let more: String = route.iter().map(|attribute| format!(" {attribute}")).collect();
    let mtu = mtu.map(|mtu| format!(" mtu {mtu}")).unwrap_or_default();
    let mut text = format!(
        "link set lo up\ntuntap add dev {STACK_DEVICE} mode tun\nlink set {STACK_DEVICE} txqueuelen {queue} up\n"
    );
    for at in 0..addresses.paths {
        let _ = writeln!(text, "link set {} txqueuelen {queue}{mtu} up", device(at));
    }
    for number in 0..addresses.count(role) {
        let _ = writeln!(text, "route add {} dev {STACK_DEVICE}", address(role, number, 2));
    }
    text + &paths(addresses, role, &more, &FAMILY4)
}

/// Returns the input of `ip -6 -batch` that follows in a scenario over IPv6.
pub(crate) fn routes6(addresses: &Addresses, role: Role, with: &Attributes) -> String {
    let more: String = with.route.iter().map(|attribute| format!(" {attribute}")).collect();
    paths(addresses, role, &more, &FAMILY6)
}

/// How addresses of a version of IP are written.
struct Family {
    /// Returns an address of a host by its number, with this last part.
    address: fn(Role, usize, u8) -> IpAddr,
    /// The length of the prefix that all addresses of a number share.
    prefix: u8,
    /// The length of an address.
    bits: u8,
    /// Appended to the command that gives a device an address.
    flags: &'static str,
    /// True if a route names the address from which the kernel sends.
    source: bool,
}

const FAMILY4: Family = Family {
    address: |role, number, host| IpAddr::V4(address(role, number, host)),
    prefix: 24,
    bits: 32,
    flags: "",
    source: true,
};

const FAMILY6: Family = Family {
    address: |role, number, host| IpAddr::V6(address6(role, number, host.into())),
    prefix: 64,
    bits: 128,
    flags: " nodad",
    source: false,
};

/// Returns the commands that give a host's devices their addresses, and lead packets to their paths.
fn paths(addresses: &Addresses, role: Role, more: &str, family: &Family) -> String {
    let Family { address, prefix, bits, flags, source } = family;
    let mut text = String::new();
    for number in 0..addresses.count(role) {
        let (own, name) = (address(role, number, 1), device(addresses.device(number)));
        let _ = writeln!(text, "addr add {own}/{bits} dev {name}{flags}");
    }
    for number in 0..addresses.count(role.other()) {
        let at = addresses.route(role, number);
        let (name, there) = (device(at), address(role.other(), number, 0));
        let own = match source {
            true => format!(" src {}", addresses.kernel(role, at)),
            false => String::new(),
        };
        let _ = writeln!(text, "route add {there}/{prefix} dev {name}{own}{more}");
    }
    match role {
        Role::Client => {
            for at in 0..addresses.paths {
                let (table, here) = (FIRST_TABLE + at, address(role, at, 0));
                let _ = writeln!(text, "route add default dev {} table {table}{more}", device(at));
                let _ = writeln!(text, "rule add from {here}/{prefix} table {table} priority {table}");
            }
        }
        // An answer over a path that does not lead to the address is lost, as the packet itself in the simulator.
        Role::Server => {
            for (path, number) in addresses.apart() {
                let (from, to) = (address(role, number, 0), address(Role::Client, path, 0));
                let _ = writeln!(
                    text,
                    "rule add from {from}/{prefix} to {to}/{prefix} blackhole priority {FIRST_TABLE}"
                );
            }
        }
    }
    text
}

/// The routing table of the client's first path.
const FIRST_TABLE: usize = 1001;

/// The largest number of subflows and of endpoints in Linux.
const MOST_SUBFLOWS: usize = 8;

/// Returns the input of `ip -batch` that makes the kernel's Multipath TCP use all paths, with at most
/// `subflows` subflows.
pub(crate) fn endpoints(addresses: &Addresses, role: Role, backup: &[bool], subflows: Option<u32>) -> String {
    if let Some(own) = &addresses.endpoints {
        return given_endpoints(addresses, own, role, backup, subflows);
    }
    // The kernel does not count the first.
    let most = subflows.map_or(MOST_SUBFLOWS as u32, |subflows| subflows.saturating_sub(1));
    let mut text = format!("mptcp limits set subflow {most} add_addr_accepted {most}\n");
    if role == Role::Client {
        for at in (0..addresses.paths).filter(|at| *at != addresses.initial).take(MOST_SUBFLOWS) {
            let (own, name) = (addresses.of(role, at), device(at));
            let backup = if backup.get(at) == Some(&true) { " backup" } else { "" };
            let _ = writeln!(text, "mptcp endpoint add {own} dev {name} id {} subflow{backup}", at + 1);
        }
    }
    text
}

/// Returns the same for the endpoints and limits of the scenario.
fn given_endpoints(
    addresses: &Addresses,
    own: &Endpoints,
    role: Role,
    backup: &[bool],
    subflows: Option<u32>,
) -> String {
    let limits = if role == Role::Client { own.client } else { own.server };
    let most = subflows.map_or(u32::from(limits.subflows), |subflows| subflows.saturating_sub(1));
    let mut text =
        format!("mptcp limits set subflow {most} add_addr_accepted {}\n", limits.add_addr_accepted);
    match role {
        Role::Client => {
            for at in 0..addresses.paths {
                let is_initial = at == addresses.initial;
                // The kernel never opens a second subflow from the address of the first, except to announced addresses.
                let skipped = is_initial && own.roles.get(at) != Some(&EndpointRole::FullMesh);
                let backup = backup.get(at) == Some(&true) && !is_initial;
                if !skipped {
                    text += &client_endpoint(addresses, at, backup).unwrap_or_default();
                }
            }
        }
        Role::Server => {
            for number in (0..own.servers.len()).filter(|number| own.servers[*number].signal) {
                text += &server_endpoint(addresses, number);
            }
        }
    }
    text
}

/// Returns the command that adds the client's endpoint of the path at `at`; none if its address is none.
fn client_endpoint(addresses: &Addresses, at: usize, backup: bool) -> Option<String> {
    let roles = addresses.endpoints.as_ref().map_or(&[][..], |own| &own.roles);
    let flags = match roles.get(at).copied().unwrap_or_default() {
        EndpointRole::FullMesh => "subflow fullmesh",
        EndpointRole::Subflow => "subflow",
        EndpointRole::None | EndpointRole::Signal => return None,
    };
    let (own, backup) = (addresses.of(Role::Client, at), if backup { " backup" } else { "" });
    Some(format!("mptcp endpoint add {own} dev {} id {} {flags}{backup}\n", device(at), at + 1))
}

/// Returns the command that adds the endpoint of the server's address `number`.
fn server_endpoint(addresses: &Addresses, number: usize) -> String {
    let of = addresses.endpoints.as_ref().and_then(|own| own.servers.get(number));
    let backup = if of.is_some_and(|address| address.backup) { " backup" } else { "" };
    let own = match addresses.ipv6 {
        true => IpAddr::V6(address6(Role::Server, number, 1)),
        false => IpAddr::V4(address(Role::Server, number, 1)),
    };
    let name = device(addresses.device(number));
    format!("mptcp endpoint add {own} dev {name} id {} signal{backup}\n", number + 1)
}

/// Returns the input of `ip -batch` by which the server withdraws its address `number`, or announces it again.
pub(crate) fn withdrawn(addresses: &Addresses, number: usize, up: bool) -> String {
    match up {
        true => server_endpoint(addresses, number),
        false => format!("mptcp endpoint delete id {}\n", number + 1),
    }
}

/// Returns the input of `ip -batch` by which the client's host notices that the interface of the path at `at` is down,
/// or up again: its endpoint is removed or added, as a network manager does. The kernel then ends the subflows of the
/// address and sends REMOVE_ADDR, or opens subflows.
pub(crate) fn noticed(addresses: &Addresses, at: usize, backup: bool, up: bool) -> String {
    let own = addresses.of(Role::Client, at);
    match up {
        true => client_endpoint(addresses, at, backup).unwrap_or_default(),
        // The address of the initial subflow has no endpoint at first. One of both commands applies.
        false if at == addresses.initial => {
            format!("mptcp endpoint delete id 0 {own}\nmptcp endpoint delete id {}\n", at + 1)
        }
        false => format!("mptcp endpoint delete id {}\n", at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_an_address_a_device_a_table_and_an_endpoint() {
        let addresses = Addresses { paths: 2, initial: 1, ipv6: false, endpoints: None };
        let with =
            Attributes { queue: 1000, mtu: None, route: vec!["congctl cubic".into(), "initcwnd 4".into()] };
        let text = routes(&addresses, Role::Client, &with);
        for line in [
            "link set path2 txqueuelen 1000 up",
            "addr add 10.0.2.1/32 dev path2",
            "route add 10.1.2.0/24 dev path2 src 10.0.2.1 congctl cubic initcwnd 4",
            "route add default dev path2 table 1002 congctl cubic initcwnd 4",
            "rule add from 10.0.2.0/24 table 1002 priority 1002",
            "route add 10.0.2.2 dev anabranch",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in\n{text}");
        }
        assert!(!routes(&addresses, Role::Server, &Attributes::default()).contains("rule"));
        let text = endpoints(&addresses, Role::Client, &[true, false], None);
        assert!(text.ends_with("\nmptcp endpoint add 10.0.1.1 dev path1 id 1 subflow backup\n"), "{text}");
        assert_eq!(endpoints(&addresses, Role::Server, &[], None).lines().count(), 1);
        assert!(endpoints(&addresses, Role::Server, &[], Some(3)).starts_with("mptcp limits set subflow 2 "));
        let with = Attributes { mtu: Some(1400), ..with };
        let six = Addresses { ipv6: true, ..addresses };
        let text = routes(&six, Role::Client, &with)
            + &routes6(&six, Role::Client, &with)
            + &endpoints(&six, Role::Client, &[], None);
        for line in [
            "link set path2 txqueuelen 1000 mtu 1400 up",
            "addr add fd86:8684:0:2::1/128 dev path2 nodad",
            "route add fd86:8684:1:2::/64 dev path2 congctl cubic initcwnd 4",
            "route add default dev path2 table 1002 congctl cubic initcwnd 4",
            "rule add from fd86:8684:0:2::/64 table 1002 priority 1002",
            "mptcp endpoint add fd86:8684:0:1::1 dev path1 id 1 subflow",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn an_interface_that_is_noticed_to_be_down_loses_its_endpoint() {
        let addresses = Addresses { paths: 2, initial: 0, ipv6: false, endpoints: None };
        assert_eq!(noticed(&addresses, 1, true, false), "mptcp endpoint delete id 2\n");
        let up = noticed(&addresses, 1, true, true);
        assert_eq!(up, "mptcp endpoint add 10.0.2.1 dev path2 id 2 subflow backup\n");
        assert!(noticed(&addresses, 0, false, false).starts_with("mptcp endpoint delete id 0 10.0.1.1\n"));
    }

    #[test]
    fn commands_hear_of_every_address() {
        let all = Addresses { paths: 2, initial: 1, ipv6: false, endpoints: None }.environment(Role::Server);
        let get = |name: &str| all.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        assert_eq!(get("ANABRANCH_SERVER"), Some("10.1.2.1"));
        assert_eq!(get("ANABRANCH_SERVER_1"), Some("10.1.1.1"));
        assert_eq!(get("ANABRANCH_ADDRESSES"), Some("10.1.1.2,10.1.2.2"));
        assert_eq!(get("ANABRANCH_CLIENT_STACK"), Some("10.0.2.2"));
        let six = Addresses { paths: 2, initial: 1, ipv6: true, endpoints: None }.environment(Role::Client);
        assert!(six.contains(&("ANABRANCH_SERVER".to_owned(), "fd86:8684:1:2::1".to_owned())), "{six:?}");
    }
}
