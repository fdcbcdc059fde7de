//! The path MTU: by ICMP (RFC 1191, RFC 8201, RFC 5927) and by probing (RFC 4821). All headers and the
//! maximum of options take 80 bytes here.

use anabranch_stack::config::{ConnectionConfig, PathMtuDiscovery};
use anabranch_stack::seq::Seq;

use super::kit::*;

/// Reports the segment of subflow 0 at `offset` as too big.
fn report(s: &mut Script, offset: u32, mtu: u32) {
    let sub = s.subs[0];
    let seq = sub.own_isn.expect("a SYN was sent").add(u64::from(offset));
    s.endpoint.handle_too_big(s.now, sub.own, sub.peer, seq, mtu);
    s.poll();
}

fn probing() -> ConnectionConfig {
    ConnectionConfig { path_mtu: PathMtuDiscovery::Probe, ..config() }
}

// RFC 1191 section 6.4; RFC 8684 section 3.3.1: the pieces repeat the mapping of the whole.
#[test]
fn segments_that_are_too_big_are_cut_and_retransmitted() {
    let mut s = Script::client(config());
    s.write(2000);
    s.expect(data(0, 1, 1000).map(0, 1, 1000));
    s.expect(data(0, 1001, 1000).map(1000, 1001, 1000));
    let window = s.cwnd(0);
    report(&mut s, 1, 680);
    s.expect(data(0, 1, 600).map(0, 1, 1000));
    s.expect(data(0, 601, 400).map(0, 1, 1000));
    s.expect(data(0, 1001, 600).map(1000, 1001, 1000));
    s.expect(data(0, 1601, 400).map(1000, 1001, 1000));
    assert_eq!(s.cwnd(0), window, "it is no sign of congestion");
    assert_eq!(s.subflow(0).mss, 600);
    s.write(1000);
    s.expect(data(0, 2001, 600).map(2000, 2001, 600));
    s.expect(data(0, 2601, 400).map(2600, 2601, 400));
}

// RFC 5927 section 7.2.
#[test]
fn a_report_of_a_segment_not_in_flight_is_ignored() {
    let mut s = Script::client(config());
    s.write(2000);
    s.expect(data(0, 1, 1000));
    s.expect(data(0, 1001, 1000));
    s.inject(ack(0, 1001).data_ack(1000));
    for offset in [0, 1, 1000, 2001, 50_000] {
        report(&mut s, offset, 680);
    }
    s.expect_nothing();
    assert_eq!(s.subflow(0).mss, MSS);
    let sub = s.subs[0];
    let stranger = anabranch_stack::segment::Address::new(peer_ip(7), 9);
    s.endpoint.handle_too_big(s.now, sub.own, stranger, Seq(1), 680);
    s.poll();
    s.expect_nothing();
}

// RFC 5927 section 7: an attacker cannot make segments tiny.
#[test]
fn a_report_of_a_tiny_mtu_counts_as_552() {
    let mut s = Script::client(config());
    s.write(1000);
    s.expect(data(0, 1, 1000));
    report(&mut s, 1, 68);
    s.expect(data(0, 1, 472));
    s.expect(data(0, 473, 472));
    s.expect(data(0, 945, 56));
}

#[test]
fn with_discovery_off_reports_are_ignored() {
    let mut s = Script::client(ConnectionConfig { path_mtu: PathMtuDiscovery::Off, ..config() });
    s.write(1000);
    s.expect(data(0, 1, 1000));
    report(&mut s, 1, 680);
    s.expect_nothing();
}

// RFC 4821 section 7.7: a black hole.
#[test]
fn full_segments_that_vanish_twice_become_smaller() {
    let mut s = Script::client(ConnectionConfig { mss: 1400, ..probing() });
    s.write(1400);
    s.expect(data(0, 1, 1400));
    // A tail loss probe, then two timeouts.
    for lengths in [&[1400][..], &[1400], &[984, 416]] {
        assert_eq!(s.subflow(0).mss, 1400);
        let again: Vec<u32> = s.wait_until_sent(5000).iter().map(|segment| segment.payload_len).collect();
        assert_eq!(again, lengths);
    }
    assert_eq!(s.subflow(0).mss, 984);
}

#[test]
fn short_segments_that_vanish_say_nothing_of_the_path_mtu() {
    let mut s = Script::client(ConnectionConfig { mss: 1400, ..probing() });
    s.write(500);
    s.expect(data(0, 1, 500));
    for _ in 0..5 {
        let sent = s.wait_until_sent(60_000);
        assert!(sent.iter().all(|segment| segment.payload_len == 500));
    }
    assert_eq!(s.subflow(0).mss, 1400);
}

// RFC 4821 section 7.6.2: if only the probe is lost it is too large; this is no sign of congestion.
#[test]
fn a_lost_probe_leaves_the_window_as_it_is() {
    let mut s = Script::client(ConnectionConfig { mss: 1400, ..probing() });
    s.write(100_000);
    s.sent();
    // The path drops long segments until they are short enough.
    let mut sent = Vec::new();
    while s.subflow(0).mss > 984 {
        sent = s.wait_until_sent(10_000);
    }
    let mut last = 1;
    let (start, len) = loop {
        let isn = s.subs[0].own_isn.expect("a SYN was sent");
        let span = |segment: &anabranch_stack::segment::Segment| {
            (i64::from(segment.seq.0.wrapping_sub(isn.0)), i64::from(segment.payload_len))
        };
        let spans: Vec<(i64, i64)> = sent.iter().map(span).collect();
        last = spans.iter().map(|(start, len)| start + len).max().expect("there is more to send").max(last);
        if let Some(&probe) = spans.iter().find(|(_, len)| *len > 984) {
            break probe;
        }
        s.advance(10);
        s.inject(ack(0, last).data_ack(last - 1));
        sent = s.sent();
    };
    assert_eq!(len, 1192);
    let (window, recoveries) = (s.subflow(0).cwnd_bytes, s.subflow(0).counters.recoveries);
    s.advance(10);
    s.inject(ack(0, start).data_ack(start - 1).sack(&[(start + len, last)]));
    s.expect(data(0, start, 984));
    s.expect(data(0, start + 984, 1192 - 984));
    s.sent();
    assert!(s.subflow(0).cwnd_bytes >= window, "{} after {window}", s.subflow(0).cwnd_bytes);
    assert_eq!(s.subflow(0).counters.recoveries, recoveries);
    assert_eq!(s.subflow(0).mss, 984);
}
