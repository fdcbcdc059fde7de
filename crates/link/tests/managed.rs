//! Links with queue management, token buckets and cross traffic, against what is known about them.

#[allow(dead_code, reason = "the other tests use the rest")]
mod common;

use anabranch_link::{
    Aqm, Change, Codel, CrossTraffic, DropReason, Effect, FqCodel, Label, Link, LinkConfig, Polled, Pushed,
    QueueLimit, Red, Step, TokenBucket, WhenDown,
};
use anabranch_units::{Duration, Rate, Time};
use common::MS;
use proptest::prelude::*;

/// 10 Mbit/s, 10 ms of propagation, and a queue of 1000 packets.
fn link(change: impl Fn(&mut LinkConfig)) -> Link<u64> {
    let mut config = LinkConfig {
        capacity: Rate::from_mbps(10).into(),
        delay: Duration::from_millis(10),
        queue: QueueLimit::Packets(1000),
        ..LinkConfig::default()
    };
    change(&mut config);
    Link::new("a", 1, config).unwrap()
}

/// A packet of 1500 bytes and its time at 10 Mbit/s.
const FULL: u32 = 1500;
const SLOT: Duration = Duration::from_micros(1200);

fn flow(flow: u64) -> Label {
    Label { flow, ..Label::default() }
}

/// Offers a packet every `gap` until `until`, and polls whenever something is due. Packets are their send times.
fn constant_load(link: &mut Link<u64>, gap: Duration, until: Time) -> Vec<(u64, Polled<u64>)> {
    let (mut all, mut now) = (Vec::new(), Time::ZERO);
    while now < until {
        while link.next_event() <= now {
            let at = link.next_event();
            all.extend(std::iter::from_fn(|| link.poll(at)).map(|polled| (at.0, polled)));
        }
        let _ = link.push(now, now.0, FULL);
        now += gap;
    }
    all
}

/// One packet in flight per 1.2 ms is the capacity; a sender whose window halves at each drop and else grows by a packet
/// for each round trip has a standing queue with drop-tail, and with CoDel a short one (RFC 8289 section 3).
fn adaptive_sender(link: &mut Link<u64>, seconds: u64, ect: bool) -> (f64, f64, u64) {
    let (mut window, mut in_flight, mut delays, mut delivered) = (10.0_f64, 0_u64, Vec::new(), 0_u64);
    let mut recovery_until = Time::ZERO;
    let label = Label { ect, ..Label::default() };
    let back = Duration::from_millis(10);
    let mut acks: std::collections::VecDeque<(Time, bool)> = Default::default();
    let (mut now, mut signals) = (Time::ZERO, 0);
    while now < Time::from_secs(seconds) {
        while (in_flight as f64) < window.floor() {
            in_flight += 1;
            if let Pushed::Dropped(..) = link.push_as(now, now.0, FULL, label) {
                acks.push_back((now + back, true));
            }
        }
        now = link.next_event().min(acks.front().map_or(Time::NEVER, |ack| ack.0));
        while let Some(polled) = link.poll(now) {
            match polled {
                Polled::Arrived(arrival) => {
                    let queueing = arrival.at.since(Time(arrival.packet)).saturating_sub(back + SLOT);
                    if now > Time::from_secs(5) {
                        delays.push(queueing.as_millis_f64());
                        delivered += 1;
                    }
                    acks.push_back((now + back, arrival.effects.has(Effect::Marked)));
                }
                Polled::Dropped(_) => acks.push_back((now + back, true)),
            }
        }
        while acks.front().is_some_and(|ack| ack.0 <= now) {
            let (_, signal) = acks.pop_front().unwrap();
            in_flight -= 1;
            if signal && now > recovery_until {
                window = (window / 2.0).max(2.0);
                recovery_until = now + Duration::from_millis(40);
                signals += 1;
            } else {
                window += 1.0 / window;
            }
        }
    }
    let share = delivered as f64 * SLOT.as_secs_f64() / (seconds - 5) as f64;
    delays.sort_by(f64::total_cmp);
    (delays[delays.len() / 2], share, signals)
}

#[test]
fn codel_keeps_the_standing_queue_below_its_target_and_the_link_busy() {
    let (tail, used, _) = adaptive_sender(&mut link(|_| {}), 60, false);
    assert!(tail > 100.0 && used > 0.99, "drop-tail: {tail} ms, {used}");
    for ect in [false, true] {
        let mut codel = link(|config| config.aqm = Aqm::Codel(Codel::default()));
        let (median, used, signals) = adaptive_sender(&mut codel, 60, ect);
        assert!(median < 5.0 && used > 0.9 && signals > 20, "CoDel: {median} ms, {used}, {signals}");
        let counters = codel.counters();
        let (dropped, marked) = (counters.dropped_aqm.packets, counters.effect(Effect::Marked).packets);
        assert_eq!(ect, dropped == 0 && marked > 20, "{dropped} {marked}");
        assert_eq!(counters.dropped_queue.packets, 0);
    }
}

