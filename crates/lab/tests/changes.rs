//! `anabranch` over paths that change for a while, or for good, beside a TCP on the path that is the better one in sum.

use std::sync::atomic::AtomicBool;

use anabranch_lab::run::{AppReport, FlowResult, Prepared};
use anabranch_lab::scenario::Document;

/// Returns the mean response time in milliseconds of `contender`. The first path starts as the better one.
fn mean(contender: &str, paths: [&str; 2], traffic: &str) -> f64 {
    let text = format!(
        "schedulers = ['{contender}']\ninitial = 'best'\npath = [{{ {} }}, {{ {} }}]
         [[traffic]]\nname = 'web'\nkind = 'requests'\n{traffic}",
        paths[0], paths[1]
    );
    let scenario = Document::built_in("test", &text).unwrap().scenario().unwrap();
    let prepared = Prepared::new(&scenario, 0).unwrap();
    let times = |run| {
        let flow: FlowResult = prepared.run(0, run, &AtomicBool::new(false)).unwrap().flows.remove(0);
        let AppReport::Requests(all) = flow.report.app else { panic!("no requests") };
        all.into_iter().filter_map(|one| Some(one.time?.as_secs_f64() * 1e3)).collect::<Vec<f64>>()
    };
    let times: Vec<f64> = (0..2).flat_map(times).collect();
    assert!(times.len() > 100, "{times:?}");
    times.iter().sum::<f64>() / times.len() as f64
}

const SMALL: &str = "size = '5 KB'\nthink = '100 ms'\nduration = '15 s'";
const LARGER: &str = "size = '20 KB'\nthink = '200 ms'\nduration = '20 s'";

/// The response of each request before that is known takes 200 ms, and so does that of each later try of the path.
#[test]
fn a_path_that_becomes_longer_is_left() {
    let changed = "rate = '40 Mbit/s', rtt = '10 ms', change = [{ at = '1 s', rtt = '200 ms' }]";
    let paths = [changed, "rate = '5 Mbit/s', rtt = '40 ms'"];
    let (alone, both) = (mean("tcp@2", paths, SMALL), mean("anabranch", paths, SMALL));
    assert!(both < 1.2 * alone, "{both} {alone}");
}

/// Responses of four segments measure a rate only together.
#[test]
fn a_path_that_becomes_slower_is_left() {
    let changed = "rate = '30 Mbit/s', rtt = '20 ms', change = [{ at = '1 s', rate = '0.5 Mbit/s' }]";
    let paths = [changed, "rate = '10 Mbit/s', rtt = '50 ms'"];
    let (alone, both) = (mean("tcp@2", paths, SMALL), mean("anabranch", paths, SMALL));
    assert!(both < 1.05 * alone, "{both} {alone}");
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
        let (alone, both) = (mean("tcp@1", paths, LARGER), mean(contender, paths, LARGER));
        assert!(both < 1.2 * alone, "{change} {contender}: {both} {alone}");
    }
}

/// A sender of 10 Mbit/s shows 10 Mbit/s on a path of 50, and is silent for longer than after which a path that got worse is tried anew.
#[test]
fn a_path_with_a_slow_sender_did_not_become_slower() {
    let paths = ["rate = '50 Mbit/s', rtt = '15 ms'", "rate = '20 Mbit/s', rtt = '40 ms'"];
    let text = |pause: &str| {
        format!(
            "schedulers = ['anabranch']\ninitial = 'best'\npath = [{{ {} }}, {{ {} }}]
             [[traffic]]\nname = 's'\nkind = 'on-off'\non = '500 ms'\noff = '{pause}'\nrate = '10 Mbit/s'\nduration = '12 s'",
            paths[0], paths[1]
        )
    };
    let mean = |pause: &str| {
        let scenario = Document::built_in("test", text(pause)).unwrap().scenario().unwrap();
        let prepared = Prepared::new(&scenario, 0).unwrap();
        let flow = prepared.run(0, 0, &AtomicBool::new(false)).unwrap().flows.remove(0);
        let AppReport::OnOff(all) = flow.report.app else { panic!("no stream") };
        let delays: Vec<f64> = all.iter().skip(1).map(|one| one.delay.unwrap().as_secs_f64()).collect();
        delays.iter().sum::<f64>() / delays.len() as f64
    };
    let (short, long) = (mean("800 ms"), mean("1500 ms"));
    assert!(long < 1.05 * short, "{short} {long}");
}
