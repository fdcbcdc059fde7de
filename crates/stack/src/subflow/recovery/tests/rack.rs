//! RFC 8985 sections 6 and 6.2.

use super::*;

#[test]
fn with_few_sacked_a_segment_is_lost_a_quarter_of_the_least_round_trip_after_its_successors() {
    let mut bench = Bench::rack(5);
    let verdict = bench.ack(112, 0, &[1, 2]);
    assert!(!verdict.entered && bench.lost.is_empty());
    assert_eq!(bench.timer(), (ms(10 + 100 + 25), RetransmitTimer::Reordering));
    assert!(!bench.reordering_timer(134));
    assert!(bench.lost.is_empty());
    assert!(bench.reordering_timer(135));
    assert_eq!(bench.lost, [0]);
    assert_eq!(bench.state(), RecoveryState::Recovery);
    assert!(bench.recovery.force);
    assert_eq!(bench.board.lost_segments(), 1);
}

#[test]
fn with_three_sacked_and_no_reordering_the_window_is_zero() {
    let mut bench = Bench::rack(5);
    let verdict = bench.ack(113, 0, &[1, 2, 3]);
    assert!(verdict.entered);
    assert_eq!(bench.lost, [0]);
    assert_eq!(bench.state(), RecoveryState::Recovery);
}

#[test]
fn a_subflow_that_expects_reordering_waits_for_one_round_trip_from_the_start() {
    let mut bench = Bench::rack(5);
    bench.recovery.tolerate(Tolerance { dup_thresh: 3, whole_round_trip: true });
    bench.ack(112, 0, &[1, 2]);
    assert_eq!(bench.reordering_at(), Some(10 + 100 + 100));
    assert!(!bench.reordering_timer(209));
    assert!(bench.reordering_timer(210));
    assert_eq!(bench.lost, [0]);
    // Without any reordering, the threshold of acknowledged segments still ends the wait.
    let mut bench = Bench::rack(5);
    bench.recovery.tolerate(Tolerance { dup_thresh: 3, whole_round_trip: true });
    assert!(bench.ack(113, 0, &[1, 2, 3]).entered);
}

#[test]
fn in_recovery_without_reordering_the_window_is_zero() {
    let mut bench = Bench::rack(5);
    bench.ack(111, 0, &[1]);
    assert!(bench.reordering_timer(135));
    let verdict = bench.ack(140, 0, &[3]);
    assert_eq!(bench.lost, [2]);
    assert!(!verdict.entered, "already in recovery");
}

#[test]
fn once_reordering_was_seen_the_window_stays_with_three_sacked() {
    let mut bench = Bench::rack(8);
    bench.ack(111, 0, &[1]);
    bench.ack(112, 2, &[]);
    bench.ack(115, 2, &[3, 4, 5]);
    assert!(bench.lost.is_empty());
    assert_eq!(bench.reordering_at(), Some(12 + 100 + 25));
}

#[test]
fn acknowledgements_in_order_and_of_retransmissions_are_no_reordering() {
    let mut bench = Bench::rack(10);
    bench.ack(112, 1, &[]);
    bench.ack(112, 3, &[]);
    bench.ack(116, 3, &[4, 5, 6]);
    assert_eq!(bench.lost, [3]);
    bench.resend(3, 117);
    assert!(!bench.ack(218, 7, &[]).ended);
    assert!(bench.ack(219, 10, &[]).ended);
    for at in 220..225 {
        bench.send(at);
    }
    bench.ack(323, 10, &[11, 12, 13]);
    assert_eq!(bench.lost, [10]);
}

#[test]
fn of_segments_that_left_together_the_later_offset_is_the_newer() {
    let mut bench = Bench::rack(0);
    for _ in 0..6 {
        bench.send(10);
    }
    bench.ack(110, 0, &[1, 2, 3]);
    assert_eq!(bench.lost, [0], "and neither 4 nor 5, which may still come");
    bench.ack(111, 0, &[5]);
    assert_eq!(bench.lost, [4]);
}

#[test]
fn segments_sent_after_the_newest_delivered_one_are_not_lost() {
    let mut bench = Bench::rack(8);
    bench.ack(500, 0, &[1, 2, 3]);
    assert_eq!(bench.lost, [0]);
    assert_eq!(bench.reordering_at(), None);
}

