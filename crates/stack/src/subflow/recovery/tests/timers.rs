//! The retransmission timer: timeouts (RFC 6298) and tail loss probes (RFC 8985 section 7).

use super::*;

const PROBE: RetransmitTimer = RetransmitTimer::TailProbe;
const TIMEOUT: RetransmitTimer = RetransmitTimer::Timeout;

#[test]
fn nothing_sent_needs_no_timer() {
    assert_eq!(Bench::rack(0).timer().0, Time::NEVER);
}

#[test]
fn a_probe_is_sent_two_round_trips_after_the_later_of_acknowledgement_and_new_data() {
    let bench = Bench::rack(2);
    assert_eq!(bench.timer_from(10, 11), (ms(211), PROBE));
    assert_eq!(bench.timer_from(20, 11), (ms(220), PROBE));
}

#[test]
fn a_lone_segment_is_given_the_delay_of_its_acknowledgement() {
    assert_eq!(Bench::rack(1).timer(), (ms(10 + 200 + 7), PROBE));
    assert_eq!(Bench::rack(3).timer(), (ms(10 + 200), PROBE));
}

#[test]
fn linux_adds_its_shortest_timeout_to_probes_and_to_the_reordering_timer() {
    let slack = TimerSlack { single: Duration::from_millis(200), other: Duration::from_millis(2) };
    let rack = |count| Bench { slack, ..Bench::rack(count) };
    assert_eq!(rack(3).timer(), (ms(10 + 200 + 2), PROBE));
    let mut alone = rack(1);
    let timeout = ms(10) + alone.rtt.rto(0);
    assert_eq!(alone.timer(), (timeout.min(ms(10 + 200 + 200)), PROBE));
    let mut overtaken = rack(5);
    overtaken.ack(112, 0, &[1, 2]);
    assert_eq!(overtaken.timer(), (ms(10 + 100 + 25 + 2), RetransmitTimer::Reordering));
    alone.recovery.on_probe(MSS, true);
    assert_eq!(alone.timer(), (timeout, TIMEOUT), "the timeout itself is not later");
}

#[test]
fn without_a_round_trip_a_probe_waits_a_second() {
    let mut config = ConnectionConfig::linux();
    config.rto.initial = Duration::from_secs(3);
    let mut bench = Bench::new(&config);
    bench.send(10);
    assert_eq!(bench.timer(), (ms(1_010), PROBE));
    let mut bench = Bench::new(&ConnectionConfig::linux());
    bench.send(10);
    assert_eq!(bench.timer(), (ms(1_010), PROBE), "in the place of the timeout");
    bench.recovery.on_probe(MSS, true);
    assert_eq!(bench.timer_from(1_010, 10), (ms(2_010), TIMEOUT));
}

#[test]
fn a_probe_takes_the_place_of_an_earlier_timeout() {
    let mut bench = Bench::new(&ConnectionConfig::linux());
    for _ in 0..100 {
        bench.measure(300);
    }
    bench.send_many(2);
    let timeout = ms(10) + bench.rtt.rto(0);
    // The variation approaches its minimum.
    assert!(timeout.since(ms(510)) < Duration::from_micros(1), "{timeout:?}");
    assert_eq!(bench.timer(), (timeout, PROBE));
    assert_eq!(bench.timer_from(10, 5), (timeout, PROBE));
    bench.recovery.on_probe(2 * MSS, true);
    assert_eq!(bench.timer(), (timeout, TIMEOUT));
}

#[test]
fn there_is_one_probe_and_the_next_needs_a_new_round_trip() {
    let mut bench = Bench::rack(3);
    bench.recovery.on_probe(3 * MSS, false);
    assert_eq!(bench.timer().1, TIMEOUT);
    bench.recovery.on_rtt_sample();
    assert_eq!(bench.timer().1, TIMEOUT, "the probe is under way");
    bench.recovery.on_probe(3 * MSS, false);
    bench.ack(110, 3, &[]);
    bench.send(111);
    assert_eq!(bench.timer().1, TIMEOUT, "nothing was measured since");
    bench.measure(100);
    assert_eq!(bench.timer().1, PROBE);
}

