//! A second implementation of the model, slow and literal: the tree of states without merging, and the
//! binomial sums term by term.

use anabranch_stack::transfer_model::{ModelOptions, PathState, Survivors, TimeoutWindow, TransferModel};
use proptest::prelude::*;

/// Relative error of the walk; see the accuracy tests. Windows below 256 are exact, larger ones not.
const WALK_ERROR: f64 = 1e-4;

const INFINITE: u32 = u32::MAX;

struct Tree {
    options: ModelOptions,
    loss: f64,
    first_cwnd: u32,
    /// Mean window of each round.
    expected: Vec<f64>,
}

impl Tree {
    fn limit(&self) -> u32 {
        self.options.window_limit.unwrap_or(INFINITE).max(1)
    }

    /// DMPTCP eq. 4, the right way round, summed over `lost`.
    fn probability(&self, cwnd: u32, lost: std::ops::RangeInclusive<u32>) -> f64 {
        let (p, q) = (self.loss, 1.0 - self.loss);
        let mut term = q.powi(cwnd as i32);
        let mut sum = 0.0;
        for l in 0..=cwnd {
            if lost.contains(&l) {
                sum += term;
            }
            term *= f64::from(cwnd - l) / f64::from(l + 1) * p / q;
        }
        sum
    }

    fn visit(&mut self, cwnd: u32, ssthresh: u32, probability: f64, round: usize) {
        if round == self.expected.len() {
            return;
        }
        self.expected[round] += probability * f64::from(cwnd);
        let none = self.probability(cwnd, 0..=0);
        let survivors = if self.options.survivors == Survivors::Four { 4 } else { 3 };
        let fast = if cwnd > survivors { self.probability(cwnd, 1..=cwnd - survivors) } else { 0.0 };
        let timeout = self.probability(cwnd, 1.max((cwnd + 1).saturating_sub(survivors))..=cwnd);
        let after_loss = if self.options.threshold_floor { 2.max(cwnd / 2) } else { cwnd / 2 };
        let grown = if cwnd >= ssthresh {
            let steps = |rounds: usize| (rounds as f64 * self.options.increase).floor() as u32;
            cwnd + steps(round + 1) - steps(round)
        } else if self.options.clip_at_ssthresh {
            ssthresh.min(2 * cwnd)
        } else {
            2 * cwnd
        };
        let again = match self.options.timeout_window {
            TimeoutWindow::One => 1,
            TimeoutWindow::Initial => self.first_cwnd,
        };
        self.visit(grown.min(self.limit()), ssthresh, probability * none, round + 1);
        if fast > 0.0 {
            self.visit(cwnd / 2, after_loss, probability * fast, round + 1);
        }
        self.visit(again, after_loss, probability * timeout, round + 1);
    }
}

/// Returns the segments delivered by the end of each round.
fn oracle(options: ModelOptions, start: PathState, rounds: usize) -> Vec<f64> {
    let limit = options.window_limit.unwrap_or(INFINITE).max(1);
    let first_cwnd = start.cwnd.max(1).min(limit);
    let mut tree = Tree { options, loss: start.loss, first_cwnd, expected: vec![0.0; rounds] };
    tree.visit(first_cwnd, start.ssthresh.unwrap_or(INFINITE), 1.0, 0);
    let mut sum = 0.0;
    tree.expected
        .iter()
        .map(|expected| {
            sum += expected * (1.0 - start.loss);
            sum
        })
        .collect()
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * (1.0 + a.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_expansion_and_the_walk_agree_with_the_tree(
        cwnd in prop_oneof![0_u32..12, 0_u32..80],
        ssthresh in prop_oneof![Just(None), (0_u32..20).prop_map(Some), (0_u32..200).prop_map(Some)],
        loss in prop_oneof![Just(0.0), 0.0..0.05, 0.0..0.95],
        clip_at_ssthresh in any::<bool>(),
        initial in any::<bool>(),
        increase in prop_oneof![Just(1.0), 0.0..1.0],
        window_limit in prop_oneof![Just(None), (0_u32..100).prop_map(Some)],
        rounds in 1_usize..=8,
        part in 0.0..1.0,
        (threshold_floor, three) in any::<(bool, bool)>(),
    ) {
        let timeout_window = if initial { TimeoutWindow::Initial } else { TimeoutWindow::One };
        let survivors = if three { Survivors::Three } else { Survivors::Four };
        let options = ModelOptions {
            clip_at_ssthresh, timeout_window, increase, window_limit, threshold_floor, survivors,
            ..ModelOptions::default()
        };
        let start = PathState { cwnd, ssthresh, loss };
        let model = TransferModel::new(options);
        let expected = oracle(options, start, rounds);
        let mut before = 0.0;
        for (round, &sum) in model.rounds(start, rounds as u32).zip(&expected) {
            prop_assert!(close(round.delivered_segments, sum, 1e-10), "{} for {sum}", round.delivered_segments);
            let walked = model.delivered(start, f64::from(round.round), f64::INFINITY);
            prop_assert!(close(walked, sum, WALK_ERROR), "walked {walked} for {sum}");
            let partly = model.delivered(start, f64::from(round.round - 1) + part, f64::INFINITY);
            prop_assert!(close(partly, before + part * (sum - before), WALK_ERROR));
            before = sum;
        }
    }
}
