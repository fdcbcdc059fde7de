//! Sweeps: plans, points, and equal results with and without interruptions.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::path::Path;

use anabranch_lab::output::Origin;
use anabranch_lab::scenario::Document;
use anabranch_lab::sweep::{
    Directory, Header, Journal, Options, Plan, PointResult, Reading, Shard, SweepError, simulate_point, sweep,
};
use anabranch_table::Format;

const PLAN: &str = r#"
scenario = "two-paths"
design = "latin-hypercube"
points = 9
runs = 2
seed = 3
[set]
traffic.size = "20 KB"
schedulers = ["tcp", "min_rtt"]
[vary]
"path.1.rate" = { from = "2 Mbit/s", to = "50 Mbit/s", scale = "log" }
path.2.rtt = ["10 ms", "40 ms", "90 ms"]
traffic.flows = { from = 1, to = 3 }
"#;

fn plan(text: &str) -> Plan {
    Plan::parse("plan.toml", text, ".").unwrap()
}

fn error(text: &str) -> String {
    Plan::parse("plan.toml", text, ".").unwrap_err().to_string()
}

fn journal(directory: &Path, name: &str, plan: &Plan) -> Journal {
    Journal::open(&directory.join(name), &Header::new("plan".to_owned(), plan.points(), None)).unwrap()
}

fn results(journal: &Journal) -> Vec<PointResult> {
    journal.results().collect::<Result<_, _>>().unwrap()
}

/// Continues a sweep, and stops after `most` points.
fn go_on(
    plan: &Plan,
    journal: &mut Journal,
    jobs: usize,
    shard: Shard,
    most: usize,
) -> Result<(), SweepError> {
    let (cancelled, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
    // The first report is that of the points done before.
    let progress = |_, _| {
        if ended.fetch_add(1, Ordering::Relaxed) == most {
            cancelled.store(true, Ordering::Relaxed);
        }
    };
    sweep(plan, journal, &Options { jobs, cancelled: &cancelled, progress: &progress, shard })
}

#[test]
fn interruptions_threads_and_shards_do_not_change_the_results() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(PLAN);
    let mut whole = journal(directory.path(), "whole", &plan);
    go_on(&plan, &mut whole, 1, Shard::default(), usize::MAX).unwrap();
    let expected = results(&whole);
    assert_eq!(expected.iter().map(|result| result.point).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());

    for jobs in [1, 2, 4] {
        let name = format!("interrupted-{jobs}");
        let mut interruptions = 0;
        loop {
            // Each time the journal is opened anew, as by another process.
            let mut interrupted = journal(directory.path(), &name, &plan);
            match go_on(&plan, &mut interrupted, jobs, Shard::default(), 1) {
                Ok(()) => {
                    assert_eq!(results(&interrupted), expected, "{jobs} threads");
                    break;
                }
                Err(SweepError::Cancelled) => interruptions += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(interruptions >= 2, "{jobs} threads: only {interruptions} interruptions");
    }

    let mut parts = journal(directory.path(), "parts", &plan);
    for number in 1..=4 {
        let mut part = journal(directory.path(), &format!("part-{number}"), &plan);
        go_on(&plan, &mut part, 2, Shard { number, of: 4 }, usize::MAX).unwrap();
        part.results().for_each(|result| parts.add(&result.unwrap()).unwrap());
    }
    assert_eq!(results(&parts), expected);
}

#[test]
fn a_point_is_the_comparison_of_its_scenario() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(PLAN);
    let mut journal = journal(directory.path(), "journal", &plan);
    go_on(&plan, &mut journal, 0, Shard::default(), usize::MAX).unwrap();
    let result = &results(&journal)[4];
    let scenario = plan.scenario(&plan.point(4)).unwrap();
    assert_eq!((result.scenario_hash.as_str(), result.runs), (scenario.hash().as_str(), 2));
    let never = AtomicBool::new(false);
    let options = anabranch_lab::options::Options {
        jobs: 1,
        cancelled: &never,
        progress: &|_, _| {},
        captures: None,
        every_path: false,
        in_rounds: false,
    };
    let comparison = anabranch_lab::compare::compare(&scenario, &options).unwrap();
    assert_eq!(result.rows.len(), comparison.rows.len());
    for (row, expected) in result.rows.iter().zip(&comparison.rows) {
        assert_eq!((&row.scheduler, row.fct_s.mean), (&expected.scheduler, expected.fct_s.mean));
    }
}

#[test]
fn a_grid_has_every_combination_with_the_last_dimension_fastest() {
    let plan = plan(
        r#"
        scenario = "two-paths"
        [vary]
        "path.1.rtt, path.2.rtt" = { from = "10 ms", to = "90 ms", steps = 3 }
        traffic.size = ["10 KB", "1 MB"]
    "#,
    );
    let points: Vec<Vec<String>> = (0..plan.points()).map(|point| plan.point(point).values).collect();
    let expected = [
        ["\"10 ms\"", "\"10 KB\""],
        ["\"10 ms\"", "\"1 MB\""],
        ["\"50 ms\"", "\"10 KB\""],
        ["\"50 ms\"", "\"1 MB\""],
        ["\"90 ms\"", "\"10 KB\""],
        ["\"90 ms\"", "\"1 MB\""],
    ];
    assert_eq!(points, expected);
    let scenario = plan.scenario(&plan.point(2)).unwrap();
    let links = &scenario.conditions[0].experiment.graph.links;
    assert!(links.iter().all(|link| link.rtt.as_secs_f64() == 0.05), "both keys have the value");
    assert_eq!(plan.dimensions()[0].column(), "path.1.rtt, path.2.rtt (ms)");
    // Units that differ are text.
    assert_eq!(plan.dimensions()[1].column(), "traffic.size");
}

#[test]
fn logarithmic_steps_are_equal_factors_and_end_exactly() {
    let plan = plan(
        "scenario = \"two-paths\"\n[vary]\npath.1.rate = { from = \"1 Mbit/s\", to = \"100 Mbit/s\", steps = 5, scale = \"log\" }",
    );
    let values: Vec<String> = (0..5).map(|point| plan.point(point).values[0].clone()).collect();
    assert_eq!(
        values,
        ["\"1 Mbit/s\"", "\"3.16228 Mbit/s\"", "\"10 Mbit/s\"", "\"31.6228 Mbit/s\"", "\"100 Mbit/s\""]
    );
}

#[test]
fn runs_are_added_until_the_differences_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let text = r#"
        scenario = "two-paths"
        runs = 4
        set = { path.loss = "1%", traffic.size = "100 KB", schedulers = ["tcp", "min_rtt"] }
        vary = { path.1.rtt = ["20 ms", "30 ms"] }
        stop = { half-width = "3%", most-runs = 300 }
    "#;
    let plan = plan(text);
    let mut journal = journal(directory.path(), "journal", &plan);
    go_on(&plan, &mut journal, 0, Shard::default(), usize::MAX).unwrap();
    let results = results(&journal);
    assert!(results.iter().any(|result| result.runs > 4), "the losses of four runs cannot tell");
    for result in results {
        let known = result
            .rows
            .iter()
            .filter_map(|row| row.vs_reference_pct?.ci95)
            .all(|ends| ends.half_width() <= 3.0);
        assert!(known || result.runs == 300, "{result:?}");
    }
    // Doubling ends at the most runs, whatever the intervals.
    let wide = self::plan(&text.replace("3%", "0.001%").replace("300", "13"));
    assert_eq!(simulate_point(&wide, 0, 1, &AtomicBool::new(false)).unwrap().runs, 13);
}

