//! The answer of a comparison: the correct baseline, runs that are not copies of one another, and no winner
//! if flows did not finish. Only signs and orders are checked, since the stack changes.

use std::sync::atomic::AtomicBool;

use anabranch_lab::compare::{Comparison, compare};
use anabranch_lab::options::Options;
use anabranch_lab::report::Record;
use anabranch_lab::report::verdict::Outcome;
use anabranch_lab::run::Prepared;
use anabranch_lab::scenario::{Document, Scenario};

/// Returns the scenario of paths on the command line with these values set.
fn scenario(paths: &[&str], set: &[&str]) -> Scenario {
    let mut document = Document::bare();
    let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
    document.set_paths(&paths).unwrap();
    set.iter().for_each(|assignment| document.set(assignment).unwrap());
    document.scenario().unwrap_or_else(|error| panic!("{error}"))
}

fn compared(scenario: &Scenario, every_path: bool) -> Comparison {
    let cancelled = AtomicBool::new(false);
    let options = Options {
        jobs: 2,
        cancelled: &cancelled,
        progress: &|_, _| {},
        captures: None,
        every_path,
        in_rounds: false,
    };
    compare(scenario, &options).unwrap()
}

fn row<'a>(comparison: &'a Comparison, name: &str) -> &'a Record {
    comparison.rows.iter().find(|row| row.scheduler == name).unwrap_or_else(|| panic!("no row {name}"))
}

/// The fast path has a loss of 2 %: by its lower bound it is the best, and by measurement by far the worst.
#[test]
fn a_fast_path_with_loss_is_no_baseline() {
    let paths = ["100Mbit/s,40ms,loss=2%", "20Mbit/s,20ms"];
    let comparison =
        compared(&scenario(&paths, &["traffic.size=bulk", "traffic.duration=5s", "runs=4"]), true);
    let (tcp, lossy) = (row(&comparison, "tcp"), row(&comparison, "tcp@1"));
    assert_eq!((tcp.path.as_deref(), lossy.path.as_deref()), (Some("2"), Some("1")));
    assert!(lossy.goodput_bps.unwrap() < 0.5 * tcp.goodput_bps.unwrap());
    // Relative to the lossy path it would be +600 %.
    let gain = row(&comparison, "min_rtt").vs_reference_pct.unwrap().mean;
    assert!((-20.0..60.0).contains(&gain), "{gain}");
    let setting = &comparison.conditions[0];
    let chosen: Vec<bool> = setting.single_paths.iter().map(|path| path.chosen).collect();
    assert_eq!(chosen, [false, true]);
    // 120 Mbit/s minus the headers.
    assert!((110e6..120e6).contains(&setting.ideal_sum_bps), "{}", setting.ideal_sum_bps);
}

/// The mean rate of the LTE trace is higher than that of the steady link, and its variation much greater.
#[test]
fn a_trace_is_judged_by_its_course() {
    let traces = "../../scenarios/traces/synthetic-lte";
    let lte = format!("trace={traces}.down:{traces}.up,40ms");
    let scenario = scenario(&[&lte, "12Mbit/s,30ms"], &["traffic.size=500KB", "runs=12"]);
    let comparison = compared(&scenario, true);
    let (tcp, lte) = (row(&comparison, "tcp"), row(&comparison, "tcp@1"));
    assert_eq!(tcp.path.as_deref(), Some("2"));
    assert!(tcp.fct_s.mean < lte.fct_s.mean);
    assert!(comparison.conditions[0].phases.unwrap().traces);
    // Runs begin at different positions of the trace.
    assert!(lte.fct_s.ci95.unwrap().half_width() > 0.0);
}

#[test]
fn the_row_is_the_ratio_of_the_means_beside_it() {
    let scenario = scenario(
        &["20Mbit/s,20ms,loss=1%", "8Mbit/s,50ms,loss=1%"],
        &["traffic.size=web", "traffic.flows=5", "runs=10"],
    );
    let comparison = compared(&scenario, false);
    let tcp = row(&comparison, "tcp").fct_s.mean.unwrap();
    for name in ["min_rtt", "dmptcp"] {
        let row = row(&comparison, name);
        let expected = 100.0 * (row.fct_s.mean.unwrap() / tcp - 1.0);
        assert!((row.vs_reference_pct.unwrap().mean - expected).abs() < 1e-6, "{name}");
    }
    let best = comparison.verdicts[0].compared.as_deref().unwrap();
    assert_eq!(comparison.verdicts[0].difference_pct, row(&comparison, best).vs_reference_pct);
    assert!(comparison.verdict.contains(best));
}

