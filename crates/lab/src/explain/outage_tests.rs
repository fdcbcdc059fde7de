//! The outages of simulated flows.

use core::sync::atomic::AtomicBool;

use super::account::Account;
use super::cause::Cause;
use super::tests::{explained, first, milliseconds, scenario};
use super::{Explicable, Question, explain};
use crate::options::Options;

/// Returns the time of the outages of the first flow by path, in milliseconds.
fn outages(account: &Account) -> Vec<(usize, f64, f64)> {
    let mut all: Vec<(usize, f64, f64)> = Vec::new();
    for (outage, span) in super::outage::waited(&account.charges) {
        let (from, span) = (outage.from.as_secs_f64(), span.as_secs_f64() * 1e3);
        match all.iter_mut().find(|other| (other.0, other.1) == (outage.path, from)) {
            Some(other) => other.2 += span,
            None => all.push((outage.path, from, span)),
        }
    }
    all
}

const SILENT: &str = "change = [{ at = '1 s', down = true }, { at = '3 s', up = true }]";

#[test]
fn the_wait_for_the_only_path_is_its_outage() {
    // From the first loss on, a few milliseconds after 1 s, until the first retransmission after 3 s has arrived. The same
    // flow without an outage takes as long as the rest.
    let of = |change: &str| {
        format!(
            "path = [{{ rate = '10 Mbit/s', rtt = '40 ms', {change} }}]
             traffic = {{ size = '4 MB' }}
             schedulers = ['tcp']
             phases = false"
        )
    };
    let account = first(&of(SILENT));
    let parts = account.parts();
    let waited = parts[Cause::Outage] as f64 / 1e6;
    assert_eq!(parts.largest(), Some(Cause::Serialisation), "{:?}", milliseconds(&parts));
    assert!(waited > 2000.0 && parts[Cause::Retransmission] < 50_000_000, "{:?}", milliseconds(&parts));
    let found = outages(&account);
    assert!(matches!(found[..], [(0, 1.0, span)] if (span - waited).abs() < 1e-6), "{found:?}");
    let calm = first(&of("loss = 0"));
    let more = (account.total.0 - calm.total.0) as f64 / 1e6;
    assert!((waited - more).abs() < 0.1 * more, "{waited} of {more} ms more: {:?}", milliseconds(&parts));
}

#[test]
fn the_wait_for_data_lost_on_one_of_two_paths_is_its_outage() {
    let account = first(&format!(
        "path = [{{ rate = '10 Mbit/s', rtt = '40 ms', {SILENT} }}, {{ rate = '10 Mbit/s', rtt = '40 ms' }}]
         traffic = {{ size = '2100 KB' }}
         schedulers = ['min_rtt']
         phases = false"
    ));
    // The flow ends soon after 1 s: its last bytes wait for those that path 1 has lost.
    let parts = account.parts();
    let found = outages(&account);
    assert!(parts[Cause::Outage] > 100_000_000, "{:?}", milliseconds(&parts));
    assert!(found.iter().all(|(path, from, _)| (*path, *from) == (0, 1.0)), "{found:?}");
}

#[test]
fn a_path_that_is_down_at_the_start_delays_the_handshake() {
    let parts = first(
        "path = [{ rate = '10 Mbit/s', rtt = '40 ms', change = [{ at = '0 s', down = true }, { at = '500 ms', up = true }] }]
         traffic = { size = '20 KB' }
         schedulers = ['tcp']
         phases = false",
    )
    .parts();
    // The second SYN is sent after a second.
    assert_eq!(parts.largest(), Some(Cause::Outage), "{:?}", milliseconds(&parts));
    assert!(parts[Cause::Outage] >= 990_000_000, "{:?}", milliseconds(&parts));
}

#[test]
fn a_link_that_keeps_its_packets_while_it_is_down_is_an_outage() {
    let parts = first(&format!(
        "path = [{{ rate = '10 Mbit/s', rtt = '40 ms', when-down = 'keep', {SILENT} }}]
         traffic = {{ size = '4 MB' }}
         schedulers = ['tcp']
         phases = false"
    ))
    .parts();
    assert!(parts[Cause::Outage] >= 1_950_000_000, "{:?}", milliseconds(&parts));
}

#[test]
fn a_path_that_is_not_needed_has_no_part() {
    // Its outage begins after the flow has ended, or it carries nothing.
    for text in [
        "path = [{ rate = '10 Mbit/s', rtt = '40 ms', change = [{ at = '5 s', down = true }] }]
         traffic = { size = '500 KB' }
         schedulers = ['tcp']",
        "path = [{ rate = '10 Mbit/s', rtt = '40 ms' }, { rate = '10 Mbit/s', rtt = '20 ms', change = [{ at = '0 s', down = true }] }]
         traffic = { size = '500 KB' }
         schedulers = ['tcp@1']",
    ] {
        assert_eq!(first(text).parts()[Cause::Outage], 0);
    }
}

