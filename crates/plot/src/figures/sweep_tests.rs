//! Figures of a sweep that is written by hand.

use anabranch_lab::output::report::Point;
use anabranch_lab::report::{Difference, Summary};
use anabranch_lab::sweep::PointResult;
use serde_json::json;

use super::*;

/// Returns a sweep of one key, or of two if a point has two values; each point has a time of `ecf`, and its reading.
fn swept(points: &[(&[f64], f64, Reading)]) -> ShownSweep {
    let dimension =
        |name: &str| Dimension { name: name.to_owned(), unit: Some("Mbit/s".to_owned()), logarithmic: false };
    let point = |(number, (values, time, reading)): (usize, &(&[f64], f64, Reading))| {
        let row = Record {
            scheduler: "ecf".to_owned(),
            n: 1,
            completed: 1,
            fct_s: Summary { mean: Some(*time), ..Summary::default() },
            vs_reference_pct: Some(Difference { mean: 100.0 * (time - 1.0), ci95: None }),
            reading: Some(*reading),
            ..Record::default()
        };
        let result = PointResult {
            point: number,
            scenario_hash: String::new(),
            runs: 1,
            packet_hops: 0,
            rows: vec![row],
        };
        Point { values: values.iter().map(|value| json!(value)).collect(), result }
    };
    ShownSweep {
        file: "x".to_owned(),
        version: String::new(),
        commit: None,
        command: Value::Null,
        design: "grid",
        plan: String::new(),
        points: points.len(),
        dimensions: ["path.1.rate", "path.2.rate"]
            .iter()
            .take(points[0].0.len())
            .map(|name| dimension(name))
            .collect(),
        results: points.iter().enumerate().map(point).collect(),
    }
}

#[test]
fn a_line_goes_from_the_least_to_the_greatest_value_whatever_the_order_of_the_points() {
    let better = Reading::Better;
    let sweep = swept(&[(&[20.0], 0.5, better), (&[5.0], 0.9, better), (&[10.0], 0.7, better)]);
    let chart = chart(&sweep, "lines", &Selection::default()).unwrap();
    let line = chart.panels[0].marks.iter().find_map(|mark| match mark {
        Mark::Line { points, .. } => Some(points.clone()),
        _ => None,
    });
    assert_eq!(line.unwrap(), [(5.0, 0.9), (10.0, 0.7), (20.0, 0.5)]);
}

#[test]
fn a_cell_has_the_difference_or_the_reason_that_there_is_none() {
    let sweep = swept(&[
        (&[1.0, 1.0], 0.8, Reading::Better),
        (&[2.0, 1.0], 1.25, Reading::Worse),
        (&[3.0, 1.0], 1.001, Reading::Equal),
        (&[4.0, 1.0], 1.1, Reading::Undecided),
        (&[5.0, 1.0], 0.9, Reading::Incomplete),
    ]);
    let chart = chart(&sweep, "map", &Selection::default()).unwrap();
    let texts = chart.panels[0].marks.iter().filter_map(|mark| match mark {
        Mark::Rect { x, text, .. } => Some((x.0 + 0.5, text.as_str())),
        _ => None,
    });
    let expected = ["\u{2212}20", "+25", "=", "?", "!"];
    assert_eq!(texts.collect::<Vec<_>>(), (0..5).map(f64::from).zip(expected).collect::<Vec<_>>());
}
