//! Acceptable segments, to the octet: RFC 9293 section 3.10.7.4, RFC 5961, RFC 7323.

use anabranch_stack::config::{AckConfig, ConnectionConfig};

use crate::kit::*;

/// The maximum distance of an octet from the next expected one: the largest window of RFC 7323 section 2.3.
const FARTHEST: i64 = 65_535 << 14;

// RFC 5961 section 5.2: an acknowledgement older than all others by up to the largest window is accepted, but
// none before the first sequence number.
#[test]
fn an_acknowledgement_may_be_as_old_as_the_largest_window() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 100).ack(0));
    s.expect(ack(0, 101));
    s.inject(data(0, 101, 100).ack(-1));
    s.expect(ack(0, 101));
    assert_eq!(s.stats().received, 100);
}

// RFC 7323 section 2.3: a segment that no window can reach is answered and discarded.
#[test]
fn a_segment_counts_up_to_the_largest_window() {
    let mut s = Script::server(plain());
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(ack(0, 1001).seq(1 + FARTHEST + 1));
    s.expect(ack(0, 1));
    assert_eq!(s.stats().data_acked, 0);
    s.inject(ack(0, 1001).seq(1 + FARTHEST));
    assert_eq!(s.stats().data_acked, 1000);
}

// RFC 9293 section 3.10.7.4, first: a segment that begins before the first octet is answered and discarded,
// even if it extends beyond it.
#[test]
fn nothing_lies_before_the_first_octet() {
    for (seq, len) in [(-500, 2000), (0, 1), (0, 1000)] {
        let mut s = Script::server(plain());
        s.inject(data(0, seq, len));
        s.expect(ack(0, 1));
        assert_eq!((s.stats().received, s.discarded), (0, 0));
    }
}

// RFC 5961 section 4.2: a SYN is challenged with an ordinary acknowledgement. Only the initiator's third ACK
// may have been lost, and only until its keys are confirmed (RFC 8684 section 3.1).
#[test]
fn the_challenge_to_a_syn_carries_no_keys() {
    let mut s = Script::client(config());
    s.inject(seg(0).flags(SA).seq(0).ack(1));
    s.expect(ack(0, 1).data_ack(0).no_options());
    let mut s = Script::server(config());
    s.inject(seg(0).flags(S).seq(0));
    s.expect(ack(0, 1).data_ack(0).no_options());
    let mut s = Script::client(plain());
    s.inject(seg(0).flags(SA).seq(0).ack(1));
    s.expect(ack(0, 1).no_mptcp());
}

// RFC 1122 section 4.2.3.6: a keepalive is answered at once, although an acknowledgement is delayed.
#[test]
fn a_keepalive_does_not_wait_for_a_delayed_acknowledgement() {
    let mut s = Script::server(ConnectionConfig { ack: AckConfig { quick: 0, ..config().ack }, ..plain() });
    s.inject(data(0, 1, 1000));
    s.expect_nothing();
    s.inject(ack(0, 1).seq(1000));
    s.expect(ack(0, 1001));
}

// RFC 7323 section 5.5: after half of its wrap time a timestamp contains no information.
#[test]
fn an_older_timestamp_counts_for_two_thousand_seconds() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 1000).value_us(9_000_000));
    s.expect(ack(0, 1001));
    s.advance_us(2_000_000_000 - 1);
    s.inject(data(0, 1001, 1000).value_us(5));
    s.expect(ack(0, 1001));
    assert_eq!(s.stats().received, 1000);
    s.advance_us(1);
    s.inject(data(0, 1001, 1000).value_us(5));
    s.expect(ack(0, 2001));
    assert_eq!(s.stats().received, 2000);
}

// RFC 7323 section 5: with an older timestamp neither payload nor acknowledgement is accepted; data before
// the last acknowledgement is always a duplicate, and reported as one.
#[test]
fn the_acknowledgement_of_an_old_duplicate_does_not_count() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 1000).value_us(9_000_000));
    s.expect(ack(0, 1001));
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(data(0, 1, 999).value_us(8_999_000).ack(1001));
    s.expect(ack(0, 1001));
    assert_eq!((s.discarded, s.stats().data_acked), (999, 0));
    s.inject(data(0, 1, 1000).value_us(8_999_000).ack(1001));
    s.expect(ack(0, 1001));
    assert_eq!((s.discarded, s.stats().data_acked), (999, 0));
    // Eight seconds exceed the maximum delay of an overtaken acknowledgement.
    s.inject(ack(0, 1001).seq(1001).value_us(1_000_000));
    s.expect(ack(0, 1001));
    assert_eq!(s.stats().data_acked, 0);
}