#[test]
fn other_runs_are_those_of_another_sweep_and_a_part_is_merged_once() {
    let place = tempfile::tempdir().unwrap();
    let plan = plan(PLAN);
    let open = |name: &str, runs: u32| {
        let path = place.path().join(name);
        let directory = Directory::open(&path, &plan, Format::Csv, Origin::default()).unwrap();
        let journal = directory.journal(&plan, &[], Some(runs));
        (directory, journal)
    };
    // Two points of a sweep that was stopped.
    assert!(go_on(&plan, &mut open("part", 2).1.unwrap(), 1, Shard::default(), 2).is_err());
    let (whole, journal) = open("whole", 2);
    let mut journal = journal.unwrap();
    let mut size_after_merge = || {
        whole.merge(&place.path().join("part"), &mut journal).unwrap();
        std::fs::metadata(place.path().join("whole/journal.ndjson")).unwrap().len()
    };
    assert_eq!(size_after_merge(), size_after_merge());
    assert!(journal.done() >= 2);
    drop(journal);
    assert!(open("whole", 3).1.is_err() && open("whole", 2).1.is_ok());
}

#[test]
fn a_mistake_in_a_plan_is_shown_where_it_is() {
    let cases = [
        ("[vary]\na = [1]", "the plan has no `scenario`"),
        ("scenario = \"two-path\"\n[vary]\na = [1]", "did you mean `two-paths`?"),
        ("scenario = \"two-paths\"", "the plan has no `vary`"),
        ("scenario = \"two-paths\"\nvary = {}", "`vary` has no key"),
        ("scenario = \"two-paths\"\nvery = 1\n[vary]\na = [1]", "did you mean `vary`?"),
        ("scenario = \"two-paths\"\n[vary]\npath.1.rtt = \"5 ms\"", "`path.1.rtt` has one value"),
        ("scenario = \"two-paths\"\n[vary]\npath.1.rtt = []", "this list is empty"),
        ("scenario = \"two-paths\"\n[vary]\nruns = [1, 2]", "`runs` cannot vary"),
        (
            "scenario = \"two-paths\"\n[vary]\npath.1.rtt = { from = \"1 ms\", to = \"2 s\", steps = 2 }",
            "different units",
        ),
        ("scenario = \"two-paths\"\n[vary]\npath.1.rtt = { from = \"1 ms\", to = \"2 ms\" }", "no `steps`"),
        (
            "scenario = \"two-paths\"\ndesign = \"sobol\"\npoints = 3\n[vary]\npath.1.rtt = { from = \"1 ms\", to = \"2 ms\", steps = 3 }",
            "`steps` belong to a grid",
        ),
        ("scenario = \"two-paths\"\ndesign = \"random\"\n[vary]\npath.1.rtt = [\"1 ms\"]", "needs `points`"),
        (
            "scenario = \"two-paths\"\npoints = 3\n[vary]\npath.1.rtt = [\"1 ms\"]",
            "as many points as there are",
        ),
        (
            "scenario = \"two-paths\"\n[vary]\npath.1.rtt = { from = \"0 ms\", to = \"2 ms\", steps = 2, scale = \"log\" }",
            "above 0",
        ),
        ("scenario = \"two-paths\"\n[vary]\npath.1.rtt = [\"1 parsec\"]", "plan.toml, point 0"),
        ("scenario = \"two-paths\"\n[vary]\npath.9.rtt = [\"1 ms\"]", "no path is called `9`"),
        (
            "scenario = \"two-paths\"\n[vary]\n\"path.1.rtt\" = [\"1 ms\"]\n\"path.1.rtt,path.2.rtt\" = [\"1 ms\"]",
            "`path.1.rtt` varies twice",
        ),
        (
            "scenario = \"two-paths\"\n[vary]\na = { from = 1, to = 9, steps = 9999999 }\nb = { from = 1, to = 9, steps = 9999999 }",
            "more than 10000000 points",
        ),
    ];
    for (text, expected) in cases {
        let error = error(text);
        assert!(error.contains(expected), "{text}\n{error}");
    }
}

