//! Schedulers compared with independent computations: searches, arrivals counted round by round, integer
//! arithmetic, and numbers computed by hand.

use crate::scheduler_common;

use anabranch_stack::event::SubflowId;
use anabranch_stack::parameter::{Numbers, Parameterised, Value};
use anabranch_stack::scheduler::{
    AssignKind, Blest, BlestOptions, CpConservative, CpOptions, CpRadical, Decision, DelayThreshold,
    DelayThresholdOptions, Ecf, EcfOptions, Freeze, FreezeOptions, Linux, LinuxOptions, LlBm, LlBmOptions,
    MinRtt, Otias, OtiasOptions, PriorityOptions, Probing, Rule, Scheduler, SchedulerEvent, SchedulerKind,
    StmsA, StmsAOptions, StmsC, StmsCOptions, StrictPriority, Sttf, SttfOptions, SubflowView, View,
    WeightedRoundRobin, WeightedRoundRobinOptions,
};
use anabranch_stack::seq::DataRange;
use anabranch_units::{Duration, Time};
use proptest::prelude::*;
use scheduler_common::{Connection, Licence, MSS, any_connection, set, subflow};

/// Returns the subflow that carries the next data, if it is new.
fn chosen(scheduler: &mut impl Scheduler, connection: &Connection) -> Option<u8> {
    match scheduler.decide(&connection.view()) {
        Decision::Assign { subflow, kind: AssignKind::New, .. } => Some(subflow.0),
        _ => None,
    }
}

fn full(mut subflow: SubflowView) -> SubflowView {
    subflow.inflight = subflow.cwnd;
    subflow.unacked = subflow.cwnd;
    subflow
}

/// Returns the active subflows that may carry data and have free window for a segment.
fn with_room(connection: &Connection) -> Vec<SubflowView> {
    let works = |s: &&SubflowView| s.usable && !s.potentially_failed;
    let active = connection.subflows.iter().filter(works).any(|s| !s.backup);
    let class = connection.subflows.iter().filter(|s| s.may_carry() && s.backup != active);
    class.filter(|s| s.room() > 0).copied().collect()
}

