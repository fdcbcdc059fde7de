//! Variants: one that changes nothing is an error, parts of a claim have verdicts of their own, and standard variants and
//! combinations are tried.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anabranch_reproduce::finding::Finding;
use anabranch_reproduce::journal::Journal;
use anabranch_reproduce::reproduce::{Options, ReproduceError, reproduce};
use anabranch_reproduce::{Status, library};

/// Two paths and two contenders, before the conditions of a scenario.
const HEAD: &str = "
    schedulers = ['tcp@1', 'min_rtt']
    runs = 2
    path = [{ rate = '8 Mbit/s', rtt = '20 ms' }, { rate = '8 Mbit/s', rtt = '100 ms' }]
    traffic.size = '30 KB'
";

const SCENARIO: &str = "
    [[condition]]
    name = 'a'
    path.2.queue = '20 packets'
";

const CHECK: &str = "scenario = 's', metric = 'done', of = 'min_rtt', is = 'within'";

fn judged(claims: &str) -> Result<Finding, ReproduceError> {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    put("s.toml", &format!("{HEAD}{SCENARIO}"));
    put("sweep.toml", &format!("{HEAD}{SWEEP}"));
    put("claims.toml", &format!("id = 'x'\ntitle = 'X'\n{claims}"));
    let paper = library::open(Path::new(directory.path())).unwrap();
    let cancelled = AtomicBool::new(false);
    let options = Options { variants: true, ..Options::new(&cancelled) };
    let results = reproduce(&[paper], &|_, _| true, &mut Journal::in_memory(), &options)?;
    Ok(results.findings.into_iter().next().unwrap())
}

fn claim(variants: &str, checks: &[&str]) -> String {
    let own = checks.iter().map(|check| format!("{{ {CHECK}, {check} }},")).collect::<String>();
    format!(
        "[[claim]]\nid = 'X1'\nfigure = '1'\nkind = 'scenario'\nclaim = 'c'\nvariants = {variants}\ncheck = [{own}]"
    )
}

fn variant(name: &str, rest: &str) -> String {
    format!("[[variant]]\nname = '{name}'\nwhat = 'w'\n{rest}\n")
}

#[test]
fn a_variant_that_changes_nothing_is_an_error() {
    for set in ["path.rate='8 Mbit/s'", "path.2.queue=20 packets", "scheduler.blest.lambda=2"] {
        let text = variant("nothing", &format!("set = [\"{set}\"]")) + &claim("['nothing']", &["upto = 0"]);
        let error = judged(&text).unwrap_err().to_string();
        assert!(error.contains("claim X1: the variant `nothing` changes none of its runs"), "{error}");
    }
    let text = variant("nothing", "set = []") + &claim("['nothing']", &["upto = 0"]);
    assert!(judged(&text).is_err());
}

#[test]
fn a_check_that_a_variant_does_not_change_says_so() {
    let other = "{ scenario = 's', set = ['path.rate=1Mbit/s'], metric = 'done', of = 'min_rtt', is = 'within', upto = 0 }";
    let text = variant("slow", "set = ['path.rate=1Mbit/s']") + &claim("['slow']", &["upto = 0"]);
    let finding = judged(&text.replace("},]", &format!("}}, {other}]"))).unwrap();
    assert_eq!(finding.checks.iter().map(|check| check.same).collect::<Vec<_>>(), [false, false]);
    let tried = &finding.variants[0].checks;
    assert_eq!(tried.iter().map(|check| check.same).collect::<Vec<_>>(), [false, true]);
    assert!(tried[1].place().contains("not changed by the variant"));
}

#[test]
fn a_condition_that_sets_the_key_of_a_variant_does_not_swallow_it() {
    let text = variant("short", "set = ['path.2.queue=10 packets']") + &claim("['short']", &["upto = 0"]);
    assert!(!judged(&text).unwrap().variants[0].checks[0].same);
}

#[test]
fn parts_are_judged_each_for_itself_and_the_claim_by_the_worst() {
    let checks = ["from = 0, part = 'first'", "upto = 0, part = 'second'", "from = 800, part = 'third'"];
    let finding =
        judged(&(variant("slow", "set = ['path.rate=100kbit/s']") + &claim("['slow']", &checks))).unwrap();
    let parts: Vec<_> =
        finding.parts.iter().map(|part| (part.name.as_str(), part.status, part.variant.as_deref())).collect();
    let expected = [
        ("first", Status::Holds, None),
        ("second", Status::Fails, None),
        ("third", Status::Variant, Some("slow")),
    ];
    assert_eq!((parts, finding.status), (expected.to_vec(), Status::Fails));
    assert!(anabranch_reproduce::parts::holds_in_part(&finding));
    // Without the part that fails it is a variant, although no variant is needed for the first.
    let two = claim("['slow']", &[checks[0], checks[2]]);
    let finding = judged(&(variant("slow", "set = ['path.rate=100kbit/s']") + &two)).unwrap();
    assert_eq!(finding.status, Status::Variant);
    // A claim without parts has none in its results.
    assert!(judged(&claim("[]", &["from = 0"])).unwrap().parts.is_empty());
}

