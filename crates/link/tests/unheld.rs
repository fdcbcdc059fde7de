//! Rules of queue management that could once be broken without any test failing (`docs/testing.md`, "How well the tests
//! notice").

use anabranch_link::{
    Aqm, Codel, DropReason, FqCodel, Label, Link, LinkConfig, Polled, Pushed, QueueLimit, Red,
};
use anabranch_units::{Duration, Rate, Time};

/// 12 Mbit/s, so that 1500 bytes take a millisecond, without propagation.
fn link(aqm: Aqm) -> Link<u64> {
    let config = LinkConfig {
        capacity: Rate::from_mbps(12).into(),
        delay: Duration::ZERO,
        queue: QueueLimit::Packets(10_000),
        aqm,
        ..LinkConfig::default()
    };
    Link::new("a", 1, config).unwrap()
}

/// Returns the packets that arrive until `until`, in their order.
fn arrivals(link: &mut Link<u64>, until: Time) -> Vec<u64> {
    let mut all = Vec::new();
    while link.next_event() <= until {
        let at = link.next_event();
        while let Some(polled) = link.poll(at) {
            match polled {
                Polled::Arrived(arrival) => all.push(arrival.packet),
                Polled::Dropped(dropped) => panic!("{:?}", dropped.reason),
            }
        }
    }
    all
}

/// RFC 8290 section 4.1.2: a flow without packets that returns is new, with a whole quantum of credits, whatever it has spent
/// before: its first packets are sent before those of a flow that always has some.
#[test]
fn a_flow_that_returns_to_fq_codel_has_a_whole_quantum() {
    let calm = Codel { target: Duration::from_secs(5), interval: Duration::from_secs(5), ecn: false };
    let mut link = link(Aqm::FqCodel(FqCodel { codel: calm, queues: 1024, quantum: 3000 }));
    let offer = |link: &mut Link<u64>, now, packet, flow| {
        let label = Label { flow, ..Label::default() };
        assert!(matches!(link.push_as(now, packet, 1500, label), Pushed::Queued), "{packet}");
    };
    for round in 0..20 {
        // One flow has a hundred packets; the other one comes with five, once the link has served some of the first, and
        // leaves with half of a quantum.
        let begin = Time::from_millis(1000 * round);
        (0..100).for_each(|packet| offer(&mut link, begin, packet, 1));
        let now = begin + Duration::from_micros(4500);
        let mut order = arrivals(&mut link, now);
        (1000..1005).for_each(|packet| offer(&mut link, now, packet, 2));
        order.extend(arrivals(&mut link, begin + Duration::from_millis(900)));
        let places: Vec<usize> =
            (1000..1005).map(|packet| order.iter().position(|other| *other == packet).unwrap()).collect();
        // The packet in service is the fifth. A quantum has two packets, then the other flow has its turn.
        assert_eq!(places[..2], [5, 6], "round {round}: {order:?}");
        assert!(places[2] > 7, "round {round}: {order:?}");
        assert_eq!(order.len(), 105);
    }
}

/// Floyd and Jacobson, Figure 2: where the average falls below the lower threshold, the count of packets since the last drop
/// is -1 again, so that the first packets of the next busy time have the small probability of a fresh count.
#[test]
fn red_counts_anew_after_a_calm() {
    // A weight of 1: the average is the queue that a packet finds. Between 5 and 15 packets at most 10 %.
    let settings = Red { max_probability: 0.1, weight: 1.0, ecn: false, ..Red::default() };
    let (mut first_drops, mut offered) = (0, 0);
    let mut link = link(Aqm::Red(settings));
    let mut now = Time::ZERO;
    for _ in 0..2000 {
        // Six packets are queued at once, of which the last finds five: at the threshold the probability is 0. The following
        // three find six to eight: 1, 2 and 3 % at most, so that all three pass in 94 % of the bursts.
        let mut dropped = false;
        for packet in 0..9 {
            offered += 1;
            if let Pushed::Dropped(_, reason) = link.push(now, packet, 1500) {
                assert_eq!(reason, DropReason::Aqm);
                dropped = true;
            }
        }
        first_drops += u32::from(dropped);
        // Calm: all are sent, and a packet finds none.
        now += Duration::from_millis(50);
        while link.next_event() <= now {
            let at = link.next_event();
            while link.poll(at).is_some() {}
        }
        let _ = link.push(now, 9, 1500);
        now += Duration::from_millis(50);
        while link.next_event() <= now {
            let at = link.next_event();
            while link.poll(at).is_some() {}
        }
    }
    assert_eq!(offered, 18_000);
    // With fresh counts 0.01 + 0.02 + 0.03, and a little more by the spacing: 6.1 % of 2000 bursts, plus and minus four
    // standard errors. With a count that goes on over calm times every gap is at most 1/p packets.
    let expected = expected_share() * 2000.0;
    let error = (expected * (1.0 - expected / 2000.0)).sqrt();
    assert!((f64::from(first_drops) - expected).abs() < 4.0 * error, "{first_drops}, and by hand {expected}");
}

/// The probability that one of three packets of a fresh burst is dropped: p / (1 - count p), the count being 0, 1, 2.
fn expected_share() -> f64 {
    let mut passed = 1.0;
    for (count, p) in [(0.0, 0.01), (1.0, 0.02), (2.0, 0.03)] {
        passed *= 1.0 - p / (1.0 - count * p);
    }
    1.0 - passed
}
