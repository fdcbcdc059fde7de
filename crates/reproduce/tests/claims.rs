//! The files of claims: complete, valid, and about tests and scenarios that exist.

use std::collections::BTreeSet;
use std::path::Path;

use anabranch_lab::scenario::Document;
use anabranch_lab::scenario::library::PAPERS;
use anabranch_reproduce::claims::{Kind, Paper, Variant};
use anabranch_reproduce::journal::Journal;
use anabranch_reproduce::measure::{Source, Unit, Wanted, Work};
use anabranch_reproduce::reproduce::{Options, ReproduceError, reproduce};
use anabranch_reproduce::{Status, library, recorded};

fn papers() -> Vec<Paper> {
    library::papers().unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent).unwrap()
}

#[test]
fn every_row_of_the_four_papers_is_there() {
    let expected = [("dmptcp", 'D', 44), ("cp", 'C', 28), ("stms", 'M', 24), ("coupled", 'V', 27)];
    let papers = papers();
    assert_eq!(papers.len(), expected.len());
    for (paper, (id, letter, count)) in papers.iter().zip(expected) {
        assert_eq!(paper.id, id);
        let ids: Vec<&str> = paper.claims.iter().map(|claim| claim.id.as_str()).collect();
        assert_eq!(ids, (1..=count).map(|number| format!("{letter}{number}")).collect::<Vec<_>>());
    }
    assert_eq!(papers.iter().map(|paper| paper.claims.len()).sum::<usize>(), 123);
}

#[test]
fn every_named_test_exists() {
    for paper in papers() {
        for claim in paper.claims.iter().filter(|claim| claim.kind == Kind::Unit) {
            let test = claim.test.as_deref().unwrap();
            let (file, name) = test.split_once("::").unwrap();
            let text = std::fs::read_to_string(root().join(file)).unwrap();
            let at = text.find(&format!("fn {name}()")).unwrap_or_else(|| panic!("{}: {test}", claim.id));
            assert!(text[..at].trim_end().ends_with("#[test]"), "{}: {test} is no test", claim.id);
        }
    }
}

#[test]
fn a_claim_without_checks_says_why_and_a_claim_with_checks_has_a_reason_for_its_ranges() {
    for paper in papers() {
        for claim in paper.claims.iter().filter(|claim| claim.kind == Kind::Scenario) {
            assert!(!claim.reason.is_empty(), "{}", claim.id);
        }
    }
}

#[test]
fn every_variant_belongs_to_a_claim() {
    for paper in papers() {
        for variant in &paper.variants {
            let used = paper.claims.iter().any(|claim| claim.variants.contains(&variant.name));
            let combined = paper.variants.iter().any(|other| other.with.contains(&variant.name));
            assert!(used || combined, "{}: {}", paper.id, variant.name);
        }
    }
}

/// Every condition, contender and measure of every check and variant exists.
#[test]
fn every_check_can_be_measured() {
    for paper in papers() {
        for claim in &paper.claims {
            let variants = claim.variants.iter().map(|name| {
                let Variant { set, of, .. } = paper.variant(name).unwrap().clone();
                (set, of)
            });
            for (set, other) in std::iter::once((Vec::new(), None)).chain(variants) {
                for check in &claim.checks {
                    let source = check.choice.source();
                    let conditions = check.choice.conditions.iter().chain(&check.to_in).cloned();
                    let mut conditions: Vec<String> = conditions.collect();
                    if let (Source::Scenario(name), true) = (&source, check.choice.conditions.is_empty()) {
                        let scenario = Document::open(&format!("{}/{name}", paper.id)).unwrap();
                        let all = scenario.scenario().unwrap().conditions.into_iter();
                        conditions.extend(all.map(|condition| condition.name));
                    } else if conditions.is_empty() {
                        conditions.push(String::new());
                    }
                    for condition in conditions {
                        let unit = Unit {
                            paper: paper.id.clone(),
                            source: source.clone(),
                            condition,
                            set: [check.choice.set.clone(), set.clone()].concat(),
                            runs: Some(1),
                            seed: None,
                        };
                        let mut wanted = Wanted::default();
                        wanted.add(other.as_ref().unwrap_or(&check.of), check.metric);
                        if let Some(to) = &check.to {
                            wanted.add(to, check.metric);
                        }
                        if let Err(error) = Work::new(&unit, &wanted) {
                            panic!("{}: {error}", claim.id);
                        }
                    }
                }
            }
        }
    }
}

