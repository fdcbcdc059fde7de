//! The counts of Linux's CUBIC, each computed by hand: the number of acknowledged segments that increase a
//! window by one.
//!
//! Most tests begin with 70 segments, after a loss at 100. `C` is 41 * 10 / 1024 = 0.4004, and `K` the cube
//! root of 30 / `C`, 4.2158 s.

use anabranch_stack::congestion::{Ack, AnyCongestion, CongestionControl, SubflowStart};
use anabranch_units::{Duration, Time};

use crate::congestion_common::{A, MSS, ack, connection, loss, start, window};

const NOW: Time = Time::from_secs(1);

fn after_loss(segments: u32) -> AnyCongestion {
    let mut congestion = connection("cubic_linux", &[(segments, 20)]);
    lose(&mut congestion, NOW);
    congestion
}

fn lose(congestion: &mut AnyCongestion, now: Time) {
    congestion.on_congestion(A, &loss(now, congestion.cwnd(A) / MSS));
    congestion.on_recovered(A, now);
}

/// Acknowledges `segments` at once, `at_ms` milliseconds after `NOW`, with the given minimum RTT. Returns the
/// window afterwards.
fn acknowledge(congestion: &mut AnyCongestion, at_ms: u64, segments: f64, min_rtt_ms: u64) -> f64 {
    let min_rtt = Duration::from_millis(min_rtt_ms);
    let acked_bytes = (segments * MSS as f64).round() as u64;
    let one = ack(NOW + Duration::from_millis(at_ms), 1);
    congestion.on_ack(A, &Ack { acked_bytes, min_rtt, srtt: min_rtt * 2, ..one });
    window(congestion, A)
}

#[test]
fn the_count_is_of_the_curve_a_least_rtt_ahead() {
    // In 200 ms the curve is at 100 - 0.4004 * 4.0158^3 = 74.07, which is 4 segments more: one for 70 / 4,
    // rounded down to 17.
    for (acked, then) in [(16.0, 70.0), (17.0, 71.0), (34.0, 72.0)] {
        assert_eq!(acknowledge(&mut after_loss(100), 0, acked, 200), then, "{acked}");
    }
    // In 35 ms it is at 70.74, rounded down to 70: one for 100 windows.
    let mut congestion = after_loss(100);
    for (at, acked, then) in [(0, 131.0, 70.0), (4, 6868.0, 70.0), (8, 1.0, 71.0)] {
        assert_eq!(acknowledge(&mut congestion, at, acked, 35), then, "{acked}");
    }
}

#[test]
fn a_window_follows_the_curve_to_the_last_maximum_and_beyond() {
    let mut congestion = after_loss(100);
    let c: f64 = 41.0 * 10.0 / 1024.0;
    let k = (30.0 / c).cbrt();
    for step in 0..800_u64 {
        // A window in each round trip of 200 ms.
        let acked = window(&congestion, A) / 20.0;
        let is = acknowledge(&mut congestion, step * 10, acked, 200);
        let curve = 100.0 + c * (step as f64 / 100.0 - k).powi(3);
        if step > 40 {
            assert!(is > curve - 2.0 && is < curve + 3.0, "{is} and {curve} after {step}");
        }
    }
}

#[test]
fn a_reno_window_grows_when_more_than_15_8_windows_are_acknowledged() {
    // 131 for each of its segments. At the beginning of an epoch only the excess over that counts: with 132
    // it is 71, so the window grows by a segment for 70; with 262.2 it is 72 (35), with 460 it is 73 (23),
    // and with 4 * 131 it is still 73.
    for (acked, then) in [(131.0, 70.0), (132.0, 71.0), (262.2, 77.0), (460.0, 90.0), (524.0, 92.0)] {
        assert_eq!(acknowledge(&mut after_loss(100), 0, acked, 35), then, "{acked}");
    }
    // The acknowledgements for its growth are used up.
    let mut congestion = after_loss(100);
    acknowledge(&mut congestion, 0, 132.0, 35);
    assert_eq!(acknowledge(&mut congestion, 4, 20.0, 35), 71.0);
    // If the curve is faster its count applies: 132 / 17.
    assert_eq!(acknowledge(&mut after_loss(100), 0, 132.0, 200), 77.0);
}

