//! The wording and the outcome of verdicts.

use super::*;
use crate::report::sentences::sentences;
use crate::stats::Interval;

fn difference(mean: f64, low: f64, high: f64) -> Option<Difference> {
    Some(Difference { mean, ci95: Some(Interval(low, high)) })
}

fn standing(name: &str, value: f64, vs_reference: Option<Difference>) -> Standing {
    Standing {
        name: name.into(),
        multipath: name != "tcp",
        missed: 0,
        stranded: false,
        failed: 0,
        failures: Vec::new(),
        flows: 900,
        value,
        vs_reference,
        vs_best: None,
        unseen: Unseen::default(),
        mostly_unseen: false,
    }
}

fn finding(condition: &str, others: Vec<Standing>) -> Finding {
    Finding {
        condition: condition.into(),
        class: None,
        unit: "flows",
        measure: Measure::MeanTime,
        runs: 30,
        min_effect_pct: 1.0,
        deadline: Duration::from_secs(60),
        is_given: true,
        reference: Some(standing("tcp", 1.0, None)),
        others,
        detour: None,
    }
}

#[test]
fn the_best_is_named_with_its_interval() {
    let mut second = standing("min_rtt", 0.82, difference(-18.0, -21.0, -15.0));
    second.vs_best = difference(2.5, 1.0, 4.0);
    let mut third = standing("blest", 0.801, difference(-19.9, -23.0, -17.0));
    third.vs_best = difference(0.1, -0.2, 0.3);
    let best = standing("dmptcp", 0.8, difference(-20.0, -23.04, -17.0));
    let finding = finding("", vec![second, third, best]);
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "dmptcp serves this traffic best. Its mean completion time is 20.0 % below tcp's (95 % interval -23.0 to -17.0 %).\n\
         blest is practically equal to dmptcp."
    );
    let verdict = finding.verdict();
    assert_eq!((verdict.outcome, verdict.runs_needed), (Outcome::Best, None));
    assert_eq!(verdict.best, ["dmptcp", "blest"]);
    assert!(verdict.tied.is_empty());
}

#[test]
fn nobody_is_called_best_who_cannot_be_told_apart_from_another() {
    let mut second = standing("min_rtt", 0.82, difference(-18.0, -21.0, -15.0));
    second.vs_best = difference(2.0, -1.0, 5.0);
    let mut third = standing("blest", 0.801, difference(-19.9, -23.0, -17.0));
    third.vs_best = difference(0.1, -0.2, 0.3);
    let best = standing("dmptcp", 0.8, difference(-20.0, -23.04, -17.0));
    let finding = finding("", vec![second, third, best]);
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "dmptcp and min_rtt serve this traffic best and cannot be told apart with this number of runs. The mean \
         completion time of dmptcp is 20.0 % below tcp's (95 % interval -23.0 to -17.0 %).\n\
         blest is practically equal to dmptcp."
    );
    let verdict = finding.verdict();
    assert_eq!(verdict.best, ["dmptcp", "min_rtt", "blest"]);
    assert_eq!(verdict.tied, ["min_rtt"]);
    let tail = Finding { measure: Measure::P95, ..finding.clone() };
    assert!(
        sentences(&[finding, tail])
            .contains("\ndmptcp and min_rtt have the shortest tails and cannot be told apart")
    );
}

#[test]
fn a_better_mean_that_the_runs_do_not_show_hides_no_clear_winner() {
    let mut noisy = standing("min_rtt", 0.77, difference(-22.9, -43.9, 2.9));
    noisy.vs_best = difference(-10.0, -35.0, 20.0);
    let finding = finding("", vec![standing("linux", 0.86, difference(-13.9, -18.8, -8.7)), noisy]);
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "linux serves this traffic best. Its mean completion time is 13.9 % below tcp's (95 % interval -18.8 to -8.7 %).\n\
         min_rtt cannot be told apart from linux, nor from tcp, with this number of runs."
    );
    let verdict = finding.verdict();
    assert_eq!((verdict.outcome, verdict.best, verdict.tied), (Outcome::Best, vec!["linux".into()], vec![]));
    // A clear loss is no win.
    let mut worse = finding.clone();
    worse.others[0] = standing("linux", 1.2, difference(20.0, 10.0, 30.0));
    assert_eq!(worse.verdict().outcome, Outcome::Undecided);
    assert_eq!(worse.verdict().compared.as_deref(), Some("min_rtt"));
}

