//! Reliability over subflows: RFC 8684 section 3.3.6.

use anabranch_stack::config::{ConnectionConfig, Reinjection, RtoConfig};
use anabranch_stack::event::{Event, SubflowId};
use anabranch_stack::scheduler::{LinuxOptions, SchedulerKind};
use anabranch_stack::segment::{MptcpOption, ResetReason};
use anabranch_stack::seq::DataRange;
use anabranch_units::Duration;

use crate::kit::*;

/// Returns two subflows after the first timeout of the first, which has sent three segments.
fn timed_out(config: ConnectionConfig) -> (Script, Vec<anabranch_stack::segment::Segment>) {
    let mut s = Script::two(config);
    s.write(3000);
    s.expect_data(0, 1, 3);
    let mut sent = Vec::new();
    while s.subflow(0).counters.timeouts == 0 {
        sent = s.wait_until_sent(3000);
    }
    (s, sent)
}

// RFC 8684 section 3.3.6, rows R6, M2: after a timeout the data is also sent on another subflow, with the
// same DSNs.
#[test]
fn after_a_timeout_data_goes_by_the_other_subflow_too() {
    let (_s, sent) = timed_out(config());
    let other: Vec<_> = sent.iter().filter(|segment| segment.source.ip == own_ip(1)).collect();
    let total: u32 = other.iter().map(|segment| segment.payload_len).sum();
    assert_eq!(total, 3000);
    let own = sent.iter().filter(|segment| segment.source.ip == own_ip(0)).count();
    assert_eq!(own, 1);
}

// RFC 8684 section 3.3.6, rows R1, M1: data delivered on the other is still retransmitted on the first
// subflow, with the same bytes for the same numbers, and only then discarded (A6). It no longer occupies the send buffer, as
// that subflow has failed.
#[test]
fn reinjected_data_is_still_repaired_on_its_own_subflow() {
    let (mut s, sent) = timed_out(config());
    let own = sent.iter().find(|segment| segment.source.ip == own_ip(0)).unwrap();
    let map = own.options.dss.unwrap().mapping.unwrap();
    assert_eq!((map.ssn, map.len), (1, 1000));
    s.inject(ack(1, 3001).data_ack(3000));
    assert_eq!(s.endpoint.freed(s.id()), 3000);
    assert_eq!(s.endpoint.still_carried(s.id()), [DataRange::new(0, 3000)]);
    s.sent();
    s.inject(ack(0, 1001).data_ack(3000));
    assert_eq!(s.endpoint.still_carried(s.id()), [DataRange::new(1000, 3000)]);
    let again = s.sent();
    assert!(again.iter().all(|segment| segment.source.ip == own_ip(0)));
    let maps: Vec<_> = again.iter().map(|segment| segment.options.dss.unwrap().mapping.unwrap()).collect();
    assert!(maps.iter().all(|map| map.len == 1000 && [1001, 2001].contains(&map.ssn)), "{maps:?}");
    assert!(!maps.is_empty());
    s.inject(ack(0, 3001).data_ack(3000));
    assert_eq!((s.endpoint.freed(s.id()), s.endpoint.still_carried(s.id())), (3000, Vec::new()));
}

// RFC 8684 section 3.3.6, row R3: local policy: only data of an ended subflow, if so configured.
#[test]
fn reinjection_may_wait_for_the_death() {
    let (_s, sent) = timed_out(ConnectionConfig { reinjection: Reinjection::OnDeath, ..config() });
    assert!(sent.iter().all(|segment| segment.source.ip == own_ip(0)));
}

// RFC 8684 section 3.3.6, rows R4, A5, B9: data acknowledged on the subflow but not at the data level is
// retransmitted.
#[test]
fn data_that_a_middlebox_acknowledged_and_dropped_is_retransmitted() {
    let mut s = Script::client(config());
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(ack(0, 2001).data_ack(0));
    let again = s.wait_until_sent(5000);
    let map = again[0].options.dss.unwrap().mapping.unwrap();
    assert_eq!((map.ssn, again[0].payload_len), (2001, 1000));
    s.inject(ack(0, 3001).data_ack(1000));
    // Data dropped with it needs no timer.
    s.expect(data(0, 3001, 1000).map(1000, 3001, 1000));
    s.inject(ack(0, 4001).data_ack(2000));
    s.advance(10_000);
}

// RFC 8684 section 3.3.6, row R7: a subflow that fails too often is given up, and the connection continues.
#[test]
fn a_failing_subflow_is_reset_and_the_connection_lives() {
    let rto = RtoConfig { max_timeouts: 2, ..config().rto };
    let (mut s, _) = timed_out(ConnectionConfig { rto, ..config() });
    s.inject(ack(1, 3001).data_ack(3000));
    let mut reset = false;
    for _ in 0..6 {
        let sent = s.wait_until_sent(20_000);
        assert!(sent.iter().all(|segment| segment.source.ip == own_ip(0)));
        reset = sent.iter().any(|segment| segment.flags.has(R));
        if reset {
            // Row R9.
            let why = MptcpOption::Reset { transient: true, reason: ResetReason::BadPerformance };
            assert!(sent.iter().any(|segment| segment.options.mptcp[0] == Some(why)));
            break;
        }
    }
    assert!(reset);
    assert!(s.events.contains(&Event::SubflowDown(SubflowId(0))));
    s.write(1000);
    s.expect(data(1, 3001, 1000).map(3000, 3001, 1000));
}