#[test]
fn a_window_that_has_changed_has_a_count_of_its_own_at_once() {
    let mut congestion = after_loss(100);
    assert_eq!(acknowledge(&mut congestion, 0, 17.0, 200), 71.0);
    // 4 ms later the curve is at 74.15, 3 segments more: one for 71 / 3, rounded down to 23.
    assert_eq!(acknowledge(&mut congestion, 4, 22.0, 200), 71.0);
    assert_eq!(acknowledge(&mut congestion, 4, 1.0, 200), 72.0);
}

#[test]
fn a_segment_takes_two_acknowledged_ones_at_least() {
    let mut congestion = after_loss(100);
    assert_eq!(acknowledge(&mut congestion, 0, 1.0, 200), 70.0);
    // Ten seconds later the curve is at 185; one of the two was acknowledged before.
    assert_eq!(acknowledge(&mut congestion, 10_000, 10.0, 200), 75.0);
}

#[test]
fn idle_time_is_not_that_of_the_curve() {
    let mut congestion = after_loss(100);
    let nothing_left = Ack { inflight_bytes: 0, min_rtt: Duration::from_millis(200), ..ack(NOW, 1) };
    congestion.on_ack(A, &nothing_left);
    congestion.on_sent(A, NOW + Duration::from_secs(10), MSS);
    // As without: a segment for 17, of which one was acknowledged before.
    assert_eq!(acknowledge(&mut congestion, 10_000, 15.0, 200), 70.0);
    assert_eq!(acknowledge(&mut congestion, 10_000, 1.0, 200), 71.0);
}

#[test]
fn a_loss_below_the_last_maximum_aims_lower_and_one_above_it_does_not() {
    // Again at 70, with 16 of 17 acknowledged: the maximum is 70 * (1 + 717/1024) / 2, rounded down to 59,
    // and 49 remain. In 200 ms the curve is at 50.92, one more: a segment for 49, none of which is
    // acknowledged yet.
    let mut congestion = after_loss(100);
    acknowledge(&mut congestion, 0, 16.0, 200);
    lose(&mut congestion, NOW);
    assert_eq!(acknowledge(&mut congestion, 0, 48.0, 200), 49.0);
    assert_eq!(acknowledge(&mut congestion, 0, 1.0, 200), 50.0);
    // In 100 ms it is at 49.99, and would be at 50.02 if the maximum were 59.5.
    let mut nearer = after_loss(100);
    lose(&mut nearer, NOW);
    assert_eq!(acknowledge(&mut nearer, 0, 49.0, 100), 49.0);
    // At 17, after one at 10: the maximum is 17, and 11 remain. In 200 ms the curve is at 12.34: one more.
    let mut congestion = grown_beyond();
    lose(&mut congestion, NOW + Duration::from_secs(30));
    assert_eq!(acknowledge(&mut congestion, 30_000, 10.0, 200), 11.0);
    assert_eq!(acknowledge(&mut congestion, 30_000, 1.0, 200), 12.0);
}

/// Returns a window of 17 segments, thirty seconds after a loss that left 7 of 10.
fn grown_beyond() -> AnyCongestion {
    let mut congestion = after_loss(10);
    assert_eq!(acknowledge(&mut congestion, 0, 1.0, 200), 7.0);
    assert_eq!(acknowledge(&mut congestion, 30_000, 20.0, 200), 17.0);
    congestion
}

/// Returns a window of 10 segments in slow start up to a threshold.
fn starting(name: &str, initial_ssthresh: Option<u32>) -> AnyCongestion {
    let mut congestion = connection(name, &[]);
    congestion.on_subflow_up(A, &SubflowStart { initial_ssthresh, ..start() });
    congestion
}

