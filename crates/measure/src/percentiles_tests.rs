//! Tests the intervals of percentiles against binomial probabilities, and by their coverage.

use anabranch_units::RandomStream;

use super::*;

#[test]
fn ranks_are_those_of_the_binomial_distribution() {
    // P(B(100, 0.95) = 100) = 0.0059, P(B >= 99) = 0.0371; P(B <= 89) = 0.0115, P(B <= 90) = 0.0282.
    assert_eq!(binomial_ranks(100, 0.95, 0.025), Some((90, 100)));
    assert_eq!(binomial_ranks(100, 0.95, 0.05), Some((91, 99)));
    // The greatest of 58 values is below the 95th percentile with a probability of 0.0510, of 59 with 0.0485.
    assert_eq!(binomial_ranks(58, 0.95, 0.05), None);
    assert!(binomial_ranks(59, 0.95, 0.05).is_some());
    assert_eq!(binomial_ranks(1, 0.95, 0.05), None);
}

#[test]
fn the_same_flows_have_the_same_percentile() {
    let runs: Vec<Vec<f64>> = (0..50).map(|n| vec![1.0 + f64::from(n), 100.0]).collect();
    let pooled = Pooled::new(&runs);
    let [Some((ratio, interval))] = percentile_ratios(&[(&pooled, &pooled)], 95.0, 50)[..] else { panic!() };
    assert_eq!((ratio, interval), (1.0, Some(Interval(1.0, 1.0))));
}

#[test]
fn too_few_flows_have_no_interval() {
    let pooled =
        |runs: usize| (Pooled::new(&(0..runs).map(|n| vec![1.0 + n as f64]).collect::<Vec<_>>()), runs);
    let interval = |runs: usize| {
        let ((a, _), (b, _)) = (pooled(runs), pooled(runs + 1));
        percentile_ratios(&[(&a, &b)], 95.0, runs + 1)[0].and_then(|(_, interval)| interval)
    };
    assert_eq!(interval(60), None);
    assert!(interval(120).is_some());
}

/// A contender with a timeout in one flow of seventeen is not among the shortest tails: by a standard error its interval
/// began at -100 %.
#[test]
fn long_times_above_the_percentile_widen_the_interval_upwards_only() {
    let mut stream = RandomStream::new(4, "tail");
    let mut runs = |late: f64| -> Pooled {
        let mut flow = || {
            let timeout = if stream.next_f64() < late { 1000.0 } else { 0.0 };
            vec![50.0 + 10.0 * stream.next_f64() + timeout]
        };
        Pooled::new(&(0..200).map(|_| flow()).collect::<Vec<_>>())
    };
    let (rare, often) = (runs(0.005), runs(0.06));
    let (_, interval) = percentile_ratios(&[(&often, &rare)], 95.0, 200)[0].unwrap();
    let Interval(low, high) = interval.unwrap();
    assert!((0.7..1.3).contains(&low) && high > 10.0, "{low} {high}");
}

fn exponential(stream: &mut RandomStream) -> f64 {
    -libm::log(1.0 - stream.next_f64())
}

/// Ratios of 95th percentiles with the true ratio 1.25: of one flow a run, of runs with a common factor of
/// all flows, and of pairs that share most of their time.
#[test]
fn the_interval_of_a_percentile_covers_it() {
    type Draw = fn(&mut RandomStream) -> (Vec<f64>, Vec<f64>);
    let cases: [(&str, usize, Draw); 3] = [
        ("200 runs of one flow", 200, |s| (vec![1.25 * exponential(s)], vec![exponential(s)])),
        ("60 runs of ten flows that share a factor", 60, |s| {
            let mut run = |scale: f64| {
                let common = 0.5 + s.next_f64();
                (0..10).map(|_| scale * common * exponential(s)).collect::<Vec<f64>>()
            };
            (run(1.25), run(1.0))
        }),
        ("300 pairs that share their sizes", 300, |s| {
            let size = exponential(s);
            (vec![1.25 * size * (0.95 + 0.1 * s.next_f64())], vec![size * (0.95 + 0.1 * s.next_f64())])
        }),
    ];
    for (name, runs, draw) in cases {
        let samples = 400;
        let covers = |seed: u64| {
            let mut stream = RandomStream::new(seed, "percentile");
            let (a, b): (Vec<_>, Vec<_>) = (0..runs).map(|_| draw(&mut stream)).unzip();
            let (a, b) = (Pooled::new(&a), Pooled::new(&b));
            percentile_ratios(&[(&a, &b)], 95.0, runs)[0].unwrap().1.unwrap().contains(1.25)
        };
        let covered = 100.0 * (0..samples).filter(|seed| covers(*seed)).count() as f64 / samples as f64;
        println!("{name}: {covered:.1} %");
        assert!((93.0..=99.5).contains(&covered), "{name}: {covered}");
    }
}

/// Flows of one run that are all alike know no more than one of them, and more pairs need wider intervals.
#[test]
fn flows_that_are_alike_count_once_and_a_family_is_wider() {
    let mut stream = anabranch_units::RandomStream::new(3, "alike");
    let mut draw = |alike: bool| -> Pooled {
        let run = |_| {
            let first = 1.0 + stream.next_f64();
            (0..8).map(|_| if alike { first } else { 1.0 + stream.next_f64() }).collect()
        };
        Pooled::new(&(0..400).map(run).collect::<Vec<Vec<f64>>>())
    };
    let (a, b, c) = (draw(false), draw(false), draw(true));
    let d = draw(true);
    let width = |pairs: &[(&Pooled, &Pooled)]| {
        percentile_ratios(pairs, 95.0, 400)[0].unwrap().1.unwrap().half_width()
    };
    let (apart, alike) = (width(&[(&a, &b)]), width(&[(&c, &d)]));
    assert!(alike > 1.8 * apart, "{alike} {apart}");
    assert!(width(&[(&a, &b), (&c, &d), (&a, &d)]) > 1.1 * apart);
}
