//! Classes of traffic: rows, verdicts, samples and bounds of their own, and draws that do not depend on one another.

use core::sync::atomic::AtomicBool;

use anabranch_lab::compare::{Comparison, compare_each};
use anabranch_lab::options::Options;
use anabranch_lab::run::{AppReport, FlowResult, Prepared};
use anabranch_lab::scenario::{Document, Scenario};

const PATHS: &str = "
    [[path]]
    name = 'wifi'
    rate = '20 Mbit/s'
    rtt = '20 ms'
    [[path]]
    name = 'lte'
    rate = '10 Mbit/s'
    rtt = '60 ms'
";

const WEB: &str = "
    [[traffic]]
    name = 'web'
    kind = 'requests'
    flows = 2
    size = { distribution = 'exponential', mean = '30 KB' }
    think = { distribution = 'exponential', mean = '300 ms' }
    duration = '4 s'
";
const CALL: &str = "
    [[traffic]]
    name = 'call'
    kind = 'udp'
    size = '160 B'
    gap = '20 ms'
    duration = '4 s'
";
const VIDEO: &str = "
    [[traffic]]
    name = 'video'
    kind = 'video'
    bitrate = ['1 Mbit/s', '4 Mbit/s']
    segment = '1 s'
    buffer = '4 s'
    duration = '6 s'
";
const UPLOAD: &str = "
    [[traffic]]
    name = 'photos'
    size = '300 KB'
    flows = 3
    every = '1 s'
    direction = 'upload'
";
const BULK: &str = "
    [[traffic]]
    name = 'backup'
    size = 'bulk'
    duration = '3 s'
    via = 'tcp'
    path = 'lte'
";