#[test]
fn a_key_that_another_one_hides_is_refused() {
    let check = |vary: &str| {
        let checked = plan(&format!("scenario = \"wifi-lte\"\n[vary]\n{vary}")).check();
        checked.map_err(|error| error.to_string())
    };
    let two = "[\"10 ms\", \"20 ms\"]";
    let cases = [
        ("path.lte.rtt", "path.2.rtt", "path.lte.rtt"),
        ("path.2.rtt", "path.lte.rtt", "path.2.rtt"),
        ("path.lte.rtt", "path.rtt", "path.lte.rtt"),
        ("rto.min", "connection.rto.min", "rto.min"),
    ];
    for (first, second, hidden) in cases {
        let error = check(&format!("\"{first}\" = {two}\n\"{second}\" = {two}")).unwrap_err();
        let words = format!("`{hidden}` has no effect, as `{second}` sets the same value");
        assert!(error.contains(&words), "{error}");
    }
    // Here each has an effect; and equal values are not hidden by another key.
    for (first, second) in [("path.rtt", "path.lte.rtt"), ("path.wifi.rtt", "path.lte.rtt")] {
        check(&format!("\"{first}\" = {two}\n\"{second}\" = {two}")).unwrap();
    }
    check(&format!("\"path.lte.rtt\" = [\"20 ms\", \"20ms\"]\n\"path.wifi.rtt\" = {two}")).unwrap();
}

