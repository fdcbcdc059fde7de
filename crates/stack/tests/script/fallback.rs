//! Fallback to TCP, MP_FAIL, and MP_TCPRST: RFC 8684 sections 3.6 and 3.7.

use anabranch_stack::config::{Checksums, ConnectionConfig, ReceiveBuffer};
use anabranch_stack::event::{CloseReason, Event};
use anabranch_stack::segment::{MptcpOption, ResetReason};
use anabranch_units::Bytes;

use crate::kit::*;

fn required() -> ConnectionConfig {
    ConnectionConfig { checksums: Checksums::Required, ..config() }
}

const MIDDLEBOX: MptcpOption = reset(false, ResetReason::Middlebox);

// RFC 8684 section 3.7, rows F2, F5, F6, F15, F20, B4, M23: the acknowledgement of the first data has no
// DATA_ACK. One infinite mapping, repeated if its segment is retransmitted, and no option after that; the
// subflow's acknowledgements free the buffer, and the FIN ends the stream.
#[test]
fn data_acknowledged_without_a_data_ack_makes_a_plain_tcp() {
    let mut s = Script::client_of(config(), 1);
    s.write(1000);
    s.expect(data(0, 1, 1000).no_dss());
    s.inject(ack(0, 1001));
    s.expect_nothing();
    assert_eq!((s.stats().data_acked, s.endpoint.freed(s.id())), (1000, 1000));
    s.write(2000);
    s.expect(data(0, 1001, 1000).map(0, 1, 0).no_data_ack().no_options());
    s.expect(data(0, 2001, 1000).no_mptcp());
    s.inject(ack(0, 1001).sack(&[(2001, 3001)]));
    let again = s.wait_until_sent(1000);
    assert_eq!(again[0].options.dss.and_then(|dss| dss.mapping).map(|map| map.len), Some(0));
    // Row F18: MPTCP options are ignored from now on.
    s.inject(ack(0, 3001).data_ack(1));
    assert_eq!(s.stats().data_acked, 3000);
    s.close();
    s.expect(seg(0).flags(FA).seq(3001).no_mptcp());
    s.inject(seg(0).flags(FA).seq(1).ack(3002));
    s.expect(ack(0, 2).no_mptcp());
    assert!(s.events.contains(&Event::Closed(CloseReason::Finished)));
}

// RFC 8684 section 3.7, rows F2, F5: before any data is acknowledged, an answer without options also shows
// it. Only the tail of the first flight has arrived, or only a DATA_FIN was sent.
#[test]
fn an_answer_without_options_before_the_keys_are_confirmed_makes_a_plain_tcp() {
    let mut s = Script::client_of(config(), 1);
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(ack(0, 1).sack(&[(1001, 2001)]));
    s.expect_nothing();
    assert_eq!(s.stats().fallbacks, 1);
    let again = s.wait_until_sent(1000);
    assert!(again.iter().all(|segment| segment.options.mptcp == [None; 2]));
    s.inject(ack(0, 2001));
    assert_eq!(s.stats().data_acked, 2000);

    let mut s = Script::client_of(config(), 1);
    s.close();
    s.expect(ack(0, 1).no_dss());
    s.expect(seg(0).map(0, 0, 1).data_fin());
    s.inject(ack(0, 1));
    s.expect(seg(0).flags(FA).seq(1).no_mptcp());
    s.inject(data(0, 1, 100).ack(2));
    s.expect(ack(0, 101).no_mptcp());
    s.inject(seg(0).flags(FA).seq(101).ack(2));
    s.expect(ack(0, 102).no_mptcp());
    assert!(s.events.contains(&Event::Closed(CloseReason::Finished)));
}

// RFC 8684 section 3.7, rows F5, F21, B4: the listener's first data arrives without a mapping.
#[test]
fn first_data_without_any_option_makes_a_plain_tcp() {
    let mut s = Script::server(config());
    s.inject(data(0, 1, 100));
    s.expect(ack(0, 101).no_mptcp());
    assert_eq!((s.stats().received, s.stats().fallbacks), (100, 1));
    s.write(500);
    s.expect(data(0, 1, 500).map(0, 1, 0).no_data_ack());
    s.inject(data(0, 101, 100).ack(501));
    s.sent();
    assert_eq!((s.stats().received, s.stats().data_acked), (200, 500));
    // Row F17: a join is refused.
    let sub = s.peer_opens(0, 3, 6000);
    let syn = s.join_syn(sub, 4, false);
    s.inject(syn);
    s.expect(seg(1).flags(RA));
}

