//! CUBIC and HyStart of Linux, where they differ from RFC 9438 and RFC 9406.

use anabranch_stack::congestion::{
    Ack, AnyCongestion, CongestionControl, CongestionKind, Delivery, SubflowStart,
};
use anabranch_units::{Duration, Time};

use crate::congestion_common::{A, MSS, ack, connection, loss, start, window};

const NOW: Time = Time::from_secs(1);

/// Returns a subflow in its first slow start with `segments`.
fn started(segments: u32, paced: bool) -> AnyCongestion {
    let mut congestion = CongestionKind::CubicLinux.build();
    congestion.on_subflow_up(A, &SubflowStart { initial_window: segments, paced, ..start() });
    congestion
}

/// Acknowledges a segment of round trip `round` at `at_us` microseconds after the start, with the given RTT.
/// It was sent after the first acknowledgement of the round trip before.
fn acknowledge(congestion: &mut AnyCongestion, round: u64, at_us: u64, rtt_us: u64) {
    let delivery = Delivery { total: round + 1, prior_delivered: round, ..Delivery::default() };
    let rtt = Duration::from_micros(rtt_us);
    let one = ack(NOW + Duration::from_micros(at_us), 1);
    congestion.on_ack(A, &Ack { rtt: Some(rtt), srtt: rtt, delivery: Some(delivery), ..one });
}

/// Acknowledges 90 segments of round trip 0, one every `gap_us`. Returns the threshold in segments, if slow
/// start has ended.
fn train(congestion: &mut AnyCongestion, gap_us: u64, rtt_us: u64) -> Option<u64> {
    (0..90).for_each(|n| acknowledge(congestion, 0, n * gap_us, rtt_us));
    congestion.ssthresh(A).map(|bytes| bytes / MSS)
}

#[test]
fn a_train_longer_than_half_of_the_least_rtt_and_a_millisecond_ends_slow_start() {
    // 256 KiB at 2 * 100 * 1400 bytes in 40 ms take 37 ms, and the cushion is at most 1 ms: 20.5 ms is not
    // too long, 21 is. By then 42 acknowledgements have increased the window.
    assert_eq!(train(&mut started(100, false), 500, 40_000), Some(142));
    // If segments are paced the train may be 41 ms long.
    assert_eq!(train(&mut started(100, true), 500, 40_000), Some(183));
}

#[test]
fn the_cushion_is_the_time_of_four_of_the_largest_bursts() {
    // 4 * 65536 bytes at 2 * 1021 * 1400 bytes in 4 ms take 367 us: a train of 2.183 ms is not too long.
    assert_eq!(train(&mut started(1000, false), 100, 4_000), Some(1022));
}

#[test]
fn a_gap_of_more_than_two_milliseconds_ends_the_train_for_that_round_trip() {
    // A gap of up to 2 ms does not end a train: 22 ms is the first time beyond 20.5.
    assert_eq!(train(&mut started(100, false), 2_000, 40_000), Some(111));
    let mut congestion = started(100, false);
    acknowledge(&mut congestion, 0, 0, 40_000);
    for n in 0..37 {
        acknowledge(&mut congestion, 0, 2_001 + n * 1_000, 40_000);
    }
    assert_eq!(congestion.ssthresh(A), None);
    // The next round has a train of its own, which is too long with its 22nd acknowledgement.
    for n in 0..=20 {
        acknowledge(&mut congestion, 1, 40_000 + n * 1_000, 40_000);
    }
    assert_eq!((congestion.ssthresh(A), window(&congestion, A)), (None, 159.0));
    acknowledge(&mut congestion, 1, 61_000, 40_000);
    assert_eq!(congestion.ssthresh(A), Some(159 * MSS));
}

