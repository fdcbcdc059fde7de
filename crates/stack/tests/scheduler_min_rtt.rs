//! minRTT compared with an independent search of everything a view allows, and its properties.

use crate::scheduler_common;

use anabranch_stack::event::{SubflowId, SubflowSet};
use anabranch_stack::scheduler::{
    AssignKind, Decision, MinRtt, Pending, RecoveryState, Rule, Scheduler, SubflowView,
};
use anabranch_stack::seq::DataRange;
use anabranch_units::Duration;
use proptest::prelude::*;
use scheduler_common::{Connection, MSS, any_connection, set, subflow};

/// Returns how much of `data` the subflow can carry: the largest length that no rule forbids, found by
/// search.
fn takes(connection: &Connection, s: &SubflowView, data: DataRange) -> u64 {
    if s.inflight + s.queued > s.cwnd {
        return 0;
    }
    let window = connection.window_end.saturating_sub(data.start);
    let whole_segments = (s.cwnd - s.inflight - s.queued) / s.mss * s.mss;
    let allowed = |len: u64| {
        let whole = len.is_multiple_of(s.mss);
        let tail = len == data.len();
        let to_the_edge = len < s.mss
            && (len == window && connection.outstanding.is_empty()
                || len == s.window_room && s.inflight + s.queued == 0);
        len <= data.len()
            && len <= window
            && len <= whole_segments
            && len <= s.window_room
            && (whole || tail || to_the_edge)
    };
    (1..=whole_segments).rev().find(|len| allowed(*len)).unwrap_or(0)
}

/// Returns the reference's decision, by sorting. `None` is a wait.
fn oracle(connection: &Connection) -> Option<(SubflowId, DataRange, AssignKind)> {
    let works = |s: &&SubflowView| s.usable && !s.potentially_failed;
    let active: Vec<_> = connection.subflows.iter().filter(works).filter(|s| !s.backup).collect();
    let backup: Vec<_> = connection.subflows.iter().filter(works).filter(|s| s.backup).collect();
    let mut class = if active.is_empty() { backup } else { active };
    let (data, kind) = match (connection.reinject.first(), connection.unassigned.first()) {
        (Some(Pending { range, tried }), _) => {
            if class.iter().any(|s| !tried.has(s.id)) {
                class.retain(|s| !tried.has(s.id));
            }
            (*range, AssignKind::Reinject)
        }
        (None, Some(range)) => (*range, AssignKind::New),
        (None, None) => return None,
    };
    class.retain(|s| s.recovery != RecoveryState::Loss && takes(connection, s, data) > 0);
    class.sort_by_key(|s| (s.srtt.map_or(u64::MAX, |rtt| rtt.0), s.id));
    let first = class.first()?;
    Some((first.id, DataRange::new(data.start, data.start + takes(connection, first, data)), kind))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn it_decides_as_the_search_does(connection in any_connection()) {
        let decided = match MinRtt.decide(&connection.view()) {
            Decision::Assign { subflow, range, kind, .. } => Some((subflow, range, kind)),
            _ => None,
        };
        prop_assert_eq!(decided, oracle(&connection));
    }
}

#[test]
fn all_data_is_assigned_to_the_fastest_while_its_window_is_free() {
    let mut connection = Connection::new(vec![subflow(0, 100, 10), subflow(1, 20, 10)], 10 * MSS);
    connection.run(&mut MinRtt);
    assert_eq!((connection.bytes_on(0), connection.bytes_on(1)), (0, 10 * MSS));
}

#[test]
fn a_full_fast_window_sends_the_next_data_in_order_on_the_slow_one() {
    // The pathology of the DMPTCP paper's figure 27: 256 KB over 20 and 100 ms.
    let mut connection = Connection::new(vec![subflow(0, 20, 10), subflow(1, 100, 10)], 256_000);
    connection.run(&mut MinRtt);
    let expected = [
        (SubflowId(0), DataRange::new(0, 10 * MSS), AssignKind::New),
        (SubflowId(1), DataRange::new(10 * MSS, 20 * MSS), AssignKind::New),
    ];
    assert_eq!(connection.log, expected);
}

