//! Connection initiation: RFC 8684 section 3.1 and RFC 9293 section 3.10.7.

use anabranch_stack::config::{Checksums, ConnectionConfig, EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{CloseReason, Event};
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_stack::segment::{Address, Flags, Key, PathId, Segment, SynOptions};
use anabranch_stack::seq::Seq;
use anabranch_units::{Duration, RandomStream, Time};

use crate::kit::*;

fn syn_ack() -> Seg {
    seg(0).flags(SA).seq(0).ack(1).option(capable(Some(KEY_B), None, None))
}

/// Returns the MP_CAPABLE of a third ACK.
fn both(s: &Script, data_len: Option<u16>) -> anabranch_stack::segment::MptcpOption {
    capable(s.own_key, Some(s.peer_key), data_len)
}

// RFC 8684 section 3.1, rows I1, I12, I23, I26, I28: version 1, H alone, then Key-A and Key-B.
#[test]
fn the_third_ack_carries_both_keys() {
    choose_random(&[0, KEY_A.0, 0, 0]);
    let mut s = Script::connecting(config(), 1);
    s.expect(seg(0).flags(S).seq(0).option(capable(None, None, None)).no_dss());
    s.advance(10);
    s.inject(syn_ack());
    let third = s.expect(ack(0, 1).seq(1).no_dss());
    assert_eq!(third.options.mptcp, [Some(capable(Some(KEY_A), Some(KEY_B), None)), None]);
    assert_eq!(s.events, [Event::SubflowUp(anabranch_stack::event::SubflowId(0)), Event::Connected]);
}

// RFC 6528 section 3, row G4: a clock of 4 us and a keyed hash of both ends.
#[test]
fn initial_sequence_numbers_are_a_clock_and_a_keyed_hash_of_both_ends() {
    let listener = |seed| {
        let address = LocalAddress { ip: own_ip(0), path: PathId(0), backup: false };
        let entropy = Entropy::Seeded(RandomStream::new(seed, "isn"));
        let mut endpoint = Endpoint::new(EndpointConfig::new(vec![address]), entropy);
        endpoint.listen(PORT, plain());
        endpoint
    };
    // Returns the sequence number of the answer to a SYN from that port; then the subflow is reset.
    let answer = |endpoint: &mut Endpoint, now: Time, port: u16| {
        let (local, peer) = (Address::new(own_ip(0), PORT), Address::new(peer_ip(0), port));
        endpoint.handle_segment(now, PathId(0), &Segment::new(peer, local, Seq(7), S), &mut Vec::new());
        let sent = endpoint.poll_transmit(now).expect("a SYN/ACK").segment;
        endpoint.handle_segment(now, PathId(0), &Segment::new(peer, local, Seq(8), R), &mut Vec::new());
        while endpoint.poll_transmit(now).is_some() || endpoint.poll_event().is_some() {}
        assert_eq!((sent.flags, endpoint.connection_count()), (SA, 0));
        sent.seq
    };
    let (mut one, start) = (listener(1), Time::from_secs(1));
    let first = answer(&mut one, start, 5000);
    assert_eq!(answer(&mut one, start + Duration::from_micros(400), 5000), first.add(100));
    let far = |other: Seq| first.0.wrapping_sub(other.0).min(other.0.wrapping_sub(first.0)) > 1_000_000;
    assert!(far(answer(&mut one, start, 5001)));
    assert!(far(answer(&mut listener(2), start, 5000)));
}

// RFC 9293 section 3.7.1, RFC 7323, RFC 2018: the options offered by a SYN.
#[test]
fn a_syn_offers_mss_scale_sack_and_timestamps() {
    let mut s = Script::connecting(config(), 1);
    let offer = SynOptions { mss: 1460, window_scale: Some(0), sack_permitted: true };
    let syn = s.expect(seg(0).flags(S).syn(offer).window(64_000));
    assert_eq!(syn.options.timestamps.map(|t| t.echo), Some(0));
    assert_eq!(syn.options.wire_len(), 24);
}

// RFC 6298 sections 2.1 and 5.5: one second initially, doubled each time; then the attempt fails.
#[test]
fn a_syn_is_retransmitted_with_backoff_until_the_attempt_fails() {
    let mut s = Script::connecting(config(), 1);
    s.expect(seg(0).flags(S));
    for wait in [1000, 2000, 4000, 8000, 16_000, 32_000] {
        s.expect_after(wait, seg(0).flags(S).seq(0));
    }
    s.advance(64_000);
    assert_eq!(s.events, [Event::Closed(CloseReason::TimedOut)]);
}

// RFC 5681 section 3.1: a lost SYN makes the initial window one segment.
#[test]
fn a_lost_syn_leaves_an_initial_window_of_one_segment() {
    let mut s = Script::connecting(config(), 1);
    s.expect(seg(0).flags(S));
    s.expect_after(1000, seg(0).flags(S));
    s.inject(syn_ack());
    s.expect(ack(0, 1));
    assert_eq!(s.cwnd(0), 1);
}

// RFC 8684 section 3.1, rows I13, I15: keys and length on the first data and each retransmission of it.
#[test]
fn the_first_data_carries_keys_and_length_until_they_are_confirmed() {
    let mut s = Script::client_of(config(), 1);
    let first = both(&s, Some(1000));
    s.write(2000);
    s.expect(data(0, 1, 1000).option(first).no_dss());
    s.expect(data(0, 1001, 1000).option(both(&s, Some(2000))).no_dss());
    s.advance(3300);
    let again = s.sent();
    assert!(again.iter().all(|segment| segment.options.dss.is_none()));
    assert!(again.iter().any(|segment| segment.options.mptcp.contains(&Some(first))));
    s.inject(ack(0, 1).data_ack(0));
    s.sent();
    s.advance(10_000);
    let confirmed = s.sent();
    assert!(confirmed.iter().all(|segment| segment.options.dss.is_some()));
    assert!(!confirmed.is_empty());
}

// RFC 8684 section 3.1, row I16: the listener sends first, and its DSS shows that it has the keys.
#[test]
fn after_a_dss_the_initiators_first_data_carries_a_mapping() {
    let mut s = Script::client_of(config(), 1);
    s.inject(data(0, 1, 500).data_ack(0).map(0, 1, 500));
    s.expect(ack(0, 501).data_ack(500));
    s.write(1000);
    s.expect(data(0, 1, 1000).map(0, 1, 1000).data_ack(500).no_options());
}

// RFC 8684 section 3.1, row I18: first data crossing in both directions.
#[test]
fn first_data_may_cross() {
    let mut s = Script::client_of(config(), 1);
    s.write(1000);
    let first = both(&s, Some(1000));
    s.expect(data(0, 1, 1000).option(first));
    s.inject(data(0, 1, 500).ack(1).data_ack(0).map(0, 1, 500));
    s.expect(ack(0, 501).data_ack(500));
    s.inject(ack(0, 1001).seq(501).data_ack(1000));
    assert_eq!(s.stats().data_acked, 1000);
    assert_eq!(s.stats().received, 500);
}

// RFC 8684 section 3.1, rows I17, I40: the first data starts at IDSN + 1, and so does the DATA_ACK.
#[test]
fn the_listener_takes_the_first_data_without_a_mapping() {
    let mut s = Script::server(config());
    let option = capable(Some(KEY_A), s.own_key, Some(700));
    s.inject(data(0, 1, 700).option(option));
    s.expect(ack(0, 701).data_ack(700));
    assert_eq!(s.stats().received, 700);
}

// RFC 8684 section 3.1, row I14: the third ACK may itself carry data.
#[test]
fn the_third_ack_may_carry_data() {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    let option = s.expect(seg(0).flags(SA).seq(0).ack(1)).options.mptcp[0];
    assert_eq!(option, Some(capable(s.own_key, None, None)));
    let option = capable(Some(KEY_A), s.own_key, Some(700));
    s.inject(data(0, 1, 700).option(option));
    s.expect(ack(0, 701).data_ack(700));
    assert!(s.events.contains(&Event::Accepted));
}

// RFC 8684 section 3.1, rows I19, B12: a resegmenting middlebox copies the option to every part.
#[test]
fn copies_of_the_first_mapping_deliver_once() {
    let mut s = Script::server(config());
    let option = capable(Some(KEY_A), s.own_key, Some(900));
    for (seq, acked) in [(1, 301), (301, 601), (601, 901)] {
        s.inject(data(0, seq, 300).option(option));
        s.expect(ack(0, acked).data_ack(acked - 1));
    }
    s.inject(data(0, 301, 300).option(option));
    s.expect(ack(0, 901).sack(&[(301, 601)]));
    assert_eq!(s.stats().received, 900);
}

// RFC 8684 section 3.1, row I20: a wrong echo of the local key is not MPTCP with this host; its mappings
// would not fit plain TCP, so it is reset.
#[test]
fn a_wrong_echo_of_the_listeners_key_is_reset() {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(0).flags(SA));
    s.inject(ack(0, 1).option(capable(Some(KEY_A), Some(KEY_A), None)));
    s.expect(seg(0).flags(RA).seq(1).no_mptcp());
}

