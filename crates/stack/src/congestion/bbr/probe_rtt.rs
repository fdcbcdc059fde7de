//! ProbeRTT: the minimum RTT, measured by sending little for a short time.

use anabranch_units::{Duration, Time};

use super::flow::{Flow, Sample, State};

/// `ProbeRTTCwndGain`.
pub(super) const PROBE_RTT_CWND_GAIN: f64 = 0.5;

impl Flow {
    pub(super) fn update_min_rtt(&mut self, rs: &Sample) {
        let expired = rs.now > self.probe_rtt_min_stamp + self.options.probe_rtt_interval;
        self.cycle.probe_rtt_expired = expired;
        if let Some(rtt) = rs.rtt
            && (rtt < self.probe_rtt_min_delay || expired)
        {
            self.probe_rtt_min_delay = rtt;
            self.probe_rtt_min_stamp = rs.now;
        }
        let min_rtt_expired = rs.now > self.min_rtt_stamp + self.options.min_rtt_window;
        let known = self.probe_rtt_min_delay < Duration::MAX;
        if known && (self.min_rtt.is_none_or(|min| self.probe_rtt_min_delay < min) || min_rtt_expired) {
            self.min_rtt = Some(self.probe_rtt_min_delay);
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    pub(super) fn check_probe_rtt(&mut self, rs: &Sample) {
        if self.state != State::ProbeRtt && self.cycle.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
            self.cycle.interrupt();
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(rs);
        }
        if rs.delivered > 0.0 {
            self.idle_restart = false;
        }
    }

    pub(super) fn handle_probe_rtt(&mut self, rs: &Sample) {
        // MarkConnectionAppLimited.
        self.limited_until = self.delivered.saturating_add(self.inflight).max(1);
        if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(rs.now);
            }
        } else if rs.inflight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done_stamp = Some(rs.now + self.options.probe_rtt_duration);
            self.probe_rtt_round_done = false;
            self.start_round();
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done_stamp.is_some_and(|done| now > done) {
            self.probe_rtt_min_stamp = now;
            self.restore_cwnd();
            // ExitProbeRTT.
            self.reset_short_term_model();
            if self.full_bw_reached {
                self.start_probe_bw_down(now);
                self.state = State::ProbeBwCruise;
            } else {
                self.state = State::Startup;
            }
        }
    }

    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp_multiple(PROBE_RTT_CWND_GAIN).max(self.min_pipe_cwnd())
    }
}
