//! Subflows that the peer has half-closed: RFC 8684 section 3.3.3, RFC 9293 section 3.6.

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::event::{CloseReason, Event};
use anabranch_stack::segment::MptcpOption;
use anabranch_units::{Bytes, Duration};

use crate::kit::*;

fn closed(s: &Script) -> Option<CloseReason> {
    s.events.iter().find_map(|event| match event {
        Event::Closed(reason) => Some(*reason),
        _ => None,
    })
}

/// Returns the peer's DATA_FIN alone, at stream offset `end`.
fn data_fin(sub: usize, seq: i64, end: i64) -> Seg {
    seg(sub).seq(seq).data_ack(0).map(end, 0, 1).data_fin()
}

/// Returns a confirmed connection of either role, and the place of the peer's next byte on its subflow.
fn both_roles(config: &ConnectionConfig) -> [(Script, i64); 2] {
    [(Script::client(config.clone()), 1), (Script::confirmed_server(config.clone()), 11)]
}

// Row X1: without another subflow, data written before the peer's FIN and blocked by a window of 0 is sent
// when the window opens, and before the local FIN.
#[test]
fn a_fin_leaves_unsent_data_its_only_subflow() {
    let mut client = Script::connecting(config(), 1);
    client.expect(seg(0).flags(S));
    let key = capable(Some(KEY_B), None, None);
    client.inject(seg(0).flags(SA).seq(0).ack(1).window(0).option(key));
    client.expect(ack(0, 1));
    client.inject(ack(0, 1).window(0).data_ack(0));
    let mut server = Script::listening(config(), 1);
    server.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    server.expect(seg(0).flags(SA));
    let keys = capable(Some(KEY_A), server.own_key, Some(10));
    server.inject(data(0, 1, 10).window(0).option(keys));
    server.expect(ack(0, 11).data_ack(10));
    for (mut s, next) in [(client, 1), (server, 11)] {
        s.write(900);
        s.inject(seg(0).flags(FA).seq(next).window(0).data_ack(0));
        s.expect(ack(0, next + 1).seq(1));
        let probe = s.wait_until_sent(2000);
        assert!(probe.iter().all(|segment| segment.flags == A && segment.payload_len == 0), "{probe:?}");
        s.inject(seg(0).seq(next + 1).data_ack(0));
        let sent = s.expect(data(0, 1, 900).flags(A));
        assert!(sent.options.mptcp.iter().flatten().next().is_none());
        s.inject(seg(0).seq(next + 1).ack(901).data_ack(900));
        assert_eq!(s.stats().data_acked, 900);
        assert_eq!(closed(&s), None);
    }
}

// Row X1: data written after the peer's FIN is sent, retransmitted and acknowledged; then the DATA_FIN is
// sent, and only then the FIN.
#[test]
fn data_written_after_a_fin_is_sent_on_its_only_subflow() {
    for (mut s, next) in both_roles(&config()) {
        s.inject(seg(0).flags(FA).seq(next).data_ack(0));
        s.expect(ack(0, next + 1).seq(1));
        s.write(500);
        s.expect(data(0, 1, 500).map(0, 1, 500));
        assert_eq!(s.wait_until_sent(5000)[0].payload_len, 500, "it is retransmitted");
        s.inject(seg(0).seq(next + 1).ack(501).data_ack(500));
        s.close();
        s.expect(seg(0).flags(A).seq(501).map(500, 0, 1).data_fin());
        s.inject(seg(0).seq(next + 1).ack(501).data_ack(501));
        s.expect(seg(0).flags(FA).seq(501).ack(next + 1));
        s.inject(seg(0).seq(next + 1).ack(502).data_ack(501));
        // The peer has not sent a DATA_FIN: the connection waits for another subflow.
        s.advance(59_000);
        assert_eq!(closed(&s), None);
        s.advance(1000);
        assert_eq!(closed(&s), Some(CloseReason::NoSubflow));
    }
}

