//! What one decision costs, with 8 subflows: a copy of the scheduler, and its call of `decide`.

use std::hint::black_box;

use anabranch_stack::event::{SubflowId, SubflowSet};
use anabranch_stack::scheduler::{Pending, RecoveryState, Scheduler, SchedulerKind, SubflowView, View};
use anabranch_stack::seq::DataRange;
use anabranch_units::{Duration, Rate, Time};
use criterion::{Criterion, criterion_group, criterion_main};

const MSS: u64 = 1400;

/// Eight subflows of 20 to 90 ms; the slowest come first, so that no search ends early.
fn subflows(full: usize) -> Vec<SubflowView> {
    let subflow = |n: usize| SubflowView {
        id: SubflowId(n as u8),
        usable: true,
        potentially_failed: false,
        backup: false,
        recovery: RecoveryState::Open,
        cwnd: 20 * MSS,
        ssthresh: Some(10 * MSS),
        inflight: if n >= 8 - full { 20 * MSS } else { 5 * MSS },
        queued: 0,
        window_room: 1 << 20,
        srtt: Some(Duration::from_millis(90 - 10 * n as u64)),
        rttvar: Duration::from_millis(2),
        min_rtt: Duration::from_millis(10),
        last_rtt: Duration::from_millis(10),
        mss: MSS,
        pacing_rate: None,
        delivery_rate: Rate(0),
        one_way_delay_us: None,
        loss_rate: 0.0005,
        bytes_sent: 1 << 20,
    };
    (0..8).map(subflow).collect()
}

fn decide(c: &mut Criterion) {
    let outstanding: Vec<_> = (0..200)
        .map(|n| Pending {
            range: DataRange::new(n * MSS, (n + 1) * MSS),
            tried: SubflowSet::one(SubflowId((n % 8) as u8)),
        })
        .collect();
    let unassigned = [DataRange::new(200 * MSS, 3000 * MSS)];
    for (what, full, remaining) in [
        ("room everywhere", 0, 2800 * MSS),
        ("the faster half is full", 4, 2800 * MSS),
        ("little remains, the fastest is full", 1, 20 * MSS),
        ("all full", 8, 2800 * MSS),
    ] {
        let subflows = subflows(full);
        let view = View {
            now: Time::from_secs(1),
            subflows: &subflows,
            unassigned: &unassigned,
            reinject: &[],
            outstanding: &outstanding,
            data_una: 0,
            data_nxt: 200 * MSS,
            window_end: u64::MAX / 2,
            peer_window: 1 << 30,
            remaining,
            size_known: true,
            send_buffer_full: false,
        };
        let mut group = c.benchmark_group(format!("8 subflows, {what}"));
        for kind in SchedulerKind::ALL {
            // A copy decides, so that every decision is the same: redundant walks on otherwise. Once it
            // has decided, as the first choice of dmptcp is another thing (see the bench `model`).
            let mut scheduler = kind.build();
            scheduler.decide(&view);
            group.bench_function(kind.name(), |b| {
                b.iter(|| black_box(&scheduler).clone().decide(black_box(&view)))
            });
        }
        group.finish();
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