#[test]
fn no_probe_with_something_sacked_or_in_recovery() {
    let mut bench = Bench::rack(3);
    bench.ack(110, 0, &[0]);
    assert_eq!(bench.timer().1, TIMEOUT);
    let mut bench = Bench::rack(3);
    bench.timeout();
    bench.measure(100);
    assert_eq!(bench.timer().1, TIMEOUT);
    assert_eq!(Bench::newreno(3).timer().1, TIMEOUT);
}

#[test]
fn a_reordering_window_that_ends_after_the_timeout_leaves_it_the_timer() {
    let mut bench = Bench::rack(3);
    bench.ack(112, 0, &[1, 2]);
    let rto = bench.rtt.rto(0).as_micros() / 1_000;
    assert_eq!(bench.timer_from(1_000, 0), (ms(135), RetransmitTimer::Reordering));
    bench.ack(112 + rto, 0, &[]);
    let mut late = Bench::rack(2);
    late.ack(11 + rto + 100, 0, &[1]);
    // Sent at 10; its window ends at 10 + rto + 100 + 25.
    let due = 10 + rto + 125;
    assert_eq!(late.timer_from(125 + 10, 0), (ms(due), RetransmitTimer::Reordering));
    assert_eq!(late.timer_from(125 + 9, 0), (ms(due - 1), TIMEOUT));
}

#[test]
fn a_timeout_takes_all_for_lost_that_was_not_sacked() {
    let mut bench = Bench::rack(5);
    bench.ack(111, 0, &[1, 2]);
    assert!(bench.timeout());
    assert_eq!(bench.lost, [0, 3, 4]);
    assert_eq!(bench.state(), RecoveryState::Loss);
    assert_eq!(bench.recovery.timeouts(), 1);
    assert!(bench.recovery.force);
    assert_eq!(bench.board.sacked_segments(), 2);
    assert_eq!(bench.board.in_flight(), 0);
}

#[test]
fn a_second_consecutive_timeout_forgets_sacks() {
    let mut bench = Bench::rack(5);
    bench.ack(111, 0, &[1, 2]);
    bench.timeout();
    bench.resend(0, 400);
    assert!(!bench.timeout(), "for the same data");
    assert_eq!(bench.lost, [0, 1, 2]);
    assert_eq!(bench.board.sacked_segments(), 0);
    assert_eq!(bench.recovery.timeouts(), 2);
}

#[test]
fn timeouts_double_until_something_is_acknowledged() {
    let mut bench = Bench::rack(5);
    bench.timeout();
    bench.timeout();
    assert_eq!(bench.timer().0, ms(10) + bench.rtt.rto(2));
    let unbacked = bench.recovery.timer(ms(10), ms(10), &bench.board, &bench.rtt, false, bench.slack);
    assert_eq!(unbacked.0, ms(10) + bench.rtt.rto(0));
    bench.ack(900, 0, &[]);
    assert_eq!(bench.recovery.timeouts(), 2);
    bench.resend(0, 900);
    bench.ack(1_000, 1, &[]);
    assert_eq!(bench.recovery.timeouts(), 0);
    assert_eq!(bench.state(), RecoveryState::Loss, "the rest is not repaired");
    assert!(!bench.ack(1_100, 4, &[]).ended);
    assert!(bench.ack(1_100, 5, &[]).ended);
    assert_eq!(bench.state(), RecoveryState::Open);
    assert!(!bench.recovery.force);
    bench.send(1_200);
    assert!(bench.timeout(), "for other data");
}

#[test]
fn after_a_timeout_only_later_transmissions_can_be_lost_again() {
    let mut bench = Bench::rack(3);
    bench.timeout();
    bench.resend(0, 400);
    bench.resend(1, 401);
    bench.send(402);
    bench.ack(501, 0, &[1]);
    assert_eq!(bench.lost, [0]);
    bench.ack(502, 0, &[3]);
    assert_eq!(bench.lost, []);
    assert_eq!(bench.board.next_lost(), Some(0));
}

#[test]
fn a_probe_with_new_data_is_no_sign_of_loss() {
    let mut bench = Bench::rack(3);
    bench.recovery.on_probe(3 * MSS, false);
    assert!(!bench.ack(110, 2, &[]).probe_repaired);
    assert!(!bench.ack(110, 3, &[]).probe_repaired);
    bench.send(120);
    assert!(!bench.ack(220, 4, &[]).probe_repaired);
}

