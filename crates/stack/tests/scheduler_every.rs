//! Invariants of every built-in scheduler, in any state of a connection.

use crate::scheduler_common;

use anabranch_stack::scheduler::{
    AssignKind, CustomScheduler, CustomSchedulerKind, DapsOptions, Decision, MinRtt, Pending,
    RoundRobinOptions, Rule, Scheduler, SchedulerKind, SubflowView, View,
};
use anabranch_stack::seq::DataRange;
use anabranch_units::Duration;
use proptest::prelude::*;
use scheduler_common::{Connection, Licence, MSS, any_connection, set, subflow};

fn all() -> Vec<SchedulerKind> {
    let mut all = SchedulerKind::ALL.to_vec();
    all.push(SchedulerKind::RoundRobin(RoundRobinOptions { segments: 3, cwnd_limited: false }));
    all
}

/// Returns the connection with the licence of this scheduler, which may do things that others may not.
fn with_licence(connection: &Connection, kind: &SchedulerKind) -> Connection {
    Connection { licence: Licence::of(kind.name()), ..connection.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    // `run` panics at a decision that the view does not allow, and if decisions never end.
    #[test]
    fn decisions_never_violate_the_view_and_always_end_in_a_wait(connection in any_connection()) {
        for kind in all() {
            with_licence(&connection, &kind).run(&mut kind.build());
        }
    }

    #[test]
    fn the_same_view_leads_to_the_same_decisions_after_a_fork(connection in any_connection()) {
        for kind in all() {
            let mut scheduler = kind.build();
            let mut warm = with_licence(&connection, &kind);
            scheduler.decide(&warm.view());
            let mut fork = scheduler.clone();
            let mut other = warm.clone();
            prop_assert_eq!(format!("{:?}", warm.run(&mut scheduler)), format!("{:?}", other.run(&mut fork)));
            prop_assert_eq!(&warm.log, &other.log);
        }
    }

    // Section 19: minRTT, round robin over free windows and redundant use all free window.
    #[test]
    fn work_conserving_schedulers_wait_only_for_room_or_data(connection in any_connection()) {
        for name in ["min_rtt", "round_robin", "redundant", "ll_rp", "hsr", "lws", "lts", "strict_priority"] {
            let mut connection = connection.clone();
            connection.reinject.clear();
            let kind = SchedulerKind::from_name(name).unwrap();
            connection.run(&mut kind.build());
            let Some(first) = connection.unassigned.first() else { continue };
            let active = connection.subflows.iter().any(|s| s.usable && !s.potentially_failed && !s.backup);
            for s in connection.subflows.iter().filter(|s| s.may_carry() && s.backup != active) {
                let whole = s.room() >= s.mss && s.window_room >= s.mss;
                let in_window = connection.window_end >= first.start + s.mss;
                prop_assert!(!(whole && in_window), "{name}: {:?} has room for {:?}", s, first);
            }
        }
    }
}

/// Returns all schedulers, and DAPS with `reorder`.
fn all_and_reordering() -> Vec<SchedulerKind> {
    let mut all = all();
    all.push(SchedulerKind::Daps(DapsOptions { reorder: true, ..DapsOptions::DEFAULT }));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // Schedulers that send later data first return to the skipped data, and the queue of a failing subflow is
    // moved to another: the stream is sent completely and once, and at no time do all subflows wait for
    // nothing.
    #[test]
    fn the_stream_is_sent_completely_and_without_a_hole(
        paths in prop::collection::vec((5..200_u64, 1..25_u64, prop::option::of(2..30_u64)), 2..5),
        segments in 1..300_u64, odd in 0..MSS, window in 2..120_u64, failing in 0..12_usize, back in 1..20_usize,
    ) {
        let subflows: Vec<_> = paths.iter().enumerate().map(|(id, (srtt, cwnd, ssthresh))| {
            SubflowView { ssthresh: ssthresh.map(|n| n * MSS), ..subflow(id as u8, *srtt, *cwnd) }
        }).collect();
        let total = segments * MSS + odd;
        for kind in all_and_reordering() {
            let reorders = matches!(&kind, SchedulerKind::Daps(options) if options.reorder);
            let mut connection = with_licence(&Connection::new(subflows.clone(), total), &kind);
            connection.licence.reorders |= reorders;
            let mut scheduler = kind.build();
            let mut given = Vec::new();
            for round in 0.. {
                connection.now += Duration::from_millis(10);
                connection.window_end = connection.data_una + window * MSS;
                connection.run(&mut scheduler);
                prop_assert!(!connection.log.is_empty(), "{kind:?} waits for nothing: {connection:#?}");
                // Data queued on a subflow when it fails must be sent on another.
                connection.subflows[0].potentially_failed = (failing..failing + back).contains(&round);
                connection.run(&mut scheduler);
                let (fails, left) = (!connection.subflows[0].may_carry(), connection.subflows[0].queued);
                let queues = connection.licence.queues;
                prop_assert!(!fails || !queues || left == 0, "{kind:?} leaves {left} bytes: {connection:#?}");
                given.extend(connection.log.drain(..).filter(|(.., what)| *what == AssignKind::New).map(|(_, range, _)| range));
                (0..paths.len() as u8).for_each(|id| connection.acknowledge(id));
                connection.data_acknowledge(connection.unassigned.first().map_or(total, |first| first.start));
                if connection.unassigned.is_empty() {
                    break;
                }
            }
            given.sort_by_key(|range| range.start);
            let mut next = 0;
            for range in given {
                prop_assert_eq!(range.start, next, "{:?}", kind);
                next = range.end;
            }
            prop_assert_eq!(next, total, "{:?}", kind);
        }
    }
}

#[test]
fn names_are_unique_and_lead_back_to_the_kind() {
    for kind in SchedulerKind::ALL {
        assert_eq!(SchedulerKind::from_name(kind.name()), Some(kind.clone()));
        assert!(!kind.description().is_empty());
    }
    assert_eq!(SchedulerKind::from_name("default"), None);
}

#[test]
fn nothing_to_send_no_subflow_and_a_full_window_are_distinguished() {
    for kind in all() {
        let rule = |connection| match with_licence(&connection, &kind).run(&mut kind.build()) {
            Decision::Wait { until: None, why } => why.rule,
            other => panic!("{other:?}"),
        };
        let two = || vec![subflow(0, 20, 10), subflow(1, 80, 10)];
        assert_eq!(rule(Connection::new(two(), 0)), Rule::NothingToSend, "{kind:?}");
        assert_eq!(rule(Connection { window_end: 0, ..Connection::new(two(), 5 * MSS) }), Rule::WindowFull);
        assert_eq!(rule(Connection::new(vec![], 5 * MSS)), Rule::NoSubflow);
        let failed = two().into_iter().map(|mut s| {
            s.potentially_failed = true;
            s
        });
        let licence = Licence::of(kind.name());
        if !licence.failed {
            assert_eq!(rule(Connection::new(failed.collect(), 5 * MSS)), Rule::NoSubflow, "{kind:?}");
        }
        let full = two().into_iter().map(|mut s| {
            s.inflight = s.cwnd;
            // Linux's send buffer of a subflow may hold twice that.
            s.unacked = 2 * s.cwnd;
            s
        });
        if licence.queues && kind.name() != "linux" {
            continue;
        }
        let waits = rule(Connection::new(full.collect(), 5 * MSS));
        assert!(matches!(waits, Rule::NoRoom | Rule::Turn), "{kind:?}: {waits:?}");
    }
}

#[test]
fn a_window_that_ends_inside_a_segment_is_not_filled_while_acknowledgements_are_due() {
    for kind in all() {
        let mut connection = Connection::new(vec![subflow(0, 20, 10)], 10 * MSS);
        connection.window_end = 2 * MSS + 600;
        connection.run(&mut kind.build());
        assert_eq!(connection.bytes_on(0), 2 * MSS, "{kind:?}");
        // Nothing is in flight that would open the window, so it is filled to its edge.
        connection.acknowledge(0);
        connection.data_acknowledge(2 * MSS);
        connection.run(&mut kind.build());
        assert_eq!(connection.bytes_on(0), 2 * MSS + 600, "{kind:?}");
    }
}

/// The kernel's condition for opportunistic retransmission: the next segment does not fit into the window.
#[test]
fn a_window_with_less_than_a_segment_left_is_full() {
    for kind in all().into_iter().filter(|kind| kind.name() != "linux") {
        let rule = |window_end: u64, inflight: u64| {
            let mut connection = Connection::new(vec![subflow(0, 20, 10), subflow(1, 80, 1)], 40 * MSS);
            connection.licence = Licence::of(kind.name());
            for subflow in &mut connection.subflows {
                subflow.inflight = inflight.min(subflow.cwnd);
                subflow.unacked = subflow.inflight;
            }
            connection.unassigned = vec![DataRange::new(10 * MSS, 40 * MSS)];
            connection.outstanding =
                vec![Pending { range: DataRange::new(0, 10 * MSS), tried: set(&[0, 1]) }];
            connection.window_end = window_end;
            match kind.build().decide(&connection.view()) {
                Decision::Wait { why, .. } => Some(why.rule),
                _ => None,
            }
        };
        assert_eq!(rule(10 * MSS + 900, 5 * MSS), Some(Rule::WindowFull), "{kind:?}");
        // If there is no free window either, that reason is reported first, as acknowledgements open it.
        if !Licence::of(kind.name()).queues {
            let full = rule(10 * MSS + 900, 10 * MSS);
            assert!(matches!(full, Some(Rule::NoRoom | Rule::Turn)), "{kind:?}: {full:?}");
        }
    }
}

#[test]
fn the_tail_of_the_data_is_sent_though_shorter_than_a_segment() {
    for kind in all() {
        let mut connection = Connection::new(vec![subflow(0, 20, 10)], 3 * MSS + 100);
        connection.run(&mut kind.build());
        assert_eq!(connection.bytes_on(0), 3 * MSS + 100, "{kind:?}");
    }
}

#[test]
fn a_tail_and_a_silly_window_pass_a_receive_window_of_less_than_a_segment() {
    for kind in all() {
        // The data ends within the subflow's window.
        let narrow = |inflight| {
            let mut narrow = subflow(0, 20, 10);
            narrow.window_room = 1000;
            narrow.inflight = inflight;
            vec![narrow]
        };
        let mut connection = Connection::new(narrow(MSS), 500);
        connection.run(&mut kind.build());
        assert_eq!(connection.bytes_on(0), 500, "{kind:?}");
        // It does not, and nothing is in flight that would open the window; or something is.
        let mut connection = Connection::new(narrow(0), 5000);
        connection.run(&mut kind.build());
        assert_eq!(connection.bytes_on(0), 1000, "{kind:?}");
        let mut connection = Connection::new(narrow(MSS), 5000);
        connection.run(&mut kind.build());
        assert_eq!(connection.bytes_on(0), 0, "{kind:?}");
    }
}

#[derive(Clone)]
struct Mine(MinRtt);

impl Scheduler for Mine {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.0.decide(view)
    }
}

impl CustomScheduler for Mine {
    fn clone_box(&self) -> Box<dyn CustomScheduler> {
        Box::new(self.clone())
    }
}

#[test]
fn a_users_own_scheduler_is_built_forked_and_compared_by_name() {
    let kind = SchedulerKind::Custom(CustomSchedulerKind::new("mine", || Box::new(Mine(MinRtt))));
    assert_eq!(kind, kind.clone());
    assert_eq!(kind.name(), "mine");
    let mut connection = Connection::new(vec![subflow(0, 20, 10)], 3 * MSS);
    let fork = kind.build().clone();
    connection.run(&mut { fork });
    assert_eq!(connection.bytes_on(0), 3 * MSS);
}
