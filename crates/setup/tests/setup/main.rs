//! Setups on a real kernel, in its own network namespaces.
#![cfg(target_os = "linux")]

mod lab;
#[path = "../../../../tests/skipped.rs"]
mod skipped;

use anabranch_setup::{Families, SetupError, follow, setup, show, teardown};
use lab::{Failing, Lab, possible, two_paths};

const DEVICE: &str = "anabranch0";

fn same(before: &str, after: &str) {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (old, new) = (lines(before), lines(after));
    let gone: Vec<_> = old.iter().filter(|line| !new.contains(line)).collect();
    let come: Vec<_> = new.iter().filter(|line| !old.contains(line)).collect();
    assert!(gone.is_empty() && come.is_empty() && old.len() == new.len(), "gone: {gone:#?}\ncome: {come:#?}");
}

/// Packets of each address leave by its own interface, are translated to that interface's address, and
/// replies return through strict reverse path filters; a teardown restores the original state.
#[test]
fn each_path_leaves_by_its_own_interface_and_nothing_is_left_behind() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    let before = lab.snapshot();
    let outcome = lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap();
    assert!(!outcome.repaired && !outcome.made.is_empty());
    assert_ne!(before, lab.snapshot());
    let seen = |interface: &str, source: &str| Some((interface.to_owned(), source.to_owned()));
    assert_eq!(lab.ping(DEVICE, "10.86.84.1", "203.0.113.9"), seen("f0", "192.0.2.2"));
    assert_eq!(lab.ping(DEVICE, "10.86.84.2", "203.0.113.9"), seen("f1", "198.51.100.2"));
    assert_eq!(lab.ping(DEVICE, "fd86:8684::1", "2001:db8:9::9"), seen("f0", "2001:db8:1::2"));
    assert_eq!(lab.ping(DEVICE, "fd86:8684::2", "2001:db8:9::9"), seen("f1", "2001:db8:2::2"));
    // The networks of an interface are reached through that interface only.
    assert_eq!(lab.ping(DEVICE, "10.86.84.2", "198.51.100.1"), seen("f1", "198.51.100.2"));

    let shown = lab.at_home(|system, root| show(system, root)).unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].whole, Some(true), "{:?}", shown[0].parts);
    let report = lab.at_home(|system, root| teardown(DEVICE, system, root)).unwrap();
    assert!(report.left.is_empty(), "{:?}", report.left);
    same(&before, &lab.snapshot());
    assert!(lab.at_home(|system, root| show(system, root)).unwrap().is_empty());
    let error = lab.at_home(|system, root| teardown(DEVICE, system, root)).unwrap_err();
    assert!(matches!(&error, SetupError::Refused(text) if text.contains("no recorded setup")), "{error}");
}

