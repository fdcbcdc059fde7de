//! Derives the steps from a layout, ordered so that nothing is exposed before it is protected: the device,
//! then the filter and the address translation, the routes, and forwarding last.

use core::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::host::Host;
use super::layout::{Layout, Leg};
use super::step::Step;
use super::{PathLayout, SetupError};

/// The priority of the rules: before main (32766), and before the rules of most VPNs; the number is the
/// RFC's.
pub const RULE_PRIORITY: u32 = 8684;
/// The first candidate for a table number; tables in use are skipped.
const FIRST_TABLE: u32 = 86_841;

/// The plan of a setup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The names, addresses and numbers that the steps use.
    pub layout: Layout,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Returns the steps to `layout` on `host`.
    ///
    /// # Errors
    ///
    /// An object that anabranch did not make has the name of one that it would make.
    pub fn new(layout: Layout, host: &Host) -> Result<Plan, SetupError> {
        let device = layout.device.clone();
        let table = table_name(&device);
        if host.nft_table(&table).is_some() {
            return Err(SetupError::Refused(format!(
                "there is already an nftables table inet {table} that no recorded setup has made; if it is \
                 no longer needed: nft delete table inet {table}"
            )));
        }
        let mut steps = device_steps(&layout);
        steps.push(Step::Nft { table, chains: chains(&layout, host) });
        let mut free = (FIRST_TABLE..).filter(|number| !host.table_in_use(*number));
        let mut rules = Vec::new();
        for path in &layout.paths {
            let table = free.next().unwrap_or(FIRST_TABLE);
            for leg in &path.legs {
                steps.extend(routes(&path.interface, leg, table));
                // If the interface disappears so do its routes, and the path must not be sent over another
                // interface then.
                let ipv6 = leg.address.is_ipv6();
                steps.push(Step::Route { dst: None, ipv6, dev: None, gateway: None, onlink: false, table });
                rules.extend(leg.addresses().map(|from| Step::Rule { from, table, priority: RULE_PRIORITY }));
            }
        }
        steps.extend(rules);
        steps.extend(forwarding(&layout, host));
        Ok(Plan { layout, steps })
    }

    /// Returns the plan in a namespace without connectivity.
    pub fn isolated(layout: Layout) -> Plan {
        let mut steps = vec![Step::Up { device: "lo".to_owned() }];
        steps.extend(device_steps(&layout));
        Plan { layout, steps }
    }
}

/// Returns the routes of a leg through its interface.
pub(super) fn routes(interface: &str, leg: &Leg, table: u32) -> Vec<Step> {
    let route = |dst, gateway, onlink| Step::Route {
        dst,
        ipv6: leg.address.is_ipv6(),
        dev: Some(interface.to_owned()),
        gateway,
        onlink,
        table,
    };
    let networks = leg.networks.iter().map(|network| route(Some(*network), None, false));
    networks.chain(leg.default.then(|| route(None, leg.gateway, leg.onlink))).collect()
}

/// Returns the nftables table of a device.
pub fn table_name(device: &str) -> String {
    // nft allows no `.` and no `@` in an unquoted name.
    format!("anabranch_{}", device.replace(['.', '@', '-'], "_"))
}

fn device_steps(layout: &Layout) -> Vec<Step> {
    let device = || layout.device.clone();
    let mut steps = vec![
        Step::Device { device: device(), owner: layout.owner },
        Step::Configure { device: device(), mtu: layout.mtu },
    ];
    steps.extend(layout.kernel.iter().map(|address| Step::Address { device: device(), address: *address }));
    steps.push(Step::Up { device: device() });
    steps
}

/// Returns the interfaces of the paths without duplicates.
fn interfaces(layout: &Layout) -> Vec<&PathLayout> {
    let mut found: Vec<&PathLayout> = Vec::new();
    for path in &layout.paths {
        if !found.iter().any(|other| other.interface == path.interface) {
            found.push(path);
        }
    }
    found
}

