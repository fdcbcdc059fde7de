//! TCP proxies on paths, and tunnels over a reliable stream.

use std::sync::atomic::AtomicBool;

use anabranch_lab::explain::Explicable;
use anabranch_lab::run::{FlowResult, Prepared, RunResult};
use anabranch_sim::{AppReport, Outcome};

use super::{flows, scenario};

const DIRECTIONS: [&str; 2] = ["upload", "download"];

/// Returns run 0 of `min_rtt` (0) or `tcp@1` (1) over two paths with these settings.
fn run(settings: [&str; 2], traffic: &str, contender: usize) -> RunResult {
    let text = format!(
        "schedulers = ['min_rtt', 'tcp@1']\nphases = false\ncongestion = 'cubic_linux'
         path = [{{ rate = '20 Mbit/s', rtt = '100 ms', {} }}, {{ rate = '10 Mbit/s', rtt = '120 ms', {} }}]
         traffic = {{ {traffic} }}",
        settings[0], settings[1]
    );
    let scenario = scenario(&text);
    Prepared::new(&scenario, 0).unwrap().run(contender, 0, &AtomicBool::new(false)).unwrap()
}

fn only(result: &RunResult) -> &FlowResult {
    assert_eq!(result.flows.len(), 1);
    assert_eq!(result.flows[0].report.outcome, Outcome::Completed);
    &result.flows[0]
}

fn is_mptcp(flow: &FlowResult) -> [bool; 2] {
    [&flow.report.sender, &flow.report.receiver].map(|end| end.connection.unwrap().mptcp)
}

const NONE: &str = "backup = false";

/// RFC 8684 section 3.7: a SYN/ACK without MP_CAPABLE leaves a TCP. Section 3.2: one without MP_JOIN is answered by a reset.
#[test]
fn a_proxy_on_the_first_path_leaves_a_tcp_and_one_on_another_path_refuses_the_join() {
    for direction in DIRECTIONS {
        let traffic = format!("size = '1 MB', direction = '{direction}'");
        for both in [false, true] {
            let result = run(["proxy = '1 ms'", if both { "proxy = '1 ms'" } else { NONE }], &traffic, 0);
            let flow = only(&result);
            assert_eq!(is_mptcp(flow), [false; 2], "{direction}");
            assert_eq!(flow.report.bytes_by_path, [1_000_000, 0], "{direction}");
        }
        let result = run([NONE, "proxy = '1 ms'"], &traffic, 0);
        let flow = only(&result);
        assert_eq!(is_mptcp(flow), [true; 2], "{direction}");
        assert_eq!(flow.report.bytes_by_path, [1_000_000, 0], "{direction}");
        // The server has seen no second connection.
        assert_eq!(flow.report.receiver.subflows.len().min(flow.report.sender.subflows.len()), 1);
    }
}

/// The client's handshake takes a round trip P to the proxy. The proxy connects half of P later, in a round trip R of the path,
/// and the data, which has arrived meanwhile, takes half of R. A download's request goes the same way, and its answer comes
/// back over both.
#[test]
fn a_small_transfer_takes_two_handshakes_one_after_the_other() {
    let (p, r) = (0.030, 0.100);
    for (direction, expected) in [("upload", 1.5 * p + 1.5 * r), ("download", 2.0 * p + 2.0 * r)] {
        let traffic = format!("size = '100 B', direction = '{direction}'");
        let result = run(["proxy = '30 ms'", NONE], &traffic, 1);
        let time = only(&result).time.as_secs_f64();
        // Six or seven packets of at most 166 bytes, at 20 Mbit/s.
        assert!((0.0..0.000_6).contains(&(time - expected)), "{direction}: {time} s, expected {expected}");
    }
}

/// A loss between the proxy and the other end is repaired there: the end behind the proxy retransmits nothing.
#[test]
fn the_proxy_acknowledges_and_retransmits_on_its_own_side() {
    let traffic = "size = '400 KB', direction = 'upload'";
    let lost = |proxy: &str| {
        let result = run([&format!("drop = [20, 21, 40], {proxy}"), NONE], traffic, 1);
        let flow = only(&result);
        let sent = flow.report.sender.subflows[0].counters;
        (flow.report.acked.unwrap().as_secs_f64(), flow.time.as_secs_f64(), sent.segments_retransmitted)
    };
    let (acked, time, retransmitted) = lost(NONE);
    assert!(retransmitted >= 3 && acked > time, "{retransmitted} {acked} {time}");
    let (acked, time, retransmitted) = lost("proxy = '1 ms'");
    assert_eq!(retransmitted, 0);
    // Its buffer takes the data long before the server has it.
    assert!(acked < 0.5 * time, "{acked} {time}");
}

