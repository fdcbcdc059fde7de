//! Loss detection and recovery: RFC 5681, 6582, 3042, 6298, 8985, 9937, 3522, 3708, 2018.

use anabranch_stack::config::{ConnectionConfig, LossDetection, RtoConfig, SimConfig};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::segment::{MptcpOption, Segment};
use anabranch_units::Duration;

use crate::kit::*;

/// Returns NewReno as in profile `ns3`: three duplicate ACKs, no SACK.
fn reno() -> ConnectionConfig {
    ConnectionConfig {
        loss_detection: LossDetection::DuplicateAcks,
        sack: false,
        prr: false,
        congestion: CongestionKind::NewReno,
        ..plain()
    }
}

/// Returns RACK-TLP with SACK.
fn rack() -> ConnectionConfig {
    ConnectionConfig { congestion: CongestionKind::NewReno, ..plain() }
}

/// Returns a client whose RTT is 10 ms and which has sent `count` segments, 10 ms ago.
fn sent(config: ConnectionConfig, count: i64) -> Script {
    let mut s = Script::client(config);
    s.inject(ack(0, 1));
    s.write(count as u64 * 1000);
    s.expect_data(0, 1, count);
    s.advance(10);
    s
}

/// Returns the subflow offsets of retransmissions.
fn offsets(s: &Script, sent: &[Segment]) -> Vec<i64> {
    let isn = s.subs[0].own_isn.unwrap().0;
    sent.iter().map(|segment| i64::from(segment.seq.0.wrapping_sub(isn) as i32)).collect()
}

fn counters(s: &Script) -> anabranch_stack::stats::SubflowCounters {
    s.subflow(0).counters
}

// ---- Three duplicate ACKs and NewReno ----

// RFC 5681 section 3.2, RFC 3042: the first two duplicate ACKs trigger new data, the third the lost segment.
#[test]
fn the_third_duplicate_ack_sends_the_lost_segment() {
    let mut s = sent(reno(), 10);
    s.write(10_000);
    s.inject(ack(0, 1));
    s.expect(data(0, 10_001, 1000));
    s.inject(ack(0, 1));
    s.expect(data(0, 11_001, 1000));
    s.inject(ack(0, 1));
    s.expect(data(0, 1, 1000));
    // Half of the ten in flight: limited transmit does not count (RFC 3042 section 2).
    assert_eq!(s.cwnd(0), 5);
    assert_eq!(counters(&s).recoveries, 1);
}

// RFC 3042: configurable.
#[test]
fn without_limited_transmit_two_duplicates_send_nothing() {
    let mut s = sent(ConnectionConfig { limited_transmit: false, ..reno() }, 10);
    s.write(10_000);
    s.inject(ack(0, 1));
    s.inject(ack(0, 1));
    s.expect_nothing();
    s.inject(ack(0, 1));
    s.expect(data(0, 1, 1000));
}

// RFC 5681 section 3.2, steps 4 and 5: the window grows by a segment per duplicate; with twelve in flight and
// a threshold of five, the eighth triggers new data.
#[test]
fn further_duplicates_let_new_data_out_when_the_window_has_swollen() {
    let mut s = sent(reno(), 10);
    s.write(10_000);
    s.inject_all([ack(0, 1), ack(0, 1), ack(0, 1)]);
    s.expect_data(0, 10_001, 2);
    s.expect(data(0, 1, 1000));
    for _ in 4..=7 {
        s.inject(ack(0, 1));
        s.expect_nothing();
    }
    s.inject(ack(0, 1));
    s.expect(data(0, 12_001, 1000));
    s.inject(ack(0, 1));
    s.expect(data(0, 13_001, 1000));
}