#[test]
fn the_only_multipath_scheduler_is_not_the_best_of_them() {
    let others = vec![
        standing("linux", 1.2, difference(20.0, 10.0, 30.0)),
        Standing { multipath: false, ..standing("tcp@2", 1.5, difference(50.0, 40.0, 60.0)) },
    ];
    let text = sentences(&[finding("", others)]);
    assert!(text.contains("The mean completion time of linux is 20.0 % above tcp's"), "{text}");
}

/// Which of two equal ones is the first in the scenario says nothing.
#[test]
fn of_contenders_with_the_same_mean_none_is_the_best() {
    let of = |others: Vec<Standing>| sentences(&[finding("", others)]);
    let one = |name: &str, value: f64| standing(name, value, difference(20.0, 10.0, 30.0));
    let text = of(vec![one("min_rtt", 1.2), one("blest", 1.2)]);
    assert!(text.contains("of min_rtt, one of the best multipath schedulers, is 20.0 % above"), "{text}");
    let text = of(vec![one("min_rtt", 1.2), one("blest", 1.3)]);
    assert!(text.contains("of min_rtt, the best multipath scheduler, is 20.0 % above"), "{text}");
    let plain = |name: &str, value: f64| Standing { multipath: false, ..one(name, value) };
    let text = of(vec![plain("tcp@2", 1.2), plain("tcp@3", 1.3)]);
    assert!(text.contains("of tcp@2, the next best, is 20.0 % above"), "{text}");
    let text = of(vec![plain("tcp@2", 1.2), plain("tcp@3", 1.2)]);
    assert!(text.contains("of tcp@2 is 20.0 % above"), "{text}");
}

#[test]
fn a_reference_that_delivered_nothing_is_named() {
    let of = |measure: Measure, values: [f64; 3]| {
        let mut finding =
            finding("", vec![standing("min_rtt", values[1], None), standing("blest", values[2], None)]);
        finding.measure = measure;
        finding.reference.as_mut().unwrap().value = values[0];
        sentences(&[finding])
    };
    let nothing = "tcp delivered nothing, so there is nothing to compare with it.";
    assert_eq!(of(Measure::Goodput, [0.0, 9e6, 8e6]), nothing);
    assert_eq!(of(Measure::Goodput, [0.0, 0.0, 8e6]), nothing);
    assert_eq!(of(Measure::Delay, [f64::INFINITY, 0.1, 0.1]), nothing);
    let none = "No two contenders have delivered data, so there is nothing to compare.";
    assert_eq!(of(Measure::Goodput, [0.0, 0.0, 0.0]), none);
    let none = "No flow was delivered by two contenders, so there is nothing to compare.";
    assert_eq!(of(Measure::Delay, [0.1, f64::INFINITY, f64::INFINITY]), none);
}

#[test]
fn a_difference_of_nothing_has_no_sign() {
    let text = sentences(&[finding("", vec![standing("blest", 1.0, difference(0.001, -0.04, 0.03))])]);
    assert!(
        text.contains("The mean completion time of blest is practically tcp's (95 % interval 0.0 to 0.0 %)"),
        "{text}"
    );
}

#[test]
fn no_later_deadline_is_advised_where_all_paths_are_down_for_good() {
    let mut finding = finding("", vec![standing("dmptcp", 0.8, difference(-20.0, -23.0, -17.0))]);
    let late = |standing: &mut Standing| (standing.missed, standing.stranded) = (900, true);
    late(&mut finding.others[0]);
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "There is no winner, because 900 of dmptcp's 900 flows did not end within the deadline of 60 s, by which all of \
         its paths are down for good."
    );
    let tcp = finding.reference.as_mut().unwrap();
    (tcp.flows, tcp.missed, tcp.stranded) = (1, 1, true);
    let text = sentences(core::slice::from_ref(&finding));
    assert!(text.contains("60 s, by which all of their paths are down for good"), "{text}");
    // Another contender's flows may still end.
    finding.reference.as_mut().unwrap().stranded = false;
    assert_eq!(
        sentences(&[finding]),
        "There is no winner, because tcp's only flow and 900 of dmptcp's 900 flows did not end within the deadline of \
         60 s; a later one may help, such as `--set deadline=240s`."
    );
}

