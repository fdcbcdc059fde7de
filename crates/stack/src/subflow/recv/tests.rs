//! Tests of the receiving half.

use super::*;
use crate::config::ConnectionConfig;

const BUFFER: ReceiveBuffer = ReceiveBuffer::Fixed(anabranch_units::Bytes(60_000));

fn receiver() -> Receiver {
    let mut config = ConnectionConfig::linux().ack;
    config.quick = 0;
    Receiver::new(Seq(u32::MAX), config, BUFFER)
}

fn arrive(receiver: &mut Receiver, start: u64, end: u64) -> Vec<DataRange> {
    let mut fresh = Vec::new();
    receiver.arrive(Time::ZERO, DataRange::new(start, end), false, true, |part| fresh.push(part));
    fresh
}

#[test]
fn the_length_of_a_full_segment_follows_the_peer() {
    let mut receiver =
        Receiver::new(Seq(0), AckConfig { quick: 0, growth: false, ..ConnectionConfig::linux().ack }, BUFFER);
    assert!(!receiver.measure(Time::ZERO, 100, 1400));
    assert!(!receiver.measure(Time::ZERO, 100, 1400), "so little is no full segment, however often");
    assert!(receiver.measure(Time::ZERO, 1400, 1400));
    assert!(!receiver.measure(Time::ZERO, 1220, 1400), "the end of something, it seems");
    assert!(receiver.measure(Time::ZERO, 1220, 1400), "the path has become narrower");
    assert!(receiver.measure(Time::ZERO, 1220, 1400));
    assert!(!receiver.measure(Time::ZERO, 180, 1400));
    assert!(receiver.measure(Time::ZERO, 1400, 1400));
    assert_eq!(receiver.due, AckDue::Nothing);
    assert!(receiver.measure(Time::ZERO, 2800, 1400));
    assert_eq!(receiver.due, AckDue::Now, "two in one");
    assert!(
        receiver.measure(Time::ZERO, 1400, 1400),
        "joined segments do not change the length of a full one"
    );
}

#[test]
fn every_second_segment_is_acknowledged_and_a_lone_one_late() {
    let mut receiver = receiver();
    arrive(&mut receiver, 1, 101);
    assert_eq!(receiver.due, AckDue::Later);
    assert_eq!(receiver.ack_at(), Time::from_millis(40));
    arrive(&mut receiver, 101, 201);
    assert_eq!(receiver.due, AckDue::Now);
    receiver.on_ack_sent();
    arrive(&mut receiver, 201, 301);
    receiver.on_timer(Time::from_millis(39));
    assert_eq!(receiver.due, AckDue::Later);
    receiver.on_timer(Time::from_millis(40));
    assert_eq!(receiver.due, AckDue::Now);
    assert_eq!(receiver.ack(), Seq(300));
}

fn linux() -> Receiver {
    let ack = AckConfig { quick: 0, ..ConnectionConfig::linux().ack };
    Receiver::new(Seq(0), ack, ReceiveBuffer::Fixed(anabranch_units::Bytes(70_000)))
}

fn due_after(receiver: &mut Receiver, now: Time) -> AckDue {
    let full_sized = receiver.measure(now, 1448, 1448);
    receiver.take_expected(now, 1448, full_sized);
    let due = receiver.due;
    if due == AckDue::Now {
        receiver.on_ack_sent();
    }
    due
}

#[test]
fn segments_that_raise_the_offered_window_are_acknowledged_at_once() {
    let mut receiver = linux();
    let dues: Vec<AckDue> = (0..6).map(|_| due_after(&mut receiver, Time::ZERO)).collect();
    // 64,240 + 2 x 2896 exceeds 70,000.
    assert_eq!(dues, [AckDue::Now, AckDue::Now, AckDue::Later, AckDue::Now, AckDue::Later, AckDue::Now]);
    receiver.growth.widen(100_000, 1 << 20);
    assert!((0..50).all(|_| due_after(&mut receiver, Time::ZERO) == AckDue::Now));
}

#[test]
fn segments_after_a_silence_and_after_a_needless_copy_are_acknowledged_at_once() {
    let mut receiver = linux();
    receiver.config.quick = 3;
    while due_after(&mut receiver, Time::ZERO) == AckDue::Now {}
    due_after(&mut receiver, Time::ZERO);
    let dues = |receiver: &mut Receiver, now| [0; 4].map(|_| due_after(receiver, now) == AckDue::Now);
    assert_eq!(dues(&mut receiver, Time::from_millis(200)), [false, true, false, true]);
    assert_eq!(dues(&mut receiver, Time::from_millis(401)), [true, true, true, false]);
    receiver.on_ack_sent();
    receiver.arrive(Time::from_millis(401), DataRange::new(1, 100), false, false, |_| ());
    receiver.on_ack_sent();
    assert_eq!(dues(&mut receiver, Time::from_millis(401)), [true, true, true, false]);
}

