//! The order of transmissions with a driver that takes segments more slowly than they become due.

use std::net::IpAddr;

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::segment::{Address, Flags};

use crate::kit::*;

/// Returns the next segments of `s` that the driver takes: source address and flags.
fn take(s: &mut Script, count: usize) -> Vec<(IpAddr, Flags)> {
    let taken = (0..count).map_while(|_| s.endpoint.poll_transmit(s.now));
    taken.map(|transmit| (transmit.segment.source.ip, transmit.segment.flags)).collect()
}

fn wide() -> ConnectionConfig {
    ConnectionConfig { initial_window: 300, ..config() }
}

// Acknowledgements and retransmissions of a subflow cannot wait until another has nothing more to send, which
// may be never: its peer would mark segments lost that have arrived (RFC 9293 section 3.8.6.3: within 0.5 s).
#[test]
fn a_busy_subflow_leaves_the_others_their_turn() {
    let mut s = Script::two(wide());
    s.endpoint.write(s.now, s.id(), 500_000);
    let sent = take(&mut s, 200);
    assert_eq!(sent.len(), 200);
    for own in [0, 1] {
        let share = sent.iter().filter(|(source, _)| *source == own_ip(own)).count();
        assert!(share >= 64, "{share} of 200 by subflow {own}");
    }
}

// The same for connections.
#[test]
fn a_busy_connection_leaves_the_others_their_turn() {
    let mut s = Script::client(wide());
    s.endpoint.write(s.now, s.id(), 300_000);
    let other = Address::new(peer_ip(7), PORT);
    s.endpoint.connect(s.now, own_ip(0), other, config()).unwrap();
    let sent = take(&mut s, 100);
    assert_eq!(sent.len(), 100);
    assert!(sent.iter().any(|(_, flags)| *flags == S));
}