/// Returns the reordering window after `dsacks` round trips with two DSACKs each, in milliseconds.
fn window_after(dsacks: u64, min_rtt: u64, srtt: u64) -> u64 {
    let mut bench = Bench::new(&ConnectionConfig::linux());
    bench.measure(min_rtt);
    while bench.rtt.srtt() < Some(Duration::from_millis(srtt)) {
        bench.measure(srtt * 2);
    }
    let srtt = bench.rtt.srtt_or_zero().as_micros() / 1000;
    for round in 0..dsacks {
        bench.send(10);
        bench.dsack(11, round, 0);
        bench.dsack(11, round, 0);
        bench.ack(11, round + 1, &[]);
    }
    window(&mut bench, 1_000).min(srtt * 10)
}

/// Returns the reordering window of one segment that is overtaken by another.
fn window(bench: &mut Bench, now: u64) -> u64 {
    let una = bench.board.una() / MSS;
    bench.send(now);
    bench.send(now);
    bench.ack(now + 150, una, &[una + 1]);
    let (due, timer) = bench.timer_from(now + 100_000, now);
    assert_eq!(timer, RetransmitTimer::Reordering);
    let window = due.as_nanos() / 1_000_000 - (now + 150);
    bench.ack(now + 150, una + 2, &[]);
    window
}

#[test]
fn the_window_grows_once_per_round_trip_with_a_dsack() {
    assert_eq!(window_after(0, 100, 100), 25);
    assert_eq!(window_after(1, 100, 100), 50);
    assert_eq!(window_after(2, 100, 100), 75);
}

#[test]
fn the_window_is_no_longer_than_the_smoothed_round_trip() {
    assert_eq!(window_after(3, 100, 100), 100);
    assert_eq!(window_after(9, 100, 100), 100);
    assert_eq!(window_after(5, 100, 150), 150);
}

#[test]
fn a_round_ends_when_all_is_acknowledged_that_was_sent_before_its_dsack() {
    let mut bench = Bench::rack(2);
    bench.dsack(20, 0, 0);
    // One octet before the round's end, and then at it.
    bench.acknowledge(112, 2 * MSS - 1, &[], false, false);
    bench.recovery.on_dsack(&bench.board, MSS);
    bench.ack(112, 2, &[]);
    assert_eq!(window(&mut bench, 1_000), 50);
    bench.recovery.on_dsack(&bench.board, MSS);
    assert_eq!(window(&mut bench, 2_000), 75);
}

#[test]
fn sixteen_recoveries_without_a_dsack_reset_the_window() {
    let mut bench = Bench::rack(1);
    bench.dsack(11, 0, 0);
    bench.ack(110, 1, &[]);
    let mut now = 1_000;
    for recovery in 0..16 {
        assert_eq!(window(&mut bench, now), 50, "after {recovery} recoveries");
        now += 1_000;
        let una = bench.board.una() / MSS;
        for _ in 0..4 {
            bench.send(now);
        }
        // Reordering was seen, so the window must pass.
        bench.ack(now + 100, una, &[una + 1, una + 2, una + 3]);
        bench.reordering_timer(now + 150);
        assert_eq!(bench.lost, [una]);
        bench.resend(una, now + 150);
        assert!(bench.ack(now + 250, una + 4, &[]).ended);
        now += 1_000;
    }
    assert_eq!(window(&mut bench, now), 25);
}

#[test]
fn a_dsack_starts_the_sixteen_recoveries_anew() {
    let mut bench = Bench::rack(1);
    bench.dsack(11, 0, 0);
    bench.ack(110, 1, &[]);
    let mut now = 1_000;
    for recovery in 0..20 {
        if recovery == 8 {
            bench.recovery.on_dsack(&bench.board, MSS);
        }
        let una = bench.board.una() / MSS;
        for _ in 0..4 {
            bench.send(now);
        }
        bench.ack(now + 100, una, &[una + 1, una + 2, una + 3]);
        bench.reordering_timer(now + 200);
        bench.resend(una, now + 200);
        assert!(bench.ack(now + 300, una + 4, &[]).ended);
        now += 1_000;
    }
    assert_eq!(window(&mut bench, now), 75);
}

/// Returns a bench in which segment 0 is lost and retransmitted at 120; then 8 and 9 are sent for the first
/// time, at 121 and 122.
fn repaired() -> Bench {
    let mut bench = Bench::rack(8);
    bench.ack(113, 0, &[1, 2, 3]);
    assert_eq!(bench.lost, [0]);
    bench.resend(0, 120);
    bench.send(121);
    bench.send(122);
    bench
}

#[test]
fn a_retransmission_is_lost_again_when_something_sent_later_arrives() {
    let mut bench = repaired();
    bench.ack(119, 0, &[4, 5, 6, 7]);
    assert!(bench.lost.is_empty(), "those left before it");
    let verdict = bench.ack(221, 0, &[8]);
    assert_eq!(bench.lost, [0]);
    assert!(!verdict.entered);
    assert_eq!(bench.board.lost_segments(), 1);
}

