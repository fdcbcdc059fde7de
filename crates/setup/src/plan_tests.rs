//! Tests of plans for made-up hosts, to the last command.

use super::host::{Address, Host, Link, NftTable, Route, Rule};
use super::*;

fn link(ifindex: u32, ifname: &str, mtu: u32, addresses: &[&str]) -> Link {
    let address = |text: &&str| {
        let net: ipnet::IpNet = text.parse().unwrap();
        Address {
            local: Some(net.addr()),
            prefixlen: net.prefix_len(),
            scope: "global".into(),
            deprecated: false,
            tentative: false,
        }
    };
    Link {
        ifindex,
        ifname: ifname.into(),
        flags: vec!["UP".into()],
        mtu,
        addr_info: addresses.iter().map(address).collect(),
        ..Link::default()
    }
}

fn route(dst: &str, gateway: Option<&str>, dev: &str, metric: u32) -> Route {
    let gateway: Option<std::net::IpAddr> = gateway.map(|text| text.parse().unwrap());
    let dst: Option<ipnet::IpNet> = dst.parse().ok();
    let ipv6 = dst.map_or(gateway.is_some_and(|gateway| gateway.is_ipv6()), |dst| dst.addr().is_ipv6());
    Route {
        dst,
        ipv6,
        kind: "unicast".into(),
        gateway,
        onlink: false,
        dev: dev.into(),
        table: MAIN_TABLE,
        metric,
    }
}

/// Returns a host with WiFi with both families over a router, and LTE with IPv4 point to point.
fn laptop() -> Host {
    let mut host = Host {
        links: vec![
            Link { flags: vec!["UP".into(), "LOOPBACK".into()], ..link(1, "lo", 65_536, &["127.0.0.1/8"]) },
            link(2, "wlan0", 1500, &["192.168.1.23/24", "2001:db8:1::23/64"]),
            link(3, "wwan0", 1428, &["100.64.3.4/32"]),
        ],
        routes: vec![
            route("default", Some("192.168.1.1"), "wlan0", 600),
            route("192.168.1.0/24", None, "wlan0", 600),
            route("169.254.0.0/16", None, "wlan0", 1000),
            route("default", None, "wwan0", 700),
            route("default", Some("fe80::1"), "wlan0", 600),
            route("2001:db8:1::/64", None, "wlan0", 600),
            route("fe80::/64", None, "wlan0", 256),
        ],
        rules: vec![Rule { ipv6: false, priority: 0, src: None, table: 255, conditions: false }],
        nft_tables: Some(Vec::new()),
        ..Host::default()
    };
    for name in ["all", "default", "lo", "wlan0", "wwan0"] {
        for key in
            ["net/ipv4/conf/*/forwarding", "net/ipv6/conf/*/forwarding", "net/ipv6/conf/*/force_forwarding"]
        {
            host.sysctls.insert(key.replace('*', name), "0".into());
        }
        host.sysctls.insert(format!("net/ipv6/conf/{name}/accept_ra"), "1".into());
    }
    host
}

fn options(paths: &[&str]) -> Options {
    Options::new(paths.iter().map(|path| path.parse().unwrap()).collect())
}

fn plan(options: &Options, host: &Host) -> Result<Plan, SetupError> {
    Plan::new(Layout::new(options, host, false)?, host)
}

fn lines(plan: &Plan) -> String {
    plan.steps.iter().map(|step| format!("{}\n", step.action())).collect()
}

fn refusal(options: &Options, host: &Host) -> String {
    plan(options, host).unwrap_err().to_string()
}