/// Shows `least` in the first round trip and `then` in the second, in milliseconds; nine acknowledgements
/// each, too far apart for a train. Returns whether slow start has ended, and only with the last one.
fn after_increase(least: u64, then: [u64; 9]) -> bool {
    let mut congestion = started(100, false);
    for n in 0..9 {
        acknowledge(&mut congestion, 0, n * 3_000, least * 1000);
    }
    for (n, rtt) in then.into_iter().enumerate() {
        assert_eq!(congestion.ssthresh(A), None, "before the ninth");
        acknowledge(&mut congestion, 1, 100_000 + n as u64 * 3_000, rtt * 1000);
    }
    congestion.ssthresh(A).is_some()
}

#[test]
fn an_rtt_longer_by_an_eighth_of_the_least_ends_slow_start_with_the_ninth_sample() {
    assert!(!after_increase(80, [90; 9]));
    assert!(after_increase(80, [91; 9]));
    // An eighth is at least 4 ms, and at most 16 ms.
    assert!(!after_increase(20, [24; 9]) && after_increase(20, [25; 9]));
    assert!(!after_increase(200, [216; 9]) && after_increase(200, [217; 9]));
    // The minimum of the round trip counts, for which one sample suffices.
    assert!(!after_increase(80, [120, 120, 120, 85, 120, 120, 120, 120, 120]));
}

#[test]
fn the_increase_is_over_the_least_of_all_and_not_over_the_round_trip_before() {
    let mut congestion = started(100, false);
    for (round, rtt) in [80_000, 89_000, 98_000].into_iter().enumerate() {
        assert_eq!(congestion.ssthresh(A), None);
        for n in 0..9 {
            acknowledge(&mut congestion, round as u64, round as u64 * 100_000 + n * 3_000, rtt);
        }
    }
    assert!(congestion.ssthresh(A).is_some());
}

#[test]
fn windows_below_16_segments_are_not_judged_but_begin_round_trips() {
    // From 8 segments the ninth acknowledgement is the first with 16. The train would have been too long
    // after 5.5 ms, but it has ended, as no acknowledgement was counted since its start.
    let mut congestion = started(8, false);
    for n in 0..40 {
        acknowledge(&mut congestion, 0, n * 1_000, 10_000);
    }
    assert_eq!(congestion.ssthresh(A), None);
    // From 15 segments the second one is; the train began with the first, and is too long after 6 ms.
    let mut congestion = started(15, false);
    for n in 0..=6 {
        assert_eq!(congestion.ssthresh(A), None);
        acknowledge(&mut congestion, 0, n * 1_000, 10_000);
    }
    assert_eq!(congestion.ssthresh(A), Some(21 * MSS));
    // And if the next acknowledgement but one would be too late for the train.
    let mut congestion = started(15, false);
    (0..4).for_each(|n| acknowledge(&mut congestion, 0, n * 2_000, 10_000));
    assert_eq!(congestion.ssthresh(A), Some(18 * MSS));
}

#[test]
fn a_slow_start_after_a_timeout_ends_so_too() {
    for name in ["cubic_linux", "cubic_hystart"] {
        let mut congestion = CongestionKind::from_name(name).unwrap().build();
        congestion.on_subflow_up(A, &SubflowStart { initial_window: 200, ..start() });
        acknowledge(&mut congestion, 0, 0, 10_000);
        congestion.on_rto(A, NOW + Duration::from_millis(1), 200 * MSS, false);
        // Seven tenths of 201.
        assert_eq!(congestion.ssthresh(A).unwrap() / MSS, 140);
        // Two round trips of 80 ms, eight times the RTT before the timeout; the second one is a train.
        for n in 0..20 {
            acknowledge(&mut congestion, 1, 100_000 + n * 3_000, 80_000);
        }
        assert_eq!((congestion.ssthresh(A).unwrap() / MSS, window(&congestion, A)), (140, 21.0));
        for n in 0..50 {
            acknowledge(&mut congestion, 2, 200_000 + n * 1_000, 80_000);
        }
        // More than 40.5 ms with the 42nd.
        let expected = if name == "cubic_linux" { 21 + 41 } else { 140 };
        assert_eq!(congestion.ssthresh(A).unwrap() / MSS, expected, "{name}");
    }
}

