//! The seeds of runs, by their purpose.

use std::collections::BTreeSet;

use super::*;
use crate::made;

fn task(prepared: &Prepared<'_>, purpose: Purpose, run: u32) -> Task {
    prepared.task(&Job { condition: 0, contender: 1, run, path: Some(1), purpose })
}

/// The path of `tcp`, which is the reference, is chosen in runs that no contender is judged in: otherwise it would profit from
/// the luck that chose it.
#[test]
fn runs_that_select_a_path_have_other_seeds_than_those_that_judge() {
    let scenario = made::scenario(made::TWO_PATHS);
    let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
    let seeds = |purpose: Purpose| -> BTreeSet<u64> {
        (0..1000).map(|run| task(&prepared, purpose, run).draws.seed).collect()
    };
    let (judged, selected) = (seeds(Purpose::Compare), seeds(Purpose::Select));
    assert_eq!((judged.len(), selected.len()), (1000, 1000));
    assert!(judged.is_disjoint(&selected));
    assert_eq!(seeds(Purpose::SelectBeside), selected);
    // Common random numbers: all other runs of a number have the seed of the comparison.
    for run in 0..10 {
        for purpose in [Purpose::Compare, Purpose::Alone, Purpose::OtherStart] {
            assert_eq!(task(&prepared, purpose, run).draws.seed, scenario.run_seed(run), "{purpose:?}");
        }
    }
    assert_ne!(scenario.run_seed(0), made::scenario(&format!("seed = 2\n{}", made::TWO_PATHS)).run_seed(0));
}

#[test]
fn only_the_choice_for_competing_flows_simulates_them_alone() {
    let scenario = made::scenario(made::TWO_PATHS);
    let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
    for purpose in
        [Purpose::Compare, Purpose::Select, Purpose::SelectBeside, Purpose::Alone, Purpose::OtherStart]
    {
        let task = task(&prepared, purpose, 3);
        assert_eq!(task.beside_alone, purpose == Purpose::SelectBeside, "{purpose:?}");
        assert_eq!((task.contender, task.path), (1, Some(1)));
    }
}
