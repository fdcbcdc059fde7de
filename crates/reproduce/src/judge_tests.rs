//! Intervals of several conditions, directions in the quantity's own unit, and the ends of ranges.

use super::*;

fn check(rest: &str) -> Check {
    toml::from_str(&format!("scenario='s'\nmetric='goodput'\nof='a'\nto='b'\n{rest}")).unwrap()
}

fn sides<'a>(condition: &'a str, of: &'a [f64], to: &'a [f64]) -> Sides<'a> {
    Sides { condition, of, to: Some(to) }
}

/// Twelve runs around 10 without a pattern.
fn noisy(add: f64, factor: u64) -> Vec<f64> {
    (1..=12_u64).map(|run| 10.0 + add + (run * factor % 13) as f64 / 13.0).collect()
}

/// The condition is chosen by its value, so that an interval which holds for one condition is too narrow.
#[test]
fn intervals_hold_together_where_one_of_several_conditions_is_picked() {
    let to = noisy(0.0, 1);
    let (a, b, c) = (noisy(0.1, 5), noisy(0.2, 3), noisy(0.3, 7));
    let all = [sides("a", &a, &to), sides("b", &b, &to), sides("c", &c, &to)];
    let each = judge(&check("is='greater'"), &all, 1);
    let ratio =
        |of: &[f64]| of.iter().zip(&to).map(|(of, to)| Part { sum: *of, count: *to }).collect::<Vec<_>>();
    let alone = stats::bootstrap(&ratio(&c), 1);
    assert_eq!(each[2].interval, alone);
    let together = stats::simultaneous(&[ratio(&a), ratio(&b), ratio(&c)], 1);
    for (pick, place) in [("greatest", 2), ("least", 0)] {
        let picked = judge(&check(&format!("is='greater'\npick='{pick}'")), &all, 1);
        assert_eq!((picked.len(), picked[0].condition.as_str()), (1, ["a", "b", "c"][place]));
        assert_eq!(picked[0].interval, together[place]);
    }
    let width = |interval: Option<Interval>| interval.unwrap().half_width();
    assert!(width(together[2]) > 1.05 * width(alone), "{together:?} {alone:?}");
}

/// A difference of 0.005 Mbit/s, or of 300 segments, has no scale on which a hundredth would be the least that matters.
#[test]
fn a_direction_in_the_quantitys_own_unit_needs_no_hundredth() {
    let to = noisy(0.0, 5);
    let of = |add: f64| to.iter().map(|value| value + add).collect::<Vec<f64>>();
    let status = |rest: &str, of: &[f64]| judge(&check(rest), &[sides("", of, &to)], 1)[0].status;
    for (is, sign) in [("greater", 1.0), ("less", -1.0)] {
        let rest = format!("is='{is}'\ndifference=true");
        assert_eq!(status(&rest, &of(sign * 0.005)), Status::Holds, "{is}");
        assert_eq!(status(&rest, &of(sign * -0.005)), Status::Fails, "{is}");
        // As a ratio it is practically equal.
        assert_eq!(status(&format!("is='{is}'"), &of(sign * 0.005)), Status::Fails, "{is}");
    }
    // A ratio of 1.02 is more than a hundredth.
    assert_eq!(status("is='greater'", &to.iter().map(|v| 1.02 * v).collect::<Vec<_>>()), Status::Holds);
}

/// The interval of a ratio is surely above 1, and its mean is not a hundredth above: neither has been shown.
#[test]
fn a_small_difference_with_a_wide_interval_is_undecided() {
    let to = [10.0; 6];
    let of = [10.00, 10.01, 10.02, 10.30, 10.01, 10.10];
    let judged = &judge(&check("is='greater'"), &[sides("", &of, &to)], 1)[0];
    let Interval(low, high) = judged.interval.unwrap();
    assert!(judged.value < 1.01 && high > 1.01, "{low} {high}");
    assert_eq!(judged.status, Status::Undecided);
}

