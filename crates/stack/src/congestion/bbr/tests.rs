//! The rules of BBR individually, each on a path of a million bytes per second and 100 ms: 100 segments of
//! 1000 bytes.

use anabranch_units::{Duration, Time};

use super::super::{Ack, BbrOptions, Delivery, Loss, SubflowStart};
use super::flow::{Flow, Sample, State};
use super::probe::AckPhase;
use crate::event::SubflowId;

const SEGMENT: f64 = 1000.0;
const RTT: Duration = Duration::from_millis(100);
const RATE: f64 = 1e6;
const BDP: f64 = 100.0 * SEGMENT;
const NOW: Time = Time::from_secs(1);

fn flow(state: State) -> Flow {
    let start = SubflowStart {
        now: Time::ZERO,
        mss: 1000,
        initial_window: 10,
        initial_ssthresh: None,
        rtt: Some(RTT),
        prr: false,
        paced: true,
        sack: true,
        byte_counting_limit: None,
    };
    let mut flow = Flow::new(SubflowId(0), &start, BbrOptions::DEFAULT);
    flow.state = state;
    flow.full_bw_reached = state != State::Startup;
    flow.max_bw.update(RATE);
    flow.bw = RATE;
    flow.cwnd = 2.0 * BDP;
    flow.delivered = 1_000_000;
    flow.cycle.bw_probe_wait = Duration::from_secs(2);
    flow.cycle.cycle_stamp = NOW;
    flow
}

/// Returns the acknowledgement of a segment, with a full path in flight.
fn sample() -> Sample {
    Sample {
        now: NOW,
        delivery_rate: RATE,
        delivered: BDP,
        prior_delivered: Some(900_000),
        app_limited: false,
        tx_in_flight: BDP,
        lost: 0.0,
        newly_acked: SEGMENT,
        rtt: Some(RTT),
        inflight: BDP,
        cwnd_limited: true,
    }
}

// ---- Loss threshold ----

#[test]
fn more_than_two_per_cent_lost_is_too_much() {
    let flow = flow(State::ProbeBwUp);
    assert!(!flow.is_inflight_too_high(&Sample { lost: 2.0 * SEGMENT, ..sample() }));
    assert!(flow.is_inflight_too_high(&Sample { lost: 2.0 * SEGMENT + 1.0, ..sample() }));
    let without_sack = Flow { sack: false, ..flow };
    assert!(without_sack.is_inflight_too_high(&Sample { lost: 1.0, ..sample() }));
}

#[test]
fn too_much_loss_in_a_probe_bounds_the_flight_at_no_less_than_seven_tenths() {
    for (tx_in_flight, bound) in [(1.5 * BDP, 1.5 * BDP), (0.5 * BDP, 0.7 * BDP)] {
        let mut flow = flow(State::ProbeBwUp);
        flow.handle_inflight_too_high(&Sample { tx_in_flight, ..sample() });
        assert!((flow.inflight_longterm - bound).abs() < 1e-6);
        assert_eq!(flow.state, State::ProbeBwDown);
        assert!(flow.cycle.prev_probe_too_high);
    }
}

#[test]
fn losses_outside_of_probes_lower_the_short_term_bounds_by_three_tenths_at_most() {
    for (latest, bw) in [(0.9 * RATE, 0.9 * RATE), (0.1 * RATE, 0.7 * RATE)] {
        let mut flow = flow(State::ProbeBwCruise);
        (flow.is_loss_in_round, flow.bw_latest, flow.inflight_latest) = (true, latest, 0.1 * BDP);
        flow.adapt_lower_bounds_from_congestion();
        assert!((flow.bw_shortterm - bw).abs() < 1e-6);
        assert!((flow.inflight_shortterm - 1.4 * BDP).abs() < 1e-6);
        assert!(!flow.is_loss_in_round);
    }
    for state in [State::Startup, State::ProbeBwRefill, State::ProbeBwUp] {
        let mut flow = flow(state);
        flow.is_loss_in_round = true;
        flow.adapt_lower_bounds_from_congestion();
        assert!(flow.bw_shortterm.is_infinite(), "{state:?}");
    }
}

#[test]
fn six_ranges_lost_in_a_round_of_recovery_end_startup_and_five_do_not() {
    for (ranges, next) in [(5, State::Startup), (6, State::Drain)] {
        let mut flow = flow(State::Startup);
        (flow.in_recovery, flow.recovery_round, flow.round_count) = (true, 3, 4);
        (flow.loss_round_start, flow.loss_ranges_in_round) = (true, ranges);
        flow.check_startup_done(&Sample { lost: 3.0 * SEGMENT, ..sample() });
        assert_eq!(flow.state, next);
    }
}

