//! Schedulers that avoid slow subflows by their RTT: a threshold, and freezing.
//!
//! **Decide** which subflow carries the next data in order: the first subflow with an RTT below a threshold
//! ([`DelayThreshold`]), or the one with the lowest RTT that is not frozen ([`Freeze`]). A subflow is frozen
//! while its RTT exceeds the RTT of the fastest subflow by more than a gap.
//!
//! **Source**: the threshold is from draft-bonaventure-iccrg-schedulers; freezing is the idea of Hwang and
//! Yoo (2015), for which no formula was available.
//!
//! **Constants**: a threshold of 100 ms; a gap of 50 ms.
//!
//! **Departures from the source**
//! * If no subflow that may carry data is below the threshold, the one with the lowest RTT is used.
//! * The source does not define "when the delay difference is significant", nor the flows concerned. A time,
//!   a ratio, and the maximum of remaining data for which subflows are frozen are therefore options.

use anabranch_units::Duration;

use super::pick;
use super::{AssignKind, Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::parameter;
use crate::parameter::{Options, Parameter};

const MINUTE: Duration = Duration::from_secs(60);

/// The RTT from which a subflow is not used, 100 ms by default.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DelayThresholdOptions {
    /// The exclusive upper limit of the RTT.
    pub threshold: Duration,
}

impl DelayThresholdOptions {
    /// A threshold of 100 ms.
    pub const DEFAULT: DelayThresholdOptions =
        DelayThresholdOptions { threshold: Duration::from_millis(100) };
}

impl Options for DelayThresholdOptions {
    const PARAMETERS: &'static [Parameter<DelayThresholdOptions>] = &[parameter!(
        DelayThresholdOptions,
        "threshold",
        "exclusive upper limit of the RTT",
        time Duration::ZERO, MINUTE,
        threshold
    )];
}

/// The first subflow with an RTT below a threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DelayThreshold(DelayThresholdOptions);

impl DelayThreshold {
    /// Returns a scheduler with the given options.
    pub fn new(options: DelayThresholdOptions) -> DelayThreshold {
        DelayThreshold(options)
    }
}

impl Scheduler for DelayThreshold {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let chunk = match pick::next_new(view) {
            Ok(chunk) => chunk,
            Err(decision) => return decision,
        };
        let threshold = self.0.threshold;
        let is_quick = |subflow: &&SubflowView| pick::rtt_or_infinite(subflow) < threshold;
        let first = pick::candidates(view).filter(is_quick).find(|subflow| chunk.fits(subflow));
        let subflow = match first {
            Some(subflow) => subflow,
            None if pick::candidates(view).any(|subflow| is_quick(&subflow)) => {
                return pick::wait(pick::why_none(view));
            }
            None => match pick::fastest(view) {
                Some(fastest) => fastest,
                None => return pick::wait(pick::why_none(view)),
            },
        };
        let why = Why::scored(
            Rule::LowestRtt,
            pick::rtt_or_infinite(subflow).as_secs_f64(),
            threshold.as_secs_f64(),
        );
        match chunk.fit(subflow, u64::MAX) {
            Some(range) => pick::assign_new(subflow, range, why),
            None => pick::wait(pick::why_none(view)),
        }
    }
}

/// The options of freezing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FreezeOptions {
    /// The gap: a subflow is frozen if its RTT exceeds the fastest subflow's RTT by more. `None`: no such
    /// rule.
    pub gap: Option<Duration>,
    /// The ratio: a subflow is frozen too if its RTT exceeds this multiple of the fastest subflow's RTT.
    /// `None`: no such rule.
    pub ratio: Option<f64>,
    /// The maximum of remaining bytes for which subflows are frozen.
    pub remaining: Option<u64>,
}

impl FreezeOptions {
    /// A gap of 50 ms for any amount of remaining data.
    pub const DEFAULT: FreezeOptions =
        FreezeOptions { gap: Some(Duration::from_millis(50)), ratio: None, remaining: None };

    fn freezes(&self, fastest: Duration, subflow: &SubflowView) -> bool {
        let Some(rtt) = subflow.srtt else { return false };
        let (fastest, rtt) = (fastest.as_secs_f64(), rtt.as_secs_f64());
        self.gap.is_some_and(|gap| rtt - fastest > gap.as_secs_f64())
            || self.ratio.is_some_and(|ratio| rtt > ratio * fastest)
    }
}

impl Options for FreezeOptions {
    const PARAMETERS: &'static [Parameter<FreezeOptions>] = &[
        parameter!(
            FreezeOptions,
            "gap",
            "excess over the fastest's RTT above which a subflow is frozen",
            open time Duration::ZERO, MINUTE, "none",
            gap
        ),
        parameter!(
            FreezeOptions,
            "ratio",
            "ratio to the fastest's RTT above which a subflow is frozen",
            open number 1.0, 1e6, "none",
            ratio
        ),
        parameter!(
            FreezeOptions,
            "remaining",
            "maximum of remaining bytes for which subflows are frozen",
            open integer 0, u64::MAX >> 1, "none",
            remaining
        ),
    ];
}

/// The lowest RTT among the subflows that are not frozen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Freeze(FreezeOptions);

impl Freeze {
    /// Returns a scheduler with the given options.
    pub fn new(options: FreezeOptions) -> Freeze {
        Freeze(options)
    }
}

impl Scheduler for Freeze {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let lowest = match pick::next_on_lowest(view) {
            Ok((_, lowest)) => lowest,
            Err(decision) => return decision,
        };
        let fastest = pick::fastest(view).and_then(|fastest| fastest.srtt);
        if let Some(fastest) = fastest
            && self.0.remaining.is_none_or(|most| view.remaining <= most)
            && self.0.freezes(fastest, lowest.subflow)
        {
            // The other subflows with free window are slower still.
            let rtt = pick::rtt_or_infinite(lowest.subflow).as_secs_f64();
            let why = Why::scored(Rule::Frozen, rtt, fastest.as_secs_f64());
            return Decision::Wait { until: None, why };
        }
        lowest.assign(AssignKind::New, Rule::LowestRtt)
    }
}
