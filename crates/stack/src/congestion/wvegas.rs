//! wVegas, weighted Vegas: the subflows of a connection together keep a fixed number of segments in
//! queues, each a part by its share of the whole rate.
//!
//! **Decides** each window once per round trip, from the mean RTT of that round trip against the least
//! RTT there ever was, and from the rates of all subflows.
//!
//! **Source**: Cao, Xu, Fu, "Delay-based congestion control for multipath TCP", ICNP 2012, and
//! draft-xu-mptcp-congestion-control-05; what the draft leaves open is as in its kernel module.
//! `diff = w (rtt - base) / rtt`. Slow start ends with `diff > gamma`, at `w base / rtt + 1`. In
//! congestion avoidance, where `diff >= alpha_i`, the subflow's rate is noted and `alpha_i` becomes its
//! share of all rates times `total_alpha`; then the window takes a step of one segment towards
//! `diff = alpha_i`. When the queueing delay is twice the least there was since the last time, the
//! window falls to `w base / (2 rtt)` for once, to drain the queue.
//!
//! **Constants**: `total_alpha` 10 segments, `alpha_i` 2 at first and at least, `gamma` 1; the least
//! window 2; decrease to 1/2 at a loss.
//!
//! **Read differently**
//! * The draining is asked for only with a queueing delay above nothing: twice nothing is nothing, and
//!   would halve the window of an empty path.
//! * Real numbers, where the kernel rounds `diff` and `alpha_i` down.
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

/// What wVegas aims at, in segments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WvegasOptions {
    /// In the queues of all paths together.
    pub total_alpha: f64,
    /// In the queue of one path, at first and at least.
    pub initial_alpha: f64,
    /// More in the queue end slow start.
    pub gamma: f64,
}

impl WvegasOptions {
    /// 10, 2 and 1.
    pub const DEFAULT: WvegasOptions = WvegasOptions { total_alpha: 10.0, initial_alpha: 2.0, gamma: 1.0 };
}

impl Options for WvegasOptions {
    const PARAMETERS: &'static [Parameter<WvegasOptions>] = &[
        parameter!(WvegasOptions, "total-alpha", "segments in all queues together", number 0.0, 1e6, total_alpha),
        parameter!(WvegasOptions, "initial-alpha", "segments in one queue, at first and at least", number 0.0, 1e6, initial_alpha),
        parameter!(WvegasOptions, "gamma", "segments in the queue that end slow start", number 0.0, 1e6, gamma),
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
    /// Segments a second, as last noted; 0 before and after a timeout.
    rate: f64,
    /// The segments that it keeps in the queue; none before they are computed.
    alpha: Option<f64>,
    /// The least queueing delay since the last draining, in seconds; 0 before one.
    queueing: f64,
}

impl State {
    const NEW: State = State { delays: Delays::NEW, rate: 0.0, alpha: None, queueing: 0.0 };
}

impl Wvegas {
    /// With these aims.
    pub fn new(options: WvegasOptions) -> Wvegas {
        Wvegas { options, subflows: Vec::new() }
    }

    /// How many segments the subflow keeps in the queue.
    pub fn alpha(&self, id: SubflowId) -> f64 {
        let own = self.subflows.get(id.index()).and_then(|state| state.alpha);
        own.unwrap_or(self.options.initial_alpha)
    }

    /// Congestion avoidance at the end of a round trip: the new window and threshold.
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
            // As the kernel module: whatever takes a subflow out of its course lets it begin anew.
            Change::Up | Change::Down | Change::Restarted | Change::Recovered | Change::Timeout => {
                *state = State { delays: state.delays, ..State::NEW };
            }
            _ => {}
        }
    }
}
