//! Arbitrary links, and functions that drive them.

use std::sync::Arc;

use anabranch_link::{
    Aqm, Arrival, Capacity, Change, Codel, CrossTraffic, DropReason, FqCodel, GilbertElliott, Jitter,
    JitterShape, Link, LinkConfig, Loss, Polled, Pushed, QueueLimit, Red, Redraw, Redrawn, Reordering, Step,
    TokenBucket, Trace, WhenDown,
};
use anabranch_units::{Duration, Rate, Time};
use proptest::prelude::*;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;

/// A packet to offer: its time and length. Its number is its position in the list, from 1.
pub type Offer = (Time, u32);

/// The fate of each packet: its number, and its time or the reason of its drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Arrived { packet: u32, at: Time },
    Refused { packet: u32, reason: DropReason },
    DroppedLater { packet: u32, at: Time, reason: DropReason },
}

/// Returns offers in order of time, `gap` nanoseconds apart at most (often none at all), of up to `bytes`.
pub fn offers(count: usize, gap: u64, bytes: u32) -> impl Strategy<Value = Vec<Offer>> {
    let gap = prop_oneof![2 => Just(0), 3 => 0..=gap];
    prop::collection::vec((gap, 1..=bytes), 1..=count).prop_map(|list| {
        let mut now = 0;
        list.into_iter()
            .map(|(gap, bytes)| {
                now += gap;
                (Time(now), bytes)
            })
            .collect()
    })
}

/// Returns small traces of up to `last` milliseconds.
pub fn trace(last: u32) -> impl Strategy<Value = Arc<Trace>> {
    prop::collection::vec(0..=last, 1..12).prop_map(|mut at_ms| {
        at_ms.sort_unstable();
        if at_ms.last() == Some(&0) {
            at_ms.push(1);
        }
        Arc::new(Trace::from_millis(at_ms).expect("sorted and not of zero length"))
    })
}

/// Returns rates around 1 byte per microsecond, most of them odd.
pub fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![(1_000_000..40_000_000_u64).prop_map(Rate), Just(Rate::from_mbps(8))]
}

pub fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        rate().prop_map(Capacity::Rate),
        (trace(20), 0..50 * MS).prop_map(|(trace, start)| Capacity::Trace { trace, start: Duration(start) }),
    ]
}

pub fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        (0.0..0.5).prop_map(Loss::Bernoulli),
        (10..5_000_u64, 10..5_000_u64, 0.0..0.2, 0.2..1.0).prop_map(|(good, bad, loss_good, loss_bad)| {
            Loss::GilbertElliott(GilbertElliott {
                mean_good: Duration::from_micros(good),
                mean_bad: Duration::from_micros(bad),
                loss_good,
                loss_bad,
            })
        }),
    ]
}

pub fn queue() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Unlimited),
        (1..10_u32).prop_map(QueueLimit::Packets),
        (1..10_000_u64).prop_map(QueueLimit::Bytes),
    ]
}

/// Returns steps within `span` nanoseconds.
pub fn timeline(span: u64) -> impl Strategy<Value = Vec<Step>> {
    let change = prop_oneof![
        3 => rate().prop_map(Change::Rate),
        2 => (trace(10), 0..10 * MS).prop_map(|(trace, start)| Change::Trace { trace, start: Duration(start) }),
        2 => (0..5 * MS).prop_map(|delay| Change::Delay(Duration(delay))),
        1 => loss().prop_map(Change::Loss),
        2 => Just(Change::Down),
        3 => Just(Change::Up),
    ];
    prop::collection::vec((0..span, change), 0..8).prop_map(|mut steps| {
        steps.sort_by_key(|step| step.0);
        steps.into_iter().map(|(at, change)| Step { at: Time(at), change }).collect()
    })
}

/// Returns arbitrary links with a timeline of about 20 ms.
pub fn any_link() -> impl Strategy<Value = LinkConfig> {
    let shape = prop_oneof![
        (0..3_000_u64).prop_map(|max| JitterShape::Uniform { max: Duration::from_micros(max) }),
        (0..1_000_u64, 0..1_000_u64).prop_map(|(mean, std_dev)| JitterShape::Normal {
            mean: Duration::from_micros(mean),
            std_dev: Duration::from_micros(std_dev),
        }),
    ];
    let jitter = prop::option::of((shape, any::<bool>()));
    let reordering = prop::option::of((0.0..0.5, 0..5 * MS));
    let base = (capacity(), 0..5 * MS, queue(), loss(), timeline(20 * MS));
    let rest = (jitter, reordering, prop_oneof![Just(0.0), 0.0..0.5], any::<bool>());
    let drop_list = prop::collection::vec(1..60_u64, 0..4);
    (base, rest, drop_list).prop_map(|(base, rest, drop_list)| LinkConfig {
        capacity: base.0,
        delay: Duration(base.1),
        queue: base.2,
        rtt: None,
        loss: base.3,
        drop_list,
        jitter: rest.0.map(|(shape, reorder)| Jitter { shape, reorder }),
        reordering: rest.1.map(|(probability, extra)| Reordering { probability, extra: Duration(extra) }),
        duplicate: rest.2,
        when_down: if rest.3 { WhenDown::Keep } else { WhenDown::Drop },
        timeline: base.4,
        ..LinkConfig::default()
    })
}

pub fn codel() -> impl Strategy<Value = Codel> {
    (1..3000_u64, 1..9000_u64, any::<bool>()).prop_map(|(target, interval, ecn)| Codel {
        target: Duration::from_micros(target),
        interval: Duration::from_micros(interval),
        ecn,
    })
}

