//! BLEST: a slow subflow stays idle if its data would block the fast one.
//!
//! **Decides** which subflow carries the next data in order. When the fastest subflow is full, it estimates
//! how much that subflow could send while a segment on the next best one occupies the connection's window; if
//! the window cannot hold both, the data waits for the fastest. `lambda` scales the estimate and is adapted
//! to whether the window was blocked recently.
//!
//! **Source**: Ferlin and others (2016). The `kernel` profile is `mptcp_blest` of the out-of-tree kernel
//! v0.95, the `paper` profile the formula of the paper, known here from secondary sources: only congestion
//! avoidance, `X = MSS (cwnd + (r - 1) / 2) r` with `r = RTT_s / RTT_f`.
//!
//! **Constants** (kernel; paper): initial `lambda` 1.2 (1.0), between 1.0 and 1.3 (no limits), reduced by
//! 0.010 (0.005) after an interval without blocking and increased by 0.040 (0.005) after one with blocking,
//! where the interval is the minimum smoothed RTT of the slow subflow (the RTT of the fast one).
//!
//! **Departures from the source**
//! * The fastest subflow must be able to carry data: the scheduler does not wait for a backup while there are
//!   active subflows, nor for a failed subflow or one that repairs a timeout, although the kernel would.
//! * The window counts as blocked when there is new data and a subflow with free window, but no space in the
//!   connection's window. The kernel also counts a full send buffer with no unsent data in it.
//! * The paper's step is one of several that it evaluates.

use anabranch_units::{Duration, Time};

use super::pick::{self, Chunk};
use super::{AssignKind, Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The two published versions of BLEST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlestProfile {
    /// The version of the out-of-tree kernel.
    Kernel,
    /// The version of the paper.
    Paper,
}

/// The options of BLEST. `None` takes the value of the profile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BlestOptions {
    /// The version of formula and constants.
    pub profile: BlestProfile,
    /// The initial value of lambda.
    pub lambda: Option<f64>,
    /// The minimum of lambda.
    pub lambda_min: Option<f64>,
    /// The maximum of lambda.
    pub lambda_max: Option<f64>,
    /// The decrease of lambda after an interval without blocking.
    pub step_down: Option<f64>,
    /// The increase of lambda after an interval with blocking.
    pub step_up: Option<f64>,
    /// True if the kernel's formula models slow start.
    pub slow_start: bool,
}

impl BlestOptions {
    /// The kernel's values.
    pub const DEFAULT: BlestOptions = BlestOptions {
        profile: BlestProfile::Kernel,
        lambda: None,
        lambda_min: None,
        lambda_max: None,
        step_down: None,
        step_up: None,
        slow_start: true,
    };

    fn kernel(&self) -> bool {
        self.profile == BlestProfile::Kernel
    }
}

impl Options for BlestOptions {
    const PARAMETERS: &'static [Parameter<BlestOptions>] = &[
        parameter!(
            BlestOptions,
            "profile",
            "version of the formula and the constants",
            choice ["kernel" => BlestProfile::Kernel, "paper" => BlestProfile::Paper],
            profile
        ),
        parameter!(
            BlestOptions,
            "lambda",
            "initial factor on the estimated data of the fast subflow (kernel 1.2, paper 1)",
            open number 0.0, 100.0, "profile",
            lambda
        ),
        parameter!(
            BlestOptions,
            "lambda-min",
            "minimum of lambda (kernel 1, paper 0)",
            open number 0.0, 100.0, "profile",
            lambda_min
        ),
        parameter!(
            BlestOptions,
            "lambda-max",
            "maximum of lambda (kernel 1.3, paper 100)",
            open number 0.0, 100.0, "profile",
            lambda_max
        ),
        parameter!(
            BlestOptions,
            "step-down",
            "decrease of lambda after an interval without blocking (kernel 0.01, paper 0.005)",
            open number 0.0, 100.0, "profile",
            step_down
        ),
        parameter!(
            BlestOptions,
            "step-up",
            "increase of lambda after an interval with blocking (kernel 0.04, paper 0.005)",
            open number 0.0, 100.0, "profile",
            step_up
        ),
        parameter!(BlestOptions, "slow-start", "the kernel's formula models slow start", bool, slow_start),
    ];
}

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Blest {
    options: BlestOptions,
    lambda: f64,
    /// The time at which lambda last changed.
    changed: Time,
    /// True if the window was blocked since then.
    blocked: bool,
}

impl Blest {
    /// Returns a scheduler with the given options.
    pub fn new(options: BlestOptions) -> Blest {
        let lambda = options.lambda.unwrap_or(if options.kernel() { 1.2 } else { 1.0 });
        Blest { options, lambda, changed: Time::ZERO, blocked: false }
    }

    /// Returns the factor on the estimate of the fast subflow's data.
    pub fn lambda(&self) -> f64 {
        self.lambda
    }

