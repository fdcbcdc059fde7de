//! Rules on several topics that could once be broken without any other test failing (`docs/testing.md`,
//! "Rules broken by hand").

use anabranch_stack::config::{ConnectionConfig, OpportunisticRetransmission, PathMtuDiscovery};
use anabranch_stack::event::{CloseReason, Event, SubflowId};
use anabranch_stack::scheduler::{
    AssignKind, CustomScheduler, CustomSchedulerKind, Decision, Rule, Scheduler, SchedulerKind, View, Why,
};
use anabranch_stack::segment::{Join, MptcpOption, Segment};
use anabranch_stack::seq::DataRange;
use anabranch_units::Duration;

use crate::kit::*;

// RFC 8684 section 3.2, rows J20, K5: all 160 bits of the third ACK's HMAC are checked.
#[test]
fn each_byte_of_a_joins_code_counts() {
    for wrong in 0..20 {
        let mut s = Script::server(config());
        let (_, mut third) = s.peer_joins_with(0, 3, 4);
        let Some(MptcpOption::Join(Join::Ack { hmac })) = third.options.first_mut() else {
            panic!("{third:?}")
        };
        hmac[wrong] ^= 1;
        s.inject(third);
        s.expect(seg(1).flags(RA).seq(1));
        assert!(s.events.is_empty(), "byte {wrong}");
    }
}

// RFC 8684 section 3.7: after a join was answered the peer may have sent data on it, so the first subflow may
// not carry the whole stream. It is not known here whether the third ACK was lost.
#[test]
fn after_a_join_was_answered_data_without_a_mapping_is_not_the_stream() {
    let mut s = Script::confirmed_server(config());
    s.peer_joins_with(0, 3, 4);
    s.inject(data(0, 11, 100));
    s.expect(ack(0, 111).data_ack(10));
    assert_eq!((s.stats().fallbacks, s.stats().received, s.held_bytes()), (0, 10, 100));
}

// The same for a local join: after its third ACK was sent the peer may use it, and what then became of it is
// not known here.
#[test]
fn after_a_joins_third_ack_data_without_a_mapping_is_not_the_stream() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    let answer = s.join_answer(1, 0, false);
    s.inject(answer);
    s.expect(ack(1, 1).seq(1));
    s.inject(seg(1).flags(R).seq(1));
    s.inject(data(0, 1, 100));
    s.expect(ack(0, 101).data_ack(0));
    assert_eq!((s.stats().fallbacks, s.stats().received, s.held_bytes()), (0, 0, 100));
}

// RFC 8684 section 3.4.2, row E5: any segment shows that the path of a withdrawn address works, including
// data that is expected next.
#[test]
fn a_withdrawn_address_that_sends_data_keeps_its_subflow() {
    let mut s = Script::client_with(mesh(), 1);
    let option = s.announcement(1, peer_ip(5), None);
    s.inject(ack(0, 1).data_ack(0).option(option));
    s.sent();
    let answer = s.join_answer(1, 1, false);
    s.inject(answer);
    s.expect(ack(1, 1));
    s.inject(ack(1, 1).data_ack(0));
    s.inject(mapped(1, 1, 0, 100));
    s.sent();
    s.inject(ack(0, 1).data_ack(0).option(Script::removal(&[1])));
    s.expect(ack(1, 101).seq(0));
    s.inject(mapped(1, 101, 100, 100));
    s.forget_acks();
    s.advance(60_000);
    s.forget_acks();
    assert_eq!(s.subflow(1).ended, None);
}

// RFC 6298 section 3 (Karn's rule): a fourth ACK answers any of the third ACKs.
#[test]
fn a_fourth_ack_after_a_repeated_third_is_no_rtt_sample() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    s.advance(10);
    let answer = s.join_answer(1, 0, false);
    s.inject(answer);
    s.expect(ack(1, 1).seq(1));
    let rtt = s.subflow(1).srtt;
    assert_eq!(rtt, Some(Duration::from_millis(10)));
    assert!(!s.wait_until_sent(2000).is_empty());
    s.advance(10);
    s.inject(ack(1, 1).data_ack(0));
    assert!(s.subflow(1).established.is_some());
    assert_eq!(s.subflow(1).srtt, rtt);
}

