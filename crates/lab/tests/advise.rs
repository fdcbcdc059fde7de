//! Advice on settings whose answer is known.

use core::sync::atomic::AtomicBool;

use anabranch_lab::advise::{
    Advice, AdviceError, Answer, Application, Margin, MarginEnd, Options, Quantity, advise,
};
use anabranch_lab::compare::compare;
use anabranch_lab::explain::Cause;
use anabranch_lab::scenario::Document;

fn document(paths: &[&str], size: &str) -> Document {
    let mut document = Document::bare();
    document.set_paths(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).unwrap();
    document.set_size("--size", size);
    document
}

/// Returns the advice for a program on this stack, which calls every effect a gain.
fn advice(document: &Document, jobs: usize, margins: bool) -> Result<Advice, AdviceError> {
    advice_for(document, Application::Anabranch, 0.0, jobs, margins)
}

fn advice_for(
    document: &Document,
    application: Application,
    min_gain: f64,
    jobs: usize,
    margins: bool,
) -> Result<Advice, AdviceError> {
    let cancelled = &AtomicBool::new(false);
    let progress = &|_: &str| {};
    let options = Options { jobs, cancelled, progress, condition: None, margins, min_gain, application };
    advise(document, &options)
}

#[test]
fn two_equal_paths_pay_for_a_long_flow_and_a_hopeless_second_path_does_not_for_a_short_one() {
    let equal = advice(&document(&["20Mbit/s,30ms", "20Mbit/s,30ms"], "4MB"), 0, false).unwrap();
    assert_eq!(equal.answer, Answer::Pays);
    // The ideal is a half.
    let difference = equal.difference_pct.unwrap().mean;
    assert!((-50.0..-30.0).contains(&difference), "{difference}");
    assert!(equal.actions.iter().any(|action| action.contains("net.mptcp.enabled=1")));

    let hopeless = advice(&document(&["50Mbit/s,10ms", "1Mbit/s,400ms"], "10KB"), 0, false).unwrap();
    assert_ne!(hopeless.answer, Answer::Pays);
    assert_eq!(hopeless.single_path.as_deref(), Some("path 1"));
    assert!(hopeless.actions[0].contains("TCP on path 1"), "{:?}", hopeless.actions);
}

/// A stock kernel has its scheduler only, with CUBIC or BBR.
#[test]
fn an_application_on_a_stock_kernel_is_advised_nothing_else() {
    let document = document(&["20Mbit/s,20ms", "10Mbit/s,200ms"], "300KB");
    let of = |application| advice_for(&document, application, 0.05, 0, false).unwrap();
    let (kernel, own) = (of(Application::Kernel), of(Application::Anabranch));
    assert_eq!(kernel.best.scheduler, "linux");
    assert!(kernel.best.congestion.as_deref().is_none_or(|name| name == "bbr"), "{:?}", kernel.best);
    assert!(kernel.actions.iter().all(|action| !action.contains("anabranch")), "{:?}", kernel.actions);
    assert!(kernel.candidates.iter().any(|one| one.name == "linux with bbr"), "{:?}", kernel.candidates);
    assert!(own.beyond.is_none());
    // The other way to send is better, or there is none to tell of.
    let time = |advice: &Advice, name: &str| advice.judgement.row_of(name).unwrap().fct_s.mean.unwrap();
    if let Some(beyond) = &kernel.beyond {
        assert!(time(&kernel, &beyond.name) < 0.95 * time(&kernel, &kernel.best.name));
    }
}

/// Two equal paths gain 40 to 50 %, which is less than 60 %.
#[test]
fn a_gain_below_the_least_one_that_counts_does_not_pay() {
    let document = document(&["20Mbit/s,30ms", "20Mbit/s,30ms"], "2MB");
    let of = |min_gain| advice_for(&document, Application::Kernel, min_gain, 0, false).unwrap();
    let (some, much) = (of(0.05), of(0.6));
    assert_eq!((some.answer, much.answer), (Answer::Pays, Answer::Small));
    assert_eq!(some.difference_pct, much.difference_pct);
    assert!(much.actions[0].starts_with("Use TCP on path "), "{:?}", much.actions);
    assert!(some.actions.iter().any(|action| action.contains("net.mptcp.enabled=1")), "{:?}", some.actions);
}

