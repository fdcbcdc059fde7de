//! Sums of accounts, and what is read from them.

use anabranch_units::Duration;

use super::*;

/// Returns the sums of two flows, from milliseconds of parts on each of two paths.
fn tally(paths: [&[(Cause, u64)]; 2]) -> Tally {
    let mut tally = Tally::new(2);
    (tally.n, tally.completed, tally.explained) = (2, 2, 2);
    for (path, parts) in paths.into_iter().enumerate() {
        for (cause, millis) in parts {
            let span = Duration::from_millis(*millis);
            tally.parts.add(*cause, span, 1);
            tally.by_path[path].add(*cause, span, 1);
            tally.total_ns += u128::from(span.0);
        }
    }
    tally
}

#[test]
fn the_largest_cause_names_the_path_with_most_of_it() {
    // The second path has more time of all, and the first one more of the largest cause.
    let of = tally([
        &[(Cause::Retransmission, 70)],
        &[(Cause::Retransmission, 30), (Cause::Propagation, 60), (Cause::Queueing, 50)],
    ]);
    assert_eq!(of.largest(), Some((Cause::Retransmission, Some(0))));
    assert!((of.mean_s() - 0.105).abs() < 1e-12);
    // The first of equal ones.
    assert_eq!(
        tally([&[(Cause::Pacing, 10)], &[(Cause::Pacing, 10)]]).largest(),
        Some((Cause::Pacing, Some(0)))
    );
    assert_eq!(tally([&[], &[]]).largest(), None);
}

#[test]
fn an_excess_counts_from_the_least_effect_on() {
    let fast = tally([&[(Cause::Propagation, 100)], &[]]);
    let slow = tally([&[(Cause::Propagation, 90)], &[(Cause::Scheduler, 15)]]);
    // 105 against 100 ms, of two flows.
    let (cause, path, more) = slow.excess(&fast, 0.04).unwrap();
    assert_eq!((cause, path), (Cause::Scheduler, Some(1)));
    assert!((more - 0.0075).abs() < 1e-12, "{more}");
    assert_eq!(slow.excess(&fast, 0.06), None);
    assert_eq!(fast.excess(&fast, 0.0), None);
}

#[test]
fn an_excess_names_the_path_with_most_of_the_difference() {
    // The first path has more of the cause, and less than the fastest contender has there.
    let fast = tally([&[(Cause::Serialisation, 120)], &[]]);
    let slow = tally([&[(Cause::Serialisation, 96)], &[(Cause::Serialisation, 40)]]);
    let (cause, path, more) = slow.excess(&fast, 0.01).unwrap();
    assert_eq!((cause, path), (Cause::Serialisation, Some(1)));
    assert!((more - 0.008).abs() < 1e-12, "{more}");
}

#[test]
fn overflows_are_the_cause_if_most_of_the_retransmissions_wait_for_them() {
    let mut of = tally([&[(Cause::Retransmission, 100)], &[]]);
    let mut with = |millis: u64| {
        of.overflow_ns = u128::from(Duration::from_millis(millis).0);
        of.overflows()
    };
    assert_eq!([with(0), with(50), with(51)], [false, false, true]);
}

#[test]
fn sums_of_runs_are_added_by_part_and_path() {
    let mut sum = tally([&[(Cause::Pacing, 1)], &[(Cause::Queueing, 2)]]);
    (sum.count, sum.overflow_ns) = (3, 4);
    sum += sum.clone();
    assert_eq!((sum.n, sum.completed, sum.explained, sum.count, sum.overflow_ns), (4, 4, 4, 6, 8));
    assert_eq!(
        (sum.parts[Cause::Pacing], sum.by_path[1][Cause::Queueing], sum.total_ns),
        (2_000_000, 4_000_000, 6_000_000)
    );
    sum.completed -= 1;
    assert!(!sum.is_complete());
}