#[test]
fn a_retransmission_too_has_its_reordering_window() {
    let mut bench = repaired();
    bench.ack(114, 0, &[5]);
    assert_eq!(bench.lost, [4]);
    bench.resend(4, 120);
    // Segment 6 overtakes segment 7, which shows reordering.
    bench.ack(117, 0, &[7]);
    bench.ack(118, 0, &[6]);
    bench.ack(221, 0, &[8]);
    assert!(bench.lost.is_empty());
    assert_eq!(bench.reordering_at(), Some(120 + 100 + 25));
    assert!(!bench.reordering_timer(244));
    assert!(bench.lost.is_empty());
    assert!(!bench.reordering_timer(245), "the recovery has begun before");
    assert_eq!(bench.lost, [0, 4]);
    assert_eq!(bench.reordering_at(), None);
}

#[test]
fn retransmissions_of_acknowledged_data_are_skipped() {
    let mut bench = Bench::rack(10);
    bench.ack(117, 0, &[1, 2, 3, 5, 6, 7]);
    assert_eq!(bench.lost, [0, 4]);
    bench.resend(0, 120);
    bench.resend(4, 121);
    bench.send(122);
    bench.ack(220, 4, &[8, 9]);
    assert!(bench.lost.is_empty());
    bench.ack(222, 4, &[10]);
    assert_eq!(bench.lost, [4]);
    bench.resend(4, 223);
    bench.send(224);
    bench.ack(324, 4, &[11]);
    assert_eq!(bench.lost, [4]);
}

#[test]
fn a_retransmission_of_which_a_part_was_acknowledged_is_lost_again_too() {
    let mut bench = repaired();
    bench.acknowledge(220, 400, &[], false, false);
    assert_eq!(bench.lost, [4, 5, 6, 7]);
    assert_eq!(bench.reordering_at(), None, "nothing newer has arrived");
    bench.ack(221, 0, &[8]);
    assert_eq!(bench.lost, [0]);
    assert_eq!(bench.board.records()[0].seq, 400);
}

/// Sends segment 5 before the retransmission of segment 0 at 120, which is acknowledged at `at`.
fn acknowledged(at: u64, echo: Option<u64>) -> Vec<u64> {
    let mut bench = Bench::rack(6);
    bench.ack(113, 0, &[1, 2, 3]);
    bench.resend(0, 120);
    bench.echo = echo;
    bench.ack(at, 4, &[]);
    if bench.lost.is_empty() {
        assert_eq!(bench.reordering_at(), None, "nothing newer has arrived");
    }
    bench.lost
}

#[test]
fn a_delivered_retransmission_shows_that_older_segments_are_lost() {
    assert_eq!(acknowledged(220, None), [4, 5]);
    assert_eq!(acknowledged(220, Some(120)), [4, 5]);
}

#[test]
fn an_acknowledgement_of_the_original_does_not_stand_for_the_retransmission() {
    // Sooner than any round trip.
    assert_eq!(acknowledged(219, None), []);
    // By its timestamp. (Undo is off, so the timestamp has no other effect.)
    let mut bench = Bench::new(&ConnectionConfig { undo: false, ..ConnectionConfig::linux() });
    bench.measure(100);
    bench.send_many(6);
    bench.ack(113, 0, &[1, 2, 3]);
    bench.resend(0, 120);
    bench.echo = Some(119);
    bench.ack(230, 4, &[]);
    assert_eq!(bench.lost, []);
    assert_eq!(bench.reordering_at(), None);
}

#[test]
fn the_scan_finds_segments_skipped_while_it_waited() {
    let mut bench = Bench::rack(12);
    bench.ack(111, 0, &[1]);
    bench.ack(112, 2, &[]);
    // Reordering seen: 2, 4 and 6 wait for their windows of 25 ms.
    bench.ack(117, 2, &[3, 5, 7]);
    assert!(bench.lost.is_empty());
    assert!(bench.reordering_timer(139));
    assert_eq!(bench.lost, [2, 4]);
    assert_eq!(bench.reordering_at(), Some(16 + 100 + 25));
    assert!(!bench.reordering_timer(141));
    assert_eq!(bench.lost, [6]);
    bench.ack(145, 2, &[9]);
    assert_eq!(bench.reordering_at(), Some(18 + 126 + 25));
    bench.reordering_timer(169);
    assert_eq!(bench.lost, [8]);
}

