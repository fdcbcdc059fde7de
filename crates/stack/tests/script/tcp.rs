//! A subflow as a TCP: RFC 9293, 5961, 5681 section 4, 2018, 2883, 7323.

use anabranch_stack::config::{AckConfig, ConnectionConfig};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::event::{CloseReason, Event};
use anabranch_stack::segment::Flags;
use anabranch_units::Duration;

use crate::kit::*;

fn delayed() -> ConnectionConfig {
    let ack = AckConfig {
        every: 2,
        delay: Duration::from_millis(40),
        quick: 0,
        growth: false,
        push: false,
        drain: false,
    };
    ConnectionConfig { ack, ..plain() }
}

fn closed(s: &Script) -> Option<CloseReason> {
    s.events.iter().find_map(|event| match event {
        Event::Closed(reason) => Some(*reason),
        _ => None,
    })
}

// RFC 9293 section 3.10.7.4, first: an old segment is acknowledged, with a DSACK (RFC 2883 section 4), and
// not delivered again.
#[test]
fn an_old_segment_is_acknowledged_and_reported() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 500));
    s.expect(ack(0, 501));
    s.inject(data(0, 1, 500));
    s.expect(ack(0, 501).sack(&[(1, 501)]));
    s.inject(data(0, 301, 400));
    s.expect(ack(0, 701).sack(&[(301, 501)]));
    assert_eq!(s.stats().received, 700);
}

// RFC 9293 section 3.10.7.4, first: a segment beyond the window is acknowledged and dropped.
#[test]
fn a_segment_beyond_the_window_is_dropped() {
    let mut s = Script::server(plain());
    s.inject(data(0, 64_001, 1000));
    s.expect(ack(0, 1).sack(&[]));
    s.inject(data(0, 63_501, 1000));
    s.expect(ack(0, 1).sack(&[(63_501, 64_001)]));
    assert_eq!(s.stats().out_of_order, 500);
}

// RFC 9293 section 3.8.6.1: a probe of one octet beyond a closed window is answered and not accepted.
#[test]
fn a_probe_beyond_a_closed_window_is_not_taken() {
    let mut s = Script::server(plain());
    for at in 0..64 {
        s.inject(data(0, 1 + at * 1000, 1000));
        s.sent();
    }
    s.advance(50);
    s.sent();
    s.inject(data(0, 64_001, 1));
    s.expect(ack(0, 64_001).window(0));
    s.read(64_000);
    s.expect(ack(0, 64_001).window(64_000));
    s.inject(data(0, 64_001, 1));
    s.advance(50);
    s.expect(ack(0, 64_002));
}

// RFC 9293 section 3.10.7.4, fifth: a segment without ACK is dropped.
#[test]
fn a_segment_without_ack_is_dropped() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 500).flags(Flags(0)));
    assert_eq!(s.stats().received, 0);
}

// RFC 5961 section 3.2: a reset is accepted only at exactly the next octet; inside the window it is
// challenged.
#[test]
fn a_reset_counts_at_the_next_octet_only() {
    let mut s = Script::server(plain());
    s.inject(seg(0).flags(R).seq(2));
    s.expect(ack(0, 1).seq(1));
    s.inject(seg(0).flags(R).seq(0));
    s.inject(seg(0).flags(R).seq(-2_000_000_000));
    s.inject(seg(0).flags(R).seq(1_200_000_000));
    assert_eq!(closed(&s), None);
    s.inject(seg(0).flags(R).seq(1));
    assert_eq!(closed(&s), Some(CloseReason::Reset));
}

// RFC 5961 section 4.2: a SYN on an established connection is challenged, at any sequence number.
#[test]
fn a_syn_is_challenged() {
    let mut s = Script::server(plain());
    for seq in [0, 1, 700, -5] {
        s.inject(seg(0).flags(S).seq(seq));
        s.expect(ack(0, 1).seq(1));
    }
    assert_eq!(closed(&s), None);
}

