//! ICMP errors as routers and hosts send them.

use anabranch_stack::segment::{Address, Segment};
use anabranch_stack::seq::Seq;
use anabranch_wire::{IcmpError, IcmpKind, checksum, parse_icmp};

use crate::kit::{ACK, packet_of, segment, v6};

/// Returns an ICMP message from a router about the first `quoted` bytes of `packet`.
fn error_v4(kind: u8, code: u8, rest: u32, packet: &[u8], quoted: usize) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(rest.to_be_bytes());
    message.extend(&packet[..quoted]);
    let sum = !checksum::sum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let total = (20 + message.len()) as u16;
    let mut out = vec![0x45, 0xc0, (total >> 8) as u8, total as u8, 0, 1, 0, 0, 61, 1, 0, 0];
    out.extend([203, 0, 113, 9, 192, 0, 2, 1]);
    let sum = !checksum::sum(&out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend(message);
    out
}

fn error_v6(kind: u8, code: u8, rest: u32, packet: &[u8], quoted: usize) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(rest.to_be_bytes());
    message.extend(&packet[..quoted]);
    let len = message.len() as u16;
    let mut out = vec![0x60, 0, 0, 0, (len >> 8) as u8, len as u8, 58, 61];
    let router = core::net::Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9);
    let core::net::IpAddr::V6(host) = v6().0.ip else { unreachable!() };
    out.extend(router.octets());
    out.extend(host.octets());
    let pseudo = checksum::combine(checksum::sum(&out[8..40]), len + 58);
    let sum = !checksum::combine(pseudo, checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    out.extend(message);
    out
}

fn sent_v4() -> (Vec<u8>, IcmpError) {
    let segment = Segment { payload_len: 1400, ..segment(ACK) };
    let error = IcmpError {
        source: segment.source,
        destination: segment.destination,
        seq: segment.seq,
        kind: IcmpKind::TooBig { mtu: Some(1280) },
        packet_len: 1440,
    };
    (packet_of(&segment), error)
}

#[test]
fn a_packet_too_long_names_the_next_mtu() {
    let (packet, expected) = sent_v4();
    for quoted in [28, 40, 548] {
        assert_eq!(parse_icmp(&error_v4(3, 4, 1280, &packet, quoted)), Some(expected));
    }
    // The upper half was unused before RFC 4884.
    assert_eq!(parse_icmp(&error_v4(3, 4, 0x0011_0500, &packet, 28)), Some(expected));
    let silent = IcmpError { kind: IcmpKind::TooBig { mtu: None }, ..expected };
    assert_eq!(parse_icmp(&error_v4(3, 4, 0, &packet, 28)), Some(silent));

    let (source, destination) = v6();
    let segment = Segment { payload_len: 1400, ..Segment::new(source, destination, Seq(5), ACK) };
    let packet = packet_of(&segment);
    let expected = IcmpError { source, destination, seq: Seq(5), packet_len: 1460, ..expected };
    for quoted in [48, 1232] {
        assert_eq!(parse_icmp(&error_v6(2, 0, 1280, &packet, quoted)), Some(expected));
    }
}

#[test]
fn other_errors_say_what_they_are() {
    let (packet, expected) = sent_v4();
    let of = |kind, code| parse_icmp(&error_v4(kind, code, 0, &packet, 28)).map(|error| error.kind);
    assert_eq!(of(3, 1), Some(IcmpKind::Unreachable { code: 1 }));
    assert_eq!(of(3, 13), Some(IcmpKind::Unreachable { code: 13 }));
    assert_eq!(of(11, 0), Some(IcmpKind::Other));
    // Source quench and redirects are not acted on; an echo is not an error.
    assert_eq!(of(4, 0), None);
    assert_eq!(of(5, 0), None);
    assert_eq!(of(8, 0), None);
    assert_eq!(expected.source, Address::new([192, 0, 2, 1].into(), 4001));
    let (source, destination) = v6();
    let packet = packet_of(&Segment::new(source, destination, Seq(5), ACK));
    let of = |kind, code| parse_icmp(&error_v6(kind, code, 0, &packet, 48)).map(|error| error.kind);
    assert_eq!(of(1, 4), Some(IcmpKind::Unreachable { code: 4 }));
    assert_eq!(of(3, 0), Some(IcmpKind::Other));
    assert_eq!(of(135, 0), None);
}

#[test]
fn what_is_short_damaged_or_about_others_is_nothing() {
    let (packet, _) = sent_v4();
    let good = error_v4(3, 4, 1280, &packet, 28);
    for len in 0..good.len() {
        assert_eq!(parse_icmp(&good[..len]), None);
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert_eq!(parse_icmp(&bad), None, "byte {at}");
    }
    for quoted in 0..28 {
        assert_eq!(parse_icmp(&error_v4(3, 4, 1280, &packet, quoted)), None);
    }
    let mut datagram = packet.clone();
    datagram[9] = 17;
    assert_eq!(parse_icmp(&error_v4(3, 3, 0, &datagram, 28)), None);
    // A later fragment has no ports.
    let mut fragment = packet.clone();
    fragment[7] = 9;
    assert_eq!(parse_icmp(&error_v4(3, 4, 1280, &fragment, 28)), None);
    assert_eq!(parse_icmp(&packet), None);
    let (source, destination) = v6();
    let other = packet_of(&Segment::new(source, destination, Seq(5), ACK));
    assert_eq!(parse_icmp(&error_v4(3, 4, 1280, &other, 60)), None);
}