// RFC 8684 section 3.7: options are missing from the middle of a segment on. Its head is mapped, or was
// received before, and is not processed again with the rest.
#[test]
fn fallback_inside_a_segment_concerns_only_its_rest() {
    for (buffer, received) in [(64_000, 200), (150, 150)] {
        let receive_buffer = ReceiveBuffer::Fixed(Bytes(buffer));
        let mut s = Script::client(ConnectionConfig { receive_buffer, ..config() });
        s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 150));
        s.forget_acks();
        s.inject(data(0, 101, 50));
        s.forget_acks();
        assert_eq!((s.stats().received, s.stats().fallbacks), (150, 0));
        s.inject(data(0, 101, 100));
        s.sent();
        assert_eq!((s.stats().received, s.stats().fallbacks, s.discarded), (received, 1, 50));
        let counters = s.endpoint.subflow_stats(s.id())[0].counters;
        assert_eq!((counters.data_segments_received, counters.bytes_duplicate), (3, 50));
    }
}

// RFC 8684 section 3.7, row F17: joins in progress are abandoned.
#[test]
fn a_join_in_progress_is_abandoned_at_fallback() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    s.inject(data(0, 1, 100));
    s.expect(ack(0, 101).option(s.own_fails(0)));
    s.expect(ack(0, 101).no_mptcp());
    s.advance(100_000);
    let answer = s.join_answer(1, 0, false);
    s.inject(answer);
    s.expect(seg(1).flags(R));
    assert_eq!(s.stats().received, 100);
}

// RFC 8684 section 3.7, rows F3, F4: on a join the same condition ends the subflow, and the data is
// reinjected on the other.
#[test]
fn data_acknowledged_without_a_data_ack_resets_a_join() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    s.advance(10);
    let answer = s.join_answer(1, 0, false);
    s.inject(answer);
    s.expect(ack(1, 1).no_dss());
    s.advance(10);
    // The fourth ACK may lack MPTCP options (trap T1).
    s.inject(ack(1, 1));
    s.write(12_000);
    s.by_subflow();
    s.expect_data(0, 1, 10);
    s.expect_data(1, 1, 2);
    s.inject(ack(1, 1001));
    s.expect(seg(1).flags(RA).option(MIDDLEBOX));
    s.inject(ack(0, 10_001).data_ack(10_000));
    let again: u32 =
        s.sent().iter().filter(|sent| sent.source.ip == own_ip(0)).map(|sent| sent.payload_len).sum();
    s.inject(ack(0, 12_001).data_ack(12_000));
    assert_eq!((again, s.stats().data_acked), (2000, 12_000));
}

// RFC 8684 section 3.3.2, row A10: after the first DATA_ACK on the subflow, a missing one is no error.
#[test]
fn after_the_first_data_ack_none_is_missed() {
    let mut s = Script::client(config());
    s.write(1000);
    s.expect_data(0, 1, 1);
    s.inject(ack(0, 1001));
    s.write(1000);
    s.expect(data(0, 1001, 1000).map(1000, 1001, 1000));
    s.inject(ack(0, 2001).data_ack(2000));
}

// RFC 8684 section 3.7, rows M23, F16, F18: after a received infinite mapping: no more DATA_ACKs, and all
// data is the stream, mapped or not.
#[test]
fn an_infinite_mapping_is_followed() {
    let mut s = Script::client(config());
    s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 100));
    s.expect(ack(0, 101).data_ack(100));
    s.inject(data(0, 101, 100).data_ack(0).map(0, 1, 0));
    s.expect(ack(0, 201).no_mptcp());
    s.inject(data(0, 201, 100));
    s.expect(ack(0, 301).no_mptcp());
    s.inject(data(0, 301, 100).data_ack(0).map(7777, 301, 100));
    s.expect(ack(0, 401).no_mptcp());
    assert_eq!(s.stats().received, 400);
    s.write(10);
    s.expect(data(0, 1, 10).no_mptcp());
    // Row F20: a FIN is the end of the stream, a RST the end of the connection.
    s.inject(seg(0).flags(FA).seq(401).ack(11));
    s.expect(ack(0, 402).no_mptcp());
    assert!(s.events.contains(&Event::PeerClosed));
    s.inject(seg(0).flags(R).seq(402));
    assert!(s.events.contains(&Event::Closed(CloseReason::Reset)));
}

// The same while another subflow carries data too: the order would be undefined (row F17).
#[test]
fn an_infinite_mapping_beside_other_subflows_ends_its_subflow() {
    let mut s = Script::two(config());
    s.inject(data(1, 1, 100).data_ack(0).map(0, 1, 0));
    s.expect(seg(1).flags(RA).option(MIDDLEBOX));
    s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 100));
    s.expect(ack(0, 101).data_ack(100));
}

