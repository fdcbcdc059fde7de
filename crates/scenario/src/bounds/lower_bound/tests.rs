use super::*;
use crate::Document;
use anabranch_stack::config::Profile;

fn bound(text: &str, profile: Profile) -> LowerBound {
    // An upload of segments with 1400 bytes.
    let text = format!("schedulers = ['tcp']\ntraffic.direction = 'upload'\n{text}");
    let scenario = Document::parse("test", text, ".").unwrap().scenario().unwrap();
    let mut config = SimConfig::new(profile);
    config.mss = 1400;
    Limits::new(&scenario.conditions[0].experiment, 0).all_paths(&config)
}

const ONE: &str = "path = [{ rate = '100 Mbit/s', rtt = '20 ms' }]";
const TWO: &str = "path = [{ rate = '100 Mbit/s', rtt = '20 ms' }, { rate = '100 Mbit/s', rtt = '20 ms' }]";

/// 100 Mbit/s: 80 ns a byte. MPTCP in profile `linux`: SYN 64, SYN/ACK 72, data 72 + 1400, ACK 64.
#[test]
fn one_segment_takes_a_handshake_and_half_a_round_trip() {
    let nanos = 20_000_000 + (64 + 72) * 80 + 10_000_000 + 1472 * 80;
    assert!(bound(ONE, Profile::Linux).completion(1400).0.abs_diff(nanos) <= 1);
    // A single byte is delivered earlier by the time of 1399.
    assert!(bound(ONE, Profile::Linux).completion(1).0.abs_diff(nanos - 1399 * 80) <= 1);
}

#[test]
fn the_window_doubles_in_a_round_trip() {
    // Profile `ns3`: windows of 1, 2, 4, 8 segments; the 15th ends in the fourth round.
    let mut ideal = bound(ONE, Profile::Ns3);
    let handshake = 20_000_000 + (64 + 72) * 80;
    let round = 20_000_000 + (1472 + 64) * 80;
    let last = |segments_in_round: u64| 10_000_000 + segments_in_round * 1472 * 80;
    for (segments, rounds, in_last) in [(1, 0, 1), (3, 1, 2), (7, 2, 4), (15, 3, 8)] {
        let expected = handshake + rounds * round + last(in_last);
        assert!(ideal.completion(segments * 1400).0.abs_diff(expected) <= 1, "{segments}");
    }
}

#[test]
fn a_long_flow_takes_the_time_of_the_link() {
    let mut ideal = bound(ONE, Profile::Linux);
    let (a, b) = (ideal.completion(100_000_000).0, ideal.completion(114_000_000).0);
    // 10,000 segments of 1472 bytes.
    assert!((b - a).abs_diff(10_000 * 1472 * 80) <= 2, "{}", b - a);
    assert!(ideal.curves[0].leaves.len() < 1000, "{}", ideal.curves[0].leaves.len());
}

#[test]
fn two_equal_paths_take_half_the_time_in_the_long_run() {
    let (one, two) = (
        bound(ONE, Profile::Linux).completion(100_000_000).as_secs_f64(),
        bound(TWO, Profile::Linux).completion(100_000_000).as_secs_f64(),
    );
    assert!((one / two - 2.0).abs() < 0.05, "{one} {two}");
}

#[test]
fn a_common_link_bounds_all_paths_together() {
    let shared = format!("{TWO}\ntopology = {{ kind = 'shared', rate = '100 Mbit/s' }}");
    let (one, two) = (
        bound(ONE, Profile::Linux).completion(100_000_000).as_secs_f64(),
        bound(&shared, Profile::Linux).completion(100_000_000).as_secs_f64(),
    );
    assert!((one / two - 1.0).abs() < 0.01, "{one} {two}");
}

#[test]
fn joins_wait_for_the_first_handshake_and_the_fourth_ack() {
    let early = bound(TWO, Profile::Ns3);
    assert_eq!(early.curves[0].start, early.curves[1].start);
    let late = bound(TWO, Profile::Linux);
    assert!((late.curves[1].start as f64 / late.curves[0].start as f64 - 3.0).abs() < 0.01);
}

#[test]
fn a_trace_serves_its_greatest_burst_and_its_mean_in_the_long_run() {
    // 1 ms of every 10 has 10 opportunities at once: 12 Mbit/s in the mean.
    let text = "10\n".repeat(10);
    let trace = Trace::parse(&text).unwrap();
    let envelope = Envelope::new(&trace);
    assert_eq!(envelope.least_span(15_000), 0);
    // Ten bursts lie within nine periods.
    assert_eq!(envelope.least_span(150_000), 90_000_000);
    assert_eq!(envelope.most_service(0), trace.max_service(Duration(0)));
    for bytes in (0..400_000).step_by(777) {
        let span = envelope.least_span(bytes);
        assert!(span == 0 || trace.max_service(Duration(span)) < bytes);
        assert!(envelope.most_service(span + 10_000_000) >= bytes);
    }
}

#[test]
fn larger_flows_never_end_sooner() {
    let mixed = "path = [{ rate = '7 Mbit/s', rtt = '15 ms' }, { rate = '90 Mbit/s', rtt = '80 ms' }]";
    for profile in [Profile::Linux, Profile::Ns3] {
        let mut ideal = bound(mixed, profile);
        let mut last = Duration::ZERO;
        for size in (1..400_000).step_by(531) {
            let next = ideal.completion(size);
            assert!(next >= last, "{size}");
            last = next;
        }
    }
}

