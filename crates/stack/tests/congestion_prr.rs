//! Proportional rate reduction (RFC 9937).

use crate::congestion_common;

use anabranch_stack::congestion::{
    Ack, AnyCongestion, CongestionControl, CongestionEvent, CongestionKind, SubflowStart,
};
use anabranch_units::Time;
use congestion_common::{A, MSS, ack, loss, start};
use proptest::prelude::*;

const NOW: Time = Time::from_secs(1);

fn subflow(name: &str, window: u32) -> AnyCongestion {
    let mut congestion = CongestionKind::from_name(name).unwrap().build();
    congestion.on_subflow_up(A, &SubflowStart { initial_window: window, prr: true, ..start() });
    congestion
}

/// Reports a loss with `flight` segments in flight, of which `recover` were not yet selectively acknowledged.
fn lose(congestion: &mut AnyCongestion, flight: u64, recover: u64) {
    congestion.on_congestion(A, &CongestionEvent { recover_bytes: recover * MSS, ..loss(NOW, flight) });
}

/// Selectively acknowledges one segment, with `inflight` segments in flight afterwards.
fn sack(congestion: &mut AnyCongestion, inflight: u64, lost: u64) {
    let inflight_bytes = inflight * MSS;
    let lost_bytes = lost * MSS;
    congestion.on_ack(
        A,
        &Ack { inflight_bytes, lost_bytes, in_recovery: true, una_advanced: false, ..ack(NOW, 1) },
    );
}

/// Sends whole segments as the window allows, and returns their number.
fn send(congestion: &mut AnyCongestion, inflight: &mut u64) -> u64 {
    let mut sent = 0;
    while (*inflight + 1) * MSS <= congestion.cwnd(A) {
        *inflight += 1;
        sent += 1;
        congestion.on_sent(A, NOW, MSS);
    }
    sent
}

#[test]
fn figure_1_one_loss_in_twenty_segments() {
    let mut congestion = subflow("newreno", 20);
    // Two acknowledgements have been received and admitted two new segments (limited transmit): 22 were sent,
    // of which 0 is lost and 1 to 3 are acknowledged by the third acknowledgement.
    let mut inflight = 18;
    lose(&mut congestion, 22, 20);
    assert_eq!(congestion.ssthresh(A), Some(10 * MSS));
    let (mut windows, mut sent) = (vec![], vec![]);
    for acked in 3..=21 {
        if acked > 3 {
            inflight -= 1;
        }
        sack(&mut congestion, inflight, u64::from(acked == 3));
        windows.push(congestion.cwnd(A) / MSS);
        sent.push(send(&mut congestion, &mut inflight));
    }
    // The rows c and s of the figure, from ack 3 on, except for acks 19 and 20: with ten in flight and a
    // threshold of ten, section 6.2 requires the reduction bound rather than proportional reduction, so the
    // segment sent at ack 19 in the figure is sent at ack 20. The sum is the same.
    assert_eq!(windows, [19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 10, 10, 10]);
    assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1]);
    assert_eq!(sent.iter().sum::<u64>(), 10);
    // Ack 22 ends the recovery: nine are in flight, and one more may be sent.
    inflight -= 1;
    congestion.on_recovered(A, NOW);
    assert_eq!(congestion.cwnd(A), 10 * MSS);
    assert_eq!((inflight, send(&mut congestion, &mut inflight)), (9, 1));
}

#[test]
fn figure_2_fifteen_losses_in_twenty_segments() {
    let mut congestion = subflow("newreno", 20);
    lose(&mut congestion, 22, 20);
    let mut inflight = 4;
    let (mut windows, mut sent) = (vec![], vec![]);
    for acked in 17..=19 {
        if acked > 17 {
            inflight -= 1;
        }
        sack(&mut congestion, inflight, if acked == 17 { 15 } else { 0 });
        windows.push(congestion.cwnd(A) / MSS);
        sent.push(send(&mut congestion, &mut inflight));
    }
    assert_eq!((windows, sent), (vec![5, 5, 5], vec![1, 1, 1]));
    // The retransmissions arrive: slow start up to the threshold.
    for expected in [6, 7, 8, 9, 10, 10] {
        inflight -= 1;
        let inflight_bytes = inflight * MSS;
        congestion.on_ack(A, &Ack { inflight_bytes, in_recovery: true, ..ack(NOW, 1) });
        assert_eq!(congestion.cwnd(A), expected * MSS);
        send(&mut congestion, &mut inflight);
    }
}

