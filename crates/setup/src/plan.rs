//! From a layout to steps, in an order in which nothing is open before it is protected: the device, then
//! the filter and the translation of addresses, the routes, and forwarding last.

use core::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::host::Host;
use super::layout::Layout;
use super::step::Step;
use super::{PathLayout, SetupError};

/// Our rules stand before main (32766), and before those of most VPNs; the number is that of the RFC.
pub const RULE_PRIORITY: u32 = 8684;
/// The tables are the first from here on that nobody uses.
const FIRST_TABLE: u32 = 86_841;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What it comes to.
    pub layout: Layout,
    /// How, in this order.
    pub steps: Vec<Step>,
}

impl Plan {
    /// The steps to `layout` on `host`.
    ///
    /// # Errors
    ///
    /// Something that anabranch did not make bears the name of something that it would make.
    pub fn new(layout: Layout, host: &Host) -> Result<Plan, SetupError> {
        let device = layout.device.clone();
        let table = table_name(&device);
        if host.nft_table(&table).is_some() {
            return Err(SetupError::Refused(format!(
                "there is an nftables table inet {table} already that nothing is known of; if it is of no use \
                 any more: nft delete table inet {table}"
            )));
        }
        let mut steps = device_steps(&layout);
        steps.push(Step::Nft { table, chains: chains(&layout, host) });
        let mut free = (FIRST_TABLE..).filter(|number| !host.table_in_use(*number));
        let mut rules = Vec::new();
        for path in &layout.paths {
            let table = free.next().unwrap_or(FIRST_TABLE);
            for leg in &path.legs {
                let ipv6 = leg.address.is_ipv6();
                let route = |dst, gateway, onlink| Step::Route {
                    dst,
                    ipv6,
                    dev: Some(path.interface.clone()),
                    gateway,
                    onlink,
                    table,
                };
                steps.extend(leg.networks.iter().map(|network| route(Some(*network), None, false)));
                if leg.default {
                    steps.push(route(None, leg.gateway, leg.onlink));
                }
                // If the interface goes its routes go too, and the path must not take another's way then.
                steps.push(Step::Route { dst: None, ipv6, dev: None, gateway: None, onlink: false, table });
                rules.push(Step::Rule { from: leg.address, table, priority: RULE_PRIORITY });
            }
        }
        steps.extend(rules);
        steps.extend(forwarding(&layout, host));
        Ok(Plan { layout, steps })
    }

    /// The steps in a namespace that has no way out.
    pub fn isolated(layout: Layout) -> Plan {
        let mut steps = vec![Step::Up { device: "lo".to_owned() }];
        steps.extend(device_steps(&layout));
        Plan { layout, steps }
    }
}

/// The table of nftables that belongs to a device.
pub fn table_name(device: &str) -> String {
    // nft takes no `.` and no `@` in a name without quotes.
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

/// The interfaces of the paths, each once.
fn interfaces(layout: &Layout) -> Vec<&PathLayout> {
    let mut found: Vec<&PathLayout> = Vec::new();
    for path in &layout.paths {
        if !found.iter().any(|other| other.interface == path.interface) {
            found.push(path);
        }
    }
    found
}

/// What leaves by a path's interface gets that interface's address, each path's packets leave by its own
/// interface or not at all, and nobody outside begins anything that was not possible before.
fn chains(layout: &Layout, host: &Host) -> String {
    let device = &layout.device;
    let mut nat = String::new();
    let mut allowed = String::new();
    for path in &layout.paths {
        for leg in &path.legs {
            let family = if leg.address.is_ipv6() { "ip6" } else { "ip" };
            let way = format!("{family} saddr {} oifname \"{}\"", leg.address, path.interface);
            let _ = writeln!(nat, "        {way} masquerade");
            let _ = writeln!(allowed, "        iifname \"{device}\" {way} accept");
        }
    }
    // An interface that did not forward before forwards for this device alone.
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

/// The kernel forwards what comes in on an interface that may forward: the device, and for the answers the
/// real ones. IPv4 asks the interface alone. IPv6 has a switch for all (`net.ipv6.conf.all.forwarding`), and
/// since Linux 6.17 one for each interface, which is less to change.
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
            // A router takes no router advertisements, and would lose its own default route, unless it is told
            // to (Linux: accept_ra = 2).
            for link in &host.links {
                let own = |what: &str| format!("net/ipv6/conf/{}/{what}", link.ifname);
                if host.sysctl_is(&own("accept_ra"), "1") && !link.is("LOOPBACK") {
                    set(own("accept_ra"), "2", Some(&link.ifname));
                }
            }
            // The switch for all sets each interface's own as well: each is a step of its own, so that each
            // gets its value back.
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
