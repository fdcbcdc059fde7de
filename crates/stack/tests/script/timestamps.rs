//! Timestamps that tick in milliseconds, and long silences (RFC 7323).

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::timestamp::TimestampTick;
use anabranch_units::Duration;

use crate::kit::*;

const HOUR_US: u64 = 3_600_000_000;

/// Returns a configuration without undo, which would distinguish retransmissions from originals in these
/// scripts.
fn plain_without_undo() -> ConnectionConfig {
    ConnectionConfig { undo: false, ..plain() }
}

// RFC 7323 section 5.3: the peer discards timestamps older than the last by less than half of 32 bits.
#[test]
fn after_an_hour_of_silence_a_peer_takes_us_for_newer_if_we_tick_in_milliseconds() {
    for (tick, newer) in [(TimestampTick::MILLISECOND, true), (TimestampTick::Microsecond, false)] {
        choose_tick(tick);
        let mut s = Script::client(config());
        s.write(1000);
        s.expect(data(0, 1, 1000));
        s.inject(ack(0, 1001).data_ack(1000));
        let before = s.subs[0].last_value;
        s.advance_us(HOUR_US);
        s.write(1000);
        s.expect(data(0, 1001, 1000));
        let by = s.subs[0].last_value.wrapping_sub(before) as i32;
        assert_eq!(by > 0, newer, "{tick:?}: {by}");
        if newer {
            assert_eq!(by, 3_600_000);
        }
    }
}

// RFC 7323 section 5.5: the stored timestamp is then invalid, so the next one replaces it, is echoed, and
// protects again.
#[test]
fn after_a_long_silence_the_peers_timestamps_begin_anew() {
    for tick in [TimestampTick::MILLISECOND, TimestampTick::Microsecond] {
        choose_tick(tick);
        let mut s = Script::server(plain());
        s.inject(data(0, 1, 1000).value_us(2_000_000_000));
        s.expect(ack(0, 1001).echo_us(2_000_000_000));
        s.advance_us(HOUR_US);
        s.inject(data(0, 1001, 1000).value_us(1_305_032_704));
        s.expect(ack(0, 2001).echo_us(1_305_032_704));
        s.inject(data(0, 2001, 1000).value_us(1_305_032_703));
        s.expect(ack(0, 2001).echo_us(1_305_032_704));
        assert_eq!(s.stats().received, 2000, "{tick:?}");
    }
}

// RFC 7323 section 4.2, RFC 6298 section 3: the echo identifies the transmission that was answered; its time
// is known locally, more precisely than from a clock of milliseconds.
#[test]
fn the_round_trip_of_a_retransmission_is_measured_by_our_own_clock() {
    choose_tick(TimestampTick::MILLISECOND);
    let mut s = Script::client(plain_without_undo());
    s.write(1000);
    s.expect(data(0, 1, 1000));
    let before = s.subflow(0).srtt.unwrap().0;
    s.wait_until_sent(2000);
    s.sent();
    s.advance_us(12_345);
    s.inject(ack(0, 1001));
    assert_eq!(s.subflow(0).srtt.unwrap(), Duration((7 * before + 12_345_000) / 8));
}

// RFC 8985 section 6.2, step 2: the next retransmission that takes as long as this one is not faster than any
// round trip, which it would be if the sample were rounded up to the next microsecond.
#[test]
fn the_round_trip_of_a_retransmission_is_not_rounded() {
    choose_tick(TimestampTick::Microsecond);
    let mut s = Script::client(plain_without_undo());
    s.write(1000);
    s.expect(data(0, 1, 1000));
    s.wait_until_sent(2000);
    s.sent();
    // Just before the end of the microsecond, so that the difference of the clocks is one more than the
    // elapsed time.
    s.now += Duration(1_500);
    s.inject(ack(0, 1001));
    assert_eq!(s.subflow(0).min_rtt.unwrap(), Duration(1_500));
}

// The same with a clock of milliseconds, which cannot tell two transmissions within one of its ticks apart.
#[test]
fn a_retransmission_that_takes_a_tick_or_longer_is_a_new_minimum() {
    for (elapsed, is_new) in [(1_000, true), (1_499, true), (999, false)] {
        choose_tick(TimestampTick::MILLISECOND);
        let mut s = Script::client(plain_without_undo());
        s.write(1000);
        s.expect(data(0, 1, 1000));
        let before = s.subflow(0).min_rtt.unwrap();
        s.wait_until_sent(2000);
        s.sent();
        s.advance_us(elapsed);
        s.inject(ack(0, 1001));
        let expected = if is_new { Duration::from_micros(elapsed) } else { before };
        assert_eq!(s.subflow(0).min_rtt.unwrap(), expected, "{elapsed}");
    }
}

// For a transmission no longer recorded only the echo remains: a sample, but no new minimum, as it may be a
// millisecond too short.
#[test]
fn a_sample_from_the_echo_alone_is_no_new_minimum() {
    choose_tick(TimestampTick::MILLISECOND);
    let mut s = Script::client(plain_without_undo());
    let (min, mut srtt) = (s.subflow(0).min_rtt.unwrap(), s.subflow(0).srtt.unwrap().0);
    for (echo_before_us, rtt) in [(20_000, Duration::from_millis(20)), (0, min), (1_000, min)] {
        let at = s.subflow(0).counters.bytes_acked as i64 + 1;
        s.write(1000);
        s.expect(data(0, at, 1000));
        s.wait_until_sent(4000);
        s.sent();
        s.advance_us(100_400);
        let now = TimestampTick::MILLISECOND.value(s.now);
        s.inject(ack(0, at + 1000).echo_us(now - echo_before_us / 1000));
        srtt = (7 * srtt + rtt.0) / 8;
        assert_eq!(
            (s.subflow(0).srtt.unwrap().0, s.subflow(0).min_rtt.unwrap()),
            (srtt, min),
            "{echo_before_us}"
        );
    }
}
