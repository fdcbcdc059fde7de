//! One capture in every format and link layer gives one result.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::kit::{Packet, connections, inspect, of_tcpdump, packets, two_paths};

/// The layout of a pcap file.
#[derive(Clone, Copy)]
struct Layout {
    big_endian: bool,
    nanoseconds: bool,
    link_type: u32,
}

fn put(out: &mut Vec<u8>, value: u32, big_endian: bool) {
    out.extend(if big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
}

fn pcap(packets: &[Packet], layout: Layout, before: &[u8]) -> Vec<u8> {
    let Layout { big_endian, nanoseconds, link_type } = layout;
    let mut out = Vec::new();
    put(&mut out, if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }, big_endian);
    out.extend(if big_endian { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    for value in [0, 0, 65_535, link_type] {
        put(&mut out, value, big_endian);
    }
    for packet in packets {
        let (seconds, nanos) = (packet.time.0 / 1_000_000_000, packet.time.0 % 1_000_000_000);
        put(&mut out, seconds as u32, big_endian);
        put(&mut out, (nanos / if nanoseconds { 1 } else { 1000 }) as u32, big_endian);
        put(&mut out, (packet.bytes.len() + before.len()) as u32, big_endian);
        put(&mut out, packet.original_len + before.len() as u32, big_endian);
        out.extend(before);
        out.extend(&packet.bytes);
    }
    out
}

/// Returns a pcapng with an interface for each half of the packets, with ticks of 10^-9 and of 2^-30 seconds.
fn pcapng(packets: &[Packet], big_endian: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let block = |out: &mut Vec<u8>, kind: u32, body: &[u8]| {
        let len = 12 + body.len().next_multiple_of(4) as u32;
        put(out, kind, big_endian);
        put(out, len, big_endian);
        out.extend(body);
        out.resize(out.len().next_multiple_of(4), 0);
        put(out, len, big_endian);
    };
    let two = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut body = Vec::new();
    put(&mut body, 0x1a2b_3c4d, big_endian);
    body.extend([two(1), two(0)].concat());
    body.extend([0xff; 8]);
    block(&mut out, 0x0a0d_0d0a, &body);
    for resolution in [9_u8, 0x80 | 30] {
        let mut body = [two(101), two(0)].concat();
        put(&mut body, 0, big_endian);
        body.extend([two(9), two(1)].concat());
        body.extend([resolution, 0, 0, 0]);
        block(&mut out, 1, &body);
    }
    // A block that is not known.
    block(&mut out, 0x0bad, &[1; 16]);
    for (number, packet) in packets.iter().enumerate() {
        let ticks = match number % 2 {
            0 => packet.time.0,
            // Rounded up, so that the time is the same microsecond.
            _ => ((u128::from(packet.time.0) << 30).div_ceil(1_000_000_000)) as u64,
        };
        let mut body = Vec::new();
        for value in [
            (number % 2) as u32,
            (ticks >> 32) as u32,
            ticks as u32,
            packet.bytes.len() as u32,
            packet.original_len,
        ] {
            put(&mut body, value, big_endian);
        }
        body.extend(&packet.bytes);
        block(&mut out, 6, &body);
    }
    out
}

#[test]
fn byte_orders_resolutions_and_link_layers_give_one_result() {
    let original = two_paths();
    let packets = packets(&original);
    let mut ethernet = vec![0; 12];
    ethernet.extend([0x08, 0x00]);
    let raw = Layout { big_endian: false, nanoseconds: false, link_type: 101 };
    let expected = connections(&inspect(&[&pcap(&packets, raw, &[])]).unwrap());
    let mut qinq = vec![0; 12];
    qinq.extend([0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x08, 0x00]);
    let mut mpls = vec![0; 12];
    mpls.extend([0x88, 0x47, 0, 1, 0x00, 64, 0, 1, 0x01, 64]);
    for (name, big_endian, nanoseconds, link_type, before) in [
        ("big endian", true, false, 101, &[][..]),
        ("nanoseconds", false, true, 101, &[]),
        ("both", true, true, 101, &[]),
        ("Ethernet", false, false, 1, &ethernet),
        ("QinQ", false, false, 1, &qinq),
        ("MPLS", false, false, 1, &mpls),
        ("loopback", false, false, 0, &[2, 0, 0, 0]),
        ("PPP", false, false, 9, &[0xff, 3, 0, 0x21]),
    ] {
        let file = pcap(&packets, Layout { big_endian, nanoseconds, link_type }, before);
        assert_eq!(connections(&inspect(&[&file]).unwrap()), expected, "{name}");
    }
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(&pcap(&packets, raw, &[])).unwrap();
    assert_eq!(connections(&inspect(&[&compressed.finish().unwrap()]).unwrap()), expected, "gzip");
    for big_endian in [false, true] {
        let file = pcapng(&packets, big_endian);
        assert_eq!(connections(&inspect(&[&file]).unwrap()), expected, "pcapng");
    }
    // With the directions of a cooked capture the place is known too.
    let cooked = connections(&inspect(&[&original]).unwrap());
    assert_eq!(cooked, expected);
}

#[test]
fn one_file_for_each_interface_is_one_connection() {
    let packets = packets(&two_paths());
    let raw = Layout { big_endian: false, nanoseconds: false, link_type: 101 };
    let expected = connections(&inspect(&[&pcap(&packets, raw, &[])]).unwrap());
    // The client's address is 10.0.1.1 or 10.0.2.1, at either place.
    let of = |path: u8| -> Vec<Packet> {
        let uses = |packet: &&Packet| {
            packet.bytes[14] == path && packet.bytes[13] == 0
                || packet.bytes[18] == path && packet.bytes[17] == 0
        };
        packets.iter().filter(uses).cloned().collect()
    };
    let (one, two) = (pcap(&of(1), raw, &[]), pcap(&of(2), raw, &[]));
    let merged = connections(&inspect(&[&one, &two]).unwrap());
    assert_eq!(merged, expected);
    // The handshake of the connection is in the other file.
    let second = inspect(&[&two]).unwrap();
    assert_eq!(second.connections[0].subflows.len(), 1);
    assert!(second.connections[0].connected_s.is_some(), "the join has its own handshake");
}

#[test]
fn subflows_without_handshakes_are_tied_by_their_data_sequence_numbers() {
    let packets = packets(&two_paths());
    let raw = Layout { big_endian: false, nanoseconds: false, link_type: 101 };
    // After both handshakes.
    let late: Vec<Packet> = packets.iter().skip(packets.len() / 3).cloned().collect();
    let inspection = inspect(&[&pcap(&late, raw, &[])]).unwrap();
    assert_eq!(inspection.connections.len(), 1);
    let connection = &inspection.connections[0];
    assert_eq!(connection.subflows.len(), 2);
    assert!(connection.by_continuity);
    let shares = connection.subflows.iter().map(|subflow| subflow.directions[1].share_pct);
    assert!(shares.clone().all(|share| share > 5.0), "{:?}", shares.collect::<Vec<_>>());
}

#[test]
fn a_capture_of_both_ends_has_one_page() {
    let packets = packets(&two_paths());
    let raw = Layout { big_endian: false, nanoseconds: false, link_type: 101 };
    let sender = pcap(&packets, raw, &[]);
    // The other end sees the packets later, as if its clock were ahead by 10 ms.
    let later: Vec<Packet> = packets
        .iter()
        .map(|packet| Packet { time: anabranch_units::Time(packet.time.0 + 10_000_000), ..packet.clone() })
        .collect();
    let inspection = inspect(&[&sender, &pcap(&later, raw, &[])]).unwrap();
    assert_eq!(inspection.connections.len(), 1);
    assert!(inspection.notes[0].contains("have the same connection"), "{:?}", inspection.notes);
}

#[test]
fn a_super_packet_without_an_ip_length_counts_as_its_segments() {
    let mut packets = packets(&two_paths());
    let expected =
        inspect(&[&pcap(&packets, Layout { big_endian: false, nanoseconds: false, link_type: 101 }, &[])])
            .unwrap();
    for packet in &mut packets {
        // As before segmentation offload: a length of 0, and checksums that are not complete.
        packet.bytes[2..4].fill(0);
        packet.bytes[10..12].fill(0);
    }
    let raw = Layout { big_endian: false, nanoseconds: false, link_type: 101 };
    let found = inspect(&[&pcap(&packets, raw, &[])]).unwrap();
    assert_eq!(connections(&found), connections(&expected));
}

#[test]
fn what_is_no_capture_is_named_with_the_fix() {
    let fault = |bytes: &[u8]| inspect(&[bytes]).unwrap_err().to_string();
    assert!(fault(b"").contains("is empty"), "{}", fault(b""));
    assert!(fault(b"hello, world").contains("is not a capture"));
    assert!(fault(&[0x28, 0xb5, 0x2f, 0xfd, 0]).contains("zstd -dc"));
    let whole = of_tcpdump("v1");
    assert!(fault(&whole[..10]).contains("within its header"), "{}", fault(&whole[..10]));
    assert!(fault(&whole[..24]).contains("no packets"), "{}", fault(&whole[..24]));
    let mut long = whole.clone();
    long[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let text = fault(&long);
    assert!(text.contains("packet 1 at byte 24") && text.contains("4294967295"), "{text}");
    let mut other = whole.clone();
    other[20] = 127;
    assert!(fault(&other).contains("link type 127"), "{}", fault(&other));
    // Times in units of 10^-20 seconds overflow.
    let ng = pcapng(&packets(&two_paths()), false);
    let at = ng.windows(5).position(|window| window == [9, 0, 1, 0, 9]).unwrap();
    let mut units = ng.clone();
    units[at + 4] = 20;
    assert!(fault(&units).contains("units that no clock has"), "{}", fault(&units));
    // A file that ends within a packet has the packets before it.
    let cut = inspect(&[&whole[..whole.len() - 5]]).unwrap();
    assert!(cut.notes[0].contains("within packet 20"), "{:?}", cut.notes);
}
