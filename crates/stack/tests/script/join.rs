//! Further subflows: RFC 8684 section 3.2.

use anabranch_stack::config::{ConnectionConfig, SimOnly};
use anabranch_stack::event::{Event, SubflowId};
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_stack::segment::{Join, MptcpOption, ResetReason};

use crate::kit::*;

const NONCE_A: u32 = 0x1122_3344;
const HMAC_A: [u8; 20] = [
    0x82, 0x05, 0x37, 0xc6, 0xd1, 0x44, 0x47, 0xd1, 0x73, 0x44, 0xe6, 0x28, 0xd2, 0xe4, 0xaf, 0x41, 0xcb,
    0xb8, 0x04, 0x63,
];
const HMAC_B: u64 = 0x34e0_ca3a_6df1_7d20;

fn join(option: Join) -> MptcpOption {
    MptcpOption::Join(option)
}

// RFC 8684 section 3.2, rows J2, J5, N1, H4 and section 2 of the reference: token, nonces and HMACs as
// computed independently, address ID 2, the port of the first subflow; no key on the wire (K2, I39).
#[test]
fn the_initiator_joins_with_token_and_hmac() {
    choose_random(&[0, KEY_A.0, 0, 0, 0, u64::from(NONCE_A) << 32]);
    let mut s = Script::client_with(mesh(), 2);
    let syn = join(Join::Syn { backup: false, address_id: 2, token: 0x3417_9de5, nonce: NONCE_A });
    let sent = s.expect(seg(1).flags(S).seq(0).option(syn).no_dss());
    assert_eq!(sent.destination, s.subs[0].peer);
    assert_eq!(sent.source.ip, own_ip(1));
    let answer = Join::SynAck { backup: false, address_id: 0, hmac: HMAC_B, nonce: PEER_NONCE };
    s.inject(seg(1).flags(SA).seq(0).ack(1).option(join(answer)));
    s.expect(ack(1, 1).seq(1).option(join(Join::Ack { hmac: HMAC_A })).no_dss());
}

// RFC 8684 section 3.2, rows J3, J4, J10, J13: the listener's side, from another address and port; the third
// ACK is answered at once, with a DATA_ACK (trap T1).
#[test]
fn the_listener_answers_a_join_by_its_token() {
    choose_random(&[0, KEY_B.0, 0, 0, 0, u64::from(PEER_NONCE) << 32]);
    let mut s = Script::server(config());
    let sub = s.peer_opens(0, 3, 6000);
    s.subs[sub].own.port = 8080;
    let syn = Join::Syn { backup: false, address_id: 4, token: 0x3417_9de5, nonce: NONCE_A };
    s.inject(seg(1).flags(S).seq(0).option(join(syn)));
    let answer = Join::SynAck { backup: false, address_id: 0, hmac: HMAC_B, nonce: PEER_NONCE };
    s.expect(seg(1).flags(SA).seq(0).ack(1).option(join(answer)).no_dss());
    s.inject(ack(1, 1).option(join(Join::Ack { hmac: HMAC_A })));
    s.expect(ack(1, 1).seq(1).data_ack(0).no_options());
    assert_eq!(s.events, [Event::SubflowUp(SubflowId(1))]);
}

// RFC 8684 section 3.1, row I21: no join before a DSS is received.
#[test]
fn the_initiator_joins_only_after_a_dss() {
    let mut s = Script::client_of(mesh(), 2);
    s.advance(5000);
    s.inject(ack(0, 1).data_ack(0));
    s.expect(seg(1).flags(S));
}

// RFC 8684 section 3.1, row I21: the listener accepts none before the third ACK.
#[test]
fn a_join_before_the_third_ack_is_refused() {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(0).flags(SA));
    let sub = s.peer_opens(0, 3, 6000);
    let syn = s.join_syn(sub, 4, false);
    s.inject(syn);
    s.expect(seg(1).flags(RA).ack(1));
    s.inject(ack(0, 1).option(capable(Some(KEY_A), s.own_key, None)));
    assert!(s.events.contains(&Event::Accepted));
}

// RFC 8684 section 3.2, rows J11, H1, K3: an unknown token.
#[test]
fn an_unknown_token_is_refused_without_effect() {
    let mut s = Script::server(config());
    s.peer_opens(0, 3, 6000);
    let syn = Join::Syn { backup: false, address_id: 4, token: 99, nonce: NONCE_A };
    s.inject(seg(1).flags(S).seq(0).option(join(syn)));
    s.expect(seg(1).flags(RA).ack(1).option(reset(false, ResetReason::MptcpError)));
    s.inject(data(0, 1, 100).option(capable(Some(KEY_A), s.own_key, Some(100))));
    s.expect(ack(0, 101).data_ack(100));
}

