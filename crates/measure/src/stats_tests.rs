//! Tests the statistics against values computed by hand, an exact bootstrap, and known distributions.

use super::*;

#[test]
fn percentiles_are_those_of_type_seven() {
    // By hand: position 0.95 * 19 = 18.05 in 1..=20 is 19 + 0.05.
    let values: Vec<f64> = (1..=20).map(f64::from).collect();
    assert!((percentile(&values, 95.0).unwrap() - 19.05).abs() < 1e-12);
    assert_eq!(percentile(&values, 50.0), Some(10.5));
    assert_eq!(percentile(&[7.0], 50.0), Some(7.0));
    assert_eq!(percentile(&[1.0, 2.0, 4.0], 50.0), Some(2.0));
}

#[test]
fn too_few_values_have_no_high_percentile() {
    let values: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!(percentile(&values[..19], 95.0), None);
    assert!(percentile(&values[..20], 95.0).is_some());
    assert_eq!(percentile(&values[..99], 99.0), None);
    assert!(percentile(&values, 99.0).is_some());
    assert_eq!(percentile(&[], 50.0), None);
}

#[test]
fn the_interval_of_a_mean_is_about_two_standard_errors() {
    // 400 uniform values: standard error 1 / sqrt(12 * 400).
    let mut stream = RandomStream::new(5, "values");
    let parts: Vec<Part> = (0..400).map(|_| Part::one(stream.next_f64())).collect();
    let centre = parts.iter().map(|part| part.sum).sum::<f64>() / 400.0;
    let Interval(low, high) = bootstrap(&parts, 1).unwrap();
    let error = 1.96 / (12.0_f64 * 400.0).sqrt();
    assert!((centre - low - error).abs() < 0.1 * error, "{low} {centre} {high}");
    assert!((high - centre - error).abs() < 0.1 * error, "{low} {centre} {high}");
}

#[test]
fn one_run_has_no_interval_and_equal_runs_have_no_width() {
    let constant = [Part::one(4.0); 10];
    assert_eq!(bootstrap(&constant[..1], 1), None);
    assert_eq!(bootstrap(&constant, 1), Some(Interval(4.0, 4.0)));
    // The ratio is the same in every run, although the runs are not.
    let pairs: Vec<Part> = (1..=20).map(|n| Part { sum: 1.1 * f64::from(n), count: f64::from(n) }).collect();
    let Interval(low, high) = bootstrap(&pairs, 1).unwrap();
    assert!((low - 1.1).abs() < 1e-9 && (high - 1.1).abs() < 1e-9);
    let empty = [Part::default(); 3];
    assert_eq!(bootstrap(&empty, 1), None);
}

/// Returns the half width of the interval by all n^n resamples of `draws` runs, written independently.
fn exact_half_width(parts: &[Part], draws: usize, level: f64) -> f64 {
    let n = parts.len();
    let estimate = |drawn: &[Part]| {
        let count: f64 = drawn.iter().map(|part| part.count).sum();
        let ratio = drawn.iter().map(|part| part.sum).sum::<f64>() / count;
        let squares: f64 = drawn.iter().map(|part| (part.sum - ratio * part.count).powi(2)).sum();
        let m = drawn.len() as f64;
        (ratio, (squares * m / (m - 1.0)).sqrt() / count)
    };
    let (ratio, error) = estimate(parts);
    let mut deviations: Vec<f64> = (0..n.pow(draws as u32))
        .map(|code| {
            let drawn: Vec<Part> = (0..draws).map(|place| parts[code / n.pow(place as u32) % n]).collect();
            let (other, own) = estimate(&drawn);
            (other - ratio).abs() / own.max(0.5 * error)
        })
        .collect();
    deviations.sort_unstable_by(f64::total_cmp);
    error * deviations[(level * (deviations.len() - 1) as f64).round() as usize]
}

/// The bootstrap draws n of n runs, with a level of 95 %: compared with an enumeration of all resamples.
/// Drawing one run fewer, or a level of 92 %, would fail.
#[test]
fn the_interval_is_that_of_all_resamples_of_n_runs_at_95_percent() {
    // Of four runs, all drawn ones are the same in 1.6 % of the resamples, and of three in 6.3 %.
    let sums = [4.8, 3.5, 2.0, 3.0];
    let parts: Vec<Part> =
        sums.iter().enumerate().map(|(n, sum)| Part { sum: *sum, count: 1.0 + 0.1 * n as f64 }).collect();
    let half = intervals(core::slice::from_ref(&parts), 1, 100_000)[0].unwrap().half_width();
    let exact = exact_half_width(&parts, 4, 0.95);
    assert!((half / exact - 1.0).abs() < 0.02, "{half} {exact}");
    for (wrong, what) in [
        (exact_half_width(&parts, 3, 0.95), "a run too few"),
        (exact_half_width(&parts, 4, 0.92), "an interval of 92 %"),
        (exact_half_width(&parts, 4, 0.97), "an interval of 97 %"),
    ] {
        assert!((wrong / exact - 1.0).abs() > 0.05, "{what} would go unnoticed: {wrong} {exact}");
    }
}

