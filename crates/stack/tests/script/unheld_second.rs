//! Further rules that could once be broken without any test failing (`docs/testing.md`, "How well the tests notice").

use anabranch_stack::config::{ConnectionConfig, LossDetection, PathMtuDiscovery};
use anabranch_stack::segment::SynOptions;

use crate::kit::*;

// RFC 8684 section 3.3.1: a number of 32 bits is the one nearest to the next expected byte, not to the start of the stream:
// the two differ from 2 GiB on.
#[test]
fn narrow_numbers_of_received_data_are_those_next_to_the_last_beyond_two_gib() {
    const LEN: u32 = 60_000;
    let mut s = Script::confirmed_server(config());
    let (mut ssn, mut at) = (11_i64, 10_i64);
    while at < (1 << 31) + (1 << 28) {
        s.inject(data(0, ssn, LEN).data_ack32(0).map32(at, ssn as u32, LEN as u16));
        s.delivered.clear();
        s.forget_acks();
        s.read(u64::from(LEN));
        s.forget_acks();
        (ssn, at) = (ssn + i64::from(LEN), at + i64::from(LEN));
    }
    assert_eq!(s.stats().received, at as u64);
    s.inject(data(0, ssn, 100).data_ack32(0).map32(at, ssn as u32, 100));
    assert_eq!(s.stats().received, at as u64 + 100);
}

// RFC 8684 section 3.1: until the initiator knows that the listener has both keys, an acknowledgement that the listener may take
// for the third one carries them. Linux sends them in the third ACK and with the first data only.
#[test]
fn pure_acks_carry_the_keys_until_they_are_confirmed() {
    for repeat_keys in [true, false] {
        let mut s = Script::client_of(ConnectionConfig { repeat_keys, ..config() }, 1);
        let keys = capable(s.own_key, Some(s.peer_key), None);
        let syn_ack = || seg(0).flags(SA).seq(0).ack(1).option(capable(Some(KEY_B), None, None));
        s.inject(syn_ack());
        s.expect(ack(0, 1).seq(1).option(keys).no_dss());
        // After data too, with `repeat_keys`.
        s.write(1000);
        s.expect(data(0, 1, 1000).option(capable(s.own_key, Some(s.peer_key), Some(1000))).no_dss());
        s.inject(syn_ack());
        let repeated = s.sent().remove(0);
        assert_eq!(repeated.payload_len, 0);
        assert_eq!(
            (repeated.options.mptcp[0] == Some(keys), repeated.options.dss.is_none()),
            (repeat_keys, repeat_keys)
        );
        // A DSS confirms them.
        s.inject(ack(0, 1001).data_ack(1000));
        s.advance(1000);
        s.inject(syn_ack());
        let after = s.sent().remove(0);
        assert!(after.options.dss.is_some() && after.options.mptcp[0].is_none(), "{after:?}");
    }
}

// RFC 2018: an option that this host does not want is not offered, though the peer offers it; and a cookie's connection sends
// none of it.
#[test]
fn a_cookie_without_sack_offers_and_uses_none() {
    choose_half_open(0);
    let config = ConnectionConfig { sack: false, loss_detection: LossDetection::DuplicateAcks, ..plain() };
    let mut s = Script::listening(config, 1);
    s.inject(seg(0).flags(S).seq(0));
    let answer = s.expect(seg(0).flags(SA).seq(0).ack(1));
    let offered: SynOptions = answer.options.syn.expect("a SYN/ACK has its options");
    assert!(!offered.sack_permitted && offered.window_scale.is_some(), "{offered:?}");
    s.advance(10);
    s.inject(ack(0, 1).seq(1));
    s.inject(data(0, 101, 100));
    s.expect(ack(0, 1).sack(&[]));
}

fn report(s: &mut Script, offset: i64, mtu: u32) {
    let sub = s.subs[0];
    let seq = sub.own_isn.expect("a SYN was sent").add(offset as u64);
    s.endpoint.handle_too_big(s.now, sub.own, sub.peer, seq, mtu);
    s.poll();
}

// RFC 1191 section 6.3, RFC 4821 section 7.6: a router's report about a probe ends the probe: its data is sent in pieces at
// once, and a later loss at its place is a loss like others, not a verdict on a size.
#[test]
fn a_probe_that_a_router_has_reported_is_cut_and_over() {
    let mut s = Script::client(ConnectionConfig { mss: 1400, path_mtu: PathMtuDiscovery::Icmp, ..config() });
    s.write(1400);
    s.expect(data(0, 1, 1400));
    report(&mut s, 1, 1080);
    s.expect(data(0, 1, 1000));
    s.expect(data(0, 1001, 400));
    s.inject(ack(0, 1401).data_ack(1400));
    assert_eq!(s.subflow(0).mss, 1000);
    // Ten minutes later the full size is tried, once the window is wide enough for it.
    s.advance(600_000);
    let (mut next, mut acked) = (1401_i64, 1401_i64);
    let (probe, len) = loop {
        assert!(next < 4_000_000, "no probe is sent");
        s.write(60_000);
        let isn = s.subs[0].own_isn.expect("a SYN was sent");
        let mut sent = s.sent();
        s.advance(10);
        sent.extend(s.sent());
        let spans =
            sent.iter().map(|one| (i64::from(one.seq.0.wrapping_sub(isn.0)), i64::from(one.payload_len)));
        let spans: Vec<(i64, i64)> = spans.filter(|span| span.1 > 0).collect();
        next = spans.iter().map(|(start, len)| start + len).max().unwrap_or(next).max(next);
        if let Some(probe) = spans.iter().find(|(_, len)| *len > 1000) {
            break *probe;
        }
        acked = acked.max(next);
        s.inject(ack(0, acked).data_ack(acked - 1));
    };
    assert_eq!(len, 1400);
    let (window, lost) = (s.subflow(0).cwnd_bytes, s.subflow(0).counters.segments_lost);
    report(&mut s, probe, 1080);
    let again: Vec<_> = s.sent().iter().map(|one| one.payload_len).collect();
    assert_eq!(again[..2], [1000, 400], "its pieces are sent at once");
    assert_eq!(s.subflow(0).counters.segments_lost, lost + 1, "and nothing else is");
    assert_eq!((s.subflow(0).mss, s.subflow(0).cwnd_bytes), (1000, window), "it is no sign of congestion");
    // The first piece is lost: that is congestion, as it is no probe.
    let recoveries = s.subflow(0).counters.recoveries;
    s.advance(30);
    s.sent();
    s.inject(ack(0, probe).data_ack(probe - 1).sack(&[(probe + 1000, next)]));
    s.sent();
    s.advance(30);
    s.sent();
    assert_eq!(s.subflow(0).counters.recoveries, recoveries + 1);
    assert!(s.subflow(0).cwnd_bytes < window);
}
