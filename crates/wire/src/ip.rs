//! The IP header: the addresses, and the extent of the TCP segment.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use anabranch_link::Label;
use anabranch_stack::segment::Ecn;

use crate::checksum;
use crate::error::ParseError;
use crate::fields::Reader;

/// The protocol number of TCP.
pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;
/// The protocol number of ICMP.
pub(crate) const ICMP: u8 = 1;
/// The next-header number of ICMPv6.
pub(crate) const ICMP_V6: u8 = 58;
/// The length of an IPv4 header without options.
pub(crate) const V4_LEN: usize = 20;
/// The length of an IPv6 header without extensions.
pub(crate) const V6_LEN: usize = 40;
/// The greatest number of extension headers accepted.
const MAX_EXTENSIONS: usize = 8;

/// Returns the sum of the pseudo-header of an ICMPv6 message of `len` bytes, with the protocol's own number
/// (RFC 4443 section 2.3).
pub(crate) fn covered_by_icmp_v6(source: IpAddr, destination: IpAddr, len: usize) -> u16 {
    checksum::combine(checksum::pseudo_header(source, destination, len), u16::from(ICMP_V6 - TCP))
}

/// A parsed IP header.
#[derive(Clone, Debug)]
pub(crate) struct Ip {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ecn: Ecn,
    pub protocol: u8,
    /// The payload's range in the packet; it may extend beyond a truncated packet.
    pub payload: Range<usize>,
}

/// Reads the IP header of `packet`, without requiring that its payload is present.
pub(crate) fn parse(packet: &[u8], verify: bool) -> Result<Ip, ParseError> {
    match packet.first().map(|byte| byte >> 4) {
        None => Err(ParseError::Truncated),
        Some(4) => parse_v4(packet, verify),
        Some(6) => parse_v6(packet),
        Some(version) => Err(ParseError::IpVersion(version)),
    }
}

fn parse_v4(packet: &[u8], verify: bool) -> Result<Ip, ParseError> {
    let header: &[u8; V4_LEN] = packet.first_chunk().ok_or(ParseError::Truncated)?;
    let len = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if len < V4_LEN || total < len {
        return Err(ParseError::IpHeader);
    }
    let whole = packet.get(..len).ok_or(ParseError::Truncated)?;
    if verify && checksum::sum(whole) != 0xffff {
        return Err(ParseError::IpChecksum);
    }
    // More fragments, or an offset (RFC 791 section 3.1).
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err(ParseError::Fragment);
    }
    Ok(Ip {
        source: Ipv4Addr::new(header[12], header[13], header[14], header[15]).into(),
        destination: Ipv4Addr::new(header[16], header[17], header[18], header[19]).into(),
        ecn: ecn(header[1]),
        protocol: header[9],
        payload: len..total,
    })
}

fn parse_v6(packet: &[u8]) -> Result<Ip, ParseError> {
    let header: &[u8; V6_LEN] = packet.first_chunk().ok_or(ParseError::Truncated)?;
    let end = V6_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut reader = Reader(&header[8..]);
    let (source, destination) = (reader.bytes::<16>(), reader.bytes::<16>());
    let (Some(source), Some(destination)) = (source, destination) else {
        return Err(ParseError::Truncated);
    };
    let (protocol, start) = skip_extensions(packet, header[6], end)?;
    Ok(Ip {
        source: Ipv6Addr::from(source).into(),
        destination: Ipv6Addr::from(destination).into(),
        ecn: ecn(header[1] >> 4),
        protocol,
        payload: start..end,
    })
}

/// Skips the extension headers (RFC 8200 section 4); returns the protocol and its offset.
pub(crate) fn skip_extensions(packet: &[u8], mut next: u8, end: usize) -> Result<(u8, usize), ParseError> {
    let mut at = V6_LEN;
    for _ in 0..=MAX_EXTENSIONS {
        match next {
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => {
                let header: &[u8; 8] =
                    packet.get(at..).and_then(<[u8]>::first_chunk).ok_or(ParseError::Truncated)?;
                // A packet with segments left has another final destination, and the checksum covers that
                // address.
                if next == 43 && header[3] != 0 {
                    return Err(ParseError::IpHeader);
                }
                at += 8 + 8 * usize::from(header[1]);
                next = header[0];
            }
            // A fragment header on an unfragmented packet has no effect (RFC 6946).
            44 => {
                let header: &[u8; 8] =
                    packet.get(at..).and_then(<[u8]>::first_chunk).ok_or(ParseError::Truncated)?;
                if u16::from_be_bytes([header[2], header[3]]) & 0xfff9 != 0 {
                    return Err(ParseError::Fragment);
                }
                at += 8;
                next = header[0];
            }
            _ => return if at <= end { Ok((next, at)) } else { Err(ParseError::IpHeader) },
        }
    }
    Err(ParseError::IpHeader)
}