#[test]
fn an_explanation_names_the_outage_and_removes_it() {
    let scenario = scenario(&format!(
        "path = [{{ name = 'wifi', rate = '10 Mbit/s', rtt = '40 ms', {SILENT} }}]
         traffic = {{ size = '2 MB' }}
         schedulers = ['tcp']
         runs = 3"
    ));
    let question = Question { flow: None, changes: true };
    let cancelled = AtomicBool::new(false);
    let explanation =
        explain(Explicable::new(&scenario).unwrap(), question, &Options::new(1, &cancelled, &|_, _| {}))
            .unwrap();
    let row = &explanation.rows[0];
    let [outage] = &row.outages[..] else { panic!("{:?}", row.outages) };
    assert_eq!((outage.path.as_str(), outage.from_s, outage.until_s), ("wifi", 1.0, Some(3.0)));
    let part = row.parts.iter().find(|part| part.cause == Cause::Outage).unwrap();
    assert!((part.mean_s - outage.mean_s).abs() < 1e-9 && outage.mean_s > 2.0);
    assert!(row.longest_gap_s.unwrap() >= outage.mean_s - 0.1, "{:?}", row.longest_gap_s);
    assert_eq!(row.parts.iter().map(|part| part.sum_ns.unwrap()).sum::<u64>(), row.total_ns);
    let words = "because a path was down, mostly on wifi. The outage of wifi from 1 s to 3 s cost 2";
    assert!(row.sentence.contains(words), "{}", row.sentence);
    assert!(row.changes.iter().any(|change| change.what == "wifi always up" && change.helps == Some(true)));
}

#[test]
fn an_outage_is_one_although_some_flows_end_before_it_does() {
    let explanation = explained(
        "path = [{ rate = '20 Mbit/s', rtt = '20 ms', change = [{ at = '300 ms', down = true }, { at = '900 ms', up = true }] },
                 { rate = '10 Mbit/s', rtt = '60 ms' }]
         traffic = { size = { distribution = 'uniform', min = '600 KB', max = '2 MB' } }
         schedulers = ['min_rtt']
         runs = 12",
        false,
    );
    let row = &explanation.rows[0];
    let [outage] = &row.outages[..] else { panic!("{:?}", row.outages) };
    assert_eq!((outage.from_s, outage.until_s, outage.stopped), (0.3, Some(0.9), 0));
    assert_eq!(row.sentence.matches("The outage of").count(), 1, "{}", row.sentence);
}

#[test]
fn flows_that_do_not_finish_have_the_outage_and_the_change_that_lets_them_finish() {
    for down in ["300 ms", "0 s"] {
        let explanation = explained(
            &format!(
                "path = [{{ rate = '20 Mbit/s', rtt = '20 ms', change = [{{ at = '{down}', down = true }}] }}]
                 traffic = {{ size = '4 MB' }}
                 schedulers = ['tcp', 'linux']
                 deadline = '5 s'
                 runs = 2"
            ),
            true,
        );
        for row in &explanation.rows {
            let [outage] = &row.outages[..] else { panic!("{:?}", row.outages) };
            assert_eq!((outage.until_s, outage.stopped), (None, 2));
            let up = &row.changes[0];
            assert_eq!((up.what.as_str(), up.helps, up.effect_pct), ("path 1 always up", Some(true), None));
            assert_eq!(up.unfinished, 0);
            let words = ["on was not over when 2 flows ended", "With path 1 always up, every flow finishes."];
            assert!(words.iter().all(|words| row.sentence.contains(words)), "{}", row.sentence);
        }
    }
}

/// Everything is written and the interface is gone, so that nothing is retransmitted when the path is up again.
#[test]
fn an_outage_that_stops_flows_is_named_although_it_ends() {
    let explanation = explained(
        "path = [{ name = 'wifi', rate = '10 Mbit/s', rtt = '20 ms', change = [
                    { at = '80 ms', down = true, notify-after = '100 ms' },
                    { at = '5 s', up = true, notify-after = '100 ms' }] },
                 { name = 'lte', rate = '5 Mbit/s', rtt = '60 ms' }]
         traffic = { size = '60 KB', direction = 'upload' }
         schedulers = ['linux']
         runs = 2",
        true,
    );
    let row = &explanation.rows[0];
    assert_eq!(row.of.completed, 0, "{}", row.sentence);
    let [outage] = &row.outages[..] else { panic!("{:?}", row.outages) };
    assert_eq!(
        (outage.path.as_str(), outage.from_s, outage.until_s, outage.stopped),
        ("wifi", 0.08, Some(5.0), 2)
    );
    let words = "The outage of wifi from 0.08 s to 5 s stopped 2 flows, which delivered nothing more.";
    assert!(row.sentence.contains(words), "{}", row.sentence);
    let up = row.changes.iter().find(|change| change.what == "wifi always up").unwrap();
    assert_eq!((up.unfinished, up.helps), (0, Some(true)));
}
