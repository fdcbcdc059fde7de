//! The notes below a table, from a small comparison with the values of the test.

use anabranch_lab::report::Difference;

use super::*;
use crate::made::{TWO, compared};

/// Returns the text without line breaks and colours.
fn words((scenario, comparison): &(Scenario, Comparison)) -> String {
    let text = anstream::adapter::strip_str(&super::text(scenario, comparison, false)).to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn single(path: &str, chosen: bool, completed: usize, mean_s: f64) -> SinglePath {
    let (path, goodput_bps) = (path.to_owned(), Some(4e6));
    SinglePath { path, chosen, runs: 2, n: 4, completed, mean_s: Some(mean_s), goodput_bps }
}

#[test]
fn a_single_path_on_which_flows_did_not_finish_has_no_time() {
    let mut found = compared(TWO);
    found.1.conditions[0].single_paths = vec![single("wifi", true, 4, 0.0123), single("3", false, 1, 60.0)];
    let text = words(&found);
    let line = "tcp uses wifi, the best of 2 single paths: 12.3 ms in selection runs; path 3 finished 1 of 4 flows profile";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_single_path_is_not_the_best_where_no_flow_finished() {
    let mut found = compared(TWO);
    let of = |chosen: bool, completed: usize, rate: f64| SinglePath {
        goodput_bps: Some(rate),
        ..single(if chosen { "wifi" } else { "3" }, chosen, completed, 60.0)
    };
    let mut line = |paths: [SinglePath; 2]| {
        found.1.conditions[0].single_paths = paths.to_vec();
        let text = words(&found);
        text[text.find("tcp uses").unwrap()..text.find(" profile").unwrap()].to_owned()
    };
    assert_eq!(
        line([of(false, 0, 1e6), of(true, 0, 2e6)]),
        "tcp uses wifi, of 2 single paths the one that delivered most: finished 0 of 4 flows, 2.00 Mbit/s in selection \
         runs; path 3 finished 0 of 4 flows, 1.00 Mbit/s"
    );
    // Nothing tells.
    assert_eq!(
        line([of(true, 0, 0.0), of(false, 0, 0.0)]),
        "tcp uses wifi, the first of 2 equal single paths: finished 0 of 4 flows, 0 Mbit/s in selection runs; path 3 \
         finished 0 of 4 flows, 0 Mbit/s"
    );
    assert_eq!(
        line([of(true, 1, 1e6), of(false, 0, 2e6)]),
        "tcp uses wifi, the best of 2 single paths: finished 1 of 4 flows in selection runs; path 3 finished 0 of 4 flows"
    );
}

#[test]
fn a_difference_that_is_not_the_ratio_of_the_means_has_a_remark() {
    let mut found = compared(TWO);
    let mut text = |mean_s: f64, difference: f64| {
        for row in &mut found.1.rows {
            row.fct_s.mean = Some(if row.scheduler == "min_rtt" { mean_s } else { 0.1 });
            row.vs_reference_pct = Some(Difference {
                mean: if row.scheduler == "min_rtt" { difference } else { 0.0 },
                ci95: None,
            });
        }
        words(&found)
    };
    let remark =
        "vs tcp, % is over the flows that both have; the means of all give -34.0 for min_rtt tcp uses";
    assert!(text(0.066, -27.3).contains(remark));
    for (mean_s, difference, has_one) in [
        (0.066, -34.0, false),
        (0.066, -31.0, false),
        // Of 97 and 103 %.
        (0.097, 3.0, true),
        (0.0998, 0.2, false),
        (0.3, 150.0, true),
    ] {
        let text = text(mean_s, difference);
        assert_eq!(text.contains("that both have"), has_one, "{mean_s} {difference}: {text}");
    }
}

/// The number counts requests, if the flows are measured by them.
#[test]
fn a_single_path_on_which_requests_were_not_answered_counts_requests() {
    let mut found = compared(
        "path = [{ rate = '10 Mbit/s', rtt = '10 ms' }, { rate = '5 Mbit/s', rtt = '20 ms' }]
         traffic = [{ name = 'web', kind = 'requests', size = '1 KB', think = '1 s', requests = 2 }]
         schedulers = ['tcp', 'min_rtt']\nruns = 2",
    );
    found.1.conditions[0].single_paths = vec![single("wifi", true, 2, 9.9), single("lte", false, 1, 60.0)];
    let text = words(&found);
    assert!(
        text.contains("for web: finished 2 of 4 requests in selection runs; lte finished 1 of 4"),
        "{text}"
    );
}

#[test]
fn at_most_three_other_single_paths_are_listed_and_the_rest_is_counted() {
    let mut found = compared(TWO);
    let others = (1..=5).map(|at| single(&format!("x{at}"), false, 4, 0.1));
    found.1.conditions[0].single_paths =
        core::iter::once(single("wifi", true, 4, 0.05)).chain(others).collect();
    let text = words(&found);
    let line = "the best of 6 single paths: 50.0 ms in selection runs; x1 100 ms, x2 100 ms, x3 100 ms and 2 more profile";
    assert!(text.contains(line), "{text}");
}

#[test]
fn different_queues_are_listed_and_equal_ones_are_one() {
    let mut found = compared(TWO);
    for (queues, expected) in
        [(["1 BDP", "1 BDP"], "queue 1 BDP;"), (["1 BDP", "40 ms"], "queues 1 BDP (wifi), 40 ms (lte);")]
    {
        found.1.conditions[0].queues = queues.map(str::to_owned).to_vec();
        let text = words(&found);
        assert!(text.contains(expected), "{text}");
    }
    found.1.conditions[0].shared_queues = vec!["40 ms".to_owned()];
    assert!(words(&found).contains("queues 1 BDP (wifi), 40 ms (lte), on the shared link 40 ms;"));
}

/// Returns the line on the start on lte, where `min_rtt` and `blest` have these differences and numbers of finished flows.
fn start(done: usize, changes: [(Option<[f64; 3]>, usize); 2]) -> String {
    let mut found = compared(TWO);
    found.1.rows.iter_mut().for_each(|row| row.completed = done);
    let change = |(scheduler, (difference, completed)): (&str, (Option<[f64; 3]>, usize))| StartChange {
        scheduler: scheduler.to_owned(),
        difference_pct: difference
            .map(|[mean, low, high]| Difference { mean, ci95: Some(Interval(low, high)) }),
        n: 2,
        completed,
    };
    let changes = ["min_rtt", "blest"].into_iter().zip(changes).map(change).collect();
    found.1.conditions[0].other_starts = vec![OtherStart { path: "lte".to_owned(), runs: 2, changes }];
    let text = words(&found);
    let line = text.split("first subflow on lte instead: ").nth(1).unwrap();
    line.split(" (2 runs)").next().unwrap().to_owned()
}

#[test]
fn a_start_says_whether_it_helps_is_unclear_or_ends_flows() {
    let clear = (Some([59.6, 50.0, 70.0]), 2);
    let unclear = (Some([0.4, -1.0, 2.0]), 2);
    assert_eq!(start(2, [clear, unclear]), "min_rtt +59.6 %, blest +0.4 % (unclear)");
    assert_eq!(start(2, [unclear, unclear]), "no clear difference");
    // Nothing is random: it is 0 in every run.
    assert_eq!(start(2, [(Some([0.0, 0.0, 0.0]), 2), clear]), "min_rtt 0.0 %, blest +59.6 %");
    assert_eq!(start(2, [(None, 1), clear]), "min_rtt finishes 1 of 2 flows, blest +59.6 %");
    assert_eq!(start(2, [(None, 0), (None, 0)]), "no flow finishes");
    // With the start of the comparison they do not finish.
    assert_eq!(start(1, [(None, 2), (None, 1)]), "min_rtt finishes every flow, blest finishes 1 of 2 flows");
    assert_eq!(start(1, [(None, 2), clear]), "every flow finishes");
    // The flows that finish with both starts tell nothing, and the others finish only with this one.
    assert_eq!(
        start(1, [unclear, (Some([0.4, -1.0, 2.0]), 1)]),
        "min_rtt finishes every flow, blest finishes 1 of 2 flows"
    );
    assert_eq!(start(1, [unclear, unclear]), "every flow finishes");
}

#[test]
fn the_winner_and_those_that_cannot_be_told_apart_from_it_have_its_colour() {
    let (scenario, mut comparison) = compared(TWO);
    let verdict = &mut comparison.verdicts[0];
    verdict.best = ["min_rtt", "blest", "tcp"].map(str::to_owned).to_vec();
    verdict.tied = vec!["blest".to_owned()];
    let text = super::text(&scenario, &comparison, false);
    assert!(text.contains(&paint(GOOD, "min_rtt")) && text.contains(&paint(GOOD, "blest")), "{text}");
    // It is practically equal.
    assert!(!text.contains(&paint(GOOD, "tcp on wifi")), "{text}");
}

#[test]
fn the_goodputs_of_all_flows_of_a_path_add_up() {
    let mut found = compared(&TWO.replace("size = '1 KB'", "size = 'bulk', duration = '50 ms', flows = 2"));
    // Two runs of two flows of 4 Mbit/s on each path.
    found.1.conditions[0].single_paths = vec![single("wifi", true, 4, 0.1), single("lte", false, 4, 0.1)];
    let text = words(&found);
    assert!(text.contains("; single paths alone add up to 16.0"), "{text}");
    // Flows that start one after another do not add up.
    let mut found = compared(
        &TWO.replace("size = '1 KB'", "size = 'bulk', duration = '50 ms', flows = 2, every = '10 ms'"),
    );
    found.1.conditions[0].single_paths = vec![single("wifi", true, 4, 0.1), single("lte", false, 4, 0.1)];
    let text = words(&found);
    assert!(text.contains("Mbit/s of payload profile"), "{text}");
}

#[test]
fn the_line_on_unseen_events_is_there_only_if_they_are_most_of_an_interval() {
    use anabranch_lab::report::UnseenEvents;
    let mut found = compared(TWO);
    let mut of = |one_in, dominates, traffic: Option<&str>| {
        let scheduler = "blest".to_owned();
        let traffic = traffic.map(str::to_owned);
        let unseen = UnseenEvents { one_in, most_pct: 8.54, scheduler, traffic, dominates };
        found.1.conditions[0].unseen = Some(unseen);
        words(&found)
    };
    assert!(of(10, true, Some("video")).contains("change the mean of blest for video by 8.54 %"));
    let mut with = |one_in, dominates| of(one_in, dominates, None);
    assert!(!with(10, false).contains("these runs may lack"));
    assert!(with(10, true).contains(
        "for an event that these runs may lack, such as a timeout in less than 1 of 10 runs; it may change the mean of blest by \
         8.54 %"
    ));
    assert!(with(1, true).contains("may lack, such as a timeout; it may"));
}

#[test]
fn conditions_with_other_numbers_of_runs_have_theirs() {
    let mut found = compared(&format!("{TWO}\ncondition = [{{ name = 'at home' }}, {{ name = 'outside' }}]"));
    assert!(words(&found).contains("2 runs each, seed 1;"));
    (found.1.runs, found.1.conditions[1].runs) = (8, 8);
    let text = words(&found);
    assert!(text.contains("2 runs of each contender with at home, 8 with outside seed 1;"), "{text}");
}

#[test]
fn the_congestion_control_of_plain_tcp_is_named_if_it_is_another_one() {
    let mut found = compared(TWO);
    for (tcp, expected) in [("cubic", "; cc cubic;"), ("bbr", "; cc cubic (tcp: bbr);")] {
        found.1.conditions[0].congestion = [tcp, "cubic", "cubic"].map(str::to_owned).to_vec();
        let text = words(&found);
        assert!(text.contains(expected), "{text}");
    }
}
