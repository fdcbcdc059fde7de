//! Reassembly, the window, and the growth of the buffer.

use anabranch_units::Bytes;

use super::*;

fn state(buffer: u64) -> RecvState {
    RecvState::new(ReceiveBuffer::Fixed(Bytes(buffer)))
}

fn arrive(recv: &mut RecvState, start: u64, end: u64) -> Vec<DataRange> {
    let mut fresh = Vec::new();
    recv.arrive(DataRange::new(start, end), |part| fresh.push(part));
    fresh
}

#[test]
fn each_byte_is_delivered_once_and_in_the_window_only() {
    let mut recv = state(1000);
    assert_eq!(arrive(&mut recv, 100, 200), [DataRange::new(100, 200)]);
    assert_eq!(arrive(&mut recv, 50, 250), [DataRange::new(50, 100), DataRange::new(200, 250)]);
    assert_eq!(arrive(&mut recv, 0, 60), [DataRange::new(0, 50)]);
    assert_eq!(recv.nxt(), 250);
    assert_eq!(arrive(&mut recv, 900, 1200), [DataRange::new(900, 1000)]);
    assert!(arrive(&mut recv, 1000, 1100).is_empty());
    assert_eq!(recv.refused(), 300);
}

#[test]
fn data_received_before_its_place_was_known_is_admitted() {
    let mut recv = state(1000);
    recv.extend_edge(1500);
    recv.extend_edge(1200);
    assert_eq!(recv.edge(), 1500);
    assert_eq!(arrive(&mut recv, 1400, 1600), [DataRange::new(1400, 1500)]);
}

#[test]
fn no_more_pieces_wait_than_segments_of_64_bytes_would_make() {
    let mut recv = state(6400);
    let taken = (0..3000).filter(|at| !arrive(&mut recv, 2 * at + 1, 2 * at + 2).is_empty()).count();
    assert_eq!(taken, 1024 + 100);
    // Data adjacent to a piece makes no further one.
    assert_eq!(arrive(&mut recv, 2, 3), [DataRange::new(2, 3)]);
}

#[test]
fn expected_data_is_received_like_any_arrival() {
    let mut recv = state(1000);
    for (start, end, expected) in
        [(0, 100, true), (150, 200, false), (100, 120, false), (120, 150, false), (200, 1000, true)]
    {
        let range = DataRange::new(start, end);
        assert_eq!(recv.expects(range), expected, "{range:?}");
        let mut quick = recv.clone();
        recv.arrive(range, |_| ());
        if expected {
            quick.take_expected(range);
            assert_eq!(format!("{quick:?}"), format!("{recv:?}"));
        }
    }
    assert!(!recv.expects(DataRange::new(1000, 1001)), "outside the window");
    assert!(!recv.expects(DataRange::new(900, 1000)), "old");
    let mut ended = state(1000);
    assert!(ended.set_fin(100));
    assert!(!ended.expects(DataRange::new(0, 100)), "an end is known");
}

#[test]
fn the_right_edge_never_moves_left() {
    let mut recv = state(1000);
    let mut edge = 0;
    for step in 0..50 {
        arrive(&mut recv, step * 17, step * 17 + 17);
        if step % 3 == 0 {
            recv.consume(30);
        }
        let field = u64::from(recv.window_field(4));
        let new = recv.nxt() + (field << 4);
        assert!(new >= edge);
        edge = new;
    }
}

#[test]
fn the_end_of_the_stream_is_fixed_by_the_first_word() {
    let mut recv = state(1000);
    arrive(&mut recv, 0, 10);
    assert!(recv.set_fin(20));
    assert!(!recv.set_fin(30));
    assert!(!recv.finished());
    arrive(&mut recv, 10, 40);
    assert!(recv.finished());
    assert_eq!(recv.ack_offset(), 21);
}

#[test]
fn autotuning_follows_the_arrivals_up_to_the_maximum() {
    let policy = ReceiveBuffer::Auto { initial: Bytes(10_000), max: Bytes(100_000) };
    let mut recv = RecvState::new(policy);
    arrive(&mut recv, 0, 10_000);
    recv.autotune(Time::from_millis(20), Duration::from_millis(20), 1000);
    assert_eq!(recv.buffer(), 36_000);
    recv.consume(10_000);
    recv.window_field(0);
    arrive(&mut recv, 10_000, 46_000);
    recv.autotune(Time::from_millis(40), Duration::from_millis(20), 1000);
    assert_eq!(recv.buffer(), 100_000);
}

