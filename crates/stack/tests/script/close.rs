//! The end of streams, subflows and connections: RFC 8684 sections 3.3.3 and 3.5, appendix D.

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::event::{CloseReason, Event};
use anabranch_stack::segment::{MptcpOption, ResetReason};
use anabranch_units::Duration;

use crate::kit::*;

fn server() -> Script {
    let mut s = Script::server(config());
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    s.expect(ack(0, 11).data_ack(10));
    s.events.clear();
    s
}

/// Returns the peer's DATA_FIN alone, at stream offset `end`.
fn data_fin(sub: usize, seq: i64, end: i64) -> Seg {
    seg(sub).seq(seq).data_ack(0).map(end, 0, 1).data_fin()
}

fn closed(s: &Script) -> Option<CloseReason> {
    s.events.iter().find_map(|event| match event {
        Event::Closed(reason) => Some(*reason),
        _ => None,
    })
}

// RFC 8684 section 3.3.3, rows X2, X3: with the last data: one octet more in the length, none in the
// subflow's space; its DATA_ACK is one more.
#[test]
fn the_data_fin_rides_on_the_last_data() {
    let mut s = Script::client(config());
    s.write(10_010);
    s.expect_data(0, 1, 10);
    s.close();
    s.expect_nothing();
    s.inject(ack(0, 10_001).data_ack(10_000));
    s.expect(data(0, 10_001, 10).map(10_000, 10_001, 11).data_fin().flags(A));
    s.inject(ack(0, 10_011).data_ack(10_010));
    assert!(!s.events.contains(&Event::AllAcked));
    s.inject(ack(0, 10_011).data_ack(10_011));
    assert!(s.events.contains(&Event::AllAcked));
}

// RFC 8684 sections 3.1 and 3.3.3: the segment with the keys has no flag for it, so the DATA_FIN is sent
// alone.
#[test]
fn the_data_fin_does_not_ride_on_the_segment_with_the_keys() {
    let mut s = Script::connecting(config(), 1);
    s.expect(seg(0).flags(S));
    s.write(10);
    s.close();
    s.inject(seg(0).flags(SA).seq(0).ack(1).option(capable(Some(KEY_B), None, None)));
    s.expect(ack(0, 1));
    s.expect(data(0, 1, 10).no_dss().option(capable(s.own_key, Some(KEY_B), Some(10))));
    s.expect(seg(0).seq(11).payload(0).map(10, 0, 1).data_fin());
}

// RFC 8684 section 3.3.3, rows X4, T15: alone: SSN 0, length 1, and no FIN yet.
#[test]
fn a_data_fin_alone_has_ssn_0_and_length_1() {
    let mut s = Script::client(config());
    s.write(10);
    s.expect(data(0, 1, 10));
    s.close();
    s.expect(seg(0).flags(A).seq(11).payload(0).map(10, 0, 1).data_fin());
}

// RFC 8684 section 3.3.3, rows X6, T13: the DATA_FIN is acknowledged when everything before it has arrived.
#[test]
fn a_data_fin_waits_for_the_data_before_it() {
    let mut s = server();
    s.inject(data_fin(0, 11, 110));
    s.expect(ack(0, 11).data_ack(10));
    assert!(s.events.is_empty());
    s.inject(data(0, 11, 100).data_ack(0).map(10, 11, 100));
    s.expect(ack(0, 111).data_ack(111));
    assert!(s.events.contains(&Event::PeerClosed));
}

// RFC 8684 section 3.3.3, row X3: the last octet of a mapping with DATA_FIN is not a byte.
#[test]
fn a_data_fin_with_data_ends_after_the_bytes() {
    let mut s = server();
    s.inject(data(0, 11, 100).data_ack(0).map(10, 11, 101).data_fin());
    s.expect(ack(0, 111).data_ack(111));
    assert_eq!(s.stats().received, 110);
    assert!(s.events.contains(&Event::PeerClosed));
}

