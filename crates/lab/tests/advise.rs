//! Advice on settings whose answer is known.

use core::sync::atomic::AtomicBool;

use anabranch_lab::advise::{Advice, AdviceError, Answer, Options, Quantity, advise};
use anabranch_lab::scenario::Document;

fn document(paths: &[&str], size: &str) -> Document {
    let mut document = Document::bare();
    document.set_paths(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).unwrap();
    document.set_size("--size", size);
    document
}

fn advice(document: &Document, jobs: usize, margins: bool) -> Result<Advice, AdviceError> {
    let never = AtomicBool::new(false);
    advise(document, &Options { jobs, cancelled: &never, progress: &|_| {}, condition: None, margins })
}

#[test]
fn two_equal_paths_pay_for_a_long_flow_and_a_hopeless_second_path_does_not_for_a_short_one() {
    let equal = advice(&document(&["20Mbit/s,30ms", "20Mbit/s,30ms"], "4MB"), 0, false).unwrap();
    assert_eq!(equal.answer, Answer::Pays);
    // The ideal is a half.
    let difference = equal.difference_pct.unwrap().mean;
    assert!((-50.0..-30.0).contains(&difference), "{difference}");
    assert!(equal.actions.iter().any(|action| action.contains("net.mptcp.enabled=1")));

    let hopeless = advice(&document(&["50Mbit/s,10ms", "1Mbit/s,400ms"], "10KB"), 0, false).unwrap();
    assert_ne!(hopeless.answer, Answer::Pays);
    assert_eq!(hopeless.single_path.as_deref(), Some("path 1"));
    assert!(hopeless.actions[0].contains("TCP on path 1"), "{:?}", hopeless.actions);
}

#[test]
fn a_margin_separates_values_with_different_answers() {
    let paths = ["50Mbit/s,20ms", "20Mbit/s,60ms"];
    let found = advice(&document(&paths, "2MB"), 0, true).unwrap();
    assert_eq!(found.answer, Answer::Pays);
    let size = found.margins.iter().find(|margin| margin.quantity == Quantity::Size).unwrap();
    let below = size.below.expect("a short flow does not pay");
    assert!(below < 2e6 && below >= 2e6 / 8.0);
    // A flow that is shorter by far is told the opposite.
    let short = advice(&document(&paths, &format!("{:.0}B", below / 2.0)), 0, false).unwrap();
    assert_ne!(short.answer, Answer::Pays);
    assert!(found.margins.iter().filter(|margin| margin.path.as_deref() == Some("path 2")).count() >= 3);
}

#[test]
fn advice_does_not_depend_on_the_number_of_threads() {
    let document = document(&["20Mbit/s,30ms,loss=1%", "10Mbit/s,50ms"], "200KB");
    let json = |jobs| {
        let mut advice = advice(&document, jobs, false).unwrap();
        advice.judgement.performance.wall_s = 0.0;
        serde_json::to_string(&advice).unwrap()
    };
    assert_eq!(json(1), json(3));
}

#[test]
fn judgement_runs_are_not_those_of_screening_or_of_compare() {
    let found = advice(&document(&["20Mbit/s,30ms,loss=1%", "10Mbit/s,50ms"], "200KB"), 0, false).unwrap();
    assert_eq!(found.screened, 2 * 7 + 4);
    assert_ne!(found.judgement.seed, 1);
    assert!(
        found.candidates.len() <= 4 && found.candidates.iter().any(|candidate| candidate.name == "linux")
    );
}

#[test]
fn a_scenario_without_a_choice_is_refused() {
    let refused = |document: &Document| match advice(document, 0, false) {
        Err(AdviceError::Scenario(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused(&document(&["20Mbit/s,30ms"], "1MB")).contains("one path"));
    let phone = refused(&Document::open("phone").unwrap());
    assert!(phone.contains("2 conditions") && phone.contains("--condition"), "{phone}");
}
