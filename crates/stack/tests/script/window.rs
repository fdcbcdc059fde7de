//! The shared receive window: RFC 8684 sections 3.3.4 and 3.3.5, and RFC 9293 section 3.8.6.

use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer, SimConfig};
use anabranch_stack::segment::SynOptions;
use anabranch_units::Bytes;

use crate::kit::*;

fn buffer(bytes: u64) -> ConnectionConfig {
    ConnectionConfig { receive_buffer: ReceiveBuffer::Fixed(Bytes(bytes)), ..config() }
}

// RFC 8684 section 3.3.4, rows W1, W2, T25: one window on every subflow, relative to the DATA_ACK.
#[test]
fn all_subflows_show_one_window() {
    let mut s = Script::confirmed_server(buffer(10_000));
    let sub = s.peer_joins(0, 3, 4, false);
    s.inject(mapped(0, 11, 10, 1000));
    s.expect(ack(0, 1011).data_ack(1010).window(10_000 - 1010));
    s.inject(mapped(sub, 1, 1010, 1000));
    s.expect(ack(sub, 1001).data_ack(2010).window(10_000 - 2010));
    // Data out of order at the data level does not reduce the window.
    s.inject(mapped(sub, 1001, 5000, 1000));
    s.expect(ack(sub, 2001).data_ack(2010).window(10_000 - 2010));
    s.read(2010);
    s.sent();
    s.inject(mapped(0, 1011, 2010, 100));
    s.expect(ack(0, 1111).data_ack(2110).window(12_010 - 2110));
}

// RFC 8684 section 3.3.4, row W3: the right edge never moves left.
#[test]
fn the_right_edge_never_moves_left() {
    let mut s = Script::confirmed_server(buffer(200_000));
    let sub = s.peer_joins(0, 3, 4, false);
    let mut edge = 0;
    let mut ssn = [11_u32, 1];
    let mut at = 10;
    for step in 0..120 {
        let which = step % 2;
        s.inject(mapped([0, sub][which], ssn[which], at, 777));
        let mut sent = s.sent();
        ssn[which] += 777;
        at += 777;
        if step % 7 == 0 {
            s.read(1234);
            sent.extend(s.sent());
        }
        s.advance(41);
        sent.extend(s.sent());
        for segment in sent {
            let shift = s.subs[which].own_scale;
            let now = s.stats().received + (u64::from(segment.window) << shift);
            assert!(now >= edge, "from {edge} to {now}");
            edge = now;
        }
    }
    assert!(edge > 200_000);
}

// RFC 8684 section 3.3.4, row W4, T24: the TCP window of a subflow neither admits nor refuses data.
#[test]
fn data_is_accepted_by_its_dsn() {
    let mut s = Script::confirmed_server(buffer(4000));
    let sub = s.peer_joins(0, 3, 4, false);
    // Subflow 0 has 3000 bytes missing, so this is beyond its own ACK and window.
    for at in 0..3 {
        s.inject(mapped(sub, 1 + at * 1000, 10 + i64::from(at) * 1000, 1000));
        s.sent();
    }
    s.read(3010);
    s.sent();
    s.inject(mapped(0, 5011, 3010, 1000));
    s.sent();
    assert_eq!(s.stats().received, 4010);
}

// RFC 8684 section 3.3.5, rows W8, W9, B14, H13: an old DATA_ACK with an old window, over a slow path,
// changes nothing; nor does a middlebox that advertises less.
#[test]
fn an_older_or_smaller_window_does_not_shrink_the_connections() {
    let mut s = Script::two(config());
    s.inject(ack(0, 1).data_ack(0).window(128_000));
    s.inject(ack(1, 1).data_ack(0).window(1280));
    s.write(20_000);
    s.by_subflow();
    s.expect_data(0, 1, 10);
    s.expect_data(1, 1, 10);
}