// RFC 8684 section 3.3.6, row R2: the receiver of a late copy acknowledges it on its subflow: see
// `dss::a_second_copy_is_acknowledged_and_not_delivered`. Section 3.3.8: a failing subflow carries no new
// data while another works.
#[test]
fn a_failing_subflow_gets_no_new_data() {
    let (mut s, _) = timed_out(config());
    s.inject(ack(1, 3001).data_ack(3000));
    s.sent();
    s.write(5000);
    let sent = s.sent();
    assert!(sent.iter().all(|segment| segment.source.ip == own_ip(1)));
    assert_eq!(sent.len(), 5);
}

// RFC 8684 section 3.3.6: data queued on a subflow for a window that has shrunk was not sent. After that
// subflow has timed out, it is sent on the other: otherwise a path that drops everything would delay the
// stream for the lifetime of its subflow.
#[test]
fn unsent_data_of_a_failing_subflow_is_sent_on_the_other() {
    const SEGMENTS: usize = 20;
    let mut s = Script::two(ConnectionConfig { pacing: true, ..config() });
    s.write(SEGMENTS as u64 * 1000);
    let mut here = [false; SEGMENTS];
    // The first segments are sent one by one; the first of all is lost, which shrinks the window.
    let mut sent = 0;
    while sent < 5 {
        sent += s.sent().iter().filter(|segment| segment.source.ip == own_ip(0)).count();
        s.advance_us(100);
    }
    s.sent();
    s.inject(ack(0, 1).sack(&[(1001, 5001)]).data_ack(0));
    here[1..5].fill(true);
    // From now on the first path drops everything, and the second loses nothing.
    for _ in 0..2000 {
        let mut next = None;
        for segment in s.sent().iter().filter(|segment| segment.source.ip == own_ip(1)) {
            if let Some(map) = segment.options.dss.and_then(|dss| dss.mapping) {
                here[s.map_of(&map).data as usize / 1000] = true;
                next = Some(i64::from(map.ssn) + 1000);
            }
        }
        if let Some(next) = next {
            let whole = here.iter().position(|here| !here).unwrap_or(SEGMENTS);
            s.inject(ack(1, next).data_ack(whole as i64 * 1000));
        } else {
            s.advance(1);
        }
    }
    assert!(s.subflow(0).counters.timeouts > 0);
    assert_eq!(here, [true; SEGMENTS]);
}

/// Starts a download over two subflows: `segments` segments on each.
fn spread(segments: u64) -> Script {
    let mut s = Script::two(ConnectionConfig { initial_window: segments as u32, ..config() });
    s.write(2 * segments * 1000);
    let sent = s.sent();
    assert_eq!(sent.len() as u64, 2 * segments);
    for segment in sent {
        let map = s.map_of(&segment.options.dss.unwrap().mapping.unwrap());
        assert_eq!(segment.source.ip, own_ip((map.data as u64 / 1000 / segments) as u8));
    }
    s
}

// RFC 8684 section 3.3.6: Linux acknowledges on the subflow, and discards, data that arrives out of order
// before it has sent its first DSS. The acknowledgement shows that no subflow carries the head of the stream,
// which is retransmitted a round trip and a delayed acknowledgement later; data missing after it follows without
// another wait.
#[test]
fn a_dropped_head_is_retransmitted_after_a_round_trip() {
    let mut s = spread(10);
    // The second subflow's part arrives first, and is discarded.
    s.inject(ack(1, 10_001).data_ack(0));
    s.inject(ack(0, 10_001).data_ack(10_000));
    let (since, srtt) = (s.now, s.subflow(0).srtt.max(s.subflow(1).srtt));
    let again = s.wait_until_sent(1000);
    let wait = s.now.since(since);
    assert_eq!(wait, srtt.unwrap() + config().ack.delay);
    assert_eq!(again.len(), 1);
    assert_eq!(s.map_of(&again[0].options.dss.unwrap().mapping.unwrap()).data, 10_000);
    assert_eq!(again[0].source.ip, own_ip(0));
    // One segment, then twice as many each time, as in slow start.
    let (mut next, mut una) = (10_001, 10_000);
    for (acked, follow) in [(1, 2), (2, 4), (4, 3)] {
        next += acked * 1000;
        una += acked * 1000;
        s.inject(ack(0, next).data_ack(una));
        let sent = s.sent();
        assert_eq!(sent.iter().filter(|segment| segment.payload_len > 0).count(), follow, "{una}");
    }
    s.inject(ack(0, next + 3000).data_ack(20_000));
    assert_eq!((s.stats().data_acked, s.stats().head_timeouts), (20_000, 1));
}