/// Returns a bench in which the last of three segments is retransmitted as a probe, at 250.
fn probed() -> Bench {
    let mut bench = Bench::rack(3);
    bench.recovery.on_probe(3 * MSS, true);
    bench.resend(2, 250);
    bench
}

// RFC 8985 section 7.4.2: data after the probe is acknowledged without a DSACK, so one of the two was lost.
#[test]
fn a_probe_has_repaired_a_loss_when_more_is_acknowledged_and_no_dsack_came() {
    let mut bench = probed();
    assert!(!bench.ack(350, 2, &[]).probe_repaired);
    assert!(!bench.ack(350, 3, &[]).probe_repaired, "a DSACK may follow");
    bench.send(351);
    let verdict = bench.ack(451, 4, &[]);
    assert!(verdict.probe_repaired && !verdict.entered);
    bench.send(451);
    assert!(!bench.ack(551, 5, &[]).probe_repaired, "once");
    assert_eq!(bench.state(), RecoveryState::Open);
}

#[test]
fn a_dsack_of_the_probe_shows_that_nothing_was_lost() {
    let mut bench = probed();
    assert!(!bench.ack(260, 3, &[]).probe_repaired);
    let verdict = bench.dsack(350, 3, 2);
    assert!(!verdict.undone && !verdict.probe_repaired);
    bench.send(351);
    assert!(!bench.ack(451, 4, &[]).probe_repaired);
    // The next probe may be sent.
    bench.measure(100);
    bench.send(452);
    assert_eq!(bench.timer().1, PROBE);
}

#[test]
fn a_dsack_of_something_else_does_not_excuse_the_probe() {
    let mut bench = probed();
    bench.dsack(260, 3, 1);
    bench.send(351);
    assert!(bench.ack(451, 4, &[]).probe_repaired);
}

#[test]
fn a_dsack_does_not_concern_a_probe_with_new_data() {
    let mut bench = Bench::rack(3);
    bench.recovery.on_probe(3 * MSS, false);
    bench.dsack(260, 2, 2);
    bench.measure(100);
    assert_eq!(bench.timer().1, TIMEOUT, "it is still under way");
}

#[test]
fn a_loss_that_recovery_repairs_is_not_counted_for_the_probe_again() {
    let mut bench = probed();
    for at in 251..255 {
        bench.send(at);
    }
    bench.ack(354, 0, &[4, 5, 6]);
    assert_eq!(bench.state(), RecoveryState::Recovery);
    assert!(!bench.ack(360, 4, &[]).probe_repaired);
}

// RFC 8985 section 7.4.2: one reduction, whether the probe's acknowledgement or a later one reports the loss.
#[test]
fn a_probe_that_starts_fast_recovery_has_repaired_nothing_besides() {
    let mut bench = probed();
    assert!(bench.ack(350, 0, &[2]).entered);
    assert_eq!(bench.lost, [0, 1]);
    bench.resend(0, 351);
    bench.resend(1, 351);
    assert!(bench.ack(451, 3, &[]).ended);
    bench.send(452);
    assert!(!bench.ack(552, 4, &[]).probe_repaired);
    bench.measure(100);
    bench.send(553);
    bench.send(553);
    assert_eq!(bench.timer_from(553, 553).1, PROBE, "and another one may be sent");
}

// RFC 3708: the probe's own duplicate is not a retransmission of recovery.
#[test]
fn a_dsack_of_the_probe_that_started_recovery_undoes_nothing() {
    let mut bench = probed();
    assert!(bench.ack(350, 0, &[2]).entered);
    bench.resend(0, 351);
    bench.resend(1, 351);
    assert!(!bench.dsack(451, 1, 2).undone);
    assert!(!bench.dsack(452, 2, 0).undone);
    assert!(bench.dsack(453, 2, 1).undone);
}

#[test]
fn a_timeout_ends_the_probe() {
    let mut bench = probed();
    bench.timeout();
    bench.send(500);
    bench.ack(600, 3, &[]);
    assert!(!bench.ack(600, 4, &[]).probe_repaired);
}
