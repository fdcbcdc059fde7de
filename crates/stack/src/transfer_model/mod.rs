//! The DMPTCP paper's transfer model: the number of segments that a subflow delivers in a given number of
//! round trips.
//!
//! It decides nothing by itself; [`crate::selection`] uses it to compute the data that the faster paths carry
//! while a slower one is in its first round trip. From a window, a slow start threshold and a loss rate it
//! follows the window round by round. In each round the whole window is sent, each segment is lost
//! independently with the loss rate, and there are three outcomes:
//!
//! | lost of `cw` | next round | source |
//! |---|---|---|
//! | none | `2 cw` below the threshold, else `cw + 1` | eq. 5, 6, 7 |
//! | 1 to `cw - 4` | fast recovery: window and threshold `cw / 2` | eq. 11, 12, 13 |
//! | `cw - 3` or more, and at least 1 | timeout: window 1, threshold `cw / 2` | eq. 8, 9, 10 |
//!
//! A round delivers `cw (1 - p)` on average (eq. 3: the sum it subtracts is the mean of a binomial).
//!
//! Source: *DMPTCP* (2018), section 4.1 and figure 7; equation numbers are the paper's. All windows are in
//! segments; all probabilities and loss rates are fractions of 1.
//!
//! # Departures from the paper
//!
//! * Eq. 4 prints the binomial coefficient and the exponent the wrong way round.
//! * Eq. 8 starts its sum at `max(1, cw - 3)`: as printed it counts "nothing lost" as a timeout for windows
//!   of 3 and less, and the probabilities of a round exceed 1.
//! * Eq. 9 returns to the initial window after a timeout; the text and figure 7 return to 1, and so does this
//!   model unless [`TimeoutWindow::Initial`] is set.
//! * Eq. 10, 12 and 13 print only `cw / 2`. A window is a whole number of segments here, rounded down: half
//!   segments give 58.32 and 43.09 where the reference values for 3 % and 5 % loss are 58.31 and 43.06. The
//!   threshold is `max(floor(cw / 2), 2)`, as in the text (two MTUs) and RFC 5681. That floor never changes a
//!   window: below a threshold of 2 there is only the window 1, and twice 1 is 1 + 1. (A fast recovery needs
//!   `cw >= 5`, so its window is 2 or more.) [`ModelOptions::threshold_floor`] can remove the floor, which
//!   matters if the increase is less.
//! * Eq. 11 requires four segments to arrive for a fast recovery, although three cause three duplicate
//!   acknowledgements: [`ModelOptions::survivors`].
//! * Eq. 6 may double beyond the threshold (64 to 128 with a threshold of 80). So does this model, unless
//!   [`ModelOptions::clip_at_ssthresh`] is set.
//! * Eq. 6 adds a whole segment per round in congestion avoidance, although the modelled controls are
//!   coupled; [`ModelOptions::increase`] sets the share that a coupled control grants, and
//!   [`ModelOptions::coupled_increase`] computes it for each path.
//! * A part of a round counts in proportion: `C(2.5) = C(2) + 0.5 (C(3) - C(2))`.
//!   [`ModelOptions::whole_rounds_only`] counts `C(2)`.

mod buckets;
mod expand;
mod rules;
mod table;
mod walk;

pub use expand::{Round, Rounds, State};
pub(crate) use walk::Walk;

use rules::Rules;

/// The maximum window of the model, segments: some terabytes per round trip.
pub const MAX_WINDOW: u32 = 1 << 30;

/// The number of rounds after which [`TransferModel::delivered`] extrapolates at the rate of the last one.
pub const MAX_ROUNDS: u32 = 4096;

/// The state of a subflow before the first round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathState {
    /// Congestion window, segments. 0 counts as 1.
    pub cwnd: u32,
    /// Slow start threshold, segments; `None` is infinite.
    pub ssthresh: Option<u32>,
    /// Probability that a segment is lost. Values below 0 and NaN count as 0, above 1 as 1.
    pub loss: f64,
}

/// The window after a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeoutWindow {
    /// One segment, as in RFC 5681 and the paper's figure 7.
    #[default]
    One,
    /// The window of the start state, as printed in the paper's equation 9.
    Initial,
}

