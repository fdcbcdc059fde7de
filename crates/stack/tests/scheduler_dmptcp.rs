//! DMPTCP compared with its definition, and the conditions for a new choice (section 4.2 of the paper).

use crate::scheduler_common;

use anabranch_stack::event::SubflowId;
use anabranch_stack::scheduler::{
    Decision, Dmptcp, DmptcpOptions, FileSize, FirstRound, RecoveryState, Rule, Scheduler, SubflowView,
    UnknownSize,
};
use anabranch_stack::selection::{PathEstimate, select_subflows};
use anabranch_stack::seq::DataRange;
use anabranch_stack::transfer_model::{ModelOptions, TransferModel};
use anabranch_units::{Bytes, Duration, Rate, Time};
use proptest::prelude::*;
use scheduler_common::{Connection, MSS, any_connection, set, subflow};

/// Runs algorithm 1 by its definition: the choice for every subflow first, then minRTT within it.
fn oracle(connection: &Connection) -> Option<(SubflowId, u64)> {
    let active = connection.subflows.iter().any(|s| s.usable && !s.potentially_failed && !s.backup);
    let room = |s: &SubflowView| s.cwnd.saturating_sub(s.inflight + s.queued) >= s.mss;
    // A subflow stays in the model for its first timeout, until that is repaired.
    let may = |s: &SubflowView| s.usable && s.timeouts <= 1 && s.backup != active;
    let paths: Vec<_> = connection
        .subflows
        .iter()
        .map(|s| PathEstimate {
            srtt: s.srtt.unwrap_or(Duration::ZERO),
            cwnd: (s.cwnd / s.mss) as u32,
            ssthresh: s.ssthresh.map(|bytes| (bytes / s.mss) as u32),
            loss: s.loss_rate,
            mss: s.mss as u32,
            rate_limit: None,
            full: !room(s) && s.recovery != RecoveryState::Loss,
            usable: may(s),
            backup: s.backup,
        })
        .collect();
    let selection = select_subflows(&paths, Bytes(connection.remaining()), &TransferModel::default());
    let data = connection.unassigned.first()?;
    let mut within: Vec<_> = selection.paths().map(|path| connection.subflows[path]).collect();
    within.retain(|s| s.may_carry() && room(s));
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

/// Returns a scheduler whose model begins with the window in flight.
fn current() -> Dmptcp {
    Dmptcp::new(DmptcpOptions { first_round: FirstRound::Current, ..DmptcpOptions::DEFAULT })
}

/// Returns the paper's example: 20 and 80 ms, windows of 8. The first window is full.
fn example(bytes: u64) -> Connection {
    let mut connection = Connection::new(vec![subflow(0, 20, 8), subflow(1, 80, 8)], bytes);
    connection.subflows[0].inflight = 8 * MSS;
    connection
}

#[test]
fn data_of_the_next_windows_waits_for_the_fast_subflow_and_more_uses_both() {
    // 16 + 32 + 64 + 128 segments: the first 8 are in flight.
    for (bytes, slow) in [(240 * MSS, 0), (240 * MSS + 1, 8 * MSS)] {
        let mut connection = example(bytes);
        connection.run(&mut Dmptcp::default());
        assert_eq!(connection.bytes_on(1), slow);
    }
}

#[test]
fn with_the_window_in_flight_as_the_first_round_it_is_164_kib() {
    let mut scheduler = current();
    let mut connection = example(120 * MSS);
    let Decision::Wait { until: None, why } = connection.run(&mut scheduler) else { panic!() };
    assert_eq!((why.rule, why.score, why.other), (Rule::NotSelected, 168_000.0, 168_000.0));
    let choice = scheduler.choice().unwrap();
    assert_eq!((choice.chosen, choice.left_out), (set(&[0]), Some(SubflowId(1))));

    let mut connection = example(120 * MSS + 1);
    connection.run(&mut current());
    assert_eq!(connection.bytes_on(1), 8 * MSS);
}

/// The size of the whole file includes the window in flight, so the model begins with it.
#[test]
fn the_whole_file_is_compared_with_all_windows() {
    let options = DmptcpOptions { filesize: FileSize::Whole, ..DmptcpOptions::DEFAULT };
    for (bytes, slow) in [(120 * MSS, 0), (120 * MSS + 1, 8 * MSS)] {
        let mut connection = example(bytes);
        connection.run(&mut Dmptcp::new(options));
        assert_eq!(connection.bytes_on(1), slow);
    }
}

#[test]
fn equal_rtts_use_both_once_more_remains_than_one_window() {
    let two = |bytes| {
        let mut connection = Connection::new(vec![subflow(0, 20, 8), subflow(1, 20, 8)], bytes);
        connection.subflows[0].inflight = 8 * MSS;
        connection.run(&mut Dmptcp::default());
        connection.bytes_on(1)
    };
    assert_eq!(two(16 * MSS), 0);
    assert_eq!(two(16 * MSS + 1), 8 * MSS);
}

#[test]
fn loss_on_the_fast_subflow_brings_in_the_slow_one() {
    let mut connection = example(200 * MSS);
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
    let mut connection = example(200 * MSS);
    connection.run(&mut scheduler);
    let first = *scheduler.choice().unwrap();
    // Only the passage of time makes it look at the loss rate.
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
    let mut connection = example(200 * MSS);
    connection.run(&mut scheduler);
    let first = *scheduler.choice().unwrap();
    connection.unassigned = vec![DataRange::new(0, 220 * MSS)];
    connection.run(&mut scheduler);
    // The prediction for 200 segments is a lower bound, which 220 may exceed, so it is computed again.
    assert_eq!(scheduler.choice().unwrap().chosen, first.chosen);
    connection.unassigned = vec![DataRange::new(0, 241 * MSS)];
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0, 1]));
}