// RFC 6582 section 3.2, step 3: a partial ACK shows the next loss, which is retransmitted at once; the window
// is not halved a second time, and the full ACK ends recovery at the threshold.
#[test]
fn a_partial_ack_repairs_the_next_loss_without_halving_again() {
    let mut s = sent(reno(), 10);
    s.inject_all([ack(0, 1), ack(0, 1), ack(0, 1)]);
    s.expect(data(0, 1, 1000));
    s.advance(10);
    s.inject(ack(0, 4001));
    s.expect(data(0, 4001, 1000));
    s.inject_all([ack(0, 4001), ack(0, 4001), ack(0, 4001), ack(0, 4001)]);
    s.expect_nothing();
    s.inject(ack(0, 7001));
    s.expect(data(0, 7001, 1000));
    assert_eq!((s.cwnd(0), counters(&s).recoveries), (5, 1));
    s.inject(ack(0, 10_001));
    assert_eq!(s.cwnd(0), 5);
    s.write(10_000);
    s.expect_data(0, 10_001, 5);
}

// RFC 6582 section 3.2, step 1: duplicates for data in flight at the last recovery start no other.
#[test]
fn second_loss_in_one_window_does_not_halve_again() {
    let mut s = sent(ConnectionConfig { undo: false, ..reno() }, 10);
    while counters(&s).timeouts == 0 {
        s.wait_until_sent(1000);
    }
    assert_eq!(s.cwnd(0), 1);
    s.inject_all([ack(0, 1), ack(0, 1), ack(0, 1), ack(0, 1)]);
    s.expect_nothing();
    assert_eq!(counters(&s).recoveries, 0);
}

// RFC 6582 section 3.2, step 1: nor do duplicates of the ACK that ended it.
#[test]
fn duplicates_of_the_last_acks_of_a_recovery_begin_no_other() {
    let mut s = sent(reno(), 10);
    s.inject_all([ack(0, 1), ack(0, 1), ack(0, 1)]);
    s.expect(data(0, 1, 1000));
    s.inject(ack(0, 10_001));
    s.write(5000);
    s.expect_data(0, 10_001, 5);
    s.inject_all([ack(0, 10_001), ack(0, 10_001), ack(0, 10_001), ack(0, 10_001)]);
    s.expect_nothing();
    assert_eq!((s.cwnd(0), counters(&s).recoveries), (5, 1));
    // Later ones count again.
    s.inject(ack(0, 11_001));
    s.inject_all([ack(0, 11_001), ack(0, 11_001), ack(0, 11_001)]);
    s.expect(data(0, 11_001, 1000));
    assert_eq!(counters(&s).recoveries, 2);
}

// RFC 5681 section 2: no duplicates: with data, with a larger window, with nothing outstanding.
#[test]
fn only_real_duplicates_count() {
    let mut s = sent(reno(), 10);
    for at in 0..4 {
        s.inject(data(0, 1 + at * 10, 10));
        s.sent();
    }
    for step in 1..=4 {
        s.inject(ack(0, 1).seq(41).window(640_000 + step * 1280));
    }
    assert_eq!(counters(&s).recoveries, 0);
    s.inject(ack(0, 10_001).seq(41).window(645_120));
    for _ in 0..4 {
        s.inject(ack(0, 10_001).seq(41).window(645_120));
    }
    assert_eq!(counters(&s).recoveries, 0);
}

// RFC 8684 section 3, rows G1, C3, T28: an ACK with a signal is no duplicate; one with a DSS is.
#[test]
fn signals_are_no_duplicate_acks() {
    let mptcp = ConnectionConfig { mptcp: true, ..reno() };
    let mut s = Script::client(mptcp);
    s.write(10_000);
    s.expect_data(0, 1, 10);
    s.advance(10);
    for _ in 0..5 {
        s.inject(ack(0, 1).data_ack(0).option(MptcpOption::Priority { backup: false }));
    }
    let option = s.announcement(1, peer_ip(5), None);
    for _ in 0..5 {
        s.inject(ack(0, 1).option(option));
        assert!(s.sent().iter().all(|segment| segment.payload_len == 0));
    }
    assert_eq!((s.cwnd(0), counters(&s).recoveries), (10, 0));
    for _ in 0..3 {
        s.inject(ack(0, 1).data_ack(0));
    }
    s.expect(data(0, 1, 1000));
    // The data ends the row of echoes.
    s.expect(ack(0, 1).option(Script::echo(1, peer_ip(5), None)));
    assert_eq!(counters(&s).recoveries, 1);
}

