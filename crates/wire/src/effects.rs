//! The effects of a link on the bytes of a packet.

use anabranch_link::{Effect, Effects};

use crate::mark_congestion;

/// Applies the effects of a link to an IP packet.
///
/// A corrupted packet has one bit after its IP header inverted. A hash of the packet selects the bit, so that the same
/// packet is damaged in the same place. The Internet checksum of its transport finds every single bit.
pub fn apply(effects: Effects, packet: &mut [u8]) {
    if effects.has(Effect::Marked) {
        mark_congestion(packet);
    }
    if effects.has(Effect::Corrupted) {
        corrupt(packet);
    }
}

fn corrupt(packet: &mut [u8]) {
    let header = match packet.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 15) * 4,
        _ => 40,
    };
    let Some(transport) = packet.get_mut(header..).filter(|transport| !transport.is_empty()) else { return };
    // FNV-1a.
    let hash = transport.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let bit = ((u128::from(hash) * (transport.len() as u128 * 8)) >> 64) as usize;
    transport[bit / 8] ^= 1 << (bit % 8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checksum, Checksums, IpFields, ParseError, emit, parse};
    use anabranch_stack::segment::{Address, Flags, Segment};
    use anabranch_stack::seq::Seq;
    use core::net::IpAddr;

    /// Packets with this many bytes of payload, each with other bytes.
    fn packet(ips: [&str; 2], payload: u32, fill: u8) -> Vec<u8> {
        let [source, destination] = ips.map(|ip| Address::new(ip.parse::<IpAddr>().unwrap(), 2000));
        let segment =
            Segment { payload_len: payload, ..Segment::new(source, destination, Seq(9), Flags::ACK) };
        let mut bytes = vec![0; 2000];
        let filled = |space: &mut [u8]| space.fill(fill);
        let len = emit(&segment, &IpFields::default(), Checksum::Full, &mut bytes, filled).unwrap();
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn one_bit_of_a_corrupted_packet_differs_and_the_checksum_finds_it() {
        let corrupted = Effects::NONE.with_if(Effect::Corrupted, true);
        let mut places = std::collections::BTreeSet::new();
        for ips in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
            for (payload, fill) in [(0, 0), (1, 7), (1400, 3), (1400, 200), (999, 255)] {
                let before = packet(ips, payload, fill);
                let mut after = before.clone();
                apply(corrupted, &mut after);
                let differs = |at: &usize| before[*at] != after[*at];
                let at: Vec<usize> = (0..before.len()).filter(differs).collect();
                assert_eq!(at.len(), 1);
                assert_eq!((before[at[0]] ^ after[at[0]]).count_ones(), 1);
                assert!(parse(&before, Checksums::Verify).is_ok());
                // A damaged data offset is found before the sum.
                let error = parse(&after, Checksums::Verify).unwrap_err();
                assert!(matches!(error, ParseError::TcpChecksum | ParseError::TcpHeader), "{error}");
                places.insert(at[0]);
            }
        }
        assert!(places.len() > 5, "{places:?}");
        // A packet without anything after its header stays as it is.
        for junk in [vec![], vec![0x45; 20], vec![0x60; 40]] {
            let mut after = junk.clone();
            apply(corrupted, &mut after);
            assert_eq!(after, junk);
        }
    }
}
