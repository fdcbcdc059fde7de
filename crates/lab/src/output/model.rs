//! `anabranch model --json`

use anabranch_stack::transfer_model::{ModelOptions, PathState, TransferModel};
use serde::Serialize;

/// A limit on the total number of states, more than a reader can use.
const MOST_STATES: usize = 1_000_000;

/// The predictions of DMPTCP's transfer model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// The round trips in their order.
    pub rounds: Vec<Round>,
}

/// A round trip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Its number, from 1.
    pub round: u32,
    /// The expected number of segments delivered in this and all earlier rounds.
    pub delivered_segments: f64,
    /// The expected congestion window, in segments.
    pub expected_cwnd: f64,
    /// The possible states of the path.
    pub states: Vec<State>,
}

/// A possible state of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct State {
    /// The congestion window, in segments.
    pub cwnd: u32,
    /// The slow-start threshold, in segments; none is infinite.
    pub ssthresh: Option<u32>,
    /// The probability of the state, from 0 to 1.
    pub probability: f64,
}

/// The round trips have over a million states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyStates {
    /// The number of round trips that have fewer.
    pub most_rounds: usize,
}

impl core::fmt::Display for TooManyStates {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "over {} round trips have over a million states", self.most_rounds)
    }
}

impl std::error::Error for TooManyStates {}

impl Model {
    /// Returns the predictions for `rounds` round trips from `start`.
    ///
    /// # Errors
    /// If there are more than a million states.
    pub fn new(options: ModelOptions, start: PathState, rounds: u32) -> Result<Model, TooManyStates> {
        let mut all: Vec<Round> = Vec::new();
        let mut count = 0;
        for round in TransferModel::new(options).rounds(start, rounds) {
            count += round.states.len();
            if count > MOST_STATES {
                return Err(TooManyStates { most_rounds: all.len() });
            }
            let states = round.states.iter().map(|state| State {
                cwnd: state.cwnd,
                ssthresh: state.ssthresh,
                probability: state.probability,
            });
            all.push(Round {
                round: round.round,
                delivered_segments: round.delivered_segments,
                expected_cwnd: round.expected_cwnd,
                states: states.collect(),
            });
        }
        Ok(Model { rounds: all })
    }
}
