//! Stories worked by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_stack::seq::DataRange;
use anabranch_units::Time;

use super::cause::{Cause, Parts};
use super::chain::{chain, sums};
use super::story::{Hop, Log, Repeat, Service, Story, Transmission, Waits};

/// A link that takes a microsecond for a byte, and then delays it by 10 ms.
const DELAY_US: u64 = 10_000;

fn us(micros: u64) -> Time {
    Time(micros * 1000)
}

/// Makes stories of segments of 1000 bytes, which are transmitted in 1 ms.
#[derive(Default)]
struct Teller {
    story: Story,
    services: Vec<Vec<Service>>,
}

impl Teller {
    /// Everything is offered, written and connected at `connected` microseconds.
    fn new(connected: u64) -> Teller {
        let mut teller = Teller::default();
        teller.story.connected = us(connected);
        teller.story.offered.push(us(connected), u64::MAX);
        teller.story.written.push(us(connected), u64::MAX);
        teller.story.holds = vec![Log::default(); 2];
        teller
    }

    /// Adds segment number `segment` of the stream, sent over `link` at `sent`.
    fn send(&mut self, link: usize, segment: u64, sent: u64) -> &mut Transmission {
        if self.services.len() <= link {
            self.services.resize(link + 1, Vec::new());
        }
        let free = self.services[link].last().map_or(Time::ZERO, |service| service.departed);
        let departed = Time(us(sent).max(free).0 + 1_000_000);
        let number = self.story.transmissions.len();
        self.services[link].push(Service { departed, carries: Some((0, number as u32)) });
        self.story.own.entry(link).or_default().push(self.services[link].len() - 1);
        let left = Some(Time(departed.0 + DELAY_US * 1000));
        let hop = Hop { link, entered: us(sent), departed: Some(departed), left };
        let data = DataRange::new(segment * 1000, segment * 1000 + 1000);
        self.story.transmissions.push(Transmission {
            subflow: link,
            data,
            assigned: Some(us(sent)),
            sent: us(sent),
            repeat: Repeat::No,
            hops: vec![hop],
            dropped: None,
        });
        &mut self.story.transmissions[number]
    }

    /// Adds a segment that is lost on the link at once.
    fn lose(&mut self, link: usize, segment: u64, sent: u64) {
        self.send(link, segment, sent);
        self.services[link].pop();
        self.story.own.entry(link).or_default().pop();
        let number = self.story.transmissions.len() - 1;
        let lost = &mut self.story.transmissions[number];
        lost.dropped = Some((us(sent), false));
        (lost.hops[0].departed, lost.hops[0].left) = (None, None);
    }

    /// A packet of another flow occupies the link from `at` on.
    fn foreign(&mut self, link: usize, at: u64) {
        let free = self.services[link].last().map_or(Time::ZERO, |service| service.departed);
        let departed = Time(us(at).max(free).0 + 1_000_000);
        self.services[link].push(Service { departed, carries: None });
    }

    /// Returns the parts until the last byte is delivered, in microseconds.
    fn parts(mut self) -> BTreeMap<Cause, u64> {
        self.story.services = Arc::new(self.services);
        self.story.find_copies();
        let waits = Waits::new(&self.story, &self.story.deliveries());
        let last = waits.delivered_bytes() - 1;
        let (charges, end) = chain(&self.story, last, &waits, Time::ZERO).unwrap();
        let parts = sums(&charges);
        assert_eq!(parts.total(), u128::from(end.0), "the parts add up");
        in_micros(&parts)
    }

    /// Returns the parts of all bytes, in microseconds, over their number.
    fn bytes(mut self, size: u64) -> BTreeMap<Cause, u64> {
        self.story.services = Arc::new(self.services);
        self.story.find_copies();
        let (parts, count) = self.story.bytes(size);
        assert_eq!(count, size);
        in_micros(&parts).into_iter().map(|(cause, micros)| (cause, micros / size)).collect()
    }
}

fn in_micros(parts: &Parts) -> BTreeMap<Cause, u64> {
    Cause::ALL.into_iter().filter(|cause| parts[*cause] > 0).map(|c| (c, (parts[c] / 1000) as u64)).collect()
}

