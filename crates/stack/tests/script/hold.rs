//! Held payload: it waits for its mapping, or for the rest of the data covered by its checksum (RFC 8684
//! section 3.3.1). No byte of it is readable before.

use anabranch_stack::config::{Checksums, ConnectionConfig};
use anabranch_stack::event::Event;
use anabranch_stack::segment::ResetReason;
use anabranch_stack::seq::DataRange;

use crate::kit::*;

/// Returns a client with two subflows; the peer sends the stream.
fn two() -> Script {
    Script::two(config())
}

fn required() -> ConnectionConfig {
    ConnectionConfig { checksums: Checksums::Required, ..config() }
}

/// Returns a client that has negotiated checksums.
fn checked() -> Script {
    Script::client(required())
}

/// Returns data in a mapping of `len` bytes, with the correct checksum.
fn part(seq: i64, len: u32, data_start: i64, ssn: u32, whole: u16) -> Seg {
    data(0, seq, len).data_ack(0).map(data_start, ssn, whole).checked()
}

// RFC 8684 section 3.3.1, rows M9, M10, M21: unmapped data is acknowledged on the subflow and held; a mapping
// on a later segment places it.
#[test]
fn unmapped_data_is_held_until_its_mapping_comes() {
    let mut s = two();
    s.inject(data(1, 1, 100));
    s.expect(ack(1, 101).data_ack(0));
    assert_eq!((s.stats().received, s.held_bytes()), (0, 100));
    s.inject(data(1, 101, 100).data_ack(0).map(0, 1, 200));
    s.expect(ack(1, 201).data_ack(200));
    assert_eq!((s.stats().received, s.held_bytes()), (200, 0));
    assert_eq!(s.released, [(DataRange::new(1, 101), DataRange::new(0, 100))]);
}

// RFC 8684 section 3.3.1, row M22: the head of a mapping is lost, and the data after it is held.
#[test]
fn data_after_a_lost_mapping_is_held() {
    let mut s = two();
    s.inject(data(1, 101, 100));
    s.expect(ack(1, 1).sack(&[(101, 201)]));
    s.inject(data(1, 1, 100).data_ack(0).map(0, 1, 200));
    s.expect(ack(1, 201).data_ack(200));
    assert_eq!((s.stats().received, s.held_bytes()), (200, 0));
}

// RFC 8684 section 3.3.1, rows M9, B13: a middlebox has joined two segments and kept the options of the
// first; the tail is acknowledged on the subflow, and retransmitted by the peer's data level.
#[test]
fn the_unmapped_tail_of_a_segment_is_held() {
    let mut s = two();
    s.inject(data(0, 1, 200).data_ack(0).map(0, 1, 100));
    s.expect(ack(0, 201).data_ack(100));
    assert_eq!(s.held_bytes(), 100);
    s.inject(data(1, 1, 100).data_ack(0).map(100, 1, 100));
    s.expect(ack(1, 101).data_ack(200));
    // Its mapping arrives late, and is no longer needed.
    s.inject(data(0, 201, 100).data_ack(0).map(100, 101, 200));
    s.expect(ack(0, 301).data_ack(300));
    assert_eq!((s.stats().received, s.held_bytes()), (300, 0));
}

// RFC 8684 sections 3.3.1 and 3.7, rows M11, F7, B5: without a mapping for a receive window of data the
// subflow is broken, the held data is discarded silently, and the connection continues.
#[test]
fn without_a_mapping_in_a_window_the_subflow_is_broken() {
    let mut s = two();
    s.inject(data(1, 1, 1000));
    s.expect(ack(1, 1001).data_ack(0));
    let mut seq = 1001;
    while s.is_quiet() {
        assert!(seq < 300_000, "never broken");
        s.inject(data(1, seq, 1000).data_ack(0).map(seq - 1001, seq as u32, 1000));
        s.forget_acks();
        if !s.is_quiet() {
            break;
        }
        s.read(u64::MAX);
        s.forget_acks();
        seq += 1000;
    }
    s.expect(seg(1).flags(RA).option(reset(false, ResetReason::Middlebox)));
    assert!(seq > 130_000, "{seq}");
    assert_eq!(s.held_bytes(), 0);
    s.inject(data(0, 1, 100).data_ack(0).map(seq - 1, 1, 100));
    s.expect(ack(0, 101));
}

