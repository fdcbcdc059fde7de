use anabranch_units::{Duration, RandomStream, Time};

use super::*;

/// Returns chunks of a tenth of a second with these rates in Mbit/s.
fn series(rates: impl IntoIterator<Item = f64>) -> Vec<Chunk> {
    let chunk = |(at, rate): (usize, f64)| Chunk {
        bps: rate * 1e6,
        seconds: 0.1,
        until: Time::from_millis(100 * (at as u64 + 1)),
        packets: 64,
        growth: 0.0,
    };
    rates.into_iter().enumerate().map(chunk).collect()
}

/// Returns `count` rates near `rate`, up to a tenth off.
fn near(random: &mut RandomStream, rate: f64, count: usize) -> Vec<f64> {
    (0..count).map(|_| rate * (0.9 + 0.2 * random.next_f64())).collect()
}

/// Returns the medians of the phases in Mbit/s, rounded.
fn medians(phases: &Phases) -> Vec<f64> {
    phases.list.iter().map(|phase| (phase.rate.0 / 1e6).round()).collect()
}

#[test]
fn noise_is_no_change() {
    for seed in 0..40 {
        let mut random = RandomStream::new(seed, "noise");
        let rates = near(&mut random, 20.0, 30 + 20 * seed as usize);
        assert_eq!(Phases::find(&series(rates)), Phases::default(), "{seed}");
    }
    assert_eq!(Phases::find(&[]), Phases::default());
    assert_eq!(Phases::find(&series([20.0; 50])), Phases::default());
    // Too few to tell.
    assert_eq!(Phases::find(&series([20.0, 20.0, 20.0, 5.0, 5.0, 5.0])), Phases::default());
}

#[test]
fn differences_of_rounding_do_not_hide_a_change() {
    // A few chunks, and then many with a little more each.
    let more = (0..30).map(|at| 12.656 + 1e-7 * f64::from(at));
    let found = Phases::find(&series([4.32; 6].into_iter().chain([4.83]).chain(more)));
    assert_eq!((medians(&found), found.varies), (vec![4.0, 13.0], false));
}

#[test]
fn outliers_and_small_differences_are_no_change() {
    let mut random = RandomStream::new(1, "outliers");
    let mut rates = near(&mut random, 20.0, 100);
    (rates[10], rates[50], rates[51]) = (2.0, 90.0, 1.0);
    assert_eq!(Phases::find(&series(rates)), Phases::default());
    let exact = [20.0; 60].into_iter().chain([22.0; 60]);
    assert_eq!(Phases::find(&series(exact)), Phases::default());
}

#[test]
fn a_step_and_a_short_dip_are_found() {
    let mut random = RandomStream::new(2, "steps");
    let step = [near(&mut random, 20.0, 30), near(&mut random, 5.0, 12)].concat();
    let found = Phases::find(&series(step));
    assert_eq!(medians(&found), [20.0, 5.0]);
    let (at, low, high) = found.list[1].from.unwrap();
    assert!(low < at && at < high && high.since(low) < Duration::from_millis(60), "{low:?} {at:?} {high:?}");
    assert!(at.since(Time::ZERO) == Duration::from_secs(3), "{at:?}");
    let dip =
        [near(&mut random, 20.0, 100), near(&mut random, 5.0, 13), near(&mut random, 20.0, 100)].concat();
    assert_eq!(medians(&Phases::find(&series(dip))), [20.0, 5.0, 20.0]);
}

#[test]
fn a_chunk_between_two_rates_has_the_time_of_the_change() {
    let rates = [20.0; 20].into_iter().chain([8.75]).chain([5.0; 20]);
    let found = Phases::find(&series(rates));
    // 8.75 is a quarter of the chunk at 20.
    assert_eq!(found.list[1].from.unwrap().0, Time::from_millis(2025));
}

#[test]
fn the_number_of_changes_is_bounded() {
    // A staircase of 14 steps.
    let rates = (0..15).scan(2.0, |rate, _| {
        *rate *= 1.3;
        Some([*rate; 20])
    });
    let found = Phases::find(&series(rates.clone().flatten().take(9 * 20)));
    assert!((MOST..=MOST + 2).contains(&found.list.len()) && !found.varies, "{}", found.list.len());
    // More steps than that, and the rate varies: 300 chunks in groups of two.
    let found = Phases::find(&series(rates.flatten()));
    assert!(found.varies && found.list.len() == 150, "{} {}", found.varies, found.list.len());
}

#[test]
fn a_rate_that_varies_all_the_time_has_its_course() {
    let mut random = RandomStream::new(3, "waves");
    let wave = |at: usize| 10.0 + 6.0 * (at as f64 / 5.0).sin();
    let rates: Vec<f64> = (0..100).map(|at| wave(at) * (0.98 + 0.04 * random.next_f64())).collect();
    let found = Phases::find(&series(rates.clone()));
    assert!(found.varies && found.list.len() == 100, "{} {}", found.varies, found.list.len());
    assert!(found.list.iter().zip(&rates).all(|(phase, rate)| (phase.rate.0 / 1e6 - rate).abs() < 1e-6));
    assert_eq!(found.list[7].from.unwrap().0, Time::from_millis(700));
    // Of few chunks, a small wave is noise.
    let few = |height: f64| {
        let wave = (0..8).map(|at| 10.0 + height * (f64::from(at) / 2.0).sin());
        Phases::find(&series(wave)).varies
    };
    assert!(few(7.0) && !few(1.5));
    // The same rates without an order are noise.
    let mut shuffled: Vec<(u64, f64)> = rates.into_iter().map(|rate| (random.next_u64(), rate)).collect();
    shuffled.sort_by_key(|(key, _)| *key);
    assert!(!Phases::find(&series(shuffled.into_iter().map(|(_, rate)| rate))).varies);
}
