//! Shares, fair shares and the sentence, for runs with given goodputs.

use anabranch_sim::{EndReport, FlowReport, Outcome, Performance};
use anabranch_units::{Duration, Time};

use super::*;
use crate::made;
use crate::run::RunResult;
use crate::scenario::Document;

/// Returns a bulk flow of `kbps` kbit/s.
fn flow(class: Class, path: usize, kbps: u64) -> FlowResult {
    let report = FlowReport {
        name: String::new(),
        size: None,
        start: Time::ZERO,
        outcome: Outcome::Running,
        fct: None,
        acked: None,
        connected: None,
        delivered: kbps * 1000 / 8,
        written: 0,
        data_acked: 0,
        bytes_by_path: (0..2).map(|at| if at == path { kbps * 1000 / 8 } else { 0 }).collect(),
        subflows_used: 1,
        data_segments: 1,
        retransmitted_segments: 0,
        reinjected_bytes: 0,
        duplicate_bytes: 0,
        rto_count: 0,
        longest_gap: None,
        ended: None,
        app: Default::default(),
        sender: EndReport::default(),
        receiver: EndReport::default(),
    };
    let time = Duration::from_secs(1);
    FlowResult {
        class,
        group: 0,
        pair: 0,
        report,
        path,
        reinjected_segments: 0,
        lower_bound: Some(Duration::ZERO),
        time,
        planned: None,
    }
}

/// Returns runs with these rates of the contender's flows and of the competing TCPs, on path 1.
fn runs(rates: &[(&[u64], &[u64])]) -> Vec<RunResult> {
    let run = |(own, beside): &(&[u64], &[u64])| RunResult {
        links: Vec::new(),
        usage: Vec::new(),
        middleboxes: Vec::new(),
        flows: own
            .iter()
            .map(|kbps| flow(Class::Contender, 0, *kbps))
            .chain(beside.iter().map(|kbps| flow(Class::Beside, 0, *kbps)))
            .collect(),
        performance: Performance::default(),
    };
    rates.iter().map(run).collect()
}

fn thrice(own: &[u64], beside: &[u64]) -> Vec<RunResult> {
    runs(&[(own, beside), (own, beside), (own, beside)])
}

/// Returns a scenario with two paths of these rates, with one competing TCP if `beside`.
fn scenario(paths: [&str; 2], flows: usize, beside: bool) -> Scenario {
    let beside = if beside { "beside = { flows = 1, path = 1 }" } else { "" };
    let text = format!(
        "schedulers = ['min_rtt', 'dmptcp']\nruns = 4\n
         path = [{{ rate = '{}', rtt = '20 ms' }}, {{ rate = '{}', rtt = '20 ms' }}]\n
         [traffic]\nsize = 'bulk'\nflows = {flows}\n{beside}",
        paths[0], paths[1]
    );
    Document::parse("test", text, ".").unwrap().scenario().unwrap()
}

fn of(scenario: &Scenario, first: &[RunResult], second: &[RunResult]) -> Vec<Fairness> {
    let condition = &scenario.conditions[0];
    let entrant = |at, runs| Entrant::new(scenario, condition, at, None, true, runs);
    fairness(scenario, condition, &[entrant(0, first), entrant(1, second)])
}

