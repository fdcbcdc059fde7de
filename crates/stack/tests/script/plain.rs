//! Plain TCP, whose stream is that of its only subflow: windows, acknowledgements, and the ends of streams.

use anabranch_stack::config::{AckConfig, ConnectionConfig, ReceiveBuffer};
use anabranch_stack::event::{CloseReason, Event};
use anabranch_units::Bytes;

use crate::kit::*;

fn closed(s: &Script) -> Option<CloseReason> {
    s.events.iter().find_map(|event| match event {
        Event::Closed(reason) => Some(*reason),
        _ => None,
    })
}

// RFC 9293 section 3.10.7.4, fifth: an acknowledgement without new data may open the window.
#[test]
fn a_window_may_open_before_anything_was_sent() {
    let mut s = Script::connecting(plain(), 1);
    s.expect(seg(0).flags(S));
    s.inject(seg(0).flags(SA).seq(0).ack(1).window(0));
    s.expect(ack(0, 1));
    s.write(2000);
    s.expect_nothing();
    s.inject(ack(0, 1).window(64_000));
    s.expect_data(0, 1, 2);
}

// RFC 9293 section 3.10.7.4, first: a window filled to its edge, or up to one octet less, is not answered at
// once; one octet beyond is.
#[test]
fn a_window_may_be_filled_to_its_edge() {
    for (last, at_once) in [(399, false), (400, false), (401, true)] {
        let mut s = Script::server(ConnectionConfig {
            receive_buffer: ReceiveBuffer::Fixed(Bytes(1000)),
            ack: AckConfig { quick: 0, ..config().ack },
            ..plain()
        });
        s.inject(data(0, 1, 600));
        s.expect_nothing();
        s.inject(data(0, 601, last));
        assert_eq!(!s.is_quiet(), at_once, "{last}");
        s.sent();
        s.advance(50);
        s.sent();
        assert_eq!(s.stats().received, 600 + u64::from(last).min(400));
    }
}

// RFC 9293 section 3.4: the FIN is no octet of the stream.
#[test]
fn the_acknowledgement_of_the_fin_is_none_of_data() {
    let mut s = Script::client(plain());
    s.write(500);
    s.expect(data(0, 1, 500));
    s.close();
    s.expect(seg(0).flags(FA).seq(501));
    s.advance(10);
    s.inject(ack(0, 501));
    let then = s.now;
    assert_eq!((s.subflow(0).counters.bytes_acked, s.stats().last_data_ack), (500, then));
    assert!(!s.events.contains(&Event::AllAcked));
    s.advance(10);
    s.inject(ack(0, 502));
    assert_eq!((s.subflow(0).counters.bytes_acked, s.stats().last_data_ack), (500, then));
    assert_eq!(s.stats().data_acked, 500);
    assert!(s.events.contains(&Event::AllAcked));
}

// RFC 9293 section 3.6, case 3: both close at once, from CLOSING to TIME-WAIT, where a FIN is answered.
#[test]
fn both_sides_may_close_at_once() {
    let mut s = Script::client(plain());
    s.close();
    s.expect(seg(0).flags(FA).seq(1));
    s.inject(seg(0).flags(FA).seq(1).ack(1));
    s.expect(ack(0, 2));
    assert_eq!(closed(&s), None);
    s.inject(ack(0, 2).seq(2));
    assert_eq!(closed(&s), Some(CloseReason::Finished));
    s.inject(seg(0).flags(FA).seq(1).ack(2));
    s.expect(ack(0, 2));
}

// RFC 9293 section 3.10.7.4, second: a reset before the end of both directions is reported as such.
#[test]
fn a_reset_of_a_half_closed_connection_is_a_reset() {
    let mut s = Script::client(plain());
    s.close();
    s.expect(seg(0).flags(FA).seq(1));
    s.inject(ack(0, 2));
    s.inject(seg(0).flags(R).seq(1));
    assert_eq!(closed(&s), Some(CloseReason::Reset));
    let mut s = Script::server(plain());
    s.inject(seg(0).flags(FA).seq(1));
    s.expect(ack(0, 2));
    s.write(1000);
    s.expect_data(0, 1, 1);
    s.inject(seg(0).flags(R).seq(2));
    assert_eq!(closed(&s), Some(CloseReason::Reset));
}

// As in Linux: a writer is woken once, when a third of the send buffer is free.
#[test]
fn a_writer_is_woken_when_a_third_is_free() {
    let mut s = Script::client(ConnectionConfig { send_buffer: Bytes(9000), ..plain() });
    s.inject(ack(0, 1));
    assert_eq!(s.write(20_000), 9000);
    s.expect_data(0, 1, 9);
    let mut woken = |upto| {
        s.events.clear();
        s.inject(ack(0, upto));
        s.events.contains(&Event::Writable)
    };
    assert!(!woken(2001));
    assert!(!woken(3000));
    assert!(woken(3001));
    assert!(!woken(9001));
}

// Linux's `tcp_wmem`: the send buffer starts small and holds twice the data that the window allows in flight,
// unless the host is short of memory; the writer is notified when a third of it is free.
#[test]
fn a_send_buffer_grows_with_the_window() {
    let grown =
        ConnectionConfig { send_buffer: Bytes(60_000), send_buffer_start: Some(Bytes(15_000)), ..plain() };
    let mut s = Script::client(grown);
    // Twice the initial window of ten segments exceeds the minimum.
    assert_eq!(s.write(100_000), 20_000);
    s.expect_data(0, 1, 10);
    s.advance(10);
    s.inject(ack(0, 10_001));
    s.sent();
    // Ten segments are left, and space for forty.
    assert_eq!(s.cwnd(0), 20);
    assert!(s.events.contains(&Event::Writable));
    assert_eq!(s.write(100_000), 30_000);
    s.sent();
    s.endpoint.set_send_buffers_grow(false);
    assert_eq!(s.write(100_000), 0);
    s.inject(ack(0, 30_001));
    s.sent();
    s.inject(ack(0, 40_001));
    // Ten segments are left of the data written when there was memory.
    assert_eq!(s.write(100_000), 5_000);
    s.sent();
    s.endpoint.set_send_buffers_grow(true);
    assert_eq!(s.write(100_000), 60_000 - 15_000);
    s.sent();
}
