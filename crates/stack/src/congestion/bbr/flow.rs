//! One flow of BBR: what each acknowledgement changes, and what comes of it for rate and window.

use anabranch_units::{Duration, Rate, Time};

use super::super::{Ack, Delivery, SubflowStart};
use super::model::{MaxBandwidth, MaxExtra};
use super::probe::Cycle;
use crate::event::SubflowId;

/// `StartupPacingGain`.
const STARTUP_PACING_GAIN: f64 = 2.77;
/// `DrainPacingGain`.
const DRAIN_PACING_GAIN: f64 = 0.5;
/// `DefaultCwndGain`.
const DEFAULT_CWND_GAIN: f64 = 2.0;
/// `PacingMarginPercent`, as what is left.
const PACING_MARGIN: f64 = 0.99;
/// `LossThresh`.
pub(super) const LOSS_THRESH: f64 = 0.02;
/// `Beta`.
pub(super) const BETA: f64 = 0.7;
/// `MinPipeCwnd`, in segments.
const MIN_PIPE_CWND: f64 = 4.0;
/// `ProbeRTTCwndGain`.
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// `ProbeRTTDuration`.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// `ProbeRTTInterval`.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// `MinRTTFilterLen`.
const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
/// `ExtraAckedFilterLen`, in rounds.
const EXTRA_ACKED_FILTER_LEN: usize = 10;
/// Growth by less than this factor, in three rounds, is a plateau.
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;
/// `BBRStartupFullLossCnt`: so many ranges lost in one round end Startup.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;
/// The longest quantum, in bytes.
const MAX_QUANTUM: f64 = 65_536.0;

/// The states of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Doubles its rate each round.
    Startup,
    /// Empties the queue that this has made.
    Drain,
    /// Sends a little less than it can.
    ProbeBwDown,
    /// Sends as fast as it can.
    ProbeBwCruise,
    /// Fills the path again.
    ProbeBwRefill,
    /// Tries for more.
    ProbeBwUp,
    /// Sends little, to see the least RTT.
    ProbeRtt,
}

/// A flow. Volumes are in bytes, rates in bytes per second.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) id: SubflowId,
    pub(super) mss: f64,
    initial_cwnd: f64,
    sack: bool,
    pub(super) state: State,
    pub(super) cwnd: f64,
    prior_cwnd: f64,
    pacing_rate: f64,
    inflight: u64,
    /// `C.delivered`.
    pub(super) delivered: u64,
    /// The samples of what was sent before so much was delivered are limited, as this flow held back itself.
    limited_until: u64,
    in_recovery: bool,
    recovery_round: u64,

    pub(super) round_count: u64,
    pub(super) round_start: bool,
    next_round_delivered: u64,
    idle_restart: bool,
    drain_start_round: u64,

    pub(super) max_bw: MaxBandwidth,
    pub(super) bw_shortterm: f64,
    bw: f64,
    min_rtt: Option<Duration>,
    min_rtt_stamp: Time,
    probe_rtt_min_delay: Duration,
    probe_rtt_min_stamp: Time,
    probe_rtt_done_stamp: Option<Time>,
    probe_rtt_round_done: bool,

    extra_acked: f64,
    extra_acked_filter: MaxExtra,
    extra_acked_interval_start: Time,
    extra_acked_delivered: f64,

    pub(super) inflight_longterm: f64,
    pub(super) inflight_shortterm: f64,
    bw_latest: f64,
    inflight_latest: f64,
    is_loss_in_round: bool,
    loss_round_delivered: u64,
    loss_round_start: bool,
    loss_ranges_in_round: u32,

    pub(super) full_bw_reached: bool,
    pub(super) full_bw_now: bool,
    pub(super) full_bw: f64,
    full_bw_count: u32,

    pub(super) cycle: Cycle,

    pub(super) undo_state: Option<State>,
    undo_bw_shortterm: f64,
    undo_inflight_shortterm: f64,
    undo_inflight_longterm: f64,
}

/// The rate sample of an acknowledgement: `RS`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) now: Time,
    pub(super) delivery_rate: f64,
    pub(super) delivered: f64,
    prior_delivered: Option<u64>,
    pub(super) app_limited: bool,
    pub(super) tx_in_flight: f64,
    pub(super) lost: f64,
    pub(super) newly_acked: f64,
    rtt: Option<Duration>,
    pub(super) inflight: f64,
    pub(super) cwnd_limited: bool,
}

