//! Packet scatter before Multipath TCP: the moment at which subflows are opened.

use anabranch_stack::config::{ScatterSwitch, SimConfig, SimOnly};

use crate::kit::*;

/// Returns a client with two addresses that scatters packets, and switches by its rate.
fn scattering(rate: Option<u64>) -> Script {
    let only = SimOnly {
        scatter_switch: ScatterSwitch::Rate,
        scatter_rate: rate,
        scatter_dup_acks: Some(3),
        ..SimOnly::default()
    };
    let config: SimConfig = mesh().simulated(only);
    Script::client_with(config, 2)
}

/// Acknowledges one segment at a time, all 10 ms from now, up to `count` or the first SYN. Returns
/// the number of acknowledged segments.
fn acknowledge_until_join(s: &mut Script, count: i64) -> Option<i64> {
    s.advance(10);
    for acked in 1..=count {
        s.inject(ack(0, acked * 1000 + 1).data_ack(acked * 1000));
        if s.sent().iter().any(|segment| segment.flags.has(S)) {
            return Some(acked);
        }
    }
    None
}

// The rule `CwndSize` of MMPTCP's code. The window is 10 segments of 1000 bytes, and one more for each that is acknowledged;
// the round trip is 10 ms. 12 Mbit/s are 15 segments in this time.
#[test]
fn subflows_are_opened_when_the_window_over_the_round_trip_is_the_rate() {
    for (rate, acked) in [(8_800_001, 2), (12_000_000, 5), (12_000_001, 6), (16_000_000, 10)] {
        let mut s = scattering(Some(rate));
        s.write(10_000);
        s.expect_data(0, 1, 10);
        assert_eq!(acknowledge_until_join(&mut s, 10), Some(acked), "{rate}");
        assert_eq!(s.cwnd(0), 10 + acked as u64);
    }
}

#[test]
fn no_subflow_is_opened_below_the_rate() {
    for rate in [Some(16_000_001), None] {
        let mut s = scattering(rate);
        s.write(10_000);
        s.expect_data(0, 1, 10);
        assert_eq!(acknowledge_until_join(&mut s, 10), None, "{rate:?}");
    }
}

// The window doubles as in the first test, but the data has a round trip of 15 ms.
#[test]
fn a_longer_round_trip_lowers_the_rate() {
    let mut s = scattering(Some(16_000_000));
    s.write(10_000);
    s.expect_data(0, 1, 10);
    s.advance(5);
    assert_eq!(acknowledge_until_join(&mut s, 10), None);
    assert_eq!(s.cwnd(0), 20);
}
