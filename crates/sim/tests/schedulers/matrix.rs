//! The rows of the acceptance matrix that need a network; the others are in
//! `crates/stack/tests/scheduler_matrix.rs`.

use anabranch_link::QueueLimit;
use anabranch_sim::topology::Duplex;
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::Value;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_units::Duration;

use crate::watch::{in_buffer, link, run, scheduler, set, with};

/// Returns the goodput of 40 s of steady state with a buffer of that size in Mbit/s; without a scheduler,
/// that of a TCP on the first path.
fn rate(paths: &[Duplex], kind: Option<SchedulerKind>, buffer: u64) -> f64 {
    let mptcp = kind.is_some();
    let name = kind.as_ref().map_or("tcp".to_owned(), |kind| kind.name().to_owned());
    let kind = kind.unwrap_or(SchedulerKind::MinRtt);
    let config = ConnectionConfig { mptcp, congestion: CongestionKind::NewReno, ..with(kind) };
    let paths = if mptcp { paths } else { &paths[..1] };
    let ran = run(paths, &in_buffer(config, buffer), None, 20, 60);
    let arrived = ran.by_path[0] + ran.by_path[1];
    println!("{name} in {buffer} B: {arrived:.2} Mbit/s arrived, {:.2} in order", ran.mbps);
    arrived
}

/// Two equal paths: the sum of both, or one of them for schedulers that duplicate everything or use one path.
#[test]
fn two_equal_paths_carry_their_sum() {
    let path = link(10_000, 40, QueueLimit::Bdp(1.0));
    let paths = [path.clone(), path];
    let tcp = rate(&paths, None, 6_000_000);
    for kind in SchedulerKind::ALL {
        let name = kind.name().to_owned();
        let all = rate(&paths, Some(kind), 6_000_000) / tcp;
        match name.as_str() {
            "redundant" | "backup" => assert!((0.97..1.03).contains(&all), "{name}: {all}"),
            _ => assert!((1.9..2.01).contains(&all), "{name}: {all}"),
        }
    }
    let strict = set("round_robin", "cwnd-limited", Value::Bool(false));
    assert!(rate(&paths, Some(strict), 6_000_000) > 1.9 * tcp);
}

/// Round-trip times with a ratio of 10 and a buffer between the requirement of the fast path and that of
/// both.
#[test]
fn in_a_small_buffer_beside_a_slow_path() {
    let queue = |ms| QueueLimit::Time(Duration::from_millis(ms));
    let paths = [link(20_000, 20, queue(50)), link(20_000, 200, queue(200))];
    let buffer = 250_000;
    let tcp = rate(&paths, None, buffer);
    let of = |name: &str| rate(&paths, Some(scheduler(name)), buffer) / tcp;
    let min_rtt = of("min_rtt");
    // Worse than TCP; strict round robin is the worst.
    assert!(min_rtt < 0.9, "{min_rtt}");
    let strict = set("round_robin", "cwnd-limited", Value::Bool(false));
    let strict = rate(&paths, Some(strict), buffer) / tcp;
    let round_robin = of("round_robin");
    assert!(strict < 0.8 && round_robin < 0.9 * min_rtt, "{strict} {round_robin}");
    // At least as good as minRTT; and ECF equals minRTT, as the flow has no end.
    assert!(of("ll_rp") >= min_rtt);
    assert!((of("ecf") - min_rtt).abs() < 0.02);
    assert!((of("dmptcp") - min_rtt).abs() < 0.02, "a flow without an end uses all paths");
    // About as good as TCP.
    for name in ["blest", "cp_conservative", "redundant"] {
        assert!(of(name) > 0.95, "{name}");
    }
    for name in ["cp_radical", "stms_c", "stms_a"] {
        let all = of(name);
        assert!(all > 0.85 && all > min_rtt, "{name}: {all}");
    }
    // A finite flow is another case for dmptcp; see the short flow.
    for name in ["daps", "otias", "sttf"] {
        assert!(of(name) > 0.8, "{name}");
    }
}
