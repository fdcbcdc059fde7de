//! Mappings and data acknowledgements: RFC 8684 sections 3.3.1, 3.3.2 and 3.3.5.

use anabranch_stack::config::{
    ConnectionConfig, DsnWidth, ReceiveBuffer, SequenceOrigin, SimConfig, SimOnly,
};
use anabranch_stack::event::Event;
use anabranch_stack::segment::MptcpOption;
use anabranch_stack::seq::{DataRange, Dsn, Seq};
use anabranch_units::Bytes;

use crate::kit::*;

// RFC 8684 section 3.3.1, rows M18, A1: a hole in the stream stops the DATA_ACK.
#[test]
fn the_data_ack_stops_before_a_hole() {
    let mut s = Script::confirmed_server(config());
    s.inject(mapped(0, 111, 110, 100));
    s.expect(ack(0, 11).sack(&[(111, 211)]));
    s.inject(mapped(0, 11, 10, 100));
    s.expect(ack(0, 211).data_ack(210));
}

// RFC 8684 section 3.3.2, row A1: a hole at the data level alone: the subflow is complete.
#[test]
fn the_subflows_ack_moves_while_the_data_ack_waits() {
    let mut s = Script::confirmed_server(config());
    s.inject(mapped(0, 11, 110, 100));
    s.expect(ack(0, 111));
    assert_eq!(s.stats().received, 10);
    s.inject(mapped(0, 111, 10, 100));
    s.expect(ack(0, 211).data_ack(210));
}

// RFC 8684 section 3.3.1, rows M13, M14, A2, A3: both widths of both numbers, mixed; wide numbers are
// answered with wide ones.
#[test]
fn widths_may_be_mixed() {
    let mut s = Script::confirmed_server(config());
    s.inject(data(0, 11, 100).data_ack32(0).map32(10, 11, 100));
    s.expect(ack(0, 111).data_ack(110));
    s.inject(data(0, 111, 100).data_ack(0).map32(110, 111, 100));
    s.expect(ack(0, 211).data_ack(210));
    s.inject(data(0, 211, 100).data_ack32(0).map(210, 211, 100));
    s.expect(ack(0, 311).data_ack(310));
    s.write(100);
    s.expect(data(0, 1, 100).map(0, 1, 100).data_ack(310));
    s.inject(ack(0, 101).seq(311).data_ack32(100));
    assert_eq!(s.stats().data_acked, 100);
}

// RFC 8684 section 3.3.2, rows A2, A3: a narrow sender answers narrow until it has seen a wide number.
#[test]
fn a_narrow_data_ack_becomes_wide_after_a_wide_dsn() {
    let narrow = ConnectionConfig { dsn_width: DsnWidth::Narrow, ..config() };
    let mut s = Script::client_of(narrow, 1);
    s.inject(data(0, 1, 100).data_ack32(0).map32(0, 1, 100));
    s.expect(ack(0, 101).data_ack32(100));
    s.write(100);
    s.expect(data(0, 1, 100).map32(0, 1, 100).data_ack32(100));
    s.inject(data(0, 101, 100).ack(101).data_ack(100).map(100, 101, 100));
    s.expect(ack(0, 201).data_ack(200));
}

fn at_the_wrap(low: u64) -> SimConfig {
    let dsn = Dsn(0x0000_0007_0000_0000 - low);
    let origin = SequenceOrigin { isn: Seq(0xffff_fff0), initiator: dsn, listener: dsn };
    from(origin)
}

fn from(origin: SequenceOrigin) -> SimConfig {
    config().simulated(SimOnly { sequence_origin: Some(origin), ..SimOnly::default() })
}

