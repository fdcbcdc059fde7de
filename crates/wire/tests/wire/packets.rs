//! Whole packets: IPv4 and IPv6 headers, lengths, checksums.

use anabranch_stack::segment::{Address, Ecn, Flags, Segment};
use anabranch_stack::seq::Seq;
use anabranch_wire::{
    Checksum, Checksums, EmitError, IpFields, ParseError, checksum, emit, emit_header, mark_congestion, parse,
};

use crate::kit::{ACK, SYN, hex, packet_of, packet_with, reseal, segment, v4, v6};

/// A SYN with MP_CAPABLE in the layout of a Linux client; its checksums are corrected below.
const LINUX_SYN: &str = "4500 0040 1c46 4000 4006 d28e c0a8 0001 c0a8 00c7 \
    a3c4 0050 5ad3 1a25 0000 0000 b002 faf0 0000 0000 \
    0204 05b4 0402 080a 9d1c 3ab5 0000 0000 0103 0307 1e04 0101";

#[test]
fn a_syn_in_the_layout_of_linux_is_written_again_byte_for_byte() {
    let mut packet = hex(LINUX_SYN);
    packet[2..4].copy_from_slice(&64_u16.to_be_bytes());
    reseal(&mut packet);
    let parsed = parse(&packet, Checksums::Verify).expect("a whole packet");
    assert_eq!(parsed.segment.source, Address::new([192, 168, 0, 1].into(), 0xa3c4));
    assert_eq!(parsed.segment.flags, Flags::SYN);
    assert_eq!(parsed.payload, 64..64);
    let ip = IpFields { hop_limit: 64, identification: 0x1c46 };
    let mut again = [0xaa; 64];
    assert_eq!(emit(&parsed.segment, &ip, Checksum::Full, &mut again, |_| {}), Ok(64));
    assert_eq!(again[..], packet[..]);
}

#[test]
fn a_checksum_worked_out_by_hand() {
    let from = Address::new([10, 0, 0, 1].into(), 1);
    let to = Address::new([10, 0, 0, 2].into(), 2);
    let mut segment = Segment { payload_len: 3, ..Segment::new(from, to, Seq(0x0001_0002), ACK) };
    segment.ack = Seq(0x0003_0004);
    segment.window = 5;
    let mut out = [0; 43];
    let write = |payload: &mut [u8]| payload.copy_from_slice(&[1, 2, 3]);
    emit(&segment, &IpFields::default(), Checksum::Full, &mut out, write).expect("space");
    // Addresses 0a00+0001+0a00+0002, protocol 0006, length 0017; ports 0001+0002; 0001+0002; 0003+0004;
    // 5010; 0005; payload 0102+0300: 6848, and its inverse.
    let by_hand: u16 = 0x0a00 + 1 + 0x0a00 + 2 + 6 + 0x17 + 3 + 3 + 7 + 0x5010 + 5 + 0x0102 + 0x0300;
    assert_eq!(out[36..38], (!by_hand).to_be_bytes());
    // IPv4's: 4500+002b+0000+4000+4006+0a00+0001+0a00+0002.
    let header: u16 = 0x4500 + 0x2b + 0x4000 + 0x4006 + 0x0a00 + 1 + 0x0a00 + 2;
    assert_eq!(out[10..12], (!header).to_be_bytes());
}

#[test]
fn wrong_checksums_are_refused_unless_they_are_trusted() {
    let good = Segment { payload_len: 101, ..segment(ACK) };
    for at in [0, 5, 10, 14, 30, 36, 45, 140] {
        let mut packet = packet_of(&good);
        packet[at] ^= 0x20;
        let result = parse(&packet, Checksums::Verify);
        assert!(result.is_err(), "a flipped bit of byte {at} is seen");
    }
    let mut packet = packet_of(&good);
    packet[100] ^= 1;
    assert_eq!(parse(&packet, Checksums::Verify), Err(ParseError::TcpChecksum));
    assert_eq!(parse(&packet, Checksums::Trust).map(|parsed| parsed.segment), Ok(good));
    let mut packet = packet_of(&good);
    packet[8] ^= 1;
    assert_eq!(parse(&packet, Checksums::Verify), Err(ParseError::IpChecksum));
}

#[test]
fn an_odd_payload_and_ipv6_have_right_checksums() {
    for (from, to) in [v4(), v6()] {
        for payload_len in [0, 1, 2, 3, 1399, 1400] {
            let segment = Segment { payload_len, ..Segment::new(from, to, Seq(9), ACK) };
            let packet = packet_of(&segment);
            let parsed = parse(&packet, Checksums::Verify).expect("right checksums");
            let payload_sum = checksum::sum(&packet[parsed.payload.clone()]);
            assert_eq!(parsed.segment, Segment { payload_sum, ..segment });
            assert_eq!(parsed.payload.len(), payload_len as usize);
            let sum = |checksums| parse(&packet, checksums).map(|parsed| parsed.segment.payload_sum);
            assert_eq!(sum(Checksums::Trust), Ok(0));
            assert_eq!(sum(Checksums::TrustAndSum), Ok(payload_sum));
        }
    }
}