/// Generates a connection with ample data and windows, in which only the subflows matter.
fn roomy() -> impl Strategy<Value = Connection> {
    any_connection().prop_map(|mut connection| {
        connection.reinject.clear();
        connection.unassigned = vec![DataRange::new(connection.data_nxt, connection.data_nxt + 200 * MSS)];
        connection.window_end = u64::MAX / 2;
        for subflow in &mut connection.subflows {
            subflow.window_room = 1 << 30;
        }
        connection
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn hsr_lws_and_lts_take_the_best_of_their_measure(connection in roomy()) {
        let rtt = |s: &SubflowView| s.srtt.map_or(u64::MAX, |rtt| rtt.0);
        let free = |s: &SubflowView| (s.cwnd - s.inflight - s.queued) / s.mss;
        // Fractions are compared by cross-multiplication.
        type Order = fn(&SubflowView, &SubflowView) -> std::cmp::Ordering;
        let by_rate: Order = |a, b| {
            let rate = |s: &SubflowView, o: &SubflowView| match (s.srtt, o.srtt) {
                (None, _) => 0,
                (Some(_), None) => u128::from(s.cwnd),
                (Some(_), Some(other)) => u128::from(s.cwnd) * u128::from(other.0),
            };
            rate(b, a).cmp(&rate(a, b))
        };
        let expected = |order: &dyn Fn(&SubflowView, &SubflowView) -> std::cmp::Ordering| {
            let mut all = with_room(&connection);
            all.sort_by(|a, b| order(a, b).then(rtt(a).cmp(&rtt(b))).then(a.id.cmp(&b.id)));
            all.first().map(|s| s.id.0)
        };
        let of = |name: &str| chosen(&mut SchedulerKind::from_name(name).unwrap().build(), &connection);
        prop_assert_eq!(of("hsr"), expected(&by_rate));
        prop_assert_eq!(of("lws"), expected(&|a, b| free(b).cmp(&free(a))));
        let by_time = |a: &SubflowView, b: &SubflowView| {
            let time = |s: &SubflowView, o: &SubflowView| u128::from(rtt(s)) * u128::from(free(o));
            match (a.srtt, b.srtt) {
                (Some(_), Some(_)) => time(a, b).cmp(&time(b, a)),
                _ => a.srtt.is_none().cmp(&b.srtt.is_none()),
            }
        };
        prop_assert_eq!(of("lts"), expected(&by_time));
    }

    #[test]
    fn otias_and_sttf_choose_the_soonest_arrival_counted_round_by_round(connection in roomy()) {
        let rank = |time: &dyn Fn(&SubflowView) -> Option<u128>| {
            let works = |s: &&SubflowView| s.usable && !s.potentially_failed;
            let active = connection.subflows.iter().filter(works).any(|s| !s.backup);
            let class = connection.subflows.iter().filter(|s| s.may_carry() && s.backup != active);
            class.min_by_key(|s| (time(s).unwrap_or(u128::MAX), s.id)).map(|s| s.id.0)
        };
        let queued = |s: &SubflowView| s.queued.div_ceil(s.mss);
        let free = |s: &SubflowView| s.cwnd.saturating_sub(s.inflight) / s.mss;
        // Half round trips until the segment after the queue arrives; a full window costs a round.
        let otias = |s: &SubflowView| {
            let mut waiting = (queued(s) + 1).saturating_sub(free(s));
            let mut halves = 1;
            while waiting > 0 {
                waiting = waiting.saturating_sub((s.cwnd / s.mss).max(1));
                halves += 2;
            }
            s.srtt.map(|rtt| u128::from(rtt.0) * halves)
        };
        let sttf = |s: &SubflowView| {
            let (mut window, mut halves) = ((s.cwnd / s.mss).max(1), 1);
            let mut waiting = (queued(s) + 1).saturating_sub(free(s));
            while waiting > 0 {
                window = if s.ssthresh.is_none_or(|t| window <= t / s.mss) { 2 * window } else { window + 1 };
                waiting = waiting.saturating_sub(window);
                halves += 2;
            }
            s.srtt.map(|rtt| u128::from(rtt.0) * halves)
        };
        let quiet = connection.subflows.iter().all(|s| s.queued == 0);
        prop_assume!(quiet || connection.subflows.iter().all(SubflowView::may_carry));
        prop_assert_eq!(chosen(&mut Otias::new(OtiasOptions::DEFAULT), &connection), rank(&otias));
        // RTTs that always count as different: the minimum samples differ by more than a tick.
        let mut wide = connection.clone();
        for (at, subflow) in wide.subflows.iter_mut().enumerate() {
            subflow.min_rtt = Duration::from_millis(10 + 100 * at as u64);
        }
        let candidates = wide.subflows.iter().filter(|s| s.may_carry()).count();
        let scheduler = &mut Sttf::new(SttfOptions { alpha: 0.0, ..SttfOptions::DEFAULT });
        if candidates == wide.subflows.len() && candidates >= 2 && wide.subflows.iter().all(|s| !s.backup) {
            prop_assert_eq!(chosen(scheduler, &wide), rank(&sttf));
        }
    }

    #[test]
    fn blest_decides_as_the_kernels_integers_do(
        fast_ms in 5..60_u64, more_ms in 1..200_u64, fast_cwnd in 1..40_u64, slow_cwnd in 1..40_u64,
        slow_inflight in 0..40_u64, window in 1..400_u64, ssthresh in prop::option::of(2..40_u64),
    ) {
        let slow_inflight = slow_inflight % slow_cwnd;
        let slow_ms = fast_ms + more_ms;
        let mut fast = full(subflow(0, fast_ms, fast_cwnd));
        fast.ssthresh = ssthresh.map(|n| n * MSS);
        let mut slow = subflow(1, slow_ms, slow_cwnd);
        slow.inflight = slow_inflight * MSS;
        slow.unacked = slow.inflight;
        let mut connection = Connection::new(vec![fast, slow], 500 * MSS);
        connection.window_end = window * MSS;
        // The kernel's arithmetic; lambda has been reduced once, as there was no blocking.
        let lambda = 1190;
        let rounds = slow_ms / fast_ms + 1;
        let packets = match ssthresh {
            None => fast_cwnd * ((1 << rounds.min(16)) - 1),
            Some(threshold) => (fast_cwnd.max(threshold + 1) + (rounds - 1) / 2) * rounds,
        };
        let need = packets * MSS * lambda / 1000;
        let there = (window * MSS).saturating_sub(MSS + slow_inflight * MSS);
        let expected = if need > there { None } else { Some(1) };
        prop_assume!(need.abs_diff(there) > 1);
        prop_assert_eq!(chosen(&mut Blest::new(BlestOptions::DEFAULT), &connection), expected);
        // A larger window never leaves the slow subflow idle if a smaller one did not.
        if expected.is_some() {
            connection.window_end += 50 * MSS;
            prop_assert_eq!(chosen(&mut Blest::new(BlestOptions::DEFAULT), &connection), expected);
        }
    }

    #[test]
    fn ecf_decides_as_the_kernels_products_do(
        fast_ms in 5..60_u64, more_ms in 1..200_u64, fast_cwnd in 1..40_u64, slow_cwnd in 2..40_u64,
        segments in 1..400_u64, variation_ms in 0..30_u64,
    ) {
        let slow_ms = fast_ms + more_ms;
        let (mut fast, mut slow) = (full(subflow(0, fast_ms, fast_cwnd)), subflow(1, slow_ms, slow_cwnd));
        fast.rttvar = Duration::from_millis(variation_ms);
        slow.rttvar = Duration::from_millis(variation_ms / 2);
        let connection = Connection::new(vec![fast, slow], segments * MSS);
        let mut scheduler = Ecf::new(EcfOptions::DEFAULT);
        let products = |waiting: u64, segments: u64| {
            let (k, f, s) = (segments, fast_cwnd, slow_cwnd);
            let left = 4 * fast_ms * (k.max(f) + f);
            let right = f * (slow_ms + variation_ms) * (4 + waiting);
            let second = (slow_ms * k.max(s), s * (2 * fast_ms + variation_ms));
            (left, right, second)
        };
        let (left, right, second) = products(0, segments);
        prop_assume!(left != right && second.0 != second.1);
        let waits = left < right && second.0 > second.1;
        prop_assert_eq!(chosen(&mut scheduler, &connection), if waits { None } else { Some(1) });
        prop_assert_eq!(scheduler.is_waiting(), waits);
        // Once it waits, more data must remain to make it stop: a quarter of the slow side more.
        if waits {
            let more = Connection { unassigned: vec![DataRange::new(0, 2 * segments * MSS)], ..connection };
            let (left, right, second) = products(1, 2 * segments);
            prop_assume!(left != right && second.0 != second.1);
            let waits = left < right && second.0 > second.1;
            prop_assert_eq!(chosen(&mut scheduler, &more), if waits { None } else { Some(1) });
        }
    }

    #[test]
    fn with_a_window_beyond_all_need_blest_and_cp_are_min_rtt(connection in roomy()) {
        let mut free = connection.clone();
        for subflow in &mut free.subflows {
            subflow.ssthresh = Some(1);
        }
        let expected = chosen(&mut MinRtt, &free);
        prop_assert_eq!(chosen(&mut Blest::new(BlestOptions::DEFAULT), &free), expected);
        prop_assert_eq!(chosen(&mut CpRadical::new(CpOptions::RADICAL), &free), expected);
        prop_assert_eq!(chosen(&mut CpConservative::new(CpOptions::CONSERVATIVE), &free), expected);
    }

    // The conservative scheduler uses a slower subflow only if the radical one does.
    #[test]
    fn cp_conservative_uses_no_more_than_radical(connection in roomy(), window in 1..200_u64) {
        let mut tight = connection;
        tight.window_end = tight.data_nxt + window * MSS;
        if chosen(&mut CpConservative::new(CpOptions::CONSERVATIVE), &tight).is_some() {
            prop_assert!(chosen(&mut CpRadical::new(CpOptions::RADICAL), &tight).is_some());
        }
    }

    #[test]
    fn weighted_round_robin_gives_exactly_the_weights(
        weights in prop::collection::vec(0..7_u32, 1..6), rounds in 1..4_u64,
    ) {
        let sum: u32 = weights.iter().sum();
        prop_assume!(sum > 0);
        let count = u64::from(sum) * rounds;
        let subflows = (0..weights.len() as u8).map(|id| subflow(id, 20, 1000)).collect();
        let values: Vec<f64> = weights.iter().copied().map(f64::from).collect();
        let weights_option = Numbers::new(&values).unwrap();
        let mut scheduler = WeightedRoundRobin::new(WeightedRoundRobinOptions { weights: weights_option });
        let mut connection = Connection::new(subflows, count * MSS);
        connection.run(&mut scheduler);
        for (id, weight) in weights.iter().enumerate() {
            prop_assert_eq!(connection.bytes_on(id as u8), u64::from(*weight) * rounds * MSS);
        }
    }

    #[test]
    fn strict_priority_and_the_threshold_follow_the_order(connection in roomy(), order in prop::collection::vec(0..5_u8, 6)) {
        let values: Vec<f64> = order.iter().copied().map(f64::from).collect();
        let options = PriorityOptions { priorities: Numbers::new(&values).unwrap() };
        let mut all = with_room(&connection);
        all.sort_by_key(|s| (order[s.id.index()], s.id));
        let first = all.first().map(|s| s.id.0);
        prop_assert_eq!(chosen(&mut StrictPriority::new(options), &connection), first);
        // With a threshold above all RTTs, the first in order of IDs that has an RTT.
        let threshold = DelayThresholdOptions { threshold: Duration::from_secs(60) };
        all.sort_by_key(|s| s.id);
        let first = all.iter().find(|s| s.srtt.is_some()).map(|s| s.id.0);
        // Where those with an RTT have no free window, it waits for one of them; without any RTT the first one counts.
        let works = |s: &&SubflowView| s.usable && !s.potentially_failed;
        let active = connection.subflows.iter().filter(works).any(|s| !s.backup);
        let class: Vec<_> =
            connection.subflows.iter().filter(|s| s.may_carry() && s.backup != active).collect();
        let unmeasured = || class.first().filter(|s| s.room() > 0).map(|s| s.id.0);
        let expected = match class.iter().any(|s| s.srtt.is_some()) {
            true => first,
            false => unmeasured(),
        };
        prop_assert_eq!(chosen(&mut DelayThreshold::new(threshold), &connection), expected);
    }
}

#[test]
fn equal_weights_take_turns_and_a_blocked_share_is_not_made_up_for() {
    let weights = Numbers::new(&[1.0, 1.0]).unwrap();
    let mut scheduler = WeightedRoundRobin::new(WeightedRoundRobinOptions { weights });
    let mut connection = Connection::new(vec![subflow(0, 20, 100), full(subflow(1, 20, 100))], 10 * MSS);
    connection.run(&mut scheduler);
    assert_eq!(connection.bytes_on(0), 10 * MSS);
    connection.acknowledge(0);
    connection.acknowledge(1);
    connection.unassigned = vec![DataRange::new(10 * MSS, 20 * MSS)];
    connection.log.clear();
    connection.run(&mut scheduler);
    let order: Vec<u8> = connection.log.iter().map(|(id, ..)| id.0).collect();
    assert_eq!(order, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_weight_of_0_is_for_want_of_others() {
    let weights = Numbers::new(&[0.0, 2.0]).unwrap();
    let mut scheduler = WeightedRoundRobin::new(WeightedRoundRobinOptions { weights });
    let mut connection = Connection::new(vec![subflow(0, 20, 10), subflow(1, 20, 3)], 5 * MSS);
    connection.run(&mut scheduler);
    assert_eq!((connection.bytes_on(0), connection.bytes_on(1)), (0, 3 * MSS));
    connection.subflows[1].potentially_failed = true;
    connection.run(&mut scheduler);
    assert_eq!(connection.bytes_on(0), 2 * MSS);
}

#[test]
fn linux_alternates_in_bursts_of_64_kb_and_shares_by_rate() {
    let licence = Licence::of("linux");
    let share = |windows: [u64; 2]| {
        let subflows = vec![subflow(0, 20, windows[0]), subflow(1, 20, windows[1])];
        let mut connection = Connection { licence, ..Connection::new(subflows, 60_000 * MSS) };
        let options = LinuxOptions { send_buffer: 1000.0, ..LinuxOptions::DEFAULT };
        let mut scheduler = Linux::new(options);
        for _ in 0..400 {
            let decision = scheduler.decide(&connection.view());
            connection.apply(&decision).unwrap();
        }
        connection
    };
    let equal = share([100, 100]);
    // 65,428 bytes are 46 segments of 1400; the rest of a burst is discarded.
    assert!(equal.log.iter().all(|(_, range, _)| range.len() == 46 * MSS), "{:?}", &equal.log[..3]);
    assert!(equal.bytes_on(0).abs_diff(equal.bytes_on(1)) <= 46 * MSS);
    // A rate ratio of 4 to 1 with full queues gives nearly 4 to 1.
    let unequal = share([400, 100]);
    let ratio = unequal.bytes_on(0) as f64 / unequal.bytes_on(1) as f64;
    assert!((3.6..4.4).contains(&ratio), "{ratio}");
}

#[test]
fn linux_does_not_look_at_the_rtt_and_stops_at_the_send_buffer() {
    let licence = Licence::of("linux");
    // Both are idle, so both linger times are 0: the first listed wins.
    let mut connection =
        Connection { licence, ..Connection::new(vec![subflow(0, 300, 20), subflow(1, 20, 20)], 200 * MSS) };
    let mut scheduler = Linux::new(LinuxOptions::DEFAULT);
    assert_eq!(chosen(&mut scheduler, &connection), Some(0));
    connection.run(&mut Linux::new(LinuxOptions::DEFAULT));
    // Two windows and at most a burst beyond them.
    for id in [0, 1] {
        let held = connection.bytes_on(id);
        assert!((40 * MSS..=86 * MSS).contains(&held), "{held}");
    }
}

#[test]
fn linux_leaves_a_stale_subflow_alone_until_something_arrives_on_it() {
    let licence = Licence::of("linux");
    let mut subflows = vec![subflow(0, 20, 20), subflow(1, 20, 20)];
    subflows[0].unacked = 5 * MSS;
    let mut connection = Connection { licence, ..Connection::new(subflows, 200 * MSS) };
    let mut scheduler = Linux::new(LinuxOptions::DEFAULT);
    let mut check = |connection: &Connection, timeouts: u64| {
        let view = View { data_timeouts: timeouts, ..connection.view() };
        match scheduler.decide(&view) {
            Decision::Assign { subflow, .. } => Some(subflow.0),
            _ => None,
        }
    };
    for timeouts in 1..=4 {
        check(&connection, timeouts);
    }
    // The fifth check makes a count of 5, which exceeds 4.
    for timeouts in 5..=9 {
        assert_eq!(check(&connection, timeouts), Some(1), "{timeouts}");
    }
    connection.subflows[0].last_received = Time::from_secs(2);
    connection.subflows[0].unacked = 0;
    connection.subflows[1].unacked = 60 * MSS;
    assert_eq!(check(&connection, 9), Some(0));
}

#[test]
fn ll_bm_uses_less_of_a_window_whose_rtt_has_grown() {
    // Three times the minimum: the whole window. Six times: half of it.
    for (srtt, expected) in [(60, 20), (61, 19), (120, 10), (6000, 2)] {
        let mut one = subflow(0, srtt, 20);
        one.srtt_min = Some(Duration::from_millis(20));
        let mut connection =
            Connection { licence: Licence::of("ll_bm"), ..Connection::new(vec![one], 100 * MSS) };
        connection.run(&mut LlBm::new(LlBmOptions::DEFAULT));
        assert_eq!(connection.bytes_on(0), expected * MSS, "{srtt} ms");
    }
    assert!(LlBm::new(LlBmOptions::DEFAULT).decides_alone());
}

#[test]
fn blest_keeps_lambda_in_its_bounds() {
    let mut scheduler = Blest::new(BlestOptions::DEFAULT);
    let mut connection = Connection::new(vec![full(subflow(0, 20, 10)), subflow(1, 100, 10)], 500 * MSS);
    for _ in 0..100 {
        connection.now += Duration::from_millis(200);
        scheduler.decide(&connection.view());
    }
    assert!((scheduler.lambda() - 1.0).abs() < 1e-9);
    // The window is blocked, and the fast subflow has free window.
    let blocked = |mut connection: Connection| {
        connection.subflows[0] = subflow(0, 20, 20);
        connection.outstanding =
            vec![anabranch_stack::scheduler::Pending { range: DataRange::new(0, MSS), tried: set(&[1]) }];
        connection.unassigned = vec![DataRange::new(MSS, 9 * MSS)];
        connection.window_end = MSS;
        connection
    };
    for _ in 0..100 {
        connection.now += Duration::from_millis(200);
        scheduler.decide(&blocked(connection.clone()).view());
        scheduler.decide(&connection.view());
    }
    assert!((scheduler.lambda() - 1.3).abs() < 1e-9);
}

#[test]
fn ecf_never_waits_with_much_to_send_or_below_twice_the_rtt() {
    let mut subflows = vec![full(subflow(0, 10, 10)), subflow(1, 100, 10)];
    subflows.iter_mut().for_each(|s| s.rttvar = Duration::ZERO);
    let much = Connection::new(subflows.clone(), 1_000_000 * MSS);
    assert_eq!(chosen(&mut Ecf::new(EcfOptions::DEFAULT), &much), Some(1));
    let little = Connection::new(subflows.clone(), 5 * MSS);
    assert_eq!(chosen(&mut Ecf::new(EcfOptions::DEFAULT), &little), None);
    subflows[1].srtt = Some(Duration::from_millis(19));
    let near = Connection::new(subflows, 5 * MSS);
    assert_eq!(chosen(&mut Ecf::new(EcfOptions::DEFAULT), &near), Some(1));
}

#[test]
fn otias_waits_for_the_fast_one_until_the_slow_one_is_sooner() {
    // The reference's example: 10 and 100 ms, windows of 10: five windows on the fast subflow, then one on
    // the slow.
    let licence = Licence::of("otias");
    let subflows = vec![subflow(0, 10, 10), subflow(1, 100, 10)];
    let mut connection = Connection { licence, ..Connection::new(subflows, 51 * MSS) };
    connection.run(&mut Otias::new(OtiasOptions::DEFAULT));
    assert_eq!((connection.bytes_on(0), connection.bytes_on(1)), (50 * MSS, MSS));
    assert_eq!(connection.log.last().unwrap().0, SubflowId(1));
}

#[test]
fn sttf_keeps_a_short_flow_on_the_fast_one_and_takes_back_what_has_become_uneven() {
    let licence = Licence::of("sttf");
    // Slow start from 10: 10, 20, 40, 80: 150 segments in three and a half round trips, 35 ms.
    let subflows = vec![subflow(0, 10, 10), subflow(1, 100, 10)];
    let mut connection = Connection { licence, ..Connection::new(subflows, 150 * MSS) };
    let mut scheduler = Sttf::new(SttfOptions::DEFAULT);
    connection.run(&mut scheduler);
    assert_eq!(connection.bytes_on(1), 0);
    // The fast subflow's window collapses.
    connection.subflows[0].cwnd = MSS;
    connection.subflows[0].ssthresh = Some(2 * MSS);
    connection.run(&mut scheduler);
    // By hand: 1, 2, 4, 5 and so on to 16 are 133 segments within 145 ms; the slow subflow carries 10 that
    // arrive at 50 ms and 7 at 150 ms, before those that would arrive on the fast one at 155 ms.
    assert_eq!(connection.bytes_on(1), 17 * MSS);
    assert_eq!(connection.bytes_on(0) + connection.bytes_on(1), 150 * MSS);
}

#[test]
fn the_queue_of_a_failed_subflow_is_recalled() {
    for name in ["linux", "daps", "otias", "sttf"] {
        let kind = SchedulerKind::from_name(name).unwrap();
        let subflows = vec![subflow(0, 10, 10), subflow(1, 20, 10)];
        let mut connection = Connection { licence: Licence::of(name), ..Connection::new(subflows, 60 * MSS) };
        let mut scheduler = kind.build();
        assert!(scheduler.revises_queues());
        connection.run(&mut scheduler);
        assert!(connection.bytes_on(0) > 0, "{name}");
        connection.subflows[0].potentially_failed = true;
        let Decision::Recall { subflow, .. } = scheduler.decide(&connection.view()) else { panic!("{name}") };
        assert_eq!(subflow, SubflowId(0), "{name}");
    }
}

#[test]
fn cp_pauses_a_slow_subflow_and_probes_it_after_the_guard_time() {
    for (probing, guards) in [(Probing::Static, [400, 400, 400]), (Probing::Dynamic, [400, 800, 1200])] {
        let mut fast = full(subflow(0, 10, 20));
        fast.ssthresh = Some(MSS);
        let mut connection = Connection::new(vec![fast, subflow(1, 100, 20)], 10_000 * MSS);
        // 20 segments in flight, and 9 more rounds of them: at least 200 segments; a window of 100.
        connection.window_end = 100 * MSS;
        let mut scheduler = CpRadical::new(CpOptions { probing, ..CpOptions::RADICAL });
        let mut probes = |connection: &mut Connection| {
            let mut count = 0;
            while let Decision::Assign { subflow, why, .. } = scheduler.decide(&connection.view()) {
                assert_eq!((subflow, why.rule), (SubflowId(1), Rule::PathProbe));
                count += 1;
            }
            count
        };
        // The first refusal begins the first pause, without probes.
        assert_eq!(probes(&mut connection), 0);
        for guard in guards {
            // Not before its end, and not if the window has not moved.
            connection.now += Duration::from_millis(guard);
            assert_eq!(probes(&mut connection), 0, "{probing:?} {guard}");
            connection.now += Duration::from_millis(1);
            assert_eq!(probes(&mut connection), 0, "{probing:?} {guard}");
            connection.data_una += MSS;
            assert_eq!(probes(&mut connection), 10, "{probing:?} {guard}");
        }
        // At most two seconds.
        connection.now += Duration::from_millis(2001);
        connection.data_una += MSS;
        assert_eq!(probes(&mut connection), 10);
    }
}

#[test]
fn cp_obeys_a_delay_constraint_up_to_its_value() {
    for (slow_ms, used) in [(20, true), (21, false)] {
        let connection = Connection::new(vec![full(subflow(0, 10, 20)), subflow(1, slow_ms, 20)], 99 * MSS);
        let options = CpOptions { delay_constraint: Some(2.0), ..CpOptions::RADICAL };
        assert_eq!(chosen(&mut CpRadical::new(options), &connection).is_some(), used, "{slow_ms} ms");
    }
}

#[test]
fn cp_obeys_a_delay_constraint_that_is_a_time() {
    for (slow_ms, used) in [(25, true), (26, false)] {
        let connection = Connection::new(vec![full(subflow(0, 10, 20)), subflow(1, slow_ms, 20)], 99 * MSS);
        let options =
            CpOptions { delay_constraint_time: Some(Duration::from_millis(25)), ..CpOptions::RADICAL };
        assert_eq!(chosen(&mut CpRadical::new(options), &connection).is_some(), used, "{slow_ms} ms");
    }
    // The fastest is used whatever its RTT.
    let connection = Connection::new(vec![subflow(0, 30, 20), subflow(1, 40, 20)], 99 * MSS);
    let options = CpOptions { delay_constraint_time: Some(Duration::from_millis(25)), ..CpOptions::RADICAL };
    assert_eq!(chosen(&mut CpRadical::new(options), &connection), Some(0));
}

#[test]
fn cp_conservative_waits_for_the_end_of_slow_start() {
    let mut connection = Connection::new(vec![full(subflow(0, 10, 20)), subflow(1, 15, 20)], 99 * MSS);
    let mut scheduler = CpConservative::new(CpOptions::CONSERVATIVE);
    assert_eq!(chosen(&mut scheduler, &connection), None);
    connection.subflows[0].ssthresh = Some(10 * MSS);
    assert_eq!(chosen(&mut scheduler, &connection), Some(1));
    // Half of the window is in flight on the fast subflow.
    connection.window_end = 41 * MSS;
    assert_eq!(chosen(&mut scheduler, &connection), None);
}

#[test]
fn freeze_excludes_subflows_far_from_the_fastest() {
    for (slow_ms, used) in [(70, true), (71, false)] {
        let connection = Connection::new(vec![full(subflow(0, 20, 20)), subflow(1, slow_ms, 20)], 99 * MSS);
        assert_eq!(chosen(&mut Freeze::new(FreezeOptions::DEFAULT), &connection).is_some(), used);
    }
    let connection = Connection::new(vec![full(subflow(0, 20, 20)), subflow(1, 500, 20)], 99 * MSS);
    let options = FreezeOptions { remaining: Some(98 * MSS), ..FreezeOptions::DEFAULT };
    assert_eq!(chosen(&mut Freeze::new(options), &connection), Some(1));
}

#[test]
fn backup_waits_for_its_primary_and_leaves_it_when_that_fails() {
    let mut scheduler = SchedulerKind::from_name("backup").unwrap();
    assert!(scheduler.set_parameter("priorities", Value::Numbers(Numbers::new(&[1.0, 0.0]).unwrap())));
    let mut connection = Connection::new(vec![subflow(0, 20, 20), subflow(1, 500, 20)], 99 * MSS);
    let mut scheduler = scheduler.build();
    connection.run(&mut scheduler);
    assert_eq!((connection.bytes_on(0), connection.bytes_on(1)), (0, 20 * MSS));
    connection.subflows[1].potentially_failed = true;
    connection.run(&mut scheduler);
    assert_eq!(connection.bytes_on(0), 20 * MSS);
}

/// Returns a fast path of 30 Mbit/s whose window is full, and a slow one: 10 and 100 ms one-way delay,
/// segments of 1448 bytes.
fn stms_pair() -> Vec<SubflowView> {
    let ms = Duration::from_millis;
    let mut fast = SubflowView::idle(SubflowId(0), ms(20), 0, 1448);
    fast.cwnd = 30_000_000 / 8 / 50;
    fast.inflight = fast.cwnd;
    vec![fast, SubflowView::idle(SubflowId(1), ms(200), 100, 1448)]
}

#[test]
fn stms_c_sends_on_the_slow_subflow_by_equation_2() {
    let connection = Connection { licence: Licence::of("stms_c"), ..Connection::new(stms_pair(), 1_000_000) };
    let mut scheduler = StmsC::new(StmsCOptions::DEFAULT);
    let view = connection.view();
    // 3.75 MB/s for 90 ms: 337,500 bytes, 233.08 segments.
    assert_eq!(scheduler.gap(&view, &view.subflows[1]), 233);
    let Decision::Assign { subflow: id, range, .. } = scheduler.decide(&view) else { panic!() };
    assert_eq!((id, range), (SubflowId(1), DataRange::new(233 * 1448, 234 * 1448)));
    // Equation 4: B_f (OWD_s + OWD_f) = 412,500 bytes; with a smaller window than the gap it is idle.
    let narrow = Connection { window_end: 233 * 1448, ..connection.clone() };
    assert!(matches!(scheduler.decide(&narrow.view()), Decision::Wait { .. }));
    // The end of a flow, less than the gap, is left to the fast subflow.
    let tail = Connection { unassigned: vec![DataRange::new(0, 233 * 1448)], ..connection.clone() };
    assert!(matches!(scheduler.decide(&tail.view()), Decision::Wait { .. }));
    // The next segment follows the one that is sent.
    let mut connection = connection;
    let decision = scheduler.decide(&connection.view());
    connection.apply(&decision).unwrap();
    let Decision::Assign { range, .. } = scheduler.decide(&connection.view()) else { panic!() };
    assert_eq!(range.start, 234 * 1448);
    // Equal RTTs make no gap.
    let equal = Connection::new(vec![full(subflow(0, 20, 10)), subflow(1, 20, 10)], 99 * MSS);
    assert_eq!(scheduler.gap(&equal.view(), &equal.subflows[1]), 0);
}

#[test]
fn stms_a_widens_the_gap_for_late_slow_data_and_narrows_it_for_late_fast_data() {
    let mut connection = Connection::new(stms_pair(), 1_000_000);
    let mut scheduler = StmsA::new(StmsAOptions::DEFAULT);
    scheduler.decide(&connection.view());
    assert_eq!(scheduler.gap(&connection.subflows[1]), Some(233));
    let mut jump = |connection: &mut Connection, segments: u64, by: u8, after_ms: u64| {
        connection.now += Duration::from_millis(after_ms);
        let to = segments * 1448;
        let event = SchedulerEvent::DataAcked { from: 0, to, carried_by: set(&[by]) };
        scheduler.on_event(&connection.view(), &event);
        scheduler.gap(&connection.subflows[1]).unwrap()
    };
    // A quarter of 40 segments, once the interval of 200 ms has ended; jumps of two are not significant.
    assert_eq!(jump(&mut connection, 40, 1, 100), 233);
    assert_eq!(jump(&mut connection, 2, 1, 100), 243);
    assert_eq!(jump(&mut connection, 40, 0, 100), 243);
    assert_eq!(jump(&mut connection, 2, 0, 100), 233);
    // An estimate above the true gap decreases step by step, never below 0.
    let mut last = 233;
    for _ in 0..400 {
        let now = jump(&mut connection, 12, 0, 200);
        assert!(now <= last);
        last = now;
    }
    assert_eq!(last, 0);
}

#[test]
fn daps_reinjects_blocking_data_on_another_subflow() {
    let mut connection = Connection::new(vec![subflow(0, 10, 10), subflow(1, 100, 10)], 20 * MSS);
    connection.outstanding =
        vec![anabranch_stack::scheduler::Pending { range: DataRange::new(0, 2 * MSS), tried: set(&[1]) }];
    connection.unassigned = vec![DataRange::new(2 * MSS, 20 * MSS)];
    connection.window_end = 2 * MSS;
    let mut scheduler = SchedulerKind::from_name("daps").unwrap().build();
    let Decision::Assign { subflow, range, kind, .. } = scheduler.decide(&connection.view()) else {
        panic!()
    };
    assert_eq!((subflow, range, kind), (SubflowId(0), DataRange::new(0, MSS), AssignKind::Copy));
}

#[test]
fn every_parameter_accepts_its_shown_value_and_refuses_values_out_of_range() {
    for kind in SchedulerKind::ALL {
        for (spec, value) in kind.parameters() {
            let mut other = kind.clone();
            assert!(other.set_parameter(spec.name, value), "{} {}", kind.name(), spec.name);
            assert_eq!(other, kind);
            assert!(!other.set_parameter(spec.name, Value::Number(-1.0)));
            assert!(!other.set_parameter(spec.name, Value::Integer(u64::MAX)));
            assert!(spec.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", spec.name);
        }
    }
}