#[test]
fn absurd_sizes_take_neither_forever_nor_all_memory() {
    let path = "path = [{ trace = '../../scenarios/traces/synthetic-lte.down', rtt = '20 ms' }]";
    for text in [
        path,
        "path = [{ rate = '1000 Tbit/s', rtt = '24 h' }]",
        "path = [{ rate = '1 bit/s', rtt = '1 s' }]",
    ] {
        let mut ideal = bound(text, Profile::Linux);
        let mut last = Duration::ZERO;
        for power in [1, 10, 20, 30, 40, 50, 63] {
            let next = ideal.completion(1 << power);
            assert!(next >= last, "{text} {power}");
            last = next;
        }
        assert!(ideal.curves[0].leaves.len() <= FOLLOWED);
    }
}

fn limits(text: &str) -> Limits {
    let text = format!("schedulers = ['tcp']\n{text}");
    Limits::new(&Document::parse("test", text, ".").unwrap().scenario().unwrap().conditions[0].experiment, 0)
}

/// The lengths of IPv4, TCP with timestamps, and the options of RFC 8684: 60 and 72 bytes of a SYN, 72 of data.
#[test]
fn packets_have_the_lengths_of_their_options() {
    let lengths = |set: &dyn Fn(&mut SimConfig)| {
        let mut config = SimConfig::new(Profile::Linux);
        set(&mut config);
        let Wire { syn, syn_ack, join_syn, join_syn_ack, join_ack, ack, data, .. } = Wire::new(&config);
        [syn, syn_ack, join_syn, join_syn_ack, join_ack, ack, data]
    };
    assert_eq!(lengths(&|_| {}), [64, 72, 72, 76, 76, 64, 72]);
    assert_eq!(lengths(&|config| config.dsn_width = DsnWidth::Narrow), [64, 72, 72, 76, 76, 60, 68]);
    assert_eq!(lengths(&|config| config.timestamps = false)[6], 60);
    let tcp = lengths(&|config| config.mptcp = false);
    assert_eq!([tcp[0], tcp[1], tcp[5], tcp[6]], [60, 60, 52, 52]);
}

/// An upload joins after the handshake, the join's handshake, and the third and fourth ACK: three round trips and six packets.
#[test]
fn an_upload_joins_after_six_packets() {
    let late = bound(TWO, Profile::Linux);
    assert!(late.curves[1].start.abs_diff(60_000_000 + (64 + 72 + 72 + 76 + 76 + 64) * 80) <= 6);
}

/// The server sends on a joined subflow once it has the request, which may be late on a long first path.
#[test]
fn a_download_joins_after_its_request_and_its_handshake() {
    let starts = |first: &str, second: &str| {
        let paths = format!(
            "path = [{{ rate = '1 Gbit/s', rtt = '{first}' }}, {{ rate = '1 Gbit/s', rtt = '{second}' }}]"
        );
        let limits = limits(&format!("{paths}\ntraffic.direction = 'download'"));
        let bound = limits.all_paths(&SimConfig::new(Profile::Linux));
        [0, 1].map(|path| bound.curves[path].start / 1_000_000)
    };
    // The request: one and a half round trips of the first path. The join: its round trip, and one and a half of the second.
    assert_eq!(starts("20 ms", "100 ms"), [30, 170]);
    assert_eq!(starts("200 ms", "10 ms"), [300, 300]);
}

#[test]
fn shorter_paths_are_shorter_in_both_directions() {
    let mut own = limits(&format!("{ONE}\ntraffic.direction = 'upload'"));
    let config = SimConfig::new(Profile::Linux);
    let before = own.all_paths(&config).completion(1000);
    own.shorten([Duration::from_millis(1)].into_iter());
    // Three one-way delays up to the first byte.
    assert_eq!(before - own.all_paths(&config).completion(1000), Duration::from_millis(3));
    own.lengthen([Duration::from_millis(1)].into_iter());
    assert_eq!(own.all_paths(&config).completion(1000), before);
}

#[test]
fn the_ideal_goodput_is_payload_and_at_most_what_links_carry_for_long() {
    let mut config = SimConfig::new(Profile::Linux);
    config.mss = 1400;
    let ideal = |text: &str| limits(text).ideal_goodput_bps(&config) / 1e6 * 1472.0 / 1400.0;
    let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} {expected}");
    close(ideal(ONE), 100.0);
    close(ideal(TWO), 200.0);
    close(ideal(&format!("{TWO}\ntopology = {{ kind = 'shared', rate = '150 Mbit/s' }}")), 150.0);
    let policed = |rest: &str| format!("path = [{{ rate = '100 Mbit/s', rtt = '20 ms', {rest} }}]");
    close(ideal(&policed("policer = { rate = '30 Mbit/s', burst = '90 KB' }")), 30.0);
    // Of two buckets the slower one.
    close(
        ideal(&policed(
            "policer = { rate = '30 Mbit/s', burst = '90 KB' }, shaper = { rate = '8 Mbit/s', burst = '90 KB' }",
        )),
        8.0,
    );
}

/// A duplicate releases one more segment, and a duplicate in the handshake releases three: 4 and 12 in place of 1 and 2.
#[test]
fn copies_release_more_segments() {
    let path = |rest: &str| format!("path = [{{ rate = '100 Mbit/s', rtt = '20 ms'{rest} }}]");
    let handshake = 20_000_000 + (64 + 72) * 80;
    let round = 20_000_000 + (1472 + 64) * 80;
    let expected = handshake + round + 10_000_000 + 12 * 1472 * 80;
    for copies in [", duplicate = '1%'", ", reorder = { probability = '1%', extra = '5 ms' }"] {
        let ends = bound(&path(copies), Profile::Ns3).completion(16 * 1400).0;
        assert!(ends.abs_diff(expected) <= 1, "{copies}: {ends} {expected}");
    }
    assert!(bound(&path(""), Profile::Ns3).completion(16 * 1400).0 > expected + 2 * round);
}
