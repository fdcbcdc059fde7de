//! Schedulers that leave slow subflows alone by their RTT: a threshold, and freezing.
//!
//! **Decide** for the next data in order which subflow carries it: the first in order whose RTT is
//! below a threshold ([`DelayThreshold`]), or the lowest RTT of those that are not frozen ([`Freeze`]): a
//! subflow is frozen while its RTT exceeds the fastest's by more than a gap.
//!
//! **Source**: the threshold is that of draft-bonaventure-iccrg-schedulers; freezing is the idea of
//! Hwang and Yoo (2015), for which no formula was to be had.
//!
//! **Constants**: a threshold of 100 ms; a gap of 50 ms.
//!
//! **Read differently**
//! * If no subflow that may carry data is below the threshold, the one with the lowest RTT is used.
//! * How large the gap is "when the delay difference is significant", and for what flows, is left open
//!   by the source: a time, a ratio, and the most that may remain for subflows to be frozen are options.

use anabranch_units::Duration;

use super::pick;
use super::{AssignKind, Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::parameter;
use crate::parameter::{Options, Parameter};

const MINUTE: Duration = Duration::from_secs(60);

/// The options of the delay threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DelayThresholdOptions {
    /// Subflows with a lower RTT are used.
    pub threshold: Duration,
}

impl DelayThresholdOptions {
    /// 100 ms.
    pub const DEFAULT: DelayThresholdOptions =
        DelayThresholdOptions { threshold: Duration::from_millis(100) };
}

impl Options for DelayThresholdOptions {
    const PARAMETERS: &'static [Parameter<DelayThresholdOptions>] = &[parameter!(
        DelayThresholdOptions,
        "threshold",
        "subflows with a lower RTT are used",
        time Duration::ZERO, MINUTE,
        threshold
    )];
}

/// The first subflow whose RTT is below a threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DelayThreshold(DelayThresholdOptions);

impl DelayThreshold {
    /// With these options.
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
    /// A subflow is frozen if its RTT exceeds the fastest's by more than this.
    pub gap: Option<Duration>,
    /// And if it exceeds the fastest's so many times.
    pub ratio: Option<f64>,
    /// Subflows are frozen only while at most so many bytes remain.
    pub remaining: Option<u64>,
}

impl FreezeOptions {
    /// A gap of 50 ms, whatever remains.
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
            "frozen if the RTT exceeds the fastest's by more",
            open time Duration::ZERO, MINUTE, "none",
            gap
        ),
        parameter!(
            FreezeOptions,
            "ratio",
            "frozen if the RTT is more than so many times the fastest's",
            open number 1.0, 1e6, "none",
            ratio
        ),
        parameter!(
            FreezeOptions,
            "remaining",
            "frozen only while at most so many bytes remain",
            open integer 0, u64::MAX >> 1, "none",
            remaining
        ),
    ];
}

/// The lowest RTT of those that are not frozen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Freeze(FreezeOptions);

impl Freeze {
    /// With these options.
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
            // The others with room are slower still.
            let rtt = pick::rtt_or_infinite(lowest.subflow).as_secs_f64();
            let why = Why::scored(Rule::Frozen, rtt, fastest.as_secs_f64());
            return Decision::Wait { until: None, why };
        }
        lowest.assign(AssignKind::New, Rule::LowestRtt)
    }
}