// ---- The retransmission timeout ----

// RFC 6298 sections 5.1 to 5.6 and RFC 5681 section 3.1: doubled each time, one segment, threshold lowered once.
#[test]
fn the_timeout_is_doubled_and_sends_one_segment() {
    let mut s = Script::client(ConnectionConfig { undo: false, ..reno() });
    s.write(10_000);
    s.expect_data(0, 1, 10);
    // RTT 10 ms, so the variation is at its minimum: 10 ms + 200 ms.
    for wait in [210, 420, 840, 1680] {
        s.expect_after(wait, data(0, 1, 1000));
    }
    assert_eq!((s.cwnd(0), counters(&s).timeouts), (1, 4));
    s.inject(ack(0, 1001));
    s.expect(data(0, 1001, 1000));
    s.expect(data(0, 2001, 1000));
    // Slow start up to half of the data in flight at the first timeout.
    s.inject(ack(0, 3001));
    assert_eq!(s.sent().len(), 4);
    s.inject(ack(0, 7001));
    s.sent();
    s.inject(ack(0, 10_001));
    assert!((5..=6).contains(&s.cwnd(0)), "{}", s.cwnd(0));
}

// RFC 6298 section 5.7, and Linux: progress resets the backoff.
#[test]
fn progress_ends_the_backoff() {
    let mut s = Script::client(ConnectionConfig { undo: false, ..reno() });
    s.write(10_000);
    s.expect_data(0, 1, 10);
    for wait in [210, 420, 840] {
        s.expect_after(wait, data(0, 1, 1000));
    }
    s.advance(10);
    s.inject(ack(0, 1001));
    s.expect_data(0, 1001, 2);
    let before = s.now;
    s.wait_until_sent(2000);
    let wait = s.now.since(before).as_micros();
    assert!(wait < 600_000, "{wait}");
}

// Profile ns3 (definitions.md): the timeout is not doubled.
#[test]
fn profile_ns3_does_not_back_off() {
    let ns3 = SimConfig::ns3().connection;
    let config = ConnectionConfig {
        mptcp: false,
        mss: MSS,
        path_manager: anabranch_stack::path_manager::PathManagerKind::None,
        ..ns3
    };
    let mut s = Script::client(config);
    s.write(10_000);
    s.expect_data(0, 1, 1);
    for _ in 0..5 {
        s.expect_after(200, data(0, 1, 1000));
    }
}

// RFC 6298 section 3 (Karn): without timestamps a retransmitted segment is no sample.
#[test]
fn a_retransmitted_segment_is_no_rtt_sample() {
    let mut s = Script::client(ConnectionConfig { timestamps: false, undo: false, ..reno() });
    s.write(1000);
    s.expect(data(0, 1, 1000));
    s.expect_after(210, data(0, 1, 1000));
    let before = s.subflow(0).srtt;
    s.advance(100);
    s.inject(ack(0, 1001));
    assert_eq!(s.subflow(0).srtt, before);
    s.write(1000);
    s.expect(data(0, 1001, 1000));
    s.advance(90);
    s.inject(ack(0, 2001));
    // 7/8 of 10 ms and 1/8 of 90 ms (RFC 6298 section 2.3).
    assert_eq!(s.subflow(0).srtt, Some(Duration::from_millis(20)));
}

// RFC 6298 section 5: the timer restarts when new data is acknowledged.
#[test]
fn the_timer_starts_anew_with_progress() {
    let mut s = Script::client(ConnectionConfig { undo: false, ..reno() });
    s.write(4000);
    s.expect_data(0, 1, 4);
    s.advance(10);
    s.inject(ack(0, 1001));
    s.expect_after(210, data(0, 1001, 1000));
}