const LAPTOP: &str = r#"ip tuntap add dev anabranch0 mode tun multi_queue
ip link set dev anabranch0 mtu 1428 txqueuelen 10000 addrgenmode none
ip -4 addr add 10.86.84.254/24 dev anabranch0
ip -6 addr add fd86:8684::fe/64 dev anabranch0 nodad
ip link set dev anabranch0 up
nft -f - <<'EOF'
table inet anabranch_anabranch0 {
    chain postrouting {
        type nat hook postrouting priority 100; policy accept;
        ip saddr 10.86.84.1 oifname "wlan0" masquerade
        ip6 saddr fd86:8684::1 oifname "wlan0" masquerade
        ip saddr 10.86.84.2 oifname "wwan0" masquerade
    }
    chain forward {
        type filter hook forward priority 0; policy accept;
        ct state established,related accept
        iifname "anabranch0" ip saddr 10.86.84.1 oifname "wlan0" accept
        iifname "anabranch0" ip6 saddr fd86:8684::1 oifname "wlan0" accept
        iifname "anabranch0" ip saddr 10.86.84.2 oifname "wwan0" accept
        iifname "anabranch0" drop
        oifname "anabranch0" drop
        iifname "wlan0" meta nfproto ipv4 drop
        iifname "wlan0" meta nfproto ipv6 drop
        iifname "wwan0" meta nfproto ipv4 drop
    }
}
EOF
ip -4 route add 192.168.1.0/24 dev wlan0 table 86841
ip -4 route add default via 192.168.1.1 dev wlan0 table 86841
ip -4 route add unreachable default metric 4294967295 table 86841
ip -6 route add 2001:db8:1::/64 dev wlan0 table 86841
ip -6 route add default via fe80::1 dev wlan0 table 86841
ip -6 route add unreachable default metric 4294967295 table 86841
ip -4 route add default dev wwan0 table 86842
ip -4 route add unreachable default metric 4294967295 table 86842
ip -4 rule add priority 8684 from 10.86.84.1 lookup 86841
ip -6 rule add priority 8684 from fd86:8684::1 lookup 86841
ip -4 rule add priority 8684 from 10.86.84.2 lookup 86842
echo 1 > /proc/sys/net/ipv4/conf/anabranch0/forwarding
echo 1 > /proc/sys/net/ipv4/conf/wlan0/forwarding
echo 1 > /proc/sys/net/ipv4/conf/wwan0/forwarding
echo 1 > /proc/sys/net/ipv6/conf/anabranch0/force_forwarding
echo 1 > /proc/sys/net/ipv6/conf/wlan0/force_forwarding
"#;

#[test]
fn a_laptop_with_wifi_and_lte() {
    let plan = plan(&options(&["wlan0", "wwan0"]), &laptop()).unwrap();
    assert_eq!(lines(&plan), LAPTOP);
    assert!(plan.layout.notes().is_empty());
}

#[test]
fn every_step_but_those_of_the_device_is_undone_by_its_opposite() {
    let plan = plan(&options(&["wlan0", "wwan0"]), &laptop()).unwrap();
    let undone = plan.steps.iter().rev().filter_map(|step| step.undo(Some("0")));
    let undone: Vec<String> = undone.map(|action| action.to_string()).collect();
    assert_eq!(
        undone,
        [
            "echo 0 > /proc/sys/net/ipv6/conf/wlan0/force_forwarding",
            "echo 0 > /proc/sys/net/ipv6/conf/anabranch0/force_forwarding",
            "echo 0 > /proc/sys/net/ipv4/conf/wwan0/forwarding",
            "echo 0 > /proc/sys/net/ipv4/conf/wlan0/forwarding",
            "echo 0 > /proc/sys/net/ipv4/conf/anabranch0/forwarding",
            "ip -4 rule del priority 8684 from 10.86.84.2 lookup 86842",
            "ip -6 rule del priority 8684 from fd86:8684::1 lookup 86841",
            "ip -4 rule del priority 8684 from 10.86.84.1 lookup 86841",
            "ip -4 route del unreachable default metric 4294967295 table 86842",
            "ip -4 route del default dev wwan0 table 86842",
            "ip -6 route del unreachable default metric 4294967295 table 86841",
            "ip -6 route del default via fe80::1 dev wlan0 table 86841",
            "ip -6 route del 2001:db8:1::/64 dev wlan0 table 86841",
            "ip -4 route del unreachable default metric 4294967295 table 86841",
            "ip -4 route del default via 192.168.1.1 dev wlan0 table 86841",
            "ip -4 route del 192.168.1.0/24 dev wlan0 table 86841",
            "nft delete table inet anabranch_anabranch0",
            "ip link del dev anabranch0",
        ]
    );
}

