//! The fast walk against the full expansion, over a grid.

use anabranch_stack::transfer_model::{PathState, TransferModel};

const LOSSES: [f64; 9] = [0.0, 1e-5, 1e-4, 5e-4, 1e-3, 3e-3, 1e-2, 3e-2, 5e-2];
const WINDOWS: [u32; 9] = [1, 2, 3, 5, 8, 10, 17, 33, 64];
const THRESHOLDS: [Option<u32>; 8] =
    [Some(0), Some(2), Some(7), Some(20), Some(64), Some(300), Some(5000), None];
const ROUNDS: u32 = 50;

fn worst_error(model: &TransferModel, starts: impl Iterator<Item = PathState>) -> f64 {
    let mut worst = 0.0_f64;
    for start in starts {
        for round in model.rounds(start, ROUNDS) {
            let fast = model.delivered(start, f64::from(round.round), f64::INFINITY);
            let error = (fast / round.delivered_segments - 1.0).abs();
            assert!(error < 1e-3, "{start:?} round {}: {fast} for {}", round.round, round.delivered_segments);
            worst = worst.max(error);
        }
    }
    worst
}

fn grid() -> impl Iterator<Item = PathState> {
    LOSSES.into_iter().flat_map(|loss| {
        WINDOWS.into_iter().flat_map(move |cwnd| {
            THRESHOLDS.into_iter().map(move |ssthresh| PathState { cwnd, ssthresh, loss })
        })
    })
}

#[test]
fn the_walk_is_within_a_thousandth_of_the_full_expansion() {
    println!("{}", worst_error(&TransferModel::default(), grid()));
}