#[test]
fn the_rest_of_a_segment_that_is_acknowledged_in_parts_is_no_reordering() {
    let mut bench = Bench::rack(6);
    bench.acknowledge(110, 400, &[], false, false);
    bench.ack(111, 1, &[]);
    bench.ack(114, 1, &[2, 3, 4]);
    assert_eq!(bench.lost, [1]);
}

#[test]
fn the_first_part_of_a_segment_to_be_acknowledged_measures_its_round_trip() {
    let mut bench = Bench::rack(10);
    // Reordering, and 2 and 6 lost.
    bench.ack(111, 0, &[1]);
    bench.ack(112, 2, &[]);
    bench.ack(117, 2, &[3, 4, 5, 7, 8, 9]);
    bench.reordering_timer(160);
    assert_eq!(bench.lost, [2, 6]);
    bench.resend(6, 169);
    bench.resend(2, 170);
    bench.acknowledge(270, 2 * MSS + 400, &[], false, false);
    assert_eq!(bench.reordering_at(), Some(169 + 100 + 25));
    bench.ack(290, 6, &[]);
    assert_eq!(bench.reordering_at(), Some(169 + 100 + 25));
}

// A receiver may acknowledge the first segment selectively rather than cumulatively.
#[test]
fn segments_overtaken_by_a_sacked_retransmission_are_lost() {
    let mut bench = Bench::rack(3);
    bench.ack(112, 0, &[2]);
    assert!(bench.reordering_timer(140));
    assert_eq!(bench.lost, [0, 1]);
    bench.send(141);
    bench.resend(0, 142);
    bench.ack(250, 0, &[0]);
    assert_eq!(bench.lost, [3]);
}

/// Returns a bench in which the first of five segments is acknowledged and the others are lost; the last is
/// retransmitted as a probe at 310.
fn probed() -> Bench {
    let mut bench = Bench::rack(5);
    bench.ack(110, 1, &[]);
    bench.recovery.on_probe(5 * MSS, true);
    bench.resend(4, 310);
    bench.echo = Some(10);
    bench
}

// RFC 8985 section 7.4.1, RFC 7323 section 4.3: the echo is from segment 0, the last in order.
#[test]
fn a_selectively_acknowledged_probe_shows_that_older_segments_are_lost() {
    let mut bench = probed();
    assert!(bench.ack(410, 1, &[4]).entered);
    assert_eq!(bench.lost, [1, 2, 3]);
    assert_eq!(bench.state(), RecoveryState::Recovery);
}

#[test]
fn a_selective_acknowledgement_sooner_than_any_round_trip_is_not_of_the_probe() {
    let mut bench = probed();
    assert!(!bench.ack(409, 1, &[4]).entered);
    assert_eq!(bench.lost, []);
    assert_eq!(bench.reordering_at(), None);
}

// RFC 7323 section 4.3: an acknowledgement of two segments echoes the timestamp of the first.
#[test]
fn the_echo_does_not_concern_a_retransmission_after_a_segment_that_was_sent_once() {
    let mut bench = Bench::rack(4);
    bench.recovery.on_probe(4 * MSS, true);
    bench.resend(1, 310);
    bench.echo = Some(10);
    bench.ack(410, 2, &[]);
    assert_eq!(bench.lost, [2, 3]);
}

// One acknowledgement covers two originals; each of them was retransmitted, and the echo is from one of them.
#[test]
fn an_acknowledgement_of_several_originals_acknowledges_none_of_their_retransmissions() {
    let mut bench = Bench::new(&ConnectionConfig { undo: false, ..ConnectionConfig::linux() });
    bench.measure(100);
    bench.send_many(10);
    bench.ack(117, 0, &[1, 2, 3, 5, 6, 7]);
    assert_eq!(bench.lost, [0, 4]);
    bench.resend(0, 120);
    bench.resend(4, 121);
    bench.echo = Some(14);
    bench.ack(230, 8, &[]);
    assert_eq!(bench.lost, []);
    assert_eq!(bench.reordering_at(), None);
}

// `tcp_check_sack_reordering` and `tcp_may_raise_cwnd` in net/ipv4/tcp_input.c: the degree must exceed three segments.
#[test]
fn reordering_is_expected_once_a_segment_arrives_after_three_later_ones() {
    for (sacked, expected) in [(&[1, 2][..], false), (&[1, 2, 3], true)] {
        let mut bench = Bench::rack(10);
        bench.ack(110, 0, sacked);
        assert!(!bench.recovery.expects_reordering(MSS));
        bench.ack(112, 4, &[]);
        assert_eq!(bench.recovery.expects_reordering(MSS), expected, "{sacked:?}");
    }
}
