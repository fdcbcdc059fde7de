//! The transfer model compared with values computed in the paper and by hand.

use anabranch_stack::transfer_model::{
    Criterion, MAX_ROUNDS, MAX_WINDOW, ModelOptions, PathState, Round, Survivors, TimeoutWindow,
    TransferModel,
};
use proptest::prelude::*;

fn path(cwnd: u32, ssthresh: Option<u32>, loss: f64) -> PathState {
    PathState { cwnd, ssthresh, loss }
}

fn with(change: impl FnOnce(&mut ModelOptions)) -> TransferModel {
    let mut options = ModelOptions::default();
    change(&mut options);
    TransferModel::new(options)
}

/// Returns the segments after whole rounds by the expansion, with which the walk must agree.
fn delivered(model: &TransferModel, start: PathState, rounds: u32) -> f64 {
    let exact = model.rounds(start, rounds).last().unwrap().delivered_segments;
    let fast = model.delivered(start, f64::from(rounds), f64::INFINITY);
    assert!((exact - fast).abs() <= 1e-6 * exact, "{start:?}: {exact}, walked {fast}");
    exact
}

/// Returns `(cwnd, ssthresh)` of each state of a round.
fn nodes(round: &Round) -> Vec<(u32, Option<u32>)> {
    round.states.iter().map(|state| (state.cwnd, state.ssthresh)).collect()
}

/// Returns the windows of a path without loss.
fn windows(model: &TransferModel, start: PathState, rounds: u32) -> Vec<u32> {
    model
        .rounds(PathState { loss: 0.0, ..start }, rounds)
        .map(|round| {
            assert_eq!(round.states.len(), 1);
            round.states[0].cwnd
        })
        .collect()
}

#[test]
fn four_rounds_from_a_window_of_eight_deliver_the_papers_164_kib() {
    let segments = delivered(&TransferModel::default(), path(8, None, 0.0), 4);
    assert_eq!(segments, 120.0);
    assert_eq!((segments * 1400.0 / 1024.0 * 100.0).round(), 16406.0);
}

#[test]
fn four_rounds_with_loss() {
    let expected =
        [(1e-4, 119.63), (5e-4, 118.17), (1e-3, 116.39), (1e-2, 90.30), (3e-2, 58.31), (5e-2, 43.06)];
    for (loss, segments) in expected {
        let got = delivered(&TransferModel::default(), path(8, None, loss), 4);
        assert!((got - segments).abs() < 0.005, "loss {loss}: {got}");
    }
}

#[test]
fn doubling_overshoots_the_threshold_unless_clipped() {
    let start = path(10, Some(64), 0.0);
    let clip = with(|options| options.clip_at_ssthresh = true);
    assert_eq!(delivered(&TransferModel::default(), start, 4), 150.0);
    assert_eq!(delivered(&clip, start, 4), 134.0);
    assert_eq!(windows(&TransferModel::default(), start, 6), [10, 20, 40, 80, 81, 82]);
    assert_eq!(windows(&clip, start, 6), [10, 20, 40, 64, 65, 66]);
}

#[test]
fn the_first_transition_of_figure_7() {
    let rounds: Vec<_> = TransferModel::default().rounds(path(10, Some(80), 0.01), 2).collect();
    assert_eq!(nodes(&rounds[0]), [(10, Some(80))]);
    assert_eq!(nodes(&rounds[1]), [(20, Some(80)), (5, Some(5)), (1, Some(5))]);
    let probability = |node: usize| rounds[1].states[node].probability;
    assert!((probability(0) - 0.99_f64.powi(10)).abs() < 1e-15);
    // Seven or more of ten lost: 120 p^7 q^3 + 45 p^8 q^2 + 10 p^9 q + p^10.
    assert!((probability(2) / 1.168_779_16e-12 - 1.0).abs() < 1e-8, "{}", probability(2));
    assert_eq!(rounds[0].round, 1);
    assert_eq!(rounds[1].round, 2);
    assert_eq!(rounds[0].expected_cwnd, 10.0);
    assert_eq!(rounds[0].delivered_segments, 9.9);
}

#[test]
fn up_to_four_segments_every_loss_is_a_timeout_and_from_five_on_it_may_be_repaired() {
    for cwnd in 1..=4 {
        let round = TransferModel::default().rounds(path(cwnd, Some(0), 0.1), 2).last().unwrap();
        assert_eq!(nodes(&round), [(cwnd + 1, Some(0)), (1, Some(2))]);
        assert!((round.states[0].probability - 0.9_f64.powi(cwnd as i32)).abs() < 1e-15);
    }
    let round = TransferModel::default().rounds(path(5, Some(0), 0.1), 2).last().unwrap();
    assert_eq!(nodes(&round), [(6, Some(0)), (2, Some(2)), (1, Some(2))]);
    assert!((round.states[1].probability - 5.0 * 0.1 * 0.9_f64.powi(4)).abs() < 1e-15);
}

