//! DSS checksums: RFC 8684 section 3.3.1, and their negotiation in section 3.1.

use anabranch_stack::checksum;
use anabranch_stack::config::{Checksums, ConnectionConfig};
use anabranch_stack::crypto;
use anabranch_stack::segment::{Capable, MptcpOption, Segment};

use crate::kit::*;

fn required() -> ConnectionConfig {
    ConnectionConfig { checksums: Checksums::Required, ..config() }
}

fn flags_of(segment: &Segment) -> u8 {
    let capable = segment.options.mptcp.iter().flatten().find_map(|option| match option {
        MptcpOption::Capable(capable) => Some(capable.flags),
        _ => None,
    });
    capable.expect("an MP_CAPABLE")
}

/// Returns the flags of a client's SYN and third ACK, and whether its data has a checksum, after a SYN/ACK
/// with these flags.
fn client_after(own: Checksums, flags: u8) -> (u8, u8, bool) {
    let mut s = Script::connecting(ConnectionConfig { checksums: own, ..config() }, 1);
    let syn = flags_of(&s.expect(seg(0).flags(S)));
    s.inject(seg(0).flags(SA).seq(0).ack(1).option(capable_with(capable(Some(KEY_B), None, None), 1, flags)));
    let third = flags_of(&s.expect(ack(0, 1)));
    s.write(100);
    s.sent();
    s.inject(ack(0, 101).data_ack(100));
    s.write(100);
    let sent = s.expect(data(0, 101, 100).map(100, 101, 100));
    (syn, third, sent.options.dss.unwrap().mapping.unwrap().checksum.is_some())
}

// RFC 8684 section 3.1, rows I22, I29: flag A of either side enables checksums in both directions; the third
// ACK then carries it too (trap T5: a Linux server does not echo it).
#[test]
fn either_side_may_ask_for_checksums() {
    assert_eq!(client_after(Checksums::IfAsked, 0x01), (0x01, 0x01, false));
    assert_eq!(client_after(Checksums::IfAsked, 0x81), (0x01, 0x81, true));
    assert_eq!(client_after(Checksums::Required, 0x01), (0x81, 0x81, true));
    assert_eq!(client_after(Checksums::Required, 0x81), (0x81, 0x81, true));
}

/// Returns the flags of a listener's SYN/ACK, and whether its data has a checksum, after a SYN and a third
/// ACK with these flags.
fn server_after(own: Checksums, syn: u8, third: u8) -> (u8, bool) {
    let mut s = Script::listening(ConnectionConfig { checksums: own, ..config() }, 1);
    s.inject(seg(0).flags(S).seq(0).option(capable_with(capable(None, None, None), 1, syn)));
    let answer = flags_of(&s.expect(seg(0).flags(SA)));
    let keys = capable(Some(KEY_A), s.own_key, None);
    s.inject(ack(0, 1).seq(1).option(capable_with(keys, 1, third)));
    s.write(100);
    let sent = s.expect(data(0, 1, 100).map(0, 1, 100));
    (answer, sent.options.dss.unwrap().mapping.unwrap().checksum.is_some())
}

// RFC 8684 section 3.1, row I29: the listener's side; a client that learns of it late signals it in the third
// ACK.
#[test]
fn the_listener_learns_the_request_from_the_syn_or_the_third_ack() {
    assert_eq!(server_after(Checksums::IfAsked, 0x01, 0x01), (0x01, false));
    assert_eq!(server_after(Checksums::IfAsked, 0x81, 0x81), (0x81, true));
    assert_eq!(server_after(Checksums::IfAsked, 0x01, 0x81), (0x01, true));
    assert_eq!(server_after(Checksums::Required, 0x01, 0x81), (0x81, true));
}