#[test]
fn three_rounds_without_a_quarter_more_fill_the_pipe() {
    let mut flow = flow(State::Startup);
    flow.round_start = true;
    let mut round = |rate: f64| {
        flow.check_full_bw_reached(&Sample { delivery_rate: rate, ..sample() });
        flow.full_bw_reached
    };
    // A growth by a quarter restarts the count.
    assert!(![1.0, 1.2, 1.24, 1.25, 1.5, 1.5].map(|times| round(times * RATE)).contains(&true));
    assert!(round(1.5 * RATE));
}

#[test]
fn a_spurious_loss_returns_to_startup() {
    let mut flow = flow(State::Drain);
    flow.undo_state = Some(State::Startup);
    flow.handle_spurious_loss_detection();
    assert_eq!((flow.state, flow.full_bw_reached), (State::Startup, false));
}

// ---- Other constants ----

#[test]
fn each_constant_that_may_be_chosen_counts() {
    let with = |state, options| Flow { options, ..flow(state) };
    let draft = BbrOptions::DEFAULT;
    let tolerant = with(State::ProbeBwUp, BbrOptions { loss_threshold: 0.1, ..draft });
    assert!(!tolerant.is_inflight_too_high(&Sample { lost: 10.0 * SEGMENT, ..sample() }));
    assert!(tolerant.is_inflight_too_high(&Sample { lost: 10.0 * SEGMENT + 1.0, ..sample() }));
    // With 99 segments in flight 9.9 may be lost, and 10 were: a ninth of a segment before the last.
    let mut late = with(State::ProbeBwUp, BbrOptions { loss_threshold: 0.1, ..draft });
    late.cycle.is_bw_probe_sample = true;
    late.handle_lost_packet(&Sample { lost: 11.0 * SEGMENT, ..sample() }, SEGMENT);
    assert!((late.inflight_longterm - (99.0 - 1.0 / 9.0) * SEGMENT).abs() < 1e-6);
    let mut halving = with(State::ProbeBwCruise, BbrOptions { beta: 0.5, ..draft });
    (halving.is_loss_in_round, halving.bw_latest) = (true, 0.1 * RATE);
    halving.adapt_lower_bounds_from_congestion();
    assert!((halving.bw_shortterm - 0.5 * RATE).abs() < 1e-6);
    assert!((halving.inflight_shortterm - 0.5 * 2.0 * BDP).abs() < 1e-6);
    halving.handle_inflight_too_high(&Sample { tx_in_flight: 0.1 * BDP, ..sample() });
    assert!((halving.inflight_longterm - 0.5 * BDP).abs() < 1e-6);
    let modest = with(State::ProbeBwCruise, BbrOptions { headroom: 0.4, ..draft });
    let modest = Flow { inflight_longterm: BDP, ..modest };
    assert!((modest.inflight_with_headroom() - 0.6 * BDP).abs() < 1e-6);
    let seconds = Duration::from_secs;
    let options = BbrOptions { probe_rtt_interval: seconds(2), min_rtt_window: seconds(3), ..draft };
    for (after, expired, min) in [(2, false, 100), (3, true, 100), (4, true, 150)] {
        let mut flow = with(State::ProbeBwCruise, options);
        (flow.min_rtt, flow.min_rtt_stamp) = (Some(RTT), NOW);
        (flow.probe_rtt_min_delay, flow.probe_rtt_min_stamp) = (RTT, NOW);
        let rtt = Some(Duration::from_millis(150));
        flow.update_min_rtt(&Sample { now: NOW + seconds(after), rtt, ..sample() });
        assert_eq!((flow.cycle.probe_rtt_expired, flow.min_rtt), (expired, Some(Duration::from_millis(min))));
    }
    let mut long = with(State::ProbeRtt, BbrOptions { probe_rtt_duration: seconds(1), ..draft });
    long.handle_probe_rtt(&Sample { inflight: 0.0, ..sample() });
    assert_eq!(long.probe_rtt_done_stamp, Some(NOW + seconds(1)));
}

// ---- The cycle ----

#[test]
fn a_round_of_refilling_is_followed_by_a_probe() {
    let mut flow = flow(State::ProbeBwRefill);
    flow.update_probe_bw_cycle_phase(&sample());
    assert_eq!(flow.state, State::ProbeBwRefill);
    flow.round_start = true;
    flow.update_probe_bw_cycle_phase(&sample());
    assert_eq!(flow.state, State::ProbeBwUp);
    assert!(flow.cycle.is_bw_probe_sample);
}