#[test]
fn a_share_is_of_all_goodput_and_a_fair_one_of_what_the_paths_allow() {
    let scenario = scenario(["20 Mbit/s", "80 Mbit/s"], 1, true);
    // The TCP cannot have more than its path: 20 of 100. It has 10.
    let greedy = runs(&[(&[90_000], &[10_000]), (&[89_000], &[11_000]), (&[91_000], &[9_000])]);
    let fair = thrice(&[80_000], &[20_000]);
    let found = of(&scenario, &greedy, &fair);
    assert_eq!(found.len(), 2);
    let [own, beside] = found[0].parties.as_slice() else { panic!("{found:?}") };
    assert_eq!((own.scheduler.as_str(), beside.scheduler.as_str()), ("min_rtt", "tcp beside min_rtt"));
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    near(own.fair_share_pct, 80.0);
    near(own.share_pct, 90.0);
    near(own.vs_fair_pct.mean, 12.5);
    near(beside.vs_fair_pct.mean, -50.0);
    near(own.goodput_bps.mean, 90e6);
    assert_eq!((own.balance, beside.balance), (Balance::More, Balance::Less));
    assert_eq!(own.share_by_path_pct, [Some(90.0), None]);
    near(
        found[0].jain.mean,
        [8200.0, 8042.0, 8362.0].into_iter().map(|s| 10_000.0 / (2.0 * s)).sum::<f64>() / 3.0,
    );
    assert_eq!(found[1].parties[0].balance, Balance::Equal);
    let text = sentences(&found).unwrap();
    assert!(
        text.starts_with("Fairness: min_rtt gets more than its fair share beside tcp, by 12.5 % (95 %"),
        "{text}"
    );
    assert!(text.contains("; dmptcp gets practically its fair share beside tcp: 0.0 % more"), "{text}");
}

/// A path that is down all the time carries nothing: Multipath TCP has half of the other one, and a TCP on the path that is
/// down has no fair share at all.
#[test]
fn a_path_that_is_down_all_the_time_has_no_fair_share() {
    let down = |path: usize, at: &str| {
        let mut paths =
            ["rate = '20 Mbit/s', rtt = '20 ms'".to_owned(), "rate = '20 Mbit/s', rtt = '9 ms'".to_owned()];
        paths[path] += &format!(", change = [{{ at = '{at}', down = true }}]");
        let text = format!(
            "schedulers = ['min_rtt', 'dmptcp']\nruns = 4\npath = [{{ {} }}, {{ {} }}]
             traffic = {{ size = 'bulk', beside = {{ flows = 1, path = 1 }} }}",
            paths[0], paths[1]
        );
        made::scenario(&text)
    };
    let runs = thrice(&[10_000], &[10_000]);
    let shares = |scenario: &Scenario| -> Vec<f64> {
        of(scenario, &runs, &runs)[0].parties.iter().map(|party| party.fair_share_pct).collect()
    };
    assert_eq!(shares(&down(1, "0 s")), [50.0, 50.0]);
    assert_eq!(shares(&down(0, "1 s")), [50.0, 50.0], "it is up for a second");
    let slow = of(&down(1, "0 s"), &runs, &runs);
    assert_eq!(slow[0].parties[0].balance, Balance::Equal);
    assert_eq!(shares(&down(0, "0 s")), [0.0; 0]);
    let text = sentences(&of(&down(0, "0 s"), &runs, &runs)).unwrap();
    assert_eq!(
        text,
        "Fairness: Jain's indexes are min_rtt 1.000 (95 % interval 1.000 to 1.000) and dmptcp 1.000 (95 % interval 1.000 to 1.000)."
    );
}

#[test]
fn an_interval_with_the_fair_share_in_it_names_nobody() {
    let scenario = scenario(["20 Mbit/s", "20 Mbit/s"], 1, true);
    let some = runs(&[(&[25_000], &[15_000]), (&[14_000], &[26_000]), (&[24_000], &[16_000])]);
    let found = of(&scenario, &some, &some);
    assert_eq!(found[0].parties[0].balance, Balance::Undecided);
    assert!(found[0].parties[0].runs_needed.unwrap() > 3);
    let text = sentences(&found).unwrap();
    assert!(
        text.contains(
            "the shares of min_rtt and dmptcp beside tcp cannot be told apart from fair ones with this number of runs: 5.0 % more ("
        ),
        "{text}"
    );
    // A single run is never certain.
    let found = of(&scenario, &some[..1], &some[..1]);
    assert_eq!(found[0].parties[0].balance, Balance::SingleRun);
    assert!(sentences(&found).unwrap().contains("in the only run min_rtt and dmptcp get"));
}

