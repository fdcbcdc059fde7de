//! Why a segment was not sent, at a time, in stories worked by hand.

use anabranch_stack::seq::DataRange;
use anabranch_units::Time;

use super::cause::Cause;
use super::story::{Log, Repeat, Story, Transmission};

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// The application offers from 10 ms on, and the buffer has space from 20 ms on. Subflow 0 has a timeout at 300 ms.
fn story() -> Story {
    let mut story = Story { connected: ms(5), ..Story::default() };
    story.offered.push(ms(10), 1000);
    story.written.push(ms(20), 1000);
    story.holds = vec![Log::default(); 2];
    story.timeouts = vec![vec![ms(300)], vec![]];
    story
}

/// A segment that is assigned at 100 ms and sent at 400 ms.
fn transmission(subflow: usize) -> Transmission {
    Transmission {
        subflow,
        data: DataRange::new(0, 1000),
        assigned: Some(ms(100)),
        sent: ms(400),
        repeat: Repeat::No,
        hops: Vec::new(),
        dropped: None,
    }
}

#[test]
fn the_application_and_then_the_buffer_come_first() {
    let (story, one) = (story(), transmission(0));
    assert_eq!(story.reason(&one, ms(0)), (Cause::Handshake, ms(5)));
    assert_eq!(story.reason(&one, ms(5)), (Cause::Application, ms(10)));
    assert_eq!(story.reason(&one, ms(10)), (Cause::SendBuffer, ms(20)));
}

/// After the loss of a whole flight nothing is sent until the timer expires. If the timeout comes after the
/// sending, or is on another subflow, data waits for the full window.
#[test]
fn a_window_is_a_retransmission_only_until_a_timeout_before_the_sending() {
    let story = story();
    assert_eq!(story.reason(&transmission(0), ms(20)), (Cause::Retransmission, ms(100)));
    assert_eq!(story.reason(&transmission(0), ms(100)), (Cause::Retransmission, ms(300)));
    assert_eq!(story.reason(&transmission(0), ms(299)), (Cause::Retransmission, ms(300)));
    assert_eq!(story.reason(&transmission(0), ms(300)), (Cause::CongestionWindow, Time::NEVER));
    // Subflow 1 has no timeout.
    assert_eq!(story.reason(&transmission(1), ms(200)), (Cause::CongestionWindow, Time::NEVER));
    // The segment is sent before the timeout, so that it did not wait for that.
    let early = Transmission { sent: ms(299), ..transmission(0) };
    assert_eq!(story.reason(&early, ms(200)), (Cause::CongestionWindow, Time::NEVER));
    let just = Transmission { sent: ms(300), ..transmission(0) };
    assert_eq!(story.reason(&just, ms(200)), (Cause::Retransmission, ms(300)));
}

#[test]
fn another_limit_before_a_timeout_keeps_its_name() {
    let mut story = story();
    story.limits.push(ms(0), Cause::ReceiveWindow);
    story.holds[0].push(ms(0), Cause::Pacing);
    // Before the assignment the limit of the connection counts, and afterwards the limit of the subflow.
    assert_eq!(story.reason(&transmission(0), ms(50)), (Cause::ReceiveWindow, ms(100)));
    assert_eq!(story.reason(&transmission(0), ms(200)), (Cause::Pacing, Time::NEVER));
    story.limits.push(ms(60), Cause::Scheduler);
    assert_eq!(story.reason(&transmission(0), ms(50)), (Cause::ReceiveWindow, ms(60)));
    assert_eq!(story.reason(&transmission(0), ms(60)), (Cause::Scheduler, ms(100)));
}

#[test]
fn what_is_sent_again_waits_for_that_and_for_nothing_else() {
    let again = Transmission { repeat: Repeat::Retransmission, ..transmission(0) };
    assert_eq!(story().reason(&again, ms(200)), (Cause::Retransmission, Time::NEVER));
}
