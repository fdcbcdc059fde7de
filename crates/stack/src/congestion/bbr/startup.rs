//! Startup and Drain: a flow detects that it has filled the path, and drains the resulting queue.

use super::flow::{Flow, Sample, State};

/// Growth by less than this factor over three rounds is a plateau.
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;
/// `BBRStartupFullLossCnt`: the number of ranges lost in one round that ends Startup.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;

impl Flow {
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    pub(super) fn check_full_bw_reached(&mut self, rs: &Sample) {
        if self.full_bw_now || !self.round_start || rs.app_limited {
            return;
        }
        if rs.delivery_rate >= self.full_bw * FULL_BW_GROWTH {
            self.reset_full_bw();
            self.full_bw = rs.delivery_rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= FULL_BW_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    pub(super) fn check_startup_done(&mut self, rs: &Sample) {
        if self.state != State::Startup {
            return;
        }
        if !self.full_bw_reached && self.is_startup_loss_high(rs) {
            self.undo_state = Some(State::Startup);
            self.full_bw_reached = true;
            self.inflight_longterm = self.bdp_multiple(1.0).max(self.inflight_latest);
        }
        if self.full_bw_reached {
            self.state = State::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    /// `CheckStartupHighLoss`.
    pub(super) fn is_startup_loss_high(&self, rs: &Sample) -> bool {
        if !self.sack {
            return self.in_recovery && self.is_inflight_too_high(rs);
        }
        self.loss_round_start
            && self.in_recovery
            && self.round_count > self.recovery_round
            && self.loss_ranges_in_round >= STARTUP_FULL_LOSS_COUNT
            && self.is_inflight_too_high(rs)
    }

    pub(super) fn check_drain_done(&mut self, rs: &Sample) {
        if self.state == State::Drain
            && (rs.inflight <= self.inflight_at(1.0) || self.round_count > self.drain_start_round + 3)
        {
            self.start_probe_bw_down(rs.now);
        }
    }
}
