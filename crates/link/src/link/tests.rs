//! Tests of each rule of a link. The properties of arbitrary links are in `tests/`.

use std::sync::Arc;

use anabranch_units::{Duration, Rate, Time};

use super::*;
use crate::{Capacity, Change, Effects, Jitter, JitterShape, Loss, QueueLimit, Reordering, Step, Trace};

/// 1 byte a microsecond, 100 us of propagation.
fn slow() -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Rate(Rate::from_mbps(8)),
        delay: us(100),
        queue: QueueLimit::Packets(100),
        ..LinkConfig::default()
    }
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn at(n: u64) -> Time {
    Time::ZERO + us(n)
}

fn step(n: u64, change: Change) -> Step {
    Step { at: at(n), change }
}

fn link(config: LinkConfig) -> Link<u32> {
    Link::new("a", 1, config).unwrap()
}

/// Returns all arrivals, as packet and microsecond, polled exactly when due.
fn arrivals(link: &mut Link<u32>) -> Vec<(u32, u64)> {
    outputs(link)
        .into_iter()
        .filter_map(|polled| match polled {
            Polled::Arrived(arrival) => Some((arrival.packet, arrival.at.as_micros())),
            Polled::Dropped(_) => None,
        })
        .collect()
}

fn outputs(link: &mut Link<u32>) -> Vec<Polled<u32>> {
    let mut all = Vec::new();
    while let Some(now) = link.next_event().armed() {
        while let Some(polled) = link.poll(now) {
            all.push(polled);
        }
        assert_ne!(link.next_event(), now, "due again at once, but nothing came out");
    }
    all
}

fn push_all(link: &mut Link<u32>, now: Time, sizes: &[u32]) {
    for (n, &size) in (1..).zip(sizes) {
        assert_eq!(link.push(now, n, size), Pushed::Queued);
    }
}

#[test]
fn packets_are_sent_one_after_the_other_and_then_propagate() {
    let mut link = link(slow());
    push_all(&mut link, at(0), &[10, 20, 5]);
    assert_eq!(arrivals(&mut link), [(1, 110), (2, 130), (3, 135)]);
    // After an idle time the next packet starts when it is offered.
    push_all(&mut link, at(500), &[10]);
    assert_eq!(arrivals(&mut link), [(1, 610)]);
}

#[test]
fn a_poll_before_anything_is_due_returns_nothing_and_changes_nothing() {
    let mut link = link(slow());
    push_all(&mut link, at(0), &[10]);
    assert_eq!(link.poll(at(109)), None);
    assert_eq!(link.next_event(), at(110));
    assert!(link.poll(at(110)).is_some());
    assert_eq!((link.poll(at(110)), link.next_event()), (None, Time::NEVER));
}

#[test]
fn a_packet_longer_than_the_mtu_is_dropped_and_reported_if_that_is_wanted() {
    for reports_mtu in [true, false] {
        let mut link = link(LinkConfig { mtu: Some(20), reports_mtu, ..slow() });
        assert_eq!(link.push(at(0), 1, 21), Pushed::Dropped(1, DropReason::TooLarge));
        assert_eq!(link.push(at(0), 2, 20), Pushed::Queued);
        assert_eq!(link.reported_mtu(), reports_mtu.then_some(20));
        assert_eq!(link.counters().dropped_too_large.packets, 1);
        assert_eq!(link.counters().dropped().bytes, 21);
        assert_eq!(arrivals(&mut link), [(2, 120)]);
    }
    assert_eq!(link(slow()).reported_mtu(), None);
}

#[test]
fn the_queue_counts_the_packet_in_service_until_its_last_bit_has_left() {
    let mut link = link(LinkConfig { queue: QueueLimit::Bytes(20), ..slow() });
    push_all(&mut link, at(0), &[10, 10]);
    assert_eq!(link.push(Time(9_999), 3, 10), Pushed::Dropped(3, DropReason::Queue));
    assert_eq!(link.queue_bytes(Time(9_999)), 20);
    assert_eq!(link.push(at(10), 4, 10), Pushed::Queued);
    assert_eq!((link.queue_bytes(at(10)), link.queue_packets(at(10))), (20, 2));
    assert_eq!(link.queue_bytes(at(30)), 0);
    assert_eq!(link.counters().max_queue, crate::Tally { packets: 2, bytes: 20 });
    assert_eq!(link.busy_time(at(25)), us(25));
    assert_eq!(link.busy_time(at(99)), us(30));
}

