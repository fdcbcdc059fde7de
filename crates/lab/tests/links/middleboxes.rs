//! Middleboxes on paths: the hosts follow RFC 8684 section 3.7, and every transfer ends.

use std::sync::atomic::AtomicBool;

use anabranch_lab::run::{Prepared, RunResult};
use anabranch_lab::scenario::Scenario;
use anabranch_link::MiddleboxCounters;
use anabranch_sim::Outcome;

use super::scenario;

/// Returns run 0 of a contender.
fn run(scenario: &Scenario, contender: usize) -> RunResult {
    Prepared::new(scenario, 0).unwrap().run(contender, 0, &AtomicBool::new(false)).unwrap()
}

/// Returns a run of 1 MB over two paths with these middleboxes, by `min_rtt` or by TCP over the first path.
fn transfer(boxes: [&str; 2], direction: &str, contender: usize) -> RunResult {
    let text = format!(
        "schedulers = ['min_rtt', 'tcp@1']\nphases = false
         path = [{{ rate = '20 Mbit/s', rtt = '20 ms', {} }}, {{ rate = '10 Mbit/s', rtt = '40 ms', {} }}]
         traffic = {{ size = '1 MB', direction = '{direction}' }}",
        boxes[0], boxes[1]
    );
    run(&scenario(&text), contender)
}

/// Returns the time in seconds, the bytes of each path, and whether the connection is Multipath TCP, has fallen back during
/// its life, or neither.
fn course(result: &RunResult) -> (f64, Vec<u64>, &'static str) {
    let flow = &result.flows[0];
    assert_eq!(flow.report.outcome, Outcome::Completed);
    let stats = [&flow.report.sender, &flow.report.receiver].map(|end| end.connection.unwrap());
    assert_eq!(stats[0].mptcp, stats[1].mptcp, "both ends agree");
    let state = match &stats {
        [one, other] if one.mptcp && other.mptcp => "mptcp",
        [one, other] if one.fallbacks + other.fallbacks > 0 => "fell back",
        _ => "tcp",
    };
    (flow.time.as_secs_f64(), flow.report.bytes_by_path.clone(), state)
}

const RULES: [&str; 4] = ["mptcp", "mptcp-syn", "mptcp-syn-ack", "mptcp-data"];

/// RFC 8684 section 3.7: without the option on a SYN or a SYN/ACK the connection is a TCP; without it on the data it falls
/// back to TCP, since it has used one subflow only.
#[test]
fn a_connection_that_loses_its_options_on_the_first_path_is_a_tcp() {
    for direction in ["download", "upload"] {
        let (tcp, ..) = course(&transfer(["backup = false", "backup = false"], direction, 1));
        for rule in RULES {
            for both in [false, true] {
                let strip = format!("strip = '{rule}'");
                let other = if both { strip.as_str() } else { "backup = false" };
                let result = transfer([&strip, other], direction, 0);
                let (time, bytes, state) = course(&result);
                let what = format!("{rule}, {direction}, on both paths: {both}: {time} s, {bytes:?}");
                let expected = match (rule, direction) {
                    ("mptcp-data", _) => "fell back",
                    // The client is still told that the server supports it: the server's SYN/ACK went out with the option.
                    ("mptcp-syn-ack", _) => state,
                    _ => "tcp",
                };
                assert_eq!(state, expected, "{what}");
                assert_ne!(state, "mptcp", "{what}");
                assert_eq!(bytes, [1_000_000, 0], "{what}");
                assert!((time / tcp - 1.0).abs() < 0.03, "{what}: tcp takes {tcp}");
                assert!(result.middleboxes[0].counters.stripped > 0, "{what}");
            }
        }
    }
}

/// Section 3.2 and 3.7: a join that loses its options is refused or reset, and the connection goes on with the first path.
#[test]
fn a_join_that_loses_its_options_is_given_up_and_the_connection_is_not() {
    for direction in ["download", "upload"] {
        let (tcp, ..) = course(&transfer(["backup = false", "backup = false"], direction, 1));
        for rule in RULES {
            let result = transfer(["backup = false", &format!("strip = '{rule}'")], direction, 0);
            let (time, bytes, state) = course(&result);
            let what = format!("{rule}, {direction}: {time} s, {bytes:?}");
            assert_eq!(state, "mptcp", "{what}");
            assert_eq!(bytes, [1_000_000, 0], "{what}");
            assert!((time / tcp - 1.0).abs() < 0.1, "{what}: tcp takes {tcp}");
            assert!(result.middleboxes[0].counters.stripped > 0, "{what}");
        }
    }
}

/// Where larger packets vanish without a report, a lower MSS is the remedy.
#[test]
fn an_mss_clamp_keeps_packets_below_a_silent_limit() {
    let path = |clamp: &str| {
        let text = format!(
            "schedulers = ['tcp@1', 'min_rtt']\nphases = false\ndeadline = '20 s'
             path = [{{ rate = '20 Mbit/s', rtt = '20 ms', mtu = '1400 B', mtu-reports = false, {clamp} }}]
             traffic = {{ size = '300 KB' }}"
        );
        let scenario = scenario(&text);
        [0, 1].map(|contender| run(&scenario, contender))
    };
    for result in path("backup = false") {
        assert_ne!(result.flows[0].report.outcome, Outcome::Completed, "they vanish");
    }
    for result in path("mss-clamp = 1360") {
        let (time, ..) = course(&result);
        assert!(time < 0.4, "{time}");
        // Both SYNs had 1460.
        let counters = MiddleboxCounters { clamped: 2, ..MiddleboxCounters::default() };
        assert_eq!(result.middleboxes[0].counters, counters);
        let too_large: u64 = result.links.iter().map(|link| link.counters.dropped_too_large.packets).sum();
        assert_eq!(too_large, 0);
    }
}