// RFC 8684 section 3.3.6: the timers of the data level wait for the slowest subflow, whose timeout is backed
// off (RFC 6298 section 5.5).
#[test]
fn the_data_fin_is_repeated_after_the_backed_off_timeout() {
    let mut s = Script::two(config());
    s.write(1000);
    s.expect(data(0, 1, 1000));
    let mut taken_over = false;
    while s.subflow(0).counters.timeouts < 3 {
        let sent = s.wait_until_sent(10_000);
        if !taken_over && sent.iter().any(|segment| segment.source.ip == own_ip(1) && segment.payload_len > 0)
        {
            taken_over = true;
            s.inject(ack(1, 1001).data_ack(1000));
            s.forget_acks();
        }
    }
    assert!(taken_over);
    s.close();
    let is_fin = |segment: &Segment| segment.options.dss.is_some_and(|dss| dss.data_fin);
    assert!(s.sent().iter().any(is_fin));
    let closed = s.now;
    while !s.wait_until_sent(10_000).iter().any(is_fin) {}
    // 10 ms and 200 ms, eight times.
    let waited = s.now.since(closed);
    assert!(waited >= Duration::from_millis(8 * 210), "{waited:?}");
}

// RFC 2018 section 8: selectively acknowledged data counts as missing after timeouts, until the receiver
// reports it again.
#[test]
fn what_is_reported_again_after_timeouts_is_not_sent_again() {
    let mut s = Script::client(ConnectionConfig { undo: false, timestamps: false, ..plain() });
    s.inject(ack(0, 1));
    s.write(5000);
    s.expect_data(0, 1, 5);
    s.advance(10);
    s.inject(ack(0, 1).sack(&[(2001, 5001)]));
    s.sent();
    while s.subflow(0).counters.timeouts < 2 {
        s.wait_until_sent(2000);
    }
    s.advance(10);
    let isn = s.subs[0].own_isn.expect("a SYN was sent").0;
    let mut again = Vec::new();
    for (una, block) in [(1001, (2001, 5001)), (2001, (3001, 5001))] {
        s.inject(ack(0, una).sack(&[block]));
        again.extend(s.sent().iter().map(|segment| segment.seq.0.wrapping_sub(isn)));
    }
    assert_eq!(again, [1001]);
}

// RFC 4821 section 7.3: a probe replaces a segment, also while others are in flight.
#[test]
fn a_larger_segment_is_tried_while_others_are_in_flight() {
    let probing = ConnectionConfig { mss: 1400, path_mtu: PathMtuDiscovery::Probe, ..config() };
    let mut s = Script::client(probing);
    s.write(200_000);
    s.sent();
    let mut sent = Vec::new();
    while s.subflow(0).mss > 984 {
        sent = s.wait_until_sent(10_000);
    }
    let isn = s.subs[0].own_isn.expect("a SYN was sent").0;
    let mut ends = Vec::new();
    for _ in 0..50 {
        if sent.iter().any(|segment| segment.payload_len > 984) {
            return;
        }
        let end = |segment: &Segment| i64::from(segment.seq.0.wrapping_sub(isn) + segment.payload_len);
        ends.extend(sent.iter().filter(|segment| segment.payload_len > 0).map(end));
        ends.sort_unstable();
        ends.dedup();
        s.advance(10);
        // All but the last one, from the second flight on.
        let last = ends.len() - if ends.len() > 20 { 2 } else { 1 };
        let acked = ends[last];
        s.inject(ack(0, acked).data_ack(acked - 1));
        sent = s.sent();
    }
    panic!("no probe in 50 round trips");
}

/// Assigns the whole stream to one subflow, regardless of free window, and optionally 10,000..12,000 to
/// subflow 1 as well.
#[derive(Clone)]
struct Ahead {
    to: SubflowId,
    copies: bool,
}