#[test]
fn the_drop_list_counts_packets_offered_from_one() {
    let config = LinkConfig { drop_list: vec![4, 2], queue: QueueLimit::Packets(1), ..slow() };
    let mut link = link(config);
    assert_eq!(link.push(at(0), 1, 10), Pushed::Queued);
    assert_eq!(link.push(at(0), 2, 10), Pushed::Dropped(2, DropReason::Loss(LossCause::Listed)));
    assert_eq!(link.push(at(0), 3, 10), Pushed::Dropped(3, DropReason::Queue));
    assert_eq!(link.push(at(10), 4, 10), Pushed::Dropped(4, DropReason::Loss(LossCause::Listed)));
    assert_eq!(link.push(at(10), 5, 10), Pushed::Queued);
    assert_eq!(link.counters().dropped_listed.packets, 2);
}

#[test]
fn a_higher_rate_speeds_up_the_rest_of_the_packet_in_service_and_those_behind() {
    let timeline = vec![step(5, Change::Rate(Rate::from_mbps(16)))];
    let mut link = link(LinkConfig { timeline, ..slow() });
    push_all(&mut link, at(0), &[15, 10]);
    // 5 bytes in 5 us, then 10 in 5, then 10 in 5.
    assert_eq!(arrivals(&mut link), [(1, 110), (2, 115)]);
}

#[test]
fn a_shorter_delay_does_not_let_packets_overtake() {
    let timeline = vec![step(10, Change::Delay(us(20)))];
    let mut link = link(LinkConfig { timeline, ..slow() });
    push_all(&mut link, at(0), &[10, 10, 90]);
    // The first departs at the very instant of the step, and so before it. The second would arrive at 40.
    assert_eq!(arrivals(&mut link), [(1, 110), (2, 110), (3, 130)]);
}

#[test]
fn down_drops_what_is_offered_and_what_waits_and_spares_what_propagates() {
    let timeline = vec![step(15, Change::Down), step(50, Change::Up)];
    let mut link = link(LinkConfig { timeline, ..slow() });
    push_all(&mut link, at(0), &[10, 10, 10]);
    assert_eq!(link.next_event(), at(15));
    assert_eq!(link.push(at(49), 4, 10), Pushed::Dropped(4, DropReason::Down));
    assert!(!link.is_up(at(49)));
    assert_eq!(link.push(at(50), 5, 10), Pushed::Queued);
    let dropped =
        |packet| Polled::Dropped(Dropped { at: at(15), reason: DropReason::Down, wire_bytes: 10, packet });
    let arrived = |packet, micros| {
        let departed = at(micros - 100);
        Polled::Arrived(Arrival { at: at(micros), departed, wire_bytes: 10, effects: Effects::NONE, packet })
    };
    assert_eq!(outputs(&mut link), [dropped(2), dropped(3), arrived(1, 110), arrived(5, 160)]);
    assert_eq!(link.counters().dropped_down.packets, 3);
    assert_eq!(link.busy_time(at(200)), us(25));
}

#[test]
fn a_kept_queue_goes_on_where_it_stopped() {
    let timeline = vec![
        step(15, Change::Down),
        step(20, Change::Rate(Rate::from_mbps(16))),
        step(30, Change::Down),
        step(50, Change::Up),
        step(60, Change::Up),
    ];
    let mut link = link(LinkConfig { timeline, when_down: WhenDown::Keep, ..slow() });
    push_all(&mut link, at(0), &[10, 11, 10]);
    assert_eq!(link.queue_bytes(at(40)), 21);
    assert_eq!(link.push(at(40), 9, 10), Pushed::Dropped(9, DropReason::Down));
    // 5 of the second packet's 11 bytes had left.
    assert_eq!(arrivals(&mut link), [(1, 110), (2, 153), (3, 158)]);
    assert_eq!(link.busy_time(at(200)), us(23));
}

#[test]
fn a_link_that_stays_down_is_never_due() {
    let timeline = vec![step(15, Change::Down)];
    let mut link = link(LinkConfig { timeline, when_down: WhenDown::Keep, ..slow() });
    push_all(&mut link, at(0), &[10, 11, 10]);
    assert_eq!(arrivals(&mut link), [(1, 110)]);
    assert_eq!((link.next_event(), link.inside()), (Time::NEVER, 2));
}

#[test]
fn a_link_may_begin_down() {
    let timeline = vec![step(0, Change::Down), step(10, Change::Up)];
    let mut link = link(LinkConfig { timeline, ..slow() });
    assert_eq!(link.push(at(0), 1, 10), Pushed::Dropped(1, DropReason::Down));
    assert_eq!(link.push(at(10), 1, 10), Pushed::Queued);
}