// RFC 8684 section 3.1, rows I5, I20, I24: a third ACK with an invalid MP_CAPABLE makes a plain TCP.
#[test]
fn a_damaged_mp_capable_in_the_third_ack_makes_a_plain_tcp() {
    for (version, flags) in [(1, 0x41), (1, 0x00), (2, 0x01), (1, 0x03)] {
        let mut s = Script::listening(config(), 1);
        s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
        s.expect(seg(0).flags(SA));
        let option = capable_with(capable(Some(KEY_A), s.own_key, None), version, flags);
        s.inject(ack(0, 1).option(option));
        s.expect(ack(0, 1).no_mptcp());
        s.inject(data(0, 1, 100));
        s.expect(ack(0, 101).no_mptcp());
    }
}

// RFC 9293 section 3.10.7.3, first: an ACK of data never sent is reset (row I20).
#[test]
fn a_wrong_acknowledgement_in_syn_sent_is_reset() {
    let mut s = Script::connecting(config(), 1);
    s.expect(seg(0).flags(S));
    s.inject(seg(0).flags(SA).seq(0).ack(5).option(capable(Some(KEY_B), None, None)));
    s.expect(seg(0).flags(R).seq(5).no_mptcp());
    s.inject(seg(0).flags(RA).seq(0).ack(5));
    s.inject(syn_ack());
    s.expect(ack(0, 1).option(both(&s, None)));
}