/// Compares with a naive model of each byte: new bytes, bytes in order, and counters, after any arrivals.
#[test]
fn bytes_are_counted_as_a_naive_model_counts_them() {
    let mut random = 1_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..300 {
        let mut recv = state(150);
        let mut here = [false; 400];
        let mut consumed = 0;
        for _ in 0..30 {
            let edge = recv.edge();
            let start = draw(edge + 10);
            let fresh = arrive(&mut recv, start, start + 1 + draw(40));
            assert!(fresh.iter().all(|part| !part.is_empty()), "{fresh:?}");
            for part in fresh {
                for byte in part.start..part.end {
                    assert!(!core::mem::replace(&mut here[byte as usize], true), "{byte} twice");
                    assert!(byte < edge);
                }
            }
            let nxt = here.iter().position(|here| !here).unwrap() as u64;
            let total = here.iter().filter(|here| **here).count() as u64;
            assert_eq!((recv.nxt(), recv.received_total), (nxt, total));
            assert_eq!(recv.out_of_order(), total - nxt);
            let n = draw(20);
            recv.consume(n);
            consumed = nxt.min(consumed + n);
            assert_eq!(recv.readable(), nxt - consumed);
            assert_eq!(recv.wanted_edge(), edge.max(consumed + 150));
            recv.window_field(0);
            assert_eq!(recv.edge(), edge.max(consumed + 150));
            if recv.edge() > 350 {
                break;
            }
        }
    }
}

#[test]
fn a_window_field_is_rounded_down_unless_that_moves_the_right_edge_back() {
    let mut recv = state(1000);
    assert_eq!(recv.window_field(4), 63);
    assert_eq!(recv.edge(), 1008);
    arrive(&mut recv, 0, 100);
    recv.consume(100);
    assert_eq!(recv.window_field(4), 62);
    assert_eq!(recv.edge(), 100 + (62 << 4));
    let mut odd = state(1007);
    assert_eq!(odd.window_field(4), 63);
    let mut large = state(10_000_000);
    assert_eq!(large.window_field(0), u16::MAX);
    assert_eq!(large.edge(), 10_000_000);
}

#[test]
fn a_window_that_was_nearly_shut_is_announced_when_it_opens_by_two_segments_or_half() {
    let opened = |received: u64, read: u64, mss: u64| {
        let mut recv = state(1000);
        arrive(&mut recv, 0, received);
        recv.consume(read);
        recv.should_update(mss, u64::MAX)
    };
    assert!(!opened(600, 199, 100) && opened(600, 200, 100));
    assert!(!opened(600, 499, 400) && opened(600, 500, 400));
    assert!(!opened(500, 500, 100) && opened(501, 501, 100));
    assert!(!opened(1000, 0, 0) && opened(1000, 1, 0));
}

#[test]
fn the_window_is_the_memory_that_is_free_of_unread_data_and_of_holes_that_other_subflows_fill() {
    let policy = ReceiveBuffer::Auto { initial: Bytes(131_072), max: Bytes(1 << 22) };
    let mut recv = RecvState::new(policy);
    recv.limit_by(Some(Memory::new(131_072)));
    recv.begin_with(64_240);
    assert_eq!(u64::from(recv.window_field(7)) << 7, 65_536);
    // 39,000 bytes take 64,000 of the memory; only the edge of before is kept.
    arrive(&mut recv, 1000, 40_000);
    assert_eq!((recv.window_field(7), recv.edge()), (512, 65_536));
    arrive(&mut recv, 0, 1000);
    recv.consume(u64::MAX);
    assert_eq!(u64::from(recv.window_field(7)) << 7, 65_536);
    arrive(&mut recv, 50_000, 89_000);
    recv.set_held_below(39_000);
    assert_eq!(u64::from(recv.window_field(7)) << 7, 65_536, "a hole of the subflow itself");
}

#[test]
fn an_edge_that_does_not_move_is_rounded_to_the_left() {
    let policy = ReceiveBuffer::Auto { initial: Bytes(131_072), max: Bytes(1 << 22) };
    let mut recv = RecvState::new(policy);
    recv.limit_by(Some(Memory::new(131_072)));
    recv.begin_with(64_240);
    recv.window_field(7);
    arrive(&mut recv, 10_000, 20_000);
    arrive(&mut recv, 0, 1000);
    recv.consume(1000);
    assert_eq!((recv.window_field(7), recv.edge()), (504, 65_536), "64,536 are 504.2 units");
    arrive(&mut recv, 1000, 10_000);
    recv.consume(19_000);
    assert_eq!((recv.window_field(7), recv.edge()), (512, 85_536));
    recv.limit_by(Some(Memory::new(131_074)));
    assert_eq!((recv.window_field(7), recv.edge()), (513, 85_664), "one that moves, to the right");
}