#[test]
fn equal_states_are_one() {
    // Two ways lead to (1, 2) in the third round: from (2, 0) and from (1, 2).
    let round = TransferModel::default().rounds(path(1, Some(0), 0.25), 3).last().unwrap();
    assert_eq!(nodes(&round), [(3, Some(0)), (2, Some(2)), (1, Some(2))]);
    for (state, expected) in round.states.iter().zip([0.421875, 0.1875, 0.390625]) {
        assert!((state.probability - expected).abs() < 1e-15, "{state:?}");
    }
}

#[test]
fn a_timeout_goes_back_to_one_segment_or_if_asked_to_the_initial_window() {
    let initial = with(|options| options.timeout_window = TimeoutWindow::Initial);
    let start = path(10, Some(80), 0.3);
    let round = |model: &TransferModel| model.rounds(start, 2).last().unwrap();
    assert!(nodes(&round(&TransferModel::default())).contains(&(1, Some(5))));
    assert_eq!(nodes(&round(&initial)), [(20, Some(80)), (10, Some(5)), (5, Some(5))]);
    // A first window above the threshold after the timeout is in congestion avoidance at once.
    assert!(delivered(&initial, start, 9) > delivered(&TransferModel::default(), start, 9));
}

#[test]
fn the_part_of_a_round_counts_by_its_share_or_not_at_all() {
    let start = path(8, None, 0.0);
    let whole = with(|options| options.whole_rounds_only = true);
    let cases = [(0.0, 0.0, 0.0), (0.5, 4.0, 0.0), (1.0, 8.0, 8.0), (2.25, 32.0, 24.0), (4.0, 120.0, 120.0)];
    for (rounds, share, floor) in cases {
        assert_eq!(TransferModel::default().delivered(start, rounds, f64::INFINITY), share);
        assert_eq!(whole.delivered(start, rounds, f64::INFINITY), floor);
    }
}

#[test]
fn a_coupled_increase_takes_its_steps_evenly() {
    let quarter = with(|options| options.increase = 0.25);
    let start = path(10, Some(0), 0.0);
    assert_eq!(windows(&quarter, start, 10), [10, 10, 10, 10, 11, 11, 11, 11, 12, 12]);
    assert_eq!(delivered(&quarter, start, 10), 108.0);
    assert_eq!(windows(&quarter, path(1, Some(4), 0.0), 5), [1, 2, 4, 4, 5]);
    let none = with(|options| options.increase = 0.0);
    assert_eq!(delivered(&none, start, 10), 100.0);
    // Values out of range are clamped.
    for (increase, like) in [(-3.0, 0.0), (7.0, 1.0), (f64::NAN, 1.0)] {
        let model = with(|options| options.increase = increase);
        let like = with(|options| options.increase = like);
        assert_eq!(windows(&model, start, 5), windows(&like, start, 5));
        assert_eq!(delivered(&model, start, 5), delivered(&like, start, 5));
    }
}

#[test]
fn without_a_floor_the_threshold_after_a_loss_is_half_the_window_whatever_that_is() {
    let raw = with(|options| options.threshold_floor = false);
    let round = |model: &TransferModel, cwnd| model.rounds(path(cwnd, Some(80), 0.1), 2).last().unwrap();
    for (cwnd, half) in [(1, 0), (2, 1), (3, 1), (4, 2)] {
        assert!(nodes(&round(&raw, cwnd)).contains(&(1, Some(half))), "{cwnd}");
        assert!(nodes(&round(&TransferModel::default(), cwnd)).contains(&(1, Some(2))), "{cwnd}");
    }
    // A window of 1 below a threshold of 2 doubles; above it, it grows by the increase of the round, which is
    // zero here.
    let still = |floor: bool| {
        let model = with(|options| (options.threshold_floor, options.increase) = (floor, 0.0));
        delivered(&model, path(1, Some(80), 0.3), 12)
    };
    assert!(still(false) < still(true), "{} and {}", still(false), still(true));
}