// RFC 8684 section 3.3.3, row X7: it is repeated until it is acknowledged, on all subflows, with backoff.
#[test]
fn a_data_fin_is_retransmitted_until_it_is_acknowledged() {
    let mut s = Script::two(config());
    s.close();
    s.expect(seg(0).flags(A).map(0, 0, 1).data_fin());
    let start = s.now;
    let mut gaps = Vec::new();
    let mut last = start;
    for _ in 0..4 {
        let sent = s.wait_until_sent(20_000);
        assert_eq!(sent.len(), 2, "on both subflows");
        assert!(sent.iter().all(|segment| segment.options.dss.unwrap().data_fin));
        gaps.push(s.now.since(last).as_micros() / 1000);
        last = s.now;
    }
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0] * 2 - 1), "{gaps:?}");
    s.inject(ack(1, 1).data_ack(1));
    s.advance(100_000);
}

// RFC 8684 section 3.3.3, rows X8, T54: a repeated DATA_FIN, on any subflow, is acknowledged again.
#[test]
fn a_repeated_data_fin_is_acknowledged_again() {
    let mut s = server();
    let sub = s.peer_joins(0, 3, 4, false);
    s.inject(data_fin(0, 11, 10));
    s.expect(ack(0, 11).data_ack(11));
    s.inject(data_fin(0, 11, 10));
    s.expect(ack(0, 11).data_ack(11));
    s.inject(data_fin(sub, 1, 10));
    s.expect(ack(sub, 1).data_ack(11));
    assert_eq!(s.events.iter().filter(|event| **event == Event::PeerClosed).count(), 1);
}

// RFC 8684 section 3.3.3, row X9: half-closed locally, the peer continues.
#[test]
fn after_our_data_fin_the_peer_may_still_send() {
    let mut s = Script::client(config());
    s.close();
    s.expect(seg(0).map(0, 0, 1).data_fin());
    s.inject(ack(0, 1).data_ack(1));
    for at in 0..50 {
        s.inject(data(0, 1 + at * 1000, 1000).data_ack(1).map(at * 1000, 1 + at as u32 * 1000, 1000));
        s.sent();
        s.read(1000);
    }
    s.advance(100);
    s.sent();
    assert_eq!(s.stats().received, 50_000);
    assert_eq!(s.write(10), 0);
}

// RFC 8684 section 3.3.3, row X9: half-closed by the peer, the local side continues.
#[test]
fn after_the_peers_data_fin_we_may_still_send() {
    let mut s = server();
    s.inject(data_fin(0, 11, 10));
    s.expect(ack(0, 11).data_ack(11));
    s.write(3000);
    s.expect_data(0, 1, 3);
    s.inject(seg(0).seq(11).ack(3001).data_ack(3000));
    assert_eq!(s.stats().data_acked, 3000);
}

// RFC 8684 section 3.3.3, rows X11, X12, X16, T18: FINs follow once both streams are acknowledged, on each
// subflow; then the connection has ended.
#[test]
fn subflows_are_closed_after_both_data_fins() {
    let mut s = Script::two(config());
    s.close();
    s.expect(seg(0).flags(A).map(0, 0, 1).data_fin());
    s.inject(ack(0, 1).data_ack(1));
    s.expect_nothing();
    s.inject(seg(1).data_ack(1).map(0, 0, 1).data_fin());
    s.by_subflow();
    s.expect(seg(0).flags(FA).seq(1).data_ack(1));
    let rest = s.sent();
    assert!(rest.iter().any(|segment| segment.flags == FA && segment.source == s.subs[1].own));
    for sub in [0, 1] {
        s.inject(seg(sub).flags(FA).seq(1).ack(2).data_ack(1));
        s.expect(ack(sub, 2));
    }
    assert_eq!(closed(&s), Some(CloseReason::Finished));
}