#[test]
fn red_keeps_the_average_between_its_thresholds() {
    let settings = Red { max_probability: 0.1, ..Red::default() };
    let mut red = link(|config| config.aqm = Aqm::Red(settings));
    let (median, used, _) = adaptive_sender(&mut red, 60, false);
    // 5 to 15 packets of 1.2 ms.
    assert!((3.0..18.0).contains(&median) && used > 0.9, "{median} ms, {used}");
    assert!(red.counters().dropped_aqm.packets > 20 && red.counters().dropped_queue.packets == 0);
}

/// The drops of CoDel under a load that ignores them: the n-th is due interval / sqrt(n) after the one before it, on a link
/// that dequeues every 1.2 ms.
#[test]
fn a_sender_that_ignores_drops_meets_the_control_law() {
    let mut codel = link(|config| {
        config.aqm = Aqm::Codel(Codel::default());
        config.queue = QueueLimit::Packets(100_000);
    });
    let all = constant_load(&mut codel, Duration::from_micros(1000), Time::from_secs(3));
    let drops: Vec<u64> =
        all.iter().filter(|(_, polled)| matches!(polled, Polled::Dropped(_))).map(|(at, _)| *at).collect();
    assert!(drops.len() > 100, "{}", drops.len());
    let mut due = drops[0];
    for (n, at) in (1_u32..).zip(&drops) {
        assert!(*at + MS / 10 >= due && *at <= due + SLOT.0 + MS / 10, "drop {n} at {at} and not {due}");
        due += (100e6 / f64::from(n).sqrt()) as u64;
    }
}

#[test]
fn a_sparse_flow_overtakes_a_bulk_flow_and_two_bulk_flows_share_equally() {
    let mut fq = link(|config| {
        config.aqm = Aqm::FqCodel(FqCodel::default());
        config.queue = QueueLimit::Packets(10_000);
    });
    let mut fifo = link(|config| config.queue = QueueLimit::Packets(10_000));
    for link in [&mut fq, &mut fifo] {
        // Flow 1 has 200 packets, flow 2 100 packets, flow 3 one short packet.
        for n in 0..200 {
            let _ = link.push_as(Time::ZERO, 1000 + n, FULL, flow(1));
        }
        for n in 0..100 {
            let _ = link.push_as(Time::ZERO, 2000 + n, FULL, flow(2));
        }
        let _ = link.push_as(Time::from_millis(6), 3000, 100, flow(3));
    }
    let arrivals = |link: &mut Link<u64>| -> Vec<(u64, Time)> {
        let end = Time::from_secs(2);
        let polled = std::iter::from_fn(|| link.poll(end));
        polled
            .filter_map(|polled| match polled {
                Polled::Arrived(arrival) => Some((arrival.packet, arrival.at)),
                Polled::Dropped(_) => None,
            })
            .collect()
    };
    let (fair, plain) = (arrivals(&mut fq), arrivals(&mut fifo));
    let at = |all: &[(u64, Time)], packet| all.iter().find(|one| one.0 == packet).unwrap().1;
    // After at most the packet in service.
    assert!(at(&fair, 3000) <= Time(18_400_000), "{:?}", at(&fair, 3000));
    assert!(at(&plain, 3000) > Time::from_millis(300));
    // While both have packets, neither is ahead by more than two of them.
    let (mut one, mut two) = (0_i64, 0_i64);
    for (packet, _) in &fair[..150] {
        one += i64::from(*packet / 1000 == 1);
        two += i64::from(*packet / 1000 == 2);
        assert!((one - two).abs() <= 2, "{one} {two}");
    }
    assert!(
        fair.iter().filter(|one| one.0 / 1000 == 1).map(|one| one.0).is_sorted(),
        "a flow keeps its order"
    );
}