// RFC 8684 section 3.3.5, rows W10, W11: a subflow's own window limits it too.
#[test]
fn a_subflows_own_window_holds() {
    let mut s = Script::connecting(config(), 1);
    s.expect(seg(0).flags(S));
    s.inject(seg(0).flags(SA).seq(0).ack(1).window(3840).option(capable(Some(KEY_B), None, None)));
    s.expect(ack(0, 1));
    s.inject(ack(0, 1).data_ack(0).window(3840));
    s.write(20_000);
    s.expect_data(0, 1, 3);
    // The connection's edge moves with the DATA_ACK, the subflow's with its ACK.
    s.inject(ack(0, 1001).data_ack(1000).window(3840));
    s.expect_data(0, 3001, 1);
    s.inject(ack(0, 2001).data_ack(2000).window(2816));
    s.expect_nothing();
}

// RFC 8684 section 3.3.4, row W13: each subflow has its own scale; a small one saturates.
#[test]
fn a_subflow_without_scale_shows_what_it_can() {
    let mut config = buffer(300_000);
    config.ack.growth = false;
    let mut s = Script::confirmed_server(config);
    let sub = s.peer_opens(0, 3, 6000);
    let syn = s.join_syn(sub, 4, false).syn(SynOptions { window_scale: None, ..SYN_OPTIONS });
    s.subs[sub].peer_scale = 0;
    s.inject(syn);
    let answer = s.expect(seg(sub).flags(SA));
    assert_eq!(answer.options.syn.unwrap().window_scale, None);
    s.advance(10);
    let third = s.join_ack(sub).window(60_000);
    s.inject(third);
    s.expect(ack(sub, 1).window(65_535));
    s.inject(mapped(0, 11, 10, 10));
    let shown = s.expect(ack(0, 21));
    let window = u64::from(shown.window) << s.subs[0].own_scale;
    assert!((299_900..=300_000).contains(&window), "{window}");
}

// RFC 8684 section 3.3.4, row W14, RFC 9293 section 3.8.6.1: a closed window is probed with backoff, and the
// answer to the probe opens it although the update was lost.
#[test]
fn a_closed_window_is_probed_until_it_opens() {
    for mptcp in [true, false] {
        let few = ConnectionConfig { mptcp, ..config() };
        let mut s = Script::connecting(few, 1);
        s.expect(seg(0).flags(S));
        let mut answer = seg(0).flags(SA).seq(0).ack(1).window(2048);
        if mptcp {
            answer = answer.option(capable(Some(KEY_B), None, None));
        }
        s.advance(10);
        s.inject(answer);
        s.expect(ack(0, 1));
        let acked = |upto: i64| {
            let segment = ack(0, upto + 1);
            if mptcp { segment.data_ack(upto) } else { segment }
        };
        s.inject(acked(0).window(2048));
        s.write(10_000);
        s.expect_data(0, 1, 2);
        s.inject(acked(2000).window(0));
        // A remainder of 48 bytes is left, which is sent as nothing else is in flight.
        s.expect(data(0, 2001, 48));
        s.inject(acked(2048).window(0));
        let mut waits = Vec::new();
        let mut last = s.now;
        for _ in 0..4 {
            let probe = s.wait_until_sent(60_000);
            assert_eq!(probe.len(), 1);
            waits.push(s.now.since(last).as_micros());
            last = s.now;
            s.inject(acked(2048).window(0));
        }
        assert!(waits.windows(2).all(|pair| pair[1] > pair[0]), "{waits:?}");
        s.wait_until_sent(60_000);
        s.inject(acked(2048).window(20_480));
        s.expect_data(0, 2049, 7);
        s.expect(data(0, 9049, 952));
    }
}

