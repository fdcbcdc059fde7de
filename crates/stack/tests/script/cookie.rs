//! SYN cookies (RFC 4987 section 3.6, RFC 8684 section 3.1): a listener that stores nothing of a SYN, and the
//! state returned by the third segment.

use anabranch_stack::config::{Checksums, ConnectionConfig, ReceiveBuffer};
use anabranch_stack::event::Event;
use anabranch_stack::segment::{Capable, Flags, Key, MptcpOption, Segment, SynOptions};
use anabranch_stack::stats::EndpointCounters;
use anabranch_stack::timestamp::TimestampTick;
use anabranch_units::Bytes;

use crate::kit::*;

/// Returns a listener that answers every SYN with a cookie, as if its table of half-open connections were
/// full.
fn flooded(config: ConnectionConfig) -> Script {
    choose_half_open(0);
    Script::listening(config, 1)
}

fn syn(s: &Script) -> Seg {
    let syn = seg(0).flags(S).seq(0);
    if s.is_mptcp() { syn.option(capable(None, None, None)) } else { syn }
}

/// Returns the same listener after a SYN, and its answer. Nothing is stored.
fn answered(config: ConnectionConfig) -> (Script, Segment) {
    let mut s = flooded(config);
    let syn = syn(&s);
    s.inject(syn);
    let answer = s.expect(seg(0).flags(SA).seq(0).ack(1));
    s.expect_nothing();
    assert_eq!((s.endpoint.connection_count(), s.endpoint.poll_timeout()), (0, None));
    assert_eq!(counters(&s), (1, 0, 0));
    s.advance(10);
    (s, answer)
}

fn third(s: &Script) -> Seg {
    let third = ack(0, 1).seq(1).no_dss();
    if s.is_mptcp() { third.option(capable(Some(KEY_A), s.own_key, None)) } else { third }
}

/// Returns the numbers of cookies sent, accepted and rejected.
fn counters(s: &Script) -> (u64, u64, u64) {
    let EndpointCounters { cookies_sent, cookies_accepted, cookies_rejected, .. } = s.endpoint.counters();
    (cookies_sent, cookies_accepted, cookies_rejected)
}

fn is_accepted(s: &Script) -> bool {
    s.events.contains(&Event::Accepted)
}

// RFC 8684 section 3.1, rows I9, I11: the key in the SYN/ACK is recomputed from the third ACK.
#[test]
fn a_cookie_opens_a_multipath_connection() {
    let (mut s, answer) = answered(config());
    assert_eq!(answer.options.mptcp, [Some(capable(s.own_key, None, None)), None]);
    let third = third(&s);
    s.inject(third);
    assert!(is_accepted(&s) && s.stats().mptcp);
    assert_eq!((s.endpoint.connection_count(), counters(&s)), (1, (1, 1, 0)));
    let first = capable(Some(KEY_A), s.own_key, Some(700));
    s.inject(data(0, 1, 700).option(first));
    s.expect(ack(0, 701).data_ack(700));
    s.write(2000);
    s.expect(data(0, 1, 1000).map(0, 1, 1000));
    s.expect(data(0, 1001, 1000).map(1000, 1001, 1000));
    s.inject(ack(0, 2001).seq(701).data_ack(2000));
    assert_eq!(s.stats().data_acked, 2000);
    // Other addresses join with the token of that key.
    s.peer_joins(0, 1, 1, false);
}

// RFC 4987 section 3.6.
#[test]
fn a_cookie_opens_a_plain_tcp() {
    let (mut s, answer) = answered(plain());
    assert!(answer.options.have_no_mptcp());
    s.inject(ack(0, 1).seq(1));
    assert!(is_accepted(&s) && !s.stats().mptcp);
    s.inject(data(0, 1, 700));
    s.expect(ack(0, 701));
    s.write(500);
    s.expect(data(0, 1, 500).no_mptcp());
}

// RFC 8684 section 3.1: no MP_CAPABLE in the SYN, none in the answer; and none is returned.
#[test]
fn a_listener_of_multipath_tcp_gives_a_plain_syn_a_plain_tcp() {
    let mut s = flooded(config());
    s.inject(seg(0).flags(S).seq(0));
    s.expect(seg(0).flags(SA).no_mptcp());
    s.inject(ack(0, 1).seq(1));
    assert!(is_accepted(&s) && !s.stats().mptcp);
}