#[test]
fn after_a_timeout_a_paced_train_may_be_twice_as_long_too() {
    let mut congestion = started(100, true);
    congestion.on_rto(A, NOW, 100 * MSS, false);
    (0..15).for_each(|n| acknowledge(&mut congestion, 0, n * 3_000, 40_000));
    // From 16 segments on; the threshold is 70. 41 ms is not too long.
    (0..=41).for_each(|n| acknowledge(&mut congestion, 1, 100_000 + n * 1_000, 40_000));
    assert_eq!(congestion.ssthresh(A), Some(70 * MSS));
    acknowledge(&mut congestion, 1, 142_000, 40_000);
    assert_eq!(congestion.ssthresh(A), Some(58 * MSS));
}

#[test]
fn a_slow_start_after_an_idle_time_is_judged_unless_hystart_has_ended_one() {
    // `cubictcp_acked` in net/ipv4/tcp_cubic.c asks for `found`, which a loss does not change.
    for by_loss in [false, true] {
        let mut congestion = started(10, false);
        (0..90).for_each(|n| acknowledge(&mut congestion, 0, n * 3_000, 40_000));
        if by_loss {
            congestion.on_congestion(A, &loss(NOW, 100));
            congestion.on_recovered(A, NOW);
        } else {
            (0..22).for_each(|n| acknowledge(&mut congestion, 1, 300_000 + n * 1_000, 40_000));
        }
        let threshold = congestion.ssthresh(A);
        assert!(threshold.is_some());
        congestion.on_idle(A, NOW + Duration::from_secs(1), 8);
        (0..6).for_each(|n| acknowledge(&mut congestion, 2, 2_000_000 + n * 3_000, 40_000));
        (0..30).for_each(|n| acknowledge(&mut congestion, 3, 3_000_000 + n * 1_000, 40_000));
        let (threshold, grown) = if by_loss { (Some(37 * MSS), 37.0) } else { (threshold, 46.0) };
        assert_eq!((congestion.ssthresh(A), window(&congestion, A)), (threshold, grown));
    }
}

#[test]
fn until_a_loss_a_window_grows_by_at_least_a_twentieth_of_acknowledged_data() {
    let mut congestion = connection("cubic_linux", &[(100, 20)]);
    congestion.on_ack(A, &ack(NOW, 20));
    assert!((window(&congestion, A) - 101.0).abs() < 1e-9);
    // After a loss it does not: 70 segments, and the cube root of 31 / C is 4.3 s.
    congestion.on_congestion(A, &loss(NOW, 101));
    congestion.on_recovered(A, NOW);
    congestion.on_ack(A, &ack(NOW, 20));
    assert_eq!(window(&congestion, A), 70.0);
    // After a timeout it is as if nothing was ever lost: 49 segments, and a segment for 20.
    congestion.on_rto(A, NOW, 70 * MSS, false);
    let threshold = window_after_slow_start(&mut congestion);
    congestion.on_ack(A, &ack(NOW + Duration::from_secs(1), 20));
    assert!((window(&congestion, A) - threshold - 1.0).abs() < 1e-9);
}

/// Acknowledges until the window equals the threshold.
fn window_after_slow_start(congestion: &mut AnyCongestion) -> f64 {
    let threshold = congestion.windows().unwrap().get(A).ssthresh;
    while window(congestion, A) < threshold - 1.0 {
        congestion.on_ack(A, &ack(NOW, 1));
    }
    // The remaining bytes up to the threshold, including the fraction.
    let left = (threshold - window(congestion, A)) * MSS as f64;
    congestion.on_ack(A, &Ack { acked_bytes: left.round() as u64, ..ack(NOW, 1) });
    window(congestion, A)
}