// RFC 8684 section 3.3.1, row K9: held data is bounded.
#[test]
fn unmapped_data_is_bounded() {
    let mut s = two();
    for at in 0..200 {
        s.inject(data(1, 1001 + at * 1000, 1000));
        s.sent();
    }
    assert!(s.held_bytes() <= 2 * 65_535, "{}", s.held_bytes());
    assert!(s.held_bytes() >= 64_000);
}

// RFC 8684 section 3.3.1, row M25: of contradicting mappings the first is used, and the subflow is reset.
#[test]
fn a_contradicting_mapping_resets_its_subflow() {
    let mut s = two();
    s.inject(data(1, 1, 100).data_ack(0).map(0, 1, 300));
    s.expect(ack(1, 101).data_ack(100));
    s.inject(data(1, 101, 100).data_ack(0).map(5000, 101, 100));
    s.expect(seg(1).flags(RA).option(reset(false, ResetReason::MptcpError)));
    assert_eq!((s.stats().out_of_order, s.stats().received), (0, 100));
}

// The same if the second mapping names exactly the bytes that the stream expects next.
#[test]
fn a_contradicting_mapping_of_expected_data_resets_its_subflow() {
    let mut s = two();
    s.inject(data(1, 1, 100).data_ack(0).map(0, 1, 300));
    s.expect(ack(1, 101).data_ack(100));
    s.inject(data(0, 1, 100).data_ack(0).map(100, 1, 100));
    s.expect(ack(0, 101).data_ack(200));
    s.inject(data(1, 101, 100).data_ack(0).map(200, 101, 100));
    s.expect(seg(1).flags(RA).option(reset(false, ResetReason::MptcpError)));
    assert_eq!(s.stats().received, 200);
}

// RFC 8684 section 3.3.1, rows M6, M20, T6: a mapping longer than a segment is readable when all of it has
// arrived and is correct, for any order and parity of its parts.
#[test]
fn no_part_of_a_mapping_is_readable_before_all_of_it_is_verified() {
    let cuts = [(1, 333), (334, 1), (335, 500), (835, 67), (902, 99)];
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 3, 0, 4, 2]] {
        let mut s = checked();
        for which in order {
            assert_eq!((s.stats().received, s.endpoint.readable(s.id())), (0, 0));
            assert!(!s.events.contains(&Event::Readable));
            assert_eq!(s.delivered, []);
            let (seq, len) = cuts[which];
            s.inject(part(seq, len, 0, 1, 1000));
            s.sent();
        }
        assert_eq!((s.stats().received, s.held_bytes()), (1000, 0));
        assert!(s.events.contains(&Event::Readable));
    }
}

// RFC 8684 section 3.3.1, row M20: the option is present only on the first segment.
#[test]
fn the_checksum_of_a_mapping_may_come_once() {
    let mut s = checked();
    s.inject(part(1, 333, 0, 1, 1000));
    s.expect(ack(0, 334).data_ack(0));
    s.inject(data(0, 334, 333).data_ack(0));
    s.expect(ack(0, 667).data_ack(0));
    s.inject(data(0, 667, 334).data_ack(0));
    s.expect(ack(0, 1001).data_ack(1000));
}

// RFC 8684 section 3.3.1, row M24: a middlebox has joined the tail of one mapping and the head of the next:
// both are verified together, with an odd boundary.
#[test]
fn mappings_that_share_a_segment_are_verified_together() {
    let mut s = checked();
    s.inject(part(1, 100, 0, 1, 151));
    s.expect(ack(0, 101).data_ack(0));
    s.inject(part(101, 150, 151, 152, 149).stream(100));
    s.expect(ack(0, 251).data_ack(0));
    s.inject(part(251, 50, 151, 152, 149));
    s.expect(ack(0, 301).data_ack(300));
    assert_eq!(s.held_bytes(), 0);
    // Damage in the shared segment is detected.
    let mut s = checked();
    s.inject(part(1, 100, 0, 1, 151));
    s.expect(ack(0, 101));
    s.inject(damaged(part(101, 200, 151, 152, 149).stream(100)));
    s.expect(ack(0, 301).data_ack(0).option(s.own_fails(0)));
    assert_eq!(s.stats().received, 0);
}

