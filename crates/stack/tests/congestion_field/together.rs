//! A comparison of the coupled controls: two subflows without a network.

use anabranch_stack::congestion::{Ack, CongestionControl};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};

use crate::congestion_common::{A, B, MSS, ack, connection, loss, window};

const NOW: Time = Time::from_secs(1);

/// Returns the growth of each window in a round trip, in segments, from the growth by the first
/// acknowledgement.
fn per_round(name: &str, subflows: &[(u32, u64)]) -> Vec<f64> {
    let one = |i: usize| {
        let mut congestion = connection(name, subflows);
        let id = SubflowId(i as u8);
        let rtt = Duration::from_millis(subflows[i].1);
        congestion.on_ack(id, &Ack { rtt: Some(rtt), srtt: rtt, ..ack(NOW, 1) });
        (window(&congestion, id) - f64::from(subflows[i].0)) * f64::from(subflows[i].0)
    };
    (0..subflows.len()).map(one).collect()
}

#[test]
fn of_two_equal_subflows_each_coupled_one_grows_by_a_quarter_of_renos() {
    for (name, should) in [("newreno", 1.0), ("lia", 0.25), ("olia", 0.25), ("balia", 0.25)] {
        for growth in per_round(name, &[(40, 50), (40, 50)]) {
            assert!((growth - should).abs() < 1e-9, "{name}: {growth}");
        }
    }
}

#[test]
fn with_round_trips_of_one_to_two_the_slower_path_grows_less() {
    // 40 segments each, 50 and 100 ms: rates of 800 and 400 segments a second, (sum)^2 = 1.44e6.
    let subflows = [(40, 50), (40, 100)];
    // LIA: max(w / R^2) / sum^2 = 16000 / 1.44e6 for both, times 40.
    for growth in per_round("lia", &subflows) {
        assert!((growth - 40.0 * 16_000.0 / 1.44e6).abs() < 1e-9, "{growth}");
    }
    // OLIA: w^2 / R^2 / sum^2.
    let olia = per_round("olia", &subflows);
    assert!((olia[0] - 640_000.0 / 1.44e6).abs() < 1e-9 && (olia[1] - 160_000.0 / 1.44e6).abs() < 1e-9);
    // BALIA: the same on the faster path; on the slower with alpha = 2 times 3/2 and 6/5.
    let balia = per_round("balia", &subflows);
    assert!((balia[0] - olia[0]).abs() < 1e-9 && (balia[1] - 1.8 * olia[1]).abs() < 1e-9);
    // So BALIA is between the two on the slower path.
    assert!(olia[1] < balia[1] && balia[1] < per_round("lia", &subflows)[1]);
}

#[test]
fn losses_timeouts_and_thresholds_are_those_of_the_table() {
    for (name, left, least) in [("lia", 20, 2), ("olia", 20, 1), ("balia", 10, 1), ("wvegas", 20, 2)] {
        // The second subflow has a quarter of the first one's rate.
        let mut congestion = connection(name, &[(160, 50), (40, 50)]);
        congestion.on_congestion(B, &loss(NOW, 40));
        assert_eq!(congestion.ssthresh(B), Some(left * MSS), "{name}");
        congestion.on_recovered(B, NOW);
        congestion.on_rto(B, NOW, 2 * MSS, false);
        assert_eq!(window(&congestion, B), 1.0, "{name}");
        assert_eq!(congestion.ssthresh(B), Some(least * MSS), "{name}");
        assert_eq!(window(&congestion, A), 160.0, "{name}");
    }
}
