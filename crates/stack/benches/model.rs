//! The time of a choice of subflows from scratch: nothing is kept from one choice to the next.

use std::hint::black_box;

use anabranch_stack::selection::{PathEstimate, select_subflows};
use anabranch_stack::transfer_model::{PathState, TransferModel};
use anabranch_units::{Bytes, Duration};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

const LOSSES: [f64; 5] = [0.0, 0.0001, 0.001, 0.01, 0.05];

fn paths(rtts_ms: &[u64], cwnd: u32, loss: f64) -> Vec<PathEstimate> {
    let path = |&millis: &u64| PathEstimate {
        srtt: Duration::from_millis(millis),
        cwnd,
        ssthresh: None,
        loss,
        mss: 1400,
        rate_limit: None,
        full: false,
        usable: true,
        backup: false,
    };
    rtts_ms.iter().map(path).collect()
}

fn choice(c: &mut Criterion) {
    let model = TransferModel::default();
    let cases: [(&str, &[u64], u64); 4] = [
        ("8 paths, 40 KB", &[10, 20, 30, 40, 60, 80, 90, 100], 40_000),
        ("8 paths, 10 MB", &[10, 20, 30, 40, 60, 80, 90, 100], 10_000_000),
        ("10 and 500 ms, 1 MB", &[10, 500], 1_000_000),
        ("10 and 500 ms, 10 MB", &[10, 500], 10_000_000),
    ];
    for (name, rtts_ms, remaining) in cases {
        let mut group = c.benchmark_group(name);
        for loss in LOSSES {
            for cwnd in [1, 10] {
                let paths = paths(rtts_ms, cwnd, loss);
                let id = BenchmarkId::from_parameter(format!("loss {loss}, cwnd {cwnd}"));
                group.bench_function(id, |b| {
                    b.iter(|| select_subflows(black_box(&paths), Bytes(black_box(remaining)), &model));
                });
            }
        }
        group.finish();
    }
}

fn fifty_rounds(c: &mut Criterion) {
    let model = TransferModel::default();
    let mut group = c.benchmark_group("50 rounds");
    for loss in LOSSES {
        let start = PathState { cwnd: 10, ssthresh: None, loss };
        group.bench_function(BenchmarkId::new("walk", loss), |b| {
            b.iter(|| model.delivered(black_box(start), 50.0, f64::INFINITY));
        });
    }
    group.finish();
}

criterion_group!(benches, choice, fifty_rounds);
criterion_main!(benches);
