//! Twenty thousand random cases: two endpoints over random paths, random operations, and invariants
//! (docs/testing.md, Random operations).
//!
//! The cases are the same in every run. `ANABRANCH_RANDOM_SEED` selects others, `ANABRANCH_RANDOM_CASES` more
//! or fewer (then the frequency of events is not asserted).

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the cases are divided among threads"
)]

use crate::random;

use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use random::case::{Case, any_case};
use random::run::{compare_fast_paths, run};

const CASES: u32 = 20_000;
/// The number of other cases that are run with and without the fast paths.
const COMPARED: u32 = 20_000;
const THREADS: u32 = 2;

/// Turns a failed assertion into a failed case, which proptest then shrinks.
fn guarded<T>(run: impl Fn(&Case) -> T, case: &Case) -> Result<T, TestCaseError> {
    catch_unwind(AssertUnwindSafe(|| run(case))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        TestCaseError::fail(text.unwrap_or_default())
    })
}

/// Runs the cases of one share and adds up the results of `run`.
fn run_share<T: Default + AddAssign>(run: fn(&Case) -> T, share: u32, cases: u32, seed: u64) -> T {
    let config = Config {
        cases,
        max_shrink_iters: 2_000,
        // The failing case is printed; a seed stops matching as soon as the generator changes.
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&share.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let total = Mutex::new(T::default());
    let result = runner.run(&any_case(), |case| {
        let tally = guarded(run, &case)?;
        *total.lock().unwrap() += tally;
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    total.into_inner().unwrap()
}

/// Runs `cases` cases on several threads; the first share has the number `first`.
fn run_all<T>(run: fn(&Case) -> T, first: u32, cases: u32) -> T
where
    T: Default + AddAssign + Send + 'static,
{
    let seed = random::seed();
    let share = |share| move || run_share(run, first + share, cases.div_ceil(THREADS), seed);
    let threads: Vec<_> = (0..THREADS).map(|at| std::thread::spawn(share(at))).collect();
    let results: Vec<_> = threads.into_iter().map(std::thread::JoinHandle::join).collect();
    let mut total = T::default();
    for result in results {
        match result {
            Ok(tally) => total += tally,
            Err(failure) => panic!("{}", failure.downcast_ref::<String>().cloned().unwrap_or_default()),
        }
    }
    total
}

/// How many cases were compared, and the sum of their digests.
#[derive(Default)]
struct Compared {
    count: u32,
    digest: u64,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Compared) {
        self.count += other.count;
        self.digest = self.digest.wrapping_add(other.digest);
    }
}

fn compare(case: &Case) -> Compared {
    Compared { count: 1, digest: compare_fast_paths(case) }
}

#[test]
fn fast_paths_change_no_segment() {
    let cases = random::environment("ANABRANCH_RANDOM_CASES").map_or(COMPARED, |cases| cases as u32);
    let Compared { count, digest } = run_all(compare, THREADS, cases);
    println!("digest of {count} cases: {digest:016x}");
    assert!(count >= cases);
}

#[test]
fn random_operations_over_random_paths() {
    let cases = random::environment("ANABRANCH_RANDOM_CASES").map_or(CASES, |cases| cases as u32);
    // Thousands of shrinking steps print thousands of panics.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let total = catch_unwind(|| run_all(run, 0, cases));
    std::panic::set_hook(hook);
    let total = total.unwrap_or_else(|failure| {
        panic!("{}", failure.downcast_ref::<String>().cloned().unwrap_or_default());
    });
    println!("{total:?}");
    if cases < CASES {
        return;
    }
    assert!(total.finished * 10 >= total.cases * 7, "too few connections come to a good end");
    for (name, count) in [
        ("retransmission timeouts", total.timeouts),
        ("tail loss probes", total.tail_probes),
        ("undone reductions", total.undos),
        ("zero windows", total.zero_windows),
        ("window probes", total.window_probes),
        ("reinjected segments", total.reinjected_segments),
        ("wraps of a subflow's sequence number", total.subflow_wraps),
        ("wraps of a DSN's low half", total.narrow_wraps),
        ("wraps of the DSN", total.wide_wraps),
        ("subflow deaths", total.subflow_deaths),
        ("half closes", total.half_closes),
        ("ways back to TCP", total.fallbacks),
        ("wrong checksums", total.checksum_failures),
        ("MP_FAILs received", total.fails_received),
        ("hosts that hold payload", total.held),
        ("hosts with changed payload", total.damaged),
        ("departures of several segments", total.bursts),
    ] {
        assert!(count >= 100, "only {count} {name}");
    }
}
