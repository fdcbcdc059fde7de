//! Interfaces that go down so that their host notices, beside paths that die silently.

use std::sync::atomic::AtomicBool;

use anabranch_lab::run::{FlowResult, Prepared};
use anabranch_lab::scenario::{Document, Scenario};

fn scenario(text: &str) -> Scenario {
    Document::built_in("test", text).unwrap().scenario().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn flow(text: &str) -> FlowResult {
    let scenario = scenario(text);
    let prepared = Prepared::new(&scenario, 0).unwrap();
    prepared.run(0, 0, &AtomicBool::new(false)).unwrap().flows.remove(0)
}

/// Ten seconds of an upload over two paths, of which the first changes.
fn upload(scheduler: &str, changes: &str) -> FlowResult {
    flow(&format!(
        "schedulers = ['{scheduler}']
         path = [{{ rate = '10 Mbit/s', rtt = '30 ms', change = [{changes}] }}, {{ rate = '10 Mbit/s', rtt = '30 ms' }}]
         traffic = {{ size = 'bulk', duration = '10 s', direction = 'upload' }}"
    ))
}

const SILENT: &str = "{ at = '1 s', down = true }, { at = '4 s', up = true }";
const NOTICED: &str =
    "{ at = '1 s', down = true, notify-after = 0 }, { at = '4 s', up = true, notify-after = '50 ms' }";

#[test]
fn a_host_that_notices_closes_the_subflow_and_joins_again() {
    let (silent, noticed) = (upload("min_rtt", SILENT), upload("min_rtt", NOTICED));
    let subflows = |flow: &FlowResult| flow.report.sender.subflows.clone();
    assert_eq!((subflows(&silent).len(), subflows(&noticed).len()), (2, 3));
    let noticed_subflows = subflows(&noticed);
    let (first, again) = (&noticed_subflows[0], &noticed_subflows[2]);
    assert_eq!(first.ended.unwrap().as_secs_f64(), 1.0);
    assert_eq!(first.counters.timeouts, 0);
    // After the notification, a join of two round trips: its third ACK is answered (RFC 8684 section 3.2).
    let joined = again.established.unwrap().as_secs_f64();
    assert!((4.11..4.12).contains(&joined), "{joined}");
    assert_eq!(again.local.ip, first.local.ip);
    assert!(again.counters.bytes_sent > 4_000_000, "{:?}", again.counters);
    // A silent path is noticed by timeouts, whose backoff outlasts the failure.
    assert!(subflows(&silent)[0].counters.timeouts > 1);
    assert!(noticed.report.delivered > silent.report.delivered, "{noticed:?}");
}

/// The sender of a download has no interface that goes down: the client withdraws its address.
#[test]
fn a_host_that_knows_that_its_interface_is_down_learns_that_it_is_up() {
    let run = |up: &str| {
        let changes =
            format!("{{ at = '1 s', down = true, notify-after = 0 }}, {{ at = '4 s', up = true{up} }}");
        upload("min_rtt", &changes).report
    };
    let (silent, noticed) = (run(""), run(", notify-after = 0"));
    assert_eq!(silent.delivered, noticed.delivered);
    assert_eq!(silent.sender.subflows.len(), 3);
}

// An interface that comes back after a silent outage.
#[test]
fn a_path_that_failed_silently_is_used_again_whether_its_return_is_noticed_or_not() {
    for up in ["", ", notify-after = 0"] {
        let changes = format!("{{ at = '1 s', down = true }}, {{ at = '4 s', up = true{up} }}");
        let report = upload("min_rtt", &changes).report;
        let [first, second] = report.sender.subflows.as_slice() else { panic!("{report:?}") };
        let carried = [first, second].map(|subflow| subflow.counters.bytes_sent);
        assert!(carried[0] > 6_000_000 && carried[1] > 11_000_000, "{carried:?}");
    }
}

#[test]
fn a_server_learns_it_by_the_withdrawal_of_the_address() {
    let run = |changes: &str| {
        flow(&format!(
            "schedulers = ['min_rtt']
             path = [{{ rate = '10 Mbit/s', rtt = '30 ms', change = [{changes}] }}, {{ rate = '10 Mbit/s', rtt = '30 ms' }}]
             traffic = {{ size = '4 MB' }}"
        ))
    };
    let (silent, noticed) =
        (run("{ at = '1 s', down = true }"), run("{ at = '1 s', down = true, notify-after = 0 }"));
    let ended = |flow: &FlowResult| flow.report.sender.subflows[0].ended;
    let (silent_end, end) = (ended(&silent), ended(&noticed).unwrap().as_secs_f64());
    assert!(end > 1.0 && end < 3.0, "{end}");
    assert!(silent_end.is_none_or(|silent| silent.as_secs_f64() > end));
    assert!(noticed.report.fct.is_some() && silent.report.fct.is_some());
}

/// As on Linux, whose TCP sockets keep an address that is removed and added again.
#[test]
fn a_plain_tcp_waits_for_its_address() {
    let (silent, noticed) = (upload("tcp@1", SILENT), upload("tcp@1", NOTICED));
    assert_eq!(noticed.report.delivered, silent.report.delivered);
    assert!(noticed.report.delivered > 2_000_000);
}

#[test]
fn a_connection_without_a_subflow_joins_again() {
    let flow = flow(
        "schedulers = ['min_rtt']
         path = [{ rate = '10 Mbit/s', rtt = '30 ms', change = [{ at = '1 s', down = true, notify-after = 0 }, { at = '4 s', up = true, notify-after = 0 }] }]
         traffic = { size = '3 MB', direction = 'upload' }",
    );
    let completion = flow.report.fct.unwrap().as_secs_f64();
    // 2.5 s of sending and 3 s without a path.
    assert!(completion > 5.0 && completion < 6.5, "{completion}");
    assert_eq!(flow.report.sender.subflows.len(), 2);
}

#[test]
fn a_graph_notifies_the_host_at_the_end_of_the_link() {
    let graph = flow(&format!(
        "schedulers = ['min_rtt']
         node = [{{ name = 'client' }}, {{ name = 'server' }}]
         link = [{{ from = 'client', to = 'server', name = 'one', rate = '10 Mbit/s', delay = '15 ms', change = [{NOTICED}] }},
            {{ from = 'client', to = 'server', name = 'two', rate = '10 Mbit/s', delay = '15 ms' }}]
         traffic = {{ from = 'client', to = 'server', size = 'bulk', duration = '10 s', direction = 'upload' }}"
    ));
    let path = upload("min_rtt", NOTICED);
    assert_eq!(graph.report.delivered, path.report.delivered);
}

#[test]
fn a_notification_needs_a_change_of_both_directions() {
    let error = |change: &str| {
        let text = format!("path = [{{ preset = 'dsl', change = [{{ at = '1 s', {change} }}] }}]");
        Document::built_in("x", text).unwrap().scenario().unwrap_err().to_string()
    };
    for change in ["rate = '1 Mbit/s', notify-after = 0", "down = { data = true }, notify-after = 0"] {
        assert!(error(change).contains("leaves the interface as it is"), "{change}");
    }
    assert!(error("down = true, notify-after = { up = '1 s' }").contains("one value for both directions"));
}

#[test]
fn an_emulation_has_the_signals_of_the_paths_in_order() {
    let scenario = scenario(&format!(
        "path = [{{ rate = '9 Mbit/s', rtt = '9 ms' }}, {{ rate = '9 Mbit/s', rtt = '9 ms', change = [{NOTICED}] }}]"
    ));
    for direction in
        [anabranch_lab::scenario::Direction::Upload, anabranch_lab::scenario::Direction::Download]
    {
        let mut experiment = scenario.conditions[0].experiment.clone();
        experiment.has_fixed_paths().unwrap();
        if experiment.traffic.direction != direction {
            experiment.traffic.direction = direction;
            for path in &mut experiment.pairs[0].paths {
                std::mem::swap(&mut path.data, &mut path.acks);
            }
        }
        let signals = experiment.signals();
        assert!(!signals.is_empty() && signals.iter().all(|(path, _)| *path == 1), "{signals:?}");
        assert!(!signals[0].1.up && signals.is_sorted_by_key(|(_, signal)| signal.at), "{signals:?}");
    }
}

#[test]
fn a_notification_changes_the_hash() {
    let hash =
        |changes: &str| scenario(&format!("path = [{{ preset = 'dsl', change = [{changes}] }}]")).hash();
    let (silent, noticed) = (hash(SILENT), hash(NOTICED));
    assert_ne!(silent, noticed);
    assert_ne!(noticed, hash(&NOTICED.replace("50 ms", "60 ms")));
}

/// Six uploads of 300 KB, one each second. The interface of the first path is down from 1.2 s, and of the second from 3.2 s.
fn starts(head: &str) -> Vec<usize> {
    let text = format!(
        "schedulers = ['min_rtt', 'tcp@1']
         initial = {head}
         path = [
             {{ rate = '40 Mbit/s', rtt = '30 ms', change = [{{ at = '1.2 s', down = true, notify-after = '100 ms' }}, {{ at = '4.2 s', up = true }}] }},
             {{ rate = '5 Mbit/s', rtt = '30 ms', change = [{{ at = '3.2 s', down = true, notify-after = '100 ms' }}, {{ at = '4.2 s', up = true }}] }},
             {{ rate = '20 Mbit/s', rtt = '30 ms' }},
         ]
         traffic = {{ size = '300 KB', flows = 6, every = '1 s', direction = 'upload' }}"
    );
    let scenario = scenario(&text);
    let prepared = Prepared::new(&scenario, 0).unwrap();
    let results = prepared.run(0, 0, &AtomicBool::new(false)).unwrap();
    assert!(results.flows.iter().all(|flow| flow.report.fct.is_some()));
    let address = |flow: &FlowResult| match flow.report.sender.subflows[0].local.ip {
        std::net::IpAddr::V4(ip) => usize::from(ip.octets()[3]),
        std::net::IpAddr::V6(_) => unreachable!(),
    };
    results.flows.iter().map(address).collect()
}

#[test]
fn a_flow_begins_on_no_interface_that_its_host_knows_is_down() {
    assert_eq!(starts("'1'"), [1, 1, 2, 2, 3, 1]);
    assert_eq!(starts("'best'"), [1, 1, 3, 3, 3, 1]);
}

/// The interface goes down before the path has answered, before the data is acknowledged, and later: until then no other path may join.
#[test]
fn a_connection_that_loses_its_interface_in_the_handshake_is_delivered() {
    let time = |down: u64, race: &str| {
        let flow = flow(&format!(
            "schedulers = ['anabranch']\ninitial = 'best'\nconnection = {{ {race} }}
             path = [{{ rate = '30 Mbit/s', rtt = '20 ms', change = [{{ at = '{down} ms', down = true, notify-after = '5 ms' }},
                        {{ at = '800 ms', up = true, notify-after = '5 ms' }}] }},
                     {{ rate = '20 Mbit/s', rtt = '30 ms' }}]
             traffic = {{ size = '100 KB' }}"
        ));
        flow.report.fct.expect("it is delivered").as_secs_f64()
    };
    for (down, least, most) in [(5, 0.8, 1.3), (15, 0.8, 2.2), (50, 0.0, 0.4)] {
        let took = time(down, "");
        assert!((least..most).contains(&took), "{down} ms: {took} s");
    }
    // Another path tries after a quarter of a second, or at once when the first one is given up.
    let took = time(5, "race = '250 ms'");
    assert!(took < 0.3, "{took} s");
}