// RFC 8684 section 3.1, row I14: the first data may be the first segment to arrive.
#[test]
fn a_lost_third_ack_is_made_good_by_the_first_data() {
    for config in [config(), plain()] {
        let (mut s, _) = answered(config);
        let mut first = data(0, 1, 700);
        if s.is_mptcp() {
            first = first.option(capable(Some(KEY_A), s.own_key, Some(700)));
        }
        s.inject(first);
        s.expect(ack(0, 701));
        assert!(is_accepted(&s));
        assert_eq!((s.stats().received, s.stats().mptcp), (700, s.is_mptcp()));
    }
}

// RFC 9293 section 3.10.7.2 would reset the second segment of a flight whose first was lost, and the
// connection with it.
#[test]
fn segments_after_a_lost_first_one_are_not_reset() {
    let (mut s, _) = answered(plain());
    s.inject(data(0, 701, 700));
    s.expect_nothing();
    assert_eq!((s.endpoint.connection_count(), counters(&s)), (0, (1, 0, 1)));
    s.inject(data(0, 1, 700));
    s.expect(ack(0, 701));
    s.inject(data(0, 701, 700));
    s.expect(ack(0, 1401));
    // A segment that echoes an old timestamp, or has no payload, does not qualify.
    let stale = s.peer_opens(0, 2, 5002);
    let before = TimestampTick::Microsecond.value(s.now).wrapping_sub(3_000_000);
    s.inject(data(stale, 701, 700).echo_us(before));
    s.expect(seg(stale).flags(R));
    s.inject(ack(stale, 1).seq(701).echo_us(before + 1));
    s.expect(seg(stale).flags(R));
}

// RFC 7323 section 2, RFC 2018: with timestamps only the exact MSS is lost. It is reduced by the length of
// the timestamps.
#[test]
fn window_scale_sack_and_mss_come_back_with_the_timestamp() {
    let buffer = ReceiveBuffer::Fixed(Bytes::from_kib(1024));
    let mut config = ConnectionConfig { mss: 1400, receive_buffer: buffer, ..plain() };
    config.ack.growth = false;
    for (offered, mss) in [(1460, 1400), (1459, 1400), (1439, 1368), (1300, 1288), (600, 524), (300, 64)] {
        choose_half_open(0);
        let mut s = Script::listening(config.clone(), 1);
        s.subs[0].peer_scale = 3;
        let offer = SynOptions { mss: offered, window_scale: Some(3), sack_permitted: true };
        s.inject(seg(0).flags(S).seq(0).syn(offer));
        let own = SynOptions { mss: 1460, window_scale: Some(5), sack_permitted: true };
        s.expect(seg(0).flags(SA).syn(own).window(65_535));
        s.advance(10);
        s.inject(ack(0, 1).seq(1).window(8 * mss));
        s.inject(data(0, 101, 100).window(8 * mss));
        s.expect(ack(0, 1).sack(&[(101, 201)]).window(1 << 20));
        s.inject(data(0, 1, 100).window(8 * mss));
        s.expect(ack(0, 201));
        // The number that the scaled window admits, of the size in the cookie.
        s.write(20 * mss);
        let sent = s.sent();
        assert_eq!(sent.len(), 8, "{offered}");
        assert!(sent.iter().all(|segment| u64::from(segment.payload_len) == mss), "{offered}");
        assert!(sent.iter().all(|segment| segment.options.timestamps.is_some()));
    }
}

// The peer offers less: neither SACK nor a scale, and the local ones are not used either.
#[test]
fn options_not_offered_by_the_peer_are_not_used() {
    let buffer = ReceiveBuffer::Fixed(Bytes::from_kib(1024));
    let mut s = flooded(ConnectionConfig { receive_buffer: buffer, ..plain() });
    s.subs[0].peer_scale = 0;
    let offer = SynOptions { mss: 1460, window_scale: None, sack_permitted: false };
    s.inject(seg(0).flags(S).seq(0).syn(offer));
    s.expect(seg(0).flags(SA).syn(offer));
    s.inject(ack(0, 1).seq(1).window(2000));
    s.inject(data(0, 101, 100).window(2000));
    s.expect(ack(0, 1).sack(&[]).window(65_535));
    s.write(5000);
    s.expect_data(0, 1, 2);
}