/// The example of docs/explain.md: four segments, a window of two.
fn example() -> Teller {
    let mut teller = Teller::new(21_000);
    teller.send(0, 0, 21_000);
    teller.send(0, 1, 21_000);
    // The first acknowledgement arrives at 42 ms, the second at 43 ms.
    teller.send(0, 2, 42_000);
    teller.send(0, 3, 43_000);
    teller
}

#[test]
fn the_example_of_the_page() {
    // From the end: 10 ms of propagation; the link was busy with segments 3 and 2 in turn, 2 ms; idle from 23 ms, when
    // segment 1 had been transmitted, to 42 ms; busy with segments 1 and 0, 2 ms; and before, the handshake.
    let parts = example().parts();
    let expected = [
        (Cause::Handshake, 21_000),
        (Cause::CongestionWindow, 19_000),
        (Cause::Serialisation, 4_000),
        (Cause::Propagation, 10_000),
    ];
    assert_eq!(parts, expected.into());
    // A byte waits in the mean (0 + 0 + 21 + 22) / 4 ms for the window, and (0 + 1 + 0 + 0) / 4 ms in the queue.
    let bytes = example().bytes(4000);
    let expected = [
        (Cause::CongestionWindow, 10_750),
        (Cause::Queueing, 250),
        (Cause::Serialisation, 1_000),
        (Cause::Propagation, 10_000),
    ];
    assert_eq!(bytes, expected.into());
}

#[test]
fn packets_of_others_are_queueing() {
    let mut teller = Teller::new(0);
    teller.send(0, 0, 0);
    teller.foreign(0, 0);
    teller.foreign(0, 0);
    teller.send(0, 1, 0);
    let expected = [(Cause::Serialisation, 2_000), (Cause::Queueing, 2_000), (Cause::Propagation, 10_000)];
    assert_eq!(teller.parts(), expected.into());
}

#[test]
fn a_byte_that_was_lost_waits_for_its_retransmission() {
    let mut teller = Teller::new(0);
    teller.send(0, 0, 0);
    // Its predecessor is still transmitted when it is lost, at 0.5 ms.
    teller.lose(0, 1, 500);
    teller.send(0, 1, 200_000).repeat = Repeat::Retransmission;
    let expected =
        [(Cause::Retransmission, 199_500), (Cause::Serialisation, 1_500), (Cause::Propagation, 10_000)];
    assert_eq!(teller.parts(), expected.into());
}

#[test]
fn bytes_after_a_loss_wait_for_the_retransmission() {
    let mut teller = Teller::new(0);
    teller.lose(0, 0, 0);
    teller.send(0, 1, 0);
    teller.send(0, 0, 30_000).repeat = Repeat::Retransmission;
    // The last byte arrives at 11 ms, the first at 41 ms.
    let expected =
        [(Cause::Retransmission, 30_000), (Cause::Serialisation, 1_000), (Cause::Propagation, 10_000)];
    assert_eq!(teller.parts(), expected.into());
}

#[test]
fn a_byte_waits_for_an_earlier_one_on_another_path() {
    let mut teller = Teller::new(0);
    // The second path is busy with others for 50 ms.
    teller.services.resize(2, Vec::new());
    for _ in 0..50 {
        teller.foreign(1, 0);
    }
    teller.send(1, 0, 0);
    teller.send(0, 1, 0);
    // The last byte arrives at 11 ms, the first at 61 ms.
    let expected = [(Cause::HeadOfLine, 50_000), (Cause::Serialisation, 1_000), (Cause::Propagation, 10_000)];
    assert_eq!(teller.parts(), expected.into());
}

/// The first path is busy with others for 50 ms, and the second path carries the segment as well, from 5 ms on.
fn copied() -> Teller {
    let mut teller = Teller::new(0);
    teller.services.resize(2, Vec::new());
    for _ in 0..50 {
        teller.foreign(0, 0);
    }
    teller.story.limits.push(us(0), Cause::Pacing);
    teller.story.holds[1].push(us(0), Cause::Pacing);
    teller.send(0, 0, 0);
    teller.send(1, 0, 5_000).repeat = Repeat::Reinjection;
    teller
}

/// Asserts that the last segment waits for 5 ms because of `cause`, in both accounts.
fn assert_waits(teller: impl Fn() -> Teller, cause: Cause) {
    let expected = [(cause, 5_000), (Cause::Serialisation, 1_000), (Cause::Propagation, 10_000)].into();
    assert_eq!(teller().parts(), expected);
    assert_eq!(teller().bytes(1000), expected);
}

