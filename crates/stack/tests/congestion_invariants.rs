//! Invariants of every congestion control under any order of events on any subflows.

use crate::congestion_common;

use anabranch_stack::congestion::{
    Ack, AnyCongestion, BbrOptions, CongestionControl, CongestionEvent, CongestionKind, Delivery, Loss,
    SubflowStart,
};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Rate, Time};
use congestion_common::{MSS, ack, start};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Up { initial_window: u32, initial_ssthresh: Option<u32>, rtt: Option<u64>, prr: bool, mss: u64 },
    Down,
    Sent(u64),
    Ack { bytes: u64, lost: u64, rtt: u64, inflight: u64, limited: bool, advanced: bool, recovery: bool },
    Congestion { flight: u64, recover: u64, ecn: bool, reduced: bool },
    Recovered,
    Timeout { flight: u64, again: bool },
    Undo,
    Idle,
    Penalise,
}

fn any_op() -> impl Strategy<Value = Op> {
    // Absurd numbers among likely ones: they come from packets.
    let bytes =
        || prop_oneof![4 => (0..40_u64).prop_map(|n| n * MSS), 1 => 0..100_000_u64, 1 => Just(u64::MAX)];
    let rtt = || prop_oneof![4 => 1..500_u64, 1 => Just(0), 1 => Just(1_u64 << 40)];
    prop_oneof![
        2 => (0..50_u32, prop::option::of(0..100_u32), prop::option::of(rtt()), any::<bool>(), prop_oneof![Just(MSS), Just(0), 1..9000_u64])
            .prop_map(|(initial_window, initial_ssthresh, rtt, prr, mss)| Op::Up { initial_window, initial_ssthresh, rtt, prr, mss }),
        1 => Just(Op::Down),
        4 => bytes().prop_map(Op::Sent),
        12 => (bytes(), bytes(), rtt(), bytes(), prop::bool::weighted(0.8), prop::bool::weighted(0.8), prop::bool::weighted(0.3))
            .prop_map(|(bytes, lost, rtt, inflight, limited, advanced, recovery)| Op::Ack { bytes, lost, rtt, inflight, limited, advanced, recovery }),
        3 => (bytes(), bytes(), prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(flight, recover, ecn, reduced)| Op::Congestion { flight, recover, ecn, reduced }),
        3 => Just(Op::Recovered),
        2 => (bytes(), any::<bool>()).prop_map(|(flight, again)| Op::Timeout { flight, again }),
        1 => Just(Op::Undo),
        1 => Just(Op::Idle),
        1 => Just(Op::Penalise),
    ]
}

fn apply(congestion: &mut AnyCongestion, id: SubflowId, now: Time, op: &Op) {
    match *op {
        Op::Up { initial_window, initial_ssthresh, rtt, prr, mss } => {
            let rtt = rtt.map(Duration::from_micros);
            congestion.on_subflow_up(
                id,
                &SubflowStart {
                    now,
                    mss,
                    initial_window,
                    initial_ssthresh,
                    rtt,
                    prr,
                    paced: prr,
                    sack: prr,
                    byte_counting_limit: prr.then_some(2),
                },
            );
        }
        Op::Down => congestion.on_subflow_down(id),
        Op::Sent(bytes) => congestion.on_sent(id, now, bytes),
        Op::Ack { bytes, lost, rtt, inflight, limited, advanced, recovery } => {
            let rtt = Duration::from_millis(rtt);
            congestion.on_ack(
                id,
                &Ack {
                    acked_bytes: bytes,
                    lost_bytes: lost,
                    rtt: Some(rtt),
                    srtt: rtt,
                    cwnd_limited: limited,
                    una_advanced: advanced,
                    in_recovery: recovery,
                    inflight_bytes: inflight,
                    delivery: Some(Delivery {
                        total: bytes,
                        prior_delivered: lost,
                        delivered: bytes.saturating_sub(lost),
                        tx_in_flight: inflight,
                        lost,
                        app_limited: limited,
                    }),
                    loss: Some(Loss { bytes: lost, tx_in_flight: inflight, lost, ..Loss::default() }),
                    delivery_rate: Some(Rate(bytes)),
                    one_way_delay_us: Some(bytes as i64),
                    round_start: limited,
                    ..ack(now, 1)
                },
            );
        }
        Op::Congestion { flight, recover, ecn, reduced } => congestion.on_congestion(
            id,
            &CongestionEvent { now, flight_bytes: flight, recover_bytes: recover, ecn, reduced },
        ),
        Op::Recovered => congestion.on_recovered(id, now),
        Op::Timeout { flight, again } => congestion.on_rto(id, now, flight, again),
        Op::Undo => congestion.on_undo(id, now),
        Op::Idle => congestion.on_idle(id, now, 1),
        Op::Penalise => congestion.penalise(id, now),
    }
}

