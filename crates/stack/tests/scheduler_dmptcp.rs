//! DMPTCP against its definition, and when it chooses anew (section 4.2 of the paper).

mod scheduler_common;

use anabranch_stack::event::SubflowId;
use anabranch_stack::scheduler::{
    Decision, Dmptcp, DmptcpOptions, RecoveryState, Rule, Scheduler, SubflowView, UnknownSize,
};
use anabranch_stack::selection::{PathEstimate, select_subflows};
use anabranch_stack::seq::DataRange;
use anabranch_stack::transfer_model::{ModelOptions, TransferModel};
use anabranch_units::{Bytes, Duration, Time};
use proptest::prelude::*;
use scheduler_common::{Connection, MSS, any_connection, set, subflow};

/// Algorithm 1 by the definition: the choice first, for every subflow, then minRTT within it.
fn oracle(connection: &Connection) -> Option<(SubflowId, u64)> {
    let active = connection.subflows.iter().any(|s| s.usable && !s.potentially_failed && !s.backup);
    let may = |s: &SubflowView| s.may_carry() && s.backup != active;
    let paths: Vec<_> = connection
        .subflows
        .iter()
        .map(|s| PathEstimate {
            srtt: s.srtt.unwrap_or(Duration::ZERO),
            cwnd: (s.cwnd / s.mss) as u32,
            ssthresh: s.ssthresh.map(|bytes| (bytes / s.mss) as u32),
            loss: s.loss_rate,
            mss: s.mss as u32,
            usable: may(s),
            backup: s.backup,
        })
        .collect();
    let selection = select_subflows(&paths, Bytes(connection.remaining()), &TransferModel::default());
    let data = connection.unassigned.first()?;
    let mut within: Vec<_> = selection.paths().map(|path| connection.subflows[path]).collect();
    within.retain(|s| s.cwnd.saturating_sub(s.inflight + s.queued) >= s.mss);
    within.sort_by_key(|s| (s.srtt.map_or(u64::MAX, |rtt| rtt.0), s.id));
    within.first().map(|s| (s.id, data.start))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_first_decision_is_min_rtt_within_the_choice(connection in any_connection()) {
        let mut connection = connection;
        connection.reinject.clear();
        connection.window_end = u64::MAX / 2;
        connection.subflows.iter_mut().for_each(|s| s.window_room = 1 << 30);
        let decided = match Dmptcp::default().decide(&connection.view()) {
            Decision::Assign { subflow, range, .. } => Some((subflow, range.start)),
            _ => None,
        };
        prop_assert_eq!(decided, oracle(&connection));
    }

    // 13.2 test 4.
    #[test]
    fn more_to_send_never_makes_the_choice_smaller(
        rtts in prop::collection::vec(5..300_u64, 2..6), cwnd in 1..40_u64, less in 1..3_000_000_u64, more in 0..3_000_000_u64,
    ) {
        let chosen = |bytes| {
            let mut subflows: Vec<_> = rtts.iter().enumerate().map(|(id, rtt)| subflow(id as u8, *rtt, cwnd)).collect();
            let fastest = subflows.iter().min_by_key(|s| s.srtt).unwrap().id.index();
            subflows[fastest].inflight = subflows[fastest].cwnd;
            let mut scheduler = Dmptcp::default();
            scheduler.decide(&Connection::new(subflows, bytes).view());
            scheduler.choice().unwrap().chosen.0
        };
        let (small, large) = (chosen(less), chosen(less + more));
        prop_assert_eq!(small & large, small);
    }
}

/// The paper's example: 20 and 80 ms, windows of 8. The first window is full.
fn example(bytes: u64) -> Connection {
    let mut connection = Connection::new(vec![subflow(0, 20, 8), subflow(1, 80, 8)], bytes);
    connection.subflows[0].inflight = 8 * MSS;
    connection
}

#[test]
fn up_to_164_kib_wait_for_the_fast_subflow_and_more_uses_both() {
    let mut scheduler = Dmptcp::default();
    let mut connection = example(120 * MSS);
    let Decision::Wait { until: None, why } = connection.run(&mut scheduler) else { panic!() };
    assert_eq!((why.rule, why.score, why.other), (Rule::NotSelected, 168_000.0, 168_000.0));
    let choice = scheduler.choice().unwrap();
    assert_eq!((choice.chosen, choice.left_out), (set(&[0]), Some(SubflowId(1))));

    let mut connection = example(120 * MSS + 1);
    connection.run(&mut Dmptcp::default());
    assert_eq!(connection.bytes_on(1), 8 * MSS);
}

#[test]
fn equal_rtts_use_both_once_more_remains_than_one_window() {
    let two = |bytes| {
        let mut connection = Connection::new(vec![subflow(0, 20, 8), subflow(1, 20, 8)], bytes);
        connection.subflows[0].inflight = 8 * MSS;
        connection.run(&mut Dmptcp::default());
        connection.bytes_on(1)
    };
    assert_eq!(two(8 * MSS), 0);
    assert_eq!(two(8 * MSS + 1), 8 * MSS);
}

#[test]
fn loss_on_the_fast_subflow_brings_in_the_slow_one() {
    let mut connection = example(100 * MSS);
    connection.run(&mut Dmptcp::default());
    assert_eq!(connection.bytes_on(1), 0);
    connection.subflows[0].loss_rate = 0.03;
    connection.run(&mut Dmptcp::default());
    assert_eq!(connection.bytes_on(1), 8 * MSS);
}

