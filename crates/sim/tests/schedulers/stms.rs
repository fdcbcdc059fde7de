//! STMS (2018): the gap, the order of arrival, and the buffers, over two paths of 30 Mbit/s as in its Section
//! 2.

use anabranch_link::QueueLimit;
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::Value;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_units::Duration;

use crate::watch::{MSS, Ran, in_buffer, link, run, scheduler, set, with};

/// Returns the paper's paths, with a queue of this number of milliseconds on the slow one.
fn over(
    kind: SchedulerKind,
    congestion: &str,
    slow_queue_ms: u64,
    buffer: Option<u64>,
    span: (u64, u64),
) -> Ran {
    let congestion = CongestionKind::from_name(congestion).expect("it is built in");
    let config = ConnectionConfig { congestion, ..with(kind) };
    let config = buffer.map_or(config.clone(), |bytes| in_buffer(config, bytes));
    let queue = |ms| QueueLimit::Time(Duration::from_millis(ms));
    let paths = [link(30_000, 20, queue(50)), link(30_000, 200, queue(slow_queue_ms))];
    run(&paths, &config, None, span.0, span.1)
}

/// Returns a run with constant windows that fill the paths without queues, one of the paper's meanings of
/// stable: Vegas.
fn stable(name: &str) -> Ran {
    over(scheduler(name), "vegas", 500, None, (10, 30))
}

/// Returns the gap of equation 2 with measured values, in segments: the data that the fast path delivers in
/// the difference of the delays.
fn equation_2(ran: &Ran) -> f64 {
    let [fast, slow] = ran.watch.one_way.map(|mean| mean.get());
    ran.by_path[0] * 1e6 / 8.0 * (slow - fast) / MSS
}

#[test]
fn on_stable_paths_the_gap_is_that_of_equation_2_and_data_arrives_in_order() {
    let min_rtt = stable("min_rtt");
    let [fast, slow] = min_rtt.watch.one_way.map(|mean| mean.get());
    // Data of the fast path waits for the slow one, and that is most of the delay there.
    let waits = min_rtt.watch.waits[0].get();
    println!(
        "min_rtt: {:.1} ms on the fast path; one way {:.1} and {:.1} ms",
        waits * 1e3,
        fast * 1e3,
        slow * 1e3
    );
    assert!((waits - (slow - fast)).abs() < 0.1 * slow, "{waits}");
    for name in ["stms_c", "stms_a"] {
        let ran = stable(name);
        let (gap, expected) = (ran.watch.gap(), equation_2(&ran));
        println!("{name}: gap {gap:.1}, equation 2 {expected:.1}, waits {:.2} ms", ran.watch.wait() * 1e3);
        assert!((gap / expected - 1.0).abs() < 0.1, "{name}: {gap} and {expected}");
        assert!(ran.watch.wait() < 0.002, "{name}: {}", ran.watch.wait());
        // And it has no cost: both paths are full.
        assert!(ran.mbps > 0.99 * min_rtt.mbps, "{name}: {} and {}", ran.mbps, min_rtt.mbps);
    }
    // ECF does not help an infinite flow (the paper's Section 4.1).
    assert!(stable("ecf").watch.waits[0].get() > 0.9 * waits);
}

#[test]
fn a_gap_that_is_wrong_at_first_is_learnt() {
    for first in [0, 600] {
        let kind = set("stms_a", "gap", Value::Integer(first));
        let ran = over(kind, "vegas", 500, None, (25, 40));
        let (gap, expected) = (ran.watch.gap(), equation_2(&ran));
        println!("stms_a from {first}: {gap:.1}, equation 2 {expected:.1}");
        assert!((gap / expected - 1.0).abs() < 0.1, "from {first}: {gap} and {expected}");
    }
}

/// A limitation: queues differ between the two directions, and the estimate uses half of the difference of
/// the round-trip times; learning is slow, because between two equal rates each late segment frees only two.
#[test]
fn behind_long_queues_the_estimate_is_short_and_learning_slow() {
    let min_rtt = over(scheduler("min_rtt"), "newreno", 500, None, (15, 45));
    let estimate = over(scheduler("stms_c"), "newreno", 500, None, (15, 45));
    let ratio = estimate.watch.gap() / equation_2(&estimate);
    println!(
        "stms_c: {ratio:.2} of equation 2; waits {:.0} of {:.0} ms",
        estimate.watch.wait() * 1e3,
        min_rtt.watch.wait() * 1e3
    );
    assert!((0.5..0.75).contains(&ratio), "{ratio}");
    assert!(estimate.watch.wait() < 0.5 * min_rtt.watch.wait());
    let learnt = over(scheduler("stms_a"), "newreno", 500, None, (15, 45));
    let (first, last) = (learnt.watch.gaps.first(), learnt.watch.gaps.last());
    let (Some(&(from, first)), Some(&(to, last))) = (first, last) else { panic!("no gap") };
    let pace = (last - first) / (to - from);
    println!("stms_a: from {first} to {last} of {:.0}, {pace:.1} segments a second", equation_2(&learnt));
    assert!((2.0..15.0).contains(&pace), "{pace}");
    assert!(learnt.watch.wait() < min_rtt.watch.wait());
}

/// Returns the goodput in Mbit/s on both paths and on the slow one, with a receive buffer of `kb` KB.
fn in_kb(name: &str, kb: u64) -> (f64, f64) {
    let ran = over(scheduler(name), "vegas", 500, Some(kb * 1000), (20, 40));
    println!("{name} in {kb} KB: {:.1} Mbit/s, {:.1} of them on the slow path", ran.mbps, ran.by_path[1]);
    (ran.mbps, ran.by_path[1])
}

/// Compares with equations 1, 3 and 4, with 28.4 Mbit/s of payload on either path and one-way delays of 11.1
/// and 101.1 ms.
#[test]
fn buffers_are_those_of_equations_3_and_4_and_the_defaults_lie_between_3_and_1() {
    let (rate, fast, slow) = (28.37e6 / 8.0, 0.0111, 0.1011);
    let fallback = rate * (slow + fast) / 1000.0;
    let both = 2.0 * fallback;
    let default = 2.0 * rate * 0.2013 / 1000.0;
    println!("equation 4: {fallback:.0} KB, equation 3: {both:.0} KB, equation 1: {default:.0} KB");
    let kb = |of: f64, part: f64| (of * part) as u64;
    for name in ["stms_c", "stms_a"] {
        // Below equation 4 the slow path is idle and the fast one full; above it, the slow path contributes.
        for part in [0.5, 0.95] {
            let (all, slow) = in_kb(name, kb(fallback, part));
            assert!(slow < 0.01 && all > 28.2, "{name}: {all} {slow}");
        }
        let (all, slow) = in_kb(name, kb(fallback, 1.15));
        assert!(slow > 2.0 && all > 28.4 + 2.0, "{name}: {all} {slow}");
        // Below equation 3 the capacity is not used completely, and above it it is.
        assert!(in_kb(name, kb(both, 0.85)).0 < 0.92 * 56.7, "{name}");
        assert!(in_kb(name, kb(both, 1.1)).0 > 0.99 * 56.7, "{name}");
    }
    // The default with so small a buffer is worse than the fast path alone, and needs more for the capacity
    // of both, but less than equation 1: data acknowledgements return on the fast path there as well.
    assert!(in_kb("min_rtt", kb(fallback, 0.95)).0 < 0.8 * 28.4);
    assert!(in_kb("min_rtt", kb(both, 1.0)).0 < 0.92 * 56.7);
    assert!(in_kb("min_rtt", kb(default, 0.75)).0 > 0.99 * 56.7);
}
