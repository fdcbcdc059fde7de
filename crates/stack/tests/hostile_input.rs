//! One endpoint receives invalid input in every state: it must not panic, loop endlessly, or grow. The
//! segments are nearly valid, since pure noise is discarded at once.

mod harness;
mod hostile;
mod random;

use std::alloc::System;

use harness::Side;
use hostile::step::{Lie, LieDss, Number, Step};
use hostile::{Attack, attack};
use proptest::prelude::*;
use random::case::any_case;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn any_number() -> impl Strategy<Value = Number> {
    prop_oneof![
        4 => (-3i32..4).prop_map(Number::Near),
        3 => (-3000i32..3000).prop_map(Number::Near),
        1 => any::<i32>().prop_map(Number::Near),
        1 => any::<u64>().prop_map(Number::Any),
    ]
}

fn any_dss() -> impl Strategy<Value = LieDss> {
    let mapping = (any_number(), any_number(), prop_oneof![1u16..2000, any::<u16>()]);
    let checksum = prop_oneof![1 => Just(0u16), 1 => any::<u16>()];
    let numbers = (prop::option::of(any_number()), prop::option::of(mapping));
    (numbers, any::<bool>(), any::<bool>(), prop::option::weighted(0.3, checksum))
        .prop_map(|((ack, mapping), fin, narrow, checksum)| LieDss { ack, mapping, fin, narrow, checksum })
}

fn any_lie() -> impl Strategy<Value = Lie> {
    let flags = prop_oneof![8 => Just(0x10u8), 2 => Just(0x18), 2 => Just(0x11), 1 => Just(0x02), 1 => Just(0x12),
        1 => Just(0x04), 1 => Just(0x14), 1 => any::<u8>()];
    let blocks = prop::collection::vec((any_number(), any_number()), 0..5);
    let syn = (any::<u16>(), prop::option::of(any::<u8>()), any::<bool>());
    let head = (0u8..3, flags, any_number(), any_number(), any::<u16>());
    let body = (
        prop_oneof![2 => Just(0u32), 2 => 1u32..1400, 1 => 0u32..70_000],
        prop::option::of((any::<u32>(), any::<u32>())),
        blocks,
        prop::option::of(syn),
        prop::option::weighted(0.7, any_dss()),
        prop::collection::vec(0u8..13, 0..3),
        any::<u64>(),
    );
    (head, body).prop_map(
        |((port, flags, seq, ack, window), (len, timestamps, sack, syn, dss, options, number))| Lie {
            port,
            flags,
            seq,
            ack,
            window,
            len,
            timestamps,
            sack,
            syn,
            dss,
            options,
            number,
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => any_lie().prop_map(Step::Segment),
        3 => prop_oneof![0u32..100_000, 0u32..10_000_000].prop_map(Step::Wait),
        2 => (0u32..100_000).prop_map(Step::Write),
        1 => (0u32..100_000).prop_map(Step::Read),
        1 => Just(Step::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5000,
        rng_seed: random::rng_seed(),
        // The failing case is printed; a seed stops matching as soon as the generator changes.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nonsense_does_no_harm(
        case in any_case(),
        client in any::<bool>(),
        honest in prop::bool::weighted(0.7),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let side = if client { Side::Client } else { Side::Server };
        attack(&Attack { side, case, honest, steps }, held);
    }
}