// RFC 9293 section 3.10.7.4, fifth: an ACK of data not yet sent is answered, and its data dropped.
#[test]
fn an_ack_of_the_future_is_answered_and_dropped() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 500).ack(2));
    s.expect(ack(0, 1).seq(1));
    assert_eq!(s.stats().received, 0);
}

// RFC 5961 section 5.2: so is one older than the largest window.
#[test]
fn an_ack_of_the_distant_past_is_answered_and_dropped() {
    let mut s = Script::client(ConnectionConfig { initial_window: 20, ..plain() });
    for at in 0..60 {
        s.write(20_000);
        s.sent();
        s.inject(ack(0, (at + 1) * 20_000 + 1));
    }
    s.inject(data(0, 1, 100).ack(10));
    s.expect(ack(0, 1));
    assert_eq!(s.stats().received, 0);
    s.inject(data(0, 1, 100).ack(1_190_000));
    s.expect(ack(0, 101));
}

// RFC 1122 section 4.2.3.6, RFC 9293 section 3.8.4: a keepalive is answered.
#[test]
fn a_keepalive_is_answered() {
    let mut s = Script::server(plain());
    s.inject(ack(0, 1).seq(0));
    s.expect(ack(0, 1).seq(1));
}

// RFC 5681 section 4.2: an ACK for every second full segment, and no later than the delay.
#[test]
fn every_second_full_segment_is_acknowledged_and_a_lone_one_late() {
    let mut s = Script::server(delayed());
    s.inject(data(0, 1, 1000));
    s.expect_nothing();
    s.inject(data(0, 1001, 1000));
    s.expect(ack(0, 2001));
    s.inject(data(0, 2001, 1000));
    s.expect_after(40, ack(0, 3001));
    s.inject(data(0, 3001, 10));
    s.inject(data(0, 3011, 10));
    s.expect_after(40, ack(0, 3021));
}

// RFC 5681 section 4.2: ACKs ride on data.
#[test]
fn an_acknowledgement_rides_on_data() {
    let mut s = Script::server(delayed());
    s.inject(data(0, 1, 1000));
    s.write(10);
    s.expect(data(0, 1, 10).ack(1001));
    s.inject(ack(0, 11).seq(1001));
    s.advance(100);
}

// RFC 5681 section 4.2: data out of order, or filling a hole, is acknowledged at once.
#[test]
fn holes_are_acknowledged_at_once() {
    let mut s = Script::server(delayed());
    s.inject(data(0, 1001, 1000));
    s.expect(ack(0, 1).sack(&[(1001, 2001)]));
    s.inject(data(0, 3001, 1000));
    s.expect(ack(0, 1).sack(&[(3001, 4001), (1001, 2001)]));
    s.inject(data(0, 1, 1000));
    s.expect(ack(0, 2001).sack(&[(3001, 4001)]));
    s.inject(data(0, 2001, 1000));
    s.expect(ack(0, 4001).sack(&[]));
}

// RFC 9293 section 3.8.6.3: a super-packet joined by offload counts as several full segments.
#[test]
fn segments_that_offload_has_joined_are_acknowledged_at_once() {
    let mut s = Script::server(delayed());
    s.inject(data(0, 1, 1000));
    s.expect_nothing();
    s.advance(50);
    s.expect(ack(0, 1001));
    s.inject(data(0, 1001, 20_000));
    s.expect(ack(0, 21_001));
}

// The quick start of delayed ACKs, as in Linux: the first segments are acknowledged one by one.
#[test]
fn the_first_segments_are_acknowledged_one_by_one() {
    let mut s = Script::server(plain());
    for at in 0..16 {
        s.inject(data(0, 1 + at * 1000, 1000));
        s.expect(ack(0, 1001 + at * 1000));
    }
    s.inject(data(0, 16_001, 1000));
    s.expect_after(40, ack(0, 17_001));
}

// RFC 2018 section 4: the newest block first, then the most recent ones; three fit beside timestamps.
#[test]
fn sack_blocks_begin_with_the_newest() {
    let mut s = Script::server(plain());
    let blocks = [(1001, 1501), (2001, 2501), (3001, 3501), (4001, 4501)];
    for (left, _) in blocks {
        s.inject(data(0, left, 500));
        s.sent();
    }
    s.inject(data(0, 2501, 100));
    s.expect(ack(0, 1).sack(&[(2001, 2601), (4001, 4501), (3001, 3501)]));
}