/// Packets without a path of their own are not forwarded: neither those from an unassigned address, nor those
/// of a path whose interface has disappeared. And no host outside can reach the device, or a network beyond
/// it.
#[test]
fn nothing_leaks() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap();
    assert_eq!(lab.ping(DEVICE, "10.86.84.77", "203.0.113.9"), None);
    assert_eq!(lab.ping(DEVICE, "fd86:8684::77", "2001:db8:9::9"), None);
    lab.home("ip link set r0 down");
    assert_eq!(lab.ping(DEVICE, "10.86.84.1", "203.0.113.9"), None);
    assert!(lab.ping(DEVICE, "10.86.84.2", "203.0.113.9").is_some());
    lab.home("ip link set r0 up");
    // The far host sends to a path's address, and to a third host beyond this one.
    let (home, far) = (&lab.home, &lab.far);
    let ping = |to: &str| lab::shell(&format!("ip netns exec {far} ping -c 1 -W 1 {to}")).status.success();
    lab::must(&format!("ip -n {far} route add 10.86.84.0/24 via 198.51.100.2"));
    assert!(ping("198.51.100.2"));
    // Packets forwarded into the device are counted after the filter.
    lab.home(
        "nft \"add table inet count; add chain inet count f { type filter hook forward priority 10; }\"",
    );
    lab.home("nft add rule inet count f oifname anabranch0 counter");
    let reached = || !lab.home("nft list chain inet count f").contains("packets 0 ");
    assert!(!ping("10.86.84.2"));
    assert!(!reached(), "a host outside reaches a path's address");
    lab::must(&format!(
        "ip netns add {home}-x; ip -n {home} link add y type veth peer name x netns {home}-x
         ip -n {home} addr add 10.99.0.1/24 dev y; ip -n {home} link set y up
         ip -n {home}-x addr add 10.99.0.2/24 dev x; ip -n {home}-x link set x up
         ip -n {home}-x route add default via 10.99.0.1; ip -n {far} route add 10.99.0.0/24 via 198.51.100.2"
    ));
    lab.home("echo 1 > /proc/sys/net/ipv4/conf/y/forwarding");
    let through = ping("10.99.0.2");
    // Without the filter both would be forwarded, so the test can fail.
    lab.home("nft flush chain inet anabranch_anabranch0 forward");
    let without = ping("10.99.0.2");
    lab::must(&format!("ip netns del {home}-x"));
    assert!(!through, "the host has become a router for others");
    assert!(without && !ping("10.86.84.2") && reached());
}

/// Whichever step fails, all previous ones are undone.
#[test]
fn a_failure_in_the_middle_undoes_what_was_made() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    let before = lab.snapshot();
    let steps = lab.at_home(|system, _| anabranch_setup::plan(&two_paths(), system)).unwrap().steps.len();
    assert!(steps > 20);
    for fail in 1..=steps {
        let error = lab
            .at_home(|_, root| setup(&two_paths(), &mut Failing { fail, changes: 0 }, root))
            .unwrap_err()
            .to_string();
        assert!(error.contains("made to fail") && error.ends_with("undone"), "{error}");
        if fail % 4 == 0 || fail == steps {
            same(&before, &lab.snapshot());
        }
        assert!(lab.at_home(|system, root| show(system, root)).unwrap().is_empty());
    }
}

#[test]
fn a_second_setup_makes_what_is_missing_and_no_more() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    let before = lab.snapshot();
    let again = || lab.at_home(|system, root| setup(&two_paths(), system, root));
    again().unwrap();
    let whole = lab.snapshot();
    let outcome = again().unwrap();
    assert!(outcome.repaired && outcome.made.is_empty(), "{:?}", outcome.made);

    // An administrator removes parts by hand.
    lab.home("ip rule del from 10.86.84.2; ip -6 route flush table 86841; nft delete table inet anabranch_anabranch0");
    lab.home("echo 0 > /proc/sys/net/ipv4/conf/r1/forwarding");
    let shown = lab.at_home(|system, root| show(system, root)).unwrap();
    assert_eq!(shown[0].whole, Some(false));
    let outcome = again().unwrap();
    // (Such a flush spares unreachable routes.)
    assert_eq!(outcome.made.len(), 5, "{:?}", outcome.made);
    same(&whole, &lab.snapshot());

    // A failed repair leaves the rest alone.
    lab.home("ip rule del from 10.86.84.1; ip rule del from 10.86.84.2");
    let error =
        lab.at_home(|_, root| setup(&two_paths(), &mut Failing { fail: 2, changes: 0 }, root)).unwrap_err();
    assert!(error.to_string().ends_with("previous state is restored"), "{error}");
    assert!(!lab.home("ip rule").contains("10.86.84"));
    assert!(lab.home("nft list ruleset").contains("masquerade"));

    // Other options make another setup.
    let mut other = two_paths();
    other.families = Families::Ipv4;
    let error = lab.at_home(|system, root| setup(&other, system, root)).unwrap_err();
    assert!(matches!(&error, SetupError::Refused(text) if text.contains("teardown")), "{error}");

    let report = lab.at_home(|system, root| teardown(DEVICE, system, root)).unwrap();
    assert_eq!(report.left.len(), 2, "{:?}", report.left);
    same(&before, &lab.snapshot());
}