/// With two control loops each has a shorter round trip: the window of slow start doubles sooner.
#[test]
fn two_short_loops_are_faster_than_a_long_one() {
    let time = |paths: &str| {
        let text = format!(
            "schedulers = ['tcp@1']\nphases = false\ncongestion = 'cubic_linux'\npath = [{{ {paths} }}]
             traffic = {{ size = '1 MB', direction = 'download' }}"
        );
        flows(&scenario(&text), 0, 0)[0].time.as_secs_f64()
    };
    let (long, split) = (
        time("rate = '100 Mbit/s', rtt = '200 ms'"),
        time("rate = '100 Mbit/s', rtt = '100 ms', proxy = '100 ms'"),
    );
    assert!(split < 0.8 * long, "{split} {long}");
}

#[test]
fn a_proxy_forwards_datagrams() {
    // A call over UDP takes both stretches.
    let text = "schedulers = ['tcp@1']\nphases = false
        path = [{ rate = '20 Mbit/s', rtt = '100 ms', proxy = '30 ms' }]
        [[traffic]]\nkind = 'udp'\nname = 'call'\ndirection = 'DIRECTION'\nduration = '1 s'\nrate = '480 kbit/s'
        [[traffic]]\nname = 'file'\ndirection = 'DIRECTION'\nsize = '100 KB'\nstart = '3 s'";
    for direction in DIRECTIONS {
        let all = flows(&scenario(&text.replace("DIRECTION", direction)), 0, 0);
        let is_call = |flow: &&FlowResult| matches!(flow.report.app, AppReport::Datagrams(_));
        let Some(AppReport::Datagrams(call)) = all.iter().find(is_call).map(|flow| &flow.report.app) else {
            panic!()
        };
        assert_eq!((call.sent, call.received), (50, 50), "{direction}");
        // 1228 bytes at 20 Mbit/s and at 1 Gbit/s, 50 ms and 15 ms.
        let expected = 0.065 + 1228.0 * 8.0 / 20e6 + 1228.0 * 8.0 / 1e9;
        assert!((call.delay_mean_s.unwrap() - expected).abs() < 1e-6, "{direction}: {:?}", call.delay_mean_s);
        let file = all.iter().find(|flow| !is_call(flow)).unwrap();
        assert_eq!(file.report.outcome, Outcome::Completed, "{direction}");
    }
}

#[test]
fn what_the_simulator_alone_has_is_refused_elsewhere() {
    let text = "schedulers = ['tcp@1']\npath = [{ rate = '20 Mbit/s', rtt = '10 ms', proxy = '1 ms' }]
         traffic = { size = '1 MB' }";
    let scenario = scenario(text);
    let refused = scenario.conditions[0].experiment.has_fixed_paths().unwrap_err();
    assert!(refused.contains("has a TCP proxy"), "{refused}");
    let refused = Explicable::new(&scenario).unwrap_err();
    assert!(refused.to_string().contains("has a TCP proxy"), "{refused}");
}

/// In a tunnel over TCP a loss is a delay: the sender sees none, and everything behind it waits.
#[test]
fn a_tunnel_over_a_reliable_stream_turns_losses_into_delays() {
    for direction in DIRECTIONS {
        let traffic = format!("size = '1 MB', direction = '{direction}'");
        let of = |settings: &str| {
            let result = run([settings, NONE], &traffic, 1);
            let flow = only(&result);
            (flow.time.as_secs_f64(), flow.report.sender.subflows[0].counters.segments_retransmitted)
        };
        let (clean, none) = of(NONE);
        let (lossy, some) = of("drop = [100, 300]");
        let (tunnel, in_tunnel) = of("drop = [100, 300], repeat-after = '60 ms'");
        assert_eq!((none, in_tunnel), (0, 0), "{direction}");
        assert!(some >= 2 && lossy > clean && tunnel > clean, "{direction}: {clean} {lossy} {tunnel}");
    }
}

