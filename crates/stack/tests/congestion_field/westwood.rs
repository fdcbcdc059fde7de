//! Westwood+: a loss leaves the estimated bandwidth times the minimum RTT.

use anabranch_stack::congestion::{Ack, AnyCongestion, CongestionControl};
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

use crate::congestion_common::{A, MSS, ack, connection, loss, window};

const NOW: Time = Time::from_secs(1);

/// Acknowledges a segment each `gap` for `length`, all with an RTT of `rtt`, and returns the time of the last.
fn deliver(
    congestion: &mut AnyCongestion,
    from: Time,
    length: Duration,
    gap: Duration,
    rtt: Duration,
) -> Time {
    let (mut now, end) = (from, from + length);
    while now < end {
        now += gap;
        congestion.on_ack(A, &Ack { cwnd_limited: false, rtt: Some(rtt), srtt: rtt, ..ack(now, 1) });
    }
    now
}

proptest! {
    #[test]
    fn a_loss_leaves_what_the_path_delivers_in_its_least_round_trip(
        gap_us in 100..2000_u64, base in 20..100_u64, queued in 0..200_u64,
    ) {
        // The window holds the path and the queue: rate x (base + queued), in segments.
        let segments = ((base + queued) * 1000 / gap_us).max(4) as u32;
        let mut congestion = connection("westwood", &[(segments, base)]);
        let gap = Duration::from_micros(gap_us);
        let (least, rtt) = (Duration::from_millis(base), Duration::from_millis(base + queued));
        let now = deliver(&mut congestion, NOW, gap, gap, least);
        let now = deliver(&mut congestion, now, rtt * 20, gap, rtt);
        congestion.on_congestion(A, &loss(now, u64::from(segments)));
        let should = (base as f64 * 1000.0 / gap_us as f64).clamp(2.0, f64::from(segments));
        let is = window(&congestion, A);
        // Samples are whole segments of at least 50 ms, and the result is whole segments.
        prop_assert!((is - should).abs() <= 1.0 + should * gap_us as f64 / 50_000.0, "{is} and {should}");
    }
}

#[test]
fn two_filters_follow_a_path_that_has_become_slower() {
    let mut congestion = connection("westwood", &[(200, 100)]);
    let rtt = Duration::from_millis(100);
    let now = deliver(&mut congestion, NOW, Duration::from_secs(10), Duration::from_millis(1), rtt);
    // Samples of a quarter of the rate, each a little longer than a round trip.
    let gap = Duration::from_millis(4);
    let end = deliver(&mut congestion, now, Duration::from_secs(1), gap, rtt);
    congestion.on_congestion(A, &loss(end, 200));
    // Nine samples are complete; the response of two filters with a past of 7/8 each is (1 + n/8) (7/8)^n.
    let kept = (1.0 + 9.0 / 8.0) * (7.0_f64 / 8.0).powi(9);
    let should = 25.0 + 75.0 * kept;
    assert!((window(&congestion, A) - should).abs() < 4.0, "{} and {should}", window(&congestion, A));
}

#[test]
fn a_timeout_sets_the_threshold_to_the_product() {
    let mut congestion = connection("westwood", &[(100, 50)]);
    let rtt = Duration::from_millis(50);
    let now = deliver(&mut congestion, NOW, Duration::from_secs(2), Duration::from_millis(1), rtt);
    congestion.on_rto(A, now, 100 * MSS, false);
    let threshold = congestion.ssthresh(A).unwrap() / MSS;
    assert!((48..=50).contains(&threshold), "{threshold}");
    assert_eq!(window(&congestion, A), 1.0);
}

#[test]
fn without_a_sample_a_loss_halves() {
    let mut congestion = connection("westwood", &[(100, 50)]);
    congestion.on_congestion(A, &loss(NOW, 100));
    assert_eq!(window(&congestion, A), 50.0);
}

#[test]
fn a_product_above_the_window_does_not_raise_it() {
    let mut congestion = connection("westwood", &[(10, 50)]);
    let rtt = Duration::from_millis(50);
    let now = deliver(&mut congestion, NOW, Duration::from_secs(2), Duration::from_millis(1), rtt);
    let before = window(&congestion, A);
    congestion.on_congestion(A, &loss(now, 10));
    assert_eq!(window(&congestion, A), before);
}
