//! Round robin compared with the kernel's rule written step by step, and its properties.

use crate::scheduler_common;

use std::collections::BTreeMap;

use anabranch_stack::event::{SubflowId, SubflowSet};
use anabranch_stack::scheduler::{
    Decision, RecoveryState, RoundRobin, RoundRobinOptions, Rule, Scheduler, SubflowView,
};
use proptest::prelude::*;
use scheduler_common::{Connection, MSS, any_connection, subflow};

/// Section 3, line by line. The kernel's list has the newest subflow first.
struct Kernel {
    num_segments: u64,
    cwnd_limited: bool,
    quota: BTreeMap<SubflowId, u64>,
}

impl Kernel {
    fn choose(&mut self, connection: &Connection) -> Option<SubflowId> {
        let works = |s: &&SubflowView| s.usable && !s.potentially_failed;
        let backups = !connection.subflows.iter().any(|s| works(&s) && !s.backup);
        let data = connection.unassigned.first()?;
        let avail = |s: &&SubflowView, cwnd_test: bool| {
            let next = s.mss.min(data.len());
            works(s)
                && s.backup == backups
                && s.recovery != RecoveryState::Loss
                && s.window_room >= next
                && (!cwnd_test || s.room() >= s.mss || s.cwnd.saturating_sub(s.inflight + s.queued) >= s.mss)
        };
        loop {
            let list: Vec<_> =
                connection.subflows.iter().rev().filter(|s| avail(s, self.cwnd_limited)).collect();
            let (mut considered, mut full, mut choose) = (0, 0, None);
            for s in &list {
                let quota = *self.quota.entry(s.id).or_default();
                considered += 1;
                if 0 < quota && quota < self.num_segments {
                    choose = Some(*s);
                    break;
                }
                if quota == 0 {
                    choose = Some(*s);
                }
                if quota >= self.num_segments {
                    full += 1;
                }
            }
            if considered > 0 && considered == full {
                list.iter().for_each(|s| _ = self.quota.insert(s.id, 0));
                continue;
            }
            let s = choose?;
            return avail(&s, true).then_some(s.id);
        }
    }

    fn sent(&mut self, id: SubflowId, segments: u64) {
        *self.quota.entry(id).or_default() += segments;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_takes_turns_as_the_kernel_does(
        connection in any_connection(), num_segments in 1..5_u8, cwnd_limited: bool, acks in prop::collection::vec(0..64_u32, 0..12),
    ) {
        let mut connection = connection;
        connection.reinject.clear();
        connection.window_end = u64::MAX / 2;
        let mut scheduler = RoundRobin::new(RoundRobinOptions { segments: num_segments, cwnd_limited });
        let mut kernel = Kernel { num_segments: u64::from(num_segments), cwnd_limited, quota: BTreeMap::new() };
        // The kernel has no rule for a receive window that ends inside a segment.
        connection.subflows.iter_mut().for_each(|s| s.window_room = s.window_room.max(1 << 20));
        for ack in acks {
            loop {
                let expected = kernel.choose(&connection);
                let decision = scheduler.decide(&connection.view());
                let Decision::Assign { subflow, range, .. } = decision else {
                    prop_assert_eq!(expected, None);
                    break;
                };
                prop_assert_eq!(expected, Some(subflow));
                let mss = connection.view().subflow(subflow).unwrap().mss;
                kernel.sent(subflow, range.len().div_ceil(mss));
                prop_assert!(connection.apply(&decision).is_ok());
            }
            SubflowSet(ack).iter().for_each(|id| connection.acknowledge(id.0));
        }
    }
}

fn runs(connection: &Connection) -> Vec<(u8, u64)> {
    connection.log.iter().map(|(id, range, _)| (id.0, range.len().div_ceil(MSS))).collect()
}

#[test]
fn a_turn_is_so_many_segments_and_ids_follow_each_other() {
    let mut connection = Connection::new((0..3).map(|id| subflow(id, 20, 100)).collect(), 11 * MSS);
    connection.run(&mut RoundRobin::new(RoundRobinOptions { segments: 3, cwnd_limited: true }));
    assert_eq!(runs(&connection), [(0, 3), (1, 3), (2, 3), (0, 2)]);
}

#[test]
fn an_open_turn_is_ended_before_the_next_begins() {
    let mut connection = Connection::new((0..2).map(|id| subflow(id, 20, 100)).collect(), 2 * MSS);
    let mut scheduler = RoundRobin::new(RoundRobinOptions { segments: 3, cwnd_limited: true });
    connection.run(&mut scheduler);
    connection.unassigned = vec![anabranch_stack::seq::DataRange::new(2 * MSS, 8 * MSS)];
    connection.run(&mut scheduler);
    assert_eq!(runs(&connection), [(0, 2), (0, 1), (1, 3), (0, 2)]);
}

#[test]
fn strict_rotation_gives_equal_shares_and_waits_for_the_slow_one() {
    let mut connection = Connection::new(vec![subflow(0, 20, 10), subflow(1, 20, 2)], 1000 * MSS);
    let mut scheduler = RoundRobin::new(RoundRobinOptions { segments: 1, cwnd_limited: false });
    // The fast subflow is acknowledged ten times as often.
    for round in 0..100 {
        let Decision::Wait { why, .. } = connection.run(&mut scheduler) else { panic!() };
        assert_eq!(why.rule, Rule::Turn);
        connection.acknowledge(0);
        if round % 10 == 0 {
            connection.acknowledge(1);
        }
        assert!(connection.bytes_on(0).abs_diff(connection.bytes_on(1)) <= MSS);
    }
    assert!(connection.bytes_on(1) >= 20 * MSS);
}

#[test]
fn passing_over_full_windows_gives_shares_like_the_capacities() {
    let mut connection = Connection::new(vec![subflow(0, 20, 30), subflow(1, 20, 10)], 100_000 * MSS);
    let mut scheduler = RoundRobin::new(RoundRobinOptions { segments: 1, cwnd_limited: true });
    for _ in 0..100 {
        connection.run(&mut scheduler);
        connection.acknowledge(0);
        connection.acknowledge(1);
    }
    assert_eq!(connection.bytes_on(0), 3 * connection.bytes_on(1));
}