// RFC 2883 sections 4.1 and 4.2: a duplicate above the ACK is reported first, then the block that contains
// it.
#[test]
fn a_duplicate_above_the_ack_is_reported_inside_its_block() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1001, 1000));
    s.expect(ack(0, 1));
    s.inject(data(0, 1501, 500));
    s.expect(ack(0, 1).sack(&[(1501, 2001), (1001, 2001)]));
    s.inject(data(0, 5001, 1000));
    s.expect(ack(0, 1).sack(&[(5001, 6001), (1001, 2001)]));
}

// RFC 8684 appendix A, rows O2, O3: one block fits with timestamps and a DATA_ACK, none with a wide mapping;
// and no header exceeds 40 bytes (asserted on every segment).
#[test]
fn sack_blocks_share_the_option_space() {
    let mut s = Script::client(config());
    s.inject(data(0, 1001, 500).data_ack(0).map(1000, 1001, 500));
    s.expect(ack(0, 1).data_ack(0).sack(&[(1001, 1501)]));
    s.write(10);
    s.expect(data(0, 1, 10).map(0, 1, 10).data_ack(0).sack(&[]));
}

// RFC 7323 section 4.3: the echo is that of the segment for which the delayed ACK waits, never of one out of
// order.
#[test]
fn the_timestamp_echoed_is_that_of_the_oldest_unacknowledged_segment() {
    let mut s = Script::server(delayed());
    s.inject(data(0, 1, 1000).value_us(2_005000));
    s.inject(data(0, 1001, 1000).value_us(2_006000));
    s.expect(ack(0, 2001).echo_us(2_005000));
    s.inject(data(0, 3001, 1000).value_us(2_007000));
    s.expect(ack(0, 2001).echo_us(2_005000));
    s.inject(data(0, 2001, 1000).value_us(2_006500));
    s.expect(ack(0, 4001).echo_us(2_006500));
}

// RFC 7323 section 5: a segment in the window with an older timestamp is an old duplicate: acknowledged and
// dropped. A pure ACK may have been overtaken; and after half an hour the clock may have wrapped.
#[test]
fn an_older_timestamp_is_an_old_duplicate() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 1000).value_us(9_000_000));
    s.expect(ack(0, 1001).echo_us(9_000_000));
    s.inject(data(0, 1001, 1000).value_us(8_999_999));
    s.expect(ack(0, 1001).echo_us(9_000_000));
    assert_eq!(s.stats().received, 1000);
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(ack(0, 1001).seq(1001).value_us(8_999_000));
    assert_eq!(s.stats().data_acked, 1000);
    s.inject(ack(0, 2001).seq(1001).value_us(9_000_100));
    s.advance(2_100_000);
    s.inject(data(0, 1001, 1000).value_us(5));
    s.sent();
    assert_eq!(s.stats().received, 2000);
}

// RFC 5681 section 4.1: after an idle time of one timeout the window is reset to its initial value.
#[test]
fn the_window_restarts_after_an_idle_time() {
    for (idle_restart, after) in [(true, 4), (false, 8)] {
        let few = ConnectionConfig {
            initial_window: 4,
            idle_restart,
            congestion: CongestionKind::NewReno,
            ..plain()
        };
        let mut s = Script::client(few);
        s.write(4000);
        s.expect_data(0, 1, 4);
        s.advance(10);
        s.inject(ack(0, 4001));
        assert_eq!(s.cwnd(0), 8);
        s.advance(150);
        s.write(8000);
        s.expect_data(0, 4001, 8);
        s.inject(ack(0, 12_001));
        let cwnd = s.cwnd(0).min(8);
        assert_eq!(cwnd, 8);
        let grown = s.cwnd(0);
        s.advance(400);
        s.write(20_000);
        assert_eq!(s.sent().len() as u64, if idle_restart { after } else { grown });
    }
}