/// Sets the state after `timeouts` consecutive timeouts: a window of one segment, which is retransmitted, and
/// half of the flight as the threshold.
fn time_out(s: &mut SubflowView, timeouts: u32) {
    s.potentially_failed = true;
    s.timeouts = timeouts;
    s.recovery = RecoveryState::Loss;
    if timeouts == 1 {
        s.ssthresh = Some((s.inflight / 2).max(2 * s.mss));
    }
    s.cwnd = s.mss;
    s.inflight = s.mss;
}

fn timed_out_twice(s: &mut SubflowView) {
    time_out(s, 1);
    time_out(s, 2);
}

/// Algorithm 1 has no exception for a timeout: window 1, threshold 4, and 1 + 2 + 4 + 5 segments in 80 ms.
#[test]
fn a_subflow_that_recovers_from_a_timeout_stays_in_the_model() {
    for (segments, slow) in [(12, 0), (13, 8)] {
        let mut connection = example(segments * MSS);
        time_out(&mut connection.subflows[0], 1);
        connection.run(&mut Dmptcp::default());
        assert_eq!(connection.bytes_on(1), slow * MSS, "{segments}");
        // The retransmission is acknowledged: 2 + 4 + 5 + 6, and recovery continues.
        let mut connection = example((segments + 5) * MSS);
        time_out(&mut connection.subflows[0], 1);
        (connection.subflows[0].potentially_failed, connection.subflows[0].timeouts) = (false, 0);
        (connection.subflows[0].cwnd, connection.subflows[0].inflight) = (2 * MSS, 2 * MSS);
        connection.run(&mut Dmptcp::default());
        assert_eq!(connection.bytes_on(1), slow * MSS, "{segments}");
    }
}

#[test]
fn a_timeout_and_the_first_acknowledgement_after_it_each_cause_a_new_choice() {
    let mut connection = example(50 * MSS);
    let mut scheduler = Dmptcp::default();
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0]));
    time_out(&mut connection.subflows[0], 1);
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0, 1]));
    assert_eq!(connection.bytes_on(1), 8 * MSS);
    (connection.subflows[0].potentially_failed, connection.subflows[0].timeouts) = (false, 0);
    connection.subflows[0].ssthresh = None;
    connection.subflows[1].queued = 0;
    connection.subflows[0].cwnd = 16 * MSS;
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0]));
}