// RFC 9293 section 3.10.7.4, fifth: a wrong ACK in SYN-RECEIVED is reset, and the right one is still
// accepted.
#[test]
fn a_wrong_acknowledgement_in_syn_received_is_reset() {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(0).flags(SA));
    s.inject(ack(0, 7).option(capable(Some(KEY_A), s.own_key, None)));
    s.expect(seg(0).flags(R).seq(7).no_mptcp());
    s.inject(ack(0, 1).option(capable(Some(KEY_A), s.own_key, None)));
    assert!(s.events.contains(&Event::Accepted));
}

fn answer_to(version: u8, flags: u8, key: Option<Key>) -> Option<(u8, u8)> {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable_with(capable(key, None, None), version, flags)));
    let answer = s.expect(seg(0).flags(SA).seq(0).ack(1).no_dss());
    match answer.options.mptcp[0] {
        Some(anabranch_stack::segment::MptcpOption::Capable(capable)) => {
            Some((capable.version, capable.flags))
        }
        _ => None,
    }
}

// RFC 8684 section 3.1, row I2: a version of at most the offered one; version 0 (with its key) is not
// supported.
#[test]
fn the_listener_answers_version_1_to_anything_newer_and_tcp_to_version_0() {
    assert_eq!(answer_to(1, 0x01, None), Some((1, 0x01)));
    assert_eq!(answer_to(2, 0x01, None), Some((1, 0x01)));
    assert_eq!(answer_to(0, 0x01, Some(KEY_A)), None);
}

// RFC 8684 section 3.1, row I5: the form is that of the segment; a SYN of version 1 has no key.
#[test]
fn a_syn_with_a_key_is_not_an_mp_capable_of_version_1() {
    assert_eq!(answer_to(1, 0x01, Some(KEY_A)), None);
}

// RFC 8684 section 3.1, rows I24, I27, I31, I32: flag B, no algorithm, several, no known one.
#[test]
fn the_listener_picks_sha256_from_the_offer_or_speaks_tcp() {
    assert_eq!(answer_to(1, 0x41, None), None);
    assert_eq!(answer_to(1, 0x00, None), None);
    assert_eq!(answer_to(1, 0x1f, None), Some((1, 0x01)));
    assert_eq!(answer_to(1, 0x02, None), None);
}

