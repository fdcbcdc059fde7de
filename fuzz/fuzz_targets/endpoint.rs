//! Any bytes as what one endpoint is told: segments near the truth, time, and what its application does.

#![no_main]

use std::alloc::System;

use libfuzzer_sys::fuzz_target;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[path = "../../crates/stack/tests/harness/mod.rs"]
mod harness;
#[path = "../../crates/stack/tests/hostile/mod.rs"]
mod hostile;
#[path = "../../crates/stack/tests/random/mod.rs"]
mod random;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fuzz_target!(|bytes: &[u8]| {
    hostile::attack(&hostile::bytes::decode(bytes), held);
});
