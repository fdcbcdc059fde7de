//! Veno: the queue length determines the growth and the reduction.

use anabranch_stack::congestion::{Ack, AnyCongestion, CongestionControl};
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

use crate::congestion_common::{A, MSS, ack, connection, loss, window};

const NOW: Time = Time::from_secs(1);
const BASE: Duration = Duration::from_millis(50);

/// Returns a window of `segments`, of which `queued` are in the queue, in congestion avoidance.
fn with_queue(segments: u32, queued: f64) -> AnyCongestion {
    let mut congestion = connection("veno", &[(segments, 50)]);
    let rtt = BASE.as_secs_f64() / (1.0 - queued / f64::from(segments));
    for rtt in [BASE, BASE, Duration::from_secs_f64(rtt)] {
        congestion.on_ack(A, &Ack { cwnd_limited: false, rtt: Some(rtt), srtt: rtt, ..ack(NOW, 1) });
    }
    congestion
}

fn one_ack(mut congestion: AnyCongestion) -> f64 {
    let before = window(&congestion, A);
    // The last sample counts.
    congestion.on_ack(A, &Ack { rtt: None, ..ack(NOW, 1) });
    window(&congestion, A) - before
}

proptest! {
    #[test]
    fn below_beta_it_is_reno_with_four_fifths_and_from_there_on_half_as_fast_with_one_half(
        segments in 10..2000_u32, queued in 0.0..9.0_f64,
    ) {
        prop_assume!((queued - 3.0).abs() > 1e-3);
        let short = queued < 3.0;
        let is = one_ack(with_queue(segments, queued));
        let should = if short { 1.0 } else { 0.5 } / f64::from(segments);
        prop_assert!((is - should).abs() < 1e-12, "{is} and {should}");
        let mut congestion = with_queue(segments, queued);
        congestion.on_congestion(A, &loss(NOW, u64::from(segments)));
        let left = window(&congestion, A) / f64::from(segments);
        let should = if short { 0.8 } else { 0.5 };
        prop_assert!(left <= should + 1e-9 && left > should - 1.0 / f64::from(segments) - 1e-9, "{left}");
    }
}

#[test]
fn a_timeout_halves_whatever_is_queued() {
    for queued in [0.0, 8.0] {
        let mut congestion = with_queue(100, queued);
        congestion.on_rto(A, NOW, 100 * MSS, false);
        assert_eq!((congestion.ssthresh(A), window(&congestion, A)), (Some(50 * MSS), 1.0));
    }
}

#[test]
fn the_queue_is_counted_over_the_present_rtt() {
    // 2.8 of 10 segments are queued, in 69 ms over a base of 50; relative to the base they would be 3.9.
    let mut congestion = with_queue(10, 2.8);
    congestion.on_congestion(A, &loss(NOW, 10));
    assert_eq!(window(&congestion, A), 8.0);
}

#[test]
fn two_samples_are_too_few() {
    let mut congestion = connection("veno", &[(100, 50)]);
    for _ in 0..2 {
        congestion.on_ack(A, &Ack { cwnd_limited: false, rtt: Some(BASE), srtt: BASE, ..ack(NOW, 1) });
    }
    congestion.on_congestion(A, &loss(NOW, 100));
    assert_eq!(window(&congestion, A), 50.0);
}

#[test]
fn random_losses_on_an_empty_queue_cost_it_less_than_reno() {
    // Every hundredth segment is lost.
    let sent = |name: &str| {
        let mut congestion = connection(name, &[(10, 50)]);
        let (mut left, mut sent) = (100_i64, 0);
        for n in 0..2000_u64 {
            let now = NOW + BASE * n;
            let segments = congestion.cwnd(A) / MSS;
            for _ in 0..segments {
                congestion.on_ack(A, &Ack { rtt: Some(BASE), srtt: BASE, ..ack(now, 1) });
            }
            sent += segments;
            left -= segments as i64;
            if left <= 0 {
                left += 100;
                congestion.on_congestion(A, &loss(now, segments));
                congestion.on_recovered(A, now);
            }
        }
        sent as f64
    };
    // AIMD(1, b) with losses at a rate p sends in proportion to sqrt((2 - b) / (2 b p)): 1.73 times as much.
    let ratio = sent("veno") / sent("newreno");
    assert!((1.5..1.9).contains(&ratio), "{ratio}");
}