#[test]
fn memory_is_evaluated_once_per_round_trip_with_the_least_measured_subflow() {
    let policy = ReceiveBuffer::Auto { initial: Bytes(131_072), max: Bytes(1 << 22) };
    let mut recv = RecvState::new(policy);
    recv.limit_by(Some(Memory::new(131_072)));
    let rtt = Duration::from_millis(20);
    let at = Time::from_millis;
    recv.on_established(at(100));
    arrive(&mut recv, 0, 1000);
    recv.consume(1000);
    assert!(recv.is_evaluation_due(at(101)), "there was none");
    assert_eq!(recv.evaluate_memory(at(101), rtt, true), None);
    assert_eq!((recv.buffer(), recv.is_evaluation_due(at(119))), (79_872, false));
    arrive(&mut recv, 1000, 40_000);
    recv.consume(39_000);
    // Twice 40,000, and twice that in proportion to the growth from 14,480.
    let wanted = 80_000 + 2 * (80_000 * 25_520 / 14_480);
    assert_eq!(recv.evaluate_memory(at(120), rtt, false), Some(40_000));
    assert_eq!(recv.buffer(), wanted, "half of twice as much");
    assert_eq!(recv.evaluate_memory(at(140), rtt, true), None);
    assert_eq!(recv.buffer(), 2 * wanted / 64 * 39, "and more of the same memory once it is measured");
}

#[test]
fn the_end_cannot_be_before_received_data() {
    let with = |offset: u64| {
        let mut recv = state(1000);
        arrive(&mut recv, 0, 10);
        arrive(&mut recv, 20, 30);
        let taken = recv.set_fin(offset);
        (taken, recv.set_fin(offset), recv.set_fin(offset + 1))
    };
    assert_eq!(with(9), (false, false, false));
    assert_eq!(with(15), (false, false, false));
    assert_eq!(with(28), (false, false, false));
    assert_eq!(with(30), (true, true, false));
    let mut empty = state(1000);
    arrive(&mut empty, 0, 10);
    assert!(!empty.set_fin(9) && empty.set_fin(10));
    assert!(empty.finished());
}

#[test]
fn autotuning_measures_one_round_trip_and_adds_its_growth_in_proportion() {
    let policy = ReceiveBuffer::Auto { initial: Bytes(2000), max: Bytes(100_000) };
    let mut recv = RecvState::new(policy);
    let rtt = Duration::from_millis(20);
    let mut round = |at: u64, bytes: u64| {
        let start = recv.nxt();
        assert_eq!(arrive(&mut recv, start, start + bytes), [DataRange::new(start, start + bytes)]);
        recv.consume(bytes);
        recv.autotune(Time::from_millis(at), Duration::ZERO, 10);
        recv.autotune(Time::from_millis(at) - Duration(1), rtt, 10);
        recv.autotune(Time::from_millis(at), rtt, 10);
        recv.window_field(0);
        recv.buffer()
    };
    assert_eq!(round(20, 1000), 2160);
    assert_eq!(round(40, 1500), 3160 + 3160 * 500 / 1000);
    assert_eq!(round(60, 500), 4740);
    // Over two round trips: half of it in each.
    assert_eq!(round(100, 4000), 4160 + 4160 * 1500 / 500);
    let mut fixed = state(1000);
    arrive(&mut fixed, 0, 1000);
    fixed.autotune(Time::from_millis(20), rtt, 1000);
    assert_eq!(fixed.buffer(), 1000);
}

/// Captured from Linux 6.18 with 131,072 bytes of memory: after each of the first segments 64,512 bytes, in units of 1 KiB.
#[test]
fn a_segment_takes_memory_in_the_window_that_acknowledges_it_at_once() {
    let shown = |counts_last: bool| {
        let mut recv = state(65_536);
        recv.limit_by(Some(Memory::new(131_072)));
        recv.begin_with(64_240);
        assert_eq!(arrive(&mut recv, 0, 1420).len(), 1);
        recv.consume(1420);
        recv.offer(10, u64::MAX, 1420, counts_last)
    };
    assert_eq!((shown(true), shown(false)), (63, 64));
    // A segment after a hole of the stream is counted as such.
    let mut recv = state(65_536);
    recv.limit_by(Some(Memory::new(131_072)));
    recv.begin_with(0);
    recv.extend_edge(10_000);
    arrive(&mut recv, 1420, 2840);
    assert_eq!(recv.last, 0);
}