#[test]
fn the_offloaded_checksum_is_completed_by_summing_from_the_tcp_header() {
    for (from, to) in [v4(), v6()] {
        let segment = Segment { payload_len: 333, ..Segment::new(from, to, Seq(9), ACK) };
        let full = packet_of(&segment);
        let mut packet = full.clone();
        let header = emit_header(&segment, &IpFields::default(), &mut packet).expect("space");
        header.finish(&mut packet, Checksum::Offload);
        assert_ne!(packet, full);
        // The device completes the checksum (virtio 1.2 section 5.1.6.2).
        let start = header.ip_len();
        let sum = !checksum::sum(&packet[start..]);
        packet[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(packet, full);
    }
}

#[test]
fn the_payload_may_be_summed_while_it_is_copied() {
    let segment = Segment { payload_len: 77, ..segment(ACK) };
    let full = packet_of(&segment);
    let mut packet = vec![0; full.len()];
    let header = emit_header(&segment, &IpFields::default(), &mut packet).expect("space");
    let (first, second) = full[header.len()..].split_at(31);
    let one = checksum::copy_and_sum(first, &mut packet[header.len()..]);
    let two = checksum::copy_and_sum(second, &mut packet[header.len() + 31..]);
    header.finish_with_sum(&mut packet, Checksum::Full, checksum::concat(one, 31, two));
    assert_eq!(packet, full);
}

#[test]
fn ip_options_and_extension_headers_are_skipped() {
    let segment = Segment { payload_len: 4, ..segment(ACK) };
    let plain = packet_of(&segment);
    // Record route of one address.
    let mut packet = plain[..20].to_vec();
    packet.extend(hex("07 07 04 00000000 00"));
    packet.extend(&plain[20..]);
    packet[0] = 0x47;
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    reseal(&mut packet);
    assert!(parse(&packet, Checksums::Verify).is_ok());
    let parsed = parse(&packet, Checksums::Trust).expect("a whole packet");
    assert_eq!((parsed.segment, parsed.payload), (segment, 48..52));

    let segment = Segment { payload_len: 4, ..Segment::new(v6().0, v6().1, Seq(9), ACK) };
    let plain = packet_of(&segment);
    // Hop-by-hop, destination options of 16 bytes, routing without segments left, an atomic fragment.
    let extensions = "3c00 0104 00000000 2b01 010c 00000000 00000000 00000000 2c00 0400 00000000 \
         0600 0000 12345678";
    let mut packet = plain[..40].to_vec();
    packet.extend(hex(extensions));
    packet.extend(&plain[40..]);
    packet[6] = 0;
    let len = packet.len() as u16 - 40;
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    assert!(parse(&packet, Checksums::Verify).is_ok());
    let parsed = parse(&packet, Checksums::Trust).expect("a whole packet");
    assert_eq!((parsed.segment, parsed.payload), (segment, 100..104));
}

#[test]
fn fragments_are_refused() {
    for bits in [0x2000_u16, 0x0001, 0x1fff] {
        let mut packet = packet_of(&segment(ACK));
        packet[6..8].copy_from_slice(&bits.to_be_bytes());
        reseal(&mut packet);
        assert_eq!(parse(&packet, Checksums::Verify), Err(ParseError::Fragment));
    }
    for bits in ["0001", "0008", "fff9"] {
        let mut packet = packet_of(&Segment::new(v6().0, v6().1, Seq(9), SYN));
        packet[6] = 44;
        packet.splice(40..40, hex(&format!("0600 {bits} 12345678")));
        packet[5] += 8;
        assert_eq!(parse(&packet, Checksums::Verify), Err(ParseError::Fragment));
    }
}

#[test]
fn the_length_of_the_ip_header_counts() {
    let segment = Segment { payload_len: 6, ..segment(ACK) };
    let mut packet = packet_of(&segment);
    packet.extend([0xee; 6]);
    assert!(parse(&packet, Checksums::Verify).is_ok());
    let parsed = parse(&packet, Checksums::Trust).expect("padding is no part of it");
    assert_eq!((parsed.segment, parsed.payload), (segment, 40..46));
    let packet = packet_of(&segment);
    for len in 0..packet.len() {
        assert_eq!(parse(&packet[..len], Checksums::Verify), Err(ParseError::Truncated), "{len} bytes");
    }
}

#[test]
fn what_is_not_tcp_says_so() {
    assert_eq!(parse(&[], Checksums::Verify), Err(ParseError::Truncated));
    assert_eq!(parse(&[0x50; 60], Checksums::Verify), Err(ParseError::IpVersion(5)));
    let mut packet = packet_of(&segment(ACK));
    packet[9] = 17;
    reseal(&mut packet);
    assert_eq!(parse(&packet, Checksums::Verify), Err(ParseError::Protocol(17)));
    // A router solicitation is the first packet that a TUN device delivers.
    let solicitation =
        hex("6000000000083aff fe800000000000000000000000000001 ff020000000000000000000000000002 \
         8500 7bb8 00000000");
    assert_eq!(parse(&solicitation, Checksums::Verify), Err(ParseError::Protocol(58)));
    for (offset, error) in [(4, ParseError::TcpHeader), (6, ParseError::TcpHeader)] {
        let mut packet = packet_of(&segment(ACK));
        packet[32] = offset << 4;
        reseal(&mut packet);
        assert_eq!(parse(&packet, Checksums::Verify), Err(error));
    }
    for len in [0, 19] {
        let mut packet = packet_of(&segment(ACK));
        packet[2..4].copy_from_slice(&u16::to_be_bytes(len));
        assert_eq!(parse(&packet, Checksums::Trust), Err(ParseError::IpHeader));
    }
}

#[test]
fn congestion_bits_travel_in_both_families() {
    for (from, to) in [v4(), v6()] {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ce] {
            let flags = ACK.with(Flags::ECE).with(Flags::CWR);
            let segment = Segment { ecn, ..Segment::new(from, to, Seq(9), flags) };
            let parsed = parse(&packet_of(&segment), Checksums::Verify);
            assert_eq!(parsed.map(|parsed| parsed.segment), Ok(segment));
        }
    }
    // ECT(1) is equivalent (RFC 3168 section 5).
    let mut packet = packet_of(&segment(ACK));
    packet[1] = 1;
    reseal(&mut packet);
    assert_eq!(parse(&packet, Checksums::Verify).map(|parsed| parsed.segment.ecn), Ok(Ecn::Ect0));
}