#[test]
fn from_rate_to_trace_and_back_the_exact_rest_is_served() {
    let trace = Arc::new(Trace::from_millis(vec![1]).unwrap());
    let timeline = vec![
        step(1000, Change::Trace { trace, start: Duration::ZERO }),
        step(3500, Change::Rate(Rate::from_mbps(8))),
    ];
    let mut link = link(LinkConfig { timeline, ..slow() });
    push_all(&mut link, at(0), &[3000, 1500, 500]);
    // 1000 bytes at the rate; at 2 ms 1500, at 3 ms the last 500 and 1000 of the next; the rest at the rate.
    assert_eq!(arrivals(&mut link), [(1, 3100), (2, 4100), (3, 4600)]);
}

#[test]
fn apply_does_what_a_step_does() {
    let change = Change::Rate(Rate::from_mbps(16));
    let mut planned = link(LinkConfig { timeline: vec![step(5, change.clone())], ..slow() });
    let mut applied = link(slow());
    push_all(&mut planned, at(0), &[15, 10]);
    push_all(&mut applied, at(0), &[15, 10]);
    applied.apply(at(5), &change).unwrap();
    assert_eq!(arrivals(&mut planned), arrivals(&mut applied));
    assert!(applied.apply(at(200), &Change::Rate(Rate(0))).is_err());
    applied.apply(at(200), &Change::Loss(Loss::Bernoulli(1.0))).unwrap();
    assert!(matches!(applied.push(at(200), 1, 1), Pushed::Dropped(1, DropReason::Loss(LossCause::Random))));
}

#[test]
fn one_held_back_is_overtaken_and_holds_back_nobody() {
    let reordering = Some(Reordering { probability: 0.3, extra: us(25) });
    let mut link = link(LinkConfig { reordering, ..slow() });
    push_all(&mut link, at(0), &[10; 50]);
    let late = |packet: u32, micros: u64| micros - (100 + 10 * u64::from(packet));
    let all = arrivals(&mut link);
    assert!(all.iter().all(|&(packet, micros)| [0, 25].contains(&late(packet, micros))));
    assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    let held_back = all.iter().filter(|&&(packet, micros)| late(packet, micros) == 25).count();
    assert_eq!((all.len(), held_back as u64), (50, link.counters().reordered.packets));
    assert!((5..25).contains(&held_back), "{held_back}");
}

#[test]
fn jitter_reorders_only_when_asked() {
    for reorder in [false, true] {
        let jitter = Some(Jitter { shape: JitterShape::Uniform { max: us(50) }, reorder });
        let mut link = link(LinkConfig { jitter, ..slow() });
        push_all(&mut link, at(0), &[10; 50]);
        let all = arrivals(&mut link);
        assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        assert_eq!(all.windows(2).any(|pair| pair[0].0 > pair[1].0), reorder);
    }
}

#[test]
fn a_copy_follows_its_original_through_the_queue() {
    let mut link = link(LinkConfig { duplicate: 1.0, queue: QueueLimit::Packets(3), ..slow() });
    push_all(&mut link, at(0), &[10, 10]);
    // There was no space for the copy of the second.
    assert_eq!(arrivals(&mut link), [(1, 110), (1, 120), (2, 130)]);
    assert_eq!(link.counters().duplicated.packets, 1);
}

#[test]
fn an_empty_or_enormous_packet_does_no_harm() {
    let mut link = link(LinkConfig { queue: QueueLimit::Unlimited, ..slow() });
    push_all(&mut link, at(0), &[0, u32::MAX, u32::MAX, 0]);
    assert_eq!(arrivals(&mut link)[0], (1, 100));
    assert_eq!(link.counters().delivered.packets, 4);
}

#[test]
fn a_link_can_be_cloned_and_sent() {
    fn check<T: Clone + Send + Sync>() {}
    check::<Link<u32>>();
    check::<Link<Vec<u8>>>();
}

#[test]
fn packets_that_find_the_threshold_in_the_queue_are_marked_and_delivered() {
    let config = LinkConfig {
        capacity: Capacity::Rate(Rate::from_mbps(8)),
        queue: QueueLimit::Packets(5),
        ecn_threshold: Some(QueueLimit::Packets(2)),
        ..LinkConfig::default()
    };
    let mut link = Link::new("a", 1, config).unwrap();
    let mut marks = Vec::new();
    for packet in 0..6 {
        let _ = link.push(Time::ZERO, packet, 1000);
    }
    // At 3 ms three have departed, so that the seventh finds two.
    let _ = link.push(Time::from_millis(3), 6, 1000);
    while let Some(polled) = link.poll(Time::from_secs(1)) {
        let Polled::Arrived(arrival) = polled else { panic!("nothing is dropped inside") };
        marks.push((arrival.packet, arrival.effects.has(Effect::Marked)));
    }
    // The first two find fewer than two; the sixth found the queue full.
    let expected = [(0, false), (1, false), (2, true), (3, true), (4, true), (6, true)];
    assert_eq!(marks, expected);
    assert_eq!(
        (link.counters().effect(Effect::Marked).packets, link.counters().dropped_queue.packets),
        (4, 1)
    );
}