#[test]
fn a_fast_recovery_takes_four_that_arrive_or_if_asked_three() {
    let three = with(|options| options.survivors = Survivors::Three);
    let round = |model: &TransferModel, cwnd| model.rounds(path(cwnd, Some(0), 0.1), 2).last().unwrap();
    assert_eq!(nodes(&round(&three, 3)), [(4, Some(0)), (1, Some(2))]);
    // One of four is lost: 4 p q^3.
    let four = round(&three, 4);
    assert_eq!(nodes(&four), [(5, Some(0)), (2, Some(2)), (1, Some(2))]);
    assert!((four.states[1].probability - 4.0 * 0.1 * 0.9_f64.powi(3)).abs() < 1e-15);
    // One or two of five: 5 p q^4 + 10 p^2 q^3.
    let five = round(&three, 5).states[1].probability;
    assert!((five - (0.5 * 0.9_f64.powi(4) + 0.1 * 0.9_f64.powi(3))).abs() < 1e-15, "{five}");
    assert!(
        delivered(&three, path(8, None, 0.05), 6)
            > delivered(&TransferModel::default(), path(8, None, 0.05), 6)
    );
}

#[test]
fn a_window_limit_holds_in_slow_start_and_in_congestion_avoidance() {
    let limit = |limit| with(|options| options.window_limit = Some(limit));
    assert_eq!(windows(&limit(50), path(10, None, 0.0), 5), [10, 20, 40, 50, 50]);
    assert_eq!(windows(&limit(12), path(10, Some(5), 0.0), 5), [10, 11, 12, 12, 12]);
    assert_eq!(windows(&limit(7), path(10, None, 0.0), 3), [7, 7, 7]);
    assert_eq!(windows(&limit(0), path(10, None, 0.0), 3), [1, 1, 1]);
    for cap in [1, 2, 5, 12, 50, 127, 128, 255, 256] {
        for (cwnd, ssthresh) in [(10, None), (250, Some(5)), (10, Some(200)), (400, Some(350))] {
            for loss in [0.0, 0.003, 0.05] {
                delivered(&limit(cap), path(cwnd, ssthresh, loss), 30);
            }
        }
    }
}

#[test]
fn no_window_is_beyond_the_largest() {
    let start = path(MAX_WINDOW / 2, None, 0.0);
    let largest = f64::from(MAX_WINDOW);
    assert_eq!(windows(&TransferModel::default(), start, 3), [MAX_WINDOW / 2, MAX_WINDOW, MAX_WINDOW]);
    assert_eq!(delivered(&TransferModel::default(), start, 4), 3.5 * largest);
    assert_eq!(windows(&TransferModel::default(), path(u32::MAX, None, 0.0), 2), [MAX_WINDOW; 2]);
    assert_eq!(delivered(&TransferModel::default(), path(u32::MAX, Some(1), 0.0), 2), 2.0 * largest);
}

#[test]
fn the_walk_ends_as_soon_as_it_has_delivered_enough() {
    let model = TransferModel::default();
    let start = path(8, None, 0.0);
    assert_eq!(model.delivered(start, 4.0, 24.0), 24.0);
    assert_eq!(model.delivered(start, 4.0, 24.5), 56.0);
    assert_eq!(model.delivered(start, 4.0, 0.0), 0.0);
    assert_eq!(model.delivered(start, 4.0, 1000.0), 120.0);
    // The result is not truncated in the middle of a round.
    assert_eq!(model.delivered(start, 2.5, 25.0), 40.0);
}

#[test]
fn beyond_the_last_round_the_rate_stays() {
    let model = with(|options| options.window_limit = Some(10));
    let start = path(10, Some(1), 0.0);
    assert_eq!(model.delivered(start, 1e6, f64::INFINITY), 1e7);
    assert_eq!(model.delivered(start, 1e300, f64::INFINITY), 1e301);
    let growing = path(10, Some(1), 0.0);
    let rounds = f64::from(MAX_ROUNDS);
    let at_end = TransferModel::default().delivered(growing, rounds, f64::INFINITY);
    assert_eq!(at_end, rounds * 10.0 + rounds * (rounds - 1.0) / 2.0);
    let rate = 10.0 + rounds;
    assert_eq!(TransferModel::default().delivered(growing, rounds + 2.5, f64::INFINITY), at_end + 2.5 * rate);
}