/// A draw of one run: a numerator and a denominator.
type Draw = fn(&mut RandomStream) -> Part;

fn exponential(stream: &mut RandomStream) -> f64 {
    -libm::log(1.0 - stream.next_f64())
}

fn normal(stream: &mut RandomStream) -> f64 {
    // The sum of twelve uniform values.
    (0..12).map(|_| stream.next_f64()).sum::<f64>() - 6.0
}

/// Returns the sum of the times of a run with thirty flows. A few of the flows have a timeout.
fn with_timeouts(stream: &mut RandomStream, probability: f64) -> f64 {
    let flow = |stream: &mut RandomStream| {
        let late = if stream.next_f64() < probability { 200.0 } else { 0.0 };
        100.0 + 10.0 * normal(stream) + late
    };
    (0..30).map(|_| flow(stream)).sum()
}

/// Returns the percentage of 1000 samples of `runs` with the true value inside the interval.
fn coverage(draw: Draw, truth: f64, runs: usize) -> f64 {
    let samples = 1000;
    let covers = |seed: u64| {
        let mut stream = RandomStream::new(seed, "sample");
        let parts: Vec<Part> = (0..runs).map(|_| draw(&mut stream)).collect();
        intervals(&[parts], seed, 500)[0].unwrap().contains(truth)
    };
    100.0 * (0..samples).filter(|seed| covers(*seed)).count() as f64 / samples as f64
}

/// 95 % intervals of 30 runs contain the true value in 93 to 97 % of the samples, for skewed values and for
/// paired differences too.
#[test]
fn intervals_cover_what_they_say() {
    let cases: [(&str, Draw, f64); 4] = [
        ("exponential values", |s| Part::one(exponential(s)), 1.0),
        ("a few timeouts", |s| Part { sum: with_timeouts(s, 0.02), count: 30.0 }, 104.0),
        (
            "the ratio of two contenders with timeouts",
            |s| Part { sum: with_timeouts(s, 0.02), count: with_timeouts(s, 0.01) },
            104.0 / 102.0,
        ),
        (
            "a pair that shares an exponential size",
            |s| {
                let size = exponential(s);
                Part {
                    sum: 1.0 + size * (1.0 + 0.1 * normal(s)),
                    count: 1.0 + 1.2 * size * (1.0 + 0.1 * normal(s)),
                }
            },
            2.0 / 2.2,
        ),
    ];
    for (name, draw, truth) in cases {
        let covered = coverage(draw, truth, 30);
        println!("{name}: {covered:.1} %");
        assert!((93.0..=97.0).contains(&covered), "{name}: {covered}");
    }
}

/// The intervals of five contenders against one reference hold simultaneously, which separate intervals would
/// not.
#[test]
fn intervals_of_a_family_hold_together() {
    let (samples, runs, contenders) = (600, 30, 5);
    let (mut together, mut alone) = (0, 0);
    for seed in 0..samples {
        let mut stream = RandomStream::new(seed, "family");
        let mut series: Vec<Vec<Part>> = vec![Vec::new(); contenders];
        for _ in 0..runs {
            let reference = 1.0 + 0.2 * normal(&mut stream);
            for parts in &mut series {
                parts.push(Part { sum: 1.0 + 0.2 * normal(&mut stream), count: reference });
            }
        }
        let all = |intervals: Vec<Option<Interval>>| intervals.iter().all(|i| i.unwrap().contains(1.0));
        together += u32::from(all(intervals(&series, seed, 500)));
        alone += u32::from(all(series
            .iter()
            .map(|one| intervals(core::slice::from_ref(one), seed, 500)[0])
            .collect()));
    }
    let percent = |n: u32| 100.0 * f64::from(n) / samples as f64;
    println!("together {:.1} %, uncorrected {:.1} %", percent(together), percent(alone));
    assert!((93.0..=97.5).contains(&percent(together)), "{}", percent(together));
    assert!(percent(alone) < 91.0, "{}", percent(alone));
}

/// 3000 runs are resampled in batches of ten, which have the same interval.
#[test]
fn thousands_of_runs_have_the_interval_of_their_batches() {
    let mut stream = RandomStream::new(9, "many");
    let parts: Vec<Part> = (0..3000).map(|_| Part::one(1.0 + exponential(&mut stream))).collect();
    assert_eq!(batches(&parts).len(), MOST_DRAWN);
    assert_eq!(batches(&parts[..301]).len(), 151);
    assert_eq!(batches(&parts[..300]), &parts[..300]);
    // The width of one sample is known to within some per cent only.
    let ratio = |_| {
        let parts: Vec<Part> = (0..3000).map(|_| Part::one(1.0 + exponential(&mut stream))).collect();
        let one_by_one = intervals(core::slice::from_ref(&parts), 1, 500)[0].unwrap();
        bootstrap(&parts, 1).unwrap().half_width() / one_by_one.half_width()
    };
    let mean = (0..20).map(ratio).sum::<f64>() / 20.0;
    assert!((0.95..1.05).contains(&mean), "{mean}");
}