#[test]
fn a_margin_separates_values_with_different_answers() {
    let paths = ["50Mbit/s,20ms", "20Mbit/s,60ms"];
    let found = advice(&document(&paths, "2MB"), 0, true).unwrap();
    assert_eq!(found.answer, Answer::Pays);
    let size = found.margins.iter().find(|margin| margin.quantity == Quantity::Size).unwrap();
    let below = size.below.expect("a short flow does not pay");
    assert!((2e6 / 8.0..2e6).contains(&below));
    // A flow that is shorter by far is told the opposite.
    let short = advice(&document(&paths, &format!("{:.0}B", below / 2.0)), 0, false).unwrap();
    assert_ne!(short.answer, Answer::Pays);
    assert!(found.margins.iter().filter(|margin| margin.path.as_deref() == Some("path 2")).count() >= 3);
    // A path without loss is tried with much more than eight times the least one.
    let loss = found.margins.iter().find(|margin| margin.quantity == Quantity::Loss).unwrap();
    assert_eq!((loss.value, loss.below), (0.0, None));
}

/// In 200 other runs the gain at a loss of 1.35 % is 4 % of TCP's time, give or take 7 %: no few runs know the limit.
#[test]
fn where_runs_vary_the_margins_of_other_seeds_do_not_contradict_each_other() {
    let ends = ["1", "2"].map(|seed| {
        let mut document = document(&["30Mbit/s,30ms,name=a", "30Mbit/s,30ms,name=b"], "1MB");
        document.set_option("test", "seed", seed);
        let found = advice(&document, 0, true).unwrap();
        // Either of the equal paths may be the better start in the runs of a seed.
        assert_eq!(found.answer, Answer::Pays);
        let is_loss = |margin: &&Margin| {
            margin.quantity == Quantity::Loss && margin.path.as_deref() == Some(&found.start)
        };
        let loss = found.margins.iter().find(is_loss).unwrap();
        assert!(matches!(loss.end_above(), Some(MarginEnd::Between(..))), "{loss:?}");
        (loss.holds_up_to.unwrap(), loss.above.unwrap())
    });
    for ((holds, _), (_, other)) in ends.iter().flat_map(|one| ends.iter().map(move |two| (one, two))) {
        assert!(holds < other, "{ends:?}");
    }
}

#[test]
fn a_connection_starts_on_a_backup_path_only_if_there_is_no_other() {
    let start = |a: &str, b: &str| {
        let paths = [format!("5Mbit/s,20ms{a},name=a"), format!("5Mbit/s,20ms{b},name=b")];
        let document = document(&[paths[0].as_str(), paths[1].as_str()], "100KB");
        let found = advice(&document, 0, false).unwrap();
        (found.start, found.screened)
    };
    assert_eq!(start("", ",backup=true"), ("a".to_owned(), 8 + 4));
    assert_eq!(start(",backup=true", ""), ("b".to_owned(), 8 + 4));
    assert_eq!(start(",backup=true", ",backup=true").1, 2 * 8 + 4);
}

/// In 600 other runs `stms_a` and `dmptcp` from lte are 3.7 % faster than TCP, and every scheduler from w, where a SYN is lost in some, is slower or cannot
/// be told apart. Of 16 seeds 14 find lte; the others have too few lost SYNs, and their judgement is undecided.
#[test]
fn a_first_path_that_few_runs_cannot_tell_from_another_one_is_tried_in_more() {
    let mut on_lte = 0;
    for seed in ["1", "2", "5", "6"] {
        let mut document = document(&["8Mbit/s,30ms,loss=2%,name=w", "lte"], "300KB");
        document.set_option("test", "seed", seed);
        let found = advice(&document, 0, false).unwrap();
        // 120 runs know 4.4 % to within 4 %, with the bounds for losses that none has shown.
        assert!(matches!(found.answer, Answer::Pays | Answer::Undecided), "seed {seed}: {:?}", found.answer);
        if found.start == "lte" {
            on_lte += 1;
            let difference = found.difference_pct.unwrap().mean;
            assert!((-9.0..-2.0).contains(&difference), "seed {seed}: {difference}");
        } else {
            assert_eq!(found.answer, Answer::Undecided, "seed {seed}");
        }
    }
    assert!(on_lte >= 3, "{on_lte} of 4");
}

/// Returns the interval of the gain of the advised way to send in another comparison, in percent of TCP's completion time.
fn gain(document: &Document, advice: &Advice, seed: &str) -> (f64, f64) {
    let mut document = document.clone();
    document.set_option("test", "schedulers", &format!("tcp,{}", advice.best.scheduler));
    document.set_option("test", "reference", "tcp");
    document.set_option("test", "runs", "100");
    document.set_option("test", "seed", seed);
    let start = advice.start.strip_prefix("path ").unwrap();
    document.set_option("test", "initial", start);
    let mut scenario = document.scenario().unwrap();
    scenario.other_starts = false;
    let never = AtomicBool::new(false);
    let comparison =
        compare(&scenario, &anabranch_lab::options::Options::new(0, &never, &|_, _| {})).unwrap();
    let difference = comparison.rows[1].vs_reference_pct.unwrap().ci95.unwrap();
    (-difference.1, -difference.0)
}

