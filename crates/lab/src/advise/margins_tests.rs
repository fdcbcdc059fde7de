//! The contenders that pay at one value of a quantity, by intervals worked by hand.

use super::*;
use crate::made;
use crate::report::Difference;

/// Returns a row with this difference from TCP.
fn row(mean: f64, low: f64, high: f64) -> Record {
    let comparison = made::compared(&made::scenario(made::TWO_PATHS));
    let mut row = comparison.row_of("min_rtt").unwrap().clone();
    row.vs_reference_pct = Some(Difference { mean, ci95: Some(Interval(low, high)) });
    row
}

/// Asserts what stages say of a gain in per cent, as more goodput and as less time.
fn assert_pays(gain: (f64, f64, f64), least: f64, expected: [Option<bool>; 3]) {
    let (mean, low, high) = gain;
    let (bulk, time) = (row(mean, low, high), row(-mean, -high, -low));
    let of = |row: &Record, bulk| [0, 1, 2].map(|stage: usize| STAGES[stage].pays(row, bulk, least));
    assert_eq!(of(&bulk, true), expected, "goodput {gain:?}");
    assert_eq!(of(&time, false), expected, "time {gain:?}");
}

/// The stages widen intervals by 1.4, 1.2 and 1.
#[test]
fn a_gain_below_the_least_effect_does_not_pay() {
    let (yes, no) = (Some(true), Some(false));
    // It is certain, and does not matter; from an end of 1 % on it may.
    assert_pays((0.5, 0.2, 0.6), 1.0, [no, no, no]);
    assert_pays((0.5, 0.2, 0.8), 1.0, [no, no, no]);
    // 0.5 + 1.4 * 0.4 exceeds 1 and 0.5 + 1.2 * 0.4 does not.
    assert_pays((0.5, 0.2, 0.9), 1.0, [None, no, no]);
    // The last stage reads the interval as the judgement does: its mean is below the least effect.
    assert_pays((0.8, 0.1, 1.5), 1.0, [None, None, no]);
    assert_pays((1.6, 0.4, 2.8), 1.0, [None, None, yes]);
    // 2 - 1.4 * 0.8 = 0.88, and 2 - 1.2 * 0.8 = 1.04.
    assert_pays((2.0, 1.2, 2.8), 1.0, [None, yes, yes]);
    assert_pays((3.0, 2.0, 4.0), 1.0, [yes, yes, yes]);
    // Both ways.
    assert_pays((0.5, -1.0, 2.0), 1.0, [None, None, None]);
    assert_pays((-3.0, -4.0, -2.0), 1.0, [no, no, no]);
    // Without a least effect: -0.5 + 1.4 * 0.4 exceeds 0, and the last stage reads a loss that is certain.
    assert_pays((-0.5, -2.0, -0.1), 0.0, [None, no, no]);
}

#[test]
fn nothing_that_can_be_compared_does_not_pay_and_one_run_tells_nothing() {
    let mut none = row(5.0, 4.0, 6.0);
    none.vs_reference_pct = None;
    assert_eq!(STAGES[2].pays(&none, true, 1.0), Some(false));
    none.vs_reference_pct = Some(Difference { mean: 5.0, ci95: None });
    assert_eq!(STAGES[2].pays(&none, true, 1.0), None);
}

/// After 10 runs with an interval of plus and minus 4 %, 40 runs have one of 2 %, widened 2.4 %.
#[test]
fn a_stage_is_left_out_if_its_interval_would_be_too_wide() {
    let mut before = made::compared(&made::scenario(made::TWO_PATHS));
    before.runs = 10;
    let mut is_futile = |stage: usize, gain: f64, bulk: bool| {
        let mean = if bulk { gain } else { -gain };
        let row = before.rows.iter_mut().find(|row| row.scheduler == "min_rtt").unwrap();
        row.vs_reference_pct = Some(Difference { mean, ci95: Some(Interval(mean - 4.0, mean + 4.0)) });
        STAGES[stage].is_futile(10, Some(row), bulk, 1.0)
    };
    for bulk in [false, true] {
        // The distance is from the least effect, 1 %.
        assert!(is_futile(1, 3.3, bulk) && !is_futile(1, 3.5, bulk));
        assert!(is_futile(1, -1.3, bulk) && !is_futile(1, -1.5, bulk));
        // The last stage is always tried.
        assert!(!is_futile(2, 1.0, bulk));
    }
}

/// 1.5 million segments of 1448 bytes, by the contender that sends most.
#[test]
fn long_flows_get_fewer_runs() {
    let mut comparison = made::compared(&made::scenario(made::TWO_PATHS));
    comparison.runs = 10;
    comparison.rows[0].bytes_by_path = vec![1448 * 200_000, 1448 * 300_000];
    // 50,000 segments in a run.
    assert_eq!(affordable_runs(&comparison), 30);
    comparison.rows[1].bytes_by_path = vec![1448 * 1_000_000, 0];
    assert_eq!(affordable_runs(&comparison), 15);
    let runs = |before| STAGES.each_ref().map(|stage| stage.runs_after(before));
    assert_eq!((runs(None), runs(Some(&comparison))), ([10, 40, 120], [10, 15, 15]));
    comparison.rows.iter_mut().for_each(|row| row.bytes_by_path = vec![0, 0]);
    assert_eq!(affordable_runs(&comparison), 1_500_000);
}

/// Calls a test with the setting of a scenario.
fn with_setting<T>(text: &str, test: impl FnOnce(&Setting<'_>) -> T) -> T {
    let document = crate::scenario::Document::parse("test.toml", text, ".").unwrap();
    let cancelled = core::sync::atomic::AtomicBool::new(false);
    let options = super::super::Options {
        jobs: 1,
        cancelled: &cancelled,
        progress: &|_| {},
        condition: None,
        margins: true,
        min_gain: 0.05,
        application: super::super::Application::Anabranch,
    };
    test(&Setting::new(&document, &options).unwrap())
}

#[test]
fn the_size_can_change_only_where_the_flows_have_one() {
    let sizes = |traffic: &str| {
        let text = made::TWO_PATHS.replace("{ size = '1 KB' }", traffic);
        with_setting(&text, |setting| {
            ranges(setting).iter().filter(|range| range.quantity == Quantity::Size).count()
        })
    };
    assert_eq!(sizes("{ size = '1 KB' }"), 1);
    assert_eq!(sizes("{ size = 'bulk' }"), 0);
    // The key of a class is not `traffic.size`.
    assert_eq!(sizes("[{ name = 'file', size = '1 KB' }]"), 0);
}

/// The first of two flows gains much, and both paths are down when the second one starts.
#[test]
fn a_candidate_with_flows_that_do_not_finish_does_not_pay() {
    let text = |change: &str| {
        let path = format!("{{ rate = '5 Mbit/s', rtt = '10 ms'{change} }}");
        format!(
            "path = [{path}, {path}]
             traffic = {{ size = '200 KB', flows = 2, every = '2 s' }}
             deadline = '1 s'"
        )
    };
    let best = Candidate { name: "min_rtt".to_owned(), scheduler: "min_rtt".to_owned(), congestion: None };
    let found = Found { start: 0, candidates: vec![best.clone()], screened: 1, single_congestion: None };
    let pays =
        |change: &str| with_setting(&text(change), |setting| pays(setting, &found, &best, &[]).unwrap());
    assert_eq!(pays(""), Some(true));
    assert_eq!(pays(", change = [{ at = '1900 ms', down = true }]"), Some(false));
}