/// An interface that comes back, as it was or as a new one, and another gateway: the path has its routes again, and a teardown leaves nothing.
#[test]
fn paths_follow_their_interfaces() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    let before = lab.snapshot();
    let follow = || lab.at_home(|system, root| follow(DEVICE, system, root));
    assert!(matches!(follow().unwrap_err(), SetupError::Refused(text) if text.contains("tun setup")));
    lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap();
    let whole = lab.snapshot();
    let seen = |interface: &str, source: &str| Some((interface.to_owned(), source.to_owned()));
    let changes = |wanted: [usize; 2]| {
        let followed = follow().unwrap();
        assert_eq!([followed.made.len(), followed.undone.len()], wanted, "{followed:?}");
        assert!(followed.failed.is_empty(), "{followed:?}");
    };
    changes([0, 0]);
    // Down and up: IPv4 loses the routes, IPv6 the addresses too.
    lab.home("ip link set r0 down");
    changes([0, 0]);
    let back = "ip link set r0 up; ip -6 addr replace 2001:db8:1::2/64 dev r0 nodad
        ip route add default via 192.0.2.1 dev r0 metric 100
        ip -6 route replace default via 2001:db8:1::1 dev r0 metric 100";
    lab.home(back);
    changes([4, 0]);
    same(&whole, &lab.snapshot());
    assert_eq!(lab.ping(DEVICE, "10.86.84.1", "203.0.113.9"), seen("f0", "192.0.2.2"));
    assert_eq!(lab.ping(DEVICE, "fd86:8684::1", "2001:db8:9::9"), seen("f0", "2001:db8:1::2"));
    // Another network with another gateway.
    lab::must(&format!("ip -n {} addr add 192.0.3.1/24 dev f0", lab.far));
    lab.home(
        "ip addr flush dev r0 scope global; ip addr add 192.0.3.2/24 dev r0
         ip route add default via 192.0.3.1 dev r0 metric 100
         ip -6 addr add 2001:db8:1::2/64 dev r0 nodad; ip -6 route replace default via 2001:db8:1::1 dev r0 metric 100",
    );
    changes([2, 0]);
    assert_eq!(lab.ping(DEVICE, "10.86.84.1", "203.0.113.9"), seen("f0", "192.0.3.2"));
    // Another gateway of the same network: the old route is removed.
    lab::must(&format!("ip -n {} addr add 192.0.3.7/24 dev f0", lab.far));
    lab.home("ip route replace default via 192.0.3.7 dev r0 metric 100");
    changes([1, 1]);
    assert!(lab.home("ip route show table 86841").contains("default via 192.0.3.7 dev r0"));
    // A setup with the same options finds nothing missing.
    let outcome = lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap();
    assert!(outcome.repaired && outcome.made.is_empty(), "{:?}", outcome.made);
    // A new interface of the same name.
    let (home, far) = (&lab.home, &lab.far);
    lab::must(&format!(
        "ip -n {home} link del r1; ip -n {home} link add r1 type veth peer name f1 netns {far}
        ip -n {home} addr add 198.51.100.2/24 dev r1; ip -n {far} addr add 198.51.100.1/24 dev f1
        ip -n {home} link set r1 up; ip -n {far} link set f1 up
        ip -n {home} route add default via 198.51.100.1 dev r1 metric 200"
    ));
    let followed = follow().unwrap();
    assert!(followed.failed.is_empty() && followed.made.len() >= 3, "{followed:?}");
    assert_eq!(lab.ping(DEVICE, "10.86.84.2", "203.0.113.9"), seen("f1", "198.51.100.2"));
    let report = lab.at_home(|system, root| teardown(DEVICE, system, root)).unwrap();
    assert!(
        report.left.iter().all(|left| left.contains("gone already") || left.contains("IPv6 ")),
        "{:?}",
        report.left
    );
    let left = lab.home("ip rule; ip route show table all; ip -6 route show table all; nft list ruleset");
    assert!(!left.contains("8684"), "{left}");
    assert_eq!(lab.home("cat /proc/sys/net/ipv4/conf/r1/forwarding").trim(), "0");
    drop(before);
}

