//! Rate limits of answers, and the end of a wait for a peer that is gone.

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::event::{CloseReason, Event};
use anabranch_units::Duration;

use crate::kit::*;

fn patient(base: ConnectionConfig) -> ConnectionConfig {
    ConnectionConfig { user_timeout: Duration::from_secs(80), ..base }
}

fn timed_out(s: &Script) -> bool {
    s.events.contains(&Event::Closed(CloseReason::TimedOut))
}

// RFC 5961 section 7: ten challenge ACKs in five seconds, for any cause.
#[test]
fn challenge_acks_are_limited() {
    let mut s = Script::client(config());
    let mut answers = 0;
    let mut provoke = |s: &mut Script| {
        for at in 0..30 {
            s.inject(seg(0).flags(R).seq(2 + at));
            answers += s.sent().len();
            s.inject(seg(0).flags(S).seq(5 + at));
            answers += s.sent().len();
            s.inject(ack(0, 5000 + at).data_ack(0));
            answers += s.sent().len();
        }
        answers
    };
    assert_eq!(provoke(&mut s), 10);
    assert_eq!(provoke(&mut s), 10);
    s.advance(5000);
    assert_eq!(provoke(&mut s), 20);
    // In-order data is acknowledged as usual.
    s.inject(data(0, 1, 100).data_ack(0).map(0, 1, 100));
    s.expect(ack(0, 101).data_ack(100));
}

fn half_closed(base: ConnectionConfig) -> Script {
    let mptcp = base.mptcp;
    let mut s = Script::client(patient(base));
    s.close();
    s.sent();
    s.inject(if mptcp { ack(0, 1).data_ack(1) } else { ack(0, 2) });
    s
}

// RFC 9293 section 3.6: the peer may leave its half open; but one that is silent for the user timeout is
// probed, and given up if it remains silent.
#[test]
fn a_half_closed_peer_that_is_gone_is_given_up() {
    for base in [config(), plain()] {
        let mut s = half_closed(base);
        s.advance(79_999);
        assert!(s.is_quiet() && !timed_out(&s));
        let mut probes = 0;
        while !timed_out(&s) {
            probes += s.wait_until_sent(20_000).iter().filter(|segment| !segment.flags.has(R)).count();
            assert!(probes < 20);
        }
        assert!(probes >= 7, "{probes}");
    }
}

#[test]
fn a_half_closed_peer_that_answers_is_waited_for() {
    for base in [config(), plain()] {
        let mptcp = base.mptcp;
        let mut s = half_closed(base);
        for _ in 0..20 {
            s.wait_until_sent(81_000);
            s.inject(if mptcp { ack(0, 1).data_ack(1) } else { ack(0, 2) });
        }
        assert!(!timed_out(&s));
    }
}

// RFC 9293 section 3.8.4: an idle connection is not probed unless keepalives are configured.
#[test]
fn an_idle_peer_is_probed_only_if_that_is_asked_for() {
    let mut s = Script::client(patient(config()));
    s.advance(10_000_000);
    assert!(!timed_out(&s));
    let keepalive = Some(Duration::from_secs(30));
    let mut s = Script::client(ConnectionConfig { keepalive, ..patient(config()) });
    s.advance(29_999);
    let probe = s.wait_until_sent(1);
    assert_eq!(probe[0].payload_len, 0);
    s.inject(ack(0, 1).data_ack(0));
    s.advance(29_999);
    while !timed_out(&s) {
        s.wait_until_sent(20_000);
    }
}
