//! The way from checks to the verdict of a claim: variants, quick runs, seeds, and the evidence in words.

use core::sync::atomic::AtomicBool;
use std::path::Path;

use anabranch_reproduce::claims::{Claim, Paper};
use anabranch_reproduce::finding::{Finding, score};
use anabranch_reproduce::journal::Journal;
use anabranch_reproduce::reproduce::{Options, reproduce};
use anabranch_reproduce::{Status, library};

/// Without random draws: all runs are equal, and each check holds or fails.
const SCENARIO: &str = "
schedulers = ['tcp@1', 'tcp@2', 'min_rtt']
runs = 3
phases = false
path = [{ rate = '20 Mbit/s', rtt = '20 ms' }, { rate = '5 Mbit/s', rtt = '20 ms' }]
traffic = { size = '500 KB', direction = 'upload' }
[[condition]]
name = 'short'
[[condition]]
name = 'long'
traffic.size = '2 MB'
";

const HEAD: &str = "
id = 'own'
title = 'A paper'

[[variant]]
name = 'equal'
what = 'both paths have the same rate'
set = ['path.2.rate=20 Mbit/s']

[[variant]]
name = 'fast'
what = 'the second path is faster'
set = ['path.2.rate=80 Mbit/s']

[[variant]]
name = 'other'
what = 'another contender'
set = []
of = 'tcp@1'
";

fn findings(claims: &str, quick: bool, variants: bool, seed: Option<u64>) -> Vec<Finding> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("claims.toml"), format!("{HEAD}{claims}")).unwrap();
    std::fs::write(directory.path().join("one.toml"), SCENARIO).unwrap();
    run(directory.path(), quick, variants, seed)
}

fn run(directory: &Path, quick: bool, variants: bool, seed: Option<u64>) -> Vec<Finding> {
    let paper = library::open(directory).unwrap();
    let cancelled = AtomicBool::new(false);
    let options = Options { quick, variants, seed, ..Options::new(&cancelled) };
    let all = |_: &Paper, _: &Claim| true;
    reproduce(std::slice::from_ref(&paper), &all, &mut Journal::in_memory(), &options).unwrap().findings
}

/// A claim with these variants and checks.
fn claim(id: &str, variants: &str, checks: &[&str]) -> String {
    let head =
        format!("[[claim]]\nid = '{id}'\nfigure = '1'\nkind = 'scenario'\nclaim = 'c'\nreason = 'r'\n");
    let checks: Vec<String> = checks.iter().map(|check| format!("[[claim.check]]\n{check}\n")).collect();
    format!("{head}variants = [{variants}]\n{}", checks.concat())
}

const SECOND_IS_FASTER: &str = "scenario = 'one'\nmetric = 'done'\nof = 'tcp@2'\nto = 'tcp@1'\nis = 'less'";
const SECOND_IS_SLOWER: &str =
    "scenario = 'one'\nmetric = 'done'\nof = 'tcp@2'\nto = 'tcp@1'\nis = 'greater'";