#[test]
fn a_probe_is_due_by_the_clock_or_after_as_many_rounds_as_reno_would_take() {
    let state_with = |rounds, after| {
        let mut flow = flow(State::ProbeBwCruise);
        flow.cycle.rounds_since_probe_up = rounds;
        flow.update_probe_bw_cycle_phase(&Sample { now: NOW + after, ..sample() });
        flow.state
    };
    let (early, late) = (Duration::from_millis(2000), Duration::from_millis(2001));
    assert_eq!(state_with(62, early), State::ProbeBwCruise);
    assert_eq!(state_with(63, early), State::ProbeBwRefill);
    assert_eq!(state_with(0, late), State::ProbeBwRefill);
}

#[test]
fn cruising_begins_with_headroom_and_no_queue() {
    let state_with = |inflight, longterm| {
        let mut flow = flow(State::ProbeBwDown);
        flow.inflight_longterm = longterm;
        flow.update_probe_bw_cycle_phase(&Sample { inflight, ..sample() });
        flow.state
    };
    assert_eq!(state_with(BDP, f64::INFINITY), State::ProbeBwCruise);
    assert_eq!(state_with(BDP + 1.0, f64::INFINITY), State::ProbeBwDown);
    assert_eq!(state_with(0.86 * BDP, BDP), State::ProbeBwDown);
    assert_eq!(state_with(0.85 * BDP, BDP), State::ProbeBwCruise);
}

#[test]
fn headroom_is_fifteen_per_cent_and_a_segment_at_least() {
    for (longterm, left) in [(BDP, 85.0), (6.0 * SEGMENT, 5.0), (4.0 * SEGMENT, 4.0)] {
        let flow = Flow { inflight_longterm: longterm, ..flow(State::ProbeBwCruise) };
        assert!((flow.inflight_with_headroom() - left * SEGMENT).abs() < 1e-6);
    }
}

#[test]
fn after_a_probe_that_was_too_much_the_next_one_ends_at_the_bound() {
    for (too_high, next) in [(true, State::ProbeBwDown), (false, State::ProbeBwUp)] {
        let mut flow = flow(State::ProbeBwUp);
        (flow.cycle.prev_probe_too_high, flow.inflight_longterm) = (too_high, BDP);
        flow.update_probe_bw_cycle_phase(&Sample { cwnd_limited: false, ..sample() });
        assert_eq!(flow.state, next);
        assert_eq!(flow.cycle.prev_probe_precautionary, too_high);
    }
}

#[test]
fn a_precautionary_probe_without_losses_is_followed_by_another() {
    for (too_high, next) in [(false, State::ProbeBwRefill), (true, State::ProbeBwDown)] {
        let mut flow = flow(State::ProbeBwDown);
        (flow.cycle.ack_phase, flow.round_start) = (AckPhase::Stopping, true);
        (flow.cycle.prev_probe_precautionary, flow.cycle.prev_probe_too_high) = (true, too_high);
        flow.update_probe_bw_cycle_phase(&Sample { inflight: 2.0 * BDP, ..sample() });
        assert_eq!(flow.state, next);
    }
}

#[test]
fn the_bound_rises_to_the_data_that_passed_and_in_probes_faster_in_each_round() {
    let mut flow = flow(State::ProbeBwCruise);
    flow.inflight_longterm = BDP;
    flow.update_probe_bw_cycle_phase(&Sample { tx_in_flight: 1.3 * BDP, ..sample() });
    assert!((flow.inflight_longterm - 1.3 * BDP).abs() < 1e-6);
    // In a window of 40 segments: one more per 40 acknowledged, then two, then four.
    (flow.state, flow.cwnd, flow.inflight_longterm) = (State::ProbeBwRefill, 40.0 * SEGMENT, 40.0 * SEGMENT);
    flow.round_start = true;
    let small = Sample { tx_in_flight: 0.0, inflight: 40.0 * SEGMENT, ..sample() };
    flow.update_probe_bw_cycle_phase(&small);
    assert_eq!(flow.state, State::ProbeBwUp);
    for more in [1.0, 2.0, 4.0] {
        let before = flow.inflight_longterm;
        for n in 1..=40 {
            // The window is at the bound all the time.
            (flow.round_start, flow.cwnd) = (n == 40, 40.0 * SEGMENT);
            flow.inflight_longterm = flow.inflight_longterm.min(before + more * SEGMENT);
            let bound = core::mem::replace(&mut flow.inflight_longterm, 40.0 * SEGMENT);
            flow.update_probe_bw_cycle_phase(&small);
            flow.inflight_longterm += bound - 40.0 * SEGMENT;
        }
        assert!((flow.inflight_longterm - before - more * SEGMENT).abs() < 1e-6, "{more}");
    }
}