/// Before Linux 6.17 IPv6 forwards for all interfaces or none, and a router ignores router advertisements by
/// default: the plan changes that first.
#[test]
fn without_a_switch_for_each_interface_ipv6_forwards_for_all_and_keeps_its_default_route() {
    let mut host = laptop();
    host.sysctls.retain(|key, _| !key.contains("force_forwarding"));
    host.sysctls.insert("net/ipv6/conf/wwan0/accept_ra".into(), "0".into());
    let text = lines(&plan(&options(&["wlan0"]), &host).unwrap());
    let end = text.split("echo 1 > /proc/sys/net/ipv4/conf/wlan0/forwarding\n").nth(1).unwrap();
    assert_eq!(
        end.lines().collect::<Vec<_>>(),
        [
            "echo 2 > /proc/sys/net/ipv6/conf/wlan0/accept_ra",
            "echo 1 > /proc/sys/net/ipv6/conf/lo/forwarding",
            "echo 1 > /proc/sys/net/ipv6/conf/wlan0/forwarding",
            "echo 1 > /proc/sys/net/ipv6/conf/wwan0/forwarding",
            "echo 1 > /proc/sys/net/ipv6/conf/default/forwarding",
            "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
        ]
    );
}

#[test]
fn an_interface_that_forwards_already_stays_open() {
    let mut host = laptop();
    host.sysctls.insert("net/ipv4/conf/wlan0/forwarding".into(), "1".into());
    host.sysctls.insert("net/ipv6/conf/all/forwarding".into(), "1".into());
    let text = lines(&plan(&options(&["wlan0", "wwan0"]), &host).unwrap());
    assert!(!text.contains("iifname \"wlan0\""), "{text}");
    assert!(text.contains("iifname \"wwan0\" meta nfproto ipv4 drop"), "{text}");
    assert!(!text.contains("/proc/sys/net/ipv6"), "{text}");
}

#[test]
fn one_family_can_be_asked_for() {
    let mut four = options(&["wlan0"]);
    four.families = Families::Ipv4;
    let text = lines(&plan(&four, &laptop()).unwrap());
    assert!(!text.contains("-6") && !text.contains("ipv6") && !text.contains("ip6"), "{text}");
    let mut six = options(&["wlan0"]);
    six.families = Families::Ipv6;
    let text = lines(&plan(&six, &laptop()).unwrap());
    assert!(!text.contains("-4") && !text.contains("ipv4"), "{text}");
    six.paths = options(&["wwan0"]).paths;
    assert!(refusal(&six, &laptop()).contains("wwan0 has no IPv6 address"));
}

#[test]
fn a_gateway_can_be_named_and_two_paths_share_an_interface() {
    let two = options(&["wlan0", "wlan0,via=192.168.1.2"]);
    let text = lines(&plan(&two, &laptop()).unwrap());
    assert!(text.contains("default via 192.168.1.1 dev wlan0 table 86841"), "{text}");
    assert!(text.contains("default via 192.168.1.2 dev wlan0 table 86842"), "{text}");
    assert_eq!(text.matches("conf/wlan0/forwarding").count(), 1);
    assert_eq!(text.matches("iifname \"wlan0\" meta nfproto ipv4 drop").count(), 1);
    let refused = refusal(&options(&["wwan0,via=fe80::1"]), &laptop());
    assert!(refused.contains("no address of the family"), "{refused}");
}

#[test]
fn the_best_default_route_of_the_interface_counts_with_its_flags() {
    let mut host = laptop();
    host.routes.push(Route { onlink: true, ..route("default", Some("172.31.1.1"), "wlan0", 100) });
    let text = lines(&plan(&options(&["wlan0"]), &host).unwrap());
    assert!(text.contains("ip -4 route add default via 172.31.1.1 dev wlan0 onlink table 86841"), "{text}");
    // RFC 5549.
    host.routes.push(Route { ipv6: false, ..route("default", Some("fe80::9"), "wlan0", 50) });
    let text = lines(&plan(&options(&["wlan0"]), &host).unwrap());
    assert!(text.contains("ip -4 route add default via inet6 fe80::9 dev wlan0 table 86841"), "{text}");
}

#[test]
fn an_interface_without_a_way_to_everywhere_is_noted() {
    let mut host = laptop();
    host.routes.retain(|route| route.dst.is_some());
    let plan = plan(&options(&["wlan0"]), &host).unwrap();
    let notes = plan.layout.notes().join("\n");
    assert!(notes.contains("path 10.86.84.1 reaches 192.168.1.0/24 only"), "{notes}");
    assert!(notes.contains("path fd86:8684::1 reaches 2001:db8:1::/64 only"), "{notes}");
    assert!(!lines(&plan).contains("add default"));
}