#[test]
fn an_interval_that_contains_zero_asks_for_more_runs() {
    let finding = finding("", vec![standing("dmptcp", 0.98, difference(-2.0, -6.0, 2.0))]);
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "dmptcp and tcp cannot be told apart with this number of runs. The mean completion time of dmptcp is 2.0 % \
         below tcp's (95 % interval -6.0 to +2.0 %).\n\
         About 250 runs would tell them apart."
    );
    let verdict = finding.verdict();
    assert_eq!((verdict.outcome, verdict.runs_needed), (Outcome::Undecided, Some(250)));
    assert!(verdict.best.is_empty());
    // Many runs show that so small a difference is none.
    let small = sentences(&[Finding {
        others: vec![standing("dmptcp", 1.0, difference(0.1, -3.0, 3.0))],
        ..finding
    }]);
    assert!(small.ends_with("runs would show whether they are practically equal."), "{small}");
}

#[test]
fn what_is_the_same_in_every_run_has_no_interval_and_more_than_a_million_runs_are_no_advice() {
    let same = sentences(&[finding("", vec![standing("dmptcp", 0.98, difference(-2.0, -2.0, -2.0))])]);
    assert!(same.ends_with("is 2.0 % below tcp's (the same in every run)."), "{same}");
    let hopeless = finding("", vec![standing("dmptcp", 1.0, difference(0.5, -99.0, 100.5))]);
    assert!(hopeless.verdict().runs_needed.is_none_or(|runs| runs > 1_000_000));
    let hopeless = sentences(&[hopeless]);
    assert_eq!(hopeless.lines().count(), 1, "{hopeless}");
}

#[test]
fn differences_below_the_minimum_effect_are_practically_equal() {
    let of = |mean, low, high| finding("", vec![standing("dmptcp", 1.0, difference(mean, low, high))]);
    let assert_equal = |mean, low, high, begin: &str| {
        let finding = of(mean, low, high);
        assert_eq!(finding.verdict().outcome, Outcome::Equal, "{mean} {low} {high}");
        let text = sentences(&[finding]);
        assert!(text.starts_with(&format!("dmptcp and tcp are practically equal{begin}. The ")), "{text}");
    };
    for (mean, low, high) in [(-0.1, -0.6, 0.4), (-0.9, -0.95, -0.85)] {
        assert_equal(mean, low, high, ", within 1 %");
    }
    // The difference is real, and may be a little more.
    for (mean, low, high) in [(0.7, 0.3, 1.1), (1.04, 0.7, 1.3), (-1.04, -1.3, -0.7), (1.3, 0.6, 2.0)] {
        assert_equal(mean, low, high, ": no difference above 1 % is shown");
    }
    let more = of(1.3, 0.9, 1.7);
    assert_eq!(more.verdict().outcome, Outcome::Best);
    // A least effect below the printed digits is as it is.
    let mut tiny = finding("", vec![standing("dmptcp", 1.0, difference(0.04, 0.03, 0.05))]);
    tiny.min_effect_pct = 0.01;
    assert_eq!(tiny.verdict().outcome, Outcome::Best);
    let mut strict = finding("", vec![standing("dmptcp", 0.99, difference(-0.9, -0.95, -0.85))]);
    strict.min_effect_pct = 0.5;
    assert_eq!(strict.verdict().best, ["dmptcp"]);
    // 100 * 0.07 has a remainder.
    strict.min_effect_pct = 100.0 * 0.07;
    assert!(sentences(&[strict]).contains("equal, within 7 %."));
}

#[test]
fn tcp_may_be_the_best() {
    let others = vec![
        standing("min_rtt", 1.5, difference(50.0, 40.0, 60.0)),
        standing("dmptcp", 1.6, difference(60.0, -5.0, 125.0)),
    ];
    let finding = finding("", others);
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "tcp serves this traffic best. The mean completion time of min_rtt, the best multipath scheduler, is 50.0 % \
         above tcp's (95 % interval +40.0 to +60.0 %).\n\
         dmptcp cannot be told apart from tcp with this number of runs."
    );
    let verdict = finding.verdict();
    assert_eq!(
        (verdict.best, verdict.tied),
        (vec!["tcp".into(), "dmptcp".into()], vec!["dmptcp".to_owned()])
    );
}