#[test]
fn a_short_segment_is_acknowledged_once_the_application_has_read_everything() {
    for (drain, len) in [(false, 700), (true, 700), (true, 1448)] {
        let mut receiver = linux();
        receiver.config.drain = drain;
        while due_after(&mut receiver, Time::ZERO) == AckDue::Now {
            receiver.on_ack_sent();
        }
        receiver.on_ack_sent();
        let full = receiver.measure(Time::ZERO, len, 1448);
        let nxt = receiver.nxt();
        receiver.arrive(Time::ZERO, DataRange::new(nxt, nxt + u64::from(len)), false, full, |_| ());
        assert_eq!(receiver.due, AckDue::Later);
        receiver.on_drained();
        assert_eq!(receiver.due == AckDue::Now, drain && len < 1448, "{drain} {len}");
        receiver.note_push();
        receiver.on_drained();
        assert_eq!(receiver.due == AckDue::Now, drain, "{drain} {len}, with PSH");
    }
}

#[test]
fn the_end_of_a_burst_is_acknowledged_at_once() {
    for push in [false, true] {
        let mut receiver = linux();
        receiver.config.push = push;
        while due_after(&mut receiver, Time::ZERO) == AckDue::Now {}
        assert_eq!(receiver.due, AckDue::Later);
        receiver.on_pushed();
        assert_eq!(receiver.due == AckDue::Now, push);
    }
}

#[test]
fn holes_are_reported_with_the_latest_arrival_first() {
    let mut receiver = receiver();
    arrive(&mut receiver, 301, 401);
    arrive(&mut receiver, 701, 801);
    arrive(&mut receiver, 501, 601);
    let origin = Seq(u32::MAX);
    let block = |start, end| (origin.add(start), origin.add(end));
    assert_eq!(receiver.blocks(3).as_slice(), [block(501, 601), block(701, 801), block(301, 401)]);
    assert_eq!(receiver.blocks(1).as_slice(), [block(501, 601)]);
    assert_eq!(arrive(&mut receiver, 1, 351), [DataRange::new(1, 301)]);
    assert_eq!(receiver.due, AckDue::Now);
    assert_eq!(receiver.nxt(), 401);
}

#[test]
fn the_total_counts_received_data_in_order_or_not() {
    let mut receiver = receiver();
    arrive(&mut receiver, 1, 101);
    arrive(&mut receiver, 201, 301);
    assert_eq!(receiver.total(), 101 + 100);
}

#[test]
fn a_duplicate_is_reported_once_and_first() {
    let mut receiver = receiver();
    arrive(&mut receiver, 1, 201);
    arrive(&mut receiver, 301, 401);
    assert!(arrive(&mut receiver, 1, 101).is_empty());
    let origin = Seq(u32::MAX);
    let block = |start, end| (origin.add(start), origin.add(end));
    assert_eq!(receiver.blocks(2).as_slice(), [block(1, 101), block(301, 401)]);
    assert_eq!(receiver.blocks(2).as_slice(), [block(301, 401)]);
}

#[test]
fn the_fin_takes_one_number_after_the_data() {
    let mut receiver = receiver();
    receiver.arrive(Time::ZERO, DataRange::new(101, 201), true, true, |_| ());
    assert!(!receiver.finished());
    arrive(&mut receiver, 1, 101);
    assert!(receiver.finished());
    assert_eq!(receiver.nxt(), 202);
    // Data after the FIN is ignored.
    assert!(arrive(&mut receiver, 201, 301).is_empty());
    assert_eq!(receiver.nxt(), 202);
}

fn block(start: u64, end: u64) -> (Seq, Seq) {
    (Seq(u32::MAX).add(start), Seq(u32::MAX).add(end))
}

