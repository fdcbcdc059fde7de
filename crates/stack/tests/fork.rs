//! A pair of endpoints can be copied at any time, and both copies behave identically.

use crate::harness;
use crate::random;

use harness::{Pair, Side};
use proptest::prelude::*;
use random::case::{Case, any_case};
use random::run::{apply, start};

/// Returns the segments sent and the resulting state.
fn trace(pair: &Pair) -> String {
    let ends = (pair.client.closed, pair.server.closed, pair.client.read, pair.server.read);
    format!("{:?} {ends:?} {:?} {:?}", pair.now, pair.client.final_stats, pair.server.final_stats)
}

fn run_forked(case: &Case, at: usize) {
    let mut pair = start(case);
    pair.keep_log = true;
    let (before, after) = case.ops.split_at(at.min(case.ops.len()));
    before.iter().for_each(|&op| apply(&mut pair, op));
    let mut copy = pair.fork();
    // One copy lags, so that shared state would be detected.
    for twin in [&mut pair, &mut copy] {
        after.iter().for_each(|&op| apply(twin, op));
        Side::BOTH.into_iter().for_each(|side| twin.close_after_backlog(side));
        twin.run_for(anabranch_units::Duration::from_secs(20));
    }
    assert_eq!(pair.log.len(), copy.log.len());
    for (one, other) in pair.log.iter().zip(&copy.log) {
        assert_eq!(one, other);
    }
    assert_eq!(trace(&pair), trace(&copy));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: random::rng_seed(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_behaves_identically(case in any_case(), at in 0usize..30) {
        run_forked(&case, at);
    }
}
