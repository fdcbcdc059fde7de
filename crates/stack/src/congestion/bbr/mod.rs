//! BBR version 3: keeps as much data in flight as the path carries, using a model of its bandwidth and
//! minimum RTT rather than only losses. Subflows are independent.
//!
//! **Decides** pacing rate and window of a subflow from the delivery rates, RTTs and losses of each
//! acknowledgement.
//!
//! **Source**: draft-ietf-ccwg-bbr in the version of July 2026 (-06); functions have the draft's names.
//!
//! **Constants**: [`BbrOptions`], and in the files below, with the draft's names.
//!
//! **Departures from the source**
//! * Losses detected by one acknowledgement are evaluated together, by the last segment among them; those
//!   detected by a timer, by the next acknowledgement.
//! * A cycle interrupted by ProbeRTT ends with the first unlimited round after it; in the draft it does not
//!   end, and the bandwidth is forgotten by cycles.
//! * The wait until the next probe is not random but a hash of the subflow and its delivered data, as the
//!   stack draws no random numbers. It is the same in two runs and differs between two flows.
//! * The data in flight when a segment was sent is not stored with it; it is computed from the data delivered
//!   and lost since.
//! * A subflow with nothing in flight counts as limited by the application.
//! * No offload: the quantum is the draft's, but segments are sent one by one.
//! * A penalty (opportunistic retransmission) halves the window, which then grows back as after a restart.
//! * No response to marks: the draft has none.

mod control;
mod flow;
mod loss;
mod model;
mod probe;
mod probe_rtt;
mod startup;
#[cfg(test)]
mod tests;

use anabranch_units::{Duration, Rate, Time};

use super::{Ack, CongestionControl, CongestionEvent, Growth, SubflowStart};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};
use flow::Flow;
pub use flow::State;

/// Constants of the draft that are configurable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BbrOptions {
    /// `LossThresh`: the maximum tolerated fraction of lost data in flight.
    pub loss_threshold: f64,
    /// `Beta`: the minimum fraction of the bounds that remains after a loss.
    pub beta: f64,
    /// `Headroom`: the fraction of the long-term bound left to other flows.
    pub headroom: f64,
    /// `ProbeRTTInterval`: the interval between two ProbeRTT.
    pub probe_rtt_interval: Duration,
    /// `ProbeRTTDuration`: the minimum duration of ProbeRTT.
    pub probe_rtt_duration: Duration,
    /// `MinRTTFilterLen`: the lifetime of the minimum RTT.
    pub min_rtt_window: Duration,
}

impl BbrOptions {
    /// The draft's values.
    pub const DEFAULT: BbrOptions = BbrOptions {
        loss_threshold: 0.02,
        beta: 0.7,
        headroom: 0.15,
        probe_rtt_interval: Duration::from_secs(5),
        probe_rtt_duration: Duration::from_millis(200),
        min_rtt_window: Duration::from_secs(10),
    };
}

const LEAST_PROBE: Duration = Duration::from_millis(100);
const LONGEST_PROBE: Duration = Duration::from_secs(3600);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

impl Options for BbrOptions {
    const PARAMETERS: &'static [Parameter<BbrOptions>] = &[
        parameter!(BbrOptions, "loss-threshold", "maximum tolerated loss rate in a round trip", number 0.0, 0.9, loss_threshold),
        parameter!(BbrOptions, "beta", "fraction of the bounds that remains after a loss", number 0.0, 1.0, beta),
        parameter!(BbrOptions, "headroom", "fraction of the long-term bound left to other flows", number 0.0, 0.9, headroom),
        parameter!(BbrOptions, "probe-rtt-interval", "interval between two ProbeRTT", time LEAST_PROBE, LONGEST_PROBE, probe_rtt_interval),
        parameter!(BbrOptions, "probe-rtt-duration", "minimum duration of ProbeRTT", time Duration::ZERO, LONGEST_INTERVAL, probe_rtt_duration),
        parameter!(BbrOptions, "min-rtt-window", "lifetime of the minimum RTT", time LEAST_PROBE, LONGEST_PROBE, min_rtt_window),
    ];
}

