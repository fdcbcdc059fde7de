//! The layout of a TCP packet, for the middleboxes that change it.

use anabranch_wire::checksum;

use anabranch_device::Packet;

/// The kinds of TCP options that a middlebox here knows.
pub(super) const NOP: u8 = 1;
pub(super) const SACK: u8 = 5;
/// Multipath TCP (RFC 8684 section 8.1).
pub(super) const MPTCP: u8 = 30;

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;

/// The offsets of TCP in a packet: IPv4, or IPv6 without extension headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    v6: bool,
    /// The offset of the TCP header.
    pub tcp: usize,
    /// The offset of the payload.
    pub payload: usize,
    /// The end of the payload.
    pub end: usize,
}

impl Layout {
    /// Returns the layout of `bytes`; none if it is no TCP packet, or incomplete.
    pub(crate) fn of(bytes: &[u8]) -> Option<Layout> {
        let (v6, tcp, end) = match bytes.first()? >> 4 {
            4 if *bytes.get(9)? == 6 => {
                let total = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
                (false, usize::from(bytes[0] & 15) * 4, usize::from(total))
            }
            6 if *bytes.get(6)? == 6 => {
                let len = u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?]);
                (true, 40, 40 + usize::from(len))
            }
            _ => return None,
        };
        let header = usize::from(*bytes.get(tcp + 12)? >> 4) * 4;
        let payload = tcp + header;
        (header >= 20 && payload <= end && end <= bytes.len()).then_some(Layout { v6, tcp, payload, end })
    }

    pub(crate) fn flags(&self, bytes: &[u8]) -> u8 {
        bytes[self.tcp + 13]
    }

    pub(crate) fn sequence(&self, bytes: &[u8]) -> u32 {
        get_u32(bytes, self.tcp + 4)
    }

    pub(crate) fn acknowledgement(&self, bytes: &[u8]) -> u32 {
        get_u32(bytes, self.tcp + 8)
    }

    pub(crate) fn payload_len(&self) -> usize {
        self.end - self.payload
    }

    /// Returns the offset and length of each option of `kind`.
    pub(crate) fn options(&self, bytes: &[u8], kind: u8) -> Vec<(usize, usize)> {
        let (mut at, mut found) = (self.tcp + 20, Vec::new());
        while at < self.payload {
            match bytes[at] {
                0 => break,
                NOP => at += 1,
                this => {
                    let len = bytes.get(at + 1).map_or(0, |len| usize::from(*len));
                    if len < 2 || at + len > self.payload {
                        break;
                    }
                    if this == kind {
                        found.push((at, len));
                    }
                    at += len;
                }
            }
        }
        found
    }

    /// Returns both addresses and ports, which are the same for all packets of one direction of one
    /// connection.
    pub(crate) fn flow(&self, bytes: &[u8]) -> Vec<u8> {
        let addresses = if self.v6 { 8..40 } else { 12..20 };
        [&bytes[addresses], &bytes[self.tcp..self.tcp + 4]].concat()
    }
}

pub(super) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Returns a packet from `headers` (the IP and TCP headers of `layout`) and `payload`, with lengths and
/// checksums corrected.
pub(super) fn assemble(layout: Layout, headers: &[u8], payload: &[u8]) -> Packet {
    let len = layout.payload + payload.len();
    let mut packet = Packet::with_capacity(len);
    packet.set_len(len);
    let bytes = packet.bytes_mut();
    bytes[..layout.payload].copy_from_slice(&headers[..layout.payload]);
    bytes[layout.payload..].copy_from_slice(payload);
    let at = if layout.v6 { 4 } else { 2 };
    let ip_len = if layout.v6 { len - 40 } else { len };
    bytes[at..at + 2].copy_from_slice(&(ip_len as u16).to_be_bytes());
    if !layout.v6 {
        bytes[10..12].fill(0);
        let sum = checksum::sum(&bytes[..layout.tcp]);
        bytes[10..12].copy_from_slice(&(!sum).to_be_bytes());
    }
    finish(Layout { end: len, ..layout }, bytes);
    packet
}

/// Writes the TCP checksum.
pub(super) fn finish(layout: Layout, bytes: &mut [u8]) {
    let tcp = layout.end - layout.tcp;
    let addresses = if layout.v6 { 8..40 } else { 12..20 };
    let pseudo = checksum::combine(checksum::sum(&bytes[addresses]), (tcp + 6) as u16);
    let at = layout.tcp + 16;
    bytes[at..at + 2].fill(0);
    let sum = checksum::combine(pseudo, checksum::sum(&bytes[layout.tcp..layout.end]));
    bytes[at..at + 2].copy_from_slice(&(!sum).to_be_bytes());
}
