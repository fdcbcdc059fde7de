//! wVegas, weighted Vegas: the subflows of a connection together keep a fixed number of segments in queues,
//! each in proportion to its share of the total rate.
//!
//! **Decides** each window once per round trip, by comparing the mean RTT of that round trip with the overall
//! minimum, and from the rates of all subflows.
//!
//! **Source**: Cao, Xu, Fu, "Delay-based congestion control for multipath TCP", ICNP 2012, and
//! draft-xu-mptcp-congestion-control-05; points that the draft leaves open follow its kernel module. `diff =
//! w (rtt - base) / rtt`. Slow start ends with `diff > gamma`, at `w base / rtt + 1`. In congestion
//! avoidance, when `diff >= alpha_i`, the subflow's rate is recorded and `alpha_i` becomes its share of all
//! rates times `total_alpha`; then the window takes a step of one segment towards `diff = alpha_i`. When the
//! queueing delay is twice its minimum since the last time, the window is once set to `w base / (2 rtt)`, to
//! drain the queue.
//!
//! **Constants**: `total_alpha` 10 segments, `alpha_i` 2 initially and at least, `gamma` 1; minimum window 2;
//! decrease to 1/2 at a loss.
//!
//! **Departures from the source**
//! * Draining requires a queueing delay above zero: twice zero is zero, and would halve the window of an
//!   empty path.
//! * Real numbers are used; the kernel rounds `diff` and `alpha_i` down.
//! * With fewer than three RTT samples in a round trip the window grows like Reno's.
//! * The window grows only while it is used.

use anabranch_units::Time;

use super::Ack;
use super::delay::{Delays, Measured, entry};
use super::rule::{Change, Step, WindowRule, Windows};
use super::vegas::{after_slow_start, reno_round, settled};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The targets of wVegas, in segments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WvegasOptions {
    /// The segments in the queues of all paths together.
    pub total_alpha: f64,
    /// The segments in the queue of one path, initially and at least.
    pub initial_alpha: f64,
    /// The queue length above which slow start ends.
    pub gamma: f64,
}

impl WvegasOptions {
    /// 10 segments in all queues together, at least 2 in the queue of a path, slow start up to a queue of 1.
    pub const DEFAULT: WvegasOptions = WvegasOptions { total_alpha: 10.0, initial_alpha: 2.0, gamma: 1.0 };
}

impl Options for WvegasOptions {
    const PARAMETERS: &'static [Parameter<WvegasOptions>] = &[
        parameter!(WvegasOptions, "total-alpha", "segments in all queues together", number 0.0, 1e6, total_alpha),
        parameter!(WvegasOptions, "initial-alpha", "segments in one queue, initially and at least", number 0.0, 1e6, initial_alpha),
        parameter!(WvegasOptions, "gamma", "segments in the queue above which slow start ends", number 0.0, 1e6, gamma),
    ];
}

impl Default for WvegasOptions {
    fn default() -> WvegasOptions {
        WvegasOptions::DEFAULT
    }
}

/// The rule of wVegas.
#[derive(Clone, Debug)]
pub struct Wvegas {
    options: WvegasOptions,
    subflows: Vec<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    delays: Delays,
    /// The last recorded rate in segments per second; 0 before the first and after a timeout.
    rate: f64,
    /// The number of segments to keep in the queue; `None` before it is computed.
    alpha: Option<f64>,
    /// The minimum queueing delay since the last draining, in seconds; 0 before the first sample.
    queueing: f64,
}

impl State {
    const NEW: State = State { delays: Delays::NEW, rate: 0.0, alpha: None, queueing: 0.0 };
}

impl Wvegas {
    /// Returns a rule with the given options.
    pub fn new(options: WvegasOptions) -> Wvegas {
        Wvegas { options, subflows: Vec::new() }
    }

    /// Returns the number of segments that the subflow keeps in the queue.
    pub fn alpha(&self, id: SubflowId) -> f64 {
        let own = self.subflows.get(id.index()).and_then(|state| state.alpha);
        own.unwrap_or(self.options.initial_alpha)
    }

    /// Returns the new window and threshold in congestion avoidance, at the end of a round trip.
    fn avoid(&mut self, windows: &Windows, id: SubflowId, measured: Measured, ack: &Ack) -> (f64, f64) {
        let window = windows.get(id);
        let mut segments = window.segments;
        let mut ssthresh = window.ssthresh;
        let queued = measured.queued(segments);
        if queued >= self.alpha(id) {
            self.subflows[id.index()].rate = segments / measured.rtt;
            let total: f64 = windows
                .iter()
                .filter_map(|(other, _)| self.subflows.get(other.index()).map(|state| state.rate))
                .sum();
            let share = self.subflows[id.index()].rate / total;
            if share > 0.0 {
                let alpha = (share * self.options.total_alpha).max(self.options.initial_alpha);
                self.subflows[id.index()].alpha = Some(alpha);
            }
        }
        let alpha = self.alpha(id);
        if queued > alpha {
            segments -= 1.0;
            ssthresh = ssthresh.min(segments);
        } else if queued < alpha && ack.cwnd_limited {
            segments += 1.0;
        }
        let state = &mut self.subflows[id.index()];
        let queueing = measured.rtt - measured.base;
        if state.queueing == 0.0 || queueing < state.queueing {
            state.queueing = queueing;
        }
        if queueing > 0.0 && queueing >= 2.0 * state.queueing {
            segments *= measured.base / (2.0 * measured.rtt);
            state.queueing = 0.0;
        }
        (segments, ssthresh)
    }
}

impl WindowRule for Wvegas {
    #[inline]
    fn observe(&mut self, _windows: &Windows, id: SubflowId, ack: &Ack) {
        entry(&mut self.subflows, id.index(), State::NEW).delays.observe(ack);
    }

    fn on_round(&mut self, windows: &Windows, id: SubflowId, ack: &Ack) -> Option<Step> {
        let delays = &mut entry(&mut self.subflows, id.index(), State::NEW).delays;
        let round = delays.end_round()?;
        let Some(measured) = delays.mean(&round) else {
            return reno_round(windows, id, round.acked, ack);
        };
        let window = windows.get(id);
        if window.in_slow_start() {
            let leaves = measured.queued(window.segments) > self.options.gamma;
            return leaves.then(|| after_slow_start(&window, measured));
        }
        let (segments, ssthresh) = self.avoid(windows, id, measured, ack);
        Some(settled(segments, ssthresh))
    }

    fn on_change(&mut self, _windows: &Windows, id: SubflowId, _now: Time, change: Change) {
        let state = entry(&mut self.subflows, id.index(), State::NEW);
        state.delays.on_change(change);
        match change {
            // As in the kernel module, every interruption restarts the measurement.
            Change::Up | Change::Down | Change::Restarted | Change::Recovered | Change::Timeout => {
                *state = State { delays: state.delays, ..State::NEW };
            }
            _ => {}
        }
    }
}