#[test]
fn a_router_marks_what_may_be_marked_and_keeps_the_checksum() {
    for (from, to) in [v4(), v6()] {
        for (before, after) in [(Ecn::NotEct, Ecn::NotEct), (Ecn::Ect0, Ecn::Ce), (Ecn::Ce, Ecn::Ce)] {
            for seq in 0..300 {
                // Many headers, so that every carry of the sum happens.
                let segment =
                    Segment { ecn: before, payload_len: seq, ..Segment::new(from, to, Seq(seq), ACK) };
                let mut packet = packet_of(&segment);
                assert_eq!(mark_congestion(&mut packet), before != Ecn::NotEct);
                let parsed = parse(&packet, Checksums::Verify).expect("its checksums are right");
                assert_eq!(parsed.segment.ecn, after);
            }
        }
    }
    for mut junk in [vec![], vec![0x45], vec![0x60], vec![0x12; 40]] {
        assert!(!mark_congestion(&mut junk));
    }
}

#[test]
fn urgent_data_is_ordinary_and_never_sent() {
    let mut packet = packet_with(ACK, &[], 10);
    packet[33] |= 0x20;
    packet[39] = 5;
    reseal(&mut packet);
    let parsed = parse(&packet, Checksums::Verify).expect("a whole packet");
    assert_eq!((parsed.segment.flags, parsed.payload.len()), (ACK, 10));
    let urgent = Segment { flags: Flags(0x30), ..segment(ACK) };
    assert_eq!(packet_of(&urgent)[33], 0x10);
}

#[test]
fn errors_of_writing() {
    let mut out = [0; 100];
    let mut long = Segment { payload_len: 65_496, ..segment(ACK) };
    let ip = IpFields::default();
    assert_eq!(emit_header(&long, &ip, &mut out).err(), Some(EmitError::TooLong));
    long.payload_len = u32::MAX;
    assert_eq!(emit_header(&long, &ip, &mut out).err(), Some(EmitError::TooLong));
    long.payload_len = 65_495;
    assert!(emit_header(&long, &ip, &mut out).is_ok());
    assert_eq!(
        emit(&long, &ip, Checksum::Full, &mut out, |_| {}).err(),
        Some(EmitError::NoSpace { needed: 65_535 })
    );
    assert_eq!(emit_header(&long, &ip, &mut out[..39]).err(), Some(EmitError::NoSpace { needed: 40 }));
    let mixed = Segment { destination: v6().1, ..segment(ACK) };
    assert_eq!(emit_header(&mixed, &ip, &mut out).err(), Some(EmitError::MixedFamilies));
}
