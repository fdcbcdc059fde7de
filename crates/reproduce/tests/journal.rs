//! A reproduction that was interrupted goes on from its journal, and a paper may be a directory.

use core::sync::atomic::AtomicBool;
use std::path::Path;

use anabranch_reproduce::claims::{Claim, Paper};
use anabranch_reproduce::journal::Journal;
use anabranch_reproduce::reproduce::{Options, ReproduceError, Results, reproduce};
use anabranch_reproduce::{Status, library};

fn run(
    papers: &[Paper],
    ids: &[&str],
    journal: &mut Journal,
    cancelled: &AtomicBool,
    progress: &dyn Fn(anabranch_reproduce::reproduce::Progress),
) -> Result<Results, ReproduceError> {
    let options = Options {
        quick: true,
        variants: false,
        seed: None,
        jobs: 1,
        cancelled,
        figures: true,
        expected: &[],
        progress,
    };
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
    let more = run(&papers, &["D24", "D22"], &mut open(), &stop, &|_| ());
    assert!(matches!(more, Ok(_) | Err(ReproduceError::Cancelled)));
    let other = run(&papers, &["D15"], &mut open(), &stop, &|_| ());
    assert!(matches!(other, Err(ReproduceError::Cancelled)));
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