fn scenario(top: &str, traffic: &[&str]) -> Scenario {
    let text = format!("{top}\n{PATHS}{}", traffic.concat());
    Document::built_in("test", text.as_str())
        .unwrap()
        .scenario()
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn flows(scenario: &Scenario) -> Vec<FlowResult> {
    let prepared = Prepared::new(scenario, 0).unwrap();
    prepared.run(0, 0, &AtomicBool::new(false)).unwrap().flows
}

fn compared(scenario: &Scenario) -> Comparison {
    let cancelled = AtomicBool::new(false);
    let options = Options::new(2, &cancelled, &|_, _| {});
    compare_each(scenario, &options, &mut |_, _| Ok(())).unwrap()
}

/// The draws of a class: the starts of its flows, and the sizes of its transfers and responses.
fn draws(flows: &[FlowResult], group: usize) -> Vec<(u64, Option<u64>, Vec<u64>)> {
    let own = flows.iter().filter(|flow| flow.group == group);
    own.map(|flow| {
        let sizes = match &flow.report.app {
            AppReport::Requests(all) => all.iter().take(5).map(|one| one.response).collect(),
            _ => Vec::new(),
        };
        (flow.report.start.0, flow.report.size.map(|size| size.0), sizes)
    })
    .collect()
}

#[test]
fn another_class_does_not_change_what_a_class_draws() {
    let top = "schedulers = ['min_rtt']\nphases = true";
    let alone = flows(&scenario(top, &[WEB]));
    let beside = flows(&scenario(top, &[WEB, CALL, UPLOAD]));
    let after = flows(&scenario(top, &[VIDEO, UPLOAD, WEB]));
    assert_eq!(draws(&alone, 0), draws(&beside, 0));
    assert_eq!(draws(&alone, 0), draws(&after, 2));
    assert_eq!(draws(&beside, 2), draws(&after, 1));
    assert!(draws(&alone, 0).iter().all(|(start, _, sizes)| *start < 500_000 && sizes.len() == 5));
}

#[test]
fn contenders_have_the_same_draws() {
    let scenario = scenario("schedulers = ['min_rtt', 'tcp@1', 'redundant']", &[WEB, UPLOAD]);
    let prepared = Prepared::new(&scenario, 0).unwrap();
    let of = |contender| prepared.run(contender, 3, &AtomicBool::new(false)).unwrap().flows;
    for group in 0..2 {
        assert_eq!(draws(&of(0), group), draws(&of(1), group));
        assert_eq!(draws(&of(0), group), draws(&of(2), group));
    }
}

#[test]
fn each_class_has_rows_and_a_verdict_of_its_own() {
    let comparison =
        compared(&scenario("runs = 4\nschedulers = ['tcp', 'min_rtt']", &[WEB, VIDEO, CALL, UPLOAD, BULK]));
    let names = |row: &anabranch_lab::report::Record| (row.traffic.clone().unwrap(), row.scheduler.clone());
    let rows: Vec<_> = comparison.rows.iter().map(names).collect();
    let expected: Vec<_> = ["web", "video", "call", "photos", "backup"]
        .iter()
        .flat_map(|class| ["tcp", "min_rtt"].map(|name| ((*class).to_owned(), name.to_owned())))
        .collect();
    assert_eq!(rows, expected);
    for row in &comparison.rows {
        assert_eq!(row.completed, row.n, "{row:?}");
        let class = row.traffic.as_deref().unwrap();
        assert_eq!(row.lower_bound_s.is_some(), ["photos", "backup"].contains(&class), "{class}");
        assert_eq!(row.video.is_some(), class == "video");
        assert_eq!(row.datagrams.is_some(), class == "call");
        assert!(row.vs_reference_pct.is_some(), "{class}");
    }
    let web = &comparison.rows[0];
    assert!(web.n > 60 && web.fct_s.mean.unwrap() > 0.02);
    assert_eq!(comparison.rows[4].datagrams.as_ref().unwrap().sent, 4 * 200);
    // Two users, three photos, and one of each of the others in four runs.
    assert_eq!([2, 4, 6, 8].map(|at| comparison.rows[at].n), [4, 4, 12, 4]);
    for class in ["web", "video", "call", "photos", "backup"] {
        let of_class =
            |verdict: &&anabranch_lab::report::verdict::Verdict| verdict.traffic.as_deref() == Some(class);
        let verdicts = comparison.verdicts.iter().filter(of_class).count();
        // Further statements have lines without a difference.
        let result = |line: &&str| line.starts_with(&format!("{class}: ")) && line.contains(" %");
        let lines = comparison.verdict.lines().filter(result).count();
        assert!(lines >= 1 && lines == verdicts, "{class}: {}", comparison.verdict);
    }
    let words =
        ["response time", "time of waiting", "mean bitrate", "one-way delay", "completion time", "goodput"];
    assert!(words.iter().all(|word| comparison.verdict.contains(word)), "{}", comparison.verdict);
}

#[test]
fn a_bound_holds_for_transfers_of_both_directions_and_is_tight_for_a_lone_one() {
    // 20 Mbit/s there and 4 Mbit/s back.
    let network = "schedulers = ['tcp']
        node = [{ name = 'a' }, { name = 'b' }]
        link = [
            { from = 'a', to = 'b', rate = '20 Mbit/s', delay = '10 ms', duplex = false },
            { from = 'b', to = 'a', rate = '4 Mbit/s', delay = '10 ms', duplex = false },
        ]";
    for (from, to, least) in [("a", "b", 0.8), ("b", "a", 4.0)] {
        for (main, own) in [("upload", "upload"), ("upload", "download"), ("download", "upload")] {
            // The main direction is that of a call which hardly needs the links.
            let text = format!(
                "{network}
                [[traffic]]
                name = 'call'
                kind = 'udp'
                rate = '8 kbit/s'
                direction = '{main}'
                from = 'a'
                to = 'b'
                [[traffic]]
                name = 'x'
                size = '2 MB'
                direction = '{own}'
                from = '{from}'
                to = '{to}'"
            );
            let scenario = Document::built_in("test", text.as_str()).unwrap().scenario().unwrap();
            let flow = flows(&scenario).into_iter().find(|flow| flow.group == 1).unwrap();
            let (time, bound) = (flow.time.as_secs_f64(), flow.lower_bound.unwrap().as_secs_f64());
            assert!(bound > least, "{from}{to} {main} {own}: {bound}");
            assert!(time >= bound && time < bound * 1.1, "{from}{to} {main} {own}: {time} {bound}");
        }
    }
}

#[test]
fn the_run_lasts_until_the_slowest_class_is_done() {
    let all = flows(&scenario("schedulers = ['min_rtt']", &[BULK, WEB, CALL]));
    let bulk = &all[0];
    // Broken off after 3 s of at most 10 Mbit/s.
    assert_eq!(bulk.time.as_secs_f64(), 3.0);
    assert!((2_500_000..3_750_000).contains(&bulk.report.delivered), "{}", bulk.report.delivered);
    assert!(all.iter().filter(|flow| flow.group == 1).all(|flow| flow.time.as_secs_f64() > 3.0));
    assert!(matches!(all.last().unwrap().report.app, AppReport::Datagrams(report) if report.sent == 200));
}

#[test]
fn sizes_of_a_short_form_may_have_any_distribution() {
    for (size, mean) in [
        ("\"web-search\"", 1.711e6),
        ("{ distribution = 'log-normal', mean = '50 KB', sigma = 2 }", 50e3),
        ("{ distribution = 'pareto', shape = 1.2, min = '10 KB', max = '1 MB' }", 36_257.9),
    ] {
        let text = format!("{PATHS}[traffic]\nsize = {size}\nevery = '10 ms'\nflows = 7");
        let scenario = Document::built_in("test", text.as_str()).unwrap().scenario().unwrap();
        let experiment = &scenario.conditions[0].experiment;
        assert!(experiment.classes.is_empty());
        let own = experiment.traffic.size.mean().unwrap();
        assert!((own / mean - 1.0).abs() < 1e-3, "{size}: {own}");
        let drawn = anabranch_lab::run::drawn(experiment, 1).unwrap();
        let starts: Vec<u64> = drawn.iter().map(|flow| flow.start.0 / 10_000_000).collect();
        assert_eq!(starts, [0, 1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn a_distribution_is_read_from_a_file_next_to_the_scenario() {
    let directory = tempfile::tempdir().unwrap();
    let parse = |points: &str| {
        std::fs::write(directory.path().join("sizes.txt"), points).unwrap();
        let text = format!("{PATHS}[traffic]\nsize = {{ distribution = 'cdf', file = 'sizes.txt' }}");
        Document::parse("s.toml", text, directory.path()).unwrap().scenario()
    };
    let scenario = parse("# bytes, percent\n1000 50\n3000 100\n").unwrap();
    // Half of the flows have 1000 bytes, and the others 1000 to 3000.
    assert_eq!(scenario.conditions[0].experiment.traffic.size.mean(), Some(1500.0));
    let other = parse("1000 50\n3000 100\n").unwrap();
    assert_ne!(scenario.hash(), other.hash());
    let error = parse("1000 50\n3000 99\n").unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("neither 1 nor 100"), "{error}");
}

#[test]
fn set_changes_one_class_or_all() {
    let mut document = Document::built_in("test", format!("{PATHS}{WEB}{CALL}")).unwrap();
    document.set("traffic.web.flows=5").unwrap();
    document.set("traffic.duration=2 s").unwrap();
    let classes = document.scenario().unwrap().conditions[0].experiment.classes.clone();
    assert_eq!((classes[0].flows, classes[1].flows), (5, 1));
    assert!(classes.iter().all(|class| class.kind.span().as_secs_f64() == 2.0));
    document.set("traffic.wbe.flows=5").unwrap();
    assert!(document.scenario().unwrap_err().to_string().contains("did you mean `web`?"));
}

/// A download over asymmetric paths: the best single path of an upload is the worst one of a download.
#[test]
fn tcp_takes_the_best_path_of_each_class() {
    let text = "
        schedulers = ['tcp', 'tcp@2', 'min_rtt']
        runs = 3
        [[path]]
        name = 'up'
        rate = { down = '5 Mbit/s', up = '20 Mbit/s' }
        rtt = '20 ms'
        [[path]]
        name = 'down'
        rate = { down = '20 Mbit/s', up = '5 Mbit/s' }
        rtt = '20 ms'
        [[traffic]]
        name = 'photos'
        size = '2 MB'
        direction = 'upload'
        [[traffic]]
        name = 'film'
        start = '6 s'
        size = '2 MB'
        direction = 'download'
    ";
    let scenario = Document::built_in("test", text).unwrap().scenario().unwrap();
    let comparison = compared(&scenario);
    let row = |traffic: &str, scheduler: &str| {
        let is = |row: &&anabranch_lab::report::Record| {
            row.traffic.as_deref() == Some(traffic) && row.scheduler == scheduler
        };
        comparison.rows.iter().find(is).unwrap()
    };
    assert_eq!(row("photos", "tcp").path.as_deref(), Some("up"));
    assert_eq!(row("film", "tcp").path.as_deref(), Some("down"));
    let paths: Vec<(&str, &str)> = comparison.conditions[0]
        .class_paths
        .iter()
        .map(|class| (class.traffic.as_str(), class.path.as_str()))
        .collect();
    assert_eq!(paths, [("photos", "up"), ("film", "down")]);
    // The film takes 0.9 s on its path and 3.4 s on the other one.
    assert!(row("film", "tcp").fct_s.mean.unwrap() < 1.2);
    assert!(row("photos", "tcp@2").fct_s.mean.unwrap() > 3.0);
    let film = comparison.verdicts.iter().find(|one| one.traffic.as_deref() == Some("film")).unwrap();
    // It is the same TCP as `tcp@2`, which is no contender against it.
    assert_eq!(film.compared.as_deref(), Some("min_rtt"));
    assert!(film.difference_pct.unwrap().mean > -40.0, "{:?}", film.difference_pct);
}