#[test]
fn a_deep_link_shows_what_comes_out_behind_others_and_no_other_link_does() {
    let mut link = link(LinkConfig { queue: QueueLimit::Unlimited, ..slow() });
    let mut offered = 0..;
    let mut fill = |link: &mut Link<u32>, now: Time| {
        while link.inside() < 2 * DEEP {
            assert_eq!(link.push(now, offered.next().unwrap(), 10), Pushed::Queued);
        }
    };
    fill(&mut link, at(0));
    // Three times around the ring buffer that holds them.
    for next in 0..10 * DEEP as u32 {
        let now = link.next_event();
        assert!(matches!(link.poll(now), Some(Polled::Arrived(arrival)) if arrival.packet == next));
        for before in [0, 1, 100] {
            let expected = next + 1 + before as u32;
            assert_eq!(link.peek_deep(before), (link.inside() >= DEEP).then_some(&expected));
        }
        if link.inside() < DEEP / 2 {
            fill(&mut link, now);
        }
    }
    assert_eq!(link.peek_deep(10 * DEEP), None);
}

// After its last step a link is easy again, and keeps the order nevertheless.
#[test]
fn after_the_delay_has_fallen_nothing_overtakes() {
    let timeline = vec![step(10, Change::Delay(us(20)))];
    let mut link = link(LinkConfig { timeline, ..slow() });
    assert_eq!(link.push(at(0), 1, 4), Pushed::Queued);
    link.advance(at(15));
    assert!(link.is_easy());
    assert_eq!(link.push(at(20), 2, 4), Pushed::Queued);
    assert_eq!(link.push(at(200), 3, 4), Pushed::Queued);
    assert_eq!(arrivals(&mut link), [(1, 104), (2, 104), (3, 224)]);
}

// A link counts its packets by kind before it draws anything.
#[test]
fn loss_that_begins_later_drops_the_same_packets_of_either_kind() {
    let loss = Loss::Bernoulli(0.3);
    let config = LinkConfig { loss_draws: LossDraws::Separate, ..slow() };
    let mut always = link(LinkConfig { loss, ..config.clone() });
    let mut later = link(config);
    assert!(later.is_easy());
    let mut dropped = [0, 0];
    for number in 0..600_u64 {
        let (now, data) = (at(1000 * number), number % 3 > 0);
        for link in [&mut always, &mut later] {
            link.advance(now);
            while link.poll(now).is_some() {}
        }
        if number == 250 {
            later.apply(now, &Change::Loss(loss)).unwrap();
        }
        let pushed = [&mut always, &mut later]
            .map(|link| link.push_as(now, 0, 10, Label { data, ..Label::default() }));
        if number >= 250 {
            assert_eq!(pushed[0], pushed[1], "{number}");
            dropped[usize::from(data)] += u32::from(pushed[0] != Pushed::Queued);
        }
    }
    assert!(dropped.iter().all(|&count| count > 10), "{dropped:?}");
}

#[test]
fn a_lost_packet_is_repeated_and_the_ones_after_it_wait() {
    for loss in
        [LinkConfig { drop_list: vec![2], ..slow() }, LinkConfig { loss: Loss::Bernoulli(1.0), ..slow() }]
    {
        let is_listed = !loss.drop_list.is_empty();
        let mut link = link(LinkConfig { repeat_after: Some(us(5000)), ..loss });
        push_all(&mut link, at(0), &[1000, 1000, 1000]);
        // They depart at 1000, 2000 and 3000 us.
        match is_listed {
            true => assert_eq!(arrivals(&mut link), [(1, 1100), (2, 7100), (3, 7100)]),
            false => assert_eq!(arrivals(&mut link), [(1, 6100), (2, 7100), (3, 8100)]),
        }
        assert_eq!(link.counters().delivered.packets, 3);
        assert_eq!(link.push(at(9000), 4, 1000), Pushed::Queued);
        assert_eq!(arrivals(&mut link), [(4, if is_listed { 10_100 } else { 15_100 })]);
    }
    // A full queue drops as on any link.
    let config = LinkConfig { queue: QueueLimit::Packets(1), repeat_after: Some(us(5000)), ..slow() };
    let mut link = link(config);
    let pushed: Vec<bool> = (1..4).map(|n| link.push(at(0), n, 1000) == Pushed::Queued).collect();
    assert!(pushed.contains(&false), "{pushed:?}");
}
