//! Simultaneous open: RFC 9293 section 3.5, figure 8. Such a connection is plain TCP, as in Linux.

use anabranch_stack::event::{CloseReason, Event};

use crate::kit::*;

/// Returns a connection that has sent its SYN and received the peer's.
fn crossed(mptcp: bool) -> Script {
    let mut s = Script::connecting(if mptcp { config() } else { plain() }, 1);
    s.expect(seg(0).flags(S).seq(0));
    let syn = seg(0).flags(S).seq(0);
    s.inject(if mptcp { syn.option(capable(None, None, None)) } else { syn });
    s.expect(seg(0).flags(SA).seq(0).ack(1).no_mptcp());
    assert!(s.events.is_empty());
    s
}

#[test]
fn crossing_syns_open_a_plain_tcp() {
    for mptcp in [false, true] {
        let mut s = crossed(mptcp);
        s.inject(seg(0).flags(SA).seq(0).ack(1));
        assert_eq!(s.events, [Event::SubflowUp(s.subflow(0).id), Event::Connected]);
        assert!(!s.stats().mptcp);
        s.write(1500);
        s.expect(data(0, 1, 1000).no_mptcp());
        s.expect(data(0, 1001, 500).no_mptcp());
        s.inject(data(0, 1, 300).ack(1501));
        s.expect(ack(0, 301).no_mptcp());
        s.close();
        s.expect(seg(0).flags(FA).seq(1501).ack(301));
        s.inject(seg(0).flags(FA).seq(301).ack(1502));
        s.expect(ack(0, 302));
        assert!(s.events.contains(&Event::Closed(CloseReason::Finished)));
    }
}

// The peer's SYN/ACK is lost, and the next segment completes the handshake.
#[test]
fn data_completes_a_simultaneous_open() {
    let mut s = crossed(true);
    s.inject(data(0, 1, 100));
    assert!(s.events.contains(&Event::Connected));
    assert_eq!(s.stats().received, 100);
    s.sent();
}

// RFC 9293 section 3.8.1: the local SYN/ACK is repeated until it is acknowledged, and for each SYN of the
// peer.
#[test]
fn the_syn_ack_of_a_simultaneous_open_is_repeated() {
    let mut s = crossed(true);
    let again = seg(0).flags(SA).seq(0).ack(1).no_mptcp();
    s.expect_after(1000, again.clone());
    s.inject(seg(0).flags(S).seq(0).option(capable(None, None, None)));
    s.expect(again);
    s.inject(seg(0).flags(SA).seq(0).ack(1));
    assert!(s.events.contains(&Event::Connected));
    // A repetition, as the local one was lost: it is answered by an acknowledgement.
    s.inject(seg(0).flags(SA).seq(0).ack(1));
    s.expect(ack(0, 1).seq(1).no_mptcp());
}

// RFC 9293 section 3.10.7.4, second: a reset after an active open is a refusal.
#[test]
fn a_reset_in_a_simultaneous_open_is_a_refusal() {
    let mut s = crossed(true);
    s.inject(seg(0).flags(R).seq(9));
    assert!(s.events.is_empty());
    s.inject(seg(0).flags(R).seq(1));
    assert_eq!(s.events, [Event::Closed(CloseReason::Refused)]);
}

#[test]
fn a_syn_ack_for_something_else_completes_nothing() {
    let mut s = crossed(true);
    s.inject(seg(0).flags(SA).seq(0).ack(2));
    s.expect(seg(0).flags(SA).seq(0).ack(1));
    s.inject(seg(0).flags(SA).seq(5).ack(1));
    s.inject(ack(0, 3));
    s.expect(seg(0).flags(R).seq(3));
    assert!(s.events.is_empty());
}

// RFC 8684 section 3.9.2, row H8: joins that cross between the same ports: neither is accepted, and the
// connection continues.
#[test]
fn a_join_that_meets_another_between_the_same_ports_is_refused() {
    let mut s = Script::client_with(mesh(), 2);
    s.expect(seg(1).flags(S));
    let syn = s.join_syn(1, 3, false);
    s.inject(syn);
    s.expect(seg(1).flags(RA).ack(1));
    // The peer has also refused the local one.
    s.inject(seg(1).flags(RA).seq(0).ack(1));
    s.write(100);
    s.expect(data(0, 1, 100));
    s.inject(ack(0, 101).data_ack(100));
}