// RFC 9293 section 3.8.6.1: while the peer answers, a closed window does not end the connection, whatever the
// user timeout.
#[test]
fn a_closed_window_is_no_reason_to_give_up() {
    let impatient = ConnectionConfig { user_timeout: anabranch_units::Duration::from_secs(20), ..config() };
    let mut s = Script::connecting(impatient, 1);
    s.expect(seg(0).flags(S));
    s.advance(10);
    s.inject(seg(0).flags(SA).seq(0).ack(1).window(0).option(capable(Some(KEY_B), None, None)));
    s.expect(ack(0, 1));
    s.inject(ack(0, 1).data_ack(0).window(0));
    s.write(1000);
    let start = s.now;
    while s.now.since(start).as_micros() < 200_000_000 {
        let probe = s.wait_until_sent(130_000);
        assert_eq!((probe.len(), probe[0].payload_len, probe[0].flags), (1, 0, A));
        s.inject(ack(0, 1).data_ack(0).window(0));
    }
    s.inject(ack(0, 1).data_ack(0).window(1280));
    s.expect(data(0, 1, 1000));
}

// Linux's window probe, trap T53: an old octet mapped to an old DSN is a duplicate, and is answered with the
// DATA_ACK.
#[test]
fn a_probe_with_an_old_octet_is_answered() {
    let mut s = Script::confirmed_server(buffer(4000));
    s.inject(data(0, 10, 1).data_ack(0).map(9, 10, 1));
    s.expect(ack(0, 11).data_ack(10));
    s.inject(ack(0, 1).seq(10));
    s.expect(ack(0, 11).data_ack(10));
}

// RFC 9293 section 3.8.6.2.2: the window is not opened in small steps.
#[test]
fn a_window_is_opened_by_two_segments_or_half_the_buffer() {
    let mut s = Script::confirmed_server(buffer(10_010));
    for at in 0..10 {
        s.inject(mapped(0, 11 + at * 1000, 10 + i64::from(at) * 1000, 1000));
        s.sent();
    }
    s.advance(50);
    s.sent();
    assert_eq!(s.stats().received, 10_010);
    s.read(100);
    s.read(1000);
    s.read(800);
    s.expect_nothing();
    s.read(200);
    s.expect(ack(0, 10_011).data_ack(10_010).window(2100));
}

// RFC 8684 section 3.3.4, row W7: the buffer grows to twice the data received in a round trip of the slowest
// path.
#[test]
fn the_receive_buffer_grows_with_the_bandwidth() {
    // Like Linux, twice the data read in a round trip; otherwise somewhat more.
    grows(true, 30_000..=35_000);
    grows(false, 40_000..=100_000);
}

fn grows(growth: bool, range: core::ops::RangeInclusive<u64>) {
    let auto = ReceiveBuffer::Auto { initial: Bytes(20_000), max: Bytes(100_000) };
    let mut config = ConnectionConfig { receive_buffer: auto, ..config() };
    config.ack.growth = growth;
    let mut s = Script::confirmed_server(config);
    let mut largest = 0;
    let mut at = 10;
    for _ in 0..30 {
        s.advance(10);
        s.sent();
        for _ in 0..15 {
            s.inject(mapped(0, at as u32 + 1, at, 1000));
            for segment in s.sent() {
                largest = largest.max(u64::from(segment.window) << s.subs[0].own_scale);
            }
            at += 1000;
        }
        s.read(15_000);
        for segment in s.sent() {
            largest = largest.max(u64::from(segment.window) << s.subs[0].own_scale);
        }
    }
    assert!(range.contains(&largest), "{largest}");
}

// RFC 8684 section 3.3.5, row W12: the send buffer is at least as large as the receive buffer.
#[test]
fn the_send_buffer_is_not_smaller_than_the_receive_buffer() {
    for config in [ConnectionConfig::linux(), SimConfig::ns3().connection] {
        assert!(config.send_buffer >= config.receive_buffer.max());
    }
}

