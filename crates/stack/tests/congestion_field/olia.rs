//! OLIA: its two sets, its formula, and its claimed properties.

use anabranch_stack::congestion::{Ack, AnyCongestion, CongestionControl};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

use crate::congestion_common::{A, B, MSS, ack, connection, loss, window};

const NOW: Time = Time::from_secs(1);

/// One subflow: window in segments, RTT in milliseconds, bytes delivered since the start.
type Subflow = (u32, u64, u64);

fn olia(subflows: &[Subflow]) -> AnyCongestion {
    let shapes: Vec<_> = subflows.iter().map(|(window, rtt, _)| (*window, *rtt)).collect();
    let mut congestion = connection("olia", &shapes);
    for (at, (_, rtt, bytes)) in subflows.iter().enumerate() {
        deliver(&mut congestion, SubflowId(at as u8), *rtt, *bytes);
    }
    congestion
}

/// Delivers bytes on a window that is not used, and so does not grow.
fn deliver(congestion: &mut AnyCongestion, id: SubflowId, rtt_ms: u64, bytes: u64) {
    let rtt = Duration::from_millis(rtt_ms);
    let unused = Ack { acked_bytes: bytes, cwnd_limited: false, rtt: Some(rtt), srtt: rtt, ..ack(NOW, 1) };
    congestion.on_ack(id, &unused);
}

fn one_ack(congestion: &AnyCongestion, id: SubflowId, rtt_ms: u64) -> f64 {
    let mut congestion = congestion.clone();
    let before = window(&congestion, id);
    let rtt = Duration::from_millis(rtt_ms);
    congestion.on_ack(id, &Ack { rtt: Some(rtt), srtt: rtt, ..ack(NOW, 1) });
    window(&congestion, id) - before
}

/// Returns the first term of the increase.
fn coupled(subflows: &[Subflow], i: usize) -> f64 {
    let sum: f64 = subflows.iter().map(|(w, r, _)| f64::from(*w) / *r as f64).sum();
    f64::from(subflows[i].0) / (subflows[i].1 as f64).powi(2) / (sum * sum)
}

/// Returns `alpha` by the definition of the sets. An acknowledged segment has also been delivered.
fn alpha(subflows: &[Subflow], i: usize) -> f64 {
    let n = subflows.len() as f64;
    let most = subflows.iter().map(|s| s.0).max().unwrap();
    let quality: Vec<f64> = subflows
        .iter()
        .enumerate()
        .map(|(k, (_, r, l))| (*l + if k == i { MSS } else { 0 }) as f64 / (*r as f64).powi(2))
        .collect();
    let best = quality.iter().copied().fold(0.0, f64::max);
    let in_m = |k: usize| subflows[k].0 == most;
    let in_b = |k: usize| quality[k] >= best * (1.0 - 1e-9);
    let all = 0..subflows.len();
    let m = all.clone().filter(|k| in_m(*k)).count() as f64;
    let b_only = all.filter(|k| in_b(*k) && !in_m(*k)).count() as f64;
    match (b_only > 0.0, in_m(i), in_b(i)) {
        (false, ..) => 0.0,
        (true, true, _) => -1.0 / (n * m),
        (true, false, true) => 1.0 / (n * b_only),
        (true, false, false) => 0.0,
    }
}

