//! ICMP errors about TCP segments.

use anabranch_stack::segment::Address;
use anabranch_stack::seq::Seq;

use crate::checksum;
use crate::fields::Reader;
use crate::ip;

/// The kind of an ICMP error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpKind {
    /// The packet exceeds the MTU of the next link (ICMP type 3 code 4, ICMPv6 type 2).
    TooBig {
        /// The MTU of that link in bytes, IP header included; none from a router older than RFC 1191.
        mtu: Option<u32>,
    },
    /// The destination cannot be reached (ICMP type 3, ICMPv6 type 1).
    Unreachable {
        /// The code, of ICMP or ICMPv6 by the family of the addresses.
        code: u8,
    },
    /// The hop limit was exceeded, or the packet was rejected for its header.
    Other,
}

/// An ICMP or ICMPv6 error about a TCP segment.
///
/// Errors can be forged: before acting on one, check that `seq` lies in the data sent and not yet
/// acknowledged (RFC 5927 section 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IcmpError {
    /// The source of the segment: this host's end.
    pub source: Address,
    /// The destination of the segment.
    pub destination: Address,
    /// Its sequence number.
    pub seq: Seq,
    /// The kind of error.
    pub kind: IcmpKind,
    /// The length of the packet that carried the segment, by its IP header.
    pub packet_len: usize,
}

/// Reads an ICMPv4 or ICMPv6 error that quotes a TCP segment; none if `packet` is anything else,
/// or its checksum is wrong.
///
/// The quote may be as short as the IP header and eight bytes.
pub fn parse_icmp(packet: &[u8]) -> Option<IcmpError> {
    let outer = ip::parse(packet, true).ok()?;
    let message = packet.get(outer.payload.clone())?;
    let covered = match outer.protocol {
        ip::ICMP if outer.source.is_ipv4() => 0,
        ip::ICMP_V6 if outer.source.is_ipv6() => {
            ip::covered_by_icmp_v6(outer.source, outer.destination, message.len())
        }
        _ => return None,
    };
    if checksum::combine(covered, checksum::sum(message)) != 0xffff {
        return None;
    }
    let mut reader = Reader(message);
    let (kind, code) = (reader.u8()?, reader.u8()?);
    let (_checksum, rest) = (reader.u16()?, reader.u32()?);
    let kind = match (outer.protocol, kind, code) {
        // RFC 1191 section 4: the low half of the second word.
        (ip::ICMP, 3, 4) => IcmpKind::TooBig { mtu: Some(rest & 0xffff).filter(|mtu| *mtu > 0) },
        (ip::ICMP_V6, 2, _) => IcmpKind::TooBig { mtu: Some(rest) },
        (ip::ICMP, 3, _) | (ip::ICMP_V6, 1, _) => IcmpKind::Unreachable { code },
        (ip::ICMP, 11 | 12, _) | (ip::ICMP_V6, 3 | 4, _) => IcmpKind::Other,
        _ => return None,
    };
    let quote = reader.0;
    // Routers on the path may have changed the quoted header without updating its checksum.
    let inner = ip::parse(quote, false).ok()?;
    if inner.protocol != ip::TCP || inner.source.is_ipv4() != outer.source.is_ipv4() {
        return None;
    }
    let mut tcp = Reader(quote.get(inner.payload.start..)?);
    let source = Address::new(inner.source, tcp.u16()?);
    let destination = Address::new(inner.destination, tcp.u16()?);
    Some(IcmpError { source, destination, seq: Seq(tcp.u32()?), kind, packet_len: inner.payload.end })
}
