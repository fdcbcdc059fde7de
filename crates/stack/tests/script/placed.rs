//! The placements of each payload reported to a driver, and their counters: every byte is delivered once, and
//! the rest is a duplicate.

use anabranch_stack::event::{Event, Placement, SubflowId};
use anabranch_stack::seq::DataRange;

use crate::kit::*;

fn server() -> Script {
    let mut s = Script::server(config());
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    s.expect(ack(0, 11).data_ack(10));
    s
}

/// Returns the parts of the last payload: offset in the payload, and range in the stream; `None` is a
/// duplicate.
fn parts(s: &Script) -> Vec<(u32, Option<(u64, u64)>)> {
    let part = |place: &Placement| match *place {
        Placement::Deliver { payload_offset, stream, subflow, .. } => {
            assert_eq!(subflow, SubflowId(0));
            (payload_offset, Some((stream.start, stream.end)))
        }
        Placement::Discard { payload_offset, .. } => (payload_offset, None),
        other => panic!("{other:?}"),
    };
    s.placed.iter().map(part).collect()
}

/// Returns segments with payload, bytes delivered, duplicate bytes.
fn counted(s: &Script) -> (u64, u64, u64) {
    let counters = s.subflow(0).counters;
    (counters.data_segments_received, counters.bytes_delivered, counters.bytes_duplicate)
}

#[test]
fn each_byte_is_delivered_once_or_is_a_duplicate() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 1000));
    s.expect(ack(0, 1001));
    assert_eq!((parts(&s), counted(&s)), (vec![(0, Some((0, 1000)))], (1, 1000, 0)));
    s.inject(data(0, 501, 1000));
    s.expect(ack(0, 1501));
    assert_eq!((parts(&s), counted(&s)), (vec![(500, Some((1000, 1500)))], (2, 1500, 500)));
    // All of it was received: before the last acknowledgement, and up to it.
    s.inject(data(0, 1, 1000));
    s.expect(ack(0, 1501));
    assert_eq!((parts(&s), counted(&s)), (vec![(0, None)], (3, 1500, 1500)));
    s.inject(data(0, 501, 1000));
    s.expect(ack(0, 1501));
    assert_eq!((parts(&s), counted(&s)), (vec![(0, None)], (4, 1500, 2500)));
}

#[test]
fn segments_without_payload_or_stream_data_are_not_counted() {
    let mut s = Script::server(plain());
    s.inject(data(0, 1, 1000));
    s.expect(ack(0, 1001));
    // An old acknowledgement, and octets before the first.
    for old in [ack(0, 1).seq(700), data(0, -500, 100)] {
        s.inject(old);
        s.expect(ack(0, 1001));
        assert_eq!((parts(&s), counted(&s)), (vec![], (1, 1000, 0)));
    }
    s.inject(seg(0).flags(FA).seq(1001));
    s.expect(ack(0, 1002));
    assert_eq!((parts(&s), counted(&s)), (vec![], (1, 1000, 0)));
}

// RFC 8684 section 3.3.1: a mapping that begins before the stream delivers its part inside the stream.
#[test]
fn data_mapped_before_the_stream_is_a_duplicate() {
    let mut s = server();
    s.inject(data(0, 11, 1000).data_ack(0).map(-500, 11, 1000));
    s.expect(ack(0, 1011).data_ack(500));
    assert_eq!((parts(&s), counted(&s)), (vec![(510, Some((10, 500)))], (2, 500, 510)));
    s.inject(data(0, 1011, 1000).data_ack(0).map(-1000, 1011, 1000));
    s.expect(ack(0, 2011).data_ack(500));
    assert_eq!((parts(&s), counted(&s)), (vec![(0, None)], (3, 500, 1510)));
    s.inject(data(0, 2011, 1000).data_ack(0).map(-7000, 2011, 1000));
    s.expect(ack(0, 3011).data_ack(500));
    assert_eq!((parts(&s), counted(&s)), (vec![(0, None)], (4, 500, 2510)));
}

// RFC 8684 section 3.3.1: a middlebox may have joined segments, so that several mappings touch one.
#[test]
fn each_part_of_a_segment_goes_where_its_mapping_says() {
    let mut s = server();
    s.inject(data(0, 11, 200).data_ack(0).map(10, 11, 500));
    s.expect(ack(0, 211).data_ack(210));
    s.inject(data(0, 111, 700).data_ack(0).map(2000, 511, 300));
    s.expect(ack(0, 811).data_ack(510));
    assert_eq!(parts(&s), [(100, Some((210, 510))), (400, Some((2000, 2300)))]);
    assert_eq!(counted(&s), (3, 810, 100));
}

// RFC 8684 section 3.3.1: a mapping without payload is ignored, on a FIN too.
#[test]
fn a_fin_without_payload_brings_no_mapping() {
    let mut s = server();
    s.inject(seg(0).flags(FA).seq(511).data_ack(0).map(10, 11, 1000));
    s.expect(ack(0, 11));
    s.inject(data(0, 11, 500).data_ack(0));
    s.sent();
    assert_eq!(s.stats().received, 10);
}

// RFC 8684 section 3.3.3: the DATA_FIN occupies one octet of the mapping's length; a length of 0 has none.
#[test]
fn a_data_fin_needs_a_length() {
    let mut s = server();
    s.inject(ack(0, 1).seq(11).data_ack(0).map(11, 0, 0).data_fin());
    assert!(!s.events.contains(&Event::PeerClosed));
    s.inject(ack(0, 1).seq(11).data_ack(0).map(10, 0, 1).data_fin());
    s.expect(ack(0, 11).data_ack(11));
    assert!(s.events.contains(&Event::PeerClosed));
}

// RFC 8684 section 3.3.1: held payload whose mapping arrives is delivered if it is new, and discarded if
// another subflow was faster.
#[test]
fn held_payload_is_delivered_or_dropped_byte_by_byte() {
    let mut s = Script::two(config());
    s.inject(data(1, 1, 300));
    s.expect(ack(1, 301).data_ack(0));
    assert_eq!(s.held_bytes(), 300);
    s.inject(data(0, 1, 100).data_ack(0).map(100, 1, 100));
    s.expect(ack(0, 101).data_ack(0));
    s.inject(data(1, 301, 100).data_ack(0).map(0, 1, 400));
    s.expect(ack(1, 401).data_ack(400));
    let place = |start, end| DataRange::new(start, end);
    assert_eq!(s.released, [(place(1, 101), place(0, 100)), (place(201, 301), place(200, 300))]);
    let dropped: Vec<_> = s.placed.iter().filter(|place| matches!(place, Placement::Drop { .. })).collect();
    assert!(matches!(dropped[..], [Placement::Drop { held, .. }] if *held == place(101, 201)), "{dropped:?}");
    let counters = s.subflow(1).counters;
    assert_eq!((counters.bytes_delivered, counters.bytes_duplicate), (300, 100));
    assert_eq!((counters.data_segments_received, s.held_bytes()), (2, 0));
}

// RFC 8684 section 3.3.1: data outside the mapping remains held.
#[test]
fn held_payload_is_released_as_far_as_it_is_mapped() {
    let mut s = Script::two(config());
    s.inject(data(1, 1, 300));
    s.expect(ack(1, 301).data_ack(0));
    s.inject(data(1, 301, 100).data_ack(0).map(100, 101, 400));
    s.expect(ack(1, 401).data_ack(0));
    assert_eq!(s.released, [(DataRange::new(101, 301), DataRange::new(100, 300))]);
    assert_eq!((s.held_bytes(), s.stats().out_of_order), (100, 300));
}