// RFC 8684 section 3.2, rows J19, J24, H1: a wrong HMAC in the SYN/ACK.
#[test]
fn a_wrong_hmac_in_the_syn_ack_is_reset_and_the_connection_lives() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    let wrong = Join::SynAck { backup: false, address_id: 0, hmac: HMAC_B, nonce: 1 };
    s.inject(seg(1).flags(SA).seq(0).ack(1).option(join(wrong)));
    s.expect(seg(1).flags(RA).seq(1).ack(1));
    s.write(1000);
    s.expect(data(0, 1, 1000).map(0, 1, 1000));
    s.inject(ack(0, 1001).data_ack(1000));
    // Row N15, H11: it is not retried.
    s.advance(60_000);
}

// RFC 8684 section 3.2, rows J21, B3: a SYN/ACK without MP_JOIN.
#[test]
fn a_syn_ack_without_mp_join_is_reset() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    s.inject(seg(1).flags(SA).seq(0).ack(1));
    s.expect(seg(1).flags(RA).seq(1).ack(1));
    s.advance(60_000);
}

// RFC 8684 section 3.2, rows J20, K5: a wrong HMAC in the third ACK has one attempt.
#[test]
fn a_wrong_hmac_in_the_third_ack_is_reset() {
    let mut s = Script::server(config());
    let sub = s.peer_opens(0, 3, 6000);
    let syn = s.join_syn(sub, 4, false);
    s.inject(syn);
    s.expect(seg(1).flags(SA));
    s.inject(ack(1, 1).option(join(Join::Ack { hmac: HMAC_A })));
    s.expect(seg(1).flags(RA).seq(1));
    let right = s.join_ack(sub);
    s.inject(right);
    s.expect(seg(1).flags(R).seq(1));
    assert!(s.events.is_empty());
}

// RFC 8684 section 3.2, row J20: a third ACK without MP_JOIN.
#[test]
fn a_third_ack_without_mp_join_is_reset() {
    let mut s = Script::server(config());
    let sub = s.peer_opens(0, 3, 6000);
    let syn = s.join_syn(sub, 4, false);
    s.inject(syn);
    s.expect(seg(1).flags(SA));
    s.inject(ack(1, 1));
    s.expect(seg(1).flags(RA).seq(1));
}

// RFC 8684 section 3.2, rows J14, J16: the third ACK is repeated until the fourth arrives, and no data is
// sent before.
#[test]
fn the_third_ack_is_repeated_until_the_fourth_and_no_data_is_sent_before() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    s.advance(20);
    let answer = s.join_answer(1, 0, false);
    s.inject(answer);
    let third = s.expect(ack(1, 1).seq(1));
    s.write(50_000);
    let first = s.sent();
    assert!(!first.is_empty());
    assert!(first.iter().all(|segment| segment.source.ip == own_ip(0)));
    for at in (1..=10).map(|n| n * 1000 + 1) {
        s.inject(ack(0, at).data_ack(at - 1));
        assert!(s.sent().iter().all(|segment| segment.source.ip == own_ip(0)));
    }
    s.advance(230);
    let again: Vec<_> = s.sent().into_iter().filter(|segment| segment.source.ip == own_ip(1)).collect();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].options.mptcp, third.options.mptcp);
    s.inject(ack(1, 1).data_ack(10_000));
    assert!(s.sent().iter().any(|segment| segment.source.ip == own_ip(1) && segment.payload_len > 0));
}

// RFC 8684 section 3.2, row J14: a limited number of times.
#[test]
fn a_join_without_a_fourth_ack_is_given_up() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    let answer = s.join_answer(1, 0, false);
    s.inject(answer);
    s.expect(ack(1, 1).seq(1));
    let mut times = 1;
    while !s.wait_until_sent(200_000)[0].flags.has(R) {
        times += 1;
    }
    assert_eq!(times, 7, "once and six repetitions");
    s.advance(200_000);
}

// RFC 8684 section 3.2, row J14: a repeated SYN/ACK shows that the third ACK was lost.
#[test]
fn a_repeated_syn_ack_gets_the_third_ack_with_its_hmac_again() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    let answer = s.join_answer(1, 0, false);
    s.inject(answer.clone());
    let third = s.expect(ack(1, 1).seq(1).no_dss());
    s.advance(5);
    s.inject(answer);
    let again = s.expect(ack(1, 1).seq(1).no_dss());
    assert_eq!(third.options.mptcp, again.options.mptcp);
}