// ---- Rate and window ----

#[test]
fn the_rate_is_the_gain_times_the_bandwidth_less_one_per_cent_and_falls_once_the_pipe_is_full() {
    for (state, gain) in [
        (State::Drain, 0.5),
        (State::ProbeBwDown, 0.9),
        (State::ProbeBwCruise, 1.0),
        (State::ProbeBwRefill, 1.0),
        (State::ProbeBwUp, 1.25),
        (State::ProbeRtt, 1.0),
    ] {
        let mut flow = Flow { pacing_rate: 9e9, ..flow(state) };
        flow.set_pacing_rate();
        assert!((flow.pacing_rate - gain * 0.99 * RATE).abs() < 1e-3, "{state:?}");
    }
    let mut starting = Flow { pacing_rate: 9e9, ..flow(State::Startup) };
    starting.set_pacing_rate();
    assert_eq!(starting.pacing_rate, 9e9);
}

#[test]
fn the_window_is_the_gain_times_the_bdp_plus_the_extra_acknowledged() {
    let window = |state, change: &dyn Fn(&mut Flow)| {
        let mut flow = Flow { cwnd: 9.0 * BDP, ..flow(state) };
        change(&mut flow);
        flow.set_cwnd(&sample());
        flow.cwnd / BDP
    };
    let near = |is: f64, should: f64| assert!((is - should).abs() < 1e-6, "{is} and {should}");
    near(window(State::ProbeBwCruise, &|_| {}), 2.0);
    near(window(State::ProbeBwUp, &|_| {}), 2.27);
    near(window(State::ProbeRtt, &|_| {}), 0.5);
    near(window(State::ProbeBwCruise, &|flow| flow.extra_acked = 0.3 * BDP), 2.3);
    // Bounds: cruising leaves headroom, probing does not.
    near(window(State::ProbeBwCruise, &|flow| flow.inflight_longterm = BDP), 0.85);
    near(window(State::ProbeBwUp, &|flow| flow.inflight_longterm = BDP), 1.0);
    near(window(State::ProbeBwDown, &|flow| flow.inflight_shortterm = 0.6 * BDP), 0.6);
    near(window(State::ProbeBwDown, &|flow| flow.inflight_shortterm = 0.0), 0.04);
}

// ---- ProbeRTT ----

/// Returns a flow that has begun ProbeRTT, with little in flight.
fn probing_rtt() -> Flow {
    let mut flow = flow(State::ProbeBwCruise);
    flow.cycle.probe_rtt_expired = true;
    flow.check_probe_rtt(&Sample { inflight: 0.4 * BDP, ..sample() });
    assert_eq!(flow.state, State::ProbeRtt);
    flow
}

#[test]
fn probe_rtt_takes_200_ms_and_a_round_and_gives_the_window_back() {
    for (after, round, next) in
        [(200, true, State::ProbeRtt), (201, false, State::ProbeRtt), (201, true, State::ProbeBwCruise)]
    {
        let mut flow = probing_rtt();
        flow.cwnd = 0.5 * BDP;
        flow.round_start = round;
        flow.handle_probe_rtt(&Sample { now: NOW + Duration::from_millis(after), ..sample() });
        assert_eq!(flow.state, next, "{after} {round}");
        assert_eq!(flow.cwnd, if next == State::ProbeRtt { 0.5 * BDP } else { 2.0 * BDP });
    }
}

#[test]
fn five_seconds_without_a_lower_rtt_ask_for_it_and_ten_forget_the_least() {
    let mut flow = flow(State::ProbeBwCruise);
    let at = |seconds: f64, ms| Sample {
        now: Time::ZERO + Duration::from_secs_f64(seconds),
        rtt: Some(Duration::from_millis(ms)),
        ..sample()
    };
    flow.update_min_rtt(&at(5.0, 150));
    assert!(!flow.cycle.probe_rtt_expired);
    flow.update_min_rtt(&at(5.1, 150));
    assert!(flow.cycle.probe_rtt_expired);
    assert_eq!(flow.min_rtt, Some(RTT));
    flow.update_min_rtt(&at(10.1, 160));
    assert_eq!(flow.min_rtt, Some(Duration::from_millis(150)));
}

