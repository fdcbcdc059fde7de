//! Explicit congestion notification (RFC 3168 section 6.1): negotiation, marking, the duration of echoes, and
//! their effect.

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::{CongestionControl, CongestionKind};
use anabranch_stack::event::SubflowId;
use anabranch_stack::segment::{Ecn, Flags, MptcpOption};
use anabranch_units::Time;

use crate::kit::*;

const ECE: Flags = Flags::ECE;
const CWR: Flags = Flags::CWR;
const ASKS: Flags = ECE.with(CWR);

fn willing() -> ConnectionConfig {
    ConnectionConfig { ecn: true, congestion: CongestionKind::NewReno, ..plain() }
}

/// Returns a client whose SYN requested ECN, and which was answered with these flags in addition to SYN and
/// ACK.
fn answered(config: ConnectionConfig, answer: Flags) -> Script {
    let mut s = Script::connecting(config, 1);
    s.expect(seg(0).flags(S.with(ASKS)).seq(0));
    s.advance(10);
    s.inject(seg(0).flags(SA.with(answer)).seq(0).ack(1));
    s.expect(ack(0, 1).seq(1));
    s
}

/// Returns a listener after the third ACK of a peer whose SYN had these flags too, and the flags of the
/// answer.
fn asked(config: ConnectionConfig, asks: Flags) -> (Script, Flags) {
    let mut s = Script::listening(config, 1);
    s.inject(seg(0).flags(S.with(asks)).seq(0));
    let answer = s.expect(seg(0).seq(0).ack(1));
    assert_eq!(answer.ecn, Ecn::NotEct);
    s.advance(10);
    s.inject(ack(0, 1).seq(1));
    (s, answer.flags)
}

/// Returns a client that has ten segments of 30 in flight, its whole window.
fn ten_in_flight() -> Script {
    let mut s = answered(willing(), ECE);
    s.write(30_000);
    s.expect_data(0, 1, 10);
    s.advance(10);
    s
}

fn threshold(s: &Script) -> Option<u64> {
    s.endpoint.congestion(s.id()).expect("the connection is alive").ssthresh(SubflowId(0))
}

/// True if new data is sent as ECN-capable.
fn sends_ect(s: &mut Script) -> bool {
    s.write(1000);
    s.expect(data(0, 1, 1000)).ecn == Ecn::Ect0
}

// Section 6.1.1: the SYN that requests ECN has ECE and CWR, the answer that agrees only ECE.
#[test]
fn both_flags_ask_and_ece_alone_agrees() {
    let mut s = answered(willing(), ECE);
    assert!(sends_ect(&mut s));
    let (mut s, answer) = asked(willing(), ASKS);
    assert_eq!(answer, SA.with(ECE));
    assert!(sends_ect(&mut s));
}

#[test]
fn who_is_not_to_use_it_neither_asks_nor_agrees() {
    let mut s = Script::client(plain());
    assert!(!sends_ect(&mut s));
    let (mut s, answer) = asked(plain(), ASKS);
    assert_eq!(answer, SA);
    assert!(!sends_ect(&mut s));
    s.inject(data(0, 1, 1000).ce());
    s.expect(ack(0, 1001));
}

#[test]
fn who_is_not_asked_does_not_agree() {
    for asks in [Flags::default(), ECE, CWR] {
        let (mut s, answer) = asked(willing(), asks);
        assert_eq!(answer, SA, "{asks:?}");
        assert!(!sends_ect(&mut s));
    }
}

// Section 6.1.1: an answer with both flags comes from a host that has copied the reserved bits.
#[test]
fn an_answer_with_both_flags_or_without_any_is_a_refusal() {
    for answer in [Flags::default(), CWR, ASKS] {
        let mut s = answered(willing(), answer);
        assert!(!sends_ect(&mut s), "{answer:?}");
        // Echoes are then ignored.
        let before = s.cwnd(0);
        s.inject(ack(0, 1001).flags(A.with(ECE)));
        assert!(s.cwnd(0) >= before, "{answer:?}");
        s.inject(data(0, 1, 1000).ce());
        s.expect(ack(0, 1001));
    }
}

// Section 6.1.1.1: a host may stop requesting ECN in a retransmitted SYN.
#[test]
fn a_retransmitted_syn_does_not_request_ecn() {
    let mut s = Script::connecting(willing(), 1);
    s.expect(seg(0).flags(S.with(ASKS)).seq(0));
    s.expect_after(1000, seg(0).flags(S).seq(0));
    s.inject(seg(0).flags(SA).seq(0).ack(1));
    s.expect(ack(0, 1).seq(1));
    assert!(!sends_ect(&mut s));
}

// Each subflow has its own handshake, and requests ECN in it.
#[test]
fn a_join_asks_for_itself() {
    let config = ConnectionConfig { mptcp: true, ..willing() };
    let mut s = Script::connecting(ConnectionConfig { path_manager: mesh().path_manager, ..config }, 2);
    s.expect(seg(0).flags(S.with(ASKS)));
    s.advance(10);
    s.inject(seg(0).flags(SA.with(ECE)).seq(0).ack(1).option(capable(Some(KEY_B), None, None)));
    s.expect(ack(0, 1).seq(1));
    s.inject(ack(0, 1).data_ack(0));
    s.expect(seg(1).flags(S.with(ASKS)).seq(0));
    let refusal = s.join_answer(1, 0, false);
    s.advance(10);
    s.inject(refusal);
    s.expect(ack(1, 1).seq(1));
    s.inject(ack(1, 1).data_ack(0));
    s.write(20_000);
    for segment in s.sent().iter().filter(|segment| segment.payload_len > 0) {
        let first = segment.source.ip == own_ip(0);
        assert_eq!(segment.ecn, if first { Ecn::Ect0 } else { Ecn::NotEct });
    }
}