impl Flow {
    pub(super) fn new(id: SubflowId, start: &SubflowStart) -> Flow {
        let mss = start.mss.max(1) as f64;
        let cwnd = f64::from(start.initial_window.max(1)) * mss;
        let srtt = start.rtt.filter(|rtt| !rtt.is_zero());
        // InitPacingRate.
        let nominal = cwnd / srtt.unwrap_or(Duration::from_millis(1)).as_secs_f64();
        Flow {
            id,
            mss,
            initial_cwnd: cwnd,
            sack: start.sack,
            state: State::Startup,
            cwnd,
            prior_cwnd: 0.0,
            pacing_rate: STARTUP_PACING_GAIN * nominal,
            inflight: 0,
            delivered: 0,
            limited_until: 0,
            in_recovery: false,
            recovery_round: 0,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            idle_restart: false,
            drain_start_round: 0,
            max_bw: MaxBandwidth::default(),
            bw_shortterm: f64::INFINITY,
            bw: 0.0,
            min_rtt: srtt,
            min_rtt_stamp: start.now,
            probe_rtt_min_delay: srtt.unwrap_or(Duration::MAX),
            probe_rtt_min_stamp: start.now,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            extra_acked: 0.0,
            extra_acked_filter: MaxExtra::default(),
            extra_acked_interval_start: start.now,
            extra_acked_delivered: 0.0,
            inflight_longterm: f64::INFINITY,
            inflight_shortterm: f64::INFINITY,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            is_loss_in_round: false,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_ranges_in_round: 0,
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: 0.0,
            full_bw_count: 0,
            cycle: Cycle::new(),
            undo_state: None,
            undo_bw_shortterm: f64::INFINITY,
            undo_inflight_shortterm: f64::INFINITY,
            undo_inflight_longterm: f64::INFINITY,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn cwnd(&self) -> u64 {
        // Whole segments.
        ((self.cwnd / self.mss + 1e-6) as u64).max(1).saturating_mul(self.mss as u64)
    }

    pub(super) fn pacing_rate(&self) -> Rate {
        Rate((self.pacing_rate * 8.0).clamp(1.0, u64::MAX as f64 / 2.0) as u64)
    }

    /// `UpdateOnACK`, with the losses that the acknowledgement has told.
    pub(super) fn update_on_ack(&mut self, ack: &Ack) {
        self.inflight = ack.inflight_bytes;
        let delivery = ack.delivery;
        self.delivered = delivery.map_or(self.delivered, |delivery| delivery.total);
        let limited = |flow: &Flow, prior: u64, marked: bool| marked || prior < flow.limited_until;
        let Delivery { delivered, prior_delivered, tx_in_flight, lost, app_limited, .. } =
            delivery.unwrap_or_default();
        let sample = Sample {
            now: ack.now,
            delivery_rate: ack.delivery_rate.map_or(0.0, |rate| rate.bytes_per_sec()),
            delivered: delivered as f64,
            prior_delivered: delivery.map(|delivery| delivery.prior_delivered),
            app_limited: limited(self, prior_delivered, app_limited),
            tx_in_flight: tx_in_flight as f64,
            lost: lost as f64,
            newly_acked: ack.acked_bytes as f64,
            rtt: ack.rtt,
            inflight: ack.inflight_bytes as f64,
            cwnd_limited: ack.cwnd_limited,
        };
        if let Some(loss) = ack.loss {
            self.loss_ranges_in_round = self.loss_ranges_in_round.saturating_add(loss.ranges);
            let lost = Sample {
                tx_in_flight: loss.tx_in_flight as f64,
                lost: loss.lost as f64,
                app_limited: limited(self, loss.prior_delivered, loss.app_limited),
                ..sample
            };
            self.handle_lost_packet(&lost, loss.bytes as f64);
        }
        self.update_model_and_state(&sample);
        self.set_pacing_rate();
        self.set_cwnd(&sample);
    }

    fn update_model_and_state(&mut self, rs: &Sample) {
        self.update_latest_delivery_signals(rs);
        self.update_congestion_signals(rs);
        self.update_ack_aggregation(rs);
        self.check_full_bw_reached(rs);
        self.check_startup_done(rs);
        self.check_drain_done(rs);
        self.update_probe_bw_cycle_phase(rs);
        self.update_min_rtt(rs);
        self.check_probe_rtt(rs);
        if self.loss_round_start {
            // AdvanceLatestDeliverySignals.
            self.bw_latest = rs.delivery_rate;
            self.inflight_latest = rs.delivered;
            self.loss_ranges_in_round = 0;
        }
        self.bw = self.max_bw.get().min(self.bw_shortterm);
    }

    fn update_latest_delivery_signals(&mut self, rs: &Sample) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(rs.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        if rs.prior_delivered.is_some_and(|prior| prior >= self.loss_round_delivered) {
            self.loss_round_delivered = self.delivered;
            self.loss_round_start = true;
        }
    }

    fn update_congestion_signals(&mut self, rs: &Sample) {
        // UpdateRound and UpdateMaxBw.
        self.round_start = rs.prior_delivered.is_some_and(|prior| prior >= self.next_round_delivered);
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.cycle.rounds_since_probe_up += 1;
        }
        if rs.delivery_rate > 0.0 && (rs.delivery_rate >= self.max_bw.get() || !rs.app_limited) {
            self.max_bw.update(rs.delivery_rate);
        }
        if !self.loss_round_start {
            return;
        }
        // AdaptLowerBoundsFromCongestion.
        if self.is_loss_in_round && !self.is_probing_bw() {
            if self.bw_shortterm.is_infinite() {
                self.bw_shortterm = self.max_bw.get();
            }
            if self.inflight_shortterm.is_infinite() {
                self.inflight_shortterm = self.cwnd;
            }
            self.bw_shortterm = self.bw_latest.max(BETA * self.bw_shortterm);
            self.inflight_shortterm = self.inflight_latest.max(BETA * self.inflight_shortterm);
        }
        self.is_loss_in_round = false;
    }

    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
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

    fn update_ack_aggregation(&mut self, rs: &Sample) {
        let interval = rs.now.since(self.extra_acked_interval_start);
        let mut expected = self.bw * interval.as_secs_f64();
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0.0;
            self.extra_acked_interval_start = rs.now;
            expected = 0.0;
        }
        self.extra_acked_delivered += rs.newly_acked;
        let extra = (self.extra_acked_delivered - expected).min(self.cwnd);
        let len = if self.full_bw_reached { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra_acked = self.extra_acked_filter.update(extra, self.round_count, len);
    }

    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    fn check_full_bw_reached(&mut self, rs: &Sample) {
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

    fn check_startup_done(&mut self, rs: &Sample) {
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
    fn is_startup_loss_high(&self, rs: &Sample) -> bool {
        if !self.sack {
            return self.in_recovery && self.is_inflight_too_high(rs);
        }
        self.loss_round_start
            && self.in_recovery
            && self.round_count > self.recovery_round
            && self.loss_ranges_in_round >= STARTUP_FULL_LOSS_COUNT
            && self.is_inflight_too_high(rs)
    }

    fn check_drain_done(&mut self, rs: &Sample) {
        if self.state == State::Drain
            && (rs.inflight <= self.inflight_at(1.0) || self.round_count > self.drain_start_round + 3)
        {
            self.start_probe_bw_down(rs.now);
        }
    }

    pub(super) fn is_inflight_too_high(&self, rs: &Sample) -> bool {
        rs.lost > rs.tx_in_flight * LOSS_THRESH || (rs.lost > 0.0 && !self.sack)
    }

    /// `HandleLostPacket`, of the last of several segments, which has `size` bytes.
    fn handle_lost_packet(&mut self, rs: &Sample, size: f64) {
        self.note_loss();
        if !self.cycle.is_bw_probe_sample || !self.is_inflight_too_high(rs) {
            return;
        }
        // InflightAtLoss.
        let inflight_prev = rs.tx_in_flight - size;
        let lost_prev = rs.lost - size;
        let lost_prefix = (LOSS_THRESH * inflight_prev - lost_prev) / (1.0 - LOSS_THRESH);
        let at_loss = (inflight_prev + lost_prefix).max(0.0);
        self.handle_inflight_too_high(&Sample { tx_in_flight: at_loss, ..*rs });
    }

    fn note_loss(&mut self) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = self.delivered;
            self.save_state_upon_loss();
        }
        self.is_loss_in_round = true;
    }

    fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo_state = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    pub(super) fn handle_spurious_loss_detection(&mut self, _now: Time) {
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

    fn save_cwnd(&mut self) {
        self.prior_cwnd = if !self.in_recovery && self.state != State::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    fn restore_cwnd(&mut self) {
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
        // All that was in flight is taken for lost.
        self.inflight = 0;
        self.cwnd = self.mss;
    }

    pub(super) fn halve(&mut self) {
        self.cwnd = (self.cwnd / 2.0).max(self.mss);
    }

    fn update_min_rtt(&mut self, rs: &Sample) {
        let expired = rs.now > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        self.cycle.probe_rtt_expired = expired;
        if let Some(rtt) = rs.rtt
            && (rtt < self.probe_rtt_min_delay || expired)
        {
            self.probe_rtt_min_delay = rtt;
            self.probe_rtt_min_stamp = rs.now;
        }
        let min_rtt_expired = rs.now > self.min_rtt_stamp + MIN_RTT_FILTER_LEN;
        let known = self.probe_rtt_min_delay < Duration::MAX;
        if known && (self.min_rtt.is_none_or(|min| self.probe_rtt_min_delay < min) || min_rtt_expired) {
            self.min_rtt = Some(self.probe_rtt_min_delay);
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    fn check_probe_rtt(&mut self, rs: &Sample) {
        if self.state != State::ProbeRtt && self.cycle.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
            self.cycle.stop_feedback();
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(rs);
        }
        if rs.delivered > 0.0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, rs: &Sample) {
        // MarkConnectionAppLimited.
        self.limited_until = self.delivered.saturating_add(self.inflight).max(1);
        if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(rs.now);
            }
        } else if rs.inflight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done_stamp = Some(rs.now + PROBE_RTT_DURATION);
            self.probe_rtt_round_done = false;
            self.start_round();
        }
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
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

    /// `OnTransmit`: a flow that starts again from idle.
    pub(super) fn on_transmit(&mut self, now: Time, bytes: u64) {
        if self.inflight == 0 && self.delivered > 0 {
            self.idle_restart = true;
            self.extra_acked_interval_start = now;
            if self.is_in_a_probe_bw_state() {
                self.set_pacing_rate_with_gain(1.0);
            } else if self.state == State::ProbeRtt {
                self.check_probe_rtt_done(now);
            }
        }
        self.inflight = self.inflight.saturating_add(bytes);
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => DRAIN_PACING_GAIN,
            State::ProbeBwDown => 0.9,
            State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeRtt => 1.0,
            State::ProbeBwUp => 1.25,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.state {
            State::ProbeBwUp => 2.25,
            State::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => DEFAULT_CWND_GAIN,
        }
    }

    fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with_gain(self.pacing_gain());
    }

    fn set_pacing_rate_with_gain(&mut self, gain: f64) {
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

    fn quantization_budget(&self, inflight_cap: f64) -> f64 {
        let quantum = (self.pacing_rate * 1e-3).min(MAX_QUANTUM).max(2.0 * self.mss);
        let cap = inflight_cap.max(3.0 * quantum).max(self.min_pipe_cwnd());
        if self.state == State::ProbeBwUp { cap + 2.0 * self.mss } else { cap }
    }

    /// `Inflight`.
    pub(super) fn inflight_at(&self, gain: f64) -> f64 {
        self.quantization_budget(self.bdp_multiple(gain))
    }

    fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp_multiple(PROBE_RTT_CWND_GAIN).max(self.min_pipe_cwnd())
    }

    fn set_cwnd(&mut self, rs: &Sample) {
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

    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.inflight_longterm,
            State::ProbeRtt | State::ProbeBwCruise => self.inflight_with_headroom(),
            State::Startup | State::Drain => f64::INFINITY,
        };
        let cap = cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd());
        self.cwnd = self.cwnd.min(cap);
    }
}
