//! Damaged and hostile captures: a result or a fault with a place, never a panic, and bounded memory.

use proptest::prelude::*;

use crate::kit::{inspect, of_tcpdump, two_paths};

/// A change of a file.
#[derive(Clone, Debug)]
enum Damage {
    /// A byte at a share of the length gets a value.
    Byte(f64, u8),
    /// Four bytes get the greatest value.
    Length(f64),
    /// The file ends there.
    Cut(f64),
    /// A part is repeated at another place.
    Copy(f64, f64, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => (0.0..1.0, any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        1 => (0.0..1.0).prop_map(Damage::Length),
        1 => (0.2..1.0).prop_map(Damage::Cut),
        1 => (0.0..1.0, 0.0..1.0, 1..200_usize).prop_map(|(from, to, len)| Damage::Copy(from, to, len)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let at = |share: f64, len: usize| ((share * len as f64) as usize).min(len.saturating_sub(1));
    let len = bytes.len();
    match damage {
        Damage::Byte(place, value) => bytes[at(*place, len)] = *value,
        Damage::Length(place) => {
            let start = at(*place, len);
            let end = (start + 4).min(len);
            bytes[start..end].fill(0xff);
        }
        Damage::Cut(place) => bytes.truncate(at(*place, len).max(1)),
        Damage::Copy(from, to, count) => {
            let (from, to) = (at(*from, len), at(*to, len));
            let part = bytes[from..(from + count).min(len)].to_vec();
            bytes.splice(to..to, part);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_capture_gives_a_result_or_a_fault(
        name in prop::sample::select(vec!["aa-echo", "aa-v1", "dss-oobr", "fclose", "tcprst", "v0", "v1"]),
        damages in prop::collection::vec(damage(), 1..40),
    ) {
        let mut bytes = of_tcpdump(name);
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        match inspect(&[&bytes]) {
            Ok(inspection) => prop_assert!(!inspection.connections.is_empty()),
            Err(fault) => prop_assert!(!fault.text.is_empty() && !fault.help.is_empty(), "{fault}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn damaged_packets_of_a_transfer_do_no_harm(places in prop::collection::vec((24_usize..123_000, any::<u8>()), 1..400)) {
        let mut bytes = two_paths();
        for (at, value) in places {
            // The headers of the file and of records stay, so that the packets are read.
            bytes[at] = value;
        }
        let _ = inspect(&[&bytes]);
    }

    #[test]
    fn noise_is_no_capture(mut bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0..4_usize) {
        let magics: [&[u8]; 4] = [
            &[0xd4, 0xc3, 0xb2, 0xa1],
            &[0x0a, 0x0d, 0x0d, 0x0a, 0x1c, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a],
            &[0x1f, 0x8b],
            &[],
        ];
        bytes.splice(0..0, magics[kind].iter().copied());
        let _ = inspect(&[&bytes]);
    }
}

#[test]
fn times_that_jump_back_and_forth_do_no_harm() {
    for name in ["aa-v1", "v0", "v1"] {
        let mut bytes = of_tcpdump(name);
        let (mut at, mut number) = (24, 0_u32);
        while at + 16 <= bytes.len() {
            let len = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
            // The first and the last second that a record can have.
            bytes[at..at + 4].copy_from_slice(&(number % 2 * u32::MAX).to_le_bytes());
            (at, number) = (at + 16 + len, number + 1);
        }
        assert!(number > 10, "{name}: {number}");
        assert!(!inspect(&[&bytes]).unwrap().connections.is_empty(), "{name}");
    }
}

#[test]
fn a_flood_of_connections_has_a_limit() {
    // SYNs of 40,000 ports.
    let mut file = Vec::new();
    file.extend([0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
    for value in [0_u32, 0, 65_535, 101] {
        file.extend(value.to_le_bytes());
    }
    for n in 0..40_000_u32 {
        let mut packet = vec![0_u8; 40];
        packet[0] = 0x45;
        packet[3] = 40;
        packet[9] = 6;
        packet[12..16].copy_from_slice(&n.to_be_bytes());
        packet[20..22].copy_from_slice(&[4, 1]);
        packet[22..24].copy_from_slice(&[0, 80]);
        packet[32] = 5 << 4;
        packet[33] = 2;
        for value in [n / 1000, n % 1000, 40, 40] {
            file.extend(value.to_le_bytes());
        }
        file.extend(packet);
    }
    let inspection = inspect(&[&file]).unwrap();
    assert_eq!(inspection.connections.len(), 32_768);
    assert_eq!(inspection.skipped.table_full, 40_000 - 32_768);
    assert!(inspection.notes.iter().any(|note| note.contains("were not followed")), "{:?}", inspection.notes);
}
