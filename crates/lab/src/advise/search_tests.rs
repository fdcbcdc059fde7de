//! The candidates that are screened, and the reading of a judgement.

use core::sync::atomic::AtomicBool;

use super::*;
use crate::made;
use crate::report::Difference;

const PATHS: &str = "
    path = [
        { rate = '10 Mbit/s', rtt = '10 ms', backup = true },
        { rate = '5 Mbit/s', rtt = '60 ms' },
        { rate = '5 Mbit/s', rtt = '30 ms' },
    ]
    traffic = { size = '20 KB' }
    initial = 'best'
";

fn with_setting<T>(text: &str, test: impl FnOnce(&Setting<'_>) -> T) -> T {
    with_application(text, Application::Anabranch, test)
}

fn options(cancelled: &AtomicBool, min_gain: f64, application: Application) -> Options<'_> {
    Options { jobs: 1, cancelled, progress: &|_| {}, condition: None, margins: false, min_gain, application }
}

/// Calls a test with the setting of an application that calls 2 % a gain.
fn with_application<T>(text: &str, application: Application, test: impl FnOnce(&Setting<'_>) -> T) -> T {
    let document = Document::parse("test.toml", text, ".").unwrap();
    let cancelled = AtomicBool::new(false);
    let options = options(&cancelled, 0.02, application);
    test(&Setting::new(&document, &options).unwrap_or_else(|error| panic!("{error:?}")))
}

#[test]
fn a_connection_starts_on_no_backup_unless_there_are_only_backups() {
    assert_eq!(with_setting(PATHS, |setting| setting.starts()), [2, 1], "the nearer one first");
    let all = PATHS.replace("60 ms'", "60 ms', backup = true").replace("30 ms'", "30 ms', backup = true");
    assert_eq!(with_setting(&all, |setting| setting.starts()), [0, 2, 1]);
    let given = PATHS.replace("initial = 'best'", "initial = 1");
    assert_eq!(with_setting(&given, |setting| setting.starts()), [0]);
}

fn of(mean: f64, low: f64, high: f64) -> Option<Difference> {
    Some(Difference { mean, ci95: Some(Interval(low, high)) })
}

/// Returns the value of `read` for a judgement in which `min_rtt` has each of `differences` from TCP, with a least effect of
/// 1 % and a least gain of 2 %.
fn readings<T>(
    size: &str,
    differences: &[Option<Difference>],
    read: fn(&Setting<'_>, &Comparison, &Candidate) -> T,
) -> Vec<T> {
    let text = made::TWO_PATHS.replace("'1 KB'", size);
    let mut judgement = made::compared(&made::scenario(&text));
    judgement.min_effect_pct = 1.0;
    with_setting(&text, |setting| {
        let mut read = |difference: &Option<Difference>| {
            let row = judgement.rows.iter_mut().find(|row| row.scheduler == "min_rtt").unwrap();
            row.vs_reference_pct = *difference;
            read(setting, &judgement, &plain(&"min_rtt"))
        };
        differences.iter().map(&mut read).collect()
    })
}

const BULK: &str = "'bulk', duration = '100 ms'";

#[test]
fn an_answer_is_the_reading_of_the_difference_by_the_measure() {
    let all = [of(5.0, 4.0, 6.0), of(-5.0, -6.0, -4.0), of(0.5, 0.4, 0.6), of(5.0, -1.0, 11.0), None];
    let answers = |size: &str| readings(size, &all, |setting, judgement, of| setting.answer(judgement, of));
    use Answer::{Costs, Equal, Pays, Undecided};
    assert_eq!(answers("'1 KB'"), [Costs, Pays, Equal, Undecided, Undecided]);
    assert_eq!(answers(BULK), [Pays, Costs, Equal, Undecided, Undecided]);
}

#[test]
fn what_is_less_than_a_gain_does_not_pay() {
    let answers = |all: &[Option<Difference>], size: &str| {
        readings(size, all, |setting, judgement, of| setting.answer(judgement, of))
    };
    use Answer::{Costs, Pays, Small, Undecided};
    // Certain, and more than the least effect; the last two hold 0, and one of them also a gain.
    let all = [of(-1.9, -2.4, -1.4), of(-2.0, -2.4, -1.6), of(-0.7, -1.9, 0.5), of(-0.7, -2.1, 0.5)];
    assert_eq!(answers(&all, "'1 KB'"), [Small, Pays, Small, Undecided]);
    // A cost is one from the least effect on.
    assert_eq!(
        answers(&[of(1.9, 1.4, 2.4), of(0.7, -0.5, 1.9), of(0.7, -0.5, 2.1)], "'1 KB'"),
        [Costs, Small, Undecided]
    );
    let more = [of(1.9, 1.4, 2.4), of(2.0, 1.6, 2.4), of(-1.9, -2.4, -1.4)];
    assert_eq!(answers(&more, BULK), [Small, Pays, Costs]);
}

#[test]
fn a_judgement_is_repeated_where_it_cannot_tell_a_gain_from_less() {
    let clear = |all: &[Option<Difference>], size: &str| {
        readings(size, all, |setting, judgement, of| setting.is_clear(judgement, of))
    };
    let times = [of(-1.9, -2.4, -1.4), of(-2.5, -3.0, -1.9), of(-2.5, -3.0, -2.1), of(-1.5, -1.9, -1.1)];
    assert_eq!(clear(&times, "'1 KB'"), [false, false, true, true]);
    assert_eq!(
        clear(&[of(5.0, -1.0, 11.0), of(5.0, 1.0, 9.0), of(0.1, -0.2, 0.4)], "'1 KB'"),
        [false, true, true]
    );
    assert_eq!(clear(&[of(1.9, 1.4, 2.4), of(2.5, 2.1, 3.0)], BULK), [false, true]);
}

#[test]
fn an_application_on_a_stock_kernel_is_told_what_another_one_would_gain() {
    let text = made::TWO_PATHS;
    let mut judgement = made::compared(&made::scenario(text));
    let candidates = [plain(&KERNEL), plain(&"blest"), plain(&"min_rtt")];
    judgement.rows[0].scheduler = KERNEL.to_owned();
    let mut beyond = |application: Application, times: [f64; 3]| {
        for (row, candidate) in judgement.rows.iter_mut().zip([KERNEL, "min_rtt", "blest"]) {
            let at = candidates.iter().position(|other| other.scheduler == candidate).unwrap();
            row.fct_s.mean = Some(times[at]);
        }
        with_application(text, application, |setting| {
            setting.beyond(&judgement, &candidates).map(|best| best.name.clone())
        })
    };
    assert_eq!(beyond(Application::Kernel, [1.0, 0.97, 0.96]).as_deref(), Some("min_rtt"));
    assert_eq!(beyond(Application::Kernel, [1.0, 0.97, 0.98]).as_deref(), Some("blest"));
    // 2 % is a gain, and less is none.
    assert_eq!(beyond(Application::Kernel, [1.0, 0.985, 0.99]), None);
    assert_eq!(beyond(Application::Anabranch, [1.0, 0.97, 0.96]), None);
    // A candidate that is slower than TCP is no gain.
    let tcp = Record { scheduler: "tcp".to_owned(), ..judgement.rows[0].clone() };
    judgement.rows.push(tcp);
    let mut than_tcp = |mean: f64| {
        for (row, mean) in judgement.rows.iter_mut().zip([1.0, 0.5, 0.6, mean]) {
            row.fct_s.mean = Some(mean);
        }
        with_application(text, Application::Kernel, |setting| {
            setting.beyond(&judgement, &candidates).is_some()
        })
    };
    assert!(than_tcp(0.6));
    assert!(!than_tcp(0.4));
}

/// BBR is faster over a lossy path; it is named only if that is more than the least difference that counts.
#[test]
fn tcp_has_another_congestion_control_only_if_that_matters() {
    let lossy = |min_effect: &str, finishes: bool| {
        let text = format!(
            "path = [{{ rate = '10 Mbit/s', rtt = '40 ms', loss = '3%' }}, {{ rate = '1 Mbit/s', rtt = '300 ms' }}]
             traffic = {{ size = '200 KB' }}\nmin-effect = {min_effect}\nschedulers = ['tcp', 'min_rtt']"
        );
        with_setting(&text, |setting| {
            let mut before = setting.compare(&Plan::screening(&[], 0, None), &[]).unwrap();
            before.rows.iter_mut().for_each(|row| row.completed -= usize::from(!finishes));
            setting.single_congestion(&before, 0).unwrap()
        })
    };
    assert_eq!(lossy("0.01", true).as_deref(), Some("bbr"));
    assert_eq!(lossy("0.99", true), None);
    // Without it TCP does not finish, and that is no number.
    assert_eq!(lossy("0.99", false).as_deref(), Some("bbr"));
}

#[test]
fn a_value_gains_by_more_than_a_part_and_over_unfinished_flows() {
    const NEVER: f64 = f64::INFINITY;
    assert!(gains(0.97, 1.0, 0.02) && !gains(0.99, 1.0, 0.02));
    assert!(gains(-1.03, -1.0, 0.02) && !gains(-1.01, -1.0, 0.02) && !gains(-0.9, -1.0, 0.02));
    assert!(gains(9.0, NEVER, 0.02) && !gains(NEVER, NEVER, 0.02) && !gains(NEVER, 1.0, 0.02));
}

/// Calls a test with the judgement of `tcp`, `min_rtt` and `blest`, in which `change` changes the row of each.
fn judged<T>(change: impl Fn(&mut Record), test: impl FnOnce(&Setting<'_>, &Comparison) -> T) -> T {
    let mut judgement = made::compared(&made::scenario(made::TWO_PATHS));
    for row in &mut judgement.rows {
        row.vs_reference_pct = of(-20.0, -25.0, -15.0);
        (row.n, row.completed, row.failed) = (10, 10, 0);
        change(row);
    }
    with_application(made::TWO_PATHS, Application::Kernel, |setting| test(setting, &judgement))
}

/// Plain `linux` is judged for every reader, so it must not prevent advice.
#[test]
fn only_the_flows_of_tcp_and_of_the_advised_candidate_have_to_finish() {
    let of = |late: &str, failed: usize| {
        let change = |row: &mut Record| {
            if row.scheduler == late {
                (row.completed, row.failed) = (7, failed);
            }
        };
        let best = plain(&"min_rtt");
        judged(change, |setting, judgement| {
            (setting.answer(judgement, &best), setting.is_late(judgement, &best))
        })
    };
    assert_eq!(of("blest", 0), (Answer::Pays, false));
    assert_eq!(of("min_rtt", 0), (Answer::Incomplete, true));
    assert_eq!(of("tcp", 0), (Answer::Incomplete, true));
    // More time does not help flows that have failed.
    assert_eq!(of("tcp", 2), (Answer::Incomplete, true));
    assert_eq!(of("tcp", 3), (Answer::Incomplete, false));
    // A row of another class is not judged.
    let other = |row: &mut Record| {
        if row.scheduler == "blest" {
            row.scheduler = "min_rtt".to_owned();
            (row.traffic, row.completed) = (Some("call".to_owned()), 0);
        }
    };
    let answer = judged(other, |setting, judgement| setting.answer(judgement, &plain(&"min_rtt")));
    assert_eq!(answer, Answer::Pays);
}

/// A candidate with unfinished flows is worse than any other.
#[test]
fn unfinished_flows_have_no_value() {
    let values = |late: &'static str| {
        let change = move |row: &mut Record| {
            row.fct_s.mean = Some(0.1);
            row.goodput_bps = Some(1e6);
            row.completed -= usize::from(row.scheduler == late);
        };
        judged(change, |_, judgement| {
            let row = judgement.row_of("min_rtt").unwrap();
            [value(row, false), value(row, true)]
        })
    };
    assert_eq!((values(""), values("min_rtt")), ([0.1, -1e6], [f64::INFINITY; 2]));
}

/// What a stock kernel can be is advised for it only if it pays.
#[test]
fn the_candidate_for_a_kernel_is_the_first_that_pays() {
    let candidates = [plain(&"min_rtt"), with(KERNEL, "bbr"), plain(&KERNEL)];
    let of = |means: [f64; 2]| {
        let change = |row: &mut Record| {
            let at = ["blest", "min_rtt"].iter().position(|name| *name == row.scheduler);
            if let Some(at) = at {
                row.scheduler = candidates[at + 1].name.clone();
                row.vs_reference_pct = self::of(means[at], means[at] - 1.0, means[at] + 1.0);
            }
        };
        judged(change, |setting, judgement| {
            setting.kernel(judgement, &candidates).map(|one| one.name.clone())
        })
    };
    assert_eq!(of([-20.0, -20.0]).as_deref(), Some("linux with bbr"));
    assert_eq!(of([20.0, -20.0]).as_deref(), Some("linux"));
    assert_eq!(of([20.0, 20.0]), None);
}

/// The few runs that are explained would have another best path than the judgement.
#[test]
fn tcp_is_explained_on_the_path_that_the_judgement_has_chosen() {
    let found = Found { start: 0, candidates: Vec::new(), screened: 0, single_congestion: None };
    let mut of = ["1", "2"].map(|path| {
        let change = |row: &mut Record| row.path = (row.scheduler == "tcp").then(|| path.to_owned());
        judged(change, |setting, judgement| setting.reasons(&found, judgement, &[plain(&"min_rtt")]).unwrap())
    });
    let largest = of.each_mut().map(|reasons| {
        assert_eq!(reasons.len(), 2);
        let tcp = reasons.remove(0);
        (tcp.scheduler, tcp.largest.unwrap().path)
    });
    assert_eq!(largest, ["1", "2"].map(|path| ("tcp".to_owned(), Some(path.to_owned()))));
}

/// Each class has its own best path, and the reason of TCP is about the class that is judged.
#[test]
fn tcp_is_explained_on_the_path_that_each_class_has_in_the_judgement() {
    let text = "path = [
            { name = 'p0', rate = { down = '18 Mbit/s', up = '4 Mbit/s' }, rtt = '20 ms', queue = '0.5 BDP' },
            { name = 'p1', rate = '21 Mbit/s', rtt = '146 ms' }]
        traffic = [
            { name = 'a', size = '1300 KB', direction = 'upload' },
            { name = 'b', size = '500 KB', direction = 'download' }]
        runs = 2";
    with_setting(text, |setting| {
        let candidates = vec![plain(&"ecf")];
        let found = Found { start: 1, candidates, screened: 1, single_congestion: None };
        let (judgement, candidates) = setting.judge_in(&found, 2, JUDGEMENT_SEED).unwrap();
        let paths = judgement.conditions[0].class_paths.iter().map(|class| class.path.as_str());
        assert_eq!(paths.collect::<Vec<_>>(), ["p1", "p0"]);
        let reasons = setting.reasons(&found, &judgement, &candidates).unwrap();
        let mean = |name: &str| setting.row(&judgement, name).unwrap().fct_s.mean.unwrap();
        let slower = reasons.iter().find_map(|reason| Some((&reason.scheduler, reason.excess.as_ref()?)));
        let (slower, excess) = slower.unwrap();
        let difference = mean(slower) - mean(&excess.than);
        assert!((excess.total_s - difference).abs() < 1e-6, "{excess:?}, {difference} s");
    });
}

/// A start that is sometimes slow is no better advice for a slightly smaller mean.
#[test]
fn the_surest_start_has_the_least_upper_end() {
    let of = |start: usize, mean: f64, most: f64| Tried {
        mean,
        least: mean,
        most,
        start,
        candidate: plain(&KERNEL),
    };
    assert_eq!(surest(&[of(0, 1.0, 1.9), of(1, 1.1, 1.2), of(2, 1.3, 1.4)]), Some(1));
    assert_eq!(surest(&[]), None);
}

#[test]
fn flows_that_do_not_finish_need_time_or_a_path() {
    let found = Found { start: 0, candidates: Vec::new(), screened: 0, single_congestion: None };
    let of = |change: &str, late: bool| {
        let path = format!("{{ rate = '5 Mbit/s', rtt = '10 ms'{change} }}");
        let text = format!("path = [{path}, {path}]\ntraffic = {{ size = '1 KB' }}\ndeadline = '20 s'");
        with_setting(&text, |setting| {
            let judged = super::super::actions::Judged { single_path: None, late, runs: 40, usage: &[] };
            super::super::actions::actions(
                setting,
                Answer::Incomplete,
                &plain(&KERNEL),
                None,
                &found,
                &judged,
            )
        })
    };
    let raise = "Raise `deadline`, so that all flows finish.";
    assert_eq!(of("", true), [raise]);
    assert_eq!(of(", change = [{ at = '1 s', down = true }, { at = '30 s', up = true }]", true), [raise]);
    let repair = "Repair a path: all are down at the deadline, and for good.";
    assert_eq!(of(", change = [{ at = '1 s', down = true }]", true), [repair]);
    assert!(of("", false).is_empty(), "they have failed");
}

#[test]
fn the_nearest_to_a_stock_host_is_advised_among_candidates_that_are_practically_equal() {
    let candidate = |scheduler: &str, congestion: Option<&str>| Candidate {
        name: scheduler.to_owned(),
        scheduler: scheduler.to_owned(),
        congestion: congestion.map(str::to_owned),
    };
    let all = [candidate("dmptcp", Some("lia")), candidate("blest", None), candidate(KERNEL, None)];
    let of = |values: &[f64]| nearest(&all, values, 0.01, Application::Anabranch, |_| true);
    assert_eq!(of(&[1.0, 1.005, 1.009]), 2);
    assert_eq!(of(&[1.0, 1.005, 1.02]), 1);
    assert_eq!(of(&[1.0, 1.02, 1.03]), 0);
    // Another answer is another advice.
    let other = nearest(&all, &[1.0, 1.005, 1.009], 0.01, Application::Anabranch, |at| at != 2);
    assert_eq!(other, 1);
    // Values of bulk are negative.
    assert_eq!(of(&[-2.0, -1.99, -1.9]), 1);
    assert_eq!(nearest(&all[..1], &[f64::INFINITY], 0.01, Application::Anabranch, |_| true), 0);
}

#[test]
fn an_application_on_a_stock_kernel_is_advised_what_it_can_have() {
    let candidate = |scheduler: &str, congestion: Option<&str>| Candidate {
        name: scheduler.to_owned(),
        scheduler: scheduler.to_owned(),
        congestion: congestion.map(str::to_owned),
    };
    let all = [
        candidate("dmptcp", None),
        candidate(KERNEL, Some("lia")),
        candidate(KERNEL, Some("bbr")),
        candidate(KERNEL, None),
    ];
    // BBR is there, and a coupled congestion control is not; CUBIC where it is practically as good.
    let of = |values: &[f64]| nearest(&all, values, 0.01, Application::Kernel, |_| true);
    assert_eq!(of(&[1.0, 1.5, 2.0, 2.03]), 2);
    assert_eq!(of(&[1.0, 1.5, 2.0, 2.01]), 3);
    assert_eq!(of(&[-3.0, -2.9, -2.8, -2.5]), 2);
    assert_eq!(nearest(&all[3..], &[f64::INFINITY], 0.01, Application::Kernel, |_| true), 0);
}

/// The answer is by the class that uses the contender, and by its own measure.
#[test]
fn a_class_of_traffic_is_judged_by_its_own_measure() {
    let advice = |traffic: &str| {
        let text = format!(
            "path = [{{ rate = '10 Mbit/s', rtt = '20 ms' }}, {{ rate = '10 Mbit/s', rtt = '20 ms' }}]
             runs = 2
             traffic = {traffic}"
        );
        let document = Document::parse("test.toml", text, ".").unwrap();
        let cancelled = AtomicBool::new(false);
        super::super::advise(&document, &options(&cancelled, 0.05, Application::Kernel))
    };
    // Two equal paths take a third off the time of such a response.
    let call = "{ name = 'call', kind = 'udp', rate = '64 kbit/s', duration = '2 s' }";
    let web = "{ name = 'web', kind = 'requests', size = '400 KB', think = '1 s', requests = 1 }";
    let found = advice(&format!("[{call}, {web}]")).unwrap();
    assert_eq!((found.traffic.as_deref(), found.measure), (Some("web"), "mean response time"));
    assert_eq!(found.answer, Answer::Pays);
    let difference = found.difference_pct.unwrap().mean;
    assert!((-40.0..-25.0).contains(&difference), "{difference}");
    assert!(found.reasons.iter().any(|reason| reason.scheduler == found.best.name));
}

#[test]
fn commands_have_the_congestion_control_and_a_subflow_for_each_other_path() {
    let found = Found { start: 1, candidates: Vec::new(), screened: 0, single_congestion: None };
    with_setting(PATHS, |setting| {
        let (best, kernel) = (with("blest", "lia"), with(KERNEL, "bbr"));
        let judged = super::super::actions::Judged { single_path: None, late: false, runs: 40, usage: &[] };
        let all =
            super::super::actions::actions(setting, Answer::Pays, &best, Some(&kernel), &found, &judged);
        for words in [
            "`anabranch serve --scheduler blest --cc lia ...`, and let connections start on path 2.",
            "Row `linux with bbr` needs no more than a stock kernel.",
            "`sysctl -w net.ipv4.tcp_congestion_control=bbr`",
            "`ip mptcp limits set subflow 2 add_addr_accepted 2`",
        ] {
            assert!(all.iter().any(|action| action.contains(words)), "{words}: {all:?}");
        }
    });
}

/// The actions of an answer for a scenario with a second path that is a backup, where 40 runs were judged.
fn priced(answer: Answer, cost: f64, exceeded: Option<u32>) -> Vec<String> {
    let text = "path = [{ rate = '5 Mbit/s', rtt = '10 ms' },
                        { name = 'lte', rate = '5 Mbit/s', rtt = '10 ms', backup = true, price = 2, quota = '1 KB' }]
                traffic = { size = '1 KB' }";
    let found = Found { start: 0, candidates: Vec::new(), screened: 0, single_congestion: None };
    let of = |name: &str| crate::usage::PathUsage {
        scheduler: name.to_owned(),
        path: "lte".to_owned(),
        cost,
        over_quota: exceeded,
        runs: 40,
        ..Default::default()
    };
    let usage = [of("tcp"), of("blest"), of(KERNEL)];
    with_setting(text, |setting| {
        let judged =
            super::super::actions::Judged { single_path: Some("lte"), late: false, runs: 40, usage: &usage };
        let (best, kernel) = (plain(&"blest"), plain(&KERNEL));
        super::super::actions::actions(setting, answer, &best, Some(&kernel), &found, &judged)
    })
}