/// The number of segments of a window with losses that must arrive for a fast recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Survivors {
    /// Three, for three duplicate acknowledgements (RFC 5681).
    Three,
    /// Four, as printed in the paper's equations 8 and 11.
    #[default]
    Four,
}

/// The event by which the faster paths must have covered the remaining data for a slower one to stay idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Criterion {
    /// They send it in the round trips that fit in one of the slower path, as in algorithm 1.
    #[default]
    RoundTrip,
    /// They deliver it before the slower path can: a segment that it sends now arrives half a round trip later. This
    /// criterion is not in the paper. A round's segments arrive half a round trip after they are sent, and the round
    /// after a window in flight is sent half a round trip later than a window that is free now.
    Delivery,
}

/// The choices that the paper leaves open. The default is the interpretation described at [the top](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelOptions {
    /// True if slow start stops at the threshold (default: it may overshoot).
    pub clip_at_ssthresh: bool,
    /// The window after a timeout (default: 1).
    pub timeout_window: TimeoutWindow,
    /// True if a part of a round delivers nothing (default: its share).
    pub whole_rounds_only: bool,
    /// Segments that a round of congestion avoidance adds to the window, 0 to 1 (default 1).
    ///
    /// A coupled control grants a share. Windows stay whole: of the rounds counted from the start, that share
    /// (evenly distributed) adds 1. Values outside the range are clamped to it; NaN counts as 1.
    pub increase: f64,
    /// True if a selection uses only the share of [`ModelOptions::increase`] that LIA grants each path with
    /// the others (default: all of it). The model of one path does not know the others.
    pub coupled_increase: bool,
    /// The criterion of a selection (default: as in algorithm 1). The model itself does not use it.
    pub criterion: Criterion,
    /// True if the threshold after a loss is at least 2 (default); otherwise it is `cw / 2` whatever that is.
    pub threshold_floor: bool,
    /// The number of segments that must arrive for a fast recovery (default: four).
    pub survivors: Survivors,
    /// The maximum window, segments, for a sender that is limited by the receive window or by its send buffer
    /// (default: no limit). 0 counts as 1.
    pub window_limit: Option<u32>,
}

impl ModelOptions {
    /// The variants that are used unless a scenario sets others.
    pub const DEFAULT: ModelOptions = ModelOptions {
        clip_at_ssthresh: false,
        timeout_window: TimeoutWindow::One,
        whole_rounds_only: false,
        increase: 1.0,
        coupled_increase: false,
        criterion: Criterion::RoundTrip,
        threshold_floor: true,
        survivors: Survivors::Four,
        window_limit: None,
    };
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions::DEFAULT
    }
}

/// The transfer model with its options; see the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TransferModel {
    /// The choices that the paper leaves open.
    pub options: ModelOptions,
}

impl TransferModel {
    /// Returns a model with `options`.
    pub const fn new(options: ModelOptions) -> TransferModel {
        TransferModel { options }
    }

    /// Returns the first `rounds` rounds from `start`, one by one, with all possible states of each. States
    /// of equal window and threshold are merged; none is neglected.
    ///
    /// ```
    /// use anabranch_stack::transfer_model::{PathState, TransferModel};
    ///
    /// let start = PathState { cwnd: 8, ssthresh: None, loss: 0.0 };
    /// let last = TransferModel::default().rounds(start, 4).last().unwrap();
    /// assert_eq!(last.delivered_segments, 120.0); // 8 + 16 + 32 + 64
    /// ```
    pub fn rounds(&self, start: PathState, rounds: u32) -> Rounds {
        Rounds::new(Rules::new(&self.options, &start), rounds)
    }

    /// Returns the segments delivered from `start` within `rounds` round trips (a ratio of RTTs, not
    /// necessarily whole; values below 0 and NaN count as 0).
    ///
    /// The result is accurate to 0.1 % as long as it is below `enough`. Otherwise the walk ends early: the
    /// result is then at least `enough`, and at most the number that would have been delivered. With a NaN
    /// the walk never ends early.
    pub fn delivered(&self, start: PathState, rounds: f64, enough: f64) -> f64 {
        Walk::new(self, &start).reach(rounds, enough)
    }
}