// RFC 8684 section 3.7, rows F10, F11, M6, B11: on a single subflow a wrong checksum is answered by MP_FAIL
// on an acknowledgement, for the start of the mapping; nothing is readable until the infinite mapping assigns
// the bytes to the stream.
#[test]
fn damage_on_the_only_subflow_is_signalled_by_mp_fail() {
    let mut s = Script::client(required());
    s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 100).checked());
    s.expect(ack(0, 101).data_ack(100));
    s.inject(damaged(data(0, 101, 100).data_ack(0).map(100, 101, 100).checked()));
    s.expect(ack(0, 201).data_ack(100).option(s.own_fails(100)));
    // Data after it is held too, and MP_FAIL is repeated.
    s.inject(data(0, 201, 100).data_ack(0).map(200, 201, 100).checked());
    s.expect(ack(0, 301).data_ack(100).option(s.own_fails(100)));
    assert_eq!((s.stats().received, s.held_bytes()), (100, 200));
    s.inject(data(0, 301, 100).data_ack(0).map(100, 101, 0).checked());
    s.expect(ack(0, 401).no_mptcp());
    assert_eq!((s.stats().received, s.held_bytes()), (400, 0));
    assert_eq!((s.stats().checksum_failures, s.stats().fallbacks), (1, 1));
    s.write(10);
    s.expect(data(0, 1, 10).no_data_ack());
}

// The answer may be an MP_FAIL alone, if the peer has no more data (as in Linux).
#[test]
fn an_mp_fail_that_is_answered_by_one_makes_a_plain_tcp() {
    let mut s = Script::client(required());
    s.inject(damaged(data(0, 1, 100).data_ack(0).map(0, 1, 100).checked()));
    s.expect(ack(0, 101).data_ack(0).option(s.own_fails(0)));
    s.inject(ack(0, 1).seq(101).data_ack(0).option(s.peer_fails(0)));
    s.expect_nothing();
    assert_eq!((s.stats().received, s.held_bytes()), (100, 0));
    s.write(10);
    s.expect(data(0, 1, 10).map(0, 1, 0));
}

// Without an answer it is repeated, and at last the subflow is reset (Linux waits two minutes).
#[test]
fn an_mp_fail_without_an_answer_is_repeated_and_given_up() {
    let mut s = Script::client(required());
    s.inject(damaged(data(0, 1, 100).data_ack(0).map(0, 1, 100).checked()));
    s.expect(ack(0, 101).data_ack(0).option(s.own_fails(0)));
    let mut repeated = 0;
    let last = loop {
        let sent = s.wait_until_sent(130_000);
        if sent[0].flags.has(R) {
            break sent[0];
        }
        assert!(sent[0].options.mptcp.contains(&Some(s.own_fails(0))));
        repeated += 1;
    };
    assert!(repeated > 3, "{repeated}");
    assert_eq!(last.options.mptcp, [Some(s.own_fails(0)), Some(MIDDLEBOX)]);
    assert_eq!(s.held_bytes(), 0);
    assert!(s.delivered.is_empty());
}

// RFC 8684 section 3.7, rows F8, F10, B11: with more than one subflow the damaged one is closed at once, with
// RST, MP_FAIL and MP_TCPRST; its data is not DATA_ACKed, and arrives on the other.
#[test]
fn damage_on_one_of_several_subflows_resets_it() {
    let mut s = Script::two(required());
    s.inject(data(1, 1, 60).data_ack(0).map(0, 1, 100).checked());
    s.expect(ack(1, 61).data_ack(0));
    s.inject(damaged(data(1, 61, 40).data_ack(0).map(0, 1, 100).checked()));
    let sent = s.expect(seg(1).flags(RA).option(s.own_fails(0)).option(MIDDLEBOX));
    assert!(sent.options.wire_len() <= 40);
    assert_eq!((s.stats().received, s.held_bytes()), (0, 0));
    s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 100).checked());
    s.expect(ack(0, 101).data_ack(100));
}

// RFC 8684 section 3.7, row F13: also if only one is left, but data may have moved between subflows.
#[test]
fn damage_after_a_join_resets_the_last_subflow() {
    let mut s = Script::two(required());
    s.inject(seg(1).flags(R).seq(1));
    s.inject(damaged(data(0, 1, 100).data_ack(0).map(0, 1, 100).checked()));
    s.expect(seg(0).flags(RA).option(s.own_fails(0)).option(MIDDLEBOX));
    assert_eq!(s.stats().received, 0);
}

