//! With one subflow each coupled control is its single-path base.

use anabranch_stack::congestion::{Ack, AnyCongestion, CongestionControl};
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

use crate::congestion_common::{A, B, MSS, ack, connection, loss, window};

#[derive(Clone, Debug)]
enum Op {
    Acks(u64),
    Loss,
    Mark,
    Timeout,
    Idle,
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1..60_u64).prop_map(Op::Acks),
        2 => Just(Op::Loss),
        1 => Just(Op::Mark),
        1 => Just(Op::Timeout),
        1 => Just(Op::Idle),
    ]
}

fn apply(congestion: &mut AnyCongestion, now: Time, op: &Op) {
    let flight = congestion.cwnd(A) / MSS;
    match op {
        Op::Acks(n) => {
            for _ in 0..*n {
                let rtt = Duration::from_millis(20);
                congestion.on_ack(A, &Ack { rtt: Some(rtt), srtt: rtt, ..ack(now, 1) });
            }
        }
        Op::Loss | Op::Mark => {
            let ecn = matches!(op, Op::Mark);
            congestion
                .on_congestion(A, &anabranch_stack::congestion::CongestionEvent { ecn, ..loss(now, flight) });
            congestion.on_recovered(A, now);
        }
        Op::Timeout => congestion.on_rto(A, now, flight * MSS, false),
        Op::Idle => congestion.on_idle(A, now, 1),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn with_one_subflow_the_loss_based_ones_are_newreno(
        at in 2..300_u32, ops in prop::collection::vec(any_op(), 1..60), with_a_dead_one: bool,
    ) {
        let mut reno = connection("newreno", &[(at, 20)]);
        for name in ["lia", "olia", "balia"] {
            let mut coupled = connection(name, &[(at, 20)]);
            if with_a_dead_one {
                coupled = connection(name, &[(at, 20), (500, 5)]);
                coupled.on_subflow_down(B);
            }
            let mut reno = reno.clone();
            for (n, op) in ops.iter().enumerate() {
                let now = Time::from_millis(1000 + 20 * n as u64);
                apply(&mut reno, now, op);
                apply(&mut coupled, now, op);
                let (is, should) = (window(&coupled, A), window(&reno, A));
                prop_assert!((is / should - 1.0).abs() < 1e-9, "{name}: {is} and {should} after {op:?}");
                prop_assert_eq!(coupled.ssthresh(A), reno.ssthresh(A));
            }
        }
        apply(&mut reno, Time::from_secs(9), &Op::Idle);
    }
}