fn client_speaks_tcp_after(answer: Option<anabranch_stack::segment::MptcpOption>) {
    let mut s = Script::connecting(config(), 2);
    s.expect(seg(0).flags(S).option(capable(None, None, None)));
    let mut syn_ack = seg(0).flags(SA).seq(0).ack(1);
    if let Some(option) = answer {
        syn_ack = syn_ack.option(option);
    }
    s.inject(syn_ack);
    s.expect(ack(0, 1).seq(1).no_mptcp());
    s.write(1500);
    s.expect(data(0, 1, 1000).no_mptcp());
    s.expect(data(0, 1001, 500).no_mptcp());
    s.inject(data(0, 1, 10).ack(1501));
    s.expect(ack(0, 11).no_mptcp());
    assert_eq!((s.stats().data_acked, s.stats().received), (1500, 10));
}

// RFC 8684 section 3.1, rows I3, I33, F1, B1: no MP_CAPABLE in the SYN/ACK.
#[test]
fn a_syn_ack_without_mp_capable_makes_a_plain_tcp() {
    client_speaks_tcp_after(None);
}

// RFC 8684 section 3.1, rows I5, I20, I24, I27: an invalid MP_CAPABLE in the SYN/ACK.
#[test]
fn a_damaged_mp_capable_in_the_syn_ack_makes_a_plain_tcp() {
    let right = capable(Some(KEY_B), None, None);
    client_speaks_tcp_after(Some(capable(None, None, None)));
    client_speaks_tcp_after(Some(capable(Some(KEY_B), Some(KEY_A), None)));
    client_speaks_tcp_after(Some(capable_with(right, 1, 0x41)));
    client_speaks_tcp_after(Some(capable_with(right, 1, 0x00)));
    client_speaks_tcp_after(Some(capable_with(right, 1, 0x03)));
    client_speaks_tcp_after(Some(capable_with(right, 2, 0x01)));
    client_speaks_tcp_after(Some(capable_with(right, 0, 0x01)));
}

// RFC 8684 section 3.1, row I34: a SYN without MP_CAPABLE.
#[test]
fn a_plain_syn_gets_a_plain_answer() {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0));
    s.expect(seg(0).flags(SA).seq(0).ack(1).no_mptcp());
    s.inject(ack(0, 1));
    s.inject(data(0, 1, 100));
    s.expect(ack(0, 101).no_mptcp());
    assert_eq!(s.stats().received, 100);
}

// RFC 8684 section 3.1, rows I35, I38, F21: the third packet decides, regardless of the SYNs.
#[test]
fn a_third_packet_without_mp_capable_makes_a_plain_tcp() {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(0).flags(SA));
    s.inject(seg(0).flags(S).seq(0));
    s.expect(seg(0).flags(SA).seq(0).ack(1));
    s.inject(ack(0, 1));
    s.inject(data(0, 1, 100));
    s.expect(ack(0, 101).no_mptcp());
    assert_eq!(s.stats().received, 100);
}

// RFC 8684 section 3.1, rows I7, I8, I10, K3: a key whose token is taken is drawn again; after several
// attempts the connection is plain TCP.
#[test]
fn a_colliding_key_is_drawn_again_and_at_last_given_up() {
    let listen = || {
        let mut s = Script::listening(config(), 1);
        choose_random(&[KEY_B.0]);
        s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
        s.expect(seg(0).flags(SA).option(capable(Some(KEY_B), None, None)));
        s.peer_opens(0, 1, 5000);
        s
    };
    let mut s = listen();
    choose_random(&[KEY_B.0, 77]);
    s.inject(seg(1).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(1).flags(SA).option(capable(Some(Key(77)), None, None)));
    let mut s = listen();
    choose_random(&[KEY_B.0; 18]);
    s.inject(seg(1).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(1).flags(SA).no_mptcp());
}

// RFC 8684 section 3.1, row I25: flag C forbids joins to that address and port, not to announced ones.
#[test]
fn no_join_goes_where_the_peer_wants_none() {
    let mesh = ConnectionConfig { path_manager: PathManagerKind::FullMesh, ..config() };
    let mut s = Script::connecting(mesh, 2);
    s.expect(seg(0).flags(S));
    let no_joins = capable_with(capable(Some(KEY_B), None, None), 1, 0x21);
    s.inject(seg(0).flags(SA).seq(0).ack(1).option(no_joins));
    s.expect(ack(0, 1).option(both(&s, None)));
    s.inject(ack(0, 1).data_ack(0));
    s.expect_nothing();
    let option = s.announcement(5, peer_ip(5), None);
    s.inject(ack(0, 1).data_ack(0).option(option));
    let joins = s.sent();
    let joins: Vec<_> = joins.iter().filter(|segment| segment.flags == S).collect();
    assert_eq!(joins.len(), 2);
    assert!(joins.iter().all(|segment| segment.destination.ip == peer_ip(5)));
}

