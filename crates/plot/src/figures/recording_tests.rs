//! Figures of recorded runs that are written by hand.

use anabranch_recording::Facts;
use anabranch_recording::view::{Acks, Goodput, Reordering, Sent, Subflow};

use super::*;
use crate::chart::Scale;

const S: u64 = 1_000_000_000;

fn run(scheduler: &str, srtt_us: i64) -> RunView {
    let times = || Column(vec![0, S as i64]);
    let subflow = Subflow {
        id: 0,
        name: "wifi".to_owned(),
        path: Some(0),
        t_ns: times(),
        cwnd_bytes: Column(vec![1000, 2000]),
        ssthresh_bytes: Column(vec![-1, -1]),
        inflight_bytes: Column(vec![0, 500]),
        srtt_us: Column(vec![srtt_us, srtt_us]),
    };
    let sent = Sent {
        t_ns: times(),
        from: Column(vec![0, 1000]),
        to: Column(vec![1000, 2000]),
        subflow: Column(vec![0, 0]),
        // New data, and a retransmission.
        kind: Column(vec![0, 1]),
    };
    RunView {
        condition: String::new(),
        scheduler: scheduler.to_owned(),
        paths: vec!["wifi".to_owned()],
        outages: vec![
            StoredOutage { path: "wifi".to_owned(), from_ns: S, until_ns: None },
            StoredOutage { path: "wifi".to_owned(), from_ns: 0, until_ns: Some(S / 2) },
        ],
        complete: true,
        end_ns: 2 * S,
        flows: Vec::new(),
        jain: None,
        bytes_by_path: vec![1],
        goodput: Goodput { bin_ns: S, bytes: vec![1_000_000, 500_000] },
        reordering: Reordering::default(),
        queues: Vec::new(),
        links: 2,
        streams: vec![Stream {
            flow: 0,
            direction: "up".to_owned(),
            subflows: vec![subflow],
            thinned_ns: 0,
            sent,
            acks: Acks::default(),
        }],
    }
}

fn view() -> View {
    View {
        file: "x".to_owned(),
        facts: Facts { complete: true, seed: 1, ..Facts::default() },
        flow: None,
        runs: vec![run("tcp", 20_000), run("ecf", 80_000)],
        lost: Vec::new(),
    }
}

fn drawn(name: &str) -> Chart {
    chart(&view(), name, &Selection::default()).unwrap()
}

fn lines(panel: &Panel) -> Vec<&Vec<(f64, f64)>> {
    panel
        .marks
        .iter()
        .filter_map(|mark| match mark {
            Mark::Line { points, .. } => Some(points),
            _ => None,
        })
        .collect()
}

#[test]
fn round_trips_are_in_seconds_and_panels_have_one_scale() {
    let chart = drawn("rtt");
    let values: Vec<f64> = chart.panels.iter().map(|panel| lines(panel)[0][0].1).collect();
    assert_eq!(values, [0.02, 0.08]);
    // Both reach a little above the largest of all.
    assert!(
        chart
            .panels
            .iter()
            .all(|panel| (panel.y.range.1 - 0.084).abs() < 1e-9 && panel.y.scale == Scale::Linear)
    );
    assert_eq!(chart.panels[0].x.range, (0.0, 2.0));
}

#[test]
fn a_path_that_stays_down_is_shaded_up_to_the_end() {
    let chart = drawn("rtt");
    let shades = chart.panels[0].marks.iter().filter_map(|mark| match mark {
        Mark::Rect { x, .. } => Some(*x),
        _ => None,
    });
    assert_eq!(shades.collect::<Vec<_>>(), [(1.0, 2.0), (0.0, 0.5)]);
    assert_eq!(chart.keys.iter().filter(|key| key.text == "wifi down").count(), 1);
}

#[test]
fn the_legend_of_a_sequence_names_what_it_has() {
    let chart = drawn("sequence");
    let keys: Vec<&str> = chart.keys.iter().map(|key| key.text.as_str()).collect();
    assert_eq!(keys, ["wifi", "DATA_ACK", "window edge", "retransmitted", "wifi down"]);
    let crosses = chart.panels[0].marks.iter().filter_map(|mark| match mark {
        Mark::Points { points, symbol: Symbol::Cross, .. } => Some(points.clone()),
        _ => None,
    });
    assert_eq!(crosses.collect::<Vec<_>>(), [vec![(1.0, 1500.0)]]);
}

#[test]
fn the_goodput_is_in_bits_and_falls_to_nothing_at_the_end() {
    let chart = drawn("goodput");
    assert_eq!(lines(&chart.panels[0])[0][..], [(0.0, 8e6), (1.0, 4e6), (2.0, 0.0)]);
}

#[test]
fn an_interval_after_the_end_is_refused() {
    let selection = |from, to| Selection {
        from: Some(Duration::from_millis(from)),
        to: Some(Duration::from_millis(to)),
        ..Selection::default()
    };
    let error = |from, to| chart(&view(), "rtt", &selection(from, to)).err().map(|error| error.to_string());
    assert!(error(2000, 3000).is_some_and(|text| text.contains("not before the end of the recording")));
    assert!(error(1000, 1000).is_some_and(|text| text.contains("--from must be before --to")));
    assert_eq!(error(1000, 1500), None);
}