// Without timestamps there is no space to encode them, so they must not be offered.
#[test]
fn without_timestamps_there_is_neither_sack_nor_a_window_scale() {
    let buffer = ReceiveBuffer::Fixed(Bytes::from_kib(1024));
    let mut s = flooded(ConnectionConfig { receive_buffer: buffer, ..config() });
    (s.subs[0].timestamps, s.subs[0].peer_scale) = (false, 0);
    let syn = syn(&s);
    s.inject(syn);
    let none = SynOptions { mss: 1460, window_scale: None, sack_permitted: false };
    s.expect(seg(0).flags(SA).syn(none).no_timestamps());
    let third = third(&s).window(2000);
    s.inject(third);
    assert!(is_accepted(&s) && s.stats().mptcp);
    s.inject(data(0, 101, 100).map(100, 101, 100).window(2000));
    s.expect(ack(0, 1).sack(&[]).no_timestamps().window(65_535));
}

// RFC 3168 section 6.1.1.
#[test]
fn ecn_that_was_agreed_on_comes_back_too() {
    for asks in [true, false] {
        let mut s = flooded(ConnectionConfig { ecn: true, ..plain() });
        let both = if asks { Flags::ECE.with(Flags::CWR) } else { Flags::default() };
        s.inject(seg(0).flags(S.with(both)).seq(0));
        s.expect(seg(0).flags(if asks { SA.with(Flags::ECE) } else { SA }));
        s.inject(ack(0, 1).seq(1));
        s.inject(data(0, 1, 500).ce());
        s.expect(ack(0, 501).flags(if asks { A.with(Flags::ECE) } else { A }));
    }
}

// RFC 8684 section 3.3.1: either side may request checksums.
#[test]
fn checksums_are_agreed_on_with_a_cookie_too() {
    let with = |key, echo, len| {
        let option = capable(key, echo, len);
        capable_with(option, 1, Capable::HMAC_SHA256 | Capable::CHECKSUM)
    };
    for own in [Checksums::IfAsked, Checksums::Required] {
        let mut s = flooded(ConnectionConfig { checksums: own, ..config() });
        let asks = own == Checksums::IfAsked;
        s.inject(seg(0).flags(S).seq(0).option(if asks {
            with(None, None, None)
        } else {
            capable(None, None, None)
        }));
        let answer = s.expect(seg(0).flags(SA));
        assert_eq!(answer.options.mptcp[0], Some(with(s.own_key, None, None)));
        let third = ack(0, 1).seq(1).option(with(Some(KEY_A), s.own_key, None));
        s.inject(third);
        s.write(500);
        s.expect(data(0, 1, 500).checked());
    }
    let mut s = flooded(ConnectionConfig { checksums: Checksums::Refused, ..config() });
    s.inject(seg(0).flags(S).seq(0).option(with(None, None, None)));
    s.expect(seg(0).flags(SA).no_mptcp());
}

// The sequence number cannot be guessed.
#[test]
fn a_forged_third_ack_is_reset_and_opens_nothing() {
    let (mut s, _) = answered(plain());
    let wrong = [ack(0, 2).seq(1), ack(0, 0).seq(1), ack(0, 1).seq(2), ack(0, 1 << 20).seq(1)];
    for (count, forged) in (1..).zip(wrong) {
        s.inject(forged);
        s.expect(seg(0).flags(R));
        assert_eq!(counters(&s), (1, 0, count));
    }
    // It is not valid for another port or address.
    for (sub, from, port) in [(1, 0, 5001), (2, 1, 5000)] {
        s.peer_opens(0, from, port);
        s.subs[sub].own_isn = s.subs[0].own_isn;
        s.inject(ack(sub, 1).seq(1));
        s.expect(seg(sub).flags(R));
    }
    assert_eq!((s.endpoint.connection_count(), counters(&s)), (0, (1, 0, 6)));
    s.inject(ack(0, 1).seq(1));
    assert!(is_accepted(&s));
}