// RFC 8684 section 3.2, row J15: a repeated third ACK shows that the fourth was lost.
#[test]
fn a_repeated_third_ack_is_acknowledged_again() {
    let mut s = Script::server(config());
    let sub = s.peer_joins(0, 3, 4, false);
    let third = s.join_ack(sub);
    s.inject(third);
    s.expect(ack(1, 1).seq(1).data_ack(0).no_options());
}

// RFC 8684 section 3.2, row J14: an acknowledgement of data never sent is no fourth ACK.
#[test]
fn a_wrong_acknowledgement_is_no_fourth_ack() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    let answer = s.join_answer(1, 0, false);
    s.inject(answer);
    s.expect(ack(1, 1).seq(1));
    s.inject(ack(1, 50).data_ack(0));
    s.sent();
    assert!(!s.events.contains(&Event::SubflowUp(SubflowId(1))));
    s.inject(ack(1, 1).data_ack(0));
    assert!(s.events.contains(&Event::SubflowUp(SubflowId(1))));
}

// RFC 8684 section 3.2, row J17: the listener sends nothing on a join before the third ACK.
#[test]
fn the_listener_sends_data_on_a_join_only_after_the_third_ack() {
    let mut s = Script::server(config());
    s.inject(data(0, 1, 10).option(capable(Some(KEY_A), s.own_key, Some(10))));
    s.expect(ack(0, 11).data_ack(10));
    let sub = s.peer_opens(0, 3, 6000);
    let syn = s.join_syn(sub, 4, false);
    s.inject(syn);
    s.expect(seg(1).flags(SA));
    s.write(30_000);
    assert!(s.sent().iter().all(|segment| segment.destination.ip == peer_ip(0)));
    let third = s.join_ack(sub);
    s.inject(third);
    let sent = s.sent();
    assert!(sent.iter().all(|segment| segment.destination.ip == peer_ip(3)));
    assert!(sent.iter().any(|segment| segment.payload_len > 0));
}

// RFC 8684 section 3.3.1, rows J25, M4: the subflow's numbers start anew, those of the stream continue.
#[test]
fn a_joins_first_byte_is_ssn_1_wherever_the_stream_is() {
    let mut s = Script::two(config());
    s.write(11_000);
    s.by_subflow();
    s.expect_data(0, 1, 10);
    s.expect(data(1, 1, 1000).map(10_000, 1, 1000));
}

// RFC 8684 section 3.2, rows J5, J6: the address of the first subflow has ID 0, on each join from it.
#[test]
fn joins_from_the_first_address_have_id_0_and_other_ports() {
    let ports = ConnectionConfig { path_manager: PathManagerKind::NDiffPorts(3), ..config() };
    let mut s = Script::client_with(ports, 1);
    let joins = [s.expect(seg(1).flags(S)), s.expect(seg(2).flags(S))];
    let mut nonces = Vec::new();
    for syn in joins {
        let Some(MptcpOption::Join(Join::Syn { address_id, nonce, .. })) = syn.options.mptcp[0] else {
            panic!("{syn:?}")
        };
        assert_eq!((address_id, syn.source.ip), (0, own_ip(0)));
        nonces.push((syn.source.port, nonce));
    }
    // Row K1: fresh nonces, so that an old answer is invalid.
    assert!(nonces[0].0 != nonces[1].0 && nonces[0].1 != nonces[1].1);
    let mut replay = s.join_answer(1, 0, false);
    replay = replay.on(2);
    s.inject(replay);
    s.expect(seg(2).flags(RA));
}

// RFC 8684 section 3.8.2, rows J11, J12, H7: more subflows than the limit are refused.
#[test]
fn joins_beyond_the_limit_are_refused() {
    let few = ConnectionConfig { max_subflows: 2, ..config() };
    let mut s = Script::server(few);
    s.peer_joins(0, 3, 4, false);
    let sub = s.peer_opens(0, 5, 6000);
    let syn = s.join_syn(sub, 5, false);
    s.inject(syn);
    s.expect(seg(2).flags(RA).ack(1).option(reset(true, ResetReason::Prohibited)));
}

// RFC 8684 section 3.3.3: no new subflow once both streams have ended (trap T41).
#[test]
fn a_join_after_both_data_fins_is_refused() {
    let mut s = Script::server(config());
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    s.expect(ack(0, 11));
    s.inject(seg(0).seq(11).data_ack(0).map(10, 0, 1).data_fin());
    s.expect(ack(0, 11).data_ack(11));
    s.close();
    s.expect(seg(0).seq(1).map(0, 0, 1).data_fin());
    s.inject(seg(0).seq(11).data_ack(1));
    s.expect(seg(0).flags(FA));
    let sub = s.peer_opens(0, 3, 6000);
    let syn = s.join_syn(sub, 4, false);
    s.inject(syn);
    s.expect(seg(1).flags(RA).ack(1));
}

