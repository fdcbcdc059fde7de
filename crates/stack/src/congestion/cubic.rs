//! CUBIC: the window is a cubic function of the time since the last reduction, so its growth depends on time
//! rather than on round trips. Subflows are independent.
//!
//! **Decides** growth and reduction of a window from the window at the last reduction, the time since, and
//! the smoothed RTT.
//!
//! **Source**: RFC 9438, sections 4.2 to 4.9.
//!
//! **Constants**: `C` = 0.4 segments/s^3, `beta` = 0.7 (the remaining fraction), `alpha` = 3(1 - beta)/(1 +
//! beta) = 9/17 segments per round trip in the Reno-friendly region.
//!
//! **Departures from the source**
//! * `(target - w) / w` is added per acknowledged *segment* instead of per acknowledgement, so that the
//!   window grows as fast with delayed ACKs; Linux does the same. One ACK never adds more than `target - w`.
//! * In the Reno-friendly region the window is set to `W_est` only if that increases it.
//! * If the window is already above `W_max` when an epoch starts (after an idle restart, or after a first
//!   slow start without loss), `K` is 0 and `W_max` is that window, as after a timeout.
//! * A penalty (opportunistic retransmission) starts a new epoch towards the same `W_max`.

use anabranch_units::{Duration, Time};

use super::Ack;
use super::classic::{Change, Reduction, Window, WindowRule, Windows};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// `C`, in segments per second cubed.
const C: f64 = 0.4;
/// The fraction of the window that remains after a reduction.
const BETA: f64 = 0.7;
/// Growth per round trip in the Reno-friendly region, in segments.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Parts of CUBIC that may be switched off, as in scenarios.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CubicOptions {
    /// True if a subflow that loses below its last `W_max` sets a lower `W_max` (section 4.7).
    pub fast_convergence: bool,
}

impl CubicOptions {
    /// The values of the RFC.
    pub const DEFAULT: CubicOptions = CubicOptions { fast_convergence: true };
}

impl Options for CubicOptions {
    const PARAMETERS: &'static [Parameter<CubicOptions>] = &[parameter!(
        CubicOptions,
        "fast-convergence",
        "a loss below the last maximum sets a lower one",
        bool,
        fast_convergence
    )];
}

/// The rule of CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    subflows: Vec<State>,
    options: CubicOptions,
}

/// The state of one subflow, with the names of RFC 9438 section 4.1.2. Windows are in segments.
#[derive(Clone, Copy, PartialEq, Debug)]
struct State {
    /// `W_max`; 0 before the first reduction.
    w_max: f64,
    /// `cwnd_prior`: the window at the last reduction.
    cwnd_prior: f64,
    /// The current congestion avoidance, once it has begun.
    epoch: Option<Epoch>,
    /// The time of the last acknowledgement in congestion avoidance.
    last_ack: Time,
    /// True if the next epoch starts at `W_max` (after a timeout).
    after_timeout: bool,
    undo: Option<Undo>,
}

/// One stage of congestion avoidance.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Epoch {
    /// `t_epoch`, shifted by the time in which the window was not used.
    start: Time,
    /// `K`, in seconds.
    k: f64,
    /// `W_est`.
    w_est: f64,
}

/// The state that an undo restores (RFC 9438 section 4.9.2).
#[derive(Clone, Copy, PartialEq, Debug)]
struct Undo {
    w_max: f64,
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

impl State {
    const NEW: State = State {
        w_max: 0.0,
        cwnd_prior: 0.0,
        epoch: None,
        last_ack: Time::ZERO,
        after_timeout: false,
        undo: None,
    };

    /// Starts an epoch now with `window` segments (RFC 9438 section 4.2, figure 2).
    fn begin(&mut self, window: f64, now: Time) -> Epoch {
        let mut k = 0.0;
        if self.w_max == 0.0 {
            self.cwnd_prior = window; // section 4.10
        }
        if self.after_timeout || self.w_max <= window {
            self.w_max = window; // sections 4.8, 4.10
        } else {
            k = libm::cbrt((self.w_max - window) / C);
        }
        self.after_timeout = false;
        Epoch { start: now, k, w_est: window }
    }

    /// Returns the epoch at `now`: the current one, or the one that the next acknowledgement starts.
    fn epoch_at(&self, window: f64, now: Time) -> (Epoch, f64) {
        let mut state = *self;
        let epoch = state.epoch.unwrap_or_else(|| state.begin(window, now));
        (epoch, state.w_max)
    }

