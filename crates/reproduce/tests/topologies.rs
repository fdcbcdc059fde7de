//! The topologies of the papers, as their scenarios have them.

use anabranch_lab::scenario::{Condition, Document, Scenario};

fn scenario(name: &str) -> Scenario {
    Document::open(name).unwrap().scenario().unwrap()
}

/// Returns the links of each path from the client to the server.
fn links(condition: &Condition) -> Vec<Vec<usize>> {
    condition.experiment.paths().iter().map(|path| path.data[0].clone()).collect()
}

fn common(condition: &Condition) -> usize {
    let links = links(condition);
    links[0].iter().filter(|link| links.iter().all(|path| path.contains(link))).count()
}

fn are_disjoint(condition: &Condition) -> bool {
    let links = links(condition);
    let pairs = (0..links.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.into_iter().all(|(a, b)| links[a].iter().all(|link| !links[b].contains(link)))
}

fn rtts_ms(condition: &Condition) -> Vec<u64> {
    let experiment = &condition.experiment;
    experiment.paths().iter().map(|path| experiment.graph.path_rtt(path).0 / 1_000_000).collect()
}

fn condition<'a>(scenario: &'a Scenario, name: &str) -> &'a Condition {
    scenario.conditions.iter().find(|condition| condition.name == name).unwrap()
}

#[test]
fn the_paths_of_figure_1_are_disjoint() {
    let web = scenario("dmptcp/web");
    let all = condition(&web, "8 paths");
    assert!(are_disjoint(all));
    // Twice the paper's numbers, which are delays of one way.
    assert_eq!(rtts_ms(all), [20, 40, 60, 80, 120, 160, 180, 200]);
    assert_eq!(rtts_ms(condition(&web, "2 paths")), [20, 40]);
}

#[test]
fn the_paths_of_figures_21_and_24_cross_one_link() {
    for name in ["dmptcp/shared", "dmptcp/shared-long", "dmptcp/mix"] {
        let scenario = scenario(name);
        for condition in &scenario.conditions {
            assert_eq!(common(condition), 1, "{name}");
            assert_eq!(rtts_ms(condition), [40, 60, 80, 100, 120, 140, 160, 180], "{name}");
        }
    }
    let mix = scenario("dmptcp/mix");
    let beside = mix.conditions.iter().map(|condition| {
        let traffic = &condition.experiment.traffic;
        (traffic.flows, traffic.beside.first().map(|beside| beside.flows))
    });
    assert_eq!(beside.collect::<Vec<_>>(), [(30, Some(30)), (10, Some(10))]);
}

#[test]
fn the_testbed_of_figure_26_has_two_paths_and_a_later_join() {
    let testbed = scenario("dmptcp/testbed");
    for condition in &testbed.conditions {
        assert!(are_disjoint(condition) && rtts_ms(condition).len() == 2);
        assert!(
            condition.configs.iter().all(|config| !config.only.simultaneous && config.initial_window == 10)
        );
    }
}

#[test]
fn the_paths_of_the_cp_paper_are_disjoint() {
    for name in ["cp/unequal", "cp/equal", "cp/rate", "cp/delay"] {
        let scenario = scenario(name);
        for condition in &scenario.conditions {
            let experiment = &condition.experiment;
            assert!(are_disjoint(condition), "{name}");
            assert_eq!(rtts_ms(condition)[0], 20, "{name}");
            assert_eq!(experiment.graph.path_rate(&experiment.paths()[0]).0, 8_000_000, "{name}");
        }
    }
    assert_eq!(rtts_ms(&scenario("cp/unequal").conditions[0])[1], 150);
}

#[test]
fn the_paths_of_the_stms_paper_meet_at_one_address() {
    let latency = scenario("stms/latency");
    for condition in &latency.conditions {
        let experiment = &condition.experiment;
        assert!(are_disjoint(condition));
        assert_eq!(rtts_ms(condition)[0], 20);
        assert!(experiment.paths().iter().all(|path| experiment.graph.path_rate(path).0 == 30_000_000));
        assert_eq!(experiment.pairs.len(), 1);
    }
}

#[test]
fn the_tcp_of_figure_18_is_on_the_first_of_two_disjoint_paths() {
    for condition in &scenario("coupled/disjoint").conditions {
        assert!(are_disjoint(condition));
        let beside = condition.experiment.traffic.beside.first().unwrap();
        assert_eq!((beside.flows, beside.path), (1, Some(0)));
    }
}

#[test]
fn the_paths_of_figure_20_cross_one_link() {
    for condition in &scenario("coupled/shared").conditions {
        assert_eq!(common(condition), 1);
        assert_eq!(condition.experiment.traffic.beside.first().map(|beside| beside.flows), Some(1));
    }
}
