//! The cost of one decision with 8 subflows, and with the last 2 of them: one call of `decide`.

use std::hint::black_box;

use anabranch_stack::event::{SubflowId, SubflowSet};
use anabranch_stack::scheduler::{Pending, Scheduler, SchedulerKind, SubflowView, View};
use anabranch_stack::seq::DataRange;
use anabranch_units::{Duration, Time};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

const MSS: u64 = 1400;

/// Returns eight subflows of 20 to 90 ms; the slowest come first, so that no search ends early.
fn subflows(full: usize) -> Vec<SubflowView> {
    let subflow = |n: usize| SubflowView {
        ssthresh: Some(10 * MSS),
        inflight: if n >= 8 - full { 20 * MSS } else { 5 * MSS },
        window_room: 1 << 20,
        rttvar: Duration::from_millis(2),
        srtt_min: Some(Duration::from_millis(80 - 10 * n as u64)),
        loss_rate: 0.0005,
        bytes_sent: 1 << 20,
        ..SubflowView::idle(SubflowId(n as u8), Duration::from_millis(90 - 10 * n as u64), 20, MSS)
    };
    (0..8).map(subflow).collect()
}

fn decide(c: &mut Criterion) {
    // The outstanding data of the last `count` subflows.
    let outstanding = |count: u64| -> Vec<Pending> {
        let pending = |n: u64| Pending {
            range: DataRange::new(n * MSS, (n + 1) * MSS),
            tried: SubflowSet::one(SubflowId((8 - count + n % count) as u8)),
        };
        (0..200).map(pending).collect()
    };
    let unassigned = [DataRange::new(200 * MSS, 3000 * MSS)];
    for (what, full, remaining) in [
        ("room everywhere", 0, 2800 * MSS),
        ("the faster half is full", 4, 2800 * MSS),
        ("little remains, the fastest is full", 1, 20 * MSS),
        ("all full", 8, 2800 * MSS),
    ] {
        let subflows = subflows(full);
        for count in [8, 2] {
            let outstanding = outstanding(count);
            let view = View {
                outstanding: &outstanding,
                data_nxt: 200 * MSS,
                peer_window: 1 << 30,
                remaining,
                ..View::fresh(Time::from_secs(1), &subflows[8 - count as usize..], &unassigned)
            };
            let mut group = c.benchmark_group(format!("{count} subflows, {what}"));
            for kind in SchedulerKind::ALL {
                // A copy decides, so that every decision is the same: redundant would advance. It has decided
                // once before, as the first choice of dmptcp is different (see the bench `model`). The copy is
                // not timed.
                let mut scheduler = kind.build();
                scheduler.decide(&view);
                group.bench_function(kind.name(), |b| {
                    b.iter_batched_ref(
                        || scheduler.clone(),
                        |scheduler| scheduler.decide(black_box(&view)),
                        BatchSize::NumIterations(16),
                    )
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
