//! Runs with the kernel at one end and anabranch at the other, where both are available.
#![cfg(target_os = "linux")]

#[path = "../../../tests/skipped.rs"]
mod skipped;

use std::sync::atomic::AtomicBool;

use anabranch_emulate::obstacle;
use anabranch_lab::scenario::{Document, Scenario};
use anabranch_validate::Measured;
use anabranch_validate::points::KernelEnd;
use anabranch_validate::real::Transfer;

const ENDS: [KernelEnd; 2] = [KernelEnd::Receiver, KernelEnd::Sender];

/// Returns a scenario over two paths.
fn scenario(scheduler: &str, sets: &[&str]) -> Scenario {
    let paths = ["20Mbit/s,20ms,queue=4bdp", "10Mbit/s,30ms,queue=4bdp"].map(str::to_owned);
    let mut document = Document::bare();
    document.set_paths(&paths).unwrap();
    document.set_schedulers("--schedulers", &[scheduler.to_owned()]);
    for set in sets {
        document.set(set).unwrap();
    }
    document.scenario().unwrap()
}

/// Makes one attempt with the kernel at `end`, however late the machine is.
fn attempt(scheduler: &str, end: KernelEnd, sets: &[&str]) -> Measured {
    let transfer = Transfer::new(&scenario(scheduler, sets), 0, Some(end)).unwrap();
    assert!(transfer.is_mixed());
    transfer.attempt(0, &AtomicBool::new(false)).unwrap().unwrap().0
}

/// True if nothing can be run here, which is reported.
fn is_skipped() -> bool {
    obstacle().map(skipped::skipped).is_some()
}

#[test]
fn all_bytes_arrive_over_both_paths_with_the_kernel_at_either_end() {
    if is_skipped() {
        return;
    }
    for end in ENDS {
        for direction in ["upload", "download"] {
            let set = format!("traffic.direction={direction}");
            let measured = attempt("min_rtt", end, &["traffic.size=300KB", &set]);
            let what = format!("{end:?} {direction}: {measured:?}");
            assert_eq!(measured.delivered, 300_000, "{what}");
            assert!(measured.bytes_by_path.iter().all(|bytes| *bytes > 0), "{what}");
            assert!(measured.bytes_by_path.iter().sum::<u64>() >= 300_000, "{what}");
            // At 30 Mbit/s it takes 80 ms, plus a round trip for the handshake.
            assert!(measured.time_s.is_some_and(|time| time > 0.1), "{what}");
            assert!(measured.segments >= 300_000 / 1448, "{what}");
            // Of the stack that sends: its segments have 4 bytes more if that is the kernel.
            let most = measured.mss.iter().max();
            assert_eq!(most, Some(&if end == KernelEnd::Sender { 1424 } else { 1420 }), "{what}");
        }
    }
}

#[test]
fn a_plain_tcp_beside_background_flows_reaches_the_kernel_and_comes_from_it() {
    if is_skipped() {
        return;
    }
    for end in ENDS {
        let sets = [
            "traffic.size=50KB",
            "traffic.direction=download",
            "traffic.starts=[\"200 ms\", \"300 ms\"]",
            "traffic.background=[{ path = 1, flows = 2 }, { path = 2 }]",
        ];
        let measured = attempt("tcp@2", end, &sets);
        assert_eq!(measured.delivered, 100_000, "{end:?}: {measured:?}");
        assert_eq!(measured.bytes_by_path[0], 0, "{end:?}: {measured:?}");
    }
}

#[test]
fn an_infinite_transfer_ends_after_its_duration_with_the_kernel_at_either_end() {
    if is_skipped() {
        return;
    }
    for end in ENDS {
        for direction in ["upload", "download"] {
            let sets =
                ["traffic.size=bulk", "traffic.duration=1s", &format!("traffic.direction={direction}")];
            let measured = attempt("min_rtt", end, &sets);
            assert_eq!(measured.time_s, Some(1.0), "{end:?} {direction}");
            let bytes = measured.delivered;
            assert!((500_000..=3_750_000).contains(&bytes), "{end:?} {direction}: {bytes}");
        }
    }
}

/// A receiver serves every scheduler; the kernel sends only with its own.
#[test]
fn the_kernel_sends_for_its_own_scheduler_and_a_plain_tcp_alone() {
    let mixed = |scheduler: &str, end| {
        Transfer::new(&scenario(scheduler, &["traffic.size=1MB"]), 0, Some(end)).unwrap().is_mixed()
    };
    for scheduler in ["tcp@1", "min_rtt", "linux"] {
        assert!(mixed(scheduler, KernelEnd::Sender) && mixed(scheduler, KernelEnd::Receiver), "{scheduler}");
    }
    for scheduler in ["dmptcp", "daps", "stms_a"] {
        assert!(!mixed(scheduler, KernelEnd::Sender) && mixed(scheduler, KernelEnd::Receiver), "{scheduler}");
    }
    let none = Transfer::new(&scenario("dmptcp", &["traffic.size=1MB"]), 0, None).unwrap();
    assert!(!none.is_mixed());
}

#[test]
fn a_setting_that_the_kernel_does_not_have_at_its_end_is_refused_by_name() {
    let refused = |scheduler: &str, end, set: &str| {
        let made = Transfer::new(&scenario(scheduler, &["traffic.size=1MB", set]), 0, Some(end));
        made.map(|_| String::new()).unwrap_or_else(|error| error.to_string())
    };
    let receiver = refused("dmptcp", KernelEnd::Receiver, "ack.growth=false");
    assert!(receiver.contains("with Linux as the receiver: `ack.growth = false`"), "{receiver}");
    assert_eq!(refused("min_rtt", KernelEnd::Sender, "ack.growth=false"), "");
    let sender = refused("min_rtt", KernelEnd::Sender, "opportunistic=retransmit");
    assert!(sender.contains("with Linux as the sender: `opportunistic = "), "{sender}");
    assert_eq!(refused("min_rtt", KernelEnd::Receiver, "opportunistic=retransmit"), "");
    let sbd = refused("min_rtt", KernelEnd::Sender, "congestion=sbd");
    assert!(sbd.contains("congestion control `sbd`"), "{sbd}");
    assert_eq!(refused("min_rtt", KernelEnd::Receiver, "congestion=sbd"), "");
    // The kernel has this one as a BPF program (`kernel cc`).
    assert_eq!(refused("min_rtt", KernelEnd::Sender, "congestion=lia"), "");
}

/// The sender has written everything long before the last byte arrives, and stays until then.
#[test]
fn a_transfer_of_many_seconds_arrives_whole_at_either_end() {
    if is_skipped() {
        return;
    }
    for end in ENDS {
        for direction in ["upload", "download"] {
            let set = format!("traffic.direction={direction}");
            let measured = attempt("min_rtt", end, &["traffic.size=3MB", "path.rate=2Mbit/s", &set]);
            let what = format!("{end:?} {direction}: {measured:?}");
            assert_eq!(measured.delivered, 3_000_000, "{what}");
            assert!(measured.time_s.is_some_and(|time| time > 6.0), "{what}");
            assert!(measured.segments >= 3_000_000 / 1448, "{what}");
        }
    }
}