#[test]
fn odd_input_has_a_meaning() {
    let model = TransferModel::default();
    let deliver = |start| model.delivered(start, 6.5, f64::INFINITY);
    assert_eq!(deliver(path(8, None, f64::NAN)), deliver(path(8, None, 0.0)));
    assert_eq!(deliver(path(8, None, -0.5)), deliver(path(8, None, 0.0)));
    assert_eq!(deliver(path(8, None, 1.5)), 0.0);
    assert_eq!(deliver(path(0, None, 0.1)), deliver(path(1, None, 0.1)));
    assert_eq!(deliver(path(8, Some(u32::MAX), 0.1)), deliver(path(8, None, 0.1)));
    for rounds in [f64::NAN, -1.0, f64::NEG_INFINITY, 0.0] {
        assert_eq!(model.delivered(path(8, None, 0.1), rounds, f64::INFINITY), 0.0);
    }
    assert_eq!(model.delivered(path(8, None, 0.1), f64::INFINITY, 1e9), f64::INFINITY);
    assert_eq!(model.delivered(path(8, None, 1.0), f64::INFINITY, 1e9), 0.0);
    // A walk without a known end runs to the end.
    assert_eq!(model.delivered(path(8, None, 0.0), 2.0, f64::NAN), 24.0);
    assert_eq!(model.rounds(path(8, None, 0.1), 0).count(), 0);
    let all_lost: Vec<_> = model.rounds(path(8, None, 1.0), 3).collect();
    assert_eq!(nodes(&all_lost[1]), [(1, Some(4))]);
    assert_eq!(all_lost[2].delivered_segments, 0.0);
}

fn any_options() -> impl Strategy<Value = ModelOptions> {
    let limit = prop::option::of(0_u32..400);
    (any::<[bool; 6]>(), prop_oneof![Just(1.0), 0.0..1.0], limit).prop_map(
        |(
            [clip_at_ssthresh, initial, whole_rounds_only, threshold_floor, three, delivery],
            increase,
            window_limit,
        )| {
            ModelOptions {
                clip_at_ssthresh,
                timeout_window: if initial { TimeoutWindow::Initial } else { TimeoutWindow::One },
                whole_rounds_only,
                increase,
                coupled_increase: false,
                criterion: if delivery { Criterion::Delivery } else { Criterion::RoundTrip },
                threshold_floor,
                survivors: if three { Survivors::Three } else { Survivors::Four },
                window_limit,
            }
        },
    )
}

fn any_start() -> impl Strategy<Value = PathState> {
    let loss = prop_oneof![Just(0.0), 0.0..0.05, 0.0..=1.0];
    (0_u32..600, prop::option::of(0_u32..600), loss)
        .prop_map(|(cwnd, ssthresh, loss)| path(cwnd, ssthresh, loss))
}

proptest! {
    #[test]
    fn probabilities_of_a_round_sum_to_one(options in any_options(), start in any_start(), rounds in 1_u32..25) {
        let mut before = 0.0;
        for round in TransferModel::new(options).rounds(start, rounds) {
            let sum: f64 = round.states.iter().map(|state| state.probability).sum();
            prop_assert!((sum - 1.0).abs() < 1e-12, "round {}: {sum}", round.round);
            let distinct: std::collections::BTreeSet<_> =
                round.states.iter().map(|state| (state.cwnd, state.ssthresh)).collect();
            prop_assert_eq!(distinct.len(), round.states.len());
            prop_assert!(round.states.iter().all(|state| state.cwnd > 0 && state.probability > 0.0));
            prop_assert!(round.delivered_segments >= before);
            before = round.delivered_segments;
        }
    }

    #[test]
    fn more_rounds_deliver_more(options in any_options(), start in any_start(), a in 0.0..60.0, b in 0.0..60.0) {
        let model = TransferModel::new(options);
        let deliver = |rounds| model.delivered(start, rounds, f64::INFINITY);
        prop_assert!(deliver(f64::min(a, b)) <= deliver(f64::max(a, b)));
    }

    #[test]
    fn an_early_end_is_between_enough_and_everything(
        options in any_options(), start in any_start(), rounds in 0.0..60.0, enough in 0.0..2000.0,
    ) {
        let model = TransferModel::new(options);
        let all = model.delivered(start, rounds, f64::INFINITY);
        let early = model.delivered(start, rounds, enough);
        if all < enough {
            prop_assert_eq!(early, all);
        } else {
            prop_assert!(enough <= early && early <= all);
        }
    }

    #[test]
    fn no_input_panics(
        cwnd in any::<u32>(), ssthresh in any::<Option<u32>>(), loss in any::<f64>(), rounds in any::<f64>(),
        enough in any::<f64>(), increase in any::<f64>(), limit in any::<Option<u32>>(), initial in any::<bool>(),
    ) {
        let model = with(|options| {
            options.increase = increase;
            options.window_limit = limit;
            options.timeout_window = if initial { TimeoutWindow::Initial } else { TimeoutWindow::One };
        });
        let delivered = model.delivered(path(cwnd, ssthresh, loss), rounds, enough);
        // Neither is a negative number or no number, nor does anything arrive in no time.
        prop_assert!(delivered >= 0.0, "{}", delivered);
        if rounds <= 0.0 {
            prop_assert_eq!(delivered, 0.0);
        }
        prop_assert_eq!(model.rounds(path(cwnd, ssthresh, loss), 6).count(), 6);
    }
}
