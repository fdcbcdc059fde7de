//! `initial = "race"`: the path that answers first carries the first subflow.

use std::sync::atomic::AtomicBool;

use anabranch_lab::compare::{Comparison, compare};
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;

fn compared(lines: &str) -> Comparison {
    let text = format!(
        "schedulers = ['tcp', 'min_rtt']\nruns = 4\nphases = false
         path = [{{ rate = '10 Mbit/s', rtt = '400 ms' }}, {{ rate = '20 Mbit/s', rtt = '20 ms' }}]
         traffic = {{ size = '20 KB', flows = 1 }}\n{lines}"
    );
    let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
    let cancelled = AtomicBool::new(false);
    compare(&scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap()
}

/// Returns the mean completion time of `min_rtt` in seconds, over its lower bound.
fn time(comparison: &Comparison) -> (f64, f64) {
    let row = comparison.rows.iter().find(|row| row.scheduler == "min_rtt").unwrap();
    (row.fct_s.mean.unwrap(), row.lower_bound_s.unwrap())
}

#[test]
fn a_race_starts_on_the_path_that_answers_first() {
    let [listed, raced, given] = ["", "initial = 'race'", "initial = '2'"]
        .map(|lines| compared(&format!("{lines}\nother-starts = false")));
    let ((listed, _), (raced, bound), (given, _)) = (time(&listed), time(&raced), time(&given));
    // Nothing is lost to the path that answers late.
    assert!((raced - given).abs() < 0.002, "{listed} {raced} {given}");
    assert!(listed > 10.0 * raced && bound <= raced, "{listed} {bound}");
}

#[test]
fn the_delay_of_a_race_is_a_knob() {
    let (short, _) = time(&compared("initial = 'race'\nconnection.race = '10 ms'"));
    let (long, _) = time(&compared("initial = 'race'\nconnection.race = '200 ms'"));
    assert!((long - short - 0.19).abs() < 0.002, "{short} {long}");
    // The default path has answered before.
    let listed = time(&compared(""));
    assert_eq!(time(&compared("connection.race = '1 s'")).0, listed.0);
}

#[test]
fn a_contender_that_races_has_no_other_starts() {
    let setting = &compared("initial = 'race'").conditions[0];
    assert_eq!((setting.initial.as_str(), setting.initial_choice.as_str()), ("1", "race"));
    assert!(setting.other_starts.is_empty());
    assert!(!compared("").conditions[0].other_starts.is_empty());
}
