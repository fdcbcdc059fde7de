//! Reliability over subflows: RFC 8684 section 3.3.6.

use anabranch_stack::config::{ConnectionConfig, Reinjection, RtoConfig};
use anabranch_stack::event::{Event, SubflowId};
use anabranch_stack::segment::{MptcpOption, ResetReason};

use crate::kit::*;

/// Two subflows, three segments sent on the first, and its first timeout past.
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

// RFC 8684 section 3.3.6, rows R6, M2: after a timeout the data goes by another subflow as well, the same DSNs.
#[test]
fn after_a_timeout_data_goes_by_the_other_subflow_too() {
    let (_s, sent) = timed_out(config());
    let other: Vec<_> = sent.iter().filter(|segment| segment.source.ip == own_ip(1)).collect();
    let total: u32 = other.iter().map(|segment| segment.payload_len).sum();
    assert_eq!(total, 3000);
    let own = sent.iter().filter(|segment| segment.source.ip == own_ip(0)).count();
    assert_eq!(own, 1);
}

// RFC 8684 section 3.3.6, rows R1, M1: what the other has delivered is still sent again on the first subflow,
// with the same bytes for the same numbers, and only then forgotten (A6).
#[test]
fn reinjected_data_is_still_repaired_on_its_own_subflow() {
    let (mut s, sent) = timed_out(config());
    let own = sent.iter().find(|segment| segment.source.ip == own_ip(0)).unwrap();
    let map = own.options.dss.unwrap().mapping.unwrap();
    assert_eq!((map.ssn, map.len), (1, 1000));
    s.inject(ack(1, 3001).data_ack(3000));
    assert_eq!(s.endpoint.freed(s.id()), 0);
    s.sent();
    s.inject(ack(0, 1001).data_ack(3000));
    let again = s.sent();
    assert!(again.iter().all(|segment| segment.source.ip == own_ip(0)));
    let maps: Vec<_> = again.iter().map(|segment| segment.options.dss.unwrap().mapping.unwrap()).collect();
    assert!(maps.iter().all(|map| map.len == 1000 && [1001, 2001].contains(&map.ssn)), "{maps:?}");
    assert!(!maps.is_empty());
    s.inject(ack(0, 3001).data_ack(3000));
    assert_eq!(s.endpoint.freed(s.id()), 3000);
}

// RFC 8684 section 3.3.6, row R3: local policy: only what a dead subflow carried, if so configured.
#[test]
fn reinjection_may_wait_for_the_death() {
    let (_s, sent) = timed_out(ConnectionConfig { reinjection: Reinjection::OnDeath, ..config() });
    assert!(sent.iter().all(|segment| segment.source.ip == own_ip(0)));
}

// RFC 8684 section 3.3.6, rows R4, A5, B9: acknowledged by the subflow but not at the data level: sent again.
#[test]
fn what_a_box_has_acknowledged_and_dropped_is_sent_again() {
    let mut s = Script::client(config());
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(ack(0, 2001).data_ack(0));
    let again = s.wait_until_sent(5000);
    let map = again[0].options.dss.unwrap().mapping.unwrap();
    assert_eq!((map.ssn, again[0].payload_len), (2001, 1000));
    s.inject(ack(0, 3001).data_ack(1000));
    let rest = s.wait_until_sent(5000);
    assert_eq!(rest[0].options.dss.unwrap().mapping.unwrap().ssn, 3001);
    s.inject(ack(0, 4001).data_ack(2000));
    s.advance(10_000);
}

// RFC 8684 section 3.3.6, row R7: a subflow that fails too often is given up, and the connection is not.
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
// `dss::a_second_copy_is_acknowledged_and_not_delivered`. Section 3.3.8: a subflow that fails carries no
// new data while another works.
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