// RFC 8684 section 3.1, row I30: a host that refuses checksums treats an MP_CAPABLE with flag A as invalid.
#[test]
fn a_checksum_that_is_refused_makes_a_plain_tcp() {
    let refused = || ConnectionConfig { checksums: Checksums::Refused, ..config() };
    let mut s = Script::connecting(refused(), 1);
    s.expect(seg(0).flags(S));
    let wanted = capable_with(capable(Some(KEY_B), None, None), 1, 0x81);
    s.inject(seg(0).flags(SA).seq(0).ack(1).option(wanted));
    s.expect(ack(0, 1).no_mptcp());
    let mut s = Script::listening(refused(), 1);
    s.inject(seg(0).flags(S).seq(0).option(capable_with(capable(None, None, None), 1, 0x81)));
    s.expect(seg(0).flags(SA).no_mptcp());
}

// RFC 8684 section 3.3.1, rows M1, M6: each mapping has its checksum, over all of its bytes; a retransmission
// that begins inside repeats both.
#[test]
fn each_mapping_has_its_checksum_and_keeps_it() {
    let mut s = Script::client(required());
    s.write(1999);
    s.expect(data(0, 1, 1000).map(0, 1, 1000).checked());
    s.expect(data(0, 1001, 999).map(1000, 1001, 999).checked());
    s.inject(ack(0, 1401).data_ack(1000));
    let again = s.wait_until_sent(2000);
    assert_eq!(again.len(), 1, "{again:?}");
    let map = again[0].options.dss.unwrap().mapping.unwrap();
    let first = crypto::initial_dsn(s.own()).add(1);
    assert_eq!((map.ssn, map.len), (1001, 999));
    assert_eq!(map.checksum, Some(checksum::of_mapping(first.add(1000), 1001, 999, sum_of(1000, 999))));
}

// RFC 8684 section 3.3.1, row M6: also if the option contains only half of the number.
#[test]
fn the_pseudo_header_has_the_full_dsn() {
    let narrow = ConnectionConfig { dsn_width: anabranch_stack::config::DsnWidth::Narrow, ..required() };
    let mut s = Script::client(narrow);
    s.write(10);
    let sent = s.expect(data(0, 1, 10).map32(0, 1, 10));
    let first = crypto::initial_dsn(s.own()).add(1);
    let right = checksum::of_mapping(first, 1, 10, sum_of(0, 10));
    assert_eq!(sent.options.dss.unwrap().mapping.unwrap().checksum, Some(right));
}

// RFC 8684 section 3.1, row I13: the first data, whose mapping is in MP_CAPABLE, has one too, and the same
// one when a DSS repeats the mapping.
#[test]
fn the_first_data_has_a_checksum_beside_the_keys() {
    let mut s = Script::client_of(required(), 1);
    s.write(10);
    let sent = s.expect(data(0, 1, 10).no_dss());
    let right = checksum::of_mapping(crypto::initial_dsn(s.own()).add(1), 1, 10, sum_of(0, 10));
    let said = sent.options.mptcp.iter().flatten().find_map(|option| match option {
        MptcpOption::Capable(Capable { data_len: Some(10), checksum, flags: 0x81, .. }) => *checksum,
        _ => None,
    });
    assert_eq!(said, Some(right));
    s.inject(ack(0, 1).data_ack(0));
    let again = s.wait_until_sent(2000);
    assert_eq!(again[0].options.dss.unwrap().mapping.unwrap().checksum, Some(right));
}

// RFC 8684 section 3.3.3, row X5: the checksum of a DATA_FIN alone covers the pseudo-header; with data its
// octet is included only in the length (trap T17).
#[test]
fn the_data_fin_has_a_checksum() {
    let mut s = Script::client(required());
    s.write(10);
    s.expect(data(0, 1, 10).map(0, 1, 10).checked());
    s.close();
    s.expect(ack(0, 1).seq(11).map(10, 0, 1).data_fin().checked());
    let mut s = Script::client(required());
    s.write(3000);
    s.expect_data(0, 1, 3);
    s.write(10_000);
    s.expect_data(0, 3001, 7);
    s.close();
    s.inject(ack(0, 10_001).data_ack(10_000));
    s.expect(data(0, 10_001, 1000).map(10_000, 10_001, 1000).checked());
    s.expect(data(0, 11_001, 1000).map(11_000, 11_001, 1000).checked());
    s.expect(data(0, 12_001, 1000).map(12_000, 12_001, 1001).data_fin().checked());
}
