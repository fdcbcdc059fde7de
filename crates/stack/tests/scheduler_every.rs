//! What every built-in scheduler holds to, in any state of a connection.

mod scheduler_common;

use anabranch_stack::scheduler::{
    CustomScheduler, CustomSchedulerKind, Decision, MinRtt, RoundRobinOptions, Rule, Scheduler,
    SchedulerKind, View,
};
use proptest::prelude::*;
use scheduler_common::{Connection, Licence, MSS, any_connection, subflow};

fn all() -> Vec<SchedulerKind> {
    let mut all = SchedulerKind::ALL.to_vec();
    all.push(SchedulerKind::RoundRobin(RoundRobinOptions { segments: 3, cwnd_limited: false }));
    all
}

/// The connection for this scheduler, which may do what others may not.
fn with_licence(connection: &Connection, kind: &SchedulerKind) -> Connection {
    Connection { licence: Licence::of(kind.name()), ..connection.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    // `run` panics at a decision that the view does not allow, and if there is no end to them.
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

    // Section 19: minRTT, round robin over free windows and redundant leave no room unused.
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

#[test]
fn names_are_unique_and_lead_back_to_the_kind() {
    for kind in SchedulerKind::ALL {
        assert_eq!(SchedulerKind::from_name(kind.name()), Some(kind.clone()));
        assert!(!kind.description().is_empty());
    }
    assert_eq!(SchedulerKind::from_name("default"), None);
}

#[test]
fn nothing_to_send_no_subflow_and_a_full_window_are_told_apart() {
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
            // What Linux has in a subflow's send buffer may be twice that.
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
        // Nothing is under way that would open the window: now to its edge.
        connection.acknowledge(0);
        connection.data_acknowledge(2 * MSS);
        connection.run(&mut kind.build());
        assert_eq!(connection.bytes_on(0), 2 * MSS + 600, "{kind:?}");
    }
}

#[test]
fn the_tail_of_the_data_goes_out_though_shorter_than_a_segment() {
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