/// RFC 3168 section 5; ECT(1) counts as ECT(0).
pub(crate) fn ecn(bits: u8) -> Ecn {
    match bits & 3 {
        0 => Ecn::NotEct,
        3 => Ecn::Ce,
        _ => Ecn::Ect0,
    }
}

/// Marks `packet` as a router with a long queue does (RFC 3168 section 5), and updates the header's checksum.
/// Returns whether it is marked now: a packet that is not ECN-capable, or that is no IP packet, is left as it
/// is.
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => {
            let Some(header) = packet.first_chunk_mut::<V4_LEN>() else { return false };
            if header[1] & 3 == 0 {
                return false;
            }
            let before = u16::from_be_bytes([header[0], header[1]]);
            header[1] |= 3;
            let after = u16::from_be_bytes([header[0], header[1]]);
            // RFC 1624 equation 3.
            let known = u16::from_be_bytes([header[10], header[11]]);
            let mut sum = u32::from(!known) + u32::from(!before) + u32::from(after);
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
            true
        }
        Some(6) => match packet.get_mut(1) {
            Some(byte) if *byte & 0x30 != 0 => {
                *byte |= 0x30;
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// True if an IP packet carries data of its transport, that is, unless it is a TCP segment without payload.
/// Bytes that are not a whole packet count as data.
pub fn carries_data(packet: &[u8]) -> bool {
    let Ok(header) = parse(packet, false) else { return true };
    match packet.get(header.payload.start + 12) {
        Some(offset) if header.protocol == TCP => header.payload.len() > usize::from(offset >> 4) * 4,
        _ => true,
    }
}

/// Returns the label of an IP packet for the links that it crosses: whether it [carries data](carries_data), whether
/// its sender supports ECN, and a number of its flow, from its addresses, protocol and ports.
pub fn label(packet: &[u8]) -> Label {
    let Ok(header) = parse(packet, false) else { return Label::default() };
    let hash = |hash: u64, bytes: &[u8]| {
        // FNV-1a.
        bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    let addresses = match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.get(12..20),
        _ => packet.get(8..40),
    };
    // TCP and UDP have their ports in the same place.
    let ports = packet.get(header.payload.start..header.payload.start + 4);
    let ports = ports.filter(|_| [TCP, UDP].contains(&header.protocol));
    let flow = hash(0xcbf2_9ce4_8422_2325, addresses.unwrap_or_default());
    let flow = hash(hash(flow, &[header.protocol]), ports.unwrap_or_default());
    Label { data: carries_data(packet), ect: header.ecn != Ecn::NotEct, flow }
}

/// Returns the two bits of `ecn` in the IP header.
pub(crate) fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::{carries_data, label};

    #[test]
    fn a_label_has_the_flow_and_the_ecn_of_a_packet() {
        let mut packet = [0_u8; 60];
        (packet[0], packet[3], packet[9], packet[32]) = (0x45, 60, 6, 8 << 4);
        let plain = label(&packet);
        assert!(!plain.ect && plain.data);
        packet[1] = 2;
        assert!(label(&packet).ect);
        packet[59] = 7;
        assert_eq!(label(&packet).flow, plain.flow, "the payload is no part of the flow");
        for place in [12, 19, 20, 23] {
            let mut other = packet;
            other[place] = 1;
            assert_ne!(label(&other).flow, plain.flow, "{place}");
        }
        assert_eq!(label(&[0x45]), anabranch_link::Label::default());
    }

    #[test]
    fn segments_without_payload_carry_no_data() {
        let mut v4 = [0_u8; 60];
        (v4[0], v4[3], v4[9], v4[32]) = (0x45, 52, 6, 8 << 4);
        assert!(!carries_data(&v4[..52]));
        v4[3] = 53;
        assert!(carries_data(&v4[..53]));
        v4[9] = 17;
        v4[3] = 28;
        assert!(carries_data(&v4[..28]));
        let mut v6 = [0_u8; 80];
        (v6[0], v6[5], v6[6], v6[52]) = (0x60, 20, 6, 5 << 4);
        assert!(!carries_data(&v6[..60]));
        v6[5] = 21;
        assert!(carries_data(&v6[..61]));
        assert!(carries_data(&[]) && carries_data(&[0x45]));
    }
}