/// Returns the chains. Packets that leave by a path's interface get that interface's address; each path's
/// packets leave by its own interface or are dropped; and hosts outside can start nothing that was impossible
/// before.
fn chains(layout: &Layout, host: &Host) -> String {
    let device = &layout.device;
    let mut nat = String::new();
    let mut allowed = String::new();
    for path in &layout.paths {
        for leg in &path.legs {
            let family = if leg.address.is_ipv6() { "ip6" } else { "ip" };
            for address in leg.addresses() {
                let way = format!("{family} saddr {address} oifname \"{}\"", path.interface);
                let _ = writeln!(nat, "        {way} masquerade");
                let _ = writeln!(allowed, "        iifname \"{device}\" {way} accept");
            }
        }
    }
    // An interface that did not forward before forwards for this device only.
    let mut closed = String::new();
    for path in interfaces(layout) {
        for ipv6 in [false, true] {
            let family = if ipv6 { "ipv6" } else { "ipv4" };
            let used = path.legs.iter().any(|leg| leg.address.is_ipv6() == ipv6);
            if used && !forwards(host, &path.interface, ipv6) {
                let _ = writeln!(closed, "        iifname \"{}\" meta nfproto {family} drop", path.interface);
            }
        }
    }
    format!(
        "    chain postrouting {{\n        type nat hook postrouting priority 100; policy accept;\n{nat}    }}\n    \
         chain forward {{\n        type filter hook forward priority 0; policy accept;\n        \
         ct state established,related accept\n{allowed}        iifname \"{device}\" drop\n        \
         oifname \"{device}\" drop\n{closed}    }}\n"
    )
}

fn forwards(host: &Host, interface: &str, ipv6: bool) -> bool {
    if ipv6 {
        host.sysctl_is("net/ipv6/conf/all/forwarding", "1")
            || host.sysctl_is(&format!("net/ipv6/conf/{interface}/force_forwarding"), "1")
    } else {
        host.sysctl_is(&format!("net/ipv4/conf/{interface}/forwarding"), "1")
    }
}

/// Returns the forwarding steps. The kernel forwards packets from an interface on which forwarding is
/// enabled: the device, and for the answers the real ones. IPv4 has a sysctl for each interface. IPv6 has one
/// for all (`net.ipv6.conf.all.forwarding`), and since Linux 6.17 one for each interface, which changes less.
fn forwarding(layout: &Layout, host: &Host) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut set = |key: String, value: &str, interface: Option<&str>| {
        let step = Step::Sysctl { key, value: value.to_owned(), interface: interface.map(str::to_owned) };
        if !steps.contains(&step) {
            steps.push(step);
        }
    };
    let used = |ipv6: bool| layout.kernel.iter().any(|net| (net.max_prefix_len() == 128) == ipv6);
    let with = |ipv6: bool| {
        let leg = move |path: &&PathLayout| path.legs.iter().any(|leg| leg.address.is_ipv6() == ipv6);
        let own = interfaces(layout).into_iter().filter(leg).map(|path| path.interface.as_str());
        core::iter::once(layout.device.as_str()).chain(own).collect::<Vec<_>>()
    };
    if used(false) {
        for name in with(false) {
            set(format!("net/ipv4/conf/{name}/forwarding"), "1", Some(name));
        }
    }
    if used(true) && !host.sysctl_is("net/ipv6/conf/all/forwarding", "1") {
        if host.sysctls.contains_key("net/ipv6/conf/all/force_forwarding") {
            for name in with(true) {
                set(format!("net/ipv6/conf/{name}/force_forwarding"), "1", Some(name));
            }
        } else {
            // A router ignores router advertisements, and would lose its own default route, unless accept_ra
            // is 2.
            for link in &host.links {
                let own = |what: &str| format!("net/ipv6/conf/{}/{what}", link.ifname);
                if host.sysctl_is(&own("accept_ra"), "1") && !link.is("LOOPBACK") {
                    set(own("accept_ra"), "2", Some(&link.ifname));
                }
            }
            // The sysctl for all sets each interface's own as well: each is a separate step, so that each is
            // restored to its own value.
            for link in &host.links {
                let key = format!("net/ipv6/conf/{}/forwarding", link.ifname);
                if host.sysctls.contains_key(&key) {
                    set(key, "1", Some(&link.ifname));
                }
            }
            set("net/ipv6/conf/default/forwarding".to_owned(), "1", None);
            set("net/ipv6/conf/all/forwarding".to_owned(), "1", None);
        }
    }
    steps
}
