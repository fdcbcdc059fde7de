//! Addresses and routes of the two hosts.
//!
//! On path `n`, counted from 1, the client's kernel has the address 10.0.n.1 and the server's 10.1.n.1, each
//! on a TUN device `path<n>`. 10.0.n.2 and 10.1.n.2 belong to another TUN device `anabranch`, for a stack in
//! user space. The client's address determines the path of a packet in both directions, as in the simulator.
//! In a scenario over IPv6 the kernels also have fd86:8684:0:n::1 and fd86:8684:1:n::1, which their endpoints
//! use.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
    /// The number of addresses of each host.
    pub paths: usize,
    /// The position of the path of a connection's initial subflow.
    pub initial: usize,
    /// True if the kernels have IPv6 addresses too, and use them.
    pub ipv6: bool,
}

impl Addresses {
    /// Returns the kernel's address of that host on the path at `position`, from 0.
    pub fn kernel(&self, role: Role, position: usize) -> Ipv4Addr {
        address(role, position, 1)
    }

    /// Returns that address, or the IPv6 address in a scenario over IPv6.
    pub fn of(&self, role: Role, position: usize) -> IpAddr {
        if self.ipv6 {
            IpAddr::V6(address6(role, position, 1))
        } else {
            IpAddr::V4(self.kernel(role, position))
        }
    }

    /// Returns the address of a stack in user space on that host on the path at `position`, from 0.
    pub fn stack(&self, role: Role, position: usize) -> Ipv4Addr {
        address(role, position, 2)
    }

    /// Returns the environment variables of commands on the host `role`.
    pub fn environment(&self, role: Role) -> Vec<(String, String)> {
        let list = |of: &dyn Fn(usize) -> Ipv4Addr| {
            (0..self.paths).map(|at| of(at).to_string()).collect::<Vec<_>>().join(",")
        };
        let mut all = vec![
            ("ANABRANCH_ROLE".to_owned(), role.name().to_owned()),
            ("ANABRANCH_PATHS".to_owned(), self.paths.to_string()),
            ("ANABRANCH_TUN".to_owned(), STACK_DEVICE.to_owned()),
            ("ANABRANCH_ADDRESSES".to_owned(), list(&|at| self.stack(role, at))),
        ];
        for (name, role) in [("ANABRANCH_CLIENT", Role::Client), ("ANABRANCH_SERVER", Role::Server)] {
            all.push((name.to_owned(), self.kernel(role, self.initial).to_string()));
            all.push((format!("{name}_STACK"), self.stack(role, self.initial).to_string()));
            for at in 0..self.paths {
                all.push((format!("{name}_{}", at + 1), self.kernel(role, at).to_string()));
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
        let (name, own) = (device(at), addresses.kernel(role, at));
        let there = Ipv4Addr::from_bits(address(role.other(), at, 0).to_bits());
        let _ = writeln!(text, "link set {name} txqueuelen {queue}{mtu} up");
        let _ = writeln!(text, "addr add {own}/32 dev {name}");
        let _ = writeln!(text, "route add {} dev {STACK_DEVICE}", addresses.stack(role, at));
        let _ = writeln!(text, "route add {there}/24 dev {name} src {own}{more}");
        if role == Role::Client {
            let (table, here) = (FIRST_TABLE + at, address(role, at, 0));
            let _ = writeln!(text, "route add default dev {name} table {table}{more}");
            let _ = writeln!(text, "rule add from {here}/24 table {table} priority {table}");
        }
    }
    text
}

/// Returns the input of `ip -6 -batch` that follows in a scenario over IPv6.
pub(crate) fn routes6(addresses: &Addresses, role: Role, with: &Attributes) -> String {
    let more: String = with.route.iter().map(|attribute| format!(" {attribute}")).collect();
    let mut text = String::new();
    for at in 0..addresses.paths {
        let (name, own, there) = (device(at), address6(role, at, 1), address6(role.other(), at, 0));
        let _ = writeln!(text, "addr add {own}/128 dev {name} nodad");
        let _ = writeln!(text, "route add {there}/64 dev {name}{more}");
        if role == Role::Client {
            let (table, here) = (FIRST_TABLE + at, address6(role, at, 0));
            let _ = writeln!(text, "route add default dev {name} table {table}{more}");
            let _ = writeln!(text, "rule add from {here}/64 table {table} priority {table}");
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

/// Returns the input of `ip -batch` by which the client's host notices that the interface of the path at `at` is down,
/// or up again: its endpoint is removed or added, as a network manager does. The kernel then ends the subflows of the
/// address and sends REMOVE_ADDR, or opens subflows.
pub(crate) fn noticed(addresses: &Addresses, at: usize, backup: bool, up: bool) -> String {
    let own = addresses.of(Role::Client, at);
    let backup = if backup { " backup" } else { "" };
    match up {
        true => {
            format!("mptcp endpoint add {own} dev {} id {} subflow{backup}\n", device(at), at + 1)
        }
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
        let addresses = Addresses { paths: 2, initial: 1, ipv6: false };
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
        let addresses = Addresses { paths: 2, initial: 0, ipv6: false };
        assert_eq!(noticed(&addresses, 1, true, false), "mptcp endpoint delete id 2\n");
        let up = noticed(&addresses, 1, true, true);
        assert_eq!(up, "mptcp endpoint add 10.0.2.1 dev path2 id 2 subflow backup\n");
        assert!(noticed(&addresses, 0, false, false).starts_with("mptcp endpoint delete id 0 10.0.1.1\n"));
    }

    #[test]
    fn commands_hear_of_every_address() {
        let all = Addresses { paths: 2, initial: 1, ipv6: false }.environment(Role::Server);
        let get = |name: &str| all.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        assert_eq!(get("ANABRANCH_SERVER"), Some("10.1.2.1"));
        assert_eq!(get("ANABRANCH_SERVER_1"), Some("10.1.1.1"));
        assert_eq!(get("ANABRANCH_ADDRESSES"), Some("10.1.1.2,10.1.2.2"));
        assert_eq!(get("ANABRANCH_CLIENT_STACK"), Some("10.0.2.2"));
    }
}