#[test]
fn advice_names_a_backup_its_price_and_its_quota() {
    let last = |answer, cost, exceeded| priced(answer, cost, exceeded).pop().unwrap();
    let all = "lte is a backup; the data of tcp costs 0.00132 per run; tcp exceeds the quota of lte in 30 of 40 runs.";
    for answer in [Answer::Small, Answer::Equal, Answer::Costs, Answer::Undecided] {
        assert_eq!(last(answer, 0.00132, Some(30)), all);
    }
    assert_eq!(last(Answer::Costs, 0.0, None), "lte is a backup.");
    // It starts on the other path, and has what both rows cost.
    let pays = priced(Answer::Pays, 0.5, Some(0));
    for name in ["blest", KERNEL] {
        assert!(pays.contains(&format!("The data of {name} costs 0.500 per run.")), "{pays:?}");
    }
    assert!(!pays.iter().any(|action| action.contains("backup") || action.contains("quota")), "{pays:?}");
}

/// With 40 runs as the first ones, the second judgement has 160.
#[test]
fn more_runs_are_not_the_number_that_cannot_tell() {
    let stay = priced(Answer::Undecided, 0.0, None).remove(0);
    assert!(
        stay.ends_with("40 runs cannot tell whether there is a gain. Up to 160 may (`--runs 40`)."),
        "{stay}"
    );
}