// RFC 8684 section 3.7, rows F11, F12: after an MP_FAIL on the only subflow: MP_FAIL in answer, and the next
// data has the infinite mapping, from the last DATA_ACKed byte on.
#[test]
fn mp_fail_is_answered_and_followed_by_the_infinite_mapping() {
    let mut s = Script::client(required());
    s.write(2000);
    s.expect(data(0, 1, 1000).checked());
    s.expect(data(0, 1001, 1000).checked());
    s.inject(ack(0, 2001).data_ack(1000).option(s.peer_fails(1000)));
    s.expect(ack(0, 1).option(s.own_fails(0)).no_dss());
    s.expect_nothing();
    assert_eq!(s.stats().data_acked, 2000);
    s.write(500);
    let sent = s.expect(data(0, 2001, 500).map(1000, 1001, 0).no_data_ack());
    assert_eq!(sent.options.dss.unwrap().mapping.unwrap().checksum, Some(0));
    s.write(500);
    s.expect(data(0, 2501, 500).no_mptcp());
    assert_eq!((s.stats().fails_received, s.stats().fallbacks), (1, 1));
}

// RFC 8684 section 3.7, row F9: MP_FAIL with a reset: the subflow ends, and its data is reinjected on the
// other.
#[test]
fn mp_fail_on_a_reset_moves_the_data() {
    let mut s = Script::two(required());
    s.write(2000);
    s.by_subflow();
    s.expect(data(0, 1, 1000).checked());
    s.expect(data(0, 1001, 1000).checked());
    s.inject(seg(0).flags(RA).seq(1).ack(2001).option(s.peer_fails(1000)).option(MIDDLEBOX));
    s.expect(data(1, 1, 1000).map(0, 1, 1000).checked());
    s.expect(data(1, 1001, 1000).map(1000, 1001, 1000).checked());
    assert_eq!(s.stats().fails_received, 1);
}

// Row F13: an MP_FAIL on an acknowledgement while there are several subflows.
#[test]
fn mp_fail_beside_other_subflows_resets_its_subflow() {
    let mut s = Script::two(required());
    s.inject(ack(1, 1).data_ack(0).option(s.peer_fails(0)));
    s.expect(seg(1).flags(RA).option(MIDDLEBOX));
}

// Trap T42: Linux falls back silently when a DSS is missing. Data without any option on the only subflow is
// followed by fallback at once, signalled by MP_FAIL in case a middlebox caused it.
#[test]
fn data_without_options_in_mid_connection_is_followed() {
    let mut s = Script::client(config());
    s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 100));
    s.expect(ack(0, 101).data_ack(100));
    s.inject(data(0, 101, 100));
    s.expect(ack(0, 201).option(s.own_fails(100)));
    s.expect(ack(0, 201).no_mptcp());
    assert_eq!(s.stats().received, 200);
    s.inject(seg(0).flags(FA).seq(201).ack(1));
    s.expect(ack(0, 202).no_mptcp());
    assert!(s.events.contains(&Event::PeerClosed));
}

// The same with only a FIN (trap T19).
#[test]
fn a_fin_without_options_on_the_only_subflow_ends_the_stream() {
    let mut s = Script::client(config());
    s.inject(seg(0).flags(FA).seq(1).ack(1));
    s.expect(ack(0, 2).no_mptcp());
    assert!(s.events.contains(&Event::PeerClosed));
    s.write(100);
    s.expect(data(0, 1, 100).map(0, 1, 0));
}

// Row F20: a DATA_FIN acknowledged before the fallback is followed by the FIN of a TCP.
#[test]
fn after_fallback_the_fin_is_sent_although_the_data_fin_was() {
    let mut s = Script::client(config());
    s.close();
    s.expect(seg(0).map(0, 0, 1).data_fin());
    s.inject(ack(0, 1).data_ack(1));
    s.inject(data(0, 1, 100));
    let sent = s.sent();
    assert!(sent.iter().any(|segment| segment.flags.has(FA)), "{sent:?}");
    s.inject(seg(0).flags(FA).seq(101).ack(2));
    s.sent();
    assert!(s.events.contains(&Event::Closed(CloseReason::Finished)));
}

// Trap T42 for a sender: the peer acknowledges without a DSS, and its DATA_ACK does not advance. The data
// level would retransmit data that the subflow has delivered, and a peer that has fallen back would take it
// for new data.
#[test]
fn a_peer_that_speaks_no_dss_any_more_is_followed() {
    let mut s = Script::client(config());
    s.write(1000);
    s.expect_data(0, 1, 1);
    s.inject(ack(0, 1001));
    let sent = s.wait_until_sent(10_000);
    assert!(sent.iter().all(|segment| segment.payload_len == 0), "{sent:?}");
    assert_eq!((s.stats().fallbacks, s.stats().data_acked), (1, 1000));
    s.write(100);
    s.expect(data(0, 1001, 100).map(0, 1, 0));
}

