//! LIA (RFC 6356): its formula, and the bounds it guarantees.

use crate::congestion_common;

use anabranch_stack::congestion::{Ack, CongestionControl};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};
use congestion_common::{A, B, MSS, ack, connection, loss, round, window};
use proptest::prelude::*;

const NOW: Time = Time::from_secs(1);

/// Returns the increase of subflow `i` per acknowledged segment, by RFC 6356 with its total and its alpha.
fn formula(subflows: &[(u32, u64)], i: usize) -> f64 {
    let w = |k: usize| f64::from(subflows[k].0);
    let r = |k: usize| subflows[k].1 as f64 / 1e3;
    let all = 0..subflows.len();
    let total: f64 = all.clone().map(w).sum();
    let best = all.clone().map(|k| w(k) / (r(k) * r(k))).fold(0.0, f64::max);
    let sum: f64 = all.map(|k| w(k) / r(k)).sum();
    let alpha = total * best / (sum * sum);
    (alpha / total).min(1.0 / w(i))
}

fn one_ack(subflows: &[(u32, u64)], i: usize) -> f64 {
    let mut congestion = connection("lia", subflows);
    let id = SubflowId(i as u8);
    let before = window(&congestion, id);
    let srtt = Duration::from_millis(subflows[i].1);
    congestion.on_ack(id, &Ack { srtt, rtt: Some(srtt), ..ack(NOW, 1) });
    window(&congestion, id) - before
}