// RFC 5681 section 3.1, RFC 6298 section 5: after the maximum number of timeouts a plain TCP gives up.
#[test]
fn too_many_timeouts_end_a_plain_tcp() {
    let rto = RtoConfig { max_timeouts: 3, ..reno().rto };
    let mut s = Script::client(ConnectionConfig { rto, ..reno() });
    s.write(1000);
    s.expect(data(0, 1, 1000));
    for wait in [210, 420, 840] {
        s.expect_after(wait, data(0, 1, 1000));
    }
    s.expect_after(1680, seg(0).flags(RA));
    use anabranch_stack::event::{CloseReason, Event};
    assert_eq!(s.events.last(), Some(&Event::Closed(CloseReason::TimedOut)));
}

// RFC 3522, RFC 4015: the ACK echoes the timestamp of the original: nothing was lost, and the state is
// restored.
#[test]
fn an_echo_of_the_original_undoes_a_timeout() {
    let mut s = Script::client(reno());
    s.write(10_000);
    s.expect_data(0, 1, 10);
    let original = s.subs[0].last_value;
    s.expect_after(210, data(0, 1, 1000));
    assert_eq!(s.cwnd(0), 1);
    s.advance(10);
    s.inject(ack(0, 1001).echo_us(original));
    // The previous window, and one more segment for the one acknowledged.
    assert_eq!((s.cwnd(0), counters(&s).undos), (11, 1));
    s.expect_nothing();
    s.inject(ack(0, 10_001).echo_us(original));
    assert_eq!(counters(&s).segments_retransmitted, 1);
}

// RFC 3522: the echo of the retransmission undoes nothing.
#[test]
fn an_echo_of_the_retransmission_undoes_nothing() {
    let mut s = Script::client(reno());
    s.write(10_000);
    s.expect_data(0, 1, 10);
    s.expect_after(210, data(0, 1, 1000));
    s.advance(10);
    s.inject(ack(0, 1001));
    s.expect_data(0, 1001, 2);
    assert_eq!(counters(&s).undos, 0);
}

// ---- RACK ----

// RFC 8985 section 6.2: three segments are selectively acknowledged and no reordering was seen: no wait.
#[test]
fn without_reordering_three_sacked_segments_mean_a_loss_at_once() {
    let mut s = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    s.expect(data(0, 1, 1000));
    assert_eq!(counters(&s).recoveries, 1);
}

// RFC 8985 sections 6.2 and 6.3: a single one waits a quarter of the minimum RTT, by a timer.
#[test]
fn one_sacked_segment_waits_for_the_reordering_window() {
    let mut s = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(1001, 2001)]));
    s.advance_us(2499);
    s.expect_nothing();
    s.advance_us(1);
    s.expect(data(0, 1, 1000));
    assert_eq!(counters(&s).recoveries, 1);
}

// An acknowledgement that advances without blocks, as with options that leave no space for them, is no ordinary one
// while a segment after it was overtaken.
#[test]
fn an_advance_without_blocks_leaves_the_reordering_window_of_the_rest() {
    let mut s = sent(rack(), 5);
    s.inject(ack(0, 1).sack(&[(3001, 4001)]));
    s.expect_nothing();
    s.inject(ack(0, 1001));
    s.expect_nothing();
    s.advance_us(2499);
    s.expect_nothing();
    s.advance_us(1);
    s.expect(data(0, 1001, 1000));
    s.expect(data(0, 2001, 1000));
}

// The octet of a FIN is selectively acknowledged like a byte: it shows that the end of the stream was lost, so
// that the sender does not wait for its timeout, and the FIN is not repeated.
#[test]
fn a_selectively_acknowledged_fin_repairs_the_end_of_the_stream() {
    let mut s = Script::client(rack());
    s.inject(ack(0, 1));
    s.write(3000);
    s.expect_data(0, 1, 3);
    s.close();
    s.expect(seg(0).flags(FA).seq(3001));
    s.advance(10);
    s.inject(ack(0, 2001).sack(&[(3001, 3002)]));
    s.advance_us(2499);
    s.expect_nothing();
    s.advance_us(1);
    s.expect(data(0, 2001, 1000));
    assert_eq!((counters(&s).recoveries, counters(&s).timeouts), (1, 0));
    s.advance(10);
    s.inject(ack(0, 3002));
    assert!(s.events.contains(&anabranch_stack::event::Event::AllAcked));
    s.advance(5000);
    s.expect_nothing();
}