// RFC 9293 section 3.6: half-close: after the local FIN the peer may continue; the states to TIME-WAIT and
// its end.
#[test]
fn a_plain_tcp_closes_one_direction_at_a_time() {
    let mut s = Script::client(plain());
    s.write(500);
    s.expect(data(0, 1, 500));
    s.close();
    s.expect(seg(0).flags(FA).seq(501));
    s.inject(ack(0, 502));
    assert!(s.events.contains(&Event::AllAcked));
    s.inject(data(0, 1, 1000).ack(502));
    s.expect(ack(0, 1001).seq(502));
    s.inject(seg(0).flags(FA).seq(1001).ack(502));
    s.expect(ack(0, 1002).seq(502));
    assert!(s.events.contains(&Event::PeerClosed));
    assert_eq!(closed(&s), Some(CloseReason::Finished));
}

// RFC 9293 section 3.6, case 2: the peer closes first; then LAST-ACK.
#[test]
fn a_plain_tcp_goes_on_after_the_peers_fin() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 100).flags(FA));
    s.expect(ack(0, 102));
    assert!(s.events.contains(&Event::PeerClosed));
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(seg(0).seq(102).ack(2001));
    s.close();
    s.expect(seg(0).flags(FA).seq(2001));
    s.inject(seg(0).seq(102).ack(2002));
    assert_eq!(closed(&s), Some(CloseReason::Finished));
}

// RFC 9293 section 3.10.7.4, eighth: a FIN out of order waits for the hole; nothing after it is accepted.
#[test]
fn a_fin_waits_for_the_data_before_it() {
    let mut s = Script::server(plain());
    s.inject(data(0, 101, 100).flags(FA));
    s.expect(ack(0, 1).sack(&[(101, 202)]));
    assert!(!s.events.contains(&Event::PeerClosed));
    s.inject(data(0, 1, 100));
    s.expect(ack(0, 202));
    assert!(s.events.contains(&Event::PeerClosed));
    s.inject(data(0, 202, 100));
    s.sent();
    assert_eq!(s.stats().received, 200);
}

// RFC 2018 section 3: a FIN is selectively acknowledged without payload too, and with what arrives before it.
#[test]
fn a_fin_after_a_hole_is_selectively_acknowledged() {
    let mut s = Script::server(plain());
    s.inject(seg(0).flags(FA).seq(301).ack(1));
    s.expect(ack(0, 1).sack(&[(301, 302)]));
    s.inject(data(0, 101, 100));
    s.expect(ack(0, 1).sack(&[(101, 201), (301, 302)]));
    s.inject(data(0, 201, 100));
    s.expect(ack(0, 1).sack(&[(101, 302)]));
    assert!(!s.events.contains(&Event::PeerClosed));
    s.inject(data(0, 1, 100));
    s.expect(ack(0, 302));
    assert!(s.events.contains(&Event::PeerClosed));
    assert_eq!(s.stats().received, 300);
}

// RFC 6298, RFC 9293 section 3.10.4: a lost FIN is retransmitted.
#[test]
fn a_fin_is_retransmitted() {
    let mut s = Script::client(plain());
    s.close();
    s.expect(seg(0).flags(FA).seq(1));
    let again = s.wait_until_sent(2000);
    assert_eq!((again.len(), again[0].flags), (1, FA));
    s.inject(ack(0, 2));
    s.advance(20_000);
}

// RFC 9293 section 3.10.5: an abort of a plain TCP is a reset without any option 30.
#[test]
fn an_abort_of_a_plain_tcp_is_a_reset() {
    let mut s = Script::client(plain());
    s.write(100);
    s.expect(data(0, 1, 100));
    s.abort();
    s.expect(seg(0).flags(RA).seq(101).no_mptcp());
}

// RFC 9293 section 3.4: sequence numbers wrap.
#[test]
fn sequence_numbers_wrap() {
    let mut s = Script::server(plain());
    // The peer's numbers start 256 before the wrap.
    for at in 0..4 {
        s.inject(data(0, 1 + at * 200, 200));
        s.expect(ack(0, 201 + at * 200));
    }
    assert_eq!(s.stats().received, 800);
}
