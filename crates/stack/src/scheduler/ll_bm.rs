//! LL/BM: minRTT with bufferbloat mitigation.
//!
//! **Decides** like [`MinRtt`](super::MinRtt), but a subflow counts as full at `lambda srtt_min / srtt` of
//! its congestion window: when its RTT exceeds `lambda` times the minimum, it gets less data. The congestion
//! window itself is not changed; as the subflow does not fill it, it does not grow either.
//!
//! **Source**: Paasch (2014), in the form used by Ferlin and others (2014), known here from secondary
//! sources. `srtt_min` is the minimum *smoothed* RTT of the subflow.
//!
//! **Constants**: `lambda` 3. **Departures from the source**: no window is capped to less than 2 segments. A
//! single subflow is capped too, and is then used in every state of its recovery, as if no scheduler were
//! asked.

use anabranch_units::Duration;

use super::pick;
use super::{Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The bufferbloat that LL/BM permits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LlBmOptions {
    /// The ratio of the RTT to its minimum above which the window is capped.
    pub lambda: f64,
}

impl LlBmOptions {
    /// Three times the minimum RTT.
    pub const DEFAULT: LlBmOptions = LlBmOptions { lambda: 3.0 };
}

impl Options for LlBmOptions {
    const PARAMETERS: &'static [Parameter<LlBmOptions>] = &[parameter!(
        LlBmOptions,
        "lambda",
        "ratio of the RTT to its minimum above which the window is capped",
        number 1.0, 1000.0,
        lambda
    )];
}

/// minRTT that gives less data to a subflow with a long queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LlBm(LlBmOptions);

impl LlBm {
    /// Returns a scheduler with the given options.
    pub fn new(options: LlBmOptions) -> LlBm {
        LlBm(options)
    }

    /// Returns the usable part of a subflow's window, in bytes.
    fn cap(&self, subflow: &SubflowView) -> u64 {
        let (Some(srtt), Some(least)) = (subflow.srtt, subflow.srtt_min) else { return subflow.cwnd };
        let share = self.0.lambda * least.as_secs_f64() / srtt.as_secs_f64().max(1e-9);
        if share >= 1.0 {
            return subflow.cwnd;
        }
        let mss = subflow.mss.max(1);
        let segments = (subflow.cwnd as f64 * share / mss as f64) as u64;
        (segments.max(2) * mss).min(subflow.cwnd)
    }
}

impl Scheduler for LlBm {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let chunk = match pick::next_new(view) {
            Ok(chunk) => chunk,
            Err(decision) => return decision,
        };
        let alone = view.subflows.len() == 1;
        let backups = pick::backups_only(view);
        let may = |subflow: &&SubflowView| {
            subflow.may_carry() && subflow.backup == backups || alone && subflow.usable
        };
        let fit = |subflow: &SubflowView| chunk.fit_into(subflow, self.cap(subflow), u64::MAX);
        let with_room = view.subflows.iter().filter(may).filter(|subflow| fit(subflow).is_some());
        let least = pick::least(with_room.map(|subflow| (subflow, pick::rtt_or_infinite(subflow))));
        let Some((subflow, rtt, other)) = least else { return pick::wait(pick::why_none(view)) };
        let Some(range) = fit(subflow) else { return pick::wait(Rule::NoRoom) };
        let other = other.map_or(f64::NAN, Duration::as_secs_f64);
        pick::assign_new(subflow, range, Why::scored(Rule::LowestRtt, rtt.as_secs_f64(), other))
    }

    fn decides_alone(&self) -> bool {
        true
    }
}