// RFC 8684 appendix D, row X16: both sides close at once.
#[test]
fn data_fins_may_cross() {
    let mut s = Script::client(config());
    s.close();
    s.expect(seg(0).map(0, 0, 1).data_fin());
    s.inject(seg(0).data_ack(0).map(0, 0, 1).data_fin());
    s.expect(ack(0, 1).data_ack(1));
    s.inject(seg(0).data_ack(1));
    s.expect(seg(0).flags(FA).seq(1));
    // RFC 9293 figure 13: the FINs cross too.
    s.inject(seg(0).flags(FA).seq(1).ack(1).data_ack(1));
    s.expect(ack(0, 2).seq(2));
    s.inject(seg(0).seq(2).ack(2));
    assert_eq!(closed(&s), Some(CloseReason::Finished));
}

// RFC 8684 section 3.3.3, row X11: no FIN while data is queued or unacknowledged at the data level.
#[test]
fn no_fin_leaves_before_all_data_is_data_acked() {
    let mut s = Script::client(config());
    s.inject(seg(0).data_ack(0).map(0, 0, 1).data_fin());
    s.expect(ack(0, 1).data_ack(1));
    s.write(15_000);
    s.expect_data(0, 1, 10);
    s.close();
    s.inject(ack(0, 10_001).data_ack(0));
    let rest = s.sent();
    assert!(rest.iter().all(|segment| !segment.flags.has(FA)));
    assert!(rest.last().unwrap().options.dss.unwrap().data_fin);
    s.inject(ack(0, 15_001).data_ack(0));
    s.inject(ack(0, 15_001).data_ack(15_000));
    s.inject(ack(0, 15_001).data_ack(15_001));
    s.expect(seg(0).flags(FA).seq(15_001));
}

// RFC 8684 section 3.3.3, rows X1, X10, D6: a FIN closes only its subflow; the local FIN follows, and data is
// sent on the other.
#[test]
fn a_fin_closes_its_subflow_only() {
    let mut s = Script::two(config());
    s.inject(seg(0).flags(FA).seq(1).data_ack(0));
    s.expect(seg(0).flags(FA).seq(1).ack(2));
    s.write(2000);
    s.expect(data(1, 1, 1000).map(0, 1, 1000));
    s.expect(data(1, 1001, 1000).map(1000, 1001, 1000));
    s.inject(seg(0).seq(2).ack(2));
    assert!(s.events.iter().any(|event| matches!(event, Event::SubflowDown(_))));
    assert_eq!(closed(&s), None);
}

// RFC 8684 section 3.3.3, row X19: data, FIN and DATA_FIN in one segment.
#[test]
fn data_and_both_fins_may_share_a_segment() {
    let mut s = server();
    s.inject(data(0, 11, 100).flags(FA).data_ack(0).map(10, 11, 101).data_fin());
    s.expect(seg(0).ack(112).data_ack(111));
    s.sent();
    assert!(s.events.contains(&Event::PeerClosed));
    assert_eq!(s.stats().received, 110);
}

// RFC 8684 section 3.3.3, row X17: without subflows the connection waits for one, for a limited time.
#[test]
fn without_subflows_the_connection_waits_for_the_close_timeout() {
    let mut s = server();
    s.inject(seg(0).flags(R).seq(11));
    s.advance(59_000);
    assert_eq!(closed(&s), None);
    s.advance(1000);
    assert_eq!(closed(&s), Some(CloseReason::NoSubflow));
}

// RFC 8684 section 3.3.3, row X17: break before make: a join within that time continues the connection.
#[test]
fn a_join_revives_a_connection_without_subflows() {
    let mut s = server();
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(seg(0).flags(R).seq(11));
    s.advance(30_000);
    let sub = s.peer_joins_with(0, 3, 4);
    s.inject(sub.1);
    let sent = s.sent();
    let map = sent.iter().find_map(|segment| segment.options.dss?.mapping).expect("data");
    assert_eq!(map.ssn, 1);
    s.inject(ack(sub.0, 2001).data_ack(2000));
    assert_eq!(s.stats().data_acked, 2000);
    s.advance(120_000);
    assert_eq!(closed(&s), None);
}