// The same, repeatedly without success: the intervals grow like those of a timeout, up to that of the data
// level.
#[test]
fn a_head_that_is_always_dropped_is_retransmitted_with_backoff() {
    let mut s = Script::client(config());
    s.write(1000);
    s.expect(data(0, 1, 1000));
    let mut waits = Vec::new();
    for at in 1..7 {
        s.inject(ack(0, at * 1000 + 1).data_ack(0));
        let (since, once) = (s.now, s.subflow(0).srtt.unwrap() + config().ack.delay);
        assert_eq!(s.wait_until_sent(5000).len(), 1);
        let wait = s.now.since(since);
        // The script advances in whole microseconds.
        let meant = (once * (1 << (at - 1))).as_micros();
        assert!(at > 3 || wait.as_micros() - meant <= 1, "{wait:?} for the {at}th");
        waits.push(wait);
    }
    let data_level = Duration::from_millis(400)..Duration::from_millis(450);
    assert!(waits[4..].iter().all(|wait| data_level.contains(wait)), "{waits:?}");
}

// RFC 8684 section 3.7: a peer that has fallen back to TCP would take retransmitted data for new data, and if
// two SACK blocks leave no space for a data acknowledgement it can hardly be distinguished from one that has
// not. The long timer is used.
#[test]
fn without_a_data_acknowledgement_nothing_counts_as_dropped() {
    let mut s = Script::client(config());
    s.write(3000);
    s.expect_data(0, 1, 3);
    s.inject(ack(0, 3001).no_dss().sack(&[(1, 1001), (1001, 2001)]));
    s.advance(300);
    s.expect_nothing();
    // Nothing is retransmitted then: the connection falls back with the peer.
    let sent = s.wait_until_sent(200);
    assert!(sent.iter().all(|segment| segment.payload_len == 0), "{sent:?}");
    assert_eq!(s.stats().fallbacks, 1);
}

// RFC 8684 sections 3.3.6 and 3.7: an echo of ADD_ADDR acknowledges the data on the only subflow, and the data
// acknowledgement before it is lost. A copy could be taken for new data by a peer that falls back to TCP because a
// middlebox removes the copy's options, so the peer is asked for a data acknowledgement first, by an old octet. If that
// shows that the peer has dropped the data, it is reinjected.
#[test]
fn the_only_subflow_is_probed_before_its_data_is_reinjected() {
    let linux = ConnectionConfig { scheduler: SchedulerKind::Linux(LinuxOptions::DEFAULT), ..config() };
    for (config, dropped) in [(config(), false), (config(), true), (linux.clone(), false), (linux, true)] {
        let mut s = Script::client(config);
        s.write(2000);
        let first = s.expect(data(0, 1, 1000));
        s.expect(data(0, 1001, 1000));
        s.inject(ack(0, 1001).data_ack(1000));
        s.inject(ack(0, 2001).no_dss().option(Script::echo(0, own_ip(0), None)));
        s.expect_nothing();
        let probe = s.wait_until_sent(5000);
        assert_eq!(probe.len(), 1);
        assert_eq!((probe[0].seq, probe[0].payload_len), (first.seq.add(1999), 0));
        s.inject(ack(0, 2001).data_ack(if dropped { 1000 } else { 2000 }));
        if !dropped {
            assert_eq!((s.stats().data_acked, s.subflow(0).counters.segments_reinjected), (2000, 0));
            continue;
        }
        let again = s.wait_until_sent(5000);
        let map = again[0].options.dss.unwrap().mapping.unwrap();
        assert_eq!((s.map_of(&map).data, map.ssn, again[0].payload_len), (1000, 2001, 1000));
    }
}

// The same during the repair: an overtaken segment acknowledges the first copy at the data level, and the peer may have
// more.
#[test]
fn an_overtaken_data_acknowledgement_continues_no_repair() {
    let mut s = Script::client(config());
    s.write(3000);
    s.expect_data(0, 1, 3);
    s.inject(ack(0, 3001).data_ack(0));
    assert_eq!(s.wait_until_sent(5000).len(), 1);
    s.inject(ack(0, 4001).no_dss().option(Script::echo(0, own_ip(0), None)));
    s.inject(ack(0, 3001).data_ack(1000));
    s.expect_nothing();
    assert!(s.wait_until_sent(5000).iter().all(|segment| segment.payload_len == 0));
    s.inject(ack(0, 4001).data_ack(1000));
    let again = s.wait_until_sent(5000);
    assert_eq!(
        (again[0].payload_len, s.map_of(&again[0].options.dss.unwrap().mapping.unwrap()).data),
        (1000, 1000)
    );
}
