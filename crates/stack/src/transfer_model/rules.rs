//! One round of the model: the possible outcomes for a window, and their probabilities.

use super::{MAX_WINDOW, ModelOptions, PathState, Survivors, TimeoutWindow};

/// An infinite slow start threshold.
pub(super) const UNBOUNDED: u32 = u32::MAX;

/// The options and the start state, with every value clamped to its range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Window of the start state, at least 1.
    pub cwnd: u32,
    /// Threshold of the start state; [`UNBOUNDED`] is infinite.
    pub ssthresh: u32,
    /// Probability that a segment is lost.
    pub loss: f64,
    /// Probability that it is not lost.
    pub kept: f64,
    ln_loss: f64,
    ln_kept: f64,
    /// Window after a timeout.
    pub timeout_window: u32,
    /// Maximum window.
    pub limit: u32,
    /// True if slow start stops at the threshold.
    pub clip: bool,
    /// True if a part of a round delivers nothing.
    pub whole_rounds_only: bool,
    /// Number of segments that must arrive for a fast recovery, 3 or 4. Up to this window every loss is a
    /// timeout, as fewer segments arrive.
    pub survivors: u32,
    /// Minimum threshold after a loss.
    least_ssthresh: u32,
    increase: f64,
}

/// Probabilities of the three outcomes of a round; their sum is 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Nothing lost. // DMPTCP eq. 5
    pub none: f64,
    /// Loss reported by duplicate ACKs. // DMPTCP eq. 11
    pub fast: f64,
    /// Loss detected only by the timer. // DMPTCP eq. 8
    pub timeout: f64,
}

impl Rules {
    pub(super) fn new(options: &ModelOptions, start: &PathState) -> Rules {
        let loss = fraction(start.loss, 0.0);
        let limit = options.window_limit.unwrap_or(MAX_WINDOW).clamp(1, MAX_WINDOW);
        let cwnd = start.cwnd.clamp(1, limit);
        Rules {
            cwnd,
            ssthresh: start.ssthresh.unwrap_or(UNBOUNDED),
            loss,
            kept: 1.0 - loss,
            ln_loss: libm::log(loss),
            ln_kept: libm::log1p(-loss),
            timeout_window: match options.timeout_window {
                TimeoutWindow::One => 1,
                TimeoutWindow::Initial => cwnd,
            },
            limit,
            clip: options.clip_at_ssthresh,
            whole_rounds_only: options.whole_rounds_only,
            survivors: match options.survivors {
                Survivors::Three => 3,
                Survivors::Four => 4,
            },
            least_ssthresh: if options.threshold_floor { 2 } else { 0 },
            increase: fraction(options.increase, 1.0),
        }
    }

    /// Returns the segments that a lossless round adds in congestion avoidance, after `round` rounds.
    pub(super) fn increase_after(&self, round: u32) -> u32 {
        let steps = |rounds: u32| (f64::from(rounds) * self.increase) as u32;
        steps(round.saturating_add(1)) - steps(round)
    }

    /// Returns the window after a lossless round in slow start. // DMPTCP eq. 6
    pub(super) fn doubled(&self, cwnd: u32, ssthresh: u32) -> u32 {
        let double = (2 * cwnd).min(self.limit);
        if self.clip { double.min(ssthresh) } else { double }
    }

    /// Returns the window after a lossless round. // DMPTCP eq. 6
    pub(super) fn grown(&self, cwnd: u32, ssthresh: u32, round: u32) -> u32 {
        if cwnd < ssthresh {
            self.doubled(cwnd, ssthresh)
        } else {
            (cwnd + self.increase_after(round)).min(self.limit)
        }
    }

    /// Returns the outcomes of a round with this window. A large `cwnd` may be a mean of several.
    pub(super) fn outcome(&self, cwnd: f64) -> Outcome {
        let exponent = cwnd * self.ln_kept;
        let none = libm::exp(exponent);
        // Not `1 - none`, which would lose most digits if loss is rare.
        let lossy = -libm::expm1(exponent);
        if cwnd <= f64::from(self.survivors) {
            return Outcome { none, fast: 0.0, timeout: lossy };
        }
        let timeout = few_kept(cwnd, libm::exp((cwnd - 3.0) * self.ln_loss), self).min(lossy);
        Outcome { none, fast: lossy - timeout, timeout }
    }

    /// Returns the threshold after a loss. // DMPTCP eq. 10, 13
    pub(super) fn ssthresh_after_loss(&self, cwnd: u32) -> u32 {
        (cwnd / 2).max(self.least_ssthresh)
    }
}

/// Returns `value` clamped to 0 to 1, or `unknown` if it is not a number.
fn fraction(value: f64, unknown: f64) -> f64 {
    if value.is_nan() { unknown } else { value.clamp(0.0, 1.0) }
}

/// Returns the probability, 0 to 1, that fewer of `cwnd` segments arrive than a fast recovery needs: the sum
/// of eq. 8 in closed form, where `power` is `loss^(cwnd - 3)`.
pub(super) fn few_kept(cwnd: f64, power: f64, rules: &Rules) -> f64 {
    let (p, q) = (rules.loss, rules.kept);
    let pairs = cwnd * (cwnd - 1.0) / 2.0;
    let triples = if rules.survivors > 3 { pairs * (cwnd - 2.0) / 3.0 } else { 0.0 };
    power * (p * p * p + cwnd * p * p * q + pairs * p * q * q + triples * q * q * q)
}