// RFC 8684 section 3.3.3, rows X20, X21: nothing is accepted after the DATA_FIN, and the first one is final.
#[test]
fn data_that_contradicts_the_data_fin_is_dropped() {
    let mut s = server();
    s.inject(data_fin(0, 11, 110));
    s.expect(ack(0, 11));
    s.inject(data_fin(0, 11, 60));
    s.expect(ack(0, 11).data_ack(10));
    s.inject(data(0, 11, 150).data_ack(0).map(10, 11, 150));
    s.expect(ack(0, 161).data_ack(111));
    assert_eq!(s.stats().received, 110);
}

// RFC 8684 section 3.8, row M26: a DATA_FIN outside the window.
#[test]
fn a_data_fin_outside_the_window_is_dropped() {
    let mut s = server();
    s.inject(data_fin(0, 11, 70_000));
    s.expect(ack(0, 11).data_ack(10));
    s.inject(data_fin(0, 11, 10));
    s.expect(ack(0, 11).data_ack(11));
}

// RFC 8684 section 3.3.3, row X15: TIME-WAIT lasts as configured, answers a repeated FIN (RFC 9293 section
// 3.10.7.4), and restarts with it.
#[test]
fn time_wait_answers_and_ends() {
    let short = ConnectionConfig { time_wait: Duration::from_secs(2), ..config() };
    let mut s = Script::client(short);
    s.close();
    s.expect(seg(0).map(0, 0, 1).data_fin());
    s.inject(seg(0).data_ack(1).map(0, 0, 1).data_fin());
    s.expect(seg(0).flags(FA).seq(1));
    s.inject(seg(0).flags(FA).seq(1).ack(2).data_ack(1));
    s.expect(ack(0, 2).seq(2));
    s.advance(1500);
    s.inject(seg(0).flags(FA).seq(1).ack(2).data_ack(1));
    s.expect(ack(0, 2).seq(2));
    s.advance(1500);
    // RFC 5961 section 3.2: a reset with a wrong sequence number is ignored here too.
    s.inject(seg(0).flags(R).seq(900));
    s.inject(seg(0).flags(FA).seq(1).ack(2).data_ack(1));
    s.expect(ack(0, 2).seq(2));
    s.advance(2000);
    s.inject(seg(0).flags(FA).seq(1).ack(2).data_ack(1));
    s.expect(seg(0).flags(R).seq(2));
}

// RFC 8684 section 3.3.3, row X18: a late DATA_FIN is answered in TIME-WAIT.
#[test]
fn a_late_data_fin_is_answered_in_time_wait() {
    let mut s = Script::client(config());
    s.close();
    s.expect(seg(0).map(0, 0, 1).data_fin());
    s.inject(seg(0).data_ack(1).map(0, 0, 1).data_fin());
    s.expect(seg(0).flags(FA).seq(1));
    s.inject(seg(0).flags(FA).seq(1).ack(2).data_ack(1));
    s.expect(ack(0, 2).seq(2));
    s.inject(seg(0).seq(2).ack(2).data_ack(1).map(0, 0, 1).data_fin());
    s.expect(ack(0, 2).data_ack(1));
}

// RFC 8684 section 3.5, rows Q1, D6: a plain RST ends one subflow; its data is reinjected on the other.
#[test]
fn a_reset_ends_one_subflow_and_its_data_moves() {
    let mut s = Script::two(config());
    s.write(3000);
    s.by_subflow();
    s.expect_data(0, 1, 3);
    s.inject(seg(0).flags(R).seq(1));
    for at in 0..3 {
        s.expect(data(1, 1 + at * 1000, 1000).map(at * 1000, 1 + at as u32 * 1000, 1000));
    }
    assert_eq!(closed(&s), None);
}