// RFC 9293 section 3.10.7.3, second: a reset is accepted only if it acknowledges the SYN.
#[test]
fn a_reset_refuses_the_connection_if_it_acknowledges_the_syn() {
    let mut s = Script::connecting(config(), 1);
    s.expect(seg(0).flags(S));
    s.inject(seg(0).flags(R).seq(0));
    s.inject(seg(0).flags(RA).seq(0).ack(3));
    assert!(s.events.is_empty());
    s.inject(seg(0).flags(RA).seq(0).ack(1));
    assert_eq!(s.events, [Event::Closed(CloseReason::Refused)]);
}

// RFC 9293 section 3.10.7.2: there is no listener; and section 3.10.7.1: a stray segment.
#[test]
fn stray_segments_are_reset() {
    let mut s = Script::listening(config(), 1);
    s.peer_opens(0, 0, 5001);
    s.subs[1].own.port = 81;
    s.inject(seg(1).flags(S).seq(0));
    let reset = s.expect(seg(1).flags(RA).ack(1));
    assert_eq!(reset.seq.0, 0);
    s.inject(data(1, 1, 10).ack(9));
    s.expect(seg(1).flags(R).seq(9));
    s.inject(seg(1).flags(RA).seq(1).ack(9));
    s.inject(data(1, 1, 10).flags(Flags(0)));
    s.expect(seg(1).flags(RA).ack(11));
}

// RFC 6298 section 5.5: the SYN/ACK is retransmitted, and by RFC 9293 on a repeated SYN at once.
#[test]
fn a_syn_ack_is_retransmitted() {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    let first = s.expect(seg(0).flags(SA));
    let again = s.expect_after(1000, seg(0).flags(SA).seq(0).ack(1));
    assert_eq!(first.options.mptcp, again.options.mptcp);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(0).flags(SA));
    s.advance(100);
    s.inject(ack(0, 1).option(capable(Some(KEY_A), s.own_key, None)));
    s.advance(10_000);
}

// RFC 8684 section 3.1, row I12: a repeated SYN/ACK shows that the third ACK was lost.
#[test]
fn the_third_ack_is_repeated_with_its_keys() {
    let mut s = Script::client_of(config(), 1);
    s.inject(syn_ack());
    s.expect(ack(0, 1).seq(1).option(both(&s, None)));
}

// RFC 9293 section 3.10.7.4: a reset in SYN-RECEIVED removes the subflow.
#[test]
fn a_reset_in_syn_received_ends_the_attempt() {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(0).flags(SA));
    s.inject(seg(0).flags(R).seq(9));
    s.inject(seg(0).flags(R).seq(1));
    s.advance(10_000);
}

// RFC 9293 section 3.7.1, RFC 7323 section 1.3, RFC 2018 section 2: only options that both sides offer are
// used.
#[test]
fn options_that_the_peer_does_not_offer_are_not_used() {
    let mut s = Script::connecting(config(), 1);
    s.expect(seg(0).flags(S));
    let bare = SynOptions { mss: 640, window_scale: None, sack_permitted: false };
    s.subs[0].peer_scale = 0;
    s.inject(syn_ack().syn(bare).no_timestamps().window(5000));
    s.expect(ack(0, 1).no_timestamps());
    s.inject(ack(0, 1).data_ack(0).no_timestamps().window(5000));
    s.write(10_000);
    // 640 less the maximum length of a data segment's options.
    s.expect(data(0, 1, 600).no_timestamps());
    assert_eq!(s.sent().len(), 8 - 1);
    s.inject(data(0, 501, 500).data_ack(0).map(500, 501, 500).no_timestamps().window(5000));
    s.expect(ack(0, 1).sack(&[]).no_timestamps());
}