/// A full segment of a plain TCP has 1448 bytes of data in 1500; the tunnel adds 80.
#[test]
fn a_tunnel_takes_its_share_of_the_rate_and_of_the_mtu() {
    let path = |settings: &str| {
        let text = format!(
            "schedulers = ['tcp@1']\nphases = false
             path = [{{ rate = '20 Mbit/s', rtt = '20 ms', {settings} }}]
             traffic = {{ size = 'bulk', duration = '20 s' }}"
        );
        let result = run(&scenario(&text), 0);
        let down = result.links.iter().find(|link| link.name == "1.down").unwrap();
        (result.flows[0].goodput().as_bps_f64(), down.counters)
    };
    let ((plain, _), (tunnel, _)) = (path("backup = false"), path("overhead = '80 B'"));
    let share = 1500.0 / 1580.0;
    assert!((tunnel / plain / share - 1.0).abs() < 0.003, "{tunnel} of {plain}, a share of {share}");
    // The router reports the rest of the MTU, and no packet exceeds it after that. The stack then leaves the space of all
    // options: 1420 less 80 bytes of data in 1472.
    let (within, counters) = path("overhead = '80 B', mtu = '1500 B'");
    let share = (1340.0 / 1472.0) / (1448.0 / 1500.0);
    assert!((within / plain / share - 1.0).abs() < 0.006, "{within} of {plain}, a share of {share}");
    assert!((1..40).contains(&counters.dropped_too_large.packets), "{counters:?}");
}

/// Two requests, 20 s apart, over a path behind a NAT that forgets connections after `timeout`.
fn requests(nat: &str, contender: usize) -> RunResult {
    let text = format!(
        "schedulers = ['tcp@1', 'min_rtt']\nphases = false\ndeadline = '100 s'
         path = [{{ rate = '20 Mbit/s', rtt = '20 ms', {nat} }}, {{ rate = '10 Mbit/s', rtt = '40 ms', {nat} }}]
         traffic = [{{ name = 'web', kind = 'requests', size = '200 KB', think = '20 s', requests = 2 }}]"
    );
    run(&scenario(&text), contender)
}

#[test]
fn a_nat_that_forgets_an_idle_connection_ends_it_unless_it_is_kept_alive() {
    let delivered = |result: &RunResult| result.flows[0].report.delivered;
    for contender in [0, 1] {
        // Not idle for that long.
        let result = requests("nat-timeout = '30 s'", contender);
        assert_eq!((delivered(&result), result.middleboxes[0].counters.dropped), (400_000, 0));
        // The second request vanishes, and its retransmissions do.
        let result = requests("nat-timeout = '10 s'", contender);
        assert_eq!(delivered(&result), 200_000);
        let dropped: u64 = result.middleboxes.iter().map(|one| one.counters.dropped).sum();
        assert!(dropped >= 3, "{dropped}");
    }
}

/// A reset tells the client at once: Multipath TCP loses its subflows, and joins or ends.
#[test]
fn a_nat_that_resets_ends_a_tcp_at_once_and_a_silent_one_does_not() {
    let result = requests("nat-timeout = '10 s', nat-resets = true", 0);
    assert!(
        matches!(result.flows[0].report.outcome, Outcome::Failed(_)),
        "{:?}",
        result.flows[0].report.outcome
    );
    assert_eq!(result.middleboxes[0].counters.resets, 1);
    let silent = requests("nat-timeout = '10 s'", 0);
    assert!(
        !matches!(silent.flows[0].report.outcome, Outcome::Failed(_)),
        "{:?}",
        silent.flows[0].report.outcome
    );
}

/// The path that the NAT has forgotten is joined again after its reset, while the other one carries the connection.
#[test]
fn a_subflow_that_a_nat_has_forgotten_costs_little_while_another_works() {
    let text = |nat: &str| {
        format!(
            "schedulers = ['min_rtt']\nphases = false
             path = [{{ rate = '20 Mbit/s', rtt = '20 ms' }}, {{ rate = '10 Mbit/s', rtt = '40 ms', {nat} }}]
             traffic = [{{ name = 'web', kind = 'requests', size = '500 KB', think = '20 s', requests = 3 }}]"
        )
    };
    for nat in ["nat-timeout = '10 s'", "nat-timeout = '10 s', nat-resets = true"] {
        let result = run(&scenario(&text(nat)), 0);
        let report = &result.flows[0].report;
        assert_eq!(report.delivered, 1_500_000, "{nat}");
        assert!(result.middleboxes[0].counters.dropped > 0, "{nat}");
        assert!(report.sender.connection.as_ref().is_none_or(|connection| connection.mptcp));
    }
}