// RFC 8684 section 3.5, rows Q2, Q4, T21: an abort is a RST with the peer's key on every subflow.
#[test]
fn an_abort_resets_every_subflow_with_the_peers_key() {
    let mut s = Script::two(config());
    s.abort();
    s.by_subflow();
    s.expect(seg(0).flags(RA).seq(1).ack(1).option(MptcpOption::FastClose(KEY_B)).no_dss());
    s.expect(seg(1).flags(RA).seq(1).ack(1).option(MptcpOption::FastClose(KEY_B)).no_dss());
    assert_eq!(closed(&s), Some(CloseReason::Aborted));
    // Row Q12: later segments are refused.
    s.inject(data(0, 1, 10).data_ack(0).map(0, 1, 10));
    s.expect(seg(0).flags(R).seq(1));
}

// RFC 8684 sections 3.5 and 3.6, row Q5: a valid FASTCLOSE on a RST: the other subflows are reset, not to be
// retried, and the application is notified.
#[test]
fn a_fastclose_on_a_reset_ends_the_connection() {
    let mut s = Script::two(config());
    let option = MptcpOption::FastClose(s.own());
    s.inject(seg(0).flags(R).seq(1).option(option));
    s.expect(seg(1).flags(RA).seq(1).ack(1).option(reset(false, ResetReason::Unspecified)));
    assert_eq!(closed(&s), Some(CloseReason::Reset));
}

// RFC 8684 section 3.5, row Q5: on an ACK, its own subflow is reset too.
#[test]
fn a_fastclose_on_an_ack_is_answered_by_resets() {
    let mut s = Script::two(config());
    let option = MptcpOption::FastClose(s.own());
    s.inject(ack(0, 1).data_ack(0).option(option));
    s.by_subflow();
    for sub in [0, 1] {
        s.expect(seg(sub).flags(RA).seq(1).ack(1).option(reset(false, ResetReason::Unspecified)));
    }
    assert_eq!(closed(&s), Some(CloseReason::Reset));
}

// RFC 8684 section 3.5, row Q6: a wrong key is ignored, but the RST is valid.
#[test]
fn a_fastclose_with_a_wrong_key_is_ignored() {
    let mut s = Script::two(config());
    s.inject(ack(0, 1).data_ack(0).option(MptcpOption::FastClose(KEY_B)));
    assert_eq!(closed(&s), None);
    s.inject(seg(0).flags(R).seq(1).option(MptcpOption::FastClose(KEY_B)));
    assert_eq!(closed(&s), None);
    s.write(100);
    s.expect(data(1, 1, 100));
}

// RFC 8684 sections 3 and 3.5, rows G3, Q5: not outside the window.
#[test]
fn a_fastclose_outside_the_window_is_ignored() {
    let mut s = server();
    let option = MptcpOption::FastClose(s.own());
    s.inject(ack(0, 1).seq(-5000).data_ack(0).option(option));
    s.expect(ack(0, 11));
    s.inject(seg(0).flags(R).seq(500).option(option));
    s.expect(ack(0, 11));
    s.inject(seg(0).flags(R).seq(1).option(option));
    s.inject(ack(0, 9).seq(11).option(option));
    s.expect(ack(0, 11));
    assert_eq!(closed(&s), None);
}

// RFC 9293 section 3.8.3: the user timeout ends a connection that makes no progress.
#[test]
fn the_user_timeout_aborts_a_connection_without_progress() {
    let impatient = ConnectionConfig { user_timeout: Duration::from_secs(5), ..config() };
    let mut s = Script::client(impatient);
    s.write(1000);
    s.expect(data(0, 1, 1000));
    while closed(&s).is_none() {
        let sent = s.wait_until_sent(5000);
        assert!(sent.iter().all(|segment| segment.payload_len == 1000 || segment.flags == RA));
    }
    assert_eq!(closed(&s), Some(CloseReason::TimedOut));
    assert!(s.now.as_nanos() >= 6_000_000_000 && s.now.as_nanos() < 6_100_000_000);
}