// RFC 8684 section 3.1, rows I11, I20: a wrong echo of the local key is not MPTCP with this host.
#[test]
fn a_wrong_echo_of_a_cookies_key_is_reset() {
    let (mut s, _) = answered(config());
    let own = s.own();
    for key in [Key(own.0 ^ 1), KEY_A, Key(0)] {
        s.inject(ack(0, 1).seq(1).option(capable(Some(KEY_A), Some(key), None)));
        s.expect(seg(0).flags(RA).seq(1).no_mptcp());
        assert_eq!((s.endpoint.connection_count(), is_accepted(&s)), (0, false));
    }
    assert_eq!(counters(&s), (1, 0, 3));
    s.id = None;
    s.events.clear();
    let third = third(&s);
    s.inject(third);
    assert!(is_accepted(&s) && s.stats().mptcp);
}

// RFC 8684 section 3.1: a middlebox removes the options from the third ACK on.
#[test]
fn a_third_ack_without_options_makes_a_plain_tcp() {
    let (mut s, _) = answered(config());
    s.inject(ack(0, 1).seq(1));
    assert!(is_accepted(&s) && !s.stats().mptcp);
    s.inject(data(0, 1, 700));
    s.expect(ack(0, 701).no_mptcp());
}

// RFC 4987 section 3.6: an old cookie opens nothing.
#[test]
fn an_old_cookie_expires() {
    // 63 s is always in time, and 129 s never.
    for (wait, good) in [(63, true), (129, false)] {
        let (mut s, _) = answered(plain());
        s.advance(wait * 1000);
        // Others keep the listener busy with cookies.
        s.peer_opens(0, 1, 5001);
        s.inject(seg(1).flags(S).seq(0));
        s.expect(seg(1).flags(SA));
        s.inject(ack(0, 1).seq(1));
        if good {
            assert!(is_accepted(&s));
        } else {
            s.expect(seg(0).flags(R));
        }
        assert_eq!(s.endpoint.connection_count(), usize::from(good));
    }
}

// RFC 9293 section 3.10.7.1: with no cookie outstanding, an ACK for no connection costs no hash and is reset.
#[test]
fn without_cookies_out_nothing_is_one() {
    let (mut s, _) = answered(plain());
    s.advance(129_000);
    s.inject(data(0, 1, 100));
    s.expect(seg(0).flags(R));
    assert_eq!(counters(&s), (1, 0, 0));
}

// A copy of the third segment, in flight while the connection was opened and reset.
#[test]
fn a_replayed_third_ack_opens_no_second_connection() {
    for config in [config(), plain()] {
        let (mut s, _) = answered(config);
        let once = third(&s);
        s.inject(once.clone());
        assert!(is_accepted(&s));
        s.inject(once.clone());
        assert_eq!(s.endpoint.connection_count(), 1);
        s.abort();
        s.sent();
        s.advance(1);
        assert_eq!(s.endpoint.connection_count(), 0);
        s.inject(once);
        s.expect(seg(0).flags(R));
        assert_eq!((s.endpoint.connection_count(), counters(&s)), (0, (1, 1, 1)));
    }
}

// A repeated SYN gets the same answer: the peer may receive either.
#[test]
fn a_repeated_syn_gets_the_same_cookie() {
    let (mut s, first) = answered(config());
    let syn = syn(&s);
    s.inject(syn);
    let again = s.expect(seg(0).flags(SA).seq(0).ack(1));
    assert_eq!((again.seq, again.options.mptcp), (first.seq, first.options.mptcp));
    let third = third(&s);
    s.inject(third);
    assert!(is_accepted(&s) && s.stats().mptcp);
}

// Cookies do not raise the limit of connections.
#[test]
fn a_cookie_opens_no_connection_beyond_the_limit() {
    let (mut s, _) = answered(plain());
    // Up to the limit of eight connections, all are opened.
    for port in 6000..6008 {
        let sub = s.peer_opens(0, 1, port);
        s.inject(seg(sub).flags(S).seq(0));
        s.expect(seg(sub).flags(SA));
        s.inject(ack(sub, 1).seq(1));
    }
    assert_eq!(s.endpoint.connection_count(), 8);
    s.inject(ack(0, 1).seq(1));
    s.expect(seg(0).flags(R));
    let sub = s.peer_opens(0, 1, 7000);
    s.inject(seg(sub).flags(S).seq(0));
    s.expect(seg(sub).flags(RA));
    assert_eq!((s.endpoint.connection_count(), s.endpoint.counters().connections_refused), (8, 2));
}

