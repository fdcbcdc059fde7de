//! Combinations of variants: where single ones turn one check each, pairs and triples are tried.

use crate::claims::{Paper, Variant};
use crate::finding::{Finding, Tried};
use crate::judge::Status;

/// The greatest number of combinations of a claim.
const MOST: usize = 4;

/// A comparison of a claim: the places of its check and of its condition.
type Place = (usize, usize);

/// Returns the combinations of two or three variants of a claim that together turn every comparison that does not hold,
/// of a part that is still open. No smaller set of them does, and no two of them set the same key.
pub(crate) fn combinations(paper: &Paper, finding: &Finding) -> Vec<Variant> {
    let mut found: Vec<Vec<&Variant>> = Vec::new();
    for part in finding.parts.iter().filter(|part| !matches!(part.status, Status::Holds | Status::Variant)) {
        let mut open: Vec<Place> = Vec::new();
        for (at, check) in finding.checks.iter().enumerate().filter(|(_, check)| check.part == part.name) {
            let bad = |(_, line): &(usize, &crate::finding::Line)| line.status != Status::Holds;
            open.extend(check.lines.iter().enumerate().filter(bad).map(|(line, _)| (at, line)));
        }
        let turns = |tried: &Tried, place: &Place| {
            let line = tried.checks.get(place.0).and_then(|check| check.lines.get(place.1));
            line.is_some_and(|line| line.status == Status::Holds)
        };
        let movers: Vec<(&Variant, Vec<bool>)> = finding
            .variants
            .iter()
            .filter_map(|tried| Some((paper.variant(&tried.name)?, tried)))
            .map(|(variant, tried)| (variant, open.iter().map(|place| turns(tried, place)).collect()))
            .filter(|(_, turned): &(_, Vec<bool>)| turned.contains(&true))
            .collect();
        for size in [2, 3] {
            for set in sets(movers.len(), size) {
                let covers = |of: &[usize]| (0..open.len()).all(|at| of.iter().any(|n| movers[*n].1[at]));
                let is_least = set.iter().all(|out| {
                    let rest: Vec<usize> = set.iter().copied().filter(|n| n != out).collect();
                    !covers(&rest)
                });
                let own: Vec<&Variant> = set.iter().map(|n| movers[*n].0).collect();
                if covers(&set) && is_least && !contradict(&own) && !found.contains(&own) {
                    found.push(own);
                }
            }
        }
    }
    found.truncate(MOST);
    found.into_iter().map(|own| joined(&own)).collect()
}

