//! Pacing: segments are sent at twice the window per round trip in slow start, and at 1.2 times afterwards.

use anabranch_stack::config::{ConnectionConfig, LossDetection};
use anabranch_stack::congestion::CongestionKind;

use crate::kit::*;

fn paced() -> ConnectionConfig {
    ConnectionConfig { pacing: true, congestion: CongestionKind::NewReno, ..plain() }
}

// Linux's rule: ten segments per 10 ms, twice as fast: one per half millisecond.
#[test]
fn slow_start_leaves_at_twice_the_window_per_round_trip() {
    let mut s = Script::client(paced());
    s.write(5000);
    s.expect(data(0, 1, 1000));
    for at in 1..5 {
        s.advance_us(499);
        s.expect_nothing();
        s.advance_us(1);
        s.expect(data(0, 1 + at * 1000, 1000));
    }
}

// Linux's rule: 1.2 times in congestion avoidance.
#[test]
fn congestion_avoidance_leaves_a_little_faster_than_the_window() {
    let mut s = Script::client(ConnectionConfig { initial_ssthresh: Some(10), ..paced() });
    s.write(3000);
    s.expect(data(0, 1, 1000));
    s.advance_us(833);
    s.expect_nothing();
    s.advance_us(1);
    s.expect(data(0, 1001, 1000));
    s.advance_us(832);
    s.expect_nothing();
    s.advance_us(1);
    s.expect(data(0, 2001, 1000));
}

// An idle time allows no burst.
#[test]
fn an_idle_time_earns_no_burst() {
    let mut s = Script::client(paced());
    s.write(1000);
    s.expect(data(0, 1, 1000));
    s.advance(10);
    s.inject(ack(0, 1001));
    s.advance(50);
    s.write(2000);
    s.expect(data(0, 1001, 1000));
    s.expect_nothing();
    s.advance(1);
    s.expect(data(0, 2001, 1000));
}

// The fast retransmission is not delayed (nor does the window block it).
#[test]
fn the_fast_retransmission_does_not_wait() {
    let mut s = Script::client(ConnectionConfig {
        loss_detection: LossDetection::DuplicateAcks,
        sack: false,
        ..paced()
    });
    s.inject(ack(0, 1));
    s.write(20_000);
    s.expect(data(0, 1, 1000));
    for at in 1..6 {
        s.advance_us(500);
        s.expect(data(0, 1 + at * 1000, 1000));
    }
    s.inject_all([ack(0, 1), ack(0, 1), ack(0, 1)]);
    s.expect(data(0, 1, 1000));
}

// Acknowledgements are not paced.
#[test]
fn acknowledgements_do_not_wait() {
    let mut s = Script::client(paced());
    s.write(20_000);
    s.expect(data(0, 1, 1000));
    s.inject(data(0, 1, 500));
    s.expect(ack(0, 501));
}
