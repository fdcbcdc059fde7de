//! The controls of a BBR flow: pacing rate and window, from the state and the model.

use super::flow::{Flow, STARTUP_PACING_GAIN, Sample, State};
use super::probe_rtt::PROBE_RTT_CWND_GAIN;

/// `DrainPacingGain`: the pacing rate in Drain, over the bandwidth.
const DRAIN_PACING_GAIN: f64 = 0.5;
/// `DefaultCwndGain`: the window, over the bandwidth-delay product.
const DEFAULT_CWND_GAIN: f64 = 2.0;
/// `PacingMarginPercent`, as the remaining fraction.
const PACING_MARGIN: f64 = 0.99;
/// `MinPipeCwnd`, in segments.
const MIN_PIPE_CWND: f64 = 4.0;
/// The maximum quantum, in bytes.
const MAX_QUANTUM: f64 = 65_536.0;

impl Flow {
    pub(super) fn halve(&mut self) {
        self.cwnd = (self.cwnd / 2.0).max(self.mss);
    }

    pub(super) fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => DRAIN_PACING_GAIN,
            State::ProbeBwDown => 0.9,
            State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeRtt => 1.0,
            State::ProbeBwUp => 1.25,
        }
    }

    pub(super) fn cwnd_gain(&self) -> f64 {
        match self.state {
            State::ProbeBwUp => 2.25,
            State::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => DEFAULT_CWND_GAIN,
        }
    }

    pub(super) fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with_gain(self.pacing_gain());
    }

    pub(super) fn set_pacing_rate_with_gain(&mut self, gain: f64) {
        let rate = gain * self.bw * PACING_MARGIN;
        if (self.full_bw_reached && rate > 0.0) || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    pub(super) fn bdp_multiple(&self, gain: f64) -> f64 {
        self.min_rtt.map_or(self.initial_cwnd, |min_rtt| gain * self.bw * min_rtt.as_secs_f64())
    }

    pub(super) fn min_pipe_cwnd(&self) -> f64 {
        MIN_PIPE_CWND * self.mss
    }

    pub(super) fn quantization_budget(&self, inflight_cap: f64) -> f64 {
        let quantum = (self.pacing_rate * 1e-3).min(MAX_QUANTUM).max(2.0 * self.mss);
        let cap = inflight_cap.max(3.0 * quantum).max(self.min_pipe_cwnd());
        if self.state == State::ProbeBwUp { cap + 2.0 * self.mss } else { cap }
    }

    /// `Inflight`.
    pub(super) fn inflight_at(&self, gain: f64) -> f64 {
        self.quantization_budget(self.bdp_multiple(gain))
    }

    pub(super) fn set_cwnd(&mut self, rs: &Sample) {
        let max_inflight = self.quantization_budget(self.bdp_multiple(self.cwnd_gain()) + self.extra_acked);
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + rs.newly_acked).min(max_inflight);
        } else if self.cwnd < max_inflight || (self.delivered as f64) < self.initial_cwnd {
            self.cwnd += rs.newly_acked;
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    pub(super) fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.inflight_longterm,
            State::ProbeRtt | State::ProbeBwCruise => self.inflight_with_headroom(),
            State::Startup | State::Drain => f64::INFINITY,
        };
        let cap = cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd());
        self.cwnd = self.cwnd.min(cap);
    }
}