#[test]
fn each_statement_has_a_line_and_conditions_with_the_same_result_share_one() {
    let clean = finding("loss=0", vec![standing("dmptcp", 0.8, difference(-20.0, -23.0, -17.0))]);
    let same = Finding { condition: "loss=0.1%".into(), ..clean.clone() };
    let lossy = finding("loss=1%", vec![standing("dmptcp", 1.2, difference(20.0, 13.0, 27.0))]);
    let mut tail = clean.clone();
    tail.measure = Measure::P95;
    assert_eq!(
        sentences(&[clean, tail, same, lossy]),
        "loss=0 and loss=0.1%: dmptcp serves this traffic best. Its mean completion time is 20.0 % below \
         tcp's (95 % interval -23.0 to -17.0 %).\n\
         loss=1%: tcp serves this traffic best. The mean completion \
         time of dmptcp is 20.0 % above tcp's (95 % interval +13.0 to +27.0 %).\n\
         loss=0: dmptcp has the shortest tail. Its 95th-percentile time is 20.0 % below tcp's (95 % interval -23.0 to -17.0 %)."
    );
}

#[test]
fn a_class_has_its_means_its_pictures_and_then_its_tails() {
    let of = |measure| Finding {
        measure,
        class: Some("film".into()),
        ..finding("", vec![standing("dmptcp", 0.8, difference(-20.0, -23.0, -17.0))])
    };
    let text = sentences(&[of(Measure::P95), of(Measure::Bitrate), of(Measure::Waiting)]);
    let order: Vec<usize> = ["time of waiting", "bitrate", "95th-percentile"]
        .iter()
        .map(|words| text.lines().position(|line| line.contains(words)).unwrap())
        .collect();
    assert_eq!(order, [0, 1, 2], "{text}");
}

#[test]
fn undelivered_flows_leave_no_winner() {
    let mut finding = finding("", vec![standing("dmptcp", 0.8, difference(-20.0, -23.0, -17.0))]);
    finding.others[0].missed = 3;
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "There is no winner, because 3 of dmptcp's 900 flows did not end within the deadline of 60 s; a later \
         one may help, such as `--set deadline=240s`."
    );
    let verdict = finding.verdict();
    assert_eq!((verdict.outcome, verdict.difference_pct), (Outcome::Incomplete, None));
    assert!(verdict.best.is_empty());
}

#[test]
fn undelivered_flows_of_the_only_contender_are_named() {
    let mut finding = finding("", vec![]);
    finding.reference.as_mut().unwrap().missed = 900;
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "There is no winner, because 900 of tcp's 900 flows did not end within the deadline of 60 s; a later \
         one may help, such as `--set deadline=240s`."
    );
    assert_eq!(finding.verdict().outcome, Outcome::Incomplete);
}

#[test]
fn failed_flows_have_not_missed_the_deadline() {
    use anabranch_stack::event::CloseReason::{NoSubflow, TimedOut};
    let mut finding = finding("", vec![standing("dmptcp", 0.8, difference(-20.0, -23.0, -17.0))]);
    let other = &mut finding.others[0];
    (other.missed, other.failed, other.failures) = (3, 3, vec![Failure::Client(TimedOut); 3]);
    // Several with one reason have it once.
    let failed = "There is no winner, because 3 of dmptcp's 900 flows failed (the client had no answer, or made no \
                  progress, within its timeout)";
    assert_eq!(sentences(core::slice::from_ref(&finding)), format!("{failed}."));
    // Others did miss it.
    let tcp = finding.reference.as_mut().unwrap();
    (tcp.missed, tcp.failed, tcp.failures) = (5, 1, vec![Failure::Server(NoSubflow)]);
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "There is no winner, because 1 of tcp's 900 flows and 3 of dmptcp's 900 flows failed (the server has lost every \
         subflow, and no new one was established in time; the client had no answer, or made no progress, within its \
         timeout), and 4 of tcp's 900 flows did not end within the deadline of 60 s; a later one may help, such as \
         `--set deadline=240s`."
    );
    // A bulk flow has no deadline to miss.
    finding.measure = Measure::Goodput;
    let tcp = finding.reference.as_mut().unwrap();
    (tcp.missed, tcp.failed) = (0, 0);
    tcp.failures.clear();
    assert_eq!(sentences(&[finding]), format!("{failed}."));
}

#[test]
fn more_goodput_is_better() {
    let mut bulk = finding("", vec![standing("min_rtt", 2.0, difference(95.0, 90.0, 99.0))]);
    bulk.measure = Measure::Goodput;
    assert_eq!(
        sentences(&[bulk]),
        "min_rtt serves this traffic best. Its goodput is 95.0 % above tcp's (95 % interval +90.0 to +99.0 %)."
    );
}