// `tcp_cwnd_restart` in net/ipv4/tcp_output.c of Linux 6.18: `cwnd >>= 1` for each timeout.
#[test]
fn an_idle_time_halves_the_window_once_per_timeout_and_keeps_the_curve() {
    let mut congestion = starting("cubic_linux", None);
    assert_eq!(acknowledge(&mut congestion, 0, 90.0, 200), 100.0);
    for (timeouts, left) in [(1, 50.0), (2, 25.0), (4, 10.0), (u32::MAX, 10.0)] {
        let mut restarted = congestion.clone();
        restarted.on_idle(A, NOW + Duration::from_secs(1), timeouts);
        assert_eq!((window(&restarted, A), restarted.ssthresh(A)), (left, None), "{timeouts}");
    }
    // After a loss the threshold is three quarters of the window, and the curve of the previous epoch goes on.
    let mut restarted = grown_beyond();
    restarted.on_idle(A, NOW + Duration::from_secs(31), 1);
    assert_eq!((window(&restarted, A), restarted.ssthresh(A)), (10.0, Some(12 * MSS)));
}

// `tcp_cwnd_application_limited` in net/ipv4/tcp_output.c of Linux 6.18.
#[test]
fn a_window_that_is_not_used_moves_half_of_the_way_towards_its_use() {
    let mut congestion = starting("cubic_linux", Some(20));
    assert_eq!(acknowledge(&mut congestion, 0, 10.0, 200), 20.0);
    for (used, left) in [(14, 17.0), (3, 13.0), (0, 11.0), (0, 10.0), (0, 10.0)] {
        congestion.on_underused(A, NOW, used * MSS);
        assert_eq!((window(&congestion, A), congestion.ssthresh(A)), (left, Some(20 * MSS)));
    }
    // Others keep their windows until an idle time (RFC 7661 section 4.4).
    let mut newreno = starting("newreno", None);
    newreno.on_ack(A, &ack(NOW, 10));
    newreno.on_underused(A, NOW, 0);
    assert_eq!(window(&newreno, A), 20.0);
}

#[test]
fn a_penalty_begins_a_curve_of_its_own() {
    // In the previous epoch a segment would be added for two.
    let mut penalised = grown_beyond();
    penalised.penalise(A, NOW + Duration::from_secs(31));
    assert_eq!(acknowledge(&mut penalised, 31_000, 10.0, 200), 8.5);
}

#[test]
fn a_new_subflow_in_an_old_ones_place_has_lost_nothing() {
    let mut congestion = after_loss(100);
    congestion.on_subflow_down(A);
    let again = SubflowStart { initial_window: 100, initial_ssthresh: Some(2), ..start() };
    congestion.on_subflow_up(A, &again);
    // A segment for twenty.
    assert_eq!(acknowledge(&mut congestion, 0, 20.0, 200), 101.0);
}

#[test]
fn of_a_window_with_a_fraction_the_whole_segments_count() {
    // A train of 6 ms, longer than 5.5, ends slow start at 17.6 segments with its fourth acknowledgement, of
    // 32.
    let mut congestion = connection("cubic_linux", &[]);
    congestion.on_subflow_up(A, &SubflowStart { initial_window: 17, ..start() });
    let rtt = Duration::from_millis(10);
    let mut at = |ms, acked_bytes| {
        let one = ack(NOW + Duration::from_millis(ms), 1);
        congestion.on_ack(A, &Ack { acked_bytes, rtt: Some(rtt), srtt: rtt, min_rtt: rtt, ..one });
        window(&congestion, A)
    };
    for ms in [0, 2, 4] {
        at(ms, MSS / 5);
    }
    // 15/8 of 17 is 31: the Reno window is 18, so the window grows by a segment for 17, and 15 remain.
    assert!((at(6, 32 * MSS) - 18.6).abs() < 1e-9);
    assert!((at(7, 2 * MSS) - 19.6).abs() < 1e-9);
}
