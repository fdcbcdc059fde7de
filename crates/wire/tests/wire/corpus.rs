//! The corpus of the fuzz target, with random mutations.

use anabranch_units::RandomStream;
use anabranch_wire::{Checksums, parse, parse_icmp};

use crate::chew::chew;

/// Returns the packets in `fuzz/corpus/packet`, in the order of their names.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/packet");
    let mut packets: Vec<(String, Vec<u8>)> = std::fs::read_dir(directory)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).expect("a packet"))
        })
        .collect();
    packets.sort();
    packets
}

#[test]
fn every_packet_of_the_corpus() {
    let packets = corpus();
    assert!(packets.len() > 30, "{}", packets.len());
    for (name, packet) in &packets {
        chew(packet);
        // The seeds are whole packets, so that mutations begin after the checksums.
        let read = parse(packet, Checksums::Verify).is_ok() || parse_icmp(packet).is_some();
        assert!(read || name == "v4-fragment" || name.len() == 40, "{name}");
    }
}

#[test]
fn two_hundred_thousand_changes_of_the_corpus() {
    let packets = corpus();
    let mut stream = RandomStream::new(8684, "corpus");
    let mut below = |bound: usize| stream.below(bound.max(1) as u64) as usize;
    for _ in 0..200_000 {
        let mut packet = packets[below(packets.len())].1.clone();
        for _ in 0..=below(4) {
            let at = below(packet.len());
            match below(7) {
                0 | 1 => packet[at] = below(256) as u8,
                2 => packet[at] ^= 1 << below(8),
                // Lengths and kinds: small numbers and the limits of others.
                3 => packet[at] = [0, 1, 2, 3, 4, 5, 8, 12, 20, 30, 40, 0x7f, 0xff][below(13)],
                4 => packet.truncate(at + 1),
                5 => {
                    let other = &packets[below(packets.len())].1;
                    let from = below(other.len());
                    packet.truncate(at + 1);
                    packet.extend(&other[from..]);
                }
                _ => {
                    let end = (at + 1 + below(12)).min(packet.len());
                    let part = packet[at..end].to_vec();
                    packet.splice(at..at, part);
                }
            }
            // Consistent lengths are produced too.
            if below(2) == 0 && packet.len() > 20 && packet[0] >> 4 == 4 {
                let total = (packet.len() as u16).to_be_bytes();
                packet[2..4].copy_from_slice(&total);
            }
        }
        chew(&packet);
    }
}