    /// Excludes `span` from the time of the epoch.
    fn exclude(&mut self, span: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += span;
        }
    }
}

impl Cubic {
    /// Returns a rule with the given options.
    pub fn new(options: CubicOptions) -> Cubic {
        Cubic { subflows: Vec::new(), options }
    }
}

impl Default for Cubic {
    fn default() -> Cubic {
        Cubic::new(CubicOptions::DEFAULT)
    }
}

impl WindowRule for Cubic {
    const BY_TIME: bool = true;

    #[inline]
    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, ack: &Ack) -> f64 {
        let Some(state) = self.subflows.get_mut(id.index()) else { return 0.0 };
        let window = windows.get(id).segments;
        state.last_ack = ack.now;
        let mut epoch = match state.epoch {
            Some(epoch) => epoch,
            None => state.begin(window, ack.now),
        };
        let t = ack.now.since(epoch.start).as_secs_f64();
        let w_cubic = |t: f64| {
            let t = t - epoch.k;
            C * t * t * t + state.w_max
        };
        // Figure 4, and the SHOULD that follows it.
        let alpha = if epoch.w_est >= state.cwnd_prior { 1.0 } else { ALPHA };
        epoch.w_est += alpha * acked / window;
        let grow = if w_cubic(t) < epoch.w_est {
            (epoch.w_est - window).max(0.0)
        } else {
            let target = w_cubic(t + ack.srtt.as_secs_f64()).max(window).min(1.5 * window);
            (target - window) * (acked / window).min(1.0)
        };
        state.epoch = Some(epoch);
        grow
    }

    fn decrease(&mut self, windows: &Windows, id: SubflowId, flight: f64, _reduction: Reduction) -> f64 {
        let Some(state) = self.subflows.get_mut(id.index()) else { return flight * BETA };
        let Window { segments: window, recovering, .. } = windows.get(id);
        // After a second reduction in the same recovery, an undo still restores the state before the first.
        if !recovering {
            state.undo = Some(Undo { w_max: state.w_max, cwnd_prior: state.cwnd_prior, epoch: state.epoch });
        }
        state.cwnd_prior = window;
        // Section 4.7.
        let yields = self.options.fast_convergence && window < state.w_max;
        state.w_max = if yields { window * (1.0 + BETA) / 2.0 } else { window };
        state.epoch = None;
        flight * BETA
    }

    /// Returns the greater of `W_cubic` and `W_est`, which grows by round trips; never below the current
    /// window.
    fn window_at(&self, windows: &Windows, id: SubflowId, now: Time, ahead: Duration) -> Option<f64> {
        let Window { segments: window, srtt, .. } = windows.get(id);
        let state = self.subflows.get(id.index())?;
        let (epoch, w_max) = state.epoch_at(window, now);
        let t = (now.since(epoch.start) + ahead).as_secs_f64() - epoch.k;
        let w_cubic = C * t * t * t + w_max;
        let rounds = ahead.as_secs_f64() / srtt.as_secs_f64().max(1e-9);
        let alpha = if epoch.w_est >= state.cwnd_prior { 1.0 } else { ALPHA };
        Some(w_cubic.max(epoch.w_est + alpha * rounds).max(window))
    }

    #[inline]
    fn on_change(&mut self, _windows: &Windows, id: SubflowId, now: Time, change: Change) {
        if change == Change::Up && self.subflows.len() <= id.index() {
            self.subflows.reserve_exact(id.index() + 1 - self.subflows.len());
            self.subflows.resize(id.index() + 1, State::NEW);
        }
        let Some(state) = self.subflows.get_mut(id.index()) else { return };
        match change {
            Change::Up | Change::Down => *state = State::NEW,
            // Section 5.8: time in which the window did not grow for lack of data is excluded.
            Change::NotLimited => {
                state.exclude(now.since(state.last_ack));
                state.last_ack = now;
            }
            Change::Resumed(idle) => {
                state.exclude(idle);
                state.last_ack += idle;
            }
            // A new stage of congestion avoidance follows.
            Change::SlowStart | Change::Restarted | Change::Penalised => state.epoch = None,
            Change::Timeout => {
                state.epoch = None;
                state.after_timeout = true; // section 4.8
            }
            Change::Undone => {
                if let Some(undo) = state.undo.take() {
                    state.w_max = undo.w_max;
                    state.cwnd_prior = undo.cwnd_prior;
                    state.epoch = undo.epoch;
                    state.after_timeout = false;
                }
            }
            Change::UndoneLate => state.undo = None,
            Change::Reduced | Change::Recovered => {}
        }
    }
}
