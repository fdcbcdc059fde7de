//! Tests of every check, on made-up facts.

use core::time::Duration;
use std::collections::BTreeMap;

use super::*;
use crate::{Address, Capabilities, Host, Link, MAIN_TABLE, NftChain, Route, Rule};

fn link(name: &str, address: &str) -> Link {
    let address = Address {
        local: Some(address.parse().unwrap()),
        prefixlen: 24,
        scope: "global".into(),
        deprecated: false,
        tentative: false,
    };
    Link {
        ifname: name.into(),
        flags: vec!["UP".into()],
        mtu: 1500,
        operstate: "UP".into(),
        addr_info: vec![address],
        ..Link::default()
    }
}

fn default_route(dev: &str) -> Route {
    Route {
        dst: None,
        ipv6: false,
        kind: "unicast".into(),
        gateway: None,
        onlink: false,
        dev: dev.into(),
        table: MAIN_TABLE,
        metric: 0,
    }
}

fn endpoint(address: &str, dev: Option<&str>) -> MptcpEndpoint {
    MptcpEndpoint {
        address: address.parse().unwrap(),
        id: 2,
        dev: dev.map(str::to_owned),
        subflow: true,
        signal: false,
        backup: true,
        fullmesh: false,
    }
}

/// Returns a host without problems.
fn healthy() -> Facts {
    let host = Host {
        links: vec![link("wlan0", "192.0.2.2"), link("wwan0", "198.51.100.2")],
        routes: vec![default_route("wlan0"), default_route("wwan0")],
        nft_tables: Some(Vec::new()),
        ..Host::default()
    };
    let source = |interface: &str, address: &str| Source {
        interface: interface.into(),
        address: address.parse().unwrap(),
        leaves_by: Some(interface.into()),
        enters: true,
    };
    let sysctls = [
        ("net/mptcp/enabled", "1"),
        ("net/mptcp/checksum_enabled", "0"),
        ("net/mptcp/allow_join_initial_addr_port", "1"),
        ("net/mptcp/pm_type", "0"),
        ("net/mptcp/scheduler", "default"),
        ("net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
        ("net/ipv4/tcp_wmem", "4096\t16384\t4194304"),
        ("net/ipv4/tcp_congestion_control", "bbr"),
        ("net/ipv4/tcp_available_congestion_control", "reno bbr cubic"),
    ];
    Facts {
        kernel: "6.1.0-13-amd64".into(),
        sysctls: sysctls.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        mptcp_limits: Some((4, 4)),
        mptcp_endpoints: Some(vec![endpoint("198.51.100.2", Some("wwan0"))]),
        tun: TunFile::Opens { offload: true },
        capabilities: Some(Capabilities { root: true, net_admin: true, inherited: false }),
        programs: vec![("ip", Some("iproute2-6.1.0".into())), ("nft", Some("nftables v1.0.6".into()))],
        open_files: Some(1024),
        host: Ok(host),
        sources: vec![source("wlan0", "192.0.2.2"), source("wwan0", "198.51.100.2")],
        setups: Ok(Vec::new()),
        features: Some(BTreeMap::new()),
        probe: None,
    }
}

/// Returns the one check of `id` after `change`.
fn after(id: &str, change: impl FnOnce(&mut Facts)) -> Check {
    let mut facts = healthy();
    change(&mut facts);
    let mut found: Vec<Check> = judge(&facts).into_iter().filter(|check| check.id == id).collect();
    assert_eq!(found.len(), 1, "{id}");
    found.remove(0)
}

fn host(facts: &mut Facts) -> &mut Host {
    facts.host.as_mut().unwrap()
}

fn sysctl(facts: &mut Facts, key: &str, value: &str) {
    facts.sysctls.insert(key.into(), value.into());
}

#[test]
fn the_congestion_control_of_the_kernel_is_named() {
    let check = after("congestion", |_| ());
    assert_eq!(
        (check.level, check.what.contains("`bbr`"), check.what.contains("reno bbr")),
        (Level::Ok, true, true)
    );
    let check = after("congestion", |facts| drop(facts.sysctls.remove("net/ipv4/tcp_congestion_control")));
    assert_eq!(check.level, Level::Warn);
}

#[test]
fn a_healthy_host_has_nothing_but_ok() {
    for check in judge(&healthy()) {
        assert_eq!((check.level, &check.remedy), (Level::Ok, &None), "{check:?}");
    }
}

#[test]
fn names_are_unique_and_what_is_not_ok_has_a_remedy() {
    let mut bad = healthy();
    bad.tun = TunFile::Missing;
    bad.capabilities = None;
    bad.programs.clear();
    bad.sysctls.clear();
    bad.mptcp_limits = None;
    bad.open_files = Some(64);
    bad.features = None;
    bad.kernel = "4.19.0".into();
    *host(&mut bad) = Host::default();
    bad.setups = Err("not understood".into());
    bad.probe = Some(Probe {
        target: "x".into(),
        address: None,
        outcome: ProbeOutcome::FellBack,
        counters: BTreeMap::new(),
    });
    let checks = judge(&bad);
    for (n, check) in checks.iter().enumerate() {
        assert!(!checks[..n].iter().any(|other| other.id == check.id), "{}", check.id);
        assert_eq!(check.level == Level::Ok, check.remedy.is_none(), "{check:?}");
    }
    let fails: Vec<&str> =
        checks.iter().filter(|check| check.level == Level::Fail).map(|check| check.id).collect();
    assert_eq!(fails, ["tun", "interfaces", "option-30"]);
}

#[test]
fn each_trouble_is_seen_and_named() {
    type Change = fn(&mut Facts);
    let troubles: &[(&str, Level, &str, Change)] = &[
        ("tun", Level::Fail, "is missing", |f| f.tun = TunFile::Missing),
        ("tun", Level::Warn, "does not support offload", |f| f.tun = TunFile::Opens { offload: false }),
        ("tun", Level::Fail, "no permission to open", |f| f.tun = TunFile::Denied),
        ("tun", Level::Fail, "No such device", |f| f.tun = TunFile::Broken("No such device".into())),
        ("capability", Level::Warn, "no CAP_NET_ADMIN", |f| {
            f.capabilities = Some(Capabilities { root: true, net_admin: false, inherited: false });
        }),
        ("capability", Level::Warn, "do not inherit", |f| {
            f.capabilities = Some(Capabilities { root: false, net_admin: true, inherited: false });
        }),
        ("iproute2", Level::Warn, "`ip` is missing", |f| f.programs[0].1 = None),
        ("nftables", Level::Warn, "`nft` is missing", |f| f.programs[1].1 = None),
        ("interfaces", Level::Fail, "no interface", |f| host(f).links.clear()),
        ("routes", Level::Warn, "no interface could", |f| host(f).links.clear()),
        ("interfaces", Level::Fail, "no interface", |f| {
            host(f).links.iter_mut().for_each(|link| link.flags.clear());
        }),
        ("interfaces", Level::Warn, "wlan0 (192.0.2.2, MTU 1500) alone", |f| host(f).links.truncate(1)),
        ("interfaces", Level::Warn, "alone", |f| host(f).links[1].operstate = "DOWN".into()),
        ("interfaces", Level::Warn, "alone", |f| host(f).links[1].linkinfo.info_kind = "tun".into()),
        ("interfaces", Level::Fail, "ip is broken", |f| f.host = Err("ip is broken".into())),
        ("routes", Level::Warn, "through wwan0", |f| host(f).routes.truncate(1)),
        ("source-routes", Level::Warn, "198.51.100.2 of wwan0 leaves by wlan0; this", |f| {
            f.sources[1].leaves_by = Some("wlan0".into());
        }),
        ("source-routes", Level::Warn, "has no route", |f| f.sources[1].leaves_by = None),
        ("rp-filter", Level::Warn, "distant hosts to 198.51.100.2 of wwan0, as", |f| {
            f.sources[1].enters = false;
            host(f).sysctls.insert("net/ipv4/conf/all/rp_filter".into(), "1".into());
        }),
        ("rp-filter", Level::Warn, "distant hosts to 198.51.100.2 of wwan0, as", |f| {
            f.sources[1].enters = false;
            host(f).sysctls.insert("net/ipv4/conf/wwan0/rp_filter".into(), "1".into());
        }),
        ("firewall", Level::Warn, "ip filter FORWARD drops", |f| {
            host(f).nft_chains.push(NftChain {
                family: "ip".into(),
                table: "filter".into(),
                name: "FORWARD".into(),
                hook: "forward".into(),
                policy: "drop".into(),
            });
        }),
        ("firewall", Level::Warn, "cannot be queried", |f| host(f).nft_tables = None),
        ("offload", Level::Warn, "without ethtool", |f| f.features = None),
        ("offload", Level::Warn, "wlan0 merges", |f| {
            let lro = [("large-receive-offload".to_owned(), true)].into();
            f.features = Some([("wlan0".to_owned(), lro)].into());
        }),
        ("setup", Level::Warn, "not understood", |f| f.setups = Err("not understood".into())),
        ("setup", Level::Warn, "rules of priority 8684", |f| {
            let rule = Rule { ipv6: false, priority: 8684, src: None, table: 7, conditions: false };
            host(f).rules.push(rule);
        }),
        ("open-files", Level::Warn, "limit of open files is 64", |f| f.open_files = Some(64)),
        ("kernel", Level::Warn, "incomplete", |f| f.kernel = "5.10.0-28-amd64".into()),
        ("kernel", Level::Warn, "no Multipath TCP", |f| f.kernel = "5.4.0".into()),
        ("kernel", Level::Warn, "no Multipath TCP", |f| f.kernel = "unheard of".into()),
        ("mptcp", Level::Warn, "has no Multipath TCP", |f| f.sysctls.clear()),
        ("mptcp", Level::Warn, "disabled in the kernel", |f| sysctl(f, "net/mptcp/enabled", "0")),
        ("mptcp-join", Level::Warn, "flag C", |f| sysctl(f, "net/mptcp/allow_join_initial_addr_port", "0")),
        ("mptcp-path-manager", Level::Warn, "user space", |f| sysctl(f, "net/mptcp/pm_type", "1")),
        ("mptcp-path-manager", Level::Warn, "user space", |f| {
            sysctl(f, "net/mptcp/path_manager", "userspace");
        }),
        ("mptcp-path-manager", Level::Warn, "none in user space", |f| {
            f.sysctls.remove("net/mptcp/pm_type");
        }),
        ("mptcp-limits", Level::Warn, "joins from its own", |f| f.mptcp_limits = Some((0, 2))),
        ("mptcp-limits", Level::Warn, "uses one path", |f| f.mptcp_limits = Some((4, 0))),
        ("mptcp-limits", Level::Warn, "limits` fails", |f| f.mptcp_limits = None),
        ("mptcp-endpoints", Level::Warn, "endpoint` fails", |f| f.mptcp_endpoints = None),
        ("mptcp-endpoints", Level::Warn, "no interface has", |f| {
            f.mptcp_endpoints = Some(vec![endpoint("198.51.100.3", Some("wwan0"))]);
        }),
        ("mptcp-endpoints", Level::Warn, "wwan0 has the address, so packets would leave wlan0", |f| {
            f.mptcp_endpoints = Some(vec![endpoint("198.51.100.2", Some("wlan0"))]);
        }),
        ("mptcp-endpoints", Level::Warn, "wwan0 is down", |f| host(f).links[1].flags.clear()),
        ("mptcp-endpoints", Level::Warn, "no dev, and packets for wwan0 leave by wlan0", |f| {
            f.mptcp_endpoints = Some(vec![endpoint("198.51.100.2", None)]);
            f.sources[1].leaves_by = Some("wlan0".into());
        }),
        ("buffers", Level::Warn, "at most 167 Mbit/s", |f| {
            sysctl(f, "net/ipv4/tcp_wmem", "4096 16384 2097152")
        }),
        ("buffers", Level::Warn, "cannot be read", |f| sysctl(f, "net/ipv4/tcp_wmem", "")),
    ];
    for (id, level, word, change) in troubles {
        let check = after(id, change);
        assert_eq!(check.level, *level, "{word}: {check:?}");
        assert!(check.what.contains(word), "{word}: {check:?}");
        assert!(check.remedy.is_some(), "{check:?}");
    }
}

#[test]
fn an_older_name_of_the_path_manager_does_not_overrule_the_newer() {
    let check = after("mptcp-path-manager", |facts| {
        sysctl(facts, "net/mptcp/pm_type", "1");
        sysctl(facts, "net/mptcp/path_manager", "kernel");
    });
    assert_eq!(check.level, Level::Ok);
}

#[test]
fn a_filter_that_lets_in_and_an_endpoint_that_is_bound_are_no_trouble() {
    let strict = |value: &'static str| {
        after("rp-filter", move |facts| {
            facts.sources[1].enters = false;
            // The higher of the two counts, and 2 is loose.
            host(facts).sysctls.insert("net/ipv4/conf/all/rp_filter".into(), "1".into());
            host(facts).sysctls.insert("net/ipv4/conf/wwan0/rp_filter".into(), value.into());
        })
        .level
    };
    assert_eq!((strict("0"), strict("1"), strict("2")), (Level::Warn, Level::Warn, Level::Ok));
    let bound = after("mptcp-endpoints", |facts| facts.sources[1].leaves_by = Some("wlan0".into()));
    assert_eq!(bound.level, Level::Ok, "{bound:?}");
    let announced = after("mptcp-endpoints", |facts| {
        let other = MptcpEndpoint { subflow: false, signal: true, ..endpoint("203.0.113.1", None) };
        facts.mptcp_endpoints = Some(vec![other]);
    });
    assert_eq!(announced.level, Level::Ok, "{announced:?}");
}