// RFC 8684 section 3.2, rows J23, N15: a refused join leaves the connection unchanged.
#[test]
fn a_refused_join_is_not_tried_again() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    s.inject(seg(1).flags(RA).seq(0).ack(1));
    s.advance(60_000);
    s.write(500);
    s.expect(data(0, 1, 500).map(0, 1, 500));
}

// RFC 8684 section 3.2, row J1: the listener may join too; the roles in the HMACs are those of this join.
#[test]
fn the_listener_may_join() {
    let mut s = Script::server_with(config(), 2);
    let remote = s.subs[0].peer;
    // Not before a DSS (row I21).
    assert!(!s.endpoint.open_subflow(s.id(), own_ip(1), remote));
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    s.expect(ack(0, 11).data_ack(10));
    assert!(s.endpoint.open_subflow(s.id(), own_ip(1), remote));
    s.poll();
    s.expect(seg(1).flags(S).seq(0).no_dss());
    s.advance(10);
    let answer = s.join_answer(1, 0, false);
    s.inject(answer);
    s.expect(ack(1, 1).seq(1).no_dss());
    s.inject(ack(1, 1).data_ack(0));
    assert!(s.events.contains(&Event::SubflowUp(SubflowId(1))));
    s.inject(data(1, 1, 100).data_ack(0).map(10, 1, 100));
    s.expect(ack(1, 101).data_ack(110));
    assert!(!s.endpoint.open_subflow(s.id(), peer_ip(1), remote));
}

// RFC 8684 section 3.2, row J26: joins that cross between the same two addresses make one subflow, the one
// opened by the connection's initiator.
#[test]
fn of_two_joins_that_cross_one_is_kept() {
    let mut s = Script::server_with(config(), 2);
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    s.expect(ack(0, 11).data_ack(10));
    s.endpoint.open_subflow(s.id(), own_ip(1), s.subs[0].peer);
    s.poll();
    s.expect(seg(1).flags(S));
    let sub = s.peer_joins(1, 0, 0, false);
    s.advance(100_000);
    assert_eq!(sub, 2);
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    let sub = s.peer_opens(1, 0, 6000);
    let syn = s.join_syn(sub, 0, false);
    s.inject(syn);
    s.expect(seg(sub).flags(RA).option(reset(true, ResetReason::Prohibited)));
    let answer = s.join_answer(1, 0, false);
    s.inject(answer);
    s.expect(ack(1, 1).seq(1));
}

// RFC 6298 section 5.5: a join's SYN is retransmitted, and finally given up.
#[test]
fn a_joins_syn_is_retransmitted_until_it_is_given_up() {
    let mut s = Script::client_with(mesh(), 2);
    let first = s.expect(seg(1).flags(S));
    for wait in [1000, 2000, 4000, 8000, 16_000, 32_000] {
        let again = s.expect_after(wait, seg(1).flags(S));
        assert_eq!(first.options.mptcp, again.options.mptcp);
    }
    // A second after it is given up, another attempt begins from another port.
    let next = s.expect_after(64_000 + 1000, seg(2).flags(S));
    assert_eq!(next.source.ip, first.source.ip);
    assert_ne!(next.source.port, first.source.port);
    assert!(s.events.iter().all(|event| !matches!(event, Event::Closed(_))));
}

// definitions.md, profiles: `simultaneous` joins depart from the RFC: all handshakes start together, with
// keys agreed in advance, and the third segment of each may carry data; the one stream begins at IDSN + 1.
#[test]
fn simultaneous_joins_carry_data_one_round_trip_later() {
    let simultaneous = SimOnly { simultaneous: true, ..SimOnly::default() };
    let ns3 = ConnectionConfig { initial_window: 2, ..mesh() }.simulated(simultaneous);
    let mut s = Script::connecting(ns3, 2);
    let first = s.expect(seg(0).flags(S));
    s.expect(seg(1).flags(S));
    let Some(MptcpOption::Join(Join::Syn { token, .. })) = first.options.mptcp[0] else {
        panic!("{first:?}")
    };
    s.agreed(token);
    s.write(3000);
    s.expect_nothing();
    for sub in [0, 1] {
        s.advance(10);
        let answer = s.join_answer(sub, 0, false);
        s.inject(answer);
        let sent = s.sent();
        let data: u32 = sent.iter().map(|segment| segment.payload_len).sum();
        assert_eq!(data, [2000, 1000][sub]);
        assert_eq!(sent[0].options.dss.unwrap().mapping.unwrap().ssn, 1);
    }
}
