//! Redundant: each subflow carries the whole stream.

use crate::scheduler_common;

use anabranch_stack::event::SubflowId;
use anabranch_stack::scheduler::{AssignKind, Decision, Redundant, Scheduler};
use anabranch_stack::seq::DataRange;
use proptest::prelude::*;
use scheduler_common::{Connection, MSS, any_connection, set, subflow};

fn ranges_on(connection: &Connection, id: u8) -> Vec<DataRange> {
    connection.log.iter().filter(|(s, ..)| s.0 == id).map(|(_, range, _)| *range).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    // For any order of acknowledgements: every subflow is assigned everything once, in order, and never data
    // acknowledged before.
    #[test]
    fn everyone_is_given_the_whole_stream_in_order(
        bytes in 1..200_000_u64, windows in prop::collection::vec(1..20_u64, 1..5), acks in prop::collection::vec(0..5_u8, 0..60),
    ) {
        let n = windows.len() as u8;
        let subflows = windows.iter().enumerate().map(|(id, cwnd)| subflow(id as u8, 20, *cwnd)).collect();
        let mut connection = Connection::new(subflows, bytes);
        let mut scheduler = Redundant::default();
        for ack in acks.into_iter().chain((0..n).cycle().take(1000 * windows.len())) {
            connection.run(&mut scheduler);
            connection.acknowledge(ack % n);
        }
        for id in 0..n {
            let mut at = 0;
            for range in ranges_on(&connection, id) {
                prop_assert_eq!(range.start, at);
                at = range.end;
            }
            prop_assert_eq!(at, bytes);
        }
        let new: u64 = connection.log.iter().filter(|(.., kind)| *kind == AssignKind::New).map(|(_, r, _)| r.len()).sum();
        prop_assert_eq!(new, bytes);
    }

    // A subflow is assigned the first byte that it has not carried and that is not acknowledged.
    #[test]
    fn the_first_decision_is_the_first_that_the_first_able_subflow_has_not_carried(connection in any_connection()) {
        let mut connection = connection;
        connection.reinject.clear();
        connection.subflows.iter_mut().for_each(|s| s.backup = false);
        let Decision::Assign { subflow, range, kind, .. } = Redundant::default().decide(&connection.view()) else {
            return Ok(());
        };
        let missing = |id: SubflowId| {
            let copies = connection.outstanding.iter().filter(|p| !p.tried.has(id)).map(|p| (p.range.start, AssignKind::Copy));
            let new = connection.unassigned.iter().map(|r| (r.start, AssignKind::New));
            copies.chain(new).min_by_key(|(start, _)| *start)
        };
        prop_assert_eq!(missing(subflow), Some((range.start, kind)));
        for earlier in connection.subflows.iter().filter(|s| s.id < subflow && s.may_carry()) {
            let blocked = earlier.room() < earlier.mss || connection.window_end < connection.data_nxt + earlier.mss;
            prop_assert!(blocked || missing(earlier.id).is_none(), "{:?} was passed over", earlier);
        }
    }
}

#[test]
fn a_slow_subflow_skips_what_was_acknowledged_meanwhile() {
    let mut connection = Connection::new(vec![subflow(0, 20, 10), subflow(1, 500, 2)], 100 * MSS);
    let mut scheduler = Redundant::default();
    connection.run(&mut scheduler);
    assert_eq!(ranges_on(&connection, 1), [DataRange::new(0, 2 * MSS)]);
    connection.acknowledge(0);
    connection.data_acknowledge(10 * MSS);
    connection.run(&mut scheduler);
    connection.acknowledge(1);
    connection.run(&mut scheduler);
    assert_eq!(ranges_on(&connection, 1)[1], DataRange::new(10 * MSS, 12 * MSS));
}

#[test]
fn a_lone_subflow_is_plain_tcp() {
    let mut connection = Connection::new(vec![subflow(0, 20, 10)], 15 * MSS);
    let mut scheduler = Redundant::default();
    connection.run(&mut scheduler);
    connection.acknowledge(0);
    connection.run(&mut scheduler);
    assert_eq!(ranges_on(&connection, 0), [DataRange::new(0, 10 * MSS), DataRange::new(10 * MSS, 15 * MSS)]);
    assert!(connection.log.iter().all(|(.., kind)| *kind == AssignKind::New));
}

#[test]
fn a_backup_never_carries_copies() {
    let mut connection =
        Connection::new(vec![subflow(0, 20, 2), subflow(1, 20, 5), subflow(2, 20, 5)], 4 * MSS);
    connection.subflows[1].backup = true;
    connection.subflows[2].backup = true;
    let mut scheduler = Redundant::default();
    connection.run(&mut scheduler);
    assert_eq!(connection.bytes_on(1) + connection.bytes_on(2), 0);
    connection.subflows[0].potentially_failed = true;
    connection.run(&mut scheduler);
    assert_eq!(connection.bytes_on(1) + connection.bytes_on(2), 2 * MSS);
    assert!(connection.log.iter().all(|(.., kind)| *kind == AssignKind::New));
}

#[test]
fn a_reused_id_starts_from_unacknowledged_data() {
    let mut connection = Connection::new(vec![subflow(0, 20, 10), subflow(1, 20, 10)], 10 * MSS);
    let mut scheduler = Redundant::default();
    connection.run(&mut scheduler);
    assert_eq!(ranges_on(&connection, 1), [DataRange::new(0, 10 * MSS)]);
    // It ends, its mark on the data with it, and a new subflow takes its ID.
    connection.subflows[1] = subflow(1, 30, 4);
    connection.outstanding.iter_mut().for_each(|p| p.tried = set(&[0]));
    connection.data_acknowledge(3 * MSS);
    connection.run(&mut scheduler);
    assert_eq!(ranges_on(&connection, 1)[1], DataRange::new(3 * MSS, 7 * MSS));
}