// RFC 8684 section 3.3.1, rows M16, M17: a 32-bit DSN is extended across the wrap, and old, reordered and
// repeated segments do not disturb that.
#[test]
fn narrow_dsns_are_promoted_across_the_wrap_and_back() {
    let mut s = Script::confirmed_server(at_the_wrap(211));
    let narrow = |ssn: u32, at: i64| data(0, i64::from(ssn), 100).data_ack32(0).map32(at, ssn, 100);
    s.inject(narrow(111, 110));
    s.expect(ack(0, 11).sack(&[(111, 211)]));
    s.inject(narrow(211, 210));
    s.expect(ack(0, 11).sack(&[(111, 311)]));
    s.inject(narrow(11, 10));
    s.expect(ack(0, 311).data_ack(310));
    s.inject(narrow(11, 10));
    s.expect(ack(0, 311).sack(&[(11, 111)]));
    s.inject(narrow(311, 310));
    s.expect(ack(0, 411).data_ack(410));
    let total: u64 = s.delivered.iter().map(|range| range.len()).sum();
    assert_eq!(total, 410);
}

// RFC 8684 sections 3.3.1 and 3.3.2, rows M16, T26, T27: local numbers across the wrap of 32 bits, and of the
// subflow's sequence numbers.
#[test]
fn narrow_data_acks_are_promoted_across_the_wrap() {
    let mut narrow = at_the_wrap(1501);
    narrow.dsn_width = DsnWidth::Narrow;
    let mut s = Script::client_of(narrow, 1);
    s.inject(ack(0, 1).data_ack32(0));
    s.write(3000);
    s.expect(data(0, 1, 1000).map32(0, 1, 1000));
    s.expect(data(0, 1001, 1000).map32(1000, 1001, 1000));
    s.expect(data(0, 2001, 1000).map32(2000, 2001, 1000));
    s.inject(ack(0, 1001).data_ack32(1000));
    s.inject(ack(0, 3001).data_ack32(3000));
    assert_eq!(s.stats().data_acked, 3000);
    s.inject(ack(0, 3001).data_ack32(1000));
    assert_eq!(s.stats().data_acked, 3000);
}

// RFC 8684 section 3.3.1, row M12: the 64-bit number itself may wrap.
#[test]
fn wide_dsns_may_wrap() {
    let origin = SequenceOrigin { isn: Seq(1), initiator: Dsn(u64::MAX - 50), listener: Dsn(u64::MAX - 60) };
    let mut s = Script::confirmed_server(from(origin));
    s.inject(mapped(0, 11, 10, 100));
    s.expect(ack(0, 111).data_ack(110));
    s.write(200);
    s.expect(data(0, 1, 200).map(0, 1, 200));
    s.inject(ack(0, 201).seq(111).data_ack(200));
    assert_eq!(s.stats().data_acked, 200);
}

// RFC 8684 section 3.3.1, row M20: one mapping over three segments, present only on the first.
#[test]
fn a_mapping_holds_for_the_segments_after_it() {
    let mut s = Script::confirmed_server(config());
    s.inject(data(0, 11, 100).data_ack(0).map(10, 11, 300));
    s.expect(ack(0, 111).data_ack(110));
    s.inject(data(0, 111, 100));
    s.expect(ack(0, 211).data_ack(210));
    s.inject(data(0, 211, 100));
    s.expect(ack(0, 311).data_ack(310));
}

// RFC 8684 section 3.3.1, rows M19, M21, T6: the same mapping on each of its segments.
#[test]
fn a_mapping_may_be_repeated_on_each_of_its_segments() {
    let mut s = Script::confirmed_server(config());
    for (seq, acked) in [(11, 111), (211, 111), (111, 311)] {
        s.inject(data(0, seq, 100).data_ack(0).map(10, 11, 300));
        s.expect(ack(0, acked));
    }
    assert_eq!(s.stats().received, 310);
}

// RFC 8684 section 3.3.1, row M22: the segment with the mapping is lost; later data is received again after
// it.
#[test]
fn a_lost_mapping_is_made_good_by_its_retransmission() {
    let mut s = Script::confirmed_server(config());
    s.inject(data(0, 111, 100));
    s.sent();
    s.inject(data(0, 11, 100).data_ack(0).map(10, 11, 200));
    s.sent();
    s.inject(data(0, 111, 100));
    s.sent();
    assert_eq!(s.stats().received, 210);
}

