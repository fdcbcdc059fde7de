//! ECF, earliest completion first: waits for the fast subflow if the remaining data then completes sooner.
//!
//! **Decides** which subflow carries the next data in order. When the fastest subflow is full, it compares
//! the time in which that would send all data in the send buffer, including one round trip of waiting, with
//! the round trip of the next best one; the slow one is not used if it would finish last. Hysteresis makes it
//! continue waiting once it waits.
//!
//! **Source**: Lim and others (2017). The `kernel` profile is `mptcp_ecf` of the out-of-tree kernel v0.95,
//! which assumes that at least one window remains; the `paper` profile does not.
//!
//! **Constants**: `beta` 0.25, the hysteresis.
//!
//! **Departures from the source**
//! * `delta`, a margin for the variation of RTTs, is the greater RTTVAR of RFC 6298; in the kernel it is half
//!   of a value that is scaled by 4, in the paper the standard deviation.
//! * The fastest subflow must be able to carry data, see [`Blest`](super::Blest).
//! * The kernel subtracts data queued on subflows and not sent from the remaining data; here the remaining
//!   data never includes it.

use super::pick;
use super::{AssignKind, Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The two published versions of ECF.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcfProfile {
    /// The version of the out-of-tree kernel.
    Kernel,
    /// The version of the paper.
    Paper,
}

/// The formula of ECF, which differs between the paper and the kernel, and its hysteresis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EcfOptions {
    /// The version of the formula.
    pub profile: EcfProfile,
    /// The hysteresis: once the scheduler waits, the slow subflow's round trip counts `1 + beta` times.
    pub beta: f64,
}

impl EcfOptions {
    /// The kernel's values.
    pub const DEFAULT: EcfOptions = EcfOptions { profile: EcfProfile::Kernel, beta: 0.25 };
}

impl Options for EcfOptions {
    const PARAMETERS: &'static [Parameter<EcfOptions>] = &[
        parameter!(
            EcfOptions,
            "profile",
            "version of the formula",
            choice ["kernel" => EcfProfile::Kernel, "paper" => EcfProfile::Paper],
            profile
        ),
        parameter!(EcfOptions, "beta", "hysteresis: the share by which waiting is prolonged", number 0.0, 100.0, beta),
    ];
}

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ecf {
    options: EcfOptions,
    waiting: bool,
}

impl Ecf {
    /// Returns a scheduler with the given options.
    pub fn new(options: EcfOptions) -> Ecf {
        Ecf { options, waiting: false }
    }

    /// True if the last comparison made the data wait for the fast subflow, so that the hysteresis applies.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Returns the two times in seconds that were compared first if `remaining` bytes complete sooner without
    /// the slow subflow.
    fn waits(&mut self, remaining: u64, fast: &SubflowView, slow: &SubflowView) -> Result<(f64, f64), ()> {
        let seconds = |subflow: &SubflowView| subflow.srtt.map_or(f64::INFINITY, |rtt| rtt.as_secs_f64());
        let (fast_rtt, slow_rtt) = (seconds(fast), seconds(slow));
        let delta = fast.rttvar.max(slow.rttvar).as_secs_f64();
        let window = |subflow: &SubflowView| subflow.cwnd.max(1) as f64;
        let kernel = self.options.profile == EcfProfile::Kernel;
        let windows = |subflow: &SubflowView| {
            let least = if kernel { window(subflow) } else { 0.0 };
            (remaining as f64).max(least) / window(subflow)
        };
        let beta = if self.waiting { self.options.beta } else { 0.0 };
        let slow_side = (1.0 + beta) * (slow_rtt + delta);
        let fast_side = (1.0 + windows(fast)) * fast_rtt;
        if fast_side >= slow_side {
            self.waiting = false;
            return Err(());
        }
        if slow_rtt * windows(slow) >= 2.0 * fast_rtt + delta {
            self.waiting = true;
            return Ok((fast_side, slow_rtt + delta));
        }
        Err(())
    }
}

impl Scheduler for Ecf {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let (chunk, lowest) = match pick::next_on_lowest(view) {
            Ok(found) => found,
            Err(decision) => return decision,
        };
        let slow = lowest.subflow;
        let Some(fast) = pick::fastest(view).filter(|fast| fast.id != slow.id && fast.srtt.is_some()) else {
            return lowest.assign(AssignKind::New, Rule::LowestRtt);
        };
        let remaining = view.unassigned.iter().map(|range| range.len()).sum();
        if let Ok((fast_side, slow_side)) = self.waits(remaining, fast, slow) {
            return Decision::Wait {
                until: None,
                why: Why::scored(Rule::FasterToWait, fast_side, slow_side),
            };
        }
        // Each segment on the slow subflow reduces the remaining data.
        match chunk.fit(slow, slow.mss) {
            Some(range) => pick::assign_new(slow, range, lowest.why(Rule::LowestRtt)),
            None => pick::wait(Rule::NoRoom),
        }
    }
}