/// Returns a listener that has answered a SYN with MP_CAPABLE.
fn half_open() -> Script {
    let mut s = Script::listening(config(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(seg(0).flags(SA));
    s
}

// RFC 8684 section 3.1, rows I35, F21: the third ACK is lost, and a DSS arrives instead. The data may be out
// of order.
#[test]
fn a_mapping_before_the_keys_makes_a_plain_tcp() {
    let mut s = half_open();
    s.inject(data(0, 1, 1000).data_ack(0).map(0, 1, 1000));
    s.expect(ack(0, 1001).no_mptcp());
    assert!(s.events.contains(&Event::Accepted));
    let mut s = half_open();
    s.inject(data(0, 1001, 1000).data_ack(0).map(1000, 1001, 1000));
    s.expect(ack(0, 1).sack(&[(1001, 2001)]).no_mptcp());
    // The keys arrive too late.
    let keys = capable(Some(KEY_A), s.own_key, Some(1000));
    s.inject(data(0, 1, 1000).option(keys));
    s.expect(ack(0, 2001).no_mptcp());
    s.write(500);
    s.expect(data(0, 1, 500).no_mptcp());
    assert_eq!((s.stats().received, s.events.contains(&Event::Accepted)), (2000, true));
}

// The same for a client that closes at once: Linux prefers a DATA_FIN to the keys. The DATA_FIN occupies no
// place in a TCP stream, which ends with the FIN; an acknowledgement without options shows the client which
// of them to send.
#[test]
fn a_data_fin_before_the_keys_makes_a_plain_tcp() {
    let mut s = half_open();
    s.inject(seg(0).seq(1).ack(1).data_ack(0).map(0, 0, 1).data_fin());
    s.expect(ack(0, 1).no_mptcp());
    assert!(s.events.contains(&Event::Accepted));
    s.write(1000);
    s.expect(data(0, 1, 1000).no_mptcp());
    assert!(!s.events.contains(&Event::PeerClosed));
    s.inject(seg(0).flags(FA).seq(1).ack(1001));
    s.expect(ack(0, 2).no_mptcp());
    assert!(s.events.contains(&Event::PeerClosed));
    s.close();
    s.expect(seg(0).flags(FA).seq(1001).no_mptcp());
    s.inject(ack(0, 1002).seq(2));
    assert!(s.events.contains(&Event::Closed(CloseReason::Finished)));
}

// With payload too: its bytes belong to the stream, the DATA_FIN does not.
#[test]
fn a_data_fin_with_data_before_the_keys_makes_a_plain_tcp() {
    let mut s = half_open();
    s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 101).data_fin());
    s.expect(ack(0, 101).no_mptcp());
    assert_eq!((s.stats().received, s.events.contains(&Event::PeerClosed)), (100, false));
    s.inject(seg(0).flags(FA).seq(101).ack(1));
    s.expect(ack(0, 102).no_mptcp());
    assert!(s.events.contains(&Event::PeerClosed));
}

// RFC 9293 section 3.10.7.4, first: a segment outside the window completes no handshake.
#[test]
fn a_segment_outside_the_window_is_no_third_ack() {
    let mut s = half_open();
    s.inject(ack(0, 1).seq(0).data_ack(0));
    s.inject(data(0, 64_002, 1000).data_ack(0).map(64_001, 64_002, 1000));
    assert!(s.events.is_empty());
    s.inject(ack(0, 1).option(capable(Some(KEY_A), s.own_key, None)));
    assert!(s.events.contains(&Event::Accepted));
    s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 100));
    s.expect(ack(0, 101).data_ack(100));
}

// RFC 8684 section 3.1, rows I14, I19: any segment of the first flight that has the keys completes the handshake.
#[test]
fn a_later_segment_of_the_first_flight_brings_the_keys() {
    let mut s = half_open();
    let keys = |s: &Script, len| capable(Some(KEY_A), s.own_key, Some(len));
    let later = keys(&s, 3000);
    s.inject(data(0, 2001, 1000).option(later));
    s.expect(ack(0, 1).data_ack(0).sack(&[(2001, 3001)]));
    let first = keys(&s, 1000);
    s.inject(data(0, 1, 1000).option(first));
    s.expect(ack(0, 1001).data_ack(1000));
    s.inject(data(0, 1001, 1000).data_ack(0).map(0, 1, 2000));
    s.expect(ack(0, 3001).data_ack(3000));
    assert_eq!(s.stats().received, 3000);
}