impl Scheduler for Ahead {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let why = Why::rule(Rule::Custom(1));
        if let Some(&range) = view.unassigned.first() {
            return Decision::Assign { subflow: self.to, range, kind: AssignKind::New, why };
        }
        if self.copies && view.data_nxt >= 12_000 {
            self.copies = false;
            let range = DataRange::new(10_000, 12_000);
            return Decision::Assign { subflow: SubflowId(1), range, kind: AssignKind::Copy, why };
        }
        Decision::Wait { until: None, why: Why::rule(Rule::NoRoom) }
    }
}

impl CustomScheduler for Ahead {
    fn clone_box(&self) -> Box<dyn CustomScheduler> {
        Box::new(self.clone())
    }
}

fn ahead(to: u8, copies: bool) -> SchedulerKind {
    let build = move || -> Box<dyn CustomScheduler> { Box::new(Ahead { to: SubflowId(to), copies }) };
    SchedulerKind::Custom(CustomSchedulerKind::new("ahead", build))
}

// RFC 8684 section 3.3.2: queued data that is DATA_ACKed on another subflow is removed from the queue, and
// not sent.
#[test]
fn queued_data_that_is_data_acked_is_not_sent() {
    let mut s = Script::two(ConnectionConfig { scheduler: ahead(0, true), ..config() });
    s.write(14_000);
    s.by_subflow();
    s.expect_data(0, 1, 10);
    s.expect(data(1, 1, 1000).map(10_000, 1, 1000));
    s.expect(data(1, 1001, 1000).map(11_000, 1001, 1000));
    s.advance(10);
    // The acknowledgement of the other subflow is still in flight.
    s.inject(ack(0, 9001).data_ack(12_000));
    s.expect(data(0, 10_001, 1000).map(12_000, 10_001, 1000));
    s.expect(data(0, 11_001, 1000).map(13_000, 11_001, 1000));
}

// RFC 9293 section 3.8.6.2.1: a subflow's own window with less than a segment left is not filled while data
// in flight will open it.
#[test]
fn the_rest_of_a_subflows_own_window_is_not_filled() {
    let config = ConnectionConfig { scheduler: ahead(1, false), initial_window: 20, ..mesh() };
    let mut s = Script::client_with(config, 2);
    s.expect(seg(1).flags(S));
    let answer = s.join_answer(1, 0, false).window(10_496);
    s.inject(answer);
    s.expect(ack(1, 1).seq(1));
    s.inject(ack(1, 1).data_ack(0).window(10_496));
    s.write(14_000);
    s.expect_data(1, 1, 10);
    s.expect_nothing();
    s.inject(ack(1, 10_001).data_ack(10_000));
    s.expect_data(1, 10_001, 4);
}

// RFC 8985 section 7.3: a probe may send new data. With several subflows a silent one gets no new data.
#[test]
fn a_tail_probe_of_one_of_several_subflows_repeats_what_it_has_sent() {
    let mut s = Script::two(config());
    s.write(30_000);
    s.by_subflow();
    s.expect_data(0, 1, 10);
    s.expect_data(1, 1, 10);
    let mut probed = [false; 2];
    while probed != [true; 2] {
        for segment in s.wait_until_sent(100) {
            let sub = s.subs.iter().position(|sub| sub.own == segment.source).expect("one of the two");
            let isn = s.subs[sub].own_isn.expect("a SYN was sent").0;
            assert_eq!(segment.seq.0.wrapping_sub(isn), 9001);
            probed[sub] = true;
        }
    }
}

