//! Values of scenarios and plans as a simulation takes them: units, orders, defaults, and warnings.

use anabranch_link::{Aqm, Change};
use anabranch_scenario::plan::Plan;
use anabranch_scenario::units::{parse_size, parse_span};
use anabranch_scenario::{Document, Link, Scenario, Start};
use anabranch_units::{Duration, Time};

fn scenario(text: &str) -> Scenario {
    Document::parse("x", text, ".").unwrap().scenario().unwrap()
}

const PATH: &str = "path = [{ rate = '9 Mbit/s', rtt = '20 ms' }]";

#[test]
fn every_unit_of_time_and_size_has_its_factor() {
    for (text, nanos) in [
        ("3 ns", 3),
        ("3 us", 3_000),
        ("3 ms", 3_000_000),
        ("3 s", 3_000_000_000),
        ("3 min", 180_000_000_000),
        ("1.5 h", 5_400_000_000_000),
    ] {
        assert_eq!(parse_span(text), Ok(Duration(nanos)), "{text}");
    }
    for (text, bytes) in [("3 GiB", 3_u64 << 30), ("3 TB", 3_000_000_000_000), ("8 Tbit", 1_000_000_000_000)]
    {
        assert_eq!(parse_size(text).map(|size| size.0), Ok(bytes), "{text}");
    }
}

#[test]
fn a_loss_of_half_of_the_packets_or_more_is_warned_of_in_its_own_direction() {
    let warnings =
        |rest: &str| scenario(&format!("path = [{{ rate = '9 Mbit/s', rtt = '20 ms'{rest} }}]")).warnings();
    assert_eq!(warnings(", loss = 0.49, loss-up = 0.49"), [""; 0]);
    let loss = warnings(", loss = 0.5");
    assert!(loss.len() == 1 && loss[0].contains("loses 50% of the packets (loss)"), "{loss:?}");
    let up = warnings(", loss = 0.01, loss-up = 0.7");
    assert!(up.len() == 1 && up[0].contains("loses 70% of the packets (loss-up)"), "{up:?}");
    assert!(up[0].ends_with("if 0.7 % is meant, write `loss-up=0.7%`"), "{up:?}");
    let all = warnings(", loss = 1");
    assert!(all[0].contains("loses every packet (loss)"), "{all:?}");
}

#[test]
fn flows_start_in_the_order_of_their_times_and_a_load_has_a_hundred() {
    let traffic = |line: &str| {
        scenario(&format!("{PATH}\ntraffic = {{ size = '10 KB', {line} }}")).conditions[0]
            .experiment
            .traffic
            .clone()
    };
    let given = traffic("starts = ['2 s', '0.5 s', '1 s']");
    assert_eq!(given.start, Start::At([500, 1000, 2000].map(Time::from_millis).to_vec()));
    assert_eq!(given.flows, 3);
    assert_eq!((traffic("load = '50%'").flows, traffic("load = '50%', flows = 7").flows), (100, 7));
    assert_eq!(traffic("every = '1 s'").flows, 100);
    assert_eq!(traffic("start = '1 s'").flows, 1);
}

#[test]
fn each_direction_has_half_of_a_changed_round_trip() {
    let changed = |change: &str| {
        let one = scenario(&format!("path = [{{ rate = '9 Mbit/s', rtt = '20 ms', change = [{change}] }}]"));
        let experiment = &one.conditions[0].experiment;
        let path = &experiment.paths()[0];
        let links =
            [&path.data[0], &path.acks[0]].map(|route| &experiment.graph.links[route[0]].config.timeline);
        links.map(|steps| steps.iter().map(|step| (step.at, step.change.clone())).collect::<Vec<_>>())
    };
    let delay = |ms| vec![(Time::from_secs(1), Change::Delay(Duration::from_millis(ms)))];
    assert_eq!(changed("{ at = '1 s', rtt = '80 ms' }"), [delay(40), delay(40)]);
    assert_eq!(changed("{ at = '1 s', delay = '80 ms' }"), [delay(80), delay(80)]);
}