/// It arrives before the data itself, which is not lost.
#[test]
fn a_copy_waits_for_its_own_subflow_and_before_for_the_scheduler() {
    assert_waits(copied, Cause::Scheduler);
    let assigned_at_once = || {
        let mut teller = copied();
        teller.story.transmissions[1].assigned = Some(us(0));
        teller
    };
    assert_waits(assigned_at_once, Cause::Pacing);
    let of_a_full_window = || {
        let mut teller = copied();
        teller.story.limits = Log::default();
        teller
    };
    assert_waits(of_a_full_window, Cause::CongestionWindow);
}

#[test]
fn a_reinjection_after_a_timeout_or_a_loss_is_a_retransmission() {
    let after_a_timeout = || {
        let mut teller = copied();
        teller.story.timeouts = vec![vec![us(4_000)]];
        teller
    };
    assert_waits(after_a_timeout, Cause::Retransmission);
    let after_a_loss = || {
        let mut teller = Teller::new(0);
        teller.lose(0, 0, 0);
        teller.send(1, 0, 5_000).repeat = Repeat::Reinjection;
        teller
    };
    assert_waits(after_a_loss, Cause::Retransmission);
    // The timer of another subflow, or an earlier one.
    for timeouts in [vec![vec![], vec![us(4_000)]], vec![vec![us(0), us(6_000)]]] {
        let other = || {
            let mut teller = copied();
            teller.story.timeouts = timeouts.clone();
            teller
        };
        assert_waits(other, Cause::Scheduler);
    }
}

/// The first subflow has the segment in its queue when the second one sends it.
#[test]
fn a_copy_that_is_sent_first_is_no_repetition() {
    let teller = || {
        let mut teller = Teller::new(0);
        teller.story.holds[1].push(us(0), Cause::Pacing);
        let copy = teller.send(1, 0, 5_000);
        (copy.repeat, copy.assigned) = (Repeat::Reinjection, Some(us(0)));
        teller.send(0, 0, 8_000);
        teller
    };
    assert_waits(teller, Cause::Pacing);
}

#[test]
fn an_application_that_writes_later_is_waited_for() {
    let mut teller = Teller::new(0);
    teller.story.offered = super::story::Steps::default();
    teller.story.offered.push(us(0), 1000);
    teller.story.offered.push(us(500_000), 2000);
    teller.send(0, 0, 0);
    teller.send(0, 1, 500_000);
    let expected =
        [(Cause::Application, 499_000), (Cause::Serialisation, 2_000), (Cause::Propagation, 10_000)];
    assert_eq!(teller.parts(), expected.into());
}

#[test]
fn data_that_a_subflow_holds_waits_for_its_pacing() {
    let mut teller = Teller::new(0);
    teller.story.holds[0].push(us(0), Cause::Pacing);
    teller.send(0, 0, 0);
    teller.send(0, 1, 5_000).assigned = Some(us(0));
    let expected = [(Cause::Pacing, 4_000), (Cause::Serialisation, 2_000), (Cause::Propagation, 10_000)];
    assert_eq!(teller.parts(), expected.into());
}

#[test]
fn a_slower_second_link_counts_and_not_the_gaps_on_a_fast_first_one() {
    // Over a fast link to a slow one, which is just never idle.
    let mut teller = Teller::new(0);
    let fast = 0;
    for segment in 0..5 {
        let sent = segment * 1000;
        teller.send(fast, segment, sent);
        let place = teller.services[fast].len() - 1;
        let departed = Time(us(sent).0 + 1000);
        teller.services[fast][place].departed = departed;
        let number = teller.story.transmissions.len();
        let slow = Service { departed: Time(departed.0 + 1_000_000), carries: Some((0, number as u32 - 1)) };
        teller.services.resize(2, Vec::new());
        teller.services[1].push(slow);
        teller.story.own.entry(1).or_default().push(segment as usize);
        let hops = &mut teller.story.transmissions[number - 1].hops;
        hops[0].departed = Some(departed);
        hops[0].left = Some(departed);
        hops.push(Hop {
            link: 1,
            entered: departed,
            departed: Some(slow.departed),
            left: Some(Time(slow.departed.0 + 1_000_000)),
        });
    }
    let expected = [(Cause::Serialisation, 5_001), (Cause::Propagation, 1_000)];
    assert_eq!(teller.parts(), expected.into());
}
