//! The cost of an acknowledgement: `on_ack` and `on_sent` of one segment, and the query for the window.

use std::hint::black_box;

use anabranch_stack::congestion::{Ack, CongestionControl, CongestionKind, SubflowStart};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};
use criterion::{Criterion, criterion_group, criterion_main};

const MSS: u64 = 1400;

fn on_ack(c: &mut Criterion) {
    for subflows in [1_u8, 8] {
        let mut group = c.benchmark_group(format!("on_ack, {subflows} subflows"));
        for kind in CongestionKind::ALL {
            let mut congestion = kind.build();
            for id in 0..subflows {
                congestion.on_subflow_up(
                    SubflowId(id),
                    &SubflowStart {
                        now: Time::ZERO,
                        mss: MSS,
                        initial_window: 50,
                        initial_ssthresh: Some(2),
                        rtt: Some(Duration::from_millis(20 + u64::from(id))),
                        prr: true,
                        paced: false,
                        sack: true,
                        byte_counting_limit: None,
                    },
                );
            }
            let rtt = Duration::from_millis(20);
            let mut ack = Ack { inflight_bytes: 30 * MSS, ..Ack::of(Time::ZERO, MSS, 1, rtt) };
            let mut turn = 0;
            group.bench_function(kind.name(), |b| {
                b.iter(|| {
                    turn = (turn + 1) % subflows;
                    let id = SubflowId(turn);
                    ack.now += Duration::from_micros(10);
                    congestion.on_ack(id, black_box(&ack));
                    congestion.on_sent(id, ack.now, MSS);
                    congestion.cwnd(id)
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, on_ack);
criterion_main!(benches);