#[test]
fn changes_repeat_at_their_interval() {
    let changed = |keys: &str| {
        let one = scenario(&format!("path = [{{ rate = '9 Mbit/s', rtt = '20 ms', {keys} }}]"));
        let experiment = &one.conditions[0].experiment;
        let steps = &experiment.graph.links[experiment.paths()[0].data[0][0]].config.timeline;
        let steps: Vec<(u64, Change)> =
            steps.iter().map(|step| (step.at.0 / 1_000_000, step.change.clone())).collect();
        (steps, experiment.signals().len())
    };
    let once = "change = [{ at = '5 s', down = true, notify-after = '0 s' }, { at = '5.3 s', up = true }]";
    let (steps, signals) = changed(&format!("{once}, change-every = '15 s'"));
    assert_eq!(
        steps[..4],
        [(5000, Change::Down), (5300, Change::Up), (20_000, Change::Down), (20_300, Change::Up)]
    );
    // Each in the first hour.
    assert_eq!((steps.len(), steps.last().unwrap().0, signals), (480, 3_590_300, 480));
    assert_eq!(changed(once), (steps[..2].to_vec(), 2));
    // The same as written out.
    let (thrice, _) =
        changed("change = [{ at = '0 s', loss = 0.1 }, { at = '1 s', loss = 0 }], change-every = '1500 s'");
    assert_eq!(
        thrice.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
        [0, 1000, 1_500_000, 1_501_000, 3_000_000, 3_001_000]
    );
}

/// A host that learns late that its interface is down does not learn before that it is up.
#[test]
fn an_interface_comes_up_after_it_was_noticed_to_be_down() {
    let signals = |changes: &str| {
        let text = format!(
            "path = [{{ rate = '9 Mbit/s', rtt = '20 ms', change = [{changes}] }}]\ntraffic.direction = 'upload'"
        );
        let signals = scenario(&text).conditions[0].experiment.signals();
        signals
            .into_iter()
            .map(|(path, signal)| (path, signal.at.0 / 1_000_000_000, signal.up))
            .collect::<Vec<_>>()
    };
    let down = "{ at = '1 s', down = true, notify-after = '5 s' }";
    assert_eq!(signals(&format!("{down}, {{ at = '3 s', up = true }}")), [(0, 6, false), (0, 6, true)]);
    assert_eq!(signals(&format!("{down}, {{ at = '9 s', up = true }}")), [(0, 6, false), (0, 9, true)]);
    let late = "{ at = '9 s', up = true, notify-after = '2 s' }";
    assert_eq!(signals(&format!("{down}, {late}")), [(0, 6, false), (0, 11, true)]);
    // Without a notification a host notices neither.
    assert_eq!(signals("{ at = '1 s', down = true }, { at = '3 s', up = true }"), []);
}

#[test]
fn a_contender_may_have_segments_of_its_own_length() {
    let one = scenario(&format!(
        "{PATH}\nschedulers = ['min_rtt', {{ scheduler = 'min_rtt', name = 'own', mss = 1000 }}, {{ scheduler = 'tcp', name = 'old', mss = 536 }}]"
    ));
    let lengths: Vec<u32> = one.conditions[0].configs.iter().map(|config| config.mss).collect();
    assert_eq!(lengths, [1420, 1000, 536]);
    assert_eq!(scenario(&format!("{PATH}\nschedulers = ['tcp']")).conditions[0].configs[0].mss, 1448);
}

#[test]
fn a_grid_counts_like_digits_and_measures_no_other_starts() {
    let plan = |more: &str| {
        let text = format!(
            "{more}\nvary = {{ 'path.1.rate' = ['5 Mbit/s', '20 Mbit/s'], 'traffic.size' = ['1 KB', '2 KB', '3 KB'] }}"
        );
        Plan::of_document("x", text, Document::open("phone").unwrap()).unwrap()
    };
    let grid = plan("");
    let names: Vec<String> = grid.dimensions().iter().flat_map(|own| own.keys.clone()).collect();
    assert_eq!(names, ["path.1.rate", "traffic.size"]);
    let points: Vec<String> = (0..grid.points())
        .map(|number| grid.point(number).values.join(" ").replace(['\'', '"'], ""))
        .collect();
    assert_eq!(
        points,
        [
            "5 Mbit/s 1 KB",
            "5 Mbit/s 2 KB",
            "5 Mbit/s 3 KB",
            "20 Mbit/s 1 KB",
            "20 Mbit/s 2 KB",
            "20 Mbit/s 3 KB"
        ]
    );
    let starts = |plan: &Plan| plan.scenario(&plan.point(0)).unwrap().other_starts;
    assert!(!starts(&grid), "they cost as much as all other runs");
    assert!(starts(&plan("other-starts = true")));
}

#[test]
fn changes_that_hosts_notice_are_in_the_order_of_their_times() {
    let path = |at: &str| {
        format!(
            "{{ rate = '9 Mbit/s', rtt = '20 ms', change = [{{ at = '{at}', down = true, notify-after = '10 ms' }}] }}"
        )
    };
    let two = scenario(&format!("path = [{}, {}]", path("3 s"), path("1 s")));
    let signals = two.conditions[0].experiment.signals();
    let found: Vec<(usize, Time)> = signals.iter().map(|(path, signal)| (*path, signal.at)).collect();
    assert_eq!(found, [(1, Time::from_millis(1010)), (0, Time::from_millis(3010))]);
}

