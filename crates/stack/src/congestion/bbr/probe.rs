//! The cycle in which a flow of BBR probes for bandwidth: ProbeBW.

use anabranch_units::{Duration, Time};

use super::flow::{Flow, Sample, State};

/// The maximum number of round trips between two probes.
const MOST_ROUNDS: f64 = 63.0;
/// The minimum time between two probes; at most one second is added.
const LEAST_WAIT: Duration = Duration::from_secs(2);

/// The meaning of an acknowledgement for probing: `ack_phase`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The position of a flow in its cycle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cycle {
    pub(super) ack_phase: AckPhase,
    pub(super) is_bw_probe_sample: bool,
    pub(super) bw_probe_up_acked: f64,
    pub(super) probe_up_acked_per_inc: f64,
    pub(super) bw_probe_up_rounds: u32,
    pub(super) rounds_since_probe_up: u64,
    pub(super) bw_probe_wait: Duration,
    pub(super) cycle_stamp: Time,
    pub(super) prev_probe_too_high: bool,
    pub(super) prev_probe_precautionary: bool,
    /// True if ProbeRTT interrupted a probe, so that the cycle has not ended yet.
    pub(super) unfinished: bool,
    pub(super) probe_rtt_expired: bool,
}

impl Cycle {
    pub(super) const fn new() -> Cycle {
        Cycle {
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            bw_probe_up_acked: 0.0,
            probe_up_acked_per_inc: f64::INFINITY,
            bw_probe_up_rounds: 0,
            rounds_since_probe_up: 0,
            bw_probe_wait: Duration::ZERO,
            cycle_stamp: Time::ZERO,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            unfinished: false,
            probe_rtt_expired: false,
        }
    }

    /// Ends the feedback phase of a probe.
    fn stop_feedback(&mut self) {
        self.ack_phase = AckPhase::Stopping;
    }

    /// Interrupts the cycle for ProbeRTT.
    pub(super) fn interrupt(&mut self) {
        self.unfinished |= self.ack_phase != AckPhase::Init;
        self.stop_feedback();
    }
}

impl Flow {
    pub(super) fn is_in_a_probe_bw_state(&self) -> bool {
        matches!(
            self.state,
            State::ProbeBwDown | State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp
        )
    }

    pub(super) fn is_probing_bw(&self) -> bool {
        matches!(self.state, State::Startup | State::ProbeBwRefill | State::ProbeBwUp)
    }

    pub(super) fn start_probe_bw_down(&mut self, now: Time) {
        self.reset_congestion_signals();
        self.cycle.probe_up_acked_per_inc = f64::INFINITY;
        self.pick_probe_wait(now);
        self.cycle.cycle_stamp = now;
        self.cycle.stop_feedback();
        self.start_round();
        self.state = State::ProbeBwDown;
    }

    /// `PickProbeWait`: draws the wait before the next probe, with the mixing constants of SplitMix64.
    fn pick_probe_wait(&mut self, now: Time) {
        let mut hash = now.0 ^ self.delivered.rotate_left(32) ^ (self.id.index() as u64) << 56;
        hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        self.cycle.rounds_since_probe_up = hash & 1;
        self.cycle.bw_probe_wait = LEAST_WAIT + Duration((hash >> 1) % Duration::from_secs(1).0);
    }