// RFC 8985 section 6.2, step 3: a segment that arrives late without a retransmission was reordered: from then
// on three are not enough to skip the window.
#[test]
fn once_reordering_was_seen_the_window_is_waited_for() {
    let mut s = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(1001, 2001)]));
    s.inject(ack(0, 2001));
    s.inject(ack(0, 2001).sack(&[(3001, 7001)]));
    s.expect_nothing();
    s.advance_us(2500);
    s.expect(data(0, 2001, 1000));
}

// RFC 8985 section 6.2, step 5: a lost retransmission is detected by later transmissions.
#[test]
fn a_lost_retransmission_is_detected_by_later_transmissions() {
    let mut s = sent(rack(), 10);
    s.write(20_000);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    let first = s.sent();
    assert_eq!(offsets(&s, &first), [1, 10_001]);
    s.advance(10);
    s.inject(ack(0, 1).sack(&[(1001, 11_001)]));
    let again = s.sent();
    assert_eq!(offsets(&s, &again)[0], 1);
    assert_eq!((counters(&s).recoveries, counters(&s).segments_lost), (1, 2));
}

// RFC 8985 section 6.2, step 2: the ACK of an original after its retransmission does not age the others.
#[test]
fn the_ack_of_an_original_does_not_concern_its_retransmission() {
    let mut s = sent(ConnectionConfig { undo: false, ..rack() }, 10);
    let original = s.subs[0].last_value;
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    s.expect(data(0, 1, 1000));
    s.advance(3);
    s.inject(ack(0, 4001).echo_us(original));
    s.expect_nothing();
    assert_eq!(counters(&s).segments_lost, 1);
}

// RFC 8985 section 6.2, step 4: each round trip with a DSACK increases the window by another quarter.
#[test]
fn a_dsack_widens_the_reordering_window() {
    let mut s = sent(ConnectionConfig { undo: false, ..rack() }, 10);
    s.inject(ack(0, 1).sack(&[(1001, 2001)]));
    s.advance_us(2500);
    s.expect(data(0, 1, 1000));
    s.advance(10);
    s.inject(ack(0, 10_001));
    s.inject(ack(0, 10_001).sack(&[(1, 1001)]));
    s.write(4000);
    s.expect_data(0, 10_001, 4);
    s.advance(10);
    s.inject(ack(0, 10_001).sack(&[(11_001, 12_001)]));
    s.advance_us(4999);
    s.expect_nothing();
    s.advance_us(1);
    s.expect(data(0, 10_001, 1000));
}

// RFC 3708, RFC 8985: every retransmission was answered by a DSACK: the reduction is undone.
#[test]
fn a_dsack_for_every_retransmission_undoes_the_reduction() {
    let mut s = sent(ConnectionConfig { timestamps: false, ..rack() }, 10);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    s.expect(data(0, 1, 1000));
    s.inject(ack(0, 4001));
    s.sent();
    s.inject(ack(0, 4001).sack(&[(1, 1001)]));
    assert_eq!((s.cwnd(0), counters(&s).undos), (10, 1));
}

// RFC 6675, RFC 8985: several holes are all lost and all retransmitted, in order.
#[test]
fn every_hole_is_repaired_in_order() {
    let mut s = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(9001, 10_001), (5001, 8001), (2001, 4001)]));
    let first = s.sent();
    let mut again = offsets(&s, &first);
    while again.len() < 4 {
        s.advance(1);
        s.sent();
        s.inject(ack(0, *again.last().unwrap() + 1000).sack(&[(9001, 10_001), (5001, 8001)]));
        let more = s.sent();
        assert!(!more.is_empty());
        again.extend(offsets(&s, &more));
    }
    assert_eq!(again, [1, 1001, 4001, 8001]);
}

