//! A lenient reading of packets in captures.
//!
//! A capture has packets that no host would accept: payload that was not kept, checksums that a device completes
//! later, super-packets of segmentation offload, headers that are cut off. [`view`] reads what is there.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use anabranch_stack::segment::{Address, Flags, Segment};
use anabranch_stack::seq::Seq;

use crate::error::ParseError;
use crate::ip;
use crate::options;
use crate::parse::{KNOWN_FLAGS, TCP_LEN};

/// A packet of a capture that carries TCP.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// The header fields; the length of the payload is the length on the wire.
    pub segment: Segment,
    /// The options' range in the captured bytes.
    pub options: Range<usize>,
    /// The captured payload's range.
    pub payload: Range<usize>,
    /// The length of the packet on the wire, from the IP header on.
    pub wire_len: u32,
    /// The identification of an IPv4 packet; 0 for IPv6.
    pub ip_id: u16,
    /// True if the options are cut off.
    pub is_cut: bool,
}

/// Reads the packet that begins with `bytes` and had `original_len` bytes on the wire. Checksums are not verified. An
/// IP length of 0, as packets have before segmentation offload, stands for `original_len`.
///
/// # Errors
///
/// [`ParseError`] if it is no TCP segment, a fragment, or its TCP header is cut off.
pub fn view(bytes: &[u8], original_len: u32) -> Result<View, ParseError> {
    let u16_at = |at: usize| -> Result<u16, ParseError> {
        let two = bytes.get(at..at + 2).and_then(|two| two.try_into().ok()).ok_or(ParseError::Truncated)?;
        Ok(u16::from_be_bytes(two))
    };
    let first = *bytes.first().ok_or(ParseError::Truncated)?;
    let original_len = (original_len as usize).max(bytes.len());
    let (source, destination, ecn, protocol, start, total, ip_id) = match first >> 4 {
        4 => {
            let header: &[u8; ip::V4_LEN] = bytes.first_chunk().ok_or(ParseError::Truncated)?;
            let start = usize::from(first & 0x0f) * 4;
            let stated = usize::from(u16_at(2)?);
            if start < ip::V4_LEN || (stated != 0 && stated < start) {
                return Err(ParseError::IpHeader);
            }
            if u16_at(6)? & 0x3fff != 0 {
                return Err(ParseError::Fragment);
            }
            let four = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
            let total = if stated == 0 { original_len } else { stated };
            (four(12).into(), four(16).into(), ip::ecn(header[1]), header[9], start, total, u16_at(4)?)
        }
        6 => {
            let header: &[u8; ip::V6_LEN] = bytes.first_chunk().ok_or(ParseError::Truncated)?;
            let stated = usize::from(u16_at(4)?);
            let total = if stated == 0 { original_len } else { ip::V6_LEN + stated };
            let (protocol, start) = ip::skip_extensions(bytes, header[6], usize::MAX)?;
            let (mut source, mut destination) = ([0; 16], [0; 16]);
            source.copy_from_slice(&header[8..24]);
            destination.copy_from_slice(&header[24..40]);
            let (source, destination) = (Ipv6Addr::from(source), Ipv6Addr::from(destination));
            (source.into(), destination.into(), ip::ecn(header[1] >> 4), protocol, start, total, 0)
        }
        version => return Err(ParseError::IpVersion(version)),
    };
    if protocol != ip::TCP {
        return Err(ParseError::Protocol(protocol));
    }
    let tcp = bytes.get(start..).ok_or(ParseError::Truncated)?;
    let header: &[u8; TCP_LEN] = tcp.first_chunk().ok_or(ParseError::Truncated)?;
    let len = usize::from(header[12] >> 4) * 4;
    if len < TCP_LEN || total < start + len {
        return Err(ParseError::TcpHeader);
    }
    let tcp16 = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let tcp32 = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let from = Address::new(source, tcp16(0));
    let to = Address::new(destination, tcp16(2));
    let mut segment = Segment::new(from, to, Seq(tcp32(4)), Flags(header[13] & KNOWN_FLAGS));
    if segment.flags.has(Flags::ACK) {
        segment.ack = Seq(tcp32(8));
    }
    segment.window = tcp16(14);
    segment.ecn = ecn;
    segment.payload_len = u32::try_from(total - start - len).unwrap_or(u32::MAX);
    let end = start + len;
    let present = end.min(bytes.len());
    options::parse(&bytes[start + TCP_LEN..present], &mut segment);
    Ok(View {
        segment,
        options: start + TCP_LEN..present,
        payload: present..bytes.len().min(total).max(present),
        wire_len: u32::try_from(total).unwrap_or(u32::MAX),
        ip_id,
        is_cut: end > bytes.len(),
    })
}

/// Calls `each` with every option of kind 30 in the bytes of TCP options: from the subtype on, without kind and
/// length. Returns false if the list ends with an impossible length.
pub fn each_mptcp_option<'a>(mut bytes: &'a [u8], mut each: impl FnMut(&'a [u8])) -> bool {
    while let [kind, rest @ ..] = bytes {
        match kind {
            0 => return true,
            1 => bytes = rest,
            _ => {
                let Some(len) = rest.first().map(|len| usize::from(*len)).filter(|len| *len >= 2) else {
                    return false;
                };
                let Some(body) = bytes.get(2..len) else { return false };
                if *kind == 30 {
                    each(body);
                }
                bytes = &bytes[len..];
            }
        }
    }
    true
}