// RFC 8684 section 3.3.1: a retransmission that covers more than the hole is used if the sum of the hole can
// be derived.
#[test]
fn a_retransmission_may_cover_more_than_the_hole() {
    let mut s = checked();
    s.inject(part(334, 333, 0, 1, 999));
    s.expect(ack(0, 1).sack(&[(334, 667)]));
    s.inject(part(1, 666, 0, 1, 999));
    s.expect(ack(0, 667).data_ack(0));
    s.inject(part(667, 333, 0, 1, 999));
    s.expect(ack(0, 1000).data_ack(999));
    // Also over a verified mapping after the hole.
    s.inject(part(1101, 101, 1100, 1101, 101));
    s.sent();
    s.inject(part(1000, 202, 999, 1000, 101).stream(999));
    s.sent();
    assert_eq!(s.stats().received, 1201);
}

// One whose sum cannot be divided is ignored, and retransmitted from the acknowledgement on.
#[test]
fn an_overlap_that_cannot_be_summed_is_ignored() {
    let mut s = checked();
    s.inject(part(1, 400, 0, 1, 1000));
    s.expect(ack(0, 401));
    s.inject(part(201, 400, 0, 1, 1000));
    s.expect(ack(0, 401).data_ack(0));
    s.inject(part(401, 600, 0, 1, 1000));
    s.expect(ack(0, 1001).data_ack(1000));
}

// RFC 8684 section 3.3, rows D3, D4, D5: a checksum without negotiation, or a missing one.
#[test]
fn the_presence_of_a_checksum_must_be_as_agreed() {
    let mut s = Script::two(config());
    s.inject(part(1, 100, 0, 1, 100).on(1));
    s.expect(seg(1).flags(RA).option(reset(false, ResetReason::MptcpError)));
    let mut s = Script::two(required());
    s.inject(data(1, 1, 100).data_ack(0).map(0, 1, 100));
    s.expect(seg(1).flags(RA).option(reset(false, ResetReason::MptcpError)));
    assert_eq!(s.stats().received, 0);
}

// RFC 8684 section 3.3.3, rows X3, X5: the DATA_FIN is verified with the data before it, or alone.
#[test]
fn a_data_fin_counts_when_it_is_verified() {
    let mut s = checked();
    s.inject(data(0, 1, 60).data_ack(0).map(0, 1, 101).data_fin().checked());
    s.expect(ack(0, 61).data_ack(0));
    s.inject(data(0, 61, 40).data_ack(0).map(0, 1, 101).data_fin().checked());
    s.expect(ack(0, 101).data_ack(101));
    assert!(s.events.contains(&Event::PeerClosed));
    let mut s = checked();
    s.inject(seg(0).data_ack(0).map(0, 0, 1).data_fin().checked());
    s.expect(ack(0, 1).data_ack(1));
    let mut s = Script::two(required());
    let mut wrong = seg(1).data_ack(0).map(0, 0, 1).data_fin().checked();
    wrong.checksum = Some(4);
    s.inject(wrong);
    s.expect(seg(1).flags(RA).option(reset(false, ResetReason::Middlebox)));
    assert!(!s.events.contains(&Event::PeerClosed));
}

// RFC 8684 section 3.3.1, row K9: data that fills a hole is accepted, regardless of the amount held after it.
#[test]
fn a_hole_is_filled_when_no_more_may_be_held_after_it() {
    let mut s = checked();
    for at in 1..2_000 {
        s.inject(part(1 + at * 10, 10, at * 10, 1 + at as u32 * 10, 10));
        s.sent();
    }
    s.inject(part(1, 10, 0, 1, 10));
    s.sent();
    assert!(s.stats().received >= 10_000, "{}", s.stats().received);
}

