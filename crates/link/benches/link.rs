//! The cost of one packet on one link: a push and a poll, with 100 packets inside, and the time taken from
//! `next_event` as in the simulator. Each iteration is one packet.

#![allow(missing_docs)] // criterion_group! makes a public function.

use std::hint::black_box;
use std::sync::Arc;

use anabranch_link::{
    GilbertElliott, Jitter, JitterShape, Link, LinkConfig, Loss, Pushed, QueueLimit, Reordering, Trace,
};
use anabranch_units::{Duration, Rate, Time};
use criterion::{Criterion, criterion_group, criterion_main};

/// 1500 bytes take 120 us at 100 Mbit/s.
const TX: Duration = Duration::from_micros(120);

fn plain() -> LinkConfig {
    LinkConfig {
        capacity: Rate::from_mbps(100).into(),
        delay: TX * 90,
        queue: QueueLimit::Packets(1000),
        ..LinkConfig::default()
    }
}

/// Pushes 100 packets at once, then one for each packet that is delivered: ten are queued, the others
/// propagate.
fn steady(c: &mut Criterion, name: &str, config: LinkConfig, sizes: [u32; 4]) {
    let mut link: Link<u32> = Link::new("bench", 1, config).expect("a right configuration");
    for n in 0..100 {
        while let Pushed::Dropped(..) = link.push(Time::ZERO, n, sizes[n as usize % 4]) {}
    }
    let mut n = 0_usize;
    c.bench_function(name, |b| {
        b.iter(|| {
            let now = link.next_event();
            let polled = black_box(link.poll(now));
            n += 1;
            if polled.is_some() || link.inside() == 0 {
                // A lost packet is replaced at the time of the next one, so that the link does not become
                // empty.
                while let Pushed::Dropped(..) = link.push(now, n as u32, sizes[n % 4]) {}
            }
        });
    });
}

fn benches(c: &mut Criterion) {
    steady(c, "plain", plain(), [1500; 4]);
    steady(c, "plain, two sizes", plain(), [1440, 60, 1440, 1440]);
    steady(c, "plain, four sizes", plain(), [1440, 1444, 1420, 52]);
    steady(c, "bernoulli 1%", LinkConfig { loss: Loss::Bernoulli(0.01), ..plain() }, [1500; 4]);
    let channel = GilbertElliott {
        mean_good: Duration::from_millis(500),
        mean_bad: Duration::from_millis(50),
        loss_good: 0.0,
        loss_bad: 0.1,
    };
    steady(c, "gilbert-elliott", LinkConfig { loss: Loss::GilbertElliott(channel), ..plain() }, [1500; 4]);
    // 12 opportunities each in 1, 2 and 3 ms, slightly more than 100 Mbit/s.
    let at_ms = (0..20_000).map(|i| i / 12 + i % 3).collect::<Vec<u32>>();
    let mut sorted = at_ms;
    sorted.sort_unstable();
    let trace = Arc::new(Trace::from_millis(sorted).expect("a right trace"));
    steady(c, "trace", LinkConfig { capacity: trace.into(), delay: TX * 30, ..plain() }, [1500; 4]);
    let uniform = |reorder| Jitter { shape: JitterShape::Uniform { max: TX * 5 }, reorder };
    steady(c, "jitter in order", LinkConfig { jitter: Some(uniform(false)), ..plain() }, [1500; 4]);
    steady(c, "jitter that reorders", LinkConfig { jitter: Some(uniform(true)), ..plain() }, [1500; 4]);
    let reordering = Reordering { probability: 0.01, extra: TX * 5 };
    steady(c, "reordering 1%", LinkConfig { reordering: Some(reordering), ..plain() }, [1500; 4]);
}

criterion_group!(group, benches);
criterion_main!(group);