// ---- Tail loss probes ----

// RFC 8985 sections 7.2 and 7.3: two round trips after the last transmission, with new data if there is some.
#[test]
fn a_tail_probe_sends_new_data_first() {
    let mut s = Script::client(ConnectionConfig { initial_window: 2, ..rack() });
    s.write(3000);
    s.expect_data(0, 1, 2);
    s.expect_after(20, data(0, 2001, 1000));
    assert_eq!(counters(&s).tail_probes, 1);
    assert_eq!(counters(&s).segments_retransmitted, 0);
}

// RFC 8985 section 7.3: without new data the last segment; one probe, and then the timeout.
#[test]
fn a_tail_probe_repeats_the_last_segment_once() {
    let mut s = Script::client(rack());
    s.write(3000);
    s.expect_data(0, 1, 3);
    s.expect_after(20, data(0, 2001, 1000));
    s.expect_after(210, data(0, 1, 1000));
    assert_eq!((counters(&s).tail_probes, counters(&s).timeouts), (1, 1));
}

// RFC 8985 section 7.2: a single segment allows for the peer's delayed ACK.
#[test]
fn a_tail_probe_of_a_lone_segment_waits_for_a_delayed_ack() {
    let mut s = Script::client(rack());
    s.write(500);
    s.expect(data(0, 1, 500));
    s.expect_after(100, data(0, 1, 500));
}

/// Sends ten segments; after a round trip all but the last are acknowledged.
fn last_of_ten_open() -> Script {
    let mut s = Script::client(rack());
    s.write(10_000);
    s.expect_data(0, 1, 10);
    s.advance(10);
    s.inject(ack(0, 9001));
    s
}

// RFC 8985 section 7.4: the probe has repaired a loss: the window is reduced once.
#[test]
fn a_loss_that_a_probe_repaired_reduces_the_window() {
    let mut s = last_of_ten_open();
    let before = s.cwnd(0);
    let probe = s.wait_until_sent(1000);
    assert_eq!(offsets(&s, &probe), [9001]);
    s.advance(10);
    s.inject(ack(0, 10_001));
    assert!(s.cwnd(0) >= before, "the duplicate may yet be reported");
    s.write(1000);
    s.expect(data(0, 10_001, 1000));
    s.advance(10);
    s.inject(ack(0, 11_001));
    assert!(s.cwnd(0) < before, "{} of {before}", s.cwnd(0));
    assert_eq!(counters(&s).recoveries, 0);
}

// RFC 8985 section 7.4: original and probe have both arrived, so nothing was lost.
#[test]
fn a_probe_that_was_not_needed_reduces_nothing() {
    let mut s = last_of_ten_open();
    let before = s.cwnd(0);
    s.wait_until_sent(1000);
    s.advance(1);
    s.inject(ack(0, 10_001).sack(&[(9001, 10_001)]));
    assert!(s.cwnd(0) >= before);
    assert_eq!(counters(&s).recoveries, 0);
}

// RFC 8985 section 7.4: the same if the acknowledgement of the original was only late, and the duplicate is
// reported when nothing is in flight any more.
#[test]
fn a_probe_that_crossed_the_acknowledgement_reduces_nothing() {
    let mut s = last_of_ten_open();
    let before = s.cwnd(0);
    s.wait_until_sent(1000);
    s.advance(1);
    s.inject(ack(0, 10_001));
    s.advance(10);
    s.inject(ack(0, 10_001).sack(&[(9001, 10_001)]));
    s.write(1000);
    s.expect(data(0, 10_001, 1000));
    s.advance(10);
    s.inject(ack(0, 11_001));
    assert!(s.cwnd(0) >= before);
}

