//! STMS: the slow subflow sends later data first, so that it arrives in order.
//!
//! **Decides** which data a subflow carries. The fastest carries the next in order; a slower one carries data
//! that is a *gap* further on, the amount that the faster ones send in the meantime. Data arrives in order,
//! and no buffer is needed for data that arrives early.
//!
//! **Source**: Hang Shi and others, *STMS* (2018): algorithm 1, equation 2, and for the gap the current
//! estimate (STMS-C) or algorithm 2 (STMS-A), which learns from jumps of the data acknowledgement.
//!
//! **Constants**: STMS-C has none. STMS-A, for which the paper gives no values: gain 1/4, interval the
//! greater of the slow round trip and twice the fast one, and the initial gap as in STMS-C.
//!
//! **Departures from the source**
//! * The bandwidth of the fast subflow is its window over its RTT, as in the paper's formula; the measured
//!   delivery rate can replace it.
//! * With more than two subflows each has a gap to all faster ones: the sum of the data that these deliver.
//! * A slow subflow carries only whole segments (of its MSS); a shorter piece before a hole is left to the
//!   fast one.
//! * Data of a failed subflow is reinjected as by minRTT.

use anabranch_units::{Duration, Time};

use super::pick::{self, Chunk, Tracked};
use super::{Decision, EventKinds, Rule, Scheduler, SchedulerEvent, SubflowView, View, Why};
use crate::event::SubflowSet;
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The estimate of a subflow's bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bandwidth {
    /// The window divided by the RTT.
    Window,
    /// The measured delivery rate; before the first sample, the window divided by the RTT.
    Delivery,
}

/// The bandwidth by which STMS-C predicts arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StmsCOptions {
    /// The estimate of a subflow's bandwidth.
    pub bandwidth: Bandwidth,
}

impl StmsCOptions {
    /// The paper's formula.
    pub const DEFAULT: StmsCOptions = StmsCOptions { bandwidth: Bandwidth::Window };
}

impl Options for StmsCOptions {
    const PARAMETERS: &'static [Parameter<StmsCOptions>] = &[parameter!(
        StmsCOptions,
        "bandwidth",
        "estimate of a subflow's bandwidth",
        choice ["window" => Bandwidth::Window, "delivery" => Bandwidth::Delivery],
        bandwidth
    )];
}

/// The bandwidth and the smoothing by which STMS-A adapts the gap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StmsAOptions {
    /// The estimate of a subflow's bandwidth for the initial gap.
    pub bandwidth: Bandwidth,
    /// The weight of a new jump in the moving average.
    pub gain: f64,
    /// The interval between adjustments of the gap; `None`: the greater of the slow round trip and twice the
    /// fast.
    pub interval: Option<Duration>,
    /// The initial gap in segments; `None`: the gap of STMS-C.
    pub gap: Option<u32>,
}

impl StmsAOptions {
    /// Gain 1/4, the rest derived from round trips.
    pub const DEFAULT: StmsAOptions =
        StmsAOptions { bandwidth: Bandwidth::Window, gain: 0.25, interval: None, gap: None };
}

impl Options for StmsAOptions {
    const PARAMETERS: &'static [Parameter<StmsAOptions>] = &[
        parameter!(
            StmsAOptions,
            "bandwidth",
            "estimate of the bandwidth for the initial gap",
            choice ["window" => Bandwidth::Window, "delivery" => Bandwidth::Delivery],
            bandwidth
        ),
        parameter!(StmsAOptions, "gain", "weight of a new jump in the moving average", number 0.0, 1.0, gain),
        parameter!(
            StmsAOptions,
            "interval",
            "interval between adjustments of the gap",
            open time Duration::ZERO, Duration::from_secs(3600), "rtt",
            interval
        ),
        parameter!(StmsAOptions, "gap", "initial gap, in segments", open integer 0, 1 << 24, "stms_c", gap),
    ];
}

/// Returns the bandwidth in bytes per second.
fn bandwidth(how: Bandwidth, subflow: &SubflowView) -> f64 {
    if how == Bandwidth::Delivery && subflow.delivery_rate.0 > 0 {
        return subflow.delivery_rate.0 as f64 / 8.0;
    }
    subflow.srtt.map_or(0.0, |srtt| subflow.cwnd as f64 / srtt.as_secs_f64().max(1e-9))
}

/// Returns the gap by equation 2 with symmetric delays, in bytes: the data that all subflows faster than
/// `slow` deliver in half of the difference of the round trips.
fn gap(how: Bandwidth, view: &View<'_>, slow: &SubflowView) -> f64 {
    let Some(slow_rtt) = slow.srtt else { return 0.0 };
    let faster = pick::candidates(view).filter(|subflow| pick::rank(subflow) < pick::rank(slow));
    faster
        .map(|fast| {
            let difference = fast.srtt.map_or(0.0, |rtt| slow_rtt.as_secs_f64() - rtt.as_secs_f64());
            bandwidth(how, fast) * difference / 2.0
        })
        .sum()
}

