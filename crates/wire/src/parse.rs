//! Reads bytes as segments.

use core::ops::Range;

use anabranch_stack::segment::{Address, Flags, Segment};
use anabranch_stack::seq::Seq;

use crate::checksum;
use crate::error::ParseError;
use crate::ip;
use crate::options;

/// The length of a TCP header without options.
pub(crate) const TCP_LEN: usize = 20;

/// The control bits that the stack knows. URG is not one of them: urgent data is read in line (RFC 8684
/// section 3.3.1), so the urgent pointer has no effect.
pub(crate) const KNOWN_FLAGS: u8 = 0xdf;

/// The handling of checksums while parsing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// Wrong checksums are errors; [`Segment::payload_sum`] is computed on the way.
    Verify,
    /// The device has verified the checksums. Nothing is summed, and the payload's sum is 0.
    Trust,
    /// The device has verified the checksums, but the payload's sum is needed because the connection uses DSS
    /// checksums.
    TrustAndSum,
}

/// A parsed packet.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    /// The header fields, and [`Segment::payload_sum`] if it was computed.
    pub segment: Segment,
    /// The payload's range in the packet.
    pub payload: Range<usize>,
}

/// Reads one IPv4 or IPv6 packet that carries TCP.
///
/// IPv4 options and IPv6 extension headers are skipped; bytes beyond the length in the IP header are ignored.
/// TCP and MPTCP options that are unknown, malformed or out of place are skipped, and the segment is kept
/// (RFC 8684 section 3).
///
/// # Errors
///
/// [`ParseError`] if the bytes are not a TCP segment.
pub fn parse(packet: &[u8], checksums: Checksums) -> Result<Parsed, ParseError> {
    let verify = checksums == Checksums::Verify;
    let ip = ip::parse(packet, verify)?;
    if ip.protocol != ip::TCP {
        return Err(ParseError::Protocol(ip.protocol));
    }
    let tcp = packet.get(ip.payload.clone()).ok_or(ParseError::Truncated)?;
    let header: &[u8; TCP_LEN] = tcp.first_chunk().ok_or(ParseError::Truncated)?;
    let len = usize::from(header[12] >> 4) * 4;
    if len < TCP_LEN || len > tcp.len() {
        return Err(ParseError::TcpHeader);
    }
    let (head, payload) = tcp.split_at(len);
    let payload_sum = if checksums == Checksums::Trust { 0 } else { checksum::sum(payload) };
    if verify {
        let pseudo = checksum::pseudo_header(ip.source, ip.destination, tcp.len());
        let all = checksum::combine(checksum::combine(pseudo, checksum::sum(head)), payload_sum);
        if all != 0xffff {
            return Err(ParseError::TcpChecksum);
        }
    }
    let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let u32_at = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let source = Address::new(ip.source, u16_at(0));
    let destination = Address::new(ip.destination, u16_at(2));
    let mut segment = Segment::new(source, destination, Seq(u32_at(4)), Flags(header[13] & KNOWN_FLAGS));
    if segment.flags.has(Flags::ACK) {
        segment.ack = Seq(u32_at(8));
    }
    segment.window = u16_at(14);
    segment.ecn = ip.ecn;
    segment.payload_len = payload.len() as u32;
    segment.payload_sum = payload_sum;
    options::parse(&head[TCP_LEN..], &mut segment);
    Ok(Parsed { segment, payload: ip.payload.start + len..ip.payload.end })
}