/// Sends ten segments; the last five are lost, and the last of them is retransmitted as a probe. Returns the
/// timestamp of the originals.
fn probed_after_five_lost() -> (Script, u32) {
    let mut s = Script::client(rack());
    s.write(10_000);
    s.expect_data(0, 1, 10);
    let original = s.subs[0].last_value;
    s.advance(10);
    s.inject(ack(0, 5001));
    let probe = s.wait_until_sent(1000);
    assert_eq!((offsets(&s, &probe), counters(&s).tail_probes), (vec![9001], 1));
    s.advance(10);
    (s, original)
}

// RFC 8985 section 7.4.1: the SACK of a probe starts fast recovery. The probe arrives out of order, so the
// receiver echoes the timestamp of an earlier segment, the last one in order (RFC 7323 section 4.3, rule
// B.2).
#[test]
fn a_selectively_acknowledged_probe_starts_fast_recovery() {
    let (mut s, original) = probed_after_five_lost();
    s.inject(ack(0, 5001).sack(&[(9001, 10_001)]).echo_us(original));
    s.expect(data(0, 5001, 1000));
    assert_eq!((counters(&s).recoveries, counters(&s).segments_lost), (1, 4));
    for hole in [6001, 7001, 8001] {
        s.advance(10);
        s.inject(ack(0, hole).sack(&[(9001, 10_001)]));
        let again = s.sent();
        assert!(offsets(&s, &again).iter().all(|&offset| (hole..9001).contains(&offset)), "{again:?}");
    }
    s.advance(10);
    s.inject(ack(0, 10_001));
    assert_eq!((counters(&s).timeouts, counters(&s).undos), (0, 0));
    s.write(1000);
    s.expect(data(0, 10_001, 1000));
}

// RFC 8985 section 7.4.2: the reduction took place when recovery started, and the probe is not counted again.
#[test]
fn a_probe_that_started_fast_recovery_reduces_the_window_once() {
    let (mut s, original) = probed_after_five_lost();
    s.inject(ack(0, 5001).sack(&[(9001, 10_001)]).echo_us(original));
    s.sent();
    while s.subflow(0).counters.bytes_acked < 10_000 {
        s.advance(10);
        let hole = 5001 + (s.subflow(0).counters.bytes_acked as i64 - 5000) + 1000;
        s.inject(if hole < 9001 { ack(0, hole).sack(&[(9001, 10_001)]) } else { ack(0, 10_001) });
        s.sent();
    }
    let reduced = s.cwnd(0);
    for at in 0..3 {
        s.write(1000);
        s.expect(data(0, 10_001 + at * 1000, 1000));
        s.advance(10);
        s.inject(ack(0, 11_001 + at * 1000));
    }
    assert!(s.cwnd(0) >= reduced, "{} of {reduced}", s.cwnd(0));
}

// RFC 8985 section 6.2, step 2: the SACK arrived sooner after the probe than any round trip takes, so it
// answers the original.
#[test]
fn a_sack_of_the_original_does_not_stand_for_the_probe() {
    let mut s = Script::client(rack());
    s.write(10_000);
    s.expect_data(0, 1, 10);
    let original = s.subs[0].last_value;
    s.advance(10);
    s.inject(ack(0, 9001));
    s.wait_until_sent(1000);
    s.advance_us(9_999);
    s.inject(ack(0, 9001).sack(&[(9501, 10_001)]).echo_us(original));
    s.inject(ack(0, 9001).sack(&[(9001, 10_001)]).echo_us(original));
    s.expect_nothing();
    assert_eq!(counters(&s).segments_lost, 0);
}

// RFC 8985 section 7.2: no probe in recovery.
#[test]
fn no_probe_in_recovery() {
    let mut s = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    s.expect(data(0, 1, 1000));
    let next = s.wait_until_sent(1000);
    assert_eq!((offsets(&s, &next)[0], counters(&s).tail_probes, counters(&s).timeouts), (1, 0, 1));
}

// ---- Proportional rate reduction ----