/// Two flows that send by turns, each just after its queue has become empty, do not starve a bulk flow: an empty queue is
/// an old one before it may be a new one again (RFC 8290 section 4.2).
#[test]
fn flows_that_return_at_the_right_time_do_not_starve_others() {
    let mut fq = link(|config| {
        config.aqm = Aqm::FqCodel(FqCodel::default());
        config.queue = QueueLimit::Packets(10_000);
    });
    for n in 0..300 {
        let _ = fq.push_as(Time::ZERO, 1000 + n, FULL, flow(1));
    }
    let mut sent = [0; 2];
    for turn in 0..200 {
        // Before each departure there is a packet of a flow that was not the last.
        let now = Time::ZERO + Duration(SLOT.0 * turn + SLOT.0 / 2);
        while let Some(polled) = fq.poll(now) {
            let Polled::Arrived(arrival) = polled else { continue };
            sent[usize::from(arrival.packet < 1000)] += 1;
        }
        // Once the queue of the bulk flow is an old one.
        if turn > 5 {
            let _ = fq.push_as(now, 0, FULL, flow(2 + turn % 2));
        }
    }
    assert!(sent[0] > 50 && sent[1] > 50, "{sent:?}");
}

#[test]
fn a_full_fq_codel_drops_from_the_longest_queue() {
    let mut fq = link(|config| {
        config.aqm = Aqm::FqCodel(FqCodel::default());
        config.queue = QueueLimit::Packets(100);
    });
    for n in 0..100 {
        assert_eq!(fq.push_as(Time::ZERO, n, FULL, flow(1)), Pushed::Queued);
    }
    assert_eq!(fq.push_as(Time::ZERO, 5000, FULL, flow(2)), Pushed::Queued);
    let dropped: Vec<u64> = std::iter::from_fn(|| fq.poll(Time::ZERO))
        .map(|polled| match polled {
            Polled::Dropped(dropped) if dropped.reason == DropReason::Queue => dropped.packet,
            other => panic!("{other:?}"),
        })
        .collect();
    // Half of the 99 packets that wait, from the head; packet 0 is in service.
    assert_eq!(dropped, (1..50).collect::<Vec<u64>>());
    assert_eq!(fq.counters().dropped_queue.packets, 49);
}

#[test]
fn a_policed_flow_has_its_rate_and_its_burst() {
    let mut policed =
        link(|config| config.policer = Some(TokenBucket { rate: Rate::from_mbps(2), burst: 15_000 }));
    // 4 Mbit/s for 10 s.
    let all = constant_load(&mut policed, Duration::from_millis(3), Time::from_secs(10));
    let counters = policed.counters();
    let expected = (15_000.0 + 2e6 / 8.0 * 10.0) / 1500.0;
    let passed = (counters.offered.packets - counters.dropped_policer.packets) as f64;
    assert!((passed - expected).abs() <= 1.0, "{passed} {expected}");
    assert_eq!(counters.dropped().packets, counters.dropped_policer.packets);
    // It delays none: the link is never busy for longer than a packet.
    for (at, polled) in all {
        let Polled::Arrived(arrival) = polled else { panic!("{polled:?}") };
        assert_eq!(Time(at), Time(arrival.packet) + SLOT + Duration::from_millis(10));
    }
}

/// 100 packets at once over 10 Mbit/s, shaped to 2 Mbit/s with a burst of 20 packets.
#[test]
fn a_shaper_passes_the_burst_at_the_rate_of_the_link_and_the_rest_at_its_own() {
    let mut shaped =
        link(|config| config.shaper = Some(TokenBucket { rate: Rate::from_mbps(2), burst: 30_000 }));
    for n in 0..100 {
        assert_eq!(shaped.push(Time::ZERO, n, FULL), Pushed::Queued);
    }
    let mut arrivals = Vec::new();
    while let Some(at) = shaped.next_event().armed() {
        arrivals.extend(std::iter::from_fn(|| shaped.poll(at)).map(|_| at));
    }
    let base = Duration::from_millis(10);
    for (n, at) in (1..=100_u64).zip(&arrivals) {
        let fast = Time::ZERO + base + Duration(SLOT.0 * n);
        let slow = Time::ZERO + base + SLOT + Duration(6 * MS * n.saturating_sub(20));
        assert_eq!(*at, fast.max(slow), "packet {n}");
    }
}

/// The second packet needs 6 ms of tokens; at 2 ms the rate doubles, and from 3 to 4 ms the link is down.
#[test]
fn a_packet_that_waits_for_tokens_goes_on_waiting_when_the_link_changes() {
    let mut shaped = link(|config| {
        config.shaper = Some(TokenBucket { rate: Rate::from_mbps(2), burst: 1500 });
        config.when_down = WhenDown::Keep;
        let step = |at, change| Step { at: Time::from_millis(at), change };
        let (up, down) = (step(4, Change::Up), step(3, Change::Down));
        config.timeline = vec![step(2, Change::Rate(Rate::from_mbps(20))), down, up];
    });
    for n in 0..2 {
        assert_eq!(shaped.push(Time::ZERO, n, FULL), Pushed::Queued);
    }
    let mut arrivals = Vec::new();
    while let Some(at) = shaped.next_event().armed() {
        arrivals.extend(std::iter::from_fn(|| shaped.poll(at)).map(|_| at));
    }
    assert_eq!(arrivals, [Time(11_200_000), Time(16_600_000)]);
}

