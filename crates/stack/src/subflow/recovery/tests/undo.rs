//! Undo of spurious recoveries: by timestamps (RFC 3522) or by DSACKs (RFC 3708).

use super::*;

/// Returns a bench in which segments 0 and 4 of ten are marked lost and retransmitted, at 120 and 121.
fn recovering() -> Bench {
    let mut bench = Bench::rack(10);
    bench.ack(117, 0, &[1, 2, 3, 5, 6, 7]);
    assert_eq!(bench.lost, [0, 4]);
    bench.resend(0, 120);
    bench.resend(4, 121);
    bench
}

#[test]
fn a_recovery_is_undone_when_every_retransmission_was_a_duplicate() {
    let mut bench = recovering();
    let verdict = bench.dsack(220, 4, 0);
    assert!(!verdict.undone);
    assert_eq!(bench.state(), RecoveryState::Recovery);
    let verdict = bench.dsack(221, 8, 4);
    assert!(verdict.undone && verdict.ended && !verdict.entered);
    assert_eq!(bench.state(), RecoveryState::Open);
    assert!(!bench.recovery.force);
}

#[test]
fn without_a_retransmission_a_dsack_undoes_nothing() {
    let mut bench = Bench::rack(10);
    assert!(!bench.dsack(20, 0, 0).undone);
    bench.ack(113, 0, &[1, 2, 3]);
    assert!(!bench.dsack(114, 0, 1).undone);
}

#[test]
fn a_dsack_after_the_recovery_has_ended_undoes_it_once() {
    let mut bench = recovering();
    assert!(bench.ack(220, 10, &[]).ended);
    assert!(!bench.dsack(221, 10, 0).undone);
    let verdict = bench.dsack(222, 10, 4);
    assert!(verdict.undone && !verdict.ended);
    assert!(!bench.dsack(223, 10, 4).undone);
}

#[test]
fn each_recovery_counts_its_own_retransmissions() {
    let mut bench = recovering();
    bench.ack(220, 10, &[]);
    for at in 221..226 {
        bench.send(at);
    }
    bench.ack(325, 10, &[11, 12, 13]);
    assert_eq!(bench.lost, [10]);
    bench.resend(10, 326);
    assert!(bench.dsack(426, 14, 10).undone);
}

#[test]
fn an_acknowledgement_older_than_the_first_retransmission_undoes() {
    let mut bench = recovering();
    bench.echo = Some(119);
    let verdict = bench.ack(130, 4, &[]);
    assert!(verdict.undone && verdict.ended);
    assert_eq!(bench.state(), RecoveryState::Open);
}

#[test]
fn an_acknowledgement_as_young_as_the_first_retransmission_undoes_nothing() {
    let mut bench = recovering();
    bench.echo = Some(120);
    assert!(!bench.ack(220, 4, &[]).undone);
    bench.echo = None;
    assert!(!bench.ack(220, 8, &[]).undone);
}

#[test]
fn an_old_timestamp_that_acknowledges_nothing_undoes_nothing() {
    let mut bench = recovering();
    bench.echo = Some(20);
    assert!(!bench.ack(130, 0, &[8]).undone);
    assert_eq!(bench.state(), RecoveryState::Recovery);
}

#[test]
fn a_profile_without_undo_undoes_nothing() {
    let mut bench = Bench::new(&ConnectionConfig { undo: false, ..ConnectionConfig::linux() });
    bench.measure(100);
    bench.send_many(10);
    bench.ack(113, 0, &[1, 2, 3]);
    bench.resend(0, 120);
    assert!(!bench.dsack(121, 0, 0).undone);
    bench.resend(0, 122);
    bench.echo = Some(20);
    assert!(!bench.ack(130, 4, &[]).undone);
    // Even if the caller requests it.
    assert!(!bench.acknowledge(140, 10 * MSS, &[], false, true).undone);
    assert!(!bench.acknowledge(141, 10 * MSS, &[], false, true).undone);
    assert_eq!(bench.state(), RecoveryState::Open);
}

#[test]
fn pending_retransmissions_are_in_flight_again_after_an_undo() {
    let mut bench = Bench::rack(10);
    bench.ack(117, 0, &[1, 2, 3, 5, 6, 7]);
    bench.resend(0, 120);
    bench.echo = Some(10);
    assert!(bench.ack(121, 1, &[]).undone);
    assert_eq!(bench.board.lost_segments(), 0);
    assert_eq!(bench.board.in_flight(), 3 * MSS);
    // It counts as reordering, so the other segment has its window, and is lost afterwards.
    assert_eq!(bench.reordering_at(), Some(14 + 100 + 25));
    bench.ack(130, 4, &[]);
    assert!(bench.lost.is_empty());
    assert!(bench.reordering_timer(139));
    assert_eq!(bench.lost, [4]);
}

