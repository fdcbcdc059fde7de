//! A reproduction that was interrupted goes on from its journal, and a paper may be a directory.

use core::sync::atomic::AtomicBool;
use std::path::Path;

use anabranch_reproduce::claims::{Claim, Paper};
use anabranch_reproduce::journal::Journal;
use anabranch_reproduce::measure::RunsPart;
use anabranch_reproduce::reproduce::{Options, ReproduceError, Results, Task, needed, reproduce};
use anabranch_reproduce::{Status, library};

fn options<'a>(
    cancelled: &'a AtomicBool,
    progress: &'a dyn Fn(anabranch_reproduce::reproduce::Progress),
) -> Options<'a> {
    Options { quick: true, figures: true, progress, ..Options::new(cancelled) }
}

fn run(
    papers: &[Paper],
    ids: &[&str],
    journal: &mut Journal,
    cancelled: &AtomicBool,
    progress: &dyn Fn(anabranch_reproduce::reproduce::Progress),
) -> Result<Results, ReproduceError> {
    let options = options(cancelled, progress);
    let selected = |_: &Paper, claim: &Claim| ids.contains(&claim.id.as_str());
    reproduce(papers, &selected, journal, &options)
}

#[test]
fn an_interrupted_reproduction_simulates_only_what_the_journal_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Journal::open(&directory.path().join("journal.ndjson"), "1", false).unwrap();
    let papers = library::papers().unwrap();
    let (go, stop) = (AtomicBool::new(false), AtomicBool::new(true));
    let alone = run(&papers, &["D24"], &mut Journal::in_memory(), &go, &|_| ()).unwrap();
    run(&papers, &["D24"], &mut open(), &go, &|_| ()).unwrap();
    // A cancelled run cannot simulate: it succeeds by the journal alone.
    let again = run(&papers, &["D24"], &mut open(), &stop, &|_| ()).unwrap();
    assert_eq!((&again.findings, &again.figures), (&alone.findings, &alone.figures));
    // The measurements of another claim are needed, unless the first claim has made them.
    let selected = |_: &Paper, claim: &Claim| ["D24", "D22"].contains(&claim.id.as_str());
    let left = needed(&papers, &selected, &mut open(), &options(&stop, &|_| ())).unwrap();
    match run(&papers, &["D24", "D22"], &mut open(), &stop, &|_| ()) {
        Ok(more) => assert!(left.is_empty() && more.findings.len() == 2),
        Err(error) => assert!(!left.is_empty() && matches!(error, ReproduceError::Cancelled)),
    }
    let other = run(&papers, &["D15"], &mut open(), &stop, &|_| ());
    assert!(matches!(other, Err(ReproduceError::Cancelled)));
}

#[test]
fn measurements_in_parts_in_any_order_give_the_same_results() {
    let mut papers = library::papers().unwrap();
    // Three short points of the plan, whose figure has 200.
    papers.iter_mut().for_each(|paper| paper.figures.retain(|figure| figure.claim != "C17"));
    let plan = papers.iter_mut().flat_map(|paper| &mut paper.claims).find(|claim| claim.id == "C17").unwrap();
    for check in &mut plan.checks {
        check.choice.runs = Some(3);
        check.choice.set.push("traffic.duration=1 s".to_owned());
    }
    let go = AtomicBool::new(false);
    // Of a scenario, a plan, the window simulation, and the model.
    for ids in [["D24", "D15"], ["C17", "D14"], ["V6", "V9"]] {
        let alone = run(&papers, &ids, &mut Journal::in_memory(), &go, &|_| ());
        let mut journal = Journal::in_memory();
        let selected = |_: &Paper, claim: &Claim| ids.contains(&claim.id.as_str());
        let options = options(&go, &|_| ());
        let mut passes = 0;
        loop {
            let tasks = needed(&papers, &selected, &mut journal, &options).unwrap();
            if tasks.is_empty() {
                break;
            }
            passes += 1;
            for task in tasks.iter().rev() {
                let sent: Task = serde_json::from_str(&serde_json::to_string(task).unwrap()).unwrap();
                // Every run but the first is in two parts.
                let ranges = (0..sent.runs).rev().map(|at| at..(at + 2).min(sent.runs));
                let parts = ranges.map(|runs| sent.part(runs, &go).unwrap());
                let parts = parts.map(|part| serde_json::to_string(&part).unwrap());
                let parts: Vec<RunsPart> = parts.map(|part| serde_json::from_str(&part).unwrap()).collect();
                journal.add(task.joined(parts).unwrap()).unwrap();
            }
        }
        let stop = AtomicBool::new(true);
        let elsewhere = run(&papers, &ids, &mut journal, &stop, &|_| ()).unwrap();
        let alone = alone.unwrap();
        assert!(passes > 0 && alone.findings.iter().all(|finding| !finding.checks.is_empty()), "{ids:?}");
        assert_eq!((&elsewhere.findings, &elsewhere.figures), (&alone.findings, &alone.figures));
    }
}

#[test]
fn the_work_that_is_left_falls_to_nothing_and_that_of_the_journal_does_not_count() {
    let papers = library::papers().unwrap();
    let go = AtomicBool::new(false);
    let mut journal = Journal::in_memory();
    let seen = std::cell::RefCell::new(Vec::new());
    let note = |now| seen.borrow_mut().push(now);
    run(&papers, &["D24", "D15"], &mut journal, &go, &note).unwrap();
    let first = seen.take();
    assert!(first.windows(2).all(|pair| pair[1].left <= pair[0].left && pair[1].work >= pair[0].work));
    let last = first.last().unwrap();
    assert!(last.left < 1e-6 * last.work && last.done == last.total && last.work > 0.0);
    run(&papers, &["D24", "D15"], &mut journal, &go, &note).unwrap();
    assert!(seen.take().iter().all(|now| now.work == 0.0 && now.left == 0.0));
}

#[test]
fn a_paper_in_a_directory_is_judged_like_a_built_in_one() {
    let directory = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/dmptcp");
    for file in ["claims.toml", "figures.toml", "one.toml"] {
        std::fs::copy(root.join(file), directory.path().join(file)).unwrap();
    }
    let paper = library::open(directory.path()).unwrap();
    let go = AtomicBool::new(false);
    let own = run(std::slice::from_ref(&paper), &["D24"], &mut Journal::in_memory(), &go, &|_| ()).unwrap();
    let built_in = library::papers().unwrap();
    let other = run(&built_in, &["D24"], &mut Journal::in_memory(), &go, &|_| ()).unwrap();
    assert_eq!((&own.findings, &own.figures), (&other.findings, &other.figures));
    assert_eq!(own.findings[0].status, Status::Holds);
    // A scenario that is not there is an error with its name.
    let error = run(&[paper], &["D15"], &mut Journal::in_memory(), &go, &|_| ()).unwrap_err();
    assert!(error.to_string().contains("two.toml"), "{error}");
    assert!(library::open(Path::new("/nowhere")).unwrap_err().to_string().contains("/nowhere/claims.toml"));
}