    pub(super) fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        self.cycle.bw_probe_up_rounds = 0;
        self.cycle.bw_probe_up_acked = 0.0;
        self.cycle.prev_probe_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::ProbeBwRefill;
    }

    fn start_probe_bw_up(&mut self, rs: &Sample) {
        self.cycle.ack_phase = AckPhase::Starting;
        self.start_round();
        self.reset_full_bw();
        self.full_bw = rs.delivery_rate;
        self.state = State::ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    pub(super) fn update_probe_bw_cycle_phase(&mut self, rs: &Sample) {
        if !self.full_bw_reached || self.adapt_long_term_model(rs) {
            return;
        }
        let goes_down = self.state == State::ProbeBwUp && self.is_time_to_go_down(rs);
        match self.state {
            State::ProbeBwDown if self.is_time_to_probe_bw(rs) => self.start_probe_bw_refill(),
            State::ProbeBwDown if self.is_time_to_cruise(rs) => self.state = State::ProbeBwCruise,
            State::ProbeBwCruise if self.is_time_to_probe_bw(rs) => self.start_probe_bw_refill(),
            State::ProbeBwRefill if self.round_start => {
                self.cycle.is_bw_probe_sample = true;
                self.start_probe_bw_up(rs);
            }
            State::ProbeBwUp if goes_down => {
                self.cycle.prev_probe_too_high = false;
                self.start_probe_bw_down(rs.now);
            }
            _ => {}
        }
    }

    fn is_time_to_probe_bw(&self, rs: &Sample) -> bool {
        let elapsed = rs.now > self.cycle.cycle_stamp + self.cycle.bw_probe_wait;
        // IsRenoCoexistenceProbeTime, in segments.
        let rounds = (self.target_inflight() / self.mss).min(MOST_ROUNDS);
        elapsed || self.cycle.rounds_since_probe_up as f64 >= rounds
    }

    fn target_inflight(&self) -> f64 {
        self.bdp_multiple(1.0).min(self.cwnd)
    }

    fn is_time_to_cruise(&self, rs: &Sample) -> bool {
        rs.inflight <= self.inflight_with_headroom() && rs.inflight <= self.inflight_at(1.0)
    }

    fn is_time_to_go_down(&mut self, rs: &Sample) -> bool {
        if self.cycle.prev_probe_too_high && rs.inflight >= self.inflight_longterm {
            self.cycle.prev_probe_precautionary = true;
            return true;
        }
        if rs.cwnd_limited && self.cwnd >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = rs.delivery_rate;
            return false;
        }
        self.full_bw_now
    }

    pub(super) fn inflight_with_headroom(&self) -> f64 {
        if self.inflight_longterm.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = (self.options.headroom * self.inflight_longterm).max(self.mss);
        (self.inflight_longterm - headroom).max(self.min_pipe_cwnd())
    }

    fn raise_inflight_longterm_slope(&mut self) {
        let growth = f64::from(1_u32 << self.cycle.bw_probe_up_rounds);
        self.cycle.bw_probe_up_rounds = (self.cycle.bw_probe_up_rounds + 1).min(30);
        self.cycle.probe_up_acked_per_inc = (self.cwnd / growth).max(self.mss);
    }

    fn probe_inflight_longterm_upward(&mut self, rs: &Sample) {
        if !rs.cwnd_limited || self.cwnd < self.inflight_longterm {
            return;
        }
        let cycle = &mut self.cycle;
        cycle.bw_probe_up_acked += rs.newly_acked;
        if cycle.bw_probe_up_acked >= cycle.probe_up_acked_per_inc {
            let delta = libm::floor(cycle.bw_probe_up_acked / cycle.probe_up_acked_per_inc);
            cycle.bw_probe_up_acked -= delta * cycle.probe_up_acked_per_inc;
            self.inflight_longterm += delta * self.mss;
        }
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// Returns true if it has chosen the next state.
    fn adapt_long_term_model(&mut self, rs: &Sample) -> bool {
        if self.cycle.ack_phase == AckPhase::Starting && self.round_start {
            self.cycle.ack_phase = AckPhase::Feedback;
        }
        if self.cycle.ack_phase == AckPhase::Stopping && self.round_start {
            self.cycle.is_bw_probe_sample = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.is_in_a_probe_bw_state() && !rs.app_limited {
                self.end_cycle();
            }
            let Cycle { prev_probe_precautionary, prev_probe_too_high, .. } = self.cycle;
            if self.is_in_a_probe_bw_state() && prev_probe_precautionary && !prev_probe_too_high {
                self.start_probe_bw_refill();
                return true;
            }
        }
        // Not in the draft: a cycle interrupted by ProbeRTT ends with the first informative round after it.
        // In the draft it does not end, as the first round is marked as limited; if round trips are so long
        // that every cycle is interrupted, no bandwidth is ever forgotten.
        if self.cycle.unfinished && self.round_start && self.is_in_a_probe_bw_state() && !rs.app_limited {
            self.end_cycle();
        }
        if !self.is_inflight_too_high(rs) {
            if self.inflight_longterm.is_infinite() {
                return false;
            }
            self.inflight_longterm = self.inflight_longterm.max(rs.tx_in_flight);
            if self.state == State::ProbeBwUp {
                self.probe_inflight_longterm_upward(rs);
            }
        }
        false
    }

    fn end_cycle(&mut self) {
        self.cycle.unfinished = false;
        self.max_bw.advance();
    }

    pub(super) fn handle_inflight_too_high(&mut self, rs: &Sample) {
        self.cycle.prev_probe_too_high = true;
        self.cycle.is_bw_probe_sample = false;
        if !rs.app_limited {
            self.inflight_longterm = rs.tx_in_flight.max(self.target_inflight() * self.options.beta);
        }
        if self.state == State::ProbeBwUp {
            self.undo_state = Some(State::ProbeBwUp);
            self.start_probe_bw_down(rs.now);
        }
    }
}