// RFC 8684 section 5, rows K9, W6: a flood out of order is bounded by the window.
#[test]
fn a_flood_out_of_order_is_bounded_by_the_window() {
    let mut s = Script::confirmed_server(buffer(10_000));
    for at in 0..100 {
        s.inject(mapped(0, 1011 + at * 1000, 1010 + i64::from(at) * 1000, 1000));
        s.sent();
    }
    assert!(s.stats().out_of_order <= 9000);
}

// RFC 8684 section 3.3.4 as implemented in Linux: the window it stores for a subflow is kept by an
// acknowledgement that repeats its number, and counts from the DATA_ACK of that acknowledgement. So such an
// acknowledgement repeats the window, and its DATA_ACK lags.
#[test]
fn a_repeated_acknowledgement_moves_no_edge_for_a_peer_that_keeps_the_larger_window() {
    let mut s = Script::confirmed_server(buffer(10_000));
    let sub = s.peer_joins(0, 3, 4, false);
    s.inject(mapped(0, 11, 10, 1000));
    s.expect(ack(0, 1011).data_ack(1010).window(10_000 - 1010));
    // The data level advances on the other subflow, and the application does not read.
    s.inject(mapped(sub, 1, 1010, 3000));
    s.expect(ack(sub, 3001).data_ack(4010).window(10_000 - 4010));
    // Subflow 0 repeats its number: the same window, the same DATA_ACK, the same edge.
    s.inject(mapped(0, 11, 10, 1000));
    s.expect(ack(0, 1011).data_ack(1010).window(10_000 - 1010));
    // A new number carries the current state.
    s.inject(mapped(0, 1011, 4010, 1000));
    s.expect(ack(0, 2011).data_ack(5010).window(10_000 - 5010));
    // After a partial read, the window is larger than this subflow has advertised, and smaller than the other
    // one's.
    s.inject(mapped(0, 2011, 5010, 4000));
    s.expect(ack(0, 6011).data_ack(9010).window(990));
    s.read(4000);
    s.expect(ack(0, 6011).data_ack(9010).window(4990));
    // Each subflow advertises the same edge, as another one may be lost.
    s.expect(ack(sub, 3001).data_ack(9010 - 1000).window(5990));
    s.read(4000);
    for at in [sub, 0] {
        s.expect(ack(at, [6011, 3001][usize::from(at == sub)]).data_ack(9010).window(8990));
    }
}

// The end of the stream is acknowledged regardless of the windows: nothing follows it.
#[test]
fn the_end_of_the_stream_does_not_lag() {
    let mut s = Script::confirmed_server(buffer(10_000));
    let sub = s.peer_joins(0, 3, 4, false);
    s.inject(mapped(0, 11, 10, 1000));
    s.expect(ack(0, 1011).data_ack(1010));
    s.inject(mapped(sub, 1, 1010, 3000).map(1010, 1, 3001).data_fin());
    s.sent();
    s.inject(mapped(0, 11, 10, 1000));
    s.expect(ack(0, 1011).data_ack(4011).window(10_000 - 4010));
}

// Linux lets a subflow use the window of the connection (`SndWndShared`): it may store the window advertised
// on another.
#[test]
fn the_window_of_another_subflow_may_be_held() {
    let mut s = Script::confirmed_server(buffer(10_000));
    let sub = s.peer_joins(0, 3, 4, false);
    s.inject(mapped(sub, 1, 10, 3990));
    s.expect(ack(sub, 3991).data_ack(4000).window(6000));
    // Half is still free: no update is necessary.
    s.read(3000);
    s.expect_nothing();
    s.inject(mapped(0, 11, 4000, 1000));
    s.expect(ack(0, 1011).data_ack(5000).window(8000));
    s.inject(mapped(0, 1011, 5000, 1000));
    s.expect(ack(0, 2011).data_ack(6000).window(7000));
    // More than this subflow has advertised, and less than the other has.
    s.inject(mapped(sub, 1, 10, 1000));
    s.expect(ack(sub, 3991).data_ack(5000).window(8000));
}