/// Without random loss the runs are thirty different phases of one experiment, and not thirty copies.
#[test]
fn runs_without_random_loss_differ_by_their_phases() {
    let paths = ["20Mbit/s,20ms", "8Mbit/s,50ms"];
    let set = ["traffic.size=300KB", "traffic.flows=4", "runs=6"];
    let width = |set: &[&str]| {
        let comparison = compared(&scenario(&paths, set), false);
        row(&comparison, "min_rtt").fct_s.ci95.unwrap().half_width()
    };
    assert!(width(&set) > 0.0);
    assert_eq!(width(&[&set[..], &["phases=false"]].concat()), 0.0);
}

#[test]
fn a_single_run_draws_phases_only_when_asked() {
    let paths = ["20Mbit/s,20ms", "8Mbit/s,50ms"];
    let fct = |phases: &[&str], in_comparison: bool| {
        let scenario = scenario(&paths, &[&["traffic.size=300KB"][..], phases].concat());
        let prepared = match in_comparison {
            true => Prepared::for_comparison(&scenario, 0),
            false => Prepared::new(&scenario, 0),
        };
        let result = prepared.unwrap().run(1, 0, &AtomicBool::new(false)).unwrap();
        result.flows[0].report.fct
    };
    let plain = fct(&["phases=false"], false);
    assert_eq!(fct(&[], false), plain);
    assert_eq!(fct(&["phases=false"], true), plain);
    assert_ne!(fct(&[], true), plain);
    assert_eq!(fct(&["phases=true"], false), fct(&[], true));
}

/// A phase is small compared with the round-trip time, and the lower bound still holds.
#[test]
fn phases_are_small_and_the_bound_still_holds() {
    for (path, rtt_us) in [("100Mbit/s,20ms", 20_000.0), ("1Gbit/s,1ms", 1_000.0)] {
        let set = ["traffic.size=1400B", "traffic.flows=1", "schedulers=tcp"];
        let scenario = scenario(&[path], &set);
        let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
        let plain = Prepared::new(&scenario, 0).unwrap().run(0, 0, &AtomicBool::new(false)).unwrap();
        let plain = plain.flows[0].report.fct.unwrap().as_secs_f64() * 1e6;
        let mut seen = Vec::new();
        for run in 0..20 {
            let result = prepared.run(0, run, &AtomicBool::new(false)).unwrap();
            let flow = &result.flows[0];
            let fct = flow.report.fct.unwrap();
            let bound = flow.lower_bound.unwrap();
            assert!(fct >= bound, "{path}: {fct} {bound}");
            assert!(flow.report.start.as_secs_f64() * 1e6 <= 0.05 * rtt_us);
            assert!((fct.as_secs_f64() * 1e6 - plain).abs() < 0.03 * rtt_us, "{path}: {fct} {plain}");
            seen.push(fct);
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 15);
    }
}

#[test]
fn flows_that_do_not_finish_leave_no_winner() {
    let set = ["traffic.size=5MB", "deadline=1s", "runs=2"];
    let comparison = compared(&scenario(&["10Mbit/s,20ms", "5Mbit/s,20ms"], &set), false);
    assert!(!comparison.is_complete());
    assert_eq!(comparison.verdicts[0].outcome, Outcome::Incomplete);
    assert!(
        comparison.verdict.starts_with("There is no winner, because 2 of tcp's 2 flows"),
        "{}",
        comparison.verdict
    );
    assert!(comparison.verdict.contains("deadline"));
}

#[test]
fn short_flows_have_a_verdict_on_their_tail() {
    let paths = ["20Mbit/s,20ms,loss=1%", "20Mbit/s,20ms,loss=1%"];
    let comparison = compared(&scenario(&paths, &["traffic.size=50KB", "traffic.flows=25", "runs=6"]), false);
    assert_eq!(comparison.verdicts.len(), 2);
    assert!(comparison.verdict.contains("95th-percentile time"), "{}", comparison.verdict);
}