    fn update_lambda(&mut self, now: Time, fast: &SubflowView, slow: &SubflowView) {
        let options = &self.options;
        let (pause, down, up, min, max) = if options.kernel() {
            (slow.srtt_min.unwrap_or(Duration::ZERO), 0.01, 0.04, 1.0, 1.3)
        } else {
            (fast.srtt.unwrap_or(Duration::ZERO), 0.005, 0.005, 0.0, 100.0)
        };
        if pause.is_zero() || now.since(self.changed) < pause {
            return;
        }
        self.lambda +=
            if self.blocked { options.step_up.unwrap_or(up) } else { -options.step_down.unwrap_or(down) };
        let min = options.lambda_min.unwrap_or(min);
        self.lambda = self.lambda.clamp(min, options.lambda_max.unwrap_or(max).max(min));
        self.blocked = false;
        self.changed = now;
    }

    /// Returns the estimated bytes, without lambda, that the fast subflow sends while a segment is on the
    /// slow one.
    fn fast_bytes(&self, fast: &SubflowView, slow: &SubflowView) -> f64 {
        let mss = fast.mss as f64;
        let cwnd = (fast.cwnd / fast.mss.max(1)) as f64;
        if !self.options.kernel() {
            let (Some(slow_rtt), Some(fast_rtt)) = (slow.srtt, fast.srtt) else { return f64::INFINITY };
            let rounds = slow_rtt.as_secs_f64() / fast_rtt.as_secs_f64().max(1e-9);
            return mss * (cwnd + (rounds - 1.0) / 2.0) * rounds;
        }
        // Ratios are computed from whole nanoseconds, so that exact ratios stay exact.
        let span = |subflow: &SubflowView| {
            let time = |time: Option<Duration>| time.unwrap_or(Duration::ZERO).0;
            (time(subflow.srtt_min), time(subflow.srtt_max))
        };
        let (least, most) = span(slow);
        let under_way = pick::segments(slow, pick::under_way(slow)) + 1;
        let slow_cwnd = (slow.cwnd / slow.mss.max(1)).max(1);
        let estimate = if under_way >= slow_cwnd {
            most
        } else {
            least + ((most - least) as f64 * under_way as f64 / slow_cwnd as f64) as u64
        };
        let linger = estimate.max(slow.srtt.unwrap_or(Duration::ZERO).0);
        let (least, most) = span(fast);
        let average = least / 2 + most / 2;
        let rounds = linger.checked_div(average).map_or(1, |rounds| rounds.min(1_000_000) as u32 + 1);
        let packets = match fast.ssthresh {
            None if self.options.slow_start => cwnd * f64::from((1_u32 << rounds.min(16)) - 1),
            ssthresh => {
                let beyond = ssthresh.map_or(0, |bytes| bytes / fast.mss.max(1) + 1) as f64;
                (cwnd.max(beyond) + f64::from((rounds - 1) / 2)) * f64::from(rounds)
            }
        };
        packets * mss
    }

    /// Returns the bytes of the window that the fast subflow would need, and those available to it.
    fn need(&self, view: &View<'_>, fast: &SubflowView, slow: &SubflowView, chunk: Chunk) -> (f64, f64) {
        let need = self.fast_bytes(fast, slow) * self.lambda;
        let taken = if self.options.kernel() {
            chunk.range.len().min(slow.mss) + slow.unacked + slow.queued
        } else {
            slow.mss * (pick::segments(slow, pick::under_way(slow)) + 1)
        };
        (need, view.peer_window.saturating_sub(taken) as f64)
    }
}

impl Scheduler for Blest {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let (chunk, lowest) = match pick::next_on_lowest(view) {
            Ok(found) => found,
            Err(decision) => {
                let Decision::Wait { why: Why { rule: Rule::WindowFull, .. }, .. } = decision else {
                    return decision;
                };
                self.blocked |= view.subflows.len() > 1
                    && !view.outstanding.is_empty()
                    && pick::candidates(view).any(|subflow| !pick::is_full(subflow));
                return decision;
            }
        };
        let slow = lowest.subflow;
        let Some(fast) = pick::fastest(view).filter(|fast| fast.id != slow.id && fast.srtt.is_some()) else {
            return lowest.assign(AssignKind::New, Rule::LowestRtt);
        };
        self.update_lambda(view.now, fast, slow);
        let (need, there) = self.need(view, fast, slow, chunk);
        if need > there {
            return Decision::Wait { until: None, why: Why::scored(Rule::WouldBlock, need, there) };
        }
        // Each segment on the slow subflow leaves less of the window to the next decision.
        match chunk.fit(slow, slow.mss) {
            Some(range) => pick::assign_new(slow, range, lowest.why(Rule::LowestRtt)),
            None => pick::wait(Rule::NoRoom),
        }
    }
}