#[test]
fn one_segment_is_sent_at_once_if_a_timer_detected_the_loss() {
    let mut congestion = subflow("newreno", 20);
    lose(&mut congestion, 20, 18);
    let mut inflight = 15;
    assert!(congestion.cwnd(A) >= 16 * MSS);
    congestion.on_sent(A, NOW, MSS);
    inflight += 1;
    assert_eq!(send(&mut congestion, &mut inflight), 0);
    assert_eq!(congestion.cwnd(A), 10 * MSS);
}

#[test]
fn the_first_retransmission_is_sent_even_if_the_flight_is_at_the_threshold() {
    let mut congestion = subflow("newreno", 20);
    congestion.on_congestion(A, &congestion_common::loss(NOW, 20));
    sack(&mut congestion, 10, 9);
    assert_eq!(congestion.cwnd(A), 11 * MSS);
    congestion.on_sent(A, NOW, MSS);
    sack(&mut congestion, 10, 0);
    assert_eq!(congestion.cwnd(A), 10 * MSS);
}

#[test]
fn an_acknowledgement_that_delivers_nothing_changes_nothing() {
    let mut congestion = subflow("cubic", 20);
    congestion.on_congestion(A, &congestion_common::loss(NOW, 20));
    sack(&mut congestion, 18, 1);
    let before = congestion.cwnd(A);
    congestion.on_ack(A, &Ack { inflight_bytes: 3 * MSS, in_recovery: true, ..ack(NOW, 0) });
    assert_eq!(congestion.cwnd(A), before);
}

#[test]
fn a_timeout_ends_the_reduction() {
    let mut congestion = subflow("cubic", 20);
    congestion.on_congestion(A, &congestion_common::loss(NOW, 20));
    sack(&mut congestion, 18, 1);
    congestion.on_rto(A, NOW, 18 * MSS, false);
    assert_eq!(congestion.cwnd(A), MSS);
}

proptest! {
    // One loss, for any window and rule: the reduction is spread over the round trip, at whose end the flight
    // equals the threshold.
    #[test]
    fn with_one_loss_the_flight_ends_at_the_threshold(window in 6..500_u32, cubic: bool) {
        let mut congestion = subflow(if cubic { "cubic" } else { "newreno" }, window);
        let window = u64::from(window);
        congestion.on_congestion(A, &congestion_common::loss(NOW, window));
        let ssthresh = congestion.ssthresh(A).unwrap() / MSS;
        // One is lost and one is acknowledged by this acknowledgement.
        let mut inflight = window - 2;
        for n in 0..window - 1 {
            if n > 0 {
                inflight -= 1;
            }
            sack(&mut congestion, inflight, u64::from(n == 0));
            prop_assert!(send(&mut congestion, &mut inflight) <= 1);
        }
        prop_assert!(inflight.abs_diff(ssthresh) <= 1, "{} in flight, threshold {}", inflight, ssthresh);
        congestion.on_recovered(A, NOW);
        prop_assert_eq!(congestion.cwnd(A), ssthresh * MSS);
    }

    // Packet conservation: below the threshold, without progress, no more is sent than was delivered.
    #[test]
    fn heavy_loss_sends_no_more_than_was_delivered(window in 20..300_u32, lost in 0.6..0.95_f64) {
        let mut congestion = subflow("newreno", window);
        let window = u64::from(window);
        congestion.on_congestion(A, &congestion_common::loss(NOW, window));
        let lost = (window as f64 * lost) as u64;
        let mut inflight = window - lost - 1;
        let (mut delivered, mut out) = (0, 0);
        for n in 0..window - lost {
            if n > 0 {
                inflight -= 1;
            }
            delivered += 1;
            sack(&mut congestion, inflight, if n == 0 { lost } else { 0 });
            out += send(&mut congestion, &mut inflight);
            prop_assert!(out <= delivered);
        }
        prop_assert_eq!(out, delivered);
    }
}