/// Claims without a figure in the report, with the reason.
const NOT_DRAWN: [(&str, &str); 2] =
    [("D1", "the abstract"), ("D44", "a number that is cited from another paper")];

#[test]
fn every_simulated_figure_and_table_is_drawn() {
    for paper in papers() {
        for claim in paper.claims.iter().filter(|claim| claim.kind == Kind::Scenario) {
            let drawn = paper.figures.iter().any(|figure| figure.claim == claim.id);
            let excused = NOT_DRAWN.iter().any(|(id, _)| *id == claim.id);
            let is_text = claim.figure.starts_with("Section") && !drawn;
            assert!(drawn != (excused || is_text), "{} ({})", claim.id, claim.figure);
        }
    }
}

/// Labels are not cut: an axis of values has space for some 36 letters, one of positions for twice as many.
#[test]
fn every_label_of_an_axis_fits() {
    for paper in papers() {
        for figure in &paper.figures {
            assert!(figure.y.chars().count() <= 35, "{}: {}", figure.claim, figure.y);
            assert!(figure.x.chars().count() <= 65, "{}: {}", figure.claim, figure.x);
        }
    }
}

/// Every figure has panels with names of their own, and measures that exist.
#[test]
fn every_figure_can_be_measured() {
    let cancelled = core::sync::atomic::AtomicBool::new(true);
    let options = Options { figures: true, ..Options::new(&cancelled) };
    for paper in papers() {
        let mut panels = BTreeSet::new();
        for figure in &paper.figures {
            assert!(panels.insert((&figure.claim, &figure.panel)), "{} {}", figure.claim, figure.panel);
        }
    }
    // All units are read before the first one is simulated, which is refused.
    let result = reproduce(&papers(), &|_, _| true, &mut Journal::in_memory(), &options);
    assert!(matches!(result, Err(ReproduceError::Cancelled)), "{:?}", result.err());
}

/// For each claim that does not hold, variants of what its paper leaves open were tried.
#[test]
fn every_claim_that_does_not_hold_has_variants_or_says_why_not() {
    let recorded = recorded::recorded().unwrap();
    for paper in papers() {
        for claim in paper.claims.iter().filter(|claim| !claim.checks.is_empty()) {
            let known = recorded.findings.iter().find(|finding| finding.id == claim.id).unwrap();
            if known.status != Status::Holds && claim.variants.is_empty() {
                assert!(claim.finding.contains("decision needs"), "{}", claim.id);
            }
        }
    }
}

#[test]
fn every_scenario_file_is_built_in_and_used() {
    let mut used: BTreeSet<String> = BTreeSet::new();
    for paper in papers() {
        for check in paper.claims.iter().flat_map(|claim| &claim.checks) {
            used.extend(check.choice.scenario.iter().map(|name| format!("{}/{name}", paper.id)));
            used.extend(check.choice.plan.iter().map(|name| format!("{}/{name}", paper.id)));
        }
    }
    let mut files = BTreeSet::new();
    for paper in library::names() {
        for entry in std::fs::read_dir(root().join("scenarios").join(paper)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if let Some(name) =
                name.strip_suffix(".toml").filter(|name| !["claims", "figures"].contains(name))
            {
                let name = name.strip_suffix(".plan").unwrap_or(name);
                files.insert(format!("{paper}/{name}"));
            }
        }
    }
    let built_in: BTreeSet<String> = PAPERS.iter().map(|scenario| scenario.name.to_owned()).collect();
    assert_eq!(built_in, files);
    assert_eq!(used, files);
}

/// A verdict is recorded for every claim that has one, and for no other.
#[test]
fn the_recorded_verdicts_are_those_of_the_claims() {
    let recorded = recorded::recorded().unwrap();
    let ids: BTreeSet<&str> = recorded.findings.iter().map(|finding| finding.id.as_str()).collect();
    let papers = papers();
    let known: BTreeSet<&str> =
        papers.iter().flat_map(|paper| paper.claims.iter().map(|claim| claim.id.as_str())).collect();
    assert!(ids.is_subset(&known));
    assert_eq!(
        ids, known,
        "`anabranch reproduce --full --out DIR` makes DIR/results.json, which is recorded"
    );
}