#[test]
fn equal_rtts_go_to_the_first_and_an_unknown_rtt_is_the_slowest() {
    let mut subflows = vec![subflow(0, 0, 10), subflow(1, 20, 10), subflow(2, 20, 10)];
    subflows[0].srtt = None;
    let mut connection = Connection::new(subflows, 25 * MSS);
    connection.run(&mut MinRtt);
    let order: Vec<_> = connection.log.iter().map(|(id, ..)| id.0).collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn the_reason_names_the_rtt_of_the_chosen_and_of_the_best_other_with_room() {
    let mut subflows = vec![subflow(0, 100, 10), subflow(1, 20, 10), subflow(2, 30, 1), subflow(3, 50, 10)];
    subflows[2].inflight = MSS;
    let connection = Connection::new(subflows, 5 * MSS);
    let Decision::Assign { why, .. } = MinRtt.decide(&connection.view()) else { panic!() };
    assert_eq!((why.rule, why.score, why.other), (Rule::LowestRtt, 0.02, 0.05));
    let connection = Connection { subflows: connection.subflows[..3].to_vec(), ..connection };
    let Decision::Assign { why, .. } = MinRtt.decide(&connection.view()) else { panic!() };
    assert_eq!((why.score, why.other), (0.02, 0.1));
}

fn with_reinject(subflows: Vec<SubflowView>, tried: SubflowSet) -> Connection {
    let range = DataRange::new(0, 2 * MSS);
    let pending = Pending { range, tried };
    let mut connection = Connection::new(subflows, 20 * MSS);
    connection.unassigned = vec![DataRange::new(2 * MSS, 20 * MSS)];
    connection.data_nxt = 2 * MSS;
    connection.outstanding = vec![pending];
    connection.reinject = vec![pending];
    connection
}

#[test]
fn data_of_a_failed_subflow_goes_first_and_to_one_that_never_carried_it() {
    let mut connection = with_reinject(vec![subflow(0, 20, 10), subflow(1, 100, 10)], set(&[0]));
    connection.run(&mut MinRtt);
    assert_eq!(connection.log[0], (SubflowId(1), DataRange::new(0, 2 * MSS), AssignKind::Reinject));
    assert_eq!(connection.log[1].2, AssignKind::New);
}

#[test]
fn it_waits_for_an_untried_subflow_that_is_only_full() {
    let mut subflows = vec![subflow(0, 20, 10), subflow(1, 100, 10)];
    subflows[1].inflight = 10 * MSS;
    let mut connection = with_reinject(subflows, set(&[0]));
    connection.run(&mut MinRtt);
    assert!(connection.log.is_empty());
    // But not for a failed one.
    connection.subflows[1].potentially_failed = true;
    connection.run(&mut MinRtt);
    assert_eq!(connection.log[0].0, SubflowId(0));
}

#[test]
fn data_that_all_have_carried_goes_to_the_fastest_of_all() {
    let mut connection = with_reinject(vec![subflow(0, 20, 10), subflow(1, 100, 10)], set(&[0, 1]));
    connection.run(&mut MinRtt);
    assert_eq!(connection.log[0], (SubflowId(0), DataRange::new(0, 2 * MSS), AssignKind::Reinject));
}

#[test]
fn a_backup_is_used_when_no_active_subflow_works_and_not_while_one_repairs_a_timeout() {
    let mut connection = Connection::new(vec![subflow(0, 100, 10), subflow(1, 20, 10)], 5 * MSS);
    connection.subflows[1].backup = true;
    connection.subflows[0].recovery = RecoveryState::Loss;
    connection.run(&mut MinRtt);
    assert!(connection.log.is_empty());
    connection.subflows[0].potentially_failed = true;
    connection.run(&mut MinRtt);
    assert_eq!(connection.bytes_on(1), 5 * MSS);
}

#[test]
fn a_subflow_in_fast_recovery_is_used_as_its_window_allows() {
    let mut connection = Connection::new(vec![subflow(0, 20, 3)], 5 * MSS);
    connection.subflows[0].recovery = RecoveryState::Recovery;
    connection.subflows[0].srtt = Some(Duration::from_millis(20));
    connection.run(&mut MinRtt);
    assert_eq!(connection.bytes_on(0), 3 * MSS);
}