#[test]
fn tables_that_others_use_are_left_to_them() {
    let mut host = laptop();
    host.rules.push(Rule { ipv6: true, priority: 5, src: None, table: 86_841, conditions: true });
    host.routes.push(Route { table: 86_842, ..route("10.9.0.0/16", None, "wlan0", 0) });
    let text = lines(&plan(&options(&["wlan0", "wwan0"]), &host).unwrap());
    assert!(!text.contains("table 86841") && !text.contains("table 86842"), "{text}");
    assert!(text.contains("table 86843") && text.contains("table 86844"), "{text}");
}

#[test]
fn what_others_have_made_is_not_touched() {
    let wlan = options(&["wlan0"]);
    let mut host = laptop();
    host.links.push(link(9, "anabranch0", 1500, &[]));
    assert!(refusal(&wlan, &host).contains("there is a device anabranch0 already"));

    let mut host = laptop();
    let table = NftTable { family: "inet".into(), name: "anabranch_anabranch0".into(), handle: 7 };
    host.nft_tables = Some(vec![table]);
    assert!(refusal(&wlan, &host).contains("there is already an nftables table"));

    for taken in ["10.86.84.0/25", "10.0.0.0/8", "fd86::/16"] {
        let mut host = laptop();
        host.routes.push(route(taken, None, "tap7", 0));
        let text = refusal(&wlan, &host);
        assert!(
            text.contains(&format!("{taken} is routed through tap7")) && text.contains("--prefix"),
            "{text}"
        );
    }
}

#[test]
fn an_interface_that_cannot_carry_a_path_is_refused_with_the_remedy() {
    let refused = refusal(&options(&["eth7"]), &laptop());
    assert!(refused.contains("there is no interface eth7; up and with an address here: wlan0, wwan0"));
    assert!(refusal(&options(&[]), &laptop()).contains("--path IFACE"));
    assert!(refusal(&options(&["lo"]), &laptop()).contains("loopback"));
    let mut host = laptop();
    host.links[1].flags.clear();
    assert!(refusal(&options(&["wlan0"]), &host).contains("wlan0 is down"));
    host.links[2].addr_info.clear();
    assert!(refusal(&options(&["wwan0"]), &host).contains("no address"));
    assert!(refusal(&options(&["eth7"]), &host).contains("no interface here is up and has an address"));
}

#[test]
fn the_device_takes_the_users_wishes() {
    let mut wishes = options(&["wlan0"]);
    wishes.device = "mp-1".into();
    wishes.owner = Some(1000);
    wishes.mtu = Some(9000);
    wishes.prefix = "172.20.0.0/29".parse().unwrap();
    let text = lines(&plan(&wishes, &laptop()).unwrap());
    for line in [
        "ip tuntap add dev mp-1 mode tun multi_queue user 1000",
        "mtu 9000 ",
        "ip -4 addr add 172.20.0.6/29 dev mp-1",
        "from 172.20.0.1 lookup",
        "table inet anabranch_mp_1 {",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn a_namespace_of_ones_own_has_a_device_and_no_way_out() {
    let plan = namespace::plan(&options(&["a", "b"])).unwrap();
    let text = namespace::describe(&plan, &["sh".into(), "-c".into(), "ip addr".into()]);
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "unshare --user --map-root-user --net",
            "ip link set dev lo up",
            "ip tuntap add dev anabranch0 mode tun multi_queue",
            "ip link set dev anabranch0 mtu 1500 txqueuelen 10000 addrgenmode none",
            "ip -4 addr add 10.86.84.254/24 dev anabranch0",
            "ip -6 addr add fd86:8684::fe/64 dev anabranch0 nodad",
            "ip link set dev anabranch0 up",
            "exec sh -c 'ip addr'",
        ]
    );
    let addresses: Vec<String> =
        plan.layout.paths.iter().flat_map(|path| &path.legs).map(|leg| leg.address.to_string()).collect();
    assert_eq!(addresses, ["10.86.84.1", "fd86:8684::1", "10.86.84.2", "fd86:8684::2"]);
}

#[test]
fn a_plan_survives_being_written_down() {
    let plan = plan(&options(&["wlan0", "wwan0"]), &laptop()).unwrap();
    let state = State::new(&plan, "boot".into());
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
}
