//! The predicted growth of a window compared with its actual growth.

use anabranch_stack::congestion::{Ack, CongestionControl, Delivery, Growth};
use anabranch_units::{Duration, Rate, Time};

use crate::congestion_common::{A, MSS, ack, connection, loss};
use crate::path::{Path, round, rounds};

/// The prediction used by CP scheduling (its equation 7) equals the windows of the next round trips, below
/// the last maximum, around it and beyond.
#[test]
fn cubic_names_the_windows_of_the_round_trips_to_come() {
    for (name, reductions) in [("cubic", 1), ("cubic", 2), ("cubic_linux", 1), ("cubic_linux", 2)] {
        let mut congestion = connection(name, &[(200, 50)]);
        let path = Path::new(50, 1e9);
        let mut now = Time::from_secs(1);
        for _ in 0..reductions {
            let flight = congestion.cwnd(A) / MSS;
            congestion.on_congestion(A, &loss(now, flight));
            congestion.on_recovered(A, now);
            now = rounds(&mut congestion, A, &path, now, 20);
        }
        assert_eq!(congestion.growth(A), Growth::Time);
        for _ in 0..12 {
            let ahead: Vec<u64> =
                (1..=8).map(|n| congestion.window_at(A, now, path.base * n) / MSS).collect();
            assert_eq!(congestion.window_at(A, now, Duration::ZERO), congestion.cwnd(A));
            let mut later = congestion.clone();
            let mut then = now;
            for (n, expected) in ahead.iter().enumerate() {
                then = round(&mut later, A, &path, then);
                let is = later.cwnd(A) / MSS;
                // A window lags the function by a round trip, so it may be a few segments lower.
                let slack = 3 + is / 50;
                assert!(is.abs_diff(*expected) <= slack, "{name} {reductions}, round {n}: {expected}, {is}");
            }
            now = rounds(&mut congestion, A, &path, now, 8);
        }
    }
}

#[test]
fn a_control_without_threshold_reports_slow_start_itself() {
    let mut reno = connection("newreno", &[(10, 50)]);
    assert_eq!(reno.growth(A), Growth::Acks);
    reno.on_rto(A, Time::from_secs(1), 10 * MSS, false);
    assert_eq!(reno.growth(A), Growth::SlowStart);
    let mut bbr = connection("bbr", &[(10, 50)]);
    assert_eq!((bbr.growth(A), bbr.ssthresh(A)), (Growth::SlowStart, None));
    // Three round trips at one rate end Startup.
    let mut now = Time::from_secs(1);
    for round in 1..=8_u64 {
        now += Duration::from_millis(50);
        let delivery = Delivery {
            total: round * 10 * MSS,
            prior_delivered: (round - 1) * 10 * MSS,
            delivered: 10 * MSS,
            tx_in_flight: 10 * MSS,
            lost: 0,
            app_limited: false,
        };
        let rate = Some(Rate(10 * MSS * 8 * 20));
        let one = Ack { delivery: Some(delivery), delivery_rate: rate, round_start: true, ..ack(now, 10) };
        bbr.on_ack(A, &one);
    }
    assert_eq!((bbr.growth(A), bbr.ssthresh(A)), (Growth::Rate, None));
}