#[test]
fn ten_megabytes_use_eight_subflows_and_ten_kilobytes_one() {
    let used = |bytes| {
        let subflows = (0..8).map(|id| subflow(id, 20 + 10 * u64::from(id), 10)).collect();
        let mut connection = Connection::new(subflows, bytes);
        connection.run(&mut Dmptcp::default());
        (0..8).filter(|id| connection.bytes_on(*id) > 0).count()
    };
    assert_eq!((used(10_000), used(10_000_000)), (1, 8));
}

#[test]
fn the_choice_holds_for_a_round_trip_of_the_fastest() {
    let mut scheduler = Dmptcp::default();
    let mut connection = example(100 * MSS);
    connection.run(&mut scheduler);
    let first = *scheduler.choice().unwrap();
    // Nothing else than time lets it look at the loss rate.
    connection.subflows[0].loss_rate = 0.05;
    connection.now = first.at + Duration::from_nanos(19_999_999);
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice(), Some(&first));
    connection.now = first.at + Duration::from_millis(20);
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0, 1]));
}

#[test]
fn nothing_is_computed_while_the_fastest_subflow_has_room() {
    let mut scheduler = Dmptcp::default();
    let mut connection = Connection::new(vec![subflow(0, 20, 8), subflow(1, 80, 8)], 8 * MSS);
    connection.run(&mut scheduler);
    assert_eq!(connection.bytes_on(0), 8 * MSS);
    assert_eq!(scheduler.choice(), None);
}

#[test]
fn a_write_that_the_chosen_ones_cannot_carry_in_time_leads_to_a_new_choice() {
    let mut scheduler = Dmptcp::default();
    let mut connection = example(100 * MSS);
    connection.run(&mut scheduler);
    let first = *scheduler.choice().unwrap();
    connection.unassigned = vec![DataRange::new(0, 110 * MSS)];
    connection.run(&mut scheduler);
    // What was predicted for 100 segments is a lower bound, which 110 may exceed: it is asked again.
    assert_eq!(scheduler.choice().unwrap().chosen, first.chosen);
    connection.unassigned = vec![DataRange::new(0, 121 * MSS)];
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0, 1]));
}

#[test]
fn chosen_subflows_that_fail_are_left_out_of_the_next_choice_at_once() {
    for failure in [
        |s: &mut SubflowView| s.potentially_failed = true,
        |s: &mut SubflowView| s.recovery = RecoveryState::Loss,
        |s: &mut SubflowView| s.usable = false,
    ] {
        let mut scheduler = Dmptcp::default();
        let mut connection =
            Connection::new(vec![subflow(0, 20, 8), subflow(1, 80, 8), subflow(2, 90, 8)], 50 * MSS);
        connection.subflows[0].inflight = 8 * MSS;
        connection.run(&mut scheduler);
        assert!(connection.log.is_empty());
        failure(&mut connection.subflows[0]);
        connection.run(&mut scheduler);
        assert_eq!(connection.bytes_on(1), 8 * MSS);
    }
}

#[test]
fn a_chosen_subflow_that_is_not_the_fastest_may_fail_too() {
    let mut scheduler = Dmptcp::default();
    let subflows = vec![subflow(0, 20, 8), subflow(1, 30, 8), subflow(2, 40, 8)];
    // Within 40 ms the first can send 24 segments, and the first two 37; 37 remain then.
    let mut connection = Connection::new(subflows, 45 * MSS);
    connection.run(&mut scheduler);
    assert_eq!((connection.remaining(), connection.bytes_on(2)), (29 * MSS, 0));
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0, 1]));
    connection.subflows[1].potentially_failed = true;
    connection.run(&mut scheduler);
    assert_eq!(connection.bytes_on(2), 8 * MSS);
}

#[test]
fn another_fastest_subflow_leads_to_a_new_choice_at_once() {
    let mut scheduler = Dmptcp::default();
    let mut connection = example(10 * MSS);
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0]));
    // They change places: the one that was fast has room, and is not worth while any more.
    connection.subflows[0].inflight = 0;
    connection.subflows[1].inflight = 8 * MSS;
    connection.subflows[1].srtt = Some(Duration::from_millis(10));
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[1]));
    assert!(connection.log.is_empty());
}

#[test]
fn an_unknown_size_is_what_waits_in_the_buffer_or_infinite() {
    let run = |unknown_size, size_known| {
        let mut connection = example(20 * MSS);
        connection.size_known = size_known;
        connection.run(&mut Dmptcp::new(DmptcpOptions { unknown_size, ..DmptcpOptions::DEFAULT }));
        connection.bytes_on(1)
    };
    assert_eq!(run(UnknownSize::Buffered, false), 0);
    assert_eq!(run(UnknownSize::Infinite, false), 8 * MSS);
    assert_eq!(run(UnknownSize::Infinite, true), 0);
}

#[test]
fn the_default_options_are_the_models() {
    assert_eq!(DmptcpOptions::DEFAULT.model, ModelOptions::default());
    assert_eq!(Dmptcp::default(), Dmptcp::new(DmptcpOptions::default()));
}

#[test]
fn a_lone_backup_is_chosen() {
    let mut connection = Connection::new(vec![subflow(0, 20, 8)], 50 * MSS);
    connection.subflows[0].backup = true;
    connection.now = Time::from_secs(3);
    connection.run(&mut Dmptcp::default());
    assert_eq!(connection.bytes_on(0), 8 * MSS);
}
