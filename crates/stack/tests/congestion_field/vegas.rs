//! Vegas: keeps alpha to beta segments in the queue.

use anabranch_stack::congestion::{Ack, AnyCongestion, CongestionControl, CongestionKind, VegasOptions};
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

use crate::congestion_common::{A, ack, connection, loss, start, window};
use crate::path::{Path, round, round_at, rounds, show_base};

const NOW: Time = Time::from_secs(1);

fn vegas(options: VegasOptions) -> AnyCongestion {
    let mut congestion = CongestionKind::Vegas(options).build();
    congestion.on_subflow_up(A, &start());
    congestion
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn alone_the_queue_stays_between_alpha_and_beta(
        base in 5..200_u64, bdp in 20.0..500.0_f64, alpha in 1.0..6.0_f64, more in 1.5..6.0_f64,
    ) {
        let path = Path::new(base, bdp / (base as f64 / 1e3));
        let mut congestion = vegas(VegasOptions { alpha, beta: alpha + more, ..VegasOptions::default() });
        // Slow start ends early; then the window grows by a segment per round trip.
        let now = rounds(&mut congestion, A, &path, NOW, 40 + path.bdp() as u32);
        let mut now = now;
        for _ in 0..50 {
            now = round(&mut congestion, A, &path, now);
            let queued = path.queued(window(&congestion, A));
            // The measurement is in whole segments, and lags by a round trip.
            prop_assert!(queued >= alpha - 1.0 && queued <= alpha + more + 1.0, "{queued}");
        }
    }
}

#[test]
fn slow_start_doubles_until_the_queue_is_longer_than_gamma_and_ends_by_the_ratio_of_the_rtts() {
    let path = Path::new(50, 1000.0);
    let mut congestion = vegas(VegasOptions::default());
    let mut now = NOW;
    for expected in [20.0, 40.0, 80.0] {
        now = round(&mut congestion, A, &path, now);
        assert!((window(&congestion, A) - expected).abs() < 1.5, "{}", window(&congestion, A));
    }
    round(&mut congestion, A, &path, now);
    // 80 segments filled the path of 50 in 80 ms, and have doubled the window in the meantime: w base / rtt +
    // 1.
    assert!((window(&congestion, A) - 101.0).abs() < 1.5, "{}", window(&congestion, A));
    assert!(congestion.ssthresh(A).is_some());
}

#[test]
fn one_segment_a_round_trip_and_none_between_alpha_and_beta() {
    let path = Path::new(50, 1000.0);
    for (at, step) in [(40, 1.0), (51, 1.0), (53, 0.0), (60, -1.0)] {
        let mut congestion = connection("vegas", &[(at, 50)]);
        // The base is known from one early sample.
        show_base(&mut congestion, A, path.base, NOW);
        round(&mut congestion, A, &path, NOW);
        assert_eq!(window(&congestion, A) - f64::from(at), step, "{at}");
    }
}

#[test]
fn counted_over_the_base_the_same_queue_is_longer() {
    // 120 segments in 60 ms over a base of 40 ms: 40 are queued by the paper's count, 60 by Linux's.
    for (over_base, beta, falls) in
        [(false, 39.0, true), (false, 41.0, false), (true, 59.0, true), (true, 61.0, false)]
    {
        let options = VegasOptions { alpha: 1.0, beta, over_base, ..VegasOptions::default() };
        let mut congestion = CongestionKind::Vegas(options).build();
        congestion.on_subflow_up(
            A,
            &anabranch_stack::congestion::SubflowStart {
                initial_window: 120,
                initial_ssthresh: Some(2),
                ..start()
            },
        );
        let base = Duration::from_millis(40);
        show_base(&mut congestion, A, base, NOW);
        round_at(&mut congestion, A, Duration::from_millis(60), NOW);
        assert_eq!(window(&congestion, A) < 120.0, falls, "{over_base} {beta}");
    }
}

#[test]
fn with_two_samples_in_a_round_trip_it_is_reno() {
    let mut congestion = connection("vegas", &[(20, 50)]);
    for n in 0..10_u64 {
        let now = NOW + Duration::from_millis(25 * n);
        let rtt = Duration::from_millis(50 * (1 + n));
        congestion.on_ack(A, &Ack { rtt: Some(rtt), srtt: rtt, round_start: n % 2 == 1, ..ack(now, 10) });
    }
    let grown = window(&congestion, A) - 20.0;
    assert!(grown > 4.3 && grown < 5.0, "{grown} in five round trips");
}

#[test]
fn the_round_trip_of_a_repair_is_not_judged() {
    let path = Path::new(50, 1000.0);
    let mut congestion = connection("vegas", &[(80, 50)]);
    show_base(&mut congestion, A, path.base, NOW);
    congestion.on_congestion(A, &loss(NOW, 80));
    assert_eq!(window(&congestion, A), 40.0);
    congestion.on_recovered(A, NOW);
    let now = round_at(&mut congestion, A, Duration::from_millis(80), NOW);
    assert_eq!(window(&congestion, A), 40.0);
    round_at(&mut congestion, A, Duration::from_millis(80), now);
    assert_eq!(window(&congestion, A), 39.0);
}

#[test]
fn an_idle_time_lets_it_measure_the_base_anew() {
    let mut congestion = connection("vegas", &[(10, 50)]);
    // A path of 50 ms, and one of 100 ms after the idle time: no queue in either.
    let mut now = NOW;
    for _ in 0..5 {
        now = round_at(&mut congestion, A, Duration::from_millis(50), now);
    }
    let grown = window(&congestion, A);
    assert_eq!(grown, 15.0);
    congestion.on_idle(A, now, 1);
    assert_eq!(window(&congestion, A), 10.0);
    for _ in 0..5 {
        now = round_at(&mut congestion, A, Duration::from_millis(100), now);
    }
    // The first round trip is slow start, up to three quarters of 15, and not evaluated; the others grow.
    assert_eq!(window(&congestion, A), 11.25 + 4.0);
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut congestion = connection("vegas", &[(20, 50)]);
    for n in 0..60_u64 {
        let rtt = Duration::from_millis(50);
        let one = ack(NOW + Duration::from_millis(n), 1);
        congestion.on_ack(
            A,
            &Ack { cwnd_limited: false, rtt: Some(rtt), srtt: rtt, round_start: n % 20 == 19, ..one },
        );
    }
    assert_eq!(window(&congestion, A), 20.0);
}

#[test]
fn it_never_falls_below_two_segments() {
    let options = VegasOptions { alpha: 0.1, beta: 0.5, ..VegasOptions::default() };
    let mut congestion = CongestionKind::Vegas(options).build();
    let small =
        anabranch_stack::congestion::SubflowStart { initial_window: 4, initial_ssthresh: Some(2), ..start() };
    congestion.on_subflow_up(A, &small);
    let base = Duration::from_millis(10);
    show_base(&mut congestion, A, base, NOW);
    for n in 0..100_u64 {
        let rtt = Duration::from_millis(5000);
        let one = ack(NOW + Duration::from_millis(n), 1);
        congestion.on_ack(A, &Ack { rtt: Some(rtt), srtt: rtt, round_start: n % 4 == 3, ..one });
    }
    assert_eq!(window(&congestion, A), 2.0);
}
