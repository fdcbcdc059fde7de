//! BALIA: its formulas.

use anabranch_stack::congestion::{Ack, CongestionControl};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

use crate::congestion_common::{A, B, ack, connection, loss, window};

const NOW: Time = Time::from_secs(1);

fn one_ack(subflows: &[(u32, u64)], i: usize) -> f64 {
    let mut congestion = connection("balia", subflows);
    let id = SubflowId(i as u8);
    let before = window(&congestion, id);
    let srtt = Duration::from_millis(subflows[i].1);
    congestion.on_ack(id, &Ack { srtt, rtt: Some(srtt), ..ack(NOW, 1) });
    window(&congestion, id) - before
}

/// Returns the reduction of subflow `i` by a loss with a full window.
fn one_loss(subflows: &[(u32, u64)], i: usize) -> f64 {
    let mut congestion = connection("balia", subflows);
    let id = SubflowId(i as u8);
    congestion.on_congestion(id, &loss(NOW, u64::from(subflows[i].0)));
    f64::from(subflows[i].0) - window(&congestion, id)
}

fn rate((w, r): (u32, u64)) -> f64 {
    f64::from(w) / (r as f64 / 1e3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn growth_and_reduction_are_those_of_the_draft(
        subflows in prop::collection::vec((4..3000_u32, 1..500_u64), 1..9),
    ) {
        let sum: f64 = subflows.iter().map(|s| rate(*s)).sum();
        let most = subflows.iter().map(|s| rate(*s)).fold(0.0, f64::max);
        for (i, (w, r)) in subflows.iter().enumerate() {
            let x = rate(subflows[i]);
            let alpha = most / x;
            // In the kernel's form: 10 w sum^2 / ((x + most)(4x + most)) acknowledgements per segment.
            let acks = 10.0 * f64::from(*w) * sum * sum / ((x + most) * (4.0 * x + most));
            prop_assert!((one_ack(&subflows, i) * acks - 1.0).abs() < 1e-6);
            let by_definition = x / (*r as f64 / 1e3 * sum * sum) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0;
            prop_assert!((one_ack(&subflows, i) / by_definition - 1.0).abs() < 1e-6);
            let taken = f64::from(*w) / 2.0 * alpha.min(1.5);
            // Rounded down to whole segments.
            let is = one_loss(&subflows, i);
            prop_assert!(is >= taken - 1e-6 && is <= taken + 1.0, "{is} and {taken}");
            prop_assert!(is >= f64::from(*w) / 2.0 - 1e-6 && is <= 0.75 * f64::from(*w) + 1.0);
        }
    }

    #[test]
    fn the_fastest_never_yields_more_than_half(
        subflows in prop::collection::vec((4..3000_u32, 1..500_u64), 1..9),
    ) {
        let fastest = (0..subflows.len()).max_by(|a, b| rate(subflows[*a]).total_cmp(&rate(subflows[*b]))).unwrap();
        let w = f64::from(subflows[fastest].0);
        prop_assert!(one_loss(&subflows, fastest) <= w / 2.0 + 0.5);
    }
}

#[test]
fn equal_paths_of_20_segments_grow_by_an_eightieth_like_olias() {
    assert!((one_ack(&[(20, 50), (20, 50)], 0) - 0.0125).abs() < 1e-12);
}

#[test]
fn a_path_of_a_quarter_of_the_rate_yields_three_quarters() {
    assert_eq!(one_loss(&[(80, 50), (20, 50)], 1), 15.0);
    assert_eq!(one_loss(&[(80, 50), (20, 50)], 0), 40.0);
}

#[test]
fn between_one_and_one_and_a_half_times_slower_the_reduction_is_in_between() {
    // The kernel's integer division reduces by 500 of 1000.
    assert_eq!(one_loss(&[(1250, 50), (1000, 50)], 1), 625.0);
}

#[test]
fn a_timeout_sets_the_threshold_by_the_same_rule() {
    let mut congestion = connection("balia", &[(80, 50), (20, 50)]);
    congestion.on_rto(B, NOW, 20 * crate::congestion_common::MSS, false);
    assert_eq!(congestion.ssthresh(B), Some(5 * crate::congestion_common::MSS));
    assert_eq!(window(&congestion, B), 1.0);
    assert_eq!(window(&congestion, A), 80.0);
}