/// 60 % of the link for one second.
#[test]
fn cross_traffic_takes_its_part_during_its_interval() {
    let (from, until) = (Time::from_secs(1), Time::from_secs(2));
    let mut crossed = link(|config| {
        config.cross_traffic = vec![CrossTraffic { rate: Rate::from_mbps(6), packet: 1500, from, until }];
        config.queue = QueueLimit::Packets(5);
    });
    // Another period than that of the departures, so that every phase occurs.
    let all = constant_load(&mut crossed, Duration(1_187_003), Time::from_secs(3));
    let arrived = |from: u64, to: u64| {
        let within = |at: &u64| (from * MS..to * MS).contains(at);
        all.iter().filter(|(at, polled)| within(at) && matches!(polled, Polled::Arrived(_))).count() as f64
    };
    let of = |share: f64, span: f64| share * span / 1.2;
    assert!((arrived(100, 1000) - of(1.0, 900.0)).abs() < 2.0);
    // A full queue drops from both: what is offered is 1.6 times the rate.
    let own = arrived(1100, 2000) / of(1.0, 900.0);
    let counters = crossed.counters();
    let others = counters.cross.packets as f64 / of(1.0, 1000.0);
    assert!((own + others - 1.0).abs() < 0.02, "{own} {others}");
    assert!(others > 0.3 && own > 0.3, "{own} {others}");
    assert_eq!(counters.cross.packets + counters.cross_dropped.packets, 500);
    assert!((arrived(2100, 3000) - of(1.0, 900.0)).abs() < 2.0);
}

/// A setting that makes a link managed and has no effect.
fn without_effect() -> impl Strategy<Value = LinkConfig> {
    let patient =
        Codel { target: Duration::from_secs(80_000), interval: Duration::from_secs(80_000), ecn: true };
    let endless = TokenBucket { rate: Rate(1_000_000_000_000_000), burst: TokenBucket::MAX_BURST };
    let later =
        CrossTraffic { rate: Rate(1000), packet: 1500, from: Time::from_secs(9_000), until: Time::NEVER };
    prop_oneof![
        Just(LinkConfig { aqm: Aqm::Codel(patient), ..LinkConfig::default() }),
        Just(LinkConfig { shaper: Some(endless), ..LinkConfig::default() }),
        Just(LinkConfig { policer: Some(endless), ..LinkConfig::default() }),
        Just(LinkConfig { cross_traffic: vec![later], ..LinkConfig::default() }),
        Just(LinkConfig {
            aqm: Aqm::Red(Red {
                min: QueueLimit::Packets(500),
                max: QueueLimit::Packets(600),
                ..Red::default()
            }),
            ..LinkConfig::default()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn settings_without_effect_change_nothing(
        config in common::any_link(),
        setting in without_effect(),
        offers in common::offers(60, MS, 3000),
    ) {
        let LinkConfig { aqm, shaper, policer, cross_traffic, .. } = setting;
        let managed = LinkConfig { aqm, shaper, policer, cross_traffic, ..config.clone() };
        prop_assert_eq!(common::run(&config, 1, &offers), common::run(&managed, 1, &offers));
    }

    /// All arrivals have passed the bucket: in any span, the burst and the rate (and one packet, whose length may exceed
    /// the burst).
    #[test]
    fn a_token_bucket_bounds_every_span(
        config in common::managed_link(),
        offers in common::offers(60, MS, 3000),
        rate in common::rate(),
        burst in 3000..9000_u64,
        shaped in any::<bool>(),
    ) {
        let bucket = TokenBucket { rate, burst };
        let mut config = LinkConfig { policer: None, shaper: None, jitter: None, reordering: None, duplicate: 0.0, ..config };
        *(if shaped { &mut config.shaper } else { &mut config.policer }) = Some(bucket);
        config.aqm = Aqm::DropTail;
        let arrivals = common::arrivals(&common::run(&config, 1, &offers));
        let size = |packet: u32| u64::from(offers[packet as usize - 1].1);
        for (first, &(_, from)) in arrivals.iter().enumerate() {
            let mut sum = 0;
            for &(packet, at) in &arrivals[first..] {
                sum += size(packet);
                // A packet begins its transmission at most its own time before it arrives; the rate of a link is at
                // least 1 Mbit/s, of a trace 12 kB in 20 ms.
                let slack = Duration::from_millis(30);
                prop_assert!(sum <= bucket.most_in(at.since(from) + slack) + 3000);
            }
        }
    }
}