#[test]
fn a_larger_comparison_with_another_seed_confirms_the_advice() {
    // Of the situations in docs/advise.md, the cheapest ones.
    let pays = document(&["20Mbit/s,30ms", "20Mbit/s,30ms"], "4MB");
    let found = advice(&pays, 0, false).unwrap();
    assert_eq!((found.answer, &found.best.congestion), (Answer::Pays, &None));
    assert!(gain(&pays, &found, "2027").0 > 0.0);

    for (paths, size) in
        [(["50Mbit/s,20ms", "10Mbit/s,100ms"], "30KB"), (["20Mbit/s,10ms", "20Mbit/s,300ms"], "100KB")]
    {
        let document = document(&paths, size);
        let found = advice(&document, 0, false).unwrap();
        assert!(matches!(found.answer, Answer::Equal | Answer::Costs), "{:?}", found.answer);
        // Less than the least effect that counts.
        assert!(gain(&document, &found, "2027").0 < 1.0);
    }
}

#[test]
fn every_way_to_send_has_a_reason_whose_cause_is_known() {
    // The window of a lossy path is small, and no other path can be.
    let lossy = document(&["20Mbit/s,30ms,loss=3%", "20Mbit/s,30ms,loss=3%"], "4MB");
    let found = advice(&lossy, 0, false).unwrap();
    let names: Vec<&str> = found.reasons.iter().map(|reason| reason.scheduler.as_str()).collect();
    let judged = found.candidates.iter().map(|candidate| candidate.name.as_str());
    assert_eq!(names, core::iter::once("tcp").chain(judged).collect::<Vec<_>>());
    let of = |name: &str| found.reasons.iter().find(|reason| reason.scheduler == name).unwrap();
    let kernel = of("linux");
    assert_eq!(kernel.largest.as_ref().unwrap().cause, Cause::CongestionWindow);
    assert!(kernel.sentence.starts_with("linux: ") && kernel.sentence.contains("more than"));
    assert!(of(&found.best.name).excess.is_none(), "{:?}", of(&found.best.name));
}

#[test]
fn what_a_congestion_control_gains_on_one_path_is_no_gain_of_multipath() {
    let lossy = document(&["20Mbit/s,30ms,loss=3%", "2Mbit/s,200ms,loss=3%"], "1MB");
    let found = advice(&lossy, 0, false).unwrap();
    assert_eq!(found.single_congestion.as_deref(), Some("bbr"));
    let row = |name: &str| found.judgement.rows.iter().find(|row| row.scheduler == name);
    assert_eq!(row("tcp").unwrap().congestion, "bbr");
    assert!(row("linux with bbr").is_some());
    // With CUBIC, TCP would take several times as long.
    assert!(found.difference_pct.unwrap().mean > -25.0, "{:?}", found.difference_pct);
    let command = "net.ipv4.tcp_congestion_control=bbr";
    assert!(found.actions.iter().any(|action| action.contains(command)), "{:?}", found.actions);
}

#[test]
fn advice_does_not_depend_on_the_number_of_threads() {
    let document = document(&["20Mbit/s,30ms,loss=1%", "10Mbit/s,50ms"], "200KB");
    let json = |jobs| {
        let mut advice = advice(&document, jobs, true).unwrap();
        advice.judgement.performance.wall_s = 0.0;
        serde_json::to_string(&advice).unwrap()
    };
    assert_eq!(json(1), json(3));
}

#[test]
fn judgement_runs_are_not_those_of_screening_or_of_compare() {
    let found = advice(&document(&["20Mbit/s,30ms,loss=1%", "10Mbit/s,50ms"], "200KB"), 0, false).unwrap();
    assert_eq!(found.screened, 2 * 8 + 4);
    assert_ne!(found.judgement.head.seed, 1);
    // The three best, and the kernel's that are not among them.
    let names: Vec<&str> = found.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
    let unique: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert!(names.len() >= 3 && unique.len() == names.len(), "{names:?}");
    let kernel = names.iter().filter(|name| ["linux", "linux with bbr"].contains(name)).count();
    assert!(names.contains(&"linux") && names.len() - kernel <= 3, "{names:?}");
}

#[test]
fn a_scenario_without_a_choice_is_refused() {
    let refused = |document: &Document| match advice(document, 0, false) {
        Err(AdviceError::Scenario(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused(&document(&["20Mbit/s,30ms"], "1MB")).contains("one path"));
    let phone = refused(&Document::open("phone").unwrap());
    assert!(phone.contains("2 conditions") && phone.contains("--condition"), "{phone}");
}