// RFC 8684 section 3.1, rows I13, I15: also data written slightly later, a tail probe, and the
// retransmissions it triggers.
#[test]
fn every_segment_before_the_keys_are_confirmed_carries_them() {
    let mut s = Script::client_of(config(), 1);
    s.write(300);
    s.expect(data(0, 1, 300).option(both(&s, Some(300))).no_dss());
    s.advance(3);
    s.write(500);
    s.expect(data(0, 301, 500).option(both(&s, Some(800))).no_dss());
    let probe = s.wait_until_sent(1000);
    assert_eq!(probe.len(), 1);
    assert_eq!((probe[0].payload_len, probe[0].options.mptcp), (500, [Some(both(&s, Some(800))), None]));
    // The listener has received the keys from it: from now on the mapping is in a DSS.
    s.inject(ack(0, 1).data_ack(0).sack(&[(301, 801)]));
    let again = s.wait_until_sent(1000);
    assert_eq!((again.len(), again[0].payload_len), (1, 300));
    assert!(again[0].options.dss.is_some() && again[0].options.mptcp == [None; 2]);
    s.inject(ack(0, 801).data_ack(800));
    assert_eq!((s.stats().data_acked, s.stats().fallbacks), (800, 0));
}

// An MP_CAPABLE has 16 bits for the length: data after the first 65,535 bytes has a DSS.
#[test]
fn data_that_no_mp_capable_reaches_carries_a_dss() {
    let mut s = Script::client_of(ConnectionConfig { initial_window: 70, ..config() }, 1);
    s.write(67_000);
    for segment in s.sent() {
        let end = segment.seq.0.wrapping_sub(s.subs[0].own_isn.unwrap().0) - 1 + segment.payload_len;
        assert_eq!(segment.options.dss.is_some(), end > 65_535, "{end}");
        assert_eq!(segment.options.mptcp[0].is_some(), end <= 65_535, "{end}");
    }
}

// RFC 8684 section 3.3.1: with checksums a mapping must be complete before any of it is delivered.
#[test]
fn with_checksums_only_the_first_segment_has_the_keys() {
    let required = ConnectionConfig { checksums: Checksums::Required, ..config() };
    let mut s = Script::client_of(required, 1);
    s.write(2000);
    s.expect(data(0, 1, 1000).no_dss());
    s.expect(data(0, 1001, 1000).map(1000, 1001, 1000).no_options());
}

// RFC 8684 sections 3.1 and 3.3.3: a DATA_FIN without data has no space for the keys, so an acknowledgement
// repeats them before it, each time until a DSS is received.
#[test]
fn the_keys_are_repeated_before_a_data_fin_without_data() {
    let mut s = Script::client_of(config(), 1);
    s.close();
    s.expect(ack(0, 1).seq(1).option(both(&s, None)).no_dss());
    s.expect(seg(0).seq(1).map(0, 0, 1).data_fin());
    let again = s.wait_until_sent(3000);
    // A listener that has fallen back to TCP answers a segment from before its window.
    let start = s.subs[0].own_isn.unwrap();
    let kind = |sent: &Segment| {
        (sent.seq.0.wrapping_sub(start.0), sent.options.mptcp[0], sent.options.dss.is_some())
    };
    let kinds: Vec<_> = again.iter().map(kind).collect();
    let keys = Some(both(&s, None));
    assert_eq!(kinds, [(1, keys, false), (0, keys, false), (1, None, true)]);
    s.inject(ack(0, 1).data_ack(1));
    s.advance(10_000);
    assert!(s.sent().is_empty());
}

// Data has carried the keys.
#[test]
fn a_data_fin_follows_the_first_data_at_once() {
    let mut s = Script::client_of(config(), 1);
    s.write(100);
    s.expect(data(0, 1, 100).option(both(&s, Some(100))).no_dss());
    s.close();
    s.expect(seg(0).seq(101).map(100, 0, 1).data_fin());
}

// RFC 8684 sections 3.1 and 3.9.2, rows I37, H9, B2: after three SYNs without an answer the next has no
// option 30, and the connection is plain TCP whatever the answer contains.
#[test]
fn the_fourth_syn_is_a_plain_one() {
    let mut s = Script::connecting(config(), 1);
    s.expect(seg(0).flags(S).option(capable(None, None, None)));
    for wait in [1000, 2000] {
        s.expect_after(wait, seg(0).flags(S).option(capable(None, None, None)));
    }
    s.expect_after(4000, seg(0).flags(S).no_mptcp());
    s.inject(seg(0).flags(SA).seq(0).ack(1).option(capable(Some(KEY_B), None, None)));
    s.expect(ack(0, 1).no_mptcp());
    s.write(100);
    s.expect(data(0, 1, 100).no_mptcp());
    s.inject(ack(0, 101));
    assert_eq!(s.stats().data_acked, 100);
}