/// Returns two subflows with round trips of 10 ms and `slow_ms` that fill a receive window of 20,000 bytes;
/// the slow one carries the second half, and the first half has arrived.
fn blocked_by_the_slow_one(slow_ms: u64) -> Script {
    let opportunistic = OpportunisticRetransmission::RetransmitAndPenalise;
    let mut s = Script::connecting(ConnectionConfig { opportunistic, ..mesh() }, 2);
    s.expect(seg(0).flags(S));
    s.advance(10);
    s.inject(seg(0).flags(SA).seq(0).ack(1).window(20_000).option(capable(Some(KEY_B), None, None)));
    s.expect(ack(0, 1));
    s.inject(ack(0, 1).data_ack(0).window(19_968));
    s.expect(seg(1).flags(S));
    s.advance(slow_ms);
    let answer = s.join_answer(1, 0, false).window(20_000);
    s.inject(answer);
    s.expect(ack(1, 1).seq(1));
    s.inject(ack(1, 1).data_ack(0).window(19_968));
    s.write(30_000);
    s.by_subflow();
    s.expect_data(0, 1, 10);
    s.expect_data(1, 1, 10);
    s.advance(10);
    s.inject(ack(0, 10_001).data_ack(10_000).window(9_984));
    s
}

// NSDI 2012, section 4.2, and the out-of-tree kernel: a slow subflow whose data blocks the receive window has
// its congestion window halved, once per round trip of the fast one, which sends the head.
#[test]
fn a_subflow_that_blocks_the_window_is_penalised_once_in_a_round_trip() {
    let mut s = blocked_by_the_slow_one(100);
    s.expect(data(0, 10_001, 1000).map(10_000, 10_001, 1000));
    assert_eq!((s.stats().penalisations, s.cwnd(1)), (1, 5));
    s.advance(5);
    s.write(1000);
    assert_eq!((s.stats().penalisations, s.cwnd(1)), (1, 5));
    s.advance(5);
    s.write(1000);
    assert_eq!((s.stats().penalisations, s.cwnd(1)), (2, 2));
}

// The out-of-tree kernel: the head is reinjected only on a subflow that is four times as fast.
#[test]
fn the_head_stays_with_a_subflow_that_is_not_much_slower() {
    let mut s = blocked_by_the_slow_one(30);
    s.expect_nothing();
    assert_eq!(s.stats().opportunistic_retransmissions, 0);
}

// Signals that concern no particular subflow are sent on one that has not failed.
#[test]
fn a_withdrawal_is_not_sent_on_a_subflow_that_has_failed() {
    let mut s = Script::client_with(mesh(), 3);
    s.expect(seg(1).flags(S));
    s.expect(seg(2).flags(S));
    s.advance(10);
    for sub in [1, 2] {
        let answer = s.join_answer(sub, 0, false);
        s.inject(answer);
        s.expect(ack(sub, 1).seq(1));
        s.inject(ack(sub, 1).data_ack(0));
    }
    s.write(1000);
    s.expect_data(1, 1, 1);
    while s.subflow(1).counters.timeouts == 0 {
        s.wait_until_sent(1000);
    }
    s.endpoint.set_address_up(s.now, own_ip(2), false);
    s.poll();
    let removal =
        |segment: &&Segment| matches!(segment.options.mptcp[0], Some(MptcpOption::RemoveAddress(_)));
    let sent = s.sent();
    assert_eq!(sent.iter().find(removal).expect("a withdrawal").source.ip, own_ip(0));
}

// RFC 9293 section 3.8.6.1: a peer that answers the probes of its closed window is waited for. A silent one
// is given up after the user timeout.
#[test]
fn a_silent_peer_behind_a_closed_window_is_given_up() {
    let mut s = Script::connecting(ConnectionConfig { user_timeout: Duration::from_secs(20), ..config() }, 1);
    s.expect(seg(0).flags(S));
    s.advance(10);
    s.inject(seg(0).flags(SA).seq(0).ack(1).window(0).option(capable(Some(KEY_B), None, None)));
    s.expect(ack(0, 1));
    s.inject(ack(0, 1).data_ack(0).window(0));
    s.write(1000);
    let start = s.now;
    while !s.events.contains(&Event::Closed(CloseReason::TimedOut)) {
        s.wait_until_sent(30_000);
    }
    // The user timeout begins with the last answered probe, or the write.
    let waited = s.now.since(start);
    assert!(waited >= Duration::from_secs(20) && waited < Duration::from_secs(60), "{waited:?}");
}