pub fn aqm() -> impl Strategy<Value = Aqm> {
    prop_oneof![
        Just(Aqm::DropTail),
        codel().prop_map(Aqm::Codel),
        (codel(), 1..4_u32, 1..3000_u32).prop_map(|(codel, queues, quantum)| Aqm::FqCodel(FqCodel {
            codel,
            queues,
            quantum
        })),
        (1..4_u32, 1..6_u32, 0.01..1.0, 0.01..1.0, any::<bool>(), any::<bool>()).prop_map(
            |(min, more, max_probability, weight, gentle, ecn)| {
                let (min, max) = (QueueLimit::Packets(min), QueueLimit::Packets(min + more));
                Aqm::Red(Red { min, max, max_probability, weight, gentle, ecn })
            }
        ),
    ]
}

fn bucket() -> impl Strategy<Value = TokenBucket> {
    (rate(), 1..9_000_u64).prop_map(|(rate, burst)| TokenBucket { rate, burst })
}

fn cross_traffic() -> impl Strategy<Value = CrossTraffic> {
    (rate(), 40..1500_u32, 0..10 * MS, 1..10 * MS).prop_map(|(rate, packet, from, span)| CrossTraffic {
        rate,
        packet,
        from: Time(from),
        until: Time(from + span),
    })
}

fn redraw() -> impl Strategy<Value = Redraw> {
    let value = prop_oneof![
        prop::collection::vec(rate(), 1..4).prop_map(Redrawn::Rate),
        (0..MS, 0..MS)
            .prop_map(|(mean, std_dev)| Redrawn::Delay { mean: Duration(mean), std_dev: Duration(std_dev) }),
    ];
    (0..5 * MS, MS..9 * MS, value).prop_map(|(from, every, value)| Redraw {
        from: Time(from),
        until: Time(30 * MS),
        every: Duration(every),
        value,
        stream: "test".to_owned(),
    })
}

/// Returns links as [`any_link`] or [`simple_link`] do, with queue management, token buckets, cross traffic and redraws.
pub fn managed_link() -> impl Strategy<Value = LinkConfig> {
    let base = prop_oneof![2 => any_link(), 1 => simple_link()];
    let more = (
        aqm(),
        prop::option::weighted(0.3, bucket()),
        prop::option::weighted(0.4, bucket()),
        prop::collection::vec(cross_traffic(), 0..3),
        prop::collection::vec(redraw(), 0..3),
    );
    (base, more).prop_map(|(config, (aqm, policer, shaper, cross_traffic, redraws))| LinkConfig {
        aqm,
        policer,
        shaper,
        cross_traffic,
        redraws,
        ..config
    })
}

/// Links with a rate, a delay and a queue, some of which change.
pub fn simple_link() -> impl Strategy<Value = LinkConfig> {
    let steps = prop_oneof![Just(Vec::new()), timeline(20 * MS)];
    (rate(), 0..5 * MS, queue(), steps).prop_map(|(rate, delay, queue, timeline)| LinkConfig {
        capacity: Capacity::Rate(rate),
        delay: Duration(delay),
        queue,
        timeline,
        ..LinkConfig::default()
    })
}

/// Returns links as [`any_link`] does, without randomness and reordering.
pub fn any_certain_link() -> impl Strategy<Value = LinkConfig> {
    any_link().prop_map(|mut config| {
        (config.loss, config.jitter, config.reordering, config.duplicate) = (Loss::None, None, None, 0.0);
        config.drop_list.clear();
        config.timeline.retain(|step| !matches!(step.change, Change::Loss(_)));
        config
    })
}

/// Offers packets to a link and polls it exactly when due, before packets offered at the same time.
pub fn run(config: &LinkConfig, seed: u64, offers: &[Offer]) -> Vec<Outcome> {
    let mut link = Link::new("test", seed, config.clone()).expect("a right configuration");
    let mut outcomes = Vec::new();
    for (packet, &(now, bytes)) in (1..).zip(offers) {
        poll_due(&mut link, now, &mut outcomes);
        push(&mut link, now, packet, bytes, &mut outcomes);
    }
    poll_due(&mut link, Time(u64::MAX - 1), &mut outcomes);
    outcomes
}

pub fn push(link: &mut Link<u32>, now: Time, packet: u32, bytes: u32, outcomes: &mut Vec<Outcome>) {
    if let Pushed::Dropped(packet, reason) = link.push(now, packet, bytes) {
        outcomes.push(Outcome::Refused { packet, reason });
    }
}

/// Polls as the simulator does, at each event up to `until`.
pub fn poll_due(link: &mut Link<u32>, until: Time, outcomes: &mut Vec<Outcome>) {
    while link.next_event() <= until {
        let now = link.next_event();
        while let Some(polled) = link.poll(now) {
            let outcome = outcome(polled);
            if let Outcome::Arrived { at, .. } | Outcome::DroppedLater { at, .. } = outcome {
                assert_eq!(at, now, "came out late, though polled when due");
            }
            outcomes.push(outcome);
        }
        assert!(link.next_event() > now, "due again at once");
    }
}

pub fn outcome(polled: Polled<u32>) -> Outcome {
    match polled {
        Polled::Arrived(Arrival { at, packet, .. }) => Outcome::Arrived { packet, at },
        Polled::Dropped(dropped) => {
            Outcome::DroppedLater { packet: dropped.packet, at: dropped.at, reason: dropped.reason }
        }
    }
}

/// Returns only the arrivals: packet and time.
pub fn arrivals(outcomes: &[Outcome]) -> Vec<(u32, Time)> {
    outcomes
        .iter()
        .filter_map(|outcome| match *outcome {
            Outcome::Arrived { packet, at } => Some((packet, at)),
            _ => None,
        })
        .collect()
}