/// Returns all sets of `size` of the numbers below `count`.
fn sets(count: usize, size: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..size {
        let longer = |set: &Vec<usize>| {
            let from = set.last().map_or(0, |last| last + 1);
            (from..count).map(|next| [set.clone(), vec![next]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// True if two of the variants set the same key, or replace the contender.
fn contradict(variants: &[&Variant]) -> bool {
    let key = |set: &String| set.split_once('=').map_or(set.clone(), |(key, _)| key.trim().to_owned());
    let keys: Vec<String> = variants.iter().flat_map(|variant| variant.set.iter().map(key)).collect();
    let twice = |at: usize| keys[..at].contains(&keys[at]);
    variants.iter().filter(|variant| variant.of.is_some()).count() > 1 || (1..keys.len()).any(twice)
}

/// Returns the variant that sets the values of all of these.
pub(crate) fn joined(variants: &[&Variant]) -> Variant {
    let texts = |of: fn(&Variant) -> &str, between: &str| {
        variants.iter().map(|variant| of(variant)).collect::<Vec<_>>().join(between)
    };
    Variant {
        name: texts(|variant| &variant.name, " + "),
        what: texts(|variant| &variant.what, "; "),
        set: variants.iter().flat_map(|variant| variant.set.iter().cloned()).collect(),
        of: variants.iter().find_map(|variant| variant.of.clone()),
        with: Vec::new(),
        standard_for: Vec::new(),
        except: variants.iter().flat_map(|variant| variant.except.iter().cloned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Checked, Line};

    fn checked(holds: &[bool]) -> Vec<Checked> {
        let line = |holds: &bool| Line {
            status: if *holds { Status::Holds } else { Status::Fails },
            ..Line::default()
        };
        holds.iter().map(|own| Checked { lines: vec![line(own)], ..Checked::default() }).collect()
    }

    fn names(variants: &[(&str, &str, [bool; 3])]) -> Vec<String> {
        let mut text = "id = 'x'\ntitle = 'X'\n".to_owned();
        for (name, set, _) in variants {
            text += &format!("[[variant]]\nname = '{name}'\nwhat = ''\nset = ['{set}']\n");
        }
        text += "[[claim]]\nid = 'X1'\nfigure = ''\nclaim = ''\nkind = 'scenario'\n";
        let paper = Paper::parse("x", &text).unwrap();
        let mut finding = Finding::of(&paper, &paper.claims[0]);
        finding.checks = checked(&[true, false, false]);
        for (name, _, holds) in variants {
            let (name, checks) = ((*name).to_owned(), checked(holds));
            finding.variants.push(Tried { name, what: String::new(), status: Status::Fails, checks });
        }
        finding.parts = crate::parts::parts(&finding);
        combinations(&paper, &finding).into_iter().map(|variant| variant.name).collect()
    }

    #[test]
    fn variants_that_turn_one_check_each_are_tried_together() {
        let (first, second) = ([true, true, false], [true, false, true]);
        assert_eq!(names(&[("a", "k=1", first), ("b", "l=1", second)]), ["a + b"]);
        // One that turns nothing is no part of a combination, and one that turns the same check is another one.
        let none = [true, false, false];
        assert_eq!(names(&[("a", "k=1", first), ("n", "m=1", none), ("b", "l=1", second)]), ["a + b"]);
        let same = names(&[("a", "k=1", first), ("c", "m=1", first), ("b", "l=1", second)]);
        assert_eq!(same, ["a + b", "c + b"]);
        assert!(names(&[("a", "k=1", first), ("c", "m=1", first)]).is_empty());
    }

    #[test]
    fn at_most_four_combinations_are_tried() {
        let (first, second) = ([true, true, false], [true, false, true]);
        let all = [("a", "k=1", first), ("b", "l=1", first), ("c", "m=1", second), ("d", "n=1", second)];
        assert_eq!(names(&all), ["a + c", "a + d", "b + c", "b + d"]);
        assert_eq!(
            names(&[&all[..], &[("e", "o=1", second)]].concat()),
            ["a + c", "a + d", "a + e", "b + c"]
        );
    }

    #[test]
    fn two_values_of_one_key_are_no_combination() {
        assert!(names(&[("a", "k=1", [true, true, false]), ("b", "k=2", [true, false, true])]).is_empty());
    }

    #[test]
    fn sets_have_each_member_once() {
        assert_eq!(sets(3, 2), [[0, 1], [0, 2], [1, 2]]);
        assert_eq!((sets(4, 3).len(), sets(1, 2).len()), (4, 0));
    }

    #[test]
    fn two_variants_that_replace_the_contender_are_no_combination() {
        let variant = |set: &[&str], of: Option<&str>| Variant {
            name: String::new(),
            what: String::new(),
            set: set.iter().map(|set| (*set).to_owned()).collect(),
            of: of.map(str::to_owned),
            with: Vec::new(),
            standard_for: Vec::new(),
            except: Vec::new(),
        };
        let (blest, linux) = (variant(&["a=1"], Some("blest")), variant(&["b=1"], Some("linux")));
        let plain = variant(&["c = 1"], None);
        assert!(contradict(&[&blest, &linux]) && !contradict(&[&blest, &plain]));
        // Spaces around a key are no part of it.
        assert!(contradict(&[&plain, &variant(&["c=2"], None)]));
    }
}