fn any_subflows() -> impl Strategy<Value = Vec<(u32, u64)>> {
    prop::collection::vec((2..2000_u32, 1..500_u64), 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_increase_is_that_of_the_rfc_and_never_above_newrenos(subflows in any_subflows()) {
        for i in 0..subflows.len() {
            let (is, should) = (one_ack(&subflows, i), formula(&subflows, i));
            prop_assert!((is - should).abs() <= 1e-9, "{} and {}", is, should);
            prop_assert!(is > 0.0 && is <= 1.0 / f64::from(subflows[i].0) + 1e-12);
        }
    }

    // The total rate of all subflows grows no faster than that of one NewReno on the shortest path: sum of
    // (w_i / R_i) * increase_i / R_i <= 1 / R_min^2.
    #[test]
    fn the_total_rate_grows_no_faster_than_newreno_on_the_shortest_path(subflows in any_subflows()) {
        let mut growth = 0.0;
        for (i, (w, r)) in subflows.iter().enumerate() {
            let rtt = *r as f64 / 1e3;
            growth += f64::from(*w) / rtt * one_ack(&subflows, i) / rtt;
        }
        let shortest = subflows.iter().map(|(_, r)| *r).min().unwrap() as f64 / 1e3;
        prop_assert!(growth <= (1.0 + 1e-6) / (shortest * shortest));
    }

    // With equal RTTs the total window grows by max w / sum w, at most 1, per round trip.
    #[test]
    fn with_equal_rtts_the_total_window_grows_by_alpha(windows in prop::collection::vec(2..500_u32, 1..9)) {
        let subflows: Vec<_> = windows.iter().map(|w| (*w, 30)).collect();
        let growth: f64 = windows.iter().enumerate().map(|(i, w)| f64::from(*w) * one_ack(&subflows, i)).sum();
        let alpha = f64::from(*windows.iter().max().unwrap()) / windows.iter().map(|w| f64::from(*w)).sum::<f64>();
        prop_assert!((growth - alpha).abs() < 1e-6);
        prop_assert!(alpha <= 1.0);
    }

    #[test]
    fn alone_it_is_newreno(window_at_start in 2..300_u32, rounds in 1..30) {
        let mut lia = connection("lia", &[(window_at_start, 20)]);
        let mut reno = connection("newreno", &[(window_at_start, 20)]);
        for n in 0..rounds {
            let now = NOW + Duration::from_millis(20) * n as u64;
            round(&mut lia, A, now, Duration::from_millis(20));
            round(&mut reno, A, now, Duration::from_millis(20));
        }
        prop_assert!((window(&lia, A) / window(&reno, A) - 1.0).abs() < 1e-9);
    }

    // Alpha is kept for as many acknowledged segments as the window of the subflow holds whose
    // acknowledgement triggered its computation. If in that time no window grows by more than a factor G,
    // alpha / w_total, which is max(w_k / R_k^2) / (sum w_k / R_k)^2, becomes at most G times as large (its
    // numerator) and at least 1 / G^2 times (its denominator). G is bounded: a segment adds at most 1 / w to
    // a window, and (w + 1 / w)^2 is w^2 + 2 + 1 / w^2.
    #[test]
    fn a_kept_alpha_is_nearly_the_present_one(subflows in prop::collection::vec((2..200_u32, 1..500_u64), 1..5), acks in prop::collection::vec(0..5_u8, 200)) {
        let mut congestion = connection("lia", &subflows);
        let aggressiveness = |windows: &[f64]| {
            let paths = || windows.iter().zip(&subflows).map(|(w, (_, r))| (*w, *r as f64));
            let best = paths().map(|(w, r)| w / (r * r)).fold(0.0, f64::max);
            best / paths().map(|(w, r)| w / r).sum::<f64>().powi(2)
        };
        let windows = |congestion: &_| -> Vec<f64> {
            (0..subflows.len() as u8).map(|k| window(congestion, SubflowId(k))).collect()
        };
        // The windows at the computation of alpha, the acknowledgements since, and the number for which it is
        // still kept.
        let (mut then, mut acked, mut left) = (Vec::new(), vec![0.0; subflows.len()], 0.0);
        for (n, i) in acks.into_iter().enumerate() {
            let i = usize::from(i) % subflows.len();
            let present = windows(&congestion);
            if left <= 0.0 {
                (then, left) = (present.clone(), present[i]);
                acked.fill(0.0);
            }
            let srtt = Duration::from_millis(subflows[i].1);
            congestion.on_ack(SubflowId(i as u8), &Ack { srtt, ..ack(NOW + Duration::from_millis(n as u64), 1) });
            let is = windows(&congestion)[i] - present[i];
            let kept = aggressiveness(&then).min(1.0 / present[i]);
            prop_assert!((is / kept - 1.0).abs() < 1e-6, "{} and {}", is, kept);
            let should = aggressiveness(&present).min(1.0 / present[i]);
            let growth = present.iter().zip(&then).map(|(now, then)| now / then).fold(1.0, f64::max);
            prop_assert!(is <= should * growth * growth * (1.0 + 1e-6), "{} and {}", is, should);
            prop_assert!(is >= should / growth * (1.0 - 1e-6), "{} and {}", is, should);
            let most = then.iter().zip(&acked).map(|(w, n)| 1.0 + n * (2.0 + 1.0 / (w * w)) / (w * w));
            prop_assert!(growth * growth <= most.fold(1.0, f64::max) + 1e-9, "{}", growth);
            acked[i] += 1.0;
            left -= 1.0;
        }
    }
}

#[test]
fn n_equal_subflows_grow_by_one_over_n_together() {
    for n in 1..=8_u32 {
        let subflows = vec![(100, 20); n as usize];
        let per_round = 100.0 * one_ack(&subflows, 0);
        assert!((per_round - 1.0 / f64::from(n * n)).abs() < 1e-9, "{n}: {per_round}");
    }
}

#[test]
fn large_windows_lose_no_precision() {
    // The exact threshold is 8000 acknowledgements per segment; the kernel's fixed point has 4096.
    assert!((one_ack(&[(2000, 20), (2000, 20)], 0) * 8000.0 - 1.0).abs() < 1e-9);
    assert!((one_ack(&[(1_000_000, 20), (1_000_000, 20)], 0) * 4e6 - 1.0).abs() < 1e-3);
}

#[test]
fn a_subflow_without_an_rtt_is_left_out_of_the_sums() {
    assert!((one_ack(&[(100, 20), (100, 0)], 0) - 0.01).abs() < 1e-12);
    let with = one_ack(&[(100, 20), (50, 40), (100, 0)], 0);
    assert!((with - one_ack(&[(100, 20), (50, 40)], 0)).abs() < 1e-12);
    // Without any sample, equal RTTs are assumed.
    let mut congestion = connection("lia", &[(100, 0), (100, 0)]);
    congestion.on_ack(A, &Ack { srtt: Duration::ZERO, rtt: None, ..ack(NOW, 1) });
    assert!((window(&congestion, A) - 100.0 - 1.0 / 400.0).abs() < 1e-12);
}

#[test]
fn a_subflow_in_recovery_counts_with_its_threshold() {
    let mut congestion = connection("lia", &[(100, 20), (100, 20)]);
    congestion.on_congestion(B, &loss(NOW, 100));
    congestion.on_ack(A, &ack(NOW, 1));
    // 100 / (100 + 50)^2
    assert!((window(&congestion, A) - 100.0 - 100.0 / 22_500.0).abs() < 1e-12);
}

#[test]
fn a_change_of_one_subflow_affects_the_others_at_once() {
    let growth = |happens: fn(&mut anabranch_stack::congestion::AnyCongestion)| {
        let mut congestion = connection("lia", &[(100, 20), (100, 20)]);
        congestion.on_ack(A, &ack(NOW, 1));
        happens(&mut congestion);
        let before = window(&congestion, A);
        congestion.on_ack(A, &ack(NOW, 1));
        window(&congestion, A) - before
    };
    let before = growth(|_| ());
    assert!((before - 1.0 / 400.0).abs() < 1e-6);
    assert!((growth(|c| c.on_subflow_down(B)) - 0.01).abs() < 1e-5);
    assert!(growth(|c| c.on_rto(B, NOW, 100 * MSS, false)) > 0.0097);
    assert!(growth(|c| c.penalise(B, NOW)) > before);
    assert!(growth(|c| c.on_congestion(B, &loss(NOW, 100))) > before);
}

#[test]
fn slow_start_is_not_coupled() {
    let mut congestion = connection("lia", &[(10, 20), (10, 20)]);
    congestion.on_rto(A, NOW, 40 * MSS, false);
    congestion.on_ack(A, &ack(NOW, 1));
    assert_eq!(congestion.cwnd(A), 2 * MSS);
}

/// RFC 6356 section 4.1: alpha is computed anew after a loss, whatever is left of the window for which it was to be kept.
#[test]
fn after_a_loss_the_other_windows_grow_by_the_new_alpha() {
    let subflows = [(100, 20), (100, 20)];
    let mut congestion = connection("lia", &subflows);
    let grow = |congestion: &mut _| {
        let before = window(congestion, B);
        congestion.on_ack(B, &ack(NOW, 1));
        window(congestion, B) - before
    };
    // 100 / (200 / R)^2 of R^2.
    assert!((grow(&mut congestion) - 100.0 / 200.0_f64.powi(2)).abs() < 1e-6);
    congestion.on_congestion(A, &loss(NOW, 100));
    let (a, b) = (window(&congestion, A), window(&congestion, B));
    assert!((a - 50.0).abs() < 1.0, "{a}");
    assert!((grow(&mut congestion) - b / (a + b).powi(2)).abs() < 1e-9);
}