#[test]
fn a_contender_ahead_of_a_reference_of_its_kind_is_not_called_the_next_best() {
    let two = |best| {
        let mut finding = finding("", vec![best, standing("dmptcp", 1.3, difference(30.0, 20.0, 40.0))]);
        finding.reference = Some(standing("blest", 1.0, None));
        sentences(&[finding])
    };
    let ahead = two(standing("min_rtt", 0.9, difference(-10.0, -25.0, 5.0)));
    let role = |line: &str, role: &str| {
        line.starts_with("min_rtt and blest cannot be told apart with this number of runs. ")
            && line.contains(&format!("completion time of min_rtt, {role}, is 10.0 %"))
    };
    assert!(role(&ahead, "the best of the others"), "{ahead}");
    let behind = two(standing("min_rtt", 1.1, difference(10.0, -5.0, 25.0)));
    assert!(role(&behind, "the next best"), "{behind}");
}

#[test]
fn one_run_or_one_contender_decides_nothing() {
    assert_eq!(sentences(&[finding("", vec![])]), "There is nothing to compare tcp with.");
    let alone = vec![standing("min_rtt", 2.0, None)];
    let without_reference = Finding { reference: None, others: alone, ..finding("", vec![]) };
    assert_eq!(sentences(&[without_reference]), "There is nothing to compare min_rtt with.");
    let single = Some(Difference { mean: -3.0, ci95: None });
    let finding = Finding { runs: 1, ..finding("", vec![standing("dmptcp", 0.97, single)]) };
    assert_eq!(
        sentences(core::slice::from_ref(&finding)),
        "dmptcp is ahead in the only run. The mean completion time of dmptcp is 3.0 % below tcp's (one run has no \
         interval)."
    );
    assert_eq!(finding.verdict().outcome, Outcome::SingleRun);
}

#[test]
fn without_a_reference_the_second_best_is_one() {
    let mut finding = finding("", vec![standing("dmptcp", 0.8, difference(-20.0, -23.0, -17.0))]);
    finding.reference = Some(standing("min_rtt", 1.0, None));
    finding.is_given = false;
    assert_eq!(
        sentences(&[finding]),
        "dmptcp serves this traffic best. Its mean completion time is 20.0 % below min_rtt's (95 % interval \
         -23.0 to -17.0 %).\n\
         There is no tcp to compare with."
    );
}

#[test]
fn a_reference_on_another_path_is_named_with_its_path() {
    let mut call = finding("", vec![standing("linux", 45.5, difference(4454.0, 4400.0, 4500.0))]);
    call.class = Some("call".into());
    call.detour = Some("tcp uses lte, and multipath connections start on wifi".into());
    assert_eq!(
        sentences(&[call]),
        "call: tcp serves this traffic best. The mean completion time of linux is 45.5 times tcp's (95 % interval 45.0 to \
         46.0 times).\n\
         call: tcp uses lte, and multipath connections start on wifi."
    );
}

#[test]
fn the_line_on_unseen_events_has_the_greatest_bound_and_their_probability() {
    use crate::report::UnseenEvents;
    let bounded = |name: &str, more, mostly_unseen| Standing {
        unseen: Unseen { more, less: 0.0 },
        mostly_unseen,
        ..standing(name, 1.0, difference(2.0, -1.0, 5.0))
    };
    let with = |others| finding("", others);
    let found =
        UnseenEvents::new(&[with(vec![bounded("a", 0.02, false), bounded("b", 0.05, true)])], 30).unwrap();
    // 3/30; one interval that consists mostly of the bound is enough for the line.
    assert_eq!((found.one_in, found.scheduler.as_str(), found.dominates), (10, "b", true));
    let video = Finding { class: Some("video".into()), ..with(vec![bounded("c", 0.09, false)]) };
    let classes = UnseenEvents::new(&[with(vec![bounded("a", 0.02, false)]), video], 30).unwrap();
    assert_eq!(classes.traffic.as_deref(), Some("video"));
    assert!((found.most_pct - 5.0).abs() < 1e-9);
    assert!(!UnseenEvents::new(&[with(vec![bounded("a", 0.02, false)])], 30).unwrap().dominates);
    assert_eq!(UnseenEvents::new(&[with(vec![bounded("a", 0.02, false)])], 2).unwrap().one_in, 1);
    // Percentiles have no such bound.
    let tail = Finding { measure: Measure::P95, ..with(vec![bounded("a", 0.02, false)]) };
    assert_eq!(UnseenEvents::new(&[tail], 30), None);
}