/// A short flow ends within its first windows, which are sent on the first path alone: on the slow one every
/// scheduler is equally slow, and the verdict says which of the two matters.
#[test]
fn a_slow_first_path_matters_more_than_the_scheduler() {
    let set = ["traffic.size=100KB", "runs=6"];
    let comparison = compared(&scenario(&["4Mbit/s,150ms", "40Mbit/s,15ms"], &set), false);
    let setting = &comparison.conditions[0];
    assert_eq!((setting.initial.as_str(), setting.initial_choice.as_str()), ("1", "first"));
    let [start] = &setting.other_starts[..] else { panic!("{:?}", setting.other_starts) };
    assert_eq!((start.path.as_str(), start.runs, start.changes.len()), ("2", 6, 4));
    for change in &start.changes {
        let difference = change.difference_pct.unwrap();
        assert!(difference.mean < -50.0 && difference.ci95.unwrap().1 < 0.0, "{change:?}");
    }
    let decisive = setting.decisive_start.as_ref().expect("the first path matters more");
    // Five times as fast, while the schedulers differ by less than a factor of two. The bound is that factor and no tolerance:
    // the kernel's scheduler accepts no join once everything is written, so it alone stays on the slow path to the end.
    assert!(decisive.difference_pct.mean < -75.0 && decisive.spread_pct < 100.0, "{decisive:?}");
    let both = [
        format!("lower by a factor of {:.1}", 1.0 / (1.0 + decisive.difference_pct.mean / 100.0)),
        format!("within a factor of {:.1}", 1.0 + decisive.spread_pct / 100.0),
    ];
    let sentence = "The first path matters more than the choice of scheduler. ";
    assert!(comparison.verdict.contains(sentence), "{}", comparison.verdict);
    assert!(both.iter().all(|figure| comparison.verdict.contains(figure)), "{}", comparison.verdict);
    // On the other path the sentence states the cost of starting on the first one.
    let comparison =
        compared(&scenario(&["4Mbit/s,150ms", "40Mbit/s,15ms"], &[&set[..], &["initial=2"]].concat()), false);
    let decisive = comparison.conditions[0].decisive_start.as_ref().expect("still");
    assert!(decisive.path == "1" && decisive.difference_pct.mean > 100.0, "{decisive:?}");
    assert!(
        comparison.verdict.contains("higher if it starts on path 1 instead of path 2"),
        "{}",
        comparison.verdict
    );
}

/// With equal paths the start does not matter. The sentence does not appear either if the scheduler matters
/// more: on lossless paths duplicating everything halves the goodput.
#[test]
fn a_first_path_that_does_not_matter_is_not_said_to() {
    let equal = ["20Mbit/s,30ms", "20Mbit/s,30ms"];
    let short = scenario(&equal, &["traffic.size=100KB", "runs=6"]);
    let bulk = ["traffic.size=bulk", "traffic.duration=3s", "schedulers=min_rtt,redundant", "runs=4"];
    let bulk = scenario(&["20Mbit/s,30ms", "20Mbit/s,60ms"], &bulk);
    for scenario in [short, bulk] {
        let comparison = compared(&scenario, false);
        let setting = &comparison.conditions[0];
        assert!(!setting.other_starts.is_empty());
        assert_eq!(setting.decisive_start, None, "{:?}", setting.other_starts);
        assert!(!comparison.verdict.contains("first path"), "{}", comparison.verdict);
    }
}

/// The effect of another start equals that of a comparison with that start: the same runs, seeds and phases.
#[test]
fn another_start_has_the_runs_of_a_comparison_that_starts_there() {
    let paths = ["10Mbit/s,40ms,loss=1%", "30Mbit/s,80ms,loss=1%"];
    let set = ["traffic.size=200KB", "traffic.flows=2", "runs=5", "schedulers=min_rtt,dmptcp"];
    let here = compared(&scenario(&paths, &set), false);
    let there =
        compared(&scenario(&paths, &[&set[..], &["initial=2", "other-starts=false"]].concat()), false);
    assert!(there.conditions[0].other_starts.is_empty() && there.conditions[0].decisive_start.is_none());
    for change in &here.conditions[0].other_starts[0].changes {
        let mean = |comparison: &Comparison| row(comparison, &change.scheduler).fct_s.mean.unwrap();
        let expected = 100.0 * (mean(&there) / mean(&here) - 1.0);
        assert!((change.difference_pct.unwrap().mean - expected).abs() < 1e-6, "{change:?} {expected}");
    }
    // The runs of the comparison itself are the same with and without.
    let alone = compared(&scenario(&paths, &[&set[..], &["other-starts=false"]].concat()), false);
    assert_eq!(alone.rows, here.rows);
}