// Row X9, appendix D: the peer sends its FIN as soon as its DATA_FIN is acknowledged, and the local side
// continues for any time; then the connection has ended at both levels.
#[test]
fn a_peer_of_appendix_d_gets_the_other_half_in_full() {
    for (mut s, next) in both_roles(&config()) {
        let start = next - 1;
        s.inject(data_fin(0, next, start));
        s.expect(ack(0, next).data_ack(start + 1));
        s.write(1500);
        s.expect(data(0, 1, 1000));
        s.expect(data(0, 1001, 500));
        s.inject(seg(0).flags(FA).seq(next).ack(1).data_ack(0));
        s.expect(ack(0, next + 1).seq(1501));
        // Longer than any timeout for the silence of a peer whose stream has ended.
        s.inject(seg(0).seq(next + 1).ack(1501).data_ack(1500));
        s.advance(120_000);
        s.write(700);
        s.expect(data(0, 1501, 700).map(1500, 1501, 700));
        s.inject(seg(0).seq(next + 1).ack(2201).data_ack(2200));
        s.close();
        s.expect(seg(0).flags(A).seq(2201).map(2200, 0, 1).data_fin());
        s.inject(seg(0).seq(next + 1).ack(2201).data_ack(2201));
        s.expect(seg(0).flags(FA).seq(2201).ack(next + 1));
        s.inject(seg(0).seq(next + 1).ack(2202).data_ack(2201));
        assert_eq!(closed(&s), Some(CloseReason::Finished));
    }
}

// Appendix D: such a peer closes all its subflows, and both still carry local data; the local FINs follow the
// local DATA_FIN.
#[test]
fn fins_after_the_peers_data_fin_leave_every_subflow_in_use() {
    let mut s = Script::two(config());
    s.inject(data_fin(0, 1, 0));
    s.expect(ack(0, 1).data_ack(1));
    for sub in [0, 1] {
        s.inject(seg(sub).flags(FA).seq(1).data_ack(0));
        s.expect(ack(sub, 2).flags(A).seq(1));
    }
    s.write(20_000);
    s.by_subflow();
    s.expect_data(0, 1, 10);
    s.expect_data(1, 1, 10);
    s.inject(seg(0).seq(2).ack(10_001).data_ack(10_000));
    s.inject(seg(1).seq(2).ack(10_001).data_ack(20_000));
    s.close();
    s.expect(seg(0).flags(A).map(20_000, 0, 1).data_fin());
    s.inject(seg(1).seq(2).ack(10_001).data_ack(20_001));
    s.by_subflow();
    s.expect(seg(0).flags(FA).seq(10_001).ack(2));
    s.expect(seg(1).flags(FA).seq(10_001).ack(2));
    s.inject(seg(0).seq(2).ack(10_002).data_ack(20_001));
    s.inject(seg(1).seq(2).ack(10_002).data_ack(20_001));
    assert_eq!(closed(&s), Some(CloseReason::Finished));
}

// Row X11: FINs without DATA_FIN on both subflows: the first is answered, the last subflow stays open.
#[test]
fn fins_on_all_subflows_leave_one_open() {
    let mut s = Script::two(config());
    s.inject(seg(1).flags(FA).seq(1).data_ack(0));
    s.expect(seg(1).flags(FA).seq(1).ack(2));
    s.inject(seg(0).flags(FA).seq(1).data_ack(0));
    s.expect(ack(0, 2).flags(A).seq(1));
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(seg(1).seq(2).ack(2).data_ack(0));
    s.inject(seg(0).seq(2).ack(2001).data_ack(2000));
    assert_eq!(s.stats().data_acked, 2000);
}

// Row X11: a FIN is not answered while the only other subflow waits for a retransmission timeout.
#[test]
fn a_fin_is_not_answered_while_the_other_subflow_may_have_failed() {
    let mut s = Script::two(config());
    s.write(1000);
    s.expect(data(0, 1, 1000));
    // Its timer expires, and the other subflow gets the data.
    while s.subflow(0).counters.timeouts == 0 {
        s.wait_until_sent(5000);
    }
    s.inject(seg(1).flags(FA).seq(1).ack(1001).data_ack(1000));
    s.expect(ack(1, 2).flags(A).seq(1001));
    s.write(1000);
    s.expect(data(1, 1001, 1000).map(1000, 1001, 1000));
    s.inject(seg(1).seq(2).ack(2001).data_ack(2000));
    s.sent();
}

// Row X11: the local FIN is still pending when the other subflow ends: it is withdrawn, and this subflow gets
// the data.
#[test]
fn a_fin_that_was_not_sent_is_withdrawn_when_the_other_subflow_dies() {
    let mut s = Script::two(ConnectionConfig { pacing: true, ..config() });
    s.write(20_000);
    s.by_subflow();
    s.expect(data(0, 1, 1000));
    s.expect(data(1, 1, 1000));
    // The rest waits for pacing.
    s.inject(seg(0).flags(FA).seq(1).data_ack(0));
    s.expect(ack(0, 2).flags(A));
    s.inject(seg(1).flags(R).seq(1));
    let mut acked = 1;
    while s.subflow(0).counters.bytes_sent < 20_000 {
        for segment in s.wait_until_sent(1000) {
            assert!(!segment.flags.has(FA), "{segment:?}");
            acked += i64::from(segment.payload_len);
        }
        s.inject(seg(0).seq(2).ack(acked).data_ack(0));
        s.sent();
    }
}

