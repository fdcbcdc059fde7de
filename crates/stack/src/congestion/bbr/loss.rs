//! The reaction of a BBR flow to losses: the bounds they set, and undoing them if the losses were spurious.

use super::flow::{Flow, Sample, State};

impl Flow {
    pub(super) fn update_latest_delivery_signals(&mut self, rs: &Sample) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(rs.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        if rs.prior_delivered.is_some_and(|prior| prior >= self.loss_round_delivered) {
            self.loss_round_delivered = self.delivered;
            self.loss_round_start = true;
        }
    }

    /// `AdvanceLatestDeliverySignals`.
    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &Sample) {
        if self.loss_round_start {
            self.bw_latest = rs.delivery_rate;
            self.inflight_latest = rs.delivered;
            self.loss_ranges_in_round = 0;
        }
    }

    /// `AdaptLowerBoundsFromCongestion`, once in a round.
    pub(super) fn adapt_lower_bounds_from_congestion(&mut self) {
        if self.is_loss_in_round && !self.is_probing_bw() {
            if self.bw_shortterm.is_infinite() {
                self.bw_shortterm = self.max_bw.get();
            }
            if self.inflight_shortterm.is_infinite() {
                self.inflight_shortterm = self.cwnd;
            }
            self.bw_shortterm = self.bw_latest.max(self.options.beta * self.bw_shortterm);
            self.inflight_shortterm = self.inflight_latest.max(self.options.beta * self.inflight_shortterm);
        }
        self.is_loss_in_round = false;
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
    }

    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = f64::INFINITY;
    }

    pub(super) fn is_inflight_too_high(&self, rs: &Sample) -> bool {
        rs.lost > rs.tx_in_flight * self.options.loss_threshold || (rs.lost > 0.0 && !self.sack)
    }

    /// `HandleLostPacket` for the last of several segments, which has `size` bytes.
    pub(super) fn handle_lost_packet(&mut self, rs: &Sample, size: f64) {
        self.note_loss();
        if !self.cycle.is_bw_probe_sample || !self.is_inflight_too_high(rs) {
            return;
        }
        // InflightAtLoss.
        let inflight_prev = rs.tx_in_flight - size;
        let lost_prev = rs.lost - size;
        let threshold = self.options.loss_threshold;
        let lost_prefix = (threshold * inflight_prev - lost_prev) / (1.0 - threshold);
        let at_loss = (inflight_prev + lost_prefix).max(0.0);
        self.handle_inflight_too_high(&Sample { tx_in_flight: at_loss, ..*rs });
    }

    pub(super) fn note_loss(&mut self) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = self.delivered;
            self.save_state_upon_loss();
        }
        self.is_loss_in_round = true;
    }

    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo_state = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    pub(super) fn handle_spurious_loss_detection(&mut self) {
        self.in_recovery = false;
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo_bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo_inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo_inflight_longterm);
        match self.undo_state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::ProbeBwUp) if !matches!(self.state, State::ProbeBwUp | State::ProbeRtt) => {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }

    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if !self.in_recovery && self.state != State::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    pub(super) fn on_enter_fast_recovery(&mut self) {
        self.note_loss();
        self.save_cwnd();
        if !self.in_recovery {
            self.recovery_round = self.round_count;
        }
        self.in_recovery = true;
    }

    pub(super) fn on_exit_recovery(&mut self) {
        self.in_recovery = false;
        self.restore_cwnd();
        self.bound_cwnd_for_model();
    }

    pub(super) fn on_enter_rto(&mut self, again: bool) {
        if !again {
            self.note_loss();
            self.save_cwnd();
        }
        self.in_recovery = false;
        // All data in flight is marked lost.
        self.inflight = 0;
        self.cwnd = self.mss;
    }
}