#[test]
fn data_is_fresh_once_and_duplicates_are_reported() {
    let mut random = 7_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..300 {
        let mut receiver = receiver();
        let mut here = [false; 400];
        here[0] = true;
        for _ in 0..25 {
            let start = 1 + draw(150);
            let end = start + 1 + draw(40);
            let before = receiver.nxt();
            let mut fresh = Vec::new();
            let range = DataRange::new(start, end);
            let arrival = receiver.arrive(Time::ZERO, range, false, true, |part| fresh.push(part));
            assert!(fresh.iter().all(|part| !part.is_empty()), "{fresh:?}");
            let none = fresh.is_empty();
            for part in fresh {
                for octet in part.start..part.end {
                    assert!(range.start <= octet && octet < range.end);
                    assert!(!core::mem::replace(&mut here[octet as usize], true));
                }
            }
            assert!((start..end).all(|octet| here[octet as usize]));
            let nxt = here.iter().position(|here| !here).unwrap() as u64;
            assert_eq!(receiver.nxt(), nxt);
            assert_eq!(arrival, Arrival { advanced: nxt > before, duplicate: none });
            let holes = receiver.out_of_order.as_slice().to_vec();
            let held: u64 = holes.iter().map(|range| range.len()).sum();
            assert_eq!(held + nxt, here.iter().filter(|here| **here).count() as u64);
            let duplicate = if end <= before || (none && start > before) {
                Some(block(start, end))
            } else {
                (start < before).then(|| block(start, before))
            };
            assert_eq!(receiver.has_blocks(), duplicate.is_some() || held > 0);
            assert_eq!(receiver.has_several_holes(), duplicate.is_none() && holes.len() > 1);
            let said = receiver.blocks(4);
            assert_eq!(said.as_slice().len(), 4.min(usize::from(duplicate.is_some()) + holes.len()));
            if let Some(duplicate) = duplicate {
                assert_eq!(said.as_slice()[0], duplicate);
            }
            receiver.on_ack_sent();
            assert_eq!((receiver.due, receiver.ack_at()), (AckDue::Nothing, Time::NEVER));
            assert_eq!(receiver.last_ack_sent(), nxt);
        }
    }
}

#[test]
fn expected_data_is_received_like_any_arrival() {
    let mut taken = [0; 3];
    let mut random = anabranch_units::RandomStream::new(1, "expected");
    let mut receiver = receiver();
    for step in 0..2000 {
        let now = Time::from_millis(step);
        let other = (receiver.nxt() + random.below(8) * 50).saturating_sub(50);
        let start = if random.chance(0.7) { receiver.nxt() } else { other };
        let range = DataRange::new(start, start + 50);
        let full_sized = random.chance(0.8);
        let expected = (receiver.is_complete() && start == receiver.nxt()).then(|| {
            let mut quick = receiver.clone();
            quick.take_expected(now, 50, full_sized);
            quick
        });
        let reports_duplicate = !receiver.dsack.is_empty();
        receiver.arrive(now, range, false, full_sized, |_| ());
        if let Some(quick) = expected {
            assert_eq!(format!("{quick:?}"), format!("{receiver:?}"));
            taken[if reports_duplicate { 2 } else { usize::from(full_sized) }] += 1;
        }
        if random.chance(0.5) {
            receiver.on_ack_sent();
        }
    }
    assert!(taken.iter().all(|&times| times >= 10), "{taken:?}");
    receiver.arrive(Time::ZERO, DataRange::new(1_000_000, 1_000_050), true, true, |_| ());
    assert!(!receiver.is_complete());
}

#[test]
fn older_blocks_follow_from_the_top() {
    let mut receiver = receiver();
    for start in [900, 100, 300, 500, 700] {
        arrive(&mut receiver, start, start + 50);
    }
    let recent = [block(700, 750), block(500, 550), block(300, 350), block(100, 150)];
    assert_eq!(receiver.blocks(9).as_slice(), recent);
    assert!(receiver.blocks(0).as_slice().is_empty());
    // Three of the four are one block now: the oldest is reported again.
    arrive(&mut receiver, 350, 500);
    arrive(&mut receiver, 550, 700);
    let told = [block(300, 750), block(900, 950), block(100, 150)];
    assert_eq!(receiver.blocks(4).as_slice(), told);
    assert_eq!(receiver.blocks(2).as_slice(), &told[..2]);
}

#[test]
fn holes_their_filling_and_overlaps_are_acknowledged_at_once() {
    let mut receiver = receiver();
    arrive(&mut receiver, 101, 201);
    assert_eq!(receiver.due, AckDue::Now);
    receiver.on_ack_sent();
    arrive(&mut receiver, 1, 51);
    assert_eq!(receiver.due, AckDue::Now);
    receiver.on_ack_sent();
    arrive(&mut receiver, 51, 101);
    receiver.on_ack_sent();
    arrive(&mut receiver, 201, 301);
    assert_eq!(receiver.due, AckDue::Later);
    receiver.on_ack_sent();
    arrive(&mut receiver, 251, 351);
    assert_eq!(receiver.due, AckDue::Now);
    receiver.on_ack_sent();
    receiver.want_ack();
    assert_eq!((receiver.due, receiver.ack_at()), (AckDue::Now, Time::NEVER));
}