fn any_subflows() -> impl Strategy<Value = Vec<Subflow>> {
    // Few values, so that sets with several members occur.
    let one = (
        prop_oneof![2..6_u32, 2..2000_u32],
        prop_oneof![Just(20_u64), 1..500_u64],
        prop_oneof![Just(1_000_000_u64), 1..100_000_000_u64],
    );
    prop::collection::vec(one, 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_increase_is_that_of_the_definition(subflows in any_subflows()) {
        let congestion = olia(&subflows);
        for (i, (w, r, _)) in subflows.iter().enumerate() {
            let alpha = alpha(&subflows, i);
            let n = subflows.len() as f64;
            prop_assert!(alpha.abs() <= 1.0 / n + 1e-12);
            let should = (coupled(&subflows, i) + alpha / f64::from(*w)).max(1.0 - f64::from(*w));
            let is = one_ack(&congestion, SubflowId(i as u8), *r);
            prop_assert!((is - should).abs() <= 1e-9, "{i}: {is} and {should}");
        }
    }

    // The gains of some equal the losses of others, as long as the acknowledged segment does not change the
    // sets.
    #[test]
    fn alphas_add_up_to_nothing(subflows in any_subflows()) {
        let congestion = olia(&subflows);
        let mut sum = 0.0;
        for (i, (w, r, _)) in subflows.iter().enumerate() {
            prop_assume!(*w > 2);
            let alphas = |j: usize| { let mut s = subflows.clone(); s[j].2 += MSS; (0..s.len()).map(|k| alpha_known(&s, k)).collect::<Vec<_>>() };
            prop_assume!(alphas(i) == alphas(0));
            sum += (one_ack(&congestion, SubflowId(i as u8), *r) - coupled(&subflows, i)) * f64::from(*w);
        }
        prop_assert!(sum.abs() < 1e-6, "{sum}");
    }

    #[test]
    fn equal_paths_grow_alike_and_nothing_moves(n in 1..8_usize, w in 2..3000_u32) {
        let subflows = vec![(w, 20, 1_000_000); n];
        let congestion = olia(&subflows);
        let should = 1.0 / (n * n) as f64 / f64::from(w);
        for i in 0..n {
            prop_assert!((one_ack(&congestion, SubflowId(i as u8), 20) - should).abs() < 1e-12);
        }
    }
}

/// Returns `alpha` if nothing more is delivered.
fn alpha_known(subflows: &[Subflow], i: usize) -> f64 {
    let mut before = subflows.to_vec();
    before[i].2 = before[i].2.saturating_sub(MSS);
    alpha(&before, i)
}

#[test]
fn the_smaller_window_on_the_better_path_gains_what_the_larger_loses() {
    // 20 and 10 segments, 10 KB and 100 KB between losses: -1/2 and +1/2.
    let congestion = olia(&[(20, 50, 10_000), (10, 50, 100_000)]);
    assert!((one_ack(&congestion, A, 50) - (20.0 / 900.0 - 0.025)).abs() < 1e-12);
    assert!((one_ack(&congestion, B, 50) - (10.0 / 900.0 + 0.05)).abs() < 1e-12);
}

#[test]
fn two_equal_paths_of_20_segments_grow_by_an_eightieth() {
    let congestion = olia(&[(20, 50, 100_000), (20, 50, 100_000)]);
    assert!((one_ack(&congestion, A, 50) - 0.0125).abs() < 1e-12);
}

#[test]
fn a_path_is_as_good_as_the_greater_of_the_last_two_spans_between_losses() {
    let mut congestion = olia(&[(20, 50, 500_000), (10, 50, 200_000)]);
    assert!(one_ack(&congestion, B, 50) < 1.0 / 30.0, "the first is larger and better");
    congestion.on_congestion(A, &loss(NOW, 20));
    congestion.on_recovered(A, NOW);
    assert!((window(&congestion, A) - 10.0).abs() < 1e-12);
    // Equal windows: both in M. A still counts with the bytes before the loss.
    deliver(&mut congestion, B, 50, 250_000);
    congestion.penalise(B, NOW);
    let gains = |congestion: &AnyCongestion| one_ack(congestion, B, 50) - 5.0 / 225.0;
    assert!(gains(&congestion).abs() < 1e-12, "450 KB are less than 500 KB: A is in B and in M");
    // A second loss with nothing delivered since is the same loss.
    congestion.on_congestion(A, &loss(NOW, 10));
    congestion.on_recovered(A, NOW);
    congestion.on_undo(A, NOW);
    assert!(gains(&congestion).abs() < 1e-12);
    // After a third one, following a small delivery, the 500 KB are forgotten.
    deliver(&mut congestion, A, 50, 1000);
    congestion.on_congestion(A, &loss(NOW, 10));
    congestion.on_recovered(A, NOW);
    congestion.on_undo(A, NOW);
    assert!((gains(&congestion) - 1.0 / (2.0 * 5.0)).abs() < 1e-12, "{}", gains(&congestion));
}

#[test]
fn large_windows_lose_no_precision() {
    for w in [2000_u32, 1_000_000, 100_000_000] {
        let congestion = olia(&[(w, 20, 1_000_000), (w, 20, 1_000_000)]);
        let mut congestion = congestion;
        // A million acknowledged segments at once count like one after the other, for constant windows.
        let before = window(&congestion, A);
        congestion.on_ack(A, &ack(NOW, 1_000_000));
        let should = 1e6 / (4.0 * f64::from(w));
        let is = window(&congestion, A) - before;
        assert!((is / should - 1.0).abs() < 1e-5, "{w}: {is} and {should}");
    }
}

#[test]
fn several_subflows_may_fall_to_a_threshold_of_one_segment_and_a_single_one_to_two() {
    for (name, least) in [("olia", 1), ("balia", 1), ("lia", 2), ("newreno", 2)] {
        let mut two = connection(name, &[(2, 20), (2, 20)]);
        two.on_congestion(A, &loss(NOW, 2));
        assert_eq!(two.ssthresh(A), Some(least * MSS), "{name}");
        let mut one = connection(name, &[(2, 20)]);
        one.on_congestion(A, &loss(NOW, 2));
        assert_eq!(one.ssthresh(A), Some(2 * MSS), "{name}");
    }
}

#[test]
fn traffic_moves_to_the_path_that_loses_less() {
    // Every 200th segment is lost on one path, and every 2000th on the other.
    let share = |name: &str| {
        let mut congestion = connection(name, &[(20, 50), (20, 50)]);
        let (mut left, mut sent) = ([200_i64, 2000], [0.0, 0.0]);
        for n in 0..4000_u64 {
            let now = NOW + Duration::from_millis(50) * n;
            for (at, every) in [(0, 200), (1, 2000)] {
                let id = SubflowId(at as u8);
                let segments = congestion.cwnd(id) / MSS;
                left[at] -= segments as i64;
                sent[at] += if n > 500 { segments as f64 } else { 0.0 };
                for _ in 0..segments {
                    let rtt = Duration::from_millis(50);
                    congestion.on_ack(id, &Ack { rtt: Some(rtt), srtt: rtt, ..ack(now, 1) });
                }
                if left[at] <= 0 {
                    left[at] += every;
                    congestion.on_congestion(id, &loss(now, segments));
                    congestion.on_recovered(id, now);
                }
            }
        }
        sent[0] / (sent[0] + sent[1])
    };
    let (olia, lia, reno) = (share("olia"), share("lia"), share("newreno"));
    assert!(olia < 0.1 && olia < lia && lia < reno, "{olia} {lia} {reno}");
}

#[test]
fn a_subflow_without_an_rtt_is_left_out() {
    let congestion = olia(&[(100, 20, 1000), (100, 0, 1000)]);
    let mut congestion = congestion;
    congestion.on_subflow_up(
        B,
        &anabranch_stack::congestion::SubflowStart { rtt: None, ..crate::congestion_common::start() },
    );
    assert!((one_ack(&congestion, A, 20) - 0.01).abs() < 1e-12);
}