// Row X17: break before make. A new subflow takes over from one that the peer has closed, on which the local
// FIN then follows.
#[test]
fn a_join_takes_over_from_a_half_closed_subflow() {
    let mut s = Script::confirmed_server(config());
    s.inject(seg(0).flags(FA).seq(11).data_ack(0));
    s.expect(ack(0, 12).flags(A).seq(1));
    s.advance(50_000);
    let (sub, third) = s.peer_joins_with(0, 3, 4);
    s.inject(third);
    s.by_subflow();
    s.expect(seg(0).flags(FA).seq(1).ack(12));
    s.expect(ack(sub, 1).seq(1));
    s.write(1000);
    s.expect(data(sub, 1, 1000).map(0, 1, 1000));
    s.inject(data(sub, 1, 100).ack(1001).data_ack(1000).map(10, 1, 100));
    s.expect(ack(sub, 101).data_ack(110));
    s.inject(seg(0).seq(12).ack(2));
    s.advance(100_000);
    assert_eq!((s.stats().received, closed(&s)), (110, None));
}

// Row X17: a peer that has closed every subflow without a DATA_FIN can send nothing more. If the local side
// has nothing to send either, the connection ends after the close timeout, which local data extends.
#[test]
fn a_peer_without_subflows_is_waited_for_as_long_as_data_is_sent() {
    let mut s = Script::confirmed_server(config());
    s.inject(seg(0).flags(FA).seq(11).data_ack(0));
    s.expect(ack(0, 12).flags(A).seq(1));
    s.advance(50_000);
    s.write(100);
    s.expect(data(0, 1, 100));
    s.inject(seg(0).seq(12).ack(101).data_ack(100));
    s.advance(59_000);
    assert_eq!(closed(&s), None);
    s.advance_us(1_000_000);
    assert_eq!(closed(&s), Some(CloseReason::NoSubflow));
    s.expect(seg(0).flags(FA).seq(101));
    s.inject(seg(0).seq(12).ack(102));
}

// Row X17: a DATA_FIN may still arrive on a pure acknowledgement after the FIN; then the wait ends.
#[test]
fn a_data_fin_after_the_fin_ends_the_stream() {
    let mut s = Script::confirmed_server(config());
    s.inject(seg(0).flags(FA).seq(11).data_ack(0));
    s.expect(ack(0, 12).flags(A).seq(1));
    s.inject(data_fin(0, 12, 10));
    s.expect(ack(0, 12).data_ack(11));
    assert!(s.events.contains(&Event::PeerClosed));
    s.advance(300_000);
    assert_eq!(closed(&s), None);
    s.write(100);
    s.expect(data(0, 1, 100));
    s.inject(seg(0).seq(12).ack(101).data_ack(100));
}

// RFC 9293 section 3.8.3: unacknowledged data on a half-closed subflow ends with the user timeout.
#[test]
fn the_user_timeout_holds_on_a_half_closed_subflow() {
    let impatient = ConnectionConfig { user_timeout: Duration::from_secs(5), ..config() };
    let mut s = Script::confirmed_server(impatient);
    s.inject(seg(0).flags(FA).seq(11).data_ack(0));
    s.expect(ack(0, 12));
    s.write(100);
    s.expect(data(0, 1, 100));
    while closed(&s).is_none() {
        s.wait_until_sent(5000);
    }
    assert_eq!(closed(&s), Some(CloseReason::TimedOut));
}

// RFC 9293 section 3.6: the same in plain TCP.
#[test]
fn a_fin_leaves_our_side_of_a_plain_tcp_open() {
    let mut s = Script::client(plain());
    s.inject(seg(0).flags(FA).seq(1));
    s.expect(ack(0, 2).flags(A).seq(1));
    s.write(500);
    s.expect(data(0, 1, 500));
    s.inject(seg(0).seq(2).ack(501));
    s.close();
    s.expect(seg(0).flags(FA).seq(501).ack(2));
    s.inject(seg(0).seq(2).ack(502));
    assert_eq!(closed(&s), Some(CloseReason::Finished));
}

