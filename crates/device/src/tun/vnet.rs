//! The virtio-net header before each packet of a TUN device with `IFF_VNET_HDR`
//! (`linux/virtio_net.h`, in the byte order of the machine).

use crate::{Offload, Packet};

/// `struct virtio_net_hdr`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct VnetHeader {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

/// The checksum field holds the sum of the pseudo-header; the rest is to be added.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;

impl VnetHeader {
    /// The length of the header in bytes.
    pub(super) const LEN: usize = 10;

    /// Parses a header.
    pub(super) fn from_bytes(bytes: &[u8; VnetHeader::LEN]) -> VnetHeader {
        let u16_at = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        VnetHeader {
            flags: bytes[0],
            gso_type: bytes[1],
            header_len: u16_at(2),
            gso_size: u16_at(4),
            checksum_start: u16_at(6),
            checksum_offset: u16_at(8),
        }
    }

    /// Returns the header as bytes.
    pub(super) fn to_bytes(self) -> [u8; VnetHeader::LEN] {
        let mut bytes = [0; VnetHeader::LEN];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let words = [self.header_len, self.gso_size, self.checksum_start, self.checksum_offset];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Returns the work that the kernel left undone in a packet that it delivers.
    pub(super) fn offload(self) -> Offload {
        // The high bit marks segments that carry ECN's CWR, which makes no difference here.
        let tcp = matches!(self.gso_type & 0x7f, GSO_TCP4 | GSO_TCP6);
        Offload {
            partial_checksum: self.flags & NEEDS_CHECKSUM != 0,
            segment_size: if tcp { self.gso_size } else { 0 },
        }
    }

    /// Returns the header that asks the kernel to complete `packet`.
    pub(super) fn for_packet(packet: &Packet) -> VnetHeader {
        let bytes = packet.bytes();
        // The stack's packets have neither IPv4 options nor IPv6 extension headers.
        let (ip, gso_type) = match bytes.first().map(|first| first >> 4) {
            Some(4) => (20, GSO_TCP4),
            _ => (40, GSO_TCP6),
        };
        let mut header = VnetHeader::default();
        if packet.offload.partial_checksum {
            // Linux drops packets with VIRTIO_NET_HDR_F_DATA_VALID in this direction; it accepts this flag.
            header.flags = NEEDS_CHECKSUM;
            header.checksum_start = ip;
            header.checksum_offset = 16;
        }
        if packet.offload.segment_size > 0 {
            let tcp = bytes.get(usize::from(ip) + 12).map_or(20, |byte| u16::from(byte >> 4) * 4);
            header.gso_type = gso_type;
            header.gso_size = packet.offload.segment_size;
            header.header_len = ip + tcp;
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = VnetHeader {
            flags: 1,
            gso_type: 4,
            header_len: 92,
            gso_size: 1400,
            checksum_start: 40,
            checksum_offset: 16,
        };
        assert_eq!(VnetHeader::from_bytes(&header.to_bytes()), header);
        assert_eq!(header.offload(), Offload { partial_checksum: true, segment_size: 1400 });
    }

    #[test]
    fn a_super_packet_names_its_headers() {
        let mut bytes = [0_u8; 2000];
        bytes[0] = 0x45;
        bytes[32] = 15 << 4;
        let mut packet = Packet::from_bytes(&bytes);
        assert_eq!(VnetHeader::for_packet(&packet), VnetHeader::default());
        packet.offload = Offload { partial_checksum: true, segment_size: 1000 };
        let header = VnetHeader::for_packet(&packet);
        assert_eq!((header.header_len, header.gso_size, header.gso_type), (80, 1000, 1));
        assert_eq!((header.flags, header.checksum_start, header.checksum_offset), (1, 20, 16));
    }
}
