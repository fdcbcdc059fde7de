//! Writes segments as bytes.

use core::net::IpAddr;

use anabranch_stack::segment::{Flags, Segment};

use crate::checksum;
use crate::error::EmitError;
use crate::ip::{self, V4_LEN, V6_LEN};
use crate::options;
use crate::parse::TCP_LEN;

/// The fields of the IP header that the segment does not determine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpFields {
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// The identification of an IPv4 header. Every packet is sent with "don't fragment", for which
    /// it has no meaning (RFC 6864 section 4.1).
    pub identification: u16,
}

impl Default for IpFields {
    fn default() -> IpFields {
        IpFields { hop_limit: 64, identification: 0 }
    }
}

/// The party that computes the TCP checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksum {
    /// This crate.
    Full,
    /// The device, which adds the TCP header and payload to the sum of the pseudo-header that it
    /// finds in the field (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
    Offload,
}

/// The headers of a packet that [`emit_header`] has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    ip_len: u8,
    len: u8,
    pseudo: u16,
}

impl Header {
    /// Returns the length of the IP and TCP headers, which is the offset of the payload.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Always false: a packet has headers.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Returns the length of the IP header, which is the offset of the TCP header (`csum_start` of a
    /// virtio-net header; its `csum_offset` is 16).
    pub const fn ip_len(&self) -> usize {
        self.ip_len as usize
    }

    /// Writes the TCP checksum of `packet`, headers and payload.
    pub fn finish(&self, packet: &mut [u8], checksum: Checksum) {
        let payload = match (checksum, packet.get(self.len()..)) {
            (Checksum::Full, Some(payload)) => checksum::sum(payload),
            _ => 0,
        };
        self.finish_with_sum(packet, checksum, payload);
    }

    /// Writes the TCP checksum of `packet`. Only its headers need to be present: `payload` is the sum of the
    /// payload, as [`checksum::copy_and_sum`] returns it.
    pub fn finish_with_sum(&self, packet: &mut [u8], checksum: Checksum, payload: u16) {
        let field = match checksum {
            Checksum::Full => {
                let head = packet.get(self.ip_len()..self.len()).map_or(0, checksum::sum);
                !checksum::combine(checksum::combine(self.pseudo, head), payload)
            }
            Checksum::Offload => self.pseudo,
        };
        if let Some(place) = packet.get_mut(self.ip_len() + 16..self.ip_len() + 18) {
            place.copy_from_slice(&field.to_be_bytes());
        }
    }
}

/// Completes the TCP checksum of a packet with a partial checksum (only the sum of the pseudo-header), as
/// [`Checksum::Offload`] leaves it. A packet of another protocol is left as it is.
pub fn complete_checksum(packet: &mut [u8]) {
    let Ok(header) = ip::parse(packet, false) else { return };
    if header.protocol == ip::TCP
        && let Some(segment) = packet.get_mut(header.payload)
        && segment.len() >= TCP_LEN
    {
        let check = !checksum::sum(segment);
        segment[16..18].copy_from_slice(&check.to_be_bytes());
    }
}

/// Writes the IP and TCP headers of `segment` to the front of `out`, with the TCP checksum still zero. The
/// caller appends `segment.payload_len` bytes and calls [`Header::finish`].
///
/// # Errors
///
/// [`EmitError`]; `out` need only have space for the headers.
pub fn emit_header(segment: &Segment, ip: &IpFields, out: &mut [u8]) -> Result<Header, EmitError> {
    let (options, options_len) = options::emit(segment).ok_or(EmitError::Options)?;
    let tcp_len = TCP_LEN + options_len;
    let payload_len = segment.payload_len as usize;
    let (source, destination) = (segment.source.ip, segment.destination.ip);
    let ip_len = match (source, destination) {
        (IpAddr::V4(_), IpAddr::V4(_)) => V4_LEN,
        (IpAddr::V6(_), IpAddr::V6(_)) => V6_LEN,
        _ => return Err(EmitError::MixedFamilies),
    };
    let len = ip_len + tcp_len;
    let counted = if ip_len == V4_LEN { len } else { tcp_len };
    let counted = counted.checked_add(payload_len).and_then(|len| u16::try_from(len).ok());
    let counted = counted.ok_or(EmitError::TooLong)?;
    let Some(head) = out.get_mut(..len) else {
        return Err(EmitError::NoSpace { needed: len });
    };
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let [len_high, len_low] = counted.to_be_bytes();
            let [id_high, id_low] = ip.identification.to_be_bytes();
            let header = &mut head[..V4_LEN];
            header[..12].copy_from_slice(&[
                0x45,
                ip::ecn_bits(segment.ecn),
                len_high,
                len_low,
                id_high,
                id_low,
                // Don't fragment.
                0x40,
                0,
                ip.hop_limit,
                ip::TCP,
                0,
                0,
            ]);
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&destination.octets());
            let check = !checksum::sum(header);
            header[10..12].copy_from_slice(&check.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [len_high, len_low] = counted.to_be_bytes();
            let header = &mut head[..V6_LEN];
            header[..8].copy_from_slice(&[
                0x60,
                ip::ecn_bits(segment.ecn) << 4,
                0,
                0,
                len_high,
                len_low,
                ip::TCP,
                ip.hop_limit,
            ]);
            header[8..24].copy_from_slice(&source.octets());
            header[24..40].copy_from_slice(&destination.octets());
        }
        _ => return Err(EmitError::MixedFamilies),
    }
    let tcp = &mut head[ip_len..];
    tcp[0..2].copy_from_slice(&segment.source.port.to_be_bytes());
    tcp[2..4].copy_from_slice(&segment.destination.port.to_be_bytes());
    tcp[4..8].copy_from_slice(&segment.seq.0.to_be_bytes());
    // An acknowledgement number without the ACK flag is sent as zero (RFC 9293 section 3.10.7.1).
    let ack = if segment.flags.has(Flags::ACK) { segment.ack.0 } else { 0 };
    tcp[8..12].copy_from_slice(&ack.to_be_bytes());
    tcp[12] = (tcp_len as u8 / 4) << 4;
    // RFC 8684 section 3.3.1: urgent data must not interrupt a mapping, so none is ever sent.
    tcp[13] = segment.flags.0 & !0x20;
    tcp[14..16].copy_from_slice(&segment.window.to_be_bytes());
    tcp[16..20].fill(0);
    tcp[TCP_LEN..].copy_from_slice(&options[..options_len]);
    Ok(Header {
        ip_len: ip_len as u8,
        len: len as u8,
        pseudo: checksum::pseudo_header(source, destination, tcp_len + payload_len),
    })
}

/// Writes the whole packet of `segment` to the front of `out` and returns its length; `write` fills in the
/// payload.
///
/// # Errors
///
/// [`EmitError`]; `write` has not been called then.
pub fn emit(
    segment: &Segment,
    ip: &IpFields,
    checksum: Checksum,
    out: &mut [u8],
    write: impl FnOnce(&mut [u8]),
) -> Result<usize, EmitError> {
    let header = emit_header(segment, ip, out)?;
    let len = header.len() + segment.payload_len as usize;
    let Some(packet) = out.get_mut(..len) else {
        return Err(EmitError::NoSpace { needed: len });
    };
    write(&mut packet[header.len()..]);
    header.finish(packet, checksum);
    Ok(len)
}