// Row X17: a first subflow is reset while a join is in progress, and the join then fails: the connection ends
// after the close timeout.
#[test]
fn a_join_that_fails_last_starts_the_close_timeout() {
    let small = ConnectionConfig { send_buffer: Bytes(100_000), ..config() };
    let mut s = Script::confirmed_server(small);
    let (sub, _) = s.peer_joins_with(0, 3, 4);
    s.inject(seg(0).flags(R).seq(11));
    for _ in 0..12 {
        let before = s.now;
        s.advance(100_000);
        s.sent();
        assert!(s.now > before);
        if closed(&s).is_some() {
            break;
        }
    }
    assert_eq!(s.subs[sub].own.port, PORT);
    assert_eq!(closed(&s), Some(CloseReason::NoSubflow));
}

// RFC 8684 section 3.2: a client that half-closes right after its request still joins: the response is yet to
// come.
#[test]
fn a_client_joins_after_its_data_fin() {
    let mut s = Script::client_of(mesh(), 2);
    s.write(100);
    s.expect(data(0, 1, 100).no_dss());
    s.close();
    s.expect(seg(0).flags(A).seq(101).map(100, 0, 1).data_fin());
    s.inject(ack(0, 101).data_ack(101));
    let sub = s.joined(0, false);
    for (at, on) in [(0, 0), (1, sub)] {
        s.inject(data(on, 1, 1000).ack(if on == 0 { 101 } else { 1 }).data_ack(101).map(at * 1000, 1, 1000));
        s.sent();
    }
    assert_eq!(s.stats().received, 2000);
}

// RFC 8684 sections 3.2 and 3.4.1: a server whose client has sent a DATA_FIN announces its address, and
// accepts the join; its response uses both paths.
#[test]
fn a_server_announces_and_takes_joins_after_the_peers_data_fin() {
    let mut s = Script::server_with(mesh(), 2);
    let keys = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(keys));
    let announcement = s.sent();
    assert!(announcement.iter().any(is_announcement), "{announcement:?}");
    s.inject(data_fin(0, 11, 10));
    s.expect(ack(0, 11).data_ack(11));
    // It has not been echoed, so it is still repeated now.
    let mut repeated = 0;
    for _ in 0..2 {
        repeated += s.wait_until_sent(10_000).iter().filter(|segment| is_announcement(segment)).count();
    }
    assert!(repeated > 0);
    let sub = s.peer_joins(1, 3, 4, false);
    s.write(20_000);
    s.by_subflow();
    s.expect_data(0, 1, 10);
    s.expect_data(sub, 1, 10);
}

fn is_announcement(segment: &anabranch_stack::segment::Segment) -> bool {
    let announces =
        |option: &MptcpOption| matches!(option, MptcpOption::AddAddress(add) if add.hmac.is_some());
    segment.options.mptcp.iter().flatten().any(announces)
}

// Once the peer's stream has ended and the local stream was assigned to subflows, a further subflow could
// carry nothing.
#[test]
fn nothing_is_joined_without_anything_to_carry() {
    for (peers_end, joins) in [(false, true), (true, false)] {
        let mut s = Script::client_with(mesh(), 1);
        s.write(100);
        s.expect(data(0, 1, 100).map(0, 1, 100));
        s.close();
        s.expect(seg(0).flags(A).seq(101).map(100, 0, 1).data_fin());
        if peers_end {
            s.inject(data_fin(0, 1, 0));
            s.expect(ack(0, 1).data_ack(1));
        }
        let option = s.announcement(5, peer_ip(5), None);
        s.inject(ack(0, 1).data_ack(0).option(option));
        s.expect(ack(0, 1).option(Script::echo(5, peer_ip(5), None)));
        assert_eq!(s.sent().iter().any(|segment| segment.flags == S), joins);
    }
}

// Row X17: data in flight is retransmitted for longer than the close timeout.
#[test]
fn a_peer_without_subflows_may_be_slow_to_acknowledge() {
    let mut s = Script::confirmed_server(config());
    s.inject(seg(0).flags(FA).seq(11).data_ack(0));
    s.expect(ack(0, 12).flags(A).seq(1));
    s.write(100);
    s.expect(data(0, 1, 100));
    let start = s.now;
    while s.now.since(start) < Duration::from_secs(200) {
        assert!(s.wait_until_sent(200_000).iter().all(|segment| segment.payload_len == 100));
    }
    s.inject(seg(0).seq(12).ack(101).data_ack(100));
    assert_eq!((s.stats().data_acked, closed(&s)), (100, None));
}