fn classic() -> impl Iterator<Item = CongestionKind> {
    CongestionKind::ALL.into_iter().filter(|kind| kind.build().windows().is_some())
}

fn windows(congestion: &AnyCongestion) -> Vec<(f64, f64)> {
    let windows = congestion.windows().expect("all built-in ones have windows");
    windows.iter().map(|(_, window)| (window.segments, window.ssthresh)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn windows_are_numbers_of_at_least_one_segment_and_grow_only_by_acknowledgements(
        ops in prop::collection::vec((0..4_u8, 0..100_000_000_u64, any_op()), 1..120),
    ) {
        for kind in classic() {
            let mut congestion = kind.build();
            let mut now = Time::ZERO;
            congestion.on_subflow_up(SubflowId(0), &start());
            for (id, wait, op) in &ops {
                let id = SubflowId(*id);
                now += Duration(*wait);
                let before = (0..4).map(|n| congestion.cwnd(SubflowId(n))).collect::<Vec<_>>();
                let threshold = congestion.ssthresh(id);
                apply(&mut congestion, id, now, op);
                let least = if ["olia", "balia", "sbd"].contains(&kind.name()) { 1.0 } else { 2.0 };
                for (window, ssthresh) in windows(&congestion) {
                    prop_assert!(window.is_finite() && window >= 1.0, "{kind:?} {window} after {op:?}");
                    prop_assert!(ssthresh >= least, "{kind:?} {ssthresh} after {op:?}");
                }
                for n in (0..4).filter(|n| SubflowId(*n) != id) {
                    prop_assert_eq!(congestion.cwnd(SubflowId(n)), before[usize::from(n)], "only one window moves");
                }
                match op {
                    Op::Timeout { again, .. } => {
                        prop_assert!(congestion.cwnd(id) <= before[id.index()]);
                        prop_assert!(!again || congestion.ssthresh(id) == threshold);
                    }
                    Op::Penalise | Op::Idle => prop_assert!(congestion.cwnd(id) <= before[id.index()]),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_model_of_the_path_never_asks_for_less_than_a_segment_or_for_no_rate(
        ops in prop::collection::vec((0..4_u8, 0..10_000_000_000_u64, any_op()), 1..120),
    ) {
        let mut congestion = CongestionKind::Bbr(BbrOptions::DEFAULT).build();
        let mut now = Time::ZERO;
        congestion.on_subflow_up(SubflowId(0), &start());
        for (id, wait, op) in &ops {
            now += Duration(*wait);
            apply(&mut congestion, SubflowId(*id), now, op);
            for n in 0..4 {
                prop_assert!(congestion.cwnd(SubflowId(n)) >= 1);
                if let Some(rate) = congestion.pacing_rate(SubflowId(n)) {
                    prop_assert!(rate.0 > 0, "after {op:?}");
                }
            }
        }
    }

    #[test]
    fn a_fork_behaves_identically(
        ops in prop::collection::vec((0..3_u8, 0..100_000_000_u64, any_op()), 1..60), at in 0..60_usize,
    ) {
        for kind in classic() {
            let mut congestion = kind.build();
            congestion.on_subflow_up(SubflowId(0), &start());
            let mut fork = congestion.clone();
            let mut now = Time::ZERO;
            for (n, (id, wait, op)) in ops.iter().enumerate() {
                now += Duration(*wait);
                if n == at {
                    fork = congestion.clone();
                }
                apply(&mut congestion, SubflowId(*id), now, op);
                if n >= at {
                    apply(&mut fork, SubflowId(*id), now, op);
                    prop_assert_eq!(windows(&congestion), windows(&fork));
                }
            }
        }
    }

    // One loss is one reduction by the rule's factor, regardless of the number of acknowledgements in a
    // recovery.
    #[test]
    fn one_loss_is_one_reduction(window in 3..400_u32, acks in prop::collection::vec(0..3_u64, 0..50), prr: bool) {
        for kind in classic() {
            let mut congestion = kind.build();
            let id = SubflowId(0);
            congestion.on_subflow_up(id, &SubflowStart { initial_window: window, prr, ..start() });
            congestion.on_congestion(id, &congestion_common::loss(Time::ZERO, u64::from(window)));
            let target = congestion.ssthresh(id);
            for segments in &acks {
                let now = Time::from_millis(10);
                congestion.on_ack(id, &Ack { in_recovery: true, ..ack(now, *segments) });
            }
            congestion.on_recovered(id, Time::from_millis(20));
            let factor = match kind.name() {
                "cubic" | "cubic_hystart" | "cubic_linux" => 0.7,
                _ => 0.5,
            };
            let expected = ((f64::from(window) * factor + 1e-9).floor() as u64).max(2) * MSS;
            prop_assert_eq!((congestion.cwnd(id), congestion.ssthresh(id)), (expected, target));
        }
    }
}