// RFC 8684 section 3.3.1, row M24: a middlebox has joined the tail of one mapping and the head of the next.
#[test]
fn a_segment_may_end_one_mapping_and_begin_the_next() {
    let mut s = Script::confirmed_server(config());
    s.inject(data(0, 11, 100).data_ack(0).map(10, 11, 150));
    s.expect(ack(0, 111).data_ack(110));
    s.inject(data(0, 111, 150).data_ack(0).map(160, 161, 100));
    s.expect(ack(0, 261).data_ack(260));
    assert_eq!(s.stats().received, 260);
}

// RFC 8684 section 3.3.1, rows M3, R2: the second copy of a DSN, on another subflow, is ignored and
// acknowledged.
#[test]
fn a_second_copy_is_acknowledged_and_not_delivered() {
    let mut s = Script::confirmed_server(config());
    let sub = s.peer_joins(0, 3, 4, false);
    s.inject(mapped(0, 11, 10, 100));
    s.expect(ack(0, 111).data_ack(110));
    let before = s.discarded;
    s.inject(mapped(sub, 1, 10, 100));
    s.expect(ack(sub, 101).data_ack(110));
    assert_eq!((s.stats().received, s.discarded - before), (110, 100));
}

// RFC 8684 section 3.3.1, row M27: the new part of a partly old mapping is delivered.
#[test]
fn the_new_part_of_an_old_mapping_is_delivered() {
    let mut s = Script::confirmed_server(config());
    s.inject(mapped(0, 11, 10, 100));
    s.expect(ack(0, 111).data_ack(110));
    s.inject(mapped(0, 111, 60, 100));
    s.expect(ack(0, 211).data_ack(160));
    assert_eq!(s.delivered.last(), Some(&DataRange::new(110, 160)));
}

// RFC 8684 sections 3.3.1 and 3.8, rows M26, H2, W4: data outside the window is acknowledged on the subflow
// only.
#[test]
fn data_outside_the_window_is_dropped_and_not_data_acked() {
    let small = ConnectionConfig { receive_buffer: ReceiveBuffer::Fixed(Bytes(1000)), ..config() };
    let mut s = Script::confirmed_server(small);
    s.inject(mapped(0, 11, 1000, 100));
    s.expect(ack(0, 111));
    assert_eq!((s.stats().out_of_order, s.stats().received), (0, 10));
    s.inject(mapped(0, 111, 900, 200));
    s.sent();
    assert_eq!(s.stats().out_of_order, 100);
}

// RFC 8684 section 3.3.1, row M28: a mapping without payload maps nothing.
#[test]
fn a_mapping_without_payload_means_nothing() {
    let mut s = Script::confirmed_server(config());
    s.inject(seg(0).seq(11).data_ack(0).map(10, 11, 500));
    s.inject(seg(0).seq(11).data_ack(0).map(10, 0, 0));
    s.inject(mapped(0, 11, 10, 100));
    s.expect(ack(0, 111).data_ack(110));
}

// RFC 8684 section 3.3.1, rows M1, M7, B10: a retransmission repeats the mapping, even if only a part of the
// segment remains.
#[test]
fn a_mapping_never_changes() {
    let mut s = Script::client(config());
    s.write(2000);
    s.expect(data(0, 1, 1000).map(0, 1, 1000));
    s.expect(data(0, 1001, 1000).map(1000, 1001, 1000));
    s.inject(ack(0, 401).data_ack(400));
    s.advance(400);
    s.sent();
    s.advance(2000);
    let again = s.sent();
    let part = again.iter().find(|segment| segment.payload_len == 600).expect("the rest of the first");
    let map = part.options.dss.and_then(|dss| dss.mapping).unwrap();
    assert_eq!((map.ssn, map.len), (1, 1000));
}