impl Default for BbrOptions {
    fn default() -> BbrOptions {
        BbrOptions::DEFAULT
    }
}

/// The congestion control of a connection with an independent BBR flow for each subflow.
#[derive(Clone, Debug, Default)]
pub struct Bbr {
    options: BbrOptions,
    flows: Vec<Option<Box<Flow>>>,
}

impl Bbr {
    /// Returns a congestion control without subflows.
    pub fn new() -> Bbr {
        Bbr::default()
    }

    /// Returns a congestion control with the given options.
    pub fn with_options(options: BbrOptions) -> Bbr {
        Bbr { options, ..Bbr::default() }
    }

    /// Returns the state of a subflow; `None` if there is no such subflow.
    pub fn state(&self, id: SubflowId) -> Option<State> {
        self.flow(id).map(Flow::state)
    }

    fn flow(&self, id: SubflowId) -> Option<&Flow> {
        self.flows.get(id.index()).and_then(|flow| flow.as_deref())
    }

    fn flow_mut(&mut self, id: SubflowId) -> Option<&mut Flow> {
        self.flows.get_mut(id.index()).and_then(|flow| flow.as_deref_mut())
    }
}

impl super::BuiltIn for Bbr {
    #[inline]
    fn always_paces(&self) -> bool {
        true
    }
}

impl CongestionControl for Bbr {
    fn on_subflow_up(&mut self, id: SubflowId, start: &SubflowStart) {
        if self.flows.len() <= id.index() {
            self.flows.resize(id.index() + 1, None);
        }
        self.flows[id.index()] = Some(Box::new(Flow::new(id, start, self.options)));
    }

    fn on_subflow_down(&mut self, id: SubflowId) {
        if let Some(flow) = self.flows.get_mut(id.index()) {
            *flow = None;
        }
    }

    fn on_sent(&mut self, id: SubflowId, now: Time, bytes: u64) {
        if let Some(flow) = self.flow_mut(id) {
            flow.on_transmit(now, bytes);
        }
    }

    fn on_ack(&mut self, id: SubflowId, ack: &Ack) {
        if let Some(flow) = self.flow_mut(id) {
            flow.update_on_ack(ack);
        }
    }

    fn on_congestion(&mut self, id: SubflowId, event: &CongestionEvent) {
        if let (Some(flow), false) = (self.flow_mut(id), event.ecn) {
            flow.on_enter_fast_recovery();
        }
    }

    fn on_recovered(&mut self, id: SubflowId, _now: Time) {
        if let Some(flow) = self.flow_mut(id) {
            flow.on_exit_recovery();
        }
    }

    fn on_rto(&mut self, id: SubflowId, _now: Time, _flight_bytes: u64, again: bool) {
        if let Some(flow) = self.flow_mut(id) {
            flow.on_enter_rto(again);
        }
    }

    fn on_undo(&mut self, id: SubflowId, _now: Time) {
        if let Some(flow) = self.flow_mut(id) {
            flow.handle_spurious_loss_detection();
        }
    }

    fn on_idle(&mut self, _id: SubflowId, _now: Time, _timeouts: u32) {}

    fn penalise(&mut self, id: SubflowId, _now: Time) {
        if let Some(flow) = self.flow_mut(id) {
            flow.halve();
        }
    }

    fn cwnd(&self, id: SubflowId) -> u64 {
        self.flow(id).map_or(1, Flow::cwnd)
    }

    fn ssthresh(&self, _id: SubflowId) -> Option<u64> {
        None
    }

    fn pacing_rate(&self, id: SubflowId) -> Option<Rate> {
        self.flow(id).map(Flow::pacing_rate)
    }

    /// Startup doubles the rate in a round trip; afterwards the model of the path decides.
    fn growth(&self, id: SubflowId) -> Growth {
        match self.state(id) {
            Some(State::Startup) | None => Growth::SlowStart,
            Some(_) => Growth::Rate,
        }
    }
}
