//! Captures without payload and with other addresses.

use std::net::{IpAddr, Ipv4Addr};

use anabranch_inspect::Anonymiser;
use anabranch_inspect::capture::{Merged, Reader};
use proptest::prelude::*;

use crate::kit::{inspect, of_tcpdump, two_paths};

const KEY: [u8; 32] = [7; 32];

fn merged(bytes: &[u8]) -> Option<Merged> {
    Some(Merged::new(vec![Reader::new("capture", Box::new(std::io::Cursor::new(bytes.to_vec()))).ok()?]))
}

/// Returns the capture for others, the packets in it, and those left out.
fn anonymised(bytes: &[u8], key: [u8; 32]) -> Option<(Vec<u8>, u64, u64)> {
    let mut captures = merged(bytes)?;
    let mut anonymiser = Anonymiser::new(Vec::new(), key).unwrap();
    while captures.advance().ok()? {
        if let Some((file, frame)) = captures.frame() {
            anonymiser.on_frame(file, &frame).unwrap();
        }
    }
    Some(anonymiser.finish().unwrap())
}

/// Returns the packets of a pcapng from the IP header on.
fn packets(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut captures = merged(bytes).unwrap();
    let mut found = Vec::new();
    while captures.advance().unwrap() {
        found.push(captures.frame().unwrap().1.bytes.to_vec());
    }
    found
}

/// Returns the two addresses of an IPv4 packet.
fn addresses(packet: &[u8]) -> [Ipv4Addr; 2] {
    [12, 16].map(|at| Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap()))
}

/// The number of leading bits that two addresses share.
fn shared(a: Ipv4Addr, b: Ipv4Addr) -> u32 {
    (a.to_bits() ^ b.to_bits()).leading_zeros()
}

#[test]
fn the_figures_are_the_same_and_addresses_and_payload_are_gone() {
    let capture = two_paths();
    let (shown, written, _) = anonymised(&capture, KEY).unwrap();
    let (before, after) = (inspect(&[&capture]).unwrap(), inspect(&[&shown]).unwrap());
    let (before, after) = (&before.connections, &after.connections);
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(after) {
        assert_ne!(before.client, after.client);
        assert_eq!(format!("{:?}", before.streams), format!("{:?}", after.streams));
        assert_eq!(before.tokens, after.tokens);
        assert!(after.faults.is_empty(), "{:?}", after.faults);
        for (before, after) in before.subflows.iter().zip(&after.subflows) {
            assert_eq!(format!("{:?}", before.directions), format!("{:?}", after.directions));
        }
    }
    let packets = packets(&shown);
    assert_eq!(packets.len() as u64, written);
    assert!(packets.iter().all(|packet| packet.len() <= 20 + 60), "there is payload");
    // The sum over a header with its checksum is all ones (RFC 1071).
    assert!(packets.iter().all(|packet| anabranch_wire::checksum::sum(&packet[..20]) == 0xffff));
    let original = crate::kit::packets(&capture);
    for address in addresses(&original[0].bytes) {
        let bytes = address.octets();
        assert!(!shown.windows(4).any(|window| window == bytes), "{address} is still there");
    }
}

#[test]
fn addresses_share_prefixes_as_before_and_another_key_gives_others() {
    let original: Vec<[Ipv4Addr; 2]> =
        crate::kit::packets(&two_paths()).iter().map(|packet| addresses(&packet.bytes)).collect();
    let of = |key| -> Vec<[Ipv4Addr; 2]> {
        packets(&anonymised(&two_paths(), key).unwrap().0).iter().map(|packet| addresses(packet)).collect()
    };
    let (first, second) = (of(KEY), of([8; 32]));
    assert_eq!(original.len(), first.len());
    assert_ne!(first, second);
    for (a, x) in original.iter().zip(&first) {
        for (b, y) in original.iter().zip(&first).take(50) {
            assert_eq!(shared(a[0], b[0]), shared(x[0], y[0]));
            assert_eq!(shared(a[0], b[1]), shared(x[0], y[1]));
        }
    }
}

#[test]
fn an_announced_address_is_renumbered_too_and_its_code_is_no_fault() {
    let capture = of_tcpdump("aa-v1");
    let shown = anonymised(&capture, KEY).unwrap().0;
    let inspection = inspect(&[&shown]).unwrap();
    let connection = &inspection.connections[0];
    let announced: IpAddr = connection.addresses[0].address.parse().unwrap();
    assert_ne!(announced, IpAddr::from([192, 168, 136, 225]));
    assert!(connection.faults.iter().all(|fault| fault.rule != "RFC 8684 3.4.1"), "{:?}", connection.faults);
    assert!(!shown.windows(4).any(|window| window == [192, 168, 136, 225]));
}

#[test]
fn packets_that_are_left_out_are_counted() {
    let capture = two_paths();
    let (_, written, left_out) = anonymised(&capture, KEY).unwrap();
    assert_eq!(written + left_out, inspect(&[&capture]).unwrap().files[0].packets);
}

proptest! {
    #[test]
    fn damaged_captures_are_written_without_panic(
        name in prop::sample::select(vec!["aa-v1", "v0", "fclose", "dss-oobr"]),
        damage in prop::collection::vec((40_usize..3000, any::<u8>()), 1..30),
    ) {
        let mut bytes = of_tcpdump(name);
        for (at, value) in damage {
            let len = bytes.len();
            bytes[at % len] = value;
        }
        if let Some((shown, written, _)) = anonymised(&bytes, KEY) {
            prop_assert_eq!(packets(&shown).len() as u64, written);
        }
    }
}