#[test]
fn a_spurious_timeout_is_undone() {
    let mut bench = Bench::rack(5);
    bench.timeout();
    bench.resend(0, 400);
    bench.echo = Some(10);
    let verdict = bench.ack(410, 1, &[]);
    assert!(verdict.undone && verdict.ended);
    assert_eq!(bench.state(), RecoveryState::Open);
    assert_eq!(bench.recovery.timeouts(), 0);
    assert_eq!(bench.board.in_flight(), 4 * MSS);
    // A second undo is impossible.
    assert!(!bench.ack(411, 2, &[]).undone);
}

#[test]
fn a_timeout_in_recovery_keeps_count_of_the_retransmissions() {
    let mut bench = Bench::rack(5);
    bench.ack(113, 0, &[1, 2, 3]);
    bench.resend(0, 120);
    assert!(bench.timeout(), "the first of this data");
    bench.resend(0, 400);
    assert!(!bench.dsack(410, 0, 0).undone);
    assert!(bench.dsack(411, 0, 0).undone);
}

#[test]
fn a_second_timeout_keeps_count_of_the_retransmissions() {
    let mut bench = Bench::rack(5);
    bench.timeout();
    bench.resend(0, 400);
    bench.timeout();
    bench.resend(0, 800);
    assert!(!bench.dsack(810, 0, 0).undone);
    assert!(bench.dsack(811, 0, 0).undone);
}

#[test]
fn after_an_undo_the_timer_waits_for_no_retransmission_that_has_arrived() {
    let mut bench = Bench::rack(10);
    bench.ack(117, 0, &[2, 3, 4, 5, 6, 7]);
    assert_eq!(bench.lost, [0, 1]);
    bench.resend(0, 120);
    bench.send(121);
    bench.echo = Some(119);
    assert!(bench.ack(222, 1, &[10]).undone);
    // The window of segment 9, not the window of the retransmission at 120.
    assert_eq!(bench.reordering_at(), Some(19 + 101 + 25));
}

// RFC 3522: only an acknowledgement of a segment older than every outstanding retransmission answers an
// original.
#[test]
fn the_answer_to_a_retransmission_of_the_last_recovery_undoes_nothing() {
    let mut bench = Bench::rack(10);
    bench.ack(113, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    bench.resend(0, 120);
    for at in 121..126 {
        bench.send(at);
    }
    // The retransmission is lost, and so is segment 10, which is retransmitted in the same recovery.
    bench.ack(222, 0, &[11]);
    assert_eq!(bench.lost, [10, 0]);
    bench.resend(0, 223);
    bench.resend(10, 224);
    bench.send(225);
    let verdict = bench.ack(323, 10, &[11, 12, 14]);
    assert!(verdict.ended && verdict.entered);
    assert_eq!(bench.lost, [13]);
    bench.resend(13, 325);
    bench.echo = Some(224);
    assert!(!bench.ack(326, 13, &[]).undone);
    assert_eq!(bench.state(), RecoveryState::Recovery);
    // After those are acknowledged, the next recovery has its own undo.
    bench.echo = None;
    assert!(bench.ack(425, 16, &[]).ended);
    for _ in 0..5 {
        bench.send(430);
    }
    bench.ack(530, 16, &[17, 18, 19]);
    bench.resend(16, 531);
    bench.echo = Some(430);
    assert!(bench.ack(540, 20, &[]).undone);
}

#[test]
fn after_an_undo_retransmissions_can_be_lost_again() {
    let mut bench = Bench::rack(8);
    bench.ack(113, 0, &[1, 2, 3]);
    bench.ack(115, 0, &[5]);
    assert_eq!(bench.lost, [4]);
    bench.resend(4, 119);
    bench.resend(0, 120);
    bench.send(121);
    bench.send(122);
    bench.ack(221, 0, &[8]);
    assert_eq!(bench.lost, [6, 7, 4, 0]);
    bench.echo = Some(118);
    assert!(bench.ack(222, 4, &[]).undone);
    bench.echo = None;
    bench.ack(223, 4, &[6, 7]);
    assert_eq!(bench.reordering_at(), Some(119 + 100 + 25));
    assert!(bench.reordering_timer(244));
    assert_eq!(bench.lost, [4]);
}

// RFC 4821 section 7.6.2.
#[test]
fn a_loss_by_a_path_mtu_probe_ends_at_once_and_is_not_undone_later() {
    let mut bench = Bench::rack(5);
    assert!(bench.ack(115, 0, &[2, 3, 4]).entered);
    bench.resend(0, 116);
    bench.recovery.force = false;
    bench.recovery.excuse();
    assert_eq!(bench.state(), RecoveryState::Open);
    assert!(bench.recovery.force, "what was lost goes out at once");
    assert!(!bench.dsack(216, 1, 0).undone);
}
