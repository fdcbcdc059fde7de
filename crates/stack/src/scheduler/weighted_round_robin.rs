//! Weighted round robin: every subflow carries its share of the segments, evenly interleaved.
//!
//! **Decides** for each segment which subflow carries it. Each subflow that may take it earns its weight as
//! credit; the one with the most credit gets the segment and pays the sum of the earned credits.
//!
//! **Source**: the coupled CC survey (2022) mentions a weight for each path without an algorithm; this is the
//! smooth variant that web servers use. **Constants**: the weights; by default `cwnd mss / srtt`.
//!
//! **Departures from the source**: none, as the source has no algorithm. A subflow without free window earns
//! nothing, so its share goes to the others and is not made up for later. Listed weights belong to the
//! subflows in the order of their IDs; missing ones are 1. A subflow of weight 0 carries data only when no
//! other may.

use super::pick::{self, Tracked};
use super::{Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::parameter;
use crate::parameter::{Numbers, Options, Parameter};

/// The shares of the subflows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WeightedRoundRobinOptions {
    /// The weights by subflow ID; if empty, each subflow's window divided by its RTT.
    pub weights: Numbers,
}

impl WeightedRoundRobinOptions {
    /// Windows divided by round trips.
    pub const DEFAULT: WeightedRoundRobinOptions = WeightedRoundRobinOptions { weights: Numbers::EMPTY };
}

impl Options for WeightedRoundRobinOptions {
    const PARAMETERS: &'static [Parameter<WeightedRoundRobinOptions>] = &[parameter!(
        WeightedRoundRobinOptions,
        "weights",
        "weights of the subflows by ID; empty: window divided by RTT",
        numbers 0.0, 1e9,
        weights
    )];
}

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WeightedRoundRobin {
    options: WeightedRoundRobinOptions,
    credit: Tracked<f64>,
}

impl WeightedRoundRobin {
    /// Returns a scheduler with the given options.
    pub fn new(options: WeightedRoundRobinOptions) -> WeightedRoundRobin {
        WeightedRoundRobin { options, credit: Tracked::default() }
    }

    fn weight(&self, subflow: &SubflowView) -> f64 {
        match self.options.weights.as_slice() {
            [] => subflow.srtt.map_or(1.0, |srtt| subflow.cwnd as f64 / srtt.as_secs_f64().max(1e-9)),
            weights => weights.get(subflow.id.index()).copied().unwrap_or(1.0),
        }
    }
}

impl Scheduler for WeightedRoundRobin {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let chunk = match pick::next_new(view) {
            Ok(chunk) => chunk,
            Err(decision) => return decision,
        };
        for subflow in view.subflows.iter().filter(|s| !s.may_carry()) {
            self.credit.set(subflow, 0.0);
        }
        // A weight of 0 is used only if there is no positive one.
        let positive = pick::candidates(view).any(|subflow| self.weight(subflow) > 0.0);
        let mut best: Option<(&SubflowView, f64, f64)> = None;
        let mut sum = 0.0;
        for subflow in pick::candidates(view).filter(|subflow| chunk.fits(subflow)) {
            let weight = self.weight(subflow);
            if positive && weight <= 0.0 {
                continue;
            }
            sum += weight;
            let credit = self.credit.get(subflow) + weight;
            self.credit.set(subflow, credit);
            if best.is_none_or(|(_, most, _)| credit > most) {
                best = Some((subflow, credit, weight));
            }
        }
        let Some((subflow, credit, weight)) = best else { return pick::wait(pick::why_none(view)) };
        self.credit.set(subflow, credit - sum);
        match chunk.fit(subflow, subflow.mss) {
            Some(range) => pick::assign_new(subflow, range, Why::scored(Rule::Weight, credit, weight)),
            None => pick::wait(Rule::NoRoom),
        }
    }
}
