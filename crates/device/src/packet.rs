//! A packet in memory that is used again and again.

/// The longest IP packet, with room for the headers of a super-packet.
pub(crate) const MAX_PACKET: usize = 65_535 + 120;

/// Room before the packet for what a device puts there (the virtio-net header of a TUN device).
pub(crate) const HEADROOM: usize = 16;

/// What a packet leaves to the device, or the device to its reader.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Offload {
    /// The TCP checksum field holds the sum of the pseudo-header alone. In a packet that has come: it
    /// never was on a wire, and nobody need check it.
    pub partial_checksum: bool,
    /// The packet stands for several segments with so much payload each; 0 if it is one segment.
    pub segment_size: u16,
}

/// One IP packet.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    buffer: Vec<u8>,
    len: usize,
    /// What is left to the device.
    pub offload: Offload,
}

impl Packet {
    /// An empty packet with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Packet {
        Packet { buffer: vec![0; HEADROOM + capacity], len: 0, offload: Offload::default() }
    }

    /// A copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Packet {
        let mut packet = Packet::with_capacity(bytes.len());
        packet.set_len(bytes.len());
        packet.bytes_mut().copy_from_slice(bytes);
        packet
    }

    /// Its bytes, from the IP header on.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[HEADROOM.min(self.buffer.len())..][..self.len]
    }

    /// Its bytes, from the IP header on.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = HEADROOM.min(self.buffer.len());
        &mut self.buffer[start..][..self.len]
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes it has room for.
    pub fn capacity(&self) -> usize {
        self.buffer.len().saturating_sub(HEADROOM)
    }

    /// Makes room for `capacity` bytes.
    pub fn reserve(&mut self, capacity: usize) {
        if self.capacity() < capacity {
            self.buffer.resize(HEADROOM + capacity, 0);
        }
    }

    /// Makes it `len` bytes long; what it had before stays, and what is new is anything.
    pub fn set_len(&mut self, len: usize) {
        self.reserve(len);
        self.len = len;
    }

    /// The room before the packet and all behind it, for a device that reads into it.
    #[cfg(target_os = "linux")]
    pub(crate) fn whole(&mut self, headroom: usize) -> &mut [u8] {
        &mut self.buffer[HEADROOM - headroom..]
    }

    /// The packet with `headroom` bytes before it, for a device that writes it.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_headroom(&mut self, headroom: usize) -> &mut [u8] {
        let len = self.len;
        &mut self.buffer[HEADROOM - headroom..HEADROOM + len]
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