#[test]
fn the_first_path_is_given_by_number_name_or_as_the_best() {
    let of = |set: &[&str]| {
        let scenario = scenario(&["2Mbit/s,200ms,name=far", "50Mbit/s,20ms,name=near"], set);
        let experiment = &scenario.conditions[0].experiment;
        (experiment.initial, experiment.initial_choice.name(), scenario.hash())
    };
    assert_eq!((of(&[]).0, of(&[]).1), (0, "first"));
    let (best, near, second) = (of(&["initial=best"]), of(&["initial=near"]), of(&["initial=2"]));
    assert_eq!([best.0, near.0, second.0], [1; 3]);
    assert_eq!([best.1, near.1, second.1], ["best", "given", "given"]);
    // The way of its choice is not part of the experiment.
    assert!(best.2 == near.2 && near.2 == second.2 && near.2 != of(&[]).2);
    let named = scenario(&["2Mbit/s,200ms,name=best", "50Mbit/s,20ms"], &["initial=best"]);
    assert_eq!(named.conditions[0].experiment.initial, 0);
}

/// If runs are expensive, other starts share the number of runs of one contender.
#[test]
fn other_starts_cost_no_more_than_the_comparison() {
    let paths = ["200Mbit/s,20ms", "200Mbit/s,30ms", "200Mbit/s,40ms", "200Mbit/s,50ms"];
    let set = ["traffic.size=bulk", "traffic.duration=2s", "schedulers=min_rtt", "runs=15"];
    let starts = &compared(&scenario(&paths, &set), false).conditions[0].other_starts;
    assert_eq!(starts.iter().map(|start| start.runs).collect::<Vec<_>>(), [5; 3]);
}

/// A start from which some flows do not end in time has no difference, because flows are missing.
#[test]
fn a_start_from_which_flows_do_not_finish_has_no_difference() {
    let set = ["traffic.size=100KB", "runs=3", "deadline=1s", "schedulers=min_rtt,dmptcp"];
    let comparison = compared(&scenario(&["20Mbit/s,20ms", "40kbit/s,800ms"], &set), false);
    let changes = &comparison.conditions[0].other_starts[0].changes;
    assert!(changes.iter().all(|change| change.difference_pct.is_none()), "{changes:?}");
    assert!(comparison.is_complete() && comparison.conditions[0].decisive_start.is_none());
}

/// If all handshakes start together no path is first.
#[test]
fn simultaneous_handshakes_have_no_other_start() {
    let set = ["traffic.size=50KB", "runs=2", "profile=ns3"];
    let comparison = compared(&scenario(&["4Mbit/s,150ms", "40Mbit/s,15ms"], &set), false);
    assert!(comparison.conditions[0].other_starts.is_empty());
}

/// 1 MB over 30 Mbit/s, 30 ms and 20 Mbit/s, 50 ms: the RFC's CUBIC and segments of 1400 bytes do not
/// represent a Linux sender, and the default of a comparison is Linux senders.
#[test]
fn the_default_answer_is_that_of_linux_senders() {
    let of = |set: &[&str]| {
        let set = [&["traffic.size=1MB", "runs=10", "other-starts=false"][..], set].concat();
        compared(&scenario(&["30Mbit/s,30ms", "20Mbit/s,50ms"], &set), false)
    };
    let default = of(&[]);
    assert_eq!(
        default.rows,
        of(&["congestion=cubic_linux", "profile=linux", "traffic.direction=download"]).rows
    );
    let difference = |comparison: &Comparison, name: &str| row(comparison, name).vs_reference_pct.unwrap();
    for name in ["min_rtt", "dmptcp"] {
        let found = difference(&default, name);
        assert!(found.mean < -3.0 && found.ci95.unwrap().1 < 0.0, "{name}: {found:?}");
    }
    let textbook = of(&["congestion=cubic", "mss=1400"]);
    assert!(difference(&textbook, "dmptcp").mean > difference(&default, "dmptcp").mean + 3.0);
}
