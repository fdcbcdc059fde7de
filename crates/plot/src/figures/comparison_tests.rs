//! Figures of a comparison that is written by hand.

use anabranch_lab::report::{ByRun, Difference, Setting, Summary};

use super::*;

fn shown(times: &[&[f64]]) -> ShownComparison {
    let row = |name: &str, times: &[f64], difference: Option<[f64; 3]>| Record {
        scheduler: name.to_owned(),
        n: times.len(),
        fct_s: Summary {
            mean: Some(times[0]),
            ci95: Some(Interval(times[0], times[0])),
            ..Summary::default()
        },
        goodput_bps: Some(1e6),
        vs_reference_pct: difference
            .map(|[mean, low, high]| Difference { mean, ci95: Some(Interval(low, high)) }),
        bytes_by_path: vec![1, 3],
        by_run: ByRun {
            completed: vec![1; times.len()],
            fct_s: times.iter().copied().map(Some).collect(),
            ..ByRun::default()
        },
        ..Record::default()
    };
    let comparison = Comparison {
        runs: 3,
        reference: Some("tcp".to_owned()),
        min_effect_pct: 1.0,
        conditions: vec![Setting { paths: vec!["1".to_owned(), "2".to_owned()], ..Setting::default() }],
        rows: vec![
            row("tcp", times[0], Some([0.0, 0.0, 0.0])),
            row("ecf", times[1], Some([-5.0, -6.0, -4.0])),
            row("blest", times[2], Some([0.1, -0.9, 0.8])),
            row("lts", times[0], Some([0.2, -3.0, 2.0])),
        ],
        ..Comparison::default()
    };
    ShownComparison { file: "x".to_owned(), comparison, samples: None }
}

const TIMES: [&[f64]; 3] = [&[1.0, 1.1, 1.2], &[1.0, 1.2, 1.4], &[1.3]];

fn drawn(shown: &ShownComparison, name: &str, schedulers: &[&str]) -> Panel {
    let schedulers = schedulers.iter().map(|name| (*name).to_owned()).collect();
    chart(shown, name, &Selection { schedulers, ..Selection::default() }).unwrap().panels.remove(0)
}

fn names(panel: &Panel) -> Vec<&str> {
    match &panel.y.scale {
        crate::chart::Scale::Names(names) => names.iter().map(String::as_str).collect(),
        other => panic!("{other:?}"),
    }
}

/// Filled: certainly different, or practically equal. The band is the least effect.
#[test]
fn a_difference_is_hollow_while_it_is_not_known() {
    let panel = drawn(&shown(&TIMES), "difference", &[]);
    assert_eq!(names(&panel), ["ecf", "blest", "lts"], "the reference does not differ from itself");
    let points = panel.marks.iter().filter_map(|mark| match mark {
        Mark::Points { points, hollow, .. } => Some((points[0], *hollow)),
        _ => None,
    });
    assert_eq!(points.collect::<Vec<_>>(), [((-5.0, 0.0), false), ((0.1, 1.0), false), ((0.2, 2.0), true)]);
    let band = panel.marks.iter().find_map(|mark| match mark {
        Mark::Rect { x, .. } => Some(*x),
        _ => None,
    });
    assert_eq!(band, Some((-1.0, 1.0)));
}

#[test]
fn rows_are_in_the_order_that_was_asked_for() {
    let panel = drawn(&shown(&TIMES), "goodput", &["lts", "tcp", "ecf"]);
    assert_eq!(names(&panel), ["lts", "tcp", "ecf"]);
}

/// Quartiles of 0..9 are 2.25 and 6.75, so that whiskers reach at most up to 13.5.
#[test]
fn a_box_has_quartiles_and_whiskers_within_one_and_a_half_times_their_distance() {
    let mut times: Vec<f64> = (0..9).map(f64::from).collect();
    times.push(14.0);
    let panel = drawn(&shown(&[&times, &[1.0], &[1.0]]), "completion", &["tcp"]);
    let whiskers: Vec<(f64, f64)> = panel
        .marks
        .iter()
        .filter_map(|mark| match mark {
            Mark::Line { points, .. } => Some((points[0].0, points[1].0)),
            _ => None,
        })
        .collect();
    assert_eq!(whiskers, [(0.0, 2.25), (6.75, 8.0)]);
    let boxes: Vec<(f64, f64)> = panel
        .marks
        .iter()
        .filter_map(|mark| match mark {
            Mark::Rect { x, .. } => Some(*x),
            _ => None,
        })
        .collect();
    assert_eq!(boxes, [(2.25, 6.75), (4.5, 4.5)]);
    assert_eq!(panel.x.range.0, 0.0, "the values begin near 0");
    // Times that are all far from 0 have an axis around them.
    let far = drawn(&shown(&TIMES), "completion", &["tcp", "ecf"]);
    assert!(far.x.range.0 > 0.9, "{:?}", far.x.range);
}

#[test]
fn a_distribution_ends_below_100_percent_if_runs_have_no_time() {
    let mut missed = shown(&[&[1.0, 1.1, 1.2, 1.3], &[1.0, 1.2, 1.4], &[1.3]]);
    missed.comparison.rows[0].by_run.fct_s[1] = None;
    let panel = drawn(&missed, "cdf", &["tcp"]);
    let Mark::Line { points, .. } = &panel.marks[0] else { panic!("{:?}", panel.marks[0]) };
    assert_eq!(points[points.len() - 1], (1.3, 75.0));
}