#[test]
fn several_flows_are_judged_one_by_one() {
    let scenario = scenario(["20 Mbit/s", "20 Mbit/s"], 2, false);
    let uneven = runs(&[(&[30_000, 10_000], &[]), (&[29_000, 11_000], &[]), (&[31_000, 9_000], &[])]);
    let even = thrice(&[20_000, 20_000], &[]);
    let found = of(&scenario, &uneven, &even);
    assert!(found[0].parties.is_empty());
    let flows: Vec<_> = found[0].flows.iter().map(|flow| (flow.flow, flow.balance)).collect();
    assert_eq!(flows, [(Some(1), Balance::More), (Some(2), Balance::Less)]);
    let text = sentences(&found).unwrap();
    assert!(text.contains("flow 1 of min_rtt gets more than its fair share, by 50.0 % ("), "{text}");
    assert!(text.contains("flow 2 of min_rtt gets less than its fair share, by 50.0 % ("), "{text}");
    assert!(
        text.contains("each flow of dmptcp gets practically its fair share; Jain's indexes are min_rtt 0.8"),
        "{text}"
    );
    // Contenders with the same result share a sentence.
    let found = of(&scenario, &even, &even);
    let text = sentences(&found).unwrap();
    assert!(
        text.starts_with("Fairness: each flow of min_rtt and dmptcp gets practically its fair share; Jain's"),
        "{text}"
    );
    let open = runs(&[(&[25_000, 15_000], &[]), (&[14_000, 26_000], &[]), (&[24_000, 16_000], &[])]);
    let text = sentences(&of(&scenario, &open, &open)).unwrap();
    assert!(
        text.starts_with(
            "Fairness: the flows of min_rtt and dmptcp cannot be told apart from their fair shares with this number of runs; Jain's"
        ),
        "{text}"
    );
}

/// The contender's flows are the first of a run.
#[test]
fn the_flows_of_each_side_have_numbers_from_1() {
    let scenario = made::scenario(
        "schedulers = ['min_rtt', 'dmptcp']\nruns = 3
         path = [{ rate = '20 Mbit/s', rtt = '20 ms' }, { rate = '20 Mbit/s', rtt = '9 ms' }]
         traffic = { size = 'bulk', flows = 2, beside = { flows = 2, path = 1 } }",
    );
    let runs = thrice(&[10_000, 10_000], &[10_000, 10_000]);
    let found = of(&scenario, &runs, &runs);
    let flows: Vec<_> = found[0].flows.iter().map(|flow| (flow.scheduler.as_str(), flow.flow)).collect();
    let (own, beside) = ("min_rtt", "tcp beside min_rtt");
    assert_eq!(flows, [(own, Some(1)), (own, Some(2)), (beside, Some(1)), (beside, Some(2))]);
}

/// Two of three runs are even, so that the interval of the mean would reach beyond 1.
#[test]
fn no_interval_of_jains_index_exceeds_1() {
    let scenario = scenario(["20 Mbit/s", "20 Mbit/s"], 2, false);
    let some = runs(&[(&[20_000, 20_000], &[]), (&[19_000, 21_000], &[]), (&[38_000, 2_000], &[])]);
    let jain = of(&scenario, &some, &some)[0].jain;
    let Interval(low, high) = jain.ci95.unwrap();
    assert!(0.0 <= low && low < jain.mean && jain.mean < high && high <= 1.0, "{jain:?}");
}

#[test]
fn one_flow_shares_with_nobody() {
    let scenario = scenario(["20 Mbit/s", "20 Mbit/s"], 1, false);
    let alone = thrice(&[30_000], &[]);
    assert!(of(&scenario, &alone, &alone).is_empty());
    assert_eq!(sentences(&[]), None);
}

#[test]
fn the_interval_of_an_index_stays_between_0_and_1_and_reaches_further_down() {
    let Interval(low, high) = below_one(0.97, Interval(0.94, 1.0));
    assert!(low < 0.94 && 0.97 < high && high < 1.0, "{low} {high}");
    assert_eq!(below_one(1.0, Interval(1.0, 1.0)), Interval(1.0, 1.0));
    assert_eq!(below_one(0.4, Interval(-0.8, 1.6)).0, 0.0);
    // A narrow interval keeps its width.
    let Interval(low, high) = below_one(0.9, Interval(0.899, 0.901));
    assert!((low - 0.899).abs() < 1e-4 && (high - 0.901).abs() < 1e-4, "{low} {high}");
}