/// Runs algorithm 1; `gap` returns the gap of a slow subflow in segments.
fn decide(view: &View<'_>, mut gap: impl FnMut(&SubflowView) -> u64) -> Decision {
    let chunk = match pick::next_new(view) {
        Ok(chunk) => chunk,
        Err(decision) => return decision,
    };
    let Some(fastest) = pick::fastest(view) else { return pick::wait(pick::why_none(view)) };
    if let Some(range) = chunk.fit(fastest, u64::MAX) {
        return pick::assign_new(fastest, range, Why::rule(Rule::LowestRtt));
    }
    let mut reason = Why::rule(pick::why_none(view));
    if reason.rule == Rule::WindowFull {
        return Decision::Wait { until: None, why: reason };
    }
    for subflow in pick::by_rtt(view).skip(1) {
        if pick::is_full(subflow) {
            continue;
        }
        let segments = gap(subflow);
        reason = Why::scored(Rule::Gap, segments as f64, f64::NAN);
        // The gap and at least one more byte must be unsent and inside the window.
        let Some(ahead) = Chunk::ahead(view, segments * subflow.mss, subflow.mss) else { continue };
        if let Some(range) = ahead.fit(subflow, subflow.mss) {
            return pick::assign_new(subflow, range, reason);
        }
    }
    Decision::Wait { until: None, why: reason }
}

/// STMS with a gap computed from current estimates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StmsC(StmsCOptions);

impl StmsC {
    /// Returns a scheduler with the given options.
    pub fn new(options: StmsCOptions) -> StmsC {
        StmsC(options)
    }

    /// Returns the gap of `slow` in segments.
    pub fn gap(&self, view: &View<'_>, slow: &SubflowView) -> u64 {
        (gap(self.0.bandwidth, view, slow) / slow.mss.max(1) as f64) as u64
    }
}

impl Scheduler for StmsC {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let this = *self;
        decide(view, |slow| this.gap(view, slow))
    }
}

/// The state that STMS-A learns for one slow subflow.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Learned {
    /// The gap in segments; `None` before the first estimate.
    gap: Option<u32>,
    /// The moving average of the jumps since the last adjustment.
    average: f64,
    /// The time of the next adjustment.
    due: Time,
}

/// STMS with a gap learned from the jumps of the data acknowledgement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StmsA {
    options: StmsAOptions,
    learned: Tracked<Learned>,
}

impl StmsA {
    /// Returns a scheduler with the given options.
    pub fn new(options: StmsAOptions) -> StmsA {
        StmsA { options, learned: Tracked::default() }
    }

    /// Returns the gap of `slow` in segments; `None` before it was first needed.
    pub fn gap(&self, slow: &SubflowView) -> Option<u32> {
        self.learned.get(slow).gap
    }

    /// Runs algorithm 2 when the data acknowledgement has advanced by `segments`; `carried_by` carried the
    /// data that had delayed it.
    fn on_jump(&mut self, view: &View<'_>, segments: f64, carried_by: SubflowSet) {
        let Some(fastest) = pick::fastest(view) else { return };
        for slow in view.subflows.iter().filter(|subflow| subflow.id != fastest.id) {
            let mut learned = self.learned.get(slow);
            let Some(now) = learned.gap else { continue };
            if segments > 2.0 {
                // Late data on the slow subflow increases the gap, late data on the fast one decreases it.
                let jump = match carried_by.has(fastest.id) {
                    true => -segments,
                    false if carried_by.has(slow.id) => segments,
                    false => 0.0,
                };
                learned.average += self.options.gain * (jump - learned.average);
            }
            if view.now >= learned.due {
                learned.gap = Some((f64::from(now) + libm::round(learned.average)).max(0.0) as u32);
                learned.average = 0.0;
                learned.due = view.now + self.interval(fastest, slow);
            }
            self.learned.set(slow, learned);
        }
    }

    fn interval(&self, fast: &SubflowView, slow: &SubflowView) -> Duration {
        let rtt = |subflow: &SubflowView| subflow.srtt.unwrap_or(Duration::ZERO);
        self.options.interval.unwrap_or_else(|| rtt(slow).max(rtt(fast) * 2))
    }
}

impl Scheduler for StmsA {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let (options, learned) = (self.options, &mut self.learned);
        decide(view, |slow| {
            let mut known = learned.get(slow);
            if known.gap.is_none() {
                let mss = slow.mss.max(1) as f64;
                let estimate = || (gap(options.bandwidth, view, slow) / mss).min(f64::from(1 << 24)) as u32;
                known.gap = Some(options.gap.unwrap_or_else(estimate));
                known.due = view.now + options.interval.or(slow.srtt).unwrap_or(Duration::ZERO);
                learned.set(slow, known);
            }
            known.gap.map_or(0, u64::from)
        })
    }

    fn on_event(&mut self, view: &View<'_>, event: &SchedulerEvent) {
        if let SchedulerEvent::DataAcked { from, to, carried_by } = *event {
            let mss = view.subflows.iter().map(|subflow| subflow.mss).max().unwrap_or(1).max(1);
            self.on_jump(view, (to - from).div_ceil(mss) as f64, carried_by);
        }
    }

    fn wants_events(&self) -> EventKinds {
        EventKinds::DATA_ACKED
    }
}