// RFC 8684 section 3.3.2, row A4: a window without a DATA_ACK is that of the subflow and not of the
// connection.
#[test]
fn a_window_without_a_data_ack_does_not_open_the_connections() {
    let mut s = Script::connecting(ConnectionConfig { initial_window: 20, ..config() }, 1);
    s.expect(seg(0).flags(S));
    let key = capable(Some(KEY_B), None, None);
    s.inject(seg(0).flags(SA).seq(0).ack(1).window(16_000).option(key));
    s.expect(ack(0, 1));
    s.inject(ack(0, 1).window(16_000).data_ack(0));
    s.write(20_000);
    s.expect_data(0, 1, 16);
    s.inject(ack(0, 16_001).window(64_000));
    s.inject(ack(0, 16_001).window(64_000).data_ack(16_000));
    s.expect_data(0, 16_001, 4);
}

// RFC 8684 sections 3.3.2 and 4, rows A5, A13, B9: the subflow's ACK frees nothing.
#[test]
fn the_send_buffer_is_not_freed_by_the_subflow_alone() {
    let mut s = Script::client(config());
    s.write(1000);
    s.expect(data(0, 1, 1000));
    s.inject(ack(0, 1001));
    assert_eq!((s.endpoint.freed(s.id()), s.stats().data_acked), (0, 0));
    s.inject(ack(0, 1001).data_ack(1000));
    assert_eq!((s.endpoint.freed(s.id()), s.stats().data_acked), (1000, 1000));
}

// RFC 8684 sections 3.3.2 and 3.3.6, rows A6, A11, R5: nor does the DATA_ACK alone, on any subflow; and a
// writer waiting for space is notified when there is some.
#[test]
fn the_send_buffer_is_freed_when_both_levels_have_acknowledged() {
    let small = ConnectionConfig { send_buffer: Bytes(12_000), ..config() };
    let mut s = Script::two(small);
    assert_eq!(s.write(20_000), 12_000);
    s.by_subflow();
    s.expect_data(0, 1, 10);
    s.expect_data(1, 1, 2);
    s.inject(ack(1, 2001).data_ack(12_000));
    assert_eq!((s.endpoint.freed(s.id()), s.stats().data_acked), (0, 12_000));
    assert_eq!(s.write(1), 0);
    assert!(!s.events.contains(&Event::Writable));
    s.inject(ack(0, 10_001));
    assert_eq!(s.endpoint.freed(s.id()), 12_000);
    assert!(s.events.contains(&Event::Writable));
    assert_eq!(s.write(1), 1);
    s.expect(data(0, 10_001, 1).map(12_000, 10_001, 1));
}

// RFC 8684 section 3.3.2, row A12: beyond the data sent, or older than the last acknowledgement.
#[test]
fn a_data_ack_that_cannot_be_is_ignored() {
    let mut s = Script::client(config());
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(ack(0, 1001).data_ack(2001));
    assert_eq!(s.stats().data_acked, 0);
    s.inject(ack(0, 2001).data_ack(2000));
    s.inject(ack(0, 2001).data_ack(500));
    s.inject(ack(0, 2001).data_ack(-7));
    assert_eq!(s.stats().data_acked, 2000);
}

// RFC 8684 section 3.3.2, row A10: a peer may omit the DATA_ACK if it contains nothing new.
#[test]
fn acknowledgements_without_a_dss_are_no_error() {
    let mut s = Script::client(config());
    s.write(2000);
    s.expect_data(0, 1, 2);
    s.inject(ack(0, 1001).data_ack(1000));
    s.inject(ack(0, 2001));
    s.inject(ack(0, 2001).data_ack(2000));
    assert_eq!(s.stats().data_acked, 2000);
}

// RFC 8684 section 3, row G7: several options in one header.
#[test]
fn a_dss_and_a_signal_share_a_segment() {
    let mut s = Script::confirmed_server(config());
    let option = s.announcement(5, peer_ip(5), None);
    s.inject(mapped(0, 11, 10, 100).option(option).option(MptcpOption::Priority { backup: true }));
    let sent = s.sent();
    assert!(sent.iter().any(|segment| segment.options.mptcp[0] == Some(Script::echo(5, peer_ip(5), None))));
    // Row G6: the echo has not displaced the DATA_ACK.
    assert!(sent.iter().any(|segment| segment.options.dss.is_some_and(|dss| dss.data_ack.is_some())));
    assert_eq!(s.stats().received, 110);
}