/// The repeated packet is 60 ms late, and the ones after it, each 20 ms later, wait for 40 and 20 ms.
#[test]
fn the_packets_after_a_repeated_one_wait_for_it() {
    let delays = |settings: &str| {
        let text = format!(
            "schedulers = ['tcp@1']\nphases = false
            path = [{{ rate = '20 Mbit/s', rtt = '100 ms', {settings} }}]
            [[traffic]]\nkind = 'udp'\nname = 'call'\ndirection = 'upload'\nduration = '1 s'\nrate = '480 kbit/s'
            [[traffic]]\nname = 'file'\ndirection = 'upload'\nsize = '1 KB'\nstart = '3 s'"
        );
        let all = flows(&scenario(&text), 0, 0);
        let call = all.into_iter().find_map(|flow| match flow.report.app {
            AppReport::Datagrams(call) => Some(call),
            _ => None,
        });
        let call = call.unwrap();
        (call.received, call.delay_mean_s.unwrap(), call.delay_max.unwrap().as_secs_f64())
    };
    let (all, mean, longest) = delays(NONE);
    let (lossy, ..) = delays("drop = [10]");
    let (tunnel, late_mean, latest) = delays("drop = [10], repeat-after = '60 ms'");
    assert_eq!((all, lossy, tunnel), (50, 49, 50));
    assert!((latest - longest - 0.060).abs() < 1e-9, "{latest} {longest}");
    assert!((late_mean - mean - 0.120 / 50.0).abs() < 1e-9, "{late_mean} {mean}");
}

/// The rate of TCP at random losses p is inversely proportional to the round trip (Mathis et al. 1997: C / (RTT * sqrt(p))). A
/// proxy in the middle halves the round trip of the loop that repairs them, and keeps the rate of the direct path of that length.
#[test]
fn the_throughput_over_a_split_path_is_that_of_its_lossy_part_alone() {
    let rate = |paths: &str| {
        let text = format!(
            "schedulers = ['tcp@1']\nphases = false\ncongestion = 'cubic_linux'\nruns = 4
             path = [{{ rate = '100 Mbit/s', loss = {{ data = '1%', acks = '0%' }}, {paths} }}]
             traffic = {{ size = '8 MB', direction = 'upload' }}"
        );
        let scenario = scenario(&text);
        let times: Vec<f64> = (0..4).map(|run| flows(&scenario, 0, run)[0].time.as_secs_f64()).collect();
        8.0 * 8e6 / (times.iter().sum::<f64>() / 4.0)
    };
    let (long, split, short) =
        (rate("rtt = '100 ms'"), rate("rtt = '50 ms', proxy = '50 ms'"), rate("rtt = '50 ms'"));
    // Windows of 12 packets: the formula with C = sqrt(3/2).
    let formula = |rtt: f64| 1448.0 * 8.0 * (1.5_f64 / 0.01).sqrt() / rtt;
    for (found, expected) in [(long, formula(0.1)), (split, formula(0.05))] {
        assert!((0.75..1.25).contains(&(found / expected)), "{found} {expected}");
    }
    assert!((0.9..1.1).contains(&(split / short)), "{split} {short}");
}

/// TCP in TCP: the tunnel is silent until it has repeated the packet. Meanwhile the timer of the TCP in the tunnel expires: after
/// one timeout, after two more, after four more. So another retransmission follows each doubling of the silence, and all of them
/// arrive twice.
#[test]
fn the_timer_of_a_tcp_in_a_tcp_expires_while_the_tunnel_repeats() {
    for direction in DIRECTIONS {
        for (after, expected) in [("250 ms", 0), ("1 s", 1), ("2 s", 2), ("4 s", 3)] {
            let repeat = format!("drop = [300], repeat-after = '{after}'");
            let result = run([&repeat, NONE], &format!("size = '1 MB', direction = '{direction}'"), 1);
            let flow = only(&result);
            let (sent, got) =
                (&flow.report.sender.subflows[0].counters, &flow.report.receiver.subflows[0].counters);
            let found = (sent.timeouts, sent.segments_retransmitted, got.bytes_duplicate);
            assert_eq!(found, (expected, expected, 1448 * expected), "{direction} {after}");
        }
    }
}
