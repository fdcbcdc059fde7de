//! Random operations over random path sets, and their invariants.
#![expect(
    clippy::disallowed_methods,
    reason = "seeds and the number of cases may be given in the environment"
)]
#![allow(dead_code)]

pub mod case;
pub mod run;

use proptest::test_runner::RngSeed;

/// Returns the seed: the same in every run, unless `ANABRANCH_RANDOM_SEED` is set.
pub fn seed() -> u64 {
    environment("ANABRANCH_RANDOM_SEED").unwrap_or(0)
}

/// Returns the same for the macros of proptest.
pub fn rng_seed() -> RngSeed {
    RngSeed::Fixed(seed())
}

pub fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}