// RFC 8684 section 3.3.1, row M25: a contradicting mapping on the only subflow.
#[test]
fn a_contradicting_mapping_on_the_only_subflow_makes_a_plain_tcp() {
    let mut s = Script::client(config());
    s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 300));
    s.expect(ack(0, 101).data_ack(100));
    s.inject(data(0, 101, 100).data_ack(0).map(5000, 101, 100));
    s.expect(ack(0, 201).option(s.own_fails(100)));
    s.expect(ack(0, 201).no_mptcp());
    assert_eq!((s.stats().received, s.stats().fallbacks), (200, 1));
}

// RFC 8684 section 3.7, row F19: damage is not detected without checksums.
#[test]
fn without_checksums_damage_is_not_seen() {
    let mut s = Script::client(config());
    s.inject(damaged(data(0, 1, 100).data_ack(0).map(0, 1, 100)));
    s.expect(ack(0, 101).data_ack(100));
}

// RFC 8684 section 3.6, rows Z1, Z3: after a permanent reset the pair of addresses is not retried in this
// connection.
#[test]
fn a_path_that_was_reset_for_good_is_not_tried_again() {
    let mut s = Script::two(config());
    s.inject(seg(1).flags(RA).seq(1).ack(1).option(reset(false, ResetReason::Prohibited)));
    s.endpoint.set_address_up(s.now, own_ip(1), true);
    s.poll();
    s.advance(1000);
}

// Row Z2: after a transient one it is retried at the next opportunity.
#[test]
fn a_path_that_was_reset_for_now_is_tried_again() {
    let mut s = Script::two(config());
    s.inject(seg(1).flags(RA).seq(1).ack(1).option(reset(true, ResetReason::LackOfResources)));
    s.endpoint.set_address_up(s.now, own_ip(1), true);
    s.poll();
    s.expect(seg(2).flags(S));
}

// Row Z5: without RST it is ignored.
#[test]
fn mp_tcprst_without_rst_means_nothing() {
    let mut s = Script::two(config());
    s.inject(ack(1, 1).data_ack(0).option(reset(false, ResetReason::Prohibited)));
    s.inject(data(1, 1, 100).data_ack(0).map(0, 1, 100));
    s.expect(ack(1, 101).data_ack(100));
}

// `mptcp_established_options` in net/mptcp/options.c of Linux writes none after a fallback, so that `tcp_current_mss` counts
// none: a full segment has 28 bytes more. That of the infinite mapping still has an option, and must fit.
#[test]
fn segments_after_a_fallback_fill_the_mtu() {
    let (with, without) = (1420_i64, 1448_i64);
    let data = |seq, len: i64| data(0, seq, len as u32);
    let full = |mtu| ConnectionConfig { mss: with as u32, mtu, ..config() };
    let mut s = Script::client_of(full(1500), 1);
    s.write(with as u64);
    s.expect(data(1, with).no_dss());
    s.inject(ack(0, 1 + with));
    assert_eq!(s.stats().fallbacks, 1);
    s.write((with + 2 * without) as u64);
    s.expect(data(1 + with, with).map(0, 1, 0).no_data_ack().no_options());
    s.expect(data(1 + 2 * with, without).no_mptcp());
    s.expect(data(1 + 2 * with + without, without).no_mptcp());
    // A setting below the full segment stays.
    let mut s = Script::client_of(full(9000), 1);
    s.write(with as u64);
    s.expect(data(1, with).no_dss());
    s.inject(ack(0, 1 + with));
    s.write(2 * with as u64);
    s.expect(data(1 + with, with).map(0, 1, 0).no_data_ack().no_options());
    s.expect(data(1 + 2 * with, with).no_mptcp());
}

// The same if the handshake has shown that the peer has no Multipath TCP.
#[test]
fn segments_to_a_peer_without_multipath_tcp_fill_the_mtu() {
    let mut s = Script::connecting(ConnectionConfig { mss: 1420, ..config() }, 1);
    s.sent();
    s.inject(seg(0).flags(SA).seq(0).ack(1));
    s.sent();
    s.write(1448 + 1000);
    s.expect(data(0, 1, 1448).no_mptcp());
    s.expect(data(0, 1449, 1000).no_mptcp());
}