#[test]
fn the_number_of_timeouts_that_a_subflow_stays_is_an_option() {
    for (kept_timeouts, timeouts, slow) in [(0, 1, 8), (1, 1, 0), (1, 2, 8), (2, 2, 0), (2, 3, 8)] {
        let mut connection = example(10 * MSS);
        time_out(&mut connection.subflows[0], 1);
        time_out(&mut connection.subflows[0], timeouts);
        connection.run(&mut Dmptcp::new(DmptcpOptions { kept_timeouts, ..DmptcpOptions::DEFAULT }));
        assert_eq!(connection.bytes_on(1), slow * MSS, "{kept_timeouts} {timeouts}");
    }
    // With 0, also while the rest of it is repaired.
    let mut connection = example(10 * MSS);
    connection.subflows[0].recovery = RecoveryState::Loss;
    connection.run(&mut Dmptcp::new(DmptcpOptions { kept_timeouts: 0, ..DmptcpOptions::DEFAULT }));
    assert_eq!(connection.bytes_on(1), 8 * MSS);
}

/// A path of 20 ms that delivers 8 segments in 20 ms sends 32 in the 80 ms of the slow one, and not 16 + 32 + 64 + 128.
#[test]
fn with_a_cap_a_slow_path_is_used_for_what_the_delivery_rate_leaves() {
    let run = |rate_cap, delivery_rate| {
        let mut connection = example(100 * MSS);
        let fast = &mut connection.subflows[0];
        (fast.inflight, fast.delivery_rate) = (fast.cwnd, delivery_rate);
        connection.run(&mut Dmptcp::new(DmptcpOptions { rate_cap, ..DmptcpOptions::DEFAULT }));
        connection.bytes_on(1)
    };
    let rate = Rate::from_bytes_over(8 * MSS, Duration::from_millis(20));
    assert_eq!((run(false, rate), run(true, rate)), (0, 8 * MSS));
    // Without a sample there is no cap.
    assert_eq!(run(true, Rate(0)), 0);
}

/// Backups carry data as soon as no active subflow works, regardless of the model.
#[test]
fn a_timeout_of_the_only_active_subflow_opens_the_backup() {
    let mut connection = example(10 * MSS);
    connection.subflows[1].backup = true;
    time_out(&mut connection.subflows[0], 1);
    connection.run(&mut Dmptcp::default());
    assert_eq!(connection.bytes_on(1), 8 * MSS);
}

#[test]
fn chosen_subflows_that_fail_are_left_out_of_the_next_choice_at_once() {
    for failure in [timed_out_twice, |s: &mut SubflowView| s.usable = false] {
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
    let mut subflows = vec![subflow(0, 20, 8), subflow(1, 30, 8), subflow(2, 40, 8)];
    subflows[0].ssthresh = Some(MSS);
    // The first is full and 30 segments remain. It can send 9 + 10 / 2 of them within 30 ms and 9 + 10 within 40 ms, and the
    // second 8 + 16 / 3.
    let mut connection = Connection::new(subflows, 38 * MSS);
    connection.run(&mut scheduler);
    assert_eq!((connection.remaining(), connection.bytes_on(2)), (22 * MSS, 0));
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0, 1]));
    timed_out_twice(&mut connection.subflows[1]);
    connection.run(&mut scheduler);
    assert_eq!(connection.bytes_on(2), 8 * MSS);
}

#[test]
fn another_fastest_subflow_leads_to_a_new_choice_at_once() {
    let mut scheduler = Dmptcp::default();
    let mut connection = example(10 * MSS);
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[0]));
    // They change places: the formerly fast subflow has free window, and is no longer useful.
    connection.subflows[0].inflight = 0;
    connection.subflows[1].inflight = 8 * MSS;
    connection.subflows[1].srtt = Some(Duration::from_millis(10));
    connection.run(&mut scheduler);
    assert_eq!(scheduler.choice().unwrap().chosen, set(&[1]));
    assert!(connection.log.is_empty());
}

#[test]
fn an_unknown_size_is_the_data_in_the_buffer_or_infinite() {
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