// RFC 9937 section 6.2: ten in flight, the threshold at five: about one segment per two delivered, and the
// window ends at the threshold.
#[test]
fn the_rate_is_reduced_in_proportion() {
    let mut s = sent(rack(), 10);
    s.write(20_000);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    let first = s.sent();
    assert_eq!(offsets(&s, &first)[0], 1);
    let mut out = first.len();
    for at in 4..10 {
        s.inject(ack(0, 1).sack(&[(1001, (at + 1) * 1000 + 1)]));
        out += s.sent().len();
    }
    // Nine of ten delivered, one lost: 9 * 5 / 10, rounded up.
    assert_eq!(out, 5);
    s.advance(10);
    s.inject(ack(0, 10_001));
    s.sent();
    assert_eq!(s.cwnd(0), 5);
}

// RFC 9937: configurable; without it the window is halved at once, and nothing is sent until half is
// acknowledged.
#[test]
fn without_prr_the_window_is_halved_at_once() {
    let mut s = sent(ConnectionConfig { prr: false, ..rack() }, 10);
    s.write(20_000);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    s.expect(data(0, 1, 1000));
    s.inject(ack(0, 1).sack(&[(1001, 5001)]));
    s.expect_nothing();
    s.inject(ack(0, 1).sack(&[(1001, 6001)]));
    s.expect_nothing();
    s.inject(ack(0, 1).sack(&[(1001, 7001)]));
    s.expect(data(0, 10_001, 1000));
}

// ---- SACK ----

// RFC 2018 section 8: a receiver may discard selectively acknowledged data: after timeouts all is
// retransmitted.
#[test]
fn reneged_segments_are_retransmitted() {
    let mut s = Script::client(ConnectionConfig { undo: false, ..rack() });
    s.write(5000);
    s.expect_data(0, 1, 5);
    s.advance(10);
    s.inject(ack(0, 1).sack(&[(1001, 5001)]));
    s.expect(data(0, 1, 1000));
    while counters(&s).timeouts < 2 {
        s.wait_until_sent(2000);
    }
    s.advance(10);
    s.inject(ack(0, 1001));
    let mut again = s.sent();
    s.inject(ack(0, 3001));
    again.extend(s.sent());
    assert_eq!(offsets(&s, &again), [1001, 2001, 3001, 4001]);
}

// RFC 2018 section 5.1, RFC 5961: impossible blocks are ignored.
#[test]
fn impossible_blocks_are_ignored() {
    let mut s = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(20_001, 30_001), (5001, 4001), (9001, 12_001)]));
    s.advance_us(3000);
    s.expect_nothing();
    assert_eq!(counters(&s).segments_lost, 0);
}

/// Returns a client with a fixed timeout of a second and ten segments sent; after 15 ms the second to the fifth are
/// acknowledged selectively, and the first is retransmitted.
fn retransmitting() -> Script {
    let second = Duration::from_secs(1);
    let rto = RtoConfig { min: second, max: second, ..rack().rto };
    let mut s = Script::client(ConnectionConfig { rto, ..rack() });
    s.write(10_000);
    s.expect_data(0, 1, 10);
    s.advance(15);
    s.inject(ack(0, 1).sack(&[(1001, 5001)]));
    s.expect(data(0, 1, 1000));
    s
}

// `tcp_clean_rtx_queue` of Linux: data sent before the head was retransmitted and now acknowledged selectively restarts the
// timer. Otherwise the timeout of a recovery expires early (`tcp 2.1M/117ms/0.5/down=0.7s-1.12s 237KB down`).
#[test]
fn earlier_data_acknowledged_selectively_restarts_the_timer() {
    let mut s = retransmitting();
    s.advance(6);
    s.inject(ack(0, 1).sack(&[(1001, 8001)]));
    s.expect_after(1000, data(0, 1, 1000));
}

// RFC 6298 section 2: a round trip is also measured while the head is missing.
#[test]
fn data_acknowledged_selectively_measures_the_round_trip() {
    let s = retransmitting();
    let (srtt, min_rtt) = (s.subflow(0).srtt.unwrap(), s.subflow(0).min_rtt.unwrap());
    assert!(srtt > min_rtt, "{srtt:?} {min_rtt:?}");
}