#[test]
fn the_remedy_of_an_endpoint_makes_it_anew_where_its_address_is() {
    let check = after("mptcp-endpoints", |facts| {
        facts.mptcp_endpoints = Some(vec![endpoint("198.51.100.2", Some("wlan0"))]);
    });
    let remedy = "ip mptcp endpoint delete id 2; ip mptcp endpoint add 198.51.100.2 dev wwan0 subflow backup";
    assert_eq!(check.remedy.as_deref(), Some(remedy));
}

#[test]
fn checksums_by_hardware_are_explained_and_no_trouble() {
    let check = after("offload", |facts| {
        let sums = [("tx-checksumming".to_owned(), true)].into();
        facts.features = Some([("wlan0".to_owned(), sums)].into());
    });
    assert_eq!(check.level, Level::Ok);
    assert!(check.what.contains("wlan0 compute the checksums"), "{check:?}");
}

/// A finding claims no more than one end can observe.
#[test]
fn a_probe_says_what_it_can_tell() {
    let level = |outcome: ProbeOutcome, counters: &[&str]| {
        let check = after("option-30", |facts| {
            facts.probe = Some(Probe {
                target: "host".into(),
                address: "192.0.2.9:80".parse().ok(),
                outcome,
                counters: counters.iter().map(|name| ((*name).to_owned(), 1)).collect(),
            });
        });
        (check.level, check.what)
    };
    let (ok, what) = level(ProbeOutcome::Multipath, &[]);
    assert!(ok == Level::Ok && what.contains("with data") && what.contains("not for the other interfaces"));
    let (ok, what) = level(ProbeOutcome::Handshake, &[]);
    assert!(ok == Level::Ok && what.contains("data was not tested"));
    let expected: [(ProbeOutcome, &[&str], &str); 11] = [
        (ProbeOutcome::FellBack, &["MPCapableFallbackSYNACK"], "either it does not"),
        (ProbeOutcome::FellBack, &["MPCapableSYNTXDrop"], "drops them"),
        (ProbeOutcome::FellBack, &["MPCapableSYNTXDisabled"], "blackhole_timeout"),
        (ProbeOutcome::FellBackLater, &[], "but not with data"),
        (ProbeOutcome::NoMptcp("x".into()), &[], "provides no multipath tcp socket"),
        (ProbeOutcome::NoName("x".into()), &[], "cannot be tested"),
        (ProbeOutcome::NoConnection("x".into()), &[], "with the option or without"),
        (ProbeOutcome::Refused, &[], "refuses connections"),
        (ProbeOutcome::PlainAlone(Duration::from_secs(7)), &[], "for 7 s, but answers one without"),
        (ProbeOutcome::Silent(Duration::from_secs(7)), &[], "no answer in 7 s"),
        (ProbeOutcome::Unknown("x".into()), &[], "unknown: "),
    ];
    for (outcome, counters, word) in expected {
        let (level, what) = level(outcome.clone(), counters);
        assert_eq!(level, Level::Fail, "{outcome:?}");
        assert!(what.to_lowercase().contains(word), "{outcome:?}: {what}");
    }
}

/// A numeric target is not repeated as an address.
#[test]
fn a_probe_names_its_target_once() {
    let what = |target: &str| {
        let check = after("option-30", |facts| {
            facts.probe = Some(Probe {
                target: target.into(),
                address: "192.0.2.9:80".parse().ok(),
                outcome: ProbeOutcome::Refused,
                counters: BTreeMap::new(),
            });
        });
        check.what
    };
    assert!(what("host").contains("host (192.0.2.9:80) refuses"), "{}", what("host"));
    assert!(what("192.0.2.9:80").contains(": 192.0.2.9:80 refuses"), "{}", what("192.0.2.9:80"));
}