#[test]
fn small_segments_wait_for_the_timer_and_the_first_ones_do_not() {
    let mut small = receiver();
    for start in 0..5_u64 {
        let range = DataRange::new(1 + start * 10, 11 + start * 10);
        small.arrive(Time::from_millis(start), range, false, false, |_| ());
    }
    assert_eq!((small.due, small.ack_at()), (AckDue::Later, Time::from_millis(40)));
    let mut config = ConnectionConfig::linux().ack;
    config.quick = 2;
    let mut quick = Receiver::new(Seq(u32::MAX), config, BUFFER);
    for due in [AckDue::Now, AckDue::Now, AckDue::Later] {
        let next = quick.nxt();
        arrive(&mut quick, next, next + 10);
        assert_eq!(quick.due, due);
        quick.on_ack_sent();
    }
    config.quick = 0;
    config.every = 1;
    let mut each = Receiver::new(Seq(u32::MAX), config, BUFFER);
    each.arrive(Time::ZERO, DataRange::new(1, 11), false, false, |_| ());
    assert_eq!(each.due, AckDue::Now);
}

#[test]
fn a_fin_is_acknowledged_at_once_and_again() {
    let mut receiver = receiver();
    arrive(&mut receiver, 1, 101);
    receiver.on_ack_sent();
    let fin = DataRange::new(101, 101);
    assert_eq!(
        receiver.arrive(Time::ZERO, fin, true, false, |_| panic!("no payload")),
        Arrival { advanced: true, duplicate: false }
    );
    assert_eq!((receiver.due, receiver.nxt()), (AckDue::Now, 102));
    receiver.on_ack_sent();
    let again = receiver.arrive(Time::ZERO, fin, true, false, |_| ());
    assert_eq!(again, Arrival { advanced: false, duplicate: true });
    assert_eq!((receiver.due, receiver.has_blocks()), (AckDue::Now, false));
    assert!(receiver.finished());
}

#[test]
fn a_fin_after_a_hole_occupies_one_octet_of_a_block_and_none_of_the_stream() {
    let mut receiver = receiver();
    let block = |start: u64, end: u64| (Seq(u32::MAX).add(start), Seq(u32::MAX).add(end));
    let fin = |receiver: &mut Receiver, start, end| {
        let mut fresh = Vec::new();
        let range = DataRange::new(start, end);
        let arrival = receiver.arrive(Time::ZERO, range, true, false, |part| fresh.push(part));
        (arrival, fresh)
    };
    // A FIN without payload.
    let (arrival, fresh) = fin(&mut receiver, 201, 201);
    assert_eq!(arrival, Arrival { advanced: false, duplicate: false });
    assert!(fresh.is_empty());
    assert_eq!((receiver.nxt(), receiver.finished(), receiver.total()), (1, false, 1));
    assert_eq!(receiver.blocks(4).as_slice(), [block(201, 202)]);
    receiver.on_ack_sent();
    // The same again is a duplicate; with payload before it, only the payload is new.
    let (arrival, fresh) = fin(&mut receiver, 201, 201);
    assert!(arrival.duplicate && fresh.is_empty());
    assert_eq!(receiver.blocks(4).as_slice(), [block(201, 202), block(201, 202)]);
    receiver.on_ack_sent();
    let (arrival, fresh) = fin(&mut receiver, 151, 201);
    assert!(!arrival.duplicate);
    assert_eq!(fresh, [DataRange::new(151, 201)]);
    assert_eq!(receiver.blocks(4).as_slice(), [block(151, 202)]);
    assert_eq!(receiver.total(), 51);
    // Nothing after the FIN is accepted, and its octet is no byte of the stream.
    assert_eq!(arrive(&mut receiver, 101, 250), [DataRange::new(101, 151)]);
    assert_eq!(receiver.blocks(4).as_slice(), [block(101, 202)]);
    assert_eq!(arrive(&mut receiver, 1, 101), [DataRange::new(1, 101)]);
    assert_eq!((receiver.nxt(), receiver.total()), (202, 202));
    assert!(receiver.finished() && !receiver.has_blocks());
}