#[test]
fn only_downloads_of_a_contender_are_its_downloads() {
    let class = |name: &str, more: &str| format!("{{ name = '{name}', size = '10 KB', {more} }}");
    let with = |second: &str| {
        let up = class("a", "direction = 'upload'");
        let text = format!("{PATH}\ntraffic = [{up}, {}]", class("b", second));
        scenario(&text).conditions[0].experiment.has_downloads()
    };
    assert!(with("direction = 'download'") && !with("direction = 'upload'"));
    assert!(!with("direction = 'download', via = 'tcp', path = 1"));
}

#[test]
fn a_web_like_maximum_is_above_the_least_size_and_background_names_its_path() {
    let traffic = |keys: &str| {
        let text = format!("{PATH}\ntraffic = {{ {keys} }}");
        Document::parse("x", text, ".").unwrap().scenario().map_err(|error| error.to_string())
    };
    assert!(traffic("size = 'web', max = '19001 B'").is_ok());
    assert!(traffic("size = 'web', max = '19 KB'").unwrap_err().contains("must be above that"));
    assert!(traffic("size = '10 KB', background = { path = 1 }").is_ok());
    assert!(traffic("size = '10 KB', background = { flows = 1 }").unwrap_err().contains("`path`"));
}

#[test]
fn queue_management_marks_packets_unless_it_is_told_to_drop_them() {
    let ecn = |aqm: &str| {
        let one = scenario(&format!("path = [{{ rate = '9 Mbit/s', rtt = '20 ms', aqm = {aqm} }}]"));
        let experiment = &one.conditions[0].experiment;
        match experiment.own_link(&experiment.paths()[0]).config.aqm {
            Aqm::Codel(codel) => codel.ecn,
            Aqm::Red(red) => red.ecn,
            _ => panic!("another kind"),
        }
    };
    assert!(ecn("{ kind = 'codel', target = '5 ms' }") && ecn("{ kind = 'red', weight = 0.1 }"));
    assert!(!ecn("{ kind = 'codel', ecn = false }"));
}

fn link(keys: &str) -> Link {
    let one = scenario(&format!("path = [{{ rate = '9 Mbit/s', rtt = '20 ms', {keys} }}]"));
    let experiment = &one.conditions[0].experiment;
    experiment.own_link(&experiment.paths()[0]).clone()
}

#[test]
fn a_link_sustains_no_more_than_its_token_buckets() {
    let rate = |keys: &str| link(keys).mean_rate().0;
    assert_eq!(rate("policer = { rate = '5 Mbit/s', burst = '30 KB' }"), 5_000_000);
    assert_eq!(rate("shaper = { rate = '4 Mbit/s', burst = '30 KB' }"), 4_000_000);
    assert_eq!(rate("shaper = { rate = '40 Mbit/s', burst = '30 KB' }"), 9_000_000);
}

#[test]
fn a_delay_that_is_redrawn_may_be_0_unless_it_does_not_deviate() {
    let least = |deviation: &str| {
        let redraw =
            format!("redraw = {{ every = '1 s', rtt = {{ mean = '10 ms', deviation = '{deviation}' }} }}");
        link(&redraw).least_rtt()
    };
    assert_eq!((least("2 ms"), least("0 ms")), (Duration::ZERO, Duration::from_millis(10)));
}

#[test]
fn repeated_changes_are_at_the_same_times_in_both_directions() {
    let one = scenario(
        "path = [{ rate = '9 Mbit/s', rtt = '20 ms', change-every = '15 s',
         change = [{ at = '5 s', down = true }, { at = '6 s', up = true }] }]",
    );
    let experiment = &one.conditions[0].experiment;
    let path = &experiment.paths()[0];
    let (data, acks) = (experiment.own_link(path), experiment.own_ack_link(path));
    assert!(data.config.timeline.len() > 400);
    assert_eq!(data.config.timeline, acks.config.timeline);
    assert_eq!(experiment.outages().len(), data.config.timeline.len() / 2);
}

#[test]
fn a_log_normal_distribution_has_the_mean_that_is_given() {
    let mean = |keys: &str| {
        let text = format!("{PATH}\ntraffic.size = {{ distribution = 'log-normal', sigma = 1.5, {keys} }}");
        scenario(&text).conditions[0].experiment.traffic.size.mean().unwrap()
    };
    assert!((mean("mean = '50 KB'") - 50_000.0).abs() < 1.0);
    assert!((mean("median = '50 KB'") - 50_000.0 * f64::exp(1.125)).abs() < 1.0);
}
