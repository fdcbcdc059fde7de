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

/// The time of a flow that is not delivered is known up to its last byte. Nothing is known of one without a byte.
#[test]
fn an_excess_is_a_bound_if_flows_are_not_delivered() {
    let fast = tally([&[(Cause::Propagation, 100)], &[]]);
    let mut slow = tally([&[(Cause::Propagation, 90)], &[(Cause::Scheduler, 30)]]);
    assert!(slow.excess(&fast, 0.01).is_some() && !slow.is_bound());
    slow.completed = 1;
    assert!(slow.excess(&fast, 0.01).is_some() && slow.is_bound());
    (slow.n, slow.completed) = (3, 2);
    assert_eq!(slow.excess(&fast, 0.01), None);
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

fn effect(unfinished_before: usize, unfinished: usize, difference: Option<(f64, f64, f64)>) -> Effect {
    let of = |(mean, low, high)| Difference { mean, ci95: Some(crate::stats::Interval(low, high)) };
    Effect { difference: difference.map(of), unfinished, unfinished_before }
}

fn candidate() -> Candidate {
    let scenario = crate::made::scenario(crate::made::TWO_PATHS);
    Candidate { what: "more".to_owned(), path: None, scenario, is_setting: true }
}

#[test]
fn a_change_helps_by_what_finishes_before_it_helps_by_time() {
    let candidate = candidate();
    let of = |effect: Effect, bulk: bool| Change::new(&candidate, &[0.1], effect, bulk, 0.01).helps;
    let (faster, slower) = (Some((-20.0, -25.0, -15.0)), Some((20.0, 15.0, 25.0)));
    // More flows finish, even if the others are slower; or fewer, even if they are faster.
    assert_eq!([of(effect(2, 1, slower), false), of(effect(2, 3, faster), false)], [Some(true), Some(false)]);
    assert_eq!([of(effect(2, 2, slower), false), of(effect(2, 2, faster), false)], [Some(false), Some(true)]);
    // Goodput is better if it is more.
    assert_eq!([of(effect(0, 0, slower), true), of(effect(0, 0, faster), true)], [Some(true), Some(false)]);
    assert_eq!(of(effect(0, 0, Some((-4.0, -9.0, 1.0))), false), None);
    assert_eq!(of(effect(0, 0, Some((0.1, -0.2, 0.4))), false), Some(false));
    assert_eq!(of(effect(2, 2, None), false), Some(false));
}

#[test]
fn a_change_has_a_mean_time_only_if_every_flow_finishes() {
    let candidate = candidate();
    let of = |unfinished: usize, bulk: bool| {
        Change::new(&candidate, &[0.1, 0.3], effect(1, unfinished, None), bulk, 0.01).mean_s
    };
    assert_eq!([of(0, false), of(1, false), of(0, true)], [Some(0.2), None, None]);
}

#[test]
fn changes_are_sorted_by_what_is_unfinished_and_then_by_the_measure() {
    let candidate = candidate();
    let rank = |unfinished: usize, mean: f64, bulk: bool| {
        let effect = effect(0, unfinished, Some((mean, mean, mean)));
        Change::new(&candidate, &[], effect, bulk, 0.01).rank(bulk)
    };
    // The least is the best: a shorter time, or more goodput.
    assert!(rank(0, -20.0, false) < rank(0, -10.0, false) && rank(0, 20.0, true) < rank(0, 10.0, true));
    assert!(rank(0, 10.0, false) < rank(1, -20.0, false));
}

/// An outage of the run is the same as the planned one that it lies in, and a later one of the same path is another.
#[test]
fn an_outage_of_a_run_is_the_planned_one_that_holds_its_begin() {
    use anabranch_units::Time;
    let s = Time::from_millis;
    let planned =
        |path: usize, from: u64, until: u64| crate::scenario::Outage { path, from: s(from), until: s(until) };
    let all = [planned(0, 1000, 2000), planned(0, 3000, 4000), planned(1, 3000, 9000)];
    let of = |path: usize, from: u64| {
        let found = as_planned(&all, Outage { path, from: s(from), until: s(from + 1) });
        (found.path, found.from, found.until)
    };
    assert_eq!(of(0, 1000), (0, s(1000), s(2000)));
    assert_eq!(of(0, 3500), (0, s(3000), s(4000)));
    assert_eq!(of(1, 3500), (1, s(3000), s(9000)));
    assert_eq!(of(0, 2000), (0, s(2000), s(2001)), "that one is over");
}