#[test]
fn the_count_of_a_window_is_renewed_after_28_ms_or_when_the_window_has_changed() {
    let mut congestion = connection("cubic_linux", &[(10, 5)]);
    congestion.on_congestion(A, &loss(NOW, 10));
    congestion.on_recovered(A, NOW);
    // K is the cube root of 3 / 0.4, 1.96 s: the cubic function stays at 7 segments for long. The
    // Reno-friendly window grows by one segment per 13 acknowledged segments (15/8 of 7), but it is not
    // evaluated before the eighth jiffy of 4 ms, at 32 ms. By then 33 are acknowledged and it is 9, so the
    // window grows by a segment for 7 / 2, rounded to 3; 32 acknowledgements are already counted for it.
    let mut seen = Vec::new();
    for n in 0..35 {
        congestion.on_ack(A, &ack(NOW + Duration::from_millis(n), 1));
        seen.push(window(&congestion, A));
    }
    assert_eq!((seen[0], seen[31]), (7.0, 7.0));
    // The next three are the pending one, and two more.
    assert_eq!(seen[32..], [8.0, 8.0, 9.0]);
}

#[test]
fn windows_are_whole_and_grow_by_whole_segments() {
    let mut congestion = connection("cubic_linux", &[(33, 20)]);
    let mut now = NOW;
    for n in 0..2000 {
        now += Duration::from_millis(3);
        if n % 500 == 499 {
            congestion.on_congestion(A, &loss(now, 20));
            congestion.on_recovered(A, now);
        }
        congestion.on_ack(A, &ack(now, 2));
        assert_eq!(window(&congestion, A).fract(), 0.0);
    }
}

#[test]
fn a_loss_leaves_seven_tenths_of_the_window_and_not_of_the_flight() {
    for (name, left) in [("cubic_linux", 70.0), ("cubic", 35.0)] {
        let mut congestion = connection(name, &[(100, 20)]);
        congestion.on_congestion(A, &loss(NOW, 50));
        assert!((window(&congestion, A) - left).abs() < 1e-9, "{name}");
    }
}

// Linux forgets the state of HyStart with a timeout only (`bictcp_state` in net/ipv4/tcp_cubic.c): a slow start that an
// undo restores still ends before the queue overflows.
#[test]
fn a_slow_start_restored_by_an_undo_has_hystart() {
    let mut congestion = started(100, false);
    acknowledge(&mut congestion, 0, 0, 40_000);
    congestion.on_congestion(A, &loss(NOW, 100));
    assert!(congestion.ssthresh(A).is_some());
    congestion.on_undo(A, NOW);
    assert_eq!(congestion.ssthresh(A), None, "the first slow start again");
    assert!(train(&mut congestion, 500, 40_000).is_some());
    // A timeout begins a new one, which an undo keeps.
    let mut congestion = started(100, false);
    congestion.on_rto(A, NOW, 100 * MSS, false);
    congestion.on_undo(A, NOW);
    assert_eq!(congestion.ssthresh(A), None);
    assert!(train(&mut congestion, 500, 40_000).is_some());
}

// `tcp_may_raise_cwnd` in net/ipv4/tcp_input.c.
#[test]
fn selective_acknowledgements_increase_the_window_once_reordering_is_expected() {
    let selective = Ack { una_advanced: false, ..ack(NOW, 1) };
    for kind in [CongestionKind::CubicLinux, CongestionKind::NewReno, CongestionKind::Lia] {
        let linux = !kind.is_coupled();
        let mut congestion = kind.build();
        congestion.on_subflow_up(A, &SubflowStart { initial_window: 10, ..start() });
        congestion.on_ack(A, &selective);
        assert_eq!(window(&congestion, A), 10.0);
        congestion.on_ack(A, &Ack { expects_reordering: true, ..selective });
        assert_eq!(window(&congestion, A), if linux { 11.0 } else { 10.0 });
    }
}
