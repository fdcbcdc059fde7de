//! Duplicate acknowledgements: RFC 5681 section 3.2, RFC 6582, RFC 3042.

use super::*;

#[test]
fn the_third_duplicate_starts_a_recovery() {
    let mut bench = Bench::newreno(10);
    assert!(!bench.duplicate(110).entered);
    assert_eq!(bench.recovery.credit(), MSS);
    assert!(!bench.duplicate(111).entered);
    assert_eq!(bench.recovery.credit(), 2 * MSS);
    assert!(bench.lost.is_empty() && !bench.recovery.force);
    assert!(bench.duplicate(112).entered);
    assert_eq!(bench.lost, [0]);
    assert_eq!(bench.recovery.credit(), 3 * MSS);
    assert!(bench.recovery.force);
    assert_eq!(bench.state(), RecoveryState::Recovery);
    assert!(!bench.duplicate(113).entered);
    assert_eq!(bench.recovery.credit(), 4 * MSS);
    assert!(bench.lost.is_empty());
}

#[test]
fn without_limited_transmit_two_duplicates_give_no_credit() {
    let config = ConnectionConfig { limited_transmit: false, ..ConnectionConfig::ns3() };
    let mut bench = Bench::new(&config);
    bench.send_many(5);
    bench.duplicate(110);
    bench.duplicate(111);
    assert_eq!(bench.recovery.credit(), 0);
    assert!(bench.duplicate(112).entered);
}

#[test]
fn only_duplicates_are_counted_and_an_advance_restarts_the_count() {
    let mut bench = Bench::newreno(10);
    bench.duplicate(110);
    bench.duplicate(111);
    bench.ack(112, 0, &[]);
    assert_eq!(bench.state(), RecoveryState::Open);
    bench.ack(113, 1, &[]);
    assert_eq!(bench.recovery.credit(), 0);
    bench.duplicate(114);
    bench.duplicate(115);
    assert_eq!(bench.state(), RecoveryState::Open);
    assert!(bench.duplicate(116).entered);
    assert_eq!(bench.lost, [1]);
}

fn recovering() -> Bench {
    let mut bench = Bench::newreno(10);
    for at in 110..114 {
        bench.duplicate(at);
    }
    bench.resend(0, 114);
    bench.recovery.force = false;
    bench
}

#[test]
fn a_partial_acknowledgement_shows_the_next_hole_and_keeps_one_segment_of_credit() {
    let mut bench = recovering();
    assert_eq!(bench.recovery.credit(), 4 * MSS);
    let verdict = bench.ack(214, 3, &[]);
    assert!(!verdict.entered && !verdict.ended);
    assert_eq!(bench.lost, [3]);
    assert!(bench.recovery.force);
    assert_eq!(bench.recovery.credit(), 2 * MSS);
    bench.resend(3, 215);
    bench.ack(315, 9, &[]);
    assert_eq!(bench.recovery.credit(), 0);
    assert_eq!(bench.lost, [9]);
}

#[test]
fn a_retransmission_is_not_sent_a_third_time_for_duplicates() {
    let mut bench = recovering();
    for at in 120..130 {
        bench.duplicate(at);
    }
    assert_eq!(bench.board.lost_segments(), 0);
    assert_eq!(bench.recovery.credit(), 14 * MSS);
}

#[test]
fn the_full_acknowledgement_ends_the_recovery() {
    let mut bench = recovering();
    let verdict = bench.ack(214, 10, &[]);
    assert!(verdict.ended && !verdict.entered);
    assert_eq!(bench.state(), RecoveryState::Open);
    assert_eq!(bench.recovery.credit(), 0);
    assert!(!bench.recovery.force);
}

#[test]
fn the_duplicates_of_one_recovery_do_not_count_for_the_next() {
    let mut bench = recovering();
    bench.send_many(10);
    bench.ack(214, 11, &[]);
    bench.duplicate(215);
    bench.duplicate(216);
    assert_eq!(bench.state(), RecoveryState::Open);
    assert!(bench.duplicate(217).entered);
}

// RFC 6582 section 3.2 step 1.
#[test]
fn duplicates_of_data_in_flight_at_the_last_recovery_start_no_other() {
    let mut bench = recovering();
    bench.send_many(10);
    bench.ack(214, 10, &[]);
    for at in 215..220 {
        assert!(!bench.duplicate(at).entered);
    }
    assert_eq!(bench.state(), RecoveryState::Open);
    assert_eq!(bench.recovery.credit(), 2 * MSS, "limited transmit is for the first two");
    bench.ack(221, 11, &[]);
    bench.duplicate(222);
    bench.duplicate(223);
    assert!(bench.duplicate(224).entered);
}

#[test]
fn duplicates_after_a_timeout_neither_count_nor_give_credit() {
    let mut bench = Bench::newreno(10);
    bench.duplicate(110);
    bench.timeout();
    assert_eq!(bench.recovery.credit(), 0);
    for at in 400..405 {
        assert!(!bench.duplicate(at).entered);
    }
    assert_eq!(bench.recovery.credit(), 0);
    assert_eq!(bench.state(), RecoveryState::Loss);
    bench.resend(0, 405);
    bench.ack(505, 1, &[]);
    assert!(bench.lost.is_empty(), "all is known to be lost");
    bench.ack(506, 10, &[]);
    for at in 510..515 {
        assert!(!bench.duplicate(at).entered);
    }
}

#[test]
fn without_sack_duplicates_are_counted_whatever_the_configuration() {
    let config = ConnectionConfig { sack: false, ..ConnectionConfig::linux() };
    let mut bench = Bench::new(&config);
    bench.send_many(5);
    bench.duplicate(110);
    bench.duplicate(111);
    assert!(bench.duplicate(112).entered);
}

#[test]
fn with_rack_duplicates_alone_mean_nothing() {
    let mut bench = Bench::rack(5);
    for at in 110..120 {
        assert!(!bench.duplicate(at).entered);
    }
    assert_eq!(bench.recovery.credit(), 0);
}

// RFC 6582 section 3.2 step 3, the impatient variant.
#[test]
fn the_first_partial_acknowledgement_alone_restarts_the_timer() {
    let mut bench = recovering();
    assert!(bench.recovery.restarts_timer());
    bench.ack(214, 3, &[]);
    assert!(bench.recovery.restarts_timer());
    bench.resend(3, 215);
    bench.ack(315, 9, &[]);
    assert!(!bench.recovery.restarts_timer());
    bench.ack(316, 10, &[]);
    assert!(bench.recovery.restarts_timer(), "it is over");
    let mut rack = Bench::rack(5);
    rack.ack(115, 0, &[2, 3, 4]);
    assert_eq!(rack.state(), RecoveryState::Recovery);
    assert!(rack.recovery.restarts_timer());
}
