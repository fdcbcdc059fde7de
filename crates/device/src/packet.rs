//! A reusable packet buffer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest IP packet, with space for the headers of a super-packet.
pub(crate) const MAX_PACKET: usize = 65_535 + 120;

/// The space before the packet for the device's own header (the virtio-net header of a TUN device).
pub(crate) const HEADROOM: usize = 16;

/// The work that a packet leaves to the device, or the device to its reader.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Offload {
    /// The TCP checksum field holds only the sum of the pseudo-header. A received packet of this kind never
    /// was on a wire, and needs no verification.
    pub partial_checksum: bool,
    /// The payload of each of the segments that this packet stands for, in bytes; 0 if it is one segment.
    pub segment_size: u16,
}

/// One IP packet.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    buffer: Vec<u8>,
    len: usize,
    /// The work left to the device.
    pub offload: Offload,
}

impl Packet {
    /// Returns an empty packet with space for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Packet {
        Packet { buffer: vec![0; HEADROOM + capacity], len: 0, offload: Offload::default() }
    }

    /// Returns a copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Packet {
        let mut packet = Packet::with_capacity(bytes.len());
        packet.set_len(bytes.len());
        packet.bytes_mut().copy_from_slice(bytes);
        packet
    }

    /// Returns its bytes, from the IP header on.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[HEADROOM.min(self.buffer.len())..][..self.len]
    }

    /// Returns its bytes, from the IP header on.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = HEADROOM.min(self.buffer.len());
        &mut self.buffer[start..][..self.len]
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no packet was read into it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes it has space for.
    pub fn capacity(&self) -> usize {
        self.buffer.len().saturating_sub(HEADROOM)
    }

    /// Ensures space for `capacity` bytes.
    pub fn reserve(&mut self, capacity: usize) {
        if self.capacity() < capacity {
            self.buffer.resize(HEADROOM + capacity, 0);
        }
    }

    /// Makes it `len` bytes long; existing content is kept, and new content is unspecified.
    pub fn set_len(&mut self, len: usize) {
        self.reserve(len);
        self.len = len;
    }

    /// Returns the headroom and all space after it, for a device that reads into it.
    #[cfg(target_os = "linux")]
    pub(crate) fn whole(&mut self, headroom: usize) -> &mut [u8] {
        &mut self.buffer[HEADROOM - headroom..]
    }

    /// Returns the packet preceded by `headroom` bytes, for a device that writes it.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_headroom(&mut self, headroom: usize) -> &mut [u8] {
        let len = self.len;
        &mut self.buffer[HEADROOM - headroom..HEADROOM + len]
    }
}

/// Returns the source and the destination of an IP packet.
pub(crate) fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let address =
                |at: usize| packet.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets));
            Some((address(12)?.into(), address(16)?.into()))
        }
        6 => {
            let address =
                |at: usize| packet.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets));
            Some((address(8)?.into(), address(24)?.into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_keeps_its_bytes_when_it_grows() {
        let mut packet = Packet::default();
        assert!(packet.is_empty() && packet.bytes().is_empty() && packet.bytes_mut().is_empty());
        packet.set_len(3);
        packet.bytes_mut().copy_from_slice(b"abc");
        packet.set_len(500);
        assert_eq!(&packet.bytes()[..3], b"abc");
        assert_eq!(Packet::from_bytes(b"xyz").bytes(), b"xyz");
    }
}