/// Returns plain TCP with a round trip of 10 ms, without anything that distinguishes retransmissions.
fn ambiguous() -> ConnectionConfig {
    ConnectionConfig { timestamps: false, sack: false, undo: false, ..plain() }
}

// RFC 6298 section 3: an acknowledgement of several segments of which one was retransmitted is no sample, as
// the others have waited for that one.
#[test]
fn an_acknowledgement_of_more_than_a_retransmission_is_no_rtt_sample() {
    let mut s = Script::client(ambiguous());
    s.inject(ack(0, 1));
    s.write(3000);
    s.expect_data(0, 1, 3);
    let before = s.subflow(0).srtt;
    assert!(!s.wait_until_sent(2000).is_empty());
    s.advance(10);
    s.inject(ack(0, 3001));
    assert_eq!(s.subflow(0).srtt, before);
}

// RFC 6298 section 3: nor is the answer to a retransmitted SYN.
#[test]
fn the_answer_to_a_repeated_syn_is_no_rtt_sample() {
    let mut s = Script::connecting(ambiguous(), 1);
    s.expect(seg(0).flags(S));
    s.expect_after(1000, seg(0).flags(S));
    s.advance(10);
    s.inject(seg(0).flags(SA).seq(0).ack(1));
    s.expect(ack(0, 1));
    assert_eq!(s.subflow(0).srtt, None);
}

// RFC 6298 section 3: nor the third ACK after a retransmitted SYN/ACK.
#[test]
fn the_answer_to_a_repeated_syn_ack_is_no_rtt_sample() {
    let mut s = Script::listening(ambiguous(), 1);
    s.inject(seg(0).flags(S).seq(0));
    s.expect(seg(0).flags(SA));
    s.expect_after(1000, seg(0).flags(SA));
    s.advance(10);
    s.inject(ack(0, 1));
    assert!(s.events.contains(&Event::Accepted));
    assert_eq!(s.subflow(0).srtt, None);
}

// RFC 6056 section 3.3: a port in use for the same peer is not reused, also when the port numbers start over.
#[test]
fn a_port_in_use_is_not_used_again() {
    let mut s = Script::connecting(plain(), 1);
    s.sent();
    let (first, remote) = (s.subs[0].own.port, s.subs[0].peer);
    for _ in 0..16_384 {
        let id = s.endpoint.connect(s.now, own_ip(0), remote, plain()).expect("a port");
        let syn = s.endpoint.poll_transmit(s.now).expect("a SYN").segment;
        assert!(syn.flags == S && syn.source.port >= 49_152 && syn.source.port != first, "{syn:?}");
        s.endpoint.abort(s.now, id);
        while s.endpoint.poll_transmit(s.now).is_some() || s.endpoint.poll_event().is_some() {}
    }
}

// Each connection sends a turn of segments: a long queue of one does not delay another.
#[test]
fn two_connections_send_in_turn() {
    let mut s = Script::connecting(ConnectionConfig { initial_window: 200, ..plain() }, 1);
    s.sent();
    let (one, remote) = (s.id(), s.subs[0].peer);
    let config = ConnectionConfig { initial_window: 200, ..plain() };
    let other = s.endpoint.connect(s.now, own_ip(0), remote, config).expect("a port");
    s.poll();
    s.sent();
    for sub in [0, 1] {
        s.inject(seg(sub).flags(SA).seq(0).ack(1));
        s.sent();
        s.inject(ack(sub, 1));
    }
    for id in [one, other] {
        assert_eq!(s.endpoint.write(s.now, id, 150_000), 150_000);
    }
    s.poll();
    let first = s.subs[0].own;
    let from_first: Vec<bool> = s.sent().iter().map(|segment| segment.source == first).collect();
    assert_eq!(from_first.len(), 300);
    let turns: Vec<usize> = from_first.chunk_by(|a, b| a == b).map(<[bool]>::len).collect();
    assert_eq!(turns, [64, 64, 64, 64, 22, 22]);
}