#[test]
fn a_judgement_has_the_means_the_value_and_the_number_of_runs() {
    let (of, to) = ([3.0, 5.0], [1.0, 3.0]);
    let ratio = &judge(&check("is='greater'"), &[sides("x", &of, &to)], 1)[0];
    assert_eq!((ratio.of, ratio.to, ratio.value, ratio.runs), (4.0, Some(2.0), 2.0, 2));
    let difference = &judge(&check("is='greater'\ndifference=true"), &[sides("x", &of, &to)], 1)[0];
    assert_eq!(difference.value, 2.0);
    let alone = Check { to: None, ..check("is='within'\nfrom=1.0\nupto=9.0") };
    let mean = &judge(&alone, &[Sides { condition: "x", of: &of, to: None }], 1)[0];
    assert_eq!((mean.value, mean.to), (4.0, None));
}

/// Constant runs have an interval without a width.
#[test]
fn the_ends_of_a_range_belong_to_it() {
    let to = [1.0; 4];
    let status = |rest: &str, of: f64| judge(&check(rest), &[sides("", &[of; 4], &to)], 1)[0].status;
    for (value, expected) in
        [(0.5, Status::Holds), (1.5, Status::Holds), (0.49, Status::Fails), (1.51, Status::Fails)]
    {
        assert_eq!(status("is='within'\nfrom=0.5\nupto=1.5", value), expected, "{value}");
        assert_eq!(status("is='equal'\ntolerance=0.5", value), expected, "{value}");
    }
    assert_eq!(status("is='within'\nfrom=0.5", 99.0), Status::Holds);
    assert_eq!(status("is='within'\nupto=0.5", -99.0), Status::Holds);
    assert_eq!(status("is='equal'", 1.0), Status::Holds);
}

#[test]
fn ratios_are_read_as_changes_and_tolerances_as_per_cent() {
    let line =
        |check: &Check, of: &[f64], to: &[f64]| words(check, &judge(check, &[sides("x", of, to)], 1)[0]);
    let less = check("is='less'");
    assert_eq!(
        line(&less, &[8.0; 3], &[10.0; 3]),
        "x: a 8.00 Mbit/s against b 10.0 Mbit/s, -20.0 % [-20.0, -20.0] (3 runs)"
    );
    assert_eq!(line(&less, &[8.0], &[10.0]), "x: a 8.00 Mbit/s against b 10.0 Mbit/s, -20.0 % (1 run)");
    let own = check("is='less'\ndifference=true");
    assert_eq!(line(&own, &[8.0], &[10.0]), "x: a 8.00 Mbit/s against b 10.0 Mbit/s, -2.00 (1 run)");
    assert_eq!(required(&check("is='equal'\ntolerance=0.05")), "goodput of a within 5 % of that of b");
    assert_eq!(required(&less), "goodput of a less than that of b");
    assert_eq!(
        required(&check("is='within'\nfrom=0.5\nupto=1.5\ndifference=true")),
        "goodput of a less that of b: from 0.5 to 1.5 Mbit/s"
    );
}

/// Of three conditions the one counts that is chosen, whatever the others are.
#[test]
fn the_picked_condition_has_the_least_or_the_greatest_value() {
    let to = [1.0; 3];
    let (low, middle, high) = ([0.5; 3], [1.0; 3], [3.0; 3]);
    let all = [sides("middle", &middle, &to), sides("high", &high, &to), sides("low", &low, &to)];
    for (pick, name, value) in [("least", "low", 0.5), ("greatest", "high", 3.0)] {
        let picked = judge(&check(&format!("is='within'\nfrom=0.9\nupto=1.1\npick='{pick}'")), &all, 1);
        assert_eq!((picked[0].condition.as_str(), picked[0].value, picked.len()), (name, value, 1));
        assert_eq!(picked[0].status, Status::Fails);
    }
    // Without a choice each condition has to satisfy the relation.
    let each = judge(&check("is='within'\nfrom=0.9\nupto=1.1"), &all, 1);
    assert_eq!(
        each.iter().map(|one| one.status).collect::<Vec<_>>(),
        [Status::Holds, Status::Fails, Status::Fails]
    );
}