#[test]
fn variants_are_tried_in_their_order_until_one_holds() {
    let claims = [
        claim("X1", "'equal', 'fast', 'other'", &[SECOND_IS_FASTER]),
        claim("X2", "'equal', 'fast'", &[SECOND_IS_SLOWER]),
        claim("X3", "'equal'", &[SECOND_IS_FASTER]),
        claim("X4", "'other'", &[SECOND_IS_SLOWER]),
    ];
    let all = findings(&claims.concat(), false, true, None);
    let seen: Vec<_> = all
        .iter()
        .map(|finding| {
            let tried = finding.variants.iter().map(|tried| (tried.name.as_str(), tried.status));
            (finding.status, tried.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(seen[0], (Status::Variant, vec![("equal", Status::Fails), ("fast", Status::Holds)]));
    // One that holds needs none.
    assert_eq!(seen[1], (Status::Holds, vec![]));
    assert_eq!(seen[2], (Status::Fails, vec![("equal", Status::Fails)]));
    assert_eq!(seen[3], (Status::Holds, vec![]));
    assert_eq!(score(all.iter()), [2, 1, 1, 0, 0, 0]);
    // The evidence has the plain result first, then the variants: those that fail by name, one that holds in full.
    let words = &all[0].evidence;
    let plain = words.find("(fails)").unwrap();
    let equal = words.find(". With equal: fails too").unwrap();
    let fast = words.find(". With fast: short: tcp@2 ").unwrap();
    assert!(plain < equal && equal < fast, "{words}");
    // Without variants the claim fails.
    let plain = findings(&claims[0], false, false, None);
    assert_eq!((plain[0].status, plain[0].variants.len()), (Status::Fails, 0));
}

#[test]
fn a_variant_may_replace_the_contender_and_all_of_its_checks_have_to_hold() {
    // Less than 0.8 s on the second path for neither size; on the first for one of them.
    let within = |condition: &str| {
        format!(
            "scenario = 'one'\nin = ['{condition}']\nmetric = 'done'\nof = 'tcp@2'\nis = 'within'\nupto = 800"
        )
    };
    let (short, long) = (within("short"), within("long"));
    let claims = [
        claim("X1", "'other'", &[&short]),
        claim("X2", "'other'", &[&short, &long]),
        claim("X3", "'fast'", &[&short, &long]),
    ];
    let all = findings(&claims.concat(), false, true, None);
    let statuses: Vec<_> = all
        .iter()
        .map(|finding| (finding.status, finding.variants[0].status, finding.checks.len()))
        .collect();
    assert_eq!(
        statuses,
        [
            (Status::Variant, Status::Holds, 1),
            (Status::Fails, Status::Fails, 2),
            (Status::Variant, Status::Holds, 2)
        ]
    );
    assert_eq!(all[0].variants[0].checks[0].names, ("tcp@1".to_owned(), None));
}

/// A check without conditions has all of its scenario; one with `to-in` compares each with that condition.
#[test]
fn conditions_are_those_of_the_check_or_all_of_the_scenario() {
    let against = "scenario = 'one'\nmetric = 'done'\nof = 'tcp@1'\nto-in = 'short'\nis = 'greater'";
    let picked = format!("{against}\npick = 'greatest'");
    let chosen = format!("{against}\nin = ['long']");
    let measure = "scenario = 'one'\nin = ['long']\nmetric = 'acked'\nof = 'tcp@1'\nto-metric = 'done'\nis = 'greater'\ndifference = true";
    let claims = claim("X1", "", &[SECOND_IS_SLOWER, against, &picked, &chosen, measure]);
    let all = findings(&claims, false, false, None);
    let lines = |check: usize| {
        let lines = all[0].checks[check].lines.iter();
        lines.map(|line| (line.condition.as_str(), line.status)).collect::<Vec<_>>()
    };
    assert_eq!(lines(0), [("short", Status::Holds), ("long", Status::Holds)]);
    assert_eq!(lines(1), [("short", Status::Fails), ("long", Status::Holds)]);
    assert_eq!(lines(2), [("long", Status::Holds)]);
    assert_eq!(lines(3), [("long", Status::Holds)]);
    // The acknowledgement of the last byte needs half a round trip.
    let late = all[0].checks[4].lines[0].value.unwrap();
    assert!((10.0..11.0).contains(&late), "{late}");
    let names: Vec<_> = all[0].checks.iter().map(|check| check.names.1.as_deref()).collect();
    assert_eq!(names, [Some("tcp@1"), Some("short"), Some("short"), Some("short"), Some("tcp@1")]);
    assert_eq!(all[0].status, Status::Fails);
}

#[test]
fn quick_runs_are_fewer_and_a_seed_replaces_that_of_the_scenario() {
    let check = "scenario = 'one'\nset = ['path.1.loss=3%']\nruns = 6\nquick-runs = 2\nin = ['short']\nmetric = 'done'\nof = 'tcp@1'\nis = 'within'\nfrom = 0";
    let claims = claim("X1", "", &[check]);
    let line = |quick, seed| findings(&claims, quick, false, seed)[0].checks[0].lines[0].clone();
    let (full, quick) = (line(false, None), line(true, None));
    assert_eq!((full.runs, quick.runs), (6, 2));
    let (first, second) = (line(false, Some(1)), line(false, Some(2)));
    // The scenario's own seed is 1.
    assert_eq!(full.of, first.of);
    assert_ne!(first.of, second.of);
}
