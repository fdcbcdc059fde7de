//! STMS: the slow subflow sends later data first, so that it arrives when its turn comes.
//!
//! **Decides** which data a subflow carries. The fastest takes the next in order; a slower one takes
//! what is a *gap* further on, so much as the faster ones send in the meantime. Data arrives in order,
//! and no buffer is needed for what comes early.
//!
//! **Source**: Hang Shi and others, *STMS* (2018): algorithm 1, equation 2, and for the gap the current
//! estimate (STMS-C) or algorithm 2 (STMS-A), which learns from jumps of the data acknowledgement.
//!
//! **Constants**: STMS-C has none. STMS-A, of which the paper gives no values: gain 1/4, interval the greater
//! of the slow round trip and twice the fast one, and the first gap that of STMS-C.
//!
//! **Read differently**
//! * The bandwidth of the fast subflow is its window over its RTT, as in the paper's formula; the measured
//!   delivery rate can take its place.
//! * With more than two subflows each has a gap to all that are faster: the sum of what these deliver.
//! * A slow subflow gives whole segments of its own; a piece before a hole that is less is left to the
//!   fast one.
//! * Data of a failed subflow goes where minRTT sends it.

use anabranch_units::{Duration, Time};

use super::pick::{self, Chunk, Tracked};
use super::{Decision, EventKinds, Rule, Scheduler, SchedulerEvent, SubflowView, View, Why};
use crate::event::SubflowSet;
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// How the bandwidth of a subflow is estimated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bandwidth {
    /// The window over the RTT.
    Window,
    /// The measured delivery rate; the window over the RTT before there is a sample.
    Delivery,
}

/// The options of STMS-C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StmsCOptions {
    /// How the bandwidth of a subflow is estimated.
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
        "how the bandwidth of a subflow is estimated",
        choice ["window" => Bandwidth::Window, "delivery" => Bandwidth::Delivery],
        bandwidth
    )];
}

/// The options of STMS-A.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StmsAOptions {
    /// How the bandwidth of a subflow is estimated for the first gap.
    pub bandwidth: Bandwidth,
    /// The weight of a new jump in the moving average.
    pub gain: f64,
    /// How often the gap is adjusted; open: the greater of the slow round trip and twice the fast.
    pub interval: Option<Duration>,
    /// The first gap in segments; open: that of STMS-C.
    pub gap: Option<u32>,
}

impl StmsAOptions {
    /// Gain 1/4, the rest from round trips.
    pub const DEFAULT: StmsAOptions =
        StmsAOptions { bandwidth: Bandwidth::Window, gain: 0.25, interval: None, gap: None };
}

impl Options for StmsAOptions {
    const PARAMETERS: &'static [Parameter<StmsAOptions>] = &[
        parameter!(
            StmsAOptions,
            "bandwidth",
            "how the bandwidth is estimated for the first gap",
            choice ["window" => Bandwidth::Window, "delivery" => Bandwidth::Delivery],
            bandwidth
        ),
        parameter!(StmsAOptions, "gain", "weight of a new jump in the moving average", number 0.0, 1.0, gain),
        parameter!(
            StmsAOptions,
            "interval",
            "how often the gap is adjusted",
            open time Duration::ZERO, Duration::from_secs(3600), "rtt",
            interval
        ),
        parameter!(StmsAOptions, "gap", "first gap, segments", open integer 0, 1 << 24, "stms_c", gap),
    ];
}

/// Bytes a second.
fn bandwidth(how: Bandwidth, subflow: &SubflowView) -> f64 {
    if how == Bandwidth::Delivery && subflow.delivery_rate.0 > 0 {
        return subflow.delivery_rate.0 as f64 / 8.0;
    }
    subflow.srtt.map_or(0.0, |srtt| subflow.cwnd as f64 / srtt.as_secs_f64().max(1e-9))
}

/// Equation 2 with symmetric delays, in bytes: what all that are faster than `slow` deliver in half of the
/// difference of the round trips.
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

/// Algorithm 1, where `gap` says how many segments a slow subflow is ahead.
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
        // More than the gap must be unsent, and inside the window.
        let Some(ahead) = Chunk::ahead(view, segments * subflow.mss, subflow.mss) else { continue };
        if let Some(range) = ahead.fit(subflow, subflow.mss) {
            return pick::assign_new(subflow, range, reason);
        }
    }
    Decision::Wait { until: None, why: reason }
}

/// STMS with the gap of the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StmsC(StmsCOptions);

impl StmsC {
    /// With these options.
    pub fn new(options: StmsCOptions) -> StmsC {
        StmsC(options)
    }

    /// The gap of `slow` in segments.
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

/// What STMS-A knows of one slow subflow.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Learned {
    /// The gap in segments; none before the first estimate.
    gap: Option<u32>,
    /// The moving average of the jumps since the last adjustment.
    average: f64,
    /// When it is adjusted next.
    due: Time,
}

/// STMS with a gap that learns from the jumps of the data acknowledgement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StmsA {
    options: StmsAOptions,
    learned: Tracked<Learned>,
}

impl StmsA {
    /// With these options.
    pub fn new(options: StmsAOptions) -> StmsA {
        StmsA { options, learned: Tracked::default() }
    }

    /// The gap of `slow` in segments; none before it was first needed.
    pub fn gap(&self, slow: &SubflowView) -> Option<u32> {
        self.learned.get(slow).gap
    }

    /// Algorithm 2: the data acknowledgement has advanced by `segments`, and what held it was carried by
    /// `carried_by`.
    fn on_jump(&mut self, view: &View<'_>, segments: f64, carried_by: SubflowSet) {
        let Some(fastest) = pick::fastest(view) else { return };
        for slow in view.subflows.iter().filter(|subflow| subflow.id != fastest.id) {
            let mut learned = self.learned.get(slow);
            let Some(now) = learned.gap else { continue };
            if segments > 2.0 {
                // Late slow data wants a larger gap, late fast data a smaller one.
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
