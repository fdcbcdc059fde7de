//! The model as in the paper's figure: all states of a round, with equal ones merged and none neglected.

use super::rules::{Rules, UNBOUNDED};

/// A possible state of a subflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow start threshold, segments; `None` is infinite.
    pub ssthresh: Option<u32>,
    /// The probability of this state in its round; the probabilities of all states of a round sum to 1.
    pub probability: f64,
}

/// One round trip of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// The number of the round, from 1.
    pub round: u32,
    /// Expected number of segments delivered in this and all earlier rounds. // DMPTCP eq. 3
    pub delivered_segments: f64,
    /// Mean of the window sent in this round, segments. // DMPTCP eq. 14
    pub expected_cwnd: f64,
    /// The states of this round, from large to small windows, then thresholds.
    pub states: Vec<State>,
}

/// Iterator over the rounds of a [`TransferModel`](super::TransferModel).
#[derive(Clone, Debug)]
pub struct Rounds {
    rules: Rules,
    /// `(cwnd, ssthresh, probability)`.
    states: Vec<(u32, u32, f64)>,
    round: u32,
    last: u32,
    delivered: f64,
}

impl Rounds {
    pub(super) fn new(rules: Rules, rounds: u32) -> Rounds {
        let states = vec![(rules.cwnd, rules.ssthresh, 1.0)];
        Rounds { rules, states, round: 0, last: rounds, delivered: 0.0 }
    }

    fn transition(&mut self) {
        let rules = &self.rules;
        let mut next = Vec::with_capacity(3 * self.states.len());
        let mut add = |cwnd, ssthresh, probability| {
            if probability > 0.0 {
                next.push((cwnd, ssthresh, probability));
            }
        };
        for &(cwnd, ssthresh, probability) in &self.states {
            let outcome = rules.outcome(f64::from(cwnd));
            let after_loss = rules.ssthresh_after_loss(cwnd);
            add(rules.grown(cwnd, ssthresh, self.round - 1), ssthresh, probability * outcome.none);
            add(cwnd / 2, after_loss, probability * outcome.fast); // DMPTCP eq. 12
            add(rules.timeout_window, after_loss, probability * outcome.timeout); // DMPTCP eq. 9
        }
        // A stable sort: it defines the order in which probabilities are summed.
        next.sort_by_key(|&(cwnd, ssthresh, _)| core::cmp::Reverse((cwnd, ssthresh)));
        next.dedup_by(|from, into| {
            let same = (from.0, from.1) == (into.0, into.1);
            if same {
                into.2 += from.2;
            }
            same
        });
        self.states = next;
    }
}

impl Iterator for Rounds {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        if self.round == self.last {
            return None;
        }
        if self.round > 0 {
            self.transition();
        }
        self.round += 1;
        let expected_cwnd = self.states.iter().map(|&(cwnd, _, p)| f64::from(cwnd) * p).sum::<f64>();
        self.delivered += expected_cwnd * self.rules.kept;
        let state = |&(cwnd, ssthresh, probability): &(u32, u32, f64)| State {
            cwnd,
            ssthresh: (ssthresh != UNBOUNDED).then_some(ssthresh),
            probability,
        };
        Some(Round {
            round: self.round,
            delivered_segments: self.delivered,
            expected_cwnd,
            states: self.states.iter().map(state).collect(),
        })
    }
}