/// Objects that others have made or changed meanwhile are left alone.
#[test]
fn a_teardown_touches_only_what_was_made() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap();
    lab.home(
        "ip link del anabranch0; ip tuntap add dev anabranch0 mode tun
              nft delete table inet anabranch_anabranch0; nft add table inet anabranch_anabranch0
              ip route add 10.7.0.0/16 dev r1 table 86842
              ip rule add priority 8684 from 10.86.84.9 lookup 86842
              echo 0 > /proc/sys/net/ipv4/conf/r0/forwarding; ip link del r1",
    );
    let error = lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap_err();
    assert!(matches!(error, SetupError::Refused(_)), "{error}");
    let report = lab.at_home(|system, root| teardown(DEVICE, system, root)).unwrap();
    let left = report.left.join("\n");
    for what in [
        "device anabranch0: it is not the one that the setup made",
        "nftables table anabranch_anabranch0: it is not the one that the setup made",
        "net.ipv4.conf.r0.forwarding = 1: it was changed since",
        "net.ipv4.conf.r1.forwarding = 1: it is not the one that the setup made",
        "route default through r1 in table 86842: it was gone already",
    ] {
        assert!(left.contains(what), "{what}\n{left}");
    }
    assert!(lab.home("ip link show anabranch0").contains("anabranch0"));
    assert!(lab.home("nft list tables").contains("anabranch_anabranch0"));
    assert!(lab.home("ip rule").contains("10.86.84.9"));
    assert_eq!(lab.home("ip rule").matches("8684:").count(), 1);
    assert!(lab.at_home(|system, root| show(system, root)).unwrap().is_empty());
}

/// A state recorded before the last reboot describes nothing that could be undone.
#[test]
fn after_a_reboot_there_is_nothing_to_undo() {
    if !possible() {
        return;
    }
    let lab = Lab::new();
    lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap();
    let before = lab.snapshot();
    let file = lab::must(&format!("ls {}/*/{DEVICE}.json", lab.state.display()));
    lab::must(&format!("sed -i 's/\"boot_id\": \".*\"/\"boot_id\": \"another\"/' {file}"));
    assert!(lab.at_home(|system, root| show(system, root)).unwrap()[0].before_reboot);
    let report = lab.at_home(|system, root| teardown(DEVICE, system, root)).unwrap();
    assert!(report.rebooted && report.undone.is_empty());
    same(&before, &lab.snapshot());
    // A setup does not adopt the old state, nor the existing device.
    let error = lab.at_home(|system, root| setup(&two_paths(), system, root)).unwrap_err();
    assert!(error.to_string().contains("there is a device anabranch0 already"), "{error}");
}

/// A sysctl that two setups need is restored by the last of them.
#[test]
fn two_setups_share_a_switch() {
    if !possible() {
        return;
    }
    for first in [0, 1] {
        let lab = Lab::new();
        let before = lab.snapshot();
        let mut options = [two_paths(), two_paths()];
        options[1].device = "anabranch1".to_owned();
        options[1].prefix = "10.86.85.0/24".parse().unwrap();
        options[1].prefix6 = "fd86:8685::/64".parse().unwrap();
        for options in &options {
            lab.at_home(|system, root| setup(options, system, root)).unwrap();
        }
        lab.at_home(|system, root| teardown(&options[first].device, system, root)).unwrap();
        let (rest, address) = if first == 0 { ("anabranch1", "10.86.85.1") } else { (DEVICE, "10.86.84.1") };
        assert!(lab.ping(rest, address, "203.0.113.9").is_some());
        lab.at_home(|system, root| teardown(rest, system, root)).unwrap();
        same(&before, &lab.snapshot());
    }
}