// The answer to a join that requests ECN agrees as well.
#[test]
fn a_join_of_the_peers_is_agreed_to() {
    let config = ConnectionConfig { mptcp: true, ..willing() };
    let mut s = Script::listening(config, 1);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(0).flags(SA).seq(0).ack(1));
    s.advance(10);
    let third = ack(0, 1).seq(1).no_dss().option(capable(Some(KEY_A), s.own_key, None));
    s.inject(third);
    s.inject(data(0, 1, 100).map(0, 1, 100).data_ack(0));
    s.expect(ack(0, 101));
    let sub = s.peer_opens(0, 1, 6001);
    let syn = s.join_syn(sub, 1, false).flags(S.with(ASKS));
    s.inject(syn);
    let answer = s.expect(seg(sub).flags(SA.with(ECE)).seq(0).ack(1));
    assert!(answer.options.mptcp.iter().flatten().any(|option| matches!(option, MptcpOption::Join(_))));
}

// Sections 6.1.4 and 6.1.5: neither pure acknowledgements nor retransmissions.
#[test]
fn new_data_alone_is_capable_of_marks() {
    let mut s = answered(willing(), ECE);
    s.write(5000);
    for segment in s.sent() {
        assert_eq!(segment.ecn, Ecn::Ect0);
    }
    s.inject(data(0, 1, 1000));
    assert_eq!(s.expect(ack(0, 1001).payload(0)).ecn, Ecn::NotEct);
    // The first is lost.
    s.advance(10);
    s.inject(ack(0, 1).seq(1001).sack(&[(1001, 5001)]));
    assert_eq!(s.expect(data(0, 1, 1000)).ecn, Ecn::NotEct);
}

// Section 6.1.3: every acknowledgement echoes, from the marked segment on, until the peer signals that it has
// reduced its window; a mark after that is a new instance.
#[test]
fn a_mark_is_echoed_until_the_peer_has_reduced_its_window() {
    let (mut s, _) = asked(willing(), ASKS);
    s.inject(data(0, 1, 1000));
    s.expect(ack(0, 1001).flags(A));
    s.inject(data(0, 1001, 1000).ce());
    s.expect(ack(0, 2001).flags(A.with(ECE)));
    for at in 2..5 {
        s.inject(data(0, 1 + at * 1000, 1000));
        s.expect(ack(0, 1001 + at * 1000).flags(A.with(ECE)));
    }
    s.inject(data(0, 5001, 1000).flags(A.with(CWR)));
    s.expect(ack(0, 6001).flags(A));
    // A segment that signals the reduction and is marked itself.
    s.inject(data(0, 6001, 1000).flags(A.with(CWR)).ce());
    s.expect(ack(0, 7001).flags(A.with(ECE)));
    // Local data echoes too.
    s.write(1000);
    s.expect(data(0, 1, 1000).flags(A.with(ECE)));
}

// Section 6.1.2: the window is halved, nothing is retransmitted, and the next new data carries CWR, once.
#[test]
fn an_echo_halves_the_window_and_the_next_new_data_signals_it() {
    let mut s = ten_in_flight();
    s.inject(ack(0, 1001).flags(A.with(ECE)));
    // Ten were in flight.
    assert_eq!(s.cwnd(0), 5);
    assert_eq!(threshold(&s), Some(5000));
    s.inject(ack(0, 8001).flags(A.with(ECE)));
    s.expect(data(0, 10_001, 1000).flags(A.with(CWR)));
    let others = s.sent();
    assert!(!others.is_empty() && others.iter().all(|segment| !segment.flags.has(CWR)));
    assert_eq!(s.subflow(0).counters.segments_retransmitted, 0);
}

// Section 6.1.2: at most one reduction per window of data, and another in the next.
#[test]
fn a_window_is_reduced_once_however_many_echoes_there_are() {
    let mut s = ten_in_flight();
    for at in 1..10 {
        s.inject(ack(0, 1 + at * 1000).flags(A.with(ECE)));
        s.sent();
        assert_eq!(s.subflow(0).counters.ecn_reductions, 1, "{at}");
        assert!(s.cwnd(0) >= 5);
    }
    s.inject(ack(0, 10_001).flags(A.with(ECE)));
    s.sent();
    assert_eq!(s.subflow(0).counters.ecn_reductions, 2);
}

// Section 6.1.2: a loss in a window that was reduced for a mark is repaired without another reduction.
#[test]
fn a_loss_in_the_same_window_does_not_reduce_again() {
    let mut s = ten_in_flight();
    s.inject(ack(0, 1001).flags(A.with(ECE)));
    assert_eq!(s.cwnd(0), 5);
    s.advance(10);
    s.inject(ack(0, 1001).flags(A.with(ECE)).sack(&[(2001, 6001)]));
    s.expect(data(0, 1001, 1000).flags(A));
    s.inject(ack(0, 10_001));
    s.sent();
    assert_eq!(threshold(&s), Some(5000));
}

// Section 6.1.2: a timeout is also a reduction, which the next new data signals.
#[test]
fn a_timeout_is_signalled_too() {
    let mut s = answered(willing(), ECE);
    s.write(1000);
    s.expect(data(0, 1, 1000));
    let again = s.wait_until_sent(2000);
    assert!(again.iter().all(|segment| segment.ecn == Ecn::NotEct));
    s.advance(300);
    s.sent();
    s.inject(ack(0, 1001));
    assert!(s.now > Time::ZERO);
    s.write(1000);
    s.expect(data(0, 1001, 1000).flags(A.with(CWR)));
}