#[test]
fn a_standard_variant_is_tried_by_every_claim_of_its_scenario() {
    let standard = |scenario: &str| {
        variant("slow", &format!("set = ['path.rate=100kbit/s']\nstandard-for = ['{scenario}']"))
    };
    let finding = judged(&(standard("s") + &claim("[]", &["from = 800"]))).unwrap();
    assert_eq!((finding.status, finding.variants[0].name.as_str()), (Status::Variant, "slow"));
    assert_eq!(judged(&(standard("t") + &claim("[]", &["from = 800"]))).unwrap().status, Status::Fails);
}

#[test]
fn a_variant_may_combine_others_that_are_before_it() {
    let own = variant("slow", "set = ['path.rate=1Mbit/s']")
        + &variant("far", "set = ['path.rtt=900ms']")
        + &variant("both", "with = ['slow', 'far']");
    let finding = judged(&(own + &claim("['both']", &["from = 1400"]))).unwrap();
    assert_eq!(finding.status, Status::Variant);
    let wrong = variant("both", "with = ['later']") + &variant("later", "set = ['path.rtt=1s']");
    let error =
        anabranch_reproduce::Paper::parse("x", &format!("id = 'x'\ntitle = 'X'\nclaim = []\n{wrong}"));
    assert!(error.unwrap_err().to_string().contains("no [[variant]] `later` before it"));
}

#[test]
fn variants_that_turn_one_check_each_are_combined() {
    let own = variant("slow", "set = ['path.rate=1Mbit/s']") + &variant("short", "set = ['mss=500']");
    let checks = "{ scenario = 's', metric = 'done', of = 'min_rtt', is = 'within', from = 200 },
         { scenario = 's', metric = 'segments', of = 'tcp@1', is = 'within', from = 50 }";
    let text = own + &claim("['slow', 'short']", &[]).replace("check = []", &format!("check = [{checks}]"));
    let finding = judged(&text).unwrap();
    let names: Vec<&str> = finding.variants.iter().map(|tried| tried.name.as_str()).collect();
    assert_eq!((finding.status, names), (Status::Variant, vec!["slow", "short", "slow + short"]));
}

/// The parts of a printed number by paths, and the losses among the segments.
#[test]
fn a_measure_of_one_path_is_not_the_total() {
    let check = |metric: &str, of: &str, upto: &str| {
        format!(
            "{{ scenario = 's', set = ['path.2.loss=20%'], metric = '{metric}', of = '{of}', is = 'within', {upto} }},"
        )
    };
    let checks = check("lost.1", "min_rtt", "upto = 0")
        + &check("repeated.1", "min_rtt", "upto = 0")
        + &check("lost.1", "tcp@1", "upto = 0")
        + &check("timeouts.1", "min_rtt", "upto = 0");
    let text = claim("[]", &[]).replace("check = []", &format!("check = [{checks}]"));
    assert_eq!(judged(&text).unwrap().status, Status::Holds);
    let wrong = text.replace("lost.1", "acked.1");
    let error =
        anabranch_reproduce::Paper::parse("x", &format!("id = 'x'\ntitle = 'X'\n{wrong}")).unwrap_err();
    assert!(error.to_string().contains("there is no `acked.1`"), "{error}");
}

const SWEEP: &str = "
    [[condition]]
    name = 'short'
    path.2.rtt = '50 ms'
    [[condition]]
    name = 'long'
    path.2.rtt = '90 ms'
";

/// A sweep of the second round trip: a variant that sets it would measure one point of it twice.
#[test]
fn a_variant_that_makes_two_conditions_the_same_is_an_error() {
    let text = |except: &str, check: &str| {
        let wide = variant("wide", &format!("set = ['path.2.rtt=70 ms']\n{except}"));
        let other = "{ scenario = 's', metric = 'done', of = 'min_rtt', is = 'within', upto = 0 }";
        let own = format!(
            "[[claim]]\nid = 'X1'\nfigure = '1'\nkind = 'scenario'\nclaim = 'c'\nvariants = ['wide']\ncheck = [{check}, {other}]"
        );
        wide + &own.replace("'s'", "'sweep'").replacen("metric", "set = ['path.1.rtt=30 ms'], metric", 1)
    };
    let each = "{ scenario = 's', metric = 'done', of = 'min_rtt', is = 'within', upto = 0 }";
    let error = judged(&text("", each)).unwrap_err().to_string();
    assert!(error.contains("`wide` makes `short` and `long` the same runs"), "{error}");
    let between =
        "{ scenario = 's', in = ['short'], metric = 'done', of = 'min_rtt', to-in = 'long', is = 'greater' }";
    let only = text("", between)
        .replace(", { scenario = 'sweep', metric = 'done', of = 'min_rtt', is = 'within', upto = 0 }]", "]");
    let error = judged(&only).unwrap_err().to_string();
    assert!(error.contains("`wide` makes `short` and `long` the same runs"), "{error}");
    // Where its scenario is excepted nothing is left that it changes.
    let error = judged(&text("except = ['sweep']", each)).unwrap_err().to_string();
    assert!(error.contains("changes none of its runs"), "{error}");
}