#[test]
fn a_setting_that_a_dimension_hides_is_refused() {
    let check = |set: &str, vary: &str| {
        let mut plan = plan(&format!("scenario = \"wifi-lte\"\n[vary]\n\"{vary}\" = [\"10 ms\", \"20 ms\"]"));
        plan.set(&format!("{set}=30ms")).unwrap();
        plan.check().map_err(|error| error.to_string())
    };
    let hidden = [
        ("path.2.rtt", "path.lte.rtt"),
        ("path.lte.rtt", "path.2.rtt"),
        ("path.lte.rtt", "path.rtt"),
        ("path.rtt", "path.rtt"),
        ("rto.min", "connection.rto.min"),
    ];
    for (set, vary) in hidden {
        let words = format!("`{set}` has no effect, as `{vary}` varies the same value");
        let error = check(set, vary).unwrap_err();
        assert!(error.contains(&words), "{error}");
    }
    // Here it has an effect; and a scenario's own setting is no contradiction.
    check("path.rtt", "path.lte.rtt").unwrap();
    check("path.wifi.rtt", "path.lte.rtt").unwrap();
    let mut document = Document::open("wifi-lte").unwrap();
    document.set("path.2.rtt=30ms").unwrap();
    let vary = "[vary]\n\"path.lte.rtt\" = [\"10 ms\", \"20 ms\"]";
    Plan::of_document("plan.toml", vary, document).unwrap().check().unwrap();
    let own = format!("scenario = \"wifi-lte\"\n[set]\npath.2.rtt = \"30 ms\"\n{vary}");
    assert!(plan(&own).check().unwrap_err().to_string().contains("`path.2.rtt` has no effect"));
}

#[test]
fn a_result_with_a_changed_digit_is_simulated_again() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(PLAN);
    let mut first = journal(directory.path(), "journal", &plan);
    go_on(&plan, &mut first, 1, Shard::default(), usize::MAX).unwrap();
    let expected = results(&first);
    drop(first);
    let path = directory.path().join("journal");
    let text = std::fs::read_to_string(&path).unwrap();
    // The first digit of a mean.
    let key = "\"fct_s\":{\"mean\":";
    let at = text.find(key).unwrap() + key.len();
    let digit = if &text[at..=at] == "1" { "2" } else { "1" };
    std::fs::write(&path, [&text[..at], digit, &text[at + 1..]].concat()).unwrap();
    let mut second = journal(directory.path(), "journal", &plan);
    assert_eq!(second.done(), plan.points() - 1);
    assert!(second.damage().unwrap().contains("line 2 is damaged"));
    go_on(&plan, &mut second, 1, Shard::default(), usize::MAX).unwrap();
    assert_eq!(results(&second), expected);
}

#[test]
fn a_mistake_at_a_later_point_is_found_before_the_first_is_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan("scenario = \"two-paths\"\n[vary]\npath.1.rtt = [\"1 ms\", \"2 ms\", \"1 parsec\"]");
    let mut journal = journal(directory.path(), "journal", &plan);
    let stopped = go_on(&plan, &mut journal, 0, Shard::default(), usize::MAX);
    assert!(matches!(stopped, Err(SweepError::Scenario(error)) if error.to_string().contains("point 2")));
    assert_eq!(journal.done(), 0);
}

#[test]
fn the_scenarios_of_points_that_are_done_are_not_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let text = "scenario = \"two-paths\"\nruns = 2\n[set]\ntraffic.size = \"20 KB\"\n[vary]\npath.1.rtt = [\"1 ms\", \"2 ms\"]";
    let valid = plan(text);
    let mut journal = journal(directory.path(), "journal", &valid);
    go_on(&valid, &mut journal, 1, Shard::default(), usize::MAX).unwrap();
    let unreadable = plan(&text.replace("2 ms", "2 parsec"));
    go_on(&unreadable, &mut journal, 1, Shard::default(), usize::MAX).unwrap();
    assert_eq!(journal.done(), 2);
}

/// Flows that cannot end before the deadline, on one path or on all.
#[test]
fn unfinished_flows_make_their_own_contender_incomplete_and_no_other() {
    let plan = plan(
        r#"
scenario = "two-paths"
runs = 1
[set]
traffic = { size = "100 KB" }
deadline = "8 s"
path.2.rate = "5 kbit/s"
schedulers = ["tcp", "min_rtt", "redundant"]
[vary]
path.1.rate = ["10 kbit/s", "600 kbit/s"]
"#,
    );
    let directory = tempfile::tempdir().unwrap();
    let mut journal = journal(directory.path(), "journal", &plan);
    go_on(&plan, &mut journal, 1, Shard::default(), usize::MAX).unwrap();
    for result in results(&journal) {
        let reference = result.rows.iter().find(|row| row.scheduler == "tcp").unwrap();
        assert_eq!(reference.reading, None);
        assert_eq!(reference.completed < reference.n, result.point == 0, "{reference:?}");
        for row in result.rows.iter().filter(|row| row.scheduler != "tcp") {
            let whole = [row, reference].iter().all(|row| row.completed == row.n);
            assert_eq!(row.reading != Some(Reading::Incomplete), whole, "{row:?}");
        }
        let others: Vec<bool> = result.rows.iter().map(|row| row.completed == row.n).collect();
        assert_eq!(others, [[false; 3], [true, false, true]][result.point], "{:?}", result.rows);
    }
}