#[test]
fn after_an_idle_time_it_is_not_asked_for() {
    let mut flow = flow(State::ProbeBwCruise);
    flow.on_transmit(NOW, 1000);
    flow.cycle.probe_rtt_expired = true;
    flow.check_probe_rtt(&sample());
    assert_eq!(flow.state, State::ProbeBwCruise);
    flow.check_probe_rtt(&sample());
    assert_eq!(flow.state, State::ProbeRtt);
}

#[test]
fn data_sent_in_probe_rtt_shows_no_bandwidth_and_ends_no_cycle() {
    let mut flow = probing_rtt();
    flow.handle_probe_rtt(&sample());
    assert!(flow.limited_until >= flow.delivered);
    // A new cycle, without a sample yet.
    flow.max_bw.advance();
    let before = flow.max_bw.get();
    let delivery = Delivery {
        total: flow.delivered,
        prior_delivered: flow.limited_until - 1,
        delivered: 1000,
        tx_in_flight: 50_000,
        ..Delivery::default()
    };
    let rate = Some(anabranch_units::Rate((RATE * 8.0 * 0.5) as u64));
    let ack = Ack { delivery: Some(delivery), delivery_rate: rate, ..Ack::of(NOW, 1000, 1, RTT) };
    flow.state = State::ProbeBwCruise;
    flow.cycle.ack_phase = AckPhase::Stopping;
    flow.update_on_ack(&ack);
    flow.max_bw.advance();
    // If the sample had counted, the cycle would end with one, and its rate would be the bandwidth.
    assert_eq!(flow.max_bw.get(), before);
}

#[test]
fn data_in_flight_in_probe_rtt_is_marked_and_its_losses_bound_nothing() {
    let mut flow = probing_rtt();
    flow.inflight = 30_000;
    flow.handle_probe_rtt(&sample());
    assert_eq!(flow.limited_until, flow.delivered + 30_000);
    for (prior_delivered, bounded) in [(flow.limited_until - 1, false), (flow.limited_until, true)] {
        let mut flow = flow.clone();
        flow.state = State::ProbeBwUp;
        flow.cycle.is_bw_probe_sample = true;
        let loss =
            Loss { bytes: 1000, prior_delivered, tx_in_flight: 100_000, lost: 10_000, ..Loss::default() };
        flow.update_on_ack(&Ack { loss: Some(loss), ..Ack::of(NOW, 1000, 1, RTT) });
        assert_eq!(flow.inflight_longterm.is_finite(), bounded, "{prior_delivered}");
    }
}

#[test]
fn a_cycle_that_probe_rtt_has_cut_short_ends_with_the_first_unlimited_round() {
    let mut flow = flow(State::ProbeBwUp);
    flow.cycle.ack_phase = AckPhase::Feedback;
    flow.cycle.interrupt();
    (flow.state, flow.round_start) = (State::ProbeBwCruise, true);
    let mut round = |app_limited| {
        flow.update_probe_bw_cycle_phase(&Sample { app_limited, ..sample() });
        flow.cycle.unfinished
    };
    assert!(round(true), "by the draft that was the end of it");
    assert!(!round(false));
}

#[test]
fn a_loss_that_was_none_gives_all_three_bounds_back() {
    let mut flow = flow(State::ProbeBwCruise);
    (flow.bw_shortterm, flow.inflight_shortterm, flow.inflight_longterm) = (0.9 * RATE, 0.8 * BDP, 1.1 * BDP);
    flow.save_state_upon_loss();
    let bounds =
        |flow: &Flow| [flow.bw_shortterm / RATE, flow.inflight_shortterm / BDP, flow.inflight_longterm / BDP];
    let mut reduced = flow.clone();
    (reduced.bw_shortterm, reduced.inflight_shortterm, reduced.inflight_longterm) =
        (0.5 * RATE, 0.4 * BDP, 0.6 * BDP);
    reduced.handle_spurious_loss_detection();
    assert_eq!(bounds(&reduced), [0.9, 0.8, 1.1]);
    // Bounds that have grown since stay.
    let mut grown = flow;
    (grown.bw_shortterm, grown.inflight_shortterm, grown.inflight_longterm) =
        (1.2 * RATE, 1.3 * BDP, 1.4 * BDP);
    grown.handle_spurious_loss_detection();
    assert_eq!(bounds(&grown), [1.2, 1.3, 1.4]);
}