// The first unmapped byte may be a whole window old, and no more.
#[test]
fn exactly_a_window_of_unmapped_data_is_held() {
    let mut s = two();
    let room = 2 * 65_535;
    let mut seq = 1;
    while seq <= room {
        let len = (room + 1 - seq).min(1000) as u32;
        s.inject(data(1, seq, len));
        s.forget_acks();
        assert!(s.is_quiet(), "broken at {seq}");
        seq += i64::from(len);
    }
    assert_eq!(s.held_bytes(), room as u64);
    s.inject(data(1, seq, 1));
    s.expect(seg(1).flags(RA).option(reset(false, ResetReason::Middlebox)));
}

#[test]
fn mapped_held_payload_is_released_and_the_rest_stays() {
    let mut s = two();
    s.inject(data(1, 1, 300));
    s.expect(ack(1, 301).data_ack(0));
    // The mapping of the middle, on data outside of it.
    s.inject(data(1, 301, 100).data_ack(0).map(0, 101, 100));
    s.expect(ack(1, 401).data_ack(100));
    assert_eq!(s.released, [(DataRange::new(101, 201), DataRange::new(0, 100))]);
    assert_eq!((s.stats().received, s.held_bytes()), (100, 300));
    s.inject(data(1, 401, 100).data_ack(0).map(100, 201, 300));
    s.expect(ack(1, 501).data_ack(400));
    assert_eq!((s.stats().received, s.held_bytes()), (400, 100));
}

// Data before a mapping in its segment is unmapped.
#[test]
fn a_mapping_that_begins_inside_its_segment_does_not_map_its_start() {
    let mut s = two();
    s.inject(data(1, 1, 200).data_ack(0).map(0, 101, 100));
    s.expect(ack(1, 201).data_ack(0));
    assert_eq!((s.stats().received, s.held_bytes()), (0, 200));
}

#[test]
fn a_mapping_that_begins_before_the_stream_holds_for_its_segment_alone() {
    let mut s = two();
    s.inject(data(1, 1, 100).data_ack(0).map(-50, 1, 300));
    s.expect(ack(1, 101).data_ack(50));
    s.inject(data(1, 101, 100).data_ack(0));
    s.expect(ack(1, 201).data_ack(50));
    assert_eq!((s.stats().received, s.held_bytes()), (50, 100));
}

// Row M9: the first octet of a subflow is 1, and no mapping begins before it.
#[test]
fn a_mapping_of_the_syn_or_of_nothing_maps_nothing() {
    let mut s = two();
    s.inject(data(1, 1, 100).data_ack(0).map(0, 0, 100));
    s.expect(ack(1, 101).data_ack(0));
    assert_eq!((s.stats().received, s.held_bytes()), (0, 100));
    s.inject(data(1, 101, 100).data_ack(0).map(0, 101, 0).data_fin());
    s.sent();
    assert_eq!(s.stats().received, 0);
}

// RFC 8684 section 3.7: the peer falls back to TCP from the damage on; data that arrives before its answer is
// kept.
#[test]
fn data_that_arrives_before_the_answer_to_mp_fail_is_not_verified() {
    let mut s = checked();
    s.inject(damaged(part(1, 100, 0, 1, 100)));
    s.expect(ack(0, 101).data_ack(0).option(s.own_fails(0)));
    assert_eq!(s.stats().checksum_failures, 1);
    s.inject(part(101, 100, 100, 101, 100));
    s.sent();
    assert_eq!((s.stats().checksum_failures, s.stats().received, s.held_bytes()), (1, 0, 200));
}

// It was acknowledged, so the peer does not keep it.
#[test]
fn held_data_beyond_the_window_belongs_to_the_stream_after_fallback() {
    let mut s = Script::client(config());
    let mut seq = 1;
    while seq < 66_001 {
        s.inject(data(0, seq, 1000).data_ack(0));
        s.forget_acks();
        assert!(s.is_quiet(), "at {seq}");
        seq += 1000;
    }
    assert_eq!((s.held_bytes(), s.stats().received), (66_000, 0));
    // A segment without any option.
    s.inject(data(0, seq, 1000));
    s.sent();
    assert_eq!((s.held_bytes(), s.stats().received), (0, 66_000));
}
