//! `anabranch` over paths that change for a while, or for good, beside a TCP on the path that is the better one in sum.

use std::sync::atomic::AtomicBool;

use anabranch_lab::run::{AppReport, Prepared};
use anabranch_lab::scenario::Document;
use anabranch_units::Duration;

/// Returns the reports of the application of `contender`, of two runs. The first path starts as the better one.
fn reports(contender: &str, paths: [&str; 2], class: &str) -> Vec<AppReport> {
    let text = format!(
        "schedulers = ['{contender}']\ninitial = 'best'\npath = [{{ {} }}, {{ {} }}]\n[[traffic]]\nname = 'class'\n{class}",
        paths[0], paths[1]
    );
    let scenario = Document::built_in("test", &text).unwrap().scenario().unwrap();
    let prepared = Prepared::new(&scenario, 0).unwrap();
    let run = |run| prepared.run(0, run, &AtomicBool::new(false)).unwrap().flows.remove(0).report.app;
    (0..2).map(run).collect()
}

/// Returns the mean of more than `least` spans in milliseconds.
fn mean(spans: impl Iterator<Item = Duration>, least: usize) -> f64 {
    let times: Vec<f64> = spans.map(|span| span.as_secs_f64() * 1e3).collect();
    assert!(times.len() > least, "{times:?}");
    times.iter().sum::<f64>() / times.len() as f64
}

/// Returns the mean response time in milliseconds of `contender`.
fn response(contender: &str, paths: [&str; 2], requests: &str) -> f64 {
    let all = reports(contender, paths, &format!("kind = 'requests'\n{requests}")).into_iter();
    let exchanges = all.flat_map(|app| match app {
        AppReport::Requests(all) => all,
        other => panic!("{other:?}"),
    });
    mean(exchanges.filter_map(|one| one.time), 100)
}

const SMALL: &str = "size = '5 KB'\nthink = '100 ms'\nduration = '15 s'";
const LARGER: &str = "size = '20 KB'\nthink = '200 ms'\nduration = '20 s'";

/// Small responses take less than `bound` times as long as over the second path alone, as the first one changes for good.
fn is_left(paths: [&str; 2], bound: f64) {
    let (alone, both) = (response("tcp@2", paths, SMALL), response("anabranch", paths, SMALL));
    assert!(both < bound * alone, "{both} {alone}");
}

/// The response of each request before that is known takes 200 ms, and so does that of each later try of the path.
#[test]
fn a_path_that_becomes_longer_is_left() {
    let changed = "rate = '40 Mbit/s', rtt = '10 ms', change = [{ at = '1 s', rtt = '200 ms' }]";
    is_left([changed, "rate = '5 Mbit/s', rtt = '40 ms'"], 1.2);
}

/// Responses of four segments measure a rate only together.
#[test]
fn a_path_that_becomes_slower_is_left() {
    let changed = "rate = '30 Mbit/s', rtt = '20 ms', change = [{ at = '1 s', rate = '0.5 Mbit/s' }]";
    is_left([changed, "rate = '10 Mbit/s', rtt = '50 ms'"], 1.05);
}

/// A second of long round trips, or of a low rate, looks like a path that is slow for good.
#[test]
fn a_path_that_has_recovered_is_used_again() {
    let long = "{ at = '1 s', rtt = '400 ms' }, { at = '2 s', rtt = '20 ms' }";
    let slow = "{ at = '30 ms', rate = '0.6 Mbit/s' }, { at = '1 s', rate = '30 Mbit/s' }";
    // Without a memory nothing shows that the path was not slow before.
    for (change, contender) in [(long, "anabranch"), (long, "anabranch:memory=0"), (slow, "anabranch")] {
        let changed = format!("rate = '30 Mbit/s', rtt = '20 ms', change = [{change}]");
        let paths = [changed.as_str(), "rate = '5 Mbit/s', rtt = '100 ms'"];
        let (alone, both) = (response("tcp@1", paths, LARGER), response(contender, paths, LARGER));
        assert!(both < 1.2 * alone, "{change} {contender}: {both} {alone}");
    }
}

/// A sender of 10 Mbit/s shows 10 Mbit/s on a path of 50, and is silent for longer than after which a path that got worse is tried anew.
#[test]
fn a_path_with_a_slow_sender_did_not_become_slower() {
    let paths = ["rate = '50 Mbit/s', rtt = '15 ms'", "rate = '20 Mbit/s', rtt = '40 ms'"];
    let delay = |pause: &str| {
        let class =
            format!("kind = 'on-off'\non = '500 ms'\noff = '{pause}'\nrate = '10 Mbit/s'\nduration = '12 s'");
        let bursts = reports("anabranch", paths, &class).into_iter().flat_map(|app| match app {
            AppReport::OnOff(all) => all.into_iter().skip(1),
            other => panic!("{other:?}"),
        });
        mean(bursts.map(|one| one.delay.unwrap()), 9)
    };
    let (short, long) = (delay("800 ms"), delay("1500 ms"));
    assert!(long < 1.05 * short, "{short} {long}");
}