// RFC 8684 section 3.1, row I9: the token of an existing connection is not assigned twice.
#[test]
fn a_cookies_key_is_not_sent_if_its_token_is_taken() {
    let (mut s, _) = answered(config());
    let third = third(&s);
    s.inject(third);
    let first = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(first));
    s.expect(ack(0, 11).data_ack(10));
    s.peer_joins(0, 1, 1, false);
    // The first subflow ends and the connection continues, so that its ports are free and its token is not.
    s.inject(seg(0).flags(R).seq(11));
    s.sent();
    let syn = syn(&s);
    s.inject(syn);
    s.expect(seg(0).flags(SA).no_mptcp());
}

// RFC 8684 section 3.2: joins are bounded by their connections, and need no cookie.
#[test]
fn a_join_is_half_open_as_without_cookies() {
    let (mut s, _) = answered(config());
    let third = third(&s);
    s.inject(third);
    let first = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(first));
    s.expect(ack(0, 11));
    let (join, last) = s.peer_joins_with(0, 1, 1);
    assert_eq!(counters(&s).0, 1);
    s.inject(last);
    s.expect(ack(join, 1).seq(1));
    // An MP_JOIN for no subflow returns no cookie.
    let stray = s.peer_opens(0, 2, 9000);
    s.subs[stray].own_isn = s.subs[join].own_isn;
    let lost = s.join_ack(stray);
    s.inject(lost);
    s.expect(seg(stray).flags(R));
    assert_eq!(counters(&s), (1, 1, 0));
}

// RFC 6298 section 2.1: a cookie does not contain its transmission time, so there is no sample, and the
// window is not reduced.
#[test]
fn a_connection_from_a_cookie_begins_without_a_sample_and_with_its_whole_window() {
    let (mut s, _) = answered(plain());
    s.inject(ack(0, 1).seq(1));
    assert_eq!((s.subflow(0).srtt, s.cwnd(0)), (None, 10));
}

// RFC 7323 section 5: the peer discards segments with an older timestamp than the SYN/ACK, and accepts no
// answer from the future.
#[test]
fn the_timestamp_of_a_cookie_is_not_later_than_now_and_hardly_earlier() {
    for tick in [TimestampTick::Microsecond, TimestampTick::MILLISECOND] {
        choose_tick(tick);
        choose_half_open(0);
        let mut s = Script::listening(plain(), 1);
        for at in 0..200 {
            let offer = SynOptions { window_scale: Some((at % 15) as u8), ..SYN_OPTIONS };
            s.inject(seg(0).flags(S).seq(0).syn(offer));
            let sent = s.expect(seg(0).flags(SA)).options.timestamps.expect("timestamps").value;
            assert!(tick.value(s.now).wrapping_sub(sent) < 64);
            s.advance_us(tick.period().as_micros());
        }
    }
}

// The other options are those of an ordinary listener.
#[test]
fn the_answer_is_that_of_a_half_open_connection_but_for_its_secrets() {
    for (config, capable_syn) in [(config(), true), (config(), false), (plain(), true)] {
        let buffer = ReceiveBuffer::Auto { initial: Bytes::from_kib(128), max: Bytes::from_kib(6 << 10) };
        let config = ConnectionConfig { receive_buffer: buffer, ..config };
        let answers = [0, 1024].map(|half_open| {
            choose_half_open(half_open);
            let mut s = Script::listening(config.clone(), 1);
            let mut syn = seg(0).flags(S).seq(0);
            if capable_syn {
                syn = syn.option(capable(None, None, None));
            }
            s.inject(syn);
            let mut answer = s.expect(seg(0).flags(SA).seq(0).ack(1));
            answer.seq.0 = 0;
            if let Some(timestamps) = &mut answer.options.timestamps {
                timestamps.value = 0;
            }
            if let Some(MptcpOption::Capable(capable)) = &mut answer.options.mptcp[0] {
                capable.sender_key = Some(KEY_B);
            }
            answer
        });
        assert_eq!(answers[0], answers[1]);
    }
}
