//! The floor of small references.

use super::*;

fn centre(difference: &Difference) -> f64 {
    let Interval(low, high) = difference.interval.unwrap();
    (low + high) / 2.0
}

/// The denominator is the mean of the reference or the floor: one for the mean and for the interval, whatever single runs have.
#[test]
fn the_floor_applies_once_to_the_interval_as_to_the_mean() {
    // References of 10 and 50 with a mean of 30, above the floor of 20: 5 more of 30.
    let pairs: Vec<(f64, f64)> =
        (0..20).map(|run| if run % 2 == 0 { (14.0, 10.0) } else { (56.0, 50.0) }).collect();
    let difference = Difference::of(&pairs, 20.0).unwrap();
    assert!((difference.percent - 100.0 * 5.0 / 30.0).abs() < 1e-9, "{difference:?}");
    assert!((centre(&difference) - difference.percent).abs() < 1e-9, "{difference:?}");
    // References of 2 and 30 with a mean of 16, below the floor: 3 more of 20.
    let pairs: Vec<(f64, f64)> =
        (0..20).map(|run| if run % 2 == 0 { (4.0, 2.0) } else { (34.0, 30.0) }).collect();
    let difference = Difference::of(&pairs, 20.0).unwrap();
    assert!((difference.percent - 15.0).abs() < 1e-9, "{difference:?}");
    assert!((centre(&difference) - 15.0).abs() < 1e-9, "{difference:?}");
    // Half of its width is about two standard errors: the runs have 2 or 4 more, 1 around the mean, of 20.
    let half = difference.interval.unwrap().half_width();
    assert!((half - 1.96 * 100.0 / 20.0 / 20_f64.sqrt()).abs() < 0.4, "{half}");
    assert_eq!((difference.first, difference.second, difference.pairs), (19.0, 16.0, 20));
    // The median is of the pairs, each with the floor: 2 of 20, and 4 of 30.
    assert!((difference.median - (10.0 + 40.0 / 3.0) / 2.0).abs() < 1e-9, "{difference:?}");
}

#[test]
fn the_floors_are_twenty_segments_one_timeout_and_the_whole_of_a_share() {
    let floors = Metric::ALL.map(|metric| (metric.name(), metric.floor()));
    let expected = [
        ("completion_time", 0.0),
        ("completion_time_p95", 0.0),
        ("goodput", 0.0),
        ("retransmissions", 20.0),
        ("timeouts", 1.0),
        ("share", 1.0),
        ("rtt_inflation", 0.0),
    ];
    for (name, floor) in expected {
        assert!(floors.contains(&(name, floor)), "{name}");
    }
}

#[test]
fn an_interval_that_touches_a_bound_agrees_and_one_beyond_it_differs() {
    assert_eq!(judge(Interval(-5.0, 5.0)), Verdict::Agrees);
    assert_eq!(judge(Interval(-5.01, 5.0)), Verdict::Open);
    assert_eq!(judge(Interval(0.0, 5.01)), Verdict::Open);
    assert_eq!(judge(Interval(5.0, 9.0)), Verdict::Open);
    assert_eq!(judge(Interval(5.01, 9.0)), Verdict::Differs);
    assert_eq!(judge(Interval(-9.0, -5.01)), Verdict::Differs);
    // Four pairs are too few, and five are not.
    assert_eq!(Difference::of(&[(1.0, 1.0); 4], 0.0).unwrap().verdict, Verdict::Inconclusive);
    assert_eq!(Difference::of(&[(1.0, 1.0); 5], 0.0).unwrap().verdict, Verdict::Agrees);
}
