//! Any bytes give a segment or an error, and every segment that was read can be written.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::chew::chew;
use crate::kit::{ACK, RST, SYN, SYN_ACK, packet_of, packet_with};
use crate::roundtrip::segments;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn noise(bytes in vec(any::<u8>(), 0..200), first in prop::sample::select(&[0x45_u8, 0x46, 0x4f, 0x60])) {
        chew(&bytes);
        let mut bytes = bytes;
        if !bytes.is_empty() {
            bytes[0] = first;
            if bytes.len() > 9 {
                bytes[if first == 0x60 { 6 } else { 9 }] = 6;
            }
        }
        chew(&bytes);
    }

    #[test]
    fn option_noise(
        options in vec(prop_oneof![any::<u8>(), 0_u8..=12, Just(30), Just(1)], 0..=40),
        flags in prop::sample::select(&[SYN, SYN_ACK, ACK, RST]),
        payload in 0_usize..20,
    ) {
        chew(&packet_with(flags, &options, payload));
    }

    #[test]
    fn plausible_mptcp_options(
        parts in vec((any::<u8>(), 3_u8..=30, any::<[u8; 28]>()), 1..4),
        flags in prop::sample::select(&[SYN, SYN_ACK, ACK, RST]),
    ) {
        let mut options = Vec::new();
        for (subtype, len, body) in parts {
            options.extend([30, len, subtype]);
            options.extend(&body[..usize::from(len) - 3]);
        }
        options.truncate(40);
        chew(&packet_with(flags, &options, 7));
    }

    #[test]
    fn damaged_packets(
        segment in segments(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut packet = packet_of(&segment);
        for (at, byte) in flips {
            let at = at.index(packet.len().min(100));
            packet[at] ^= byte;
        }
        if let Some(cut) = cut {
            packet.truncate(cut.index(packet.len()));
        }
        chew(&packet);
    }
}
