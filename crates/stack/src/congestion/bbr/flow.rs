//! One flow of BBR: its state, and its update by each acknowledgement.

use anabranch_units::{Duration, Rate, Time};

use super::super::{Ack, Delivery, SubflowStart};
use super::BbrOptions;
use super::model::{MaxBandwidth, MaxExtra};
use super::probe::Cycle;
use crate::event::SubflowId;

/// `StartupPacingGain`: the pacing rate in Startup, over the bandwidth.
pub(super) const STARTUP_PACING_GAIN: f64 = 2.77;
/// `ExtraAckedFilterLen`, in rounds.
const EXTRA_ACKED_FILTER_LEN: usize = 10;

/// The states of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Doubles its rate each round.
    Startup,
    /// Drains the queue made by Startup.
    Drain,
    /// Sends slightly below the estimated bandwidth.
    ProbeBwDown,
    /// Sends at the estimated bandwidth.
    ProbeBwCruise,
    /// Refills the path.
    ProbeBwRefill,
    /// Probes for more bandwidth.
    ProbeBwUp,
    /// Sends little, to measure the minimum RTT.
    ProbeRtt,
}

/// A flow. Volumes are in bytes, rates in bytes per second.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) id: SubflowId,
    pub(super) options: BbrOptions,
    pub(super) mss: f64,
    pub(super) initial_cwnd: f64,
    pub(super) sack: bool,
    pub(super) state: State,
    pub(super) cwnd: f64,
    pub(super) prior_cwnd: f64,
    pub(super) pacing_rate: f64,
    pub(super) inflight: u64,
    /// `C.delivered`.
    pub(super) delivered: u64,
    /// Samples of segments sent before this many bytes were delivered are limited, because the flow limited
    /// itself.
    pub(super) limited_until: u64,
    pub(super) in_recovery: bool,
    pub(super) recovery_round: u64,

    pub(super) round_count: u64,
    pub(super) round_start: bool,
    pub(super) next_round_delivered: u64,
    pub(super) idle_restart: bool,
    pub(super) drain_start_round: u64,

    pub(super) max_bw: MaxBandwidth,
    pub(super) bw_shortterm: f64,
    pub(super) bw: f64,
    pub(super) min_rtt: Option<Duration>,
    pub(super) min_rtt_stamp: Time,
    pub(super) probe_rtt_min_delay: Duration,
    pub(super) probe_rtt_min_stamp: Time,
    pub(super) probe_rtt_done_stamp: Option<Time>,
    pub(super) probe_rtt_round_done: bool,

    pub(super) extra_acked: f64,
    pub(super) extra_acked_filter: MaxExtra,
    pub(super) extra_acked_interval_start: Time,
    pub(super) extra_acked_delivered: f64,

    pub(super) inflight_longterm: f64,
    pub(super) inflight_shortterm: f64,
    pub(super) bw_latest: f64,
    pub(super) inflight_latest: f64,
    pub(super) is_loss_in_round: bool,
    pub(super) loss_round_delivered: u64,
    pub(super) loss_round_start: bool,
    pub(super) loss_ranges_in_round: u32,

    pub(super) full_bw_reached: bool,
    pub(super) full_bw_now: bool,
    pub(super) full_bw: f64,
    pub(super) full_bw_count: u32,

    pub(super) cycle: Cycle,

    pub(super) undo_state: Option<State>,
    pub(super) undo_bw_shortterm: f64,
    pub(super) undo_inflight_shortterm: f64,
    pub(super) undo_inflight_longterm: f64,
}

/// The rate sample of an acknowledgement: `RS`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) now: Time,
    pub(super) delivery_rate: f64,
    pub(super) delivered: f64,
    pub(super) prior_delivered: Option<u64>,
    pub(super) app_limited: bool,
    pub(super) tx_in_flight: f64,
    pub(super) lost: f64,
    pub(super) newly_acked: f64,
    pub(super) rtt: Option<Duration>,
    pub(super) inflight: f64,
    pub(super) cwnd_limited: bool,
}

impl Flow {
    pub(super) fn new(id: SubflowId, start: &SubflowStart, options: BbrOptions) -> Flow {
        let mss = start.mss.max(1) as f64;
        let cwnd = f64::from(start.initial_window.max(1)) * mss;
        let srtt = start.rtt.filter(|rtt| !rtt.is_zero());
        // InitPacingRate.
        let nominal = cwnd / srtt.unwrap_or(Duration::from_millis(1)).as_secs_f64();
        Flow {
            id,
            options,
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

    /// `UpdateOnACK`, including the losses detected by the acknowledgement.
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
        self.advance_latest_delivery_signals(rs);
        self.bw = self.max_bw.get().min(self.bw_shortterm);
    }

    /// `UpdateCongestionSignals`, `UpdateRound` and `UpdateMaxBw`.
    fn update_congestion_signals(&mut self, rs: &Sample) {
        self.round_start = rs.prior_delivered.is_some_and(|prior| prior >= self.next_round_delivered);
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.cycle.rounds_since_probe_up += 1;
        }
        if rs.delivery_rate > 0.0 && (rs.delivery_rate >= self.max_bw.get() || !rs.app_limited) {
            self.max_bw.update(rs.delivery_rate);
        }
        if self.loss_round_start {
            self.adapt_lower_bounds_from_congestion();
        }
    }

    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
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

    /// `OnTransmit`: handles a flow that restarts from idle.
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
}
