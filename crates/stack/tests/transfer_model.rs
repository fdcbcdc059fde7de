//! The transfer model against the values that are worked out in the paper and by hand.

use anabranch_stack::transfer_model::{ModelOptions, PathState, TransferModel};

fn path(cwnd: u32, ssthresh: Option<u32>, loss: f64) -> PathState {
    PathState { cwnd, ssthresh, loss }
}

fn delivered(model: &TransferModel, start: PathState, rounds: u32) -> f64 {
    let exact = model.rounds(start, rounds).last().unwrap().delivered_segments;
    let fast = model.delivered(start, f64::from(rounds), f64::INFINITY);
    assert!((exact - fast).abs() <= 1e-6 * exact, "{exact} {fast}");
    exact
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
    let clip = TransferModel::new(ModelOptions { clip_at_ssthresh: true, ..ModelOptions::default() });
    assert_eq!(delivered(&TransferModel::default(), start, 4), 150.0); // 10 20 40 80
    assert_eq!(delivered(&clip, start, 4), 134.0); // 10 20 40 64
}

#[test]
fn the_first_transition_of_figure_7() {
    let round = TransferModel::default().rounds(path(10, Some(80), 0.01), 2).last().unwrap();
    let nodes: Vec<_> = round.states.iter().map(|s| (s.cwnd, s.ssthresh)).collect();
    assert_eq!(nodes, [(20, Some(80)), (5, Some(5)), (1, Some(5))]);
}
