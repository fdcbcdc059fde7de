//! The flows that count in a difference.

use crate::stats::Part;
use anabranch_sim::{EndReport, FlowReport, Outcome};
use anabranch_units::{Bytes, Duration, Time};

use super::*;
use crate::run::{Class, FlowResult};
use crate::stats::Interval;

/// Returns a flow that took `millis` milliseconds, or was not delivered.
fn flow(millis: Option<u64>) -> FlowResult {
    let fct = millis.map(Duration::from_millis);
    let report = FlowReport {
        name: String::new(),
        size: Some(Bytes(1000)),
        start: Time::ZERO,
        outcome: if fct.is_some() { Outcome::Completed } else { Outcome::Running },
        fct,
        acked: fct,
        connected: None,
        delivered: 1000,
        written: 1000,
        data_acked: 1000,
        bytes_by_path: vec![1000],
        subflows_used: 1,
        data_segments: 1,
        retransmitted_segments: 0,
        reinjected_bytes: 0,
        duplicate_bytes: 0,
        rto_count: 0,
        longest_gap: None,
        ended: None,
        app: Default::default(),
        sender: EndReport::default(),
        receiver: EndReport::default(),
    };
    let time = fct.unwrap_or(Duration::from_secs(60));
    FlowResult {
        pair: 0,
        group: 0,
        class: Class::Contender,
        report,
        lower_bound: Some(Duration::ZERO),
        time,
        planned: None,
        path: 0,
        reinjected_segments: 0,
    }
}

fn runs(millis: &[&[Option<u64>]]) -> Vec<Vec<FlowResult>> {
    millis.iter().map(|run| run.iter().map(|time| flow(*time)).collect()).collect()
}

fn pairs(own: &[Vec<FlowResult>], other: &[Vec<FlowResult>], bulk: bool) -> Vec<Part> {
    let of = |runs| measured::of_flows(&by_reference(runs), bulk);
    difference::pairs(&of(own), &of(other))
}

fn by_reference(runs: &[Vec<FlowResult>]) -> Vec<Vec<&FlowResult>> {
    runs.iter().map(|run| run.iter().collect()).collect()
}

/// The difference is the ratio of the two means, not a mean of ratios of runs: here the ratios are +100 % and
/// -50 %, with a mean of +25 %, although the first contender is faster overall.
#[test]
fn a_difference_is_the_ratio_of_the_two_means() {
    let own = runs(&[&[Some(200)], &[Some(500)]]);
    let other = runs(&[&[Some(100)], &[Some(1000)]]);
    let parts = pairs(&own, &other, false);
    let difference = difference::family(&[parts], 1)[0].unwrap();
    assert!((difference.mean - 100.0 * (700.0 / 1100.0 - 1.0)).abs() < 1e-9, "{difference:?}");
}

/// A flow that only one of the two has delivered has no partner, and is in neither mean.
#[test]
fn flows_without_a_partner_do_not_count() {
    let own = runs(&[&[Some(10), Some(50), None], &[Some(30), Some(90), Some(7)]]);
    let other = runs(&[&[Some(20), None, Some(80)], &[Some(60), Some(90), None]]);
    let parts = pairs(&own, &other, false);
    let expected = [Part { sum: 0.01, count: 0.02 }, Part { sum: 0.12, count: 0.15 }];
    for (part, expected) in parts.iter().zip(expected) {
        assert!((part.sum - expected.sum).abs() < 1e-12 && (part.count - expected.count).abs() < 1e-12);
    }
    // Flow 2 of a run is not the partner of flow 1.
    let (own, other) = (runs(&[&[Some(10), None]]), runs(&[&[None, Some(10)]]));
    let parts = pairs(&own, &other, false);
    assert_eq!(parts, [Part::default()]);
    assert_eq!(difference::family(&[parts], 1), [None]);
}

/// Contenders with common random numbers have a narrow interval, however much the runs differ.
#[test]
fn a_difference_is_paired_by_run() {
    let times = |percent: u64| -> Vec<Vec<FlowResult>> {
        (1..=20).map(|run| vec![flow(Some(run * 100 * percent / 100))]).collect()
    };
    let (own, other) = (times(110), times(100));
    let parts = pairs(&own, &other, false);
    let difference = difference::family(&[parts], 1)[0].unwrap();
    let Interval(low, high) = difference.ci95.unwrap();
    assert!((low - 10.0).abs() < 1e-9 && (high - 10.0).abs() < 1e-9, "{difference:?}");
}

#[test]
fn an_interval_has_no_value_that_a_time_cannot_have() {
    let times = [vec![1.0], vec![1.0], vec![1.0], vec![1.0], vec![90.0]];
    let Interval(low, high) = Summary::new(&times, 1).ci95.unwrap();
    assert_eq!(low, 0.0);
    assert!(high > 50.0, "{high}");
    let own = runs(&[&[Some(1000)], &[Some(10)], &[Some(10)], &[Some(10)]]);
    let other = runs(&[&[Some(10)], &[Some(1000)], &[Some(10)], &[Some(10)]]);
    let found = difference::family(&[pairs(&own, &other, false)], 1)[0].unwrap();
    assert_eq!(found.ci95.unwrap().0, -100.0);
    assert!(found.ci95.unwrap().1 > 100.0, "{found:?}");
}

#[test]
fn a_comparison_counts_flows_that_fail_apart_from_those_that_are_late() {
    use crate::compare::compare;
    use crate::options::Options;
    let scenario = |deadline: &str| {
        let text = format!(
            "path = [{{ rate = '10 Mbit/s', rtt = '40 ms', change = [{{ at = '100 ms', down = true }}] }}]
             traffic = {{ size = '2 MB' }}
             schedulers = ['min_rtt']
             connection = {{ user-timeout = '5 s' }}
             deadline = '{deadline}'
             runs = 2"
        );
        crate::scenario::Document::parse("test.toml", &text, ".").unwrap().scenario().unwrap()
    };
    let cancelled = core::sync::atomic::AtomicBool::new(false);
    let of = |deadline: &str| {
        let comparison = compare(&scenario(deadline), &Options::new(1, &cancelled, &|_, _| {})).unwrap();
        let row = &comparison.rows[0];
        assert_eq!((row.n, row.completed), (2, 0));
        assert!(row.longest_gap_s.mean.is_some_and(|gap| gap > 1.0), "{:?}", row.longest_gap_s);
        (row.failed, comparison.verdict)
    };
    let (failed, verdict) = of("600 s");
    assert!(
        failed == 2 && verdict.contains("flows failed (the ") && !verdict.contains("deadline"),
        "{verdict}"
    );
    let (failed, verdict) = of("2 s");
    assert!(failed == 0 && verdict.contains("did not end within the deadline of 2 s"), "{verdict}");
}