/// The paper prints a count of one run, or a mean of ten: it belongs to the range of such runs, and not to the interval of the mean here.
#[test]
fn a_printed_number_is_judged_by_the_range_of_as_many_runs_as_the_paper_has() {
    let of: Vec<f64> = (0..100).map(f64::from).collect();
    let status = |rest: &str, runs: usize| {
        let check = check(&format!("is='printed'\n{rest}"));
        let check = Check { to: None, ..check };
        judge(&check, &[Sides { condition: "", of: &of[..runs], to: None }], 1)[0].status
    };
    assert_eq!(status("value=90", 100), Status::Holds);
    assert_eq!(status("value=99", 100), Status::Fails);
    assert_eq!(status("value=-1", 100), Status::Fails);
    // One run in forty is below 2.5 and one above 96.5.
    for (value, expected) in
        [(2, Status::Fails), (3, Status::Holds), (96, Status::Holds), (97, Status::Fails)]
    {
        assert_eq!(status(&format!("value={value}"), 100), expected, "{value}");
    }
    // A mean of ten runs is seldom 90.
    assert_eq!(status("value=90\nmean-of=10", 100), Status::Fails);
    assert_eq!(status("value=60\nmean-of=10", 100), Status::Holds);
    // Thirty runs have no value in forty.
    assert_eq!(status("value=15", 30), Status::Undecided);
}

#[test]
fn a_printed_ratio_is_of_runs_that_are_no_pairs() {
    let to: Vec<f64> = (0..60).map(|run| 10.0 + f64::from(run % 10)).collect();
    let check = check("is='printed'\nvalue=1.4");
    // Each run equals its pair, so that paired ratios have no range at all.
    let judged = &judge(&check, &[sides("", &to, &to)], 1)[0];
    assert_eq!(judged.status, Status::Holds);
    assert_eq!(judge(&check, &[sides("", &to, &to)], 1)[0], *judged, "the same every time");
    assert!(required(&check).contains("the printed 1.4 in the 95 % range of single runs"));
    assert!(words(&check, judged).contains("printed +40.0 %"), "{}", words(&check, judged));
}

#[test]
fn a_printed_ratio_needs_forty_runs_of_both() {
    let runs: Vec<f64> = (0..40).map(|run| 10.0 + f64::from(run % 10)).collect();
    let check = check("is='printed'\nvalue=1.4");
    let status = |of: usize, to: usize| judge(&check, &[sides("", &runs[..of], &runs[..to])], 1)[0].status;
    assert_eq!((status(40, 40), status(40, 39)), (Status::Holds, Status::Undecided));
    assert_eq!(status(39, 40), Status::Undecided);
}

/// Of a hundred different runs the two and a half per cent at either end are outside, by interpolation at 2.475 and 96.525.
#[test]
fn the_range_of_single_runs_has_95_per_cent_of_them() {
    let of: Vec<f64> = (0..100).map(f64::from).collect();
    let status = |value: f64| {
        let check = Check { to: None, ..check(&format!("is='printed'\nvalue={value:?}")) };
        judge(&check, &[Sides { condition: "", of: &of, to: None }], 1)[0].status
    };
    for (value, expected) in
        [(3.0, Status::Holds), (96.0, Status::Holds), (1.5, Status::Fails), (97.5, Status::Fails)]
    {
        assert_eq!(status(value), expected, "{value}");
    }
}

/// A difference, and a mean of runs, is one of both sides.
#[test]
fn a_printed_comparison_draws_from_both_sides() {
    let of: Vec<f64> = (0..60).map(|run| 20.0 + f64::from(run % 10)).collect();
    let to: Vec<f64> = (0..60).map(|run| 10.0 + f64::from(run % 10)).collect();
    let status = |rest: &str, to: &[f64]| {
        judge(&check(&format!("is='printed'\n{rest}")), &[sides("", &of, to)], 1)[0].status
    };
    assert_eq!(status("value=10.0\ndifference=true", &to), Status::Holds);
    assert_eq!(status("value=1.7\ndifference=true", &to), Status::Fails);
    assert_eq!(status("value=1.7", &to), Status::Holds);
    // A ratio of single runs may be 2.5, and a ratio of means of thirty is not.
    assert_eq!(status("value=2.4", &to), Status::Holds);
    assert_eq!(status("value=2.4\nmean-of=30", &to), Status::Fails);
}
